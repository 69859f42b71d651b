/* What the files of the absolute and two-dimensional families share (PARAMS.md section 6). */
#ifndef RHUMB_TOOLS_CASES_ABSOLUTE_H
#define RHUMB_TOOLS_CASES_ABSOLUTE_H

#include "cases_internal.h"

#include "reference_absolute.h"

/* A whole number among the parameters. */
int case_int32(case_file *c, const char *key, int32_t absent, int32_t *value);

/* Two whole numbers, each from `least` to 2^20. */
int case_grid(case_file *c, const char *key, uint32_t least, uint32_t grid[2]);
/* The same; untouched if absent. */
int case_optional_grid(case_file *c, const char *key, uint32_t least, uint32_t grid[2]);

/* A tensor of rank numbers as given. NULL after case_fail. */
const tensor *case_shaped(case_file *c, const char *name, uint32_t rank, const uint64_t *shape);

/* Where in.mask [batch, past + rows] and position_rule are given, the positions must follow from
 * them: (cumsum(mask) + past) mask + padding_idx or cumsum(mask) mask + padding_idx, of the last
 * `rows` columns; a rule that ends in -1 says so in place of padding_idx. */
int case_check_position_rule(case_file *c, uint64_t batch, uint64_t rows, const int32_t *positions);

/* mode, antialias, align_corners and scale_factor of an object whose keys have been checked. */
int case_read_resampling(case_file *c, const cJSON *object, ref_resize *resize);

/* The device's part of op encode, and of op table without x. `op` has scheme, sizes and the views of
 * the scheme; X and Y of the shape are added to a copy. With x once apart and once in place. */
int case_encode_on_device(case_file *c, const gpu_operation *op, const tensor *x,
                          const tensor *golden, const uint64_t shape[4]);

/* Keys of op resize, of whatever scheme. */
#define CASE_RESAMPLING_ROWS                                                                       \
    {"mode", PARAM_TEXT, "bicubic\nbilinear\ngeometric_bilinear\n"},                               \
        {"antialias", PARAM_BOOL, NULL}, {"align_corners", PARAM_BOOL, NULL},                      \
    {                                                                                              \
        "scale_factor", PARAM_NUMBERS, NULL                                                        \
    }

/* The device's table, as many rows as `resize` makes, dim channels each. */
int case_resize_on_device(case_file *c, const ref_resize *resize, const tensor *table,
                          float *resized);

/* op resize: in.table [prefix + h w + suffix, channels] to out.table; `modes` are those of the
 * scheme. */
int case_run_resize(case_file *c, uint32_t channels, const char *modes);

#endif
