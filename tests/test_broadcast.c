/* ATTENTION, variant BROADCAST: every scheme's terms in one kernel, with no workspace. Only lavapipe
 * has what it wants; other profiles refuse it. */
#include "shapes.h"
#include "shapes_relative.h"

#include <criterion/criterion.h>

#define BROADCAST .variant = RHUMB_VARIANT_BROADCAST
#define F16 .dtype = RHUMB_F16, .dtype_o = RHUMB_F16, .dtype_table = RHUMB_F16
#define BF16 .dtype = RHUMB_BF16, .dtype_o = RHUMB_BF16, .dtype_table = RHUMB_BF16

static const attention_shape plain[] = {
    {BROADCAST, .q_rows = 1, .k_rows = 1, .head_dim = 8},
    {BROADCAST, .batch = 2, .heads = 6, .kv_heads = 2, .q_rows = 37, .k_rows = 131, .head_dim = 24,
     .value_dim = 40, .causal = true},
    {BROADCAST, .heads = 2, .q_rows = 67, .k_rows = 9, .head_dim = 8, .causal = true},
    {BROADCAST, .heads = 2, .q_rows = 9, .k_rows = 77, .head_dim = 64, .causal = true,
     .offset_given = true, .q_offset = -4, .poison = SHAPE_NAN_HIDDEN},
    {BROADCAST, .heads = 2, .q_rows = 40, .k_rows = 77, .head_dim = 16, .windowed = true,
     .window_left = 33, .window_right = 5, .poison = SHAPE_NAN_HIDDEN},
    {BROADCAST, .heads = 2, .q_rows = 9, .k_rows = 40, .head_dim = 8, .causal = true,
     .k_length = 23, .q_length = 5, .poison = SHAPE_INF_HIDDEN},
    {BROADCAST, .batch = 2, .heads = 2, .q_rows = 40, .k_rows = 40, .head_dim = 8,
     .by_position = true, .positions = SHAPE_ANYWHERE, .causal = true},
    {BROADCAST, .batch = 3, .heads = 2, .q_rows = 41, .k_rows = 70, .head_dim = 8, .lengths = true,
     .lengths_beyond = true, .causal = true, .poison = SHAPE_NAN_HIDDEN},
    {BROADCAST, .heads = 3, .q_rows = 33, .k_rows = 33, .head_dim = 64, .dtype_q = RHUMB_F16,
     .dtype_k = RHUMB_BF16, .dtype_v = RHUMB_F16, .dtype_o = RHUMB_BF16},
    /* Q is rotated inside */
    {BROADCAST, .heads = 4, .kv_heads = 2, .q_rows = 37, .k_rows = 41, .head_dim = 16,
     .rotary_dim = 10, .rotary_offset = 5, .causal = true},
    {BROADCAST, .batch = 2, .heads = 2, .q_rows = 37, .k_rows = 41, .head_dim = 24,
     .rotary_dim = 24, .pairing = RHUMB_PAIRING_HALF, .lengths = true, .offset_given = true,
     .q_offset = 70000},
};

/* Lengths beyond every table on both sides, so that far blocks, near ones and far ones again are
 * walked; and a decode of few rows at the end. */
#define MASK(dimensions, ...) .around = {.mask = SHAPE_MASKED | (dimensions), __VA_ARGS__}
#define AROUND(...) .around = {__VA_ARGS__}
#define EACH(f)                                                                                    \
    {.family = (f), BROADCAST, .batch = 2, .heads = 4, .kv_heads = 2, .q_rows = 77, .k_rows = 77,  \
     .head_dim = 16},                                                                              \
        {.family = (f), BROADCAST, .heads = 2, .q_rows = 41, .k_rows = 131, .head_dim = 16,        \
         .causal = true, .shared_tables = true, .poison = true},                                   \
    {                                                                                              \
        .family = (f), BROADCAST, .heads = 2, .q_rows = 1, .k_rows = 37, .head_dim = 16,           \
        .causal = true                                                                             \
    }

