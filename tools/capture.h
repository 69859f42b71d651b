/* A function table between rhumb and a driver that keeps what compute pipelines are made of, and
 * what the driver says of them through VK_KHR_pipeline_executable_properties, which it turns on
 * where the device has it. Only compiles: nothing may be submitted, so that devices serve that
 * cannot run anything, as RADV's null hardware. Plans are made one at a time, by one thread.
 *
 * Vulkan's loaders carry no pointer of their caller: one capture at a time in a process. */
#ifndef RHUMB_TOOLS_CAPTURE_H
#define RHUMB_TOOLS_CAPTURE_H

#include "gpu.h"
#include "spirv_words.h"

#include "rhumb_shared.h"

#define CAPTURE_MAX_BINDINGS 8
#define CAPTURE_MAX_STATISTICS 64
#define CAPTURE_MAX_EXECUTABLES 4 /* of a pipeline: drivers compile for several subgroup sizes */

typedef struct capture_statistic {
    char name[64];
    double value;
} capture_statistic;

typedef struct capture_executable {
    char name[64];
    uint32_t subgroup_size;
    uint32_t statistic_count;
    capture_statistic statistics[CAPTURE_MAX_STATISTICS];
    char *code; /* machine code as text; NULL: the driver gives none */
} capture_executable;

typedef struct capture_pipeline {
    char kernel[64]; /* as rhumb names it: attention_tile */
    spirv_facts module;
    uint32_t spec[SPEC_COUNT]; /* by id, also of constants that the module lacks */
    uint32_t binding_count;
    VkDescriptorSetLayoutBinding bindings[CAPTURE_MAX_BINDINGS];
    uint32_t push_bytes;
    uint32_t executable_count; /* 0: the device does not tell */
    capture_executable executables[CAPTURE_MAX_EXECUTABLES];
} capture_pipeline;

typedef struct capture {
    rhumb_context *context; /* for plans */
    VkPhysicalDeviceProperties properties;
    bool tells; /* the device has VK_KHR_pipeline_executable_properties */
    uint32_t pipeline_count;
    capture_pipeline *pipelines; /* in the order in which they were made */
    /* private */
    rhumb_context *device; /* standalone, below `context` */
    PFN_vkGetInstanceProcAddr get;
    struct VolkDeviceTable vk;
    capture_pipeline next; /* layouts and module that were made for it so far */
    uint32_t *module;      /* the newest */
    size_t module_bytes;
} capture;

/* Opens a device as gpu_open does. On an error *out is NULL and `error` has the line. */
rhumb_result capture_open(const gpu_options *options, capture **out, char *error,
                          size_t error_size);

/* Plans must have been destroyed. NULL is allowed. */
void capture_close(capture *c);

/* A statistic by its name, or NULL. */
const capture_statistic *capture_find(const capture_executable *executable, const char *name);

/* Registers that were spilled and bytes of scratch memory: statistics of such names, added up. */
double capture_spills(const capture_executable *executable);

#endif /* RHUMB_TOOLS_CAPTURE_H */
