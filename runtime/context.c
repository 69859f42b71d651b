/* Contexts: function table, limits, host memory, pipeline cache blobs. */
#include "internal.h"

#include <stdio.h>
#include <stdlib.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

static const char *const instance_extensions[] = {VK_EXT_DEBUG_UTILS_EXTENSION_NAME};

rhumb_result rhumb_get_requirements(rhumb_requirements *requirements)
{
    rhumb_requirements full;
    rhumb_init_requirements(&full);
    full.api_version = VK_API_VERSION_1_1;
    full.recommended_instance_extensions = instance_extensions;
    full.recommended_instance_extension_count =
        sizeof instance_extensions / sizeof instance_extensions[0];
    full.queue_flags = VK_QUEUE_COMPUTE_BIT;
    return rhumb_give(NULL, "get_requirements", "rhumb_requirements", requirements,
                      RHUMB_TYPE_REQUIREMENTS, &full, sizeof full);
}

static void *default_allocate(void *user, size_t size)
{
    (void)user;
    return malloc(size);
}

static void default_release(void *user, void *memory)
{
    (void)user;
    free(memory);
}

rhumb_result rhumb_adopt_allocator(const char *operation, const rhumb_allocator *given,
                                   rhumb_allocator *allocator)
{
    rhumb_init_allocator(allocator);
    if (given)
        RHUMB_TRY(rhumb_adopt(NULL, operation, "rhumb_allocator", given, RHUMB_TYPE_ALLOCATOR,
                              allocator, sizeof *allocator));
    if (!allocator->allocate != !allocator->release)
        return rhumb_fail(NULL, RHUMB_ERROR_ARGUMENT,
                          "%s: allocator: wanted both callbacks, found one", operation);
    if (!allocator->allocate) {
        allocator->allocate = default_allocate;
        allocator->release = default_release;
    }
    return RHUMB_OK;
}

void *rhumb_allocate(rhumb_context *context, size_t size)
{
    void *memory = context->allocate(context->allocator_user, size);
    if (memory)
        memset(memory, 0, size);
    return memory;
}

void rhumb_release(rhumb_context *context, void *memory)
{
    if (memory)
        context->release(context->allocator_user, memory);
}

void rhumb_set_name(rhumb_context *context, VkObjectType type, uint64_t handle, const char *name,
                    const char *part)
{
    char text[96];
    VkDebugUtilsObjectNameInfoEXT info = {
        .sType = VK_STRUCTURE_TYPE_DEBUG_UTILS_OBJECT_NAME_INFO_EXT,
        .objectType = type,
        .objectHandle = handle,
        .pObjectName = text,
    };
    if (!context->vk.SetDebugUtilsObjectNameEXT)
        return;
    snprintf(text, sizeof text, "rhumb %s %s", name, part);
    context->vk.SetDebugUtilsObjectNameEXT(context->device, &info); /* a name lost is no error */
}

static bool has_extension(const rhumb_hosted_info *info, const char *name)
{
    for (uint32_t i = 0; i < info->enabled_extension_count; i++)
        if (!strcmp(info->enabled_extensions[i], name))
            return true;
    return false;
}

/* A function pointer of one type as another: by its bytes, as ISO C has no conversion from PFN
 * types of different arguments without a warning. */
static rhumb_result load_functions(rhumb_context *context, const rhumb_hosted_info *info)
{
#define LOAD(member, name, loader, handle)                                                         \
    do {                                                                                           \
        PFN_vkVoidFunction function = loader(handle, name);                                        \
        memcpy(&context->vk.member, &function, sizeof function);                                   \
        if (!function)                                                                             \
            return rhumb_fail(NULL, RHUMB_ERROR_VULKAN,                                            \
                              "create_context: wanted %s, the device has none", name);             \
    } while (0);
#define X(name) LOAD(name, "vk" #name, info->get_instance_proc_addr, info->instance)
    RHUMB_INSTANCE_FUNCTIONS(X)
#undef X
#define X(name) LOAD(name, "vk" #name, context->vk.GetDeviceProcAddr, info->device)
    RHUMB_DEVICE_FUNCTIONS(X)
#undef X
#undef LOAD
    if (has_extension(info, VK_EXT_DEBUG_UTILS_EXTENSION_NAME)) {
        PFN_vkVoidFunction function =
            info->get_instance_proc_addr(info->instance, "vkSetDebugUtilsObjectNameEXT");
        memcpy(&context->vk.SetDebugUtilsObjectNameEXT, &function, sizeof function);
    }
    return RHUMB_OK;
}

