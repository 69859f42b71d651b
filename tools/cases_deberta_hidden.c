/* Golden cases of scheme deberta that start from hidden states, and the Enhanced Mask Decoder
 * (PARAMS.md section 4.8). Projections, normalisation and the feed-forward network are no part of
 * rhumb: they are computed here, in double, also where a device computes the attention.
 */
#include "cases_deberta.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define COUNT(array) (sizeof(array) / sizeof *(array))

#define LAYER(name) "in.layer." name
#define LINEAR_ROWS(name, required)                                                                \
    {LAYER(name) ".weight", TENSOR_F32, required},                                                 \
    {                                                                                              \
        LAYER(name) ".bias", TENSOR_F32, required                                                  \
    }

static const tensor_row plain_tensors[] = {
    {"in.x", TENSOR_F32, true},
    {"in.rel_embeddings", TENSOR_F32, true},
    {"in.rel_ln_weight", TENSOR_F32, false},
    {"in.rel_ln_bias", TENSOR_F32, false},
    {"in.w_query", TENSOR_F32, true},
    {"in.b_query", TENSOR_F32, true},
    {"in.w_key", TENSOR_F32, true},
    {"in.b_key", TENSOR_F32, true},
    {"in.w_value", TENSOR_F32, true},
    {"in.b_value", TENSOR_F32, true},
    {"out.o", TENSOR_F32, true},
};

static const tensor_row decoder_tensors[] = {
    {"in.x", TENSOR_F32, true},
    {"in.table", TENSOR_F32, true},
    {"in.positions", TENSOR_I32, true},
    {"in.rel_embeddings", TENSOR_F32, true},
    {"in.rel_ln_weight", TENSOR_F32, false},
    {"in.rel_ln_bias", TENSOR_F32, false},
    LINEAR_ROWS("attention.self.query_proj", true),
    LINEAR_ROWS("attention.self.key_proj", true),
    LINEAR_ROWS("attention.self.value_proj", true),
    LINEAR_ROWS("attention.self.pos_key_proj", false),
    LINEAR_ROWS("attention.self.pos_query_proj", false),
    LINEAR_ROWS("attention.output.dense", true),
    LINEAR_ROWS("attention.output.LayerNorm", true),
    LINEAR_ROWS("intermediate.dense", true),
    LINEAR_ROWS("output.dense", true),
    LINEAR_ROWS("output.LayerNorm", true),
    {"out.o", TENSOR_F32, true},
    {"out.o2", TENSOR_F32, true},
    {"out.y", TENSOR_F32, true},
};

/* Weight and bias of a projection [out, in], or of a normalisation [out] (in 0). */
typedef struct linear {
    const double *weight;
    const double *bias;
    uint64_t in;
    uint64_t out;
} linear;

typedef struct hidden_case {
    relative_case base; /* sizes and scale; q, k, v are none */
    ref_deberta deberta;
    bool decoder;
    double eps;
    uint64_t width;   /* E = heads * head_dim */
    uint64_t tokens;  /* batch * L */
    const double *x;  /* [B, L, E] */
    double *relative; /* [2 span, E] */
    linear norm;      /* of it; weight NULL: none */
    linear query, key, value, pos_key, pos_query;
    linear attention_out, attention_norm, up, down, out_norm; /* decoder */
    const double *table;                                      /* decoder: [P, E] */
    const int32_t *positions;
    uint64_t table_rows;
    bool on_device; /* attention is that of the device */
} hidden_case;

/* ------------------------------------------------------------------------------------------------
 * Arithmetic
 */

/* y[rows, out] = x[rows, in] W^T + b */
static void project(const linear *l, const double *x, uint64_t rows, double *y)
{
    uint64_t r, o, i;

    for (r = 0; r < rows; r++) {
        for (o = 0; o < l->out; o++) {
            double sum = l->bias[o];
            for (i = 0; i < l->in; i++)
                sum += l->weight[o * l->in + i] * x[r * l->in + i];
            y[r * l->out + o] = sum;
        }
    }
}

/* In place. */
static void normalise(const linear *l, double eps, double *x, uint64_t rows)
{
    uint64_t r, i;

    for (r = 0; r < rows; r++, x += l->out) {
        double mean = 0.0, variance = 0.0;
        for (i = 0; i < l->out; i++)
            mean += x[i] / (double)l->out;
        for (i = 0; i < l->out; i++)
            variance += (x[i] - mean) * (x[i] - mean) / (double)l->out;
        for (i = 0; i < l->out; i++)
            x[i] = (x[i] - mean) / sqrt(variance + eps) * l->weight[i] + l->bias[i];
    }
}

