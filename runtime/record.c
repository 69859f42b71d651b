/* Record: checks of a dispatch, then four commands. No allocation, no lock. */
#include "internal.h"

static bool is_rotate(const rhumb_bindings *bindings)
{
    return bindings->plan->resolved.info.op == RHUMB_OP_ROTATE;
}

static rhumb_result check_length(const rhumb_bindings *bindings, const char *op, const char *field,
                                 int32_t value, uint32_t of_views, uint32_t of_plan,
                                 int32_t *resolved)
{
    uint32_t most = of_views < of_plan ? of_views : of_plan;
    const rhumb_context *context = bindings->plan->context;
    bool from_views = value == RHUMB_UNSET;
    int64_t length = from_views ? (int64_t)of_views : value;
    if (length < 0)
        return rhumb_fail(context, RHUMB_ERROR_ARGUMENT, "%s: %s: wanted 0 or more, found %d", op,
                          field, value);
    if (length > most)
        return rhumb_fail(context, RHUMB_ERROR_LIMIT,
                          "%s: %s: wanted up to %u (views have %u, the plan's maximum is "
                          "%u), found %lld",
                          op, field, most, of_views, of_plan, (long long)length);
    *resolved = (int32_t)length;
    return RHUMB_OK;
}

static rhumb_result check_lengths(const rhumb_bindings *bindings, const char *op,
                                  const rhumb_dispatch *d, struct rhumb_push *push)
{
    const rhumb_plan_info *i = &bindings->plan->resolved.info;
    bool on_device = i->views & RHUMB_VIEW_BIT(RHUMB_VIEW_LENGTHS);
    push->max_q_length =
        (int32_t)(bindings->q_length < i->max_q_length ? bindings->q_length : i->max_q_length);
    push->max_k_length =
        (int32_t)(bindings->k_length < i->max_k_length ? bindings->k_length : i->max_k_length);
    int32_t q = d->q_length, k = d->k_length;
    if (on_device) {
        /* the dispatch covers the maxima; what is unset on the device falls back to them */
        q = q == RHUMB_UNSET ? push->max_q_length : q;
        k = k == RHUMB_UNSET ? push->max_k_length : k;
    }
    RHUMB_TRY(check_length(bindings, op, "q_length", q, bindings->q_length, i->max_q_length,
                           &push->q_length));
    if (!is_rotate(bindings))
        RHUMB_TRY(check_length(bindings, op, "k_length", k, bindings->k_length, i->max_k_length,
                               &push->k_length));
    if (!on_device)
        push->max_q_length = push->q_length;
    return RHUMB_OK;
}

/* Whether rows take their positions from q_offset, so that it must not be negative. */
static bool offset_is_position(const rhumb_bindings *bindings)
{
    return bindings->plan->resolved.has_rotary &&
           !(bindings->plan->resolved.info.views & RHUMB_VIEW_BIT(RHUMB_VIEW_POSITIONS_Q));
}

static rhumb_result check_offset(const rhumb_bindings *bindings, const char *op,
                                 const rhumb_dispatch *d, struct rhumb_push *push)
{
    const rhumb_context *context = bindings->plan->context;
    bool on_device = bindings->plan->resolved.info.views & RHUMB_VIEW_BIT(RHUMB_VIEW_LENGTHS);
    push->q_offset = d->q_offset;
    if (d->q_offset == RHUMB_UNSET &&
        (is_rotate(bindings) || on_device || !offset_is_position(bindings)))
        return RHUMB_OK;
    int64_t offset =
        d->q_offset == RHUMB_UNSET ? (int64_t)push->k_length - push->q_length : d->q_offset;
    int64_t lowest = offset_is_position(bindings) ? 0 : -RHUMB_MAX_LENGTH;
    int64_t highest = (int64_t)INT32_MAX - push->max_q_length;
    if (offset < lowest || offset > highest)
        return rhumb_fail(context, RHUMB_ERROR_ARGUMENT,
                          "%s: q_offset: wanted %lld to %lld%s, found %lld", op, (long long)lowest,
                          (long long)highest, lowest ? "" : ", as it is a position",
                          (long long)offset);
    return RHUMB_OK;
}

