/* The wide tables: products of head sizes, lengths, formats and masks that take minutes. Suite
 * full. */
#include "shapes.h"

#include <criterion/criterion.h>
#include <string.h>

#define COUNT(array) (sizeof(array) / sizeof(array)[0])

static const uint32_t lengths[] = {1, 2, 31, 33, 63, 127, 129, 257};

/* Any head size by any length on one kernel. */
static void run_generic(harness *h)
{
    static const uint32_t head_dims[] = {1,  8,   40,  63,  64,  72,  80,
                                         96, 112, 128, 160, 192, 256, 576};
    for (size_t d = 0; d < COUNT(head_dims); d++) {
        for (size_t k = 0; k < COUNT(lengths); k++) {
            attention_shape shape = {.variant = RHUMB_VARIANT_GENERIC, .heads = 2};
            shape.head_dim = head_dims[d];
            shape.value_dim = head_dims[d] == 576 ? 512 : head_dims[d];
            shape.k_rows = lengths[k];
            shape.q_rows = lengths[(k + 3 * d) % COUNT(lengths)];
            shape.kv_heads = 1 + (uint32_t)(k % 2);
            shape.causal = (d + k) % 3 != 0;
            (void)shape_run_attention(h, &shape);
        }
    }
}

/* Each fast form at each head size it has, by all lengths. */
static void run_fast(harness *h, rhumb_variant variant)
{
    static const uint32_t head_dims[] = {64, 80, 96, 128, 256};
    for (size_t d = 0; d < COUNT(head_dims); d++) {
        for (size_t i = 0; i < COUNT(lengths) * 2; i++) {
            attention_shape shape = {.heads = 4, .kv_heads = 2};
            shape.variant = variant;
            shape.head_dim = head_dims[d];
            shape.k_rows = lengths[i % COUNT(lengths)];
            shape.q_rows =
                variant == RHUMB_VARIANT_DECODE ? 1 : lengths[(5 * i + d) % COUNT(lengths)];
            shape.causal = i % 3 != 0;
            shape.windowed = i % 5 == 4;
            shape.window_left = 17;
            shape.window_right = RHUMB_NO_WINDOW;
            (void)shape_run_attention(h, &shape);
        }
    }
}

/* Formats of each two of Q, K and O mixed every way, on both alignments. */
static void run_formats(harness *h, rhumb_variant variant)
{
    for (int i = 0; i < 9; i++) {
        attention_shape shape = {
            .heads = 4, .kv_heads = 2, .k_rows = 70, .head_dim = 64, .causal = true};
        shape.variant = variant;
        shape.q_rows = variant == RHUMB_VARIANT_DECODE ? 1 : 19;
        shape.dtype_q = (rhumb_dtype)(i % 3);
        shape.dtype_k = (rhumb_dtype)(i / 3);
        shape.dtype_v = shape.dtype_k;
        shape.dtype_o = (rhumb_dtype)((i % 3 + i / 3) % 3);
        shape.layout_o.by_rows = i % 2 == 1;
        shape.layout_k.offset = (uint32_t)(i % 4 == 3 ? 4 : 0);
        (void)shape_run_attention(h, &shape);
    }
}

static void run_rotations(harness *h)
{
    static const uint32_t head_dims[] = {2,  6,   31,  40,  63,  64,  72, 80,
                                         96, 112, 128, 160, 192, 256, 576};
    for (int dtype = 0; dtype < 3; dtype++) {
        for (int pairing = 0; pairing < 2; pairing++) {
            for (size_t d = 0; d < COUNT(head_dims) * 4; d++) {
                rotate_shape shape = {.batch = 2, .heads = 6, .kv_heads = 3, .rows = 5};
                uint32_t head_dim = head_dims[d % COUNT(head_dims)];
                shape.dtype = (rhumb_dtype)dtype;
                shape.pairing = (rhumb_pairing)pairing;
                shape.head_dim = head_dim;
                shape.rotary_dim =
                    d % 3 == 0 ? head_dim / 2 * 2 : (head_dim / 4 * 2 > 0 ? head_dim / 4 * 2 : 2);
                shape.rotary_offset = d % 2 == 0 ? 0 : (head_dim - shape.rotary_dim) / 2;
                shape.in_place = d / COUNT(head_dims) == 1;
                shape.inverse = d / COUNT(head_dims) == 2;
                shape.positions = (shape_positions)(d % 9);
                shape.layout.by_rows = d / COUNT(head_dims) == 3;
                shape.layout.row_pad = (uint32_t)(d % 4 == 1 ? 3 : 0);
                shape.out_layout.offset = (uint32_t)(d % 4 == 2 ? 1 : 0);
                (void)shape_run_rotate(h, &shape);
            }
        }
    }
}

static void run_all(harness_profile profile)
{
    harness h;
    harness_open(&h, profile);
    run_rotations(&h);
    run_generic(&h);
    run_fast(&h, RHUMB_VARIANT_TILE);
    run_fast(&h, RHUMB_VARIANT_DECODE);
    run_formats(&h, RHUMB_VARIANT_GENERIC);
    run_formats(&h, RHUMB_VARIANT_TILE);
    run_formats(&h, RHUMB_VARIANT_DECODE);
    harness_close(&h);
}

Test(wide, products_of_sizes_lengths_and_formats_are_right_on_lavapipe)
{
    run_all(HARNESS_LAVAPIPE);
}

Test(wide, products_of_sizes_lengths_and_formats_are_right_on_the_smallest_device)
{
    run_all(HARNESS_LAVAPIPE_FLOOR);
}

Test(wide, products_of_sizes_lengths_and_formats_are_right_on_swiftshader)
{
    run_all(HARNESS_SWIFTSHADER);
}
