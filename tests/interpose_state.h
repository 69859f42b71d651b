/* Shared by interpose.c (entry points), interpose_floor.c (what the floor allows) and
 * interpose_late.c. */
#ifndef RHUMB_TESTS_INTERPOSE_STATE_H
#define RHUMB_TESTS_INTERPOSE_STATE_H

#include "interpose.h"

/* Notes a violation; printf-like. */
void interpose_note(const char *format, ...) __attribute__((format(printf, 1, 2)));
bool interpose_is_floor(void);
/* A copy for free(); aborts without memory. */
void *interpose_duplicate(const void *data, size_t bytes);

/* What a query reports on the floor. */
void interpose_floor_properties(VkPhysicalDeviceProperties *properties);
void interpose_floor_properties2(VkPhysicalDeviceProperties2 *properties);
void interpose_floor_features(VkPhysicalDeviceFeatures *features);
void interpose_floor_features2(VkPhysicalDeviceFeatures2 *features);

/* What a call may ask for on the floor; each notes violations. */
void interpose_check_device(const VkDeviceCreateInfo *info);
void interpose_check_set_layout(const VkDescriptorSetLayoutCreateInfo *info);
void interpose_check_pipeline_layout(const VkPipelineLayoutCreateInfo *info,
                                     uint32_t storage_buffers);
void interpose_check_pipeline(const VkComputePipelineCreateInfo *info, const uint32_t *words,
                              size_t count, const VkDescriptorSetLayoutBinding *bindings,
                              uint32_t binding_count, spirv_facts *facts);
void interpose_check_writes(uint32_t count, const VkWriteDescriptorSet *writes);
void interpose_check_dynamic_offsets(uint32_t count, const uint32_t *offsets);
void interpose_check_push(uint32_t offset, uint32_t size);
void interpose_check_dispatch(uint32_t x, uint32_t y, uint32_t z);

#endif
