/* Scheme structs as tables of fields, which follow from the blocks of rhumb_schemes.h: RHUMB_SCHEMES
 * and the RHUMB_<NAME>_FIELDS lists. */
#ifndef RHUMB_TOOLS_SCHEME_TABLE_H
#define RHUMB_TOOLS_SCHEME_TABLE_H

#include "scheme_names.h"

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
const scheme_entry *scheme_find(const char *name);   /* or NULL */
const scheme_entry *scheme_find_type(uint32_t type); /* or NULL */

/* A struct with its defaults; NULL without memory. scheme_free frees what reading put into it too.
 */
void *scheme_new(const scheme_entry *entry);
void scheme_free(const scheme_entry *entry, void *scheme);

/* The field of a name or of one that PARAMS.md has for it, and its place; or NULL. */
const scheme_field *scheme_find_field(const scheme_entry *entry, const char *name, size_t *index);
/* The field that points to another scheme's struct, and its place; or NULL. */
const scheme_field *scheme_find_struct(const scheme_entry *entry, size_t *index);
/* Numbers of an array, else 1. */
uint32_t scheme_field_count(const scheme_field *field);

/* "a, b, c": the names of the fields. Returns text. */
const char *scheme_names_text(const scheme_entry *entry, char *text, size_t size);

#endif /* RHUMB_TOOLS_SCHEME_TABLE_H */
