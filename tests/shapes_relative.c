#include "shapes_relative_run.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Bound of a logit. u = 2^-24, T the same sum with every number replaced by its absolute value.
 * A sum of n products rounds n times, independently: 6 sqrt(n) u T, never above n u T; n is three
 * products a channel at most. Scale, bias, slopes and their products: 8 u T more. Then one rounding
 * to the format of O.
 *
 * Bound of an output of ATTENTION. An error d_j of a logit moves it by P_j d_j (|v_j| + |O|). A
 * weight is exp, within (3 + 2 |x|) ulp in Vulkan, x at most the range X of the row, rounded itself
 * (X u), and so is the denominator: 2 (3 + 3 X) 2 u. Sums over Lk keys, twice:
 * 2 min(Lk, 6 sqrt(Lk)) u. Division and product: 4 u.
 *
 * With Q rotated inside, each channel of a pair is off by 1e-6 (|x| + |y|), as in shapes_rotate.c,
 * which goes through |k|. Cosines: two sums of D squares, halved by the roots, D u; two inverse
 * roots, 8 u; exp of at most log(100), with its argument's rounding, 30 u. */
#define UNIT 5.9604644775390625e-8
#define ROTATE_UNIT_ERROR 1e-6

static bool is_deberta(relative_family f)
{
    return f >= RELATIVE_DEBERTA && f <= RELATIVE_DEBERTA_PAPER;
}

/* ---- Making */
static relative_shape with_defaults(const relative_shape *shape)
{
    relative_shape s = *shape;
    s.batch = s.batch != 0 ? s.batch : 1;
    s.heads = s.heads != 0 ? s.heads : 1;
    s.kv_heads = s.kv_heads != 0 ? s.kv_heads : s.heads;
    if (!s.offset_given)
        s.q_offset = (int32_t)s.k_rows - (int32_t)s.q_rows;
    return s;
}

/* MASK's element; 0 without one. */
static double mask_of(const relative_run *r, uint32_t b, uint32_t h, uint32_t a, uint32_t j)
{
    const harness_tensor *m = &r->mask;
    if (m->count == 0)
        return 0.0;
    return m->values[harness_index(m, m->shape[0] > 1 ? b : 0, m->shape[1] > 1 ? h : 0,
                                   m->shape[2] > 1 ? a : 0, m->shape[3] > 1 ? j : 0)];
}

static bool sees(const relative_run *r, uint32_t b, uint32_t h, uint32_t a, uint32_t j)
{
    return (!r->s.causal || (int64_t)j <= (int64_t)a + r->s.q_offset) &&
           mask_of(r, b, h, a, j) > -1e30;
}

/* A third hidden in each of the ways that hide a key, the rest added. */
static void make_mask(relative_run *r)
{
    const relative_shape *s = &r->s;
    const uint64_t own[4] = {s->batch, s->heads, s->q_rows, s->k_rows};
    harness_tensor *m = &r->mask;
    uint64_t shape[4];
    for (uint32_t d = 0; d < 4; d++)
        shape[d] = s->mask >> d & 1u ? own[d] : 1;
    harness_make_tensor(m, s->dtype_mask, shape[0], shape[1], shape[2], shape[3],
                        (harness_layout){.row_pad = 1, .offset = 1});
    for (uint64_t i = 0; i < m->count; i++) {
        double lowest = s->dtype_mask == RHUMB_F16 ? -65504.0 : -3.3e38;
        m->values[i] = harness_normal(&r->random);
        if (harness_next(&r->random) % 3 == 0 && m->count > 1)
            m->values[i] = i % 2 == 0 ? -(double)INFINITY : lowest;
    }
    harness_store(m);
    for (uint64_t i = 0; i < m->count; i++)
        m->values[i] = s->dtype_mask == RHUMB_F16 && m->values[i] == -65504.0 ? -(double)INFINITY
                                                                              : m->values[i];
    (void)harness_add(&r->op, RHUMB_VIEW_MASK, m, false);
}

static void make_poison(relative_run *r)
{
    const relative_shape *s = &r->s;
    for (uint64_t i = 0; i < r->k.count; i++) {
        uint32_t j = (uint32_t)(i / s->head_dim % s->k_rows);
        uint32_t kv = (uint32_t)(i / s->head_dim / s->k_rows % s->kv_heads);
        uint32_t b = (uint32_t)(i / s->head_dim / s->k_rows / s->kv_heads);
        bool seen = false;
        for (uint32_t h = 0; h < s->heads; h++)
            for (uint32_t a = 0; a < s->q_rows && !seen; a++)
                seen = h / (s->heads / s->kv_heads) == kv && sees(r, b, h, a, j);
        if (!seen)
            r->k.values[i] = r->v.values[i] = j % 2 == 0 ? (double)NAN : (double)INFINITY;
    }
}

