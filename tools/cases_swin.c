/* Golden cases of schemes swin and swin_v2 (PARAMS.md sections 6.5 and 6.6). */
#include "cases_swin.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define COUNT(array) (sizeof(array) / sizeof *(array))

#define WINDOW_ROWS                                                                                \
    {"window", PARAM_NUMBERS, NULL}, {"heads", PARAM_WHOLE, NULL},                                 \
    {                                                                                              \
        "prefix_tokens", PARAM_WHOLE, NULL                                                         \
    }

#define ATTENTION_ROWS                                                                             \
    {"head_dim", PARAM_WHOLE, NULL}, {"token_layout", PARAM_TEXT, "windows\ngrid\n"},              \
        {"grid", PARAM_NUMBERS, NULL}, {"shift", PARAM_NUMBERS, NULL},                             \
        {"pad", PARAM_TEXT, "none\npad_then_shift\nshift_then_pad\n"},                             \
        {"mask_value", PARAM_NUMBER, NULL}, {"causal", PARAM_BOOL, NULL},                          \
        {"clip_rule", PARAM_TEXT, "min\nper_axis\n"}, {"requested_window", PARAM_NUMBERS, NULL},   \
    {                                                                                              \
        "requested_shift", PARAM_NUMBERS, NULL                                                     \
    }

#define MLP_ROWS                                                                                   \
    {"pretrained_window", PARAM_NUMBERS, NULL}, {"mlp_hidden", PARAM_WHOLE, NULL},                 \
    {                                                                                              \
        "bias_gain", PARAM_NUMBER, NULL                                                            \
    }

#define QKV_TENSORS                                                                                \
    {"in.q", TENSOR_F32, true}, {"in.k", TENSOR_F32, true}, {"in.v", TENSOR_F32, true},            \
    {                                                                                              \
        "out.o", TENSOR_F32, true                                                                  \
    }

#define MLP_TENSORS                                                                                \
    {"in.mlp_w1", TENSOR_F32, true}, {"in.mlp_b1", TENSOR_F32, true},                              \
    {                                                                                              \
        "in.mlp_w2", TENSOR_F32, true                                                              \
    }

static const param_row window_params[] = {WINDOW_ROWS};
static const param_row attention_params[] = {
    WINDOW_ROWS, ATTENTION_ROWS, {"scale", PARAM_NUMBER, NULL}};
static const param_row resize_params[] = {
    CASE_RESAMPLING_ROWS,
    {"heads", PARAM_WHOLE, NULL},
    {"old_grid", PARAM_NUMBERS, NULL},
    {"new_grid", PARAM_NUMBERS, NULL},
    {"prefix_tokens", PARAM_WHOLE, NULL},
    {"suffix_tokens", PARAM_WHOLE, NULL},
};
static const param_row mlp_params[] = {WINDOW_ROWS, MLP_ROWS};
static const param_row cosine_params[] = {
    WINDOW_ROWS,
    ATTENTION_ROWS,
    MLP_ROWS,
    {"cosine", PARAM_BOOL, NULL},
    {"eps", PARAM_NUMBER, NULL},
    {"max_log_scale", PARAM_NUMBER, NULL},
};

static const tensor_row bucket_tensors[] = {{"out.buckets", TENSOR_I32, true}};
static const tensor_row bias_tensors[] = {
    {"in.table", TENSOR_F32, true},
    {"out.bias", TENSOR_F32, true},
};
static const tensor_row attention_tensors[] = {QKV_TENSORS, {"in.table", TENSOR_F32, true}};
static const tensor_row table_tensors[] = {
    {"in.table", TENSOR_F32, true},
    {"out.table", TENSOR_F32, true},
};
static const tensor_row coordinate_tensors[] = {{"out.table", TENSOR_F32, true}};
static const tensor_row mlp_tensors[] = {MLP_TENSORS, {"out.bias", TENSOR_F32, true}};
static const tensor_row cosine_tensors[] = {
    QKV_TENSORS, MLP_TENSORS, {"in.logit_scale", TENSOR_F32, true}};

/* ------------------------------------------------------------------------------------------------
 * Parameters
 */

