#include "shapes_keys.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FRESH 2e-6 /* of keys of order 1 */
#define REFUSED "the reference refuses a shape"

void shape_make_keys(shape_keys *k)
{
    harness_random r = {.state = 7 + k->head_dim};
    harness_make_tensor(&k->raw, k->dtype, k->batch, SHAPE_KEY_HEADS, k->rows, k->head_dim,
                        (harness_layout){0});
    harness_make_tensor(&k->got, k->dtype, k->batch, SHAPE_KEY_HEADS, k->rows, k->head_dim,
                        (harness_layout){0});
    for (uint64_t i = 0; i < k->raw.count; i++) {
        k->raw.values[i] = harness_uniform(&r, -1.0, 1.0);
    }
    harness_store(&k->raw);
}

void shape_free_keys(shape_keys *k)
{
    harness_free_tensor(&k->raw);
    harness_free_tensor(&k->got);
}

void shape_add_integers(gpu_operation *op, harness_tensor *t, rhumb_view_id id, uint64_t h,
                        uint64_t l, uint64_t d, const int32_t *values)
{
    harness_make_tensor(t, RHUMB_I32, 1, h, l, d, (harness_layout){0});
    for (uint64_t i = 0; i < t->count; i++) {
        t->values[i] = values[i];
    }
    harness_store(t);
    (void)harness_add(op, id, t, false);
}

/* ROTATE from raw into got; every other purpose in place in got. */
void shape_pass_keys(harness *h, shape_keys *k, const shape_pass *p)
{
    harness_tensor positions = {0}, lengths = {0};
    int32_t four[4 * 8];
    gpu_operation op;
    gpu_init_operation(&op, RHUMB_OP_ROTATE);
    op.info.rotary = k->rotary;
    op.info.purpose = p->purpose;
    op.info.heads = SHAPE_KEY_HEADS;
    op.info.head_dim = k->head_dim;
    op.info.max_q_length = k->rows;
    op.dispatch.inverse = p->inverse;
    op.dispatch.q_offset = p->q_offset;
    op.old_length = p->old_length;
    op.new_length = p->new_length;
    if (p->purpose == RHUMB_PURPOSE_ROTATE) {
        (void)harness_add(&op, RHUMB_VIEW_K, &k->raw, false);
        (void)harness_add(&op, RHUMB_VIEW_K_OUT, &k->got, true);
    } else {
        (void)harness_add(&op, RHUMB_VIEW_K, &k->got, true);
    }
    if (p->positions != NULL) {
        shape_add_integers(&op, &positions, RHUMB_VIEW_POSITIONS_Q, p->axes != 0 ? p->axes : 1,
                           k->batch, k->rows, p->positions);
    }
    for (uint32_t i = 0; p->q_offsets != NULL && i < 4 * k->batch; i++) {
        four[i] = i % 4 == 2 ? p->q_offsets[i / 4] : RHUMB_UNSET;
    }
    if (p->q_offsets != NULL) {
        shape_add_integers(&op, &lengths, RHUMB_VIEW_LENGTHS, 1, k->batch, 4, four);
    }
    h->cases++;
    if (harness_run(h, &op) != RHUMB_OK) {
        harness_fail(h, "%s: %s", k->name, op.message);
    }
    harness_load(&k->got);
    harness_free_tensor(&positions);
    harness_free_tensor(&lengths);
}

/* The raw keys rotated once at `positions` [axes, B, rows], and the bound of one rotation in f32;
 * the caller frees. */
static double *fresh(const shape_keys *k, const int32_t *positions, uint32_t length, double *bound)
{
    const verify_rows rows = {.batch = k->batch,
                              .heads = SHAPE_KEY_HEADS,
                              .rows = k->rows,
                              .head_dim = k->head_dim,
                              .positions = positions,
                              .keys = true};
    double *want = harness_alloc(k->raw.count, sizeof *want);
    verify_rotary rotary;
    harness_need(verify_read_rotary(k->rotary, k->head_dim, length, &rotary), REFUSED);
    harness_need(verify_rotate(&rotary, &rows, k->raw.values, want), REFUSED);
    shape_rotate_bounds(&rotary, positions, true, &k->raw, RHUMB_F32, want, bound);
    return want;
}

