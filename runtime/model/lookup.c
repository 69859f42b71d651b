#include "lookup.h"

#include "../internal.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#define CHECK_DEPTH 32u

static void make_one_line(char *text)
{
    for (; *text != '\0'; text++) {
        unsigned char c = (unsigned char)*text;
        if (c < 0x20 || c == 0x7f)
            *text = '?';
    }
}

rhumb_result rhumb_lookup_fail(const rhumb_lookup *l, rhumb_result result, const char *format, ...)
{
    va_list arguments;
    char line[512];

    va_start(arguments, format);
    (void)vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    make_one_line(line);
    if (l->message != NULL && l->message_size > 0)
        (void)snprintf(l->message, l->message_size, "%s", line);
    return rhumb_fail(NULL, result, "%s", line);
}

void rhumb_sourced_set(rhumb_sourced *s, double value, const char *format, ...)
{
    va_list arguments;

    s->value = value;
    va_start(arguments, format);
    (void)vsnprintf(s->source, sizeof s->source, format, arguments);
    va_end(arguments);
}

const char *rhumb_lookup_print_number(double value, char *text, size_t size)
{
    int digits;

    for (digits = 6; digits <= 17; digits++) {
        (void)snprintf(text, size, "%.*g", digits, value);
        if (strtod(text, NULL) == value)
            break;
    }
    return text;
}

const char *rhumb_lookup_print(const rhumb_key *key, char *text, size_t size)
{
    switch (key->kind) {
    case RHUMB_VALUE_NULL:
        (void)snprintf(text, size, "null");
        break;
    case RHUMB_VALUE_NUMBER:
        (void)rhumb_lookup_print_number(key->number, text, size);
        break;
    case RHUMB_VALUE_BOOL:
        (void)snprintf(text, size, "%s", key->number != 0.0 ? "true" : "false");
        break;
    case RHUMB_VALUE_STRING:
        (void)snprintf(text, size, "the string \"%.48s\"", key->string);
        break;
    case RHUMB_VALUE_LIST:
        (void)snprintf(text, size, "a list of %u", (unsigned)key->count);
        break;
    }
    return text;
}

static const char *value_fault(const rhumb_key *key, uint32_t depth)
{
    const char *fault = NULL;
    uint32_t i;

    switch (key->kind) {
    case RHUMB_VALUE_NULL:
    case RHUMB_VALUE_NUMBER:
    case RHUMB_VALUE_BOOL:
        return NULL;
    case RHUMB_VALUE_STRING:
        return key->string == NULL ? "string is NULL" : NULL;
    case RHUMB_VALUE_LIST:
        if (key->count > 0 && key->items == NULL)
            return "items is NULL";
        if (depth >= CHECK_DEPTH)
            return "lists are nested deeper than 32";
        for (i = 0; i < key->count && fault == NULL; i++)
            fault = value_fault(&key->items[i], depth + 1);
        return fault;
    }
    return "kind is none of rhumb_value_kind";
}

rhumb_result rhumb_lookup_check(const rhumb_lookup *l)
{
    uint32_t i;

    for (i = 0; i < l->key_count; i++) {
        const char *fault = l->keys[i].path == NULL ? "path is NULL" : value_fault(&l->keys[i], 0);
        if (fault != NULL)
            return rhumb_lookup_fail(l, RHUMB_ERROR_ARGUMENT, "scheme_from_keys: key %u (%s): %s",
                                     (unsigned)i,
                                     l->keys[i].path != NULL ? l->keys[i].path : "no path", fault);
    }
    return RHUMB_OK;
}

/* Whether a key's path is scope and `path` together. */
static int is_path(const rhumb_lookup *l, const char *key_path, const char *path)
{
    size_t length = strlen(l->scope);

    return strncmp(key_path, l->scope, length) == 0 && strcmp(key_path + length, path) == 0;
}

const char *rhumb_lookup_below(const rhumb_lookup *l, const rhumb_key *key, const char *object)
{
    size_t scope = strlen(l->scope);
    size_t length = strlen(object);

    if (strncmp(key->path, l->scope, scope) != 0 ||
        strncmp(key->path + scope, object, length) != 0 || key->path[scope + length] != '.')
        return NULL;
    return key->path + scope + length + 1;
}

