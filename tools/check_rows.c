#include "check_rows.h"

#include "shapes_append.h"
#include "shapes_bias.h"
#include "shapes_encode.h"
#include "shapes_kerple.h"
#include "shapes_keys.h"
#include "shapes_norm.h"
#include "shapes_project.h"
#include "shapes_relative.h"
#include "shapes_resize.h"

/* ----------------------------------------------------------------------------------------------
 * One function for each kind of shape: a copy of the shape takes the dtype.
 */
static void run_encode(harness *h, const void *shape, rhumb_dtype dtype)
{
    encode_shape s = *(const encode_shape *)shape;

    s.dtype = s.table_dtype = dtype;
    (void)shape_run_encode(h, &s);
}

static void run_resize(harness *h, const void *shape, rhumb_dtype dtype)
{
    resize_shape s = *(const resize_shape *)shape;

    s.dtype = s.out_dtype = dtype;
    (void)shape_run_resize(h, &s);
}

static void run_bias(harness *h, const void *shape, rhumb_dtype dtype)
{
    bias_shape s = *(const bias_shape *)shape;

    s.dtype = s.table_dtype = dtype;
    (void)shape_run_bias(h, &s);
}

static void run_window(harness *h, const void *shape, rhumb_dtype dtype)
{
    window_shape s = *(const window_shape *)shape;

    s.dtype = s.table_dtype = dtype;
    (void)shape_run_window(h, &s);
}

static void run_kerple(harness *h, const void *shape, rhumb_dtype dtype)
{
    kerple_shape s = *(const kerple_shape *)shape;

    s.dtype = s.table_dtype = dtype;
    (void)shape_run_kerple(h, &s);
}

static relative_shape relative_of(const void *shape, rhumb_dtype dtype)
{
    relative_shape s = *(const relative_shape *)shape;

    s.dtype = s.dtype_o = s.dtype_table = s.around.dtype_mask = dtype;
    return s;
}

static void run_scores(harness *h, const void *shape, rhumb_dtype dtype)
{
    const relative_shape s = relative_of(shape, dtype);

    (void)shape_run_scores(h, &s);
}

static void run_attention_of(harness *h, const void *shape, rhumb_dtype dtype)
{
    relative_shape s = relative_of(shape, dtype);

    s.automatic = true;
    (void)shape_run_relative(h, &s);
}

static void run_project(harness *h, const void *shape, rhumb_dtype dtype)
{
    project_shape s = *(const project_shape *)shape;

    s.x_dtype = s.weight_dtype = s.offset_dtype = s.y_dtype = dtype;
    (void)shape_run_project(h, &s);
}

static void run_network(harness *h, const void *shape, rhumb_dtype dtype)
{
    network_shape s = *(const network_shape *)shape;

    s.dtype = s.out_dtype = dtype;
    (void)shape_run_network(h, &s);
}

static void run_append(harness *h, const void *shape, rhumb_dtype dtype)
{
    append_shape s = *(const append_shape *)shape;

    s.q = s.k = s.v = s.cache = s.v_cache = dtype;
    (void)shape_run_append(h, &s);
}

static void run_norm(harness *h, const void *shape, rhumb_dtype dtype)
{
    norm_shape s = *(const norm_shape *)shape;

    s.dtype = s.gain_dtype = dtype;
    (void)shape_run_norm(h, &s);
}

/* Shapes of keys that are rotated again. */
static void run_shift(harness *h, const void *shape, rhumb_dtype dtype)
{
    rhumb_rope rope;

    (void)shape;
    rhumb_init_rope(&rope);
    shape_run_shifts(h, "shift", &rope, 64, dtype);
}

static void run_reschedule(harness *h, const void *shape, rhumb_dtype dtype)
{
    rhumb_rope rope;

    (void)shape;
    rhumb_init_rope(&rope);
    rope.scaling = RHUMB_ROPE_SCALING_NTK_DYNAMIC;
    rope.factor = 2.0;
    rope.max_length = 2048;
    shape_run_reschedule(h, "reschedule", &rope, dtype, 2048, 5000);
}

/* ----------------------------------------------------------------------------------------------
 * Schemes of BIAS
 */
