/* Tensors of a file as views of an operation: by the names of the views and by those of
 * tests/goldens/PARAMS.md. */
#include "run_model.h"

#include "command_line.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define OP(NAME) (1u << RHUMB_OP_##NAME)
#define LOGITS (OP(ATTENTION) | OP(SCORES))
#define COUNT(list) (sizeof(list) / sizeof *(list))

/* How the dimensions of the file become those of the view. */
typedef enum form {
    PLAIN,     /* the last ones, with leading 1s */
    ROWS,      /* [B, L, D] is {B, 1, L, D} */
    EXCHANGED, /* [rows, heads, D] is {1, heads, rows, D} */
    POSITIONS, /* of several axes: [axes, L] is {1, axes, 1, L} */
    PAIRS,     /* [L, axes] likewise */
    WEIGHT,    /* [heads head_dim, channels] is {1, heads, head_dim, channels} */
    VECTOR,    /* [heads head_dim] is {1, 1, heads, head_dim} */
    MASK,      /* integers 0 and 1, [B, Lk] or [B, Lq, Lk], as numbers to be added */
} form;

typedef struct view_name {
    const char *name;
    rhumb_view_id id;
    uint32_t ops;
    const char *scheme; /* NULL: any */
    form form;
} view_name;

/* The first that fits the operation and the scheme counts. */
static const view_name names[] = {
    {"q", RHUMB_VIEW_Q, LOGITS | OP(ROTATE), NULL, PLAIN},
    {"x", RHUMB_VIEW_Q, OP(ROTATE), NULL, PLAIN},
    {"x", RHUMB_VIEW_X, OP(ENCODE), NULL, ROWS},
    {"x", RHUMB_VIEW_X, OP(PROJECT), NULL, PLAIN},
    {"k", RHUMB_VIEW_K, LOGITS | OP(ROTATE), NULL, PLAIN},
    {"v", RHUMB_VIEW_V, OP(ATTENTION) | OP(ROTATE), NULL, PLAIN},
    {"k_out", RHUMB_VIEW_K_OUT, OP(ROTATE), NULL, PLAIN},
    {"v_out", RHUMB_VIEW_V_OUT, OP(ROTATE), NULL, PLAIN},
    {"slots", RHUMB_VIEW_SLOTS, OP(ROTATE), NULL, PLAIN},
    {"q_gain", RHUMB_VIEW_Q_GAIN, OP(ROTATE), NULL, PLAIN},
    {"k_gain", RHUMB_VIEW_K_GAIN, OP(ROTATE), NULL, PLAIN},
    {"frequencies", RHUMB_VIEW_FREQUENCIES, OP(ROTATE), NULL, PLAIN},
    {"freqs", RHUMB_VIEW_FREQUENCIES, OP(ROTATE), "rope2d", PLAIN},
    {"positions", RHUMB_VIEW_POSITIONS_Q, OP(ROTATE), "rope2d", PAIRS},
    {"positions", RHUMB_VIEW_POSITIONS_Q, OP(ROTATE) | OP(ENCODE), NULL, POSITIONS},
    {"positions_q", RHUMB_VIEW_POSITIONS_Q, LOGITS | OP(ROTATE) | OP(BIAS), NULL, POSITIONS},
    {"positions_k", RHUMB_VIEW_POSITIONS_K, LOGITS | OP(BIAS), NULL, POSITIONS},
    {"lengths", RHUMB_VIEW_LENGTHS, LOGITS | OP(ROTATE) | OP(BIAS) | OP(ENCODE), NULL, PLAIN},
    {"table", RHUMB_VIEW_TABLE, LOGITS | OP(BIAS) | OP(ENCODE) | OP(RESIZE), NULL, PLAIN},
    {"row_table", RHUMB_VIEW_TABLE, OP(ENCODE), NULL, PLAIN},
    {"column_table", RHUMB_VIEW_COLUMN_TABLE, OP(ENCODE), NULL, PLAIN},
    {"col_table", RHUMB_VIEW_COLUMN_TABLE, OP(ENCODE), NULL, PLAIN},
    {"valid", RHUMB_VIEW_VALID, OP(ENCODE), NULL, PLAIN},
    {"mask", RHUMB_VIEW_VALID, OP(ENCODE), "sinusoidal2d", PLAIN},
    {"mask", RHUMB_VIEW_MASK, OP(ATTENTION), NULL, MASK},
    {"query_table", RHUMB_VIEW_QUERY_TABLE, LOGITS, NULL, PLAIN},
    {"rel_k", RHUMB_VIEW_QUERY_TABLE, LOGITS, "transformer_xl", EXCHANGED},
    {"rel_k", RHUMB_VIEW_QUERY_TABLE, LOGITS, NULL, PLAIN},
    {"pos_key", RHUMB_VIEW_QUERY_TABLE, LOGITS, NULL, PLAIN},
    {"key_table", RHUMB_VIEW_KEY_TABLE, LOGITS, NULL, PLAIN},
    {"pos_query", RHUMB_VIEW_KEY_TABLE, LOGITS, NULL, PLAIN},
    {"value_table", RHUMB_VIEW_VALUE_TABLE, OP(ATTENTION), NULL, PLAIN},
    {"rel_v", RHUMB_VIEW_VALUE_TABLE, OP(ATTENTION), NULL, PLAIN},
    {"table_scalar", RHUMB_VIEW_TABLE_SCALAR, LOGITS, NULL, PLAIN},
    {"r_bias", RHUMB_VIEW_TABLE_SCALAR, LOGITS, NULL, PLAIN},
    {"content_bias", RHUMB_VIEW_CONTENT_BIAS, LOGITS | OP(PROJECT), NULL, PLAIN},
    {"r_w_bias", RHUMB_VIEW_CONTENT_BIAS, LOGITS | OP(PROJECT), NULL, PLAIN},
    {"position_bias", RHUMB_VIEW_POSITION_BIAS, LOGITS | OP(PROJECT), NULL, PLAIN},
    {"r_r_bias", RHUMB_VIEW_POSITION_BIAS, LOGITS | OP(PROJECT), NULL, PLAIN},
    {"segment_bias", RHUMB_VIEW_SEGMENT_BIAS, LOGITS, NULL, PLAIN},
    {"r_s_bias", RHUMB_VIEW_SEGMENT_BIAS, LOGITS, NULL, PLAIN},
    {"segment_table", RHUMB_VIEW_SEGMENT_TABLE, LOGITS, NULL, PLAIN},
    {"seg_embed", RHUMB_VIEW_SEGMENT_TABLE, LOGITS, NULL, EXCHANGED},
    {"segments_q", RHUMB_VIEW_SEGMENTS_Q, LOGITS, NULL, PLAIN},
    {"seg_q", RHUMB_VIEW_SEGMENTS_Q, LOGITS, NULL, PLAIN},
    {"segments_k", RHUMB_VIEW_SEGMENTS_K, LOGITS, NULL, PLAIN},
    {"seg_k", RHUMB_VIEW_SEGMENTS_K, LOGITS, NULL, PLAIN},
    {"row_scale", RHUMB_VIEW_ROW_SCALE, LOGITS, NULL, PLAIN},
    {"sinks", RHUMB_VIEW_SINKS, OP(ATTENTION), NULL, PLAIN},
    {"head_scale", RHUMB_VIEW_HEAD_SCALE, LOGITS, NULL, PLAIN},
    {"logit_scale", RHUMB_VIEW_HEAD_SCALE, LOGITS, NULL, PLAIN},
    {"weight", RHUMB_VIEW_WEIGHT, OP(PROJECT), "swin_v2", PLAIN},
    {"weight", RHUMB_VIEW_WEIGHT, OP(PROJECT), NULL, WEIGHT},
    {"w_r", RHUMB_VIEW_WEIGHT, OP(PROJECT), NULL, WEIGHT},
    {"offset", RHUMB_VIEW_OFFSET, OP(PROJECT), "swin_v2", PLAIN},
    {"offset", RHUMB_VIEW_OFFSET, OP(PROJECT), NULL, VECTOR},
    {"mlp_w1", RHUMB_VIEW_X, OP(PROJECT), "swin_v2", PLAIN},
    {"mlp_b1", RHUMB_VIEW_OFFSET, OP(PROJECT), "swin_v2", PLAIN},
    {"mlp_w2", RHUMB_VIEW_WEIGHT, OP(PROJECT), "swin_v2", PLAIN},
    /* informative only */
    {"positions_old", RHUMB_VIEW_POSITIONS_Q, 0, NULL, PLAIN},
    {"positions4", RHUMB_VIEW_POSITIONS_Q, 0, NULL, PLAIN},
    {"raw", RHUMB_VIEW_Q, 0, NULL, PLAIN},
};

