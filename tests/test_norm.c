/* ROTATE with the norm of rows before they turn: every path against the reference, rows that are
 * nothing but zeros or NaN, and what cannot be combined. */
#include "shapes_norm.h"

#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

#define HALF .pairing = RHUMB_PAIRING_HALF
#define INTERLEAVED .pairing = RHUMB_PAIRING_INTERLEAVED
#define TO_HALF .pairing = RHUMB_PAIRING_INTERLEAVED_TO_HALF
#define F16 .dtype = RHUMB_F16
#define BF16 .dtype = RHUMB_BF16
#define ODD                                                                                        \
    {                                                                                              \
        .row_pad = 5, .offset = 3                                                                  \
    }
#define ROWS_ODD                                                                                   \
    {                                                                                              \
        .by_rows = true, .row_pad = 3, .offset = 1                                                 \
    }
#define QWEN3 HALF, .heads = 8, .kv_heads = 2, .head_dim = 128
#define GEMMA3 HALF, .heads = 4, .kv_heads = 1, .head_dim = 256, .gain_offset = 1.0

static const norm_shape table[] = {
    {QWEN3, .batch = 2, .rows = 9, .position_first = 1000},
    {QWEN3, .rows = 9, .in_place = true},
    {QWEN3, F16, .rows = 9, .in_place = true, .gain_dtype = RHUMB_F16},
    {QWEN3, BF16, .rows = 9, .in_place = true, .gain_dtype = RHUMB_BF16},
    {QWEN3, F16, .rows = 9, .append = true},
    {QWEN3, .rows = 1, .append = true, .position_first = 77},
    {GEMMA3, .rows = 5, .in_place = true},
    {GEMMA3, BF16, .rows = 5, .gain_dtype = RHUMB_BF16},
    {GEMMA3, F16, .rows = 5, .gain_dtype = RHUMB_F32},
    /* one of the two only: the other turns as ever, and its tail is copied bit for bit */
    {HALF, .heads = 5, .kv_heads = 5, .rows = 7, .head_dim = 64, .rotary_dim = 32,
     .no_k_gain = true},
    {HALF, .heads = 6, .kv_heads = 3, .rows = 7, .head_dim = 64, .rotary_dim = 32,
     .no_q_gain = true, .in_place = true},
    {INTERLEAVED, .kv_heads = 3, .rows = 7, .head_dim = 64},
    {INTERLEAVED, F16, .heads = 7, .rows = 7, .head_dim = 64, .apart = true},
    /* gains of each head; heads that are no multiple of four, batches */
    {INTERLEAVED, .batch = 3, .heads = 6, .kv_heads = 3, .rows = 7, .head_dim = 64, .apart = true},
    {HALF, .batch = 3, .heads = 17, .kv_heads = 1, .rows = 5, .head_dim = 32, .apart = true,
     .in_place = true},
    /* partial: channels outside the window change as well, in place too */
    {HALF, .heads = 5, .kv_heads = 5, .rows = 11, .head_dim = 80, .rotary_dim = 32},
    {HALF, .heads = 5, .kv_heads = 5, .rows = 11, .head_dim = 80, .rotary_dim = 32,
     .in_place = true},
    {INTERLEAVED, .heads = 5, .rows = 11, .head_dim = 192, .rotary_dim = 64, .rotary_offset = 128,
     .in_place = true},
    {INTERLEAVED, BF16, .heads = 2, .rows = 11, .head_dim = 96, .rotary_dim = 22,
     .rotary_offset = 5, .in_place = true},
    {TO_HALF, .heads = 5, .kv_heads = 5, .rows = 3, .head_dim = 64},
    {TO_HALF, F16, .heads = 2, .rows = 3, .head_dim = 31, .rotary_dim = 26, .rotary_offset = 3},
    /* odd heads, odd places, the smallest and the largest */
    {HALF, .heads = 2, .kv_heads = 1, .rows = 13, .head_dim = 63, .rotary_dim = 62, .apart = true},
    {INTERLEAVED, F16, .heads = 3, .rows = 5, .head_dim = 31, .rotary_dim = 26, .rotary_offset = 1,
     .in_place = true, .layout = ROWS_ODD, .gain_dtype = RHUMB_F16},
    {HALF, F16, .heads = 3, .rows = 5, .head_dim = 33, .rotary_dim = 32, .layout = ODD,
     .out_layout = ROWS_ODD, .gain_dtype = RHUMB_BF16},
    {HALF, .batch = 2, .heads = 3, .rows = 5, .head_dim = 64, .layout = ODD,
     .out_layout = ROWS_ODD},
    {HALF, .heads = 1, .rows = 1, .head_dim = 2},
    {INTERLEAVED, .heads = 1, .rows = 3, .head_dim = 2, .in_place = true},
    {HALF, .heads = 2, .rows = 3, .head_dim = 576},
    {HALF, .heads = 3, .rows = 131, .head_dim = 40, .in_place = true},
    /* rows so small that epsilon counts, and so large that it does not */
    {HALF, .heads = 4, .rows = 5, .head_dim = 64, .size = 1e-3},
    {HALF, .heads = 4, .rows = 5, .head_dim = 64, .size = 1e-3, .epsilon = 1e-5},
    {HALF, .heads = 4, .rows = 5, .head_dim = 64, .size = 1e15, .epsilon = 1e-5},
    /* fewer rows than the views have */
    {HALF, .batch = 2, .heads = 6, .kv_heads = 2, .rows = 9, .head_dim = 64, .q_length = 4},
    {HALF, F16, .batch = 2, .heads = 3, .rows = 9, .head_dim = 5, .rotary_dim = 4, .q_length = 4,
     .in_place = true},
};

