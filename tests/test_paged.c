/* ATTENTION with paged keys: the K and V of a shape are cut into blocks, strewn over pools that are
 * NaN elsewhere, and must give the bits that contiguous views give, which the reference agrees
 * with. */
#include "shapes.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SPARE_BLOCKS 3u  /* of the pool, which no entry names */
#define SPARE_ENTRIES 2u /* of each row of the table, beyond the keys */

typedef struct paged_shape {
    attention_shape attention;
    uint32_t block_rows;
    uint32_t bad_entries; /* of batch entry 0, from the first: they lie outside the pool */
    bool slopes; /* ALiBi: bits alone are compared */
    harness_layout pool;
} paged_shape;

#define GENERIC .variant = RHUMB_VARIANT_GENERIC
#define TILE .variant = RHUMB_VARIANT_TILE
#define UNFUSED .variant = RHUMB_VARIANT_UNFUSED
#define F16 .dtype_q = RHUMB_F16, .dtype_k = RHUMB_F16, .dtype_v = RHUMB_F16, .dtype_o = RHUMB_F16
#define Q8 .dtype_k = RHUMB_Q8_0, .dtype_v = RHUMB_Q8_0

static const paged_shape generic_table[] = {
    {{GENERIC, .heads = 2, .q_rows = 9, .k_rows = 40, .head_dim = 8}, .block_rows = 16},
    {{GENERIC, .heads = 2, .q_rows = 9, .k_rows = 41, .head_dim = 8, .causal = true},
     .block_rows = 1},
    {{GENERIC, .batch = 3, .heads = 4, .kv_heads = 2, .q_rows = 5, .k_rows = 37, .head_dim = 8,
      .causal = true},
     .block_rows = 7},
    {{GENERIC, .heads = 1, .q_rows = 1, .k_rows = 1, .head_dim = 8}, .block_rows = 64},
    {{GENERIC, .batch = 2, .heads = 6, .kv_heads = 3, .q_rows = 1, .k_rows = 131, .head_dim = 40,
      .value_dim = 24, .causal = true},
     .block_rows = 32},
    {{GENERIC, .heads = 2, .q_rows = 17, .k_rows = 70, .head_dim = 8, .causal = true,
      .windowed = true, .window_left = 9, .window_right = 0, .poison = SHAPE_NAN_HIDDEN},
     .block_rows = 5},
    {{GENERIC, .heads = 2, .q_rows = 9, .k_rows = 70, .head_dim = 8, .k_length = 33,
      .poison = SHAPE_NAN_HIDDEN},
     .block_rows = 16},
    {{GENERIC, .batch = 3, .heads = 2, .q_rows = 7, .k_rows = 40, .head_dim = 8, .lengths = true,
      .causal = true, .poison = SHAPE_NAN_HIDDEN},
     .block_rows = 8},
    {{GENERIC, .batch = 2, .heads = 2, .q_rows = 7, .k_rows = 40, .head_dim = 8,
      .by_position = true, .causal = true, .positions = SHAPE_REPEATS},
     .block_rows = 8},
    {{GENERIC, F16, .batch = 2, .heads = 2, .q_rows = 7, .k_rows = 40, .head_dim = 21,
      .causal = true},
     .block_rows = 3, .pool = {.by_rows = true, .row_pad = 1, .offset = 3}},
    {{GENERIC, Q8, .batch = 2, .heads = 2, .q_rows = 7, .k_rows = 40, .head_dim = 64,
      .causal = true},
     .block_rows = 16, .pool = {.row_pad = 32, .offset = 32}},
    {{GENERIC, .batch = 2, .heads = 4, .kv_heads = 2, .q_rows = 7, .k_rows = 40, .head_dim = 8,
      .causal = true,
      .around = {.lse = true, .sinks = true, .softcap = 5.0f, .mask = SHAPE_MASKED + 13,
                 .chunk = 16, .kept_keys = 3}},
     .block_rows = 8},
    {{UNFUSED, .batch = 2, .heads = 4, .kv_heads = 2, .q_rows = 7, .k_rows = 40, .head_dim = 8,
      .causal = true, .lengths = true, .around = {.lse = true}},
     .block_rows = 8},
    {{GENERIC, .batch = 2, .heads = 4, .kv_heads = 2, .q_rows = 7, .k_rows = 40, .head_dim = 8,
      .causal = true},
     .block_rows = 8, .slopes = true},
    /* entries outside the pool */
    {{UNFUSED, .batch = 2, .heads = 4, .kv_heads = 2, .q_rows = 9, .k_rows = 140, .head_dim = 8},
     .block_rows = 16, .bad_entries = 3},
    {{GENERIC, .batch = 2, .heads = 4, .kv_heads = 2, .q_rows = 9, .k_rows = 40, .head_dim = 8},
     .block_rows = 16, .bad_entries = 1},
    {{GENERIC, .heads = 4, .q_rows = 9, .k_rows = 301, .head_dim = 8, .causal = true},
     .block_rows = 1, .bad_entries = 200},
    {{GENERIC, .batch = 2, .heads = 2, .q_rows = 9, .k_rows = 40, .head_dim = 8, .k_length = 17},
     .block_rows = 8, .bad_entries = 5},
};