static bool fail(const tensor *from, const char *wanted, tensor_error *message)
{
    char text[128];

    snprintf(message->line, sizeof message->line, "%s: wanted %s, found %s %s", from->name, wanted,
             tensor_dtype_name(from->dtype), tensor_shape_text(from, text, sizeof text));
    return false;
}

/* ----------------------------------------------------------------------------------------------
 * Shapes
 */
static void contiguous(run_tensor *t)
{
    int64_t step = 1;

    for (int d = 3; d >= 0; d--) {
        t->stride[d] = step;
        step *= (int64_t)t->shape[d];
    }
}

/* WEIGHT and VECTOR: [heads head_dim, ...] cut into heads. */
static bool cut_heads(const tensor *from, const run_plan *plan, run_tensor *to,
                      tensor_error *message)
{
    const uint64_t heads = plan->heads;

    if (heads == 0 || from->shape[0] % heads != 0) {
        snprintf(message->line, sizeof message->line,
                 "%s: wanted heads in --params, a divisor of its %llu rows, found %llu", from->name,
                 (unsigned long long)from->shape[0], (unsigned long long)heads);
        return false;
    }
    to->shape[from->rank == 2 ? 1 : 2] = heads;
    to->shape[from->rank == 2 ? 2 : 3] = from->shape[0] / heads;
    return true;
}

