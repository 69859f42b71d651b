/* ATTENTION: where rows and keys lie. Contiguous views, keys in blocks of a pool (paged), sequences
 * one behind the other (packed); K and V in q8_0. */
#include "op.h"

#define STARTS (BIT(RHUMB_VIEW_Q_STARTS) | BIT(RHUMB_VIEW_K_STARTS))

static const char *name_of(uint32_t layout)
{
    return layout == LAYOUT_PAGED ? "paged keys" : "packed sequences";
}

static rhumb_result check_paged(const rhumb_context *context, const rhumb_resolved *r)
{
    if (r->info.views & STARTS && !(r->terms.mask & TERM_SEGMENT))
        return rhumb_fail(context, RHUMB_ERROR_UNSUPPORTED,
                          "attention: views: wanted BLOCK_TABLE, or Q_STARTS and K_STARTS, found "
                          "mask 0x%x",
                          r->info.views);
    return RHUMB_OK;
}

static rhumb_result check_packed(const rhumb_context *context, const rhumb_resolved *r)
{
    const uint32_t unused = BIT(RHUMB_VIEW_LENGTHS) | BIT(RHUMB_VIEW_MASK);
    if ((r->info.views & STARTS) != STARTS)
        return rhumb_fail(context, RHUMB_ERROR_ARGUMENT,
                          "attention: views: wanted Q_STARTS and K_STARTS together, found mask "
                          "0x%x",
                          r->info.views & STARTS);
    if (r->info.views & unused)
        return rhumb_fail(context, RHUMB_ERROR_UNSUPPORTED,
                          "attention: views: wanted no LENGTHS and no MASK beside Q_STARTS and "
                          "K_STARTS, found mask 0x%x",
                          r->info.views & unused);
    return RHUMB_OK;
}

static rhumb_result check_blocks(const rhumb_context *context, const rhumb_plan_info *i)
{
    const uint32_t dims[] = {i->head_dim, i->value_dim};
    const uint32_t ids[] = {RHUMB_VIEW_K, RHUMB_VIEW_V};
    for (uint32_t n = 0; n < 2; n++)
        if (i->dtype[ids[n]] == RHUMB_Q8_0 && dims[n] % Q8_ELEMENTS)
            return rhumb_fail(context, RHUMB_ERROR_ARGUMENT,
                              "attention: %s: wanted a multiple of %d for %s in q8_0, found %u",
                              n ? "value_dim" : "head_dim", Q8_ELEMENTS, rhumb_view_name(ids[n]),
                              dims[n]);
    return RHUMB_OK;
}

rhumb_result rhumb_resolve_layout(const rhumb_context *context, rhumb_resolved *r)
{
    RHUMB_TRY(check_blocks(context, &r->info));
    if (r->info.views & BIT(RHUMB_VIEW_BLOCK_TABLE)) {
        RHUMB_TRY(check_paged(context, r));
        r->layout = LAYOUT_PAGED;
    } else if ((r->info.views & STARTS) && !(r->terms.mask & TERM_SEGMENT)) {
        RHUMB_TRY(check_packed(context, r));
        r->layout = LAYOUT_PACKED;
    }
    if (r->layout != LAYOUT_CONTIGUOUS && (r->terms.mask & TERM_WINDOW))
        return rhumb_fail(context, RHUMB_ERROR_UNSUPPORTED,
                          "attention: scheme: wanted one without windows of a grid for %s, found "
                          "windows",
                          name_of(r->layout));
    return RHUMB_OK;
}

/* ---- Shapes */
static rhumb_result check_most(const rhumb_binder *b, const char *what, uint64_t found)
{
    if (found <= RHUMB_MAX_LENGTH)
        return RHUMB_OK;
    return rhumb_fail(b->plan->context, RHUMB_ERROR_LIMIT, "%s: %s: wanted up to %d, found %llu",
                      b->op, what, RHUMB_MAX_LENGTH, (unsigned long long)found);
}

/* Keys of a batch entry: those that its blocks have room for, as far as the plan goes. */
static rhumb_result take_blocks(const rhumb_binder *b, rhumb_bindings *bindings)
{
    const rhumb_view *k = b->placed[RHUMB_VIEW_K].view;
    const rhumb_view *table = b->placed[RHUMB_VIEW_BLOCK_TABLE].view;
    uint32_t most = b->plan->resolved.info.max_k_length;
    RHUMB_TRY(check_most(b, "blocks of the pool", k->shape[0]));
    RHUMB_TRY(rhumb_want(b, RHUMB_VIEW_BLOCK_TABLE, 0, "exactly", 1));
    RHUMB_TRY(rhumb_want(b, RHUMB_VIEW_BLOCK_TABLE, 1, "exactly", 1));
    RHUMB_TRY(rhumb_want(b, RHUMB_VIEW_BLOCK_TABLE, 2, "B", bindings->batch));
    RHUMB_TRY(check_most(b, "blocks of BLOCK_TABLE", table->shape[3]));
    uint64_t keys = table->shape[3] * k->shape[2];
    bindings->k_length = keys < most ? (uint32_t)keys : most;
    return RHUMB_OK;
}

