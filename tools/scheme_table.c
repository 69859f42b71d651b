#include "scheme_table.h"

#include <stdio.h>
#include <stdlib.h>

#define COUNT(list) (sizeof(list) / sizeof *(list))

/* ----------------------------------------------------------------------------------------------
 * The table. In each function below `described` is the struct of the scheme.
 */
#define VALUES_OF(type)                                                                            \
    type:                                                                                          \
    &type##_strings,
#define FIELD_VALUES_ENUM(member)                                                                  \
    _Generic(((described *)0)->member, SCHEME_ENUMS(VALUES_OF) void *: NULL)
#define FIELD_VALUES_U32(member) NULL
#define FIELD_VALUES_I32(member) NULL
#define FIELD_VALUES_F64(member) NULL
#define FIELD_VALUES_LIST(member) NULL
#define FIELD_VALUES_STRUCT(member) NULL
#define FIELD_VALUES_U32X2(member) NULL
#define FIELD_VALUES_U32X4(member) NULL
#define FIELD_VALUES_F64X2(member) NULL
#define FIELD_COUNT_ENUM 0
#define FIELD_COUNT_U32 0
#define FIELD_COUNT_I32 0
#define FIELD_COUNT_F64 0
#define FIELD_COUNT_LIST offsetof(described, list_count)
#define FIELD_COUNT_STRUCT 0
#define FIELD_COUNT_U32X2 0
#define FIELD_COUNT_U32X4 0
#define FIELD_COUNT_F64X2 0
#define FIELD(kind, member)                                                                        \
    {#member, SCHEME_##kind, offsetof(described, member), FIELD_COUNT_##kind,                      \
     FIELD_VALUES_##kind(member)},

#define DESCRIBE(UPPER, lower, scheme_kind_name)                                                   \
    static const scheme_field *lower##_fields(size_t *count)                                       \
    {                                                                                              \
        typedef rhumb_##lower described;                                                           \
        /* one more than there are: a scheme may have none */                                      \
        static const scheme_field fields[] = {RHUMB_##UPPER##_FIELDS(FIELD){0}};                   \
        *count = COUNT(fields) - 1;                                                                \
        (void)sizeof(described);                                                                   \
        return fields;                                                                             \
    }                                                                                              \
    static void lower##_init(void *scheme)                                                         \
    {                                                                                              \
        rhumb_init_##lower(scheme);                                                                \
    }
RHUMB_SCHEMES(DESCRIBE)

#undef DESCRIBE
#undef FIELD

const scheme_entry *scheme_entries(size_t *count)
{
#define ENTRY(UPPER, lower, kind)                                                                  \
    {#lower,       SCHEME_##kind, RHUMB_TYPE_##UPPER, sizeof(rhumb_##lower),                       \
     lower##_init, lower##_fields},
    static const scheme_entry entries[] = {RHUMB_SCHEMES(ENTRY)};
#undef ENTRY
    *count = COUNT(entries);
    return entries;
}

const scheme_entry *scheme_find(const char *name)
{
    size_t count;
    const scheme_entry *entries = scheme_entries(&count);

    for (size_t i = 0; i < count; i++)
        if (strcmp(entries[i].name, name) == 0)
            return &entries[i];
    return NULL;
}

const scheme_entry *scheme_find_type(uint32_t type)
{
    size_t count;
    const scheme_entry *entries = scheme_entries(&count);

    for (size_t i = 0; i < count; i++)
        if (entries[i].type == type)
            return &entries[i];
    return NULL;
}

/* ----------------------------------------------------------------------------------------------
 * Memory
 */
static void *pointer_at(const void *scheme, size_t offset)
{
    void *pointer;

    memcpy(&pointer, (const char *)scheme + offset, sizeof pointer);
    return pointer;
}

void *scheme_new(const scheme_entry *entry)
{
    void *scheme = calloc(1, entry->size);

    if (scheme != NULL)
        entry->init(scheme);
    return scheme;
}

void scheme_free(const scheme_entry *entry, void *scheme)
{
    size_t count;
    const scheme_field *fields = entry->fields(&count);

    if (scheme == NULL)
        return;
    for (size_t i = 0; i < count; i++) {
        if (fields[i].kind == SCHEME_LIST)
            free(pointer_at(scheme, fields[i].offset));
        else if (fields[i].kind == SCHEME_STRUCT)
            scheme_free(scheme_find(fields[i].name), pointer_at(scheme, fields[i].offset));
    }
    free(scheme);
}

/* ----------------------------------------------------------------------------------------------
 * Names
 */
const scheme_field *scheme_find_field(const scheme_entry *entry, const char *name, size_t *index)
{
    const scheme_alias *alias = scheme_find_alias(entry->name, name);
    size_t count;
    const scheme_field *fields = entry->fields(&count);

    for (size_t i = 0; i < count; i++) {
        if (strcmp(fields[i].name, alias != NULL ? alias->member : name) == 0) {
            *index = i;
            return &fields[i];
        }
    }
    return NULL;
}

uint32_t scheme_field_count(const scheme_field *field)
{
    switch (field->kind) {
    case SCHEME_U32X2:
    case SCHEME_F64X2: return 2;
    case SCHEME_U32X4: return 4;
    default: return 1;
    }
}

const scheme_field *scheme_find_struct(const scheme_entry *entry, size_t *index)
{
    size_t count;
    const scheme_field *fields = entry->fields(&count);

    for (*index = 0; *index < count; (*index)++)
        if (fields[*index].kind == SCHEME_STRUCT)
            return &fields[*index];
    return NULL;
}

const char *scheme_names_text(const scheme_entry *entry, char *text, size_t size)
{
    size_t count, length = 0;
    const scheme_field *fields = entry->fields(&count);

    text[0] = '\0';
    for (size_t i = 0; i < count && length < size; i++)
        length += (size_t)snprintf(text + length, size - length, "%s%s", i > 0 ? ", " : "",
                                   fields[i].name);
    return text;
}
