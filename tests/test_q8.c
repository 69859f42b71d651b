/* ATTENTION with K and V in q8_0: against the reference of the values that the blocks stand for,
 * and the bits that these give in f32. */
#include "shapes.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#define GENERIC .variant = RHUMB_VARIANT_GENERIC
#define TILE .variant = RHUMB_VARIANT_TILE
#define DECODE .variant = RHUMB_VARIANT_DECODE
#define UNFUSED .variant = RHUMB_VARIANT_UNFUSED
#define Q8 .dtype_k = RHUMB_Q8_0, .dtype_v = RHUMB_Q8_0
#define APART {.row_pad = 32, .offset = 96}
#define ROWS {.by_rows = true}

static const attention_shape table[] = {
    {GENERIC, Q8, .heads = 2, .q_rows = 9, .k_rows = 41, .head_dim = 32},
    {GENERIC, Q8, .batch = 2, .heads = 6, .kv_heads = 2, .q_rows = 5, .k_rows = 37, .head_dim = 96,
     .value_dim = 64, .causal = true, .layout_k = APART, .layout_v = ROWS},
    {GENERIC, Q8, .heads = 2, .q_rows = 9, .k_rows = 70, .head_dim = 32, .k_length = 33,
     .poison = SHAPE_NAN_HIDDEN},
    {GENERIC, Q8, .heads = 1, .q_rows = 1, .k_rows = 1, .head_dim = 576, .value_dim = 512},
    {GENERIC, .dtype_k = RHUMB_Q8_0, .heads = 2, .q_rows = 9, .k_rows = 41, .head_dim = 32,
     .value_dim = 21},
    {GENERIC, .dtype_v = RHUMB_Q8_0, .dtype_q = RHUMB_F16, .dtype_o = RHUMB_F16, .heads = 2,
     .q_rows = 9, .k_rows = 41, .head_dim = 21, .value_dim = 32},
    {TILE, Q8, .batch = 2, .heads = 4, .kv_heads = 2, .q_rows = 33, .k_rows = 127, .head_dim = 64,
     .causal = true},
    {TILE, Q8, .heads = 2, .q_rows = 40, .k_rows = 77, .head_dim = 64, .causal = true,
     .windowed = true, .window_left = 3, .window_right = 2, .poison = SHAPE_INF_HIDDEN,
     .layout_k = APART, .layout_v = APART},
    {DECODE, Q8, .batch = 2, .heads = 8, .kv_heads = 2, .q_rows = 1, .k_rows = 129, .head_dim = 64,
     .causal = true},
    {DECODE, Q8, .batch = 3, .heads = 2, .q_rows = 1, .k_rows = 70, .head_dim = 64, .lengths = true,
     .causal = true, .layout_k = APART, .layout_v = ROWS},
    {UNFUSED, Q8, .heads = 4, .kv_heads = 2, .q_rows = 9, .k_rows = 40, .head_dim = 32,
     .causal = true},
    /* with addresses this is the broadcast form */
    {Q8, .heads = 4, .kv_heads = 2, .q_rows = 70, .k_rows = 70, .head_dim = 64, .causal = true},
    {Q8, .heads = 2, .q_rows = 35, .k_rows = 70, .head_dim = 96, .layout_k = APART,
     .layout_v = ROWS, .causal = true},
};

/* The same values in f32, as the blocks have them. */
static void check_bits(harness *h, const attention_shape *shape)
{
    attention_shape wide = *shape;
    attention_run a, b;
    wide.dtype_k = wide.dtype_v = RHUMB_F32;
    shape_make_attention(&a, shape, 19);
    shape_make_attention(&b, &wide, 19);
    memcpy(b.k.values, a.k.values, a.k.count * sizeof *a.k.values);
    memcpy(b.v.values, a.v.values, a.v.count * sizeof *a.v.values);
    harness_store(&b.k);
    harness_store(&b.v);
    h->cases++;
    if (harness_run(h, &a.op) != RHUMB_OK || harness_run(h, &b.op) != RHUMB_OK) {
        harness_fail(h, "q8_0: %s%s", a.op.message, b.op.message);
    } else if (memcmp(a.o.memory, b.o.memory, a.o.bytes) != 0) {
        harness_fail(h, "q8_0: variant %d: other bits than from the same values in f32",
                     (int)a.op.properties.variant);
    }
    shape_free_attention(&a);
    shape_free_attention(&b);
}

static void run_table(harness_profile profile)
{
    harness h;
    harness_open(&h, profile);
    const size_t step = shape_step(profile, 3);
    SHAPE_RUN_SOME(&h, shape_run_attention, table, step);
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i += step) {
        if (table[i].dtype_k == table[i].dtype_v) {
            check_bits(&h, &table[i]);
        }
    }
    harness_close(&h);
}

Test(q8, keys_and_values_are_their_block_s_scale_times_a_byte_on_lavapipe)
{
    run_table(HARNESS_LAVAPIPE);
}

Test(q8, keys_and_values_are_their_block_s_scale_times_a_byte_on_the_smallest_device)
{
    run_table(HARNESS_LAVAPIPE_FLOOR);
}

Test(q8, keys_and_values_are_their_block_s_scale_times_a_byte_on_swiftshader)
{
    run_table(HARNESS_SWIFTSHADER);
}
