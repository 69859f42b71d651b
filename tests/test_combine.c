/* COMBINE: parts of attention merged by their LSE, against the definition in double; attention whose
 * keys a host has split, against attention over all of them; and what cannot be merged. */
#include "shapes.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define UNIT 5.9604644775390625e-8
#define LOG2_E 1.4426950408889634
#define F16 .dtype = RHUMB_F16, .dtype_o = RHUMB_F16
#define BF16 .dtype = RHUMB_BF16, .dtype_o = RHUMB_BF16
#define ODD {.row_pad = 3, .offset = 1}

typedef struct combine_shape {
    uint32_t batch; /* 0: 1 */
    uint32_t heads;
    uint32_t rows;
    uint32_t value_dim;
    uint32_t parts;
    rhumb_dtype dtype;   /* of PARTS */
    rhumb_dtype dtype_o;
    harness_layout layout;
    bool lse;            /* LSE is written */
    double spread;       /* of PART_LSE; 0: 3 */
    double around;       /* what PART_LSE lies around */
    uint32_t empty;      /* of n parts one has no keys, and NaN in PARTS; 0: none */
    bool empty_row;      /* no part of the last row has keys */
    uint32_t q_length;   /* 0: all rows */
} combine_shape;

static const combine_shape table[] = {
    {.heads = 1, .rows = 1, .value_dim = 1, .parts = 1, .lse = true},
    {.heads = 2, .rows = 3, .value_dim = 64, .parts = 2, .lse = true},
    {.batch = 3, .heads = 5, .rows = 7, .value_dim = 31, .parts = 3, .lse = true, .empty = 4},
    {.batch = 2, .heads = 8, .rows = 1, .value_dim = 128, .parts = 13, .lse = true, .empty = 3,
     .empty_row = true},
    {.heads = 3, .rows = 5, .value_dim = 64, .parts = 1, .lse = true, .empty_row = true},
    {.heads = 3, .rows = 5, .value_dim = 576, .parts = 7, .lse = true},
    {.heads = 3, .rows = 11, .value_dim = 33, .parts = 4, .layout = ODD, .empty = 5},
    {.heads = 3, .rows = 5, .value_dim = 64, .parts = 101, .lse = true, .empty = 2},
    {.heads = 3, .rows = 5, .value_dim = 64, .parts = 5, .lse = true, .spread = 100.0},
    {.heads = 3, .rows = 5, .value_dim = 64, .parts = 5, .lse = true, .around = 30000.0},
    {.heads = 3, .rows = 5, .value_dim = 64, .parts = 5, .lse = true, .around = -1e30,
     .empty = 3},
    {.batch = 2, .heads = 3, .rows = 5, .value_dim = 63, .parts = 5, .lse = true, .q_length = 2},
    {F16, .batch = 2, .heads = 3, .rows = 5, .value_dim = 63, .parts = 3, .lse = true, .empty = 3},
    {F16, .heads = 3, .rows = 5, .value_dim = 21, .parts = 3, .layout = ODD, .empty_row = true},
    {BF16, .heads = 2, .rows = 5, .value_dim = 80, .parts = 3, .empty = 3},
    {.dtype_o = RHUMB_F16, .heads = 2, .rows = 5, .value_dim = 63, .parts = 3},
};

typedef struct combine_run {
    combine_shape s;
    gpu_operation op;
    harness_tensor parts, part_lse, o, lse;
} combine_run;

