/* ROTATE with the norm of rows before they turn, one shape on a profile against the reference. */
#ifndef RHUMB_TESTS_SHAPES_NORM_H
#define RHUMB_TESTS_SHAPES_NORM_H

#include "shapes.h"

typedef struct norm_shape {
    uint32_t batch; /* 0: 1 */
    uint32_t heads;
    uint32_t kv_heads; /* 0: no K */
    uint32_t rows;
    uint32_t head_dim;
    uint32_t rotary_dim; /* 0: whole head */
    uint32_t rotary_offset;
    rhumb_pairing pairing;
    rhumb_dtype dtype; /* of Q, K and their results */
    rhumb_dtype gain_dtype;
    bool in_place;
    bool apart; /* gains of each head; else one row for all */
    bool no_q_gain;
    bool no_k_gain;
    bool append; /* K and V into a cache, from row 2 on */
    harness_layout layout;
    harness_layout out_layout;
    double gain_offset;
    double epsilon; /* 0: 1e-6 */
    double size;    /* of the elements; 0: 1 */
    int32_t position_first;
    uint32_t q_length; /* 0: all rows */
} norm_shape;

bool shape_run_norm(harness *h, const norm_shape *s);

#endif
