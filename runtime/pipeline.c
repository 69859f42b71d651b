/* Compute pipelines, shared by the plans of a context that ask for the same code. */
#include "internal.h"

#include "rhumb_spirv.h"

static const struct {
    const char *name;
    const uint32_t *code;
    size_t size; /* bytes */
} kernels[RHUMB_KERNEL_COUNT] = {
    [RHUMB_KERNEL_ROTATE] = {"rotate", rhumb_spirv_rotate, sizeof rhumb_spirv_rotate},
    [RHUMB_KERNEL_ROTATE_NORM] = {"rotate_norm", rhumb_spirv_rotate_norm,
                                  sizeof rhumb_spirv_rotate_norm},
    [RHUMB_KERNEL_ATTENTION_GENERIC] = {"attention_generic", rhumb_spirv_attention_generic,
                                        sizeof rhumb_spirv_attention_generic},
    [RHUMB_KERNEL_ATTENTION_TILE] = {"attention_tile", rhumb_spirv_attention_tile,
                                     sizeof rhumb_spirv_attention_tile},
    [RHUMB_KERNEL_ATTENTION_TILE_SUBGROUP] = {"attention_tile_subgroup",
                                              rhumb_spirv_attention_tile_subgroup,
                                              sizeof rhumb_spirv_attention_tile_subgroup},
    [RHUMB_KERNEL_ATTENTION_DECODE] = {"attention_decode", rhumb_spirv_attention_decode,
                                       sizeof rhumb_spirv_attention_decode},
    [RHUMB_KERNEL_ATTENTION_DECODE_ADDRESS] = {"attention_decode_address",
                                               rhumb_spirv_attention_decode_address,
                                               sizeof rhumb_spirv_attention_decode_address},
    [RHUMB_KERNEL_ATTENTION_BROADCAST] = {"attention_broadcast",
                                          rhumb_spirv_attention_broadcast,
                                          sizeof rhumb_spirv_attention_broadcast},
    [RHUMB_KERNEL_COMBINE] = {"combine", rhumb_spirv_combine, sizeof rhumb_spirv_combine},
    [RHUMB_KERNEL_ENCODE] = {"encode", rhumb_spirv_encode, sizeof rhumb_spirv_encode},
    [RHUMB_KERNEL_ENCODE_ADDRESS] = {"encode_address", rhumb_spirv_encode_address,
                                     sizeof rhumb_spirv_encode_address},
    [RHUMB_KERNEL_RESIZE] = {"resize", rhumb_spirv_resize, sizeof rhumb_spirv_resize},
    [RHUMB_KERNEL_PROJECT] = {"project", rhumb_spirv_project, sizeof rhumb_spirv_project},
    [RHUMB_KERNEL_FOLD] = {"fold", rhumb_spirv_fold, sizeof rhumb_spirv_fold},
    [RHUMB_KERNEL_CONTINUOUS_BIAS] = {"continuous_bias", rhumb_spirv_continuous_bias,
                                      sizeof rhumb_spirv_continuous_bias},
    [RHUMB_KERNEL_BIAS] = {"bias", rhumb_spirv_bias, sizeof rhumb_spirv_bias},
    [RHUMB_KERNEL_BIAS_ADDRESS] = {"bias_address", rhumb_spirv_bias_address,
                                   sizeof rhumb_spirv_bias_address},
    [RHUMB_KERNEL_SCORES] = {"scores", rhumb_spirv_scores, sizeof rhumb_spirv_scores},
    [RHUMB_KERNEL_SOFTMAX_VALUES] = {"softmax_values", rhumb_spirv_softmax_values,
                                     sizeof rhumb_spirv_softmax_values},
};

