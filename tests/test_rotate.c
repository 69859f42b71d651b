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

/* x at the positions of field test 12, and what (1, 0) becomes there at frequency 1. 16777217 is no
 * float, and 15962 and 15968 are one number in half precision. */
static void check_far_positions(harness *h)
{
    static const int32_t positions[] = {15962, 131071, 1048575, 16777217, 2147483647, 15968};
    static const double cosines[] = {-0.908015901, -0.817983499, 0.788042240,
                                     0.994383964,  -0.688836692, -0.754792760};
    static const double sines[] = {0.418935703, -0.575241684, -0.615621173, 0.105832567,
                                   -0.724916555};
    harness_tensor x, y, at;
    gpu_operation op;
    rhumb_rope rope;
    rhumb_init_rope(&rope);
    harness_make_tensor(&x, RHUMB_F32, 1, 1, 6, 2, (harness_layout){0});
    harness_make_tensor(&y, RHUMB_F32, 1, 1, 6, 2, (harness_layout){0});
    harness_make_tensor(&at, RHUMB_I32, 1, 1, 1, 6, (harness_layout){0});
    for (int i = 0; i < 6; i++) {
        x.values[2 * i] = 1.0;
        at.values[i] = positions[i];
    }
    harness_store(&x);
    harness_store(&at);
    gpu_init_operation(&op, RHUMB_OP_ROTATE);
    op.info.rotary = &rope;
    op.info.heads = 1;
    op.info.head_dim = 2;
    op.info.max_q_length = 6;
    (void)harness_add(&op, RHUMB_VIEW_Q, &x, false);
    (void)harness_add(&op, RHUMB_VIEW_Q_OUT, &y, true);
    (void)harness_add(&op, RHUMB_VIEW_POSITIONS_Q, &at, false);
    h->cases++;
    if (harness_run(h, &op) != RHUMB_OK) {
        harness_fail(h, "far positions: %s", op.message);
    }
    harness_load(&y);
    for (int i = 0; i < 6; i++) {
        /* the values are given to 1e-9 */
        if (!(fabs(y.values[2 * i] - cosines[i]) <= 1e-6) ||
            (i < 5 && !(fabs(y.values[2 * i + 1] - sines[i]) <= 1e-6))) {
            harness_fail(
                h, "far positions: position %d: got (%.9f, %.9f), want (%.9f, %.9f), bound 1e-6",
                positions[i], y.values[2 * i], y.values[2 * i + 1], cosines[i],
                i < 5 ? sines[i] : 0.0);
        }
    }
    harness_free_tensor(&x);
    harness_free_tensor(&y);
    harness_free_tensor(&at);
}

/* Runs Q -> Q_OUT with positions per batch; for tests that compare runs. */
static void rotate_plain(harness *h, harness_tensor *x, harness_tensor *y, const int32_t *positions,
                         uint32_t rotary_dim, uint32_t inverse)
{
    gpu_operation op;
    rhumb_rope rope;
    harness_tensor at;
    uint32_t batch = (uint32_t)x->shape[0];
    uint32_t rows = (uint32_t)x->shape[2];
    rhumb_init_rope(&rope);
    rope.rotary_dim = rotary_dim;
    harness_make_tensor(&at, RHUMB_I32, 1, 1, batch, rows, (harness_layout){0});
    for (uint64_t i = 0; i < at.count; i++) {
        at.values[i] = positions[i];
    }
    harness_store(&at);
    gpu_init_operation(&op, RHUMB_OP_ROTATE);
    op.info.rotary = &rope;
    op.info.heads = (uint32_t)x->shape[1];
    op.info.head_dim = (uint32_t)x->shape[3];
    op.info.max_q_length = rows;
    op.dispatch.inverse = inverse;
    (void)harness_add(&op, RHUMB_VIEW_Q, x, false);
    (void)harness_add(&op, RHUMB_VIEW_Q_OUT, y, true);
    (void)harness_add(&op, RHUMB_VIEW_POSITIONS_Q, &at, false);
    h->cases++;
    if (harness_run(h, &op) != RHUMB_OK) {
        harness_fail(h, "rotate: %s", op.message);
    }
    harness_load(y);
    harness_free_tensor(&at);
}

/* Forward, then inverse, is x: each channel has been through two rotations of the bound's error. */
static void check_round_trip(harness *h)
{
    static const int32_t positions[] = {0, 1, 7, 4096, 131071, 2147483647, -5};
    harness_random r = {.state = 5};
    harness_tensor x, y, z;
    harness_make_tensor(&x, RHUMB_F32, 1, 3, 7, 64, (harness_layout){0});
    harness_make_tensor(&y, RHUMB_F32, 1, 3, 7, 64, (harness_layout){0});
    harness_make_tensor(&z, RHUMB_F32, 1, 3, 7, 64, (harness_layout){0});
    harness_fill_normal(&x, &r);
    rotate_plain(h, &x, &y, positions, 64, 0);
    rotate_plain(h, &y, &z, positions, 64, 1);
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

/* A padded batch and the same prompt alone: the same bits (field test 5). */
static void check_left_padding(harness *h)
{
    static const int32_t padded[] = {0, 0, 0, 1, 2, 0, 1, 2, 3, 4};
    static const int32_t alone[] = {0, 1, 2};
    harness_random r = {.state = 6};
    harness_tensor x, y, one, got;
    harness_make_tensor(&x, RHUMB_F32, 2, 2, 5, 64, (harness_layout){0});
    harness_make_tensor(&y, RHUMB_F32, 2, 2, 5, 64, (harness_layout){0});
    harness_make_tensor(&one, RHUMB_F32, 1, 2, 3, 64, (harness_layout){0});
    harness_make_tensor(&got, RHUMB_F32, 1, 2, 3, 64, (harness_layout){0});
    harness_fill_normal(&x, &r);
    for (uint64_t i = 0; i < one.count; i++) {
        uint64_t head = i / 64 / 3;
        one.values[i] = x.values[harness_index(&x, 0, head, 2 + i / 64 % 3, i % 64)];
    }
    harness_store(&one);
    rotate_plain(h, &x, &y, padded, 64, 0);
    rotate_plain(h, &one, &got, alone, 64, 0);
    for (uint64_t i = 0; i < got.count; i++) {
        uint64_t from = harness_index(&y, 0, i / 64 / 3, 2 + i / 64 % 3, i % 64);
        if (memcmp(&y.values[from], &got.values[i], sizeof(double)) != 0) {
            harness_fail(h, "left padding: element %llu: %.9g in the batch, %.9g alone",
                         (unsigned long long)i, y.values[from], got.values[i]);
            break;
        }
    }
    harness_free_tensor(&x);
    harness_free_tensor(&y);
    harness_free_tensor(&one);
    harness_free_tensor(&got);
}

/* Channels beyond the window are copied, not computed: NaN payloads, -0 and denormals included. */
static void check_tail_bits(harness *h, rhumb_dtype dtype, uint32_t offset)
{
    static const int32_t positions[] = {3, 9};
    harness_random r = {.state = 8};
    uint64_t size = harness_dtype_size(dtype);
    harness_layout layout = {.row_pad = offset, .offset = offset};
    harness_tensor x, y;
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
    rotate_plain(h, &x, &y, positions, 8, 0);
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
    check_far_positions(&h);
    check_round_trip(&h);
    check_left_padding(&h);
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
