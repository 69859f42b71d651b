/* Runs SCORES, or ATTENTION unfused, of one scheme and shape on a profile, and compares with the
 * double-precision reference. */
#ifndef RHUMB_TESTS_SHAPES_RELATIVE_H
#define RHUMB_TESTS_SHAPES_RELATIVE_H

#include "shapes.h"
#include "shapes_around.h"

typedef enum relative_family {
    RELATIVE_PLAIN,         /* no scheme */
    RELATIVE_SHAW,          /* clips 3 and 2; A, V; by_key: C as well */
    RELATIVE_SHAW_MIRRORED, /* query minus key */
    RELATIVE_MUSIC,         /* 7 distances */
    RELATIVE_MUSIC_BOTH,
    RELATIVE_T5, /* 8 buckets up to 20 */
    RELATIVE_T5_CAUSAL,
    RELATIVE_T5_GATED, /* ROW_SCALE, bias_scale 0.5 */
    RELATIVE_ALIBI,
    RELATIVE_ALIBI_INDEX, /* KEY_INDEX, inside the scale */
    RELATIVE_ALIBI_LAST,
    RELATIVE_XL,        /* sinusoidal: A, u, w */
    RELATIVE_XL_CLAMP,  /* clamp_len 5 */
    RELATIVE_XL_FOLDED, /* r in place of w, A meets q + u */
    RELATIVE_XL_LEARNED,
    RELATIVE_XLNET,         /* segments, flip_half */
    RELATIVE_DEBERTA,       /* A and C, span 4 */
    RELATIVE_DEBERTA_LOG,   /* 8 buckets up to 20 */
    RELATIVE_DEBERTA_PAPER, /* C's row is that of the exchanged pair */
    RELATIVE_SWIN,          /* a window of 3 x 2: 6 rows and keys */
    RELATIVE_SWIN_V2,
    RELATIVE_ROTARY, /* Q is rotated when it is loaded */
    RELATIVE_FAMILIES,
} relative_family;

typedef struct relative_shape {
    relative_family family;
    uint32_t batch;    /* 0: 1 */
    uint32_t heads;    /* 0: 1 */
    uint32_t kv_heads; /* 0: heads */
    uint32_t q_rows;
    uint32_t k_rows;
    uint32_t head_dim;
    rhumb_dtype dtype; /* of Q, K and V */
    rhumb_dtype dtype_o;
    rhumb_dtype dtype_table; /* of vectors and TABLE */
    harness_layout layout;   /* of Q, K, V and O */
    harness_layout layout_table;
    bool shared_tables; /* one for all heads, where the scheme allows it */
    bool offset_given;
    int32_t q_offset; /* else bottom-right */
    shape_positions positions; /* of POSITIONS_Q and POSITIONS_K; SHAPE_ARANGE: no views */
    /* ATTENTION */
    bool causal;
    bool windowed; /* the next two hold */
    int32_t window_left;
    int32_t window_right;
    shape_around around;
    bool poison;     /* NaN in keys and values that no row sees */
    bool poison_future; /* causal SHAW: NaN in rows of VALUE_TABLE for keys to come */
    uint32_t plan_k; /* the plan's max_k_length; 0: k_rows */
    rhumb_variant variant; /* AUTO: UNFUSED, or with the next what the plan chooses */
    bool automatic;
    bool workspace; /* WORKSPACE, which UNFUSED always has */
} relative_shape;

/* The shape as SCORES, and as ATTENTION. */
bool shape_run_scores(harness *h, const relative_shape *shape);
bool shape_run_relative(harness *h, const relative_shape *shape); /* or `variant` */

/* Two runs of batch entries that are equal: alone, and as the last of a batch of three (the second
 * half of the batch where the scheme tells halves apart). Same bits. */
bool shape_same_bits_for_any_batch(harness *h, const relative_shape *shape);

#endif
