#include "gpu.h"

#define STAGE_FROM 65536u /* bytes from which a copy beats reading uncached memory */

static rhumb_result allocate_memory(gpu *g, gpu_memory_use use, gpu_buffer *b)
{
    VkMemoryAllocateInfo info = {.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO};
    VkMemoryRequirements needs;
    VkMemoryPropertyFlags flags;
    rhumb_result result;

    g->vk.vkGetBufferMemoryRequirements(g->handles.device, b->buffer, &needs);
    b->memory_type = gpu_pick_memory_type(&g->memory, needs.memoryTypeBits, use, needs.size);
    if (b->memory_type == GPU_NO_MEMORY_TYPE)
        return gpu_fail(g, RHUMB_ERROR_DEVICE_MEMORY,
                        "buffer of %llu bytes: no memory type fits (allowed: 0x%x)",
                        (unsigned long long)needs.size, needs.memoryTypeBits);
    flags = g->memory.memoryTypes[b->memory_type].propertyFlags;
    b->coherent = (flags & VK_MEMORY_PROPERTY_HOST_COHERENT_BIT) != 0;
    b->cached = (flags & VK_MEMORY_PROPERTY_HOST_CACHED_BIT) != 0;
    b->memory_size = needs.size;
    const VkMemoryAllocateFlagsInfo with_address = {
        .sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_FLAGS_INFO,
        .flags = VK_MEMORY_ALLOCATE_DEVICE_ADDRESS_BIT,
    };
    if (g->device_address)
        info.pNext = &with_address;
    info.allocationSize = needs.size;
    info.memoryTypeIndex = b->memory_type;
    result = gpu_check(g, g->vk.vkAllocateMemory(g->handles.device, &info, NULL, &b->memory),
                       "vkAllocateMemory");
    if (result != RHUMB_OK) { /* a failed call may leave anything in its output */
        b->memory = VK_NULL_HANDLE;
        return result;
    }
    result = gpu_check(g, g->vk.vkBindBufferMemory(g->handles.device, b->buffer, b->memory, 0),
                       "vkBindBufferMemory");
    if (result != RHUMB_OK || (flags & VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT) == 0)
        return result;
    result = gpu_check(
        g, g->vk.vkMapMemory(g->handles.device, b->memory, 0, VK_WHOLE_SIZE, 0, &b->mapped),
        "vkMapMemory");
    if (result != RHUMB_OK)
        b->mapped = NULL;
    return result;
}

rhumb_result gpu_create_buffer(gpu *g, uint64_t size, VkBufferUsageFlags usage, gpu_memory_use use,
                               gpu_buffer *out)
{
    const VkBufferCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO,
        .size = size,
        .usage = usage | VK_BUFFER_USAGE_TRANSFER_SRC_BIT | VK_BUFFER_USAGE_TRANSFER_DST_BIT |
                 (g->device_address ? VK_BUFFER_USAGE_SHADER_DEVICE_ADDRESS_BIT : 0u),
        .sharingMode = VK_SHARING_MODE_EXCLUSIVE,
    };
    gpu_buffer b = {.size = size};
    rhumb_result result;

    memset(out, 0, sizeof *out);
    if (size == 0)
        return gpu_fail(g, RHUMB_ERROR_ARGUMENT, "buffer of 0 bytes");
    result = gpu_check(g, g->vk.vkCreateBuffer(g->handles.device, &info, NULL, &b.buffer),
                       "vkCreateBuffer");
    if (result != RHUMB_OK)
        b.buffer = VK_NULL_HANDLE;
    else
        result = allocate_memory(g, use, &b);
    if (result == RHUMB_OK && g->device_address) {
        const VkBufferDeviceAddressInfo at = {
            .sType = VK_STRUCTURE_TYPE_BUFFER_DEVICE_ADDRESS_INFO, .buffer = b.buffer};
        b.address = g->vk.vkGetBufferDeviceAddressKHR(g->handles.device, &at);
    }
    if (result == RHUMB_OK)
        *out = b;
    else
        gpu_destroy_buffer(g, &b);
    return result;
}

void gpu_destroy_buffer(gpu *g, gpu_buffer *buffer)
{
    /* Freeing the memory unmaps it. */
    g->vk.vkDestroyBuffer(g->handles.device, buffer->buffer, NULL);
    g->vk.vkFreeMemory(g->handles.device, buffer->memory, NULL);
    memset(buffer, 0, sizeof *buffer);
}

static VkMappedMemoryRange mapped_range(const gpu *g, const gpu_buffer *buffer, uint64_t offset,
                                        uint64_t size)
{
    VkMappedMemoryRange range = {
        .sType = VK_STRUCTURE_TYPE_MAPPED_MEMORY_RANGE,
        .memory = buffer->memory,
    };

    gpu_flush_range(offset, size, g->properties.limits.nonCoherentAtomSize, buffer->memory_size,
                    &range.offset, &range.size);
    return range;
}

rhumb_result gpu_flush_buffer(gpu *g, const gpu_buffer *buffer, uint64_t offset, uint64_t size)
{
    const VkMappedMemoryRange range = mapped_range(g, buffer, offset, size);

    if (buffer->coherent || range.size == 0)
        return RHUMB_OK;
    return gpu_check(g, g->vk.vkFlushMappedMemoryRanges(g->handles.device, 1, &range),
                     "vkFlushMappedMemoryRanges");
}

