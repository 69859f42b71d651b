/* Record: checks that operations share, then the commands. No allocation, no lock. */
#include "op/op.h"

#include <math.h>

rhumb_result rhumb_check_length(const rhumb_bindings *bindings, const char *field, int32_t value,
                                uint32_t of_views, uint32_t of_plan, int32_t *resolved)
{
    const char *op = bindings->plan->operation->name;
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

rhumb_result rhumb_check_lengths(const rhumb_bindings *bindings, const rhumb_dispatch *d,
                                 bool has_keys, struct rhumb_push *push)
{
    const rhumb_plan_info *i = &bindings->plan->resolved.info;
    bool on_device = rhumb_lengths_on_device(&bindings->plan->resolved);
    push->max_q_length = (int32_t)rhumb_min_u32(bindings->q_length, i->max_q_length);
    push->max_k_length = (int32_t)rhumb_min_u32(bindings->k_length, i->max_k_length);
    int32_t q = d->q_length, k = d->k_length;
    if (on_device) {
        /* the dispatch covers the maxima; what is unset on the device falls back to them */
        q = q == RHUMB_UNSET ? push->max_q_length : q;
        k = k == RHUMB_UNSET ? push->max_k_length : k;
    }
    RHUMB_TRY(rhumb_check_length(bindings, "q_length", q, bindings->q_length, i->max_q_length,
                                 &push->q_length));
    if (has_keys)
        RHUMB_TRY(rhumb_check_length(bindings, "k_length", k, bindings->k_length, i->max_k_length,
                                     &push->k_length));
    if (!on_device)
        push->max_q_length = push->q_length;
    return RHUMB_OK;
}

rhumb_result rhumb_check_offset(const rhumb_bindings *bindings, const rhumb_dispatch *d,
                                int64_t lowest, struct rhumb_push *push)
{
    int64_t offset =
        d->q_offset == RHUMB_UNSET ? (int64_t)push->k_length - push->q_length : d->q_offset;
    int64_t highest = (int64_t)INT32_MAX - push->max_q_length;
    push->q_offset = d->q_offset;
    if (offset < lowest || offset > highest)
        return rhumb_fail(bindings->plan->context, RHUMB_ERROR_ARGUMENT,
                          "%s: q_offset: wanted %lld to %lld%s, found %lld",
                          bindings->plan->operation->name, (long long)lowest, (long long)highest,
                          lowest ? "" : ", as it is a position", (long long)offset);
    return RHUMB_OK;
}

rhumb_result rhumb_check_flag(const rhumb_bindings *bindings, const char *field, uint32_t value)
{
    if (value <= 1)
        return RHUMB_OK;
    return rhumb_fail(bindings->plan->context, RHUMB_ERROR_ARGUMENT,
                      "%s: %s: wanted 0 or 1, found %u", bindings->plan->operation->name, field,
                      value);
}

rhumb_result rhumb_check_window(const rhumb_bindings *bindings, const rhumb_dispatch *d,
                                struct rhumb_push *push)
{
    const rhumb_context *context = bindings->plan->context;
    const char *op = bindings->plan->operation->name;
    if (d->window_left < 1)
        return rhumb_fail(context, RHUMB_ERROR_ARGUMENT,
                          "%s: window_left: wanted 1 or more, found %d", op, d->window_left);
    if (d->window_right < 0)
        return rhumb_fail(context, RHUMB_ERROR_ARGUMENT,
                          "%s: window_right: wanted 0 or more, found %d", op, d->window_right);
    push->window_left = d->window_left;
    push->window_right = d->window_right;
    return RHUMB_OK;
}

/* What only COMBINE has. */
static rhumb_result check_combine_only(const rhumb_bindings *bindings, const rhumb_dispatch *d)
{
    if (bindings->plan->operation->op == RHUMB_OP_COMBINE || (!d->key_ranges && !d->part_count))
        return RHUMB_OK;
    return rhumb_fail(bindings->plan->context, RHUMB_ERROR_ARGUMENT,
                      "%s: key_ranges and part_count: wanted the defaults, as they are combine's, "
                      "found %s and %u",
                      bindings->plan->operation->name, d->key_ranges ? "ranges" : "NULL",
                      d->part_count);
}

/* What only ATTENTION has. */
static rhumb_result check_attention_only(const rhumb_bindings *bindings, const rhumb_dispatch *d)
{
    if (bindings->plan->operation->op == RHUMB_OP_ATTENTION ||
        (d->softcap == INFINITY && !d->bias_after_softcap && d->chunk == RHUMB_NO_WINDOW &&
         !d->kept_keys))
        return RHUMB_OK;
    return rhumb_fail(bindings->plan->context, RHUMB_ERROR_ARGUMENT,
                      "%s: softcap, bias_after_softcap, chunk and kept_keys: wanted the defaults, as "
                      "they mean nothing here, found %g, %u, %d and %d",
                      bindings->plan->operation->name, (double)d->softcap, d->bias_after_softcap,
                      d->chunk, d->kept_keys);
}

rhumb_result rhumb_check_no_mask(const rhumb_bindings *bindings, const rhumb_dispatch *d,
                                 bool has_keys)
{
    bool masked =
        d->causal || d->window_left != RHUMB_NO_WINDOW || d->window_right != RHUMB_NO_WINDOW;
    if (!masked && (has_keys || d->k_length == RHUMB_UNSET))
        return RHUMB_OK;
    return rhumb_fail(bindings->plan->context, RHUMB_ERROR_ARGUMENT,
                      "%s: causal, window_left, window_right%s: wanted the defaults, as they mean "
                      "nothing here, found %u, %d, %d and k_length %d",
                      bindings->plan->operation->name, has_keys ? "" : " and k_length", d->causal,
                      d->window_left, d->window_right, d->k_length);
}

rhumb_result rhumb_check_defaults(const rhumb_bindings *bindings, const rhumb_dispatch *d)
{
    RHUMB_TRY(rhumb_check_no_mask(bindings, d, false));
    if (d->q_length == RHUMB_UNSET && d->q_offset == RHUMB_UNSET && !d->inverse &&
        d->append_position == RHUMB_UNSET)
        return RHUMB_OK;
    return rhumb_fail(bindings->plan->context, RHUMB_ERROR_ARGUMENT,
                      "%s: q_length, q_offset, inverse and append_position: wanted the defaults, as "
                      "they mean nothing here, found %d, %d, %u and %d",
                      bindings->plan->operation->name, d->q_length, d->q_offset, d->inverse,
                      d->append_position);
}

rhumb_result rhumb_check_groups(const rhumb_bindings *bindings, uint64_t groups)
{
    /* Kernels number invocations in 31 bits. */
    const uint64_t most = INT32_MAX / ROTATE_INVOCATIONS;
    if (groups <= most)
        return RHUMB_OK;
    return rhumb_fail(bindings->plan->context, RHUMB_ERROR_LIMIT,
                      "%s: work groups: wanted up to %llu in a record, found %llu",
                      bindings->plan->operation->name, (unsigned long long)most,
                      (unsigned long long)groups);
}

/* Work groups of one dispatch, by max_flops. */
static uint64_t groups_at_once(const rhumb_bindings *bindings, const rhumb_dispatch *d,
                               uint64_t groups)
{
    uint64_t flops =
        rhumb_saturated_product(bindings->plan->resolved.properties.flops, bindings->batch);
    if (flops <= d->max_flops)
        return groups;
    uint64_t parts = flops / d->max_flops + (flops % d->max_flops != 0);
    return groups > parts ? groups / parts : 1;
}

/* The work groups from `first` to before `end`, at most `most` in a dispatch. A dispatch has no
 * work groups beside those of the record: whole rows, then the rest. What the parts write is apart,
 * but ranges of memory do not say so. Where there is no work there is an empty dispatch: drivers that
 * compile at the first one do. */
static void emit_groups(VkCommandBuffer command_buffer, const rhumb_bindings *bindings,
                        uint64_t first, uint64_t end, uint64_t most, struct rhumb_push *push)
{
    const rhumb_plan *plan = bindings->plan;
    const rhumb_vk *vk = &plan->context->vk;
    const rhumb_limits *l = &plan->context->limits;
    do {
        uint64_t left = end - first < most ? end - first : most;
        uint32_t x = left < l->max_workgroups_x ? (uint32_t)left : l->max_workgroups_x;
        uint64_t rows = x ? left / x : 1;
        uint32_t y = rows < l->max_workgroups_y ? (uint32_t)rows : l->max_workgroups_y;
        if (first)
            rhumb_barrier(command_buffer, bindings);
        push->first_group = (uint32_t)first;
        vk->CmdPushConstants(command_buffer, plan->layout, VK_SHADER_STAGE_COMPUTE_BIT, 0,
                             sizeof *push, push);
        vk->CmdDispatch(command_buffer, x, y, 1);
        first += (uint64_t)x * y;
    } while (first < end);
}

void rhumb_emit(VkCommandBuffer command_buffer, const rhumb_bindings *bindings,
                const rhumb_dispatch *d, VkPipeline pipeline, uint64_t groups,
                struct rhumb_push *push)
{
    const rhumb_plan *plan = bindings->plan;
    const rhumb_vk *vk = &plan->context->vk;
    const uint32_t offsets[2] = {d->constants_offset, d->bindings_offset};
    uint64_t most = groups_at_once(bindings, d, groups);
    uint64_t pairs = bindings->spans[bindings->span_count - 1].end, first = 0;
    vk->CmdBindPipeline(command_buffer, VK_PIPELINE_BIND_POINT_COMPUTE, pipeline);
    for (uint32_t n = 0; n < bindings->span_count; n++) {
        const rhumb_span *span = &bindings->spans[n];
        uint64_t end = pairs ? groups / pairs * span->end : groups;
        vk->CmdBindDescriptorSets(command_buffer, VK_PIPELINE_BIND_POINT_COMPUTE, plan->layout, 0,
                                  1, &span->set, 2, offsets);
        memcpy(push->shift, span->shift, sizeof push->shift);
        emit_groups(command_buffer, bindings, first, end, most, push);
        first = end;
    }
}

void rhumb_barrier(VkCommandBuffer command_buffer, const rhumb_bindings *bindings)
{
    const VkMemoryBarrier barrier = {
        .sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER,
        .srcAccessMask = VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_SHADER_WRITE_BIT,
        .dstAccessMask = VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_SHADER_WRITE_BIT,
    };
    bindings->plan->context->vk.CmdPipelineBarrier(
        command_buffer, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT,
        0, 1, &barrier, 0, NULL, 0, NULL);
}

static rhumb_result check_uniform_offset(const rhumb_context *context, const char *op,
                                         const char *field, uint32_t offset)
{
    if (offset % context->limits.uniform_offset_alignment == 0)
        return RHUMB_OK;
    return rhumb_fail(context, RHUMB_ERROR_ARGUMENT, "%s: %s: wanted a multiple of %u, found %u",
                      op, field, context->limits.uniform_offset_alignment, offset);
}

rhumb_result rhumb_record(VkCommandBuffer command_buffer, const rhumb_bindings *bindings,
                          const rhumb_dispatch *given)
{
    rhumb_dispatch d;
    rhumb_init_dispatch(&d);
    if (!bindings || !command_buffer)
        return rhumb_fail(bindings ? bindings->plan->context : NULL, RHUMB_ERROR_ARGUMENT,
                          "record: wanted a command buffer and bindings, found NULL");
    const rhumb_context *context = bindings->plan->context;
    const rhumb_operation *o = bindings->plan->operation;
    RHUMB_TRY(rhumb_check_lost(context));
    RHUMB_TRY(
        rhumb_adopt(context, o->name, "rhumb_dispatch", given, RHUMB_TYPE_DISPATCH, &d, sizeof d));
    RHUMB_TRY(check_uniform_offset(context, o->name, "constants_offset", d.constants_offset));
    RHUMB_TRY(check_uniform_offset(context, o->name, "bindings_offset", d.bindings_offset));
    RHUMB_TRY(check_attention_only(bindings, &d));
    RHUMB_TRY(check_combine_only(bindings, &d));
    if (!d.max_flops)
        return rhumb_fail(context, RHUMB_ERROR_ARGUMENT,
                          "%s: max_flops: wanted 1 or more, found 0", o->name);
    return o->record(command_buffer, bindings, &d);
}
