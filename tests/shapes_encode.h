/* Runs one row of a table of encodings on a profile and compares with the double-precision
 * reference, as shapes.h does for rotation and attention. */
#ifndef RHUMB_TESTS_SHAPES_ENCODE_H
#define RHUMB_TESTS_SHAPES_ENCODE_H

#include "shapes.h"

#include "reference_absolute.h"

typedef enum encode_kind {
    ENCODE_SHAPE_SINUSOID,
    ENCODE_SHAPE_LEARNED,
    ENCODE_SHAPE_GRID,   /* sinusoidal2d */
    ENCODE_SHAPE_FULL,   /* learned2d, as are the next two */
    ENCODE_SHAPE_CONCAT,
    ENCODE_SHAPE_SUM,
} encode_kind;

/* What VALID holds. */
typedef enum encode_mask {
    ENCODE_MASK_NONE,     /* no such view: coordinates are indices */
    ENCODE_MASK_CORNER,   /* a rectangle at the top left, another one in each batch entry */
    ENCODE_MASK_HOLES,    /* every third pixel or so is missing; others than 1 are valid too */
    ENCODE_MASK_EMPTY,    /* holes, and one row and one column without any pixel */
    ENCODE_MASK_NOTHING,  /* no pixel at all */
} encode_mask;

typedef struct encode_shape {
    encode_kind kind;
    uint32_t batch;         /* 0: 1 */
    uint32_t rows;          /* without a grid */
    uint32_t dim;
    bool alone;             /* no X */
    bool in_place;
    rhumb_dtype dtype;      /* of X, and of Y unless out_differs */
    rhumb_dtype out_dtype;
    bool out_differs;
    rhumb_dtype table_dtype;
    harness_layout layout;
    harness_layout out_layout; /* unless in_place */
    harness_layout table_layout;
    shape_positions positions;
    int32_t position_first;
    uint32_t q_length;      /* 0: all rows */
    double x_scale;         /* 0: 1 */
    double pe_scale;        /* 0: 1 */
    double base;            /* 0: 10000 */
    rhumb_frequency_rule frequency;
    /* SINUSOID */
    rhumb_sinusoid_layout layout_1d;
    rhumb_sinusoid_odd odd;
    int32_t offset;         /* and of LEARNED */
    bool padded;            /* padding_index is position_first + 2 + offset */
    bool listed;            /* an explicit list of frequencies, signs included */
    /* LEARNED */
    uint32_t table_rows;
    rhumb_out_of_range out_of_range;
    bool clamp_negative;
    bool normalize;
    /* over a grid */
    uint32_t grid[2];
    uint32_t prefix;
    rhumb_axis_order order;
    rhumb_grid_layout layout_2d;
    bool column_major;
    bool image;
    uint32_t axis_dim;      /* 0: dim / 2 */
    double start;
    encode_mask mask;
    bool mask_shared;       /* one for all batch entries */
    bool divided;           /* GRID: normalize */
    double coordinate_scale; /* 0: 2 pi */
    double epsilon;         /* 0: 1e-6 */
    double center;
    bool no_prefix_rows;    /* FULL: table_has_prefix 0 */
} encode_shape;

bool shape_run_encode(harness *h, const encode_shape *shape);

#endif
