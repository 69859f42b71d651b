/* ATTENTION: the fused kernel of each variant against the definition. Shapes are many and small,
 * and lengths are primes and neighbours of tile sizes; kernels are few, since compiling one takes a
 * software driver longer than running it a hundred times. */
#include "shapes.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define GENERIC .variant = RHUMB_VARIANT_GENERIC
#define TILE .variant = RHUMB_VARIANT_TILE
#define DECODE .variant = RHUMB_VARIANT_DECODE
#define F16 .dtype_q = RHUMB_F16, .dtype_k = RHUMB_F16, .dtype_v = RHUMB_F16, .dtype_o = RHUMB_F16
#define BF16                                                                                       \
    .dtype_q = RHUMB_BF16, .dtype_k = RHUMB_BF16, .dtype_v = RHUMB_BF16, .dtype_o = RHUMB_BF16
#define CACHE16 .dtype_k = RHUMB_F16, .dtype_v = RHUMB_F16
#define OFFSET(n) .offset_given = true, .q_offset = (n)
#define WINDOW(l, r) .windowed = true, .window_left = (l), .window_right = (r)
/* A row that sees no key, and loops over none. */
#define PAST_THE_KEYS(variant, d, left, n)                                                         \
    {variant, .heads = 2, .q_rows = 4, .k_rows = 40, .head_dim = (d), .causal = true,              \
     WINDOW(left, RHUMB_NO_WINDOW), OFFSET(n), .poison = SHAPE_NAN_HIDDEN}
#define PAST_THE_KEYS_ON_DEVICE(variant, d, left, n)                                               \
    {variant, .heads = 2, .q_rows = 4, .k_rows = 40, .head_dim = (d), .causal = true,              \
     .lengths = true, WINDOW(left, RHUMB_NO_WINDOW), OFFSET(n), .poison = SHAPE_NAN_HIDDEN}
#define ROWS {.by_rows = true}
#define ODD {.row_pad = 3, .offset = 1}

