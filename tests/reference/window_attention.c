/* Attention inside the windows of a grid, from its definition:
 *
 *     S_ij = s q_i . k_j + bias[h, i, j] + (same region ? 0 : mask_value)     O = softmax(S) V
 *
 * or exp(min(t_h, max)) cos(q_i, k_j) in place of s q_i . k_j. Windows tile window space; cell u of
 * an axis of it is the grid's cell (u + shift) mod n.
 */
#include "reference_absolute.h"

#include <math.h>
#include <stdlib.h>

/* One window: where its N tokens are, and the regions of window space that they belong to. */
typedef struct cells {
    uint32_t count;
    int64_t *source; /* token of the arrays; -1: padding */
    uint32_t *region;
    double *weights; /* of one row */
} cells;

static uint32_t padded(const ref_window_attention *t, uint32_t axis)
{
    const uint32_t w = t->window.size[axis];

    return t->pad == REF_PAD_NONE ? t->grid[axis] : (t->grid[axis] + w - 1) / w * w;
}

static int valid(const ref_window_attention *t)
{
    uint32_t axis;

    if (t->window.size[0] == 0 || t->window.size[1] == 0 || t->window.prefix > 1 || t->heads == 0 ||
        t->head_dim == 0)
        return 0;
    if (t->grid[0] == 0 && t->grid[1] == 0)
        return t->shift[0] == 0 && t->shift[1] == 0 && t->pad == REF_PAD_NONE;
    for (axis = 0; axis < 2; axis++)
        if (t->grid[axis] == 0 || t->shift[axis] >= t->window.size[axis] ||
            padded(t, axis) % t->window.size[axis] != 0)
            return 0;
    return t->window.prefix == 0;
}

/* The grid's cell of cell u of window space; -1: padding. */
static int64_t cell_of(const ref_window_attention *t, uint32_t axis, uint32_t u)
{
    const uint32_t n = t->grid[axis];
    uint32_t cell;

    if (t->pad == REF_SHIFT_THEN_PAD)
        return u < n ? (int64_t)((u + t->shift[axis]) % n) : -1;
    cell = (u + t->shift[axis]) % padded(t, axis);
    return cell < n ? (int64_t)cell : -1;
}

/* What the shift brought from the other end is a region of its own, and so is the part of the last
 * windows that was there before. */
static uint32_t region_of(const ref_window_attention *t, uint32_t axis, uint32_t u)
{
    const uint32_t n = padded(t, axis);

    if (t->shift[axis] == 0 || u < n - t->window.size[axis])
        return 0;
    return u < n - t->shift[axis] ? 1 : 2;
}

static void locate(const ref_window_attention *t, uint32_t window_y, uint32_t window_x, cells *c)
{
    const uint32_t *size = t->window.size;
    uint32_t i;

    for (i = 0; i < c->count; i++) {
        const uint32_t y = window_y * size[0] + i / size[1], x = window_x * size[1] + i % size[1];
        int64_t row, column;
        c->source[i] = i;
        c->region[i] = 0;
        if (t->grid[0] == 0)
            continue;
        row = cell_of(t, 0, y);
        column = cell_of(t, 1, x);
        c->source[i] = row >= 0 && column >= 0 ? row * t->grid[1] + column : -1;
        c->region[i] = 3 * region_of(t, 0, y) + region_of(t, 1, x);
    }
}

static double product(const double *a, const double *b, uint32_t count)
{
    double sum = 0.0;
    uint32_t d;

    for (d = 0; d < count; d++)
        sum += a[d] * b[d];
    return sum;
}

/* Padding is a vector of zeros. */
static double content(const ref_window_attention *t, uint32_t h, const double *q, const double *k)
{
    double lengths;

    if (q == NULL || k == NULL)
        return 0.0;
    if (t->log_scales == NULL)
        return t->scale * product(q, k, t->head_dim);
    lengths = fmax(sqrt(product(q, q, t->head_dim)), t->eps) *
              fmax(sqrt(product(k, k, t->head_dim)), t->eps);
    return exp(fmin(t->log_scales[h], t->max_log_scale)) * product(q, k, t->head_dim) / lengths;
}

static void attend_row(const ref_window_attention *t, const cells *c, uint32_t h, uint64_t head,
                       uint32_t i)
{
    const double *bias = t->bias + ((uint64_t)h * c->count + i) * c->count;
    const double *q = t->q + (head + (uint64_t)c->source[i]) * t->head_dim;
    double *o = t->o + (head + (uint64_t)c->source[i]) * t->head_dim;
    double most = -(double)INFINITY, sum = 0.0;
    uint32_t j, d;

    for (j = 0; j < c->count; j++) {
        const double *k =
            c->source[j] >= 0 ? t->k + (head + (uint64_t)c->source[j]) * t->head_dim : NULL;
        c->weights[j] = content(t, h, q, k) + bias[j];
        if (c->region[i] != c->region[j])
            c->weights[j] += t->mask_value;
        most = fmax(most, c->weights[j]);
    }
    for (j = 0; j < c->count; j++)
        sum += c->weights[j] = exp(c->weights[j] - most);
    for (d = 0; d < t->head_dim; d++) {
        double value = 0.0;
        for (j = 0; j < c->count; j++)
            if (c->source[j] >= 0)
                value += c->weights[j] * t->v[(head + (uint64_t)c->source[j]) * t->head_dim + d];
        o[d] = value / sum;
    }
}

static void attend_window(const ref_window_attention *t, const cells *c, uint64_t tokens)
{
    uint32_t b, h, i;

    for (b = 0; b < t->batch; b++)
        for (h = 0; h < t->heads; h++)
            for (i = 0; i < c->count; i++)
                if (c->source[i] >= 0)
                    attend_row(t, c, h, ((uint64_t)b * t->heads + h) * tokens, i);
}

int ref_window_attend(const ref_window_attention *t)
{
    uint32_t down = 1, across = 1, y, x;
    uint64_t tokens;
    cells c;
    int result = -1;

    if (!valid(t))
        return -1;
    c.count = ref_window_tokens(&t->window);
    tokens = c.count;
    if (t->grid[0] != 0) {
        down = padded(t, 0) / t->window.size[0];
        across = padded(t, 1) / t->window.size[1];
        tokens = (uint64_t)t->grid[0] * t->grid[1];
    }
    c.source = malloc(c.count * sizeof *c.source);
    c.region = malloc(c.count * sizeof *c.region);
    c.weights = malloc(c.count * sizeof *c.weights);
    if (c.source != NULL && c.region != NULL && c.weights != NULL) {
        for (y = 0; y < down; y++)
            for (x = 0; x < across; x++) {
                locate(t, y, x, &c);
                attend_window(t, &c, tokens);
            }
        result = 0;
    }
    free(c.source);
    free(c.region);
    free(c.weights);
    return result;
}