static const void *t5(void)
{
    static rhumb_t5 scheme;

    rhumb_init_t5(&scheme);
    return &scheme;
}

static const void *shaw(void)
{
    static rhumb_shaw scheme;

    rhumb_init_shaw(&scheme);
    scheme.clip_left = 5;
    scheme.clip_right = 3;
    return &scheme;
}

static const void *alibi(void)
{
    static rhumb_alibi scheme;

    rhumb_init_alibi(&scheme);
    return &scheme;
}

static const void *alibi_falcon(void)
{
    static rhumb_alibi scheme;

    rhumb_init_alibi(&scheme);
    scheme.form = RHUMB_ALIBI_KEY_INDEX;
    scheme.bias_times_scale = 1;
    return &scheme;
}

/* ----------------------------------------------------------------------------------------------
 * Rows
 */
#define SHAPE(kind, ...) &(const kind##_shape){__VA_ARGS__}
#define ENCODE(scheme, name, ...)                                                                  \
    {scheme, RHUMB_OP_ENCODE, name, run_encode, SHAPE(encode, __VA_ARGS__)}
#define RESIZE(name, ...)                                                                          \
    {"resize", RHUMB_OP_RESIZE, name, run_resize,                                                  \
     SHAPE(resize, .old_grid = {7, 5}, .prefix = 1, .dim = 33, __VA_ARGS__)}
#define BIAS(scheme, name, ...) {scheme, RHUMB_OP_BIAS, name, run_bias, SHAPE(bias, __VA_ARGS__)}
#define WINDOW(scheme, name, ...)                                                                  \
    {scheme, RHUMB_OP_BIAS, name, run_window, SHAPE(window, __VA_ARGS__)}
#define PROJECT(name, ...)                                                                         \
    {"none", RHUMB_OP_PROJECT, name, run_project,                                                  \
     SHAPE(project, .rows = 17, .heads = 3, .head_dim = 41, .channels = 66, __VA_ARGS__)}

/* Logits, and attention through them. */
#define LOGITS(scheme, of)                                                                         \
    {scheme, RHUMB_OP_SCORES, "13 x 31, D 18", run_scores,                                         \
     SHAPE(relative, .family = (of), .batch = 2, .heads = 3, .q_rows = 13, .k_rows = 31,           \
           .head_dim = 18)},                                                                       \
    {                                                                                              \
        scheme, RHUMB_OP_ATTENTION, "13 x 31, D 18", run_attention_of,                         \
            SHAPE(relative, .family = (of), .batch = 2, .heads = 3, .q_rows = 13, .k_rows = 31,    \
                  .head_dim = 18, .causal = true)                                                  \
    }
#define WINDOW_LOGITS(scheme, of)                                                                  \
    {scheme, RHUMB_OP_SCORES, "windows of 3 x 2, D 18", run_scores,                                \
     SHAPE(relative, .family = (of), .batch = 3, .heads = 3, .q_rows = 6, .k_rows = 6,             \
           .head_dim = 18)},                                                                       \
    {                                                                                              \
        scheme, RHUMB_OP_ATTENTION, "windows of 3 x 2, D 18", run_attention_of,                \
            SHAPE(relative, .family = (of), .batch = 3, .heads = 3, .q_rows = 6, .k_rows = 6,      \
                  .head_dim = 18)                                                                  \
    }
#define MASKED(name, bits)                                                                         \
    {"shaw", RHUMB_OP_ATTENTION, name, run_attention_of,                                                \
     SHAPE(relative, .family = RELATIVE_SHAW, .batch = 2, .heads = 3, .q_rows = 13, .k_rows = 31,  \
           .head_dim = 18, .around.mask = SHAPE_MASKED | (bits))}

static const int32_t slots[10] = {6, -1, 0, 10, 3, 2, INT32_MAX, -1, INT32_MIN, 9};

