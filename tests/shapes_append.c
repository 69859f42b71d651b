#include "shapes_append.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NOT_GIVEN RHUMB_UNSET

typedef struct append_run {
    const append_shape *s;
    uint32_t batch;
    rhumb_rope rope;
    verify_rotary rotary;
    harness_tensor q, q_out, k, v, k_cache, v_cache, lengths, slots, positions, status;
    harness_tensor k_seen;      /* K as [B, kv_heads, L, head_dim], broadcast or not */
    harness_tensor q_before;
    uint8_t *k_poison, *v_poison;
    int32_t *position_of;       /* [axes, B, rows] */
    gpu_operation op;
} append_run;

/* ---- what the rows are ---- */

static uint32_t rows_of(const append_shape *s, uint32_t b)
{
    if (s->lengths != NULL && s->lengths[b][1] != NOT_GIVEN) {
        return (uint32_t)s->lengths[b][1];
    }
    return s->q_length != 0 ? s->q_length : s->rows;
}

static int64_t offset_of(const append_shape *s, uint32_t b)
{
    if (s->lengths != NULL && s->lengths[b][2] != NOT_GIVEN) {
        return s->lengths[b][2];
    }
    return s->offset_given ? s->q_offset : 0;
}

/* Row of the cache that takes row l, or -1. */
static int64_t target_of(const append_shape *s, uint32_t b, uint32_t l)
{
    int64_t at = s->append_given ? s->append_position : offset_of(s, b);
    if (l >= rows_of(s, b)) {
        return -1;
    }
    if (s->append == RHUMB_APPEND_SLOTS) {
        at = s->slots[(s->slots_shared ? 0 : b * s->rows) + l];
        return at < (int64_t)s->capacity ? at : -1;
    }
    if (s->lengths != NULL && s->lengths[b][3] != NOT_GIVEN) {
        at = s->lengths[b][3];
    }
    if (s->append == RHUMB_APPEND_RING) {
        return at < 0 ? -1 : (at + l) % s->capacity;
    }
    return at + l < 0 || at + l >= (int64_t)s->capacity ? -1 : at + l;
}

/* ---- building a run ---- */

static harness_tensor *integers(append_run *run, harness_tensor *t, rhumb_view_id id, uint64_t h,
                                uint64_t l, uint64_t d, const int32_t *values, bool output)
{
    harness_make_tensor(t, RHUMB_I32, 1, h, l, d, (harness_layout){0});
    for (uint64_t i = 0; i < t->count; i++) {
        t->values[i] = values != NULL ? values[i] : 0;
    }
    harness_store(t);
    (void)harness_add(&run->op, id, t, output);
    return t;
}

static void make_small_views(append_run *run)
{
    const append_shape *s = run->s;
    if (s->lengths != NULL) {
        (void)integers(run, &run->lengths, RHUMB_VIEW_LENGTHS, 1, run->batch, 4, s->lengths[0],
                       false);
    }
    if (s->slots != NULL) {
        (void)integers(run, &run->slots, RHUMB_VIEW_SLOTS, 1, s->slots_shared ? 1 : run->batch,
                       s->rows, s->slots, false);
    }
    if (s->positions != NULL) {
        (void)integers(run, &run->positions, RHUMB_VIEW_POSITIONS_Q, run->rotary.axes, run->batch,
                       s->rows, s->positions, false);
    }
    (void)integers(run, &run->status, RHUMB_VIEW_STATUS, 1, 1, 1, NULL, true);
}

static void make_positions(append_run *run)
{
    const append_shape *s = run->s;
    size_t count = (size_t)run->batch * s->rows;
    run->position_of = harness_alloc(run->rotary.axes * count, sizeof *run->position_of);
    for (size_t i = 0; i < run->rotary.axes * count; i++) {
        uint32_t b = (uint32_t)(i % count / s->rows), l = (uint32_t)(i % s->rows);
        run->position_of[i] =
            s->positions != NULL ? s->positions[i] : (int32_t)(offset_of(s, b) + l);
    }
}

