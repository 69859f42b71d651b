/* RESIZE: learned tables resampled to another grid, against the double-precision reference; what
 * must keep its bits; and what must be refused. */
#include "harness.h"

#include "reference/reference_absolute.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COUNT(array) (sizeof(array) / sizeof(array)[0])
#define EPSILON 5.9604644775390625e-8 /* 2^-24: one rounding of a float */

typedef struct resize_shape {
    rhumb_resize_mode mode;
    uint32_t antialias;
    uint32_t align_corners;
    uint32_t old_grid[2];
    uint32_t new_grid[2];
    uint32_t prefix;
    uint32_t suffix;
    uint32_t dim;
    double offset; /* not 0: scale_factor is (new + offset)/old */
    rhumb_dtype dtype;
    rhumb_dtype out_dtype;
    harness_layout layout;
    harness_layout out_layout;
} resize_shape;

typedef struct resize_run {
    rhumb_resize resize;
    harness_tensor table;
    harness_tensor y;
    gpu_operation op;
} resize_run;

static uint64_t rows_of(const resize_shape *s, const uint32_t grid[2])
{
    return (uint64_t)s->prefix + (uint64_t)grid[0] * grid[1] + s->suffix;
}

static void describe(const resize_shape *s, char *text, size_t size)
{
    static const char *const modes[] = {"bicubic", "bilinear", "geometric"};
    snprintf(text, size, "%s%s%s %ux%u -> %ux%u + %u + %u, D%u, %s -> %s, offset %g",
             modes[s->mode], s->antialias ? " antialias" : "", s->align_corners ? " corners" : "",
             s->old_grid[0], s->old_grid[1], s->new_grid[0], s->new_grid[1], s->prefix, s->suffix,
             s->dim, harness_dtype_name(s->dtype), harness_dtype_name(s->out_dtype), s->offset);
}

static void make_run(resize_run *run, const resize_shape *s)
{
    harness_random r = {.state = 1 + s->dim + 7 * s->old_grid[0]};
    memset(run, 0, sizeof *run);
    rhumb_init_resize(&run->resize);
    run->resize.mode = s->mode;
    run->resize.antialias = s->antialias;
    run->resize.align_corners = s->align_corners;
    run->resize.prefix_tokens = s->prefix;
    run->resize.suffix_tokens = s->suffix;
    for (uint32_t axis = 0; axis < 2; axis++) {
        run->resize.old_grid[axis] = s->old_grid[axis];
        run->resize.new_grid[axis] = s->new_grid[axis];
        run->resize.scale_factor[axis] =
            s->offset != 0.0 ? (s->new_grid[axis] + s->offset) / s->old_grid[axis] : 0.0;
    }
    harness_make_tensor(&run->table, s->dtype, 1, 1, rows_of(s, s->old_grid), s->dim, s->layout);
    harness_make_tensor(&run->y, s->out_dtype, 1, 1, rows_of(s, s->new_grid), s->dim,
                        s->out_layout);
    harness_fill_normal(&run->table, &r);
    gpu_init_operation(&run->op, RHUMB_OP_RESIZE);
    run->op.info.scheme = &run->resize;
    run->op.info.head_dim = s->dim;
    (void)harness_add(&run->op, RHUMB_VIEW_TABLE, &run->table, false);
    (void)harness_add(&run->op, RHUMB_VIEW_Y, &run->y, true);
}

static void free_run(resize_run *run)
{
    harness_free_tensor(&run->table);
    harness_free_tensor(&run->y);
}

static bool run_device(harness *h, resize_run *run, const char *text)
{
    h->cases++;
    if (harness_run(h, &run->op) != RHUMB_OK) {
        return harness_fail(h, "resize: %s: %s", text, run->op.message);
    }
    harness_load(&run->y);
    return true;
}

/* ------------------------------------------------------------------------------------------------
 * Against the reference
 */

