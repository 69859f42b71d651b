#include "check_operations.h"

#include "command_line.h"
#include "tensors.h"
#include "verify.h"

#include <stdio.h>
#include <stdlib.h>

#define COUNT(list) (sizeof(list) / sizeof((list)[0]))
#define MAX_BATCH 2u

typedef enum positions {
    POSITIONS_ARANGE = 0, /* q_offset + row */
    POSITIONS_SHARED,     /* one list for all batches */
    POSITIONS_BATCH,      /* a list for each, with large and repeated numbers */
} positions;

/* A shape. Zero means the usual: kv_heads as heads, value_dim as head_dim, window none, batch 1.
 * Sizes are primes or odd where it does not matter, so that nothing fits a tile by chance. */
typedef struct shape {
    const char *name;
    rhumb_op op;
    uint32_t batch;
    uint32_t heads;
    uint32_t kv_heads;
    uint32_t q_rows;
    uint32_t k_rows;
    uint32_t head_dim;
    uint32_t value_dim;
    bool rotary;             /* ATTENTION: Q is rotated when it is loaded */
    rhumb_pairing pairing;
    uint32_t rotary_dim;     /* 0: the whole head */
    uint32_t rotary_offset;
    double base;             /* 0: 10000 */
    double factor;           /* 0: no scaling */
    positions positions;
    int32_t q_offset;
    bool q_offset_unset;
    bool in_place;
    bool inverse;
    bool causal;
    bool by_position;        /* visibility by position views, keys in ring order */
    bool lengths;            /* each batch entry its own lengths, from the device buffer */
    int32_t window_left;
    int32_t window_right;    /* with window_left only */
    bool dtypes;             /* in f16 and bf16 too, without being asked for all */
    bool variants;           /* in f32 on the variants that would not be chosen, likewise */
} shape;

