/* rope: every parameter against its domain, before anything is computed from it. */
#include "rope.h"

#include <float.h>
#include <math.h>

static const char *scaling_name(rhumb_rope_scaling scaling)
{
    switch (scaling) {
    case RHUMB_ROPE_SCALING_NONE: return "NONE";
    case RHUMB_ROPE_SCALING_LINEAR: return "LINEAR";
    case RHUMB_ROPE_SCALING_NTK: return "NTK";
    case RHUMB_ROPE_SCALING_NTK_DYNAMIC: return "NTK_DYNAMIC";
    case RHUMB_ROPE_SCALING_LINEAR_DYNAMIC: return "LINEAR_DYNAMIC";
    case RHUMB_ROPE_SCALING_NTK_BY_PARTS: return "NTK_BY_PARTS";
    case RHUMB_ROPE_SCALING_YARN: return "YARN";
    case RHUMB_ROPE_SCALING_LLAMA3: return "LLAMA3";
    case RHUMB_ROPE_SCALING_LONGROPE: return "LONGROPE";
    case RHUMB_ROPE_SCALING_PROPORTIONAL: return "PROPORTIONAL";
    case RHUMB_ROPE_SCALING_EXPLICIT: return "EXPLICIT";
    }
    return NULL;
}

static rhumb_result check_enum(const rhumb_context *context, const char *field, const char *last,
                               uint32_t value, uint32_t highest)
{
    if (value <= highest)
        return RHUMB_OK;
    return rhumb_fail(context, RHUMB_ERROR_ARGUMENT, "rope: %s: wanted 0 to %u (%s), found %d",
                      field, highest, last, (int)value);
}

static rhumb_result check_enums(const rhumb_context *context, const rhumb_rope *p)
{
    RHUMB_TRY(check_enum(context, "pairing", "RHUMB_PAIRING_INTERLEAVED_TO_HALF",
                         (uint32_t)p->pairing, RHUMB_PAIRING_INTERLEAVED_TO_HALF));
    RHUMB_TRY(check_enum(context, "scaling", "RHUMB_ROPE_SCALING_EXPLICIT", (uint32_t)p->scaling,
                         RHUMB_ROPE_SCALING_EXPLICIT));
    RHUMB_TRY(check_enum(context, "magnitude", "RHUMB_MAGNITUDE_FLATTENING",
                         (uint32_t)p->magnitude, RHUMB_MAGNITUDE_FLATTENING));
    RHUMB_TRY(check_enum(context, "ramp", "RHUMB_YARN_RAMP_ROTATIONS", (uint32_t)p->ramp,
                         RHUMB_YARN_RAMP_ROTATIONS));
    return check_enum(context, "truncate", "ends rounded to whole pairs", p->truncate, 1);
}

static rhumb_result check_window(const rhumb_context *context, const rhumb_rope *p,
                                 uint32_t head_dim)
{
    if (p->rotary_offset >= head_dim)
        return rhumb_fail(context, RHUMB_ERROR_ARGUMENT,
                          "rope: rotary_offset: wanted 0 to %u (head_dim %u), found %u",
                          head_dim - 1, head_dim, p->rotary_offset);
    uint32_t room = head_dim - p->rotary_offset;
    if (p->rotary_dim < 2 || p->rotary_dim > room || p->rotary_dim % 2)
        return rhumb_fail(
            context, RHUMB_ERROR_ARGUMENT,
            "rope: rotary_dim: wanted an even number from 2 to %u (head_dim %u, rotary_offset %u), "
            "found %u",
            room, head_dim, p->rotary_offset, p->rotary_dim);
    if (p->scaling == RHUMB_ROPE_SCALING_PROPORTIONAL && p->rotary_dim != head_dim)
        return rhumb_fail(context, RHUMB_ERROR_ARGUMENT,
                          "rope: rotary_dim: wanted the whole head %u for PROPORTIONAL, found %u "
                          "from channel %u on",
                          head_dim, p->rotary_dim, p->rotary_offset);
    return RHUMB_OK;
}

static rhumb_result check_above_zero(const rhumb_context *context, const char *field, double value)
{
    if (isfinite(value) && value > 0)
        return RHUMB_OK;
    return rhumb_fail(context, RHUMB_ERROR_ARGUMENT,
                      "rope: %s: wanted a finite number above 0, found %g", field, value);
}

static rhumb_result check_at_least(const rhumb_context *context, const char *field, double value,
                                   double low)
{
    if (isfinite(value) && value >= low)
        return RHUMB_OK;
    return rhumb_fail(context, RHUMB_ERROR_ARGUMENT,
                      "rope: %s: wanted a finite number of at least %g, found %g", field, low,
                      value);
}