/* Fast forms: one pipeline a head size, dtype and set of views. */
static const paged_shape fast_table[] = {
    {{TILE, .heads = 2, .q_rows = 33, .k_rows = 127, .head_dim = 64, .causal = true},
     .block_rows = 16},
    {{TILE, .batch = 2, .heads = 4, .kv_heads = 2, .q_rows = 9, .k_rows = 70, .head_dim = 64,
      .k_length = 33, .poison = SHAPE_NAN_HIDDEN},
     .block_rows = 7, .bad_entries = 3},
    {{TILE, F16, .batch = 2, .heads = 2, .q_rows = 40, .k_rows = 77, .head_dim = 64,
      .causal = true},
     .block_rows = 1, .pool = {.by_rows = true, .row_pad = 4, .offset = 4}},
    /* the choice is rhumb's */
    {{.heads = 2, .q_rows = 33, .k_rows = 127, .head_dim = 64, .causal = true}, .block_rows = 16},
    {{.batch = 2, .heads = 8, .kv_heads = 2, .q_rows = 1, .k_rows = 129, .head_dim = 64,
      .causal = true},
     .block_rows = 16},
    {{Q8, .batch = 2, .heads = 8, .kv_heads = 2, .q_rows = 1, .k_rows = 129, .head_dim = 64},
     .block_rows = 32},
    {{.batch = 2, .heads = 4, .kv_heads = 2, .q_rows = 35, .k_rows = 70, .head_dim = 64,
      .causal = true},
     .block_rows = 16, .slopes = true},
    /* decode with keys in slices */
    {{.batch = 2, .heads = 8, .kv_heads = 2, .q_rows = 1, .k_rows = 600, .head_dim = 64,
      .causal = true, .workspace = true},
     .block_rows = 16},
    {{.heads = 4, .q_rows = 1, .k_rows = 301, .head_dim = 64, .workspace = true}, .block_rows = 1,
     .bad_entries = 200},
};

typedef struct pools {
    harness_tensor k, v, table, status;
} pools;

static uint32_t batch_of(const paged_shape *s)
{
    return s->attention.batch != 0 ? s->attention.batch : 1;
}

/* Blocks of a batch entry. */
static uint32_t blocks_of(const paged_shape *s)
{
    return (s->attention.k_rows + s->block_rows - 1) / s->block_rows;
}

/* Of batch entry 0 with keys below the key length. */
static uint32_t bad_used(const paged_shape *s)
{
    uint32_t keys = s->attention.k_length != 0 ? s->attention.k_length : s->attention.k_rows;
    uint32_t used = (keys + s->block_rows - 1) / s->block_rows;
    return s->bad_entries < used ? s->bad_entries : used;
}

