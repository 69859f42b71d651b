/* PROJECT of swin_v2: the network of its continuous bias against the reference, and what must be
 * refused. */
#include "harness.h"

#include "reference/reference_absolute.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COUNT(array) (sizeof(array) / sizeof(array)[0])
#define EPSILON 5.9604644775390625e-8 /* 2^-24: one rounding of a float */

typedef struct network_shape {
    uint32_t window[2];
    uint32_t pretrained[2];
    uint32_t heads;
    uint32_t hidden;
    double gain; /* 0: 16 */
    rhumb_dtype dtype;
    rhumb_dtype out_dtype;
    harness_layout layout;
} network_shape;

typedef struct network_run {
    rhumb_swin_v2 swin;
    harness_tensor w1, b1, w2, y;
    gpu_operation op;
} network_run;

static void make_network(network_run *run, const network_shape *s)
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

static void free_network(network_run *run)
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
        error += w2 * (fabs(w1[0]) * coordinate_error(c[0]) +
                       fabs(w1[1]) * coordinate_error(c[1]) + 4.0 * EPSILON * unit);
        size += w2 * unit;
    }
    error += (s->hidden + 1.0) * EPSILON * size;
    error += 2.0 * EPSILON * (3.0 + 3.0 * size);
    error = gain * error / 4.0 + 4.0 * EPSILON * fabs(value);
    return error + harness_rounding(s->out_dtype, fabs(value) + error);
}

static void run_network(harness *h, const network_shape *s)
{
    char text[128];
    network_run run;
    ref_window window = {.size = {s->window[0], s->window[1]}};
    make_network(&run, s);
    uint32_t rows = ref_window_rows(&window);
    double *c = harness_alloc(2 * (size_t)rows, sizeof *c);
    double *want = harness_alloc(run.y.count, sizeof *want);
    double *bound = harness_alloc(run.y.count, sizeof *bound);
    snprintf(text, sizeof text, "window %ux%u from %ux%u, H%u, %u units, %s -> %s", s->window[0],
             s->window[1], s->pretrained[0], s->pretrained[1], s->heads, s->hidden,
             harness_dtype_name(s->dtype), harness_dtype_name(s->out_dtype));
    cr_assert_eq(ref_window_coordinates(&window, s->pretrained, c), 0);
    cr_assert_eq(ref_window_mlp(rows, s->hidden, s->heads, c, run.w1.values, run.b1.values,
                                run.w2.values, run.swin.bias_gain, want),
                 0);
    for (uint64_t i = 0; i < run.y.count; i++) {
        bound[i] = network_bound(s, &run, c + i / s->heads * 2, (uint32_t)(i % s->heads), want[i]);
    }
    h->cases++;
    if (harness_run(h, &run.op) != RHUMB_OK) {
        harness_fail(h, "swin_v2: %s: %s", text, run.op.message);
    } else {
        harness_load(&run.y);
        (void)harness_compare(h, "swin_v2", text, &run.y, want, bound, NULL);
        if (run.op.properties.table_rows != rows || run.op.properties.table_zero != rows / 2) {
            harness_fail(h, "swin_v2: %s: %u rows, zero %u", text, run.op.properties.table_rows,
                         run.op.properties.table_zero);
        }
    }
    free(c);
    free(want);
    free(bound);
    free_network(&run);
}

static const network_shape networks[] = {
    {.window = {1, 1}, .heads = 1, .hidden = 16},
    {.window = {1, 7}, .heads = 3, .hidden = 16},
    {.window = {7, 7}, .heads = 3, .hidden = 16},
    {.window = {7, 7}, .heads = 32, .hidden = 512},
    {.window = {8, 8}, .pretrained = {4, 6}, .heads = 3, .hidden = 512},
    {.window = {8, 8}, .pretrained = {4, 6}, .heads = 1, .hidden = 16, .gain = -3.5},
    {.window = {1, 5}, .pretrained = {4, 6}, .heads = 2, .hidden = 1},
    {.window = {5, 3}, .heads = 3, .hidden = 17, .dtype = RHUMB_F16, .out_dtype = RHUMB_F16},
    {.window = {5, 3}, .heads = 3, .hidden = 17, .dtype = RHUMB_BF16, .out_dtype = RHUMB_F32},
    {.window = {5, 3}, .heads = 3, .hidden = 17, .out_dtype = RHUMB_BF16,
     .layout = {.row_pad = 3, .offset = 1}},
};

