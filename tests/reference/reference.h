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
    REF_PAIRING_INTERLEAVED = 0,         /* pair i is channels o + 2i, o + 2i + 1 */
    REF_PAIRING_HALF = 1,                /* channels o + i, o + i + rotary_dim/2 */
    REF_PAIRING_INTERLEAVED_TO_HALF = 2, /* read as the first, written as the second */
    REF_PAIRING_HALF_PER_AXIS = 3,       /* each half of the window by itself: o + i, o + i + R/4
                                            for i < R/4, then R/2 further; R/2 is even */
} ref_pairing;

/* f_i from plain base^(-2i/R) / divisors[i]; formulas in schedules.c. */
typedef enum ref_schedule_kind {
    REF_SCHEDULE_LINEAR = 0, /* factor; 1: plain */
    REF_SCHEDULE_NTK,        /* factor: base' = base factor^(R/(R-2)) */
    REF_SCHEDULE_NTK_DYNAMIC,    /* factor, length, max_length */
    REF_SCHEDULE_LINEAR_DYNAMIC, /* length, max_length: factor is length/max_length */
    REF_SCHEDULE_NTK_BY_PARTS,   /* factor, original_length */
    REF_SCHEDULE_YARN,           /* factor, original_length, beta_*, extrapolation, truncate: ramp
                                    over the pair index, as released code has it */
    REF_SCHEDULE_YARN_PAPER, /* the same, ramp over the turns within original_length */
    REF_SCHEDULE_LLAMA3,     /* factor, original_length, *_freq_factor */
    REF_SCHEDULE_LONGROPE,   /* length, original_length, short_factors, long_factors */
    REF_SCHEDULE_PROPORTIONAL, /* factor, partial_factor; R is the whole head */
} ref_schedule_kind;

/* Pair i turns by position * f_i. */
typedef struct ref_rope {
    ref_pairing pairing;
    uint32_t rotary_dim;    /* R, even, 2 or more */
    uint32_t rotary_offset; /* o, first channel that turns */
    double base;            /* > 0 */
    double factor;          /* s, > 0 */
    double magnitude;       /* multiplies cos and sin; see ref_magnitude_* */
    const double *inv_freq; /* R/2 frequencies in radians per position, instead of base and
                               schedule; or NULL */
    ref_schedule_kind schedule;
    uint64_t length; /* of the call: largest position + 1 */
    uint32_t max_length;
    uint32_t original_length;
    double beta_fast; /* turns within original_length */
    double beta_slow;
    int truncate;         /* rounds the ends of YaRN's ramp outward */
    double extrapolation; /* factor of YaRN's ramp */
    double low_freq_factor;
    double high_freq_factor;
    double partial_factor; /* 0 to 1 */
    const double *short_factors; /* R/2 each, > 0 */
    const double *long_factors;
    const double *divisors; /* or NULL */
} ref_rope;

/* Half pairing, rotary_dim as given, offset 0, base 10000, factor 1, magnitude 1, linear; beta 32
 * and 1, truncate, extrapolation 1, low 1, high 4, partial 1. */
void ref_rope_init(ref_rope *rope, uint32_t rotary_dim);

/* m. paper: 0.1 ln s + 1. mscale: (0.1 mscale ln s + 1) / (0.1 mscale_all_dim ln s + 1). longrope:
 * sqrt(1 + ln s / ln L0). flattening: logits divided by sqrt(1 + ln s / ln 10000), so that m is
 * the root of its inverse. All 1 for s <= 1. */
double ref_magnitude_paper(double factor);
double ref_magnitude_mscale(double factor, double mscale, double mscale_all_dim);
double ref_magnitude_longrope(double factor, uint32_t original_length);
double ref_magnitude_flattening(double factor);

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

/* y = x / sqrt(mean(x^2) + epsilon) * (gain_offset + gain) for each row of x, y [batch, heads, rows,
 * head_dim] (may be the same array); gain [gain_heads, head_dim], gain_heads is 1 or heads. A row of
 * zeros stays zeros, whatever epsilon >= 0 is. */
int ref_rms_norm(uint32_t batch, uint32_t heads, uint32_t rows, uint32_t head_dim,
                 const double *gain, uint32_t gain_heads, double gain_offset, double epsilon,
                 const double *x, double *y);

