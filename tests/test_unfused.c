/* ATTENTION, variant UNFUSED: plain attention over some of the fused forms' shapes, every scheme,
 * masks, and blocks of rows. */
#include "shapes.h"
#include "shapes_relative.h"

#include <criterion/criterion.h>

#define PLAIN .variant = RHUMB_VARIANT_UNFUSED
#define F16 .dtype_q = RHUMB_F16, .dtype_k = RHUMB_F16, .dtype_v = RHUMB_F16, .dtype_o = RHUMB_F16
#define OFFSET(n) .offset_given = true, .q_offset = (n)
#define WINDOW(l, r) .windowed = true, .window_left = (l), .window_right = (r)
#define ODD                                                                                        \
    {                                                                                              \
        .row_pad = 3, .offset = 1                                                                  \
    }
#define ONE_ROW 4194304u /* keys of a plan with one head whose WORKSPACE holds one row */

static const attention_shape plain[] = {
    {PLAIN, .q_rows = 1, .k_rows = 1, .head_dim = 8},
    {PLAIN, .heads = 2, .q_rows = 5, .k_rows = 7, .head_dim = 1, .causal = true},
    {PLAIN, .batch = 2, .heads = 6, .kv_heads = 2, .q_rows = 13, .k_rows = 131, .head_dim = 24,
     .value_dim = 20, .causal = true},
    {PLAIN, .heads = 1, .q_rows = 3, .k_rows = 33, .head_dim = 576, .value_dim = 512},
    {PLAIN, .heads = 2, .q_rows = 40, .k_rows = 9, .head_dim = 8, .causal = true},
    {PLAIN, .heads = 2, .q_rows = 9, .k_rows = 40, .head_dim = 8, .causal = true, OFFSET(-4)},
    {PLAIN, .heads = 2, .q_rows = 40, .k_rows = 77, .head_dim = 8, WINDOW(33, 5),
     .poison = SHAPE_NAN_HIDDEN},
    {PLAIN, .heads = 2, .q_rows = 9, .k_rows = 40, .head_dim = 8, .causal = true, .k_length = 23,
     .q_length = 5, .poison = SHAPE_INF_HIDDEN},
    {PLAIN, .heads = 2, .q_rows = 4, .k_rows = 40, .head_dim = 16, .causal = true,
     WINDOW(13, RHUMB_NO_WINDOW), OFFSET(2000000000), .poison = SHAPE_NAN_HIDDEN},
    {PLAIN, .batch = 2, .heads = 2, .q_rows = 7, .k_rows = 11, .head_dim = 21, F16, .layout_q = ODD,
     .layout_k = ODD, .layout_v = ODD, .layout_o = ODD, .causal = true},
    {PLAIN, .batch = 2, .heads = 2, .q_rows = 40, .k_rows = 40, .head_dim = 8, .by_position = true,
     .positions = SHAPE_ANYWHERE, .causal = true},
    {PLAIN, .batch = 3, .heads = 2, .q_rows = 9, .k_rows = 40, .head_dim = 8, .lengths = true,
     .lengths_beyond = true, .causal = true, .poison = SHAPE_NAN_HIDDEN},
    {PLAIN, .heads = 4, .kv_heads = 2, .q_rows = 9, .k_rows = 23, .head_dim = 16, .rotary_dim = 12,
     .rotary_offset = 4, .causal = true},
    /* a block is one row, four rows, and eight of eleven */
    {PLAIN, .batch = 2, .q_rows = 5, .k_rows = 7, .head_dim = 8, .plan_k = ONE_ROW, .causal = true},
    {PLAIN, .heads = 2, .q_rows = 11, .k_rows = 7, .head_dim = 8, .plan_k = ONE_ROW / 8},
    {PLAIN, .heads = 2, .q_rows = 11, .k_rows = 7, .head_dim = 8, .plan_k = ONE_ROW / 16,
     .lengths = true, .batch = 2, .causal = true},
};

#define EACH(f)                                                                                    \
    {.family = (f),                                                                                \
     .batch = 2,                                                                                   \
     .heads = 4,                                                                                   \
     .kv_heads = 2,                                                                                \
     .q_rows = 13,                                                                                 \
     .k_rows = 31,                                                                                 \
     .head_dim = 12,                                                                               \
     .causal = true},                                                                              \
    {                                                                                              \
        .family = (f), .heads = 3, .q_rows = 1, .k_rows = 37, .head_dim = 7, .causal = true,       \
        .shared_tables = true                                                                      \
    }

/* Rows and keys are the tokens of a window. */
#define TOKENS_OF(f)                                                                               \
    {                                                                                              \
        .family = (f), .batch = 3, .heads = 3, .q_rows = 6, .k_rows = 6, .head_dim = 7             \
    }

