/* The shapes that `rhumb check` runs, and the scheme struct of each. */
#ifndef RHUMB_TOOLS_CHECK_SHAPES_H
#define RHUMB_TOOLS_CHECK_SHAPES_H

#include "gpu.h"

typedef enum check_positions {
    POSITIONS_ARANGE = 0, /* q_offset + row */
    POSITIONS_SHARED,     /* one list for all batches */
    POSITIONS_BATCH,      /* a list for each, with large and repeated numbers */
} check_positions;

typedef enum check_scheme {
    CHECK_ROPE = 0,
    CHECK_XPOS,
    CHECK_MROPE,
    CHECK_ROPE2D,
} check_scheme;

/* A shape. Zero means the usual: kv_heads as heads, value_dim as head_dim, window none, batch 1.
 * Sizes are primes or odd where it does not matter, so that nothing fits a tile by chance. */
typedef struct check_shape {
    const char *name;
    rhumb_op op;
    uint32_t batch;
    uint32_t heads;
    uint32_t kv_heads;
    uint32_t q_rows;
    uint32_t k_rows;
    uint32_t head_dim;
    uint32_t value_dim;
    bool rotary;             /* ATTENTION: Q is rotated when it is loaded */
    rhumb_pairing pairing;
    uint32_t rotary_dim;     /* 0: the whole head */
    uint32_t rotary_offset;
    double base;             /* 0: 10000 */
    check_scheme scheme;
    rhumb_rope_scaling scaling; /* LINEAR, YARN and LLAMA3 by 8 from 4096; LONGROPE: see the code */
    uint32_t length;         /* for frequencies that follow it */
    rhumb_mrope_order order; /* MROPE */
    bool columns_first;      /* ROPE2D */
    bool per_axis;           /* ROPE2D: partners within each half of the window */
    bool centred;            /* ROPE2D: periods, coordinates from -1 to 1 */
    check_positions positions;
    int32_t q_offset;
    bool q_offset_unset;
    bool in_place;
    bool inverse;
    bool causal;
    bool by_position;        /* visibility by position views, keys in ring order */
    bool lengths;            /* each batch entry its own lengths, from the device buffer */
    int32_t window_left;
    int32_t window_right;    /* with window_left only */
    bool dtypes;             /* in f16 and bf16 too, without being asked for all */
    bool variants;           /* in f32 on the variants that would not be chosen, likewise */
} check_shape;

extern const check_shape check_shapes[];
extern const size_t check_shape_count;

/* The scheme struct of a shape; its pointers lead into itself. */
typedef struct check_rotary {
    rhumb_rope rope;
    rhumb_xpos xpos;
    rhumb_mrope mrope;
    rhumb_rope2d rope2d;
    double short_factors[288];
    double long_factors[288];
    const void *scheme; /* one of them */
    const char *name;
} check_rotary;

void check_make_rotary(const check_shape *shape, check_rotary *rotary);

#endif /* RHUMB_TOOLS_CHECK_SHAPES_H */
