#define _POSIX_C_SOURCE 200809L /* setenv */

#include "harness.h"

#include <criterion/criterion.h>
#include <dlfcn.h>
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

/* The file that a variable names; NULL: none that can be read. */
static const char *named_file(const char *variable)
{
    const char *path = getenv(variable);
    return path != NULL && path[0] != '\0' && access(path, R_OK) == 0 ? path : NULL;
}

static const char *icd_file(harness_profile profile)
{
    return named_file(profiles[profile].variable);
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

const char *harness_icd(const char *driver, const char *variable)
{
    const char *path = named_file(variable);
    const char *required = getenv("RHUMB_TEST_REQUIRE_DRIVERS");
    if (path != NULL) {
        return path;
    }
    printf("left out: no %s (%s names no readable ICD file)\n", driver, variable);
    fflush(stdout);
    if (required != NULL && strcmp(required, "1") == 0) {
        cr_assert_fail("%s is required here: %s names no readable ICD file", driver, variable);
    }
    return NULL;
}

bool harness_has(harness_profile profile)
{
    const char *path = harness_icd(profiles[profile].name, profiles[profile].variable);
    cr_assert(path != NULL || profile == HARNESS_SWIFTSHADER, "%s is required",
              profiles[profile].name);
    return path != NULL;
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

/* A plan that fails is wanted: the row says why. */
static bool wants(harness *h, const gpu_operation *op)
{
    rhumb_plan *plan = NULL;
    rhumb_result result;
    interpose_skip_compilation(true);
    result = rhumb_create_plan(h->g->context, &op->info, &plan);
    rhumb_destroy_plan(plan);
    interpose_skip_compilation(false);
    return result != RHUMB_OK || !interpose_skipped_only_repeats();
}

void harness_open(harness *h, harness_profile profile)
{
    harness_open_clamped(h, profile, NULL);
}

void harness_open_clamped(harness *h, harness_profile profile, const rhumb_limits *clamp)
{
    gpu_options options;
    char error[GPU_MESSAGE_SIZE] = "";
    rhumb_result result;
    memset(h, 0, sizeof *h);
    h->profile = profile;
    h->name = profiles[profile].name;
    h->wants = profile == HARNESS_LAVAPIPE ? NULL : wants;
    if (!harness_has(profile)) {
        cr_skip_test("left out: no %s", profiles[profile].name);
    }
    harness_select_drivers();
    interpose_start(harness_loader(), profiles[profile].mode);
    interpose_compile_late(profile == HARNESS_SWIFTSHADER);
    gpu_init_options(&options);
    options.validation = 1;
    options.device_name = profiles[profile].device;
    options.get_instance_proc_addr = interpose_get_instance_proc_addr;
    options.clamp = clamp;
    options.log = on_log;
    options.log_user = h;
    result = gpu_open(&options, &h->g, error, sizeof error);
    cr_assert_eq(result, RHUMB_OK, "%s: %s: %s", profiles[profile].name, rhumb_result_name(result),
                 error);
    printf("%s: %s\n", profiles[profile].name, h->g->properties.deviceName);
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
    if (h->left_out != 0) {
        printf("%s: %u more cases run on lavapipe alone\n", profiles[h->profile].name, h->left_out);
    }
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
