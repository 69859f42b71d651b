/* Golden cases of scheme rope: the vocabulary of PARAMS.md sections 5.1 to 5.5, in rhumb's terms.
 */
#include "cases_rope.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COUNT(array) (sizeof(array) / sizeof *(array))

static const param_row param_rows[] = {
    {"head_dim", PARAM_WHOLE, NULL},
    {"rotary_dim", PARAM_WHOLE, NULL},
    {"dim", PARAM_WHOLE, NULL},
    {"rotary_offset", PARAM_WHOLE, NULL},
    {"layout", PARAM_TEXT, "half\ninterleaved\n"},
    {"output_layout", PARAM_TEXT, "half\n"},
    {"attention_factor", PARAM_NUMBER, NULL},
    {"rope_parameters", PARAM_OBJECT, NULL},
    {"max_position_embeddings", PARAM_NUMBER, NULL},
    {"seq_len", PARAM_WHOLE, NULL},
    {"base", PARAM_NUMBER, NULL},
    {"rel_tolerance", PARAM_NUMBER, NULL},
    {"note", PARAM_NOTE, NULL},
    {"third_party_float32_max_abs_dev", PARAM_NUMBER, NULL},
    {"ggml_float32_max_abs_dev", PARAM_NUMBER, NULL},
    {"ref_float32_max_rel_dev", PARAM_NUMBER, NULL},
    {"deviation_from_float64_formula", PARAM_NUMBER, NULL},
    {"deviation_from_direct_rotation", PARAM_NUMBER, NULL},
    {"scaling", PARAM_TEXT,
     "LlamaNTKScaledRotaryEmbedding\nLlamaDynamicScaledRotaryEmbedding\n"
     "LlamaPartNTKScaledRotaryEmbedding\nLlamaYaRNScaledRotaryEmbedding\n"},
    {"alpha", PARAM_NUMBER, NULL},
    {"ntk", PARAM_NUMBER_OR_FALSE, NULL},
    {"scale", PARAM_NUMBER, NULL},
    {"original_max_position_embeddings", PARAM_NUMBER, NULL},
    {"extrapolation_factor", PARAM_NUMBER, NULL},
    {"attn_factor", PARAM_NUMBER, NULL},
    {"base_rescale_factor", PARAM_NUMBER, NULL},
    {"interpolation_factor", PARAM_NUMBER, NULL},
    {"parametrisation", PARAM_TEXT, "ggml\n"},
    {"freq_base", PARAM_NUMBER, NULL},
    {"freq_scale", PARAM_NUMBER, NULL},
    {"ext_factor", PARAM_NUMBER, NULL},
    {"beta_fast", PARAM_NUMBER, NULL},
    {"beta_slow", PARAM_NUMBER, NULL},
    {"n_ctx_orig", PARAM_WHOLE, NULL},
    {"effective_attention_factor", PARAM_NUMBER, NULL},
    {"storage", PARAM_TEXT, "float16\n"},
    {"kind", PARAM_TEXT, "position_shift\n"},
    {"attention_factor_of_shift", PARAM_NUMBER, NULL},
    {"attention_factor_already_applied", PARAM_NUMBER, NULL},
    {"heads", PARAM_WHOLE, NULL},
    {"kv_heads", PARAM_WHOLE, NULL},
    {"causal", PARAM_BOOL, NULL},
    {"sliding_window", PARAM_WHOLE, NULL},
    {"mask_order", PARAM_TEXT, "sequence index\n"},
    {"qk_nope_head_dim", PARAM_WHOLE, NULL},
    {"qk_rope_head_dim", PARAM_WHOLE, NULL},
    {"v_head_dim", PARAM_WHOLE, NULL},
};

static const param_row schedule_rows[] = {
    {"rope_type", PARAM_TEXT, "default\nlinear\ndynamic\nyarn\nllama3\nlongrope\nproportional\n"},
    {"rope_theta", PARAM_NUMBER, NULL},
    {"partial_rotary_factor", PARAM_NUMBER, NULL},
    {"factor", PARAM_NUMBER, NULL},
    {"original_max_position_embeddings", PARAM_NUMBER, NULL},
    {"beta_fast", PARAM_NUMBER, NULL},
    {"beta_slow", PARAM_NUMBER, NULL},
    {"truncate", PARAM_BOOL, NULL},
    {"mscale", PARAM_NUMBER, NULL},
    {"mscale_all_dim", PARAM_NUMBER, NULL},
    {"attention_factor", PARAM_NUMBER, NULL},
    {"low_freq_factor", PARAM_NUMBER, NULL},
    {"high_freq_factor", PARAM_NUMBER, NULL},
    {"short_factor", PARAM_NUMBERS, NULL},
    {"long_factor", PARAM_NUMBERS, NULL},
};

