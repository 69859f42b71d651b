/* Buckets and slopes of the reference against tables that were not made by it.
 */
#include "relative.h"

#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

/* ------------------------------------------------------------------------------------------------
 * T5
 */
typedef struct t5_row {
    uint32_t buckets;
    uint32_t most;
    int bidirectional;
    int edges[81]; /* first distance of buckets e, e + 1, ...; 0 ends the list */
} t5_row;

#define EDGES_64_BI 16, 19, 21, 24, 27, 31, 35, 40, 46, 52, 59, 67, 77, 87, 99, 113

static const t5_row t5_rows[] = {
    {32, 128, 1, {8, 12, 16, 23, 32, 46, 64, 91}},
    {32, 128, 0, {EDGES_64_BI}},
    {64, 128, 1, {EDGES_64_BI}},
    {64, 256, 1, {16, 20, 23, 27, 32, 39, 46, 54, 64, 77, 91, 108, 128, 153, 182, 216}},
    {64, 256, 0, {32, 35, 37,  39,  42,  45,  48,  51,  54,  58,  62,  66,  70,  75,  80,  85,
                  91, 97, 104, 110, 118, 126, 134, 143, 153, 163, 174, 185, 198, 211, 225, 240}},
    {32, 256, 1, {8, 13, 20, 30, 46, 70, 108, 166}},
    {32, 512, 1, {8, 14, 23, 39, 64, 108, 182, 305}},
    {32, 64, 0, {16, 18, 20, 21, 23, 25, 27, 30, 32, 35, 39, 42, 46, 50, 54, 59}},
    {32, 1000, 0, {16, 21, 27, 35, 45, 59, 76, 98, 127, 164, 213, 275, 356, 461, 597, 773}},
    {16, 64, 1, {4, 8, 16, 32}},
    {12, 40, 1, {3, 8, 17}},
    {8, 20, 0, {4, 6, 9, 14}},
    {33, 128, 1, {8, 12, 16, 23, 32, 46, 64, 91}},
    {320, 800, 1, {80,  83,  85,  88,  90,  93,  96,  98,  101, 104, 107, 110, 114, 117, 120, 124,
                   127, 131, 135, 139, 143, 147, 151, 156, 160, 165, 170, 175, 180, 185, 190, 196,
                   201, 207, 213, 220, 226, 233, 239, 246, 253, 261, 268, 276, 284, 293, 301, 310,
                   319, 328, 338, 348, 358, 368, 379, 390, 401, 413, 425, 438, 450, 464, 477, 491,
                   505, 520, 535, 551, 567, 583, 600, 618, 636, 655, 674, 693, 714, 734, 756, 778}},
};

Test(buckets, of_t5_begin_where_the_published_tables_say)
{
    size_t i;

    for (i = 0; i < sizeof t5_rows / sizeof *t5_rows; i++) {
        const t5_row *r = &t5_rows[i];
        const ref_t5 t5 = {r->bidirectional, r->buckets, r->most, NULL, 1.0, NULL};
        const int n = (int)(r->bidirectional ? r->buckets / 2 : r->buckets), e = n / 2;
        int a, at = -1;

        for (a = 0; a < 2 * (int)r->most; a++) {
            int64_t want, future;
            if (r->edges[at + 1] != 0 && a == r->edges[at + 1])
                at++;
            want = a < e ? a : e + at;
            future = r->bidirectional ? (a > 0 ? n + want : 0) : 0;
            cr_assert_eq(ref_t5_bucket(&t5, -a), want, "row %zu, distance %d: %lld", i, a,
                         (long long)ref_t5_bucket(&t5, -a));
            cr_assert_eq(ref_t5_bucket(&t5, a), future, "row %zu, ahead %d", i, a);
        }
        cr_expect_eq(r->edges[at + 1], 0, "row %zu: all edges were passed", i);
        cr_expect_eq(e + at, n - 1, "row %zu: the last bucket was reached", i);
        cr_expect_eq(ref_t5_bucket(&t5, INT32_MIN), n - 1);
    }
}

