/* Views of relative schemes: which of them a plan's terms want, and their shapes. Windows of a grid
 * as batch entries. */
#include "op.h"

/* ---- Shapes */

/* Whether dimension d of a view is `size`, or 1 where `one` says that all share it. */
static rhumb_result want_size(const rhumb_binder *b, uint32_t id, uint32_t d, const char *what,
                              uint64_t size, bool one)
{
    return one && b->placed[id].view->shape[d] == 1 ? RHUMB_OK : rhumb_want(b, id, d, what, size);
}

static rhumb_result check_heads(const rhumb_binder *b, uint32_t id, uint32_t dim)
{
    const uint64_t shape[4] = {1, 1, b->plan->resolved.info.heads, dim};
    return b->present & BIT(id) ? rhumb_want_shape(b, id, shape) : RHUMB_OK;
}

/* [rows, heads] */
static rhumb_result check_scalars(const rhumb_binder *b, uint32_t id)
{
    const rhumb_resolved *r = &b->plan->resolved;
    const uint64_t shape[4] = {1, 1, r->terms.rows, r->info.heads};
    return b->present & BIT(id) ? rhumb_want_shape(b, id, shape) : RHUMB_OK;
}

/* [heads or 1, rows, dim] */
static rhumb_result check_vectors(const rhumb_binder *b, uint32_t id, uint32_t dim)
{
    const rhumb_resolved *r = &b->plan->resolved;
    if (!(b->present & BIT(id)))
        return RHUMB_OK;
    RHUMB_TRY(rhumb_want(b, id, 0, "exactly", 1));
    RHUMB_TRY(want_size(b, id, 1, "heads", r->info.heads, true));
    RHUMB_TRY(rhumb_want(b, id, 2, "rows", r->terms.rows));
    return rhumb_want(b, id, 3, "channels", dim);
}

static rhumb_result check_segments(const rhumb_binder *b, uint32_t id, uint32_t batch,
                                   uint32_t length)
{
    const uint64_t shape[4] = {1, 1, batch, length};
    return b->present & BIT(id) ? rhumb_want_shape(b, id, shape) : RHUMB_OK;
}

/* [B or 1, heads, Lq] */
static rhumb_result check_row_scale(const rhumb_binder *b, const rhumb_bindings *bindings)
{
    const uint32_t id = RHUMB_VIEW_ROW_SCALE;
    if (!(b->present & BIT(id)))
        return RHUMB_OK;
    RHUMB_TRY(rhumb_want(b, id, 0, "exactly", 1));
    RHUMB_TRY(want_size(b, id, 1, "B", bindings->batch, true));
    RHUMB_TRY(rhumb_want(b, id, 2, "heads", b->plan->resolved.info.heads));
    return rhumb_want(b, id, 3, "Lq", bindings->q_length);
}

rhumb_result rhumb_check_tables(const rhumb_binder *b, const rhumb_bindings *bindings)
{
    const rhumb_plan_info *i = &b->plan->resolved.info;
    const uint64_t segments[4] = {1, i->heads, 2, i->head_dim};
    const uint64_t head_scale[4] = {1, 1, 1, i->heads};
    RHUMB_TRY(check_scalars(b, RHUMB_VIEW_TABLE));
    RHUMB_TRY(check_scalars(b, RHUMB_VIEW_TABLE_SCALAR));
    RHUMB_TRY(check_vectors(b, RHUMB_VIEW_QUERY_TABLE, i->head_dim));
    RHUMB_TRY(check_vectors(b, RHUMB_VIEW_KEY_TABLE, i->head_dim));
    RHUMB_TRY(check_vectors(b, RHUMB_VIEW_VALUE_TABLE, i->value_dim));
    RHUMB_TRY(check_heads(b, RHUMB_VIEW_CONTENT_BIAS, i->head_dim));
    RHUMB_TRY(check_heads(b, RHUMB_VIEW_POSITION_BIAS, i->head_dim));
    RHUMB_TRY(check_heads(b, RHUMB_VIEW_SEGMENT_BIAS, i->head_dim));
    if (b->present & BIT(RHUMB_VIEW_SEGMENT_TABLE))
        RHUMB_TRY(rhumb_want_shape(b, RHUMB_VIEW_SEGMENT_TABLE, segments));
    if (b->present & BIT(RHUMB_VIEW_HEAD_SCALE))
        RHUMB_TRY(rhumb_want_shape(b, RHUMB_VIEW_HEAD_SCALE, head_scale));
    RHUMB_TRY(
        check_segments(b, RHUMB_VIEW_SEGMENTS_Q, bindings->batch, bindings->q_length));
    RHUMB_TRY(
        check_segments(b, RHUMB_VIEW_SEGMENTS_K, bindings->batch, bindings->k_length));
    return check_row_scale(b, bindings);
}
