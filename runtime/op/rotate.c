/* ROTATE: Q, K or both turned by their positions. */
#include "op.h"

static const uint32_t inputs[] = {RHUMB_VIEW_Q, RHUMB_VIEW_K};
static const uint32_t outputs[] = {RHUMB_VIEW_Q_OUT, RHUMB_VIEW_K_OUT};

static rhumb_result resolve(const rhumb_context *context, rhumb_resolved *r)
{
    const rhumb_plan_info *i = &r->info;
    for (uint32_t n = 0; n < 2; n++)
        if ((i->views & BIT(outputs[n])) && !(i->views & BIT(inputs[n])))
            return rhumb_fail(context, RHUMB_ERROR_ARGUMENT,
                              "rotate: views: wanted %s beside %s, found none",
                              rhumb_view_name(inputs[n]), rhumb_view_name(outputs[n]));
    if (!i->rotary)
        return rhumb_fail(context, RHUMB_ERROR_ARGUMENT,
                          "rotate: rotary: wanted a rotary scheme struct, found NULL");
    if (i->scheme)
        return rhumb_fail(context, RHUMB_ERROR_ARGUMENT,
                          "rotate: scheme: wanted NULL, found a struct of type %u",
                          ((const rhumb_header *)i->scheme)->type);
    rhumb_fill_scale(r);
    return rhumb_resolve_plan_rotary(context, "rotate", r);
}

static void count_cost(rhumb_resolved *r)
{
    const rhumb_plan_info *i = &r->info;
    rhumb_plan_properties *p = &r->properties;
    const uint32_t heads[] = {i->heads, i->kv_heads};
    for (uint32_t n = 0; n < 2; n++) {
        if (!(i->views & BIT(inputs[n])))
            continue;
        bool apart = i->views & BIT(outputs[n]);
        uint64_t rows = (uint64_t)heads[n] * i->max_q_length;
        uint32_t size = rhumb_dtype_size(i->dtype[inputs[n]]);
        p->bytes += rows * (apart ? i->head_dim * (size + rhumb_dtype_size(i->dtype[outputs[n]]))
                                  : 2 * r->rotary.rotary_dim * size);
        p->flops += rows * 3 * r->rotary.rotary_dim;
    }
}

/* Without an output view the input is written. */
static uint32_t written(const rhumb_plan_info *i)
{
    uint32_t views = i->views & (BIT(RHUMB_VIEW_Q_OUT) | BIT(RHUMB_VIEW_K_OUT) |
                                 BIT(RHUMB_VIEW_STATUS));
    for (uint32_t n = 0; n < 2; n++)
        if (!(i->views & BIT(outputs[n])))
            views |= i->views & BIT(inputs[n]);
    return views;
}

static uint32_t shared_slot(uint32_t id)
{
    return id == RHUMB_VIEW_K ? 1 : id == RHUMB_VIEW_Q_OUT ? 2 : id == RHUMB_VIEW_K_OUT ? 3 : 0;
}

static rhumb_result check_tensor(const rhumb_binder *b, uint32_t id, const rhumb_bindings *bindings)
{
    const rhumb_plan_info *i = &b->plan->resolved.info;
    bool of_keys = id == RHUMB_VIEW_K || id == RHUMB_VIEW_K_OUT;
    RHUMB_TRY(rhumb_want(b, id, 0, "B", bindings->batch));
    RHUMB_TRY(
        rhumb_want(b, id, 1, of_keys ? "kv_heads" : "heads", of_keys ? i->kv_heads : i->heads));
    RHUMB_TRY(rhumb_want(b, id, 2, "Lq", bindings->q_length));
    return rhumb_want(b, id, 3, "head_dim", i->head_dim);
}

static rhumb_result check_shapes(const rhumb_binder *b, rhumb_bindings *bindings)
{
    uint32_t lead = b->present & BIT(RHUMB_VIEW_Q) ? RHUMB_VIEW_Q : RHUMB_VIEW_K;
    RHUMB_TRY(rhumb_take_sizes(b, lead, lead, bindings));
    for (uint32_t n = 0; n < 2; n++) {
        if (b->present & BIT(inputs[n]))
            RHUMB_TRY(check_tensor(b, inputs[n], bindings));
        if (b->present & BIT(outputs[n]))
            RHUMB_TRY(check_tensor(b, outputs[n], bindings));
    }
    if (b->present & BIT(RHUMB_VIEW_POSITIONS_Q))
        RHUMB_TRY(rhumb_check_positions(b, RHUMB_VIEW_POSITIONS_Q, b->plan->resolved.rotary.axes,
                                        bindings->batch, bindings->q_length));
    return rhumb_check_small_views(b, bindings->batch);
}

