#include "shapes_kerple.h"

#include "reference/reference.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define UNIT 5.9604644775390625e-8 /* 2^-24 */
#define COUNT(array) (sizeof(array) / sizeof(array)[0])
#define REFUSED "the reference refuses a shape"

/* ---- Making */
static void make_positions(kerple_run *run)
{
    const kerple_shape *s = &run->s;
    run->queries = harness_alloc((size_t)s->batch * s->q_rows, sizeof *run->queries);
    run->keys = harness_alloc((size_t)s->batch * s->k_rows, sizeof *run->keys);
    ref_arange(s->batch, s->q_rows, s->q_offset, run->queries);
    ref_arange(s->batch, s->k_rows, 0, run->keys);
    if (s->positions == SHAPE_ARANGE)
        return;
    shape_fill_positions(s->positions, 3, s->batch, s->q_rows, run->queries);
    shape_fill_positions(s->positions, 7, s->batch, s->k_rows, run->keys);
    shape_add_positions(&run->op, RHUMB_VIEW_POSITIONS_Q, &run->positions_q, run->queries, s->batch,
                        s->q_rows);
    shape_add_positions(&run->op, RHUMB_VIEW_POSITIONS_K, &run->positions_k, run->keys, s->batch,
                        s->k_rows);
}

/* r1 from 0.01 to 10, r2 from 1e-4 to 1e4: nearly a line, and a step at the first distance. */
static void make_table(kerple_run *run, harness_random *r)
{
    const kerple_shape *s = &run->s;
    harness_make_tensor(&run->table, s->table_dtype, 1, 1, 2, s->heads, s->table_layout);
    for (uint32_t h = 0; h < s->heads; h++) {
        run->table.values[h] = pow(10.0, harness_uniform(r, -2.0, 1.0));
        run->table.values[s->heads + h] = pow(10.0, harness_uniform(r, -4.0, 4.0));
    }
    harness_store(&run->table);
    (void)harness_add(&run->op, RHUMB_VIEW_TABLE, &run->table, false);
    run->kerple = (ref_kerple){s->heads, run->table.values, run->table.values + s->heads};
    harness_need(ref_kerple_terms(&run->kerple, &run->terms) == 0, REFUSED);
}

static void make_input(kerple_run *run, rhumb_view_id id, harness_tensor *t, uint32_t heads,
                       uint32_t rows, harness_random *r)
{
    const kerple_shape *s = &run->s;
    harness_make_tensor(t, s->dtype, s->batch, heads, rows, s->head_dim, s->layout);
    if (s->op != RHUMB_OP_BIAS)
        harness_fill_normal(t, r);
    harness_store(t);
    if (s->op == RHUMB_OP_ATTENTION || (s->op == RHUMB_OP_SCORES && id != RHUMB_VIEW_V))
        (void)harness_add(&run->op, id, t, false);
}

void shape_make_kerple(kerple_run *run, const kerple_shape *shape)
{
    harness_random r = {.state = 11 + shape->heads + 31 * shape->q_rows + 1009 * shape->k_rows};
    memset(run, 0, sizeof *run);
    run->s = *shape;
    kerple_shape *s = &run->s;
    s->batch = s->batch ? s->batch : 1;
    s->kv_heads = s->kv_heads ? s->kv_heads : s->heads;
    s->q_offset = s->offset_given ? s->q_offset : (int32_t)s->k_rows - (int32_t)s->q_rows;
    rhumb_init_kerple(&run->scheme);
    gpu_init_operation(&run->op, s->op);
    run->op.info.scheme = &run->scheme;
    run->op.info.variant = s->variant;
    run->op.info.heads = s->heads;
    run->op.info.kv_heads = s->kv_heads;
    run->op.info.head_dim = s->head_dim;
    run->op.info.max_q_length = s->q_rows;
    run->op.info.max_k_length = s->k_rows;
    run->op.dispatch.causal = s->causal;
    if (s->offset_given)
        run->op.dispatch.q_offset = s->q_offset;
    make_table(run, &r);
    make_positions(run);
    make_input(run, RHUMB_VIEW_Q, &run->q, s->heads, s->q_rows, &r);
    make_input(run, RHUMB_VIEW_K, &run->k, s->kv_heads, s->k_rows, &r);
    make_input(run, RHUMB_VIEW_V, &run->v, s->kv_heads, s->k_rows, &r);
    harness_make_tensor(&run->o, s->dtype, s->batch, s->heads, s->q_rows,
                        s->op == RHUMB_OP_ATTENTION ? s->head_dim : s->k_rows, s->layout);
    (void)harness_add(&run->op, RHUMB_VIEW_O, &run->o, true);
}

