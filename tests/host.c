#include "host.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

static void check(VkResult result, const char *call)
{
    cr_assert_eq(result, VK_SUCCESS, "host: %s: VkResult %d", call, (int)result);
}

#define LOAD(h, name) PFN_##name own_##name = (PFN_##name)(h)->get((h)->instance, #name)

static VKAPI_ATTR VkBool32 VKAPI_CALL on_message(VkDebugUtilsMessageSeverityFlagBitsEXT severity,
                                                 VkDebugUtilsMessageTypeFlagsEXT types,
                                                 const VkDebugUtilsMessengerCallbackDataEXT *data,
                                                 void *user)
{
    host *h = user;
    (void)severity;
    (void)types;
    if (atomic_fetch_add(&h->messages, 1) == 0) {
        snprintf(h->first_message, sizeof h->first_message, "%s", data->pMessage);
    }
    return VK_FALSE;
}

static VkDebugUtilsMessengerCreateInfoEXT messenger_info(host *h)
{
    return (VkDebugUtilsMessengerCreateInfoEXT){
        .sType = VK_STRUCTURE_TYPE_DEBUG_UTILS_MESSENGER_CREATE_INFO_EXT,
        .messageSeverity =
            VK_DEBUG_UTILS_MESSAGE_SEVERITY_WARNING_BIT_EXT |
            VK_DEBUG_UTILS_MESSAGE_SEVERITY_ERROR_BIT_EXT,
        .messageType =
            VK_DEBUG_UTILS_MESSAGE_TYPE_VALIDATION_BIT_EXT |
            VK_DEBUG_UTILS_MESSAGE_TYPE_PERFORMANCE_BIT_EXT,
        .pfnUserCallback = on_message,
        .pUserData = h,
    };
}

static void open_instance(host *h, bool validation, const char *const *extensions,
                          uint32_t extension_count)
{
    static const char *const layers[] = {"VK_LAYER_KHRONOS_validation"};
    static const char *const own_extensions[] = {"VK_EXT_debug_utils",
                                                 "VK_EXT_validation_features"};
    static const VkValidationFeatureEnableEXT enables[] = {
        VK_VALIDATION_FEATURE_ENABLE_SYNCHRONIZATION_VALIDATION_EXT};
    VkDebugUtilsMessengerCreateInfoEXT messenger = messenger_info(h);
    const VkValidationFeaturesEXT features = {
        .sType = VK_STRUCTURE_TYPE_VALIDATION_FEATURES_EXT,
        .enabledValidationFeatureCount = 1,
        .pEnabledValidationFeatures = enables,
    };
    const VkApplicationInfo application = {
        .sType = VK_STRUCTURE_TYPE_APPLICATION_INFO,
        .pApplicationName = "host",
        .apiVersion = VK_API_VERSION_1_1,
    };
    const VkInstanceCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO,
        .pNext = validation ? &features : NULL,
        .pApplicationInfo = &application,
        .enabledLayerCount = validation ? 1 : 0,
        .ppEnabledLayerNames = layers,
        .enabledExtensionCount = validation ? 2 : extension_count,
        .ppEnabledExtensionNames = validation ? own_extensions : extensions,
    };
    PFN_vkCreateInstance create = (PFN_vkCreateInstance)h->get(VK_NULL_HANDLE, "vkCreateInstance");
    check(create(&info, NULL, &h->instance), "vkCreateInstance");
    h->destroy_instance = (PFN_vkDestroyInstance)h->get(h->instance, "vkDestroyInstance");
    if (validation) {
        LOAD(h, vkCreateDebugUtilsMessengerEXT);
        h->destroy_messenger =
            (PFN_vkDestroyDebugUtilsMessengerEXT)h->get(h->instance,
                                                        "vkDestroyDebugUtilsMessengerEXT");
        check(own_vkCreateDebugUtilsMessengerEXT(h->instance, &messenger, NULL, &h->messenger),
              "messenger");
    }
}

