#include "interpose_state.h"
#include "spirv_words.h"

#include <string.h>

enum {
    FLOOR_INVOCATIONS = 128,
    FLOOR_SHARED = 16384,
    FLOOR_PUSH = 128,
    FLOOR_STORAGE_BUFFERS = 4,
    FLOOR_ALIGNMENT = 256,
    FLOOR_STORAGE_RANGE = 134217728,
    FLOOR_UNIFORM_RANGE = 16384,
    FLOOR_GROUPS = 65535,
};

void interpose_floor_limits(VkPhysicalDeviceLimits *limits)
{
    limits->maxComputeWorkGroupInvocations = FLOOR_INVOCATIONS;
    limits->maxComputeWorkGroupSize[0] = FLOOR_INVOCATIONS;
    limits->maxComputeWorkGroupSize[1] = FLOOR_INVOCATIONS;
    limits->maxComputeWorkGroupSize[2] = 64;
    for (int i = 0; i < 3; i++) {
        limits->maxComputeWorkGroupCount[i] = FLOOR_GROUPS;
    }
    limits->maxComputeSharedMemorySize = FLOOR_SHARED;
    limits->maxPushConstantsSize = FLOOR_PUSH;
    limits->maxPerStageDescriptorStorageBuffers = FLOOR_STORAGE_BUFFERS;
    limits->maxPerStageDescriptorUniformBuffers = 12;
    limits->maxDescriptorSetStorageBuffers = 24;
    limits->maxDescriptorSetStorageBuffersDynamic = 4;
    limits->maxDescriptorSetUniformBuffersDynamic = 8;
    limits->maxPerStageResources = 128;
    limits->maxBoundDescriptorSets = 4;
    limits->maxStorageBufferRange = FLOOR_STORAGE_RANGE;
    limits->maxUniformBufferRange = FLOOR_UNIFORM_RANGE;
    limits->minStorageBufferOffsetAlignment = FLOOR_ALIGNMENT;
    limits->minUniformBufferOffsetAlignment = FLOOR_ALIGNMENT;
}

void interpose_floor_properties(VkPhysicalDeviceProperties *properties)
{
    properties->apiVersion = VK_API_VERSION_1_1;
    interpose_floor_limits(&properties->limits);
}

void interpose_floor_properties2(VkPhysicalDeviceProperties2 *properties)
{
    interpose_floor_properties(&properties->properties);
    for (VkBaseOutStructure *s = properties->pNext; s != NULL; s = s->pNext) {
        if (s->sType == VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_PROPERTIES) {
            VkPhysicalDeviceSubgroupProperties *subgroup = (VkPhysicalDeviceSubgroupProperties *)s;
            subgroup->supportedOperations = VK_SUBGROUP_FEATURE_BASIC_BIT;
            subgroup->quadOperationsInAllStages = VK_FALSE;
        } else if (s->sType == VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_PROPERTIES) {
            VkPhysicalDeviceVulkan11Properties *all = (VkPhysicalDeviceVulkan11Properties *)s;
            all->subgroupSupportedOperations = VK_SUBGROUP_FEATURE_BASIC_BIT;
            all->subgroupQuadOperationsInAllStages = VK_FALSE;
            interpose_note("VkPhysicalDeviceVulkan11Properties asked of a Vulkan 1.1 device");
        }
    }
}

void interpose_floor_features(VkPhysicalDeviceFeatures *features)
{
    memset(features, 0, sizeof *features);
    features->robustBufferAccess = VK_TRUE; /* the one feature every device has */
}

/* Bytes of a feature struct after its header, 0 for one that is not known here. */
static size_t feature_bytes(VkStructureType type)
{
    switch ((int)type) {
    case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_16BIT_STORAGE_FEATURES:
        return sizeof(VkPhysicalDevice16BitStorageFeatures);
    case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_8BIT_STORAGE_FEATURES:
        return sizeof(VkPhysicalDevice8BitStorageFeatures);
    case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_FLOAT16_INT8_FEATURES:
        return sizeof(VkPhysicalDeviceShaderFloat16Int8Features);
    case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VARIABLE_POINTERS_FEATURES:
        return sizeof(VkPhysicalDeviceVariablePointersFeatures);
    case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_FEATURES:
        return sizeof(VkPhysicalDeviceVulkan11Features);
    case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES:
        return sizeof(VkPhysicalDeviceVulkan12Features);
    case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_3_FEATURES:
        return sizeof(VkPhysicalDeviceVulkan13Features);
    case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_BUFFER_DEVICE_ADDRESS_FEATURES:
        return sizeof(VkPhysicalDeviceBufferDeviceAddressFeatures);
    case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_FEATURES:
        return sizeof(VkPhysicalDeviceSubgroupSizeControlFeatures);
    case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_TIMELINE_SEMAPHORE_FEATURES:
        return sizeof(VkPhysicalDeviceTimelineSemaphoreFeatures);
    case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_SUBGROUP_EXTENDED_TYPES_FEATURES:
        return sizeof(VkPhysicalDeviceShaderSubgroupExtendedTypesFeatures);
    default:
        return 0;
    }
}

