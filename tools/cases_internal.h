/* What cases.c offers to the files that know a scheme's vocabulary, one file per family of schemes.
 */
#ifndef RHUMB_TOOLS_CASES_INTERNAL_H
#define RHUMB_TOOLS_CASES_INTERNAL_H

#include "cases.h"

#include <cjson/cJSON.h>

/* One case being run. */
typedef struct case_file {
    const char *path;
    tensor_list tensors;
    cJSON *params; /* an object */
    gpu *device;   /* NULL: reference only */
    cases_plans *plans; /* or NULL */
    case_result *result;
} case_file;

/* Sets the status and the reason, and returns -1, so that `return case_fail(c, ...)` ends the case.
 */
int case_fail(case_file *c, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* ------------------------------------------------------------------------------------------------
 * Parameters. A key that is null counts as absent, as PARAMS.md section 1 says.
 */
typedef enum param_kind {
    PARAM_NUMBER,
    PARAM_WHOLE,
    PARAM_BOOL,
    PARAM_TEXT, /* one of `values` */
    PARAM_NOTE, /* any string: informative only */
    PARAM_NUMBER_OR_FALSE,
    PARAM_NUMBERS, /* a list */
    PARAM_TRIPLES, /* a list of lists of three numbers */
    PARAM_TEXTS,   /* a list, each one of `values` */
    PARAM_OBJECT,
} param_kind;

typedef struct param_row {
    const char *key;
    param_kind kind;
    const char *values; /* TEXT, TEXTS: the values, each followed by a newline */
} param_row;

/* 0 if the object holds only keys of the rows, each once and of its kind and values. */
int case_check_params(case_file *c, const cJSON *object, const param_row *rows, size_t count);

/* NULL if absent. */
const cJSON *case_param(const cJSON *object, const char *key);
double case_number(const cJSON *object, const char *key, double absent);
bool case_bool(const cJSON *object, const char *key, bool absent);
const char *case_string(const cJSON *object, const char *key); /* or NULL */

/* Is `text` one of the values, each of which is followed by a newline? */
bool case_listed(const char *values, const char *text);

/* A size among the case's parameters, from `least` to 2^20. */
int case_size(case_file *c, const char *key, double absent, double least, uint32_t *value);

/* Two numbers of a list of numbers, each from `least` to 2^20; both untouched if it is absent. */
int case_pair(case_file *c, const char *key, double least, double *first, double *second);

/* ------------------------------------------------------------------------------------------------
 * Tensors
 */
typedef struct tensor_row {
    const char *name;
    tensor_dtype dtype; /* F32 or I32 */
    bool required;
} tensor_row;

/* 0 if the file holds only tensors of the rows, of their dtypes, and every required one. */
int case_check_tensors(case_file *c, const tensor_row *rows, size_t count);

/* A tensor that must have the rank; NULL after case_fail. */
const tensor *case_tensor(case_file *c, const char *name, uint32_t rank);

/* 0 if the shape is rank numbers as given. */
int case_check_shape(case_file *c, const tensor *t, uint32_t rank, const uint64_t *shape);

/* Positions [L] or [B, L] of the file as [B, L]; malloc'ed. NULL after case_fail. */
int32_t *case_positions(case_file *c, const char *name, uint64_t batch, uint64_t rows);

/* ------------------------------------------------------------------------------------------------
 * Comparison with result->tolerance: absolute, relative if result->relative, bit for bit if it is
 * 0. *error is raised to the largest difference found. 0, or -1 after case_fail; `who`
 * ("reference", "device: Q rotated inside") says whose numbers they are.
 */
int case_compare(case_file *c, const char *who, const tensor *golden, const double *got,
                 double *error);

/* The same for what a device wrote; raises result->device_error. */
int case_compare_tensor(case_file *c, const char *who, const tensor *golden, const tensor *got);

/* Runs it and notes the variant; an error of the device is the case's. */
int case_run_device(case_file *c, const char *who, gpu_operation *op);

/* The families. Each returns 0 when every comparison held, else the status is set. */
int case_run_rope(case_file *c);
int case_run_xpos(case_file *c);
int case_run_rope2d(case_file *c);
int case_run_mrope(case_file *c);
int case_run_sinusoidal(case_file *c);
int case_run_learned(case_file *c);
int case_run_sinusoidal2d(case_file *c);
int case_run_learned2d(case_file *c);
int case_run_swin(case_file *c);
int case_run_swin_v2(case_file *c);
int case_run_shaw(case_file *c);
int case_run_music(case_file *c);
int case_run_t5(case_file *c);
int case_run_alibi(case_file *c);
int case_run_transformer_xl(case_file *c);
int case_run_xlnet(case_file *c);
int case_run_deberta(case_file *c);

#endif
