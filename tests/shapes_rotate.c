#include "shapes.h"

#include "verify.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Error of one rotated channel in f32. The bar of field test 12 is 1e-6 for the unit vector at
 * every position, which covers the phase (2^-32 turn), the polynomials and three roundings (3 *
 * 2^-24). A channel x c - y s scales it by |x| + |y| and the magnitude. One rounding to the
 * output's format is added. */
#define ROTATE_UNIT_ERROR 1e-6

typedef struct rotate_run {
    harness_tensor in[2]; /* Q, K */
    harness_tensor out[2];
    harness_tensor before[2]; /* the same as `in`, kept for in-place runs */
    harness_tensor positions;
    int32_t *position_of; /* [axes, batch, rows] */
    rhumb_rope rope;
    verify_rotary rotary;
    gpu_operation op;
} rotate_run;

void shape_fill_positions(shape_positions kind, int32_t first, uint32_t batch, uint32_t rows,
                          int32_t *positions)
{
    harness_random r = {.state = 77};
    for (uint32_t b = 0; b < batch; b++) {
        int64_t p = first;
        for (uint32_t l = 0; l < rows; l++) {
            int32_t *at = &positions[(size_t)b * rows + l];
            switch (kind) {
            case SHAPE_PER_BATCH:
                *at = first + (int32_t)(100 * b + l);
                break;
            case SHAPE_LEFT_PAD:
                *at = l < b ? 0 : (int32_t)(l - b);
                break;
            case SHAPE_JUMPS:
                p += 1 + (int64_t)(harness_next(&r) % 1000);
                *at = (int32_t)p;
                break;
            case SHAPE_REPEATS:
                *at = first + (int32_t)(l / 3);
                break;
            case SHAPE_NEGATIVE:
                *at = first + (int32_t)l - (int32_t)(rows / 2) - (int32_t)b;
                break;
            case SHAPE_ANYWHERE:
                *at = l == 0   ? INT32_MAX
                      : l == 1 ? -INT32_MAX
                      : l == 2 ? INT32_MIN
                               : (int32_t)harness_next(&r);
                break;
            case SHAPE_REVERSED:
                *at = first + (int32_t)(rows - l);
                break;
            default:
                *at = first + (int32_t)l;
                break;
            }
        }
    }
}

static void make_rope(rhumb_rope *rope, const rotate_shape *s)
{
    rhumb_init_rope(rope);
    rope->pairing = s->pairing;
    rope->rotary_dim = s->rotary_dim != 0 ? s->rotary_dim : RHUMB_WHOLE_HEAD;
    rope->rotary_offset = s->rotary_offset;
    rope->base = s->base > 0.0 ? s->base : 10000.0;
    if (s->factor > 0.0) {
        rope->scaling = RHUMB_ROPE_SCALING_LINEAR;
        rope->factor = s->factor;
    }
    rope->magnitude = RHUMB_MAGNITUDE_GIVEN;
    rope->attention_factor = s->magnitude > 0.0 ? s->magnitude : 1.0;
}

/* The other rows of positions. Rows of text are alike. */
static void fill_axes(const rotate_shape *s, uint32_t axes, uint32_t batch, int32_t *positions)
{
    size_t count = (size_t)batch * s->rows;
    uint32_t width = s->position_first > 0 ? (uint32_t)s->position_first : 1;
    for (size_t i = 0; i < axes * count; i++) {
        uint32_t axis = (uint32_t)(i / count), b = (uint32_t)(i % count / s->rows);
        uint32_t l = (uint32_t)(i % s->rows);
        if (s->positions == SHAPE_GRID) {
            positions[i] = (int32_t)(axis == 0 ? l / width : axis == 1 ? l % width : l);
        } else if (s->positions == SHAPE_APART) {
            positions[i] = (int32_t)(l * (axis + 2) + 37 * axis + 100 * b);
        } else if (i >= count) {
            positions[i] = positions[i - count];
        }
    }
}

