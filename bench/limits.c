/* Rows of the device's limits: kernels of the benchmark's own, with nothing of rhumb in them. */
#include "bench.h"
#include "bench_spirv.h"
#include "shaders/bench_shared.h"

#include <stdlib.h>

#define BUFFERS 3u
#define USUAL_INVOCATIONS 128u
#define UNUSED_BYTES 16u          /* of a buffer that a kernel never reaches */
#define BUSY_GROUPS 4096u         /* fills large GPUs, and takes a CPU some 20 to 60 ms */

typedef struct limit {
    gpu_buffer buffers[BUFFERS];
    VkDescriptorSetLayout set_layout;
    VkDescriptorPool pool;
    VkDescriptorSet set;
    VkPipelineLayout layout;
    VkPipeline pipeline;
    uint32_t groups;
} limit;

typedef struct limit_info {
    const uint32_t *code;
    size_t code_size;
    uint32_t special[SPEC_COUNT]; /* values of SPEC_* */
    uint32_t groups;
    uint64_t bytes[BUFFERS];
} limit_info;

/* ----------------------------------------------------------------------------------------------
 * Vulkan objects
 */
static void destroy(gpu *g, limit *l)
{
    const VkDevice device = g->handles.device;

    g->vk.vkDestroyPipeline(device, l->pipeline, NULL);
    g->vk.vkDestroyPipelineLayout(device, l->layout, NULL);
    g->vk.vkDestroyDescriptorPool(device, l->pool, NULL);
    g->vk.vkDestroyDescriptorSetLayout(device, l->set_layout, NULL);
    for (uint32_t i = 0; i < BUFFERS; i++)
        gpu_destroy_buffer(g, &l->buffers[i]);
    free(l);
}

/* 1.0 in float32, everywhere: memory that was never written may not be there at all. */
static rhumb_result fill_buffers(gpu *g, const limit *l)
{
    VkCommandBuffer commands = VK_NULL_HANDLE;
    rhumb_result result = gpu_begin_commands(g, &commands);

    if (result != RHUMB_OK)
        return result;
    for (uint32_t i = 0; i < BUFFERS; i++)
        g->vk.vkCmdFillBuffer(commands, l->buffers[i].buffer, 0, VK_WHOLE_SIZE, 0x3f800000u);
    gpu_barrier(g, commands, VK_PIPELINE_STAGE_TRANSFER_BIT, VK_ACCESS_TRANSFER_WRITE_BIT,
                VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT,
                VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_SHADER_WRITE_BIT);
    result = gpu_end_commands(g, commands);
    if (result == RHUMB_OK)
        result = gpu_submit_and_wait(g, commands, NULL);
    gpu_free_commands(g, commands);
    return result;
}

static rhumb_result make_buffers(gpu *g, const limit_info *info, limit *l)
{
    for (uint32_t i = 0; i < BUFFERS; i++) {
        const uint64_t bytes = info->bytes[i] > UNUSED_BYTES ? info->bytes[i] : UNUSED_BYTES;
        rhumb_result result;
        if (bytes > g->properties.limits.maxStorageBufferRange)
            return gpu_fail(g, RHUMB_ERROR_LIMIT, "a buffer of %llu bytes; the device binds %u",
                            (unsigned long long)bytes, g->properties.limits.maxStorageBufferRange);
        result = gpu_create_buffer(g, bytes, VK_BUFFER_USAGE_STORAGE_BUFFER_BIT, GPU_MEMORY_DEVICE,
                                   &l->buffers[i]);
        if (result != RHUMB_OK)
            return result;
    }
    return fill_buffers(g, l);
}

static rhumb_result make_layouts(gpu *g, limit *l)
{
    VkDescriptorSetLayoutBinding bindings[BUFFERS];
    const VkDescriptorSetLayoutCreateInfo set_info = {
        .sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_LAYOUT_CREATE_INFO,
        .bindingCount = BUFFERS,
        .pBindings = bindings,
    };
    const VkPipelineLayoutCreateInfo layout_info = {
        .sType = VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO,
        .setLayoutCount = 1,
        .pSetLayouts = &l->set_layout,
    };
    rhumb_result result;

    for (uint32_t i = 0; i < BUFFERS; i++)
        bindings[i] = (VkDescriptorSetLayoutBinding){
            .binding = i,
            .descriptorType = VK_DESCRIPTOR_TYPE_STORAGE_BUFFER,
            .descriptorCount = 1,
            .stageFlags = VK_SHADER_STAGE_COMPUTE_BIT,
        };
    result = gpu_check(
        g, g->vk.vkCreateDescriptorSetLayout(g->handles.device, &set_info, NULL, &l->set_layout),
        "vkCreateDescriptorSetLayout");
    if (result != RHUMB_OK) { /* a failed call may leave anything in its output */
        l->set_layout = VK_NULL_HANDLE;
        return result;
    }
    result = gpu_check(
        g, g->vk.vkCreatePipelineLayout(g->handles.device, &layout_info, NULL, &l->layout),
        "vkCreatePipelineLayout");
    if (result != RHUMB_OK)
        l->layout = VK_NULL_HANDLE;
    return result;
}

