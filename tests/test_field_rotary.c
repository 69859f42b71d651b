/* Faults of the field with rotation: the wrong pairing on one path, lost strides, widths, padding,
 * sections and axes. README.md of this folder has the list of cases; numbers in a name are theirs.
 * Precision is in test_field_precision.c. */
#include "shapes.h"

#include "verify.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* A test that runs on every profile. */
#define ON_EVERY_PROFILE(name, run)                                                                \
    Test(field_rotary, name##_on_lavapipe)                                                         \
    {                                                                                              \
        on_profile(HARNESS_LAVAPIPE, run);                                                         \
    }                                                                                              \
    Test(field_rotary, name##_on_the_smallest_device)                                              \
    {                                                                                              \
        on_profile(HARNESS_LAVAPIPE_FLOOR, run);                                                   \
    }                                                                                              \
    Test(field_rotary, name##_on_swiftshader)                                                      \
    {                                                                                              \
        on_profile(HARNESS_SWIFTSHADER, run);                                                      \
    }

static void on_profile(harness_profile profile, void (*run)(harness *h))
{
    harness h;
    harness_open(&h, profile);
    run(&h);
    harness_close(&h);
}

/* ---- 1: every path against one oracle ---- */

static const double eight[8] = {2, -1, .5, 3, 1, -2, 4, -.5};
/* Of the eight numbers, whole, at position 7, base 10000; by pairing. */
static const double turned[2][8] = {
    {2.164791, 0.560071, -1.550232, 2.616635, 1.137437, -1.925159, 4.003402, -0.471988},
    {0.850818, 0.523593, 0.219004, 3.003426, 2.067875, -2.173902, 4.025175, -0.478988},
};

typedef enum path {
    PATH_OUT,
    PATH_IN_PLACE,
    PATH_KEYS,    /* out of place, K only */
    PATH_APPEND,  /* K into row 1 of a cache */
    PATH_GENERIC, /* inside attention */
    PATH_TILE,
    PATH_DECODE,
    PATH_COUNT
} path;

static const char *const path_names[] = {"out of place", "in place",    "of K",     "appended",
                                         "in generic",   "in the tile", "in decode"};

typedef struct crossing {
    rhumb_pairing pairing;
    rhumb_dtype dtype;
    path path;
    uint32_t head_dim;
    uint32_t rotary_dim;
    bool listed; /* the same frequencies as a list of the caller */
} crossing;

#define WIDEST 32u
#define POSITION 7

/* Whether the path ran: those that the profile leaves to lavapipe do not, nor do those that fail. */
static bool run_path(harness *h, const crossing *c, gpu_operation *op)
{
    if (!harness_wants(h, op)) {
        return false;
    }
    h->cases++;
    return harness_run(h, op) == RHUMB_OK ||
           harness_fail(h, "%s: %s", path_names[c->path], op->message);
}

/* As row_of_rotation: false where there is no row to look at, as the case failed or is left out.
 * Logits of the turned row against unit vectors, and against a key of zeros, come back from the
 * weights: V of key j is a unit vector too, so that O is the weights, and the logit is
 * ln(O_j / O_zero). Weights are right to some 20 units in the last place with |logit| < 6. */
static bool row_of_attention(harness *h, const crossing *c, const rhumb_rope *rope,
                             harness_tensor *q, double *row)
{
    static const rhumb_variant variants[] = {RHUMB_VARIANT_GENERIC, RHUMB_VARIANT_TILE,
                                             RHUMB_VARIANT_DECODE};
    uint32_t keys = c->head_dim + 1, channels = (keys + 15) / 16 * 16;
    harness_tensor k, v, o, at;
    gpu_operation op;
    bool passed;
    harness_make_tensor(&k, c->dtype, 1, 1, keys, c->head_dim, (harness_layout){0});
    harness_make_tensor(&v, c->dtype, 1, 1, keys, channels, (harness_layout){0});
    harness_make_tensor(&o, RHUMB_F32, 1, 1, 1, channels, (harness_layout){0});
    harness_make_tensor(&at, RHUMB_I32, 1, 1, 1, 1, (harness_layout){0});
    for (uint32_t j = 0; j < keys; j++) {
        v.values[j * channels + j] = 1.0;
        if (j < c->head_dim) {
            k.values[j * c->head_dim + j] = 1.0;
        }
    }
    at.values[0] = POSITION;
    harness_store(&k);
    harness_store(&v);
    harness_store(&at);
    gpu_init_operation(&op, RHUMB_OP_ATTENTION);
    op.info.rotary = rope;
    op.info.variant = variants[c->path - PATH_GENERIC];
    op.info.heads = 1;
    op.info.head_dim = c->head_dim;
    op.info.value_dim = channels;
    op.info.max_q_length = 1;
    op.info.max_k_length = keys;
    op.info.scale = 1.0f;
    (void)harness_add(&op, RHUMB_VIEW_Q, q, false);
    (void)harness_add(&op, RHUMB_VIEW_K, &k, false);
    (void)harness_add(&op, RHUMB_VIEW_V, &v, false);
    (void)harness_add(&op, RHUMB_VIEW_O, &o, true);
    (void)harness_add(&op, RHUMB_VIEW_POSITIONS_Q, &at, false);
    passed = run_path(h, c, &op);
    harness_load(&o);
    for (uint32_t j = 0; j < c->head_dim; j++) {
        row[j] = log(o.values[j] / o.values[c->head_dim]);
    }
    harness_free_tensor(&k);
    harness_free_tensor(&v);
    harness_free_tensor(&o);
    harness_free_tensor(&at);
    return passed;
}

static bool row_of_rotation(harness *h, const crossing *c, const rhumb_rope *rope,
                            harness_tensor *x, double *row)
{
    bool append = c->path == PATH_APPEND, in_place = c->path == PATH_IN_PLACE;
    bool of_keys = append || c->path == PATH_KEYS;
    harness_tensor y;
    gpu_operation op;
    bool passed;
    harness_make_tensor(&y, c->dtype, 1, 1, append ? 3 : 1, c->head_dim, (harness_layout){0});
    gpu_init_operation(&op, RHUMB_OP_ROTATE);
    op.info.append = append ? RHUMB_APPEND_POSITION : RHUMB_APPEND_NONE;
    op.dispatch.append_position = append ? 1 : RHUMB_UNSET;
    op.info.rotary = rope;
    op.info.heads = 1;
    op.info.head_dim = c->head_dim;
    op.info.max_q_length = 1;
    op.dispatch.q_offset = POSITION;
    (void)harness_add(&op, of_keys ? RHUMB_VIEW_K : RHUMB_VIEW_Q, x, in_place);
    if (!in_place) {
        (void)harness_add(&op, of_keys ? RHUMB_VIEW_K_OUT : RHUMB_VIEW_Q_OUT, &y, true);
    }
    passed = run_path(h, c, &op);
    harness_load(in_place ? x : &y);
    memcpy(row, in_place ? x->values : y.values + (append ? c->head_dim : 0),
           c->head_dim * sizeof *row);
    harness_free_tensor(&y);
    return passed;
}

static void cross(harness *h, const crossing *c)
{
    const int32_t position = POSITION;
    bool inside = c->path >= PATH_GENERIC;
    double frequencies[WIDEST / 2], x_values[WIDEST], want[WIDEST], got[WIDEST];
    harness_random r = {.state = 3};
    harness_tensor x;
    rhumb_rope rope;
    ref_rope ref;
    rhumb_init_rope(&rope);
    rope.pairing = c->pairing;
    rope.rotary_dim = c->rotary_dim;
    ref_rope_init(&ref, c->rotary_dim);
    ref.pairing = (ref_pairing)c->pairing;
    cr_assert_eq(ref_rope_frequencies(&ref, frequencies), 0);
    if (c->listed) {
        rope.scaling = RHUMB_ROPE_SCALING_EXPLICIT;
        rope.frequencies = frequencies;
        rope.list_count = c->rotary_dim / 2;
    }
    harness_make_tensor(&x, c->dtype, 1, 1, 1, c->head_dim, (harness_layout){0});
    for (uint32_t i = 0; i < c->head_dim; i++) {
        x.values[i] = i < 8 ? eight[i] : harness_uniform(&r, -2.0, 2.0);
    }
    harness_store(&x);
    memcpy(x_values, x.values, sizeof x_values[0] * c->head_dim);
    cr_assert_eq(ref_rotate(&ref, 1, 1, 1, c->head_dim, &position, 0, x_values, want), 0);
    bool ran =
        inside ? row_of_attention(h, c, &rope, &x, got) : row_of_rotation(h, c, &rope, &x, got);
    for (uint32_t i = 0; ran && i < c->head_dim; i++) {
        bool whole = c->head_dim == 8 && c->rotary_dim == 8;
        /* 1e-6 of |x| + |y| < 8, as in shapes_rotate.c, or the weights' error */
        double bound = inside ? 1e-5 : 8e-6 + harness_rounding(c->dtype, fabs(want[i]) + 8e-6);
        if (!(fabs(got[i] - want[i]) <= bound) ||
            (whole && !(fabs(got[i] - turned[c->pairing][i]) <= bound + 6e-7))) {
            harness_fail(h, "%s %s %s%s R%u of D%u: channel %u: got %.9g, want %.9g, bound %.3g",
                         path_names[c->path],
                         c->pairing == RHUMB_PAIRING_HALF ? "half" : "interleaved",
                         harness_dtype_name(c->dtype), c->listed ? " by a list" : "", c->rotary_dim,
                         c->head_dim, i, got[i], want[i], bound);
            break;
        }
    }
    harness_free_tensor(&x);
}

static void cross_all(harness *h)
{
    static const struct {
        uint32_t head_dim, rotary_dim;
        bool small; /* the fast forms of attention have no such head */
    } widths[] = {{8, 8, true}, {8, 4, true}, {32, 32, false}, {32, 8, false}};
    for (uint32_t pairing = 0; pairing < 2; pairing++) {
        for (size_t w = 0; w < sizeof widths / sizeof widths[0]; w++) {
            for (uint32_t p = 0; p < PATH_COUNT; p++) {
                for (uint32_t dtype = RHUMB_F32; dtype <= RHUMB_BF16; dtype++) {
                    crossing c = {(rhumb_pairing)pairing, (rhumb_dtype)dtype,   (path)p,
                                  widths[w].head_dim,     widths[w].rotary_dim, false};
                    if (widths[w].small && p > PATH_GENERIC) {
                        continue;
                    }
                    /* test_rotate has the other dtypes there */
                    if (dtype != RHUMB_F32 && h->profile == HARNESS_SWIFTSHADER) {
                        h->left_out += 2;
                        continue;
                    }
                    cross(h, &c);
                    c.listed = true;
                    cross(h, &c);
                }
            }
        }
    }
}

ON_EVERY_PROFILE(case_1_pairing_and_width_agree_on_every_path, cross_all)

/* ---- 2: a window of a view ---- */

/* Heads of 8 channels whose rows are 24 elements apart, 16 bytes into a buffer. What lies between
 * is the pattern of gpu.h, 0x7fc00000, and must survive, as must the last four channels. */
static void turn_window(harness *h, rhumb_pairing pairing, rhumb_dtype dtype, bool by_rows,
                        bool in_place)
{
    static const int32_t positions[2 * 5] = {0, 1, 2, 3, 4, 9, 8, 7, 6, 5};
    uint32_t heads = by_rows ? 2 : 3;
    uint64_t size = harness_dtype_size(dtype);
    harness_layout layout = {
        .by_rows = by_rows, .row_pad = by_rows ? 4 : 16, .offset = (uint32_t)(16 / size)};
    harness_random r = {.state = 4};
    harness_tensor x, y, before;
    double want[2 * 3 * 5 * 8];
    rhumb_rope rope;
    ref_rope ref;
    rhumb_init_rope(&rope);
    rope.pairing = pairing;
    rope.rotary_dim = 4;
    ref_rope_init(&ref, 4);
    ref.pairing = (ref_pairing)pairing;
    harness_make_tensor(&x, dtype, 2, heads, 5, 8, layout);
    harness_make_tensor(&y, dtype, 2, heads, 5, 8, layout);
    harness_make_tensor(&before, dtype, 2, heads, 5, 8, layout);
    cr_assert_eq(x.stride[2], 24);
    harness_fill_normal(&x, &r);
    memcpy(before.memory, x.memory, x.bytes);
    harness_load(&before);
    cr_assert_eq(ref_rotate(&ref, 2, heads, 5, 8, positions, 0, before.values, want), 0);
    harness_tensor *out = in_place ? &x : &y;
    bool ran = shape_rotate(h, &rope, 1, positions, &x, in_place ? NULL : &y, 0);
    for (uint64_t i = 0; ran && i < x.count; i++) {
        uint64_t at = harness_byte(&x, i);
        double bound = 1e-5 + harness_rounding(dtype, fabs(want[i]) + 1e-5);
        bool tail = i % 8 >= 4;
        if (tail ? memcmp(out->memory + at, before.memory + at, size) != 0
                 : !(fabs(out->values[i] - want[i]) <= bound)) {
            harness_fail(h, "window of %s, %s, %s: element %llu: got %.9g, want %.9g",
                         harness_dtype_name(dtype), by_rows ? "[B,S,H,D]" : "[B,H,S,D]",
                         in_place ? "in place" : "out of place", (unsigned long long)i,
                         out->values[i], want[i]);
            break;
        }
        memset(out->memory + at, 0, size); /* what is left now is what lies between */
        memset(before.memory + at, 0, size);
    }
    if (ran && memcmp(out->memory, before.memory, before.bytes) != 0) {
        harness_fail(h, "window of %s: something between the rows was written",
                     harness_dtype_name(dtype));
    }
    harness_free_tensor(&x);
    harness_free_tensor(&y);
    harness_free_tensor(&before);
}

static void turn_windows(harness *h)
{
    for (uint32_t i = 0; i < 2 * 3 * 2 * 2; i++) {
        if (h->profile != HARNESS_LAVAPIPE && (i & 1) != (i / 8 & 1)) {
            h->left_out++; /* each dtype is there with one pairing, in both layouts and places */
            continue;
        }
        turn_window(h, (rhumb_pairing)(i & 1), (rhumb_dtype)(i / 8), (i & 2) != 0, (i & 4) != 0);
    }
}

ON_EVERY_PROFILE(case_2_a_window_of_a_view_leaves_its_tail_and_what_lies_between_alone,
                 turn_windows)

/* ---- 3: widths ---- */

Test(field_rotary, case_3_widths_beyond_the_head_odd_or_zero_and_lists_of_another_width_are_refused)
{
    static const struct {
        uint32_t head_dim, rotary_dim, rotary_offset, listed;
        const char *found;
    } rows[] = {
        {64, 128, 0, 0, "128"}, {64, 63, 0, 0, "63"},
        {63, 63, 0, 0, "63"},   {63, RHUMB_WHOLE_HEAD, 0, 0, "63"},
        {64, 0, 0, 0, "0"},     {64, 64, 2, 0, "64"},
        {64, 64, 0, 20, "20"},  {64, 64, 0, 40, "40"},
        {64, 62, 0, 32, "32"},
    };
    static double frequencies[64];
    harness h;
    harness_open(&h, HARNESS_LAVAPIPE);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        rhumb_plan *plan = (rhumb_plan *)(void *)&h; /* must become NULL */
        rhumb_plan_info info;
        rhumb_rope rope;
        rhumb_init_rope(&rope);
        rope.rotary_dim = rows[i].rotary_dim;
        rope.rotary_offset = rows[i].rotary_offset;
        if (rows[i].listed != 0) {
            rope.scaling = RHUMB_ROPE_SCALING_EXPLICIT;
            rope.frequencies = frequencies;
            rope.list_count = rows[i].listed;
        }
        for (int op = 0; op < 2; op++) {
            rhumb_init_plan_info(&info, op == 0 ? RHUMB_OP_ROTATE : RHUMB_OP_ATTENTION);
            info.rotary = &rope;
            info.heads = 1;
            info.head_dim = rows[i].head_dim;
            info.max_q_length = 4;
            info.views = op == 0 ? RHUMB_VIEW_BIT(RHUMB_VIEW_Q)
                                 : RHUMB_VIEW_BIT(RHUMB_VIEW_Q) | RHUMB_VIEW_BIT(RHUMB_VIEW_K) |
                                       RHUMB_VIEW_BIT(RHUMB_VIEW_V) | RHUMB_VIEW_BIT(RHUMB_VIEW_O);
            h.cases++;
            cr_expect_eq(rhumb_create_plan(h.g->context, &info, &plan), RHUMB_ERROR_ARGUMENT,
                         "row %zu", i);
            cr_expect_null(plan);
            cr_expect(strstr(rhumb_last_message(h.g->context), rows[i].found) != NULL,
                      "row %zu: %s", i, rhumb_last_message(h.g->context));
        }
    }
    harness_close(&h);
}

/* ---- 4: positions beyond any table ---- */

/* There is no table: a position is right wherever it lies. */
static void turn_beyond(harness *h)
{
    static const int32_t positions[] = {15, 16, -1, 2147483647, -2147483647 - 1, 262144};
    harness_random r = {.state = 5};
    harness_tensor x, y;
    double want[6 * 64];
    rhumb_rope rope;
    ref_rope ref;
    rhumb_init_rope(&rope);
    ref_rope_init(&ref, 64);
    harness_make_tensor(&x, RHUMB_F32, 1, 1, 6, 64, (harness_layout){0});
    harness_make_tensor(&y, RHUMB_F32, 1, 1, 6, 64, (harness_layout){0});
    harness_fill_normal(&x, &r);
    cr_assert_eq(ref_rotate(&ref, 1, 1, 6, 64, positions, 0, x.values, want), 0);
    bool ran = shape_rotate(h, &rope, 1, positions, &x, &y, 0);
    for (uint64_t i = 0; ran && i < x.count; i++) {
        uint64_t partner = i % 64 < 32 ? i + 32 : i - 32;
        double bound = 1e-6 * (fabs(x.values[i]) + fabs(x.values[partner]));
        if (!(fabs(y.values[i] - want[i]) <= bound)) {
            harness_fail(h, "position %d: channel %llu: got %.9g, want %.9g, bound %.3g",
                         (int)positions[i / 64], (unsigned long long)(i % 64), y.values[i], want[i],
                         bound);
            break;
        }
    }
    harness_free_tensor(&x);
    harness_free_tensor(&y);
}

ON_EVERY_PROFILE(case_4_positions_beyond_any_table_and_negative_ones_are_right, turn_beyond)

/* What the host gives is checked: the last row's position must be one. */
Test(field_rotary, case_4_positions_of_the_host_beyond_int32_are_refused)
{
    static const struct {
        int32_t first;
        uint32_t rows;
        rhumb_result result;
    } runs[] = {{INT32_MAX - 2, 2, RHUMB_OK},
                {INT32_MAX, 2, RHUMB_ERROR_ARGUMENT},
                {-1, 1, RHUMB_ERROR_ARGUMENT}};
    static float x[2 * 8], y[2 * 8];
    harness h;
    harness_open(&h, HARNESS_LAVAPIPE);
    for (size_t i = 0; i < sizeof runs / sizeof runs[0]; i++) {
        gpu_operation op;
        rhumb_rope rope;
        rhumb_init_rope(&rope);
        gpu_init_operation(&op, RHUMB_OP_ROTATE);
        op.info.rotary = &rope;
        op.info.heads = 1;
        op.info.head_dim = 8;
        op.info.max_q_length = runs[i].rows;
        op.dispatch.q_offset = runs[i].first;
        gpu_add_tensor(&op, RHUMB_VIEW_Q, RHUMB_F32, 1, 1, runs[i].rows, 8, x, NULL);
        gpu_add_tensor(&op, RHUMB_VIEW_Q_OUT, RHUMB_F32, 1, 1, runs[i].rows, 8, NULL, y);
        h.cases++;
        rhumb_result result = harness_run(&h, &op);
        cr_expect_eq(result, runs[i].result, "from %d: %s: %s", (int)runs[i].first,
                     rhumb_result_name(result), op.message);
    }
    harness_close(&h);
}

/* ---- 5: positions of each sequence ---- */

/* Five tokens in a batch of two, of which `skip` are padding; the others alone: the same bits. */
static void pad(harness *h, const char *name, const int32_t ids[2][5], uint32_t skip)
{
    enum { HEADS = 2, DIM = 64 };
    uint32_t rows = 5 - skip;
    harness_random r = {.state = 6};
    harness_tensor x, y, one, got;
    rhumb_rope rope;
    rhumb_init_rope(&rope);
    harness_make_tensor(&x, RHUMB_F32, 2, HEADS, 5, DIM, (harness_layout){0});
    harness_make_tensor(&y, RHUMB_F32, 2, HEADS, 5, DIM, (harness_layout){0});
    harness_make_tensor(&one, RHUMB_F32, 1, HEADS, rows, DIM, (harness_layout){0});
    harness_make_tensor(&got, RHUMB_F32, 1, HEADS, rows, DIM, (harness_layout){0});
    harness_fill_normal(&x, &r);
    bool ran = shape_rotate(h, &rope, 1, ids[0], &x, &y, 0);
    for (uint64_t b = 0; ran && b < 2; b++) {
        for (uint64_t i = 0; i < one.count; i++) {
            one.values[i] =
                x.values[harness_index(&x, b, i / DIM / rows, skip + i / DIM % rows, i % DIM)];
        }
        harness_store(&one);
        ran = shape_rotate(h, &rope, 1, ids[b] + skip, &one, &got, 0);
        for (uint64_t i = 0; ran && i < got.count; i++) {
            uint64_t from = harness_index(&y, b, i / DIM / rows, skip + i / DIM % rows, i % DIM);
            if (memcmp(&y.values[from], &got.values[i], sizeof(double)) != 0) {
                ran = harness_fail(h,
                                   "%s, sequence %llu: element %llu: %.9g in the batch, %.9g "
                                   "alone",
                                   name, (unsigned long long)b, (unsigned long long)i,
                                   y.values[from], got.values[i]);
            }
        }
    }
    harness_free_tensor(&x);
    harness_free_tensor(&y);
    harness_free_tensor(&one);
    harness_free_tensor(&got);
}

static void pad_all(harness *h)
{
    static const int32_t left[2][5] = {{0, 0, 0, 1, 2}, {0, 1, 2, 3, 4}};
    static const int32_t jumps[2][5] = {{0, 1, 2, 100, 101}, {0, 1, 2, 3, 4}};
    static const int32_t repeats[2][5] = {{3, 3, 3, 4, 4}, {9, 9, 8, 8, 9}};
    pad(h, "left padding", left, 2);
    pad(h, "ids that jump", jumps, 0);
    pad(h, "ids that jump, behind the jump", jumps, 3);
    pad(h, "ids that repeat", repeats, 1);
}

ON_EVERY_PROFILE(case_5_padded_jumping_and_repeated_positions_give_the_bits_of_the_row_alone,
                 pad_all)

/* ---- 10: sections ---- */

/* Vectors (1, 0) of one token show the angle of each pair: only one of three ids explains it. */
static void turn_by_sections(harness *h, rhumb_mrope_order order, const uint32_t want[8])
{
    static const int32_t ids[3] = {5, 7, 11};
    harness_tensor x, y;
    rhumb_rope rope;
    rhumb_mrope mrope;
    rhumb_init_rope(&rope);
    rhumb_init_mrope(&mrope);
    mrope.rope = &rope;
    mrope.order = order;
    mrope.sections[0] = 2;
    mrope.sections[1] = mrope.sections[2] = 3;
    harness_make_tensor(&x, RHUMB_F32, 1, 1, 1, 16, (harness_layout){0});
    harness_make_tensor(&y, RHUMB_F32, 1, 1, 1, 16, (harness_layout){0});
    for (int i = 0; i < 8; i++) {
        x.values[i] = 1.0;
    }
    harness_store(&x);
    bool ran = shape_rotate(h, &mrope, 3, ids, &x, &y, 0);
    for (int i = 0; ran && i < 8; i++) {
        for (uint32_t axis = 0; axis < 3; axis++) {
            double angle = ids[axis] * pow(10000.0, -i / 8.0);
            bool same = fabs(y.values[i] - cos(angle)) <= 1e-6 &&
                        fabs(y.values[8 + i] - sin(angle)) <= 1e-6;
            if (same != (axis == want[i])) {
                harness_fail(h, "order %d, pair %d: turned by %c: %s", (int)order, i, "thw"[axis],
                             same ? "yes" : "no");
            }
        }
    }
    harness_free_tensor(&x);
    harness_free_tensor(&y);
}

static void turn_by_all_sections(harness *h)
{
    static const uint32_t blocks[8] = {0, 0, 1, 1, 1, 2, 2, 2};
    static const uint32_t interleaved[8] = {0, 1, 2, 0, 1, 2, 0, 1};
    turn_by_sections(h, RHUMB_MROPE_BLOCKS, blocks);
    turn_by_sections(h, RHUMB_MROPE_INTERLEAVED, interleaved);
}

ON_EVERY_PROFILE(case_10_each_pair_turns_by_the_row_of_its_section, turn_by_all_sections)

/* ---- 11: axes of a grid ---- */

/* Vectors (1, 0) on grids of 2 x 3 and 3 x 2. Token (1, 2) of the first turns its first two pairs
 * by one coordinate and the others by the other; the second grid gives the transposed answer. */
static void turn_grid(harness *h, rhumb_rope2d_pairing pairing, rhumb_rope2d_order order)
{
    static const int32_t wide[12] = {0, 0, 0, 1, 1, 1, 0, 1, 2, 0, 1, 2};
    static const int32_t high[12] = {0, 0, 1, 1, 2, 2, 0, 1, 0, 1, 0, 1};
    bool rows_first = order == RHUMB_ROPE2D_ROW_FIRST;
    bool half = pairing == RHUMB_ROPE2D_HALF;
    harness_tensor x, y, z;
    rhumb_rope2d plane;
    rhumb_init_rope2d(&plane);
    plane.pairing = pairing;
    plane.order = order;
    harness_make_tensor(&x, RHUMB_F32, 1, 1, 6, 8, (harness_layout){0});
    harness_make_tensor(&y, RHUMB_F32, 1, 1, 6, 8, (harness_layout){0});
    harness_make_tensor(&z, RHUMB_F32, 1, 1, 6, 8, (harness_layout){0});
    for (int i = 0; i < 48; i++) {
        x.values[i] = (half ? i % 8 < 4 : i % 2 == 0) ? 1.0 : 0.0;
    }
    harness_store(&x);
    bool ran =
        shape_rotate(h, &plane, 2, wide, &x, &y, 0) && shape_rotate(h, &plane, 2, high, &x, &z, 0);
    for (int i = 0; ran && i < 4; i++) {
        double f = i % 2 == 0 ? 1.0 : 0.01;                 /* 10000^(-4j/8) */
        double a = f * ((i < 2) == rows_first ? 1.0 : 2.0); /* row 1, column 2 */
        double b = f * ((i < 2) == rows_first ? 2.0 : 1.0); /* row 2, column 1 */
        int c = half ? i : 2 * i, s = half ? i + 4 : 2 * i + 1;
        if (!(fabs(y.values[40 + c] - cos(a)) <= 1e-6) ||
            !(fabs(y.values[40 + s] - sin(a)) <= 1e-6)) {
            harness_fail(h,
                         "grid 2 x 3, pairing %d order %d, token (1, 2), pair %d: got (%.9g, "
                         "%.9g), want (%.9g, %.9g)",
                         (int)pairing, (int)order, i, y.values[40 + c], y.values[40 + s], cos(a),
                         sin(a));
        }
        if (!(fabs(z.values[40 + c] - cos(b)) <= 1e-6) ||
            !(fabs(z.values[40 + s] - sin(b)) <= 1e-6)) {
            harness_fail(h,
                         "grid 3 x 2, pairing %d order %d, token (2, 1), pair %d: got (%.9g, "
                         "%.9g), want (%.9g, %.9g)",
                         (int)pairing, (int)order, i, z.values[40 + c], z.values[40 + s], cos(b),
                         sin(b));
        }
    }
    if (ran && memcmp(y.memory, z.memory, y.bytes) == 0) {
        harness_fail(h, "the grids 2 x 3 and 3 x 2 gave the same");
    }
    harness_free_tensor(&x);
    harness_free_tensor(&y);
    harness_free_tensor(&z);
}

static void turn_grids(harness *h)
{
    turn_grid(h, RHUMB_ROPE2D_HALF, RHUMB_ROPE2D_ROW_FIRST);
    turn_grid(h, RHUMB_ROPE2D_HALF, RHUMB_ROPE2D_COLUMN_FIRST);
    turn_grid(h, RHUMB_ROPE2D_INTERLEAVED, RHUMB_ROPE2D_ROW_FIRST);
    turn_grid(h, RHUMB_ROPE2D_INTERLEAVED, RHUMB_ROPE2D_COLUMN_FIRST);
}

ON_EVERY_PROFILE(case_11_rows_and_columns_of_a_grid_are_not_exchanged, turn_grids)
