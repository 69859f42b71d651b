/* Golden cases of scheme learned2d (PARAMS.md section 6.4). */
#include "cases_absolute.h"

#include <stdlib.h>
#include <string.h>

#define COUNT(array) (sizeof(array) / sizeof *(array))

static const param_row table_params[] = {
    {"dim", PARAM_WHOLE, NULL},
    {"form", PARAM_TEXT, "row_col_concat\n"},
    {"grid", PARAM_NUMBERS, NULL},
    {"axis_order", PARAM_TEXT, "xy\n"},
    {"max_size", PARAM_WHOLE, NULL},
    {"out_of_range", PARAM_TEXT, "error\n"},
    {"output", PARAM_TEXT, "tokens\nnchw\n"},
};

static const param_row encode_params[] = {
    {"dim", PARAM_WHOLE, NULL},
    {"form", PARAM_TEXT, "full_table\n"},
    {"grid", PARAM_NUMBERS, NULL},
    {"prefix_tokens", PARAM_WHOLE, NULL},
    {"table_has_prefix", PARAM_BOOL, NULL},
    {"interpolation", PARAM_OBJECT, NULL},
    {"old_grid", PARAM_NUMBERS, NULL},
};

static const param_row interpolation_params[] = {CASE_RESAMPLING_ROWS};

static const param_row resize_params[] = {
    CASE_RESAMPLING_ROWS,
    {"dim", PARAM_WHOLE, NULL},
    {"old_grid", PARAM_NUMBERS, NULL},
    {"new_grid", PARAM_NUMBERS, NULL},
    {"prefix_tokens", PARAM_WHOLE, NULL},
    {"suffix_tokens", PARAM_WHOLE, NULL},
    {"interpolate_offset", PARAM_NUMBER, NULL},
};

static const tensor_row table_tensors[] = {
    {"in.row_table", TENSOR_F32, true},
    {"in.col_table", TENSOR_F32, true},
    {"out.table", TENSOR_F32, true},
};

static const tensor_row encode_tensors[] = {
    {"in.x", TENSOR_F32, true},
    {"in.table", TENSOR_F32, true},
    {"out.y", TENSOR_F32, true},
};

static const tensor_row resize_tensors[] = {
    {"in.table", TENSOR_F32, true},
    {"out.table", TENSOR_F32, true},
};

/* ------------------------------------------------------------------------------------------------
 * op table: columns, then rows
 */
typedef struct table_case {
    uint32_t grid[2];
    uint32_t dim;
    bool channels_first;
    const tensor *row_table; /* [P, D/2] */
    const tensor *col_table;
    const tensor *golden;
} table_case;

static int read_table(case_file *c, uint32_t dim, table_case *t)
{
    const char *form = case_string(c->params, "form");
    const char *output = case_string(c->params, "output");
    const double most = case_number(c->params, "max_size", 50.0);

    if (form == NULL)
        return case_fail(c, "params: wanted form row_col_concat for op table, got none");
    if (case_grid(c, "grid", 1, t->grid) != 0)
        return -1;
    t->dim = dim;
    t->channels_first = output != NULL && strcmp(output, "nchw") == 0;
    t->row_table = case_tensor(c, "in.row_table", 2);
    t->col_table = t->row_table != NULL ? case_tensor(c, "in.col_table", 2) : NULL;
    if (t->col_table == NULL)
        return -1;
    if (dim % 2 != 0 || t->row_table->shape[1] != dim / 2 || t->col_table->shape[1] != dim / 2)
        return case_fail(c, "in.row_table, in.col_table: wanted half of dim %u, got %llu and %llu",
                         dim, (unsigned long long)t->row_table->shape[1],
                         (unsigned long long)t->col_table->shape[1]);
    if ((double)t->row_table->shape[0] != most || (double)t->col_table->shape[0] != most)
        return case_fail(c, "params.max_size: wanted the tables' rows, got %g", most);
    if (t->channels_first)
        t->golden = case_shaped(c, "out.table", 3, (uint64_t[]){dim, t->grid[0], t->grid[1]});
    else
        t->golden =
            case_shaped(c, "out.table", 2, (uint64_t[]){(uint64_t)t->grid[0] * t->grid[1], dim});
    return t->golden != NULL ? 0 : -1;
}

