/* BIAS of windows on every profile: Swin, Swin V2 and BEiT, with and without a shift, against the
 * reference's indices and regions that are painted here. */
#include "harness.h"
#include "reference/reference_absolute.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COUNT(array) (sizeof(array) / sizeof(array)[0])

typedef struct window_shape {
    uint32_t window[2];
    uint32_t grid[2];
    uint32_t shift[2];
    uint32_t prefix;
    rhumb_window_padding padding;
    uint32_t heads;
    rhumb_dtype dtype;
    double mask_value;
    bool v2;
} window_shape;

static const window_shape windows[] = {
    {{7, 7}, .heads = 3},
    {{7, 5}, .heads = 5, .dtype = RHUMB_F16},
    {{1, 1}, .heads = 2},
    {{1, 9}, .heads = 3, .dtype = RHUMB_BF16},
    {{8, 8}, .heads = 12, .v2 = true},
    {{4, 6}, .heads = 3, .prefix = 1},
    {{1, 1}, .heads = 3, .prefix = 1},
    {{4, 4}, .grid = {8, 12}, .heads = 2},
    {{4, 4}, .grid = {8, 12}, .shift = {2, 2}, .heads = 3, .mask_value = -100},
    {{3, 5}, .grid = {6, 10}, .shift = {1, 0}, .heads = 3, .mask_value = -200, .v2 = true},
    {{3, 5}, .grid = {6, 10}, .shift = {0, 3}, .heads = 3, .mask_value = -100, .dtype = RHUMB_F16},
    {{4, 4},
     .grid = {7, 5},
     .shift = {2, 2},
     .heads = 2,
     .mask_value = -100,
     .padding = RHUMB_WINDOW_PAD_THEN_SHIFT},
    {{4, 4},
     .grid = {7, 5},
     .shift = {2, 1},
     .heads = 2,
     .mask_value = -100,
     .padding = RHUMB_WINDOW_SHIFT_THEN_PAD,
     .v2 = true},
};

/* Each part of the shifted image has a number of its own, painted slice by slice. */
static void paint_regions(const window_shape *s, uint32_t height, uint32_t width, int *region)
{
    for (uint32_t y = 0; y < height; y++) {
        for (uint32_t x = 0; x < width; x++) {
            int row = 0, column = 0;
            if (s->shift[0] != 0 && y >= height - s->window[0]) {
                row = y >= height - s->shift[0] ? 2 : 1;
            }
            if (s->shift[1] != 0 && x >= width - s->window[1]) {
                column = x >= width - s->shift[1] ? 2 : 1;
            }
            region[y * width + x] = 3 * row + column;
        }
    }
}

static void add_masks(const window_shape *s, uint32_t n, uint32_t count, const double *bias,
                      double *want)
{
    static int region[4096];
    uint32_t height = (s->grid[0] + s->window[0] - 1) / s->window[0] * s->window[0];
    uint32_t width = (s->grid[1] + s->window[1] - 1) / s->window[1] * s->window[1];
    cr_assert_leq(height * width, COUNT(region));
    paint_regions(s, height, width, region);
    for (uint64_t i = 0; i < (uint64_t)count * s->heads * n * n; i++) {
        uint32_t key = (uint32_t)(i % n), query = (uint32_t)(i / n % n);
        uint32_t w = (uint32_t)(i / n / n / s->heads);
        want[i] = bias[i % ((uint64_t)s->heads * n * n)];
        if (count > 1) {
            uint32_t y = w / (width / s->window[1]) * s->window[0];
            uint32_t x = w % (width / s->window[1]) * s->window[1];
            int at_query = region[(y + query / s->window[1]) * width + x + query % s->window[1]];
            int at_key = region[(y + key / s->window[1]) * width + x + key % s->window[1]];
            want[i] += at_query != at_key ? s->mask_value : 0.0;
        }
    }
}

