/* Sinusoids, learned tables and resampling of the double-precision reference against numbers that
 * were not made by it: in 60 decimal digits with another program, or worked by hand.
 */
#include "reference_absolute.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

static void check(const char *what, double got, double want, double bound)
{
    cr_assert(fabs(got - want) <= bound, "%s: wanted %.17g, got %.17g, bound %g", what, want, got,
              bound);
}

static void check_all(const char *what, const double *got, const double *want, size_t count,
                      double bound)
{
    char text[96];
    size_t i;

    for (i = 0; i < count; i++) {
        snprintf(text, sizeof text, "%s, element %zu", what, i);
        check(text, got[i], want[i], bound);
    }
}

/* ------------------------------------------------------------------------------------------------
 * Sinusoids of one position
 */
typedef struct sinusoid_row {
    const char *what;
    ref_sinusoid_rule rule;
    ref_sinusoid_layout layout;
    int32_t position;
    double want[8];
} sinusoid_row;

/* sin and cos of 3 f for f = 10^-i and for f = 10000^(-i/3) */
#define P3_SINES                                                                                   \
    0.1411200080598672221, 0.29552020666133957511, 0.029995500202495660769, 0.0029999955000020249996
#define P3_COSINES                                                                                 \
    -0.98999249660044545727, 0.95533648912560601964, 0.99955003374898751627, 0.99999550000337499899
#define E3_SINES                                                                                   \
    0.1411200080598672221, 0.13879810108005052857, 0.0064632590701896432457,                       \
        0.00029999999550000002025
#define E3_COSINES                                                                                 \
    -0.98999249660044545727, 0.99032069913567497657, 0.99997911292296081203, 0.9999999550000003375

static const sinusoid_row sinusoid_rows[] = {
    {"power, interleaved",
     REF_SINUSOID_POWER,
     REF_SINUSOID_INTERLEAVED,
     3,
     {0.1411200080598672221, -0.98999249660044545727, 0.29552020666133957511,
      0.95533648912560601964, 0.029995500202495660769, 0.99955003374898751627,
      0.0029999955000020249996, 0.99999550000337499899}},
    {"power, sines first", REF_SINUSOID_POWER, REF_SINUSOID_SIN_FIRST, 3, {P3_SINES, P3_COSINES}},
    {"power, cosines first", REF_SINUSOID_POWER, REF_SINUSOID_COS_FIRST, 3, {P3_COSINES, P3_SINES}},
    {"endpoint, interleaved",
     REF_SINUSOID_ENDPOINT,
     REF_SINUSOID_INTERLEAVED,
     3,
     {0.1411200080598672221, -0.98999249660044545727, 0.13879810108005052857,
      0.99032069913567497657, 0.0064632590701896432457, 0.99997911292296081203,
      0.00029999999550000002025, 0.9999999550000003375}},
    {"endpoint, sines first",
     REF_SINUSOID_ENDPOINT,
     REF_SINUSOID_SIN_FIRST,
     3,
     {E3_SINES, E3_COSINES}},
    {"endpoint, cosines first",
     REF_SINUSOID_ENDPOINT,
     REF_SINUSOID_COS_FIRST,
     3,
     {E3_COSINES, E3_SINES}},
    {"the last position, power",
     REF_SINUSOID_POWER,
     REF_SINUSOID_SIN_FIRST,
     INT32_MAX,
     {-0.72491655514455639055, -0.99671389984420221256, 0.7013495726180123791,
      -0.76093236155445719542, -0.68883669187794383468, 0.081002480563015109622,
      -0.71281749206127888096, -0.64883121159447688297}},
    {"the last position, endpoint",
     REF_SINUSOID_ENDPOINT,
     REF_SINUSOID_SIN_FIRST,
     INT32_MAX,
     {-0.72491655514455639055, -0.99914489188653885742, 0.72483216429994086168,
      0.99626337614159746957, -0.68883669187794383468, -0.041345918988898748282,
      -0.68892549204994841461, -0.086367154398798377001}},
};