static void read_limits(rhumb_context *context, const rhumb_hosted_info *info,
                        const rhumb_limits *clamp)
{
    VkPhysicalDeviceSubgroupProperties subgroup = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_PROPERTIES};
    VkPhysicalDeviceProperties2 properties = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2, .pNext = &subgroup};
    const VkPhysicalDeviceLimits *d = &properties.properties.limits;
    rhumb_limits *l = &context->limits;
    context->vk.GetPhysicalDeviceProperties2(context->physical_device, &properties);
    context->properties = properties.properties;

    rhumb_init_limits(l);
    l->max_invocations = rhumb_min_u32(
        rhumb_min_u32(d->maxComputeWorkGroupInvocations, d->maxComputeWorkGroupSize[0]),
        clamp->max_invocations);
    l->max_shared_bytes = rhumb_min_u32(d->maxComputeSharedMemorySize, clamp->max_shared_bytes);
    l->max_push_bytes = rhumb_min_u32(d->maxPushConstantsSize, clamp->max_push_bytes);
    l->max_storage_buffers = rhumb_min_u32(
        rhumb_min_u32(d->maxPerStageDescriptorStorageBuffers, d->maxDescriptorSetStorageBuffers),
        clamp->max_storage_buffers);
    l->max_uniform_range = rhumb_min_u32(d->maxUniformBufferRange, clamp->max_uniform_range);
    l->storage_offset_alignment = rhumb_max_u32((uint32_t)d->minStorageBufferOffsetAlignment,
                                                clamp->storage_offset_alignment);
    l->uniform_offset_alignment = rhumb_max_u32((uint32_t)d->minUniformBufferOffsetAlignment,
                                                clamp->uniform_offset_alignment);
    l->max_workgroups_x = rhumb_min_u32(d->maxComputeWorkGroupCount[0], clamp->max_workgroups_x);
    l->max_workgroups_y = rhumb_min_u32(d->maxComputeWorkGroupCount[1], clamp->max_workgroups_y);
    l->max_storage_range = d->maxStorageBufferRange < clamp->max_storage_range
                               ? d->maxStorageBufferRange
                               : clamp->max_storage_range;
    if (subgroup.supportedStages & VK_SHADER_STAGE_COMPUTE_BIT) {
        l->subgroup_size = rhumb_min_u32(subgroup.subgroupSize, clamp->subgroup_size);
        l->subgroup_operations = subgroup.supportedOperations & clamp->subgroup_operations;
        /* A smaller number than the device's would be a wrong fact, not a lower limit. */
        if (l->subgroup_size != subgroup.subgroupSize)
            l->subgroup_size = 0;
    } else {
        l->subgroup_size = 0;
        l->subgroup_operations = 0;
    }
    if (!l->subgroup_size)
        l->subgroup_operations = 0;
    l->device_address = info->device_address && clamp->device_address;
}

