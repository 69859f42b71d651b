/* ATTENTION, the decode form: keys cut into slices that a second stage merges, what is around the
 * logits, and biases of schemes. */
#include "shapes.h"
#include "shapes_relative.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define SLICED .variant = RHUMB_VARIANT_DECODE, .workspace = true, .head_dim = 64
#define WHOLE .variant = RHUMB_VARIANT_DECODE, .head_dim = 64
#define ROWS {.by_rows = true}
#define F16 .dtype_q = RHUMB_F16, .dtype_k = RHUMB_F16, .dtype_v = RHUMB_F16, .dtype_o = RHUMB_F16
#define BF16                                                                                       \
    .dtype_q = RHUMB_BF16, .dtype_k = RHUMB_BF16, .dtype_v = RHUMB_BF16, .dtype_o = RHUMB_BF16
#define OFFSET(n) .offset_given = true, .q_offset = (n)
#define WINDOW(l, r) .windowed = true, .window_left = (l), .window_right = (r)

/* Slices have 256 keys or more. One pipeline a head size, dtype, number of rows and set of views. */
static const attention_shape sliced[] = {
    {SLICED, .heads = 2, .q_rows = 1, .k_rows = 257},
    {SLICED, .heads = 2, .q_rows = 1, .k_rows = 512, .causal = true},
    {SLICED, .heads = 1, .q_rows = 1, .k_rows = 1021, .values = SHAPE_SHARP},
    {SLICED, .heads = 8, .kv_heads = 2, .q_rows = 1, .k_rows = 777, .causal = true},
    {SLICED, .batch = 3, .heads = 3, .q_rows = 2, .k_rows = 521, .causal = true},
    {SLICED, .heads = 7, .kv_heads = 1, .q_rows = 2, .k_rows = 600, .causal = true, OFFSET(300)},
    /* slices that no row sees, and rows that see no slice */
    {SLICED, .heads = 2, .q_rows = 1, .k_rows = 1021, .causal = true, OFFSET(11),
     .poison = SHAPE_NAN_HIDDEN},
    {SLICED, .heads = 2, .q_rows = 2, .k_rows = 600, .causal = true, OFFSET(255),
     .poison = SHAPE_NAN_HIDDEN},
    {SLICED, .heads = 2, .q_rows = 4, .k_rows = 600, .causal = true, OFFSET(-2)},
    {SLICED, .heads = 2, .q_rows = 1, .k_rows = 1021, WINDOW(100, 0), .causal = true,
     .poison = SHAPE_INF_HIDDEN},
    {SLICED, .heads = 2, .q_rows = 1, .k_rows = 1021, WINDOW(100, 0), .causal = true, OFFSET(300),
     .poison = SHAPE_INF_HIDDEN},
    {SLICED, .heads = 2, .q_rows = 2, .k_rows = 600, .causal = true, WINDOW(13, RHUMB_NO_WINDOW),
     OFFSET(2000000000), .poison = SHAPE_NAN_HIDDEN},
    /* fewer keys than the plan's */
    {SLICED, .heads = 2, .q_rows = 1, .k_rows = 1021, .k_length = 1, .poison = SHAPE_NAN_HIDDEN},
    {SLICED, .heads = 2, .q_rows = 1, .k_rows = 1021, .k_length = 256, .poison = SHAPE_NAN_HIDDEN},
    {SLICED, .heads = 2, .q_rows = 1, .k_rows = 1021, .k_length = 700, .poison = SHAPE_INF_HIDDEN},
    {SLICED, .heads = 2, .q_rows = 1, .k_rows = 300, .plan_k = 100000},
    {SLICED, .batch = 3, .heads = 2, .q_rows = 1, .k_rows = 521, .lengths = true, .causal = true,
     .lengths_beyond = true, .poison = SHAPE_NAN_HIDDEN},
    {SLICED, .batch = 3, .heads = 2, .q_rows = 3, .k_rows = 600, .lengths = true, .causal = true,
     OFFSET(255), .poison = SHAPE_NAN_HIDDEN},
    {SLICED, .batch = 2, .heads = 2, .q_rows = 3, .k_rows = 600, .by_position = true,
     .positions = SHAPE_REVERSED, .causal = true},
    /* layouts and formats; rows that start anywhere get the generic form, in the same slices */
    {SLICED, .batch = 2, .heads = 4, .kv_heads = 2, .q_rows = 1, .k_rows = 300, .layout_k = ROWS,
     .layout_v = ROWS, .layout_o = ROWS},
    {SLICED, .heads = 2, .q_rows = 1, .k_rows = 300, .layout_k = {.row_pad = 3, .offset = 1},
     .layout_o = {.row_pad = 1}},
    {SLICED, .heads = 1, .q_rows = 1, .k_rows = 4096, .values = SHAPE_EQUAL_V},
    {SLICED, F16, .heads = 4, .kv_heads = 2, .q_rows = 1, .k_rows = 521, .causal = true},
    {SLICED, BF16, .heads = 2, .q_rows = 1, .k_rows = 521},
    {.variant = RHUMB_VARIANT_DECODE, .workspace = true, .heads = 2, .q_rows = 1, .k_rows = 300,
     .head_dim = 80, .value_dim = 48},
    /* a plan with too few keys for slices */
    {SLICED, .heads = 2, .q_rows = 1, .k_rows = 256},
};

