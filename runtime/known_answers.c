/* Inputs are multiples of 1/64, so that every format holds them; answers follow the plain
 * definitions in double. Nothing here is shared with the kernels or with the reference of the
 * tests. */
#include "known_answers.h"

#include <math.h>
#include <stdio.h>

#define BATCH 2
#define HEADS 6 /* more than the rotation takes at once, and 3 to a kv head */
#define KV_HEADS 2
#define KEYS 43 /* tiles of 8, 16 and 32 keys: seen by all rows of one, by some, and a last part */
#define ROTARY_DIM 16
#define ROTARY_BASE 65536.0 /* pair i turns by exactly p / 4^i: the answers need no reduction */
#define SHARPNESS 1.0f      /* softmax scale: a few keys of a row weigh more than all others */
#define MOST_CHANNELS 33

#define ROTATE_BOUND 1e-6     /* as README promises for values of order 1 */
#define ATTENTION_BOUND 2e-5  /* exp2 of 3 + 2 |x| ulp, as Vulkan allows it, for |x| up to 20 */
#define HALF_ULP 4.8828125e-4 /* rounding to float16, as a part of the value */

static const int32_t positions[] = {0, 1, -3, 8191, 1000003, INT32_MAX, -INT32_MAX};
#define ROTATE_ROWS (sizeof positions / sizeof positions[0])

/* Vector accesses follow from the head size; the generic form takes one that is odd, so that rows
 * share words. Rows per kv head: two tiles of 64 for the tile form, few enough for decode. */
const rhumb_known rhumb_knowns[RHUMB_KNOWN_COUNT] = {
    {RHUMB_SELF_TEST_ROTATE, "rotate, scalar, half pairing", RHUMB_OP_ROTATE, RHUMB_VARIANT_AUTO, 0,
     RHUMB_PAIRING_HALF, 5, 23, 23, ROTATE_ROWS},
    {RHUMB_SELF_TEST_ROTATE, "rotate, scalar, interleaved pairing", RHUMB_OP_ROTATE,
     RHUMB_VARIANT_AUTO, 0, RHUMB_PAIRING_INTERLEAVED, 5, 23, 23, ROTATE_ROWS},
    {RHUMB_SELF_TEST_ROTATE_VECTOR, "rotate, vectors, half pairing", RHUMB_OP_ROTATE,
     RHUMB_VARIANT_AUTO, 0, RHUMB_PAIRING_HALF, 4, 24, 24, ROTATE_ROWS},
    {RHUMB_SELF_TEST_ROTATE_VECTOR, "rotate, vectors, interleaved pairing", RHUMB_OP_ROTATE,
     RHUMB_VARIANT_AUTO, 0, RHUMB_PAIRING_INTERLEAVED, 4, 24, 24, ROTATE_ROWS},
    {RHUMB_SELF_TEST_ATTENTION_GENERIC, "attention, generic form", RHUMB_OP_ATTENTION,
     RHUMB_VARIANT_GENERIC, 0, RHUMB_PAIRING_HALF, 0, MOST_CHANNELS, 17, 23},
    {RHUMB_SELF_TEST_ATTENTION_TILE, "attention, tile form", RHUMB_OP_ATTENTION, RHUMB_VARIANT_TILE,
     RHUMB_SELF_TEST_ATTENTION_TILE_SUBGROUP, RHUMB_PAIRING_HALF, 0, 32, 16, 23},
    {RHUMB_SELF_TEST_ATTENTION_TILE_SUBGROUP, "attention, tile form with shuffles",
     RHUMB_OP_ATTENTION, RHUMB_VARIANT_TILE, RHUMB_SELF_TEST_ATTENTION_TILE, RHUMB_PAIRING_HALF, 0,
     32, 16, 23},
    {RHUMB_SELF_TEST_ATTENTION_DECODE, "attention, decode form", RHUMB_OP_ATTENTION,
     RHUMB_VARIANT_DECODE, 0, RHUMB_PAIRING_HALF, 0, 32, 16, 2},
};