Test(reference_absolute, every_layout_and_rule_of_a_sinusoid_has_its_own_row)
{
    size_t i;

    for (i = 0; i < sizeof sinusoid_rows / sizeof *sinusoid_rows; i++) {
        const sinusoid_row *r = &sinusoid_rows[i];
        ref_sinusoid t;
        double row[8];
        ref_sinusoid_init(&t, 8);
        t.rule = r->rule;
        t.layout = r->layout;
        cr_assert_eq(ref_sinusoid_encode(&t, 1, 1, &r->position, NULL, row), 0);
        check_all(r->what, row, r->want, 8, 1e-15);
    }
}

Test(reference_absolute, endpoint_frequencies_run_from_1_to_1_over_base)
{
    static const uint32_t dims[] = {4, 6, 24, 512};
    double f[256];
    ref_sinusoid t;
    size_t i;

    for (i = 0; i < sizeof dims / sizeof *dims; i++) {
        ref_sinusoid_init(&t, dims[i]);
        t.rule = REF_SINUSOID_ENDPOINT;
        cr_assert_eq(ref_sinusoid_angles(&t), dims[i] / 2);
        cr_assert_eq(ref_sinusoid_frequencies(&t, f), 0);
        cr_expect_eq(f[0], 1.0);
        cr_expect_eq(f[dims[i] / 2 - 1], 1.0 / 10000.0);
    }
    ref_sinusoid_init(&t, 2); /* one frequency has no steps */
    t.rule = REF_SINUSOID_ENDPOINT;
    cr_assert_eq(ref_sinusoid_frequencies(&t, f), 0);
    cr_expect_eq(f[0], 1.0);
    ref_sinusoid_init(&t, 512);
    cr_assert_eq(ref_sinusoid_frequencies(&t, f), 0);
    check("the last of the other rule", 1.0 / f[255], 9646.6161991119921371, 1e-11);
}

Test(reference_absolute, odd_rows_end_as_their_rule_says)
{
    /* sin and cos of 3 * 10000^(-2i/d) for d = 7, 6, 8 */
    static const double native[7] = {0.1411200080598672221,   -0.98999249660044545727,
                                     0.21423219005262736956,  0.97678276435718036616,
                                     0.015537798772269499383, 0.99987928111813201049,
                                     0.0011182778830181360581};
    static const double native_concat[7] = {0.1411200080598672221,   0.21423219005262736956,
                                            0.015537798772269499383, 0.0011182778830181360581,
                                            -0.98999249660044545727, 0.97678276435718036616,
                                            0.99987928111813201049};
    static const double padded[7] = {0.1411200080598672221,
                                     0.13879810108005052857,
                                     0.0064632590701896432457,
                                     -0.98999249660044545727,
                                     0.99032069913567497657,
                                     0.99997911292296081203,
                                     0.0};
    static const double ceil_even[7] = {0.1411200080598672221,   -0.98999249660044545727,
                                        0.29552020666133957511,  0.95533648912560601964,
                                        0.029995500202495660769, 0.99955003374898751627,
                                        0.0029999955000020249996};
    const int32_t three = 3;
    ref_sinusoid t;
    double row[7];

    ref_sinusoid_init(&t, 7);
    cr_expect_eq(ref_sinusoid_encode(&t, 1, 1, &three, NULL, row), -1, "an odd row without a rule");
    t.odd = REF_ODD_NATIVE;
    cr_assert_eq(ref_sinusoid_encode(&t, 1, 1, &three, NULL, row), 0);
    check_all("native, interleaved", row, native, 7, 1e-15);
    t.layout = REF_SINUSOID_SIN_FIRST;
    cr_assert_eq(ref_sinusoid_encode(&t, 1, 1, &three, NULL, row), 0);
    check_all("native, sines first", row, native_concat, 7, 1e-15);
    t.rule = REF_SINUSOID_ENDPOINT;
    cr_expect_eq(ref_sinusoid_encode(&t, 1, 1, &three, NULL, row), -1, "native has no endpoint");
    t.rule = REF_SINUSOID_POWER;
    t.odd = REF_ODD_ZERO_PAD;
    cr_assert_eq(ref_sinusoid_encode(&t, 1, 1, &three, NULL, row), 0);
    check_all("zero pad", row, padded, 7, 1e-15);
    t.odd = REF_ODD_CEIL_EVEN;
    t.layout = REF_SINUSOID_INTERLEAVED;
    cr_assert_eq(ref_sinusoid_encode(&t, 1, 1, &three, NULL, row), 0);
    check_all("ceil even", row, ceil_even, 7, 1e-15);
    ref_sinusoid_init(&t, 1);
    t.odd = REF_ODD_ZERO_PAD;
    cr_assert_eq(ref_sinusoid_encode(&t, 1, 1, &three, NULL, row), 0);
    cr_expect_eq(row[0], 0.0, "one channel is the padding alone");
}

