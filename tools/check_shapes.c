#include "check_shapes.h"

const check_shape check_shapes[] = {
    {.name = "half", .op = RHUMB_OP_ROTATE, .dtypes = true, .heads = 4, .q_rows = 37,
     .head_dim = 128, .pairing = RHUMB_PAIRING_HALF},
    {.name = "interleaved", .op = RHUMB_OP_ROTATE, .dtypes = true, .heads = 4, .q_rows = 37,
     .head_dim = 64, .pairing = RHUMB_PAIRING_INTERLEAVED},
    {.name = "half, partial 20 of 80 at 4, GQA", .op = RHUMB_OP_ROTATE, .dtypes = true, .batch = 2,
     .heads = 6, .kv_heads = 2, .q_rows = 13, .head_dim = 80, .pairing = RHUMB_PAIRING_HALF,
     .rotary_dim = 20, .rotary_offset = 4},
    {.name = "interleaved, partial 32 of 64, in place", .op = RHUMB_OP_ROTATE, .dtypes = true,
     .batch = 2, .heads = 3, .q_rows = 11, .head_dim = 64, .pairing = RHUMB_PAIRING_INTERLEAVED,
     .rotary_dim = 32, .in_place = true},
    {.name = "half, offset 2^31 - 64", .op = RHUMB_OP_ROTATE, .dtypes = true, .heads = 2,
     .q_rows = 17, .head_dim = 96, .pairing = RHUMB_PAIRING_HALF, .base = 500000.0,
     .q_offset = INT32_MAX - 63},
    {.name = "half, inverse, odd head_dim 111", .op = RHUMB_OP_ROTATE, .dtypes = true, .heads = 3,
     .q_rows = 19, .head_dim = 111, .pairing = RHUMB_PAIRING_HALF, .rotary_dim = 110,
     .inverse = true, .q_offset = 1000},
    {.name = "interleaved, positions per batch", .op = RHUMB_OP_ROTATE, .dtypes = true, .batch = 2,
     .heads = 3, .kv_heads = 1, .q_rows = 23, .head_dim = 128, .pairing = RHUMB_PAIRING_INTERLEAVED,
     .positions = POSITIONS_BATCH},
    {.name = "half, linear scaling 8, positions shared", .op = RHUMB_OP_ROTATE, .dtypes = true,
     .batch = 2, .heads = 2, .q_rows = 29, .head_dim = 128, .pairing = RHUMB_PAIRING_HALF,
     .scaling = RHUMB_ROPE_SCALING_LINEAR, .positions = POSITIONS_SHARED},
    {.name = "half, YaRN 8 of 4096", .op = RHUMB_OP_ROTATE, .heads = 2, .q_rows = 29,
     .head_dim = 128, .pairing = RHUMB_PAIRING_HALF, .scaling = RHUMB_ROPE_SCALING_YARN,
     .q_offset = 20000},
    {.name = "half, Llama 3.1's scaling", .op = RHUMB_OP_ROTATE, .heads = 2, .q_rows = 29,
     .head_dim = 128, .pairing = RHUMB_PAIRING_HALF, .base = 500000.0,
     .scaling = RHUMB_ROPE_SCALING_LLAMA3, .q_offset = 100000},
    {.name = "half, LongRoPE beyond 4096", .op = RHUMB_OP_ROTATE, .heads = 2, .q_rows = 29,
     .head_dim = 96, .pairing = RHUMB_PAIRING_HALF, .scaling = RHUMB_ROPE_SCALING_LONGROPE,
     .length = 5029, .q_offset = 5000},
    {.name = "interleaved to half, partial 64 of 192", .op = RHUMB_OP_ROTATE, .heads = 3,
     .kv_heads = 1, .q_rows = 17, .head_dim = 192, .pairing = RHUMB_PAIRING_INTERLEAVED_TO_HALF,
     .rotary_dim = 64, .rotary_offset = 128, .q_offset = 1000},
    {.name = "scale_base 64, centre 20", .op = RHUMB_OP_ROTATE, .dtypes = true,
     .scheme = CHECK_XPOS, .heads = 3, .q_rows = 41, .head_dim = 64},
    {.name = "blocks 16, 24, 24", .op = RHUMB_OP_ROTATE, .dtypes = true, .scheme = CHECK_MROPE,
     .batch = 2, .heads = 4, .kv_heads = 2, .q_rows = 23, .head_dim = 128,
     .pairing = RHUMB_PAIRING_HALF, .order = RHUMB_MROPE_BLOCKS, .positions = POSITIONS_BATCH},
    {.name = "columns first, partners per axis", .op = RHUMB_OP_ROTATE, .dtypes = true,
     .scheme = CHECK_ROPE2D, .heads = 2, .q_rows = 35, .head_dim = 64, .columns_first = true,
     .per_axis = true, .positions = POSITIONS_SHARED},
    {.name = "periods, coordinates from -1 to 1", .op = RHUMB_OP_ROTATE, .dtypes = true,
     .scheme = CHECK_ROPE2D, .heads = 2, .q_rows = 35, .head_dim = 64,
     .pairing = RHUMB_PAIRING_HALF, .centred = true, .positions = POSITIONS_SHARED},

    {.name = "bidirectional, D 64", .op = RHUMB_OP_ATTENTION, .dtypes = true, .variants = true,
     .batch = 2, .heads = 3, .q_rows = 67, .k_rows = 67, .head_dim = 64},
    {.name = "causal, GQA, D 128, Q rotated", .op = RHUMB_OP_ATTENTION, .heads = 8, .kv_heads = 2,
     .q_rows = 71, .k_rows = 71, .head_dim = 128, .rotary = true, .pairing = RHUMB_PAIRING_HALF,
     .causal = true, .q_offset_unset = true},
    {.name = "causal, window 16, D 80", .op = RHUMB_OP_ATTENTION, .heads = 4, .kv_heads = 1,
     .q_rows = 61, .k_rows = 97, .head_dim = 80, .causal = true, .q_offset_unset = true,
     .window_left = 16, .window_right = INT32_MAX},
    {.name = "window 9 left, 5 right, D 96", .op = RHUMB_OP_ATTENTION, .heads = 2, .q_rows = 53,
     .k_rows = 53, .head_dim = 96, .window_left = 9, .window_right = 5},
    {.name = "top-left causal, empty rows, D 256", .op = RHUMB_OP_ATTENTION, .heads = 2,
     .q_rows = 41, .k_rows = 37, .head_dim = 256, .causal = true, .q_offset = -7},
    {.name = "causal, M-RoPE interleaved, D 64", .op = RHUMB_OP_ATTENTION, .dtypes = true,
     .scheme = CHECK_MROPE, .heads = 4, .kv_heads = 2, .q_rows = 37, .k_rows = 37, .head_dim = 64,
     .rotary = true, .pairing = RHUMB_PAIRING_HALF, .order = RHUMB_MROPE_INTERLEAVED,
     .causal = true, .q_offset_unset = true, .positions = POSITIONS_BATCH},
    {.name = "by position, ring, D 64, Q rotated", .op = RHUMB_OP_ATTENTION, .batch = 2, .heads = 4,
     .kv_heads = 2, .q_rows = 31, .k_rows = 59, .head_dim = 64, .rotary = true,
     .pairing = RHUMB_PAIRING_INTERLEAVED, .causal = true, .by_position = true},
    {.name = "lengths per batch, causal, D 128", .op = RHUMB_OP_ATTENTION, .batch = 2, .heads = 4,
     .kv_heads = 2, .q_rows = 33, .k_rows = 83, .head_dim = 128, .causal = true,
     .q_offset_unset = true, .lengths = true},
    {.name = "D 37, value_dim 53, GQA", .op = RHUMB_OP_ATTENTION, .dtypes = true, .heads = 4,
     .kv_heads = 2, .q_rows = 29, .k_rows = 43, .head_dim = 37, .value_dim = 53},
    {.name = "D 576, value_dim 512, decode", .op = RHUMB_OP_ATTENTION, .heads = 4, .kv_heads = 1,
     .q_rows = 1, .k_rows = 131, .head_dim = 576, .value_dim = 512, .causal = true,
     .q_offset_unset = true},
    {.name = "decode, GQA, D 128, Q rotated", .op = RHUMB_OP_ATTENTION, .dtypes = true, .batch = 2,
     .heads = 8, .kv_heads = 2, .q_rows = 1, .k_rows = 517, .head_dim = 128, .rotary = true,
     .pairing = RHUMB_PAIRING_HALF, .causal = true, .q_offset_unset = true},
    {.name = "decode, D 80, lengths per batch", .op = RHUMB_OP_ATTENTION, .batch = 2, .heads = 4,
     .q_rows = 1, .k_rows = 263, .head_dim = 80, .causal = true, .q_offset_unset = true,
     .lengths = true},
};

