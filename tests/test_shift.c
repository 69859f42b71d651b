/* ROTATE on keys that were rotated before: SHIFT moves them by a distance, RESCHEDULE turns them as
 * a longer context wants them. Both must give what rotating the raw keys afresh gives. */
#include "schedules.h"
#include "shapes.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { HEADS = 3 };
#define FRESH 2e-6 /* of keys of order 1 */

/* One tensor of keys; `rows` positions for each axis and batch entry. */
typedef struct keys {
    const char *name;
    const void *rotary;
    uint32_t batch, rows, head_dim;
    rhumb_dtype dtype;
    harness_tensor raw, got;
} keys;

static void make_keys(keys *k)
{
    harness_random r = {.state = 7 + k->head_dim};
    harness_make_tensor(&k->raw, k->dtype, k->batch, HEADS, k->rows, k->head_dim,
                        (harness_layout){0});
    harness_make_tensor(&k->got, k->dtype, k->batch, HEADS, k->rows, k->head_dim,
                        (harness_layout){0});
    for (uint64_t i = 0; i < k->raw.count; i++) {
        k->raw.values[i] = harness_uniform(&r, -1.0, 1.0);
    }
    harness_store(&k->raw);
}

static void free_keys(keys *k)
{
    harness_free_tensor(&k->raw);
    harness_free_tensor(&k->got);
}

/* How a pass over the keys is made. */
typedef struct pass {
    rhumb_purpose purpose;
    const int32_t *positions;  /* [axes, B, rows]; NULL: q_offset */
    uint32_t axes;             /* 0: 1 */
    int32_t q_offset;
    const int32_t *q_offsets;  /* LENGTHS, one a batch entry */
    uint32_t old_length, new_length;
    uint32_t inverse;
} pass;

static void add_integers(gpu_operation *op, harness_tensor *t, rhumb_view_id id, uint64_t h,
                         uint64_t l, uint64_t d, const int32_t *values)
{
    harness_make_tensor(t, RHUMB_I32, 1, h, l, d, (harness_layout){0});
    for (uint64_t i = 0; i < t->count; i++) {
        t->values[i] = values[i];
    }
    harness_store(t);
    (void)harness_add(op, id, t, false);
}

/* ROTATE from raw into got; every other purpose in place in got. */
static void run_pass(harness *h, keys *k, const pass *p)
{
    harness_tensor positions = {0}, lengths = {0};
    int32_t four[4 * 8];
    gpu_operation op;
    gpu_init_operation(&op, RHUMB_OP_ROTATE);
    op.info.rotary = k->rotary;
    op.info.purpose = p->purpose;
    op.info.heads = HEADS;
    op.info.head_dim = k->head_dim;
    op.info.max_q_length = k->rows;
    op.dispatch.inverse = p->inverse;
    op.dispatch.q_offset = p->q_offset;
    op.old_length = p->old_length;
    op.new_length = p->new_length;
    if (p->purpose == RHUMB_PURPOSE_ROTATE) {
        (void)harness_add(&op, RHUMB_VIEW_K, &k->raw, false);
        (void)harness_add(&op, RHUMB_VIEW_K_OUT, &k->got, true);
    } else {
        (void)harness_add(&op, RHUMB_VIEW_K, &k->got, true);
    }
    if (p->positions != NULL) {
        add_integers(&op, &positions, RHUMB_VIEW_POSITIONS_Q, p->axes != 0 ? p->axes : 1, k->batch,
                     k->rows, p->positions);
    }
    for (uint32_t i = 0; p->q_offsets != NULL && i < 4 * k->batch; i++) {
        four[i] = i % 4 == 2 ? p->q_offsets[i / 4] : RHUMB_UNSET;
    }
    if (p->q_offsets != NULL) {
        add_integers(&op, &lengths, RHUMB_VIEW_LENGTHS, 1, k->batch, 4, four);
    }
    h->cases++;
    if (harness_run(h, &op) != RHUMB_OK) {
        harness_fail(h, "%s: %s", k->name, op.message);
    }
    harness_load(&k->got);
    harness_free_tensor(&positions);
    harness_free_tensor(&lengths);
}

