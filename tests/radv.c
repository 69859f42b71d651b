#define _POSIX_C_SOURCE 200809L /* setenv */

#include "radv.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

/* Of a kernel's code: the instruction cache of these GPUs. Registers indexed by what the compiler takes
 * for no constant once made 7,000 to 30,000 instructions of a tile form, without a spill. */
#define MOST_CODE_BYTES 32768

#define ASSEMBLY_BYTES (1u << 20)

static struct {
    PFN_vkGetInstanceProcAddr get;
    PFN_vkGetDeviceProcAddr get_device;
    PFN_vkCreateComputePipelines create;
    PFN_vkGetPipelineExecutableStatisticsKHR statistics;
    PFN_vkGetPipelineExecutableInternalRepresentationsKHR representations;
    radv_statistics seen;
    char assembly[ASSEMBLY_BYTES];
} radv;

static bool contains(const char *text, const char *part)
{
    for (; *text != '\0'; text++) {
        if (strncasecmp(text, part, strlen(part)) == 0) {
            return true;
        }
    }
    return false;
}

static uint64_t value_of(const VkPipelineExecutableStatisticKHR *s)
{
    switch (s->format) {
    case VK_PIPELINE_EXECUTABLE_STATISTIC_FORMAT_UINT64_KHR:
        return s->value.u64;
    case VK_PIPELINE_EXECUTABLE_STATISTIC_FORMAT_INT64_KHR:
        return (uint64_t)s->value.i64;
    default:
        return 0;
    }
}

static void read_statistics(VkDevice device, VkPipeline pipeline)
{
    const VkPipelineExecutableInfoKHR info = {
        .sType = VK_STRUCTURE_TYPE_PIPELINE_EXECUTABLE_INFO_KHR,
        .pipeline = pipeline,
    };
    static const char *const shown[] = {"VGPRs", "SGPRs", "LDS size", "Subgroups per SIMD",
                                        "Instructions", "Code size"};
    VkPipelineExecutableStatisticKHR statistics[64];
    uint32_t count = 64;
    size_t length = 0;
    memset(statistics, 0, sizeof statistics);
    for (uint32_t i = 0; i < count; i++) {
        statistics[i].sType = VK_STRUCTURE_TYPE_PIPELINE_EXECUTABLE_STATISTIC_KHR;
    }
    radv.seen.line[0] = '\0';
    radv.seen.code_bytes = 0;
    (void)radv.statistics(device, &info, &count, statistics);
    cr_assert_gt(count, 0, "RADV gives no statistics");
    for (uint32_t i = 0; i < count; i++) {
        const VkPipelineExecutableStatisticKHR *s = &statistics[i];
        if (contains(s->name, "spill") || contains(s->name, "scratch")) {
            radv.seen.spilled += value_of(s);
        }
        if (strcmp(s->name, "Code size") == 0) {
            radv.seen.code_bytes = value_of(s);
        }
        for (size_t n = 0; n < sizeof shown / sizeof shown[0]; n++) {
            if (strcmp(s->name, shown[n]) == 0 && length < sizeof radv.seen.line) {
                length += (size_t)snprintf(radv.seen.line + length, sizeof radv.seen.line - length,
                                           " %s %llu", s->name, (unsigned long long)value_of(s));
            }
        }
    }
}

/* The machine code is the one representation that is called assembly. */
static void read_assembly(VkDevice device, VkPipeline pipeline)
{
    const VkPipelineExecutableInfoKHR info = {
        .sType = VK_STRUCTURE_TYPE_PIPELINE_EXECUTABLE_INFO_KHR,
        .pipeline = pipeline,
    };
    VkPipelineExecutableInternalRepresentationKHR found[16];
    uint32_t count = 16;
    memset(found, 0, sizeof found);
    for (uint32_t i = 0; i < count; i++)
        found[i].sType = VK_STRUCTURE_TYPE_PIPELINE_EXECUTABLE_INTERNAL_REPRESENTATION_KHR;
    radv.seen.assembly = NULL;
    (void)radv.representations(device, &info, &count, found);
    for (uint32_t i = 0; i < count; i++) {
        bool is_assembly = contains(found[i].name, "assembly");
        found[i].pData = is_assembly ? radv.assembly : NULL;
        found[i].dataSize = is_assembly ? sizeof radv.assembly : 0;
    }
    (void)radv.representations(device, &info, &count, found);
    for (uint32_t i = 0; i < count; i++)
        if (found[i].pData != NULL && found[i].dataSize > 0)
            radv.seen.assembly = radv.assembly;
    cr_expect_not_null(radv.seen.assembly, "RADV gives no assembly");
}

