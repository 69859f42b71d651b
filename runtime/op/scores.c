/* SCORES: the logits of attention with every positional term, before any mask. */
#include "op.h"

#include <stdio.h>

static rhumb_result resolve(const rhumb_context *context, rhumb_resolved *r)
{
    RHUMB_TRY(rhumb_resolve_plan_rotary(context, "scores", r));
    RHUMB_TRY(rhumb_resolve_plan_terms(context, r));
    RHUMB_TRY(rhumb_check_logit_views(context, "scores", r));
    rhumb_fill_scale(r);
    return RHUMB_OK;
}

static void set_form(rhumb_resolved *r, uint32_t index)
{
    rhumb_set_common(r, &r->keys[index], RHUMB_KERNEL_SCORES, index == RHUMB_FAST_ALIGNMENT);
    r->rows_per_group[index] = GENERIC_ROWS;
}

void rhumb_set_scores(rhumb_resolved *r)
{
    rhumb_plan_properties *p = &r->properties;
    set_form(r, RHUMB_ANY_ALIGNMENT);
    set_form(r, RHUMB_FAST_ALIGNMENT);
    r->has_fast = true;
    p->variant = RHUMB_VARIANT_GENERIC;
    p->invocations = GENERIC_INVOCATIONS;
    p->shared_bytes = 16 * RHUMB_MAX_HEAD_DIM;
    p->rows_per_group = GENERIC_ROWS;
    p->keys_per_step = GENERIC_INVOCATIONS;
}

static rhumb_result choose(const rhumb_context *context, rhumb_resolved *r)
{
    if (r->info.variant != RHUMB_VARIANT_AUTO && r->info.variant != RHUMB_VARIANT_GENERIC)
        return rhumb_fail(context, RHUMB_ERROR_UNSUPPORTED,
                          "scores: variant: wanted AUTO or GENERIC, found %d",
                          (int)r->info.variant);
    rhumb_set_scores(r);
    snprintf(r->properties.reason, sizeof r->properties.reason,
             "scores: one kernel for all shapes; vector loads where rows start at multiples of 4 "
             "elements");
    return RHUMB_OK;
}

static void count_cost(rhumb_resolved *r)
{
    const rhumb_plan_info *i = &r->info;
    rhumb_plan_properties *p = &r->properties;
    uint64_t o = rhumb_saturated_product(rhumb_logit_count(r),
                                         (uint64_t)i->heads *
                                             rhumb_dtype_size(i->dtype[RHUMB_VIEW_O]));
    p->flops = rhumb_saturated_product(rhumb_logit_count(r), rhumb_logit_flops(r));
    p->bytes = (uint64_t)i->heads * i->max_q_length * i->head_dim *
                   rhumb_dtype_size(i->dtype[RHUMB_VIEW_Q]) +
               (uint64_t)i->kv_heads * i->max_k_length * i->head_dim *
                   rhumb_dtype_size(i->dtype[RHUMB_VIEW_K]);
    p->bytes = rhumb_saturated_sum(p->bytes, rhumb_saturated_sum(o, rhumb_logit_bytes(r)));
}

static uint32_t written(const rhumb_plan_info *i)
{
    return BIT(RHUMB_VIEW_O) | (i->views & BIT(RHUMB_VIEW_STATUS));
}

static uint32_t shared_slot(uint32_t id)
{
    switch (id) {
    case RHUMB_VIEW_K: return 1;
    case RHUMB_VIEW_O: return 2;
    case RHUMB_VIEW_QUERY_TABLE:
    case RHUMB_VIEW_KEY_TABLE: return 3;
    default: return 0;
    }
}

