/* Golden cases of the one-dimensional relative schemes: what they share (PARAMS.md section 4.1). */
#include "cases_relative.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ------------------------------------------------------------------------------------------------
 * Reading
 */
#define COUNT(array) (sizeof(array) / sizeof *(array))

static const tensor_row scores_tensors[] = {
    {"in.q", TENSOR_F32, true},
    {"in.k", TENSOR_F32, true},
    {"out.scores", TENSOR_F32, true},
};

static const tensor_row attention_tensors[] = {
    {"in.q", TENSOR_F32, true},
    {"in.k", TENSOR_F32, true},
    {"in.v", TENSOR_F32, true},
    {"out.o", TENSOR_F32, true},
};

const tensor_row case_buckets_tensors[] = {
    {"in.relative_position", TENSOR_I32, true},
    {"out.buckets", TENSOR_I32, true},
};

const size_t case_buckets_tensor_count = COUNT(case_buckets_tensors);

int case_check_relative(case_file *c, const param_row *rows, size_t row_count,
                        const tensor_row *tensors, size_t tensor_count)
{
    const bool scores = strcmp(c->result->op, "scores") == 0;
    const tensor_row *common = scores ? scores_tensors : attention_tensors;
    const size_t common_count = scores ? COUNT(scores_tensors) : COUNT(attention_tensors);
    tensor_row all[20];

    if (!scores && strcmp(c->result->op, "attention") != 0)
        return case_fail(c, "scheme %s: wanted op scores or attention, got %s", c->result->scheme,
                         c->result->op);
    if (case_check_params(c, c->params, rows, row_count) != 0)
        return -1;
    memcpy(all, common, common_count * sizeof *all);
    memcpy(all + common_count, tensors, tensor_count * sizeof *all);
    return case_check_tensors(c, all, common_count + tensor_count);
}

static int read_offset(case_file *c, relative_case *t)
{
    const double offset = case_number(c->params, "q_offset", 0.0);

    if (!(fabs(offset) <= 1048576.0))
        return case_fail(c, "params.q_offset: wanted -1048576 to 1048576, got %g", offset);
    t->q_offset = (int32_t)offset;
    return 0;
}

/* The sizes as given, or those of in.q and in.k; the tensors must have them. */
static int read_sizes(case_file *c, relative_case *t)
{
    if (case_size(c, "batch", (double)t->q->shape[0], 1.0, &t->batch) != 0 ||
        case_size(c, "heads", (double)t->q->shape[1], 1.0, &t->heads) != 0 ||
        case_size(c, "kv_heads", t->heads, 1.0, &t->kv_heads) != 0 ||
        case_size(c, "head_dim", (double)t->q->shape[3], 1.0, &t->head_dim) != 0 ||
        case_size(c, "q_len", (double)t->q->shape[2], 1.0, &t->q_rows) != 0 ||
        case_size(c, "k_len", (double)t->k->shape[2], 1.0, &t->k_rows) != 0)
        return -1;
    if (t->heads % t->kv_heads != 0)
        return case_fail(c, "params: wanted kv_heads to divide heads, got %u and %u", t->kv_heads,
                         t->heads);
    {
        const uint64_t q_shape[4] = {t->batch, t->heads, t->q_rows, t->head_dim};
        const uint64_t k_shape[4] = {t->batch, t->kv_heads, t->k_rows, t->head_dim};
        const uint64_t s_shape[4] = {t->batch, t->heads, t->q_rows, t->k_rows};
        if (case_check_shape(c, t->q, 4, q_shape) != 0 ||
            case_check_shape(c, t->k, 4, k_shape) != 0 ||
            (t->v != NULL && case_check_shape(c, t->v, 4, k_shape) != 0))
            return -1;
        return case_check_shape(c, t->golden, 4, t->v != NULL ? q_shape : s_shape);
    }
}

