/* Golden cases: runs .safetensors files of the format of tests/goldens/README.md, with the
 * vocabulary of tests/goldens/PARAMS.md, on the double-precision reference and on a device.
 *
 * Never silent: what rhumb does not implement is a SKIP with the reason "not implemented: ..."; a
 * file, key, value or tensor that the format does not allow is a FAIL with the reason.
 */
#ifndef RHUMB_TOOLS_CASES_H
#define RHUMB_TOOLS_CASES_H

#include "gpu.h"
#include "tensors.h"

typedef enum case_status {
    CASE_PASS = 0,
    CASE_FAIL = 1,
    CASE_SKIP = 2,
} case_status;

typedef struct case_result {
    char name[128]; /* file name without .safetensors */
    char scheme[32];
    char op[24];
    char variant[24];       /* of the device's plan; "" where it did not run */
    double reference_error; /* largest |reference - golden|, relative for frequencies; NaN: did not
                               run */
    double device_error;    /* likewise; NaN: did not run */
    double tolerance;
    int relative; /* the tolerance is relative */
    case_status status;
    char reason[256]; /* FAIL, SKIP: one line; "" for PASS */
} case_result;

typedef struct cases_count {
    unsigned passed;
    unsigned failed;
    unsigned skipped;
} cases_count;

/* One file. device NULL: reference only. Never fails other than by result->status. */
void cases_run_file(const char *path, gpu *device, case_result *result);

typedef void (*cases_fn)(void *user, const case_result *result);

/* A file, or a folder and the folders below it, ordered by path; `each` (may be NULL) is told every
 * result. Adds to *count. -1: no such path, or a folder without any .safetensors file. */
int cases_run(const char *path, gpu *device, cases_fn each, void *user, cases_count *count,
              tensor_error *error);

#endif
