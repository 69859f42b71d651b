/* A stand-in for what an engine has anyway: a Vulkan device, mapped buffers, a command buffer.
 * Plain Vulkan through the loader; nothing of rhumb. Every function ends the program with a line on
 * stderr when Vulkan refuses. */
#ifndef ENGINE_H
#define ENGINE_H

#include <vulkan/vulkan.h>

#include <stdint.h>

typedef struct engine {
    VkInstance instance;
    VkPhysicalDevice physical_device;
    VkDevice device;
    VkQueue queue;
    VkCommandPool pool;
    VkCommandBuffer commands;
} engine;

typedef struct engine_buffer {
    VkBuffer buffer;
    VkDeviceMemory memory;
    uint64_t size;
    void *mapped; /* coherent */
} engine_buffer;

/* The first device with a compute queue, Vulkan 1.1, no extensions and no features. */
engine engine_open(void);
void engine_close(engine *e);

/* A storage and uniform buffer of zeros. */
engine_buffer engine_make_buffer(engine *e, uint64_t size);
void engine_free_buffer(engine *e, engine_buffer *b);

VkCommandBuffer engine_begin(engine *e);

/* A barrier from compute shader writes to the host, then submits and waits. */
void engine_finish(engine *e);

/* A line on stderr. */
void engine_complain(const char *line);

#endif
