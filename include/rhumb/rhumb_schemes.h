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

/* X(UPPER, lower, kind): kind is rotary (plan_info.rotary), absolute (plan_info.scheme of ENCODE),
 * relative (of BIAS, SCORES, ATTENTION and PROJECT) or resampling (of RESIZE). */
#define RHUMB_SCHEMES(X)                                                                           \
    X(ROPE, rope, rotary)                                                                          \
    X(XPOS, xpos, rotary)                                                                          \
    X(MROPE, mrope, rotary)                                                                        \
    X(ROPE2D, rope2d, rotary)                                                                      \
    X(SINUSOIDAL, sinusoidal, absolute)                                                            \
    X(LEARNED, learned, absolute)                                                                  \
    X(SINUSOIDAL2D, sinusoidal2d, absolute)                                                        \
    X(LEARNED2D, learned2d, absolute)                                                              \
    X(RESIZE, resize, resampling)                                                                  \
    X(SHAW, shaw, relative)                                                                        \
    X(MUSIC_TRANSFORMER, music_transformer, relative)                                              \
    X(T5, t5, relative)                                                                            \
    X(ALIBI, alibi, relative)                                                                      \
    X(TRANSFORMER_XL, transformer_xl, relative)                                                    \
    X(XLNET, xlnet, relative)                                                                      \
    X(DEBERTA, deberta, relative)                                                                  \
    X(SWIN, swin, relative)                                                                        \
    X(SWIN_V2, swin_v2, relative)                                                                  \
    X(KERPLE, kerple, relative)

