/* BIAS of windows on every profile: Swin, Swin V2 and BEiT, with and without a shift, against the
 * reference's indices and regions that are painted here. */
#include "shapes_bias.h"

#include <criterion/criterion.h>

#define COUNT(array) (sizeof(array) / sizeof(array)[0])

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

static void run_profile(harness_profile profile)
{
    harness h;
    harness_open(&h, profile);
    for (size_t i = 0; i < COUNT(windows); i++) {
        (void)shape_run_window(&h, &windows[i]);
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
