/* Frequencies of every context extension, and the magnitudes that go with them.
 *
 * With n = R/2 and plain f_i = base^(-i/n) / divisors[i]:
 *
 *   linear           f_i / s                                    Chen et al., arXiv 2306.15595
 *   NTK              (base s^(n/(n-1)))^(-i/n) = f_i s^(-i/(n-1))
 *   dynamic NTK      as NTK with s T/L - (s - 1), T = max(length, L), in place of s
 *   linear, dynamic  f_i L / T
 *   NTK by parts     plain, linear and NTK by two ramps over i
 *   YaRN             f_i (g + (1 - g)/s)                        Peng et al., arXiv 2309.00071
 *   Llama 3          the same with another ramp
 *   LongRoPE         f_i / e_i                                  Ding et al., arXiv 2402.13753
 *   proportional     f_i / s for i < partial_factor n, else 0
 *
 * All of it in twice the precision of double: an angle at position 2^31 is to be exact as well.
 */
#include "rope_internal.h"

#include <math.h>
#include <stddef.h>

/* ------------------------------------------------------------------------------------------------
 * Ramps
 */
typedef struct ramp {
    pair_sum low;
    pair_sum high;
} ramp;

static pair_sum clamped(pair_sum a)
{
    const pair_sum zero = ref_pair(0.0), one = ref_pair(1.0);

    if (ref_pair_compare(a, zero) < 0)
        return zero;
    return ref_pair_compare(a, one) > 0 ? one : a;
}

/* The pair, as a real number, that makes `beta` turns within the original context. */
static pair_sum pair_of_turns(const ref_rope *rope, double beta)
{
    const pair_sum turns = ref_pair_times(ref_pair_two_pi(), ref_pair(beta));
    const pair_sum length = ref_pair(rope->original_length);
    const pair_sum ratio = ref_pair_log(ref_pair_divided(length, turns));

    return ref_pair_divided(ref_pair_times(ref_pair(rope->rotary_dim / 2), ratio),
                            ref_pair_log(ref_pair(rope->base)));
}

/* From the pair of `fast` turns to that of `slow`, cut to 0 and R - 1: the upper end is that of the
 * released code, although the last index is R/2 - 1. Rounded outward to whole pairs where `whole`.
 * -1 where the ends cross: implementations disagree about what follows. */
static int ramp_over_pairs(const ref_rope *rope, double fast, double slow, int whole, ramp *r)
{
    const pair_sum zero = ref_pair(0.0), last = ref_pair(rope->rotary_dim - 1.0);

    if (rope->original_length == 0 || !(fast > 0.0) || !(slow > 0.0) || isinf(fast) || isinf(slow))
        return -1;
    r->low = pair_of_turns(rope, fast);
    r->high = pair_of_turns(rope, slow);
    if (!isfinite(r->low.high) || !isfinite(r->high.high))
        return -1; /* a base of 1 */
    if (whole) {
        r->low = ref_pair_floor(r->low);
        r->high = ref_pair_subtract(zero, ref_pair_floor(ref_pair_subtract(zero, r->high)));
    }
    if (ref_pair_compare(r->low, zero) < 0)
        r->low = zero;
    if (ref_pair_compare(r->high, last) > 0)
        r->high = last;
    if (ref_pair_compare(r->low, r->high) > 0)
        return -1;
    if (ref_pair_compare(r->low, r->high) == 0)
        r->high = ref_pair_add(r->high, ref_pair(0.001));
    return 0;
}

/* 1 before the ramp, 0 behind it. */
static pair_sum above_pairs(const ramp *r, uint32_t i)
{
    const pair_sum along = ref_pair_divided(ref_pair_subtract(ref_pair(i), r->low),
                                            ref_pair_subtract(r->high, r->low));

    return ref_pair_subtract(ref_pair(1.0), clamped(along));
}

/* The ramp over the turns of the pair within the original context: 1 from `high` turns on, 0 up to
 * `low`. Where both are the same number there is nothing between them to divide by. */
static pair_sum above_turns(const ref_rope *rope, pair_sum f, double low, double high)
{
    const pair_sum turns = ref_pair_divided(ref_pair_times(ref_pair(rope->original_length), f),
                                            ref_pair_two_pi());

    if (ref_pair_compare(turns, ref_pair(high)) >= 0)
        return ref_pair(1.0);
    if (ref_pair_compare(turns, ref_pair(low)) <= 0)
        return ref_pair(0.0);
    return ref_pair_divided(ref_pair_subtract(turns, ref_pair(low)),
                            ref_pair_subtract(ref_pair(high), ref_pair(low)));
}

