/* tools/gpu.h on devices that lavapipe is not: memory that the host cannot see, memory that is not
 * coherent, queues without timestamps. A function table between makes lavapipe look like one, and
 * checks the ranges that are flushed. And what the operation runner says when a byte changes that
 * must not. */
#define _POSIX_C_SOURCE 200809L /* setenv */

#include "gpu.h"

#include "verify.h"

#include <criterion/criterion.h>

#include <math.h>
#include <stdlib.h>

#define ATOM 256u /* nonCoherentAtomSize of the faked device */

typedef enum fake {
    FAKE_NOTHING,
    FAKE_DISCRETE,     /* type 0: device-local, not visible; type 1: visible, coherent */
    FAKE_NOT_COHERENT, /* type 0: device-local, visible, cached */
    FAKE_NO_CLOCK,     /* timestampValidBits 0 */
} fake;

/* Entry points carry no user pointer; each test is a process of its own. */
static struct {
    fake what;
    PFN_vkGetInstanceProcAddr get_instance;
    PFN_vkGetDeviceProcAddr get_device;
    PFN_vkGetPhysicalDeviceMemoryProperties memory_properties;
    PFN_vkGetPhysicalDeviceProperties properties;
    PFN_vkGetPhysicalDeviceQueueFamilyProperties families;
    PFN_vkAllocateMemory allocate;
    PFN_vkGetBufferMemoryRequirements requirements;
    PFN_vkMapMemory map;
    PFN_vkFlushMappedMemoryRanges flush;
    PFN_vkInvalidateMappedMemoryRanges invalidate;
    PFN_vkCmdCopyBuffer copy;
    VkDeviceMemory hidden[32]; /* allocations of the type that is not visible */
    uint32_t hidden_count;
    VkDeviceSize sizes[64]; /* of all allocations, with `memories` */
    VkDeviceMemory memories[64];
    uint32_t memory_count;
    uint32_t copies, flushes, invalidates, bad_ranges, bad_maps;
} f;

static VKAPI_ATTR void VKAPI_CALL fake_memory_properties(VkPhysicalDevice device,
                                                         VkPhysicalDeviceMemoryProperties *memory)
{
    f.memory_properties(device, memory);
    if (f.what == FAKE_DISCRETE) {
        memory->memoryTypeCount = 2;
        memory->memoryTypes[1].heapIndex = memory->memoryTypes[0].heapIndex;
        memory->memoryTypes[1].propertyFlags =
            VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;
        memory->memoryTypes[0].propertyFlags = VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT;
    }
    if (f.what == FAKE_NOT_COHERENT)
        memory->memoryTypes[0].propertyFlags = VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT |
                                               VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT |
                                               VK_MEMORY_PROPERTY_HOST_CACHED_BIT;
}

static VKAPI_ATTR void VKAPI_CALL fake_properties(VkPhysicalDevice device,
                                                  VkPhysicalDeviceProperties *properties)
{
    f.properties(device, properties);
    properties->limits.nonCoherentAtomSize = ATOM;
}

static VKAPI_ATTR void VKAPI_CALL fake_families(VkPhysicalDevice device, uint32_t *count,
                                                VkQueueFamilyProperties *families)
{
    f.families(device, count, families);
    for (uint32_t i = 0; families != NULL && f.what == FAKE_NO_CLOCK && i < *count; i++)
        families[i].timestampValidBits = 0;
}

static VKAPI_ATTR void VKAPI_CALL fake_requirements(VkDevice device, VkBuffer buffer,
                                                    VkMemoryRequirements *needs)
{
    f.requirements(device, buffer, needs);
    if (f.what == FAKE_DISCRETE)
        needs->memoryTypeBits |= 2;
}

static VKAPI_ATTR VkResult VKAPI_CALL fake_allocate(VkDevice device,
                                                    const VkMemoryAllocateInfo *info,
                                                    const VkAllocationCallbacks *callbacks,
                                                    VkDeviceMemory *memory)
{
    VkMemoryAllocateInfo real = *info;
    VkResult result;

    real.memoryTypeIndex = 0;
    result = f.allocate(device, &real, callbacks, memory);
    if (result == VK_SUCCESS && f.what == FAKE_DISCRETE && info->memoryTypeIndex == 0 &&
        f.hidden_count < 32)
        f.hidden[f.hidden_count++] = *memory;
    if (result == VK_SUCCESS && f.memory_count < 64) {
        f.sizes[f.memory_count] = info->allocationSize;
        f.memories[f.memory_count++] = *memory;
    }
    return result;
}