/* What is around the logits, whole and in slices. */
#define EACH_WAY(...) {WHOLE, __VA_ARGS__}, {SLICED, __VA_ARGS__}
static const attention_shape around[] = {
    EACH_WAY(.batch = 2, .heads = 4, .kv_heads = 2, .q_rows = 1, .k_rows = 521, .causal = true,
             .around = {.softcap = 3.0f, .sinks = true, .lse = true}),
    EACH_WAY(.heads = 4, .kv_heads = 2, .q_rows = 4, .k_rows = 521, .causal = true, OFFSET(-2),
             .around = {.sinks = true, .lse = true}, .poison = SHAPE_NAN_HIDDEN),
    EACH_WAY(.heads = 2, .q_rows = 4, .k_rows = 521, .causal = true, OFFSET(-2),
             .around = {.lse = true}),
    EACH_WAY(.heads = 2, .q_rows = 3, .k_rows = 700, .causal = true, .around = {.chunk = 300},
             .poison = SHAPE_NAN_HIDDEN),
    EACH_WAY(.heads = 2, .q_rows = 3, .k_rows = 700, .causal = true, WINDOW(50, 0),
             .around = {.kept_keys = 5}, .poison = SHAPE_NAN_HIDDEN),
    EACH_WAY(.heads = 2, .q_rows = 3, .k_rows = 1021, .causal = true, WINDOW(50, 0),
             .around = {.kept_keys = 300}, .poison = SHAPE_INF_HIDDEN),
    EACH_WAY(.batch = 2, .heads = 4, .kv_heads = 2, .q_rows = 2, .k_rows = 521,
             .around = {.mask = SHAPE_MASKED | 15, .lse = true}, .poison = SHAPE_NAN_HIDDEN),
    EACH_WAY(.batch = 2, .heads = 4, .kv_heads = 2, .q_rows = 2, .k_rows = 521,
             .around = {.mask = SHAPE_MASKED | 7, .lse = true, .dtype_mask = RHUMB_F16}),
    EACH_WAY(.batch = 2, .heads = 4, .kv_heads = 2, .q_rows = 2, .k_rows = 521,
             .around = {.row_scale = true}),
};

#define SCHEME(f, ...)                                                                             \
    {.family = (f), .variant = RHUMB_VARIANT_DECODE, .heads = 4, .kv_heads = 2, .q_rows = 2,       \
     .k_rows = 37, .head_dim = 16, .causal = true, __VA_ARGS__},                                   \
    {                                                                                              \
        .family = (f), .variant = RHUMB_VARIANT_DECODE, .batch = 2, .heads = 3, .q_rows = 2,       \
        .k_rows = 521, .head_dim = 16, .workspace = true, __VA_ARGS__                              \
    }
static const relative_shape schemes[] = {
    SCHEME(RELATIVE_T5, ),
    SCHEME(RELATIVE_T5_CAUSAL, .around = {.softcap = 2.0f}),
    SCHEME(RELATIVE_T5_GATED, .around = {.softcap = 2.0f, .bias_after = true}),
    SCHEME(RELATIVE_ALIBI, .poison = true),
    SCHEME(RELATIVE_ALIBI_INDEX, .around = {.sinks = true, .lse = true}),
    SCHEME(RELATIVE_ALIBI_LAST, .around = {.mask = SHAPE_MASKED | 8}),
};

