/* ROTATE with the schemes that are more than a frequency and a position to a pair, and with the
 * pairing that is read and written differently. Each against the reference; and what must be equal
 * bit for bit, or must not. */
#include "shapes.h"

#include "verify.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#define TO_HALF .pairing = RHUMB_PAIRING_INTERLEAVED_TO_HALF
#define F16 .dtype = RHUMB_F16
#define BF16 .dtype = RHUMB_BF16
#define ODD {.row_pad = 5, .offset = 3}
#define ROWS_ODD {.by_rows = true, .row_pad = 3, .offset = 1}

/* Scheme structs of rows; each call fills its own. */
static const void *xpos_near(void)
{
    static rhumb_xpos s;
    rhumb_init_xpos(&s);
    s.scale_base = 64.0;
    s.centre = 9;
    return &s;
}

static const void *xpos_partial(void)
{
    static rhumb_xpos s;
    rhumb_init_xpos(&s);
    s.rotary_dim = 22;
    s.rotary_offset = 3;
    s.centre = -5;
    s.gamma = 0.25;
    s.base = 500.0;
    return &s;
}

/* Distances from the centre that do not fit an int. */
static const void *xpos_far(void)
{
    static rhumb_xpos s;
    rhumb_init_xpos(&s);
    s.scale_base = 2e9;
    s.centre = -2000000000;
    return &s;
}

static const void *mrope_of(rhumb_mrope *s, rhumb_rope *rope, rhumb_mrope_order order, uint32_t t,
                            uint32_t h, uint32_t w, uint32_t extra)
{
    const uint32_t sections[4] = {t, h, w, extra};
    rhumb_init_mrope(s);
    s->rope = rope;
    s->order = order;
    memcpy(s->sections, sections, sizeof sections);
    return s;
}

