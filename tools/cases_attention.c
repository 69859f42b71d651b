/* Golden cases of scheme rope, op attention (PARAMS.md section 5.5). */
#include "cases_rope.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct attention_case {
    const rope_case *r;
    const tensor *q;
    const tensor *k;
    const tensor *v;
    const tensor *golden;
    int32_t *positions_q; /* [B, Lq] */
    int32_t *positions_k; /* [B, Lk] */
    double scale;
    bool causal;
    bool by_index;
    int32_t window;
} attention_case;

static int attend_on_reference(case_file *c, const attention_case *t)
{
    double *q = tensor_doubles(t->q), *k = tensor_doubles(t->k), *v = tensor_doubles(t->v);
    double *o = tensor_doubles(t->golden);
    ref_attention a;
    int result = -1;

    ref_attention_init(&a, (uint32_t)t->q->shape[0], (uint32_t)t->q->shape[1],
                       (uint32_t)t->q->shape[2], (uint32_t)t->k->shape[2], t->r->head_dim);
    a.kv_heads = (uint32_t)t->k->shape[1];
    a.value_dim = (uint32_t)t->v->shape[3];
    a.scale = t->scale;
    a.causal = t->causal;
    a.order = t->by_index ? REF_ORDER_INDEX : REF_ORDER_POSITION;
    a.window_left = t->window;
    a.positions_q = t->positions_q;
    a.positions_k = t->positions_k;
    a.rotary = &t->r->rope;
    a.q = q;
    a.k = k;
    a.v = v;
    a.o = o;
    if (q == NULL || k == NULL || v == NULL || o == NULL ||
        ref_rotate(&t->r->rope, a.batch, a.kv_heads, a.k_rows, a.head_dim, t->positions_k, 0, k,
                   k) != 0 ||
        ref_attend(&a) != 0)
        case_fail(c, "reference: no memory, or parameters outside their domain");
    else
        result = case_compare(c, "reference", t->golden, o, &c->result->reference_error);
    free(q);
    free(k);
    free(v);
    free(o);
    return result;
}

/* ROTATE of the key-sized or query-sized tensor `x` in place. */
static int rotate_before(case_file *c, const rope_case *r, const char *who, rhumb_view_id id,
                         const tensor *x, const int32_t *positions, float *data)
{
    const uint64_t *s = x->shape;
    rhumb_rope rope;
    gpu_operation op;

    memcpy(data, x->data, (size_t)tensor_bytes(x));
    case_to_rhumb(r, &rope);
    gpu_init_operation(&op, RHUMB_OP_ROTATE);
    op.info.rotary = &rope;
    op.info.heads = (uint32_t)s[1];
    op.info.head_dim = (uint32_t)s[3];
    op.info.max_q_length = (uint32_t)s[2];
    gpu_add_tensor(&op, id, RHUMB_F32, s[0], s[1], s[2], s[3], data, data);
    gpu_add_tensor(&op, RHUMB_VIEW_POSITIONS_Q, RHUMB_I32, 1, 1, s[0], s[2], positions, NULL);
    return case_run_device(c, who, &op);
}

/* rotary NULL: q has been rotated. */
static int attend_once(case_file *c, const attention_case *t, const char *who,
                       const rhumb_rope *rotary, const float *q, const float *k, tensor *o)
{
    const uint64_t *sq = t->q->shape, *sk = t->k->shape, *sv = t->v->shape;
    gpu_operation op;

    gpu_init_operation(&op, RHUMB_OP_ATTENTION);
    op.info.rotary = rotary;
    op.info.heads = (uint32_t)sq[1];
    op.info.kv_heads = (uint32_t)sk[1];
    op.info.head_dim = (uint32_t)sq[3];
    op.info.value_dim = (uint32_t)sv[3];
    op.info.max_q_length = (uint32_t)sq[2];
    op.info.max_k_length = (uint32_t)sk[2];
    op.info.scale = (float)t->scale;
    op.info.mask_order = t->by_index ? RHUMB_MASK_ORDER_INDEX : RHUMB_MASK_ORDER_POSITION;
    op.dispatch.causal = t->causal;
    op.dispatch.window_left = t->window;
    gpu_add_tensor(&op, RHUMB_VIEW_Q, RHUMB_F32, sq[0], sq[1], sq[2], sq[3], q, NULL);
    gpu_add_tensor(&op, RHUMB_VIEW_K, RHUMB_F32, sk[0], sk[1], sk[2], sk[3], k, NULL);
    gpu_add_tensor(&op, RHUMB_VIEW_V, RHUMB_F32, sv[0], sv[1], sv[2], sv[3], t->v->data, NULL);
    gpu_add_tensor(&op, RHUMB_VIEW_O, RHUMB_F32, sq[0], sq[1], sq[2], sv[3], NULL, o->data);
    gpu_add_tensor(&op, RHUMB_VIEW_POSITIONS_Q, RHUMB_I32, 1, 1, sq[0], sq[2], t->positions_q,
                   NULL);
    gpu_add_tensor(&op, RHUMB_VIEW_POSITIONS_K, RHUMB_I32, 1, 1, sk[0], sk[2], t->positions_k,
                   NULL);
    if (case_run_device(c, who, &op) != 0)
        return -1;
    return case_compare_tensor(c, who, t->golden, o);
}