typedef enum rhumb_scheme_type {
    RHUMB_TYPE_ROPE = RHUMB_TYPE_SCHEME_FIRST + 1,
    RHUMB_TYPE_XPOS = RHUMB_TYPE_SCHEME_FIRST + 2,
    RHUMB_TYPE_MROPE = RHUMB_TYPE_SCHEME_FIRST + 3,
    RHUMB_TYPE_ROPE2D = RHUMB_TYPE_SCHEME_FIRST + 4,
    RHUMB_TYPE_SINUSOIDAL = RHUMB_TYPE_SCHEME_FIRST + 5,
    RHUMB_TYPE_LEARNED = RHUMB_TYPE_SCHEME_FIRST + 6,
    RHUMB_TYPE_SINUSOIDAL2D = RHUMB_TYPE_SCHEME_FIRST + 7,
    RHUMB_TYPE_LEARNED2D = RHUMB_TYPE_SCHEME_FIRST + 8,
    RHUMB_TYPE_RESIZE = RHUMB_TYPE_SCHEME_FIRST + 9,
    RHUMB_TYPE_SHAW = RHUMB_TYPE_SCHEME_FIRST + 10,
    RHUMB_TYPE_MUSIC_TRANSFORMER = RHUMB_TYPE_SCHEME_FIRST + 11,
    RHUMB_TYPE_T5 = RHUMB_TYPE_SCHEME_FIRST + 12,
    RHUMB_TYPE_ALIBI = RHUMB_TYPE_SCHEME_FIRST + 13,
    RHUMB_TYPE_TRANSFORMER_XL = RHUMB_TYPE_SCHEME_FIRST + 14,
    RHUMB_TYPE_XLNET = RHUMB_TYPE_SCHEME_FIRST + 15,
    RHUMB_TYPE_DEBERTA = RHUMB_TYPE_SCHEME_FIRST + 16,
    RHUMB_TYPE_SWIN = RHUMB_TYPE_SCHEME_FIRST + 17,
    RHUMB_TYPE_SWIN_V2 = RHUMB_TYPE_SCHEME_FIRST + 18,
    RHUMB_TYPE_KERPLE = RHUMB_TYPE_SCHEME_FIRST + 19,
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
    rhumb_pairing pairing;      /* default HALF. A wrong one is fluent nonsense: which models
                                   have which is in README.md */
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

/* Where text goes on behind a grid that began at position q. Models of one name were served by both
 * rules; they differ where a grid has more time steps than rows and columns: long videos. */
typedef enum rhumb_mrope_advance {
    RHUMB_MROPE_ADVANCE_LARGEST = 0, /* the grid's largest t, h or w, + 1: Qwen2-VL's paper, earlier
                                        releases of transformers */
    RHUMB_MROPE_ADVANCE_PLANE = 1,   /* q + max(height, width), whatever t is: current
                                        transformers */
} rhumb_mrope_advance;

typedef enum rhumb_mrope_span_kind {
    RHUMB_MROPE_SPAN_TEXT = 0, /* one position for t, h and w, rising by 1 a token */
    RHUMB_MROPE_SPAN_GRID = 1, /* image or video from position q on: t = q + floor(step interval),
                                  h = q + row, w = q + column; columns fastest, then rows */
} rhumb_mrope_span_kind;

/* A part of a sequence: text, or the tokens of one image or video. */
typedef struct rhumb_mrope_span {
    RHUMB_HEADER;
    rhumb_mrope_span_kind kind; /* default TEXT */
    uint32_t length;            /* TEXT: tokens; 0 is none */
    uint32_t time;              /* GRID: steps, 1 (default) for an image; after any merging of
                                   frames: Qwen merges 2 before, ERNIE 4.5 VL in its resampler */
    uint32_t height;            /* GRID: rows and columns of tokens, after merging patches */
    uint32_t width;
    uint32_t padding;
    double interval;            /* GRID: positions per step, 0 or more. Qwen2-VL, ERNIE, Qwen3-VL 1
                                   (default); Qwen2.5-VL tokens_per_second * seconds of a step */
} rhumb_mrope_span;

static inline void rhumb_init_mrope_span(rhumb_mrope_span *s)
{
    RHUMB_INIT_HEADER(s, RHUMB_TYPE_MROPE_SPAN);
    s->kind = RHUMB_MROPE_SPAN_TEXT;
    s->time = 1;
    s->interval = 1.0;
}

/* Positions of one sequence, in the order of `spans`, from position `first` on: rows t, h and w of
 * `positions` [3, L] (`capacity` elements), L into *length, and the position where another span
 * would begin into *next; each may be NULL. `spans` step by element 0's struct_size; `rule` is a
 * rhumb_mrope_advance. Nothing calls this by itself: it is for hosts that have no positions yet,
 * and models differ in what they count as a span (Qwen3-VL has text between the frames of a video,
 * so that each is a grid of one step). A fourth row (INTERLEAVED_EXTRA) is the host's; ggml's is 0.
 *
 * Decoding goes on from *next: the token with index i >= L in the sequence has the position
 * i + delta on every axis, delta = *next - L, also when the cache holds i keys. With ADVANCE_PLANE,
 * transformers counts delta from the largest of all positions instead, + 1 - L, which is more where
 * a long video's t reaches beyond all that follows it.
 *
 * Pure; needs no context. Errors: ARGUMENT (a grid with a size of 0, positions beyond int32, too
 * little room), VERSION; then nothing has been written, and the reason goes to
 * rhumb_last_message(NULL). */
RHUMB_API rhumb_result rhumb_mrope_positions(const rhumb_mrope_span *spans, uint32_t count,
                                             uint32_t rule, int32_t first, int32_t *positions,
                                             uint32_t capacity, uint32_t *length, int32_t *next);

/* -------------------------------------------------------------------------------------------------
 * rope2d: rotary embedding by row and column, for vision towers
 * Source: Heo et al., RoPE-ViT (arXiv 2403.13298), section 3.2 (axial); Fang et al., EVA-02
 * (arXiv 2303.11331); Agrawal et al., Pixtral (arXiv 2410.07073), section 2.1.
 *
 * POSITIONS_Q [1, 2, B, L] holds the row (h) and column (w) index of each token. Half of the R/2
 * pairs turn by one axis, half by the other. The coordinate of an index is scale[axis] * index +
 * offset[axis], computed exactly. R is a multiple of 4; below, j < R/4 counts the pairs of an axis.
 *
 * LEARNED ("mixed"): pair i of head h turns by a F[0, h, i] + c F[1, h, i], a and c the coordinates
 * in the order of `order`, F the view FREQUENCIES {1, 2, heads, R/2} in radians, f32. ROTATE only:
 * angles are of a head, and are not shared. scale is 1 and offset 0. `heads` is that of the tensors
 * in the plan: with K alone kv_heads, and a plan with Q and K wants heads = kv_heads. Where query
 * heads share a key head, rotate Q and K by two plans, with a table each; logits depend on distances
 * only if the query heads of a key head have its frequencies. Frequencies are below 65536 in
 * magnitude; others, and NaN, do not turn.
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
    RHUMB_ROPE2D_LEARNED = 5,      /* of the view FREQUENCIES; both axes in every pair: RoPE-ViT */
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

/* -------------------------------------------------------------------------------------------------
 * sinusoidal: sines and cosines of the position
 * Source: Vaswani et al., Attention Is All You Need (arXiv 1706.03762), section 3.5.
 *
 * ENCODE. Row of position p, D channels, n angles p f_i:
 *     y = x_scale x + pe_scale PE[p + offset]
 * Views: Y [B, 1, L, D]; optional X, POSITIONS, LENGTHS, STATUS. Without POSITIONS row a has the
 * position q_offset + a. The phase is exact at every position.
 */
typedef enum rhumb_frequency_rule {
    RHUMB_FREQUENCY_PAPER = 0,    /* base^(-2i/D): the paper, DETR, MAE, timm */
    RHUMB_FREQUENCY_ENDPOINT = 1, /* base^(-i/(n - 1)), so that the last is 1/base: tensor2tensor,
                                     fairseq, M2M100, Whisper */
} rhumb_frequency_rule;

typedef enum rhumb_sinusoid_layout {
    RHUMB_SINUSOID_INTERLEAVED = 0, /* sin, cos, sin, cos: the paper */
    RHUMB_SINUSOID_SIN_FIRST = 1,   /* all sines, then all cosines: tensor2tensor, fairseq */
    RHUMB_SINUSOID_COS_FIRST = 2,   /* all cosines, then all sines: diffusion time steps */
} rhumb_sinusoid_layout;

typedef enum rhumb_sinusoid_odd {
    RHUMB_SINUSOID_ODD_REFUSED = 0,
    RHUMB_SINUSOID_ODD_ZERO = 1,   /* n = floor(D/2), the last channel is 0: tensor2tensor, fairseq */
    RHUMB_SINUSOID_ODD_NATIVE = 2, /* ceil(D/2) sines, floor(D/2) cosines, divisor D; PAPER, and not
                                      COS_FIRST */
    RHUMB_SINUSOID_ODD_CUT = 3,    /* the table of D + 1 without its last channel */
} rhumb_sinusoid_odd;

typedef struct rhumb_sinusoidal {
    RHUMB_HEADER;
    rhumb_sinusoid_layout layout;   /* default INTERLEAVED */
    rhumb_frequency_rule frequency; /* default PAPER */
    rhumb_sinusoid_odd odd;         /* default ODD_REFUSED */
    int32_t offset;                 /* added to every position; default 0 */
    int32_t padding_index;          /* rows where position + offset equals it are zero; default
                                       RHUMB_UNSET: none */
    uint32_t list_count;            /* elements of `frequencies` */
    double base;                    /* > 1; default 10000 */
    double x_scale;                 /* default 1 */
    double pe_scale;                /* default 1 */
    const double *frequencies;      /* radians per position, below 2 pi in magnitude, one an angle;
                                       NULL: by rule. At most RHUMB_MAX_LISTED_FREQUENCIES */
} rhumb_sinusoidal;

#define RHUMB_MAX_LISTED_FREQUENCIES 576

#define RHUMB_SINUSOIDAL_FIELDS(FIELD)                                                             \
    FIELD(ENUM, layout)                                                                            \
    FIELD(ENUM, frequency)                                                                         \
    FIELD(ENUM, odd)                                                                               \
    FIELD(I32, offset)                                                                             \
    FIELD(I32, padding_index)                                                                      \
    FIELD(F64, base)                                                                               \
    FIELD(F64, x_scale)                                                                            \
    FIELD(F64, pe_scale)                                                                           \
    FIELD(LIST, frequencies)

static inline void rhumb_init_sinusoidal(rhumb_sinusoidal *s)
{
    RHUMB_INIT_HEADER(s, RHUMB_TYPE_SINUSOIDAL);
    s->padding_index = RHUMB_UNSET;
    s->base = 10000.0;
    s->x_scale = 1.0;
    s->pe_scale = 1.0;
}

/* -------------------------------------------------------------------------------------------------
 * learned: a row of a table per position
 * Source: Devlin et al., BERT (arXiv 1810.04805), section 3; Gehring et al. (arXiv 1705.03122).
 *
 * ENCODE: y = x_scale x + pe_scale T[p + offset]. Views: TABLE [P, D], Y; optional X, POSITIONS,
 * LENGTHS, STATUS. Positions that the host gives (q_offset) must lie in the table, else ARGUMENT;
 * those of a view are handled by out_of_range and counted in STATUS.
 * Offsets: BERT, GPT-2, CLIP, ViT 0; OPT, BART 2; RoBERTa 0 for its own position ids, pad_token_id + 1
 * for positions from 0 on.
 */
typedef enum rhumb_out_of_range {
    RHUMB_OUT_OF_RANGE_CLAMP = 0, /* the nearest row */
    RHUMB_OUT_OF_RANGE_ZERO = 1,  /* a row of zeros */
} rhumb_out_of_range;

typedef struct rhumb_learned {
    RHUMB_HEADER;
    rhumb_out_of_range out_of_range; /* default CLAMP */
    int32_t offset;                  /* -2^30 to 2^30; default 0 */
    uint32_t clamp_negative;         /* 1: negative positions count as 0, before the offset, and are
                                        in range (x-transformers); default 0 */
    uint32_t normalize;              /* 1: the row is divided by max(its length, 1e-12)
                                        (x-transformers); default 0 */
    double x_scale;                  /* default 1 */
    double pe_scale;                 /* default 1 */
} rhumb_learned;

#define RHUMB_LEARNED_FIELDS(FIELD)                                                                \
    FIELD(ENUM, out_of_range)                                                                      \
    FIELD(I32, offset)                                                                             \
    FIELD(U32, clamp_negative)                                                                     \
    FIELD(U32, normalize)                                                                          \
    FIELD(F64, x_scale)                                                                            \
    FIELD(F64, pe_scale)

static inline void rhumb_init_learned(rhumb_learned *s)
{
    RHUMB_INIT_HEADER(s, RHUMB_TYPE_LEARNED);
    s->x_scale = 1.0;
    s->pe_scale = 1.0;
}

/* -------------------------------------------------------------------------------------------------
 * sinusoidal2d: sinusoids of row and column, side by side
 * Source: Carion et al., DETR (arXiv 2005.12872), appendix A.4; He et al., MAE (arXiv 2111.06377).
 *
 * ENCODE over a grid of H x W tokens. Each axis gets axis_dim channels by the rule of `sinusoidal`.
 * Views: Y [B, 1, prefix + H W, D], or [B, D, H, W] with OUTPUT_IMAGE; optional X of the same shape;
 * with COORDINATES_VALID, VALID of shape {1, B or 1, H, W}, valid where it is not 0. The result is
 * cut or filled with zeros to D channels.
 */
typedef enum rhumb_axis_order {
    RHUMB_AXIS_ROW_FIRST = 0,    /* the row coordinate has the first channels: DETR, timm */
    RHUMB_AXIS_COLUMN_FIRST = 1, /* the column coordinate: MAE, MoCo-v3; DETR's learned table */
} rhumb_axis_order;

typedef enum rhumb_grid_layout {
    RHUMB_GRID_INTERLEAVED = 0, /* in each axis sin, cos, sin, cos: DETR and its descendants */
    RHUMB_GRID_PER_AXIS = 1,    /* [sin a | cos a | sin b | cos b]: MAE, MoCo-v3, RT-DETR */
    RHUMB_GRID_SIN_COS = 2,     /* [sin a | sin b | cos a | cos b]: timm */
} rhumb_grid_layout;

typedef enum rhumb_token_order {
    RHUMB_TOKENS_ROW_MAJOR = 0,    /* token y W + x */
    RHUMB_TOKENS_COLUMN_MAJOR = 1, /* token x H + y: MoCo-v3, timm with reverse_coord */
} rhumb_token_order;

typedef enum rhumb_grid_coordinates {
    RHUMB_COORDINATES_INDEX = 0, /* coordinate_start + index */
    /* Running sums of VALID along each axis, so 1-based: DETR. With `normalize` they become
     * (sum + center_offset) / (total + epsilon) * coordinate_scale; a quotient by 0 is 0, one above
     * 2^20 counts as 2^20. */
    RHUMB_COORDINATES_VALID = 1,
} rhumb_grid_coordinates;

typedef enum rhumb_grid_output {
    RHUMB_OUTPUT_TOKENS = 0, /* [B, 1, prefix + H W, D] */
    RHUMB_OUTPUT_IMAGE = 1,  /* [B, D, H, W] */
} rhumb_grid_output;

typedef struct rhumb_sinusoidal2d {
    RHUMB_HEADER;
    rhumb_axis_order order;             /* default ROW_FIRST */
    rhumb_grid_layout layout;           /* default INTERLEAVED */
    rhumb_frequency_rule frequency;     /* of D = axis_dim; default PAPER */
    rhumb_token_order tokens;           /* default ROW_MAJOR; an image has no other */
    rhumb_grid_coordinates coordinates; /* default INDEX */
    rhumb_grid_output output;           /* default TOKENS */
    uint32_t grid[2];                   /* H, W; required */
    uint32_t axis_dim;                  /* even; default RHUMB_SAME: D/2 */
    uint32_t prefix_tokens;             /* rows without a position in front: PE is 0; default 0, as it
                                           must be for an image */
    uint32_t normalize;                 /* COORDINATES_VALID; default 0 */
    uint32_t padding;
    double base;                        /* > 1; default 10000; DINO-DETR 20 */
    double coordinate_start;            /* COORDINATES_INDEX; default 0 */
    double coordinate_scale;            /* up to 65536 in magnitude; default 2 pi */
    double epsilon;                     /* 0 to 65536; default 1e-6 */
    double center_offset;               /* likewise in magnitude; default 0; Deformable DETR -0.5 */
    double x_scale;                     /* default 1 */
    double pe_scale;                    /* default 1 */
} rhumb_sinusoidal2d;

#define RHUMB_SINUSOIDAL2D_FIELDS(FIELD)                                                           \
    FIELD(ENUM, order)                                                                             \
    FIELD(ENUM, layout)                                                                            \
    FIELD(ENUM, frequency)                                                                         \
    FIELD(ENUM, tokens)                                                                            \
    FIELD(ENUM, coordinates)                                                                       \
    FIELD(ENUM, output)                                                                            \
    FIELD(U32X2, grid)                                                                             \
    FIELD(U32, axis_dim)                                                                           \
    FIELD(U32, prefix_tokens)                                                                      \
    FIELD(U32, normalize)                                                                          \
    FIELD(F64, base)                                                                               \
    FIELD(F64, coordinate_start)                                                                   \
    FIELD(F64, coordinate_scale)                                                                   \
    FIELD(F64, epsilon)                                                                            \
    FIELD(F64, center_offset)                                                                      \
    FIELD(F64, x_scale)                                                                            \
    FIELD(F64, pe_scale)

static inline void rhumb_init_sinusoidal2d(rhumb_sinusoidal2d *s)
{
    RHUMB_INIT_HEADER(s, RHUMB_TYPE_SINUSOIDAL2D);
    s->axis_dim = RHUMB_SAME;
    s->base = 10000.0;
    s->coordinate_scale = 6.283185307179586;
    s->epsilon = 1e-6;
    s->x_scale = 1.0;
    s->pe_scale = 1.0;
}

/* -------------------------------------------------------------------------------------------------
 * learned2d: a learned table over a grid
 * Source: Dosovitskiy et al., ViT (arXiv 2010.11929), section 3.1; Carion et al., DETR
 * (arXiv 2005.12872) for rows and columns.
 *
 * ENCODE: y = x_scale x + pe_scale PE. Views: TABLE, Y; COLUMN_TABLE with the row/column forms, whose
 * tables may have more rows and columns than the grid; optional X. A table of another grid is
 * resampled first, by RESIZE.
 */
typedef enum rhumb_learned2d_form {
    RHUMB_LEARNED2D_FULL = 0,   /* TABLE [prefix + H W, D], row-major: ViT, DeiT, DINOv2, CLIP */
    RHUMB_LEARNED2D_CONCAT = 1, /* TABLE [rows, D/2] and COLUMN_TABLE [columns, D/2] side by side, in
                                   `order`: DETR learned (column first) */
    RHUMB_LEARNED2D_SUM = 2,    /* TABLE [rows, D] + COLUMN_TABLE [columns, D]: Pix2Struct, NaFlex */
} rhumb_learned2d_form;

typedef struct rhumb_learned2d {
    RHUMB_HEADER;
    rhumb_learned2d_form form;  /* default FULL */
    rhumb_axis_order order;     /* CONCAT; default COLUMN_FIRST */
    rhumb_grid_output output;   /* default TOKENS */
    uint32_t grid[2];           /* H, W; required */
    uint32_t prefix_tokens;     /* class and register tokens in front; default 0, as it must be for an
                                   image */
    uint32_t table_has_prefix;  /* FULL: 1 where the table has rows for the prefix; 0 where they get
                                   nothing added (DeiT-III, registers). Default 1 */
    uint32_t padding;
    double x_scale;             /* default 1 */
    double pe_scale;            /* default 1 */
} rhumb_learned2d;

#define RHUMB_LEARNED2D_FIELDS(FIELD)                                                              \
    FIELD(ENUM, form)                                                                              \
    FIELD(ENUM, order)                                                                             \
    FIELD(ENUM, output)                                                                            \
    FIELD(U32X2, grid)                                                                             \
    FIELD(U32, prefix_tokens)                                                                      \
    FIELD(U32, table_has_prefix)                                                                   \
    FIELD(F64, x_scale)                                                                            \
    FIELD(F64, pe_scale)

static inline void rhumb_init_learned2d(rhumb_learned2d *s)
{
    RHUMB_INIT_HEADER(s, RHUMB_TYPE_LEARNED2D);
    s->order = RHUMB_AXIS_COLUMN_FIRST;
    s->table_has_prefix = 1;
    s->x_scale = 1.0;
    s->pe_scale = 1.0;
}

/* -------------------------------------------------------------------------------------------------
 * resize: a learned table for another grid
 * Source: Keys, Cubic convolution interpolation (1981), a = -0.75, or -0.5 with antialias; the
 * repositories named below.
 *
 * RESIZE. Views: TABLE [prefix + h w + suffix, D] -> Y [prefix + H W + suffix, D]; prefix and suffix
 * rows are copied. Sampling is separable; equal grids are a copy in every mode, unless a
 * scale_factor is other than 0 and 1. Tables of window biases are images of (2 window - 1) per side
 * with a channel per head. Sides are 1 to 16384; those of GEOMETRIC are odd, the new ones up to 255.
 */
typedef enum rhumb_resize_mode {
    RHUMB_RESIZE_BICUBIC = 0,   /* ViT, DeiT, DINO, timm, Swin-v1 */
    RHUMB_RESIZE_BILINEAR = 1,  /* JAX ViT (align_corners), SigLIP, BEiT in hub form */
    RHUMB_RESIZE_GEOMETRIC = 2, /* bilinear over distances that grow by a ratio: timm's and BEiT's
                                   tables of window biases */
} rhumb_resize_mode;

typedef struct rhumb_resize {
    RHUMB_HEADER;
    rhumb_resize_mode mode;   /* default BICUBIC */
    uint32_t antialias;       /* 1: the kernel widens when shrinking, and bicubic has a = -0.5: timm,
                                 DINOv2 with registers. Default 0 */
    uint32_t align_corners;   /* 1: first and last samples coincide; not with antialias; default 0 */
    uint32_t old_grid[2];     /* h, w; required */
    uint32_t new_grid[2];     /* H, W; required */
    uint32_t prefix_tokens;   /* default 0 */
    uint32_t suffix_tokens;   /* default 0 */
    uint32_t padding;
    double scale_factor[2];   /* per axis: source step 1/scale_factor in place of old/new; DINOv2 has
                                 (new + 0.1)/old. Above (new - 0.5)/old and below (new + 1)/old, so
                                 that the factor makes this grid. Not with align_corners or
                                 GEOMETRIC. Default 0: by the grids */
} rhumb_resize;

#define RHUMB_RESIZE_FIELDS(FIELD)                                                                 \
    FIELD(ENUM, mode)                                                                              \
    FIELD(U32, antialias)                                                                          \
    FIELD(U32, align_corners)                                                                      \
    FIELD(U32X2, old_grid)                                                                         \
    FIELD(U32X2, new_grid)                                                                         \
    FIELD(U32, prefix_tokens)                                                                      \
    FIELD(U32, suffix_tokens)                                                                      \
    FIELD(F64X2, scale_factor)

static inline void rhumb_init_resize(rhumb_resize *s)
{
    RHUMB_INIT_HEADER(s, RHUMB_TYPE_RESIZE);
}

/* -------------------------------------------------------------------------------------------------
 * shaw: a learned vector per clipped distance
 * Source: Shaw et al. (arXiv 1803.02155), equations 3 and 4; Huang et al. for BERT's relative_key
 * forms (arXiv 2009.13658).
 *
 *     S = (q . k + q . A[row]) s,  O = sum P (v + V[row]),  row = clamp(x, -clip_left, clip_right)
 *     + clip_left,  x = pos_k - pos_q, or its negative by `index`
 * Views, each optional but one of them: QUERY_TABLE (A), KEY_TABLE (k . C[row]: relative_key_query
 * binds A's table there), VALUE_TABLE (V), TABLE (a scalar per head, for BIAS). Each has
 * clip_left + clip_right + 1 rows. Default scale 1/sqrt(head_dim).
 */
typedef enum rhumb_relative_index {
    RHUMB_KEY_MINUS_QUERY = 0, /* Shaw, tensor2tensor, Wav2Vec2-BERT */
    RHUMB_QUERY_MINUS_KEY = 1, /* BERT and ESM relative_key, SpeechT5 */
} rhumb_relative_index;

typedef enum rhumb_beyond_table {
    RHUMB_BEYOND_CLAMP = 0,  /* the last row */
    RHUMB_BEYOND_REFUSE = 1, /* a plan whose lengths reach such distances is LIMIT: BERT's
                                relative_key, which has no clip */
} rhumb_beyond_table;

typedef struct rhumb_shaw {
    RHUMB_HEADER;
    rhumb_relative_index index; /* default KEY_MINUS_QUERY */
    rhumb_beyond_table beyond;  /* default CLAMP */
    uint32_t clip_left;         /* k; default 16. BERT: max_position_embeddings - 1 on both sides */
    uint32_t clip_right;        /* default 16 */
} rhumb_shaw;

#define RHUMB_SHAW_FIELDS(FIELD)                                                                   \
    FIELD(ENUM, index)                                                                             \
    FIELD(ENUM, beyond)                                                                            \
    FIELD(U32, clip_left)                                                                          \
    FIELD(U32, clip_right)

static inline void rhumb_init_shaw(rhumb_shaw *s)
{
    RHUMB_INIT_HEADER(s, RHUMB_TYPE_SHAW);
    s->clip_left = 16;
    s->clip_right = 16;
}

/* -------------------------------------------------------------------------------------------------
 * music_transformer: a learned vector per distance, nothing beyond the table
 * Source: Huang et al., Music Transformer (arXiv 1809.04281), section 3.4.
 *
 *     S = (q . k + q . A[row]) s,  row = pos_k - pos_q + M - 1; no term where there is no such row
 * Views: QUERY_TABLE [heads or 1, M, D], the last row being distance 0; optional VALUE_TABLE alike.
 * Bidirectional: 2M - 1 rows. Default scale 1/sqrt(head_dim).
 */
typedef struct rhumb_music_transformer {
    RHUMB_HEADER;
    uint32_t max_relative_position; /* M; required */
    uint32_t bidirectional;         /* default 0 */
} rhumb_music_transformer;

#define RHUMB_MUSIC_TRANSFORMER_FIELDS(FIELD)                                                      \
    FIELD(U32, max_relative_position)                                                              \
    FIELD(U32, bidirectional)

static inline void rhumb_init_music_transformer(rhumb_music_transformer *s)
{
    RHUMB_INIT_HEADER(s, RHUMB_TYPE_MUSIC_TRANSFORMER);
}

/* -------------------------------------------------------------------------------------------------
 * t5: a learned scalar per logarithmic bucket of the distance
 * Source: Raffel et al., T5 (arXiv 1910.10683), section 2.1.
 *
 *     S = q . k s + bias_scale TABLE[bucket(pos_k - pos_q)][h]
 * Default scale 1: T5 has no 1/sqrt(head_dim). MPNet, LayoutLMv2 and WavLM have it; LayoutLMv3 also
 * scales the bias. Views: TABLE [num_buckets, heads]; optional ROW_SCALE (WavLM's gate).
 */
typedef struct rhumb_t5 {
    RHUMB_HEADER;
    uint32_t num_buckets;   /* bidirectional: even, 4 or more; else 2 or more. Default 32 */
    uint32_t max_distance;  /* above the exact buckets; default 128 */
    uint32_t bidirectional; /* encoder 1, decoder 0. Default 1 */
    uint32_t padding;
    double bias_scale;      /* default 1 */
} rhumb_t5;

#define RHUMB_T5_FIELDS(FIELD)                                                                     \
    FIELD(U32, num_buckets)                                                                        \
    FIELD(U32, max_distance)                                                                       \
    FIELD(U32, bidirectional)                                                                      \
    FIELD(F64, bias_scale)

static inline void rhumb_init_t5(rhumb_t5 *s)
{
    RHUMB_INIT_HEADER(s, RHUMB_TYPE_T5);
    s->num_buckets = 32;
    s->max_distance = 128;
    s->bidirectional = 1;
    s->bias_scale = 1.0;
}

/* -------------------------------------------------------------------------------------------------
 * alibi: a slope per head times the distance
 * Source: Press et al., ALiBi (arXiv 2108.12409), section 3.
 *
 *     S = q . k s - m_h |pos_q - pos_k|
 * No tables. Forms differ in a number per row, which softmax does not see under a causal mask.
 * ATTENTION without SINKS, LSE and positions of both sides computes KEY_INDEX and LAST_KEY as
 * RELATIVE, whose numbers stay small.
 */
typedef enum rhumb_alibi_slopes {
    RHUMB_ALIBI_SLOPES_PAPER = 0, /* 2^(-c (h+1)/n) for the n = 2^floor(log2 H) first heads, then the
                                     odd members of the series of 2n: ALiBi, BLOOM, MPT, Falcon */
    RHUMB_ALIBI_SLOPES_CLOSED_FORM = 1, /* 2^(-c (h+1)/H) for any H */
    RHUMB_ALIBI_SLOPES_EXPLICIT = 2,    /* left_slopes, right_slopes */
} rhumb_alibi_slopes;

typedef enum rhumb_alibi_form {
    RHUMB_ALIBI_SYMMETRIC = 0,    /* -m |pos_q - pos_k|: encoders, MPT "full", MosaicBERT, Jina */
    RHUMB_ALIBI_RELATIVE = 1,     /* m (pos_k - pos_q): the paper's figure; causal only */
    RHUMB_ALIBI_KEY_INDEX = 2,    /* m j: the first release, BLOOM, Falcon */
    RHUMB_ALIBI_LAST_KEY = 3,     /* m (j - (Lk - 1)): MPT causal */
    RHUMB_ALIBI_KEY_POSITION = 4, /* m POSITIONS_K[b, j]: BLOOM and Falcon with padding, the count of
                                     real tokens before, 0 for padding */
} rhumb_alibi_form;

#define RHUMB_MAX_SLOPES 256u /* heads */

typedef struct rhumb_alibi {
    RHUMB_HEADER;
    rhumb_alibi_slopes slopes; /* default PAPER */
    rhumb_alibi_form form;     /* default SYMMETRIC */
    uint32_t sloped_heads;     /* the first heads, with the slopes of so many; the others have no bias
                                  (x-transformers). Default RHUMB_SAME: all */
    uint32_t bias_times_scale; /* 1: S = (q . k + bias) s: Falcon. Default 0 */
    uint32_t list_count;       /* elements of each list: heads */
    uint32_t padding;
    double bias_max;           /* c; > 0; default 8 */
    const double *left_slopes; /* EXPLICIT: of keys in the past */
    const double *right_slopes; /* EXPLICIT, SYMMETRIC: of keys in the future; NULL: the same */
} rhumb_alibi;

#define RHUMB_ALIBI_FIELDS(FIELD)                                                                  \
    FIELD(ENUM, slopes)                                                                            \
    FIELD(ENUM, form)                                                                              \
    FIELD(U32, sloped_heads)                                                                       \
    FIELD(U32, bias_times_scale)                                                                   \
    FIELD(F64, bias_max)                                                                           \
    FIELD(LIST, left_slopes)                                                                       \
    FIELD(LIST, right_slopes)

static inline void rhumb_init_alibi(rhumb_alibi *s)
{
    RHUMB_INIT_HEADER(s, RHUMB_TYPE_ALIBI);
    s->sloped_heads = RHUMB_SAME;
    s->bias_max = 8.0;
}

/* -------------------------------------------------------------------------------------------------
 * transformer_xl: content and position terms over segments with memory
 * Source: Dai et al., Transformer-XL (arXiv 1901.02860), section 3.3.
 *
 *     S = ((q + u) . k + (q + w) . A[row] + r[row]) s,  row = table_zero + pos_q - pos_k, or
 *     table_zero - (pos_q - pos_k) with LEARNED; no term where there are no rows for the future
 * Memory is keys before the segment: q_offset = k_length - q_length. Views: CONTENT_BIAS (u),
 * QUERY_TABLE (A); SINUSOIDAL: POSITION_BIAS (w), or none of it and TABLE_SCALAR = (w - u) . A as
 * PROJECT writes it: then A meets q + u. LEARNED: TABLE_SCALAR (r), A meets q.
 * A [heads, rows, head_dim] is made once for a length: ENCODE writes the sinusoid of each row's
 * distance (`sinusoidal` with SIN_FIRST and offset -table_zero; INTERLEAVED in Wav2Vec2-Conformer
 * and ESPnet), PROJECT multiplies it by W_r. plan_properties has table_rows and table_zero.
 * SINUSOIDAL tables have rows for distances 0 to n, n = clamp_len, or without one the larger of the
 * plan's maximum lengths less one; bidirectional: -n to n. A record without a clamp whose q_offset
 * leads beyond is LIMIT.
 */
typedef enum rhumb_xl_variant {
    RHUMB_XL_SINUSOIDAL = 0,
    RHUMB_XL_LEARNED = 1, /* attn_type 1: a table of table_rows rows, the last for distance 0; the
                             first also serves all larger distances */
} rhumb_xl_variant;

typedef struct rhumb_transformer_xl {
    RHUMB_HEADER;
    rhumb_xl_variant variant; /* default SINUSOIDAL */
    uint32_t clamp_len;       /* SINUSOIDAL: larger distances count as this one; default 0: none */
    uint32_t table_rows;      /* LEARNED: required */
    uint32_t bidirectional;   /* 1: also rows for keys in the future; default 0 */
    uint32_t folded;          /* SINUSOIDAL: 1 where TABLE_SCALAR stands for w; default 0 */
    uint32_t padding;
} rhumb_transformer_xl;

#define RHUMB_TRANSFORMER_XL_FIELDS(FIELD)                                                         \
    FIELD(ENUM, variant)                                                                           \
    FIELD(U32, clamp_len)                                                                          \
    FIELD(U32, table_rows)                                                                         \
    FIELD(U32, bidirectional)                                                                      \
    FIELD(U32, folded)

static inline void rhumb_init_transformer_xl(rhumb_transformer_xl *s)
{
    RHUMB_INIT_HEADER(s, RHUMB_TYPE_TRANSFORMER_XL);
}

/* -------------------------------------------------------------------------------------------------
 * xlnet: Transformer-XL in both directions, and a segment term
 * Source: Yang et al., XLNet (arXiv 1906.08237), sections 2.4 and 2.5.
 *
 *     S = ((q + u) . k + (q + w) . A[row] + (q + z) . G[same segment ? 0 : 1]) s
 * Rows and views as transformer_xl's SINUSOIDAL, on both sides also with flip_half. The segment
 * term with SEGMENT_BIAS (z), SEGMENT_TABLE (G), SEGMENTS_Q and SEGMENTS_K, all or none of them; keys of
 * memory have segment 0.
 */
typedef struct rhumb_xlnet {
    RHUMB_HEADER;
    uint32_t bidirectional;  /* attn_type "bi" 1, "uni" 0. Default 1 */
    uint32_t flip_half;      /* bi_data: distances of the batch's second half change sign; default 0 */
    uint32_t clamp_len;      /* both signs; default 0: none */
    uint32_t folded;         /* as in rhumb_transformer_xl */
} rhumb_xlnet;

#define RHUMB_XLNET_FIELDS(FIELD)                                                                  \
    FIELD(U32, bidirectional)                                                                      \
    FIELD(U32, flip_half)                                                                          \
    FIELD(U32, clamp_len)                                                                          \
    FIELD(U32, folded)

static inline void rhumb_init_xlnet(rhumb_xlnet *s)
{
    RHUMB_INIT_HEADER(s, RHUMB_TYPE_XLNET);
    s->bidirectional = 1;
}

/* -------------------------------------------------------------------------------------------------
 * deberta: content-to-position and position-to-content, disentangled
 * Source: He et al., DeBERTa (arXiv 2006.03654), section 3.1; DeBERTaV3 (arXiv 2111.09543).
 *
 *     S = (q . k + q . A[row] + k . C[row]) s,  row = clamp(bucket(pos_q - pos_k) + span, 0,
 *     2 span - 1),  s = 1/sqrt((1 + terms) head_dim) by default
 * Views: QUERY_TABLE (A, content to position) and KEY_TABLE (C, position to content), each optional
 * but one; [heads, 2 span, head_dim]. PROJECT makes both from the relative embeddings: A with the
 * key projection, C with the query projection, biases included.
 */
typedef enum rhumb_p2c_index {
    RHUMB_P2C_CODE = 0,  /* C's row is A's: the released code and weights */
    RHUMB_P2C_PAPER = 1, /* with query and key exchanged: the paper's formula */
} rhumb_p2c_index;

typedef struct rhumb_deberta {
    RHUMB_HEADER;
    uint32_t position_buckets;       /* v2, v3: span, logarithmic buckets; 0 (default): v1, span is
                                        max_relative_positions */
    uint32_t max_relative_positions; /* default 512 */
    uint32_t clamp_input;            /* v2: distances are clamped below max_relative_positions before
                                        the bucket, as in the original code; 0: PyTorch port, which
                                        reads row 0 beyond. Default 1 */
    rhumb_p2c_index p2c_index;       /* default CODE */
} rhumb_deberta;

#define RHUMB_DEBERTA_FIELDS(FIELD)                                                                \
    FIELD(U32, position_buckets)                                                                   \
    FIELD(U32, max_relative_positions)                                                             \
    FIELD(U32, clamp_input)                                                                        \
    FIELD(ENUM, p2c_index)

static inline void rhumb_init_deberta(rhumb_deberta *s)
{
    RHUMB_INIT_HEADER(s, RHUMB_TYPE_DEBERTA);
    s->max_relative_positions = 512;
    s->clamp_input = 1;
}

/* -------------------------------------------------------------------------------------------------
 * swin: a learned scalar per offset inside a window
 * Source: Liu et al., Swin (arXiv 2103.14030), section 3.2; Bao et al., BEiT (arXiv 2106.08254) for
 * the class token.
 *
 *     S = q . k s + TABLE[(y_q - y_k + Wh - 1)(2 Ww - 1) + x_q - x_k + Ww - 1][h] + mask
 * Layouts: with grid {0, 0} a batch entry is one window of prefix + Wh Ww tokens. With a grid it is
 * an image of H W tokens in row-major order, cut into windows after a cyclic shift; tokens of a
 * window that the shift brought together get mask_value added. Lq = Lk = tokens of a batch entry;
 * SCORES is over windows: [windows B, heads, N, N]; BIAS is one window, or with a shift
 * [windows, heads, N, N], mask included. Views: TABLE [(2 Wh - 1)(2 Ww - 1)
 * (+ 3 with a class token: class to token, token to class, class to class), heads].
 */
typedef enum rhumb_window_padding {
    RHUMB_WINDOW_EXACT = 0,          /* windows must tile the grid */
    RHUMB_WINDOW_PAD_THEN_SHIFT = 1, /* zeros at the bottom and right, shift modulo the padded size:
                                        hub form, detection code */
    RHUMB_WINDOW_SHIFT_THEN_PAD = 2, /* shift modulo the grid, then zeros: timm */
} rhumb_window_padding; /* padding tokens have q = k = v = 0 and are keys like others */

typedef struct rhumb_swin {
    RHUMB_HEADER;
    uint32_t window[2];           /* Wh, Ww; required */
    uint32_t grid[2];             /* H, W, or {0, 0}; default {0, 0} */
    uint32_t shift[2];            /* below the window; with a grid; default {0, 0} */
    uint32_t prefix_tokens;       /* 0 or 1 class token, without a grid; default 0 */
    rhumb_window_padding padding; /* default EXACT */
    double mask_value;            /* finite; default -100 */
} rhumb_swin;

#define RHUMB_SWIN_FIELDS(FIELD)                                                                   \
    FIELD(U32X2, window)                                                                           \
    FIELD(U32X2, grid)                                                                             \
    FIELD(U32X2, shift)                                                                            \
    FIELD(U32, prefix_tokens)                                                                      \
    FIELD(ENUM, padding)                                                                           \
    FIELD(F64, mask_value)

static inline void rhumb_init_swin(rhumb_swin *s)
{
    RHUMB_INIT_HEADER(s, RHUMB_TYPE_SWIN);
    s->mask_value = -100.0;
}

/* -------------------------------------------------------------------------------------------------
 * swin_v2: a continuous bias over offsets inside a window, and cosine attention
 * Source: Liu et al., Swin V2 (arXiv 2111.09883), sections 3.2 and 3.3.
 *
 *     S = cos(q, k) exp(min(HEAD_SCALE[h], max_log_scale)) + TABLE[row][h] + mask
 * Rows, windows and masks as in swin. TABLE is what PROJECT writes, once for a set of weights:
 * bias_gain sigmoid(W2 relu(W1 c + b1)) at the log-spaced coordinates c of each offset. Views of
 * PROJECT: X = W1 [hidden, 2], OFFSET = b1 [hidden], WEIGHT = W2 [heads, hidden], Y = TABLE. ENCODE
 * writes the coordinates themselves: Y [1, 1, rows, 2]. PROJECT takes rows and channels from the
 * scheme: head_dim and max_q_length say nothing there, 1 will do.
 */
typedef struct rhumb_swin_v2 {
    RHUMB_HEADER;
    uint32_t window[2];            /* as in rhumb_swin */
    uint32_t grid[2];
    uint32_t shift[2];
    uint32_t pretrained_window[2]; /* divisor of the coordinates; {0, 0} (default): window */
    rhumb_window_padding padding;
    uint32_t hidden;               /* PROJECT: units of the hidden layer; default 512 */
    double mask_value;             /* default -100 */
    double bias_gain;              /* default 16 */
    double max_log_scale;          /* default ln 100 */
    double epsilon;                /* shortest length of q, k; 1e-18 to 1; default 1e-12 */
} rhumb_swin_v2;

#define RHUMB_SWIN_V2_FIELDS(FIELD)                                                                \
    FIELD(U32X2, window)                                                                           \
    FIELD(U32X2, grid)                                                                             \
    FIELD(U32X2, shift)                                                                            \
    FIELD(U32X2, pretrained_window)                                                                \
    FIELD(ENUM, padding)                                                                           \
    FIELD(U32, hidden)                                                                             \
    FIELD(F64, mask_value)                                                                         \
    FIELD(F64, bias_gain)                                                                          \
    FIELD(F64, max_log_scale)                                                                      \
    FIELD(F64, epsilon)

static inline void rhumb_init_swin_v2(rhumb_swin_v2 *s)
{
    RHUMB_INIT_HEADER(s, RHUMB_TYPE_SWIN_V2);
    s->hidden = 512;
    s->mask_value = -100.0;
    s->bias_gain = 16.0;
    s->max_log_scale = 4.605170185988092;
    s->epsilon = 1e-12;
}

/* -------------------------------------------------------------------------------------------------
 * kerple: a logarithm of the distance, learned per head
 * Source: Chi et al., KERPLE (arXiv 2205.09921), the logarithmic form.
 *
 *     S = q . k s - r1_h ln(1 + r2_h |pos_q - pos_k|)
 * View TABLE [2, heads]: row 0 r1, row 1 r2, both above 0 and learned for each layer; they are used
 * as they are and not looked at: a model that keeps them above a floor, as the authors' code does,
 * has done so before. No parameters. The bias is added after the scale (the authors' code, on
 * GPT-NeoX); where a model adds it before, softmax sees the same with r1 times the scale.
 * The error in float32 is at most 6 * 2^-23 r1 (1 + ln(1 + r2 |distance|)), of which log2 of the
 * device has the part that Vulkan allows it.
 */
typedef struct rhumb_kerple {
    RHUMB_HEADER;
} rhumb_kerple;

#define RHUMB_KERPLE_FIELDS(FIELD)

static inline void rhumb_init_kerple(rhumb_kerple *s)
{
    RHUMB_INIT_HEADER(s, RHUMB_TYPE_KERPLE);
}

/* The row of the scheme's tables for each distance delta = pos_k - pos_q, of the first half of a
 * batch; -1 where there is no term. `scheme` is any relative scheme struct with tables over the
 * distance (not alibi, kerple, swin, swin_v2). The maximum lengths are for transformer_xl and xlnet, whose
 * tables follow them. Pure; needs no context. Errors: ARGUMENT, VERSION, UNSUPPORTED; the reason
 * goes to rhumb_last_message(NULL). */
RHUMB_API rhumb_result rhumb_relative_rows(const void *scheme, uint32_t max_q_length,
                                           uint32_t max_k_length, const int32_t *delta,
                                           uint32_t count, int32_t *row);

/* The slopes m_h of `heads` heads, in double. `right`, of keys in the future, may be NULL. Pure.
 * Errors: ARGUMENT, VERSION. */
RHUMB_API rhumb_result rhumb_alibi_slopes_of(const rhumb_alibi *alibi, uint32_t heads, double *left,
                                             double *right);

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
