/* BIAS, SCORES and ATTENTION of kerple, one shape on a profile against the reference. */
#ifndef RHUMB_TESTS_SHAPES_KERPLE_H
#define RHUMB_TESTS_SHAPES_KERPLE_H

#include "shapes.h"

#include "reference/relative.h"

typedef struct kerple_shape {
    rhumb_op op;
    uint32_t batch; /* 0: 1 */
    uint32_t heads;
    uint32_t kv_heads; /* 0: heads */
    uint32_t q_rows;
    uint32_t k_rows;
    uint32_t head_dim;
    rhumb_dtype dtype; /* of Q, K, V and O */
    rhumb_dtype table_dtype;
    harness_layout layout;
    harness_layout table_layout;
    bool offset_given;
    int32_t q_offset;          /* else bottom-right */
    shape_positions positions; /* SHAPE_ARANGE: no views */
    bool causal;
    rhumb_variant variant; /* a named one has no WORKSPACE */
} kerple_shape;

typedef struct kerple_run {
    kerple_shape s;
    rhumb_kerple scheme;
    harness_tensor q, k, v, o, table, workspace, positions_q, positions_k;
    int32_t *queries, *keys; /* [batch, rows] */
    ref_kerple kerple;
    ref_terms terms;
    gpu_operation op;
} kerple_run;

void shape_make_kerple(kerple_run *run, const kerple_shape *shape);
void shape_free_kerple(kerple_run *run);

bool shape_run_kerple(harness *h, const kerple_shape *s);

#endif
