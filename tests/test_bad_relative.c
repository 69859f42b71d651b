/* Bad parameters, views, tables and records of the relative schemes: each is refused with its
 * field, what was wanted and what was there. And what plans say of their tables. */
#include "harness.h"

#include <rhumb/rhumb_schemes.h>

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define COUNT(array) (sizeof(array) / sizeof(array)[0])
#define VIEW(name) RHUMB_VIEW_BIT(RHUMB_VIEW_##name)
#define XL_VIEWS (VIEW(CONTENT_BIAS) | VIEW(QUERY_TABLE) | VIEW(POSITION_BIAS))
#define SEGMENT_VIEWS                                                                              \
    (VIEW(SEGMENT_BIAS) | VIEW(SEGMENT_TABLE) | VIEW(SEGMENTS_Q) | VIEW(SEGMENTS_K))
#define NOT_A_NUMBER ((double)NAN)
#define INFINITE ((double)INFINITY)

/* A good plan of each scheme, to be spoiled: 3 heads of 64, 10 rows, 20 keys. */
typedef struct plans {
    rhumb_shaw shaw;
    rhumb_music_transformer music;
    rhumb_t5 t5;
    rhumb_alibi alibi;
    rhumb_transformer_xl xl;
    rhumb_xlnet xlnet;
    rhumb_deberta deberta;
    rhumb_swin swin;
    rhumb_swin_v2 v2;
    rhumb_plan_info info;
} plans;

static void make_plan(plans *p, rhumb_op op, uint32_t views)
{
    rhumb_init_shaw(&p->shaw);
    rhumb_init_music_transformer(&p->music);
    rhumb_init_t5(&p->t5);
    rhumb_init_alibi(&p->alibi);
    rhumb_init_transformer_xl(&p->xl);
    rhumb_init_xlnet(&p->xlnet);
    rhumb_init_deberta(&p->deberta);
    rhumb_init_swin(&p->swin);
    rhumb_init_swin_v2(&p->v2);
    rhumb_init_plan_info(&p->info, op);
    p->music.max_relative_position = 32;
    p->swin.window[0] = p->swin.window[1] = p->v2.window[0] = p->v2.window[1] = 4;
    p->info.heads = 3;
    p->info.head_dim = 64;
    p->info.max_q_length = 10;
    p->info.max_k_length = 20;
    p->info.views = views | VIEW(O) | (op == RHUMB_OP_SCORES ? VIEW(Q) | VIEW(K) : 0);
}

static void set2(uint32_t pair[2], uint32_t height, uint32_t width)
{
    pair[0] = height;
    pair[1] = width;
}

/* X(scheme, op, views, name, change, code, start of the line, found) */
#define SHAW_ROWS(X)                                                                               \
    X(shaw, BIAS, VIEW(TABLE), no_clip, p->shaw.clip_left = p->shaw.clip_right = 0, ARGUMENT,      \
      "shaw: clip_left: wanted 1 or more", "found 0")                                              \
    X(shaw, BIAS, VIEW(TABLE), wide_clip, p->shaw.clip_right = 1u << 30, ARGUMENT,                 \
      "shaw: clip_right: ", "found 1073741824")                                                    \
    X(shaw, BIAS, VIEW(TABLE), index, p->shaw.index = (rhumb_relative_index)2, ARGUMENT,           \
      "shaw: index: ", "found 2")                                                                  \
    X(shaw, BIAS, VIEW(TABLE), beyond, p->shaw.beyond = (rhumb_beyond_table)-1, ARGUMENT,          \
      "shaw: beyond: ", "found -1")                                                                \
    X(shaw, SCORES, VIEW(QUERY_TABLE), keys_leave_the_table,                                       \
      (p->shaw.beyond = RHUMB_BEYOND_REFUSE, p->shaw.clip_left = p->shaw.clip_right = 18), LIMIT,  \
      "shaw: beyond: REFUSE wanted lengths up to 19", "max_k_length 20")                           \
    X(shaw, SCORES, VIEW(QUERY_TABLE), queries_leave_the_table,                                    \
      (p->shaw.beyond = RHUMB_BEYOND_REFUSE, p->info.max_q_length = 18), LIMIT,                    \
      "shaw: beyond: REFUSE wanted lengths up to 17", "max_q_length 18")                           \
    X(shaw, BIAS, VIEW(TABLE) | VIEW(POSITIONS_K), positions_may_leave_the_table,                  \
      (p->shaw.beyond = RHUMB_BEYOND_REFUSE, p->shaw.clip_left = p->shaw.clip_right = 511),        \
      UNSUPPORTED, "shaw: beyond: wanted CLAMP with position views", "REFUSE")                     \
    X(shaw, SCORES, 0, no_table, (void)p, ARGUMENT, "shaw: views: wanted TABLE or QUERY_TABLE or", \
      "found none")                                                                                \
    X(shaw, BIAS, 0, no_scalars, (void)p, ARGUMENT, "shaw: views: wanted TABLE", "found none")     \
    X(shaw, SCORES, VIEW(QUERY_TABLE) | VIEW(CONTENT_BIAS), foreign_view, (void)p, ARGUMENT,       \
      "shaw: views: CONTENT_BIAS", "no view of this scheme")                                       \
    X(shaw, BIAS, VIEW(TABLE), larger, p->shaw.struct_size += 8, VERSION, "shaw: ", "struct_size")

