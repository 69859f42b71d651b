#include "shapes_norm.h"

#include "reference.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define REFUSED "the reference refuses a shape"

typedef struct norm_side {
    harness_tensor in, out, before, gain;
    double *want;
    double *bound;
    uint32_t heads;
    bool normed;
} norm_side;

#define APPENDED_TO 2u

/* Relative error of x / sqrt(mean(x^2) + epsilon) (offset + gain) in float32, in units of 2^-24: a
 * square has been through at most D roundings when the sum is done, and the root halves that;
 * division 5, epsilon 1, halved as well; the inverse root 4; a sum and two products 3. */
static double norm_error(uint32_t head_dim)
{
    return (0.5 * head_dim + 3.0 + 4.0 + 3.0) * 0x1p-24;
}

static uint32_t partner_of(const ref_rope *rope, uint32_t turned)
{
    uint32_t half = rope->rotary_dim / 2;
    if (rope->pairing == REF_PAIRING_INTERLEAVED) {
        return turned ^ 1u;
    }
    return turned < half ? turned + half : turned - half;
}

/* What the side becomes, and how far from it float32 may be: 1e-6 of |x| + |y| for the rotation, as
 * in shapes_rotate.c, the norm's error beside it. TO_HALF moves what INTERLEAVED makes. */
static void expect(const norm_shape *s, norm_side *side, const int32_t *positions)
{
    uint32_t batch = s->batch != 0 ? s->batch : 1, dim = s->head_dim;
    bool to_half = s->pairing == RHUMB_PAIRING_INTERLEAVED_TO_HALF;
    double error = side->normed ? norm_error(dim) : 0.0;
    double *x = harness_alloc(side->in.count, sizeof *x);
    ref_rope rope;
    ref_rope_init(&rope, s->rotary_dim != 0 ? s->rotary_dim : dim);
    rope.pairing = (ref_pairing)s->pairing;
    rope.rotary_offset = s->rotary_offset;
    side->want = harness_alloc(side->in.count, sizeof *side->want);
    side->bound = harness_alloc(side->in.count, sizeof *side->bound);
    memcpy(x, side->before.values, side->in.count * sizeof *x);
    if (side->normed) {
        harness_need(ref_rms_norm(batch, side->heads, s->rows, dim, side->gain.values,
                                  (uint32_t)side->gain.shape[2], s->gain_offset,
                                  (double)(float)(s->epsilon > 0.0 ? s->epsilon : 1e-6), x, x) == 0,
                     REFUSED);
    }
    harness_need(ref_rotate(&rope, batch, side->heads, s->rows, dim, positions, 0, x, side->want) ==
                     0,
                 REFUSED);
    for (uint64_t i = 0; i < side->in.count; i++) {
        uint64_t row = i / dim * dim + rope.rotary_offset, turned = i - row;
        double around = fabs(x[i]) * error;
        if (i >= row && turned < rope.rotary_dim) {
            uint32_t n = rope.rotary_dim / 2;
            uint32_t a = to_half ? 2 * (uint32_t)(turned % n) : (uint32_t)turned;
            uint32_t b = to_half ? a + 1 : partner_of(&rope, a);
            around = (1e-6 + error) * (fabs(x[row + a]) + fabs(x[row + b]));
        }
        bool copied = !side->normed && !(i >= row && turned < rope.rotary_dim);
        side->bound[i] =
            copied ? 0.0 : around + harness_rounding(s->dtype, fabs(side->want[i]) + around);
    }
    free(x);
}

static void make_side(const norm_shape *s, norm_side *side, bool keys, gpu_operation *op,
                      harness_random *r)
{
    uint32_t batch = s->batch != 0 ? s->batch : 1;
    bool append = keys && s->append;
    side->heads = keys ? s->kv_heads : s->heads;
    side->normed = !(keys ? s->no_k_gain : s->no_q_gain);
    harness_make_tensor(&side->in, s->dtype, batch, side->heads, s->rows, s->head_dim, s->layout);
    for (uint64_t i = 0; i < side->in.count; i++) {
        side->in.values[i] = harness_normal(r) * (s->size > 0.0 ? s->size : 1.0);
    }
    harness_store(&side->in);
    harness_make_tensor(&side->before, s->dtype, batch, side->heads, s->rows, s->head_dim,
                        s->layout);
    memcpy(side->before.memory, side->in.memory, side->in.bytes);
    harness_load(&side->before);
    (void)harness_add(op, keys ? RHUMB_VIEW_K : RHUMB_VIEW_Q, &side->in, s->in_place);
    if (!s->in_place) {
        harness_make_tensor(&side->out, s->dtype, batch, side->heads,
                            s->rows + (append ? APPENDED_TO + 1 : 0), s->head_dim, s->out_layout);
        (void)harness_add(op, keys ? RHUMB_VIEW_K_OUT : RHUMB_VIEW_Q_OUT, &side->out, true);
    }
    if (side->normed) {
        harness_make_tensor(&side->gain, s->gain_dtype, 1, 1, s->apart ? side->heads : 1,
                            s->head_dim, (harness_layout){0});
        for (uint64_t i = 0; i < side->gain.count; i++) {
            side->gain.values[i] = harness_uniform(r, -0.5, 1.5);
        }
        harness_store(&side->gain);
        (void)harness_add(op, keys ? RHUMB_VIEW_K_GAIN : RHUMB_VIEW_Q_GAIN, &side->gain, false);
    }
}

