/* Inside the benchmark: what the makers of rows of rhumb's operations share. */
#ifndef RHUMB_BENCH_OPERATIONS_H
#define RHUMB_BENCH_OPERATIONS_H

#include "bench.h"

#define MAX_LISTED 64u /* pairs of LongRoPE */

/* Schemes point into it, so that it stays where it is. */
typedef struct operation {
    rhumb_rope rope;
    union {
        rhumb_xpos xpos;
        rhumb_mrope mrope;
        rhumb_rope2d rope2d;
        rhumb_sinusoidal sinusoidal;
        rhumb_learned learned;
        rhumb_sinusoidal2d sinusoidal2d;
        rhumb_learned2d learned2d;
        rhumb_resize resize;
        rhumb_alibi alibi;
        rhumb_t5 t5;
        rhumb_shaw shaw;
        rhumb_music_transformer music;
        rhumb_transformer_xl xl;
        rhumb_xlnet xlnet;
        rhumb_deberta deberta;
        rhumb_swin swin;
        rhumb_swin_v2 swin_v2;
        rhumb_kerple kerple;
    } scheme;
    double factors[MAX_LISTED];
    void *data[RHUMB_MAX_VIEWS]; /* of op.tensors, until they are on the device */
    bool no_memory;
    gpu_operation op;
    gpu_prepared prepared;
} operation;

/* An operation with the sizes and the scheme of the row; NULL: no host memory. */
operation *bench_begin(gpu *g, rhumb_op op, const bench_shape *s);

/* A contiguous tensor of random numbers, or of positions 0, 1, ... along the last axis where the
 * view is of positions. The tensor is there also without memory for its numbers: bench_finish
 * tells. */
gpu_tensor *bench_add(operation *o, rhumb_view_id id, rhumb_dtype dtype, uint64_t b, uint64_t h,
                      uint64_t l, uint64_t d);

/* The same of int32: 0, step, 2 step ... modulo `modulus`. */
gpu_tensor *bench_add_numbers(operation *o, rhumb_view_id id, uint64_t elements, uint64_t step,
                              uint64_t modulus);

/* One that is written. */
gpu_tensor *bench_add_result(operation *o, rhumb_view_id id, rhumb_dtype dtype, uint64_t b,
                             uint64_t h, uint64_t l, uint64_t d);

/* Prepares, and leaves the operation in the work. `result` is that of the maker so far; on an error
 * everything is released. */
rhumb_result bench_finish(gpu *g, operation *o, rhumb_result result, bench_work *work);

/* WORKSPACE gets as many elements as the plan asks for. */
rhumb_result bench_size_workspace(gpu *g, operation *o, gpu_tensor *workspace);

uint64_t bench_bytes(rhumb_dtype dtype, uint64_t elements);

/* n of n * n. */
uint32_t bench_root(uint32_t square);

/* schemes.c: the scheme into the plan; and the views that a relative one brings to ATTENTION,
 * SCORES or BIAS, after all others. */
void bench_choose_scheme(operation *o, const bench_shape *s);
rhumb_result bench_add_scheme_tensors(gpu *g, operation *o, const bench_shape *s);

#endif /* RHUMB_BENCH_OPERATIONS_H */