static rhumb_result check_shapes(const rhumb_binder *b, rhumb_bindings *bindings)
{
    const rhumb_resolved *r = &b->plan->resolved;
    const rhumb_plan_info *i = &r->info;
    bool windows = r->terms.mask & TERM_WINDOW;
    RHUMB_TRY(rhumb_take_sizes(b, RHUMB_VIEW_Q, RHUMB_VIEW_K, bindings));
    RHUMB_TRY(rhumb_check_window_rows(b, bindings));
    uint32_t n = windows ? rhumb_window_tokens(&r->terms) : 0;
    const uint64_t q[4] = {bindings->batch, i->heads, bindings->q_length, i->head_dim};
    const uint64_t k[4] = {bindings->batch, i->kv_heads, bindings->k_length, i->head_dim};
    const uint64_t o[4] = {(uint64_t)bindings->batch * rhumb_window_count(&r->terms), i->heads,
                           windows ? n : bindings->q_length, windows ? n : bindings->k_length};
    RHUMB_TRY(rhumb_want_shape(b, RHUMB_VIEW_Q, q));
    RHUMB_TRY(rhumb_want_shape(b, RHUMB_VIEW_K, k));
    RHUMB_TRY(rhumb_want_shape(b, RHUMB_VIEW_O, o));
    RHUMB_TRY(rhumb_check_logit_positions(b, bindings));
    RHUMB_TRY(rhumb_check_tables(b, bindings));
    return rhumb_check_small_views(b, bindings->batch);
}

uint64_t rhumb_score_groups(const rhumb_bindings *bindings, const struct rhumb_push *push)
{
    const rhumb_resolved *r = &bindings->plan->resolved;
    uint64_t key_blocks =
        ((uint64_t)push->max_k_length + GENERIC_INVOCATIONS - 1) / GENERIC_INVOCATIONS;
    uint64_t row_tiles = ((uint64_t)push->row_count + GENERIC_ROWS - 1) / GENERIC_ROWS;
    uint64_t entries = (uint64_t)bindings->batch * rhumb_window_count(&r->terms);
    return rhumb_saturated_product(key_blocks * row_tiles,
                                   rhumb_saturated_product(entries, r->info.heads));
}

static rhumb_result record(VkCommandBuffer command_buffer, const rhumb_bindings *bindings,
                           const rhumb_dispatch *d)
{
    struct rhumb_push push = {
        .batch = bindings->batch, .window_left = RHUMB_NO_WINDOW, .window_right = RHUMB_NO_WINDOW};
    RHUMB_TRY(rhumb_check_lengths(bindings, d, true, &push));
    RHUMB_TRY(rhumb_check_query_offset(bindings, d, &push));
    if (d->causal || d->inverse || d->window_left != RHUMB_NO_WINDOW ||
        d->window_right != RHUMB_NO_WINDOW)
        return rhumb_fail(bindings->plan->context, RHUMB_ERROR_ARGUMENT,
                          "scores: causal, inverse, window_left and window_right: wanted the "
                          "defaults, as nothing is masked here, found %u, %u, %d and %d",
                          d->causal, d->inverse, d->window_left, d->window_right);
    RHUMB_TRY(rhumb_check_reach(bindings, &push));
    RHUMB_TRY(rhumb_take_windows(bindings, d, &push));
    push.row_count = (uint32_t)push.max_q_length;
    uint64_t groups = rhumb_score_groups(bindings, &push);
    RHUMB_TRY(rhumb_check_groups(bindings, groups));
    rhumb_emit(command_buffer, bindings, d, bindings->pipeline, groups, &push);
    return RHUMB_OK;
}

const rhumb_operation rhumb_op_scores = {
    .op = RHUMB_OP_SCORES,
    .name = "scores",
    .required = BIT(RHUMB_VIEW_Q) | BIT(RHUMB_VIEW_K) | BIT(RHUMB_VIEW_O),
    .optional = RHUMB_POSITION_VIEWS | RHUMB_SCORE_VIEWS,
    .vectors = BIT(RHUMB_VIEW_K) | RHUMB_VECTOR_TABLES,
    .max_head_dim = RHUMB_MAX_HEAD_DIM,
    .resolve = resolve,
    .choose = choose,
    .count_cost = count_cost,
    .written = written,
    .shared_slot = shared_slot,
    .check_shapes = check_shapes,
    .record = record,
};
