/* BIAS on every profile: each scheme with scalars by distance, every dtype, layouts that vectors
 * cannot follow, rows against the ends of what is asked for; each element against the reference,
 * bytes of elements that a record leaves out against what was there. */
#include "reference/relative.h"
#include "shapes.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COUNT(array) (sizeof(array) / sizeof(array)[0])

/* ---- schemes ---- */
static const void *t5_encoder(void)
{
    static rhumb_t5 p;
    rhumb_init_t5(&p);
    return &p;
}

static const void *t5_decoder(void)
{
    static rhumb_t5 p;
    rhumb_init_t5(&p);
    p.bidirectional = 0;
    return &p;
}

static const void *t5_scaled(void)
{
    static rhumb_t5 p;
    rhumb_init_t5(&p);
    p.num_buckets = 12;
    p.max_distance = 40;
    p.bias_scale = -2.5;
    return &p;
}

static const void *t5_wide(void)
{
    static rhumb_t5 p;
    rhumb_init_t5(&p);
    p.num_buckets = 320;
    p.max_distance = 800;
    return &p;
}

static const void *shaw(void)
{
    static rhumb_shaw p;
    rhumb_init_shaw(&p);
    p.clip_left = 5;
    p.clip_right = 3;
    return &p;
}

static const void *shaw_mirrored(void)
{
    static rhumb_shaw p;
    rhumb_init_shaw(&p);
    p.index = RHUMB_QUERY_MINUS_KEY;
    p.clip_left = 160;
    p.clip_right = 159;
    return &p;
}

static const void *alibi(void)
{
    static rhumb_alibi p;
    rhumb_init_alibi(&p);
    return &p;
}

static const void *alibi_of(rhumb_alibi_form form)
{
    static rhumb_alibi p;
    rhumb_init_alibi(&p);
    p.form = form;
    p.bias_max = 16;
    return &p;
}

static const void *alibi_relative(void)
{
    return alibi_of(RHUMB_ALIBI_RELATIVE);
}

static const void *alibi_key_index(void)
{
    return alibi_of(RHUMB_ALIBI_KEY_INDEX);
}

static const void *alibi_last_key(void)
{
    return alibi_of(RHUMB_ALIBI_LAST_KEY);
}

static const void *alibi_key_position(void)
{
    return alibi_of(RHUMB_ALIBI_KEY_POSITION);
}

static const void *alibi_falcon(void)
{
    static rhumb_alibi p;
    rhumb_init_alibi(&p);
    p.form = RHUMB_ALIBI_KEY_INDEX;
    p.bias_times_scale = 1;
    p.sloped_heads = 2;
    return &p;
}

static const void *alibi_two_sides(void)
{
    static const double left[3] = {0.5, 0.25, 1.75}, right[3] = {0.125, 3.0, 0.0};
    static rhumb_alibi p;
    rhumb_init_alibi(&p);
    p.slopes = RHUMB_ALIBI_SLOPES_EXPLICIT;
    p.left_slopes = left;
    p.right_slopes = right;
    p.list_count = 3;
    return &p;
}

/* ---- one row of a table of shapes ---- */
typedef struct bias_shape {
    const void *(*scheme)(void);
    uint32_t heads;
    uint32_t q_rows;
    uint32_t k_rows;
    rhumb_dtype dtype; /* of O */
    rhumb_dtype table_dtype;
    harness_layout layout; /* of O */
    harness_layout table_layout;
    bool offset_given;
    int32_t q_offset;
    uint32_t q_length; /* of the dispatch; 0: unset */
    uint32_t k_length;
    shape_positions positions; /* SHAPE_ARANGE: no views */
    bool keys_only;            /* POSITIONS_K alone */
    bool lengths;              /* LENGTHS asks for one row and three keys less, STATUS is there */
    bool lengths_beyond;       /* for more than there is: clamped, and counted */
} bias_shape;