static const shape shapes[] = {
    {.name = "half", .op = RHUMB_OP_ROTATE, .dtypes = true, .heads = 4, .q_rows = 37,
     .head_dim = 128, .pairing = RHUMB_PAIRING_HALF},
    {.name = "interleaved", .op = RHUMB_OP_ROTATE, .dtypes = true, .heads = 4, .q_rows = 37,
     .head_dim = 64, .pairing = RHUMB_PAIRING_INTERLEAVED},
    {.name = "half, partial 20 of 80 at 4, GQA", .op = RHUMB_OP_ROTATE, .dtypes = true, .batch = 2,
     .heads = 6, .kv_heads = 2, .q_rows = 13, .head_dim = 80, .pairing = RHUMB_PAIRING_HALF,
     .rotary_dim = 20, .rotary_offset = 4},
    {.name = "interleaved, partial 32 of 64, in place", .op = RHUMB_OP_ROTATE, .dtypes = true,
     .batch = 2, .heads = 3, .q_rows = 11, .head_dim = 64, .pairing = RHUMB_PAIRING_INTERLEAVED,
     .rotary_dim = 32, .in_place = true},
    {.name = "half, offset 2^31 - 64", .op = RHUMB_OP_ROTATE, .dtypes = true, .heads = 2,
     .q_rows = 17, .head_dim = 96, .pairing = RHUMB_PAIRING_HALF, .base = 500000.0,
     .q_offset = INT32_MAX - 63},
    {.name = "half, inverse, odd head_dim 111", .op = RHUMB_OP_ROTATE, .dtypes = true, .heads = 3,
     .q_rows = 19, .head_dim = 111, .pairing = RHUMB_PAIRING_HALF, .rotary_dim = 110,
     .inverse = true, .q_offset = 1000},
    {.name = "interleaved, positions per batch", .op = RHUMB_OP_ROTATE, .dtypes = true, .batch = 2,
     .heads = 3, .kv_heads = 1, .q_rows = 23, .head_dim = 128, .pairing = RHUMB_PAIRING_INTERLEAVED,
     .positions = POSITIONS_BATCH},
    {.name = "half, linear scaling 8, positions shared", .op = RHUMB_OP_ROTATE, .dtypes = true,
     .batch = 2, .heads = 2, .q_rows = 29, .head_dim = 128, .pairing = RHUMB_PAIRING_HALF,
     .factor = 8.0, .positions = POSITIONS_SHARED},

    {.name = "bidirectional, D 64", .op = RHUMB_OP_ATTENTION, .dtypes = true, .variants = true,
     .batch = 2, .heads = 3, .q_rows = 67, .k_rows = 67, .head_dim = 64},
    {.name = "causal, GQA, D 128, Q rotated", .op = RHUMB_OP_ATTENTION, .heads = 8, .kv_heads = 2,
     .q_rows = 71, .k_rows = 71, .head_dim = 128, .rotary = true, .pairing = RHUMB_PAIRING_HALF,
     .causal = true, .q_offset_unset = true},
    {.name = "causal, window 16, D 80", .op = RHUMB_OP_ATTENTION, .heads = 4, .kv_heads = 1,
     .q_rows = 61, .k_rows = 97, .head_dim = 80, .causal = true, .q_offset_unset = true,
     .window_left = 16, .window_right = INT32_MAX},
    {.name = "window 9 left, 5 right, D 96", .op = RHUMB_OP_ATTENTION, .heads = 2, .q_rows = 53,
     .k_rows = 53, .head_dim = 96, .window_left = 9, .window_right = 5},
    {.name = "top-left causal, empty rows, D 256", .op = RHUMB_OP_ATTENTION, .heads = 2,
     .q_rows = 41, .k_rows = 37, .head_dim = 256, .causal = true, .q_offset = -7},
    {.name = "by position, ring, D 64, Q rotated", .op = RHUMB_OP_ATTENTION, .batch = 2, .heads = 4,
     .kv_heads = 2, .q_rows = 31, .k_rows = 59, .head_dim = 64, .rotary = true,
     .pairing = RHUMB_PAIRING_INTERLEAVED, .causal = true, .by_position = true},
    {.name = "lengths per batch, causal, D 128", .op = RHUMB_OP_ATTENTION, .batch = 2, .heads = 4,
     .kv_heads = 2, .q_rows = 33, .k_rows = 83, .head_dim = 128, .causal = true,
     .q_offset_unset = true, .lengths = true},
    {.name = "D 37, value_dim 53, GQA", .op = RHUMB_OP_ATTENTION, .dtypes = true, .heads = 4,
     .kv_heads = 2, .q_rows = 29, .k_rows = 43, .head_dim = 37, .value_dim = 53},
    {.name = "D 576, value_dim 512, decode", .op = RHUMB_OP_ATTENTION, .heads = 4, .kv_heads = 1,
     .q_rows = 1, .k_rows = 131, .head_dim = 576, .value_dim = 512, .causal = true,
     .q_offset_unset = true},
    {.name = "decode, GQA, D 128, Q rotated", .op = RHUMB_OP_ATTENTION, .dtypes = true, .batch = 2,
     .heads = 8, .kv_heads = 2, .q_rows = 1, .k_rows = 517, .head_dim = 128, .rotary = true,
     .pairing = RHUMB_PAIRING_HALF, .causal = true, .q_offset_unset = true},
    {.name = "decode, D 80, lengths per batch", .op = RHUMB_OP_ATTENTION, .batch = 2, .heads = 4,
     .q_rows = 1, .k_rows = 263, .head_dim = 80, .causal = true, .q_offset_unset = true,
     .lengths = true},
};

/* Host arrays of one run. Elements of 2 or 4 bytes, and their exact doubles. */
typedef struct workspace {
    void *q, *k, *v, *o, *o_before, *q_out, *k_out;
    double *q_values, *k_values, *v_values, *want_q, *want_k;
    int32_t *positions_q, *positions_k;
    int32_t lengths[MAX_BATCH * 4];
    int32_t k_lengths[MAX_BATCH];
    int32_t q_lengths[MAX_BATCH];
} workspace;

/* Sizes with the defaults filled in. */
typedef struct sizes {
    uint32_t batch, kv_heads, value_dim, k_rows;
    uint64_t q, k, v, o; /* elements */
} sizes;