void interpose_floor_features2(VkPhysicalDeviceFeatures2 *features)
{
    interpose_floor_features(&features->features);
    for (VkBaseOutStructure *s = features->pNext; s != NULL; s = s->pNext) {
        size_t bytes = feature_bytes(s->sType);
        if (bytes != 0) {
            memset((char *)s + sizeof *s, 0, bytes - sizeof *s);
        } else {
            interpose_note("features of an unknown struct %d were asked for", (int)s->sType);
        }
    }
}

static bool any_feature(const VkPhysicalDeviceFeatures *features)
{
    VkPhysicalDeviceFeatures none = *features;
    static const VkPhysicalDeviceFeatures zero;
    none.robustBufferAccess = VK_FALSE;
    return memcmp(&none, &zero, sizeof none) != 0;
}

void interpose_check_device(const VkDeviceCreateInfo *info)
{
    if (info->enabledExtensionCount != 0) {
        interpose_note("device extension %s is enabled, the device has none",
                       info->ppEnabledExtensionNames[0]);
    }
    if (info->pEnabledFeatures != NULL && any_feature(info->pEnabledFeatures)) {
        interpose_note("VkDeviceCreateInfo enables a feature that the device does not have");
    }
    for (const VkBaseInStructure *s = info->pNext; s != NULL; s = s->pNext) {
        size_t bytes = feature_bytes(s->sType);
        if (s->sType == VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2) {
            if (any_feature(&((const VkPhysicalDeviceFeatures2 *)(const void *)s)->features)) {
                interpose_note(
                    "VkPhysicalDeviceFeatures2 enables a feature that the device does not have");
            }
        }
        for (size_t i = sizeof *s; i < bytes; i++) {
            if (((const char *)s)[i] != 0) {
                interpose_note("feature struct %d enables what the device does not have",
                               (int)s->sType);
                break;
            }
        }
    }
}

static bool is_storage(VkDescriptorType type)
{
    return type == VK_DESCRIPTOR_TYPE_STORAGE_BUFFER ||
           type == VK_DESCRIPTOR_TYPE_STORAGE_BUFFER_DYNAMIC;
}

void interpose_check_set_layout(const VkDescriptorSetLayoutCreateInfo *info)
{
    if (info->flags != 0) {
        interpose_note("descriptor set layout flags 0x%x need an extension", (unsigned)info->flags);
    }
    if (info->pNext != NULL) {
        interpose_note("descriptor set layout has an extension struct");
    }
}

void interpose_check_pipeline_layout(const VkPipelineLayoutCreateInfo *info,
                                     uint32_t storage_buffers)
{
    if (storage_buffers > FLOOR_STORAGE_BUFFERS) {
        interpose_note("pipeline layout has %u storage buffers, the device %u", storage_buffers,
                       (unsigned)FLOOR_STORAGE_BUFFERS);
    }
    for (uint32_t i = 0; i < info->pushConstantRangeCount; i++) {
        const VkPushConstantRange *range = &info->pPushConstantRanges[i];
        if (range->offset + range->size > FLOOR_PUSH) {
            interpose_note("push constant range ends at byte %u, the device has %u",
                           range->offset + range->size, (unsigned)FLOOR_PUSH);
        }
    }
}

static void check_descriptors(const spirv_facts *facts,
                              const VkDescriptorSetLayoutBinding *bindings, uint32_t binding_count)
{
    for (uint32_t i = 0; i < facts->descriptor_count; i++) {
        const spirv_descriptor *d = &facts->descriptors[i];
        uint32_t have = 0;
        for (uint32_t j = 0; j < binding_count; j++) {
            if (bindings[j].binding == d->binding &&
                is_storage(bindings[j].descriptorType) == d->storage) {
                have = bindings[j].descriptorCount;
            }
        }
        if (d->set != 0 || d->count > have) {
            interpose_note(
                "shader declares set %u binding %u with %u %s buffers, its layout has %u",
                d->set, d->binding, d->count, d->storage ? "storage" : "uniform", have);
        }
    }
}

