/* A key-value cache as a model uses it: token by token in a recorded command buffer, latent
 * attention's one rope key for all heads, and the numbers of published reports through it. */
#include "shapes.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Latent attention's keys as attention reads them, [B, heads, L, 192]: one rope key of 64 channels
 * for all heads, turned into channels 128 on of each; what is in the others stays. */
static void check_latent_keys(harness *h)
{
    enum { HEADS = 5, ROWS = 3, CAPACITY = 4, WIDE = 192, ROPE = 64, NOPE = 128 };
    int32_t positions[ROWS] = {9, 10, 11};
    const verify_rows rows = {.batch = 1, .heads = 1, .rows = ROWS, .head_dim = ROPE,
                              .positions = positions, .keys = true};
    harness_random r = {.state = 3};
    harness_tensor k, cache;
    verify_rotary rotary;
    rhumb_rope rope;
    gpu_operation op;
    gpu_tensor *view;
    double want[ROWS * ROPE], bound[ROWS * ROPE];
    uint8_t *before;
    harness_make_tensor(&k, RHUMB_F32, 1, 1, ROWS, ROPE, (harness_layout){0});
    harness_make_tensor(&cache, RHUMB_F32, 1, HEADS, CAPACITY, WIDE, (harness_layout){0});
    harness_fill_normal(&k, &r);
    harness_fill_normal(&cache, &r);
    before = harness_alloc(cache.bytes, 1);
    memcpy(before, cache.memory, cache.bytes);
    rhumb_init_rope(&rope);
    rope.pairing = RHUMB_PAIRING_INTERLEAVED;
    gpu_init_operation(&op, RHUMB_OP_ROTATE);
    op.info.rotary = &rope;
    op.info.heads = HEADS;
    op.info.head_dim = ROPE;
    op.info.max_q_length = ROWS;
    op.info.append = RHUMB_APPEND_POSITION;
    op.dispatch.q_offset = positions[0];
    op.dispatch.append_position = 1;
    view = harness_add(&op, RHUMB_VIEW_K, &k, false);
    view->shape[1] = HEADS;
    view->stride[1] = 0;
    view = harness_add(&op, RHUMB_VIEW_K_OUT, &cache, true);
    view->shape[3] = ROPE;
    view->offset = NOPE * sizeof(float);
    h->cases++;
    if (harness_run(h, &op) != RHUMB_OK) {
        harness_fail(h, "latent keys: %s", op.message);
    }
    harness_load(&cache);
    cr_assert(verify_read_rotary(&rope, ROPE, 0, &rotary));
    cr_assert(verify_rotate(&rotary, &rows, k.values, want));
    shape_rotate_bounds(&rotary, positions, true, &k, RHUMB_F32, want, bound);
    for (uint64_t i = 0; i < cache.count; i++) {
        uint64_t d = i % WIDE, l = i / WIDE % CAPACITY, from = (l - 1) * ROPE + d - NOPE;
        bool turned = d >= NOPE && l >= 1;
        if (turned ? !(fabs(cache.values[i] - want[from]) <= bound[from])
                   : memcmp(cache.memory + harness_byte(&cache, i),
                            before + harness_byte(&cache, i), sizeof(float)) != 0) {
            harness_fail(h, "latent keys: element %llu: got %.9g, want %.9g", (unsigned long long)i,
                         cache.values[i], turned ? want[from] : NAN);
            break;
        }
    }
    free(before);
    harness_free_tensor(&k);
    harness_free_tensor(&cache);
}

/* ---- a context that grows ---- */

enum { TOKENS = 13, CACHE_ROWS = 17, DIM = 32, VALUE_DIM = 16, Q_HEADS = 4, KV_HEADS = 2 };

typedef struct decode {
    rhumb_rope rope;
    harness_tensor q, k, v; /* of the whole text */
    harness_tensor q_full, k_full, q_step, k_cache, v_cache, o_full, o_cache;
} decode;

