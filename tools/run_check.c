/* ROTATE and ATTENTION against the double-precision reference. */
#include "run_model.h"

#include "command_line.h"

#include <stdio.h>
#include <stdlib.h>

static bool fail(tensor_error *message, const char *line)
{
    snprintf(message->line, sizeof message->line, "--check: %s", line);
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

static void keep_worst(run_step *step, const verify_result *v)
{
    const bool pass = v->pass && (!step->checked || step->check.pass);

    if (!step->checked || v->error / v->bound > step->check.error / step->check.bound)
        step->check = *v;
    step->check.pass = pass;
    step->checked = true;
}

/* ----------------------------------------------------------------------------------------------
 * What the reference here can do; the golden cases have the rest of it
 */
static const char *beyond(const run_request *request, const run_tensors *t)
{
    static const rhumb_view_id unknown[] = {RHUMB_VIEW_LENGTHS, RHUMB_VIEW_MASK, RHUMB_VIEW_Q_GAIN,
                                            RHUMB_VIEW_K_GAIN, RHUMB_VIEW_FREQUENCIES,
                                            RHUMB_VIEW_SINKS, RHUMB_VIEW_ROW_SCALE};
    const run_plan *p = &request->settings.plan;

    if (request->op != RHUMB_OP_ROTATE && request->op != RHUMB_OP_ATTENTION)
        return "operations other than rotate and attention";
    if (request->settings.entry != NULL && request->settings.entry->kind != SCHEME_rotary)
        return "relative schemes";
    if (p->purpose != RHUMB_PURPOSE_ROTATE || p->append != RHUMB_APPEND_NONE)
        return "caches";
    for (size_t i = 0; i < sizeof unknown / sizeof *unknown; i++)
        if (t->view[unknown[i]].present)
            return "lengths, mask, gains, frequencies, sinks or row scales from a tensor";
    return NULL;
}

bool run_can_check(const run_request *request, const run_tensors *tensors, tensor_error *message)
{
    const char *what = request->check ? beyond(request, tensors) : NULL;

    if (what != NULL)
        snprintf(message->line, sizeof message->line,
                 "--check wants a rotation or attention of this command's reference, it has no %s; "
                 "rhumb check compares them",
                 what);
    return what == NULL;
}

/* ----------------------------------------------------------------------------------------------
 * Rotation
 */

/* [axes, batch, rows] of a view of positions, or of rows from `first` on. The caller frees. */
static int32_t *make_positions(const run_tensor *view, uint32_t axes, uint64_t batch, uint64_t rows,
                               int32_t first, tensor_error *message)
{
    int32_t *positions = malloc((size_t)(axes * batch * rows) * sizeof *positions);
    const int32_t *from = view->data;

    if (positions == NULL) {
        fail(message, "no host memory for positions");
        return NULL;
    }
    if (!view->present) {
        ref_arange(axes * (uint32_t)batch, (uint32_t)rows, first, positions);
        return positions;
    }
    for (uint64_t i = 0; i < axes * batch * rows; i++) {
        const uint64_t l = i % rows, b = i / rows % batch, axis = i / rows / batch;
        positions[i] = from[axis % view->shape[1] * (uint64_t)view->stride[1] +
                            b % view->shape[2] * (uint64_t)view->stride[2] + l];
    }
    return positions;
}

static bool read_rotary(const run_request *request, uint32_t length, verify_rotary *rotary,
                        tensor_error *message)
{
    memset(rotary, 0, sizeof *rotary);
    rotary->axes = 1;
    return verify_read_rotary(run_rotary(request), request->settings.plan.head_dim, length,
                              rotary) ||
           fail(message, "the reference does not know this rotary scheme");
}

static verify_rows rows_of(const run_tensor *t, bool keys)
{
    const verify_rows rows = {.batch = (uint32_t)t->shape[0],
                              .heads = (uint32_t)t->shape[1],
                              .rows = (uint32_t)t->shape[2],
                              .head_dim = (uint32_t)t->shape[3],
                              .keys = keys};

    return rows;
}

static bool compare_rotated(const verify_rotary *rotary, const verify_rows *rows,
                            const run_tensor *in, const run_tensor *out, run_step *step,
                            tensor_error *message)
{
    double *x = doubles(in, message);
    double *y = malloc((size_t)in->count * sizeof *y);
    verify_result v;
    bool done = (x != NULL && y != NULL) || fail(message, "no host memory for the reference");

    if (done)
        done = verify_rotate(rotary, rows, x, y) ||
               fail(message, "the reference refuses the rotation");
    if (done) {
        verify_compare(out->dtype, out->data, y, out->count,
                       verify_rotate_scale(x, in->count, verify_growth(rotary, rows)), &v);
        keep_worst(step, &v);
    }
    free(x);
    free(y);
    return done;
}

static bool check_rotated(const run_request *request, const run_tensor *view, int32_t first,
                          const run_tensor *in, const run_tensor *out, bool keys, uint32_t length,
                          run_step *step, tensor_error *message)
{
    verify_rows rows = rows_of(in, keys);
    verify_rotary rotary;
    int32_t *positions;
    bool done;

    if (!read_rotary(request, length, &rotary, message))
        return false;
    positions = make_positions(view, rotary.axes, rows.batch, rows.rows, first, message);
    if (positions == NULL)
        return false;
    rows.positions = positions;
    rows.inverse = request->settings.plan.inverse != 0;
    done = compare_rotated(&rotary, &rows, in, out, step, message);
    free(positions);
    return done;
}

bool run_check_rotation(const run_request *request, const run_tensors *tensors, uint32_t length,
                        run_step *step, tensor_error *message)
{
    const run_tensor *positions = &tensors->view[RHUMB_VIEW_POSITIONS_Q];
    const run_tensor *q = &tensors->view[RHUMB_VIEW_Q], *k = &tensors->view[RHUMB_VIEW_K];
    const int32_t first = run_first_position(request);

    return (!q->present ||
            check_rotated(request, positions, first, q, &tensors->view[RHUMB_VIEW_Q_OUT], false,
                          length, step, message)) &&
           (!k->present ||
            check_rotated(request, positions, first, k, &tensors->view[RHUMB_VIEW_K_OUT], true,
                          length, step, message));
}

bool run_check_keys(const run_request *request, const run_tensors *tensors, uint32_t length,
                    run_step *step, tensor_error *message)
{
    return check_rotated(request, &tensors->view[RHUMB_VIEW_POSITIONS_K], 0,
                         &tensors->view[RHUMB_VIEW_K], &tensors->view[RHUMB_VIEW_K_OUT], true,
                         length, step, message);
}

/* ----------------------------------------------------------------------------------------------
 * Attention
 */
static void describe(const run_request *request, const run_tensors *t, ref_attention *r)
{
    const run_plan *p = &request->settings.plan;

    ref_attention_init(r, p->batch, p->heads, p->q_len, p->k_len, p->head_dim);
    r->kv_heads = p->kv_heads;
    r->value_dim = p->value_dim;
    if (p->scale < (double)RHUMB_SCALE_AUTO)
        r->scale = p->scale;
    r->causal = (int)p->causal;
    r->window_left = p->window_left;
    r->window_right = p->window_right;
    r->chunk = p->chunk;
    r->kept_keys = p->kept_keys;
    r->softcap = p->softcap;
    r->bias_after_softcap = (int)p->bias_after_softcap;
    r->q_offset = p->q_offset != RHUMB_UNSET ? p->q_offset : REF_UNSET;
    r->order =
        p->mask_order == RHUMB_MASK_ORDER_POSITION ||
                (p->mask_order == RHUMB_MASK_ORDER_AUTO &&
                 t->view[RHUMB_VIEW_POSITIONS_Q].present && t->view[RHUMB_VIEW_POSITIONS_K].present)
            ? REF_ORDER_POSITION
            : REF_ORDER_INDEX;
}

/* Q in place. */
static bool rotate_queries(const run_request *request, const run_tensors *t, uint32_t length,
                           const int32_t *positions, double *q, tensor_error *message)
{
    verify_rows rows = rows_of(&t->view[RHUMB_VIEW_Q], false);
    verify_rotary rotary;

    if (run_rotary(request) == NULL)
        return true;
    if (!read_rotary(request, length, &rotary, message))
        return false;
    rows.positions = positions;
    return verify_rotate(&rotary, &rows, q, q) ||
           fail(message, "the reference refuses the rotation");
}

/* Arrays of the reference, all malloc'ed. */
typedef struct arrays {
    int32_t *positions_q, *positions_k;
    double *q, *k, *v, *o;
} arrays;

static void free_arrays(arrays *a)
{
    free(a->positions_q);
    free(a->positions_k);
    free(a->q);
    free(a->k);
    free(a->v);
    free(a->o);
}

/* With the keys as the device rotated and stored them: their own error is the rotation's check. */
static bool make_arrays(const run_request *request, const run_tensors *t, arrays *a,
                        tensor_error *message)
{
    const run_plan *p = &request->settings.plan;
    const run_tensor *view = t->view;
    const run_tensor *keys =
        &view[view[RHUMB_VIEW_K_OUT].present ? RHUMB_VIEW_K_OUT : RHUMB_VIEW_K];
    const uint32_t axes = run_axes(request);

    a->positions_q = make_positions(&view[RHUMB_VIEW_POSITIONS_Q], axes, p->batch, p->q_len,
                                    run_first_position(request), message);
    a->positions_k =
        make_positions(&view[RHUMB_VIEW_POSITIONS_K], axes, p->batch, p->k_len, 0, message);
    a->q = doubles(&view[RHUMB_VIEW_Q], message);
    a->k = doubles(keys, message);
    a->v = doubles(&view[RHUMB_VIEW_V], message);
    a->o = malloc((size_t)view[RHUMB_VIEW_O].count * sizeof *a->o);
    return (a->positions_q != NULL && a->positions_k != NULL && a->q != NULL && a->k != NULL &&
            a->v != NULL && a->o != NULL) ||
           fail(message, "no host memory for the reference");
}

bool run_check_attention(const run_request *request, const run_tensors *tensors, uint32_t length,
                         run_step *step, tensor_error *message)
{
    const run_tensor *o = &tensors->view[RHUMB_VIEW_O];
    arrays a = {0};
    ref_attention reference;
    verify_result result;
    bool done = make_arrays(request, tensors, &a, message) &&
                rotate_queries(request, tensors, length, a.positions_q, a.q, message);

    if (done) {
        describe(request, tensors, &reference);
        reference.positions_q = a.positions_q;
        reference.positions_k = a.positions_k;
        reference.q = a.q;
        reference.k = a.k;
        reference.v = a.v;
        reference.o = a.o;
        done = ref_attend(&reference) == 0 || fail(message, "the reference refuses the attention");
    }
    if (done) {
        verify_compare(o->dtype, o->data, a.o, o->count, verify_attention_scale(&reference),
                       &result);
        keep_worst(step, &result);
    }
    free_arrays(&a);
    return done;
}