/* One axis of the reference: weights [wanted, source]. */
typedef struct axis_weights {
    uint32_t source;
    double *weights;
    double error; /* of a weight */
} axis_weights;

/* Error of a weight in f32. Its argument u is a difference (of a fraction with 24 bits) over a
 * rounded width: 3.5 EPSILON relative, at a slope that is at most 1/|u|. The triangle adds one
 * rounding; the cubic is a product of factors of up to 1.6, the second with 3 roundings. With
 * antialias weights are divided by their sum, at least half the width. */
static double weight_error(const resize_shape *s, double step)
{
    double raw = (s->mode == RHUMB_RESIZE_BICUBIC ? 8.5 : 5.0) * EPSILON;
    return s->antialias ? 2.0 * raw / fmax(step, 1.0) : raw;
}

static void make_axis(const resize_shape *s, const ref_resize *t, uint32_t axis, axis_weights *a)
{
    double step = (double)s->old_grid[axis] / s->new_grid[axis];
    a->source = s->old_grid[axis];
    a->weights = harness_alloc((size_t)s->old_grid[axis] * s->new_grid[axis], sizeof *a->weights);
    a->error = weight_error(s, step);
    cr_assert_eq(ref_resize_weights(t, axis, a->weights), 0);
}

/* Where the taps of a sample begin and end, with a neighbour on each side, whose weight may be a
 * rounding error on the device. */
static void tap_range(const axis_weights *a, uint32_t i, uint32_t *first, uint32_t *end)
{
    const double *row = a->weights + (size_t)i * a->source;
    uint32_t low = 0, high = a->source;
    while (low + 1 < a->source && row[low] == 0.0) {
        low++;
    }
    while (high > low + 1 && row[high - 1] == 0.0) {
        high--;
    }
    *first = low > 0 ? low - 1 : 0;
    *end = high < a->source ? high + 1 : high;
}

/* want and bound of the channels of one resampled row. The sum of n products has n + 4 roundings;
 * the sum that it is divided by has errors like its own. */
static void expect_row(const resize_shape *s, const axis_weights axes[2], const double *table,
                       uint32_t row, double *want, double *bound)
{
    uint32_t y = row / s->new_grid[1], x = row % s->new_grid[1], j0, j1, i0, i1;
    double sides = s->antialias ? 2.0 : 1.0;
    tap_range(&axes[0], y, &j0, &j1);
    tap_range(&axes[1], x, &i0, &i1);
    double roundings = ((double)(j1 - j0) * (i1 - i0) + 4.0) * EPSILON;
    for (uint32_t j = j0; j < j1; j++) {
        for (uint32_t i = i0; i < i1; i++) {
            double wy = axes[0].weights[(size_t)y * axes[0].source + j];
            double wx = axes[1].weights[(size_t)x * axes[1].source + i];
            double error = fabs(wy) * axes[1].error + fabs(wx) * axes[0].error +
                           axes[0].error * axes[1].error + fabs(wy * wx) * roundings;
            const double *v = table + (s->prefix + (uint64_t)j * s->old_grid[1] + i) * s->dim;
            for (uint32_t d = 0; d < s->dim; d++) {
                want[d] += wy * wx * v[d];
                bound[d] += sides * error * fabs(v[d]);
            }
        }
    }
}

