/* ATTENTION with packed sequences: each must give the bits that it gives alone, which the reference
 * agrees with. */
#include "shapes.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_SEQUENCES 6u

typedef struct packed_shape {
    attention_shape attention; /* of a sequence, but for its rows and keys */
    uint32_t sequences;
    uint32_t q_rows[MAX_SEQUENCES];
    uint32_t k_rows[MAX_SEQUENCES];
    bool slopes; /* ALiBi: bits alone are compared */
    uint32_t gap; /* rows and keys before the first sequence, and behind the last */
} packed_shape;

#define GENERIC .variant = RHUMB_VARIANT_GENERIC
#define TILE .variant = RHUMB_VARIANT_TILE
#define UNFUSED .variant = RHUMB_VARIANT_UNFUSED
#define F16 .dtype_q = RHUMB_F16, .dtype_k = RHUMB_F16, .dtype_v = RHUMB_F16, .dtype_o = RHUMB_F16
#define Q8 .dtype_k = RHUMB_Q8_0, .dtype_v = RHUMB_Q8_0

static const packed_shape generic_table[] = {
    {{GENERIC, .heads = 2, .head_dim = 8},
     .sequences = 1, .q_rows = {9}, .k_rows = {40}},
    {{GENERIC, .heads = 4, .kv_heads = 2, .head_dim = 8, .causal = true},
     .sequences = 5, .q_rows = {5, 1, 17, 2, 3}, .k_rows = {5, 40, 17, 33, 1}},
    {{GENERIC, .heads = 3, .kv_heads = 1, .head_dim = 40, .value_dim = 24, .causal = true},
     .sequences = 3, .q_rows = {1, 1, 1}, .k_rows = {131, 7, 64}, .gap = 3},
    /* without rows, without keys, without either, at both ends */
    {{GENERIC, .heads = 2, .head_dim = 8, .causal = true, .around = {.lse = true}},
     .sequences = 6, .q_rows = {0, 7, 0, 5, 3, 0}, .k_rows = {9, 11, 0, 0, 40, 0}},
    {{GENERIC, .heads = 2, .head_dim = 8, .causal = true, .windowed = true, .window_left = 5,
      .window_right = 0},
     .sequences = 3, .q_rows = {31, 17, 40}, .k_rows = {31, 40, 40}, .gap = 1},
    /* top-left, the same for all */
    {{GENERIC, .heads = 2, .head_dim = 8, .causal = true, .offset_given = true, .q_offset = 0},
     .sequences = 3, .q_rows = {9, 3, 40}, .k_rows = {12, 40, 9}},
    {{GENERIC, .heads = 2, .head_dim = 8, .causal = true, .by_position = true,
      .positions = SHAPE_SHARED, .position_first = 5},
     .sequences = 3, .q_rows = {9, 3, 20}, .k_rows = {12, 40, 20}},
    {{GENERIC, .heads = 2, .head_dim = 40, .causal = true, .rotary_dim = 16,
      .pairing = RHUMB_PAIRING_HALF},
     .sequences = 3, .q_rows = {9, 3, 20}, .k_rows = {12, 40, 20}},
    {{GENERIC, .heads = 2, .head_dim = 40, .causal = true, .rotary_dim = 16,
      .positions = SHAPE_SHARED, .position_first = 1000, .pairing = RHUMB_PAIRING_INTERLEAVED},
     .sequences = 3, .q_rows = {9, 0, 20}, .k_rows = {12, 40, 20}, .gap = 2},
    {{GENERIC, .heads = 4, .kv_heads = 2, .head_dim = 8, .causal = true,
      .around = {.lse = true, .sinks = true, .row_scale = true, .softcap = 5.0f}},
     .sequences = 4, .q_rows = {5, 1, 17, 2}, .k_rows = {5, 40, 17, 33}, .gap = 1},
    {{GENERIC, .heads = 4, .kv_heads = 2, .head_dim = 8, .causal = true},
     .sequences = 3, .q_rows = {5, 1, 17}, .k_rows = {5, 40, 17}, .slopes = true},
    {{UNFUSED, .heads = 4, .kv_heads = 2, .head_dim = 8, .causal = true,
      .around = {.lse = true, .row_scale = true}},
     .sequences = 4, .q_rows = {5, 1, 17, 2}, .k_rows = {5, 40, 17, 33}, .gap = 1},
    {{GENERIC, F16, .heads = 2, .head_dim = 21, .causal = true},
     .sequences = 4, .q_rows = {5, 1, 17, 2}, .k_rows = {5, 40, 17, 33},
     .gap = 1},
    {{GENERIC, Q8, .heads = 4, .kv_heads = 2, .head_dim = 64, .causal = true},
     .sequences = 3, .q_rows = {5, 1, 17}, .k_rows = {5, 40, 17}},
};