/* g a + (1 - g) b */
static pair_sum blended(pair_sum g, pair_sum a, pair_sum b)
{
    const pair_sum rest = ref_pair_subtract(ref_pair(1.0), g);

    return ref_pair_add(ref_pair_times(g, a), ref_pair_times(rest, b));
}

/* ------------------------------------------------------------------------------------------------
 * Schedules
 */
static pair_sum plain(const ref_rope *rope, uint32_t i)
{
    const pair_sum f = ref_pair_negative_power(ref_pair(rope->base), i, rope->rotary_dim / 2);

    return rope->divisors != NULL ? ref_pair_divided(f, ref_pair(rope->divisors[i])) : f;
}

static pair_sum interpolated(const ref_rope *rope, uint32_t i)
{
    return ref_pair_divided(plain(rope, i), ref_pair(rope->factor));
}

static pair_sum ntk(const ref_rope *rope, pair_sum alpha, uint32_t i)
{
    return ref_pair_times(plain(rope, i),
                          ref_pair_negative_power(alpha, i, rope->rotary_dim / 2 - 1));
}

/* s T/L - (s - 1); 1 up to L. */
static pair_sum dynamic_alpha(const ref_rope *rope)
{
    const pair_sum s = ref_pair(rope->factor);
    const pair_sum growth = ref_pair_times(s, ref_pair((double)rope->length));

    if (rope->length <= rope->max_length)
        return ref_pair(1.0);
    return ref_pair_subtract(ref_pair_divided(growth, ref_pair(rope->max_length)),
                             ref_pair_subtract(s, ref_pair(1.0)));
}

static pair_sum linear_dynamic(const ref_rope *rope, uint32_t i)
{
    if (rope->length <= rope->max_length)
        return plain(rope, i);
    return ref_pair_divided(ref_pair_times(plain(rope, i), ref_pair(rope->max_length)),
                            ref_pair((double)rope->length));
}

static int ntk_by_parts(const ref_rope *rope, pair_sum *f)
{
    ramp to_ntk, to_plain;
    uint32_t i;

    if (ramp_over_pairs(rope, 1.25, 0.75, 1, &to_ntk) != 0 ||
        ramp_over_pairs(rope, 16.0, 2.0, 1, &to_plain) != 0)
        return -1;
    for (i = 0; i < rope->rotary_dim / 2; i++) {
        const pair_sum slow = blended(above_pairs(&to_ntk, i), ntk(rope, ref_pair(rope->factor), i),
                                      interpolated(rope, i));
        f[i] = blended(above_pairs(&to_plain, i), plain(rope, i), slow);
    }
    return 0;
}

static int yarn(const ref_rope *rope, pair_sum *f)
{
    const pair_sum e = ref_pair(rope->extrapolation);
    ramp r;
    uint32_t i;

    if (rope->schedule == REF_SCHEDULE_YARN &&
        ramp_over_pairs(rope, rope->beta_fast, rope->beta_slow, rope->truncate, &r) != 0)
        return -1;
    for (i = 0; i < rope->rotary_dim / 2; i++) {
        const pair_sum g =
            rope->schedule == REF_SCHEDULE_YARN
                ? above_pairs(&r, i)
                : above_turns(rope, plain(rope, i), rope->beta_slow, rope->beta_fast);
        f[i] = blended(ref_pair_times(e, g), plain(rope, i), interpolated(rope, i));
    }
    return 0;
}

static pair_sum llama3(const ref_rope *rope, uint32_t i)
{
    const pair_sum f = plain(rope, i);

    return blended(above_turns(rope, f, rope->low_freq_factor, rope->high_freq_factor), f,
                   interpolated(rope, i));
}

static pair_sum longrope(const ref_rope *rope, uint32_t i)
{
    const double *list =
        rope->length > rope->original_length ? rope->long_factors : rope->short_factors;

    return ref_pair_divided(plain(rope, i), ref_pair(list[i]));
}

static pair_sum proportional(const ref_rope *rope, uint32_t i)
{
    const double turning = floor(rope->partial_factor * rope->rotary_dim / 2.0);

    return i < turning ? interpolated(rope, i) : ref_pair(0.0);
}

/* ------------------------------------------------------------------------------------------------
 * Domain
 */
static int above_zero(double value)
{
    return value > 0.0 && isfinite(value);
}

