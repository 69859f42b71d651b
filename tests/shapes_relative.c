#include "shapes.h"
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
 * 2 min(Lk, 6 sqrt(Lk)) u. Division and product: 4 u. A cap, the sink and LSE: shapes_around.c.
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

static rhumb_variant variant_of(const relative_run *r)
{
    if (r->scores || r->s.automatic)
        return RHUMB_VARIANT_AUTO;
    return r->s.variant == RHUMB_VARIANT_AUTO ? RHUMB_VARIANT_UNFUSED : r->s.variant;
}

static double scale_of(const relative_run *r);

/* What both the visibility and the logits of the reference come from. */
static void refer(const relative_run *r, ref_attention *t)
{
    const relative_shape *s = &r->s;
    ref_attention_init(t, s->batch, s->heads, s->q_rows, s->k_rows, s->head_dim);
    t->kv_heads = s->kv_heads;
    t->scale = scale_of(r);
    t->q_offset = s->q_offset;
    t->order = s->positions == SHAPE_ARANGE ? REF_ORDER_INDEX : REF_ORDER_POSITION;
    t->positions_q = r->queries;
    t->positions_k = r->keys;
    t->terms = &r->terms;
    t->q = r->q.values;
    t->k = r->k.values;
    t->v = r->v.values;
    if (r->scores)
        return;
    t->causal = s->causal;
    if (s->windowed) {
        t->window_left = s->window_left;
        t->window_right = s->window_right;
    }
    shape_refer_around(&r->around, &s->around, t);
}

static void make_poison(relative_run *r)
{
    const relative_shape *s = &r->s;
    ref_attention ref;
    refer(r, &ref);
    for (uint64_t i = 0; i < r->k.count; i++) {
        uint32_t j = (uint32_t)(i / s->head_dim % s->k_rows);
        uint32_t kv = (uint32_t)(i / s->head_dim / s->k_rows % s->kv_heads);
        uint32_t b = (uint32_t)(i / s->head_dim / s->k_rows / s->kv_heads);
        bool seen = false;
        for (uint32_t h = 0; h < s->heads; h++)
            for (uint32_t a = 0; a < s->q_rows && !seen; a++)
                seen = h / (s->heads / s->kv_heads) == kv && ref_sees(&ref, b, h, a, j);
        if (!seen)
            r->k.values[i] = r->v.values[i] = j % 2 == 0 ? (double)NAN : (double)INFINITY;
    }
}

static int32_t *add_positions(relative_run *r, rhumb_view_id id, harness_tensor *t, int32_t first,
                              uint32_t rows)
{
    int32_t *positions = harness_alloc((size_t)r->s.batch * rows, sizeof *positions);
    shape_fill_positions(r->s.positions, first, r->s.batch, rows, positions);
    shape_add_positions(&r->op, id, t, positions, r->s.batch, rows);
    return positions;
}

