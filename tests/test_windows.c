/* ATTENTION inside the windows of a grid, and of windows with a class token, against the
 * double-precision reference: the form that AUTO chooses on every profile, and the broadcast form.
 *
 * Bound. u = 2^-24, T = s |q| |k| + |b| + |mask| with the longest q and k, which bounds the sum of
 * the absolute values of a logit's products: a logit is within e = (6 sqrt(3 D) + 8) u T. With
 * cosines s |q| |k| is the head's scale, times (D + 38) u more. A weight is within
 * (3 + 3 X) 2 u, X the range of logits in powers of 2, at most 150; sums over N keys twice, division
 * and product: r = (4 (3 + 3 X) + 12 sqrt(N) + 4) u. An output: (e + r) (max |v| + |o|). */
#include "shapes.h"
#include "reference/reference_absolute.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define UNIT 5.9604644775390625e-8
#define COUNT(array) (sizeof(array) / sizeof(array)[0])

typedef struct grid_shape {
    uint32_t window[2];
    uint32_t grid[2]; /* {0, 0}: a batch entry is a window */
    uint32_t shift[2];
    uint32_t prefix;
    rhumb_window_padding padding;
    float mask_value;
    uint32_t batch;
    uint32_t heads;
    uint32_t head_dim;
    rhumb_dtype dtype;
    bool cosine;
} grid_shape;

static const grid_shape shapes[] = {
    {{8, 8}, .batch = 1, .heads = 2, .head_dim = 64},
    {{8, 8}, {16, 24}, {4, 4}, .mask_value = -100.0f, .batch = 2, .heads = 3, .head_dim = 8},
    {{7, 7}, {14, 21}, {3, 3}, .mask_value = -100.0f, .batch = 1, .heads = 2, .head_dim = 16},
    {{7, 5}, {7, 10}, .batch = 2, .heads = 3, .head_dim = 8, .dtype = RHUMB_F16},
    {{3, 5}, {6, 10}, {1, 0}, .mask_value = -3.0f, .batch = 2, .heads = 3, .head_dim = 24,
     .cosine = true},
    {{3, 5}, {6, 10}, {0, 3}, .mask_value = -100.0f, .batch = 1, .heads = 2, .head_dim = 8,
     .dtype = RHUMB_BF16},
    {{4, 4}, {7, 5}, {2, 2}, .padding = RHUMB_WINDOW_PAD_THEN_SHIFT, .mask_value = -100.0f,
     .batch = 2, .heads = 2, .head_dim = 8},
    {{4, 4}, {7, 5}, {2, 1}, .padding = RHUMB_WINDOW_SHIFT_THEN_PAD, .mask_value = -100.0f,
     .batch = 2, .heads = 2, .head_dim = 8, .cosine = true},
    {{9, 2}, {10, 3}, {8, 1}, .padding = RHUMB_WINDOW_SHIFT_THEN_PAD, .mask_value = -7.0f,
     .batch = 1, .heads = 2, .head_dim = 8},
    {{1, 1}, {2, 3}, .batch = 1, .heads = 1, .head_dim = 8},
    {{4, 6}, .prefix = 1, .batch = 2, .heads = 3, .head_dim = 8},
    {{7, 7}, .prefix = 1, .batch = 1, .heads = 2, .head_dim = 16, .dtype = RHUMB_F16},
    {{1, 1}, .prefix = 1, .batch = 3, .heads = 2, .head_dim = 8},
};

typedef struct grid_run {
    const grid_shape *s;
    harness_tensor q, k, v, o, table, scales;
    rhumb_swin swin;
    rhumb_swin_v2 swin_v2;
    gpu_operation op;
} grid_run;

static ref_window window_of(const grid_shape *s)
{
    return (ref_window){.size = {s->window[0], s->window[1]}, .prefix = s->prefix};
}

static uint32_t tokens_of(const grid_shape *s)
{
    const ref_window window = window_of(s);
    return s->grid[0] != 0 ? s->grid[0] * s->grid[1] : ref_window_tokens(&window);
}