static sizes sizes_of(const shape *s)
{
    sizes z;

    z.batch = s->batch == 0 ? 1 : s->batch;
    z.kv_heads = s->kv_heads == 0 ? s->heads : s->kv_heads;
    z.value_dim = s->value_dim == 0 ? s->head_dim : s->value_dim;
    z.k_rows = s->op == RHUMB_OP_ROTATE ? s->q_rows : s->k_rows;
    z.q = (uint64_t)z.batch * s->heads * s->q_rows * s->head_dim;
    z.k = (uint64_t)z.batch * z.kv_heads * z.k_rows * s->head_dim;
    z.v = (uint64_t)z.batch * z.kv_heads * z.k_rows * z.value_dim;
    z.o = (uint64_t)z.batch * s->heads * s->q_rows * z.value_dim;
    return z;
}

static void free_workspace(workspace *w)
{
    void *const all[] = {w->q,      w->k,      w->v,           w->o,          w->o_before,
                         w->q_out,  w->k_out,  w->q_values,    w->k_values,   w->v_values,
                         w->want_q, w->want_k, w->positions_q, w->positions_k};

    for (size_t i = 0; i < COUNT(all); i++)
        free(all[i]);
}

static bool make_workspace(const sizes *z, uint32_t q_rows, workspace *w)
{
    memset(w, 0, sizeof *w);
    w->q = calloc(z->q + 1, 4); /* an odd count of 2-byte elements is read in whole words */
    w->k = calloc(z->k + 1, 4);
    w->v = calloc(z->v + 1, 4);
    w->o = calloc(z->o + 1, 4);
    w->o_before = calloc(z->o + 1, 4);
    w->q_out = calloc(z->q + 1, 4);
    w->k_out = calloc(z->k + 1, 4);
    w->q_values = calloc(z->q, sizeof(double));
    w->k_values = calloc(z->k, sizeof(double));
    w->v_values = calloc(z->v, sizeof(double));
    w->want_q = calloc(z->q > z->o ? z->q : z->o, sizeof(double));
    w->want_k = calloc(z->k, sizeof(double));
    w->positions_q = calloc((uint64_t)z->batch * q_rows, sizeof(int32_t));
    w->positions_k = calloc((uint64_t)z->batch * z->k_rows, sizeof(int32_t));
    return w->q != NULL && w->k != NULL && w->v != NULL && w->o != NULL && w->o_before != NULL &&
           w->q_out != NULL && w->k_out != NULL && w->q_values != NULL && w->k_values != NULL &&
           w->v_values != NULL && w->want_q != NULL && w->want_k != NULL &&
           w->positions_q != NULL && w->positions_k != NULL;
}

static void draw(rhumb_dtype dtype, uint64_t count, uint64_t seed, void *elements, double *values)
{
    tensor t = {.dtype = (tensor_dtype)dtype,
                .rank = 1,
                .shape = {count},
                .count = count,
                .data = elements};

    tensor_fill_normal(&t, seed);
    verify_widen(dtype, elements, count, values);
}

static void fill_positions(const shape *s, const sizes *z, workspace *w)
{
    for (uint32_t b = 0; b < z->batch; b++) {
        int32_t *q = w->positions_q + (uint64_t)b * s->q_rows;
        int32_t *k = w->positions_k + (uint64_t)b * z->k_rows;
        for (uint32_t j = 0; j < z->k_rows; j++) /* a ring that has wrapped */
            k[j] = (int32_t)((j + 17u * (b + 1)) % z->k_rows + 100u * b);
        for (uint32_t a = 0; a < s->q_rows; a++) {
            if (s->by_position)
                q[a] = (int32_t)(z->k_rows - s->q_rows + a + 100u * b);
            else if (s->positions == POSITIONS_ARANGE)
                q[a] = s->q_offset + (int32_t)a;
            else if (s->positions == POSITIONS_SHARED)
                q[a] = (int32_t)(a * a * 31u);
            else
                q[a] = a % 5 == 4 ? INT32_MAX - (int32_t)(a * 7) : (int32_t)(a / 2 + 1000u * b);
        }
    }
}

