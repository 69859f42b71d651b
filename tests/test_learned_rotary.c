/* ROTATE with frequencies learned for each head and both axes (rope2d, LEARNED): every path against
 * angles in extended precision, frequencies of any size, and what cannot be combined. */
#include "shapes.h"

#include "reference.h"

#include <criterion/criterion.h>
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef enum table_kind {
    TABLE_NORMAL,  /* as learned ones are: up to a few radians */
    TABLE_ANY,     /* of any size up to 65536, either sign */
    TABLE_STRANGE, /* zeros, denormals, 65536 and beyond, infinities, NaN: none of them turns */
} table_kind;

typedef struct learned_shape {
    uint32_t batch;    /* 0: 1 */
    uint32_t heads;    /* 0: no Q */
    uint32_t kv_heads; /* 0: no K */
    uint32_t rows;
    uint32_t head_dim;
    uint32_t rotary_dim; /* 0: whole head */
    uint32_t rotary_offset;
    rhumb_rope2d_pairing pairing;
    rhumb_rope2d_order order;
    rhumb_dtype dtype;
    table_kind table;
    bool far; /* positions of any int32 */
    bool in_place;
    bool inverse;
    bool shift; /* purpose SHIFT */
    bool norm;
    harness_layout layout;
} learned_shape;

static uint32_t window_of(const learned_shape *s)
{
    return s->rotary_dim != 0 ? s->rotary_dim : s->head_dim;
}

/* Partner of a channel of the window, its pair, and whether it is the second of the two. */
static uint32_t partner_of(const learned_shape *s, uint32_t turned, uint32_t *pair, bool *second)
{
    uint32_t width = window_of(s), half = width / 2;
    uint32_t span = s->pairing == RHUMB_ROPE2D_HALF_PER_AXIS ? half : width; /* of a rotation */
    uint32_t at = turned % span, first = turned - at;
    if (s->pairing == RHUMB_ROPE2D_INTERLEAVED) {
        *pair = turned / 2;
        *second = turned % 2 != 0;
        return turned ^ 1u;
    }
    *second = at >= span / 2;
    *pair = first / 2 + at % (span / 2);
    return first + (*second ? at - span / 2 : at + span / 2);
}

static bool turns(double f)
{
    return fabs(f) >= FLT_MIN && fabs(f) < 65536.0;
}

/* Cosine and sine of a pair. A product of 24 and 31 bits is exact in a long double, a sum of two is
 * not: each turns by itself. */
static void angle_of(const learned_shape *s, const harness_tensor *table, const int32_t *positions,
                     uint64_t count, uint64_t row, uint64_t head, uint32_t pair, long double cs[2])
{
    cs[0] = 1;
    cs[1] = 0;
    for (uint32_t i = 0; i < 2; i++) {
        uint32_t axis = s->order == RHUMB_ROPE2D_ROW_FIRST ? i : 1 - i;
        double f = table->values[harness_index(table, 0, i, head, pair)];
        long double angle = turns(f) ? (long double)f * positions[axis * count + row] : 0;
        long double c = cosl(angle), n = sinl(s->inverse ? -angle : angle), old = cs[0];
        cs[0] = old * c - cs[1] * n;
        cs[1] = old * n + cs[1] * c;
    }
}

static bool compare(harness *h, const learned_shape *s, const char *text, const harness_tensor *out,
                    const harness_tensor *in, const double *x, const harness_tensor *table,
                    const int32_t *positions)
{
    uint64_t heads = in->shape[1], count = in->shape[0] * s->rows;
    for (uint64_t i = 0; i < in->count; i++) {
        uint64_t channel = i % s->head_dim, row = i - channel;
        uint64_t l = i / s->head_dim % s->rows, b = i / s->head_dim / s->rows / heads;
        uint64_t turned = channel - s->rotary_offset;
        double want = x[i], bound = s->norm ? 1e-4 * fabs(x[i]) : 0.0;
        if (channel >= s->rotary_offset && turned < window_of(s)) {
            uint32_t pair;
            bool second;
            uint32_t partner = partner_of(s, (uint32_t)turned, &pair, &second);
            double other = x[row + s->rotary_offset + partner];
            long double cs[2];
            angle_of(s, table, positions, count, b * s->rows + l, i / s->head_dim / s->rows % heads,
                     pair, cs);
            want = (double)(cs[0] * x[i] + (second ? 1 : -1) * cs[1] * other);
            /* two phases, each cut to 2^-32 turn (1.5e-9 radians), beside what one has */
            bound = (1e-6 + (s->norm ? 1e-4 : 0.0)) * (fabs(x[i]) + fabs(other));
        }
        if (bound > 0.0) {
            bound += harness_rounding(s->dtype, fabs(want) + bound);
        }
        if (!(fabs(out->values[i] - want) <= bound)) {
            return harness_fail(h, "%s: element %llu: got %.9g, want %.9g, bound %.3g", text,
                                (unsigned long long)i, out->values[i], want, bound);
        }
    }
    return true;
}

