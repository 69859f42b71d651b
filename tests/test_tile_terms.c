/* ATTENTION, variant TILE, with the terms of relative schemes. */
#include "shapes_kerple.h"
#include "shapes_relative.h"

#include <criterion/criterion.h>

#define TILE .variant = RHUMB_VARIANT_TILE
#define F16 .dtype = RHUMB_F16, .dtype_o = RHUMB_F16, .dtype_table = RHUMB_F16
#define BF16 .dtype = RHUMB_BF16, .dtype_o = RHUMB_BF16, .dtype_table = RHUMB_BF16

/* Lengths beyond every table on both sides, tiles and steps that end in the middle; and one row. */
#define EACH(f)                                                                                    \
    {.family = (f), TILE, .batch = 2, .heads = 4, .kv_heads = 2, .q_rows = 77, .k_rows = 67,       \
     .head_dim = 16},                                                                              \
        {.family = (f), TILE, .heads = 2, .q_rows = 41, .k_rows = 131, .head_dim = 16,             \
         .causal = true, .shared_tables = true, .poison = true},                                   \
    {                                                                                              \
        .family = (f), TILE, .heads = 2, .q_rows = 1, .k_rows = 37, .head_dim = 16, .causal = true \
    }

static const relative_shape schemes[] = {
    EACH(RELATIVE_SHAW),        EACH(RELATIVE_SHAW_MIRRORED),
    EACH(RELATIVE_MUSIC),       EACH(RELATIVE_MUSIC_BOTH),
    EACH(RELATIVE_T5),          EACH(RELATIVE_T5_CAUSAL),
    EACH(RELATIVE_T5_GATED),    EACH(RELATIVE_ALIBI),
    EACH(RELATIVE_ALIBI_INDEX), EACH(RELATIVE_ALIBI_LAST),
    EACH(RELATIVE_XL_CLAMP),    EACH(RELATIVE_XL_FOLDED),
    EACH(RELATIVE_XL_LEARNED),  EACH(RELATIVE_XLNET),
    EACH(RELATIVE_DEBERTA),     EACH(RELATIVE_DEBERTA_LOG),
    EACH(RELATIVE_DEBERTA_PAPER),
    {.family = RELATIVE_XL, TILE, .heads = 2, .q_rows = 41, .k_rows = 77, .head_dim = 16,
     .causal = true},
    {.family = RELATIVE_ALIBI, TILE, .batch = 2, .heads = 2, .q_rows = 41, .k_rows = 70,
     .head_dim = 16, .positions = SHAPE_PER_BATCH},
    {.family = RELATIVE_ALIBI_INDEX, TILE, .batch = 2, .heads = 2, .q_rows = 41, .k_rows = 70,
     .head_dim = 16, .positions = SHAPE_REVERSED},
};

/* Head sizes, formats, offsets. */
static const relative_shape sizes[] = {
    {.family = RELATIVE_SHAW, TILE, F16, .heads = 2, .q_rows = 45, .k_rows = 70,
     .head_dim = 32, .offset_given = true, .q_offset = -5, .causal = true},
    {.family = RELATIVE_SHAW_MIRRORED, TILE, .heads = 2, .q_rows = 67, .k_rows = 71,
     .head_dim = 64, .poison = true, .causal = true},
    {.family = RELATIVE_DEBERTA_LOG, TILE, BF16, .heads = 2, .q_rows = 45, .k_rows = 70,
     .head_dim = 48, .offset_given = true, .q_offset = 13},
    {.family = RELATIVE_DEBERTA, TILE, F16, .heads = 2, .q_rows = 66, .k_rows = 129,
     .head_dim = 64},
};

/* More shared memory than the smallest device has. */
static const relative_shape large[] = {
    {.family = RELATIVE_XLNET, TILE, F16, .batch = 2, .heads = 2, .q_rows = 66, .k_rows = 66,
     .head_dim = 80},
    /* four chunks of channels, and thirteen */
    {.family = RELATIVE_SHAW_MIRRORED, TILE, .heads = 2, .q_rows = 35, .k_rows = 41,
     .head_dim = 256, .poison = true, .causal = true},
    /* eleven of Q, K and A, since 16 channels are all that divides such a head */
    {.family = RELATIVE_XL_LEARNED, TILE, .heads = 1, .q_rows = 35, .k_rows = 41, .head_dim = 176},
    {.family = RELATIVE_PLAIN, TILE, .heads = 1, .q_rows = 35, .k_rows = 41, .head_dim = 208,
     .around = {.lse = true, .mask = SHAPE_MASKED | 15}, .poison = true},
};

