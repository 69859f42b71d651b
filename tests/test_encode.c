/* ENCODE: every layout, rule and kind of coordinate against the double-precision reference, in
 * every dtype, at shapes that are multiples of nothing. */
#include "shapes_encode.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define SINUSOID .kind = ENCODE_SHAPE_SINUSOID
#define LEARNED .kind = ENCODE_SHAPE_LEARNED
#define PLANE .kind = ENCODE_SHAPE_GRID
#define FULL .kind = ENCODE_SHAPE_FULL
#define CONCAT .kind = ENCODE_SHAPE_CONCAT
#define SUM .kind = ENCODE_SHAPE_SUM
#define SIN_FIRST .layout_1d = RHUMB_SINUSOID_SIN_FIRST
#define COS_FIRST .layout_1d = RHUMB_SINUSOID_COS_FIRST
#define ENDPOINT .frequency = RHUMB_FREQUENCY_ENDPOINT
#define ODD_ZERO .odd = RHUMB_SINUSOID_ODD_ZERO
#define ODD_NATIVE .odd = RHUMB_SINUSOID_ODD_NATIVE
#define ODD_CUT .odd = RHUMB_SINUSOID_ODD_CUT
#define F16 .dtype = RHUMB_F16
#define BF16 .dtype = RHUMB_BF16
#define PER_AXIS .layout_2d = RHUMB_GRID_PER_AXIS
#define SIN_COS .layout_2d = RHUMB_GRID_SIN_COS
#define BY_COLUMN .order = RHUMB_AXIS_COLUMN_FIRST
#define UNEVEN {.row_pad = 5, .offset = 3}

