/* BIAS: the part of a relative scheme's logits that is free of Q and K. */
#include "op.h"

#include <stdio.h>

static rhumb_result resolve(const rhumb_context *context, rhumb_resolved *r)
{
    if (r->info.rotary)
        return rhumb_fail(context, RHUMB_ERROR_ARGUMENT,
                          "bias: rotary: wanted NULL, found a struct of type %u",
                          ((const rhumb_header *)r->info.rotary)->type);
    if (!r->info.scheme)
        return rhumb_fail(context, RHUMB_ERROR_ARGUMENT,
                          "bias: scheme: wanted a relative scheme struct, found NULL");
    RHUMB_TRY(rhumb_resolve_plan_terms(context, r));
    rhumb_fill_scale(r);
    return rhumb_check_logit_views(context, "bias", r);
}

static void set_bias(rhumb_resolved *r, uint32_t index)
{
    rhumb_set_common(r, &r->keys[index],
                     index == RHUMB_BY_ADDRESS ? RHUMB_KERNEL_BIAS_ADDRESS : RHUMB_KERNEL_BIAS,
                     index != RHUMB_ANY_ALIGNMENT);
    r->keys[index].spec[SPEC_WORKGROUP] = BIAS_INVOCATIONS;
    r->rows_per_group[index] = BIAS_ROWS;
}

static rhumb_result choose(const rhumb_context *context, rhumb_resolved *r)
{
    rhumb_plan_properties *p = &r->properties;
    if (r->info.variant != RHUMB_VARIANT_AUTO && r->info.variant != RHUMB_VARIANT_GENERIC)
        return rhumb_fail(
            context, RHUMB_ERROR_UNSUPPORTED,
            "bias: variant: wanted RHUMB_VARIANT_AUTO or RHUMB_VARIANT_GENERIC, found %d",
            (int)r->info.variant);
    r->has_fast = true;
    r->has_by_address = rhumb_prefers_addresses(context, r);
    set_bias(r, RHUMB_ANY_ALIGNMENT);
    set_bias(r, RHUMB_FAST_ALIGNMENT);
    if (r->has_by_address)
        set_bias(r, RHUMB_BY_ADDRESS);
    p->variant = RHUMB_VARIANT_GENERIC;
    p->invocations = BIAS_INVOCATIONS;
    p->rows_per_group = BIAS_ROWS;
    p->keys_per_step = BIAS_KEYS;
    snprintf(p->reason, sizeof p->reason,
             "bias: one kernel; vector stores where rows of O start at multiples of 4 elements%s",
             r->has_by_address ? "; by address where views have one" : "");
    return RHUMB_OK;
}

static uint32_t batch_of(const rhumb_terms *t)
{
    bool shifted = t->shift[0] || t->shift[1];
    return (t->mask & TERM_WINDOW) && shifted ? rhumb_window_count(t) : 1;
}

static void count_cost(rhumb_resolved *r)
{
    const rhumb_plan_info *i = &r->info;
    uint64_t elements = rhumb_saturated_product((uint64_t)i->max_q_length * i->max_k_length,
                                                (uint64_t)i->heads * batch_of(&r->terms));
    uint64_t table = i->views & BIT(RHUMB_VIEW_TABLE) ? (uint64_t)r->terms.rows * i->heads : 0;
    r->properties.flops = rhumb_saturated_product(elements, 2);
    r->properties.bytes =
        rhumb_saturated_product(elements, rhumb_dtype_size(i->dtype[RHUMB_VIEW_O]));
    if (r->properties.bytes < UINT64_MAX / 2)
        r->properties.bytes += table * rhumb_dtype_size(i->dtype[RHUMB_VIEW_TABLE]);
}

static uint32_t written(const rhumb_plan_info *i)
{
    return BIT(RHUMB_VIEW_O) | (i->views & BIT(RHUMB_VIEW_STATUS));
}

static uint32_t shared_slot(uint32_t id)
{
    return id == RHUMB_VIEW_O ? 1 : id == RHUMB_VIEW_TABLE ? 2 : 0;
}

