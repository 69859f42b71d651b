#include "run_model.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool fail(tensor_error *message, const char *line)
{
    snprintf(message->line, sizeof message->line, "%s", line);
    return false;
}

static double *doubles(const run_tensor *t, tensor_error *message)
{
    double *values = malloc((size_t)t->count * sizeof *values);

    if (values == NULL)
        fail(message, "no host memory for the reference");
    else
        verify_widen(t->dtype, t->data, t->count, values);
    return values;
}

static void add(gpu_operation *op, rhumb_view_id id, const run_tensor *t, const void *input,
                void *output)
{
    gpu_add_tensor(op, id, t->dtype, t->shape[0], t->shape[1], t->shape[2], t->shape[3], input,
                   output);
}

static bool run_operation(gpu *g, gpu_operation *op, run_step *step, tensor_error *message)
{
    op->repeats = 5;
    op->budget_ns = 1e9;
    if (gpu_run_operation(g, op) != RHUMB_OK)
        return fail(message, op->message);
    step->ran = true;
    step->properties = op->properties;
    step->ns = op->ns;
    step->host_clock = op->host_clock;
    return true;
}

/* ----------------------------------------------------------------------------------------------
 * Rotation
 */
static void keep_worst(run_step *step, const verify_result *v)
{
    const bool pass = v->pass && (!step->checked || step->check.pass);

    if (!step->checked || v->error / v->bound > step->check.error / step->check.bound)
        step->check = *v;
    step->check.pass = pass;
    step->checked = true;
}

/* [axes, batch, rows], every axis the same: offset + row, as for text. The caller frees. */
static int32_t *make_positions(uint32_t axes, uint64_t batch, uint64_t rows, int32_t offset,
                               tensor_error *message)
{
    int32_t *positions = malloc((size_t)(axes * batch * rows) * sizeof *positions);

    if (positions == NULL)
        fail(message, "no host memory for positions");
    else
        ref_arange(axes * (uint32_t)batch, (uint32_t)rows, offset, positions);
    return positions;
}

/* Schemes of several axes take no arange. */
static void add_positions(gpu_operation *op, uint32_t axes, uint64_t rows, const int32_t *positions)
{
    if (axes > 1)
        gpu_add_tensor(op, RHUMB_VIEW_POSITIONS_Q, RHUMB_I32, 1, axes, 1, rows, positions, NULL);
}

/* Axes of the positions: 1 without rotation. */
static bool read_rotary(const run_request *request, uint32_t length, verify_rotary *rotary,
                        tensor_error *message)
{
    memset(rotary, 0, sizeof *rotary);
    rotary->axes = 1;
    if (request->kind->rotary == NULL)
        return true;
    if (!verify_read_rotary(request->kind->rotary, request->kind->head_dim, length, rotary))
        return fail(message, "the reference does not know this rotary scheme");
    if (rotary->type == RHUMB_TYPE_ROPE2D)
        return fail(message, "positions on a grid: not done here yet");
    return true;
}

/* The largest position + 1, for frequencies that follow it. */
static uint32_t length_of(const run_request *request, const run_tensors *t)
{
    const int64_t q = (int64_t)t->q.shape[2], k = t->k.present ? (int64_t)t->k.shape[2] : 0;
    const bool alone = request->op == RHUMB_OP_ROTATE;
    const int64_t offset = request->offset_given ? request->offset : alone ? 0 : k - q;

    return (uint32_t)(offset + q > k ? offset + q : k);
}

static bool check_rotated(const verify_rotary *rotary, bool keys, const int32_t *positions,
                          const run_tensor *in, const run_tensor *out, run_step *step,
                          tensor_error *message)
{
    verify_rows rows = {.batch = (uint32_t)in->shape[0],
                        .heads = (uint32_t)in->shape[1],
                        .rows = (uint32_t)in->shape[2],
                        .head_dim = (uint32_t)in->shape[3],
                        .keys = keys};
    int32_t *all = make_positions(rotary->axes, rows.batch, rows.rows, positions[0], message);
    double *x = doubles(in, message);
    double *y = malloc((size_t)in->count * sizeof *y);
    verify_result v;
    bool done = all != NULL && x != NULL && y != NULL;

    if (!done)
        fail(message, "no host memory for the reference");
    rows.positions = all;
    if (done)
        done = verify_rotate(rotary, &rows, x, y) ||
               fail(message, "the reference refuses the rotation");
    if (done) {
        verify_compare(out->dtype, out->data, y, out->count,
                       verify_rotate_scale(x, in->count, verify_growth(rotary, &rows)), &v);
        keep_worst(step, &v);
    }
    free(all);
    free(x);
    free(y);
    return done;
}

