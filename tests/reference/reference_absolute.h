/* The absolute and two-dimensional schemes of the double-precision reference: sinusoids, learned
 * tables and their resampling, windows of Swin. Rules of reference.h hold here too.
 *
 * A grid has H rows and W columns; y is the row, x the column; token y W + x. Pairs of numbers are
 * {rows, columns}.
 */
#ifndef RHUMB_REFERENCE_ABSOLUTE_H
#define RHUMB_REFERENCE_ABSOLUTE_H

#include "reference.h"

/* ------------------------------------------------------------------------------------------------
 * Sinusoids of one position: n angles p f_i, each with a sine and a cosine
 */
typedef enum ref_sinusoid_rule {
    REF_SINUSOID_POWER = 0, /* base^(-2i/d): the last frequency is above 1/base */
    REF_SINUSOID_ENDPOINT,  /* base^(-i/(n - 1)): from 1 to 1/base; 1 alone for n = 1 */
} ref_sinusoid_rule;

typedef enum ref_sinusoid_layout {
    REF_SINUSOID_INTERLEAVED = 0, /* sine in channel 2i, cosine in 2i + 1 */
    REF_SINUSOID_SIN_FIRST,       /* n sines, then the cosines */
    REF_SINUSOID_COS_FIRST,       /* n cosines, then the sines */
} ref_sinusoid_layout;

/* What an odd number of channels does; without meaning for an even one. */
typedef enum ref_sinusoid_odd {
    REF_ODD_NONE = 0,  /* not allowed */
    REF_ODD_ZERO_PAD,  /* dim - 1 channels and a 0 */
    REF_ODD_NATIVE,    /* d = dim in the exponent, one sine more than cosines; POWER, and not
                          cosines first */
    REF_ODD_CEIL_EVEN, /* dim + 1 channels, the last one dropped */
} ref_sinusoid_odd;

typedef struct ref_sinusoid {
    uint32_t dim;
    ref_sinusoid_rule rule;
    ref_sinusoid_layout layout;
    ref_sinusoid_odd odd;
    double base;            /* above 0 */
    const double *inv_freq; /* ref_sinusoid_angles frequencies instead of base and rule; or NULL */
    int32_t offset;         /* is added to every position */
    int32_t padding_idx;    /* position + offset whose row is 0; REF_UNSET: none */
    double x_scale;
    double pe_scale;
} ref_sinusoid;

/* Power rule, interleaved, base 10000, scales 1, no padding row. */
void ref_sinusoid_init(ref_sinusoid *sinusoid, uint32_t dim);

uint32_t ref_sinusoid_angles(const ref_sinusoid *sinusoid); /* n */
int ref_sinusoid_frequencies(const ref_sinusoid *sinusoid, double *inv_freq);

/* y = x_scale x + pe_scale row(position); x NULL: pe_scale row. positions [batch, rows], x and y
 * [batch, rows, dim]; y may be x. */
int ref_sinusoid_encode(const ref_sinusoid *sinusoid, uint32_t batch, uint32_t rows,
                        const int32_t *positions, const double *x, double *y);

/* ------------------------------------------------------------------------------------------------
 * Sinusoids of two coordinates
 */
typedef enum ref_plane_layout {
    REF_LAYOUT_INTERLEAVED = 0, /* per axis sin, cos, sin, cos, ... */
    REF_LAYOUT_AXIS_CONCAT,     /* per axis sines, then cosines */
    REF_LAYOUT_SIN_COS_SPLIT,   /* sines of both axes, then cosines of both */
} ref_plane_layout;

typedef struct ref_sinusoid_grid {
    uint32_t height;
    uint32_t width;
    uint32_t dim;
    uint32_t axis_dim; /* channels of each axis, even; cut to dim, or zeros behind */
    double base;
    ref_sinusoid_rule rule;
    ref_plane_layout layout;
    int columns_first;   /* the column's channels come first */
    int column_major;    /* token x H + y */
    int channels_first;  /* [dim, H, W]: neither prefix nor column_major */
    uint32_t prefix;     /* rows of zeros in front */
    double start;        /* first coordinate, without a mask */
    uint32_t batch;      /* of the mask and of the table; 1 without a mask */
    const int32_t *mask; /* [batch, H, W], not 0: valid; coordinates count the valid ones up to and
                            with each. NULL: start + index */
    int normalise;       /* (count + centre) / (total + eps) scale; with a mask only */
    double scale;
    double eps;
    double centre;
} ref_sinusoid_grid;

/* axis_dim dim/2, base 10000, scale 2 pi, eps 1e-6, the rest 0; batch 1. */
void ref_sinusoid_grid_init(ref_sinusoid_grid *grid, uint32_t height, uint32_t width, uint32_t dim);

/* [batch, prefix + H W, dim], or [batch, dim, H, W]. */
int ref_sinusoid_grid_table(const ref_sinusoid_grid *grid, double *table);

/* y = x + table; arrays of `count` elements per batch entry, table_batch 1 or batch. */
void ref_add_table(uint32_t batch, uint32_t table_batch, uint64_t count, const double *table,
                   const double *x, double *y);

/* ------------------------------------------------------------------------------------------------
 * Learned tables
 */
typedef enum ref_beyond {
    REF_BEYOND_ERROR = 0,
    REF_BEYOND_CLAMP_LOW, /* max(position, 0) before the offset; too high is an error */
    REF_BEYOND_CLAMP,     /* the nearest row */
    REF_BEYOND_ZERO,      /* a row of zeros */
} ref_beyond;