/* The raw keys rotated once at `positions` [axes, B, rows], and the bound of one rotation in f32;
 * the caller frees. */
static double *fresh(const keys *k, const int32_t *positions, uint32_t length, double *bound)
{
    const verify_rows rows = {.batch = k->batch, .heads = HEADS, .rows = k->rows,
                              .head_dim = k->head_dim, .positions = positions, .keys = true};
    double *want = harness_alloc(k->raw.count, sizeof *want);
    verify_rotary rotary;
    cr_assert(verify_read_rotary(k->rotary, k->head_dim, length, &rotary));
    cr_assert(verify_rotate(&rotary, &rows, k->raw.values, want));
    shape_rotate_bounds(&rotary, positions, true, &k->raw, RHUMB_F32, want, bound);
    return want;
}

/* The bar of keys in f32 that are of order 1. */
static void expect_close(harness *h, const keys *k, const int32_t *positions, uint32_t length)
{
    double *bound = harness_alloc(k->raw.count, sizeof *bound);
    double *want = fresh(k, positions, length, bound);
    double worst = 0.0;
    for (uint64_t i = 0; i < k->got.count; i++) {
        worst = fmax(worst, fabs(k->got.values[i] - want[i]));
    }
    if (k->dtype == RHUMB_F32 && !(worst <= FRESH)) {
        harness_fail(h, "%s: off by %.3g, bound %.3g", k->name, worst, FRESH);
    }
    free(want);
    free(bound);
}

/* got against keys rotated afresh. `passes` rotations lie behind it, each with the error of one;
 * 16-bit keys were rounded after each. */
static void expect_fresh(harness *h, keys *k, const int32_t *positions, uint32_t length,
                         uint32_t passes)
{
    double *bound = harness_alloc(k->raw.count, sizeof *bound);
    double *want = fresh(k, positions, length, bound);
    for (uint64_t i = 0; i < k->raw.count; i++) {
        /* no channel on the way is above: the bound is 1e-6 of what a pair holds */
        double largest = fabs(want[i]) + bound[i] * 1e6;
        if (bound[i] <= 0.0) {
            continue; /* copied */
        }
        bound[i] *= passes;
        /* a rounding is turned with its pair's: below twice one of them */
        bound[i] += harness_rounding(k->dtype, largest) * (2.0 * passes - 1.0);
    }
    (void)harness_compare(h, k->name, "against keys rotated afresh", &k->got, want, bound, NULL);
    free(want);
    free(bound);
}

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

/* Positions first + l, and what they are after `distance`. */
static void fill(int32_t *positions, uint32_t count, uint32_t rows, int32_t first, int32_t distance)
{
    for (uint32_t i = 0; i < count; i++) {
        positions[i] = first + distance + (int32_t)(i % rows);
    }
}

/* Rotated, shifted three times, against keys rotated once where they end. */
static void check_shifts(harness *h, const char *name, const void *rotary, uint32_t head_dim,
                         rhumb_dtype dtype)
{
    static const int32_t distances[3] = {7, -100, 41};
    keys k = {.name = name, .rotary = rotary, .batch = 2, .rows = 5, .head_dim = head_dim,
              .dtype = dtype};
    int32_t positions[2 * 5], moved = 0;
    make_keys(&k);
    fill(positions, 10, 5, 300, 0);
    run_pass(h, &k, &(pass){.purpose = RHUMB_PURPOSE_ROTATE, .q_offset = 300});
    expect_fresh(h, &k, positions, 0, 1);
    for (uint32_t i = 0; i < 3; i++) {
        moved += distances[i];
        run_pass(h, &k, &(pass){.purpose = RHUMB_PURPOSE_SHIFT, .q_offset = distances[i]});
        fill(positions, 10, 5, 300, moved);
        expect_fresh(h, &k, positions, 0, 2 + i);
    }
    free_keys(&k);
}