static void choose_device(host *h, const char *name)
{
    VkPhysicalDevice devices[16];
    VkQueueFamilyProperties families[16];
    uint32_t count = 16;
    LOAD(h, vkEnumeratePhysicalDevices);
    LOAD(h, vkGetPhysicalDeviceProperties);
    LOAD(h, vkGetPhysicalDeviceMemoryProperties);
    LOAD(h, vkGetPhysicalDeviceQueueFamilyProperties);
    check(own_vkEnumeratePhysicalDevices(h->instance, &count, devices),
          "vkEnumeratePhysicalDevices");
    for (uint32_t i = 0; i < count; i++) {
        VkPhysicalDeviceProperties properties;
        own_vkGetPhysicalDeviceProperties(devices[i], &properties);
        if (strstr(properties.deviceName, name) != NULL) {
            h->physical = devices[i];
        }
    }
    cr_assert_not_null(h->physical, "host: no device named %s", name);
    own_vkGetPhysicalDeviceMemoryProperties(h->physical, &h->memory);
    count = 16;
    own_vkGetPhysicalDeviceQueueFamilyProperties(h->physical, &count, families);
    for (h->family = 0; h->family < count; h->family++) {
        if ((families[h->family].queueFlags & VK_QUEUE_COMPUTE_BIT) != 0) {
            return;
        }
    }
    cr_assert_fail("host: no compute queue");
}

/* With an instance: the device and what a host has on it. */
static void open_device(host *h, const char *name, const char *const *extensions,
                        uint32_t extension_count)
{
    const float priority = 1.0f;
    VkDeviceQueueCreateInfo queue = {
        .sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO,
        .queueCount = 1,
        .pQueuePriorities = &priority,
    };
    const VkDeviceCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO,
        .queueCreateInfoCount = 1,
        .pQueueCreateInfos = &queue,
        .enabledExtensionCount = extension_count,
        .ppEnabledExtensionNames = extensions,
    };
    choose_device(h, name);
    queue.queueFamilyIndex = h->family;
    {
        LOAD(h, vkCreateDevice);
        check(own_vkCreateDevice(h->physical, &info, NULL, &h->device), "vkCreateDevice");
    }
    volkInitializeCustom(h->get); /* volk's globals: the table below is what is used afterwards */
    volkLoadInstanceOnly(h->instance);
    volkLoadDeviceTable(&h->vk, h->device);
    h->vk.vkGetDeviceQueue(h->device, h->family, 0, &h->queue);
    h->pool = host_make_pool(h);
}

void host_open(host *h, harness_profile profile, bool validation)
{
    harness_select_drivers();
    memset(h, 0, sizeof *h);
    h->get = harness_loader();
    open_instance(h, validation, NULL, 0);
    open_device(h, harness_device_name(profile), NULL, 0);
}

void host_open_required(host *h, harness_profile profile, const rhumb_requirements *r)
{
    const char *extensions[16];
    uint32_t count = 0;
    cr_assert_leq(r->required_device_extension_count + r->recommended_device_extension_count, 16u);
    for (uint32_t i = 0; i < r->required_device_extension_count; i++) {
        extensions[count++] = r->required_device_extensions[i];
    }
    for (uint32_t i = 0; i < r->recommended_device_extension_count; i++) {
        extensions[count++] = r->recommended_device_extensions[i];
    }
    harness_select_drivers();
    memset(h, 0, sizeof *h);
    h->get = harness_loader();
    open_instance(h, false, r->recommended_instance_extensions,
                  r->recommended_instance_extension_count);
    open_device(h, harness_device_name(profile), extensions, count);
}

void host_close(host *h)
{
    uint32_t messages;
    h->vk.vkDeviceWaitIdle(h->device);
    h->vk.vkDestroyCommandPool(h->device, h->pool, NULL);
    h->vk.vkDestroyDevice(h->device, NULL);
    if (h->messenger != VK_NULL_HANDLE) {
        h->destroy_messenger(h->instance, h->messenger, NULL);
    }
    h->destroy_instance(h->instance, NULL);
    messages = atomic_load(&h->messages);
    cr_expect_eq(messages, 0, "host: %u validation messages, the first: %s", messages,
                 h->first_message);
}

void host_describe(const host *h, rhumb_hosted_info *info)
{
    rhumb_init_hosted_info(info);
    info->instance = h->instance;
    info->physical_device = h->physical;
    info->device = h->device;
    info->get_instance_proc_addr = interpose_get_instance_proc_addr;
}

