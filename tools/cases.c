/* Golden cases: files, folders, parameters, comparison. What a scheme's parameters mean is in the
 * file of its family (cases_rope.c, cases_xpos.c, ...).
 */
#define _POSIX_C_SOURCE 200809L

#include "cases_internal.h"

#include "file_io.h"
#include "safetensors.h"

#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define SUFFIX ".safetensors"
#define MAX_DEPTH 16

typedef struct scheme_row {
    const char *name;
    int (*run)(case_file *c);
} scheme_row;

/* All schemes of README.md. */
static const scheme_row schemes[] = {
    {"sinusoidal", case_run_sinusoidal},
    {"learned", case_run_learned},
    {"sinusoidal2d", case_run_sinusoidal2d},
    {"learned2d", case_run_learned2d},
    {"shaw", case_run_shaw},
    {"music_transformer", case_run_music},
    {"t5", case_run_t5},
    {"alibi", case_run_alibi},
    {"transformer_xl", case_run_transformer_xl},
    {"xlnet", case_run_xlnet},
    {"deberta", case_run_deberta},
    {"rope", case_run_rope},
    {"xpos", case_run_xpos},
    {"rope2d", case_run_rope2d},
    {"mrope", case_run_mrope},
    {"swin", case_run_swin},
    {"swin_v2", case_run_swin_v2},
};

static const char *const ops[] = {
    "encode", "table", "rotate", "frequencies", "bias", "buckets", "scores", "attention", "resize",
};

/* ------------------------------------------------------------------------------------------------
 * One file
 */
static void set_name(case_result *result, const char *path)
{
    const char *slash = strrchr(path, '/');
    const char *name = slash != NULL ? slash + 1 : path;
    size_t length = strlen(name);
    const size_t suffix = strlen(SUFFIX);

    if (length > suffix && strcmp(name + length - suffix, SUFFIX) == 0)
        length -= suffix;
    snprintf(result->name, sizeof result->name, "%.*s", (int)length, name);
}

static int read_tolerance(case_file *c)
{
    const char *text = tensor_list_text(&c->tensors, "tolerance");
    char *end = NULL;
    double value;

    if (text == NULL)
        return case_fail(c, "metadata: wanted tolerance, got none");
    value = strtod(text, &end);
    if (end == text || *end != '\0' || !(value >= 0.0) || isinf(value))
        return case_fail(c, "metadata: wanted a number of 0 or more for tolerance, got \"%.40s\"",
                         text);
    c->result->tolerance = value;
    return 0;
}

static int read_metadata(case_file *c)
{
    const char *params = tensor_list_text(&c->tensors, "params");
    const char *scheme = tensor_list_text(&c->tensors, "scheme");
    const char *op = tensor_list_text(&c->tensors, "op");
    const char *end = NULL;

    if (scheme == NULL || op == NULL || params == NULL)
        return case_fail(c, "metadata: wanted scheme, op and params, got no %s",
                         scheme == NULL ? "scheme"
                         : op == NULL   ? "op"
                                        : "params");
    snprintf(c->result->scheme, sizeof c->result->scheme, "%s", scheme);
    snprintf(c->result->op, sizeof c->result->op, "%s", op);
    if (read_tolerance(c) != 0)
        return -1;
    c->params = cJSON_ParseWithOpts(params, &end, 1);
    if (!cJSON_IsObject(c->params))
        return case_fail(c, "metadata: wanted a JSON object for params, got a fault near byte %zu",
                         end != NULL ? (size_t)(end - params) : 0);
    return 0;
}

static int run_scheme(case_file *c)
{
    const char *scheme = tensor_list_text(&c->tensors, "scheme");
    const char *op = tensor_list_text(&c->tensors, "op");
    size_t i;

    for (i = 0; i < sizeof ops / sizeof *ops && strcmp(op, ops[i]) != 0; i++)
        continue;
    if (i == sizeof ops / sizeof *ops)
        return case_fail(c, "metadata: unknown op \"%.100s\"", op);
    for (i = 0; i < sizeof schemes / sizeof *schemes; i++) {
        if (strcmp(scheme, schemes[i].name) != 0)
            continue;
        return schemes[i].run(c);
    }
    return case_fail(c, "metadata: unknown scheme \"%.100s\"", scheme);
}

void cases_free_plans(cases_plans *plans)
{
    size_t i;

    for (i = 0; i < plans->count; i++)
        rhumb_destroy_plan(plans->items[i]);
    free(plans->items);
    plans->items = NULL;
    plans->count = 0;
}

