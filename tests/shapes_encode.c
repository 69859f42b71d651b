#include "shapes_encode.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What lib/trig.glsl promises of a sine, and the 2^-31 turn of its phase. */
#define SINE_ERROR 1.6e-7
#define ROUNDING 5.9604644775390625e-8 /* 2^-24: of one operation in float32 */

typedef struct encode_run {
    const encode_shape *s;
    uint32_t batch;
    uint32_t rows;   /* of tokens */
    bool positioned; /* a POSITIONS view */
    harness_tensor x, y, before, table, column_table, positions, valid, status;
    int32_t *position_of; /* [batch, rows] */
    int32_t *mask;        /* [batch, H, W] */
    double frequencies[64];
    double *pe;           /* [batch, elements of Y], not scaled */
    bool *noise;          /* of Y: divided by a total of 0 */
    uint32_t outside;     /* positions outside the table */
    union {
        rhumb_sinusoidal sinusoid;
        rhumb_learned learned;
        rhumb_sinusoidal2d grid;
        rhumb_learned2d learned2d;
    } scheme;
    gpu_operation op;
} encode_run;

static double or_one(double value)
{
    return value != 0.0 ? value : 1.0;
}

static bool has_grid(const encode_shape *s)
{
    return s->kind >= ENCODE_SHAPE_GRID;
}

static uint64_t elements(const encode_run *run)
{
    return (uint64_t)run->rows * run->s->dim;
}

/* ---- scheme structs */

static uint32_t angles_of(const encode_shape *s)
{
    return s->odd == RHUMB_SINUSOID_ODD_ZERO ? s->dim / 2 : (s->dim + 1) / 2;
}

static int32_t padding_of(const encode_shape *s)
{
    return s->padded ? s->position_first + 2 + s->offset : RHUMB_UNSET;
}

static void make_sinusoid(encode_run *run)
{
    const encode_shape *s = run->s;
    rhumb_sinusoidal *p = &run->scheme.sinusoid;
    rhumb_init_sinusoidal(p);
    p->layout = s->layout_1d;
    p->frequency = s->frequency;
    p->odd = s->odd;
    p->offset = s->offset;
    p->padding_index = padding_of(s);
    p->base = s->base != 0.0 ? s->base : 10000.0;
    p->x_scale = or_one(s->x_scale);
    p->pe_scale = or_one(s->pe_scale);
    if (s->listed) {
        p->list_count = angles_of(s);
        p->frequencies = run->frequencies;
        for (uint32_t i = 0; i < p->list_count; i++) {
            run->frequencies[i] = (i % 2 != 0 ? -1.0 : 1.0) * 6.2 / (1.0 + 3.3 * i);
        }
    }
}

static void make_learned(encode_run *run)
{
    const encode_shape *s = run->s;
    rhumb_learned *p = &run->scheme.learned;
    rhumb_init_learned(p);
    p->out_of_range = s->out_of_range;
    p->offset = s->offset;
    p->clamp_negative = s->clamp_negative;
    p->normalize = s->normalize;
    p->x_scale = or_one(s->x_scale);
    p->pe_scale = or_one(s->pe_scale);
}

static void make_grid(encode_run *run)
{
    const encode_shape *s = run->s;
    rhumb_sinusoidal2d *p = &run->scheme.grid;
    rhumb_init_sinusoidal2d(p);
    p->order = s->order;
    p->layout = s->layout_2d;
    p->frequency = s->frequency;
    p->tokens = s->column_major ? RHUMB_TOKENS_COLUMN_MAJOR : RHUMB_TOKENS_ROW_MAJOR;
    p->coordinates = s->mask != ENCODE_MASK_NONE ? RHUMB_COORDINATES_VALID
                                                 : RHUMB_COORDINATES_INDEX;
    p->output = s->image ? RHUMB_OUTPUT_IMAGE : RHUMB_OUTPUT_TOKENS;
    memcpy(p->grid, s->grid, sizeof p->grid);
    p->axis_dim = s->axis_dim != 0 ? s->axis_dim : RHUMB_SAME;
    p->prefix_tokens = s->prefix;
    p->normalize = s->divided;
    p->base = s->base != 0.0 ? s->base : 10000.0;
    p->coordinate_start = s->start;
    p->coordinate_scale = s->coordinate_scale != 0.0 ? s->coordinate_scale : p->coordinate_scale;
    p->epsilon = s->epsilon != 0.0 ? s->epsilon : p->epsilon;
    p->center_offset = s->center;
    p->x_scale = or_one(s->x_scale);
    p->pe_scale = or_one(s->pe_scale);
}