static void make_keys(append_run *run, harness_random *r)
{
    const append_shape *s = run->s;
    gpu_tensor *view;
    harness_make_tensor(&run->k, s->k, run->batch, s->k_broadcast ? 1 : s->kv_heads, s->rows,
                        s->head_dim, s->layout);
    harness_fill_normal(&run->k, r);
    view = harness_add(&run->op, RHUMB_VIEW_K, &run->k, false);
    harness_make_tensor(&run->k_seen, s->k, run->batch, s->kv_heads, s->rows, s->head_dim,
                        (harness_layout){0});
    for (uint64_t i = 0; i < run->k_seen.count; i++) {
        uint64_t d = i % s->head_dim, l = i / s->head_dim % s->rows;
        uint64_t h = i / s->head_dim / s->rows % s->kv_heads;
        uint64_t b = i / s->head_dim / s->rows / s->kv_heads;
        run->k_seen.values[i] =
            run->k.values[harness_index(&run->k, b, s->k_broadcast ? 0 : h, l, d)];
    }
    harness_store(&run->k_seen);
    if (s->k_broadcast) {
        view->shape[1] = s->kv_heads;
        view->stride[1] = 0;
    }
    harness_make_tensor(&run->k_cache, s->cache, run->batch, s->kv_heads, s->capacity, s->head_dim,
                        s->cache_layout);
    (void)harness_add(&run->op, RHUMB_VIEW_K_OUT, &run->k_cache, true);
    run->k_poison = harness_alloc(run->k_cache.bytes, 1);
    memcpy(run->k_poison, run->k_cache.memory, run->k_cache.bytes);
}

static void make_values(append_run *run, harness_random *r)
{
    const append_shape *s = run->s;
    if (s->value_dim == 0) {
        return;
    }
    harness_make_tensor(&run->v, s->v, run->batch, s->kv_heads, s->rows, s->value_dim, s->layout);
    harness_fill_normal(&run->v, r);
    if (s->v == s->v_cache) { /* bits that arithmetic would not keep */
        memset(run->v.memory + harness_byte(&run->v, 0), 0xff, harness_dtype_size(s->v));
    }
    (void)harness_add(&run->op, RHUMB_VIEW_V, &run->v, false);
    harness_make_tensor(&run->v_cache, s->v_cache, run->batch, s->kv_heads, s->capacity,
                        s->value_dim, s->cache_layout);
    (void)harness_add(&run->op, RHUMB_VIEW_V_OUT, &run->v_cache, true);
    run->v_poison = harness_alloc(run->v_cache.bytes, 1);
    memcpy(run->v_poison, run->v_cache.memory, run->v_cache.bytes);
}

static void make_queries(append_run *run, harness_random *r)
{
    const append_shape *s = run->s;
    if (s->heads == 0) {
        return;
    }
    harness_make_tensor(&run->q, s->q, run->batch, s->heads, s->rows, s->head_dim, s->layout);
    harness_make_tensor(&run->q_before, s->q, run->batch, s->heads, s->rows, s->head_dim,
                        s->layout);
    harness_fill_normal(&run->q, r);
    memcpy(run->q_before.memory, run->q.memory, run->q.bytes);
    harness_load(&run->q_before);
    (void)harness_add(&run->op, RHUMB_VIEW_Q, &run->q, !s->q_apart);
    if (s->q_apart) {
        harness_make_tensor(&run->q_out, s->q, run->batch, s->heads, s->rows, s->head_dim,
                            (harness_layout){0});
        (void)harness_add(&run->op, RHUMB_VIEW_Q_OUT, &run->q_out, true);
    }
}

