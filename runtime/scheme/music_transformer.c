/* music_transformer: a row per distance, and no term beyond them. */
#include "terms.h"

static rhumb_result resolve(const rhumb_context *context, const void *params,
                            const rhumb_plan_info *info, rhumb_terms *terms)
{
    static const rhumb_term_views views = {
        .required = BIT(RHUMB_VIEW_QUERY_TABLE),
        .optional = BIT(RHUMB_VIEW_VALUE_TABLE),
    };
    rhumb_music_transformer p;
    rhumb_init_music_transformer(&p);
    RHUMB_TRY(rhumb_adopt(context, "music_transformer", "rhumb_music_transformer", params,
                          RHUMB_TYPE_MUSIC_TRANSFORMER, &p, sizeof p));
    RHUMB_TRY(rhumb_check_range(context, "music_transformer", "max_relative_position",
                                p.max_relative_position, 1, RHUMB_MAX_LENGTH));
    RHUMB_TRY(
        rhumb_check_range(context, "music_transformer", "bidirectional", p.bidirectional, 0, 1));
    RHUMB_TRY(rhumb_take_term_views(context, "music_transformer", info, &views, terms));
    int32_t most = (int32_t)p.max_relative_position - 1; /* distance that has a row */
    terms->none_below = -most;
    terms->none_above = p.bidirectional ? most : 0;
    terms->rows = (uint32_t)(most + terms->none_above) + 1;
    rhumb_set_line(terms, most, 1, terms->none_below, terms->none_above);
    return RHUMB_OK;
}

const rhumb_scheme rhumb_scheme_music_transformer = {
    .name = "music_transformer",
    .type = RHUMB_TYPE_MUSIC_TRANSFORMER,
    .resolve_terms = resolve,
};