static void check_facts(const VkComputePipelineCreateInfo *info, const spirv_facts *facts)
{
    uint64_t invocations = (uint64_t)facts->local_size[0] * facts->local_size[1] *
                           facts->local_size[2];
    for (uint32_t i = 0; i < facts->capability_count; i++) {
        uint32_t capability = facts->capabilities[i];
        if (capability != SPIRV_CAPABILITY_SHADER && capability != SPIRV_CAPABILITY_MATRIX) {
            interpose_note("shader needs SPIR-V capability %u", capability);
        }
    }
    if (facts->version > 0x00010300u) {
        interpose_note("shader is SPIR-V 0x%08x, the device takes 1.3", facts->version);
    }
    if (invocations == 0 || invocations > FLOOR_INVOCATIONS || facts->local_size[2] > 64) {
        interpose_note("pipeline has a work group of %u x %u x %u, the device %u invocations",
                       facts->local_size[0], facts->local_size[1], facts->local_size[2],
                       (unsigned)FLOOR_INVOCATIONS);
    }
    if (facts->shared_bytes > FLOOR_SHARED) {
        interpose_note("pipeline has %llu bytes of shared memory, the device %u",
                       (unsigned long long)facts->shared_bytes, (unsigned)FLOOR_SHARED);
    }
    if (facts->push_bytes > FLOOR_PUSH) {
        interpose_note("push constant block has %llu bytes, the device %u",
                       (unsigned long long)facts->push_bytes, (unsigned)FLOOR_PUSH);
    }
    if (info->stage.pNext != NULL || info->stage.flags != 0 || info->pNext != NULL) {
        interpose_note("pipeline asks for extension structs or stage flags");
    }
}

void interpose_check_pipeline(const VkComputePipelineCreateInfo *info, const uint32_t *words,
                              size_t count, const VkDescriptorSetLayoutBinding *bindings,
                              uint32_t binding_count, spirv_facts *facts)
{
    char message[160];
    if (!spirv_read_facts(words, count, info->stage.pSpecializationInfo, facts, message,
                          sizeof message)) {
        interpose_note("%s", message);
        return;
    }
    check_descriptors(facts, bindings, binding_count);
    if (interpose_is_floor()) {
        check_facts(info, facts);
    }
}

static void check_buffer(VkDescriptorType type, const VkDescriptorBufferInfo *buffer)
{
    uint64_t limit = is_storage(type) ? (uint64_t)FLOOR_STORAGE_RANGE
                                      : (uint64_t)FLOOR_UNIFORM_RANGE;
    if (buffer->offset % FLOOR_ALIGNMENT != 0) {
        interpose_note("descriptor offset %llu is no multiple of %u",
                       (unsigned long long)buffer->offset, (unsigned)FLOOR_ALIGNMENT);
    }
    if (buffer->range == VK_WHOLE_SIZE) {
        interpose_note(
            "descriptor range is VK_WHOLE_SIZE: nothing proves that it is within %llu bytes",
            (unsigned long long)limit);
    } else if (buffer->range > limit) {
        interpose_note("descriptor range %llu is above %llu bytes",
                       (unsigned long long)buffer->range, (unsigned long long)limit);
    }
}

void interpose_check_writes(uint32_t count, const VkWriteDescriptorSet *writes)
{
    for (uint32_t i = 0; i < count; i++) {
        for (uint32_t j = 0; j < writes[i].descriptorCount && writes[i].pBufferInfo != NULL; j++) {
            check_buffer(writes[i].descriptorType, &writes[i].pBufferInfo[j]);
        }
    }
}

void interpose_check_dynamic_offsets(uint32_t count, const uint32_t *offsets)
{
    for (uint32_t i = 0; i < count; i++) {
        if (offsets[i] % FLOOR_ALIGNMENT != 0) {
            interpose_note("dynamic offset %u is no multiple of %u", offsets[i],
                           (unsigned)FLOOR_ALIGNMENT);
        }
    }
}

void interpose_check_push(uint32_t offset, uint32_t size)
{
    if (offset + size > FLOOR_PUSH) {
        interpose_note("vkCmdPushConstants writes to byte %u, the device has %u", offset + size,
                       (unsigned)FLOOR_PUSH);
    }
}

void interpose_check_dispatch(uint32_t x, uint32_t y, uint32_t z)
{
    if (x == 0 || y == 0 || z == 0) {
        interpose_note("dispatch of %u x %u x %u work groups", x, y, z);
    }
    if (x > FLOOR_GROUPS || y > FLOOR_GROUPS || z > FLOOR_GROUPS) {
        interpose_note("dispatch of %u x %u x %u work groups, the device has %u each way", x, y, z,
                       (unsigned)FLOOR_GROUPS);
    }
}