#define MUSIC_ROWS(X)                                                                              \
    X(music, SCORES, VIEW(QUERY_TABLE), no_distances, p->music.max_relative_position = 0,          \
      ARGUMENT, "music_transformer: max_relative_position: ", "found 0")                           \
    X(music, SCORES, VIEW(QUERY_TABLE), many_distances,                                            \
      p->music.max_relative_position = (1u << 30) + 1, ARGUMENT,                                   \
      "music_transformer: max_relative_position: ", "found 1073741825")                            \
    X(music, SCORES, VIEW(QUERY_TABLE), flag, p->music.bidirectional = 2, ARGUMENT,                \
      "music_transformer: bidirectional: ", "found 2")                                             \
    X(music, SCORES, 0, no_table, (void)p, ARGUMENT,                                               \
      "music_transformer: views: wanted QUERY_TABLE", "found none")                                \
    X(music, SCORES, VIEW(QUERY_TABLE) | VIEW(KEY_TABLE), foreign_view, (void)p, ARGUMENT,         \
      "music_transformer: views: KEY_TABLE", "no view of this scheme")                             \
    X(music, BIAS, VIEW(TABLE), has_no_bias, (void)p, UNSUPPORTED,                                 \
      "bias: scheme: wanted one with a TABLE or slopes", "music_transformer")

#define T5_ROWS(X)                                                                                 \
    X(t5, BIAS, VIEW(TABLE), odd, p->t5.num_buckets = 33, ARGUMENT,                                \
      "t5: num_buckets: wanted an even number", "found 33")                                        \
    X(t5, BIAS, VIEW(TABLE), two_both_ways, p->t5.num_buckets = 2, ARGUMENT,                       \
      "t5: num_buckets: wanted an even number from 4", "found 2")                                  \
    X(t5, BIAS, VIEW(TABLE), one, (p->t5.bidirectional = 0, p->t5.num_buckets = 1), ARGUMENT,      \
      "t5: num_buckets: wanted 2 or more", "found 1")                                              \
    X(t5, BIAS, VIEW(TABLE), none, p->t5.num_buckets = 0, ARGUMENT,                                \
      "t5: num_buckets: ", "found 0")                                                              \
    X(t5, BIAS, VIEW(TABLE), many, p->t5.num_buckets = 4098, LIMIT,                                \
      "t5: num_buckets: wanted up to 4096", "found 4098")                                          \
    X(t5, BIAS, VIEW(TABLE), many_one_way, (p->t5.bidirectional = 0, p->t5.num_buckets = 2049),    \
      LIMIT, "t5: num_buckets: wanted up to 2048", "found 2049")                                   \
    X(t5, BIAS, VIEW(TABLE), near, p->t5.max_distance = 8, ARGUMENT,                               \
      "t5: max_distance: wanted 9 to", "found 8")                                                  \
    X(t5, BIAS, VIEW(TABLE), near_one_way, (p->t5.bidirectional = 0, p->t5.max_distance = 16),     \
      ARGUMENT, "t5: max_distance: wanted 17 to", "found 16")                                      \
    X(t5, BIAS, VIEW(TABLE), far, p->t5.max_distance = 1u << 31, ARGUMENT,                         \
      "t5: max_distance: ", "found 2147483648")                                                    \
    X(t5, BIAS, VIEW(TABLE), flag, p->t5.bidirectional = 2, ARGUMENT,                              \
      "t5: bidirectional: ", "found 2")                                                            \
    X(t5, BIAS, VIEW(TABLE), scale, p->t5.bias_scale = INFINITE, ARGUMENT,                         \
      "t5: bias_scale: ", "inf")                                                                   \
    X(t5, BIAS, VIEW(TABLE), scale_beyond_floats, p->t5.bias_scale = 1e300, ARGUMENT,              \
      "t5: bias_scale: ", "1e+300")                                                                \
    X(t5, BIAS, 0, no_table, (void)p, ARGUMENT, "t5: views: wanted TABLE", "found none")           \
    X(t5, SCORES, VIEW(TABLE) | VIEW(QUERY_TABLE), foreign_view, (void)p, ARGUMENT,                \
      "t5: views: QUERY_TABLE", "no view of this scheme")                                          \
    X(t5, BIAS, VIEW(TABLE) | VIEW(ROW_SCALE), gate_of_bias, (void)p, ARGUMENT,                    \
      "bias: views: ROW_SCALE", "no view of this operation")