static void gelu(double *x, uint64_t count)
{
    uint64_t i;

    for (i = 0; i < count; i++)
        x[i] = 0.5 * x[i] * (1.0 + erf(x[i] / sqrt(2.0)));
}

static void add(double *x, const double *y, uint64_t count)
{
    uint64_t i;

    for (i = 0; i < count; i++)
        x[i] += y[i];
}

/* [groups, rows, heads, D] to [groups, heads, rows, D]. */
static void split_heads(const double *x, uint64_t groups, uint64_t rows, uint64_t heads,
                        uint64_t head_dim, double *y)
{
    uint64_t g, r, h;

    for (g = 0; g < groups; g++)
        for (r = 0; r < rows; r++)
            for (h = 0; h < heads; h++)
                memcpy(y + ((g * heads + h) * rows + r) * head_dim,
                       x + ((g * rows + r) * heads + h) * head_dim, (size_t)head_dim * sizeof *y);
}

/* ------------------------------------------------------------------------------------------------
 * Reading
 */
static int read_norm(case_file *c, hidden_case *t, const char *weight, const char *bias, linear *l)
{
    l->in = 0;
    l->out = t->width;
    l->weight = case_relative_doubles(c, &t->base, weight, 1, &l->out);
    l->bias = l->weight != NULL ? case_relative_doubles(c, &t->base, bias, 1, &l->out) : NULL;
    return l->bias != NULL ? 0 : -1;
}

static int read_linear(case_file *c, hidden_case *t, const char *weight, const char *bias,
                       uint64_t in, uint64_t out, linear *l)
{
    const uint64_t shape[2] = {out, in};

    l->in = in;
    l->out = out;
    l->weight = case_relative_doubles(c, &t->base, weight, 2, shape);
    l->bias = l->weight != NULL ? case_relative_doubles(c, &t->base, bias, 1, &l->out) : NULL;
    return l->bias != NULL ? 0 : -1;
}

/* The sizes; L is that of in.x. */
static int read_sizes(case_file *c, hidden_case *t)
{
    const tensor *x = case_tensor(c, "in.x", 3);
    relative_case *b = &t->base;

    if (x == NULL || case_size(c, "batch", (double)x->shape[0], 1.0, &b->batch) != 0 ||
        case_size(c, "heads", 0.0, 1.0, &b->heads) != 0 ||
        case_size(c, "head_dim", 0.0, 1.0, &b->head_dim) != 0 ||
        case_size(c, "q_len", (double)x->shape[1], 1.0, &b->q_rows) != 0 ||
        case_expect_number(c, "k_len", b->q_rows) != 0 ||
        case_expect_number(c, "kv_heads", b->heads) != 0 ||
        case_expect_number(c, "q_offset", 0.0) != 0)
        return -1;
    b->kv_heads = b->heads;
    b->k_rows = b->q_rows;
    b->scale = case_number(c->params, "scale", 0.0);
    if (!(b->scale > 0.0))
        return case_fail(c, "params: wanted scale above 0, got %g", b->scale);
    b->causal = case_bool(c->params, "causal", false);
    t->width = (uint64_t)b->heads * b->head_dim;
    t->tokens = (uint64_t)b->batch * b->q_rows;
    t->eps = case_number(c->params, "layer_norm_eps", 1e-7);
    {
        const uint64_t shape[3] = {b->batch, b->q_rows, t->width};
        t->x = case_relative_doubles(c, b, "in.x", 3, shape);
    }
    return t->x != NULL ? 0 : -1;
}

static int read_relative(case_file *c, hidden_case *t)
{
    const uint64_t shape[2] = {2 * (uint64_t)t->deberta.span, t->width};
    const tensor *relative = case_tensor(c, "in.rel_embeddings", 2);
    const bool norm = case_string(c->params, "norm_rel_ebd") != NULL;

    if (norm != (tensor_list_find(&c->tensors, "in.rel_ln_weight") != NULL) ||
        norm != (tensor_list_find(&c->tensors, "in.rel_ln_bias") != NULL))
        return case_fail(c, "wanted in.rel_ln_weight and in.rel_ln_bias exactly with norm_rel_ebd");
    if (relative == NULL || case_check_shape(c, relative, 2, shape) != 0)
        return -1;
    t->relative = case_relative_own(c, &t->base, tensor_doubles(relative));
    if (t->relative == NULL)
        return -1;
    return norm ? read_norm(c, t, "in.rel_ln_weight", "in.rel_ln_bias", &t->norm) : 0;
}