typedef struct bias_run {
    ref_t5 t5;
    ref_shaw shaw;
    ref_alibi slopes;
    double left[RHUMB_MAX_SLOPES], right[RHUMB_MAX_SLOPES];
    ref_terms terms;
    double inside; /* factor of everything */
    uint32_t rows;
    harness_tensor o, before, table, positions_q, positions_k, lengths, status;
    int32_t *keys; /* positions */
    int32_t *queries;
    uint32_t q_length, k_length; /* that are written */
    gpu_operation op;
} bias_run;

static void read_alibi(bias_run *run, const rhumb_alibi *p, uint32_t heads)
{
    static const ref_alibi_form forms[] = {
        [RHUMB_ALIBI_SYMMETRIC] = REF_ALIBI_SYMMETRIC,
        [RHUMB_ALIBI_RELATIVE] = REF_ALIBI_RELATIVE,
        [RHUMB_ALIBI_KEY_INDEX] = REF_ALIBI_KEY_INDEX,
        [RHUMB_ALIBI_LAST_KEY] = REF_ALIBI_LAST_KEY,
        [RHUMB_ALIBI_KEY_POSITION] = REF_ALIBI_KEY_POSITION,
    };
    uint32_t sloped = p->sloped_heads < heads ? p->sloped_heads : heads;
    if (p->slopes == RHUMB_ALIBI_SLOPES_EXPLICIT) {
        memcpy(run->left, p->left_slopes, heads * sizeof run->left[0]);
        memcpy(run->right, p->right_slopes, heads * sizeof run->right[0]);
        run->slopes.slopes_right = run->right;
    } else {
        cr_assert_eq(ref_alibi_slopes(0, sloped, p->bias_max, heads, run->left), 0);
    }
    run->slopes.slopes = run->left;
    run->slopes.form = forms[p->form];
    run->slopes.positions = p->form == RHUMB_ALIBI_KEY_POSITION ? run->keys : NULL;
    run->slopes.k_rows = run->k_length;
    run->inside = p->bias_times_scale ? 0.5 : 1.0;
    cr_assert_eq(ref_alibi_terms(&run->slopes, &run->terms), 0);
}

static void read_scheme(bias_run *run, const void *scheme, uint32_t heads)
{
    run->inside = 1.0;
    switch (((const rhumb_header *)scheme)->type) {
    case RHUMB_TYPE_T5: {
        const rhumb_t5 *p = scheme;
        run->t5 = (ref_t5){.bidirectional = p->bidirectional != 0,
                           .buckets = p->num_buckets,
                           .most = p->max_distance,
                           .scale = p->bias_scale,
                           .table = &run->inside};
        cr_assert_eq(ref_t5_terms(&run->t5, heads, &run->terms), 0);
        run->rows = p->num_buckets;
        break;
    }
    case RHUMB_TYPE_SHAW: {
        const rhumb_shaw *p = scheme;
        run->shaw =
            (ref_shaw){.index = p->index == RHUMB_KEY_MINUS_QUERY ? REF_SHAW_KEY_MINUS_QUERY
                                                                  : REF_SHAW_QUERY_MINUS_KEY,
                       .left = p->clip_left,
                       .right = p->clip_right,
                       .keys = &run->inside};
        cr_assert_eq(ref_shaw_terms(&run->shaw, 1, 1, &run->terms), 0);
        run->rows = p->clip_left + p->clip_right + 1;
        break;
    }
    default: read_alibi(run, scheme, heads); break;
    }
}

static void add_positions(bias_run *run, rhumb_view_id id, harness_tensor *t, int32_t *positions,
                          uint32_t count)
{
    harness_make_tensor(t, RHUMB_I32, 1, 1, 1, count, (harness_layout){0});
    for (uint32_t i = 0; i < count; i++) {
        t->values[i] = positions[i];
    }
    harness_store(t);
    (void)harness_add(&run->op, id, t, false);
}

