/* Arithmetic of two doubles: Dekker (1971), with Knuth's sum and fma() for the products. */
#include "pair_sum.h"

#include <math.h>

static pair_sum fast_sum(double high, double low)
{
    pair_sum s;

    s.high = high + low;
    s.low = low - (s.high - high);
    return s;
}

pair_sum ref_pair(double value)
{
    pair_sum s = {value, 0.0};

    return s;
}

pair_sum ref_pair_two_pi(void)
{
    pair_sum s = {6.283185307179586, 2.4492935982947064e-16};

    return s;
}

pair_sum ref_pair_add(pair_sum a, pair_sum b)
{
    const double sum = a.high + b.high, of_b = sum - a.high;
    const double lost = (a.high - (sum - of_b)) + (b.high - of_b);

    return fast_sum(sum, lost + (a.low + b.low));
}

pair_sum ref_pair_subtract(pair_sum a, pair_sum b)
{
    b.high = -b.high;
    b.low = -b.low;
    return ref_pair_add(a, b);
}

pair_sum ref_pair_times(pair_sum a, pair_sum b)
{
    const double product = a.high * b.high;

    return fast_sum(product,
                    fma(a.high, b.high, -product) + (a.high * b.low + a.low * b.high));
}

pair_sum ref_pair_divided(pair_sum a, pair_sum b)
{
    const double quotient = a.high / b.high;
    const pair_sum rest = ref_pair_subtract(a, ref_pair_times(ref_pair(quotient), b));

    return fast_sum(quotient, rest.high / b.high);
}

int ref_pair_compare(pair_sum a, pair_sum b)
{
    if (a.high != b.high)
        return a.high < b.high ? -1 : 1;
    return (a.low > b.low) - (a.low < b.low);
}

pair_sum ref_pair_floor(pair_sum a)
{
    const double whole = floor(a.high);

    return ref_pair(whole == a.high && a.low < 0.0 ? whole - 1.0 : whole);
}

/* a = 2^e m, m within sqrt(1/2) and sqrt(2): ln a = e ln 2 + 2 artanh((m - 1)/(m + 1)), whose
 * argument is at most 0.172 and whose series is done after 30 terms. */
pair_sum ref_pair_log(pair_sum a)
{
    static const pair_sum ln_two = {0.6931471805599453, 2.3190468138462996e-17};
    pair_sum m, t, square, series = {0.0, 0.0};
    int exponent, k;

    (void)frexp(a.high, &exponent);
    m.high = ldexp(a.high, -exponent);
    m.low = ldexp(a.low, -exponent);
    if (m.high < 0.7071067811865476) {
        m.high *= 2.0;
        m.low *= 2.0;
        exponent--;
    }
    t = ref_pair_divided(ref_pair_subtract(m, ref_pair(1.0)), ref_pair_add(m, ref_pair(1.0)));
    square = ref_pair_times(t, t);
    for (k = 30; k >= 0; k--)
        series = ref_pair_add(ref_pair_times(series, square),
                              ref_pair_divided(ref_pair(1.0), ref_pair(2.0 * k + 1.0)));
    series = ref_pair_times(ref_pair_times(series, t), ref_pair(2.0));
    return ref_pair_add(ref_pair_times(ln_two, ref_pair(exponent)), series);
}

/* One Newton step for f^n base^i = 1 from the double nearest to it. The product is formed in an
 * order that keeps it near 1, so that no base and no n overflows it. */
pair_sum ref_pair_negative_power(pair_sum base, uint32_t i, uint32_t n)
{
    const double start = pow(base.high, -(double)i / (double)n);
    pair_sum product = {1.0, 0.0};
    uint32_t powers = 0, bases = 0;
    double excess;

    while (powers < n || bases < i) {
        const int shrink = product.high > 1.0 ? base.high > 1.0 : base.high <= 1.0;
        if (bases == i || (powers < n && shrink)) {
            product = ref_pair_times(product, ref_pair(start));
            powers++;
        } else {
            product = ref_pair_times(product, base);
            bases++;
        }
    }
    excess = (product.high - 1.0) + product.low;
    return fast_sum(start, -start * excess / (double)n);
}

/* The library's cos and sin are right to a unit in the last place for every double; the part of
 * the product that does not fit one is below 2.4e-7 for |p f| < 2^32 and goes through the addition
 * theorem. */
void ref_pair_turn(double p, pair_sum f, double *cosine, double *sine)
{
    const double angle = p * f.high;
    const double rest = fma(p, f.high, -angle) + p * f.low;
    const double c = cos(angle), s = sin(angle);
    const double rest_c = cos(rest), rest_s = sin(rest);

    *cosine = c * rest_c - s * rest_s;
    *sine = s * rest_c + c * rest_s;
}
