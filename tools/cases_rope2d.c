/* Golden cases of scheme rope2d (PARAMS.md section 5.7). */
#include "cases_rope.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define COUNT(array) (sizeof(array) / sizeof *(array))

static const param_row param_rows[] = {
    CASE_PAIRING_ROWS("half\ninterleaved\nhalf_per_axis\n"),
    {"variant", PARAM_TEXT,
     "qwen2_vl_vision\nggml_vision\npixtral\ntimm_RotaryEmbeddingCat\ntimm_RotaryEmbedding\n"
     "mixed\ndinov3\nsam2\nllama4_vision\ngemma4_vision\n"},
    {"axes", PARAM_TEXTS, "h\nw\n"},
    {"temperature", PARAM_NUMBER, NULL},
    {"grid", PARAM_NUMBERS, NULL},
    {"grid_xy", PARAM_NUMBERS, NULL},
    {"grid_thw", PARAM_TRIPLES, NULL},
    {"spatial_merge_size", PARAM_WHOLE, NULL},
    {"token_order", PARAM_TEXT,
     "row-major\nmerge blocks row-major, inside a block row-major\n"},
    {"max_patches_per_side", PARAM_WHOLE, NULL},
    {"freqs_per_axis", PARAM_WHOLE, NULL},
    {"per_axis_dim", PARAM_WHOLE, NULL},
    {"num_bands", PARAM_WHOLE, NULL},
    {"sections", PARAM_NUMBERS, NULL},
    {"n_dims", PARAM_WHOLE, NULL},
    {"mode", PARAM_TEXT, "GGML_ROPE_TYPE_VISION\n"},
    {"parametrisation", PARAM_TEXT, "ggml\n"},
    {"in_pixels", PARAM_BOOL, NULL},
    {"max_res", PARAM_NUMBER, NULL},
    {"linear_bands", PARAM_BOOL, NULL},
    {"grid_offset", PARAM_NUMBER, NULL},
    {"ref_feat_shape", PARAM_NUMBERS, NULL},
    {"grid_indexing", PARAM_TEXT, "ij\nxy\n"},
    {"normalize_coords", PARAM_TEXT, "separate\nmax\nmin\n"},
    {"coordinate_offset", PARAM_NUMBER, NULL},
    {"num_prefix_tokens", PARAM_WHOLE, NULL},
    {"num_suffix_tokens_excluded", PARAM_WHOLE, NULL},
    {"heads", PARAM_WHOLE, NULL},
    {"angle_order", PARAM_NOTE, NULL},
};

static const tensor_row tensor_rows[] = {
    {"in.x", TENSOR_F32, true},          {"in.positions", TENSOR_I32, true},
    {"in.coords", TENSOR_F32, false},    {"in.freqs", TENSOR_F32, false},
    {"in.positions4", TENSOR_I32, false}, /* informative only */
    {"out.y", TENSOR_F32, true},
};

typedef struct variant_row {
    const char *name;
    const char *layouts; /* each followed by a newline */
    ref_plane_rule rule;
    double base;
    bool columns_first;
    double offset; /* of the coordinates */
} variant_row;

/* timm in pixel mode has a rule and a grid of its own. */
static const variant_row variants[] = {
    {"qwen2_vl_vision", "half\n", REF_PLANE_AXIAL, 10000.0, false, 0.0},
    {"ggml_vision", "half\n", REF_PLANE_AXIAL, 10000.0, false, 0.0},
    {"pixtral", "half\n", REF_PLANE_ALTERNATING, 10000.0, false, 0.0},
    {"timm_RotaryEmbeddingCat", "interleaved\n", REF_PLANE_AXIAL, 10000.0, false, 0.0},
    {"timm_RotaryEmbedding", "interleaved\n", REF_PLANE_AXIAL, 10000.0, false, 0.0},
    {"mixed", "interleaved\n", REF_PLANE_AXIAL, 10000.0, false, 0.0}, /* in.freqs */
    {"dinov3", "half\ninterleaved\n", REF_PLANE_TURNS, 100.0, false, 0.0},
    {"sam2", "interleaved\n", REF_PLANE_AXIAL, 10000.0, true, 0.0},
    {"llama4_vision", "interleaved\n", REF_PLANE_AXIAL, 10000.0, true, 1.0},
    {"gemma4_vision", "half_per_axis\n", REF_PLANE_AXIAL, 100.0, true, 0.0},
};