static int table_on_reference(case_file *c, const table_case *t)
{
    double *rows = tensor_doubles(t->row_table), *columns = tensor_doubles(t->col_table);
    double *table = malloc((size_t)t->golden->count * sizeof *table);
    int result = -1;

    if (rows == NULL || columns == NULL || table == NULL ||
        ref_row_col_table(REF_COLUMN_ROW, t->grid, t->dim, (uint32_t)t->row_table->shape[0],
                          (uint32_t)t->col_table->shape[0], rows, columns, t->channels_first,
                          table) != 0)
        case_fail(c, "reference: no memory, or a grid beyond the tables");
    else
        result = case_compare(c, "reference", t->golden, table, &c->result->reference_error);
    free(rows);
    free(columns);
    free(table);
    return result;
}

static int table_on_device(case_file *c, const table_case *t)
{
    const uint64_t *row = t->row_table->shape, *col = t->col_table->shape;
    const uint64_t tokens = (uint64_t)t->grid[0] * t->grid[1];
    const uint64_t rows[4] = {1, 1, tokens, t->dim};
    const uint64_t image[4] = {1, t->dim, t->grid[0], t->grid[1]};
    rhumb_learned2d scheme;
    gpu_operation op;

    rhumb_init_learned2d(&scheme);
    scheme.form = RHUMB_LEARNED2D_CONCAT;
    scheme.output = t->channels_first ? RHUMB_OUTPUT_IMAGE : RHUMB_OUTPUT_TOKENS;
    memcpy(scheme.grid, t->grid, sizeof scheme.grid);
    gpu_init_operation(&op, RHUMB_OP_ENCODE);
    op.info.scheme = &scheme;
    op.info.head_dim = t->dim;
    op.info.max_q_length = (uint32_t)tokens;
    gpu_add_tensor(&op, RHUMB_VIEW_TABLE, RHUMB_F32, 1, 1, row[0], row[1], t->row_table->data,
                   NULL);
    gpu_add_tensor(&op, RHUMB_VIEW_COLUMN_TABLE, RHUMB_F32, 1, 1, col[0], col[1],
                   t->col_table->data, NULL);
    return case_encode_on_device(c, &op, NULL, t->golden, t->channels_first ? image : rows);
}

static int run_table(case_file *c, uint32_t dim)
{
    table_case t;

    memset(&t, 0, sizeof t);
    if (read_table(c, dim, &t) != 0 || table_on_reference(c, &t) != 0)
        return -1;
    return c->device != NULL ? table_on_device(c, &t) : 0;
}

/* ------------------------------------------------------------------------------------------------
 * op encode: the whole table, resampled or as it is
 */
typedef struct encode_case {
    ref_resize resize; /* of the table without interpolation: its grids only */
    bool interpolated;
    bool table_has_prefix;
    uint32_t prefix; /* of the tokens */
    const tensor *x;
    const tensor *table;
    const tensor *golden;
} encode_case;

static int read_interpolation(case_file *c, encode_case *t)
{
    const cJSON *object = case_param(c->params, "interpolation");
    const uint32_t *grid = t->resize.new_grid;
    uint32_t *old = t->resize.old_grid;

    memcpy(old, grid, sizeof t->resize.old_grid);
    if (case_optional_grid(c, "old_grid", 1, old) != 0)
        return -1;
    t->interpolated = object != NULL;
    if (!t->interpolated && (old[0] != grid[0] || old[1] != grid[1]))
        return case_fail(c, "params.old_grid: wanted the grid without interpolation, got %u by %u",
                         old[0], old[1]);
    if (!t->interpolated)
        return 0;
    if (case_check_params(c, object, interpolation_params, COUNT(interpolation_params)) != 0 ||
        case_read_resampling(c, object, &t->resize) != 0)
        return -1;
    if (t->resize.mode == REF_RESIZE_GEOMETRIC)
        return case_fail(c, "params.interpolation: wanted bicubic or bilinear, got another mode");
    return 0;
}

static int read_encode(case_file *c, uint32_t dim, encode_case *t)
{
    ref_resize *r = &t->resize;
    uint64_t rows, tokens;

    if (case_grid(c, "grid", 1, r->new_grid) != 0 || read_interpolation(c, t) != 0 ||
        case_size(c, "prefix_tokens", 0.0, 0.0, &t->prefix) != 0)
        return -1;
    t->table_has_prefix = case_bool(c->params, "table_has_prefix", t->prefix > 0);
    r->prefix = t->table_has_prefix ? t->prefix : 0;
    r->dim = dim;
    rows = r->prefix + (uint64_t)r->old_grid[0] * r->old_grid[1];
    tokens = t->prefix + (uint64_t)r->new_grid[0] * r->new_grid[1];
    t->table = case_shaped(c, "in.table", 2, (uint64_t[]){rows, dim});
    t->x = t->table != NULL ? case_tensor(c, "in.x", 3) : NULL;
    if (t->x == NULL ||
        case_check_shape(c, t->x, 3, (uint64_t[]){t->x->shape[0], tokens, dim}) != 0)
        return -1;
    t->golden = case_shaped(c, "out.y", 3, t->x->shape);
    return t->golden != NULL ? 0 : -1;
}

