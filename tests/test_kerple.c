/* kerple on every profile: BIAS, SCORES and ATTENTION against the reference, in every dtype and
 * layout, at near and far distances, by index and by positions; and what is refused. */
#include "shapes_kerple.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COUNT(array) (sizeof(array) / sizeof(array)[0])

#define BIAS .op = RHUMB_OP_BIAS, .head_dim = 1
#define SCORES .op = RHUMB_OP_SCORES
#define ATTENTION .op = RHUMB_OP_ATTENTION
#define F16 .dtype = RHUMB_F16
#define BF16 .dtype = RHUMB_BF16
#define OFFSET(n) .offset_given = true, .q_offset = (n)
#define ODD                                                                                        \
    {                                                                                              \
        .row_pad = 3, .offset = 1                                                                  \
    }

static const kerple_shape shapes[] = {
    {BIAS, .heads = 8, .q_rows = 64, .k_rows = 256},
    {BIAS, .heads = 12, .q_rows = 31, .k_rows = 67},
    {BIAS, .heads = 1, .q_rows = 1, .k_rows = 1},
    {BIAS, .heads = 3, .q_rows = 17, .k_rows = 5},
    {BIAS, .heads = 300, .q_rows = 2, .k_rows = 9},
    {BIAS, .heads = 3, .q_rows = 7, .k_rows = 41, OFFSET(-100)},
    {BIAS, .heads = 5, .q_rows = 7, .k_rows = 41, OFFSET(1000000000)},
    {BIAS, .heads = 3, .q_rows = 9, .k_rows = 33, .positions = SHAPE_JUMPS},
    {BIAS, .heads = 3, .q_rows = 9, .k_rows = 32, .positions = SHAPE_NEGATIVE},
    {BIAS, .heads = 7, .q_rows = 5, .k_rows = 36, F16, .table_dtype = RHUMB_F16},
    {BIAS, .heads = 7, .q_rows = 5, .k_rows = 37, BF16, .table_dtype = RHUMB_BF16, .layout = ODD},
    {BIAS, .heads = 7, .q_rows = 5, .k_rows = 37, .layout = ODD, .table_layout = ODD},
    {SCORES, .batch = 3, .heads = 3, .q_rows = 13, .k_rows = 31, .head_dim = 7},
    {SCORES, .heads = 6, .kv_heads = 2, .q_rows = 1, .k_rows = 257, .head_dim = 64},
    {SCORES, .heads = 2, .q_rows = 1, .k_rows = 1, .head_dim = 8},
    {SCORES, .heads = 2, .q_rows = 9, .k_rows = 23, .head_dim = 24, F16, .layout = ODD},
    {SCORES, .heads = 2, .q_rows = 9, .k_rows = 23, .head_dim = 12, .positions = SHAPE_JUMPS},
    {ATTENTION, .batch = 2, .heads = 4, .kv_heads = 2, .q_rows = 21, .k_rows = 45, .head_dim = 16,
     .causal = true},
    {ATTENTION, .heads = 3, .q_rows = 13, .k_rows = 131, .head_dim = 7},
    {ATTENTION, .heads = 2, .q_rows = 1, .k_rows = 300, .head_dim = 32, .causal = true, BF16,
     .table_dtype = RHUMB_BF16},
    {ATTENTION, .batch = 2, .heads = 2, .q_rows = 9, .k_rows = 33, .head_dim = 8, F16,
     .layout = {.by_rows = true}, .table_layout = ODD},
    {ATTENTION, .heads = 2, .q_rows = 9, .k_rows = 33, .head_dim = 8, OFFSET(500)},
    {ATTENTION, .heads = 2, .q_rows = 21, .k_rows = 45, .head_dim = 16, .causal = true,
     .variant = RHUMB_VARIANT_GENERIC},
    {ATTENTION, .heads = 2, .q_rows = 21, .k_rows = 45, .head_dim = 16, .causal = true,
     .variant = RHUMB_VARIANT_TILE},
    {ATTENTION, .heads = 2, .q_rows = 3, .k_rows = 45, .head_dim = 16, .causal = true,
     .variant = RHUMB_VARIANT_DECODE},
    {ATTENTION, .heads = 2, .q_rows = 21, .k_rows = 45, .head_dim = 16, .causal = true,
     .variant = RHUMB_VARIANT_UNFUSED},
};

static void run_shapes(harness_profile profile)
{
    harness h;
    harness_open(&h, profile);
    for (size_t i = 0; i < COUNT(shapes); i++)
        (void)shape_run_kerple(&h, &shapes[i]);
    harness_close(&h);
}

Test(kerple, bias_scores_and_attention_are_the_reference_s_on_lavapipe)
{
    run_shapes(HARNESS_LAVAPIPE);
}

Test(kerple, bias_scores_and_attention_are_the_reference_s_on_the_smallest_device)
{
    run_shapes(HARNESS_LAVAPIPE_FLOOR);
}

Test(kerple, bias_scores_and_attention_are_the_reference_s_on_swiftshader)
{
    run_shapes(HARNESS_SWIFTSHADER);
}

/* ---- Refusals: a run of 2 heads, 4 rows and 8 keys, changed before it is run */
typedef struct refusal {
    const char *name;
    rhumb_op op;
    void (*change)(kerple_run *run);
    rhumb_result code;
    const char *start;
    const char *found;
} refusal;