static rhumb_result check_floor(const rhumb_context *context)
{
    const rhumb_limits *l = &context->limits;
    const struct {
        const char *name;
        uint64_t found, wanted;
    } floor[] = {
        {"max_invocations", l->max_invocations, 128},
        {"max_shared_bytes", l->max_shared_bytes, 16384},
        {"max_push_bytes", l->max_push_bytes, 128},
        {"max_storage_buffers", l->max_storage_buffers, 4},
        {"max_uniform_range", l->max_uniform_range, 16384},
        {"max_workgroups_x", l->max_workgroups_x, 1},
        {"max_workgroups_y", l->max_workgroups_y, 1},
        {"max_storage_range", l->max_storage_range, 1 << 16},
    };
    for (size_t i = 0; i < sizeof floor / sizeof floor[0]; i++)
        if (floor[i].found < floor[i].wanted)
            return rhumb_fail(NULL, RHUMB_ERROR_LIMIT,
                              "create_context: %s: wanted at least %llu, found %llu", floor[i].name,
                              (unsigned long long)floor[i].wanted,
                              (unsigned long long)floor[i].found);
    const uint32_t alignments[] = {l->storage_offset_alignment, l->uniform_offset_alignment};
    for (size_t i = 0; i < 2; i++)
        if (!alignments[i] || (alignments[i] & (alignments[i] - 1)) || alignments[i] > 65536)
            return rhumb_fail(
                NULL, RHUMB_ERROR_LIMIT,
                "create_context: offset alignment: wanted a power of two up to 65536, found %u",
                alignments[i]);
    return RHUMB_OK;
}

static rhumb_result check_hosted_info(const rhumb_hosted_info *info)
{
    const char *missing = !info->instance                 ? "instance"
                          : !info->physical_device        ? "physical_device"
                          : !info->device                 ? "device"
                          : !info->get_instance_proc_addr ? "get_instance_proc_addr"
                                                          : NULL;
    if (missing)
        return rhumb_fail(NULL, RHUMB_ERROR_ARGUMENT,
                          "create_context: %s: wanted a handle, found NULL", missing);
    if (info->api_version < VK_API_VERSION_1_1)
        return rhumb_fail(NULL, RHUMB_ERROR_ARGUMENT,
                          "create_context: api_version: wanted Vulkan 1.1, found %u.%u",
                          VK_API_VERSION_MAJOR(info->api_version),
                          VK_API_VERSION_MINOR(info->api_version));
    if (info->enabled_extension_count && !info->enabled_extensions)
        return rhumb_fail(NULL, RHUMB_ERROR_ARGUMENT,
                          "create_context: enabled_extensions: wanted %u names, found NULL",
                          info->enabled_extension_count);
    for (uint32_t i = 0; i < info->enabled_extension_count; i++)
        if (!info->enabled_extensions[i])
            return rhumb_fail(NULL, RHUMB_ERROR_ARGUMENT,
                              "create_context: enabled_extensions[%u]: wanted a name, found NULL",
                              i);
    return RHUMB_OK;
}

static rhumb_result create_pipeline_cache(rhumb_context *context, VkPipelineCache given)
{
    const VkPipelineCacheCreateInfo info = {.sType = VK_STRUCTURE_TYPE_PIPELINE_CACHE_CREATE_INFO};
    context->pipeline_cache = given;
    if (given)
        return RHUMB_OK;
    VkResult result =
        context->vk.CreatePipelineCache(context->device, &info, NULL, &context->pipeline_cache);
    if (result != VK_SUCCESS) {
        context->pipeline_cache = VK_NULL_HANDLE;
        return rhumb_fail_vk(context, result, "create_context: vkCreatePipelineCache");
    }
    context->owns_pipeline_cache = true;
    return RHUMB_OK;
}

