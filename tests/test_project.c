/* PROJECT: tables made from embeddings, against sums in double; the chain that makes
 * Transformer-XL's tables; and what must be refused. Swin V2's network: test_continuous_bias.c. */
#include "shapes_project.h"

#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

#define COUNT(array) (sizeof(array) / sizeof(array)[0])
#define EPSILON 5.9604644775390625e-8 /* 2^-24: one rounding of a float */

#define ROWS .rows
#define HEADS .heads
#define DIM .head_dim
#define CHANNELS .channels
#define IN_OUT .in_out = true
#define OFFSET .offset = true
#define FOLD .fold = true
#define STORED(x, w, b, y)                                                                         \
    .x_dtype = RHUMB_##x, .weight_dtype = RHUMB_##w, .offset_dtype = RHUMB_##b,                    \
    .y_dtype = RHUMB_##y
#define ODD {.row_pad = 5, .offset = 3}
#define EVEN {.row_pad = 4, .offset = 8}
#define BY_ROWS {.by_rows = true, .row_pad = 3, .offset = 1}

static const project_shape table[] = {
    {ROWS = 1, HEADS = 1, DIM = 1, CHANNELS = 2},
    {ROWS = 1, HEADS = 1, DIM = 64, CHANNELS = 1024, OFFSET},
    {ROWS = 7, HEADS = 3, DIM = 41, CHANNELS = 410},
    {ROWS = 7, HEADS = 3, DIM = 41, CHANNELS = 410, IN_OUT},
    {ROWS = 131, HEADS = 12, DIM = 64, CHANNELS = 64, OFFSET},
    {ROWS = 131, HEADS = 12, DIM = 64, CHANNELS = 64, IN_OUT, OFFSET},
    {ROWS = 131, HEADS = 3, DIM = 1, CHANNELS = 2, OFFSET},
    {ROWS = 131, HEADS = 3, DIM = 1, CHANNELS = 2, IN_OUT},
    {ROWS = 7, HEADS = 12, DIM = 64, CHANNELS = 1024},
    {ROWS = 7, HEADS = 12, DIM = 64, CHANNELS = 1024, IN_OUT},
    {ROWS = 5, HEADS = 1, DIM = 576, CHANNELS = 37, OFFSET},
    {ROWS = 2, HEADS = 1, DIM = 3, CHANNELS = 32768},
    {ROWS = 2, HEADS = 1, DIM = 3, CHANNELS = 1},
    {ROWS = 4, HEADS = 1, DIM = 5, CHANNELS = 3, IN_OUT},
    /* fewer rows than there are */
    {ROWS = 131, HEADS = 3, DIM = 41, CHANNELS = 64, .q_length = 7},
    {ROWS = 131, HEADS = 3, DIM = 41, CHANNELS = 64, .q_length = 1, IN_OUT, FOLD},
    {ROWS = 7, HEADS = 3, DIM = 5, CHANNELS = 8, .q_length = 6, STORED(F16, F16, F16, F16)},
    /* the scalar beside the table */
    {ROWS = 7, HEADS = 3, DIM = 41, CHANNELS = 410, FOLD},
    {ROWS = 131, HEADS = 12, DIM = 64, CHANNELS = 64, OFFSET, FOLD},
    {ROWS = 131, HEADS = 1, DIM = 1, CHANNELS = 2, FOLD},
    {ROWS = 7, HEADS = 3, DIM = 41, CHANNELS = 64, FOLD, IN_OUT, STORED(F16, BF16, F16, BF16)},
    {ROWS = 7, HEADS = 3, DIM = 64, CHANNELS = 64, FOLD, STORED(F32, F16, F32, F16),
     .y_layout = BY_ROWS},
    /* dtypes; 16-bit rows that share words */
    {ROWS = 7, HEADS = 3, DIM = 41, CHANNELS = 410, OFFSET, STORED(F16, F16, F16, F16)},
    {ROWS = 7, HEADS = 3, DIM = 41, CHANNELS = 410, OFFSET, STORED(BF16, BF16, BF16, BF16)},
    {ROWS = 7, HEADS = 3, DIM = 41, CHANNELS = 410, OFFSET, STORED(F32, F16, BF16, F32)},
    {ROWS = 7, HEADS = 3, DIM = 64, CHANNELS = 64, OFFSET, STORED(F16, F32, F32, BF16)},
    {ROWS = 7, HEADS = 3, DIM = 64, CHANNELS = 64, IN_OUT, OFFSET, STORED(BF16, F16, F16, F16)},
    {ROWS = 7, HEADS = 3, DIM = 1, CHANNELS = 7, STORED(F16, F16, F16, F16), .y_layout = ODD},
    /* strides and offsets: vector accesses, and not */
    {ROWS = 7, HEADS = 3, DIM = 64, CHANNELS = 64, OFFSET, .x_layout = EVEN, .weight_layout = EVEN,
     .y_layout = ODD},
    {ROWS = 7, HEADS = 3, DIM = 64, CHANNELS = 64, OFFSET, .x_layout = ODD, .weight_layout = EVEN},
    {ROWS = 7, HEADS = 3, DIM = 64, CHANNELS = 66, .x_layout = {.row_pad = 2},
     .weight_layout = {.row_pad = 6}},
    {ROWS = 7, HEADS = 3, DIM = 64, CHANNELS = 64, .x_layout = EVEN, .weight_layout = ODD,
     .y_layout = BY_ROWS, STORED(F16, F16, F16, F16)},
    {ROWS = 7, HEADS = 3, DIM = 41, CHANNELS = 64, IN_OUT, .x_layout = ODD,
     .weight_layout = BY_ROWS, .y_layout = BY_ROWS, STORED(BF16, F16, F32, BF16)},
};