static rhumb_result check_inverse(const rhumb_bindings *bindings, const rhumb_dispatch *d)
{
    const rhumb_context *context = bindings->plan->context;
    const rhumb_rotary *rotary = &bindings->plan->resolved.rotary;
    RHUMB_TRY(rhumb_check_flag(bindings, "causal", d->causal));
    RHUMB_TRY(rhumb_check_flag(bindings, "inverse", d->inverse));
    if (d->inverse && rotary->has_growth)
        return rhumb_fail(context, RHUMB_ERROR_UNSUPPORTED,
                          "rotate: inverse: wanted 0 with a scheme whose pairs grow, found 1");
    if (d->inverse && rotary->pairing == PAIRING_INTERLEAVED_TO_HALF)
        return rhumb_fail(context, RHUMB_ERROR_UNSUPPORTED,
                          "rotate: inverse: wanted 0 with INTERLEAVED_TO_HALF, whose order of "
                          "channels the angle alone does not undo, found 1");
    return RHUMB_OK;
}

static uint64_t count_groups(const rhumb_bindings *bindings, const struct rhumb_push *push)
{
    const rhumb_plan_info *i = &bindings->plan->resolved.info;
    const rhumb_rotary *rotary = &bindings->plan->resolved.rotary;
    uint32_t pairs = rotary->rotary_dim / 2 / rotary->segments;
    uint64_t parts = (uint64_t)rotary->segments * ((pairs + ROTATE_PAIRS - 1) / ROTATE_PAIRS);
    if (i->views & (BIT(RHUMB_VIEW_Q_OUT) | BIT(RHUMB_VIEW_K_OUT)))
        parts += (i->head_dim - rotary->rotary_dim + ROTATE_COPY - 1) / ROTATE_COPY;
    uint64_t groups = 0;
    if (i->views & BIT(RHUMB_VIEW_Q))
        groups += (i->heads + ROTATE_HEADS - 1) / ROTATE_HEADS;
    if (i->views & BIT(RHUMB_VIEW_K))
        groups += (i->kv_heads + ROTATE_HEADS - 1) / ROTATE_HEADS;
    return (parts * groups * (uint32_t)push->max_q_length * bindings->batch + ROTATE_INVOCATIONS -
            1) /
           ROTATE_INVOCATIONS;
}

static rhumb_result record(VkCommandBuffer command_buffer, const rhumb_bindings *bindings,
                           const rhumb_dispatch *d)
{
    struct rhumb_push push = {.batch = bindings->batch,
                              .q_offset = d->q_offset,
                              .window_left = RHUMB_NO_WINDOW,
                              .window_right = RHUMB_NO_WINDOW,
                              .flags = d->inverse ? FLAG_INVERSE : 0};
    bool has_positions = bindings->plan->resolved.info.views & BIT(RHUMB_VIEW_POSITIONS_Q);
    RHUMB_TRY(rhumb_check_lengths(bindings, d, false, &push));
    if (d->q_offset != RHUMB_UNSET)
        RHUMB_TRY(
            rhumb_check_offset(bindings, d, has_positions ? -RHUMB_MAX_LENGTH : 0, &push));
    RHUMB_TRY(check_inverse(bindings, d));
    RHUMB_TRY(rhumb_check_no_mask(bindings, d, false));
    uint64_t groups = count_groups(bindings, &push);
    RHUMB_TRY(rhumb_check_groups(bindings, groups));
    rhumb_emit(command_buffer, bindings, d, bindings->pipeline, groups, &push);
    return RHUMB_OK;
}

const rhumb_operation rhumb_op_rotate = {
    .op = RHUMB_OP_ROTATE,
    .name = "rotate",
    .one_of = BIT(RHUMB_VIEW_Q) | BIT(RHUMB_VIEW_K),
    .optional = BIT(RHUMB_VIEW_Q_OUT) | BIT(RHUMB_VIEW_K_OUT) | BIT(RHUMB_VIEW_POSITIONS_Q) |
                BIT(RHUMB_VIEW_LENGTHS) | BIT(RHUMB_VIEW_STATUS),
    .vectors = BIT(RHUMB_VIEW_Q) | BIT(RHUMB_VIEW_K) | BIT(RHUMB_VIEW_Q_OUT) |
               BIT(RHUMB_VIEW_K_OUT),
    .max_head_dim = RHUMB_MAX_HEAD_DIM,
    .resolve = resolve,
    .choose = rhumb_choose_rotate,
    .count_cost = count_cost,
    .written = written,
    .shared_slot = shared_slot,
    .check_shapes = check_shapes,
    .record = record,
};