static const encode_shape sinusoids[] = {
    /* layouts and rules, in vectors and not */
    {SINUSOID, .batch = 2, .rows = 7, .dim = 64},
    {SINUSOID, .rows = 7, .dim = 64, SIN_FIRST},
    {SINUSOID, .rows = 7, .dim = 64, COS_FIRST},
    {SINUSOID, .rows = 7, .dim = 64, ENDPOINT},
    {SINUSOID, .rows = 7, .dim = 64, SIN_FIRST, ENDPOINT},
    {SINUSOID, .rows = 7, .dim = 64, COS_FIRST, ENDPOINT},
    {SINUSOID, .rows = 13, .dim = 6},
    {SINUSOID, .rows = 13, .dim = 10, SIN_FIRST},
    {SINUSOID, .rows = 13, .dim = 62, COS_FIRST, .alone = true},
    {SINUSOID, .rows = 1, .dim = 2},
    {SINUSOID, .rows = 1, .dim = 2, ENDPOINT, SIN_FIRST, .position_first = 9},
    {SINUSOID, .rows = 31, .dim = 512, .base = 20.0},
    /* odd numbers of channels, one of them alone */
    {SINUSOID, .rows = 11, .dim = 9, ODD_ZERO},
    {SINUSOID, .rows = 11, .dim = 13, ODD_ZERO, SIN_FIRST, ENDPOINT},
    {SINUSOID, .rows = 11, .dim = 13, ODD_ZERO, COS_FIRST},
    {SINUSOID, .rows = 11, .dim = 9, ODD_NATIVE},
    {SINUSOID, .rows = 11, .dim = 15, ODD_NATIVE, SIN_FIRST},
    {SINUSOID, .rows = 11, .dim = 9, ODD_CUT},
    {SINUSOID, .rows = 11, .dim = 15, ODD_CUT, SIN_FIRST, ENDPOINT},
    {SINUSOID, .rows = 11, .dim = 15, ODD_CUT, COS_FIRST},
    {SINUSOID, .rows = 11, .dim = 64, ODD_NATIVE, SIN_FIRST},
    {SINUSOID, .rows = 5, .dim = 1, ODD_ZERO},
    {SINUSOID, .rows = 5, .dim = 1, ODD_NATIVE, .position_first = 3},
    {SINUSOID, .rows = 5, .dim = 3, ODD_ZERO, ENDPOINT, SIN_FIRST},
    /* wide: both lists of turns, several elements of the first */
    {SINUSOID, .rows = 3, .dim = 4096, .positions = SHAPE_ANYWHERE},
    {SINUSOID, .rows = 2, .dim = 8192, SIN_FIRST, ENDPOINT, .positions = SHAPE_ANYWHERE},
    {SINUSOID, .rows = 2, .dim = 8191, ODD_CUT, .positions = SHAPE_ANYWHERE},
    {SINUSOID, .rows = 2, .dim = 32768, SIN_FIRST, .alone = true, .position_first = 2147483000},
    /* positions */
    {SINUSOID, .batch = 2, .rows = 11, .dim = 64, .positions = SHAPE_ANYWHERE},
    {SINUSOID, .batch = 5, .rows = 11, .dim = 64, .positions = SHAPE_SHARED, .position_first = 17},
    {SINUSOID, .batch = 5, .rows = 11, .dim = 20, SIN_FIRST, .position_first = 17},
    {SINUSOID, .batch = 3, .rows = 11, .dim = 64, .positions = SHAPE_LEFT_PAD},
    {SINUSOID, .batch = 3, .rows = 11, .dim = 64, .positions = SHAPE_NEGATIVE},
    {SINUSOID, .rows = 5, .dim = 64, .position_first = 2147483640},
    {SINUSOID, .batch = 2, .rows = 5, .dim = 64, .positions = SHAPE_ANYWHERE, .offset = 2147483647},
    {SINUSOID, .batch = 2, .rows = 5, .dim = 64, .positions = SHAPE_ANYWHERE,
     .offset = -2147483647},
    {SINUSOID, .batch = 2, .rows = 9, .dim = 64, .q_length = 4, .positions = SHAPE_PER_BATCH},
    {SINUSOID, F16, .batch = 2, .rows = 9, .dim = 6, .q_length = 4, .out_layout = UNEVEN},
    /* the padding row */
    {SINUSOID, .batch = 2, .rows = 6, .dim = 64, .padded = true},
    {SINUSOID, .rows = 6, .dim = 14, SIN_FIRST, .padded = true, .offset = -3,
     .positions = SHAPE_REPEATS, .position_first = 5},
    {SINUSOID, .rows = 6, .dim = 12, .padded = true, .position_first = -2,
     .positions = SHAPE_SHARED},
    /* scales */
    {SINUSOID, .rows = 7, .dim = 64, .x_scale = 22.627416997969522},
    {SINUSOID, .rows = 7, .dim = 64, .x_scale = -3.0, .pe_scale = 0.044194173824159216},
    {SINUSOID, .rows = 7, .dim = 64, .alone = true, .pe_scale = 100.0},
    /* lists of frequencies */
    {SINUSOID, .rows = 7, .dim = 32, .listed = true, .positions = SHAPE_ANYWHERE},
    {SINUSOID, .rows = 7, .dim = 13, .listed = true, ODD_CUT, SIN_FIRST},
    {SINUSOID, .rows = 7, .dim = 13, .listed = true, ODD_ZERO, COS_FIRST, .offset = 4},
    /* 16-bit storage, dtypes that differ, rows of wider buffers, rows that share words */
    {SINUSOID, F16, .batch = 2, .rows = 9, .dim = 64},
    {SINUSOID, BF16, .batch = 2, .rows = 9, .dim = 64, SIN_FIRST},
    {SINUSOID, F16, .rows = 9, .dim = 6, .alone = true},
    {SINUSOID, F16, .batch = 2, .rows = 9, .dim = 9, ODD_ZERO, .layout = UNEVEN,
     .out_layout = UNEVEN},
    {SINUSOID, BF16, .batch = 2, .rows = 9, .dim = 15, ODD_NATIVE, SIN_FIRST,
     .out_layout = {.row_pad = 1, .offset = 1}},
    {SINUSOID, .rows = 9, .dim = 64, .out_differs = true, .out_dtype = RHUMB_F16},
    {SINUSOID, F16, .rows = 9, .dim = 22, .out_differs = true, .out_dtype = RHUMB_BF16},
    {SINUSOID, .batch = 3, .rows = 5, .dim = 64, .layout = UNEVEN, .out_layout = UNEVEN},
    {SINUSOID, .batch = 3, .rows = 5, .dim = 64, .layout = {.row_pad = 16, .offset = 4},
     .out_layout = {.row_pad = 4, .offset = 8}},
    /* in place */
    {SINUSOID, .batch = 3, .rows = 5, .dim = 64, .in_place = true},
    {SINUSOID, .batch = 6, .rows = 5, .dim = 22, SIN_FIRST, .in_place = true, .layout = UNEVEN,
     .positions = SHAPE_PER_BATCH},
    {SINUSOID, F16, .batch = 2, .rows = 5, .dim = 9, ODD_CUT, .in_place = true, .layout = UNEVEN},
    {SINUSOID, BF16, .rows = 5, .dim = 64, .in_place = true, .x_scale = 8.0},
};

