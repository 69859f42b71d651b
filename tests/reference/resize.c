/* Resampling of tables that are images: each axis is a matrix of weights, the rows' and the
 * columns' apart. Cubic kernel: Keys (1981), with the parameter a of released code; samples lie at
 * the middle of their cells.
 */
#include "reference_absolute.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ------------------------------------------------------------------------------------------------
 * Kernels
 */
static double cubic(double u, double a)
{
    u = fabs(u);
    if (u <= 1.0)
        return ((a + 2.0) * u - (a + 3.0)) * u * u + 1.0;
    return u < 2.0 ? (((u - 5.0) * u + 8.0) * u - 4.0) * a : 0.0;
}

static double triangle(double u)
{
    return fmax(1.0 - fabs(u), 0.0);
}

static uint32_t clamped(double index, uint32_t n)
{
    return (uint32_t)fmin(fmax(index, 0.0), n - 1.0);
}

/* ------------------------------------------------------------------------------------------------
 * One row of the matrix: weights of the n source cells, which are zeros on entry
 */
static void point_row(const ref_resize *t, double source, uint32_t n, double *row)
{
    double at, along;
    int tap;

    if (t->mode == REF_RESIZE_BILINEAR) {
        source = fmax(source, 0.0);
        at = fmin(floor(source), n - 1.0);
        row[clamped(at, n)] += 1.0 - (source - at);
        row[clamped(at + 1.0, n)] += source - at;
        return;
    }
    at = floor(source);
    along = source - at;
    for (tap = -1; tap <= 2; tap++)
        row[clamped(at + tap, n)] += cubic(along - tap, -0.75);
}

/* The kernel is as wide as the larger of a source and a target cell; what it finds outside is left
 * out, and the rest sums to 1. */
static void area_row(const ref_resize *t, double step, uint32_t i, uint32_t n, double *row)
{
    const double wide = fmax(step, 1.0), centre = step * (i + 0.5);
    const double radius = t->mode == REF_RESIZE_BICUBIC ? 2.0 * wide : wide;
    const double low = fmax(trunc(centre - radius + 0.5), 0.0);
    const double high = fmin(trunc(centre + radius + 0.5), n);
    double sum = 0.0, j;

    for (j = low; j < high; j++) {
        const double u = (j - centre + 0.5) / wide;
        row[(uint32_t)j] = t->mode == REF_RESIZE_BICUBIC ? cubic(u, -0.5) : triangle(u);
        sum += row[(uint32_t)j];
    }
    for (j = low; j < high; j++)
        row[(uint32_t)j] /= sum;
}

/* 1 + q + ... + q^(k - 1) */
static double geometric_sum(double q, uint32_t k)
{
    return (1.0 - pow(q, k)) / (1.0 - q);
}

/* The ratio whose k steps reach `reach`, or the end of the bracket. */
static double geometric_ratio(uint32_t k, uint32_t reach)
{
    double low = 1.01, high = 1.5, q = 1.5;

    while (high - low > 1e-6) {
        q = (low + high) / 2.0;
        if (geometric_sum(q, k) > reach)
            high = q;
        else
            low = q;
    }
    return q;
}

/* Between the source offsets of the middle's side on which `offset` lies; beyond the last one, it
 * alone. */
static void geometric_row(double q, uint32_t k, double offset, double *row)
{
    const int side = offset < 0.0 ? -1 : 1;
    const double distance = fabs(offset);
    double before = 0.0, step = 1.0;
    uint32_t j;

    for (j = 0; j < k && distance >= before + step; j++) {
        before += step;
        step *= q;
    }
    if (j == k) {
        row[side < 0 ? 0 : 2 * k] = 1.0;
        return;
    }
    row[side < 0 ? k - j : k + j] = 1.0 - (distance - before) / step;
    row[side < 0 ? k - j - 1 : k + j + 1] = (distance - before) / step;
}

/* ------------------------------------------------------------------------------------------------
 * Axes
 */