static VKAPI_ATTR VkResult VKAPI_CALL fake_map(VkDevice device, VkDeviceMemory memory,
                                               VkDeviceSize offset, VkDeviceSize size,
                                               VkMemoryMapFlags flags, void **data)
{
    for (uint32_t i = 0; i < f.hidden_count; i++)
        f.bad_maps += f.hidden[i] == memory;
    return f.map(device, memory, offset, size, flags, data);
}

static void check_range(const VkMappedMemoryRange *range)
{
    uint32_t i = f.memory_count; /* from the end: handles come again after they were freed */

    while (i > 0 && f.memories[i - 1] != range->memory)
        i--;
    if (i == 0 || range->offset % ATOM != 0 || range->size == 0 ||
        range->offset + range->size > f.sizes[i - 1] ||
        (range->size % ATOM != 0 && range->offset + range->size != f.sizes[i - 1]))
        f.bad_ranges++;
}

static VKAPI_ATTR VkResult VKAPI_CALL fake_flush(VkDevice device, uint32_t count,
                                                 const VkMappedMemoryRange *ranges)
{
    f.flushes++;
    for (uint32_t i = 0; i < count; i++)
        check_range(&ranges[i]);
    return f.flush(device, count, ranges);
}

static VKAPI_ATTR VkResult VKAPI_CALL fake_invalidate(VkDevice device, uint32_t count,
                                                      const VkMappedMemoryRange *ranges)
{
    f.invalidates++;
    for (uint32_t i = 0; i < count; i++)
        check_range(&ranges[i]);
    return f.invalidate(device, count, ranges);
}

static VKAPI_ATTR void VKAPI_CALL fake_copy(VkCommandBuffer commands, VkBuffer from, VkBuffer to,
                                            uint32_t count, const VkBufferCopy *regions)
{
    f.copies++;
    f.copy(commands, from, to, count, regions);
}

