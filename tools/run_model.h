/* The parts of `rhumb run`: tensors from and to files, and the operations on them. */
#ifndef RHUMB_TOOLS_RUN_MODEL_H
#define RHUMB_TOOLS_RUN_MODEL_H

#include "run_plan.h"
#include "tensors.h"
#include "verify.h"

/* An operand or a result. */
typedef struct run_tensor {
    bool present;
    char name[32]; /* in a file, without "in." or "out." */
    rhumb_dtype dtype;
    uint32_t rank; /* in the file */
    uint64_t file_shape[4];
    uint64_t shape[4]; /* [B, H, L, D], as the view has it */
    int64_t stride[4];
    uint64_t count;
    void *data; /* whole 4-byte words */
} run_tensor;

typedef struct run_tensors {
    run_tensor view[RHUMB_VIEW_COUNT];
    bool dotted; /* the input's names were in.q, in.k, ...; the output's are out.q, out.k, out.o */
    char unused[256]; /* tensors of the file that the operation has no use for: "a, b" */
} run_tensors;

void run_tensors_free(run_tensors *tensors);

/* What is asked for. */
typedef struct run_request {
    rhumb_op op;
    run_settings settings;
    const rhumb_layer_kind *kind; /* of a model; NULL: of parameters alone */
    bool dtype_given;
    rhumb_dtype dtype;
    bool check;
    uint64_t max_bytes; /* of one tensor: what the device binds at once */
} run_request;

/* The rotary struct, or NULL. */
const void *run_rotary(const run_request *request);
/* Rows of positions that a token has: 1 but for mrope and rope2d. */
uint32_t run_axes(const run_request *request);

/* What one operation did. */
typedef struct run_step {
    bool ran;
    rhumb_plan_properties properties;
    double ns;
    bool host_clock;
    double flops; /* attention: of the visible (query, key) pairs */
    double bytes;
    bool outside; /* a position, length or slot of a tensor lay outside a table, cache or maximum */
    bool checked;
    verify_result check;
} run_step;

typedef struct run_steps {
    run_step keys; /* rotation of K before ATTENTION and SCORES */
    run_step main;
} run_steps;

/* Functions return true, or false with one line in `message`. */

/* run_files.c */

/* What can be said of the arguments alone: kinds of files, and no file both read and written. */
bool run_check_names(const char *input, const char *output, tensor_error *message);

/* Whether the device can bind a tensor of these rows, before it is made. */
bool run_check_size(const char *name, uint64_t batch, uint64_t heads, uint64_t rows,
                    uint64_t head_dim, rhumb_dtype dtype, const run_request *request,
                    tensor_error *message);

/* A safetensors file with q, k, v (or in.q, ...), .npy files, "q.npy,k.npy,v.npy" or "table=t.npy,...",
 * or these after that. Of a model: attention needs q, k and v, rotate q alone. Else by run_views.c. */
bool run_read(const char *input, const run_request *request, run_tensors *tensors,
              tensor_error *message);

/* Normal numbers: one batch entry of `length` rows with the layer's heads. */
bool run_draw(uint32_t length, uint64_t seed, const run_request *request, run_tensors *tensors,
              tensor_error *message);

/* Whether `output` can hold the results, before anything is computed. */
bool run_check_output(const char *output, const run_request *request, const run_tensors *tensors,
                      tensor_error *message);
bool run_write(const char *output, const run_request *request, const run_tensors *tensors,
               tensor_error *message);

/* Zeros of the shape, contiguous. file_shape is its last `rank` dimensions. */
bool run_tensor_make(run_tensor *t, rhumb_dtype dtype, uint32_t rank, const uint64_t shape[4],
                     tensor_error *message);

/* Elements of a tensor of a file, converted; neither shape. */
bool run_tensor_convert(const tensor *from, run_tensor *to, tensor_error *message);

/* run_views.c: the tensors of a list as views of the operation, by their names. */
bool run_take_views(const tensor_list *list, const run_request *request, run_tensors *tensors,
                    tensor_error *message);

/* run_sizes.c: sizes of the plan from the tensors, positions of several axes where there are none,
 * and the results' tensors. */
bool run_complete(run_request *request, run_tensors *tensors, tensor_error *message);
/* The views that the operation writes, as a mask. */
uint32_t run_results(const run_request *request, const run_tensors *tensors);
/* Position of the first row of Q where no view has it. */
int32_t run_first_position(const run_request *request);

/* run_compute.c: on the device, and compared if asked to. */
bool run_compute(gpu *g, const run_request *request, run_tensors *tensors, run_steps *steps,
                 tensor_error *message);

/* run_check.c: the device's results against the double-precision reference. */
bool run_can_check(const run_request *request, const run_tensors *tensors, tensor_error *message);
bool run_check_rotation(const run_request *request, const run_tensors *tensors, uint32_t length,
                        run_step *step, tensor_error *message);
/* K of ATTENTION, and K_OUT from it. */
bool run_check_keys(const run_request *request, const run_tensors *tensors, uint32_t length,
                    run_step *step, tensor_error *message);
bool run_check_attention(const run_request *request, const run_tensors *tensors, uint32_t length,
                         run_step *step, tensor_error *message);

/* run_print.c: to stdout. -1: no host memory. */
void run_print_text(const gpu *g, const run_request *request, const run_tensors *tensors,
                    const run_steps *steps, const char *output);
int run_print_json(const gpu *g, const run_request *request, const run_tensors *tensors,
                   const run_steps *steps, const char *output);

#endif /* RHUMB_TOOLS_RUN_MODEL_H */
