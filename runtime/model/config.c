/* config.json -> rhumb_key[]. Two walks over the parsed document: the first checks and counts, the
 * second fills memory of that size. Strings of the keys stay in the document, which lives as long
 * as they do. */
#include <rhumb/rhumb_model.h>

#include <cjson/cJSON.h>
#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#define MAX_PATH_BYTES 67108864u /* of all paths together; names nested in names multiply */

typedef struct model_memory {
    cJSON *document;
    rhumb_key *keys;
    rhumb_key *items;
    char *paths;
} model_memory;

typedef struct walk {
    const char *source; /* file name or "configuration" */
    char *message;
    size_t message_size;
    /* counted by the first walk, then used up by the second */
    size_t keys;
    size_t items;
    size_t path_bytes;
    model_memory *memory;
} walk;

#if defined(__GNUC__)
__attribute__((format(printf, 3, 4)))
#endif
static rhumb_result
fail(const walk *w, rhumb_result result, const char *format, ...)
{
    va_list arguments;
    char line[512];
    char *c;

    va_start(arguments, format);
    (void)vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    for (c = line; *c != '\0'; c++) {
        if ((unsigned char)*c < 0x20 || *c == 0x7f)
            *c = '?';
    }
    if (w->message != NULL && w->message_size > 0)
        (void)snprintf(w->message, w->message_size, "%s: %s", w->source, line);
    return result;
}

/* --- text to document --- */

static size_t line_of(const char *text, const char *at)
{
    size_t line = 1;

    for (; text < at; text++)
        line += *text == '\n';
    return line;
}

/* A string with \u0000 would end early in C and could so be taken for another one. */
static const char *find_nul_escape(const char *text, size_t size)
{
    size_t i;

    for (i = 0; i < size; i++) {
        if (text[i] == '\0')
            return text + i;
        if (text[i] != '\\')
            continue;
        if (size - i >= 6 && memcmp(text + i, "\\u0000", 6) == 0)
            return text + i;
        i++;
    }
    return NULL;
}

static rhumb_result parse(const walk *w, const char *text, size_t size, cJSON **document)
{
    const char *end = NULL;
    const char *nul = find_nul_escape(text, size);

    if (nul != NULL)
        return fail(w, RHUMB_ERROR_CONFIG, "line %zu: wanted text, found a NUL character",
                    line_of(text, nul));
    *document = cJSON_ParseWithLengthOpts(text, size, &end, 0);
    if (*document == NULL) {
        if (end == NULL || end < text || end > text + size)
            end = text;
        return fail(w, RHUMB_ERROR_CONFIG, "line %zu: wanted JSON, found \"%.*s\"",
                    line_of(text, end), (int)(text + size - end < 24 ? text + size - end : 24),
                    end);
    }
    while (end < text + size && (*end == ' ' || *end == '\t' || *end == '\r' || *end == '\n'))
        end++;
    if (end < text + size)
        return fail(w, RHUMB_ERROR_CONFIG, "line %zu: wanted the end of the file, found \"%.*s\"",
                    line_of(text, end), (int)(text + size - end < 24 ? text + size - end : 24),
                    end);
    if (!cJSON_IsObject(*document))
        return fail(w, RHUMB_ERROR_CONFIG, "wanted a JSON object, found another value");
    return RHUMB_OK;
}

/* --- first walk --- */

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static rhumb_result check_names(const walk *w, const cJSON *object)
{
    size_t count = (size_t)cJSON_GetArraySize(object);
    const cJSON *child;
    const char **names;
    rhumb_result result = RHUMB_OK;
    size_t i = 0;

    if (count < 2)
        return RHUMB_OK;
    names = malloc(count * sizeof *names);
    if (names == NULL)
        return fail(w, RHUMB_ERROR_HOST_MEMORY, "no memory for %zu names", count);
    for (child = object->child; child != NULL; child = child->next)
        names[i++] = child->string;
    qsort(names, count, sizeof *names, compare_names);
    for (i = 1; i < count && result == RHUMB_OK; i++) {
        if (strcmp(names[i - 1], names[i]) == 0)
            result = fail(w, RHUMB_ERROR_CONFIG, "%.80s: wanted once in its object, found twice",
                          names[i]);
    }
    free(names);
    return result;
}

