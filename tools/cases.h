/* Golden cases: runs .safetensors files of the format of tests/goldens/README.md, with the
 * vocabulary of tests/goldens/PARAMS.md, on the double-precision reference and on a device.
 *
 * Nothing is skipped: a file, key, value or tensor that the format does not allow, and what rhumb
 * cannot compute on the device that is given, is a FAIL with the reason.
 */
#ifndef RHUMB_TOOLS_CASES_H
#define RHUMB_TOOLS_CASES_H

#include "gpu.h"
#include "tensors.h"

typedef enum case_status {
    CASE_PASS = 0,
    CASE_FAIL = 1,
} case_status;

typedef struct case_result {
    char name[128]; /* file name without .safetensors */
    char scheme[32];
    char op[24];
    char variant[24];       /* of the device's plan; "" where it did not run */
    double reference_error; /* largest |reference - golden|, relative for frequencies; NaN: did not
                               run */
    double device_error;    /* |rhumb - golden| likewise, where a device is given; NaN: did not run */
    bool on_host;           /* it is of a function of rhumb without device work (op frequencies) */
    double tolerance;
    int relative; /* the tolerance is relative */
    case_status status;
    char reason[256]; /* FAIL: one line; "" for PASS */
} case_result;

typedef struct cases_count {
    unsigned passed;
    unsigned failed;
} cases_count;

/* Plans of the cases so far, kept so that cases that need the same code share its pipelines. All of
 * one device; zero-initialise, and free before the device is closed. */
typedef struct cases_plans {
    rhumb_plan **items;
    size_t count;
} cases_plans;

void cases_free_plans(cases_plans *plans);

/* One file. device NULL: reference only; `plans` may be NULL. Never fails other than by
 * result->status. */
void cases_run_file(const char *path, gpu *device, cases_plans *plans, case_result *result);

typedef void (*cases_fn)(void *user, const case_result *result);

/* A file, or a folder and the folders below it, ordered by path; `each` (may be NULL) is told every
 * result. Adds to *count. -1: no such path, or a folder without any .safetensors file. */
int cases_run(const char *path, gpu *device, cases_fn each, void *user, cases_count *count,
              tensor_error *error);

#endif
