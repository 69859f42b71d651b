/* Edges of logarithmic buckets. Where the real number is whole, or nearly so, whole numbers decide:
 * a logarithm that is one bit off would move the tie to the next bucket. */
#include "terms.h"

#include <math.h>

#define NO_DISTANCE 0x80000000u /* above every one */

typedef struct number {
    uint32_t count;
    uint32_t digits[RHUMB_MAX_EDGES + 9]; /* of base 2^32, the lowest first */
} number;

static void multiply(number *n, uint32_t factor, uint32_t times)
{
    for (uint32_t i = 0; i < times; i++) {
        uint64_t carry = 0;
        for (uint32_t d = 0; d < n->count; d++) {
            carry += (uint64_t)n->digits[d] * factor;
            n->digits[d] = (uint32_t)carry;
            carry >>= 32;
        }
        if (carry)
            n->digits[n->count++] = (uint32_t)carry;
    }
}

static int compare(const number *a, const number *b)
{
    if (a->count != b->count)
        return a->count > b->count ? 1 : -1;
    for (uint32_t d = a->count; d-- > 0;)
        if (a->digits[d] != b->digits[d])
            return a->digits[d] > b->digits[d] ? 1 : -1;
    return 0;
}

/* a against base (limit / base)^(q / p): both to the power p, and without what they share. */
static int compare_power(uint32_t a, uint32_t base, uint32_t limit, uint32_t q, uint32_t p)
{
    number left = {.count = 1, .digits = {1}};
    number right = {.count = 1, .digits = {1}};
    multiply(&left, a, p);
    multiply(&left, base, q > p ? q - p : 0);
    multiply(&right, limit, q);
    multiply(&right, base, p > q ? p - q : 0);
    return compare(&left, &right);
}

uint32_t rhumb_log_edge(uint32_t base, uint32_t limit, uint32_t q, uint32_t p, bool strictly)
{
    long double ratio = (long double)limit / base;
    long double edge = base * powl(ratio, (long double)q / p);
    if (edge >= NO_DISTANCE)
        return NO_DISTANCE;
    long double whole = roundl(edge);
    if (fabsl(edge - whole) > 1e-12L * edge)
        return (uint32_t)ceill(edge);
    int side = compare_power((uint32_t)whole, base, limit, q, p);
    return (uint32_t)whole + (side < 0 || (strictly && side == 0));
}