#define BY_POSITION(f, kind)                                                                       \
    {                                                                                              \
        .family = (f), BROADCAST, .batch = 2, .heads = 4, .q_rows = 41, .k_rows = 70,              \
        .head_dim = 16, .positions = (kind)                                                        \
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
    /* distances by positions; the key's number by its index all the same */
    BY_POSITION(RELATIVE_T5, SHAPE_JUMPS), BY_POSITION(RELATIVE_ALIBI, SHAPE_PER_BATCH),
    BY_POSITION(RELATIVE_ALIBI, SHAPE_REVERSED), BY_POSITION(RELATIVE_ALIBI_INDEX, SHAPE_REVERSED),
    BY_POSITION(RELATIVE_ALIBI_LAST, SHAPE_REPEATS),
    {.family = RELATIVE_XL, BROADCAST, .heads = 2, .q_rows = 41, .k_rows = 77, .head_dim = 16,
     .causal = true},
    {.family = RELATIVE_SHAW, BROADCAST, F16, .heads = 2, .q_rows = 45, .k_rows = 70,
     .head_dim = 16, .offset_given = true, .q_offset = -5, .causal = true},
    {.family = RELATIVE_DEBERTA_LOG, BROADCAST, BF16, .heads = 2, .q_rows = 45, .k_rows = 70,
     .head_dim = 16, .offset_given = true, .q_offset = 13},
    /* rows of the table that no row of Q meets hold NaN */
    {.family = RELATIVE_SHAW, BROADCAST, .heads = 2, .q_rows = 41, .k_rows = 41, .head_dim = 16,
     .causal = true, .poison_future = true},
    /* rows and keys are the tokens of a window */
    {.family = RELATIVE_SWIN, BROADCAST, .batch = 3, .heads = 3, .q_rows = 6, .k_rows = 6,
     .head_dim = 8},
    {.family = RELATIVE_SWIN, BROADCAST, F16, .batch = 3, .heads = 3, .q_rows = 6, .k_rows = 6,
     .head_dim = 8},
    {.family = RELATIVE_SWIN_V2, BROADCAST, .batch = 3, .heads = 3, .q_rows = 6, .k_rows = 6,
     .head_dim = 24},
    {.family = RELATIVE_ROTARY, BROADCAST, .heads = 2, .q_rows = 9, .k_rows = 23, .head_dim = 8,
     .causal = true},
};

/* What is around the logits. */
static const attention_shape around[] = {
    {BROADCAST, .batch = 2, .heads = 4, .kv_heads = 2, .q_rows = 37, .k_rows = 67, .head_dim = 16,
     .causal = true, .poison = SHAPE_NAN_HIDDEN,
     AROUND(.softcap = 2.5f, .sinks = true, .lse = true, .row_scale = true)},
    {BROADCAST, .heads = 2, .q_rows = 41, .k_rows = 9, .head_dim = 8, .causal = true,
     AROUND(.sinks = true, .dtype_sinks = RHUMB_BF16, .lse = true)},
    {BROADCAST, .heads = 2, .q_rows = 67, .k_rows = 131, .head_dim = 8, .causal = true,
     .poison = SHAPE_NAN_HIDDEN, AROUND(.chunk = 19, .kept_keys = 3, .lse = true)},
    {BROADCAST, .heads = 2, .q_rows = 67, .k_rows = 131, .head_dim = 8, .causal = true,
     .windowed = true, .window_left = 11, .window_right = RHUMB_NO_WINDOW,
     .poison = SHAPE_INF_HIDDEN, AROUND(.kept_keys = 9, .sinks = true)},
    {BROADCAST, .batch = 2, .heads = 2, .q_rows = 40, .k_rows = 40, .head_dim = 8,
     .by_position = true, .positions = SHAPE_ANYWHERE, .causal = true,
     AROUND(.chunk = 7, .kept_keys = 2)},
    {BROADCAST, .batch = 2, .heads = 3, .q_rows = 37, .k_rows = 41, .head_dim = 16,
     .rotary_dim = 16, .pairing = RHUMB_PAIRING_HALF, AROUND(.row_scale = true, .max_flops = 5)},
};

