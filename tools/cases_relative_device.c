/* Golden cases of the one-dimensional relative schemes on a device: SCORES, and ATTENTION with the
 * scheme's tables as views. */
#include "cases_relative.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* An operation being filled. Rows of the device's tables are known once the plan has been asked. */
typedef struct filling {
    case_file *c;
    relative_case *t;
    const relative_device *d;
    gpu_operation *op;
    uint32_t rows;
    int64_t shift; /* row x of the device is row x + shift of the reference */
    int result;
} filling;

static float *own_floats(filling *f, uint64_t count)
{
    float *data = case_relative_own(f->c, f->t, calloc((size_t)count, sizeof *data));

    if (data == NULL)
        f->result = -1;
    return data;
}

static void add_doubles(filling *f, rhumb_view_id id, uint64_t b, uint64_t h, uint64_t l,
                        uint64_t d, const double *values)
{
    const uint64_t count = b * h * l * d;
    float *data = values != NULL ? own_floats(f, count) : NULL;
    uint64_t i;

    if (data == NULL)
        return;
    for (i = 0; i < count; i++)
        data[i] = (float)values[i];
    gpu_add_tensor(f->op, id, RHUMB_F32, b, h, l, d, data, NULL);
}

/* Row x of the device from the reference's, zeros where that has none. */
static double entry(const filling *f, const ref_table *table, uint64_t h, uint64_t x, uint64_t d)
{
    const int64_t row = (int64_t)x + f->shift;

    if (row < 0 || row >= (int64_t)f->t->terms.rows)
        return 0.0;
    return table->data[h * table->head_stride + (uint64_t)row * table->row_stride + d];
}

/* [heads or 1, rows, dim] */
static void add_vectors(filling *f, rhumb_view_id id, const ref_table *table)
{
    const uint64_t heads = table->head_stride != 0 ? f->t->heads : 1, dim = f->t->head_dim;
    float *data = table->data != NULL ? own_floats(f, heads * f->rows * dim) : NULL;
    uint64_t i;

    if (data == NULL)
        return;
    for (i = 0; i < heads * f->rows * dim; i++)
        data[i] = (float)entry(f, table, i / dim / f->rows, i / dim % f->rows, i % dim);
    gpu_add_tensor(f->op, id, RHUMB_F32, 1, heads, f->rows, dim, data, NULL);
}

/* [rows, heads] */
static void add_scalars(filling *f, rhumb_view_id id, const ref_table *table)
{
    const uint64_t heads = f->t->heads;
    float *data = table->data != NULL ? own_floats(f, heads * f->rows) : NULL;
    uint64_t i;

    if (data == NULL)
        return;
    for (i = 0; i < heads * f->rows; i++)
        data[i] = (float)entry(f, table, i % heads, i / heads, 0);
    gpu_add_tensor(f->op, id, RHUMB_F32, 1, 1, f->rows, heads, data, NULL);
}

static void add_segments(filling *f)
{
    const relative_case *t = f->t;
    const ref_terms *terms = &t->terms;
    double *table;
    uint64_t i;

    if (terms->g.data == NULL)
        return;
    table = case_relative_own(
        f->c, f->t, malloc((size_t)(2 * (uint64_t)t->heads * t->head_dim) * sizeof *table));
    if (table == NULL) {
        f->result = -1;
        return;
    }
    for (i = 0; i < 2 * (uint64_t)t->heads * t->head_dim; i++)
        table[i] = terms->g.data[i / t->head_dim / 2 * terms->g.head_stride +
                                 i / t->head_dim % 2 * terms->g.row_stride + i % t->head_dim];
    add_doubles(f, RHUMB_VIEW_SEGMENT_TABLE, 1, t->heads, 2, t->head_dim, table);
    add_doubles(f, RHUMB_VIEW_SEGMENT_BIAS, 1, 1, t->heads, t->head_dim, terms->z);
    gpu_add_tensor(f->op, RHUMB_VIEW_SEGMENTS_Q, RHUMB_I32, 1, 1, t->batch, t->q_rows,
                   terms->segments_q, NULL);
    gpu_add_tensor(f->op, RHUMB_VIEW_SEGMENTS_K, RHUMB_I32, 1, 1, t->batch, t->k_rows,
                   terms->segments_k, NULL);
}