static int encode_on_reference(case_file *c, const encode_case *t)
{
    const uint64_t *shape = t->x->shape;
    double *table = tensor_doubles(t->table), *y = tensor_doubles(t->x);
    double *resized = malloc((size_t)(shape[1] * shape[2]) * sizeof *resized);
    int result = -1;

    if (table == NULL || y == NULL || resized == NULL ||
        (t->interpolated && ref_resize_table(&t->resize, table, resized) != 0)) {
        case_fail(c, "reference: no memory, or parameters outside their domain");
    } else {
        ref_full_table_encode((uint32_t)shape[0], t->prefix, (uint32_t)shape[1] - t->prefix,
                              (uint32_t)shape[2], t->table_has_prefix,
                              t->interpolated ? resized : table, y, y);
        result = case_compare(c, "reference", t->golden, y, &c->result->reference_error);
    }
    free(table);
    free(y);
    free(resized);
    return result;
}

/* With interpolation the table is what RESIZE made of it. */
static int encode_table_on_device(case_file *c, const encode_case *t, const void *table)
{
    const uint64_t *x = t->x->shape;
    const uint64_t shape[4] = {x[0], 1, x[1], x[2]};
    rhumb_learned2d scheme;
    gpu_operation op;

    rhumb_init_learned2d(&scheme);
    memcpy(scheme.grid, t->resize.new_grid, sizeof scheme.grid);
    scheme.prefix_tokens = t->prefix;
    scheme.table_has_prefix = t->table_has_prefix;
    gpu_init_operation(&op, RHUMB_OP_ENCODE);
    op.info.scheme = &scheme;
    op.info.head_dim = t->resize.dim;
    op.info.max_q_length = (uint32_t)x[1];
    gpu_add_tensor(&op, RHUMB_VIEW_TABLE, RHUMB_F32, 1, 1,
                   x[1] - (t->table_has_prefix ? 0 : t->prefix), x[2], table, NULL);
    return case_encode_on_device(c, &op, t->x, t->golden, shape);
}

static int encode_on_device(case_file *c, const encode_case *t)
{
    float *resized;
    int result;

    if (!t->interpolated)
        return encode_table_on_device(c, t, t->table->data);
    resized = malloc((size_t)(t->x->shape[1] * t->x->shape[2]) * sizeof *resized);
    if (resized == NULL)
        return case_fail(c, "no memory for the device's table");
    result = case_resize_on_device(c, &t->resize, t->table, resized);
    if (result == 0)
        result = encode_table_on_device(c, t, resized);
    free(resized);
    return result;
}

static int run_encode(case_file *c, uint32_t dim)
{
    encode_case t;

    memset(&t, 0, sizeof t);
    if (read_encode(c, dim, &t) != 0 || encode_on_reference(c, &t) != 0)
        return -1;
    return c->device != NULL ? encode_on_device(c, &t) : 0;
}

/* ------------------------------------------------------------------------------------------------
 */
static int run_resize(case_file *c, uint32_t dim)
{
    return case_run_resize(c, dim, "bicubic\nbilinear\n");
}

int case_run_learned2d(case_file *c)
{
    static const struct {
        const char *op;
        const param_row *params;
        size_t param_count;
        const tensor_row *tensors;
        size_t tensor_count;
        int (*run)(case_file *c, uint32_t dim);
    } rows[] = {
        {"table", table_params, COUNT(table_params), table_tensors, COUNT(table_tensors),
         run_table},
        {"encode", encode_params, COUNT(encode_params), encode_tensors, COUNT(encode_tensors),
         run_encode},
        {"resize", resize_params, COUNT(resize_params), resize_tensors, COUNT(resize_tensors),
         run_resize},
    };
    uint32_t dim = 0;
    size_t i;

    for (i = 0; i < COUNT(rows) && strcmp(rows[i].op, c->result->op) != 0; i++)
        continue;
    if (i == COUNT(rows))
        return case_fail(c, "scheme learned2d: wanted op table, encode or resize, got %s",
                         c->result->op);
    if (case_check_params(c, c->params, rows[i].params, rows[i].param_count) != 0 ||
        case_check_tensors(c, rows[i].tensors, rows[i].tensor_count) != 0 ||
        case_size(c, "dim", 0.0, 1.0, &dim) != 0)
        return -1;
    return rows[i].run(c, dim);
}