/* Of four heads that share their angles one row is zeros and one has a NaN. Zeros stay zeros, also
 * with epsilon 0; the NaN stays in its row; the others are as ever. */
static void check_special_rows(harness *h, float epsilon)
{
    enum { HEADS = 4, DIM = 64 };
    harness_random r = {.state = 22};
    harness_tensor x, y, gain;
    gpu_operation op;
    rhumb_rope rope;
    rhumb_init_rope(&rope);
    harness_make_tensor(&x, RHUMB_F32, 1, HEADS, 2, DIM, (harness_layout){0});
    harness_make_tensor(&y, RHUMB_F32, 1, HEADS, 2, DIM, (harness_layout){0});
    harness_make_tensor(&gain, RHUMB_F32, 1, 1, 1, DIM, (harness_layout){0});
    for (uint64_t i = 0; i < x.count; i++) {
        uint64_t row = i / DIM; /* head 1, row 0 is zeros, head 2, row 1 has the NaN */
        x.values[i] = row == 2 ? 0.0 : row == 5 && i % DIM == 9 ? (double)NAN : harness_normal(&r);
    }
    for (uint64_t i = 0; i < gain.count; i++) {
        gain.values[i] = 1.0;
    }
    harness_store(&x);
    harness_store(&gain);
    gpu_init_operation(&op, RHUMB_OP_ROTATE);
    op.info.rotary = &rope;
    op.info.heads = HEADS;
    op.info.head_dim = DIM;
    op.info.max_q_length = 2;
    op.info.norm_epsilon = epsilon;
    (void)harness_add(&op, RHUMB_VIEW_Q, &x, false);
    (void)harness_add(&op, RHUMB_VIEW_Q_OUT, &y, true);
    (void)harness_add(&op, RHUMB_VIEW_Q_GAIN, &gain, false);
    h->cases++;
    bool ran = harness_run(h, &op) == RHUMB_OK || harness_fail(h, "rows: %s", op.message);
    harness_load(&y);
    for (uint64_t row = 0; ran && row < HEADS * 2; row++) {
        double sum = 0.0;
        for (uint64_t c = 0; c < DIM; c++) {
            sum += y.values[row * DIM + c] * y.values[row * DIM + c];
        }
        /* a rotation keeps the length: sqrt(D) of a row with gain 1 */
        bool right = row == 2 ? sum == 0.0 : row == 5 || fabs(sum / DIM - 1.0) <= 1e-4;
        if (!right) {
            harness_fail(h, "epsilon %g: row %llu: mean square %.9g", (double)epsilon,
                         (unsigned long long)row, sum / DIM);
        }
    }
    harness_free_tensor(&x);
    harness_free_tensor(&y);
    harness_free_tensor(&gain);
}

static void run_profile(harness_profile profile)
{
    harness h;
    harness_open(&h, profile);
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        shape_run_norm(&h, &table[i]);
    }
    check_special_rows(&h, 1e-6f);
    check_special_rows(&h, 0.0f);
    harness_close(&h);
}

Test(norm, rows_are_normalised_before_they_turn_on_lavapipe)
{
    run_profile(HARNESS_LAVAPIPE);
}

Test(norm, rows_are_normalised_before_they_turn_on_the_smallest_device)
{
    run_profile(HARNESS_LAVAPIPE_FLOOR);
}

