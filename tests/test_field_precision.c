/* Faults of the field with the precision of angles. README.md of this folder has the list of cases;
 * numbers in a name are theirs. */
#include "shapes.h"

#include "reference.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>

/* ---- 12: phases that are rounded somewhere on the way ---- */

/* What (1, 0) becomes at frequency 1; given to 1e-9. 16777217 is no float; 15962 and 15968 are one
 * number in half precision. */
static const struct {
    int32_t position;
    double cosine, sine;
} far[] = {
    {15962, -0.908015901, 0.418935703},   {15968, -0.754792760, 0.655963329},
    {131071, -0.817983499, -0.575241684}, {1048575, 0.788042240, -0.615621173},
    {16777217, 0.994383964, 0.105832567}, {2147483647, -0.688836692, -0.724916555},
};
#define FAR (sizeof far / sizeof far[0])

static void turn_far(harness *h, rhumb_dtype dtype)
{
    int32_t positions[FAR];
    harness_tensor x, y;
    rhumb_rope rope;
    rhumb_init_rope(&rope);
    harness_make_tensor(&x, dtype, 1, 1, FAR, 2, (harness_layout){0});
    harness_make_tensor(&y, dtype, 1, 1, FAR, 2, (harness_layout){0});
    for (size_t i = 0; i < FAR; i++) {
        x.values[2 * i] = 1.0;
        positions[i] = far[i].position;
    }
    harness_store(&x);
    bool ran = shape_rotate(h, &rope, 1, positions, &x, &y, 0);
    for (size_t i = 0; ran && i < 2 * FAR; i++) {
        double want = i % 2 == 0 ? far[i / 2].cosine : far[i / 2].sine;
        double bound = 1e-6 + harness_rounding(dtype, fabs(want) + 1e-6);
        if (!(fabs(y.values[i] - want) <= bound)) {
            harness_fail(h, "%s at position %d: %s: got %.9f, want %.9f, bound %.3g",
                         harness_dtype_name(dtype), (int)far[i / 2].position,
                         i % 2 == 0 ? "cosine" : "sine", y.values[i], want, bound);
        }
    }
    if (ran && !(fabs(y.values[0] - y.values[2]) > 0.1)) {
        harness_fail(h, "%s: positions 15962 and 15968 are one: %.9f and %.9f",
                     harness_dtype_name(dtype), y.values[0], y.values[2]);
    }
    harness_free_tensor(&x);
    harness_free_tensor(&y);
}

/* ---- 13: the driver's own sine, and sums that are contracted ---- */

/* 4096 positions of any size times 32 frequencies. */
static void sweep(harness *h)
{
    enum { ROWS = 4096, DIM = 64 };
    static int32_t positions[ROWS];
    static double want[ROWS * DIM];
    harness_random r = {.state = 4096};
    double worst = 0.0;
    uint64_t worst_at = 0;
    harness_tensor x, y;
    rhumb_rope rope;
    ref_rope ref;
    rhumb_init_rope(&rope);
    ref_rope_init(&ref, DIM);
    harness_make_tensor(&x, RHUMB_F32, 1, 1, ROWS, DIM, (harness_layout){0});
    harness_make_tensor(&y, RHUMB_F32, 1, 1, ROWS, DIM, (harness_layout){0});
    for (uint64_t i = 0; i < x.count; i++) {
        x.values[i] = i % DIM < DIM / 2 ? 1.0 : 0.0;
    }
    for (uint32_t i = 0; i < ROWS; i++) {
        positions[i] = (int32_t)(harness_next(&r) >> 1);
    }
    harness_store(&x);
    cr_assert_eq(ref_rotate(&ref, 1, 1, ROWS, DIM, positions, 0, x.values, want), 0);
    bool ran = shape_rotate(h, &rope, 1, positions, &x, &y, 0);
    for (uint64_t i = 0; ran && i < y.count; i++) {
        double error = fabs(y.values[i] - want[i]);
        if (!(error <= worst)) {
            worst = error;
            worst_at = i;
        }
    }
    printf("%s: sine and cosine at %d positions below 2^31 x %d frequencies: largest error %.3g "
           "(position %d, pair %d)\n",
           harness_profile_name(h->profile), ROWS, DIM / 2, worst, (int)positions[worst_at / DIM],
           (int)(worst_at % (DIM / 2)));
    if (!(worst <= 1e-6)) {
        harness_fail(h, "sweep: error %.3g, bound 1e-6", worst);
    }
    harness_free_tensor(&x);
    harness_free_tensor(&y);
}

static void run_far(harness_profile profile)
{
    harness h;
    harness_open(&h, profile);
    turn_far(&h, RHUMB_F32);
    turn_far(&h, RHUMB_F16);
    turn_far(&h, RHUMB_BF16);
    harness_close(&h);
}

static void run_sweep(harness_profile profile)
{
    harness h;
    harness_open(&h, profile);
    sweep(&h);
    harness_close(&h);
}

#define ON_EVERY_PROFILE(name, run)                                                                \
    Test(field_precision, name##_on_lavapipe)                                                      \
    {                                                                                              \
        run(HARNESS_LAVAPIPE);                                                                     \
    }                                                                                              \
    Test(field_precision, name##_on_the_smallest_device)                                           \
    {                                                                                              \
        run(HARNESS_LAVAPIPE_FLOOR);                                                               \
    }                                                                                              \
    Test(field_precision, name##_on_swiftshader)                                                   \
    {                                                                                              \
        run(HARNESS_SWIFTSHADER);                                                                  \
    }

ON_EVERY_PROFILE(case_12_far_positions_are_exact_and_neighbours_in_half_precision_differ, run_far)
ON_EVERY_PROFILE(case_13_no_position_and_frequency_in_a_sweep_is_off, run_sweep)
