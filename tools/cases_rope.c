/* Golden cases of scheme rope (PARAMS.md section 5): frequencies and rotation. Schedules are in
 * cases_schedule.c, attention and scores in cases_attention.c. */
#include "cases_rope.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define COUNT(array) (sizeof(array) / sizeof *(array))

static const param_row param_rows[] = {
    CASE_PAIRING_ROWS("half\ninterleaved\n"),
    CASE_SCHEDULE_ROWS,
    CASE_ATTENTION_ROWS,
    {"output_layout", PARAM_TEXT, "half\n"},
    {"rel_tolerance", PARAM_NUMBER, NULL},
    {"scaling", PARAM_TEXT,
     "LlamaNTKScaledRotaryEmbedding\nLlamaDynamicScaledRotaryEmbedding\n"
     "LlamaPartNTKScaledRotaryEmbedding\nLlamaYaRNScaledRotaryEmbedding\n"},
    {"alpha", PARAM_NUMBER, NULL},
    {"ntk", PARAM_NUMBER_OR_FALSE, NULL},
    {"original_max_position_embeddings", PARAM_NUMBER, NULL},
    {"extrapolation_factor", PARAM_NUMBER, NULL},
    {"base_rescale_factor", PARAM_NUMBER, NULL},
    {"interpolation_factor", PARAM_NUMBER, NULL},
    {"storage", PARAM_TEXT, "float16\n"},
    {"kind", PARAM_TEXT, "position_shift\n"},
    {"attention_factor_of_shift", PARAM_NUMBER, NULL},
    {"attention_factor_already_applied", PARAM_NUMBER, NULL},
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

/* ------------------------------------------------------------------------------------------------
 * Parameters
 */
static int check_vocabulary(case_file *c)
{
    const char *op = c->result->op;

    if (case_check_params(c, c->params, param_rows, COUNT(param_rows)) != 0 ||
        case_check_schedule(c, false) != 0)
        return -1;
    if (strcmp(op, "rotate") == 0)
        return case_check_tensors(c, rotate_rows, COUNT(rotate_rows));
    if (strcmp(op, "frequencies") == 0)
        return case_check_tensors(c, frequencies_rows, COUNT(frequencies_rows));
    if (strcmp(op, "scores") == 0 || strcmp(op, "attention") == 0)
        return case_check_tensors(c, case_attention_tensors, case_attention_tensor_count);
    return case_fail(c, "scheme rope: wanted op rotate, frequencies, scores or attention, got %s",
                     op);
}

static int read_pairing(case_file *c, rope_case *r)
{
    const char *layout = case_string(c->params, "layout");
    const char *output = case_string(c->params, "output_layout");
    const bool half = layout != NULL && strcmp(layout, "half") == 0;

    if (layout == NULL)
        return case_fail(c, "params: wanted layout, got none");
    r->rope.pairing = half ? REF_PAIRING_HALF : REF_PAIRING_INTERLEAVED;
    r->device.pairing = half ? RHUMB_PAIRING_HALF : RHUMB_PAIRING_INTERLEAVED;
    if (output != NULL && !half) {
        r->rope.pairing = REF_PAIRING_INTERLEAVED_TO_HALF;
        r->device.pairing = RHUMB_PAIRING_INTERLEAVED_TO_HALF;
    }
    return 0;
}

/* Multi-head latent attention rotates the end of the head. */
static int read_window(case_file *c, rope_case *r)
{
    const cJSON *schedule = case_param(c->params, "rope_parameters");
    const char *type = schedule != NULL ? case_string(schedule, "rope_type") : "default";
    const double nope = case_number(c->params, "qk_nope_head_dim", 0.0);
    double rotary = case_number(c->params, "qk_rope_head_dim", 0.0);
    const double head = rotary > 0.0 ? nope + rotary : 0.0;

    if (case_size(c, "head_dim", head, 1.0, &r->head_dim) != 0)
        return -1;
    if (rotary == 0.0)
        rotary = r->head_dim;
    if (schedule != NULL && strcmp(type, "proportional") != 0)
        rotary = floor(rotary * case_number(schedule, "partial_rotary_factor", 1.0));
    if (case_size(c, "rotary_dim", rotary, 2.0, &r->rope.rotary_dim) != 0 ||
        case_size(c, "rotary_offset", nope, 0.0, &r->rope.rotary_offset) != 0)
        return -1;
    if (r->rope.rotary_dim % 2 != 0 || r->rope.rotary_offset + r->rope.rotary_dim > r->head_dim)
        return case_fail(c, "params: wanted an even rotary_dim within head_dim %u, got %u at %u",
                         r->head_dim, r->rope.rotary_dim, r->rope.rotary_offset);
    r->device.rotary_dim = r->rope.rotary_dim;
    r->device.rotary_offset = r->rope.rotary_offset;
    return 0;
}

int case_read_rope(case_file *c, rope_case *r)
{
    memset(r, 0, sizeof *r);
    ref_rope_init(&r->rope, 0);
    rhumb_init_rope(&r->device);
    if (read_pairing(c, r) != 0 || read_window(c, r) != 0)
        return -1;
    return case_read_schedule(c, r);
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

/* A function of the library's host side: what a plan on the device would get. */
static int frequencies_of_rhumb(case_file *c, const rope_case *r, double *frequencies)
{
    const uint32_t n = r->rope.rotary_dim / 2;
    double magnitude = 0.0;
    uint32_t count = 0;

    if (rhumb_rotary_frequencies(&r->device, r->head_dim, (uint32_t)r->rope.length, frequencies, n,
                                 &count, &magnitude) != RHUMB_OK ||
        count != n)
        return case_fail(c, "host: wanted %u frequencies, got %u: %.150s", n, count,
                         rhumb_last_message(NULL));
    c->result->on_host = true;
    return compare_frequencies(c, "host", frequencies, magnitude, &c->result->device_error);
}

static int run_frequencies(case_file *c, rope_case *r)
{
    const uint64_t n = r->rope.rotary_dim / 2;
    const tensor *golden = case_tensor(c, "out.inv_freq", 1);
    const double length = case_number(c->params, "seq_len", 0.0);
    double *frequencies = NULL;
    int result = -1;

    if (golden == NULL || case_check_shape(c, golden, 1, &n) != 0)
        return -1;
    if (case_param(c->params, "rel_tolerance") == NULL)
        return case_fail(c, "params: wanted rel_tolerance for op frequencies, got none");
    if (r->by_length && !(length >= 1.0 && length <= 4294967295.0))
        return case_fail(c, "params.seq_len: wanted 1 to 4294967295 for this schedule, got %g",
                         length);
    case_set_length(r, (uint64_t)fmax(length, 0.0));
    c->result->tolerance = case_number(c->params, "rel_tolerance", 0.0);
    c->result->relative = 1;
    frequencies = malloc((size_t)n * sizeof *frequencies);
    if (frequencies == NULL || ref_rope_frequencies(&r->rope, frequencies) != 0)
        case_fail(c, "reference: no memory, or parameters outside their domain");
    else
        result = compare_frequencies(c, "reference", frequencies, r->rope.magnitude,
                                     &c->result->reference_error);
    if (result == 0 && c->device != NULL)
        result = frequencies_of_rhumb(c, r, frequencies);
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
    rhumb_purpose purpose;
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

/* One record rotates Q out of place and K in place, or out of place where the pairing asks for
 * it. */
static int rotate_on_device(case_file *c, const rotate_case *t)
{
    const uint64_t *s = t->x->shape;
    const bool shared = tensor_list_find(&c->tensors, "in.positions")->rank == 1;
    const bool in_place = t->r->device.pairing != RHUMB_PAIRING_INTERLEAVED_TO_HALF;
    static const char *const names[4] = {"q", "q_out", "k", "k_out"};
    tensor_list store = {0};
    gpu_operation op;
    uint64_t i;
    int result = -1;

    for (i = 0; i < 4; i++) {
        if (tensor_list_add(&store, names[i], (tensor_dtype)t->dtype, 4, s, NULL) == NULL) {
            case_fail(c, "no memory");
            goto fail;
        }
    }
    for (i = 0; i < t->x->count; i++) {
        tensor_put(&store.items[0], i, tensor_get(t->x, i));
        tensor_put(&store.items[2], i, tensor_get(t->x, i));
    }
    gpu_init_operation(&op, RHUMB_OP_ROTATE);
    op.info.rotary = &t->r->device;
    op.info.heads = (uint32_t)s[1];
    op.info.head_dim = (uint32_t)s[3];
    op.info.max_q_length = (uint32_t)s[2];
    op.info.purpose = t->purpose;
    op.new_length = (uint32_t)t->r->rope.length;
    gpu_add_tensor(&op, RHUMB_VIEW_Q, t->dtype, s[0], s[1], s[2], s[3], store.items[0].data, NULL);
    gpu_add_tensor(&op, RHUMB_VIEW_Q_OUT, t->dtype, s[0], s[1], s[2], s[3], NULL,
                   store.items[1].data);
    gpu_add_tensor(&op, RHUMB_VIEW_K, t->dtype, s[0], s[1], s[2], s[3], store.items[2].data,
                   in_place ? store.items[2].data : NULL);
    if (!in_place)
        gpu_add_tensor(&op, RHUMB_VIEW_K_OUT, t->dtype, s[0], s[1], s[2], s[3], NULL,
                       store.items[3].data);
    gpu_add_tensor(&op, RHUMB_VIEW_POSITIONS_Q, RHUMB_I32, 1, 1, shared ? 1 : s[0], s[2],
                   t->positions, NULL);
    if (case_run_device(c, "rotate", &op) != 0)
        goto fail;
    result = case_compare_tensor(c, "device: Q out of place", t->golden, &store.items[1]);
    if (result == 0)
        result = case_compare_tensor(c, in_place ? "device: K in place" : "device: K out of place",
                                     t->golden, &store.items[in_place ? 2 : 3]);

fail:
    tensor_list_free(&store);
    return result;
}

static int run_rotate(case_file *c, rope_case *r)
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
    if (case_string(c->params, "kind") != NULL) {
        t.purpose = RHUMB_PURPOSE_SHIFT;
        if (case_number(c->params, "attention_factor_of_shift", 1.0) != 1.0)
            return case_fail(c, "params.attention_factor_of_shift: wanted 1, as a shift has no "
                                "magnitude of its own");
    }
    t.positions = case_positions(c, "in.positions", t.x->shape[0], t.x->shape[2]);
    if (t.positions == NULL)
        return -1;
    case_set_length(r, case_length_of(t.positions, t.x->shape[0] * t.x->shape[2]));
    result = rotate_on_reference(c, &t);
    if (result == 0 && c->device != NULL)
        result = rotate_on_device(c, &t);
    free(t.positions);
    return result;
}

int case_run_rope(case_file *c)
{
    rope_case r;
    int result;

    if (check_vocabulary(c) != 0)
        return -1;
    result = case_read_rope(c, &r);
    if (result == 0 && strcmp(c->result->op, "rotate") == 0)
        result = run_rotate(c, &r);
    else if (result == 0 && strcmp(c->result->op, "frequencies") == 0)
        result = run_frequencies(c, &r);
    else if (result == 0)
        result = case_run_rope_attention(c, &r);
    case_free_rope(&r);
    return result;
}