static rhumb_result check_float(const rhumb_context *context, const char *field, double value)
{
    if (value >= FLT_MIN && value <= FLT_MAX)
        return RHUMB_OK;
    return rhumb_fail(context, RHUMB_ERROR_ARGUMENT,
                      "rope: %s: wanted a number above 0 that a float holds, found %g", field,
                      value);
}

static rhumb_result check_length(const rhumb_context *context, const rhumb_rope *p,
                                 const char *field, uint32_t value)
{
    if (value)
        return RHUMB_OK;
    return rhumb_fail(context, RHUMB_ERROR_ARGUMENT, "rope: %s: wanted 1 or more for %s, found 0",
                      field, scaling_name(p->scaling));
}

static rhumb_result check_list(const rhumb_context *context, const rhumb_rope *p, const char *field,
                               const double *list, bool any_sign)
{
    uint32_t pairs = p->rotary_dim / 2;
    if (!list)
        return rhumb_fail(context, RHUMB_ERROR_ARGUMENT,
                          "rope: %s: wanted a list of %u numbers for %s, found NULL", field, pairs,
                          scaling_name(p->scaling));
    if (p->list_count != pairs)
        return rhumb_fail(context, RHUMB_ERROR_ARGUMENT,
                          "rope: list_count: wanted %u numbers in %s (rotary_dim %u), found %u",
                          pairs, field, p->rotary_dim, p->list_count);
    for (uint32_t i = 0; i < pairs; i++)
        if (!isfinite(list[i]) || (!any_sign && list[i] <= 0))
            return rhumb_fail(context, RHUMB_ERROR_ARGUMENT,
                              "rope: %s[%u]: wanted a finite number%s, found %g", field, i,
                              any_sign ? "" : " above 0", list[i]);
    return RHUMB_OK;
}

/* base^(R/(R-2)) has no meaning for a single pair, which is both the fastest and the slowest. */
static rhumb_result check_ntk(const rhumb_context *context, const rhumb_rope *p)
{
    if (p->rotary_dim > 2)
        return RHUMB_OK;
    return rhumb_fail(context, RHUMB_ERROR_ARGUMENT,
                      "rope: rotary_dim: wanted 4 or more for %s, found 2",
                      scaling_name(p->scaling));
}

/* A ramp that ends before it begins (a context of a few tokens, or one that the slowest pair turns
 * through many times) scales all pairs or none, depending on who computes it: refused. */
static rhumb_result check_ramp(const rhumb_context *context, const rhumb_rope *p, double fast,
                               double slow, bool truncate)
{
    if (p->base <= 1)
        return rhumb_fail(context, RHUMB_ERROR_ARGUMENT,
                          "rope: base: wanted a number above 1 for the ramp of %s, found %g",
                          scaling_name(p->scaling), p->base);
    rhumb_ramp ramp = rhumb_make_ramp(p, fast, slow, truncate);
    if (ramp.high >= ramp.low)
        return RHUMB_OK;
    return rhumb_fail(context, RHUMB_ERROR_ARGUMENT,
                      "rope: original_length: wanted a length whose ramp of %s ends at or after "
                      "its start, found %u: pairs %Lg to %Lg (base %g, turns %g to %g)",
                      scaling_name(p->scaling), p->original_length, ramp.low, ramp.high, p->base,
                      fast, slow);
}

static rhumb_result check_ntk_by_parts(const rhumb_context *context, const rhumb_rope *p)
{
    RHUMB_TRY(check_ntk(context, p));
    RHUMB_TRY(check_length(context, p, "original_length", p->original_length));
    RHUMB_TRY(check_ramp(context, p, PARTS_OUTER_FAST, PARTS_OUTER_SLOW, true));
    return check_ramp(context, p, PARTS_INNER_FAST, PARTS_INNER_SLOW, true);
}

static rhumb_result check_yarn(const rhumb_context *context, const rhumb_rope *p)
{
    RHUMB_TRY(check_length(context, p, "original_length", p->original_length));
    RHUMB_TRY(check_above_zero(context, "beta_slow", p->beta_slow));
    if (!isfinite(p->beta_fast) || p->beta_fast < p->beta_slow)
        return rhumb_fail(context, RHUMB_ERROR_ARGUMENT,
                          "rope: beta_fast: wanted a finite number of at least beta_slow %g, found "
                          "%g",
                          p->beta_slow, p->beta_fast);
    if (!(p->extrapolation >= 0 && p->extrapolation <= 1))
        return rhumb_fail(context, RHUMB_ERROR_ARGUMENT,
                          "rope: extrapolation: wanted 0 to 1, found %g", p->extrapolation);
    if (p->ramp == RHUMB_YARN_RAMP_ROTATIONS)
        return RHUMB_OK;
    return check_ramp(context, p, p->beta_fast, p->beta_slow, p->truncate);
}

