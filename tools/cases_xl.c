/* Golden cases of schemes transformer_xl and xlnet (PARAMS.md sections 4.6 and 4.7). */
#include "cases_relative.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define COUNT(array) (sizeof(array) / sizeof *(array))

#define DEFINED "j<=i+q_offset, others stored as 0\n"

static const param_row xl_rows[] = {
    CASE_RELATIVE_ROWS,
    {"variant", PARAM_TEXT, "sinusoidal\nlearned\n"},
    {"mem_len", PARAM_WHOLE, NULL},
    {"d_model", PARAM_WHOLE, NULL},
    {"clamp_len", PARAM_WHOLE, NULL},
    {"table_rows", PARAM_WHOLE, NULL},
    {"r_table", PARAM_TEXT,
     "sinusoid concat(sin,cos), base 10000, projected by w_r [heads*head_dim,d_model]\n"
     "learned, row rows-1 is distance 0, larger distances repeat row 0\n"},
    {"distance", PARAM_TEXT, "q_offset+i-j\n"},
    {"scores_defined", PARAM_TEXT, DEFINED},
};

static const param_row xlnet_rows[] = {
    CASE_RELATIVE_ROWS,
    {"attn_type", PARAM_TEXT, "bi\nuni\n"},
    {"bi_data", PARAM_BOOL, NULL},
    {"clamp_len", PARAM_WHOLE, NULL},
    {"mem_len", PARAM_WHOLE, NULL},
    {"d_model", PARAM_WHOLE, NULL},
    {"segment_term", PARAM_BOOL, NULL},
    {"r_table", PARAM_TEXT,
     "sinusoid concat(sin,cos), base 10000, projected by w_r [d_model,heads,head_dim]\n"},
    {"distance", PARAM_TEXT,
     "q_offset+i-j (negated for the second half of the batch when bi_data)\n"},
    {"scores_defined", PARAM_TEXT, DEFINED},
    {"mask", PARAM_TEXT, "1 = not attended\n"},
};

static const tensor_row sinusoidal_tensors[] = {
    {"in.w_r", TENSOR_F32, true},
    {"in.r_w_bias", TENSOR_F32, true},
    {"in.r_r_bias", TENSOR_F32, true},
};

static const tensor_row learned_tensors[] = {
    {"in.r_w_bias", TENSOR_F32, true},
    {"in.rel_k", TENSOR_F32, true},
    {"in.r_bias", TENSOR_F32, true},
};

static const tensor_row xlnet_tensors[] = {
    {"in.w_r", TENSOR_F32, true},        {"in.r_w_bias", TENSOR_F32, true},
    {"in.r_r_bias", TENSOR_F32, true},   {"in.r_s_bias", TENSOR_F32, false},
    {"in.seg_embed", TENSOR_F32, false}, {"in.seg_q", TENSOR_I32, false},
    {"in.seg_k", TENSOR_I32, false},     {"in.mask", TENSOR_I32, false},
};

typedef struct xl_case {
    relative_case base;
    ref_xl xl;
    uint32_t width; /* of the sinusoid; 0: learned */
    bool transposed;
    const double *projection; /* in.w_r */
    const double *z;          /* segment term, or NULL */
    const double *segments;   /* in.seg_embed */
    const int32_t *segments_q;
    const int32_t *segments_k;
} xl_case;

/* ------------------------------------------------------------------------------------------------
 * Reading
 */

/* What both schemes say. */
static int read_common(case_file *c, xl_case *t, bool one_sided)
{
    const char *defined = case_string(c->params, "scores_defined");
    const double clamp = case_number(c->params, "clamp_len", -1.0);

    if (!(fabs(clamp) <= 1048576.0))
        return case_fail(c, "params.clamp_len: wanted -1 to 1048576, got %g", clamp);
    if (t->base.v == NULL && one_sided && defined == NULL)
        return case_fail(c, "params: wanted scores_defined where no key of the future has a score");
    t->xl.clamp = (int32_t)clamp;
    t->xl.bidirectional = !one_sided;
    t->xl.flip = UINT32_MAX;
    t->base.past_only = defined != NULL && t->base.v == NULL;
    return case_expect_number(c, "mem_len", t->base.q_offset);
}

static int read_bias_vectors(case_file *c, xl_case *t)
{
    const uint64_t shape[2] = {t->base.heads, t->base.head_dim};

    t->xl.u = case_relative_doubles(c, &t->base, "in.r_w_bias", 2, shape);
    if (t->xl.u == NULL || t->width == 0)
        return t->xl.u != NULL ? 0 : -1;
    t->xl.w = case_relative_doubles(c, &t->base, "in.r_r_bias", 2, shape);
    return t->xl.w != NULL ? 0 : -1;
}

