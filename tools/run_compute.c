#include "run_model.h"

#include <stdio.h>
#include <stdlib.h>

static bool fail(tensor_error *message, const char *line)
{
    snprintf(message->line, sizeof message->line, "%s", line);
    return false;
}

static void add(gpu_operation *op, rhumb_view_id id, const run_tensor *t, const void *input,
                void *output)
{
    gpu_tensor *to = gpu_add_tensor(op, id, t->dtype, t->shape[0], t->shape[1], t->shape[2],
                                    t->shape[3], input, output);

    memcpy(to->stride, t->stride, sizeof to->stride);
}

static bool run_operation(gpu *g, gpu_operation *op, uint32_t batch, run_step *step,
                          tensor_error *message)
{
    op->repeats = 5;
    op->budget_ns = 1e9;
    if (gpu_run_operation(g, op) != RHUMB_OK)
        return fail(message, op->message);
    step->ran = true;
    step->properties = op->properties;
    step->ns = op->ns;
    step->host_clock = op->host_clock;
    step->bytes = (double)op->properties.bytes * batch;
    step->flops = (double)op->properties.flops * batch;
    return true;
}

/* The largest position + 1, for frequencies that follow it. */
static uint32_t length_of(const run_request *request, const run_tensors *t)
{
    const run_plan *p = &request->settings.plan;
    const int64_t end = (int64_t)run_first_position(request) + p->q_len;
    int64_t length = t->view[RHUMB_VIEW_POSITIONS_Q].present ? 1 : end;

    if (p->new_length != 0)
        return p->new_length;
    if (request->op != RHUMB_OP_ROTATE && !t->view[RHUMB_VIEW_POSITIONS_K].present &&
        (int64_t)p->k_len > length)
        length = p->k_len;
    for (uint32_t id = RHUMB_VIEW_POSITIONS_Q; id <= RHUMB_VIEW_POSITIONS_K; id++) {
        const int32_t *positions = t->view[id].data;
        for (uint64_t i = 0; t->view[id].present && i < t->view[id].count; i++)
            length = (int64_t)positions[i] + 1 > length ? (int64_t)positions[i] + 1 : length;
    }
    return (uint32_t)length;
}

static void set_dispatch(const run_request *request, gpu_operation *op)
{
    const run_plan *p = &request->settings.plan;

    op->dispatch.q_offset = p->q_offset;
    op->dispatch.causal = p->causal;
    op->dispatch.inverse = p->inverse;
    op->dispatch.window_left = p->window_left;
    op->dispatch.window_right = p->window_right;
    op->dispatch.chunk = p->chunk;
    op->dispatch.kept_keys = p->kept_keys;
    op->dispatch.softcap = (float)p->softcap;
    op->dispatch.bias_after_softcap = p->bias_after_softcap;
    op->dispatch.append_position = p->append_position;
}

/* ----------------------------------------------------------------------------------------------
 * Keys before ATTENTION and SCORES
 */

/* POSITIONS_K, or the rows of K on every axis where there are several; one axis takes no view then.
 */
static bool key_positions(const run_request *request, const run_tensors *t, run_tensor *positions,
                          tensor_error *message)
{
    const uint32_t axes = run_axes(request);
    const uint64_t shape[4] = {1, axes, 1, request->settings.plan.k_len};

    memset(positions, 0, sizeof *positions);
    if (t->view[RHUMB_VIEW_POSITIONS_K].present) {
        *positions = t->view[RHUMB_VIEW_POSITIONS_K];
        return true;
    }
    if (axes == 1)
        return true;
    if (strcmp(request->settings.entry->name, "rope2d") == 0)
        return fail(message, "positions of K on a grid: wanted a tensor positions_k [2, L], found "
                             "none");
    if (!run_tensor_make(positions, RHUMB_I32, 4, shape, message))
        return false;
    ref_arange(axes, request->settings.plan.k_len, 0, positions->data);
    return true;
}

static bool rotate_keys(gpu *g, const run_request *request, run_tensors *t, uint32_t length,
                        run_step *step, tensor_error *message)
{
    const run_plan *p = &request->settings.plan;
    const run_tensor *k = &t->view[RHUMB_VIEW_K];
    run_tensor *out = &t->view[RHUMB_VIEW_K_OUT];
    run_tensor positions;
    gpu_operation op;
    bool done;

    gpu_init_operation(&op, RHUMB_OP_ROTATE);
    op.info.rotary = run_rotary(request);
    op.info.heads = p->heads;
    op.info.kv_heads = p->kv_heads;
    op.info.head_dim = p->head_dim;
    op.info.max_q_length = p->k_len;
    op.new_length = length;
    if (!run_tensor_make(out, k->dtype, k->rank, k->shape, message) ||
        !key_positions(request, t, &positions, message))
        return false;
    add(&op, RHUMB_VIEW_K, k, k->data, NULL);
    add(&op, RHUMB_VIEW_K_OUT, out, NULL, out->data);
    if (positions.present)
        add(&op, RHUMB_VIEW_POSITIONS_Q, &positions, positions.data, NULL);
    done = run_operation(g, &op, p->batch, step, message);
    if (!t->view[RHUMB_VIEW_POSITIONS_K].present)
        free(positions.data);
    if (done && request->check)
        done = run_check_keys(request, t, length, step, message);
    return done;
}

