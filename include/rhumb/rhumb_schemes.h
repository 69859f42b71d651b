/* One block per scheme: what it is, its source, its parameters. A scheme struct is named by
 * plan_info.rotary or plan_info.scheme; rhumb copies it when the plan is made.
 *
 * RHUMB_SCHEMES lists all of them; each has a RHUMB_<NAME>_FIELDS list, from which reading
 * parameters as JSON and printing them follow. FIELD(kind, member): kind is U32, I32,
 * F64, ENUM, LIST (of doubles), STRUCT, or an array as U32X4. */
#ifndef RHUMB_SCHEMES_H
#define RHUMB_SCHEMES_H

#include "rhumb.h"

#ifdef __cplusplus
extern "C" {
#endif

/* X(UPPER, lower, kind): kind is rotary or relative. */
#define RHUMB_SCHEMES(X)                                                                           \
    X(ROPE, rope, rotary)                                                                          \
    X(XPOS, xpos, rotary)                                                                          \
    X(MROPE, mrope, rotary)                                                                        \
    X(ROPE2D, rope2d, rotary)

typedef enum rhumb_scheme_type {
    RHUMB_TYPE_ROPE = RHUMB_TYPE_SCHEME_FIRST + 1,
    RHUMB_TYPE_XPOS = RHUMB_TYPE_SCHEME_FIRST + 2,
    RHUMB_TYPE_MROPE = RHUMB_TYPE_SCHEME_FIRST + 3,
    RHUMB_TYPE_ROPE2D = RHUMB_TYPE_SCHEME_FIRST + 4,
} rhumb_scheme_type;

/* -------------------------------------------------------------------------------------------------
 * rope: rotary position embedding, and its context extensions by frequency
 * Source: Su et al., RoFormer (arXiv 2104.09864), section 3.2.2. Each scaling names its own.
 *
 * With R = rotary_dim, pair i < R/2 turns by p * f_i at position p. Plain frequencies are
 * f_i = base^(-2i/R), divided by divisors[i] where given. cos and sin are multiplied by a magnitude
 * m, for Q and for K: the rotated part of a logit carries m^2, channels that do not turn none.
 */
typedef enum rhumb_pairing {
    RHUMB_PAIRING_INTERLEAVED = 0, /* pair i is channels 2i, 2i+1: GPT-J, RoFormer, Cohere, GLM,
                                      Llama (Meta, GGUF), DeepSeek */
    RHUMB_PAIRING_HALF = 1,        /* channels i, i + R/2: GPT-NeoX, Llama (hub), Mistral, Qwen,
                                      Gemma, Phi */
    /* Read from 2i, 2i+1 and written to i, i + R/2: DeepSeek-V3 in the transformers library. Dot
     * products are those of INTERLEAVED, the bytes of a K cache are not. ROTATE only, out of place,
     * no inverse. */
    RHUMB_PAIRING_INTERLEAVED_TO_HALF = 2,
} rhumb_pairing;

typedef enum rhumb_rope_scaling {
    RHUMB_ROPE_SCALING_NONE = 0,
    /* f_i / factor. Position interpolation: Chen et al. (arXiv 2306.15595), section 3.2. */
    RHUMB_ROPE_SCALING_LINEAR = 1,
    /* base' = base * factor^(R/(R-2)): pair 0 keeps its frequency, the last is slowed by factor.
     * NTK-aware, static; Hunyuan's alpha. R = 2 is refused. */
    RHUMB_ROPE_SCALING_NTK = 2,
    /* As NTK with factor * T/max_length - (factor - 1) in place of factor, T the larger of the
     * length and max_length. Depends on the length: see rhumb_write_constants. */
    RHUMB_ROPE_SCALING_NTK_DYNAMIC = 3,
    /* f_i * max_length / T: the second form of the YaRN repository's dynamic class. */
    RHUMB_ROPE_SCALING_LINEAR_DYNAMIC = 4,
    /* Early form of YaRN: blends plain, linear and NTK frequencies by two ramps over i. */
    RHUMB_ROPE_SCALING_NTK_BY_PARTS = 5,
    /* Peng et al., YaRN (arXiv 2309.00071), sections 3.2 and 3.4; ramp by `ramp`. */
    RHUMB_ROPE_SCALING_YARN = 6,
    /* Llama 3.1: below a wavelength of original_length / high_freq_factor plain, above
     * original_length / low_freq_factor divided by factor, linear in f between. */
    RHUMB_ROPE_SCALING_LLAMA3 = 7,
    /* Ding et al., LongRoPE (arXiv 2402.13753): f_i / short_factors[i] up to original_length,
     * f_i / long_factors[i] beyond. Phi-3 and later, MiniCPM. Depends on the length. */
    RHUMB_ROPE_SCALING_LONGROPE = 8,
    /* Pairs i < int(partial_factor * head_dim / 2) turn by base^(-2i/head_dim) / factor, the others
     * not at all; R is the whole head. Gemma 4, full-attention layers. */
    RHUMB_ROPE_SCALING_PROPORTIONAL = 9,
    /* f_i = frequencies[i], radians per position: below 2 pi in magnitude, sign included. */
    RHUMB_ROPE_SCALING_EXPLICIT = 10,
} rhumb_rope_scaling;

/* How the ramp between plain and interpolated frequencies of YARN runs. */
typedef enum rhumb_yarn_ramp {
    RHUMB_YARN_RAMP_INDEX = 0,     /* linear in i between the pairs of beta_fast and beta_slow;
                                      what released checkpoints run. With `truncate` the ends are
                                      rounded outward to whole pairs */
    RHUMB_YARN_RAMP_ROTATIONS = 1, /* linear in the turns within original_length; the paper's */
} rhumb_yarn_ramp;

/* Where m comes from. With s = factor, t = YaRN's temperature. */
typedef enum rhumb_magnitude {
    /* YARN: MSCALE_PAIR if both mscale values are above 0, else PAPER. LONGROPE: 1 for s <= 1, else
     * sqrt(1 + ln s / ln original_length), s = factor, or max_length / original_length where factor
     * is 1. Every other scaling: 1. */
    RHUMB_MAGNITUDE_AUTO = 0,
    RHUMB_MAGNITUDE_GIVEN = 1,       /* attention_factor */
    RHUMB_MAGNITUDE_PAPER = 2,       /* sqrt(1/t) = 0.1 ln s + 1 */
    RHUMB_MAGNITUDE_MSCALE_PAIR = 3, /* (0.1 mscale ln s + 1) / (0.1 mscale_all_dim ln s + 1):
                                        DeepSeek */
    /* t = sqrt(1 + ln s / ln 10000), logits divided by t. A form in circulation; it flattens
     * attention where the paper's sharpens it. */
    RHUMB_MAGNITUDE_FLATTENING = 4,
} rhumb_magnitude;

#define RHUMB_WHOLE_HEAD UINT32_MAX

/* Lists have R/2 elements and are copied when a plan is made. */
typedef struct rhumb_rope {
    RHUMB_HEADER;
    rhumb_pairing pairing;      /* default HALF. A wrong one is fluent nonsense: see the
                                   table in README */
    rhumb_rope_scaling scaling; /* default NONE */
    uint32_t rotary_dim;        /* channels that turn; even, 2 to head_dim - rotary_offset. Default
                                   RHUMB_WHOLE_HEAD */
    uint32_t rotary_offset;     /* first channel that turns; default 0 */
    double base;                /* > 0, finite; default 10000 */
    double factor;              /* s; >= 1; default 1 */
    double attention_factor;    /* m of MAGNITUDE_GIVEN; > 0; default 1, as it must be otherwise */
    rhumb_magnitude magnitude;  /* default AUTO */
    rhumb_yarn_ramp ramp;       /* YARN; default INDEX */
    uint32_t truncate;          /* YARN: 1 rounds the ramp's ends; gpt-oss has 0. Default 1 */
    uint32_t original_length;   /* L0 of NTK_BY_PARTS, YARN, LLAMA3, LONGROPE: required there */
    uint32_t max_length;        /* of NTK_DYNAMIC, LINEAR_DYNAMIC: required there; LONGROPE: see
                                   RHUMB_MAGNITUDE_AUTO */
    uint32_t list_count;        /* elements of each list given; R/2 */
    double attention_multiplier; /* factor of m ("attn_factor"); > 0; default 1 */
    double beta_fast;           /* YARN: turns within original_length; > beta_slow > 0, or equal; */
    double beta_slow;           /*   defaults 32 and 1 */
    double extrapolation;       /* YARN: strength of the blend ("ext_factor"), 0 to 1; default 1 */
    double mscale;              /* YARN; default 0 */
    double mscale_all_dim;      /* YARN; default 0 */
    double low_freq_factor;     /* LLAMA3; > 0; default 1 */
    double high_freq_factor;    /* LLAMA3; >= low_freq_factor; default 4. Equal (Llama-4 Scout): the
                                   middle range is empty */
    double partial_factor;      /* PROPORTIONAL; > 0, at most 1; default 1 */
    const double *short_factors; /* LONGROPE; > 0 */
    const double *long_factors; /* LONGROPE; > 0 */
    const double *frequencies;  /* EXPLICIT */
    const double *divisors;     /* of the plain frequencies, before any scaling; > 0; NULL: none.
                                   GGUF's rope_freqs */
} rhumb_rope;

#define RHUMB_ROPE_FIELDS(FIELD)                                                                   \
    FIELD(ENUM, pairing)                                                                           \
    FIELD(ENUM, scaling)                                                                           \
    FIELD(U32, rotary_dim)                                                                         \
    FIELD(U32, rotary_offset)                                                                      \
    FIELD(F64, base)                                                                               \
    FIELD(F64, factor)                                                                             \
    FIELD(F64, attention_factor)                                                                   \
    FIELD(ENUM, magnitude)                                                                         \
    FIELD(ENUM, ramp)                                                                              \
    FIELD(U32, truncate)                                                                           \
    FIELD(U32, original_length)                                                                    \
    FIELD(U32, max_length)                                                                         \
    FIELD(F64, attention_multiplier)                                                               \
    FIELD(F64, beta_fast)                                                                          \
    FIELD(F64, beta_slow)                                                                          \
    FIELD(F64, extrapolation)                                                                      \
    FIELD(F64, mscale)                                                                             \
    FIELD(F64, mscale_all_dim)                                                                     \
    FIELD(F64, low_freq_factor)                                                                    \
    FIELD(F64, high_freq_factor)                                                                   \
    FIELD(F64, partial_factor)                                                                     \
    FIELD(LIST, short_factors)                                                                     \
    FIELD(LIST, long_factors)                                                                      \
    FIELD(LIST, frequencies)                                                                       \
    FIELD(LIST, divisors)

static inline void rhumb_init_rope(rhumb_rope *s)
{
    RHUMB_INIT_HEADER(s, RHUMB_TYPE_ROPE);
    s->pairing = RHUMB_PAIRING_HALF;
    s->scaling = RHUMB_ROPE_SCALING_NONE;
    s->rotary_dim = RHUMB_WHOLE_HEAD;
    s->base = 10000.0;
    s->factor = 1.0;
    s->attention_factor = 1.0;
    s->magnitude = RHUMB_MAGNITUDE_AUTO;
    s->ramp = RHUMB_YARN_RAMP_INDEX;
    s->truncate = 1;
    s->attention_multiplier = 1.0;
    s->beta_fast = 32.0;
    s->beta_slow = 1.0;
    s->extrapolation = 1.0;
    s->low_freq_factor = 1.0;
    s->high_freq_factor = 4.0;
    s->partial_factor = 1.0;
}

/* -------------------------------------------------------------------------------------------------
 * xpos: rotary embedding whose pairs also decay with the distance
 * Source: Sun et al., A Length-Extrapolatable Transformer (arXiv 2212.10554), section 3.
 *
 * Pairing interleaved, R = rotary_dim. Beside the rotation pair i of Q is multiplied by zeta_i^e
 * and pair i of K by zeta_i^(-e), zeta_i = (2i + gamma R) / ((1 + gamma) R),
 * e = (p - centre) / scale_base. A logit's pair carries zeta_i^((p_q - p_k) / scale_base): the
 * centre cancels, and only keys in the past decay, so that attention must be causal. One centre
 * serves the whole life of a cache. At a distance d from the centre the largest factor is
 * 3.5^(d / scale_base): float16 tensors overflow at some 4500, float32 at 36000 (scale_base 512).
 */
typedef struct rhumb_xpos {
    RHUMB_HEADER;
    uint32_t rotary_dim;    /* as in rhumb_rope; default RHUMB_WHOLE_HEAD */
    uint32_t rotary_offset; /* default 0 */
    double base;            /* > 0; default 10000 */
    double scale_base;      /* > 0; default 512 */
    double gamma;           /* > 0; default 0.4 */
    int32_t centre;         /* default 0. For T tokens torchscale has ceil(T/2), x-transformers
                               floor(T/2) */
    uint32_t padding;
} rhumb_xpos;

#define RHUMB_XPOS_FIELDS(FIELD)                                                                   \
    FIELD(U32, rotary_dim)                                                                         \
    FIELD(U32, rotary_offset)                                                                      \
    FIELD(F64, base)                                                                               \
    FIELD(F64, scale_base)                                                                         \
    FIELD(F64, gamma)                                                                              \
    FIELD(I32, centre)

static inline void rhumb_init_xpos(rhumb_xpos *s)
{
    RHUMB_INIT_HEADER(s, RHUMB_TYPE_XPOS);
    s->rotary_dim = RHUMB_WHOLE_HEAD;
    s->base = 10000.0;
    s->scale_base = 512.0;
    s->gamma = 0.4;
}

/* -------------------------------------------------------------------------------------------------
 * mrope: rotary embedding by several positions of a token (time, height, width)
 * Source: Wang et al., Qwen2-VL (arXiv 2409.12191), section 2.1.
 *
 * Frequencies are those of `rope`; each pair takes its position from one of the rows t, h, w of
 * POSITIONS_Q [1, axes, B, L] (shape {1, axes, B or 1, L}): 4 axes where a pair takes the fourth
 * row, else 3. Equal rows give the bits of plain rope. A mask by position goes by the first row.
 */
typedef enum rhumb_mrope_order {
    RHUMB_MROPE_BLOCKS = 0,      /* the first sections[0] pairs use t, then h, w, extra: Qwen2-VL,
                                    Qwen2.5-VL. Sections sum to R/2 */
    RHUMB_MROPE_INTERLEAVED = 1, /* pair i uses h if i % 3 = 1 and i < 3 sections[1], w if i % 3 = 2
                                    and i < 3 sections[2], else t: Qwen3-VL, Qwen3.5 */
    /* As ggml's IMROPE: pair i uses t if i % 3 = 0 and i < 3 sections[0], h and w as above, and the
     * fourth row for what is left over; beyond the sum of the sections all this begins again. */
    RHUMB_MROPE_INTERLEAVED_EXTRA = 2,
    /* sections = {h, w, t}: pairs below h + w alternate h, w; the last t pairs use t: ERNIE 4.5. */
    RHUMB_MROPE_ALTERNATING = 3,
} rhumb_mrope_order;

typedef struct rhumb_mrope {
    RHUMB_HEADER;
    const rhumb_rope *rope;  /* pairing, schedule, window; NULL: rhumb_init_rope's */
    rhumb_mrope_order order; /* default BLOCKS */
    uint32_t sections[4];    /* pairs of each axis; t, h, w, extra */
    uint32_t padding;
} rhumb_mrope;

#define RHUMB_MROPE_FIELDS(FIELD)                                                                  \
    FIELD(STRUCT, rope)                                                                            \
    FIELD(ENUM, order)                                                                             \
    FIELD(U32X4, sections)

static inline void rhumb_init_mrope(rhumb_mrope *s)
{
    RHUMB_INIT_HEADER(s, RHUMB_TYPE_MROPE);
    s->order = RHUMB_MROPE_BLOCKS;
}

/* -------------------------------------------------------------------------------------------------
 * rope2d: rotary embedding by row and column, for vision towers
 * Source: Heo et al., RoPE-ViT (arXiv 2403.13298), section 3.2 (axial); Fang et al., EVA-02
 * (arXiv 2303.11331); Agrawal et al., Pixtral (arXiv 2410.07073), section 2.1.
 *
 * POSITIONS_Q [1, 2, B, L] holds the row (h) and column (w) index of each token. Half of the R/2
 * pairs turn by one axis, half by the other. The coordinate of an index is scale[axis] * index +
 * offset[axis], computed exactly. R is a multiple of 4; below, j < R/4 counts the pairs of an axis.
 */
typedef enum rhumb_rope2d_pairing {
    RHUMB_ROPE2D_INTERLEAVED = 0,   /* channels 2i, 2i+1: timm, EVA-02, SAM2, Llama 4 */
    RHUMB_ROPE2D_HALF = 1,          /* channels i, i + R/2: Qwen2-VL, Pixtral, DINOv3 */
    RHUMB_ROPE2D_HALF_PER_AXIS = 2, /* each half of the window by itself, partner + R/4: Gemma 4 */
} rhumb_rope2d_pairing;

typedef enum rhumb_rope2d_order {
    RHUMB_ROPE2D_ROW_FIRST = 0,    /* the first pairs turn by h */
    RHUMB_ROPE2D_COLUMN_FIRST = 1, /* by w: SAM2, Llama 4, Gemma 4 */
} rhumb_rope2d_order;

typedef enum rhumb_rope2d_frequency {
    RHUMB_ROPE2D_SAME = 0,         /* base^(-4j/R) for both axes: Qwen2-VL, EVA-02, SAM2, Llama 4 */
    RHUMB_ROPE2D_ALTERNATING = 1,  /* one list base^(-2i/R): even i for the first axis, odd for the
                                      second: Pixtral */
    RHUMB_ROPE2D_PERIODS = 2,      /* 2 pi base^(-4j/R): DINOv3, base 100 */
    RHUMB_ROPE2D_PIXEL = 3,        /* pi 2^x, x from 0 to log2(resolution) - 1, even steps: timm */
    RHUMB_ROPE2D_PIXEL_LINEAR = 4, /* pi x, x from 1 to resolution/2 in even steps: timm */
} rhumb_rope2d_frequency;

typedef struct rhumb_rope2d {
    RHUMB_HEADER;
    rhumb_rope2d_pairing pairing;     /* default HALF */
    rhumb_rope2d_order order;         /* default ROW_FIRST */
    rhumb_rope2d_frequency frequency; /* default SAME */
    uint32_t rotary_dim;              /* a multiple of 4; default RHUMB_WHOLE_HEAD */
    uint32_t rotary_offset;           /* default 0 */
    uint32_t padding;
    double base;                      /* > 0; default 10000 */
    double resolution;                /* PIXEL kinds; > 2; default 224 */
    double scale[2];                  /* of the indices h, w; default 1. Times a frequency up to
                                         65536 radians in magnitude, as is */
    double offset[2];                 /* of the coordinates h, w; default 0 */
} rhumb_rope2d;

#define RHUMB_ROPE2D_FIELDS(FIELD)                                                                 \
    FIELD(ENUM, pairing)                                                                           \
    FIELD(ENUM, order)                                                                             \
    FIELD(ENUM, frequency)                                                                         \
    FIELD(U32, rotary_dim)                                                                         \
    FIELD(U32, rotary_offset)                                                                      \
    FIELD(F64, base)                                                                               \
    FIELD(F64, resolution)                                                                         \
    FIELD(F64X2, scale)                                                                            \
    FIELD(F64X2, offset)

static inline void rhumb_init_rope2d(rhumb_rope2d *s)
{
    RHUMB_INIT_HEADER(s, RHUMB_TYPE_ROPE2D);
    s->pairing = RHUMB_ROPE2D_HALF;
    s->rotary_dim = RHUMB_WHOLE_HEAD;
    s->base = 10000.0;
    s->resolution = 224.0;
    s->scale[0] = 1.0;
    s->scale[1] = 1.0;
}

/* The frequencies f_i in radians per position, in double: rotary_dim / 2 of them into `frequencies`
 * (capacity elements), how many into *count, and m into *magnitude; each may be NULL. head_dim is
 * for RHUMB_WHOLE_HEAD; length (largest position + 1) for the kinds that depend on it, 0 for the
 * shortest. `rotary` is any rotary scheme struct. Pure; needs no context. Errors: ARGUMENT,
 * VERSION; the reason goes to rhumb_last_message(NULL). */
RHUMB_API rhumb_result rhumb_rotary_frequencies(const void *rotary, uint32_t head_dim,
                                                uint32_t length, double *frequencies,
                                                uint32_t capacity, uint32_t *count,
                                                double *magnitude);

#ifdef __cplusplus
}
#endif

#endif /* RHUMB_SCHEMES_H */
