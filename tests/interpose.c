#include "interpose.h"
#include "interpose_late.h"
#include "interpose_state.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_VIOLATIONS 64
/* What a failing create call leaves behind: its output is undefined, so whoever uses it must
 * show. */
#define GARBAGE_HANDLE UINT64_C(0xbadbadbadbad)

/* Every entry point that the table replaces. */
#define FUNCTIONS(X)                                                                               \
    X(CreateInstance) X(DestroyInstance) X(GetPhysicalDeviceProperties)                            \
    X(GetPhysicalDeviceProperties2) X(GetPhysicalDeviceFeatures) X(GetPhysicalDeviceFeatures2)     \
    X(EnumerateDeviceExtensionProperties) X(CreateDevice) X(DestroyDevice) X(GetDeviceProcAddr)    \
    X(CreateShaderModule) X(DestroyShaderModule) X(CreateDescriptorSetLayout)                      \
    X(DestroyDescriptorSetLayout) X(CreatePipelineLayout) X(DestroyPipelineLayout)                 \
    X(CreateDescriptorPool) X(DestroyDescriptorPool) X(ResetDescriptorPool)                        \
    X(AllocateDescriptorSets) X(FreeDescriptorSets) X(UpdateDescriptorSets)                        \
    X(UpdateDescriptorSetWithTemplate)                                                             \
    X(CreatePipelineCache) X(DestroyPipelineCache) X(GetPipelineCacheData) X(MergePipelineCaches)  \
    X(CreateComputePipelines) X(DestroyPipeline) X(CreateBuffer) X(DestroyBuffer)                  \
    X(AllocateMemory) X(FreeMemory) X(BindBufferMemory) X(MapMemory)                               \
    X(CreateCommandPool) X(DestroyCommandPool)                                                     \
    X(ResetCommandPool) X(AllocateCommandBuffers) X(FreeCommandBuffers) X(BeginCommandBuffer)      \
    X(EndCommandBuffer) X(CreateFence) X(DestroyFence) X(CreateQueryPool) X(DestroyQueryPool)      \
    X(QueueSubmit) X(QueueWaitIdle) X(DeviceWaitIdle) X(WaitForFences) X(CmdBindPipeline)          \
    X(CmdBindDescriptorSets) X(CmdPushConstants) X(CmdDispatch) X(CmdDispatchIndirect)             \
    X(CmdPipelineBarrier) X(CmdCopyBuffer) X(CmdFillBuffer) X(CmdUpdateBuffer)                     \
    X(CmdResetQueryPool)                                                                           \
    X(CmdWriteTimestamp)

/* Extension functions are there only where the driver or a layer has them. */
#define OPTIONAL_FUNCTIONS(X) X(SetDebugUtilsObjectNameEXT)

static struct {
    PFN_vkGetInstanceProcAddr get;
    interpose_mode mode;
    bool loaded;
#define DECLARE(f) PFN_vk##f f;
    FUNCTIONS(DECLARE)
    OPTIONAL_FUNCTIONS(DECLARE)
#undef DECLARE
} real;

static struct {
    atomic_uint_fast64_t calls, commands, dispatches, work_groups, most_work_groups, barriers,
        push_constants, set_binds, pipeline_binds, submits, waits, descriptor_writes;
} counts;

static struct {
    pthread_mutex_t lock;
    char function[64];
    uint32_t nth;
    uint32_t seen;
    VkResult result;
    uint32_t violations;
    char violation[MAX_VIOLATIONS][192];
    spirv_facts newest; /* pipeline */
} watch = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* Handles are pointers or integers, by platform. */
#define HANDLE(h) ((uint64_t)(h))
#define GARBAGE(type) ((type)GARBAGE_HANDLE)

void interpose_note(const char *format, ...)
{
    va_list args;
    pthread_mutex_lock(&watch.lock);
    if (watch.violations < MAX_VIOLATIONS) {
        va_start(args, format);
        vsnprintf(watch.violation[watch.violations], sizeof watch.violation[0], format, args);
        va_end(args);
    }
    watch.violations++;
    pthread_mutex_unlock(&watch.lock);
}

bool interpose_is_floor(void)
{
    return real.mode == INTERPOSE_FLOOR;
}

static void load(VkInstance instance)
{
    if (real.loaded || instance == VK_NULL_HANDLE) {
        return;
    }
    real.loaded = true;
#define LOAD(f) real.f = (PFN_vk##f)real.get(instance, "vk" #f);
    FUNCTIONS(LOAD)
    OPTIONAL_FUNCTIONS(LOAD)
#undef LOAD
}

/* One call of a fallible function; true: it is the one that fails. */
static bool fails(const char *function, VkResult *result)
{
    bool hit = false;
    atomic_fetch_add(&counts.calls, 1);
    pthread_mutex_lock(&watch.lock);
    if (watch.nth != 0 &&
        (strcmp(watch.function, "*") == 0 || strcmp(watch.function, function) == 0)) {
        watch.seen++;
        hit = watch.seen == watch.nth;
        *result = watch.result;
    }
    pthread_mutex_unlock(&watch.lock);
    return hit;
}