/* ------------------------------------------------------------------------------------------------
 * Transformer-XL: rows of sinusoids, one for each distance, through W_r
 */

/* Field test 17: two rows after one of memory, with the published numbers. The table is its own
 * embedding, since W is the identity; the fold stands for the position bias. */
static void check_published_logits(harness *h)
{
    static const double rows[6] = {1, 0, 0, 1, 1, 1}, identity[4] = {1, 0, 0, 1};
    static const double u[2] = {0.5, -0.5}, w[2] = {0.25, 0.75};
    static const double q[2][2] = {{1, 2}, {3, -1}}, k[3][2] = {{1, 0}, {0, 1}, {1, 1}};
    static const double want[2][3] = {{3.005204, 1.944544, 0}, {4.596194, -1.237437, 3.712311}};
    const project_shape s = {ROWS = 3, HEADS = 1, DIM = 2, CHANNELS = 2, FOLD};
    project_run run;
    shape_make_project(&run, &s);
    memcpy(run.x.values, rows, sizeof rows);
    memcpy(run.weight.values, identity, sizeof identity);
    memcpy(run.u.values, u, sizeof u);
    memcpy(run.w.values, w, sizeof w);
    harness_store(&run.x);
    harness_store(&run.weight);
    harness_store(&run.u);
    harness_store(&run.w);
    if (shape_project_on_device(h, &run, "field test")) {
        for (uint32_t a = 0; a < 2; a++) {
            for (uint32_t j = 0; j <= a + 1; j++) {
                uint32_t distance = a + 1 - j;
                double logit = run.scalar.values[distance];
                for (uint32_t d = 0; d < 2; d++) {
                    logit += (q[a][d] + u[d]) * (k[j][d] + run.y.values[2 * distance + d]);
                }
                logit /= sqrt(2.0);
                if (!(fabs(logit - want[a][j]) <= 1e-6)) {
                    harness_fail(h, "transformer_xl: row %u, key %u: got %.9g, want %.9g", a, j,
                                 logit, want[a][j]);
                }
            }
        }
    }
    shape_free_project(&run);
}

/* Sines, then cosines, of distances 0 to rows - 1. */
static void store_sinusoids(harness_tensor *x)
{
    uint64_t half = x->shape[3] / 2;
    for (uint64_t i = 0; i < x->count; i++) {
        uint64_t c = i % x->shape[3], row = i / x->shape[3];
        double angle = (double)row * pow(10000.0, -(double)(c % half) / (double)half);
        x->values[i] = c < half ? sin(angle) : cos(angle);
    }
    harness_store(x);
}

/* (q + u) . A + R is (q + w) . (W_r s) for the sinusoid s of each distance, all in double from the
 * weights on: the bound is that of the two sums, met by a query of ones. */
