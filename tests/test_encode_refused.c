/* Bad parameters, views and records of ENCODE: each is refused with its field, what was wanted and
 * what was there. */
#include "harness.h"

#include <criterion/criterion.h>
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define COUNT(array) (sizeof(array) / sizeof(array)[0])
#define NOT_A_NUMBER ((double)NAN)

/* A good operation of each scheme, to be spoilt. Without a grid 6 rows of 8 channels from a table of
 * 10 rows; grids of 2 x 3. */
typedef struct parts {
    rhumb_sinusoidal s;
    rhumb_learned l;
    rhumb_sinusoidal2d g;
    rhumb_learned2d t; /* FULL with a class token */
    rhumb_learned2d c; /* CONCAT */
    rhumb_swin_v2 w;   /* 2 x 3: 3 x 5 offsets */
    rhumb_rope rope;
    gpu_operation op;
    rhumb_view_id left_out; /* view that is not added; RHUMB_VIEW_COUNT: none */
    uint64_t x[4], y[4], table[4], column_table[4], valid[4], positions[4];
    bool with_lengths;
    rhumb_view_id extra; /* one more view */
    uint64_t shift;      /* Y begins so many bytes into X's bytes; 0: bytes of its own */
} parts;

static void set4(uint64_t shape[4], uint64_t a, uint64_t b, uint64_t c, uint64_t d)
{
    const uint64_t all[4] = {a, b, c, d};
    memcpy(shape, all, sizeof all);
}

static void init_schemes(parts *p)
{
    rhumb_init_sinusoidal(&p->s);
    rhumb_init_learned(&p->l);
    rhumb_init_sinusoidal2d(&p->g);
    rhumb_init_learned2d(&p->t);
    rhumb_init_learned2d(&p->c);
    rhumb_init_swin_v2(&p->w);
    rhumb_init_rope(&p->rope);
    p->c.form = RHUMB_LEARNED2D_CONCAT;
    p->t.prefix_tokens = 1;
    p->g.grid[0] = p->t.grid[0] = p->c.grid[0] = p->w.window[0] = 2;
    p->g.grid[1] = p->t.grid[1] = p->c.grid[1] = p->w.window[1] = 3;
}

static void make_good(parts *p, char scheme)
{
    uint64_t rows = scheme == 't' ? 7 : scheme == 'w' ? 15 : 6, dim = scheme == 'w' ? 2 : 8;
    memset(p, 0, sizeof *p);
    init_schemes(p);
    p->left_out = p->extra = RHUMB_VIEW_COUNT;
    gpu_init_operation(&p->op, RHUMB_OP_ENCODE);
    p->op.info.scheme = scheme == 's'   ? (const void *)&p->s
                        : scheme == 'l' ? (const void *)&p->l
                        : scheme == 'g' ? (const void *)&p->g
                        : scheme == 't' ? (const void *)&p->t
                        : scheme == 'c' ? (const void *)&p->c
                                        : (const void *)&p->w;
    p->op.info.head_dim = (uint32_t)dim;
    p->op.info.max_q_length = (uint32_t)rows;
    if (scheme != 'w') {
        set4(p->x, 2, 1, rows, dim);
    }
    set4(p->y, scheme == 'w' ? 1 : 2, 1, rows, dim);
    if (scheme == 'l') {
        set4(p->table, 1, 1, 10, dim);
    } else if (scheme == 't') {
        set4(p->table, 1, 1, 7, dim);
    } else if (scheme == 'c') {
        set4(p->table, 1, 1, 2, dim / 2);
        set4(p->column_table, 1, 1, 50, dim / 2);
    }
}

static void image(parts *p)
{
    p->g.output = RHUMB_OUTPUT_IMAGE;
    set4(p->x, 2, 8, 2, 3);
    set4(p->y, 2, 8, 2, 3);
}