static void make_combine(combine_run *r, const combine_shape *shape, uint64_t seed)
{
    harness_random random = {.state = seed};
    memset(r, 0, sizeof *r);
    r->s = *shape;
    combine_shape *s = &r->s;
    s->batch = s->batch != 0 ? s->batch : 1;
    uint64_t entries = (uint64_t)s->parts * s->batch;
    gpu_init_operation(&r->op, RHUMB_OP_COMBINE);
    r->op.info.heads = s->heads;
    r->op.info.value_dim = s->value_dim;
    r->op.info.max_q_length = s->rows;
    if (s->q_length != 0) {
        r->op.dispatch.q_length = (int32_t)s->q_length;
    }
    harness_make_tensor(&r->parts, s->dtype, entries, s->heads, s->rows, s->value_dim, s->layout);
    harness_make_tensor(&r->part_lse, RHUMB_F32, 1, entries, s->heads, s->rows, s->layout);
    harness_make_tensor(&r->o, s->dtype_o, s->batch, s->heads, s->rows, s->value_dim, s->layout);
    harness_make_tensor(&r->lse, RHUMB_F32, 1, s->batch, s->heads, s->rows, s->layout);
    harness_fill_normal(&r->parts, &random);
    for (uint64_t i = 0; i < r->part_lse.count; i++) {
        bool none = (s->empty != 0 && harness_next(&random) % s->empty == 0) ||
                    (s->empty_row && i % s->rows == s->rows - 1);
        double spread = s->spread != 0.0 ? s->spread : 3.0;
        r->part_lse.values[i] =
            none ? -(double)INFINITY : s->around + spread * harness_normal(&random);
        for (uint64_t d = 0; none && d < s->value_dim; d++) {
            r->parts.values[i * s->value_dim + d] = (double)NAN;
        }
    }
    harness_store(&r->parts);
    harness_store(&r->part_lse);
    (void)harness_add(&r->op, RHUMB_VIEW_PARTS, &r->parts, false);
    (void)harness_add(&r->op, RHUMB_VIEW_PART_LSE, &r->part_lse, false);
    (void)harness_add(&r->op, RHUMB_VIEW_O, &r->o, true);
    if (s->lse) {
        (void)harness_add(&r->op, RHUMB_VIEW_LSE, &r->lse, true);
    }
}

static void free_combine(combine_run *r)
{
    harness_free_tensor(&r->parts);
    harness_free_tensor(&r->part_lse);
    harness_free_tensor(&r->o);
    harness_free_tensor(&r->lse);
}

static double rounding_steps(double terms)
{
    double walk = 6.0 * sqrt(terms);
    return terms < walk ? terms : walk;
}

/* Of row i of O. u = 2^-24, x the log2 of a weight, X the largest |x| that counts (beyond 150 a
 * weight is below the smallest float). A weight: the difference of two LSE, the product with
 * log2(e) and that number are rounded, 3 u X; exp2 is within (3 + 2 X) ulp of 2 u. The denominator
 * likewise, sums of P terms twice, a quotient and a product 7 u.
 * LSE: the denominator's relative error; log2 is within 2^-21 in [1/2, 2] and 3 ulp elsewhere; two
 * products and a sum. */
static void row_of(const combine_run *r, uint64_t i, double *o, double *bound, double *lse,
                   double *lse_bound)
{
    const combine_shape *s = &r->s;
    const uint64_t rows = (uint64_t)s->batch * s->heads * s->rows;
    double top = -(double)INFINITY, sum = 0.0, range = 0.0;
    for (uint32_t p = 0; p < s->parts; p++) {
        top = fmax(top, r->part_lse.values[p * rows + i]);
    }
    for (uint32_t d = 0; d < s->value_dim; d++) {
        o[d] = bound[d] = 0.0;
    }
    *lse = top;
    *lse_bound = 0.0;
    if (isinf(top)) {
        return;
    }
    for (uint32_t p = 0; p < s->parts; p++) {
        double x = r->part_lse.values[p * rows + i] - top;
        if (isinf(x)) {
            continue;
        }
        range = fmax(range, fmin(-x * LOG2_E, 150.0));
        sum += exp(x);
        for (uint32_t d = 0; d < s->value_dim; d++) {
            double v = r->parts.values[(p * rows + i) * s->value_dim + d];
            o[d] += exp(x) * v;
            bound[d] += exp(x) * fabs(v);
        }
    }
    double weight = (3.0 * range + 2.0 * (3.0 + 2.0 * range)) * UNIT;
    double adding = rounding_steps(s->parts) * UNIT;
    for (uint32_t d = 0; d < s->value_dim; d++) {
        o[d] /= sum;
        bound[d] = (bound[d] / sum + fabs(o[d])) * (weight + adding) + 7.0 * UNIT * fabs(o[d]);
        bound[d] += harness_rounding(s->dtype_o, fabs(o[d]) + bound[d]);
    }
    *lse = top + log(sum);
    *lse_bound = weight + adding + ldexp(1.0, -21) + 8.0 * UNIT * log(sum) +
                 2.0 * UNIT * fabs(*lse);
}