#define MROPE(name, order, t, h, w, extra, change)                                                 \
    static const void *name(void)                                                                  \
    {                                                                                              \
        static rhumb_mrope s;                                                                      \
        static rhumb_rope rope;                                                                    \
        rhumb_init_rope(&rope);                                                                    \
        change;                                                                                    \
        return mrope_of(&s, &rope, RHUMB_MROPE_##order, t, h, w, extra);                           \
    }

MROPE(mrope_blocks, BLOCKS, 8, 12, 12, 0, (void)0)
MROPE(mrope_blocks_of_four, BLOCKS, 8, 8, 8, 8, (rope.rotary_dim = 64, rope.base = 1e6))
MROPE(mrope_interleaved, INTERLEAVED, 12, 10, 10, 0, (void)0)
MROPE(mrope_interleaved_short, INTERLEAVED, 3, 2, 1, 0, rope.pairing = RHUMB_PAIRING_INTERLEAVED)
MROPE(mrope_extra, INTERLEAVED_EXTRA, 6, 5, 5, 6, (void)0)
MROPE(mrope_extra_again, INTERLEAVED_EXTRA, 3, 2, 2, 0, (void)0)
MROPE(mrope_ernie, ALTERNATING, 11, 11, 10, 0, rope.pairing = RHUMB_PAIRING_INTERLEAVED)
MROPE(mrope_partial, BLOCKS, 2, 3, 4, 0, (rope.rotary_dim = 18, rope.rotary_offset = 5))
MROPE(mrope_to_half, BLOCKS, 8, 12, 12, 0, rope.pairing = RHUMB_PAIRING_INTERLEAVED_TO_HALF)
MROPE(mrope_yarn, BLOCKS, 8, 12, 12, 0,
      (rope.scaling = RHUMB_ROPE_SCALING_YARN, rope.factor = 4, rope.original_length = 2048))
/* 288 pairs: all words of the axes */
MROPE(mrope_widest, INTERLEAVED, 96, 96, 96, 0, (void)0)

#define PLANE(name, layout, turn, list, change)                                                    \
    static const void *name(void)                                                                  \
    {                                                                                              \
        static rhumb_rope2d s;                                                                     \
        rhumb_init_rope2d(&s);                                                                     \
        s.pairing = RHUMB_ROPE2D_##layout;                                                         \
        s.order = RHUMB_ROPE2D_##turn##_FIRST;                                                     \
        s.frequency = RHUMB_ROPE2D_##list;                                                         \
        change;                                                                                    \
        return &s;                                                                                 \
    }
#define AFFINE(a, b, c, d)                                                                         \
    (s.scale[0] = (a), s.scale[1] = (b), s.offset[0] = (c), s.offset[1] = (d))

PLANE(plane_half, HALF, ROW, SAME, (void)0)
PLANE(plane_columns, INTERLEAVED, COLUMN, SAME, AFFINE(1, 1, 1, 1))
PLANE(plane_alternating, HALF, ROW, ALTERNATING, (void)0)
PLANE(plane_alternating_columns, INTERLEAVED, COLUMN, ALTERNATING, (void)0)
PLANE(plane_centred, HALF, ROW, PERIODS,
      (s.base = 100, AFFINE(2.0 / 5, 2.0 / 7, 0.2 - 1, 1.0 / 7 - 1)))
PLANE(plane_pixels, INTERLEAVED, ROW, PIXEL, (s.resolution = 64, AFFINE(2.0 / 4, 2.0 / 6, -1, -1)))
PLANE(plane_pixels_linear, INTERLEAVED, COLUMN, PIXEL_LINEAR, AFFINE(2.0, 2.0 / 6, -1, -1))
PLANE(plane_shrunk, HALF, ROW, SAME, AFFINE(0, -0.375, 0, 1000.5))
PLANE(plane_per_axis, HALF_PER_AXIS, COLUMN, SAME, s.base = 100)
PLANE(plane_per_axis_partial, HALF_PER_AXIS, ROW, SAME, (s.rotary_dim = 20, s.rotary_offset = 3))
PLANE(plane_partial, HALF, ROW, SAME, (s.rotary_dim = 12, s.rotary_offset = 1))

static const rotate_shape table[] = {
    /* read interleaved, written half: vector and scalar accesses, odd R/2, 16-bit rows that share
     * words */
    {TO_HALF, .batch = 2, .heads = 6, .kv_heads = 2, .rows = 7, .head_dim = 64},
    {TO_HALF, F16, .batch = 2, .heads = 6, .kv_heads = 2, .rows = 7, .head_dim = 64},
    {TO_HALF, BF16, .heads = 3, .rows = 7, .head_dim = 31, .rotary_dim = 30, .layout = ODD,
     .out_layout = ROWS_ODD},
    {TO_HALF, F16, .heads = 3, .rows = 5, .head_dim = 64, .layout = ROWS_ODD, .out_layout = ODD},
    {TO_HALF, .heads = 5, .rows = 11, .head_dim = 192, .rotary_dim = 64, .rotary_offset = 128},
    {TO_HALF, .heads = 2, .rows = 11, .head_dim = 96, .rotary_dim = 22, .rotary_offset = 5,
     .magnitude = 1.25},
    {TO_HALF, .heads = 1, .rows = 3, .head_dim = 2},
    {TO_HALF, .heads = 3, .rows = 5, .head_dim = 12, .positions = SHAPE_ANYWHERE},
    {TO_HALF, .heads = 3, .rows = 5, .head_dim = 64, .out_differs = true, .out_dtype = RHUMB_F16},
    /* xpos: Q grows, K shrinks, in one record */
    {.scheme = xpos_near, .batch = 2, .heads = 6, .kv_heads = 2, .rows = 41, .head_dim = 64},
    {.scheme = xpos_near, .heads = 3, .kv_heads = 3, .rows = 9, .head_dim = 32, .in_place = true,
     .positions = SHAPE_NEGATIVE},
    {.scheme = xpos_near, F16, .heads = 3, .kv_heads = 1, .rows = 9, .head_dim = 64,
     .positions = SHAPE_REPEATS},
    {.scheme = xpos_near, .kv_heads = 3, .rows = 9, .head_dim = 64, .position_first = 500},
    {.scheme = xpos_partial, .heads = 6, .kv_heads = 2, .rows = 9, .head_dim = 31,
     .position_first = 2000},
    {.scheme = xpos_far, .heads = 6, .kv_heads = 2, .rows = 9, .head_dim = 64,
     .positions = SHAPE_ANYWHERE},
    /* mrope */
    {.scheme = mrope_blocks, .batch = 2, .heads = 6, .kv_heads = 2, .rows = 9, .head_dim = 64,
     .positions = SHAPE_APART},
    {.scheme = mrope_blocks, .batch = 2, .heads = 3, .rows = 9, .head_dim = 64,
     .positions = SHAPE_GRID, .position_first = 4, .in_place = true},
    {.scheme = mrope_blocks, F16, .heads = 3, .rows = 9, .head_dim = 64, .positions = SHAPE_APART,
     .layout = ROWS_ODD, .out_layout = ODD},
    {.scheme = mrope_blocks, .heads = 3, .rows = 9, .head_dim = 64, .positions = SHAPE_APART,
     .inverse = true},
    {.scheme = mrope_blocks_of_four, .heads = 3, .rows = 9, .head_dim = 72,
     .positions = SHAPE_APART},
    {.scheme = mrope_interleaved, .heads = 3, .kv_heads = 3, .rows = 9, .head_dim = 64,
     .positions = SHAPE_APART},
    {.scheme = mrope_interleaved_short, .heads = 3, .rows = 9, .head_dim = 64,
     .positions = SHAPE_APART},
    {.scheme = mrope_extra, .heads = 3, .rows = 9, .head_dim = 64, .positions = SHAPE_APART},
    {.scheme = mrope_extra_again, .heads = 3, .rows = 9, .head_dim = 64, .positions = SHAPE_APART},
    {.scheme = mrope_ernie, .heads = 3, .rows = 9, .head_dim = 64, .positions = SHAPE_APART},
    {.scheme = mrope_partial, .heads = 3, .rows = 9, .head_dim = 31, .positions = SHAPE_APART},
    {.scheme = mrope_to_half, .heads = 3, .rows = 9, .head_dim = 64, .positions = SHAPE_APART},
    {.scheme = mrope_yarn, .heads = 3, .rows = 9, .head_dim = 64, .positions = SHAPE_ANYWHERE},
    {.scheme = mrope_widest, .heads = 2, .rows = 3, .head_dim = 576, .positions = SHAPE_APART},
    /* rope2d: a grid of 5 x 7 */
    {.scheme = plane_half, .batch = 2, .heads = 6, .kv_heads = 2, .rows = 35, .head_dim = 32,
     .positions = SHAPE_GRID, .position_first = 7},
    {.scheme = plane_half, .batch = 2, .heads = 3, .rows = 35, .head_dim = 80,
     .positions = SHAPE_APART, .in_place = true},
    {.scheme = plane_half, F16, .heads = 3, .rows = 35, .head_dim = 32, .positions = SHAPE_GRID,
     .position_first = 7, .inverse = true},
    {.scheme = plane_columns, .heads = 3, .kv_heads = 3, .rows = 35, .head_dim = 32,
     .positions = SHAPE_GRID, .position_first = 7},
    {.scheme = plane_alternating, .heads = 3, .rows = 35, .head_dim = 64, .positions = SHAPE_GRID,
     .position_first = 7},
    {.scheme = plane_alternating_columns, .heads = 3, .rows = 35, .head_dim = 64,
     .positions = SHAPE_GRID, .position_first = 7},
    {.scheme = plane_centred, .heads = 3, .rows = 35, .head_dim = 64, .positions = SHAPE_GRID,
     .position_first = 7},
    {.scheme = plane_centred, .heads = 3, .rows = 35, .head_dim = 64, .positions = SHAPE_GRID,
     .position_first = 7, .inverse = true},
    {.scheme = plane_pixels, .heads = 3, .rows = 35, .head_dim = 32, .positions = SHAPE_GRID,
     .position_first = 7},
    {.scheme = plane_pixels_linear, .heads = 3, .rows = 14, .head_dim = 16, .positions = SHAPE_GRID,
     .position_first = 7},
    {.scheme = plane_shrunk, .heads = 3, .rows = 35, .head_dim = 64, .positions = SHAPE_GRID,
     .position_first = 7},
    {.scheme = plane_shrunk, .heads = 1, .rows = 3, .head_dim = 4, .positions = SHAPE_APART},
    /* quarters that are multiples of 4, and not */
    {.scheme = plane_per_axis, .heads = 6, .kv_heads = 2, .rows = 35, .head_dim = 32,
     .positions = SHAPE_GRID, .position_first = 7},
    {.scheme = plane_per_axis, F16, .heads = 3, .rows = 9, .head_dim = 64,
     .positions = SHAPE_APART},
    {.scheme = plane_per_axis, .heads = 3, .rows = 9, .head_dim = 24, .positions = SHAPE_APART,
     .in_place = true},
    {.scheme = plane_per_axis, BF16, .heads = 3, .rows = 9, .head_dim = 20,
     .positions = SHAPE_APART},
    {.scheme = plane_per_axis, .heads = 3, .rows = 9, .head_dim = 4, .positions = SHAPE_APART},
    {.scheme = plane_per_axis_partial, .heads = 3, .rows = 9, .head_dim = 31,
     .positions = SHAPE_APART},
    {.scheme = plane_partial, .heads = 3, .rows = 9, .head_dim = 31, .positions = SHAPE_APART},
};

/* Q -> Q_OUT of [1, 3, rows, dim] with positions [axes, rows]. */
static void rotate(harness *h, const void *rotary, uint32_t axes, const int32_t *positions,
                   harness_tensor *x, harness_tensor *y)
{
    harness_make_tensor(y, RHUMB_F32, 1, x->shape[1], x->shape[2], x->shape[3],
                        (harness_layout){0});
    (void)shape_rotate(h, rotary, axes, positions, x, y, 0);
}

/* Text has the same position on every axis, and must not know that there are several. */
static void check_equal_rows(harness *h)
{
    static const int32_t positions[4][5] = {{0, 1, 77, 4095, 2147483647},
                                            {0, 1, 77, 4095, 2147483647},
                                            {0, 1, 77, 4095, 2147483647},
                                            {0, 1, 77, 4095, 2147483647}};
    const struct {
        const char *name;
        const void *scheme;
        uint32_t axes;
    } rows[] = {{"blocks", mrope_blocks(), 3},
                {"interleaved", mrope_interleaved(), 3},
                {"extra", mrope_extra(), 4},
                {"ernie", mrope_ernie(), 3},
                {"yarn", mrope_yarn(), 3}};
    harness_random r = {.state = 12};
    harness_tensor x, one, several;
    harness_make_tensor(&x, RHUMB_F32, 1, 3, 5, 64, (harness_layout){0});
    harness_fill_normal(&x, &r);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        rotate(h, ((const rhumb_mrope *)rows[i].scheme)->rope, 1, positions[0], &x, &one);
        rotate(h, rows[i].scheme, rows[i].axes, positions[0], &x, &several);
        if (memcmp(one.memory, several.memory, one.bytes) != 0) {
            harness_fail(h, "mrope %s: equal rows do not give the bits of rope", rows[i].name);
        }
        harness_free_tensor(&one);
        harness_free_tensor(&several);
    }
    harness_free_tensor(&x);
}

