#define _POSIX_C_SOURCE 200809L /* stat */

#include "command_line.h"
#include "npy.h"
#include "run_model.h"
#include "safetensors.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#define MAX_FILES 16u

/* A .npy file, with the tensor it holds: "NAME=PATH", or by its place. */
typedef struct file_name {
    char path[1024];
    char tensor[32];
} file_name;

void run_tensors_free(run_tensors *tensors)
{
    for (uint32_t id = 0; id < RHUMB_VIEW_COUNT; id++)
        free(tensors->view[id].data);
    memset(tensors, 0, sizeof *tensors);
}

bool run_tensor_make(run_tensor *t, rhumb_dtype dtype, uint32_t rank, const uint64_t shape[4],
                     tensor_error *message)
{
    memset(t, 0, sizeof *t);
    t->present = true;
    t->dtype = dtype;
    t->rank = rank;
    memcpy(t->shape, shape, sizeof t->shape);
    memcpy(t->file_shape, shape + 4 - rank, rank * sizeof *shape);
    t->count = shape[0] * shape[1] * shape[2] * shape[3];
    for (int64_t d = 3, step = 1; d >= 0; d--) {
        t->stride[d] = step;
        step *= (int64_t)shape[d];
    }
    t->data = calloc((size_t)t->count + 1, 4);
    if (t->data == NULL)
        snprintf(message->line, sizeof message->line, "no host memory for %llu elements",
                 (unsigned long long)t->count);
    return t->data != NULL;
}

bool run_check_size(const char *name, uint64_t batch, uint64_t heads, uint64_t rows,
                    uint64_t head_dim, rhumb_dtype dtype, const run_request *request,
                    tensor_error *message)
{
    const bool wide = dtype == RHUMB_F32 || dtype == RHUMB_I32;
    /* sizes of parameters are any, and their product may be beyond 64 bits */
    const double row = (double)batch * (double)heads * (double)head_dim * (wide ? 4.0 : 2.0);
    const double limit = (double)request->max_bytes;

    if (row * (double)rows <= limit)
        return true;
    snprintf(message->line, sizeof message->line,
             "%.100s of %llu rows takes %.0f bytes as %s, and the device binds %.0f at once: "
             "%.0f rows at most%s",
             name, (unsigned long long)rows, row * (double)rows, command_dtype_name(dtype), limit,
             floor(limit / row),
             dtype == RHUMB_F32 ? ", or twice as many with --dtype f16 or bf16" : "");
    return false;
}

/* ----------------------------------------------------------------------------------------------
 * Reading
 */

bool run_tensor_convert(const tensor *from, run_tensor *to, tensor_error *message)
{
    const bool wide = to->dtype == RHUMB_F32 || to->dtype == RHUMB_I32;

    if (from->dtype == (tensor_dtype)to->dtype) {
        memcpy(to->data, from->data, (size_t)tensor_bytes(from));
        return true;
    }
    for (uint64_t i = 0; i < from->count; i++) {
        const double value = tensor_get(from, i);
        if (to->dtype != RHUMB_I32) {
            verify_narrow(to->dtype, &value, 1, (char *)to->data + i * (wide ? 4 : 2));
        } else if (value >= INT32_MIN && value <= INT32_MAX) {
            ((int32_t *)to->data)[i] = (int32_t)value;
        } else {
            snprintf(message->line, sizeof message->line,
                     "%s: wanted integers of 32 bits, found %.0f", from->name, value);
            return false;
        }
    }
    return true;
}