#define ALIBI_ROWS(X)                                                                              \
    X(alibi, BIAS, 0, slopes, p->alibi.slopes = (rhumb_alibi_slopes)3, ARGUMENT,                   \
      "alibi: slopes: ", "found 3")                                                                \
    X(alibi, BIAS, 0, form, p->alibi.form = (rhumb_alibi_form)5, ARGUMENT,                         \
      "alibi: form: ", "found 5")                                                                  \
    X(alibi, BIAS, 0, flag, p->alibi.bias_times_scale = 2, ARGUMENT,                               \
      "alibi: bias_times_scale: ", "found 2")                                                      \
    X(alibi, BIAS, 0, bias_max, p->alibi.bias_max = 0, ARGUMENT, "alibi: bias_max: ", "found 0")   \
    X(alibi, BIAS, 0, bias_max_is_nan, p->alibi.bias_max = NOT_A_NUMBER, ARGUMENT,                 \
      "alibi: bias_max: ", "nan")                                                                  \
    X(alibi, BIAS, 0, heads, p->info.heads = p->info.kv_heads = 257, LIMIT,                        \
      "alibi: heads: ", "found 257")                                                               \
    X(alibi, BIAS, 0, no_list, p->alibi.slopes = RHUMB_ALIBI_SLOPES_EXPLICIT, ARGUMENT,            \
      "alibi: left_slopes: ", "found none")                                                        \
    X(alibi, BIAS, 0, short_list,                                                                  \
      (p->alibi.slopes = RHUMB_ALIBI_SLOPES_EXPLICIT, p->alibi.left_slopes = list,                 \
       p->alibi.list_count = 2),                                                                   \
      ARGUMENT, "alibi: left_slopes: ", "of 2")                                                    \
    X(alibi, BIAS, 0, unwanted_list, (p->alibi.left_slopes = list, p->alibi.list_count = 3),       \
      ARGUMENT, "alibi: left_slopes: wanted none", "a list of 3")                                  \
    X(alibi, BIAS, 0, infinite_slope,                                                              \
      (p->alibi.slopes = RHUMB_ALIBI_SLOPES_EXPLICIT, p->alibi.left_slopes = infinite_list,        \
       p->alibi.list_count = 3),                                                                   \
      ARGUMENT, "alibi: slopes of head 1: ", "others")                                             \
    X(alibi, BIAS, 0, slope_beyond_floats,                                                         \
      (p->alibi.slopes = RHUMB_ALIBI_SLOPES_EXPLICIT, p->alibi.left_slopes = list,                 \
       p->alibi.right_slopes = wide_list, p->alibi.list_count = 3),                                \
      ARGUMENT, "alibi: slopes of head 2: ", "others")                                             \
    X(alibi, BIAS, 0, right_of_a_line,                                                             \
      (p->alibi.slopes = RHUMB_ALIBI_SLOPES_EXPLICIT, p->alibi.left_slopes = list,                 \
       p->alibi.right_slopes = list, p->alibi.list_count = 3,                                      \
       p->alibi.form = RHUMB_ALIBI_RELATIVE),                                                      \
      ARGUMENT, "alibi: right_slopes: ", "found a list")                                           \
    X(alibi, BIAS, 0, no_positions, p->alibi.form = RHUMB_ALIBI_KEY_POSITION, ARGUMENT,            \
      "alibi: views: wanted POSITIONS_K", "found none")                                            \
    X(alibi, BIAS, VIEW(TABLE), foreign_view, (void)p, ARGUMENT, "alibi: views: TABLE",            \
      "no view of this scheme")