static int read_plain(case_file *c, hidden_case *t)
{
    const uint64_t e = t->width;

    if (read_linear(c, t, "in.w_query", "in.b_query", e, e, &t->query) != 0 ||
        read_linear(c, t, "in.w_key", "in.b_key", e, e, &t->key) != 0 ||
        read_linear(c, t, "in.w_value", "in.b_value", e, e, &t->value) != 0)
        return -1;
    if (!case_bool(c->params, "share_att_key", false))
        return case_fail(c, "params.share_att_key: wanted true at level hidden");
    t->pos_key = t->key;
    t->pos_query = t->query;
    return 0;
}

#define READ_LINEAR(name, in, out, l)                                                              \
    read_linear(c, t, LAYER(name) ".weight", LAYER(name) ".bias", in, out, l)
#define READ_NORM(name, l) read_norm(c, t, LAYER(name) ".weight", LAYER(name) ".bias", l)

static int read_position_projections(case_file *c, hidden_case *t)
{
    static const char *const names[] = {
        LAYER("attention.self.pos_key_proj.weight"), LAYER("attention.self.pos_key_proj.bias"),
        LAYER("attention.self.pos_query_proj.weight"), LAYER("attention.self.pos_query_proj.bias")};
    const bool shared = case_bool(c->params, "share_att_key", false);
    size_t i;

    for (i = 0; i < COUNT(names); i++)
        if (shared == (tensor_list_find(&c->tensors, names[i]) != NULL))
            return case_fail(c, "wanted %s exactly without share_att_key", names[i]);
    t->pos_key = t->key;
    t->pos_query = t->query;
    if (shared)
        return 0;
    if (READ_LINEAR("attention.self.pos_key_proj", t->width, t->width, &t->pos_key) != 0)
        return -1;
    return READ_LINEAR("attention.self.pos_query_proj", t->width, t->width, &t->pos_query);
}

/* The rows of the table that are added to the hidden states. */
static int read_positions(case_file *c, hidden_case *t)
{
    const tensor *table = case_tensor(c, "in.table", 2);
    uint64_t i;

    if (table == NULL)
        return -1;
    t->table_rows = table->shape[0];
    {
        const uint64_t shape[2] = {t->table_rows, t->width};
        t->table = case_relative_doubles(c, &t->base, "in.table", 2, shape);
    }
    if (t->table == NULL)
        return -1;
    t->positions = case_relative_ints(c, "in.positions", t->base.batch, t->base.q_rows);
    if (t->positions == NULL)
        return -1;
    for (i = 0; i < t->tokens; i++)
        if (t->positions[i] < 0 || (uint64_t)t->positions[i] >= t->table_rows)
            return case_fail(c, "in.positions[%llu]: wanted 0 to %llu, got %d",
                             (unsigned long long)i, (unsigned long long)t->table_rows - 1,
                             t->positions[i]);
    return 0;
}

static int read_decoder(case_file *c, hidden_case *t)
{
    const tensor *up = case_tensor(c, LAYER("intermediate.dense.weight"), 2);
    const uint64_t e = t->width, f = up != NULL ? up->shape[0] : 0;

    if (up == NULL || case_expect_number(c, "intermediate_size", (double)f) != 0 ||
        case_expect_number(c, "emd_steps", 2.0) != 0 || read_positions(c, t) != 0 ||
        READ_LINEAR("attention.self.query_proj", e, e, &t->query) != 0 ||
        READ_LINEAR("attention.self.key_proj", e, e, &t->key) != 0 ||
        READ_LINEAR("attention.self.value_proj", e, e, &t->value) != 0 ||
        read_position_projections(c, t) != 0 ||
        READ_LINEAR("attention.output.dense", e, e, &t->attention_out) != 0 ||
        READ_NORM("attention.output.LayerNorm", &t->attention_norm) != 0 ||
        READ_LINEAR("intermediate.dense", e, f, &t->up) != 0 ||
        READ_LINEAR("output.dense", f, e, &t->down) != 0)
        return -1;
    return READ_NORM("output.LayerNorm", &t->out_norm);
}