const check_row check_rows[] = {
    {"rope", RHUMB_OP_ROTATE, "into a cache by position", run_append,
     SHAPE(append, .name = "by position", .append = RHUMB_APPEND_POSITION,
           .pairing = RHUMB_PAIRING_HALF, .batch = 2, .heads = 6, .kv_heads = 2, .rows = 3,
           .capacity = 7, .head_dim = 64, .value_dim = 48, .append_given = true,
           .append_position = 3, .offset_given = true, .q_offset = 700)},
    {"rope", RHUMB_OP_ROTATE, "into a ring of 5", run_append,
     SHAPE(append, .name = "ring", .append = RHUMB_APPEND_RING,
           .pairing = RHUMB_PAIRING_INTERLEAVED, .batch = 2, .kv_heads = 3, .rows = 3,
           .capacity = 5, .head_dim = 33, .rotary_dim = 20, .value_dim = 33, .offset_given = true,
           .q_offset = 4095)},
    {"rope", RHUMB_OP_ROTATE, "into slots", run_append,
     SHAPE(append, .name = "slots", .append = RHUMB_APPEND_SLOTS, .pairing = RHUMB_PAIRING_HALF,
           .batch = 2, .kv_heads = 2, .rows = 5, .capacity = 10, .head_dim = 32, .value_dim = 24,
           .slots = slots, .skipped = 3)},
    {"rope", RHUMB_OP_ROTATE, "shifted three times, D 64", run_shift, NULL},
    {"rope", RHUMB_OP_ROTATE, "rescheduled, dynamic NTK, 2048 to 5000", run_reschedule, NULL},
    {"rope", RHUMB_OP_ROTATE, "norm, GQA, D 128", run_norm,
     SHAPE(norm, .pairing = RHUMB_PAIRING_HALF, .batch = 2, .heads = 8, .kv_heads = 2, .rows = 9,
           .head_dim = 128, .position_first = 1000)},
    {"rope", RHUMB_OP_ROTATE, "norm, gains of heads, 26 of 31, in place", run_norm,
     SHAPE(norm, .pairing = RHUMB_PAIRING_INTERLEAVED, .heads = 3, .rows = 5, .head_dim = 31,
           .rotary_dim = 26, .rotary_offset = 1, .in_place = true, .apart = true)},

    ENCODE("sinusoidal", "interleaved, D 64", .batch = 2, .rows = 37, .dim = 64,
           .position_first = 1000),
    ENCODE("sinusoidal", "sines first, endpoint, odd D 63, any position", .batch = 2, .rows = 13,
           .dim = 63, .layout_1d = RHUMB_SINUSOID_SIN_FIRST,
           .frequency = RHUMB_FREQUENCY_ENDPOINT, .odd = RHUMB_SINUSOID_ODD_ZERO,
           .positions = SHAPE_ANYWHERE),
    ENCODE("learned", "offset 2, D 48", .kind = ENCODE_SHAPE_LEARNED, .batch = 2, .rows = 13,
           .dim = 48, .table_rows = 32, .offset = 2, .x_scale = 2.5, .position_first = 3),
    ENCODE("learned", "zeros outside, D 21", .kind = ENCODE_SHAPE_LEARNED, .batch = 2, .rows = 11,
           .dim = 21, .table_rows = 16, .positions = SHAPE_NEGATIVE,
           .out_of_range = RHUMB_OUT_OF_RANGE_ZERO),
    ENCODE("sinusoidal2d", "grid 5 x 7, D 36", .kind = ENCODE_SHAPE_GRID, .batch = 2,
           .grid = {5, 7}, .dim = 36, .prefix = 1),
    ENCODE("sinusoidal2d", "DETR, mask with holes, D 16", .kind = ENCODE_SHAPE_GRID, .batch = 3,
           .grid = {5, 7}, .dim = 16, .mask = ENCODE_MASK_HOLES, .divided = true, .image = true),
    ENCODE("learned2d", "grid 5 x 7 and a prefix, D 24", .kind = ENCODE_SHAPE_FULL, .batch = 2,
           .grid = {5, 7}, .dim = 24, .prefix = 1),
    ENCODE("learned2d", "row and column beside each other, D 24", .kind = ENCODE_SHAPE_CONCAT,
           .batch = 2, .grid = {5, 7}, .dim = 24),
    ENCODE("learned2d", "row and column added, D 24", .kind = ENCODE_SHAPE_SUM, .batch = 2,
           .grid = {5, 7}, .dim = 24),

    RESIZE("bicubic, 7 x 5 to 9 x 11", .mode = RHUMB_RESIZE_BICUBIC, .new_grid = {9, 11}),
    RESIZE("bicubic, antialias, 7 x 5 to 3 x 4", .mode = RHUMB_RESIZE_BICUBIC, .antialias = 1,
           .new_grid = {3, 4}),
    RESIZE("bilinear, corners, 7 x 5 to 9 x 11", .mode = RHUMB_RESIZE_BILINEAR,
           .align_corners = 1, .new_grid = {9, 11}),
    RESIZE("geometric, 7 x 5 to 13 x 9", .mode = RHUMB_RESIZE_GEOMETRIC, .new_grid = {13, 9}),

    BIAS("t5", "13 x 31", .scheme = t5, .heads = 3, .q_rows = 13, .k_rows = 31),
    BIAS("shaw", "clips 5 and 3, 13 x 31", .scheme = shaw, .heads = 3, .q_rows = 13, .k_rows = 31),
    BIAS("alibi", "13 x 31", .scheme = alibi, .heads = 5, .q_rows = 13, .k_rows = 31),
    BIAS("alibi", "key index, inside the scale, 13 x 31", .scheme = alibi_falcon, .heads = 5,
         .q_rows = 13, .k_rows = 31),
    {"kerple", RHUMB_OP_BIAS, "13 x 31", run_kerple,
     SHAPE(kerple, .op = RHUMB_OP_BIAS, .heads = 3, .q_rows = 13, .k_rows = 31, .head_dim = 1)},
    WINDOW("swin", "4 x 4 windows of 8 x 12, shifted", .window = {4, 4}, .grid = {8, 12},
           .shift = {2, 2}, .heads = 3, .mask_value = -100),
    WINDOW("swin", "4 x 6, class token", .window = {4, 6}, .heads = 3, .prefix = 1),
    WINDOW("swin_v2", "3 x 5 windows of 6 x 10, shifted", .window = {3, 5}, .grid = {6, 10},
           .shift = {1, 0}, .heads = 3, .mask_value = -200, .v2 = true),

    LOGITS("none", RELATIVE_PLAIN),
    LOGITS("rope", RELATIVE_ROTARY),
    LOGITS("shaw", RELATIVE_SHAW_MIRRORED),
    LOGITS("music_transformer", RELATIVE_MUSIC),
    LOGITS("t5", RELATIVE_T5),
    LOGITS("alibi", RELATIVE_ALIBI),
    {"kerple", RHUMB_OP_SCORES, "13 x 31, D 18", run_kerple,
     SHAPE(kerple, .op = RHUMB_OP_SCORES, .batch = 2, .heads = 3, .q_rows = 13, .k_rows = 31,
           .head_dim = 18)},
    {"kerple", RHUMB_OP_ATTENTION, "13 x 31, D 18", run_kerple,
     SHAPE(kerple, .op = RHUMB_OP_ATTENTION, .batch = 2, .heads = 3, .q_rows = 13, .k_rows = 31,
           .head_dim = 18, .causal = true)},
    LOGITS("transformer_xl", RELATIVE_XL),
    LOGITS("xlnet", RELATIVE_XLNET),
    LOGITS("deberta", RELATIVE_DEBERTA_LOG),
    WINDOW_LOGITS("swin", RELATIVE_SWIN),
    WINDOW_LOGITS("swin_v2", RELATIVE_SWIN_V2),
    MASKED("MASK of each element", 15),
    MASKED("MASK of batch and key", 9),

    PROJECT("weights [H, D, K], 66 to 3 x 41", .offset = true),
    PROJECT("weights [K, H, D], 66 to 3 x 41", .in_out = true),
    PROJECT("and the fold, 66 to 3 x 41", .fold = true),
    {"swin_v2", RHUMB_OP_PROJECT, "network of 8 x 8 from 4 x 6, 512 units", run_network,
     SHAPE(network, .window = {8, 8}, .pretrained = {4, 6}, .heads = 3, .hidden = 512)},
};

const size_t check_row_count = sizeof check_rows / sizeof check_rows[0];
