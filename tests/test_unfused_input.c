/* What SCORES and unfused ATTENTION refuse: each with the operation, what was wanted and what was
 * there. */
#include "harness.h"

#include <criterion/criterion.h>
#include <string.h>

#define HEADS 2u
#define ROWS 5u
#define KEYS 7u
#define DIM 8u
#define GRID 4u /* 2 x 2 windows of 2 x 2 tokens */

typedef struct calls {
    rhumb_shaw shaw;
    rhumb_swin swin;
    rhumb_rope rope;
    gpu_operation op;
    uint32_t at[RHUMB_MAX_VIEWS]; /* index in op.tensors by view id */
    float memory[4096];
} calls;

static gpu_tensor *add(calls *c, rhumb_view_id id, rhumb_dtype dtype, uint64_t b, uint64_t h,
                       uint64_t l, uint64_t d)
{
    c->at[id] = c->op.tensor_count;
    return gpu_add_tensor(&c->op, id, dtype, b, h, l, d, c->memory, NULL);
}

static gpu_tensor *view(calls *c, rhumb_view_id id)
{
    return &c->op.tensors[c->at[id]];
}

static void remove_view(calls *c, rhumb_view_id id)
{
    uint32_t last = c->op.tensor_count - 1;
    c->op.tensors[c->at[id]] = c->op.tensors[last];
    c->at[c->op.tensors[last].id] = c->at[id];
    c->op.tensor_count--;
}

static void begin(calls *c, rhumb_op op, const void *scheme, uint32_t q, uint32_t k)
{
    memset(c, 0, sizeof *c);
    rhumb_init_shaw(&c->shaw);
    rhumb_init_rope(&c->rope);
    rhumb_init_swin(&c->swin);
    c->shaw.clip_left = c->shaw.clip_right = 2;
    for (uint32_t i = 0; i < 2; i++) {
        c->swin.window[i] = 2;
        c->swin.grid[i] = GRID;
    }
    gpu_init_operation(&c->op, op);
    c->op.info.scheme = scheme;
    c->op.info.heads = HEADS;
    c->op.info.head_dim = DIM;
    c->op.info.max_q_length = q;
    c->op.info.max_k_length = k;
    add(c, RHUMB_VIEW_Q, RHUMB_F32, 1, HEADS, q, DIM);
    add(c, RHUMB_VIEW_K, RHUMB_F32, 1, HEADS, k, DIM);
}

static void scores(calls *c)
{
    begin(c, RHUMB_OP_SCORES, &c->shaw, ROWS, KEYS);
    add(c, RHUMB_VIEW_O, RHUMB_F32, 1, HEADS, ROWS, KEYS);
    add(c, RHUMB_VIEW_QUERY_TABLE, RHUMB_F32, 1, HEADS, 5, DIM);
}

static void attend(calls *c)
{
    begin(c, RHUMB_OP_ATTENTION, &c->shaw, ROWS, KEYS);
    c->op.info.variant = RHUMB_VARIANT_UNFUSED;
    add(c, RHUMB_VIEW_O, RHUMB_F32, 1, HEADS, ROWS, DIM);
    add(c, RHUMB_VIEW_V, RHUMB_F32, 1, HEADS, KEYS, DIM);
    add(c, RHUMB_VIEW_QUERY_TABLE, RHUMB_F32, 1, 1, 5, DIM);
    add(c, RHUMB_VIEW_WORKSPACE, RHUMB_F32, 1, 1, 1, HEADS * ROWS * KEYS);
    c->op.info.variant = RHUMB_VARIANT_UNFUSED;
}

static void windows(calls *c)
{
    begin(c, RHUMB_OP_ATTENTION, &c->swin, GRID * GRID, GRID * GRID);
    c->op.info.variant = RHUMB_VARIANT_UNFUSED;
    add(c, RHUMB_VIEW_O, RHUMB_F32, 1, HEADS, GRID * GRID, DIM);
    add(c, RHUMB_VIEW_V, RHUMB_F32, 1, HEADS, GRID * GRID, DIM);
    add(c, RHUMB_VIEW_TABLE, RHUMB_F32, 1, 1, 9, HEADS);
    add(c, RHUMB_VIEW_WORKSPACE, RHUMB_F32, 1, 1, 1, HEADS * 4 * 4 * 4);
    c->op.info.variant = RHUMB_VARIANT_UNFUSED;
}