/* ------------------------------------------------------------------------------------------------
 * XPos: pair i is multiplied by zeta_i^e besides, e = (position - centre)/scale_base, or by
 * zeta_i^-e on the key side; zeta_i = (2i + gamma R)/((1 + gamma) R).
 */
typedef struct ref_xpos {
    ref_rope rope;
    double scale_base; /* > 0 */
    double gamma;      /* > 0 */
    double centre;
    int key_side;
} ref_xpos;

/* Interleaved pairing, scale_base 512, gamma 0.4, centre 0, query side. */
void ref_xpos_init(ref_xpos *xpos, uint32_t rotary_dim);

int ref_rotate_xpos(const ref_xpos *xpos, uint32_t batch, uint32_t heads, uint32_t rows,
                    uint32_t head_dim, const int32_t *positions, const double *x, double *y);

/* ------------------------------------------------------------------------------------------------
 * M-RoPE: pair i goes by row pair_axis[i] of the positions.
 */
typedef enum ref_section_rule {
    REF_SECTIONS_BLOCKS = 0,       /* sections t, h, w in a row; they sum to the pairs */
    REF_SECTIONS_INTERLEAVED,      /* t, h, w, t, h, w, ...; h and w up to 3 times their section */
    REF_SECTIONS_ERNIE,            /* sections are h, w, t: h, w, h, w, ..., then t */
    REF_SECTIONS_GGML_BLOCKS,      /* four sections, repeated */
    REF_SECTIONS_GGML_INTERLEAVED, /* four sections, repeated; what is left over goes to row 3 */
} ref_section_rule;

/* sections: 3 numbers, 4 for ggml; sums fit 32 bits. */
int ref_section_axes(ref_section_rule rule, const uint32_t *sections, uint32_t pairs,
                     uint32_t *pair_axis);

/* ref_rotate with positions [axes, batch, rows]. */
int ref_rotate_sections(const ref_rope *rope, const uint32_t *pair_axis, uint32_t axes,
                        uint32_t batch, uint32_t heads, uint32_t rows, uint32_t head_dim,
                        const int32_t *positions, const double *x, double *y);

/* ------------------------------------------------------------------------------------------------
 * Two dimensions: pair i turns by h * f[0, i] + w * f[1, i]. All channels turn.
 */
typedef struct ref_plane {
    ref_pairing pairing;
    int per_head;              /* the frequencies have a head axis */
    const double *frequencies; /* [2, D/2], or [2, heads, D/2] */
    const double *coordinates; /* [rows, 2] = h, w; 0, 0 leaves a row as it is */
} ref_plane;

int ref_rotate_plane(const ref_plane *plane, uint32_t batch, uint32_t heads, uint32_t rows,
                     uint32_t head_dim, const double *x, double *y);

/* Axial frequency lists: the first D/4 pairs belong to one axis, the others to the other. */
typedef enum ref_plane_rule {
    REF_PLANE_AXIAL = 0,     /* base^(-j/(D/4)) for both axes, j < D/4 */
    REF_PLANE_ALTERNATING,   /* base^(-2i/D): even i for the first axis, odd i for the second */
    REF_PLANE_TURNS,         /* 2 pi base^(-j/(D/4)) */
    REF_PLANE_PIXELS,        /* pi 2^x, x from 0 to log2(base) - 1 */
    REF_PLANE_PIXELS_LINEAR, /* pi x, x from 1 to base/2 */
} ref_plane_rule;

/* frequencies [2, D/2], row 0 those of h. columns_first: w owns the first pairs. */
int ref_plane_frequencies(ref_plane_rule rule, uint32_t head_dim, double base, int columns_first,
                          double *frequencies);

typedef enum ref_grid_rule {
    REF_GRID_INDEX = 0,   /* (index + offset) * reference/size, or index + offset */
    REF_GRID_ENDS,        /* -1 to 1, the first and the last index at the ends */
    REF_GRID_CENTRES,     /* 2 (index + 0.5)/size - 1 */
    REF_GRID_CENTRES_MAX, /* the same with the larger size for both axes */
    REF_GRID_CENTRES_MIN, /* with the smaller */
} ref_grid_rule;

typedef struct ref_grid {
    ref_grid_rule rule;
    uint32_t height;
    uint32_t width;
    double offset;
    double reference[2]; /* 0: none */
} ref_grid;