static void make_learned2d(encode_run *run)
{
    const encode_shape *s = run->s;
    rhumb_learned2d *p = &run->scheme.learned2d;
    rhumb_init_learned2d(p);
    p->form = s->kind == ENCODE_SHAPE_FULL     ? RHUMB_LEARNED2D_FULL
              : s->kind == ENCODE_SHAPE_CONCAT ? RHUMB_LEARNED2D_CONCAT
                                               : RHUMB_LEARNED2D_SUM;
    p->order = s->order;
    p->output = s->image ? RHUMB_OUTPUT_IMAGE : RHUMB_OUTPUT_TOKENS;
    memcpy(p->grid, s->grid, sizeof p->grid);
    p->prefix_tokens = s->prefix;
    p->table_has_prefix = !s->no_prefix_rows;
    p->x_scale = or_one(s->x_scale);
    p->pe_scale = or_one(s->pe_scale);
}

/* ---- tensors */

static void make_positions(encode_run *run)
{
    const encode_shape *s = run->s;
    uint32_t lines = s->positions == SHAPE_SHARED ? 1 : run->batch;
    run->position_of = harness_alloc((size_t)run->batch * run->rows, sizeof *run->position_of);
    if (has_grid(s)) {
        return;
    }
    shape_fill_positions(s->positions, s->position_first, run->batch, run->rows,
                         run->position_of);
    if (s->positions == SHAPE_ARANGE) {
        run->op.dispatch.q_offset = s->position_first != 0 ? s->position_first : RHUMB_UNSET;
        return;
    }
    run->positioned = true;
    harness_make_tensor(&run->positions, RHUMB_I32, 1, 1, lines, run->rows, (harness_layout){0});
    for (uint64_t i = 0; i < run->positions.count; i++) {
        run->positions.values[i] = run->position_of[i];
    }
    harness_store(&run->positions);
    (void)harness_add(&run->op, RHUMB_VIEW_POSITIONS, &run->positions, false);
    harness_make_tensor(&run->status, RHUMB_I32, 1, 1, 1, 1, (harness_layout){0});
    harness_store(&run->status);
    (void)harness_add(&run->op, RHUMB_VIEW_STATUS, &run->status, true);
}

static int32_t pixel_of(encode_mask mask, uint32_t b, uint32_t y, uint32_t x, const uint32_t *grid)
{
    uint32_t n = (y * 31 + x * 17 + b * 7) % 11;
    switch (mask) {
    case ENCODE_MASK_CORNER:
        return y < grid[0] - b % grid[0] && x + 1 + b % grid[1] <= grid[1];
    case ENCODE_MASK_HOLES:
        return n < 4 ? 0 : n == 5 ? -3 : 1;
    case ENCODE_MASK_EMPTY:
        return n < 4 || y == grid[0] / 2 || x == grid[1] / 2 ? 0 : 1;
    default:
        return 0;
    }
}

static void make_mask(encode_run *run)
{
    const encode_shape *s = run->s;
    uint32_t lines = s->mask_shared ? 1 : run->batch;
    uint64_t pixels = (uint64_t)s->grid[0] * s->grid[1];
    if (s->mask == ENCODE_MASK_NONE) {
        return;
    }
    run->mask = harness_alloc(run->batch * pixels, sizeof *run->mask);
    harness_make_tensor(&run->valid, RHUMB_I32, 1, lines, s->grid[0], s->grid[1],
                        (harness_layout){.row_pad = 3, .offset = 1});
    for (uint64_t i = 0; i < run->batch * pixels; i++) {
        uint32_t b = s->mask_shared ? 0 : (uint32_t)(i / pixels);
        run->mask[i] = pixel_of(s->mask, b, (uint32_t)(i % pixels / s->grid[1]),
                                (uint32_t)(i % s->grid[1]), s->grid);
        if (i < run->valid.count) {
            run->valid.values[i] = run->mask[i];
        }
    }
    harness_store(&run->valid);
    (void)harness_add(&run->op, RHUMB_VIEW_VALID, &run->valid, false);
}

static uint64_t table_rows_of(const encode_run *run)
{
    const encode_shape *s = run->s;
    switch (s->kind) {
    case ENCODE_SHAPE_LEARNED:
        return s->table_rows;
    case ENCODE_SHAPE_FULL:
        return run->rows - (s->no_prefix_rows ? s->prefix : 0);
    default:
        return s->grid[0] + 2; /* larger than the grid */
    }
}

