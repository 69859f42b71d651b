/* What operations on logits share: views, masks, lengths, and the windows of a grid as entries. */
#include "op.h"

rhumb_result rhumb_check_logit_views(const rhumb_context *context, const char *op,
                                     const rhumb_resolved *r)
{
    const uint32_t row_scale = BIT(RHUMB_VIEW_ROW_SCALE);
    uint32_t tables = r->info.views & RHUMB_TERM_VIEWS & ~row_scale;
    if (r->info.op == RHUMB_OP_ATTENTION) /* Q_STARTS and K_STARTS */
        tables &= ~(BIT(RHUMB_VIEW_SEGMENTS_Q) | BIT(RHUMB_VIEW_SEGMENTS_K));
    const uint32_t unused = BIT(RHUMB_VIEW_LENGTHS) | BIT(RHUMB_VIEW_POSITIONS_Q) |
                            BIT(RHUMB_VIEW_POSITIONS_K) |
                            (r->terms.grid[0] ? BIT(RHUMB_VIEW_MASK) : 0);
    if (!r->has_terms && tables)
        return rhumb_fail(context, RHUMB_ERROR_ARGUMENT,
                          "%s: views: wanted no tables without a scheme, found mask 0x%x", op,
                          tables);
    if ((r->info.views & row_scale) && r->info.dtype[RHUMB_VIEW_ROW_SCALE] != RHUMB_F32)
        return rhumb_fail(context, RHUMB_ERROR_ARGUMENT,
                          "%s: dtype of ROW_SCALE: wanted f32, found %s", op,
                          rhumb_dtype_name(r->info.dtype[RHUMB_VIEW_ROW_SCALE]));
    if (!(r->terms.mask & TERM_WINDOW))
        return RHUMB_OK;
    if (r->info.views & unused)
        return rhumb_fail(
            context, RHUMB_ERROR_ARGUMENT,
            "%s: views: wanted no LENGTHS, no POSITIONS and, with a grid, no MASK, as "
            "windows are whole, found mask 0x%x",
            op, r->info.views & unused);
    if (r->has_rotary)
        return rhumb_fail(context, RHUMB_ERROR_UNSUPPORTED,
                          "%s: rotary: wanted NULL with windows, found a scheme", op);
    return RHUMB_OK;
}

/* ---- Shapes */
static rhumb_result want_or_one(const rhumb_binder *b, uint32_t id, uint32_t d, const char *what,
                                uint64_t size)
{
    return b->placed[id].view->shape[d] == 1 ? RHUMB_OK : rhumb_want(b, id, d, what, size);
}

rhumb_result rhumb_check_mask(const rhumb_binder *b, rhumb_bindings *bindings)
{
    const uint32_t id = RHUMB_VIEW_MASK;
    if (!(b->present & BIT(id)))
        return RHUMB_OK;
    RHUMB_TRY(want_or_one(b, id, 0, "B", bindings->batch));
    RHUMB_TRY(want_or_one(b, id, 1, "heads", b->plan->resolved.info.heads));
    RHUMB_TRY(want_or_one(b, id, 2, "Lq", bindings->q_length));
    RHUMB_TRY(want_or_one(b, id, 3, "Lk", bindings->k_length));
    bindings->mask_of_one_key = b->placed[id].view->shape[3] == 1;
    return RHUMB_OK;
}

rhumb_result rhumb_check_logit_positions(const rhumb_binder *b, const rhumb_bindings *bindings)
{
    const rhumb_resolved *r = &b->plan->resolved;
    uint32_t batch = r->layout == LAYOUT_PACKED ? 1 : bindings->batch;
    if (b->present & BIT(RHUMB_VIEW_POSITIONS_Q))
        RHUMB_TRY(rhumb_check_positions(b, RHUMB_VIEW_POSITIONS_Q,
                                        r->has_rotary ? r->rotary.axes : 1, batch,
                                        bindings->q_length));
    if (b->present & BIT(RHUMB_VIEW_POSITIONS_K))
        RHUMB_TRY(rhumb_check_positions(b, RHUMB_VIEW_POSITIONS_K, 1, batch, bindings->k_length));
    return RHUMB_OK;
}

/* ---- Lengths */

/* Without a position view rows that are rotated inside take their positions from q_offset, so that
 * it must not be negative. */
rhumb_result rhumb_check_query_offset(const rhumb_bindings *bindings, const rhumb_dispatch *d,
                                      struct rhumb_push *push)
{
    const rhumb_resolved *r = &bindings->plan->resolved;
    bool is_position = r->has_rotary && !(r->info.views & BIT(RHUMB_VIEW_POSITIONS_Q));
    bool on_device = rhumb_lengths_on_device(r);
    push->q_offset = d->q_offset;
    if (d->q_offset == RHUMB_UNSET && (on_device || !is_position))
        return RHUMB_OK;
    return rhumb_check_offset(bindings, d, is_position ? 0 : -RHUMB_MAX_LENGTH, push);
}

/* ---- Windows */
uint32_t rhumb_window_count(const rhumb_terms *t)
{
    return t->grid[0] ? t->padded[0] / t->window[0] * (t->padded[1] / t->window[1]) : 1;
}

