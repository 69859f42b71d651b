#include "capture.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>

#define COUNT(list) (sizeof(list) / sizeof *(list))

static capture *current;

/* ----------------------------------------------------------------------------------------------
 * What the driver says
 */

/* Drivers differ in the case of names. */
static bool contains(const char *text, const char *part)
{
    for (; *text != '\0'; text++) {
        size_t i = 0;
        while (part[i] != '\0' && tolower((unsigned char)text[i]) == part[i])
            i++;
        if (part[i] == '\0')
            return true;
    }
    return false;
}

static double value_of(const VkPipelineExecutableStatisticKHR *s)
{
    switch (s->format) {
    case VK_PIPELINE_EXECUTABLE_STATISTIC_FORMAT_BOOL32_KHR: return s->value.b32 != 0;
    case VK_PIPELINE_EXECUTABLE_STATISTIC_FORMAT_INT64_KHR: return (double)s->value.i64;
    case VK_PIPELINE_EXECUTABLE_STATISTIC_FORMAT_UINT64_KHR: return (double)s->value.u64;
    default: return s->value.f64;
    }
}

static void read_statistics(VkDevice device, const VkPipelineExecutableInfoKHR *info,
                            capture_executable *e)
{
    VkPipelineExecutableStatisticKHR statistics[CAPTURE_MAX_STATISTICS];
    uint32_t count = CAPTURE_MAX_STATISTICS;

    memset(statistics, 0, sizeof statistics);
    for (uint32_t i = 0; i < count; i++)
        statistics[i].sType = VK_STRUCTURE_TYPE_PIPELINE_EXECUTABLE_STATISTIC_KHR;
    if (current->vk.vkGetPipelineExecutableStatisticsKHR(device, info, &count, statistics) < 0)
        return;
    for (uint32_t i = 0; i < count; i++) {
        capture_statistic *s = &e->statistics[e->statistic_count];
        if (contains(statistics[i].name, "hash")) /* tells pipelines apart, no quantity */
            continue;
        snprintf(s->name, sizeof s->name, "%.63s", statistics[i].name);
        s->value = value_of(&statistics[i]);
        e->statistic_count++;
    }
}

/* The one that is called assembly, else the last text: drivers list their stages in order. */
static void read_code(VkDevice device, const VkPipelineExecutableInfoKHR *info,
                      capture_executable *e)
{
    PFN_vkGetPipelineExecutableInternalRepresentationsKHR read =
        current->vk.vkGetPipelineExecutableInternalRepresentationsKHR;
    VkPipelineExecutableInternalRepresentationKHR found[16];
    uint32_t count = COUNT(found), chosen = UINT32_MAX;

    memset(found, 0, sizeof found);
    for (uint32_t i = 0; i < count; i++)
        found[i].sType = VK_STRUCTURE_TYPE_PIPELINE_EXECUTABLE_INTERNAL_REPRESENTATION_KHR;
    if (read(device, info, &count, found) < 0)
        return;
    for (uint32_t i = 0; i < count; i++)
        if (found[i].isText && (chosen == UINT32_MAX || contains(found[i].name, "assembly") ||
                                !contains(found[chosen].name, "assembly")))
            chosen = i;
    if (chosen == UINT32_MAX)
        return;
    e->code = calloc(1, found[chosen].dataSize + 1);
    for (uint32_t i = 0; i < count; i++) {
        found[i].pData = i == chosen ? e->code : NULL;
        found[i].dataSize = i == chosen ? found[i].dataSize : 0;
    }
    if (e->code != NULL)
        (void)read(device, info, &count, found);
}

static void read_executables(VkDevice device, VkPipeline pipeline, capture_pipeline *p)
{
    const VkPipelineInfoKHR info = {.sType = VK_STRUCTURE_TYPE_PIPELINE_INFO_KHR,
                                    .pipeline = pipeline};
    VkPipelineExecutablePropertiesKHR properties[CAPTURE_MAX_EXECUTABLES];
    uint32_t count = CAPTURE_MAX_EXECUTABLES;

    memset(properties, 0, sizeof properties);
    for (uint32_t i = 0; i < count; i++)
        properties[i].sType = VK_STRUCTURE_TYPE_PIPELINE_EXECUTABLE_PROPERTIES_KHR;
    if (current->vk.vkGetPipelineExecutablePropertiesKHR(device, &info, &count, properties) < 0)
        return;
    p->executable_count = count;
    for (uint32_t i = 0; i < count; i++) {
        const VkPipelineExecutableInfoKHR which = {
            .sType = VK_STRUCTURE_TYPE_PIPELINE_EXECUTABLE_INFO_KHR,
            .pipeline = pipeline,
            .executableIndex = i,
        };
        capture_executable *e = &p->executables[i];
        snprintf(e->name, sizeof e->name, "%.63s", properties[i].name);
        e->subgroup_size = properties[i].subgroupSize;
        read_statistics(device, &which, e);
        read_code(device, &which, e);
    }
}