static void make_tables(encode_run *run, harness_random *r)
{
    const encode_shape *s = run->s;
    uint64_t width = s->kind == ENCODE_SHAPE_CONCAT ? s->dim / 2 : s->dim;
    if (s->kind == ENCODE_SHAPE_SINUSOID || s->kind == ENCODE_SHAPE_GRID) {
        return;
    }
    harness_make_tensor(&run->table, s->table_dtype, 1, 1, table_rows_of(run), width,
                        s->table_layout);
    harness_fill_normal(&run->table, r);
    (void)harness_add(&run->op, RHUMB_VIEW_TABLE, &run->table, false);
    if (s->kind == ENCODE_SHAPE_CONCAT || s->kind == ENCODE_SHAPE_SUM) {
        harness_make_tensor(&run->column_table, s->table_dtype, 1, 1, s->grid[1] + 1, width,
                            s->table_layout);
        harness_fill_normal(&run->column_table, r);
        (void)harness_add(&run->op, RHUMB_VIEW_COLUMN_TABLE, &run->column_table, false);
    }
}

static void make_like_y(const encode_run *run, harness_tensor *t, rhumb_dtype dtype,
                        harness_layout layout)
{
    const encode_shape *s = run->s;
    if (s->image) {
        harness_make_tensor(t, dtype, run->batch, s->dim, s->grid[0], s->grid[1], layout);
    } else {
        harness_make_tensor(t, dtype, run->batch, 1, run->rows, s->dim, layout);
    }
}

static void make_x_and_y(encode_run *run, harness_random *r)
{
    const encode_shape *s = run->s;
    harness_layout out = s->in_place ? s->layout : s->out_layout;
    make_like_y(run, &run->x, s->dtype, s->layout);
    harness_fill_normal(&run->x, r);
    make_like_y(run, &run->y, s->out_differs ? s->out_dtype : s->dtype, out);
    make_like_y(run, &run->before, run->y.dtype, out);
    if (s->in_place) {
        memcpy(run->before.memory, run->x.memory, run->x.bytes);
    }
    if (!s->alone) {
        (void)harness_add(&run->op, RHUMB_VIEW_X, &run->x, false);
    }
    gpu_tensor *y = harness_add(&run->op, RHUMB_VIEW_Y, &run->y, true);
    if (s->in_place) {
        y->input = NULL;
        y->same_as = run->op.tensor_count - 1;
    }
}

static void make_run(encode_run *run, const encode_shape *s)
{
    harness_random r = {.state = 31 + s->dim + 7 * s->rows + 13 * s->grid[1]};
    memset(run, 0, sizeof *run);
    run->s = s;
    run->batch = s->batch != 0 ? s->batch : 1;
    run->rows = has_grid(s) ? s->prefix + s->grid[0] * s->grid[1] : s->rows;
    gpu_init_operation(&run->op, RHUMB_OP_ENCODE);
    run->op.info.scheme = &run->scheme;
    run->op.info.head_dim = s->dim;
    run->op.info.max_q_length = run->rows;
    if (s->q_length != 0) {
        run->op.dispatch.q_length = (int32_t)s->q_length;
    }
    switch (s->kind) {
    case ENCODE_SHAPE_SINUSOID:
        make_sinusoid(run);
        break;
    case ENCODE_SHAPE_LEARNED:
        make_learned(run);
        break;
    case ENCODE_SHAPE_GRID:
        make_grid(run);
        break;
    default:
        make_learned2d(run);
        break;
    }
    make_positions(run);
    make_mask(run);
    make_tables(run, &r);
    make_x_and_y(run, &r);
    run->pe = harness_alloc(run->batch * elements(run), sizeof *run->pe);
    run->noise = harness_alloc(run->batch * elements(run), sizeof *run->noise);
}

static void free_run(encode_run *run)
{
    harness_tensor *const all[] = {&run->x,            &run->y,         &run->before, &run->table,
                                   &run->column_table, &run->positions, &run->valid,  &run->status};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        harness_free_tensor(all[i]);
    }
    free(run->position_of);
    free(run->mask);
    free(run->pe);
    free(run->noise);
}

/* ---- what must come out */

