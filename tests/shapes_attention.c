#include "shapes.h"

#include "reference/reference.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Bound of one output element. u = 2^-24, S the logits, P the exact weights, A = sum P_j |v_j|.
 *
 *   logits   A dot product of D terms in f32 rounds D times. Rounding errors of different terms are
 *            independent and at most u each, so that their sum stays below 6 sqrt(D) u (six times
 *            the deviation of D errors of size u) of T_j = scale * sum |q k|; never above D u T_j.
 *            Folding the scale and log2(e) into Q or the sum: 4 u T_j. With Q rotated inside, each
 *            channel of Q is off by the rotation's bound, which goes through |k|. An error d_j of a
 *            logit moves the output by at most P_j d_j |v_j|, and through the denominator by
 *            P_j d_j |O|. Where all of Q and K are one number (SHAPE_ALL_64), every key goes
 *            through the same operations on the same numbers: whatever the logits are, they are
 *            equal, and d = 0.
 *   weights  exp2 is within (3 + 2 |x|) ulp in Vulkan, x = log2 of the weight, at most X = the
 *            range of the row's logits; the running rescale of each step is another exp2, and its
 *            arguments add up to at most X. With n steps: (3 (n + 1) + 4 X) 2 u relative for a
 *            weight, and the same for the denominator; X itself is rounded: X u.
 *   sums     Lk terms, and the same for the denominator, by the same rule as D:
 *            2 min(Lk, 6 sqrt(Lk)) u.
 *   rest     division, final product: 4 u.
 *   around   The factor of a row of Q is one more rounding: u T_j. A cap: shapes_around.c. The
 *            mask's element: 4 u of it and, for one more sum, 4 u T_j. The sink moves the output by
 *            P e |O| through the denominator.
 *   output   one rounding to its format.
 */
#define UNIT 5.9604644775390625e-8
#define LOG2_E 1.4426950408889634
/* The fewest keys of a step of any variant, for the number of rescales. */
#define KEYS_OF_A_STEP 8.0
/* Of WORKSPACE for a batch entry, unless a row takes more: 16 MiB. */
#define WORKSPACE_FLOATS 4194304u
/* Rotation of Q inside: as in shapes_rotate.c. */
#define ROTATE_UNIT_ERROR 1e-6

static double rounding_steps(double terms)
{
    double walk = 6.0 * sqrt(terms);
    return terms < walk ? terms : walk;
}

static void describe(const attention_shape *s, char *text, size_t size)
{
    static const char *const variants[] = {"auto",   "generic", "tile",
                                           "decode", "unfused", "broadcast"};
    char around[96];
    shape_describe_around(&s->around, around, sizeof around);
    snprintf(
        text, size,
        "B%u H%u/%u Lq%u Lk%u D%u/%u %s/%s/%s>%s %s%s window %d:%d offset %d q_length %u "
        "k_length %u %s%s R%u+%u scale %g rows %s%s%s%s values %d poison %d %s%s",
        s->batch, s->heads, s->kv_heads, s->q_rows, s->k_rows, s->head_dim, s->value_dim,
        harness_dtype_name(s->dtype_q), harness_dtype_name(s->dtype_k),
        harness_dtype_name(s->dtype_v), harness_dtype_name(s->dtype_o), variants[s->variant],
        s->causal ? " causal" : "", s->windowed ? (int)s->window_left : -1,
        s->windowed ? (int)s->window_right : -1, s->offset_given ? (int)s->q_offset : -1,
        s->q_length, s->k_length, s->by_position ? "by position" : "by index",
        s->lengths ? " lengths" : "", s->rotary_offset, s->rotary_dim, (double)s->scale,
        s->layout_q.by_rows ? "r" : "h", s->layout_k.by_rows ? "r" : "h",
        s->layout_v.by_rows ? "r" : "h", s->layout_o.by_rows ? "r" : "h", (int)s->values,
        (int)s->poison, around, s->workspace ? " workspace" : "");
}

static attention_shape with_defaults(const attention_shape *shape)
{
    attention_shape s = *shape;
    s.batch = s.batch != 0 ? s.batch : 1;
    s.heads = s.heads != 0 ? s.heads : 1;
    s.kv_heads = s.kv_heads != 0 ? s.kv_heads : s.heads;
    s.value_dim = s.value_dim != 0 ? s.value_dim : s.head_dim;
    return s;
}