static void fill_table(const learned_shape *s, harness_tensor *table, harness_random *r)
{
    static const double strange[] = {
        0.0, 1e-40, -1e-42, 65536.0, -1e9, 3e38, (double)INFINITY, -(double)INFINITY, (double)NAN};
    for (uint64_t i = 0; i < table->count; i++) {
        double sign = harness_next(r) % 2 != 0 ? 1.0 : -1.0;
        switch (s->table) {
        case TABLE_NORMAL: table->values[i] = 2.0 * harness_normal(r); break;
        case TABLE_ANY: table->values[i] = sign * exp2(harness_uniform(r, -60.0, 15.99)); break;
        case TABLE_STRANGE:
            table->values[i] = strange[i % (sizeof strange / sizeof strange[0])];
            break;
        }
    }
    harness_store(table);
}

static void fill_positions(const learned_shape *s, uint64_t count, int32_t *positions,
                           harness_random *r)
{
    for (uint64_t i = 0; i < 2 * count; i++) {
        uint64_t l = i % count % s->rows;
        positions[i] = i < count ? (int32_t)(l / 7) : (int32_t)(l % 7);
        if (s->far) {
            positions[i] = l == 0 ? INT32_MAX : l == 1 ? INT32_MIN + 1 : (int32_t)harness_next(r);
        }
    }
}

static void run_shape(harness *h, const learned_shape *s)
{
    static const rhumb_view_id ids[2] = {RHUMB_VIEW_Q, RHUMB_VIEW_K};
    static const rhumb_view_id outs[2] = {RHUMB_VIEW_Q_OUT, RHUMB_VIEW_K_OUT};
    static const rhumb_view_id gains[2] = {RHUMB_VIEW_Q_GAIN, RHUMB_VIEW_K_GAIN};
    const uint32_t heads[2] = {s->heads, s->kv_heads};
    uint32_t batch = s->batch != 0 ? s->batch : 1;
    uint64_t count = (uint64_t)batch * s->rows;
    harness_random r = {.state = 31 + s->head_dim};
    harness_tensor in[2] = {0}, out[2] = {0}, gain[2] = {0}, table, at;
    double *x[2] = {NULL, NULL};
    int32_t *positions = harness_alloc(2 * count, sizeof *positions);
    gpu_operation op;
    rhumb_rope2d plane;
    char text[200];
    rhumb_init_rope2d(&plane);
    plane.pairing = s->pairing;
    plane.order = s->order;
    plane.frequency = RHUMB_ROPE2D_LEARNED;
    plane.rotary_dim = window_of(s);
    plane.rotary_offset = s->rotary_offset;
    snprintf(text, sizeof text, "learned B%u H%u/%u L%u D%u R%u+%u pairing %d order %d %s table %d",
             batch, s->heads, s->kv_heads, s->rows, s->head_dim, s->rotary_offset, window_of(s),
             (int)s->pairing, (int)s->order, harness_dtype_name(s->dtype), (int)s->table);
    gpu_init_operation(&op, RHUMB_OP_ROTATE);
    op.info.rotary = &plane;
    op.info.heads = s->heads != 0 ? s->heads : 2 * s->kv_heads;
    op.info.kv_heads = s->kv_heads != 0 ? s->kv_heads : s->heads;
    op.info.head_dim = s->head_dim;
    op.info.max_q_length = s->rows;
    op.info.purpose = s->shift ? RHUMB_PURPOSE_SHIFT : RHUMB_PURPOSE_ROTATE;
    op.dispatch.inverse = s->inverse;
    fill_positions(s, count, positions, &r);
    harness_make_tensor(&at, RHUMB_I32, 1, 2, batch, s->rows, (harness_layout){0});
    for (uint64_t i = 0; i < 2 * count; i++) {
        at.values[i] = positions[i];
    }
    harness_store(&at);
    harness_make_tensor(&table, RHUMB_F32, 1, 2, s->heads != 0 ? s->heads : s->kv_heads,
                        window_of(s) / 2, (harness_layout){.row_pad = 3, .offset = 1});
    fill_table(s, &table, &r);
    (void)harness_add(&op, RHUMB_VIEW_POSITIONS_Q, &at, false);
    (void)harness_add(&op, RHUMB_VIEW_FREQUENCIES, &table, false);
    for (int n = 0; n < 2; n++) {
        if (heads[n] == 0) {
            continue;
        }
        harness_make_tensor(&in[n], s->dtype, batch, heads[n], s->rows, s->head_dim, s->layout);
        harness_fill_normal(&in[n], &r);
        x[n] = harness_alloc(in[n].count, sizeof *x[n]);
        memcpy(x[n], in[n].values, in[n].count * sizeof *x[n]);
        (void)harness_add(&op, ids[n], &in[n], s->in_place);
        if (!s->in_place) {
            harness_make_tensor(&out[n], s->dtype, batch, heads[n], s->rows, s->head_dim,
                                s->layout);
            (void)harness_add(&op, outs[n], &out[n], true);
        }
        if (s->norm) {
            harness_make_tensor(&gain[n], RHUMB_F32, 1, 1, heads[n], s->head_dim,
                                (harness_layout){0});
            harness_fill_normal(&gain[n], &r);
            (void)harness_add(&op, gains[n], &gain[n], false);
            cr_assert_eq(ref_rms_norm(batch, heads[n], s->rows, s->head_dim, gain[n].values,
                                      heads[n], 0.0, 1e-6, x[n], x[n]),
                         0);
        }
    }
    bool wanted = harness_wants(h, &op);
    h->cases += wanted;
    bool ran = wanted && (harness_run(h, &op) == RHUMB_OK ||
                          harness_fail(h, "%s: %s", text, op.message));
    for (int n = 0; n < 2; n++) {
        if (ran && heads[n] != 0) {
            harness_tensor *y = s->in_place ? &in[n] : &out[n];
            harness_load(y);
            ran = compare(h, s, text, y, &in[n], x[n], &table, positions);
        }
        free(x[n]);
        harness_free_tensor(&in[n]);
        harness_free_tensor(&out[n]);
        harness_free_tensor(&gain[n]);
    }
    harness_free_tensor(&table);
    harness_free_tensor(&at);
    free(positions);
}

