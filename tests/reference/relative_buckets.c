/* Logarithmic buckets. Their edges are comparisons of powers, x^p y^q >= z^r, which whole numbers
 * decide exactly; the logarithm in double only says where to begin.
 */
#include "relative.h"

#include <math.h>

#define LIMBS 4096 /* 131072 bits */

typedef struct whole {
    uint32_t count;
    int overflow;
    uint32_t limbs[LIMBS]; /* the lowest first */
} whole;

static void set_one(whole *n)
{
    n->count = 1;
    n->overflow = 0;
    n->limbs[0] = 1;
}

static void times_power(whole *n, uint32_t factor, int64_t power)
{
    for (; power > 0; power--) {
        uint64_t carry = 0;
        uint32_t i;
        for (i = 0; i < n->count; i++) {
            carry += (uint64_t)n->limbs[i] * factor;
            n->limbs[i] = (uint32_t)carry;
            carry >>= 32;
        }
        if (carry != 0 && n->count == LIMBS)
            n->overflow = 1;
        else if (carry != 0)
            n->limbs[n->count++] = (uint32_t)carry;
        if (n->overflow)
            return;
    }
}

static int compare(const whole *a, const whole *b)
{
    uint32_t i;

    if (a->count != b->count)
        return a->count < b->count ? -1 : 1;
    for (i = a->count; i-- > 0;)
        if (a->limbs[i] != b->limbs[i])
            return a->limbs[i] < b->limbs[i] ? -1 : 1;
    return 0;
}

/* The sign of ln(x/low) * steps - ln(high/low) * m, that is of x^steps low^m - high^m low^steps.
 * 2: too large for the limbs. */
static int compare_logs(uint32_t x, uint32_t low, uint32_t high, int64_t steps, int64_t m)
{
    whole left, right;

    set_one(&left);
    set_one(&right);
    times_power(&left, x, steps);
    times_power(&right, high, m);
    times_power(m > steps ? &left : &right, low, m > steps ? m - steps : steps - m);
    return left.overflow || right.overflow ? 2 : compare(&left, &right);
}

/* floor, or ceil with `up`, of ln(x/low)/ln(high/low) * steps; x >= low, high > low >= 1. */
static int64_t log_steps(uint32_t x, uint32_t low, uint32_t high, int64_t steps, int up)
{
    const double guess = log((double)x / low) / log((double)high / low) * (double)steps;
    int64_t m = (int64_t)guess;
    int sign = compare_logs(x, low, high, steps, m);

    while (sign == -1)
        sign = compare_logs(x, low, high, steps, --m);
    /* value >= m: the largest such m is the floor */
    while (sign == 0 || sign == 1) {
        const int next = compare_logs(x, low, high, steps, m + 1);
        if (next == 2)
            return REF_ROW_INVALID;
        if (next < 0)
            return up && sign > 0 ? m + 1 : m;
        sign = next;
        m++;
    }
    return REF_ROW_INVALID;
}

int64_t ref_t5_bucket(const ref_t5 *t5, int64_t delta)
{
    const uint32_t n = t5->bidirectional ? t5->buckets / 2 : t5->buckets, e = n / 2;
    const int64_t base = t5->bidirectional && delta > 0 ? n : 0;
    int64_t a = t5->bidirectional && delta > 0 ? delta : delta < 0 ? -delta : 0;
    int64_t more;

    if (e < 1 || n > 1024 || t5->most <= e || t5->most > INT32_MAX)
        return REF_ROW_INVALID;
    if (a < e)
        return base + a;
    if (a >= t5->most)
        return base + n - 1; /* ln(a/e)/ln(Mx/e) is 1 or more */
    more = log_steps((uint32_t)a, e, t5->most, n - e, 0);
    if (more == REF_ROW_INVALID)
        return REF_ROW_INVALID;
    return base + (e + more < n - 1 ? e + more : n - 1);
}

int64_t ref_deberta_bucket(const ref_deberta *d, int64_t distance)
{
    const uint32_t mid = d->span / 2;
    const int64_t furthest = (int64_t)d->most - 1;
    int64_t x = distance < 0 ? -distance : distance, more;

    if (!d->buckets)
        return distance;
    if (d->span < 2 || d->span > 512 || furthest <= mid || d->most > INT32_MAX || x > UINT32_MAX)
        return REF_ROW_INVALID;
    if (d->input_clamp && x > furthest)
        x = furthest;
    if (x <= mid)
        return distance < 0 ? -x : x;
    more = log_steps((uint32_t)x, mid, (uint32_t)furthest, mid - 1, 1);
    if (more == REF_ROW_INVALID)
        return REF_ROW_INVALID;
    return distance < 0 ? -(mid + more) : mid + more;
}
