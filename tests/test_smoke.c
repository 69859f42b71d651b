/* A little of everything with few kernels, for drivers on which compiling takes minutes (Mesa
 * 22.3.6 runs this suite and no more) and for a first look after a change. */
#include "shapes.h"

#include <criterion/criterion.h>

static const rotate_shape rotations[] = {
    /* two kernels of one plan: the fast form and the one for any alignment */
    {.pairing = RHUMB_PAIRING_HALF, .batch = 2, .heads = 5, .rows = 7, .head_dim = 64},
    {.pairing = RHUMB_PAIRING_HALF, .heads = 3, .rows = 5, .head_dim = 80, .rotary_dim = 32,
     .position_first = 4095},
    {.pairing = RHUMB_PAIRING_HALF, .heads = 3, .rows = 5, .head_dim = 64,
     .layout = {.row_pad = 5, .offset = 3}},
    {.pairing = RHUMB_PAIRING_HALF, .heads = 3, .rows = 5, .head_dim = 64,
     .position_first = 2147483640},
    /* 16-bit rows that share words, interleaved */
    {.pairing = RHUMB_PAIRING_INTERLEAVED, .dtype = RHUMB_F16, .batch = 2, .heads = 3, .rows = 5,
     .head_dim = 31, .rotary_dim = 26, .rotary_offset = 1, .in_place = true,
     .layout = {.by_rows = true, .row_pad = 3, .offset = 1}},
};

static const attention_shape attentions[] = {
    /* the generic form, f32 */
    {.variant = RHUMB_VARIANT_GENERIC, .heads = 4, .kv_heads = 2, .q_rows = 9, .k_rows = 40,
     .head_dim = 40, .causal = true},
    {.variant = RHUMB_VARIANT_GENERIC, .heads = 2, .q_rows = 33, .k_rows = 31, .head_dim = 63,
     .causal = true},
    {.variant = RHUMB_VARIANT_GENERIC, .q_rows = 5, .k_rows = 33, .head_dim = 576,
     .value_dim = 512},
    {.variant = RHUMB_VARIANT_GENERIC, .heads = 2, .q_rows = 40, .k_rows = 77, .head_dim = 8,
     .windowed = true, .window_left = 3, .window_right = 2, .poison = SHAPE_NAN_HIDDEN},
    /* one tile kernel and one decode kernel */
    {.variant = RHUMB_VARIANT_TILE, .heads = 4, .kv_heads = 2, .q_rows = 33, .k_rows = 70,
     .head_dim = 64, .causal = true},
    {.variant = RHUMB_VARIANT_TILE, .heads = 2, .q_rows = 40, .k_rows = 40, .head_dim = 64,
     .causal = true, .poison = SHAPE_NAN_LAST},
    {.variant = RHUMB_VARIANT_DECODE, .heads = 8, .kv_heads = 2, .q_rows = 1, .k_rows = 129,
     .head_dim = 64, .causal = true},
};

Test(smoke, a_little_of_rotate_and_attention_is_right_on_lavapipe)
{
    harness h;
    harness_open(&h, HARNESS_LAVAPIPE);
    SHAPE_RUN_ALL(&h, shape_run_rotate, rotations);
    SHAPE_RUN_ALL(&h, shape_run_attention, attentions);
    harness_close(&h);
}
