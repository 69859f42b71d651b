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
    double largest;      /* error of any element */
    double ns;
    bool host_clock;
    bool pass;
    char message[GPU_MESSAGE_SIZE]; /* why not */
} check_result;

/* Called before a row with result NULL and what comes next, then with its result. */
typedef void (*check_operation_fn)(void *user, const char *next, const check_result *result);

typedef struct check_choice {
    bool all;   /* every combination of shape, dtype and variant, some hundred pipelines; else every
                   shape in f32, and every dtype and every variant on some */
    bool quick; /* the shapes of check_shapes.h alone: rotation, and attention in one kernel */
    const char *op; /* this operation alone; NULL: each */
} check_choice;

/* Returns how many failed; *count: how many ran. */
uint32_t check_operations(gpu *g, const check_choice *choice, check_operation_fn each, void *user,
                          uint32_t *count);

#endif /* RHUMB_TOOLS_CHECK_OPERATIONS_H */