/* One tensor as the operations want it: dtype and shape checked against the layer. */
static bool take(const tensor *from, const char *name, const run_request *request, uint32_t heads,
                 uint32_t head_dim, run_tensor *to, tensor_error *message)
{
    uint64_t shape[4] = {1, 1, 1, 1};
    rhumb_dtype dtype = request->dtype;
    char text[128];

    tensor_shape_text(from, text, sizeof text);
    if (from->rank != 3 && from->rank != 4) {
        snprintf(message->line, sizeof message->line,
                 "%s: wanted [B, heads, L, head_dim] or [heads, L, head_dim], it is %s", from->name,
                 text);
        return false;
    }
    for (uint32_t i = 0; i < from->rank; i++)
        shape[4 - from->rank + i] = from->shape[i];
    if (shape[1] != heads || shape[3] == 0 || (head_dim != 0 && shape[3] != head_dim)) {
        snprintf(message->line, sizeof message->line,
                 "%s: the layer has %u heads and head_dim %u, the tensor is %s", from->name, heads,
                 request->kind->head_dim, text);
        return false;
    }
    if (shape[0] == 0 || shape[2] == 0 || shape[0] > UINT32_MAX || shape[2] > INT32_MAX) {
        snprintf(message->line, sizeof message->line, "%s: wanted 1 to 2^31 - 1 rows, it is %s",
                 from->name, text);
        return false;
    }
    if (from->dtype > TENSOR_BF16 && !(from->dtype == TENSOR_F64 && request->dtype_given)) {
        snprintf(message->line, sizeof message->line, "%s: wanted F32, F16 or BF16%s, it is %s",
                 from->name, from->dtype == TENSOR_F64 ? " (or --dtype to convert)" : "",
                 tensor_dtype_name(from->dtype));
        return false;
    }
    if (!request->dtype_given)
        dtype = (rhumb_dtype)from->dtype;
    if (!run_check_size(from->name, shape[0], heads, shape[2], shape[3], dtype, request, message) ||
        !run_tensor_make(to, dtype, from->rank, shape, message))
        return false;
    snprintf(to->name, sizeof to->name, "%s", name);
    return run_tensor_convert(from, to, message);
}

static const tensor *find(const tensor_list *list, char letter, bool *dotted)
{
    char name[8];
    const tensor *t;

    snprintf(name, sizeof name, "in.%c", letter);
    t = tensor_list_find(list, name);
    if (t != NULL)
        *dotted = true;
    else
        t = tensor_list_find(list, name + 3);
    return t;
}

static bool take_all(const char *input, const tensor_list *list, const run_request *request,
                     run_tensors *tensors, tensor_error *message)
{
    const rhumb_layer_kind *kind = request->kind;
    const bool attention = request->op == RHUMB_OP_ATTENTION;
    const tensor *q = find(list, 'q', &tensors->dotted);
    const tensor *k = find(list, 'k', &tensors->dotted);
    const tensor *v = find(list, 'v', &tensors->dotted);

    if (q == NULL || (attention && (k == NULL || v == NULL))) {
        snprintf(message->line, sizeof message->line, "%.400s: %s needs tensors %s, there is no %s",
                 input, command_op_name(request->op), attention ? "q, k, v" : "q (and k)",
                 q == NULL   ? "q"
                 : k == NULL ? "k"
                             : "v");
        return false;
    }
    if (!take(q, "q", request, kind->heads, kind->head_dim, &tensors->view[RHUMB_VIEW_Q], message))
        return false;
    if (k != NULL && !take(k, "k", request, kind->kv_heads, kind->head_dim,
                           &tensors->view[RHUMB_VIEW_K], message))
        return false;
    if (attention &&
        !take(v, "v", request, kind->kv_heads, 0, &tensors->view[RHUMB_VIEW_V], message))
        return false;
    return true;
}

static bool compare_shapes(const run_request *request, const run_tensors *tensors,
                           tensor_error *message)
{
    const run_tensor *q = &tensors->view[RHUMB_VIEW_Q], *k = &tensors->view[RHUMB_VIEW_K],
                     *v = &tensors->view[RHUMB_VIEW_V];

    if (k->present && k->shape[0] != q->shape[0]) {
        snprintf(message->line, sizeof message->line, "q has batch %llu, k has %llu",
                 (unsigned long long)q->shape[0], (unsigned long long)k->shape[0]);
        return false;
    }
    if (request->op == RHUMB_OP_ROTATE && k->present && k->shape[2] != q->shape[2]) {
        snprintf(message->line, sizeof message->line,
                 "rotate turns the same rows of q and k: q has %llu, k has %llu",
                 (unsigned long long)q->shape[2], (unsigned long long)k->shape[2]);
        return false;
    }
    if (v->present && (v->shape[0] != k->shape[0] || v->shape[2] != k->shape[2])) {
        snprintf(message->line, sizeof message->line,
                 "k is [%llu, %llu, %llu, ...], v is [%llu, %llu, %llu, ...]",
                 (unsigned long long)k->shape[0], (unsigned long long)k->shape[1],
                 (unsigned long long)k->shape[2], (unsigned long long)v->shape[0],
                 (unsigned long long)v->shape[1], (unsigned long long)v->shape[2]);
        return false;
    }
    return true;
}

static bool ends_with(const char *text, size_t length, const char *end)
{
    const size_t n = strlen(end);

    return length > n && strncmp(text + length - n, end, n) == 0;
}

