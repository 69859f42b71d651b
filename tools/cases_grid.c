/* Golden cases of scheme sinusoidal2d (PARAMS.md section 6.3). */
#include "cases_absolute.h"

#include <stdlib.h>
#include <string.h>

#define COUNT(array) (sizeof(array) / sizeof *(array))

static const param_row param_rows[] = {
    {"grid", PARAM_NUMBERS, NULL},
    {"dim", PARAM_WHOLE, NULL},
    {"axis_dim", PARAM_WHOLE, NULL},
    {"base", PARAM_NUMBER, NULL},
    {"axis_order", PARAM_TEXT, "yx\nxy\n"},
    {"layout", PARAM_TEXT, "interleaved\naxis_concat\nsin_cos_split\n"},
    {"frequency", PARAM_TEXT, "2i/d_axis\ni/(n-1)\n"},
    {"token_order", PARAM_TEXT, "row_major\ncolumn_major\n"},
    {"coord_start", PARAM_NUMBER, NULL},
    {"mask_coords", PARAM_BOOL, NULL},
    {"normalize", PARAM_BOOL, NULL},
    {"scale", PARAM_NUMBER, NULL},
    {"eps", PARAM_NUMBER, NULL},
    {"center_offset", PARAM_NUMBER, NULL},
    {"prefix_tokens", PARAM_WHOLE, NULL},
    {"output", PARAM_TEXT, "tokens\nnchw\n"},
};

static const tensor_row table_rows[] = {
    {"in.mask", TENSOR_I32, false}, /* exactly with mask_coords */
    {"out.table", TENSOR_F32, true},
};

static const tensor_row encode_rows[] = {
    {"in.mask", TENSOR_I32, false},
    {"in.x", TENSOR_F32, true},
    {"out.y", TENSOR_F32, true},
};

typedef struct grid_case {
    ref_sinusoid_grid grid;
    const tensor *mask; /* [B, H, W], or NULL */
    const tensor *x;    /* [B, prefix + H W, D]; NULL: op table */
    const tensor *golden;
} grid_case;

/* Is the text of the key this one? `absent` is what it is without the key. */
static bool is(case_file *c, const char *key, const char *word, bool absent)
{
    const char *text = case_string(c->params, key);

    return text != NULL ? strcmp(text, word) == 0 : absent;
}

static int read_shape(case_file *c, ref_sinusoid_grid *t)
{
    uint32_t grid[2] = {0, 0}, dim = 0, axis_dim = 0, prefix = 0;

    if (case_grid(c, "grid", 1, grid) != 0 || case_size(c, "dim", 0.0, 1.0, &dim) != 0 ||
        case_size(c, "axis_dim", dim / 2, 1.0, &axis_dim) != 0 ||
        case_size(c, "prefix_tokens", 0.0, 0.0, &prefix) != 0)
        return -1;
    if (axis_dim % 2 != 0 || axis_dim > dim + 1)
        return case_fail(c, "params: wanted an even number of channels per axis, got %u of %u",
                         axis_dim, dim);
    ref_sinusoid_grid_init(t, grid[0], grid[1], dim);
    t->axis_dim = axis_dim;
    t->prefix = prefix;
    return 0;
}