static void run_combine(harness *h, const combine_shape *shape)
{
    combine_run r;
    char text[160];
    make_combine(&r, shape, 7 * (uint64_t)shape->parts + shape->rows);
    const combine_shape *s = &r.s;
    const uint64_t rows = (uint64_t)s->batch * s->heads * s->rows;
    snprintf(text, sizeof text, "B%u H%u Lq%u D%u, %u parts, %s>%s, around %g, empty %u%s",
             s->batch, s->heads, s->rows, s->value_dim, s->parts, harness_dtype_name(s->dtype),
             harness_dtype_name(s->dtype_o), s->around, s->empty,
             s->empty_row ? ", an empty row" : "");
    h->cases++;
    if (harness_run(h, &r.op) != RHUMB_OK) {
        (void)harness_fail(h, "combine: %s: %s", text, r.op.message);
    } else {
        double *o = harness_alloc(r.o.count, sizeof *o);
        double *bound = harness_alloc(r.o.count, sizeof *bound);
        double *lse = harness_alloc(rows, sizeof *lse);
        double *lse_bound = harness_alloc(rows, sizeof *lse_bound);
        bool *skip = harness_alloc(r.o.count, sizeof *skip);
        bool *skip_lse = harness_alloc(rows, sizeof *skip_lse);
        harness_load(&r.o);
        harness_load(&r.lse);
        for (uint64_t i = 0; i < rows; i++) {
            bool beyond = s->q_length != 0 && i % s->rows >= s->q_length;
            row_of(&r, i, o + i * s->value_dim, bound + i * s->value_dim, lse + i, lse_bound + i);
            skip_lse[i] = beyond;
            if (s->lse && !beyond && isinf(lse[i])) { /* NaN and infinities compare by hand */
                skip_lse[i] = true;
                if (!(isinf(r.lse.values[i]) && r.lse.values[i] < 0)) {
                    (void)harness_fail(h, "combine: %s: LSE of row %llu is %g, want -inf", text,
                                       (unsigned long long)i, r.lse.values[i]);
                }
            }
            for (uint32_t d = 0; d < s->value_dim; d++) {
                skip[i * s->value_dim + d] = beyond;
            }
        }
        (void)harness_compare(h, "combine", text, &r.o, o, bound, skip);
        if (s->lse) {
            (void)harness_compare(h, "combine LSE", text, &r.lse, lse, lse_bound, skip_lse);
        }
        free(o);
        free(bound);
        free(lse);
        free(lse_bound);
        free(skip);
        free(skip_lse);
    }
    free_combine(&r);
}

/* ---- Keys split by the host */

