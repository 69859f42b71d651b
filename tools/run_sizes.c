/* What follows from the tensors and the scheme: sizes of the plan, and shapes of the results. */
#include "run_model.h"

#include "command_line.h"

#include <stdio.h>

const void *run_rotary(const run_request *request)
{
    return run_settings_rotary(&request->settings);
}

uint32_t run_axes(const run_request *request)
{
    const rhumb_header *rotary = run_rotary(request);
    const rhumb_mrope *mrope = (const rhumb_mrope *)(const void *)rotary;

    if (rotary == NULL || (rotary->type != RHUMB_TYPE_MROPE && rotary->type != RHUMB_TYPE_ROPE2D))
        return 1;
    if (rotary->type == RHUMB_TYPE_ROPE2D)
        return 2;
    return mrope->order == RHUMB_MROPE_INTERLEAVED_EXTRA || mrope->sections[3] != 0 ? 4 : 3;
}

int32_t run_first_position(const run_request *request)
{
    const run_plan *p = &request->settings.plan;
    const bool with_keys = request->op != RHUMB_OP_ROTATE;

    if (p->q_offset != RHUMB_UNSET)
        return p->q_offset;
    return with_keys ? (int32_t)((int64_t)p->k_len - (int64_t)p->q_len) : 0;
}

/* ----------------------------------------------------------------------------------------------
 * Grids and windows of a scheme
 */
typedef struct grid {
    bool present; /* ENCODE covers a grid */
    bool image;   /* [B, D, H, W] */
    bool windows;
    uint32_t rows; /* tokens of the grid with its prefix; of a window */
    uint32_t sides[2];
    uint32_t count;  /* windows of a batch entry */
    uint32_t biases; /* windows of BIAS */
    uint32_t table_rows;
} grid;

static void read_windows(const uint32_t window[2], const uint32_t whole[2], const uint32_t shift[2],
                         uint32_t prefix, grid *g)
{
    const bool gridded = whole[0] != 0 && window[0] != 0 && window[1] != 0;

    g->windows = true;
    g->rows = prefix + window[0] * window[1];
    g->table_rows = (2 * window[0] - 1) * (2 * window[1] - 1);
    g->count =
        gridded ? (whole[0] + window[0] - 1) / window[0] * ((whole[1] + window[1] - 1) / window[1])
                : 1;
    g->biases = shift[0] != 0 || shift[1] != 0 ? g->count : 1;
}

static grid grid_of(const run_request *request)
{
    const rhumb_header *scheme = request->settings.scheme;
    grid g = {.count = 1, .biases = 1};

    switch (scheme != NULL ? scheme->type : 0) {
    case RHUMB_TYPE_SINUSOIDAL2D: {
        const rhumb_sinusoidal2d *s = request->settings.scheme;
        g.present = true;
        g.image = s->output == RHUMB_OUTPUT_IMAGE;
        memcpy(g.sides, s->grid, sizeof g.sides);
        g.rows = s->prefix_tokens + s->grid[0] * s->grid[1];
        break;
    }
    case RHUMB_TYPE_LEARNED2D: {
        const rhumb_learned2d *s = request->settings.scheme;
        g.present = true;
        g.image = s->output == RHUMB_OUTPUT_IMAGE;
        memcpy(g.sides, s->grid, sizeof g.sides);
        g.rows = s->prefix_tokens + s->grid[0] * s->grid[1];
        break;
    }
    case RHUMB_TYPE_SWIN: {
        const rhumb_swin *s = request->settings.scheme;
        read_windows(s->window, s->grid, s->shift, s->prefix_tokens, &g);
        break;
    }
    case RHUMB_TYPE_SWIN_V2: {
        const rhumb_swin_v2 *s = request->settings.scheme;
        read_windows(s->window, s->grid, s->shift, 0, &g);
        break;
    }
    default: break;
    }
    /* sides of 0 are refused by the library, in its own words */
    if ((g.present || g.windows) && g.rows == 0)
        g.rows = 1;
    return g;
}

/* ----------------------------------------------------------------------------------------------
 * Sizes
 */
