/* Golden cases of scheme mrope (PARAMS.md section 5.8). */
#include "cases_rope.h"

#include <stdlib.h>
#include <string.h>

#define COUNT(array) (sizeof(array) / sizeof *(array))

static const param_row param_rows[] = {
    CASE_PAIRING_ROWS("half\ninterleaved\n"),
    CASE_SCHEDULE_ROWS,
    CASE_ATTENTION_ROWS,
    {"variant", PARAM_TEXT, "qwen2_vl\nqwen3_vl\nernie4_5_vl\ntimm_mrope\n"},
    {"mrope_section", PARAM_NUMBERS, NULL},
    {"mrope_interleaved", PARAM_BOOL, NULL},
    {"sections", PARAM_NUMBERS, NULL},
    {"mode", PARAM_TEXT, "GGML_ROPE_TYPE_MROPE\nGGML_ROPE_TYPE_IMROPE\n"},
    {"pair_axis", PARAM_NUMBERS, NULL},
    {"axes", PARAM_TEXTS, "t\nh\nw\nextra\n"},
    {"grid", PARAM_NUMBERS, NULL},
    {"grid_thw", PARAM_TRIPLES, NULL},
};

static const tensor_row rotate_rows[] = {
    {"in.x", TENSOR_F32, true},
    {"in.positions", TENSOR_I32, true},
    {"out.y", TENSOR_F32, true},
};

typedef struct mrope_case {
    rope_case base;
    uint32_t *pair_axis; /* R/2 */
    bool by_sections;
    rhumb_mrope device; /* by_sections */
} mrope_case;

/* ------------------------------------------------------------------------------------------------
 * Sections
 */
static int read_numbers(case_file *c, const char *key, const cJSON *list, uint32_t count,
                        double most, uint32_t *numbers)
{
    const cJSON *item;
    uint32_t i = 0;

    if ((uint32_t)cJSON_GetArraySize(list) != count)
        return case_fail(c, "params.%s: wanted %u numbers, got %d", key, count,
                         cJSON_GetArraySize(list));
    cJSON_ArrayForEach(item, list)
    {
        if (!(item->valuedouble >= 0.0 && item->valuedouble <= most) ||
            item->valuedouble != (double)(uint32_t)item->valuedouble)
            return case_fail(c, "params.%s: wanted whole numbers from 0 to %g, got %g", key, most,
                             item->valuedouble);
        numbers[i++] = (uint32_t)item->valuedouble;
    }
    return 0;
}

/* What `variant`, `mode` and `mrope_interleaved` say; contradictions are refused. */
static int read_rule(case_file *c, bool ggml, ref_section_rule *rule)
{
    const char *variant = case_string(c->params, "variant"), *mode = case_string(c->params, "mode");
    const bool chunks = variant != NULL && strcmp(variant, "qwen2_vl") == 0;
    const bool ernie = variant != NULL && strcmp(variant, "ernie4_5_vl") == 0;
    bool interleaved = case_bool(c->params, "mrope_interleaved", false);

    if (variant != NULL && !chunks && !ernie)
        interleaved = case_bool(c->params, "mrope_interleaved", true);
    if (mode != NULL)
        interleaved = case_bool(c->params, "mrope_interleaved",
                                strcmp(mode, "GGML_ROPE_TYPE_IMROPE") == 0);
    if (mode != NULL && !ggml)
        return case_fail(c, "params: wanted sections with mode, got none");
    if (mode != NULL && interleaved != (strcmp(mode, "GGML_ROPE_TYPE_IMROPE") == 0))
        return case_fail(c, "params: wanted mrope_interleaved as mode has it, got the other");
    if (variant != NULL && interleaved != (!chunks && !ernie))
        return case_fail(c, "params: wanted mrope_interleaved as variant has it, got the other");
    *rule = interleaved ? REF_SECTIONS_INTERLEAVED : REF_SECTIONS_BLOCKS;
    if (ernie)
        *rule = REF_SECTIONS_ERNIE;
    if (ggml)
        *rule = interleaved ? REF_SECTIONS_GGML_INTERLEAVED : REF_SECTIONS_GGML_BLOCKS;
    return 0;
}