static const encode_shape tables[] = {
    /* one sum each: exact in every dtype */
    {LEARNED, .batch = 2, .rows = 7, .dim = 64, .table_rows = 32},
    {LEARNED, .rows = 1, .dim = 1, .table_rows = 1},
    {LEARNED, .batch = 5, .rows = 13, .dim = 7, .table_rows = 20, .offset = 2,
     .position_first = 5},
    {LEARNED, .rows = 5, .dim = 4096, .table_rows = 9, .alone = true},
    {LEARNED, F16, .batch = 2, .rows = 7, .dim = 64, .table_rows = 32, .table_dtype = RHUMB_F16},
    {LEARNED, BF16, .batch = 2, .rows = 7, .dim = 62, .table_rows = 32, .table_dtype = RHUMB_BF16},
    {LEARNED, .rows = 7, .dim = 64, .table_rows = 32, .table_dtype = RHUMB_BF16},
    {LEARNED, F16, .rows = 7, .dim = 9, .table_rows = 32, .table_layout = UNEVEN, .layout = UNEVEN,
     .table_dtype = RHUMB_F16, .out_layout = UNEVEN},
    {LEARNED, .rows = 7, .dim = 64, .table_rows = 32, .table_layout = {.row_pad = 2, .offset = 1}},
    {LEARNED, .batch = 2, .rows = 7, .dim = 12, .table_rows = 32, .in_place = true},
    {LEARNED, F16, .batch = 3, .rows = 7, .dim = 11, .table_rows = 32, .in_place = true,
     .layout = UNEVEN, .positions = SHAPE_PER_BATCH, .position_first = -150},
    {LEARNED, .rows = 7, .dim = 20, .table_rows = 32, .x_scale = 2.5, .pe_scale = 0.3},
    {LEARNED, .rows = 9, .dim = 20, .table_rows = 32, .q_length = 4},
    /* positions outside the table are counted, and take the nearest row or none */
    {LEARNED, .batch = 2, .rows = 11, .dim = 20, .table_rows = 16, .positions = SHAPE_NEGATIVE},
    {LEARNED, .batch = 2, .rows = 11, .dim = 20, .table_rows = 16, .positions = SHAPE_NEGATIVE,
     .out_of_range = RHUMB_OUT_OF_RANGE_ZERO, .offset = 2},
    {LEARNED, .batch = 2, .rows = 11, .dim = 21, .table_rows = 16, .positions = SHAPE_ANYWHERE,
     .offset = 1073741824},
    {LEARNED, .batch = 2, .rows = 11, .dim = 21, .table_rows = 16, .positions = SHAPE_ANYWHERE,
     .offset = -1073741824, .out_of_range = RHUMB_OUT_OF_RANGE_ZERO},
    {LEARNED, .batch = 5, .rows = 11, .dim = 20, .table_rows = 16, .positions = SHAPE_SHARED,
     .position_first = 12},
    {LEARNED, .batch = 2, .rows = 11, .dim = 20, .table_rows = 16, .positions = SHAPE_NEGATIVE,
     .clamp_negative = true, .offset = 3},
    {LEARNED, .batch = 2, .rows = 11, .dim = 20, .table_rows = 16, .positions = SHAPE_NEGATIVE,
     .q_length = 3},
    /* rows divided by their length, a work group each */
    {LEARNED, .batch = 2, .rows = 5, .dim = 64, .table_rows = 16, .normalize = true},
    {LEARNED, .batch = 5, .rows = 3, .dim = 1031, .table_rows = 16, .normalize = true,
     .pe_scale = 3.0},
    {LEARNED, F16, .batch = 2, .rows = 7, .dim = 9, .table_rows = 16, .normalize = true,
     .positions = SHAPE_NEGATIVE, .out_of_range = RHUMB_OUT_OF_RANGE_ZERO, .q_length = 5},
    {LEARNED, .rows = 7, .dim = 1, .table_rows = 16, .normalize = true, .alone = true},
    /* whole tables over a grid */
    {FULL, .batch = 2, .grid = {3, 5}, .dim = 12},
    {FULL, .batch = 2, .grid = {3, 5}, .dim = 12, .prefix = 1},
    {FULL, .batch = 2, .grid = {7, 2}, .dim = 9, .prefix = 2, .no_prefix_rows = true},
    {FULL, .batch = 5, .grid = {2, 7}, .dim = 20, .prefix = 5, .no_prefix_rows = true,
     .in_place = true},
    {FULL, .batch = 2, .grid = {3, 8}, .dim = 12, .image = true},
    {FULL, F16, .batch = 2, .grid = {3, 7}, .dim = 5, .image = true, .layout = UNEVEN,
     .out_layout = UNEVEN},
    {FULL, BF16, .grid = {1, 13}, .dim = 64, .table_dtype = RHUMB_BF16, .pe_scale = 0.5},
    /* rows and columns */
    {CONCAT, .batch = 2, .grid = {3, 5}, .dim = 16, BY_COLUMN},
    {CONCAT, .batch = 2, .grid = {3, 5}, .dim = 16},
    {CONCAT, .grid = {5, 2}, .dim = 6, BY_COLUMN, .prefix = 1},
    {CONCAT, F16, .batch = 2, .grid = {3, 7}, .dim = 10, BY_COLUMN, .table_dtype = RHUMB_F16,
     .in_place = true, .layout = UNEVEN},
    {CONCAT, .batch = 2, .grid = {3, 8}, .dim = 8, BY_COLUMN, .image = true},
    {CONCAT, .grid = {4, 9}, .dim = 6, .image = true, .alone = true},
    {SUM, .batch = 2, .grid = {3, 5}, .dim = 16},
    {SUM, .batch = 2, .grid = {5, 3}, .dim = 7, .prefix = 3},
    {SUM, .batch = 2, .grid = {3, 7}, .dim = 7, .image = true},
    {SUM, BF16, .grid = {2, 3}, .dim = 24, .table_dtype = RHUMB_F16, .x_scale = 3.0},
};