/* One pipeline: the generic form, f32, head size at run time. */
static const attention_shape generic_table[] = {
    /* head sizes */
    {GENERIC, .heads = 2, .q_rows = 5, .k_rows = 7, .head_dim = 1},
    {GENERIC, .heads = 2, .q_rows = 33, .k_rows = 31, .head_dim = 8, .causal = true},
    {GENERIC, .heads = 2, .q_rows = 2, .k_rows = 63, .head_dim = 40},
    {GENERIC, .heads = 1, .q_rows = 31, .k_rows = 33, .head_dim = 63, .causal = true},
    {GENERIC, .heads = 2, .q_rows = 33, .k_rows = 127, .head_dim = 64},
    {GENERIC, .heads = 1, .q_rows = 3, .k_rows = 129, .head_dim = 72},
    {GENERIC, .heads = 1, .q_rows = 9, .k_rows = 33, .head_dim = 80, .causal = true},
    {GENERIC, .heads = 1, .q_rows = 9, .k_rows = 31, .head_dim = 96},
    {GENERIC, .heads = 1, .q_rows = 9, .k_rows = 31, .head_dim = 112},
    {GENERIC, .heads = 1, .q_rows = 7, .k_rows = 65, .head_dim = 128, .causal = true},
    {GENERIC, .heads = 1, .q_rows = 3, .k_rows = 31, .head_dim = 160},
    {GENERIC, .heads = 1, .q_rows = 3, .k_rows = 31, .head_dim = 192, .value_dim = 128},
    {GENERIC, .heads = 1, .q_rows = 3, .k_rows = 31, .head_dim = 256},
    {GENERIC, .heads = 1, .q_rows = 5, .k_rows = 33, .head_dim = 576, .value_dim = 512,
     .causal = true},
    {GENERIC, .heads = 1, .q_rows = 5, .k_rows = 33, .head_dim = 3, .value_dim = 576},
    {GENERIC, .heads = 1, .q_rows = 5, .k_rows = 33, .head_dim = 64, .value_dim = 1},
    /* lengths */
    {GENERIC, .q_rows = 1, .k_rows = 1, .head_dim = 8},
    {GENERIC, .q_rows = 1, .k_rows = 2, .head_dim = 8, .causal = true},
    {GENERIC, .q_rows = 2, .k_rows = 1, .head_dim = 8, .causal = true},
    {GENERIC, .q_rows = 63, .k_rows = 63, .head_dim = 8, .causal = true},
    {GENERIC, .q_rows = 127, .k_rows = 129, .head_dim = 8, .causal = true},
    {GENERIC, .q_rows = 129, .k_rows = 127, .head_dim = 8, .causal = true},
    {GENERIC, .q_rows = 1, .k_rows = 257, .head_dim = 8},
    /* heads: group g of query heads reads key/value head g; groups of all sizes */
    {GENERIC, .heads = 4, .kv_heads = 2, .q_rows = 3, .k_rows = 5, .head_dim = 8},
    {GENERIC, .batch = 2, .heads = 6, .kv_heads = 2, .q_rows = 5, .k_rows = 9, .head_dim = 8,
     .causal = true},
    {GENERIC, .heads = 14, .kv_heads = 2, .q_rows = 5, .k_rows = 9, .head_dim = 8, .causal = true},
    {GENERIC, .heads = 17, .kv_heads = 1, .q_rows = 5, .k_rows = 9, .head_dim = 8, .causal = true},
    {GENERIC, .heads = 40, .kv_heads = 1, .q_rows = 3, .k_rows = 9, .head_dim = 8, .causal = true},
    /* visibility by index */
    {GENERIC, .heads = 2, .q_rows = 9, .k_rows = 9, .head_dim = 8, .causal = true, OFFSET(0)},
    {GENERIC, .heads = 2, .q_rows = 9, .k_rows = 40, .head_dim = 8, .causal = true, OFFSET(0)},
    {GENERIC, .heads = 2, .q_rows = 9, .k_rows = 40, .head_dim = 8, .causal = true, OFFSET(17)},
    {GENERIC, .heads = 2, .q_rows = 9, .k_rows = 40, .head_dim = 8, .causal = true, OFFSET(1000)},
    {GENERIC, .heads = 2, .q_rows = 9, .k_rows = 40, .head_dim = 8, .causal = true, OFFSET(-4)},
    {GENERIC, .heads = 2, .q_rows = 9, .k_rows = 40, .head_dim = 8, .causal = true, OFFSET(-100)},
    {GENERIC, .heads = 2, .q_rows = 40, .k_rows = 9, .head_dim = 8, .causal = true},
    {GENERIC, .heads = 2, .q_rows = 40, .k_rows = 40, .head_dim = 8, .causal = true,
     WINDOW(7, RHUMB_NO_WINDOW)},
    {GENERIC, .heads = 2, .q_rows = 40, .k_rows = 40, .head_dim = 8, .causal = true,
     WINDOW(1, RHUMB_NO_WINDOW)},
    {GENERIC, .heads = 2, .q_rows = 40, .k_rows = 77, .head_dim = 8, WINDOW(33, 5)},
    {GENERIC, .heads = 2, .q_rows = 40, .k_rows = 40, .head_dim = 8, WINDOW(4, 3)},
    {GENERIC, .heads = 2, .q_rows = 40, .k_rows = 40, .head_dim = 8, WINDOW(1, 0)},
    {GENERIC, .heads = 2, .q_rows = 40, .k_rows = 40, .head_dim = 8, WINDOW(RHUMB_NO_WINDOW, 3)},
    {GENERIC, .heads = 2, .q_rows = 40, .k_rows = 9, .head_dim = 8, WINDOW(4, 3), OFFSET(0)},
    {GENERIC, .heads = 2, .q_rows = 5, .k_rows = 9, .head_dim = 8, WINDOW(4, 3), OFFSET(1000)},
    /* the window lies wholly past the keys, up to the largest offset of a dispatch: zeros, nothing
     * is read */
    PAST_THE_KEYS(GENERIC, 16, 13, 1000),
    PAST_THE_KEYS(GENERIC, 16, 13, 2000000000),
    PAST_THE_KEYS(GENERIC, 16, 1, RHUMB_NO_WINDOW - 4),
    /* lengths below the views' */
    {GENERIC, .heads = 2, .q_rows = 9, .k_rows = 40, .head_dim = 8, .causal = true, .k_length = 23},
    {GENERIC, .heads = 2, .q_rows = 9, .k_rows = 40, .head_dim = 8, .causal = true, .k_length = 23,
     .q_length = 5},
    {GENERIC, .heads = 2, .q_rows = 9, .k_rows = 40, .head_dim = 8, .k_length = 1,
     .poison = SHAPE_NAN_HIDDEN},
    /* what is hidden never matters */
    {GENERIC, .heads = 2, .q_rows = 9, .k_rows = 40, .head_dim = 8, .causal = true, .k_length = 23,
     .poison = SHAPE_NAN_HIDDEN},
    {GENERIC, .heads = 2, .q_rows = 9, .k_rows = 70, .head_dim = 8, .k_length = 33,
     .poison = SHAPE_INF_HIDDEN},
    {GENERIC, .heads = 2, .q_rows = 9, .k_rows = 70, .head_dim = 8, .causal = true, OFFSET(3),
     .poison = SHAPE_NAN_HIDDEN},
    {GENERIC, .heads = 2, .q_rows = 40, .k_rows = 40, .head_dim = 8, .causal = true,
     .poison = SHAPE_NAN_LAST},
    {GENERIC, .heads = 2, .q_rows = 40, .k_rows = 77, .head_dim = 8, WINDOW(3, 2),
     .poison = SHAPE_INF_HIDDEN},
    /* layouts */
    {GENERIC, .batch = 2, .heads = 6, .kv_heads = 3, .q_rows = 7, .k_rows = 11, .head_dim = 20,
     .layout_q = ROWS, .layout_k = ROWS, .layout_v = ROWS, .layout_o = ROWS, .causal = true},
    {GENERIC, .batch = 2, .heads = 6, .kv_heads = 3, .q_rows = 7, .k_rows = 11, .head_dim = 21,
     .layout_q = ODD, .layout_k = ODD, .layout_v = ODD, .layout_o = ODD, .causal = true},
    {GENERIC, .batch = 2, .heads = 2, .q_rows = 7, .k_rows = 11, .head_dim = 16, .value_dim = 12,
     .layout_k = {.by_rows = true, .row_pad = 40, .offset = 7}, .layout_o = ROWS},
    /* sizes of numbers */
    {GENERIC, .heads = 2, .q_rows = 9, .k_rows = 100, .head_dim = 64, .values = SHAPE_SHARP,
     .causal = true},
    {GENERIC, .heads = 1, .q_rows = 3, .k_rows = 5, .head_dim = 128, .values = SHAPE_ALL_64,
     .scale = 1.0f},
    {GENERIC, .heads = 1, .q_rows = 2, .k_rows = 4096, .head_dim = 8, .values = SHAPE_EQUAL_V},
    {GENERIC, .heads = 2, .q_rows = 9, .k_rows = 40, .head_dim = 8, .scale = 0.015625f},
    {GENERIC, .heads = 2, .q_rows = 9, .k_rows = 40, .head_dim = 8, .scale = -0.5f},
    {GENERIC, .heads = 2, .q_rows = 9, .k_rows = 40, .head_dim = 8, .scale = 1e-30f},
};

