#define _POSIX_C_SOURCE 200809L /* clock_gettime */

#include "gpu.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define WAIT_NS 600000000000ull

/* ----------------------------------------------------------------------------------------------
 * Errors
 */
rhumb_result gpu_fail(gpu *g, rhumb_result result, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(g->message, sizeof g->message, format, arguments);
    va_end(arguments);
    return result;
}

rhumb_result gpu_check(gpu *g, VkResult result, const char *call)
{
    switch (result) {
    case VK_SUCCESS:
        return RHUMB_OK;
    case VK_ERROR_OUT_OF_HOST_MEMORY:
        return gpu_fail(g, RHUMB_ERROR_HOST_MEMORY, "%s: out of host memory", call);
    case VK_ERROR_OUT_OF_DEVICE_MEMORY:
        return gpu_fail(g, RHUMB_ERROR_DEVICE_MEMORY, "%s: out of device memory", call);
    case VK_ERROR_DEVICE_LOST:
        return gpu_fail(g, RHUMB_ERROR_DEVICE_LOST, "%s: device lost", call);
    default:
        return gpu_fail(g, RHUMB_ERROR_VULKAN, "%s: VkResult %d", call, (int)result);
    }
}

static void log_line(void *user, rhumb_log_level level, const char *line)
{
    gpu *g = user;

    if (strncmp(line, "validation: ", 12) == 0 && atomic_fetch_add(&g->validation_count, 1) == 0)
        snprintf(g->validation_first, sizeof g->validation_first, "%s", line);
    if (g->log != NULL)
        g->log(g->log_user, level, line);
}

/* ----------------------------------------------------------------------------------------------
 * Device
 */
void gpu_init_options(gpu_options *options)
{
    memset(options, 0, sizeof *options);
    options->device_index = RHUMB_DEVICE_ANY;
}

const char *gpu_device_type_name(VkPhysicalDeviceType type)
{
    switch (type) {
    case VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU:
        return "discrete GPU";
    case VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU:
        return "integrated GPU";
    case VK_PHYSICAL_DEVICE_TYPE_VIRTUAL_GPU:
        return "virtual GPU";
    case VK_PHYSICAL_DEVICE_TYPE_CPU:
        return "CPU";
    default:
        return "other";
    }
}

static bool has_extension(gpu *g, const char *name)
{
    VkExtensionProperties *list = NULL;
    uint32_t count = 0;
    bool found = false;

    if (vkEnumerateDeviceExtensionProperties == NULL ||
        vkEnumerateDeviceExtensionProperties(g->handles.physical_device, NULL, &count, NULL) !=
            VK_SUCCESS)
        return false;
    list = calloc(count == 0 ? 1 : count, sizeof *list);
    if (list != NULL && vkEnumerateDeviceExtensionProperties(g->handles.physical_device, NULL,
                                                             &count, list) >= VK_SUCCESS) {
        for (uint32_t i = 0; i < count && !found; i++)
            found = strcmp(list[i].extensionName, name) == 0;
    }
    free(list);
    return found;
}

static void read_identity(gpu *g)
{
    VkPhysicalDeviceDriverProperties driver = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_DRIVER_PROPERTIES};
    VkPhysicalDeviceIDProperties id = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_ID_PROPERTIES};
    VkPhysicalDeviceProperties2 properties = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2,
        .pNext = &id,
    };

    vkGetPhysicalDeviceProperties(g->handles.physical_device, &g->properties);
    vkGetPhysicalDeviceMemoryProperties(g->handles.physical_device, &g->memory);
    if (vkGetPhysicalDeviceProperties2 == NULL)
        return;
    if (g->properties.apiVersion >= VK_API_VERSION_1_2 ||
        has_extension(g, VK_KHR_DRIVER_PROPERTIES_EXTENSION_NAME))
        id.pNext = &driver;
    vkGetPhysicalDeviceProperties2(g->handles.physical_device, &properties);
    memcpy(g->device_uuid, id.deviceUUID, sizeof g->device_uuid);
    snprintf(g->driver, sizeof g->driver, "%s", driver.driverName);
    snprintf(g->driver_info, sizeof g->driver_info, "%s", driver.driverInfo);
}

