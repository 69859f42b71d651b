/* COMBINE: partial results of attention over disjoint ranges of keys, merged by their LSE. */
#include "op.h"

#include <stdio.h>

static const rhumb_view_rule rules[RHUMB_VIEW_COUNT] = {
    [RHUMB_VIEW_PARTS] = {"PARTS", false, "[P B, heads, Lq, value_dim]"},
    [RHUMB_VIEW_PART_LSE] = {"PART_LSE", false, "[P B, heads, Lq]"},
};

static rhumb_result resolve(const rhumb_context *context, rhumb_resolved *r)
{
    if (r->info.scheme)
        return rhumb_fail(context, RHUMB_ERROR_ARGUMENT,
                          "combine: scheme: wanted NULL, found a struct");
    RHUMB_TRY(rhumb_refuse_rotary(context, "combine", &r->info));
    RHUMB_TRY(rhumb_check_f32(context, &rhumb_op_combine, &r->info, RHUMB_VIEW_PART_LSE));
    RHUMB_TRY(rhumb_check_f32(context, &rhumb_op_combine, &r->info, RHUMB_VIEW_LSE));
    rhumb_fill_scale(r);
    return RHUMB_OK;
}

void rhumb_set_combine(rhumb_resolved *r, uint32_t index)
{
    rhumb_set_common(r, &r->keys[index], RHUMB_KERNEL_COMBINE, false);
    r->keys[index].spec[SPEC_PAIRING] = PAIRING_NONE;
    r->rows_per_group[index] = 1;
}

static rhumb_result choose(const rhumb_context *context, rhumb_resolved *r)
{
    RHUMB_TRY(rhumb_check_variant(context, "combine", &r->info));
    rhumb_set_combine(r, RHUMB_ANY_ALIGNMENT);
    r->properties.variant = RHUMB_VARIANT_GENERIC;
    r->properties.invocations = COMBINE_INVOCATIONS;
    snprintf(r->properties.reason, sizeof r->properties.reason,
             "combine: one kernel for all shapes");
    return RHUMB_OK;
}

/* Of one part: how many there are, only bindings say. */
static void count_cost(rhumb_resolved *r)
{
    const rhumb_plan_info *i = &r->info;
    uint64_t elements = (uint64_t)i->heads * i->max_q_length * i->value_dim;
    r->properties.flops = 2 * elements;
    r->properties.bytes = elements * (rhumb_dtype_size(i->dtype[RHUMB_VIEW_PARTS]) +
                                      rhumb_dtype_size(i->dtype[RHUMB_VIEW_O]));
}

static uint32_t written(const rhumb_plan_info *i)
{
    return BIT(RHUMB_VIEW_O) | (i->views & BIT(RHUMB_VIEW_LSE));
}

static uint32_t shared_slot(uint32_t id)
{
    return id == RHUMB_VIEW_PARTS ? 1 : id == RHUMB_VIEW_O ? 2 : 0;
}

static rhumb_result check_shapes(const rhumb_binder *b, rhumb_bindings *bindings)
{
    const rhumb_plan_info *i = &b->plan->resolved.info;
    const rhumb_view *parts = b->placed[RHUMB_VIEW_PARTS].view;
    RHUMB_TRY(rhumb_take_sizes(b, RHUMB_VIEW_O, RHUMB_VIEW_O, bindings));
    const uint64_t batch = bindings->batch, rows = bindings->q_length;
    RHUMB_TRY(rhumb_want(b, RHUMB_VIEW_O, 1, "heads", i->heads));
    RHUMB_TRY(rhumb_want(b, RHUMB_VIEW_O, 3, "value_dim", i->value_dim));
    if (parts->shape[0] % batch || parts->shape[0] > RHUMB_MAX_LENGTH)
        return rhumb_fail(b->plan->context, RHUMB_ERROR_ARGUMENT,
                          "combine: shape of PARTS %s: wanted a multiple of B %llu up to %d in "
                          "shape[0], found %llu",
                          rules[RHUMB_VIEW_PARTS].shape, (unsigned long long)batch,
                          RHUMB_MAX_LENGTH, (unsigned long long)parts->shape[0]);
    bindings->parts = (uint32_t)(parts->shape[0] / batch);
    const uint64_t of_parts[4] = {parts->shape[0], i->heads, rows, i->value_dim};
    const uint64_t of_part_lse[4] = {1, parts->shape[0], i->heads, rows};
    const uint64_t of_lse[4] = {1, batch, i->heads, rows};
    RHUMB_TRY(rhumb_want_shape(b, RHUMB_VIEW_PARTS, of_parts));
    RHUMB_TRY(rhumb_want_shape(b, RHUMB_VIEW_PART_LSE, of_part_lse));
    return b->present & BIT(RHUMB_VIEW_LSE) ? rhumb_want_shape(b, RHUMB_VIEW_LSE, of_lse)
                                            : RHUMB_OK;
}