/* Six tokens, all alike, as a grid of 2 x 3 and of 3 x 2: a token turns by its row and column, so
 * that those at different places differ, and those at one place are equal. */
static void check_grids(harness *h, const char *name, const void *scheme)
{
    static const int32_t wide[12] = {0, 0, 0, 1, 1, 1, 0, 1, 2, 0, 1, 2};
    static const int32_t high[12] = {0, 0, 1, 1, 2, 2, 0, 1, 0, 1, 0, 1};
    harness_random r = {.state = 13};
    harness_tensor x, y, z;
    size_t row = 32 * sizeof(float);
    harness_make_tensor(&x, RHUMB_F32, 1, 1, 6, 32, (harness_layout){0});
    for (uint64_t i = 0; i < x.count; i++) {
        x.values[i] = i < 32 ? harness_uniform(&r, 0.5, 1.0) : x.values[i - 32];
    }
    harness_store(&x);
    rotate(h, scheme, 2, wide, &x, &y);
    rotate(h, scheme, 2, high, &x, &z);
    for (uint32_t a = 0; a < 6; a++) {
        for (uint32_t b = 0; b < 6; b++) {
            bool same = wide[a] == high[b] && wide[6 + a] == high[6 + b];
            bool equal = memcmp(y.memory + a * row, z.memory + b * row, row) == 0;
            if (same != equal) {
                harness_fail(h, "rope2d %s: token %u of 2 x 3 and token %u of 3 x 2 are %s", name,
                             a, b, equal ? "equal" : "different");
            }
        }
    }
    harness_free_tensor(&x);
    harness_free_tensor(&y);
    harness_free_tensor(&z);
}