/* Fast forms: one pipeline a head size, dtype and set of views. */
static const packed_shape fast_table[] = {
    {{TILE, .heads = 4, .kv_heads = 2, .head_dim = 64, .causal = true,
      .around = {.lse = true, .row_scale = true}},
     .sequences = 5, .q_rows = {40, 1, 0, 77, 33}, .k_rows = {40, 50, 9, 77, 100}, .gap = 1},
    {{TILE, .heads = 2, .head_dim = 64, .causal = true, .rotary_dim = 64,
      .pairing = RHUMB_PAIRING_HALF, .positions = SHAPE_SHARED, .position_first = 9},
     .sequences = 3, .q_rows = {33, 5, 0}, .k_rows = {40, 50, 9}},
    /* the choice is rhumb's */
    {{.heads = 4, .kv_heads = 2, .head_dim = 64, .causal = true},
     .sequences = 4, .q_rows = {40, 1, 77, 33}, .k_rows = {40, 50, 77, 100}},
    {{.heads = 4, .kv_heads = 2, .head_dim = 64, .causal = true},
     .sequences = 3, .q_rows = {1, 1, 1}, .k_rows = {40, 129, 77}},
    {{.heads = 4, .kv_heads = 2, .head_dim = 64, .causal = true,
      .around = {.lse = true, .row_scale = true}},
     .sequences = 3, .q_rows = {40, 1, 33}, .k_rows = {40, 50, 100}},
    {{.heads = 4, .kv_heads = 2, .head_dim = 64, .causal = true},
     .sequences = 3, .q_rows = {40, 1, 33}, .k_rows = {40, 50, 100}, .slopes = true},
    /* decode with keys in slices, which some sequences do not reach */
    {{.heads = 4, .kv_heads = 2, .head_dim = 64, .causal = true, .workspace = true},
     .sequences = 4, .q_rows = {1, 2, 1, 1}, .k_rows = {40, 700, 0, 257}},
};

typedef struct packed {
    harness_tensor q, k, v, o, q_starts, k_starts, status, positions_q, positions_k;
    harness_tensor lse, row_scale, workspace;
    attention_run runs[MAX_SEQUENCES];
    attention_shape shapes[MAX_SEQUENCES];
    rhumb_alibi alibi;
    gpu_operation op;
    uint32_t q_total, k_total;
} packed;

/* {rows before, rows} of a sequence in the packed tensor. */
static uint32_t start_of(const packed_shape *s, const uint32_t *rows, uint32_t sequence)
{
    uint32_t start = s->gap;
    for (uint32_t i = 0; i < sequence; i++) {
        start += rows[i];
    }
    return start;
}

static void copy_rows(harness_tensor *to, const harness_tensor *from, uint32_t first, uint32_t rows)
{
    for (uint64_t h = 0; h < to->shape[1]; h++) {
        for (uint32_t a = 0; a < rows; a++) {
            memcpy(to->values + harness_index(to, 0, h, first + a, 0),
                   from->values + harness_index(from, 0, h, a, 0),
                   to->shape[3] * sizeof(double));
        }
    }
}

static void make_filled(harness_tensor *t, rhumb_dtype dtype, uint64_t h, uint64_t l, uint64_t d)
{
    harness_make_tensor(t, dtype, 1, h, l, d, (harness_layout){0});
    for (uint64_t i = 0; i < t->count; i++) {
        t->values[i] = dtype == RHUMB_I32 ? -7.0 : (double)NAN;
    }
}