static rhumb_result allocate_set(gpu *g, limit *l)
{
    const VkDescriptorPoolSize size = {VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, BUFFERS};
    const VkDescriptorPoolCreateInfo pool_info = {
        .sType = VK_STRUCTURE_TYPE_DESCRIPTOR_POOL_CREATE_INFO,
        .maxSets = 1,
        .poolSizeCount = 1,
        .pPoolSizes = &size,
    };
    VkDescriptorSetAllocateInfo set_info = {
        .sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_ALLOCATE_INFO,
        .descriptorSetCount = 1,
        .pSetLayouts = &l->set_layout,
    };
    rhumb_result result =
        gpu_check(g, g->vk.vkCreateDescriptorPool(g->handles.device, &pool_info, NULL, &l->pool),
                  "vkCreateDescriptorPool");

    if (result != RHUMB_OK) {
        l->pool = VK_NULL_HANDLE;
        return result;
    }
    set_info.descriptorPool = l->pool;
    return gpu_check(g, g->vk.vkAllocateDescriptorSets(g->handles.device, &set_info, &l->set),
                     "vkAllocateDescriptorSets");
}

static void write_set(gpu *g, const limit *l)
{
    VkDescriptorBufferInfo buffers[BUFFERS];
    const VkWriteDescriptorSet write = {
        .sType = VK_STRUCTURE_TYPE_WRITE_DESCRIPTOR_SET,
        .dstSet = l->set,
        .descriptorCount = BUFFERS, /* runs over the bindings that follow */
        .descriptorType = VK_DESCRIPTOR_TYPE_STORAGE_BUFFER,
        .pBufferInfo = buffers,
    };

    for (uint32_t i = 0; i < BUFFERS; i++)
        buffers[i] = (VkDescriptorBufferInfo){l->buffers[i].buffer, 0, l->buffers[i].size};
    g->vk.vkUpdateDescriptorSets(g->handles.device, 1, &write, 0, NULL);
}

static rhumb_result make_pipeline(gpu *g, const limit_info *info, limit *l)
{
    const VkShaderModuleCreateInfo module_info = {
        .sType = VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO,
        .codeSize = info->code_size,
        .pCode = info->code,
    };
    const VkSpecializationMapEntry entries[SPEC_COUNT] = {
        {SPEC_INVOCATIONS, 0, 4},
        {SPEC_STREAM, 4, 4},
    };
    const VkSpecializationInfo special = {SPEC_COUNT, entries, sizeof info->special, info->special};
    VkComputePipelineCreateInfo pipeline_info = {
        .sType = VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO,
        .stage = {.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO,
                  .stage = VK_SHADER_STAGE_COMPUTE_BIT,
                  .pName = "main",
                  .pSpecializationInfo = &special},
        .layout = l->layout,
    };
    rhumb_result result = gpu_check(g,
                                    g->vk.vkCreateShaderModule(g->handles.device, &module_info,
                                                               NULL, &pipeline_info.stage.module),
                                    "vkCreateShaderModule");

    if (result != RHUMB_OK)
        return result;
    result = gpu_check(g,
                       g->vk.vkCreateComputePipelines(g->handles.device, VK_NULL_HANDLE, 1,
                                                      &pipeline_info, NULL, &l->pipeline),
                       "vkCreateComputePipelines");
    if (result != RHUMB_OK)
        l->pipeline = VK_NULL_HANDLE;
    g->vk.vkDestroyShaderModule(g->handles.device, pipeline_info.stage.module, NULL);
    return result;
}

/* ----------------------------------------------------------------------------------------------
 * Rows
 */
static rhumb_result record(const bench_work *work, VkCommandBuffer commands)
{
    const limit *l = work->state;
    const struct VolkDeviceTable *vk = &work->g->vk;

    vk->vkCmdBindPipeline(commands, VK_PIPELINE_BIND_POINT_COMPUTE, l->pipeline);
    vk->vkCmdBindDescriptorSets(commands, VK_PIPELINE_BIND_POINT_COMPUTE, l->layout, 0, 1, &l->set,
                                0, NULL);
    vk->vkCmdDispatch(commands, l->groups, 1, 1);
    return RHUMB_OK;
}

static void release(bench_work *work)
{
    destroy(work->g, work->state);
}

