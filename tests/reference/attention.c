/* Attention, straight from its definition:
 *
 *     S_aj = scale * q_a . k_j        P_aj = exp S_aj / sum of exp S_aj' over the visible keys
 *     O_a  = sum of P_aj v_j          visible: see ref_attention in reference.h
 *
 * a is the query row, j the key column; positions of both come from ref_order. The mask's element
 * and the terms of relative.h, where there are any, are parts of S. A sink is one of the logits of
 * the sum, without a value.
 */
#include "terms.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* What is fixed for one batch entry. */
typedef struct batch_view {
    uint32_t b;
    int64_t q_length;
    int64_t k_length;
    int64_t q_offset;
} batch_view;

void ref_attention_init(ref_attention *attention, uint32_t batch, uint32_t heads, uint32_t q_rows,
                        uint32_t k_rows, uint32_t head_dim)
{
    memset(attention, 0, sizeof *attention);
    attention->batch = batch;
    attention->heads = heads;
    attention->kv_heads = heads;
    attention->q_rows = q_rows;
    attention->k_rows = k_rows;
    attention->head_dim = head_dim;
    attention->value_dim = head_dim;
    attention->scale = 1.0 / sqrt((double)head_dim);
    attention->order = REF_ORDER_INDEX;
    attention->window_left = REF_NO_WINDOW;
    attention->window_right = REF_NO_WINDOW;
    attention->q_offset = REF_UNSET;
}

static batch_view view_of(const ref_attention *t, uint32_t b)
{
    batch_view view;
    int32_t offset = t->q_offset;

    view.b = b;
    view.q_length = t->q_lengths != NULL ? t->q_lengths[b] : (int64_t)t->q_rows;
    view.k_length = t->k_lengths != NULL ? t->k_lengths[b] : (int64_t)t->k_rows;
    if (t->q_offsets != NULL && t->q_offsets[b] != REF_UNSET)
        offset = t->q_offsets[b];
    view.q_offset = offset != REF_UNSET ? offset : view.k_length - view.q_length;
    return view;
}

static int valid(const ref_attention *t)
{
    uint32_t b;

    if (t->heads == 0 || t->kv_heads == 0 || t->heads % t->kv_heads != 0 || t->head_dim == 0)
        return 0;
    if (t->q == NULL || t->k == NULL || (t->o != NULL && (t->v == NULL || t->value_dim == 0)))
        return 0;
    if (t->chunk < 0 || t->kept_keys < 0 || t->softcap < 0.0)
        return 0;
    if (t->order == REF_ORDER_POSITION && (t->positions_q == NULL || t->positions_k == NULL))
        return 0;
    if (t->mask != NULL) {
        const uint32_t full[4] = {t->batch, t->heads, t->q_rows, t->k_rows};
        for (b = 0; b < 4; b++)
            if (t->mask_shape[b] != 1 && t->mask_shape[b] != full[b])
                return 0;
    }
    for (b = 0; b < t->batch; b++) {
        const batch_view view = view_of(t, b);
        if (view.q_length < 0 || view.q_length > (int64_t)t->q_rows || view.k_length < 0 ||
            view.k_length > (int64_t)t->k_rows)
            return 0;
    }
    return 1;
}

/* The chunk of a position, rounded down. */
static int64_t chunk_of(int64_t position, int32_t chunk)
{
    return position >= 0 ? position / chunk : -((-position + chunk - 1) / chunk);
}

static int same_chunk(const ref_attention *t, int64_t pos_q, int64_t pos_k)
{
    return t->chunk == 0 || t->chunk == REF_NO_WINDOW ||
           chunk_of(pos_q, t->chunk) == chunk_of(pos_k, t->chunk);
}

/* pos_k - pos_q, and whether order, causality, window and chunk let row a see key j. */
static int in_reach(const ref_attention *t, const batch_view *view, uint32_t a, uint32_t j,
                    int64_t *delta)
{
    int64_t pos_q = (int64_t)a + view->q_offset, pos_k = j;

    if (t->order == REF_ORDER_POSITION) {
        pos_q = t->positions_q[(uint64_t)view->b * t->q_rows + a];
        pos_k = t->positions_k[(uint64_t)view->b * t->k_rows + j];
    }
    *delta = pos_k - pos_q;
    if (t->causal && pos_k > pos_q)
        return 0;
    if (t->window_right != REF_NO_WINDOW && pos_k - pos_q > t->window_right)
        return 0;
    if (pos_k >= 0 && pos_k < t->kept_keys && pos_k <= pos_q)
        return 1;
    if (t->window_left != REF_NO_WINDOW && pos_q - pos_k >= t->window_left)
        return 0;
    return same_chunk(t, pos_q, pos_k);
}