typedef struct plane_case {
    const variant_row *variant;
    const tensor *x;
    const tensor *golden;
    uint32_t head_dim;
    bool columns_first;
    bool pixels;
    uint32_t prefix; /* tokens before and behind those that are rotated */
    uint32_t suffix;
    ref_grid grid;
    ref_plane plane;
    double *frequencies;
    double *coordinates; /* [L, 2] */
} plane_case;

/* ------------------------------------------------------------------------------------------------
 * Parameters
 */
static int read_axes(case_file *c, plane_case *t)
{
    const cJSON *axes = case_param(c->params, "axes");
    const char *first, *second;

    t->columns_first = t->variant->columns_first;
    if (axes == NULL)
        return 0;
    if (cJSON_GetArraySize(axes) != 2)
        return case_fail(c, "params.axes: wanted h and w, got %d axes", cJSON_GetArraySize(axes));
    first = cJSON_GetArrayItem(axes, 0)->valuestring;
    second = cJSON_GetArrayItem(axes, 1)->valuestring;
    if (strcmp(first, second) == 0)
        return case_fail(c, "params.axes: wanted h and w, got %s twice", first);
    t->columns_first = strcmp(first, "w") == 0;
    return 0;
}

static int read_variant(case_file *c, plane_case *t)
{
    const char *name = case_string(c->params, "variant");
    const char *layout = case_string(c->params, "layout");
    uint32_t rotary_dim = 0, offset = 0;
    size_t i;

    if (name == NULL || layout == NULL)
        return case_fail(c, "params: wanted variant and layout, got no %s",
                         name == NULL ? "variant" : "layout");
    for (i = 0; strcmp(variants[i].name, name) != 0; i++)
        continue; /* the vocabulary has seen to it that it is one of them */
    t->variant = &variants[i];
    if (!case_listed(t->variant->layouts, layout))
        return case_fail(c, "params.layout: wanted that of %s, got %s", name, layout);
    if (case_size(c, "head_dim", 0.0, 4.0, &t->head_dim) != 0 ||
        case_size(c, "rotary_dim", t->head_dim, 4.0, &rotary_dim) != 0 ||
        case_size(c, "rotary_offset", 0.0, 0.0, &offset) != 0 ||
        case_size(c, "num_prefix_tokens", 0.0, 0.0, &t->prefix) != 0 ||
        case_size(c, "num_suffix_tokens_excluded", 0.0, 0.0, &t->suffix) != 0)
        return -1;
    if (rotary_dim != t->head_dim || offset != 0 || t->head_dim % 4 != 0)
        return case_fail(c, "params: wanted a whole head of 4n channels, got %u at %u of %u",
                         rotary_dim, offset, t->head_dim);
    if (case_number(c->params, "attention_factor", 1.0) != 1.0)
        return case_fail(c, "params.attention_factor: wanted 1 for rope2d, got %g",
                         case_number(c->params, "attention_factor", 1.0));
    if (strcmp(layout, "half") == 0)
        t->plane.pairing = REF_PAIRING_HALF;
    else
        t->plane.pairing = strcmp(layout, "half_per_axis") == 0 ? REF_PAIRING_HALF_PER_AXIS
                                                                 : REF_PAIRING_INTERLEAVED;
    return read_axes(c, t);
}