static int valid(const ref_resize *t, uint32_t axis)
{
    const uint32_t n = t->old_grid[axis], m = t->new_grid[axis];
    const double factor = t->scale_factor[axis];

    if (n == 0 || m == 0 || !(factor >= 0.0 && factor < (double)INFINITY))
        return 0;
    if (t->mode == REF_RESIZE_GEOMETRIC)
        return n % 2 == 1 && m % 2 == 1;
    if (t->antialias && factor > 0.0 && !((m - 0.5) / factor < n))
        return 0; /* the last target would see no source */
    return !t->align_corners || (!t->antialias && factor == 0.0);
}

int ref_resize_weights(const ref_resize *t, uint32_t axis, double *weights)
{
    const uint32_t n = t->old_grid[axis], m = t->new_grid[axis];
    double step, q;
    uint32_t i;

    if (!valid(t, axis))
        return -1;
    memset(weights, 0, (size_t)n * m * sizeof *weights);
    step = t->scale_factor[axis] > 0.0 ? 1.0 / t->scale_factor[axis] : (double)n / m;
    q = t->mode == REF_RESIZE_GEOMETRIC ? geometric_ratio(n / 2, m / 2) : 0.0;
    for (i = 0; i < m; i++) {
        double *row = weights + (uint64_t)i * n;
        if (t->mode == REF_RESIZE_GEOMETRIC)
            geometric_row(q, n / 2, (double)i - m / 2, row);
        else if (t->antialias)
            area_row(t, step, i, n, row);
        else if (t->align_corners)
            point_row(t, m > 1 ? i * (n - 1.0) / (m - 1.0) : 0.0, n, row);
        else
            point_row(t, (i + 0.5) * step - 0.5, n, row);
    }
    return 0;
}

/* to[o, i, j] = sum over s of weights[i, s] from[o, s, j] */
static void apply(const double *weights, uint64_t outer, uint32_t n, uint32_t m, uint64_t inner,
                  const double *from, double *to)
{
    uint64_t o, j;
    uint32_t i, s;

    for (o = 0; o < outer; o++)
        for (i = 0; i < m; i++)
            for (j = 0; j < inner; j++) {
                double sum = 0.0;
                for (s = 0; s < n; s++)
                    if (weights[(uint64_t)i * n + s] != 0.0)
                        sum += weights[(uint64_t)i * n + s] * from[(o * n + s) * inner + j];
                to[(o * m + i) * inner + j] = sum;
            }
}

int ref_resize_table(const ref_resize *t, const double *table, double *resized)
{
    const uint32_t *old = t->old_grid, *wanted = t->new_grid;
    const uint64_t prefix = (uint64_t)t->prefix * t->dim, suffix = (uint64_t)t->suffix * t->dim;
    const uint64_t from = (uint64_t)old[0] * old[1] * t->dim;
    const uint64_t to = (uint64_t)wanted[0] * wanted[1] * t->dim;
    double *rows = malloc((size_t)((uint64_t)old[0] * wanted[0] + 1) * sizeof *rows);
    double *columns = malloc((size_t)((uint64_t)old[1] * wanted[1] + 1) * sizeof *columns);
    double *between = malloc((size_t)((uint64_t)wanted[0] * old[1] * t->dim + 1) * sizeof *between);
    int result = -1;

    if (rows != NULL && columns != NULL && between != NULL && t->dim > 0 &&
        ref_resize_weights(t, 0, rows) == 0 && ref_resize_weights(t, 1, columns) == 0) {
        memcpy(resized, table, (size_t)prefix * sizeof *table);
        apply(rows, 1, old[0], wanted[0], (uint64_t)old[1] * t->dim, table + prefix, between);
        apply(columns, wanted[0], old[1], wanted[1], t->dim, between, resized + prefix);
        memcpy(resized + prefix + to, table + prefix + from, (size_t)suffix * sizeof *table);
        result = 0;
    }
    free(rows);
    free(columns);
    free(between);
    return result;
}