#define INTERLEAVED .pairing = RHUMB_ROPE2D_INTERLEAVED
#define HALF .pairing = RHUMB_ROPE2D_HALF
#define PER_AXIS .pairing = RHUMB_ROPE2D_HALF_PER_AXIS
#define COLUMN .order = RHUMB_ROPE2D_COLUMN_FIRST
#define F16 .dtype = RHUMB_F16
#define BF16 .dtype = RHUMB_BF16

static const learned_shape shapes[] = {
    {INTERLEAVED, .batch = 2, .heads = 6, .kv_heads = 6, .rows = 35, .head_dim = 64},
    {INTERLEAVED, COLUMN, .heads = 5, .rows = 35, .head_dim = 32},
    {HALF, .batch = 2, .heads = 3, .rows = 35, .head_dim = 64, .in_place = true},
    {HALF, COLUMN, F16, .heads = 3, .kv_heads = 3, .rows = 9, .head_dim = 32},
    {PER_AXIS, BF16, .heads = 3, .rows = 9, .head_dim = 32, .in_place = true},
    {PER_AXIS, .heads = 3, .rows = 9, .head_dim = 31, .rotary_dim = 20, .rotary_offset = 3},
    {INTERLEAVED, F16, .heads = 3, .rows = 9, .head_dim = 31, .rotary_dim = 12, .rotary_offset = 1,
     .layout = {.row_pad = 5, .offset = 3}},
    /* K alone: its own heads, not those of the queries */
    {INTERLEAVED, .kv_heads = 3, .rows = 9, .head_dim = 64},
    {HALF, .heads = 3, .rows = 9, .head_dim = 64, .inverse = true},
    {HALF, .kv_heads = 3, .rows = 9, .head_dim = 64, .shift = true, .in_place = true},
    /* any frequency at any position */
    {HALF, .heads = 5, .rows = 41, .head_dim = 64, .far = true},
    {HALF, .heads = 5, .rows = 41, .head_dim = 64, .far = true, .table = TABLE_ANY},
    {INTERLEAVED, .heads = 2, .rows = 9, .head_dim = 576, .far = true, .table = TABLE_ANY},
    {INTERLEAVED, .heads = 3, .rows = 9, .head_dim = 64, .far = true, .table = TABLE_STRANGE},
    /* with a norm before */
    {INTERLEAVED, .heads = 5, .kv_heads = 5, .rows = 9, .head_dim = 64, .norm = true},
    {HALF, .heads = 5, .rows = 9, .head_dim = 40, .rotary_dim = 32, .norm = true, .in_place = true},
};

static void run_profile(harness_profile profile)
{
    harness h;
    harness_open(&h, profile);
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        run_shape(&h, &shapes[i]);
    }
    harness_close(&h);
}

Test(learned_rotary, heads_turn_by_frequencies_of_their_own_on_lavapipe)
{
    run_profile(HARNESS_LAVAPIPE);
}

Test(learned_rotary, heads_turn_by_frequencies_of_their_own_on_the_smallest_device)
{
    run_profile(HARNESS_LAVAPIPE_FLOOR);
}