static void init_rotation(decode *d, gpu_operation *op, uint32_t rows)
{
    gpu_init_operation(op, RHUMB_OP_ROTATE);
    op->info.rotary = &d->rope;
    op->info.heads = Q_HEADS;
    op->info.kv_heads = KV_HEADS;
    op->info.head_dim = DIM;
    op->info.value_dim = VALUE_DIM;
    op->info.max_q_length = rows;
}

/* All tokens at once. */
static void rotate_whole_text(harness *h, decode *d)
{
    gpu_operation op;
    init_rotation(d, &op, TOKENS);
    (void)harness_add(&op, RHUMB_VIEW_Q, &d->q, false);
    (void)harness_add(&op, RHUMB_VIEW_K, &d->k, false);
    (void)harness_add(&op, RHUMB_VIEW_Q_OUT, &d->q_full, true);
    (void)harness_add(&op, RHUMB_VIEW_K_OUT, &d->k_full, true);
    h->cases++;
    if (harness_run(h, &op) != RHUMB_OK) {
        harness_fail(h, "whole text: %s", op.message);
    }
}

/* Row l of each head of `from` as the only row of `to`. */
static void take_row(const harness_tensor *from, uint64_t l, harness_tensor *to)
{
    for (uint64_t i = 0; i < to->count; i++) {
        to->values[i] = from->values[harness_index(from, 0, i / to->shape[3], l,
                                                   i % to->shape[3])];
    }
    harness_store(to);
}

/* One command buffer for all tokens: the host changes LENGTHS and the row, nothing is recorded
 * again. */
static void rotate_token_by_token(harness *h, decode *d)
{
    harness_tensor k, v, lengths, status;
    gpu_operation op;
    gpu_prepared p;
    VkCommandBuffer commands = VK_NULL_HANDLE;
    bool done;
    harness_make_tensor(&d->q_step, d->q.dtype, 1, Q_HEADS, 1, DIM, (harness_layout){0});
    harness_make_tensor(&k, d->k.dtype, 1, KV_HEADS, 1, DIM, (harness_layout){0});
    harness_make_tensor(&v, d->v.dtype, 1, KV_HEADS, 1, VALUE_DIM, (harness_layout){0});
    harness_make_tensor(&lengths, RHUMB_I32, 1, 1, 1, 4, (harness_layout){0});
    harness_make_tensor(&status, RHUMB_I32, 1, 1, 1, 1, (harness_layout){0});
    harness_store(&status);
    init_rotation(d, &op, 1);
    op.info.append = RHUMB_APPEND_POSITION;
    (void)harness_add(&op, RHUMB_VIEW_Q, &d->q_step, true);
    (void)harness_add(&op, RHUMB_VIEW_K, &k, false);
    (void)harness_add(&op, RHUMB_VIEW_V, &v, false);
    (void)harness_add(&op, RHUMB_VIEW_K_OUT, &d->k_cache, true);
    (void)harness_add(&op, RHUMB_VIEW_V_OUT, &d->v_cache, true);
    (void)harness_add(&op, RHUMB_VIEW_LENGTHS, &lengths, false);
    (void)harness_add(&op, RHUMB_VIEW_STATUS, &status, true);
    h->cases++;
    if (gpu_prepare_operation(h->g, &op, &p) != RHUMB_OK) {
        harness_fail(h, "token by token: %s", op.message);
        return;
    }
    done = gpu_begin_commands(h->g, &commands) == RHUMB_OK &&
           gpu_record_operation(&p, commands, NULL) == RHUMB_OK &&
           gpu_end_commands(h->g, commands) == RHUMB_OK;
    for (int32_t t = 0; done && t < TOKENS; t++) {
        const int32_t now[4] = {RHUMB_UNSET, RHUMB_UNSET, t, RHUMB_UNSET};
        for (int i = 0; i < 4; i++) {
            lengths.values[i] = now[i];
        }
        harness_store(&lengths);
        take_row(&d->q, (uint64_t)t, &d->q_step);
        take_row(&d->k, (uint64_t)t, &k);
        take_row(&d->v, (uint64_t)t, &v);
        done = gpu_write_tensor(&p, 0, d->q_step.memory) == RHUMB_OK &&
               gpu_write_tensor(&p, 1, k.memory) == RHUMB_OK &&
               gpu_write_tensor(&p, 2, v.memory) == RHUMB_OK &&
               gpu_write_tensor(&p, 5, lengths.memory) == RHUMB_OK &&
               gpu_submit_and_wait(h->g, commands, NULL) == RHUMB_OK;
    }
    done = done && gpu_finish_operation(&p) == RHUMB_OK;
    harness_load(&status);
    if (!done || status.values[0] != 0) {
        harness_fail(h, "token by token: %s, STATUS %g", op.message, status.values[0]);
    }
    gpu_free_commands(h->g, commands);
    gpu_release_operation(&p);
    harness_free_tensor(&k);
    harness_free_tensor(&v);
    harness_free_tensor(&lengths);
    harness_free_tensor(&status);
}