static void masked(parts *p)
{
    p->g.coordinates = RHUMB_COORDINATES_VALID;
    set4(p->valid, 1, 2, 2, 3);
}

static void listed(parts *p, uint32_t count, double last)
{
    static double list[700];
    list[3] = last;
    p->s.frequencies = list;
    p->s.list_count = count;
}

static void wide(parts *p, uint32_t dim)
{
    p->op.info.head_dim = dim;
    p->x[3] = p->y[3] = dim;
}

typedef struct attempt {
    const char *name;
    char scheme;
    void (*change)(parts *p);
    rhumb_result code; /* RHUMB_OK: to show that the others fail for their own reason */
    const char *words[2];
} attempt;

/* X(scheme, name, change, code, first, second) */
#define ROWS(X)                                                                                    \
    X(s, sinusoidal, (void)p, OK, "", "")                                                          \
    X(l, learned, (void)p, OK, "", "")                                                             \
    X(g, grid, (void)p, OK, "", "")                                                                \
    X(g, grid_as_image, image(p), OK, "", "")                                                      \
    X(g, grid_with_mask, masked(p), OK, "", "")                                                    \
    X(t, full_table, (void)p, OK, "", "")                                                          \
    X(c, two_tables, (void)p, OK, "", "")                                                          \
    X(w, offsets, (void)p, OK, "", "")                                                             \
    /* the scheme */                                                                               \
    X(s, no_scheme, p->op.info.scheme = NULL, ARGUMENT, "encode: scheme: ", "NULL")                \
    X(s, rotary_as_scheme, p->op.info.scheme = &p->rope, VERSION, "encode: scheme: ", "found 1001") \
    X(s, rotary_beside, p->op.info.rotary = &p->rope, ARGUMENT, "encode: rotary: ", "NULL")        \
    X(s, struct_is_larger, p->s.struct_size += 8, VERSION, "sinusoidal: ", "struct_size")          \
    X(s, layout_is_unknown, p->s.layout = (rhumb_sinusoid_layout)3, ARGUMENT,                      \
      "sinusoidal: layout: ", "found 3")                                                           \
    X(s, frequency_is_unknown, p->s.frequency = (rhumb_frequency_rule)-1, ARGUMENT,                \
      "sinusoidal: frequency: ", "found -1")                                                       \
    X(s, odd_is_unknown, p->s.odd = (rhumb_sinusoid_odd)4, ARGUMENT, "sinusoidal: odd: ",          \
      "found 4")                                                                                   \
    X(s, odd_is_refused, wide(p, 9), ARGUMENT, "sinusoidal: head_dim: ", "found 9")                \
    X(s, native_by_endpoint,                                                                       \
      (wide(p, 9), p->s.odd = RHUMB_SINUSOID_ODD_NATIVE,                                           \
       p->s.frequency = RHUMB_FREQUENCY_ENDPOINT),                                                 \
      ARGUMENT, "sinusoidal: odd: ODD_NATIVE", "found 1 and 0")                                    \
    X(s, native_cosines_first,                                                                     \
      (wide(p, 9), p->s.odd = RHUMB_SINUSOID_ODD_NATIVE, p->s.layout = RHUMB_SINUSOID_COS_FIRST),  \
      ARGUMENT, "sinusoidal: odd: ODD_NATIVE", "found 0 and 2")                                    \
    X(s, base_is_one, p->s.base = 1.0, ARGUMENT, "sinusoidal: base: ", "found 1")                  \
    X(s, base_is_nan, p->s.base = NOT_A_NUMBER, ARGUMENT, "sinusoidal: base: ", "nan")             \
    X(s, base_is_infinite, p->s.base = (double)INFINITY, ARGUMENT, "sinusoidal: base: ", "inf")    \
    X(s, x_scale_is_nan, p->s.x_scale = NOT_A_NUMBER, ARGUMENT, "sinusoidal: x_scale: ", "nan")    \
    X(s, pe_scale_is_infinite, p->s.pe_scale = -(double)INFINITY, ARGUMENT,                        \
      "sinusoidal: pe_scale: ", "-inf")                                                            \
    X(s, pe_scale_is_no_float, p->s.pe_scale = 1e39, ARGUMENT, "sinusoidal: pe_scale: ", "1e+39")  \
    X(s, list, listed(p, 4, 1.0), OK, "", "")                                                      \
    X(s, list_is_short, listed(p, 3, 1.0), ARGUMENT, "sinusoidal: frequencies: wanted a list of 4", \
      "a list of 3")                                                                               \
    X(s, list_is_nowhere, p->s.list_count = 4, ARGUMENT, "sinusoidal: frequencies: ", "none of 4") \
    X(s, list_is_nan, listed(p, 4, NOT_A_NUMBER), ARGUMENT, "sinusoidal: frequency 3: ", "nan")    \
    X(s, list_turns_once, listed(p, 4, 6.3), ARGUMENT, "sinusoidal: frequency 3: ", "found 6.3")   \
    X(s, list_is_long, (wide(p, 1154), listed(p, 577, 1.0)), LIMIT, "sinusoidal: frequencies: ",   \
      "found 577")                                                                                 \
    X(l, out_of_range_is_unknown, p->l.out_of_range = (rhumb_out_of_range)2, ARGUMENT,             \
      "learned: out_of_range: ", "found 2")                                                        \
    X(l, clamp_is_no_flag, p->l.clamp_negative = 2, ARGUMENT, "learned: clamp_negative: ",         \
      "found 2")                                                                                   \
    X(l, normalize_is_no_flag, p->l.normalize = 2, ARGUMENT, "learned: normalize: ", "found 2")    \
    X(l, offset_is_large, p->l.offset = 1073741825, ARGUMENT, "learned: offset: ", "1073741825")   \
    X(l, offset_is_unset, p->l.offset = RHUMB_UNSET, ARGUMENT, "learned: offset: ", "-2147483648") \
    X(l, scale_is_nan, p->l.pe_scale = NOT_A_NUMBER, ARGUMENT, "learned: pe_scale: ", "nan")       \
    X(g, grid_is_zero, p->g.grid[1] = 0, ARGUMENT, "sinusoidal2d: grid: ", "found 2 x 0")          \
    X(g, grid_is_another, p->g.grid[1] = 4, ARGUMENT, "sinusoidal2d: grid: ", "found 0 + 2 x 4")   \
    X(g, grid_wraps, (p->g.grid[0] = 0x80000003u, p->g.grid[1] = 2), ARGUMENT,                     \
      "sinusoidal2d: grid: ", "2147483651 x 2")                                                    \
    X(g, prefix_is_another, p->g.prefix_tokens = 1, ARGUMENT, "sinusoidal2d: grid: ",              \
      "found 1 + 2 x 3")                                                                           \
    X(g, order_is_unknown, p->g.order = (rhumb_axis_order)2, ARGUMENT, "sinusoidal2d: order: ",    \
      "found 2")                                                                                   \
    X(g, layout_2d_is_unknown, p->g.layout = (rhumb_grid_layout)3, ARGUMENT,                       \
      "sinusoidal2d: layout: ", "found 3")                                                         \
    X(g, tokens_are_unknown, p->g.tokens = (rhumb_token_order)2, ARGUMENT,                         \
      "sinusoidal2d: tokens: ", "found 2")                                                         \
    X(g, coordinates_are_unknown, p->g.coordinates = (rhumb_grid_coordinates)2, ARGUMENT,          \
      "sinusoidal2d: coordinates: ", "found 2")                                                    \
    X(g, output_is_unknown, p->g.output = (rhumb_grid_output)2, ARGUMENT,                          \
      "sinusoidal2d: output: ", "found 2")                                                         \
    X(g, axis_is_odd, p->g.axis_dim = 3, ARGUMENT, "sinusoidal2d: axis_dim: ", "found 3")          \
    X(g, axis_is_zero, p->g.axis_dim = 0, ARGUMENT, "sinusoidal2d: axis_dim: ", "found 0")         \
    X(g, half_is_odd, wide(p, 10), ARGUMENT, "sinusoidal2d: axis_dim: ", "found 5 of 10")          \
    X(g, normalize_without_mask, p->g.normalize = 1, ARGUMENT, "sinusoidal2d: normalize: ",        \
      "COORDINATES_INDEX")                                                                         \
    X(g, start_with_mask, (masked(p), p->g.coordinate_start = 1.0), ARGUMENT,                      \
      "sinusoidal2d: coordinate_start: ", "found 1")                                               \
    X(g, start_is_nan, p->g.coordinate_start = NOT_A_NUMBER, ARGUMENT,                             \
      "sinusoidal2d: coordinate_start: ", "nan")                                                   \
    X(g, coordinate_scale_is_nan, (masked(p), p->g.coordinate_scale = NOT_A_NUMBER), ARGUMENT,     \
      "sinusoidal2d: coordinate_scale: ", "nan")                                                   \
    X(g, epsilon_is_negative, (masked(p), p->g.epsilon = -1e-6), ARGUMENT,                         \
      "sinusoidal2d: epsilon: ", "-1e-06")                                                         \
    X(g, center_is_infinite, (masked(p), p->g.center_offset = (double)INFINITY), ARGUMENT,         \
      "sinusoidal2d: center_offset: ", "inf")                                                      \
    X(g, base_2d_is_zero, p->g.base = 0.0, ARGUMENT, "sinusoidal2d: base: ", "found 0")            \
    X(g, image_by_columns, (image(p), p->g.tokens = RHUMB_TOKENS_COLUMN_MAJOR), ARGUMENT,          \
      "sinusoidal2d: output: ", "found 0 and 1")                                                   \
    X(t, form_is_unknown, p->t.form = (rhumb_learned2d_form)3, ARGUMENT, "learned2d: form: ",      \
      "found 3")                                                                                   \
    X(t, flag_is_two, p->t.table_has_prefix = 2, ARGUMENT, "learned2d: table_has_prefix: ",        \
      "found 2")                                                                                   \
    X(t, grid_2d_is_zero, p->t.grid[0] = 0, ARGUMENT, "learned2d: grid: ", "found 0 x 3")          \
    X(t, image_with_prefix, p->t.output = RHUMB_OUTPUT_IMAGE, ARGUMENT, "learned2d: output: ",     \
      "found 1")                                                                                   \
    X(c, odd_halves, wide(p, 9), ARGUMENT, "learned2d: head_dim: ", "found 9")                     \
    X(w, window_is_zero, p->w.window[0] = 0, ARGUMENT, "swin_v2: window: ", "0 x 3")               \
    X(w, window_is_another, p->w.window[0] = 3, ARGUMENT, "swin_v2: grid: ", "found 0 + 5 x 5")    \
    X(w, three_coordinates, wide(p, 3), ARGUMENT, "swin_v2: head_dim: ", "found 3")                \
    X(w, added_to_something, set4(p->x, 1, 1, 15, 2), ARGUMENT, "swin_v2: views: ", "no X")        \
    /* the plan */                                                                                 \
    X(s, two_heads, p->op.info.heads = 2, ARGUMENT, "encode: heads: ", "found 2")                  \
    X(s, other_values, p->op.info.value_dim = 4, ARGUMENT, "encode: value_dim: ", "found 4")       \
    X(s, scale_given, p->op.info.scale = 1.0f, ARGUMENT, "encode: scale: ", "found 1")             \
    X(s, variant_is_tile, p->op.info.variant = RHUMB_VARIANT_TILE, UNSUPPORTED,                    \
      "encode: variant: ", "found 2")                                                              \
    X(s, too_wide, wide(p, 32770), ARGUMENT, "encode: head_dim: ", "found 32770")                  \
    X(s, no_output, p->left_out = RHUMB_VIEW_Y, ARGUMENT, "encode: views: wanted Y", "none")       \
    X(l, no_table, p->left_out = RHUMB_VIEW_TABLE, ARGUMENT, "encode: views: wanted TABLE",        \
      "learned")                                                                                   \
    X(c, no_column_table, p->left_out = RHUMB_VIEW_COLUMN_TABLE, ARGUMENT,                         \
      "encode: views: wanted COLUMN_TABLE", "learned2d")                                           \
    X(g, no_mask, (masked(p), p->left_out = RHUMB_VIEW_VALID), ARGUMENT,                           \
      "encode: views: wanted VALID", "sinusoidal2d")                                               \
    X(g, mask_for_nothing, set4(p->valid, 1, 2, 2, 3), ARGUMENT, "encode: views: VALID",           \
      "sinusoidal2d")                                                                              \
    X(s, table_for_nothing, set4(p->table, 1, 1, 10, 8), ARGUMENT, "encode: views: TABLE",         \
      "sinusoidal")                                                                                \
    X(g, positions_of_a_grid, set4(p->positions, 1, 1, 1, 6), ARGUMENT, "encode: views: POSITIONS", \
      "sinusoidal2d")                                                                              \
    X(g, lengths_of_a_grid, p->with_lengths = true, ARGUMENT, "encode: views: LENGTHS",            \
      "sinusoidal2d")                                                                              \
    X(s, mask_of_attention, p->extra = RHUMB_VIEW_MASK, ARGUMENT, "MASK (26)", "no view")          \
    /* shapes */                                                                                   \
    X(s, x_has_other_rows, p->x[2] = 5, ARGUMENT, "encode: shape of X", "found 5")                 \
    X(s, x_has_other_channels, p->x[3] = 4, ARGUMENT, "encode: shape of X", "found 4")             \
    X(s, x_has_another_batch, p->x[0] = 1, ARGUMENT, "encode: shape of X", "found 1")              \
    X(s, y_has_heads, p->y[1] = 2, ARGUMENT, "encode: shape of Y", "found 2")                      \
    X(s, positions_are_few, set4(p->positions, 1, 1, 2, 5), ARGUMENT,                              \
      "encode: shape of POSITIONS", "found [1, 1, 2, 5]")                                          \
    X(s, positions_of_three, set4(p->positions, 1, 1, 3, 6), ARGUMENT,                             \
      "encode: shape of POSITIONS", "found [1, 1, 3, 6]")                                          \
    X(g, tokens_for_an_image, p->g.output = RHUMB_OUTPUT_IMAGE, ARGUMENT, "encode: shape of Y",    \
      "found 1")                                                                                   \
    X(g, image_is_turned, (image(p), set4(p->y, 2, 8, 3, 2)), ARGUMENT, "encode: shape of Y",      \
      "wanted H 2 in shape[2], found 3")                                                           \
    X(g, grid_does_not_match, (p->x[2] = p->y[2] = 5), ARGUMENT, "encode: shape of Y",             \
      "wanted L 6 in shape[2], found 5")                                                           \
    X(g, mask_is_turned, (masked(p), set4(p->valid, 1, 2, 3, 2)), ARGUMENT,                        \
      "encode: shape of VALID", "wanted H 2 in shape[2], found 3")                                 \
    X(g, mask_of_three, (masked(p), p->valid[1] = 3), ARGUMENT, "encode: shape of VALID",          \
      "found 3")                                                                                   \
    X(l, table_is_narrow, p->table[3] = 7, ARGUMENT, "encode: shape of TABLE", "found 7")          \
    X(l, table_of_two, p->table[1] = 2, ARGUMENT, "encode: shape of TABLE", "found 2")             \
    X(t, table_without_class, p->table[2] = 6, ARGUMENT, "encode: shape of TABLE",                 \
      "wanted rows 7 in shape[2], found 6")                                                        \
    X(t, table_with_class, p->t.table_has_prefix = 0, ARGUMENT, "encode: shape of TABLE",          \
      "wanted rows 6 in shape[2], found 7")                                                        \
    X(c, few_rows, p->table[2] = 1, ARGUMENT, "encode: shape of TABLE", "at least 2")              \
    X(c, few_columns, p->column_table[2] = 2, ARGUMENT, "encode: shape of COLUMN_TABLE",           \
      "at least 3")                                                                                \
    X(c, whole_width, p->column_table[3] = 8, ARGUMENT, "encode: shape of COLUMN_TABLE",           \
      "found 8")                                                                                   \
    X(s, in_place, p->shift = 4, OK, "", "")                                                       \
    X(s, in_place_but_for_a_row, p->shift = 36, ARGUMENT, "view Y is written", "with X")           \
    X(s, in_place_of_another_dtype, (p->shift = 4, p->op.info.dtype[RHUMB_VIEW_Y] = RHUMB_F16),    \
      ARGUMENT, "view Y is written", "with X")                                                     \
    /* records */                                                                                  \
    X(l, last_row, p->op.dispatch.q_offset = 4, OK, "", "")                                        \
    X(l, past_the_last_row, p->op.dispatch.q_offset = 5, ARGUMENT, "encode: q_offset: ",           \
      "rows are 5 to 10")                                                                          \
    X(l, offset_past_the_last_row, p->l.offset = 5, ARGUMENT, "encode: q_offset: ", "5 to 10")     \
    X(l, before_the_first_row, p->l.offset = -1, ARGUMENT, "encode: q_offset: ", "-1 to 4")        \
    X(l, shifted_back, (p->l.offset = -1, p->op.dispatch.q_offset = 1), OK, "", "")                \
    X(l, past_but_on_the_device, (p->l.offset = 9, set4(p->positions, 1, 1, 1, 6)), OK, "", "")    \
    X(l, no_rows_at_all, (p->l.offset = 99, p->op.dispatch.q_length = 0), OK, "", "")              \
    X(l, lengths_may_say_where, (p->l.offset = 9, p->with_lengths = true), OK, "", "")             \
    X(s, position_is_negative, p->op.dispatch.q_offset = -1, ARGUMENT, "encode: q_offset: ",       \
      "found -1")                                                                                  \
    X(s, position_overflows, p->op.dispatch.q_offset = 2147483642, ARGUMENT, "encode: q_offset: ", \
      "found 2147483642")                                                                          \
    X(s, too_many_rows, p->op.dispatch.q_length = 7, LIMIT, "encode: q_length: ", "found 7")       \
    X(s, keys, p->op.dispatch.k_length = 6, ARGUMENT, "encode: ", "k_length")                      \
    X(s, causal, p->op.dispatch.causal = 1, ARGUMENT, "encode: causal", "found 1")                 \
    X(s, inverse, p->op.dispatch.inverse = 1, ARGUMENT, "encode: ", "inverse")                     \
    X(g, part_of_a_grid, p->op.dispatch.q_length = 3, ARGUMENT, "encode: q_length", "found 3")     \
    X(g, grid_elsewhere, p->op.dispatch.q_offset = 0, ARGUMENT, "encode: q_length, q_offset",      \
      "mean nothing")

