/* safetensors files. */
#include "safetensors.h"

#include "file_io.h"

#include <cjson/cJSON.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LENGTH_BYTES 8
#define MAX_HEADER_BYTES 100000000u
#define MAX_EXACT 9007199254740992.0 /* 2^53: the whole numbers a JSON reader keeps */

/* One tensor of the header, before its bytes are looked at. */
typedef struct entry {
    const char *name;
    tensor_dtype dtype;
    uint32_t rank;
    uint64_t shape[TENSOR_MAX_RANK];
    uint64_t begin; /* bytes from the start of the data */
    uint64_t end;
} entry;

typedef struct source {
    const char *path;
    const char *header;
    size_t header_size;
    const char *data;
    size_t data_size;
    tensor_error *error;
} source;

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* An object with a key twice says two things; JSON readers silently take one. */
static int check_unique(const source *s, const cJSON *object, const char *where)
{
    const size_t count = (size_t)cJSON_GetArraySize(object);
    const char **names = malloc((count + 1) * sizeof *names);
    const cJSON *item;
    size_t used = 0, i;
    int result = 0;

    if (names == NULL)
        return file_fail(s->error, s->path, "no memory");
    cJSON_ArrayForEach(item, object) names[used++] = item->string;
    qsort(names, used, sizeof *names, compare_names);
    for (i = 1; i < used && result == 0; i++)
        if (strcmp(names[i - 1], names[i]) == 0)
            result =
                file_fail(s->error, s->path, "%.100s: wanted each key once, got \"%.200s\" twice",
                          where, names[i]);
    free(names);
    return result;
}

static int read_dtype(const source *s, const cJSON *item, entry *e)
{
    unsigned i;

    for (i = 0; cJSON_IsString(item) && i < TENSOR_DTYPE_COUNT; i++) {
        if (strcmp(item->valuestring, tensor_dtype_name((tensor_dtype)i)) == 0) {
            e->dtype = (tensor_dtype)i;
            return 0;
        }
    }
    return file_fail(s->error, s->path,
                     "tensor \"%.200s\": wanted dtype F32, F16, BF16, I32, F64 or I64, got %.40s",
                     e->name, cJSON_IsString(item) ? item->valuestring : "no string");
}

static int read_whole(const source *s, const entry *e, const char *key, const cJSON *item,
                      uint64_t *value)
{
    const double number = cJSON_IsNumber(item) ? item->valuedouble : -1.0;

    if (!(number >= 0.0 && number <= MAX_EXACT && floor(number) == number)) {
        if (cJSON_IsNumber(item))
            return file_fail(
                s->error, s->path,
                "tensor \"%.200s\": wanted whole numbers from 0 to 2^53 in %s, got %.17g", e->name,
                key, number);
        return file_fail(s->error, s->path,
                         "tensor \"%.200s\": wanted whole numbers in %s, got something else",
                         e->name, key);
    }
    *value = (uint64_t)number;
    return 0;
}

static int read_shape(const source *s, const cJSON *item, entry *e)
{
    const cJSON *number;

    if (!cJSON_IsArray(item) || cJSON_GetArraySize(item) > TENSOR_MAX_RANK)
        return file_fail(s->error, s->path,
                         "tensor \"%.200s\": wanted a shape of at most %d numbers, got %d of them",
                         e->name, TENSOR_MAX_RANK,
                         cJSON_IsArray(item) ? cJSON_GetArraySize(item) : 0);
    e->rank = 0;
    cJSON_ArrayForEach(number, item) if (read_whole(s, e, "shape", number, &e->shape[e->rank++]) !=
                                         0) return -1;
    return 0;
}

/* The shape's bytes; -1 if they pass 2^63 - 1. */
static int size_of_shape(const source *s, const entry *e, uint64_t *size)
{
    int empty = 0;
    uint32_t i;

    *size = tensor_dtype_size(e->dtype);
    for (i = 0; i < e->rank; i++)
        empty |= e->shape[i] == 0;
    for (i = 0; i < e->rank && !empty; i++) {
        if (e->shape[i] > (uint64_t)INT64_MAX / *size)
            return file_fail(
                s->error, s->path,
                "tensor \"%.200s\": wanted a size below 2^63 bytes, got a shape beyond it",
                e->name);
        *size *= e->shape[i];
    }
    if (empty)
        *size = 0;
    return 0;
}