static void choose_scheme(grid_run *r)
{
    const grid_shape *s = r->s;
    rhumb_init_swin(&r->swin);
    rhumb_init_swin_v2(&r->swin_v2);
    for (uint32_t i = 0; i < 2; i++) {
        r->swin.window[i] = r->swin_v2.window[i] = s->window[i];
        r->swin.grid[i] = r->swin_v2.grid[i] = s->grid[i];
        r->swin.shift[i] = r->swin_v2.shift[i] = s->shift[i];
    }
    r->swin.prefix_tokens = s->prefix;
    r->swin.padding = r->swin_v2.padding = s->padding;
    r->swin.mask_value = r->swin_v2.mask_value = s->mask_value;
    r->op.info.scheme = s->cosine ? (const void *)&r->swin_v2 : &r->swin;
}

static void make_run(grid_run *r, const grid_shape *s, rhumb_variant variant)
{
    const ref_window window = window_of(s);
    const uint32_t n = tokens_of(s);
    harness_tensor *const in[] = {&r->q, &r->k, &r->v};
    harness_random random = {.state = 1};
    r->s = s;
    gpu_init_operation(&r->op, RHUMB_OP_ATTENTION);
    choose_scheme(r);
    r->op.info.variant = variant;
    r->op.info.heads = s->heads;
    r->op.info.head_dim = s->head_dim;
    r->op.info.max_q_length = n;
    for (uint32_t i = 0; i < 3; i++) {
        harness_make_tensor(in[i], s->dtype, s->batch, s->heads, n, s->head_dim,
                            (harness_layout){0});
        harness_fill_normal(in[i], &random);
        harness_store(in[i]);
        (void)harness_add(&r->op, (rhumb_view_id)(RHUMB_VIEW_Q + (int)i), in[i], false);
    }
    harness_make_tensor(&r->o, s->dtype, s->batch, s->heads, n, s->head_dim, (harness_layout){0});
    harness_make_tensor(&r->table, s->dtype, 1, 1, ref_window_rows(&window), s->heads,
                        (harness_layout){.row_pad = 3, .offset = 1});
    harness_fill_normal(&r->table, &random);
    harness_store(&r->table);
    (void)harness_add(&r->op, RHUMB_VIEW_O, &r->o, true);
    (void)harness_add(&r->op, RHUMB_VIEW_TABLE, &r->table, false);
    harness_make_tensor(&r->scales, RHUMB_F32, 1, 1, 1, s->heads, (harness_layout){0});
    for (uint32_t h = 0; h < s->heads; h++)
        r->scales.values[h] = 2.0 + 2.0 * h; /* the last ones beyond max_log_scale */
    harness_store(&r->scales);
    if (s->cosine)
        (void)harness_add(&r->op, RHUMB_VIEW_HEAD_SCALE, &r->scales, false);
}

static void free_run(grid_run *r)
{
    harness_tensor *const all[] = {&r->q, &r->k, &r->v, &r->o, &r->table, &r->scales};
    for (size_t i = 0; i < COUNT(all); i++)
        harness_free_tensor(all[i]);
}

static void refer(const grid_run *r, double *o)
{
    static const ref_window_pad pads[] = {REF_PAD_NONE, REF_PAD_THEN_SHIFT, REF_SHIFT_THEN_PAD};
    const grid_shape *s = r->s;
    const ref_window window = window_of(s);
    const size_t n = ref_window_tokens(&window);
    double *bias = harness_alloc(s->heads * n * n, sizeof *bias);
    ref_window_attention t = {
        .window = window,
        .grid = {s->grid[0], s->grid[1]},
        .shift = {s->shift[0], s->shift[1]},
        .pad = pads[s->padding],
        .mask_value = (double)s->mask_value,
        .batch = s->batch,
        .heads = s->heads,
        .head_dim = s->head_dim,
        .scale = 1.0 / sqrt((double)s->head_dim),
        .log_scales = s->cosine ? r->scales.values : NULL,
        .max_log_scale = (double)r->swin_v2.max_log_scale,
        .eps = (double)r->swin_v2.epsilon,
        .bias = bias,
        .q = r->q.values,
        .k = r->k.values,
        .v = r->v.values,
        .o = o,
    };
    harness_need(ref_window_bias(&window, s->heads, r->table.values, bias) == 0 &&
                     ref_window_attend(&t) == 0,
                 "the reference takes every shape");
    free(bias);
}