/* Row a has the position queries[a], key j keys[j]. */
static void make_positions(bias_run *run, const bias_shape *s)
{
    int32_t offset =
        s->offset_given ? s->q_offset : (int32_t)run->k_length - (int32_t)run->q_length;
    run->queries = harness_alloc(s->q_rows, sizeof *run->queries);
    run->keys = harness_alloc(s->k_rows, sizeof *run->keys);
    for (uint32_t a = 0; a < s->q_rows; a++) {
        run->queries[a] = (int32_t)a + offset;
    }
    for (uint32_t j = 0; j < s->k_rows; j++) {
        run->keys[j] = (int32_t)j;
    }
    if (s->positions == SHAPE_ARANGE) {
        return;
    }
    shape_fill_positions(s->positions, 7, 1, s->k_rows, run->keys);
    add_positions(run, RHUMB_VIEW_POSITIONS_K, &run->positions_k, run->keys, s->k_rows);
    if (!s->keys_only) {
        shape_fill_positions(s->positions, 3, 1, s->q_rows, run->queries);
        add_positions(run, RHUMB_VIEW_POSITIONS_Q, &run->positions_q, run->queries, s->q_rows);
    }
}

static void make_lengths(bias_run *run, const bias_shape *s)
{
    harness_make_tensor(&run->lengths, RHUMB_I32, 1, 1, 1, 4, (harness_layout){0});
    harness_make_tensor(&run->status, RHUMB_I32, 1, 1, 1, 1, (harness_layout){0});
    run->lengths.values[0] = s->lengths_beyond ? 1e9 : run->k_length;
    run->lengths.values[1] = s->lengths_beyond ? 1e9 : run->q_length;
    run->lengths.values[2] = s->offset_given ? s->q_offset : RHUMB_UNSET;
    run->lengths.values[3] = RHUMB_UNSET;
    harness_store(&run->lengths);
    harness_store(&run->status);
    (void)harness_add(&run->op, RHUMB_VIEW_LENGTHS, &run->lengths, false);
    (void)harness_add(&run->op, RHUMB_VIEW_STATUS, &run->status, true);
}

static void make_run(bias_run *run, const bias_shape *s)
{
    harness_random r = {.state = 5 + s->heads + 31 * s->q_rows + 1009 * s->k_rows};
    memset(run, 0, sizeof *run);
    gpu_init_operation(&run->op, RHUMB_OP_BIAS);
    run->op.info.scheme = s->scheme();
    run->op.info.heads = s->heads;
    run->op.info.head_dim = 4; /* scale 1/2 */
    run->op.info.max_q_length = s->q_rows;
    run->op.info.max_k_length = s->k_rows;
    run->q_length = s->q_length ? s->q_length : s->q_rows;
    run->k_length = s->k_length ? s->k_length : s->k_rows;
    if (s->lengths && !s->lengths_beyond) {
        run->q_length -= 1;
        run->k_length -= 3;
    }
    if (!s->lengths) {
        run->op.dispatch.q_length = s->q_length ? (int32_t)s->q_length : RHUMB_UNSET;
        run->op.dispatch.k_length = s->k_length ? (int32_t)s->k_length : RHUMB_UNSET;
        run->op.dispatch.q_offset = s->offset_given ? s->q_offset : RHUMB_UNSET;
    }
    harness_make_tensor(&run->o, s->dtype, 1, s->heads, s->q_rows, s->k_rows, s->layout);
    harness_make_tensor(&run->before, s->dtype, 1, s->heads, s->q_rows, s->k_rows, s->layout);
    (void)harness_add(&run->op, RHUMB_VIEW_O, &run->o, true);
    make_positions(run, s);
    read_scheme(run, run->op.info.scheme, s->heads);
    if (s->lengths) {
        make_lengths(run, s);
    }
    if (run->rows) {
        harness_make_tensor(&run->table, s->table_dtype, 1, 1, run->rows, s->heads,
                            s->table_layout);
        harness_fill_normal(&run->table, &r);
        (void)harness_add(&run->op, RHUMB_VIEW_TABLE, &run->table, false);
        run->terms.b = (ref_table){run->table.values, 1, s->heads};
    }
}

