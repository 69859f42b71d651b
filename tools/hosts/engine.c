#include "engine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void must(VkResult result, const char *what)
{
    if (result == VK_SUCCESS)
        return;
    fprintf(stderr, "engine: %s: VkResult %d\n", what, (int)result);
    exit(1);
}

static uint32_t find_queue_family(VkPhysicalDevice physical_device)
{
    VkQueueFamilyProperties families[16];
    uint32_t count = 16;

    vkGetPhysicalDeviceQueueFamilyProperties(physical_device, &count, families);
    for (uint32_t i = 0; i < count; i++) {
        if ((families[i].queueFlags & VK_QUEUE_COMPUTE_BIT) != 0)
            return i;
    }
    must(VK_ERROR_FEATURE_NOT_PRESENT, "no compute queue");
    return 0;
}

static void open_instance(engine *e)
{
    const VkApplicationInfo application = {
        .sType = VK_STRUCTURE_TYPE_APPLICATION_INFO,
        .apiVersion = VK_API_VERSION_1_1,
    };
    const VkInstanceCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO,
        .pApplicationInfo = &application,
    };
    VkPhysicalDevice devices[16];
    uint32_t count = 16;
    VkResult result;

    must(vkCreateInstance(&info, NULL, &e->instance), "vkCreateInstance");
    result = vkEnumeratePhysicalDevices(e->instance, &count, devices);
    must(result == VK_INCOMPLETE ? VK_SUCCESS : result, "vkEnumeratePhysicalDevices");
    must(count == 0 ? VK_ERROR_INITIALIZATION_FAILED : VK_SUCCESS, "no device");
    e->physical_device = devices[0];
}

static void open_device(engine *e, uint32_t family)
{
    const float priority = 1.0f;
    const VkDeviceQueueCreateInfo queue = {
        .sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO,
        .queueFamilyIndex = family,
        .queueCount = 1,
        .pQueuePriorities = &priority,
    };
    const VkDeviceCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO,
        .queueCreateInfoCount = 1,
        .pQueueCreateInfos = &queue,
    };

    must(vkCreateDevice(e->physical_device, &info, NULL, &e->device), "vkCreateDevice");
    vkGetDeviceQueue(e->device, family, 0, &e->queue);
}

static void open_commands(engine *e, uint32_t family)
{
    const VkCommandPoolCreateInfo pool = {
        .sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO,
        .queueFamilyIndex = family,
    };
    VkCommandBufferAllocateInfo commands = {
        .sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO,
        .level = VK_COMMAND_BUFFER_LEVEL_PRIMARY,
        .commandBufferCount = 1,
    };

    must(vkCreateCommandPool(e->device, &pool, NULL, &e->pool), "vkCreateCommandPool");
    commands.commandPool = e->pool;
    must(vkAllocateCommandBuffers(e->device, &commands, &e->commands), "vkAllocateCommandBuffers");
}

engine engine_open(void)
{
    engine e;
    uint32_t family;

    memset(&e, 0, sizeof e);
    open_instance(&e);
    family = find_queue_family(e.physical_device);
    open_device(&e, family);
    open_commands(&e, family);
    return e;
}

void engine_close(engine *e)
{
    vkDestroyCommandPool(e->device, e->pool, NULL);
    vkDestroyDevice(e->device, NULL);
    vkDestroyInstance(e->instance, NULL);
}

static uint32_t find_memory_type(engine *e, uint32_t allowed)
{
    const VkMemoryPropertyFlags wanted =
        VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;
    VkPhysicalDeviceMemoryProperties memory;

    vkGetPhysicalDeviceMemoryProperties(e->physical_device, &memory);
    for (uint32_t i = 0; i < memory.memoryTypeCount; i++) {
        if ((allowed & 1u << i) != 0 && (memory.memoryTypes[i].propertyFlags & wanted) == wanted)
            return i;
    }
    must(VK_ERROR_FEATURE_NOT_PRESENT, "no coherent memory");
    return 0;
}

engine_buffer engine_make_buffer(engine *e, uint64_t size)
{
    const VkBufferCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO,
        .size = size,
        .usage = VK_BUFFER_USAGE_STORAGE_BUFFER_BIT | VK_BUFFER_USAGE_UNIFORM_BUFFER_BIT,
    };
    VkMemoryAllocateInfo allocation = {.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO};
    VkMemoryRequirements needs;
    engine_buffer b;

    memset(&b, 0, sizeof b);
    b.size = size;
    must(vkCreateBuffer(e->device, &info, NULL, &b.buffer), "vkCreateBuffer");
    vkGetBufferMemoryRequirements(e->device, b.buffer, &needs);
    allocation.allocationSize = needs.size;
    allocation.memoryTypeIndex = find_memory_type(e, needs.memoryTypeBits);
    must(vkAllocateMemory(e->device, &allocation, NULL, &b.memory), "vkAllocateMemory");
    must(vkBindBufferMemory(e->device, b.buffer, b.memory, 0), "vkBindBufferMemory");
    must(vkMapMemory(e->device, b.memory, 0, VK_WHOLE_SIZE, 0, &b.mapped), "vkMapMemory");
    memset(b.mapped, 0, (size_t)size);
    return b;
}

void engine_free_buffer(engine *e, engine_buffer *b)
{
    vkDestroyBuffer(e->device, b->buffer, NULL);
    vkFreeMemory(e->device, b->memory, NULL);
}

VkCommandBuffer engine_begin(engine *e)
{
    const VkCommandBufferBeginInfo info = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO};

    must(vkBeginCommandBuffer(e->commands, &info), "vkBeginCommandBuffer");
    return e->commands;
}

void engine_finish(engine *e)
{
    const VkMemoryBarrier barrier = {
        .sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER,
        .srcAccessMask = VK_ACCESS_SHADER_WRITE_BIT,
        .dstAccessMask = VK_ACCESS_HOST_READ_BIT,
    };
    const VkSubmitInfo submit = {
        .sType = VK_STRUCTURE_TYPE_SUBMIT_INFO,
        .commandBufferCount = 1,
        .pCommandBuffers = &e->commands,
    };

    vkCmdPipelineBarrier(e->commands, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT,
                         VK_PIPELINE_STAGE_HOST_BIT, 0, 1, &barrier, 0, NULL, 0, NULL);
    must(vkEndCommandBuffer(e->commands), "vkEndCommandBuffer");
    must(vkQueueSubmit(e->queue, 1, &submit, VK_NULL_HANDLE), "vkQueueSubmit");
    must(vkQueueWaitIdle(e->queue), "vkQueueWaitIdle");
}

void engine_complain(const char *line)
{
    fprintf(stderr, "%s\n", line);
}