static const tensor_row rotate_rows[] = {
    {"in.x", TENSOR_F32, true},
    {"in.positions", TENSOR_I32, true},
    {"out.y", TENSOR_F32, true},
    {"out.y_float32_naive", TENSOR_F32, false}, /* informative only */
    {"in.freq_factors", TENSOR_F32, false},
    {"in.positions_old", TENSOR_I32, false},
    {"in.raw", TENSOR_F32, false},
};

static const tensor_row frequencies_rows[] = {
    {"out.inv_freq", TENSOR_F32, true},
};

static const tensor_row attention_rows[] = {
    {"in.q", TENSOR_F32, true},           {"in.k", TENSOR_F32, false},
    {"in.v", TENSOR_F32, false},          {"in.k_nope", TENSOR_F32, false},
    {"in.k_rope", TENSOR_F32, false},     {"in.positions_q", TENSOR_I32, true},
    {"in.positions_k", TENSOR_I32, true}, {"out.o", TENSOR_F32, false},
    {"out.scores", TENSOR_F32, false},
};

/* ------------------------------------------------------------------------------------------------
 * Parameters
 */
static int check_vocabulary(case_file *c)
{
    const char *op = c->result->op;
    const cJSON *schedule;

    if (case_check_params(c, c->params, param_rows, COUNT(param_rows)) != 0)
        return -1;
    schedule = case_param(c->params, "rope_parameters");
    if (schedule != NULL &&
        case_check_params(c, schedule, schedule_rows, COUNT(schedule_rows)) != 0)
        return -1;
    if (schedule != NULL && case_string(schedule, "rope_type") == NULL)
        return case_fail(c, "params.rope_parameters: wanted rope_type, got none");
    if (strcmp(op, "rotate") == 0)
        return case_check_tensors(c, rotate_rows, COUNT(rotate_rows));
    if (strcmp(op, "frequencies") == 0)
        return case_check_tensors(c, frequencies_rows, COUNT(frequencies_rows));
    if (strcmp(op, "scores") == 0 || strcmp(op, "attention") == 0)
        return case_check_tensors(c, attention_rows, COUNT(attention_rows));
    return case_fail(c, "scheme rope: wanted op rotate, frequencies, scores or attention, got %s",
                     op);
}

/* What rhumb has no parameters for yet. */
static int skip_unimplemented(case_file *c)
{
    const cJSON *p = c->params, *schedule = case_param(p, "rope_parameters");
    const char *type = schedule != NULL ? case_string(schedule, "rope_type") : "default";
    const char *layout = case_string(p, "layout"), *output = case_string(p, "output_layout");

    if (strcmp(c->result->op, "scores") == 0)
        return case_skip(c, "not implemented: op scores");
    if (strcmp(type, "default") != 0 && strcmp(type, "linear") != 0)
        return case_skip(c, "not implemented: rope_type %s", type);
    if (case_string(p, "scaling") != NULL)
        return case_skip(c, "not implemented: scaling %s", case_string(p, "scaling"));
    if (case_number(p, "base_rescale_factor", 1.0) != 1.0)
        return case_skip(c, "not implemented: base_rescale_factor");
    if (case_number(p, "ext_factor", 0.0) != 0.0)
        return case_skip(c, "not implemented: ext_factor");
    if (tensor_list_find(&c->tensors, "in.freq_factors") != NULL)
        return case_skip(c, "not implemented: freq_factors");
    if (output != NULL && layout != NULL && strcmp(output, layout) != 0)
        return case_skip(c, "not implemented: output_layout");
    if (case_param(p, "qk_nope_head_dim") != NULL || case_param(p, "qk_rope_head_dim") != NULL)
        return case_skip(c, "not implemented: multi-head latent attention");
    return 0;
}

