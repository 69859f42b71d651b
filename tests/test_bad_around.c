/* What is around attention and refused: fields of a dispatch, SINKS and LSE. Each with the
 * operation, what was wanted and what was there, and nothing is recorded. */
#include "harness.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stddef.h>
#include <string.h>

#define HEADS 2u
#define ROWS 5u
#define KEYS 7u
#define DIM 8u
#define GRID 4u /* 2 x 2 windows of 2 x 2 tokens */

typedef struct call {
    rhumb_swin swin;
    rhumb_rope rope;
    rhumb_alibi alibi;
    rhumb_sinusoidal sinusoidal;
    rhumb_resize resize;
    gpu_operation op;
    uint32_t at[RHUMB_MAX_VIEWS]; /* index in op.tensors by view id */
    harness_tensor out;
    float memory[4096];
} call;

static gpu_tensor *add(call *c, rhumb_view_id id, rhumb_dtype dtype, uint64_t b, uint64_t h,
                       uint64_t l, uint64_t d)
{
    c->at[id] = c->op.tensor_count;
    return gpu_add_tensor(&c->op, id, dtype, b, h, l, d, c->memory, NULL);
}

static gpu_tensor *view(call *c, rhumb_view_id id)
{
    return &c->op.tensors[c->at[id]];
}

static void begin(call *c, rhumb_op op, const void *scheme)
{
    memset(c, 0, sizeof *c);
    rhumb_init_swin(&c->swin);
    rhumb_init_rope(&c->rope);
    rhumb_init_alibi(&c->alibi);
    rhumb_init_sinusoidal(&c->sinusoidal);
    rhumb_init_resize(&c->resize);
    gpu_init_operation(&c->op, op);
    c->op.info.scheme = scheme;
    c->op.info.max_q_length = ROWS;
}

static void add_out(call *c, uint64_t h, uint64_t l, uint64_t d)
{
    harness_make_tensor(&c->out, RHUMB_F32, 1, h, l, d, (harness_layout){0});
    c->at[RHUMB_VIEW_O] = c->op.tensor_count;
    (void)harness_add(&c->op, RHUMB_VIEW_O, &c->out, true);
}

static void begin_logits(call *c, rhumb_op op, const void *scheme, uint32_t rows, uint32_t keys)
{
    begin(c, op, scheme);
    c->op.info.heads = HEADS;
    c->op.info.head_dim = DIM;
    c->op.info.max_q_length = rows;
    c->op.info.max_k_length = keys;
    add(c, RHUMB_VIEW_Q, RHUMB_F32, 1, HEADS, rows, DIM);
    add(c, RHUMB_VIEW_K, RHUMB_F32, 1, HEADS, keys, DIM);
}

static void attend(call *c)
{
    begin_logits(c, RHUMB_OP_ATTENTION, NULL, ROWS, KEYS);
    add(c, RHUMB_VIEW_V, RHUMB_F32, 1, HEADS, KEYS, DIM);
    add_out(c, HEADS, ROWS, DIM);
}

static void windows(call *c)
{
    begin_logits(c, RHUMB_OP_ATTENTION, &c->swin, GRID * GRID, GRID * GRID);
    c->op.info.variant = RHUMB_VARIANT_UNFUSED;
    for (uint32_t i = 0; i < 2; i++) {
        c->swin.window[i] = 2;
        c->swin.grid[i] = GRID;
    }
    add(c, RHUMB_VIEW_V, RHUMB_F32, 1, HEADS, GRID * GRID, DIM);
    add(c, RHUMB_VIEW_TABLE, RHUMB_F32, 1, 1, 9, HEADS);
    add(c, RHUMB_VIEW_WORKSPACE, RHUMB_F32, 1, 1, 1, HEADS * 4 * 4 * 4);
    add_out(c, HEADS, GRID * GRID, DIM);
}

static void scores(call *c)
{
    begin_logits(c, RHUMB_OP_SCORES, &c->alibi, ROWS, KEYS);
    add_out(c, HEADS, ROWS, KEYS);
}

static void bias(call *c)
{
    begin(c, RHUMB_OP_BIAS, &c->alibi);
    c->op.info.heads = HEADS;
    c->op.info.max_k_length = KEYS;
    add_out(c, HEADS, ROWS, KEYS);
}

