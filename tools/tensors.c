/* Named tensors in host memory. */
#include "tensors.h"

#include "file_io.h"
#include "reference.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct dtype_row {
    const char *name;
    size_t size;
} dtype_row;

static const dtype_row dtypes[TENSOR_DTYPE_COUNT] = {
    [TENSOR_F32] = {"F32", 4}, [TENSOR_F16] = {"F16", 2}, [TENSOR_BF16] = {"BF16", 2},
    [TENSOR_I32] = {"I32", 4}, [TENSOR_F64] = {"F64", 8}, [TENSOR_I64] = {"I64", 8},
};

size_t tensor_dtype_size(tensor_dtype dtype)
{
    return dtypes[dtype].size;
}

const char *tensor_dtype_name(tensor_dtype dtype)
{
    return dtypes[dtype].name;
}

uint64_t tensor_bytes(const tensor *t)
{
    return t->count * dtypes[t->dtype].size;
}

const char *tensor_shape_text(const tensor *t, char *text, size_t size)
{
    size_t used = 0;
    uint32_t i;

    used += (size_t)snprintf(text, size, "[");
    for (i = 0; i < t->rank && used < size; i++)
        used += (size_t)snprintf(text + used, size - used, i == 0 ? "%llu" : ", %llu",
                                 (unsigned long long)t->shape[i]);
    if (used < size)
        snprintf(text + used, size - used, "]");
    return text;
}

static char *copy_text(const char *text)
{
    const size_t size = strlen(text) + 1;
    char *copy = malloc(size);

    if (copy != NULL)
        memcpy(copy, text, size);
    return copy;
}

void tensor_list_free(tensor_list *list)
{
    size_t i;

    for (i = 0; i < list->count; i++) {
        free(list->items[i].name);
        free(list->items[i].data);
    }
    for (i = 0; i < list->text_count; i++) {
        free(list->texts[i].key);
        free(list->texts[i].value);
    }
    free(list->items);
    free(list->texts);
    memset(list, 0, sizeof *list);
}

tensor *tensor_list_find(const tensor_list *list, const char *name)
{
    size_t i;

    for (i = 0; i < list->count; i++)
        if (strcmp(list->items[i].name, name) == 0)
            return &list->items[i];
    return NULL;
}

/* Elements of the shape; -1 if their bytes pass 2^63 - 1. */
static int count_elements(tensor_dtype dtype, uint32_t rank, const uint64_t *shape, uint64_t *count)
{
    const uint64_t most = (uint64_t)INT64_MAX / dtypes[dtype].size;
    int empty = 0;
    uint32_t i;

    *count = 1;
    for (i = 0; i < rank; i++)
        empty |= shape[i] == 0;
    for (i = 0; i < rank && !empty; i++) {
        if (shape[i] > most / *count)
            return -1;
        *count *= shape[i];
    }
    if (empty)
        *count = 0;
    return 0;
}

static int reserve(tensor_list *list)
{
    const size_t capacity = list->capacity == 0 ? 8 : 2 * list->capacity;
    tensor *items;

    if (list->count < list->capacity)
        return 0;
    items = realloc(list->items, capacity * sizeof *items);
    if (items == NULL)
        return -1;
    list->items = items;
    list->capacity = capacity;
    return 0;
}

tensor *tensor_list_add(tensor_list *list, const char *name, tensor_dtype dtype, uint32_t rank,
                        const uint64_t *shape, tensor_error *error)
{
    if (tensor_list_find(list, name) != NULL) {
        file_fail(error, name, "wanted each tensor once, got this name twice");
        return NULL;
    }
    return tensor_list_append(list, name, dtype, rank, shape, error);
}

tensor *tensor_list_append(tensor_list *list, const char *name, tensor_dtype dtype, uint32_t rank,
                           const uint64_t *shape, tensor_error *error)
{
    tensor t;

    memset(&t, 0, sizeof t);
    if (name[0] == '\0') {
        file_fail(error, "tensor", "wanted a name, got an empty one");
        return NULL;
    }
    if (rank > TENSOR_MAX_RANK) {
        file_fail(error, name, "wanted at most %d dimensions, got %u", TENSOR_MAX_RANK, rank);
        return NULL;
    }
    t.dtype = dtype;
    t.rank = rank;
    if (rank != 0)
        memcpy(t.shape, shape, rank * sizeof *shape);
    if (count_elements(dtype, rank, shape, &t.count) != 0) {
        char text[192];
        file_fail(error, name, "wanted a size below 2^63 bytes, got %s of %s",
                  tensor_shape_text(&t, text, sizeof text), tensor_dtype_name(dtype));
        return NULL;
    }
    t.name = copy_text(name);
    t.data = calloc(1, (size_t)tensor_bytes(&t) + 4);
    if (t.name == NULL || t.data == NULL || reserve(list) != 0) {
        file_fail(error, name, "no memory for %llu bytes", (unsigned long long)tensor_bytes(&t));
        free(t.name);
        free(t.data);
        return NULL;
    }
    list->items[list->count] = t;
    return &list->items[list->count++];
}

