/* Scheme structs from JSON objects and back. Which fields a struct has follows from the blocks of
 * rhumb_schemes.h (RHUMB_SCHEMES and the RHUMB_<NAME>_FIELDS lists); what its values are called is
 * in scheme_names.h. */
#ifndef RHUMB_TOOLS_SCHEME_JSON_H
#define RHUMB_TOOLS_SCHEME_JSON_H

#include "scheme_names.h"
#include "tensors.h"

#include <cjson/cJSON.h>

#include <stdbool.h>

typedef enum scheme_kind {
    SCHEME_rotary, /* as RHUMB_SCHEMES spells them */
    SCHEME_absolute,
    SCHEME_relative,
    SCHEME_resampling,
} scheme_kind;

typedef enum scheme_field_kind {
    SCHEME_U32,
    SCHEME_I32,
    SCHEME_F64,
    SCHEME_ENUM,
    SCHEME_LIST,   /* of doubles, their number in the struct's list_count */
    SCHEME_STRUCT, /* a pointer to the scheme of the field's name */
    SCHEME_U32X2,
    SCHEME_U32X4,
    SCHEME_F64X2,
} scheme_field_kind;

typedef struct scheme_field {
    const char *name;
    scheme_field_kind kind;
    size_t offset;
    size_t count_offset;       /* LIST: of list_count */
    const scheme_enum *values; /* ENUM */
} scheme_field;

typedef struct scheme_entry {
    const char *name;
    scheme_kind kind;
    uint32_t type; /* rhumb_scheme_type */
    size_t size;
    void (*init)(void *scheme);
    const scheme_field *(*fields)(size_t *count); /* 64 at most */
} scheme_entry;

/* All schemes in the order of RHUMB_SCHEMES. */
const scheme_entry *scheme_entries(size_t *count);
const scheme_entry *scheme_find(const char *name);     /* or NULL */
const scheme_entry *scheme_find_type(uint32_t type);   /* or NULL */

/* A struct with its defaults; NULL without memory. scheme_free frees what reading put into it too.
 */
void *scheme_new(const scheme_entry *entry);
void scheme_free(const scheme_entry *entry, void *scheme);

/* Whether the scheme has a field, or another name for one, that `value` could be meant for. A name
 * that is also a plan's (`scale`) is the scheme's if both or neither are lists. */
bool scheme_has(const scheme_entry *entry, const char *name, const cJSON *value);

/* One member. null leaves the default. Takes canonical names and those of PARAMS.md, and of mrope
 * those of its rope; all lists have one length. `given` has a bit for each field so far: one that comes again is refused. False: one
 * line in `error`, "NAME: wanted ..., found ...". */
bool scheme_read_member(const scheme_entry *entry, const cJSON *member, void *scheme,
                        uint64_t *given, tensor_error *error);

/* All members of an object. Unknown ones are refused with a list of those there are. */
bool scheme_read(const scheme_entry *entry, const cJSON *object, void *scheme,
                 tensor_error *error);

/* Every field by its canonical name; absent lists and structs are null. NULL without memory. */
cJSON *scheme_write(const scheme_entry *entry, const void *scheme);

/* "a, b, c": names of the fields; of those that PARAMS.md calls otherwise "a (or x)". Returns text. */
const char *scheme_names_text(const scheme_entry *entry, char *text, size_t size);

#endif /* RHUMB_TOOLS_SCHEME_JSON_H */