Test(buckets, of_t5_need_an_exact_half_and_room_above_it)
{
    static const struct {
        int bidirectional;
        uint32_t buckets;
        uint32_t most;
        int good;
    } rows[] = {
        {1, 4, 2, 1},  {1, 3, 128, 0}, {0, 2, 2, 1},   {0, 1, 128, 0},
        {1, 32, 8, 0}, {1, 32, 9, 1},  {0, 32, 16, 0}, {0, 1026, 4096, 0},
    };
    size_t i;

    for (i = 0; i < sizeof rows / sizeof *rows; i++) {
        const ref_t5 t5 = {rows[i].bidirectional, rows[i].buckets, rows[i].most, NULL, 1.0, NULL};
        cr_expect_eq(ref_t5_bucket(&t5, -5) != REF_ROW_INVALID, rows[i].good, "row %zu", i);
    }
}

/* ------------------------------------------------------------------------------------------------
 * DeBERTa
 */
static const int deberta_256[] = {
    133, 134, 136, 137, 139, 140, 142, 143, 145, 146, 148, 150, 151, 153, 155, 156, 158, 160,
    161, 163, 165, 167, 169, 170, 172, 174, 176, 178, 180, 182, 184, 186, 188, 190, 192, 194,
    196, 198, 201, 203, 205, 207, 210, 212, 214, 216, 219, 221, 224, 226, 229, 231, 234, 236,
    239, 241, 244, 247, 249, 252, 255, 258, 260, 263, 266, 269, 272, 275, 278, 281, 284, 287,
    290, 294, 297, 300, 303, 307, 310, 313, 317, 320, 324, 327, 331, 335, 338, 342, 346, 349,
    353, 357, 361, 365, 369, 373, 377, 381, 385, 390, 394, 398, 403, 407, 411, 416, 420, 425,
    430, 434, 439, 444, 449, 454, 459, 464, 469, 474, 479, 484, 490, 495, 500, 506};
static const int deberta_16[] = {11, 13, 16, 20, 25, 32};
static const int deberta_8[] = {7, 12};

static const struct {
    uint32_t span;
    uint32_t most;
    int identity;     /* the bucket is the distance up to here */
    const int *edges; /* of the buckets from `first` on */
    int first;
    int count;
} deberta_rows[] = {
    {256, 512, 131, deberta_256, 132, sizeof deberta_256 / sizeof *deberta_256},
    {16, 40, 9, deberta_16, 10, 6},
    {8, 20, 5, deberta_8, 6, 2},
};

Test(buckets, of_deberta_begin_where_the_published_tables_say)
{
    size_t i;

    for (i = 0; i < sizeof deberta_rows / sizeof *deberta_rows; i++) {
        const ref_deberta d = {deberta_rows[i].span, 1, deberta_rows[i].most, 1, 0, NULL, NULL};
        int x, at = 0, want = 0;

        for (x = 0; x < (int)deberta_rows[i].most; x++) {
            if (x <= deberta_rows[i].identity)
                want = x;
            if (at < deberta_rows[i].count && x == deberta_rows[i].edges[at])
                want = deberta_rows[i].first + at++;
            cr_assert_eq(ref_deberta_bucket(&d, x), want, "row %zu, distance %d: %lld", i, x,
                         (long long)ref_deberta_bucket(&d, x));
            cr_assert_eq(ref_deberta_bucket(&d, -x), -want, "row %zu, distance %d", i, -x);
        }
        cr_expect_eq(at, deberta_rows[i].count, "row %zu: all edges were passed", i);
        cr_expect_eq(want, (int)d.span - 1, "row %zu: the furthest is S - 1", i);
    }
}

/* The two code bases differ beyond Mx only: row 0 is read without the clamp alone. */
Test(buckets, of_deberta_differ_beyond_the_last_distance_by_the_input_clamp)
{
    const double table[2 * 16] = {0.0};
    ref_deberta d = {16, 1, 40, 1, 0, table, NULL};
    ref_terms terms;
    int clamped;

    for (clamped = 0; clamped < 2; clamped++) {
        d.input_clamp = clamped;
        cr_assert_eq(ref_deberta_terms(&d, 1, &terms), 0);
        cr_expect_eq(terms.rows, 32u);
        cr_expect_eq(terms.row(terms.row_user, 39, 0), 1, "distance -39 is S - 1 to the left");
        cr_expect_eq(terms.row(terms.row_user, -39, 0), 31);
        cr_expect_eq(terms.row(terms.row_user, 41, 0), clamped ? 1 : 0);
        cr_expect_eq(terms.row(terms.row_user, -41, 0), 31);
        cr_expect_eq(terms.row(terms.row_user, 100000, 0), clamped ? 1 : 0);
        cr_expect_eq(terms.row(terms.row_user, 0, 0), 16);
    }
}