static rhumb_result make(gpu *g, const limit_info *info, bench_work *work)
{
    limit *l;
    rhumb_result result;

    if (info->groups > g->properties.limits.maxComputeWorkGroupCount[0])
        return gpu_fail(g, RHUMB_ERROR_LIMIT, "%u work groups; the device has %u", info->groups,
                        g->properties.limits.maxComputeWorkGroupCount[0]);
    l = calloc(1, sizeof *l);
    if (l == NULL)
        return gpu_fail(g, RHUMB_ERROR_HOST_MEMORY, "no host memory");
    l->groups = info->groups;
    result = make_buffers(g, info, l);
    if (result == RHUMB_OK)
        result = make_layouts(g, l);
    if (result == RHUMB_OK)
        result = allocate_set(g, l);
    if (result == RHUMB_OK)
        result = make_pipeline(g, info, l);
    if (result != RHUMB_OK) {
        destroy(g, l);
        return result;
    }
    write_set(g, l);
    work->g = g;
    work->record = record;
    work->release = release;
    work->state = l;
    return RHUMB_OK;
}

static uint32_t invocations_of(const gpu *g, const bench_row *row)
{
    const VkPhysicalDeviceLimits *limits = &g->properties.limits;
    uint32_t n = row->shape.invocations != 0 ? row->shape.invocations : USUAL_INVOCATIONS;

    if (n > limits->maxComputeWorkGroupInvocations)
        n = limits->maxComputeWorkGroupInvocations;
    return n < limits->maxComputeWorkGroupSize[0] ? n : limits->maxComputeWorkGroupSize[0];
}

/* A mask of the buffers that are streamed; each is rounded up to whole work groups. */
static rhumb_result make_stream(gpu *g, const bench_row *row, uint32_t stream, uint32_t streamed,
                                bench_work *work)
{
    const uint32_t invocations = invocations_of(g, row);
    const uint64_t group_bytes = (uint64_t)invocations * STREAM_QUADS * 16u;
    limit_info info = {
        .code = rhumb_spirv_stream,
        .code_size = sizeof rhumb_spirv_stream,
        .special = {invocations, stream},
        .groups = (uint32_t)((row->shape.bytes + group_bytes - 1) / group_bytes),
    };

    work->bytes = 0.0;
    work->flops = 0.0;
    for (uint32_t i = 0; i < BUFFERS; i++) {
        if ((streamed & 1u << i) != 0)
            info.bytes[i] = info.groups * group_bytes;
        work->bytes += (double)info.bytes[i];
    }
    return make(g, &info, work);
}

rhumb_result bench_make_copy(gpu *g, const bench_row *row, bench_work *work)
{
    return make_stream(g, row, STREAM_COPY, 3, work);
}

rhumb_result bench_make_read(gpu *g, const bench_row *row, bench_work *work)
{
    return make_stream(g, row, STREAM_READ, 1, work);
}

rhumb_result bench_make_write(gpu *g, const bench_row *row, bench_work *work)
{
    return make_stream(g, row, STREAM_WRITE, 2, work);
}

rhumb_result bench_make_add(gpu *g, const bench_row *row, bench_work *work)
{
    return make_stream(g, row, STREAM_ADD, 7, work);
}

/* As many work groups as keep a machine busy, or one. What an invocation counts at least: bytes,
 * FLOPs. */
static rhumb_result make_kernel(gpu *g, const uint32_t *code, size_t code_size, uint32_t groups,
                                double bytes, double flops, bench_work *work)
{
    const limit_info info = {
        .code = code,
        .code_size = code_size,
        .special = {USUAL_INVOCATIONS, 0},
        .groups = groups,
    };

    work->bytes = (double)groups * USUAL_INVOCATIONS * bytes;
    work->flops = (double)groups * USUAL_INVOCATIONS * flops;
    return make(g, &info, work);
}

rhumb_result bench_make_multiply_add(gpu *g, const bench_row *row, bench_work *work)
{
    (void)row;
    return make_kernel(g, rhumb_spirv_multiply_add, sizeof rhumb_spirv_multiply_add, BUSY_GROUPS,
                       0.0, 2.0 * MULTIPLY_ADD_CHAINS * MULTIPLY_ADD_STEPS, work);
}

rhumb_result bench_make_exp2(gpu *g, const bench_row *row, bench_work *work)
{
    (void)row;
    return make_kernel(g, rhumb_spirv_exp2, sizeof rhumb_spirv_exp2, BUSY_GROUPS, 0.0,
                       EXP2_CHAINS * EXP2_STEPS, work);
}

rhumb_result bench_make_shared(gpu *g, const bench_row *row, bench_work *work)
{
    (void)row;
    return make_kernel(g, rhumb_spirv_shared, sizeof rhumb_spirv_shared, BUSY_GROUPS,
                       16.0 * SHARED_STEPS, 0.0, work);
}

rhumb_result bench_make_empty(gpu *g, const bench_row *row, bench_work *work)
{
    (void)row;
    return make_kernel(g, rhumb_spirv_empty, sizeof rhumb_spirv_empty, 1, 0.0, 0.0, work);
}
