/* The pure functions of tools/gpu.h: which memory type is picked on devices that lay theirs out in
 * unlike ways, which range is flushed, how long lies between two timestamps. */
#include "gpu.h"

#include <criterion/criterion.h>

#include <stdio.h>

enum {
    D = VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT,
    V = VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT,
    C = VK_MEMORY_PROPERTY_HOST_COHERENT_BIT,
    H = VK_MEMORY_PROPERTY_HOST_CACHED_BIT,
    LAZY = VK_MEMORY_PROPERTY_LAZILY_ALLOCATED_BIT,
    SECRET = VK_MEMORY_PROPERTY_PROTECTED_BIT,
    AMD = VK_MEMORY_PROPERTY_DEVICE_COHERENT_BIT_AMD | VK_MEMORY_PROPERTY_DEVICE_UNCACHED_BIT_AMD,
    ANY = -1, /* any type at all */
};

#define MIB ((uint64_t)1 << 20)
#define GIB ((uint64_t)1 << 30)

/* Heaps by size in MiB (0 ends), negative: not device-local; types as flags and heap. Laid out in
 * the manner of the named devices. */
typedef struct device {
    const char *name;
    int heaps[4];
    struct {
        int flags;
        uint32_t heap;
    } types[12];
    uint32_t type_count;
    int small[3];  /* expected flags, or ANY, for 1 MiB of GPU_MEMORY_DEVICE, UPLOAD, READBACK */
    int large;     /* for 1 GiB of GPU_MEMORY_DEVICE */
} device;

static const device devices[] = {
    {.name = "Mali whose cached memory is not coherent",
     .heaps = {7600},
     .types = {{D | V | C, 0}, {D | V | H, 0}, {D | SECRET, 0}, {D | LAZY, 0}},
     .type_count = 4,
     .small = {D | V | C, D | V | C, D | V | H},
     .large = D | V | C},
    {.name = "Pixel 6 (no HOST_CACHED)",
     .heaps = {3700},
     .types = {{D | V | C, 0}, {D | LAZY, 0}},
     .type_count = 2,
     .small = {D | V | C, D | V | C, D | V | C},
     .large = D | V | C},
    {.name = "Adreno",
     .heaps = {5500, 1500},
     .types = {{D, 0},
               {D | V | C, 0},
               {D | V | H, 0},
               {D | V | C | H, 0},
               {D | SECRET, 1},
               {D | LAZY, 0}},
     .type_count = 6,
     .small = {D | V | C | H, D | V | C, D | V | C | H},
     .large = D | V | C | H},
    {.name = "a device whose mapped memory is never coherent",
     .heaps = {2000},
     .types = {{D, 0}, {D | V | H, 0}},
     .type_count = 2,
     .small = {D | V | H, D | V | H, D | V | H},
     .large = D | V | H},
    {.name = "Intel UMA",
     .heaps = {15000},
     .types = {{D, 0}, {D | V | C, 0}, {D | V | C | H, 0}},
     .type_count = 3,
     .small = {D | V | C | H, D | V | C, D | V | C | H},
     .large = D | V | C | H},
    {.name = "NVIDIA without a large window",
     .heaps = {8000, -16000, 246},
     .types = {{0, 1}, {D, 0}, {V | C, 1}, {V | C | H, 1}, {D | V | C, 2}},
     .type_count = 5,
     .small = {D | V | C, V | C, V | C | H},
     .large = D},
    {.name = "NVIDIA with all memory mapped",
     .heaps = {24000, -32000},
     .types = {{0, 1}, {D, 0}, {V | C, 1}, {V | C | H, 1}, {D | V | C, 0}},
     .type_count = 5,
     .small = {D | V | C, V | C, V | C | H},
     .large = D | V | C},
    {.name = "AMD APU with split heaps",
     .heaps = {-10000, 5000},
     .types = {{D, 1},
               {V | C, 0},
               {D | V | C, 1},
               {V | C | H, 0},
               {D | AMD, 1},
               {V | C | AMD, 0},
               {D | V | C | AMD, 1},
               {V | C | H | AMD, 0}},
     .type_count = 8,
     .small = {D | V | C, V | C, V | C | H},
     .large = D | V | C},
    {.name = "AMD discrete, 256 MiB window",
     .heaps = {7900, -16000, 256},
     .types = {{D, 0}, {V | C, 1}, {D | V | C, 2}, {V | C | H, 1}},
     .type_count = 4,
     .small = {D | V | C, V | C, V | C | H},
     .large = D},
    {.name = "lavapipe",
     .heaps = {8000},
     .types = {{D | V | C | H, 0}},
     .type_count = 1,
     .small = {D | V | C | H, D | V | C | H, D | V | C | H},
     .large = D | V | C | H},
};

#define DEVICE_COUNT (sizeof devices / sizeof devices[0])