static int read_params(case_file *c, ref_sinusoid_grid *t)
{
    const cJSON *p = c->params;

    if (read_shape(c, t) != 0)
        return -1;
    if (case_string(p, "layout") == NULL)
        return case_fail(c, "params: wanted layout, got none");
    if (!is(c, "layout", "interleaved", false))
        t->layout = is(c, "layout", "axis_concat", false) ? REF_LAYOUT_AXIS_CONCAT
                                                          : REF_LAYOUT_SIN_COS_SPLIT;
    t->rule = is(c, "frequency", "i/(n-1)", false) ? REF_SINUSOID_ENDPOINT : REF_SINUSOID_POWER;
    t->columns_first = is(c, "axis_order", "xy", false);
    t->column_major = is(c, "token_order", "column_major", false);
    t->channels_first = is(c, "output", "nchw", false);
    t->base = case_number(p, "base", t->base);
    t->start = case_number(p, "coord_start", 0.0);
    t->normalise = case_bool(p, "normalize", false);
    t->scale = case_number(p, "scale", t->scale);
    t->eps = case_number(p, "eps", t->eps);
    t->centre = case_number(p, "center_offset", 0.0);
    if (t->normalise && !case_bool(p, "mask_coords", false))
        return case_fail(c, "params.normalize: wanted with mask_coords only");
    if (t->channels_first && (t->prefix != 0 || t->column_major))
        return case_fail(c, "params.output: wanted tokens with prefix_tokens or column_major");
    return 0;
}

static int read_mask(case_file *c, grid_case *t)
{
    const bool wanted = case_bool(c->params, "mask_coords", false);
    const ref_sinusoid_grid *g = &t->grid;

    if (!wanted && tensor_list_find(&c->tensors, "in.mask") != NULL)
        return case_fail(c, "in.mask: wanted with mask_coords only");
    if (!wanted)
        return 0;
    t->mask = case_tensor(c, "in.mask", 3);
    if (t->mask == NULL)
        return -1;
    if (t->mask->shape[1] != g->height || t->mask->shape[2] != g->width)
        return case_fail(c, "in.mask: wanted %u by %u, got %llu by %llu", g->height, g->width,
                         (unsigned long long)t->mask->shape[1],
                         (unsigned long long)t->mask->shape[2]);
    t->grid.batch = (uint32_t)t->mask->shape[0];
    t->grid.mask = t->mask->data;
    return 0;
}

/* With the batch of the mask in front, or without a batch. */
static int read_table(case_file *c, grid_case *t)
{
    const ref_sinusoid_grid *g = &t->grid;
    const uint64_t tokens = g->prefix + (uint64_t)g->height * g->width;
    const uint64_t rows[3] = {g->batch, tokens, g->dim};
    const uint64_t image[4] = {g->batch, g->dim, g->height, g->width};
    const uint32_t bare = t->mask == NULL; /* first number left out */

    t->golden = g->channels_first ? case_shaped(c, "out.table", 4 - bare, image + bare)
                                  : case_shaped(c, "out.table", 3 - bare, rows + bare);
    return t->golden != NULL ? 0 : -1;
}

static int read_encode(case_file *c, grid_case *t)
{
    const ref_sinusoid_grid *g = &t->grid;
    uint64_t shape[3] = {0, g->prefix + (uint64_t)g->height * g->width, g->dim};

    if (g->channels_first)
        return case_fail(c, "params.output: wanted tokens for op encode, got nchw");
    t->x = case_tensor(c, "in.x", 3);
    if (t->x == NULL)
        return -1;
    shape[0] = t->mask != NULL ? g->batch : t->x->shape[0];
    if (case_check_shape(c, t->x, 3, shape) != 0)
        return -1;
    t->golden = case_shaped(c, "out.y", 3, shape);
    return t->golden != NULL ? 0 : -1;
}

static int run_reference(case_file *c, const grid_case *t)
{
    const ref_sinusoid_grid *g = &t->grid;
    const uint64_t count = (g->prefix + (uint64_t)g->height * g->width) * g->dim;
    double *table = malloc((size_t)(g->batch * count) * sizeof *table);
    double *y = t->x != NULL ? tensor_doubles(t->x) : NULL;
    int result = -1;

    if (table == NULL || (t->x != NULL && y == NULL) || ref_sinusoid_grid_table(g, table) != 0) {
        case_fail(c, "reference: no memory, or parameters outside their domain");
    } else {
        if (y != NULL)
            ref_add_table((uint32_t)t->x->shape[0], g->batch, count, table, y, y);
        result = case_compare(c, "reference", t->golden, y != NULL ? y : table,
                              &c->result->reference_error);
    }
    free(table);
    free(y);
    return result;
}

