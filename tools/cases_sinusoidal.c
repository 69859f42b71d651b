/* Golden cases of scheme sinusoidal (PARAMS.md section 6.1). */
#include "cases_absolute.h"

#include <stdlib.h>
#include <string.h>

#define COUNT(array) (sizeof(array) / sizeof *(array))

static const param_row param_rows[] = {
    {"dim", PARAM_WHOLE, NULL},
    {"base", PARAM_NUMBER, NULL},
    {"frequency", PARAM_TEXT, "2i/d\ni/(half-1)\n"},
    {"layout", PARAM_TEXT, "interleaved\nconcat\n"},
    {"odd", PARAM_TEXT, "none\nzero_pad\nnative\nceil_even\n"},
    {"offset", PARAM_WHOLE, NULL},
    {"padding_idx", PARAM_WHOLE, NULL},
    {"x_scale", PARAM_NUMBER, NULL},
    {"pe_scale", PARAM_NUMBER, NULL},
    {"position_rule", PARAM_TEXT,
     "cumsum(mask)*mask+padding_idx\n(cumsum(mask)+past)*mask+padding_idx\n"},
    {"past_length", PARAM_WHOLE, NULL},
    {"naive_float32_max_error", PARAM_NUMBER, NULL},
};

static const tensor_row table_rows[] = {
    {"in.positions", TENSOR_I32, true},
    {"out.table", TENSOR_F32, true},
};

static const tensor_row encode_rows[] = {
    {"in.positions", TENSOR_I32, true},
    {"in.x", TENSOR_F32, true},
    {"in.mask", TENSOR_I32, false}, /* informative only */
    {"out.y", TENSOR_F32, true},
};

typedef struct sinusoidal_case {
    ref_sinusoid sinusoid;
    const tensor *x; /* [B, L, D]; NULL: op table */
    const tensor *golden;
    uint32_t batch; /* 1 for op table */
    uint32_t rows;
    int32_t *positions; /* [B, L] */
} sinusoidal_case;

static int read_params(case_file *c, ref_sinusoid *t)
{
    const cJSON *p = c->params;
    const char *frequency = case_string(p, "frequency"), *layout = case_string(p, "layout");
    const char *odd = case_string(p, "odd");
    uint32_t dim = 0;

    if (frequency == NULL || layout == NULL)
        return case_fail(c, "params: wanted frequency and layout, got no %s",
                         frequency == NULL ? "frequency" : "layout");
    if (case_size(c, "dim", 0.0, 1.0, &dim) != 0)
        return -1;
    ref_sinusoid_init(t, dim);
    t->rule = strcmp(frequency, "2i/d") == 0 ? REF_SINUSOID_POWER : REF_SINUSOID_ENDPOINT;
    t->layout = strcmp(layout, "concat") == 0 ? REF_SINUSOID_SIN_FIRST : REF_SINUSOID_INTERLEAVED;
    if (odd != NULL && strcmp(odd, "zero_pad") == 0)
        t->odd = REF_ODD_ZERO_PAD;
    else if (odd != NULL && strcmp(odd, "none") != 0)
        t->odd = strcmp(odd, "native") == 0 ? REF_ODD_NATIVE : REF_ODD_CEIL_EVEN;
    t->base = case_number(p, "base", t->base);
    t->x_scale = case_number(p, "x_scale", 1.0);
    t->pe_scale = case_number(p, "pe_scale", 1.0);
    return case_int32(c, "offset", 0, &t->offset) != 0 ||
                   case_int32(c, "padding_idx", REF_UNSET, &t->padding_idx) != 0
               ? -1
               : 0;
}

static int read_tensors(case_file *c, bool encode, sinusoidal_case *t)
{
    const uint64_t *shape;

    if (encode) {
        t->x = case_tensor(c, "in.x", 3);
        t->golden = t->x != NULL ? case_shaped(c, "out.y", 3, t->x->shape) : NULL;
    } else {
        t->golden = case_tensor(c, "out.table", 2);
    }
    if (t->golden == NULL)
        return -1;
    shape = t->golden->shape;
    t->batch = encode ? (uint32_t)shape[0] : 1;
    t->rows = (uint32_t)shape[encode ? 1 : 0];
    if (shape[encode ? 2 : 1] != t->sinusoid.dim)
        return case_fail(c, "%s: wanted dim %u, got %llu", t->golden->name, t->sinusoid.dim,
                         (unsigned long long)shape[encode ? 2 : 1]);
    t->positions = case_positions(c, "in.positions", t->batch, t->rows);
    if (t->positions == NULL)
        return -1;
    return case_check_position_rule(c, t->batch, t->rows, t->positions);
}