/* volk's loaders go through its globals; what is used afterwards is this gpu's own table. */
static rhumb_result load_functions(gpu *g)
{
    volkInitializeCustom(g->handles.get_instance_proc_addr);
    volkLoadInstanceOnly(g->handles.instance);
    if (vkGetDeviceProcAddr == NULL || vkGetPhysicalDeviceProperties == NULL ||
        vkGetPhysicalDeviceMemoryProperties == NULL ||
        vkGetPhysicalDeviceQueueFamilyProperties == NULL)
        return gpu_fail(g, RHUMB_ERROR_VULKAN, "gpu: the instance has no vkGetDeviceProcAddr");
    volkLoadDeviceTable(&g->vk, g->handles.device);
    if (g->vk.vkQueueSubmit == NULL || g->vk.vkCreateBuffer == NULL)
        return gpu_fail(g, RHUMB_ERROR_VULKAN,
                        "gpu: the device has no vkQueueSubmit or vkCreateBuffer");
    rhumb_limits limits;
    rhumb_init_limits(&limits);
    g->device_address = rhumb_get_limits(g->context, &limits) == RHUMB_OK &&
                        limits.device_address && g->vk.vkGetBufferDeviceAddressKHR != NULL;
    read_identity(g);
    return RHUMB_OK;
}

static rhumb_result read_queue_family(gpu *g)
{
    VkQueueFamilyProperties families[32];
    uint32_t count = 32;

    vkGetPhysicalDeviceQueueFamilyProperties(g->handles.physical_device, &count, families);
    if (g->handles.queue_family >= count)
        return gpu_fail(g, RHUMB_ERROR_ARGUMENT, "gpu: queue family %u, the device has %u",
                        g->handles.queue_family, count);
    g->queue_family = families[g->handles.queue_family];
    return RHUMB_OK;
}

static rhumb_result create_objects(gpu *g)
{
    const VkCommandPoolCreateInfo pool_info = {
        .sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO,
        .flags = VK_COMMAND_POOL_CREATE_RESET_COMMAND_BUFFER_BIT,
        .queueFamilyIndex = g->handles.queue_family,
    };
    const VkFenceCreateInfo fence_info = {.sType = VK_STRUCTURE_TYPE_FENCE_CREATE_INFO};
    const VkQueryPoolCreateInfo query_info = {
        .sType = VK_STRUCTURE_TYPE_QUERY_POOL_CREATE_INFO,
        .queryType = VK_QUERY_TYPE_TIMESTAMP,
        .queryCount = 2,
    };
    VkDevice device = g->handles.device;
    rhumb_result result;

    result = gpu_check(g, g->vk.vkCreateCommandPool(device, &pool_info, NULL, &g->command_pool),
                       "vkCreateCommandPool");
    if (result != RHUMB_OK) { /* a failed call may leave anything in its output */
        g->command_pool = VK_NULL_HANDLE;
        return result;
    }
    result = gpu_check(g, g->vk.vkCreateFence(device, &fence_info, NULL, &g->fence),
                       "vkCreateFence");
    if (result != RHUMB_OK)
        g->fence = VK_NULL_HANDLE;
    if (result != RHUMB_OK || g->queue_family.timestampValidBits == 0)
        return result;
    result = gpu_check(g, g->vk.vkCreateQueryPool(device, &query_info, NULL, &g->queries),
                       "vkCreateQueryPool");
    if (result != RHUMB_OK)
        g->queries = VK_NULL_HANDLE;
    return result;
}

/* Fills g from g->context and the queue in g->handles (VK_NULL_HANDLE: the context's). */
static rhumb_result build(gpu *g, VkQueue queue, uint32_t queue_family)
{
    rhumb_result result;

    rhumb_init_device_handles(&g->handles);
    result = rhumb_get_device_handles(g->context, &g->handles);
    if (result != RHUMB_OK)
        return gpu_fail(g, result, "%s", rhumb_last_message(g->context));
    if (queue != VK_NULL_HANDLE) {
        g->handles.queue = queue;
        g->handles.queue_family = queue_family;
    }
    if (g->handles.queue == VK_NULL_HANDLE)
        return gpu_fail(g, RHUMB_ERROR_ARGUMENT, "gpu: the context has no queue");
    result = load_functions(g);
    if (result == RHUMB_OK)
        result = read_queue_family(g);
    if (result == RHUMB_OK)
        result = create_objects(g);
    return result;
}

