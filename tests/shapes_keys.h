/* ROTATE on keys that were rotated before, on a profile: SHIFT moves them by a distance, RESCHEDULE
 * turns them as a longer context wants them. Both must give what rotating the raw keys afresh
 * gives. */
#ifndef RHUMB_TESTS_SHAPES_KEYS_H
#define RHUMB_TESTS_SHAPES_KEYS_H

#include "shapes.h"

enum { SHAPE_KEY_HEADS = 3 };

/* One tensor of keys; `rows` positions for each axis and batch entry. */
typedef struct shape_keys {
    const char *name;
    const void *rotary;
    uint32_t batch, rows, head_dim;
    rhumb_dtype dtype;
    harness_tensor raw, got;
} shape_keys;

void shape_make_keys(shape_keys *k);
void shape_free_keys(shape_keys *k);

/* How a pass over the keys is made. */
typedef struct shape_pass {
    rhumb_purpose purpose;
    const int32_t *positions;  /* [axes, B, rows]; NULL: q_offset */
    uint32_t axes;             /* 0: 1 */
    int32_t q_offset;
    const int32_t *q_offsets;  /* LENGTHS, one a batch entry */
    uint32_t old_length, new_length;
    uint32_t inverse;
} shape_pass;

/* ROTATE from raw into got; every other purpose in place in got, which is loaded. */
void shape_pass_keys(harness *h, shape_keys *k, const shape_pass *p);

/* A view of int32 numbers. */
void shape_add_integers(gpu_operation *op, harness_tensor *t, rhumb_view_id id, uint64_t h,
                        uint64_t l, uint64_t d, const int32_t *values);

/* positions[i] = first + distance + i % rows */
void shape_fill_rows(int32_t *positions, uint32_t count, uint32_t rows, int32_t first,
                     int32_t distance);

/* got against keys rotated afresh at positions [axes, B, rows]: by the bar of f32 keys of order 1,
 * and by the bound of `passes` rotations. */
void shape_expect_close(harness *h, const shape_keys *k, const int32_t *positions,
                        uint32_t length);
void shape_expect_fresh(harness *h, shape_keys *k, const int32_t *positions, uint32_t length,
                        uint32_t passes);

/* Keys at 300 and on, shifted three times; and keys of one length turned into those of another, and
 * back. */
void shape_run_shifts(harness *h, const char *name, const void *rotary, uint32_t head_dim,
                      rhumb_dtype dtype);
void shape_run_reschedule(harness *h, const char *name, const void *rotary, rhumb_dtype dtype,
                          uint32_t old_length, uint32_t new_length);

#endif