/* The window and the shift that were used must follow from those asked for. */
static int check_clip(case_file *c, const ref_window_attention *t)
{
    const char *rule = case_string(c->params, "clip_rule");
    uint32_t window[2] = {0, 0}, shift[2] = {0, 0};

    if (rule == NULL)
        return 0;
    if (case_grid(c, "requested_window", 1, window) != 0 ||
        case_optional_grid(c, "requested_shift", 0, shift) != 0)
        return -1;
    if (ref_window_clip(strcmp(rule, "min") == 0 ? REF_CLIP_MIN : REF_CLIP_PER_AXIS, t->grid,
                        window, shift) != 0)
        return case_fail(c, "params.requested_window: wanted a square for clip_rule min");
    if (memcmp(window, t->window.size, sizeof window) != 0 ||
        memcmp(shift, t->shift, sizeof shift) != 0)
        return case_fail(c, "params: wanted window %u by %u and shift %u, %u by clip_rule %s",
                         window[0], window[1], shift[0], shift[1], rule);
    return 0;
}

static int read_grid(case_file *c, ref_window_attention *t)
{
    const char *layout = case_string(c->params, "token_layout");
    const char *pad = case_string(c->params, "pad");

    if (layout == NULL)
        return case_fail(c, "params: wanted token_layout, got none");
    if (pad != NULL && strcmp(pad, "none") != 0)
        t->pad = strcmp(pad, "pad_then_shift") == 0 ? REF_PAD_THEN_SHIFT : REF_SHIFT_THEN_PAD;
    if (strcmp(layout, "grid") == 0) {
        if (case_grid(c, "grid", 1, t->grid) != 0 ||
            case_optional_grid(c, "shift", 0, t->shift) != 0)
            return -1;
        return check_clip(c, t);
    }
    if (case_param(c->params, "grid") != NULL || case_param(c->params, "clip_rule") != NULL)
        return case_fail(c, "params: wanted grid and clip_rule with token_layout grid only");
    return 0;
}

static int read_attention(case_file *c, swin_case *t)
{
    const cJSON *p = c->params;
    ref_window_attention *at = &t->at;

    if (case_size(c, "head_dim", 0.0, 1.0, &at->head_dim) != 0 || read_grid(c, at) != 0)
        return -1;
    at->scale = case_number(p, "scale", 1.0 / sqrt(at->head_dim));
    at->mask_value = case_number(p, "mask_value", -100.0);
    at->eps = case_number(p, "eps", 1e-12);
    at->max_log_scale = case_number(p, "max_log_scale", log(100.0));
    if (case_bool(p, "causal", false) || !case_bool(p, "cosine", true))
        return case_fail(c, "params: wanted causal false and cosine true, got something else");
    return 0;
}

static int read_params(case_file *c, swin_case *t)
{
    ref_window *window = &t->at.window;

    if (case_grid(c, "window", 1, window->size) != 0 ||
        case_size(c, "heads", 1.0, 1.0, &t->heads) != 0 ||
        case_size(c, "prefix_tokens", 0.0, 0.0, &window->prefix) != 0 ||
        case_optional_grid(c, "pretrained_window", 0, t->pretrained) != 0)
        return -1;
    if (window->prefix > (t->second ? 0u : 1u))
        return case_fail(c, "params.prefix_tokens: wanted at most %d, got %u", t->second ? 0 : 1,
                         window->prefix);
    if (window->size[0] > 64 || window->size[1] > 64)
        return case_fail(c, "params.window: wanted sides of at most 64, got %u by %u",
                         window->size[0], window->size[1]);
    t->gain = case_number(c->params, "bias_gain", 16.0);
    t->at.heads = t->heads;
    return t->attention ? read_attention(c, t) : 0;
}

/* ------------------------------------------------------------------------------------------------
 * Tensors
 */
static int read_mlp(case_file *c, swin_case *t)
{
    uint64_t hidden;

    t->w1 = case_tensor(c, "in.mlp_w1", 2);
    if (t->w1 == NULL)
        return -1;
    hidden = t->w1->shape[0];
    if (case_number(c->params, "mlp_hidden", (double)hidden) != (double)hidden)
        return case_fail(c, "params.mlp_hidden: wanted the rows of in.mlp_w1, got %g",
                         case_number(c->params, "mlp_hidden", 0.0));
    if (case_check_shape(c, t->w1, 2, (uint64_t[]){hidden, 2}) != 0)
        return -1;
    t->b1 = case_shaped(c, "in.mlp_b1", 1, (uint64_t[]){hidden});
    t->w2 = t->b1 != NULL ? case_shaped(c, "in.mlp_w2", 2, (uint64_t[]){t->heads, hidden}) : NULL;
    if (t->w2 == NULL || !t->attention)
        return t->w2 != NULL ? 0 : -1;
    t->log_scales = case_shaped(c, "in.logit_scale", 1, (uint64_t[]){t->heads});
    return t->log_scales != NULL ? 0 : -1;
}

