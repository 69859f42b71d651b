/* gpu: buffers, command buffers, clocks and one-call operations over the public rhumb API, for the
 * tools, the tests and the benchmarks. Not part of the library.
 *
 * Every Vulkan call goes through the get_instance_proc_addr of the context, so that a function
 * table put between (interpose.h) sees all of them. Several devices may be open in one process.
 *
 * Errors: functions return a rhumb_result and leave one line in gpu->message (operations: also in
 * operation->message). Nothing leaks on an error.
 * Thread-safety: one thread at a time for one gpu; opening and closing: one thread at a time at all
 * (volk loads through process globals).
 *
 * Include this header before any other that includes Vulkan's, or compile with VK_NO_PROTOTYPES.
 */
#ifndef RHUMB_TOOLS_GPU_H
#define RHUMB_TOOLS_GPU_H

#include <volk.h>

#include <rhumb/rhumb.h>
#include <rhumb/rhumb_schemes.h>

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define GPU_MESSAGE_SIZE 512

/* ----------------------------------------------------------------------------------------------
 * Memory, pure functions
 */

/* Who touches the bytes, which decides the kind of memory. */
typedef enum gpu_memory_use {
    GPU_MEMORY_DEVICE,   /* the GPU; the host through gpu_write_buffer and gpu_read_buffer.
                            Device-local first, mapped where that costs nothing */
    GPU_MEMORY_UPLOAD,   /* the host writes, the GPU reads: always mapped; coherent preferred */
    GPU_MEMORY_READBACK, /* the GPU writes, the host reads: always mapped; cached preferred */
} gpu_memory_use;

#define GPU_NO_MEMORY_TYPE UINT32_MAX

/* The memory type for an allocation of `size` bytes among the types of `allowed`
 * (VkMemoryRequirements.memoryTypeBits), or GPU_NO_MEMORY_TYPE. Never a type with flags that ask
 * for more than buffers here have (protected, lazily allocated, AMD's device-coherent), and never a
 * heap that is too small. GPU_MEMORY_DEVICE avoids the small window of a discrete GPU for
 * allocations above an eighth of it. */
uint32_t gpu_pick_memory_type(const VkPhysicalDeviceMemoryProperties *memory, uint32_t allowed,
                              gpu_memory_use use, uint64_t size);

/* The smallest range with offset and size in multiples of `atom` (a power of two) that holds
 * [offset, offset + size); its end is cut at memory_size, as vkFlushMappedMemoryRanges asks. */
void gpu_flush_range(uint64_t offset, uint64_t size, uint64_t atom, uint64_t memory_size,
                     uint64_t *flush_offset, uint64_t *flush_size);

/* Nanoseconds between two timestamps of which the low valid_bits count (1 to 64) and may have
 * wrapped once; period: nanoseconds a tick. */
double gpu_timestamp_ns(uint64_t begin, uint64_t end, uint32_t valid_bits, double period);

/* ----------------------------------------------------------------------------------------------
 * Device
 */
typedef struct gpu_options {
    uint32_t device_index;                            /* or RHUMB_DEVICE_ANY */
    uint32_t validation; /* 1: validation layer; see validation_count */
    const char *device_name;                          /* part of the name or UUID; NULL: any */
    PFN_vkGetInstanceProcAddr get_instance_proc_addr; /* NULL: the system's loader */
    const rhumb_limits *clamp;                        /* NULL: none */
    const rhumb_allocator *allocator;                 /* NULL: malloc and free */
    rhumb_log_fn log;                                 /* NULL: silent */
    void *log_user;
} gpu_options;

/* Sets every default: any device, no validation, nothing clamped, silent. */
void gpu_init_options(gpu_options *options);

