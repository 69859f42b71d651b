/* ROTATE into a key-value cache: which rows are written, with what, and that nothing else is. */
#include "shapes_append.h"

#include <criterion/criterion.h>
#include <string.h>

#define HALF .pairing = RHUMB_PAIRING_HALF
#define INTERLEAVED .pairing = RHUMB_PAIRING_INTERLEAVED
#define TO_HALF .pairing = RHUMB_PAIRING_INTERLEAVED_TO_HALF
#define POSITION .append = RHUMB_APPEND_POSITION
#define RING .append = RHUMB_APPEND_RING
#define SLOTS .append = RHUMB_APPEND_SLOTS
#define F16 RHUMB_F16
#define BF16 RHUMB_BF16
#define ALL(d) .q = (d), .k = (d), .v = (d), .cache = (d), .v_cache = (d)
#define ODD {.row_pad = 5, .offset = 3}
#define ROWS_ODD {.by_rows = true, .row_pad = 3, .offset = 1}
#define NOT_GIVEN RHUMB_UNSET

/* ---- rows ---- */

static const void *xpos_here(void)
{
    static rhumb_xpos s;
    rhumb_init_xpos(&s);
    s.scale_base = 64.0;
    s.centre = 40;
    return &s;
}

static const void *mrope_here(void)
{
    static rhumb_mrope s;
    static const uint32_t sections[4] = {8, 12, 12, 0};
    rhumb_init_mrope(&s);
    memcpy(s.sections, sections, sizeof sections);
    return &s;
}

/* Field test 5: padding on the left, and ids that jump and repeat. */
static const int32_t padded[2 * 5] = {0, 0, 0, 1, 2, 0, 1, 1, 100, 101};
static const int32_t three_axes[3 * 3] = {5, 5, 5, 5, 6, 7, 5, 9, 11};
static const int32_t grown[2][4] = {{NOT_GIVEN, 3, 7, NOT_GIVEN}, {NOT_GIVEN, 1, 90, 2}};
/* entry 0 ends two rows beyond the cache of 9, entry 1 begins before it, entry 2 is far beyond */
static const int32_t beyond[3][4] = {{NOT_GIVEN, 4, 7, NOT_GIVEN},
                                     {NOT_GIVEN, 4, 0, -2},
                                     {NOT_GIVEN, 2, 0, INT32_MAX}};
static const int32_t ring_lengths[3][4] = {{NOT_GIVEN, 4, 7, NOT_GIVEN},
                                           {NOT_GIVEN, 4, 0, -2},
                                           {NOT_GIVEN, 2, 0, INT32_MAX}};
static const int32_t no_rows[1][4] = {{NOT_GIVEN, 0, NOT_GIVEN, 4}};
/* -1 skips without a word; the capacity, the largest and other negative numbers are counted */
static const int32_t slots[10] = {6, -1, 0, 10, 3, 2, INT32_MAX, -1, INT32_MIN, 9};
static const int32_t slots_for_all[5] = {8, 3, -1, 1, 0};
static const int32_t slots_of_padded_rows[2][4] = {{NOT_GIVEN, 2, 4, NOT_GIVEN},
                                                   {NOT_GIVEN, 5, 0, NOT_GIVEN}};