/* The generic form with views that make kernels of their own. */
static const attention_shape generic_view_table[] = {
    /* by position: one pipeline */
    {GENERIC, .batch = 2, .heads = 2, .q_rows = 9, .k_rows = 40, .head_dim = 8, .by_position = true,
     .causal = true},
    {GENERIC, .batch = 2, .heads = 2, .q_rows = 40, .k_rows = 40, .head_dim = 8,
     .by_position = true, .causal = true, .positions = SHAPE_REPEATS},
    {GENERIC, .batch = 3, .heads = 2, .q_rows = 40, .k_rows = 40, .head_dim = 8,
     .by_position = true, .causal = true, .positions = SHAPE_LEFT_PAD},
    {GENERIC, .batch = 2, .heads = 2, .q_rows = 40, .k_rows = 40, .head_dim = 8,
     .by_position = true, .causal = true, .positions = SHAPE_REVERSED},
    {GENERIC, .batch = 2, .heads = 2, .q_rows = 9, .k_rows = 40, .head_dim = 8, .by_position = true,
     .positions = SHAPE_JUMPS, WINDOW(500, 700)},
    {GENERIC, .batch = 2, .heads = 2, .q_rows = 9, .k_rows = 40, .head_dim = 8, .by_position = true,
     .positions = SHAPE_NEGATIVE, .causal = true, WINDOW(5, RHUMB_NO_WINDOW)},
    {GENERIC, .batch = 2, .heads = 2, .q_rows = 40, .k_rows = 40, .head_dim = 8,
     .by_position = true, .positions = SHAPE_PER_BATCH, .causal = true, .poison = SHAPE_NAN_LAST},
    /* the distance of two int32 positions is no int32 */
    {GENERIC, .batch = 2, .heads = 2, .q_rows = 40, .k_rows = 40, .head_dim = 8,
     .by_position = true, .positions = SHAPE_ANYWHERE, .causal = true},
    {GENERIC, .batch = 2, .heads = 2, .q_rows = 40, .k_rows = 40, .head_dim = 8,
     .by_position = true, .positions = SHAPE_ANYWHERE, WINDOW(1000000000, 2000000000)},
    /* lengths from the device: one pipeline */
    {GENERIC, .batch = 3, .heads = 2, .q_rows = 9, .k_rows = 40, .head_dim = 8, .lengths = true},
    {GENERIC, .batch = 3, .heads = 2, .q_rows = 9, .k_rows = 40, .head_dim = 8, .lengths = true,
     .causal = true},
    {GENERIC, .batch = 3, .heads = 4, .kv_heads = 2, .q_rows = 9, .k_rows = 40, .head_dim = 8,
     .lengths = true, .causal = true, OFFSET(5), .poison = SHAPE_NAN_HIDDEN},
    {GENERIC, .batch = 3, .heads = 2, .q_rows = 9, .k_rows = 40, .head_dim = 8, .lengths = true,
     .lengths_beyond = true, .causal = true},
    {GENERIC, .batch = 5, .heads = 2, .q_rows = 3, .k_rows = 4, .head_dim = 8, .lengths = true,
     .causal = true},
    PAST_THE_KEYS_ON_DEVICE(GENERIC, 16, 13, 1000),
    PAST_THE_KEYS_ON_DEVICE(GENERIC, 16, 13, 2000000000),
    PAST_THE_KEYS_ON_DEVICE(GENERIC, 16, 1, RHUMB_NO_WINDOW - 4),
    /* Q rotated inside: two pipelines */
    {GENERIC, .heads = 2, .q_rows = 9, .k_rows = 40, .head_dim = 40, .rotary_dim = 16,
     .causal = true, .pairing = RHUMB_PAIRING_HALF},
    {GENERIC, .heads = 2, .q_rows = 9, .k_rows = 40, .head_dim = 63, .rotary_dim = 6,
     .rotary_offset = 3, .causal = true, .pairing = RHUMB_PAIRING_HALF, OFFSET(31)},
    {GENERIC, .heads = 2, .q_rows = 9, .k_rows = 40, .head_dim = 64, .rotary_dim = 64,
     .pairing = RHUMB_PAIRING_INTERLEAVED},
    {GENERIC, .batch = 2, .heads = 4, .kv_heads = 2, .q_rows = 9, .k_rows = 40, .head_dim = 64,
     .rotary_dim = 64, .positions = SHAPE_PER_BATCH, .position_first = 100, .causal = true,
     .pairing = RHUMB_PAIRING_HALF},
    /* an offset from the device that is no position: clamped to 0 and counted, once for each batch
     * entry */
    {GENERIC, .batch = 2, .heads = 2, .q_rows = 9, .k_rows = 40, .head_dim = 40, .rotary_dim = 16,
     .causal = true, .pairing = RHUMB_PAIRING_HALF, .lengths = true, OFFSET(-5)},
    /* storage: one pipeline each */
    {GENERIC, F16, .heads = 4, .kv_heads = 2, .q_rows = 9, .k_rows = 40, .head_dim = 21,
     .causal = true, .layout_q = ODD, .layout_k = ODD, .layout_v = ODD, .layout_o = ODD},
    {GENERIC, F16, .heads = 2, .q_rows = 9, .k_rows = 40, .head_dim = 128, .values = SHAPE_ALL_64,
     .scale = 1.0f},
    {GENERIC, F16, .heads = 2, .q_rows = 9, .k_rows = 70, .head_dim = 8, .k_length = 33,
     .poison = SHAPE_NAN_HIDDEN},
    {GENERIC, F16, .heads = 1, .q_rows = 2, .k_rows = 4096, .head_dim = 8, .values = SHAPE_EQUAL_V},
    {GENERIC, BF16, .batch = 2, .heads = 4, .kv_heads = 2, .q_rows = 9, .k_rows = 40,
     .head_dim = 33, .causal = true},
    {GENERIC, CACHE16, .heads = 4, .kv_heads = 2, .q_rows = 9, .k_rows = 40, .head_dim = 40,
     .causal = true},
};