typedef struct gpu {
    rhumb_context *context;
    bool owns_context;
    rhumb_device_handles handles;
    struct VolkDeviceTable vk; /* gpu->vk.vkCmdDispatch(...) */
    VkPhysicalDeviceProperties properties;
    uint8_t device_uuid[VK_UUID_SIZE];
    char driver[VK_MAX_DRIVER_NAME_SIZE]; /* its name; "" where the driver does not tell */
    char driver_info[VK_MAX_DRIVER_INFO_SIZE]; /* its version in its own words; "" likewise */
    VkPhysicalDeviceMemoryProperties memory;
    VkQueueFamilyProperties queue_family;
    bool device_address; /* buffers have addresses */
    rhumb_variant form;  /* of ATTENTION in golden cases; AUTO (0): what the plan chooses */
    VkCommandPool command_pool;
    VkFence fence;
    VkQueryPool queries; /* two timestamps; VK_NULL_HANDLE where the queue has none */
    atomic_uint validation_count; /* messages of the validation layer so far (log lines that begin
                                     with "validation: "; rhumb's own refusals are logged too) */
    char validation_first[GPU_MESSAGE_SIZE];
    rhumb_log_fn log;
    void *log_user;
    char message[GPU_MESSAGE_SIZE]; /* of the last failing call */
} gpu;

/* Opens a standalone context and what is needed around it. options NULL: the defaults. On an error
 * *out is NULL and `error` (error_size bytes, may be NULL) has the line. Close with gpu_close. */
rhumb_result gpu_open(const gpu_options *options, gpu **out, char *error, size_t error_size);

/* The same over an existing context that has a queue (rhumb_get_device_handles); gpu_close leaves
 * the context alone. */
rhumb_result gpu_adopt(rhumb_context *context, gpu **out, char *error, size_t error_size);

/* The same over the device of a hosted context: the queue is the caller's. */
rhumb_result gpu_adopt_queue(rhumb_context *context, VkQueue queue, uint32_t queue_family,
                             gpu **out, char *error, size_t error_size);

/* Waits for the device and releases everything. NULL is allowed. */
void gpu_close(gpu *g);