#define X(scheme, name, expression, code, first, second)                                           \
    static void change_##name(parts *p)                                                            \
    {                                                                                              \
        expression;                                                                                \
    }
ROWS(X)
#undef X

#define RHUMB_ERROR_OK RHUMB_OK
static const attempt attempts[] = {
#define X(scheme, name, expression, code, first, second)                                           \
    {#name, #scheme[0], change_##name, RHUMB_ERROR_##code, {first, second}},
    ROWS(X)
#undef X
};

/* A tensor of the shape, unless it is empty or left out. */
static gpu_tensor *add(parts *p, rhumb_view_id id, rhumb_dtype dtype, const uint64_t shape[4],
                       const void *input, void *output)
{
    if (shape[0] == 0 || id == p->left_out) {
        return NULL;
    }
    return gpu_add_tensor(&p->op, id, dtype, shape[0], shape[1], shape[2], shape[3], input, output);
}

static void add_views(parts *p)
{
    static float zeros[1 << 19];
    static float out[1 << 19];
    static int32_t lengths[2][4];
    static const uint64_t one[4] = {1, 1, 2, 4};
    for (int i = 0; i < 4; i++) {
        lengths[0][i] = lengths[1][i] = i == 2 ? 0 : RHUMB_UNSET;
    }
    gpu_tensor *x = add(p, RHUMB_VIEW_X, RHUMB_F32, p->x, zeros, NULL);
    gpu_tensor *y = add(p, RHUMB_VIEW_Y, p->op.info.dtype[RHUMB_VIEW_Y], p->y, NULL, out);
    if (p->shift != 0) {
        x->offset = 4;
        x->bytes = 4096;
        y->offset = p->shift;
        y->bytes = 4096;
        y->same_as = 1;
    }
    (void)add(p, RHUMB_VIEW_TABLE, RHUMB_F32, p->table, zeros, NULL);
    (void)add(p, RHUMB_VIEW_COLUMN_TABLE, RHUMB_F32, p->column_table, zeros, NULL);
    (void)add(p, RHUMB_VIEW_VALID, RHUMB_I32, p->valid, zeros, NULL);
    (void)add(p, RHUMB_VIEW_POSITIONS, RHUMB_I32, p->positions, zeros, NULL);
    if (p->with_lengths) {
        (void)add(p, RHUMB_VIEW_LENGTHS, RHUMB_I32, one, lengths, NULL);
    }
    if (p->extra != RHUMB_VIEW_COUNT) {
        (void)add(p, p->extra, RHUMB_F32, one, zeros, NULL);
    }
}

static void run_attempt(harness *h, const attempt *a)
{
    static parts p;
    make_good(&p, a->scheme);
    a->change(&p);
    add_views(&p);
    h->cases++;
    rhumb_result code = gpu_run_operation(h->g, &p.op);
    if (code != a->code) {
        harness_fail(h, "%s: wanted %s, got %s: %s", a->name, rhumb_result_name(a->code),
                     rhumb_result_name(code), p.op.message);
    } else if (code != RHUMB_OK &&
               (strstr(p.op.message, a->words[0]) == NULL ||
                strstr(p.op.message, a->words[1]) == NULL || strchr(p.op.message, '\n') != NULL)) {
        harness_fail(h, "%s: wanted \"%s\" and \"%s\", got \"%s\"", a->name, a->words[0],
                     a->words[1], p.op.message);
    }
}

Test(encode_refused, what_does_not_go_together_is_refused_by_name)
{
    harness h;
    harness_open(&h, HARNESS_LAVAPIPE);
    for (size_t i = 0; i < COUNT(attempts); i++) {
        run_attempt(&h, &attempts[i]);
    }
    harness_close(&h);
}

/* Encodings are of one head unless told otherwise. */
Test(encode_refused, a_plan_of_an_encoding_has_one_head_by_default)
{
    rhumb_plan_info info;
    rhumb_init_plan_info(&info, RHUMB_OP_ENCODE);
    cr_expect_eq(info.heads, 1u);
    rhumb_init_plan_info(&info, RHUMB_OP_RESIZE);
    cr_expect_eq(info.heads, 1u);
    rhumb_init_plan_info(&info, RHUMB_OP_ATTENTION);
    cr_expect_eq(info.heads, 0u);
}