static int read_grid(case_file *c, plane_case *t)
{
    const char *name = t->variant->name, *normalise = case_string(c->params, "normalize_coords");
    const bool timm = strncmp(name, "timm_", 5) == 0;
    const bool dino = strcmp(name, "dinov3") == 0;
    double height = 0.0, width = 0.0;

    if (case_pair(c, "grid", 1.0, &height, &width) != 0 ||
        case_pair(c, "grid_xy", 1.0, &width, &height) != 0)
        return -1;
    t->grid.height = (uint32_t)height;
    t->grid.width = (uint32_t)width;
    t->grid.offset = case_number(c->params, "coordinate_offset", t->variant->offset);
    t->pixels = timm && case_bool(c->params, "in_pixels", true);
    if (t->pixels) {
        t->grid.rule = REF_GRID_ENDS;
    } else if (timm) {
        t->grid.offset += case_number(c->params, "grid_offset", 0.0);
        if (case_pair(c, "ref_feat_shape", 1.0, &t->grid.reference[0], &t->grid.reference[1]) != 0)
            return -1;
    } else if (dino) {
        t->grid.rule = REF_GRID_CENTRES;
        if (normalise != NULL && strcmp(normalise, "separate") != 0)
            t->grid.rule =
                strcmp(normalise, "max") == 0 ? REF_GRID_CENTRES_MAX : REF_GRID_CENTRES_MIN;
    }
    if ((t->grid.rule != REF_GRID_INDEX || t->grid.reference[0] > 0.0) && height == 0.0)
        return case_fail(c, "params: wanted grid for %s, got none", name);
    return 0;
}

/* ------------------------------------------------------------------------------------------------
 * Tables
 */

/* in.freqs [2, H, D/2] in the order of the axes. */
static int read_mixed(case_file *c, plane_case *t)
{
    const uint64_t heads = t->x->shape[1], n = t->head_dim / 2;
    const uint64_t shape[3] = {2, heads, n};
    const tensor *freqs = case_tensor(c, "in.freqs", 3);
    uint64_t i;

    if (freqs == NULL || case_check_shape(c, freqs, 3, shape) != 0)
        return -1;
    t->plane.per_head = 1;
    t->frequencies = malloc((size_t)freqs->count * sizeof *t->frequencies);
    if (t->frequencies == NULL)
        return case_fail(c, "no memory");
    for (i = 0; i < freqs->count; i++)
        t->frequencies[t->columns_first ? (i + heads * n) % freqs->count : i] =
            tensor_get(freqs, i);
    return 0;
}

static int read_frequencies(case_file *c, plane_case *t)
{
    const cJSON *base = case_param(c->params, "base");
    const cJSON *other = case_param(c->params, "temperature");
    double value = case_number(c->params, "base", t->variant->base);
    ref_plane_rule rule = t->variant->rule;

    if (base != NULL && other != NULL)
        return case_fail(c, "params: wanted base or temperature, got both");
    value = case_number(c->params, "temperature", value);
    if (strcmp(t->variant->name, "mixed") == 0)
        return read_mixed(c, t);
    if (tensor_list_find(&c->tensors, "in.freqs") != NULL)
        return case_fail(c, "in.freqs: wanted with variant mixed only, got %s", t->variant->name);
    if (t->pixels) {
        rule = case_bool(c->params, "linear_bands", false) ? REF_PLANE_PIXELS_LINEAR
                                                           : REF_PLANE_PIXELS;
        value = case_number(c->params, "max_res", 224.0);
    }
    t->frequencies = malloc((size_t)t->head_dim * sizeof *t->frequencies);
    if (t->frequencies == NULL)
        return case_fail(c, "no memory");
    if (ref_plane_frequencies(rule, t->head_dim, value, t->columns_first, t->frequencies) != 0)
        return case_fail(c, "params: wanted a base above 0, got %g", value);
    return 0;
}