static rhumb_result check_flag(const rhumb_context *context, const char *op, const char *field,
                               uint32_t value)
{
    if (value <= 1)
        return RHUMB_OK;
    return rhumb_fail(context, RHUMB_ERROR_ARGUMENT, "%s: %s: wanted 0 or 1, found %u", op, field,
                      value);
}

static rhumb_result check_mask(const rhumb_bindings *bindings, const char *op,
                               const rhumb_dispatch *d, struct rhumb_push *push)
{
    const rhumb_context *context = bindings->plan->context;
    RHUMB_TRY(check_flag(context, op, "causal", d->causal));
    RHUMB_TRY(check_flag(context, op, "inverse", d->inverse));
    if (is_rotate(bindings) && (d->causal || d->window_left != RHUMB_NO_WINDOW ||
                                d->window_right != RHUMB_NO_WINDOW || d->k_length != RHUMB_UNSET))
        return rhumb_fail(
            context, RHUMB_ERROR_ARGUMENT,
            "%s: causal, window and k_length: wanted the defaults, as they mean nothing here", op);
    if (d->inverse && bindings->plan->resolved.rotary.has_growth)
        return rhumb_fail(context, RHUMB_ERROR_UNSUPPORTED,
                          "%s: inverse: wanted 0 with a scheme whose pairs grow, found 1", op);
    if (d->inverse && bindings->plan->resolved.rotary.pairing == PAIRING_INTERLEAVED_TO_HALF)
        return rhumb_fail(context, RHUMB_ERROR_UNSUPPORTED,
                          "%s: inverse: wanted 0 with INTERLEAVED_TO_HALF, whose order of channels "
                          "the angle alone does not undo, found 1",
                          op);
    if (!is_rotate(bindings) && d->inverse)
        return rhumb_fail(context, RHUMB_ERROR_ARGUMENT, "%s: inverse: wanted 0, found 1", op);
    if (d->window_left < 1)
        return rhumb_fail(context, RHUMB_ERROR_ARGUMENT,
                          "%s: window_left: wanted 1 or more, found %d", op, d->window_left);
    if (d->window_right < 0)
        return rhumb_fail(context, RHUMB_ERROR_ARGUMENT,
                          "%s: window_right: wanted 0 or more, found %d", op, d->window_right);
    push->window_left = d->window_left;
    push->window_right = d->window_right;
    push->flags = (d->causal ? FLAG_CAUSAL : 0) | (d->inverse ? FLAG_INVERSE : 0);
    return RHUMB_OK;
}

static rhumb_result check_uniform_offset(const rhumb_context *context, const char *op,
                                         const char *field, uint32_t offset)
{
    if (offset % context->limits.uniform_offset_alignment == 0)
        return RHUMB_OK;
    return rhumb_fail(context, RHUMB_ERROR_ARGUMENT, "%s: %s: wanted a multiple of %u, found %u",
                      op, field, context->limits.uniform_offset_alignment, offset);
}