static rhumb_result take_sequences(const rhumb_binder *b, rhumb_bindings *bindings)
{
    const rhumb_view *starts = b->placed[RHUMB_VIEW_Q_STARTS].view;
    if (starts->shape[3] < 2)
        return rhumb_fail(b->plan->context, RHUMB_ERROR_ARGUMENT,
                          "%s: shape of Q_STARTS [n + 1]: wanted 2 or more in shape[3], found %llu",
                          b->op, (unsigned long long)starts->shape[3]);
    RHUMB_TRY(check_most(b, "sequences", starts->shape[3] - 1));
    const uint64_t shape[4] = {1, 1, 1, starts->shape[3]};
    RHUMB_TRY(rhumb_want_shape(b, RHUMB_VIEW_Q_STARTS, shape));
    RHUMB_TRY(rhumb_want_shape(b, RHUMB_VIEW_K_STARTS, shape));
    bindings->batch = (uint32_t)(starts->shape[3] - 1);
    return RHUMB_OK;
}

static rhumb_result check_tensor(const rhumb_binder *b, uint32_t id, uint64_t batch,
                                 const char *rows_are, uint64_t rows)
{
    const rhumb_plan_info *i = &b->plan->resolved.info;
    bool of_keys = id == RHUMB_VIEW_K || id == RHUMB_VIEW_V;
    bool of_values = id == RHUMB_VIEW_V || id == RHUMB_VIEW_O;
    bool pool = of_keys && b->plan->resolved.layout == LAYOUT_PAGED;
    RHUMB_TRY(rhumb_want(b, id, 0, pool ? "blocks of the pool" : "B", batch));
    RHUMB_TRY(
        rhumb_want(b, id, 1, of_keys ? "kv_heads" : "heads", of_keys ? i->kv_heads : i->heads));
    RHUMB_TRY(rhumb_want(b, id, 2, rows_are, rows));
    return rhumb_want(b, id, 3, of_values ? "value_dim" : "head_dim",
                      of_values ? i->value_dim : i->head_dim);
}

rhumb_result rhumb_take_tensors(const rhumb_binder *b, rhumb_bindings *bindings)
{
    const uint64_t *q = b->placed[RHUMB_VIEW_Q].view->shape;
    const uint64_t *k = b->placed[RHUMB_VIEW_K].view->shape;
    uint32_t layout = b->plan->resolved.layout;
    bool paged = layout == LAYOUT_PAGED, packed = layout == LAYOUT_PACKED;
    RHUMB_TRY(rhumb_take_sizes(b, RHUMB_VIEW_Q, RHUMB_VIEW_K, bindings));
    uint64_t entries = packed ? 1 : bindings->batch;
    const char *keys = paged ? "rows of a block" : packed ? "rows of all sequences" : "Lk";
    if (paged)
        RHUMB_TRY(take_blocks(b, bindings));
    if (packed)
        RHUMB_TRY(take_sequences(b, bindings));
    for (uint32_t id = RHUMB_VIEW_Q; id <= RHUMB_VIEW_O; id++) {
        bool of_keys = id == RHUMB_VIEW_K || id == RHUMB_VIEW_V;
        RHUMB_TRY(check_tensor(b, id, of_keys && paged ? k[0] : entries,
                               of_keys ? keys : packed ? "rows of all sequences" : "Lq",
                               of_keys ? k[2] : q[2]));
    }
    return RHUMB_OK;
}

/* ---- Dispatch */
rhumb_result rhumb_check_packed_lengths(const rhumb_bindings *bindings, const rhumb_dispatch *d)
{
    if (bindings->plan->resolved.layout != LAYOUT_PACKED ||
        (d->q_length == RHUMB_UNSET && d->k_length == RHUMB_UNSET))
        return RHUMB_OK;
    return rhumb_fail(bindings->plan->context, RHUMB_ERROR_ARGUMENT,
                      "attention: q_length and k_length: wanted the defaults, as Q_STARTS and "
                      "K_STARTS say them, found %d and %d",
                      d->q_length, d->k_length);
}

bool rhumb_lengths_on_device(const rhumb_resolved *r)
{
    return (r->info.views & BIT(RHUMB_VIEW_LENGTHS)) || r->layout == LAYOUT_PACKED;
}