const char *tensor_list_text(const tensor_list *list, const char *key)
{
    size_t i;

    for (i = 0; i < list->text_count; i++)
        if (strcmp(list->texts[i].key, key) == 0)
            return list->texts[i].value;
    return NULL;
}

int tensor_list_set_text(tensor_list *list, const char *key, const char *value, tensor_error *error)
{
    char *key_copy = copy_text(key), *value_copy = copy_text(value);
    tensor_text *texts;
    size_t i;

    if (key_copy == NULL || value_copy == NULL)
        goto fail;
    for (i = 0; i < list->text_count; i++) {
        if (strcmp(list->texts[i].key, key) == 0) {
            free(list->texts[i].value);
            list->texts[i].value = value_copy;
            free(key_copy);
            return 0;
        }
    }
    texts = realloc(list->texts, (list->text_count + 1) * sizeof *texts);
    if (texts == NULL)
        goto fail;
    list->texts = texts;
    texts[list->text_count].key = key_copy;
    texts[list->text_count++].value = value_copy;
    return 0;

fail:
    free(key_copy);
    free(value_copy);
    return file_fail(error, key, "no memory");
}

double tensor_get(const tensor *t, uint64_t index)
{
    const char *at = (const char *)t->data + index * dtypes[t->dtype].size;
    uint16_t half;
    float f32;
    double f64;
    int32_t i32;
    int64_t i64;

    switch (t->dtype) {
    case TENSOR_F32:
        memcpy(&f32, at, sizeof f32);
        return (double)f32;
    case TENSOR_F16:
        memcpy(&half, at, sizeof half);
        return ref_double_from_f16(half);
    case TENSOR_BF16:
        memcpy(&half, at, sizeof half);
        return ref_double_from_bf16(half);
    case TENSOR_I32:
        memcpy(&i32, at, sizeof i32);
        return (double)i32;
    case TENSOR_F64:
        memcpy(&f64, at, sizeof f64);
        return f64;
    case TENSOR_I64:
        memcpy(&i64, at, sizeof i64);
        return (double)i64;
    }
    return (double)NAN;
}

static int64_t saturated(double value, double low, double end, int64_t most)
{
    if (isnan(value))
        return 0;
    value = nearbyint(value);
    if (value >= end)
        return most;
    return value < low ? -most - 1 : (int64_t)value;
}

void tensor_put(tensor *t, uint64_t index, double value)
{
    char *at = (char *)t->data + index * dtypes[t->dtype].size;
    const uint16_t half =
        t->dtype == TENSOR_F16 ? ref_f16_from_double(value) : ref_bf16_from_double(value);
    const float f32 = (float)value;
    int32_t i32;
    int64_t i64;

    switch (t->dtype) {
    case TENSOR_F32:
        memcpy(at, &f32, sizeof f32);
        break;
    case TENSOR_F16:
    case TENSOR_BF16:
        memcpy(at, &half, sizeof half);
        break;
    case TENSOR_I32:
        i32 = (int32_t)saturated(value, -0x1p31, 0x1p31, INT32_MAX);
        memcpy(at, &i32, sizeof i32);
        break;
    case TENSOR_F64:
        memcpy(at, &value, sizeof value);
        break;
    case TENSOR_I64:
        i64 = saturated(value, -0x1p63, 0x1p63, INT64_MAX);
        memcpy(at, &i64, sizeof i64);
        break;
    }
}

double *tensor_doubles(const tensor *t)
{
    double *values = NULL;
    uint64_t i;

    if (t->count < SIZE_MAX / sizeof *values)
        values = malloc((size_t)(t->count + 1) * sizeof *values);
    for (i = 0; values != NULL && i < t->count; i++)
        values[i] = tensor_get(t, i);
    return values;
}

/* SplitMix64 (Steele, Lea, Flood 2014). */
static uint64_t next_bits(uint64_t *state)
{
    uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);

    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

void tensor_fill_normal(tensor *t, uint64_t seed)
{
    const double turn = 6.283185307179586476925;
    uint64_t state = seed, i;

    for (i = 0; i < t->count; i += 2) {
        /* (0, 1], so that the logarithm is finite; then [0, 1). */
        const double first = (double)((next_bits(&state) >> 11) + 1) * 0x1p-53;
        const double second = (double)(next_bits(&state) >> 11) * 0x1p-53;
        const double radius = sqrt(-2.0 * log(first));

        tensor_put(t, i, radius * cos(turn * second));
        if (i + 1 < t->count)
            tensor_put(t, i + 1, radius * sin(turn * second));
    }
}