/* Work groups of the whole dispatch. */
static uint64_t count_groups(const rhumb_bindings *bindings, struct rhumb_push *push)
{
    const rhumb_plan_info *i = &bindings->plan->resolved.info;
    if (!is_rotate(bindings)) {
        uint64_t rows = (uint64_t)(i->heads / i->kv_heads) * (uint32_t)push->max_q_length;
        uint64_t tiles = (rows + bindings->rows_per_group - 1) / bindings->rows_per_group;
        push->tiles = tiles > UINT32_MAX ? UINT32_MAX : (uint32_t)tiles;
        return tiles * i->kv_heads * bindings->batch;
    }
    const rhumb_rotary *rotary = &bindings->plan->resolved.rotary;
    const uint32_t q_out = RHUMB_VIEW_BIT(RHUMB_VIEW_Q_OUT),
                   k_out = RHUMB_VIEW_BIT(RHUMB_VIEW_K_OUT);
    uint32_t pairs = rotary->rotary_dim / 2 / rotary->segments;
    uint64_t parts = (uint64_t)rotary->segments * ((pairs + ROTATE_PAIRS - 1) / ROTATE_PAIRS);
    if (i->views & (q_out | k_out))
        parts += (i->head_dim - rotary->rotary_dim + ROTATE_COPY - 1) / ROTATE_COPY;
    uint64_t groups = 0;
    if (i->views & RHUMB_VIEW_BIT(RHUMB_VIEW_Q))
        groups += (i->heads + ROTATE_HEADS - 1) / ROTATE_HEADS;
    if (i->views & RHUMB_VIEW_BIT(RHUMB_VIEW_K))
        groups += (i->kv_heads + ROTATE_HEADS - 1) / ROTATE_HEADS;
    return (parts * groups * (uint32_t)push->max_q_length * bindings->batch + ROTATE_INVOCATIONS -
            1) /
           ROTATE_INVOCATIONS;
}

rhumb_result rhumb_record(VkCommandBuffer command_buffer, const rhumb_bindings *bindings,
                          const rhumb_dispatch *given)
{
    rhumb_dispatch d;
    struct rhumb_push push = {0};
    rhumb_init_dispatch(&d);
    if (!bindings || !command_buffer)
        return rhumb_fail(bindings ? bindings->plan->context : NULL, RHUMB_ERROR_ARGUMENT,
                          "record: wanted a command buffer and bindings, found NULL");
    const rhumb_plan *plan = bindings->plan;
    const rhumb_context *context = plan->context;
    const char *op = is_rotate(bindings) ? "rotate" : "attention";
    RHUMB_TRY(rhumb_check_lost(context));
    RHUMB_TRY(rhumb_adopt(context, op, "rhumb_dispatch", given, RHUMB_TYPE_DISPATCH, &d, sizeof d));
    RHUMB_TRY(check_uniform_offset(context, op, "constants_offset", d.constants_offset));
    RHUMB_TRY(check_uniform_offset(context, op, "bindings_offset", d.bindings_offset));
    RHUMB_TRY(check_lengths(bindings, op, &d, &push));
    RHUMB_TRY(check_offset(bindings, op, &d, &push));
    RHUMB_TRY(check_mask(bindings, op, &d, &push));
    push.batch = bindings->batch;
    uint64_t groups = count_groups(bindings, &push);
    const rhumb_limits *l = &context->limits;
    uint64_t room = (uint64_t)l->max_workgroups_x * l->max_workgroups_y;
    /* Invocations are numbered in 32 bits. */
    uint64_t most = UINT32_MAX / ROTATE_INVOCATIONS;
    if (groups > room || groups > most)
        return rhumb_fail(context, RHUMB_ERROR_LIMIT,
                          "%s: work groups: wanted up to %llu in a dispatch, found %llu", op,
                          (unsigned long long)(room < most ? room : most),
                          (unsigned long long)groups);
    if (!groups)
        return RHUMB_OK;
    push.groups = (uint32_t)groups;
    uint32_t x = push.groups < l->max_workgroups_x ? push.groups : l->max_workgroups_x;
    uint32_t y = (push.groups + x - 1) / x;

    const uint32_t offsets[2] = {d.constants_offset, d.bindings_offset};
    const rhumb_vk *vk = &context->vk;
    vk->CmdBindPipeline(command_buffer, VK_PIPELINE_BIND_POINT_COMPUTE, bindings->pipeline);
    vk->CmdBindDescriptorSets(command_buffer, VK_PIPELINE_BIND_POINT_COMPUTE, plan->layout, 0, 1,
                              &bindings->set, 2, offsets);
    vk->CmdPushConstants(command_buffer, plan->layout, VK_SHADER_STAGE_COMPUTE_BIT, 0, sizeof push,
                         &push);
    vk->CmdDispatch(command_buffer, x, y, 1);
    return RHUMB_OK;
}