Test(reference_absolute, offset_padding_scales_and_own_frequencies_are_applied)
{
    static const int32_t positions[2] = {0, 1};
    static const double frequency[1] = {0.5}, x[4] = {10, 20, 30, 40};
    ref_sinusoid t;
    double y[4];

    ref_sinusoid_init(&t, 2);
    t.inv_freq = frequency;
    t.offset = 1;
    t.padding_idx = 2;
    t.x_scale = 3;
    t.pe_scale = 0.25;
    cr_assert_eq(ref_sinusoid_encode(&t, 1, 2, positions, x, y), 0);
    check("sine of (0 + 1) / 2", y[0], 30 + 0.25 * sin(0.5), 1e-14);
    check("cosine", y[1], 60 + 0.25 * cos(0.5), 1e-14);
    check("the padding row", y[2], 90, 0);
    check("the padding row", y[3], 120, 0);
    cr_assert_eq(ref_sinusoid_encode(&t, 2, 1, positions, NULL, y), 0);
    check("without x", y[0], 0.25 * sin(0.5), 1e-15);
    check("without x", y[2], 0, 0);
    t.inv_freq = NULL;
    t.base = 0.0;
    cr_expect_eq(ref_sinusoid_encode(&t, 1, 2, positions, x, y), -1, "a base of 0");
}

/* ------------------------------------------------------------------------------------------------
 * Sinusoids of two coordinates
 */

/* A coordinate of 1 and of 2, in frequencies 1 and 1/100. */
#define S1 0.84147098480789650665
#define C1 0.5403023058681397174
#define S2 0.9092974268256816954
#define C2 -0.416146836547142387
#define FINE_S1 0.0099998333341666646825
#define FINE_C1 0.99995000041666527778
#define FINE_S2 0.019998666693333079366
#define FINE_C2 0.99980000666657777841

Test(reference_absolute, both_axis_orders_of_a_2_by_3_grid_in_every_layout)
{
    /* the cell of row 1 and column 2 */
    static const double rows_first[3][8] = {{S1, C1, FINE_S1, FINE_C1, S2, C2, FINE_S2, FINE_C2},
                                            {S1, FINE_S1, C1, FINE_C1, S2, FINE_S2, C2, FINE_C2},
                                            {S1, FINE_S1, S2, FINE_S2, C1, FINE_C1, C2, FINE_C2}};
    static const double columns_first[3][8] = {
        {S2, C2, FINE_S2, FINE_C2, S1, C1, FINE_S1, FINE_C1},
        {S2, FINE_S2, C2, FINE_C2, S1, FINE_S1, C1, FINE_C1},
        {S2, FINE_S2, S1, FINE_S1, C2, FINE_C2, C1, FINE_C1}};
    double table[6 * 8 + 8];
    ref_sinusoid_grid t;
    int layout;

    for (layout = 0; layout < 3; layout++) {
        ref_sinusoid_grid_init(&t, 2, 3, 8);
        t.layout = (ref_plane_layout)layout;
        cr_assert_eq(ref_sinusoid_grid_table(&t, table), 0);
        check_all("rows first", table + 5 * 8, rows_first[layout], 8, 1e-15);
        t.columns_first = 1;
        t.prefix = 1;
        cr_assert_eq(ref_sinusoid_grid_table(&t, table), 0);
        check_all("columns first", table + 6 * 8, columns_first[layout], 8, 1e-15);
        check("prefix", table[7], 0, 0);
    }
    ref_sinusoid_grid_init(&t, 2, 3, 8);
    t.start = 1; /* row 0, column 1 are then 1 and 2 */
    cr_assert_eq(ref_sinusoid_grid_table(&t, table), 0);
    check_all("start", table + 1 * 8, rows_first[0], 8, 1e-15);
    t.start = 0;
    t.column_major = 1; /* token 3 is row 1 of column 1 */
    cr_assert_eq(ref_sinusoid_grid_table(&t, table), 0);
    check_all("column major", table + 3 * 8,
              (const double[]){S1, C1, FINE_S1, FINE_C1, S1, C1, FINE_S1, FINE_C1}, 8, 1e-15);
    t.column_major = 0;
    t.channels_first = 1;
    cr_assert_eq(ref_sinusoid_grid_table(&t, table), 0);
    for (layout = 0; layout < 8; layout++)
        check("channels first", table[layout * 6 + 5], rows_first[0][layout], 1e-15);
    t.prefix = 1;
    cr_expect_eq(ref_sinusoid_grid_table(&t, table), -1, "an image has no prefix");
}

