/* Plans whose frequencies follow the length: the constants block, stale keys, and what a device
 * makes of them. All but the last test need no device: the plans are filled in by hand. */
#include "harness.h"

#include "reference.h"
#include "schedules.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define COUNT(array) (sizeof(array) / sizeof(array)[0])
#define PI 3.14159265358979323846

/* ---- plans: the constants block and stale keys, without a device ---- */

static void fake_plan(rhumb_plan *plan, const rhumb_rope *rope, uint32_t head_dim)
{
    memset(plan, 0, sizeof *plan);
    plan->resolved.info.head_dim = head_dim;
    plan->resolved.has_rotary = true;
    cr_assert_eq(rhumb_resolve_rotary(NULL, rope, head_dim, &plan->resolved.rotary), RHUMB_OK, "%s",
                 rhumb_last_message(NULL));
}

static struct rhumb_constants_block constants_of(const rhumb_plan *plan, uint32_t old_length,
                                                 uint32_t new_length)
{
    struct rhumb_constants_block block;
    memset(&block, 0xff, sizeof block);
    cr_assert_eq(rhumb_write_constants(plan, old_length, new_length, &block, sizeof block),
                 RHUMB_OK);
    return block;
}

static uint64_t turns_of(const struct rhumb_constants_block *block, uint32_t list, uint32_t pair)
{
    const uint32_t *w = &block->turns[list * TURNS_PER_LIST + pair / 2][pair % 2 * 2];
    return (uint64_t)(w[1] - (w[0] >> 31)) << 32 | w[0]; /* low has a sign */
}

Test(schedules, constants_hold_turns_of_64_bits)
{
    static rhumb_plan plan;
    const double list[] = {PI / 2, -PI / 2, 1, -1, 0, 1e-30, -6.28, 6.28};
    rhumb_rope rope;
    rhumb_init_rope(&rope);
    rope.scaling = EXPLICIT;
    rope.frequencies = list;
    rope.list_count = COUNT(list);
    fake_plan(&plan, &rope, 2 * COUNT(list));
    struct rhumb_constants_block block = constants_of(&plan, 0, 0);
    /* The double next to pi/2 is 6.1e-17 below it: 180 of 2^64. */
    cr_expect(llabs((long long)(turns_of(&block, 0, 0) - 0x4000000000000000u)) < 256);
    for (uint32_t i = 0; i < 4; i += 2)
        cr_expect_eq(turns_of(&block, 0, i) + turns_of(&block, 0, i + 1), 0, "pair %u", i);
    cr_expect_eq(turns_of(&block, 0, 6) + turns_of(&block, 0, 7), 0);
    /* 2^64 / 2 pi = 2935890503282001226.4962; one unit for the rounding of 2 pi. */
    uint64_t one = turns_of(&block, 0, 2);
    cr_expect(one - 2935890503282001225u <= 2, "got %llu", (unsigned long long)one);
    cr_expect_eq(turns_of(&block, 0, 4), 0);
    cr_expect_eq(turns_of(&block, 0, 5), 0);
    cr_expect_eq(block.turns_first, 0);
}

static void expect_turns(const struct rhumb_constants_block *block, uint32_t list,
                         const schedule_result *r)
{
    for (uint32_t i = 0; i < r->count; i++) {
        double want = r->f[i] / (2 * PI) * 18446744073709551616.0;
        double got = (double)turns_of(block, list, i);
        /* Half a unit of the word, and the rounding of these doubles. */
        cr_expect(fabs(got - want) <= 0.5 + 1e-15 * want, "list %u, pair %u: got %.0f, want %.1f",
                  list, i, got, want);
    }
}

Test(schedules, constants_follow_the_new_length)
{
    static rhumb_plan plan;
    static const rhumb_rope_scaling kinds[] = {NTK_DYNAMIC, LINEAR_DYNAMIC};
    static const uint32_t lengths[] = {0, 2048, 2049, 100000};
    for (size_t k = 0; k < COUNT(kinds); k++) {
        const schedule s = {kinds[k], 64, .factor = 4, .max_length = 2048};
        rhumb_rope rope = schedule_rope(&s);
        fake_plan(&plan, &rope, 64);
        for (size_t n = 0; n < COUNT(lengths); n++) {
            struct rhumb_constants_block block = constants_of(&plan, 7000, lengths[n]);
            schedule_result r = schedule_compute(&s, lengths[n]);
            cr_expect_eq(block.turns_first, 0);
            expect_turns(&block, 0, &r);
        }
    }
}