static int32_t lower_of(uint32_t rows, uint32_t less)
{
    return rows > less ? (int32_t)(rows - less) : 1;
}

/* Keys and rows of a batch entry as LENGTHS (or the dispatch) says. */
static int32_t k_length_of(const attention_shape *s, uint32_t b)
{
    if (s->lengths) {
        return b == 0 && s->lengths_beyond ? (int32_t)s->k_rows : lower_of(s->k_rows, 3 * b);
    }
    return (int32_t)(s->k_length != 0 ? s->k_length : s->k_rows);
}

static int32_t q_length_of(const attention_shape *s, uint32_t b)
{
    if (s->lengths) {
        return b == 0 && s->lengths_beyond ? (int32_t)s->q_rows : lower_of(s->q_rows, b);
    }
    return (int32_t)(s->q_length != 0 ? s->q_length : s->q_rows);
}

/* An offset that is row 0's position in the rotation of Q is no negative number: a dispatch with
 * one is refused, one from LENGTHS is clamped to 0. */
static bool offset_is_clamped(const attention_shape *s)
{
    return s->lengths && s->rotary_dim != 0 && s->positions == SHAPE_ARANGE && !s->by_position &&
           s->offset_given && s->q_offset < 0;
}

static int32_t offset_of(const attention_shape *s)
{
    return offset_is_clamped(s) ? 0 : s->q_offset;
}

static void make_values(attention_run *run, const attention_shape *s, harness_random *r)
{
    harness_fill_normal(&run->q, r);
    harness_fill_normal(&run->k, r);
    harness_fill_normal(&run->v, r);
    for (uint64_t i = 0; i < run->q.count; i++) {
        run->q.values[i] = s->values == SHAPE_SHARP    ? 8.0 * run->q.values[i]
                           : s->values == SHAPE_ALL_64 ? 64.0
                                                       : run->q.values[i];
    }
    for (uint64_t i = 0; s->values == SHAPE_ALL_64 && i < run->k.count; i++) {
        run->k.values[i] = 64.0;
    }
    for (uint64_t i = 0; s->values == SHAPE_EQUAL_V && i < run->v.count; i++) {
        run->v.values[i] = 1.0;
    }
}

static void make_positions(harness_tensor *t, const attention_shape *s, uint32_t rows,
                           int32_t first)
{
    uint32_t batch = s->positions == SHAPE_SHARED || s->positions == SHAPE_ARANGE ? 1 : s->batch;
    int32_t *positions = harness_alloc((size_t)batch * rows, sizeof *positions);
    shape_fill_positions(s->positions, first, batch, rows, positions);
    harness_make_tensor(t, RHUMB_I32, 1, 1, batch, rows, (harness_layout){0});
    for (uint64_t i = 0; i < t->count; i++) {
        t->values[i] = positions[i];
    }
    harness_store(t);
    free(positions);
}

static void make_lengths(attention_run *run, const attention_shape *s)
{
    harness_make_tensor(&run->lengths, RHUMB_I32, 1, 1, s->batch, 4, (harness_layout){0});
    for (uint32_t b = 0; b < s->batch; b++) {
        bool beyond = b == 0 && s->lengths_beyond;
        double *at = run->lengths.values + 4 * (size_t)b;
        at[0] = k_length_of(s, b) + (beyond ? 5 : 0);
        at[1] = q_length_of(s, b) + (beyond ? 1000 : 0);
        at[2] = s->offset_given ? s->q_offset : RHUMB_UNSET;
        at[3] = RHUMB_UNSET;
    }
    harness_store(&run->lengths);
    harness_make_tensor(&run->status, RHUMB_I32, 1, 1, 1, 1, (harness_layout){0});
    harness_store(&run->status);
    (void)harness_add(&run->op, RHUMB_VIEW_LENGTHS, &run->lengths, false);
    (void)harness_add(&run->op, RHUMB_VIEW_STATUS, &run->status, true);
}

