/* What transformer_xl and xlnet share: tables made from the sinusoids of all distances. */
#include "terms.h"

rhumb_result rhumb_check_sinusoid_rows(const rhumb_context *context, const char *scheme,
                                       uint32_t clamp_len)
{
    return rhumb_check_range(context, scheme, "clamp_len", clamp_len, 0, RHUMB_MAX_LENGTH - 1);
}

rhumb_result rhumb_take_xl_views(const rhumb_context *context, const char *scheme,
                                 const rhumb_plan_info *info, bool scalar, uint32_t segments,
                                 rhumb_terms *terms)
{
    const rhumb_term_views views = {
        .required = BIT(RHUMB_VIEW_CONTENT_BIAS) | BIT(RHUMB_VIEW_QUERY_TABLE) |
                    (scalar ? BIT(RHUMB_VIEW_TABLE_SCALAR) : BIT(RHUMB_VIEW_POSITION_BIAS)) |
                    segments,
    };
    return rhumb_take_term_views(context, scheme, info, &views, terms);
}

rhumb_result rhumb_set_sinusoid_rows(const rhumb_context *context, const char *scheme,
                                     const rhumb_plan_info *info, uint32_t clamp_len,
                                     bool both_sides, rhumb_terms *terms)
{
    /* Positions are below the larger length, whether rows are counted from the first key or so that
     * the last row meets the last key. */
    uint32_t length = rhumb_max_u32(info->max_q_length, info->max_k_length);
    if (!clamp_len)
        RHUMB_TRY(rhumb_check_range(context, scheme, "the larger of max_q_length and max_k_length",
                                    length, 1, RHUMB_MAX_LENGTH));
    uint32_t most = clamp_len ? clamp_len : length - 1;
    int32_t far = (int32_t)most;
    terms->rows = both_sides ? 2 * most + 1 : most + 1;
    rhumb_set_line(terms, both_sides ? far : 0, -1, -far, both_sides ? far : 0);
    if (!both_sides)
        terms->none_above = 0;
    if (!clamp_len) {
        terms->reach_past = most;
        terms->reach_future = both_sides ? most : UINT32_MAX;
    }
    return RHUMB_OK;
}