static double mask_element(const ref_attention *t, uint32_t b, uint32_t h, uint32_t a, uint32_t j)
{
    const uint32_t *n = t->mask_shape;
    uint64_t at = n[0] == 1 ? 0 : b;

    if (t->mask == NULL)
        return 0.0;
    at = at * n[1] + (n[1] == 1 ? 0 : h);
    at = at * n[2] + (n[2] == 1 ? 0 : a);
    return t->mask[at * n[3] + (n[3] == 1 ? 0 : j)];
}

int ref_sees(const ref_attention *t, uint32_t b, uint32_t h, uint32_t a, uint32_t j)
{
    const batch_view view = view_of(t, b);
    int64_t delta;

    return a < view.q_length && j < view.k_length && in_reach(t, &view, a, j, &delta) &&
           mask_element(t, b, h, a, j) > -1e30;
}

/* What row a of a batch entry shares between its heads; arrays of k_rows. */
typedef struct row_view {
    int64_t *deltas;
    int64_t *rows; /* of the terms' tables */
    int64_t *c_rows;
    unsigned char *reached;
    unsigned char *seen; /* reached and not masked: of one head */
    double *weights;
} row_view;

/* -1 for a pair whose logit is wanted and whose row does not exist. */
static int view_row(const ref_attention *t, const batch_view *view, uint32_t a, row_view *r)
{
    int64_t j;

    for (j = 0; j < view->k_length; j++) {
        r->reached[j] = (unsigned char)in_reach(t, view, a, (uint32_t)j, &r->deltas[j]);
        if ((r->reached[j] || t->scores != NULL) &&
            ref_terms_rows(t->terms, r->deltas[j], view->b, &r->rows[j], &r->c_rows[j]) != 0)
            return -1;
    }
    return 0;
}

/* Softmax over the visible keys of one row and its sink (-infinity: none), in place of the keys'
 * logits. Returns the log of the sum. */
static double normalise(double *weights, const unsigned char *seen, int64_t k_length, double sink)
{
    double most = sink, sum;
    int64_t j;

    for (j = 0; j < k_length; j++)
        if (seen[j] && weights[j] > most)
            most = weights[j];
    if (isinf(most) && most < 0.0)
        return most;
    sum = exp(sink - most);
    for (j = 0; j < k_length; j++)
        sum += seen[j] ? weights[j] = exp(weights[j] - most) : 0.0;
    for (j = 0; j < k_length; j++)
        weights[j] /= sum;
    return most + log(sum);
}

/* S of the row, where it is wanted. */
static void row_logits(const ref_attention *t, const batch_view *view, uint32_t h, uint32_t a,
                      const double *q, const double *k, const row_view *r)
{
    double *scores = NULL;
    int64_t j;

    if (t->scores != NULL)
        scores = t->scores + (((uint64_t)view->b * t->heads + h) * t->q_rows + a) * t->k_rows;
    for (j = 0; j < view->k_length; j++) {
        const double mask = mask_element(t, view->b, h, a, (uint32_t)j);
        const ref_pair_place place = {view->b, h, (uint32_t)j, r->deltas[j], view->k_length};
        r->seen[j] = r->reached[j] && mask > -1e30;
        if (r->seen[j] || scores != NULL)
            r->weights[j] = ref_terms_logit(t, &place, a, r->rows[j], r->c_rows[j], q,
                                            k + (uint64_t)j * t->head_dim);
        if (scores != NULL)
            scores[j] = r->weights[j];
        if (r->seen[j])
            r->weights[j] += mask;
    }
}

