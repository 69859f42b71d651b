/* rhumb_relative_rows: the row of a scheme's tables for every distance, against published tables,
 * against the exact buckets of the reference and against each scheme's formula written out; and
 * rhumb_alibi_slopes_of. No device. */
#include "harness.h"
#include "reference/relative.h"

#include <rhumb/rhumb_schemes.h>

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>

#define COUNT(array) (sizeof(array) / sizeof(array)[0])
#define FAR (1 << 30)

static int32_t row_of(const void *scheme, uint32_t q_length, uint32_t k_length, int32_t delta)
{
    int32_t row = INT32_MIN;
    rhumb_result result = rhumb_relative_rows(scheme, q_length, k_length, &delta, 1, &row);
    cr_assert_eq(result, RHUMB_OK, "%s", rhumb_last_message(NULL));
    return row;
}

static void expect_row(const void *scheme, const char *what, int64_t delta, int64_t want)
{
    int32_t got = row_of(scheme, 1, 1, (int32_t)delta);
    cr_assert_eq(got, want, "%s: distance %lld: wanted row %lld, got %d", what, (long long)delta,
                 (long long)want, got);
}

/* ---- T5: first distance of each bucket after the exact ones ---- */
static const struct {
    uint32_t num_buckets, max_distance, bidirectional, count;
    uint32_t first[80];
} t5_rows[] = {
    {32, 128, 1, 8, {8, 12, 16, 23, 32, 46, 64, 91}},
    {32, 128, 0, 16, {16, 19, 21, 24, 27, 31, 35, 40, 46, 52, 59, 67, 77, 87, 99, 113}},
    {64, 128, 1, 16, {16, 19, 21, 24, 27, 31, 35, 40, 46, 52, 59, 67, 77, 87, 99, 113}},
    {64, 256, 1, 16, {16, 20, 23, 27, 32, 39, 46, 54, 64, 77, 91, 108, 128, 153, 182, 216}},
    {64, 256, 0, 32, {32,  35,  37,  39,  42,  45,  48,  51,  54,  58,  62,
                      66,  70,  75,  80,  85,  91,  97,  104, 110, 118, 126,
                      134, 143, 153, 163, 174, 185, 198, 211, 225, 240}},
    {32, 256, 1, 8, {8, 13, 20, 30, 46, 70, 108, 166}},
    {32, 512, 1, 8, {8, 14, 23, 39, 64, 108, 182, 305}},
    {32, 64, 0, 16, {16, 18, 20, 21, 23, 25, 27, 30, 32, 35, 39, 42, 46, 50, 54, 59}},
    {32, 1000, 0, 16, {16, 21, 27, 35, 45, 59, 76, 98, 127, 164, 213, 275, 356, 461, 597, 773}},
    {16, 64, 1, 4, {4, 8, 16, 32}},
    {12, 40, 1, 3, {3, 8, 17}},
    {8, 20, 0, 4, {4, 6, 9, 14}},
    {320, 800, 1, 80, {80,  83,  85,  88,  90,  93,  96,  98,  101, 104, 107, 110, 114, 117,
                       120, 124, 127, 131, 135, 139, 143, 147, 151, 156, 160, 165, 170, 175,
                       180, 185, 190, 196, 201, 207, 213, 220, 226, 233, 239, 246, 253, 261,
                       268, 276, 284, 293, 301, 310, 319, 328, 338, 348, 358, 368, 379, 390,
                       401, 413, 425, 438, 450, 464, 477, 491, 505, 520, 535, 551, 567, 583,
                       600, 618, 636, 655, 674, 693, 714, 734, 756, 778}},
};

