/* safetensors files, and the tensors they are read into. */
#define _POSIX_C_SOURCE 200809L

#include "safetensors.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct file_row {
    const char *why; /* part of the error; NULL: it is read */
    const char *header;
    size_t data_size;
} file_row;

#define ENTRY(name, dtype, shape, offsets)                                                         \
    "\"" name "\":{\"dtype\":\"" dtype "\",\"shape\":" shape ",\"data_offsets\":" offsets "}"
#define A ENTRY("a", "F32", "[2,3]", "[0,24]")

static const file_row rows[] = {
    {NULL, "{" A "}", 24},
    {NULL, "{" A "}      ", 24},
    {NULL, "{\"__metadata__\":{\"format\":\"x\"}," A "}", 24},
    {NULL, "{}", 0},
    {NULL, "{" A "," ENTRY("b", "I64", "[]", "[24,32]") "}", 32},
    {NULL, "{" ENTRY("b", "F16", "[0]", "[24,24]") "," A "}", 24},
    {NULL, "{" ENTRY("b", "BF16", "[3]", "[24,30]") "," A "}", 30},
    {"at most 8 numbers", "{" ENTRY("a", "F32", "[1,1,1,1,1,1,1,1,1]", "[0,4]") "}", 4},
    {"wanted dtype", "{" ENTRY("a", "F8", "[2,3]", "[0,6]") "}", 6},
    {"wanted dtype", "{\"a\":{\"dtype\":3,\"shape\":[1],\"data_offsets\":[0,4]}}", 4},
    {"got \"a\" twice", "{" A "," ENTRY("a", "F32", "[1]", "[24,28]") "}", 28},
    {"got \"a\" twice", "{" A "," A "}", 24},
    {"got \"shape\" twice",
     "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"shape\":[2],\"data_offsets\":[0,4]}}", 4},
    {"got \"k\" twice", "{\"__metadata__\":{\"k\":\"1\",\"k\":\"2\"}," A "}", 24},
    {"got \"__metadata__\" twice", "{\"__metadata__\":{},\"__metadata__\":{}," A "}", 24},
    {"wanted a string for \"k\"", "{\"__metadata__\":{\"k\":1}," A "}", 24},
    {"__metadata__: wanted an object", "{\"__metadata__\":[]," A "}", 24},
    {"wanted the key \"data_offsets\"", "{\"a\":{\"dtype\":\"F32\",\"shape\":[1]}}", 4},
    {"got \"more\"", "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4],\"more\":1}}",
     4},
    {"wanted an object", "{\"a\":[]}", 0},
    {"wanted a name", "{" ENTRY("", "F32", "[1]", "[0,4]") "}", 4},
    {"below 2^63 bytes", "{" ENTRY("a", "F32", "[4503599627370496,4096]", "[0,24]") "}", 24},
    {"below 2^63 bytes", "{" ENTRY("a", "F64", "[1073741824,1073741824]", "[0,24]") "}", 24},
    {"0 to 2^53", "{" ENTRY("a", "F32", "[9223372036854775808]", "[0,24]") "}", 24},
    {"0 to 2^53", "{" ENTRY("a", "F32", "[-6]", "[0,24]") "}", 24},
    {"0 to 2^53", "{" ENTRY("a", "F32", "[6.5]", "[0,24]") "}", 24},
    {"0 to 2^53", "{" ENTRY("a", "F32", "[6]", "[-24,0]") "}", 24},
    {"0 to 2^53", "{" ENTRY("a", "F32", "[6]", "[0,1e300]") "}", 24},
    {"whole numbers in shape", "{" ENTRY("a", "F32", "[\"6\"]", "[0,24]") "}", 24},
    {"[begin, end]", "{" ENTRY("a", "F32", "[6]", "[0]") "}", 24},
    {"[begin, end]", "{" ENTRY("a", "F32", "[6]", "24") "}", 24},
    {"within 24 bytes", "{" ENTRY("a", "F32", "[7]", "[0,28]") "}", 24},
    {"within 24 bytes", "{" ENTRY("a", "F32", "[6]", "[24,0]") "}", 24},
    {"wanted 24 bytes for its shape", "{" ENTRY("a", "F32", "[6]", "[0,20]") "}", 24},
    {"wanted 0 bytes for its shape", "{" ENTRY("a", "F32", "[0,6]", "[0,24]") "}", 24},
    {"aligned to 4",
     "{" ENTRY("b", "F16", "[1]", "[0,2]") "," ENTRY("a", "F32", "[2]", "[2,10]") "}", 10},
    {"without overlap", "{" A "," ENTRY("b", "F32", "[2]", "[20,28]") "}", 28},
    {"without overlap", "{" A "," ENTRY("b", "F32", "[6]", "[0,24]") "}", 24},
    {"without holes", "{" A "," ENTRY("b", "F32", "[1]", "[28,32]") "}", 32},
    {"without holes", "{" ENTRY("a", "F32", "[1]", "[4,8]") "}", 8},
    {"wanted 24 bytes of data", "{" A "}", 25},
    {"within 23 bytes", "{" A "}", 23},
    {"begins with {", "", 0},
    {"begins with {", "[]", 0},
    {"begins with {", " {" A "}", 24},
    {"one JSON object", "{" A, 24},
    {"one JSON object", "{" A ",}", 24},
    {"only spaces after", "{" A "} {}", 24},
    {"only spaces after", "{" A "}\n", 24},
};