static void rotate(call *c)
{
    begin(c, RHUMB_OP_ROTATE, NULL);
    c->op.info.rotary = &c->rope;
    c->op.info.heads = HEADS;
    c->op.info.head_dim = DIM;
    add(c, RHUMB_VIEW_Q, RHUMB_F32, 1, HEADS, ROWS, DIM);
    harness_make_tensor(&c->out, RHUMB_F32, 1, HEADS, ROWS, DIM, (harness_layout){0});
    (void)harness_add(&c->op, RHUMB_VIEW_Q_OUT, &c->out, true);
}

static void encode(call *c)
{
    begin(c, RHUMB_OP_ENCODE, &c->sinusoidal);
    c->op.info.head_dim = DIM;
    add_out(c, 1, ROWS, DIM);
}

static void resize(call *c)
{
    begin(c, RHUMB_OP_RESIZE, &c->resize);
    c->op.info.head_dim = DIM;
    c->op.info.max_q_length = 9;
    for (uint32_t i = 0; i < 2; i++) {
        c->resize.old_grid[i] = 2;
        c->resize.new_grid[i] = 3;
    }
    add(c, RHUMB_VIEW_TABLE, RHUMB_F32, 1, 1, 4, DIM);
    add_out(c, 1, 9, DIM);
}

static void project(call *c)
{
    begin(c, RHUMB_OP_PROJECT, NULL);
    c->op.info.heads = HEADS;
    c->op.info.head_dim = DIM;
    c->op.info.value_dim = 3;
    add(c, RHUMB_VIEW_X, RHUMB_F32, 1, 1, ROWS, 3);
    add(c, RHUMB_VIEW_WEIGHT, RHUMB_F32, 1, HEADS, DIM, 3);
    add_out(c, HEADS, ROWS, DIM);
}

static void add_sinks(call *c)
{
    add(c, RHUMB_VIEW_SINKS, RHUMB_F32, 1, 1, 1, HEADS);
}

static void add_lse(call *c)
{
    add(c, RHUMB_VIEW_LSE, RHUMB_F32, 1, 1, HEADS, ROWS);
}

static gpu_tensor *with_sinks(call *c)
{
    add_sinks(c);
    return view(c, RHUMB_VIEW_SINKS);
}

static gpu_tensor *with_lse(call *c)
{
    add_lse(c);
    return view(c, RHUMB_VIEW_LSE);
}

/* Without a scheme a factor of the row of Q. */
static gpu_tensor *with_row_scale(call *c)
{
    return add(c, RHUMB_VIEW_ROW_SCALE, RHUMB_F32, 1, 1, HEADS, ROWS);
}

/* LSE lies where the view lies. */
static void share(call *c, rhumb_view_id id)
{
    gpu_tensor *lse = with_lse(c);
    lse->same_as = 1 + c->at[id];
    lse->bytes = gpu_tensor_bytes(view(c, id));
    lse->input = view(c, id)->input;
}

/* X(base, name, change, code, start of the line, found) */
#define ROWS_OF_FIELDS(X)                                                                          \
    X(attend, softcap_is_zero, c->op.dispatch.softcap = 0, ARGUMENT,                               \
      "attention: softcap: wanted a number above 0", "found 0")                                    \
    X(attend, softcap_is_negative, c->op.dispatch.softcap = -30, ARGUMENT,                         \
      "attention: softcap: wanted a number above 0", "found -30")                                  \
    X(attend, softcap_is_minus_infinity, c->op.dispatch.softcap = -INFINITY, ARGUMENT,             \
      "attention: softcap: wanted a number above 0", "found -inf")                                 \
    X(attend, softcap_is_no_number, c->op.dispatch.softcap = NAN, ARGUMENT,                        \
      "attention: softcap: wanted a number above 0", "nan")                                        \
    X(attend, bias_after_softcap_is_no_flag, c->op.dispatch.bias_after_softcap = 2, ARGUMENT,      \
      "attention: bias_after_softcap: wanted 0 or 1", "found 2")                                   \
    X(attend, chunk_is_zero, c->op.dispatch.chunk = 0, ARGUMENT,                                   \
      "attention: chunk: wanted 1 or more", "found 0")                                             \
    X(attend, chunk_is_unset, c->op.dispatch.chunk = RHUMB_UNSET, ARGUMENT,                        \
      "attention: chunk: wanted 1 or more", "found -2147483648")                                   \
    X(attend, kept_keys_are_negative, c->op.dispatch.kept_keys = -1, ARGUMENT,                     \
      "attention: kept_keys: wanted 0 or more", "found -1")                                        \
    X(attend, max_flops_is_zero, c->op.dispatch.max_flops = 0, ARGUMENT,                           \
      "attention: max_flops: wanted 1 or more", "found 0")                                         \
    X(windows, chunk, c->op.dispatch.chunk = 8, ARGUMENT,                                          \
      "attention: lengths, q_offset, causal, windows, chunk and kept_keys: wanted the defaults",   \
      "2147483647, 8 and 0")                                                                       \
    X(windows, kept_keys, c->op.dispatch.kept_keys = 3, ARGUMENT,                                  \
      "attention: lengths, q_offset, causal, windows, chunk and kept_keys: wanted the defaults",   \
      "2147483647 and 3")