/* in.coords was rounded to float32: it checks the rule, it does not replace it. */
static int check_coordinates(case_file *c, const plane_case *t, const uint64_t *shape)
{
    const tensor *stated = tensor_list_find(&c->tensors, "in.coords");
    const double *got = t->coordinates + 2 * (uint64_t)t->prefix;
    uint64_t i;

    if (stated == NULL)
        return 0;
    if (case_check_shape(c, stated, 2, shape) != 0)
        return -1;
    for (i = 0; i < stated->count; i++) {
        const double wanted = tensor_get(stated, i);
        if (!(fabs(got[i] - wanted) <= 1e-6 * fmax(1.0, fabs(wanted))))
            return case_fail(c, "in.coords[%llu]: wanted %.9g by the parameters, got %.9g",
                             (unsigned long long)i, got[i], wanted);
    }
    return 0;
}

/* Tokens that are not rotated get coordinates 0, 0, which turn by nothing. */
static int read_coordinates(case_file *c, plane_case *t)
{
    const uint64_t rows = t->x->shape[2], left_out = (uint64_t)t->prefix + t->suffix;
    const tensor *positions = case_tensor(c, "in.positions", 2);
    uint64_t shape[2] = {0, 2};

    if (positions == NULL)
        return -1;
    if (left_out >= rows)
        return case_fail(c, "params: wanted fewer than %llu tokens left out, got %llu",
                         (unsigned long long)rows, (unsigned long long)left_out);
    shape[0] = rows - left_out;
    if (case_check_shape(c, positions, 2, shape) != 0)
        return -1;
    t->coordinates = calloc((size_t)rows * 2, sizeof *t->coordinates);
    if (t->coordinates == NULL)
        return case_fail(c, "no memory");
    if (ref_grid_coordinates(&t->grid, (uint32_t)shape[0], positions->data,
                             t->coordinates + 2 * (uint64_t)t->prefix) != 0)
        return case_fail(c, "params: wanted grid for %s, got none", t->variant->name);
    return check_coordinates(c, t, shape);
}

/* ------------------------------------------------------------------------------------------------
 * op rotate
 */

static void set_frequencies(case_file *c, const plane_case *t, rhumb_rope2d *device)
{
    static const rhumb_rope2d_frequency kinds[] = {
        [REF_PLANE_AXIAL] = RHUMB_ROPE2D_SAME,
        [REF_PLANE_ALTERNATING] = RHUMB_ROPE2D_ALTERNATING,
        [REF_PLANE_TURNS] = RHUMB_ROPE2D_PERIODS,
    };
    const double base = case_number(c->params, "base", t->variant->base);

    if (t->plane.per_head) {
        device->frequency = RHUMB_ROPE2D_LEARNED;
    } else if (t->pixels) {
        device->frequency = case_bool(c->params, "linear_bands", false)
                                ? RHUMB_ROPE2D_PIXEL_LINEAR
                                : RHUMB_ROPE2D_PIXEL;
        device->resolution = case_number(c->params, "max_res", 224.0);
    } else {
        device->frequency = kinds[t->variant->rule];
        device->base = case_number(c->params, "temperature", base);
    }
}

/* Every rule of coordinates is scale * index + offset. */
static void set_coordinates(const plane_case *t, rhumb_rope2d *device)
{
    const ref_grid *g = &t->grid;
    const double size[2] = {g->height, g->width};
    const double larger = fmax(size[0], size[1]), smaller = fmin(size[0], size[1]);
    uint32_t axis;

    for (axis = 0; axis < 2; axis++) {
        double *scale = &device->scale[axis], *offset = &device->offset[axis];
        double denominator = size[axis];
        if (g->rule == REF_GRID_INDEX) {
            *scale = g->reference[axis] > 0.0 ? g->reference[axis] / size[axis] : 1.0;
            *offset = *scale * g->offset;
            continue;
        }
        if (g->rule == REF_GRID_ENDS) {
            *scale = size[axis] > 1.0 ? 2.0 / (size[axis] - 1.0) : 0.0;
            *offset = -1.0;
            continue;
        }
        if (g->rule != REF_GRID_CENTRES)
            denominator = g->rule == REF_GRID_CENTRES_MAX ? larger : smaller;
        *scale = 2.0 / denominator;
        *offset = 1.0 / denominator - 1.0;
    }
}