static gpu *allocate(char *error, size_t error_size)
{
    gpu *g = calloc(1, sizeof *g);

    if (g == NULL && error != NULL)
        snprintf(error, error_size, "gpu: no host memory");
    return g;
}

static rhumb_result finish_open(gpu *g, rhumb_result result, gpu **out, char *error,
                                size_t error_size)
{
    if (result == RHUMB_OK) {
        *out = g;
        return result;
    }
    if (error != NULL)
        snprintf(error, error_size, "%s", g->message);
    gpu_close(g);
    return result;
}

rhumb_result gpu_open(const gpu_options *options, gpu **out, char *error, size_t error_size)
{
    gpu_options defaults;
    rhumb_standalone_info info;
    rhumb_result result;
    gpu *g;

    *out = NULL;
    gpu_init_options(&defaults);
    if (options == NULL)
        options = &defaults;
    g = allocate(error, error_size);
    if (g == NULL)
        return RHUMB_ERROR_HOST_MEMORY;
    g->log = options->log;
    g->log_user = options->log_user;
    g->owns_context = true;
    rhumb_init_standalone_info(&info);
    info.device_index = options->device_index;
    info.device_name = options->device_name;
    info.validation = options->validation;
    info.get_instance_proc_addr = options->get_instance_proc_addr;
    info.clamp = options->clamp;
    info.allocator = options->allocator;
    info.log = log_line;
    info.log_user = g;
    result = rhumb_create_standalone(&info, &g->context);
    if (result != RHUMB_OK)
        gpu_fail(g, result, "%s", rhumb_last_message(NULL));
    else
        result = build(g, VK_NULL_HANDLE, 0);
    return finish_open(g, result, out, error, error_size);
}

rhumb_result gpu_adopt_queue(rhumb_context *context, VkQueue queue, uint32_t queue_family,
                             gpu **out, char *error, size_t error_size)
{
    gpu *g = allocate(error, error_size);

    *out = NULL;
    if (g == NULL)
        return RHUMB_ERROR_HOST_MEMORY;
    g->context = context;
    return finish_open(g, build(g, queue, queue_family), out, error, error_size);
}

rhumb_result gpu_adopt(rhumb_context *context, gpu **out, char *error, size_t error_size)
{
    return gpu_adopt_queue(context, VK_NULL_HANDLE, 0, out, error, error_size);
}

void gpu_close(gpu *g)
{
    if (g == NULL)
        return;
    if (g->command_pool != VK_NULL_HANDLE) {
        g->vk.vkQueueWaitIdle(g->handles.queue);
        g->vk.vkDestroyQueryPool(g->handles.device, g->queries, NULL);
        g->vk.vkDestroyFence(g->handles.device, g->fence, NULL);
        g->vk.vkDestroyCommandPool(g->handles.device, g->command_pool, NULL);
    }
    if (g->owns_context)
        rhumb_destroy_context(g->context);
    free(g);
}

/* ----------------------------------------------------------------------------------------------
 * Command buffers
 */
rhumb_result gpu_begin_commands(gpu *g, VkCommandBuffer *commands)
{
    const VkCommandBufferAllocateInfo info = {
        .sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO,
        .commandPool = g->command_pool,
        .level = VK_COMMAND_BUFFER_LEVEL_PRIMARY,
        .commandBufferCount = 1,
    };
    const VkCommandBufferBeginInfo begin = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO};
    rhumb_result result;

    *commands = VK_NULL_HANDLE;
    result = gpu_check(g, g->vk.vkAllocateCommandBuffers(g->handles.device, &info, commands),
                       "vkAllocateCommandBuffers");
    if (result != RHUMB_OK) {
        *commands = VK_NULL_HANDLE;
        return result;
    }
    result = gpu_check(g, g->vk.vkBeginCommandBuffer(*commands, &begin), "vkBeginCommandBuffer");
    if (result != RHUMB_OK) {
        gpu_free_commands(g, *commands);
        *commands = VK_NULL_HANDLE;
    }
    return result;
}

