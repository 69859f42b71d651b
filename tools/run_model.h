/* The parts of `rhumb run`: tensors from and to files, and the operations on them. */
#ifndef RHUMB_TOOLS_RUN_MODEL_H
#define RHUMB_TOOLS_RUN_MODEL_H

#include "gpu.h"
#include "tensors.h"
#include "verify.h"

/* Q, K, V or a result, contiguous [b, h, l, d]. */
typedef struct run_tensor {
    bool present;
    rhumb_dtype dtype;
    uint32_t rank; /* in the file: 3 or 4 */
    uint64_t shape[4];
    uint64_t count;
    void *data; /* whole 4-byte words */
} run_tensor;

typedef struct run_tensors {
    run_tensor q, k, v;
    run_tensor q_out, k_out, o;
    bool dotted; /* the input's names were in.q, in.k, in.v; the output's are out.q, out.k, out.o */
} run_tensors;

void run_tensors_free(run_tensors *tensors);

/* What is asked for. */
typedef struct run_request {
    rhumb_op op;
    const rhumb_layer_kind *kind;
    bool causal;
    bool offset_given;
    int32_t offset;
    bool dtype_given;
    rhumb_dtype dtype;
    bool check;
    uint64_t max_bytes; /* of one tensor: what the device binds at once */
} run_request;

/* What one operation did. */
typedef struct run_step {
    bool ran;
    rhumb_plan_properties properties;
    double ns;
    bool host_clock;
    double flops; /* of the visible (query, key) pairs */
    double bytes;
    bool checked;
    verify_result check;
} run_step;

typedef struct run_steps {
    run_step rotate;    /* ROTATE: Q and K; ATTENTION: K */
    run_step attention;
} run_steps;

/* Functions return RHUMB_OK, or an error with one line in `message`. */

/* What can be said of the arguments alone: kinds of files, and no file both read and written. */
bool run_check_names(const char *input, const char *output, tensor_error *message);

/* Whether the device can bind a tensor of these rows, before it is made. */
bool run_check_size(const char *name, uint64_t batch, uint64_t heads, uint64_t rows,
                    uint64_t head_dim, rhumb_dtype dtype, const run_request *request,
                    tensor_error *message);

/* A safetensors file with q, k, v (or in.q, ...), or "q.npy,k.npy,v.npy". Attention needs all
 * three, rotate q alone. */
bool run_read(const char *input, const run_request *request, run_tensors *tensors,
              tensor_error *message);

/* Normal numbers: one batch entry of `length` rows with the layer's heads. */
bool run_draw(uint32_t length, uint64_t seed, const run_request *request, run_tensors *tensors,
              tensor_error *message);

/* Whether `output` can hold the results, before anything is computed. */
bool run_check_output(const char *output, const run_request *request, const run_tensors *tensors,
                      tensor_error *message);
bool run_write(const char *output, const run_tensors *tensors, tensor_error *message);

/* Zeros of the shape. */
bool run_tensor_make(run_tensor *t, rhumb_dtype dtype, uint32_t rank, const uint64_t shape[4],
                     tensor_error *message);

/* Rotates and attends on the device, and compares if asked to. */
bool run_compute(gpu *g, const run_request *request, run_tensors *tensors, run_steps *steps,
                 tensor_error *message);

#endif /* RHUMB_TOOLS_RUN_MODEL_H */