static int rotate_on_device(case_file *c, const plane_case *t)
{
    const tensor *indices = case_tensor(c, "in.positions", 2);
    const uint64_t rows = indices != NULL ? indices->shape[0] : 0;
    int32_t *positions;
    rhumb_rope2d device;
    case_rotation rotation = {
        .rotary = &device,
        .x = t->x,
        .golden = t->golden,
        .first = t->prefix,
        .rows = rows,
        .axes = 2,
        .batch = 1,
        .side = RHUMB_VIEW_COUNT,
    };
    uint64_t i;
    int result;

    positions = calloc((size_t)rows * 2 + 1, sizeof *positions);
    if (positions == NULL)
        return case_fail(c, "no memory");
    for (i = 0; i < 2 * rows; i++) /* [N, 2] to [2, N] */
        positions[i % 2 * rows + i / 2] = ((const int32_t *)indices->data)[i];
    rhumb_init_rope2d(&device);
    if (t->plane.pairing == REF_PAIRING_INTERLEAVED)
        device.pairing = RHUMB_ROPE2D_INTERLEAVED;
    else if (t->plane.pairing == REF_PAIRING_HALF_PER_AXIS)
        device.pairing = RHUMB_ROPE2D_HALF_PER_AXIS;
    device.order = t->columns_first ? RHUMB_ROPE2D_COLUMN_FIRST : RHUMB_ROPE2D_ROW_FIRST;
    set_frequencies(c, t, &device);
    set_coordinates(t, &device);
    rotation.positions = positions;
    if (t->plane.per_head) /* in the order of the axes, as the view has them */
        rotation.frequencies = case_tensor(c, "in.freqs", 3);
    result = case_rotate_on_device(c, &rotation);
    free(positions);
    return result;
}

static int rotate_on_reference(case_file *c, const plane_case *t)
{
    const uint64_t *s = t->x->shape;
    double *y = tensor_doubles(t->x);
    int result = -1;

    if (y == NULL || ref_rotate_plane(&t->plane, (uint32_t)s[0], (uint32_t)s[1], (uint32_t)s[2],
                                      (uint32_t)s[3], y, y) != 0)
        case_fail(c, "reference: no memory, or parameters outside their domain");
    else
        result = case_compare(c, "reference", t->golden, y, &c->result->reference_error);
    free(y);
    return result;
}

static int read_case(case_file *c, plane_case *t)
{
    if (read_variant(c, t) != 0 || read_grid(c, t) != 0)
        return -1;
    t->x = case_tensor(c, "in.x", 4);
    t->golden = t->x != NULL ? case_tensor(c, "out.y", 4) : NULL;
    if (t->golden == NULL || case_check_shape(c, t->golden, 4, t->x->shape) != 0)
        return -1;
    if (t->x->shape[3] != t->head_dim)
        return case_fail(c, "in.x: wanted head_dim %u, got %llu", t->head_dim,
                         (unsigned long long)t->x->shape[3]);
    if (read_frequencies(c, t) != 0 || read_coordinates(c, t) != 0)
        return -1;
    t->plane.frequencies = t->frequencies;
    t->plane.coordinates = t->coordinates;
    return 0;
}

int case_run_rope2d(case_file *c)
{
    plane_case t;
    int result;

    if (strcmp(c->result->op, "rotate") != 0)
        return case_fail(c, "scheme rope2d: wanted op rotate, got %s", c->result->op);
    if (case_check_params(c, c->params, param_rows, COUNT(param_rows)) != 0 ||
        case_check_tensors(c, tensor_rows, COUNT(tensor_rows)) != 0)
        return -1;
    memset(&t, 0, sizeof t);
    result = read_case(c, &t);
    if (result == 0)
        result = rotate_on_reference(c, &t);
    if (result == 0 && c->device != NULL)
        result = rotate_on_device(c, &t);
    free(t.frequencies);
    free(t.coordinates);
    return result;
}