static void make_run(relative_run *r, const relative_shape *shape, bool scores)
{
    const relative_shape s = with_defaults(shape);
    memset(r, 0, sizeof *r);
    r->s = s;
    r->scores = scores;
    r->random.state = 1 + (uint64_t)s.family;
    gpu_init_operation(&r->op, scores ? RHUMB_OP_SCORES : RHUMB_OP_ATTENTION);
    r->op.info.variant = variant_of(r);
    r->op.info.heads = s.heads;
    r->op.info.kv_heads = s.kv_heads;
    r->op.info.head_dim = s.head_dim;
    r->op.info.max_q_length = s.q_rows;
    r->op.info.max_k_length = s.plan_k != 0 ? s.plan_k : s.k_rows;
    if (s.offset_given)
        r->op.dispatch.q_offset = s.q_offset;
    r->op.dispatch.causal = !scores && s.causal;
    if (!scores && s.windowed) {
        r->op.dispatch.window_left = s.window_left;
        r->op.dispatch.window_right = s.window_right;
    }
    relative_make_scheme(r);
    harness_make_tensor(&r->q, s.dtype, s.batch, s.heads, s.q_rows, s.head_dim, s.layout);
    harness_make_tensor(&r->k, s.dtype, s.batch, s.kv_heads, s.k_rows, s.head_dim, s.layout);
    harness_make_tensor(&r->v, s.dtype, s.batch, s.kv_heads, s.k_rows, s.head_dim, s.layout);
    harness_make_tensor(&r->o, s.dtype_o, s.batch, s.heads, s.q_rows,
                        scores ? s.k_rows : s.head_dim, s.layout);
    harness_fill_normal(&r->q, &r->random);
    harness_fill_normal(&r->k, &r->random);
    harness_fill_normal(&r->v, &r->random);
    if (s.positions != SHAPE_ARANGE) {
        r->queries = add_positions(r, RHUMB_VIEW_POSITIONS_Q, &r->positions_q, 3, s.q_rows);
        r->keys = add_positions(r, RHUMB_VIEW_POSITIONS_K, &r->positions_k, 7, s.k_rows);
    }
    if (!scores)
        shape_make_around(&r->around, &s.around, &r->op,
                          (const uint64_t[4]){s.batch, s.heads, s.q_rows, s.k_rows}, &r->random);
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

static bool has_workspace(const relative_run *r)
{
    return !r->scores && (r->s.workspace || r->op.info.variant == RHUMB_VARIANT_UNFUSED);
}

/* As many floats as the plan asks for, and no more. */
static rhumb_result run_device(harness *h, relative_run *r)
{
    rhumb_result result =
        has_workspace(r) ? shape_add_workspace(h, &r->op, r->s.batch, &r->workspace) : RHUMB_OK;
    return result == RHUMB_OK ? harness_run(h, &r->op) : result;
}

static void free_run(relative_run *r)
{
    harness_tensor *const all[] = {&r->q, &r->k, &r->v, &r->o, &r->workspace, &r->positions_q,
                                   &r->positions_k};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        harness_free_tensor(all[i]);
    for (uint32_t i = 0; i < r->table_count; i++)
        harness_free_tensor(&r->tables[i]);
    shape_free_around(&r->around);
    free(r->segments);
    free(r->queries);
    free(r->keys);
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
    refer(r, &t);
    t.scores = scores;
    if (r->scores)
        t.v = NULL;
    else {
        t.lse = lse;
        t.o = o;
    }
    return ref_attend(&t);
}

/* Logits alone, before any cap. */
static int score(const relative_run *r, double *scores)
{
    ref_attention t;
    refer(r, &t);
    t.scores = scores;
    t.v = NULL;
    t.softcap = 0.0;
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
    result = score(r, a->sizes);
    for (uint32_t h = 0; h < r->s.heads; h++)
        r->slopes[h] = -r->slopes[h];
    result |= score(r, other);
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
    result = score(r, other);
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
    char around[96];
    shape_describe_around(&s->around, around, sizeof around);
    snprintf(text, size,
             "family %d B%u H%u/%u Lq%u Lk%u D%u %s>%s tables %s%s offset %d%s window %d:%d%s "
             "variant %d %s",
             (int)s->family, s->batch, s->heads, s->kv_heads, s->q_rows, s->k_rows, s->head_dim,
             harness_dtype_name(s->dtype), harness_dtype_name(s->dtype_o),
             harness_dtype_name(s->dtype_table), s->shared_tables ? " shared" : "",
             (int)s->q_offset, s->causal ? " causal" : "", s->windowed ? (int)s->window_left : -1,
             s->windowed ? (int)s->window_right : -1, s->poison ? " poison" : "",
             (int)r->op.info.variant, around);
}

static double largest_of(const relative_run *r, rhumb_view_id id)
{
    double most = 0.0;
    for (uint32_t i = 0; i < r->table_count; i++)
        for (uint64_t e = 0; r->table_ids[i] == id && e < r->tables[i].count; e++)
            most = fmax(most, fabs(r->tables[i].values[e]));
    return most;
}

/* Of one row of outputs and its LSE; `want` is the reference's. */
static void row_bound(const relative_run *r, uint64_t at, const answers *a, const double *want,
                      double *bound, double *lse_bound)
{
    const relative_shape *s = &r->s;
    uint32_t q = (uint32_t)(at % s->q_rows), h = (uint32_t)(at / s->q_rows % s->heads);
    uint32_t b = (uint32_t)(at / s->q_rows / s->heads);
    uint64_t kv = (uint64_t)b * s->kv_heads + h / (s->heads / s->kv_heads);
    const double *v = r->v.values + kv * s->k_rows * s->head_dim;
    double table = largest_of(r, RHUMB_VIEW_VALUE_TABLE);
    around_row row = {.low = (double)INFINITY, .high = -(double)INFINITY, .lse = a->lse[at]};
    ref_attention ref;
    refer(r, &ref);
    memset(bound, 0, s->head_dim * sizeof *bound);
    for (uint32_t j = 0; j < s->k_rows; j++)
        if (ref_sees(&ref, b, h, q, j)) {
            double logit =
                a->scores[at * s->k_rows + j] + shape_mask_element(&r->around, b, h, q, j);
            row.low = fmin(row.low, logit);
            row.high = fmax(row.high, logit);
        }
    shape_add_sink(&r->around, h, &row);
    row.relative =
        (4.0 * (3.0 + 3.0 * shape_range(&row)) + 2.0 * steps(s->k_rows) + 4.0) * UNIT;
    for (uint32_t j = 0; j < s->k_rows; j++) {
        double added = shape_mask_element(&r->around, b, h, q, j);
        if (!ref_sees(&ref, b, h, q, j))
            continue;
        double p = exp(a->scores[at * s->k_rows + j] + added - row.lse);
        double error = logit_bound(r, a->sizes[at * s->k_rows + j] + fabs(added)) +
                       shape_cap_error(&s->around);
        row.shift += p * error;
        for (uint32_t d = 0; d < s->head_dim; d++)
            bound[d] += p * (error + row.relative) *
                        (fabs(v[(uint64_t)j * s->head_dim + d]) + table + fabs(want[d]));
    }
    double keys = row.shift;
    shape_add_sink_error(&r->around, h, &row);
    for (uint32_t d = 0; d < s->head_dim; d++) {
        bound[d] += (row.shift - keys) * fabs(want[d]);
        bound[d] += harness_rounding(s->dtype_o, fabs(want[d]) + bound[d]);
    }
    *lse_bound = shape_lse_bound(&row);
}

static void make_answers(answers *a, const relative_run *r)
{
    uint64_t rows = (uint64_t)r->s.batch * r->s.heads * r->s.q_rows;
    a->scores = harness_alloc(rows * r->s.k_rows, sizeof *a->scores);
    a->sizes = harness_alloc(rows * r->s.k_rows, sizeof *a->sizes);
    a->lse = harness_alloc(rows, sizeof *a->lse);
    a->o = harness_alloc(rows * r->s.head_dim, sizeof *a->o);
}

static void free_answers(answers *a)
{
    free(a->scores);
    free(a->sizes);
    free(a->lse);
    free(a->o);
}

/* The reference's answers, and T of each logit; Q, K and tables are other numbers after it. */
static bool find_answers(relative_run *r, answers *a)
{
    const bool rotary = r->s.family == RELATIVE_ROTARY, cosine = r->s.family == RELATIVE_SWIN_V2;
    double *spread = harness_alloc(r->q.count, sizeof *spread);
    bool found;
    if (cosine)
        take_cosines(r);
    found = (!rotary || rotate_queries(r, spread) == 0) &&
            attend(r, a->scores, a->lse, a->o) == 0 && measure(r, a) == 0 &&
            (!rotary || measure_rotation(r, spread, a) == 0);
    if (cosine)
        measure_cosines(r, a);
    free(spread);
    return found;
}

static bool compare_scores(harness *h, relative_run *r, const answers *a, const char *text)
{
    double *bound = harness_alloc(r->o.count, sizeof *bound);
    bool passed;
    for (uint64_t i = 0; i < r->o.count; i++) {
        bound[i] = logit_bound(r, a->sizes[i]);
        bound[i] += harness_rounding(r->s.dtype_o, fabs(a->scores[i]) + bound[i]);
    }
    passed = harness_compare(h, "scores", text, &r->o, a->scores, bound, NULL);
    free(bound);
    return passed;
}

static bool compare_outputs(harness *h, relative_run *r, const answers *a, const char *text)
{
    uint64_t rows = (uint64_t)r->s.batch * r->s.heads * r->s.q_rows;
    double *bound = harness_alloc(r->o.count, sizeof *bound);
    double *lse_bound = harness_alloc(rows, sizeof *lse_bound);
    bool *none = harness_alloc(rows, sizeof *none);
    bool passed;
    for (uint64_t i = 0; i < rows; i++)
        row_bound(r, i, a, a->o + i * r->s.head_dim, bound + i * r->s.head_dim, lse_bound + i);
    passed = harness_compare(h, "attention", text, &r->o, a->o, bound, NULL) &&
             (!r->s.around.lse || shape_compare_lse(h, "attention", text, &r->around, a->lse,
                                                    lse_bound, none));
    free(bound);
    free(lse_bound);
    free(none);
    return passed;
}

static bool compare(harness *h, relative_run *r, const char *text)
{
    answers a;
    bool passed;
    make_answers(&a, r);
    harness_load(&r->o);
    if (!find_answers(r, &a))
        passed = harness_fail(h, "relative: %s: the reference refused it", text);
    else if (r->scores)
        passed = compare_scores(h, r, &a, text);
    else
        passed = compare_outputs(h, r, &a, text);
    free_answers(&a);
    return passed;
}

static bool run(harness *h, const relative_shape *shape, bool scores)
{
    relative_run r;
    char text[384];
    bool passed = true;
    make_run(&r, shape, scores);
    describe(&r, text, sizeof text);
    if (has_workspace(&r))
        r.op.info.views |= RHUMB_VIEW_BIT(RHUMB_VIEW_WORKSPACE);
    if (!harness_wants(h, &r.op)) {
        free_run(&r);
        return true;
    }
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

bool shape_run_relative(harness *h, const relative_shape *shape)
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