/* The generic form in slices: absorbed MLA, and terms that meet Q, K and V. */
#define GENERIC .variant = RHUMB_VARIANT_GENERIC, .workspace = true
static const attention_shape generic[] = {
    {GENERIC, .heads = 2, .q_rows = 1, .k_rows = 257, .head_dim = 8},
    {GENERIC, .batch = 2, .heads = 5, .q_rows = 3, .k_rows = 1021, .head_dim = 21, .causal = true},
    {GENERIC, .batch = 2, .heads = 4, .kv_heads = 2, .q_rows = 5, .k_rows = 600, .head_dim = 8,
     .causal = true, OFFSET(254), .poison = SHAPE_NAN_HIDDEN},
    {GENERIC, .heads = 2, .q_rows = 4, .k_rows = 600, .head_dim = 8, .causal = true, OFFSET(-2)},
    {GENERIC, .heads = 2, .q_rows = 1, .k_rows = 1021, .head_dim = 8, .k_length = 300,
     .poison = SHAPE_INF_HIDDEN},
    {GENERIC, .heads = 2, .q_rows = 3, .k_rows = 1021, .head_dim = 8, .causal = true,
     WINDOW(50, 0), .around = {.kept_keys = 300}, .poison = SHAPE_INF_HIDDEN},
    {GENERIC, .batch = 3, .heads = 2, .q_rows = 3, .k_rows = 600, .head_dim = 8, .lengths = true,
     .lengths_beyond = true, .causal = true, .poison = SHAPE_NAN_HIDDEN},
    {GENERIC, .batch = 2, .heads = 4, .kv_heads = 2, .q_rows = 2, .k_rows = 521, .head_dim = 8,
     .around = {.softcap = 3.0f, .sinks = true, .lse = true, .mask = SHAPE_MASKED | 15}},
    {.workspace = true, .heads = 16, .kv_heads = 1, .q_rows = 1, .k_rows = 521, .head_dim = 576,
     .value_dim = 512, .causal = true},
    {.workspace = true, .dtype_k = RHUMB_F16, .dtype_v = RHUMB_F16, .heads = 16, .kv_heads = 1,
     .q_rows = 1, .k_rows = 300, .head_dim = 576, .value_dim = 512},
};

#define VECTORS(f)                                                                                 \
    {                                                                                              \
        .family = (f), .variant = RHUMB_VARIANT_GENERIC, .batch = 2, .heads = 2, .q_rows = 2,      \
        .k_rows = 521, .head_dim = 12, .causal = true, .workspace = true                           \
    }
static const relative_shape vectors[] = {
    VECTORS(RELATIVE_SHAW),
    VECTORS(RELATIVE_XLNET),
    VECTORS(RELATIVE_DEBERTA),
    VECTORS(RELATIVE_T5_GATED),
};

static void run_generic(harness_profile profile)
{
    harness h;
    harness_open(&h, profile);
    SHAPE_RUN_SOME(&h, shape_run_attention, generic, shape_step(profile, 3));
    SHAPE_RUN_SOME(&h, shape_run_relative, vectors, shape_step(profile, 3));
    harness_close(&h);
}

Test(decode, slices_of_the_generic_form_are_right_on_lavapipe)
{
    run_generic(HARNESS_LAVAPIPE);
}

Test(decode, slices_of_the_generic_form_are_right_on_the_smallest_device)
{
    run_generic(HARNESS_LAVAPIPE_FLOOR);
}

static void run_all(harness_profile profile)
{
    harness h;
    harness_open(&h, profile);
    SHAPE_RUN_SOME(&h, shape_run_attention, sliced, shape_step(profile, 3));
    SHAPE_RUN_SOME(&h, shape_run_attention, around, shape_step(profile, 3));
    SHAPE_RUN_SOME(&h, shape_run_relative, schemes, shape_step(profile, 3));
    harness_close(&h);
}

Test(decode, slices_masks_and_biases_are_right_on_lavapipe)
{
    run_all(HARNESS_LAVAPIPE);
}

Test(decode, slices_masks_and_biases_are_right_on_the_smallest_device)
{
    run_all(HARNESS_LAVAPIPE_FLOOR);
}

Test(decode, slices_masks_and_biases_are_right_on_swiftshader)
{
    run_all(HARNESS_SWIFTSHADER);
}

/* ---- The same bits */
typedef struct pair {
    attention_run a, b;
    rhumb_plan *plan;
} pair;

