/* Double-precision reference of every operation, written from the definitions alone: it shares no
 * code with the shaders or the runtime, and includes none of their headers. For tests and `rhumb
 * check`; the library never links it.
 *
 * Tensors are contiguous double arrays [B, H, L, D]. Query head h reads key/value head
 * floor(h * kv_heads / heads). Functions return 0, or -1 when a value is outside its domain or
 * memory ran out; then nothing has been written.
 *
 * Thread-safety: no state; any function from any thread.
 */
#ifndef RHUMB_REFERENCE_H
#define RHUMB_REFERENCE_H

#include <stdint.h>

#define REF_UNSET INT32_MIN     /* a q_offset that was not given */
#define REF_NO_WINDOW INT32_MAX /* a side of the window that does not limit */

/* ------------------------------------------------------------------------------------------------
 * Numbers of 16 bits. Narrowing rounds to nearest, ties to even, once, straight from double;
 * overflow is infinity, NaN stays a (quiet) NaN. Widening is exact.
 */
uint16_t ref_f16_from_double(double value);
double ref_double_from_f16(uint16_t bits);
uint16_t ref_bf16_from_double(double value);
double ref_double_from_bf16(uint16_t bits);

/* ------------------------------------------------------------------------------------------------
 * Rotary
 */
typedef enum ref_pairing {
    REF_PAIRING_INTERLEAVED = 0, /* pair i is channels o + 2i, o + 2i + 1 */
    REF_PAIRING_HALF = 1,        /* channels o + i, o + i + rotary_dim/2 */
} ref_pairing;

/* Pair i turns by position * f_i; f_i = base^(-2i / rotary_dim) / factor, or the list's. */
typedef struct ref_rope {
    ref_pairing pairing;
    uint32_t rotary_dim;    /* R, even, 2 or more */
    uint32_t rotary_offset; /* o, first channel that turns */
    double base;            /* > 0 */
    double factor;          /* s of linear scaling, > 0; 1: none */
    double magnitude;       /* multiplies cos and sin */
    const double *inv_freq; /* R/2 frequencies in radians per position, instead of base and
                               factor; or NULL */
} ref_rope;

/* Half pairing, rotary_dim as given, offset 0, base 10000, factor 1, magnitude 1. */
void ref_rope_init(ref_rope *rope, uint32_t rotary_dim);

/* The R/2 frequencies in radians per position, correctly rounded but for the last unit. */
int ref_rope_frequencies(const ref_rope *rope, double *inv_freq);

/* cos and sin of position * f_i for all R/2 pairs, without the magnitude. The product is formed in
 * twice the precision of double and f_i carried likewise, so that the error stays below 1e-15 for
 * |position| <= 2^31. */
int ref_rope_angles(const ref_rope *rope, int64_t position, double *cosines, double *sines);

/* y = x rotated. x, y [batch, heads, rows, head_dim] (may be the same array), positions [batch,
 * rows]. inverse != 0 turns by minus the angle. Channels outside [o, o + R) are copied. */
int ref_rotate(const ref_rope *rope, uint32_t batch, uint32_t heads, uint32_t rows,
               uint32_t head_dim, const int32_t *positions, int inverse, const double *x,
               double *y);

/* positions[b, l] = offset + l, [batch, rows]. */
void ref_arange(uint32_t batch, uint32_t rows, int32_t offset, int32_t *positions);

/* ------------------------------------------------------------------------------------------------
 * Attention: O = softmax(S) V over the visible keys.
 * S = scale * q . k, and later the terms of the relative schemes: each is one more group of fields
 * here, off by default (ref_attention_init), and one more line of logit() in attention.c.
 */
typedef enum ref_order {
    REF_ORDER_INDEX = 0,    /* pos_q = a + q_offset, pos_k = j */
    REF_ORDER_POSITION = 1, /* pos_q, pos_k from positions_q, positions_k */
} ref_order;

/* Key j is visible to row a iff j < k_length, and (not causal or pos_k <= pos_q), and
 * pos_q - pos_k < window_left, and pos_k - pos_q <= window_right. */
typedef struct ref_attention {
    uint32_t batch;
    uint32_t heads;
    uint32_t kv_heads; /* divides heads */
    uint32_t q_rows;   /* Lq of the arrays */
    uint32_t k_rows;   /* Lk of the arrays */
    uint32_t head_dim;
    uint32_t value_dim;
    double scale;
    int causal;
    ref_order order;
    int32_t window_left; /* REF_NO_WINDOW: no limit */
    int32_t window_right;
    int32_t q_offset;           /* REF_UNSET: k_length - q_length of the batch (bottom-right) */
    const int32_t *q_offsets;   /* [batch], an entry REF_UNSET takes q_offset; or NULL */
    const int32_t *q_lengths;   /* [batch]; or NULL: q_rows */
    const int32_t *k_lengths;   /* [batch]; or NULL: k_rows */
    const int32_t *positions_q; /* [batch, q_rows]; or NULL */
    const int32_t *positions_k; /* [batch, k_rows]; or NULL */
    const ref_rope *rotary; /* Q is rotated at positions_q, or at a + q_offset; NULL: not rotated */
    const double *q;        /* [batch, heads, q_rows, head_dim] */
    const double *k;        /* [batch, kv_heads, k_rows, head_dim], already rotated */
    const double *v;        /* [batch, kv_heads, k_rows, value_dim]; NULL when o is */
    double *o;      /* [batch, heads, q_rows, value_dim]; or NULL. Rows a >= q_length are left
                       as they were; a row without a visible key is 0 */
    double *lse;    /* [batch, heads, q_rows]: ln sum exp of the visible S, -infinity for none;
                       or NULL */
    double *scores; /* [batch, heads, q_rows, k_rows]: S of all keys below k_length, masked or
                       not; the rest is left as it was; or NULL */
} ref_attention;

/* kv_heads = heads, value_dim = head_dim, scale 1/sqrt(head_dim), nothing masked, pointers NULL. */
void ref_attention_init(ref_attention *attention, uint32_t batch, uint32_t heads, uint32_t q_rows,
                        uint32_t k_rows, uint32_t head_dim);

/* Masked keys and values are not read. -1 also for a position order without position arrays. */
int ref_attend(const ref_attention *attention);

#endif