static uint32_t size_of(const run_tensors *t, rhumb_view_id id, uint32_t dimension)
{
    return t->view[id].present ? (uint32_t)t->view[id].shape[dimension] : 0;
}

static uint32_t first_of(uint32_t a, uint32_t b)
{
    return a != 0 ? a : b;
}

static void find_logits(const run_tensors *t, run_plan *p)
{
    p->batch = first_of(size_of(t, RHUMB_VIEW_Q, 0), size_of(t, RHUMB_VIEW_K, 0));
    p->heads = first_of(size_of(t, RHUMB_VIEW_Q, 1), size_of(t, RHUMB_VIEW_K, 1));
    p->kv_heads = size_of(t, RHUMB_VIEW_K, 1);
    p->head_dim = first_of(size_of(t, RHUMB_VIEW_Q, 3), size_of(t, RHUMB_VIEW_K, 3));
    p->value_dim = size_of(t, RHUMB_VIEW_V, 3);
    p->q_len = first_of(size_of(t, RHUMB_VIEW_Q, 2), size_of(t, RHUMB_VIEW_K, 2));
    p->k_len = size_of(t, RHUMB_VIEW_K, 2);
}

static void find_bias(const run_tensors *t, const grid *g, run_plan *p)
{
    p->heads = size_of(t, RHUMB_VIEW_TABLE, 3);
    p->q_len = first_of(size_of(t, RHUMB_VIEW_POSITIONS_Q, 3), g->windows ? g->rows : 0);
    p->k_len = first_of(size_of(t, RHUMB_VIEW_POSITIONS_K, 3), g->windows ? g->rows : 0);
}

static void find_encoding(const run_request *request, const run_tensors *t, const grid *g,
                          run_plan *p)
{
    const rhumb_header *scheme = request->settings.scheme;
    const rhumb_learned2d *learned = request->settings.scheme;
    const bool halves =
        scheme->type == RHUMB_TYPE_LEARNED2D && learned->form == RHUMB_LEARNED2D_CONCAT;

    p->heads = 1;
    p->batch = first_of(size_of(t, RHUMB_VIEW_X, 0), first_of(size_of(t, RHUMB_VIEW_POSITIONS, 2),
                                                              size_of(t, RHUMB_VIEW_VALID, 1)));
    p->head_dim = first_of(size_of(t, RHUMB_VIEW_X, g->image ? 1 : 3),
                           size_of(t, RHUMB_VIEW_TABLE, 3) * (halves ? 2 : 1));
    if (g->present)
        p->q_len = g->rows;
    else if (g->windows)
        p->q_len = g->table_rows;
    else
        p->q_len = first_of(size_of(t, RHUMB_VIEW_X, 2), size_of(t, RHUMB_VIEW_POSITIONS, 3));
    if (g->windows)
        p->head_dim = 2; /* coordinates of an offset */
}

static void find_projection(const run_request *request, const run_tensors *t, const grid *g,
                            run_plan *p)
{
    const bool in_out = request->settings.plan.weight_layout == RHUMB_WEIGHT_IN_OUT;

    p->value_dim = size_of(t, RHUMB_VIEW_X, g->windows ? 2 : 3);
    p->q_len = g->windows ? 1 : size_of(t, RHUMB_VIEW_X, 2);
    p->heads = size_of(t, RHUMB_VIEW_WEIGHT, g->windows || in_out ? 2 : 1);
    p->head_dim = g->windows ? 1 : size_of(t, RHUMB_VIEW_WEIGHT, in_out ? 3 : 2);
}

static void find_sizes(const run_request *request, const run_tensors *t, const grid *g,
                       run_plan *found)
{
    memset(found, 0, sizeof *found);
    switch (request->op) {
    case RHUMB_OP_BIAS: find_bias(t, g, found); break;
    case RHUMB_OP_ENCODE: find_encoding(request, t, g, found); break;
    case RHUMB_OP_RESIZE:
        found->heads = 1;
        found->head_dim = size_of(t, RHUMB_VIEW_TABLE, 3);
        found->q_len = 1;
        break;
    case RHUMB_OP_PROJECT: find_projection(request, t, g, found); break;
    default: find_logits(t, found); break;
    }
}

