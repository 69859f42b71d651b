/* Sinusoids: Vaswani et al. (arXiv 1706.03762), section 3.5, in the forms of released code, and
 * their two-dimensional form as of Carion et al. (arXiv 2005.12872).
 *
 * Frequencies are sums of two doubles, as in rope.c and for the same reason.
 */
#include "pair_sum.h"
#include "reference_absolute.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ------------------------------------------------------------------------------------------------
 * One position
 */
void ref_sinusoid_init(ref_sinusoid *t, uint32_t dim)
{
    memset(t, 0, sizeof *t);
    t->dim = dim;
    t->base = 10000.0;
    t->padding_idx = REF_UNSET;
    t->x_scale = 1.0;
    t->pe_scale = 1.0;
}

uint32_t ref_sinusoid_angles(const ref_sinusoid *t)
{
    return t->dim / 2 + (t->dim % 2 != 0 && t->odd != REF_ODD_ZERO_PAD ? 1 : 0);
}

static int valid(const ref_sinusoid *t)
{
    if (t->dim == 0 || (t->inv_freq == NULL && !(t->base > 0.0 && t->base < (double)INFINITY)))
        return 0;
    if (t->dim % 2 == 0)
        return 1;
    if (t->odd == REF_ODD_NATIVE)
        return t->rule == REF_SINUSOID_POWER && t->layout != REF_SINUSOID_COS_FIRST;
    return t->odd != REF_ODD_NONE;
}

/* base^(-2i/d), or from 1 to 1/base in n steps of equal ratio. */
static pair_sum frequency(ref_sinusoid_rule rule, double base, uint32_t d, uint32_t n, uint32_t i)
{
    if (rule == REF_SINUSOID_ENDPOINT)
        return ref_pair_negative_power(ref_pair(base), i, n > 1 ? n - 1 : 1);
    return d % 2 == 0 ? ref_pair_negative_power(ref_pair(base), i, d / 2)
                      : ref_pair_negative_power(ref_pair(base), 2 * i, d);
}

static pair_sum frequency_of(const ref_sinusoid *t, uint32_t i)
{
    uint32_t d = t->dim;

    if (t->inv_freq != NULL)
        return ref_pair(t->inv_freq[i]);
    if (d % 2 != 0 && t->odd == REF_ODD_ZERO_PAD)
        d--;
    if (d % 2 != 0 && t->odd == REF_ODD_CEIL_EVEN)
        d++;
    return frequency(t->rule, t->base, d, ref_sinusoid_angles(t), i);
}

int ref_sinusoid_frequencies(const ref_sinusoid *t, double *inv_freq)
{
    uint32_t i;

    if (!valid(t))
        return -1;
    for (i = 0; i < ref_sinusoid_angles(t); i++)
        inv_freq[i] = frequency_of(t, i).high;
    return 0;
}

/* The last cosine or sine of an odd row has no channel. */
static void fill_row(const ref_sinusoid *t, const pair_sum *frequencies, double p, double *row)
{
    const uint32_t n = ref_sinusoid_angles(t);
    uint32_t i;

    for (i = 0; i < n; i++) {
        uint32_t of_sine = 2 * i, of_cosine = 2 * i + 1;
        double sine, cosine;
        if (t->layout != REF_SINUSOID_INTERLEAVED) {
            of_sine = t->layout == REF_SINUSOID_SIN_FIRST ? i : n + i;
            of_cosine = t->layout == REF_SINUSOID_SIN_FIRST ? n + i : i;
        }
        ref_pair_turn(p, frequencies[i], &cosine, &sine);
        if (of_sine < t->dim)
            row[of_sine] = sine;
        if (of_cosine < t->dim)
            row[of_cosine] = cosine;
    }
}

int ref_sinusoid_encode(const ref_sinusoid *t, uint32_t batch, uint32_t rows,
                        const int32_t *positions, const double *x, double *y)
{
    const uint64_t count = (uint64_t)batch * rows;
    const uint32_t n = ref_sinusoid_angles(t);
    pair_sum *frequencies;
    double *row;
    uint64_t l;
    uint32_t i;

    if (!valid(t))
        return -1;
    frequencies = malloc(((size_t)n + 1) * sizeof *frequencies);
    row = malloc((size_t)t->dim * sizeof *row);
    for (i = 0; frequencies != NULL && i < n; i++)
        frequencies[i] = frequency_of(t, i);
    for (l = 0; frequencies != NULL && row != NULL && l < count; l++) {
        const int64_t p = (int64_t)positions[l] + t->offset;
        memset(row, 0, t->dim * sizeof *row);
        if (t->padding_idx == REF_UNSET || p != t->padding_idx)
            fill_row(t, frequencies, (double)p, row);
        for (i = 0; i < t->dim; i++) {
            const uint64_t at = l * t->dim + i;
            y[at] = (x != NULL ? t->x_scale * x[at] : 0.0) + t->pe_scale * row[i];
        }
    }
    i = frequencies != NULL && row != NULL;
    free(frequencies);
    free(row);
    return i ? 0 : -1;
}

/* ------------------------------------------------------------------------------------------------
 * Two coordinates
 */