const capture_statistic *capture_find(const capture_executable *executable, const char *name)
{
    for (uint32_t i = 0; i < executable->statistic_count; i++)
        if (strcmp(executable->statistics[i].name, name) == 0)
            return &executable->statistics[i];
    return NULL;
}

double capture_spills(const capture_executable *executable)
{
    double sum = 0.0;

    for (uint32_t i = 0; i < executable->statistic_count; i++) {
        const capture_statistic *s = &executable->statistics[i];
        if (contains(s->name, "spill") || contains(s->name, "scratch"))
            sum += s->value;
    }
    return sum;
}

/* ----------------------------------------------------------------------------------------------
 * What pipelines are made of. A plan makes its layouts, then for each pipeline a module, the
 * pipeline and its name.
 */
static VKAPI_ATTR VkResult VKAPI_CALL create_set_layout(VkDevice device,
                                                        const VkDescriptorSetLayoutCreateInfo *info,
                                                        const VkAllocationCallbacks *allocator,
                                                        VkDescriptorSetLayout *layout)
{
    capture_pipeline *next = &current->next;

    next->binding_count =
        info->bindingCount < CAPTURE_MAX_BINDINGS ? info->bindingCount : CAPTURE_MAX_BINDINGS;
    memcpy(next->bindings, info->pBindings, next->binding_count * sizeof *next->bindings);
    return current->vk.vkCreateDescriptorSetLayout(device, info, allocator, layout);
}

static VKAPI_ATTR VkResult VKAPI_CALL create_layout(VkDevice device,
                                                    const VkPipelineLayoutCreateInfo *info,
                                                    const VkAllocationCallbacks *allocator,
                                                    VkPipelineLayout *layout)
{
    current->next.push_bytes = 0;
    for (uint32_t i = 0; i < info->pushConstantRangeCount; i++)
        current->next.push_bytes += info->pPushConstantRanges[i].size;
    return current->vk.vkCreatePipelineLayout(device, info, allocator, layout);
}

static VKAPI_ATTR VkResult VKAPI_CALL create_module(VkDevice device,
                                                    const VkShaderModuleCreateInfo *info,
                                                    const VkAllocationCallbacks *allocator,
                                                    VkShaderModule *module)
{
    uint32_t *copy = realloc(current->module, info->codeSize);

    if (copy == NULL)
        return VK_ERROR_OUT_OF_HOST_MEMORY;
    memcpy(copy, info->pCode, info->codeSize);
    current->module = copy;
    current->module_bytes = info->codeSize;
    return current->vk.vkCreateShaderModule(device, info, allocator, module);
}

static void read_spec(const VkSpecializationInfo *info, capture_pipeline *p)
{
    for (uint32_t i = 0; i < info->mapEntryCount; i++) {
        const VkSpecializationMapEntry *entry = &info->pMapEntries[i];
        if (entry->constantID < SPEC_COUNT && entry->size == sizeof *p->spec)
            memcpy(&p->spec[entry->constantID], (const char *)info->pData + entry->offset,
                   sizeof *p->spec);
    }
}

