/* What the files of the rotary reference share. */
#ifndef RHUMB_REFERENCE_ROPE_INTERNAL_H
#define RHUMB_REFERENCE_ROPE_INTERNAL_H

#include "pair_sum.h"
#include "reference.h"

/* The R/2 frequencies of a rope, or -1. */
int ref_schedule(const ref_rope *rope, pair_sum *frequencies);

/* cos and sin of the pairs of one row, with every factor they carry. */
typedef void (*ref_angles_fn)(const void *user, uint32_t b, uint32_t h, uint32_t l,
                              double *cosines, double *sines);

/* Rows of a [batch, heads, rows, head_dim] tensor, and the window of each that turns. */
typedef struct ref_turning {
    ref_pairing pairing;
    uint32_t pairs;
    uint32_t offset;
    uint32_t batch;
    uint32_t heads;
    uint32_t rows;
    uint32_t head_dim;
    int per_head; /* angles depend on the head, not only on token and pair */
} ref_turning;

/* y = x turned; may be the same array. -1 for a window that does not fit, or without memory. */
int ref_turn_all(const ref_turning *turning, ref_angles_fn angles, const void *user,
                 const double *x, double *y);

#endif