static void add_tables(filling *f)
{
    const relative_case *t = f->t;
    const ref_terms *terms = &t->terms;

    add_scalars(f, RHUMB_VIEW_TABLE, &terms->b);
    add_scalars(f, RHUMB_VIEW_TABLE_SCALAR, &terms->r);
    add_vectors(f, RHUMB_VIEW_QUERY_TABLE, &terms->a);
    add_vectors(f, RHUMB_VIEW_KEY_TABLE, &terms->c);
    if (f->op->info.op == RHUMB_OP_ATTENTION)
        add_vectors(f, RHUMB_VIEW_VALUE_TABLE, &terms->v);
    add_doubles(f, RHUMB_VIEW_CONTENT_BIAS, 1, 1, t->heads, t->head_dim, terms->u);
    add_doubles(f, RHUMB_VIEW_POSITION_BIAS, 1, 1, t->heads, t->head_dim, terms->w);
    add_segments(f);
    add_doubles(f, RHUMB_VIEW_ROW_SCALE, 1, t->batch, t->heads, t->q_rows, terms->gate);
    if (t->mask != NULL && f->op->info.op == RHUMB_OP_ATTENTION)
        add_doubles(f, RHUMB_VIEW_MASK, t->mask_shape[0], t->mask_shape[1], t->mask_shape[2],
                    t->mask_shape[3], t->mask);
    if (f->d->positions_k != NULL)
        gpu_add_tensor(f->op, RHUMB_VIEW_POSITIONS_K, RHUMB_I32, 1, 1, t->batch, t->k_rows,
                       f->d->positions_k, NULL);
}

static void set_info(filling *f, bool scores)
{
    const relative_case *t = f->t;
    gpu_operation *op = f->op;

    gpu_init_operation(op, scores ? RHUMB_OP_SCORES : RHUMB_OP_ATTENTION);
    op->info.scheme = f->d->scheme;
    op->info.heads = t->heads;
    op->info.kv_heads = t->kv_heads;
    op->info.head_dim = t->head_dim;
    op->info.max_q_length = t->q_rows;
    op->info.max_k_length = t->k_rows;
    op->info.scale = (float)t->scale;
    op->dispatch.q_offset = t->q_offset;
    op->dispatch.causal = !scores && t->causal;
}

int case_relative_run_device(case_file *c, relative_case *t, const relative_device *d,
                             const relative_arrays *a)
{
    gpu_operation op;
    filling f = {.c = c, .t = t, .d = d, .op = &op, .rows = 1};
    int pass;

    /* The first round asks how many rows the tables have. */
    for (pass = 0; pass < 2; pass++) {
        const uint64_t q = t->q_rows, k = t->k_rows, dim = t->head_dim;
        set_info(&f, a->v == NULL);
        gpu_add_tensor(&op, RHUMB_VIEW_Q, RHUMB_F32, t->batch, t->heads, q, dim, a->q, NULL);
        gpu_add_tensor(&op, RHUMB_VIEW_K, RHUMB_F32, t->batch, t->kv_heads, k, dim, a->k, NULL);
        gpu_add_tensor(&op, RHUMB_VIEW_O, RHUMB_F32, t->batch, t->heads, q, a->v != NULL ? dim : k,
                       NULL, a->out);
        if (a->v != NULL)
            gpu_add_tensor(&op, RHUMB_VIEW_V, RHUMB_F32, t->batch, t->kv_heads, k, dim, a->v, NULL);
        add_tables(&f);
        if (f.result != 0)
            return -1;
        if (pass == 0) {
            if (gpu_query_operation(c->device, &op) != RHUMB_OK)
                return case_fail(c, "device: %s", op.message);
            f.rows = op.properties.table_rows;
            f.shift = d->by_distance ? -(int64_t)op.properties.table_zero - d->first : 0;
        }
    }
    return case_run_device(c, "device", &op);
}

int case_relative_device(case_file *c, relative_case *t, const relative_device *d)
{
    tensor_list store = {0};
    tensor *out = tensor_list_add(&store, "out", TENSOR_F32, 4, t->golden->shape, NULL);
    int result = -1;

    if (out == NULL) {
        case_fail(c, "no memory");
    } else {
        const relative_arrays a = {t->q->data, t->k->data, t->v != NULL ? t->v->data : NULL,
                                   out->data};
        result = case_relative_run_device(c, t, d, &a);
    }
    if (result == 0) {
        float *values = out->data;
        uint64_t i;
        for (i = 0; t->past_only && i < out->count; i++)
            if (case_relative_in_future(t, i))
                values[i] = 0.0f;
        result = case_compare_tensor(c, "device", t->golden, out);
    }
    tensor_list_free(&store);
    return result;
}