static void make_pool(harness_tensor *pool, const paged_shape *s, const harness_tensor *from)
{
    uint32_t blocks = batch_of(s) * blocks_of(s) + SPARE_BLOCKS;
    harness_make_tensor(pool, from->dtype, blocks, from->shape[1], s->block_rows, from->shape[3],
                        s->pool);
    for (uint64_t i = 0; i < pool->count; i++) {
        pool->values[i] = (double)NAN;
    }
}

static void copy_key(harness_tensor *pool, uint64_t block, uint64_t row, const harness_tensor *from,
                     uint64_t b, uint64_t j)
{
    for (uint64_t h = 0; h < from->shape[1]; h++) {
        memcpy(pool->values + harness_index(pool, block, h, row, 0),
               from->values + harness_index(from, b, h, j, 0), from->shape[3] * sizeof(double));
    }
}

/* Block i of batch entry b; with bad entries those all stand for the last block. */
static uint64_t block_at(const paged_shape *s, const uint32_t *order, uint32_t b, uint32_t i)
{
    if (b == 0 && i < s->bad_entries) {
        return (uint64_t)batch_of(s) * blocks_of(s) + SPARE_BLOCKS - 1;
    }
    return order[b * blocks_of(s) + i];
}

static void make_table(pools *p, const paged_shape *s, const uint32_t *order)
{
    static const double outside[] = {-1.0, 1e9, -2147483648.0, 2147483647.0};
    uint32_t entries = blocks_of(s) + SPARE_ENTRIES;
    harness_make_tensor(&p->table, RHUMB_I32, 1, 1, batch_of(s), entries, (harness_layout){0});
    for (uint32_t b = 0; b < batch_of(s); b++) {
        for (uint32_t i = 0; i < entries; i++) {
            bool bad = i >= blocks_of(s) || (b == 0 && i < s->bad_entries);
            p->table.values[b * entries + i] =
                bad ? outside[i % 4] : (double)block_at(s, order, b, i);
        }
    }
    harness_store(&p->table);
}

static void make_pools(pools *p, const paged_shape *s, const attention_run *run)
{
    harness_random r = {.state = 77};
    uint32_t blocks = batch_of(s) * blocks_of(s);
    uint32_t *order = harness_alloc(blocks, sizeof *order);
    make_pool(&p->k, s, &run->k);
    make_pool(&p->v, s, &run->v);
    for (uint32_t i = 0; i < blocks; i++) {
        uint32_t other = harness_next(&r) % (i + 1);
        order[i] = order[other];
        order[other] = i + 1 < SPARE_BLOCKS ? i : i + 1; /* one spare block inside */
    }
    for (uint32_t b = 0; b < batch_of(s); b++) {
        for (uint32_t j = 0; j < s->attention.k_rows; j++) {
            uint64_t block = block_at(s, order, b, j / s->block_rows);
            copy_key(&p->k, block, j % s->block_rows, &run->k, b, j);
            copy_key(&p->v, block, j % s->block_rows, &run->v, b, j);
        }
    }
    make_table(p, s, order);
    harness_store(&p->k);
    harness_store(&p->v);
    harness_make_tensor(&p->status, RHUMB_I32, 1, 1, 1, 1, (harness_layout){0});
    harness_store(&p->status);
    free(order);
}

static void free_pools(pools *p)
{
    harness_free_tensor(&p->k);
    harness_free_tensor(&p->v);
    harness_free_tensor(&p->table);
    harness_free_tensor(&p->status);
}

/* All blocks of bad entries are the pool's last one: their keys are those of the last of them. */
static void repeat_keys(const paged_shape *s, attention_run *run)
{
    uint32_t last = (s->bad_entries - 1) * s->block_rows;
    for (uint32_t j = 0; s->bad_entries != 0 && j < last; j++) {
        uint32_t from = last + j % s->block_rows;
        if (from < s->attention.k_rows) {
            copy_key(&run->k, 0, j, &run->k, 0, from);
            copy_key(&run->v, 0, j, &run->v, 0, from);
        }
    }
    harness_store(&run->k);
    harness_store(&run->v);
}