/* Base and factor of whichever way the case states its schedule. */
static int read_schedule(case_file *c, ref_rope *rope)
{
    const cJSON *p = c->params, *schedule = case_param(p, "rope_parameters");
    const bool ggml = case_string(p, "parametrisation") != NULL;

    if (!ggml && (case_param(p, "freq_base") != NULL || case_param(p, "freq_scale") != NULL))
        return case_fail(
            c, "params: wanted parametrisation ggml with freq_base and freq_scale, got none");
    rope->magnitude = case_number(p, "attention_factor", 1.0);
    rope->base = case_number(p, "base", 10000.0);
    /* The angle is divided at use; the list of op frequencies does not show it. */
    if (strcmp(c->result->op, "frequencies") != 0)
        rope->factor = case_number(p, "interpolation_factor", 1.0);
    if (schedule != NULL) {
        rope->base = case_number(schedule, "rope_theta", 10000.0);
        if (strcmp(case_string(schedule, "rope_type"), "linear") == 0) {
            if (case_param(schedule, "factor") == NULL)
                return case_fail(c, "params.rope_parameters: wanted factor for linear, got none");
            rope->factor *= case_number(schedule, "factor", 1.0);
        }
    }
    if (ggml) {
        const bool shift = case_string(p, "kind") != NULL;
        rope->base = case_number(p, "freq_base", 10000.0);
        rope->factor = 1.0 / case_number(p, "freq_scale", 1.0);
        rope->magnitude = case_number(p, shift ? "attention_factor_of_shift" : "attn_factor", 1.0);
    }
    if (!(rope->base > 0.0) || !(rope->factor > 0.0) || !(rope->magnitude > 0.0) ||
        isinf(rope->factor))
        return case_fail(c, "params: wanted a base, factor and magnitude above 0, got %g, %g, %g",
                         rope->base, rope->factor, rope->magnitude);
    return 0;
}

static int read_params(case_file *c, rope_case *r)
{
    const cJSON *schedule = case_param(c->params, "rope_parameters");
    const char *layout = case_string(c->params, "layout");
    double rotary = 0.0;

    memset(r, 0, sizeof *r);
    if (layout == NULL)
        return case_fail(c, "params: wanted layout, got none");
    if (case_size(c, "head_dim", 0.0, 1.0, &r->head_dim) != 0)
        return -1;
    ref_rope_init(&r->rope, 0);
    r->rope.pairing = strcmp(layout, "half") == 0 ? REF_PAIRING_HALF : REF_PAIRING_INTERLEAVED;
    rotary = schedule != NULL
                 ? floor(r->head_dim * case_number(schedule, "partial_rotary_factor", 1.0))
                 : (double)r->head_dim;
    if (case_size(c, "rotary_dim", rotary, 2.0, &r->rope.rotary_dim) != 0 ||
        case_size(c, "rotary_offset", 0.0, 0.0, &r->rope.rotary_offset) != 0)
        return -1;
    if (r->rope.rotary_dim % 2 != 0 || r->rope.rotary_offset + r->rope.rotary_dim > r->head_dim)
        return case_fail(c, "params: wanted an even rotary_dim within head_dim %u, got %u at %u",
                         r->head_dim, r->rope.rotary_dim, r->rope.rotary_offset);
    return read_schedule(c, &r->rope);
}

void case_to_rhumb(const rope_case *r, rhumb_rope *rope)
{
    rhumb_init_rope(rope);
    rope->pairing =
        r->rope.pairing == REF_PAIRING_HALF ? RHUMB_PAIRING_HALF : RHUMB_PAIRING_INTERLEAVED;
    rope->rotary_dim = r->rope.rotary_dim;
    rope->rotary_offset = r->rope.rotary_offset;
    rope->base = r->rope.base;
    rope->factor = r->rope.factor;
    rope->scaling = r->rope.factor != 1.0 ? RHUMB_ROPE_SCALING_LINEAR : RHUMB_ROPE_SCALING_NONE;
    rope->attention_factor = r->rope.magnitude;
}

/* ------------------------------------------------------------------------------------------------
 * op frequencies
 */
static int compare_frequencies(case_file *c, const char *who, const double *frequencies,
                               double magnitude, double *error)
{
    const double wanted = case_number(c->params, "attention_factor", 1.0);
    const double off = fabs(magnitude - wanted) / wanted;

    if (case_compare(c, who, tensor_list_find(&c->tensors, "out.inv_freq"), frequencies, error) !=
        0)
        return -1;
    *error = fmax(*error, off);
    if (!(off <= c->result->tolerance))
        return case_fail(c, "%s: attention_factor wanted %.9g, got %.9g", who, wanted, magnitude);
    return 0;
}

