#include "shapes_project.h"

#include "reference/reference_absolute.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EPSILON 5.9604644775390625e-8 /* 2^-24: one rounding of a float */
#define REFUSED "the reference refuses a shape"

static void describe(const project_shape *s, char *text, size_t size)
{
    snprintf(text, size, "%u x %u -> H%u D%u, W %s%s%s, %s %s %s -> %s, %u rows", s->rows,
             s->channels, s->heads, s->head_dim, s->in_out ? "[K, H, D]" : "[H, D, K]",
             s->offset ? ", b" : "", s->fold ? ", fold" : "", harness_dtype_name(s->x_dtype),
             harness_dtype_name(s->weight_dtype), harness_dtype_name(s->offset_dtype),
             harness_dtype_name(s->y_dtype), s->q_length != 0 ? s->q_length : s->rows);
}

static void make_vector(const project_shape *s, project_run *run, harness_random *r,
                        rhumb_view_id id, harness_tensor *t)
{
    harness_make_tensor(t, s->offset_dtype, 1, 1, s->heads, s->head_dim, (harness_layout){0});
    harness_fill_normal(t, r);
    (void)harness_add(&run->op, id, t, false);
}

void shape_make_project(project_run *run, const project_shape *s)
{
    harness_random r = {.state = 3 + s->channels + 5 * s->rows};
    memset(run, 0, sizeof *run);
    gpu_init_operation(&run->op, RHUMB_OP_PROJECT);
    run->op.info.heads = s->heads;
    run->op.info.head_dim = s->head_dim;
    run->op.info.value_dim = s->channels;
    run->op.info.max_q_length = s->rows;
    run->op.info.weight_layout = s->in_out ? RHUMB_WEIGHT_IN_OUT : RHUMB_WEIGHT_OUT_IN;
    run->op.dispatch.q_length = s->q_length != 0 ? (int32_t)s->q_length : RHUMB_UNSET;
    harness_make_tensor(&run->x, s->x_dtype, 1, 1, s->rows, s->channels, s->x_layout);
    if (s->in_out) {
        harness_make_tensor(&run->weight, s->weight_dtype, 1, s->channels, s->heads, s->head_dim,
                            s->weight_layout);
    } else {
        harness_make_tensor(&run->weight, s->weight_dtype, 1, s->heads, s->head_dim, s->channels,
                            s->weight_layout);
    }
    harness_make_tensor(&run->y, s->y_dtype, 1, s->heads, s->rows, s->head_dim, s->y_layout);
    harness_fill_normal(&run->x, &r);
    harness_fill_normal(&run->weight, &r);
    (void)harness_add(&run->op, RHUMB_VIEW_X, &run->x, false);
    (void)harness_add(&run->op, RHUMB_VIEW_WEIGHT, &run->weight, false);
    (void)harness_add(&run->op, RHUMB_VIEW_Y, &run->y, true);
    if (s->offset) {
        make_vector(s, run, &r, RHUMB_VIEW_OFFSET, &run->offset);
    }
    if (s->fold) {
        make_vector(s, run, &r, RHUMB_VIEW_CONTENT_BIAS, &run->u);
        make_vector(s, run, &r, RHUMB_VIEW_POSITION_BIAS, &run->w);
        harness_make_tensor(&run->scalar, RHUMB_F32, 1, 1, s->rows, s->heads,
                            (harness_layout){.row_pad = 1, .offset = 2});
        (void)harness_add(&run->op, RHUMB_VIEW_TABLE_SCALAR, &run->scalar, true);
    }
}

void shape_free_project(project_run *run)
{
    harness_free_tensor(&run->x);
    harness_free_tensor(&run->weight);
    harness_free_tensor(&run->offset);
    harness_free_tensor(&run->y);
    harness_free_tensor(&run->u);
    harness_free_tensor(&run->w);
    harness_free_tensor(&run->scalar);
}

bool shape_project_on_device(harness *h, project_run *run, const char *text)
{
    h->cases++;
    if (harness_run(h, &run->op) != RHUMB_OK) {
        return harness_fail(h, "project: %s: %s", text, run->op.message);
    }
    harness_load(&run->y);
    if (run->scalar.count != 0) {
        harness_load(&run->scalar);
    }
    return true;
}

/* ------------------------------------------------------------------------------------------------
 * Against sums in double. A sum of n products has at most n roundings of products and n of sums, in
 * any order.
 */