rhumb_result rhumb_create_hosted(const rhumb_hosted_info *given, rhumb_context **out)
{
    rhumb_hosted_info info;
    rhumb_limits clamp;
    rhumb_allocator allocator;
    rhumb_init_hosted_info(&info);
    rhumb_init_limits(&clamp);
    if (!out)
        return rhumb_fail(NULL, RHUMB_ERROR_ARGUMENT,
                          "create_context: context: wanted a pointer, found NULL");
    *out = NULL;
    RHUMB_TRY(rhumb_adopt(NULL, "create_context", "rhumb_hosted_info", given,
                          RHUMB_TYPE_HOSTED_INFO, &info, sizeof info));
    RHUMB_TRY(check_hosted_info(&info));
    if (info.clamp)
        RHUMB_TRY(rhumb_adopt(NULL, "create_context", "rhumb_limits", info.clamp, RHUMB_TYPE_LIMITS,
                              &clamp, sizeof clamp));
    RHUMB_TRY(rhumb_adopt_allocator("create_context", info.allocator, &allocator));
    rhumb_context *context = allocator.allocate(allocator.user, sizeof *context);
    if (!context)
        return rhumb_fail(NULL, RHUMB_ERROR_HOST_MEMORY,
                          "create_context: no host memory for %zu bytes", sizeof *context);
    memset(context, 0, sizeof *context);
    context->allocate = allocator.allocate;
    context->release = allocator.release;
    context->allocator_user = allocator.user;
    context->instance = info.instance;
    context->physical_device = info.physical_device;
    context->device = info.device;
    context->api_version = info.api_version;
    context->get_instance_proc_addr = info.get_instance_proc_addr;
    context->log = info.log;
    context->log_user = info.log_user;
    pthread_mutex_init(&context->lock, NULL);
    pthread_rwlock_init(&context->cache_lock, NULL);

    rhumb_result result = load_functions(context, &info);
    if (result == RHUMB_OK) {
        read_limits(context, &info, &clamp);
        result = check_floor(context);
    }
    if (result == RHUMB_OK) {
        result = create_pipeline_cache(context, info.pipeline_cache);
        if (result != RHUMB_OK)
            rhumb_fail(NULL, result, "create_context: vkCreatePipelineCache failed (%s)",
                       rhumb_result_name(result));
    }
    if (result != RHUMB_OK) {
        rhumb_destroy_context(context);
        return result;
    }
    *out = context;
    return RHUMB_OK;
}

void rhumb_destroy_context(rhumb_context *context)
{
    if (!context)
        return;
    if (context->owns_pipeline_cache)
        context->vk.DestroyPipelineCache(context->device, context->pipeline_cache, NULL);
    if (context->destroy_device)
        context->destroy_device(context->device_state);
    pthread_rwlock_destroy(&context->cache_lock);
    pthread_mutex_destroy(&context->lock);
    context->release(context->allocator_user, context);
}

rhumb_result rhumb_get_device_handles(const rhumb_context *context, rhumb_device_handles *handles)
{
    rhumb_device_handles full;
    rhumb_init_device_handles(&full);
    if (!context)
        return rhumb_fail(NULL, RHUMB_ERROR_ARGUMENT,
                          "get_device_handles: context: wanted one, found NULL");
    full.instance = context->instance;
    full.physical_device = context->physical_device;
    full.device = context->device;
    full.queue = context->queue;
    full.queue_family = context->queue_family;
    full.api_version = context->api_version;
    full.get_instance_proc_addr = context->get_instance_proc_addr;
    return rhumb_give(context, "get_device_handles", "rhumb_device_handles", handles,
                      RHUMB_TYPE_DEVICE_HANDLES, &full, sizeof full);
}

rhumb_result rhumb_get_limits(const rhumb_context *context, rhumb_limits *limits)
{
    if (!context)
        return rhumb_fail(NULL, RHUMB_ERROR_ARGUMENT,
                          "get_limits: context: wanted one, found NULL");
    return rhumb_give(context, "get_limits", "rhumb_limits", limits, RHUMB_TYPE_LIMITS,
                      &context->limits, sizeof context->limits);
}

/* ---- Cache blobs: a header that says which device and driver the bytes are of, and their hash.
 * Drivers check their own data too, but not all of them survive damaged bytes. */
struct cache_header {
    char magic[8];
    uint32_t vendor;
    uint32_t device;
    uint32_t driver_version;
    uint32_t padding;
    uint8_t uuid[VK_UUID_SIZE];
    uint64_t size;
    uint64_t hash;
};

static struct cache_header cache_header_of(const rhumb_context *context, const void *data,
                                           size_t size)
{
    struct cache_header header = {
        .magic = {'r', 'h', 'u', 'm', 'b', 'p', 'c', '1'},
        .vendor = context->properties.vendorID,
        .device = context->properties.deviceID,
        .driver_version = context->properties.driverVersion,
        .size = size,
        .hash = XXH3_64bits(data, size),
    };
    memcpy(header.uuid, context->properties.pipelineCacheUUID, sizeof header.uuid);
    return header;
}

