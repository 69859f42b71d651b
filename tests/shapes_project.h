/* PROJECT of one shape on a profile: tables made from embeddings, against sums in double, and
 * the network of swin_v2 against the reference. */
#ifndef RHUMB_TESTS_SHAPES_PROJECT_H
#define RHUMB_TESTS_SHAPES_PROJECT_H

#include "harness.h"

typedef struct project_shape {
    uint32_t rows;
    uint32_t heads;
    uint32_t head_dim;
    uint32_t channels;
    uint32_t q_length; /* 0: all rows */
    bool in_out;       /* weight_layout */
    bool offset;       /* OFFSET is there */
    bool fold;         /* TABLE_SCALAR and what it is made of */
    rhumb_dtype x_dtype;
    rhumb_dtype weight_dtype;
    rhumb_dtype offset_dtype; /* and of the biases of the fold */
    rhumb_dtype y_dtype;
    harness_layout x_layout;
    harness_layout weight_layout;
    harness_layout y_layout;
} project_shape;

typedef struct project_run {
    harness_tensor x, weight, offset, y, u, w, scalar;
    gpu_operation op;
} project_run;

void shape_make_project(project_run *run, const project_shape *s);
void shape_free_project(project_run *run);

/* Runs it, and loads y and the scalar. */
bool shape_project_on_device(harness *h, project_run *run, const char *text);

bool shape_run_project(harness *h, const project_shape *s);

typedef struct network_shape {
    uint32_t window[2];
    uint32_t pretrained[2];
    uint32_t heads;
    uint32_t hidden;
    double gain; /* 0: 16 */
    rhumb_dtype dtype;
    rhumb_dtype out_dtype;
    harness_layout layout;
} network_shape;

typedef struct network_run {
    rhumb_swin_v2 swin;
    harness_tensor w1, b1, w2, y;
    gpu_operation op;
} network_run;

void shape_make_network(network_run *run, const network_shape *s);
void shape_free_network(network_run *run);

bool shape_run_network(harness *h, const network_shape *s);

#endif