/* Q is rotated when attention loads it: every form takes axes, phases and growth as ROTATE does.
 * Keys are random numbers; visibility goes by index. */
static void check_inside(harness *h, const char *name, const void *scheme, rhumb_variant variant,
                         uint32_t q_rows)
{
    enum { HEADS = 4, KV_HEADS = 2, KEYS = 9, DIM = 64 };
    static float q[HEADS * 5 * DIM], k[KV_HEADS * KEYS * DIM], o[HEADS * 5 * DIM];
    static double q_values[HEADS * 5 * DIM], k_values[KV_HEADS * KEYS * DIM], want[HEADS * 5 * DIM];
    int32_t positions[4 * 5];
    harness_random r = {.state = 14};
    verify_rotary rotary;
    verify_result v;
    ref_attention a;
    gpu_operation op;
    for (size_t i = 0; i < sizeof q / sizeof q[0]; i++) {
        q_values[i] = q[i] = (float)harness_normal(&r);
    }
    for (size_t i = 0; i < sizeof k / sizeof k[0]; i++) {
        k_values[i] = k[i] = (float)harness_normal(&r);
    }
    cr_assert(verify_read_rotary(scheme, DIM, 0, &rotary));
    for (uint32_t i = 0; i < rotary.axes * q_rows; i++) {
        positions[i] = (int32_t)(i * i % 23);
    }
    const verify_rows rows = {
        .batch = 1, .heads = HEADS, .rows = q_rows, .head_dim = DIM, .positions = positions};
    cr_assert(verify_rotate(&rotary, &rows, q_values, q_values));
    ref_attention_init(&a, 1, HEADS, q_rows, KEYS, DIM);
    a.kv_heads = KV_HEADS;
    a.causal = 1;
    a.q_offset = KEYS - (int32_t)q_rows;
    a.q = q_values;
    a.k = a.v = k_values;
    a.o = want;
    cr_assert_eq(ref_attend(&a), 0);
    gpu_init_operation(&op, RHUMB_OP_ATTENTION);
    op.info.variant = variant;
    op.info.rotary = scheme;
    op.info.heads = HEADS;
    op.info.kv_heads = KV_HEADS;
    op.info.head_dim = DIM;
    op.info.max_q_length = q_rows;
    op.info.max_k_length = KEYS;
    op.dispatch.causal = 1;
    gpu_add_tensor(&op, RHUMB_VIEW_Q, RHUMB_F32, 1, HEADS, q_rows, DIM, q, NULL);
    gpu_add_tensor(&op, RHUMB_VIEW_K, RHUMB_F32, 1, KV_HEADS, KEYS, DIM, k, NULL);
    gpu_add_tensor(&op, RHUMB_VIEW_V, RHUMB_F32, 1, KV_HEADS, KEYS, DIM, k, NULL);
    gpu_add_tensor(&op, RHUMB_VIEW_O, RHUMB_F32, 1, HEADS, q_rows, DIM, NULL, o);
    gpu_add_tensor(&op, RHUMB_VIEW_POSITIONS_Q, RHUMB_I32, 1, rotary.axes, 1, q_rows, positions,
                   NULL);
    h->cases++;
    if (harness_run(h, &op) != RHUMB_OK) {
        harness_fail(h, "%s inside attention, variant %d: %s", name, (int)variant, op.message);
        return;
    }
    verify_compare(RHUMB_F32, o, want, (uint64_t)HEADS * q_rows * DIM, verify_attention_scale(&a),
                   &v);
    if (!v.pass) {
        harness_fail(
            h, "%s inside attention, variant %d: element %llu: got %.9g, want %.9g, bound %.3g",
            name, (int)variant, (unsigned long long)v.index, v.got, v.want, v.bound);
    }
}

