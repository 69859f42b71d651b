/* deberta: a row per clamped distance (v1), or per logarithmic bucket of it (v2, v3).
 *
 * With mid = span / 2 and R = (max_relative_positions - 1) / mid distances up to mid are buckets of
 * their own, and bucket mid + m begins at the least a with ceil(ln(a / mid) / ln(R) (mid - 1)) >=
 * m, that is above mid R^((m - 1) / (mid - 1)). */
#include "terms.h"

#include <math.h>

static rhumb_result check(const rhumb_context *context, const rhumb_deberta *p)
{
    const char *name = "deberta";
    RHUMB_TRY(rhumb_check_range(context, name, "clamp_input", p->clamp_input, 0, 1));
    RHUMB_TRY(rhumb_check_enum(context, name, "p2c_index", "rhumb_p2c_index",
                               (uint32_t)p->p2c_index, RHUMB_P2C_PAPER));
    if (!p->position_buckets)
        return rhumb_check_range(context, name, "max_relative_positions", p->max_relative_positions,
                                 1, RHUMB_MAX_LENGTH);
    if (p->position_buckets < 2)
        return rhumb_fail(context, RHUMB_ERROR_ARGUMENT,
                          "deberta: position_buckets: wanted 0 or 2 and more, found %u",
                          p->position_buckets);
    if (p->position_buckets > 2 * RHUMB_MAX_EDGES)
        return rhumb_fail(context, RHUMB_ERROR_LIMIT,
                          "deberta: position_buckets: wanted up to %u, found %u",
                          2 * RHUMB_MAX_EDGES, p->position_buckets);
    return rhumb_check_range(context, name, "max_relative_positions", p->max_relative_positions,
                             p->position_buckets / 2 + 2, INT32_MAX);
}

static void set_buckets(const rhumb_deberta *p, rhumb_terms *terms)
{
    uint32_t span = p->position_buckets, mid = span / 2;
    int32_t last = (int32_t)p->max_relative_positions - 1;
    terms->exact = mid + 1;
    /* One bucket of mid has no logarithm to divide by: all beyond are in it. The buckets after the
     * span's last share the rows at the ends of the table. */
    terms->edge_count = mid > 1 ? span - mid : 0;
    for (uint32_t m = 0; m < terms->edge_count; m++)
        terms->edges[m] = rhumb_log_edge(mid, (uint32_t)last, m, mid - 1, true);
    if (p->clamp_input) {
        terms->delta_low = -last;
        terms->delta_high = last;
    }
}

static rhumb_result resolve(const rhumb_context *context, const void *params,
                            const rhumb_plan_info *info, rhumb_terms *terms)
{
    static const rhumb_term_views views = {
        .one_of = BIT(RHUMB_VIEW_QUERY_TABLE) | BIT(RHUMB_VIEW_KEY_TABLE),
    };
    rhumb_deberta p;
    rhumb_init_deberta(&p);
    RHUMB_TRY(
        rhumb_adopt(context, "deberta", "rhumb_deberta", params, RHUMB_TYPE_DEBERTA, &p, sizeof p));
    RHUMB_TRY(check(context, &p));
    RHUMB_TRY(rhumb_take_term_views(context, "deberta", info, &views, terms));
    int32_t span = (int32_t)(p.position_buckets ? p.position_buckets : p.max_relative_positions);
    terms->rows = 2 * (uint32_t)span;
    rhumb_set_line(terms, span, -1, -INT32_MAX, INT32_MAX);
    if (p.position_buckets) {
        set_buckets(&p, terms);
    } else {
        terms->delta_low = 1 - span;
        terms->delta_high = span;
    }
    terms->key_mirrored = p.p2c_index == RHUMB_P2C_PAPER;
    double parts = 1.0 + (terms->mask & TERM_QUERY ? 1 : 0) + (terms->mask & TERM_KEY ? 1 : 0);
    terms->scale = 1.0 / sqrt(parts * info->head_dim);
    return RHUMB_OK;
}

const rhumb_scheme rhumb_scheme_deberta = {
    .name = "deberta",
    .type = RHUMB_TYPE_DEBERTA,
    .resolve_terms = resolve,
};