static void make_run(append_run *run, const append_shape *s)
{
    harness_random r = {.state = 500 + s->head_dim + 3 * s->rows};
    memset(run, 0, sizeof *run);
    run->s = s;
    run->batch = s->batch != 0 ? s->batch : 1;
    gpu_init_operation(&run->op, RHUMB_OP_ROTATE);
    rhumb_init_rope(&run->rope);
    run->rope.pairing = s->pairing;
    run->rope.rotary_dim = s->rotary_dim != 0 ? s->rotary_dim : RHUMB_WHOLE_HEAD;
    run->rope.rotary_offset = s->rotary_offset;
    run->op.info.rotary = s->scheme != NULL ? s->scheme() : &run->rope;
    if (!verify_read_rotary(run->op.info.rotary, s->head_dim, 0, &run->rotary)) {
        fprintf(stderr, "%s: the reference does not know the scheme\n", s->name);
        abort();
    }
    run->op.info.heads = s->heads != 0 ? s->heads : s->kv_heads;
    run->op.info.kv_heads = s->kv_heads;
    run->op.info.head_dim = s->head_dim;
    run->op.info.value_dim = s->value_dim != 0 ? s->value_dim : RHUMB_SAME;
    run->op.info.max_q_length = s->rows;
    run->op.info.append = s->append;
    run->op.dispatch.q_length = s->q_length != 0 ? (int32_t)s->q_length : RHUMB_UNSET;
    run->op.dispatch.q_offset = s->offset_given ? s->q_offset : RHUMB_UNSET;
    run->op.dispatch.append_position = s->append_given ? s->append_position : RHUMB_UNSET;
    make_keys(run, &r);
    make_values(run, &r);
    make_queries(run, &r);
    make_small_views(run);
    make_positions(run);
}

static void free_run(append_run *run)
{
    harness_tensor *all[] = {&run->q,       &run->q_out, &run->k,         &run->v,
                             &run->k_cache, &run->v_cache, &run->lengths, &run->slots,
                             &run->positions, &run->status, &run->k_seen, &run->q_before};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        harness_free_tensor(all[i]);
    }
    free(run->k_poison);
    free(run->v_poison);
    free(run->position_of);
}

/* ---- what must have come of it ---- */

/* want and bound of a rotation of `in`; the caller frees both. */
static bool rotated(harness *h, const append_run *run, const harness_tensor *in, bool keys,
                    rhumb_dtype out, double **want, double **bound)
{
    const verify_rows rows = {.batch = run->batch,
                              .heads = (uint32_t)in->shape[1],
                              .rows = run->s->rows,
                              .head_dim = run->s->head_dim,
                              .positions = run->position_of,
                              .keys = keys};
    *want = harness_alloc(in->count, sizeof **want);
    *bound = harness_alloc(in->count, sizeof **bound);
    if (!verify_rotate(&run->rotary, &rows, in->values, *want)) {
        return harness_fail(h, "append: %s: the reference refused it", run->s->name);
    }
    shape_rotate_bounds(&run->rotary, run->position_of, keys, in, out, *want, *bound);
    return true;
}

/* Rows that took something hold it, and all others what they held before. */
static bool check_cache(harness *h, const append_run *run, const char *which,
                        harness_tensor *cache, const uint8_t *poison, const double *want,
                        const double *bound)
{
    const append_shape *s = run->s;
    uint64_t size = harness_dtype_size(cache->dtype), dim = cache->shape[3];
    harness_load(cache);
    for (uint64_t i = 0; i < cache->count; i++) {
        uint64_t row = i / dim % s->capacity, head = i / dim / s->capacity % s->kv_heads;
        uint32_t b = (uint32_t)(i / dim / s->capacity / s->kv_heads);
        uint32_t l = 0;
        uint64_t at = harness_byte(cache, i), from;
        while (l < s->rows && target_of(s, b, l) != (int64_t)row) {
            l++;
        }
        from = ((b * s->kv_heads + head) * s->rows + l) * dim + i % dim;
        if (l == s->rows && memcmp(cache->memory + at, poison + at, size) != 0) {
            return harness_fail(h, "append: %s: %s [%u, %llu, %llu, %llu] was written", s->name,
                                which, b, (unsigned long long)head, (unsigned long long)row,
                                (unsigned long long)(i % dim));
        }
        if (l < s->rows && !(isnan(cache->values[i]) && isnan(want[from])) &&
            !harness_note(h, cache->dtype, fabs(cache->values[i] - want[from]), bound[from])) {
            return harness_fail(
                h, "append: %s: %s [%u, %llu, %llu, %llu]: got %.9g, want %.9g, bound %.3g",
                s->name, which, b, (unsigned long long)head, (unsigned long long)row,
                (unsigned long long)(i % dim), cache->values[i], want[from], bound[from]);
        }
    }
    return true;
}