static void make_positions(rotate_run *run, const rotate_shape *s, uint32_t batch)
{
    uint32_t axes = run->rotary.axes;
    bool shared = s->positions == SHAPE_SHARED || s->positions == SHAPE_GRID;
    run->position_of = harness_alloc((size_t)axes * batch * s->rows, sizeof *run->position_of);
    shape_fill_positions(s->positions, s->position_first, batch, s->rows, run->position_of);
    fill_axes(s, axes, batch, run->position_of);
    if (s->positions == SHAPE_ARANGE) {
        return;
    }
    harness_make_tensor(&run->positions, RHUMB_I32, 1, axes, shared ? 1 : batch, s->rows,
                        (harness_layout){0});
    for (uint64_t i = 0; i < run->positions.count; i++) {
        uint64_t axis = i / ((shared ? 1 : batch) * s->rows);
        uint64_t at = i % ((shared ? 1 : batch) * s->rows);
        run->positions.values[i] = run->position_of[axis * batch * s->rows + at];
    }
    harness_store(&run->positions);
    (void)harness_add(&run->op, RHUMB_VIEW_POSITIONS_Q, &run->positions, false);
}

static void make_run(rotate_run *run, const rotate_shape *s)
{
    static const rhumb_view_id in_id[2] = {RHUMB_VIEW_Q, RHUMB_VIEW_K};
    static const rhumb_view_id out_id[2] = {RHUMB_VIEW_Q_OUT, RHUMB_VIEW_K_OUT};
    const uint32_t heads[2] = {s->heads, s->kv_heads};
    uint32_t batch = s->batch != 0 ? s->batch : 1;
    harness_random r = {.state = 1000 + s->head_dim + 7 * s->rows};
    memset(run, 0, sizeof *run);
    gpu_init_operation(&run->op, RHUMB_OP_ROTATE);
    make_rope(&run->rope, s);
    run->op.info.rotary = s->scheme != NULL ? s->scheme() : &run->rope;
    if (!verify_read_rotary(run->op.info.rotary, s->head_dim, 0, &run->rotary)) {
        fprintf(stderr, "the reference does not know the scheme of a row\n");
        abort();
    }
    run->op.info.heads = s->heads != 0 ? s->heads : s->kv_heads;
    run->op.info.kv_heads = s->kv_heads != 0 ? s->kv_heads : s->heads;
    run->op.info.head_dim = s->head_dim;
    run->op.info.max_q_length = s->rows;
    run->op.dispatch.inverse = s->inverse ? 1 : 0;
    if (s->positions == SHAPE_ARANGE && s->position_first != 0) {
        run->op.dispatch.q_offset = s->position_first;
    }
    if (s->q_length != 0) {
        run->op.dispatch.q_length = (int32_t)s->q_length;
    }
    make_positions(run, s, batch);
    for (int i = 0; i < 2; i++) {
        if (heads[i] == 0) {
            continue;
        }
        harness_make_tensor(&run->in[i], s->dtype, batch, heads[i], s->rows, s->head_dim,
                            s->layout);
        harness_fill_normal(&run->in[i], &r);
        harness_make_tensor(&run->before[i], s->dtype, batch, heads[i], s->rows, s->head_dim,
                            s->layout);
        memcpy(run->before[i].memory, run->in[i].memory, run->in[i].bytes);
        harness_load(&run->before[i]);
        (void)harness_add(&run->op, in_id[i], &run->in[i], s->in_place);
        if (!s->in_place) {
            harness_make_tensor(&run->out[i], s->out_differs ? s->out_dtype : s->dtype, batch,
                                heads[i], s->rows, s->head_dim, s->out_layout);
            (void)harness_add(&run->op, out_id[i], &run->out[i], true);
        }
    }
}

static void free_run(rotate_run *run)
{
    for (int i = 0; i < 2; i++) {
        harness_free_tensor(&run->in[i]);
        harness_free_tensor(&run->out[i]);
        harness_free_tensor(&run->before[i]);
    }
    harness_free_tensor(&run->positions);
    free(run->position_of);
}

static const char *scheme_name(const rotate_run *run)
{
    switch (run->rotary.type) {
    case RHUMB_TYPE_XPOS:
        return "xpos";
    case RHUMB_TYPE_MROPE:
        return "mrope";
    case RHUMB_TYPE_ROPE2D:
        return "rope2d";
    default:
        return "rope";
    }
}