/* No grid is square: on a square one by columns and column first is by rows and row first. */
static const encode_shape grids[] = {
    {PLANE, .batch = 2, .grid = {3, 5}, .dim = 16},
    {PLANE, .grid = {3, 5}, .dim = 16, BY_COLUMN},
    {PLANE, .grid = {3, 5}, .dim = 32, PER_AXIS},
    {PLANE, .grid = {5, 3}, .dim = 32, PER_AXIS, BY_COLUMN},
    {PLANE, .grid = {3, 5}, .dim = 32, SIN_COS},
    {PLANE, .grid = {3, 5}, .dim = 32, SIN_COS, BY_COLUMN, .column_major = true},
    {PLANE, .grid = {7, 2}, .dim = 12, ENDPOINT, PER_AXIS},
    {PLANE, .batch = 2, .grid = {7, 2}, .dim = 20, SIN_COS, .column_major = true, .prefix = 1},
    {PLANE, .batch = 2, .grid = {1, 1}, .dim = 4, .start = 1.0},
    {PLANE, .grid = {2, 7}, .dim = 36, .prefix = 5, .start = -0.5, .in_place = true},
    {PLANE, .grid = {2, 7}, .dim = 16, .start = 1000000.25, PER_AXIS},
    {PLANE, .grid = {2, 3}, .dim = 16, .start = 1073741824.0},
    {PLANE, .grid = {3, 5}, .dim = 4096, SIN_COS},
    /* channels of an axis that are not half of them: cut, or filled with zeros */
    {PLANE, .grid = {3, 5}, .dim = 10, .axis_dim = 6},
    {PLANE, .grid = {3, 5}, .dim = 11, .axis_dim = 6, SIN_COS},
    {PLANE, .grid = {3, 5}, .dim = 11, .axis_dim = 4, PER_AXIS},
    {PLANE, .batch = 2, .grid = {3, 5}, .dim = 28, .axis_dim = 8, .x_scale = 2.0},
    {PLANE, .grid = {3, 7}, .dim = 11, .axis_dim = 4, .image = true},
    {PLANE, .grid = {3, 7}, .dim = 9, .axis_dim = 6, .image = true, SIN_COS},
    /* images */
    {PLANE, .batch = 5, .grid = {3, 8}, .dim = 12, .image = true},
    {PLANE, .batch = 2, .grid = {4, 7}, .dim = 12, .image = true, BY_COLUMN, .in_place = true},
    {PLANE, F16, .batch = 2, .grid = {4, 7}, .dim = 12, .image = true, PER_AXIS, .layout = UNEVEN,
     .out_layout = UNEVEN},
    {PLANE, BF16, .grid = {9, 1}, .dim = 8, .image = true, .alone = true},
    /* coordinates that count valid pixels */
    {PLANE, .batch = 3, .grid = {5, 7}, .dim = 16, .mask = ENCODE_MASK_CORNER},
    {PLANE, .batch = 2, .grid = {5, 7}, .dim = 80, .mask = ENCODE_MASK_HOLES, .divided = true},
    {PLANE, .batch = 2, .grid = {6, 7}, .dim = 80, .mask = ENCODE_MASK_HOLES, .divided = true,
     .image = true},
    {PLANE, .batch = 5, .grid = {6, 8}, .dim = 72, .mask = ENCODE_MASK_HOLES, .divided = true,
     .image = true, .mask_shared = true, .base = 20.0},
    {PLANE, .batch = 2, .grid = {9, 6}, .dim = 12, .mask = ENCODE_MASK_EMPTY, .divided = true},
    {PLANE, .batch = 2, .grid = {9, 6}, .dim = 12, .mask = ENCODE_MASK_EMPTY, .divided = true,
     .center = -0.5},
    {PLANE, .batch = 2, .grid = {9, 6}, .dim = 12, .mask = ENCODE_MASK_NOTHING, .divided = true,
     .image = true},
    {PLANE, .grid = {9, 6}, .dim = 12, .mask = ENCODE_MASK_NOTHING, .divided = true,
     .center = -0.5},
    {PLANE, .batch = 2, .grid = {3, 37}, .dim = 24, .mask = ENCODE_MASK_CORNER, .divided = true,
     .center = -0.5, BY_COLUMN},
    {PLANE, .batch = 2, .grid = {37, 3}, .dim = 24, .mask = ENCODE_MASK_HOLES, .divided = true,
     .center = 3.25, .epsilon = 0.5, .coordinate_scale = -100.0},
    {PLANE, F16, .batch = 2, .grid = {5, 7}, .dim = 20, .mask = ENCODE_MASK_HOLES, .divided = true,
     .prefix = 2, .in_place = true},
};

