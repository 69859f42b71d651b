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
    double largest; /* error of any element */
    double got;
    double want;
    uint64_t index;
    bool pass;
} verify_result;

/* Elements against doubles. Where `want` is a NaN, the element must be one (memory left alone). */
void verify_compare(rhumb_dtype dtype, const void *elements, const double *want, uint64_t count,
                    double scale, verify_result *result);

/* ----------------------------------------------------------------------------------------------
 * Rotary scheme structs on the reference
 */
#define VERIFY_MAX_PAIRS 288

typedef struct verify_rotary {
    uint32_t type; /* rhumb_scheme_type */
    uint32_t axes; /* rows of positions a token has */
    ref_rope rope; /* rope2d: pairing and window only */
    ref_xpos xpos;
    uint32_t pair_axis[VERIFY_MAX_PAIRS];
    double plane_frequencies[2 * VERIFY_MAX_PAIRS];
    double scale[2]; /* rope2d: of the indices */
    double offset[2];
} verify_rotary;

/* A rotary scheme struct that rhumb accepts; its lists must stay. `length` is that of
 * rhumb_write_constants. False: a scheme that the reference does not know. */
bool verify_read_rotary(const void *rotary, uint32_t head_dim, uint32_t length,
                        verify_rotary *result);

/* Tensors [batch, heads, rows, head_dim], positions [axes, batch, rows]. */
typedef struct verify_rows {
    uint32_t batch, heads, rows, head_dim;
    const int32_t *positions;
    bool inverse;
    bool keys; /* K: shrinks where Q grows */
} verify_rows;

/* x and y may be the same array. False: outside the reference's domain, or no memory. */
bool verify_rotate(const verify_rotary *rotary, const verify_rows *rows, const double *x,
                   double *y);

/* The largest factor of any pair: the magnitude, times what XPos lets grow. */
double verify_growth(const verify_rotary *rotary, const verify_rows *rows);

#endif /* RHUMB_TOOLS_VERIFY_H */
