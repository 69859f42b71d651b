/* BIAS on every profile: each scheme with scalars by distance, every dtype, layouts that vectors
 * cannot follow, rows against the ends of what is asked for; each element against the reference,
 * bytes of elements that a record leaves out against what was there. */
#include "shapes_bias.h"

#include <criterion/criterion.h>

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
        (void)shape_run_bias(&h, &table[i]);
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