/* ---- values that others computed (field test 18) */

#define D8 8
static const double paper[4] = {3.0, 0.3, 0.03, 0.003};                  /* 3 * 10^-i */
static const double endpoint[4] = {3.0, 0.13924766500838335, 0.0064633040700956, 0.0003};

/* Position 3 in 8 channels: where each sine and cosine must lie is written out here. */
static void check_written_out(harness *h, rhumb_sinusoid_layout layout, rhumb_frequency_rule rule)
{
    static const int sine_at[3][4] = {{0, 2, 4, 6}, {0, 1, 2, 3}, {4, 5, 6, 7}};
    static const int cosine_at[3][4] = {{1, 3, 5, 7}, {4, 5, 6, 7}, {0, 1, 2, 3}};
    const double *angle = rule == RHUMB_FREQUENCY_PAPER ? paper : endpoint;
    rhumb_sinusoidal scheme;
    harness_tensor y;
    gpu_operation op;
    rhumb_init_sinusoidal(&scheme);
    scheme.layout = layout;
    scheme.frequency = rule;
    harness_make_tensor(&y, RHUMB_F32, 1, 1, 1, D8, (harness_layout){0});
    gpu_init_operation(&op, RHUMB_OP_ENCODE);
    op.info.scheme = &scheme;
    op.info.head_dim = D8;
    op.info.max_q_length = 1;
    op.dispatch.q_offset = 3;
    (void)harness_add(&op, RHUMB_VIEW_Y, &y, true);
    h->cases++;
    if (harness_run(h, &op) != RHUMB_OK) {
        harness_fail(h, "written out: %s", op.message);
    }
    harness_load(&y);
    for (int i = 0; i < 4; i++) {
        double s = y.values[sine_at[layout][i]], c = y.values[cosine_at[layout][i]];
        if (!(fabs(s - sin(angle[i])) <= 2e-7 && fabs(c - cos(angle[i])) <= 2e-7)) {
            harness_fail(h, "layout %d rule %d angle %d: got %.9g, %.9g, want %.9g, %.9g",
                         (int)layout, (int)rule, i, s, c, sin(angle[i]), cos(angle[i]));
        }
    }
    harness_free_tensor(&y);
}