/* Three keys a lane, where shared memory has no place for four. */
static const relative_shape three_keys[] = {
    {.family = RELATIVE_SHAW_MIRRORED, TILE, .batch = 2, .heads = 2, .q_rows = 67, .k_rows = 101,
     .head_dim = 64, .poison = true, .causal = true},
    {.family = RELATIVE_DEBERTA_LOG, TILE, F16, .heads = 2, .q_rows = 41, .k_rows = 131,
     .head_dim = 64, .around = {.softcap = 2.0f, .lse = true, .mask = SHAPE_MASKED | 15}},
    {.family = RELATIVE_MUSIC_BOTH, TILE, .heads = 2, .q_rows = 1, .k_rows = 37, .head_dim = 48},
};

/* Everything around the terms: before the cap or after it, hidden by each mask, with a sink. */
static const relative_shape around[] = {
    {.family = RELATIVE_SHAW, TILE, .batch = 2, .heads = 3, .q_rows = 39, .k_rows = 47,
     .head_dim = 16, .around = {.softcap = 2.0f, .lse = true, .mask = SHAPE_MASKED | 15},
     .poison = true},
    {.family = RELATIVE_T5, TILE, .batch = 2, .heads = 4, .kv_heads = 1, .q_rows = 41,
     .k_rows = 83, .head_dim = 16, .causal = true, .windowed = true, .window_left = 23,
     .around = {.softcap = 3.0f, .bias_after = true, .sinks = true, .lse = true, .kept_keys = 3},
     .poison = true},
    {.family = RELATIVE_ALIBI, TILE, .heads = 4, .q_rows = 71, .k_rows = 67, .head_dim = 16,
     .around = {.softcap = 3.0f, .sinks = true, .lse = true, .chunk = 19}, .poison = true},
    {.family = RELATIVE_PLAIN, TILE, .batch = 2, .heads = 6, .kv_heads = 2, .q_rows = 39,
     .k_rows = 47, .head_dim = 16, .causal = true,
     .around = {.softcap = 2.0f, .sinks = true, .lse = true, .row_scale = true, .chunk = 20,
                .kept_keys = 5, .mask = SHAPE_MASKED | 15, .dtype_mask = RHUMB_F16},
     .poison = true},
    {.family = RELATIVE_PLAIN, TILE, .heads = 2, .q_rows = 77, .k_rows = 131, .head_dim = 16,
     .around = {.lse = true, .mask = SHAPE_MASKED | 12, .dtype_mask = RHUMB_BF16,
                .max_flops = 20000}},
    /* one element for all keys: a third of the rows sees nothing but the sink */
    {.family = RELATIVE_DEBERTA, TILE, .batch = 2, .heads = 3, .q_rows = 39, .k_rows = 47,
     .head_dim = 16, .around = {.sinks = true, .lse = true, .mask = SHAPE_MASKED | 7}},
};

/* Its slopes are by logarithms; distances of indices, and of positions. */
static const kerple_shape kerple[] = {
    {.op = RHUMB_OP_ATTENTION, TILE, .batch = 2, .heads = 3, .q_rows = 41, .k_rows = 67,
     .head_dim = 16, .causal = true},
    {.op = RHUMB_OP_ATTENTION, TILE, .batch = 2, .heads = 3, .q_rows = 41, .k_rows = 67,
     .head_dim = 16, .positions = SHAPE_JUMPS},
};

static void run(harness_profile profile)
{
    harness h;
    harness_open(&h, profile);
    const size_t step = shape_step(profile, 3);
    SHAPE_RUN_SOME(&h, shape_run_relative, schemes, step);
    SHAPE_RUN_SOME(&h, shape_run_relative, sizes, step);
    SHAPE_RUN_SOME(&h, shape_run_relative, around, step);
    SHAPE_RUN_SOME(&h, shape_run_kerple, kerple, step);
    harness_close(&h);
}

Test(tile_terms, every_scheme_equals_the_reference_on_lavapipe)
{
    run(HARNESS_LAVAPIPE);
}

Test(tile_terms, a_large_head_with_tables_equals_the_reference_on_lavapipe)
{
    harness h;
    harness_open(&h, HARNESS_LAVAPIPE);
    SHAPE_RUN_ALL(&h, shape_run_relative, large);
    harness_close(&h);
}

Test(tile_terms, three_keys_a_lane_equal_the_reference)
{
    rhumb_plan_properties properties;
    rhumb_plan_info info;
    rhumb_limits clamp;
    rhumb_shaw shaw;
    harness h;
    rhumb_init_limits(&clamp);
    clamp.max_shared_bytes = 28672;
    harness_open_clamped(&h, HARNESS_LAVAPIPE, &clamp);
    rhumb_init_shaw(&shaw);
    rhumb_init_plan_properties(&properties);
    rhumb_init_plan_info(&info, RHUMB_OP_ATTENTION);
    info.variant = RHUMB_VARIANT_TILE;
    info.scheme = &shaw;
    info.heads = info.kv_heads = 2;
    info.head_dim = 64;
    info.max_q_length = info.max_k_length = 101;
    info.views = RHUMB_VIEW_BIT(RHUMB_VIEW_QUERY_TABLE) | RHUMB_VIEW_BIT(RHUMB_VIEW_KEY_TABLE) |
                 RHUMB_VIEW_BIT(RHUMB_VIEW_Q) | RHUMB_VIEW_BIT(RHUMB_VIEW_K) |
                 RHUMB_VIEW_BIT(RHUMB_VIEW_V) | RHUMB_VIEW_BIT(RHUMB_VIEW_O);
    cr_expect_eq(rhumb_query_plan(h.g->context, &info, &properties), RHUMB_OK, "%s",
                 rhumb_last_message(h.g->context));
    cr_expect_eq(properties.keys_per_step, 24, "%s", properties.reason);
    SHAPE_RUN_ALL(&h, shape_run_relative, three_keys);
    harness_close(&h);
}