static void put_length(unsigned char *bytes, uint64_t length)
{
    int i;

    for (i = 0; i < 8; i++)
        bytes[i] = (unsigned char)(length >> 8 * i);
}

static unsigned char *build(const file_row *row, size_t *size)
{
    const size_t header = strlen(row->header);
    unsigned char *bytes = malloc(8 + header + row->data_size);
    size_t i;

    put_length(bytes, header);
    memcpy(bytes + 8, row->header, header);
    for (i = 0; i < row->data_size; i++)
        bytes[8 + header + i] = (unsigned char)i;
    *size = 8 + header + row->data_size;
    return bytes;
}

static void check_refused(const char *what, int result, const char *why, const tensor_list *list,
                          const tensor_error *error)
{
    cr_assert_eq(result, -1, "%s: read", what);
    cr_assert_eq(list->count + list->text_count, 0, "%s: something was kept", what);
    cr_assert(strstr(error->line, why) != NULL, "%s: wanted \"%s\", got \"%s\"", what, why,
              error->line);
    cr_assert(strncmp(error->line, "some.file: ", 11) == 0 && strchr(error->line, '\n') == NULL,
              "%s: %s", what, error->line);
}

Test(safetensors, headers_of_the_format_are_read_and_others_refused)
{
    size_t i;

    for (i = 0; i < sizeof rows / sizeof *rows; i++) {
        tensor_list list = {0};
        tensor_error error = {""};
        size_t size;
        unsigned char *bytes = build(&rows[i], &size);
        const int result = safetensors_parse(bytes, size, "some.file", &list, &error);

        if (rows[i].why == NULL)
            cr_assert_eq(result, 0, "%s: %s", rows[i].header, error.line);
        else
            check_refused(rows[i].header, result, rows[i].why, &list, &error);
        tensor_list_free(&list);
        free(bytes);
    }
}

Test(safetensors, tensors_and_metadata_arrive_as_written)
{
    tensor_list list = {0};
    tensor_error error = {""};
    size_t size;
    unsigned char *bytes = build(&(file_row){NULL,
                                             "{\"__metadata__\":{\"k\":\"v\\n\\\"\"}," ENTRY(
                                                 "b", "BF16", "[3]", "[24,30]") "," A "}",
                                             30},
                                 &size);
    const tensor *a, *b;

    cr_assert_eq(safetensors_parse(bytes, size, "some.file", &list, &error), 0, "%s", error.line);
    a = tensor_list_find(&list, "a");
    b = tensor_list_find(&list, "b");
    cr_assert_eq(list.count, 2);
    cr_assert(a->dtype == TENSOR_F32 && a->rank == 2 && a->shape[0] == 2 && a->shape[1] == 3);
    cr_assert_eq(memcmp(a->data, bytes + size - 30, 24), 0);
    cr_assert(b->dtype == TENSOR_BF16 && b->rank == 1 && b->count == 3);
    cr_assert_eq(memcmp(b->data, bytes + size - 6, 6), 0);
    cr_assert_str_eq(tensor_list_text(&list, "k"), "v\n\"");
    cr_assert_null(tensor_list_text(&list, "other"));
    cr_assert_null(tensor_list_find(&list, "other"));
    tensor_list_free(&list);
    free(bytes);
}

