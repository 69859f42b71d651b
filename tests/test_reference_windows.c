/* Windows of the double-precision reference against numbers worked by hand, and against windows
 * that are made by moving the tokens about.
 */
#include "reference_absolute.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static void check(const char *what, double got, double want, double bound)
{
    cr_assert(fabs(got - want) <= bound, "%s: wanted %.17g, got %.17g, bound %g", what, want, got,
              bound);
}

/* ------------------------------------------------------------------------------------------------
 * Indices and bias
 */
Test(reference_windows, indices_of_a_2_by_2_window)
{
    static const int32_t want[16] = {4, 3, 1, 0, 5, 4, 2, 1, 7, 6, 4, 3, 8, 7, 5, 4};
    const ref_window window = {{2, 2}, 0};
    int32_t index[16];

    cr_assert_eq(ref_window_tokens(&window), 4);
    cr_assert_eq(ref_window_rows(&window), 9);
    cr_assert_eq(ref_window_index(&window, index), 0);
    cr_expect_eq(memcmp(index, want, sizeof want), 0);
}

Test(reference_windows, exchanging_query_and_key_mirrors_the_index)
{
    static const uint32_t sides[][2] = {{7, 7}, {7, 5}, {1, 9}, {4, 1}, {1, 1}};
    int32_t index[49 * 49];
    size_t k;

    for (k = 0; k < sizeof sides / sizeof *sides; k++) {
        const ref_window window = {{sides[k][0], sides[k][1]}, 0};
        const uint32_t n = ref_window_tokens(&window);
        const int32_t rows = (int32_t)ref_window_rows(&window), centre = (rows - 1) / 2;
        int32_t least = rows, most = -1;
        uint32_t i, j;
        cr_assert_eq(ref_window_index(&window, index), 0);
        for (i = 0; i < n; i++)
            for (j = 0; j < n; j++) {
                const int32_t at = index[i * n + j];
                cr_assert_eq(index[j * n + i], 2 * centre - at, "%u, %u", i, j);
                least = at < least ? at : least;
                most = at > most ? at : most;
            }
        cr_expect_eq(index[0], centre);
        cr_expect(least == 0 && most == rows - 1, "%d to %d of %d rows", least, most, rows);
    }
}

Test(reference_windows, a_class_token_has_the_last_three_rows)
{
    const ref_window window = {{2, 3}, 1}, plain = {{2, 3}, 0};
    int32_t index[49], inner[36];
    uint32_t i, j;

    cr_assert_eq(ref_window_tokens(&window), 7);
    cr_assert_eq(ref_window_rows(&window), 15 + 3);
    cr_assert_eq(ref_window_index(&window, index), 0);
    cr_assert_eq(ref_window_index(&plain, inner), 0);
    cr_expect_eq(index[0], 17, "class token to class token");
    for (i = 1; i < 7; i++) {
        cr_expect_eq(index[i], 15, "the class token asks");
        cr_expect_eq(index[i * 7], 16, "the class token is asked");
        for (j = 1; j < 7; j++)
            cr_expect_eq(index[i * 7 + j], inner[(i - 1) * 6 + j - 1]);
    }
    cr_expect_eq(ref_window_index(&(ref_window){{2, 3}, 2}, index), -1);
    cr_expect_eq(ref_window_index(&(ref_window){{0, 3}, 0}, index), -1);
}

Test(reference_windows, the_head_is_the_fastest_index_of_a_bias_table)
{
    const ref_window window = {{1, 2}, 0};
    static const double table[6] = {1, 10, 2, 20, 3, 30}; /* offsets -1, 0, 1 */
    static const double want[8] = {2, 1, 3, 2, 20, 10, 30, 20};
    double bias[8];

    cr_assert_eq(ref_window_bias(&window, 2, table, bias), 0);
    cr_expect_eq(memcmp(bias, want, sizeof want), 0);
}

/* ------------------------------------------------------------------------------------------------
 * Swin v2
 */