static void expect_all(const resize_shape *s, const resize_run *run, double *want, double *bound)
{
    axis_weights axes[2];
    const uint32_t tokens = s->new_grid[0] * s->new_grid[1];
    const uint64_t old_tokens = (uint64_t)s->old_grid[0] * s->old_grid[1];
    ref_resize t = {.mode = s->mode == RHUMB_RESIZE_BICUBIC    ? REF_RESIZE_BICUBIC
                            : s->mode == RHUMB_RESIZE_BILINEAR ? REF_RESIZE_BILINEAR
                                                               : REF_RESIZE_GEOMETRIC,
                    .antialias = (int)s->antialias,
                    .align_corners = (int)s->align_corners,
                    .dim = s->dim};
    memcpy(t.old_grid, s->old_grid, sizeof t.old_grid);
    memcpy(t.new_grid, s->new_grid, sizeof t.new_grid);
    memcpy(t.scale_factor, run->resize.scale_factor, sizeof t.scale_factor);
    make_axis(s, &t, 0, &axes[0]);
    make_axis(s, &t, 1, &axes[1]);
    for (uint64_t row = 0; row < rows_of(s, s->new_grid); row++) {
        double *w = want + row * s->dim, *b = bound + row * s->dim;
        if (row >= s->prefix && row < s->prefix + tokens) {
            expect_row(s, axes, run->table.values, (uint32_t)(row - s->prefix), w, b);
        } else {
            uint64_t from = row < s->prefix ? row : row - tokens + old_tokens;
            memcpy(w, run->table.values + from * s->dim, s->dim * sizeof *w);
        }
        for (uint32_t d = 0; d < s->dim; d++) {
            /* nothing is rounded where a row is copied to its own dtype */
            bool kept = b[d] == 0.0 && s->dtype == s->out_dtype;
            b[d] += kept ? 0.0 : harness_rounding(s->out_dtype, fabs(w[d]) + b[d]);
        }
    }
    free(axes[0].weights);
    free(axes[1].weights);
}

static void run_shape(harness *h, const resize_shape *s)
{
    char text[192];
    resize_run run;
    double *want, *bound;
    describe(s, text, sizeof text);
    make_run(&run, s);
    want = harness_alloc(run.y.count, sizeof *want);
    bound = harness_alloc(run.y.count, sizeof *bound);
    expect_all(s, &run, want, bound);
    if (run_device(h, &run, text)) {
        (void)harness_compare(h, "resize", text, &run.y, want, bound, NULL);
    }
    free(want);
    free(bound);
    free_run(&run);
}

#define CUBIC .mode = RHUMB_RESIZE_BICUBIC
#define LINEAR .mode = RHUMB_RESIZE_BILINEAR
#define GEOMETRIC .mode = RHUMB_RESIZE_GEOMETRIC
#define ANTIALIAS .antialias = 1
#define CORNERS .align_corners = 1
#define FROM(h, w) .old_grid = {h, w}
#define TO(h, w) .new_grid = {h, w}
#define STORED(in, out) .dtype = RHUMB_##in, .out_dtype = RHUMB_##out
#define ODD {.row_pad = 5, .offset = 3}
#define EVEN {.row_pad = 4, .offset = 8}

