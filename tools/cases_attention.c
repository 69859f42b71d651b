/* Golden cases, ops attention and scores of the rotary schemes (PARAMS.md section 5.5). */
#include "cases_rope.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

const tensor_row case_attention_tensors[] = {
    {"in.q", TENSOR_F32, true},           {"in.k", TENSOR_F32, false},
    {"in.v", TENSOR_F32, false},          {"in.k_nope", TENSOR_F32, false},
    {"in.k_rope", TENSOR_F32, false},     {"in.positions_q", TENSOR_I32, true},
    {"in.positions_k", TENSOR_I32, true}, {"out.o", TENSOR_F32, false},
    {"out.scores", TENSOR_F32, false},
};

const size_t case_attention_tensor_count =
    sizeof case_attention_tensors / sizeof *case_attention_tensors;

/* ------------------------------------------------------------------------------------------------
 * Reading
 */
static bool scores_only(const case_file *c)
{
    return strcmp(c->result->op, "scores") == 0;
}

/* Multi-head latent attention: key = [k_nope of the head, k_rope of all heads]. */
static int join_keys(case_file *c, uint32_t head_dim, attention_case *t)
{
    const tensor *nope = case_tensor(c, "in.k_nope", 4);
    const tensor *rope = nope != NULL ? case_tensor(c, "in.k_rope", 4) : NULL;
    uint64_t shape[4], wanted[4], at;
    tensor *k;

    if (rope == NULL)
        return -1;
    if (nope->shape[3] >= head_dim)
        return case_fail(c, "in.k_nope: wanted less than head_dim %u channels, got %llu", head_dim,
                         (unsigned long long)nope->shape[3]);
    memcpy(shape, nope->shape, sizeof shape);
    memcpy(wanted, nope->shape, sizeof wanted);
    shape[3] = head_dim;
    wanted[1] = 1;
    wanted[3] = head_dim - nope->shape[3];
    if (case_check_shape(c, rope, 4, wanted) != 0)
        return -1;
    k = tensor_list_add(&t->store, "in.k", TENSOR_F32, 4, shape, NULL);
    if (k == NULL)
        return case_fail(c, "no memory");
    for (at = 0; at < k->count; at++) {
        const uint64_t d = at % head_dim, row = at / head_dim, l = row % shape[2];
        const uint64_t b = row / shape[2] / shape[1];
        const double value = d < nope->shape[3]
                                 ? tensor_get(nope, row * nope->shape[3] + d)
                                 : tensor_get(rope, (b * shape[2] + l) * wanted[3] + d -
                                                        nope->shape[3]);
        tensor_put(k, at, value);
    }
    t->k = k;
    return 0;
}

static int read_keys(case_file *c, uint32_t head_dim, attention_case *t)
{
    const bool whole = tensor_list_find(&c->tensors, "in.k") != NULL;
    const bool parts = tensor_list_find(&c->tensors, "in.k_nope") != NULL ||
                       tensor_list_find(&c->tensors, "in.k_rope") != NULL;

    if (whole && parts)
        return case_fail(c, "wanted in.k or in.k_nope and in.k_rope, got both");
    if (parts)
        return join_keys(c, head_dim, t);
    t->k = case_tensor(c, "in.k", 4);
    return t->k != NULL ? 0 : -1;
}

static int check_shapes(case_file *c, const attention_case *t, uint32_t head_dim)
{
    const uint64_t batch = t->q->shape[0], q_rows = t->q->shape[2], k_rows = t->k->shape[2];
    const double of_values = t->v != NULL ? (double)t->v->shape[3] : head_dim;
    uint32_t heads, kv_heads, value_dim;

    if (case_size(c, "heads", (double)t->q->shape[1], 1.0, &heads) != 0 ||
        case_size(c, "kv_heads", (double)heads, 1.0, &kv_heads) != 0 ||
        case_size(c, "v_head_dim", of_values, 1.0, &value_dim) != 0)
        return -1;
    if (heads % kv_heads != 0)
        return case_fail(c, "params: wanted kv_heads to divide heads, got %u and %u", kv_heads,
                         heads);
    {
        const uint64_t q_shape[4] = {batch, heads, q_rows, head_dim};
        const uint64_t k_shape[4] = {batch, kv_heads, k_rows, head_dim};
        const uint64_t v_shape[4] = {batch, kv_heads, k_rows, value_dim};
        const uint64_t o_shape[4] = {batch, heads, q_rows, scores_only(c) ? k_rows : value_dim};
        if (case_check_shape(c, t->q, 4, q_shape) != 0 ||
            case_check_shape(c, t->k, 4, k_shape) != 0 ||
            (t->v != NULL && case_check_shape(c, t->v, 4, v_shape) != 0))
            return -1;
        return case_check_shape(c, t->golden, 4, o_shape);
    }
}

