/* Golden cases of op resize, and of the interpolation of learned2d (PARAMS.md section 6.4). */
#include "cases_absolute.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

int case_read_resampling(case_file *c, const cJSON *object, ref_resize *resize)
{
    const char *mode = case_string(object, "mode");
    const cJSON *factor = case_param(object, "scale_factor");
    int axis;

    if (mode == NULL)
        return case_fail(c, "params: wanted mode, got none");
    resize->mode = REF_RESIZE_BILINEAR;
    if (strcmp(mode, "bilinear") != 0)
        resize->mode = strcmp(mode, "bicubic") == 0 ? REF_RESIZE_BICUBIC : REF_RESIZE_GEOMETRIC;
    resize->antialias = case_bool(object, "antialias", false);
    resize->align_corners = case_bool(object, "align_corners", false);
    if (factor == NULL)
        return 0;
    if (cJSON_GetArraySize(factor) != 2)
        return case_fail(c, "params.scale_factor: wanted 2 numbers, got %d",
                         cJSON_GetArraySize(factor));
    for (axis = 0; axis < 2; axis++) {
        resize->scale_factor[axis] = cJSON_GetArrayItem(factor, axis)->valuedouble;
        if (!(resize->scale_factor[axis] > 0.0))
            return case_fail(c, "params.scale_factor: wanted numbers above 0, got %g",
                             resize->scale_factor[axis]);
    }
    return 0;
}

/* scale_factor says it already: (new + offset)/old, and nothing where the offset is 0. */
static int check_offset(case_file *c, const ref_resize *resize)
{
    const double offset = case_number(c->params, "interpolate_offset", 0.0);
    uint32_t axis;

    if (case_param(c->params, "interpolate_offset") == NULL)
        return 0;
    for (axis = 0; axis < 2; axis++) {
        const double wanted =
            offset != 0.0 ? (resize->new_grid[axis] + offset) / resize->old_grid[axis] : 0.0;
        if (!(fabs(resize->scale_factor[axis] - wanted) <= 1e-12 * wanted))
            return case_fail(c,
                             "params.scale_factor: wanted %.17g by interpolate_offset, got %.17g",
                             wanted, resize->scale_factor[axis]);
    }
    return 0;
}

typedef struct resize_case {
    ref_resize resize;
    const tensor *table;
    const tensor *golden;
} resize_case;

static int read_case(case_file *c, uint32_t channels, const char *modes, resize_case *t)
{
    ref_resize *r = &t->resize;
    const char *mode = case_string(c->params, "mode");
    uint64_t shape[2] = {0, channels};

    if (mode != NULL && !case_listed(modes, mode))
        return case_fail(c, "params.mode: wanted one of scheme %s, got %s", c->result->scheme,
                         mode);
    if (case_read_resampling(c, c->params, r) != 0 ||
        case_grid(c, "old_grid", 1, r->old_grid) != 0 ||
        case_grid(c, "new_grid", 1, r->new_grid) != 0 ||
        case_size(c, "prefix_tokens", 0.0, 0.0, &r->prefix) != 0 ||
        case_size(c, "suffix_tokens", 0.0, 0.0, &r->suffix) != 0 || check_offset(c, r) != 0)
        return -1;
    r->dim = channels;
    shape[0] = (uint64_t)r->prefix + r->suffix + (uint64_t)r->old_grid[0] * r->old_grid[1];
    t->table = case_shaped(c, "in.table", 2, shape);
    shape[0] = (uint64_t)r->prefix + r->suffix + (uint64_t)r->new_grid[0] * r->new_grid[1];
    t->golden = t->table != NULL ? case_shaped(c, "out.table", 2, shape) : NULL;
    return t->golden != NULL ? 0 : -1;
}

static int run_reference(case_file *c, const resize_case *t)
{
    double *table = tensor_doubles(t->table);
    double *resized = malloc((size_t)t->golden->count * sizeof *resized);
    int result = -1;

    if (table == NULL || resized == NULL || ref_resize_table(&t->resize, table, resized) != 0)
        case_fail(c, "reference: no memory, or parameters outside their domain");
    else
        result = case_compare(c, "reference", t->golden, resized, &c->result->reference_error);
    free(table);
    free(resized);
    return result;
}

int case_resize_on_device(case_file *c, const ref_resize *r, const tensor *table, float *resized)
{
    static const rhumb_resize_mode modes[] = {
        [REF_RESIZE_BILINEAR] = RHUMB_RESIZE_BILINEAR,
        [REF_RESIZE_BICUBIC] = RHUMB_RESIZE_BICUBIC,
        [REF_RESIZE_GEOMETRIC] = RHUMB_RESIZE_GEOMETRIC,
    };
    const bool geometric = r->mode == REF_RESIZE_GEOMETRIC;
    const uint64_t rows = (uint64_t)r->prefix + r->suffix;
    rhumb_resize resize;
    gpu_operation op;

    rhumb_init_resize(&resize);
    resize.mode = modes[r->mode];
    /* they mean nothing to it in the cases, and are refused by the library */
    resize.antialias = !geometric && r->antialias;
    resize.align_corners = !geometric && r->align_corners;
    resize.prefix_tokens = r->prefix;
    resize.suffix_tokens = r->suffix;
    memcpy(resize.old_grid, r->old_grid, sizeof resize.old_grid);
    memcpy(resize.new_grid, r->new_grid, sizeof resize.new_grid);
    memcpy(resize.scale_factor, r->scale_factor, sizeof resize.scale_factor);
    gpu_init_operation(&op, RHUMB_OP_RESIZE);
    op.info.scheme = &resize;
    op.info.head_dim = r->dim;
    gpu_add_tensor(&op, RHUMB_VIEW_TABLE, RHUMB_F32, 1, 1, table->shape[0], r->dim, table->data,
                   NULL);
    gpu_add_tensor(&op, RHUMB_VIEW_Y, RHUMB_F32, 1, 1,
                   rows + (uint64_t)r->new_grid[0] * r->new_grid[1], r->dim, NULL, resized);
    return case_run_device(c, "resize", &op);
}

static int run_device(case_file *c, const resize_case *t)
{
    tensor out = *t->golden;
    int result;

    out.data = malloc((size_t)out.count * sizeof(float));
    if (out.data == NULL)
        return case_fail(c, "no memory for the device's table");
    result = case_resize_on_device(c, &t->resize, t->table, out.data);
    if (result == 0)
        result = case_compare_tensor(c, "device: resize", t->golden, &out);
    free(out.data);
    return result;
}

int case_run_resize(case_file *c, uint32_t channels, const char *modes)
{
    resize_case t;
    int result;

    memset(&t, 0, sizeof t);
    result = read_case(c, channels, modes, &t);
    if (result == 0)
        result = run_reference(c, &t);
    if (result == 0 && c->device != NULL)
        result = run_device(c, &t);
    return result;
}