/* ----------------------------------------------------------------------------------------------
 * The operation
 */
static int64_t clamp(int64_t x, int64_t low, int64_t high)
{
    return x < low ? low : x > high ? high : x;
}

/* The part of all (query, key) pairs that is visible, by index. */
static double visible_part(const run_request *request)
{
    const run_plan *p = &request->settings.plan;
    const int64_t offset = run_first_position(request), keys = p->k_len;
    double pairs = 0.0;

    for (int64_t a = 0; a < (int64_t)p->q_len; a++) {
        int64_t first = 0, end = keys;
        if (p->causal)
            end = clamp(a + offset + 1, 0, end);
        if (p->window_left != RHUMB_NO_WINDOW)
            first = clamp(a + offset - p->window_left + 1, 0, keys);
        if (p->window_right != RHUMB_NO_WINDOW)
            end = clamp(a + offset + p->window_right + 1, 0, end);
        if (end > first)
            pairs += (double)(end - first);
    }
    return pairs / ((double)p->q_len * (double)p->k_len);
}

/* Operands, of which K has been rotated where it had to be, and results. */
static void add_views(const run_request *request, run_tensors *t, gpu_operation *op)
{
    const bool logits = request->op == RHUMB_OP_ATTENTION || request->op == RHUMB_OP_SCORES;
    const uint32_t results = run_results(request, t);

    for (uint32_t id = 0; id < RHUMB_VIEW_COUNT; id++) {
        run_tensor view = t->view[id];
        const bool result = (results >> id & 1u) != 0;
        if (!view.present || (logits && id == RHUMB_VIEW_K_OUT))
            continue;
        if (logits && id == RHUMB_VIEW_K && t->view[RHUMB_VIEW_K_OUT].present)
            view = t->view[RHUMB_VIEW_K_OUT];
        if (logits && id == RHUMB_VIEW_POSITIONS_K)
            view.shape[1] = 1; /* masks go by the first axis */
        add(op, (rhumb_view_id)id, &view, view.data, result ? view.data : NULL);
    }
}

/* For unfused attention, and for keys in slices. The plan says how large WORKSPACE is only when it is
 * among the views. */
static bool add_workspace(gpu *g, const run_request *request, gpu_operation *op,
                          tensor_error *message)
{
    gpu_tensor *workspace;

    if (request->op != RHUMB_OP_ATTENTION)
        return true;
    workspace = gpu_add_tensor(op, RHUMB_VIEW_WORKSPACE, RHUMB_F32, 1, 1, 1, 1, NULL, NULL);
    if (gpu_query_operation(g, op) != RHUMB_OK)
        return fail(message, op->message);
    if (op->properties.workspace_size == 0) {
        op->tensor_count--;
        op->info.views &= ~RHUMB_VIEW_BIT(RHUMB_VIEW_WORKSPACE);
        return true;
    }
    workspace->shape[3] =
        op->properties.workspace_size / sizeof(float) * request->settings.plan.batch;
    return true;
}

/* Where positions, lengths or slots come from a tensor the device counts those that it could not
 * follow. Timed runs count again, so that the number says only whether there are any. */
static void add_status(const run_tensors *t, gpu_operation *op, int32_t *status)
{
    static const rhumb_view_id ids[] = {RHUMB_VIEW_POSITIONS_Q, RHUMB_VIEW_POSITIONS_K,
                                        RHUMB_VIEW_LENGTHS, RHUMB_VIEW_SLOTS};
    bool wanted = false;

    for (size_t i = 0; i < sizeof ids / sizeof *ids; i++)
        wanted = wanted || t->view[ids[i]].present;
    if (wanted)
        gpu_add_tensor(op, RHUMB_VIEW_STATUS, RHUMB_I32, 1, 1, 1, 1, status, status);
}

static bool operate(gpu *g, const run_request *request, run_tensors *t, uint32_t length,
                    run_step *step, tensor_error *message)
{
    gpu_operation op;
    int32_t status = 0;

    gpu_init_operation(&op, request->op);
    run_settings_info(&request->settings, &op.info);
    set_dispatch(request, &op);
    op.old_length = request->settings.plan.old_length;
    op.new_length = length;
    add_views(request, t, &op);
    add_status(t, &op, &status);
    if (!add_workspace(g, request, &op, message) ||
        !run_operation(g, &op, request->settings.plan.batch, step, message))
        return false;
    step->outside = status != 0;
    if (request->op == RHUMB_OP_ATTENTION)
        step->flops *= visible_part(request);
    if (!request->check)
        return true;
    return request->op == RHUMB_OP_ROTATE ? run_check_rotation(request, t, length, step, message)
                                          : run_check_attention(request, t, length, step, message);
}

bool run_compute(gpu *g, const run_request *request, run_tensors *tensors, run_steps *steps,
                 tensor_error *message)
{
    const bool logits = request->op == RHUMB_OP_ATTENTION || request->op == RHUMB_OP_SCORES;
    const uint32_t length = length_of(request, tensors);

    memset(steps, 0, sizeof *steps);
    if (logits && run_rotary(request) != NULL &&
        !rotate_keys(g, request, tensors, length, &steps->keys, message))
        return false;
    return operate(g, request, tensors, length, &steps->main, message);
}
