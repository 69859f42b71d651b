/* ROTATE with rope: every path of one scheme against one reference. A fault of one path only (a
 * pairing that is hard-wired, a partial width that is lost, a stride that is taken for contiguous)
 * is the common one, so the table crosses them. */
#include "shapes.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HALF .pairing = RHUMB_PAIRING_HALF
#define INTERLEAVED .pairing = RHUMB_PAIRING_INTERLEAVED
#define F16 .dtype = RHUMB_F16
#define BF16 .dtype = RHUMB_BF16
#define ODD {.row_pad = 5, .offset = 3}
#define ROWS {.by_rows = true}
#define ROWS_ODD {.by_rows = true, .row_pad = 3, .offset = 1}

static const rotate_shape table[] = {
    /* whole heads, aligned, Q and K in one record, head counts that are no multiple of 4 */
    {HALF, .batch = 2, .heads = 5, .kv_heads = 5, .rows = 7, .head_dim = 64},
    {INTERLEAVED, .batch = 2, .heads = 6, .kv_heads = 3, .rows = 7, .head_dim = 64},
    {HALF, .heads = 7, .kv_heads = 1, .rows = 1, .head_dim = 128},
    {INTERLEAVED, .heads = 17, .kv_heads = 1, .rows = 1, .head_dim = 128, .position_first = 4095},
    {HALF, .heads = 3, .rows = 131, .head_dim = 80, .position_first = 1000},
    {INTERLEAVED, .kv_heads = 3, .rows = 131, .head_dim = 80},
    {HALF, .heads = 2, .rows = 3, .head_dim = 576},
    {INTERLEAVED, .heads = 2, .rows = 3, .head_dim = 576},
    /* the smallest and the odd ones: R/2 may be odd, R may be 2 */
    {HALF, .heads = 1, .rows = 1, .head_dim = 2},
    {INTERLEAVED, .heads = 1, .rows = 1, .head_dim = 2},
    {HALF, .heads = 3, .rows = 5, .head_dim = 6},
    {INTERLEAVED, .heads = 3, .rows = 5, .head_dim = 10},
    {HALF, .heads = 2, .rows = 13, .head_dim = 63, .rotary_dim = 62},
    {INTERLEAVED, .heads = 2, .rows = 13, .head_dim = 63, .rotary_dim = 2, .rotary_offset = 61},
    /* partial, at the front and elsewhere; the tail is copied */
    {HALF, .batch = 2, .heads = 6, .kv_heads = 2, .rows = 5, .head_dim = 8, .rotary_dim = 4},
    {INTERLEAVED, .batch = 2, .heads = 6, .kv_heads = 2, .rows = 5, .head_dim = 8, .rotary_dim = 4},
    {HALF, .heads = 5, .rows = 11, .head_dim = 80, .rotary_dim = 32},
    {INTERLEAVED, .heads = 5, .rows = 11, .head_dim = 192, .rotary_dim = 64, .rotary_offset = 128},
    {HALF, .heads = 5, .rows = 11, .head_dim = 192, .rotary_dim = 64, .rotary_offset = 128},
    {HALF, .heads = 2, .rows = 11, .head_dim = 96, .rotary_dim = 24, .rotary_offset = 3},
    {INTERLEAVED, .heads = 2, .rows = 11, .head_dim = 96, .rotary_dim = 22, .rotary_offset = 5},
    {HALF, .heads = 2, .rows = 11, .head_dim = 31, .rotary_dim = 6, .rotary_offset = 7,
     .in_place = true},
    /* in place */
    {HALF, .batch = 2, .heads = 6, .kv_heads = 2, .rows = 7, .head_dim = 64, .in_place = true},
    {INTERLEAVED, .batch = 2, .heads = 6, .kv_heads = 2, .rows = 7, .head_dim = 64,
     .in_place = true},
    {HALF, .heads = 3, .rows = 7, .head_dim = 40, .rotary_dim = 16, .rotary_offset = 8,
     .in_place = true},
    {HALF, F16, .heads = 3, .rows = 7, .head_dim = 40, .rotary_dim = 16, .in_place = true},
    {INTERLEAVED, BF16, .heads = 3, .rows = 7, .head_dim = 40, .rotary_dim = 16, .in_place = true},
    {HALF, F16, .heads = 3, .rows = 5, .head_dim = 33, .rotary_dim = 32, .in_place = true,
     .layout = ODD},
    /* inverse */
    {HALF, .heads = 2, .rows = 9, .head_dim = 64, .inverse = true, .position_first = 99},
    {INTERLEAVED, F16, .heads = 2, .rows = 9, .head_dim = 64, .inverse = true,
     .positions = SHAPE_JUMPS},
    {HALF, .heads = 5, .rows = 9, .head_dim = 96, .rotary_dim = 48, .rotary_offset = 12,
     .inverse = true, .position_first = 99},
    {HALF, .heads = 2, .rows = 9, .head_dim = 31, .rotary_dim = 6, .rotary_offset = 7,
     .inverse = true, .in_place = true, .position_first = 99},
    /* 16-bit storage */
    {HALF, F16, .batch = 2, .heads = 6, .kv_heads = 3, .rows = 9, .head_dim = 64},
    {INTERLEAVED, F16, .batch = 2, .heads = 6, .kv_heads = 3, .rows = 9, .head_dim = 64},
    {HALF, BF16, .batch = 2, .heads = 6, .kv_heads = 3, .rows = 9, .head_dim = 128},
    {INTERLEAVED, BF16, .batch = 2, .heads = 6, .kv_heads = 3, .rows = 9, .head_dim = 128},
    {HALF, F16, .heads = 3, .rows = 9, .head_dim = 6, .rotary_dim = 4, .rotary_offset = 1},
    {INTERLEAVED, BF16, .heads = 3, .rows = 9, .head_dim = 7, .rotary_dim = 4, .rotary_offset = 3},
    {HALF, .heads = 3, .rows = 9, .head_dim = 64, .out_differs = true, .out_dtype = RHUMB_F16},
    {HALF, F16, .heads = 3, .rows = 9, .head_dim = 80, .rotary_dim = 32, .out_differs = true},
    {INTERLEAVED, F16, .heads = 3, .rows = 9, .head_dim = 20, .rotary_dim = 12, .out_differs = true,
     .out_dtype = RHUMB_BF16},
    /* layouts: rows of a wider buffer, [B,L,H,D], odd offsets and strides, 16-bit rows that share
     * words */
    {HALF, .batch = 2, .heads = 6, .kv_heads = 2, .rows = 5, .head_dim = 64, .layout = ROWS,
     .out_layout = ROWS},
    {HALF, .batch = 2, .heads = 6, .kv_heads = 2, .rows = 5, .head_dim = 64, .layout = ROWS},
    {INTERLEAVED, .batch = 2, .heads = 3, .rows = 5, .head_dim = 64, .out_layout = ROWS},
    {HALF, .batch = 2, .heads = 3, .rows = 5, .head_dim = 8, .rotary_dim = 4,
     .layout = {.by_rows = true, .row_pad = 16, .offset = 4},
     .out_layout = {.row_pad = 16, .offset = 4}},
    {HALF, .batch = 2, .heads = 3, .rows = 5, .head_dim = 64, .layout = ODD,
     .out_layout = ROWS_ODD},
    {INTERLEAVED, .batch = 2, .heads = 3, .rows = 5, .head_dim = 64, .layout = ROWS_ODD,
     .out_layout = ODD},
    {HALF, F16, .batch = 2, .heads = 3, .rows = 5, .head_dim = 64, .layout = ODD,
     .out_layout = ROWS_ODD},
    {INTERLEAVED, F16, .batch = 2, .heads = 3, .rows = 5, .head_dim = 64, .layout = ROWS_ODD,
     .out_layout = ODD},
    {HALF, BF16, .batch = 2, .heads = 3, .rows = 5, .head_dim = 31, .rotary_dim = 30,
     .out_layout = ODD},
    {INTERLEAVED, BF16, .batch = 2, .heads = 3, .rows = 5, .head_dim = 31, .rotary_dim = 30,
     .layout = ODD},
    {INTERLEAVED, F16, .batch = 2, .heads = 3, .rows = 5, .head_dim = 31, .rotary_dim = 26,
     .rotary_offset = 1, .in_place = true, .layout = ROWS_ODD},
    {HALF, F16, .batch = 3, .heads = 5, .rows = 7, .head_dim = 5, .rotary_dim = 4, .layout = ROWS,
     .out_layout = ROWS},
    /* positions */
    {HALF, .batch = 2, .heads = 3, .rows = 6, .head_dim = 64, .positions = SHAPE_SHARED,
     .position_first = 17},
    {HALF, .batch = 3, .heads = 3, .kv_heads = 1, .rows = 6, .head_dim = 64,
     .positions = SHAPE_PER_BATCH},
    {HALF, .batch = 3, .heads = 3, .rows = 6, .head_dim = 64, .positions = SHAPE_LEFT_PAD},
    {INTERLEAVED, .batch = 3, .heads = 3, .rows = 6, .head_dim = 64, .positions = SHAPE_JUMPS},
    {HALF, .batch = 2, .heads = 3, .rows = 11, .head_dim = 64, .positions = SHAPE_REPEATS},
    {INTERLEAVED, .batch = 2, .heads = 3, .rows = 11, .head_dim = 64, .positions = SHAPE_NEGATIVE},
    {HALF, .batch = 2, .heads = 3, .rows = 11, .head_dim = 64, .positions = SHAPE_ANYWHERE},
    {INTERLEAVED, .batch = 2, .heads = 3, .rows = 11, .head_dim = 64, .positions = SHAPE_ANYWHERE,
     .inverse = true},
    {HALF, .heads = 3, .rows = 5, .head_dim = 64, .position_first = 2147483640},
    {HALF, F16, .heads = 3, .rows = 5, .head_dim = 64, .position_first = 2147483640},
    {HALF, .batch = 2, .heads = 3, .rows = 11, .head_dim = 64, .positions = SHAPE_REVERSED},
    /* frequencies */
    {HALF, .heads = 3, .rows = 11, .head_dim = 128, .base = 500000.0, .position_first = 100000},
    {HALF, .heads = 3, .rows = 11, .head_dim = 64, .base = 1000000.0, .positions = SHAPE_ANYWHERE},
    {HALF, .heads = 3, .rows = 11, .head_dim = 64, .factor = 4.0, .position_first = 8000},
    {INTERLEAVED, .heads = 3, .rows = 11, .head_dim = 64, .factor = 2.5,
     .positions = SHAPE_ANYWHERE},
    {HALF, .heads = 3, .rows = 11, .head_dim = 64, .magnitude = 1.2079441541679836,
     .position_first = 8000},
    {HALF, .heads = 3, .rows = 4, .head_dim = 16, .base = 1.0},
    {HALF, .heads = 3, .rows = 4, .head_dim = 16, .base = 0.5, .positions = SHAPE_JUMPS},
    /* fewer rows than the views have */
    {HALF, .batch = 2, .heads = 6, .kv_heads = 2, .rows = 9, .head_dim = 64, .q_length = 4},
    {HALF, F16, .batch = 2, .heads = 3, .rows = 9, .head_dim = 5, .rotary_dim = 4, .q_length = 4,
     .out_layout = ODD},
    {INTERLEAVED, .batch = 2, .heads = 3, .rows = 9, .head_dim = 64, .q_length = 4,
     .in_place = true},
};