host_buffer host_make_buffer(host *h, uint64_t size)
{
    const VkBufferCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO,
        .size = size,
        .usage = VK_BUFFER_USAGE_STORAGE_BUFFER_BIT | VK_BUFFER_USAGE_UNIFORM_BUFFER_BIT,
    };
    VkMemoryAllocateInfo allocate = {.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO};
    VkMemoryRequirements needs;
    host_buffer b = {.size = size};
    void *mapped = NULL;
    check(h->vk.vkCreateBuffer(h->device, &info, NULL, &b.buffer), "vkCreateBuffer");
    h->vk.vkGetBufferMemoryRequirements(h->device, b.buffer, &needs);
    allocate.allocationSize = needs.size;
    allocate.memoryTypeIndex =
        gpu_pick_memory_type(&h->memory, needs.memoryTypeBits, GPU_MEMORY_UPLOAD, needs.size);
    check(h->vk.vkAllocateMemory(h->device, &allocate, NULL, &b.memory), "vkAllocateMemory");
    check(h->vk.vkBindBufferMemory(h->device, b.buffer, b.memory, 0), "vkBindBufferMemory");
    check(h->vk.vkMapMemory(h->device, b.memory, 0, VK_WHOLE_SIZE, 0, &mapped), "vkMapMemory");
    b.mapped = mapped;
    memset(b.mapped, 0, size);
    return b;
}

void host_free_buffer(host *h, host_buffer *b)
{
    h->vk.vkDestroyBuffer(h->device, b->buffer, NULL);
    h->vk.vkFreeMemory(h->device, b->memory, NULL);
    memset(b, 0, sizeof *b);
}

VkCommandPool host_make_pool(host *h)
{
    const VkCommandPoolCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO,
        .queueFamilyIndex = h->family,
    };
    VkCommandPool pool = VK_NULL_HANDLE;
    check(h->vk.vkCreateCommandPool(h->device, &info, NULL, &pool), "vkCreateCommandPool");
    return pool;
}

VkCommandBuffer host_begin(host *h, VkCommandPool pool)
{
    const VkCommandBufferAllocateInfo info = {
        .sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO,
        .commandPool = pool,
        .commandBufferCount = 1,
    };
    const VkCommandBufferBeginInfo begin = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO};
    VkCommandBuffer commands = VK_NULL_HANDLE;
    check(h->vk.vkAllocateCommandBuffers(h->device, &info, &commands), "vkAllocateCommandBuffers");
    check(h->vk.vkBeginCommandBuffer(commands, &begin), "vkBeginCommandBuffer");
    return commands;
}

void host_end(host *h, VkCommandBuffer commands)
{
    check(h->vk.vkEndCommandBuffer(commands), "vkEndCommandBuffer");
}

void host_barrier_before(host *h, VkCommandBuffer commands)
{
    const VkMemoryBarrier barrier = {
        .sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER,
        .srcAccessMask = VK_ACCESS_HOST_WRITE_BIT | VK_ACCESS_SHADER_WRITE_BIT |
                         VK_ACCESS_SHADER_READ_BIT,
        .dstAccessMask = VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_SHADER_WRITE_BIT |
                         VK_ACCESS_UNIFORM_READ_BIT,
    };
    h->vk.vkCmdPipelineBarrier(commands,
                               VK_PIPELINE_STAGE_HOST_BIT | VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT,
                               VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT, 0, 1, &barrier, 0, NULL, 0,
                               NULL);
}

void host_barrier_after(host *h, VkCommandBuffer commands)
{
    const VkMemoryBarrier barrier = {
        .sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER,
        .srcAccessMask = VK_ACCESS_SHADER_WRITE_BIT,
        .dstAccessMask = VK_ACCESS_HOST_READ_BIT,
    };
    h->vk.vkCmdPipelineBarrier(commands, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT,
                               VK_PIPELINE_STAGE_HOST_BIT, 0, 1, &barrier, 0, NULL, 0, NULL);
}