static void set_scheme(const ref_sinusoid_grid *g, rhumb_sinusoidal2d *s)
{
    static const rhumb_grid_layout layouts[] = {
        [REF_LAYOUT_INTERLEAVED] = RHUMB_GRID_INTERLEAVED,
        [REF_LAYOUT_AXIS_CONCAT] = RHUMB_GRID_PER_AXIS,
        [REF_LAYOUT_SIN_COS_SPLIT] = RHUMB_GRID_SIN_COS,
    };

    rhumb_init_sinusoidal2d(s);
    s->order = g->columns_first ? RHUMB_AXIS_COLUMN_FIRST : RHUMB_AXIS_ROW_FIRST;
    s->layout = layouts[g->layout];
    s->frequency =
        g->rule == REF_SINUSOID_POWER ? RHUMB_FREQUENCY_PAPER : RHUMB_FREQUENCY_ENDPOINT;
    s->tokens = g->column_major ? RHUMB_TOKENS_COLUMN_MAJOR : RHUMB_TOKENS_ROW_MAJOR;
    s->coordinates = g->mask != NULL ? RHUMB_COORDINATES_VALID : RHUMB_COORDINATES_INDEX;
    s->output = g->channels_first ? RHUMB_OUTPUT_IMAGE : RHUMB_OUTPUT_TOKENS;
    s->grid[0] = g->height;
    s->grid[1] = g->width;
    s->axis_dim = g->axis_dim;
    s->prefix_tokens = g->prefix;
    s->normalize = g->normalise != 0;
    s->base = g->base;
    s->coordinate_start = g->mask != NULL ? 0.0 : g->start;
    s->coordinate_scale = g->scale;
    s->epsilon = g->eps;
    s->center_offset = g->centre;
}

static int run_device(case_file *c, const grid_case *t)
{
    const ref_sinusoid_grid *g = &t->grid;
    const uint64_t tokens = g->prefix + (uint64_t)g->height * g->width;
    const uint64_t batch = t->x != NULL ? t->x->shape[0] : g->batch;
    const uint64_t rows[4] = {batch, 1, tokens, g->dim};
    const uint64_t image[4] = {batch, g->dim, g->height, g->width};
    rhumb_sinusoidal2d scheme;
    gpu_operation op;

    set_scheme(g, &scheme);
    gpu_init_operation(&op, RHUMB_OP_ENCODE);
    op.info.scheme = &scheme;
    op.info.head_dim = g->dim;
    op.info.max_q_length = (uint32_t)tokens;
    if (t->mask != NULL)
        gpu_add_tensor(&op, RHUMB_VIEW_VALID, RHUMB_I32, 1, g->batch, g->height, g->width,
                       t->mask->data, NULL);
    return case_encode_on_device(c, &op, t->x, t->golden, g->channels_first ? image : rows);
}

int case_run_sinusoidal2d(case_file *c)
{
    const bool encode = strcmp(c->result->op, "encode") == 0;
    grid_case t;
    int result;

    if (!encode && strcmp(c->result->op, "table") != 0)
        return case_fail(c, "scheme sinusoidal2d: wanted op table or encode, got %s",
                         c->result->op);
    if (case_check_params(c, c->params, param_rows, COUNT(param_rows)) != 0 ||
        (encode ? case_check_tensors(c, encode_rows, COUNT(encode_rows))
                : case_check_tensors(c, table_rows, COUNT(table_rows))) != 0)
        return -1;
    memset(&t, 0, sizeof t);
    result = read_params(c, &t.grid);
    if (result == 0)
        result = read_mask(c, &t);
    if (result == 0)
        result = encode ? read_encode(c, &t) : read_table(c, &t);
    if (result == 0)
        result = run_reference(c, &t);
    if (result == 0 && c->device != NULL)
        result = run_device(c, &t);
    return result;
}
