/* BIAS of one shape on a profile: schemes with scalars by distance, each element against the
 * reference, bytes of elements that a record leaves out against what was there; and windows,
 * against the reference's indices and regions that are painted. */
#ifndef RHUMB_TESTS_SHAPES_BIAS_H
#define RHUMB_TESTS_SHAPES_BIAS_H

#include "shapes.h"

typedef struct bias_shape {
    const void *(*scheme)(void);
    uint32_t heads;
    uint32_t q_rows;
    uint32_t k_rows;
    rhumb_dtype dtype; /* of O */
    rhumb_dtype table_dtype;
    harness_layout layout; /* of O */
    harness_layout table_layout;
    bool offset_given;
    int32_t q_offset;
    uint32_t q_length; /* of the dispatch; 0: unset */
    uint32_t k_length;
    shape_positions positions; /* SHAPE_ARANGE: no views */
    bool keys_only;            /* POSITIONS_K alone */
    bool lengths;              /* LENGTHS asks for one row and three keys less, STATUS is there */
    bool lengths_beyond;       /* for more than there is: clamped, and counted */
} bias_shape;

bool shape_run_bias(harness *h, const bias_shape *s);

typedef struct window_shape {
    uint32_t window[2];
    uint32_t grid[2];
    uint32_t shift[2];
    uint32_t prefix;
    rhumb_window_padding padding;
    uint32_t heads;
    rhumb_dtype dtype;       /* of O */
    rhumb_dtype table_dtype;
    double mask_value;
    bool v2;
} window_shape;

bool shape_run_window(harness *h, const window_shape *s);

#endif