/* positions and coordinates [tokens, 2] = h, w. -1 for a rule that needs a grid of no size. */
int ref_grid_coordinates(const ref_grid *grid, uint32_t tokens, const int32_t *positions,
                         double *coordinates);

/* positions[b, l] = offset + l, [batch, rows]. */
void ref_arange(uint32_t batch, uint32_t rows, int32_t offset, int32_t *positions);

/* ------------------------------------------------------------------------------------------------
 * Attention: O = softmax(S) V over the visible keys.
 * S = scale * q . k, and the terms of a relative scheme (relative.h), capped; then the mask.
 */
typedef struct ref_terms ref_terms;

typedef enum ref_order {
    REF_ORDER_INDEX = 0,    /* pos_q = a + q_offset, pos_k = j */
    REF_ORDER_POSITION = 1, /* pos_q, pos_k from positions_q, positions_k */
} ref_order;

/* Key j is visible to row a iff j < k_length, and (not causal or pos_k <= pos_q), and
 * pos_k - pos_q <= window_right, and the mask's element is above -1e30 (it is added to S), and
 * either pos_q - pos_k < window_left and floor(pos_q / chunk) = floor(pos_k / chunk), or
 * 0 <= pos_k < kept_keys and pos_k <= pos_q.
 *
 * With a softcap S is softcap * tanh(S / softcap), before the mask's element is added. Sinks are
 * one more key of each head, with that logit and no value, which every row sees. */
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
    int32_t chunk;     /* 1 or more; 0 or REF_NO_WINDOW: all positions are of one chunk */
    int32_t kept_keys; /* 0 or more */
    double softcap;    /* above 0; 0 or INFINITY: none */
    int bias_after_softcap; /* b and f of the terms, with the scale where they are inside it, are
                               added after the cap */
    int32_t q_offset;           /* REF_UNSET: k_length - q_length of the batch (bottom-right) */
    const int32_t *q_offsets;   /* [batch], an entry REF_UNSET takes q_offset; or NULL */
    const int32_t *q_lengths;   /* [batch]; or NULL: q_rows */
    const int32_t *k_lengths;   /* [batch]; or NULL: k_rows */
    const int32_t *positions_q; /* [batch, q_rows]; or NULL */
    const int32_t *positions_k; /* [batch, k_rows]; or NULL */
    const double *mask;         /* [mask_shape]; or NULL */
    uint32_t mask_shape[4]; /* batch, heads, q_rows, k_rows, or 1 where all share an element */
    const double *sinks;     /* [heads]; or NULL */
    const double *row_scale; /* [batch, heads, q_rows]: factor of each row of q; or NULL: 1 */
    const ref_terms *terms;  /* or NULL */
    const ref_rope *rotary; /* Q is rotated at positions_q, or at a + q_offset; NULL: not rotated */
    const double *q;        /* [batch, heads, q_rows, head_dim] */
    const double *k;        /* [batch, kv_heads, k_rows, head_dim], already rotated */
    const double *v;        /* [batch, kv_heads, k_rows, value_dim]; NULL when o is */
    double *o;      /* [batch, heads, q_rows, value_dim]; or NULL. Rows a >= q_length are left
                       as they were; a row without a visible key is 0 */
    double *lse;    /* [batch, heads, q_rows]: ln sum exp of the visible S and of the sink,
                       -infinity for none; or NULL */
    double *scores; /* [batch, heads, q_rows, k_rows]: S of all keys below k_length, visible or
                       not, capped, without the mask's elements; the rest is left as it was; or
                       NULL */
} ref_attention;

/* kv_heads = heads, value_dim = head_dim, scale 1/sqrt(head_dim), nothing masked, pointers NULL. */
void ref_attention_init(ref_attention *attention, uint32_t batch, uint32_t heads, uint32_t q_rows,
                        uint32_t k_rows, uint32_t head_dim);

/* Whether row a of head h of batch entry b sees key j; false also for a row from q_length on. Of
 * *attention what the rule above names is read. */
int ref_sees(const ref_attention *attention, uint32_t b, uint32_t h, uint32_t a, uint32_t j);

/* Keys and values that are not visible are not read. -1 also for a position order without position
 * arrays, and for a pair that has no row in a table of the terms. */
int ref_attend(const ref_attention *attention);

#endif
