/* What `rhumb check` found, by operation, scheme and dtype. */
#ifndef RHUMB_TOOLS_CHECK_PRECISION_H
#define RHUMB_TOOLS_CHECK_PRECISION_H

#include "check_operations.h"

#include <cjson/cJSON.h>

typedef struct precision_row {
    const char *op;
    const char *scheme;
    const char *dtype;
    unsigned cases;
    double largest; /* absolute error */
    double part;    /* largest error as a part of its bound */
} precision_row;

#define MAX_PRECISION_ROWS 256u

/* Zero-initialise. */
typedef struct precision {
    precision_row rows[MAX_PRECISION_ROWS]; /* of one operation beside each other */
    unsigned count;
} precision;

/* A result that passed or not; one that did not run has no error and only counts. False: full. */
bool precision_add(precision *p, const check_result *result);

/* [{op, scheme, dtype, cases, max_error, max_part_of_bound, device}] */
cJSON *precision_json(const precision *p, const char *device);

/* A Markdown table on stdout: a row for each operation and scheme, the dtypes beside each other. */
void precision_print(const precision *p);

#endif /* RHUMB_TOOLS_CHECK_PRECISION_H */