/* The table's rows: every t that a pair of the case can have. */
static void set_range(xl_case *t)
{
    const relative_case *base = &t->base;
    int32_t low = base->q_offset - (int32_t)base->k_rows + 1;
    int32_t high = base->q_offset + (int32_t)base->q_rows - 1;

    if (t->xl.flip != UINT32_MAX) {
        const int32_t most = abs(low) > abs(high) ? abs(low) : abs(high);
        low = -most;
        high = most;
    }
    if (t->xl.clamp > 0) {
        low = low < -t->xl.clamp ? -t->xl.clamp : low > t->xl.clamp ? t->xl.clamp : low;
        high = high < -t->xl.clamp ? -t->xl.clamp : high > t->xl.clamp ? t->xl.clamp : high;
    }
    if (!t->xl.bidirectional) {
        low = low < 0 ? 0 : low;
        high = high < 0 ? 0 : high;
    }
    t->xl.first = low;
    t->xl.rows = (uint32_t)(high - low + 1);
}

static int read_projection(case_file *c, xl_case *t)
{
    const relative_case *base = &t->base;
    const uint64_t channels = (uint64_t)base->heads * base->head_dim;
    const uint64_t plain[2] = {channels, t->width};
    const uint64_t transposed[3] = {t->width, base->heads, base->head_dim};

    if (t->width % 2 != 0)
        return case_fail(c, "params.d_model: wanted an even number, got %u", t->width);
    t->projection = case_relative_doubles(c, &t->base, "in.w_r", t->transposed ? 3 : 2,
                                          t->transposed ? transposed : plain);
    if (t->projection == NULL)
        return -1;
    set_range(t);
    return 0;
}

static int read_learned(case_file *c, xl_case *t)
{
    const uint64_t heads = t->base.heads, head_dim = t->base.head_dim;

    if (case_size(c, "table_rows", 0.0, 1.0, &t->xl.rows) != 0)
        return -1;
    if (t->xl.clamp > 0 || case_param(c->params, "d_model") != NULL)
        return case_fail(c, "params: wanted no clamp_len and d_model with a learned table");
    {
        const uint64_t shape[3] = {t->xl.rows, heads, head_dim};
        const ref_table positions = {case_relative_doubles(c, &t->base, "in.rel_k", 3, shape),
                                     head_dim, heads * head_dim};
        const ref_table scalars = {positions.data != NULL
                                       ? case_relative_doubles(c, &t->base, "in.r_bias", 2, shape)
                                       : NULL,
                                   1, heads};
        t->xl.learned = 1;
        t->xl.positions = positions;
        t->xl.scalars = scalars;
        return scalars.data != NULL ? 0 : -1;
    }
}

static int read_transformer_xl(case_file *c, xl_case *t)
{
    const char *variant = case_string(c->params, "variant");
    const char *table = case_string(c->params, "r_table");
    bool learned;

    if (variant == NULL)
        return case_fail(c, "params: wanted variant, got none");
    learned = strcmp(variant, "learned") == 0;
    if (table != NULL && learned != (strncmp(table, "learned", 7) == 0))
        return case_fail(c, "params.r_table: wanted that of variant %s", variant);
    if (case_check_relative(c, xl_rows, COUNT(xl_rows),
                            learned ? learned_tensors : sinusoidal_tensors,
                            learned ? COUNT(learned_tensors) : COUNT(sinusoidal_tensors)) != 0 ||
        case_read_relative(c, (double)NAN, &t->base) != 0 || read_common(c, t, true) != 0)
        return -1;
    t->base.causal = true;
    if (!learned && case_param(c->params, "table_rows") != NULL)
        return case_fail(c, "params: wanted table_rows only with a learned table");
    if (!learned && case_size(c, "d_model", 0.0, 2.0, &t->width) != 0)
        return -1;
    if ((learned ? read_learned(c, t) : read_projection(c, t)) != 0)
        return -1;
    return read_bias_vectors(c, t);
}

static int read_segments(case_file *c, xl_case *t)
{
    static const char *const names[] = {"in.r_s_bias", "in.seg_embed", "in.seg_q", "in.seg_k"};
    const uint64_t shape[3] = {2, t->base.heads, t->base.head_dim};
    const bool wanted = case_bool(c->params, "segment_term", false);
    size_t i;

    for (i = 0; i < COUNT(names); i++)
        if (wanted != (tensor_list_find(&c->tensors, names[i]) != NULL))
            return case_fail(c, "wanted %s exactly with segment_term", names[i]);
    if (!wanted)
        return 0;
    t->z = case_relative_doubles(c, &t->base, "in.r_s_bias", 2, shape + 1);
    if (t->z == NULL)
        return -1;
    t->segments = case_relative_doubles(c, &t->base, "in.seg_embed", 3, shape);
    if (t->segments == NULL)
        return -1;
    t->segments_q = case_relative_ints(c, "in.seg_q", t->base.batch, t->base.q_rows);
    if (t->segments_q == NULL)
        return -1;
    t->segments_k = case_relative_ints(c, "in.seg_k", t->base.batch, t->base.k_rows);
    return t->segments_k != NULL ? 0 : -1;
}