/* ---- Shapes */
void rhumb_known_tensors(const rhumb_known *k, rhumb_known_tensor t[RHUMB_KNOWN_TENSORS])
{
    const bool rotate = k->op == RHUMB_OP_ROTATE;
    const uint32_t keys = rotate ? k->rows : KEYS;
    const rhumb_known_tensor common[] = {
        {RHUMB_VIEW_Q, RHUMB_F32, {BATCH, HEADS, k->rows, k->head_dim}, 0},
        {RHUMB_VIEW_K, RHUMB_F16, {BATCH, KV_HEADS, keys, k->head_dim}, 0},
    };
    const rhumb_known_tensor rotation[] = {
        {RHUMB_VIEW_K_OUT, RHUMB_F16, {BATCH, KV_HEADS, keys, k->head_dim}, 0},
        {RHUMB_VIEW_POSITIONS_Q, RHUMB_I32, {1, 1, 1, k->rows}, 0},
    };
    const rhumb_known_tensor attention[] = {
        {RHUMB_VIEW_V, RHUMB_F16, {BATCH, KV_HEADS, keys, k->value_dim}, 0},
        {RHUMB_VIEW_O, RHUMB_F32, {BATCH, HEADS, k->rows, k->value_dim}, 0},
    };
    memcpy(t, common, sizeof common);
    memcpy(t + 2, rotate ? rotation : attention, sizeof rotation);
}

/* Nothing but what the operation writes. */
static bool is_result(const rhumb_known_tensor *t)
{
    return t->id == RHUMB_VIEW_O || t->id == RHUMB_VIEW_K_OUT;
}

static uint64_t count_of(const rhumb_known_tensor *t)
{
    return (uint64_t)t->shape[0] * t->shape[1] * t->shape[2] * t->shape[3];
}

uint64_t rhumb_known_bytes(const rhumb_known_tensor *t)
{
    return count_of(t) * rhumb_dtype_size(t->dtype);
}

void rhumb_known_plan(const rhumb_known *k, rhumb_plan_info *info, rhumb_rope *rope)
{
    rhumb_init_rope(rope);
    rope->pairing = k->pairing;
    rope->rotary_dim = ROTARY_DIM;
    rope->rotary_offset = k->rotary_offset;
    rope->base = ROTARY_BASE;
    rhumb_init_plan_info(info, k->op);
    info->variant = k->variant;
    info->rotary = k->op == RHUMB_OP_ROTATE ? rope : NULL;
    info->heads = HEADS;
    info->kv_heads = KV_HEADS;
    info->head_dim = k->head_dim;
    info->value_dim = k->value_dim;
    info->max_q_length = k->rows;
    info->max_k_length = KEYS;
    info->scale = SHARPNESS;
}

/* ---- Inputs */

/* Element `index` of an input: a multiple of 1/64 in [-1, 1]. */
static double sample(rhumb_view_id id, uint64_t index)
{
    uint32_t x = ((uint32_t)index * 8 + (uint32_t)id + 1) * 2654435769u;
    x = (x ^ x >> 15) * 2246822519u;
    x ^= x >> 13;
    return ((int)(x % 129) - 64) / 64.0;
}

/* Of a sample, which is exact. */
static uint16_t half_of(double value)
{
    int exponent;
    double fraction = frexp(fabs(value), &exponent);
    uint32_t bits = value == 0 ? 0 : (uint32_t)(exponent + 13) * 1024 + (uint32_t)(fraction * 2048);
    return (uint16_t)(bits | (value < 0 ? 0x8000u : 0));
}

static double value_of_half(uint16_t half)
{
    int exponent = half >> 10 & 31, fraction = half & 1023;
    double value = exponent == 31 ? NAN
                   : exponent     ? ldexp(fraction + 1024, exponent - 25)
                                  : ldexp(fraction, -24);
    return half & 0x8000 ? -value : value;
}

void rhumb_known_write(const rhumb_known_tensor *t, uint8_t *memory)
{
    const uint32_t size = rhumb_dtype_size(t->dtype);
    uint8_t *at = memory + t->offset;
    if (is_result(t)) {
        memset(at, 0xff, (size_t)rhumb_known_bytes(t)); /* NaN in both formats */
        return;
    }
    for (uint64_t i = 0; i < count_of(t); i++, at += size) {
        const float value = (float)sample(t->id, i);
        const uint16_t half = half_of(value);
        const void *from = t->dtype == RHUMB_I32   ? (const void *)&positions[i]
                           : t->dtype == RHUMB_F16 ? (const void *)&half
                                                   : (const void *)&value;
        memcpy(at, from, size);
    }
}

static double read_element(const rhumb_known_tensor *t, const uint8_t *memory, uint64_t index)
{
    const uint8_t *at = memory + t->offset + index * rhumb_dtype_size(t->dtype);
    float value;
    uint16_t half;
    if (t->dtype == RHUMB_F16) {
        memcpy(&half, at, sizeof half);
        return value_of_half(half);
    }
    memcpy(&value, at, sizeof value);
    return (double)value;
}