uint32_t rhumb_window_tokens(const rhumb_terms *t)
{
    return t->class_tokens + t->window[0] * t->window[1];
}

rhumb_result rhumb_check_window_rows(const rhumb_binder *b, const rhumb_bindings *bindings)
{
    const rhumb_terms *t = &b->plan->resolved.terms;
    if (!(t->mask & TERM_WINDOW))
        return RHUMB_OK;
    uint64_t tokens = t->grid[0] ? (uint64_t)t->grid[0] * t->grid[1] : rhumb_window_tokens(t);
    if (bindings->q_length == tokens && bindings->k_length == tokens)
        return RHUMB_OK;
    return rhumb_fail(b->plan->context, RHUMB_ERROR_ARGUMENT,
                      "%s: shape: wanted Lq and Lk %llu, the tokens of a %s, found %u and %u",
                      b->op, (unsigned long long)tokens, t->grid[0] ? "grid" : "window",
                      bindings->q_length, bindings->k_length);
}

rhumb_result rhumb_take_windows(const rhumb_bindings *bindings, const rhumb_dispatch *d,
                                struct rhumb_push *push)
{
    const rhumb_terms *t = &bindings->plan->resolved.terms;
    if (!(t->mask & TERM_WINDOW))
        return RHUMB_OK;
    if (push->q_length != (int32_t)bindings->q_length ||
        push->k_length != (int32_t)bindings->k_length || d->q_offset != RHUMB_UNSET || d->causal ||
        d->window_left != RHUMB_NO_WINDOW || d->window_right != RHUMB_NO_WINDOW ||
        d->chunk != RHUMB_NO_WINDOW || d->kept_keys)
        return rhumb_fail(bindings->plan->context, RHUMB_ERROR_ARGUMENT,
                          "%s: lengths, q_offset, causal, windows, chunk and kept_keys: wanted the "
                          "defaults, as the scheme's windows are whole, found %d rows, %d keys, %d, "
                          "%u, %d, %d, %d and %d",
                          bindings->plan->operation->name, push->q_length, push->k_length,
                          d->q_offset, d->causal, d->window_left, d->window_right, d->chunk,
                          d->kept_keys);
    push->max_q_length = push->max_k_length = push->q_length = push->k_length =
        (int32_t)rhumb_window_tokens(t);
    return RHUMB_OK;
}

/* ---- Cost */
uint64_t rhumb_logit_count(const rhumb_resolved *r)
{
    uint64_t tokens = rhumb_window_tokens(&r->terms);
    if (r->terms.mask & TERM_WINDOW)
        return rhumb_saturated_product(rhumb_window_count(&r->terms), tokens * tokens);
    return (uint64_t)r->info.max_q_length * r->info.max_k_length;
}

uint64_t rhumb_logit_flops(const rhumb_resolved *r)
{
    uint64_t products = 1 + (r->terms.mask & TERM_QUERY ? 1u : 0u) +
                        (r->terms.mask & TERM_KEY ? 1u : 0u);
    return 2 * products * r->info.head_dim * r->info.heads;
}

/* Tables as if each head had its own; MASK as if all heads and batch entries shared one. */
uint64_t rhumb_logit_bytes(const rhumb_resolved *r)
{
    const rhumb_plan_info *i = &r->info;
    static const struct {
        uint32_t id;
        uint32_t rows; /* 0: of the tables */
        bool channels;
    } tables[] = {{RHUMB_VIEW_TABLE, 0, false},        {RHUMB_VIEW_TABLE_SCALAR, 0, false},
                  {RHUMB_VIEW_QUERY_TABLE, 0, true},   {RHUMB_VIEW_KEY_TABLE, 0, true},
                  {RHUMB_VIEW_VALUE_TABLE, 0, true},   {RHUMB_VIEW_CONTENT_BIAS, 1, true},
                  {RHUMB_VIEW_POSITION_BIAS, 1, true}, {RHUMB_VIEW_SEGMENT_BIAS, 1, true},
                  {RHUMB_VIEW_SEGMENT_TABLE, 2, true}, {RHUMB_VIEW_HEAD_SCALE, 1, false},
                  {RHUMB_VIEW_SINKS, 1, false}};
    uint64_t bytes = 0;
    for (size_t n = 0; n < sizeof tables / sizeof tables[0]; n++) {
        uint32_t id = tables[n].id;
        uint64_t rows = tables[n].rows ? tables[n].rows : r->terms.rows;
        uint32_t dim = id == RHUMB_VIEW_VALUE_TABLE ? i->value_dim : i->head_dim;
        if (i->views & BIT(id))
            bytes += rows * i->heads * (tables[n].channels ? dim : 1) *
                     rhumb_dtype_size(i->dtype[id]);
    }
    if (i->views & BIT(RHUMB_VIEW_ROW_SCALE))
        bytes += (uint64_t)4 * i->heads * i->max_q_length;
    if (i->views & BIT(RHUMB_VIEW_MASK))
        bytes += rhumb_saturated_product(rhumb_dtype_size(i->dtype[RHUMB_VIEW_MASK]),
                                         (uint64_t)i->max_q_length * i->max_k_length);
    return bytes;
}