Test(relative_rows, t5_buckets_begin_where_published)
{
    for (size_t i = 0; i < COUNT(t5_rows); i++) {
        rhumb_t5 p;
        char what[64];
        rhumb_init_t5(&p);
        p.num_buckets = t5_rows[i].num_buckets;
        p.max_distance = t5_rows[i].max_distance;
        p.bidirectional = t5_rows[i].bidirectional;
        uint32_t side = p.bidirectional ? p.num_buckets / 2 : p.num_buckets;
        snprintf(what, sizeof what, "t5 %u, %u%s", p.num_buckets, p.max_distance,
                 p.bidirectional ? " both ways" : "");
        cr_assert_eq(t5_rows[i].count, side - side / 2);
        for (uint32_t a = 0; a <= 2 * p.max_distance; a++) {
            uint32_t bucket = a < side / 2 ? a : side / 2 - 1;
            for (uint32_t m = 0; m < t5_rows[i].count; m++)
                bucket += t5_rows[i].first[m] <= a;
            expect_row(&p, what, -(int64_t)a, bucket);
            if (a > 0)
                expect_row(&p, what, a, p.bidirectional ? side + bucket : 0);
        }
        expect_row(&p, what, -FAR, side - 1);
        expect_row(&p, what, FAR, p.bidirectional ? p.num_buckets - 1 : 0);
    }
}

/* Distances of every size, the ends of int32 among them. */
static int32_t any_distance(harness_random *r)
{
    uint32_t bits = harness_next(r) % 32;
    uint32_t size = harness_next(r) & (uint32_t)((UINT64_C(1) << bits) - 1);
    return harness_next(r) % 2 ? (int32_t)size : -(int32_t)size;
}

#define SAMPLES 2000

/* SAMPLES distances of every size, then the first that lie around zero. */
static void fill_distances(int32_t delta[2 * SAMPLES])
{
    harness_random r = {.state = 99};
    for (int32_t i = 0; i < SAMPLES; i++) {
        delta[i] = any_distance(&r);
        delta[SAMPLES + i] = i - SAMPLES / 2;
    }
    delta[0] = INT32_MAX;
    delta[1] = -INT32_MAX;
    delta[2] = FAR;
    delta[3] = -FAR;
    delta[4] = INT32_MIN;
}

Test(relative_rows, t5_buckets_are_those_of_whole_number_arithmetic)
{
    static const uint32_t rows[][3] = {
        {4, 3, 1},       {2, 2, 0},          {3, 2, 0},         {4, 2147483647, 1}, {6, 1000000, 1},
        {32, 17, 0},     {64, 65, 1},        {127, 4096, 0},    {256, 4096, 1},     {320, 800, 1},
        {34, 131072, 1}, {2048, 1048576, 1}, {1024, 524288, 0},
    };
    static int32_t delta[2 * SAMPLES], row[2 * SAMPLES];
    fill_distances(delta);
    for (size_t i = 0; i < COUNT(rows); i++) {
        rhumb_t5 p;
        rhumb_init_t5(&p);
        p.num_buckets = rows[i][0];
        p.max_distance = rows[i][1];
        p.bidirectional = rows[i][2];
        const ref_t5 t5 = {
            .bidirectional = rows[i][2] != 0, .buckets = rows[i][0], .most = rows[i][1]};
        cr_assert_eq(rhumb_relative_rows(&p, 0, 0, delta, COUNT(delta), row), RHUMB_OK, "%s",
                     rhumb_last_message(NULL));
        /* large bucket counts cost the reference milliseconds a distance */
        size_t step = rows[i][0] > 512 ? 40 : 1;
        for (size_t n = 0; n < COUNT(delta); n += step)
            cr_assert_eq(row[n], ref_t5_bucket(&t5, delta[n]), "t5 %u, %u: distance %d: got row %d",
                         rows[i][0], rows[i][1], delta[n], row[n]);
    }
}

/* ---- DeBERTa ---- */
static const uint32_t deberta_256[] = {
    133, 134, 136, 137, 139, 140, 142, 143, 145, 146, 148, 150, 151, 153, 155, 156, 158, 160,
    161, 163, 165, 167, 169, 170, 172, 174, 176, 178, 180, 182, 184, 186, 188, 190, 192, 194,
    196, 198, 201, 203, 205, 207, 210, 212, 214, 216, 219, 221, 224, 226, 229, 231, 234, 236,
    239, 241, 244, 247, 249, 252, 255, 258, 260, 263, 266, 269, 272, 275, 278, 281, 284, 287,
    290, 294, 297, 300, 303, 307, 310, 313, 317, 320, 324, 327, 331, 335, 338, 342, 346, 349,
    353, 357, 361, 365, 369, 373, 377, 381, 385, 390, 394, 398, 403, 407, 411, 416, 420, 425,
    430, 434, 439, 444, 449, 454, 459, 464, 469, 474, 479, 484, 490, 495, 500, 506};
