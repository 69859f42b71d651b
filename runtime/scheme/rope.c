/* rope: frequencies and magnitude of rotary embedding and of its context extensions. Frequencies
 * are computed in long double: at position 2^31 the last bits of a double are 2e-7 of an angle. */
#include "rope.h"

#include <float.h>
#include <math.h>

#define TWO_PI 6.283185307179586476925286766559005768L

static long double plain(const rhumb_rope *p, uint32_t i)
{
    long double f = powl((long double)p->base, -2.0L * i / p->rotary_dim);
    return p->divisors ? f / p->divisors[i] : f;
}

/* What base * factor^(R/(R-2)) in place of base does to a frequency. */
static long double ntk(const rhumb_rope *p, uint32_t i)
{
    return plain(p, i) * powl((long double)p->factor, -2.0L * i / (p->rotary_dim - 2));
}

/* Part of the plain frequency in a blend with the interpolated one. */
static long double yarn_part(const rhumb_rope *p, uint32_t i)
{
    if (p->ramp == RHUMB_YARN_RAMP_INDEX)
        return 1 - rhumb_ramp_at(rhumb_make_ramp(p, p->beta_fast, p->beta_slow, p->truncate), i);
    long double turns = p->original_length * plain(p, i) / TWO_PI;
    if (turns >= p->beta_fast)
        return 1;
    if (turns <= p->beta_slow)
        return 0;
    return (turns - p->beta_slow) / ((long double)p->beta_fast - p->beta_slow);
}

static long double ntk_by_parts(const rhumb_rope *p, uint32_t i)
{
    long double inner =
        rhumb_ramp_at(rhumb_make_ramp(p, PARTS_INNER_FAST, PARTS_INNER_SLOW, true), i);
    long double outer =
        rhumb_ramp_at(rhumb_make_ramp(p, PARTS_OUTER_FAST, PARTS_OUTER_SLOW, true), i);
    long double slow = inner * plain(p, i) / p->factor + (1 - inner) * ntk(p, i);
    return outer * slow + (1 - outer) * plain(p, i);
}

/* With equal factors the middle range is empty and nothing is divided by its width; a pair exactly
 * on the border keeps its frequency. */
static long double llama3(const rhumb_rope *p, uint32_t i)
{
    long double f = plain(p, i);
    long double turns = p->original_length * f / TWO_PI;
    if (turns >= p->high_freq_factor)
        return f;
    if (turns <= p->low_freq_factor)
        return f / p->factor;
    long double part =
        (turns - p->low_freq_factor) / ((long double)p->high_freq_factor - p->low_freq_factor);
    return f * (part + (1 - part) / p->factor);
}

static long double frequency(const rhumb_rope *p, uint32_t i)
{
    long double part;
    switch (p->scaling) {
    case RHUMB_ROPE_SCALING_NONE:
    case RHUMB_ROPE_SCALING_NTK_DYNAMIC:    /* these two: of lengths up to max_length */
    case RHUMB_ROPE_SCALING_LINEAR_DYNAMIC: return plain(p, i);
    case RHUMB_ROPE_SCALING_LINEAR: return plain(p, i) / p->factor;
    case RHUMB_ROPE_SCALING_NTK: return ntk(p, i);
    case RHUMB_ROPE_SCALING_NTK_BY_PARTS: return ntk_by_parts(p, i);
    case RHUMB_ROPE_SCALING_YARN:
        part = p->extrapolation * yarn_part(p, i);
        return plain(p, i) * (part + (1 - part) / p->factor);
    case RHUMB_ROPE_SCALING_LLAMA3: return llama3(p, i);
    case RHUMB_ROPE_SCALING_LONGROPE: return plain(p, i) / p->short_factors[i];
    case RHUMB_ROPE_SCALING_PROPORTIONAL:
        /* In double, as the definition's int() sees it. */
        return i < floor(p->partial_factor * p->rotary_dim / 2) ? plain(p, i) / p->factor : 0;
    case RHUMB_ROPE_SCALING_EXPLICIT: return p->frequencies[i];
    }
    return 0;
}

static void set_lengths(const rhumb_rope *p, rhumb_rotary *rotary)
{
    rotary->length_factor = p->factor;
    switch (p->scaling) {
    case RHUMB_ROPE_SCALING_NTK_DYNAMIC:
        rotary->length_rule = RHUMB_LENGTH_NTK;
        rotary->length_limit = p->max_length;
        return;
    case RHUMB_ROPE_SCALING_LINEAR_DYNAMIC:
        rotary->length_rule = RHUMB_LENGTH_LINEAR;
        rotary->length_limit = p->max_length;
        return;
    case RHUMB_ROPE_SCALING_LONGROPE:
        rotary->length_rule = RHUMB_LENGTH_SWITCH;
        rotary->length_limit = p->original_length;
        for (uint32_t i = 0; i < p->rotary_dim / 2; i++)
            rotary->long_frequency[i] = plain(p, i) / p->long_factors[i];
        return;
    default: rotary->length_rule = RHUMB_LENGTH_IGNORED; return;
    }
}