Test(safetensors, header_lengths_beyond_the_file_or_the_limit_are_refused)
{
    static const uint64_t lengths[] = {25,         1000,          100000001, UINT64_C(1) << 63,
                                       UINT64_MAX, UINT64_MAX - 7};
    unsigned char bytes[32] = {0};
    size_t i, cut;

    for (i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        tensor_list list = {0};
        tensor_error error = {""};
        put_length(bytes, lengths[i]);
        check_refused("length", safetensors_parse(bytes, sizeof bytes, "some.file", &list, &error),
                      "wanted a header of at most", &list, &error);
    }
    for (cut = 0; cut < 8; cut++) {
        tensor_list list = {0};
        tensor_error error = {""};
        check_refused("cut", safetensors_parse(bytes, cut, "some.file", &list, &error),
                      "wanted at least 8 bytes", &list, &error);
    }
}

Test(safetensors, a_header_above_100_mb_is_refused_before_it_is_parsed)
{
    const size_t size = 8 + 100000001;
    unsigned char *bytes = calloc(1, size);
    tensor_list list = {0};
    tensor_error error = {""};

    put_length(bytes, 100000001);
    check_refused("length", safetensors_parse(bytes, size, "some.file", &list, &error),
                  "got a length of 100000001", &list, &error);
    free(bytes);
}

Test(safetensors, a_file_cut_anywhere_is_refused)
{
    size_t size, cut;
    unsigned char *bytes = build(&rows[2], &size);

    for (cut = 0; cut < size; cut++) {
        unsigned char *copy = malloc(cut > 0 ? cut : 1);
        tensor_list list = {0};
        tensor_error error = {""};
        memcpy(copy, bytes, cut);
        check_refused("cut", safetensors_parse(copy, cut, "some.file", &list, &error), "wanted",
                      &list, &error);
        free(copy);
    }
    free(bytes);
}

Test(safetensors, a_list_in_use_and_a_zero_byte_are_refused)
{
    static const uint64_t shape[1] = {1};
    tensor_list list = {0};
    tensor_error error = {""};
    size_t size;
    unsigned char *bytes = build(&rows[0], &size);

    cr_assert_not_null(tensor_list_add(&list, "x", TENSOR_F32, 1, shape, &error));
    cr_assert_eq(safetensors_parse(bytes, size, "some.file", &list, &error), -1);
    cr_assert_eq(list.count, 1);
    tensor_list_free(&list);
    bytes[8 + 5] = 0;
    check_refused("zero byte", safetensors_parse(bytes, size, "some.file", &list, &error),
                  "a zero byte", &list, &error);
    free(bytes);
}

static void path_in(const char *folder, const char *name, char *path, size_t size)
{
    snprintf(path, size, "%s/%s", folder, name);
}

