/* What is around the logits of attention and the same for every scheme, for shape tables: softcap,
 * sinks, chunks, kept keys, the factor of Q's rows, an additive mask and LSE. */
#ifndef RHUMB_TESTS_SHAPES_AROUND_H
#define RHUMB_TESTS_SHAPES_AROUND_H

#include "harness.h"

#include "reference/reference.h"

typedef struct shape_around {
    float softcap;      /* 0: none */
    bool bias_after;    /* bias_after_softcap */
    bool sinks;         /* SINKS, random */
    bool lse;           /* LSE is written and compared */
    bool row_scale;     /* ROW_SCALE as the factor of Q's rows: for plans without a scheme */
    int32_t chunk;      /* 0: none */
    int32_t kept_keys;
    uint32_t mask;      /* MASK: SHAPE_MASKED, plus bit i: dimension i is its own size, else 1 */
    rhumb_dtype dtype_mask;
    rhumb_dtype dtype_sinks;
    uint64_t max_flops; /* 0: a record is not cut */
} shape_around;

#define SHAPE_MASKED 16u

/* Views that are not there have no elements. */
typedef struct around_run {
    harness_tensor sinks, lse, row_scale, mask;
} around_run;

/* Makes the views, adds them to op and fills its dispatch. */
void shape_make_around(around_run *run, const shape_around *around, gpu_operation *op,
                       const uint64_t sizes[4], harness_random *random);
void shape_free_around(around_run *run);

/* The same for the reference; *ref lives no longer than *run. */
void shape_refer_around(const around_run *run, const shape_around *around, ref_attention *ref);

/* MASK's element; 0 without one. */
double shape_mask_element(const around_run *run, uint32_t b, uint32_t h, uint32_t a, uint32_t j);

/* Error of a logit by its cap, beside that of what is capped; 0 without one. */
double shape_cap_error(const shape_around *around);

/* What bounds of a row are made of. low and high: smallest and largest logit that its keys have,
 * the sink beside them; shift: sum P e over them, e the error of a logit; relative: of a weight, of
 * the sum of all weights included. */
typedef struct around_row {
    double low;
    double high;
    double lse;
    double shift;
    double relative;
} around_row;

/* Takes the head's sink, where there is one, into low and high. */
void shape_add_sink(const around_run *run, uint32_t h, around_row *row);
/* X: powers of 2 between the smallest and the largest weight. */
double shape_range(const around_row *row);
/* Adds what the error of the sink moves to `shift`. */
void shape_add_sink_error(const around_run *run, uint32_t h, around_row *row);
double shape_lse_bound(const around_row *row);

/* Compares LSE; rows with skip were not to be written. */
bool shape_compare_lse(harness *h, const char *what, const char *text, around_run *run,
                       const double *want, const double *bound, const bool *skip);

/* For lines of failures. */
void shape_describe_around(const shape_around *around, char *text, size_t size);

#endif