Test(schedules, constants_of_longrope_hold_both_lists_and_the_choice)
{
    static rhumb_plan plan;
    rhumb_rope rope = schedule_longrope();
    schedule_result shorts = schedule_frequencies(&rope, 8, 4096);
    schedule_result longs = schedule_frequencies(&rope, 8, 4097);
    fake_plan(&plan, &rope, 8);
    struct rhumb_constants_block a = constants_of(&plan, 0, 4096), b = constants_of(&plan, 0, 4097);
    cr_expect_eq(a.turns_first, 0);
    cr_expect_eq(b.turns_first, TURNS_PER_LIST);
    cr_expect_eq(memcmp(a.turns, b.turns, sizeof a.turns), 0);
    expect_turns(&a, 0, &shorts);
    expect_turns(&a, 1, &longs);
    cr_expect_eq(a.magnitude, (float)1.1902380714238083);
}

/* The longest lists fill both halves to the end. */
Test(schedules, constants_of_the_widest_head)
{
    static rhumb_plan plan;
    static double list[RHUMB_MAX_PAIRS];
    rhumb_rope rope = schedule_longrope();
    for (uint32_t i = 0; i < RHUMB_MAX_PAIRS; i++)
        list[i] = 1 + i;
    rope.short_factors = rope.long_factors = list;
    rope.list_count = RHUMB_MAX_PAIRS;
    fake_plan(&plan, &rope, RHUMB_MAX_HEAD_DIM);
    struct rhumb_constants_block block = constants_of(&plan, 0, 0);
    schedule_result r = schedule_frequencies(&rope, RHUMB_MAX_HEAD_DIM, 0);
    cr_expect_eq(r.count, RHUMB_MAX_PAIRS);
    expect_turns(&block, 0, &r);
    expect_turns(&block, 1, &r);
}

Test(schedules, lists_are_not_looked_at_after_the_plan)
{
    static rhumb_plan plan;
    double shorts[] = {1, 1, 1, 1}, longs[] = {2, 2, 2, 2}, divisors[] = {1, 1, 1, 1};
    rhumb_rope rope = schedule_longrope();
    rope.short_factors = shorts;
    rope.long_factors = longs;
    rope.divisors = divisors;
    fake_plan(&plan, &rope, 8);
    struct rhumb_constants_block before = constants_of(&plan, 0, 5000);
    for (uint32_t i = 0; i < 4; i++)
        shorts[i] = longs[i] = divisors[i] = NAN;
    struct rhumb_constants_block after = constants_of(&plan, 0, 5000);
    cr_expect_eq(memcmp(&before, &after, sizeof before), 0);
}

typedef struct stale_row {
    uint32_t old_length, new_length, want;
} stale_row;

static void check_stale(const char *name, const rhumb_rope *rope, const stale_row *rows,
                        size_t count)
{
    static rhumb_plan plan;
    fake_plan(&plan, rope, 8);
    for (size_t i = 0; i < count; i++) {
        for (uint32_t swapped = 0; swapped < 2; swapped++) {
            uint32_t a = swapped ? rows[i].new_length : rows[i].old_length;
            uint32_t b = swapped ? rows[i].old_length : rows[i].new_length;
            uint32_t stale = 77;
            cr_expect_eq(rhumb_keys_stale(&plan, a, b, &stale), RHUMB_OK);
            cr_expect_eq(stale, rows[i].want, "%s: %u to %u: got %u", name, a, b, stale);
        }
    }
}