static const resize_shape table[] = {
    /* up, down and across, every mode */
    {CUBIC, FROM(7, 5), TO(13, 11), .dim = 64},
    {CUBIC, FROM(13, 11), TO(7, 5), .dim = 64, .prefix = 1},
    {CUBIC, FROM(7, 11), TO(13, 5), .dim = 63, .prefix = 1},
    {CUBIC, ANTIALIAS, FROM(7, 5), TO(13, 11), .dim = 64},
    {CUBIC, ANTIALIAS, FROM(13, 11), TO(7, 5), .dim = 64, .prefix = 5},
    {CUBIC, ANTIALIAS, FROM(7, 11), TO(13, 5), .dim = 63, .suffix = 2},
    {CUBIC, CORNERS, FROM(7, 5), TO(13, 11), .dim = 64},
    {CUBIC, CORNERS, FROM(13, 11), TO(7, 5), .dim = 3, .prefix = 2, .suffix = 1},
    {LINEAR, FROM(7, 5), TO(13, 11), .dim = 64},
    {LINEAR, FROM(13, 11), TO(7, 5), .dim = 1, .prefix = 1},
    {LINEAR, ANTIALIAS, FROM(7, 5), TO(13, 11), .dim = 64},
    {LINEAR, ANTIALIAS, FROM(13, 11), TO(7, 5), .dim = 3, .prefix = 1},
    {LINEAR, CORNERS, FROM(7, 5), TO(13, 11), .dim = 64, .prefix = 1},
    {LINEAR, CORNERS, FROM(13, 11), TO(7, 5), .dim = 63},
    {GEOMETRIC, FROM(7, 5), TO(13, 11), .dim = 3, .suffix = 3},
    {GEOMETRIC, FROM(13, 11), TO(7, 5), .dim = 4, .suffix = 3},
    /* one axis keeps its side */
    {CUBIC, FROM(7, 5), TO(7, 11), .dim = 64},
    {LINEAR, ANTIALIAS, FROM(13, 5), TO(7, 5), .dim = 64},
    {GEOMETRIC, FROM(13, 5), TO(13, 7), .dim = 3},
    /* single samples */
    {CUBIC, FROM(1, 1), TO(3, 2), .dim = 64, .prefix = 1},
    {CUBIC, ANTIALIAS, FROM(1, 1), TO(2, 5), .dim = 3},
    {CUBIC, ANTIALIAS, FROM(5, 3), TO(1, 1), .dim = 64},
    {CUBIC, CORNERS, FROM(5, 3), TO(1, 2), .dim = 64},
    {LINEAR, FROM(1, 7), TO(2, 1), .dim = 1},
    {LINEAR, CORNERS, FROM(1, 2), TO(4, 1), .dim = 3},
    {GEOMETRIC, FROM(1, 3), TO(3, 1), .dim = 3},
    /* DINOv2's factors, up and down */
    {CUBIC, FROM(37, 37), TO(16, 11), .dim = 768, .prefix = 1, .offset = 0.1},
    {CUBIC, FROM(16, 17), TO(21, 31), .dim = 64, .prefix = 1, .offset = 0.1},
    {CUBIC, ANTIALIAS, FROM(37, 29), TO(16, 11), .dim = 64, .prefix = 5, .offset = 0.1},
    {LINEAR, ANTIALIAS, FROM(11, 37), TO(3, 41), .dim = 3, .offset = -0.25},
    /* a factor on equal grids still resamples */
    {CUBIC, FROM(7, 5), TO(7, 5), .dim = 64, .offset = 0.1},
    /* large shrinks, long rows */
    {CUBIC, ANTIALIAS, FROM(64, 61), TO(3, 5), .dim = 64, .prefix = 1},
    {LINEAR, ANTIALIAS, FROM(64, 61), TO(3, 5), .dim = 7},
    {CUBIC, FROM(1, 16384), TO(1, 9973), .dim = 1},
    {CUBIC, FROM(1, 9973), TO(1, 16384), .dim = 1, .suffix = 1},
    {LINEAR, CORNERS, FROM(16384, 1), TO(9973, 1), .dim = 1},
    {CUBIC, ANTIALIAS, FROM(1, 16384), TO(1, 1021), .dim = 1},
    /* tables of window biases: Swin's images of 2 w - 1 a side with a channel per head, BEiT's with
     * three more rows */
    {CUBIC, FROM(13, 13), TO(23, 23), .dim = 3},
    {CUBIC, FROM(13, 9), TO(23, 15), .dim = 6},
    {CUBIC, ANTIALIAS, FROM(15, 15), TO(9, 9), .dim = 16},
    {GEOMETRIC, FROM(27, 27), TO(47, 47), .dim = 12, .suffix = 3},
    {GEOMETRIC, FROM(27, 13), TO(39, 25), .dim = 16, .suffix = 3},
    {LINEAR, FROM(27, 27), TO(47, 47), .dim = 12, .suffix = 3},
    {GEOMETRIC, FROM(3, 255), TO(255, 5), .dim = 1},
    /* dtypes in and out, vector and scalar accesses, 16-bit rows that share words */
    {CUBIC, FROM(7, 5), TO(9, 11), .dim = 64, .prefix = 1, STORED(F16, F16)},
    {CUBIC, FROM(7, 5), TO(9, 11), .dim = 64, .prefix = 1, STORED(BF16, BF16)},
    {CUBIC, FROM(7, 5), TO(9, 11), .dim = 64, .prefix = 1, STORED(F16, F32)},
    {CUBIC, FROM(7, 5), TO(9, 11), .dim = 64, .prefix = 1, STORED(F32, F16)},
    {CUBIC, FROM(7, 5), TO(9, 11), .dim = 64, .prefix = 1, STORED(BF16, F16)},
    {CUBIC, ANTIALIAS, FROM(9, 11), TO(7, 5), .dim = 63, .prefix = 3, STORED(F16, F16)},
    {CUBIC, ANTIALIAS, FROM(9, 11), TO(7, 5), .dim = 63, .prefix = 3, STORED(BF16, BF16)},
    {LINEAR, FROM(9, 11), TO(7, 5), .dim = 1, .prefix = 1, .suffix = 1, STORED(F16, F16)},
    {LINEAR, FROM(9, 11), TO(7, 5), .dim = 3, .prefix = 1, .suffix = 1, STORED(F32, BF16)},
    {LINEAR, FROM(9, 11), TO(7, 5), .dim = 3, .prefix = 1, .suffix = 1, STORED(BF16, F32)},
    {GEOMETRIC, FROM(7, 5), TO(9, 11), .dim = 5, .suffix = 3, STORED(F16, F16)},
    {CUBIC, FROM(7, 5), TO(9, 11), .dim = 64, .prefix = 1, .layout = ODD, .out_layout = EVEN},
    {CUBIC, FROM(7, 5), TO(9, 11), .dim = 64, .prefix = 1, .layout = EVEN, .out_layout = EVEN},
    {CUBIC, FROM(7, 5), TO(9, 11), .dim = 64, .prefix = 1, .layout = EVEN, .out_layout = ODD,
     STORED(F16, F16)},
    {CUBIC, FROM(7, 5), TO(9, 11), .dim = 64, .prefix = 1, .layout = EVEN, .out_layout = EVEN,
     STORED(F16, BF16)},
    {LINEAR, ANTIALIAS, FROM(9, 11), TO(7, 5), .dim = 63, .suffix = 1, .layout = ODD,
     .out_layout = ODD, STORED(BF16, F16)},
};

