/* shaw: a row per clipped distance. */
#include "terms.h"

/* The table of a model without a clip ends where its positions do: distances beyond have no row. */
static rhumb_result check_reach(const rhumb_context *context, const rhumb_shaw *p,
                                const rhumb_plan_info *info)
{
    uint32_t length = rhumb_max_u32(info->max_q_length, info->max_k_length);
    uint32_t least = rhumb_min_u32(p->clip_left, p->clip_right);
    if (p->beyond == RHUMB_BEYOND_CLAMP || !rhumb_makes_logits(info))
        return RHUMB_OK;
    if (info->views & (BIT(RHUMB_VIEW_POSITIONS_Q) | BIT(RHUMB_VIEW_POSITIONS_K)))
        return rhumb_fail(context, RHUMB_ERROR_UNSUPPORTED,
                          "shaw: beyond: wanted CLAMP with position views, whose distances are not "
                          "known before, found REFUSE");
    if (length > least + 1)
        return rhumb_fail(context, RHUMB_ERROR_LIMIT,
                          "shaw: beyond: REFUSE wanted lengths up to %u, as the table has rows for "
                          "%u to the left and %u to the right, found max_q_length %u and "
                          "max_k_length %u",
                          least + 1, p->clip_left, p->clip_right, info->max_q_length,
                          info->max_k_length);
    return RHUMB_OK;
}

static rhumb_result check(const rhumb_context *context, const rhumb_shaw *p)
{
    RHUMB_TRY(rhumb_check_enum(context, "shaw", "index", "rhumb_relative_index", (uint32_t)p->index,
                               RHUMB_QUERY_MINUS_KEY));
    RHUMB_TRY(rhumb_check_enum(context, "shaw", "beyond", "rhumb_beyond_table", (uint32_t)p->beyond,
                               RHUMB_BEYOND_REFUSE));
    RHUMB_TRY(
        rhumb_check_range(context, "shaw", "clip_left", p->clip_left, 0, RHUMB_MAX_LENGTH - 1));
    RHUMB_TRY(
        rhumb_check_range(context, "shaw", "clip_right", p->clip_right, 0, RHUMB_MAX_LENGTH - 1));
    if (!p->clip_left && !p->clip_right)
        return rhumb_fail(
            context, RHUMB_ERROR_ARGUMENT,
            "shaw: clip_left: wanted 1 or more on one side, found 0 and clip_right 0");
    return RHUMB_OK;
}

static rhumb_result resolve(const rhumb_context *context, const void *params,
                            const rhumb_plan_info *info, rhumb_terms *terms)
{
    static const rhumb_term_views views = {
        .one_of = BIT(RHUMB_VIEW_QUERY_TABLE) | BIT(RHUMB_VIEW_KEY_TABLE) |
                  BIT(RHUMB_VIEW_VALUE_TABLE) | BIT(RHUMB_VIEW_TABLE),
    };
    rhumb_shaw p;
    rhumb_init_shaw(&p);
    RHUMB_TRY(rhumb_adopt(context, "shaw", "rhumb_shaw", params, RHUMB_TYPE_SHAW, &p, sizeof p));
    RHUMB_TRY(check(context, &p));
    RHUMB_TRY(rhumb_take_term_views(context, "shaw", info, &views, terms));
    RHUMB_TRY(check_reach(context, &p, info));
    int32_t left = (int32_t)p.clip_left, right = (int32_t)p.clip_right;
    terms->rows = p.clip_left + p.clip_right + 1;
    if (p.index == RHUMB_KEY_MINUS_QUERY)
        rhumb_set_line(terms, left, 1, -left, right);
    else
        rhumb_set_line(terms, left, -1, -right, left);
    if (p.beyond == RHUMB_BEYOND_REFUSE)
        terms->reach_past = terms->reach_future = rhumb_min_u32(p.clip_left, p.clip_right);
    return RHUMB_OK;
}

const rhumb_scheme rhumb_scheme_shaw = {
    .name = "shaw",
    .type = RHUMB_TYPE_SHAW,
    .resolve_terms = resolve,
};