/* Fast forms: one pipeline a head size, dtype and set of views. */
static const attention_shape tile_table[] = {
    {TILE, .heads = 2, .q_rows = 33, .k_rows = 127, .head_dim = 64},
    {TILE, .heads = 2, .q_rows = 129, .k_rows = 127, .head_dim = 64, .causal = true},
    {TILE, .heads = 2, .q_rows = 63, .k_rows = 129, .head_dim = 64, .causal = true},
    {TILE, .heads = 1, .q_rows = 1, .k_rows = 1, .head_dim = 64, .causal = true},
    {TILE, .heads = 1, .q_rows = 2, .k_rows = 1, .head_dim = 64, .causal = true},
    {TILE, .heads = 6, .kv_heads = 2, .q_rows = 31, .k_rows = 33, .head_dim = 64, .causal = true},
    {TILE, .batch = 2, .heads = 17, .kv_heads = 1, .q_rows = 5, .k_rows = 33, .head_dim = 64,
     .causal = true},
    {TILE, .heads = 2, .q_rows = 40, .k_rows = 77, .head_dim = 64, WINDOW(33, 5)},
    {TILE, .heads = 2, .q_rows = 100, .k_rows = 100, .head_dim = 64, .causal = true,
     WINDOW(7, RHUMB_NO_WINDOW)},
    {TILE, .heads = 2, .q_rows = 40, .k_rows = 77, .head_dim = 64, .causal = true, OFFSET(-9)},
    {TILE, .heads = 2, .q_rows = 40, .k_rows = 200, .head_dim = 64, .causal = true, OFFSET(100)},
    {TILE, .heads = 2, .q_rows = 9, .k_rows = 70, .head_dim = 64, .k_length = 33,
     .poison = SHAPE_NAN_HIDDEN},
    {TILE, .heads = 2, .q_rows = 40, .k_rows = 40, .head_dim = 64, .causal = true,
     .poison = SHAPE_NAN_LAST},
    {TILE, .heads = 2, .q_rows = 40, .k_rows = 77, .head_dim = 64, WINDOW(3, 2),
     .poison = SHAPE_INF_HIDDEN},
    {TILE, .heads = 2, .q_rows = 40, .k_rows = 100, .head_dim = 64, .values = SHAPE_SHARP,
     .causal = true},
    {TILE, .heads = 1, .q_rows = 2, .k_rows = 4096, .head_dim = 64, .values = SHAPE_EQUAL_V},
    {TILE, .batch = 2, .heads = 4, .kv_heads = 2, .q_rows = 35, .k_rows = 40, .head_dim = 64,
     .causal = true, .layout_q = ROWS, .layout_k = ROWS, .layout_v = ROWS, .layout_o = ROWS},
    {TILE, .batch = 2, .heads = 2, .q_rows = 35, .k_rows = 40, .head_dim = 64, .causal = true,
     .layout_k = {.row_pad = 4, .offset = 8}, .layout_o = {.row_pad = 12, .offset = 4}},
    {TILE, .heads = 2, .q_rows = 33, .k_rows = 70, .head_dim = 128, .causal = true},
    {TILE, .heads = 1, .q_rows = 3, .k_rows = 5, .head_dim = 128, .values = SHAPE_ALL_64,
     .scale = 1.0f},
    {TILE, .heads = 2, .q_rows = 33, .k_rows = 40, .head_dim = 80, .causal = true},
    {TILE, F16, .heads = 4, .kv_heads = 2, .q_rows = 33, .k_rows = 70, .head_dim = 64,
     .causal = true},
    {TILE, F16, .heads = 1, .q_rows = 9, .k_rows = 70, .head_dim = 64, .k_length = 33,
     .poison = SHAPE_NAN_HIDDEN},
    {TILE, .heads = 2, .q_rows = 33, .k_rows = 70, .head_dim = 64, .rotary_dim = 64, .causal = true,
     .pairing = RHUMB_PAIRING_HALF},
    {TILE, .batch = 2, .heads = 2, .q_rows = 40, .k_rows = 70, .head_dim = 64, .by_position = true,
     .causal = true, .positions = SHAPE_REPEATS},
    {TILE, .batch = 3, .heads = 2, .q_rows = 35, .k_rows = 70, .head_dim = 64, .lengths = true,
     .causal = true, .lengths_beyond = true},
    /* as in the generic table, at a head size that has its kernel already */
    PAST_THE_KEYS(TILE, 64, 13, 1000),
    PAST_THE_KEYS(TILE, 64, 13, 2000000000),
    PAST_THE_KEYS(TILE, 64, 1, RHUMB_NO_WINDOW - 4),
    PAST_THE_KEYS_ON_DEVICE(TILE, 64, 13, 1000),
    PAST_THE_KEYS_ON_DEVICE(TILE, 64, 13, 2000000000),
    PAST_THE_KEYS_ON_DEVICE(TILE, 64, 1, RHUMB_NO_WINDOW - 4),
};

