/* Rows of rhumb's operations, as a host records them: plan, bindings and blocks are made before. */
#include "bench.h"

#include <stdlib.h>

typedef struct operation {
    rhumb_rope rope;
    gpu_operation op;
    gpu_prepared prepared;
} operation;

static rhumb_result record(const bench_work *work, VkCommandBuffer commands)
{
    const operation *o = work->state;
    rhumb_dispatch dispatch = o->op.dispatch;
    rhumb_result result;

    dispatch.constants_offset = o->prepared.constants_offset;
    dispatch.bindings_offset = o->prepared.bindings_offset;
    result = rhumb_record(commands, o->prepared.bindings, &dispatch);
    if (result != RHUMB_OK)
        return gpu_fail(work->g, result, "%s", rhumb_last_message(work->g->context));
    return RHUMB_OK;
}

static void release(bench_work *work)
{
    operation *o = work->state;

    gpu_release_operation(&o->prepared);
    free(o);
}

static uint64_t dtype_bytes(rhumb_dtype dtype)
{
    return dtype == RHUMB_F32 ? 4 : 2;
}

/* Numbers from 1 to 2 of either sign: no denormals, no overflow, logits of a few units. */
static void *draw(rhumb_dtype dtype, uint64_t elements)
{
    uint32_t *words = malloc(elements * dtype_bytes(dtype) + 4);
    const uint64_t count = (elements * dtype_bytes(dtype) + 3) / 4;
    uint32_t state = 12345;

    for (uint64_t i = 0; words != NULL && i < count; i++) {
        state = state * 1664525u + 1013904223u;
        if (dtype == RHUMB_F32)
            words[i] = (state & 0x80000000u) | 0x3f800000u | (state >> 8 & 0x7fffffu);
        else if (dtype == RHUMB_F16)
            words[i] = (state & 0x83ff83ffu) | 0x3c003c00u;
        else
            words[i] = (state & 0x807f807fu) | 0x3f803f80u;
    }
    return words;
}

/* Adds tensors, prepares, and leaves o in the work; o is freed on an error. */
static rhumb_result prepare(gpu *g, operation *o, const void *data, bench_work *work)
{
    rhumb_result result;

    o->op.unchecked = true;
    result = data == NULL ? gpu_fail(g, RHUMB_ERROR_HOST_MEMORY, "no host memory for the tensors")
                          : gpu_prepare_operation(g, &o->op, &o->prepared);
    if (result != RHUMB_OK) {
        free(o);
        return result;
    }
    work->g = g;
    work->record = record;
    work->release = release;
    work->state = o;
    return RHUMB_OK;
}

static operation *allocate(rhumb_op op, const bench_shape *s)
{
    operation *o = calloc(1, sizeof *o);

    if (o == NULL)
        return NULL;
    gpu_init_operation(&o->op, op);
    o->op.info.heads = s->heads;
    o->op.info.head_dim = s->head_dim;
    o->op.info.max_q_length = s->q_rows;
    return o;
}

rhumb_result bench_make_rotate(gpu *g, const bench_row *row, bench_work *work)
{
    const bench_shape *s = &row->shape;
    const uint64_t elements = (uint64_t)s->heads * s->q_rows * s->head_dim;
    operation *o = allocate(RHUMB_OP_ROTATE, s);
    void *data;
    rhumb_result result;

    if (o == NULL)
        return gpu_fail(g, RHUMB_ERROR_HOST_MEMORY, "no host memory");
    rhumb_init_rope(&o->rope);
    o->rope.pairing = s->pairing;
    o->op.info.rotary = &o->rope;
    data = draw(s->dtype, elements);
    gpu_add_tensor(&o->op, RHUMB_VIEW_Q, s->dtype, 1, s->heads, s->q_rows, s->head_dim, data, NULL);
    if (!s->in_place)
        gpu_add_tensor(&o->op, RHUMB_VIEW_Q_OUT, s->dtype, 1, s->heads, s->q_rows, s->head_dim,
                       NULL, NULL);
    work->bytes = 2.0 * (double)(elements * dtype_bytes(s->dtype));
    work->flops = 0.0; /* 6 for 8 bytes: nothing beside them */
    result = prepare(g, o, data, work);
    free(data);
    return result;
}

/* (query, key) pairs of one head that are visible. */
static double visible_pairs(const bench_shape *s, uint32_t k_rows)
{
    const double hidden = s->causal ? 0.5 * s->q_rows * (s->q_rows - 1.0) : 0.0;

    return (double)s->q_rows * k_rows - hidden;
}

rhumb_result bench_make_attention(gpu *g, const bench_row *row, bench_work *work)
{
    const bench_shape *s = &row->shape;
    const uint32_t k_rows = s->k_rows != 0 ? s->k_rows : s->q_rows;
    const uint32_t most = k_rows > s->q_rows ? k_rows : s->q_rows;
    const uint32_t d = s->head_dim;
    operation *o = allocate(RHUMB_OP_ATTENTION, s);
    void *data;
    rhumb_result result;

    if (o == NULL)
        return gpu_fail(g, RHUMB_ERROR_HOST_MEMORY, "no host memory");
    o->op.info.max_k_length = k_rows;
    o->op.dispatch.causal = s->causal;
    data = draw(s->dtype, (uint64_t)s->heads * most * d);
    gpu_add_tensor(&o->op, RHUMB_VIEW_Q, s->dtype, 1, s->heads, s->q_rows, d, data, NULL);
    gpu_add_tensor(&o->op, RHUMB_VIEW_K, s->dtype, 1, s->heads, k_rows, d, data, NULL);
    gpu_add_tensor(&o->op, RHUMB_VIEW_V, s->dtype, 1, s->heads, k_rows, d, data, NULL);
    gpu_add_tensor(&o->op, RHUMB_VIEW_O, s->dtype, 1, s->heads, s->q_rows, d, NULL, NULL);
    work->bytes = 2.0 * s->heads * ((double)s->q_rows + k_rows) * d * (double)dtype_bytes(s->dtype);
    work->flops = 4.0 * s->heads * d * visible_pairs(s, k_rows);
    result = prepare(g, o, data, work);
    free(data);
    return result;
}
