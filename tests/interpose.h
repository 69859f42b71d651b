/* A Vulkan function table between a rhumb context and the real driver. It counts what the context
 * (and tools/gpu around it) does, can report the smallest device that rhumb is right on and check
 * that nothing beyond that device is used, and can make a chosen call fail.
 *
 *     interpose_start(real_get_instance_proc_addr, INTERPOSE_FLOOR);
 *     info.get_instance_proc_addr = interpose_get_instance_proc_addr;
 *     ... interpose_counts, interpose_violation_count ...
 *
 * Vulkan entry points carry no user pointer, so the state is one static of the test program.
 * Instances and devices of several drivers may be open at the same time: the real functions are the
 * loader's. Thread-safety: the entry points, as Vulkan's; interpose_* while no other thread is in
 * one.
 */
#ifndef RHUMB_TESTS_INTERPOSE_H
#define RHUMB_TESTS_INTERPOSE_H

#include <volk.h>

#include "spirv_words.h"

#include <stdbool.h>
#include <stdint.h>

typedef enum interpose_object {
    INTERPOSE_INSTANCE,
    INTERPOSE_DEVICE,
    INTERPOSE_SHADER_MODULE,
    INTERPOSE_PIPELINE,
    INTERPOSE_PIPELINE_CACHE,
    INTERPOSE_PIPELINE_LAYOUT,
    INTERPOSE_SET_LAYOUT,
    INTERPOSE_DESCRIPTOR_POOL,
    INTERPOSE_DESCRIPTOR_SET,
    INTERPOSE_BUFFER,
    INTERPOSE_MEMORY,
    INTERPOSE_COMMAND_POOL,
    INTERPOSE_COMMAND_BUFFER,
    INTERPOSE_FENCE,
    INTERPOSE_QUERY_POOL,
    INTERPOSE_OBJECT_COUNT
} interpose_object;

typedef struct interpose_counts {
    uint64_t created[INTERPOSE_OBJECT_COUNT];
    uint64_t destroyed[INTERPOSE_OBJECT_COUNT];
    uint64_t calls;          /* of any entry point in the table */
    uint64_t commands;       /* vkCmd* of any kind */
    uint64_t dispatches;
    uint64_t work_groups;      /* of all dispatches together */
    uint64_t most_work_groups; /* of one dispatch */
    uint64_t barriers;
    uint64_t push_constants;
    uint64_t set_binds;
    uint64_t pipeline_binds;
    uint64_t submits;
    uint64_t waits;          /* vkQueueWaitIdle, vkDeviceWaitIdle, vkWaitForFences */
    uint64_t descriptor_writes;
} interpose_counts;

typedef enum interpose_mode {
    INTERPOSE_PLAIN, /* the device as it is */
    INTERPOSE_FLOOR, /* Vulkan 1.1, 128 invocations, 16 KiB shared, 128-byte push constants, 4
                        storage buffers, 128 MiB ranges, alignment 256, no extension, no feature,
                        no subgroup arithmetic; each use beyond that is a violation */
} interpose_mode;

/* Begins anew: zero counts, no failure, no violation. Objects of an earlier start must be gone. */
void interpose_start(PFN_vkGetInstanceProcAddr real, interpose_mode mode);

/* What is handed to rhumb. */
VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL interpose_get_instance_proc_addr(VkInstance instance,
                                                                          const char *name);

interpose_counts interpose_read(void);
uint64_t interpose_live(interpose_object object);
/* Objects of every type that were created and not destroyed. */
uint64_t interpose_live_total(void);
const char *interpose_object_name(interpose_object object);

/* Makes the nth call (from 1, counted from now) of `function` return `result` without reaching the
 * driver; "*" is any call that can fail by running out of memory. nth 0 switches it off. */
void interpose_fail(const char *function, uint32_t nth, VkResult result);
/* Calls of the chosen function since interpose_fail. */
uint32_t interpose_fail_calls(void);

/* On: pipelines are looked at and counted, but not given to the driver (their handles are no
 * handles: nothing may be recorded with them). Makes wide tables of plans cheap. Begins off. */
void interpose_skip_compilation(bool on);

/* On: the driver gets a pipeline when it is first bound. For a driver whose compiler is slow: of the
 * two or three that a plan has, a row binds one. A driver that refuses it then is a violation. Begins
 * off. */
void interpose_compile_late(bool on);

/* Since compilation was last switched off: were there pipelines, and each of a kernel that the driver
 * has, no specialisation constant of which has a value that it did not have in some pipeline given
 * to the driver since interpose_start? Such a pipeline differs from those only in what it combines.
 * Slots of descriptors do not count, and each view that a plan has or lacks is a value of its own. */
bool interpose_skipped_only_repeats(void);

/* What the shader of the newest pipeline has after specialisation. */
spirv_facts interpose_newest_pipeline(void);

/* Descriptor pools refuse what goes beyond the sizes they were declared with (drivers may be
 * lenient). Always on. */

/* A use beyond the floor, or a handle destroyed that was not created through the table. */
uint32_t interpose_violation_count(void);
const char *interpose_violation(uint32_t index);

/* The floor's numbers, for tests that compare. */
void interpose_floor_limits(VkPhysicalDeviceLimits *limits);

#endif
