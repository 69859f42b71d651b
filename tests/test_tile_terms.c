/* ATTENTION, variant TILE, with the terms of relative schemes. */
#include "shapes.h"
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
};

/* Head sizes, formats, offsets. */
static const relative_shape sizes[] = {
    {.family = RELATIVE_SHAW, TILE, F16, .heads = 2, .q_rows = 45, .k_rows = 70,
     .head_dim = 32, .offset_given = true, .q_offset = -5, .causal = true},
    {.family = RELATIVE_SHAW_MIRRORED, TILE, .heads = 2, .q_rows = 67, .k_rows = 71,
     .head_dim = 64, .poison = true, .causal = true},
    {.family = RELATIVE_DEBERTA_LOG, TILE, BF16, .heads = 2, .q_rows = 45, .k_rows = 70,
     .head_dim = 32, .offset_given = true, .q_offset = 13},
    {.family = RELATIVE_DEBERTA, TILE, F16, .heads = 2, .q_rows = 66, .k_rows = 129,
     .head_dim = 64},
    {.family = RELATIVE_XLNET, TILE, F16, .batch = 2, .heads = 2, .q_rows = 66, .k_rows = 66,
     .head_dim = 32},
    {.family = RELATIVE_MUSIC_BOTH, TILE, .heads = 3, .q_rows = 61, .k_rows = 83,
     .head_dim = 64},
    {.family = RELATIVE_T5, TILE, BF16, .heads = 4, .kv_heads = 1, .q_rows = 61, .k_rows = 83,
     .head_dim = 64, .around = {.mask = SHAPE_MASKED | 13}, .poison = true},
    {.family = RELATIVE_SHAW, TILE, .batch = 2, .heads = 3, .q_rows = 39, .k_rows = 47,
     .head_dim = 16, .around = {.mask = SHAPE_MASKED | 15}, .poison = true},
    {.family = RELATIVE_PLAIN, TILE, .batch = 2, .heads = 6, .kv_heads = 2, .q_rows = 39,
     .k_rows = 47, .head_dim = 16, .around = {.mask = SHAPE_MASKED | 15, .dtype_mask = RHUMB_F16},
     .causal = true},
};

Test(tile_terms, every_scheme_equals_the_reference_on_lavapipe)
{
    harness h;
    harness_open(&h, HARNESS_LAVAPIPE);
    SHAPE_RUN_ALL(&h, shape_run_relative, schemes);
    SHAPE_RUN_ALL(&h, shape_run_relative, sizes);
    harness_close(&h);
}

Test(tile_terms, every_scheme_equals_the_reference_on_the_smallest_device)
{
    harness h;
    harness_open(&h, HARNESS_LAVAPIPE_FLOOR);
    SHAPE_RUN_ALL(&h, shape_run_relative, schemes);
    SHAPE_RUN_ALL(&h, shape_run_relative, sizes);
    harness_close(&h);
}