void host_submit(host *h, VkCommandBuffer commands)
{
    const VkSubmitInfo info = {
        .sType = VK_STRUCTURE_TYPE_SUBMIT_INFO,
        .commandBufferCount = 1,
        .pCommandBuffers = &commands,
    };
    check(h->vk.vkQueueSubmit(h->queue, 1, &info, VK_NULL_HANDLE), "vkQueueSubmit");
    check(h->vk.vkQueueWaitIdle(h->queue), "vkQueueWaitIdle");
}

/* ---- one operation through a plugin ---- */

static void must(const rhumb_api *api, const rhumb_context *context, rhumb_result result,
                 const char *call)
{
    cr_assert_eq(result, RHUMB_OK, "host: %s: %s: %s", call, api->result_name(result),
                 api->last_message(context));
}

void host_write_tensor(host_operation *o, const gpu_operation *op, uint32_t index)
{
    const gpu_tensor *t = &op->tensors[index];
    memcpy(o->buffers[index].mapped, t->input, gpu_tensor_bytes(t));
}

void host_read_tensors(host_operation *o, const gpu_operation *op)
{
    for (uint32_t i = 0; i < op->tensor_count; i++) {
        if (op->tensors[i].output != NULL) {
            memcpy(op->tensors[i].output, o->buffers[i].mapped, gpu_tensor_bytes(&op->tensors[i]));
        }
    }
}

static void make_bindings(host_operation *o, rhumb_context *context, const gpu_operation *op)
{
    rhumb_view views[RHUMB_MAX_VIEWS];
    rhumb_bindings_info info;
    for (uint32_t i = 0; i < op->tensor_count; i++) {
        const gpu_tensor *t = &op->tensors[i];
        o->buffers[i] = host_make_buffer(o->h, gpu_tensor_bytes(t));
        host_write_tensor(o, op, i);
        rhumb_init_view(&views[i], t->id, t->dtype, o->buffers[i].buffer, o->buffers[i].size, 1, 1,
                        1, 1);
        views[i].offset = t->offset;
        memcpy(views[i].shape, t->shape, sizeof t->shape);
        memcpy(views[i].stride, t->stride, sizeof t->stride);
    }
    o->count = op->tensor_count;
    rhumb_init_bindings_info(&info);
    info.views = views;
    info.view_count = op->tensor_count;
    info.constants_buffer = o->uniforms.buffer;
    info.bindings_buffer = o->uniforms.buffer;
    must(o->api, context, o->api->create_bindings(o->plan, &info, &o->bindings), "create_bindings");
}

void host_prepare(host_operation *o, host *h, const rhumb_api *api, rhumb_context *context,
                  gpu_operation *op)
{
    memset(o, 0, sizeof *o);
    o->h = h;
    o->api = api;
    for (uint32_t i = 0; i < op->tensor_count; i++) {
        op->info.views |= RHUMB_VIEW_BIT(op->tensors[i].id);
        op->info.dtype[op->tensors[i].id] = op->tensors[i].dtype;
    }
    must(api, context, api->create_plan(context, &op->info, &o->plan), "create_plan");
    rhumb_init_plan_properties(&o->properties);
    must(api, context, api->get_plan_properties(o->plan, &o->properties), "get_plan_properties");
    o->bindings_offset = (o->properties.constants_size + 255) / 256 * 256;
    o->uniforms = host_make_buffer(h, o->bindings_offset + o->properties.bindings_size);
    make_bindings(o, context, op);
    must(api, context,
         api->write_constants(o->plan, 0, 0, o->uniforms.mapped, o->properties.constants_size),
         "write_constants");
    must(api, context,
         api->write_bindings(o->bindings, o->uniforms.mapped + o->bindings_offset,
                             o->properties.bindings_size),
         "write_bindings");
}

rhumb_result host_record(host_operation *o, VkCommandBuffer commands,
                         const rhumb_dispatch *dispatch)
{
    rhumb_dispatch own = *dispatch;
    own.constants_offset = 0;
    own.bindings_offset = o->bindings_offset;
    return o->api->record(commands, o->bindings, &own);
}

void host_release(host_operation *o)
{
    o->api->destroy_bindings(o->bindings);
    o->api->destroy_plan(o->plan);
    for (uint32_t i = 0; i < o->count; i++) {
        host_free_buffer(o->h, &o->buffers[i]);
    }
    host_free_buffer(o->h, &o->uniforms);
    memset(o, 0, sizeof *o);
}
