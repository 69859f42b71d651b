/* Attention, straight from its definition:
 *
 *     S_aj = scale * q_a . k_j        P_aj = exp S_aj / sum of exp S_aj' over the visible keys
 *     O_a  = sum of P_aj v_j          visible: see ref_attention in reference.h
 *
 * a is the query row, j the key column; positions of both come from ref_order.
 */
#include "reference.h"

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
    if (t->order == REF_ORDER_POSITION && (t->positions_q == NULL || t->positions_k == NULL))
        return 0;
    for (b = 0; b < t->batch; b++) {
        const batch_view view = view_of(t, b);
        if (view.q_length < 0 || view.q_length > (int64_t)t->q_rows || view.k_length < 0 ||
            view.k_length > (int64_t)t->k_rows)
            return 0;
    }
    return 1;
}

static int visible(const ref_attention *t, const batch_view *view, uint32_t a, uint32_t j)
{
    int64_t pos_q = (int64_t)a + view->q_offset, pos_k = j;

    if (t->order == REF_ORDER_POSITION) {
        pos_q = t->positions_q[(uint64_t)view->b * t->q_rows + a];
        pos_k = t->positions_k[(uint64_t)view->b * t->k_rows + j];
    }
    if (t->causal && pos_k > pos_q)
        return 0;
    if (t->window_left != REF_NO_WINDOW && pos_q - pos_k >= t->window_left)
        return 0;
    return t->window_right == REF_NO_WINDOW || pos_k - pos_q <= t->window_right;
}

/* S of one pair. The terms of the relative schemes join here. */
static double logit(const ref_attention *t, const double *q, const double *k)
{
    double sum = 0.0;
    uint32_t d;

    for (d = 0; d < t->head_dim; d++)
        sum += q[d] * k[d];
    return t->scale * sum;
}

/* Softmax over the visible keys of one row, in place of their logits. Returns the log of the sum.
 */
static double normalise(double *weights, const unsigned char *seen, int64_t k_length)
{
    double most = -(double)INFINITY, sum = 0.0;
    int64_t j;

    for (j = 0; j < k_length; j++)
        if (seen[j] && weights[j] > most)
            most = weights[j];
    for (j = 0; j < k_length; j++)
        sum += seen[j] ? weights[j] = exp(weights[j] - most) : 0.0;
    for (j = 0; j < k_length; j++)
        weights[j] /= sum;
    return most + log(sum);
}

static void attend_row(const ref_attention *t, const batch_view *view, uint32_t h, uint32_t a,
                       const double *q, double *weights, unsigned char *seen)
{
    const uint64_t kv = (uint64_t)view->b * t->kv_heads + (uint64_t)h * t->kv_heads / t->heads;
    const uint64_t row = ((uint64_t)view->b * t->heads + h) * t->q_rows + a;
    const double *k = t->k + kv * t->k_rows * t->head_dim;
    double lse = -(double)INFINITY;
    int64_t j, visible_count = 0;
    uint32_t d;

    for (j = 0; j < view->k_length; j++) {
        seen[j] = (unsigned char)visible(t, view, a, (uint32_t)j);
        visible_count += seen[j];
        if (seen[j] || t->scores != NULL)
            weights[j] = logit(t, q, k + (uint64_t)j * t->head_dim);
    }
    if (t->scores != NULL)
        memcpy(t->scores + row * t->k_rows, weights, (size_t)view->k_length * sizeof *weights);
    if (visible_count > 0)
        lse = normalise(weights, seen, view->k_length);
    if (t->lse != NULL)
        t->lse[row] = lse;
    for (d = 0; t->o != NULL && d < t->value_dim; d++)
        t->o[row * t->value_dim + d] = 0.0;
    for (j = 0; t->o != NULL && j < view->k_length; j++) {
        const double *v = t->v + (kv * t->k_rows + (uint64_t)j) * t->value_dim;
        for (d = 0; seen[j] && d < t->value_dim; d++)
            t->o[row * t->value_dim + d] += weights[j] * v[d];
    }
}

/* Q turned to its positions; NULL without memory or for positions or a rope that do not exist. */
static double *rotated_queries(const ref_attention *t)
{
    const uint64_t count = (uint64_t)t->batch * t->heads * t->q_rows * t->head_dim;
    const uint64_t row_count = (uint64_t)t->batch * t->q_rows;
    double *q = malloc((size_t)(count + 1) * sizeof *q);
    int32_t *positions = malloc((size_t)(row_count + 1) * sizeof *positions);
    int result = q != NULL && positions != NULL ? 0 : -1;
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
    if (result != 0) {
        free(q);
        return NULL;
    }
    return q;
}

int ref_attend(const ref_attention *t)
{
    double *rotated = NULL, *weights = NULL;
    unsigned char *seen = NULL;
    const double *q = t->q;
    int result = -1;
    uint32_t b, h;

    if (!valid(t))
        return -1;
    if (t->rotary != NULL) {
        rotated = rotated_queries(t);
        if (rotated == NULL)
            goto fail;
        q = rotated;
    }
    weights = calloc((size_t)t->k_rows + 1, sizeof *weights);
    seen = calloc((size_t)t->k_rows + 1, 1);
    if (weights == NULL || seen == NULL)
        goto fail;
    for (b = 0; b < t->batch; b++) {
        const batch_view view = view_of(t, b);
        for (h = 0; h < t->heads; h++) {
            const double *head = q + ((uint64_t)b * t->heads + h) * t->q_rows * t->head_dim;
            int64_t a;
            for (a = 0; a < view.q_length; a++)
                attend_row(t, &view, h, (uint32_t)a, head + (uint64_t)a * t->head_dim, weights,
                           seen);
        }
    }
    result = 0;

fail:
    free(rotated);
    free(weights);
    free(seen);
    return result;
}
