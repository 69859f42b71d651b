/* Rows of rhumb's operations, as a host records them: plan, bindings and blocks are made before. */
#include "bench.h"

#include <stdlib.h>

typedef struct operation {
    union {
        rhumb_rope rope;
        rhumb_alibi alibi;
        rhumb_t5 t5;
        rhumb_shaw shaw;
        rhumb_music_transformer music;
        rhumb_transformer_xl xl;
        rhumb_xlnet xlnet;
        rhumb_deberta deberta;
        rhumb_swin swin;
    } scheme;
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
    rhumb_init_rope(&o->scheme.rope);
    o->scheme.rope.pairing = s->pairing;
    o->op.info.rotary = &o->scheme.rope;
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

/* As much as the plan asks for. */
static rhumb_result add_workspace(gpu *g, operation *o)
{
    gpu_tensor *t = gpu_add_tensor(&o->op, RHUMB_VIEW_WORKSPACE, RHUMB_F32, 1, 1, 1, 1, NULL, NULL);
    const rhumb_result result = gpu_query_operation(g, &o->op);

    if (result == RHUMB_OK && o->op.properties.workspace_size != 0)
        t->shape[3] = o->op.properties.workspace_size / 4;
    return result;
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
    result = s->sliced ? add_workspace(g, o) : RHUMB_OK;
    work->bytes = 2.0 * s->heads * ((double)s->q_rows + k_rows) * d * (double)dtype_bytes(s->dtype);
    work->flops = 4.0 * s->heads * d * visible_pairs(s, k_rows);
    if (result == RHUMB_OK)
        result = prepare(g, o, data, work);
    else
        free(o);
    free(data);
    return result;
}

/* ----------------------------------------------------------------------------------------------
 * Attention with the terms of a relative scheme
 */
static uint32_t root(uint32_t square)
{
    uint32_t side = 1;

    while (side * side < square)
        side++;
    return side;
}

static void choose_scheme(operation *o, const bench_shape *s)
{
    o->op.info.scheme = &o->scheme;
    switch (s->scheme) {
    case BENCH_NONE:
        o->op.info.scheme = NULL;
        break;
    case BENCH_ALIBI:
        rhumb_init_alibi(&o->scheme.alibi);
        break;
    case BENCH_T5:
        rhumb_init_t5(&o->scheme.t5);
        o->scheme.t5.bidirectional = !s->causal;
        break;
    case BENCH_SHAW:
    case BENCH_SHAW_VALUES:
        rhumb_init_shaw(&o->scheme.shaw);
        o->scheme.shaw.clip_left = o->scheme.shaw.clip_right = s->reach;
        break;
    case BENCH_MUSIC:
    case BENCH_MUSIC_VALUES:
        rhumb_init_music_transformer(&o->scheme.music);
        o->scheme.music.max_relative_position = s->q_rows;
        o->scheme.music.bidirectional = !s->causal;
        break;
    case BENCH_TRANSFORMER_XL:
        rhumb_init_transformer_xl(&o->scheme.xl);
        o->scheme.xl.bidirectional = !s->causal;
        o->scheme.xl.folded = 1;
        break;
    case BENCH_XLNET:
    case BENCH_XLNET_SEGMENTS:
        rhumb_init_xlnet(&o->scheme.xlnet);
        o->scheme.xlnet.folded = 1;
        break;
    case BENCH_C2P:
    case BENCH_P2C:
    case BENCH_C2P_P2C:
        rhumb_init_deberta(&o->scheme.deberta);
        o->scheme.deberta.position_buckets = 256;
        break;
    case BENCH_SWIN:
        rhumb_init_swin(&o->scheme.swin);
        for (uint32_t axis = 0; axis < 2; axis++) {
            o->scheme.swin.window[axis] = root(s->q_rows);
            o->scheme.swin.grid[axis] = root(s->q_rows) * root(s->windows);
            o->scheme.swin.shift[axis] = root(s->q_rows) / 2;
        }
        o->scheme.swin.mask_value = -100.0f;
        break;
    }
}

/* Views of the scheme, as bits. */
static uint32_t scheme_views(bench_scheme scheme)
{
    const uint32_t a = RHUMB_VIEW_BIT(RHUMB_VIEW_QUERY_TABLE);
    const uint32_t c = RHUMB_VIEW_BIT(RHUMB_VIEW_KEY_TABLE);
    const uint32_t v = RHUMB_VIEW_BIT(RHUMB_VIEW_VALUE_TABLE);
    const uint32_t xl = a | RHUMB_VIEW_BIT(RHUMB_VIEW_CONTENT_BIAS) |
                        RHUMB_VIEW_BIT(RHUMB_VIEW_TABLE_SCALAR);
    const uint32_t segments =
        RHUMB_VIEW_BIT(RHUMB_VIEW_SEGMENT_BIAS) | RHUMB_VIEW_BIT(RHUMB_VIEW_SEGMENT_TABLE) |
        RHUMB_VIEW_BIT(RHUMB_VIEW_SEGMENTS_Q) | RHUMB_VIEW_BIT(RHUMB_VIEW_SEGMENTS_K);

    switch (scheme) {
    case BENCH_T5:
    case BENCH_SWIN: return RHUMB_VIEW_BIT(RHUMB_VIEW_TABLE);
    case BENCH_SHAW:
    case BENCH_MUSIC:
    case BENCH_C2P: return a;
    case BENCH_SHAW_VALUES:
    case BENCH_MUSIC_VALUES: return a | v;
    case BENCH_TRANSFORMER_XL:
    case BENCH_XLNET: return xl;
    case BENCH_XLNET_SEGMENTS: return xl | segments;
    case BENCH_P2C: return c;
    case BENCH_C2P_P2C: return a | c;
    default: return 0;
    }
}

static void add_scheme_tensors(operation *o, const bench_shape *s, uint32_t rows, const void *data)
{
    const uint32_t views = scheme_views(s->scheme), h = s->heads, d = s->head_dim;
    const bool shared = s->scheme == BENCH_SHAW || s->scheme == BENCH_SHAW_VALUES;
    const struct {
        rhumb_view_id id;
        uint64_t shape[4];
    } tensors[] = {
        {RHUMB_VIEW_TABLE, {1, 1, rows, h}},
        {RHUMB_VIEW_QUERY_TABLE, {1, shared ? 1 : h, rows, d}},
        {RHUMB_VIEW_KEY_TABLE, {1, h, rows, d}},
        {RHUMB_VIEW_VALUE_TABLE, {1, shared ? 1 : h, rows, d}},
        {RHUMB_VIEW_TABLE_SCALAR, {1, 1, rows, h}},
        {RHUMB_VIEW_CONTENT_BIAS, {1, 1, h, d}},
        {RHUMB_VIEW_SEGMENT_BIAS, {1, 1, h, d}},
        {RHUMB_VIEW_SEGMENT_TABLE, {1, h, 2, d}},
        {RHUMB_VIEW_SEGMENTS_Q, {1, 1, 1, s->q_rows}},
        {RHUMB_VIEW_SEGMENTS_K, {1, 1, 1, s->q_rows}},
    };

    for (size_t i = 0; i < sizeof tensors / sizeof tensors[0]; i++) {
        const uint64_t *n = tensors[i].shape;
        const bool integer = (RHUMB_INTEGER_VIEWS >> tensors[i].id & 1u) != 0;
        if ((views >> tensors[i].id & 1u) == 0)
            continue;
        gpu_tensor *t = gpu_add_tensor(&o->op, tensors[i].id, integer ? RHUMB_I32 : RHUMB_F32, n[0],
                                       n[1], n[2], n[3], data, NULL);
        if (n[1] == 1 && shared)
            t->stride[1] = 0;
    }
}

/* Counted as plain attention, so that a rate over the plain row's is its time over this one's. */
rhumb_result bench_make_terms(gpu *g, const bench_row *row, bench_work *work)
{
    const bench_shape *s = &row->shape;
    const uint32_t d = s->head_dim;
    const uint32_t windows = s->windows != 0 ? s->windows : 1;
    const bool grid = s->scheme == BENCH_SWIN;
    const uint32_t batch = grid ? 1 : windows, tokens = grid ? windows * s->q_rows : s->q_rows;
    operation *o = allocate(RHUMB_OP_ATTENTION, s);
    void *data;
    rhumb_result result;

    if (o == NULL)
        return gpu_fail(g, RHUMB_ERROR_HOST_MEMORY, "no host memory");
    o->op.info.max_q_length = tokens;
    choose_scheme(o, s);
    o->op.info.scale = 0.125f;
    o->op.dispatch.causal = s->causal;
    if (s->unfused)
        o->op.info.variant = RHUMB_VARIANT_UNFUSED;
    data = draw(s->dtype, (uint64_t)s->heads * 2 * windows * s->q_rows * d);
    for (uint32_t id = RHUMB_VIEW_Q; id <= RHUMB_VIEW_O; id++)
        gpu_add_tensor(&o->op, (rhumb_view_id)id, s->dtype, batch, s->heads, tokens, d,
                       id == RHUMB_VIEW_O ? NULL : data, NULL);
    if (s->unfused)
        gpu_add_tensor(&o->op, RHUMB_VIEW_WORKSPACE, RHUMB_F32, 1, 1, 1,
                       (uint64_t)s->heads * s->q_rows * s->q_rows, NULL, NULL);
    /* how many rows the tables have is the plan's to say */
    o->op.info.views = scheme_views(s->scheme);
    result = gpu_query_operation(g, &o->op);
    if (result == RHUMB_OK)
        add_scheme_tensors(o, s, o->op.properties.table_rows, data);
    work->bytes = 16.0 * windows * s->heads * s->q_rows * d;
    work->flops = 4.0 * windows * s->heads * d * visible_pairs(s, s->q_rows);
    if (result == RHUMB_OK) {
        result = prepare(g, o, data, work);
    } else {
        free(o);
    }
    free(data);
    return result;
}