static void born(interpose_object type, uint64_t handle, uint64_t parent)
{
    object_entry entry = {.type = type, .handle = handle, .parent = parent};
    objects_add(&entry);
}

/* False: not ours, so the call goes no further. */
static bool dies(interpose_object type, uint64_t handle)
{
    atomic_fetch_add(&counts.calls, 1);
    if (handle == 0) {
        return false;
    }
    if (!objects_remove(type, handle)) {
        interpose_note("%s 0x%llx is destroyed, which was not created through this table",
                       interpose_object_name(type), (unsigned long long)handle);
        return false;
    }
    return true;
}

/* ---- instance and device ---- */

static VKAPI_ATTR VkResult VKAPI_CALL wrap_CreateInstance(const VkInstanceCreateInfo *info,
                                                          const VkAllocationCallbacks *allocator,
                                                          VkInstance *instance)
{
    VkResult result;
    PFN_vkCreateInstance create =
        (PFN_vkCreateInstance)real.get(VK_NULL_HANDLE, "vkCreateInstance");
    if (fails("vkCreateInstance", &result)) {
        return result;
    }
    result = create(info, allocator, instance);
    if (result == VK_SUCCESS) {
        load(*instance);
        born(INTERPOSE_INSTANCE, HANDLE(*instance), 0);
    }
    return result;
}

static VKAPI_ATTR void VKAPI_CALL wrap_DestroyInstance(VkInstance instance,
                                                       const VkAllocationCallbacks *allocator)
{
    if (dies(INTERPOSE_INSTANCE, HANDLE(instance))) {
        real.DestroyInstance(instance, allocator);
    }
}

static VKAPI_ATTR void VKAPI_CALL wrap_GetPhysicalDeviceProperties(
    VkPhysicalDevice device, VkPhysicalDeviceProperties *properties)
{
    real.GetPhysicalDeviceProperties(device, properties);
    if (interpose_is_floor()) {
        interpose_floor_properties(properties);
    }
}

static VKAPI_ATTR void VKAPI_CALL wrap_GetPhysicalDeviceProperties2(
    VkPhysicalDevice device, VkPhysicalDeviceProperties2 *properties)
{
    real.GetPhysicalDeviceProperties2(device, properties);
    if (interpose_is_floor()) {
        interpose_floor_properties2(properties);
    }
}

static VKAPI_ATTR void VKAPI_CALL wrap_GetPhysicalDeviceFeatures(VkPhysicalDevice device,
                                                                 VkPhysicalDeviceFeatures *features)
{
    real.GetPhysicalDeviceFeatures(device, features);
    if (interpose_is_floor()) {
        interpose_floor_features(features);
    }
}

static VKAPI_ATTR void VKAPI_CALL wrap_GetPhysicalDeviceFeatures2(
    VkPhysicalDevice device, VkPhysicalDeviceFeatures2 *features)
{
    real.GetPhysicalDeviceFeatures2(device, features);
    if (interpose_is_floor()) {
        interpose_floor_features2(features);
    }
}

static VKAPI_ATTR VkResult VKAPI_CALL wrap_EnumerateDeviceExtensionProperties(
    VkPhysicalDevice device, const char *layer, uint32_t *count, VkExtensionProperties *properties)
{
    if (interpose_is_floor() && layer == NULL) {
        *count = 0;
        return VK_SUCCESS;
    }
    return real.EnumerateDeviceExtensionProperties(device, layer, count, properties);
}

static VKAPI_ATTR VkResult VKAPI_CALL wrap_CreateDevice(VkPhysicalDevice physical,
                                                        const VkDeviceCreateInfo *info,
                                                        const VkAllocationCallbacks *allocator,
                                                        VkDevice *device)
{
    VkResult result;
    if (fails("vkCreateDevice", &result)) {
        *device = NULL;
        return result;
    }
    if (interpose_is_floor()) {
        interpose_check_device(info);
    }
    result = real.CreateDevice(physical, info, allocator, device);
    if (result == VK_SUCCESS) {
        born(INTERPOSE_DEVICE, HANDLE(*device), 0);
    }
    return result;
}

static VKAPI_ATTR void VKAPI_CALL wrap_DestroyDevice(VkDevice device,
                                                     const VkAllocationCallbacks *allocator)
{
    if (dies(INTERPOSE_DEVICE, HANDLE(device))) {
        real.DestroyDevice(device, allocator);
    }
}

/* ---- objects that are only counted ---- */

