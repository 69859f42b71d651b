/* RESIZE: a learned table resampled to another grid. */
#include "op.h"

#include <stdio.h>

static const rhumb_view_rule rules[RHUMB_VIEW_COUNT] = {
    [RHUMB_VIEW_TABLE] = {"TABLE", false, "[rows, head_dim]"},
    [RHUMB_VIEW_Y] = {"Y", false, "[rows, head_dim]"},
};

static uint64_t rows_of(const rhumb_resampling *s, const uint32_t grid[2])
{
    return (uint64_t)grid[0] * grid[1] + s->prefix + s->suffix;
}

static rhumb_result resolve(const rhumb_context *context, rhumb_resolved *r)
{
    const rhumb_header *params = r->info.scheme;
    const rhumb_scheme *scheme = params ? rhumb_find_scheme(params->type) : NULL;
    if (!scheme || !scheme->resolve_resampling)
        return rhumb_fail(context, RHUMB_ERROR_ARGUMENT,
                          "resize: scheme: wanted a rhumb_resize, found %s",
                          params ? "another struct" : "NULL");
    RHUMB_TRY(rhumb_refuse_rotary(context, "resize", &r->info));
    RHUMB_TRY(rhumb_check_range(context, "resize", "heads", r->info.heads, 1, 1));
    RHUMB_TRY(scheme->resolve_resampling(context, params, &r->resampling));
    const rhumb_resampling *s = &r->resampling;
    if (rows_of(s, s->old_grid) > RHUMB_MAX_LENGTH || rows_of(s, s->new_grid) > RHUMB_MAX_LENGTH)
        return rhumb_fail(context, RHUMB_ERROR_LIMIT,
                          "resize: rows: wanted up to %d, found %llu and %llu", RHUMB_MAX_LENGTH,
                          (unsigned long long)rows_of(s, s->old_grid),
                          (unsigned long long)rows_of(s, s->new_grid));
    r->info.max_q_length = (uint32_t)rows_of(s, s->new_grid);
    rhumb_fill_scale(r);
    return RHUMB_OK;
}

static rhumb_result choose(const rhumb_context *context, rhumb_resolved *r)
{
    RHUMB_TRY(rhumb_check_variant(context, "resize", &r->info));
    for (uint32_t i = RHUMB_ANY_ALIGNMENT; i <= RHUMB_FAST_ALIGNMENT; i++) {
        rhumb_set_common(r, &r->keys[i], RHUMB_KERNEL_RESIZE, i == RHUMB_FAST_ALIGNMENT);
        r->keys[i].spec[SPEC_WORKGROUP] = ROTATE_INVOCATIONS;
        r->keys[i].spec[SPEC_RESIZE] = r->resampling.flags;
        r->rows_per_group[i] = 1;
    }
    r->has_fast = r->info.head_dim % 4 == 0;
    r->properties.variant = RHUMB_VARIANT_GENERIC;
    r->properties.invocations = ROTATE_INVOCATIONS;
    snprintf(r->properties.reason, sizeof r->properties.reason, "resize: %s",
             r->has_fast ? "vector accesses where rows start at multiples of 4 elements"
                         : "scalar accesses: head_dim is no multiple of a vector");
    return RHUMB_OK;
}

static void count_cost(rhumb_resolved *r)
{
    const rhumb_resampling *s = &r->resampling;
    const rhumb_plan_info *i = &r->info;
    double support = s->flags & RESIZE_CUBIC ? 4 : 2;
    double taps = support * support * s->spread[0] * s->spread[1];
    r->properties.flops =
        (uint64_t)(2 * taps * s->new_grid[0] * s->new_grid[1] * i->head_dim);
    r->properties.bytes = rows_of(s, s->old_grid) * i->head_dim *
                              rhumb_dtype_size(i->dtype[RHUMB_VIEW_TABLE]) +
                          rows_of(s, s->new_grid) * i->head_dim *
                              rhumb_dtype_size(i->dtype[RHUMB_VIEW_Y]);
}

static uint32_t written(const rhumb_plan_info *i)
{
    (void)i;
    return BIT(RHUMB_VIEW_Y);
}

static uint32_t shared_slot(uint32_t id)
{
    return id == RHUMB_VIEW_TABLE ? 1 : 0;
}

static rhumb_result check_shapes(const rhumb_binder *b, rhumb_bindings *bindings)
{
    const rhumb_resolved *r = &b->plan->resolved;
    const uint64_t old_shape[4] = {1, 1, rows_of(&r->resampling, r->resampling.old_grid),
                                   r->info.head_dim};
    const uint64_t new_shape[4] = {1, 1, r->info.max_q_length, r->info.head_dim};
    RHUMB_TRY(rhumb_want_shape(b, RHUMB_VIEW_TABLE, old_shape));
    RHUMB_TRY(rhumb_want_shape(b, RHUMB_VIEW_Y, new_shape));
    return rhumb_take_sizes(b, RHUMB_VIEW_Y, RHUMB_VIEW_Y, bindings);
}

static rhumb_result record(VkCommandBuffer command_buffer, const rhumb_bindings *bindings,
                           const rhumb_dispatch *d)
{
    const rhumb_plan_info *i = &bindings->plan->resolved.info;
    struct rhumb_push push = {.batch = 1, .q_length = (int32_t)i->max_q_length};
    RHUMB_TRY(rhumb_check_defaults(bindings, d));
    uint64_t parts = (uint64_t)i->max_q_length * ((i->head_dim + 3) / 4);
    uint64_t groups = (parts + ROTATE_INVOCATIONS - 1) / ROTATE_INVOCATIONS;
    RHUMB_TRY(rhumb_check_groups(bindings, groups));
    rhumb_emit(command_buffer, bindings, d, bindings->pipeline, groups, &push);
    return RHUMB_OK;
}

const rhumb_operation rhumb_op_resize = {
    .op = RHUMB_OP_RESIZE,
    .name = "resize",
    .required = BIT(RHUMB_VIEW_TABLE) | BIT(RHUMB_VIEW_Y),
    .vectors = BIT(RHUMB_VIEW_TABLE) | BIT(RHUMB_VIEW_Y),
    .max_head_dim = RHUMB_MAX_CHANNELS,
    .resolve = resolve,
    .choose = choose,
    .count_cost = count_cost,
    .written = written,
    .rules = rules,
    .shared_slot = shared_slot,
    .check_shapes = check_shapes,
    .record = record,
};