static void fill_lengths(const shape *s, const sizes *z, workspace *w)
{
    for (uint32_t b = 0; b < z->batch; b++) {
        w->k_lengths[b] = (int32_t)z->k_rows - (s->lengths ? 5 + 11 * (int32_t)b : 0);
        w->q_lengths[b] = (int32_t)s->q_rows - (s->lengths && s->q_rows > 4 ? 3 * (int32_t)b : 0);
        w->lengths[b * 4] = w->k_lengths[b];
        w->lengths[b * 4 + 1] = w->q_lengths[b];
        w->lengths[b * 4 + 2] = RHUMB_UNSET;
        w->lengths[b * 4 + 3] = RHUMB_UNSET;
    }
}

static void make_rope(const shape *s, rhumb_rope *rope)
{
    rhumb_init_rope(rope);
    rope->pairing = s->pairing;
    if (s->rotary_dim != 0)
        rope->rotary_dim = s->rotary_dim;
    rope->rotary_offset = s->rotary_offset;
    if (s->base > 0.0)
        rope->base = s->base;
    if (s->factor > 0.0) {
        rope->scaling = RHUMB_ROPE_SCALING_LINEAR;
        rope->factor = s->factor;
    }
}

static void describe_operation(const shape *s, const sizes *z, rhumb_variant variant,
                               gpu_operation *op)
{
    gpu_init_operation(op, s->op);
    op->info.variant = variant;
    op->info.heads = s->heads;
    op->info.kv_heads = z->kv_heads;
    op->info.head_dim = s->head_dim;
    op->info.value_dim = z->value_dim;
    op->info.max_q_length = s->q_rows;
    op->info.max_k_length = z->k_rows;
    op->dispatch.inverse = s->inverse;
    op->dispatch.causal = s->causal;
    if (!s->q_offset_unset)
        op->dispatch.q_offset = s->q_offset;
    if (s->by_position)
        op->dispatch.q_offset = RHUMB_UNSET;
    if (s->window_left != 0) {
        op->dispatch.window_left = s->window_left;
        op->dispatch.window_right = s->window_right;
    }
}

static void add_rotate_tensors(const shape *s, const sizes *z, rhumb_dtype dtype, workspace *w,
                               gpu_operation *op)
{
    const uint32_t b = z->batch, l = s->q_rows, d = s->head_dim;

    gpu_add_tensor(op, RHUMB_VIEW_Q, dtype, b, s->heads, l, d, w->q, s->in_place ? w->q_out : NULL);
    gpu_add_tensor(op, RHUMB_VIEW_K, dtype, b, z->kv_heads, l, d, w->k,
                   s->in_place ? w->k_out : NULL);
    if (!s->in_place) {
        gpu_add_tensor(op, RHUMB_VIEW_Q_OUT, dtype, b, s->heads, l, d, NULL, w->q_out);
        gpu_add_tensor(op, RHUMB_VIEW_K_OUT, dtype, b, z->kv_heads, l, d, NULL, w->k_out);
    }
    if (s->positions == POSITIONS_SHARED)
        gpu_add_tensor(op, RHUMB_VIEW_POSITIONS_Q, RHUMB_I32, 1, 1, 1, l, w->positions_q, NULL);
    if (s->positions == POSITIONS_BATCH)
        gpu_add_tensor(op, RHUMB_VIEW_POSITIONS_Q, RHUMB_I32, 1, 1, b, l, w->positions_q, NULL);
}

static void add_attention_tensors(const shape *s, const sizes *z, rhumb_dtype dtype, workspace *w,
                                  gpu_operation *op)
{
    const uint32_t b = z->batch;

    gpu_add_tensor(op, RHUMB_VIEW_Q, dtype, b, s->heads, s->q_rows, s->head_dim, w->q, NULL);
    gpu_add_tensor(op, RHUMB_VIEW_K, dtype, b, z->kv_heads, z->k_rows, s->head_dim, w->k, NULL);
    gpu_add_tensor(op, RHUMB_VIEW_V, dtype, b, z->kv_heads, z->k_rows, z->value_dim, w->v, NULL);
    gpu_add_tensor(op, RHUMB_VIEW_O, dtype, b, s->heads, s->q_rows, z->value_dim, NULL, w->o);
    if (s->by_position) {
        gpu_add_tensor(op, RHUMB_VIEW_POSITIONS_Q, RHUMB_I32, 1, 1, b, s->q_rows, w->positions_q,
                       NULL);
        gpu_add_tensor(op, RHUMB_VIEW_POSITIONS_K, RHUMB_I32, 1, 1, b, z->k_rows, w->positions_k,
                       NULL);
    }
    if (s->lengths)
        gpu_add_tensor(op, RHUMB_VIEW_LENGTHS, RHUMB_I32, 1, 1, b, 4, w->lengths, NULL);
}