static void make_info(attention_run *run, const attention_shape *s)
{
    gpu_operation *op = &run->op;
    gpu_init_operation(op, RHUMB_OP_ATTENTION);
    op->info.variant = s->variant;
    op->info.heads = s->heads;
    op->info.kv_heads = s->kv_heads;
    op->info.head_dim = s->head_dim;
    op->info.value_dim = s->value_dim;
    op->info.max_q_length = s->q_rows;
    op->info.max_k_length = s->plan_k != 0 ? s->plan_k : s->k_rows;
    if (s->scale != 0.0f) {
        op->info.scale = s->scale;
    }
    op->info.mask_order = s->by_position ? RHUMB_MASK_ORDER_POSITION : RHUMB_MASK_ORDER_INDEX;
    if (s->rotary_dim != 0) {
        rhumb_init_rope(&run->rope);
        run->rope.pairing = s->pairing;
        run->rope.rotary_dim = s->rotary_dim;
        run->rope.rotary_offset = s->rotary_offset;
        op->info.rotary = &run->rope;
    }
    op->dispatch.causal = s->causal ? 1 : 0;
    if (s->windowed) {
        op->dispatch.window_left = s->window_left;
        op->dispatch.window_right = s->window_right;
    }
    if (s->offset_given && !s->lengths) {
        op->dispatch.q_offset = s->q_offset;
    }
    if (s->q_length != 0) {
        op->dispatch.q_length = (int32_t)s->q_length;
    }
    if (s->k_length != 0) {
        op->dispatch.k_length = (int32_t)s->k_length;
    }
}

static void make_reference(const attention_run *run, const attention_shape *s, ref_attention *ref,
                           int32_t *numbers, ref_rope *rope);

/* numbers: 3 * batch lengths and offsets, then positions. */
static size_t number_count(const attention_shape *s)
{
    return (size_t)s->batch * (3 + (size_t)s->q_rows + s->k_rows);
}

static void poison_key(harness_tensor *t, uint32_t b, uint64_t j, double value)
{
    for (uint64_t h = 0; h < t->shape[1]; h++) {
        for (uint64_t d = 0; d < t->shape[3]; d++) {
            t->values[harness_index(t, b, h, j, d)] = value;
        }
    }
}

/* Whether a row of the batch entry, of any head, sees key j. */
static bool is_seen(const attention_shape *s, const ref_attention *ref, uint32_t b, uint32_t j)
{
    for (uint32_t h = 0; h < (s->around.mask != 0 ? s->heads : 1); h++)
        for (uint32_t a = 0; a < s->q_rows; a++)
            if (ref_sees(ref, b, h, a, j))
                return true;
    return false;
}

/* Keys that no row sees, and rows beyond q_length, hold what must not matter. */
static void make_poison(attention_run *run, const attention_shape *s, const ref_attention *ref)
{
    double value = s->poison == SHAPE_INF_HIDDEN ? (double)INFINITY : (double)NAN;
    for (uint32_t b = 0; b < s->batch; b++) {
        for (uint32_t j = 0; j < s->k_rows; j++) {
            if (!is_seen(s, ref, b, j) ||
                (s->poison == SHAPE_NAN_LAST && (int64_t)j == ref->k_lengths[b] - 1)) {
                poison_key(&run->k, b, j, value);
                poison_key(&run->v, b, j, value);
            }
        }
        for (uint64_t a = (uint64_t)ref->q_lengths[b]; a < s->q_rows; a++) {
            poison_key(&run->q, b, a, value);
        }
    }
}