static void describe(const rotate_run *run, const rotate_shape *s, char *text, size_t size)
{
    static const char *const positions[] = {"arange",   "[L]",     "[B,L]",    "left pad",
                                            "jumps",    "repeats", "negative", "anywhere",
                                            "reversed", "grid",    "apart"};
    static const char *const pairings[] = {"interleaved", "half", "interleaved to half",
                                           "half per axis"};
    snprintf(
        text, size,
        "%s B%u H%u/%u L%u D%u R%u+%u %s %s%s%s positions %s from %d, rows %s pad %u offset %u, "
        "factor %g magnitude %g length %u",
        scheme_name(run), s->batch != 0 ? s->batch : 1, s->heads, s->kv_heads, s->rows, s->head_dim,
        run->rotary.rope.rotary_offset, run->rotary.rope.rotary_dim,
        pairings[run->rotary.rope.pairing], harness_dtype_name(s->dtype),
        s->in_place ? " in place" : "", s->inverse ? " inverse" : "", positions[s->positions],
        (int)s->position_first, s->layout.by_rows ? "[B,L,H,D]" : "[B,H,L,D]", s->layout.row_pad,
        s->layout.offset, s->factor, s->magnitude, s->q_length);
}

/* The two channels of the window, and the pair, that make its channel `turned`. */
static uint32_t inputs_of(const ref_rope *rope, uint32_t turned, uint32_t from[2])
{
    uint32_t n = rope->rotary_dim / 2, quarter = n / 2, first = turned / n * n;
    switch (rope->pairing) {
    case REF_PAIRING_HALF:
        from[0] = turned % n;
        from[1] = from[0] + n;
        return turned % n;
    case REF_PAIRING_INTERLEAVED_TO_HALF:
        from[0] = 2 * (turned % n);
        from[1] = from[0] + 1;
        return turned % n;
    case REF_PAIRING_HALF_PER_AXIS:
        from[0] = first + (turned - first) % quarter;
        from[1] = from[0] + quarter;
        return first / 2 + (turned - first) % quarter;
    default:
        from[0] = turned & ~1u;
        from[1] = turned | 1u;
        return turned / 2;
    }
}

/* What a pair of XPos is multiplied by, and the relative error of that: Vulkan allows exp2(x) 3 + 2
 * |x| units in the last place, and x carries three roundings. */
static double growth_of(const verify_rotary *r, uint32_t pair, double position, bool keys,
                        double *error)
{
    double width = r->rope.rotary_dim;
    double zeta = (2.0 * pair + r->xpos.gamma * width) / ((1.0 + r->xpos.gamma) * width);
    double x = log2(zeta) * (position - r->xpos.centre) / r->xpos.scale_base;
    *error = 0.0;
    if (r->type != RHUMB_TYPE_XPOS) {
        return r->rope.magnitude;
    }
    *error = (3.0 + 3.1 * fabs(x)) * 0x1p-23;
    return exp2(keys ? -x : x);
}

void shape_rotate_bounds(const verify_rotary *rotary, const int32_t *positions, bool keys,
                         const harness_tensor *in, rhumb_dtype out, const double *want,
                         double *bound)
{
    const ref_rope *rope = &rotary->rope;
    const uint64_t head_dim = in->shape[3], rows = in->shape[2];
    for (uint64_t i = 0; i < in->count; i++) {
        uint64_t channel = i % head_dim, row = i - channel;
        uint64_t l = i / head_dim % rows, b = i / head_dim / rows / in->shape[1];
        uint64_t turned = channel - rope->rotary_offset;
        uint32_t from[2], pair;
        double growth, error;
        if (channel < rope->rotary_offset || turned >= rope->rotary_dim) {
            bound[i] = in->dtype == out ? 0.0 : harness_rounding(out, want[i]);
            continue;
        }
        pair = inputs_of(rope, (uint32_t)turned, from);
        growth = growth_of(rotary, pair, positions[b * rows + l], keys, &error);
        bound[i] = (ROTATE_UNIT_ERROR + error) * growth *
                   (fabs(in->values[row + rope->rotary_offset + from[0]]) +
                    fabs(in->values[row + rope->rotary_offset + from[1]]));
        bound[i] += harness_rounding(out, fabs(want[i]) + bound[i]);
    }
}

/* Rows that the dispatch leaves out hold what was there. */
static bool check_untouched(harness *h, const rotate_shape *s, const char *shape,
                            harness_tensor *got, const harness_tensor *before)
{
    uint32_t length = s->q_length != 0 ? s->q_length : s->rows;
    uint64_t size = harness_dtype_size(got->dtype);
    harness_tensor canary;
    const uint8_t *want;
    bool same = true;
    harness_make_tensor(&canary, got->dtype, got->shape[0], got->shape[1], got->shape[2],
                        got->shape[3], s->in_place ? s->layout : s->out_layout);
    want = s->in_place ? before->memory : canary.memory;
    for (uint64_t i = 0; same && i < got->count; i++) {
        uint64_t at = harness_byte(got, i);
        if (i / s->head_dim % s->rows >= length && memcmp(got->memory + at, want + at, size) != 0) {
            same = harness_fail(h, "rotate: %s: element %llu lies beyond q_length and was written",
                                shape, (unsigned long long)i);
        }
    }
    harness_free_tensor(&canary);
    return same;
}

