/* ATTENTION: softmax(scale * Q K^T, masked) V, fused or by unfused.c. */
#include "op.h"

#include <math.h>

static rhumb_result resolve(const rhumb_context *context, rhumb_resolved *r)
{
    RHUMB_TRY(rhumb_resolve_plan_rotary(context, "attention", r));
    RHUMB_TRY(rhumb_resolve_plan_terms(context, r));
    RHUMB_TRY(rhumb_resolve_layout(context, r));
    RHUMB_TRY(rhumb_check_logit_views(context, "attention", r));
    rhumb_fill_scale(r);
    RHUMB_TRY(rhumb_check_f32(context, &rhumb_op_attention, &r->info, RHUMB_VIEW_WORKSPACE));
    return rhumb_check_f32(context, &rhumb_op_attention, &r->info, RHUMB_VIEW_LSE);
}

static void count_cost(rhumb_resolved *r)
{
    const rhumb_plan_info *i = &r->info;
    rhumb_plan_properties *p = &r->properties;
    uint64_t values = r->terms.mask & TERM_VALUE ? 2 : 1;
    /* WORKSPACE is written once and read once; what goes through it, in blocks of rows or not. */
    uint64_t stored = p->variant == RHUMB_VARIANT_UNFUSED
                          ? rhumb_saturated_product(rhumb_logit_count(r), 4 * (uint64_t)i->heads)
                          : p->workspace_size;
    p->flops = rhumb_saturated_product(
        rhumb_logit_count(r), rhumb_logit_flops(r) + 2 * values * i->heads * i->value_dim);
    p->bytes = (uint64_t)i->heads * i->max_q_length *
                   (rhumb_bytes_of(i->dtype[RHUMB_VIEW_Q], i->head_dim) +
                    rhumb_bytes_of(i->dtype[RHUMB_VIEW_O], i->value_dim) +
                    (i->views & BIT(RHUMB_VIEW_LSE) ? 4 : 0)) +
               (uint64_t)i->kv_heads * i->max_k_length *
                   (rhumb_bytes_of(i->dtype[RHUMB_VIEW_K], i->head_dim) +
                    rhumb_bytes_of(i->dtype[RHUMB_VIEW_V], i->value_dim));
    p->bytes = rhumb_saturated_sum(p->bytes, rhumb_logit_bytes(r));
    p->bytes = rhumb_saturated_sum(p->bytes, rhumb_saturated_product(2, stored));
}

static uint32_t written(const rhumb_plan_info *i)
{
    return BIT(RHUMB_VIEW_O) | (i->views & (BIT(RHUMB_VIEW_STATUS) | BIT(RHUMB_VIEW_WORKSPACE) |
                                            BIT(RHUMB_VIEW_LSE)));
}

static uint32_t shared_slot(uint32_t id)
{
    switch (id) {
    case RHUMB_VIEW_K: return 1;
    case RHUMB_VIEW_V: return 2;
    case RHUMB_VIEW_QUERY_TABLE:
    case RHUMB_VIEW_KEY_TABLE:
    case RHUMB_VIEW_VALUE_TABLE:
    case RHUMB_VIEW_MASK:
    case RHUMB_VIEW_WORKSPACE: return 3;
    default: return 0;
    }
}

static rhumb_result check_row_views(const rhumb_binder *b, const rhumb_bindings *bindings)
{
    const uint32_t heads = b->plan->resolved.info.heads;
    const uint64_t sinks[4] = {1, 1, 1, heads};
    const uint64_t lse[4] = {1,
                             b->plan->resolved.layout == LAYOUT_PACKED ? 1 : bindings->batch,
                             heads, bindings->q_length};
    if (b->present & BIT(RHUMB_VIEW_SINKS))
        RHUMB_TRY(rhumb_want_shape(b, RHUMB_VIEW_SINKS, sinks));
    return b->present & BIT(RHUMB_VIEW_LSE) ? rhumb_want_shape(b, RHUMB_VIEW_LSE, lse) : RHUMB_OK;
}

static rhumb_result check_shapes(const rhumb_binder *b, rhumb_bindings *bindings)
{
    RHUMB_TRY(rhumb_take_tensors(b, bindings));
    RHUMB_TRY(rhumb_check_window_rows(b, bindings));
    RHUMB_TRY(rhumb_check_logit_positions(b, bindings));
    RHUMB_TRY(rhumb_check_tables(b, bindings));
    RHUMB_TRY(check_row_views(b, bindings));
    RHUMB_TRY(rhumb_check_mask(b, bindings));
    RHUMB_TRY(rhumb_check_workspace(b, bindings));
    return rhumb_check_small_views(b, bindings->batch);
}

static rhumb_result check_softcap(const rhumb_bindings *bindings, const rhumb_dispatch *d,
                                  struct rhumb_push *push)
{
    if (!(d->softcap > 0))
        return rhumb_fail(bindings->plan->context, RHUMB_ERROR_ARGUMENT,
                          "attention: softcap: wanted a number above 0, found %g",
                          (double)d->softcap);
    push->softcap = isinf(d->softcap) ? 0 : d->softcap;
    push->flags |= d->bias_after_softcap ? FLAG_BIAS_AFTER_SOFTCAP : 0;
    return rhumb_check_flag(bindings, "bias_after_softcap", d->bias_after_softcap);
}

