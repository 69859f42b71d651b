/* Members of the objects that `rhumb describe` makes: shared by describe_json.c and
 * describe_positions.c. Each returns 0 when there is no memory. */
#ifndef RHUMB_TOOLS_DESCRIBE_PUT_H
#define RHUMB_TOOLS_DESCRIBE_PUT_H

#include "describe_model.h"

#include <cjson/cJSON.h>

int describe_put_number(cJSON *object, const char *name, double value);
int describe_put_text(cJSON *object, const char *name, const char *value);
int describe_put_bool(cJSON *object, const char *name, int value);
int describe_put_list(cJSON *object, const char *name, const double *values, uint32_t count);
int describe_put_names(cJSON *object, const char *name, const char *const *values, uint32_t count);

/* A row's value as what it looks like: true, a number, "a, b" as a list, or text. */
int describe_put_value(cJSON *object, const char *name, const char *value);

/* The row of a kind, where there is such a row. */
int describe_put_row(cJSON *object, const describe_report *report, const char *kind,
                     const char *field);

/* describe_json.c: "layer_pattern", the kind of each layer, where kinds share the model's. */
int describe_put_pattern(cJSON *object, const describe_report *report);

/* describe_positions.c: whether a kind's positions are not rotary, and all of such a model. */
int describe_is_positions(const rhumb_layer_kind *kind);
int describe_put_positions(cJSON *object, describe_report *report);

#endif