static bool compare(harness *h, const rotate_shape *s, rotate_run *run, int which,
                    const char *shape)
{
    harness_tensor *out = s->in_place ? &run->in[which] : &run->out[which];
    const harness_tensor *in = &run->before[which];
    double *want = harness_alloc(in->count, sizeof *want);
    double *bound = harness_alloc(in->count, sizeof *bound);
    bool *skip = harness_alloc(in->count, sizeof *skip);
    uint32_t length = s->q_length != 0 ? s->q_length : s->rows;
    const verify_rows rows = {.batch = (uint32_t)in->shape[0],
                              .heads = (uint32_t)in->shape[1],
                              .rows = s->rows,
                              .head_dim = s->head_dim,
                              .positions = run->position_of,
                              .inverse = s->inverse,
                              .keys = which == 1};
    bool passed;
    harness_load(out);
    if (!verify_rotate(&run->rotary, &rows, in->values, want)) {
        passed = harness_fail(h, "rotate: %s: the reference refused it", shape);
    } else {
        shape_rotate_bounds(&run->rotary, run->position_of, which == 1, in, out->dtype, want,
                            bound);
        for (uint64_t i = 0; i < in->count; i++) {
            skip[i] = i / s->head_dim % s->rows >= length;
        }
        passed = harness_compare(h, which == 0 ? "rotate Q" : "rotate K", shape, out, want, bound,
                                 skip) &&
                 check_untouched(h, s, shape, out, in);
    }
    free(want);
    free(bound);
    free(skip);
    return passed;
}

bool shape_run_rotate(harness *h, const rotate_shape *s)
{
    rotate_run run;
    char shape[256];
    rhumb_result result;
    bool passed = true;
    make_run(&run, s);
    describe(&run, s, shape, sizeof shape);
    if (!harness_wants(h, &run.op)) {
        free_run(&run);
        return true;
    }
    h->cases++;
    result = harness_run(h, &run.op);
    if (result != RHUMB_OK) {
        passed =
            harness_fail(h, "rotate: %s: %s: %s", shape, rhumb_result_name(result), run.op.message);
    }
    for (int i = 0; passed && i < 2; i++) {
        if (run.in[i].count != 0) {
            passed = compare(h, s, &run, i, shape);
        }
    }
    free_run(&run);
    return passed;
}

bool shape_rotate(harness *h, const void *rotary, uint32_t axes, const int32_t *positions,
                  harness_tensor *x, harness_tensor *y, uint32_t inverse)
{
    gpu_operation op;
    harness_tensor at;
    bool passed = true;
    harness_make_tensor(&at, RHUMB_I32, 1, axes, x->shape[0], x->shape[2], (harness_layout){0});
    for (uint64_t i = 0; i < at.count; i++) {
        at.values[i] = positions[i];
    }
    harness_store(&at);
    gpu_init_operation(&op, RHUMB_OP_ROTATE);
    op.info.rotary = rotary;
    op.info.heads = (uint32_t)x->shape[1];
    op.info.head_dim = (uint32_t)x->shape[3];
    op.info.max_q_length = (uint32_t)x->shape[2];
    op.dispatch.inverse = inverse;
    (void)harness_add(&op, RHUMB_VIEW_Q, x, y == NULL);
    if (y != NULL) {
        (void)harness_add(&op, RHUMB_VIEW_Q_OUT, y, true);
    }
    (void)harness_add(&op, RHUMB_VIEW_POSITIONS_Q, &at, false);
    h->cases++;
    if (harness_run(h, &op) != RHUMB_OK) {
        passed = harness_fail(h, "rotate: %s", op.message);
    }
    harness_load(y != NULL ? y : x);
    harness_free_tensor(&at);
    return passed;
}

void shape_add_positions(gpu_operation *op, rhumb_view_id id, harness_tensor *t,
                         const int32_t *positions, uint32_t batch, uint32_t rows)
{
    harness_make_tensor(t, RHUMB_I32, 1, 1, batch, rows, (harness_layout){0});
    for (uint64_t i = 0; i < t->count; i++)
        t->values[i] = positions[i];
    harness_store(t);
    (void)harness_add(op, id, t, false);
}