static rhumb_result check_chunk(const rhumb_bindings *bindings, const rhumb_dispatch *d,
                                struct rhumb_push *push)
{
    const rhumb_context *context = bindings->plan->context;
    if (d->chunk < 1)
        return rhumb_fail(context, RHUMB_ERROR_ARGUMENT,
                          "attention: chunk: wanted 1 or more, found %d", d->chunk);
    if (d->kept_keys < 0)
        return rhumb_fail(context, RHUMB_ERROR_ARGUMENT,
                          "attention: kept_keys: wanted 0 or more, found %d", d->kept_keys);
    push->chunk = d->chunk;
    push->kept_keys = d->kept_keys;
    return RHUMB_OK;
}

/* Slices that hold a key; of the plan's length, as they are aligned to key 0. */
static void cut_keys(const rhumb_resolved *r, struct rhumb_push *push)
{
    uint32_t keys =
        (uint32_t)(rhumb_lengths_on_device(r) ? push->max_k_length : push->k_length);
    push->slice_keys = r->slice_keys;
    push->slices = keys ? (keys - 1) / r->slice_keys + 1 : 1;
}

static rhumb_result record(VkCommandBuffer command_buffer, const rhumb_bindings *bindings,
                           const rhumb_dispatch *d)
{
    const rhumb_resolved *r = &bindings->plan->resolved;
    const rhumb_plan_info *i = &r->info;
    struct rhumb_push push = {
        .batch = bindings->batch, .flags = d->causal ? FLAG_CAUSAL : 0, .slices = 1};
    RHUMB_TRY(rhumb_check_packed_lengths(bindings, d));
    RHUMB_TRY(rhumb_check_lengths(bindings, d, true, &push));
    RHUMB_TRY(rhumb_check_query_offset(bindings, d, &push));
    RHUMB_TRY(rhumb_check_flag(bindings, "causal", d->causal));
    if (d->inverse)
        return rhumb_fail(bindings->plan->context, RHUMB_ERROR_ARGUMENT,
                          "attention: inverse: wanted 0, found %u", d->inverse);
    RHUMB_TRY(rhumb_check_window(bindings, d, &push));
    RHUMB_TRY(check_softcap(bindings, d, &push));
    RHUMB_TRY(check_chunk(bindings, d, &push));
    RHUMB_TRY(rhumb_check_reach(bindings, &push));
    RHUMB_TRY(rhumb_take_windows(bindings, d, &push));
    if (bindings->mask_of_one_key)
        push.flags |= FLAG_MASK_ONE_KEY;
    if (bindings->second && !r->slice_keys)
        return rhumb_record_unfused(command_buffer, bindings, d, &push);
    uint64_t shared = bindings->by_head ? 1 : i->heads / i->kv_heads;
    uint64_t rows = shared * (uint32_t)push.max_q_length;
    uint64_t tiles = (rows + bindings->rows_per_group - 1) / bindings->rows_per_group;
    push.tiles = tiles > UINT32_MAX ? UINT32_MAX : (uint32_t)tiles;
    if (bindings->second)
        cut_keys(r, &push);
    uint64_t entries = (uint64_t)bindings->batch * rhumb_window_count(&r->terms) * push.slices;
    uint64_t groups = rhumb_saturated_product(tiles * (i->heads / shared), entries);
    uint64_t merging = push.slices > 1 ? rhumb_combine_groups(bindings, &push) : 0;
    RHUMB_TRY(rhumb_check_groups(bindings, groups));
    RHUMB_TRY(rhumb_check_groups(bindings, merging));
    rhumb_emit(command_buffer, bindings, d, bindings->pipeline, groups, &push);
    if (merging) {
        rhumb_barrier(command_buffer, bindings);
        rhumb_emit(command_buffer, bindings, d, bindings->second, merging, &push);
    }
    return RHUMB_OK;
}

static const rhumb_view_rule rules[RHUMB_VIEW_COUNT] = {
    [RHUMB_VIEW_BLOCK_TABLE] = {"BLOCK_TABLE", true, "[B, blocks]"},
    [RHUMB_VIEW_SEGMENTS_Q] = {"SEGMENTS_Q or Q_STARTS", true, "[B, Lq] or [n + 1]"},
    [RHUMB_VIEW_SEGMENTS_K] = {"SEGMENTS_K or K_STARTS", true, "[B, Lk] or [n + 1]"},
};

const rhumb_operation rhumb_op_attention = {
    .op = RHUMB_OP_ATTENTION,
    .name = "attention",
    .required =
        BIT(RHUMB_VIEW_Q) | BIT(RHUMB_VIEW_K) | BIT(RHUMB_VIEW_V) | BIT(RHUMB_VIEW_O),
    .optional = RHUMB_POSITION_VIEWS | RHUMB_TERM_VIEWS | BIT(RHUMB_VIEW_MASK) |
                BIT(RHUMB_VIEW_WORKSPACE) | BIT(RHUMB_VIEW_SINKS) | BIT(RHUMB_VIEW_LSE) |
                BIT(RHUMB_VIEW_BLOCK_TABLE),
    .quantised = BIT(RHUMB_VIEW_K) | BIT(RHUMB_VIEW_V),
    .vectors = BIT(RHUMB_VIEW_Q) | BIT(RHUMB_VIEW_K) | BIT(RHUMB_VIEW_V) | BIT(RHUMB_VIEW_O) |
               RHUMB_VECTOR_TABLES | BIT(RHUMB_VIEW_VALUE_TABLE),
    .max_head_dim = RHUMB_MAX_HEAD_DIM,
    .resolve = resolve,
    .choose = rhumb_choose_attention,
    .count_cost = count_cost,
    .written = written,
    .rules = rules,
    .shared_slot = shared_slot,
    .check_shapes = check_shapes,
    .record = record,
};