/* WORKSPACE as large as the plan asks for. */
static rhumb_result run_device(harness *h, kerple_run *run)
{
    if (run->s.variant == RHUMB_VARIANT_UNFUSED) {
        float unused;
        (void)gpu_add_tensor(&run->op, RHUMB_VIEW_WORKSPACE, RHUMB_F32, 1, 1, 1, 1, NULL, &unused);
        rhumb_result result = gpu_query_operation(h->g, &run->op);
        if (result != RHUMB_OK)
            return result;
        run->op.tensor_count--;
        harness_make_tensor(&run->workspace, RHUMB_F32, 1, 1, 1,
                            run->op.properties.workspace_size / 4 * run->s.batch,
                            (harness_layout){0});
        (void)harness_add(&run->op, RHUMB_VIEW_WORKSPACE, &run->workspace, true);
    }
    return harness_run(h, &run->op);
}

void shape_free_kerple(kerple_run *run)
{
    harness_tensor *const all[] = {&run->q,           &run->k,          &run->v,
                                   &run->o,           &run->table,      &run->workspace,
                                   &run->positions_q, &run->positions_k};
    for (size_t i = 0; i < COUNT(all); i++)
        harness_free_tensor(all[i]);
    free(run->queries);
    free(run->keys);
}

/* ---- Reference */
typedef struct answers {
    double *scores, *lse, *o;
    double *errors; /* of the scores */
} answers;

static void attend(const kerple_run *run, answers *a)
{
    const kerple_shape *s = &run->s;
    ref_attention t;
    ref_attention_init(&t, s->batch, s->heads, s->q_rows, s->k_rows, s->head_dim);
    t.kv_heads = s->kv_heads;
    t.causal = s->causal;
    t.order = s->positions == SHAPE_ARANGE ? REF_ORDER_INDEX : REF_ORDER_POSITION;
    t.q_offset = s->q_offset;
    t.positions_q = run->queries;
    t.positions_k = run->keys;
    t.terms = &run->terms;
    t.q = run->q.values;
    t.k = run->k.values;
    t.v = run->v.values;
    t.o = a->o;
    t.lse = a->lse;
    t.scores = a->scores;
    harness_need(ref_attend(&t) == 0, REFUSED);
}

static double steps(double terms)
{
    double walk = 6.0 * sqrt(terms);
    return terms < walk ? terms : walk;
}

static int64_t distance(const kerple_run *run, uint32_t b, uint32_t a, uint32_t j)
{
    return (int64_t)run->keys[b * run->s.k_rows + j] - run->queries[b * run->s.q_rows + a];
}

/* What the header promises of the bias; products with a sum as long as the head, by their sizes;
 * scale and the last sum. */
static double score_error(const kerple_run *run, uint32_t b, uint32_t h, uint32_t a, uint32_t j)
{
    const kerple_shape *s = &run->s;
    uint32_t kv = h / (s->heads / s->kv_heads);
    double logarithm = log1p(run->kerple.r2[h] * fabs((double)distance(run, b, a, j)));
    double bias = run->kerple.r1[h] * logarithm, products = 0.0;
    for (uint32_t d = 0; d < s->head_dim; d++)
        products += fabs(run->q.values[harness_index(&run->q, b, h, a, d)] *
                         run->k.values[harness_index(&run->k, b, kv, j, d)]);
    products /= sqrt((double)s->head_dim);
    double error = 12.0 * UNIT * run->kerple.r1[h] * (1.0 + logarithm);
    if (s->op != RHUMB_OP_BIAS)
        error += (steps(s->head_dim) + 8.0) * UNIT * products + 2.0 * UNIT * bias;
    return error;
}