static bool place(const tensor *from, const view_name *row, const run_request *request,
                  run_tensor *to, tensor_error *message)
{
    const bool several = run_axes(request) > 1;

    for (uint32_t i = 0; i < 4; i++)
        to->shape[i] = i + from->rank < 4 ? 1 : from->shape[i + from->rank - 4];
    if (row->form == ROWS && from->rank == 3) {
        to->shape[0] = from->shape[0];
        to->shape[1] = 1;
    }
    if ((row->form == POSITIONS || row->form == PAIRS) && several && from->rank == 2) {
        const uint32_t axes = row->form == PAIRS ? 1 : 0;
        to->shape[1] = from->shape[axes];
        to->shape[2] = 1;
        to->shape[3] = from->shape[1 - axes];
    }
    if (row->form == MASK && from->dtype >= TENSOR_I32 && from->dtype != TENSOR_F64) {
        if (from->rank != 2 && from->rank != 3)
            return fail(from, "a mask of integers of shape [B, Lk] or [B, Lq, Lk]", message);
        to->shape[0] = from->shape[0];
        to->shape[1] = 1;
        to->shape[2] = from->rank == 3 ? from->shape[1] : 1;
    }
    if (((row->form == WEIGHT && from->rank == 2) || (row->form == VECTOR && from->rank == 1)) &&
        !cut_heads(from, &request->settings.plan, to, message))
        return false;
    contiguous(to);
    if (row->form == EXCHANGED && from->rank == 3) {
        to->shape[1] = from->shape[1];
        to->shape[2] = from->shape[0];
        to->stride[1] = (int64_t)from->shape[2];
        to->stride[2] = (int64_t)(from->shape[1] * from->shape[2]);
    }
    return true;
}

/* ----------------------------------------------------------------------------------------------
 * Elements
 */
static bool is_integer(const tensor *t)
{
    return t->dtype == TENSOR_I32 || t->dtype == TENSOR_I64;
}

static bool choose_dtype(const tensor *from, const view_name *row, const run_request *request,
                         run_tensor *to, tensor_error *message)
{
    if (RHUMB_INTEGER_VIEWS & RHUMB_VIEW_BIT(row->id)) {
        to->dtype = RHUMB_I32;
        return is_integer(from) || fail(from, "I32", message);
    }
    if (row->form == MASK && is_integer(from)) {
        to->dtype = RHUMB_F32;
        return true;
    }
    if (from->dtype > TENSOR_BF16 && !(from->dtype == TENSOR_F64 && request->dtype_given))
        return fail(from,
                    from->dtype == TENSOR_F64 ? "F32, F16 or BF16 (or --dtype to convert)"
                                              : "F32, F16 or BF16",
                    message);
    to->dtype = request->dtype_given ? request->dtype : (rhumb_dtype)from->dtype;
    if (row->id == RHUMB_VIEW_TABLE_SCALAR || row->id == RHUMB_VIEW_ROW_SCALE ||
        row->id == RHUMB_VIEW_FREQUENCIES)
        to->dtype = RHUMB_F32;
    return true;
}

/* 0 is added for a visible key, -inf for a hidden one; 1 hides in XLNet and shows in all others. */
static bool read_mask(const tensor *from, const run_request *request, run_tensor *to,
                      tensor_error *message)
{
    const scheme_entry *entry = request->settings.entry;
    const double hidden = entry != NULL && strcmp(entry->name, "xlnet") == 0 ? 1.0 : 0.0;
    float *values = to->data;

    for (uint64_t i = 0; i < from->count; i++) {
        const double value = tensor_get(from, i);
        if (value != 0.0 && value != 1.0)
            return fail(from, "a mask of 0 and 1", message);
        values[i] = value == hidden ? -INFINITY : 0.0f;
    }
    return true;
}