rhumb_result gpu_invalidate_buffer(gpu *g, const gpu_buffer *buffer, uint64_t offset, uint64_t size)
{
    const VkMappedMemoryRange range = mapped_range(g, buffer, offset, size);

    if (buffer->coherent || range.size == 0)
        return RHUMB_OK;
    return gpu_check(g, g->vk.vkInvalidateMappedMemoryRanges(g->handles.device, 1, &range),
                     "vkInvalidateMappedMemoryRanges");
}

static rhumb_result check_range(gpu *g, const gpu_buffer *buffer, uint64_t offset, uint64_t size)
{
    if (offset > buffer->size || size > buffer->size - offset)
        return gpu_fail(g, RHUMB_ERROR_ARGUMENT, "bytes %llu to %llu + %llu of a buffer of %llu",
                        (unsigned long long)offset, (unsigned long long)offset,
                        (unsigned long long)size, (unsigned long long)buffer->size);
    return RHUMB_OK;
}

static rhumb_result copy_and_wait(gpu *g, VkBuffer from, uint64_t from_offset, VkBuffer to,
                                  uint64_t to_offset, uint64_t size)
{
    const VkBufferCopy region = {from_offset, to_offset, size};
    VkCommandBuffer commands = VK_NULL_HANDLE;
    rhumb_result result = gpu_begin_commands(g, &commands);

    if (result != RHUMB_OK)
        return result;
    gpu_barrier(g, commands, VK_PIPELINE_STAGE_ALL_COMMANDS_BIT, VK_ACCESS_MEMORY_WRITE_BIT,
                VK_PIPELINE_STAGE_TRANSFER_BIT,
                VK_ACCESS_TRANSFER_READ_BIT | VK_ACCESS_TRANSFER_WRITE_BIT);
    g->vk.vkCmdCopyBuffer(commands, from, to, 1, &region);
    gpu_barrier(g, commands, VK_PIPELINE_STAGE_TRANSFER_BIT, VK_ACCESS_TRANSFER_WRITE_BIT,
                VK_PIPELINE_STAGE_HOST_BIT, VK_ACCESS_HOST_READ_BIT);
    result = gpu_end_commands(g, commands);
    if (result == RHUMB_OK)
        result = gpu_submit_and_wait(g, commands, NULL);
    gpu_free_commands(g, commands);
    return result;
}

rhumb_result gpu_write_buffer(gpu *g, gpu_buffer *buffer, uint64_t offset, const void *data,
                              uint64_t size)
{
    gpu_buffer staging;
    rhumb_result result = check_range(g, buffer, offset, size);

    if (result != RHUMB_OK || size == 0)
        return result;
    if (buffer->mapped != NULL) {
        memcpy((char *)buffer->mapped + offset, data, size);
        return gpu_flush_buffer(g, buffer, offset, size);
    }
    result = gpu_create_buffer(g, size, 0, GPU_MEMORY_UPLOAD, &staging);
    if (result != RHUMB_OK)
        return result;
    memcpy(staging.mapped, data, size);
    result = gpu_flush_buffer(g, &staging, 0, size);
    if (result == RHUMB_OK)
        result = copy_and_wait(g, staging.buffer, 0, buffer->buffer, offset, size);
    gpu_destroy_buffer(g, &staging);
    return result;
}

rhumb_result gpu_read_buffer(gpu *g, gpu_buffer *buffer, uint64_t offset, void *data, uint64_t size)
{
    gpu_buffer staging;
    rhumb_result result = check_range(g, buffer, offset, size);

    if (result != RHUMB_OK || size == 0)
        return result;
    if (buffer->mapped != NULL && (buffer->cached || size < STAGE_FROM)) {
        result = gpu_invalidate_buffer(g, buffer, offset, size);
        if (result == RHUMB_OK)
            memcpy(data, (const char *)buffer->mapped + offset, size);
        return result;
    }
    result = gpu_create_buffer(g, size, 0, GPU_MEMORY_READBACK, &staging);
    if (result != RHUMB_OK)
        return result;
    result = copy_and_wait(g, buffer->buffer, offset, staging.buffer, 0, size);
    if (result == RHUMB_OK)
        result = gpu_invalidate_buffer(g, &staging, 0, size);
    if (result == RHUMB_OK)
        memcpy(data, staging.mapped, size);
    gpu_destroy_buffer(g, &staging);
    return result;
}

static uint8_t canary_byte(uint64_t offset)
{
    return (uint8_t)(GPU_CANARY >> (offset % 4 * 8) & 0xffu);
}

void gpu_fill_canary(void *memory, uint64_t offset, uint64_t size)
{
    uint8_t *bytes = memory;

    for (uint64_t i = 0; i < size; i++)
        bytes[i] = canary_byte(offset + i);
}

uint64_t gpu_find_broken_canary(const void *memory, uint64_t offset, uint64_t size)
{
    const uint8_t *bytes = memory;
    uint64_t i = 0;

    while (i < size && bytes[i] == canary_byte(offset + i))
        i++;
    return i;
}