/* The cache may grow between two calls, but nothing may be merged into it during one. A cache that
 * outgrew *size gives what fits, which Vulkan makes usable. */
static rhumb_result read_cache(rhumb_context *context, size_t *size, void *data)
{
    pthread_rwlock_rdlock(&context->cache_lock);
    VkResult result =
        context->vk.GetPipelineCacheData(context->device, context->pipeline_cache, size, data);
    pthread_rwlock_unlock(&context->cache_lock);
    if (result != VK_SUCCESS && result != VK_INCOMPLETE)
        return rhumb_fail_vk(context, result, "export_cache: vkGetPipelineCacheData");
    return RHUMB_OK;
}

rhumb_result rhumb_export_cache(rhumb_context *context, size_t *size, void *data)
{
    size_t inner = 0;
    if (!context || !size)
        return rhumb_fail(context, RHUMB_ERROR_ARGUMENT,
                          "export_cache: wanted a context and a size, found NULL");
    RHUMB_TRY(rhumb_check_lost(context));
    RHUMB_TRY(read_cache(context, &inner, NULL));
    if (!data) {
        *size = sizeof(struct cache_header) + inner;
        return RHUMB_OK;
    }
    if (*size < sizeof(struct cache_header) + inner)
        return rhumb_fail(context, RHUMB_ERROR_ARGUMENT,
                          "export_cache: size: wanted at least %zu, found %zu",
                          sizeof(struct cache_header) + inner, *size);
    char *bytes = data;
    inner = *size - sizeof(struct cache_header);
    RHUMB_TRY(read_cache(context, &inner, bytes + sizeof(struct cache_header)));
    struct cache_header header = cache_header_of(context, bytes + sizeof header, inner);
    memcpy(bytes, &header, sizeof header);
    *size = sizeof header + inner;
    return RHUMB_OK;
}

static bool cache_matches(const rhumb_context *context, const void *data, size_t size)
{
    struct cache_header header;
    if (size < sizeof header)
        return false;
    memcpy(&header, data, sizeof header);
    if (header.size != size - sizeof header)
        return false;
    struct cache_header wanted =
        cache_header_of(context, (const char *)data + sizeof header, (size_t)header.size);
    return !memcmp(&header, &wanted, sizeof header);
}

rhumb_result rhumb_import_cache(rhumb_context *context, const void *data, size_t size,
                                uint32_t *used)
{
    if (used)
        *used = 0;
    if (!context || (!data && size))
        return rhumb_fail(context, RHUMB_ERROR_ARGUMENT,
                          "import_cache: wanted a context and data, found NULL");
    RHUMB_TRY(rhumb_check_lost(context));
    if (!data || !cache_matches(context, data, size)) {
        rhumb_log(context, RHUMB_LOG_INFO,
                  "import_cache: %zu bytes are not of this device and driver: not used", size);
        return RHUMB_OK;
    }
    const VkPipelineCacheCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_PIPELINE_CACHE_CREATE_INFO,
        .initialDataSize = size - sizeof(struct cache_header),
        .pInitialData = (const char *)data + sizeof(struct cache_header),
    };
    VkPipelineCache other = VK_NULL_HANDLE;
    VkResult result = context->vk.CreatePipelineCache(context->device, &info, NULL, &other);
    if (result != VK_SUCCESS)
        return rhumb_fail_vk(context, result, "import_cache: vkCreatePipelineCache");
    pthread_rwlock_wrlock(&context->cache_lock);
    result = context->vk.MergePipelineCaches(context->device, context->pipeline_cache, 1, &other);
    pthread_rwlock_unlock(&context->cache_lock);
    context->vk.DestroyPipelineCache(context->device, other, NULL);
    if (result != VK_SUCCESS)
        return rhumb_fail_vk(context, result, "import_cache: vkMergePipelineCaches");
    if (used)
        *used = 1;
    return RHUMB_OK;
}
