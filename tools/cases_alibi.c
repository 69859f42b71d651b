/* Golden cases of scheme alibi (PARAMS.md section 4.5). */
#include "cases_relative.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define COUNT(array) (sizeof(array) / sizeof *(array))

#define FORMS "key_index\nlast_key\nsymmetric\nkey_position_from_mask\n"

#define SLOPE_ROWS                                                                                 \
    {"alibi_bias_max", PARAM_NUMBER, NULL},                                                        \
    {                                                                                              \
        "slopes", PARAM_TEXT, "paper\n"                                                            \
    }

static const param_row table_rows[] = {
    {"heads", PARAM_WHOLE, NULL},
    SLOPE_ROWS,
};

static const param_row bias_rows[] = {
    CASE_BIAS_ROWS,
    SLOPE_ROWS,
    {"alibi_form", PARAM_TEXT, FORMS},
};

static const param_row attention_rows[] = {
    CASE_RELATIVE_ROWS,
    SLOPE_ROWS,
    {"alibi_form", PARAM_TEXT, FORMS},
    {"bias_times_scale", PARAM_BOOL, NULL},
    {"fully_masked_rows", PARAM_TEXT, "zero_in_golden\n"},
};

static const tensor_row table_tensors[] = {
    {"out.table", TENSOR_F32, true},
};

static const tensor_row bias_tensors[] = {
    {"in.mask", TENSOR_I32, false},
    {"out.bias", TENSOR_F32, true},
};

static const tensor_row mask_tensors[] = {
    {"in.mask", TENSOR_I32, false},
};

typedef struct alibi_case {
    relative_case base;
    ref_alibi alibi;
} alibi_case;

/* ------------------------------------------------------------------------------------------------
 * Reading
 */
static int read_slopes(case_file *c, alibi_case *t)
{
    double *slopes = case_relative_own(c, &t->base, calloc(t->base.heads, sizeof *slopes));

    if (slopes == NULL)
        return -1;
    if (ref_alibi_slopes(0, t->base.heads, case_number(c->params, "alibi_bias_max", 8.0),
                         t->base.heads, slopes) != 0)
        return case_fail(c, "reference: heads or alibi_bias_max outside their domain");
    t->alibi.slopes = slopes;
    return 0;
}

/* p_j = (cumsum(mask) - 1) * mask, in place of the mask's values. */
static int read_positions(case_file *c, alibi_case *t)
{
    const relative_case *base = &t->base;
    const int32_t *mask = case_relative_ints(c, "in.mask", base->batch, base->k_rows);
    int32_t *positions;
    uint64_t i;

    if (mask == NULL)
        return -1;
    positions = case_relative_own(c, &t->base,
                                  malloc((size_t)base->batch * base->k_rows * sizeof *positions));
    if (positions == NULL)
        return -1;
    for (i = 0; i < (uint64_t)base->batch * base->k_rows; i += base->k_rows) {
        int32_t sum = 0;
        uint32_t j;
        for (j = 0; j < base->k_rows; j++) {
            if (mask[i + j] != 0 && mask[i + j] != 1)
                return case_fail(c, "in.mask: wanted 0 or 1, got %d", mask[i + j]);
            sum += mask[i + j];
            positions[i + j] = (sum - 1) * mask[i + j];
        }
    }
    t->alibi.positions = positions;
    t->alibi.k_rows = base->k_rows;
    return 0;
}

static int read_form(case_file *c, alibi_case *t)
{
    static const struct {
        const char *name;
        ref_alibi_form form;
    } forms[] = {
        {"symmetric", REF_ALIBI_SYMMETRIC},
        {"key_index", REF_ALIBI_KEY_INDEX},
        {"last_key", REF_ALIBI_LAST_KEY},
        {"key_position_from_mask", REF_ALIBI_KEY_POSITION},
    };
    const char *form = case_string(c->params, "alibi_form");
    size_t i = 0;

    if (form == NULL)
        return case_fail(c, "params: wanted alibi_form, got none");
    while (i + 1 < COUNT(forms) && strcmp(forms[i].name, form) != 0)
        i++;
    t->alibi.form = forms[i].form;
    t->alibi.inside = case_bool(c->params, "bias_times_scale", false);
    if (t->alibi.form == REF_ALIBI_KEY_POSITION)
        return read_positions(c, t);
    if (tensor_list_find(&c->tensors, "in.mask") != NULL)
        return case_fail(c, "wanted in.mask only with key_position_from_mask, got %s", form);
    return 0;
}