/* ---- Answers: one row of an output */
static double input(const rhumb_known_tensor *t, uint32_t b, uint32_t h, uint32_t row,
                    uint32_t channel)
{
    uint64_t first = ((uint64_t)b * t->shape[1] + h) * t->shape[2] + row;
    return sample(t->id, first * t->shape[3] + channel);
}

/* x' = x cos - y sin, y' = x sin + y cos in the pairs of the window; the rest as it was. */
static void answer_rotation(const rhumb_known *k, const rhumb_known_tensor *from, uint32_t b,
                            uint32_t h, uint32_t row, double *want)
{
    const bool half = k->pairing == RHUMB_PAIRING_HALF;
    for (uint32_t d = 0; d < k->head_dim; d++)
        want[d] = input(from, b, h, row, d);
    for (uint32_t i = 0; i < ROTARY_DIM / 2; i++) {
        double *x = want + k->rotary_offset + (half ? i : 2 * i);
        double *y = x + (half ? ROTARY_DIM / 2 : 1);
        /* Exact in a double, and libm's functions are good for arguments of any size. */
        const double angle = ldexp(positions[row], -2 * (int)i);
        const double turned = *x * cos(angle) - *y * sin(angle);
        *y = *x * sin(angle) + *y * cos(angle);
        *x = turned;
    }
}

static void answer_attention(const rhumb_known *k, const rhumb_known_tensor *tensors, uint32_t b,
                             uint32_t h, uint32_t row, double *want)
{
    const uint32_t kv = h / (HEADS / KV_HEADS);
    const uint32_t visible = row + 1 + KEYS - k->rows; /* bottom-right */
    double weight[KEYS], sum = 0;
    for (uint32_t j = 0; j < visible; j++) {
        double logit = 0;
        for (uint32_t d = 0; d < k->head_dim; d++)
            logit += input(&tensors[0], b, h, row, d) * input(&tensors[1], b, kv, j, d);
        sum += weight[j] = exp((double)SHARPNESS * logit); /* |logit| <= 33 */
    }
    for (uint32_t d = 0; d < k->value_dim; d++) {
        want[d] = 0;
        for (uint32_t j = 0; j < visible; j++)
            want[d] += weight[j] / sum * input(&tensors[2], b, kv, j, d);
    }
}

/* ---- Comparison */
static void compare_row(const rhumb_known *k, const rhumb_known_tensor *t, uint64_t first,
                        const uint8_t *memory, const double *want, rhumb_known_findings *f)
{
    const bool rotated = k->op == RHUMB_OP_ROTATE;
    for (uint32_t d = 0; d < t->shape[3]; d++) {
        const double got = read_element(t, memory, first + d);
        const double rounding = t->dtype == RHUMB_F16 ? HALF_ULP * fabs(want[d]) : 0;
        const double error = isfinite(got) ? (fabs(got - want[d]) - rounding) /
                                                 (rotated ? ROTATE_BOUND : ATTENTION_BOUND)
                                           : INFINITY;
        if (error > 1 && !f->wrong++)
            snprintf(f->line, sizeof f->line, "%s: element %llu of %s: got %.7g, want %.7g",
                     k->name, (unsigned long long)(first + d),
                     rhumb_view_rules[t->id].name, got, want[d]);
        f->worst = error > f->worst ? error : f->worst;
    }
}

void rhumb_known_compare(const rhumb_known *k, const rhumb_known_tensor *tensors,
                         const uint8_t *memory, rhumb_known_findings *f)
{
    double want[MOST_CHANNELS];
    f->wrong = 0;
    for (uint32_t n = 0; n < RHUMB_KNOWN_TENSORS; n++) {
        const rhumb_known_tensor *t = &tensors[n];
        const bool rotated = k->op == RHUMB_OP_ROTATE;
        if (!is_result(t) && !(rotated && t->id == RHUMB_VIEW_Q))
            continue;
        for (uint64_t r = 0; r < count_of(t) / t->shape[3]; r++) {
            const uint32_t row = (uint32_t)(r % t->shape[2]);
            const uint32_t h = (uint32_t)(r / t->shape[2] % t->shape[1]);
            const uint32_t b = (uint32_t)(r / t->shape[2] / t->shape[1]);
            if (!rotated)
                answer_attention(k, tensors, b, h, row, want);
            else /* Q from itself, K_OUT from K */
                answer_rotation(k, &tensors[n / 2], b, h, row, want);
            compare_row(k, t, r * t->shape[3], memory, want, f);
        }
    }
}