static void check_chain(harness *h)
{
    const project_shape s = {ROWS = 37, HEADS = 3, DIM = 41, CHANNELS = 410, FOLD};
    project_run run;
    shape_make_project(&run, &s);
    store_sinusoids(&run.x);
    if (shape_project_on_device(h, &run, "sinusoids")) {
        for (uint32_t i = 0; i < s.rows * s.heads; i++) {
            uint32_t row = i / s.heads, head = i % s.heads;
            double got = run.scalar.values[i], want = 0.0, bound = 0.0;
            for (uint32_t d = 0; d < s.head_dim; d++) {
                double u = run.u.values[head * s.head_dim + d];
                double w = run.w.values[head * s.head_dim + d], a = 0.0, size = 0.0;
                for (uint32_t c = 0; c < s.channels; c++) {
                    double product =
                        run.x.values[row * s.channels + c] *
                        run.weight.values[harness_index(&run.weight, 0, head, d, c)];
                    a += product;
                    size += fabs(product);
                }
                got += (1.0 + u) * run.y.values[harness_index(&run.y, 0, head, row, d)];
                want += (1.0 + w) * a;
                bound += (fabs(1.0 + u) + fabs(w - u)) * (s.channels + 1.0) * EPSILON * size +
                         fabs(w - u) * (s.head_dim + 2.0) * EPSILON * fabs(a);
            }
            if (!(fabs(got - want) <= bound)) {
                harness_fail(h, "transformer_xl: row %u, head %u: got %.9g, want %.9g, bound %.3g",
                             row, head, got, want, bound);
            }
        }
    }
    shape_free_project(&run);
}

static void run_profile(harness_profile profile)
{
    harness h;
    harness_open(&h, profile);
    for (size_t i = 0; i < COUNT(table); i++) {
        shape_run_project(&h, &table[i]);
    }
    check_published_logits(&h);
    check_chain(&h);
    harness_close(&h);
}

Test(project, lavapipe_agrees_with_sums_in_double)
{
    run_profile(HARNESS_LAVAPIPE);
}

Test(project, the_floor_agrees_with_sums_in_double)
{
    run_profile(HARNESS_LAVAPIPE_FLOOR);
}

Test(project, swiftshader_agrees_with_sums_in_double)
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
    void (*change)(gpu_operation *op, rhumb_swin_v2 *swin);
} attempt;

static gpu_tensor *tensor_of(gpu_operation *op, rhumb_view_id id)
{
    uint32_t i = 0;
    while (i + 1 < op->tensor_count && op->tensors[i].id != id) {
        i++;
    }
    return &op->tensors[i];
}

static void drop(gpu_operation *op, rhumb_view_id id)
{
    *tensor_of(op, id) = op->tensors[op->tensor_count - 1];
    op->tensor_count--;
}

#define VIEW(id) tensor_of(op, RHUMB_VIEW_##id)