static int read_case(case_file *c, hidden_case *t)
{
    const char *variant = case_string(c->params, "variant");

    if (strcmp(c->result->op, "attention") != 0)
        return case_fail(c, "level hidden: wanted op attention, got %s", c->result->op);
    t->decoder = variant != NULL;
    if (t->decoder ? case_check_tensors(c, decoder_tensors, COUNT(decoder_tensors)) != 0
                   : case_check_tensors(c, plain_tensors, COUNT(plain_tensors)) != 0)
        return -1;
    if (read_sizes(c, t) != 0 || case_read_deberta(c, &t->deberta) != 0 || read_relative(c, t) != 0)
        return -1;
    if (!case_deberta_has(c, "c2p") || !case_deberta_has(c, "p2c"))
        return case_fail(c, "params.pos_att_type: wanted c2p and p2c at level hidden");
    return t->decoder ? read_decoder(c, t) : read_plain(c, t);
}

/* ------------------------------------------------------------------------------------------------
 * Reference
 */

/* l applied to x [groups, rows, E], split into heads; the case owns it. NULL after case_fail. */
static double *projected_heads(case_file *c, hidden_case *t, const linear *l, const double *x,
                               uint64_t groups, uint64_t rows)
{
    const uint64_t count = groups * rows * t->width;
    double *flat = case_relative_own(c, &t->base, malloc((size_t)count * sizeof *flat));
    double *heads = NULL;

    if (flat != NULL)
        heads = case_relative_own(c, &t->base, malloc((size_t)count * sizeof *heads));
    if (heads == NULL)
        return NULL;
    project(l, x, groups * rows, flat);
    split_heads(flat, groups, rows, t->base.heads, t->base.head_dim, heads);
    return heads;
}

/* The tables of the position terms, as terms. */
static int make_terms(case_file *c, hidden_case *t)
{
    const uint64_t rows = 2 * (uint64_t)t->deberta.span;

    if (t->norm.weight != NULL)
        normalise(&t->norm, t->eps, t->relative, rows);
    t->deberta.pos_key = projected_heads(c, t, &t->pos_key, t->relative, 1, rows);
    if (t->deberta.pos_key == NULL)
        return -1;
    t->deberta.pos_query = projected_heads(c, t, &t->pos_query, t->relative, 1, rows);
    if (t->deberta.pos_query == NULL)
        return -1;
    if (ref_deberta_terms(&t->deberta, t->base.head_dim, &t->base.terms) != 0)
        return case_fail(c, "reference: parameters outside their domain");
    return 0;
}

/* One array of `count` floats for each of q, k, v and the context; the case owns it. */
static int attend_on_device(case_file *c, hidden_case *t, const ref_attention *a, double *context)
{
    const uint64_t count = t->tokens * t->width;
    float *floats = case_relative_own(c, &t->base, malloc((size_t)count * 4 * sizeof *floats));
    rhumb_deberta deberta;
    const relative_device device = {.scheme = &deberta};
    uint64_t i;

    if (floats == NULL)
        return -1;
    for (i = 0; i < count; i++) {
        floats[i] = (float)a->q[i];
        floats[count + i] = (float)a->k[i];
        floats[2 * count + i] = (float)a->v[i];
    }
    {
        const relative_arrays arrays = {floats, floats + count, floats + 2 * count,
                                        floats + 3 * count};
        case_deberta_scheme(&t->deberta, &deberta);
        if (case_relative_run_device(c, &t->base, &device, &arrays) != 0)
            return -1;
    }
    for (i = 0; i < count; i++)
        context[i] = (double)floats[3 * count + i];
    return 0;
}

/* Context [B, H, L, D] of queries from `queries` and keys and values from x, both [B, L, E]. */
static int attend(case_file *c, hidden_case *t, const double *queries, double *context)
{
    const relative_case *b = &t->base;
    ref_attention a;

    ref_attention_init(&a, b->batch, b->heads, b->q_rows, b->k_rows, b->head_dim);
    a.scale = b->scale;
    a.causal = b->causal;
    a.terms = &b->terms;
    a.o = context;
    a.q = projected_heads(c, t, &t->query, queries, b->batch, b->q_rows);
    a.k = a.q != NULL ? projected_heads(c, t, &t->key, t->x, b->batch, b->q_rows) : NULL;
    a.v = a.k != NULL ? projected_heads(c, t, &t->value, t->x, b->batch, b->q_rows) : NULL;
    if (a.v == NULL)
        return -1;
    if (t->on_device)
        return attend_on_device(c, t, &a, context);
    if (ref_attend(&a) != 0)
        return case_fail(c, "reference: no memory, or parameters outside their domain");
    return 0;
}