Test(buckets, of_deberta_v1_are_the_distance_and_the_ends_differ_by_one)
{
    const double table[2 * 4] = {0.0};
    const ref_deberta d = {4, 0, 4, 1, 0, table, NULL};
    static const int64_t want[] = {7, 7, 7, 6, 5, 4, 3, 2, 1, 0, 0}; /* delta -5 ... 5 */
    ref_terms terms;
    int delta;

    cr_assert_eq(ref_deberta_terms(&d, 1, &terms), 0);
    for (delta = -5; delta <= 5; delta++)
        cr_expect_eq(terms.row(terms.row_user, delta, 0), want[delta + 5], "delta %d", delta);
}

/* ------------------------------------------------------------------------------------------------
 * ALiBi: exponents of two
 */
static void check_slope(uint32_t heads, uint32_t h, double slope, double exponent)
{
    cr_assert(fabs(slope - pow(2.0, -exponent)) <= 1e-15, "%u heads, head %u: %.17g", heads, h,
              slope);
}

Test(slopes, of_alibi_are_the_published_ones_for_any_number_of_heads)
{
    static const struct {
        uint32_t heads;
        double exponents[12];
    } rows[] = {
        {1, {8}},
        {2, {4, 8}},
        {3, {4, 8, 2}},
        {6, {2, 4, 6, 8, 1, 3}},
        {8, {1, 2, 3, 4, 5, 6, 7, 8}},
        {12, {1, 2, 3, 4, 5, 6, 7, 8, .5, 1.5, 2.5, 3.5}},
    };
    static const struct {
        uint32_t heads;
        uint32_t power;
        double step;
    } series[] = {{20, 16, .5}, {40, 32, .25}, {112, 64, .125}};
    double slopes[112];
    uint32_t h;
    size_t i;

    for (i = 0; i < sizeof rows / sizeof *rows; i++) {
        cr_assert_eq(ref_alibi_slopes(0, rows[i].heads, 8.0, rows[i].heads, slopes), 0);
        for (h = 0; h < rows[i].heads; h++)
            check_slope(rows[i].heads, h, slopes[h], rows[i].exponents[h]);
    }
    for (i = 0; i < sizeof series / sizeof *series; i++) {
        const uint32_t n = series[i].power;
        cr_assert_eq(ref_alibi_slopes(0, series[i].heads, 8.0, series[i].heads, slopes), 0);
        for (h = 0; h < series[i].heads; h++)
            check_slope(series[i].heads, h, slopes[h],
                        h < n ? series[i].step * (h + 1)
                              : series[i].step / 2 + series[i].step * (h - n));
    }
}

Test(slopes, of_alibi_in_closed_form_and_of_the_first_heads_only)
{
    double slopes[20];

    cr_assert_eq(ref_alibi_slopes(1, 3, 8.0, 3, slopes), 0);
    check_slope(3, 0, slopes[0], 8.0 / 3.0);
    check_slope(3, 2, slopes[2], 8.0);
    cr_assert_eq(ref_alibi_slopes(0, 3, 8.0, 5, slopes), 0);
    check_slope(5, 2, slopes[2], 2.0);
    cr_expect(slopes[3] == 0.0 && slopes[4] == 0.0);
    cr_assert_eq(ref_alibi_slopes(0, 20, 8.0, 20, slopes), 0);
    cr_expect(fabs(slopes[17] - 0.59460356) < 5e-9, "%.9g", slopes[17]);
    cr_assert_eq(ref_alibi_slopes(0, 2, 16.0, 2, slopes), 0);
    check_slope(2, 0, slopes[0], 8.0);
    cr_expect_eq(ref_alibi_slopes(0, 3, 8.0, 2, slopes), -1);
}