static VKAPI_ATTR VkResult VKAPI_CALL create_pipelines(VkDevice device, VkPipelineCache cache,
                                                       uint32_t count,
                                                       const VkComputePipelineCreateInfo *infos,
                                                       const VkAllocationCallbacks *allocator,
                                                       VkPipeline *pipelines)
{
    VkComputePipelineCreateInfo info = infos[0];
    VkResult result;
    cr_assert_eq(count, 1);
    info.flags |= VK_PIPELINE_CREATE_CAPTURE_STATISTICS_BIT_KHR |
                  VK_PIPELINE_CREATE_CAPTURE_INTERNAL_REPRESENTATIONS_BIT_KHR;
    result = radv.create(device, cache, 1, &info, allocator, pipelines);
    if (result == VK_SUCCESS) {
        read_statistics(device, pipelines[0]);
        read_assembly(device, pipelines[0]);
        cr_expect_gt(radv.seen.code_bytes, 0, "RADV tells no size of the code");
        cr_expect_leq(radv.seen.code_bytes, MOST_CODE_BYTES, "pipeline %u of the process:%s",
                      radv.seen.pipelines, radv.seen.line);
        radv.seen.pipelines++;
    }
    return result;
}

static VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL get_device_function(VkDevice device,
                                                                    const char *name)
{
    return strcmp(name, "vkCreateComputePipelines") == 0 ? (PFN_vkVoidFunction)create_pipelines
                                                          : radv.get_device(device, name);
}

static VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL get_function(VkInstance instance, const char *name)
{
    return strcmp(name, "vkGetDeviceProcAddr") == 0 ? (PFN_vkVoidFunction)get_device_function
                                                    : radv.get(instance, name);
}

rhumb_context *radv_open(const char *family)
{
    static const char *const extensions[] = {VK_KHR_PIPELINE_EXECUTABLE_PROPERTIES_EXTENSION_NAME};
    VkPhysicalDevicePipelineExecutablePropertiesFeaturesKHR feature = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PIPELINE_EXECUTABLE_PROPERTIES_FEATURES_KHR,
        .pipelineExecutableInfo = VK_TRUE,
    };
    const char *icd = getenv("RHUMB_TEST_RADV_ICD");
    rhumb_hosted_info info;
    rhumb_context *context = NULL;
    static host h;
    if (icd == NULL || icd[0] == '\0' || access(icd, R_OK) != 0) {
        printf("left out: no RADV (RHUMB_TEST_RADV_ICD names no readable ICD file)\n");
        cr_skip_test("left out: no RADV");
    }
    setenv("RADV_FORCE_FAMILY", family, 1);
    setenv("VK_ICD_FILENAMES", icd, 1);
    setenv("VK_DRIVER_FILES", icd, 1);
    host_open_named(&h, "", false, &feature, extensions, 1);
    radv.get = h.get;
    radv.get_device = (PFN_vkGetDeviceProcAddr)h.get(h.instance, "vkGetDeviceProcAddr");
    radv.create = h.vk.vkCreateComputePipelines;
    radv.statistics = h.vk.vkGetPipelineExecutableStatisticsKHR;
    radv.representations = h.vk.vkGetPipelineExecutableInternalRepresentationsKHR;
    cr_assert_not_null((void *)(uintptr_t)radv.statistics);
    cr_assert_not_null((void *)(uintptr_t)radv.representations);
    host_describe(&h, &info);
    info.get_instance_proc_addr = get_function;
    cr_assert_eq(rhumb_create_hosted(&info, &context), RHUMB_OK, "%s", rhumb_last_message(NULL));
    return context;
}

const radv_statistics *radv_look(void)
{
    return &radv.seen;
}
