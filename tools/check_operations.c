#include "check_operations.h"

#include "check_rows.h"
#include "check_shapes.h"
#include "command_line.h"
#include "tensors.h"
#include "verify.h"

#include <stdio.h>
#include <stdlib.h>

#define COUNT(list) (sizeof(list) / sizeof((list)[0]))
#define MAX_BATCH 2u
#define MAX_AXES 4u
/* Timed runs of a row, and how long they may take together. */
#define REPEATS 5u
#define BUDGET_NS 5e7

static const rhumb_dtype dtypes[] = {RHUMB_F32, RHUMB_F16, RHUMB_BF16};

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

static sizes sizes_of(const check_shape *s)
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
    w->positions_q = calloc((uint64_t)MAX_AXES * z->batch * q_rows, sizeof(int32_t));
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

static int32_t position_of(const check_shape *s, const sizes *z, uint32_t axis, uint32_t b,
                           uint32_t a)
{
    if (s->scheme == CHECK_ROPE2D) /* a grid of seven columns */
        return (int32_t)(axis == 0 ? a / 7 : a % 7);
    if (s->by_position)
        return (int32_t)(z->k_rows - s->q_rows + a + 100u * b);
    if (s->positions == POSITIONS_ARANGE)
        return (s->q_offset_unset ? (int32_t)(z->k_rows - s->q_rows) : s->q_offset) + (int32_t)a;
    if (s->positions == POSITIONS_SHARED)
        return (int32_t)(a * a * 31u);
    if (a % 5 == 4)
        return INT32_MAX - (int32_t)(a * 7 + axis);
    return (int32_t)(a / 2 + 1000u * b + axis * (3 * a + 1));
}

/* positions_q [axes, B, Lq]: what the view has, and the arange that stands for one. */
static void fill_positions(const check_shape *s, const sizes *z, uint32_t axes, workspace *w)
{
    const uint32_t rows = z->batch * s->q_rows;

    for (uint32_t b = 0; b < z->batch; b++) {
        int32_t *k = w->positions_k + (uint64_t)b * z->k_rows;
        for (uint32_t j = 0; j < z->k_rows; j++) /* a ring that has wrapped */
            k[j] = (int32_t)((j + 17u * (b + 1)) % z->k_rows + 100u * b);
    }
    for (uint32_t i = 0; i < axes * rows; i++)
        w->positions_q[i] = position_of(s, z, i / rows, i % rows / s->q_rows, i % s->q_rows);
}

static void fill_lengths(const check_shape *s, const sizes *z, workspace *w)
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

