/* One block per scheme: what it is, its source, its parameters. A scheme struct is named by
 * plan_info.rotary or plan_info.scheme; rhumb copies it when the plan is made.
 *
 * RHUMB_SCHEMES lists all of them; each has a RHUMB_<NAME>_FIELDS list, from which reading
 * parameters as JSON and printing them follow. FIELD(kind, member): kind is U32, F64 or ENUM. */
#ifndef RHUMB_SCHEMES_H
#define RHUMB_SCHEMES_H

#include "rhumb.h"

#ifdef __cplusplus
extern "C" {
#endif

/* X(UPPER, lower, kind): kind is rotary or relative. */
#define RHUMB_SCHEMES(X) X(ROPE, rope, rotary)

typedef enum rhumb_scheme_type {
    RHUMB_TYPE_ROPE = RHUMB_TYPE_SCHEME_FIRST + 1,
} rhumb_scheme_type;

/* -------------------------------------------------------------------------------------------------
 * rope: rotary position embedding
 * Source: Su et al., RoFormer (arXiv 2104.09864), section 3.2.2; linear position interpolation:
 * Chen et al. (arXiv 2306.15595), section 3.2.
 *
 * Pair i of the rotary window turns by p * f_i, f_i = base^(-2i / rotary_dim) / s, where p is the
 * position and s the factor of linear scaling (1 without scaling).
 */
typedef enum rhumb_pairing {
    RHUMB_PAIRING_INTERLEAVED = 0, /* pair i is channels 2i, 2i+1: GPT-J, RoFormer, Cohere, GLM,
                                      Llama (Meta, GGUF) */
    RHUMB_PAIRING_HALF = 1,        /* channels i, i + rotary_dim/2: GPT-NeoX, Llama (hub), Mistral,
                                      Qwen, Gemma, Phi */
} rhumb_pairing;

typedef enum rhumb_rope_scaling {
    RHUMB_ROPE_SCALING_NONE = 0,
    RHUMB_ROPE_SCALING_LINEAR = 1, /* all frequencies divided by factor */
} rhumb_rope_scaling;

#define RHUMB_WHOLE_HEAD UINT32_MAX

typedef struct rhumb_rope {
    RHUMB_HEADER;
    rhumb_pairing pairing;      /* default HALF. A wrong one is fluent nonsense: see the
                                   table in README */
    rhumb_rope_scaling scaling; /* default NONE */
    uint32_t rotary_dim;        /* channels that turn; even, 2 to head_dim - rotary_offset. Default
                                   RHUMB_WHOLE_HEAD */
    uint32_t rotary_offset;     /* first channel that turns; default 0 */
    double base;                /* > 0, finite; default 10000 */
    double factor;              /* s of LINEAR; >= 1; default 1 */
    double attention_factor;    /* magnitude of the rotated channels, in cos and sin;
                                   > 0; default 1 */
} rhumb_rope;

#define RHUMB_ROPE_FIELDS(FIELD)                                                                   \
    FIELD(ENUM, pairing)                                                                           \
    FIELD(ENUM, scaling)                                                                           \
    FIELD(U32, rotary_dim)                                                                         \
    FIELD(U32, rotary_offset)                                                                      \
    FIELD(F64, base)                                                                               \
    FIELD(F64, factor)                                                                             \
    FIELD(F64, attention_factor)

static inline void rhumb_init_rope(rhumb_rope *s)
{
    RHUMB_INIT_HEADER(s, RHUMB_TYPE_ROPE);
    s->pairing = RHUMB_PAIRING_HALF;
    s->scaling = RHUMB_ROPE_SCALING_NONE;
    s->rotary_dim = RHUMB_WHOLE_HEAD;
    s->rotary_offset = 0;
    s->base = 10000.0;
    s->factor = 1.0;
    s->attention_factor = 1.0;
}

/* The frequencies f_i in radians per position, in double: rotary_dim / 2 of them into `frequencies`
 * (capacity elements), and how many into *count. With head_dim for RHUMB_WHOLE_HEAD. `rotary` is
 * any rotary scheme struct. Pure; needs no context. Errors: ARGUMENT, VERSION; the reason goes to
 * rhumb_last_message(NULL). */
RHUMB_API rhumb_result rhumb_rotary_frequencies(const void *rotary, uint32_t head_dim,
                                                double *frequencies, uint32_t capacity,
                                                uint32_t *count, double *magnitude);

#ifdef __cplusplus
}
#endif

#endif /* RHUMB_SCHEMES_H */
