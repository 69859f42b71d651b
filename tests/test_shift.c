/* ROTATE on keys that were rotated before: SHIFT moves them by a distance, RESCHEDULE turns them as
 * a longer context wants them. Both must give what rotating the raw keys afresh gives. */
#include "schedules.h"
#include "shapes_keys.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- schemes ---- */

static rhumb_rope yarn(void)
{
    rhumb_rope rope;
    rhumb_init_rope(&rope);
    rope.scaling = RHUMB_ROPE_SCALING_YARN;
    rope.factor = 4.0;
    rope.original_length = 2048;
    return rope;
}

static rhumb_rope dynamic(rhumb_rope_scaling scaling, uint32_t max_length)
{
    rhumb_rope rope;
    rhumb_init_rope(&rope);
    rope.scaling = scaling;
    rope.factor = scaling == RHUMB_ROPE_SCALING_NTK_DYNAMIC ? 2.0 : 1.0;
    rope.max_length = max_length;
    return rope;
}

/* ---- SHIFT ---- */

/* The length of a key, which a magnitude applied twice would change. */
static void check_magnitude(harness *h)
{
    rhumb_rope rope = yarn();
    shape_keys k = {.name = "yarn: length of a key", .rotary = &rope, .batch = 1, .rows = 2,
              .head_dim = 64};
    const double m = 0.1 * log(4.0) + 1.0;
    shape_make_keys(&k);
    shape_pass_keys(h, &k, &(shape_pass){.purpose = RHUMB_PURPOSE_ROTATE, .q_offset = 5000});
    for (int32_t i = 0; i < 3; i++) {
        shape_pass_keys(h, &k, &(shape_pass){.purpose = RHUMB_PURPOSE_SHIFT, .q_offset = -1000 * i});
        double before = 0.0, after = 0.0;
        for (uint32_t d = 0; d < 64; d++) {
            before += k.raw.values[d] * k.raw.values[d];
            after += k.got.values[d] * k.got.values[d];
        }
        if (!(fabs(sqrt(after / before) - m) <= 1e-6)) {
            harness_fail(h, "%s after %d shifts: grew by %.9g, want %.9g", k.name, i + 1,
                         sqrt(after / before), m);
        }
    }
    shape_free_keys(&k);
}

/* A distance of each batch entry, and of each row; the ends of the range. */
static void check_distances(harness *h)
{
    static const int32_t each[3] = {-17, 0, 100000};
    static const int32_t rows[3 * 4] = {0, -1, 5, 2147483644, -2147483647, 3, 3, 3, 8, -8, 64, 1};
    int32_t positions[3 * 4];
    rhumb_rope rope = yarn();
    shape_keys k = {.name = "distances", .rotary = &rope, .batch = 3, .rows = 4, .head_dim = 64};
    shape_make_keys(&k);
    shape_pass_keys(h, &k, &(shape_pass){.purpose = RHUMB_PURPOSE_ROTATE});
    shape_pass_keys(h, &k, &(shape_pass){.purpose = RHUMB_PURPOSE_SHIFT, .q_offset = 5, .q_offsets = each});
    for (uint32_t i = 0; i < 12; i++) {
        positions[i] = (int32_t)(i % 4) + each[i / 4];
    }
    shape_expect_fresh(h, &k, positions, 0, 2);
    shape_pass_keys(h, &k, &(shape_pass){.purpose = RHUMB_PURPOSE_ROTATE});
    shape_pass_keys(h, &k, &(shape_pass){.purpose = RHUMB_PURPOSE_SHIFT, .positions = rows});
    for (uint32_t i = 0; i < 12; i++) {
        positions[i] = (int32_t)(i % 4) + rows[i];
    }
    shape_expect_fresh(h, &k, positions, 0, 2);
    shape_pass_keys(h, &k, &(shape_pass){.purpose = RHUMB_PURPOSE_SHIFT, .positions = rows, .inverse = 1});
    shape_fill_rows(positions, 12, 4, 0, 0);
    shape_expect_fresh(h, &k, positions, 0, 3);
    shape_free_keys(&k);
}

static bool same(harness *h, const shape_keys *a, const shape_keys *b, const char *what)
{
    return memcmp(a->got.memory, b->got.memory, a->got.bytes) == 0 ||
           harness_fail(h, "%s: other bits", what);
}