static int read_offsets(const source *s, const cJSON *item, entry *e)
{
    uint64_t size;

    if (!cJSON_IsArray(item) || cJSON_GetArraySize(item) != 2)
        return file_fail(s->error, s->path,
                         "tensor \"%.200s\": wanted data_offsets [begin, end], got %d numbers",
                         e->name, cJSON_IsArray(item) ? cJSON_GetArraySize(item) : 0);
    if (read_whole(s, e, "data_offsets", cJSON_GetArrayItem(item, 0), &e->begin) != 0 ||
        read_whole(s, e, "data_offsets", cJSON_GetArrayItem(item, 1), &e->end) != 0 ||
        size_of_shape(s, e, &size) != 0)
        return -1;
    if (e->begin > e->end || e->end > s->data_size)
        return file_fail(s->error, s->path,
                         "tensor \"%.200s\": wanted data_offsets in order and within %zu bytes of "
                         "data, got [%llu, %llu]",
                         e->name, s->data_size, (unsigned long long)e->begin,
                         (unsigned long long)e->end);
    if (e->end - e->begin != size)
        return file_fail(s->error, s->path,
                         "tensor \"%.200s\": wanted %llu bytes for its shape and dtype, got %llu",
                         e->name, (unsigned long long)size,
                         (unsigned long long)(e->end - e->begin));
    if (e->begin % tensor_dtype_size(e->dtype) != 0)
        return file_fail(s->error, s->path,
                         "tensor \"%.200s\": wanted data aligned to %zu bytes, got offset %llu",
                         e->name, tensor_dtype_size(e->dtype), (unsigned long long)e->begin);
    return 0;
}

static int read_entry(const source *s, const cJSON *object, entry *e)
{
    static const char *const keys[] = {"dtype", "shape", "data_offsets"};
    const cJSON *item;
    size_t i;

    e->name = object->string;
    if (e->name[0] == '\0')
        return file_fail(s->error, s->path, "wanted a name for every tensor, got an empty one");
    if (!cJSON_IsObject(object))
        return file_fail(s->error, s->path,
                         "tensor \"%.200s\": wanted an object, got something else", e->name);
    if (check_unique(s, object, e->name) != 0)
        return -1;
    for (i = 0; i < sizeof keys / sizeof *keys; i++)
        if (cJSON_GetObjectItemCaseSensitive(object, keys[i]) == NULL)
            return file_fail(s->error, s->path,
                             "tensor \"%.200s\": wanted the key \"%s\", got none", e->name,
                             keys[i]);
    cJSON_ArrayForEach(item, object)
    {
        for (i = 0; i < sizeof keys / sizeof *keys; i++)
            if (strcmp(item->string, keys[i]) == 0)
                break;
        if (i == sizeof keys / sizeof *keys)
            return file_fail(
                s->error, s->path,
                "tensor \"%.200s\": wanted dtype, shape and data_offsets, got \"%.100s\"", e->name,
                item->string);
    }
    if (read_dtype(s, cJSON_GetObjectItemCaseSensitive(object, "dtype"), e) != 0 ||
        read_shape(s, cJSON_GetObjectItemCaseSensitive(object, "shape"), e) != 0)
        return -1;
    return read_offsets(s, cJSON_GetObjectItemCaseSensitive(object, "data_offsets"), e);
}

static int read_metadata(const source *s, const cJSON *object, tensor_list *list)
{
    const cJSON *item;

    if (!cJSON_IsObject(object))
        return file_fail(s->error, s->path,
                         "__metadata__: wanted an object of strings, got something else");
    if (check_unique(s, object, "__metadata__") != 0)
        return -1;
    cJSON_ArrayForEach(item, object)
    {
        if (!cJSON_IsString(item))
            return file_fail(s->error, s->path,
                             "__metadata__: wanted a string for \"%.200s\", got something else",
                             item->string);
        if (tensor_list_set_text(list, item->string, item->valuestring, s->error) != 0)
            return -1;
    }
    return 0;
}

static int compare_begins(const void *a, const void *b)
{
    const entry *x = a, *y = b;

    if (x->begin != y->begin)
        return x->begin < y->begin ? -1 : 1;
    return x->end < y->end ? -1 : x->end > y->end;
}

/* Every byte of the data belongs to exactly one tensor. */
static int check_coverage(const source *s, const entry *entries, size_t count)
{
    entry *sorted = malloc((count + 1) * sizeof *sorted);
    uint64_t at = 0;
    size_t i;
    int result = 0;

    if (sorted == NULL)
        return file_fail(s->error, s->path, "no memory");
    if (count != 0)
        memcpy(sorted, entries, count * sizeof *sorted);
    qsort(sorted, count, sizeof *sorted, compare_begins);
    for (i = 0; i < count && result == 0; i++) {
        if (sorted[i].begin != at)
            result = file_fail(
                s->error, s->path,
                "tensor \"%.200s\": wanted data without %s, from byte %llu, got byte %llu",
                sorted[i].name, sorted[i].begin < at ? "overlap" : "holes", (unsigned long long)at,
                (unsigned long long)sorted[i].begin);
        at = sorted[i].end;
    }
    free(sorted);
    if (result == 0 && at != s->data_size)
        result =
            file_fail(s->error, s->path, "wanted %llu bytes of data, as the header says, got %zu",
                      (unsigned long long)at, s->data_size);
    return result;
}