static int read_bias(case_file *c, swin_case *t)
{
    const uint64_t shape[2] = {ref_window_rows(&t->at.window), t->heads};

    if (t->second)
        return read_mlp(c, t);
    t->table = case_shaped(c, "in.table", 2, shape);
    return t->table != NULL ? 0 : -1;
}

static int read_tensors(case_file *c, swin_case *t)
{
    const ref_window_attention *at = &t->at;
    const uint64_t n = ref_window_tokens(&at->window);
    uint64_t shape[4] = {0, t->heads, n, at->head_dim};

    if (read_bias(c, t) != 0)
        return -1;
    if (!t->attention) {
        t->golden = case_shaped(c, "out.bias", 3, (uint64_t[]){t->heads, n, n});
        return t->golden != NULL ? 0 : -1;
    }
    if (at->grid[0] != 0)
        shape[2] = (uint64_t)at->grid[0] * at->grid[1];
    t->q = case_tensor(c, "in.q", 4);
    if (t->q == NULL)
        return -1;
    shape[0] = t->q->shape[0];
    if (case_check_shape(c, t->q, 4, shape) != 0)
        return -1;
    t->k = case_shaped(c, "in.k", 4, shape);
    t->v = t->k != NULL ? case_shaped(c, "in.v", 4, shape) : NULL;
    t->golden = t->v != NULL ? case_shaped(c, "out.o", 4, shape) : NULL;
    t->at.batch = (uint32_t)shape[0];
    return t->golden != NULL ? 0 : -1;
}

/* ------------------------------------------------------------------------------------------------
 * op bias and op attention
 */

/* The table [rows, H] of swin_v2 from its weights. */
static int make_table(const swin_case *t, double *table)
{
    const uint32_t rows = ref_window_rows(&t->at.window);
    double *coordinates = malloc((size_t)rows * 2 * sizeof *coordinates);
    double *w1 = tensor_doubles(t->w1), *b1 = tensor_doubles(t->b1), *w2 = tensor_doubles(t->w2);
    int result = -1;

    if (coordinates != NULL && w1 != NULL && b1 != NULL && w2 != NULL)
        result = ref_window_coordinates(&t->at.window, t->pretrained, coordinates);
    if (result == 0)
        result = ref_window_mlp(rows, (uint32_t)t->w1->shape[0], t->heads, coordinates, w1, b1, w2,
                                t->gain, table);
    free(coordinates);
    free(w1);
    free(b1);
    free(w2);
    return result;
}

/* bias [H, N, N]; malloc'ed. NULL without memory or for parameters outside their domain. */
static double *make_bias(const swin_case *t)
{
    const uint64_t n = ref_window_tokens(&t->at.window);
    const size_t count = (size_t)ref_window_rows(&t->at.window) * t->heads;
    double *table = t->second ? malloc(count * sizeof *table) : tensor_doubles(t->table);
    double *bias = malloc((size_t)(t->heads * n * n) * sizeof *bias);

    if (table == NULL || bias == NULL || (t->second && make_table(t, table) != 0) ||
        ref_window_bias(&t->at.window, t->heads, table, bias) != 0) {
        free(bias);
        bias = NULL;
    }
    free(table);
    return bias;
}

static int attend(const swin_case *t, const double *bias, double *o)
{
    ref_window_attention at = t->at;
    double *q = tensor_doubles(t->q), *k = tensor_doubles(t->k), *v = tensor_doubles(t->v);
    double *log_scales = t->second ? tensor_doubles(t->log_scales) : NULL;
    int result = -1;

    at.bias = bias;
    at.log_scales = log_scales;
    at.q = q;
    at.k = k;
    at.v = v;
    at.o = o;
    if (q != NULL && k != NULL && v != NULL && (!t->second || log_scales != NULL))
        result = ref_window_attend(&at);
    free(q);
    free(k);
    free(v);
    free(log_scales);
    return result;
}

static int run_reference(case_file *c, const swin_case *t)
{
    double *bias = make_bias(t), *o = NULL;
    int result = -1;

    if (t->attention)
        o = malloc((size_t)t->golden->count * sizeof *o);
    if (bias == NULL || (t->attention && (o == NULL || attend(t, bias, o) != 0)))
        case_fail(c, "reference: no memory, or parameters outside their domain");
    else
        result = case_compare(c, "reference", t->golden, t->attention ? o : bias,
                              &c->result->reference_error);
    free(bias);
    free(o);
    return result;
}

static int run_window(case_file *c, swin_case *t)
{
    if (read_params(c, t) != 0 || read_tensors(c, t) != 0 || run_reference(c, t) != 0)
        return -1;
    return c->device != NULL ? case_swin_on_device(c, t) : 0;
}