/* One distance for t, h and w is a shift along one axis; unequal ones go by the sections. */
static void check_mrope(harness *h)
{
    static const uint32_t sections[4] = {8, 12, 12, 0};
    int32_t places[3 * 6], equal[3 * 6], unequal[3 * 6], sums[3 * 6];
    rhumb_mrope mrope;
    rhumb_init_mrope(&mrope);
    memcpy(mrope.sections, sections, sizeof sections);
    shape_keys k = {.name = "mrope", .rotary = &mrope, .batch = 2, .rows = 3, .head_dim = 64};
    shape_keys other = k, plain = k;
    rhumb_rope rope;
    rhumb_init_rope(&rope);
    plain.rotary = &rope;
    shape_make_keys(&k);
    shape_make_keys(&other);
    shape_make_keys(&plain);
    for (int32_t i = 0; i < 18; i++) {
        places[i] = 10 + i * (i / 6 + 1);
        equal[i] = -9;
        unequal[i] = 5 - 4 * i;
        sums[i] = places[i] + unequal[i];
    }
    const shape_pass there = {.purpose = RHUMB_PURPOSE_ROTATE, .positions = places, .axes = 3};
    shape_pass_keys(h, &k, &there);
    shape_pass_keys(h, &other, &there);
    memcpy(plain.got.memory, k.got.memory, k.got.bytes);
    shape_pass_keys(h, &k, &(shape_pass){.purpose = RHUMB_PURPOSE_SHIFT, .positions = equal, .axes = 3});
    shape_pass_keys(h, &other, &(shape_pass){.purpose = RHUMB_PURPOSE_SHIFT, .q_offset = -9});
    shape_pass_keys(h, &plain, &(shape_pass){.purpose = RHUMB_PURPOSE_SHIFT, .q_offset = -9});
    (void)same(h, &k, &other, "mrope: one distance, and the same along each axis");
    (void)same(h, &k, &plain, "mrope: an equal shift and that of rope");
    shape_pass_keys(h, &k, &there);
    shape_pass_keys(h, &k, &(shape_pass){.purpose = RHUMB_PURPOSE_SHIFT, .positions = unequal, .axes = 3});
    shape_expect_fresh(h, &k, sums, 0, 2);
    shape_free_keys(&k);
    shape_free_keys(&other);
    shape_free_keys(&plain);
}

/* Coordinates of a grid begin anywhere: where they begin is in the key already. */
static void check_phases(harness *h)
{
    int32_t places[2 * 6], distances[2 * 6], sums[2 * 6];
    rhumb_rope2d plane;
    rhumb_init_rope2d(&plane);
    plane.frequency = RHUMB_ROPE2D_PERIODS;
    plane.base = 100.0;
    plane.scale[0] = plane.scale[1] = 0.25;
    plane.offset[0] = -0.875;
    plane.offset[1] = 0.125;
    shape_keys k = {.name = "rope2d", .rotary = &plane, .batch = 2, .rows = 3, .head_dim = 32};
    shape_make_keys(&k);
    for (int32_t i = 0; i < 12; i++) {
        places[i] = i;
        distances[i] = 3 - 2 * i;
        sums[i] = places[i] + distances[i];
    }
    shape_pass_keys(h, &k, &(shape_pass){.purpose = RHUMB_PURPOSE_ROTATE, .positions = places, .axes = 2});
    shape_pass_keys(h, &k, &(shape_pass){.purpose = RHUMB_PURPOSE_SHIFT, .positions = distances, .axes = 2});
    shape_expect_fresh(h, &k, sums, 0, 2);
    shape_free_keys(&k);
}