/* The length of a key, which a magnitude applied twice would change. */
static void check_magnitude(harness *h)
{
    rhumb_rope rope = yarn();
    keys k = {.name = "yarn: length of a key", .rotary = &rope, .batch = 1, .rows = 2,
              .head_dim = 64};
    const double m = 0.1 * log(4.0) + 1.0;
    make_keys(&k);
    run_pass(h, &k, &(pass){.purpose = RHUMB_PURPOSE_ROTATE, .q_offset = 5000});
    for (int32_t i = 0; i < 3; i++) {
        run_pass(h, &k, &(pass){.purpose = RHUMB_PURPOSE_SHIFT, .q_offset = -1000 * i});
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
    free_keys(&k);
}

/* A distance of each batch entry, and of each row; the ends of the range. */
static void check_distances(harness *h)
{
    static const int32_t each[3] = {-17, 0, 100000};
    static const int32_t rows[3 * 4] = {0, -1, 5, 2147483644, -2147483647, 3, 3, 3, 8, -8, 64, 1};
    int32_t positions[3 * 4];
    rhumb_rope rope = yarn();
    keys k = {.name = "distances", .rotary = &rope, .batch = 3, .rows = 4, .head_dim = 64};
    make_keys(&k);
    run_pass(h, &k, &(pass){.purpose = RHUMB_PURPOSE_ROTATE});
    run_pass(h, &k, &(pass){.purpose = RHUMB_PURPOSE_SHIFT, .q_offset = 5, .q_offsets = each});
    for (uint32_t i = 0; i < 12; i++) {
        positions[i] = (int32_t)(i % 4) + each[i / 4];
    }
    expect_fresh(h, &k, positions, 0, 2);
    run_pass(h, &k, &(pass){.purpose = RHUMB_PURPOSE_ROTATE});
    run_pass(h, &k, &(pass){.purpose = RHUMB_PURPOSE_SHIFT, .positions = rows});
    for (uint32_t i = 0; i < 12; i++) {
        positions[i] = (int32_t)(i % 4) + rows[i];
    }
    expect_fresh(h, &k, positions, 0, 2);
    run_pass(h, &k, &(pass){.purpose = RHUMB_PURPOSE_SHIFT, .positions = rows, .inverse = 1});
    fill(positions, 12, 4, 0, 0);
    expect_fresh(h, &k, positions, 0, 3);
    free_keys(&k);
}

static bool same(harness *h, const keys *a, const keys *b, const char *what)
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
    keys k = {.name = "mrope", .rotary = &mrope, .batch = 2, .rows = 3, .head_dim = 64};
    keys other = k, plain = k;
    rhumb_rope rope;
    rhumb_init_rope(&rope);
    plain.rotary = &rope;
    make_keys(&k);
    make_keys(&other);
    make_keys(&plain);
    for (int32_t i = 0; i < 18; i++) {
        places[i] = 10 + i * (i / 6 + 1);
        equal[i] = -9;
        unequal[i] = 5 - 4 * i;
        sums[i] = places[i] + unequal[i];
    }
    const pass there = {.purpose = RHUMB_PURPOSE_ROTATE, .positions = places, .axes = 3};
    run_pass(h, &k, &there);
    run_pass(h, &other, &there);
    memcpy(plain.got.memory, k.got.memory, k.got.bytes);
    run_pass(h, &k, &(pass){.purpose = RHUMB_PURPOSE_SHIFT, .positions = equal, .axes = 3});
    run_pass(h, &other, &(pass){.purpose = RHUMB_PURPOSE_SHIFT, .q_offset = -9});
    run_pass(h, &plain, &(pass){.purpose = RHUMB_PURPOSE_SHIFT, .q_offset = -9});
    (void)same(h, &k, &other, "mrope: one distance, and the same along each axis");
    (void)same(h, &k, &plain, "mrope: an equal shift and that of rope");
    run_pass(h, &k, &there);
    run_pass(h, &k, &(pass){.purpose = RHUMB_PURPOSE_SHIFT, .positions = unequal, .axes = 3});
    expect_fresh(h, &k, sums, 0, 2);
    free_keys(&k);
    free_keys(&other);
    free_keys(&plain);
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
    keys k = {.name = "rope2d", .rotary = &plane, .batch = 2, .rows = 3, .head_dim = 32};
    make_keys(&k);
    for (int32_t i = 0; i < 12; i++) {
        places[i] = i;
        distances[i] = 3 - 2 * i;
        sums[i] = places[i] + distances[i];
    }
    run_pass(h, &k, &(pass){.purpose = RHUMB_PURPOSE_ROTATE, .positions = places, .axes = 2});
    run_pass(h, &k, &(pass){.purpose = RHUMB_PURPOSE_SHIFT, .positions = distances, .axes = 2});
    expect_fresh(h, &k, sums, 0, 2);
    free_keys(&k);
}