/* A 64-bit fraction of a turn holds what is below one turn per position; more than that would be
 * precision lost without a word. */
static rhumb_result check_frequencies(const rhumb_context *context, const rhumb_rotary *rotary,
                                      const char *which, const long double *frequencies)
{
    for (uint32_t i = 0; i < rotary->rotary_dim / 2; i++)
        if (!(fabsl(frequencies[i]) < TWO_PI))
            return rhumb_fail(context, RHUMB_ERROR_ARGUMENT,
                              "rope: %s of pair %u: wanted a magnitude below 2 pi radians per "
                              "position, found %Lg",
                              which, i, frequencies[i]);
    return RHUMB_OK;
}

static double longrope_magnitude(const rhumb_rope *p)
{
    double s = p->factor;
    if (s <= 1)
        s = (double)p->max_length / p->original_length;
    return s <= 1 ? 1 : sqrt(1 + log(s) / log((double)p->original_length));
}

static double magnitude(const rhumb_rope *p)
{
    rhumb_magnitude rule = p->magnitude;
    double log_s = log(p->factor);
    if (rule == RHUMB_MAGNITUDE_AUTO && p->scaling == RHUMB_ROPE_SCALING_LONGROPE)
        return longrope_magnitude(p);
    if (rule == RHUMB_MAGNITUDE_AUTO && p->scaling == RHUMB_ROPE_SCALING_YARN)
        rule = p->mscale > 0 && p->mscale_all_dim > 0 ? RHUMB_MAGNITUDE_MSCALE_PAIR
                                                      : RHUMB_MAGNITUDE_PAPER;
    switch (rule) {
    case RHUMB_MAGNITUDE_AUTO: return 1;
    case RHUMB_MAGNITUDE_GIVEN: return p->attention_factor;
    case RHUMB_MAGNITUDE_PAPER: return 0.1 * log_s + 1;
    case RHUMB_MAGNITUDE_MSCALE_PAIR:
        return (0.1 * p->mscale * log_s + 1) / (0.1 * p->mscale_all_dim * log_s + 1);
    case RHUMB_MAGNITUDE_FLATTENING: /* m^2 = 1/t */
        return 1 / sqrt(sqrt(1 + log_s / log(10000.0)));
    }
    return 1;
}

static rhumb_result resolve(const rhumb_context *context, const void *params, uint32_t head_dim,
                            rhumb_rotary *rotary)
{
    rhumb_rope p;
    rhumb_init_rope(&p);
    RHUMB_TRY(rhumb_adopt(context, "rope", "rhumb_rope", params, RHUMB_TYPE_ROPE, &p, sizeof p));
    if (p.rotary_dim == RHUMB_WHOLE_HEAD)
        p.rotary_dim = p.rotary_offset < head_dim ? head_dim - p.rotary_offset : 0;
    RHUMB_TRY(rhumb_check_rope(context, &p, head_dim));

    rotary->pairing = (uint32_t)p.pairing;
    rotary->rotary_dim = p.rotary_dim;
    rotary->rotary_offset = p.rotary_offset;
    for (uint32_t i = 0; i < p.rotary_dim / 2; i++)
        rotary->frequency[i] = frequency(&p, i);
    set_lengths(&p, rotary);
    RHUMB_TRY(check_frequencies(context, rotary, "frequency", rotary->frequency));
    if (rotary->length_rule == RHUMB_LENGTH_SWITCH)
        RHUMB_TRY(check_frequencies(context, rotary, "long frequency", rotary->long_frequency));
    rotary->magnitude = p.attention_multiplier * magnitude(&p);
    if (!(rotary->magnitude >= FLT_MIN && rotary->magnitude <= FLT_MAX))
        return rhumb_fail(context, RHUMB_ERROR_ARGUMENT,
                          "rope: magnitude: wanted a product of rule and attention_multiplier %g "
                          "that a float holds, found %g",
                          p.attention_multiplier, rotary->magnitude);
    return RHUMB_OK;
}

const rhumb_scheme rhumb_scheme_rope = {
    .name = "rope",
    .type = RHUMB_TYPE_ROPE,
    .resolve_rotary = resolve,
};