#define WRAP_OBJECT(Name, info_type, handle_type, object)                                          \
    static VKAPI_ATTR VkResult VKAPI_CALL wrap_Create##Name(                                       \
        VkDevice device, const info_type *info, const VkAllocationCallbacks *allocator,            \
        handle_type *handle)                                                                       \
    {                                                                                              \
        VkResult result;                                                                           \
        if (fails("vkCreate" #Name, &result)) {                                                    \
            *handle = GARBAGE(handle_type);                                                        \
            return result;                                                                         \
        }                                                                                          \
        result = real.Create##Name(device, info, allocator, handle);                               \
        if (result == VK_SUCCESS) {                                                                \
            born(object, HANDLE(*handle), 0);                                                      \
        }                                                                                          \
        return result;                                                                             \
    }                                                                                              \
    WRAP_DESTROY(Destroy##Name, handle_type, object)

#define WRAP_DESTROY(Name, handle_type, object)                                                    \
    static VKAPI_ATTR void VKAPI_CALL wrap_##Name(VkDevice device, handle_type handle,             \
                                                  const VkAllocationCallbacks *allocator)          \
    {                                                                                              \
        if (dies(object, HANDLE(handle))) {                                                        \
            real.Name(device, handle, allocator);                                                  \
        }                                                                                          \
    }

WRAP_OBJECT(PipelineCache, VkPipelineCacheCreateInfo, VkPipelineCache, INTERPOSE_PIPELINE_CACHE)
WRAP_OBJECT(Buffer, VkBufferCreateInfo, VkBuffer, INTERPOSE_BUFFER)
WRAP_OBJECT(CommandPool, VkCommandPoolCreateInfo, VkCommandPool, INTERPOSE_COMMAND_POOL)
WRAP_OBJECT(Fence, VkFenceCreateInfo, VkFence, INTERPOSE_FENCE)
WRAP_OBJECT(QueryPool, VkQueryPoolCreateInfo, VkQueryPool, INTERPOSE_QUERY_POOL)
WRAP_DESTROY(DestroyShaderModule, VkShaderModule, INTERPOSE_SHADER_MODULE)
WRAP_DESTROY(DestroyDescriptorSetLayout, VkDescriptorSetLayout, INTERPOSE_SET_LAYOUT)
WRAP_DESTROY(DestroyPipelineLayout, VkPipelineLayout, INTERPOSE_PIPELINE_LAYOUT)
WRAP_DESTROY(DestroyDescriptorPool, VkDescriptorPool, INTERPOSE_DESCRIPTOR_POOL)
WRAP_DESTROY(FreeMemory, VkDeviceMemory, INTERPOSE_MEMORY)

static VKAPI_ATTR VkResult VKAPI_CALL wrap_AllocateMemory(VkDevice device,
                                                          const VkMemoryAllocateInfo *info,
                                                          const VkAllocationCallbacks *allocator,
                                                          VkDeviceMemory *memory)
{
    VkResult result;
    if (fails("vkAllocateMemory", &result)) {
        *memory = GARBAGE(VkDeviceMemory);
        return result;
    }
    result = real.AllocateMemory(device, info, allocator, memory);
    if (result == VK_SUCCESS) {
        born(INTERPOSE_MEMORY, HANDLE(*memory), 0);
    }
    return result;
}

static VKAPI_ATTR VkResult VKAPI_CALL wrap_BindBufferMemory(VkDevice device, VkBuffer buffer,
                                                            VkDeviceMemory memory,
                                                            VkDeviceSize offset)
{
    VkResult result;
    return fails("vkBindBufferMemory", &result) ? result
                                                : real.BindBufferMemory(device, buffer, memory,
                                                                        offset);
}

static VKAPI_ATTR VkResult VKAPI_CALL wrap_MapMemory(VkDevice device, VkDeviceMemory memory,
                                                     VkDeviceSize offset, VkDeviceSize size,
                                                     VkMemoryMapFlags flags, void **data)
{
    VkResult result;
    return fails("vkMapMemory", &result) ? result
                                         : real.MapMemory(device, memory, offset, size, flags,
                                                          data);
}

/* ---- shaders, layouts, pipelines ---- */

void *interpose_duplicate(const void *data, size_t bytes)
{
    void *copy = malloc(bytes + 1);
    if (copy == NULL) {
        abort();
    }
    if (bytes != 0) {
        memcpy(copy, data, bytes);
    }
    return copy;
}

static VKAPI_ATTR VkResult VKAPI_CALL wrap_CreateShaderModule(
    VkDevice device, const VkShaderModuleCreateInfo *info, const VkAllocationCallbacks *allocator,
    VkShaderModule *module)
{
    VkResult result;
    if (fails("vkCreateShaderModule", &result)) {
        *module = GARBAGE(VkShaderModule);
        return result;
    }
    result = real.CreateShaderModule(device, info, allocator, module);
    if (result == VK_SUCCESS) {
        object_entry entry = {.type = INTERPOSE_SHADER_MODULE, .handle = HANDLE(*module)};
        entry.payload = interpose_duplicate(info->pCode, info->codeSize);
        entry.payload_count = info->codeSize / 4;
        objects_add(&entry);
    }
    return result;
}

static VKAPI_ATTR VkResult VKAPI_CALL wrap_CreateDescriptorSetLayout(
    VkDevice device, const VkDescriptorSetLayoutCreateInfo *info,
    const VkAllocationCallbacks *allocator, VkDescriptorSetLayout *layout)
{
    VkResult result;
    if (fails("vkCreateDescriptorSetLayout", &result)) {
        *layout = GARBAGE(VkDescriptorSetLayout);
        return result;
    }
    if (interpose_is_floor()) {
        interpose_check_set_layout(info);
    }
    result = real.CreateDescriptorSetLayout(device, info, allocator, layout);
    if (result == VK_SUCCESS) {
        object_entry entry = {.type = INTERPOSE_SET_LAYOUT, .handle = HANDLE(*layout)};
        entry.payload = interpose_duplicate(info->pBindings, info->bindingCount * sizeof *info->pBindings);
        entry.payload_count = info->bindingCount;
        for (uint32_t i = 0; i < info->bindingCount; i++) {
            const VkDescriptorSetLayoutBinding *binding = &info->pBindings[i];
            if (binding->descriptorType < OBJECTS_POOL_TYPES) {
                entry.descriptors[binding->descriptorType] += binding->descriptorCount;
            }
        }
        objects_add(&entry);
    }
    return result;
}

static VKAPI_ATTR VkResult VKAPI_CALL wrap_CreatePipelineLayout(
    VkDevice device, const VkPipelineLayoutCreateInfo *info, const VkAllocationCallbacks *allocator,
    VkPipelineLayout *layout)
{
    VkResult result;
    object_entry set = {0};
    uint32_t storage = 0;
    object_entry entry = {.type = INTERPOSE_PIPELINE_LAYOUT};
    if (fails("vkCreatePipelineLayout", &result)) {
        *layout = GARBAGE(VkPipelineLayout);
        return result;
    }
    for (uint32_t i = 0; i < info->setLayoutCount; i++) {
        if (!objects_find(INTERPOSE_SET_LAYOUT, HANDLE(info->pSetLayouts[i]), &set)) {
            interpose_note("pipeline layout of a set layout that is not alive");
            continue;
        }
        storage += set.descriptors[VK_DESCRIPTOR_TYPE_STORAGE_BUFFER] +
                   set.descriptors[VK_DESCRIPTOR_TYPE_STORAGE_BUFFER_DYNAMIC];
        if (i == 0) {
            entry.payload = set.payload;
            entry.payload_count = set.payload_count;
        } else {
            free(set.payload);
        }
    }
    if (interpose_is_floor()) {
        interpose_check_pipeline_layout(info, storage);
    }
    result = real.CreatePipelineLayout(device, info, allocator, layout);
    if (result == VK_SUCCESS) {
        entry.handle = HANDLE(*layout);
        objects_add(&entry);
    } else {
        free(entry.payload);
    }
    return result;
}

static void check_pipeline(const VkComputePipelineCreateInfo *info)
{
    object_entry module = {0};
    object_entry layout = {0};
    if (!objects_find(INTERPOSE_SHADER_MODULE, HANDLE(info->stage.module), &module)) {
        interpose_note("pipeline of a shader module that is not alive");
        return;
    }
    if (objects_find(INTERPOSE_PIPELINE_LAYOUT, HANDLE(info->layout), &layout)) {
        spirv_facts facts;
        interpose_check_pipeline(info, module.payload, module.payload_count, layout.payload,
                                 (uint32_t)layout.payload_count, &facts);
        pthread_mutex_lock(&watch.lock);
        watch.newest = facts;
        pthread_mutex_unlock(&watch.lock);
        late_look_at(info, &module);
    } else {
        interpose_note("pipeline of a pipeline layout that is not alive");
    }
    free(module.payload);
    free(layout.payload);
}

static late_driver driver(void)
{
    return (late_driver){real.CreateShaderModule, real.DestroyShaderModule,
                         real.CreateComputePipelines, real.DestroyPipeline};
}

static VKAPI_ATTR VkResult VKAPI_CALL wrap_CreateComputePipelines(
    VkDevice device, VkPipelineCache cache, uint32_t count,
    const VkComputePipelineCreateInfo *infos, const VkAllocationCallbacks *allocator,
    VkPipeline *pipelines)
{
    VkResult result;
    if (fails("vkCreateComputePipelines", &result)) {
        for (uint32_t i = 0; i < count; i++) {
            pipelines[i] = VK_NULL_HANDLE;
        }
        return result;
    }
    for (uint32_t i = 0; i < count; i++) {
        check_pipeline(&infos[i]);
    }
    if (late_wanted()) {
        for (uint32_t i = 0; i < count; i++) {
            pipelines[i] = late_create(device, cache, &infos[i]);
        }
        result = VK_SUCCESS;
    } else {
        result = real.CreateComputePipelines(device, cache, count, infos, allocator, pipelines);
    }
    for (uint32_t i = 0; i < count; i++) {
        if (pipelines[i] != VK_NULL_HANDLE) {
            born(INTERPOSE_PIPELINE, HANDLE(pipelines[i]), 0);
        }
    }
    return result;
}

static VKAPI_ATTR VkResult VKAPI_CALL wrap_SetDebugUtilsObjectNameEXT(
    VkDevice device, const VkDebugUtilsObjectNameInfoEXT *info)
{
    atomic_fetch_add(&counts.calls, 1);
    if (info->objectType == VK_OBJECT_TYPE_PIPELINE && late_has(info->objectHandle)) {
        return VK_SUCCESS;
    }
    return real.SetDebugUtilsObjectNameEXT(device, info);
}

static VKAPI_ATTR void VKAPI_CALL wrap_DestroyPipeline(VkDevice device, VkPipeline pipeline,
                                                       const VkAllocationCallbacks *allocator)
{
    if (!dies(INTERPOSE_PIPELINE, HANDLE(pipeline))) {
        return;
    }
    if (late_has(HANDLE(pipeline))) {
        const late_driver d = driver();
        late_destroy(HANDLE(pipeline), &d);
    } else {
        real.DestroyPipeline(device, pipeline, allocator);
    }
}

static VKAPI_ATTR VkResult VKAPI_CALL wrap_GetPipelineCacheData(VkDevice device,
                                                                VkPipelineCache cache, size_t *size,
                                                                void *data)
{
    VkResult result;
    return fails("vkGetPipelineCacheData", &result) ? result
                                                    : real.GetPipelineCacheData(device, cache, size,
                                                                                data);
}

static VKAPI_ATTR VkResult VKAPI_CALL wrap_MergePipelineCaches(VkDevice device,
                                                               VkPipelineCache into, uint32_t count,
                                                               const VkPipelineCache *caches)
{
    VkResult result;
    return fails("vkMergePipelineCaches", &result) ? result
                                                   : real.MergePipelineCaches(device, into, count,
                                                                              caches);
}

/* ---- descriptors ---- */

static VKAPI_ATTR VkResult VKAPI_CALL wrap_CreateDescriptorPool(
    VkDevice device, const VkDescriptorPoolCreateInfo *info, const VkAllocationCallbacks *allocator,
    VkDescriptorPool *pool)
{
    VkResult result;
    if (fails("vkCreateDescriptorPool", &result)) {
        *pool = GARBAGE(VkDescriptorPool);
        return result;
    }
    result = real.CreateDescriptorPool(device, info, allocator, pool);
    if (result == VK_SUCCESS) {
        object_entry entry = {.type = INTERPOSE_DESCRIPTOR_POOL, .handle = HANDLE(*pool)};
        entry.sets = info->maxSets;
        for (uint32_t i = 0; i < info->poolSizeCount; i++) {
            if (info->pPoolSizes[i].type < OBJECTS_POOL_TYPES) {
                entry.descriptors[info->pPoolSizes[i].type] += info->pPoolSizes[i].descriptorCount;
            }
        }
        objects_add(&entry);
    }
    return result;
}

static VKAPI_ATTR VkResult VKAPI_CALL wrap_ResetDescriptorPool(VkDevice device,
                                                               VkDescriptorPool pool,
                                                               VkDescriptorPoolResetFlags flags)
{
    interpose_note("vkResetDescriptorPool: pools have exact sizes and live as long as their sets");
    return real.ResetDescriptorPool(device, pool, flags);
}

static bool take_sets(const VkDescriptorSetAllocateInfo *info)
{
    for (uint32_t i = 0; i < info->descriptorSetCount; i++) {
        object_entry layout = {0};
        if (!objects_find(INTERPOSE_SET_LAYOUT, HANDLE(info->pSetLayouts[i]), &layout)) {
            interpose_note("descriptor set of a layout that is not alive");
            return true;
        }
        free(layout.payload);
        if (!objects_take(HANDLE(info->descriptorPool), layout.descriptors)) {
            return false;
        }
    }
    return true;
}

static VKAPI_ATTR VkResult VKAPI_CALL wrap_AllocateDescriptorSets(
    VkDevice device, const VkDescriptorSetAllocateInfo *info, VkDescriptorSet *sets)
{
    VkResult result = VK_ERROR_OUT_OF_POOL_MEMORY;
    if (fails("vkAllocateDescriptorSets", &result) || !take_sets(info)) {
        for (uint32_t i = 0; i < info->descriptorSetCount; i++) {
            sets[i] = VK_NULL_HANDLE;
        }
        return result;
    }
    result = real.AllocateDescriptorSets(device, info, sets);
    for (uint32_t i = 0; result == VK_SUCCESS && i < info->descriptorSetCount; i++) {
        born(INTERPOSE_DESCRIPTOR_SET, HANDLE(sets[i]), HANDLE(info->descriptorPool));
    }
    return result;
}

static VKAPI_ATTR VkResult VKAPI_CALL wrap_FreeDescriptorSets(VkDevice device,
                                                              VkDescriptorPool pool, uint32_t count,
                                                              const VkDescriptorSet *sets)
{
    for (uint32_t i = 0; i < count; i++) {
        (void)dies(INTERPOSE_DESCRIPTOR_SET, HANDLE(sets[i]));
    }
    return real.FreeDescriptorSets(device, pool, count, sets);
}

static VKAPI_ATTR void VKAPI_CALL wrap_UpdateDescriptorSets(VkDevice device, uint32_t write_count,
                                                            const VkWriteDescriptorSet *writes,
                                                            uint32_t copy_count,
                                                            const VkCopyDescriptorSet *copies)
{
    atomic_fetch_add(&counts.calls, 1);
    atomic_fetch_add(&counts.descriptor_writes, write_count);
    if (interpose_is_floor()) {
        interpose_check_writes(write_count, writes);
    }
    real.UpdateDescriptorSets(device, write_count, writes, copy_count, copies);
}

static VKAPI_ATTR void VKAPI_CALL wrap_UpdateDescriptorSetWithTemplate(
    VkDevice device, VkDescriptorSet set, VkDescriptorUpdateTemplate update, const void *data)
{
    interpose_note(
        "vkUpdateDescriptorSetWithTemplate: offsets and ranges are not checked on this path");
    real.UpdateDescriptorSetWithTemplate(device, set, update, data);
}

/* ---- command buffers and queues ---- */

static VKAPI_ATTR VkResult VKAPI_CALL wrap_ResetCommandPool(VkDevice device, VkCommandPool pool,
                                                            VkCommandPoolResetFlags flags)
{
    VkResult result;
    return fails("vkResetCommandPool", &result) ? result
                                                : real.ResetCommandPool(device, pool, flags);
}

static VKAPI_ATTR VkResult VKAPI_CALL wrap_AllocateCommandBuffers(
    VkDevice device, const VkCommandBufferAllocateInfo *info, VkCommandBuffer *buffers)
{
    VkResult result;
    if (fails("vkAllocateCommandBuffers", &result)) {
        for (uint32_t i = 0; i < info->commandBufferCount; i++) {
            buffers[i] = NULL;
        }
        return result;
    }
    result = real.AllocateCommandBuffers(device, info, buffers);
    for (uint32_t i = 0; result == VK_SUCCESS && i < info->commandBufferCount; i++) {
        born(INTERPOSE_COMMAND_BUFFER, HANDLE(buffers[i]), HANDLE(info->commandPool));
    }
    return result;
}

static VKAPI_ATTR void VKAPI_CALL wrap_FreeCommandBuffers(VkDevice device, VkCommandPool pool,
                                                          uint32_t count,
                                                          const VkCommandBuffer *buffers)
{
    for (uint32_t i = 0; i < count; i++) {
        (void)dies(INTERPOSE_COMMAND_BUFFER, HANDLE(buffers[i]));
    }
    real.FreeCommandBuffers(device, pool, count, buffers);
}

static VKAPI_ATTR VkResult VKAPI_CALL wrap_BeginCommandBuffer(VkCommandBuffer commands,
                                                              const VkCommandBufferBeginInfo *info)
{
    VkResult result;
    return fails("vkBeginCommandBuffer", &result) ? result
                                                  : real.BeginCommandBuffer(commands, info);
}

static VKAPI_ATTR VkResult VKAPI_CALL wrap_EndCommandBuffer(VkCommandBuffer commands)
{
    VkResult result;
    return fails("vkEndCommandBuffer", &result) ? result : real.EndCommandBuffer(commands);
}

static VKAPI_ATTR VkResult VKAPI_CALL wrap_QueueSubmit(VkQueue queue, uint32_t count,
                                                       const VkSubmitInfo *submits, VkFence fence)
{
    VkResult result;
    atomic_fetch_add(&counts.submits, 1);
    return fails("vkQueueSubmit", &result) ? result
                                           : real.QueueSubmit(queue, count, submits, fence);
}

static VKAPI_ATTR VkResult VKAPI_CALL wrap_QueueWaitIdle(VkQueue queue)
{
    VkResult result;
    atomic_fetch_add(&counts.waits, 1);
    return fails("vkQueueWaitIdle", &result) ? result : real.QueueWaitIdle(queue);
}

static VKAPI_ATTR VkResult VKAPI_CALL wrap_DeviceWaitIdle(VkDevice device)
{
    VkResult result;
    atomic_fetch_add(&counts.waits, 1);
    return fails("vkDeviceWaitIdle", &result) ? result : real.DeviceWaitIdle(device);
}

static VKAPI_ATTR VkResult VKAPI_CALL wrap_WaitForFences(VkDevice device, uint32_t count,
                                                         const VkFence *fences, VkBool32 all,
                                                         uint64_t timeout)
{
    VkResult result;
    atomic_fetch_add(&counts.waits, 1);
    return fails("vkWaitForFences", &result) ? result
                                             : real.WaitForFences(device, count, fences, all,
                                                                  timeout);
}

static void command(atomic_uint_fast64_t *kind)
{
    atomic_fetch_add(&counts.calls, 1);
    atomic_fetch_add(&counts.commands, 1);
    if (kind != NULL) {
        atomic_fetch_add(kind, 1);
    }
}

static VKAPI_ATTR void VKAPI_CALL wrap_CmdBindPipeline(VkCommandBuffer commands,
                                                       VkPipelineBindPoint point,
                                                       VkPipeline pipeline)
{
    const late_driver d = driver();
    command(&counts.pipeline_binds);
    real.CmdBindPipeline(commands, point, late_bind(pipeline, &d));
}

static VKAPI_ATTR void VKAPI_CALL wrap_CmdBindDescriptorSets(VkCommandBuffer commands,
                                                             VkPipelineBindPoint point,
                                                             VkPipelineLayout layout,
                                                             uint32_t first, uint32_t count,
                                                             const VkDescriptorSet *sets,
                                                             uint32_t offset_count,
                                                             const uint32_t *offsets)
{
    command(&counts.set_binds);
    if (interpose_is_floor()) {
        interpose_check_dynamic_offsets(offset_count, offsets);
    }
    real.CmdBindDescriptorSets(commands, point, layout, first, count, sets, offset_count, offsets);
}

static VKAPI_ATTR void VKAPI_CALL wrap_CmdPushConstants(VkCommandBuffer commands,
                                                        VkPipelineLayout layout,
                                                        VkShaderStageFlags stages, uint32_t offset,
                                                        uint32_t size, const void *values)
{
    command(&counts.push_constants);
    if (interpose_is_floor()) {
        interpose_check_push(offset, size);
    }
    real.CmdPushConstants(commands, layout, stages, offset, size, values);
}

static VKAPI_ATTR void VKAPI_CALL wrap_CmdDispatch(VkCommandBuffer commands, uint32_t x, uint32_t y,
                                                   uint32_t z)
{
    const uint64_t groups = (uint64_t)x * y * z;
    command(&counts.dispatches);
    atomic_fetch_add(&counts.work_groups, groups);
    if (groups > atomic_load(&counts.most_work_groups)) { /* one thread records in such tests */
        atomic_store(&counts.most_work_groups, groups);
    }
    if (interpose_is_floor()) {
        interpose_check_dispatch(x, y, z);
    }
    real.CmdDispatch(commands, x, y, z);
}

static VKAPI_ATTR void VKAPI_CALL wrap_CmdDispatchIndirect(VkCommandBuffer commands,
                                                           VkBuffer buffer, VkDeviceSize offset)
{
    command(&counts.dispatches);
    real.CmdDispatchIndirect(commands, buffer, offset);
}

static VKAPI_ATTR void VKAPI_CALL wrap_CmdPipelineBarrier(
    VkCommandBuffer commands, VkPipelineStageFlags src, VkPipelineStageFlags dst,
    VkDependencyFlags flags, uint32_t memory_count, const VkMemoryBarrier *memory,
    uint32_t buffer_count, const VkBufferMemoryBarrier *buffers, uint32_t image_count,
    const VkImageMemoryBarrier *images)
{
    command(&counts.barriers);
    real.CmdPipelineBarrier(commands, src, dst, flags, memory_count, memory, buffer_count, buffers,
                            image_count, images);
}

static VKAPI_ATTR void VKAPI_CALL wrap_CmdCopyBuffer(VkCommandBuffer commands, VkBuffer from,
                                                     VkBuffer to, uint32_t count,
                                                     const VkBufferCopy *regions)
{
    command(NULL);
    real.CmdCopyBuffer(commands, from, to, count, regions);
}

static VKAPI_ATTR void VKAPI_CALL wrap_CmdFillBuffer(VkCommandBuffer commands, VkBuffer buffer,
                                                     VkDeviceSize offset, VkDeviceSize size,
                                                     uint32_t data)
{
    command(NULL);
    real.CmdFillBuffer(commands, buffer, offset, size, data);
}

static VKAPI_ATTR void VKAPI_CALL wrap_CmdUpdateBuffer(VkCommandBuffer commands, VkBuffer buffer,
                                                       VkDeviceSize offset, VkDeviceSize size,
                                                       const void *data)
{
    command(NULL);
    real.CmdUpdateBuffer(commands, buffer, offset, size, data);
}

static VKAPI_ATTR void VKAPI_CALL wrap_CmdResetQueryPool(VkCommandBuffer commands, VkQueryPool pool,
                                                         uint32_t first, uint32_t count)
{
    command(NULL);
    real.CmdResetQueryPool(commands, pool, first, count);
}

static VKAPI_ATTR void VKAPI_CALL wrap_CmdWriteTimestamp(VkCommandBuffer commands,
                                                         VkPipelineStageFlagBits stage,
                                                         VkQueryPool pool, uint32_t query)
{
    command(NULL);
    real.CmdWriteTimestamp(commands, stage, pool, query);
}

/* ---- the table ---- */

static VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL wrap_GetDeviceProcAddr(VkDevice device,
                                                                       const char *name);

static PFN_vkVoidFunction find(const char *name)
{
#define ENTRY(f) {"vk" #f, (PFN_vkVoidFunction)wrap_##f},
    static const struct {
        const char *name;
        PFN_vkVoidFunction function;
    } table[] = {FUNCTIONS(ENTRY)};
#undef ENTRY
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        if (strcmp(table[i].name, name) == 0) {
            return table[i].function;
        }
    }
    if (strcmp(name, "vkSetDebugUtilsObjectNameEXT") == 0 &&
        real.SetDebugUtilsObjectNameEXT != NULL) {
        return (PFN_vkVoidFunction)wrap_SetDebugUtilsObjectNameEXT;
    }
    if (strcmp(name, "vkGetPhysicalDeviceProperties2KHR") == 0) {
        return (PFN_vkVoidFunction)wrap_GetPhysicalDeviceProperties2;
    }
    if (strcmp(name, "vkGetPhysicalDeviceFeatures2KHR") == 0) {
        return (PFN_vkVoidFunction)wrap_GetPhysicalDeviceFeatures2;
    }
    return NULL;
}

static VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL wrap_GetDeviceProcAddr(VkDevice device,
                                                                       const char *name)
{
    PFN_vkVoidFunction found = find(name);
    return found != NULL ? found : real.GetDeviceProcAddr(device, name);
}

VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL interpose_get_instance_proc_addr(VkInstance instance,
                                                                          const char *name)
{
    PFN_vkVoidFunction found;
    if (strcmp(name, "vkGetInstanceProcAddr") == 0) {
        return (PFN_vkVoidFunction)interpose_get_instance_proc_addr;
    }
    load(instance);
    found = find(name);
    /* Without an instance only global commands exist. */
    if (found != NULL && (instance != VK_NULL_HANDLE || strcmp(name, "vkCreateInstance") == 0)) {
        return found;
    }
    return real.get(instance, name);
}

void interpose_start(PFN_vkGetInstanceProcAddr get, interpose_mode mode)
{
    objects_reset();
    memset(&real, 0, sizeof real);
    memset(&counts, 0, sizeof counts);
    real.get = get;
    real.mode = mode;
    watch.nth = 0;
    watch.seen = 0;
    watch.violations = 0;
    late_start();
}

interpose_counts interpose_read(void)
{
    interpose_counts c = {0};
    for (int i = 0; i < INTERPOSE_OBJECT_COUNT; i++) {
        c.created[i] = objects_created((interpose_object)i);
        c.destroyed[i] = objects_destroyed((interpose_object)i);
    }
    c.calls = atomic_load(&counts.calls);
    c.commands = atomic_load(&counts.commands);
    c.dispatches = atomic_load(&counts.dispatches);
    c.work_groups = atomic_load(&counts.work_groups);
    c.most_work_groups = atomic_load(&counts.most_work_groups);
    c.barriers = atomic_load(&counts.barriers);
    c.push_constants = atomic_load(&counts.push_constants);
    c.set_binds = atomic_load(&counts.set_binds);
    c.pipeline_binds = atomic_load(&counts.pipeline_binds);
    c.submits = atomic_load(&counts.submits);
    c.waits = atomic_load(&counts.waits);
    c.descriptor_writes = atomic_load(&counts.descriptor_writes);
    return c;
}

