/* The pure part of gpu.h: memory types, ranges to flush, time between timestamps. */
#include "gpu.h"

/* Memory of these kinds needs features or promises that plain buffers do not have. */
static const VkMemoryPropertyFlags special_flags =
    VK_MEMORY_PROPERTY_PROTECTED_BIT | VK_MEMORY_PROPERTY_LAZILY_ALLOCATED_BIT |
    VK_MEMORY_PROPERTY_DEVICE_COHERENT_BIT_AMD | VK_MEMORY_PROPERTY_DEVICE_UNCACHED_BIT_AMD |
    VK_MEMORY_PROPERTY_RDMA_CAPABLE_BIT_NV;

static uint64_t largest_device_heap(const VkPhysicalDeviceMemoryProperties *memory)
{
    uint64_t largest = 0;

    for (uint32_t i = 0; i < memory->memoryHeapCount && i < VK_MAX_MEMORY_HEAPS; i++) {
        const VkMemoryHeap *heap = &memory->memoryHeaps[i];
        if ((heap->flags & VK_MEMORY_HEAP_DEVICE_LOCAL_BIT) != 0 && heap->size > largest)
            largest = heap->size;
    }
    return largest;
}

static bool has(VkMemoryPropertyFlags flags, VkMemoryPropertyFlags wanted)
{
    return (flags & wanted) == wanted;
}

/* Negative: not usable. Preferences are optional bits, none is required beyond being mapped. */
static int score_type(VkMemoryPropertyFlags flags, gpu_memory_use use, bool window_is_tight)
{
    const bool device_local = has(flags, VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT);
    const bool visible = has(flags, VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT);
    const bool coherent = has(flags, VK_MEMORY_PROPERTY_HOST_COHERENT_BIT);
    const bool cached = has(flags, VK_MEMORY_PROPERTY_HOST_CACHED_BIT);

    const int room = window_is_tight ? 0 : 1;

    switch (use) {
    case GPU_MEMORY_DEVICE:
        if (!device_local)
            return visible ? coherent : 0;
        return 8 + room * (8 + visible * 4 + coherent * 2 + cached);
    case GPU_MEMORY_UPLOAD:
        return visible ? coherent * 2 + room : -1;
    case GPU_MEMORY_READBACK:
        return visible ? cached * 4 + coherent * 2 + room : -1;
    }
    return -1;
}

uint32_t gpu_pick_memory_type(const VkPhysicalDeviceMemoryProperties *memory, uint32_t allowed,
                              gpu_memory_use use, uint64_t size)
{
    const uint64_t largest = largest_device_heap(memory);
    uint32_t best = GPU_NO_MEMORY_TYPE;
    int best_score = -1;

    for (uint32_t i = 0; i < memory->memoryTypeCount && i < VK_MAX_MEMORY_TYPES; i++) {
        const VkMemoryType *type = &memory->memoryTypes[i];
        const VkMemoryHeap *heap = &memory->memoryHeaps[type->heapIndex];
        bool window_is_tight;
        int score;

        if ((allowed & 1u << i) == 0 || (type->propertyFlags & special_flags) != 0 ||
            heap->size < size)
            continue;
        window_is_tight = (heap->flags & VK_MEMORY_HEAP_DEVICE_LOCAL_BIT) != 0 &&
                          heap->size < largest && size > heap->size / 8;
        score = score_type(type->propertyFlags, use, window_is_tight);
        if (score > best_score) { /* of equals the first: drivers list the better ones first */
            best = i;
            best_score = score;
        }
    }
    return best;
}

void gpu_flush_range(uint64_t offset, uint64_t size, uint64_t atom, uint64_t memory_size,
                     uint64_t *flush_offset, uint64_t *flush_size)
{
    const uint64_t unit = atom == 0 ? 1 : atom;
    const uint64_t begin = offset / unit * unit;
    uint64_t end = offset + size;

    end = (end + unit - 1) / unit * unit;
    if (end > memory_size)
        end = memory_size;
    *flush_offset = begin;
    *flush_size = end - begin;
}

double gpu_timestamp_ns(uint64_t begin, uint64_t end, uint32_t valid_bits, double period)
{
    const uint64_t mask = valid_bits >= 64 ? UINT64_MAX : ((uint64_t)1 << valid_bits) - 1;

    return (double)((end - begin) & mask) * period;
}
