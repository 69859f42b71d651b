/* What the files of the absolute schemes share. */
#ifndef RHUMB_SCHEME_ENCODING_H
#define RHUMB_SCHEME_ENCODING_H

#include "terms.h"

/* ---- encoding.c. Each message names the scheme and the field. */
rhumb_result rhumb_check_number(const rhumb_context *context, const char *scheme, const char *field,
                                double value, double low, double high);
rhumb_result rhumb_check_base(const rhumb_context *context, const char *scheme, double base);
/* At least 1 x 1, and prefix + H W the plan's rows. */
rhumb_result rhumb_check_grid(const rhumb_context *context, const char *scheme,
                              const uint32_t grid[2], uint32_t prefix,
                              const rhumb_plan_info *info);
rhumb_result rhumb_set_scales(const rhumb_context *context, const char *scheme, double x_scale,
                              double pe_scale, rhumb_encoding *encoding);
/* The exponent of a rule over n angles of d channels. */
long double rhumb_frequency_exponent(rhumb_frequency_rule rule, uint32_t d, uint32_t n);

/* ---- window_coordinates.c: the coordinates that a continuous bias is a function of. */
rhumb_result rhumb_set_window_coordinates(const rhumb_context *context, const char *scheme,
                                          const rhumb_continuous *continuous,
                                          const rhumb_plan_info *info, rhumb_encoding *encoding);

#endif
