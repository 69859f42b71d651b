/* The one-dimensional relative schemes of attention, as instances of one form. For query row i and
 * key j at their positions, delta = pos_k - pos_q, row = rho(delta):
 *
 *     S = s * ( (q + u) . k + (q + w) . A[row] + k . C[row] + r[row] + (q + z) . G[segment] )
 *         + b[row] * b_scale * gate[i] + f(h, i, j)
 *     O_i = sum over j of P_ij ( v_j + V[row] )
 *
 * A softcap is around all of S, or leaves out its second line: see ref_attention.
 *
 * A scheme only fills the fields of ref_terms. It is then passed in ref_attention.terms.
 */
#ifndef RHUMB_REFERENCE_RELATIVE_H
#define RHUMB_REFERENCE_RELATIVE_H

#include "reference.h"

#define REF_ROW_NONE (-1)         /* the pair has no row: its table terms are 0 */
#define REF_ROW_INVALID INT64_MIN /* the scheme has no answer: an error of the call */

/* Vectors, or single numbers, by head and row; all heads share one with head_stride 0. */
typedef struct ref_table {
    const double *data; /* NULL: no such term */
    uint64_t head_stride;
    uint64_t row_stride;
} ref_table;

/* One pair of query row and key. */
typedef struct ref_pair_place {
    uint32_t b;
    uint32_t h;
    uint32_t j; /* key column */
    int64_t delta;
    int64_t k_length; /* keys of the batch entry */
} ref_pair_place;

/* A row of the tables, REF_ROW_NONE or REF_ROW_INVALID. */
typedef int64_t (*ref_row_fn)(const void *user, int64_t delta, uint32_t b);
typedef double (*ref_bias_fn)(const void *user, const ref_pair_place *place);

struct ref_terms {
    ref_row_fn row; /* NULL: no table has a row */
    const void *row_user;
    uint32_t rows;   /* of every table; a row outside is an error of the call */
    const double *u; /* [heads, head_dim] each; or NULL: 0 */
    const double *w;
    const double *z;
    ref_table a; /* head_dim numbers a row */
    ref_table c;
    int c_mirrored; /* the row of C is that of -delta */
    ref_table r;    /* one number a row */
    ref_table b;
    double b_scale;
    const double *gate;        /* [batch, heads, q_rows]; or NULL: 1 */
    ref_table v;               /* value_dim numbers a row */
    ref_table g;               /* two rows: same segment, different ones */
    const int32_t *segments_q; /* [batch, q_rows] */
    const int32_t *segments_k; /* [batch, k_rows] */
    ref_bias_fn bias;          /* f; or NULL */
    const void *bias_user;
    int bias_inside; /* b and f are added before the scale instead of after it */
};

/* No term is on: plain attention. b_scale 1. */
void ref_terms_init(ref_terms *terms);

/* bias[h, a, j] = b[row] * b_scale + f of batch entry 0, without gate: [heads, q_rows, k_rows]. */
int ref_bias(const ref_terms *terms, uint32_t heads, uint32_t q_rows, uint32_t k_rows,
             int32_t q_offset, double *bias);

/* ------------------------------------------------------------------------------------------------
 * Shaw and BERT. Rows of the tables are head_dim numbers, one after the other.
 */
typedef enum ref_shaw_index {
    REF_SHAW_KEY_MINUS_QUERY = 0, /* clamp(delta, -left, right) + left */
    REF_SHAW_QUERY_MINUS_KEY,     /* clamp(-delta, -left, right) + left */
    REF_SHAW_BERT, /* -delta + left, left = right = P - 1; a larger distance is an error */
} ref_shaw_index;

typedef struct ref_shaw {
    ref_shaw_index index;
    uint32_t left;
    uint32_t right;
    int per_head;         /* the tables are [heads, left + right + 1, D] */
    const double *keys;   /* A */
    const double *values; /* V; or NULL */
    int key_side;         /* C is the same table as A */
} ref_shaw;

/* *shaw must live as long as *terms is used; so of every scheme below. */
int ref_shaw_terms(const ref_shaw *shaw, uint32_t head_dim, uint32_t value_dim, ref_terms *terms);

/* ------------------------------------------------------------------------------------------------
 * Music Transformer: row = delta + M - 1; no row beyond the table.
 */
typedef struct ref_music {
    uint32_t most; /* M */
    int two_sided; /* 2M - 1 rows instead of M */
    int future;    /* delta > 0 reads the table; otherwise it has no row */
    int per_head;
    const double *keys;
    const double *values; /* or NULL */
} ref_music;

int ref_music_terms(const ref_music *music, uint32_t head_dim, uint32_t value_dim,
                    ref_terms *terms);

/* ------------------------------------------------------------------------------------------------
 * T5
 */