void shape_make_attention(attention_run *run, const attention_shape *shape, uint64_t seed)
{
    attention_shape s = with_defaults(shape);
    harness_random r = {.state = seed};
    ref_attention ref;
    ref_rope rope;
    int32_t *numbers = harness_alloc(number_count(&s), sizeof *numbers);
    memset(run, 0, sizeof *run);
    make_info(run, &s);
    harness_make_tensor(&run->q, s.dtype_q, s.batch, s.heads, s.q_rows, s.head_dim, s.layout_q);
    harness_make_tensor(&run->k, s.dtype_k, s.batch, s.kv_heads, s.k_rows, s.head_dim, s.layout_k);
    harness_make_tensor(&run->v, s.dtype_v, s.batch, s.kv_heads, s.k_rows, s.value_dim, s.layout_v);
    harness_make_tensor(&run->o, s.dtype_o, s.batch, s.heads, s.q_rows, s.value_dim, s.layout_o);
    if (s.by_position || (s.rotary_dim != 0 && s.positions != SHAPE_ARANGE)) {
        make_positions(&run->positions_q, &s, s.q_rows,
                       s.position_first + (int32_t)s.k_rows - (int32_t)s.q_rows);
        (void)harness_add(&run->op, RHUMB_VIEW_POSITIONS_Q, &run->positions_q, false);
    }
    if (s.by_position) {
        make_positions(&run->positions_k, &s, s.k_rows, s.position_first);
        (void)harness_add(&run->op, RHUMB_VIEW_POSITIONS_K, &run->positions_k, false);
    }
    make_values(run, &s, &r);
    shape_make_around(&run->around, &s.around, &run->op,
                      (const uint64_t[4]){s.batch, s.heads, s.q_rows, s.k_rows}, &r);
    if (s.poison != SHAPE_CLEAN) {
        make_reference(run, &s, &ref, numbers, &rope);
        make_poison(run, &s, &ref);
    }
    harness_store(&run->q);
    harness_store(&run->k);
    harness_store(&run->v);
    (void)harness_add(&run->op, RHUMB_VIEW_Q, &run->q, false);
    (void)harness_add(&run->op, RHUMB_VIEW_K, &run->k, false);
    (void)harness_add(&run->op, RHUMB_VIEW_V, &run->v, false);
    (void)harness_add(&run->op, RHUMB_VIEW_O, &run->o, true);
    if (s.lengths) {
        make_lengths(run, &s);
    }
    if (s.variant == RHUMB_VARIANT_UNFUSED) {
        /* as many logits as there are, or a block of rows that is full */
        uint64_t logits = (uint64_t)s.heads * s.q_rows * (s.plan_k ? s.plan_k : s.k_rows);
        harness_make_tensor(&run->workspace, RHUMB_F32, 1, 1, 1,
                            s.batch * (logits < WORKSPACE_FLOATS ? logits : WORKSPACE_FLOATS),
                            (harness_layout){0});
        (void)harness_add(&run->op, RHUMB_VIEW_WORKSPACE, &run->workspace, true);
    }
    free(numbers);
}

rhumb_result shape_add_workspace(harness *h, gpu_operation *op, uint32_t batch, harness_tensor *t)
{
    harness_make_tensor(t, RHUMB_F32, 1, 1, 1, 1, (harness_layout){0});
    (void)harness_add(op, RHUMB_VIEW_WORKSPACE, t, true);
    rhumb_result result = gpu_query_operation(h->g, op);
    uint64_t floats = op->properties.workspace_size / 4 * batch;
    if (result != RHUMB_OK || floats == 0)
        return result;
    harness_free_tensor(t);
    op->tensor_count--;
    harness_make_tensor(t, RHUMB_F32, 1, 1, 1, floats, (harness_layout){0});
    (void)harness_add(op, RHUMB_VIEW_WORKSPACE, t, true);
    return RHUMB_OK;
}

void shape_free_attention(attention_run *run)
{
    harness_free_tensor(&run->q);
    harness_free_tensor(&run->k);
    harness_free_tensor(&run->v);
    harness_free_tensor(&run->o);
    harness_free_tensor(&run->positions_q);
    harness_free_tensor(&run->positions_k);
    harness_free_tensor(&run->lengths);
    harness_free_tensor(&run->status);
    harness_free_tensor(&run->workspace);
    shape_free_around(&run->around);
}

static void expand_positions(const harness_tensor *t, uint32_t batch, uint32_t rows, int32_t *out)
{
    for (uint32_t b = 0; b < batch; b++) {
        uint64_t from = t->shape[2] == 1 ? 0 : (uint64_t)b * rows;
        for (uint32_t l = 0; l < rows; l++) {
            out[(size_t)b * rows + l] = (int32_t)t->values[from + l];
        }
    }
}