int case_read_relative(case_file *c, double scale, relative_case *t)
{
    const bool attention = strcmp(c->result->op, "attention") == 0;

    memset(t, 0, sizeof *t);
    t->q = case_tensor(c, "in.q", 4);
    t->k = t->q != NULL ? case_tensor(c, "in.k", 4) : NULL;
    t->golden = t->k != NULL ? case_tensor(c, attention ? "out.o" : "out.scores", 4) : NULL;
    if (t->golden == NULL)
        return -1;
    t->v = attention ? case_tensor(c, "in.v", 4) : NULL;
    if (attention && t->v == NULL)
        return -1;
    if (read_sizes(c, t) != 0 || read_offset(c, t) != 0)
        return -1;
    t->causal = case_bool(c->params, "causal", false);
    t->scale = case_number(c->params, "scale", scale);
    if (isnan(t->scale))
        return case_fail(c, "params: wanted scale, got none");
    return 0;
}

int case_read_bias(case_file *c, relative_case *t)
{
    memset(t, 0, sizeof *t);
    t->golden = case_tensor(c, "out.bias", 3);
    if (t->golden == NULL ||
        case_size(c, "heads", (double)t->golden->shape[0], 1.0, &t->heads) != 0 ||
        case_size(c, "q_len", (double)t->golden->shape[1], 1.0, &t->q_rows) != 0 ||
        case_size(c, "k_len", (double)t->golden->shape[2], 1.0, &t->k_rows) != 0 ||
        read_offset(c, t) != 0)
        return -1;
    t->batch = 1;
    {
        const uint64_t shape[3] = {t->heads, t->q_rows, t->k_rows};
        return case_check_shape(c, t->golden, 3, shape);
    }
}

void *case_relative_own(case_file *c, relative_case *t, void *data)
{
    if (data == NULL || t->owned_count == CASE_MAX_OWNED) {
        free(data);
        case_fail(c, "no memory");
        return NULL;
    }
    t->owned[t->owned_count++] = data;
    return data;
}

void case_free_relative(relative_case *t)
{
    while (t->owned_count > 0)
        free(t->owned[--t->owned_count]);
}

const double *case_relative_doubles(case_file *c, relative_case *t, const char *name, uint32_t rank,
                                    const uint64_t *shape)
{
    const tensor *found = case_tensor(c, name, rank);

    if (found == NULL || case_check_shape(c, found, rank, shape) != 0)
        return NULL;
    return case_relative_own(c, t, tensor_doubles(found));
}

const int32_t *case_relative_ints(case_file *c, const char *name, uint64_t rows, uint64_t columns)
{
    const uint64_t shape[2] = {rows, columns};
    const tensor *found = case_tensor(c, name, 2);

    if (found == NULL || case_check_shape(c, found, 2, shape) != 0)
        return NULL;
    return found->data;
}

int case_read_mask(case_file *c, relative_case *t, bool by_row, int32_t hidden)
{
    const uint64_t by_key[2] = {t->batch, t->k_rows};
    const uint64_t by_pair[3] = {t->batch, t->q_rows, t->k_rows};
    const tensor *mask = tensor_list_find(&c->tensors, "in.mask");
    double *values;
    uint64_t i;

    if (mask == NULL)
        return 0;
    if (case_check_shape(c, mask, by_row ? 3 : 2, by_row ? by_pair : by_key) != 0)
        return -1;
    values = case_relative_own(c, t, tensor_doubles(mask));
    if (values == NULL)
        return -1;
    for (i = 0; i < mask->count; i++) {
        if (values[i] != 0.0 && values[i] != 1.0)
            return case_fail(c, "in.mask: wanted 0 or 1, got %g", values[i]);
        values[i] = values[i] == (double)hidden ? -(double)INFINITY : 0.0;
    }
    t->mask = values;
    t->mask_shape[0] = t->batch;
    t->mask_shape[1] = 1;
    t->mask_shape[2] = by_row ? t->q_rows : 1;
    t->mask_shape[3] = t->k_rows;
    return 0;
}

