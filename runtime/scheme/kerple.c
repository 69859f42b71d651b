/* kerple: a logarithm of the distance, whose two numbers per head are rows of TABLE. */
#include "terms.h"

static rhumb_result resolve(const rhumb_context *context, const void *params,
                            const rhumb_plan_info *info, rhumb_terms *terms)
{
    static const rhumb_term_views views = {.required = BIT(RHUMB_VIEW_TABLE)};
    rhumb_kerple p;
    rhumb_init_kerple(&p);
    RHUMB_TRY(
        rhumb_adopt(context, "kerple", "rhumb_kerple", params, RHUMB_TYPE_KERPLE, &p, sizeof p));
    RHUMB_TRY(rhumb_take_term_views(context, "kerple", info, &views, terms));
    if (!rhumb_makes_logits(info))
        return RHUMB_OK; /* no table has a row for a distance */
    terms->mask = (terms->mask & ~(uint32_t)TERM_TABLE) | TERM_LOGARITHM;
    terms->rows = 2;
    return RHUMB_OK;
}

const rhumb_scheme rhumb_scheme_kerple = {
    .name = "kerple",
    .type = RHUMB_TYPE_KERPLE,
    .resolve_terms = resolve,
};