/* `otherwise` 0: somebody must say it. */
static bool settle(const char *name, uint32_t *given, uint32_t found, uint32_t otherwise,
                   tensor_error *message)
{
    if (*given != 0 && found != 0 && *given != found) {
        snprintf(message->line, sizeof message->line,
                 "--params: %s: wanted %u, as the tensors and the scheme have it, found %u", name,
                 found, *given);
        return false;
    }
    if (*given == 0)
        *given = found != 0 ? found : otherwise;
    if (*given == 0)
        snprintf(message->line, sizeof message->line,
                 "--params: %s: wanted a number, as no tensor says it, found none", name);
    return *given != 0;
}

static bool settle_sizes(run_request *request, const run_plan *f, tensor_error *message)
{
    const bool with_keys = request->op == RHUMB_OP_ATTENTION || request->op == RHUMB_OP_SCORES ||
                           request->op == RHUMB_OP_BIAS;
    run_plan *p = &request->settings.plan;

    return settle("batch", &p->batch, f->batch, 1, message) &&
           settle("heads", &p->heads, f->heads, 0, message) &&
           settle("kv_heads", &p->kv_heads, f->kv_heads, p->heads, message) &&
           settle("head_dim", &p->head_dim, f->head_dim, request->op == RHUMB_OP_BIAS, message) &&
           settle("value_dim", &p->value_dim, f->value_dim, p->head_dim, message) &&
           settle("q_len", &p->q_len, f->q_len, 0, message) &&
           settle("k_len", &p->k_len, f->k_len, with_keys ? 0 : p->q_len, message);
}

/* ----------------------------------------------------------------------------------------------
 * Results
 */
static rhumb_dtype result_dtype(const run_request *request, const run_tensors *t)
{
    static const rhumb_view_id ids[] = {RHUMB_VIEW_Q, RHUMB_VIEW_K, RHUMB_VIEW_TABLE};

    for (size_t i = 0; i < sizeof ids / sizeof *ids; i++)
        if (t->view[ids[i]].present)
            return t->view[ids[i]].dtype;
    return request->dtype_given ? request->dtype : RHUMB_F32;
}

static bool make(run_tensors *t, rhumb_view_id id, const char *name, rhumb_dtype dtype,
                 uint32_t rank, const uint64_t shape[4], const run_request *request,
                 tensor_error *message)
{
    run_tensor *to = &t->view[id];

    if (!run_check_size(name, shape[0], shape[1], shape[2], shape[3], dtype, request, message) ||
        !run_tensor_make(to, dtype, rank, shape, message))
        return false;
    snprintf(to->name, sizeof to->name, "%s", name);
    return true;
}

/* A result of ROTATE: the rows, or a cache that is there or made. */
static bool make_rotated(const run_request *request, run_tensors *t, rhumb_view_id in,
                         rhumb_view_id out, tensor_error *message)
{
    const run_plan *p = &request->settings.plan;
    const run_tensor *from = &t->view[in];
    const bool cached = p->append != RHUMB_APPEND_NONE && in != RHUMB_VIEW_Q;
    uint64_t shape[4];

    if (!from->present)
        return true;
    if (t->view[out].present) {
        memcpy(t->view[out].name, from->name, sizeof from->name);
        return true;
    }
    memcpy(shape, from->shape, sizeof shape);
    if (cached && p->capacity == 0) {
        snprintf(message->line, sizeof message->line,
                 "--params: capacity: wanted a number, as no tensor k_out has a cache, found none");
        return false;
    }
    if (cached)
        shape[2] = p->capacity;
    return make(t, out, strcmp(from->name, "x") == 0 ? "y" : from->name, from->dtype, from->rank,
                shape, request, message);
}

