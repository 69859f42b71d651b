/* Golden cases of ops bias and buckets on a device. A bucket is the row of a table that holds its
 * own row numbers. */
#include "cases_relative.h"

#include <stdlib.h>
#include <string.h>

int case_bias_device(case_file *c, relative_case *t, const relative_device *d)
{
    const ref_table *table = &t->terms.b;
    const uint64_t heads = t->heads, rows = table->data != NULL ? t->terms.rows : 0;
    float *values = case_relative_own(c, t, calloc(rows * heads + 1, sizeof *values));
    tensor_list store = {0};
    tensor *out = tensor_list_add(&store, "out", TENSOR_F32, 3, t->golden->shape, NULL);
    gpu_operation op;
    uint64_t i;
    int result = -1;

    if (out == NULL || values == NULL) {
        tensor_list_free(&store);
        return case_fail(c, "no memory");
    }
    for (i = 0; i < rows * heads; i++)
        values[i] =
            (float)table->data[i % heads * table->head_stride + i / heads * table->row_stride];
    gpu_init_operation(&op, RHUMB_OP_BIAS);
    op.info.scheme = d->scheme;
    op.info.heads = t->heads;
    op.info.head_dim = 1;
    op.info.max_q_length = t->q_rows;
    op.info.max_k_length = t->k_rows;
    op.dispatch.q_offset = t->q_offset;
    gpu_add_tensor(&op, RHUMB_VIEW_O, RHUMB_F32, 1, heads, t->q_rows, t->k_rows, NULL, out->data);
    if (rows != 0)
        gpu_add_tensor(&op, RHUMB_VIEW_TABLE, RHUMB_F32, 1, 1, rows, heads, values, NULL);
    if (d->positions_k != NULL)
        gpu_add_tensor(&op, RHUMB_VIEW_POSITIONS_K, RHUMB_I32, 1, 1, 1, t->k_rows, d->positions_k,
                       NULL);
    if (case_run_device(c, "bias", &op) == 0)
        result = case_compare_tensor(c, "device", t->golden, out);
    tensor_list_free(&store);
    return result;
}

/* ------------------------------------------------------------------------------------------------
 * Buckets of distances
 */
typedef struct bucket_run {
    const case_buckets *b;
    uint32_t count;
    int32_t *delta; /* pos_k - pos_q of each key; the query is at 0 */
    int32_t *rows;
    float *numbers; /* of the table */
    float *keys;    /* zeros */
    float *out;
} bucket_run;

/* Bucket of a row. The two rows at the ends of a table also stand for all buckets beyond. */
static double bucket_of(const case_buckets *b, double row, double golden)
{
    const double bucket = row - b->shift;

    if ((row == 0 && golden < bucket) || (row == b->rows - 1.0 && golden > bucket))
        return golden;
    return bucket;
}

static int compare_rows(case_file *c, const bucket_run *run, const tensor *golden, const char *who,
                        bool host)
{
    double *buckets = malloc(run->count * sizeof *buckets);
    uint32_t i;
    int result;

    if (buckets == NULL)
        return case_fail(c, "no memory");
    for (i = 0; i < run->count; i++)
        buckets[i] =
            bucket_of(run->b, host ? run->rows[i] : (double)run->out[i], tensor_get(golden, i));
    result = case_compare(c, who, golden, buckets, &c->result->device_error);
    free(buckets);
    return result;
}

static int run_buckets(case_file *c, const bucket_run *run)
{
    static const int32_t origin = 0;
    static const float one = 1.0f;
    const case_buckets *b = run->b;
    gpu_operation op;

    gpu_init_operation(&op, b->vectors ? RHUMB_OP_SCORES : RHUMB_OP_BIAS);
    op.info.scheme = b->scheme;
    op.info.heads = 1;
    op.info.head_dim = 1;
    op.info.max_q_length = 1;
    op.info.max_k_length = run->count;
    op.info.scale = 1.0f;
    if (b->vectors) {
        gpu_add_tensor(&op, RHUMB_VIEW_Q, RHUMB_F32, 1, 1, 1, 1, &one, NULL);
        gpu_add_tensor(&op, RHUMB_VIEW_K, RHUMB_F32, 1, 1, run->count, 1, run->keys, NULL);
    }
    gpu_add_tensor(&op, RHUMB_VIEW_O, RHUMB_F32, 1, 1, 1, run->count, NULL, run->out);
    gpu_add_tensor(&op, b->vectors ? RHUMB_VIEW_QUERY_TABLE : RHUMB_VIEW_TABLE, RHUMB_F32, 1, 1,
                   b->rows, 1, run->numbers, NULL);
    gpu_add_tensor(&op, RHUMB_VIEW_POSITIONS_Q, RHUMB_I32, 1, 1, 1, 1, &origin, NULL);
    gpu_add_tensor(&op, RHUMB_VIEW_POSITIONS_K, RHUMB_I32, 1, 1, 1, run->count, run->delta, NULL);
    return case_run_device(c, "buckets", &op);
}

int case_buckets_device(case_file *c, const case_buckets *b)
{
    const tensor *positions = case_tensor(c, "in.relative_position", 1);
    const tensor *golden = case_tensor(c, "out.buckets", 1);
    bucket_run run = {.b = b};
    uint32_t i;
    int result = -1;

    if (positions == NULL || golden == NULL)
        return -1;
    run.count = (uint32_t)positions->count;
    run.delta = malloc(run.count * sizeof *run.delta);
    run.rows = malloc(run.count * sizeof *run.rows);
    run.out = calloc(run.count, sizeof *run.out);
    run.keys = calloc(run.count, sizeof *run.keys);
    run.numbers = malloc(b->rows * sizeof *run.numbers);
    if (run.delta == NULL || run.rows == NULL || run.out == NULL || run.keys == NULL ||
        run.numbers == NULL) {
        case_fail(c, "no memory");
    } else {
        for (i = 0; i < run.count; i++)
            run.delta[i] = b->direction * (int32_t)tensor_get(positions, i);
        for (i = 0; i < b->rows; i++)
            run.numbers[i] = (float)i;
        if (rhumb_relative_rows(b->scheme, 1, 1, run.delta, run.count, run.rows) != RHUMB_OK)
            case_fail(c, "host: %.200s", rhumb_last_message(NULL));
        else if (compare_rows(c, &run, golden, "host", true) == 0 && run_buckets(c, &run) == 0)
            result = compare_rows(c, &run, golden, "device", false);
    }
    free(run.delta);
    free(run.rows);
    free(run.out);
    free(run.keys);
    free(run.numbers);
    return result;
}