static void expect_y(const project_shape *s, const project_run *run, double *want, double *bound)
{
    const double roundings = (s->channels + 1.0) * EPSILON;
    for (uint64_t i = 0; i < run->y.count; i++) {
        uint64_t c = i % s->head_dim, row = i / s->head_dim % s->rows;
        uint64_t h = i / s->head_dim / s->rows;
        double size;
        want[i] = s->offset ? run->offset.values[h * s->head_dim + c] : 0.0;
        size = fabs(want[i]);
        for (uint64_t k = 0; k < s->channels; k++) {
            uint64_t at = s->in_out ? harness_index(&run->weight, 0, k, h, c)
                                    : harness_index(&run->weight, 0, h, c, k);
            double product = run->x.values[row * s->channels + k] * run->weight.values[at];
            want[i] += product;
            size += fabs(product);
        }
        bound[i] = roundings * size;
        bound[i] += harness_rounding(s->y_dtype, fabs(want[i]) + bound[i]);
    }
}

/* From what the device has stored in Y. */
static void expect_scalar(const project_shape *s, const project_run *run, double *want,
                          double *bound)
{
    for (uint64_t i = 0; i < run->scalar.count; i++) {
        uint64_t h = i % s->heads, row = i / s->heads;
        double size = 0.0;
        for (uint64_t c = 0; c < s->head_dim; c++) {
            double product =
                (run->w.values[h * s->head_dim + c] - run->u.values[h * s->head_dim + c]) *
                run->y.values[harness_index(&run->y, 0, h, row, c)];
            want[i] += product;
            size += fabs(product);
        }
        bound[i] = (s->head_dim + 2.0) * EPSILON * size;
    }
}

/* Rows beyond q_length hold the canary still. */
static bool check_rest(harness *h, const harness_tensor *t, const bool *beyond, const char *text)
{
    harness_tensor blank = *t;
    bool same = true;
    blank.memory = harness_alloc(t->bytes, 1);
    gpu_fill_canary(blank.memory, 0, t->bytes);
    for (uint64_t i = 0; i < t->count; i++) {
        uint64_t at = harness_byte(t, i);
        if (beyond[i] &&
            memcmp(t->memory + at, blank.memory + at, harness_dtype_size(t->dtype)) != 0) {
            same = harness_fail(h, "project: %s: element %llu lies beyond q_length and was written",
                                text, (unsigned long long)i);
            break;
        }
    }
    free(blank.memory);
    return same;
}

static bool compare(harness *h, const project_shape *s, const project_run *run,
                    const harness_tensor *t, const char *text,
                    void (*expect)(const project_shape *, const project_run *, double *, double *))
{
    double *want = harness_alloc(t->count, sizeof *want);
    double *bound = harness_alloc(t->count, sizeof *bound);
    bool *beyond = harness_alloc(t->count, sizeof *beyond);
    uint32_t length = s->q_length != 0 ? s->q_length : s->rows;
    expect(s, run, want, bound);
    for (uint64_t i = 0; i < t->count; i++) {
        beyond[i] = i / t->shape[3] % t->shape[2] >= length;
    }
    bool passed = harness_compare(h, "project", text, t, want, bound, beyond) &&
                  check_rest(h, t, beyond, text);
    free(want);
    free(bound);
    free(beyond);
    return passed;
}

bool shape_run_project(harness *h, const project_shape *s)
{
    char text[192];
    project_run run;
    describe(s, text, sizeof text);
    shape_make_project(&run, s);
    bool passed = shape_project_on_device(h, &run, text) &&
                  compare(h, s, &run, &run.y, text, expect_y) &&
                  (!s->fold || compare(h, s, &run, &run.scalar, text, expect_scalar));
    shape_free_project(&run);
    return passed;
}

/* ------------------------------------------------------------------------------------------------
 * The network of swin_v2
 */
void shape_make_network(network_run *run, const network_shape *s)
{
    harness_random r = {.state = 5 + s->hidden};
    uint32_t rows = (2 * s->window[0] - 1) * (2 * s->window[1] - 1);
    memset(run, 0, sizeof *run);
    rhumb_init_swin_v2(&run->swin);
    memcpy(run->swin.window, s->window, sizeof s->window);
    memcpy(run->swin.pretrained_window, s->pretrained, sizeof s->pretrained);
    run->swin.hidden = s->hidden;
    run->swin.bias_gain = s->gain != 0.0 ? s->gain : 16.0;
    gpu_init_operation(&run->op, RHUMB_OP_PROJECT);
    run->op.info.scheme = &run->swin;
    run->op.info.heads = s->heads;
    run->op.info.head_dim = 1;
    run->op.info.max_q_length = 1;
    harness_make_tensor(&run->w1, s->dtype, 1, 1, s->hidden, 2, s->layout);
    harness_make_tensor(&run->b1, s->dtype, 1, 1, 1, s->hidden, s->layout);
    harness_make_tensor(&run->w2, s->dtype, 1, 1, s->heads, s->hidden, s->layout);
    harness_make_tensor(&run->y, s->out_dtype, 1, 1, rows, s->heads, s->layout);
    harness_fill_normal(&run->w1, &r);
    harness_fill_normal(&run->b1, &r);
    for (uint64_t i = 0; i < run->w2.count; i++) {
        run->w2.values[i] = harness_normal(&r) / sqrt(s->hidden);
    }
    harness_store(&run->w2);
    (void)harness_add(&run->op, RHUMB_VIEW_X, &run->w1, false);
    (void)harness_add(&run->op, RHUMB_VIEW_OFFSET, &run->b1, false);
    (void)harness_add(&run->op, RHUMB_VIEW_WEIGHT, &run->w2, false);
    (void)harness_add(&run->op, RHUMB_VIEW_Y, &run->y, true);
}