static const void *window_scheme(const window_shape *s)
{
    static rhumb_swin p;
    static rhumb_swin_v2 p2;
    rhumb_init_swin(&p);
    rhumb_init_swin_v2(&p2);
    memcpy(p.window, s->window, sizeof p.window);
    memcpy(p.grid, s->grid, sizeof p.grid);
    memcpy(p.shift, s->shift, sizeof p.shift);
    memcpy(p2.window, s->window, sizeof p.window);
    memcpy(p2.grid, s->grid, sizeof p.grid);
    memcpy(p2.shift, s->shift, sizeof p.shift);
    p.prefix_tokens = s->prefix;
    p.padding = p2.padding = s->padding;
    p.mask_value = p2.mask_value = s->mask_value;
    return s->v2 ? (const void *)&p2 : (const void *)&p;
}

static void run_window(harness *h, const window_shape *s)
{
    const ref_window reference = {{s->window[0], s->window[1]}, s->prefix};
    uint32_t n = ref_window_tokens(&reference), rows = ref_window_rows(&reference);
    bool shifted = s->shift[0] != 0 || s->shift[1] != 0;
    uint32_t count = shifted ? (s->grid[0] + s->window[0] - 1) / s->window[0] *
                                   ((s->grid[1] + s->window[1] - 1) / s->window[1])
                             : 1;
    harness_random r = {.state = n};
    harness_tensor o, t;
    gpu_operation op;
    char text[96];
    gpu_init_operation(&op, RHUMB_OP_BIAS);
    op.info.scheme = window_scheme(s);
    op.info.heads = s->heads;
    op.info.head_dim = 1;
    op.info.max_q_length = n;
    harness_make_tensor(&o, s->dtype, count, s->heads, n, n, (harness_layout){0});
    harness_make_tensor(&t, RHUMB_F32, 1, 1, rows, s->heads, (harness_layout){0});
    harness_fill_normal(&t, &r);
    (void)harness_add(&op, RHUMB_VIEW_O, &o, true);
    (void)harness_add(&op, RHUMB_VIEW_TABLE, &t, false);
    double *bias = harness_alloc((size_t)s->heads * n * n, sizeof *bias);
    double *want = harness_alloc(o.count, sizeof *want);
    double *bound = harness_alloc(o.count, sizeof *bound);
    cr_assert_eq(ref_window_bias(&reference, s->heads, t.values, bias), 0);
    add_masks(s, n, count, bias, want);
    for (uint64_t i = 0; i < o.count; i++) {
        bound[i] = ldexp(fabs(want[i]), -23);
        bound[i] += harness_rounding(s->dtype, fabs(want[i]) + bound[i]);
    }
    snprintf(text, sizeof text, "window %u x %u, grid %u x %u, shift %u x %u", s->window[0],
             s->window[1], s->grid[0], s->grid[1], s->shift[0], s->shift[1]);
    h->cases++;
    if (harness_run(h, &op) != RHUMB_OK) {
        harness_fail(h, "bias: %s: %s", text, op.message);
    } else {
        harness_load(&o);
        (void)harness_compare(h, "bias", text, &o, want, bound, NULL);
    }
    free(bias);
    free(want);
    free(bound);
    harness_free_tensor(&o);
    harness_free_tensor(&t);
}

static void run_profile(harness_profile profile)
{
    harness h;
    harness_open(&h, profile);
    for (size_t i = 0; i < COUNT(windows); i++) {
        run_window(&h, &windows[i]);
    }
    harness_close(&h);
}

Test(bias_windows, equal_the_reference_on_lavapipe)
{
    run_profile(HARNESS_LAVAPIPE);
}

Test(bias_windows, equal_the_reference_on_the_floor)
{
    run_profile(HARNESS_LAVAPIPE_FLOOR);
}

Test(bias_windows, equal_the_reference_on_swiftshader)
{
    run_profile(HARNESS_SWIFTSHADER);
}