static rhumb_result compile(rhumb_context *context, const rhumb_pipeline_key *key,
                            VkPipelineLayout layout, VkPipeline *pipeline)
{
    VkSpecializationMapEntry entries[SPEC_COUNT];
    for (uint32_t i = 0; i < SPEC_COUNT; i++)
        entries[i] = (VkSpecializationMapEntry){.constantID = i, .offset = i * 4, .size = 4};
    const VkSpecializationInfo specialization = {
        .mapEntryCount = SPEC_COUNT,
        .pMapEntries = entries,
        .dataSize = sizeof key->spec,
        .pData = key->spec,
    };
    const VkShaderModuleCreateInfo module_info = {
        .sType = VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO,
        .codeSize = kernels[key->kernel].size,
        .pCode = kernels[key->kernel].code,
    };
    VkShaderModule module = VK_NULL_HANDLE;
    VkResult result = context->vk.CreateShaderModule(context->device, &module_info, NULL, &module);
    if (result != VK_SUCCESS)
        return rhumb_fail_vk(context, result, "create_plan: vkCreateShaderModule");
    const VkComputePipelineCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO,
        .stage = {.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO,
                  .stage = VK_SHADER_STAGE_COMPUTE_BIT,
                  .module = module,
                  .pName = "main",
                  .pSpecializationInfo = &specialization},
        .layout = layout,
        .basePipelineIndex = -1,
    };
    pthread_rwlock_rdlock(&context->cache_lock);
    result = context->vk.CreateComputePipelines(context->device, context->pipeline_cache, 1, &info,
                                                NULL, pipeline);
    pthread_rwlock_unlock(&context->cache_lock);
    context->vk.DestroyShaderModule(context->device, module, NULL);
    if (result != VK_SUCCESS) {
        *pipeline = VK_NULL_HANDLE;
        return rhumb_fail_vk(context, result, "create_plan: vkCreateComputePipelines");
    }
    rhumb_set_name(context, VK_OBJECT_TYPE_PIPELINE, (uint64_t)*pipeline, kernels[key->kernel].name,
                   "pipeline");
    return RHUMB_OK;
}

/* With the lock held. */
static rhumb_pipeline *find(rhumb_context *context, const rhumb_pipeline_key *key)
{
    for (rhumb_pipeline *p = context->pipelines; p; p = p->next) {
        if (!memcmp(&p->key, key, sizeof *key)) {
            p->references++;
            return p;
        }
    }
    return NULL;
}

rhumb_result rhumb_acquire_pipeline(rhumb_context *context, const rhumb_pipeline_key *key,
                                    VkPipelineLayout layout, rhumb_pipeline **out)
{
    pthread_mutex_lock(&context->lock);
    *out = find(context, key);
    pthread_mutex_unlock(&context->lock);
    if (*out)
        return RHUMB_OK;

    /* Compiled without the lock, so that several threads compile at a time; if another one was
     * faster, its pipeline is kept. */
    rhumb_pipeline *made = rhumb_allocate(context, sizeof *made);
    if (!made)
        return rhumb_fail(context, RHUMB_ERROR_HOST_MEMORY,
                          "create_plan: no host memory for %zu bytes", sizeof *made);
    rhumb_result result = compile(context, key, layout, &made->pipeline);
    if (result != RHUMB_OK) {
        rhumb_release(context, made);
        return result;
    }
    made->key = *key;
    made->references = 1;
    pthread_mutex_lock(&context->lock);
    *out = find(context, key);
    if (!*out) {
        made->next = context->pipelines;
        context->pipelines = made;
        *out = made;
        made = NULL;
    }
    pthread_mutex_unlock(&context->lock);
    if (made) {
        context->vk.DestroyPipeline(context->device, made->pipeline, NULL);
        rhumb_release(context, made);
    }
    return RHUMB_OK;
}

void rhumb_release_pipeline(rhumb_context *context, rhumb_pipeline *pipeline)
{
    bool last = false;
    if (!pipeline)
        return;
    pthread_mutex_lock(&context->lock);
    if (--pipeline->references == 0) {
        rhumb_pipeline **link = &context->pipelines;
        while (*link != pipeline)
            link = &(*link)->next;
        *link = pipeline->next;
        last = true;
    }
    pthread_mutex_unlock(&context->lock);
    if (last) {
        context->vk.DestroyPipeline(context->device, pipeline->pipeline, NULL);
        rhumb_release(context, pipeline);
    }
}