static void make_reference(const attention_run *run, const attention_shape *s, ref_attention *ref,
                           int32_t *numbers, ref_rope *rope)
{
    int32_t *q_lengths = numbers;
    int32_t *k_lengths = q_lengths + s->batch;
    int32_t *q_offsets = k_lengths + s->batch;
    int32_t *positions_q = q_offsets + s->batch;
    int32_t *positions_k = positions_q + (size_t)s->batch * s->q_rows;
    ref_attention_init(ref, s->batch, s->heads, s->q_rows, s->k_rows, s->head_dim);
    ref->kv_heads = s->kv_heads;
    ref->value_dim = s->value_dim;
    if (s->scale != 0.0f) {
        ref->scale = (double)s->scale;
    }
    ref->causal = s->causal;
    ref->order = s->by_position ? REF_ORDER_POSITION : REF_ORDER_INDEX;
    if (s->windowed) {
        ref->window_left = s->window_left;
        ref->window_right = s->window_right;
    }
    for (uint32_t b = 0; b < s->batch; b++) {
        q_lengths[b] = q_length_of(s, b);
        k_lengths[b] = k_length_of(s, b);
        q_offsets[b] = s->offset_given ? offset_of(s) : REF_UNSET;
    }
    ref->q_lengths = q_lengths;
    ref->k_lengths = k_lengths;
    ref->q_offsets = q_offsets;
    if (run->positions_q.count != 0) {
        expand_positions(&run->positions_q, s->batch, s->q_rows, positions_q);
        ref->positions_q = positions_q;
    }
    if (run->positions_k.count != 0) {
        expand_positions(&run->positions_k, s->batch, s->k_rows, positions_k);
        ref->positions_k = positions_k;
    }
    if (s->rotary_dim != 0) {
        ref_rope_init(rope, s->rotary_dim);
        rope->pairing =
            s->pairing == RHUMB_PAIRING_HALF ? REF_PAIRING_HALF : REF_PAIRING_INTERLEAVED;
        rope->rotary_offset = s->rotary_offset;
        ref->rotary = rope;
    }
    ref->q = run->q.values;
    ref->k = run->k.values;
    ref->v = run->v.values;
    shape_refer_around(&run->around, &s->around, ref);
}

/* Of one row: what the logit's error of key j can be, as in the comment above. `factor`: of the row
 * of Q. */
static double logit_error(const attention_shape *s, const ref_attention *ref, double factor,
                          const double *q, const double *k, double added)
{
    double size = 0.0;
    double largest = 0.0;
    double turned = 0.0;
    double units = rounding_steps(s->head_dim) + 4.0 + (s->around.row_scale ? 1.0 : 0.0) +
                   (s->around.mask != 0 ? 4.0 : 0.0);
    if (s->values == SHAPE_ALL_64) {
        return 0.0;
    }
    for (uint32_t d = 0; d < s->head_dim; d++) {
        size += fabs(q[d] * k[d]);
        largest = fabs(q[d]) > largest ? fabs(q[d]) : largest;
        turned += fabs(k[d]);
    }
    size += s->rotary_dim != 0 ? largest * turned : 0.0; /* a turned channel is at most |x| + |y| */
    return fabs(ref->scale) * factor *
               (units * UNIT * size +
                (s->rotary_dim != 0 ? ROTATE_UNIT_ERROR * 2.0 * largest * turned : 0.0)) +
           shape_cap_error(&s->around) + 4.0 * UNIT * fabs(added);
}

/* Of one row of one head: its keys that are seen, their logits with the mask's elements. */
typedef struct row_place {
    uint32_t b, h, a;
    const double *scores;
    const double *want;
    double *bound;      /* of its elements of O */
    double *lse_bound;
    bool poisoned;
} row_place;

static double logit_of(const attention_run *run, const row_place *p, uint32_t j)
{
    return p->scores[j] + shape_mask_element(&run->around, p->b, p->h, p->a, j);
}

