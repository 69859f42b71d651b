/* Scheme structs from JSON objects and back: by the table of their fields, and what their values are
 * called (scheme_names.h). */
#ifndef RHUMB_TOOLS_SCHEME_JSON_H
#define RHUMB_TOOLS_SCHEME_JSON_H

#include "scheme_table.h"
#include "tensors.h"

#include <cjson/cJSON.h>

/* Whether the scheme has a field, or another name for one, that `value` could be meant for. A name
 * that is also a plan's (`scale`) is the scheme's if both or neither are lists. */
bool scheme_has(const scheme_entry *entry, const char *name, const cJSON *value);

/* One member. null leaves the default. Takes canonical names and those of PARAMS.md, and of mrope
 * those of its rope; all lists have one length. `given` has a bit for each field so far: one that comes again is refused. False: one
 * line in `error`, "NAME: wanted ..., found ...". */
bool scheme_read_member(const scheme_entry *entry, const cJSON *member, void *scheme,
                        uint64_t *given, tensor_error *error);

/* All members of an object. Unknown ones are refused with a list of those there are. */
bool scheme_read(const scheme_entry *entry, const cJSON *object, void *scheme, tensor_error *error);

/* Every field by its canonical name; absent lists and structs are null. NULL without memory. */
cJSON *scheme_write(const scheme_entry *entry, const void *scheme);

#endif /* RHUMB_TOOLS_SCHEME_JSON_H */