static rhumb_result check_ranges(const rhumb_bindings *bindings, const rhumb_dispatch *d)
{
    const rhumb_context *context = bindings->plan->context;
    const rhumb_key_range *ranges = d->key_ranges;
    if (d->part_count != (ranges ? bindings->parts : 0))
        return rhumb_fail(context, RHUMB_ERROR_ARGUMENT,
                          "combine: part_count: wanted %u, %s, found %u",
                          ranges ? bindings->parts : 0,
                          ranges ? "the parts of the views" : "as key_ranges is NULL",
                          d->part_count);
    int32_t end = 0;
    for (uint32_t p = 0; p < d->part_count; p++) {
        if (ranges[p].first < end || ranges[p].end < ranges[p].first)
            return rhumb_fail(context, RHUMB_ERROR_ARGUMENT,
                              "combine: key_ranges[%u]: wanted keys from %d on, after those of the "
                              "parts before, found %d to %d",
                              p, end, ranges[p].first, ranges[p].end);
        end = ranges[p].end;
    }
    return RHUMB_OK;
}

uint64_t rhumb_combine_groups(const rhumb_bindings *bindings, const struct rhumb_push *push)
{
    const rhumb_plan_info *i = &bindings->plan->resolved.info;
    uint64_t units = (i->value_dim + COMBINE_CHANNELS - 1) / COMBINE_CHANNELS;
    uint64_t rows = (uint64_t)i->heads * (uint32_t)push->max_q_length;
    uint64_t invocations = rhumb_saturated_product(rows * units, bindings->batch);
    return invocations / COMBINE_INVOCATIONS + (invocations % COMBINE_INVOCATIONS != 0);
}

static rhumb_result record(VkCommandBuffer command_buffer, const rhumb_bindings *bindings,
                           const rhumb_dispatch *d)
{
    struct rhumb_push push = {.batch = bindings->batch, .slices = bindings->parts};
    RHUMB_TRY(rhumb_check_no_mask(bindings, d, false));
    if (d->q_offset != RHUMB_UNSET || d->inverse || d->append_position != RHUMB_UNSET)
        return rhumb_fail(bindings->plan->context, RHUMB_ERROR_ARGUMENT,
                          "combine: q_offset, inverse and append_position: wanted the defaults, as "
                          "they mean nothing here, found %d, %u and %d",
                          d->q_offset, d->inverse, d->append_position);
    RHUMB_TRY(rhumb_check_lengths(bindings, d, false, &push));
    RHUMB_TRY(check_ranges(bindings, d));
    uint64_t groups = rhumb_combine_groups(bindings, &push);
    RHUMB_TRY(rhumb_check_groups(bindings, groups));
    rhumb_emit(command_buffer, bindings, d, bindings->pipeline, groups, &push);
    return RHUMB_OK;
}

const rhumb_operation rhumb_op_combine = {
    .op = RHUMB_OP_COMBINE,
    .name = "combine",
    .required = BIT(RHUMB_VIEW_PARTS) | BIT(RHUMB_VIEW_PART_LSE) | BIT(RHUMB_VIEW_O),
    .optional = BIT(RHUMB_VIEW_LSE),
    .max_head_dim = RHUMB_MAX_HEAD_DIM,
    .resolve = resolve,
    .choose = choose,
    .count_cost = count_cost,
    .written = written,
    .rules = rules,
    .shared_slot = shared_slot,
    .check_shapes = check_shapes,
    .record = record,
};