static const attention_shape decode_table[] = {
    {DECODE, .heads = 2, .q_rows = 1, .k_rows = 257, .head_dim = 64},
    {DECODE, .heads = 2, .q_rows = 1, .k_rows = 1, .head_dim = 64, .causal = true},
    {DECODE, .heads = 8, .kv_heads = 2, .q_rows = 1, .k_rows = 129, .head_dim = 64, .causal = true},
    {DECODE, .batch = 3, .heads = 8, .kv_heads = 8, .q_rows = 1, .k_rows = 31, .head_dim = 64,
     .causal = true},
    {DECODE, .heads = 2, .q_rows = 3, .k_rows = 63, .head_dim = 64, .causal = true},
    {DECODE, .heads = 7, .kv_heads = 1, .q_rows = 2, .k_rows = 33, .head_dim = 64, .causal = true,
     OFFSET(11)},
    {DECODE, .heads = 2, .q_rows = 1, .k_rows = 100, .head_dim = 64, WINDOW(9, 0), .causal = true},
    {DECODE, .heads = 2, .q_rows = 2, .k_rows = 100, .head_dim = 64, .causal = true, OFFSET(-2)},
    {DECODE, .heads = 2, .q_rows = 1, .k_rows = 70, .head_dim = 64, .k_length = 33,
     .poison = SHAPE_NAN_HIDDEN},
    {DECODE, .heads = 2, .q_rows = 3, .k_rows = 70, .head_dim = 64, .causal = true,
     .poison = SHAPE_NAN_LAST},
    {DECODE, .heads = 2, .q_rows = 1, .k_rows = 300, .head_dim = 64, .values = SHAPE_SHARP},
    {DECODE, .heads = 1, .q_rows = 1, .k_rows = 4096, .head_dim = 64, .values = SHAPE_EQUAL_V},
    {DECODE, .batch = 2, .heads = 4, .kv_heads = 2, .q_rows = 1, .k_rows = 40, .head_dim = 64,
     .layout_k = ROWS, .layout_v = ROWS, .layout_o = ROWS},
    {DECODE, CACHE16, .heads = 8, .kv_heads = 2, .q_rows = 1, .k_rows = 129, .head_dim = 128,
     .causal = true},
    {DECODE, .batch = 3, .heads = 2, .q_rows = 1, .k_rows = 70, .head_dim = 64, .lengths = true,
     .causal = true, .lengths_beyond = true},
    {DECODE, .heads = 2, .q_rows = 1, .k_rows = 70, .head_dim = 64, .rotary_dim = 32,
     .pairing = RHUMB_PAIRING_INTERLEAVED, .causal = true},
    /* as in the generic table, at a head size that has its kernel already */
    PAST_THE_KEYS(DECODE, 64, 13, 1000),
    PAST_THE_KEYS(DECODE, 64, 13, 2000000000),
    PAST_THE_KEYS(DECODE, 64, 1, RHUMB_NO_WINDOW - 4),
    PAST_THE_KEYS_ON_DEVICE(DECODE, 64, 13, 1000),
    PAST_THE_KEYS_ON_DEVICE(DECODE, 64, 13, 2000000000),
    PAST_THE_KEYS_ON_DEVICE(DECODE, 64, 1, RHUMB_NO_WINDOW - 4),
};