static void replace(gpu_operation *op, rhumb_view_id id, harness_tensor *by)
{
    for (uint32_t i = 0; i < op->tensor_count; i++) {
        if (op->tensors[i].id == id) {
            gpu_operation scratch = {0};
            op->tensors[i] = *harness_add(&scratch, id, by, false);
        }
    }
}

static void check_status(harness *h, const paged_shape *s, harness_tensor *status, const char *text)
{
    harness_load(status);
    if (status->values[0] != (double)bad_used(s)) {
        harness_fail(h, "%s: STATUS counts %g entries, want %u", text, status->values[0],
                     bad_used(s));
    }
}

static void run_paged(harness *h, const paged_shape *s, size_t row)
{
    attention_run run;
    pools p;
    char text[64];
    uint8_t *got = NULL;
    gpu_operation paged;
    rhumb_alibi alibi;
    snprintf(text, sizeof text, "paged row %zu", row);
    shape_make_attention(&run, &s->attention, 91 + row);
    repeat_keys(s, &run);
    make_pools(&p, s, &run);
    if (s->attention.workspace) {
        (void)shape_add_workspace(h, &run.op, batch_of(s), &run.workspace);
    }
    rhumb_init_alibi(&alibi);
    run.op.info.scheme = s->slopes ? &alibi : NULL;
    paged = run.op;
    replace(&paged, RHUMB_VIEW_K, &p.k);
    replace(&paged, RHUMB_VIEW_V, &p.v);
    (void)harness_add(&paged, RHUMB_VIEW_BLOCK_TABLE, &p.table, false);
    if (!s->attention.lengths) {
        (void)harness_add(&paged, RHUMB_VIEW_STATUS, &p.status, true);
    }
    got = harness_alloc(run.o.bytes, 1);
    h->cases++;
    if (harness_run(h, &paged) != RHUMB_OK) {
        harness_fail(h, "%s: %s", text, paged.message);
    } else {
        (void)(s->slopes || shape_check_attention(h, &s->attention, &run, text));
        memcpy(got, run.o.memory, run.o.bytes);
        gpu_fill_canary(run.o.memory, 0, run.o.bytes);
        if (harness_run(h, &run.op) != RHUMB_OK) {
            harness_fail(h, "%s, contiguous: %s", text, run.op.message);
        } else if (memcmp(got, run.o.memory, run.o.bytes) != 0) {
            harness_fail(h, "%s: other bits than from contiguous views", text);
        }
        if (!s->attention.lengths) {
            check_status(h, s, &p.status, text);
        }
    }
    free(got);
    free_pools(&p);
    shape_free_attention(&run);
}

static void run_tables(harness_profile profile)
{
    const size_t step = shape_step(profile, 4);
    harness h;
    harness_open(&h, profile);
    for (size_t i = 0; i < sizeof generic_table / sizeof generic_table[0]; i += step) {
        run_paged(&h, &generic_table[i], i);
    }
    for (size_t i = 0; i < sizeof fast_table / sizeof fast_table[0]; i += step) {
        run_paged(&h, &fast_table[i], 100 + i);
    }
    harness_close(&h);
}

Test(paged, keys_in_blocks_of_a_pool_give_the_bits_of_contiguous_ones_on_lavapipe)
{
    run_tables(HARNESS_LAVAPIPE);
}

Test(paged, keys_in_blocks_of_a_pool_give_the_bits_of_contiguous_ones_on_the_smallest_device)
{
    run_tables(HARNESS_LAVAPIPE_FLOOR);
}

Test(paged, keys_in_blocks_of_a_pool_give_the_bits_of_contiguous_ones_on_swiftshader)
{
    run_tables(HARNESS_SWIFTSHADER);
}
