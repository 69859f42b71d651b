/* Relative schemes whose terms come from a clamp, a bucket or a formula of the distance. Sources:
 * Shaw et al. 2018; Huang et al. 2018 (Music Transformer); Raffel et al. 2020 (T5); Press et al.
 * 2022 (ALiBi); Chi et al. 2022 (KERPLE); He et al. 2021 (DeBERTa).
 */
#include "relative.h"

#include <math.h>
#include <string.h>

static int64_t clamp(int64_t value, int64_t low, int64_t high)
{
    return value < low ? low : value > high ? high : value;
}

/* [rows, width], or [heads, rows, width]. */
static ref_table table_of(const double *data, int per_head, uint32_t rows, uint32_t width)
{
    const ref_table table = {data, per_head ? (uint64_t)rows * width : 0, width};

    return table;
}

void ref_terms_init(ref_terms *terms)
{
    memset(terms, 0, sizeof *terms);
    terms->b_scale = 1.0;
}

/* --------------------------------------------------------------------------------------------- */
static int64_t shaw_row(const void *user, int64_t delta, uint32_t b)
{
    const ref_shaw *s = user;
    const int64_t left = s->left, right = s->right;

    (void)b;
    if (s->index == REF_SHAW_BERT)
        return -delta + left >= 0 ? -delta + left : REF_ROW_INVALID;
    return clamp(s->index == REF_SHAW_KEY_MINUS_QUERY ? delta : -delta, -left, right) + left;
}

int ref_shaw_terms(const ref_shaw *s, uint32_t head_dim, uint32_t value_dim, ref_terms *terms)
{
    const uint32_t rows = s->left + s->right + 1;

    if (s->keys == NULL || (s->index == REF_SHAW_BERT && s->left != s->right) ||
        s->left > INT32_MAX / 2 || s->right > INT32_MAX / 2)
        return -1;
    ref_terms_init(terms);
    terms->row = shaw_row;
    terms->row_user = s;
    terms->rows = rows;
    terms->a = table_of(s->keys, s->per_head, rows, head_dim);
    if (s->key_side)
        terms->c = terms->a;
    terms->v = table_of(s->values, s->per_head, rows, value_dim);
    return 0;
}

/* --------------------------------------------------------------------------------------------- */
static int64_t music_row(const void *user, int64_t delta, uint32_t b)
{
    const ref_music *m = user;
    const int64_t most = m->most, last = m->two_sided ? most - 1 : 0;

    (void)b;
    if (delta <= -most || delta > last || (delta > 0 && !m->future))
        return REF_ROW_NONE;
    return delta + most - 1;
}

int ref_music_terms(const ref_music *m, uint32_t head_dim, uint32_t value_dim, ref_terms *terms)
{
    const uint32_t rows = m->two_sided ? 2 * m->most - 1 : m->most;

    if (m->keys == NULL || m->most == 0 || m->most > INT32_MAX / 2)
        return -1;
    ref_terms_init(terms);
    terms->row = music_row;
    terms->row_user = m;
    terms->rows = rows;
    terms->a = table_of(m->keys, m->per_head, rows, head_dim);
    terms->v = table_of(m->values, m->per_head, rows, value_dim);
    return 0;
}

/* --------------------------------------------------------------------------------------------- */
static int64_t t5_row(const void *user, int64_t delta, uint32_t b)
{
    (void)b;
    return ref_t5_bucket(user, delta);
}

int ref_t5_terms(const ref_t5 *t5, uint32_t heads, ref_terms *terms)
{
    if (t5->table == NULL || ref_t5_bucket(t5, 0) == REF_ROW_INVALID)
        return -1;
    ref_terms_init(terms);
    terms->row = t5_row;
    terms->row_user = t5;
    terms->rows = t5->buckets;
    terms->b.data = t5->table;
    terms->b.head_stride = 1;
    terms->b.row_stride = heads;
    terms->b_scale = t5->scale;
    terms->gate = t5->gate;
    return 0;
}

/* --------------------------------------------------------------------------------------------- */
int ref_alibi_slopes(int closed, uint32_t sloped, double most, uint32_t heads, double *slopes)
{
    uint32_t power = 1, h;

    if (sloped > heads || sloped > 65536 || !(most > 0.0))
        return -1;
    while (2 * power <= sloped)
        power *= 2;
    for (h = 0; h < heads; h++) {
        double exponent = most * (h + 1.0) / power;
        if (closed)
            exponent = most * (h + 1.0) / sloped;
        else if (h >= power)
            exponent = most * (2.0 * (h - power) + 1.0) / (2.0 * power);
        slopes[h] = h < sloped ? exp2(-exponent) : 0.0;
    }
    return 0;
}

static double alibi_bias(const void *user, const ref_pair_place *place)
{
    const ref_alibi *a = user;
    const double m = a->slopes[place->h], delta = (double)place->delta;

    switch (a->form) {
    case REF_ALIBI_SYMMETRIC:
        if (delta > 0.0 && a->slopes_right != NULL)
            return -a->slopes_right[place->h] * delta;
        return -m * fabs(delta);
    case REF_ALIBI_RELATIVE: return m * delta;
    case REF_ALIBI_KEY_INDEX: return m * place->j;
    case REF_ALIBI_LAST_KEY: return m * ((double)place->j - (double)(place->k_length - 1));
    case REF_ALIBI_KEY_POSITION: return m * a->positions[(uint64_t)place->b * a->k_rows + place->j];
    }
    return (double)NAN;
}

int ref_alibi_terms(const ref_alibi *a, ref_terms *terms)
{
    const int positions = a->form == REF_ALIBI_KEY_POSITION;

    if (a->slopes == NULL || positions != (a->positions != NULL) ||
        (a->slopes_right != NULL && a->form != REF_ALIBI_SYMMETRIC))
        return -1;
    ref_terms_init(terms);
    terms->bias = alibi_bias;
    terms->bias_user = a;
    terms->bias_inside = a->inside;
    return 0;
}

/* --------------------------------------------------------------------------------------------- */
static double kerple_bias(const void *user, const ref_pair_place *place)
{
    const ref_kerple *k = user;

    return -k->r1[place->h] * log1p(k->r2[place->h] * fabs((double)place->delta));
}

int ref_kerple_terms(const ref_kerple *k, ref_terms *terms)
{
    uint32_t h;

    for (h = 0; h < k->heads; h++)
        if (!(k->r1[h] > 0.0) || !(k->r2[h] > 0.0))
            return -1;
    ref_terms_init(terms);
    terms->bias = kerple_bias;
    terms->bias_user = k;
    return 0;
}

/* --------------------------------------------------------------------------------------------- */
static int64_t deberta_row(const void *user, int64_t delta, uint32_t b)
{
    const ref_deberta *d = user;
    const int64_t span = d->span, bucket = ref_deberta_bucket(d, -delta);

    (void)b;
    return bucket != REF_ROW_INVALID ? clamp(bucket + span, 0, 2 * span - 1) : REF_ROW_INVALID;
}

int ref_deberta_terms(const ref_deberta *d, uint32_t head_dim, ref_terms *terms)
{
    if (d->span == 0 || d->span > INT32_MAX / 2 || ref_deberta_bucket(d, 0) == REF_ROW_INVALID)
        return -1;
    ref_terms_init(terms);
    terms->row = deberta_row;
    terms->row_user = d;
    terms->rows = 2 * d->span;
    terms->a = table_of(d->pos_key, 1, terms->rows, head_dim);
    terms->c = table_of(d->pos_query, 1, terms->rows, head_dim);
    terms->c_mirrored = d->paper;
    return 0;
}
