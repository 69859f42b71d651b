/* Golden cases of scheme deberta (PARAMS.md section 4.8): buckets, and heads given. */
#include "cases_deberta.h"

#include <math.h>
#include <string.h>

#define COUNT(array) (sizeof(array) / sizeof *(array))

static const param_row buckets_rows[] = {
    {"position_buckets", PARAM_WHOLE, NULL},
    {"max_relative_positions", PARAM_WHOLE, NULL},
    {"input_clamp", PARAM_BOOL, NULL},
    {"relative_position", PARAM_TEXT, "i-j (query minus key)\n"},
};

static const param_row attention_rows[] = {
    CASE_RELATIVE_ROWS,
    {"position_buckets", PARAM_WHOLE, NULL},
    {"max_relative_positions", PARAM_WHOLE, NULL},
    {"att_span", PARAM_WHOLE, NULL},
    {"bucket_input_clamp", PARAM_BOOL, NULL},
    {"pos_att_type", PARAM_TEXTS, "c2p\np2c\n"},
    {"scale_factor", PARAM_WHOLE, NULL},
    {"c2p_index", PARAM_TEXT, "clamp(bucket(i-j)+span,0,2*span-1)\n"},
    {"p2c_index", PARAM_TEXT, "same as c2p (code convention)\n"},
    {"share_att_key", PARAM_BOOL, NULL},
    {"level", PARAM_TEXT, "hidden\n"},
    {"variant", PARAM_TEXT, "enhanced_mask_decoder\n"},
    {"norm_rel_ebd", PARAM_TEXT, "layer_norm\n"},
    {"layer_norm_eps", PARAM_NUMBER, NULL},
    {"linear", PARAM_TEXT, "y = x W^T + b\n"},
    {"emd_steps", PARAM_WHOLE, NULL},
    {"hidden_act", PARAM_TEXT, "gelu_erf\n"},
    {"intermediate_size", PARAM_WHOLE, NULL},
    {"outputs", PARAM_TEXT,
     "o = context of step 1, o2 = context of step 2, y = output of the second pass of the last "
     "layer\n"},
};

static const tensor_row tensor_rows[] = {
    {"in.pos_key", TENSOR_F32, false},
    {"in.pos_query", TENSOR_F32, false},
    {"in.mask", TENSOR_I32, false},
};

typedef struct deberta_case {
    relative_case base;
    ref_deberta deberta;
} deberta_case;

static int read_span(case_file *c, ref_deberta *d)
{
    const double buckets = case_number(c->params, "position_buckets", -1.0);

    if (case_size(c, "max_relative_positions", 0.0, 1.0, &d->most) != 0)
        return -1;
    d->buckets = buckets > 0.0;
    d->span = d->most;
    return d->buckets ? case_size(c, "position_buckets", 0.0, 1.0, &d->span) : 0;
}

static int64_t bucket(const void *user, int64_t position)
{
    return ref_deberta_bucket(user, position);
}

void case_deberta_scheme(const ref_deberta *d, rhumb_deberta *deberta)
{
    rhumb_init_deberta(deberta);
    deberta->position_buckets = d->buckets ? d->span : 0;
    deberta->max_relative_positions = d->most;
    deberta->clamp_input = d->input_clamp != 0;
    deberta->p2c_index = d->paper ? RHUMB_P2C_PAPER : RHUMB_P2C_CODE;
}

static int run_buckets_on_device(case_file *c, const ref_deberta *d)
{
    rhumb_deberta deberta;
    const case_buckets buckets = {.scheme = &deberta,
                                  .rows = 2 * d->span,
                                  .vectors = true,
                                  .direction = -1,
                                  .shift = (int32_t)d->span};

    case_deberta_scheme(d, &deberta);
    return case_buckets_device(c, &buckets);
}

static int run_buckets(case_file *c)
{
    ref_deberta d;

    memset(&d, 0, sizeof d);
    if (case_check_params(c, c->params, buckets_rows, COUNT(buckets_rows)) != 0 ||
        case_check_tensors(c, case_buckets_tensors, case_buckets_tensor_count) != 0 ||
        read_span(c, &d) != 0)
        return -1;
    if (!d.buckets)
        return case_fail(c, "params: wanted position_buckets above 0 for op buckets");
    d.input_clamp = case_bool(c->params, "input_clamp", true);
    if (case_buckets_reference(c, bucket, &d) != 0)
        return -1;
    return c->device != NULL ? run_buckets_on_device(c, &d) : 0;
}