static int read_header(const source *s, const cJSON *root, tensor_list *list)
{
    const size_t capacity = (size_t)cJSON_GetArraySize(root);
    entry *entries = calloc(capacity + 1, sizeof *entries);
    const cJSON *item;
    size_t count = 0, i;
    int result = -1;

    if (entries == NULL)
        return file_fail(s->error, s->path, "no memory");
    if (check_unique(s, root, "header") != 0)
        goto fail;
    cJSON_ArrayForEach(item, root)
    {
        if (strcmp(item->string, "__metadata__") == 0) {
            if (read_metadata(s, item, list) != 0)
                goto fail;
        } else if (read_entry(s, item, &entries[count++]) != 0) {
            goto fail;
        }
    }
    if (check_coverage(s, entries, count) != 0)
        goto fail;
    for (i = 0; i < count; i++) {
        const entry *e = &entries[i];
        tensor *t = tensor_list_append(list, e->name, e->dtype, e->rank, e->shape, s->error);
        if (t == NULL)
            goto fail;
        memcpy(t->data, s->data + e->begin, (size_t)(e->end - e->begin));
    }
    result = 0;

fail:
    free(entries);
    return result;
}

static int open_source(source *s, const unsigned char *bytes, size_t size)
{
    uint64_t length = 0;
    int i;

    if (size < LENGTH_BYTES)
        return file_fail(s->error, s->path, "wanted at least %d bytes, got %zu", LENGTH_BYTES,
                         size);
    for (i = LENGTH_BYTES - 1; i >= 0; i--)
        length = length << 8 | bytes[i];
    if (length > MAX_HEADER_BYTES || length > size - LENGTH_BYTES)
        return file_fail(
            s->error, s->path,
            "wanted a header of at most %zu bytes (the file) and %u, got a length of %llu",
            size - LENGTH_BYTES, MAX_HEADER_BYTES, (unsigned long long)length);
    s->header = (const char *)bytes + LENGTH_BYTES;
    s->header_size = (size_t)length;
    s->data = s->header + length;
    s->data_size = size - LENGTH_BYTES - s->header_size;
    if (s->header_size < 2 || s->header[0] != '{')
        return file_fail(s->error, s->path,
                         "wanted a header that begins with {, got %zu bytes of something else",
                         s->header_size);
    if (memchr(s->header, 0, s->header_size) != NULL)
        return file_fail(s->error, s->path, "wanted JSON in the header, got a zero byte");
    return 0;
}

int safetensors_parse(const void *bytes, size_t size, const char *path, tensor_list *list,
                      tensor_error *error)
{
    source s = {.path = path, .error = error};
    tensor_list read = {0};
    const char *end = NULL;
    cJSON *root = NULL;
    int result = -1;

    if (list->count != 0 || list->text_count != 0)
        return file_fail(error, path, "wanted an empty list to read into, got %zu tensors",
                         list->count);
    if (open_source(&s, bytes, size) != 0)
        return -1;
    root = cJSON_ParseWithLengthOpts(s.header, s.header_size, &end, 0);
    if (root == NULL || !cJSON_IsObject(root)) {
        file_fail(error, path, "wanted one JSON object in the header, got a fault near byte %zu",
                  end != NULL ? (size_t)(end - s.header) : 0);
        goto fail;
    }
    while (end < s.header + s.header_size && *end == ' ')
        end++;
    if (end != s.header + s.header_size) {
        file_fail(error, path,
                  "wanted only spaces after the JSON object in the header, got something else at "
                  "byte %zu",
                  (size_t)(end - s.header));
        goto fail;
    }
    if (read_header(&s, root, &read) != 0)
        goto fail;
    tensor_list_free(list);
    *list = read;
    memset(&read, 0, sizeof read);
    result = 0;

fail:
    tensor_list_free(&read);
    cJSON_Delete(root);
    return result;
}

int safetensors_read(const char *path, tensor_list *list, tensor_error *error)
{
    size_t size = 0;
    void *bytes = file_read(path, &size, error);
    int result;

    if (bytes == NULL)
        return -1;
    result = safetensors_parse(bytes, size, path, list, error);
    free(bytes);
    return result;
}