/* Of a row of ATTENTION's outputs. A score's error e moves an output by P e (|v| + |O|); exp is
 * within (3 + 2 |x|) ulp, its argument rounded; sums over keys, a quotient and a product. */
static void row_bound(const kerple_run *run, const answers *all, uint64_t row, double *bound)
{
    const kerple_shape *s = &run->s;
    uint32_t a = (uint32_t)(row % s->q_rows), h = (uint32_t)(row / s->q_rows % s->heads);
    uint32_t b = (uint32_t)(row / s->q_rows / s->heads), kv = h / (s->heads / s->kv_heads);
    const double *scores = all->scores + row * s->k_rows, *o = all->o + row * s->head_dim;
    double low = (double)INFINITY, high = -(double)INFINITY;
    for (uint32_t j = 0; j < s->k_rows; j++)
        if (!s->causal || distance(run, b, a, j) <= 0) {
            low = fmin(low, scores[j]);
            high = fmax(high, scores[j]);
        }
    double range = high > low ? fmin(high - low, 150.0) : 0.0;
    double relative = (4.0 * (3.0 + 3.0 * range) + 2.0 * steps(s->k_rows) + 4.0) * UNIT;
    for (uint32_t j = 0; j < s->k_rows; j++)
        if (!s->causal || distance(run, b, a, j) <= 0) {
            double p = exp(scores[j] - all->lse[row]);
            double error = p * (all->errors[row * s->k_rows + j] + relative);
            for (uint32_t d = 0; d < s->head_dim; d++)
                bound[d] +=
                    error * (fabs(run->v.values[harness_index(&run->v, b, kv, j, d)]) + fabs(o[d]));
        }
}

/* ---- Comparison */
static bool check_run(harness *h, kerple_run *run, const char *text)
{
    const kerple_shape *s = &run->s;
    uint64_t rows = (uint64_t)s->batch * s->heads * s->q_rows, scores = rows * s->k_rows;
    answers all = {harness_alloc(scores, sizeof(double)), harness_alloc(rows, sizeof(double)),
                   harness_alloc(rows * s->head_dim, sizeof(double)),
                   harness_alloc(scores, sizeof(double))};
    double *bound = harness_alloc(run->o.count, sizeof *bound);
    attend(run, &all);
    for (uint64_t i = 0; i < scores; i++) {
        uint64_t row = i / s->k_rows;
        all.errors[i] = score_error(run, (uint32_t)(row / s->q_rows / s->heads),
                                    (uint32_t)(row / s->q_rows % s->heads),
                                    (uint32_t)(row % s->q_rows), (uint32_t)(i % s->k_rows));
    }
    bool outputs = s->op == RHUMB_OP_ATTENTION;
    const double *want = outputs ? all.o : all.scores;
    for (uint64_t i = 0; outputs && i < rows; i++)
        row_bound(run, &all, i, bound + i * s->head_dim);
    for (uint64_t i = 0; i < run->o.count; i++) {
        bound[i] += outputs ? 0.0 : all.errors[i];
        bound[i] += harness_rounding(s->dtype, fabs(want[i]) + bound[i]);
    }
    harness_load(&run->o);
    bool passed = harness_compare(h, "kerple", text, &run->o, want, bound, NULL);
    free(all.scores);
    free(all.lse);
    free(all.o);
    free(all.errors);
    free(bound);
    return passed;
}

bool shape_run_kerple(harness *h, const kerple_shape *s)
{
    static kerple_run run;
    char text[128];
    shape_make_kerple(&run, s);
    snprintf(text, sizeof text, "op %d, %u heads, %u x %u, D %u, %s", (int)s->op, s->heads,
             s->q_rows, s->k_rows, s->head_dim, harness_dtype_name(s->dtype));
    if (s->variant == RHUMB_VARIANT_UNFUSED)
        run.op.info.views |= RHUMB_VIEW_BIT(RHUMB_VIEW_WORKSPACE);
    if (!harness_wants(h, &run.op)) {
        shape_free_kerple(&run);
        return true;
    }
    h->cases++;
    bool passed = run_device(h, &run) == RHUMB_OK ||
                  harness_fail(h, "kerple: %s: %s", text, run.op.message);
    passed = passed && check_run(h, &run, text);
    shape_free_kerple(&run);
    return passed;
}