Test(norm, rows_are_normalised_before_they_turn_on_swiftshader)
{
    run_profile(HARNESS_SWIFTSHADER);
}

/* ---- refusals ---- */

typedef struct attempt {
    const char *name;
    const char *words[2];
    rhumb_result code;
    float epsilon, offset;         /* 0 and 0: the defaults */
    uint32_t gain_heads, gain_dim; /* 0: 4 and 64 */
    rhumb_purpose purpose;
    bool inverse;
    bool of_keys; /* K_GAIN without K */
} attempt;

#define REFUSED(error, first, second) .code = RHUMB_ERROR_##error, .words = {first, second}

static const attempt attempts[] = {
    {"as it should be", .code = RHUMB_OK},
    {"epsilon below 0", REFUSED(ARGUMENT, "norm_epsilon", "-1"), .epsilon = -1.0f},
    {"epsilon is no number", REFUSED(ARGUMENT, "norm_epsilon", "nan"), .epsilon = NAN},
    {"epsilon without end", REFUSED(ARGUMENT, "norm_epsilon", "inf"), .epsilon = INFINITY},
    {"offset without end", REFUSED(ARGUMENT, "gain_offset", "inf"), .offset = INFINITY},
    {"offset is no number", REFUSED(ARGUMENT, "gain_offset", "nan"), .offset = NAN},
    {"gain of another tensor", REFUSED(ARGUMENT, "wanted K beside K_GAIN", ""), .of_keys = true},
    {"gain of other heads", REFUSED(ARGUMENT, "Q_GAIN", "wanted exactly 4 in shape[2], found 2"),
     .gain_heads = 2},
    {"gain of another width", REFUSED(ARGUMENT, "Q_GAIN", "found 32"), .gain_dim = 32},
    {"inverse", REFUSED(UNSUPPORTED, "inverse", "gain"), .inverse = true},
    {"shift", REFUSED(UNSUPPORTED, "purpose", "found 1"), .purpose = RHUMB_PURPOSE_SHIFT},
    {"reschedule", REFUSED(UNSUPPORTED, "purpose", "found 2"), .purpose = RHUMB_PURPOSE_RESCHEDULE},
};

Test(norm, what_a_norm_cannot_be_combined_with_is_refused_with_a_reason)
{
    static float x[4 * 2 * 64], y[4 * 2 * 64], gain[4 * 64];
    harness h;
    harness_open(&h, HARNESS_LAVAPIPE);
    for (size_t i = 0; i < sizeof attempts / sizeof attempts[0]; i++) {
        const attempt *a = &attempts[i];
        uint32_t dim = a->gain_dim != 0 ? a->gain_dim : 64;
        gpu_operation op;
        rhumb_rope rope;
        rhumb_init_rope(&rope);
        rope.scaling = RHUMB_ROPE_SCALING_NTK_DYNAMIC; /* so that RESCHEDULE fails for the gain */
        rope.max_length = 4096;
        gpu_init_operation(&op, RHUMB_OP_ROTATE);
        op.info.rotary = &rope;
        op.info.heads = 4;
        op.info.head_dim = 64;
        op.info.max_q_length = 2;
        op.info.purpose = a->purpose;
        op.dispatch.inverse = a->inverse;
        if (!(a->epsilon >= 0.0f && a->epsilon <= 0.0f)) {
            op.info.norm_epsilon = a->epsilon;
        }
        op.info.gain_offset = a->offset;
        gpu_add_tensor(&op, RHUMB_VIEW_Q, RHUMB_F32, 1, 4, 2, 64, x, NULL);
        gpu_add_tensor(&op, RHUMB_VIEW_Q_OUT, RHUMB_F32, 1, 4, 2, 64, NULL, y);
        gpu_add_tensor(&op, a->of_keys ? RHUMB_VIEW_K_GAIN : RHUMB_VIEW_Q_GAIN, RHUMB_F32, 1, 1,
                       a->gain_heads != 0 ? a->gain_heads : 4, dim, gain, NULL);
        h.cases++;
        rhumb_result code = harness_run(&h, &op);
        cr_expect_eq(code, a->code, "%s: %s: %s", a->name, rhumb_result_name(code), op.message);
        cr_expect(code == RHUMB_OK || (strstr(op.message, a->words[0]) != NULL &&
                                       strstr(op.message, a->words[1]) != NULL),
                  "%s: %s", a->name, op.message);
    }
    harness_close(&h);
}