Test(reference_windows, coordinates_of_the_second_version_are_log_spaced)
{
    static const uint32_t own[2] = {0, 0}, pretrained[2] = {8, 8}, one[2] = {1, 8};
    double c[9 * 5 * 2];

    cr_assert_eq(ref_window_coordinates(&(ref_window){{5, 3}, 0}, own, c), 0);
    check("first row", c[0], -1.0566416671474374543, 1e-15); /* log2(9)/3 */
    check("first column", c[1], -1.0566416671474374543, 1e-15);
    check("last row", c[88], 1.0566416671474374543, 1e-15);
    check("middle", c[44], 0, 0);
    check("one column to the right", c[47], 1.0 / 3 * log2(5), 1e-15);
    check("one row down", c[54], 1.0 / 3 * log2(3), 1e-15);
    cr_assert_eq(ref_window_coordinates(&(ref_window){{4, 1}, 0}, pretrained, c), 0);
    check("3 of 7", c[12], 0.71561379610975703379, 1e-15);
    check("one column has one offset", c[13], 0, 0);
    cr_assert_eq(ref_window_coordinates(&(ref_window){{1, 1}, 0}, own, c), 0);
    check("one cell", c[0], 0, 0);
    cr_expect_eq(ref_window_coordinates(&(ref_window){{4, 4}, 0}, one, c), -1);
}

Test(reference_windows, the_network_of_the_second_version_by_hand)
{
    /* hidden: relu(c_h - 2 c_w + 0.5), relu(-c_h) */
    static const double w1[4] = {1, -2, -1, 0}, b1[2] = {0.5, 0};
    static const double w2[4] = {1, 3, -4, 0}, c[4] = {1, 0, -0.5, 0};
    double table[4];

    cr_assert_eq(ref_window_mlp(2, 2, 2, c, w1, b1, w2, 16, table), 0);
    check("sigmoid(1.5)", table[0], 13.081191619098298554, 1e-14); /* hidden 1.5, 0 */
    check("sigmoid(-6)", table[1], 16 / (1 + exp(6)), 1e-14);
    check("sigmoid(1.5) of the other unit", table[2], 13.081191619098298554, 1e-14); /* 0, 0.5 */
    check("sigmoid(0)", table[3], 8, 0);
}

/* One window of two tokens in a row, one head, two channels. */
static void attend_two(ref_window_attention *t, const double *q, const double *k, double *o)
{
    static const double v[4] = {1, 0, 0, 1}, bias[4] = {0, 0, 0, 0};

    t->window = (ref_window){{1, 2}, 0};
    t->batch = 1;
    t->heads = 1;
    t->head_dim = 2;
    t->bias = bias;
    t->q = q;
    t->k = k;
    t->v = v;
    t->o = o;
    cr_assert_eq(ref_window_attend(t), 0);
}

/* The logit of key 0 less that of key 1, from their weights. */
static double logit_difference(const double *o)
{
    return log(o[0] / o[1]);
}

Test(reference_windows, cosine_logits_are_clamped_and_short_vectors_fade)
{
    double q[4] = {3, 4, 0, 0}, k[4] = {5, 0, 0, 2}, o[4], log_scale = 0;
    ref_window_attention t = {.log_scales = &log_scale, .max_log_scale = log(100), .eps = 1e-12};

    attend_two(&t, q, k, o);
    check("0.6 - 0.8", logit_difference(o), -0.2, 1e-14);
    check("a vector of zeros sees all keys alike", o[2], 0.5, 0);
    log_scale = log(10);
    attend_two(&t, q, k, o);
    check("ten times", logit_difference(o), -2, 1e-13);
    log_scale = 9;
    attend_two(&t, q, k, o);
    check("at most a hundred times", logit_difference(o), -20, 1e-11);
    log_scale = 0;
    q[0] = 3e-14; /* length 5e-14: divided by 1e-12 */
    q[1] = 4e-14;
    attend_two(&t, q, k, o);
    check("short", logit_difference(o), -0.2 * 0.05, 1e-14);
}

/* ------------------------------------------------------------------------------------------------
 * Shift and padding, by moving the tokens: a token's number goes with it, padding is -1
 */
#define MOST 64

typedef struct plane {
    int height;
    int width;
    int cell[MOST]; /* [height, width] */
} plane;

static plane pad_plane(const plane *from, int height, int width)
{
    plane to = {height, width, {0}};
    int y, x;

    for (y = 0; y < height; y++)
        for (x = 0; x < width; x++)
            to.cell[y * width + x] =
                y < from->height && x < from->width ? from->cell[y * from->width + x] : -1;
    return to;
}

