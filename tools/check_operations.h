/* The operations that `rhumb check` runs. */
#ifndef RHUMB_TOOLS_CHECK_OPERATIONS_H
#define RHUMB_TOOLS_CHECK_OPERATIONS_H

#include "gpu.h"

typedef struct check_result {
    const char *scheme;
    const char *op;
    const char *dtype;
    const char *variant; /* that the plan took; "none" if there was no plan */
    const char *shape;   /* what the row is about */
    double error;        /* of the element that comes closest to its bound */
    double bound;        /* of that element */
    double ns;
    bool host_clock;
    bool pass;
    char message[GPU_MESSAGE_SIZE]; /* why not */
} check_result;

/* Called before a row with result NULL and what comes next, then with its result. */
typedef void (*check_operation_fn)(void *user, const char *next, const check_result *result);

/* Every shape in f32, and every dtype and every variant on some; `all`: every combination, which
 * compiles some hundred pipelines. Returns how many failed; *count: how many ran. */
uint32_t check_operations(gpu *g, bool all, check_operation_fn each, void *user, uint32_t *count);

#endif /* RHUMB_TOOLS_CHECK_OPERATIONS_H */
