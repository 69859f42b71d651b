/* A stand-in for an engine: its own instance, device, queue, buffers and command buffers, made
 * through the real loader and never through the table of interpose.h, so that whatever the table
 * sees is rhumb's. Fails the test when Vulkan refuses. */
#ifndef RHUMB_TESTS_HOST_H
#define RHUMB_TESTS_HOST_H

#include "harness.h"

typedef struct host {
    PFN_vkGetInstanceProcAddr get;
    VkInstance instance;
    VkPhysicalDevice physical;
    VkDevice device;
    VkQueue queue;
    uint32_t family;
    VkCommandPool pool;
    VkPhysicalDeviceMemoryProperties memory;
    struct VolkDeviceTable vk;
    PFN_vkDestroyInstance destroy_instance;
    VkDebugUtilsMessengerEXT messenger;
    PFN_vkDestroyDebugUtilsMessengerEXT destroy_messenger;
    atomic_uint messages; /* of the validation layer */
    char first_message[GPU_MESSAGE_SIZE];
} host;

/* Opens the device of the profile; `validation` with synchronization validation. */
void host_open(host *h, harness_profile profile, bool validation);
/* With every extension that rhumb requires or recommends on the instance and the device, and no
 * other. */
void host_open_required(host *h, harness_profile profile, const rhumb_requirements *requirements);
/* Asserts that no validation message came. */
void host_close(host *h);

/* What rhumb is told of it. get_instance_proc_addr is the counting table's. */
void host_describe(const host *h, rhumb_hosted_info *info);

typedef struct host_buffer {
    VkBuffer buffer;
    VkDeviceMemory memory;
    uint64_t size;
    uint8_t *mapped; /* coherent */
} host_buffer;

host_buffer host_make_buffer(host *h, uint64_t size);
void host_free_buffer(host *h, host_buffer *b);

VkCommandPool host_make_pool(host *h);
VkCommandBuffer host_begin(host *h, VkCommandPool pool);
void host_end(host *h, VkCommandBuffer commands);
/* Host writes and earlier dispatches before, dispatches after. */
void host_barrier_before(host *h, VkCommandBuffer commands);
/* Dispatches before, host reads after. */
void host_barrier_after(host *h, VkCommandBuffer commands);
void host_submit(host *h, VkCommandBuffer commands);

/* The buffers of one operation on a host, from the tensors of tools/gpu: the host's work, through
 * the function table of a plugin. */
typedef struct host_operation {
    host *h;
    const rhumb_api *api;
    rhumb_plan *plan;
    rhumb_bindings *bindings;
    rhumb_plan_properties properties;
    host_buffer buffers[RHUMB_MAX_VIEWS];
    uint32_t count;
    host_buffer uniforms; /* constants block, then bindings block at bindings_offset */
    uint32_t bindings_offset;
} host_operation;

void host_prepare(host_operation *o, host *h, const rhumb_api *api, rhumb_context *context,
                  gpu_operation *op);
rhumb_result host_record(host_operation *o, VkCommandBuffer commands,
                         const rhumb_dispatch *dispatch);
/* Bytes of tensor `index` again into the buffer, and out of it. */
void host_write_tensor(host_operation *o, const gpu_operation *op, uint32_t index);
void host_read_tensors(host_operation *o, const gpu_operation *op);
void host_release(host_operation *o);

#endif
