/* Ramps over the pair index, as released YaRN checkpoints run them. */
#include "rope.h"

#include <math.h>

/* The pair, as a real number, that makes `turns` turns within original_length. */
static long double pair_of_turns(const rhumb_rope *p, double turns)
{
    const long double two_pi = 6.283185307179586476925286766559005768L;
    return p->rotary_dim * logl((long double)p->original_length / (two_pi * turns)) /
           (2 * logl((long double)p->base));
}

rhumb_ramp rhumb_make_ramp(const rhumb_rope *p, double fast, double slow, bool truncate)
{
    rhumb_ramp ramp = {pair_of_turns(p, fast), pair_of_turns(p, slow)};
    if (truncate) {
        ramp.low = floorl(ramp.low);
        ramp.high = ceill(ramp.high);
    }
    ramp.low = fmaxl(ramp.low, 0);
    /* Pairs end at R/2 - 1. Checkpoints were trained with this bound, which changes the slope. */
    ramp.high = fminl(ramp.high, (long double)(p->rotary_dim - 1));
    return ramp;
}

long double rhumb_ramp_at(rhumb_ramp ramp, uint32_t pair)
{
    long double width = ramp.high > ramp.low ? ramp.high - ramp.low : 0.001L;
    return fminl(fmaxl((pair - ramp.low) / width, 0), 1);
}