static bool refer_sinusoid(encode_run *run)
{
    const encode_shape *s = run->s;
    ref_sinusoid t;
    ref_sinusoid_init(&t, s->dim);
    t.rule = s->frequency == RHUMB_FREQUENCY_PAPER ? REF_SINUSOID_POWER : REF_SINUSOID_ENDPOINT;
    t.layout = s->layout_1d == RHUMB_SINUSOID_INTERLEAVED ? REF_SINUSOID_INTERLEAVED
               : s->layout_1d == RHUMB_SINUSOID_SIN_FIRST ? REF_SINUSOID_SIN_FIRST
                                                          : REF_SINUSOID_COS_FIRST;
    t.odd = s->odd == RHUMB_SINUSOID_ODD_ZERO     ? REF_ODD_ZERO_PAD
            : s->odd == RHUMB_SINUSOID_ODD_NATIVE ? REF_ODD_NATIVE
            : s->odd == RHUMB_SINUSOID_ODD_CUT    ? REF_ODD_CEIL_EVEN
                                                  : REF_ODD_NONE;
    t.base = run->scheme.sinusoid.base;
    t.inv_freq = s->listed ? run->frequencies : NULL;
    t.offset = s->offset;
    t.padding_idx = s->padded ? padding_of(s) : REF_UNSET;
    return ref_sinusoid_encode(&t, run->batch, run->rows, run->position_of, NULL, run->pe) == 0;
}

static bool refer_learned(encode_run *run)
{
    const encode_shape *s = run->s;
    for (uint32_t i = 0; i < run->batch * run->rows; i++) {
        bool counted = i < run->positions.count && i % run->rows < (uint32_t)(s->q_length != 0
                                                                                  ? s->q_length
                                                                                  : run->rows);
        int64_t position = run->position_of[i];
        position = s->clamp_negative && position < 0 ? 0 : position;
        int64_t row = position + s->offset, last = (int64_t)s->table_rows - 1;
        int64_t nearest = row < 0 ? 0 : row > last ? last : row;
        const double *t = run->table.values + (uint64_t)nearest * s->dim;
        double length = 0.0;
        run->outside += counted && nearest != row;
        for (uint32_t d = 0; d < s->dim; d++) {
            length += t[d] * t[d];
        }
        length = s->normalize ? fmax(sqrt(length), 1e-12) : 1.0;
        for (uint32_t d = 0; d < s->dim; d++) {
            bool zero = nearest != row && s->out_of_range == RHUMB_OUT_OF_RANGE_ZERO;
            run->pe[(uint64_t)i * s->dim + d] = zero ? 0.0 : t[d] / length;
        }
    }
    return true;
}

/* Whether the row or column of a pixel has no valid one. */
static bool is_noise(const encode_run *run, uint32_t b, uint64_t token)
{
    const uint32_t *grid = run->s->grid;
    const int32_t *mask = run->mask + (uint64_t)b * grid[0] * grid[1];
    uint32_t in_row = 0, in_column = 0;
    for (uint32_t x = 0; x < grid[1]; x++) {
        in_row += mask[token / grid[1] * grid[1] + x] != 0;
    }
    for (uint32_t y = 0; y < grid[0]; y++) {
        in_column += mask[(uint64_t)y * grid[1] + token % grid[1]] != 0;
    }
    return in_row == 0 || in_column == 0;
}

static void mark_noise(encode_run *run)
{
    const encode_shape *s = run->s;
    uint64_t pixels = (uint64_t)s->grid[0] * s->grid[1];
    if (s->mask == ENCODE_MASK_NONE || !s->divided || s->center == 0.0) {
        return;
    }
    for (uint64_t i = 0; i < run->batch * elements(run); i++) {
        uint32_t b = (uint32_t)(i / elements(run));
        uint64_t at = i % elements(run);
        run->noise[i] = is_noise(run, b, s->image ? at % pixels : at / s->dim);
    }
}

