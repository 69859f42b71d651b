/* JSON objects of what several commands print. */
#ifndef RHUMB_TOOLS_JSON_OUT_H
#define RHUMB_TOOLS_JSON_OUT_H

#include "gpu.h"

#include <cjson/cJSON.h>

/* Adds name, type, driver version, API version and UUID of the device to `object`. */
void json_put_device(cJSON *object, const gpu *g);

/* Adds the context's limits, by the names of rhumb_limits. */
void json_put_limits(cJSON *object, const rhumb_limits *limits);

/* Adds variant, reason and costs of a plan. */
void json_put_plan(cJSON *object, const rhumb_plan_properties *properties);

/* Prints the object to stdout, indented, with a newline, and deletes it. -1: no memory. That
 * stdout took it is for main to see. */
int json_print(cJSON *object);

/* "6d657361-..." style text of a UUID into text (37 bytes or more); returns text. */
const char *json_uuid_text(const uint8_t uuid[VK_UUID_SIZE], char *text, size_t size);

#endif /* RHUMB_TOOLS_JSON_OUT_H */