Test(reference_absolute, other_axis_widths_are_cut_or_followed_by_zeros)
{
    double table[4 * 7];
    ref_sinusoid_grid t;

    ref_sinusoid_grid_init(&t, 2, 2, 6);
    cr_expect_eq(ref_sinusoid_grid_table(&t, table), -1, "3 channels an axis");
    t.axis_dim = 4;
    cr_assert_eq(ref_sinusoid_grid_table(&t, table), 0);
    check_all("cut", table + 3 * 6, (const double[]){S1, C1, FINE_S1, FINE_C1, S1, C1}, 6, 1e-15);
    ref_sinusoid_grid_init(&t, 2, 2, 7);
    t.axis_dim = 2;
    t.rule = REF_SINUSOID_ENDPOINT;
    t.layout = REF_LAYOUT_AXIS_CONCAT;
    cr_assert_eq(ref_sinusoid_grid_table(&t, table), 0);
    check_all("followed", table + 3 * 7, (const double[]){S1, C1, S1, C1, 0, 0, 0}, 7, 1e-15);
}

Test(reference_absolute, columns_first_by_columns_is_rows_first_by_rows_on_a_square)
{
    double a[25 * 8], b[25 * 8];
    ref_sinusoid_grid t;

    ref_sinusoid_grid_init(&t, 5, 5, 8);
    cr_assert_eq(ref_sinusoid_grid_table(&t, a), 0);
    t.columns_first = 1;
    t.column_major = 1;
    cr_assert_eq(ref_sinusoid_grid_table(&t, b), 0);
    cr_expect_eq(memcmp(a, b, sizeof a), 0);
}

