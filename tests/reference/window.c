/* Windows of Swin: Liu et al. (arXiv 2103.14030), section 3.2, and of Swin v2: (arXiv 2111.09883),
 * section 3.3. The class token is BEiT's (arXiv 2106.08254).
 */
#include "reference_absolute.h"

#include <math.h>
#include <stdlib.h>

uint32_t ref_window_tokens(const ref_window *t)
{
    return t->prefix + t->size[0] * t->size[1];
}

uint32_t ref_window_rows(const ref_window *t)
{
    return (2 * t->size[0] - 1) * (2 * t->size[1] - 1) + 3 * t->prefix;
}

static int valid(const ref_window *t)
{
    return t->size[0] > 0 && t->size[1] > 0 && t->size[0] <= 1024 && t->size[1] <= 1024 &&
           t->prefix <= 1;
}

/* i and j count from the class token, if there is one. */
static int32_t index_of(const ref_window *t, uint32_t i, uint32_t j)
{
    const int32_t h = (int32_t)t->size[0], w = (int32_t)t->size[1];
    const int32_t rows = (2 * h - 1) * (2 * w - 1);
    int32_t query, key;

    if (t->prefix == 1 && i == 0)
        return j == 0 ? rows + 2 : rows;
    if (t->prefix == 1 && j == 0)
        return rows + 1;
    query = (int32_t)(i - t->prefix);
    key = (int32_t)(j - t->prefix);
    return (query / w - key / w + h - 1) * (2 * w - 1) + query % w - key % w + w - 1;
}

int ref_window_index(const ref_window *t, int32_t *index)
{
    uint32_t n, i, j;

    if (!valid(t))
        return -1;
    n = ref_window_tokens(t);
    for (i = 0; i < n; i++)
        for (j = 0; j < n; j++)
            index[(uint64_t)i * n + j] = index_of(t, i, j);
    return 0;
}

int ref_window_bias(const ref_window *t, uint32_t heads, const double *table, double *bias)
{
    uint32_t n, h, i, j;

    if (!valid(t))
        return -1;
    n = ref_window_tokens(t);
    for (h = 0; h < heads; h++)
        for (i = 0; i < n; i++)
            for (j = 0; j < n; j++)
                bias[((uint64_t)h * n + i) * n + j] =
                    table[(uint64_t)index_of(t, i, j) * heads + h];
    return 0;
}

/* ------------------------------------------------------------------------------------------------
 * Swin v2
 */

/* An offset of 8/8 of the divisor is 1 after the logarithm. A window of one cell has one offset, 0,
 * and no divisor. */
static double log_spaced(int32_t offset, uint32_t divisor_side)
{
    double u;

    if (offset == 0)
        return 0.0;
    u = offset / (divisor_side - 1.0) * 8.0;
    return copysign(log2(1.0 + fabs(u)) / 3.0, u);
}

int ref_window_coordinates(const ref_window *t, const uint32_t pretrained[2], double *coordinates)
{
    const int32_t h = (int32_t)t->size[0], w = (int32_t)t->size[1];
    int32_t dy, dx;

    if (!valid(t) || t->prefix != 0 || pretrained[0] == 1 || pretrained[1] == 1)
        return -1;
    for (dy = 1 - h; dy < h; dy++)
        for (dx = 1 - w; dx < w; dx++) {
            *coordinates++ = log_spaced(dy, pretrained[0] != 0 ? pretrained[0] : t->size[0]);
            *coordinates++ = log_spaced(dx, pretrained[1] != 0 ? pretrained[1] : t->size[1]);
        }
    return 0;
}

static void mlp_row(uint32_t hidden, uint32_t heads, const double *c, const double *w1,
                    const double *b1, const double *w2, double gain, double *units, double *row)
{
    uint32_t i, h;

    for (i = 0; i < hidden; i++)
        units[i] = fmax(w1[2 * (uint64_t)i] * c[0] + w1[2 * (uint64_t)i + 1] * c[1] + b1[i], 0.0);
    for (h = 0; h < heads; h++) {
        double sum = 0.0;
        for (i = 0; i < hidden; i++)
            sum += w2[(uint64_t)h * hidden + i] * units[i];
        row[h] = gain / (1.0 + exp(-sum));
    }
}

int ref_window_mlp(uint32_t rows, uint32_t hidden, uint32_t heads, const double *coordinates,
                   const double *w1, const double *b1, const double *w2, double gain, double *table)
{
    double *units = malloc(((size_t)hidden + 1) * sizeof *units);
    uint32_t row;

    if (units == NULL)
        return -1;
    for (row = 0; row < rows; row++)
        mlp_row(hidden, heads, coordinates + 2 * (uint64_t)row, w1, b1, w2, gain, units,
                table + (uint64_t)row * heads);
    free(units);
    return 0;
}

/* ------------------------------------------------------------------------------------------------
 * A window that the grid does not hold
 */
int ref_window_clip(ref_clip rule, const uint32_t grid[2], uint32_t window[2], uint32_t shift[2])
{
    const uint32_t shorter = grid[0] < grid[1] ? grid[0] : grid[1];
    uint32_t axis;

    if (rule == REF_CLIP_MIN && window[0] != window[1])
        return -1;
    for (axis = 0; axis < 2; axis++) {
        const uint32_t side = rule == REF_CLIP_MIN ? shorter : grid[axis];
        if (side <= window[axis]) {
            window[axis] = side;
            shift[axis] = 0;
        }
    }
    return 0;
}