/* A cache with another order of rows: shifted, and moved by SLOTS, in one pass. */
static void check_shift_into_another_cache(harness *h)
{
    static const int32_t to[4] = {2, -1, 0, 5}, distances[4] = {-3, -3, 8, 0};
    int32_t positions[4];
    harness_tensor moved, slots, by;
    rhumb_rope rope = yarn();
    gpu_operation op;
    shape_keys k = {.name = "shift into another cache", .rotary = &rope, .batch = 1, .rows = 4,
              .head_dim = 64};
    shape_make_keys(&k);
    shape_pass_keys(h, &k, &(shape_pass){.purpose = RHUMB_PURPOSE_ROTATE, .q_offset = 20});
    harness_make_tensor(&moved, RHUMB_F32, 1, SHAPE_KEY_HEADS, 6, 64, (harness_layout){0});
    gpu_init_operation(&op, RHUMB_OP_ROTATE);
    op.info.rotary = &rope;
    op.info.purpose = RHUMB_PURPOSE_SHIFT;
    op.info.append = RHUMB_APPEND_SLOTS;
    op.info.heads = SHAPE_KEY_HEADS;
    op.info.head_dim = 64;
    op.info.max_q_length = 4;
    (void)harness_add(&op, RHUMB_VIEW_K, &k.got, false);
    (void)harness_add(&op, RHUMB_VIEW_K_OUT, &moved, true);
    shape_add_integers(&op, &slots, RHUMB_VIEW_SLOTS, 1, 1, 4, to);
    shape_add_integers(&op, &by, RHUMB_VIEW_POSITIONS_Q, 1, 1, 4, distances);
    h->cases++;
    if (harness_run(h, &op) != RHUMB_OK) {
        harness_fail(h, "%s: %s", k.name, op.message);
    }
    harness_load(&moved);
    for (uint32_t i = 0; i < 4; i++) {
        positions[i] = 20 + (int32_t)i + (to[i] < 0 ? 0 : distances[i]);
        for (uint32_t n = 0; to[i] >= 0 && n < SHAPE_KEY_HEADS * 64; n++) {
            k.got.values[harness_index(&k.got, 0, n / 64, i, n % 64)] =
                moved.values[harness_index(&moved, 0, n / 64, (uint64_t)to[i], n % 64)];
        }
    }
    shape_expect_fresh(h, &k, positions, 0, 2);
    harness_free_tensor(&moved);
    harness_free_tensor(&slots);
    harness_free_tensor(&by);
    shape_free_keys(&k);
}

static void check_all_shifts(harness *h)
{
    static const rhumb_dtype dtypes[] = {RHUMB_F32, RHUMB_F16, RHUMB_BF16};
    static const char *const pairings[] = {"yarn interleaved", "yarn half",
                                           "yarn read interleaved, cached half"};
    rhumb_rope rope = yarn();
    rhumb_xpos xpos;
    for (uint32_t i = 0; i < 9; i++) {
        if (h->profile != HARNESS_LAVAPIPE && i % 3 != i / 3) {
            h->left_out++; /* each pairing and each dtype is there once */
            continue;
        }
        rope.pairing = (rhumb_pairing)(i % 3);
        shape_run_shifts(h, pairings[i % 3], &rope, 64, dtypes[i / 3]);
    }
    rope.pairing = RHUMB_PAIRING_HALF;
    rope.rotary_dim = 22;
    rope.rotary_offset = 5;
    shape_run_shifts(h, "yarn, partial window", &rope, 31, RHUMB_F32);
    rhumb_init_xpos(&xpos);
    xpos.scale_base = 256.0;
    xpos.centre = 290;
    shape_run_shifts(h, "xpos", &xpos, 32, RHUMB_F32);
    shape_run_shifts(h, "xpos", &xpos, 32, RHUMB_F16);
    check_magnitude(h);
    check_distances(h);
    check_mrope(h);
    check_phases(h);
    check_shift_into_another_cache(h);
}

/* ---- RESCHEDULE ---- */

static rhumb_rope longrope64(void)
{
    static double shorts[32], longs[32];
    rhumb_rope rope;
    rhumb_init_rope(&rope);
    for (int i = 0; i < 32; i++) {
        shorts[i] = 1.0 + 0.01 * i;
        longs[i] = 1.0 + 0.7 * i;
    }
    rope.scaling = RHUMB_ROPE_SCALING_LONGROPE;
    rope.original_length = 4096;
    rope.max_length = 131072;
    rope.short_factors = shorts;
    rope.long_factors = longs;
    rope.list_count = 32;
    return rope;
}