static VKAPI_ATTR VkResult VKAPI_CALL create_pipelines(VkDevice device, VkPipelineCache cache,
                                                       uint32_t count,
                                                       const VkComputePipelineCreateInfo *infos,
                                                       const VkAllocationCallbacks *allocator,
                                                       VkPipeline *pipelines)
{
    capture *c = current;
    capture_pipeline *list =
        realloc(c->pipelines, (c->pipeline_count + 1) * sizeof *c->pipelines);
    VkComputePipelineCreateInfo info = infos[0]; /* rhumb makes one at a time */
    char message[128];
    VkResult result;

    if (list == NULL)
        return VK_ERROR_OUT_OF_HOST_MEMORY;
    c->pipelines = list;
    if (c->tells)
        info.flags |= VK_PIPELINE_CREATE_CAPTURE_STATISTICS_BIT_KHR |
                      VK_PIPELINE_CREATE_CAPTURE_INTERNAL_REPRESENTATIONS_BIT_KHR;
    result = c->vk.vkCreateComputePipelines(device, cache, count, &info, allocator, pipelines);
    if (result != VK_SUCCESS)
        return result;
    list[c->pipeline_count] = c->next;
    read_spec(info.stage.pSpecializationInfo, &list[c->pipeline_count]);
    (void)spirv_read_facts(c->module, c->module_bytes / sizeof *c->module,
                           info.stage.pSpecializationInfo, &list[c->pipeline_count].module, message,
                           sizeof message);
    if (c->tells)
        read_executables(device, pipelines[0], &list[c->pipeline_count]);
    c->pipeline_count++;
    return result;
}

/* "rhumb KERNEL pipeline" */
static VKAPI_ATTR VkResult VKAPI_CALL set_name(VkDevice device,
                                               const VkDebugUtilsObjectNameInfoEXT *info)
{
    (void)device;
    if (info->objectType == VK_OBJECT_TYPE_PIPELINE && current->pipeline_count > 0)
        (void)sscanf(info->pObjectName, "rhumb %63s",
                     current->pipelines[current->pipeline_count - 1].kernel);
    return VK_SUCCESS;
}

/* ----------------------------------------------------------------------------------------------
 * The device
 */
static bool has_executables(VkPhysicalDevice physical)
{
    VkExtensionProperties extensions[512];
    uint32_t count = COUNT(extensions);
    VkPhysicalDevicePipelineExecutablePropertiesFeaturesKHR feature = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PIPELINE_EXECUTABLE_PROPERTIES_FEATURES_KHR};
    VkPhysicalDeviceFeatures2 features = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2,
                                          .pNext = &feature};
    bool found = false;

    if (vkEnumerateDeviceExtensionProperties(physical, NULL, &count, extensions) < 0)
        return false;
    for (uint32_t i = 0; i < count; i++)
        found |= strcmp(extensions[i].extensionName,
                        VK_KHR_PIPELINE_EXECUTABLE_PROPERTIES_EXTENSION_NAME) == 0;
    if (found)
        vkGetPhysicalDeviceFeatures2(physical, &features);
    return found && feature.pipelineExecutableInfo;
}

static VKAPI_ATTR VkResult VKAPI_CALL create_device(VkPhysicalDevice physical,
                                                    const VkDeviceCreateInfo *info,
                                                    const VkAllocationCallbacks *allocator,
                                                    VkDevice *device)
{
    VkPhysicalDevicePipelineExecutablePropertiesFeaturesKHR feature = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PIPELINE_EXECUTABLE_PROPERTIES_FEATURES_KHR,
        .pipelineExecutableInfo = VK_TRUE,
    };
    const char *extensions[8];
    const uint32_t count = info->enabledExtensionCount;
    VkDeviceCreateInfo own = *info;
    VkResult result;

    vkGetPhysicalDeviceProperties(physical, &current->properties);
    current->tells = count < COUNT(extensions) && has_executables(physical);
    if (current->tells) {
        for (uint32_t i = 0; i < count; i++)
            extensions[i] = info->ppEnabledExtensionNames[i];
        extensions[count] = VK_KHR_PIPELINE_EXECUTABLE_PROPERTIES_EXTENSION_NAME;
        memcpy(&feature.pNext, &info->pNext, sizeof feature.pNext); /* that one is const */
        own.pNext = &feature;
        own.ppEnabledExtensionNames = extensions;
        own.enabledExtensionCount = count + 1;
    }
    result = vkCreateDevice(physical, &own, allocator, device);
    if (result == VK_SUCCESS)
        volkLoadDeviceTable(&current->vk, *device);
    return result;
}

/* Nothing was submitted, and null hardware has no queue to wait for. */
static VKAPI_ATTR VkResult VKAPI_CALL wait_idle(VkDevice device)
{
    (void)device;
    return VK_SUCCESS;
}