static void make_run(relative_run *r, const relative_shape *shape, bool scores)
{
    const relative_shape s = with_defaults(shape);
    memset(r, 0, sizeof *r);
    r->s = s;
    r->scores = scores;
    r->random.state = 1 + (uint64_t)s.family;
    gpu_init_operation(&r->op, scores ? RHUMB_OP_SCORES : RHUMB_OP_ATTENTION);
    r->op.info.variant = scores                               ? RHUMB_VARIANT_AUTO
                         : s.variant == RHUMB_VARIANT_AUTO ? RHUMB_VARIANT_UNFUSED
                                                           : s.variant;
    r->op.info.heads = s.heads;
    r->op.info.kv_heads = s.kv_heads;
    r->op.info.head_dim = s.head_dim;
    r->op.info.max_q_length = s.q_rows;
    r->op.info.max_k_length = s.plan_k != 0 ? s.plan_k : s.k_rows;
    if (s.offset_given)
        r->op.dispatch.q_offset = s.q_offset;
    r->op.dispatch.causal = !scores && s.causal;
    relative_make_scheme(r);
    harness_make_tensor(&r->q, s.dtype, s.batch, s.heads, s.q_rows, s.head_dim, s.layout);
    harness_make_tensor(&r->k, s.dtype, s.batch, s.kv_heads, s.k_rows, s.head_dim, s.layout);
    harness_make_tensor(&r->v, s.dtype, s.batch, s.kv_heads, s.k_rows, s.head_dim, s.layout);
    harness_make_tensor(&r->o, s.dtype_o, s.batch, s.heads, s.q_rows,
                        scores ? s.k_rows : s.head_dim, s.layout);
    harness_fill_normal(&r->q, &r->random);
    harness_fill_normal(&r->k, &r->random);
    harness_fill_normal(&r->v, &r->random);
    if (!scores && s.mask != 0)
        make_mask(r);
    if (!scores && s.poison)
        make_poison(r);
    harness_store(&r->q);
    harness_store(&r->k);
    harness_store(&r->v);
    (void)harness_add(&r->op, RHUMB_VIEW_Q, &r->q, false);
    (void)harness_add(&r->op, RHUMB_VIEW_K, &r->k, false);
    (void)harness_add(&r->op, RHUMB_VIEW_O, &r->o, true);
    if (!scores)
        (void)harness_add(&r->op, RHUMB_VIEW_V, &r->v, false);
}

/* As many floats as the plan asks for, and no more. */
static rhumb_result run_device(harness *h, relative_run *r)
{
    rhumb_result result;
    if (r->scores || r->op.info.variant != RHUMB_VARIANT_UNFUSED)
        return harness_run(h, &r->op);
    harness_make_tensor(&r->workspace, RHUMB_F32, 1, 1, 1, 1, (harness_layout){0});
    (void)harness_add(&r->op, RHUMB_VIEW_WORKSPACE, &r->workspace, true);
    result = gpu_query_operation(h->g, &r->op);
    if (result != RHUMB_OK)
        return result;
    harness_free_tensor(&r->workspace);
    r->op.tensor_count--;
    harness_make_tensor(&r->workspace, RHUMB_F32, 1, 1, 1,
                        r->op.properties.workspace_size / 4 * r->s.batch, (harness_layout){0});
    (void)harness_add(&r->op, RHUMB_VIEW_WORKSPACE, &r->workspace, true);
    return harness_run(h, &r->op);
}

static void free_run(relative_run *r)
{
    harness_tensor *const all[] = {&r->q, &r->k, &r->v, &r->o, &r->mask, &r->workspace};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        harness_free_tensor(all[i]);
    for (uint32_t i = 0; i < r->table_count; i++)
        harness_free_tensor(&r->tables[i]);
    free(r->segments);
}

/* ---- Reference */
typedef struct answers {
    double *scores; /* [B, H, Lq, Lk] */
    double *sizes;  /* T of each */
    double *lse;
    double *o;
} answers;