static int all_above_zero(const double *list, uint32_t count)
{
    uint32_t i;

    if (list == NULL)
        return 0;
    for (i = 0; i < count; i++)
        if (!above_zero(list[i]))
            return 0;
    return 1;
}

static int valid_by_schedule(const ref_rope *rope)
{
    const uint32_t n = rope->rotary_dim / 2;

    switch (rope->schedule) {
    case REF_SCHEDULE_LINEAR:
        return 1;
    case REF_SCHEDULE_NTK:
        return n > 1;
    case REF_SCHEDULE_NTK_DYNAMIC:
        return n > 1 && rope->max_length > 0 && rope->factor >= 1.0;
    case REF_SCHEDULE_LINEAR_DYNAMIC:
        return rope->max_length > 0;
    case REF_SCHEDULE_NTK_BY_PARTS:
        return n > 1 && rope->original_length > 0;
    case REF_SCHEDULE_YARN:
    case REF_SCHEDULE_YARN_PAPER:
        return rope->original_length > 0 && rope->beta_slow > 0.0 &&
               rope->beta_fast >= rope->beta_slow && isfinite(rope->extrapolation);
    case REF_SCHEDULE_LLAMA3:
        return rope->original_length > 0 && rope->low_freq_factor > 0.0 &&
               rope->high_freq_factor >= rope->low_freq_factor;
    case REF_SCHEDULE_LONGROPE:
        return rope->original_length > 0 && all_above_zero(rope->short_factors, n) &&
               all_above_zero(rope->long_factors, n);
    case REF_SCHEDULE_PROPORTIONAL:
        return rope->partial_factor > 0.0 && rope->partial_factor <= 1.0;
    }
    return 0;
}

static int valid(const ref_rope *rope)
{
    if (rope->divisors != NULL && !all_above_zero(rope->divisors, rope->rotary_dim / 2))
        return 0;
    return above_zero(rope->base) && above_zero(rope->factor) && valid_by_schedule(rope);
}

int ref_schedule(const ref_rope *rope, pair_sum *f)
{
    const uint32_t n = rope->rotary_dim / 2;
    uint32_t i;

    if (rope->inv_freq != NULL) {
        for (i = 0; i < n; i++)
            f[i] = ref_pair(rope->inv_freq[i]);
        return 0;
    }
    if (!valid(rope))
        return -1;
    if (rope->schedule == REF_SCHEDULE_NTK_BY_PARTS)
        return ntk_by_parts(rope, f);
    if (rope->schedule == REF_SCHEDULE_YARN || rope->schedule == REF_SCHEDULE_YARN_PAPER)
        return yarn(rope, f);
    for (i = 0; i < n; i++) {
        if (rope->schedule == REF_SCHEDULE_NTK)
            f[i] = ntk(rope, ref_pair(rope->factor), i);
        else if (rope->schedule == REF_SCHEDULE_NTK_DYNAMIC)
            f[i] = ntk(rope, dynamic_alpha(rope), i);
        else if (rope->schedule == REF_SCHEDULE_LINEAR_DYNAMIC)
            f[i] = linear_dynamic(rope, i);
        else if (rope->schedule == REF_SCHEDULE_LLAMA3)
            f[i] = llama3(rope, i);
        else if (rope->schedule == REF_SCHEDULE_LONGROPE)
            f[i] = longrope(rope, i);
        else if (rope->schedule == REF_SCHEDULE_PROPORTIONAL)
            f[i] = proportional(rope, i);
        else
            f[i] = interpolated(rope, i);
    }
    return 0;
}

/* ------------------------------------------------------------------------------------------------
 * Magnitudes
 */
double ref_magnitude_paper(double factor)
{
    return factor > 1.0 ? 0.1 * log(factor) + 1.0 : 1.0;
}

double ref_magnitude_mscale(double factor, double mscale, double mscale_all_dim)
{
    const double s = factor > 1.0 ? log(factor) : 0.0;

    return (0.1 * mscale * s + 1.0) / (0.1 * mscale_all_dim * s + 1.0);
}

double ref_magnitude_longrope(double factor, uint32_t original_length)
{
    return factor > 1.0 ? sqrt(1.0 + log(factor) / log(original_length)) : 1.0;
}

double ref_magnitude_flattening(double factor)
{
    const double temperature = factor > 1.0 ? sqrt(1.0 + log(factor) / log(10000.0)) : 1.0;

    return sqrt(1.0 / temperature);
}