const size_t check_shape_count = sizeof check_shapes / sizeof *check_shapes;

static void make_rope(const check_shape *s, check_rotary *r)
{
    rhumb_rope *rope = &r->rope;

    rhumb_init_rope(rope);
    rope->pairing = s->pairing;
    if (s->rotary_dim != 0)
        rope->rotary_dim = s->rotary_dim;
    rope->rotary_offset = s->rotary_offset;
    if (s->base > 0.0)
        rope->base = s->base;
    rope->scaling = s->scaling;
    rope->original_length = 4096;
    if (s->scaling == RHUMB_ROPE_SCALING_LONGROPE) {
        rope->max_length = 131072;
        rope->list_count = s->head_dim / 2;
        for (uint32_t i = 0; i < rope->list_count; i++) {
            r->short_factors[i] = 1.0 + i / 32.0;
            r->long_factors[i] = 1.0 + i;
        }
        rope->short_factors = r->short_factors;
        rope->long_factors = r->long_factors;
    } else if (s->scaling != RHUMB_ROPE_SCALING_NONE) {
        rope->factor = 8.0;
    }
}

/* Sections in the proportions of Qwen2-VL. */
static void make_mrope(const check_shape *s, check_rotary *r)
{
    const uint32_t pairs = s->head_dim / 2;

    rhumb_init_mrope(&r->mrope);
    r->mrope.rope = &r->rope;
    r->mrope.order = s->order;
    r->mrope.sections[1] = r->mrope.sections[2] =
        s->order == RHUMB_MROPE_BLOCKS ? pairs * 3 / 8 : pairs / 3;
    r->mrope.sections[0] = pairs - 2 * r->mrope.sections[1];
}