/* Fields that mean nothing to an operation. */
#define ONLY "softcap, bias_after_softcap, chunk and kept_keys: wanted the defaults"
#define ROWS_OF_OTHERS(X, base)                                                                    \
    X(base, softcap, c->op.dispatch.softcap = 50, ARGUMENT, #base ": " ONLY, "50, 0, 2147483647")  \
    X(base, softcap_is_no_number, c->op.dispatch.softcap = NAN, ARGUMENT, #base ": " ONLY, "nan")  \
    X(base, bias_after_softcap, c->op.dispatch.bias_after_softcap = 1, ARGUMENT, #base ": " ONLY,  \
      "inf, 1,")                                                                                   \
    X(base, chunk, c->op.dispatch.chunk = 4, ARGUMENT, #base ": " ONLY, "0, 4 and 0")              \
    X(base, kept_keys, c->op.dispatch.kept_keys = 2, ARGUMENT, #base ": " ONLY, "and 2")           \
    X(base, max_flops_is_zero, c->op.dispatch.max_flops = 0, ARGUMENT, #base ": max_flops: ",      \
      "found 0")

#define ROWS_OF_VIEWS(X)                                                                           \
    X(attend, sinks_of_another_head, with_sinks(c)->shape[3]++, ARGUMENT,                          \
      "attention: shape of SINKS [", "found 3")                                                    \
    X(attend, sinks_by_rows, with_sinks(c)->shape[2] = 2, ARGUMENT,                                \
      "attention: shape of SINKS [", "found 2")                                                    \
    X(attend, sinks_are_integers, with_sinks(c)->dtype = RHUMB_I32, ARGUMENT,                      \
      "attention: dtype of SINKS", "i32")                                                          \
    X(attend, lse_is_f16, with_lse(c)->dtype = RHUMB_F16, ARGUMENT,                                \
      "attention: dtype of LSE: wanted f32", "f16")                                                \
    X(attend, lse_is_i32, with_lse(c)->dtype = RHUMB_I32, ARGUMENT, "attention: dtype of LSE",     \
      "i32")                                                                                       \
    X(attend, lse_has_a_row_too_few, with_lse(c)->shape[3]--, ARGUMENT,                            \
      "attention: shape of LSE [", "found 4")                                                      \
    X(attend, lse_has_a_head_too_many, with_lse(c)->shape[2]++, ARGUMENT,                          \
      "attention: shape of LSE [", "found 3")                                                      \
    X(attend, lse_is_of_two_batch_entries, with_lse(c)->shape[1] = 2, ARGUMENT,                    \
      "attention: shape of LSE [", "found 2")                                                      \
    X(attend, lse_is_of_four_dimensions, with_lse(c)->shape[0] = 2, ARGUMENT,                      \
      "attention: shape of LSE [", "found 2")                                                      \
    X(attend, rows_of_lse_overlap, with_lse(c)->stride[2] = ROWS - 1, ARGUMENT,                    \
      "attention: stride[2] of LSE: wanted at least 5", "found 4")                                 \
    X(attend, lse_lies_in_o, share(c, RHUMB_VIEW_O), ARGUMENT, "attention: ", "LSE")               \
    X(attend, lse_lies_in_k, share(c, RHUMB_VIEW_K), ARGUMENT, "attention: ", "LSE")               \
    X(attend, lse_lies_in_sinks, (add_sinks(c), share(c, RHUMB_VIEW_SINKS)), ARGUMENT,             \
      "attention: ", "LSE")                                                                        \
    X(attend, row_scale_is_f16, with_row_scale(c)->dtype = RHUMB_F16, ARGUMENT,                    \
      "attention: dtype of ROW_SCALE: wanted f32", "f16")                                          \
    X(attend, row_scale_has_a_row_too_few, with_row_scale(c)->shape[3]--, ARGUMENT,                \
      "attention: shape of ROW_SCALE [", "found 4")                                                \
    X(attend, row_scale_has_a_head_too_many, with_row_scale(c)->shape[2]++, ARGUMENT,              \
      "attention: shape of ROW_SCALE [", "found 3")                                                \
    X(scores, sinks, add_sinks(c), ARGUMENT, "scores: views", "SINKS")                             \
    X(scores, lse, add_lse(c), ARGUMENT, "scores: views", "LSE")                                   \
    X(bias, lse, add_lse(c), ARGUMENT, "bias: views", "LSE")                                       \
    X(rotate, sinks, add_sinks(c), ARGUMENT, "rotate: views", "SINKS")                             \
    X(encode, lse, add_lse(c), ARGUMENT, "encode: views", "LSE")

#define EVERY_ROW(X)                                                                               \
    ROWS_OF_FIELDS(X)                                                                              \
    ROWS_OF_VIEWS(X)                                                                               \
    ROWS_OF_OTHERS(X, rotate)                                                                      \
    ROWS_OF_OTHERS(X, encode)                                                                      \
    ROWS_OF_OTHERS(X, resize)                                                                      \
    ROWS_OF_OTHERS(X, project)                                                                     \
    ROWS_OF_OTHERS(X, bias)                                                                        \
    ROWS_OF_OTHERS(X, scores)

#define X(base, name, change, code, start, found)                                                  \
    static void change_##base##_##name(call *c)                                                    \
    {                                                                                              \
        change;                                                                                    \
    }
EVERY_ROW(X)
#undef X

static const struct {
    const char *name;
    void (*base)(call *c);
    void (*change)(call *c);
    rhumb_result code;
    const char *start;
    const char *found;
} rows[] = {
#define X(base, name, change, code, start, found)                                                  \
    {#base ": " #name, base, change_##base##_##name, RHUMB_ERROR_##code, start, found},
    EVERY_ROW(X)
#undef X
};

Test(bad_around, each_wrong_call_is_refused_with_what_was_wanted_and_found)
{
    static call c;
    harness h;
    harness_open(&h, HARNESS_LAVAPIPE);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        uint64_t dispatches = interpose_read().dispatches;
        rows[i].base(&c);
        rows[i].change(&c);
        harness_expect_refused(&h, &c.op, rows[i].name, rows[i].code, rows[i].start, rows[i].found,
                               &c.out);
        if (interpose_read().dispatches != dispatches)
            (void)harness_fail(&h, "%s: something was recorded", rows[i].name);
        harness_free_tensor(&c.out);
    }
    harness_close(&h);
}

Test(bad_around, unchanged_calls_are_accepted)
{
    static void (*const bases[])(call *c) = {attend, windows, scores, bias,
                                             rotate, encode,  resize, project};
    static call c;
    harness h;
    harness_open(&h, HARNESS_LAVAPIPE);
    for (size_t i = 0; i < sizeof bases / sizeof bases[0]; i++) {
        bases[i](&c);
        h.cases++;
        if (gpu_run_operation(h.g, &c.op) != RHUMB_OK)
            (void)harness_fail(&h, "base %zu: %s", i, c.op.message);
        harness_free_tensor(&c.out);
    }
    harness_close(&h);
}

/* Bytes behind struct_size are no part of a dispatch, and nothing new lies in what was padding. */
Test(bad_around, an_older_dispatch_has_the_defaults)
{
    static call c;
    harness h;
    harness_open(&h, HARNESS_LAVAPIPE);
    attend(&c);
    c.op.dispatch.struct_size = 64;
    cr_assert_eq(offsetof(rhumb_dispatch, softcap), 64);
    c.op.dispatch.softcap = NAN;
    c.op.dispatch.bias_after_softcap = 2;
    c.op.dispatch.chunk = 0;
    c.op.dispatch.kept_keys = -1;
    c.op.dispatch.max_flops = 0;
    h.cases++;
    if (gpu_run_operation(h.g, &c.op) != RHUMB_OK)
        (void)harness_fail(&h, "%s", c.op.message);
    harness_free_tensor(&c.out);
    harness_close(&h);
}
