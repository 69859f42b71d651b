/* Rows of attention and of what goes into its softmax: SCORES and BIAS. */
#include "operations.h"

static uint32_t key_rows(const bench_shape *s)
{
    return s->k_rows != 0 ? s->k_rows : s->q_rows;
}

static uint32_t key_heads(const bench_shape *s)
{
    return s->kv_heads != 0 ? s->kv_heads : s->heads;
}

/* (query, key) pairs of one head that are visible; the last row stands at the last key. */
static double visible_pairs(const bench_shape *s)
{
    double pairs = 0.0;

    for (uint32_t a = 0; a < s->q_rows; a++) {
        double seen = s->causal ? (double)key_rows(s) - s->q_rows + a + 1 : key_rows(s);
        if (s->window != 0 && seen > s->window)
            seen = s->window;
        pairs += seen;
    }
    return pairs;
}

static uint32_t window_count(const bench_shape *s)
{
    return s->windows != 0 ? s->windows : 1;
}

/* K or V; with blocks a pool of them. */
static void add_keys(operation *o, const bench_shape *s, rhumb_view_id id, uint32_t batch,
                     uint32_t keys)
{
    if (s->block != 0)
        bench_add(o, id, s->dtype, keys / s->block, key_heads(s), s->block, s->head_dim);
    else
        bench_add(o, id, s->dtype, batch, key_heads(s), keys, s->head_dim);
}

/* Blocks in an order that is none of neighbours; sequences of the same length. */
static void add_layout(operation *o, const bench_shape *s, uint32_t keys)
{
    const uint32_t count = window_count(s) + 1;

    if (s->block != 0)
        bench_add_numbers(o, RHUMB_VIEW_BLOCK_TABLE, keys / s->block, 5, keys / s->block);
    if (s->packed) {
        bench_add_numbers(o, RHUMB_VIEW_Q_STARTS, count, s->q_rows, UINT32_MAX);
        bench_add_numbers(o, RHUMB_VIEW_K_STARTS, count, key_rows(s), UINT32_MAX);
    }
}

/* Q, K, and with ATTENTION V and O. One tensor holds all windows of a grid and all sequences; else
 * they are batch entries. */
static operation *begin(gpu *g, rhumb_op op, const bench_shape *s)
{
    const bool grid = (s->scheme == BENCH_SWIN || s->scheme == BENCH_SWIN_V2) && s->windows > 1;
    const bool one = grid || s->packed;
    const uint32_t batch = one ? 1 : window_count(s), times = one ? window_count(s) : 1;
    const uint32_t rows = s->q_rows * times, keys = key_rows(s) * times;
    operation *o = bench_begin(g, op, s);

    if (o == NULL)
        return NULL;
    o->op.info.kv_heads = key_heads(s);
    o->op.info.max_q_length = s->packed ? s->q_rows : rows;
    o->op.info.max_k_length = s->packed ? key_rows(s) : keys;
    bench_add(o, RHUMB_VIEW_Q, RHUMB_F32, batch, s->heads, rows, s->head_dim);
    add_keys(o, s, RHUMB_VIEW_K, batch, keys);
    if (op != RHUMB_OP_ATTENTION)
        return o;
    add_keys(o, s, RHUMB_VIEW_V, batch, keys);
    bench_add_result(o, RHUMB_VIEW_O, RHUMB_F32, batch, s->heads, rows, s->head_dim);
    add_layout(o, s, keys);
    return o;
}

/* Counted as plain attention, so that a rate over the plain row's is its time over this one's. */
rhumb_result bench_make_attention(gpu *g, const bench_row *row, bench_work *work)
{
    const bench_shape *s = &row->shape;
    const double all = (double)window_count(s) * s->head_dim;
    const double size_of_cache = (double)bench_bytes(s->dtype, 32) / 32.0; /* of an element */
    operation *o = begin(g, RHUMB_OP_ATTENTION, s);
    gpu_tensor *workspace = NULL;
    rhumb_result result;

    if (o == NULL)
        return RHUMB_ERROR_HOST_MEMORY;
    o->op.dispatch.causal = s->causal;
    if (s->window != 0)
        o->op.dispatch.window_left = (int32_t)s->window;
    if (s->unfused)
        o->op.info.variant = RHUMB_VARIANT_UNFUSED;
    if (s->sliced || s->unfused) /* there is no unfused plan without */
        workspace = bench_add_result(o, RHUMB_VIEW_WORKSPACE, RHUMB_F32, 1, 1, 1, 1);
    result = bench_add_scheme_tensors(g, o, s);
    if (result == RHUMB_OK && workspace != NULL)
        result = bench_size_workspace(g, o, workspace);
    work->bytes = all * 2.0 *
                  (4.0 * s->heads * s->q_rows + size_of_cache * key_heads(s) * key_rows(s));
    work->flops = all * 4.0 * s->heads * visible_pairs(s);
    return bench_finish(g, o, result, work);
}

rhumb_result bench_make_scores(gpu *g, const bench_row *row, bench_work *work)
{
    const bench_shape *s = &row->shape;
    operation *o = begin(g, RHUMB_OP_SCORES, s);
    const double logits = (double)s->heads * s->q_rows * key_rows(s);

    if (o == NULL)
        return RHUMB_ERROR_HOST_MEMORY;
    bench_add_result(o, RHUMB_VIEW_O, RHUMB_F32, 1, s->heads, s->q_rows, key_rows(s));
    work->bytes = 4.0 * logits;
    work->flops = 2.0 * logits * s->head_dim;
    return bench_finish(g, o, bench_add_scheme_tensors(g, o, s), work);
}

rhumb_result bench_make_bias(gpu *g, const bench_row *row, bench_work *work)
{
    const bench_shape *s = &row->shape;
    const uint64_t logits = (uint64_t)s->heads * s->q_rows * key_rows(s);
    operation *o = bench_begin(g, RHUMB_OP_BIAS, s);

    if (o == NULL)
        return RHUMB_ERROR_HOST_MEMORY;
    o->op.info.max_k_length = key_rows(s);
    bench_add_result(o, RHUMB_VIEW_O, s->dtype, 1, s->heads, s->q_rows, key_rows(s));
    work->bytes = (double)bench_bytes(s->dtype, logits);
    work->flops = 0.0;
    return bench_finish(g, o, bench_add_scheme_tensors(g, o, s), work);
}