rhumb_result gpu_end_commands(gpu *g, VkCommandBuffer commands)
{
    return gpu_check(g, g->vk.vkEndCommandBuffer(commands), "vkEndCommandBuffer");
}

static double now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

rhumb_result gpu_submit_and_wait(gpu *g, VkCommandBuffer commands, double *host_ns)
{
    const VkSubmitInfo info = {
        .sType = VK_STRUCTURE_TYPE_SUBMIT_INFO,
        .commandBufferCount = 1,
        .pCommandBuffers = &commands,
    };
    const double begin = now_ns();
    rhumb_result result;

    result = gpu_check(g, g->vk.vkResetFences(g->handles.device, 1, &g->fence), "vkResetFences");
    if (result == RHUMB_OK)
        result = gpu_check(g, g->vk.vkQueueSubmit(g->handles.queue, 1, &info, g->fence),
                           "vkQueueSubmit");
    if (result == RHUMB_OK) {
        result = gpu_check(g,
                           g->vk.vkWaitForFences(g->handles.device, 1, &g->fence, VK_TRUE, WAIT_NS),
                           "vkWaitForFences");
        /* What was submitted may still run, and the caller frees what it uses. */
        if (result != RHUMB_OK)
            (void)g->vk.vkQueueWaitIdle(g->handles.queue);
    }
    if (host_ns != NULL)
        *host_ns = now_ns() - begin;
    return result;
}

void gpu_free_commands(gpu *g, VkCommandBuffer commands)
{
    if (commands != VK_NULL_HANDLE)
        g->vk.vkFreeCommandBuffers(g->handles.device, g->command_pool, 1, &commands);
}

void gpu_barrier(gpu *g, VkCommandBuffer commands, VkPipelineStageFlags src_stage,
                 VkAccessFlags src_access, VkPipelineStageFlags dst_stage, VkAccessFlags dst_access)
{
    const VkMemoryBarrier barrier = {
        .sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER,
        .srcAccessMask = src_access,
        .dstAccessMask = dst_access,
    };

    g->vk.vkCmdPipelineBarrier(commands, src_stage, dst_stage, 0, 1, &barrier, 0, NULL, 0, NULL);
}

void gpu_begin_timer(gpu *g, VkCommandBuffer commands)
{
    if (g->queries == VK_NULL_HANDLE)
        return;
    g->vk.vkCmdResetQueryPool(commands, g->queries, 0, 2);
    g->vk.vkCmdWriteTimestamp(commands, VK_PIPELINE_STAGE_TOP_OF_PIPE_BIT, g->queries, 0);
}

void gpu_end_timer(gpu *g, VkCommandBuffer commands)
{
    if (g->queries != VK_NULL_HANDLE)
        g->vk.vkCmdWriteTimestamp(commands, VK_PIPELINE_STAGE_BOTTOM_OF_PIPE_BIT, g->queries, 1);
}

rhumb_result gpu_read_timer(gpu *g, double host_ns, double *ns, bool *host_clock)
{
    uint64_t ticks[2] = {0, 0};
    rhumb_result result;

    *ns = host_ns;
    *host_clock = g->queries == VK_NULL_HANDLE;
    if (*host_clock)
        return RHUMB_OK;
    result = gpu_check(g,
                       g->vk.vkGetQueryPoolResults(
                           g->handles.device, g->queries, 0, 2, sizeof ticks, ticks,
                           sizeof ticks[0], VK_QUERY_RESULT_64_BIT | VK_QUERY_RESULT_WAIT_BIT),
                       "vkGetQueryPoolResults");
    if (result == RHUMB_OK)
        *ns = gpu_timestamp_ns(ticks[0], ticks[1], g->queue_family.timestampValidBits,
                               (double)g->properties.limits.timestampPeriod);
    return result;
}