Test(schedules, keys_are_stale_where_frequencies_changed)
{
    static const stale_row across_4096[] = {
        {0, 4096, 0},    {1, 10, 0},          {10, 4096, 0},         {4096, 4097, 1},
        {10, 131072, 1}, {4097, 4097, 0},     {0, UINT32_MAX, 1},
    };
    static const stale_row within_long[] = {{4097, 131072, 0}, {5000, UINT32_MAX, 0}};
    static const stale_row beyond_changes[] = {
        {4097, 4098, 1}, {5000, 131072, 1}, {UINT32_MAX - 1, UINT32_MAX, 1}};
    static const rhumb_rope_scaling fixed[] = {NONE,   LINEAR, NTK,         NTK_BY_PARTS,
                                               YARN,   LLAMA3, PROPORTIONAL};
    rhumb_rope rope = schedule_longrope();
    check_stale("longrope", &rope, across_4096, COUNT(across_4096));
    check_stale("longrope", &rope, within_long, COUNT(within_long));
    rope.max_length = 4096;
    rope.factor = 2;
    rope.scaling = NTK_DYNAMIC;
    check_stale("dynamic", &rope, across_4096, COUNT(across_4096));
    check_stale("dynamic", &rope, beyond_changes, COUNT(beyond_changes));
    rope.scaling = LINEAR_DYNAMIC;
    check_stale("linear dynamic", &rope, across_4096, COUNT(across_4096));
    check_stale("linear dynamic", &rope, beyond_changes, COUNT(beyond_changes));
    for (size_t k = 0; k < COUNT(fixed); k++) {
        static const stale_row never[] = {{0, UINT32_MAX, 0}, {4096, 4097, 0}};
        rope.scaling = fixed[k];
        check_stale("fixed", &rope, never, COUNT(never));
    }
}

Test(schedules, keys_stale_of_equal_lists_of_no_rotation_and_of_null)
{
    static const stale_row never[] = {{0, UINT32_MAX, 0}};
    static rhumb_plan plan;
    rhumb_rope rope = schedule_longrope();
    uint32_t stale = 77;
    rope.long_factors = rope.short_factors;
    check_stale("equal lists", &rope, never, COUNT(never));
    memset(&plan, 0, sizeof plan);
    cr_expect_eq(rhumb_keys_stale(&plan, 0, 5000, &stale), RHUMB_OK);
    cr_expect_eq(stale, 0);
    cr_expect_eq(rhumb_keys_stale(&plan, 0, 5000, NULL), RHUMB_ERROR_ARGUMENT);
    stale = 77;
    cr_expect_eq(rhumb_keys_stale(NULL, 0, 5000, &stale), RHUMB_ERROR_ARGUMENT);
    cr_expect_eq(stale, 77);
    cr_expect_not_null(strstr(rhumb_last_message(NULL), "keys_stale: wanted a plan"));
    cr_expect_eq(rhumb_get_api(RHUMB_VERSION_MAJOR)->keys_stale, rhumb_keys_stale);
}

/* ---- plans, by query_plan with the limits of the smallest device ---- */

static rhumb_context smallest; /* for rhumb_last_message */

static rhumb_result query(rhumb_op op, const rhumb_rope *rope, uint32_t views)
{
    rhumb_plan_info info;
    rhumb_plan_properties properties;
    rhumb_init_limits(&smallest.limits);
    smallest.limits.max_invocations = 128;
    smallest.limits.max_shared_bytes = 16384;
    smallest.limits.max_storage_buffers = 4;
    rhumb_init_plan_info(&info, op);
    rhumb_init_plan_properties(&properties);
    info.rotary = rope;
    info.heads = 2;
    info.head_dim = 64;
    info.max_q_length = 8;
    info.views = views;
    return rhumb_query_plan(&smallest, &info, &properties);
}

#define VIEWS2(a, b) (RHUMB_VIEW_BIT(RHUMB_VIEW_##a) | RHUMB_VIEW_BIT(RHUMB_VIEW_##b))