#define XL_ROWS(X)                                                                                 \
    X(xl, SCORES, XL_VIEWS, variant, p->xl.variant = (rhumb_xl_variant)2, ARGUMENT,                \
      "transformer_xl: variant: ", "found 2")                                                      \
    X(xl, SCORES, XL_VIEWS, clamp, p->xl.clamp_len = 1u << 30, ARGUMENT,                           \
      "transformer_xl: clamp_len: ", "found 1073741824")                                           \
    X(xl, SCORES, XL_VIEWS, rows, p->xl.table_rows = 20, ARGUMENT,                                 \
      "transformer_xl: table_rows: wanted 0", "found 20")                                          \
    X(xl, SCORES, XL_VIEWS, no_rows, p->xl.variant = RHUMB_XL_LEARNED, ARGUMENT,                   \
      "transformer_xl: table_rows: wanted 1 to", "found 0")                                        \
    X(xl, SCORES, XL_VIEWS, learned_future,                                                        \
      (p->xl.variant = RHUMB_XL_LEARNED, p->xl.table_rows = 20, p->xl.bidirectional = 1),          \
      ARGUMENT, "transformer_xl: clamp_len, bidirectional and folded: ", "0, 1 and 0")             \
    X(xl, SCORES, XL_VIEWS, learned_without_scalars,                                               \
      (p->xl.variant = RHUMB_XL_LEARNED, p->xl.table_rows = 20), ARGUMENT,                         \
      "transformer_xl: views: wanted TABLE_SCALAR", "found none")                                  \
    X(xl, SCORES, XL_VIEWS | VIEW(TABLE_SCALAR), folded_with_both, p->xl.folded = 1, ARGUMENT,     \
      "transformer_xl: views: POSITION_BIAS", "no view of this scheme")                            \
    X(xl, SCORES, XL_VIEWS & ~VIEW(POSITION_BIAS), no_bias, (void)p, ARGUMENT,                     \
      "transformer_xl: views: wanted POSITION_BIAS", "found none")                                 \
    X(xl, BIAS, 0, has_no_bias, (void)p, UNSUPPORTED, "bias: scheme: wanted one with a TABLE",     \
      "transformer_xl")                                                                            \
    X(xlnet, SCORES, XL_VIEWS, flag, p->xlnet.flip_half = 2, ARGUMENT,                             \
      "xlnet: flip_half: ", "found 2")                                                             \
    X(xlnet, SCORES, XL_VIEWS | VIEW(SEGMENT_TABLE), half_a_term, (void)p, ARGUMENT,               \
      "xlnet: views: wanted all or none of the segment term's", "no SEGMENT_BIAS")                 \
    X(xlnet, SCORES, XL_VIEWS | (SEGMENT_VIEWS & ~VIEW(SEGMENTS_K)), no_ids, (void)p, ARGUMENT,    \
      "xlnet: views: wanted all or none of the segment term's", "no SEGMENTS_K")                   \
    X(xlnet, SCORES, XL_VIEWS | VIEW(VALUE_TABLE), foreign_view, (void)p, ARGUMENT, "",            \
      "VALUE_TABLE")

#define DEBERTA_ROWS(X)                                                                            \
    X(deberta, SCORES, VIEW(QUERY_TABLE), no_span, p->deberta.max_relative_positions = 0,          \
      ARGUMENT, "deberta: max_relative_positions: ", "found 0")                                    \
    X(deberta, SCORES, VIEW(QUERY_TABLE), one_bucket, p->deberta.position_buckets = 1, ARGUMENT,   \
      "deberta: position_buckets: ", "found 1")                                                    \
    X(deberta, SCORES, VIEW(QUERY_TABLE), many_buckets,                                            \
      (p->deberta.position_buckets = 2049, p->deberta.max_relative_positions = 9999), LIMIT,       \
      "deberta: position_buckets: wanted up to 2048", "found 2049")                                \
    X(deberta, SCORES, VIEW(QUERY_TABLE), near,                                                    \
      (p->deberta.position_buckets = 256, p->deberta.max_relative_positions = 129), ARGUMENT,      \
      "deberta: max_relative_positions: wanted 130", "found 129")                                  \
    X(deberta, SCORES, VIEW(QUERY_TABLE), index, p->deberta.p2c_index = (rhumb_p2c_index)2,        \
      ARGUMENT, "deberta: p2c_index: ", "found 2")                                                 \
    X(deberta, SCORES, VIEW(QUERY_TABLE), flag, p->deberta.clamp_input = 2, ARGUMENT,              \
      "deberta: clamp_input: ", "found 2")                                                         \
    X(deberta, SCORES, 0, no_table, (void)p, ARGUMENT,                                             \
      "deberta: views: wanted QUERY_TABLE or KEY_TABLE", "found none")                             \
    X(deberta, BIAS, VIEW(TABLE), has_no_bias, (void)p, UNSUPPORTED,                               \
      "bias: scheme: wanted one with a TABLE", "deberta")