static void attend(harness *h, decode *d, harness_tensor *k, harness_tensor *v, harness_tensor *o)
{
    gpu_operation op;
    harness_make_tensor(o, d->q.dtype, 1, Q_HEADS, TOKENS, VALUE_DIM, (harness_layout){0});
    gpu_init_operation(&op, RHUMB_OP_ATTENTION);
    op.info.heads = Q_HEADS;
    op.info.kv_heads = KV_HEADS;
    op.info.head_dim = DIM;
    op.info.value_dim = VALUE_DIM;
    op.info.max_q_length = TOKENS;
    op.info.max_k_length = CACHE_ROWS;
    op.dispatch.k_length = TOKENS;
    op.dispatch.causal = 1;
    (void)harness_add(&op, RHUMB_VIEW_Q, &d->q_full, false);
    (void)harness_add(&op, RHUMB_VIEW_K, k, false);
    (void)harness_add(&op, RHUMB_VIEW_V, v, false);
    (void)harness_add(&op, RHUMB_VIEW_O, o, true);
    h->cases++;
    if (harness_run(h, &op) != RHUMB_OK) {
        harness_fail(h, "attention: %s", op.message);
    }
}

/* The first rows of the cache are those of the whole text, bit for bit. */
static bool same_rows(harness *h, const char *what, const harness_tensor *text,
                      const harness_tensor *cache)
{
    uint64_t dim = text->shape[3];
    for (uint64_t i = 0; i < text->count; i++) {
        uint64_t from = harness_index(cache, 0, i / dim / TOKENS, i / dim % TOKENS, i % dim);
        if (memcmp(text->memory + harness_byte(text, i), cache->memory + harness_byte(cache, from),
                   harness_dtype_size(text->dtype)) != 0) {
            return harness_fail(h, "%s of %s: element %llu of the cache is not that of the text",
                                what, harness_dtype_name(text->dtype), (unsigned long long)i);
        }
    }
    return true;
}

static void compare_passes(harness *h, decode *d)
{
    if (same_rows(h, "K", &d->k_full, &d->k_cache) && same_rows(h, "V", &d->v, &d->v_cache) &&
        memcmp(d->o_full.memory, d->o_cache.memory, d->o_full.bytes) != 0) {
        harness_fail(h, "%s: attention over the cache gives other bits than over the whole text",
                     harness_dtype_name(d->k.dtype));
    }
}