static const uint32_t deberta_16[] = {11, 13, 16, 20, 25, 32};
static const uint32_t deberta_8[] = {7, 12};

static const struct {
    uint32_t span, most, identity; /* buckets of their own up to here */
    uint32_t repeated;             /* distances after them that share the last one */
    const uint32_t *first;
    size_t count;
} deberta_rows[] = {
    {256, 512, 131, 1, deberta_256, COUNT(deberta_256)},
    {16, 40, 9, 1, deberta_16, COUNT(deberta_16)},
    {8, 20, 5, 1, deberta_8, COUNT(deberta_8)},
};

Test(relative_rows, deberta_buckets_begin_where_published)
{
    for (size_t i = 0; i < COUNT(deberta_rows); i++) {
        rhumb_deberta p;
        rhumb_init_deberta(&p);
        p.position_buckets = deberta_rows[i].span;
        p.max_relative_positions = deberta_rows[i].most;
        int64_t span = p.position_buckets;
        for (uint32_t a = 0; a < deberta_rows[i].most; a++) {
            int64_t bucket = a <= deberta_rows[i].identity ? a : deberta_rows[i].identity;
            for (size_t m = 0; m < deberta_rows[i].count; m++)
                bucket += deberta_rows[i].first[m] <= a;
            for (p.clamp_input = 0; p.clamp_input < 2; p.clamp_input++) {
                expect_row(&p, "deberta", -(int64_t)a, span + bucket);
                expect_row(&p, "deberta", a, span - bucket);
            }
        }
        /* beyond: the original stays at row 1, the port goes on to row 0 */
        for (p.clamp_input = 0; p.clamp_input < 2; p.clamp_input++) {
            expect_row(&p, "deberta, beyond", deberta_rows[i].most, p.clamp_input ? 1 : 0);
            expect_row(&p, "deberta, beyond", FAR, p.clamp_input ? 1 : 0);
            expect_row(&p, "deberta, beyond", -FAR, 2 * span - 1);
        }
    }
}

Test(relative_rows, deberta_buckets_are_those_of_whole_number_arithmetic)
{
    static const uint32_t rows[][2] = {{256, 512}, {128, 512}, {64, 512},       {256, 1024},
                                       {32, 64},   {16, 40},   {8, 20},         {2, 3},
                                       {3, 7},     {5, 9},     {4, 2147483647}, {257, 600},
                                       {510, 600}, {64, 40},   {7, 100000}};
    static int32_t delta[2 * SAMPLES], row[2 * SAMPLES];
    fill_distances(delta);
    for (size_t i = 0; i < COUNT(rows); i++) {
        for (uint32_t clamp = 0; clamp < 2; clamp++) {
            rhumb_deberta p;
            rhumb_init_deberta(&p);
            p.position_buckets = rows[i][0];
            p.max_relative_positions = rows[i][1];
            p.clamp_input = clamp;
            const ref_deberta deberta = {
                .span = rows[i][0], .buckets = 1, .most = rows[i][1], .input_clamp = clamp != 0};
            cr_assert_eq(rhumb_relative_rows(&p, 0, 0, delta, COUNT(delta), row), RHUMB_OK, "%s",
                         rhumb_last_message(NULL));
            size_t step = rows[i][0] >= 64 ? 20 : 1; /* as above */
            for (size_t n = 0; n < COUNT(delta); n += step) {
                int64_t want = ref_deberta_bucket(&deberta, -(int64_t)delta[n]) + rows[i][0];
                want = want < 0                             ? 0
                       : want > 2 * (int64_t)rows[i][0] - 1 ? 2 * rows[i][0] - 1
                                                            : want;
                cr_assert_eq(row[n], want,
                             "deberta %u, %u, clamp %u: distance %d: wanted row %lld, got %d",
                             rows[i][0], rows[i][1], clamp, delta[n], (long long)want, row[n]);
            }
        }
    }
}

/* ---- lines ---- */
static int64_t clamp(int64_t value, int64_t low, int64_t high)
{
    return value < low ? low : value > high ? high : value;
}