static void make_starts(harness_tensor *t, const packed_shape *s, const uint32_t *rows)
{
    harness_make_tensor(t, RHUMB_I32, 1, 1, 1, s->sequences + 1, (harness_layout){0});
    for (uint32_t i = 0; i <= s->sequences; i++) {
        t->values[i] = start_of(s, rows, i);
    }
    harness_store(t);
}

/* A run of a sequence by itself; one row and key where it has none, which is not run then. */
static void make_alone(packed *p, const packed_shape *s, uint32_t i)
{
    p->shapes[i] = s->attention;
    p->shapes[i].q_rows = s->q_rows[i] != 0 ? s->q_rows[i] : 1;
    p->shapes[i].k_rows = s->k_rows[i] != 0 ? s->k_rows[i] : 1;
    shape_make_attention(&p->runs[i], &p->shapes[i], 17 + i);
    rhumb_init_alibi(&p->alibi);
    p->runs[i].op.info.scheme = s->slopes ? &p->alibi : NULL;
}

static void add_positions(harness_tensor *all, gpu_operation *op, rhumb_view_id id, uint32_t total)
{
    make_filled(all, RHUMB_I32, 1, 1, total);
    (void)harness_add(op, id, all, false);
}

/* {1, 1, heads, rows}: of all rows to or from those of a sequence. */
static void copy_row_values(double *to, uint64_t to_rows, const double *from, uint64_t from_rows,
                            uint64_t heads, uint32_t rows)
{
    for (uint64_t h = 0; h < heads; h++) {
        memcpy(to + h * to_rows, from + h * from_rows, rows * sizeof *to);
    }
}

/* Views beside the tensors; sinks are the first sequence's. */
static void add_around(packed *p, const packed_shape *s)
{
    const attention_shape *a = &s->attention;
    around_run *first = &p->runs[0].around;
    uint64_t logits = (uint64_t)a->heads * p->op.info.max_q_length * p->op.info.max_k_length;
    if (a->variant == RHUMB_VARIANT_UNFUSED) {
        harness_make_tensor(&p->workspace, RHUMB_F32, 1, 1, 1, s->sequences * logits,
                            (harness_layout){0});
        (void)harness_add(&p->op, RHUMB_VIEW_WORKSPACE, &p->workspace, true);
    }
    if (a->around.lse) {
        harness_make_tensor(&p->lse, RHUMB_F32, 1, 1, a->heads, p->q_total, (harness_layout){0});
        (void)harness_add(&p->op, RHUMB_VIEW_LSE, &p->lse, true);
    }
    for (uint32_t i = 1; i < s->sequences && a->around.sinks; i++) {
        memcpy(p->runs[i].around.sinks.values, first->sinks.values,
               first->sinks.count * sizeof(double));
        harness_store(&p->runs[i].around.sinks);
    }
    if (a->around.sinks) {
        (void)harness_add(&p->op, RHUMB_VIEW_SINKS, &first->sinks, false);
    }
    if (a->around.row_scale) {
        make_filled(&p->row_scale, RHUMB_F32, a->heads, p->q_total, 1);
        for (uint32_t i = 0; i < s->sequences; i++) {
            copy_row_values(p->row_scale.values + start_of(s, s->q_rows, i), p->q_total,
                            p->runs[i].around.row_scale.values, p->shapes[i].q_rows, a->heads,
                            s->q_rows[i]);
        }
        harness_store(&p->row_scale);
        p->row_scale.shape[1] = 1;
        p->row_scale.shape[2] = a->heads;
        p->row_scale.shape[3] = p->q_total;
        p->row_scale.stride[2] = p->q_total;
        (void)harness_add(&p->op, RHUMB_VIEW_ROW_SCALE, &p->row_scale, false);
    }
}

