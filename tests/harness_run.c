/* The part of the harness that needs no test framework: `rhumb check` runs the same shapes. */
#include "harness.h"

#include "reference/reference.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What the plan has to know of the tensors. */
static void declare_views(gpu_operation *op)
{
    for (uint32_t i = 0; i < op->tensor_count; i++) {
        op->info.views |= RHUMB_VIEW_BIT(op->tensors[i].id);
        op->info.dtype[op->tensors[i].id] = op->tensors[i].dtype;
    }
}

bool harness_wants(harness *h, gpu_operation *op)
{
    declare_views(op);
    if (h->wants == NULL || h->wants(h, op)) {
        return true;
    }
    h->left_out++;
    return false;
}

rhumb_result harness_run(harness *h, gpu_operation *op)
{
    rhumb_plan *plan = NULL;
    rhumb_result result;
    declare_views(op);
    result = rhumb_create_plan(h->g->context, &op->info, &plan);
    if (result != RHUMB_OK) {
        snprintf(op->message, sizeof op->message, "%s", rhumb_last_message(h->g->context));
        return result;
    }
    h->plans = realloc(h->plans, (h->plan_count + 1) * sizeof *h->plans);
    harness_need(h->plans != NULL, "there is no host memory for plans");
    h->plans[h->plan_count++] = plan;
    op->plan = plan;
    if (h->repeats != 0) {
        op->repeats = h->repeats;
        op->budget_ns = h->budget_ns;
    }
    result = gpu_run_operation(h->g, op);
    h->variant = op->properties.variant;
    h->ns = op->ns;
    h->host_clock = op->host_clock;
    return result;
}

/* ---- host memory ---- */

void harness_need(bool holds, const char *otherwise)
{
    if (!holds) {
        fprintf(stderr, "cannot go on: %s\n", otherwise);
        exit(1);
    }
}

void *harness_alloc(size_t count, size_t size)
{
    void *memory = calloc(count != 0 ? count : 1, size);
    harness_need(memory != NULL, "there is no host memory");
    return memory;
}

uint32_t harness_next(harness_random *r)
{
    uint64_t x = (r->state += UINT64_C(0x9e3779b97f4a7c15)); /* SplitMix64 */
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return (uint32_t)((x ^ (x >> 31)) >> 32);
}

double harness_uniform(harness_random *r, double low, double high)
{
    return low + (high - low) * ((double)harness_next(r) / 4294967296.0);
}

double harness_normal(harness_random *r)
{
    double sum = -6.0;
    for (int i = 0; i < 12; i++) {
        sum += (double)harness_next(r) / 4294967296.0;
    }
    return sum;
}

#define Q8_ELEMENTS 32u
#define Q8_BYTES 34u

uint64_t harness_dtype_size(rhumb_dtype dtype)
{
    if (dtype == RHUMB_Q8_0) {
        return Q8_BYTES;
    }
    return dtype == RHUMB_F16 || dtype == RHUMB_BF16 ? 2 : 4;
}

const char *harness_dtype_name(rhumb_dtype dtype)
{
    static const char *const names[] = {"f32", "f16", "bf16", "i32", "q8_0"};
    return (unsigned)dtype < 5 ? names[dtype] : "?";
}

static uint64_t bytes_of(rhumb_dtype dtype, uint64_t elements)
{
    return elements / (dtype == RHUMB_Q8_0 ? Q8_ELEMENTS : 1) * harness_dtype_size(dtype);
}

void harness_make_tensor(harness_tensor *t, rhumb_dtype dtype, uint64_t b, uint64_t h, uint64_t l,
                         uint64_t d, harness_layout layout)
{
    uint64_t row = d + layout.row_pad;
    uint64_t last;
    memset(t, 0, sizeof *t);
    t->dtype = dtype;
    t->shape[0] = b;
    t->shape[1] = h;
    t->shape[2] = l;
    t->shape[3] = d;
    t->stride[0] = (int64_t)(h * l * row);
    t->stride[1] = (int64_t)(layout.by_rows ? row : l * row);
    t->stride[2] = (int64_t)(layout.by_rows ? h * row : row);
    t->stride[3] = 1;
    t->offset = bytes_of(dtype, layout.offset);
    t->count = b * h * l * d;
    /* the pads are between rows, none is behind the last */
    last = b * h * l * row - layout.row_pad;
    t->bytes = (t->offset + bytes_of(dtype, last) + 3) / 4 * 4;
    t->memory = harness_alloc(t->bytes, 1);
    t->values = harness_alloc(t->count, sizeof *t->values);
    gpu_fill_canary(t->memory, 0, t->bytes);
}