/* [L, axes] as [axes, L] */
static void read_pairs(const tensor *from, run_tensor *to)
{
    int32_t *values = to->data;

    for (uint64_t l = 0; l < from->shape[0]; l++)
        for (uint64_t axis = 0; axis < from->shape[1]; axis++)
            values[axis * from->shape[0] + l] =
                (int32_t)tensor_get(from, l * from->shape[1] + axis);
}

static bool read_elements(const tensor *from, const view_name *row, const run_request *request,
                          run_tensor *to, tensor_error *message)
{
    if (row->form == MASK && is_integer(from))
        return read_mask(from, request, to, message);
    if (!run_tensor_convert(from, to, message))
        return false;
    if (row->form == PAIRS && from->rank == 2)
        read_pairs(from, to);
    return true;
}

static bool take(const tensor *from, const char *name, const view_name *row,
                 const run_request *request, run_tensor *to, tensor_error *message)
{
    run_tensor t = {.present = true};

    if (from->rank > 4)
        return fail(from, "at most 4 dimensions", message);
    for (uint32_t i = 0; i < from->rank; i++)
        if (from->shape[i] == 0 || from->shape[i] > INT32_MAX)
            return fail(from, "1 to 2^31 - 1 in each dimension", message);
    if (!choose_dtype(from, row, request, &t, message) || !place(from, row, request, &t, message))
        return false;
    if (!run_check_size(from->name, t.shape[0], t.shape[1], t.shape[2], t.shape[3], t.dtype,
                        request, message) ||
        !run_tensor_make(to, t.dtype, 4, t.shape, message))
        return false;
    memcpy(to->stride, t.stride, sizeof to->stride);
    memcpy(to->file_shape, from->shape, from->rank * sizeof *from->shape);
    to->rank = from->rank;
    snprintf(to->name, sizeof to->name, "%.31s", name);
    return read_elements(from, row, request, to, message);
}

/* ----------------------------------------------------------------------------------------------
 * Names
 */

/* NULL with *known: a tensor that another operation or scheme has. */
static const view_name *find_name(const char *name, const run_request *request, bool *known)
{
    const scheme_entry *entry = request->settings.entry;

    *known = false;
    for (size_t i = 0; i < COUNT(names); i++) {
        const view_name *row = &names[i];
        if (strcmp(row->name, name) != 0)
            continue;
        *known = true;
        if ((row->ops >> request->op & 1u) &&
            (row->scheme == NULL || (entry != NULL && strcmp(row->scheme, entry->name) == 0)))
            return row;
    }
    return NULL;
}

static bool unknown_name(const char *name, const run_request *request, tensor_error *message)
{
    size_t length = (size_t)snprintf(message->line, sizeof message->line,
                                     "--input: no view for a tensor \"%.60s\"; %s takes", name,
                                     command_op_name(request->op));
    bool known;

    for (size_t i = 0; i < COUNT(names) && length < sizeof message->line; i++) {
        if (find_name(names[i].name, request, &known) == &names[i])
            length += (size_t)snprintf(message->line + length, sizeof message->line - length, " %s",
                                       names[i].name);
    }
    return false;
}

/* V is copied into a cache; a rotation without one has no use for it. */
static bool wanted(const view_name *row, const run_request *request)
{
    const bool appends = request->settings.plan.append != RHUMB_APPEND_NONE;

    return request->op != RHUMB_OP_ROTATE || appends ||
           (row->id != RHUMB_VIEW_V && row->id != RHUMB_VIEW_V_OUT && row->id != RHUMB_VIEW_K_OUT);
}

static bool take_one(const tensor *from, const char *name, const run_request *request,
                     run_tensors *tensors, tensor_error *message)
{
    bool known;
    const view_name *row = find_name(name, request, &known);
    const size_t length = strlen(tensors->unused);
    run_tensor *to;

    if (row == NULL && !known)
        return unknown_name(name, request, message);
    if (row == NULL || !wanted(row, request)) {
        snprintf(tensors->unused + length, sizeof tensors->unused - length, "%s%s",
                 length > 0 ? ", " : "", from->name);
        return true;
    }
    to = &tensors->view[row->id];
    if (to->present) {
        snprintf(message->line, sizeof message->line,
                 "--input: wanted one of %s and %s, as they are the same view, found both",
                 to->name, name);
        return false;
    }
    return take(from, name, row, request, to, message);
}

bool run_take_views(const tensor_list *list, const run_request *request, run_tensors *tensors,
                    tensor_error *message)
{
    for (size_t i = 0; i < list->count; i++) {
        const char *name = list->items[i].name;
        const bool in = strncmp(name, "in.", 3) == 0, out = strncmp(name, "out.", 4) == 0;
        tensors->dotted = tensors->dotted || in || out;
        if (!out && !take_one(&list->items[i], name + (in ? 3 : 0), request, tensors, message))
            return false;
    }
    return true;
}