static rhumb_result check_value(const walk *w, const cJSON *value, const char *name)
{
    if (cJSON_IsNumber(value) && !isfinite(value->valuedouble))
        return fail(w, RHUMB_ERROR_CONFIG,
                    "%.80s: wanted a number within the range of double, found one beyond", name);
    return RHUMB_OK;
}

static size_t escaped_length(const char *name)
{
    size_t length = 0;

    for (; *name != '\0'; name++)
        length += *name == '.' || *name == '\\' ? 2 : 1;
    return length;
}

static rhumb_result check_depth(const walk *w, uint32_t depth, const char *name)
{
    if (depth >= RHUMB_MODEL_MAX_DEPTH)
        return fail(w, RHUMB_ERROR_CONFIG, "%.80s: wanted at most %u nested levels, found more",
                    name, RHUMB_MODEL_MAX_DEPTH);
    return RHUMB_OK;
}

static rhumb_result count_list(walk *w, const cJSON *list, const char *name, uint32_t depth)
{
    rhumb_result result = check_depth(w, depth, name);
    const cJSON *child;

    for (child = list->child; child != NULL && result == RHUMB_OK; child = child->next) {
        w->items++;
        result = cJSON_IsArray(child) ? count_list(w, child, name, depth + 1)
                                      : check_value(w, child, name);
    }
    return result;
}

static rhumb_result count_object(walk *w, const cJSON *object, const char *name, size_t prefix,
                                 uint32_t depth)
{
    rhumb_result result = check_depth(w, depth, name);
    const cJSON *child;

    if (result == RHUMB_OK)
        result = check_names(w, object);
    for (child = object->child; child != NULL && result == RHUMB_OK; child = child->next) {
        size_t length = prefix + escaped_length(child->string);
        if (cJSON_IsObject(child)) {
            result = count_object(w, child, child->string, length + 1, depth + 1);
            continue;
        }
        w->keys++;
        w->path_bytes += length + 1;
        if (w->path_bytes > MAX_PATH_BYTES)
            return fail(w, RHUMB_ERROR_CONFIG, "wanted at most %u bytes of key paths, found more",
                        MAX_PATH_BYTES);
        result = cJSON_IsArray(child) ? count_list(w, child, child->string, depth + 1)
                                      : check_value(w, child, child->string);
    }
    return result;
}

/* --- second walk --- */

static void fill_value(walk *w, const cJSON *value, rhumb_key *key)
{
    const cJSON *child;
    rhumb_key *items;
    uint32_t i = 0;

    if (cJSON_IsNumber(value)) {
        key->kind = RHUMB_VALUE_NUMBER;
        key->number = value->valuedouble;
    } else if (cJSON_IsBool(value)) {
        key->kind = RHUMB_VALUE_BOOL;
        key->number = cJSON_IsTrue(value) ? 1.0 : 0.0;
    } else if (cJSON_IsString(value)) {
        key->kind = RHUMB_VALUE_STRING;
        key->string = value->valuestring;
    } else if (cJSON_IsArray(value)) {
        key->kind = RHUMB_VALUE_LIST;
        key->count = (uint32_t)cJSON_GetArraySize(value);
        items = w->memory->items + w->items;
        w->items += key->count;
        key->items = key->count > 0 ? items : NULL;
        for (child = value->child; child != NULL; child = child->next)
            fill_value(w, child, &items[i++]);
    }
}

static char *append_name(char *end, const char *name)
{
    for (; *name != '\0'; name++) {
        if (*name == '.' || *name == '\\')
            *end++ = '\\';
        *end++ = *name;
    }
    return end;
}

/* The names from the root to a leaf. */
typedef struct trail {
    const struct trail *parent;
    const char *name;
} trail;

static char *append_trail(char *end, const trail *t)
{
    if (t == NULL)
        return end;
    end = append_name(append_trail(end, t->parent), t->name);
    *end++ = '.';
    return end;
}

static void fill_object(walk *w, const cJSON *object, const trail *parent)
{
    const cJSON *child;

    for (child = object->child; child != NULL; child = child->next) {
        char *path = w->memory->paths + w->path_bytes;
        char *end;

        if (cJSON_IsObject(child)) {
            const trail here = {parent, child->string};
            fill_object(w, child, &here);
            continue;
        }
        end = append_name(append_trail(path, parent), child->string);
        *end++ = '\0';
        w->path_bytes += (size_t)(end - path);
        w->memory->keys[w->keys].path = path;
        fill_value(w, child, &w->memory->keys[w->keys++]);
    }
}

