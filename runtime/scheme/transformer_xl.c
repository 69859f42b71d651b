/* transformer_xl: a row per distance to the past, made by projection or learned. */
#include "terms.h"

static rhumb_result check(const rhumb_context *context, const rhumb_transformer_xl *p)
{
    const char *name = "transformer_xl";
    bool learned = p->variant == RHUMB_XL_LEARNED;
    RHUMB_TRY(rhumb_check_enum(context, name, "variant", "rhumb_xl_variant", (uint32_t)p->variant,
                               RHUMB_XL_LEARNED));
    RHUMB_TRY(rhumb_check_range(context, name, "bidirectional", p->bidirectional, 0, 1));
    RHUMB_TRY(rhumb_check_range(context, name, "folded", p->folded, 0, 1));
    if (!learned && p->table_rows)
        return rhumb_fail(
            context, RHUMB_ERROR_ARGUMENT,
            "transformer_xl: table_rows: wanted 0, as variant is SINUSOIDAL, found %u",
            p->table_rows);
    if (learned && (p->clamp_len || p->bidirectional || p->folded))
        return rhumb_fail(
            context, RHUMB_ERROR_ARGUMENT,
            "transformer_xl: clamp_len, bidirectional and folded: wanted 0, as variant "
            "is LEARNED, found %u, %u and %u",
            p->clamp_len, p->bidirectional, p->folded);
    if (learned)
        return rhumb_check_range(context, name, "table_rows", p->table_rows, 1, RHUMB_MAX_LENGTH);
    return rhumb_check_sinusoid_rows(context, name, p->clamp_len);
}

static rhumb_result resolve(const rhumb_context *context, const void *params,
                            const rhumb_plan_info *info, rhumb_terms *terms)
{
    rhumb_transformer_xl p;
    rhumb_init_transformer_xl(&p);
    RHUMB_TRY(rhumb_adopt(context, "transformer_xl", "rhumb_transformer_xl", params,
                          RHUMB_TYPE_TRANSFORMER_XL, &p, sizeof p));
    RHUMB_TRY(check(context, &p));
    bool learned = p.variant == RHUMB_XL_LEARNED;
    RHUMB_TRY(rhumb_take_xl_views(context, "transformer_xl", info, learned || p.folded, 0, terms));
    terms->folded = p.folded;
    if (!learned)
        return rhumb_set_sinusoid_rows(context, "transformer_xl", info, p.clamp_len,
                                       p.bidirectional, terms);
    int32_t last = (int32_t)p.table_rows - 1;
    terms->rows = p.table_rows;
    terms->none_above = 0;
    rhumb_set_line(terms, last, 1, -last, 0);
    return RHUMB_OK;
}

const rhumb_scheme rhumb_scheme_transformer_xl = {
    .name = "transformer_xl",
    .type = RHUMB_TYPE_TRANSFORMER_XL,
    .resolve_terms = resolve,
};