/* Field test 19: 4 x 4 with a class token to 7 x 5 and to 3 x 3, with every pair of switches that
 * goes together. */
static void run_field_test(harness *h)
{
    static const uint32_t grids[2][2] = {{7, 5}, {3, 3}};
    for (uint32_t i = 0; i < 16; i++) {
        const resize_shape s = {.mode = i & 1 ? RHUMB_RESIZE_BILINEAR : RHUMB_RESIZE_BICUBIC,
                                .antialias = i >> 1 & 1,
                                .align_corners = i >> 2 & 1,
                                FROM(4, 4),
                                TO(grids[i >> 3][0], grids[i >> 3][1]),
                                .prefix = 1,
                                .dim = 8};
        if (!(s.antialias && s.align_corners)) {
            run_shape(h, &s);
        }
    }
}

/* ------------------------------------------------------------------------------------------------
 * Bits
 */

/* Elements that a sum would change: a negative zero, infinities, NaN with a payload, denormals. */
static void store_odd_bits(harness_tensor *t)
{
    static const uint32_t words[] = {0x80000000u, 0x7f800000u, 0xff800000u, 0x7fc12345u, 1u};
    static const uint16_t halves[] = {0x8000u, 0x7c00u, 0xfc00u, 0x7e35u, 1u};
    for (uint64_t i = 0; i < t->count; i += 3) {
        uint8_t *at = t->memory + harness_byte(t, i);
        if (t->dtype == RHUMB_F32) {
            memcpy(at, &words[i / 3 % COUNT(words)], sizeof words[0]);
        } else {
            memcpy(at, &halves[i / 3 % COUNT(halves)], sizeof halves[0]);
        }
    }
}