static void free_run(bias_run *run)
{
    harness_tensor *tensors[] = {&run->o,           &run->before,  &run->table, &run->positions_q,
                                 &run->positions_k, &run->lengths, &run->status};
    for (size_t i = 0; i < COUNT(tensors); i++) {
        harness_free_tensor(tensors[i]);
    }
    free(run->keys);
    free(run->queries);
}

/* Table and slope in double; *error: what float32 may add. */
static double expected(const bias_run *run, uint32_t h, uint32_t a, uint32_t j, double *error)
{
    const ref_pair_place place = {.b = 0,
                                  .h = h,
                                  .j = j,
                                  .delta = (int64_t)run->keys[j] - run->queries[a],
                                  .k_length = run->k_length};
    const ref_terms *t = &run->terms;
    double table = 0.0, slope = 0.0;
    if (t->b.data != NULL) {
        int64_t row = t->row(t->row_user, place.delta, 0);
        cr_assert(row >= 0 && row < t->rows);
        table = t->b.data[(uint64_t)row * t->b.row_stride + h] * t->b_scale;
    }
    if (t->bias != NULL) {
        slope = t->bias(t->bias_user, &place);
    }
    /* slope, distance and scale as floats, two products and a sum: half a unit each */
    *error = ldexp(fabs(table) + fabs(slope), -24) * 6.0 * run->inside;
    return (table + slope) * run->inside;
}

static void check_rest(harness *h, const bias_run *run, const char *text, const bool *written)
{
    uint64_t size = harness_dtype_size(run->o.dtype);
    for (uint64_t i = 0; i < run->o.count; i++) {
        uint64_t at = harness_byte(&run->o, i);
        if (!written[i] && memcmp(run->o.memory + at, run->before.memory + at, size) != 0) {
            harness_fail(h, "bias: %s: element %llu beyond the lengths was written", text,
                         (unsigned long long)i);
            return;
        }
    }
}

static void check_run(harness *h, bias_run *run, const bias_shape *s, const char *text)
{
    double *want = harness_alloc(run->o.count, sizeof *want);
    double *bound = harness_alloc(run->o.count, sizeof *bound);
    bool *written = harness_alloc(run->o.count, sizeof *written);
    bool *skip = harness_alloc(run->o.count, sizeof *skip);
    for (uint64_t i = 0; i < run->o.count; i++) {
        uint32_t j = (uint32_t)(i % s->k_rows), a = (uint32_t)(i / s->k_rows % s->q_rows);
        written[i] = a < run->q_length && j < run->k_length;
        skip[i] = !written[i];
        if (written[i]) {
            want[i] = expected(run, (uint32_t)(i / s->k_rows / s->q_rows), a, j, &bound[i]);
            bound[i] += harness_rounding(run->o.dtype, want[i] + bound[i]) + 1e-37;
        }
    }
    harness_load(&run->o);
    (void)harness_compare(h, "bias", text, &run->o, want, bound, skip);
    check_rest(h, run, text, written);
    if (s->lengths) {
        double clamped = s->lengths_beyond ? 2.0 : 0.0;
        harness_load(&run->status);
        if (run->status.values[0] != clamped) {
            harness_fail(h, "bias: %s: STATUS counts %g clamped lengths, want %g", text,
                         run->status.values[0], clamped);
        }
    }
    free(want);
    free(bound);
    free(written);
    free(skip);
}

