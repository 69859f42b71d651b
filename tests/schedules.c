#include "schedules.h"

#include <criterion/criterion.h>
#include <math.h>

static void set(double *field, double value)
{
    if (value > 0)
        *field = value;
}

rhumb_rope schedule_rope(const schedule *s)
{
    rhumb_rope rope;
    rhumb_init_rope(&rope);
    rope.scaling = s->scaling;
    if (s->rotary_dim)
        rope.rotary_dim = s->rotary_dim;
    set(&rope.base, s->base);
    set(&rope.factor, s->factor);
    rope.original_length = s->original_length;
    rope.max_length = s->max_length;
    set(&rope.beta_fast, s->beta_fast);
    set(&rope.beta_slow, s->beta_slow);
    rope.mscale = s->mscale;
    rope.mscale_all_dim = s->mscale_all_dim;
    set(&rope.extrapolation, s->extrapolation);
    set(&rope.attention_multiplier, s->multiplier);
    set(&rope.partial_factor, s->partial_factor);
    rope.magnitude = s->magnitude;
    set(&rope.attention_factor, s->attention_factor);
    rope.truncate = !s->not_truncated;
    return rope;
}

schedule_result schedule_frequencies(const rhumb_rope *rope, uint32_t head_dim, uint32_t length)
{
    schedule_result r = {.count = 0};
    rhumb_result code = rhumb_rotary_frequencies(rope, head_dim, length, r.f, RHUMB_MAX_PAIRS,
                                                 &r.count, &r.magnitude);
    cr_assert_eq(code, RHUMB_OK, "%s", rhumb_last_message(NULL));
    return r;
}

schedule_result schedule_compute(const schedule *s, uint32_t length)
{
    rhumb_rope rope = schedule_rope(s);
    return schedule_frequencies(&rope, s->head_dim, length);
}

void schedule_expect(const char *name, const char *what, uint32_t index, double got, double want,
                     double bound)
{
    cr_expect(fabs(got - want) <= bound * fabs(want), "%s: %s %u: got %.17g, want %.17g", name,
              what, index, got, want);
}

static const double ones[] = {1, 1, 1, 1}, twos[] = {2, 2, 2, 2};

rhumb_rope schedule_longrope(void)
{
    rhumb_rope rope;
    rhumb_init_rope(&rope);
    rope.scaling = LONGROPE;
    rope.original_length = 4096;
    rope.max_length = 131072; /* a cache's capacity chooses nothing */
    rope.short_factors = ones;
    rope.long_factors = twos;
    rope.list_count = 4;
    return rope;
}