static void make_rope2d(const check_shape *s, rhumb_rope2d *plane)
{
    rhumb_init_rope2d(plane);
    if (s->pairing == RHUMB_PAIRING_INTERLEAVED)
        plane->pairing = RHUMB_ROPE2D_INTERLEAVED;
    if (s->per_axis)
        plane->pairing = RHUMB_ROPE2D_HALF_PER_AXIS;
    if (s->columns_first)
        plane->order = RHUMB_ROPE2D_COLUMN_FIRST;
    if (s->centred) { /* as DINOv3, of a grid of 5 x 7 */
        plane->frequency = RHUMB_ROPE2D_PERIODS;
        plane->base = 100.0;
        plane->scale[0] = 2.0 / 5.0;
        plane->scale[1] = 2.0 / 7.0;
        plane->offset[0] = 1.0 / 5.0 - 1.0;
        plane->offset[1] = 1.0 / 7.0 - 1.0;
    }
}

void check_make_rotary(const check_shape *s, check_rotary *r)
{
    make_rope(s, r);
    r->scheme = &r->rope;
    r->name = "rope";
    switch (s->scheme) {
    case CHECK_ROPE:
        break;
    case CHECK_XPOS:
        rhumb_init_xpos(&r->xpos);
        r->xpos.scale_base = 64.0;
        r->xpos.centre = 20;
        r->scheme = &r->xpos;
        r->name = "xpos";
        break;
    case CHECK_MROPE:
        make_mrope(s, r);
        r->scheme = &r->mrope;
        r->name = "mrope";
        break;
    case CHECK_ROPE2D:
        make_rope2d(s, &r->rope2d);
        r->scheme = &r->rope2d;
        r->name = "rope2d";
        break;
    }
}