void ref_sinusoid_grid_init(ref_sinusoid_grid *t, uint32_t height, uint32_t width, uint32_t dim)
{
    memset(t, 0, sizeof *t);
    t->height = height;
    t->width = width;
    t->dim = dim;
    t->axis_dim = dim / 2;
    t->base = 10000.0;
    t->batch = 1;
    t->scale = ref_pair_two_pi().high;
    t->eps = 1e-6;
}

static int valid_grid(const ref_sinusoid_grid *t)
{
    if (t->height == 0 || t->width == 0 || t->dim == 0 || t->axis_dim < 2 || t->axis_dim % 2 != 0)
        return 0;
    if (!(t->base > 0.0 && t->base < (double)INFINITY))
        return 0;
    if (t->mask == NULL && (t->normalise || t->batch != 1))
        return 0;
    return !t->channels_first || (t->prefix == 0 && !t->column_major);
}

/* How many tokens of line `line` of an axis are valid up to `last` and with it. */
static double counted(const ref_sinusoid_grid *t, const int32_t *mask, uint32_t axis, uint32_t line,
                      uint32_t last)
{
    double count = 0.0;
    uint32_t i;

    for (i = 0; i <= last; i++)
        count +=
            mask[axis == 0 ? (uint64_t)i * t->width + line : (uint64_t)line * t->width + i] != 0;
    return count;
}

/* Axis 0: the row coordinate of (y, x), 1: the column coordinate. */
static double coordinate(const ref_sinusoid_grid *t, uint32_t b, uint32_t axis, uint32_t y,
                         uint32_t x)
{
    const uint32_t index = axis == 0 ? y : x, line = axis == 0 ? x : y;
    const int32_t *mask;
    double count, total;

    if (t->mask == NULL)
        return t->start + index;
    mask = t->mask + (uint64_t)b * t->height * t->width;
    count = counted(t, mask, axis, line, index);
    if (!t->normalise)
        return count;
    total = counted(t, mask, axis, line, (axis == 0 ? t->height : t->width) - 1);
    return (count + t->centre) / (total + t->eps) * t->scale;
}

/* Channels of pair i of the first (0) or second axis. */
static void channels_of(const ref_sinusoid_grid *t, uint32_t second, uint32_t i, uint32_t *sine,
                        uint32_t *cosine)
{
    const uint32_t n = t->axis_dim / 2, first = second * t->axis_dim;

    switch (t->layout) {
    case REF_LAYOUT_INTERLEAVED:
        *sine = first + 2 * i;
        *cosine = *sine + 1;
        break;
    case REF_LAYOUT_AXIS_CONCAT:
        *sine = first + i;
        *cosine = *sine + n;
        break;
    case REF_LAYOUT_SIN_COS_SPLIT:
        *sine = second * n + i;
        *cosine = *sine + 2 * n;
        break;
    }
}

/* One token, whose channels are `step` apart. */
static void fill_token(const ref_sinusoid_grid *t, const pair_sum *frequencies, const double at[2],
                       uint64_t step, double *token)
{
    uint32_t second, i;

    for (i = 0; i < t->dim; i++)
        token[i * step] = 0.0;
    for (second = 0; second < 2; second++) {
        const double p = at[t->columns_first ? 1 - second : second];
        for (i = 0; i < t->axis_dim / 2; i++) {
            uint32_t of_sine = 0, of_cosine = 0;
            double sine, cosine;
            channels_of(t, second, i, &of_sine, &of_cosine);
            ref_pair_turn(p, frequencies[i], &cosine, &sine);
            if (of_sine < t->dim)
                token[of_sine * step] = sine;
            if (of_cosine < t->dim)
                token[of_cosine * step] = cosine;
        }
    }
}

int ref_sinusoid_grid_table(const ref_sinusoid_grid *t, double *table)
{
    const uint64_t cells = (uint64_t)t->height * t->width;
    const uint64_t size = (t->prefix + cells) * t->dim;
    pair_sum *frequencies;
    uint32_t b, i;
    uint64_t cell;

    if (!valid_grid(t))
        return -1;
    frequencies = malloc(t->axis_dim / 2 * sizeof *frequencies);
    if (frequencies == NULL)
        return -1;
    for (i = 0; i < t->axis_dim / 2; i++)
        frequencies[i] = frequency(t->rule, t->base, t->axis_dim, t->axis_dim / 2, i);
    for (b = 0; b < t->batch; b++) {
        double *rows = table + b * size;
        memset(rows, 0, (size_t)t->prefix * t->dim * sizeof *rows);
        for (cell = 0; cell < cells; cell++) {
            const uint32_t y = (uint32_t)(t->column_major ? cell % t->height : cell / t->width);
            const uint32_t x = (uint32_t)(t->column_major ? cell / t->height : cell % t->width);
            const double at[2] = {coordinate(t, b, 0, y, x), coordinate(t, b, 1, y, x)};
            if (t->channels_first)
                fill_token(t, frequencies, at, cells, rows + cell);
            else
                fill_token(t, frequencies, at, 1, rows + (t->prefix + cell) * t->dim);
        }
    }
    free(frequencies);
    return 0;
}

void ref_add_table(uint32_t batch, uint32_t table_batch, uint64_t count, const double *table,
                   const double *x, double *y)
{
    uint64_t i;

    for (i = 0; i < batch * count; i++)
        y[i] = x[i] + table[table_batch == 1 ? i % count : i];
}
