/* PROJECT: Y = X W^T + b, and the table of a continuous bias. */
#include "op.h"

#include <stdio.h>

/* Views of the scalar (w - u) . Y: all or none. */
#define FOLD_VIEWS                                                                                 \
    (BIT(RHUMB_VIEW_TABLE_SCALAR) | BIT(RHUMB_VIEW_CONTENT_BIAS) | BIT(RHUMB_VIEW_POSITION_BIAS))

/* By the names that rhumb.h gives these ids here; shapes without a scheme. */
static const rhumb_view_rule rules[RHUMB_VIEW_COUNT] = {
    [RHUMB_VIEW_X] = {"X", false, "[rows, channels]"},
    [RHUMB_VIEW_WEIGHT] = {"WEIGHT", false, "by weight_layout"},
    [RHUMB_VIEW_OFFSET] = {"OFFSET", false, "[heads, head_dim]"},
    [RHUMB_VIEW_Y] = {"Y", false, "[heads, rows, head_dim]"},
};

static rhumb_result resolve_continuous(const rhumb_context *context, rhumb_resolved *r)
{
    const rhumb_header *params = r->info.scheme;
    const rhumb_scheme *scheme = rhumb_find_scheme(params->type);
    if (!scheme || !scheme->resolve_continuous)
        return rhumb_fail(context, RHUMB_ERROR_ARGUMENT,
                          "project: scheme: wanted NULL or a scheme with a continuous bias, found "
                          "a struct of type %u",
                          params->type);
    RHUMB_TRY(scheme->resolve_continuous(context, params, &r->continuous));
    if (!(r->info.views & BIT(RHUMB_VIEW_OFFSET)) || (r->info.views & FOLD_VIEWS))
        return rhumb_fail(context, RHUMB_ERROR_ARGUMENT,
                          "project: views: %s wanted X, WEIGHT, OFFSET and Y, found views 0x%x",
                          scheme->name, r->info.views);
    if (r->info.weight_layout != RHUMB_WEIGHT_OUT_IN)
        return rhumb_fail(context, RHUMB_ERROR_ARGUMENT,
                          "project: weight_layout: %s wanted OUT_IN, found IN_OUT", scheme->name);
    r->terms.rows = r->continuous.rows;
    r->terms.zero = r->continuous.zero;
    r->info.max_q_length = r->terms.rows;
    r->info.head_dim = 1;
    r->info.value_dim = r->continuous.hidden;
    return RHUMB_OK;
}

static rhumb_result resolve(const rhumb_context *context, rhumb_resolved *r)
{
    rhumb_plan_info *i = &r->info;
    RHUMB_TRY(rhumb_refuse_rotary(context, "project", i));
    if ((uint32_t)i->weight_layout > RHUMB_WEIGHT_IN_OUT)
        return rhumb_fail(context, RHUMB_ERROR_ARGUMENT,
                          "project: weight_layout: wanted a rhumb_weight_layout, found %d",
                          (int)i->weight_layout);
    RHUMB_TRY(rhumb_check_range(context, "project", "head_dim", i->head_dim, 1,
                                RHUMB_MAX_HEAD_DIM));
    if (i->scheme)
        RHUMB_TRY(resolve_continuous(context, r));
    if ((i->views & FOLD_VIEWS) && (i->views & FOLD_VIEWS) != FOLD_VIEWS)
        return rhumb_fail(context, RHUMB_ERROR_ARGUMENT,
                          "project: views: wanted all or none of TABLE_SCALAR, CONTENT_BIAS and "
                          "POSITION_BIAS, found views 0x%x",
                          i->views);
    if ((i->views & FOLD_VIEWS) && i->dtype[RHUMB_VIEW_TABLE_SCALAR] != RHUMB_F32)
        return rhumb_fail(context, RHUMB_ERROR_ARGUMENT,
                          "project: dtype of TABLE_SCALAR: wanted f32, found %s",
                          rhumb_dtype_name(i->dtype[RHUMB_VIEW_TABLE_SCALAR]));
    rhumb_fill_scale(r);
    return RHUMB_OK;
}