Test(learned_rotary, heads_turn_by_frequencies_of_their_own_on_swiftshader)
{
    run_profile(HARNESS_SWIFTSHADER);
}

/* ---- refusals ---- */

typedef struct attempt {
    const char *name;
    rhumb_result code;
    const char *words[2];
    bool attention, plain, no_table, keys_too, no_positions;
    rhumb_dtype dtype;           /* of the table */
    uint32_t axes, heads, pairs; /* of the table; 0: 2, 4, 16 */
} attempt;

#define REFUSED(error, first, second) .code = RHUMB_ERROR_##error, .words = {first, second}

static const attempt attempts[] = {
    {"as it should be", .code = RHUMB_OK},
    {"without a table", REFUSED(ARGUMENT, "wanted FREQUENCIES with LEARNED", ""), .no_table = true},
    {"a table of another scheme", REFUSED(ARGUMENT, "LEARNED frequencies beside FREQUENCIES", ""),
     .plain = true},
    {"a table of f16", REFUSED(ARGUMENT, "dtype of FREQUENCIES", "f16"), .dtype = RHUMB_F16},
    {"three axes", REFUSED(ARGUMENT, "FREQUENCIES", "shape[1], found 3"), .axes = 3},
    {"other heads", REFUSED(ARGUMENT, "FREQUENCIES", "shape[2], found 2"), .heads = 2},
    {"other pairs", REFUSED(ARGUMENT, "FREQUENCIES", "shape[3], found 15"), .pairs = 15},
    {"without positions", REFUSED(ARGUMENT, "POSITIONS_Q", "2 axes"), .no_positions = true},
    {"fewer heads of K", REFUSED(UNSUPPORTED, "kv_heads", "a plan and a table for each"),
     .keys_too = true},
    {"inside attention", REFUSED(UNSUPPORTED, "rotary", "LEARNED"), .attention = true,
     .no_table = true},
};

Test(learned_rotary, what_frequencies_of_heads_cannot_be_combined_with_is_refused_with_a_reason)
{
    static float x[4 * 2 * 32], y[4 * 2 * 32], table[3 * 4 * 16];
    static int32_t positions[4];
    harness h;
    harness_open(&h, HARNESS_LAVAPIPE);
    for (size_t i = 0; i < sizeof attempts / sizeof attempts[0]; i++) {
        const attempt *a = &attempts[i];
        gpu_operation op;
        rhumb_rope2d plane;
        rhumb_init_rope2d(&plane);
        plane.frequency = a->plain ? RHUMB_ROPE2D_SAME : RHUMB_ROPE2D_LEARNED;
        gpu_init_operation(&op, a->attention ? RHUMB_OP_ATTENTION : RHUMB_OP_ROTATE);
        op.info.rotary = &plane;
        op.info.heads = 4;
        op.info.kv_heads = a->keys_too ? 2 : 4;
        op.info.head_dim = 32;
        op.info.max_q_length = 2;
        gpu_add_tensor(&op, RHUMB_VIEW_Q, RHUMB_F32, 1, 4, 2, 32, x, NULL);
        gpu_add_tensor(&op, a->attention ? RHUMB_VIEW_O : RHUMB_VIEW_Q_OUT, RHUMB_F32, 1, 4, 2, 32,
                       NULL, y);
        if (a->keys_too || a->attention) {
            gpu_add_tensor(&op, RHUMB_VIEW_K, RHUMB_F32, 1, op.info.kv_heads, 2, 32, x, NULL);
        }
        if (a->keys_too) {
            gpu_add_tensor(&op, RHUMB_VIEW_K_OUT, RHUMB_F32, 1, 2, 2, 32, NULL, y);
        }
        if (a->attention) {
            gpu_add_tensor(&op, RHUMB_VIEW_V, RHUMB_F32, 1, 4, 2, 32, x, NULL);
        }
        if (!a->no_table) {
            gpu_add_tensor(&op, RHUMB_VIEW_FREQUENCIES, a->dtype, 1, a->axes != 0 ? a->axes : 2,
                           a->heads != 0 ? a->heads : 4, a->pairs != 0 ? a->pairs : 16, table,
                           NULL);
        }
        if (!a->no_positions) {
            gpu_add_tensor(&op, RHUMB_VIEW_POSITIONS_Q, RHUMB_I32, 1, 2, 1, 2, positions, NULL);
        }
        h.cases++;
        rhumb_result code = harness_run(&h, &op);
        cr_expect_eq(code, a->code, "%s: %s: %s", a->name, rhumb_result_name(code), op.message);
        cr_expect(code == RHUMB_OK || (strstr(op.message, a->words[0]) != NULL &&
                                       strstr(op.message, a->words[1]) != NULL),
                  "%s: %s", a->name, op.message);
    }
    harness_close(&h);
}