static cJSON *number_array(const uint64_t *numbers, uint32_t count)
{
    cJSON *array = cJSON_CreateArray();
    uint32_t i;

    for (i = 0; array != NULL && i < count; i++) {
        /* As text: cJSON prints large doubles with an exponent, which readers of the format refuse.
         */
        char text[24];
        cJSON *item;
        snprintf(text, sizeof text, "%llu", (unsigned long long)numbers[i]);
        item = cJSON_CreateRaw(text);
        if (item == NULL || !cJSON_AddItemToArray(array, item)) {
            cJSON_Delete(item);
            cJSON_Delete(array);
            return NULL;
        }
    }
    return array;
}

static int add(cJSON *object, const char *key, cJSON *item)
{
    if (item != NULL && cJSON_AddItemToObject(object, key, item))
        return 0;
    cJSON_Delete(item);
    return -1;
}

static int add_entry(cJSON *root, const tensor *t, uint64_t begin)
{
    const uint64_t offsets[2] = {begin, begin + tensor_bytes(t)};
    cJSON *object = cJSON_CreateObject();

    if (object == NULL)
        return -1;
    if (add(object, "dtype", cJSON_CreateString(tensor_dtype_name(t->dtype))) != 0 ||
        add(object, "shape", number_array(t->shape, t->rank)) != 0 ||
        add(object, "data_offsets", number_array(offsets, 2)) != 0) {
        cJSON_Delete(object);
        return -1;
    }
    return add(root, t->name, object);
}

/* The tensors in the order of their data: largest element first, so that every offset is aligned.
 */
static const tensor **data_order(const tensor_list *list)
{
    const tensor **order = malloc((list->count + 1) * sizeof *order);
    size_t used = 0, size, i;

    for (size = 8; order != NULL && size >= 2; size /= 2)
        for (i = 0; i < list->count; i++)
            if (tensor_dtype_size(list->items[i].dtype) == size)
                order[used++] = &list->items[i];
    return order;
}

/* The header as text, or NULL without memory. */
static char *header_text(const tensor_list *list, const tensor **order)
{
    cJSON *root = cJSON_CreateObject(), *texts = NULL;
    char *text = NULL;
    uint64_t at = 0;
    size_t i;

    if (root == NULL)
        return NULL;
    if (list->text_count != 0) {
        texts = cJSON_CreateObject();
        for (i = 0; texts != NULL && i < list->text_count; i++)
            if (add(texts, list->texts[i].key, cJSON_CreateString(list->texts[i].value)) != 0)
                goto fail;
        if (texts == NULL || !cJSON_AddItemToObject(root, "__metadata__", texts))
            goto fail;
        texts = NULL;
    }
    for (i = 0; i < list->count; i++) {
        if (add_entry(root, order[i], at) != 0)
            goto fail;
        at += tensor_bytes(order[i]);
    }
    text = cJSON_PrintUnformatted(root);

fail:
    cJSON_Delete(texts);
    cJSON_Delete(root);
    return text;
}

int safetensors_write(const char *path, const tensor_list *list, tensor_error *error)
{
    const tensor **order = data_order(list);
    file_part *parts = calloc(list->count + 3, sizeof *parts);
    char *text = order != NULL ? header_text(list, order) : NULL;
    unsigned char length[LENGTH_BYTES];
    size_t size, padding, i;
    int result = -1;

    if (parts == NULL || text == NULL) {
        file_fail(error, path, "no memory");
        goto fail;
    }
    if (tensor_list_find(list, "__metadata__") != NULL) {
        file_fail(error, path, "wanted a tensor's name, got the reserved __metadata__");
        goto fail;
    }
    size = strlen(text);
    padding = (LENGTH_BYTES - size % LENGTH_BYTES) % LENGTH_BYTES;
    if (size + padding > MAX_HEADER_BYTES) {
        file_fail(error, path, "wanted a header of at most %u bytes, got %zu", MAX_HEADER_BYTES,
                  size);
        goto fail;
    }
    for (i = 0; i < LENGTH_BYTES; i++)
        length[i] = (unsigned char)((uint64_t)(size + padding) >> 8 * i);
    parts[0] = (file_part){length, LENGTH_BYTES};
    parts[1] = (file_part){text, size};
    parts[2] = (file_part){"       ", padding};
    for (i = 0; i < list->count; i++)
        parts[3 + i] = (file_part){order[i]->data, (size_t)tensor_bytes(order[i])};
    result = file_write(path, parts, list->count + 3, error);

fail:
    cJSON_free(text);
    free(parts);
    free(order);
    return result;
}
