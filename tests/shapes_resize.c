#include "shapes_resize.h"

#include "reference/reference_absolute.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EPSILON 5.9604644775390625e-8 /* 2^-24: one rounding of a float */
#define REFUSED "the reference refuses a shape"

static uint64_t rows_of(const resize_shape *s, const uint32_t grid[2])
{
    return (uint64_t)s->prefix + (uint64_t)grid[0] * grid[1] + s->suffix;
}

void shape_describe_resize(const resize_shape *s, char *text, size_t size)
{
    static const char *const modes[] = {"bicubic", "bilinear", "geometric"};
    snprintf(text, size, "%s%s%s %ux%u -> %ux%u + %u + %u, D%u, %s -> %s, offset %g",
             modes[s->mode], s->antialias ? " antialias" : "", s->align_corners ? " corners" : "",
             s->old_grid[0], s->old_grid[1], s->new_grid[0], s->new_grid[1], s->prefix, s->suffix,
             s->dim, harness_dtype_name(s->dtype), harness_dtype_name(s->out_dtype), s->offset);
}

void shape_make_resize(resize_run *run, const resize_shape *s)
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

void shape_free_resize(resize_run *run)
{
    harness_free_tensor(&run->table);
    harness_free_tensor(&run->y);
}

bool shape_resize_on_device(harness *h, resize_run *run, const char *text)
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
    harness_need(ref_resize_weights(t, axis, a->weights) == 0, REFUSED);
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

bool shape_run_resize(harness *h, const resize_shape *s)
{
    char text[192];
    resize_run run;
    double *want, *bound;
    shape_describe_resize(s, text, sizeof text);
    shape_make_resize(&run, s);
    want = harness_alloc(run.y.count, sizeof *want);
    bound = harness_alloc(run.y.count, sizeof *bound);
    expect_all(s, &run, want, bound);
    bool passed = shape_resize_on_device(h, &run, text) &&
                  harness_compare(h, "resize", text, &run.y, want, bound, NULL);
    free(want);
    free(bound);
    shape_free_resize(&run);
    return passed;
}
