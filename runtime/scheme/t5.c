/* t5: buckets of the distance, exact ones and then logarithmic ones.
 *
 * Of n buckets a side the first e = n / 2 hold one distance each; bucket e + m begins at the least
 * a with floor(ln(a / e) / ln(max_distance / e) (n - e)) >= m, that is
 * e (max_distance / e)^(m / (n - e)). The last one has no end. */
#include "terms.h"

static rhumb_result check(const rhumb_context *context, const rhumb_t5 *p)
{
    RHUMB_TRY(rhumb_check_range(context, "t5", "bidirectional", p->bidirectional, 0, 1));
    uint32_t sides = 1 + p->bidirectional;
    if (p->num_buckets < 2 * sides || p->num_buckets % sides)
        return rhumb_fail(context, RHUMB_ERROR_ARGUMENT, "t5: num_buckets: wanted %s, found %u",
                          p->bidirectional ? "an even number from 4 on, as it is bidirectional"
                                           : "2 or more",
                          p->num_buckets);
    if (p->num_buckets > 2 * RHUMB_MAX_EDGES * sides)
        return rhumb_fail(context, RHUMB_ERROR_LIMIT, "t5: num_buckets: wanted up to %u, found %u",
                          2 * RHUMB_MAX_EDGES * sides, p->num_buckets);
    RHUMB_TRY(rhumb_check_finite(context, "t5", "bias_scale", p->bias_scale));
    uint32_t exact = p->num_buckets / sides / 2;
    return rhumb_check_range(context, "t5", "max_distance", p->max_distance, exact + 1, INT32_MAX);
}

static rhumb_result resolve(const rhumb_context *context, const void *params,
                            const rhumb_plan_info *info, rhumb_terms *terms)
{
    static const rhumb_term_views views = {
        .required = BIT(RHUMB_VIEW_TABLE),
        .optional = BIT(RHUMB_VIEW_ROW_SCALE),
    };
    rhumb_t5 p;
    rhumb_init_t5(&p);
    RHUMB_TRY(rhumb_adopt(context, "t5", "rhumb_t5", params, RHUMB_TYPE_T5, &p, sizeof p));
    RHUMB_TRY(check(context, &p));
    RHUMB_TRY(rhumb_take_term_views(context, "t5", info, &views, terms));
    uint32_t side = p.num_buckets / (1 + p.bidirectional);
    terms->rows = p.num_buckets;
    terms->exact = side / 2;
    terms->edge_count = side - terms->exact;
    for (uint32_t m = 0; m < terms->edge_count; m++)
        terms->edges[m] = rhumb_log_edge(terms->exact, p.max_distance, m, terms->edge_count, false);
    terms->step[0] = terms->step[1] = 1;
    terms->base[1] = (int32_t)side;
    if (!p.bidirectional)
        terms->delta_high = 0; /* keys in the future share bucket 0 */
    terms->bias_scale = p.bias_scale;
    terms->scale = 1.0;
    return RHUMB_OK;
}

const rhumb_scheme rhumb_scheme_t5 = {
    .name = "t5",
    .type = RHUMB_TYPE_T5,
    .resolve_terms = resolve,
};
