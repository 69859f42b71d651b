#define _POSIX_C_SOURCE 200809L /* scandir */

/* NAME.json against NAME.expected.json. */
#include "describe_model.h"

#include <cjson/cJSON.h>
#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#define TOLERANCE 1e-6
#define EXPECTED_SUFFIX ".expected.json"
#define CONFIG_SUFFIX ".json"
#define LATER_PREFIX "not implemented: "

/* --- one pair --- */

typedef struct difference {
    char *text;
    size_t size;
    int found;
} difference;

#if defined(__GNUC__)
__attribute__((format(printf, 2, 3)))
#endif
static void
differ(difference *d, const char *format, ...)
{
    va_list arguments;

    if (d->found)
        return;
    d->found = 1;
    va_start(arguments, format);
    (void)vsnprintf(d->text, d->size, format, arguments);
    va_end(arguments);
}

static int is_ignored(const char *name)
{
    static const char *const ignored[] = {"source", "note", "form", "bias_layers", "layer_pattern"};
    size_t i;

    for (i = 0; i < sizeof ignored / sizeof ignored[0]; i++) {
        if (strcmp(name, ignored[i]) == 0)
            return 1;
    }
    return 0;
}

static int is_whole(double value)
{
    return fabs(value) < 9007199254740992.0 && floor(value) == value;
}

/* Whole numbers are counts and must be equal; others may differ by rounding. */
static int numbers_agree(double wanted, double found)
{
    if (is_whole(wanted) && is_whole(found))
        return wanted == found;
    return fabs(wanted - found) <= TOLERANCE * fabs(wanted);
}

static const char *print(const cJSON *value, char *text, size_t size)
{
    char *printed = cJSON_PrintUnformatted(value);

    (void)snprintf(text, size, "%.60s", printed != NULL ? printed : "?");
    cJSON_free(printed);
    return text;
}

static void compare_values(const char *path, const cJSON *wanted, const cJSON *found,
                           difference *d);

static void compare_lists(const char *path, const cJSON *wanted, const cJSON *found, difference *d)
{
    int count = cJSON_GetArraySize(wanted);
    char name[160];
    int i;

    if (cJSON_GetArraySize(found) != count) {
        differ(d, "%s: wanted %d items, found %d", path, count, cJSON_GetArraySize(found));
        return;
    }
    for (i = 0; i < count; i++) {
        (void)snprintf(name, sizeof name, "%.120s[%d]", path, i);
        compare_values(name, cJSON_GetArrayItem(wanted, i), cJSON_GetArrayItem(found, i), d);
    }
}

static void compare_objects(const char *path, const cJSON *wanted, const cJSON *found,
                            difference *d)
{
    const cJSON *item;
    char name[160];

    cJSON_ArrayForEach(item, wanted)
    {
        const cJSON *other = cJSON_GetObjectItemCaseSensitive(found, item->string);
        if (is_ignored(item->string))
            continue;
        (void)snprintf(name, sizeof name, "%.80s%s%.60s", path, *path != '\0' ? "." : "",
                       item->string);
        if (other == NULL)
            differ(d, "%s: missing in the result", name);
        else
            compare_values(name, item, other, d);
    }
    cJSON_ArrayForEach(item, found)
    {
        if (!is_ignored(item->string) &&
            cJSON_GetObjectItemCaseSensitive(wanted, item->string) == NULL)
            differ(d, "%s%s%s: not among the expected keys", path, *path != '\0' ? "." : "",
                   item->string);
    }
}

static void compare_values(const char *path, const cJSON *wanted, const cJSON *found, difference *d)
{
    char want_text[64];
    char found_text[64];
    int same = 0;

    if (cJSON_IsObject(wanted) && cJSON_IsObject(found)) {
        compare_objects(path, wanted, found, d);
        return;
    }
    if (cJSON_IsArray(wanted) && cJSON_IsArray(found)) {
        compare_lists(path, wanted, found, d);
        return;
    }
    if (cJSON_IsNumber(wanted) && cJSON_IsNumber(found))
        same = numbers_agree(wanted->valuedouble, found->valuedouble);
    else if (cJSON_IsString(wanted) && cJSON_IsString(found))
        same = strcmp(wanted->valuestring, found->valuestring) == 0;
    else if (cJSON_IsBool(wanted) && cJSON_IsBool(found))
        same = cJSON_IsTrue(wanted) == cJSON_IsTrue(found);
    else
        same = cJSON_IsNull(wanted) && cJSON_IsNull(found);
    if (!same)
        differ(d, "%s: wanted %s, found %s", path, print(wanted, want_text, sizeof want_text),
               print(found, found_text, sizeof found_text));
}

/* Also checks that the file is sound: duplicates and the like, as in a configuration. */
static cJSON *read_expected(const char *path, difference *d)
{
    rhumb_model_config config;
    char message[256];
    char *text = NULL;
    cJSON *object = NULL;
    FILE *file;
    size_t size;

    if (rhumb_model_read_config(path, &config, message, sizeof message) != RHUMB_OK) {
        differ(d, "%s", message);
        return NULL;
    }
    rhumb_model_free_config(&config);
    file = fopen(path, "rb");
    text = malloc(RHUMB_MODEL_MAX_BYTES);
    if (file != NULL && text != NULL) {
        size = fread(text, 1, RHUMB_MODEL_MAX_BYTES, file);
        object = cJSON_ParseWithLength(text, size);
    }
    if (object == NULL)
        differ(d, "%s: cannot be read", path);
    free(text);
    if (file != NULL)
        (void)fclose(file);
    return object;
}