static rhumb_result check_shapes(const rhumb_binder *b, rhumb_bindings *bindings)
{
    const rhumb_resolved *r = &b->plan->resolved;
    const rhumb_view *o = b->placed[RHUMB_VIEW_O].view;
    RHUMB_TRY(rhumb_want(b, RHUMB_VIEW_O, 0, "windows or 1:", batch_of(&r->terms)));
    RHUMB_TRY(rhumb_want(b, RHUMB_VIEW_O, 1, "heads", r->info.heads));
    if (r->terms.mask & TERM_WINDOW)
        for (uint32_t d = 2; d < 4; d++)
            RHUMB_TRY(rhumb_want(b, RHUMB_VIEW_O, d, "tokens", rhumb_window_tokens(&r->terms)));
    RHUMB_TRY(rhumb_take_sizes(b, RHUMB_VIEW_O, RHUMB_VIEW_O, bindings));
    if (o->shape[3] > RHUMB_MAX_LENGTH)
        return rhumb_fail(b->plan->context, RHUMB_ERROR_LIMIT,
                          "bias: shape of O: wanted Lk up to %d, found %llu", RHUMB_MAX_LENGTH,
                          (unsigned long long)o->shape[3]);
    bindings->k_length = (uint32_t)o->shape[3];
    RHUMB_TRY(rhumb_check_tables(b, bindings));
    RHUMB_TRY(rhumb_check_logit_positions(b, bindings));
    return rhumb_check_small_views(b, 1);
}

static uint64_t count_groups(const rhumb_bindings *bindings, const struct rhumb_push *push)
{
    uint64_t parts = ((uint64_t)push->max_k_length + BIAS_KEYS - 1) / BIAS_KEYS;
    uint64_t rows = ((uint64_t)push->max_q_length + BIAS_ROWS - 1) / BIAS_ROWS;
    uint64_t heads = (bindings->plan->resolved.info.heads + BIAS_HEADS - 1) / BIAS_HEADS;
    uint64_t invocations = rhumb_saturated_product(parts * rows, heads * bindings->batch);
    return invocations / BIAS_INVOCATIONS + (invocations % BIAS_INVOCATIONS != 0);
}

static rhumb_result record(VkCommandBuffer command_buffer, const rhumb_bindings *bindings,
                           const rhumb_dispatch *d)
{
    const rhumb_resolved *r = &bindings->plan->resolved;
    struct rhumb_push push = {
        .batch = bindings->batch, .window_left = RHUMB_NO_WINDOW, .window_right = RHUMB_NO_WINDOW};
    RHUMB_TRY(rhumb_check_no_mask(bindings, d, true));
    if (d->inverse)
        return rhumb_fail(bindings->plan->context, RHUMB_ERROR_ARGUMENT,
                          "bias: inverse: wanted 0, found %u", d->inverse);
    RHUMB_TRY(rhumb_check_lengths(bindings, d, true, &push));
    RHUMB_TRY(rhumb_take_windows(bindings, d, &push));
    if (!(r->info.views & BIT(RHUMB_VIEW_LENGTHS)))
        push.max_k_length = push.k_length;
    RHUMB_TRY(rhumb_check_offset(bindings, d, -RHUMB_MAX_LENGTH, &push));
    RHUMB_TRY(rhumb_check_reach(bindings, &push));
    uint64_t groups = count_groups(bindings, &push);
    RHUMB_TRY(rhumb_check_groups(bindings, groups));
    rhumb_emit(command_buffer, bindings, d, bindings->pipeline, groups, &push);
    return RHUMB_OK;
}

const rhumb_operation rhumb_op_bias = {
    .op = RHUMB_OP_BIAS,
    .name = "bias",
    .required = BIT(RHUMB_VIEW_O),
    .optional = BIT(RHUMB_VIEW_TABLE) | RHUMB_POSITION_VIEWS,
    .vectors = BIT(RHUMB_VIEW_O),
    .max_head_dim = RHUMB_MAX_HEAD_DIM,
    .resolve = resolve,
    .choose = choose,
    .count_cost = count_cost,
    .written = written,
    .shared_slot = shared_slot,
    .check_shapes = check_shapes,
    .record = record,
};