/* Formulas as the papers and the code write them; -1 where there is no term. */
static int64_t shaw_formula(const void *scheme, int64_t delta)
{
    const rhumb_shaw *p = scheme;
    int64_t x = p->index == RHUMB_KEY_MINUS_QUERY ? delta : -delta;
    return clamp(x, -(int64_t)p->clip_left, p->clip_right) + p->clip_left;
}

static int64_t music_formula(const void *scheme, int64_t delta)
{
    const rhumb_music_transformer *p = scheme;
    int64_t row = delta + p->max_relative_position - 1;
    int64_t rows =
        p->bidirectional ? 2 * (int64_t)p->max_relative_position - 1 : p->max_relative_position;
    return row < 0 || row >= rows ? -1 : row;
}

static int64_t deberta_v1_formula(const void *scheme, int64_t delta)
{
    int64_t k = ((const rhumb_deberta *)scheme)->max_relative_positions;
    return clamp(-delta + k, 0, 2 * k - 1);
}

/* max_q_length 5, max_k_length 23 */
static int64_t xl_formula(const void *scheme, int64_t delta)
{
    const rhumb_transformer_xl *p = scheme;
    int64_t most = p->clamp_len ? p->clamp_len : 22;
    if (p->variant == RHUMB_XL_LEARNED)
        return delta > 0 ? -1 : clamp(p->table_rows - 1 + delta, 0, INT64_MAX);
    if (delta > 0 && !p->bidirectional)
        return -1;
    return clamp(-delta, -most, most) + (p->bidirectional ? most : 0);
}

static int64_t xlnet_formula(const void *scheme, int64_t delta)
{
    const rhumb_xlnet *p = scheme;
    int64_t most = p->clamp_len ? p->clamp_len : 22;
    if (!p->bidirectional && !p->flip_half)
        return delta > 0 ? -1 : clamp(-delta, 0, most);
    return clamp(-delta, -most, most) + most;
}

static void expect_formula(const char *what, const void *scheme,
                           int64_t (*formula)(const void *, int64_t))
{
    static int32_t delta[2 * SAMPLES], row[2 * SAMPLES];
    fill_distances(delta);
    cr_assert_eq(rhumb_relative_rows(scheme, 5, 23, delta, COUNT(delta), row), RHUMB_OK, "%s: %s",
                 what, rhumb_last_message(NULL));
    for (size_t n = 0; n < COUNT(delta); n++)
        cr_assert_eq(row[n], formula(scheme, delta[n]), "%s: distance %d: wanted row %lld, got %d",
                     what, delta[n], (long long)formula(scheme, delta[n]), row[n]);
}

Test(relative_rows, shaw_and_its_relatives_follow_their_formulas)
{
    rhumb_shaw p;
    rhumb_init_shaw(&p);
    expect_formula("shaw, the paper's", &p, shaw_formula);
    cr_expect_eq(row_of(&p, 1, 1, 0), 16);
    p.index = RHUMB_QUERY_MINUS_KEY;
    expect_formula("shaw, mirrored", &p, shaw_formula);
    p.clip_left = 160;
    p.clip_right = 159;
    expect_formula("shaw, SpeechT5", &p, shaw_formula);
    cr_expect_eq(row_of(&p, 1, 1, 1000), 0);
    cr_expect_eq(row_of(&p, 1, 1, -1000), 319);
    p.clip_left = p.clip_right = 511;
    p.beyond = RHUMB_BEYOND_REFUSE;
    expect_formula("shaw, BERT", &p, shaw_formula);
    cr_expect_eq(row_of(&p, 1, 1, -511), 1022);
    rhumb_init_shaw(&p);
    p.clip_left = 64;
    p.clip_right = 8;
    expect_formula("shaw, Wav2Vec2-BERT", &p, shaw_formula);
    p.clip_left = 3;
    p.clip_right = 0;
    expect_formula("shaw, past only", &p, shaw_formula);
    p.clip_left = p.clip_right = FAR - 1;
    expect_formula("shaw, the widest", &p, shaw_formula);
}