static bool make_encoded(const run_request *request, run_tensors *t, const grid *g,
                         tensor_error *message)
{
    const run_plan *p = &request->settings.plan;
    const run_tensor *x = &t->view[RHUMB_VIEW_X], *positions = &t->view[RHUMB_VIEW_POSITIONS];
    const bool batched =
        p->batch > 1 || x->present || t->view[RHUMB_VIEW_VALID].present || positions->rank > 1;
    const uint64_t tokens[4] = {p->batch, 1, p->q_len, p->head_dim};
    const uint64_t image[4] = {p->batch, p->head_dim, g->sides[0], g->sides[1]};
    const uint64_t rows[3] = {p->batch, p->q_len, p->head_dim};
    const uint32_t rank = x->present ? x->rank : (uint32_t)(g->image ? 3 : 2) + batched;
    run_tensor *y = &t->view[RHUMB_VIEW_Y];

    if (x->present) {
        /* not Y's by id: X and Q are one, Y and O are one */
        if (!make(t, RHUMB_VIEW_Y, "y", x->dtype, 4, x->shape, request, message))
            return false;
        memcpy(y->file_shape, x->file_shape, sizeof y->file_shape);
        y->rank = x->rank;
        return true;
    }
    if (!make(t, RHUMB_VIEW_Y, "table", result_dtype(request, t), g->image ? rank : 4,
              g->image ? image : tokens, request, message))
        return false;
    if (!g->image) {
        y->rank = rank;
        memcpy(y->file_shape, rows + 3 - rank, rank * sizeof *rows);
    }
    return true;
}

static bool make_projected(const run_request *request, run_tensors *t, const grid *g,
                           tensor_error *message)
{
    const run_plan *p = &request->settings.plan;
    const rhumb_dtype dtype = result_dtype(request, t);
    const uint64_t y[4] = {1, p->heads, p->q_len, p->head_dim};
    const uint64_t table[4] = {1, 1, g->table_rows, p->heads};
    const uint64_t scalar[4] = {1, 1, p->q_len, p->heads};

    if (g->windows)
        return make(t, RHUMB_VIEW_Y, "table", dtype, 2, table, request, message);
    if (t->view[RHUMB_VIEW_CONTENT_BIAS].present &&
        !make(t, RHUMB_VIEW_TABLE_SCALAR, "table_scalar", RHUMB_F32, 2, scalar, request, message))
        return false;
    return make(t, RHUMB_VIEW_Y, "y", dtype, 3, y, request, message);
}

static bool make_resized(const run_request *request, run_tensors *t, tensor_error *message)
{
    const rhumb_resize *r = request->settings.scheme;
    const uint64_t rows =
        (uint64_t)r->prefix_tokens + r->suffix_tokens + (uint64_t)r->new_grid[0] * r->new_grid[1];
    const uint64_t shape[4] = {1, 1, rows > 0 ? rows : 1, request->settings.plan.head_dim};

    return make(t, RHUMB_VIEW_Y, "table", result_dtype(request, t), 2, shape, request, message);
}

static bool make_results(const run_request *request, run_tensors *t, const grid *g,
                         tensor_error *message)
{
    const run_plan *p = &request->settings.plan;
    const rhumb_dtype dtype = result_dtype(request, t);
    const uint64_t q = g->windows ? g->rows : p->q_len, k = g->windows ? g->rows : p->k_len;
    const uint64_t o[4] = {p->batch, p->heads, p->q_len, p->value_dim};
    const uint64_t scores[4] = {(uint64_t)p->batch * g->count, p->heads, q, k};
    const uint64_t bias[4] = {g->biases, p->heads, q, k};

    switch (request->op) {
    case RHUMB_OP_ROTATE:
        return make_rotated(request, t, RHUMB_VIEW_Q, RHUMB_VIEW_Q_OUT, message) &&
               make_rotated(request, t, RHUMB_VIEW_K, RHUMB_VIEW_K_OUT, message) &&
               make_rotated(request, t, RHUMB_VIEW_V, RHUMB_VIEW_V_OUT, message);
    case RHUMB_OP_ATTENTION:
        return make(t, RHUMB_VIEW_O, "o", dtype, t->view[RHUMB_VIEW_Q].rank, o, request, message);
    case RHUMB_OP_SCORES:
        return make(t, RHUMB_VIEW_O, "scores", dtype, 4, scores, request, message);
    case RHUMB_OP_BIAS:
        return make(t, RHUMB_VIEW_O, "bias", dtype, g->biases > 1 ? 4 : 3, bias, request, message);
    case RHUMB_OP_ENCODE: return make_encoded(request, t, g, message);
    case RHUMB_OP_RESIZE: return make_resized(request, t, message);
    default: return make_projected(request, t, g, message);
    }
}