static void set_device(mrope_case *t, ref_section_rule rule, const uint32_t *sections)
{
    static const rhumb_mrope_order orders[] = {
        [REF_SECTIONS_BLOCKS] = RHUMB_MROPE_BLOCKS,
        [REF_SECTIONS_INTERLEAVED] = RHUMB_MROPE_INTERLEAVED,
        [REF_SECTIONS_ERNIE] = RHUMB_MROPE_ALTERNATING,
        [REF_SECTIONS_GGML_BLOCKS] = RHUMB_MROPE_BLOCKS,
        [REF_SECTIONS_GGML_INTERLEAVED] = RHUMB_MROPE_INTERLEAVED_EXTRA,
    };

    rhumb_init_mrope(&t->device);
    t->device.rope = &t->base.device;
    t->device.order = orders[rule];
    memcpy(t->device.sections, sections, sizeof t->device.sections);
}

/* Rows of positions that pairs use: the fourth is not bound where none does. */
static uint32_t device_axes(const mrope_case *t)
{
    uint32_t i;

    for (i = 0; i < t->base.rope.rotary_dim / 2; i++)
        if (t->pair_axis[i] == 3)
            return 4;
    return 3;
}

/* The axis of each pair by the sections, and by `pair_axis` where that is given: it decides, and
 * must not contradict them. */
static int read_sections(case_file *c, mrope_case *t)
{
    const uint32_t n = t->base.rope.rotary_dim / 2;
    const cJSON *four = case_param(c->params, "sections");
    const cJSON *three = case_param(c->params, "mrope_section");
    const cJSON *list = case_param(c->params, "pair_axis");
    uint32_t sections[4] = {0, 0, 0, 0}, *stated;
    ref_section_rule rule = REF_SECTIONS_BLOCKS;
    int result = 0;

    if (four != NULL && three != NULL)
        return case_fail(c, "params: wanted sections or mrope_section, got both");
    if (four == NULL && three == NULL && list == NULL)
        return case_fail(c, "params: wanted mrope_section, sections or pair_axis, got none");
    t->pair_axis = calloc(2 * (size_t)n, sizeof *t->pair_axis);
    if (t->pair_axis == NULL)
        return case_fail(c, "no memory");
    stated = t->pair_axis + n;
    if (list != NULL && read_numbers(c, "pair_axis", list, n, 3.0, stated) != 0)
        return -1;
    if (four != NULL || three != NULL) {
        result = four != NULL ? read_numbers(c, "sections", four, 4, 65536.0, sections)
                              : read_numbers(c, "mrope_section", three, 3, 65536.0, sections);
        if (result != 0 || read_rule(c, four != NULL, &rule) != 0)
            return -1;
        if (ref_section_axes(rule, sections, n, t->pair_axis) != 0)
            return case_fail(c, "params: wanted sections that suit %u pairs, got %u, %u, %u, %u", n,
                             sections[0], sections[1], sections[2], sections[3]);
        if (list != NULL && memcmp(t->pair_axis, stated, n * sizeof *stated) != 0)
            return case_fail(c, "params.pair_axis: wanted what the sections say, got another");
    }
    if (list != NULL)
        memcpy(t->pair_axis, stated, n * sizeof *stated);
    t->by_sections = four != NULL || three != NULL;
    set_device(t, rule, sections);
    return 0;
}

/* [3, L] or [4, L] of the file as [axes, B, L]; malloc'ed. NULL after case_fail. */
static int32_t *read_positions(case_file *c, const char *name, uint64_t batch, uint64_t rows,
                               uint32_t *axes)
{
    const tensor *t = case_tensor(c, name, 2);
    const uint64_t shape[2] = {t != NULL && t->shape[0] == 4 ? 4 : 3, rows};
    int32_t *positions;
    uint64_t i;

    if (t == NULL || case_check_shape(c, t, 2, shape) != 0)
        return NULL;
    positions = malloc((size_t)(shape[0] * batch * rows) * sizeof *positions);
    if (positions == NULL) {
        case_fail(c, "no memory");
        return NULL;
    }
    for (i = 0; i < shape[0] * batch * rows; i++)
        positions[i] =
            ((const int32_t *)t->data)[i / (batch * rows) * rows + i % rows];
    *axes = (uint32_t)shape[0];
    return positions;
}

/* ------------------------------------------------------------------------------------------------
 * Ops
 */