/* A cache with another order of rows: shifted, and moved by SLOTS, in one pass. */
static void check_shift_into_another_cache(harness *h)
{
    static const int32_t to[4] = {2, -1, 0, 5}, distances[4] = {-3, -3, 8, 0};
    int32_t positions[4];
    harness_tensor moved, slots, by;
    rhumb_rope rope = yarn();
    gpu_operation op;
    keys k = {.name = "shift into another cache", .rotary = &rope, .batch = 1, .rows = 4,
              .head_dim = 64};
    make_keys(&k);
    run_pass(h, &k, &(pass){.purpose = RHUMB_PURPOSE_ROTATE, .q_offset = 20});
    harness_make_tensor(&moved, RHUMB_F32, 1, HEADS, 6, 64, (harness_layout){0});
    gpu_init_operation(&op, RHUMB_OP_ROTATE);
    op.info.rotary = &rope;
    op.info.purpose = RHUMB_PURPOSE_SHIFT;
    op.info.append = RHUMB_APPEND_SLOTS;
    op.info.heads = HEADS;
    op.info.head_dim = 64;
    op.info.max_q_length = 4;
    (void)harness_add(&op, RHUMB_VIEW_K, &k.got, false);
    (void)harness_add(&op, RHUMB_VIEW_K_OUT, &moved, true);
    add_integers(&op, &slots, RHUMB_VIEW_SLOTS, 1, 1, 4, to);
    add_integers(&op, &by, RHUMB_VIEW_POSITIONS_Q, 1, 1, 4, distances);
    h->cases++;
    if (harness_run(h, &op) != RHUMB_OK) {
        harness_fail(h, "%s: %s", k.name, op.message);
    }
    harness_load(&moved);
    for (uint32_t i = 0; i < 4; i++) {
        positions[i] = 20 + (int32_t)i + (to[i] < 0 ? 0 : distances[i]);
        for (uint32_t n = 0; to[i] >= 0 && n < HEADS * 64; n++) {
            k.got.values[harness_index(&k.got, 0, n / 64, i, n % 64)] =
                moved.values[harness_index(&moved, 0, n / 64, (uint64_t)to[i], n % 64)];
        }
    }
    expect_fresh(h, &k, positions, 0, 2);
    harness_free_tensor(&moved);
    harness_free_tensor(&slots);
    harness_free_tensor(&by);
    free_keys(&k);
}

static void check_all_shifts(harness *h)
{
    static const rhumb_dtype dtypes[] = {RHUMB_F32, RHUMB_F16, RHUMB_BF16};
    static const char *const pairings[] = {"yarn interleaved", "yarn half",
                                           "yarn read interleaved, cached half"};
    rhumb_rope rope = yarn();
    rhumb_xpos xpos;
    for (uint32_t i = 0; i < 9; i++) {
        rope.pairing = (rhumb_pairing)(i % 3);
        check_shifts(h, pairings[i % 3], &rope, 64, dtypes[i / 3]);
    }
    rope.pairing = RHUMB_PAIRING_HALF;
    rope.rotary_dim = 22;
    rope.rotary_offset = 5;
    check_shifts(h, "yarn, partial window", &rope, 31, RHUMB_F32);
    rhumb_init_xpos(&xpos);
    xpos.scale_base = 256.0;
    xpos.centre = 290;
    check_shifts(h, "xpos", &xpos, 32, RHUMB_F32);
    check_shifts(h, "xpos", &xpos, 32, RHUMB_F16);
    check_magnitude(h);
    check_distances(h);
    check_mrope(h);
    check_phases(h);
    check_shift_into_another_cache(h);
}

/* ---- RESCHEDULE ---- */