int case_read_attention(case_file *c, uint32_t head_dim, attention_case *t)
{
    uint32_t window = 0;

    memset(t, 0, sizeof *t);
    t->window = RHUMB_NO_WINDOW;
    t->q = case_tensor(c, "in.q", 4);
    if (t->q == NULL || read_keys(c, head_dim, t) != 0)
        return -1;
    t->golden = case_tensor(c, scores_only(c) ? "out.scores" : "out.o", 4);
    if (t->golden == NULL)
        return -1;
    t->v = scores_only(c) ? NULL : case_tensor(c, "in.v", 4);
    if (t->v == NULL && !scores_only(c))
        return -1;
    if (check_shapes(c, t, head_dim) != 0)
        return -1;
    t->scale = case_number(c->params, "scale", 1.0 / sqrt((double)head_dim));
    t->causal = case_bool(c->params, "causal", false);
    t->by_index = case_string(c->params, "mask_order") != NULL;
    if (case_param(c->params, "sliding_window") != NULL) {
        if (case_size(c, "sliding_window", 0.0, 1.0, &window) != 0)
            return -1;
        t->window = (int32_t)window;
    }
    return 0;
}

void case_free_attention(attention_case *t)
{
    tensor_list_free(&t->store);
    free(t->positions_q);
    free(t->positions_k);
}

/* ------------------------------------------------------------------------------------------------
 * Reference
 */
int case_attend_on_reference(case_file *c, const attention_case *t, const double *q,
                             const double *k)
{
    double *v = t->v != NULL ? tensor_doubles(t->v) : NULL, *out = tensor_doubles(t->golden);
    ref_attention a;
    int result = -1;

    ref_attention_init(&a, (uint32_t)t->q->shape[0], (uint32_t)t->q->shape[1],
                       (uint32_t)t->q->shape[2], (uint32_t)t->k->shape[2],
                       (uint32_t)t->q->shape[3]);
    a.kv_heads = (uint32_t)t->k->shape[1];
    a.value_dim = t->v != NULL ? (uint32_t)t->v->shape[3] : 0;
    a.scale = t->scale;
    a.causal = t->causal;
    a.order = t->by_index ? REF_ORDER_INDEX : REF_ORDER_POSITION;
    a.window_left = t->window;
    a.positions_q = t->positions_q;
    a.positions_k = t->positions_k;
    a.q = q;
    a.k = k;
    a.v = v;
    if (t->v != NULL)
        a.o = out;
    else
        a.scores = out;
    if (out == NULL || (t->v != NULL && v == NULL) || ref_attend(&a) != 0)
        case_fail(c, "reference: no memory, or parameters outside their domain");
    else
        result = case_compare(c, "reference", t->golden, out, &c->result->reference_error);
    free(v);
    free(out);
    return result;
}

static int rotate_doubles(const rope_case *r, const tensor *x, const int32_t *positions, double *y)
{
    return ref_rotate(&r->rope, (uint32_t)x->shape[0], (uint32_t)x->shape[1],
                      (uint32_t)x->shape[2], (uint32_t)x->shape[3], positions, 0, y, y);
}

static int attend_on_reference(case_file *c, const rope_case *r, const attention_case *t)
{
    double *q = tensor_doubles(t->q), *k = tensor_doubles(t->k);
    int result = -1;

    if (q == NULL || k == NULL || rotate_doubles(r, t->q, t->positions_q, q) != 0 ||
        rotate_doubles(r, t->k, t->positions_k, k) != 0)
        case_fail(c, "reference: no memory, or parameters outside their domain");
    else
        result = case_attend_on_reference(c, t, q, k);
    free(q);
    free(k);
    return result;
}

/* ------------------------------------------------------------------------------------------------
 * Device
 */

/* How the device rotates. */
typedef struct rotation {
    const void *rotary;
    uint32_t axes;
    uint32_t length;
} rotation;

/* ROTATE of the key-sized or query-sized tensor `x` into `data`. */
static int rotate_before(case_file *c, const rotation *r, const char *who, bool key,
                         const tensor *x, const int32_t *positions, float *data)
{
    const rhumb_view_id in = key ? RHUMB_VIEW_K : RHUMB_VIEW_Q;
    const rhumb_view_id out = key ? RHUMB_VIEW_K_OUT : RHUMB_VIEW_Q_OUT;
    const uint64_t *s = x->shape;
    gpu_operation op;

    gpu_init_operation(&op, RHUMB_OP_ROTATE);
    op.info.rotary = r->rotary;
    op.info.heads = (uint32_t)s[1];
    op.info.head_dim = (uint32_t)s[3];
    op.info.max_q_length = (uint32_t)s[2];
    op.new_length = r->length;
    gpu_add_tensor(&op, in, RHUMB_F32, s[0], s[1], s[2], s[3], x->data, NULL);
    gpu_add_tensor(&op, out, RHUMB_F32, s[0], s[1], s[2], s[3], NULL, data);
    gpu_add_tensor(&op, RHUMB_VIEW_POSITIONS_Q, RHUMB_I32, 1, r->axes, s[0], s[2], positions, NULL);
    return case_run_device(c, who, &op);
}

