/* What operations with a relative scheme check of its tables. */
#include "op.h"

/* A size of a dimension; `or_one` where 1 serves all of them. */
typedef struct extent {
    const char *what;
    uint64_t size;
    bool or_one;
} extent;

static rhumb_result check_shape(const rhumb_binder *b, uint32_t id, const extent shape[4])
{
    if (!(b->present & BIT(id)))
        return RHUMB_OK;
    for (uint32_t d = 0; d < 4; d++)
        if (!shape[d].or_one || b->placed[id].view->shape[d] != 1)
            RHUMB_TRY(rhumb_want(b, id, d, shape[d].what, shape[d].size));
    return RHUMB_OK;
}

static rhumb_result check_scalars(const rhumb_binder *b, const extent *one, const extent *rows,
                                  const extent *heads, const extent *batch, const extent *q)
{
    const extent table[4] = {*one, *one, *rows, *heads};
    const extent row_scale[4] = {*one, *batch, *heads, *q};
    const extent head_scale[4] = {*one, *one, *one, *heads};
    RHUMB_TRY(check_shape(b, RHUMB_VIEW_TABLE, table));
    RHUMB_TRY(check_shape(b, RHUMB_VIEW_TABLE_SCALAR, table));
    RHUMB_TRY(check_shape(b, RHUMB_VIEW_ROW_SCALE, row_scale));
    return check_shape(b, RHUMB_VIEW_HEAD_SCALE, head_scale);
}

static rhumb_result check_vectors(const rhumb_binder *b, const extent *one, const extent *rows,
                                  const extent *heads)
{
    const rhumb_plan_info *i = &b->plan->resolved.info;
    const extent any_head = {"heads or 1:", heads->size, true};
    const extent channels = {"head_dim", i->head_dim, false};
    const extent values = {"value_dim", i->value_dim, false};
    const extent two = {"rows", 2, false};
    const extent table[4] = {*one, any_head, *rows, channels};
    const extent value_table[4] = {*one, any_head, *rows, values};
    const extent bias[4] = {*one, *one, *heads, channels};
    const extent segments[4] = {*one, *heads, two, channels};
    RHUMB_TRY(check_shape(b, RHUMB_VIEW_QUERY_TABLE, table));
    RHUMB_TRY(check_shape(b, RHUMB_VIEW_KEY_TABLE, table));
    RHUMB_TRY(check_shape(b, RHUMB_VIEW_VALUE_TABLE, value_table));
    RHUMB_TRY(check_shape(b, RHUMB_VIEW_CONTENT_BIAS, bias));
    RHUMB_TRY(check_shape(b, RHUMB_VIEW_POSITION_BIAS, bias));
    RHUMB_TRY(check_shape(b, RHUMB_VIEW_SEGMENT_BIAS, bias));
    return check_shape(b, RHUMB_VIEW_SEGMENT_TABLE, segments);
}

rhumb_result rhumb_check_tables(const rhumb_binder *b, const rhumb_bindings *bindings)
{
    const extent one = {"exactly", 1, false};
    const extent rows = {"rows", b->plan->resolved.terms.rows, false};
    const extent heads = {"heads", b->plan->resolved.info.heads, false};
    bool packed = b->plan->resolved.layout == LAYOUT_PACKED;
    const extent batch = {"B or 1:", packed ? 1 : bindings->batch, true};
    const extent some = {"B", bindings->batch, false};
    const extent q = {"Lq", bindings->q_length, false};
    const extent k = {"Lk", bindings->k_length, false};
    const extent segments_q[4] = {one, one, some, q};
    const extent segments_k[4] = {one, one, some, k};
    RHUMB_TRY(check_scalars(b, &one, &rows, &heads, &batch, &q));
    RHUMB_TRY(check_vectors(b, &one, &rows, &heads));
    if (packed) /* Q_STARTS and K_STARTS */
        return RHUMB_OK;
    RHUMB_TRY(check_shape(b, RHUMB_VIEW_SEGMENTS_Q, segments_q));
    return check_shape(b, RHUMB_VIEW_SEGMENTS_K, segments_k);
}

rhumb_result rhumb_check_reach(const rhumb_bindings *bindings, const struct rhumb_push *push)
{
    const rhumb_terms *t = &bindings->plan->resolved.terms;
    const uint32_t positions = BIT(RHUMB_VIEW_POSITIONS_Q) | BIT(RHUMB_VIEW_POSITIONS_K);
    int64_t q = push->q_length, k = push->k_length;
    int64_t offset = push->q_offset == RHUMB_UNSET ? k - q : push->q_offset;
    int64_t past = offset + q - 1, future = k - 1 - offset;
    if (!bindings->plan->resolved.has_terms || !q || !k ||
        (bindings->plan->resolved.info.views & positions) ||
        rhumb_lengths_on_device(&bindings->plan->resolved))
        return RHUMB_OK;
    if (past <= (int64_t)t->reach_past && future <= (int64_t)t->reach_future)
        return RHUMB_OK;
    bool is_past = past > (int64_t)t->reach_past;
    return rhumb_fail(
        bindings->plan->context, RHUMB_ERROR_LIMIT,
        "%s: q_offset: wanted distances up to %u to the %s, as the tables have no rows "
        "beyond, found %lld (q_offset %lld, q_length %lld, k_length %lld)",
        bindings->plan->operation->name, is_past ? t->reach_past : t->reach_future,
        is_past ? "past" : "future", (long long)(is_past ? past : future), (long long)offset,
        (long long)q, (long long)k);
}