static void check_reschedule(harness *h, const char *name, const void *rotary, rhumb_dtype dtype,
                             uint32_t old_length, uint32_t new_length)
{
    int32_t positions[2 * 5];
    keys k = {.name = name, .rotary = rotary, .batch = 2, .rows = 5, .head_dim = 64,
              .dtype = dtype};
    make_keys(&k);
    fill(positions, 10, 5, (int32_t)old_length - 5, 0);
    positions[0] = 0;
    run_pass(h, &k, &(pass){.purpose = RHUMB_PURPOSE_ROTATE, .positions = positions,
                            .new_length = old_length});
    run_pass(h, &k, &(pass){.purpose = RHUMB_PURPOSE_RESCHEDULE, .positions = positions,
                            .old_length = old_length, .new_length = new_length});
    expect_fresh(h, &k, positions, new_length, 2);
    expect_close(h, &k, positions, new_length);
    run_pass(h, &k, &(pass){.purpose = RHUMB_PURPOSE_RESCHEDULE, .positions = positions,
                            .old_length = old_length, .new_length = new_length, .inverse = 1});
    expect_fresh(h, &k, positions, old_length, 3);
    free_keys(&k);
}

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
        check_reschedule(h, "dynamic NTK", &ntk, dtypes[i], 2048, 5000);
        check_reschedule(h, "LongRoPE, short to long", &longrope, dtypes[i], 4096, 4097);
    }
    check_reschedule(h, "dynamic NTK, twice stale", &ntk, RHUMB_F32, 5000, 131072);
    check_reschedule(h, "dynamic NTK, back", &ntk, RHUMB_F32, 5000, 100);
    check_reschedule(h, "dynamic linear", &linear, RHUMB_F32, 3000, 9000);
    check_reschedule(h, "LongRoPE, long to short", &longrope, RHUMB_F32, 9000, 4096);
    check_reschedule(h, "LongRoPE, long to long", &longrope, RHUMB_F32, 5000, 9000);
    longrope.pairing = RHUMB_PAIRING_INTERLEAVED_TO_HALF;
    check_reschedule(h, "LongRoPE, cached half", &longrope, RHUMB_F32, 4096, 4097);
    rhumb_mrope mrope;
    rhumb_init_mrope(&mrope);
    memcpy(mrope.sections, sections, sizeof sections);
    mrope.rope = &ntk;
    keys k = {.name = "mrope, dynamic NTK", .rotary = &mrope, .batch = 1, .rows = 3,
              .head_dim = 64};
    static const int32_t places[3 * 3] = {5, 5, 5, 6, 7, 9, 1000, 1001, 2047};
    make_keys(&k);
    run_pass(h, &k, &(pass){.purpose = RHUMB_PURPOSE_ROTATE, .positions = places, .axes = 3,
                            .new_length = 2048});
    run_pass(h, &k, &(pass){.purpose = RHUMB_PURPOSE_RESCHEDULE, .positions = places, .axes = 3,
                            .old_length = 2048, .new_length = 4000});
    expect_fresh(h, &k, places, 4000, 2);
    free_keys(&k);
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
    info.heads = HEADS;
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
    keys k = {.name = "stale cache", .rotary = &rope, .batch = 1, .rows = CACHED, .head_dim = 8};
    int32_t *positions = harness_alloc(CACHED, sizeof *positions);
    fill(positions, CACHED, CACHED, 0, 0);
    make_keys(&k);
    if (ask_stale(h, &rope, 10, CACHED) != 0 || ask_stale(h, &rope, CACHED, CACHED + 1) != 1) {
        harness_fail(h, "%s: wanted stale from 4096 to 4097 only", k.name);
    }
    run_pass(h, &k, &(pass){.purpose = RHUMB_PURPOSE_ROTATE, .new_length = CACHED});
    expect_close(h, &k, positions, CACHED);
    run_pass(h, &k, &(pass){.purpose = RHUMB_PURPOSE_RESCHEDULE, .old_length = CACHED,
                            .new_length = CACHED + 1});
    expect_close(h, &k, positions, CACHED + 1);
    free(positions);
    free_keys(&k);
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