typedef struct ref_learned {
    uint32_t dim;
    uint32_t table_rows;
    const double *table; /* [table_rows, dim] */
    int32_t offset;      /* row = position + offset */
    ref_beyond beyond;
    int l2norm; /* row / max(|row|, 1e-12) */
    double pe_scale;
} ref_learned;

/* y = x + pe_scale row; x NULL: the row alone. Shapes of ref_sinusoid_encode. */
int ref_learned_encode(const ref_learned *learned, uint32_t batch, uint32_t rows,
                       const int32_t *positions, const double *x, double *y);

typedef enum ref_row_col {
    REF_COLUMN_ROW = 0, /* [col[x] | row[y]] */
    REF_ROW_COLUMN,     /* [row[y] | col[x]] */
    REF_ROW_PLUS_COLUMN,
} ref_row_col;

/* row_table [row_count, F], col_table [col_count, F]; dim = 2 F, or F of the sum. table [H W, dim],
 * or [dim, H, W] if channels_first. */
int ref_row_col_table(ref_row_col form, const uint32_t grid[2], uint32_t dim, uint32_t row_count,
                      uint32_t col_count, const double *row_table, const double *col_table,
                      int channels_first, double *table);

/* x and y [batch, prefix + tokens, dim]. A table with prefix has a row for every token, one without
 * a row for each behind the prefix. */
void ref_full_table_encode(uint32_t batch, uint32_t prefix, uint32_t tokens, uint32_t dim,
                           int table_has_prefix, const double *table, const double *x, double *y);

/* ------------------------------------------------------------------------------------------------
 * Resampling of a table that is an image of old_grid
 */
typedef enum ref_resize_mode {
    REF_RESIZE_BILINEAR = 0,
    REF_RESIZE_BICUBIC,   /* a = -0.75, with antialias -0.5 */
    REF_RESIZE_GEOMETRIC, /* bias tables of 2w - 1 by 2w - 1: source offsets 1, 1 + q, 1 + q + q^2,
                             ... from the middle, linear between them */
} ref_resize_mode;

typedef struct ref_resize {
    ref_resize_mode mode;
    int antialias;
    int align_corners; /* without antialias and scale_factor */
    uint32_t old_grid[2];
    uint32_t new_grid[2];
    double scale_factor[2]; /* 0: new/old. The source step is 1/scale_factor */
    uint32_t prefix;        /* rows that are copied, in front */
    uint32_t suffix;        /* and behind */
    uint32_t dim;
} ref_resize;

/* weights [new, old] of one axis (0: rows, 1: columns), dense. */
int ref_resize_weights(const ref_resize *resize, uint32_t axis, double *weights);

/* [prefix + h w + suffix, dim] to [prefix + H W + suffix, dim]. */
int ref_resize_table(const ref_resize *resize, const double *table, double *resized);

/* ------------------------------------------------------------------------------------------------
 * Windows of Swin: N = prefix + h w tokens, a table of (2h - 1)(2w - 1) rows, 3 more with a class
 * token
 */
typedef struct ref_window {
    uint32_t size[2]; /* h, w */
    uint32_t prefix;  /* 1: a class token in front */
} ref_window;

uint32_t ref_window_tokens(const ref_window *window);
uint32_t ref_window_rows(const ref_window *window);

/* index [N, N], query row, key column. -1 for an empty window or more than one class token. */
int ref_window_index(const ref_window *window, int32_t *index);

/* table [rows, heads] to bias [heads, N, N]. */
int ref_window_bias(const ref_window *window, uint32_t heads, const double *table, double *bias);

/* Swin v2: log-spaced offsets [rows, 2] = h, w of a window without class token. pretrained 0: the
 * window itself. */
int ref_window_coordinates(const ref_window *window, const uint32_t pretrained[2],
                           double *coordinates);

/* table[row, head] = gain sigmoid(w2 relu(w1 c + b1)); w1 [hidden, 2], w2 [heads, hidden]. */
int ref_window_mlp(uint32_t rows, uint32_t hidden, uint32_t heads, const double *coordinates,
                   const double *w1, const double *b1, const double *w2, double gain,
                   double *table);

typedef enum ref_clip {
    REF_CLIP_MIN = 0,  /* a square window that reaches the shorter side becomes it, without shift */
    REF_CLIP_PER_AXIS, /* each axis by itself */
} ref_clip;

int ref_window_clip(ref_clip rule, const uint32_t grid[2], uint32_t window[2], uint32_t shift[2]);

typedef enum ref_window_pad {
    REF_PAD_NONE = 0,       /* the windows tile the grid */
    REF_PAD_THEN_SHIFT = 1, /* tokens of zeros below and right, which the shift moves */
    REF_SHIFT_THEN_PAD = 2, /* the shift moves real tokens only */
} ref_window_pad;

typedef struct ref_window_attention {
    ref_window window;
    uint32_t grid[2];  /* tokens are this grid; 0: each batch entry is one window */
    uint32_t shift[2]; /* less than the window; with a grid only */
    ref_window_pad pad;
    double mask_value; /* added between tokens that the shift brought together */
    uint32_t batch;
    uint32_t heads;
    uint32_t head_dim;
    double scale;             /* of q . k */
    const double *log_scales; /* [heads]: exp(min(., max_log_scale)) cos(q, k) instead; or NULL */
    double max_log_scale;
    double eps;         /* least length that q and k are divided by */
    const double *bias; /* [heads, N, N] */
    const double *q;    /* [batch, heads, tokens, head_dim], like k, v and o */
    const double *k;
    const double *v;
    double *o;
} ref_window_attention;

int ref_window_attend(const ref_window_attention *attention);

#endif