static void make_packed(packed *p, const packed_shape *s)
{
    uint32_t q_most = 1, k_most = 1;
    memset(p, 0, sizeof *p);
    for (uint32_t i = 0; i < s->sequences; i++) {
        make_alone(p, s, i);
        q_most = s->q_rows[i] > q_most ? s->q_rows[i] : q_most;
        k_most = s->k_rows[i] > k_most ? s->k_rows[i] : k_most;
    }
    const attention_run *first = &p->runs[0];
    p->q_total = start_of(s, s->q_rows, s->sequences) + s->gap;
    p->k_total = start_of(s, s->k_rows, s->sequences) + s->gap;
    p->op = first->op;
    p->op.tensor_count = 0;
    p->op.info.max_q_length = q_most;
    p->op.info.max_k_length = k_most;
    make_filled(&p->q, first->q.dtype, first->q.shape[1], p->q_total, first->q.shape[3]);
    make_filled(&p->k, first->k.dtype, first->k.shape[1], p->k_total, first->k.shape[3]);
    make_filled(&p->v, first->v.dtype, first->v.shape[1], p->k_total, first->v.shape[3]);
    harness_make_tensor(&p->o, first->o.dtype, 1, first->o.shape[1], p->q_total, first->o.shape[3],
                        (harness_layout){0});
    if (first->positions_q.count != 0) {
        add_positions(&p->positions_q, &p->op, RHUMB_VIEW_POSITIONS_Q, p->q_total);
    }
    if (first->positions_k.count != 0) {
        add_positions(&p->positions_k, &p->op, RHUMB_VIEW_POSITIONS_K, p->k_total);
    }
    for (uint32_t i = 0; i < s->sequences; i++) {
        const attention_run *run = &p->runs[i];
        uint32_t q = start_of(s, s->q_rows, i), k = start_of(s, s->k_rows, i);
        copy_rows(&p->q, &run->q, q, s->q_rows[i]);
        copy_rows(&p->k, &run->k, k, s->k_rows[i]);
        copy_rows(&p->v, &run->v, k, s->k_rows[i]);
        if (p->positions_q.count != 0) {
            memcpy(p->positions_q.values + q, run->positions_q.values,
                   s->q_rows[i] * sizeof(double));
        }
        if (p->positions_k.count != 0) {
            memcpy(p->positions_k.values + k, run->positions_k.values,
                   s->k_rows[i] * sizeof(double));
        }
    }
    harness_store(&p->q);
    harness_store(&p->k);
    harness_store(&p->v);
    harness_store(&p->positions_q);
    harness_store(&p->positions_k);
    make_starts(&p->q_starts, s, s->q_rows);
    make_starts(&p->k_starts, s, s->k_rows);
    harness_make_tensor(&p->status, RHUMB_I32, 1, 1, 1, 1, (harness_layout){0});
    harness_store(&p->status);
    (void)harness_add(&p->op, RHUMB_VIEW_Q, &p->q, false);
    (void)harness_add(&p->op, RHUMB_VIEW_K, &p->k, false);
    (void)harness_add(&p->op, RHUMB_VIEW_V, &p->v, false);
    (void)harness_add(&p->op, RHUMB_VIEW_O, &p->o, true);
    (void)harness_add(&p->op, RHUMB_VIEW_Q_STARTS, &p->q_starts, false);
    (void)harness_add(&p->op, RHUMB_VIEW_K_STARTS, &p->k_starts, false);
    (void)harness_add(&p->op, RHUMB_VIEW_STATUS, &p->status, true);
    add_around(p, s);
}

static void free_packed(packed *p, const packed_shape *s)
{
    harness_tensor *tensors[] = {&p->q,        &p->k,        &p->v,           &p->o,
                                 &p->q_starts, &p->k_starts, &p->positions_q, &p->positions_k,
                                 &p->status,   &p->lse,      &p->row_scale,   &p->workspace};
    for (size_t i = 0; i < sizeof tensors / sizeof tensors[0]; i++) {
        harness_free_tensor(tensors[i]);
    }
    for (uint32_t i = 0; i < s->sequences; i++) {
        shape_free_attention(&p->runs[i]);
    }
}

/* O of a sequence, as it stands in the packed tensor, into the run's. */
static void take_rows(harness_tensor *to, const harness_tensor *from, uint32_t first, uint32_t rows)
{
    uint64_t size = harness_dtype_size(to->dtype) * to->shape[3];
    for (uint64_t h = 0; h < to->shape[1]; h++) {
        for (uint32_t a = 0; a < rows; a++) {
            memcpy(to->memory + harness_byte(to, harness_index(to, 0, h, a, 0)),
                   from->memory + harness_byte(from, harness_index(from, 0, h, first + a, 0)),
                   size);
        }
    }
}