static bool is_safetensors(const char *path)
{
    return ends_with(path, strlen(path), ".safetensors");
}

/* "PATH" or "NAME=PATH" of `length` characters; a .npy file without a name has that of its place,
 * a .safetensors file has none. */
static bool read_file_name(const char *text, size_t length, uint32_t place, file_name *file)
{
    static const char *const places[] = {"q", "k", "v"};
    const size_t letters = strcspn(text, "=/.,");
    const bool named = text[letters] == '=' && letters > 0 && letters < sizeof file->tensor;
    const size_t skipped = named ? letters + 1 : 0;
    const char *name = named ? text : place < 3 ? places[place] : "";
    const bool npy = ends_with(text, length, ".npy");

    if (length - skipped >= sizeof file->path ||
        (npy ? *name == '\0' : named || place > 0 || !ends_with(text, length, ".safetensors")))
        return false;
    snprintf(file->tensor, sizeof file->tensor, "%.*s",
             npy ? (int)(named ? letters : strlen(name)) : 0, name);
    snprintf(file->path, sizeof file->path, "%.*s", (int)(length - skipped), text + skipped);
    return true;
}

/* The files of an argument, "a.npy,b.npy" or "a.safetensors,table=b.npy,..."; 0: not of the kinds
 * that can be, or too many. */
static uint32_t split_files(const char *text, file_name files[MAX_FILES])
{
    uint32_t count = 0;

    for (;;) {
        const size_t length = strcspn(text, ",");
        if (count == MAX_FILES || !read_file_name(text, length, count, &files[count]))
            return 0;
        count++;
        if (text[length] == '\0')
            return count;
        text += length + 1;
    }
}

static bool read_list(const char *input, tensor_list *list, tensor_error *message)
{
    file_name files[MAX_FILES];
    const uint32_t count = split_files(input, files);

    for (uint32_t i = 0; i < count; i++) {
        if ((is_safetensors(files[i].path)
                 ? safetensors_read(files[i].path, list, message)
                 : npy_read(files[i].path, files[i].tensor, list, message)) != 0)
            return false;
    }
    return true;
}

/* By what the names lead to, so that links and "./" do not hide it. */
static bool same_file(const char *a, const char *b)
{
    struct stat first, second;

    if (strcmp(a, b) == 0)
        return true;
    return stat(a, &first) == 0 && stat(b, &second) == 0 && first.st_dev == second.st_dev &&
           first.st_ino == second.st_ino;
}

static bool name_error(tensor_error *message, const char *what, const char *text)
{
    snprintf(message->line, sizeof message->line, "%s \"%.200s\"", what, text);
    return false;
}

bool run_check_names(const char *input, const char *output, tensor_error *message)
{
    file_name in[MAX_FILES], out[MAX_FILES];
    const uint32_t in_count = input != NULL ? split_files(input, in) : 0;
    const uint32_t out_count = output != NULL ? split_files(output, out) : 0;

    if (input != NULL && in_count == 0)
        return name_error(message,
                          "--input wants a .safetensors file, .npy files (q.npy,k.npy or "
                          "table=t.npy,...), or the one and then the others, with commas between, "
                          "not",
                          input);
    if (output != NULL && (out_count == 0 || (out_count > 1 && is_safetensors(out[0].path))))
        return name_error(message,
                          "--output wants a .safetensors file, or .npy files with commas between, "
                          "not",
                          output);
    for (uint32_t i = 0; i < out_count; i++) {
        for (uint32_t k = 0; k < in_count; k++) {
            if (same_file(in[k].path, out[i].path))
                return name_error(message, "--output would overwrite the input", out[i].path);
        }
        for (uint32_t k = 0; k < i; k++) {
            if (same_file(out[k].path, out[i].path))
                return name_error(message, "--output names a file twice:", out[i].path);
        }
    }
    return true;
}

bool run_read(const char *input, const run_request *request, run_tensors *tensors,
              tensor_error *message)
{
    tensor_list list = {0};
    bool done = read_list(input, &list, message);

    if (done && request->kind == NULL)
        done = run_take_views(&list, request, tensors, message);
    else if (done)
        done = take_all(input, &list, request, tensors, message) &&
               compare_shapes(request, tensors, message);
    tensor_list_free(&list);
    return done;
}

/* ----------------------------------------------------------------------------------------------
 * Drawing
 */
