/* Pipelines that the driver gets when they are bound, or never. */
#ifndef RHUMB_TESTS_INTERPOSE_LATE_H
#define RHUMB_TESTS_INTERPOSE_LATE_H

#include "interpose_objects.h"

/* The driver's functions. */
typedef struct late_driver {
    PFN_vkCreateShaderModule CreateShaderModule;
    PFN_vkDestroyShaderModule DestroyShaderModule;
    PFN_vkCreateComputePipelines CreateComputePipelines;
    PFN_vkDestroyPipeline DestroyPipeline;
} late_driver;

/* Begins anew, see interpose_start. */
void late_start(void);
/* Notes what a pipeline is made of, for interpose_skipped_only_repeats. */
void late_look_at(const VkComputePipelineCreateInfo *info, const object_entry *module);
/* Whether pipelines wait or are skipped now. */
bool late_wanted(void);
VkPipeline late_create(VkDevice device, VkPipelineCache cache,
                       const VkComputePipelineCreateInfo *info);
/* Whether late_create made the handle. */
bool late_has(uint64_t pipeline);
/* The driver's pipeline, made now where it waits; any other handle as it is. */
VkPipeline late_bind(VkPipeline pipeline, const late_driver *driver);
void late_destroy(uint64_t pipeline, const late_driver *driver);

#endif