static PFN_vkVoidFunction find_own(const char *name)
{
    static const struct {
        const char *name;
        PFN_vkVoidFunction function;
    } functions[] = {
        {"vkCreateDevice", (PFN_vkVoidFunction)create_device},
        {"vkDeviceWaitIdle", (PFN_vkVoidFunction)wait_idle},
        {"vkCreateDescriptorSetLayout", (PFN_vkVoidFunction)create_set_layout},
        {"vkCreatePipelineLayout", (PFN_vkVoidFunction)create_layout},
        {"vkCreateShaderModule", (PFN_vkVoidFunction)create_module},
        {"vkCreateComputePipelines", (PFN_vkVoidFunction)create_pipelines},
        {"vkSetDebugUtilsObjectNameEXT", (PFN_vkVoidFunction)set_name},
    };

    for (size_t i = 0; i < COUNT(functions); i++)
        if (strcmp(functions[i].name, name) == 0)
            return functions[i].function;
    return NULL;
}

static VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL get_device_function(VkDevice device,
                                                                    const char *name)
{
    PFN_vkVoidFunction own = find_own(name);

    return own != NULL ? own : vkGetDeviceProcAddr(device, name);
}

static VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL get_function(VkInstance instance, const char *name)
{
    PFN_vkVoidFunction own = find_own(name);

    if (strcmp(name, "vkCreateDevice") == 0)
        volkLoadInstanceOnly(instance);
    if (strcmp(name, "vkGetDeviceProcAddr") == 0)
        return (PFN_vkVoidFunction)get_device_function;
    return own != NULL ? own : current->get(instance, name);
}

/* ----------------------------------------------------------------------------------------------
 * Opening
 */
static rhumb_result open_device(capture *c, const gpu_options *options)
{
    rhumb_standalone_info info;

    rhumb_init_standalone_info(&info);
    info.device_index = options->device_index;
    info.device_name = options->device_name;
    info.validation = options->validation;
    info.get_instance_proc_addr = get_function;
    info.clamp = options->clamp;
    info.log = options->log;
    info.log_user = options->log_user;
    return rhumb_create_standalone(&info, &c->device);
}

/* A second context on the device, whose kernels say their names. */
static rhumb_result open_context(capture *c, const gpu_options *options)
{
    static const char *const names[] = {VK_EXT_DEBUG_UTILS_EXTENSION_NAME};
    rhumb_hosted_info info;
    rhumb_device_handles handles;
    rhumb_limits limits;

    rhumb_init_device_handles(&handles);
    rhumb_init_limits(&limits);
    (void)rhumb_get_device_handles(c->device, &handles);
    (void)rhumb_get_limits(c->device, &limits);
    rhumb_init_hosted_info(&info);
    info.instance = handles.instance;
    info.physical_device = handles.physical_device;
    info.device = handles.device;
    info.get_instance_proc_addr = get_function;
    info.enabled_extensions = names;
    info.enabled_extension_count = COUNT(names);
    info.clamp = options->clamp;
    info.device_address = limits.device_address;
    return rhumb_create_hosted(&info, &c->context);
}

rhumb_result capture_open(const gpu_options *options, capture **out, char *error, size_t error_size)
{
    capture *c = calloc(1, sizeof *c);
    rhumb_result result;

    *out = NULL;
    if (c == NULL) {
        snprintf(error, error_size, "no host memory");
        return RHUMB_ERROR_HOST_MEMORY;
    }
    current = c;
    if (options->get_instance_proc_addr != NULL) {
        volkInitializeCustom(options->get_instance_proc_addr);
    } else if (volkInitialize() != VK_SUCCESS) {
        snprintf(error, error_size, "found no Vulkan loader on this machine");
        capture_close(c);
        return RHUMB_ERROR_NO_DEVICE;
    }
    c->get = vkGetInstanceProcAddr;
    result = open_device(c, options);
    if (result == RHUMB_OK)
        result = open_context(c, options);
    if (result == RHUMB_OK) {
        *out = c;
        return result;
    }
    snprintf(error, error_size, "%s", rhumb_last_message(NULL));
    capture_close(c);
    return result;
}

void capture_close(capture *c)
{
    if (c == NULL)
        return;
    rhumb_destroy_context(c->context);
    rhumb_destroy_context(c->device);
    for (uint32_t i = 0; i < c->pipeline_count; i++)
        for (uint32_t n = 0; n < c->pipelines[i].executable_count; n++)
            free(c->pipelines[i].executables[n].code);
    free(c->pipelines);
    free(c->module);
    free(c);
    current = NULL;
}