/* The choice is rhumb's: whatever it takes must be right. */
static const attention_shape auto_table[] = {
    {.heads = 8, .kv_heads = 2, .q_rows = 1, .k_rows = 100, .head_dim = 64, .causal = true},
    {.heads = 4, .kv_heads = 2, .q_rows = 70, .k_rows = 70, .head_dim = 64, .causal = true},
    {.heads = 2, .q_rows = 5, .k_rows = 70, .head_dim = 63, .causal = true},
    {.heads = 2, .q_rows = 35, .k_rows = 70, .head_dim = 64, .causal = true,
     .layout_q = ODD, .layout_k = ODD, .layout_v = ODD, .layout_o = ODD},
};

/* Batch entry 2 of three, alone and in the batch: the same bits from one plan (design: same
 * bits). */
static void check_batch_bits(harness *h, rhumb_variant variant, uint32_t q_rows, uint32_t head_dim)
{
    attention_shape shape = {.batch = 3, .heads = 4, .kv_heads = 2, .q_rows = q_rows, .k_rows = 70,
                             .causal = true};
    attention_run all, one;
    rhumb_plan *plan = NULL;
    uint64_t part;
    shape.head_dim = head_dim;
    shape.variant = variant;
    shape_make_attention(&all, &shape, 9);
    shape.batch = 1;
    shape_make_attention(&one, &shape, 10);
    memcpy(one.q.memory, all.q.memory + one.q.bytes * 2, one.q.bytes);
    memcpy(one.k.memory, all.k.memory + one.k.bytes * 2, one.k.bytes);
    memcpy(one.v.memory, all.v.memory + one.v.bytes * 2, one.v.bytes);
    part = one.o.bytes;
    all.op.info.views = one.op.info.views =
        RHUMB_VIEW_BIT(RHUMB_VIEW_Q) | RHUMB_VIEW_BIT(RHUMB_VIEW_K) | RHUMB_VIEW_BIT(RHUMB_VIEW_V) |
        RHUMB_VIEW_BIT(RHUMB_VIEW_O);
    h->cases++;
    if (rhumb_create_plan(h->g->context, &all.op.info, &plan) != RHUMB_OK) {
        harness_fail(h, "batch bits: %s", rhumb_last_message(h->g->context));
    } else {
        all.op.plan = plan;
        one.op.plan = plan;
        if (gpu_run_operation(h->g, &all.op) != RHUMB_OK ||
            gpu_run_operation(h->g, &one.op) != RHUMB_OK) {
            harness_fail(h, "batch bits: %s%s", all.op.message, one.op.message);
        } else if (memcmp(all.o.memory + 2 * part, one.o.memory, part) != 0) {
            harness_fail(h,
                         "batch bits: variant %d Lq %u D %u: batch entry 2 alone gives other bits",
                         (int)variant, q_rows, head_dim);
        }
    }
    rhumb_destroy_plan(plan);
    shape_free_attention(&all);
    shape_free_attention(&one);
}