/* In place, with the positions of the tensor `name`, which the caller frees as *positions. */
static int rotate_doubles(case_file *c, mrope_case *t, const char *name, const tensor *x,
                          int32_t **positions, double *y)
{
    const uint64_t *s = x->shape;
    uint32_t axes = 0;

    *positions = read_positions(c, name, s[0], s[2], &axes);
    if (*positions == NULL)
        return -1;
    if (y == NULL ||
        ref_rotate_sections(&t->base.rope, t->pair_axis, axes, (uint32_t)s[0], (uint32_t)s[1],
                            (uint32_t)s[2], (uint32_t)s[3], *positions, y, y) != 0)
        return case_fail(c, "reference: no memory, or parameters outside their domain");
    return 0;
}

/* rhumb_mrope has sections and an order, no list of axes. */
#define NO_SECTIONS "device: wanted mrope_section or sections, got pair_axis alone"

static int rotate_on_device(case_file *c, const mrope_case *t, const tensor *x,
                            const tensor *golden, const int32_t *positions)
{
    const case_rotation rotation = {
        .rotary = &t->device,
        .x = x,
        .golden = golden,
        .rows = x->shape[2],
        .positions = positions,
        .axes = device_axes(t),
        .batch = x->shape[0],
        .side = RHUMB_VIEW_COUNT,
    };

    if (!t->by_sections)
        return case_fail(c, NO_SECTIONS);
    return case_rotate_on_device(c, &rotation);
}

static int run_rotate(case_file *c, mrope_case *t)
{
    const tensor *x = case_tensor(c, "in.x", 4);
    const tensor *golden = x != NULL ? case_tensor(c, "out.y", 4) : NULL;
    int32_t *positions = NULL;
    double *y;
    int result;

    if (golden == NULL || case_check_shape(c, golden, 4, x->shape) != 0)
        return -1;
    if (x->shape[3] != t->base.head_dim)
        return case_fail(c, "in.x: wanted head_dim %u, got %llu", t->base.head_dim,
                         (unsigned long long)x->shape[3]);
    y = tensor_doubles(x);
    result = rotate_doubles(c, t, "in.positions", x, &positions, y);
    if (result == 0)
        result = case_compare(c, "reference", golden, y, &c->result->reference_error);
    if (result == 0 && c->device != NULL)
        result = rotate_on_device(c, t, x, golden, positions);
    free(positions);
    free(y);
    return result;
}

/* Row t stands first in the positions: it is what a mask by position goes by. */
static int run_attention(case_file *c, mrope_case *t)
{
    attention_case a;
    double *q = NULL, *k = NULL;
    int result = case_read_attention(c, t->base.head_dim, &a);

    if (result == 0) {
        q = tensor_doubles(a.q);
        k = tensor_doubles(a.k);
        result = rotate_doubles(c, t, "in.positions_q", a.q, &a.positions_q, q);
    }
    if (result == 0)
        result = rotate_doubles(c, t, "in.positions_k", a.k, &a.positions_k, k);
    if (result == 0)
        result = case_attend_on_reference(c, &a, q, k);
    if (result == 0 && c->device != NULL)
        result = t->by_sections ? case_attend_on_device(c, &a, &t->device, device_axes(t), 0)
                                : case_fail(c, NO_SECTIONS);
    free(q);
    free(k);
    case_free_attention(&a);
    return result;
}

int case_run_mrope(case_file *c)
{
    const bool rotate = strcmp(c->result->op, "rotate") == 0;
    mrope_case t;
    int result;

    if (!rotate && strcmp(c->result->op, "attention") != 0)
        return case_fail(c, "scheme mrope: wanted op rotate or attention, got %s", c->result->op);
    if (case_check_params(c, c->params, param_rows, COUNT(param_rows)) != 0 ||
        case_check_schedule(c, true) != 0 ||
        (rotate ? case_check_tensors(c, rotate_rows, COUNT(rotate_rows))
                : case_check_tensors(c, case_attention_tensors, case_attention_tensor_count)) != 0)
        return -1;
    memset(&t, 0, sizeof t);
    result = case_read_rope(c, &t.base);
    if (result == 0 && t.base.by_length)
        result = case_fail(c, "params: wanted a schedule of fixed frequencies for mrope");
    if (result == 0)
        result = read_sections(c, &t);
    if (result == 0)
        result = rotate ? run_rotate(c, &t) : run_attention(c, &t);
    free(t.pair_axis);
    case_free_rope(&t.base);
    return result;
}