/* Leaves a line in g->message and returns `result`. */
rhumb_result gpu_fail(gpu *g, rhumb_result result, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* VK_SUCCESS: RHUMB_OK. Else a line with the call's name and number, and what it means here. */
rhumb_result gpu_check(gpu *g, VkResult result, const char *call);

/* "discrete GPU", "integrated GPU", "virtual GPU", "CPU" or "other". */
const char *gpu_device_type_name(VkPhysicalDeviceType type);

/* ----------------------------------------------------------------------------------------------
 * Buffers
 */
typedef struct gpu_buffer {
    VkBuffer buffer;
    VkDeviceMemory memory;
    uint64_t size;        /* bytes of the VkBuffer */
    uint64_t memory_size; /* bytes of the allocation */
    void *mapped;         /* NULL where the host cannot see it */
    bool coherent;
    bool cached;          /* the host reads it at full speed */
    uint32_t memory_type;
    uint64_t address;     /* VkDeviceAddress; 0 where the context has none */
} gpu_buffer;

/* A buffer of `size` bytes (1 or more) with memory of its own, mapped where the type allows it.
 * Transfer usage is added. On an error *out is zeroed. */
rhumb_result gpu_create_buffer(gpu *g, uint64_t size, VkBufferUsageFlags usage, gpu_memory_use use,
                               gpu_buffer *out);

/* The GPU must be done with it. A zeroed buffer is allowed. */
void gpu_destroy_buffer(gpu *g, gpu_buffer *buffer);

/* Copy bytes in and out; by a staging buffer and a submission where the buffer is not mapped. */
rhumb_result gpu_write_buffer(gpu *g, gpu_buffer *buffer, uint64_t offset, const void *data,
                              uint64_t size);
rhumb_result gpu_read_buffer(gpu *g, gpu_buffer *buffer, uint64_t offset, void *data,
                             uint64_t size);

/* For whoever writes through `mapped`: makes the host's bytes visible to the device, and the
 * device's to the host. Nothing to do for coherent memory. */
rhumb_result gpu_flush_buffer(gpu *g, const gpu_buffer *buffer, uint64_t offset, uint64_t size);
rhumb_result gpu_invalidate_buffer(gpu *g, const gpu_buffer *buffer, uint64_t offset,
                                   uint64_t size);

/* The pattern of bytes that nothing may touch: a quiet NaN in f32, so that reading it shows too. */
#define GPU_CANARY 0x7fc00000u

/* Fills host memory with the pattern as it would lie in a buffer at `offset` (bytes, any). */
void gpu_fill_canary(void *memory, uint64_t offset, uint64_t size);

/* Index of the first byte that differs from the pattern, or `size`. */
uint64_t gpu_find_broken_canary(const void *memory, uint64_t offset, uint64_t size);

/* ----------------------------------------------------------------------------------------------
 * Command buffers
 */

/* Allocates a primary command buffer and begins it; it may be submitted any number of times. */
rhumb_result gpu_begin_commands(gpu *g, VkCommandBuffer *commands);
rhumb_result gpu_end_commands(gpu *g, VkCommandBuffer commands);

/* Submits and waits until done (ten minutes at most, then RHUMB_ERROR_VULKAN). host_ns (may be
 * NULL): time from the submission to the end by the host's clock. */
rhumb_result gpu_submit_and_wait(gpu *g, VkCommandBuffer commands, double *host_ns);

/* VK_NULL_HANDLE is allowed. */
void gpu_free_commands(gpu *g, VkCommandBuffer commands);

/* A global memory barrier. */
void gpu_barrier(gpu *g, VkCommandBuffer commands, VkPipelineStageFlags src_stage,
                 VkAccessFlags src_access, VkPipelineStageFlags dst_stage,
                 VkAccessFlags dst_access);

/* Timestamps around what is recorded between them. Without timestamps on the queue both do nothing,
 * and gpu_read_timer gives `host_ns` and sets *host_clock. */
void gpu_begin_timer(gpu *g, VkCommandBuffer commands);
void gpu_end_timer(gpu *g, VkCommandBuffer commands);
rhumb_result gpu_read_timer(gpu *g, double host_ns, double *ns, bool *host_clock);

/* ----------------------------------------------------------------------------------------------
 * Operations
 *
 *     gpu_operation op;
 *     gpu_init_operation(&op, RHUMB_OP_ROTATE);
 *     op.info.heads = 2; ...                     `views` and `dtype` come from the tensors
 *     gpu_add_tensor(&op, RHUMB_VIEW_Q, RHUMB_F32, 1, 2, 7, 64, q, NULL);
 *     gpu_add_tensor(&op, RHUMB_VIEW_Q_OUT, RHUMB_F32, 1, 2, 7, 64, NULL, out);
 *     result = gpu_run_operation(g, &op);        op.message, op.properties, op.ns
 */

/* One tensor in host memory. `bytes` long on the host and on the device; the view begins `offset`
 * bytes into it. */
typedef struct gpu_tensor {
    rhumb_view_id id;
    rhumb_dtype dtype;
    const void
        *input; /* bytes before the run; NULL: canary pattern (position from the tensor's start) */
    void *output;      /* receives the bytes after the run; NULL: not wanted. May be `input` */
    uint64_t bytes; /* 0: as many as the view needs, rounded up to whole 4-byte words; then `input`
                       and `output` have that size (gpu_tensor_bytes) */
    uint64_t offset;
    uint64_t shape[4];
    int64_t stride[4];
    uint32_t same_as; /* 1 + index of an earlier tensor whose bytes these are, for work in place; 0:
                         bytes of its own. Then all tensors share a VkBuffer */
} gpu_tensor;

/* offset + the extent of the view, rounded up to a multiple of 4: `bytes` if it is not 0. */
uint64_t gpu_tensor_bytes(const gpu_tensor *tensor);

typedef struct gpu_operation {
    rhumb_plan_info info;    /* views and dtype are taken from the tensors */
    rhumb_plan *plan; /* NULL: made from info for this run. Else the caller's, made with the same
                         views and dtypes */
    rhumb_dispatch dispatch;
    uint32_t old_length;     /* for rhumb_write_constants */
    uint32_t new_length;
    gpu_tensor tensors[RHUMB_MAX_VIEWS];
    uint32_t tensor_count;
    uint32_t
        uniform_offset; /* multiples of the uniform alignment put before each block; default 0 */
    uint32_t warm_up;        /* runs after the first, not timed; default 0 */
    uint32_t repeats; /* timed runs after those; default 0: the first run is timed (some drivers
                         finish compiling in it) */
    double budget_ns; /* no more timed runs, after one, once they have taken this long; default 0:
                         no limit */
    bool unchecked;   /* true: no guards and no comparison of what must not change (large runs) */
    /* out */
    rhumb_plan_properties properties;
    double ns;               /* time on the device; the median if repeated */
    bool host_clock; /* true: no timestamps here, ns is by the host's clock, submission included */
    char message[GPU_MESSAGE_SIZE];
} gpu_operation;

void gpu_init_operation(gpu_operation *operation, rhumb_op op);

/* Adds a contiguous tensor and returns it, to change offset, strides and bytes; NULL if full. */
gpu_tensor *gpu_add_tensor(gpu_operation *operation, rhumb_view_id id, rhumb_dtype dtype,
                           uint64_t b, uint64_t h, uint64_t l, uint64_t d, const void *input,
                           void *output);

/* Takes views and dtypes from the tensors and asks rhumb_query_plan; the answer is in
 * operation->properties. */
rhumb_result gpu_query_operation(gpu *g, gpu_operation *operation);

/* Bytes of canary before and after each tensor on the device, a multiple of every device's offset
 * alignment: the offset of a view modulo 256 is the tensor's own. */
#define GPU_GUARD 256u

/* Everything: plan, buffers, blocks, record, submit, wait, timing, read back, checks. Each tensor
 * has a VkBuffer of its own, except that tensors that the plan puts into one slot share one.
 * Errors: rhumb's own; RHUMB_ERROR_VULKAN with a line that begins with "canary" if a byte changed
 * that must not: a guard, an input, an element outside the view (between rows, before its offset).
 */
rhumb_result gpu_run_operation(gpu *g, gpu_operation *operation);

/* The same in steps, for whoever records several into one command buffer or replays one. */
typedef struct gpu_prepared {
    gpu *g;
    gpu_operation *operation;        /* must stay valid */
    rhumb_plan *plan;
    rhumb_bindings *bindings;
    gpu_buffer buffers[RHUMB_MAX_VIEWS];
    uint32_t buffer_count;
    uint32_t buffer_of[RHUMB_MAX_VIEWS]; /* by index of the tensor */
    uint64_t offset_of[RHUMB_MAX_VIEWS]; /* of the tensor's first byte in its buffer */
    gpu_buffer uniforms;             /* constants block, then bindings block */
    uint32_t constants_offset;
    uint32_t bindings_offset;
} gpu_prepared;

/* Plan, buffers with their contents, blocks, bindings. On an error *prepared is zeroed. */
rhumb_result gpu_prepare_operation(gpu *g, gpu_operation *operation, gpu_prepared *prepared);

/* Host-write barrier, the operation, host-read barrier. dispatch NULL: operation->dispatch. The
 * offsets of the blocks are filled in. */
rhumb_result gpu_record_operation(gpu_prepared *prepared, VkCommandBuffer commands,
                                  const rhumb_dispatch *dispatch);

/* Writes all bytes of tensor `index` anew (data as `input`). The GPU must be idle. */
rhumb_result gpu_write_tensor(gpu_prepared *prepared, uint32_t index, const void *data);

/* Reads the outputs back and, unless unchecked, compares what must not change. */
rhumb_result gpu_finish_operation(gpu_prepared *prepared);

void gpu_release_operation(gpu_prepared *prepared);

#endif /* RHUMB_TOOLS_GPU_H */