/* V is 1 for key/value head 0 and 2 for head 1: 4 query heads give 1 1 2 2 (field test 20). */
static void check_head_map(harness *h)
{
    static const attention_shape shape = {GENERIC, .heads = 4, .kv_heads = 2, .q_rows = 3,
                                          .k_rows = 5, .head_dim = 8};
    attention_run run;
    shape_make_attention(&run, &shape, 11);
    for (uint64_t i = 0; i < run.v.count; i++) {
        run.v.values[i] = i < run.v.count / 2 ? 1.0 : 2.0;
    }
    harness_store(&run.v);
    h->cases++;
    if (gpu_run_operation(h->g, &run.op) != RHUMB_OK) {
        harness_fail(h, "head map: %s", run.op.message);
    }
    harness_load(&run.o);
    for (uint64_t i = 0; i < run.o.count; i++) {
        double want = i < run.o.count / 2 ? 1.0 : 2.0;
        if (!(fabs(run.o.values[i] - want) <= 1e-6)) { /* five weights that add up to 1 */
            harness_fail(h, "head map: element %llu is %.9g, want %g", (unsigned long long)i,
                         run.o.values[i], want);
            break;
        }
    }
    shape_free_attention(&run);
}

/* A key that the mask hides from a row has no part in it, whatever it is: the same bits with other
 * values in it (not only "no NaN"). */
static void check_hidden_bits(harness *h, rhumb_variant variant, uint32_t q_rows, uint32_t head_dim)
{
    attention_shape shape = {.heads = 2, .q_rows = q_rows, .k_rows = 40, .causal = true,
                             .offset_given = true, .q_offset = 20};
    attention_run a, b;
    uint64_t from = 20 + q_rows;
    shape.head_dim = head_dim;
    shape.variant = variant;
    shape_make_attention(&a, &shape, 12);
    shape_make_attention(&b, &shape, 12);
    for (uint64_t i = 0; i < b.k.count; i++) {
        if (i / head_dim % 40 >= from) {
            b.k.values[i] = -1000.0;
            b.v.values[i] = 1e30;
        }
    }
    harness_store(&b.k);
    harness_store(&b.v);
    h->cases++;
    if (gpu_run_operation(h->g, &a.op) != RHUMB_OK || gpu_run_operation(h->g, &b.op) != RHUMB_OK) {
        harness_fail(h, "hidden bits: %s%s", a.op.message, b.op.message);
    } else if (memcmp(a.o.memory, b.o.memory, a.o.bytes) != 0) {
        harness_fail(h, "hidden bits: variant %d Lq %u D %u: hidden keys change the output",
                     (int)variant, q_rows, head_dim);
    }
    shape_free_attention(&a);
    shape_free_attention(&b);
}