static void keep_worst(check_result *result, const verify_result *v)
{
    result->pass = result->pass && v->pass;
    if (result->bound > 0.0 && v->error / v->bound <= result->error / result->bound)
        return;
    result->error = v->error;
    result->bound = v->bound;
    if (!v->pass)
        snprintf(result->message, sizeof result->message,
                 "element %llu: wanted %.9g, got %.9g, bound %.3g", (unsigned long long)v->index,
                 v->want, v->got, v->bound);
}

static bool compare_rotate(const shape *s, const sizes *z, rhumb_dtype dtype, const ref_rope *rope,
                           workspace *w, check_result *result)
{
    const double q_scale = verify_rotate_scale(w->q_values, z->q, rope->magnitude);
    const double k_scale = verify_rotate_scale(w->k_values, z->k, rope->magnitude);
    verify_result v;

    if (s->positions == POSITIONS_SHARED)
        for (uint32_t b = 1; b < z->batch; b++)
            memcpy(w->positions_q + (uint64_t)b * s->q_rows, w->positions_q,
                   s->q_rows * sizeof(int32_t));
    if (ref_rotate(rope, z->batch, s->heads, s->q_rows, s->head_dim, w->positions_q, s->inverse,
                   w->q_values, w->want_q) != 0 ||
        ref_rotate(rope, z->batch, z->kv_heads, s->q_rows, s->head_dim, w->positions_q, s->inverse,
                   w->k_values, w->want_k) != 0)
        return false;
    verify_compare(dtype, w->q_out, w->want_q, z->q, q_scale, &v);
    keep_worst(result, &v);
    verify_compare(dtype, w->k_out, w->want_k, z->k, k_scale, &v);
    keep_worst(result, &v);
    return true;
}

static bool compare_attention(const shape *s, const sizes *z, rhumb_dtype dtype,
                              const ref_rope *rope, workspace *w, check_result *result)
{
    ref_attention t;
    verify_result v;

    ref_attention_init(&t, z->batch, s->heads, s->q_rows, z->k_rows, s->head_dim);
    t.kv_heads = z->kv_heads;
    t.value_dim = z->value_dim;
    t.causal = s->causal;
    t.order = s->by_position ? REF_ORDER_POSITION : REF_ORDER_INDEX;
    if (s->window_left != 0) {
        t.window_left = s->window_left;
        t.window_right = s->window_right;
    }
    t.q_offset = s->q_offset_unset ? REF_UNSET : s->q_offset;
    t.q_lengths = w->q_lengths;
    t.k_lengths = w->k_lengths;
    t.positions_q = s->by_position ? w->positions_q : NULL;
    t.positions_k = s->by_position ? w->positions_k : NULL;
    t.rotary = s->rotary ? rope : NULL;
    t.q = w->q_values;
    t.k = w->k_values;
    t.v = w->v_values;
    t.o = w->want_q;
    /* Rows beyond the length keep what the buffer had. */
    gpu_fill_canary(w->o_before, 0, z->o * 4);
    verify_widen(dtype, w->o_before, z->o, w->want_q);
    if (ref_attend(&t) != 0)
        return false;
    verify_compare(dtype, w->o, w->want_q, z->o, verify_attention_scale(&t), &v);
    keep_worst(result, &v);
    return true;
}