rhumb_result rhumb_lookup_find(const rhumb_lookup *l, const char *path, const rhumb_key **key)
{
    uint32_t i;

    *key = NULL;
    for (i = 0; i < l->key_count; i++) {
        if (!is_path(l, l->keys[i].path, path))
            continue;
        if (*key != NULL)
            return rhumb_lookup_fail(l, RHUMB_ERROR_CONFIG, "%s%s: wanted once, found twice",
                                     l->scope, path);
        *key = &l->keys[i];
    }
    return RHUMB_OK;
}

static rhumb_result find_kind(const rhumb_lookup *l, const char *path, rhumb_value_kind kind,
                              const char *wanted, const rhumb_key **key)
{
    char found[80];
    rhumb_result result = rhumb_lookup_find(l, path, key);

    if (result != RHUMB_OK || *key == NULL)
        return result;
    if ((*key)->kind == RHUMB_VALUE_NULL) {
        *key = NULL;
        return RHUMB_OK;
    }
    if ((*key)->kind != kind)
        return rhumb_lookup_fail(l, RHUMB_ERROR_CONFIG, "%s%s: wanted %s, found %s", l->scope, path,
                                 wanted, rhumb_lookup_print(*key, found, sizeof found));
    return RHUMB_OK;
}

rhumb_result rhumb_lookup_number(const rhumb_lookup *l, const char *path, double least, double most,
                                 rhumb_sourced *value, int *found)
{
    const rhumb_key *key;
    char have[80];
    rhumb_result result = find_kind(l, path, RHUMB_VALUE_NUMBER, "a number", &key);

    *found = 0;
    if (result != RHUMB_OK || key == NULL)
        return result;
    if (!(key->number >= least && key->number <= most))
        return rhumb_lookup_fail(l, RHUMB_ERROR_CONFIG,
                                 "%s%s: wanted a number from %g to %g, found %s", l->scope, path,
                                 least, most,
                                 rhumb_lookup_print(key, have, sizeof have));
    rhumb_sourced_set(value, key->number, "%s", key->path);
    *found = 1;
    return RHUMB_OK;
}

rhumb_result rhumb_lookup_integer(const rhumb_lookup *l, const char *path, uint32_t least,
                                  uint32_t most, rhumb_sourced *value, int *found)
{
    const rhumb_key *key;
    char have[80];
    rhumb_result result = find_kind(l, path, RHUMB_VALUE_NUMBER, "an integer", &key);

    *found = 0;
    if (result != RHUMB_OK || key == NULL)
        return result;
    if (!(key->number >= least && key->number <= most) || floor(key->number) != key->number)
        return rhumb_lookup_fail(
            l, RHUMB_ERROR_CONFIG, "%s%s: wanted an integer from %u to %u, found %s", l->scope,
            path, (unsigned)least, (unsigned)most, rhumb_lookup_print(key, have, sizeof have));
    rhumb_sourced_set(value, key->number, "%s", key->path);
    *found = 1;
    return RHUMB_OK;
}

rhumb_result rhumb_lookup_need_integer(const rhumb_lookup *l, const char *who, const char *path,
                                       uint32_t least, uint32_t most, rhumb_sourced *value)
{
    int found;
    rhumb_result result = rhumb_lookup_integer(l, path, least, most, value, &found);

    if (result == RHUMB_OK && !found)
        return rhumb_lookup_fail(l, RHUMB_ERROR_CONFIG, "%s%s: missing, needed by %s", l->scope,
                                 path, who);
    return result;
}

rhumb_result rhumb_lookup_bool(const rhumb_lookup *l, const char *path, int *value, int *found)
{
    const rhumb_key *key;
    rhumb_result result = find_kind(l, path, RHUMB_VALUE_BOOL, "true or false", &key);

    *found = 0;
    if (result != RHUMB_OK || key == NULL)
        return result;
    *value = key->number != 0.0;
    *found = 1;
    return RHUMB_OK;
}

rhumb_result rhumb_lookup_string(const rhumb_lookup *l, const char *path, const char **value,
                                 int *found)
{
    const rhumb_key *key;
    rhumb_result result = find_kind(l, path, RHUMB_VALUE_STRING, "a string", &key);

    *found = 0;
    if (result != RHUMB_OK || key == NULL)
        return result;
    *value = key->string;
    *found = 1;
    return RHUMB_OK;
}