static void attend_row(const ref_attention *t, const batch_view *view, uint32_t h, uint32_t a,
                       const double *q, const row_view *r)
{
    const uint64_t kv = (uint64_t)view->b * t->kv_heads + (uint64_t)h * t->kv_heads / t->heads;
    const uint64_t row = ((uint64_t)view->b * t->heads + h) * t->q_rows + a;
    const double *k = t->k + kv * t->k_rows * t->head_dim;
    const double sink = t->sinks != NULL ? t->sinks[h] : -(double)INFINITY;
    double lse;
    int64_t j;
    uint32_t d;

    row_logits(t, view, h, a, q, k, r);
    lse = normalise(r->weights, r->seen, view->k_length, sink);
    if (t->lse != NULL)
        t->lse[row] = lse;
    for (d = 0; t->o != NULL && d < t->value_dim; d++)
        t->o[row * t->value_dim + d] = 0.0;
    for (j = 0; t->o != NULL && j < view->k_length; j++) {
        const double *v = t->v + (kv * t->k_rows + (uint64_t)j) * t->value_dim;
        for (d = 0; r->seen[j] && d < t->value_dim; d++)
            t->o[row * t->value_dim + d] +=
                r->weights[j] * (v[d] + ref_terms_value(t->terms, h, r->rows[j], d));
    }
}

/* Q turned to its positions. */
static int rotate_queries(const ref_attention *t, double *q)
{
    const uint64_t row_count = (uint64_t)t->batch * t->q_rows;
    int32_t *positions = malloc((size_t)(row_count + 1) * sizeof *positions);
    int result = positions != NULL ? 0 : -1;
    uint32_t b, a;

    for (b = 0; result == 0 && t->positions_q == NULL && b < t->batch; b++) {
        const batch_view view = view_of(t, b);
        for (a = 0; a < t->q_rows; a++)
            positions[(uint64_t)b * t->q_rows + a] = (int32_t)(view.q_offset + a);
    }
    if (result == 0)
        result = ref_rotate(t->rotary, t->batch, t->heads, t->q_rows, t->head_dim,
                            t->positions_q != NULL ? t->positions_q : positions, 0, t->q, q);
    free(positions);
    return result;
}

/* Q as it meets the keys; NULL without memory or for positions or a rope that do not exist. */
static double *make_queries(const ref_attention *t)
{
    const uint64_t rows = (uint64_t)t->batch * t->heads * t->q_rows, count = rows * t->head_dim;
    double *q = malloc((size_t)(count + 1) * sizeof *q);
    uint64_t i;

    if (q != NULL && t->rotary == NULL)
        memcpy(q, t->q, (size_t)count * sizeof *q);
    if (q != NULL && t->rotary != NULL && rotate_queries(t, q) != 0) {
        free(q);
        return NULL;
    }
    for (i = 0; q != NULL && t->row_scale != NULL && i < count; i++)
        q[i] *= t->row_scale[i / t->head_dim];
    return q;
}

static int make_row_view(row_view *r, uint32_t k_rows)
{
    const size_t count = (size_t)k_rows + 1;

    r->deltas = calloc(count, sizeof *r->deltas);
    r->rows = calloc(count, sizeof *r->rows);
    r->c_rows = calloc(count, sizeof *r->c_rows);
    r->reached = calloc(count, 1);
    r->seen = calloc(count, 1);
    r->weights = calloc(count, sizeof *r->weights);
    return r->deltas != NULL && r->rows != NULL && r->c_rows != NULL && r->reached != NULL &&
                   r->seen != NULL && r->weights != NULL
               ? 0
               : -1;
}

static void free_row_view(row_view *r)
{
    free(r->deltas);
    free(r->rows);
    free(r->c_rows);
    free(r->reached);
    free(r->seen);
    free(r->weights);
}

/* All rows; with `check` only whether each has what it needs. */
static int attend_rows(const ref_attention *t, const double *q, row_view *r, int check)
{
    uint32_t b, h;
    int64_t a;

    for (b = 0; b < t->batch; b++) {
        const batch_view view = view_of(t, b);
        for (a = 0; a < view.q_length; a++) {
            if (view_row(t, &view, (uint32_t)a, r) != 0)
                return -1;
            for (h = 0; !check && h < t->heads; h++) {
                const uint64_t row = ((uint64_t)b * t->heads + h) * t->q_rows + (uint64_t)a;
                attend_row(t, &view, h, (uint32_t)a, q + row * t->head_dim, r);
            }
        }
    }
    return 0;
}

int ref_attend(const ref_attention *t)
{
    row_view r = {NULL, NULL, NULL, NULL, NULL, NULL};
    double *q;
    int result = -1;

    if (!valid(t))
        return -1;
    q = make_queries(t);
    if (q == NULL)
        return -1;
    if (make_row_view(&r, t->k_rows) == 0 && attend_rows(t, q, &r, 1) == 0)
        result = attend_rows(t, q, &r, 0);
    free(q);
    free_row_view(&r);
    return result;
}
