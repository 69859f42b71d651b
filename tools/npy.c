/* NumPy .npy files. Format: numpy.lib.format, versions 1.0 and 2.0:
 *
 *     "\x93NUMPY", major, minor, header length (2 or 4 bytes, little-endian), header, data
 *
 * The header is a Python dictionary with the keys descr, fortran_order and shape, padded with
 * spaces and ended by a newline.
 */
#include "npy.h"

#include "file_io.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAGIC "\x93NUMPY"
#define MAGIC_BYTES 6
#define ALIGNMENT 64 /* of the data, as NumPy writes it */
#define MAX_HEADER_BYTES 65536u

typedef struct type_row {
    const char *descr;
    tensor_dtype dtype;
} type_row;

static const type_row types[] = {
    {"<f2", TENSOR_F16}, {"<f4", TENSOR_F32}, {"<f8", TENSOR_F64},
    {"<i4", TENSOR_I32}, {"<i8", TENSOR_I64},
};

#define TYPE_COUNT (sizeof types / sizeof *types)

/* A place in the header's text, which ends with a zero byte. */
typedef struct reader {
    const char *path;
    const char *at;
    tensor_error *error;
} reader;

typedef struct facts {
    char descr[32];
    int fortran_order;
    uint32_t rank;
    uint64_t shape[TENSOR_MAX_RANK];
    unsigned seen; /* a bit per key */
} facts;

static void skip_spaces(reader *r)
{
    while (*r->at == ' ' || *r->at == '\n' || *r->at == '\t')
        r->at++;
}

static int expect(reader *r, char wanted)
{
    skip_spaces(r);
    if (*r->at != wanted)
        return file_fail(r->error, r->path, "wanted '%c' in the header, got \"%.20s\"", wanted,
                         r->at);
    r->at++;
    return 0;
}

/* True and stepped over if it is there. */
static int accept(reader *r, const char *text)
{
    skip_spaces(r);
    if (strncmp(r->at, text, strlen(text)) != 0)
        return 0;
    r->at += strlen(text);
    return 1;
}

static int read_string(reader *r, char *text, size_t size)
{
    size_t used = 0;
    char quote;

    skip_spaces(r);
    quote = *r->at;
    if (quote != '\'' && quote != '"')
        return file_fail(r->error, r->path, "wanted a string in the header, got \"%.20s\"", r->at);
    for (r->at++; *r->at != quote; r->at++) {
        if (*r->at == '\0' || used + 1 >= size)
            return file_fail(r->error, r->path,
                             "wanted a string of at most %zu characters in the header, got more",
                             size - 1);
        text[used++] = *r->at;
    }
    text[used] = '\0';
    r->at++;
    return 0;
}

static int read_number(reader *r, uint64_t *value)
{
    skip_spaces(r);
    if (*r->at < '0' || *r->at > '9')
        return file_fail(r->error, r->path, "wanted a whole number in shape, got \"%.20s\"", r->at);
    for (*value = 0; *r->at >= '0' && *r->at <= '9'; r->at++) {
        const uint64_t digit = (uint64_t)(*r->at - '0');
        if (*value > ((uint64_t)INT64_MAX - digit) / 10)
            return file_fail(r->error, r->path,
                             "wanted numbers below 2^63 in shape, got a larger one");
        *value = *value * 10 + digit;
    }
    return 0;
}

/* (), (3,), (3, 4) */
static int read_shape(reader *r, facts *f)
{
    if (expect(r, '(') != 0)
        return -1;
    while (!accept(r, ")")) {
        if (f->rank == TENSOR_MAX_RANK)
            return file_fail(r->error, r->path, "wanted at most %d dimensions, got more",
                             TENSOR_MAX_RANK);
        if (read_number(r, &f->shape[f->rank++]) != 0)
            return -1;
        if (accept(r, ","))
            continue;
        if (f->rank == 1)
            return file_fail(r->error, r->path,
                             "wanted a tuple for shape, got a number in parentheses");
        if (expect(r, ')') != 0)
            return -1;
        break;
    }
    return 0;
}