/* X(name, change, code, start of the line, a part of it). Good: X [7, 8], W [3, 4, 8], b, fold. */
#define PROJECT_ROWS_OF(X)                                                                         \
    X(no_heads, op->info.heads = 0, ARGUMENT, "project: heads: ", "found 0")                       \
    X(no_head_size, op->info.head_dim = 0, ARGUMENT, "project: head_dim: ", "found 0")             \
    X(head_too_large, op->info.head_dim = 577, ARGUMENT, "project: head_dim: ", "found 577")       \
    X(no_channels, op->info.value_dim = 0, ARGUMENT, "project: value_dim: ", "found 0")            \
    X(channels_too_many, op->info.value_dim = 32769, ARGUMENT, "project: value_dim: ", "32769")    \
    X(no_rows, op->info.max_q_length = 0, ARGUMENT, "project: max_q_length: ", "found 0")          \
    X(unknown_layout, op->info.weight_layout = (rhumb_weight_layout)2, ARGUMENT,                   \
      "project: weight_layout: ", "found 2")                                                       \
    X(other_layout, op->info.weight_layout = RHUMB_WEIGHT_IN_OUT, ARGUMENT,                        \
      "project: shape of WEIGHT ", "wanted exactly 8 in shape[1], found 3")                             \
    X(unknown_variant, op->info.variant = RHUMB_VARIANT_DECODE, UNSUPPORTED, "project: variant: ", \
      "found 3")                                                                                   \
    X(rotary, op->info.rotary = swin, ARGUMENT, "project: rotary: ", "NULL")                       \
    X(no_table_scalar, drop(op, RHUMB_VIEW_TABLE_SCALAR), ARGUMENT,                                \
      "project: views: wanted all or none of TABLE_SCALAR", "found views")                         \
    X(no_content_bias, drop(op, RHUMB_VIEW_CONTENT_BIAS), ARGUMENT,                                \
      "project: views: wanted all or none of TABLE_SCALAR", "found views")                         \
    X(no_position_bias, drop(op, RHUMB_VIEW_POSITION_BIAS), ARGUMENT,                              \
      "project: views: wanted all or none of TABLE_SCALAR", "found views")                         \
    X(no_weight, drop(op, RHUMB_VIEW_WEIGHT), ARGUMENT, "project: views: wanted WEIGHT", "none")        \
    X(scalar_in_half, VIEW(TABLE_SCALAR)->dtype = RHUMB_F16, ARGUMENT,                             \
      "project: dtype of TABLE_SCALAR: wanted f32", "f16")                                         \
    X(integer_weight, VIEW(WEIGHT)->dtype = RHUMB_I32, ARGUMENT, "project: dtype of WEIGHT", "i32")     \
    X(embedding_of_other_channels, VIEW(Q)->shape[3] = 7, ARGUMENT, "project: shape of X ",        \
      "wanted exactly 8")                                                                          \
    X(weight_of_other_heads, VIEW(WEIGHT)->shape[1] = 2, ARGUMENT, "project: shape of WEIGHT ",         \
      "wanted exactly 3")                                                                          \
    X(offset_of_other_heads, VIEW(OFFSET)->shape[2] = 2, ARGUMENT, "project: shape of OFFSET ",         \
      "wanted exactly 3")                                                                          \
    X(result_of_other_rows, VIEW(Y)->shape[2] = 6, ARGUMENT, "project: shape of Y ",               \
      "wanted exactly 7")                                                                          \
    X(scalar_of_other_rows, VIEW(TABLE_SCALAR)->shape[2] = 6, ARGUMENT,                            \
      "project: shape of TABLE_SCALAR ", "wanted exactly 7")                                       \
    X(bias_of_other_size, VIEW(POSITION_BIAS)->shape[3] = 3, ARGUMENT,                             \
      "project: shape of POSITION_BIAS ", "wanted exactly 4")                                      \
    X(more_rows_than_planned, op->info.max_q_length = 6, LIMIT, "project: q_length: ", "found 7")  \
    X(length_beyond_the_views, op->dispatch.q_length = 8, LIMIT, "project: q_length: ", "found 8") \
    X(negative_length, op->dispatch.q_length = -1, ARGUMENT, "project: q_length: ", "found -1")    \
    X(causal, op->dispatch.causal = 1, ARGUMENT, "project: causal", "1")                           \
    X(length_of_keys, op->dispatch.k_length = 7, ARGUMENT, "project: causal", "7")                 \
    X(offset_of_rows, op->dispatch.q_offset = 1, ARGUMENT, "project: q_length, q_offset", "1")     \
    X(inverse, op->dispatch.inverse = 1, ARGUMENT, "project: q_length, q_offset, inverse", "1")    \
    X(scheme_without_a_network, op->info.scheme = &alibi, ARGUMENT, "project: scheme: ",           \
      "type 1013")                                                                                 \
    X(network_with_a_fold, op->info.scheme = swin, ARGUMENT, "project: views: swin_v2", "found")

static rhumb_alibi alibi;

#define DEFINE(name, act, code, start, found)                                                      \
    static void bad_##name(gpu_operation *op, rhumb_swin_v2 *swin)                                 \
    {                                                                                              \
        (void)op;                                                                                  \
        (void)swin;                                                                                \
        act;                                                                                       \
    }
#define ROW(name, act, code, start, found) {#name, RHUMB_ERROR_##code, start, found, bad_##name},

PROJECT_ROWS_OF(DEFINE)

static const attempt bad_projections[] = {PROJECT_ROWS_OF(ROW)};

Test(project, bad_input_is_refused_with_its_numbers_and_writes_nothing)
{
    static const project_shape good = {ROWS = 7, HEADS = 3, DIM = 4, CHANNELS = 8, OFFSET, FOLD};
    harness h;
    rhumb_swin_v2 swin;
    rhumb_init_swin_v2(&swin);
    swin.window[0] = swin.window[1] = 3;
    rhumb_init_alibi(&alibi);
    harness_open(&h, HARNESS_LAVAPIPE);
    shape_run_project(&h, &good);
    for (size_t i = 0; i < COUNT(bad_projections); i++) {
        project_run run;
        shape_make_project(&run, &good);
        const attempt *a = &bad_projections[i];
        a->change(&run.op, &swin);
        harness_expect_refused(&h, &run.op, a->name, a->code, a->start, a->found, &run.y);
        shape_free_project(&run);
    }
    harness_close(&h);
}
