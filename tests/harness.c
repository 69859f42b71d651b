#define _POSIX_C_SOURCE 200809L /* setenv */

#include "harness.h"

#include "reference/reference.h"

#include <criterion/criterion.h>
#include <dlfcn.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const struct {
    const char *name;
    const char *device;
    const char *variable;
    interpose_mode mode;
} profiles[HARNESS_PROFILE_COUNT] = {
    [HARNESS_LAVAPIPE] = {"lavapipe", "llvmpipe", "RHUMB_TEST_LAVAPIPE_ICD", INTERPOSE_PLAIN},
    [HARNESS_LAVAPIPE_FLOOR] = {"lavapipe floor", "llvmpipe", "RHUMB_TEST_LAVAPIPE_ICD",
                                INTERPOSE_FLOOR},
    [HARNESS_SWIFTSHADER] = {"SwiftShader", "SwiftShader", "RHUMB_TEST_SWIFTSHADER_ICD",
                             INTERPOSE_PLAIN},
};

const char *harness_profile_name(harness_profile profile)
{
    return profiles[profile].name;
}

const char *harness_device_name(harness_profile profile)
{
    return profiles[profile].device;
}

static const char *icd_file(harness_profile profile)
{
    const char *path = getenv(profiles[profile].variable);
    return path != NULL && path[0] != '\0' && access(path, R_OK) == 0 ? path : NULL;
}

void harness_select_drivers(void)
{
    const char *lavapipe = icd_file(HARNESS_LAVAPIPE);
    const char *swiftshader = icd_file(HARNESS_SWIFTSHADER);
    char list[2048];
    if (lavapipe == NULL && swiftshader == NULL) {
        return; /* the loader's own choice; opening by name says what is missing */
    }
    snprintf(list, sizeof list, "%s%s%s", lavapipe != NULL ? lavapipe : "",
             lavapipe != NULL && swiftshader != NULL ? ":" : "",
             swiftshader != NULL ? swiftshader : "");
    setenv("VK_ICD_FILENAMES", list, 1); /* loaders before 1.3.207 */
    setenv("VK_DRIVER_FILES", list, 1);
}

PFN_vkGetInstanceProcAddr harness_loader(void)
{
    PFN_vkGetInstanceProcAddr get = NULL;
    void *loader = dlopen("libvulkan.so.1", RTLD_NOW | RTLD_LOCAL);
    cr_assert_not_null(loader, "no Vulkan loader: %s", dlerror());
    *(void **)&get = dlsym(loader, "vkGetInstanceProcAddr");
    cr_assert_not_null((void *)(uintptr_t)get, "the loader has no vkGetInstanceProcAddr");
    return get;
}

bool harness_has(harness_profile profile)
{
    const char *required = getenv("RHUMB_TEST_REQUIRE_SWIFTSHADER");
    if (icd_file(profile) != NULL) {
        return true;
    }
    printf("left out: no %s (%s names no readable ICD file)\n", profiles[profile].name,
           profiles[profile].variable);
    fflush(stdout);
    if (profile != HARNESS_SWIFTSHADER || (required != NULL && strcmp(required, "1") == 0)) {
        cr_assert_fail("%s is required here: %s names no readable ICD file", profiles[profile].name,
                       profiles[profile].variable);
    }
    return false;
}

static void on_log(void *user, rhumb_log_level level, const char *line)
{
    harness *h = user;
    if (level != RHUMB_LOG_ERROR || strncmp(line, "validation: ", 12) != 0) {
        return; /* rhumb's own errors are results, which the tests look at */
    }
    if (atomic_fetch_add(&h->messages, 1) == 0) {
        snprintf(h->first_message, sizeof h->first_message, "%s", line);
    }
    printf("%s\n", line);
}

void harness_open(harness *h, harness_profile profile)
{
    gpu_options options;
    char error[GPU_MESSAGE_SIZE] = "";
    rhumb_result result;
    memset(h, 0, sizeof *h);
    h->profile = profile;
    if (!harness_has(profile)) {
        cr_skip_test("left out: no %s", profiles[profile].name);
    }
    harness_select_drivers();
    interpose_start(harness_loader(), profiles[profile].mode);
    gpu_init_options(&options);
    options.validation = 1;
    options.device_name = profiles[profile].device;
    options.get_instance_proc_addr = interpose_get_instance_proc_addr;
    options.log = on_log;
    options.log_user = h;
    result = gpu_open(&options, &h->g, error, sizeof error);
    cr_assert_eq(result, RHUMB_OK, "%s: %s: %s", profiles[profile].name, rhumb_result_name(result),
                 error);
    printf("%s: %s\n", profiles[profile].name, h->g->properties.deviceName);
}