static int read_value(reader *r, const char *key, facts *f)
{
    if (strcmp(key, "descr") == 0) {
        f->seen |= 1;
        return read_string(r, f->descr, sizeof f->descr);
    }
    if (strcmp(key, "shape") == 0) {
        f->seen |= 4;
        return read_shape(r, f);
    }
    f->seen |= 2;
    f->fortran_order = accept(r, "True");
    if (f->fortran_order || accept(r, "False"))
        return 0;
    return file_fail(r->error, r->path, "wanted True or False for fortran_order, got \"%.20s\"",
                     r->at);
}

static int read_dictionary(reader *r, facts *f)
{
    static const char *const keys[] = {"descr", "fortran_order", "shape"};
    char key[32];
    unsigned i;

    if (expect(r, '{') != 0)
        return -1;
    while (!accept(r, "}")) {
        if (read_string(r, key, sizeof key) != 0 || expect(r, ':') != 0)
            return -1;
        for (i = 0; i < 3 && strcmp(key, keys[i]) != 0; i++)
            continue;
        if (i == 3)
            return file_fail(r->error, r->path,
                             "wanted the keys descr, fortran_order and shape, got \"%s\"", key);
        if ((f->seen & 1u << i) != 0)
            return file_fail(r->error, r->path, "wanted each key once, got \"%s\" twice", key);
        if (read_value(r, key, f) != 0)
            return -1;
        if (!accept(r, ",")) {
            if (expect(r, '}') != 0)
                return -1;
            break;
        }
    }
    for (i = 0; i < 3; i++)
        if ((f->seen & 1u << i) == 0)
            return file_fail(r->error, r->path, "wanted the key \"%s\" in the header, got none",
                             keys[i]);
    skip_spaces(r);
    if (*r->at != '\0')
        return file_fail(r->error, r->path,
                         "wanted nothing after the dictionary in the header, got \"%.20s\"", r->at);
    return 0;
}

static int find_type(reader *r, const facts *f, tensor_dtype *dtype)
{
    size_t i;

    for (i = 0; i < TYPE_COUNT; i++) {
        if (strcmp(f->descr, types[i].descr) == 0) {
            *dtype = types[i].dtype;
            return 0;
        }
    }
    return file_fail(r->error, r->path, "wanted descr <f2, <f4, <f8, <i4 or <i8, got \"%s\"",
                     f->descr);
}

/* Where the header begins and how long it is. */
static int read_frame(const unsigned char *bytes, size_t size, const char *path, size_t *begin,
                      size_t *length, tensor_error *error)
{
    unsigned width, i;

    if (size < MAGIC_BYTES + 4 || memcmp(bytes, MAGIC, MAGIC_BYTES) != 0)
        return file_fail(error, path,
                         "wanted the .npy mark at the start, got %zu bytes of something else",
                         size);
    if (bytes[6] < 1 || bytes[6] > 2 || bytes[7] != 0)
        return file_fail(error, path, "wanted version 1.0 or 2.0, got %u.%u", bytes[6], bytes[7]);
    width = bytes[6] == 1 ? 2 : 4;
    *begin = MAGIC_BYTES + 2 + width;
    if (size < *begin)
        return file_fail(error, path, "wanted at least %zu bytes, got %zu", *begin, size);
    for (*length = 0, i = 0; i < width; i++)
        *length |= (size_t)bytes[MAGIC_BYTES + 2 + i] << 8 * i;
    if (*length > size - *begin || *length > MAX_HEADER_BYTES)
        return file_fail(
            error, path,
            "wanted a header of at most %zu bytes (the file) and %u, got a length of %zu",
            size - *begin, MAX_HEADER_BYTES, *length);
    if (memchr(bytes + *begin, 0, *length) != NULL)
        return file_fail(error, path, "wanted text in the header, got a zero byte");
    return 0;
}

