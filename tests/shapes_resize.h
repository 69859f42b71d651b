/* RESIZE of one shape on a profile, compared with the double-precision reference. */
#ifndef RHUMB_TESTS_SHAPES_RESIZE_H
#define RHUMB_TESTS_SHAPES_RESIZE_H

#include "harness.h"

typedef struct resize_shape {
    rhumb_resize_mode mode;
    uint32_t antialias;
    uint32_t align_corners;
    uint32_t old_grid[2];
    uint32_t new_grid[2];
    uint32_t prefix;
    uint32_t suffix;
    uint32_t dim;
    double offset; /* not 0: scale_factor is (new + offset)/old */
    rhumb_dtype dtype;
    rhumb_dtype out_dtype;
    harness_layout layout;
    harness_layout out_layout;
} resize_shape;

typedef struct resize_run {
    rhumb_resize resize;
    harness_tensor table;
    harness_tensor y;
    gpu_operation op;
} resize_run;

/* The shape in words. */
void shape_describe_resize(const resize_shape *s, char *text, size_t size);

void shape_make_resize(resize_run *run, const resize_shape *s);
void shape_free_resize(resize_run *run);

/* Runs it, and loads y. */
bool shape_resize_on_device(harness *h, resize_run *run, const char *text);

bool shape_run_resize(harness *h, const resize_shape *s);

#endif