#define WINDOW_ROWS(X)                                                                             \
    X(swin, BIAS, VIEW(TABLE), no_window, p->swin.window[1] = 0, ARGUMENT,                         \
      "swin: window: ", "found 4 x 0")                                                             \
    X(swin, BIAS, VIEW(TABLE), wide_window, p->swin.window[0] = 16385, ARGUMENT,                   \
      "swin: window: ", "found 16385 x 4")                                                         \
    X(swin, BIAS, VIEW(TABLE), empty_grid, set2(p->swin.grid, 8, 0), ARGUMENT,                     \
      "swin: grid: ", "found 8 x 0")                                                               \
    X(swin, BIAS, VIEW(TABLE), empty_grid_above, set2(p->swin.grid, 0, 8), ARGUMENT,               \
      "swin: grid: ", "found 0 x 8")                                                               \
    X(swin, BIAS, VIEW(TABLE), window_beyond_grid,                                                 \
      (set2(p->swin.grid, 3, 8), p->swin.padding = RHUMB_WINDOW_PAD_THEN_SHIFT), ARGUMENT,         \
      "swin: window: wanted one within the grid of 3 x 8", "found 4 x 4")                          \
    X(swin, BIAS, VIEW(TABLE), grid_is_not_tiled, set2(p->swin.grid, 8, 10), ARGUMENT,             \
      "swin: padding: EXACT", "found 8 x 10")                                                      \
    X(swin, BIAS, VIEW(TABLE), shift_reaches_the_window,                                           \
      (set2(p->swin.grid, 8, 8), set2(p->swin.shift, 2, 4)), ARGUMENT,                             \
      "swin: shift: wanted one below the window of 4 x 4", "found 2 x 4")                          \
    X(swin, BIAS, VIEW(TABLE), shift_without_grid, set2(p->swin.shift, 1, 0), ARGUMENT,            \
      "swin: shift: wanted {0, 0} without a grid", "found 1 x 0")                                  \
    X(swin, BIAS, VIEW(TABLE), two_class_tokens, p->swin.prefix_tokens = 2, ARGUMENT,              \
      "swin: prefix_tokens: ", "found 2")                                                          \
    X(swin, BIAS, VIEW(TABLE), class_token_in_a_grid,                                              \
      (set2(p->swin.grid, 8, 8), p->swin.prefix_tokens = 1), ARGUMENT,                             \
      "swin: prefix_tokens: wanted 0 with a grid", "found 1")                                      \
    X(swin, BIAS, VIEW(TABLE), padding, p->swin.padding = (rhumb_window_padding)3, ARGUMENT,       \
      "swin: padding: ", "found 3")                                                                \
    X(swin, BIAS, VIEW(TABLE), mask, p->swin.mask_value = -INFINITE, ARGUMENT,                     \
      "swin: mask_value: ", "-inf")                                                                \
    X(swin, BIAS, 0, no_table, (void)p, ARGUMENT, "swin: views: wanted TABLE", "found none")       \
    X(swin, BIAS, VIEW(TABLE) | VIEW(POSITIONS_K), positions, (void)p, ARGUMENT,                   \
      "bias: views: wanted no LENGTHS, no POSITIONS", "0x80")                                      \
    X(swin, BIAS, VIEW(TABLE) | VIEW(LENGTHS), lengths, (void)p, ARGUMENT,                         \
      "bias: views: wanted no LENGTHS, no POSITIONS", "0x100")                                     \
    X(swin, SCORES, VIEW(TABLE) | VIEW(HEAD_SCALE), foreign_view, (void)p, ARGUMENT,               \
      "swin: views: HEAD_SCALE", "no view of this scheme")                                         \
    X(v2, BIAS, VIEW(TABLE), pretrained_side, set2(p->v2.pretrained_window, 1, 8), ARGUMENT,       \
      "swin_v2: pretrained_window: ", "found 1 x 8")                                               \
    X(v2, BIAS, VIEW(TABLE), half_pretrained, set2(p->v2.pretrained_window, 8, 0), ARGUMENT,       \
      "swin_v2: pretrained_window: ", "found 8 x 0")                                               \
    X(v2, BIAS, VIEW(TABLE), hidden, p->v2.hidden = 0, ARGUMENT, "swin_v2: hidden: ", "found 0")   \
    X(v2, BIAS, VIEW(TABLE), gain, p->v2.bias_gain = NOT_A_NUMBER, ARGUMENT,                       \
      "swin_v2: bias_gain: ", "nan")                                                               \
    X(v2, BIAS, VIEW(TABLE), log_scale, p->v2.max_log_scale = INFINITE, ARGUMENT,                  \
      "swin_v2: max_log_scale: ", "inf")                                                           \
    X(v2, BIAS, VIEW(TABLE), epsilon, p->v2.epsilon = 0, ARGUMENT,                                 \
      "swin_v2: epsilon: ", "found 0")                                                             \
    X(v2, BIAS, VIEW(TABLE), epsilon_below_floats, p->v2.epsilon = 1e-60, ARGUMENT,                \
      "swin_v2: epsilon: ", "found 1e-60")                                                         \
    X(v2, BIAS, VIEW(TABLE), epsilon_whose_square_is_0, p->v2.epsilon = 1e-25, ARGUMENT,           \
      "swin_v2: epsilon: ", "found 1e-25")                                                         \
    X(v2, BIAS, VIEW(TABLE), window, set2(p->v2.window, 0, 0), ARGUMENT,                           \
      "swin_v2: window: ", "found 0 x 0")                                                          \
    X(v2, SCORES, VIEW(TABLE), no_scale, (void)p, ARGUMENT, "swin_v2: views: wanted HEAD_SCALE",   \
      "found none")