Test(relative_rows, music_transformer_has_no_row_beyond_its_table)
{
    static const uint32_t most[] = {1, 2, 7, 512, FAR};
    for (size_t i = 0; i < COUNT(most); i++) {
        rhumb_music_transformer p;
        rhumb_init_music_transformer(&p);
        p.max_relative_position = most[i];
        for (p.bidirectional = 0; p.bidirectional < 2; p.bidirectional++)
            expect_formula("music_transformer", &p, music_formula);
    }
}

Test(relative_rows, deberta_v1_clamps_one_row_earlier_to_the_past)
{
    static const uint32_t spans[] = {1, 2, 512, FAR};
    for (size_t i = 0; i < COUNT(spans); i++) {
        rhumb_deberta p;
        rhumb_init_deberta(&p);
        p.max_relative_positions = spans[i];
        expect_formula("deberta v1", &p, deberta_v1_formula);
    }
}

Test(relative_rows, transformer_xl_and_xlnet_follow_the_lengths_or_the_clamp)
{
    for (uint32_t i = 0; i < 8; i++) {
        rhumb_transformer_xl x;
        rhumb_xlnet n;
        rhumb_init_transformer_xl(&x);
        rhumb_init_xlnet(&n);
        x.bidirectional = n.bidirectional = i & 1u;
        x.clamp_len = n.clamp_len = i & 2u ? 7 : 0;
        n.flip_half = i >> 2;
        expect_formula("transformer_xl", &x, xl_formula);
        expect_formula("xlnet", &n, xlnet_formula);
        x.clamp_len = n.clamp_len = i & 2u ? 1000 : 0;
        expect_formula("transformer_xl, wide clamp", &x, xl_formula);
        expect_formula("xlnet, wide clamp", &n, xlnet_formula);
    }
    rhumb_transformer_xl learned;
    rhumb_init_transformer_xl(&learned);
    learned.variant = RHUMB_XL_LEARNED;
    for (learned.table_rows = 1; learned.table_rows < 40; learned.table_rows += 19)
        expect_formula("transformer_xl, learned", &learned, xl_formula);
}

/* Queries beyond the keys, counted from the first: their distances have rows too. */
Test(relative_rows, transformer_xl_has_rows_for_more_queries_than_keys)
{
    rhumb_transformer_xl p;
    rhumb_init_transformer_xl(&p);
    cr_expect_eq(row_of(&p, 23, 5, -22), 22);
    p.bidirectional = 1;
    cr_expect_eq(row_of(&p, 23, 5, -22), 44);
    cr_expect_eq(row_of(&p, 23, 5, 0), 22);
    cr_expect_eq(row_of(&p, 23, 5, 22), 0);
}

Test(relative_rows, schemes_without_rows_by_distance_are_refused)
{
    int32_t delta = 0, row = 7;
    rhumb_alibi alibi;
    rhumb_swin swin;
    rhumb_rope rope;
    rhumb_transformer_xl xl;
    rhumb_init_alibi(&alibi);
    rhumb_init_swin(&swin);
    rhumb_init_rope(&rope);
    rhumb_init_transformer_xl(&xl);
    swin.window[0] = swin.window[1] = 7;
    cr_expect_eq(rhumb_relative_rows(&alibi, 1, 1, &delta, 1, &row), RHUMB_ERROR_UNSUPPORTED);
    cr_expect_eq(rhumb_relative_rows(&swin, 1, 1, &delta, 1, &row), RHUMB_ERROR_UNSUPPORTED);
    cr_expect_eq(rhumb_relative_rows(&rope, 1, 1, &delta, 1, &row), RHUMB_ERROR_VERSION);
    cr_expect_eq(rhumb_relative_rows(NULL, 1, 1, &delta, 1, &row), RHUMB_ERROR_ARGUMENT);
    cr_expect_eq(rhumb_relative_rows(&xl, 0, 0, &delta, 1, &row), RHUMB_ERROR_ARGUMENT);
    cr_expect_eq(rhumb_relative_rows(&xl, 1, 1, NULL, 1, &row), RHUMB_ERROR_ARGUMENT);
    cr_expect_eq(row, 7);
}