static void check_all_reschedules(harness *h)
{
    static const rhumb_dtype dtypes[] = {RHUMB_F32, RHUMB_F16, RHUMB_BF16};
    static const uint32_t sections[4] = {8, 12, 12, 0};
    const rhumb_rope ntk = dynamic(RHUMB_ROPE_SCALING_NTK_DYNAMIC, 2048);
    const rhumb_rope linear = dynamic(RHUMB_ROPE_SCALING_LINEAR_DYNAMIC, 2048);
    rhumb_rope longrope = longrope64();
    for (uint32_t i = 0; i < 3; i++) {
        shape_run_reschedule(h, "dynamic NTK", &ntk, dtypes[i], 2048, 5000);
        shape_run_reschedule(h, "LongRoPE, short to long", &longrope, dtypes[i], 4096, 4097);
    }
    shape_run_reschedule(h, "dynamic NTK, twice stale", &ntk, RHUMB_F32, 5000, 131072);
    shape_run_reschedule(h, "dynamic NTK, back", &ntk, RHUMB_F32, 5000, 100);
    shape_run_reschedule(h, "dynamic linear", &linear, RHUMB_F32, 3000, 9000);
    shape_run_reschedule(h, "LongRoPE, long to short", &longrope, RHUMB_F32, 9000, 4096);
    shape_run_reschedule(h, "LongRoPE, long to long", &longrope, RHUMB_F32, 5000, 9000);
    longrope.pairing = RHUMB_PAIRING_INTERLEAVED_TO_HALF;
    shape_run_reschedule(h, "LongRoPE, cached half", &longrope, RHUMB_F32, 4096, 4097);
    rhumb_mrope mrope;
    rhumb_init_mrope(&mrope);
    memcpy(mrope.sections, sections, sizeof sections);
    mrope.rope = &ntk;
    shape_keys k = {.name = "mrope, dynamic NTK", .rotary = &mrope, .batch = 1, .rows = 3,
              .head_dim = 64};
    static const int32_t places[3 * 3] = {5, 5, 5, 6, 7, 9, 1000, 1001, 2047};
    shape_make_keys(&k);
    shape_pass_keys(h, &k, &(shape_pass){.purpose = RHUMB_PURPOSE_ROTATE, .positions = places, .axes = 3,
                            .new_length = 2048});
    shape_pass_keys(h, &k, &(shape_pass){.purpose = RHUMB_PURPOSE_RESCHEDULE, .positions = places, .axes = 3,
                            .old_length = 2048, .new_length = 4000});
    shape_expect_fresh(h, &k, places, 4000, 2);
    shape_free_keys(&k);
}

/* Whether the cache is stale, by a plan that makes it fresh again. */
static uint32_t ask_stale(harness *h, const void *rotary, uint32_t old_length, uint32_t new_length)
{
    rhumb_plan_info info;
    rhumb_plan *plan = NULL;
    uint32_t stale = 9;
    rhumb_init_plan_info(&info, RHUMB_OP_ROTATE);
    info.rotary = rotary;
    info.purpose = RHUMB_PURPOSE_RESCHEDULE;
    info.heads = SHAPE_KEY_HEADS;
    info.head_dim = 8;
    info.max_q_length = 1;
    info.views = RHUMB_VIEW_BIT(RHUMB_VIEW_K);
    cr_assert_eq(rhumb_create_plan(h->g->context, &info, &plan), RHUMB_OK, "%s",
                 rhumb_last_message(h->g->context));
    cr_assert_eq(rhumb_keys_stale(plan, old_length, new_length, &stale), RHUMB_OK);
    rhumb_destroy_plan(plan);
    return stale;
}

/* Field test 6: 4096 keys are cached on the short factors, then a token comes. */
static void check_stale_cache(harness *h)
{
    enum { CACHED = 4096 };
    rhumb_rope rope = schedule_longrope();
    shape_keys k = {.name = "stale cache", .rotary = &rope, .batch = 1, .rows = CACHED, .head_dim = 8};
    int32_t *positions = harness_alloc(CACHED, sizeof *positions);
    shape_fill_rows(positions, CACHED, CACHED, 0, 0);
    shape_make_keys(&k);
    if (ask_stale(h, &rope, 10, CACHED) != 0 || ask_stale(h, &rope, CACHED, CACHED + 1) != 1) {
        harness_fail(h, "%s: wanted stale from 4096 to 4097 only", k.name);
    }
    shape_pass_keys(h, &k, &(shape_pass){.purpose = RHUMB_PURPOSE_ROTATE, .new_length = CACHED});
    shape_expect_close(h, &k, positions, CACHED);
    shape_pass_keys(h, &k, &(shape_pass){.purpose = RHUMB_PURPOSE_RESCHEDULE, .old_length = CACHED,
                            .new_length = CACHED + 1});
    shape_expect_close(h, &k, positions, CACHED + 1);
    free(positions);
    shape_free_keys(&k);
}

static void run_profile(harness_profile profile)
{
    harness h;
    harness_open(&h, profile);
    check_all_shifts(&h);
    check_all_reschedules(&h);
    check_stale_cache(&h);
    harness_close(&h);
}

Test(shift, rotated_keys_move_and_are_rescheduled_as_if_rotated_afresh_on_lavapipe)
{
    run_profile(HARNESS_LAVAPIPE);
}

Test(shift, rotated_keys_move_and_are_rescheduled_as_if_rotated_afresh_on_the_smallest_device)
{
    run_profile(HARNESS_LAVAPIPE_FLOOR);
}

Test(shift, rotated_keys_move_and_are_rescheduled_as_if_rotated_afresh_on_swiftshader)
{
    run_profile(HARNESS_SWIFTSHADER);
}