static void expect_copy(harness *h, const resize_shape *s)
{
    char text[192];
    resize_run run;
    uint64_t size = harness_dtype_size(s->dtype);
    describe(s, text, sizeof text);
    make_run(&run, s);
    store_odd_bits(&run.table);
    if (run_device(h, &run, text)) {
        for (uint64_t i = 0; i < run.y.count; i++) {
            if (memcmp(run.y.memory + harness_byte(&run.y, i),
                       run.table.memory + harness_byte(&run.table, i), size) != 0) {
                harness_fail(h, "resize: %s: element %llu has other bits", text,
                             (unsigned long long)i);
                break;
            }
        }
    }
    free_run(&run);
}

static void run_copies(harness *h)
{
    static const rhumb_dtype dtypes[] = {RHUMB_F32, RHUMB_F16, RHUMB_BF16};
    static const resize_shape copies[] = {
        {CUBIC, FROM(4, 4), TO(4, 4), .prefix = 1, .dim = 8},
        {CUBIC, ANTIALIAS, FROM(7, 5), TO(7, 5), .prefix = 1, .dim = 64},
        {CUBIC, CORNERS, FROM(7, 5), TO(7, 5), .suffix = 1, .dim = 3},
        {LINEAR, FROM(7, 5), TO(7, 5), .dim = 63},
        {LINEAR, ANTIALIAS, FROM(1, 5), TO(1, 5), .dim = 1},
        {LINEAR, CORNERS, FROM(1, 1), TO(1, 1), .prefix = 2, .suffix = 3, .dim = 3},
        {GEOMETRIC, FROM(7, 13), TO(7, 13), .suffix = 3, .dim = 3},
        {CUBIC, FROM(7, 5), TO(7, 5), .prefix = 1, .dim = 64, .layout = ODD, .out_layout = EVEN},
    };
    for (size_t i = 0; i < COUNT(copies); i++) {
        for (size_t t = 0; t < COUNT(dtypes); t++) {
            resize_shape s = copies[i];
            s.dtype = s.out_dtype = dtypes[t];
            expect_copy(h, &s);
        }
    }
}

static void run_profile(harness_profile profile)
{
    harness h;
    harness_open(&h, profile);
    for (size_t i = 0; i < COUNT(table); i++) {
        run_shape(&h, &table[i]);
    }
    run_field_test(&h);
    run_copies(&h);
    harness_close(&h);
}

Test(resize, lavapipe_agrees_with_the_reference_and_keeps_the_bits_of_equal_grids)
{
    run_profile(HARNESS_LAVAPIPE);
}

Test(resize, the_floor_agrees_with_the_reference_and_keeps_the_bits_of_equal_grids)
{
    run_profile(HARNESS_LAVAPIPE_FLOOR);
}

Test(resize, swiftshader_agrees_with_the_reference_and_keeps_the_bits_of_equal_grids)
{
    run_profile(HARNESS_SWIFTSHADER);
}

/* ------------------------------------------------------------------------------------------------
 * Bad input
 */
typedef struct attempt {
    const char *name;
    rhumb_result code;
    const char *start;
    const char *found;
    void (*change)(resize_run *run);
} attempt;

#define SET(pair, a, b) (run->resize.pair[0] = (a), run->resize.pair[1] = (b))
#define NOT_A_NUMBER ((double)NAN)