static void find_range(const attention_shape *s, const attention_run *run,
                       const ref_attention *ref, const double *v, row_place *p, around_row *row)
{
    row->low = (double)INFINITY;
    row->high = -(double)INFINITY;
    for (uint32_t j = 0; j < s->k_rows; j++) {
        if (!ref_sees(ref, p->b, p->h, p->a, j))
            continue;
        row->low = fmin(row->low, logit_of(run, p, j));
        row->high = fmax(row->high, logit_of(run, p, j));
        p->poisoned = p->poisoned || !isfinite(v[(uint64_t)j * s->value_dim]);
    }
    shape_add_sink(&run->around, p->h, row);
    row->relative = 2.0 * UNIT *
                        (3.0 * (ceil(s->k_rows / KEYS_OF_A_STEP) + 1.0) + 5.0 * shape_range(row)) *
                        2.0 +
                    2.0 * rounding_steps(s->k_rows) * UNIT + 4.0 * UNIT;
}

static void row_bounds(const attention_shape *s, const attention_run *run,
                       const ref_attention *ref, row_place *p, double lse)
{
    uint64_t head_row = ((uint64_t)p->b * s->heads + p->h) * s->q_rows + p->a;
    uint64_t kv = (uint64_t)p->b * s->kv_heads + (uint64_t)p->h * s->kv_heads / s->heads;
    const double *q = ref->q + head_row * s->head_dim;
    const double *k = ref->k + kv * s->k_rows * s->head_dim;
    const double *v = ref->v + kv * s->k_rows * s->value_dim;
    double factor = ref->row_scale != NULL ? ref->row_scale[head_row] : 1.0;
    around_row row = {.lse = lse};
    find_range(s, run, ref, v, p, &row);
    memset(p->bound, 0, s->value_dim * sizeof *p->bound);
    for (uint32_t j = 0; j < s->k_rows; j++) {
        double weight, error;
        if (!ref_sees(ref, p->b, p->h, p->a, j)) {
            continue;
        }
        weight = exp(logit_of(run, p, j) - lse);
        error = logit_error(s, ref, factor, q, k + (uint64_t)j * s->head_dim,
                            shape_mask_element(&run->around, p->b, p->h, p->a, j));
        row.shift += weight * error;
        for (uint32_t d = 0; d < s->value_dim; d++) {
            double value = fabs(v[(uint64_t)j * s->value_dim + d]);
            p->bound[d] += weight * value * (error + row.relative);
        }
    }
    shape_add_sink_error(&run->around, p->h, &row);
    for (uint32_t d = 0; d < s->value_dim; d++) {
        p->bound[d] += row.shift * fabs(p->want[d]);
        p->bound[d] += harness_rounding(s->dtype_o, fabs(p->want[d]) + p->bound[d]);
    }
    *p->lse_bound = shape_lse_bound(&row);
}

static bool check_rows_beyond(harness *h, const attention_shape *s, const ref_attention *ref,
                              const harness_tensor *o, const char *shape)
{
    harness_tensor canary;
    bool same = true;
    harness_make_tensor(&canary, o->dtype, o->shape[0], o->shape[1], o->shape[2], o->shape[3],
                        s->layout_o);
    for (uint64_t i = 0; same && i < o->count; i++) {
        uint64_t at = harness_byte(o, i);
        uint64_t b = i / s->value_dim / s->q_rows / s->heads;
        if ((int64_t)(i / s->value_dim % s->q_rows) >= ref->q_lengths[b] &&
            memcmp(o->memory + at, canary.memory + at, harness_dtype_size(o->dtype)) != 0) {
            same =
                harness_fail(h, "attention: %s: element %llu lies beyond q_length and was written",
                             shape, (unsigned long long)i);
        }
    }
    harness_free_tensor(&canary);
    return same;
}

static bool check_status(harness *h, const attention_shape *s, attention_run *run,
                         const char *shape)
{
    double want = (s->lengths_beyond ? 2.0 : 0.0) + (offset_is_clamped(s) ? s->batch : 0.0);
    if (!s->lengths) {
        return true;
    }
    harness_load(&run->status);
    return run->status.values[0] == want ||
           harness_fail(h, "attention: %s: status counts %g clamped lengths and offsets, want %g",
                        shape, run->status.values[0], want);
}

/* What the reference says, and how far off each number can be. */
typedef struct answers {
    double *want, *bound;
    double *scores;
    double *lse, *lse_bound;
    bool *skip, *skip_row;
} answers;