void harness_free_tensor(harness_tensor *t)
{
    free(t->memory);
    free(t->values);
    memset(t, 0, sizeof *t);
}

uint64_t harness_index(const harness_tensor *t, uint64_t b, uint64_t h, uint64_t l, uint64_t d)
{
    return ((b * t->shape[1] + h) * t->shape[2] + l) * t->shape[3] + d;
}

uint64_t harness_byte(const harness_tensor *t, uint64_t index)
{
    uint64_t d = index % t->shape[3];
    uint64_t l = index / t->shape[3] % t->shape[2];
    uint64_t h = index / t->shape[3] / t->shape[2] % t->shape[1];
    uint64_t b = index / t->shape[3] / t->shape[2] / t->shape[1];
    uint64_t element = b * (uint64_t)t->stride[0] + h * (uint64_t)t->stride[1] +
                       l * (uint64_t)t->stride[2] + d;
    if (t->dtype == RHUMB_Q8_0) {
        return t->offset + bytes_of(t->dtype, element) + 2 + element % Q8_ELEMENTS;
    }
    return t->offset + element * harness_dtype_size(t->dtype);
}

static double store_one(rhumb_dtype dtype, double value, uint8_t *at)
{
    uint16_t half;
    float single = (float)value;
    int32_t integer;
    switch (dtype) {
    case RHUMB_F16:
        half = ref_f16_from_double(value);
        memcpy(at, &half, sizeof half);
        return ref_double_from_f16(half);
    case RHUMB_BF16:
        half = ref_bf16_from_double(value);
        memcpy(at, &half, sizeof half);
        return ref_double_from_bf16(half);
    case RHUMB_I32:
        integer = (int32_t)value;
        memcpy(at, &integer, sizeof integer);
        return integer;
    default:
        memcpy(at, &single, sizeof single);
        return (double)single;
    }
}

static double load_one(rhumb_dtype dtype, const uint8_t *at)
{
    uint16_t half;
    float single;
    int32_t integer;
    switch (dtype) {
    case RHUMB_F16:
        memcpy(&half, at, sizeof half);
        return ref_double_from_f16(half);
    case RHUMB_BF16:
        memcpy(&half, at, sizeof half);
        return ref_double_from_bf16(half);
    case RHUMB_I32:
        memcpy(&integer, at, sizeof integer);
        return integer;
    default:
        memcpy(&single, at, sizeof single);
        return (double)single;
    }
}

/* The scale is that of the block's largest value. A block with a value that is not finite has no
 * other. */
static void store_block(double *values, uint8_t *at)
{
    double largest = 0.0;
    double scale = 0.0;
    double other = 0.0;
    for (uint32_t i = 0; i < Q8_ELEMENTS; i++) {
        largest = fmax(largest, fabs(values[i]));
        other = isfinite(values[i]) ? other : values[i];
    }
    scale = store_one(RHUMB_F16, isfinite(other) ? largest / 127.0 : other, at);
    for (uint32_t i = 0; i < Q8_ELEMENTS; i++) {
        double x = scale > 0.0 && isfinite(scale) ? rint(values[i] / scale) : 1.0;
        x = fmin(fmax(x, -127.0), 127.0);
        at[2 + i] = (uint8_t)(int8_t)x;
        values[i] = scale * x;
    }
}

static void load_block(double *values, const uint8_t *at)
{
    double scale = load_one(RHUMB_F16, at);
    for (uint32_t i = 0; i < Q8_ELEMENTS; i++) {
        values[i] = scale * (double)(int8_t)at[2 + i];
    }
}

void harness_store(harness_tensor *t)
{
    for (uint64_t i = 0; t->dtype == RHUMB_Q8_0 && i < t->count; i += Q8_ELEMENTS) {
        store_block(t->values + i, t->memory + harness_byte(t, i) - 2);
    }
    for (uint64_t i = 0; t->dtype != RHUMB_Q8_0 && i < t->count; i++) {
        t->values[i] = store_one(t->dtype, t->values[i], t->memory + harness_byte(t, i));
    }
}

void harness_load(harness_tensor *t)
{
    for (uint64_t i = 0; t->dtype == RHUMB_Q8_0 && i < t->count; i += Q8_ELEMENTS) {
        load_block(t->values + i, t->memory + harness_byte(t, i) - 2);
    }
    for (uint64_t i = 0; t->dtype != RHUMB_Q8_0 && i < t->count; i++) {
        t->values[i] = load_one(t->dtype, t->memory + harness_byte(t, i));
    }
}