static gpu_tensor *tensor_of(kerple_run *run, rhumb_view_id id)
{
    for (uint32_t i = 0; i < run->op.tensor_count; i++)
        if (run->op.tensors[i].id == id)
            return &run->op.tensors[i];
    cr_assert(false, "no tensor of view %u", (unsigned)id);
    return NULL;
}

static void drop_table(kerple_run *run)
{
    gpu_tensor *t = tensor_of(run, RHUMB_VIEW_TABLE);
    *t = run->op.tensors[--run->op.tensor_count];
}

static void one_row(kerple_run *run)
{
    tensor_of(run, RHUMB_VIEW_TABLE)->shape[2] = 1;
}

static void a_head_less(kerple_run *run)
{
    tensor_of(run, RHUMB_VIEW_TABLE)->shape[3] = 1;
}

static void row_scale(kerple_run *run)
{
    static float gate[8];
    (void)gpu_add_tensor(&run->op, RHUMB_VIEW_ROW_SCALE, RHUMB_F32, 1, 1, 2, 4, gate, NULL);
}

static void vectors(kerple_run *run)
{
    static float rows[16];
    (void)gpu_add_tensor(&run->op, RHUMB_VIEW_QUERY_TABLE, RHUMB_F32, 1, 1, 2, 4, rows, NULL);
}

static void longer_struct(kerple_run *run)
{
    run->scheme.struct_size += 8;
}

static void extension(kerple_run *run)
{
    run->scheme.next = &run->scheme;
}

static void unfused(kerple_run *run)
{
    run->op.info.variant = RHUMB_VARIANT_UNFUSED;
}

static const refusal refusals[] = {
    {"no table", RHUMB_OP_BIAS, drop_table, RHUMB_ERROR_ARGUMENT, "kerple: views: wanted TABLE",
     "found none"},
    {"no table", RHUMB_OP_SCORES, drop_table, RHUMB_ERROR_ARGUMENT, "kerple: views: wanted TABLE",
     "found none"},
    {"one row", RHUMB_OP_BIAS, one_row, RHUMB_ERROR_ARGUMENT, "bias: shape of TABLE",
     "wanted rows 2 in shape[2], found 1"},
    {"one row", RHUMB_OP_SCORES, one_row, RHUMB_ERROR_ARGUMENT, "scores: shape of TABLE",
     "wanted rows 2 in shape[2], found 1"},
    {"a head less", RHUMB_OP_BIAS, a_head_less, RHUMB_ERROR_ARGUMENT, "bias: shape of TABLE",
     "wanted heads 2 in shape[3], found 1"},
    {"gate", RHUMB_OP_SCORES, row_scale, RHUMB_ERROR_ARGUMENT, "kerple: views: ROW_SCALE",
     "no view of this scheme"},
    {"vectors", RHUMB_OP_SCORES, vectors, RHUMB_ERROR_ARGUMENT, "kerple: views: QUERY_TABLE",
     "no view of this scheme"},
    {"longer struct", RHUMB_OP_BIAS, longer_struct, RHUMB_ERROR_VERSION, "kerple: ", "struct_size"},
    {"extension", RHUMB_OP_BIAS, extension, RHUMB_ERROR_VERSION, "kerple: ", "next"},
    {"no workspace", RHUMB_OP_ATTENTION, unfused, RHUMB_ERROR_ARGUMENT,
     "attention: views: wanted WORKSPACE", "found none"},
};

Test(kerple, each_bad_use_is_refused_with_its_numbers)
{
    static harness h;
    static kerple_run run;
    harness_open(&h, HARNESS_LAVAPIPE);
    for (size_t i = 0; i < COUNT(refusals); i++) {
        const refusal *x = &refusals[i];
        const kerple_shape s = {.op = x->op, .heads = 2, .q_rows = 4, .k_rows = 8, .head_dim = 4};
        shape_make_kerple(&run, &s);
        x->change(&run);
        harness_expect_refused(&h, &run.op, x->name, x->code, x->start, x->found, &run.o);
        shape_free_kerple(&run);
    }
    harness_close(&h);
}

Test(kerple, its_table_has_two_rows_and_none_of_them_is_of_a_distance)
{
    static harness h;
    static kerple_run run;
    const kerple_shape s = {BIAS, .heads = 2, .q_rows = 4, .k_rows = 8};
    const int32_t delta = 1;
    int32_t row = 77;
    harness_open(&h, HARNESS_LAVAPIPE);
    shape_make_kerple(&run, &s);
    h.cases++;
    cr_expect_eq(gpu_query_operation(h.g, &run.op), RHUMB_OK, "%s", run.op.message);
    cr_expect_eq(run.op.properties.table_rows, 2);
    cr_expect_eq(run.op.properties.table_zero, 0);
    cr_expect_eq(rhumb_relative_rows(&run.scheme, 4, 8, &delta, 1, &row), RHUMB_ERROR_UNSUPPORTED);
    cr_expect_eq(row, 77);
    cr_expect_not_null(strstr(rhumb_last_message(NULL), "found kerple"));
    shape_free_kerple(&run);
    harness_close(&h);
}