static VkPhysicalDeviceMemoryProperties table_of(const device *d)
{
    VkPhysicalDeviceMemoryProperties memory;

    memset(&memory, 0, sizeof memory);
    for (uint32_t i = 0; i < 4 && d->heaps[i] != 0; i++) {
        memory.memoryHeaps[i].size = (uint64_t)(d->heaps[i] < 0 ? -d->heaps[i] : d->heaps[i]) * MIB;
        memory.memoryHeaps[i].flags = d->heaps[i] < 0 ? 0 : VK_MEMORY_HEAP_DEVICE_LOCAL_BIT;
        memory.memoryHeapCount = i + 1;
    }
    memory.memoryTypeCount = d->type_count;
    for (uint32_t i = 0; i < d->type_count; i++) {
        memory.memoryTypes[i].propertyFlags = (VkMemoryPropertyFlags)d->types[i].flags;
        memory.memoryTypes[i].heapIndex = d->types[i].heap;
    }
    return memory;
}

static void expect(const device *d, uint32_t allowed, gpu_memory_use use, uint64_t size, int flags)
{
    const VkPhysicalDeviceMemoryProperties memory = table_of(d);
    const uint32_t type = gpu_pick_memory_type(&memory, allowed, use, size);

    cr_assert(type < d->type_count, "%s: use %d, %llu bytes: no type", d->name, (int)use,
              (unsigned long long)size);
    cr_assert((allowed & 1u << type) != 0, "%s: use %d: type %u is not allowed", d->name, (int)use,
              type);
    cr_expect(flags == ANY || d->types[type].flags == flags,
              "%s: use %d, %llu bytes: wanted flags 0x%x, got 0x%x", d->name, (int)use,
              (unsigned long long)size, flags, d->types[type].flags);
}

Test(gpu_memory, every_use_finds_a_type_on_every_device)
{
    for (size_t i = 0; i < DEVICE_COUNT; i++) {
        expect(&devices[i], UINT32_MAX, GPU_MEMORY_DEVICE, MIB, devices[i].small[0]);
        expect(&devices[i], UINT32_MAX, GPU_MEMORY_UPLOAD, MIB, devices[i].small[1]);
        expect(&devices[i], UINT32_MAX, GPU_MEMORY_READBACK, MIB, devices[i].small[2]);
        expect(&devices[i], UINT32_MAX, GPU_MEMORY_DEVICE, GIB, devices[i].large);
    }
}

Test(gpu_memory, mapped_uses_are_visible_with_any_single_mapped_type_allowed)
{
    for (size_t i = 0; i < DEVICE_COUNT; i++) {
        for (uint32_t t = 0; t < devices[i].type_count; t++) {
            if ((devices[i].types[t].flags & V) == 0 || (devices[i].types[t].flags & AMD) != 0)
                continue;
            expect(&devices[i], 1u << t, GPU_MEMORY_UPLOAD, 4096, devices[i].types[t].flags);
            expect(&devices[i], 1u << t, GPU_MEMORY_READBACK, 4096, devices[i].types[t].flags);
            expect(&devices[i], 1u << t, GPU_MEMORY_DEVICE, 4096, devices[i].types[t].flags);
        }
    }
}

Test(gpu_memory, what_does_not_fit_is_refused)
{
    const VkPhysicalDeviceMemoryProperties nvidia = table_of(&devices[5]);
    const VkPhysicalDeviceMemoryProperties mali = table_of(&devices[0]);
    const VkPhysicalDeviceMemoryProperties apu = table_of(&devices[7]);

    cr_expect_eq(gpu_pick_memory_type(&nvidia, UINT32_MAX, GPU_MEMORY_DEVICE, 64 * GIB),
                 GPU_NO_MEMORY_TYPE);
    cr_expect_eq(gpu_pick_memory_type(&nvidia, 0, GPU_MEMORY_DEVICE, 1), GPU_NO_MEMORY_TYPE);
    cr_expect_eq(gpu_pick_memory_type(&nvidia, 1u << 1, GPU_MEMORY_UPLOAD, 1), GPU_NO_MEMORY_TYPE);
    cr_expect_eq(gpu_pick_memory_type(&nvidia, 1u << 4, GPU_MEMORY_UPLOAD, 300 * MIB),
                 GPU_NO_MEMORY_TYPE);
    cr_expect_eq(gpu_pick_memory_type(&mali, 1u << 2 | 1u << 3, GPU_MEMORY_DEVICE, 1),
                 GPU_NO_MEMORY_TYPE);
    cr_expect_eq(gpu_pick_memory_type(&apu, 0xf0, GPU_MEMORY_DEVICE, 1), GPU_NO_MEMORY_TYPE);
}