/* Two runs of one plan, that of the first shape. */
static bool run_pair(harness *h, pair *p, const char *what)
{
    rhumb_result result = shape_add_workspace(h, &p->a.op, 3, &p->a.workspace);
    harness_make_tensor(&p->b.workspace, RHUMB_F32, 1, 1, 1, p->a.workspace.count,
                        (harness_layout){0});
    (void)harness_add(&p->b.op, RHUMB_VIEW_WORKSPACE, &p->b.workspace, true);
    h->cases++;
    if (result != RHUMB_OK ||
        rhumb_create_plan(h->g->context, &p->a.op.info, &p->plan) != RHUMB_OK) {
        return harness_fail(h, "%s: %s", what, rhumb_last_message(h->g->context));
    }
    p->a.op.plan = p->b.op.plan = p->plan;
    return (gpu_run_operation(h->g, &p->a.op) == RHUMB_OK &&
            gpu_run_operation(h->g, &p->b.op) == RHUMB_OK) ||
           harness_fail(h, "%s: %s%s", what, p->a.op.message, p->b.op.message);
}

static void free_pair(pair *p)
{
    rhumb_destroy_plan(p->plan);
    shape_free_attention(&p->a);
    shape_free_attention(&p->b);
}

static const attention_shape bits = {.variant = RHUMB_VARIANT_DECODE, .batch = 3, .heads = 4,
                                     .kv_heads = 2, .q_rows = 1, .k_rows = 777, .head_dim = 64,
                                     .causal = true};

Test(decode, a_batch_entry_has_the_same_bits_alone_and_a_record_that_is_cut)
{
    attention_shape one = bits;
    pair p = {.plan = NULL};
    harness h;
    harness_open(&h, HARNESS_LAVAPIPE);
    one.batch = 1;
    shape_make_attention(&p.a, &bits, 9);
    shape_make_attention(&p.b, &one, 10);
    p.b.op.dispatch.max_flops = 1;
    memcpy(p.b.q.memory, p.a.q.memory + 2 * p.b.q.bytes, p.b.q.bytes);
    memcpy(p.b.k.memory, p.a.k.memory + 2 * p.b.k.bytes, p.b.k.bytes);
    memcpy(p.b.v.memory, p.a.v.memory + 2 * p.b.v.bytes, p.b.v.bytes);
    if (run_pair(&h, &p, "batch bits") &&
        memcmp(p.a.o.memory + 2 * p.b.o.bytes, p.b.o.memory, p.b.o.bytes) != 0) {
        (void)harness_fail(&h, "batch bits: batch entry 2 alone gives other bits");
    }
    free_pair(&p);
    harness_close(&h);
}

/* Key lengths of the record against keys that causal order hides: one slice against four. */
static void check_slice_bits(harness *h, rhumb_variant variant, uint32_t keys)
{
    attention_shape fewer = bits, hidden;
    pair p = {.plan = NULL};
    fewer.variant = variant;
    hidden = fewer;
    hidden.offset_given = true;
    hidden.q_offset = (int32_t)keys - 1;
    shape_make_attention(&p.a, &fewer, 9);
    shape_make_attention(&p.b, &hidden, 9);
    p.a.op.dispatch.k_length = (int32_t)keys;
    if (run_pair(h, &p, "slice bits") && memcmp(p.a.o.memory, p.b.o.memory, p.b.o.bytes) != 0) {
        (void)harness_fail(h, "slice bits: variant %d: %u keys give other bits than as many that "
                              "are visible", (int)variant, keys);
    }
    free_pair(&p);
}

Test(decode, the_number_of_slices_leaves_the_bits_alone)
{
    static const uint32_t lengths[] = {1, 200, 256, 257, 600};
    harness h;
    harness_open(&h, HARNESS_LAVAPIPE);
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        check_slice_bits(&h, RHUMB_VARIANT_DECODE, lengths[i]);
        check_slice_bits(&h, RHUMB_VARIANT_GENERIC, lengths[i]);
    }
    harness_close(&h);
}

