/* Golden cases of scheme xpos (PARAMS.md section 5.6). */
#include "cases_rope.h"

#include <stdlib.h>
#include <string.h>

#define COUNT(array) (sizeof(array) / sizeof *(array))

static const param_row param_rows[] = {
    CASE_PAIRING_ROWS("interleaved\n"),
    CASE_ATTENTION_ROWS,
    {"scale_base", PARAM_NUMBER, NULL},
    {"gamma", PARAM_NUMBER, NULL},
    {"downscale", PARAM_BOOL, NULL},
    {"center", PARAM_WHOLE, NULL},
    {"exponent", PARAM_TEXT, "(position-center)/scale_base\n"},
    {"form", PARAM_TEXT, "torchscale\nlucidrains\n"},
    {"center_rule", PARAM_TEXT, "ceil(total_length/2)\nfloor(total_length/2)\n"},
    {"total_length", PARAM_WHOLE, NULL},
    {"position_offset", PARAM_WHOLE, NULL},
    {"position_offset_q", PARAM_WHOLE, NULL},
    {"base_rescale_factor", PARAM_NUMBER, NULL},
};

static const tensor_row rotate_rows[] = {
    {"in.x", TENSOR_F32, true},
    {"in.positions", TENSOR_I32, true},
    {"out.y", TENSOR_F32, true},
};

typedef struct xpos_case {
    rope_case base;
    ref_xpos xpos;
} xpos_case;

static int read_params(case_file *c, xpos_case *t)
{
    const cJSON *p = c->params;

    if (case_read_rope(c, &t->base) != 0)
        return -1;
    if (case_param(p, "center") == NULL)
        return case_fail(c, "params: wanted center, got none");
    t->xpos.rope = t->base.rope;
    t->xpos.scale_base = case_number(p, "scale_base", 512.0);
    t->xpos.gamma = case_number(p, "gamma", 0.4);
    t->xpos.centre = case_number(p, "center", 0.0);
    if (!(t->xpos.scale_base > 0.0) || !(t->xpos.gamma > 0.0))
        return case_fail(c, "params: wanted scale_base and gamma above 0, got %g and %g",
                         t->xpos.scale_base, t->xpos.gamma);
    return 0;
}

/* In place. */
static int rotate_doubles(const xpos_case *t, bool key_side, const tensor *x,
                          const int32_t *positions, double *y)
{
    ref_xpos xpos = t->xpos;

    xpos.key_side = key_side;
    return ref_rotate_xpos(&xpos, (uint32_t)x->shape[0], (uint32_t)x->shape[1],
                           (uint32_t)x->shape[2], (uint32_t)x->shape[3], positions, y, y);
}

static void set_device(const xpos_case *t, rhumb_xpos *device)
{
    rhumb_init_xpos(device);
    device->rotary_dim = t->xpos.rope.rotary_dim;
    device->rotary_offset = t->xpos.rope.rotary_offset;
    device->base = t->xpos.rope.base;
    device->scale_base = t->xpos.scale_base;
    device->gamma = t->xpos.gamma;
    device->centre = (int32_t)t->xpos.centre;
}

static int rotate_on_device(case_file *c, const xpos_case *t, const tensor *x,
                            const tensor *golden, const int32_t *positions)
{
    const bool shared = tensor_list_find(&c->tensors, "in.positions")->rank == 1;
    rhumb_xpos device;
    const case_rotation rotation = {
        .rotary = &device,
        .x = x,
        .golden = golden,
        .rows = x->shape[2],
        .positions = positions,
        .axes = 1,
        .batch = shared ? 1 : x->shape[0],
        .side = case_bool(c->params, "downscale", false) ? RHUMB_VIEW_K : RHUMB_VIEW_Q,
    };

    set_device(t, &device);
    return case_rotate_on_device(c, &rotation);
}

static int run_rotate(case_file *c, const xpos_case *t)
{
    const tensor *x = case_tensor(c, "in.x", 4);
    const tensor *golden = x != NULL ? case_tensor(c, "out.y", 4) : NULL;
    const bool key_side = case_bool(c->params, "downscale", false);
    int32_t *positions = NULL;
    double *y = NULL;
    int result = -1;

    if (golden == NULL || case_check_shape(c, golden, 4, x->shape) != 0)
        return -1;
    if (x->shape[3] != t->base.head_dim)
        return case_fail(c, "in.x: wanted head_dim %u, got %llu", t->base.head_dim,
                         (unsigned long long)x->shape[3]);
    positions = case_positions(c, "in.positions", x->shape[0], x->shape[2]);
    if (positions == NULL)
        return -1;
    y = tensor_doubles(x);
    if (y == NULL || rotate_doubles(t, key_side, x, positions, y) != 0)
        case_fail(c, "reference: no memory, or parameters outside their domain");
    else
        result = case_compare(c, "reference", golden, y, &c->result->reference_error);
    if (result == 0 && c->device != NULL)
        result = rotate_on_device(c, t, x, golden, positions);
    free(positions);
    free(y);
    return result;
}

/* Q is scaled up, K down. */
static int run_scores(case_file *c, const xpos_case *t)
{
    attention_case a;
    double *q = NULL, *k = NULL;
    int result = -1;

    if (case_read_attention(c, t->base.head_dim, &a) == 0) {
        a.positions_q = case_positions(c, "in.positions_q", a.q->shape[0], a.q->shape[2]);
        if (a.positions_q != NULL)
            a.positions_k = case_positions(c, "in.positions_k", a.k->shape[0], a.k->shape[2]);
        if (a.positions_k != NULL) {
            q = tensor_doubles(a.q);
            k = tensor_doubles(a.k);
            if (q == NULL || k == NULL || rotate_doubles(t, false, a.q, a.positions_q, q) != 0 ||
                rotate_doubles(t, true, a.k, a.positions_k, k) != 0)
                case_fail(c, "reference: no memory, or parameters outside their domain");
            else
                result = case_attend_on_reference(c, &a, q, k);
        }
    }
    if (result == 0 && c->device != NULL) {
        rhumb_xpos device;
        set_device(t, &device);
        result = case_attend_on_device(c, &a, &device, 1, 0);
    }
    free(q);
    free(k);
    case_free_attention(&a);
    return result;
}

int case_run_xpos(case_file *c)
{
    const bool rotate = strcmp(c->result->op, "rotate") == 0;
    xpos_case t;
    int result;

    if (!rotate && strcmp(c->result->op, "scores") != 0)
        return case_fail(c, "scheme xpos: wanted op rotate or scores, got %s", c->result->op);
    if (case_check_params(c, c->params, param_rows, COUNT(param_rows)) != 0 ||
        (rotate ? case_check_tensors(c, rotate_rows, COUNT(rotate_rows))
                : case_check_tensors(c, case_attention_tensors, case_attention_tensor_count)) != 0)
        return -1;
    memset(&t, 0, sizeof t);
    result = read_params(c, &t);
    if (result == 0)
        result = rotate ? run_rotate(c, &t) : run_scores(c, &t);
    case_free_rope(&t.base);
    return result;
}
