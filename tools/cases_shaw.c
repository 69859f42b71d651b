/* Golden cases of scheme shaw (PARAMS.md section 4.2). */
#include "cases_relative.h"

#include <math.h>
#include <string.h>

#define COUNT(array) (sizeof(array) / sizeof *(array))

static const param_row param_rows[] = {
    CASE_RELATIVE_ROWS,
    {"variant", PARAM_TEXT, "shaw\nshaw_qminusk\nbert_relative_key\nbert_relative_key_query\n"},
    {"clip_left", PARAM_WHOLE, NULL},
    {"clip_right", PARAM_WHOLE, NULL},
    {"max_relative_position", PARAM_WHOLE, NULL},
    {"max_position_embeddings", PARAM_WHOLE, NULL},
    {"table_row", PARAM_TEXT,
     "clip(j-i,-k,k)+k\nclip(j-i,-clip_left,clip_right)+clip_left\n"
     "clip(i-j,-clip_left,clip_right)+clip_left\ni-j+max_position_embeddings-1\n"},
    {"key_term", PARAM_BOOL, NULL},
    {"query_term", PARAM_BOOL, NULL},
    {"value_term", PARAM_BOOL, NULL},
    {"tables_per_head", PARAM_BOOL, NULL},
};

static const tensor_row tensor_rows[] = {
    {"in.rel_k", TENSOR_F32, true},
    {"in.rel_v", TENSOR_F32, false},
};

typedef struct shaw_case {
    relative_case base;
    ref_shaw shaw;
} shaw_case;

static int read_bert(case_file *c, ref_shaw *s, bool key_side)
{
    uint32_t most;

    if (case_param(c->params, "clip_left") != NULL || case_param(c->params, "clip_right") != NULL)
        return case_fail(c, "params: wanted no clip_left and clip_right with a bert variant");
    if (case_size(c, "max_position_embeddings", 0.0, 1.0, &most) != 0)
        return -1;
    s->index = REF_SHAW_BERT;
    s->left = s->right = most - 1;
    s->key_side = key_side;
    return 0;
}

static int read_clips(case_file *c, ref_shaw *s, bool query_minus_key)
{
    if (case_param(c->params, "max_position_embeddings") != NULL)
        return case_fail(c, "params: wanted no max_position_embeddings with a clip");
    if (case_size(c, "clip_left", -1.0, 0.0, &s->left) != 0 ||
        case_size(c, "clip_right", -1.0, 0.0, &s->right) != 0)
        return -1;
    s->index = query_minus_key ? REF_SHAW_QUERY_MINUS_KEY : REF_SHAW_KEY_MINUS_QUERY;
    if (case_param(c->params, "max_relative_position") != NULL && s->left != s->right)
        return case_fail(c, "params: wanted no max_relative_position with clips %u and %u", s->left,
                         s->right);
    return case_expect_number(c, "max_relative_position", s->left);
}

/* The formula in words must be that of the variant. */
static int check_formula(case_file *c, const ref_shaw *s)
{
    static const char *const allowed[] = {
        [REF_SHAW_KEY_MINUS_QUERY] =
            "clip(j-i,-k,k)+k\nclip(j-i,-clip_left,clip_right)+clip_left\n",
        [REF_SHAW_QUERY_MINUS_KEY] = "clip(i-j,-clip_left,clip_right)+clip_left\n",
        [REF_SHAW_BERT] = "i-j+max_position_embeddings-1\n",
    };
    const char *row = case_string(c->params, "table_row");

    if (row == NULL || case_listed(allowed[s->index], row))
        return 0;
    return case_fail(c, "params.table_row: wanted that of the variant, got \"%s\"", row);
}

static int read_params(case_file *c, ref_shaw *s)
{
    const char *variant = case_string(c->params, "variant");
    int result;

    if (variant == NULL)
        return case_fail(c, "params: wanted variant, got none");
    if (strncmp(variant, "bert", 4) == 0)
        result = read_bert(c, s, strcmp(variant, "bert_relative_key_query") == 0);
    else
        result = read_clips(c, s, strcmp(variant, "shaw_qminusk") == 0);
    if (result != 0 || check_formula(c, s) != 0)
        return -1;
    if (!case_bool(c->params, "key_term", true))
        return case_fail(c, "params.key_term: wanted true, got false");
    if (case_bool(c->params, "query_term", s->key_side != 0) != (s->key_side != 0))
        return case_fail(c, "params.query_term: wanted that of variant %s", variant);
    s->per_head = case_bool(c->params, "tables_per_head", false);
    return 0;
}

static int run_reference(case_file *c, shaw_case *t)
{
    if (ref_shaw_terms(&t->shaw, t->base.head_dim, t->base.head_dim, &t->base.terms) != 0)
        return case_fail(c, "reference: parameters outside their domain");
    return case_relative_reference(c, &t->base);
}

static int run_device(case_file *c, shaw_case *t)
{
    rhumb_shaw shaw;
    const relative_device device = {.scheme = &shaw};

    rhumb_init_shaw(&shaw);
    shaw.index = t->shaw.index == REF_SHAW_KEY_MINUS_QUERY ? RHUMB_KEY_MINUS_QUERY
                                                           : RHUMB_QUERY_MINUS_KEY;
    shaw.beyond = t->shaw.index == REF_SHAW_BERT ? RHUMB_BEYOND_REFUSE : RHUMB_BEYOND_CLAMP;
    shaw.clip_left = t->shaw.left;
    shaw.clip_right = t->shaw.right;
    return case_relative_device(c, &t->base, &device);
}

int case_run_shaw(case_file *c)
{
    shaw_case t;
    int result;

    if (case_check_relative(c, param_rows, COUNT(param_rows), tensor_rows, COUNT(tensor_rows)) != 0)
        return -1;
    memset(&t, 0, sizeof t);
    result = case_read_relative(c, (double)NAN, &t.base);
    if (result == 0)
        result = read_params(c, &t.shaw);
    if (result == 0)
        result = case_read_row_tables(c, &t.base, t.shaw.left + t.shaw.right + 1,
                                      t.shaw.per_head != 0, &t.shaw.keys, &t.shaw.values);
    if (result == 0)
        result = run_reference(c, &t);
    if (result == 0 && c->device != NULL)
        result = run_device(c, &t);
    case_free_relative(&t.base);
    return result;
}