/* Attention over keys first to end - 1 of `whole`, as part p of `c`. */
static rhumb_result run_part(harness *h, const attention_run *whole, combine_run *c, uint32_t p,
                             uint32_t first, uint32_t end)
{
    const rhumb_plan_info *i = &whole->op.info;
    const uint64_t rows = i->max_q_length, heads = i->heads;
    const int32_t offset = (int32_t)i->max_k_length - (int32_t)i->max_q_length;
    gpu_operation op;
    harness_tensor o, lse;
    harness_make_tensor(&o, RHUMB_F32, 1, heads, rows, i->value_dim, (harness_layout){0});
    harness_make_tensor(&lse, RHUMB_F32, 1, 1, heads, rows, (harness_layout){0});
    gpu_init_operation(&op, RHUMB_OP_ATTENTION);
    op.info.variant = i->variant;
    op.info.heads = i->heads;
    op.info.kv_heads = i->kv_heads;
    op.info.head_dim = i->head_dim;
    op.info.max_q_length = i->max_q_length;
    op.info.max_k_length = i->max_k_length;
    op.dispatch = whole->op.dispatch;
    op.dispatch.q_offset = offset - (int32_t)first;
    (void)harness_add(&op, RHUMB_VIEW_Q, (harness_tensor *)&whole->q, false);
    gpu_tensor *k = harness_add(&op, RHUMB_VIEW_K, (harness_tensor *)&whole->k, false);
    gpu_tensor *v = harness_add(&op, RHUMB_VIEW_V, (harness_tensor *)&whole->v, false);
    k->offset += 4 * (uint64_t)first * i->head_dim;
    v->offset += 4 * (uint64_t)first * i->value_dim;
    k->shape[2] = v->shape[2] = end - first;
    (void)harness_add(&op, RHUMB_VIEW_O, &o, true);
    (void)harness_add(&op, RHUMB_VIEW_LSE, &lse, true);
    rhumb_result result = harness_run(h, &op);
    if (result != RHUMB_OK) {
        (void)harness_fail(h, "part %u: %s", p, op.message);
    }
    memcpy(c->parts.memory + p * o.bytes, o.memory, o.bytes);
    memcpy(c->part_lse.memory + p * lse.bytes, lse.memory, lse.bytes);
    harness_free_tensor(&o);
    harness_free_tensor(&lse);
    return result;
}

/* The last ranges are hidden from the first rows: their LSE is -infinity. */
static void check_split(harness *h)
{
    static const attention_shape shape = {.variant = RHUMB_VARIANT_DECODE, .heads = 6,
                                          .kv_heads = 2, .q_rows = 5, .k_rows = 131,
                                          .head_dim = 64, .causal = true};
    static const rhumb_key_range ranges[] = {{0, 31}, {31, 77}, {77, 128}, {128, 131}};
    const combine_shape parts = {.heads = 6, .rows = 5, .value_dim = 64, .parts = 4, .lse = true};
    attention_run whole;
    combine_run c;
    bool ran = true;
    shape_make_attention(&whole, &shape, 5);
    make_combine(&c, &parts, 1);
    for (uint32_t p = 0; p < parts.parts && ran; p++) {
        ran = run_part(h, &whole, &c, p, (uint32_t)ranges[p].first, (uint32_t)ranges[p].end) ==
              RHUMB_OK;
    }
    c.op.dispatch.key_ranges = ranges;
    c.op.dispatch.part_count = 4;
    if (ran && harness_run(h, &c.op) != RHUMB_OK) {
        ran = harness_fail(h, "split by the host: %s", c.op.message);
    }
    memcpy(whole.o.memory, c.o.memory, c.o.bytes);
    if (ran) {
        (void)shape_check_attention(h, &shape, &whole, "keys split by the host");
    }
    harness_load(&c.part_lse);
    h->cases++;
    if (ran && !isinf(c.part_lse.values[c.part_lse.count - 5])) {
        (void)harness_fail(h, "split by the host: row 0 sees none of the last keys, its LSE is %g",
                           c.part_lse.values[c.part_lse.count - 5]);
    }
    free_combine(&c);
    shape_free_attention(&whole);
}

static void run_all(harness_profile profile)
{
    harness h;
    harness_open(&h, profile);
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        run_combine(&h, &table[i]);
    }
    check_split(&h);
    printf("%s: worst error of combine: %.3f of its bound\n", harness_profile_name(profile),
           h.worst);
    harness_close(&h);
}