static bool all_zero(const harness_tensor *t)
{
    for (uint64_t i = 0; i < t->bytes; i++) {
        if (t->memory[i] != 0) {
            return false;
        }
    }
    return true;
}

/* The sequence alone gives the same bits, the reference the same numbers; without keys, zeros. */
static void check_sequence(harness *h, packed *p, const packed_shape *s, uint32_t i,
                           const char *text)
{
    attention_run *run = &p->runs[i];
    uint8_t *got = NULL;
    if (s->q_rows[i] == 0) {
        return;
    }
    take_rows(&run->o, &p->o, start_of(s, s->q_rows, i), s->q_rows[i]);
    if (s->attention.around.lse) {
        harness_load(&p->lse);
        copy_row_values(run->around.lse.values, p->shapes[i].q_rows,
                        p->lse.values + start_of(s, s->q_rows, i), p->q_total,
                        s->attention.heads, s->q_rows[i]);
        harness_store(&run->around.lse);
    }
    if (s->k_rows[i] == 0) {
        if (!all_zero(&run->o)) {
            harness_fail(h, "%s: a sequence without keys gives other rows than zeros", text);
        }
        return;
    }
    (void)(s->slopes || shape_check_attention(h, &p->shapes[i], run, text));
    got = harness_alloc(run->o.bytes, 1);
    memcpy(got, run->o.memory, run->o.bytes);
    gpu_fill_canary(run->o.memory, 0, run->o.bytes);
    if (p->shapes[i].variant != RHUMB_VARIANT_UNFUSED) { /* whose WORKSPACE follows from these */
        run->op.info.max_q_length = p->op.info.max_q_length;
        run->op.info.max_k_length = p->op.info.max_k_length;
        if (p->shapes[i].workspace) {
            (void)shape_add_workspace(h, &run->op, 1, &run->workspace);
        }
    }
    if (harness_run(h, &run->op) != RHUMB_OK) {
        harness_fail(h, "%s, alone: %s", text, run->op.message);
    } else if (memcmp(got, run->o.memory, run->o.bytes) != 0) {
        harness_fail(h, "%s: other bits than alone", text);
    }
    free(got);
}

/* Rows of no sequence are not written. */
static void check_gap(harness *h, const packed *p, const packed_shape *s, const char *text)
{
    for (uint64_t i = 0; i < p->o.count; i++) {
        uint64_t a = i / p->o.shape[3] % p->q_total;
        uint64_t byte = harness_byte(&p->o, i);
        uint64_t size = harness_dtype_size(p->o.dtype);
        uint8_t blank[16];
        gpu_fill_canary(blank, byte % 4, 8);
        if ((a < s->gap || a >= p->q_total - s->gap) &&
            memcmp(p->o.memory + byte, blank, size) != 0) {
            harness_fail(h, "%s: row %llu is of no sequence and was written", text,
                         (unsigned long long)a);
            return;
        }
    }
}

static void check_status(harness *h, harness_tensor *status, double want, const char *text)
{
    harness_load(status);
    if (status->values[0] != want) {
        harness_fail(h, "%s: STATUS counts %g, want %g", text, status->values[0], want);
    }
}

static void run_packed(harness *h, const packed_shape *s, size_t row)
{
    packed p;
    char text[64];
    make_packed(&p, s);
    snprintf(text, sizeof text, "packed row %zu", row);
    h->cases++;
    if (s->attention.workspace) {
        (void)shape_add_workspace(h, &p.op, s->sequences, &p.workspace);
    }
    if (harness_run(h, &p.op) != RHUMB_OK) {
        harness_fail(h, "%s: %s", text, p.op.message);
    } else {
        for (uint32_t i = 0; i < s->sequences; i++) {
            snprintf(text, sizeof text, "packed row %zu sequence %u", row, i);
            check_sequence(h, &p, s, i, text);
        }
        check_gap(h, &p, s, text);
        check_status(h, &p.status, 0, text);
    }
    free_packed(&p, s);
}

/* Starts that are wrong: {Q_STARTS}, {K_STARTS}, what STATUS counts, and the rows {first, end} of
 * each sequence that is compared with the run that has right ones. */