static int run_frequencies(case_file *c, const rope_case *r)
{
    const uint64_t n = r->rope.rotary_dim / 2;
    const tensor *golden = case_tensor(c, "out.inv_freq", 1);
    double *frequencies = NULL, magnitude = 0.0;
    rhumb_rope rope;
    uint32_t count = 0;
    int result = -1;

    if (golden == NULL || case_check_shape(c, golden, 1, &n) != 0)
        return -1;
    if (case_param(c->params, "rel_tolerance") == NULL)
        return case_fail(c, "params: wanted rel_tolerance for op frequencies, got none");
    c->result->tolerance = case_number(c->params, "rel_tolerance", 0.0);
    c->result->relative = 1;
    frequencies = malloc((size_t)n * sizeof *frequencies);
    if (frequencies == NULL || ref_rope_frequencies(&r->rope, frequencies) != 0) {
        case_fail(c, "reference: no memory, or parameters outside their domain");
        goto fail;
    }
    result = compare_frequencies(c, "reference", frequencies, r->rope.magnitude,
                                 &c->result->reference_error);
    if (result != 0 || c->device == NULL)
        goto fail;
    result = -1;
    case_to_rhumb(r, &rope);
    if (rhumb_rotary_frequencies(&rope, r->head_dim, frequencies, (uint32_t)n, &count,
                                 &magnitude) != RHUMB_OK ||
        count != n) {
        case_fail(c, "device: wanted %u frequencies, got %u: %.150s", (unsigned)n, count,
                  rhumb_last_message(NULL));
        goto fail;
    }
    result = compare_frequencies(c, "device", frequencies, magnitude, &c->result->device_error);

fail:
    free(frequencies);
    return result;
}

/* ------------------------------------------------------------------------------------------------
 * op rotate
 */
typedef struct rotate_case {
    const rope_case *r;
    const tensor *x;
    const tensor *golden;
    int32_t *positions;
    rhumb_dtype dtype; /* storage of x and y */
} rotate_case;

static void round_to_storage(rhumb_dtype dtype, double *values, uint64_t count)
{
    uint64_t i;

    for (i = 0; dtype == RHUMB_F16 && i < count; i++)
        values[i] = ref_double_from_f16(ref_f16_from_double(values[i]));
}

/* A shifted key equals the raw key rotated by old position + delta, with what the old one held of
 * m. */
static int check_shift(case_file *c, const rotate_case *t, double *y)
{
    const uint64_t *shape = t->x->shape;
    const tensor *raw = tensor_list_find(&c->tensors, "in.raw");
    ref_rope rope = t->r->rope;
    int32_t *positions;
    double *x;
    uint64_t i;
    int result = -1;

    if (raw == NULL)
        return 0;
    if (case_check_shape(c, raw, 4, shape) != 0)
        return -1;
    rope.magnitude *= case_number(c->params, "attention_factor_already_applied", 1.0);
    positions = case_positions(c, "in.positions_old", shape[0], shape[2]);
    x = tensor_doubles(raw);
    if (positions == NULL || x == NULL)
        goto fail;
    for (i = 0; i < shape[0] * shape[2]; i++)
        positions[i] += t->positions[i];
    if (ref_rotate(&rope, (uint32_t)shape[0], (uint32_t)shape[1], (uint32_t)shape[2],
                   (uint32_t)shape[3], positions, 0, x, y) != 0) {
        case_fail(c, "reference: no memory, or parameters outside their domain");
        goto fail;
    }
    result = case_compare(c, "reference: raw key at old position + delta", t->golden, y,
                          &c->result->reference_error);

fail:
    free(positions);
    free(x);
    return result;
}