static void run_shape(harness *h, const bias_shape *s, size_t number)
{
    static bias_run run;
    char text[128];
    make_run(&run, s);
    snprintf(text, sizeof text, "row %zu of the table, %u heads, %u x %u, table %s", number,
             s->heads, s->q_rows, s->k_rows, harness_dtype_name(s->table_dtype));
    h->cases++;
    if (harness_run(h, &run.op) != RHUMB_OK) {
        harness_fail(h, "bias: %s: %s", text, run.op.message);
    } else {
        check_run(h, &run, s, text);
    }
    free_run(&run);
}

#define F16 .dtype = RHUMB_F16
#define BF16 .dtype = RHUMB_BF16
#define ODD                                                                                        \
    {                                                                                              \
        .row_pad = 5, .offset = 3                                                                  \
    }
#define ROWS                                                                                       \
    {                                                                                              \
        .by_rows = true                                                                            \
    }
#define ROWS_ODD                                                                                   \
    {                                                                                              \
        .by_rows = true, .row_pad = 3, .offset = 1                                                 \
    }

static const bias_shape table[] = {
    /* each scheme */
    {t5_encoder, .heads = 8, .q_rows = 64, .k_rows = 256},
    {t5_decoder, .heads = 8, .q_rows = 131, .k_rows = 131},
    {t5_scaled, .heads = 3, .q_rows = 61, .k_rows = 113},
    {t5_wide, .heads = 12, .q_rows = 3, .k_rows = 1733},
    {shaw, .heads = 3, .q_rows = 23, .k_rows = 29},
    {shaw_mirrored, .heads = 1, .q_rows = 11, .k_rows = 509},
    {alibi, .heads = 12, .q_rows = 31, .k_rows = 64},
    {alibi_relative, .heads = 12, .q_rows = 31, .k_rows = 64},
    {alibi_key_index, .heads = 6, .q_rows = 7, .k_rows = 41},
    {alibi_last_key, .heads = 6, .q_rows = 7, .k_rows = 41},
    {alibi_falcon, .heads = 3, .q_rows = 7, .k_rows = 41},
    {alibi_two_sides, .heads = 3, .q_rows = 17, .k_rows = 17},
    /* head counts, single rows and keys */
    {t5_encoder, .heads = 1, .q_rows = 1, .k_rows = 1},
    {t5_encoder, .heads = 112, .q_rows = 5, .k_rows = 7},
    {alibi, .heads = 112, .q_rows = 1, .k_rows = 67},
    {alibi, .heads = 1, .q_rows = 3, .k_rows = 1},
    {t5_decoder, .heads = 9, .q_rows = 2, .k_rows = 3},
    /* decode, chunks, more queries than keys, offsets */
    {t5_decoder, .heads = 8, .q_rows = 1, .k_rows = 300},
    {t5_decoder, .heads = 3, .q_rows = 5, .k_rows = 64, .offset_given = true, .q_offset = 59},
    {t5_encoder, .heads = 3, .q_rows = 40, .k_rows = 13},
    {t5_encoder, .heads = 3, .q_rows = 40, .k_rows = 13, .offset_given = true},
    {alibi, .heads = 3, .q_rows = 9, .k_rows = 20, .offset_given = true, .q_offset = -100},
    {alibi, .heads = 3, .q_rows = 9, .k_rows = 20, .offset_given = true, .q_offset = 100000},
    {t5_encoder, .heads = 2, .q_rows = 4, .k_rows = 8, .offset_given = true,
     .q_offset = 2147483643},
    {t5_encoder, .heads = 2, .q_rows = 4, .k_rows = 8, .offset_given = true,
     .q_offset = -1073741824},
    /* 16-bit O and tables */
    {t5_encoder, F16, .heads = 8, .q_rows = 16, .k_rows = 128},
    {t5_encoder, BF16, .heads = 8, .q_rows = 16, .k_rows = 128, .table_dtype = RHUMB_BF16},
    {t5_encoder, F16, .heads = 3, .q_rows = 7, .k_rows = 13, .table_dtype = RHUMB_F16},
    {t5_encoder, BF16, .heads = 3, .q_rows = 7, .k_rows = 13},
    {t5_encoder, .heads = 5, .q_rows = 7, .k_rows = 13, .table_dtype = RHUMB_F16},
    {alibi, F16, .heads = 12, .q_rows = 5, .k_rows = 37},
    {alibi, BF16, .heads = 12, .q_rows = 5, .k_rows = 36},
    /* layouts: rows of a wider buffer, odd offsets, rows that share words, strided tables */
    {t5_encoder, .heads = 3, .q_rows = 9, .k_rows = 16, .layout = ROWS},
    {t5_encoder, .heads = 3, .q_rows = 9, .k_rows = 16, .layout = ODD},
    {t5_encoder, .heads = 3, .q_rows = 9, .k_rows = 16, .layout = ROWS_ODD, .table_layout = ODD},
    {t5_encoder, F16, .heads = 3, .q_rows = 9, .k_rows = 15, .layout = ODD},
    {t5_encoder, BF16, .heads = 3, .q_rows = 9, .k_rows = 15, .layout = ROWS_ODD,
     .table_dtype = RHUMB_F16, .table_layout = ROWS_ODD},
    {t5_encoder, F16, .heads = 3, .q_rows = 9, .k_rows = 16, .layout = {.row_pad = 4, .offset = 8}},
    {alibi, F16, .heads = 7, .q_rows = 5, .k_rows = 5},
    /* fewer rows and keys than the views have */
    {t5_encoder, .heads = 3, .q_rows = 9, .k_rows = 16, .q_length = 4, .k_length = 11},
    {t5_encoder, F16, .heads = 3, .q_rows = 9, .k_rows = 16, .q_length = 4, .k_length = 11},
    {alibi_last_key, .heads = 3, .q_rows = 9, .k_rows = 16, .q_length = 9, .k_length = 5},
    {t5_decoder, .heads = 3, .q_rows = 9, .k_rows = 16, .lengths = true},
    {alibi_last_key, F16, .heads = 3, .q_rows = 9, .k_rows = 17, .lengths = true},
    {alibi, .heads = 3, .q_rows = 9, .k_rows = 16, .lengths = true, .offset_given = true,
     .q_offset = 12},
    {t5_decoder, .heads = 3, .q_rows = 9, .k_rows = 16, .lengths = true, .lengths_beyond = true},
    /* positions of views; differences beyond an int stand for the last bucket */
    {t5_encoder, .heads = 3, .q_rows = 9, .k_rows = 33, .positions = SHAPE_JUMPS},
    {t5_decoder, .heads = 3, .q_rows = 9, .k_rows = 33, .positions = SHAPE_REVERSED},
    {t5_encoder, .heads = 3, .q_rows = 33, .k_rows = 33, .positions = SHAPE_ANYWHERE},
    {shaw, .heads = 3, .q_rows = 9, .k_rows = 33, .positions = SHAPE_ANYWHERE},
    {alibi, .heads = 3, .q_rows = 9, .k_rows = 32, .positions = SHAPE_NEGATIVE},
    {alibi_key_position, .heads = 3, .q_rows = 9, .k_rows = 33, .positions = SHAPE_REPEATS,
     .keys_only = true},
    {alibi_key_position, .heads = 3, .q_rows = 9, .k_rows = 33, .positions = SHAPE_JUMPS},
};