static const append_shape table[] = {
    {"a prompt behind five rows, Q in place", POSITION, HALF, .batch = 2, .heads = 6,
     .kv_heads = 2, .rows = 4, .capacity = 11, .head_dim = 64, .value_dim = 64,
     .append_given = true, .append_position = 5, .offset_given = true, .q_offset = 100},
    {"the last rows of the cache", POSITION, INTERLEAVED, .heads = 3, .kv_heads = 3, .rows = 4,
     .capacity = 11, .head_dim = 64, .value_dim = 32, .append_given = true, .append_position = 7,
     .q_apart = true},
    {"rows by q_offset", POSITION, HALF, .heads = 5, .kv_heads = 5, .rows = 3, .capacity = 8,
     .head_dim = 32, .value_dim = 32, .offset_given = true, .q_offset = 4},
    {"rows from 0 on where nothing is said", POSITION, HALF, .kv_heads = 5, .rows = 3,
     .capacity = 8, .head_dim = 32, .value_dim = 32},
    {"fewer rows than the views have", POSITION, HALF, .batch = 2, .heads = 2, .kv_heads = 2,
     .rows = 6, .capacity = 6, .head_dim = 32, .value_dim = 32, .q_length = 2,
     .append_given = true, .append_position = 4},
    {"keys without values", POSITION, INTERLEAVED, .heads = 4, .kv_heads = 1, .rows = 2,
     .capacity = 5, .head_dim = 16, .append_given = true, .append_position = 3},
    {"f16", POSITION, HALF, .batch = 2, .heads = 6, .kv_heads = 2, .rows = 4, .capacity = 9,
     .head_dim = 64, .value_dim = 64, ALL(F16), .append_given = true, .append_position = 5},
    {"bf16", POSITION, INTERLEAVED, .batch = 2, .heads = 6, .kv_heads = 2, .rows = 4,
     .capacity = 9, .head_dim = 64, .value_dim = 64, ALL(BF16), .append_given = true,
     .append_position = 5},
    {"f32 into f16 and bf16", POSITION, HALF, .heads = 2, .kv_heads = 2, .rows = 4, .capacity = 9,
     .head_dim = 24, .rotary_dim = 16, .value_dim = 20, .cache = F16, .v_cache = BF16,
     .append_given = true, .append_position = 2},
    {"f16 into f32, bf16 into f16", POSITION, HALF, .heads = 2, .kv_heads = 2, .rows = 4,
     .capacity = 9, .head_dim = 24, .rotary_dim = 16, .value_dim = 20, .q = BF16, .k = F16,
     .v = BF16, .v_cache = F16, .append_given = true, .append_position = 2},
    {"f16 rows that share words", POSITION, HALF, .batch = 2, .heads = 3, .kv_heads = 3, .rows = 5,
     .capacity = 9, .head_dim = 7, .rotary_dim = 6, .value_dim = 5, ALL(F16),
     .append_given = true, .append_position = 3},
    {"bf16 rows at odd places", POSITION, INTERLEAVED, .batch = 2, .heads = 3, .kv_heads = 3,
     .rows = 5, .capacity = 9, .head_dim = 31, .rotary_dim = 24, .rotary_offset = 3,
     .value_dim = 33, ALL(BF16), .layout = ODD, .cache_layout = ROWS_ODD, .append_given = true,
     .append_position = 1},
    {"f32 rows at odd places", POSITION, HALF, .batch = 2, .heads = 3, .kv_heads = 3, .rows = 5,
     .capacity = 9, .head_dim = 64, .value_dim = 64, .layout = ROWS_ODD, .cache_layout = ODD,
     .append_given = true, .append_position = 1},
    {"a partial window, its tail copied", POSITION, HALF, .heads = 4, .kv_heads = 2, .rows = 3,
     .capacity = 6, .head_dim = 80, .rotary_dim = 32, .rotary_offset = 16, .value_dim = 80,
     .append_given = true, .append_position = 2},
    {"a row of one number", POSITION, HALF, .kv_heads = 2, .rows = 3, .capacity = 4, .head_dim = 2,
     .value_dim = 1, ALL(F16), .append_given = true, .append_position = 1},
    {"read interleaved, cached half", POSITION, TO_HALF, .heads = 2, .kv_heads = 2, .rows = 3,
     .capacity = 6, .head_dim = 192, .rotary_dim = 64, .rotary_offset = 128, .value_dim = 128,
     .q_apart = true, .append_given = true, .append_position = 2},
    {"xpos shrinks keys and lets queries grow", POSITION, .scheme = xpos_here, .heads = 2,
     .kv_heads = 2, .rows = 3, .capacity = 6, .head_dim = 32, .value_dim = 32,
     .append_given = true, .append_position = 2, .offset_given = true, .q_offset = 30},
    {"mrope by positions of three axes", POSITION, .scheme = mrope_here, .heads = 2, .kv_heads = 2,
     .rows = 3, .capacity = 6, .head_dim = 64, .value_dim = 64, .positions = three_axes,
     .append_given = true, .append_position = 3},
    {"padded on the left, and ids that jump", POSITION, HALF, .batch = 2, .heads = 4, .kv_heads = 2,
     .rows = 5, .capacity = 6, .head_dim = 64, .value_dim = 64, .positions = padded,
     .append_given = true, .append_position = 1},
    {"positions from the end of an int on", POSITION, INTERLEAVED, .heads = 2, .kv_heads = 2,
     .rows = 2, .capacity = 6, .head_dim = 64, .value_dim = 64, .append_given = true,
     .append_position = 1, .offset_given = true, .q_offset = 2147483640},
    {"a ring goes round", RING, HALF, .batch = 2, .heads = 4, .kv_heads = 2, .rows = 5,
     .capacity = 7, .head_dim = 32, .value_dim = 32, .append_given = true,
     .append_position = 1000003},
    {"a ring takes as many rows as it has", RING, INTERLEAVED, .heads = 4, .kv_heads = 2, .rows = 5,
     .capacity = 5, .head_dim = 32, .value_dim = 32, ALL(F16), .offset_given = true,
     .q_offset = 2147483640},
    {"slots of each batch entry", SLOTS, HALF, .batch = 2, .heads = 4, .kv_heads = 2, .rows = 5,
     .capacity = 10, .head_dim = 32, .value_dim = 24, .slots = slots, .skipped = 3},
    {"slots of bf16 rows that share words", SLOTS, HALF, .batch = 2, .heads = 3, .kv_heads = 3,
     .rows = 5, .capacity = 10, .head_dim = 9, .rotary_dim = 6, .value_dim = 3, ALL(BF16),
     .slots = slots, .skipped = 3},
    {"slots that all entries share", SLOTS, INTERLEAVED, .batch = 2, .kv_heads = 2, .rows = 5,
     .capacity = 9, .head_dim = 32, .value_dim = 32, .slots = slots_for_all,
     .slots_shared = true, .offset_given = true, .q_offset = 77},
    {"slots of rows beyond q_length are not looked at", SLOTS, HALF, .batch = 2, .heads = 2,
     .kv_heads = 2, .rows = 5, .capacity = 10, .head_dim = 32, .value_dim = 32, .slots = slots,
     .lengths = slots_of_padded_rows, .skipped = 2},
    {"LENGTHS say where", POSITION, HALF, .batch = 2, .heads = 4, .kv_heads = 2, .rows = 4,
     .capacity = 10, .head_dim = 32, .value_dim = 32, .lengths = grown},
    {"LENGTHS say no rows", POSITION, HALF, .heads = 2, .kv_heads = 2, .rows = 4, .capacity = 10,
     .head_dim = 32, .value_dim = 32, .lengths = no_rows},
    {"LENGTHS beyond the cache are skipped and counted", POSITION, HALF, .batch = 3, .heads = 4,
     .kv_heads = 2, .rows = 4, .capacity = 9, .head_dim = 32, .value_dim = 32, .lengths = beyond,
     .skipped = 2 + 2 + 2},
    {"a negative place in a ring is skipped and counted", RING, HALF, .batch = 3, .heads = 4,
     .kv_heads = 2, .rows = 4, .capacity = 9, .head_dim = 32, .value_dim = 32,
     .lengths = ring_lengths, .skipped = 4},
    /* latent attention: DeepSeek-V3 has 128 + 64 channels of Q and K and 128 of V */
    {"one rope key for all heads", POSITION, INTERLEAVED, .heads = 8, .kv_heads = 8, .rows = 3,
     .capacity = 5, .head_dim = 64, .k_broadcast = true, .append_given = true,
     .append_position = 1, .offset_given = true, .q_offset = 4095},
    {"a cache of one rope key a token", POSITION, TO_HALF, .batch = 2, .kv_heads = 1, .rows = 3,
     .capacity = 5, .head_dim = 64, ALL(BF16), .append_given = true, .append_position = 1,
     .offset_given = true, .q_offset = 4095},
    {"the rope part of each query and key, 128 wide values", POSITION, INTERLEAVED, .heads = 8,
     .kv_heads = 8, .rows = 3, .capacity = 5, .head_dim = 192, .rotary_dim = 64,
     .rotary_offset = 128, .value_dim = 128, .append_given = true, .append_position = 1},
};