static double scale_of(const relative_run *r)
{
    double d = r->s.head_dim;
    if (r->s.family == RELATIVE_SWIN_V2)
        return 1.0; /* in Q, see take_cosines */
    if (r->s.family >= RELATIVE_T5 && r->s.family <= RELATIVE_T5_GATED)
        return 1.0;
    return 1.0 / sqrt(is_deberta(r->s.family) ? 3.0 * d : d);
}

static int attend(const relative_run *r, double *scores, double *lse, double *o)
{
    ref_attention t;
    ref_attention_init(&t, r->s.batch, r->s.heads, r->s.q_rows, r->s.k_rows, r->s.head_dim);
    t.kv_heads = r->s.kv_heads;
    t.scale = scale_of(r);
    t.causal = !r->scores && r->s.causal;
    t.q_offset = r->s.q_offset;
    t.terms = &r->terms;
    t.q = r->q.values;
    t.k = r->k.values;
    t.scores = scores;
    if (!r->scores) {
        t.v = r->v.values;
        t.lse = lse;
        t.o = o;
    }
    if (r->mask.count != 0) {
        t.mask = r->mask.values;
        for (uint32_t d = 0; d < 4; d++)
            t.mask_shape[d] = (uint32_t)r->mask.shape[d];
    }
    return ref_attend(&t);
}

static void make_absolute(harness_tensor *t)
{
    for (uint64_t i = 0; i < t->count; i++)
        t->values[i] = fabs(t->values[i]);
}

/* T: slopes once with each sign, since their bias has one sign or the other. */
static int measure(relative_run *r, answers *a)
{
    uint64_t count = (uint64_t)r->s.batch * r->s.heads * r->s.q_rows * r->s.k_rows;
    double *other = harness_alloc(count, sizeof *other);
    int result;
    make_absolute(&r->q);
    make_absolute(&r->k);
    for (uint32_t i = 0; i < r->table_count; i++)
        if (r->table_ids[i] != RHUMB_VIEW_SEGMENTS_Q && r->table_ids[i] != RHUMB_VIEW_SEGMENTS_K)
            make_absolute(&r->tables[i]);
    result = attend(r, a->sizes, a->lse, a->o);
    for (uint32_t h = 0; h < r->s.heads; h++)
        r->slopes[h] = -r->slopes[h];
    result |= attend(r, other, a->lse, a->o);
    for (uint64_t i = 0; i < count; i++)
        a->sizes[i] = other[i] > a->sizes[i] ? other[i] : a->sizes[i];
    free(other);
    return result;
}

static double logit_bound(const relative_run *r, double size);

/* The two channels of rope's pairs in Q, HALF. */
static double *partner_of(const relative_run *r, uint64_t i)
{
    uint64_t half = r->s.head_dim / 2, channel = i % r->s.head_dim;
    return r->q.values + (channel < half ? i + half : i - half);
}

/* Q as it is when it is loaded; *spread: |x| + |y| of each channel's pair. */
static int rotate_queries(relative_run *r, double *spread)
{
    const relative_shape *s = &r->s;
    int32_t *positions = harness_alloc((size_t)s->batch * s->q_rows, sizeof *positions);
    ref_rope rope;
    int result;
    for (uint32_t i = 0; i < s->batch * s->q_rows; i++)
        positions[i] = (int32_t)(i % s->q_rows) + s->q_offset;
    for (uint64_t i = 0; i < r->q.count; i++)
        spread[i] = fabs(r->q.values[i]) + fabs(*partner_of(r, i));
    ref_rope_init(&rope, s->head_dim);
    rope.pairing = (ref_pairing)r->scheme.rope.pairing;
    result = ref_rotate(&rope, s->batch, s->heads, s->q_rows, s->head_dim, positions, 0,
                        r->q.values, r->q.values);
    free(positions);
    return result;
}

static void normalise(double *row, uint32_t dim, double scale)
{
    double squares = 0.0;
    for (uint32_t d = 0; d < dim; d++)
        squares += row[d] * row[d];
    for (uint32_t d = 0; d < dim; d++)
        row[d] *= scale / sqrt(squares);
}

/* Q and K as they are for cosine attention: of length 1, and Q times the head's scale. */
static void take_cosines(relative_run *r)
{
    const relative_shape *s = &r->s;
    const double *scales = r->tables[1].values;
    for (uint64_t i = 0; i < r->q.count / s->head_dim; i++) {
        uint64_t h = i / s->q_rows % s->heads;
        normalise(r->q.values + i * s->head_dim, s->head_dim,
                  exp(fmin(scales[h], r->scheme.swin_v2.max_log_scale)));
    }
    for (uint64_t i = 0; i < r->k.count / s->head_dim; i++)
        normalise(r->k.values + i * s->head_dim, s->head_dim, 1.0);
}