static int read_xlnet(case_file *c, xl_case *t)
{
    const char *type = case_string(c->params, "attn_type");
    const bool one_sided = type != NULL && strcmp(type, "uni") == 0;

    if (case_check_relative(c, xlnet_rows, COUNT(xlnet_rows), xlnet_tensors,
                            COUNT(xlnet_tensors)) != 0 ||
        case_read_relative(c, (double)NAN, &t->base) != 0 || read_common(c, t, one_sided) != 0 ||
        case_size(c, "d_model", 0.0, 2.0, &t->width) != 0)
        return -1;
    if (t->base.v == NULL && tensor_list_find(&c->tensors, "in.mask") != NULL)
        return case_fail(c, "op scores: wanted no in.mask");
    t->base.causal = t->base.causal || one_sided;
    t->transposed = true;
    if (case_bool(c->params, "bi_data", false)) {
        if (one_sided || t->base.batch % 2 != 0)
            return case_fail(c, "params: wanted attn_type bi and an even batch with bi_data");
        t->xl.flip = t->base.batch / 2;
    }
    if (read_projection(c, t) != 0 || read_bias_vectors(c, t) != 0 || read_segments(c, t) != 0)
        return -1;
    return case_read_mask(c, &t->base, true, 1);
}

/* ------------------------------------------------------------------------------------------------
 * Reference
 */
static int project(case_file *c, xl_case *t)
{
    const relative_case *base = &t->base;
    const uint64_t row = base->head_dim, head = row * t->xl.rows;
    double *table =
        case_relative_own(c, &t->base, malloc((size_t)(base->heads * head) * sizeof *table));

    if (table == NULL)
        return -1;
    if (ref_xl_project(base->heads, base->head_dim, t->width, t->projection, t->transposed, 0,
                       t->xl.first, t->xl.rows, table) != 0)
        return case_fail(c, "reference: no memory, or parameters outside their domain");
    t->xl.positions.data = table;
    t->xl.positions.head_stride = head;
    t->xl.positions.row_stride = row;
    return 0;
}

static int run_reference(case_file *c, xl_case *t)
{
    ref_terms *terms = &t->base.terms;

    if (t->width != 0 && project(c, t) != 0)
        return -1;
    if (ref_xl_terms(&t->xl, terms) != 0)
        return case_fail(c, "reference: parameters outside their domain");
    if (t->segments != NULL) {
        terms->z = t->z;
        terms->g.data = t->segments;
        terms->g.head_stride = t->base.head_dim;
        terms->g.row_stride = (uint64_t)t->base.heads * t->base.head_dim;
        terms->segments_q = t->segments_q;
        terms->segments_k = t->segments_k;
    }
    return case_relative_reference(c, &t->base);
}

/* ------------------------------------------------------------------------------------------------
 * Device
 */
static int run_transformer_xl(case_file *c, xl_case *t)
{
    rhumb_transformer_xl xl;
    const relative_device device = {
        .scheme = &xl, .by_distance = t->width != 0, .first = t->xl.first};

    rhumb_init_transformer_xl(&xl);
    xl.variant = t->xl.learned ? RHUMB_XL_LEARNED : RHUMB_XL_SINUSOIDAL;
    xl.clamp_len = t->xl.clamp > 0 ? (uint32_t)t->xl.clamp : 0;
    xl.table_rows = t->xl.learned ? t->xl.rows : 0;
    return case_relative_device(c, &t->base, &device);
}

static int run_xlnet(case_file *c, xl_case *t)
{
    rhumb_xlnet xlnet;
    const relative_device device = {.scheme = &xlnet, .by_distance = true, .first = t->xl.first};

    rhumb_init_xlnet(&xlnet);
    xlnet.bidirectional = t->xl.bidirectional != 0;
    xlnet.flip_half = t->xl.flip != UINT32_MAX;
    xlnet.clamp_len = t->xl.clamp > 0 ? (uint32_t)t->xl.clamp : 0;
    return case_relative_device(c, &t->base, &device);
}

static int run(case_file *c, int (*read)(case_file *c, xl_case *t),
               int (*device)(case_file *c, xl_case *t))
{
    xl_case t;
    int result;

    memset(&t, 0, sizeof t);
    result = read(c, &t);
    if (result == 0)
        result = run_reference(c, &t);
    if (result == 0 && c->device != NULL)
        result = device(c, &t);
    case_free_relative(&t.base);
    return result;
}

int case_run_transformer_xl(case_file *c)
{
    return run(c, read_transformer_xl, run_transformer_xl);
}

int case_run_xlnet(case_file *c)
{
    return run(c, read_xlnet, run_xlnet);
}