/* A grid of 2 rows and 3 columns in 4 channels: the token at row 1, column 2. */
static void check_axes(harness *h)
{
    for (int order = 0; order < 2; order++) {
        double first = order == 0 ? 1.0 : 2.0, second = 3.0 - first;
        const double want[4] = {sin(first), cos(first), sin(second), cos(second)};
        rhumb_sinusoidal2d scheme;
        harness_tensor y;
        gpu_operation op;
        rhumb_init_sinusoidal2d(&scheme);
        scheme.order = (rhumb_axis_order)order;
        scheme.grid[0] = 2;
        scheme.grid[1] = 3;
        harness_make_tensor(&y, RHUMB_F32, 1, 1, 6, 4, (harness_layout){0});
        gpu_init_operation(&op, RHUMB_OP_ENCODE);
        op.info.scheme = &scheme;
        op.info.head_dim = 4;
        op.info.max_q_length = 6;
        (void)harness_add(&op, RHUMB_VIEW_Y, &y, true);
        h->cases++;
        if (harness_run(h, &op) != RHUMB_OK) {
            harness_fail(h, "axes: %s", op.message);
        }
        harness_load(&y);
        for (int d = 0; d < 4; d++) {
            if (!(fabs(y.values[5 * 4 + d] - want[d]) <= 2e-7)) {
                harness_fail(h, "order %d channel %d: got %.9g, want %.9g", order, d,
                             y.values[5 * 4 + d], want[d]);
            }
        }
        harness_free_tensor(&y);
    }
}

/* The same parameters but order and token order: MAE and MoCo-v3. Token 1 of a grid of 2 x 3 is
 * row 0, column 1 of the one and row 1, column 0 of the other, and both have the column first. */
static void check_mae_and_moco(harness *h)
{
    double row[2][8];
    for (int moco = 0; moco < 2; moco++) {
        rhumb_sinusoidal2d scheme;
        harness_tensor y;
        gpu_operation op;
        rhumb_init_sinusoidal2d(&scheme);
        scheme.order = RHUMB_AXIS_COLUMN_FIRST;
        scheme.layout = RHUMB_GRID_PER_AXIS;
        scheme.tokens = moco != 0 ? RHUMB_TOKENS_COLUMN_MAJOR : RHUMB_TOKENS_ROW_MAJOR;
        scheme.grid[0] = 2;
        scheme.grid[1] = 3;
        scheme.prefix_tokens = 1;
        harness_make_tensor(&y, RHUMB_F32, 1, 1, 7, 8, (harness_layout){0});
        gpu_init_operation(&op, RHUMB_OP_ENCODE);
        op.info.scheme = &scheme;
        op.info.head_dim = 8;
        op.info.max_q_length = 7;
        (void)harness_add(&op, RHUMB_VIEW_Y, &y, true);
        h->cases++;
        if (harness_run(h, &op) != RHUMB_OK) {
            harness_fail(h, "MAE, MoCo-v3: %s", op.message);
        }
        harness_load(&y);
        memcpy(row[moco], y.values + 2 * 8, sizeof row[moco]);
        for (int d = 0; d < 8; d++) {
            if (y.values[d] != 0.0) {
                harness_fail(h, "the class token's channel %d is %g", d, y.values[d]);
            }
        }
        harness_free_tensor(&y);
    }
    /* [sin x, sin x/100, cos x, cos x/100, sin y, ...] */
    const double mae[8] = {sin(1), sin(0.01), cos(1), cos(0.01), 0, 0, 1, 1};
    const double moco[8] = {0, 0, 1, 1, sin(1), sin(0.01), cos(1), cos(0.01)};
    for (int d = 0; d < 8; d++) {
        if (!(fabs(row[0][d] - mae[d]) <= 2e-7 && fabs(row[1][d] - moco[d]) <= 2e-7)) {
            harness_fail(h, "channel %d: got %.9g (MAE), %.9g (MoCo-v3), want %.9g, %.9g", d,
                         row[0][d], row[1][d], mae[d], moco[d]);
        }
    }
}