/* Adds the error of cosines and their scale, to T in the unit of logit_bound. */
static void measure_cosines(relative_run *r, answers *a)
{
    uint64_t count = (uint64_t)r->s.batch * r->s.heads * r->s.q_rows * r->s.k_rows;
    double error = (r->s.head_dim + 38.0) * UNIT;
    for (uint64_t i = 0; i < count; i++)
        a->sizes[i] += error * a->sizes[i] / logit_bound(r, 1.0);
}

/* Adds the error of rotated queries, to T in the unit of logit_bound. */
static int measure_rotation(relative_run *r, const double *spread, answers *a)
{
    uint64_t count = (uint64_t)r->s.batch * r->s.heads * r->s.q_rows * r->s.k_rows;
    double *other = harness_alloc(count, sizeof *other);
    int result;
    memcpy(r->q.values, spread, r->q.count * sizeof *spread);
    result = attend(r, other, a->lse, a->o);
    for (uint64_t i = 0; i < count; i++)
        a->sizes[i] += ROTATE_UNIT_ERROR * other[i] / logit_bound(r, 1.0);
    free(other);
    return result;
}

static double steps(double terms)
{
    double walk = 6.0 * sqrt(terms);
    return terms < walk ? terms : walk;
}

static double logit_bound(const relative_run *r, double size)
{
    return (steps(3.0 * r->s.head_dim) + 8.0) * UNIT * fabs(size);
}

/* ---- Comparison */
static void describe(const relative_run *r, char *text, size_t size)
{
    const relative_shape *s = &r->s;
    snprintf(text, size,
             "family %d B%u H%u/%u Lq%u Lk%u D%u %s>%s tables %s%s offset %d%s mask %u%s",
             (int)s->family, s->batch, s->heads, s->kv_heads, s->q_rows, s->k_rows, s->head_dim,
             harness_dtype_name(s->dtype), harness_dtype_name(s->dtype_o),
             harness_dtype_name(s->dtype_table), s->shared_tables ? " shared" : "",
             (int)s->q_offset, s->causal ? " causal" : "", s->mask, s->poison ? " poison" : "");
}

static double largest_of(const relative_run *r, rhumb_view_id id)
{
    double most = 0.0;
    for (uint32_t i = 0; i < r->table_count; i++)
        for (uint64_t e = 0; r->table_ids[i] == id && e < r->tables[i].count; e++)
            most = fmax(most, fabs(r->tables[i].values[e]));
    return most;
}

/* Of one row of outputs; `want` is the reference's. */
static void row_bound(const relative_run *r, uint64_t row, const answers *a, const double *want,
                      double *bound)
{
    const relative_shape *s = &r->s;
    uint32_t q = (uint32_t)(row % s->q_rows), h = (uint32_t)(row / s->q_rows % s->heads);
    uint32_t b = (uint32_t)(row / s->q_rows / s->heads);
    uint64_t kv = (uint64_t)b * s->kv_heads + h / (s->heads / s->kv_heads);
    double table = largest_of(r, RHUMB_VIEW_VALUE_TABLE);
    double low = (double)INFINITY, high = -(double)INFINITY;
    memset(bound, 0, s->head_dim * sizeof *bound);
    for (uint32_t j = 0; j < s->k_rows; j++)
        if (sees(r, b, h, q, j)) {
            double logit = a->scores[row * s->k_rows + j] + mask_of(r, b, h, q, j);
            low = fmin(low, logit);
            high = fmax(high, logit);
        }
    double range = high > low ? fmin(high - low, 150.0) : 0.0;
    double relative = (4.0 * (3.0 + 3.0 * range) + 2.0 * steps(s->k_rows) + 4.0) * UNIT;
    for (uint32_t j = 0; j < s->k_rows; j++) {
        uint64_t at = row * s->k_rows + j;
        double added = mask_of(r, b, h, q, j);
        if (!sees(r, b, h, q, j))
            continue;
        double p = exp(a->scores[at] + added - a->lse[row]);
        double error = logit_bound(r, a->sizes[at] + fabs(added)) + relative;
        for (uint32_t d = 0; d < s->head_dim; d++)
            bound[d] +=
                p * error *
                (fabs(r->v.values[(kv * s->k_rows + j) * s->head_dim + d]) + table + fabs(want[d]));
    }
    for (uint32_t d = 0; d < s->head_dim; d++)
        bound[d] += harness_rounding(s->dtype_o, fabs(want[d]) + bound[d]);
}