static const relative_shape schemes[] = {
    EACH(RELATIVE_SHAW),        EACH(RELATIVE_SHAW_MIRRORED),
    EACH(RELATIVE_MUSIC),       EACH(RELATIVE_MUSIC_BOTH),
    EACH(RELATIVE_T5),          EACH(RELATIVE_T5_CAUSAL),
    EACH(RELATIVE_T5_GATED),    EACH(RELATIVE_ALIBI),
    EACH(RELATIVE_ALIBI_INDEX), EACH(RELATIVE_ALIBI_LAST),
    EACH(RELATIVE_XL),          EACH(RELATIVE_XL_CLAMP),
    EACH(RELATIVE_XL_FOLDED),   EACH(RELATIVE_XL_LEARNED),
    EACH(RELATIVE_XLNET),       EACH(RELATIVE_DEBERTA),
    EACH(RELATIVE_DEBERTA_LOG), EACH(RELATIVE_DEBERTA_PAPER),
    TOKENS_OF(RELATIVE_SWIN),   TOKENS_OF(RELATIVE_SWIN_V2),
    {.family = RELATIVE_ROTARY, .heads = 2, .q_rows = 9, .k_rows = 23, .head_dim = 6,
     .causal = true},
    {.family = RELATIVE_ALIBI, .batch = 2, .heads = 2, .q_rows = 9, .k_rows = 23, .head_dim = 7,
     .positions = SHAPE_PER_BATCH},
    {.family = RELATIVE_ALIBI_LAST, .batch = 2, .heads = 2, .q_rows = 9, .k_rows = 23,
     .head_dim = 7, .positions = SHAPE_REVERSED},
};

static const relative_shape masks[] = {
    {.family = RELATIVE_SHAW,
     .batch = 2,
     .heads = 4,
     .kv_heads = 2,
     .q_rows = 9,
     .k_rows = 23,
     .head_dim = 8,
     .around.mask = SHAPE_MASKED | 15,
     .poison = true},
    {.family = RELATIVE_SHAW,
     .batch = 3,
     .heads = 3,
     .q_rows = 9,
     .k_rows = 23,
     .head_dim = 8,
     .around.mask = SHAPE_MASKED | 9,
     .poison = true,
     .dtype = RHUMB_F16,
     .dtype_o = RHUMB_F16,
     .around.dtype_mask = RHUMB_F16,
     .dtype_table = RHUMB_F16},
    {.family = RELATIVE_PLAIN,
     .batch = 2,
     .heads = 3,
     .q_rows = 9,
     .k_rows = 131,
     .head_dim = 8,
     .around.mask = SHAPE_MASKED | 12,
     .causal = true,
     .poison = true,
     .around.dtype_mask = RHUMB_BF16},
    /* one element for all keys: a third of the rows sees nothing */
    {.family = RELATIVE_PLAIN,
     .batch = 2,
     .heads = 3,
     .q_rows = 9,
     .k_rows = 131,
     .head_dim = 8,
     .around.mask = SHAPE_MASKED | 7},
    {.family = RELATIVE_T5,
     .heads = 3,
     .q_rows = 9,
     .k_rows = 31,
     .head_dim = 8,
     .around.mask = SHAPE_MASKED},
    {.family = RELATIVE_SHAW,
     .batch = 2,
     .heads = 2,
     .q_rows = 11,
     .k_rows = 23,
     .head_dim = 8,
     .around.mask = SHAPE_MASKED | 12,
     .plan_k = ONE_ROW / 8,
     .dtype_o = RHUMB_BF16},
    {.family = RELATIVE_SHAW,
     .heads = 2,
     .q_rows = 7,
     .k_rows = 23,
     .head_dim = 9,
     .causal = true,
     .offset_given = true,
     .q_offset = -3,
     .layout = ODD,
     .layout_table = ODD,
     .poison = true},
};

static void run_unfused(harness_profile profile)
{
    harness h;
    harness_open(&h, profile);
    SHAPE_RUN_ALL(&h, shape_run_attention, plain);
    SHAPE_RUN_ALL(&h, shape_run_relative, schemes);
    SHAPE_RUN_ALL(&h, shape_run_relative, masks);
    harness_close(&h);
}

static bool run_row_fused(harness *h, const relative_shape *shape)
{
    relative_shape row = *shape;
    row.variant = RHUMB_VARIANT_GENERIC;
    return shape_run_relative(h, &row);
}

static void run_fused(harness_profile profile)
{
    harness h;
    harness_open(&h, profile);
    /* the first of two rows of each scheme */
    SHAPE_RUN_SOME(&h, run_row_fused, schemes, shape_step(profile, 2));
    SHAPE_RUN_SOME(&h, run_row_fused, masks, shape_step(profile, 2));
    harness_close(&h);
}

Test(generic, every_scheme_and_mask_is_right_on_lavapipe)
{
    run_fused(HARNESS_LAVAPIPE);
}

Test(generic, every_scheme_and_mask_is_right_on_the_smallest_device)
{
    run_fused(HARNESS_LAVAPIPE_FLOOR);
}

Test(generic, every_scheme_and_mask_is_right_on_swiftshader)
{
    run_fused(HARNESS_SWIFTSHADER);
}

Test(unfused, every_scheme_mask_and_block_of_rows_is_right_on_lavapipe)
{
    run_unfused(HARNESS_LAVAPIPE);
}

Test(unfused, every_scheme_mask_and_block_of_rows_is_right_on_the_smallest_device)
{
    run_unfused(HARNESS_LAVAPIPE_FLOOR);
}

Test(unfused, every_scheme_mask_and_block_of_rows_is_right_on_swiftshader)
{
    run_unfused(HARNESS_SWIFTSHADER);
}

Test(unfused, a_batch_entry_has_the_same_bits_alone)
{
    static const relative_shape shape = {.family = RELATIVE_SHAW,
                                         .heads = 4,
                                         .kv_heads = 2,
                                         .q_rows = 11,
                                         .k_rows = 70,
                                         .head_dim = 8,
                                         .causal = true,
                                         .plan_k = ONE_ROW / 32};
    harness h;
    harness_open(&h, HARNESS_LAVAPIPE);
    (void)shape_same_bits_for_any_batch(&h, &shape);
    harness_close(&h);
}
