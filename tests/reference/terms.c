/* The form of relative.h, term by term. */
#include "terms.h"

#include <math.h>
#include <stddef.h>

/* NULL where the pair has no row. */
static const double *row_of(const ref_table *table, uint32_t h, int64_t row)
{
    if (table->data == NULL || row == REF_ROW_NONE)
        return NULL;
    return table->data + h * table->head_stride + (uint64_t)row * table->row_stride;
}

static int one_row(const ref_terms *terms, int64_t delta, uint32_t b, int64_t *row)
{
    *row = terms->row(terms->row_user, delta, b);
    return *row == REF_ROW_NONE || (*row >= 0 && *row < (int64_t)terms->rows) ? 0 : -1;
}

int ref_terms_rows(const ref_terms *terms, int64_t delta, uint32_t b, int64_t *row, int64_t *c_row)
{
    *row = *c_row = REF_ROW_NONE;
    if (terms == NULL || terms->row == NULL)
        return 0;
    if (one_row(terms, delta, b, row) != 0)
        return -1;
    *c_row = *row;
    return terms->c_mirrored ? one_row(terms, -delta, b, c_row) : 0;
}

/* (x + shift) . y; shift and y may be NULL. */
static double product(const double *x, const double *shift, const double *y, uint32_t count)
{
    double sum = 0.0;
    uint32_t d;

    for (d = 0; y != NULL && d < count; d++)
        sum += (x[d] + (shift != NULL ? shift[d] : 0.0)) * y[d];
    return sum;
}

/* Row h of [heads, head_dim]. */
static const double *of_head(const double *vectors, uint32_t h, uint32_t head_dim)
{
    return vectors != NULL ? vectors + (uint64_t)h * head_dim : NULL;
}

static double scalar_terms(const ref_terms *terms, const ref_pair_place *place, double gate,
                           int64_t row)
{
    const double *b = row_of(&terms->b, place->h, row);
    double sum = b != NULL ? *b * terms->b_scale * gate : 0.0;

    if (terms->bias != NULL)
        sum += terms->bias(terms->bias_user, place);
    return sum;
}

static double segment_term(const ref_attention *t, const ref_pair_place *place, uint32_t a,
                           const double *q)
{
    const ref_terms *terms = t->terms;
    int same;

    if (terms->g.data == NULL)
        return 0.0;
    same = terms->segments_q[(uint64_t)place->b * t->q_rows + a] ==
           terms->segments_k[(uint64_t)place->b * t->k_rows + place->j];
    return product(q, of_head(terms->z, place->h, t->head_dim),
                   row_of(&terms->g, place->h, same ? 0 : 1), t->head_dim);
}

static double capped(const ref_attention *t, double logit)
{
    if (t->softcap == 0.0 || isinf(t->softcap))
        return logit;
    return t->softcap * tanh(logit / t->softcap);
}

double ref_terms_logit(const ref_attention *t, const ref_pair_place *place, uint32_t a, int64_t row,
                       int64_t c_row, const double *q, const double *k)
{
    const ref_terms *terms = t->terms;
    const uint32_t h = place->h, n = t->head_dim;
    const double *r;
    double sum, scalars, gate = 1.0;

    if (terms == NULL)
        return capped(t, t->scale * product(q, NULL, k, n));
    r = row_of(&terms->r, h, row);
    sum = product(q, of_head(terms->u, h, n), k, n);
    sum += product(q, of_head(terms->w, h, n), row_of(&terms->a, h, row), n);
    sum += product(k, NULL, row_of(&terms->c, h, c_row), n);
    sum += (r != NULL ? *r : 0.0) + segment_term(t, place, a, q);
    if (terms->gate != NULL)
        gate = terms->gate[((uint64_t)place->b * t->heads + h) * t->q_rows + a];
    scalars = scalar_terms(terms, place, gate, row) * (terms->bias_inside ? t->scale : 1.0);
    sum *= t->scale;
    return t->bias_after_softcap ? capped(t, sum) + scalars : capped(t, sum + scalars);
}

double ref_terms_value(const ref_terms *terms, uint32_t h, int64_t row, uint32_t d)
{
    const double *v = terms != NULL ? row_of(&terms->v, h, row) : NULL;

    return v != NULL ? v[d] : 0.0;
}

int ref_bias(const ref_terms *terms, uint32_t heads, uint32_t q_rows, uint32_t k_rows,
             int32_t q_offset, double *bias)
{
    uint32_t h, a, j;
    int64_t row, c_row;

    for (a = 0; a < q_rows; a++)
        for (j = 0; j < k_rows; j++)
            if (ref_terms_rows(terms, (int64_t)j - a - q_offset, 0, &row, &c_row) != 0)
                return -1;
    for (a = 0; a < q_rows; a++) {
        for (j = 0; j < k_rows; j++) {
            const int64_t delta = (int64_t)j - a - q_offset;
            ref_terms_rows(terms, delta, 0, &row, &c_row);
            for (h = 0; h < heads; h++) {
                const ref_pair_place place = {0, h, j, delta, k_rows};
                bias[((uint64_t)h * q_rows + a) * k_rows + j] =
                    scalar_terms(terms, &place, 1.0, row);
            }
        }
    }
    return 0;
}
