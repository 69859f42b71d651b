/* Rotary embedding: Su et al., RoFormer (arXiv 2104.09864), section 3.2.2, with linear
 * interpolation (Chen et al., arXiv 2306.15595, section 3.2).
 *
 *     f_i = base^(-2i/R) / s, a = p f_i:  x' = m (x cos a - y sin a), y' = m (x sin a + y cos a)
 *
 * At p = 2^31 a frequency that is only rounded to double moves the angle by 2e-7. Frequencies are
 * therefore carried as the unevaluated sum of two doubles, and so is the product with p. This
 * relies on fma() being exact (C11 7.12.13.1), not on any wider type of the machine.
 */
#include "reference.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* high + low, |low| <= half a unit in the last place of high. */
typedef struct pair_sum {
    double high;
    double low;
} pair_sum;

static pair_sum fast_sum(double high, double low)
{
    pair_sum s;

    s.high = high + low;
    s.low = low - (s.high - high);
    return s;
}

static pair_sum times(pair_sum a, double b)
{
    const double product = a.high * b;

    return fast_sum(product, fma(a.high, b, -product) + a.low * b);
}

static pair_sum divided(pair_sum a, double b)
{
    const double quotient = a.high / b;
    const double remainder = fma(-quotient, b, a.high) + a.low;

    return fast_sum(quotient, remainder / b);
}

/* base^(-i/n): one Newton step for f^n base^i = 1 from the double nearest to it. The product is
 * formed in an order that keeps it near 1, so that no base and no n overflows it. */
static pair_sum negative_power(double base, uint32_t i, uint32_t n)
{
    const double start = pow(base, -(double)i / (double)n);
    pair_sum product = {1.0, 0.0};
    uint32_t powers = 0, bases = 0;
    double excess;

    while (powers < n || bases < i) {
        const int shrink = product.high > 1.0 ? base > 1.0 : base <= 1.0;
        if (bases == i || (powers < n && shrink)) {
            product = times(product, start);
            powers++;
        } else {
            product = times(product, base);
            bases++;
        }
    }
    excess = (product.high - 1.0) + product.low;
    return fast_sum(start, -start * excess / (double)n);
}

static pair_sum frequency(const ref_rope *rope, uint32_t i)
{
    pair_sum f = {0.0, 0.0};

    if (rope->inv_freq != NULL) {
        f.high = rope->inv_freq[i];
        return f;
    }
    return divided(negative_power(rope->base, i, rope->rotary_dim / 2), rope->factor);
}

/* cos and sin of p f. The library's cos and sin are right to a unit in the last place for every
 * double; the part of the product that does not fit one is below 2.4e-7 and goes through the
 * addition theorem. */
static void turn(double p, pair_sum f, double *cosine, double *sine)
{
    const double angle = p * f.high;
    const double rest = fma(p, f.high, -angle) + p * f.low;
    const double c = cos(angle), s = sin(angle);
    const double rest_c = cos(rest), rest_s = sin(rest);

    *cosine = c * rest_c - s * rest_s;
    *sine = s * rest_c + c * rest_s;
}

static int valid(const ref_rope *rope)
{
    if (rope->rotary_dim < 2 || rope->rotary_dim % 2 != 0)
        return 0;
    if (rope->inv_freq != NULL)
        return 1;
    return rope->base > 0.0 && isfinite(rope->base) && rope->factor > 0.0 && isfinite(rope->factor);
}

void ref_rope_init(ref_rope *rope, uint32_t rotary_dim)
{
    memset(rope, 0, sizeof *rope);
    rope->pairing = REF_PAIRING_HALF;
    rope->rotary_dim = rotary_dim;
    rope->base = 10000.0;
    rope->factor = 1.0;
    rope->magnitude = 1.0;
}

int ref_rope_frequencies(const ref_rope *rope, double *inv_freq)
{
    uint32_t i;

    if (!valid(rope))
        return -1;
    for (i = 0; i < rope->rotary_dim / 2; i++)
        inv_freq[i] = frequency(rope, i).high;
    return 0;
}

int ref_rope_angles(const ref_rope *rope, int64_t position, double *cosines, double *sines)
{
    uint32_t i;

    if (!valid(rope))
        return -1;
    for (i = 0; i < rope->rotary_dim / 2; i++)
        turn((double)position, frequency(rope, i), &cosines[i], &sines[i]);
    return 0;
}

static void rotate_row(const ref_rope *rope, uint32_t head_dim, const double *cosines,
                       const double *sines, const double *x, double *y)
{
    const uint32_t n = rope->rotary_dim / 2, o = rope->rotary_offset;
    uint32_t i;

    if (x != y)
        memcpy(y, x, head_dim * sizeof *y);
    for (i = 0; i < n; i++) {
        const int half = rope->pairing == REF_PAIRING_HALF;
        const uint32_t first = half ? o + i : o + 2 * i;
        const uint32_t second = half ? o + i + n : o + 2 * i + 1;
        const double c = rope->magnitude * cosines[i], s = rope->magnitude * sines[i];
        const double a = x[first], b = x[second];

        y[first] = a * c - b * s;
        y[second] = a * s + b * c;
    }
}

/* All heads of one token share its angles. */
static void rotate_token(const ref_rope *rope, const pair_sum *frequencies, double *cosines,
                         double *sines, double position, int inverse)
{
    uint32_t i;

    for (i = 0; i < rope->rotary_dim / 2; i++) {
        turn(position, frequencies[i], &cosines[i], &sines[i]);
        if (inverse)
            sines[i] = -sines[i];
    }
}

int ref_rotate(const ref_rope *rope, uint32_t batch, uint32_t heads, uint32_t rows,
               uint32_t head_dim, const int32_t *positions, int inverse, const double *x, double *y)
{
    const uint32_t n = rope->rotary_dim / 2;
    pair_sum *frequencies;
    double *cosines, *sines;
    uint32_t b, h, l, i;

    if (!valid(rope) || (uint64_t)rope->rotary_offset + rope->rotary_dim > head_dim)
        return -1;
    frequencies = malloc(n * sizeof *frequencies);
    cosines = malloc(2 * (size_t)n * sizeof *cosines);
    if (frequencies == NULL || cosines == NULL) {
        free(frequencies);
        free(cosines);
        return -1;
    }
    sines = cosines + n;
    for (i = 0; i < n; i++)
        frequencies[i] = frequency(rope, i);
    for (b = 0; b < batch; b++) {
        for (l = 0; l < rows; l++) {
            rotate_token(rope, frequencies, cosines, sines,
                         (double)positions[(uint64_t)b * rows + l], inverse);
            for (h = 0; h < heads; h++) {
                const uint64_t row = (((uint64_t)b * heads + h) * rows + l) * head_dim;
                rotate_row(rope, head_dim, cosines, sines, x + row, y + row);
            }
        }
    }
    free(frequencies);
    free(cosines);
    return 0;
}