static void compare_report(describe_report *report, const char *expected_path, difference *d)
{
    cJSON *expected = read_expected(expected_path, d);
    cJSON *found = NULL;
    char *text = NULL;

    if (expected == NULL)
        return;
    text = describe_json(report);
    if (text != NULL)
        found = cJSON_Parse(text);
    if (found != NULL)
        compare_objects("", expected, found, d);
    else
        differ(d, "%s", report->message[0] != '\0' ? report->message : "no memory");
    free(text);
    cJSON_Delete(found);
    cJSON_Delete(expected);
}

describe_outcome describe_compare_pair(const char *config_path, const char *expected_path,
                                       char *detail, size_t detail_size)
{
    describe_report *report = malloc(sizeof *report);
    difference d = {detail, detail_size, 0};
    describe_outcome outcome;

    if (detail_size > 0)
        detail[0] = '\0';
    if (report == NULL) {
        differ(&d, "no memory");
        return DESCRIBE_FAIL;
    }
    if (describe_model_file(config_path, report) != RHUMB_OK) {
        int later = strncmp(report->message, LATER_PREFIX, strlen(LATER_PREFIX)) == 0;
        differ(&d, "%s", report->message);
        outcome = later ? DESCRIBE_SKIP : DESCRIBE_FAIL;
    } else {
        compare_report(report, expected_path, &d);
        outcome = d.found ? DESCRIBE_FAIL : DESCRIBE_PASS;
    }
    describe_free(report);
    free(report);
    return outcome;
}

/* --- a folder --- */

static int ends_in(const char *name, const char *suffix)
{
    size_t length = strlen(name);
    size_t tail = strlen(suffix);

    return length > tail && strcmp(name + length - tail, suffix) == 0;
}

static int is_json(const struct dirent *entry)
{
    return entry->d_name[0] != '.' && ends_in(entry->d_name, CONFIG_SUFFIX);
}

static int by_name(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

static int is_listed(struct dirent *const *entries, int count, const char *name)
{
    int i;

    for (i = 0; i < count; i++) {
        if (strcmp(entries[i]->d_name, name) == 0)
            return 1;
    }
    return 0;
}

static char *path_of(const char *dir, const char *name, const char *suffix)
{
    size_t size = strlen(dir) + strlen(name) + strlen(suffix) + 2;
    char *path = malloc(size);

    if (path != NULL)
        (void)snprintf(path, size, "%s/%s%s", dir, name, suffix);
    return path;
}

static void compare_named(const char *dir, const char *name, describe_result_fn result, void *user)
{
    char *config = path_of(dir, name, CONFIG_SUFFIX);
    char *expected = path_of(dir, name, EXPECTED_SUFFIX);
    char detail[DESCRIBE_MESSAGE_BYTES] = "no memory";
    describe_outcome outcome = DESCRIBE_FAIL;

    if (config != NULL && expected != NULL)
        outcome = describe_compare_pair(config, expected, detail, sizeof detail);
    result(user, name, outcome, detail);
    free(config);
    free(expected);
}

/* One file of the folder: an expected file is reported only if its configuration is not there. */
static int compare_entry(const char *dir, struct dirent *const *entries, int count,
                         const char *file, describe_result_fn result, void *user)
{
    int expected = ends_in(file, EXPECTED_SUFFIX);
    size_t length = strlen(file) - strlen(expected ? EXPECTED_SUFFIX : CONFIG_SUFFIX);
    char name[256];
    char partner[288];

    (void)snprintf(name, sizeof name, "%.*s", (int)length, file);
    (void)snprintf(partner, sizeof partner, "%s%s", name,
                   expected ? CONFIG_SUFFIX : EXPECTED_SUFFIX);
    if (is_listed(entries, count, partner)) {
        if (!expected)
            compare_named(dir, name, result, user);
        return !expected;
    }
    result(user, name, DESCRIBE_FAIL,
           expected ? "its .json file is missing" : "its .expected.json file is missing");
    return 0;
}

int describe_compare_dir(const char *dir, describe_result_fn result, void *user, char *message,
                         size_t message_size)
{
    struct dirent **entries = NULL;
    int count;
    int pairs = 0;
    int i;

    errno = 0;
    count = scandir(dir, &entries, is_json, by_name);
    if (count < 0) {
        (void)snprintf(message, message_size, "%s: wanted a folder of configurations: %s", dir,
                       strerror(errno));
        return -1;
    }
    for (i = 0; i < count; i++)
        pairs += compare_entry(dir, entries, count, entries[i]->d_name, result, user);
    for (i = 0; i < count; i++)
        free(entries[i]);
    free(entries);
    if (pairs > 0)
        return pairs;
    (void)snprintf(message, message_size,
                   "%s: wanted NAME.json with NAME.expected.json, found no such pair", dir);
    return -1;
}
