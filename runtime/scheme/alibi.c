/* alibi: slopes of the heads. */
#include "terms.h"

#include <math.h>

/* Slope of head h, as a positive number. The series is that of the heads that have one. */
static double slope_of(const rhumb_alibi *p, uint32_t all, uint32_t h)
{
    double c = p->bias_max;
    uint32_t heads = rhumb_min_u32(all, p->sloped_heads);
    if (h >= heads)
        return 0.0;
    if (p->slopes == RHUMB_ALIBI_SLOPES_CLOSED_FORM)
        return exp2(-c * (h + 1) / heads);
    uint32_t n = 1;
    while (2 * n <= heads)
        n *= 2;
    return h < n ? exp2(-c * (h + 1) / n) : exp2(-c * (2.0 * (h - n) + 1) / (2.0 * n));
}

static rhumb_result check(const rhumb_context *context, const rhumb_alibi *p, uint32_t heads)
{
    if ((uint32_t)p->slopes > RHUMB_ALIBI_SLOPES_EXPLICIT)
        return rhumb_fail(context, RHUMB_ERROR_ARGUMENT,
                          "alibi: slopes: wanted a rhumb_alibi_slopes, found %d", (int)p->slopes);
    if ((uint32_t)p->form > RHUMB_ALIBI_KEY_POSITION)
        return rhumb_fail(context, RHUMB_ERROR_ARGUMENT,
                          "alibi: form: wanted a rhumb_alibi_form, found %d", (int)p->form);
    if (p->bias_times_scale > 1)
        return rhumb_fail(context, RHUMB_ERROR_ARGUMENT,
                          "alibi: bias_times_scale: wanted 0 or 1, found %u", p->bias_times_scale);
    if (heads < 1 || heads > RHUMB_MAX_SLOPES)
        return rhumb_fail(context, RHUMB_ERROR_LIMIT, "alibi: heads: wanted 1 to %u, found %u",
                          RHUMB_MAX_SLOPES, heads);
    if (!isfinite(p->bias_max) || p->bias_max <= 0)
        return rhumb_fail(context, RHUMB_ERROR_ARGUMENT,
                          "alibi: bias_max: wanted a finite number above 0, found %g", p->bias_max);
    bool is_explicit = p->slopes == RHUMB_ALIBI_SLOPES_EXPLICIT;
    if (is_explicit ? !p->left_slopes || p->list_count != heads
                    : p->left_slopes || p->right_slopes || p->list_count)
        return rhumb_fail(context, RHUMB_ERROR_ARGUMENT,
                          "alibi: left_slopes: wanted %s of %u elements, found %s of %u",
                          is_explicit ? "a list" : "none, as slopes are not EXPLICIT,",
                          is_explicit ? heads : 0, p->left_slopes ? "a list" : "none",
                          p->list_count);
    if (p->right_slopes && p->form != RHUMB_ALIBI_SYMMETRIC)
        return rhumb_fail(
            context, RHUMB_ERROR_ARGUMENT,
            "alibi: right_slopes: wanted NULL, as form is not SYMMETRIC, found a list");
    for (uint32_t h = 0; is_explicit && h < heads; h++)
        if (!isfinite((float)p->left_slopes[h]) ||
            (p->right_slopes && !isfinite((float)p->right_slopes[h])))
            return rhumb_fail(context, RHUMB_ERROR_ARGUMENT,
                              "alibi: slopes of head %u: wanted numbers that are finite as floats, "
                              "found others",
                              h);
    return RHUMB_OK;
}