uint64_t interpose_live(interpose_object object)
{
    return objects_created(object) - objects_destroyed(object);
}

uint64_t interpose_live_total(void)
{
    uint64_t total = 0;
    for (int i = 0; i < INTERPOSE_OBJECT_COUNT; i++) {
        total += interpose_live((interpose_object)i);
    }
    return total;
}

const char *interpose_object_name(interpose_object object)
{
    static const char *const names[INTERPOSE_OBJECT_COUNT] = {
        "instance", "device", "shader module", "pipeline", "pipeline cache", "pipeline layout",
        "descriptor set layout", "descriptor pool", "descriptor set", "buffer", "memory",
        "command pool", "command buffer", "fence", "query pool"};
    return object < INTERPOSE_OBJECT_COUNT ? names[object] : "object";
}

void interpose_fail(const char *function, uint32_t nth, VkResult result)
{
    pthread_mutex_lock(&watch.lock);
    snprintf(watch.function, sizeof watch.function, "%s", function == NULL ? "" : function);
    watch.nth = nth;
    watch.seen = 0;
    watch.result = result;
    pthread_mutex_unlock(&watch.lock);
}

uint32_t interpose_fail_calls(void)
{
    uint32_t seen;
    pthread_mutex_lock(&watch.lock);
    seen = watch.seen;
    pthread_mutex_unlock(&watch.lock);
    return seen;
}

spirv_facts interpose_newest_pipeline(void)
{
    spirv_facts facts;
    pthread_mutex_lock(&watch.lock);
    facts = watch.newest;
    pthread_mutex_unlock(&watch.lock);
    return facts;
}

uint32_t interpose_violation_count(void)
{
    uint32_t count;
    pthread_mutex_lock(&watch.lock);
    count = watch.violations;
    pthread_mutex_unlock(&watch.lock);
    return count;
}

const char *interpose_violation(uint32_t index)
{
    return index < MAX_VIOLATIONS && index < watch.violations ? watch.violation[index] : "";
}