static rhumb_result choose(const rhumb_context *context, rhumb_resolved *r)
{
    bool continuous = r->continuous.hidden != 0;
    RHUMB_TRY(rhumb_check_variant(context, "project", &r->info));
    for (uint32_t i = 0; i < RHUMB_PLAN_PIPELINES; i++) {
        rhumb_set_common(r, &r->keys[i],
                         i == RHUMB_SECOND_STAGE ? RHUMB_KERNEL_FOLD
                         : continuous            ? RHUMB_KERNEL_CONTINUOUS_BIAS
                                                 : RHUMB_KERNEL_PROJECT,
                         i == RHUMB_FAST_ALIGNMENT);
        r->keys[i].spec[SPEC_WORKGROUP] = ROTATE_INVOCATIONS;
        r->rows_per_group[i] = PROJECT_ROWS;
    }
    r->has_fast = !continuous && r->info.weight_layout == RHUMB_WEIGHT_OUT_IN;
    r->has_second = r->info.views & BIT(RHUMB_VIEW_TABLE_SCALAR);
    r->properties.variant = RHUMB_VARIANT_GENERIC;
    r->properties.invocations = ROTATE_INVOCATIONS;
    r->properties.rows_per_group = PROJECT_ROWS;
    snprintf(r->properties.reason, sizeof r->properties.reason, "project: %s",
             continuous      ? "one number an invocation"
             : r->has_fast ? "vector accesses where rows start at multiples of 4 elements"
                           : "scalar accesses along the channels of Y");
    return RHUMB_OK;
}

static void count_cost(rhumb_resolved *r)
{
    const rhumb_plan_info *i = &r->info;
    uint64_t outputs = (uint64_t)i->heads * i->head_dim;
    r->properties.flops = rhumb_saturated_product(outputs * i->max_q_length,
                                                  2 * (uint64_t)i->value_dim);
    uint64_t x_rows = r->continuous.hidden ? 2 : i->max_q_length;
    r->properties.bytes =
        x_rows * i->value_dim * rhumb_dtype_size(i->dtype[RHUMB_VIEW_X]) +
        outputs * i->value_dim * rhumb_dtype_size(i->dtype[RHUMB_VIEW_WEIGHT]) +
        outputs * i->max_q_length * rhumb_dtype_size(i->dtype[RHUMB_VIEW_Y]);
}

static uint32_t written(const rhumb_plan_info *i)
{
    return BIT(RHUMB_VIEW_Y) | (i->views & BIT(RHUMB_VIEW_TABLE_SCALAR));
}

static uint32_t shared_slot(uint32_t id)
{
    return id == RHUMB_VIEW_WEIGHT ? 1 : id == RHUMB_VIEW_Y ? 2 : id == RHUMB_VIEW_X ? 3 : 0;
}

static rhumb_result check_continuous(const rhumb_binder *b)
{
    const rhumb_plan_info *i = &b->plan->resolved.info;
    const uint64_t x[4] = {1, 1, i->value_dim, 2};
    const uint64_t offset[4] = {1, 1, 1, i->value_dim};
    const uint64_t weight[4] = {1, 1, i->heads, i->value_dim};
    const uint64_t y[4] = {1, 1, i->max_q_length, i->heads};
    RHUMB_TRY(rhumb_want_shape(b, RHUMB_VIEW_X, x));
    RHUMB_TRY(rhumb_want_shape(b, RHUMB_VIEW_OFFSET, offset));
    RHUMB_TRY(rhumb_want_shape(b, RHUMB_VIEW_WEIGHT, weight));
    return rhumb_want_shape(b, RHUMB_VIEW_Y, y);
}

