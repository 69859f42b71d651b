#include "shapes_bias.h"

#include "reference/reference_absolute.h"
#include "reference/relative.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COUNT(array) (sizeof(array) / sizeof(array)[0])
#define REFUSED "the reference refuses a shape"

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
        harness_need(ref_alibi_slopes(0, sloped, p->bias_max, heads, run->left) == 0, REFUSED);
    }
    run->slopes.slopes = run->left;
    run->slopes.form = forms[p->form];
    run->slopes.positions = p->form == RHUMB_ALIBI_KEY_POSITION ? run->keys : NULL;
    run->slopes.k_rows = run->k_length;
    run->inside = p->bias_times_scale ? 0.5 : 1.0;
    harness_need(ref_alibi_terms(&run->slopes, &run->terms) == 0, REFUSED);
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
        harness_need(ref_t5_terms(&run->t5, heads, &run->terms) == 0, REFUSED);
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
        harness_need(ref_shaw_terms(&run->shaw, 1, 1, &run->terms) == 0, REFUSED);
        run->rows = p->clip_left + p->clip_right + 1;
        break;
    }
    default: read_alibi(run, scheme, heads); break;
    }
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
    shape_add_positions(&run->op, RHUMB_VIEW_POSITIONS_K, &run->positions_k, run->keys, 1, s->k_rows);
    if (!s->keys_only) {
        shape_fill_positions(s->positions, 3, 1, s->q_rows, run->queries);
        shape_add_positions(&run->op, RHUMB_VIEW_POSITIONS_Q, &run->positions_q, run->queries, 1,
                            s->q_rows);
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
        harness_need(row >= 0 && row < t->rows, REFUSED);
        table = t->b.data[(uint64_t)row * t->b.row_stride + h] * t->b_scale;
    }
    if (t->bias != NULL) {
        slope = t->bias(t->bias_user, &place);
    }
    /* slope, distance and scale as floats, two products and a sum: half a unit each */
    *error = ldexp(fabs(table) + fabs(slope), -24) * 6.0 * run->inside;
    return (table + slope) * run->inside;
}

static bool check_rest(harness *h, const bias_run *run, const char *text, const bool *written)
{
    uint64_t size = harness_dtype_size(run->o.dtype);
    for (uint64_t i = 0; i < run->o.count; i++) {
        uint64_t at = harness_byte(&run->o, i);
        if (!written[i] && memcmp(run->o.memory + at, run->before.memory + at, size) != 0) {
            return harness_fail(h, "bias: %s: element %llu beyond the lengths was written", text,
                                (unsigned long long)i);
        }
    }
    return true;
}

static bool check_run(harness *h, bias_run *run, const bias_shape *s, const char *text)
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
    bool passed = harness_compare(h, "bias", text, &run->o, want, bound, skip) &&
                  check_rest(h, run, text, written);
    if (s->lengths) {
        double clamped = s->lengths_beyond ? 2.0 : 0.0;
        harness_load(&run->status);
        if (run->status.values[0] != clamped) {
            passed = harness_fail(h, "bias: %s: STATUS counts %g clamped lengths, want %g", text,
                                  run->status.values[0], clamped);
        }
    }
    free(want);
    free(bound);
    free(written);
    free(skip);
    return passed;
}

bool shape_run_bias(harness *h, const bias_shape *s)
{
    static bias_run run;
    char text[128];
    make_run(&run, s);
    snprintf(text, sizeof text, "scheme type %u, %u heads, %u x %u, table %s",
             ((const rhumb_header *)run.op.info.scheme)->type, s->heads, s->q_rows, s->k_rows,
             harness_dtype_name(s->table_dtype));
    h->cases++;
    bool passed = harness_run(h, &run.op) == RHUMB_OK ||
                  harness_fail(h, "bias: %s: %s", text, run.op.message);
    passed = passed && check_run(h, &run, s, text);
    free_run(&run);
    return passed;
}

/* ------------------------------------------------------------------------------------------------
 * Windows
 */

/* Each part of the shifted image has a number of its own, painted slice by slice. */
static void paint_regions(const window_shape *s, uint32_t height, uint32_t width, int *region)
{
    for (uint32_t y = 0; y < height; y++) {
        for (uint32_t x = 0; x < width; x++) {
            int row = 0, column = 0;
            if (s->shift[0] != 0 && y >= height - s->window[0]) {
                row = y >= height - s->shift[0] ? 2 : 1;
            }
            if (s->shift[1] != 0 && x >= width - s->window[1]) {
                column = x >= width - s->shift[1] ? 2 : 1;
            }
            region[y * width + x] = 3 * row + column;
        }
    }
}

