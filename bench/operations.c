/* Rows of rhumb's operations, as a host records them: plan, bindings and blocks are made before.
 * Attention has a file of its own. */
#include "operations.h"

#include <stdlib.h>

/* ----------------------------------------------------------------------------------------------
 * What all of them share
 */
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

uint64_t bench_bytes(rhumb_dtype dtype, uint64_t elements)
{
    if (dtype == RHUMB_Q8_0)
        return elements / 32 * 34;
    return elements * (dtype == RHUMB_F32 ? 4 : 2);
}

uint32_t bench_root(uint32_t square)
{
    uint32_t side = 1;

    while (side * side < square)
        side++;
    return side;
}

/* Numbers from 1 to 2 of either sign: no denormals, no overflow, logits of a few units. Q8_0: up to
 * 2, by scales of 1/64. */
static void *draw(rhumb_dtype dtype, uint64_t elements)
{
    const uint64_t size = bench_bytes(dtype, elements) / 4 + 1;
    uint32_t *words = malloc(size * sizeof *words);
    uint32_t state = 12345;

    for (uint64_t i = 0; words != NULL && i < size; i++) {
        state = state * 1664525u + 1013904223u;
        if (dtype == RHUMB_F32)
            words[i] = (state & 0x80000000u) | 0x3f800000u | (state >> 8 & 0x7fffffu);
        else if (dtype == RHUMB_F16)
            words[i] = (state & 0x83ff83ffu) | 0x3c003c00u;
        else if (dtype == RHUMB_BF16)
            words[i] = (state & 0x807f807fu) | 0x3f803f80u;
        else
            words[i] = state;
    }
    for (uint64_t at = 0; words != NULL && dtype == RHUMB_Q8_0 && at < elements / 32; at++) {
        const uint8_t scale[2] = {0x00, 0x24};
        memcpy((uint8_t *)words + at * 34, scale, sizeof scale);
    }
    return words;
}

/* 0, step, 2 step ... modulo `modulus`. */
static void *count(uint64_t elements, uint64_t step, uint64_t modulus)
{
    int32_t *numbers = malloc(elements * sizeof *numbers);

    for (uint64_t i = 0; numbers != NULL && i < elements; i++)
        numbers[i] = (int32_t)(i * step % modulus);
    return numbers;
}

static void free_data(operation *o)
{
    for (uint32_t i = 0; i < RHUMB_MAX_VIEWS; i++)
        free(o->data[i]);
}

operation *bench_begin(gpu *g, rhumb_op op, const bench_shape *s)
{
    operation *o = calloc(1, sizeof *o);

    if (o == NULL) {
        (void)gpu_fail(g, RHUMB_ERROR_HOST_MEMORY, "no host memory");
        return NULL;
    }
    gpu_init_operation(&o->op, op);
    o->op.unchecked = true;
    if (s->heads != 0)
        o->op.info.heads = s->heads;
    o->op.info.head_dim = s->head_dim;
    o->op.info.max_q_length = s->q_rows;
    bench_choose_scheme(o, s);
    return o;
}

gpu_tensor *bench_add(operation *o, rhumb_view_id id, rhumb_dtype dtype, uint64_t b, uint64_t h,
                      uint64_t l, uint64_t d)
{
    const bool positions = id == RHUMB_VIEW_POSITIONS_Q;
    const uint64_t elements = b * h * l * d;
    void *data = positions ? count(elements, 1, d) : draw(dtype, elements);

    o->data[o->op.tensor_count] = data;
    o->no_memory = o->no_memory || data == NULL;
    return gpu_add_tensor(&o->op, id, dtype, b, h, l, d, data, NULL);
}

gpu_tensor *bench_add_numbers(operation *o, rhumb_view_id id, uint64_t elements, uint64_t step,
                              uint64_t modulus)
{
    void *data = count(elements, step, modulus);

    o->data[o->op.tensor_count] = data;
    o->no_memory = o->no_memory || data == NULL;
    return gpu_add_tensor(&o->op, id, RHUMB_I32, 1, 1, 1, elements, data, NULL);
}

gpu_tensor *bench_add_result(operation *o, rhumb_view_id id, rhumb_dtype dtype, uint64_t b,
                             uint64_t h, uint64_t l, uint64_t d)
{
    return gpu_add_tensor(&o->op, id, dtype, b, h, l, d, NULL, NULL);
}