void shape_free_network(network_run *run)
{
    harness_free_tensor(&run->w1);
    harness_free_tensor(&run->b1);
    harness_free_tensor(&run->w2);
    harness_free_tensor(&run->y);
}

/* Vulkan grants log2 3 ulp, and 2^-21 absolute between 0.5 and 2; its argument has 3 roundings. */
static double coordinate_error(double c)
{
    double logarithm = fabs(3.0 * c);
    return (fmax(8.0 * EPSILON, 6.0 * EPSILON * logarithm) + 3.0 * 1.4427 * EPSILON) / 3.0 +
           2.0 * EPSILON * fabs(c);
}

/* What the errors of coordinates, units and the sum do to gain * sigmoid, whose slope is at most
 * gain/4; Vulkan grants exp2(x) 3 + 2 |x| ulp. */
static double network_bound(const network_shape *s, const network_run *run, const double c[2],
                            uint32_t head, double value)
{
    double size = 0.0, error = 0.0, gain = fabs(run->swin.bias_gain);
    for (uint32_t k = 0; k < s->hidden; k++) {
        const double *w1 = run->w1.values + 2 * (uint64_t)k;
        double w2 = fabs(run->w2.values[(uint64_t)head * s->hidden + k]);
        double unit = fabs(w1[0] * c[0]) + fabs(w1[1] * c[1]) + fabs(run->b1.values[k]);
        error += w2 * (fabs(w1[0]) * coordinate_error(c[0]) + fabs(w1[1]) * coordinate_error(c[1]) +
                       4.0 * EPSILON * unit);
        size += w2 * unit;
    }
    error += (s->hidden + 1.0) * EPSILON * size;
    error += 2.0 * EPSILON * (3.0 + 3.0 * size);
    error = gain * error / 4.0 + 4.0 * EPSILON * fabs(value);
    return error + harness_rounding(s->out_dtype, fabs(value) + error);
}

bool shape_run_network(harness *h, const network_shape *s)
{
    char text[128];
    network_run run;
    ref_window window = {.size = {s->window[0], s->window[1]}};
    shape_make_network(&run, s);
    uint32_t rows = ref_window_rows(&window);
    double *c = harness_alloc(2 * (size_t)rows, sizeof *c);
    double *want = harness_alloc(run.y.count, sizeof *want);
    double *bound = harness_alloc(run.y.count, sizeof *bound);
    snprintf(text, sizeof text, "window %ux%u from %ux%u, H%u, %u units, %s -> %s", s->window[0],
             s->window[1], s->pretrained[0], s->pretrained[1], s->heads, s->hidden,
             harness_dtype_name(s->dtype), harness_dtype_name(s->out_dtype));
    harness_need(ref_window_coordinates(&window, s->pretrained, c) == 0, REFUSED);
    harness_need(ref_window_mlp(rows, s->hidden, s->heads, c, run.w1.values, run.b1.values,
                                run.w2.values, run.swin.bias_gain, want) == 0,
                 REFUSED);
    for (uint64_t i = 0; i < run.y.count; i++) {
        bound[i] = network_bound(s, &run, c + i / s->heads * 2, (uint32_t)(i % s->heads), want[i]);
    }
    h->cases++;
    bool passed = harness_run(h, &run.op) == RHUMB_OK ||
                  harness_fail(h, "swin_v2: %s: %s", text, run.op.message);
    if (passed) {
        harness_load(&run.y);
        passed = harness_compare(h, "swin_v2", text, &run.y, want, bound, NULL);
    }
    if (passed &&
        (run.op.properties.table_rows != rows || run.op.properties.table_zero != rows / 2)) {
        passed = harness_fail(h, "swin_v2: %s: %u rows, zero %u", text,
                              run.op.properties.table_rows, run.op.properties.table_zero);
    }
    free(c);
    free(want);
    free(bound);
    shape_free_network(&run);
    return passed;
}