/* X(name, change, code, start of the line, a part of it) */
#define BAD_ROWS(X)                                                                                \
    X(old_grid_without_rows, SET(old_grid, 0, 5), ARGUMENT, "resize: old_grid: ", "found 0 x 5")   \
    X(new_grid_without_columns, SET(new_grid, 9, 0), ARGUMENT, "resize: new_grid: ",               \
      "found 9 x 0")                                                                               \
    X(side_too_large, SET(new_grid, 1, 16385), ARGUMENT, "resize: new_grid: ", "found 1 x 16385")  \
    X(side_of_all_bits, SET(old_grid, UINT32_MAX, UINT32_MAX), ARGUMENT, "resize: old_grid: ",     \
      "4294967295")                                                                                \
    X(unknown_mode, run->resize.mode = (rhumb_resize_mode)3, ARGUMENT, "resize: mode: ",           \
      "found 3")                                                                                   \
    X(negative_mode, run->resize.mode = (rhumb_resize_mode)-1, ARGUMENT, "resize: mode: ",         \
      "found -1")                                                                                  \
    X(antialias_of_two, run->resize.antialias = 2, ARGUMENT, "resize: antialias", "found 2")       \
    X(corners_of_two, run->resize.align_corners = 2, ARGUMENT, "resize: antialias", "and 2")       \
    X(corners_with_antialias, run->resize.antialias = run->resize.align_corners = 1, UNSUPPORTED,  \
      "resize: align_corners: ", "antialias")                                                      \
    X(factor_is_nan, SET(scale_factor, NOT_A_NUMBER, 1), ARGUMENT, "resize: scale_factor[0]: ",    \
      "nan")                                                                                       \
    X(factor_is_negative, SET(scale_factor, 0, -2), ARGUMENT, "resize: scale_factor[1]: ", "-2")   \
    X(factor_is_infinite, SET(scale_factor, (double)INFINITY, 0), ARGUMENT,                        \
      "resize: scale_factor[0]: ", "inf")                                                          \
    X(factor_of_another_grid, SET(scale_factor, 8.4 / 7, 0), ARGUMENT,                             \
      "resize: scale_factor[0]: wanted 0 or above 1.21429 and below 1.42857, for 9 from 7",        \
      "found 1.2")                                                                                 \
    X(factor_with_corners,                                                                         \
      (SET(scale_factor, 9.0 / 7, 11.0 / 5), run->resize.align_corners = 1), UNSUPPORTED,          \
      "resize: scale_factor[0]: ", "align_corners")                                                \
    X(factor_with_geometric,                                                                       \
      (SET(scale_factor, 9.0 / 7, 0), run->resize.mode = RHUMB_RESIZE_GEOMETRIC), UNSUPPORTED,     \
      "resize: scale_factor[0]: ", "GEOMETRIC")                                                    \
    X(geometric_with_antialias,                                                                    \
      (run->resize.antialias = 1, run->resize.mode = RHUMB_RESIZE_GEOMETRIC), UNSUPPORTED,         \
      "resize: antialias, align_corners: ", "found 1 and 0")                                       \
    X(geometric_to_even_sides,                                                                     \
      (SET(new_grid, 9, 12), run->resize.mode = RHUMB_RESIZE_GEOMETRIC), UNSUPPORTED,              \
      "resize: new_grid: GEOMETRIC", "found 12 from 5")                                            \
    X(geometric_from_even_sides,                                                                   \
      (SET(old_grid, 8, 5), run->resize.mode = RHUMB_RESIZE_GEOMETRIC), UNSUPPORTED,               \
      "resize: new_grid: GEOMETRIC", "found 9 from 8")                                             \
    X(geometric_to_a_longer_list,                                                                  \
      (SET(new_grid, 257, 5), run->resize.mode = RHUMB_RESIZE_GEOMETRIC), UNSUPPORTED,             \
      "resize: new_grid: GEOMETRIC", "found 257 from 7")                                           \
    X(prefix_too_large, run->resize.prefix_tokens = UINT32_MAX, ARGUMENT,                          \
      "resize: prefix_tokens", "4294967295")                                                       \
    X(suffix_too_large, run->resize.suffix_tokens = 0x20000001u, ARGUMENT,                         \
      "resize: prefix_tokens, suffix_tokens", "536870913")                                         \
    X(rows_too_many,                                                                               \
      (run->resize.suffix_tokens = 0x20000000u, run->resize.prefix_tokens = 0x20000000u), LIMIT,   \
      "resize: rows: ", "1073741859")                                                              \
    X(struct_too_large, run->resize.struct_size += 8, VERSION, "resize: ", "struct_size")          \
    X(struct_of_another_type, run->resize.type = RHUMB_TYPE_ALIBI, ARGUMENT, "resize: scheme: ",   \
      "another struct")                                                                            \
    X(no_struct, run->op.info.scheme = NULL, ARGUMENT, "resize: scheme: ", "NULL")                 \
    X(rotary_given, run->op.info.rotary = &run->resize, ARGUMENT, "resize: rotary: ", "NULL")      \
    X(several_heads, run->op.info.heads = 2, ARGUMENT, "resize: heads: ", "found 2")               \
    X(no_channels, run->op.info.head_dim = 0, ARGUMENT, "resize: head_dim: ", "found 0")           \
    X(channels_too_many, run->op.info.head_dim = 32769, ARGUMENT, "resize: head_dim: ", "32769")   \
    X(variant_of_attention, run->op.info.variant = RHUMB_VARIANT_TILE, UNSUPPORTED,                \
      "resize: variant: ", "found 2")                                                              \
    X(other_channels, run->op.info.head_dim = 12, ARGUMENT, "resize: shape of ", "found 8")        \
    X(table_of_other_rows, run->op.tensors[0].shape[2] = 35, ARGUMENT,                             \
      "resize: shape of TABLE ", "wanted exactly 36")                                              \
    X(table_of_other_channels, run->op.tensors[0].shape[3] = 7, ARGUMENT,                          \
      "resize: shape of TABLE ", "wanted exactly 8")                                               \
    X(table_of_two_heads, (run->op.tensors[0].shape[1] = 2, run->op.tensors[0].stride[1] = 0),     \
      ARGUMENT, "resize: shape of TABLE ",                                                         \
      "found 2")                                                                                   \
    X(result_of_other_rows, run->op.tensors[1].shape[2] = 99, ARGUMENT, "resize: shape of Y ",     \
      "wanted exactly 100")                                                                        \
    X(integer_table, run->op.tensors[0].dtype = RHUMB_I32, ARGUMENT, "resize: dtype of TABLE",     \
      "i32")                                                                                       \
    X(causal, run->op.dispatch.causal = 1, ARGUMENT, "resize: causal", "1")                        \
    X(window, run->op.dispatch.window_left = 3, ARGUMENT, "resize: causal, window_left", "3")      \
    X(length_of_rows, run->op.dispatch.q_length = 10, ARGUMENT, "resize: q_length", "10")          \
    X(length_of_keys, run->op.dispatch.k_length = 10, ARGUMENT, "resize: causal", "10")            \
    X(offset, run->op.dispatch.q_offset = 1, ARGUMENT, "resize: q_length, q_offset", "1")          \
    X(inverse, run->op.dispatch.inverse = 1, ARGUMENT, "resize: q_length, q_offset, inverse", "1") \
    X(append, run->op.dispatch.append_position = 0, ARGUMENT, "resize: q_length", "0")

#define DEFINE(name, act, code, start, found)                                                      \
    static void bad_##name(resize_run *run)                                                        \
    {                                                                                              \
        act;                                                                                       \
    }
#define ROW(name, act, code, start, found) {#name, RHUMB_ERROR_##code, start, found, bad_##name},

BAD_ROWS(DEFINE)

static const attempt attempts[] = {BAD_ROWS(ROW)};

Test(resize, bad_input_is_refused_with_its_numbers_and_writes_nothing)
{
    static const resize_shape good = {CUBIC, FROM(7, 5), TO(9, 11), .prefix = 1, .dim = 8};
    harness h;
    harness_open(&h, HARNESS_LAVAPIPE);
    run_shape(&h, &good);
    for (size_t i = 0; i < COUNT(attempts); i++) {
        const attempt *a = &attempts[i];
        resize_run run;
        make_run(&run, &good);
        a->change(&run);
        harness_expect_refused(&h, &run.op, a->name, a->code, a->start, a->found, &run.y);
        free_run(&run);
    }
    harness_close(&h);
}
