/* From distances to rows of tables, on the host as in shaders/lib/terms.glsl. */
#include "terms.h"

#include <math.h>

/* Distance from which f(|d|) stays as it is. */
static int64_t last_change(const rhumb_terms *t)
{
    if (t->edge_count)
        return t->edges[t->edge_count - 1];
    return t->exact ? (int64_t)t->exact - 1 : 0;
}

static void find_near(rhumb_terms *t)
{
    int64_t low = t->step[0] ? -last_change(t) : 0;
    int64_t high = t->step[1] ? last_change(t) : 1;
    low = low < t->delta_low ? t->delta_low : low;
    high = high > t->delta_high ? t->delta_high : high;
    if (t->none_below != INT32_MIN)
        low = (int64_t)t->none_below - 1;
    if (t->none_above != INT32_MAX)
        high = (int64_t)t->none_above + 1;
    if (t->key_mirrored) {
        int64_t mirrored = -high;
        high = high < -low ? -low : high;
        low = low > mirrored ? mirrored : low;
    }
    t->near_low = (int32_t)(low < -INT32_MAX ? -INT32_MAX : low);
    t->near_high = (int32_t)(high > INT32_MAX ? INT32_MAX : high);
}

rhumb_result rhumb_resolve_terms(const rhumb_context *context, const void *params,
                                 const rhumb_plan_info *info, rhumb_terms *terms)
{
    const rhumb_header *header = params;
    const rhumb_scheme *scheme = header ? rhumb_find_scheme(header->type) : NULL;
    if (!scheme || !scheme->resolve_terms)
        return rhumb_fail(context, RHUMB_ERROR_VERSION,
                          "scheme: wanted the type of a relative scheme struct, found %u",
                          header ? header->type : 0);
    terms->delta_low = -INT32_MAX;
    terms->delta_high = INT32_MAX;
    terms->none_below = INT32_MIN;
    terms->none_above = INT32_MAX;
    terms->exact = UINT32_MAX;
    terms->reach_past = UINT32_MAX;
    terms->reach_future = UINT32_MAX;
    terms->bias_scale = 1.0;
    terms->scale = 1.0 / sqrt((double)info->head_dim);
    RHUMB_TRY(scheme->resolve_terms(context, params, info, terms));
    find_near(terms);
    return RHUMB_OK;
}

void rhumb_set_line(rhumb_terms *t, int32_t zero, int32_t direction, int32_t low, int32_t high)
{
    t->zero = (uint32_t)zero;
    t->base[0] = t->base[1] = zero;
    t->step[0] = -direction;
    t->step[1] = direction;
    t->delta_low = low;
    t->delta_high = high;
}

static uint32_t edges_up_to(const rhumb_terms *t, uint32_t a)
{
    uint32_t low = 0, high = t->edge_count;
    while (low < high) {
        uint32_t middle = (low + high) / 2;
        if (t->edges[middle] <= a)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

int32_t rhumb_row_of(const rhumb_terms *t, int32_t delta)
{
    if (delta < t->none_below || delta > t->none_above)
        return -1;
    int32_t d = delta < t->delta_low ? t->delta_low : delta > t->delta_high ? t->delta_high : delta;
    int side = d > 0;
    uint32_t a = d < 0 ? 0u - (uint32_t)d : (uint32_t)d;
    if (a >= t->exact)
        a = t->exact - 1 + edges_up_to(t, a);
    int64_t row = t->base[side] + (int64_t)t->step[side] * a;
    return (int32_t)(row < 0 ? 0 : row >= t->rows ? t->rows - 1 : row);
}

rhumb_result rhumb_relative_rows(const void *scheme, uint32_t max_q_length, uint32_t max_k_length,
                                 const int32_t *delta, uint32_t count, int32_t *row)
{
    rhumb_plan_info info;
    rhumb_terms terms = {0};
    if (!scheme || (count && (!delta || !row)))
        return rhumb_fail(NULL, RHUMB_ERROR_ARGUMENT,
                          "relative_rows: wanted a scheme struct, distances and a place for rows, "
                          "found NULL");
    /* An operation on the tables themselves, so that a scheme wants no views. */
    rhumb_init_plan_info(&info, RHUMB_OP_PROJECT);
    info.heads = info.kv_heads = info.head_dim = info.value_dim = 1;
    info.max_q_length = max_q_length;
    info.max_k_length = max_k_length;
    RHUMB_TRY(rhumb_resolve_terms(NULL, scheme, &info, &terms));
    if (!terms.rows || (terms.mask & TERM_WINDOW))
        return rhumb_fail(NULL, RHUMB_ERROR_UNSUPPORTED,
                          "relative_rows: wanted a scheme with tables over the distance, found %s",
                          rhumb_find_scheme(((const rhumb_header *)scheme)->type)->name);
    for (uint32_t i = 0; i < count; i++)
        row[i] = rhumb_row_of(&terms, delta[i]);
    return RHUMB_OK;
}
