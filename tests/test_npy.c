/* .npy files: what NumPy writes is read, what is not that is refused with one line. */
#define _POSIX_C_SOURCE 200809L

#include "npy.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct npy_row {
    const char *why; /* part of the error; NULL: it is read */
    const char *header;
    size_t data_size;
    unsigned char major; /* 0: version 1.0 */
    unsigned char minor;
    long length; /* written as the header's length; -1: the right one */
} npy_row;

#define HEAD(descr, order, shape)                                                                  \
    "{'descr': '" descr "', 'fortran_order': " order ", 'shape': " shape ", }\n"
#define GOOD HEAD("<f4", "False", "(3,)")

static const npy_row rows[] = {
    {NULL, GOOD, 12, 1, 0, -1},
    {NULL, GOOD, 12, 2, 0, -1},
    {NULL, HEAD("<f2", "False", "(2, 3)"), 12, 1, 0, -1},
    {NULL, HEAD("<f8", "False", "()"), 8, 1, 0, -1},
    {NULL, HEAD("<i4", "False", "(1, 2, 1, 2, 1, 1, 1, 1)"), 16, 1, 0, -1},
    {NULL, HEAD("<i8", "False", "(0, 5)"), 0, 1, 0, -1},
    {NULL, "{\"shape\":(3,),\"fortran_order\":False,\"descr\":\"<f4\"}", 12, 1, 0, -1},
    {"fortran_order False", HEAD("<f4", "True", "(3,)"), 12, 1, 0, -1},
    {"True or False", HEAD("<f4", "0", "(3,)"), 12, 1, 0, -1},
    {"wanted descr", HEAD(">f4", "False", "(3,)"), 12, 1, 0, -1},
    {"wanted descr", HEAD("<c8", "False", "(3,)"), 24, 1, 0, -1},
    {"wanted descr", HEAD("|u1", "False", "(3,)"), 3, 1, 0, -1},
    {"a string in the header", "{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (3,)}",
     12, 1, 0, -1},
    {"wanted 12 bytes of data", GOOD, 11, 1, 0, -1},
    {"wanted 12 bytes of data", GOOD, 13, 1, 0, -1},
    {"below 2^63 bytes", HEAD("<f4", "False", "(4611686018427387904, 2)"), 12, 1, 0, -1},
    {"below 2^63 bytes", HEAD("<f8", "False", "(1152921504606846976,)"), 12, 1, 0, -1},
    {"numbers below 2^63", HEAD("<f4", "False", "(9223372036854775808,)"), 12, 1, 0, -1},
    {"numbers below 2^63", HEAD("<f4", "False", "(99999999999999999999999,)"), 12, 1, 0, -1},
    {"at most 8 dimensions", HEAD("<f4", "False", "(1,1,1,1,1,1,1,1,3)"), 12, 1, 0, -1},
    {"whole number", HEAD("<f4", "False", "(-3,)"), 12, 1, 0, -1},
    {"a tuple", HEAD("<f4", "False", "(3)"), 12, 1, 0, -1},
    {"wanted '('", HEAD("<f4", "False", "[3]"), 12, 1, 0, -1},
    {"wanted ')'", HEAD("<f4", "False", "(3, 4; 5)"), 12, 1, 0, -1},
    {"\"shape\"", "{'descr': '<f4', 'fortran_order': False}", 12, 1, 0, -1},
    {"\"descr\" twice", "{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (3,)}",
     12, 1, 0, -1},
    {"got \"order\"", "{'descr': '<f4', 'order': False, 'shape': (3,)}", 12, 1, 0, -1},
    {"nothing after the dictionary", GOOD "x", 12, 1, 0, -1},
    {"wanted '{'", "[]", 12, 1, 0, -1},
    {"wanted '}'", "{'descr': '<f4' 'shape'", 12, 1, 0, -1},
    {"a string of at most", "{'descr", 12, 1, 0, -1},
    {"a string of at most", "{'a key that is far longer than any key of the format': 1}", 12, 1, 0,
     -1},
    {"wanted '{'", "", 12, 1, 0, -1},
    {"version", GOOD, 12, 3, 0, -1},
    {"version", GOOD, 12, 1, 1, -1},
    {"a header of at most", GOOD, 12, 1, 0, 60000},
    {"a header of at most", GOOD, 12, 2, 0, 0x7fffffff},
};

/* The file of a row, malloc'ed. */
static unsigned char *build(const npy_row *row, size_t *size)
{
    const size_t header = strlen(row->header), width = row->major == 1 ? 2 : 4;
    const size_t length = row->length >= 0 ? (size_t)row->length : header;
    unsigned char *bytes = calloc(1, 8 + width + header + row->data_size + 1);
    size_t i;

    memcpy(bytes, "\x93NUMPY", 6);
    bytes[6] = row->major;
    bytes[7] = row->minor;
    for (i = 0; i < width; i++)
        bytes[8 + i] = (unsigned char)(length >> 8 * i);
    memcpy(bytes + 8 + width, row->header, header);
    for (i = 0; i < row->data_size; i++)
        bytes[8 + width + header + i] = (unsigned char)(i + 1);
    *size = 8 + width + header + row->data_size;
    return bytes;
}

/* A copy of exactly `size` bytes, so that a read beyond it is seen by the sanitizers. */
static int parse_exactly(const unsigned char *bytes, size_t size, tensor_list *list,
                         tensor_error *error)
{
    unsigned char *copy = malloc(size > 0 ? size : 1);
    int result;

    memcpy(copy, bytes, size);
    result = npy_parse(copy, size, "some.npy", "x", list, error);
    free(copy);
    return result;
}