/* The bar of keys in f32 that are of order 1. */
void shape_expect_close(harness *h, const shape_keys *k, const int32_t *positions, uint32_t length)
{
    double *bound = harness_alloc(k->raw.count, sizeof *bound);
    double *want = fresh(k, positions, length, bound);
    double worst = 0.0;
    for (uint64_t i = 0; i < k->got.count; i++) {
        worst = fmax(worst, fabs(k->got.values[i] - want[i]));
    }
    if (k->dtype == RHUMB_F32 && !(worst <= FRESH)) {
        harness_fail(h, "%s: off by %.3g, bound %.3g", k->name, worst, FRESH);
    }
    free(want);
    free(bound);
}

/* got against keys rotated afresh. `passes` rotations lie behind it, each with the error of one;
 * 16-bit keys were rounded after each. */
void shape_expect_fresh(harness *h, shape_keys *k, const int32_t *positions, uint32_t length,
                        uint32_t passes)
{
    double *bound = harness_alloc(k->raw.count, sizeof *bound);
    double *want = fresh(k, positions, length, bound);
    for (uint64_t i = 0; i < k->raw.count; i++) {
        /* no channel on the way is above: the bound is 1e-6 of what a pair holds */
        double largest = fabs(want[i]) + bound[i] * 1e6;
        if (bound[i] <= 0.0) {
            continue; /* copied */
        }
        bound[i] *= passes;
        /* a rounding is turned with its pair's: below twice one of them */
        bound[i] += harness_rounding(k->dtype, largest) * (2.0 * passes - 1.0);
    }
    (void)harness_compare(h, k->name, "against keys rotated afresh", &k->got, want, bound, NULL);
    free(want);
    free(bound);
}

/* Positions first + l, and what they are after `distance`. */
void shape_fill_rows(int32_t *positions, uint32_t count, uint32_t rows, int32_t first,
                     int32_t distance)
{
    for (uint32_t i = 0; i < count; i++) {
        positions[i] = first + distance + (int32_t)(i % rows);
    }
}

/* Rotated, shifted three times, against keys rotated once where they end. */
void shape_run_shifts(harness *h, const char *name, const void *rotary, uint32_t head_dim,
                      rhumb_dtype dtype)
{
    static const int32_t distances[3] = {7, -100, 41};
    shape_keys k = {.name = name,
                    .rotary = rotary,
                    .batch = 2,
                    .rows = 5,
                    .head_dim = head_dim,
                    .dtype = dtype};
    int32_t positions[2 * 5], moved = 0;
    shape_make_keys(&k);
    shape_fill_rows(positions, 10, 5, 300, 0);
    shape_pass_keys(h, &k, &(shape_pass){.purpose = RHUMB_PURPOSE_ROTATE, .q_offset = 300});
    shape_expect_fresh(h, &k, positions, 0, 1);
    for (uint32_t i = 0; i < 3; i++) {
        moved += distances[i];
        shape_pass_keys(h, &k,
                        &(shape_pass){.purpose = RHUMB_PURPOSE_SHIFT, .q_offset = distances[i]});
        shape_fill_rows(positions, 10, 5, 300, moved);
        shape_expect_fresh(h, &k, positions, 0, 2 + i);
    }
    shape_free_keys(&k);
}

void shape_run_reschedule(harness *h, const char *name, const void *rotary, rhumb_dtype dtype,
                          uint32_t old_length, uint32_t new_length)
{
    int32_t positions[2 * 5];
    shape_keys k = {
        .name = name, .rotary = rotary, .batch = 2, .rows = 5, .head_dim = 64, .dtype = dtype};
    shape_make_keys(&k);
    shape_fill_rows(positions, 10, 5, (int32_t)old_length - 5, 0);
    positions[0] = 0;
    shape_pass_keys(h, &k,
                    &(shape_pass){.purpose = RHUMB_PURPOSE_ROTATE,
                                  .positions = positions,
                                  .new_length = old_length});
    shape_pass_keys(h, &k,
                    &(shape_pass){.purpose = RHUMB_PURPOSE_RESCHEDULE,
                                  .positions = positions,
                                  .old_length = old_length,
                                  .new_length = new_length});
    shape_expect_fresh(h, &k, positions, new_length, 2);
    shape_expect_close(h, &k, positions, new_length);
    shape_pass_keys(h, &k,
                    &(shape_pass){.purpose = RHUMB_PURPOSE_RESCHEDULE,
                                  .positions = positions,
                                  .old_length = old_length,
                                  .new_length = new_length,
                                  .inverse = 1});
    shape_expect_fresh(h, &k, positions, old_length, 3);
    shape_free_keys(&k);
}