Test(combine, parts_of_any_number_and_shape_become_one_on_lavapipe)
{
    run_all(HARNESS_LAVAPIPE);
}

Test(combine, parts_of_any_number_and_shape_become_one_on_the_smallest_device)
{
    run_all(HARNESS_LAVAPIPE_FLOOR);
}

Test(combine, parts_of_any_number_and_shape_become_one_on_swiftshader)
{
    run_all(HARNESS_SWIFTSHADER);
}

/* ---- Bad input */
static const combine_shape small = {.batch = 2, .heads = 3, .rows = 5, .value_dim = 8, .parts = 3,
                                    .lse = true};

static void refuse(harness *h, combine_run *r, const char *name, rhumb_result code,
                   const char *start, const char *found)
{
    harness_expect_refused(h, &r->op, name, code, start, found, &r->o);
    free_combine(r);
}

Test(combine, ranges_that_overlap_or_fall_are_refused_with_their_numbers)
{
    static const struct {
        rhumb_key_range ranges[3];
        uint32_t count;
        const char *start, *found;
    } bad[] = {
        {{{0, 10}, {9, 20}, {20, 30}}, 3, "combine: key_ranges[1]: wanted keys from 10 on",
         "found 9 to 20"},
        {{{0, 10}, {10, 20}, {0, 30}}, 3, "combine: key_ranges[2]: wanted keys from 20 on",
         "found 0 to 30"},
        {{{20, 30}, {10, 20}, {0, 10}}, 3, "combine: key_ranges[1]: wanted keys from 30 on",
         "found 10 to 20"},
        {{{0, 10}, {10, 5}, {10, 20}}, 3, "combine: key_ranges[1]: wanted keys from 10 on",
         "found 10 to 5"},
        {{{-1, 10}, {10, 15}, {15, 20}}, 3, "combine: key_ranges[0]: wanted keys from 0 on",
         "found -1 to 10"},
        {{{0, 10}, {10, 15}, {15, 20}}, 2, "combine: part_count: wanted 3", "found 2"},
    };
    harness h;
    combine_run r;
    harness_open(&h, HARNESS_LAVAPIPE);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        make_combine(&r, &small, 3);
        r.op.dispatch.key_ranges = bad[i].ranges;
        r.op.dispatch.part_count = bad[i].count;
        refuse(&h, &r, "ranges", RHUMB_ERROR_ARGUMENT, bad[i].start, bad[i].found);
    }
    make_combine(&r, &small, 3);
    r.op.dispatch.part_count = 3;
    refuse(&h, &r, "part_count without ranges", RHUMB_ERROR_ARGUMENT,
           "combine: part_count: wanted 0, as key_ranges is NULL", "found 3");
    /* a part without keys, and a hole between parts, are legal */
    make_combine(&r, &small, 3);
    r.op.dispatch.key_ranges = (const rhumb_key_range[]){{0, 10}, {10, 10}, {15, 20}};
    r.op.dispatch.part_count = 3;
    h.cases++;
    cr_expect_eq(harness_run(&h, &r.op), RHUMB_OK, "%s", r.op.message);
    free_combine(&r);
    harness_close(&h);
}

Test(combine, ranges_are_for_combine_only)
{
    static const attention_shape shape = {.heads = 1, .q_rows = 3, .k_rows = 5, .head_dim = 8};
    static const rhumb_key_range range = {0, 5};
    harness h;
    attention_run run;
    harness_open(&h, HARNESS_LAVAPIPE);
    shape_make_attention(&run, &shape, 1);
    run.op.dispatch.key_ranges = &range;
    run.op.dispatch.part_count = 1;
    harness_expect_refused(&h, &run.op, "attention", RHUMB_ERROR_ARGUMENT,
                           "attention: key_ranges and part_count: wanted the defaults", "ranges and 1",
                           &run.o);
    shape_free_attention(&run);
    harness_close(&h);
}