typedef struct bad_starts {
    int32_t q[4];
    int32_t k[4];
    uint32_t counted;
    bool same[3]; /* sequence i is as with right starts */
} bad_starts;

#define RIGHT_Q {0, 5, 9, 20}
#define RIGHT_K {0, 12, 30, 50}

static const bad_starts bad_table[] = {
    {RIGHT_Q, RIGHT_K, 0, {true, true, true}},
    {{-3, 5, 9, 20}, RIGHT_K, 1, {true, true, true}},
    {RIGHT_Q, {-2147483647, 12, 30, 50}, 1, {true, true, true}},
    {{0, 5, 9, 1000000}, {0, 12, 30, 2147483647}, 2, {true, true, true}},
    /* sequence 1 ends before it begins, so that it is empty; 2 begins where it says */
    {{0, 9, 9, 20}, RIGHT_K, 0, {false, false, true}},
    {RIGHT_Q, {0, 40, 30, 50}, 2, {false, false, true}}, /* and 0 is too long */
    /* longer than the plan's maxima, 11 rows and 20 keys */
    {{0, 0, 0, 20}, RIGHT_K, 1, {false, false, false}},
    {RIGHT_Q, {0, 12, 50, 50}, 1, {true, false, false}},
};

static void set_starts(harness_tensor *t, const int32_t *starts)
{
    for (uint32_t i = 0; i < 4; i++) {
        t->values[i] = starts[i];
    }
    harness_store(t);
}

static void run_bad_starts(harness *h)
{
    static const packed_shape shape = {{GENERIC, .heads = 4, .kv_heads = 2, .head_dim = 8},
                                       .sequences = 3, .q_rows = {5, 4, 11},
                                       .k_rows = {12, 18, 20}};
    packed p;
    harness_tensor right;
    make_packed(&p, &shape);
    harness_make_tensor(&right, p.o.dtype, 1, p.o.shape[1], p.o.shape[2], p.o.shape[3],
                        (harness_layout){0});
    for (size_t n = 0; n < sizeof bad_table / sizeof bad_table[0]; n++) {
        const bad_starts *bad = &bad_table[n];
        char text[64];
        snprintf(text, sizeof text, "bad starts %zu", n);
        set_starts(&p.q_starts, bad->q);
        set_starts(&p.k_starts, bad->k);
        p.status.values[0] = 0;
        harness_store(&p.status);
        h->cases++;
        if (harness_run(h, &p.op) != RHUMB_OK) {
            harness_fail(h, "%s: %s", text, p.op.message);
            continue;
        }
        check_status(h, &p.status, bad->counted, text);
        if (n == 0) {
            memcpy(right.memory, p.o.memory, p.o.bytes);
        }
        for (uint64_t i = 0; i < p.o.bytes; i++) {
            uint64_t a = i / 4 / p.o.shape[3] % p.q_total;
            uint32_t sequence = a < 5 ? 0 : a < 9 ? 1 : 2;
            if (bad->same[sequence] && p.o.memory[i] != right.memory[i]) {
                harness_fail(h, "%s: row %llu is not that of right starts", text,
                             (unsigned long long)a);
                break;
            }
        }
    }
    harness_free_tensor(&right);
    free_packed(&p, &shape);
}

static void run_tables(harness_profile profile)
{
    const size_t step = shape_step(profile, 4);
    harness h;
    harness_open(&h, profile);
    for (size_t i = 0; i < sizeof generic_table / sizeof generic_table[0]; i += step) {
        run_packed(&h, &generic_table[i], i);
    }
    for (size_t i = 0; i < sizeof fast_table / sizeof fast_table[0]; i += step) {
        run_packed(&h, &fast_table[i], 100 + i);
    }
    run_bad_starts(&h);
    harness_close(&h);
}

Test(packed, sequences_give_the_bits_that_each_gives_alone_on_lavapipe)
{
    run_tables(HARNESS_LAVAPIPE);
}

Test(packed, sequences_give_the_bits_that_each_gives_alone_on_the_smallest_device)
{
    run_tables(HARNESS_LAVAPIPE_FLOOR);
}

Test(packed, sequences_give_the_bits_that_each_gives_alone_on_swiftshader)
{
    run_tables(HARNESS_SWIFTSHADER);
}