static bool compare(harness *h, relative_run *r, const char *text)
{
    const relative_shape *s = &r->s;
    uint64_t rows = (uint64_t)s->batch * s->heads * s->q_rows, logits = rows * s->k_rows;
    answers a = {harness_alloc(logits, sizeof(double)), harness_alloc(logits, sizeof(double)),
                 harness_alloc(rows, sizeof(double)),
                 harness_alloc(rows * s->head_dim, sizeof(double))};
    double *want = harness_alloc(r->o.count, sizeof *want);
    double *bound = harness_alloc(r->o.count, sizeof *bound);
    double *lse = harness_alloc(rows, sizeof *lse);
    double *spread = harness_alloc(r->q.count, sizeof *spread);
    const bool rotary = s->family == RELATIVE_ROTARY, cosine = s->family == RELATIVE_SWIN_V2;
    bool passed;
    harness_load(&r->o);
    if (cosine)
        take_cosines(r);
    passed = (!rotary || rotate_queries(r, spread) == 0) && attend(r, a.scores, a.lse, a.o) == 0;
    memcpy(want, r->scores ? a.scores : a.o, r->o.count * sizeof *want);
    memcpy(lse, a.lse, rows * sizeof *lse);
    passed = passed && measure(r, &a) == 0 && (!rotary || measure_rotation(r, spread, &a) == 0);
    if (cosine)
        measure_cosines(r, &a);
    memcpy(a.lse, lse, rows * sizeof *lse);
    for (uint64_t i = 0; passed && r->scores && i < r->o.count; i++) {
        bound[i] = logit_bound(r, a.sizes[i]);
        bound[i] += harness_rounding(s->dtype_o, fabs(want[i]) + bound[i]);
    }
    for (uint64_t i = 0; passed && !r->scores && i < rows; i++)
        row_bound(r, i, &a, want + i * s->head_dim, bound + i * s->head_dim);
    if (!passed)
        (void)harness_fail(h, "relative: %s: the reference refused it", text);
    passed = passed &&
             harness_compare(h, r->scores ? "scores" : "unfused", text, &r->o, want, bound, NULL);
    free(a.scores);
    free(a.sizes);
    free(a.lse);
    free(a.o);
    free(want);
    free(bound);
    free(lse);
    free(spread);
    return passed;
}

static bool run(harness *h, const relative_shape *shape, bool scores)
{
    relative_run r;
    char text[256];
    bool passed = true;
    make_run(&r, shape, scores);
    describe(&r, text, sizeof text);
    h->cases++;
    if (run_device(h, &r) != RHUMB_OK)
        passed = harness_fail(h, "%s: %s: %s", scores ? "scores" : "unfused", text, r.op.message);
    passed = passed && compare(h, &r, text);
    free_run(&r);
    return passed;
}

bool shape_run_scores(harness *h, const relative_shape *shape)
{
    return run(h, shape, true);
}

bool shape_run_unfused(harness *h, const relative_shape *shape)
{
    return run(h, shape, false);
}

bool shape_same_bits_for_any_batch(harness *h, const relative_shape *shape)
{
    relative_shape three = *shape;
    relative_run all, one;
    bool passed = true;
    three.batch = 3;
    make_run(&all, &three, false);
    make_run(&one, shape, false);
    memcpy(one.q.memory, all.q.memory + 2 * one.q.bytes, one.q.bytes);
    memcpy(one.k.memory, all.k.memory + 2 * one.k.bytes, one.k.bytes);
    memcpy(one.v.memory, all.v.memory + 2 * one.v.bytes, one.v.bytes);
    h->cases++;
    if (run_device(h, &all) != RHUMB_OK || run_device(h, &one) != RHUMB_OK)
        passed = harness_fail(h, "batch bits: %s%s", all.op.message, one.op.message);
    else if (memcmp(all.o.memory + 2 * one.o.bytes, one.o.memory, one.o.bytes) != 0)
        passed = harness_fail(h, "batch bits: family %d: batch entry 2 alone gives other bits",
                              (int)shape->family);
    free_run(&all);
    free_run(&one);
    return passed;
}
