/* Frequencies that follow the length of the context: dynamic NTK, its linear form, LongRoPE. */
#include "../internal.h"

#include <math.h>

long double rhumb_frequency_at(const rhumb_rotary *rotary, uint32_t pair, uint32_t length)
{
    long double f = rotary->frequency[pair];
    if (rotary->length_rule == RHUMB_LENGTH_IGNORED || length <= rotary->length_limit)
        return f;
    long double growth = (long double)length / rotary->length_limit;
    long double s = rotary->length_factor;
    switch (rotary->length_rule) {
    case RHUMB_LENGTH_IGNORED: return f;
    case RHUMB_LENGTH_NTK:
        return f * powl(s * growth - (s - 1), -2.0L * pair / (rotary->rotary_dim - 2));
    case RHUMB_LENGTH_LINEAR: return f / growth;
    case RHUMB_LENGTH_SWITCH: return rotary->long_frequency[pair];
    }
    return f;
}

bool rhumb_frequencies_differ(const rhumb_rotary *rotary, uint32_t length, uint32_t other)
{
    for (uint32_t i = 0; i < rotary->rotary_dim / 2; i++) {
        long double f = rhumb_frequency_at(rotary, i, length);
        long double g = rhumb_frequency_at(rotary, i, other);
        if (f < g || f > g)
            return true;
    }
    return false;
}
