/* RESIZE: learned tables resampled to another grid, against the double-precision reference; what
 * must keep its bits; and what must be refused. */
#include "shapes_resize.h"

#include <criterion/criterion.h>
#include <string.h>

#define COUNT(array) (sizeof(array) / sizeof(array)[0])

#define CUBIC .mode = RHUMB_RESIZE_BICUBIC
#define LINEAR .mode = RHUMB_RESIZE_BILINEAR
#define GEOMETRIC .mode = RHUMB_RESIZE_GEOMETRIC
#define ANTIALIAS .antialias = 1
#define CORNERS .align_corners = 1
#define FROM(h, w) .old_grid = {h, w}
#define TO(h, w) .new_grid = {h, w}
#define STORED(in, out) .dtype = RHUMB_##in, .out_dtype = RHUMB_##out
#define ODD {.row_pad = 5, .offset = 3}
#define EVEN {.row_pad = 4, .offset = 8}

static const resize_shape table[] = {
    /* up, down and across, every mode */
    {CUBIC, FROM(7, 5), TO(13, 11), .dim = 64},
    {CUBIC, FROM(13, 11), TO(7, 5), .dim = 64, .prefix = 1},
    {CUBIC, FROM(7, 11), TO(13, 5), .dim = 63, .prefix = 1},
    {CUBIC, ANTIALIAS, FROM(7, 5), TO(13, 11), .dim = 64},
    {CUBIC, ANTIALIAS, FROM(13, 11), TO(7, 5), .dim = 64, .prefix = 5},
    {CUBIC, ANTIALIAS, FROM(7, 11), TO(13, 5), .dim = 63, .suffix = 2},
    {CUBIC, CORNERS, FROM(7, 5), TO(13, 11), .dim = 64},
    {CUBIC, CORNERS, FROM(13, 11), TO(7, 5), .dim = 3, .prefix = 2, .suffix = 1},
    {LINEAR, FROM(7, 5), TO(13, 11), .dim = 64},
    {LINEAR, FROM(13, 11), TO(7, 5), .dim = 1, .prefix = 1},
    {LINEAR, ANTIALIAS, FROM(7, 5), TO(13, 11), .dim = 64},
    {LINEAR, ANTIALIAS, FROM(13, 11), TO(7, 5), .dim = 3, .prefix = 1},
    {LINEAR, CORNERS, FROM(7, 5), TO(13, 11), .dim = 64, .prefix = 1},
    {LINEAR, CORNERS, FROM(13, 11), TO(7, 5), .dim = 63},
    {GEOMETRIC, FROM(7, 5), TO(13, 11), .dim = 3, .suffix = 3},
    {GEOMETRIC, FROM(13, 11), TO(7, 5), .dim = 4, .suffix = 3},
    /* one axis keeps its side */
    {CUBIC, FROM(7, 5), TO(7, 11), .dim = 64},
    {LINEAR, ANTIALIAS, FROM(13, 5), TO(7, 5), .dim = 64},
    {GEOMETRIC, FROM(13, 5), TO(13, 7), .dim = 3},
    /* single samples */
    {CUBIC, FROM(1, 1), TO(3, 2), .dim = 64, .prefix = 1},
    {CUBIC, ANTIALIAS, FROM(1, 1), TO(2, 5), .dim = 3},
    {CUBIC, ANTIALIAS, FROM(5, 3), TO(1, 1), .dim = 64},
    {CUBIC, CORNERS, FROM(5, 3), TO(1, 2), .dim = 64},
    {LINEAR, FROM(1, 7), TO(2, 1), .dim = 1},
    {LINEAR, CORNERS, FROM(1, 2), TO(4, 1), .dim = 3},
    {GEOMETRIC, FROM(1, 3), TO(3, 1), .dim = 3},
    /* DINOv2's factors, up and down */
    {CUBIC, FROM(37, 37), TO(16, 11), .dim = 768, .prefix = 1, .offset = 0.1},
    {CUBIC, FROM(16, 17), TO(21, 31), .dim = 64, .prefix = 1, .offset = 0.1},
    {CUBIC, ANTIALIAS, FROM(37, 29), TO(16, 11), .dim = 64, .prefix = 5, .offset = 0.1},
    {LINEAR, ANTIALIAS, FROM(11, 37), TO(3, 41), .dim = 3, .offset = -0.25},
    /* a factor on equal grids still resamples */
    {CUBIC, FROM(7, 5), TO(7, 5), .dim = 64, .offset = 0.1},
    /* large shrinks, long rows */
    {CUBIC, ANTIALIAS, FROM(64, 61), TO(3, 5), .dim = 64, .prefix = 1},
    {LINEAR, ANTIALIAS, FROM(64, 61), TO(3, 5), .dim = 7},
    {CUBIC, FROM(1, 16384), TO(1, 9973), .dim = 1},
    {CUBIC, FROM(1, 9973), TO(1, 16384), .dim = 1, .suffix = 1},
    {LINEAR, CORNERS, FROM(16384, 1), TO(9973, 1), .dim = 1},
    {CUBIC, ANTIALIAS, FROM(1, 16384), TO(1, 1021), .dim = 1},
    /* tables of window biases: Swin's images of 2 w - 1 a side with a channel per head, BEiT's with
     * three more rows */
    {CUBIC, FROM(13, 13), TO(23, 23), .dim = 3},
    {CUBIC, FROM(13, 9), TO(23, 15), .dim = 6},
    {CUBIC, ANTIALIAS, FROM(15, 15), TO(9, 9), .dim = 16},
    {GEOMETRIC, FROM(27, 27), TO(47, 47), .dim = 12, .suffix = 3},
    {GEOMETRIC, FROM(27, 13), TO(39, 25), .dim = 16, .suffix = 3},
    {LINEAR, FROM(27, 27), TO(47, 47), .dim = 12, .suffix = 3},
    {GEOMETRIC, FROM(3, 255), TO(255, 5), .dim = 1},
    /* dtypes in and out, vector and scalar accesses, 16-bit rows that share words */
    {CUBIC, FROM(7, 5), TO(9, 11), .dim = 64, .prefix = 1, STORED(F16, F16)},
    {CUBIC, FROM(7, 5), TO(9, 11), .dim = 64, .prefix = 1, STORED(BF16, BF16)},
    {CUBIC, FROM(7, 5), TO(9, 11), .dim = 64, .prefix = 1, STORED(F16, F32)},
    {CUBIC, FROM(7, 5), TO(9, 11), .dim = 64, .prefix = 1, STORED(F32, F16)},
    {CUBIC, FROM(7, 5), TO(9, 11), .dim = 64, .prefix = 1, STORED(BF16, F16)},
    {CUBIC, ANTIALIAS, FROM(9, 11), TO(7, 5), .dim = 63, .prefix = 3, STORED(F16, F16)},
    {CUBIC, ANTIALIAS, FROM(9, 11), TO(7, 5), .dim = 63, .prefix = 3, STORED(BF16, BF16)},
    {LINEAR, FROM(9, 11), TO(7, 5), .dim = 1, .prefix = 1, .suffix = 1, STORED(F16, F16)},
    {LINEAR, FROM(9, 11), TO(7, 5), .dim = 3, .prefix = 1, .suffix = 1, STORED(F32, BF16)},
    {LINEAR, FROM(9, 11), TO(7, 5), .dim = 3, .prefix = 1, .suffix = 1, STORED(BF16, F32)},
    {GEOMETRIC, FROM(7, 5), TO(9, 11), .dim = 5, .suffix = 3, STORED(F16, F16)},
    {CUBIC, FROM(7, 5), TO(9, 11), .dim = 64, .prefix = 1, .layout = ODD, .out_layout = EVEN},
    {CUBIC, FROM(7, 5), TO(9, 11), .dim = 64, .prefix = 1, .layout = EVEN, .out_layout = EVEN},
    {CUBIC, FROM(7, 5), TO(9, 11), .dim = 64, .prefix = 1, .layout = EVEN, .out_layout = ODD,
     STORED(F16, F16)},
    {CUBIC, FROM(7, 5), TO(9, 11), .dim = 64, .prefix = 1, .layout = EVEN, .out_layout = EVEN,
     STORED(F16, BF16)},
    {LINEAR, ANTIALIAS, FROM(9, 11), TO(7, 5), .dim = 63, .suffix = 1, .layout = ODD,
     .out_layout = ODD, STORED(BF16, F16)},
};