/* Everything one row up, `rows` times, and one column to the left. */
static plane roll_plane(plane p, int rows, int columns)
{
    int count = p.height * p.width, y, i;

    for (; rows > 0; rows--) {
        int first[MOST];
        memcpy(first, p.cell, sizeof first);
        for (i = 0; i < count; i++)
            p.cell[i] = first[(i + p.width) % count];
    }
    for (; columns > 0; columns--)
        for (y = 0; y < p.height; y++) {
            int *row = p.cell + y * p.width, first = row[0];
            memmove(row, row + 1, (size_t)(p.width - 1) * sizeof *row);
            row[p.width - 1] = first;
        }
    return p;
}

/* Slices of an axis: up to -w, from there to -s, the rest; each has its own label. */
static void label_slices(int n, int w, int s, int *label)
{
    int i;

    for (i = 0; i < n; i++)
        label[i] = 0;
    for (i = n - w; s > 0 && i < n - s; i++)
        label[i] = 1;
    for (i = n - s; i < n; i++)
        label[i] = 2;
}

#define TOKENS 35
#define CHANNELS 2

/* o of one query with all cells of its window; token -1 is a vector of zeros. */
static void expect_row(const ref_window_attention *t, const plane *p, const int *labels_y,
                       const int *labels_x, int cell, double *o)
{
    const int h = (int)t->window.size[0], w = (int)t->window.size[1], n = h * w;
    const int y = cell / p->width, x = cell % p->width;
    const int i = y % h * w + x % w;
    double sum = 0;
    int j, d;

    o[0] = o[1] = 0;
    for (j = 0; j < n; j++) {
        const int ky = y / h * h + j / w, kx = x / w * w + j % w;
        const int key = p->cell[ky * p->width + kx];
        double logit = t->bias[i * n + j], weight;
        for (d = 0; key >= 0 && d < CHANNELS; d++)
            logit += t->scale * t->q[p->cell[cell] * CHANNELS + d] * t->k[key * CHANNELS + d];
        if (labels_y[y] != labels_y[ky] || labels_x[x] != labels_x[kx])
            logit += t->mask_value;
        weight = exp(logit);
        sum += weight;
        for (d = 0; key >= 0 && d < CHANNELS; d++)
            o[d] += weight * t->v[key * CHANNELS + d];
    }
    o[0] /= sum;
    o[1] /= sum;
}

static void check_moved(ref_window_attention *t)
{
    const int height = (int)t->grid[0], width = (int)t->grid[1];
    const int h = (int)t->window.size[0], w = (int)t->window.size[1];
    const int sy = (int)t->shift[0], sx = (int)t->shift[1];
    const int padded_height = (height + h - 1) / h * h, padded_width = (width + w - 1) / w * w;
    int labels_y[MOST], labels_x[MOST], cell, d;
    double want[CHANNELS];
    plane p = {height, width, {0}};

    for (cell = 0; cell < height * width; cell++)
        p.cell[cell] = cell;
    if (t->pad == REF_SHIFT_THEN_PAD)
        p = roll_plane(p, sy, sx);
    p = pad_plane(&p, padded_height, padded_width);
    if (t->pad != REF_SHIFT_THEN_PAD)
        p = roll_plane(p, sy, sx);
    label_slices(padded_height, h, sy, labels_y);
    label_slices(padded_width, w, sx, labels_x);
    cr_assert_eq(ref_window_attend(t), 0);
    for (cell = 0; cell < padded_height * padded_width; cell++) {
        if (p.cell[cell] < 0)
            continue;
        expect_row(t, &p, labels_y, labels_x, cell, want);
        for (d = 0; d < CHANNELS; d++)
            cr_assert(fabs(t->o[p.cell[cell] * CHANNELS + d] - want[d]) <= 1e-13,
                      "grid %d by %d, window %d by %d, shift %d, %d, pad %d, token %d", height,
                      width, h, w, sy, sx, (int)t->pad, p.cell[cell]);
    }
}