/* Most of a window stays free for others; the whole device-local memory is not a window. */
Test(gpu_memory, a_window_is_for_small_buffers)
{
    expect(&devices[8], UINT32_MAX, GPU_MEMORY_DEVICE, 32 * MIB, D | V | C);
    expect(&devices[8], UINT32_MAX, GPU_MEMORY_DEVICE, 33 * MIB, D);
    expect(&devices[8], 1u << 2, GPU_MEMORY_DEVICE, 200 * MIB, D | V | C);
    expect(&devices[6], UINT32_MAX, GPU_MEMORY_DEVICE, 20 * GIB, D | V | C);
}

/* A device-local type that must be copied to is better than one across the bus. */
Test(gpu_memory, the_device_reads_its_own_memory_where_there_is_some)
{
    expect(&devices[5], 1u << 1 | 1u << 2 | 1u << 3, GPU_MEMORY_DEVICE, MIB, D);
    expect(&devices[5], 1u << 2 | 1u << 3, GPU_MEMORY_DEVICE, MIB, V | C);
    expect(&devices[5], 1u << 0 | 1u << 2, GPU_MEMORY_DEVICE, MIB, V | C);
}

/* --------------------------------------------------------------------------------------------- */
static void expect_range(uint64_t offset, uint64_t size, uint64_t atom, uint64_t memory_size,
                         uint64_t want_offset, uint64_t want_size)
{
    uint64_t got_offset = 0, got_size = 0;

    gpu_flush_range(offset, size, atom, memory_size, &got_offset, &got_size);
    cr_expect(got_offset == want_offset && got_size == want_size,
              "[%llu, +%llu) atom %llu of %llu: wanted [%llu, +%llu), got [%llu, +%llu)",
              (unsigned long long)offset, (unsigned long long)size, (unsigned long long)atom,
              (unsigned long long)memory_size, (unsigned long long)want_offset,
              (unsigned long long)want_size, (unsigned long long)got_offset,
              (unsigned long long)got_size);
}

Test(gpu_memory, flush_ranges_are_whole_atoms_or_end_with_the_memory)
{
    expect_range(3, 4, 256, 4096, 0, 256);
    expect_range(0, 256, 256, 4096, 0, 256);
    expect_range(255, 2, 256, 4096, 0, 512);
    expect_range(256, 1, 256, 4096, 256, 256);
    expect_range(1000, 100, 64, 4096, 960, 192);
    expect_range(4000, 50, 256, 4080, 3840, 240); /* the end is cut at the allocation */
    expect_range(0, 100, 256, 100, 0, 100);
    expect_range(0, 100, 1, 4096, 0, 100);
    expect_range(70, 30, 64, 100, 64, 36);
}

Test(gpu_memory, every_flush_range_holds_the_bytes)
{
    const uint64_t atoms[] = {1, 4, 64, 128, 256};

    for (size_t i = 0; i < sizeof atoms / sizeof atoms[0]; i++) {
        for (uint64_t offset = 0; offset < 600; offset += 7) {
            for (uint64_t size = 1; offset + size <= 600; size += 13) {
                uint64_t o = 0, n = 0;
                gpu_flush_range(offset, size, atoms[i], 600, &o, &n);
                cr_assert(o % atoms[i] == 0 && o <= offset && o + n >= offset + size &&
                          o + n <= 600);
                cr_assert(n % atoms[i] == 0 || o + n == 600);
            }
        }
    }
}

Test(gpu_memory, timestamps_wrap_at_their_valid_bits)
{
    cr_expect_eq(gpu_timestamp_ns(1000, 3000, 64, 1.0), 2000.0);
    cr_expect_eq(gpu_timestamp_ns(1000, 3000, 36, 10.0), 20000.0);
    cr_expect_eq(gpu_timestamp_ns(0xfffffff0u, 0x10u, 32, 1.0), 32.0);
    cr_expect_eq(gpu_timestamp_ns(0xff000000fffffff0u, 0x00ffffff00000010u, 32, 1.0), 32.0,
                 "bits above the valid ones are noise");
    cr_expect_eq(gpu_timestamp_ns(UINT64_MAX, 4, 64, 2.0), 10.0);
}

Test(gpu_memory, a_broken_canary_is_found_at_its_byte)
{
    uint8_t bytes[64];

    for (uint64_t offset = 0; offset < 4; offset++) {
        gpu_fill_canary(bytes, offset, sizeof bytes);
        cr_assert_eq(gpu_find_broken_canary(bytes, offset, sizeof bytes), sizeof bytes);
        for (size_t i = 0; i < sizeof bytes; i++) {
            bytes[i] ^= 1;
            cr_assert_eq(gpu_find_broken_canary(bytes, offset, sizeof bytes), i);
            bytes[i] ^= 1;
        }
    }
    gpu_fill_canary(bytes, 0, 4);
    cr_assert(bytes[0] == 0 && bytes[1] == 0 && bytes[2] == 0xc0 && bytes[3] == 0x7f);
}