Test(tile_terms, every_scheme_equals_the_reference_on_the_smallest_device)
{
    run(HARNESS_LAVAPIPE_FLOOR);
}

/* Its compiler takes seconds a pipeline. */
Test(tile_terms, some_of_each_term_equal_the_reference_on_swiftshader)
{
    static const relative_shape few[] = {
        {.family = RELATIVE_SHAW_MIRRORED, TILE, .batch = 2, .heads = 2, .q_rows = 41,
         .k_rows = 67, .head_dim = 16, .causal = true, .poison = true},
        {.family = RELATIVE_T5_GATED, TILE, .heads = 2, .q_rows = 41, .k_rows = 67,
         .head_dim = 16,
         .around = {.softcap = 2.0f, .bias_after = true, .sinks = true, .lse = true}},
        {.family = RELATIVE_XLNET, TILE, .batch = 2, .heads = 2, .q_rows = 41, .k_rows = 67,
         .head_dim = 16},
        {.family = RELATIVE_PLAIN, TILE, .batch = 2, .heads = 4, .kv_heads = 2, .q_rows = 41,
         .k_rows = 67, .head_dim = 16, .causal = true, .around = {.mask = SHAPE_MASKED | 15},
         .poison = true},
    };
    harness h;
    harness_open(&h, HARNESS_SWIFTSHADER);
    SHAPE_RUN_ALL(&h, shape_run_relative, few);
    harness_close(&h);
}

Test(tile_terms, a_batch_entry_has_the_same_bits_in_any_batch)
{
    static const relative_shape rows[] = {
        {.family = RELATIVE_SHAW, TILE, .heads = 2, .q_rows = 41, .k_rows = 41, .head_dim = 16},
        {.family = RELATIVE_DEBERTA_LOG, TILE, .heads = 2, .q_rows = 41, .k_rows = 41,
         .head_dim = 16},
    };
    harness h;
    harness_open(&h, HARNESS_LAVAPIPE);
    SHAPE_RUN_ALL(&h, shape_same_bits_for_any_batch, rows);
    harness_close(&h);
}

Test(tile_terms, rows_of_tables_by_positions_are_refused_by_name)
{
    const uint32_t positions = RHUMB_VIEW_BIT(RHUMB_VIEW_POSITIONS_Q) |
                               RHUMB_VIEW_BIT(RHUMB_VIEW_POSITIONS_K);
    rhumb_plan_info info;
    rhumb_plan_properties properties;
    rhumb_shaw shaw;
    harness h;
    harness_open(&h, HARNESS_LAVAPIPE);
    h.cases = 2;
    rhumb_init_shaw(&shaw);
    rhumb_init_plan_info(&info, RHUMB_OP_ATTENTION);
    rhumb_init_plan_properties(&properties);
    info.variant = RHUMB_VARIANT_TILE;
    info.scheme = &shaw;
    info.heads = info.kv_heads = 2;
    info.head_dim = 16;
    info.max_q_length = info.max_k_length = 32;
    info.views = positions | RHUMB_VIEW_BIT(RHUMB_VIEW_QUERY_TABLE) |
                 RHUMB_VIEW_BIT(RHUMB_VIEW_Q) | RHUMB_VIEW_BIT(RHUMB_VIEW_K) |
                 RHUMB_VIEW_BIT(RHUMB_VIEW_V) | RHUMB_VIEW_BIT(RHUMB_VIEW_O);
    cr_expect_eq(rhumb_query_plan(h.g->context, &info, &properties), RHUMB_ERROR_UNSUPPORTED);
    cr_expect_str_eq(rhumb_last_message(h.g->context),
                     "attention: variant tile: wanted distances of indices for tables, found both "
                     "position views");
    info.views &= ~RHUMB_VIEW_BIT(RHUMB_VIEW_POSITIONS_K);
    cr_expect_eq(rhumb_query_plan(h.g->context, &info, &properties), RHUMB_OK, "%s",
                 rhumb_last_message(h.g->context));
    cr_expect_eq(properties.variant, RHUMB_VARIANT_TILE);
    cr_expect_eq(properties.workspace_size, 0);
    harness_close(&h);
}
