#include "scheme_json.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

/* ----------------------------------------------------------------------------------------------
 * Memory of a struct: members by their place
 */
static void put(void *scheme, size_t offset, const void *value, size_t size)
{
    memcpy((char *)scheme + offset, value, size);
}

static void get(const void *scheme, size_t offset, void *value, size_t size)
{
    memcpy(value, (const char *)scheme + offset, size);
}

static void *get_pointer(const void *scheme, size_t offset)
{
    void *pointer;

    get(scheme, offset, &pointer, sizeof pointer);
    return pointer;
}

/* ----------------------------------------------------------------------------------------------
 * Reading
 */
bool scheme_has(const scheme_entry *entry, const char *name, const cJSON *value)
{
    size_t index;
    const scheme_field *field = scheme_find_field(entry, name, &index);

    if (field == NULL) {
        field = scheme_find_struct(entry, &index);
        return field != NULL && scheme_has(scheme_find(field->name), name, value);
    }
    return strcmp(name, "scale") != 0 ||
           cJSON_IsArray(value) == (scheme_field_count(field) > 1 || field->kind == SCHEME_LIST);
}

static bool fail(tensor_error *error, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static bool fail(tensor_error *error, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(error->line, sizeof error->line, format, arguments);
    va_end(arguments);
    return false;
}

static bool wanted(const cJSON *member, const char *what, tensor_error *error)
{
    char *text = cJSON_PrintUnformatted(member);

    fail(error, "%s: wanted %s, found %.100s", member->string != NULL ? member->string : "params",
         what, text != NULL ? text : "?");
    cJSON_free(text);
    return false;
}

/* true and false are 1 and 0. */
static bool whole(const cJSON *value, double low, double high, double *number)
{
    *number = cJSON_IsBool(value) ? (double)cJSON_IsTrue(value) : value->valuedouble;
    return (cJSON_IsBool(value) || cJSON_IsNumber(value)) && *number >= low && *number <= high &&
           floor(*number) == *number;
}

static bool read_u32s(const cJSON *member, const scheme_field *field, void *scheme,
                      tensor_error *error)
{
    const int count = (int)scheme_field_count(field);
    const int found = cJSON_IsArray(member) ? cJSON_GetArraySize(member) : 0;
    uint32_t values[4] = {0};
    double number;

    /* the fourth axis is one that most models do not have */
    if (found != count && !(count == 4 && found == 3))
        return wanted(member, count == 4 ? "3 or 4 whole numbers" : "2 whole numbers", error);
    for (int i = 0; i < found; i++) {
        if (!whole(cJSON_GetArrayItem(member, i), 0.0, UINT32_MAX, &number))
            return wanted(member, "whole numbers from 0 to 4294967295", error);
        values[i] = (uint32_t)number;
    }
    put(scheme, field->offset, values, (size_t)count * sizeof *values);
    return true;
}

/* malloc'ed; NULL after an error. */
static double *read_doubles(const cJSON *member, int count, tensor_error *error)
{
    double *values = malloc((size_t)count * sizeof *values);

    if (values == NULL)
        fail(error, "%s: no host memory", member->string);
    for (int i = 0; values != NULL && i < count; i++) {
        const cJSON *item = cJSON_GetArrayItem(member, i);
        if (!cJSON_IsNumber(item) || !isfinite(item->valuedouble)) {
            wanted(member, "finite numbers", error);
            free(values);
            return NULL;
        }
        values[i] = item->valuedouble;
    }
    return values;
}

static bool read_pair(const cJSON *member, const scheme_field *field, void *scheme,
                      tensor_error *error)
{
    double *values;

    if (!cJSON_IsArray(member) || cJSON_GetArraySize(member) != 2)
        return wanted(member, "2 numbers", error);
    values = read_doubles(member, 2, error);
    if (values != NULL)
        put(scheme, field->offset, values, 2 * sizeof *values);
    free(values);
    return values != NULL;
}

static bool read_list(const cJSON *member, const scheme_field *field, void *scheme,
                      tensor_error *error)
{
    const int count = cJSON_IsArray(member) ? cJSON_GetArraySize(member) : 0;
    const double *values;
    uint32_t others;

    if (count == 0)
        return wanted(member, "a list of numbers", error);
    get(scheme, field->count_offset, &others, sizeof others);
    if (others != 0 && others != (uint32_t)count)
        return fail(error, "%s: wanted %u numbers, as the other list has, found %d", member->string,
                    others, count);
    values = read_doubles(member, count, error);
    if (values == NULL)
        return false;
    put(scheme, field->count_offset, &(uint32_t){(uint32_t)count}, sizeof(uint32_t));
    put(scheme, field->offset, &values, sizeof values);
    return true;
}

static bool read_enum(const cJSON *member, const scheme_field *field, void *scheme,
                      tensor_error *error)
{
    char names[400] = "one of ";
    size_t length = strlen(names);

    for (size_t i = 0; i < field->values->count; i++) {
        const char *name = field->values->names[i];
        const uint32_t value = (uint32_t)i;
        if (cJSON_IsString(member) && strcmp(member->valuestring, name) == 0) {
            put(scheme, field->offset, &value, sizeof value);
            return true;
        }
        length += (size_t)snprintf(names + length, sizeof names - length, "%s\"%s\"",
                                   i > 0 ? ", " : "", name);
    }
    return wanted(member, names, error);
}

static bool read_struct(const cJSON *member, const scheme_field *field, void *scheme,
                        tensor_error *error)
{
    const scheme_entry *entry = scheme_find(field->name);
    tensor_error inner = {.line = ""};
    void *nested;

    if (!cJSON_IsObject(member))
        return wanted(member, "an object", error);
    nested = scheme_new(entry);
    if (nested == NULL)
        return fail(error, "%s: no host memory", member->string);
    if (!scheme_read(entry, member, nested, &inner)) {
        scheme_free(entry, nested);
        return fail(error, "%s.%.560s", member->string, inner.line);
    }
    put(scheme, field->offset, &nested, sizeof nested);
    return true;
}

static bool read_value(const cJSON *member, const scheme_field *field, void *scheme,
                       tensor_error *error)
{
    double number;

    switch (field->kind) {
    case SCHEME_U32:
        if (!whole(member, 0.0, UINT32_MAX, &number))
            return wanted(member, "a whole number from 0 to 4294967295, or true or false", error);
        put(scheme, field->offset, &(uint32_t){(uint32_t)number}, sizeof(uint32_t));
        return true;
    case SCHEME_I32:
        if (!cJSON_IsNumber(member) || !whole(member, INT32_MIN, INT32_MAX, &number))
            return wanted(member, "a whole number from -2147483648 to 2147483647", error);
        put(scheme, field->offset, &(int32_t){(int32_t)number}, sizeof(int32_t));
        return true;
    case SCHEME_F64:
        if (!cJSON_IsNumber(member) || !isfinite(member->valuedouble))
            return wanted(member, "a number", error);
        put(scheme, field->offset, &member->valuedouble, sizeof(double));
        return true;
    case SCHEME_ENUM: return read_enum(member, field, scheme, error);
    case SCHEME_LIST: return read_list(member, field, scheme, error);
    case SCHEME_STRUCT: return read_struct(member, field, scheme, error);
    case SCHEME_F64X2: return read_pair(member, field, scheme, error);
    default: return read_u32s(member, field, scheme, error);
    }
}

/* The value of ours for one of theirs, by its JSON text: a copy with the member's name, or NULL. */
static cJSON *translate(const scheme_alias *alias, const cJSON *member)
{
    char *text = cJSON_PrintUnformatted(member);
    cJSON *value = NULL;

    for (size_t i = 0; text != NULL && alias->values[i] != NULL; i += 2) {
        if (strcmp(alias->values[i], text) == 0) {
            value = cJSON_Parse(alias->values[i + 1]);
            break;
        }
    }
    cJSON_free(text);
    return value;
}

static bool read_named(const scheme_entry *entry, const scheme_field *field, const cJSON *member,
                       void *scheme, tensor_error *error)
{
    const scheme_alias *alias = scheme_find_alias(entry->name, member->string);
    cJSON *ours = alias != NULL && alias->values != NULL ? translate(alias, member) : NULL;
    bool done;

    if (ours == NULL)
        return read_value(member, field, scheme, error);
    done = read_value(ours, field, scheme, error);
    cJSON_Delete(ours);
    return done;
}

static bool twice(const cJSON *member, const scheme_field *field, tensor_error *error)
{
    return fail(error, "%s: wanted once, found %s twice", member->string, field->name);
}

/* A parameter of the struct that a field points to: mrope has those of its rope as its own. */
static bool read_inner(const scheme_entry *entry, const cJSON *member, void *scheme,
                       uint64_t *given, tensor_error *error)
{
    size_t index, count;
    const scheme_field *field = scheme_find_struct(entry, &index);
    uint64_t inner;
    void *nested;

    entry->fields(&count);
    inner = *given >> count;
    nested = get_pointer(scheme, field->offset);
    if (*given >> index & 1u)
        return twice(member, field, error);
    if (nested == NULL)
        nested = scheme_new(scheme_find(field->name));
    if (nested == NULL)
        return fail(error, "%s: no host memory", member->string);
    put(scheme, field->offset, &nested, sizeof nested);
    if (!scheme_read_member(scheme_find(field->name), member, nested, &inner, error))
        return false;
    *given |= inner << count;
    return true;
}

bool scheme_read_member(const scheme_entry *entry, const cJSON *member, void *scheme,
                        uint64_t *given, tensor_error *error)
{
    char names[400];
    size_t index = 0, count;
    const scheme_field *field = scheme_find_field(entry, member->string, &index);

    entry->fields(&count);
    if (field == NULL && scheme_has(entry, member->string, member))
        return read_inner(entry, member, scheme, given, error);
    if (field == NULL)
        return fail(error, "%.60s: wanted a parameter of %s: %s", member->string, entry->name,
                    scheme_names_text(entry, names, sizeof names));
    if ((*given >> index & 1u) || (field->kind == SCHEME_STRUCT && *given >> count != 0))
        return twice(member, field, error);
    *given |= (uint64_t)1 << index;
    return cJSON_IsNull(member) || read_named(entry, field, member, scheme, error);
}

bool scheme_read(const scheme_entry *entry, const cJSON *object, void *scheme, tensor_error *error)
{
    const cJSON *member;
    uint64_t given = 0;

    if (!cJSON_IsObject(object))
        return wanted(object, "an object", error);
    cJSON_ArrayForEach(
        member, object) if (!scheme_read_member(entry, member, scheme, &given, error)) return false;
    return true;
}

/* ----------------------------------------------------------------------------------------------
 * Writing
 */
static cJSON *write_u32s(const void *scheme, const scheme_field *field)
{
    const uint32_t count = scheme_field_count(field);
    cJSON *list = cJSON_CreateArray();
    uint32_t values[4];

    get(scheme, field->offset, values, count * sizeof *values);
    for (uint32_t i = 0; i < count; i++)
        cJSON_AddItemToArray(list, cJSON_CreateNumber((double)values[i]));
    return list;
}

static cJSON *write_list(const void *scheme, const scheme_field *field)
{
    const double *values = get_pointer(scheme, field->offset);
    uint32_t count;

    get(scheme, field->count_offset, &count, sizeof count);
    return values != NULL ? cJSON_CreateDoubleArray(values, (int)count) : cJSON_CreateNull();
}

static cJSON *write_enum(const void *scheme, const scheme_field *field)
{
    uint32_t value;

    get(scheme, field->offset, &value, sizeof value);
    return value < field->values->count ? cJSON_CreateString(field->values->names[value])
                                        : cJSON_CreateNumber((double)value);
}

static cJSON *write_value(const void *scheme, const scheme_field *field)
{
    const void *nested;
    double numbers[2];
    uint32_t natural;
    int32_t integer;

    switch (field->kind) {
    case SCHEME_U32:
        get(scheme, field->offset, &natural, sizeof natural);
        return cJSON_CreateNumber((double)natural);
    case SCHEME_I32:
        get(scheme, field->offset, &integer, sizeof integer);
        return cJSON_CreateNumber((double)integer);
    case SCHEME_F64:
        get(scheme, field->offset, numbers, sizeof *numbers);
        return cJSON_CreateNumber(numbers[0]);
    case SCHEME_ENUM: return write_enum(scheme, field);
    case SCHEME_LIST: return write_list(scheme, field);
    case SCHEME_STRUCT:
        nested = get_pointer(scheme, field->offset);
        return nested != NULL ? scheme_write(scheme_find(field->name), nested) : cJSON_CreateNull();
    case SCHEME_F64X2:
        get(scheme, field->offset, numbers, sizeof numbers);
        return cJSON_CreateDoubleArray(numbers, 2);
    default: return write_u32s(scheme, field);
    }
}

cJSON *scheme_write(const scheme_entry *entry, const void *scheme)
{
    size_t count;
    const scheme_field *fields = entry->fields(&count);
    cJSON *object = cJSON_CreateObject();

    for (size_t i = 0; i < count; i++) {
        if (!cJSON_AddItemToObject(object, fields[i].name, write_value(scheme, &fields[i]))) {
            cJSON_Delete(object);
            return NULL;
        }
    }
    return object;
}