/* Forward, then inverse, is x: each channel has been through two rotations of the bound's error. */
static void check_round_trip(harness *h)
{
    static const int32_t positions[] = {0, 1, 7, 4096, 131071, 2147483647, -5};
    harness_random r = {.state = 5};
    harness_tensor x, y, z;
    rhumb_rope rope;
    rhumb_init_rope(&rope);
    harness_make_tensor(&x, RHUMB_F32, 1, 3, 7, 64, (harness_layout){0});
    harness_make_tensor(&y, RHUMB_F32, 1, 3, 7, 64, (harness_layout){0});
    harness_make_tensor(&z, RHUMB_F32, 1, 3, 7, 64, (harness_layout){0});
    harness_fill_normal(&x, &r);
    (void)shape_rotate(h, &rope, 1, positions, &x, &y, 0);
    (void)shape_rotate(h, &rope, 1, positions, &y, &z, 1);
    for (uint64_t i = 0; i < x.count; i++) {
        uint64_t channel = i % 64;
        uint64_t partner = channel < 32 ? i + 32 : i - 32;
        double bound = 2e-6 * (fabs(x.values[i]) + fabs(x.values[partner]));
        if (!(fabs(z.values[i] - x.values[i]) <= bound)) {
            harness_fail(h, "inverse after forward: element %llu: got %.9g, want %.9g, bound %.3g",
                         (unsigned long long)i, z.values[i], x.values[i], bound);
            break;
        }
    }
    harness_free_tensor(&x);
    harness_free_tensor(&y);
    harness_free_tensor(&z);
}