/* Row a of a chunk of 32 and the same row alone. From row 24 on, keys up to 63 are the edge of the
 * chunk's tile, as row 0 does not see them all, and lie within the row's own. Both ways must add
 * the same numbers in the same order, which only hardware that fuses a multiply-add where it may
 * can get wrong. */
static void check_chunk_bits(harness *h, uint32_t a)
{
    attention_shape shape = {TILE, .heads = 1, .q_rows = 32, .k_rows = 128, .head_dim = 64,
                             .causal = true, OFFSET(40)};
    attention_run all, one;
    rhumb_result result;
    shape_make_attention(&all, &shape, 13);
    shape.q_rows = 1;
    shape.q_offset += (int32_t)a;
    shape_make_attention(&one, &shape, 13);
    one.op.info.max_q_length = all.op.info.max_q_length;
    memcpy(one.q.memory, all.q.memory + one.q.bytes * a, one.q.bytes);
    memcpy(one.k.memory, all.k.memory, one.k.bytes);
    memcpy(one.v.memory, all.v.memory, one.v.bytes);
    h->cases++;
    result = harness_run(h, &all.op);
    result = result == RHUMB_OK ? harness_run(h, &one.op) : result;
    if (result != RHUMB_OK) {
        harness_fail(h, "chunk bits: %s: %s%s", rhumb_result_name(result), all.op.message,
                     one.op.message);
    } else if (memcmp(one.o.memory, all.o.memory + one.o.bytes * a, one.o.bytes) != 0) {
        harness_fail(h, "chunk bits: row %u alone gives other bits than in a chunk of 32", a);
    }
    shape_free_attention(&all);
    shape_free_attention(&one);
}

static void run_generic(harness_profile profile)
{
    harness h;
    harness_open(&h, profile);
    SHAPE_RUN_ALL(&h, shape_run_attention, generic_table);
    SHAPE_RUN_ALL(&h, shape_run_attention, generic_view_table);
    check_head_map(&h);
    check_batch_bits(&h, RHUMB_VARIANT_GENERIC, 9, 8);
    check_hidden_bits(&h, RHUMB_VARIANT_GENERIC, 9, 8);
    harness_close(&h);
}

static void run_fast(harness_profile profile)
{
    harness h;
    harness_open(&h, profile);
    SHAPE_RUN_ALL(&h, shape_run_attention, tile_table);
    SHAPE_RUN_ALL(&h, shape_run_attention, decode_table);
    SHAPE_RUN_ALL(&h, shape_run_attention, auto_table);
    check_batch_bits(&h, RHUMB_VARIANT_TILE, 35, 64);
    check_batch_bits(&h, RHUMB_VARIANT_DECODE, 1, 64);
    check_hidden_bits(&h, RHUMB_VARIANT_TILE, 9, 64);
    check_hidden_bits(&h, RHUMB_VARIANT_DECODE, 1, 64);
    for (uint32_t a = 0; a < 32; a += 5) {
        check_chunk_bits(&h, a);
    }
    harness_close(&h);
}

Test(attention, generic_form_is_right_for_any_head_size_length_and_mask_on_lavapipe)
{
    run_generic(HARNESS_LAVAPIPE);
}

Test(attention, generic_form_is_right_for_any_head_size_length_and_mask_on_the_smallest_device)
{
    run_generic(HARNESS_LAVAPIPE_FLOOR);
}

Test(attention, generic_form_is_right_for_any_head_size_length_and_mask_on_swiftshader)
{
    run_generic(HARNESS_SWIFTSHADER);
}

Test(attention, fast_forms_are_right_on_lavapipe)
{
    run_fast(HARNESS_LAVAPIPE);
}

Test(attention, fast_forms_are_right_on_the_smallest_device)
{
    run_fast(HARNESS_LAVAPIPE_FLOOR);
}

Test(attention, fast_forms_are_right_on_swiftshader)
{
    run_fast(HARNESS_SWIFTSHADER);
}