/* ---- rows, exactly: a TABLE that holds its own row numbers ---- */
static void check_rows_of(harness *h, const void *scheme, uint32_t rows)
{
    enum { KEYS = 1021 };
    static int32_t delta[KEYS], want[KEYS];
    harness_random r = {.state = rows};
    harness_tensor o, numbers, at_q, at_k;
    gpu_operation op;
    gpu_init_operation(&op, RHUMB_OP_BIAS);
    op.info.scheme = scheme;
    op.info.heads = op.info.head_dim = op.info.max_q_length = 1;
    op.info.max_k_length = KEYS;
    harness_make_tensor(&o, RHUMB_F32, 1, 1, 1, KEYS, (harness_layout){0});
    harness_make_tensor(&numbers, RHUMB_F32, 1, 1, rows, 1, (harness_layout){0});
    harness_make_tensor(&at_q, RHUMB_I32, 1, 1, 1, 1, (harness_layout){0});
    harness_make_tensor(&at_k, RHUMB_I32, 1, 1, 1, KEYS, (harness_layout){0});
    for (uint32_t i = 0; i < rows; i++) {
        numbers.values[i] = i;
    }
    for (int32_t i = 0; i < KEYS; i++) {
        int32_t size = (int32_t)(harness_next(&r) >> (1 + harness_next(&r) % 31));
        delta[i] = i < 700 ? i - 350 : i % 2 ? size : -size;
        at_k.values[i] = delta[i];
    }
    at_k.values[KEYS - 1] = delta[KEYS - 1] = INT32_MAX;
    at_k.values[KEYS - 2] = delta[KEYS - 2] = -INT32_MAX;
    at_k.values[KEYS - 3] = delta[KEYS - 3] = 1 << 30;
    at_k.values[KEYS - 4] = delta[KEYS - 4] = -(1 << 30);
    harness_store(&numbers);
    harness_store(&at_q);
    harness_store(&at_k);
    cr_assert_eq(rhumb_relative_rows(scheme, 1, 1, delta, KEYS, want), RHUMB_OK);
    (void)harness_add(&op, RHUMB_VIEW_O, &o, true);
    (void)harness_add(&op, RHUMB_VIEW_TABLE, &numbers, false);
    (void)harness_add(&op, RHUMB_VIEW_POSITIONS_Q, &at_q, false);
    (void)harness_add(&op, RHUMB_VIEW_POSITIONS_K, &at_k, false);
    h->cases++;
    if (harness_run(h, &op) != RHUMB_OK) {
        harness_fail(h, "rows: %s", op.message);
    }
    harness_load(&o);
    for (uint32_t i = 0; i < KEYS; i++) {
        if (o.values[i] != want[i]) {
            harness_fail(h, "rows: distance %d: got row %g, want %d", delta[i], o.values[i],
                         want[i]);
            break;
        }
    }
    harness_free_tensor(&o);
    harness_free_tensor(&numbers);
    harness_free_tensor(&at_q);
    harness_free_tensor(&at_k);
}