/* Field test 19: 4 x 4 with a class token to 7 x 5 and to 3 x 3, with every pair of switches that
 * goes together. */
static void run_field_test(harness *h)
{
    static const uint32_t grids[2][2] = {{7, 5}, {3, 3}};
    for (uint32_t i = 0; i < 16; i++) {
        const resize_shape s = {.mode = i & 1 ? RHUMB_RESIZE_BILINEAR : RHUMB_RESIZE_BICUBIC,
                                .antialias = i >> 1 & 1,
                                .align_corners = i >> 2 & 1,
                                FROM(4, 4),
                                TO(grids[i >> 3][0], grids[i >> 3][1]),
                                .prefix = 1,
                                .dim = 8};
        if (!(s.antialias && s.align_corners)) {
            shape_run_resize(h, &s);
        }
    }
}

/* ------------------------------------------------------------------------------------------------
 * Bits
 */

/* Elements that a sum would change: a negative zero, infinities, NaN with a payload, denormals. */
static void store_odd_bits(harness_tensor *t)
{
    static const uint32_t words[] = {0x80000000u, 0x7f800000u, 0xff800000u, 0x7fc12345u, 1u};
    static const uint16_t halves[] = {0x8000u, 0x7c00u, 0xfc00u, 0x7e35u, 1u};
    for (uint64_t i = 0; i < t->count; i += 3) {
        uint8_t *at = t->memory + harness_byte(t, i);
        if (t->dtype == RHUMB_F32) {
            memcpy(at, &words[i / 3 % COUNT(words)], sizeof words[0]);
        } else {
            memcpy(at, &halves[i / 3 % COUNT(halves)], sizeof halves[0]);
        }
    }
}