Test(safetensors, what_is_written_is_read_back)
{
    static const uint64_t shape[8] = {3, 1, 2, 1, 1, 1, 1, 2};
    static const char *const names[] = {"half",  "plain", "\"quoted\" \\ \n",
                                        "brain", "wide",  "index"};
    static const tensor_dtype dtypes[] = {TENSOR_F16,  TENSOR_F32, TENSOR_I32,
                                          TENSOR_BF16, TENSOR_F64, TENSOR_I64};
    char folder[] = "/tmp/rhumb-safetensors-XXXXXX", path[256];
    tensor_list list = {0}, back = {0};
    tensor_error error = {""};
    uint32_t i;

    cr_assert_not_null(mkdtemp(folder));
    path_in(folder, "a.safetensors", path, sizeof path);
    for (i = 0; i < 6; i++) {
        tensor *t = tensor_list_add(&list, names[i], dtypes[i], i == 5 ? 8 : i, shape, &error);
        cr_assert_not_null(t, "%s", error.line);
        tensor_fill_normal(t, i);
    }
    cr_assert_eq(tensor_list_set_text(&list, "note", "one", &error), 0);
    cr_assert_eq(tensor_list_set_text(&list, "note", "two", &error), 0);
    for (i = 0; i < 2; i++) /* the second time over the first */
        cr_assert_eq(safetensors_write(path, &list, &error), 0, "%s", error.line);
    cr_assert_eq(safetensors_read(path, &back, &error), 0, "%s", error.line);
    cr_assert_eq(back.count, 6);
    cr_assert_str_eq(tensor_list_text(&back, "note"), "two");
    for (i = 0; i < 6; i++) {
        const tensor *a = &list.items[i], *b = tensor_list_find(&back, a->name);
        cr_assert_not_null(b, "%s", a->name);
        cr_assert(a->dtype == b->dtype && a->rank == b->rank && a->count == b->count);
        cr_assert_eq(memcmp(a->data, b->data, (size_t)tensor_bytes(a)), 0, "%s", a->name);
    }
    unlink(path);
    cr_assert_eq(rmdir(folder), 0, "something else was left in the folder");
    tensor_list_free(&list);
    tensor_list_free(&back);
}

Test(safetensors, what_cannot_be_written_or_read_leaves_nothing)
{
    static const uint64_t shape[1] = {4};
    char folder[] = "/tmp/rhumb-safetensors-XXXXXX", path[256];
    tensor_list list = {0};
    tensor_error error = {""};

    cr_assert_not_null(mkdtemp(folder));
    path_in(folder, "missing/a.safetensors", path, sizeof path);
    cr_assert_not_null(tensor_list_add(&list, "a", TENSOR_F32, 1, shape, &error));
    cr_assert_eq(safetensors_write(path, &list, &error), -1);
    cr_assert(strstr(error.line, "cannot be written") != NULL, "%s", error.line);
    cr_assert_eq(safetensors_write(folder, &list, &error), -1, "a folder cannot be replaced");
    cr_assert_not_null(tensor_list_add(&list, "__metadata__", TENSOR_F32, 1, shape, &error));
    path_in(folder, "a.safetensors", path, sizeof path);
    cr_assert_eq(safetensors_write(path, &list, &error), -1);
    cr_assert(strstr(error.line, "reserved") != NULL, "%s", error.line);
    tensor_list_free(&list);
    cr_assert_eq(safetensors_read(path, &list, &error), -1);
    cr_assert(strstr(error.line, "cannot be opened") != NULL, "%s", error.line);
    cr_assert_eq(safetensors_read(folder, &list, &error), -1);
    cr_assert(strstr(error.line, "regular file") != NULL, "%s", error.line);
    cr_assert_eq(rmdir(folder), 0, "something was left in the folder");
}

/* ------------------------------------------------------------------------------------------------
 * Tensors
 */