/* Two ways to the same numbers: Q rotated when attention loads it, and Q rotated by ROTATE. */
static int attend_on_device(case_file *c, const attention_case *t)
{
    tensor_list store = {0};
    float *k, *q;
    tensor *o;
    rhumb_rope rope;
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
    case_to_rhumb(t->r, &rope);
    if (rotate_before(c, t->r, "rotate K", RHUMB_VIEW_K, t->k, t->positions_k, k) != 0 ||
        attend_once(c, t, "device: Q rotated inside", &rope, t->q->data, k, o) != 0 ||
        rotate_before(c, t->r, "rotate Q", RHUMB_VIEW_Q, t->q, t->positions_q, q) != 0)
        goto fail;
    result = attend_once(c, t, "device: Q rotated before", NULL, q, k, o);

fail:
    tensor_list_free(&store);
    return result;
}

static int check_shapes(case_file *c, const attention_case *t, uint64_t heads, uint64_t kv_heads)
{
    const uint64_t batch = t->q->shape[0], q_rows = t->q->shape[2], k_rows = t->k->shape[2];
    const uint64_t dim = t->r->head_dim, value_dim = t->v->shape[3];
    const uint64_t q_shape[4] = {batch, heads, q_rows, dim};
    const uint64_t k_shape[4] = {batch, kv_heads, k_rows, dim};
    const uint64_t v_shape[4] = {batch, kv_heads, k_rows, value_dim};
    const uint64_t o_shape[4] = {batch, heads, q_rows, value_dim};

    if (case_check_shape(c, t->q, 4, q_shape) != 0 || case_check_shape(c, t->k, 4, k_shape) != 0 ||
        case_check_shape(c, t->v, 4, v_shape) != 0)
        return -1;
    return case_check_shape(c, t->golden, 4, o_shape);
}

static int check_attention(case_file *c, const attention_case *t)
{
    uint32_t heads, kv_heads;

    if (case_size(c, "heads", (double)t->q->shape[1], 1.0, &heads) != 0 ||
        case_size(c, "kv_heads", (double)heads, 1.0, &kv_heads) != 0)
        return -1;
    if (heads % kv_heads != 0)
        return case_fail(c, "params: wanted kv_heads to divide heads, got %u and %u", kv_heads,
                         heads);
    return check_shapes(c, t, heads, kv_heads);
}

int case_run_rope_attention(case_file *c, const rope_case *r)
{
    attention_case t = {.r = r, .window = RHUMB_NO_WINDOW};
    uint32_t window = 0;
    int result = -1;

    t.q = case_tensor(c, "in.q", 4);
    t.k = t.q != NULL ? case_tensor(c, "in.k", 4) : NULL;
    t.v = t.k != NULL ? case_tensor(c, "in.v", 4) : NULL;
    t.golden = t.v != NULL ? case_tensor(c, "out.o", 4) : NULL;
    if (t.golden == NULL || check_attention(c, &t) != 0)
        return -1;
    t.scale = case_number(c->params, "scale", 1.0 / sqrt((double)r->head_dim));
    t.causal = case_bool(c->params, "causal", false);
    t.by_index = case_string(c->params, "mask_order") != NULL;
    if (case_param(c->params, "sliding_window") != NULL) {
        if (case_size(c, "sliding_window", 0.0, 1.0, &window) != 0)
            return -1;
        t.window = (int32_t)window;
    }
    t.positions_q = case_positions(c, "in.positions_q", t.q->shape[0], t.q->shape[2]);
    if (t.positions_q != NULL)
        t.positions_k = case_positions(c, "in.positions_k", t.k->shape[0], t.k->shape[2]);
    if (t.positions_k != NULL)
        result = attend_on_reference(c, &t);
    if (result == 0 && c->device != NULL)
        result = attend_on_device(c, &t);
    free(t.positions_q);
    free(t.positions_k);
    return result;
}