rhumb_result bench_finish(gpu *g, operation *o, rhumb_result result, bench_work *work)
{
    if (result == RHUMB_OK && o->no_memory)
        result = gpu_fail(g, RHUMB_ERROR_HOST_MEMORY, "no host memory for the tensors");
    if (result == RHUMB_OK)
        result = gpu_prepare_operation(g, &o->op, &o->prepared);
    free_data(o);
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

rhumb_result bench_size_workspace(gpu *g, operation *o, gpu_tensor *workspace)
{
    const rhumb_result result = gpu_query_operation(g, &o->op);

    if (result == RHUMB_OK && o->op.properties.workspace_size != 0)
        workspace->shape[3] = o->op.properties.workspace_size / 4;
    return result;
}

/* ----------------------------------------------------------------------------------------------
 * ROTATE
 */

/* The result of a tensor: in its place, or beside it; a cache of k_rows where rows are appended. */
static void add_rotated(operation *o, const bench_shape *s, rhumb_view_id id, rhumb_view_id out,
                        uint32_t heads)
{
    const bool cached = s->append && id != RHUMB_VIEW_Q;

    bench_add(o, id, s->dtype, 1, heads, s->q_rows, s->head_dim);
    if (cached || !s->in_place)
        bench_add_result(o, out, s->dtype, 1, heads, cached ? s->k_rows : s->q_rows, s->head_dim);
}

/* Of tokens that a grid or text has; see bench_add. */
static void add_positions(operation *o, const bench_shape *s)
{
    const uint32_t axes = s->scheme == BENCH_MROPE ? 3 : s->scheme == BENCH_ROPE2D ? 2 : 0;

    if (axes != 0)
        bench_add(o, RHUMB_VIEW_POSITIONS_Q, RHUMB_I32, 1, axes, 1, s->q_rows);
}

rhumb_result bench_make_rotate(gpu *g, const bench_row *row, bench_work *work)
{
    const bench_shape *s = &row->shape;
    operation *o = bench_begin(g, RHUMB_OP_ROTATE, s);
    const uint32_t tensors = s->heads + s->kv_heads + (s->append ? s->kv_heads : 0);

    if (o == NULL)
        return RHUMB_ERROR_HOST_MEMORY;
    add_rotated(o, s, RHUMB_VIEW_Q, RHUMB_VIEW_Q_OUT, s->heads);
    if (s->kv_heads != 0) {
        o->op.info.kv_heads = s->kv_heads;
        add_rotated(o, s, RHUMB_VIEW_K, RHUMB_VIEW_K_OUT, s->kv_heads);
    }
    if (s->append) {
        o->op.info.append = RHUMB_APPEND_POSITION;
        o->op.dispatch.q_offset = (int32_t)(s->k_rows - s->q_rows);
        add_rotated(o, s, RHUMB_VIEW_V, RHUMB_VIEW_V_OUT, s->kv_heads);
    }
    if (s->norm) {
        bench_add(o, RHUMB_VIEW_Q_GAIN, RHUMB_F32, 1, 1, 1, s->head_dim);
        if (s->kv_heads != 0)
            bench_add(o, RHUMB_VIEW_K_GAIN, RHUMB_F32, 1, 1, 1, s->head_dim);
    }
    add_positions(o, s);
    if (s->shift) {
        o->op.info.purpose = RHUMB_PURPOSE_SHIFT;
        o->op.dispatch.q_offset = -64;
    }
    work->bytes = 2.0 * (double)bench_bytes(s->dtype, (uint64_t)tensors * s->q_rows * s->head_dim);
    work->flops = 0.0; /* 6 for 8 bytes: nothing beside them */
    return bench_finish(g, o, RHUMB_OK, work);
}

/* ----------------------------------------------------------------------------------------------
 * ENCODE, RESIZE
 */
rhumb_result bench_make_encode(gpu *g, const bench_row *row, bench_work *work)
{
    const bench_shape *s = &row->shape;
    const bool table = s->scheme == BENCH_LEARNED || s->scheme == BENCH_LEARNED_2D;
    const double streams = (s->bare ? 1.0 : 2.0) + (table ? 1.0 : 0.0);
    operation *o = bench_begin(g, RHUMB_OP_ENCODE, s);
    gpu_tensor *y;

    if (o == NULL)
        return RHUMB_ERROR_HOST_MEMORY;
    if (!s->bare)
        bench_add(o, RHUMB_VIEW_X, s->dtype, 1, 1, s->q_rows, s->head_dim);
    y = bench_add_result(o, RHUMB_VIEW_Y, s->dtype, 1, 1, s->q_rows, s->head_dim);
    y->same_as = s->in_place ? 1 : 0; /* X is the first tensor */
    if (table)
        bench_add(o, RHUMB_VIEW_TABLE, s->dtype, 1, 1, s->q_rows, s->head_dim);
    work->bytes = streams * (double)bench_bytes(s->dtype, (uint64_t)s->q_rows * s->head_dim);
    work->flops = 0.0;
    return bench_finish(g, o, RHUMB_OK, work);
}

rhumb_result bench_make_resize(gpu *g, const bench_row *row, bench_work *work)
{
    const bench_shape *s = &row->shape;
    operation *o = bench_begin(g, RHUMB_OP_RESIZE, s);

    if (o == NULL)
        return RHUMB_ERROR_HOST_MEMORY;
    o->op.info.max_q_length = 1;
    bench_add(o, RHUMB_VIEW_TABLE, s->dtype, 1, 1, s->k_rows, s->head_dim);
    bench_add_result(o, RHUMB_VIEW_Y, s->dtype, 1, 1, s->q_rows, s->head_dim);
    work->bytes = (double)bench_bytes(s->dtype, ((uint64_t)s->q_rows + s->k_rows) * s->head_dim);
    work->flops = 0.0;
    return bench_finish(g, o, RHUMB_OK, work);
}

/* ----------------------------------------------------------------------------------------------
 * PROJECT, COMBINE
 */

/* From as many channels as the heads have; with the folded bias of Transformer-XL. */
rhumb_result bench_make_project(gpu *g, const bench_row *row, bench_work *work)
{
    const bench_shape *s = &row->shape;
    const uint32_t channels = s->heads * s->head_dim;
    operation *o = bench_begin(g, RHUMB_OP_PROJECT, s);
    const double y = (double)s->q_rows * channels;

    if (o == NULL)
        return RHUMB_ERROR_HOST_MEMORY;
    o->op.info.value_dim = channels;
    bench_add(o, RHUMB_VIEW_X, RHUMB_F32, 1, 1, s->q_rows, channels);
    bench_add(o, RHUMB_VIEW_WEIGHT, s->dtype, 1, s->heads, s->head_dim, channels);
    bench_add_result(o, RHUMB_VIEW_Y, RHUMB_F32, 1, s->heads, s->q_rows, s->head_dim);
    if (s->folded) {
        bench_add(o, RHUMB_VIEW_CONTENT_BIAS, RHUMB_F32, 1, 1, s->heads, s->head_dim);
        bench_add(o, RHUMB_VIEW_POSITION_BIAS, RHUMB_F32, 1, 1, s->heads, s->head_dim);
        bench_add_result(o, RHUMB_VIEW_TABLE_SCALAR, RHUMB_F32, 1, 1, s->q_rows, s->heads);
    }
    work->bytes = 8.0 * y + (double)bench_bytes(s->dtype, (uint64_t)channels * channels);
    work->flops = 2.0 * y * channels;
    return bench_finish(g, o, RHUMB_OK, work);
}

rhumb_result bench_make_combine(gpu *g, const bench_row *row, bench_work *work)
{
    const bench_shape *s = &row->shape;
    operation *o = bench_begin(g, RHUMB_OP_COMBINE, s);

    if (o == NULL)
        return RHUMB_ERROR_HOST_MEMORY;
    o->op.info.head_dim = 1;
    o->op.info.value_dim = s->head_dim;
    bench_add(o, RHUMB_VIEW_PARTS, s->dtype, s->parts, s->heads, s->q_rows, s->head_dim);
    bench_add(o, RHUMB_VIEW_PART_LSE, RHUMB_F32, 1, s->parts, s->heads, s->q_rows);
    bench_add_result(o, RHUMB_VIEW_O, s->dtype, 1, s->heads, s->q_rows, s->head_dim);
    work->bytes = (s->parts + 1.0) *
                  (double)bench_bytes(s->dtype, (uint64_t)s->heads * s->q_rows * s->head_dim);
    work->flops = 0.0;
    return bench_finish(g, o, RHUMB_OK, work);
}