static int run_reference(case_file *c, const sinusoidal_case *t)
{
    double *x = t->x != NULL ? tensor_doubles(t->x) : NULL;
    double *y = malloc((size_t)t->golden->count * sizeof *y);
    int result = -1;

    if (y == NULL || (t->x != NULL && x == NULL) ||
        ref_sinusoid_encode(&t->sinusoid, t->batch, t->rows, t->positions, x, y) != 0)
        case_fail(c, "reference: no memory, or parameters outside their domain");
    else
        result = case_compare(c, "reference", t->golden, y, &c->result->reference_error);
    free(x);
    free(y);
    return result;
}

static void set_scheme(const ref_sinusoid *t, rhumb_sinusoidal *s)
{
    static const rhumb_sinusoid_layout layouts[] = {
        [REF_SINUSOID_INTERLEAVED] = RHUMB_SINUSOID_INTERLEAVED,
        [REF_SINUSOID_SIN_FIRST] = RHUMB_SINUSOID_SIN_FIRST,
        [REF_SINUSOID_COS_FIRST] = RHUMB_SINUSOID_COS_FIRST,
    };
    static const rhumb_sinusoid_odd odds[] = {
        [REF_ODD_NONE] = RHUMB_SINUSOID_ODD_REFUSED,
        [REF_ODD_ZERO_PAD] = RHUMB_SINUSOID_ODD_ZERO,
        [REF_ODD_NATIVE] = RHUMB_SINUSOID_ODD_NATIVE,
        [REF_ODD_CEIL_EVEN] = RHUMB_SINUSOID_ODD_CUT,
    };

    rhumb_init_sinusoidal(s);
    s->layout = layouts[t->layout];
    s->frequency =
        t->rule == REF_SINUSOID_POWER ? RHUMB_FREQUENCY_PAPER : RHUMB_FREQUENCY_ENDPOINT;
    s->odd = odds[t->odd];
    s->offset = t->offset;
    s->padding_index = t->padding_idx != REF_UNSET ? t->padding_idx : RHUMB_UNSET;
    s->base = t->base;
    s->x_scale = t->x_scale;
    s->pe_scale = t->pe_scale;
}

static int run_device(case_file *c, const sinusoidal_case *t)
{
    const uint64_t shape[4] = {t->batch, 1, t->rows, t->sinusoid.dim};
    rhumb_sinusoidal scheme;
    gpu_operation op;

    set_scheme(&t->sinusoid, &scheme);
    gpu_init_operation(&op, RHUMB_OP_ENCODE);
    op.info.scheme = &scheme;
    op.info.head_dim = t->sinusoid.dim;
    op.info.max_q_length = t->rows;
    gpu_add_tensor(&op, RHUMB_VIEW_POSITIONS, RHUMB_I32, 1, 1, t->batch, t->rows, t->positions,
                   NULL);
    return case_encode_on_device(c, &op, t->x, t->golden, shape);
}

int case_run_sinusoidal(case_file *c)
{
    const bool encode = strcmp(c->result->op, "encode") == 0;
    sinusoidal_case t;
    int result;

    if (!encode && strcmp(c->result->op, "table") != 0)
        return case_fail(c, "scheme sinusoidal: wanted op table or encode, got %s", c->result->op);
    if (case_check_params(c, c->params, param_rows, COUNT(param_rows)) != 0 ||
        (encode ? case_check_tensors(c, encode_rows, COUNT(encode_rows))
                : case_check_tensors(c, table_rows, COUNT(table_rows))) != 0)
        return -1;
    memset(&t, 0, sizeof t);
    result = read_params(c, &t.sinusoid);
    if (result == 0)
        result = read_tensors(c, encode, &t);
    if (result == 0)
        result = run_reference(c, &t);
    if (result == 0 && c->device != NULL)
        result = run_device(c, &t);
    free(t.positions);
    return result;
}