static bool refer_grid(encode_run *run)
{
    const encode_shape *s = run->s;
    ref_sinusoid_grid t;
    ref_sinusoid_grid_init(&t, s->grid[0], s->grid[1], s->dim);
    t.axis_dim = s->axis_dim != 0 ? s->axis_dim : s->dim / 2;
    t.base = run->scheme.grid.base;
    t.rule = s->frequency == RHUMB_FREQUENCY_PAPER ? REF_SINUSOID_POWER : REF_SINUSOID_ENDPOINT;
    t.layout = s->layout_2d == RHUMB_GRID_INTERLEAVED ? REF_LAYOUT_INTERLEAVED
               : s->layout_2d == RHUMB_GRID_PER_AXIS  ? REF_LAYOUT_AXIS_CONCAT
                                                      : REF_LAYOUT_SIN_COS_SPLIT;
    t.columns_first = s->order == RHUMB_AXIS_COLUMN_FIRST;
    t.column_major = s->column_major;
    t.channels_first = s->image;
    t.prefix = s->prefix;
    t.start = s->start;
    t.normalise = s->divided;
    t.scale = run->scheme.grid.coordinate_scale;
    t.eps = run->scheme.grid.epsilon;
    t.centre = s->center;
    t.mask = run->mask;
    t.batch = run->mask != NULL ? run->batch : 1;
    if (ref_sinusoid_grid_table(&t, run->pe) != 0) {
        return false;
    }
    for (uint32_t b = 1; b < run->batch && run->mask == NULL; b++) {
        memcpy(run->pe + b * elements(run), run->pe, elements(run) * sizeof *run->pe);
    }
    mark_noise(run);
    return true;
}

static double pair_value(const encode_run *run, uint32_t y, uint32_t x, uint32_t d)
{
    const encode_shape *s = run->s;
    uint32_t width = (uint32_t)run->table.shape[3];
    const double *row = run->table.values + (uint64_t)y * width;
    const double *column = run->column_table.values + (uint64_t)x * width;
    if (s->kind == ENCODE_SHAPE_SUM) {
        return (double)((float)row[d] + (float)column[d]);
    }
    bool by_column = (d < width) == (s->order == RHUMB_AXIS_COLUMN_FIRST);
    return (by_column ? column : row)[d % width];
}

/* Written out: the definitions are one line each. */
static bool refer_learned2d(encode_run *run)
{
    const encode_shape *s = run->s;
    for (uint64_t i = 0; i < elements(run); i++) {
        uint64_t pixels = (uint64_t)s->grid[0] * s->grid[1];
        uint64_t l = s->image ? i % pixels : i / s->dim;
        uint32_t d = (uint32_t)(s->image ? i / pixels : i % s->dim);
        bool prefix = l < s->prefix;
        uint64_t token = prefix ? 0 : l - s->prefix;
        double value;
        if (s->kind == ENCODE_SHAPE_FULL) {
            value = s->no_prefix_rows ? (prefix ? 0.0 : run->table.values[token * s->dim + d])
                                      : run->table.values[l * s->dim + d];
        } else {
            value = prefix ? 0.0
                           : pair_value(run, (uint32_t)(token / s->grid[1]),
                                        (uint32_t)(token % s->grid[1]), d);
        }
        for (uint32_t b = 0; b < run->batch; b++) {
            run->pe[b * elements(run) + i] = value;
        }
    }
    return true;
}

static bool refer(encode_run *run)
{
    switch (run->s->kind) {
    case ENCODE_SHAPE_SINUSOID:
        return refer_sinusoid(run);
    case ENCODE_SHAPE_LEARNED:
        return refer_learned(run);
    case ENCODE_SHAPE_GRID:
        return refer_grid(run);
    default:
        return refer_learned2d(run);
    }
}

/* ---- comparison */

static void describe(const encode_shape *s, char *text, size_t size)
{
    static const char *const kinds[] = {"sinusoidal", "learned",          "sinusoidal2d",
                                        "full table", "rows and columns", "rows plus columns"};
    snprintf(text, size,
             "%s B%u L%u D%u grid %ux%u prefix %u%s%s%s%s x %s table %s row pad %u offset %u layout "
             "%d/%d odd %d rule %d positions %d from %d mask %d%s",
             kinds[s->kind], s->batch != 0 ? s->batch : 1, s->rows, s->dim, s->grid[0], s->grid[1],
             s->prefix, s->alone ? " alone" : "", s->in_place ? " in place" : "",
             s->image ? " image" : "", s->column_major ? " by columns" : "",
             harness_dtype_name(s->dtype), harness_dtype_name(s->table_dtype), s->layout.row_pad,
             s->layout.offset, (int)s->layout_1d, (int)s->layout_2d, (int)s->odd, (int)s->frequency,
             (int)s->positions, s->position_first, (int)s->mask, s->divided ? " divided" : "");
}

/* A copy or one sum of float32, and what the format makes of it: no error is allowed. */
static bool is_exact(const encode_shape *s)
{
    return s->kind != ENCODE_SHAPE_SINUSOID && s->kind != ENCODE_SHAPE_GRID && !s->normalize &&
           or_one(s->x_scale) == 1.0 && or_one(s->pe_scale) == 1.0;
}

