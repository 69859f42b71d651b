/* Golden cases of scheme learned (PARAMS.md section 6.2). */
#include "cases_absolute.h"

#include <stdlib.h>
#include <string.h>

#define COUNT(array) (sizeof(array) / sizeof *(array))

static const param_row param_rows[] = {
    {"dim", PARAM_WHOLE, NULL},
    {"offset", PARAM_WHOLE, NULL},
    {"out_of_range", PARAM_TEXT, "error\nclamp_low\n"},
    {"pe_scale", PARAM_NUMBER, NULL},
    {"l2norm", PARAM_BOOL, NULL},
    {"position_rule", PARAM_TEXT, "cumsum(mask)*mask-1\ncumsum(mask)*mask+padding_idx\n"},
    {"past_length", PARAM_WHOLE, NULL},
    {"padding_idx", PARAM_WHOLE, NULL},
};

static const tensor_row tensor_rows[] = {
    {"in.x", TENSOR_F32, true},         {"in.table", TENSOR_F32, true},
    {"in.positions", TENSOR_I32, true}, {"in.mask", TENSOR_I32, false}, /* informative only */
    {"out.y", TENSOR_F32, true},
};

typedef struct learned_case {
    ref_learned learned; /* the table's numbers are those of `table` */
    const tensor *x;     /* [B, L, D] */
    const tensor *table; /* [P, D] */
    const tensor *golden;
    int32_t *positions; /* [B, L] */
} learned_case;

static int read_case(case_file *c, learned_case *t)
{
    const char *beyond = case_string(c->params, "out_of_range");
    const uint64_t *shape;

    if (case_size(c, "dim", 0.0, 1.0, &t->learned.dim) != 0 ||
        case_int32(c, "offset", 0, &t->learned.offset) != 0)
        return -1;
    t->learned.beyond = REF_BEYOND_ERROR;
    if (beyond != NULL && strcmp(beyond, "clamp_low") == 0)
        t->learned.beyond = REF_BEYOND_CLAMP_LOW;
    t->learned.pe_scale = case_number(c->params, "pe_scale", 1.0);
    t->learned.l2norm = case_bool(c->params, "l2norm", false);
    t->x = case_tensor(c, "in.x", 3);
    t->table = t->x != NULL ? case_tensor(c, "in.table", 2) : NULL;
    t->golden = t->table != NULL ? case_shaped(c, "out.y", 3, t->x->shape) : NULL;
    if (t->golden == NULL)
        return -1;
    shape = t->x->shape;
    if (shape[2] != t->learned.dim || t->table->shape[1] != t->learned.dim)
        return case_fail(c, "in.x, in.table: wanted dim %u, got %llu and %llu", t->learned.dim,
                         (unsigned long long)shape[2], (unsigned long long)t->table->shape[1]);
    t->learned.table_rows = (uint32_t)t->table->shape[0];
    t->positions = case_positions(c, "in.positions", shape[0], shape[1]);
    if (t->positions == NULL)
        return -1;
    return case_check_position_rule(c, shape[0], shape[1], t->positions);
}

static int run_reference(case_file *c, const learned_case *t)
{
    ref_learned learned = t->learned;
    double *table = tensor_doubles(t->table), *y = tensor_doubles(t->x);
    int result = -1;

    learned.table = table;
    if (table == NULL || y == NULL ||
        ref_learned_encode(&learned, (uint32_t)t->x->shape[0], (uint32_t)t->x->shape[1],
                           t->positions, y, y) != 0)
        case_fail(c, "reference: no memory, or positions beyond the table");
    else
        result = case_compare(c, "reference", t->golden, y, &c->result->reference_error);
    free(table);
    free(y);
    return result;
}

static int run_device(case_file *c, const learned_case *t)
{
    const uint64_t *x = t->x->shape, *table = t->table->shape;
    const uint64_t shape[4] = {x[0], 1, x[1], x[2]};
    rhumb_learned scheme;
    gpu_operation op;

    rhumb_init_learned(&scheme);
    scheme.offset = t->learned.offset;
    scheme.clamp_negative = t->learned.beyond == REF_BEYOND_CLAMP_LOW;
    scheme.normalize = t->learned.l2norm != 0;
    scheme.pe_scale = t->learned.pe_scale;
    gpu_init_operation(&op, RHUMB_OP_ENCODE);
    op.info.scheme = &scheme;
    op.info.head_dim = t->learned.dim;
    op.info.max_q_length = (uint32_t)x[1];
    gpu_add_tensor(&op, RHUMB_VIEW_POSITIONS, RHUMB_I32, 1, 1, x[0], x[1], t->positions, NULL);
    gpu_add_tensor(&op, RHUMB_VIEW_TABLE, RHUMB_F32, 1, 1, table[0], table[1], t->table->data,
                   NULL);
    return case_encode_on_device(c, &op, t->x, t->golden, shape);
}

int case_run_learned(case_file *c)
{
    learned_case t;
    int result;

    if (strcmp(c->result->op, "encode") != 0)
        return case_fail(c, "scheme learned: wanted op encode, got %s", c->result->op);
    if (case_check_params(c, c->params, param_rows, COUNT(param_rows)) != 0 ||
        case_check_tensors(c, tensor_rows, COUNT(tensor_rows)) != 0)
        return -1;
    memset(&t, 0, sizeof t);
    result = read_case(c, &t);
    if (result == 0)
        result = run_reference(c, &t);
    if (result == 0 && c->device != NULL)
        result = run_device(c, &t);
    free(t.positions);
    return result;
}