uint32_t run_results(const run_request *request, const run_tensors *t)
{
    uint32_t mask = RHUMB_VIEW_BIT(RHUMB_VIEW_O), present = 0;

    if (request->op == RHUMB_OP_ROTATE)
        mask = RHUMB_VIEW_BIT(RHUMB_VIEW_Q_OUT) | RHUMB_VIEW_BIT(RHUMB_VIEW_K_OUT) |
               RHUMB_VIEW_BIT(RHUMB_VIEW_V_OUT);
    else if (request->op == RHUMB_OP_PROJECT)
        mask |= RHUMB_VIEW_BIT(RHUMB_VIEW_TABLE_SCALAR);
    for (uint32_t id = 0; id < RHUMB_VIEW_COUNT; id++)
        present |= t->view[id].present ? RHUMB_VIEW_BIT(id) : 0;
    return mask & present;
}

/* ----------------------------------------------------------------------------------------------
 * All of it
 */
static bool needs(const run_request *request, const run_tensors *t, rhumb_view_id id,
                  const char *name, tensor_error *message)
{
    if (t->view[id].present)
        return true;
    snprintf(message->line, sizeof message->line, "%s needs a tensor %s, there is none",
             command_op_name(request->op), name);
    return false;
}

static bool has_operands(const run_request *request, const run_tensors *t, tensor_error *message)
{
    switch (request->op) {
    case RHUMB_OP_ROTATE:
        return t->view[RHUMB_VIEW_K].present ||
               needs(request, t, RHUMB_VIEW_Q, "q (or x, or k)", message);
    case RHUMB_OP_ATTENTION:
    case RHUMB_OP_SCORES:
        return needs(request, t, RHUMB_VIEW_Q, "q", message) &&
               needs(request, t, RHUMB_VIEW_K, "k", message) &&
               (request->op == RHUMB_OP_SCORES || needs(request, t, RHUMB_VIEW_V, "v", message));
    case RHUMB_OP_RESIZE: return needs(request, t, RHUMB_VIEW_TABLE, "table", message);
    case RHUMB_OP_PROJECT:
        return needs(request, t, RHUMB_VIEW_X, "x", message) &&
               needs(request, t, RHUMB_VIEW_WEIGHT, "weight", message);
    default: return true;
    }
}

/* As for text: every axis has the row. */
static bool make_positions(const run_request *request, run_tensors *t, tensor_error *message)
{
    const uint32_t axes = run_axes(request);
    const uint64_t shape[4] = {1, axes, 1, request->settings.plan.q_len};
    run_tensor *positions = &t->view[RHUMB_VIEW_POSITIONS_Q];

    if (axes == 1 || positions->present)
        return true;
    if (strcmp(request->settings.entry->name, "rope2d") == 0)
        return needs(request, t, RHUMB_VIEW_POSITIONS_Q, "positions_q [2, L] (rows, columns)",
                     message);
    if (!run_tensor_make(positions, RHUMB_I32, 4, shape, message))
        return false;
    snprintf(positions->name, sizeof positions->name, "positions_q");
    ref_arange(axes, request->settings.plan.q_len, run_first_position(request), positions->data);
    return true;
}

bool run_complete(run_request *request, run_tensors *tensors, tensor_error *message)
{
    const grid g = grid_of(request);
    run_plan found;

    if (!has_operands(request, tensors, message))
        return false;
    find_sizes(request, tensors, &g, &found);
    return settle_sizes(request, &found, message) && make_positions(request, tensors, message) &&
           make_results(request, tensors, &g, message);
}
