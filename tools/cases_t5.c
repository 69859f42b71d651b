/* Golden cases of scheme t5 (PARAMS.md section 4.4). */
#include "cases_relative.h"

#include <string.h>

#define COUNT(array) (sizeof(array) / sizeof *(array))

#define BUCKET_ROWS                                                                                \
    {"bidirectional", PARAM_BOOL, NULL}, {"num_buckets", PARAM_WHOLE, NULL},                       \
    {                                                                                              \
        "max_distance", PARAM_WHOLE, NULL                                                          \
    }

static const param_row buckets_rows[] = {
    BUCKET_ROWS,
    {"relative_position", PARAM_TEXT, "j-i (key minus query)\n"},
};

static const param_row bias_rows[] = {
    CASE_BIAS_ROWS,
    BUCKET_ROWS,
    {"bias_scale", PARAM_NUMBER, NULL},
};

static const param_row attention_rows[] = {
    CASE_RELATIVE_ROWS,
    BUCKET_ROWS,
    {"bias_scale", PARAM_NUMBER, NULL},
};

static const tensor_row bias_tensors[] = {
    {"in.table", TENSOR_F32, true},
    {"out.bias", TENSOR_F32, true},
};

static const tensor_row table_tensors[] = {
    {"in.table", TENSOR_F32, true},
};

typedef struct t5_case {
    relative_case base;
    ref_t5 t5;
} t5_case;

static int read_buckets(case_file *c, ref_t5 *t5)
{
    if (case_param(c->params, "bidirectional") == NULL)
        return case_fail(c, "params: wanted bidirectional, got none");
    t5->bidirectional = case_bool(c->params, "bidirectional", false);
    t5->scale = case_number(c->params, "bias_scale", 1.0);
    if (case_size(c, "num_buckets", 32.0, 2.0, &t5->buckets) != 0)
        return -1;
    return case_size(c, "max_distance", 128.0, 1.0, &t5->most);
}

static int64_t bucket(const void *user, int64_t position)
{
    return ref_t5_bucket(user, position);
}

static int read_case(case_file *c, t5_case *t)
{
    const bool bias = strcmp(c->result->op, "bias") == 0;
    uint64_t shape[2];

    if (bias) {
        if (case_check_params(c, c->params, bias_rows, COUNT(bias_rows)) != 0 ||
            case_check_tensors(c, bias_tensors, COUNT(bias_tensors)) != 0 ||
            case_read_bias(c, &t->base) != 0)
            return -1;
    } else if (case_check_relative(c, attention_rows, COUNT(attention_rows), table_tensors,
                                   COUNT(table_tensors)) != 0 ||
               case_read_relative(c, 1.0, &t->base) != 0) {
        return -1;
    }
    if (read_buckets(c, &t->t5) != 0)
        return -1;
    shape[0] = t->t5.buckets;
    shape[1] = t->base.heads;
    t->t5.table = case_relative_doubles(c, &t->base, "in.table", 2, shape);
    return t->t5.table != NULL ? 0 : -1;
}

static int run_reference(case_file *c, t5_case *t)
{
    if (ref_t5_terms(&t->t5, t->base.heads, &t->base.terms) != 0)
        return case_fail(c, "reference: parameters outside their domain");
    return t->base.q != NULL ? case_relative_reference(c, &t->base)
                             : case_bias_reference(c, &t->base);
}

static int run_buckets(case_file *c, t5_case *t)
{
    if (case_check_params(c, c->params, buckets_rows, COUNT(buckets_rows)) != 0 ||
        case_check_tensors(c, case_buckets_tensors, case_buckets_tensor_count) != 0 ||
        read_buckets(c, &t->t5) != 0)
        return -1;
    return case_buckets_reference(c, bucket, &t->t5);
}

static int run_device(case_file *c, t5_case *t)
{
    rhumb_t5 t5;
    const relative_device device = {.scheme = &t5};

    rhumb_init_t5(&t5);
    t5.num_buckets = t->t5.buckets;
    t5.max_distance = t->t5.most;
    t5.bidirectional = t->t5.bidirectional != 0;
    t5.bias_scale = t->t5.scale;
    if (strcmp(c->result->op, "buckets") == 0) {
        case_buckets buckets = {.scheme = &t5, .direction = 1};
        /* The last of an odd number of buckets belongs to neither side. */
        if (t5.bidirectional)
            t5.num_buckets -= t5.num_buckets % 2;
        buckets.rows = t5.num_buckets;
        return case_buckets_device(c, &buckets);
    }
    return t->base.q != NULL ? case_relative_device(c, &t->base, &device)
                             : case_bias_device(c, &t->base, &device);
}

int case_run_t5(case_file *c)
{
    t5_case t;
    int result;

    memset(&t, 0, sizeof t);
    if (strcmp(c->result->op, "buckets") == 0) {
        result = run_buckets(c, &t);
    } else {
        result = read_case(c, &t);
        if (result == 0)
            result = run_reference(c, &t);
    }
    if (result == 0 && c->device != NULL)
        result = run_device(c, &t);
    case_free_relative(&t.base);
    return result;
}