#define PLAN_ROWS(X)                                                                               \
    X(t5, BIAS, VIEW(TABLE), no_scheme, p->info.scheme = NULL, ARGUMENT, "bias: scheme: ", "NULL") \
    X(t5, BIAS, VIEW(TABLE), rotary_scheme, p->info.scheme = &rope, VERSION,                       \
      "scheme: ", "found 1001")                                                                    \
    X(t5, BIAS, VIEW(TABLE), rotary, p->info.rotary = &rope, ARGUMENT, "bias: rotary: ", "1001")   \
    X(t5, BIAS, VIEW(TABLE), variant, p->info.variant = RHUMB_VARIANT_TILE, UNSUPPORTED,           \
      "bias: variant: ", "found 2")                                                                \
    X(t5, BIAS, VIEW(TABLE) | VIEW(Q), foreign_tensor, (void)p, ARGUMENT, "bias: views: Q",        \
      "no view of this operation")

#define ALL_ROWS(X)                                                                                \
    SHAW_ROWS(X)                                                                                   \
    MUSIC_ROWS(X)                                                                                  \
    T5_ROWS(X)                                                                                     \
    ALIBI_ROWS(X)                                                                                  \
    XL_ROWS(X)                                                                                     \
    DEBERTA_ROWS(X)                                                                                \
    WINDOW_ROWS(X)                                                                                 \
    PLAN_ROWS(X)

static const double list[3] = {1, 2, 3};
static const double infinite_list[3] = {1, (double)INFINITY, 3};
static const double wide_list[3] = {1, 2, -1e39};
static rhumb_rope rope;