static void expect_copy(harness *h, const resize_shape *s)
{
    char text[192];
    resize_run run;
    uint64_t size = harness_dtype_size(s->dtype);
    shape_describe_resize(s, text, sizeof text);
    shape_make_resize(&run, s);
    store_odd_bits(&run.table);
    if (shape_resize_on_device(h, &run, text)) {
        for (uint64_t i = 0; i < run.y.count; i++) {
            if (memcmp(run.y.memory + harness_byte(&run.y, i),
                       run.table.memory + harness_byte(&run.table, i), size) != 0) {
                harness_fail(h, "resize: %s: element %llu has other bits", text,
                             (unsigned long long)i);
                break;
            }
        }
    }
    shape_free_resize(&run);
}

static void run_copies(harness *h)
{
    static const rhumb_dtype dtypes[] = {RHUMB_F32, RHUMB_F16, RHUMB_BF16};
    static const resize_shape copies[] = {
        {CUBIC, FROM(4, 4), TO(4, 4), .prefix = 1, .dim = 8},
        {CUBIC, ANTIALIAS, FROM(7, 5), TO(7, 5), .prefix = 1, .dim = 64},
        {CUBIC, CORNERS, FROM(7, 5), TO(7, 5), .suffix = 1, .dim = 3},
        {LINEAR, FROM(7, 5), TO(7, 5), .dim = 63},
        {LINEAR, ANTIALIAS, FROM(1, 5), TO(1, 5), .dim = 1},
        {LINEAR, CORNERS, FROM(1, 1), TO(1, 1), .prefix = 2, .suffix = 3, .dim = 3},
        {GEOMETRIC, FROM(7, 13), TO(7, 13), .suffix = 3, .dim = 3},
        {CUBIC, FROM(7, 5), TO(7, 5), .prefix = 1, .dim = 64, .layout = ODD, .out_layout = EVEN},
    };
    for (size_t i = 0; i < COUNT(copies); i++) {
        for (size_t t = 0; t < COUNT(dtypes); t++) {
            resize_shape s = copies[i];
            s.dtype = s.out_dtype = dtypes[t];
            expect_copy(h, &s);
        }
    }
}

static void run_profile(harness_profile profile)
{
    harness h;
    harness_open(&h, profile);
    for (size_t i = 0; i < COUNT(table); i++) {
        shape_run_resize(&h, &table[i]);
    }
    run_field_test(&h);
    run_copies(&h);
    harness_close(&h);
}

Test(resize, lavapipe_agrees_with_the_reference_and_keeps_the_bits_of_equal_grids)
{
    run_profile(HARNESS_LAVAPIPE);
}

Test(resize, the_floor_agrees_with_the_reference_and_keeps_the_bits_of_equal_grids)
{
    run_profile(HARNESS_LAVAPIPE_FLOOR);
}

Test(resize, swiftshader_agrees_with_the_reference_and_keeps_the_bits_of_equal_grids)
{
    run_profile(HARNESS_SWIFTSHADER);
}

/* ------------------------------------------------------------------------------------------------
 * Bad input
 */