static bool check_rotation(const run_request *request, const verify_rotary *rotary,
                           const int32_t *positions, const run_tensors *t, run_step *step,
                           tensor_error *message)
{
    const bool with_q = request->op == RHUMB_OP_ROTATE;

    return (!with_q ||
            check_rotated(rotary, false, positions, &t->q, &t->q_out, step, message)) &&
           (!t->k.present ||
            check_rotated(rotary, true, positions, &t->k, &t->k_out, step, message));
}

/* What of q and k is to be rotated: both by ROTATE, k by ATTENTION. */
static bool rotate(gpu *g, const run_request *request, run_tensors *t, run_step *step,
                   tensor_error *message)
{
    const bool with_q = request->op == RHUMB_OP_ROTATE;
    const int32_t offset = with_q && request->offset_given ? request->offset : 0;
    const uint64_t rows = with_q ? t->q.shape[2] : t->k.shape[2];
    const uint32_t length = length_of(request, t);
    int32_t *positions;
    verify_rotary rotary;
    gpu_operation op;
    bool done;

    if (!read_rotary(request, length, &rotary, message))
        return false;
    gpu_init_operation(&op, RHUMB_OP_ROTATE);
    op.info.rotary = request->kind->rotary;
    op.info.heads = request->kind->heads;
    op.info.kv_heads = request->kind->kv_heads;
    op.info.head_dim = request->kind->head_dim;
    op.info.max_q_length = (uint32_t)rows;
    op.new_length = length;
    op.dispatch.q_offset = offset;
    if (with_q) {
        if (!run_tensor_make(&t->q_out, t->q.dtype, t->q.rank, t->q.shape, message))
            return false;
        add(&op, RHUMB_VIEW_Q, &t->q, t->q.data, NULL);
        add(&op, RHUMB_VIEW_Q_OUT, &t->q_out, NULL, t->q_out.data);
    }
    if (t->k.present) {
        if (!run_tensor_make(&t->k_out, t->k.dtype, t->k.rank, t->k.shape, message))
            return false;
        add(&op, RHUMB_VIEW_K, &t->k, t->k.data, NULL);
        add(&op, RHUMB_VIEW_K_OUT, &t->k_out, NULL, t->k_out.data);
    }
    positions = make_positions(rotary.axes, 1, rows, offset, message);
    if (positions == NULL)
        return false;
    add_positions(&op, rotary.axes, rows, positions);
    done = run_operation(g, &op, step, message);
    step->bytes = (double)step->properties.bytes * (double)(with_q ? t->q.shape[0] : t->k.shape[0]);
    if (done && request->check)
        done = check_rotation(request, &rotary, positions, t, step, message);
    free(positions);
    return done;
}

/* ----------------------------------------------------------------------------------------------
 * Attention
 */
static int64_t clamp(int64_t x, int64_t low, int64_t high)
{
    return x < low ? low : x > high ? high : x;
}

/* The part of all (query, key) pairs that is visible. */
static double visible_part(const run_request *request, int64_t q_rows, int64_t k_rows)
{
    const int64_t offset = request->offset_given ? request->offset : k_rows - q_rows;
    double pairs = 0.0;

    for (int64_t a = 0; a < q_rows; a++) {
        int64_t first = 0, end = k_rows;
        if (request->causal)
            end = clamp(a + offset + 1, 0, end);
        if (request->kind->window_left != RHUMB_NO_WINDOW)
            first = clamp(a + offset - request->kind->window_left + 1, 0, k_rows);
        if (request->kind->window_right != RHUMB_NO_WINDOW)
            end = clamp(a + offset + request->kind->window_right + 1, 0, end);
        if (end > first)
            pairs += (double)(end - first);
    }
    return pairs / ((double)q_rows * (double)k_rows);
}

static void describe_reference(const run_request *request, const run_tensors *t, ref_attention *r)
{
    ref_attention_init(r, (uint32_t)t->q.shape[0], request->kind->heads, (uint32_t)t->q.shape[2],
                       (uint32_t)t->k.shape[2], request->kind->head_dim);
    r->kv_heads = request->kind->kv_heads;
    r->value_dim = (uint32_t)t->v.shape[3];
    r->scale = request->kind->scale;
    r->causal = request->causal;
    r->window_left = request->kind->window_left;
    r->window_right = request->kind->window_right;
    r->q_offset = request->offset_given ? request->offset : REF_UNSET;
}

/* Position of the first row of Q. */
static int32_t first_position(const run_request *request, const run_tensors *t)
{
    return request->offset_given ? request->offset
                                 : (int32_t)((int64_t)t->k.shape[2] - (int64_t)t->q.shape[2]);
}