void harness_fill_normal(harness_tensor *t, harness_random *r)
{
    for (uint64_t i = 0; i < t->count; i++) {
        t->values[i] = harness_normal(r);
    }
    harness_store(t);
}

gpu_tensor *harness_add(gpu_operation *op, rhumb_view_id id, harness_tensor *t, bool output)
{
    gpu_tensor *g = gpu_add_tensor(op, id, t->dtype, t->shape[0], t->shape[1], t->shape[2],
                                   t->shape[3], t->memory, output ? t->memory : NULL);
    harness_need(g != NULL, "there are too many views");
    memcpy(g->stride, t->stride, sizeof g->stride);
    g->offset = t->offset;
    g->bytes = t->bytes;
    return g;
}

/* ---- comparison ---- */

double harness_rounding(rhumb_dtype dtype, double value)
{
    int exponent = 0;
    double size = fabs(value);
    if (dtype == RHUMB_F32 || dtype == RHUMB_I32) {
        return 0.0;
    }
    (void)frexp(size, &exponent); /* size in [2^(exponent-1), 2^exponent) */
    if (dtype == RHUMB_F16) {
        /* 11 bits of significand; below 2^-14 the spacing stays 2^-24 */
        return ldexp(1.0, (size > 0.0 && exponent > -13 ? exponent : -13) - 12);
    }
    return ldexp(1.0, (size > 0.0 && exponent > -125 ? exponent : -125) - 9);
}

bool harness_fail(harness *h, const char *format, ...)
{
    char line[GPU_MESSAGE_SIZE];
    va_list args;
    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    if (h->failures++ == 0) {
        snprintf(h->first_failure, sizeof h->first_failure, "%s", line);
    }
    if (!h->quiet && h->failures <= 40) {
        printf("FAIL %s: %s\n", h->name, line);
        fflush(stdout);
    }
    return false;
}

bool harness_note(harness *h, rhumb_dtype dtype, double error, double bound)
{
    const bool within = error <= bound;
    const double part = !(error > 0.0) ? 0.0 : error / bound;
    if (dtype == RHUMB_F32 && within && part > h->worst) {
        h->worst = part;
    }
    if (dtype == RHUMB_I32 || !(error > 0.0)) {
        return within;
    }
    h->largest_error = fmax(h->largest_error, error);
    if (!(h->closest_error > 0.0) || part > h->closest_error / h->closest_bound) {
        h->closest_error = error;
        h->closest_bound = bound;
    }
    return within;
}

bool harness_compare(harness *h, const char *what, const char *shape, const harness_tensor *got,
                     const double *want, const double *bound, const bool *skip)
{
    uint64_t bad = 0;
    uint64_t first = 0;
    for (uint64_t i = 0; i < got->count; i++) {
        if (skip != NULL && skip[i]) {
            continue;
        }
        if (!harness_note(h, got->dtype, fabs(got->values[i] - want[i]), bound[i])) {
            first = bad == 0 ? i : first;
            bad++;
        }
    }
    if (bad == 0) {
        return true;
    }
    return harness_fail(
        h,
        "%s: %s: %s: index [%llu, %llu, %llu, %llu]: got %.9g, want %.9g, bound %.3g "
        "(%llu of %llu differ)",
        what, shape, harness_dtype_name(got->dtype),
        (unsigned long long)(first / got->shape[3] / got->shape[2] / got->shape[1]),
        (unsigned long long)(first / got->shape[3] / got->shape[2] % got->shape[1]),
        (unsigned long long)(first / got->shape[3] % got->shape[2]),
        (unsigned long long)(first % got->shape[3]), got->values[first], want[first], bound[first],
        (unsigned long long)bad, (unsigned long long)got->count);
}

void harness_expect_refused(harness *h, gpu_operation *op, const char *name, rhumb_result code,
                            const char *start, const char *found, const harness_tensor *out)
{
    h->cases++;
    rhumb_result got = gpu_run_operation(h->g, op);
    if (got != code) {
        harness_fail(h, "%s: wanted %s, got %s: %s", name, rhumb_result_name(code),
                     rhumb_result_name(got), op->message);
    } else if (strncmp(op->message, start, strlen(start)) != 0 ||
               strstr(op->message, found) == NULL || strchr(op->message, '\n') != NULL) {
        harness_fail(h, "%s: wanted \"%s ... %s\", got \"%s\"", name, start, found, op->message);
    }
    if (gpu_find_broken_canary(out->memory, 0, out->bytes) != out->bytes) {
        harness_fail(h, "%s: something was written", name);
    }
}