static void add_masks(const window_shape *s, uint32_t n, uint32_t count, const double *bias,
                      double *want)
{
    static int region[4096];
    uint32_t height = (s->grid[0] + s->window[0] - 1) / s->window[0] * s->window[0];
    uint32_t width = (s->grid[1] + s->window[1] - 1) / s->window[1] * s->window[1];
    harness_need(height * width <= COUNT(region), REFUSED);
    paint_regions(s, height, width, region);
    for (uint64_t i = 0; i < (uint64_t)count * s->heads * n * n; i++) {
        uint32_t key = (uint32_t)(i % n), query = (uint32_t)(i / n % n);
        uint32_t w = (uint32_t)(i / n / n / s->heads);
        want[i] = bias[i % ((uint64_t)s->heads * n * n)];
        if (count > 1) {
            uint32_t y = w / (width / s->window[1]) * s->window[0];
            uint32_t x = w % (width / s->window[1]) * s->window[1];
            int at_query = region[(y + query / s->window[1]) * width + x + query % s->window[1]];
            int at_key = region[(y + key / s->window[1]) * width + x + key % s->window[1]];
            want[i] += at_query != at_key ? s->mask_value : 0.0;
        }
    }
}

static const void *window_scheme(const window_shape *s)
{
    static rhumb_swin p;
    static rhumb_swin_v2 p2;
    rhumb_init_swin(&p);
    rhumb_init_swin_v2(&p2);
    memcpy(p.window, s->window, sizeof p.window);
    memcpy(p.grid, s->grid, sizeof p.grid);
    memcpy(p.shift, s->shift, sizeof p.shift);
    memcpy(p2.window, s->window, sizeof p.window);
    memcpy(p2.grid, s->grid, sizeof p.grid);
    memcpy(p2.shift, s->shift, sizeof p.shift);
    p.prefix_tokens = s->prefix;
    p.padding = p2.padding = s->padding;
    p.mask_value = p2.mask_value = s->mask_value;
    return s->v2 ? (const void *)&p2 : (const void *)&p;
}

bool shape_run_window(harness *h, const window_shape *s)
{
    const ref_window reference = {{s->window[0], s->window[1]}, s->prefix};
    uint32_t n = ref_window_tokens(&reference), rows = ref_window_rows(&reference);
    bool shifted = s->shift[0] != 0 || s->shift[1] != 0;
    uint32_t count = shifted ? (s->grid[0] + s->window[0] - 1) / s->window[0] *
                                   ((s->grid[1] + s->window[1] - 1) / s->window[1])
                             : 1;
    harness_random r = {.state = n};
    harness_tensor o, t;
    gpu_operation op;
    char text[96];
    gpu_init_operation(&op, RHUMB_OP_BIAS);
    op.info.scheme = window_scheme(s);
    op.info.heads = s->heads;
    op.info.head_dim = 1;
    op.info.max_q_length = n;
    harness_make_tensor(&o, s->dtype, count, s->heads, n, n, (harness_layout){0});
    harness_make_tensor(&t, s->table_dtype, 1, 1, rows, s->heads, (harness_layout){0});
    harness_fill_normal(&t, &r);
    (void)harness_add(&op, RHUMB_VIEW_O, &o, true);
    (void)harness_add(&op, RHUMB_VIEW_TABLE, &t, false);
    double *bias = harness_alloc((size_t)s->heads * n * n, sizeof *bias);
    double *want = harness_alloc(o.count, sizeof *want);
    double *bound = harness_alloc(o.count, sizeof *bound);
    harness_need(ref_window_bias(&reference, s->heads, t.values, bias) == 0, REFUSED);
    add_masks(s, n, count, bias, want);
    for (uint64_t i = 0; i < o.count; i++) {
        bound[i] = ldexp(fabs(want[i]), -23);
        bound[i] += harness_rounding(s->dtype, fabs(want[i]) + bound[i]);
    }
    snprintf(text, sizeof text, "window %u x %u, grid %u x %u, shift %u x %u", s->window[0],
             s->window[1], s->grid[0], s->grid[1], s->shift[0], s->shift[1]);
    h->cases++;
    bool passed =
        harness_run(h, &op) == RHUMB_OK || harness_fail(h, "bias: %s: %s", text, op.message);
    harness_load(&o);
    passed = passed && harness_compare(h, "bias", text, &o, want, bound, NULL);
    free(bias);
    free(want);
    free(bound);
    harness_free_tensor(&o);
    harness_free_tensor(&t);
    return passed;
}