/* In place. */
static bool rotate_queries(const run_request *request, const run_tensors *t,
                           const verify_rotary *rotary, double *q, tensor_error *message)
{
    verify_rows rows = {.batch = (uint32_t)t->q.shape[0],
                        .heads = (uint32_t)t->q.shape[1],
                        .rows = (uint32_t)t->q.shape[2],
                        .head_dim = (uint32_t)t->q.shape[3]};
    int32_t *positions;
    bool done;

    if (request->kind->rotary == NULL)
        return true;
    positions = make_positions(rotary->axes, rows.batch, rows.rows, first_position(request, t),
                               message);
    if (positions == NULL)
        return false;
    rows.positions = positions;
    done = verify_rotate(rotary, &rows, q, q) ||
           fail(message, "--check: the reference refuses the rotation");
    free(positions);
    return done;
}

/* With the keys as the device rotated and stored them: their own error is the rotation's check. */
static bool check_attention(const run_request *request, const run_tensors *t,
                            const verify_rotary *rotary, run_step *step, tensor_error *message)
{
    const run_tensor *keys = t->k_out.present ? &t->k_out : &t->k;
    double *q = doubles(&t->q, message);
    double *k = doubles(keys, message);
    double *v = doubles(&t->v, message);
    double *o = malloc((size_t)t->o.count * sizeof *o);
    bool done = q != NULL && k != NULL && v != NULL && o != NULL;
    ref_attention reference;
    verify_result result;

    if (!done)
        fail(message, "no host memory for the reference");
    done = done && rotate_queries(request, t, rotary, q, message);
    if (done) {
        describe_reference(request, t, &reference);
        reference.q = q;
        reference.k = k;
        reference.v = v;
        reference.o = o;
        done = ref_attend(&reference) == 0 || fail(message, "the reference refuses the attention");
    }
    if (done) {
        verify_compare(t->o.dtype, t->o.data, o, t->o.count, verify_attention_scale(&reference),
                       &result);
        keep_worst(step, &result);
    }
    free(q);
    free(k);
    free(v);
    free(o);
    return done;
}

static bool attend(gpu *g, const run_request *request, run_tensors *t, run_step *step,
                   tensor_error *message)
{
    const rhumb_layer_kind *kind = request->kind;
    const run_tensor *keys = t->k_out.present ? &t->k_out : &t->k;
    const uint64_t shape[4] = {t->q.shape[0], t->q.shape[1], t->q.shape[2], t->v.shape[3]};
    const double part = visible_part(request, (int64_t)t->q.shape[2], (int64_t)t->k.shape[2]);
    const uint32_t length = length_of(request, t);
    int32_t *positions;
    verify_rotary rotary;
    gpu_operation op;
    bool done;

    if (!read_rotary(request, length, &rotary, message))
        return false;
    if (!run_tensor_make(&t->o, t->q.dtype, t->q.rank, shape, message))
        return false;
    gpu_init_operation(&op, RHUMB_OP_ATTENTION);
    op.info.rotary = kind->rotary;
    op.info.scheme = kind->scheme;
    op.info.heads = kind->heads;
    op.info.kv_heads = kind->kv_heads;
    op.info.head_dim = kind->head_dim;
    op.info.value_dim = (uint32_t)t->v.shape[3];
    op.info.max_q_length = (uint32_t)t->q.shape[2];
    op.info.max_k_length = (uint32_t)t->k.shape[2];
    op.info.scale = (float)kind->scale;
    op.new_length = length;
    op.dispatch.causal = request->causal;
    op.dispatch.window_left = kind->window_left;
    op.dispatch.window_right = kind->window_right;
    if (request->offset_given)
        op.dispatch.q_offset = request->offset;
    add(&op, RHUMB_VIEW_Q, &t->q, t->q.data, NULL);
    add(&op, RHUMB_VIEW_K, keys, keys->data, NULL);
    add(&op, RHUMB_VIEW_V, &t->v, t->v.data, NULL);
    add(&op, RHUMB_VIEW_O, &t->o, NULL, t->o.data);
    positions = make_positions(rotary.axes, 1, t->q.shape[2], first_position(request, t), message);
    if (positions == NULL)
        return false;
    add_positions(&op, rotary.axes, t->q.shape[2], positions);
    done = run_operation(g, &op, step, message);
    free(positions);
    step->flops = (double)step->properties.flops * (double)t->q.shape[0] * part;
    step->bytes = (double)step->properties.bytes * (double)t->q.shape[0];
    if (done && request->check)
        done = check_attention(request, t, &rotary, step, message);
    return done;
}

bool run_compute(gpu *g, const run_request *request, run_tensors *tensors, run_steps *steps,
                 tensor_error *message)
{
    memset(steps, 0, sizeof *steps);
    if (request->kind->rotary != NULL && !rotate(g, request, tensors, &steps->rotate, message))
        return false;
    if (request->op == RHUMB_OP_ROTATE)
        return true;
    if (!attend(g, request, tensors, &steps->attention, message))
        return false;
    free(tensors->k_out.data); /* on the way, not a result */
    memset(&tensors->k_out, 0, sizeof tensors->k_out);
    return true;
}