/* V as it was, or rounded once to the cache's format. */
static bool check_values(harness *h, append_run *run)
{
    const append_shape *s = run->s;
    harness_tensor narrow;
    double *none;
    bool passed = true;
    if (s->value_dim == 0) {
        return true;
    }
    harness_make_tensor(&narrow, s->v_cache, run->batch, s->kv_heads, s->rows, s->value_dim,
                        (harness_layout){0});
    none = harness_alloc(narrow.count, sizeof *none);
    harness_load(&run->v);
    memcpy(narrow.values, run->v.values, narrow.count * sizeof *narrow.values);
    harness_store(&narrow);
    passed = check_cache(h, run, "V", &run->v_cache, run->v_poison, narrow.values, none);
    if (passed && s->v == s->v_cache && target_of(s, 0, 0) >= 0) {
        uint64_t to = harness_index(&run->v_cache, 0, 0, (uint64_t)target_of(s, 0, 0), 0);
        if (memcmp(run->v_cache.memory + harness_byte(&run->v_cache, to),
                   run->v.memory + harness_byte(&run->v, 0), harness_dtype_size(s->v)) != 0) {
            passed = harness_fail(h, "append: %s: V is not copied bit for bit", s->name);
        }
    }
    free(none);
    harness_free_tensor(&narrow);
    return passed;
}

static bool check_keys(harness *h, append_run *run)
{
    double *want, *bound;
    bool passed = rotated(h, run, &run->k_seen, true, run->s->cache, &want, &bound) &&
                  check_cache(h, run, "K", &run->k_cache, run->k_poison, want, bound);
    free(want);
    free(bound);
    return passed;
}

static bool check_queries(harness *h, append_run *run)
{
    const append_shape *s = run->s;
    harness_tensor *out = s->q_apart ? &run->q_out : &run->q;
    double *want, *bound;
    bool *skip, passed;
    if (s->heads == 0) {
        return true;
    }
    harness_load(out);
    skip = harness_alloc(out->count, sizeof *skip);
    for (uint64_t i = 0; i < out->count; i++) {
        uint32_t b = (uint32_t)(i / s->head_dim / s->rows / s->heads);
        skip[i] = i / s->head_dim % s->rows >= rows_of(s, b);
    }
    passed = rotated(h, run, &run->q_before, false, s->q, &want, &bound) &&
             harness_compare(h, "append: Q", s->name, out, want, bound, skip);
    free(skip);
    free(want);
    free(bound);
    return passed;
}

bool shape_run_append(harness *h, const append_shape *s)
{
    append_run run;
    rhumb_result result;
    bool passed = true;
    make_run(&run, s);
    if (!harness_wants(h, &run.op)) {
        free_run(&run);
        return true;
    }
    h->cases++;
    result = harness_run(h, &run.op);
    if (result != RHUMB_OK) {
        passed = harness_fail(h, "append: %s: %s: %s", s->name, rhumb_result_name(result),
                              run.op.message);
    }
    passed = passed && check_keys(h, &run) && check_values(h, &run) && check_queries(h, &run);
    harness_load(&run.status);
    if (passed && run.status.values[0] != s->skipped) {
        passed = harness_fail(h, "append: %s: STATUS: got %g, want %u", s->name,
                              run.status.values[0], s->skipped);
    }
    free_run(&run);
    return passed;
}