static int rotate_on_reference(case_file *c, const rotate_case *t)
{
    const uint64_t *shape = t->x->shape;
    double *x = tensor_doubles(t->x), *y = tensor_doubles(t->x);
    int result = -1;

    if (x == NULL || y == NULL ||
        ref_rotate(&t->r->rope, (uint32_t)shape[0], (uint32_t)shape[1], (uint32_t)shape[2],
                   (uint32_t)shape[3], t->positions, 0, x, y) != 0) {
        case_fail(c, "reference: no memory, or parameters outside their domain");
    } else {
        round_to_storage(t->dtype, y, t->x->count);
        result = case_compare(c, "reference", t->golden, y, &c->result->reference_error);
        if (result == 0)
            result = check_shift(c, t, y);
    }
    free(x);
    free(y);
    return result;
}

/* One record rotates Q out of place and K in place. */
static int rotate_on_device(case_file *c, const rotate_case *t)
{
    const uint64_t *s = t->x->shape;
    const bool shared = tensor_list_find(&c->tensors, "in.positions")->rank == 1;
    tensor_list store = {0};
    tensor *q, *q_out, *k;
    rhumb_rope rope;
    gpu_operation op;
    uint64_t i;
    int result = -1;

    if (tensor_list_add(&store, "q", (tensor_dtype)t->dtype, 4, s, NULL) == NULL ||
        tensor_list_add(&store, "q_out", (tensor_dtype)t->dtype, 4, s, NULL) == NULL ||
        tensor_list_add(&store, "k", (tensor_dtype)t->dtype, 4, s, NULL) == NULL) {
        case_fail(c, "no memory");
        goto fail;
    }
    q = &store.items[0];
    q_out = &store.items[1];
    k = &store.items[2];
    for (i = 0; i < t->x->count; i++) {
        tensor_put(q, i, tensor_get(t->x, i));
        tensor_put(k, i, tensor_get(t->x, i));
    }
    case_to_rhumb(t->r, &rope);
    gpu_init_operation(&op, RHUMB_OP_ROTATE);
    op.info.rotary = &rope;
    op.info.heads = (uint32_t)s[1];
    op.info.head_dim = (uint32_t)s[3];
    op.info.max_q_length = (uint32_t)s[2];
    gpu_add_tensor(&op, RHUMB_VIEW_Q, t->dtype, s[0], s[1], s[2], s[3], q->data, NULL);
    gpu_add_tensor(&op, RHUMB_VIEW_Q_OUT, t->dtype, s[0], s[1], s[2], s[3], NULL, q_out->data);
    gpu_add_tensor(&op, RHUMB_VIEW_K, t->dtype, s[0], s[1], s[2], s[3], k->data, k->data);
    gpu_add_tensor(&op, RHUMB_VIEW_POSITIONS_Q, RHUMB_I32, 1, 1, shared ? 1 : s[0], s[2],
                   t->positions, NULL);
    if (case_run_device(c, "rotate", &op) != 0)
        goto fail;
    result = case_compare_tensor(c, "device: out of place", t->golden, q_out);
    if (result == 0)
        result = case_compare_tensor(c, "device: in place", t->golden, k);

fail:
    tensor_list_free(&store);
    return result;
}

static int run_rotate(case_file *c, const rope_case *r)
{
    rotate_case t = {.r = r, .dtype = RHUMB_F32};
    int result = -1;

    t.x = case_tensor(c, "in.x", 4);
    t.golden = case_tensor(c, "out.y", 4);
    if (t.x == NULL || t.golden == NULL || case_check_shape(c, t.golden, 4, t.x->shape) != 0)
        return -1;
    if (t.x->shape[3] != r->head_dim)
        return case_fail(c, "in.x: wanted head_dim %u, got %llu", r->head_dim,
                         (unsigned long long)t.x->shape[3]);
    if (case_string(c->params, "storage") != NULL)
        t.dtype = RHUMB_F16;
    t.positions = case_positions(c, "in.positions", t.x->shape[0], t.x->shape[2]);
    if (t.positions == NULL)
        return -1;
    result = rotate_on_reference(c, &t);
    if (result == 0 && c->device != NULL)
        result = rotate_on_device(c, &t);
    free(t.positions);
    return result;
}

int case_run_rope(case_file *c)
{
    rope_case r;

    if (check_vocabulary(c) != 0 || skip_unimplemented(c) != 0 || read_params(c, &r) != 0)
        return -1;
    if (strcmp(c->result->op, "rotate") == 0)
        return run_rotate(c, &r);
    if (strcmp(c->result->op, "frequencies") == 0)
        return run_frequencies(c, &r);
    return case_run_rope_attention(c, &r);
}