static int add_array(reader *r, const facts *f, const char *name, const unsigned char *data,
                     size_t size, tensor_list *list)
{
    uint64_t count = 1, wanted;
    tensor_dtype dtype = TENSOR_F32;
    uint32_t i;
    tensor *t;

    if (f->fortran_order)
        return file_fail(r->error, r->path, "wanted C order (fortran_order False), got True");
    if (find_type(r, f, &dtype) != 0)
        return -1;
    /* Before any memory is asked for: the shape may say anything. */
    for (i = 0; i < f->rank; i++)
        if (f->shape[i] == 0)
            count = 0;
    for (i = 0; i < f->rank && count != 0; i++) {
        if (f->shape[i] > (uint64_t)INT64_MAX / tensor_dtype_size(dtype) / count)
            return file_fail(r->error, r->path,
                             "wanted a size below 2^63 bytes, got a shape beyond it");
        count *= f->shape[i];
    }
    wanted = count * tensor_dtype_size(dtype);
    if (wanted != size)
        return file_fail(r->error, r->path,
                         "wanted %llu bytes of data for the shape and %s, got %zu",
                         (unsigned long long)wanted, f->descr, size);
    t = tensor_list_add(list, name, dtype, f->rank, f->shape, r->error);
    if (t == NULL)
        return -1;
    memcpy(t->data, data, size);
    return 0;
}

int npy_parse(const void *bytes, size_t size, const char *path, const char *name, tensor_list *list,
              tensor_error *error)
{
    reader r = {.path = path, .error = error};
    facts f;
    size_t begin = 0, length = 0;
    char *header;
    int result;

    memset(&f, 0, sizeof f);
    if (read_frame(bytes, size, path, &begin, &length, error) != 0)
        return -1;
    header = malloc(length + 1);
    if (header == NULL)
        return file_fail(error, path, "no memory");
    memcpy(header, (const char *)bytes + begin, length);
    header[length] = '\0';
    r.at = header;
    result = read_dictionary(&r, &f);
    free(header);
    if (result != 0)
        return -1;
    return add_array(&r, &f, name, (const unsigned char *)bytes + begin + length,
                     size - begin - length, list);
}

int npy_read(const char *path, const char *name, tensor_list *list, tensor_error *error)
{
    size_t size = 0;
    void *bytes = file_read(path, &size, error);
    int result;

    if (bytes == NULL)
        return -1;
    result = npy_parse(bytes, size, path, name, list, error);
    free(bytes);
    return result;
}

/* "(3, 4)", "(3,)", "()" */
static void shape_tuple(const tensor *t, char *text, size_t size)
{
    size_t used = (size_t)snprintf(text, size, "(");
    uint32_t i;

    for (i = 0; i < t->rank && used < size; i++)
        used += (size_t)snprintf(text + used, size - used, i == 0 ? "%llu" : ", %llu",
                                 (unsigned long long)t->shape[i]);
    if (used < size)
        snprintf(text + used, size - used, t->rank == 1 ? ",)" : ")");
}

int npy_write(const char *path, const tensor *t, tensor_error *error)
{
    const char *descr = NULL;
    unsigned char frame[MAGIC_BYTES + 4];
    char shape[256], header[512];
    size_t length, total, i;
    file_part parts[3];

    for (i = 0; i < TYPE_COUNT; i++)
        if (types[i].dtype == t->dtype)
            descr = types[i].descr;
    if (descr == NULL)
        return file_fail(
            error, path,
            "wanted F16, F32, F64, I32 or I64 for a .npy file, got %s; safetensors has it",
            tensor_dtype_name(t->dtype));
    shape_tuple(t, shape, sizeof shape);
    length =
        (size_t)snprintf(header, sizeof header,
                         "{'descr': '%s', 'fortran_order': False, 'shape': %s, }", descr, shape);
    total = (sizeof frame + length + 1 + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT - sizeof frame;
    memset(header + length, ' ', total - length);
    header[total - 1] = '\n';
    memcpy(frame, MAGIC "\x01\x00", MAGIC_BYTES + 2);
    frame[MAGIC_BYTES + 2] = (unsigned char)(total & 0xff);
    frame[MAGIC_BYTES + 3] = (unsigned char)(total >> 8);
    parts[0] = (file_part){frame, sizeof frame};
    parts[1] = (file_part){header, total};
    parts[2] = (file_part){t->data, (size_t)tensor_bytes(t)};
    return file_write(path, parts, 3, error);
}