static void check_growing_cache(harness *h, rhumb_dtype dtype)
{
    harness_random r = {.state = 90};
    harness_tensor last;
    decode d;
    memset(&d, 0, sizeof d);
    rhumb_init_rope(&d.rope);
    harness_make_tensor(&d.q, dtype, 1, Q_HEADS, TOKENS, DIM, (harness_layout){0});
    harness_make_tensor(&d.k, dtype, 1, KV_HEADS, TOKENS, DIM, (harness_layout){0});
    harness_make_tensor(&d.v, dtype, 1, KV_HEADS, TOKENS, VALUE_DIM, (harness_layout){0});
    harness_make_tensor(&d.q_full, dtype, 1, Q_HEADS, TOKENS, DIM, (harness_layout){0});
    harness_make_tensor(&d.k_full, dtype, 1, KV_HEADS, TOKENS, DIM, (harness_layout){0});
    harness_make_tensor(&d.k_cache, dtype, 1, KV_HEADS, CACHE_ROWS, DIM, (harness_layout){0});
    harness_make_tensor(&d.v_cache, dtype, 1, KV_HEADS, CACHE_ROWS, VALUE_DIM,
                        (harness_layout){0});
    harness_fill_normal(&d.q, &r);
    harness_fill_normal(&d.k, &r);
    harness_fill_normal(&d.v, &r);
    rotate_whole_text(h, &d);
    rotate_token_by_token(h, &d);
    harness_load(&d.q_full);
    harness_make_tensor(&last, dtype, 1, Q_HEADS, 1, DIM, (harness_layout){0});
    take_row(&d.q_full, TOKENS - 1, &last);
    if (memcmp(last.memory, d.q_step.memory, last.bytes) != 0) {
        harness_fail(h, "%s: the query of the last token is not that of the whole text",
                     harness_dtype_name(dtype));
    }
    attend(h, &d, &d.k_full, &d.v, &d.o_full);
    attend(h, &d, &d.k_cache, &d.v_cache, &d.o_cache);
    compare_passes(h, &d);
    harness_tensor *all[] = {&d.q,       &d.k,       &d.v,      &d.q_full,  &d.k_full, &d.q_step,
                             &d.k_cache, &d.v_cache, &d.o_full, &d.o_cache, &last};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        harness_free_tensor(all[i]);
    }
}

/* Without append V goes beside K, row by row. */
static void check_plain_copy(harness *h)
{
    harness_random r = {.state = 4};
    harness_tensor k, k_out, v, v_out;
    gpu_operation op;
    rhumb_rope rope;
    rhumb_init_rope(&rope);
    harness_make_tensor(&k, RHUMB_F32, 2, 3, 5, 16, (harness_layout){0});
    harness_make_tensor(&k_out, RHUMB_F32, 2, 3, 5, 16, (harness_layout){0});
    harness_make_tensor(&v, RHUMB_F16, 2, 3, 5, 9, (harness_layout){0});
    harness_make_tensor(&v_out, RHUMB_F16, 2, 3, 5, 9, (harness_layout){0});
    harness_fill_normal(&k, &r);
    harness_fill_normal(&v, &r);
    gpu_init_operation(&op, RHUMB_OP_ROTATE);
    op.info.rotary = &rope;
    op.info.heads = 3;
    op.info.head_dim = 16;
    op.info.value_dim = 9;
    op.info.max_q_length = 5;
    (void)harness_add(&op, RHUMB_VIEW_K, &k, true); /* in place, beside V that is copied */
    (void)harness_add(&op, RHUMB_VIEW_V, &v, false);
    (void)harness_add(&op, RHUMB_VIEW_V_OUT, &v_out, true);
    h->cases++;
    if (harness_run(h, &op) != RHUMB_OK) {
        harness_fail(h, "plain copy: %s", op.message);
    }
    for (uint64_t i = 0; i < v.count; i++) {
        if (memcmp(v.memory + harness_byte(&v, i), v_out.memory + harness_byte(&v_out, i), 2)) {
            harness_fail(h, "plain copy: element %llu of V is not copied", (unsigned long long)i);
            break;
        }
    }
    harness_free_tensor(&k);
    harness_free_tensor(&k_out);
    harness_free_tensor(&v);
    harness_free_tensor(&v_out);
}

/* Rows of one head at positions [rows], into a cache and moved there by SHIFT: x is rotated at 0,
 * shifted by its position. Both must be `want` within `bound`. */
