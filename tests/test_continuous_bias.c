/* PROJECT of swin_v2: the network of its continuous bias against the reference, and what must be
 * refused. */
#include "shapes_project.h"

#include <criterion/criterion.h>

#define COUNT(array) (sizeof(array) / sizeof(array)[0])

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
        shape_run_network(&h, &networks[i]);
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
    shape_run_network(&h, &good);
    for (size_t i = 0; i < COUNT(attempts); i++) {
        const attempt *a = &attempts[i];
        network_run run;
        shape_make_network(&run, &good);
        a->change(&run);
        harness_expect_refused(&h, &run.op, a->name, a->code, a->start, a->found, &run.y);
        shape_free_network(&run);
    }
    harness_close(&h);
}