static void describe_operation(const check_shape *s, const sizes *z, rhumb_variant variant,
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

static void add_positions(const check_shape *s, const sizes *z, uint32_t axes, workspace *w,
                          gpu_operation *op)
{
    const uint32_t batch = s->positions == POSITIONS_SHARED ? 1 : z->batch;
    gpu_tensor *t;

    if (s->positions == POSITIONS_ARANGE && !s->by_position)
        return;
    t = gpu_add_tensor(op, RHUMB_VIEW_POSITIONS_Q, RHUMB_I32, 1, axes, batch, s->q_rows,
                       w->positions_q, NULL);
    t->stride[1] = (int64_t)z->batch * s->q_rows;
}

static void add_rotate_tensors(const check_shape *s, const sizes *z, rhumb_dtype dtype,
                               uint32_t axes, workspace *w, gpu_operation *op)
{
    const uint32_t b = z->batch, l = s->q_rows, d = s->head_dim;

    gpu_add_tensor(op, RHUMB_VIEW_Q, dtype, b, s->heads, l, d, w->q, s->in_place ? w->q_out : NULL);
    gpu_add_tensor(op, RHUMB_VIEW_K, dtype, b, z->kv_heads, l, d, w->k,
                   s->in_place ? w->k_out : NULL);
    if (!s->in_place) {
        gpu_add_tensor(op, RHUMB_VIEW_Q_OUT, dtype, b, s->heads, l, d, NULL, w->q_out);
        gpu_add_tensor(op, RHUMB_VIEW_K_OUT, dtype, b, z->kv_heads, l, d, NULL, w->k_out);
    }
    add_positions(s, z, axes, w, op);
}

static void add_attention_tensors(const check_shape *s, const sizes *z, rhumb_dtype dtype,
                                  uint32_t axes, workspace *w, gpu_operation *op)
{
    const uint32_t b = z->batch;

    gpu_add_tensor(op, RHUMB_VIEW_Q, dtype, b, s->heads, s->q_rows, s->head_dim, w->q, NULL);
    gpu_add_tensor(op, RHUMB_VIEW_K, dtype, b, z->kv_heads, z->k_rows, s->head_dim, w->k, NULL);
    gpu_add_tensor(op, RHUMB_VIEW_V, dtype, b, z->kv_heads, z->k_rows, z->value_dim, w->v, NULL);
    gpu_add_tensor(op, RHUMB_VIEW_O, dtype, b, s->heads, s->q_rows, z->value_dim, NULL, w->o);
    add_positions(s, z, axes, w, op);
    if (s->by_position)
        gpu_add_tensor(op, RHUMB_VIEW_POSITIONS_K, RHUMB_I32, 1, 1, b, z->k_rows, w->positions_k,
                       NULL);
    if (s->lengths)
        gpu_add_tensor(op, RHUMB_VIEW_LENGTHS, RHUMB_I32, 1, 1, b, 4, w->lengths, NULL);
}

static void keep_worst(check_result *result, const verify_result *v)
{
    result->pass = result->pass && v->pass;
    result->largest = v->largest > result->largest ? v->largest : result->largest;
    if (result->bound > 0.0 && v->error / v->bound <= result->error / result->bound)
        return;
    result->error = v->error;
    result->bound = v->bound;
    if (!v->pass)
        snprintf(result->message, sizeof result->message,
                 "element %llu: wanted %.9g, got %.9g, bound %.3g", (unsigned long long)v->index,
                 v->want, v->got, v->bound);
}

static verify_rows rows_of(const check_shape *s, const sizes *z, const workspace *w, bool keys)
{
    return (verify_rows){.batch = z->batch,
                         .heads = keys ? z->kv_heads : s->heads,
                         .rows = s->q_rows,
                         .head_dim = s->head_dim,
                         .positions = w->positions_q,
                         .inverse = s->inverse,
                         .keys = keys};
}

static bool compare_rotate(const check_shape *s, const sizes *z, rhumb_dtype dtype,
                           const verify_rotary *rotary, workspace *w, check_result *result)
{
    const verify_rows q = rows_of(s, z, w, false), k = rows_of(s, z, w, true);
    verify_result v;

    if (!verify_rotate(rotary, &q, w->q_values, w->want_q) ||
        !verify_rotate(rotary, &k, w->k_values, w->want_k))
        return false;
    verify_compare(dtype, w->q_out, w->want_q, z->q,
                   verify_rotate_scale(w->q_values, z->q, verify_growth(rotary, &q)), &v);
    keep_worst(result, &v);
    verify_compare(dtype, w->k_out, w->want_k, z->k,
                   verify_rotate_scale(w->k_values, z->k, verify_growth(rotary, &k)), &v);
    keep_worst(result, &v);
    return true;
}

static bool compare_attention(const check_shape *s, const sizes *z, rhumb_dtype dtype,
                              const verify_rotary *rotary, workspace *w, check_result *result)
{
    const verify_rows q = rows_of(s, z, w, false);
    ref_attention t;
    verify_result v;

    if (s->rotary && !verify_rotate(rotary, &q, w->q_values, w->q_values))
        return false;

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
static void prepare(const check_shape *s, const sizes *z, rhumb_dtype dtype, rhumb_variant variant,
                    const check_rotary *rotary, uint32_t axes, workspace *w, gpu_operation *op)
{
    draw(dtype, z->q, 1, w->q, w->q_values);
    draw(dtype, z->k, 2, w->k, w->k_values);
    draw(dtype, z->v, 3, w->v, w->v_values);
    fill_positions(s, z, axes, w);
    fill_lengths(s, z, w);
    describe_operation(s, z, variant, op);
    if (s->op == RHUMB_OP_ROTATE) {
        op->info.rotary = rotary->scheme;
        add_rotate_tensors(s, z, dtype, axes, w, op);
    } else {
        op->info.rotary = s->rotary ? rotary->scheme : NULL;
        add_attention_tensors(s, z, dtype, axes, w, op);
    }
    op->new_length = s->length;
    op->repeats = REPEATS;
    op->budget_ns = BUDGET_NS;
}

static void run_prepared(gpu *g, const check_shape *s, const sizes *z, rhumb_dtype dtype,
                         const verify_rotary *rotary, workspace *w, gpu_operation *op,
                         check_result *result)
{
    bool done;

    if (gpu_run_operation(g, op) != RHUMB_OK) {
        snprintf(result->message, sizeof result->message, "%s", op->message);
        return;
    }
    result->variant = command_variant_name(op->properties.variant);
    result->ns = op->ns;
    result->host_clock = op->host_clock;
    result->pass = true;
    if (s->op == RHUMB_OP_ROTATE)
        done = compare_rotate(s, z, dtype, rotary, w, result);
    else
        done = compare_attention(s, z, dtype, rotary, w, result);
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
    harness shared; /* of the rows of check_rows.h */
} run;

/* One row of the table. Returns the variant that ran; a named one that does not fit is no row. */
static rhumb_variant run_row(run *r, const check_shape *s, rhumb_dtype dtype, rhumb_variant variant)
{
    const sizes z = sizes_of(s);
    check_result result = {
        .scheme = "none",
        .op = command_op_name(s->op),
        .dtype = command_dtype_name(dtype),
        .variant = "none",
        .shape = s->name,
    };
    verify_rotary reference;
    check_rotary rotary;
    gpu_operation op;
    workspace w;

    gpu_init_operation(&op, s->op);
    check_make_rotary(s, &rotary);
    if (s->op == RHUMB_OP_ROTATE || s->rotary)
        result.scheme = rotary.name;
    if (!make_workspace(&z, s->q_rows, &w)) {
        snprintf(result.message, sizeof result.message, "no host memory");
    } else if (!verify_read_rotary(rotary.scheme, s->head_dim, s->length, &reference)) {
        snprintf(result.message, sizeof result.message, "the reference refuses the scheme");
    } else {
        prepare(s, &z, dtype, variant, &rotary, reference.axes, &w, &op);
        if (variant != RHUMB_VARIANT_AUTO && gpu_query_operation(r->g, &op) != RHUMB_OK) {
            free_workspace(&w);
            return variant;
        }
        r->each(r->user, s->name, NULL);
        run_prepared(r->g, s, &z, dtype, &reference, &w, &op, &result);
    }
    free_workspace(&w);
    r->count++;
    r->failed += !result.pass;
    r->each(r->user, s->name, &result);
    return op.properties.variant;
}

/* What the last row left; plans stay, so that their pipelines are shared. */
static void forget_row(harness *h)
{
    h->cases = h->failures = 0;
    h->largest_error = h->closest_error = h->closest_bound = 0.0;
    h->variant = RHUMB_VARIANT_AUTO;
    h->ns = 0.0;
    h->first_failure[0] = '\0';
}

/* A row of check_rows.h. */
static void run_shared_row(run *r, const check_row *row, rhumb_dtype dtype)
{
    harness *h = &r->shared;
    check_result result = {
        .scheme = row->scheme,
        .op = command_op_name(row->op),
        .dtype = command_dtype_name(dtype),
        .shape = row->name,
    };

    r->each(r->user, row->name, NULL);
    forget_row(h);
    row->run(h, row->shape, dtype);
    result.variant = command_variant_name(h->variant);
    result.error = h->closest_error;
    result.bound = h->closest_bound;
    result.largest = h->largest_error;
    result.ns = h->ns;
    result.host_clock = h->host_clock;
    result.pass = h->cases != 0 && h->failures == 0;
    snprintf(result.message, sizeof result.message, "%s", h->first_failure);
    r->count++;
    r->failed += !result.pass;
    r->each(r->user, row->name, &result);
}

static bool chosen(const check_choice *choice, rhumb_op op)
{
    return choice->op == NULL || strcmp(choice->op, command_op_name(op)) == 0;
}

static void run_shape(run *r, const check_shape *s, bool all)
{
    static const rhumb_variant variants[] = {RHUMB_VARIANT_GENERIC, RHUMB_VARIANT_TILE,
                                             RHUMB_VARIANT_DECODE};

    for (size_t j = 0; j < COUNT(dtypes); j++) {
        rhumb_variant ran;
        if (j != 0 && !s->dtypes && !all)
            continue;
        ran = run_row(r, s, dtypes[j], RHUMB_VARIANT_AUTO);
        for (size_t k = 0; k < COUNT(variants); k++) {
            if (variants[k] != ran && ((j == 0 && s->variants) || all))
                run_row(r, s, dtypes[j], variants[k]);
        }
    }
}

uint32_t check_operations(gpu *g, const check_choice *choice, check_operation_fn each, void *user,
                          uint32_t *count)
{
    run r = {
        .g = g,
        .each = each,
        .user = user,
        .shared = {.g = g, .quiet = true, .repeats = REPEATS, .budget_ns = BUDGET_NS},
    };

    for (size_t i = 0; i < check_shape_count; i++) {
        if (chosen(choice, check_shapes[i].op))
            run_shape(&r, &check_shapes[i], choice->all);
    }
    for (size_t i = 0; i < check_row_count && !choice->quick; i++) {
        for (size_t j = 0; j < COUNT(dtypes) && chosen(choice, check_rows[i].op); j++)
            run_shared_row(&r, &check_rows[i], dtypes[j]);
    }
    for (size_t i = 0; i < r.shared.plan_count; i++)
        rhumb_destroy_plan(r.shared.plans[i]);
    free(r.shared.plans);
    *count = r.count;
    return r.failed;
}