static void expect_cached(harness *h, const char *name, rhumb_pairing pairing, uint32_t dim,
                          uint32_t rows, const double *x, const int32_t *positions,
                          const double *want, double bound)
{
    harness_tensor k, cache, at;
    rhumb_rope rope;
    rhumb_init_rope(&rope);
    rope.pairing = pairing;
    for (int shift = 0; shift < 2; shift++) {
        gpu_operation op;
        harness_make_tensor(&k, RHUMB_F32, 1, 1, rows, dim, (harness_layout){0});
        harness_make_tensor(&cache, RHUMB_F32, 1, 1, rows + 2, dim, (harness_layout){0});
        harness_make_tensor(&at, RHUMB_I32, 1, 1, 1, rows, (harness_layout){0});
        for (uint64_t i = 0; i < k.count; i++) {
            k.values[i] = x[i % dim];
            at.values[i / dim] = positions[i / dim];
        }
        harness_store(&k);
        harness_store(&at);
        gpu_init_operation(&op, RHUMB_OP_ROTATE);
        op.info.rotary = &rope;
        op.info.heads = 1;
        op.info.head_dim = dim;
        op.info.max_q_length = rows;
        op.info.append = RHUMB_APPEND_POSITION;
        op.info.purpose = shift ? RHUMB_PURPOSE_SHIFT : RHUMB_PURPOSE_ROTATE;
        op.dispatch.append_position = 2;
        (void)harness_add(&op, RHUMB_VIEW_K, &k, false);
        (void)harness_add(&op, RHUMB_VIEW_K_OUT, &cache, true);
        (void)harness_add(&op, RHUMB_VIEW_POSITIONS_Q, &at, false);
        h->cases++;
        if (harness_run(h, &op) != RHUMB_OK) {
            harness_fail(h, "%s: %s", name, op.message);
        }
        harness_load(&cache);
        for (uint64_t i = 0; i < k.count; i++) {
            double got = cache.values[2 * dim + i];
            if (!isnan(want[i]) && !(fabs(got - want[i]) <= bound)) {
                harness_fail(h, "%s%s: element %llu: got %.9f, want %.9f", name,
                             shift ? ", shifted" : "", (unsigned long long)i, got, want[i]);
            }
        }
        harness_free_tensor(&k);
        harness_free_tensor(&cache);
        harness_free_tensor(&at);
    }
}

/* Field tests 1 and 12. Values are given to 1e-6 and to 1e-9. */
static void check_published_numbers(harness *h)
{
    static const double x[8] = {2, -1, .5, 3, 1, -2, 4, -.5}, unit[2] = {1, 0};
    static const double half[8] = {0.850818, 0.523593, 0.219004,  3.003426,
                                   2.067875, -2.173902, 4.025175, -0.478988};
    static const double interleaved[8] = {2.164791, 0.560071,  -1.550232, 2.616635,
                                          1.137437, -1.925159, 4.003402,  -0.471988};
    static const int32_t seven = 7;
    static const int32_t far[] = {15962, 131071, 1048575, 16777217, 2147483647, 15968};
    static const double turned[12] = {-0.908015901, 0.418935703,  -0.817983499, -0.575241684,
                                      0.788042240,  -0.615621173, 0.994383964,  0.105832567,
                                      -0.688836692, -0.724916555, -0.754792760, (double)NAN};
    expect_cached(h, "field test 1, half", RHUMB_PAIRING_HALF, 8, 1, x, &seven, half, 2e-6);
    expect_cached(h, "field test 1, interleaved", RHUMB_PAIRING_INTERLEAVED, 8, 1, x, &seven,
                  interleaved, 2e-6);
    expect_cached(h, "field test 12", RHUMB_PAIRING_HALF, 2, 6, unit, far, turned, 1e-6);
}

static void run_profile(harness_profile profile)
{
    harness h;
    harness_open(&h, profile);
    check_latent_keys(&h);
    check_plain_copy(&h);
    check_published_numbers(&h);
    check_growing_cache(&h, RHUMB_F32);
    check_growing_cache(&h, RHUMB_F16);
    check_growing_cache(&h, RHUMB_BF16);
    harness_close(&h);
}

Test(cache, grown_token_by_token_equals_the_whole_text_on_lavapipe)
{
    run_profile(HARNESS_LAVAPIPE);
}

Test(cache, grown_token_by_token_equals_the_whole_text_on_the_smallest_device)
{
    run_profile(HARNESS_LAVAPIPE_FLOOR);
}

Test(cache, grown_token_by_token_equals_the_whole_text_on_swiftshader)
{
    run_profile(HARNESS_SWIFTSHADER);
}