rhumb_result harness_run(harness *h, gpu_operation *op)
{
    rhumb_plan *plan = NULL;
    rhumb_result result;
    for (uint32_t i = 0; i < op->tensor_count; i++) {
        op->info.views |= RHUMB_VIEW_BIT(op->tensors[i].id);
        op->info.dtype[op->tensors[i].id] = op->tensors[i].dtype;
    }
    result = rhumb_create_plan(h->g->context, &op->info, &plan);
    if (result != RHUMB_OK) {
        snprintf(op->message, sizeof op->message, "%s", rhumb_last_message(h->g->context));
        return result;
    }
    h->plans = realloc(h->plans, (h->plan_count + 1) * sizeof *h->plans);
    cr_assert_not_null(h->plans);
    h->plans[h->plan_count++] = plan;
    op->plan = plan;
    return gpu_run_operation(h->g, op);
}

static void print_live(void)
{
    for (int i = 0; i < INTERPOSE_OBJECT_COUNT; i++) {
        uint64_t live = interpose_live((interpose_object)i);
        if (live != 0) {
            printf("left alive: %llu %s\n", (unsigned long long)live,
                   interpose_object_name((interpose_object)i));
        }
    }
}

void harness_close(harness *h)
{
    uint32_t messages;
    for (size_t i = 0; i < h->plan_count; i++) {
        rhumb_destroy_plan(h->plans[i]);
    }
    free(h->plans);
    gpu_close(h->g);
    h->g = NULL;
    messages = atomic_load(&h->messages);
    print_live();
    for (uint32_t i = 0; i < interpose_violation_count(); i++) {
        printf("beyond the profile: %s\n", interpose_violation(i));
    }
    printf("%s: %u cases, %u failed, f32 errors up to %.2g of their bounds\n",
           profiles[h->profile].name, h->cases, h->failures, h->worst);
    fflush(stdout);
    cr_assert_gt(h->cases, 0, "no case was run");
    cr_expect_eq(h->failures, 0, "%u of %u cases failed; their lines are above", h->failures,
                 h->cases);
    cr_expect_eq(messages, 0, "%u validation messages, the first: %s", messages,
                 h->first_message);
    cr_expect_eq(interpose_violation_count(), 0, "%u uses beyond the profile, the first: %s",
                 interpose_violation_count(), interpose_violation(0));
    cr_expect_eq(interpose_live_total(), 0, "%llu Vulkan objects were left alive",
                 (unsigned long long)interpose_live_total());
}

/* ---- host memory ---- */

void *harness_alloc(size_t count, size_t size)
{
    void *memory = calloc(count != 0 ? count : 1, size);
    if (memory == NULL) {
        fprintf(stderr, "no host memory for %zu elements\n", count);
        exit(1);
    }
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

uint64_t harness_dtype_size(rhumb_dtype dtype)
{
    return dtype == RHUMB_F16 || dtype == RHUMB_BF16 ? 2 : 4;
}

const char *harness_dtype_name(rhumb_dtype dtype)
{
    static const char *const names[] = {"f32", "f16", "bf16", "i32"};
    return (unsigned)dtype < 4 ? names[dtype] : "?";
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
    t->offset = layout.offset * harness_dtype_size(dtype);
    t->count = b * h * l * d;
    /* the pads are between rows, none is behind the last */
    last = b * h * l * row - layout.row_pad;
    t->bytes = (t->offset + last * harness_dtype_size(dtype) + 3) / 4 * 4;
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

void harness_store(harness_tensor *t)
{
    for (uint64_t i = 0; i < t->count; i++) {
        t->values[i] = store_one(t->dtype, t->values[i], t->memory + harness_byte(t, i));
    }
}

void harness_load(harness_tensor *t)
{
    for (uint64_t i = 0; i < t->count; i++) {
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
    cr_assert_not_null(g);
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
    va_list args;
    h->failures++;
    if (h->failures <= 40) {
        printf("FAIL %s: ", profiles[h->profile].name);
        va_start(args, format);
        vprintf(format, args);
        va_end(args);
        printf("\n");
        fflush(stdout);
    }
    return false;
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
        double error = fabs(got->values[i] - want[i]);
        if (got->dtype == RHUMB_F32 && error <= bound[i] && error > h->worst * bound[i]) {
            h->worst = error / bound[i];
        }
        if (!(error <= bound[i])) {
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