typedef struct ref_t5 {
    int bidirectional;
    uint32_t buckets;    /* N: 4 to 2048 bidirectional, 2 to 1024 otherwise */
    uint32_t most;       /* largest distance Mx, above the exact buckets, to 2^31 - 1 */
    const double *table; /* [N, heads] */
    double scale;        /* of the table */
    const double *gate;  /* [batch, heads, q_rows]; or NULL */
} ref_t5;

/* The bucket of delta, exactly: whole numbers of any size are compared, no logarithm decides.
 * REF_ROW_INVALID for parameters outside their domain. */
int64_t ref_t5_bucket(const ref_t5 *t5, int64_t delta);

int ref_t5_terms(const ref_t5 *t5, uint32_t heads, ref_terms *terms);

/* ------------------------------------------------------------------------------------------------
 * ALiBi
 */
typedef enum ref_alibi_form {
    REF_ALIBI_SYMMETRIC = 0, /* -m |delta|, m of the left or of the right side */
    REF_ALIBI_RELATIVE,      /* m delta */
    REF_ALIBI_KEY_INDEX,     /* m j */
    REF_ALIBI_LAST_KEY,      /* m (j - (Lk - 1)) */
    REF_ALIBI_KEY_POSITION,  /* m positions[b, j] */
} ref_alibi_form;

typedef struct ref_alibi {
    ref_alibi_form form;
    const double *slopes;       /* [heads] */
    const double *slopes_right; /* symmetric, delta > 0; or NULL: slopes */
    const int32_t *positions;   /* [batch, k_rows], form KEY_POSITION */
    uint32_t k_rows;            /* of positions */
    int inside;                 /* before the scale */
} ref_alibi;

/* The slopes of `sloped` heads and 0 for the others. closed: 2^(-most (h + 1)/sloped); otherwise as
 * published: that for a power of two, and the odd members of the next series for what is left. */
int ref_alibi_slopes(int closed, uint32_t sloped, double most, uint32_t heads, double *slopes);

int ref_alibi_terms(const ref_alibi *alibi, ref_terms *terms);

/* ------------------------------------------------------------------------------------------------
 * KERPLE, logarithmic: -r1 ln(1 + r2 |delta|), r1 and r2 above 0 by head (Chi et al. 2022).
 */
typedef struct ref_kerple {
    uint32_t heads;
    const double *r1; /* [heads] */
    const double *r2;
} ref_kerple;

int ref_kerple_terms(const ref_kerple *kerple, ref_terms *terms);

/* ------------------------------------------------------------------------------------------------
 * Transformer-XL and XLNet. t is the distance -delta, with its sign changed (flip) for the second
 * half of the batch, and clamped. Keys of one number for every query (same_length) are a window.
 */
typedef struct ref_xl {
    int bidirectional; /* otherwise t < 0 has no row */
    int32_t clamp;     /* t to [-clamp, clamp]; 0 or less: no clamp */
    uint32_t flip;     /* batch entries from this one on take t = delta; UINT32_MAX: none */
    uint32_t rows;
    int32_t first;       /* t of row 0 of the projected table */
    int learned;         /* row max(rows - 1 - t, 0) instead of t - first; not bidirectional */
    ref_table positions; /* A */
    ref_table scalars;   /* r; data NULL: none */
    const double *u;     /* [heads, head_dim]; or NULL */
    const double *w;
} ref_xl;

/* The projection of the sinusoids of t = first ... first + rows - 1, base 10000: [heads, rows,
 * head_dim]. weights [heads * head_dim, width], or transposed [width, heads * head_dim]. The
 * sinusoid is all sines, then all cosines, or interleaved. width is even. */
int ref_xl_project(uint32_t heads, uint32_t head_dim, uint32_t width, const double *weights,
                   int transposed, int interleaved, int32_t first, uint32_t rows, double *table);

/* Segments are added to *terms by the caller. */
int ref_xl_terms(const ref_xl *xl, ref_terms *terms);

/* ------------------------------------------------------------------------------------------------
 * DeBERTa: row clamp(bucket(-delta) + span, 0, 2 span - 1)
 */
typedef struct ref_deberta {
    uint32_t span;           /* k, or S where there are buckets */
    int buckets;             /* logarithmic ones: 2 <= S <= 512 */
    uint32_t most;           /* Mx, above S/2 + 1, to 2^31 - 1 */
    int input_clamp;         /* -delta is clamped to [-(Mx - 1), Mx - 1] first */
    int paper;               /* the row of the p2c term is that of (j, i) */
    const double *pos_key;   /* c2p: [heads, 2 span, D]; or NULL */
    const double *pos_query; /* p2c; or NULL */
} ref_deberta;

/* Bucket of the distance i - j before the span is added, exactly as ref_t5_bucket. */
int64_t ref_deberta_bucket(const ref_deberta *deberta, int64_t distance);

int ref_deberta_terms(const ref_deberta *deberta, uint32_t head_dim, ref_terms *terms);

#endif