typedef struct attempt {
    const char *name;
    rhumb_result code;
    const char *start;
    const char *found;
    void (*change)(resize_run *run);
} attempt;

#define SET(pair, a, b) (run->resize.pair[0] = (a), run->resize.pair[1] = (b))
#define NOT_A_NUMBER ((double)NAN)

/* X(name, change, code, start of the line, a part of it) */
#define BAD_ROWS(X)                                                                                \
    X(old_grid_without_rows, SET(old_grid, 0, 5), ARGUMENT, "resize: old_grid: ", "found 0 x 5")   \
    X(new_grid_without_columns, SET(new_grid, 9, 0), ARGUMENT, "resize: new_grid: ",               \
      "found 9 x 0")                                                                               \
    X(side_too_large, SET(new_grid, 1, 16385), ARGUMENT, "resize: new_grid: ", "found 1 x 16385")  \
    X(side_of_all_bits, SET(old_grid, UINT32_MAX, UINT32_MAX), ARGUMENT, "resize: old_grid: ",     \
      "4294967295")                                                                                \
    X(unknown_mode, run->resize.mode = (rhumb_resize_mode)3, ARGUMENT, "resize: mode: ",           \
      "found 3")                                                                                   \
    X(negative_mode, run->resize.mode = (rhumb_resize_mode)-1, ARGUMENT, "resize: mode: ",         \
      "found -1")                                                                                  \
    X(antialias_of_two, run->resize.antialias = 2, ARGUMENT, "resize: antialias", "found 2")       \
    X(corners_of_two, run->resize.align_corners = 2, ARGUMENT, "resize: antialias", "and 2")       \
    X(corners_with_antialias, run->resize.antialias = run->resize.align_corners = 1, UNSUPPORTED,  \
      "resize: align_corners: ", "antialias")                                                      \
    X(factor_is_nan, SET(scale_factor, NOT_A_NUMBER, 1), ARGUMENT, "resize: scale_factor[0]: ",    \
      "nan")                                                                                       \
    X(factor_is_negative, SET(scale_factor, 0, -2), ARGUMENT, "resize: scale_factor[1]: ", "-2")   \
    X(factor_is_infinite, SET(scale_factor, (double)INFINITY, 0), ARGUMENT,                        \
      "resize: scale_factor[0]: ", "inf")                                                          \
    X(factor_of_another_grid, SET(scale_factor, 8.4 / 7, 0), ARGUMENT,                             \
      "resize: scale_factor[0]: wanted 0 or above 1.21429 and below 1.42857, for 9 from 7",        \
      "found 1.2")                                                                                 \
    X(factor_with_corners,                                                                         \
      (SET(scale_factor, 9.0 / 7, 11.0 / 5), run->resize.align_corners = 1), UNSUPPORTED,          \
      "resize: scale_factor[0]: ", "align_corners")                                                \
    X(factor_with_geometric,                                                                       \
      (SET(scale_factor, 9.0 / 7, 0), run->resize.mode = RHUMB_RESIZE_GEOMETRIC), UNSUPPORTED,     \
      "resize: scale_factor[0]: ", "GEOMETRIC")                                                    \
    X(geometric_with_antialias,                                                                    \
      (run->resize.antialias = 1, run->resize.mode = RHUMB_RESIZE_GEOMETRIC), UNSUPPORTED,         \
      "resize: antialias, align_corners: ", "found 1 and 0")                                       \
    X(geometric_to_even_sides,                                                                     \
      (SET(new_grid, 9, 12), run->resize.mode = RHUMB_RESIZE_GEOMETRIC), UNSUPPORTED,              \
      "resize: new_grid: GEOMETRIC", "found 12 from 5")                                            \
    X(geometric_from_even_sides,                                                                   \
      (SET(old_grid, 8, 5), run->resize.mode = RHUMB_RESIZE_GEOMETRIC), UNSUPPORTED,               \
      "resize: new_grid: GEOMETRIC", "found 9 from 8")                                             \
    X(geometric_to_a_longer_list,                                                                  \
      (SET(new_grid, 257, 5), run->resize.mode = RHUMB_RESIZE_GEOMETRIC), UNSUPPORTED,             \
      "resize: new_grid: GEOMETRIC", "found 257 from 7")                                           \
    X(prefix_too_large, run->resize.prefix_tokens = UINT32_MAX, ARGUMENT,                          \
      "resize: prefix_tokens", "4294967295")                                                       \
    X(suffix_too_large, run->resize.suffix_tokens = 0x20000001u, ARGUMENT,                         \
      "resize: prefix_tokens, suffix_tokens", "536870913")                                         \
    X(rows_too_many,                                                                               \
      (run->resize.suffix_tokens = 0x20000000u, run->resize.prefix_tokens = 0x20000000u), LIMIT,   \
      "resize: rows: ", "1073741859")                                                              \
    X(struct_too_large, run->resize.struct_size += 8, VERSION, "resize: ", "struct_size")          \
    X(struct_of_another_type, run->resize.type = RHUMB_TYPE_ALIBI, ARGUMENT, "resize: scheme: ",   \
      "another struct")                                                                            \
    X(no_struct, run->op.info.scheme = NULL, ARGUMENT, "resize: scheme: ", "NULL")                 \
    X(rotary_given, run->op.info.rotary = &run->resize, ARGUMENT, "resize: rotary: ", "NULL")      \
    X(several_heads, run->op.info.heads = 2, ARGUMENT, "resize: heads: ", "found 2")               \
    X(no_channels, run->op.info.head_dim = 0, ARGUMENT, "resize: head_dim: ", "found 0")           \
    X(channels_too_many, run->op.info.head_dim = 32769, ARGUMENT, "resize: head_dim: ", "32769")   \
    X(variant_of_attention, run->op.info.variant = RHUMB_VARIANT_TILE, UNSUPPORTED,                \
      "resize: variant: ", "found 2")                                                              \
    X(other_channels, run->op.info.head_dim = 12, ARGUMENT, "resize: shape of ", "found 8")        \
    X(table_of_other_rows, run->op.tensors[0].shape[2] = 35, ARGUMENT,                             \
      "resize: shape of TABLE ", "wanted exactly 36")                                              \
    X(table_of_other_channels, run->op.tensors[0].shape[3] = 7, ARGUMENT,                          \
      "resize: shape of TABLE ", "wanted exactly 8")                                               \
    X(table_of_two_heads, (run->op.tensors[0].shape[1] = 2, run->op.tensors[0].stride[1] = 0),     \
      ARGUMENT, "resize: shape of TABLE ",                                                         \
      "found 2")                                                                                   \
    X(result_of_other_rows, run->op.tensors[1].shape[2] = 99, ARGUMENT, "resize: shape of Y ",     \
      "wanted exactly 100")                                                                        \
    X(integer_table, run->op.tensors[0].dtype = RHUMB_I32, ARGUMENT, "resize: dtype of TABLE",     \
      "i32")                                                                                       \
    X(causal, run->op.dispatch.causal = 1, ARGUMENT, "resize: causal", "1")                        \
    X(window, run->op.dispatch.window_left = 3, ARGUMENT, "resize: causal, window_left", "3")      \
    X(length_of_rows, run->op.dispatch.q_length = 10, ARGUMENT, "resize: q_length", "10")          \
    X(length_of_keys, run->op.dispatch.k_length = 10, ARGUMENT, "resize: causal", "10")            \
    X(offset, run->op.dispatch.q_offset = 1, ARGUMENT, "resize: q_length, q_offset", "1")          \
    X(inverse, run->op.dispatch.inverse = 1, ARGUMENT, "resize: q_length, q_offset, inverse", "1") \
    X(append, run->op.dispatch.append_position = 0, ARGUMENT, "resize: q_length", "0")

#define DEFINE(name, act, code, start, found)                                                      \
    static void bad_##name(resize_run *run)                                                        \
    {                                                                                              \
        act;                                                                                       \
    }
#define ROW(name, act, code, start, found) {#name, RHUMB_ERROR_##code, start, found, bad_##name},

BAD_ROWS(DEFINE)

static const attempt attempts[] = {BAD_ROWS(ROW)};

Test(resize, bad_input_is_refused_with_its_numbers_and_writes_nothing)
{
    static const resize_shape good = {CUBIC, FROM(7, 5), TO(9, 11), .prefix = 1, .dim = 8};
    harness h;
    harness_open(&h, HARNESS_LAVAPIPE);
    shape_run_resize(&h, &good);
    for (size_t i = 0; i < COUNT(attempts); i++) {
        const attempt *a = &attempts[i];
        resize_run run;
        shape_make_resize(&run, &good);
        a->change(&run);
        harness_expect_refused(&h, &run.op, a->name, a->code, a->start, a->found, &run.y);
        shape_free_resize(&run);
    }
    harness_close(&h);
}
