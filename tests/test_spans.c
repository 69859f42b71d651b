/* ATTENTION with views that are larger than a storage descriptor may be: the same bits as where one
 * descriptor holds them, a dispatch for each run of batch entries or kv heads that fits. */
#include "shapes.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RANGE 65536u /* the smallest clamp */

typedef struct span_shape {
    attention_shape attention;
    uint32_t dispatches; /* with the clamp */
} span_shape;

#define GENERIC .variant = RHUMB_VARIANT_GENERIC
#define TILE .variant = RHUMB_VARIANT_TILE
#define DECODE .variant = RHUMB_VARIANT_DECODE
#define K16 .dtype_k = RHUMB_F16, .dtype_v = RHUMB_F16
#define Q8 .dtype_k = RHUMB_Q8_0, .dtype_v = RHUMB_Q8_0
#define ROWS {.by_rows = true}

static const span_shape table[] = {
    /* 38,400 bytes a batch entry of K and V */
    {{TILE, K16, .batch = 3, .heads = 4, .kv_heads = 2, .q_rows = 9, .k_rows = 150,
      .head_dim = 64, .causal = true},
     3},
    /* 76,800 a batch entry: one kv head a dispatch */
    {{TILE, .batch = 2, .heads = 4, .kv_heads = 2, .q_rows = 9, .k_rows = 150, .head_dim = 64},
     4},
    /* 20,400: three batch entries, then two */
    {{TILE, Q8, .batch = 5, .heads = 4, .kv_heads = 2, .q_rows = 3, .k_rows = 150,
      .head_dim = 64, .causal = true, .layout_k = {.offset = 32}},
     2},
    /* 20,480 bytes a head of Q and O, two heads a kv head: of four kv heads one at a time */
    {{GENERIC, .heads = 8, .kv_heads = 4, .q_rows = 80, .k_rows = 9, .head_dim = 64}, 4},
    /* tokens side by side: no cut between heads */
    {{GENERIC, K16, .batch = 3, .heads = 2, .q_rows = 5, .k_rows = 170, .head_dim = 61,
      .layout_k = ROWS, .layout_v = ROWS, .causal = true},
     3},
    {{DECODE, K16, .batch = 3, .heads = 4, .kv_heads = 2, .q_rows = 1, .k_rows = 150,
      .head_dim = 64, .lengths = true, .lengths_beyond = true, .causal = true},
     3},
    /* one descriptor holds it */
    {{TILE, K16, .batch = 3, .heads = 4, .kv_heads = 2, .q_rows = 9, .k_rows = 70, .head_dim = 64},
     1},
};

#define COUNT (sizeof table / sizeof table[0])

/* Runs a row and keeps O. */
static uint64_t run_row(harness *h, size_t row, uint8_t **o, size_t *size)
{
    attention_run run;
    char text[64];
    interpose_counts before = interpose_read();
    snprintf(text, sizeof text, "row %zu", row);
    shape_make_attention(&run, &table[row].attention, 23 + row);
    h->cases++;
    if (harness_run(h, &run.op) != RHUMB_OK) {
        harness_fail(h, "%s: %s", text, run.op.message);
    } else {
        (void)shape_check_attention(h, &table[row].attention, &run, text);
    }
    *size = run.o.bytes;
    *o = harness_alloc(run.o.bytes, 1);
    memcpy(*o, run.o.memory, run.o.bytes);
    shape_free_attention(&run);
    return interpose_read().dispatches - before.dispatches;
}

static void compare_runs(harness_profile profile)
{
    uint8_t *whole[COUNT];
    size_t size;
    rhumb_limits clamp;
    harness h;
    rhumb_init_limits(&clamp);
    clamp.device_address = 0; /* kernels of their own, which have no ranges to look after */
    harness_open_clamped(&h, profile, &clamp);
    for (size_t i = 0; i < COUNT; i++) {
        (void)run_row(&h, i, &whole[i], &size);
    }
    harness_close(&h);
    clamp.max_storage_range = RANGE;
    harness_open_clamped(&h, profile, &clamp);
    for (size_t i = 0; i < COUNT; i++) {
        uint8_t *cut;
        uint64_t dispatches = run_row(&h, i, &cut, &size);
        if (memcmp(cut, whole[i], size) != 0) {
            harness_fail(&h, "row %zu: other bits than from one descriptor", i);
        }
        if (dispatches != table[i].dispatches) {
            harness_fail(&h, "row %zu: wanted %u dispatches, found %llu", i, table[i].dispatches,
                         (unsigned long long)dispatches);
        }
        free(cut);
        free(whole[i]);
    }
    harness_close(&h);
}

Test(spans, views_beyond_a_descriptor_s_range_are_cut_and_have_the_same_bits_on_lavapipe)
{
    compare_runs(HARNESS_LAVAPIPE);
}

Test(spans, views_beyond_a_descriptor_s_range_are_cut_and_have_the_same_bits_on_the_smallest_device)
{
    compare_runs(HARNESS_LAVAPIPE_FLOOR);
}

Test(spans, what_no_cut_makes_fit_is_refused_with_the_numbers)
{
    static const struct {
        attention_shape shape;
        const char *found;
    } refused[] = {
        {{.heads = 1, .q_rows = 1, .k_rows = 257, .head_dim = 64},
         "span 65792 bytes from offset 256 for one batch entry and kv head, maxStorageBufferRange "
         "is 65536"},
        {{.variant = RHUMB_VARIANT_UNFUSED, .batch = 2, .heads = 1, .q_rows = 1, .k_rows = 140,
          .head_dim = 64},
         "span 71680 bytes from offset 256, maxStorageBufferRange is 65536"},
    };
    rhumb_limits clamp;
    harness h;
    rhumb_init_limits(&clamp);
    clamp.max_storage_range = RANGE;
    harness_open_clamped(&h, HARNESS_LAVAPIPE, &clamp);
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        attention_run run;
        shape_make_attention(&run, &refused[i].shape, 3);
        harness_expect_refused(&h, &run.op, "beyond the range", RHUMB_ERROR_LIMIT,
                               "attention: slot 1: its views ", refused[i].found, &run.o);
        shape_free_attention(&run);
    }
    harness_close(&h);
}