Test(combine, shapes_that_do_not_fit_each_other_are_refused)
{
    harness h;
    combine_run r;
    harness_open(&h, HARNESS_LAVAPIPE);
    make_combine(&r, &small, 3);
    r.op.tensors[0].shape[0] = 5; /* of 2 entries */
    refuse(&h, &r, "parts", RHUMB_ERROR_ARGUMENT,
           "combine: shape of PARTS [P B, heads, Lq, value_dim]: wanted a multiple of B 2",
           "found 5");
    make_combine(&r, &small, 3);
    r.op.tensors[0].shape[2] = 4;
    refuse(&h, &r, "rows", RHUMB_ERROR_ARGUMENT, "combine: shape of PARTS", "found 4");
    make_combine(&r, &small, 3);
    r.op.tensors[0].shape[1] = 2;
    refuse(&h, &r, "heads", RHUMB_ERROR_ARGUMENT, "combine: shape of PARTS", "found 2");
    make_combine(&r, &small, 3);
    r.op.tensors[1].shape[1] = 4; /* 2 of 3 parts */
    refuse(&h, &r, "part_lse", RHUMB_ERROR_ARGUMENT,
           "combine: shape of PART_LSE [P B, heads, Lq]: wanted exactly 6", "found 4");
    make_combine(&r, &small, 3);
    r.op.tensors[3].shape[1] = 1;
    refuse(&h, &r, "lse", RHUMB_ERROR_ARGUMENT, "combine: shape of LSE", "found 1");
    make_combine(&r, &small, 3);
    r.op.info.value_dim = 9;
    refuse(&h, &r, "value_dim", RHUMB_ERROR_ARGUMENT, "combine: shape of O", "found 8");
    harness_close(&h);
}

Test(combine, what_means_nothing_to_it_is_refused)
{
    harness h;
    combine_run r;
    rhumb_alibi alibi;
    rhumb_init_alibi(&alibi);
    harness_open(&h, HARNESS_LAVAPIPE);
    make_combine(&r, &small, 3);
    r.op.info.scheme = &alibi;
    refuse(&h, &r, "scheme", RHUMB_ERROR_ARGUMENT, "combine: scheme: wanted NULL", "a struct");
    make_combine(&r, &small, 3);
    r.op.info.variant = RHUMB_VARIANT_DECODE;
    refuse(&h, &r, "variant", RHUMB_ERROR_UNSUPPORTED, "combine: variant", "found 3");
    make_combine(&r, &small, 3);
    r.op.tensors[1].dtype = RHUMB_F16;
    refuse(&h, &r, "dtype", RHUMB_ERROR_ARGUMENT, "combine: dtype of PART_LSE: wanted f32",
           "found f16");
    make_combine(&r, &small, 3);
    r.op.dispatch.causal = 1;
    refuse(&h, &r, "causal", RHUMB_ERROR_ARGUMENT, "combine: causal", "found 1");
    make_combine(&r, &small, 3);
    r.op.dispatch.k_length = 4;
    refuse(&h, &r, "k_length", RHUMB_ERROR_ARGUMENT, "combine: causal", "k_length 4");
    make_combine(&r, &small, 3);
    r.op.dispatch.q_offset = 4;
    refuse(&h, &r, "q_offset", RHUMB_ERROR_ARGUMENT, "combine: q_offset", "found 4");
    make_combine(&r, &small, 3);
    r.op.dispatch.softcap = 4.0f;
    refuse(&h, &r, "softcap", RHUMB_ERROR_ARGUMENT, "combine: softcap", "found 4");
    make_combine(&r, &small, 3);
    r.op.dispatch.q_length = 6;
    refuse(&h, &r, "q_length", RHUMB_ERROR_LIMIT, "combine: q_length: wanted up to 5", "found 6");
    harness_close(&h);
}
