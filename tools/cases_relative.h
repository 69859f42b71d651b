/* What the files of the one-dimensional relative schemes share: PARAMS.md section 4.1. */
#ifndef RHUMB_TOOLS_CASES_RELATIVE_H
#define RHUMB_TOOLS_CASES_RELATIVE_H

#include "cases_internal.h"

#include "relative.h"

/* Rows for param_row tables: of ops scores and attention, and those of them that op bias has. */
#define CASE_RELATIVE_ROWS                                                                         \
    {"batch", PARAM_WHOLE, NULL}, {"heads", PARAM_WHOLE, NULL}, {"kv_heads", PARAM_WHOLE, NULL},   \
        {"head_dim", PARAM_WHOLE, NULL}, {"q_len", PARAM_WHOLE, NULL},                             \
        {"k_len", PARAM_WHOLE, NULL}, {"q_offset", PARAM_WHOLE, NULL},                             \
        {"causal", PARAM_BOOL, NULL},                                                              \
    {                                                                                              \
        "scale", PARAM_NUMBER, NULL                                                                \
    }

#define CASE_BIAS_ROWS                                                                             \
    {"heads", PARAM_WHOLE, NULL}, {"q_len", PARAM_WHOLE, NULL}, {"k_len", PARAM_WHOLE, NULL},      \
    {                                                                                              \
        "q_offset", PARAM_WHOLE, NULL                                                              \
    }

#define CASE_MAX_OWNED 128

/* What every case says; the scheme's own parameters stand beside it in the file of the scheme,
 * which sets `terms`, `causal` where the scheme implies it, and `mask`. */
typedef struct relative_case {
    uint32_t batch;
    uint32_t heads;
    uint32_t kv_heads;
    uint32_t head_dim;
    uint32_t q_rows;
    uint32_t k_rows;
    int32_t q_offset;
    bool causal;
    double scale;
    const tensor *q; /* ops scores and attention */
    const tensor *k;
    const tensor *v; /* op attention */
    const tensor *golden;
    bool past_only;     /* op scores: the golden tensor is defined for j <= a + q_offset only */
    const double *mask; /* additive, or NULL; see ref_attention */
    uint32_t mask_shape[4];
    ref_terms terms;
    void *owned[CASE_MAX_OWNED]; /* of case_relative_own */
    size_t owned_count;
} relative_case;

/* Op scores or attention, params of the rows, and the tensors of the op beside those of the scheme
 * (16 at most): 0, or -1 after case_fail. */
int case_check_relative(case_file *c, const param_row *rows, size_t row_count,
                        const tensor_row *tensors, size_t tensor_count);

/* Ops scores and attention. `scale` NaN: the parameter is required. 0, or -1 after case_fail;
 * case_free_relative in any case. */
int case_read_relative(case_file *c, double scale, relative_case *t);

/* Op bias: heads, q_rows, k_rows, q_offset, golden out.bias. */
int case_read_bias(case_file *c, relative_case *t);

void case_free_relative(relative_case *t);

/* Takes what malloc gave, for case_free_relative. NULL, after case_fail, when `data` is. */
void *case_relative_own(case_file *c, relative_case *t, void *data);

/* A float tensor of the case that must have the shape, as doubles; its bytes belong to the case.
 * NULL after case_fail. */
const double *case_relative_doubles(case_file *c, relative_case *t, const char *name, uint32_t rank,
                                    const uint64_t *shape);

/* An int32 tensor likewise, of two dimensions, in the file's own memory. */
const int32_t *case_relative_ints(case_file *c, const char *name, uint64_t rows, uint64_t columns);

/* in.mask, if there is one, as the case's mask: [batch, k_rows], or [batch, q_rows, k_rows] with
 * by_row. An element of `hidden` hides the key, the other of 0 and 1 does not. */
int case_read_mask(case_file *c, relative_case *t, bool by_row, int32_t hidden);

/* in.rel_k, and in.rel_v exactly with value_term: [rows, head_dim], or [heads, rows, head_dim]. */
int case_read_row_tables(case_file *c, relative_case *t, uint32_t rows, bool per_head,
                         const double **keys, const double **values);

/* 0 if the parameter is absent or equal. */
int case_expect_number(case_file *c, const char *key, double wanted);

/* Runs and compares. */
int case_relative_reference(case_file *c, const relative_case *t);
int case_bias_reference(case_file *c, const relative_case *t);

/* What the device is told beside. */
typedef struct relative_device {
    const void *scheme;         /* a relative scheme struct */
    bool by_distance;           /* row x of the device's tables is distance x - table_zero, and row
                                   0 of the reference's is distance `first` */
    int32_t first;
    const int32_t *positions_k; /* POSITIONS_K [batch, k_rows], or NULL */
} relative_device;

/* Op attention if v is there, else scores. */
typedef struct relative_arrays {
    const float *q;
    const float *k;
    const float *v;
    float *out;
} relative_arrays;

int case_relative_run_device(case_file *c, relative_case *t, const relative_device *d,
                             const relative_arrays *a);

/* With the case's tensors, and compares. */
int case_relative_device(case_file *c, relative_case *t, const relative_device *d);

/* Whether element i of scores [batch, heads, q_rows, k_rows] is of a key after its query. */
bool case_relative_in_future(const relative_case *t, uint64_t i);

/* Op bias likewise: TABLE from t->terms.b. */
int case_bias_device(case_file *c, relative_case *t, const relative_device *d);

/* Op buckets on the device, of a scheme with a TABLE, or with vectors. */
typedef struct case_buckets {
    const void *scheme;
    uint32_t rows;
    bool vectors;
    int32_t direction; /* in.relative_position: 1 key minus query, -1 query minus key */
    int32_t shift;     /* row - shift is the bucket */
} case_buckets;

/* in.relative_position through rhumb_relative_rows and through the device against out.buckets. */
int case_buckets_device(case_file *c, const case_buckets *buckets);

/* Op buckets. */
extern const tensor_row case_buckets_tensors[];
extern const size_t case_buckets_tensor_count;

/* in.relative_position [n] through `bucket` against out.buckets [n]. */
typedef int64_t (*case_bucket_fn)(const void *user, int64_t position);
int case_buckets_reference(case_file *c, case_bucket_fn bucket, const void *user);

#endif