static rhumb_result check_projection(const rhumb_binder *b)
{
    const rhumb_plan_info *i = &b->plan->resolved.info;
    uint64_t rows = b->placed[RHUMB_VIEW_X].view->shape[2];
    bool out_in = i->weight_layout == RHUMB_WEIGHT_OUT_IN;
    const uint64_t x[4] = {1, 1, rows, i->value_dim};
    const uint64_t weight[4] = {1, out_in ? i->heads : i->value_dim,
                                out_in ? i->head_dim : i->heads,
                                out_in ? i->value_dim : i->head_dim};
    const uint64_t vector[4] = {1, 1, i->heads, i->head_dim};
    const uint64_t y[4] = {1, i->heads, rows, i->head_dim};
    const uint64_t scalar[4] = {1, 1, rows, i->heads};
    RHUMB_TRY(rhumb_want_shape(b, RHUMB_VIEW_X, x));
    RHUMB_TRY(rhumb_want_shape(b, RHUMB_VIEW_WEIGHT, weight));
    RHUMB_TRY(rhumb_want_shape(b, RHUMB_VIEW_Y, y));
    if (b->present & BIT(RHUMB_VIEW_OFFSET))
        RHUMB_TRY(rhumb_want_shape(b, RHUMB_VIEW_OFFSET, vector));
    if (!(b->present & BIT(RHUMB_VIEW_TABLE_SCALAR)))
        return RHUMB_OK;
    RHUMB_TRY(rhumb_want_shape(b, RHUMB_VIEW_CONTENT_BIAS, vector));
    RHUMB_TRY(rhumb_want_shape(b, RHUMB_VIEW_POSITION_BIAS, vector));
    return rhumb_want_shape(b, RHUMB_VIEW_TABLE_SCALAR, scalar);
}

static rhumb_result check_shapes(const rhumb_binder *b, rhumb_bindings *bindings)
{
    bool continuous = b->plan->resolved.continuous.hidden != 0;
    RHUMB_TRY(continuous ? check_continuous(b) : check_projection(b));
    return rhumb_take_sizes(b, continuous ? RHUMB_VIEW_Y : RHUMB_VIEW_X,
                            continuous ? RHUMB_VIEW_Y : RHUMB_VIEW_X, bindings);
}

static uint64_t groups_of(uint64_t invocations)
{
    return (invocations + ROTATE_INVOCATIONS - 1) / ROTATE_INVOCATIONS;
}

static rhumb_result record(VkCommandBuffer command_buffer, const rhumb_bindings *bindings,
                           const rhumb_dispatch *d)
{
    const rhumb_resolved *r = &bindings->plan->resolved;
    const rhumb_plan_info *i = &r->info;
    struct rhumb_push push = {.batch = 1};
    rhumb_dispatch rest = *d;
    rest.q_length = RHUMB_UNSET;
    RHUMB_TRY(rhumb_check_defaults(bindings, r->continuous.hidden ? d : &rest));
    RHUMB_TRY(rhumb_check_length(bindings, "q_length", d->q_length, bindings->q_length,
                                 i->max_q_length, &push.q_length));
    uint64_t rows = (uint32_t)push.q_length;
    uint64_t tiles = r->continuous.hidden ? rows : (rows + PROJECT_ROWS - 1) / PROJECT_ROWS;
    uint64_t groups = groups_of(tiles * i->heads * i->head_dim);
    uint64_t fold_groups = groups_of(rows * i->heads);
    RHUMB_TRY(rhumb_check_groups(bindings, groups));
    RHUMB_TRY(rhumb_check_groups(bindings, fold_groups));
    rhumb_emit(command_buffer, bindings, d, bindings->pipeline, groups, &push);
    if (bindings->second && rows) {
        rhumb_barrier(command_buffer, bindings);
        rhumb_emit(command_buffer, bindings, d, bindings->second, fold_groups, &push);
    }
    return RHUMB_OK;
}

const rhumb_operation rhumb_op_project = {
    .op = RHUMB_OP_PROJECT,
    .name = "project",
    .required = BIT(RHUMB_VIEW_X) | BIT(RHUMB_VIEW_WEIGHT) | BIT(RHUMB_VIEW_Y),
    .optional = BIT(RHUMB_VIEW_OFFSET) | FOLD_VIEWS,
    .vectors = BIT(RHUMB_VIEW_X) | BIT(RHUMB_VIEW_WEIGHT),
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