/* ------------------------------------------------------------------------------------------------
 * The other ops: indices, log-spaced coordinates, resampling
 */
static int run_buckets(case_file *c, swin_case *t)
{
    const ref_window *window = &t->at.window;
    int32_t *index = NULL;
    double *values = NULL;
    int result = -1;
    uint64_t n, i;

    if (read_params(c, t) != 0)
        return -1;
    n = ref_window_tokens(window);
    t->golden = case_shaped(c, "out.buckets", 2, (uint64_t[]){n, n});
    if (t->golden == NULL)
        return -1;
    index = malloc((size_t)(n * n) * sizeof *index);
    values = malloc((size_t)(n * n) * sizeof *values);
    if (index == NULL || values == NULL || ref_window_index(window, index) != 0) {
        case_fail(c, "reference: no memory, or parameters outside their domain");
    } else {
        for (i = 0; i < n * n; i++)
            values[i] = index[i];
        result = case_compare(c, "reference", t->golden, values, &c->result->reference_error);
    }
    free(index);
    free(values);
    return result == 0 && c->device != NULL ? case_swin_rows_on_device(c, t) : result;
}

static int run_coordinates(case_file *c, swin_case *t)
{
    double *coordinates;
    int result = -1;

    if (read_params(c, t) != 0)
        return -1;
    t->golden = case_shaped(c, "out.table", 2, (uint64_t[]){ref_window_rows(&t->at.window), 2});
    if (t->golden == NULL)
        return -1;
    coordinates = malloc((size_t)t->golden->count * sizeof *coordinates);
    if (coordinates == NULL ||
        ref_window_coordinates(&t->at.window, t->pretrained, coordinates) != 0)
        case_fail(c, "reference: no memory, or parameters outside their domain");
    else
        result = case_compare(c, "reference", t->golden, coordinates, &c->result->reference_error);
    free(coordinates);
    return result == 0 && c->device != NULL ? case_swin_coordinates_on_device(c, t) : result;
}

static int run_resize(case_file *c, swin_case *t)
{
    if (case_size(c, "heads", 0.0, 1.0, &t->heads) != 0)
        return -1;
    return case_run_resize(c, t->heads, "bicubic\ngeometric_bilinear\n");
}

/* ------------------------------------------------------------------------------------------------
 */
typedef struct op_row {
    const char *op;
    bool second;
    const param_row *params;
    size_t param_count;
    const tensor_row *tensors;
    size_t tensor_count;
    int (*run)(case_file *c, swin_case *t);
} op_row;

static const op_row op_rows[] = {
    {"buckets", false, window_params, COUNT(window_params), bucket_tensors, COUNT(bucket_tensors),
     run_buckets},
    {"bias", false, window_params, COUNT(window_params), bias_tensors, COUNT(bias_tensors),
     run_window},
    {"attention", false, attention_params, COUNT(attention_params), attention_tensors,
     COUNT(attention_tensors), run_window},
    {"resize", false, resize_params, COUNT(resize_params), table_tensors, COUNT(table_tensors),
     run_resize},
    {"table", true, mlp_params, COUNT(mlp_params), coordinate_tensors, COUNT(coordinate_tensors),
     run_coordinates},
    {"bias", true, mlp_params, COUNT(mlp_params), mlp_tensors, COUNT(mlp_tensors), run_window},
    {"attention", true, cosine_params, COUNT(cosine_params), cosine_tensors, COUNT(cosine_tensors),
     run_window},
};

static int run_op(case_file *c, bool second)
{
    const op_row *row = NULL;
    swin_case t;
    size_t i;

    for (i = 0; i < COUNT(op_rows) && row == NULL; i++)
        if (op_rows[i].second == second && strcmp(op_rows[i].op, c->result->op) == 0)
            row = &op_rows[i];
    if (row == NULL)
        return case_fail(c, "scheme %s: wanted op %s, got %s", c->result->scheme,
                         second ? "table, bias or attention" : "buckets, bias, attention or resize",
                         c->result->op);
    if (case_check_params(c, c->params, row->params, row->param_count) != 0 ||
        case_check_tensors(c, row->tensors, row->tensor_count) != 0)
        return -1;
    memset(&t, 0, sizeof t);
    t.second = second;
    t.attention = strcmp(row->op, "attention") == 0;
    return row->run(c, &t);
}

int case_run_swin(case_file *c)
{
    return run_op(c, false);
}

int case_run_swin_v2(case_file *c)
{
    return run_op(c, true);
}