Test(npy, headers_of_the_format_are_read_and_others_refused)
{
    size_t i;

    for (i = 0; i < sizeof rows / sizeof *rows; i++) {
        tensor_list list = {0};
        tensor_error error = {""};
        size_t size;
        unsigned char *bytes = build(&rows[i], &size);
        const int result = parse_exactly(bytes, size, &list, &error);

        if (rows[i].why == NULL) {
            cr_assert_eq(result, 0, "row %zu: %s", i, error.line);
            cr_assert_eq(list.count, 1);
            cr_assert_eq(tensor_bytes(&list.items[0]), rows[i].data_size);
            cr_assert_eq(
                memcmp(list.items[0].data, bytes + size - rows[i].data_size, rows[i].data_size), 0);
        } else {
            cr_assert_eq(result, -1, "row %zu, %s: read", i, rows[i].header);
            cr_assert_eq(list.count, 0);
            cr_assert(strstr(error.line, rows[i].why) != NULL, "row %zu: wanted \"%s\", got \"%s\"",
                      i, rows[i].why, error.line);
            cr_assert(strncmp(error.line, "some.npy: ", 10) == 0 &&
                          strchr(error.line, '\n') == NULL,
                      "row %zu: %s", i, error.line);
        }
        tensor_list_free(&list);
        free(bytes);
    }
}

Test(npy, a_file_cut_anywhere_is_refused)
{
    size_t size, cut;
    unsigned char *bytes = build(&rows[0], &size);

    for (cut = 0; cut < size; cut++) {
        tensor_list list = {0};
        tensor_error error = {""};
        cr_assert_eq(parse_exactly(bytes, cut, &list, &error), -1, "cut at %zu", cut);
        cr_assert_neq(error.line[0], '\0');
        cr_assert_eq(list.count, 0);
        tensor_list_free(&list);
    }
    free(bytes);
}

Test(npy, a_zero_byte_in_the_header_is_refused)
{
    tensor_list list = {0};
    tensor_error error = {""};
    size_t size;
    unsigned char *bytes = build(&rows[0], &size);

    bytes[20] = 0;
    cr_assert_eq(parse_exactly(bytes, size, &list, &error), -1);
    cr_assert(strstr(error.line, "zero byte") != NULL, "%s", error.line);
    free(bytes);
}

static void path_in(const char *folder, const char *name, char *path, size_t size)
{
    snprintf(path, size, "%s/%s", folder, name);
}

static void round_trip(const char *folder, tensor_dtype dtype, uint32_t rank, const uint64_t *shape)
{
    char path[256];
    tensor_list list = {0};
    tensor_error error = {""};
    tensor *written, *read;
    uint64_t i;

    path_in(folder, "a.npy", path, sizeof path);
    written = tensor_list_add(&list, "written", dtype, rank, shape, &error);
    cr_assert_not_null(written);
    for (i = 0; i < written->count; i++)
        tensor_put(written, i, 3.0 * (double)i - 7.0);
    cr_assert_eq(npy_write(path, written, &error), 0, "%s", error.line);
    cr_assert_eq(npy_read(path, "read", &list, &error), 0, "%s", error.line);
    written = tensor_list_find(&list, "written");
    read = tensor_list_find(&list, "read");
    cr_assert_eq(read->dtype, dtype);
    cr_assert_eq(read->rank, rank);
    cr_assert_eq(memcmp(read->shape, written->shape, sizeof read->shape), 0);
    cr_assert_eq(memcmp(read->data, written->data, (size_t)tensor_bytes(written)), 0);
    cr_assert_eq(npy_read(path, "read", &list, &error), -1, "the same name twice");
    unlink(path);
    tensor_list_free(&list);
}

Test(npy, what_is_written_is_read_back)
{
    static const uint64_t shape[8] = {2, 3, 1, 2, 1, 1, 2, 1};
    static const tensor_dtype dtypes[] = {TENSOR_F32, TENSOR_F16, TENSOR_F64, TENSOR_I32,
                                          TENSOR_I64};
    char folder[] = "/tmp/rhumb-npy-XXXXXX";
    uint32_t rank;
    size_t i;

    cr_assert_not_null(mkdtemp(folder));
    for (i = 0; i < sizeof dtypes / sizeof *dtypes; i++)
        for (rank = 0; rank <= 8; rank++)
            round_trip(folder, dtypes[i], rank, shape);
    cr_assert_eq(rmdir(folder), 0, "something else was left in the folder");
}

Test(npy, what_cannot_be_written_leaves_nothing)
{
    static const uint64_t shape[1] = {4};
    char folder[] = "/tmp/rhumb-npy-XXXXXX", path[256];
    tensor_list list = {0};
    tensor_error error = {""};

    cr_assert_not_null(mkdtemp(folder));
    path_in(folder, "b.npy", path, sizeof path);
    cr_assert_not_null(tensor_list_add(&list, "b", TENSOR_BF16, 1, shape, &error));
    cr_assert_eq(npy_write(path, &list.items[0], &error), -1);
    cr_assert(strstr(error.line, "BF16") != NULL, "%s", error.line);
    cr_assert_not_null(tensor_list_add(&list, "f", TENSOR_F32, 1, shape, &error));
    path_in(folder, "missing/f.npy", path, sizeof path);
    cr_assert_eq(npy_write(path, &list.items[1], &error), -1);
    cr_assert_eq(npy_write(folder, &list.items[1], &error), -1, "a folder cannot be replaced");
    cr_assert_eq(npy_read(folder, "x", &list, &error), -1);
    cr_assert(strstr(error.line, "regular file") != NULL, "%s", error.line);
    cr_assert_eq(npy_read(path, "x", &list, &error), -1);
    cr_assert_eq(list.count, 2);
    cr_assert_eq(rmdir(folder), 0, "something was left in the folder");
    tensor_list_free(&list);
}