static bool draw(const char *name, uint64_t heads, uint64_t length, const run_request *request,
                 uint64_t seed, run_tensor *to, tensor_error *message)
{
    const uint64_t head_dim = request->kind->head_dim;
    const rhumb_dtype dtype = request->dtype;
    const uint64_t shape[4] = {1, heads, length, head_dim};
    tensor t = {.dtype = (tensor_dtype)dtype, .rank = 4};

    if (!run_check_size(name, 1, heads, length, head_dim, dtype, request, message) ||
        !run_tensor_make(to, dtype, 4, shape, message))
        return false;
    snprintf(to->name, sizeof to->name, "%s", name);
    memcpy(t.shape, shape, sizeof shape);
    t.count = to->count;
    t.data = to->data;
    tensor_fill_normal(&t, seed);
    return true;
}

bool run_draw(uint32_t length, uint64_t seed, const run_request *request, run_tensors *tensors,
              tensor_error *message)
{
    const rhumb_layer_kind *kind = request->kind;

    return draw("q", kind->heads, length, request, seed, &tensors->view[RHUMB_VIEW_Q], message) &&
           draw("k", kind->kv_heads, length, request, seed + 1, &tensors->view[RHUMB_VIEW_K],
                message) &&
           (request->op == RHUMB_OP_ROTATE || draw("v", kind->kv_heads, length, request, seed + 2,
                                                   &tensors->view[RHUMB_VIEW_V], message));
}

/* ----------------------------------------------------------------------------------------------
 * Writing
 */
static bool is_result(const run_request *request, const run_tensors *tensors, uint32_t id)
{
    return (run_results(request, tensors) >> id & 1u) != 0;
}

bool run_check_output(const char *output, const run_request *request, const run_tensors *tensors,
                      tensor_error *message)
{
    static const char *const numbers[] = {"no", "one", "two", "three"};
    file_name files[MAX_FILES];
    char names[128] = "";
    size_t length = 0;
    uint32_t wanted = 0;
    bool bf16 = false;

    if (is_safetensors(output))
        return true;
    for (uint32_t id = 0; id < RHUMB_VIEW_COUNT; id++) {
        if (!is_result(request, tensors, id))
            continue;
        length += (size_t)snprintf(names + length, sizeof names - length, "%s%s",
                                   wanted > 0 ? " and " : "", tensors->view[id].name);
        bf16 = bf16 || tensors->view[id].dtype == RHUMB_BF16;
        wanted++;
    }
    if (split_files(output, files) != wanted) {
        snprintf(message->line, sizeof message->line,
                 "--output wants a .safetensors file or %s .npy file%s (%s), not \"%.200s\"",
                 numbers[wanted < 4 ? wanted : 0], wanted == 1 ? "" : "s with commas between",
                 names, output);
        return false;
    }
    if (bf16)
        snprintf(message->line, sizeof message->line,
                 "--output: .npy has no type for bf16; write .safetensors, or give --dtype f32");
    return !bf16;
}

static bool put(tensor_list *list, bool dotted, const run_tensor *from, tensor_error *message)
{
    char name[48];
    tensor *t;

    snprintf(name, sizeof name, "%s%s", dotted ? "out." : "", from->name);
    t = tensor_list_add(list, name, (tensor_dtype)from->dtype, from->rank, from->file_shape,
                        message);
    if (t == NULL)
        return false;
    memcpy(t->data, from->data, (size_t)tensor_bytes(t));
    return true;
}

static bool write_npy_files(const char *output, const tensor_list *list, tensor_error *message)
{
    file_name files[MAX_FILES];
    const uint32_t count = split_files(output, files);

    for (uint32_t i = 0; i < count && i < list->count; i++) {
        if (npy_write(files[i].path, &list->items[i], message) != 0) {
            while (i > 0) /* all of them or none */
                remove(files[--i].path);
            return false;
        }
    }
    return true;
}

bool run_write(const char *output, const run_request *request, const run_tensors *tensors,
               tensor_error *message)
{
    tensor_list list = {0};
    bool done = true;

    for (uint32_t id = 0; done && id < RHUMB_VIEW_COUNT; id++)
        if (is_result(request, tensors, id))
            done = put(&list, tensors->dotted, &tensors->view[id], message);
    if (done && is_safetensors(output))
        done = safetensors_write(output, &list, message) == 0;
    else if (done)
        done = write_npy_files(output, &list, message);
    tensor_list_free(&list);
    return done;
}