void cases_run_file(const char *path, gpu *device, cases_plans *plans, case_result *result)
{
    case_file c = {.path = path, .device = device, .plans = plans, .result = result};
    tensor_error error;

    memset(result, 0, sizeof *result);
    set_name(result, path);
    result->reference_error = (double)NAN;
    result->device_error = (double)NAN;
    if (safetensors_read(path, &c.tensors, &error) != 0)
        case_fail(&c, "%.250s", error.line);
    else if (read_metadata(&c) == 0 && run_scheme(&c) == 0)
        result->status = CASE_PASS;
    tensor_list_free(&c.tensors);
    cJSON_Delete(c.params);
}

/* ------------------------------------------------------------------------------------------------
 * Folders
 */
typedef struct path_list {
    char **paths;
    size_t count;
    size_t capacity;
} path_list;

static void free_paths(path_list *list)
{
    size_t i;

    for (i = 0; i < list->count; i++)
        free(list->paths[i]);
    free(list->paths);
}

/* Takes the path, also when it fails. */
static int add_path(path_list *list, char *path)
{
    if (list->count == list->capacity) {
        const size_t capacity = list->capacity == 0 ? 64 : 2 * list->capacity;
        char **paths = realloc(list->paths, capacity * sizeof *paths);
        if (paths == NULL) {
            free(path);
            return -1;
        }
        list->paths = paths;
        list->capacity = capacity;
    }
    list->paths[list->count++] = path;
    return 0;
}

static char *join(const char *folder, const char *name)
{
    const size_t size = strlen(folder) + strlen(name) + 2;
    char *path = malloc(size);

    if (path != NULL)
        snprintf(path, size, "%s/%s", folder, name);
    return path;
}

static int collect(const char *folder, int depth, path_list *list, tensor_error *error);

/* One entry of a folder. Links to folders are not followed: they may lead round. */
static int collect_entry(const char *folder, const char *name, int depth, path_list *list,
                         tensor_error *error)
{
    const size_t length = strlen(name), suffix = strlen(SUFFIX);
    struct stat status;
    char *path;
    int result = 0;

    if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
        return 0;
    path = join(folder, name);
    if (path == NULL)
        return file_fail(error, folder, "no memory");
    if (lstat(path, &status) == 0 && S_ISDIR(status.st_mode))
        result = collect(path, depth + 1, list, error);
    else if (length > suffix && strcmp(name + length - suffix, SUFFIX) == 0)
        return add_path(list, path) == 0 ? 0 : file_fail(error, folder, "no memory");
    free(path);
    return result;
}

static int collect(const char *folder, int depth, path_list *list, tensor_error *error)
{
    DIR *directory;
    const struct dirent *entry;
    int result = 0;

    if (depth > MAX_DEPTH)
        return file_fail(error, folder, "wanted at most %d folders inside each other, got more",
                         MAX_DEPTH);
    directory = opendir(folder);
    if (directory == NULL)
        return file_fail(error, folder, "cannot be listed: %s", strerror(errno));
    while (result == 0 && (entry = readdir(directory)) != NULL)
        result = collect_entry(folder, entry->d_name, depth, list, error);
    closedir(directory);
    return result;
}

static int compare_paths(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static void run_path(const char *path, gpu *device, cases_plans *plans, cases_fn each, void *user,
                     cases_count *count)
{
    case_result result;

    cases_run_file(path, device, plans, &result);
    count->passed += result.status == CASE_PASS;
    count->failed += result.status == CASE_FAIL;
    if (each != NULL)
        each(user, &result);
}

int cases_run(const char *path, gpu *device, cases_fn each, void *user, cases_count *count,
              tensor_error *error)
{
    path_list list = {NULL, 0, 0};
    cases_plans plans = {NULL, 0};
    struct stat status;
    int result = 0;
    size_t i;

    if (stat(path, &status) != 0)
        return file_fail(error, path, "wanted a case file or a folder of them: %s",
                         strerror(errno));
    if (!S_ISDIR(status.st_mode)) {
        run_path(path, device, NULL, each, user, count);
        return 0;
    }
    result = collect(path, 0, &list, error);
    if (result == 0 && list.count == 0)
        result = file_fail(error, path, "wanted %s files in the folder, got none", SUFFIX);
    if (result == 0) {
        qsort(list.paths, list.count, sizeof *list.paths, compare_paths);
        for (i = 0; i < list.count; i++)
            run_path(list.paths[i], device, &plans, each, user, count);
    }
    cases_free_plans(&plans);
    free_paths(&list);
    return result;
}