Test(schedules, interleaved_to_half_wants_a_place_of_its_own)
{
    rhumb_rope rope;
    rhumb_init_rope(&rope);
    rope.pairing = RHUMB_PAIRING_INTERLEAVED_TO_HALF;
    cr_expect_eq(query(RHUMB_OP_ROTATE, &rope, VIEWS2(Q, Q_OUT)), RHUMB_OK);
    cr_expect_eq(query(RHUMB_OP_ROTATE, &rope, VIEWS2(K, K_OUT)), RHUMB_OK);
    cr_expect_eq(query(RHUMB_OP_ROTATE, &rope, VIEWS2(Q, Q_OUT) | VIEWS2(K, K_OUT)), RHUMB_OK);
    cr_expect_eq(query(RHUMB_OP_ROTATE, &rope, VIEWS2(Q, Q_OUT) | VIEWS2(K, K)),
                 RHUMB_ERROR_ARGUMENT);
    const char *line = rhumb_last_message(&smallest);
    cr_expect_not_null(strstr(line, "wanted K_OUT beside K"), "%s", line);
    cr_expect_eq(query(RHUMB_OP_ROTATE, &rope, VIEWS2(Q, Q)), RHUMB_ERROR_ARGUMENT);
    cr_expect_not_null(strstr(line, "wanted Q_OUT beside Q"), "%s", line);
    cr_expect_eq(query(RHUMB_OP_ATTENTION, &rope, VIEWS2(Q, K) | VIEWS2(V, O)),
                 RHUMB_ERROR_UNSUPPORTED);
    cr_expect_not_null(strstr(line, "INTERLEAVED_TO_HALF"), "%s", line);
    rope.pairing = RHUMB_PAIRING_INTERLEAVED;
    cr_expect_eq(query(RHUMB_OP_ATTENTION, &rope, VIEWS2(Q, K) | VIEWS2(V, O)), RHUMB_OK, "%s",
                 rhumb_last_message(&smallest));
}

/* ---- on a device: the list that the shader reads ---- */

enum { ROWS = 3, HEADS = 2, WIDTH = 16 };

static void rotate_on(harness *h, const char *name, const rhumb_rope *rope, uint32_t length)
{
    harness_random random = {.state = 5};
    harness_tensor x, y;
    gpu_operation op;
    schedule_result r = schedule_frequencies(rope, WIDTH, length);
    double want[HEADS * ROWS * WIDTH], bound[HEADS * ROWS * WIDTH];
    int32_t positions[ROWS];
    ref_rope reference;

    ref_rope_init(&reference, WIDTH);
    reference.inv_freq = r.f;
    reference.magnitude = r.magnitude;
    harness_make_tensor(&x, RHUMB_F32, 1, HEADS, ROWS, WIDTH, (harness_layout){0});
    harness_make_tensor(&y, RHUMB_F32, 1, HEADS, ROWS, WIDTH, (harness_layout){0});
    harness_fill_normal(&x, &random);
    gpu_init_operation(&op, RHUMB_OP_ROTATE);
    op.info.rotary = rope;
    op.info.heads = HEADS;
    op.info.head_dim = WIDTH;
    op.info.max_q_length = ROWS;
    op.new_length = length;
    op.dispatch.q_offset = 12345;
    (void)harness_add(&op, RHUMB_VIEW_Q, &x, false);
    (void)harness_add(&op, RHUMB_VIEW_Q_OUT, &y, true);
    ref_arange(1, ROWS, op.dispatch.q_offset, positions);
    cr_assert_eq(ref_rotate(&reference, 1, HEADS, ROWS, WIDTH, positions, 0, x.values, want), 0);
    /* 1e-6 for each channel of a pair, which is below 6 (harness_normal). */
    for (size_t i = 0; i < COUNT(bound); i++)
        bound[i] = 1.2e-5 * r.magnitude;
    cr_assert_eq(harness_run(h, &op), RHUMB_OK, "%s: %s", name, op.message);
    harness_load(&y);
    h->cases++;
    harness_compare(h, "rotate", name, &y, want, bound, NULL);
    harness_free_tensor(&x);
    harness_free_tensor(&y);
}

Test(schedules, a_device_turns_by_the_list_of_the_length)
{
    static const double explicit_list[] = {1, -0.5, 0, 6.28, -6.28, 1e-6, 3, -3};
    static const double shorts[] = {1, 1, 1, 1, 1, 1, 1, 1};
    static const double longs[] = {1.5, 2, 3, 4, 5, 6, 7, 8};
    static harness h;
    harness_open(&h, HARNESS_LAVAPIPE);
    rhumb_rope rope = schedule_longrope();
    rope.short_factors = shorts;
    rope.long_factors = longs;
    rope.list_count = WIDTH / 2;
    rotate_on(&h, "longrope at 4096", &rope, 4096);
    rotate_on(&h, "longrope at 4097", &rope, 4097);
    rope.scaling = NTK_DYNAMIC;
    rope.max_length = 2048;
    rope.factor = 4;
    rotate_on(&h, "dynamic at 12348", &rope, 12348);
    rope.scaling = EXPLICIT;
    rope.frequencies = explicit_list;
    rotate_on(&h, "explicit, both signs", &rope, 0);
    harness_close(&h);
}