/* ---- LENGTHS */

/* Two entries with 3 and 5 of 5 rows from positions 100 and 7 on; or the first asks for 9 rows. */
static void check_lengths(harness *h, bool beyond)
{
    const int32_t wanted[2][4] = {{RHUMB_UNSET, beyond ? 9 : 3, 100, RHUMB_UNSET},
                                  {RHUMB_UNSET, RHUMB_UNSET, 7, RHUMB_UNSET}};
    const uint32_t rows[2] = {beyond ? 5 : 3, 5};
    rhumb_sinusoidal scheme;
    harness_tensor y, before, lengths, status;
    gpu_operation op;
    rhumb_init_sinusoidal(&scheme);
    const harness_layout padded = {.row_pad = 2, .offset = 1};
    harness_make_tensor(&y, RHUMB_F32, 2, 1, 5, 4, padded);
    harness_make_tensor(&before, RHUMB_F32, 2, 1, 5, 4, padded);
    harness_make_tensor(&lengths, RHUMB_I32, 1, 1, 2, 4, (harness_layout){0});
    harness_make_tensor(&status, RHUMB_I32, 1, 1, 1, 1, (harness_layout){0});
    for (uint64_t i = 0; i < 8; i++) {
        lengths.values[i] = wanted[i / 4][i % 4];
    }
    harness_store(&lengths);
    harness_store(&status);
    gpu_init_operation(&op, RHUMB_OP_ENCODE);
    op.info.scheme = &scheme;
    op.info.head_dim = 4;
    op.info.max_q_length = 5;
    (void)harness_add(&op, RHUMB_VIEW_Y, &y, true);
    (void)harness_add(&op, RHUMB_VIEW_LENGTHS, &lengths, false);
    (void)harness_add(&op, RHUMB_VIEW_STATUS, &status, true);
    h->cases++;
    if (harness_run(h, &op) != RHUMB_OK) {
        harness_fail(h, "lengths: %s", op.message);
    }
    harness_load(&y);
    harness_load(&status);
    for (uint32_t i = 0; i < 40; i++) {
        uint32_t b = i / 20, l = i / 4 % 5;
        double p = (b == 0 ? 100.0 : 7.0) + l, a = i % 4 < 2 ? p : p / 100.0;
        double want = i % 2 == 0 ? sin(a) : cos(a);
        uint64_t at = harness_byte(&y, i);
        if (l < rows[b] ? !(fabs(y.values[i] - want) <= 2e-7)
                        : memcmp(y.memory + at, before.memory + at, 4) != 0) {
            harness_fail(h, "lengths: entry %u row %u: got %.9g, want %.9g", b, l, y.values[i],
                         l < rows[b] ? want : (double)NAN);
            break;
        }
    }
    if ((status.values[0] > 0.0) != beyond) {
        harness_fail(h, "lengths: STATUS is %g", status.values[0]);
    }
    harness_free_tensor(&y);
    harness_free_tensor(&before);
    harness_free_tensor(&lengths);
    harness_free_tensor(&status);
}

static void run_profile(harness_profile profile)
{
    harness h;
    harness_open(&h, profile);
    SHAPE_RUN_ALL(&h, shape_run_encode, sinusoids);
    SHAPE_RUN_ALL(&h, shape_run_encode, tables);
    SHAPE_RUN_ALL(&h, shape_run_encode, grids);
    for (int layout = 0; layout < 3; layout++) {
        check_written_out(&h, (rhumb_sinusoid_layout)layout, RHUMB_FREQUENCY_PAPER);
        check_written_out(&h, (rhumb_sinusoid_layout)layout, RHUMB_FREQUENCY_ENDPOINT);
    }
    check_axes(&h);
    check_mae_and_moco(&h);
    check_lengths(&h, false);
    check_lengths(&h, true);
    harness_close(&h);
}

Test(encode, adds_every_absolute_position_on_lavapipe)
{
    run_profile(HARNESS_LAVAPIPE);
}

Test(encode, adds_every_absolute_position_on_the_smallest_device)
{
    run_profile(HARNESS_LAVAPIPE_FLOOR);
}

Test(encode, adds_every_absolute_position_on_swiftshader)
{
    run_profile(HARNESS_SWIFTSHADER);
}