Test(reference_absolute, masked_coordinates_count_the_valid_cells)
{
    /* Row 0: 1 0 1; row 1: 1 1 1; batch 1 is valid everywhere. */
    static const int32_t mask[12] = {1, 0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
    double table[12 * 4];
    ref_sinusoid_grid t;

    ref_sinusoid_grid_init(&t, 2, 3, 4);
    t.mask = mask;
    t.batch = 2;
    cr_assert_eq(ref_sinusoid_grid_table(&t, table), 0);
    check_all("(1, 1): the hole does not count", table + 4 * 4, (const double[]){S1, C1, S2, C2}, 4,
              1e-15);
    check_all("(0, 2)", table + 2 * 4, (const double[]){S1, C1, S2, C2}, 4, 1e-15);
    check_all("(1, 1) without holes", table + 10 * 4, (const double[]){S2, C2, S2, C2}, 4, 1e-15);
    t.normalise = 1; /* columns of row 1: 1, 2, 3 of 3 + 1e-6 */
    cr_assert_eq(ref_sinusoid_grid_table(&t, table), 0);
    check("1 of 3", table[9 * 4 + 2], 0.86602575284996164536, 1e-15);
    check("1 of 3", table[9 * 4 + 3], -0.49999939540029160829, 1e-15);
    check("3 of 3", table[11 * 4 + 2], -2.0943944042601962324e-6, 1e-15);
    t.centre = -0.5;
    cr_assert_eq(ref_sinusoid_grid_table(&t, table), 0);
    check("0.5 of 3", table[9 * 4 + 2], 0.86602522925151886371, 1e-15);
    check("1.5 of 3", table[10 * 4 + 2], 1.047197202130672306e-6, 1e-15);
    t.mask = NULL;
    t.batch = 1;
    cr_expect_eq(ref_sinusoid_grid_table(&t, table), -1, "nothing to normalise by");
}

/* ------------------------------------------------------------------------------------------------
 * Learned tables
 */
static const double small_table[3 * 2] = {1, 2, 3, 4, 6, 8};

Test(reference_absolute, positions_beyond_a_learned_table_do_as_told)
{
    static const int32_t positions[4] = {-1, -3, 2, 9};
    static const double clamped[8] = {1, 2, 1, 2, 6, 8, 6, 8}, zero[8] = {0, 0, 0, 0, 6, 8, 0, 0};
    ref_learned t = {.dim = 2, .table_rows = 3, .table = small_table, .pe_scale = 1};
    double y[8];

    cr_expect_eq(ref_learned_encode(&t, 1, 1, positions, NULL, y), -1, "-1 is no row");
    t.offset = 2;
    cr_assert_eq(ref_learned_encode(&t, 1, 1, positions, NULL, y), 0);
    check_all("-1 with offset 2 is row 1", y, small_table + 2, 2, 0);
    cr_expect_eq(ref_learned_encode(&t, 1, 2, positions, NULL, y), -1);
    t.beyond = REF_BEYOND_CLAMP_LOW; /* before the offset: row 2 */
    cr_assert_eq(ref_learned_encode(&t, 1, 2, positions, NULL, y), 0);
    check_all("clamped before the offset", y, (const double[]){6, 8, 6, 8}, 4, 0);
    cr_expect_eq(ref_learned_encode(&t, 1, 3, positions, NULL, y), -1, "2 + 2 is too high");
    t.offset = -1;
    cr_expect_eq(ref_learned_encode(&t, 1, 1, positions, NULL, y), -1, "the offset is not clamped");
    t.offset = 0;
    t.beyond = REF_BEYOND_CLAMP;
    cr_assert_eq(ref_learned_encode(&t, 2, 2, positions, NULL, y), 0);
    check_all("the nearest row", y, clamped, 8, 0);
    t.beyond = REF_BEYOND_ZERO;
    cr_assert_eq(ref_learned_encode(&t, 2, 2, positions, NULL, y), 0);
    check_all("zeros", y, zero, 8, 0);
}

Test(reference_absolute, learned_rows_are_scaled_or_brought_to_length_1)
{
    static const int32_t positions[2] = {2, 0};
    static const double x[4] = {100, 200, 300, 400};
    double table[6] = {0, 0, 0, 0, 6, 8}, y[4];
    ref_learned t = {.dim = 2, .table_rows = 3, .table = table, .pe_scale = 0.5};

    cr_assert_eq(ref_learned_encode(&t, 1, 2, positions, x, y), 0);
    check_all("scaled", y, (const double[]){103, 204, 300, 400}, 4, 0);
    t.l2norm = 1;
    t.pe_scale = 1;
    table[0] = 1e-13; /* shorter than 1e-12, which it is divided by */
    cr_assert_eq(ref_learned_encode(&t, 1, 2, positions, NULL, y), 0);
    check_all("length 1", y, (const double[]){0.6, 0.8, 0.1, 0}, 4, 1e-15);
}

Test(reference_absolute, rows_and_columns_are_joined_in_either_order_or_added)
{
    static const double rows[4] = {1, 2, 3, 4}, columns[6] = {10, 20, 30, 40, 50, 60};
    static const uint32_t grid[2] = {2, 3};
    double table[6 * 4];

    cr_assert_eq(ref_row_col_table(REF_COLUMN_ROW, grid, 4, 2, 3, rows, columns, 0, table), 0);
    check_all("(1, 2)", table + 5 * 4, (const double[]){50, 60, 3, 4}, 4, 0);
    check_all("(0, 1)", table + 1 * 4, (const double[]){30, 40, 1, 2}, 4, 0);
    cr_assert_eq(ref_row_col_table(REF_ROW_COLUMN, grid, 4, 2, 3, rows, columns, 0, table), 0);
    check_all("(1, 2)", table + 5 * 4, (const double[]){3, 4, 50, 60}, 4, 0);
    cr_assert_eq(ref_row_col_table(REF_ROW_PLUS_COLUMN, grid, 2, 2, 3, rows, columns, 0, table), 0);
    check_all("(1, 2)", table + 5 * 2, (const double[]){53, 64}, 2, 0);
    cr_assert_eq(ref_row_col_table(REF_COLUMN_ROW, grid, 4, 2, 3, rows, columns, 1, table), 0);
    check("channel 0 of (0, 1)", table[1], 30, 0);
    check("channel 3 of (1, 0)", table[3 * 6 + 3], 4, 0);
    cr_expect_eq(ref_row_col_table(REF_COLUMN_ROW, grid, 4, 1, 3, rows, columns, 0, table), -1);
    cr_expect_eq(ref_row_col_table(REF_COLUMN_ROW, grid, 4, 2, 2, rows, columns, 0, table), -1);
    cr_expect_eq(ref_row_col_table(REF_COLUMN_ROW, grid, 3, 2, 3, rows, columns, 0, table), -1);
}

Test(reference_absolute, a_table_without_prefix_leaves_the_prefix_tokens_alone)
{
    static const double table[3] = {1, 2, 4}, x[6] = {10, 20, 30, 40, 50, 60};
    double y[6];

    ref_full_table_encode(2, 1, 2, 1, 1, table, x, y);
    check_all("with", y, (const double[]){11, 22, 34, 41, 52, 64}, 6, 0);
    ref_full_table_encode(2, 1, 2, 1, 0, table, x, y);
    check_all("without", y, (const double[]){10, 21, 32, 40, 51, 62}, 6, 0);
}

/* ------------------------------------------------------------------------------------------------
 * Resampling
 */
static void check_weights(const char *what, const ref_resize *t, const double *want, double bound)
{
    double weights[64];

    cr_assert_eq(ref_resize_weights(t, 0, weights), 0, "%s", what);
    check_all(what, weights, want, (size_t)t->old_grid[0] * t->new_grid[0], bound);
}

/* 225, 67, -27 and -9 of 256: 0.8789, 0.2617, -0.1055, -0.0352. */
Test(reference_absolute, bicubic_weights_of_twice_the_size_are_the_known_four)
{
    static const ref_resize t = {
        .mode = REF_RESIZE_BICUBIC, .old_grid = {8, 1}, .new_grid = {16, 1}, .dim = 1};
    double w[16 * 8];

    cr_assert_eq(ref_resize_weights(&t, 0, w), 0);
    /* target 7 lies at 3.25, target 6 at 2.75 */
    check_all("target 7", w + 7 * 8,
              (const double[]){0, 0, -27 / 256., 225 / 256., 67 / 256., -9 / 256., 0, 0}, 8, 1e-15);
    check_all("target 6", w + 6 * 8,
              (const double[]){0, -9 / 256., 67 / 256., 225 / 256., -27 / 256., 0, 0, 0}, 8, 1e-15);
    /* target 0 lies at -0.25: the taps before the edge fall on it */
    check_all("target 0", w, (const double[]){(225 + 67 - 9) / 256., -27 / 256., 0, 0, 0, 0, 0, 0},
              8, 1e-15);
}

Test(reference_absolute, small_resamplings_worked_by_hand)
{
    ref_resize t = {.old_grid = {4, 1}, .new_grid = {2, 1}, .dim = 1};

    check_weights("bilinear, half the size", &t, (const double[]){.5, .5, 0, 0, 0, 0, .5, .5},
                  1e-15);
    t.antialias = 1; /* triangles of 2 cells around 1 and 3, at 0.5, 1.5, ...; what is outside is
                        left out: 3/4 3/4 1/4 of 7/4 */
    check_weights("antialias", &t,
                  (const double[]){3 / 7., 3 / 7., 1 / 7., 0, 0, 1 / 7., 3 / 7., 3 / 7.}, 1e-15);
    t.antialias = 0;
    t.align_corners = 1;
    check_weights("corners", &t, (const double[]){1, 0, 0, 0, 0, 0, 0, 1}, 0);
    t.new_grid[0] = 1;
    check_weights("one target has the first corner", &t, (const double[]){1, 0, 0, 0}, 0);
    t.align_corners = 0;
    t.old_grid[0] = 2;
    t.new_grid[0] = 3;
    check_weights("bilinear, 2 to 3", &t, (const double[]){1, 0, .5, .5, 0, 1}, 1e-15);
    t.scale_factor[0] = 2; /* targets at -0.25, 0.25, 0.75 */
    check_weights("by factor", &t, (const double[]){1, 0, .75, .25, .25, .75}, 1e-15);
}

Test(reference_absolute, resampling_to_the_same_size_is_a_copy)
{
    double table[(3 + 4 * 4 + 2) * 3], resized[(3 + 4 * 4 + 2) * 3];
    int mode, antialias, corners;
    size_t i;

    for (i = 0; i < sizeof table / sizeof *table; i++)
        table[i] = sin(1.0 + (double)i);
    for (mode = REF_RESIZE_BILINEAR; mode <= REF_RESIZE_BICUBIC; mode++)
        for (antialias = 0; antialias < 2; antialias++)
            for (corners = 0; corners < 2 - antialias; corners++) {
                ref_resize t = {.mode = (ref_resize_mode)mode,
                                .antialias = antialias,
                                .align_corners = corners,
                                .old_grid = {4, 4},
                                .new_grid = {4, 4},
                                .prefix = 3,
                                .suffix = 2,
                                .dim = 3};
                memset(resized, 0, sizeof resized);
                cr_assert_eq(ref_resize_table(&t, table, resized), 0);
                cr_expect_eq(memcmp(table, resized, sizeof table), 0, "mode %d, %d, %d", mode,
                             antialias, corners);
            }
}

static double kernel(int bicubic, double a, double u)
{
    u = fabs(u);
    if (!bicubic)
        return u < 1 ? 1 - u : 0;
    if (u < 1)
        return (a + 2) * u * u * u - (a + 3) * u * u + 1;
    return u < 2 ? a * u * u * u - 5 * a * u * u + 8 * a * u - 4 * a : 0;
}

/* Weight of source s for target i, from the kernel over the whole line: cells beyond the ends are
 * copies of the last one, or with antialias are not there. */
static double expected_weight(const ref_resize *t, uint32_t n, uint32_t m, uint32_t i, uint32_t s)
{
    const int bicubic = t->mode == REF_RESIZE_BICUBIC, last = (int)n - 1;
    const double step = (double)n / m, wide = t->antialias && step > 1 ? step : 1;
    double at = (i + 0.5) * step - 0.5, weight = 0, sum = 0;
    int j;

    if (t->align_corners)
        at = i * (double)last / (m - 1);
    for (j = -9; j < (int)n + 9; j++) {
        const double w = kernel(bicubic, t->antialias ? -0.5 : -0.75, (j - at) / wide);
        const int cell = j < 0 ? 0 : j > last ? last : j;
        if (t->antialias && cell != j)
            continue;
        sum += w;
        weight += cell == (int)s ? w : 0;
    }
    return weight / sum;
}

/* Both axes are enlarged, then made smaller. */
static void check_resampling(ref_resize t, const uint32_t *grid, const double *table)
{
    double resized[(1 + 35) * 2];
    uint32_t y, x, sy, sx, d;

    memcpy(t.new_grid, grid, sizeof t.new_grid);
    cr_assert_eq(ref_resize_table(&t, table, resized), 0);
    cr_expect_eq(memcmp(resized, table, 2 * sizeof *table), 0, "the class token's row has moved");
    for (y = 0; y < grid[0]; y++)
        for (x = 0; x < grid[1]; x++)
            for (d = 0; d < 2; d++) {
                double want = 0;
                for (sy = 0; sy < 4; sy++)
                    for (sx = 0; sx < 4; sx++)
                        want += expected_weight(&t, 4, grid[0], y, sy) *
                                expected_weight(&t, 4, grid[1], x, sx) *
                                table[(1 + sy * 4 + sx) * 2 + d];
                check("resampled", resized[(1 + y * grid[1] + x) * 2 + d], want, 1e-14);
            }
}

Test(reference_absolute, a_4_by_4_table_resampled_to_7_by_5_and_3_by_3)
{
    static const uint32_t grids[2][2] = {{7, 5}, {3, 3}};
    double table[(1 + 16) * 2];
    int mode, antialias, corners, g;
    size_t i;

    for (i = 0; i < sizeof table / sizeof *table; i++)
        table[i] = cos(2.0 * (double)i);
    for (mode = REF_RESIZE_BILINEAR; mode <= REF_RESIZE_BICUBIC; mode++)
        for (antialias = 0; antialias < 2; antialias++)
            for (corners = 0; corners < 2 - antialias; corners++)
                for (g = 0; g < 2; g++)
                    check_resampling((ref_resize){.mode = (ref_resize_mode)mode,
                                                  .antialias = antialias,
                                                  .align_corners = corners,
                                                  .old_grid = {4, 4},
                                                  .prefix = 1,
                                                  .dim = 2},
                                     grids[g], table);
}

/* Bicubic enlarging is not the same with and without antialias, bilinear is. */
Test(reference_absolute, antialias_changes_bicubic_enlarging_only)
{
    ref_resize t = {.mode = REF_RESIZE_BICUBIC, .old_grid = {7, 1}, .new_grid = {9, 1}, .dim = 1};
    double a[63], b[63], most = 0;
    size_t i;

    cr_assert_eq(ref_resize_weights(&t, 0, a), 0);
    t.antialias = 1;
    cr_assert_eq(ref_resize_weights(&t, 0, b), 0);
    for (i = 0; i < 63; i++)
        most = fmax(most, fabs(a[i] - b[i]));
    cr_expect(most > 0.01, "%g", most);
    t.mode = REF_RESIZE_BILINEAR;
    cr_assert_eq(ref_resize_weights(&t, 0, b), 0);
    t.antialias = 0;
    check_weights("bilinear", &t, b, 1e-15);
}

/* The ratio that reaches the end, by Newton's method on the sum itself. */
static double newton_ratio(int k, double reach)
{
    double q = 1.4;
    int step, i;

    for (step = 0; step < 50; step++) {
        double sum = 0, slope = 0;
        for (i = 0; i < k; i++) {
            slope = slope * q + sum; /* Horner's scheme for the sum and its derivative */
            sum = sum * q + 1;
        }
        q -= (sum - reach) / slope;
    }
    return q;
}

/* Linear interpolation gives the abscissae themselves back. */
Test(reference_absolute, geometric_offsets_grow_by_the_ratio_that_reaches_the_end)
{
    const ref_resize t = {
        .mode = REF_RESIZE_GEOMETRIC, .old_grid = {13, 1}, .new_grid = {23, 1}, .dim = 1};
    const double q = newton_ratio(6, 11);
    double weights[23 * 13], offsets[13] = {0}, distance = 0, step = 1;
    int i, j;

    for (i = 1; i <= 6; i++, step *= q) {
        distance += step;
        offsets[6 + i] = distance;
        offsets[6 - i] = -distance;
    }
    check("the ratio", distance, 11, 1e-12);
    cr_assert_eq(ref_resize_weights(&t, 0, weights), 0);
    for (i = 0; i < 23; i++) {
        double sum = 0, where = 0;
        for (j = 0; j < 13; j++) {
            sum += weights[i * 13 + j];
            where += weights[i * 13 + j] * offsets[j];
        }
        check("sum", sum, 1, 1e-14);
        check("where", where, i - 11, 1e-4);
    }
    check("the middle stays", weights[11 * 13 + 6], 1, 0);
    check("and its neighbour", weights[12 * 13 + 7], 1, 0);
}

Test(reference_absolute, a_geometric_target_beyond_the_source_takes_the_edge)
{
    ref_resize t = {.mode = REF_RESIZE_GEOMETRIC, .old_grid = {3, 1}, .new_grid = {5, 1}, .dim = 1};

    check_weights("1 offset a side", &t,
                  (const double[]){1, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 1}, 0);
    t.new_grid[0] = 4;
    cr_expect_eq(ref_resize_weights(&t, 0, (double[64]){0}), -1, "an even number of offsets");
}

Test(reference_absolute, resamplings_that_mean_nothing_are_refused)
{
    double w[64];
    ref_resize t = {.old_grid = {4, 1}, .new_grid = {2, 1}, .antialias = 1, .align_corners = 1};

    cr_expect_eq(ref_resize_weights(&t, 0, w), -1, "corners with antialias");
    t.antialias = 0;
    t.scale_factor[0] = 0.5;
    cr_expect_eq(ref_resize_weights(&t, 0, w), -1, "corners with a factor");
    t.align_corners = 0;
    t.antialias = 1;
    t.scale_factor[0] = 0.25;
    cr_expect_eq(ref_resize_weights(&t, 0, w), -1, "a target beyond the source");
    t.scale_factor[0] = -1;
    cr_expect_eq(ref_resize_weights(&t, 0, w), -1, "a factor below 0");
    t.scale_factor[0] = 0;
    t.old_grid[0] = 0;
    cr_expect_eq(ref_resize_weights(&t, 0, w), -1, "an empty table");
}