/* Both sides as positive slopes of a symmetric bias. */
static rhumb_result slopes(const rhumb_context *context, const rhumb_alibi *given, uint32_t heads,
                           rhumb_alibi *p, double (*slope)[2])
{
    rhumb_init_alibi(p);
    RHUMB_TRY(rhumb_adopt(context, "alibi", "rhumb_alibi", given, RHUMB_TYPE_ALIBI, p, sizeof *p));
    RHUMB_TRY(check(context, p, heads));
    for (uint32_t h = 0; h < heads; h++) {
        bool is_explicit = p->slopes == RHUMB_ALIBI_SLOPES_EXPLICIT;
        slope[h][0] =
            is_explicit ? (h < p->sloped_heads ? p->left_slopes[h] : 0.0) : slope_of(p, heads, h);
        slope[h][1] = p->right_slopes && h < p->sloped_heads ? p->right_slopes[h] : slope[h][0];
    }
    return RHUMB_OK;
}

rhumb_result rhumb_alibi_slopes_of(const rhumb_alibi *alibi, uint32_t heads, double *left,
                                   double *right)
{
    rhumb_alibi p;
    double slope[RHUMB_MAX_SLOPES][2];
    if (!left)
        return rhumb_fail(NULL, RHUMB_ERROR_ARGUMENT,
                          "alibi_slopes_of: left: wanted a place for the slopes, found NULL");
    RHUMB_TRY(slopes(NULL, alibi, heads, &p, slope));
    for (uint32_t h = 0; h < heads; h++) {
        left[h] = slope[h][0];
        if (right)
            right[h] = slope[h][1];
    }
    return RHUMB_OK;
}

/* Forms other than SYMMETRIC are straight lines: the future's slope is the past's with its sign
 * turned. ATTENTION counts KEY_INDEX and LAST_KEY from the query: the numbers of a row differ by one
 * that softmax does not see, but a sink, LSE and a softcap do; with positions of both sides distances
 * are no differences of indices. */
static rhumb_result resolve(const rhumb_context *context, const void *params,
                            const rhumb_plan_info *info, rhumb_terms *terms)
{
    static const rhumb_term_views views = {0};
    const uint32_t absolute = RHUMB_VIEW_BIT(RHUMB_VIEW_SINKS) | RHUMB_VIEW_BIT(RHUMB_VIEW_LSE);
    const uint32_t positions =
        RHUMB_VIEW_BIT(RHUMB_VIEW_POSITIONS_Q) | RHUMB_VIEW_BIT(RHUMB_VIEW_POSITIONS_K);
    bool from_query = info->op == RHUMB_OP_ATTENTION && !(info->views & absolute) &&
                      (info->views & positions) != positions;
    rhumb_alibi p;
    RHUMB_TRY(slopes(context, params, info->heads, &p, terms->slope));
    terms->mask = TERM_SLOPE;
    RHUMB_TRY(rhumb_take_term_views(context, "alibi", info, &views, terms));
    terms->bias_in_scale = p.bias_times_scale;
    if (p.form == RHUMB_ALIBI_SYMMETRIC)
        return RHUMB_OK;
    for (uint32_t h = 0; h < info->heads; h++)
        terms->slope[h][1] = -terms->slope[h][0];
    if (p.form == RHUMB_ALIBI_KEY_POSITION)
        terms->capped_reference = SLOPE_BY_POSITION;
    else if (p.form == RHUMB_ALIBI_KEY_INDEX)
        terms->capped_reference = SLOPE_FROM_FIRST_KEY;
    else if (p.form == RHUMB_ALIBI_LAST_KEY)
        terms->capped_reference = SLOPE_FROM_LAST_KEY;
    if (!from_query || p.form == RHUMB_ALIBI_KEY_POSITION)
        terms->slope_reference = terms->capped_reference;
    if (terms->slope_reference == SLOPE_BY_POSITION &&
        !(info->views & RHUMB_VIEW_BIT(RHUMB_VIEW_POSITIONS_K)))
        return rhumb_fail(context, RHUMB_ERROR_ARGUMENT,
                          "alibi: views: wanted POSITIONS_K for KEY_POSITION, found none");
    return RHUMB_OK;
}

const rhumb_scheme rhumb_scheme_alibi = {
    .name = "alibi",
    .type = RHUMB_TYPE_ALIBI,
    .resolve_terms = resolve,
};