/* ------------------------------------------------------------------------------------------------
 * Heads given
 */
bool case_deberta_has(const case_file *c, const char *name)
{
    const cJSON *list = case_param(c->params, "pos_att_type"), *item;

    if (list == NULL)
        return true;
    cJSON_ArrayForEach(item, list) if (strcmp(item->valuestring, name) == 0) return true;
    return false;
}

int case_read_deberta(case_file *c, ref_deberta *d)
{
    const int terms = case_deberta_has(c, "c2p") + case_deberta_has(c, "p2c");

    memset(d, 0, sizeof *d);
    if (read_span(c, d) != 0)
        return -1;
    d->input_clamp = case_bool(c->params, "bucket_input_clamp", true);
    if (case_expect_number(c, "att_span", d->span) != 0)
        return -1;
    return case_expect_number(c, "scale_factor", 1.0 + terms);
}

/* *values is NULL where the case has no such term. */
static int read_table(case_file *c, deberta_case *t, const char *name, bool wanted,
                      const double **values)
{
    const uint64_t shape[3] = {t->base.heads, 2 * (uint64_t)t->deberta.span, t->base.head_dim};

    if (wanted != (tensor_list_find(&c->tensors, name) != NULL))
        return case_fail(c, "wanted %s exactly where pos_att_type has its term", name);
    if (wanted)
        *values = case_relative_doubles(c, &t->base, name, 3, shape);
    return wanted && *values == NULL ? -1 : 0;
}

static int read_heads(case_file *c, deberta_case *t)
{
    static const char *const hidden[] = {
        "variant",   "norm_rel_ebd", "layer_norm_eps",    "linear",
        "emd_steps", "hidden_act",   "intermediate_size", "outputs"};
    size_t i;

    for (i = 0; i < COUNT(hidden); i++)
        if (case_param(c->params, hidden[i]) != NULL)
            return case_fail(c, "params.%s: wanted level hidden with it", hidden[i]);
    if (case_check_relative(c, attention_rows, COUNT(attention_rows), tensor_rows,
                            COUNT(tensor_rows)) != 0 ||
        case_read_relative(c, (double)NAN, &t->base) != 0 || case_read_deberta(c, &t->deberta) != 0)
        return -1;
    if (t->base.v == NULL && tensor_list_find(&c->tensors, "in.mask") != NULL)
        return case_fail(c, "op scores: wanted no in.mask");
    if (read_table(c, t, "in.pos_key", case_deberta_has(c, "c2p"), &t->deberta.pos_key) != 0 ||
        read_table(c, t, "in.pos_query", case_deberta_has(c, "p2c"), &t->deberta.pos_query) != 0)
        return -1;
    return case_read_mask(c, &t->base, false, 0);
}

static int run_reference(case_file *c, deberta_case *t)
{
    if (ref_deberta_terms(&t->deberta, t->base.head_dim, &t->base.terms) != 0)
        return case_fail(c, "reference: parameters outside their domain");
    return case_relative_reference(c, &t->base);
}

static int run_device(case_file *c, deberta_case *t)
{
    rhumb_deberta deberta;
    const relative_device device = {.scheme = &deberta};

    case_deberta_scheme(&t->deberta, &deberta);
    return case_relative_device(c, &t->base, &device);
}

static int run_heads(case_file *c)
{
    deberta_case t;
    int result;

    memset(&t, 0, sizeof t);
    result = read_heads(c, &t);
    if (result == 0)
        result = run_reference(c, &t);
    if (result == 0 && c->device != NULL)
        result = run_device(c, &t);
    case_free_relative(&t.base);
    return result;
}

int case_run_deberta(case_file *c)
{
    if (strcmp(c->result->op, "buckets") == 0)
        return run_buckets(c);
    if (case_check_params(c, c->params, attention_rows, COUNT(attention_rows)) != 0)
        return -1;
    return case_string(c->params, "level") != NULL ? case_run_deberta_hidden(c) : run_heads(c);
}