/* Q = LN(down(gelu(up(T))) + T), T = LN(dense(C) + Q); in place. `wide` has room for [tokens, F]
 * and `narrow` for [tokens, E]. */
static void finish_layer(const hidden_case *t, const double *context, double *q, double *narrow,
                         double *wide)
{
    const uint64_t count = t->tokens * t->width;

    /* The way back is the same exchange of two axes with their sizes swapped. */
    split_heads(context, t->base.batch, t->base.heads, t->base.q_rows, t->base.head_dim, wide);
    project(&t->attention_out, wide, t->tokens, narrow);
    add(q, narrow, count);
    normalise(&t->attention_norm, t->eps, q, t->tokens);
    project(&t->up, q, t->tokens, wide);
    gelu(wide, t->tokens * t->up.out);
    project(&t->down, wide, t->tokens, narrow);
    add(q, narrow, count);
    normalise(&t->out_norm, t->eps, q, t->tokens);
}

static int compare(case_file *c, const hidden_case *t, const tensor *golden, const double *got)
{
    return case_compare(c, t->on_device ? "device" : "reference", golden, got,
                        t->on_device ? &c->result->device_error : &c->result->reference_error);
}

static int compare_context(case_file *c, const hidden_case *t, const char *name,
                           const double *context)
{
    const uint64_t shape[4] = {t->base.batch, t->base.heads, t->base.q_rows, t->base.head_dim};
    const tensor *golden = case_tensor(c, name, 4);

    if (golden == NULL || case_check_shape(c, golden, 4, shape) != 0)
        return -1;
    return compare(c, t, golden, context);
}

static int run_decoder(case_file *c, hidden_case *t, double *context)
{
    const uint64_t shape[3] = {t->base.batch, t->base.q_rows, t->width};
    const uint64_t count = t->tokens * t->width;
    const uint64_t most = t->up.out > t->width ? t->up.out : t->width;
    const tensor *golden = case_tensor(c, "out.y", 3);
    double *q = case_relative_own(c, &t->base, malloc((size_t)count * sizeof *q));
    double *narrow = case_relative_own(c, &t->base, malloc((size_t)count * sizeof *narrow));
    double *wide =
        case_relative_own(c, &t->base, malloc((size_t)(t->tokens * most) * sizeof *wide));
    uint64_t i;

    if (golden == NULL || q == NULL || narrow == NULL || wide == NULL ||
        case_check_shape(c, golden, 3, shape) != 0)
        return -1;
    for (i = 0; i < count; i++)
        q[i] = t->x[i] + t->table[(uint64_t)t->positions[i / t->width] * t->width + i % t->width];
    if (attend(c, t, q, context) != 0 || compare_context(c, t, "out.o", context) != 0)
        return -1;
    finish_layer(t, context, q, narrow, wide);
    if (attend(c, t, q, context) != 0 || compare_context(c, t, "out.o2", context) != 0)
        return -1;
    finish_layer(t, context, q, narrow, wide);
    return compare(c, t, golden, q);
}

static int run_layer(case_file *c, hidden_case *t)
{
    const uint64_t count = t->tokens * t->width;
    double *context = case_relative_own(c, &t->base, malloc((size_t)count * sizeof *context));

    if (context == NULL)
        return -1;
    if (t->decoder)
        return run_decoder(c, t, context);
    if (attend(c, t, t->x, context) != 0)
        return -1;
    return compare_context(c, t, "out.o", context);
}

int case_run_deberta_hidden(case_file *c)
{
    hidden_case t;
    int result;

    memset(&t, 0, sizeof t);
    result = read_case(c, &t);
    if (result == 0)
        result = make_terms(c, &t);
    if (result == 0)
        result = run_layer(c, &t);
    if (result == 0 && c->device != NULL) {
        t.on_device = true;
        result = run_layer(c, &t);
    }
    case_free_relative(&t.base);
    return result;
}
