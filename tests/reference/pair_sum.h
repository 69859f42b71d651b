/* Numbers of twice the precision of double: the unevaluated sum of two, about 2^-100 relative error
 * an operation. Relies on fma() being exact (C11 7.12.13.1) and on nothing else of the machine. */
#ifndef RHUMB_REFERENCE_PAIR_SUM_H
#define RHUMB_REFERENCE_PAIR_SUM_H

#include <stdint.h>

/* high + low, |low| <= half a unit in the last place of high. */
typedef struct pair_sum {
    double high;
    double low;
} pair_sum;

pair_sum ref_pair(double value);
pair_sum ref_pair_two_pi(void);

pair_sum ref_pair_add(pair_sum a, pair_sum b);
pair_sum ref_pair_subtract(pair_sum a, pair_sum b);
pair_sum ref_pair_times(pair_sum a, pair_sum b);
pair_sum ref_pair_divided(pair_sum a, pair_sum b);

/* -1, 0 or 1 as a is below, at or above b. */
int ref_pair_compare(pair_sum a, pair_sum b);

/* The next whole number at or below. */
pair_sum ref_pair_floor(pair_sum a);

/* Natural logarithm of a finite number above 0. */
pair_sum ref_pair_log(pair_sum a);

/* base^(-i/n), n >= 1; base finite and above 0. */
pair_sum ref_pair_negative_power(pair_sum base, uint32_t i, uint32_t n);

/* cos and sin of p * f. */
void ref_pair_turn(double p, pair_sum f, double *cosine, double *sine);

#endif