static void run_profile(harness_profile profile)
{
    harness h;
    harness_open(&h, profile);
    for (size_t i = 0; i < COUNT(networks); i++) {
        run_network(&h, &networks[i]);
    }
    harness_close(&h);
}

Test(continuous_bias, lavapipe_agrees_with_the_reference)
{
    run_profile(HARNESS_LAVAPIPE);
}

Test(continuous_bias, the_floor_agrees_with_the_reference)
{
    run_profile(HARNESS_LAVAPIPE_FLOOR);
}

Test(continuous_bias, swiftshader_agrees_with_the_reference)
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
    void (*change)(network_run *run);
} attempt;

enum { W1, B1, W2, Y }; /* tensors of the operation, in their order */

/* X(name, change, code, start of the line, a part of it) */
#define BAD_ROWS(X)                                                                                \
    X(no_window, run->swin.window[0] = 0, ARGUMENT, "swin_v2: window: ", "found 0 x 5")            \
    X(window_too_large, run->swin.window[1] = 16385, ARGUMENT, "swin_v2: window: ", "16385")       \
    X(pretrained_by_one, (run->swin.pretrained_window[0] = 8, run->swin.pretrained_window[1] = 1), \
      ARGUMENT, "swin_v2: pretrained_window: ", "found 8 x 1")                                     \
    X(pretrained_on_one_side, run->swin.pretrained_window[0] = 8, ARGUMENT,                        \
      "swin_v2: pretrained_window: ", "found 8 x 0")                                               \
    X(no_units, run->swin.hidden = 0, ARGUMENT, "swin_v2: hidden: ", "found 0")                    \
    X(units_too_many, run->swin.hidden = 32769, ARGUMENT, "swin_v2: hidden: ", "found 32769")      \
    X(gain_is_nan, run->swin.bias_gain = (double)NAN, ARGUMENT, "swin_v2: bias_gain: ", "nan")     \
    X(swin_too_large, run->swin.struct_size += 8, VERSION, "swin_v2: ", "struct_size")             \
    X(weights_the_other_way, run->op.info.weight_layout = RHUMB_WEIGHT_IN_OUT, ARGUMENT,           \
      "project: weight_layout: ", "IN_OUT")                                                        \
    X(no_offset, run->op.tensors[B1] = run->op.tensors[--run->op.tensor_count], ARGUMENT,          \
      "project: views: swin_v2", "OFFSET")                                                         \
    X(first_layer_of_one_input, run->op.tensors[W1].shape[3] = 1, ARGUMENT,                        \
      "project: shape of X ",                                                                      \
      "wanted exactly 2")                                                                          \
    X(first_layer_of_other_units, run->op.tensors[W1].shape[2] = 15, ARGUMENT,                     \
      "project: shape of X ",                                                                      \
      "wanted exactly 16")                                                                         \
    X(offset_of_other_units, run->op.tensors[B1].shape[3] = 15, ARGUMENT, "project: shape of OFFSET ",  \
      "wanted exactly 16")                                                                         \
    X(second_layer_of_other_heads, run->op.tensors[W2].shape[2] = 2, ARGUMENT,                     \
      "project: shape of WEIGHT ",                                                                      \
      "wanted exactly 3")                                                                          \
    X(table_of_other_rows, run->op.tensors[Y].shape[2] = 44, ARGUMENT, "project: shape of Y ",     \
      "wanted exactly 45")                                                                         \
    X(length_of_rows, run->op.dispatch.q_length = 45, ARGUMENT, "project: q_length", "45")

#define DEFINE(name, act, code, start, found)                                                      \
    static void bad_##name(network_run *run)                                                       \
    {                                                                                              \
        act;                                                                                       \
    }
#define ROW(name, act, code, start, found) {#name, RHUMB_ERROR_##code, start, found, bad_##name},

BAD_ROWS(DEFINE)

static const attempt attempts[] = {BAD_ROWS(ROW)};

Test(continuous_bias, bad_input_is_refused_with_its_numbers_and_writes_nothing)
{
    static const network_shape good = {.window = {3, 5}, .heads = 3, .hidden = 16};
    harness h;
    harness_open(&h, HARNESS_LAVAPIPE);
    run_network(&h, &good);
    for (size_t i = 0; i < COUNT(attempts); i++) {
        const attempt *a = &attempts[i];
        network_run run;
        make_network(&run, &good);
        a->change(&run);
        harness_expect_refused(&h, &run.op, a->name, a->code, a->start, a->found, &run.y);
        free_network(&run);
    }
    harness_close(&h);
}