/* X(base, name, change, code, wanted, found): both stand in the message */
#define ROWS_OF_CHANGES(X)                                                                         \
    X(attend, workspace_is_missing, remove_view(c, RHUMB_VIEW_WORKSPACE), ARGUMENT,                \
      "attention: views: wanted WORKSPACE", "none")                                                \
    X(attend, workspace_is_a_float_short, view(c, RHUMB_VIEW_WORKSPACE)->shape[3]--, ARGUMENT,     \
      "at least 70", "69")                                                                         \
    X(attend, workspace_is_of_two_rows,                                                            \
      (view(c, RHUMB_VIEW_WORKSPACE)->shape[2] = 2,                                                \
       view(c, RHUMB_VIEW_WORKSPACE)->stride[2] = 70),                                             \
      ARGUMENT, "shape of WORKSPACE", "1, 2, 70")                                                  \
    X(attend, workspace_is_f16, view(c, RHUMB_VIEW_WORKSPACE)->dtype = RHUMB_F16, ARGUMENT,        \
      "dtype of WORKSPACE: wanted f32", "f16")                                                     \
    X(attend, tile_of_eight_channels, c->op.info.variant = RHUMB_VARIANT_TILE, UNSUPPORTED,        \
      "attention: variant tile", "8 and 8")                                                        \
    X(attend, table_without_a_scheme,                                                              \
      c->op.info.scheme = NULL, ARGUMENT,                                                          \
      "attention: views: wanted no tables without a scheme", "0x10000")                            \
    X(attend, table_has_a_row_too_many, view(c, RHUMB_VIEW_QUERY_TABLE)->shape[2]++, ARGUMENT,     \
      "QUERY_TABLE", "found 6")                                                                    \
    X(attend, table_is_of_three_heads, view(c, RHUMB_VIEW_QUERY_TABLE)->shape[1] = 3, ARGUMENT,    \
      "QUERY_TABLE", "found 3")                                                                    \
    X(attend, mask_has_too_few_rows, add(c, RHUMB_VIEW_MASK, RHUMB_F32, 1, 1, ROWS - 1, KEYS),     \
      ARGUMENT, "MASK", "found 4")                                                                 \
    X(attend, mask_has_too_many_heads, add(c, RHUMB_VIEW_MASK, RHUMB_F32, 1, 3, 1, KEYS),          \
      ARGUMENT, "MASK", "found 3")                                                                 \
    X(attend, value_table_has_a_row_too_few,                                                       \
      add(c, RHUMB_VIEW_VALUE_TABLE, RHUMB_F32, 1, 1, 4, DIM), ARGUMENT, "VALUE_TABLE", "found 4") \
    X(scores, value_table, add(c, RHUMB_VIEW_VALUE_TABLE, RHUMB_F32, 1, 1, 5, DIM), ARGUMENT,      \
      "scores: views", "VALUE_TABLE")                                                              \
    X(scores, variant_unfused, c->op.info.variant = RHUMB_VARIANT_UNFUSED, UNSUPPORTED,            \
      "scores: variant", "4")                                                                      \
    X(scores, causal, c->op.dispatch.causal = 1, ARGUMENT, "scores: causal", "found 1")            \
    X(scores, window_left, c->op.dispatch.window_left = 3, ARGUMENT, "window_left", "3")           \
    X(scores, inverse, c->op.dispatch.inverse = 1, ARGUMENT, "inverse", "1")                       \
    X(scores, o_is_of_channels, view(c, RHUMB_VIEW_O)->shape[3] = DIM, ARGUMENT, "shape of O",     \
      "found 8")                                                                                   \
    X(scores, q_length_beyond_the_plan, c->op.dispatch.q_length = ROWS + 1, LIMIT, "q_length",     \
      "found 6")                                                                                   \
    X(scores, offset_beyond_an_int, c->op.dispatch.q_offset = INT32_MAX, ARGUMENT, "q_offset",     \
      "2147483647")                                                                                \
    X(scores, rotary_with_a_negative_offset,                                                       \
      (c->op.info.rotary = &c->rope, c->op.dispatch.q_offset = -1), ARGUMENT, "q_offset", "-1")    \
    X(windows, tokens_are_no_grid,                                                                 \
      view(c, RHUMB_VIEW_K)->shape[2] = view(c, RHUMB_VIEW_V)->shape[2] = 12, ARGUMENT,            \
      "the tokens of a grid", "12")                                                                \
    X(windows, causal, c->op.dispatch.causal = 1, ARGUMENT, "windows are whole", "1")              \
    X(windows, fewer_keys, c->op.dispatch.k_length = 15, ARGUMENT, "windows are whole", "15")      \
    X(windows, positions, add(c, RHUMB_VIEW_POSITIONS_K, RHUMB_I32, 1, 1, 1, GRID *GRID),          \
      ARGUMENT, "no POSITIONS", "0x80")                                                            \
    X(windows, mask, add(c, RHUMB_VIEW_MASK, RHUMB_F32, 1, 1, 1, GRID *GRID), ARGUMENT, "no MASK", \
      "0x4000000")                                                                                 \
    X(windows, rotary, c->op.info.rotary = &c->rope, UNSUPPORTED, "rotary: wanted NULL", "scheme") \
    X(windows, workspace_of_one_window, view(c, RHUMB_VIEW_WORKSPACE)->shape[3] = HEADS * 4 * 4,   \
      ARGUMENT, "at least 128", "32")