/* An appended row is behind APPENDED_TO others. */
static bool compare(harness *h, const norm_shape *s, norm_side *side, bool keys, const char *text)
{
    harness_tensor *out = s->in_place ? &side->in : &side->out;
    uint32_t length = s->q_length != 0 ? s->q_length : s->rows;
    uint32_t first = keys && s->append ? APPENDED_TO : 0;
    harness_load(out);
    for (uint64_t i = 0; i < side->in.count; i++) {
        uint64_t row = i / s->head_dim, b = row / s->rows / side->heads;
        uint64_t at = harness_index(out, b, row / s->rows % side->heads, row % s->rows + first,
                                    i % s->head_dim);
        if (row % s->rows < length &&
            !harness_note(h, out->dtype, fabs(out->values[at] - side->want[i]), side->bound[i])) {
            return harness_fail(h, "%s, %c: element %llu: got %.9g, want %.9g, bound %.3g", text,
                                keys ? 'K' : 'Q', (unsigned long long)i, out->values[at],
                                side->want[i], side->bound[i]);
        }
    }
    return true;
}

static void free_side(norm_side *side)
{
    harness_free_tensor(&side->in);
    harness_free_tensor(&side->out);
    harness_free_tensor(&side->before);
    harness_free_tensor(&side->gain);
    free(side->want);
    free(side->bound);
}

bool shape_run_norm(harness *h, const norm_shape *s)
{
    uint32_t batch = s->batch != 0 ? s->batch : 1;
    harness_random r = {.state = 21 + s->head_dim};
    int32_t *positions = harness_alloc((size_t)batch * s->rows, sizeof *positions);
    norm_side sides[2];
    harness_tensor v = {0}, v_out = {0};
    gpu_operation op;
    rhumb_rope rope;
    char text[256];
    memset(sides, 0, sizeof sides);
    snprintf(text, sizeof text,
             "norm B%u H%u/%u L%u D%u R%u+%u pairing %d %s gain %s%s%s offset %g", batch, s->heads,
             s->kv_heads, s->rows, s->head_dim, s->rotary_offset, s->rotary_dim, (int)s->pairing,
             harness_dtype_name(s->dtype), harness_dtype_name(s->gain_dtype),
             s->apart ? " of each head" : "", s->in_place ? " in place" : "", s->gain_offset);
    rhumb_init_rope(&rope);
    rope.pairing = s->pairing;
    rope.rotary_dim = s->rotary_dim != 0 ? s->rotary_dim : RHUMB_WHOLE_HEAD;
    rope.rotary_offset = s->rotary_offset;
    gpu_init_operation(&op, RHUMB_OP_ROTATE);
    op.info.rotary = &rope;
    op.info.heads = s->heads != 0 ? s->heads : s->kv_heads;
    op.info.kv_heads = s->kv_heads != 0 ? s->kv_heads : s->heads;
    op.info.head_dim = s->head_dim;
    op.info.max_q_length = s->rows;
    op.info.gain_offset = (float)s->gain_offset;
    if (s->epsilon > 0.0) {
        op.info.norm_epsilon = (float)s->epsilon;
    }
    op.dispatch.q_offset = s->position_first;
    if (s->q_length != 0) {
        op.dispatch.q_length = (int32_t)s->q_length;
    }
    for (uint32_t i = 0; i < batch * s->rows; i++) {
        positions[i] = s->position_first + (int32_t)(i % s->rows);
    }
    for (int keys = 0; keys < 2; keys++) {
        if ((keys ? s->kv_heads : s->heads) != 0) {
            make_side(s, &sides[keys], keys == 1, &op, &r);
            expect(s, &sides[keys], positions);
        }
    }
    if (s->append) {
        op.info.append = RHUMB_APPEND_POSITION;
        op.dispatch.append_position = APPENDED_TO;
        op.info.value_dim = 40;
        harness_make_tensor(&v, s->dtype, batch, s->kv_heads, s->rows, 40, s->layout);
        harness_make_tensor(&v_out, s->dtype, batch, s->kv_heads, s->rows + APPENDED_TO + 1, 40,
                            s->out_layout);
        harness_fill_normal(&v, &r);
        (void)harness_add(&op, RHUMB_VIEW_V, &v, false);
        (void)harness_add(&op, RHUMB_VIEW_V_OUT, &v_out, true);
    }
    bool wanted = harness_wants(h, &op);
    h->cases += wanted;
    bool ran = wanted && (harness_run(h, &op) == RHUMB_OK ||
                          harness_fail(h, "%s: %s", text, op.message));
    for (int keys = 0; ran && keys < 2; keys++) {
        if (sides[keys].in.count != 0) {
            ran = compare(h, s, &sides[keys], keys == 1, text);
        }
    }
    if (ran && s->append) {
        harness_load(&v_out);
        for (uint64_t i = 0; ran && i < v.count; i++) {
            uint64_t row = i / 40;
            uint64_t at =
                harness_index(&v_out, row / s->rows / s->kv_heads, row / s->rows % s->kv_heads,
                              row % s->rows + APPENDED_TO, i % 40);
            ran = v_out.values[at] == v.values[i] ||
                  harness_fail(h, "%s: element %llu of V was not copied", text,
                               (unsigned long long)i);
        }
    }
    for (int keys = 0; keys < 2; keys++) {
        free_side(&sides[keys]);
    }
    harness_free_tensor(&v);
    harness_free_tensor(&v_out);
    free(positions);
    return ran || !wanted;
}