Test(tensors, elements_round_once_and_saturate)
{
    static const uint64_t shape[1] = {1};
    tensor_list list = {0};
    tensor_error error = {""};
    tensor *t;
    int i;

    for (i = 0; i < TENSOR_DTYPE_COUNT; i++)
        cr_assert_not_null(tensor_list_add(&list, tensor_dtype_name((tensor_dtype)i),
                                           (tensor_dtype)i, 1, shape, &error));
    for (i = 0; i < TENSOR_DTYPE_COUNT; i++) {
        t = &list.items[i];
        cr_assert(tensor_get(t, 0) == 0.0);
        tensor_put(t, 0, -3.0);
        cr_assert(tensor_get(t, 0) == -3.0, "%s", t->name);
    }
    t = tensor_list_find(&list, "I32");
    tensor_put(t, 0, 2147483648.0);
    cr_assert(tensor_get(t, 0) == 2147483647.0);
    tensor_put(t, 0, -3e9);
    cr_assert(tensor_get(t, 0) == -2147483648.0);
    tensor_put(t, 0, (double)NAN);
    cr_assert(tensor_get(t, 0) == 0.0);
    tensor_put(t, 0, 2.5);
    cr_assert(tensor_get(t, 0) == 2.0);
    t = tensor_list_find(&list, "I64");
    tensor_put(t, 0, 1e30);
    cr_assert(tensor_get(t, 0) == 0x1p63);
    t = tensor_list_find(&list, "F16");
    tensor_put(t, 0, 1.0 + 0x1p-11);
    cr_assert(tensor_get(t, 0) == 1.0);
    t = tensor_list_find(&list, "BF16");
    tensor_put(t, 0, 257.0);
    cr_assert(tensor_get(t, 0) == 256.0);
    t = tensor_list_find(&list, "F32");
    tensor_put(t, 0, 16777217.0);
    cr_assert(tensor_get(t, 0) == 16777216.0);
    tensor_list_free(&list);
}

Test(tensors, impossible_tensors_are_refused)
{
    static const uint64_t shape[9] = {1, 1, 1, 1, 1, 1, 1, 1, 1},
                          huge[2] = {UINT64_C(1) << 31, UINT64_C(1) << 31};
    static const uint64_t none[3] = {UINT64_MAX, UINT64_MAX, 0};
    tensor_list list = {0};
    tensor_error error = {""};

    cr_assert_null(tensor_list_add(&list, "", TENSOR_F32, 1, shape, &error));
    cr_assert_null(tensor_list_add(&list, "a", TENSOR_F32, 9, shape, &error));
    cr_assert(strstr(error.line, "8 dimensions") != NULL, "%s", error.line);
    cr_assert_null(tensor_list_add(&list, "a", TENSOR_F32, 2, huge, &error));
    cr_assert(strstr(error.line, "[2147483648, 2147483648]") != NULL, "%s", error.line);
    cr_assert_eq(list.count, 0);
    cr_assert_not_null(tensor_list_add(&list, "a", TENSOR_F32, 3, none, &error),
                       "no element, no size");
    cr_assert_null(tensor_list_add(&list, "a", TENSOR_F32, 1, shape, &error));
    cr_assert(strstr(error.line, "twice") != NULL, "%s", error.line);
    cr_assert_eq(list.count, 1);
    tensor_list_free(&list);
}

Test(tensors, random_numbers_are_normal_and_the_same_each_time)
{
    static const uint64_t shape[1] = {100001};
    tensor_list list = {0};
    tensor_error error = {""};
    double sum = 0, square = 0, fourth = 0, same = 0;
    const double n = 100001;
    tensor *a, *b;
    uint64_t i;

    cr_assert_not_null(tensor_list_add(&list, "a", TENSOR_F64, 1, shape, &error));
    cr_assert_not_null(tensor_list_add(&list, "b", TENSOR_F64, 1, shape, &error));
    a = &list.items[0];
    b = &list.items[1];
    tensor_fill_normal(a, 1);
    tensor_fill_normal(b, 1);
    cr_assert_eq(memcmp(a->data, b->data, (size_t)tensor_bytes(a)), 0);
    tensor_fill_normal(b, 2);
    for (i = 0; i < a->count; i++) {
        const double x = tensor_get(a, i);
        sum += x;
        square += x * x;
        fourth += x * x * x * x;
        same += x * tensor_get(b, i);
    }
    /* Five standard errors each. */
    cr_assert(fabs(sum / n) < 5 / sqrt(n), "mean %g", sum / n);
    cr_assert(fabs(square / n - 1) < 5 * sqrt(2 / n), "variance %g", square / n);
    cr_assert(fabs(fourth / n - 3) < 5 * sqrt(96 / n), "fourth moment %g", fourth / n);
    cr_assert(fabs(same / n) < 5 / sqrt(n), "correlation of two seeds %g", same / n);
    tensor_list_free(&list);
}