/* Field test 1: a fault is often one of one path. Every pairing, whole and partial windows, every
 * dtype. */
static void check_crossings(harness *h)
{
    for (uint32_t i = 0; i < 18; i++) {
        const rhumb_dtype d = (rhumb_dtype)(i / 6);
        append_shape s = {"crossing", POSITION, .batch = 2, .heads = 6, .kv_heads = 2, .rows = 3,
                          .capacity = 7, .head_dim = 64, .value_dim = 64, ALL(d),
                          .append_given = true, .append_position = 3, .offset_given = true,
                          .q_offset = 7};
        s.pairing = (rhumb_pairing)(i % 3);
        s.q_apart = s.pairing == RHUMB_PAIRING_INTERLEAVED_TO_HALF;
        s.rotary_dim = i / 3 % 2 == 0 ? 0 : 24;
        s.rotary_offset = i / 3 % 2 == 0 ? 0 : 8;
        (void)shape_run_append(h, &s);
    }
}

static void run_profile(harness_profile profile)
{
    harness h;
    harness_open(&h, profile);
    SHAPE_RUN_ALL(&h, shape_run_append, table);
    check_crossings(&h);
    harness_close(&h);
}

Test(append, cache_takes_each_row_where_it_belongs_and_nothing_else_on_lavapipe)
{
    run_profile(HARNESS_LAVAPIPE);
}

Test(append, cache_takes_each_row_where_it_belongs_and_nothing_else_on_the_smallest_device)
{
    run_profile(HARNESS_LAVAPIPE_FLOOR);
}

Test(append, cache_takes_each_row_where_it_belongs_and_nothing_else_on_swiftshader)
{
    run_profile(HARNESS_SWIFTSHADER);
}
