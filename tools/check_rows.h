/* The rows of `rhumb check` beside check_shapes.h: shapes that the tests run too (tests/shapes*.h),
 * each in every dtype. */
#ifndef RHUMB_TOOLS_CHECK_ROWS_H
#define RHUMB_TOOLS_CHECK_ROWS_H

#include "harness.h"

typedef struct check_row {
    const char *scheme;
    rhumb_op op;
    const char *name;
    /* Runs the shape with every tensor of the dtype; failures are in the harness. */
    void (*run)(harness *h, const void *shape, rhumb_dtype dtype);
    const void *shape;
} check_row;

extern const check_row check_rows[];
extern const size_t check_row_count;

#endif /* RHUMB_TOOLS_CHECK_ROWS_H */
