/* Comparing what a device computed with the double-precision reference. */
#ifndef RHUMB_TOOLS_VERIFY_H
#define RHUMB_TOOLS_VERIFY_H

#include "gpu.h"
#include "reference.h"

/* F32, F16 or BF16 elements as doubles, exactly, and back, rounded once to nearest even. */
void verify_widen(rhumb_dtype dtype, const void *elements, uint64_t count, double *values);
void verify_narrow(rhumb_dtype dtype, const double *values, uint64_t count, void *elements);

/* The error that a careful float32 implementation is allowed on data of order 1, before the result
 * is stored.
 *
 * Rotation: cos and sin to 2^-22 (exact reduction, polynomial), times |x0| + |x1| < 12 for normal
 * numbers, and three roundings of 2^-24 relative: below 4e-6. Attention: a logit of D products of
 * normal numbers times 1/sqrt(D) carries D roundings of its partial sums, in the square about
 * sqrt(D) 2^-24 |S| < 8e-6 for D <= 576 and |S| < 6; a logit's error is the probability's relative
 * error, and the mean of V, |v| < 6, moves by the probability-weighted error times the spread of V,
 * which is below 1. */
#define VERIFY_F32 1e-5

/* How much larger than normal numbers the data is, as a factor of VERIFY_F32; 1 or more, and 1 for
 * normal numbers. Rotation: the largest |x| over 6, times the magnitude of the rotation if that is
 * above 1. Attention: the largest |v| over 6, times the largest |S| that the row norms allow over
 * what normal rows have (scale * |q| |k| with |q| = |k| = sqrt(2 D)). Rows of D elements,
 * contiguous. */
double verify_rotate_scale(const double *x, uint64_t count, double magnitude);
double verify_attention_scale(const ref_attention *attention);

/* scale * VERIFY_F32, and half a unit in the last place of the stored dtype at |want| + that (the
 * value that is rounded may lie beyond `want` by it): 2^-11 relative for f16 (11 significant bits;
 * at least 2^-25, half its smallest subnormal), 2^-8 for bf16 (8 bits). f32: included in
 * VERIFY_F32. */
double verify_bound(rhumb_dtype dtype, double want, double scale);

typedef struct verify_result {
    double error; /* of the element that comes closest to its bound, or is farthest beyond */
    double bound; /* of that element */
    double got;
    double want;
    uint64_t index;
    bool pass;
} verify_result;

/* Elements against doubles. Where `want` is a NaN, the element must be one (memory left alone). */
void verify_compare(rhumb_dtype dtype, const void *elements, const double *want, uint64_t count,
                    double scale, verify_result *result);

/* The reference's parameters of a rotary scheme struct. False: a scheme that the reference does not
 * know. */
bool verify_rope(const void *rotary, uint32_t head_dim, ref_rope *rope);

#endif /* RHUMB_TOOLS_VERIFY_H */