/* ---- WORKSPACE */
static void begin(gpu_operation *op, uint32_t keys)
{
    gpu_init_operation(op, RHUMB_OP_ATTENTION);
    op->info.heads = 8;
    op->info.kv_heads = 1;
    op->info.head_dim = 64;
    op->info.value_dim = 32;
    op->info.max_q_length = 1;
    op->info.max_k_length = keys;
    op->info.views = RHUMB_VIEW_BIT(RHUMB_VIEW_Q) | RHUMB_VIEW_BIT(RHUMB_VIEW_K) |
                     RHUMB_VIEW_BIT(RHUMB_VIEW_V) | RHUMB_VIEW_BIT(RHUMB_VIEW_O) |
                     RHUMB_VIEW_BIT(RHUMB_VIEW_WORKSPACE);
}

/* 8 heads, 32 values, a maximum and a sum for each slice of 256 keys. */
Test(decode, workspace_is_as_long_as_there_are_slices)
{
    static const uint32_t keys[] = {256, 257, 512, 2048, 8192};
    static const uint64_t slices[] = {0, 2, 2, 8, 32}; /* one slice needs no second stage */
    harness h;
    harness_open(&h, HARNESS_LAVAPIPE);
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        rhumb_plan_properties properties;
        gpu_operation op;
        begin(&op, keys[i]);
        rhumb_init_plan_properties(&properties);
        cr_expect_eq(rhumb_query_plan(h.g->context, &op.info, &properties), RHUMB_OK, "%s",
                     rhumb_last_message(h.g->context));
        printf("decode: Lk %u: WORKSPACE %llu bytes; %s\n", keys[i],
               (unsigned long long)properties.workspace_size, properties.reason);
        cr_expect_eq(properties.variant, RHUMB_VARIANT_DECODE);
        cr_expect_eq(properties.workspace_size, slices[i] * 8 * (32 + 2) * 4);
        op.info.views &= ~RHUMB_VIEW_BIT(RHUMB_VIEW_WORKSPACE);
        cr_expect_eq(rhumb_query_plan(h.g->context, &op.info, &properties), RHUMB_OK);
        cr_expect_eq(properties.workspace_size, 0);
        h.cases++;
    }
    harness_close(&h);
}

Test(decode, a_workspace_that_is_too_small_or_no_f32_is_refused)
{
    attention_shape shape = bits;
    attention_run run;
    harness h;
    harness_open(&h, HARNESS_LAVAPIPE);
    shape_make_attention(&run, &shape, 1);
    cr_assert_eq(shape_add_workspace(&h, &run.op, 3, &run.workspace), RHUMB_OK);
    gpu_tensor *workspace = &run.op.tensors[run.op.tensor_count - 1];
    workspace->shape[3]--;
    harness_expect_refused(&h, &run.op, "too small", RHUMB_ERROR_ARGUMENT,
                           "attention: shape of WORKSPACE [n]: wanted [1, 1, 1, at least 3168]",
                           "3167", &run.o);
    workspace->shape[3]++;
    workspace->dtype = RHUMB_F16;
    harness_expect_refused(&h, &run.op, "f16", RHUMB_ERROR_ARGUMENT,
                           "attention: dtype of WORKSPACE: wanted f32", "found f16", &run.o);
    shape_free_attention(&run);
    harness_close(&h);
}

/* A bias takes few rows to the decode form; a term that meets Q or K does not. */
Test(decode, few_rows_with_a_bias_are_decoded)
{
    rhumb_alibi alibi;
    rhumb_t5 t5;
    gpu_operation op;
    rhumb_plan_properties properties;
    harness h;
    harness_open(&h, HARNESS_LAVAPIPE);
    rhumb_init_alibi(&alibi);
    rhumb_init_t5(&t5);
    rhumb_init_plan_properties(&properties);
    begin(&op, 4096);
    op.info.views &= ~RHUMB_VIEW_BIT(RHUMB_VIEW_WORKSPACE);
    op.info.scheme = &alibi;
    cr_expect_eq(rhumb_query_plan(h.g->context, &op.info, &properties), RHUMB_OK);
    cr_expect_eq(properties.variant, RHUMB_VARIANT_DECODE, "%s", properties.reason);
    op.info.scheme = &t5;
    op.info.views |= RHUMB_VIEW_BIT(RHUMB_VIEW_TABLE) | RHUMB_VIEW_BIT(RHUMB_VIEW_MASK);
    cr_expect_eq(rhumb_query_plan(h.g->context, &op.info, &properties), RHUMB_OK);
    cr_expect_eq(properties.variant, RHUMB_VARIANT_DECODE, "%s", properties.reason);
    h.cases++;
    harness_close(&h);
}