/* The operation with its inputs drawn; w holds what it points to. */
static void prepare(const shape *s, const sizes *z, rhumb_dtype dtype, rhumb_variant variant,
                    const rhumb_rope *rope, workspace *w, gpu_operation *op)
{
    draw(dtype, z->q, 1, w->q, w->q_values);
    draw(dtype, z->k, 2, w->k, w->k_values);
    draw(dtype, z->v, 3, w->v, w->v_values);
    fill_positions(s, z, w);
    fill_lengths(s, z, w);
    describe_operation(s, z, variant, op);
    if (s->op == RHUMB_OP_ROTATE) {
        op->info.rotary = rope;
        add_rotate_tensors(s, z, dtype, w, op);
    } else {
        op->info.rotary = s->rotary ? rope : NULL;
        add_attention_tensors(s, z, dtype, w, op);
    }
    op->repeats = 5;
    op->budget_ns = 5e7;
}

static void run_prepared(gpu *g, const shape *s, const sizes *z, rhumb_dtype dtype,
                         const rhumb_rope *rope, workspace *w, gpu_operation *op,
                         check_result *result)
{
    ref_rope reference;
    bool done;

    if (gpu_run_operation(g, op) != RHUMB_OK) {
        snprintf(result->message, sizeof result->message, "%s", op->message);
        return;
    }
    result->variant = command_variant_name(op->properties.variant);
    result->ns = op->ns;
    result->host_clock = op->host_clock;
    result->pass = true;
    done = verify_rope(rope, s->head_dim, &reference);
    if (done && s->op == RHUMB_OP_ROTATE)
        done = compare_rotate(s, z, dtype, &reference, w, result);
    else if (done)
        done = compare_attention(s, z, dtype, &reference, w, result);
    if (!done) {
        result->pass = false;
        snprintf(result->message, sizeof result->message, "the reference refuses the shape");
    }
}

/* What goes through one check_operations. */
typedef struct run {
    gpu *g;
    check_operation_fn each;
    void *user;
    uint32_t count;
    uint32_t failed;
} run;

/* One row of the table. Returns the variant that ran; a named one that does not fit is no row. */
static rhumb_variant run_row(run *r, const shape *s, rhumb_dtype dtype, rhumb_variant variant)
{
    const sizes z = sizes_of(s);
    check_result result = {
        .scheme = s->op == RHUMB_OP_ROTATE || s->rotary ? "rope" : "none",
        .op = command_op_name(s->op),
        .dtype = command_dtype_name(dtype),
        .variant = "none",
        .shape = s->name,
    };
    gpu_operation op;
    rhumb_rope rope;
    workspace w;

    gpu_init_operation(&op, s->op);
    make_rope(s, &rope);
    if (!make_workspace(&z, s->q_rows, &w)) {
        snprintf(result.message, sizeof result.message, "no host memory");
    } else {
        prepare(s, &z, dtype, variant, &rope, &w, &op);
        if (variant != RHUMB_VARIANT_AUTO && gpu_query_operation(r->g, &op) != RHUMB_OK) {
            free_workspace(&w);
            return variant;
        }
        r->each(r->user, s->name, NULL);
        run_prepared(r->g, s, &z, dtype, &rope, &w, &op, &result);
    }
    free_workspace(&w);
    r->count++;
    r->failed += !result.pass;
    r->each(r->user, s->name, &result);
    return op.properties.variant;
}

uint32_t check_operations(gpu *g, bool all, check_operation_fn each, void *user, uint32_t *count)
{
    static const rhumb_dtype dtypes[] = {RHUMB_F32, RHUMB_F16, RHUMB_BF16};
    static const rhumb_variant variants[] = {RHUMB_VARIANT_GENERIC, RHUMB_VARIANT_TILE,
                                             RHUMB_VARIANT_DECODE};
    run r = {.g = g, .each = each, .user = user};

    for (size_t i = 0; i < COUNT(shapes); i++) {
        for (size_t j = 0; j < COUNT(dtypes); j++) {
            rhumb_variant chosen;
            if (j != 0 && !shapes[i].dtypes && !all)
                continue;
            chosen = run_row(&r, &shapes[i], dtypes[j], RHUMB_VARIANT_AUTO);
            for (size_t k = 0; k < COUNT(variants); k++) {
                if (variants[k] != chosen && ((j == 0 && shapes[i].variants) || all))
                    run_row(&r, &shapes[i], dtypes[j], variants[k]);
            }
        }
    }
    *count = r.count;
    return r.failed;
}