/* Keeps the real one and gives ours. */
#define REPLACE(name, call, member, ours)                                                          \
    if (strcmp(name, #call) == 0 && real != NULL) {                                                \
        f.member = (PFN_##call)real;                                                               \
        return (PFN_vkVoidFunction)(ours);                                                         \
    }

static VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL fake_get_device(VkDevice device, const char *name)
{
    PFN_vkVoidFunction real = f.get_device(device, name);

    REPLACE(name, vkAllocateMemory, allocate, fake_allocate)
    REPLACE(name, vkGetBufferMemoryRequirements, requirements, fake_requirements)
    REPLACE(name, vkMapMemory, map, fake_map)
    REPLACE(name, vkFlushMappedMemoryRanges, flush, fake_flush)
    REPLACE(name, vkInvalidateMappedMemoryRanges, invalidate, fake_invalidate)
    REPLACE(name, vkCmdCopyBuffer, copy, fake_copy)
    return real;
}

static VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL fake_get_instance(VkInstance instance,
                                                                  const char *name)
{
    PFN_vkVoidFunction real = f.get_instance(instance, name);

    if (strcmp(name, "vkGetInstanceProcAddr") == 0)
        return (PFN_vkVoidFunction)fake_get_instance;
    REPLACE(name, vkGetDeviceProcAddr, get_device, fake_get_device)
    REPLACE(name, vkGetPhysicalDeviceMemoryProperties, memory_properties, fake_memory_properties)
    REPLACE(name, vkGetPhysicalDeviceProperties, properties, fake_properties)
    REPLACE(name, vkGetPhysicalDeviceQueueFamilyProperties, families, fake_families)
    return real;
}

static void open_fake(fake what, gpu **g)
{
    const char *icd = getenv("RHUMB_TEST_LAVAPIPE_ICD");
    char error[GPU_MESSAGE_SIZE] = "";
    gpu_options options;

    if (icd != NULL && icd[0] != '\0') {
        setenv("VK_DRIVER_FILES", icd, 1);
        setenv("VK_ICD_FILENAMES", icd, 1);
    }
    cr_assert_eq(volkInitialize(), VK_SUCCESS, "no Vulkan loader");
    f.what = what;
    f.get_instance = vkGetInstanceProcAddr;
    gpu_init_options(&options);
    options.get_instance_proc_addr = fake_get_instance;
    cr_assert_eq(gpu_open(&options, g, error, sizeof error), RHUMB_OK, "%s", error);
}

/* ------------------------------------------------------------------------------------------------
 * One rotation: 2 heads of 5 rows of 24 channels between longer rows, f16, so that there are bytes
 * between rows, and a K in place.
 */
enum {
    HEADS = 2,
    ROWS = 5,
    DIM = 24,
    STEP = 27, /* elements from row to row */
};

typedef struct rotation {
    gpu_operation op;
    rhumb_rope rope;
    uint16_t q[HEADS * ROWS * STEP + 1], q_out[HEADS * ROWS * STEP + 1];
    uint16_t k[HEADS * ROWS * DIM], k_out[HEADS * ROWS * DIM];
} rotation;

static void make_rotation(rotation *r)
{
    gpu_tensor *t;

    memset(r, 0, sizeof *r);
    for (uint32_t i = 0; i < HEADS * ROWS * STEP; i++)
        r->q[i] = ref_f16_from_double(sin(i * 0.7));
    for (uint32_t i = 0; i < HEADS * ROWS * DIM; i++)
        r->k[i] = ref_f16_from_double(cos(i * 0.3));
    rhumb_init_rope(&r->rope);
    gpu_init_operation(&r->op, RHUMB_OP_ROTATE);
    r->op.info.rotary = &r->rope;
    r->op.info.heads = HEADS;
    r->op.info.head_dim = DIM;
    r->op.info.max_q_length = ROWS;
    r->op.dispatch.q_offset = 3;
    t = gpu_add_tensor(&r->op, RHUMB_VIEW_Q, RHUMB_F16, 1, HEADS, ROWS, DIM, r->q, NULL);
    t->stride[0] = HEADS * ROWS * STEP;
    t->stride[1] = ROWS * STEP;
    t->stride[2] = STEP;
    t->bytes = sizeof r->q / 4 * 4;
    t = gpu_add_tensor(&r->op, RHUMB_VIEW_Q_OUT, RHUMB_F16, 1, HEADS, ROWS, DIM, NULL, r->q_out);
    t->stride[0] = HEADS * ROWS * STEP;
    t->stride[1] = ROWS * STEP;
    t->stride[2] = STEP;
    t->bytes = sizeof r->q_out / 4 * 4;
    gpu_add_tensor(&r->op, RHUMB_VIEW_K, RHUMB_F16, 1, HEADS, ROWS, DIM, r->k, r->k_out);
}

static void expect_rotated(const uint16_t *in, const uint16_t *out, uint32_t step)
{
    double x[HEADS * ROWS * DIM], y[HEADS * ROWS * DIM];
    uint16_t got[HEADS * ROWS * DIM];
    int32_t positions[ROWS];
    ref_rope rope;
    verify_result v;

    for (uint32_t row = 0; row < HEADS * ROWS; row++) {
        verify_widen(RHUMB_F16, in + row * step, DIM, x + row * DIM);
        memcpy(got + row * DIM, out + row * step, DIM * sizeof *got);
    }
    ref_rope_init(&rope, DIM);
    ref_arange(1, ROWS, 3, positions);
    cr_assert_eq(ref_rotate(&rope, 1, HEADS, ROWS, DIM, positions, 0, x, y), 0);
    verify_compare(RHUMB_F16, got, y, HEADS * ROWS * DIM, 1.0, &v);
    cr_expect(v.pass, "element %llu: wanted %g, got %g, bound %g", (unsigned long long)v.index,
              v.want, v.got, v.bound);
}

static void run_rotation(gpu *g, rotation *r)
{
    make_rotation(r);
    r->op.repeats = 2;
    cr_assert_eq(gpu_run_operation(g, &r->op), RHUMB_OK, "%s", r->op.message);
    expect_rotated(r->q, r->q_out, STEP);
    expect_rotated(r->k, r->k_out, DIM);
}

Test(gpu, runs_through_staging_where_the_host_cannot_see_the_memory)
{
    static rotation r;
    gpu *g = NULL;

    open_fake(FAKE_DISCRETE, &g);
    run_rotation(g, &r);
    cr_expect_eq(f.bad_maps, 0, "memory was mapped that the host cannot see");
    cr_expect(f.hidden_count >= 3, "wanted three tensors in device memory, found %u",
              f.hidden_count);
    cr_expect(f.copies >= 6, "wanted a copy in and out for each tensor, found %u", f.copies);
    gpu_close(g);
}

Test(gpu, flushes_whole_atoms_of_memory_that_is_not_coherent)
{
    static rotation r;
    uint8_t bytes[4] = {1, 2, 3, 4};
    gpu_buffer buffer;
    gpu *g = NULL;

    open_fake(FAKE_NOT_COHERENT, &g);
    run_rotation(g, &r);
    cr_assert_eq(gpu_create_buffer(g, 1000, VK_BUFFER_USAGE_STORAGE_BUFFER_BIT, GPU_MEMORY_UPLOAD,
                                   &buffer),
                 RHUMB_OK, "%s", g->message);
    cr_expect(!buffer.coherent && buffer.mapped != NULL);
    cr_expect_eq(gpu_write_buffer(g, &buffer, 3, bytes, 4), RHUMB_OK);
    cr_expect_eq(gpu_write_buffer(g, &buffer, 996, bytes, 4), RHUMB_OK);
    cr_expect_eq(gpu_read_buffer(g, &buffer, 993, bytes, 4), RHUMB_OK);
    cr_expect_eq(gpu_write_buffer(g, &buffer, 997, bytes, 4), RHUMB_ERROR_ARGUMENT);
    cr_expect(strstr(g->message, "of a buffer of 1000") != NULL, "%s", g->message);
    gpu_destroy_buffer(g, &buffer);
    cr_expect(f.flushes >= 6 && f.invalidates >= 4, "%u flushes, %u invalidates", f.flushes,
              f.invalidates);
    cr_expect_eq(f.bad_ranges, 0, "%u ranges are no whole atoms", f.bad_ranges);
    gpu_close(g);
}

Test(gpu, says_when_the_time_is_the_hosts)
{
    static rotation r;
    gpu *g = NULL;

    open_fake(FAKE_NO_CLOCK, &g);
    run_rotation(g, &r);
    cr_expect(r.op.host_clock && r.op.ns > 0.0);
    gpu_close(g);
    open_fake(FAKE_NOTHING, &g);
    run_rotation(g, &r);
    cr_expect(!r.op.host_clock && r.op.ns > 0.0);
    gpu_close(g);
}

/* A stray write of one word by the GPU. */
static void expect_canary(gpu *g, uint32_t tensor, int64_t at)
{
    static rotation r;
    gpu_prepared p;
    VkCommandBuffer commands = VK_NULL_HANDLE;

    make_rotation(&r);
    cr_assert_eq(gpu_prepare_operation(g, &r.op, &p), RHUMB_OK, "%s", r.op.message);
    cr_assert_eq(gpu_begin_commands(g, &commands), RHUMB_OK);
    cr_assert_eq(gpu_record_operation(&p, commands, NULL), RHUMB_OK);
    gpu_barrier(g, commands, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT, VK_ACCESS_SHADER_WRITE_BIT,
                VK_PIPELINE_STAGE_TRANSFER_BIT, VK_ACCESS_TRANSFER_WRITE_BIT);
    g->vk.vkCmdFillBuffer(commands, p.buffers[p.buffer_of[tensor]].buffer,
                          (VkDeviceSize)((int64_t)p.offset_of[tensor] + at), 4, 0x12345678u);
    gpu_barrier(g, commands, VK_PIPELINE_STAGE_TRANSFER_BIT, VK_ACCESS_TRANSFER_WRITE_BIT,
                VK_PIPELINE_STAGE_HOST_BIT, VK_ACCESS_HOST_READ_BIT);
    cr_assert_eq(gpu_end_commands(g, commands), RHUMB_OK);
    cr_assert_eq(gpu_submit_and_wait(g, commands, NULL), RHUMB_OK);
    cr_expect_eq(gpu_finish_operation(&p), RHUMB_ERROR_VULKAN, "tensor %u, byte %lld: not noticed",
                 tensor, (long long)at);
    cr_expect(strncmp(r.op.message, "canary: view ", 13) == 0, "%s", r.op.message);
    gpu_free_commands(g, commands);
    gpu_release_operation(&p);
}

Test(gpu, a_byte_that_must_not_change_is_noticed_wherever_it_is)
{
    const int64_t end = HEADS * ROWS * STEP * 2;
    gpu *g = NULL;

    open_fake(FAKE_NOTHING, &g);
    expect_canary(g, 0, 8);                 /* an input */
    expect_canary(g, 1, -4);                /* before an output */
    expect_canary(g, 1, -(int64_t)GPU_GUARD);
    expect_canary(g, 1, end + 2);           /* behind it */
    expect_canary(g, 1, end + GPU_GUARD - 2);
    expect_canary(g, 1, DIM * 2);           /* between two rows */
    expect_canary(g, 2, -4);                /* before one in place */
    expect_canary(g, 2, HEADS * ROWS * DIM * 2);
    gpu_close(g);
}

Test(gpu, refusals_leave_a_line_and_the_device_usable)
{
    static rotation r;
    gpu *g = NULL;

    open_fake(FAKE_NOTHING, &g);
    make_rotation(&r);
    r.rope.rotary_dim = 7;
    cr_expect_eq(gpu_run_operation(g, &r.op), RHUMB_ERROR_ARGUMENT);
    cr_expect(strstr(r.op.message, "7") != NULL, "%s", r.op.message);
    make_rotation(&r);
    r.op.dispatch.q_length = ROWS + 1;
    cr_expect_neq(gpu_run_operation(g, &r.op), RHUMB_OK);
    cr_expect(r.op.message[0] != '\0');
    make_rotation(&r);
    r.op.tensors[0].shape[2] = 0;
    r.op.tensors[0].bytes = 0;
    cr_expect_eq(gpu_run_operation(g, &r.op), RHUMB_ERROR_ARGUMENT);
    run_rotation(g, &r);
    gpu_close(g);
}