Test(reference_windows, shift_and_padding_are_what_moving_the_tokens_gives)
{
    static const uint32_t rows[][6] = {
        {4, 4, 2, 2, 1, 1}, {4, 6, 2, 3, 0, 1}, {6, 4, 3, 2, 2, 0}, {4, 4, 4, 4, 0, 0},
        {3, 2, 2, 2, 1, 1}, {5, 7, 2, 3, 1, 2}, {7, 5, 4, 4, 2, 2}, {1, 5, 3, 2, 1, 1},
        {5, 3, 5, 2, 3, 1}, {2, 2, 3, 3, 1, 2},
    };
    double q[TOKENS * CHANNELS], k[TOKENS * CHANNELS], v[TOKENS * CHANNELS];
    double o[TOKENS * CHANNELS], bias[16 * 16];
    size_t i;
    int pad;

    for (i = 0; i < sizeof q / sizeof *q; i++) {
        q[i] = sin(1.0 + (double)i);
        k[i] = cos(3.0 * (double)i);
        v[i] = sin(7.0 * (double)i);
    }
    for (i = 0; i < sizeof bias / sizeof *bias; i++)
        bias[i] = cos(5.0 + 2.0 * (double)i);
    for (i = 0; i < sizeof rows / sizeof *rows; i++)
        for (pad = REF_PAD_NONE; pad <= REF_SHIFT_THEN_PAD; pad++) {
            const uint32_t *r = rows[i];
            ref_window_attention t = {.window = {{r[2], r[3]}, 0},
                                      .grid = {r[0], r[1]},
                                      .shift = {r[4], r[5]},
                                      .pad = (ref_window_pad)pad,
                                      .mask_value = -1.5,
                                      .batch = 1,
                                      .heads = 1,
                                      .head_dim = CHANNELS,
                                      .scale = 0.7,
                                      .bias = bias,
                                      .q = q,
                                      .k = k,
                                      .v = v,
                                      .o = o};
            if (pad == REF_PAD_NONE && (r[0] % r[2] != 0 || r[1] % r[3] != 0))
                cr_expect_eq(ref_window_attend(&t), -1, "row %zu is not tiled", i);
            else
                check_moved(&t);
        }
}

/* Cells 0 and 3 of a row of 4 meet in the last window, of regions 1 and 2. */
Test(reference_windows, a_masked_key_wins_with_a_logit_that_is_large_enough)
{
    static const double q[4] = {0, 0, 0, 1}, k[4] = {99, 0, 0, 0}, v[4] = {1, 2, 3, 4};
    static const double bias[4] = {0, 0, 0, 0};
    double o[4];
    ref_window_attention t = {.window = {{1, 2}, 0},
                              .grid = {1, 4},
                              .shift = {0, 1},
                              .mask_value = -100,
                              .batch = 1,
                              .heads = 1,
                              .head_dim = 1,
                              .scale = 1,
                              .bias = bias,
                              .q = q,
                              .k = k,
                              .v = v,
                              .o = o};

    cr_assert_eq(ref_window_attend(&t), 0);
    check("a logit of 99 - 100 against 0", o[3], (exp(-1) * 1 + 4) / (exp(-1) + 1), 1e-14);
    check("inside a region", o[1], 2.5, 0);
    t.shift[1] = 2;
    cr_expect_eq(ref_window_attend(&t), -1, "a shift of a whole window");
    t.shift[1] = 0;
    t.window.prefix = 1;
    cr_expect_eq(ref_window_attend(&t), -1, "a class token in a grid");
}

/* ------------------------------------------------------------------------------------------------
 */
Test(reference_windows, windows_beyond_the_grid_are_clipped_by_their_rule)
{
    static const uint32_t grid[2] = {4, 12};
    uint32_t window[2] = {6, 6}, shift[2] = {3, 3};

    cr_assert_eq(ref_window_clip(REF_CLIP_MIN, grid, window, shift), 0);
    cr_expect(window[0] == 4 && window[1] == 4 && shift[0] == 0 && shift[1] == 0);
    window[0] = window[1] = 6;
    shift[0] = shift[1] = 3;
    cr_assert_eq(ref_window_clip(REF_CLIP_PER_AXIS, grid, window, shift), 0);
    cr_expect(window[0] == 4 && window[1] == 6 && shift[0] == 0 && shift[1] == 3);
    window[0] = window[1] = 3;
    shift[0] = shift[1] = 1;
    cr_assert_eq(ref_window_clip(REF_CLIP_MIN, grid, window, shift), 0);
    cr_expect(window[0] == 3 && window[1] == 3 && shift[0] == 1 && shift[1] == 1);
    window[1] = 4;
    cr_expect_eq(ref_window_clip(REF_CLIP_MIN, grid, window, shift), -1, "no square");
}