int case_read_row_tables(case_file *c, relative_case *t, uint32_t rows, bool per_head,
                         const double **keys, const double **values)
{
    const uint64_t shape[3] = {t->heads, rows, t->head_dim};
    const uint32_t rank = per_head ? 3 : 2;
    const bool wanted = case_bool(c->params, "value_term", false);

    if (wanted != (tensor_list_find(&c->tensors, "in.rel_v") != NULL))
        return case_fail(c, "wanted in.rel_v exactly with value_term");
    *keys = case_relative_doubles(c, t, "in.rel_k", rank, shape + (3 - rank));
    if (*keys == NULL)
        return -1;
    if (wanted)
        *values = case_relative_doubles(c, t, "in.rel_v", rank, shape + (3 - rank));
    return wanted && *values == NULL ? -1 : 0;
}

int case_expect_number(case_file *c, const char *key, double wanted)
{
    const double got = case_number(c->params, key, wanted);

    if (got != wanted)
        return case_fail(c, "params.%s: wanted %g as the other keys say, got %g", key, wanted, got);
    return 0;
}

/* ------------------------------------------------------------------------------------------------
 * Reference
 */

bool case_relative_in_future(const relative_case *t, uint64_t i)
{
    return (int64_t)(i % t->k_rows) > (int64_t)(i / t->k_rows % t->q_rows) + t->q_offset;
}

/* Where the golden tensor is not defined it holds 0. */
static void clear_future(const relative_case *t, double *scores)
{
    uint64_t i;

    for (i = 0; i < t->golden->count; i++)
        if (case_relative_in_future(t, i))
            scores[i] = 0.0;
}

static int attend(const relative_case *t, const double *q, const double *k, const double *v,
                  double *out)
{
    ref_attention a;

    ref_attention_init(&a, t->batch, t->heads, t->q_rows, t->k_rows, t->head_dim);
    a.kv_heads = t->kv_heads;
    a.scale = t->scale;
    a.causal = t->causal;
    a.q_offset = t->q_offset;
    a.mask = t->mask;
    memcpy(a.mask_shape, t->mask_shape, sizeof a.mask_shape);
    a.terms = &t->terms;
    a.q = q;
    a.k = k;
    a.v = v;
    if (v != NULL)
        a.o = out;
    else
        a.scores = out;
    return ref_attend(&a);
}

int case_relative_reference(case_file *c, const relative_case *t)
{
    double *q = tensor_doubles(t->q), *k = tensor_doubles(t->k);
    double *v = t->v != NULL ? tensor_doubles(t->v) : NULL, *out = tensor_doubles(t->golden);
    int result = -1;

    if (q == NULL || k == NULL || (v == NULL && t->v != NULL) || out == NULL ||
        attend(t, q, k, v, out) != 0) {
        case_fail(c, "reference: no memory, or parameters outside their domain");
    } else {
        if (t->past_only)
            clear_future(t, out);
        result = case_compare(c, "reference", t->golden, out, &c->result->reference_error);
    }
    free(q);
    free(k);
    free(v);
    free(out);
    return result;
}

int case_bias_reference(case_file *c, const relative_case *t)
{
    double *bias = tensor_doubles(t->golden);
    int result = -1;

    if (bias == NULL || ref_bias(&t->terms, t->heads, t->q_rows, t->k_rows, t->q_offset, bias) != 0)
        case_fail(c, "reference: no memory, or parameters outside their domain");
    else
        result = case_compare(c, "reference", t->golden, bias, &c->result->reference_error);
    free(bias);
    return result;
}

int case_buckets_reference(case_file *c, case_bucket_fn bucket, const void *user)
{
    const tensor *positions = case_tensor(c, "in.relative_position", 1);
    const tensor *golden = positions != NULL ? case_tensor(c, "out.buckets", 1) : NULL;
    double *buckets;
    uint64_t i;
    int result = 0;

    if (golden == NULL || case_check_shape(c, golden, 1, positions->shape) != 0)
        return -1;
    buckets = tensor_doubles(positions);
    if (buckets == NULL)
        return case_fail(c, "no memory");
    for (i = 0; result == 0 && i < positions->count; i++) {
        const int64_t found = bucket(user, (int64_t)buckets[i]);
        if (found == REF_ROW_INVALID)
            result = case_fail(c, "reference: parameters outside their domain");
        buckets[i] = (double)found;
    }
    if (result == 0)
        result = case_compare(c, "reference", golden, buckets, &c->result->reference_error);
    free(buckets);
    return result;
}