static double rounded(rhumb_dtype dtype, double value)
{
    double single = (double)(float)value;
    return dtype == RHUMB_F16    ? ref_double_from_f16(ref_f16_from_double(single))
           : dtype == RHUMB_BF16 ? ref_double_from_bf16(ref_bf16_from_double(single))
                                 : single;
}

/* Sines are off by SINE_ERROR. The length of a row by what Vulkan allows a root and a quotient, 14
 * roundings, and a sum of squares, half of D / 128 + 8. x_scale and pe_scale are rounded to float32,
 * both products and the sum as well; then the format. */
static void expect(const encode_run *run, double *want, double *bound, bool *skip)
{
    const encode_shape *s = run->s;
    double x_scale = or_one(s->x_scale), pe_scale = or_one(s->pe_scale);
    uint32_t asked = s->q_length != 0 ? s->q_length : run->rows;
    for (uint64_t i = 0; i < run->y.count; i++) {
        double x = s->alone ? 0.0 : x_scale * run->x.values[i];
        double pe = pe_scale * run->pe[i];
        double error = s->normalize ? (18.0 + s->dim / 256.0) * ROUNDING : 0.0;
        want[i] = is_exact(s) ? rounded(run->y.dtype, x + pe) : x + pe;
        error = error * fabs(pe) + ROUNDING * (2.0 * fabs(x) + 2.0 * fabs(pe) + fabs(x + pe));
        if (s->kind == ENCODE_SHAPE_SINUSOID || s->kind == ENCODE_SHAPE_GRID) {
            error += SINE_ERROR * fabs(pe_scale);
        }
        bound[i] = is_exact(s) ? 0.0
                               : error + harness_rounding(run->y.dtype, fabs(x + pe) + error);
        skip[i] = run->noise[i] || (!s->image && i / s->dim % run->rows >= asked);
    }
}

/* Rows that were not asked for are as they were; noise is a number of no more than its scales. */
static bool check_skipped(harness *h, const encode_run *run, const bool *skip, const char *text)
{
    uint64_t size = harness_dtype_size(run->y.dtype);
    for (uint64_t i = 0; i < run->y.count; i++) {
        uint64_t at = harness_byte(&run->y, i);
        double most = (run->s->alone ? 0.0 : fabs(run->x.values[i])) + 1.001;
        if (run->noise[i] && !(fabs(run->y.values[i]) <= most)) {
            return harness_fail(h, "%s: element %llu of a masked row or column: got %g", text,
                                (unsigned long long)i, run->y.values[i]);
        }
        if (skip[i] && !run->noise[i] &&
            memcmp(run->y.memory + at, run->before.memory + at, size) != 0) {
            return harness_fail(h, "%s: element %llu was written, beyond q_length", text,
                                (unsigned long long)i);
        }
    }
    return true;
}

static bool check_run(harness *h, encode_run *run, const char *text)
{
    double *want = harness_alloc(run->y.count, sizeof *want);
    double *bound = harness_alloc(run->y.count, sizeof *bound);
    bool *skip = harness_alloc(run->y.count, sizeof *skip);
    harness_load(&run->y);
    expect(run, want, bound, skip);
    bool good = harness_compare(h, "encode", text, &run->y, want, bound, skip) &&
                check_skipped(h, run, skip, text);
    if (good && run->positioned) {
        harness_load(&run->status);
        if ((uint32_t)run->status.values[0] != run->outside) {
            good = harness_fail(h, "%s: STATUS counts %g positions outside, wanted %u", text,
                                run->status.values[0], run->outside);
        }
    }
    free(want);
    free(bound);
    free(skip);
    return good;
}

bool shape_run_encode(harness *h, const encode_shape *s)
{
    encode_run run;
    char text[512];
    bool good;
    make_run(&run, s);
    describe(s, text, sizeof text);
    if (!harness_wants(h, &run.op)) {
        free_run(&run);
        return true;
    }
    h->cases++;
    if (!refer(&run)) {
        good = harness_fail(h, "%s: the reference refuses it", text);
    } else if (harness_run(h, &run.op) != RHUMB_OK) {
        good = harness_fail(h, "%s: %s", text, run.op.message);
    } else {
        good = check_run(h, &run, text);
    }
    free_run(&run);
    return good;
}
