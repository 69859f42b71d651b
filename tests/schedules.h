/* Schedules of rope in few words, and what rhumb_rotary_frequencies says to them. */
#ifndef RHUMB_TESTS_SCHEDULES_H
#define RHUMB_TESTS_SCHEDULES_H

#include "internal.h"

#define NONE RHUMB_ROPE_SCALING_NONE
#define LINEAR RHUMB_ROPE_SCALING_LINEAR
#define NTK RHUMB_ROPE_SCALING_NTK
#define NTK_DYNAMIC RHUMB_ROPE_SCALING_NTK_DYNAMIC
#define LINEAR_DYNAMIC RHUMB_ROPE_SCALING_LINEAR_DYNAMIC
#define NTK_BY_PARTS RHUMB_ROPE_SCALING_NTK_BY_PARTS
#define YARN RHUMB_ROPE_SCALING_YARN
#define LLAMA3 RHUMB_ROPE_SCALING_LLAMA3
#define LONGROPE RHUMB_ROPE_SCALING_LONGROPE
#define PROPORTIONAL RHUMB_ROPE_SCALING_PROPORTIONAL
#define EXPLICIT RHUMB_ROPE_SCALING_EXPLICIT

/* Fields that are 0 keep rope's default. */
typedef struct schedule {
    rhumb_rope_scaling scaling;
    uint32_t head_dim;
    uint32_t rotary_dim;
    double base;
    double factor;
    uint32_t original_length;
    uint32_t max_length;
    double beta_fast, beta_slow;
    double mscale, mscale_all_dim;
    double extrapolation, multiplier;
    double partial_factor;
    rhumb_magnitude magnitude;
    double attention_factor;
    bool not_truncated;
} schedule;

typedef struct schedule_result {
    double f[RHUMB_MAX_PAIRS];
    uint32_t count;
    double magnitude;
} schedule_result;

rhumb_rope schedule_rope(const schedule *s);

/* Fail the test where rhumb refuses. */
schedule_result schedule_frequencies(const rhumb_rope *rope, uint32_t head_dim, uint32_t length);
schedule_result schedule_compute(const schedule *s, uint32_t length);

/* |got - want| <= bound * |want|. */
void schedule_expect(const char *name, const char *what, uint32_t index, double got, double want,
                     double bound);

/* Head size 8, original length 4096: short factors 1, long factors 2. */
rhumb_rope schedule_longrope(void);

#endif