static int read_case(case_file *c, alibi_case *t)
{
    if (strcmp(c->result->op, "bias") == 0) {
        if (case_check_params(c, c->params, bias_rows, COUNT(bias_rows)) != 0 ||
            case_check_tensors(c, bias_tensors, COUNT(bias_tensors)) != 0 ||
            case_read_bias(c, &t->base) != 0)
            return -1;
    } else if (case_check_relative(c, attention_rows, COUNT(attention_rows), mask_tensors,
                                   COUNT(mask_tensors)) != 0 ||
               case_read_relative(c, (double)NAN, &t->base) != 0 ||
               case_read_mask(c, &t->base, false, 0) != 0) {
        return -1;
    }
    return read_slopes(c, t) == 0 ? read_form(c, t) : -1;
}

/* ------------------------------------------------------------------------------------------------
 * Reference
 */
static int run_reference(case_file *c, alibi_case *t)
{
    if (ref_alibi_terms(&t->alibi, &t->base.terms) != 0)
        return case_fail(c, "reference: parameters outside their domain");
    return t->base.q != NULL ? case_relative_reference(c, &t->base)
                             : case_bias_reference(c, &t->base);
}

static int run_table(case_file *c, alibi_case *t)
{
    const tensor *golden;

    if (case_check_params(c, c->params, table_rows, COUNT(table_rows)) != 0 ||
        case_check_tensors(c, table_tensors, COUNT(table_tensors)) != 0)
        return -1;
    golden = case_tensor(c, "out.table", 1);
    if (golden == NULL || case_size(c, "heads", 0.0, 1.0, &t->base.heads) != 0)
        return -1;
    {
        const uint64_t shape = t->base.heads;
        if (case_check_shape(c, golden, 1, &shape) != 0 || read_slopes(c, t) != 0)
            return -1;
    }
    return case_compare(c, "reference", golden, t->alibi.slopes, &c->result->reference_error);
}

/* On the host, and as the bias of a key one step before its query: -m. */
static int run_slopes(case_file *c, alibi_case *t, const rhumb_alibi *alibi)
{
    const uint32_t heads = t->base.heads;
    double *slopes = case_relative_own(c, &t->base, calloc(heads, sizeof *slopes));
    float *out = case_relative_own(c, &t->base, calloc(heads, sizeof *out));
    const tensor *golden = case_tensor(c, "out.table", 1);
    gpu_operation op;
    uint32_t h;

    if (slopes == NULL || out == NULL || golden == NULL)
        return -1;
    if (rhumb_alibi_slopes_of(alibi, heads, slopes, NULL) != RHUMB_OK)
        return case_fail(c, "host: %.200s", rhumb_last_message(NULL));
    if (case_compare(c, "host", golden, slopes, &c->result->device_error) != 0)
        return -1;
    gpu_init_operation(&op, RHUMB_OP_BIAS);
    op.info.scheme = alibi;
    op.info.heads = heads;
    op.info.head_dim = 1;
    op.info.max_q_length = 1;
    op.dispatch.q_offset = 1;
    gpu_add_tensor(&op, RHUMB_VIEW_O, RHUMB_F32, 1, heads, 1, 1, NULL, out);
    if (case_run_device(c, "slopes", &op) != 0)
        return -1;
    for (h = 0; h < heads; h++)
        slopes[h] = -(double)out[h];
    return case_compare(c, "device", golden, slopes, &c->result->device_error);
}

static int run_device(case_file *c, alibi_case *t)
{
    static const rhumb_alibi_form forms[] = {
        [REF_ALIBI_SYMMETRIC] = RHUMB_ALIBI_SYMMETRIC,
        [REF_ALIBI_RELATIVE] = RHUMB_ALIBI_RELATIVE,
        [REF_ALIBI_KEY_INDEX] = RHUMB_ALIBI_KEY_INDEX,
        [REF_ALIBI_LAST_KEY] = RHUMB_ALIBI_LAST_KEY,
        [REF_ALIBI_KEY_POSITION] = RHUMB_ALIBI_KEY_POSITION,
    };
    rhumb_alibi alibi;
    const relative_device device = {.scheme = &alibi, .positions_k = t->alibi.positions};

    rhumb_init_alibi(&alibi);
    alibi.form = forms[t->alibi.form];
    alibi.bias_times_scale = t->alibi.inside != 0;
    alibi.bias_max = case_number(c->params, "alibi_bias_max", 8.0);
    if (strcmp(c->result->op, "table") == 0)
        return run_slopes(c, t, &alibi);
    return t->base.q != NULL ? case_relative_device(c, &t->base, &device)
                             : case_bias_device(c, &t->base, &device);
}

int case_run_alibi(case_file *c)
{
    alibi_case t;
    int result;

    memset(&t, 0, sizeof t);
    if (strcmp(c->result->op, "table") == 0) {
        result = run_table(c, &t);
    } else {
        result = read_case(c, &t);
        if (result == 0)
            result = run_reference(c, &t);
    }
    if (result == 0 && c->device != NULL)
        result = run_device(c, &t);
    case_free_relative(&t.base);
    return result;
}