static void make_answers(answers *all, const attention_shape *s, const attention_run *run)
{
    uint64_t rows = (uint64_t)s->batch * s->heads * s->q_rows;
    all->want = harness_alloc(run->o.count, sizeof *all->want);
    all->bound = harness_alloc(run->o.count, sizeof *all->bound);
    all->scores = harness_alloc(rows * s->k_rows, sizeof *all->scores);
    all->lse = harness_alloc(rows, sizeof *all->lse);
    all->lse_bound = harness_alloc(rows, sizeof *all->lse_bound);
    all->skip = harness_alloc(run->o.count, sizeof *all->skip);
    all->skip_row = harness_alloc(rows, sizeof *all->skip_row);
}

static void free_answers(answers *all)
{
    free(all->want);
    free(all->bound);
    free(all->scores);
    free(all->lse);
    free(all->lse_bound);
    free(all->skip);
    free(all->skip_row);
}

static void find_bounds(const attention_shape *s, const attention_run *run,
                        const ref_attention *ref, answers *all)
{
    uint64_t rows = (uint64_t)s->batch * s->heads * s->q_rows;
    for (uint64_t i = 0; i < rows; i++) {
        row_place p = {
            .b = (uint32_t)(i / s->q_rows / s->heads),
            .h = (uint32_t)(i / s->q_rows % s->heads),
            .a = (uint32_t)(i % s->q_rows),
            .scores = all->scores + i * s->k_rows,
            .want = all->want + i * s->value_dim,
            .bound = all->bound + i * s->value_dim,
            .lse_bound = all->lse_bound + i,
        };
        row_bounds(s, run, ref, &p, all->lse[i]);
        all->skip_row[i] = (int64_t)p.a >= ref->q_lengths[p.b];
        for (uint32_t d = 0; d < s->value_dim; d++) {
            all->skip[i * s->value_dim + d] = all->skip_row[i] || p.poisoned;
        }
    }
}

static bool compare(harness *h, const attention_shape *s, attention_run *run, const char *shape)
{
    int32_t *numbers = harness_alloc(number_count(s), sizeof *numbers);
    answers all;
    ref_attention ref;
    ref_rope rope;
    bool passed;
    make_answers(&all, s, run);
    make_reference(run, s, &ref, numbers, &rope);
    ref.o = all.want;
    ref.lse = all.lse;
    ref.scores = all.scores;
    harness_load(&run->o);
    passed =
        ref_attend(&ref) == 0 || harness_fail(h, "attention: %s: the reference refused it", shape);
    if (passed)
        find_bounds(s, run, &ref, &all);
    passed = passed &&
             harness_compare(h, "attention", shape, &run->o, all.want, all.bound, all.skip) &&
             (!s->around.lse || shape_compare_lse(h, "attention", shape, &run->around, all.lse,
                                                  all.lse_bound, all.skip_row)) &&
             check_rows_beyond(h, s, &ref, &run->o, shape) && check_status(h, s, run, shape);
    free_answers(&all);
    free(numbers);
    return passed;
}

bool shape_check_attention(harness *h, const attention_shape *shape, attention_run *run,
                           const char *text)
{
    attention_shape s = with_defaults(shape);
    h->cases++;
    return compare(h, &s, run, text);
}

bool shape_run_attention(harness *h, const attention_shape *shape)
{
    attention_shape s = with_defaults(shape);
    attention_run run;
    char text[512];
    rhumb_result result;
    bool passed = true;
    describe(&s, text, sizeof text);
    shape_make_attention(&run, &s, 31 * (uint64_t)s.head_dim + s.q_rows + s.k_rows);
    if (s.workspace)
        run.op.info.views |= RHUMB_VIEW_BIT(RHUMB_VIEW_WORKSPACE);
    if (!harness_wants(h, &run.op)) {
        shape_free_attention(&run);
        return true;
    }
    h->cases++;
    result = s.workspace ? shape_add_workspace(h, &run.op, s.batch, &run.workspace) : RHUMB_OK;
    result = result == RHUMB_OK ? harness_run(h, &run.op) : result;
    if (result != RHUMB_OK) {
        passed = harness_fail(h, "attention: %s: %s: %s", text, rhumb_result_name(result),
                              run.op.message);
    }
    passed = passed && compare(h, &s, &run, text);
    shape_free_attention(&run);
    return passed;
}