/* --- entry points --- */

static rhumb_result flatten(walk *w, rhumb_model_config *config)
{
    rhumb_result result = count_object(w, w->memory->document, "configuration", 0, 0);
    size_t key_count = w->keys;

    if (result != RHUMB_OK)
        return result;
    w->memory->keys = calloc(w->keys + 1, sizeof *w->memory->keys);
    w->memory->items = calloc(w->items + 1, sizeof *w->memory->items);
    w->memory->paths = malloc(w->path_bytes + 1);
    if (w->memory->keys == NULL || w->memory->items == NULL || w->memory->paths == NULL)
        return fail(w, RHUMB_ERROR_HOST_MEMORY, "no memory for %zu keys", key_count);
    w->keys = w->items = w->path_bytes = 0;
    fill_object(w, w->memory->document, NULL);
    config->keys = key_count > 0 ? w->memory->keys : NULL;
    config->key_count = (uint32_t)key_count;
    return RHUMB_OK;
}

static rhumb_result parse_config(walk *w, const char *text, size_t size, rhumb_model_config *config)
{
    rhumb_result result;

    if (size > RHUMB_MODEL_MAX_BYTES)
        return fail(w, RHUMB_ERROR_CONFIG, "wanted at most %u bytes, found more",
                    RHUMB_MODEL_MAX_BYTES);
    w->memory = calloc(1, sizeof *w->memory);
    if (w->memory == NULL)
        return fail(w, RHUMB_ERROR_HOST_MEMORY, "no memory");
    config->memory = w->memory;
    result = parse(w, text, size, &w->memory->document);
    if (result == RHUMB_OK)
        result = flatten(w, config);
    if (result != RHUMB_OK)
        rhumb_model_free_config(config);
    return result;
}

static walk begin(const char *source, char *message, size_t message_size,
                  rhumb_model_config *config)
{
    walk w = {.source = source, .message = message, .message_size = message_size};

    if (message != NULL && message_size > 0)
        message[0] = '\0';
    if (config != NULL)
        memset(config, 0, sizeof *config);
    return w;
}

rhumb_result rhumb_model_parse_config(const char *text, size_t size, rhumb_model_config *config,
                                      char *message, size_t message_size)
{
    walk w = begin("configuration", message, message_size, config);

    if (text == NULL || config == NULL)
        return fail(&w, RHUMB_ERROR_ARGUMENT, "wanted text and a result, found NULL");
    return parse_config(&w, text, size, config);
}

rhumb_result rhumb_model_read_config(const char *path, rhumb_model_config *config, char *message,
                                     size_t message_size)
{
    walk w = begin(path != NULL ? path : "configuration", message, message_size, config);
    rhumb_result result;
    char *text = NULL;
    FILE *file = NULL;
    size_t size;

    if (path == NULL || config == NULL)
        return fail(&w, RHUMB_ERROR_ARGUMENT, "wanted a path and a result, found NULL");
    file = fopen(path, "rb");
    if (file == NULL)
        return fail(&w, RHUMB_ERROR_CONFIG, "wanted a readable file: %s", strerror(errno));
    /* One byte more than is allowed tells a file that is too long. */
    text = malloc(RHUMB_MODEL_MAX_BYTES + 1);
    if (text == NULL) {
        result = fail(&w, RHUMB_ERROR_HOST_MEMORY, "no memory for the file");
        goto done;
    }
    size = fread(text, 1, RHUMB_MODEL_MAX_BYTES + 1, file);
    if (ferror(file)) {
        result = fail(&w, RHUMB_ERROR_CONFIG, "wanted a readable file: %s", strerror(errno));
        goto done;
    }
    result = parse_config(&w, text, size, config);
done:
    free(text);
    (void)fclose(file);
    return result;
}

void rhumb_model_free_config(rhumb_model_config *config)
{
    model_memory *memory;

    if (config == NULL)
        return;
    memory = config->memory;
    if (memory != NULL) {
        cJSON_Delete(memory->document);
        free(memory->keys);
        free(memory->items);
        free(memory->paths);
        free(memory);
    }
    memset(config, 0, sizeof *config);
}