/* ---- ALiBi: exponents of 2, as published ---- */
static const struct {
    uint32_t heads, count;
    double exponent[20];
} slope_rows[] = {
    {1, 1, {8}},
    {2, 2, {4, 8}},
    {3, 3, {4, 8, 2}},
    {6, 6, {2, 4, 6, 8, 1, 3}},
    {8, 8, {1, 2, 3, 4, 5, 6, 7, 8}},
    {12, 12, {1, 2, 3, 4, 5, 6, 7, 8, 0.5, 1.5, 2.5, 3.5}},
    {20, 20, {0.5, 1, 1.5, 2, 2.5, 3, 3.5,  4,    4.5,  5,
              5.5, 6, 6.5, 7, 7.5, 8, 0.25, 0.75, 1.25, 1.75}},
};

Test(relative_rows, alibi_slopes_are_those_published)
{
    double left[128], right[128];
    rhumb_alibi p;
    rhumb_init_alibi(&p);
    for (size_t i = 0; i < COUNT(slope_rows); i++) {
        cr_assert_eq(rhumb_alibi_slopes_of(&p, slope_rows[i].heads, left, right), RHUMB_OK);
        for (uint32_t h = 0; h < slope_rows[i].count; h++) {
            double want = exp2(-slope_rows[i].exponent[h]);
            cr_expect(fabs(left[h] - want) <= 1e-15 * want, "%u heads, head %u: got %.17g, want %g",
                      slope_rows[i].heads, h, left[h], want);
            cr_expect_eq(left[h], right[h]);
        }
    }
    cr_assert_eq(rhumb_alibi_slopes_of(&p, 40, left, NULL), RHUMB_OK);
    cr_expect_float_eq(left[31], exp2(-8.0), 1e-17);
    cr_expect_float_eq(left[32], exp2(-0.125), 1e-15);
    cr_expect_float_eq(left[39], exp2(-1.875), 1e-15);
    cr_assert_eq(rhumb_alibi_slopes_of(&p, 112, left, NULL), RHUMB_OK);
    cr_expect_float_eq(left[63], exp2(-8.0), 1e-17);
    cr_expect_float_eq(left[64], exp2(-0.0625), 1e-15);
    cr_expect_float_eq(left[111], exp2(-0.0625 - 47 * 0.125), 1e-15);
}

Test(relative_rows, alibi_slopes_by_choice)
{
    static const double given[3] = {0.5, 0.0, -0.25}, other[3] = {1, 2, 3};
    double left[6], right[6];
    rhumb_alibi p;
    rhumb_init_alibi(&p);
    p.slopes = RHUMB_ALIBI_SLOPES_CLOSED_FORM;
    cr_assert_eq(rhumb_alibi_slopes_of(&p, 6, left, NULL), RHUMB_OK);
    for (uint32_t h = 0; h < 6; h++)
        cr_expect_float_eq(left[h], exp2(-8.0 * (h + 1) / 6), 1e-15);
    p.slopes = RHUMB_ALIBI_SLOPES_PAPER;
    p.bias_max = 16;
    p.sloped_heads = 2;
    cr_assert_eq(rhumb_alibi_slopes_of(&p, 4, left, NULL), RHUMB_OK);
    /* the series of the two heads that have one */
    cr_expect_eq(left[0], exp2(-8.0));
    cr_expect_eq(left[1], exp2(-16.0));
    cr_expect_eq(left[2], 0.0);
    p.sloped_heads = 3;
    cr_assert_eq(rhumb_alibi_slopes_of(&p, 4, left, NULL), RHUMB_OK);
    cr_expect_eq(left[2], exp2(-4.0));
    cr_expect_eq(left[3], 0.0);
    rhumb_init_alibi(&p);
    p.slopes = RHUMB_ALIBI_SLOPES_EXPLICIT;
    p.left_slopes = given;
    p.right_slopes = other;
    p.list_count = 3;
    cr_assert_eq(rhumb_alibi_slopes_of(&p, 3, left, right), RHUMB_OK);
    for (uint32_t h = 0; h < 3; h++)
        cr_expect(left[h] == given[h] && right[h] == other[h]);
    cr_expect_eq(rhumb_alibi_slopes_of(&p, 4, left, right), RHUMB_ERROR_ARGUMENT);
}