static const relative_shape terms_around[] = {
    {.family = RELATIVE_SHAW, BROADCAST, .batch = 2, .heads = 4, .kv_heads = 2, .q_rows = 39,
     .k_rows = 23, .head_dim = 8, .poison = true, MASK(15, .sinks = true, .lse = true)},
    {.family = RELATIVE_SHAW, BROADCAST, F16, .batch = 3, .heads = 3, .q_rows = 9, .k_rows = 23,
     .head_dim = 8, .poison = true, MASK(9, .dtype_mask = RHUMB_F16)},
    {.family = RELATIVE_PLAIN, BROADCAST, .batch = 2, .heads = 3, .q_rows = 9, .k_rows = 131,
     .head_dim = 8, .causal = true, .poison = true, MASK(12, .dtype_mask = RHUMB_BF16)},
    /* one element for all keys: a third of the rows sees nothing */
    {.family = RELATIVE_PLAIN, BROADCAST, .batch = 2, .heads = 3, .q_rows = 9, .k_rows = 131,
     .head_dim = 8, MASK(7, .lse = true)},
    {.family = RELATIVE_T5, BROADCAST, .heads = 3, .q_rows = 9, .k_rows = 31, .head_dim = 8,
     MASK(0, .softcap = 3.0f)},
    {.family = RELATIVE_T5_GATED, BROADCAST, .heads = 3, .q_rows = 39, .k_rows = 67, .head_dim = 8,
     .causal = true, AROUND(.softcap = 1.5f, .bias_after = true, .lse = true)},
    {.family = RELATIVE_ALIBI, BROADCAST, .heads = 3, .q_rows = 39, .k_rows = 67, .head_dim = 8,
     .causal = true, .windowed = true, .window_left = 13, .window_right = RHUMB_NO_WINDOW,
     .poison = true, AROUND(.softcap = 1.5f, .kept_keys = 3)},
    {.family = RELATIVE_XLNET, BROADCAST, .batch = 2, .heads = 2, .q_rows = 39, .k_rows = 39,
     .head_dim = 8, AROUND(.softcap = 2.0f, .bias_after = true, .sinks = true)},
    {.family = RELATIVE_MUSIC_BOTH, BROADCAST, .heads = 2, .q_rows = 67, .k_rows = 67,
     .head_dim = 8, .windowed = true, .window_left = 11, .window_right = 4, .poison = true,
     AROUND(.kept_keys = 5, .chunk = 31)},
    {.family = RELATIVE_DEBERTA_LOG, BROADCAST, .batch = 2, .heads = 3, .q_rows = 39, .k_rows = 67,
     .head_dim = 8, .poison = true, MASK(15, .max_flops = 9)},
    {.family = RELATIVE_SWIN, BROADCAST, .batch = 3, .heads = 3, .q_rows = 6, .k_rows = 6,
     .head_dim = 8, MASK(13, .softcap = 2.0f, .sinks = true, .lse = true)},
    {.family = RELATIVE_SWIN_V2, BROADCAST, .batch = 3, .heads = 3, .q_rows = 6, .k_rows = 6,
     .head_dim = 8, AROUND(.softcap = 2.0f, .bias_after = true)},
};

Test(broadcast, equals_the_reference_on_lavapipe)
{
    harness h;
    harness_open(&h, HARNESS_LAVAPIPE);
    SHAPE_RUN_ALL(&h, shape_run_attention, plain);
    SHAPE_RUN_ALL(&h, shape_run_relative, schemes);
    SHAPE_RUN_ALL(&h, shape_run_attention, around);
    SHAPE_RUN_ALL(&h, shape_run_relative, terms_around);
    harness_close(&h);
}

Test(broadcast, a_batch_entry_has_the_same_bits_in_any_batch)
{
    static const relative_shape rows[] = {
        {.family = RELATIVE_SHAW, BROADCAST, .heads = 2, .q_rows = 41, .k_rows = 41,
         .head_dim = 16},
        {.family = RELATIVE_DEBERTA_LOG, BROADCAST, .heads = 2, .q_rows = 41, .k_rows = 41,
         .head_dim = 16},
    };
    harness h;
    harness_open(&h, HARNESS_LAVAPIPE);
    SHAPE_RUN_ALL(&h, shape_same_bits_for_any_batch, rows);
    harness_close(&h);
}
