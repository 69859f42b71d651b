/* What the files of the rope scheme share. The struct is complete, and WHOLE_HEAD is replaced. */
#ifndef RHUMB_SCHEME_ROPE_H
#define RHUMB_SCHEME_ROPE_H

#include "../internal.h"

/* rope_check.c: every parameter that the scaling reads. */
rhumb_result rhumb_check_rope(const rhumb_context *context, const rhumb_rope *p, uint32_t head_dim);

/* rope_ramp.c: where YARN and NTK_BY_PARTS leave plain frequencies (low) and where they end
 * (high), in pairs, for two numbers of turns within original_length. */
typedef struct rhumb_ramp {
    long double low;
    long double high;
} rhumb_ramp;

rhumb_ramp rhumb_make_ramp(const rhumb_rope *p, double fast, double slow, bool truncate);
/* 0 up to low, 1 from high on. */
long double rhumb_ramp_at(rhumb_ramp ramp, uint32_t pair);

/* The turns of NTK_BY_PARTS: the outer ramp is YaRN's with other ends, the inner one gives NTK the
 * place between plain and linear frequencies. */
#define PARTS_OUTER_FAST 16.0
#define PARTS_OUTER_SLOW 2.0
#define PARTS_INNER_FAST 1.25
#define PARTS_INNER_SLOW 0.75

#endif /* RHUMB_SCHEME_ROPE_H */