static void check_rows(harness *h)
{
    static const uint32_t t5_rows[][3] = {{32, 128, 1},  {32, 128, 0},       {33, 128, 0},
                                          {12, 40, 1},   {4, 3, 1},          {64, 1000000, 1},
                                          {320, 800, 1}, {4096, 1000000, 1}, {2048, 5000, 0}};
    for (size_t i = 0; i < COUNT(t5_rows); i++) {
        rhumb_t5 p;
        rhumb_init_t5(&p);
        p.num_buckets = t5_rows[i][0];
        p.max_distance = t5_rows[i][1];
        p.bidirectional = t5_rows[i][2];
        check_rows_of(h, &p, p.num_buckets);
    }
    check_rows_of(h, shaw(), 9);
    check_rows_of(h, shaw_mirrored(), 320);
}

static void run_profile(harness_profile profile)
{
    harness h;
    harness_open(&h, profile);
    for (size_t i = 0; i < COUNT(table); i++) {
        run_shape(&h, &table[i], i);
    }
    check_rows(&h);
    harness_close(&h);
}

Test(bias, equals_the_reference_on_lavapipe)
{
    run_profile(HARNESS_LAVAPIPE);
}

Test(bias, equals_the_reference_on_the_floor)
{
    run_profile(HARNESS_LAVAPIPE_FLOOR);
}

Test(bias, equals_the_reference_on_swiftshader)
{
    run_profile(HARNESS_SWIFTSHADER);
}