#define DEFINE(scheme_, op, views, name, change, code, start, found)                               \
    static void bad_##scheme_##_##name(plans *p)                                                   \
    {                                                                                              \
        make_plan(p, RHUMB_OP_##op, views);                                                        \
        p->info.scheme = &p->scheme_;                                                              \
        change;                                                                                    \
    }
#define ROW(scheme, op, views, name, change, code, start, found)                                   \
    {#scheme " " #name, bad_##scheme##_##name, RHUMB_ERROR_##code, start, found},

ALL_ROWS(DEFINE)

static const struct {
    const char *name;
    void (*make)(plans *p);
    rhumb_result code;
    const char *start;
    const char *found;
} rows[] = {ALL_ROWS(ROW)};

Test(bad_relative, each_bad_parameter_is_refused_with_its_numbers)
{
    static harness h;
    static plans p;
    harness_open(&h, HARNESS_LAVAPIPE);
    rhumb_init_rope(&rope);
    for (size_t i = 0; i < COUNT(rows); i++) {
        rhumb_plan_properties properties;
        rhumb_init_plan_properties(&properties);
        rows[i].make(&p);
        rhumb_result result = rhumb_query_plan(h.g->context, &p.info, &properties);
        const char *line = rhumb_last_message(h.g->context);
        h.cases++;
        if (result != rows[i].code || strncmp(line, rows[i].start, strlen(rows[i].start)) != 0 ||
            strstr(line, rows[i].found) == NULL) {
            harness_fail(&h, "%s: wanted %s and '%s ... %s', got %s and '%s'", rows[i].name,
                         rhumb_result_name(rows[i].code), rows[i].start, rows[i].found,
                         rhumb_result_name(result), result == RHUMB_OK ? "" : line);
        }
    }
    harness_close(&h);
}

/* ---- what plans say ---- */
static void expect_table(harness *h, const plans *p, const char *what, uint32_t table_rows,
                         uint32_t zero)
{
    rhumb_plan_properties properties;
    rhumb_init_plan_properties(&properties);
    h->cases++;
    if (rhumb_query_plan(h->g->context, &p->info, &properties) != RHUMB_OK) {
        harness_fail(h, "%s: %s", what, rhumb_last_message(h->g->context));
    } else if (properties.table_rows != table_rows || properties.table_zero != zero) {
        harness_fail(h, "%s: wanted %u rows, zero %u, got %u and %u", what, table_rows, zero,
                     properties.table_rows, properties.table_zero);
    }
}

static void check_tables(harness *h)
{
    static plans p;
    make_plan(&p, RHUMB_OP_BIAS, VIEW(TABLE));
    p.info.scheme = &p.t5;
    expect_table(h, &p, "t5", 32, 0);
    p.info.scheme = &p.shaw;
    p.shaw.clip_right = 8;
    expect_table(h, &p, "shaw", 25, 16);
    p.info.scheme = &p.swin;
    expect_table(h, &p, "swin", 49, 24);
    p.swin.prefix_tokens = 1;
    expect_table(h, &p, "swin with a class token", 52, 24);
    make_plan(&p, RHUMB_OP_BIAS, 0);
    p.info.scheme = &p.alibi;
    expect_table(h, &p, "alibi", 0, 0);
    make_plan(&p, RHUMB_OP_SCORES, VIEW(QUERY_TABLE));
    p.info.scheme = &p.music;
    expect_table(h, &p, "music_transformer", 32, 31);
    p.music.bidirectional = 1;
    expect_table(h, &p, "music_transformer, both ways", 63, 31);
    p.info.scheme = &p.deberta;
    expect_table(h, &p, "deberta v1", 1024, 512);
    p.deberta.position_buckets = 256;
    expect_table(h, &p, "deberta v2", 512, 256);
    make_plan(&p, RHUMB_OP_SCORES, XL_VIEWS);
    p.info.scheme = &p.xl;
    expect_table(h, &p, "transformer_xl", 20, 0);
    p.info.max_q_length = 25;
    expect_table(h, &p, "transformer_xl, more queries than keys", 25, 0);
    p.xl.bidirectional = 1;
    expect_table(h, &p, "transformer_xl, both ways", 49, 24);
    p.xl.clamp_len = 7;
    expect_table(h, &p, "transformer_xl, clamped", 15, 7);
    make_plan(&p, RHUMB_OP_SCORES, XL_VIEWS | SEGMENT_VIEWS);
    p.info.scheme = &p.xlnet;
    expect_table(h, &p, "xlnet", 39, 19);
    p.xlnet.bidirectional = 0;
    expect_table(h, &p, "xlnet, one way", 20, 0);
    p.xlnet.flip_half = 1;
    expect_table(h, &p, "xlnet, one way, flipped", 39, 19);
}

Test(bad_relative, plans_say_how_many_rows_tables_have)
{
    static harness h;
    harness_open(&h, HARNESS_LAVAPIPE);
    check_tables(&h);
    harness_close(&h);
}

/* ---- bindings and records of BIAS ---- */
typedef struct bias_use {
    rhumb_t5 t5;
    rhumb_shaw shaw;
    rhumb_swin swin;
    gpu_operation op;
    float o[2][2][8][8], table[64][4];
    int32_t positions[8];
} bias_use;

/* 2 heads, 4 rows, 8 keys. */
static void make_use(bias_use *u)
{
    memset(u, 0, sizeof *u);
    rhumb_init_t5(&u->t5);
    rhumb_init_shaw(&u->shaw);
    rhumb_init_swin(&u->swin);
    gpu_init_operation(&u->op, RHUMB_OP_BIAS);
    u->op.info.scheme = &u->t5;
    u->op.info.heads = 2;
    u->op.info.head_dim = 64;
    u->op.info.max_q_length = 4;
    u->op.info.max_k_length = 8;
    (void)gpu_add_tensor(&u->op, RHUMB_VIEW_O, RHUMB_F32, 1, 2, 4, 8, NULL, u->o);
    (void)gpu_add_tensor(&u->op, RHUMB_VIEW_TABLE, RHUMB_F32, 1, 1, 32, 2, u->table, NULL);
}

static void make_window_use(bias_use *u)
{
    u->op.info.scheme = &u->swin;
    set2(u->swin.window, 2, 2);
    u->op.info.max_q_length = u->op.info.max_k_length = 4;
    u->op.tensors[0].shape[3] = 4;
    u->op.tensors[0].stride[2] = 4;
    u->op.tensors[0].stride[1] = 16;
    u->op.tensors[1].shape[2] = 9;
}

static void refuse_to_reach(bias_use *u)
{
    u->op.info.scheme = &u->shaw;
    u->shaw.beyond = RHUMB_BEYOND_REFUSE;
    u->op.tensors[1].shape[2] = 33;
}

/* X(name, change, code, start, found) */
#define USE_ROWS(X)                                                                                \
    X(table_is_short, u->op.tensors[1].shape[2] = 31, ARGUMENT, "bias: shape of TABLE",            \
      "wanted rows 32 in shape[2], found 31")                                                      \
    X(table_is_long, u->op.tensors[1].shape[2] = 33, ARGUMENT, "bias: shape of TABLE", "found 33") \
    X(table_has_a_head_more, u->op.tensors[1].shape[3] = 3, ARGUMENT, "bias: shape of TABLE",      \
      "wanted heads 2 in shape[3], found 3")                                                       \
    X(table_is_transposed,                                                                         \
      (u->op.tensors[1].shape[2] = 2, u->op.tensors[1].shape[3] = 32,                              \
       u->op.tensors[1].stride[2] = 32),                                                           \
      ARGUMENT, "bias: shape of TABLE", "found 2")                                                 \
    X(table_has_batches, (u->op.tensors[1].shape[1] = 2, u->op.tensors[1].stride[1] = 0),          \
      ARGUMENT, "bias: shape of TABLE", "in shape[1], found 2")                                    \
    X(o_has_batches, (u->op.tensors[0].shape[0] = 2, u->op.tensors[0].stride[0] = 64), ARGUMENT,   \
      "bias: shape of O", "in shape[0], found 2")                                                  \
    X(o_lacks_a_head, u->op.tensors[0].shape[1] = 1, ARGUMENT, "bias: shape of O",                 \
      "wanted heads 2 in shape[1], found 1")                                                       \
    X(positions_are_short,                                                                         \
      gpu_add_tensor(&u->op, RHUMB_VIEW_POSITIONS_K, RHUMB_I32, 1, 1, 1, 7, u->positions, NULL),   \
      ARGUMENT, "bias: shape of POSITIONS_K", "found [1, 1, 1, 7]")                                \
    X(positions_are_per_batch,                                                                     \
      gpu_add_tensor(&u->op, RHUMB_VIEW_POSITIONS_Q, RHUMB_I32, 1, 1, 2, 4, u->positions, NULL),   \
      ARGUMENT, "bias: shape of POSITIONS_Q", "found [1, 1, 2, 4]")                                \
    X(causal, u->op.dispatch.causal = 1, ARGUMENT, "bias: causal", "found 1")                      \
    X(window, u->op.dispatch.window_left = 5, ARGUMENT, "bias: causal, window_left", "5")          \
    X(inverse, u->op.dispatch.inverse = 1, ARGUMENT, "bias: inverse", "found 1")                   \
    X(many_keys, u->op.dispatch.k_length = 9, LIMIT, "bias: k_length", "found 9")                  \
    X(many_rows, u->op.dispatch.q_length = 5, LIMIT, "bias: q_length", "found 5")                  \
    X(negative_rows, u->op.dispatch.q_length = -1, ARGUMENT, "bias: q_length", "found -1")         \
    X(far_offset, u->op.dispatch.q_offset = -1073741825, ARGUMENT, "bias: q_offset",               \
      "-1073741825")                                                                               \
    X(past_beyond_the_table, (refuse_to_reach(u), u->op.dispatch.q_offset = 14), LIMIT,            \
      "bias: q_offset: wanted distances up to 16 to the past", "found 17")                         \
    X(future_beyond_the_table, (refuse_to_reach(u), u->op.dispatch.q_offset = -10), LIMIT,         \
      "bias: q_offset: wanted distances up to 16 to the future", "found 17")                       \
    X(windows_have_lengths, (make_window_use(u), u->op.dispatch.q_length = 3), ARGUMENT,           \
      "bias: lengths", "found 3 rows")                                                             \
    X(windows_have_an_offset, (make_window_use(u), u->op.dispatch.q_offset = 0), ARGUMENT,         \
      "bias: lengths", "4 keys, 0")                                                                \
    X(window_is_not_whole, (make_window_use(u), u->op.tensors[0].shape[2] = 3), ARGUMENT,          \
      "bias: shape of O", "wanted tokens 4 in shape[2], found 3")                                  \
    X(windows_are_too_few,                                                                         \
      (make_window_use(u), set2(u->swin.grid, 4, 4), set2(u->swin.shift, 1, 1)), ARGUMENT,         \
      "bias: shape of O", "windows or 1: 4 in shape[0], found 1")

#define DEFINE_USE(name, change, code, start, found)                                               \
    static void use_##name(bias_use *u)                                                            \
    {                                                                                              \
        change;                                                                                    \
    }
#define USE_ROW(name, change, code, start, found)                                                  \
    {#name, use_##name, RHUMB_ERROR_##code, start, found},

USE_ROWS(DEFINE_USE)

static const struct {
    const char *name;
    void (*change)(bias_use *u);
    rhumb_result code;
    const char *start;
    const char *found;
} uses[] = {USE_ROWS(USE_ROW)};

Test(bad_relative, each_bad_use_of_bias_is_refused_with_its_numbers)
{
    static harness h;
    static bias_use u;
    harness_open(&h, HARNESS_LAVAPIPE);
    for (size_t i = 0; i < COUNT(uses); i++) {
        make_use(&u);
        uses[i].change(&u);
        rhumb_result result = gpu_run_operation(h.g, &u.op);
        h.cases++;
        if (result != uses[i].code || strstr(u.op.message, uses[i].start) == NULL ||
            strstr(u.op.message, uses[i].found) == NULL) {
            harness_fail(&h, "%s: wanted %s and '%s ... %s', got %s and '%s'", uses[i].name,
                         rhumb_result_name(uses[i].code), uses[i].start, uses[i].found,
                         rhumb_result_name(result), u.op.message);
        }
    }
    make_use(&u);
    cr_expect_eq(gpu_run_operation(h.g, &u.op), RHUMB_OK, "%s", u.op.message);
    make_use(&u);
    make_window_use(&u);
    cr_expect_eq(gpu_run_operation(h.g, &u.op), RHUMB_OK, "%s", u.op.message);
    make_use(&u);
    refuse_to_reach(&u);
    cr_expect_eq(gpu_run_operation(h.g, &u.op), RHUMB_OK, "%s", u.op.message);
    harness_close(&h);
}
