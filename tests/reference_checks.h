/* Comparisons that the tests of the reference share. */
#ifndef RHUMB_TESTS_REFERENCE_CHECKS_H
#define RHUMB_TESTS_REFERENCE_CHECKS_H

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>

static inline void check(const char *what, double got, double want, double bound)
{
    cr_assert((isinf(want) && got == want) || fabs(got - want) <= bound,
              "%s: wanted %.17g, got %.17g, bound %g", what, want, got, bound);
}

static inline void check_all(const char *what, const double *got, const double *want, size_t count,
                             double bound)
{
    char text[96];
    size_t i;

    for (i = 0; i < count; i++) {
        snprintf(text, sizeof text, "%s, element %zu", what, i);
        check(text, got[i], want[i], bound);
    }
}

#endif