/* Channels beyond the window are copied, not computed: NaN payloads, -0 and denormals included. */
static void check_tail_bits(harness *h, rhumb_dtype dtype, uint32_t offset)
{
    static const int32_t positions[] = {3, 9};
    harness_random r = {.state = 8};
    uint64_t size = harness_dtype_size(dtype);
    harness_layout layout = {.row_pad = offset, .offset = offset};
    harness_tensor x, y;
    rhumb_rope rope;
    rhumb_init_rope(&rope);
    rope.rotary_dim = 8;
    harness_make_tensor(&x, dtype, 1, 2, 2, 24, layout);
    harness_make_tensor(&y, dtype, 1, 2, 2, 24, layout);
    harness_fill_normal(&x, &r);
    for (uint64_t i = 0; i < x.count; i++) {
        uint32_t bits = harness_next(&r);
        if (i % 24 >= 8) {
            /* NaN or infinity */
            bits |= i % 3 == 0 ? (dtype == RHUMB_F32 ? 0x7f800000u : 0x7c007c00u) : 0;
            memcpy(x.memory + harness_byte(&x, i), &bits, size);
        }
    }
    (void)shape_rotate(h, &rope, 1, positions, &x, &y, 0);
    for (uint64_t i = 0; i < x.count; i++) {
        uint64_t at = harness_byte(&x, i);
        if (i % 24 >= 8 && memcmp(x.memory + at, y.memory + at, size) != 0) {
            harness_fail(h, "tail of %s, offset %u: element %llu is not the input bit for bit",
                         harness_dtype_name(dtype), offset, (unsigned long long)i);
            break;
        }
    }
    harness_free_tensor(&x);
    harness_free_tensor(&y);
}

static void run_profile(harness_profile profile)
{
    harness h;
    harness_open(&h, profile);
    SHAPE_RUN_ALL(&h, shape_run_rotate, table);
    check_round_trip(&h);
    for (uint32_t offset = 0; offset < 2; offset++) {
        check_tail_bits(&h, RHUMB_F32, offset);
        check_tail_bits(&h, RHUMB_F16, offset);
        check_tail_bits(&h, RHUMB_BF16, offset);
    }
    harness_close(&h);
}

Test(rotate, rope_turns_every_layout_dtype_and_position_on_lavapipe)
{
    run_profile(HARNESS_LAVAPIPE);
}

Test(rotate, rope_turns_every_layout_dtype_and_position_on_the_smallest_device)
{
    run_profile(HARNESS_LAVAPIPE_FLOOR);
}

Test(rotate, rope_turns_every_layout_dtype_and_position_on_swiftshader)
{
    run_profile(HARNESS_SWIFTSHADER);
}