static void run_profile(harness_profile profile)
{
    harness h;
    harness_open(&h, profile);
    SHAPE_RUN_ALL(&h, shape_run_rotate, table);
    check_equal_rows(&h);
    check_grids(&h, "half", plane_half());
    check_grids(&h, "columns first", plane_columns());
    check_grids(&h, "per axis", plane_per_axis());
    check_inside(&h, "mrope", mrope_interleaved(), RHUMB_VARIANT_GENERIC, 5);
    check_inside(&h, "mrope", mrope_interleaved(), RHUMB_VARIANT_TILE, 5);
    check_inside(&h, "mrope", mrope_interleaved(), RHUMB_VARIANT_DECODE, 1);
    check_inside(&h, "rope2d", plane_centred(), RHUMB_VARIANT_DECODE, 2);
    check_inside(&h, "xpos", xpos_near(), RHUMB_VARIANT_TILE, 5);
    harness_close(&h);
}

Test(rotate_schemes, xpos_mrope_rope2d_and_interleaved_to_half_on_lavapipe)
{
    run_profile(HARNESS_LAVAPIPE);
}

Test(rotate_schemes, xpos_mrope_rope2d_and_interleaved_to_half_on_the_smallest_device)
{
    run_profile(HARNESS_LAVAPIPE_FLOOR);
}

Test(rotate_schemes, xpos_mrope_rope2d_and_interleaved_to_half_on_swiftshader)
{
    run_profile(HARNESS_SWIFTSHADER);
}