/* r NULL: q has been rotated. A mask by position goes by the first row of positions. */
static int attend_once(case_file *c, const attention_case *t, const char *who, const rotation *r,
                       const float *q, const float *k, tensor *o)
{
    const uint64_t *sq = t->q->shape, *sk = t->k->shape, *so = t->golden->shape;
    gpu_operation op;

    gpu_init_operation(&op, t->v != NULL ? RHUMB_OP_ATTENTION : RHUMB_OP_SCORES);
    op.info.rotary = r != NULL ? r->rotary : NULL;
    op.info.heads = (uint32_t)sq[1];
    op.info.kv_heads = (uint32_t)sk[1];
    op.info.head_dim = (uint32_t)sq[3];
    op.info.value_dim = t->v != NULL ? (uint32_t)t->v->shape[3] : RHUMB_SAME;
    op.info.max_q_length = (uint32_t)sq[2];
    op.info.max_k_length = (uint32_t)sk[2];
    op.info.scale = (float)t->scale;
    op.info.mask_order = t->by_index ? RHUMB_MASK_ORDER_INDEX : RHUMB_MASK_ORDER_POSITION;
    op.new_length = r != NULL ? r->length : 0;
    op.dispatch.causal = t->v != NULL && t->causal;
    op.dispatch.window_left = t->v != NULL ? t->window : RHUMB_NO_WINDOW;
    gpu_add_tensor(&op, RHUMB_VIEW_Q, RHUMB_F32, sq[0], sq[1], sq[2], sq[3], q, NULL);
    gpu_add_tensor(&op, RHUMB_VIEW_K, RHUMB_F32, sk[0], sk[1], sk[2], sk[3], k, NULL);
    if (t->v != NULL)
        gpu_add_tensor(&op, RHUMB_VIEW_V, RHUMB_F32, sk[0], sk[1], sk[2], so[3], t->v->data, NULL);
    gpu_add_tensor(&op, RHUMB_VIEW_O, RHUMB_F32, so[0], so[1], so[2], so[3], NULL, o->data);
    gpu_add_tensor(&op, RHUMB_VIEW_POSITIONS_Q, RHUMB_I32, 1, r != NULL ? r->axes : 1, sq[0], sq[2],
                   t->positions_q, NULL);
    gpu_add_tensor(&op, RHUMB_VIEW_POSITIONS_K, RHUMB_I32, 1, 1, sk[0], sk[2], t->positions_k,
                   NULL);
    if (case_run_device(c, who, &op) != 0)
        return -1;
    return case_compare_tensor(c, who, t->golden, o);
}

int case_attend_on_device(case_file *c, const attention_case *t, const void *rotary, uint32_t axes,
                          uint32_t length)
{
    const rotation r = {rotary, axes, length};
    tensor_list store = {0};
    float *k, *q;
    tensor *o;
    int result = -1;

    if (tensor_list_add(&store, "k", TENSOR_F32, 4, t->k->shape, NULL) == NULL ||
        tensor_list_add(&store, "q", TENSOR_F32, 4, t->q->shape, NULL) == NULL ||
        tensor_list_add(&store, "o", TENSOR_F32, 4, t->golden->shape, NULL) == NULL) {
        case_fail(c, "no memory");
        goto fail;
    }
    k = store.items[0].data;
    q = store.items[1].data;
    o = &store.items[2];
    if (rotate_before(c, &r, "rotate K", true, t->k, t->positions_k, k) != 0 ||
        attend_once(c, t, "device: Q rotated inside", &r, t->q->data, k, o) != 0 ||
        rotate_before(c, &r, "rotate Q", false, t->q, t->positions_q, q) != 0)
        goto fail;
    result = attend_once(c, t, "device: Q rotated before", NULL, q, k, o);

fail:
    tensor_list_free(&store);
    return result;
}

int case_run_rope_attention(case_file *c, rope_case *r)
{
    attention_case t;
    int result = case_read_attention(c, r->head_dim, &t);

    if (result == 0) {
        const uint64_t *sq = t.q->shape, *sk = t.k->shape;
        uint64_t length_q = 0, length_k = 0;
        result = -1;
        t.positions_q = case_positions(c, "in.positions_q", sq[0], sq[2]);
        if (t.positions_q != NULL)
            t.positions_k = case_positions(c, "in.positions_k", sk[0], sk[2]);
        if (t.positions_k != NULL) {
            length_q = case_length_of(t.positions_q, sq[0] * sq[2]);
            length_k = case_length_of(t.positions_k, sk[0] * sk[2]);
            case_set_length(r, length_q > length_k ? length_q : length_k);
            result = attend_on_reference(c, r, &t);
        }
    }
    if (result == 0 && c->device != NULL)
        result = case_attend_on_device(c, &t, &r->device, 1, (uint32_t)r->rope.length);
    case_free_attention(&t);
    return result;
}