#define X(base, name, change, code, wanted, found)                                                 \
    static void change_##base##_##name(calls *c)                                                   \
    {                                                                                              \
        change;                                                                                    \
    }
ROWS_OF_CHANGES(X)
#undef X

static const struct {
    const char *name;
    void (*base)(calls *c);
    void (*change)(calls *c);
    rhumb_result code;
    const char *wanted;
    const char *found;
} changes[] = {
#define X(base, name, change, code, wanted, found)                                                 \
    {#base ": " #name, base, change_##base##_##name, RHUMB_ERROR_##code, wanted, found},
    ROWS_OF_CHANGES(X)
#undef X
};

Test(unfused_input, each_wrong_call_is_refused_with_what_was_wanted_and_found)
{
    static calls c;
    harness h;
    harness_open(&h, HARNESS_LAVAPIPE);
    for (size_t i = 0; i < sizeof changes / sizeof changes[0]; i++) {
        rhumb_result result;
        changes[i].base(&c);
        changes[i].change(&c);
        h.cases++;
        result = gpu_run_operation(h.g, &c.op);
        if (result != changes[i].code || strstr(c.op.message, changes[i].wanted) == NULL ||
            strstr(c.op.message, changes[i].found) == NULL)
            (void)harness_fail(&h, "%s: got %s: %s", changes[i].name, rhumb_result_name(result),
                               c.op.message);
    }
    harness_close(&h);
}

Test(unfused_input, unchanged_calls_are_accepted)
{
    static void (*const bases[])(calls *c) = {scores, attend, windows};
    static calls c;
    harness h;
    harness_open(&h, HARNESS_LAVAPIPE);
    for (size_t i = 0; i < sizeof bases / sizeof bases[0]; i++) {
        bases[i](&c);
        h.cases++;
        if (gpu_run_operation(h.g, &c.op) != RHUMB_OK)
            (void)harness_fail(&h, "base %zu: %s", i, c.op.message);
    }
    harness_close(&h);
}

Test(unfused_input,
     workspace_is_at_least_one_row_and_at_most_sixteen_mebibytes_where_that_holds_one)
{
    static const struct {
        uint32_t heads, rows, keys;
        uint64_t bytes;
    } rows[] = {
        {2, 5, 7, 280},
        {8, 4096, 4096, 16777216},
        {1, 4096, 5000, 16720000}, /* 838 rows fit; a multiple of four is taken */
        {32, 4096, 1 << 20, 134217728},
        {32, 4096, 1 << 30, 137438953472},
    };
    harness h;
    harness_open(&h, HARNESS_LAVAPIPE);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        rhumb_plan_info info;
        rhumb_plan_properties properties;
        rhumb_init_plan_info(&info, RHUMB_OP_ATTENTION);
        rhumb_init_plan_properties(&properties);
        info.variant = RHUMB_VARIANT_UNFUSED;
        info.heads = rows[i].heads;
        info.head_dim = 64;
        info.max_q_length = rows[i].rows;
        info.max_k_length = rows[i].keys;
        info.views = RHUMB_VIEW_BIT(RHUMB_VIEW_Q) | RHUMB_VIEW_BIT(RHUMB_VIEW_K) |
                     RHUMB_VIEW_BIT(RHUMB_VIEW_V) | RHUMB_VIEW_BIT(RHUMB_VIEW_O) |
                     RHUMB_VIEW_BIT(RHUMB_VIEW_WORKSPACE);
        h.cases++;
        cr_expect_eq(rhumb_query_plan(h.g->context, &info, &properties), RHUMB_OK);
        cr_expect_eq(properties.workspace_size, rows[i].bytes, "row %zu: %llu", i,
                     (unsigned long long)properties.workspace_size);
        cr_expect_eq(properties.variant, RHUMB_VARIANT_UNFUSED);
    }
    harness_close(&h);
}