static double largest(const harness_tensor *t)
{
    double most = 0.0;
    for (uint64_t i = 0; i < t->count; i++)
        most = fmax(most, fabs(t->values[i]));
    return most;
}

static double longest(const harness_tensor *t)
{
    const uint64_t d = t->shape[3];
    double most = 0.0;
    for (uint64_t row = 0; row < t->count / d; row++) {
        double squares = 0.0;
        for (uint64_t i = 0; i < d; i++)
            squares += t->values[row * d + i] * t->values[row * d + i];
        most = fmax(most, sqrt(squares));
    }
    return most;
}

static bool compare(harness *h, grid_run *r, const char *text)
{
    const grid_shape *s = r->s;
    const ref_window window = window_of(s);
    const double d = s->head_dim, n = ref_window_tokens(&window);
    const double top = exp(fmin(2.0 * s->heads, (double)r->swin_v2.max_log_scale));
    const double product = s->cosine ? top : longest(&r->q) * longest(&r->k) / sqrt(d);
    const double size = product + largest(&r->table) + fabs((double)s->mask_value);
    const double range = fmin(2.0 * size / log(2.0), 150.0);
    const double logit = ((6.0 * sqrt(3.0 * d) + 8.0) * size +
                          (s->cosine ? (d + 38.0) * product : 0.0)) * UNIT;
    const double weight = (4.0 * (3.0 + 3.0 * range) + 12.0 * sqrt(n) + 4.0) * UNIT;
    const double values = largest(&r->v);
    double *want = harness_alloc(r->o.count, sizeof *want);
    double *bound = harness_alloc(r->o.count, sizeof *bound);
    bool passed;
    refer(r, want);
    harness_load(&r->o);
    for (uint64_t i = 0; i < r->o.count; i++) {
        bound[i] = (logit + weight) * (values + fabs(want[i]));
        bound[i] += harness_rounding(s->dtype, fabs(want[i]) + bound[i]);
    }
    passed = harness_compare(h, "windows", text, &r->o, want, bound, NULL);
    free(want);
    free(bound);
    return passed;
}

static void run_shape(harness *h, const grid_shape *s, rhumb_variant variant)
{
    grid_run r = {0};
    char text[256];
    make_run(&r, s, variant);
    snprintf(text, sizeof text, "window %ux%u grid %ux%u shift %ux%u prefix %u padding %d B%u H%u D%u "
             "%s%s variant %d", s->window[0], s->window[1], s->grid[0], s->grid[1], s->shift[0],
             s->shift[1], s->prefix, (int)s->padding, s->batch, s->heads, s->head_dim,
             harness_dtype_name(s->dtype), s->cosine ? " cosine" : "", (int)variant);
    h->cases++;
    if (harness_run(h, &r.op) != RHUMB_OK)
        (void)harness_fail(h, "windows: %s: %s", text, r.op.message);
    else
        (void)compare(h, &r, text);
    free_run(&r);
}

static void run_profile(harness_profile profile, rhumb_variant variant)
{
    harness h;
    harness_open(&h, profile);
    for (size_t i = 0; i < COUNT(shapes); i += shape_step(profile, 3))
        run_shape(&h, &shapes[i], variant);
    harness_close(&h);
}

Test(windows, equal_the_reference_in_the_generic_form_on_lavapipe)
{
    run_profile(HARNESS_LAVAPIPE, RHUMB_VARIANT_GENERIC);
}

Test(windows, equal_the_reference_in_the_broadcast_form_on_lavapipe)
{
    run_profile(HARNESS_LAVAPIPE, RHUMB_VARIANT_BROADCAST);
}

Test(windows, equal_the_reference_on_the_smallest_device)
{
    run_profile(HARNESS_LAVAPIPE_FLOOR, RHUMB_VARIANT_AUTO);
}

Test(windows, equal_the_reference_on_swiftshader)
{
    run_profile(HARNESS_SWIFTSHADER, RHUMB_VARIANT_AUTO);
}