static rhumb_result check_llama3(const rhumb_context *context, const rhumb_rope *p)
{
    RHUMB_TRY(check_length(context, p, "original_length", p->original_length));
    RHUMB_TRY(check_above_zero(context, "low_freq_factor", p->low_freq_factor));
    if (isfinite(p->high_freq_factor) && p->high_freq_factor >= p->low_freq_factor)
        return RHUMB_OK;
    return rhumb_fail(context, RHUMB_ERROR_ARGUMENT,
                      "rope: high_freq_factor: wanted a finite number of at least low_freq_factor "
                      "%g, found %g",
                      p->low_freq_factor, p->high_freq_factor);
}

static rhumb_result check_scaling(const rhumb_context *context, const rhumb_rope *p)
{
    switch (p->scaling) {
    case RHUMB_ROPE_SCALING_NONE:
    case RHUMB_ROPE_SCALING_LINEAR: return RHUMB_OK;
    case RHUMB_ROPE_SCALING_NTK: return check_ntk(context, p);
    case RHUMB_ROPE_SCALING_NTK_DYNAMIC:
        RHUMB_TRY(check_ntk(context, p));
        return check_length(context, p, "max_length", p->max_length);
    case RHUMB_ROPE_SCALING_LINEAR_DYNAMIC:
        return check_length(context, p, "max_length", p->max_length);
    case RHUMB_ROPE_SCALING_NTK_BY_PARTS: return check_ntk_by_parts(context, p);
    case RHUMB_ROPE_SCALING_YARN: return check_yarn(context, p);
    case RHUMB_ROPE_SCALING_LLAMA3: return check_llama3(context, p);
    case RHUMB_ROPE_SCALING_LONGROPE:
        RHUMB_TRY(check_length(context, p, "original_length", p->original_length));
        RHUMB_TRY(check_list(context, p, "short_factors", p->short_factors, false));
        return check_list(context, p, "long_factors", p->long_factors, false);
    case RHUMB_ROPE_SCALING_PROPORTIONAL:
        if (p->partial_factor > 0 && p->partial_factor <= 1)
            return RHUMB_OK;
        return rhumb_fail(context, RHUMB_ERROR_ARGUMENT,
                          "rope: partial_factor: wanted a number above 0, at most 1, found %g",
                          p->partial_factor);
    case RHUMB_ROPE_SCALING_EXPLICIT:
        if (p->divisors)
            return rhumb_fail(context, RHUMB_ERROR_ARGUMENT,
                              "rope: divisors: wanted NULL, as EXPLICIT has no plain frequencies "
                              "to divide, found a list");
        return check_list(context, p, "frequencies", p->frequencies, true);
    }
    return RHUMB_OK;
}

/* Any rule of the magnitude goes with any scaling. */
static rhumb_result check_magnitude(const rhumb_context *context, const rhumb_rope *p)
{
    RHUMB_TRY(check_float(context, "attention_factor", p->attention_factor));
    if (p->magnitude != RHUMB_MAGNITUDE_GIVEN && p->attention_factor != 1)
        return rhumb_fail(context, RHUMB_ERROR_ARGUMENT,
                          "rope: attention_factor: wanted 1 where magnitude is not "
                          "RHUMB_MAGNITUDE_GIVEN, found %g",
                          p->attention_factor);
    RHUMB_TRY(check_float(context, "attention_multiplier", p->attention_multiplier));
    RHUMB_TRY(check_at_least(context, "mscale", p->mscale, 0));
    return check_at_least(context, "mscale_all_dim", p->mscale_all_dim, 0);
}

rhumb_result rhumb_check_rope(const rhumb_context *context, const rhumb_rope *p, uint32_t head_dim)
{
    RHUMB_TRY(check_enums(context, p));
    RHUMB_TRY(check_window(context, p, head_dim));
    RHUMB_TRY(check_above_zero(context, "base", p->base));
    RHUMB_TRY(check_at_least(context, "factor", p->factor, 1));
    RHUMB_TRY(check_magnitude(context, p));
    RHUMB_TRY(check_scaling(context, p));
    return p->divisors ? check_list(context, p, "divisors", p->divisors, false) : RHUMB_OK;
}
