/* rhumb: positions in Transformers, and the attention that consumes them, as Vulkan compute.
 *
 * A host hands over its own VkDevice and command buffer; rhumb validates everything ahead of time
 * and records dispatches, nothing else. The life of an operation:
 *
 *     context    rhumb_create_hosted (the host's device) or rhumb_create_standalone (an own device)
 *     plan       rhumb_create_plan     compiles pipelines; the only slow call; any thread, ahead
 *                                      of time
 *                rhumb_write_constants bytes for a uniform buffer that the host owns
 *     bindings   rhumb_create_bindings which VkBuffer ranges hold Q, K, V, ...
 *                rhumb_write_bindings  bytes for a second uniform range that the host owns
 *     record     rhumb_record          into the host's command buffer
 *
 * A host that does not trust a driver asks for the known-answer self-test before its first plan.
 *
 * One plan serves all layers of a model; only the bindings differ.
 *
 * Conventions
 *   Tensors are [B, H, L, D] by shape, whatever their order in memory: the strides say it. B batch,
 *   H heads, L rows (tokens), D channels. Strides count elements; the innermost stride is 1.
 *   Query head h reads key/value head floor(h * kv_heads / heads).
 *   Positions are integers; relative offsets are key minus query.
 *   LSE and logits use natural logarithms. A row that sees no key gives zeros.
 *
 * Structs begin with {type, struct_size, next}. Call rhumb_init_NAME(&s) first: it sets the header
 * and every default, then change what differs. No meaning is attached to zero. `next` is for
 * extensions; an unknown type in the chain is RHUMB_ERROR_VERSION, and so is a struct_size larger
 * than the library's. A smaller struct_size (an older header) is completed with defaults.
 *
 * Errors: every function that can fail returns a rhumb_result and leaves one line that names the
 * operation, what was wanted and what was there: rhumb_last_message. After an error nothing has
 * been recorded or written, nothing leaks, and the context stays usable.
 */
#ifndef RHUMB_H
#define RHUMB_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <vulkan/vulkan_core.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(_WIN32)
#define RHUMB_API __declspec(dllexport)
#else
#define RHUMB_API __attribute__((visibility("default")))
#endif

/* ABI: function table and struct layouts only grow within one major */
#define RHUMB_VERSION_MAJOR 0
#define RHUMB_VERSION_MINOR 1
#define RHUMB_VERSION_PATCH 0

/* -------------------------------------------------------------------------------------------------
 * Results
 */
typedef enum rhumb_result {
    RHUMB_OK = 0,
    RHUMB_ERROR_ARGUMENT = -1,      /* a value outside its documented domain, a missing
                                       required view */
    RHUMB_ERROR_VERSION = -2,       /* wrong type, unknown next, struct_size larger than
                                       the library's */
    RHUMB_ERROR_UNSUPPORTED = -3,   /* legal values that no kernel combines, or none that passed
                                       the self-test */
    RHUMB_ERROR_LIMIT = -4,         /* a limit of the device, of the clamp or of the plan; with
                                       its numbers */
    RHUMB_ERROR_HOST_MEMORY = -5,
    RHUMB_ERROR_DEVICE_MEMORY = -6,
    RHUMB_ERROR_DEVICE_LOST = -7,   /* stays: every later call on the context returns it */
    RHUMB_ERROR_VULKAN = -8,        /* any other VkResult; the message has its number */
    RHUMB_ERROR_NO_DEVICE = -9,     /* standalone: no loader, no device, or none of the
                                       name asked for */
    RHUMB_ERROR_CONFIG = -10,       /* model configuration without a needed key, or contradictory */
} rhumb_result;

/* A short name such as "RHUMB_ERROR_LIMIT"; never NULL. */
RHUMB_API const char *rhumb_result_name(rhumb_result result);

/* -------------------------------------------------------------------------------------------------
 * Struct headers
 */
typedef enum rhumb_type {
    RHUMB_TYPE_LIMITS = 1,
    RHUMB_TYPE_ALLOCATOR = 2,
    RHUMB_TYPE_HOSTED_INFO = 3,
    RHUMB_TYPE_STANDALONE_INFO = 4,
    RHUMB_TYPE_DEVICE_HANDLES = 5,
    RHUMB_TYPE_REQUIREMENTS = 6,
    RHUMB_TYPE_PLAN_INFO = 7,
    RHUMB_TYPE_PLAN_PROPERTIES = 8,
    RHUMB_TYPE_VIEW = 9,
    RHUMB_TYPE_BINDINGS_INFO = 10,
    RHUMB_TYPE_DISPATCH = 11,
    RHUMB_TYPE_LAYER_KIND = 12,
    RHUMB_TYPE_KEYS_INFO = 13,
    RHUMB_TYPE_SELF_TEST_PROPERTIES = 14,
    RHUMB_TYPE_SELF_TEST_INFO = 15,
    RHUMB_TYPE_SELF_TEST_RESULT = 16,
    RHUMB_TYPE_MROPE_SPAN = 17,
    RHUMB_TYPE_SCHEME_FIRST = 1000, /* scheme structs: rhumb_schemes.h */
} rhumb_type;

#define RHUMB_HEADER                                                                               \
    uint32_t type;        /* rhumb_type */                                                         \
    uint32_t struct_size; /* sizeof the struct as the caller compiled it */                        \
    const void *next      /* chain of extension structs, or NULL */

typedef struct rhumb_header {
    RHUMB_HEADER;
} rhumb_header;

#define RHUMB_INIT_HEADER(s, type_value)                                                           \
    do {                                                                                           \
        memset((s), 0, sizeof *(s));                                                               \
        (s)->type = (type_value);                                                                  \
        (s)->struct_size = (uint32_t)sizeof *(s);                                                  \
    } while (0)

/* -------------------------------------------------------------------------------------------------
 * Context
 */

/* Everything rhumb knows of one VkDevice. Creates no device memory and no queue work.
 * Thread-safety: any function may be called from any thread at the same time, except
 * rhumb_destroy_context, which must be the last. */
typedef struct rhumb_context rhumb_context;

/* Limits. As a clamp: lowers what the device reports, to prove on a large device what a small one
 * will do. As an output (rhumb_get_limits): min(device, clamp), what variants are chosen from. */
typedef struct rhumb_limits {
    RHUMB_HEADER;
    uint32_t max_invocations;          /* per work group */
    uint32_t max_shared_bytes;         /* shared memory of a work group */
    uint32_t max_push_bytes;
    uint32_t max_storage_buffers;      /* per stage */
    uint32_t max_uniform_range;        /* bytes */
    uint32_t storage_offset_alignment; /* bytes; clamping raises it */
    uint32_t uniform_offset_alignment; /* bytes; clamping raises it */
    uint32_t max_workgroups_x;         /* per dispatch */
    uint32_t max_workgroups_y;
    uint32_t subgroup_size;            /* lanes; 0: unknown. Clamping to 0 turns
                                          subgroup paths off */
    uint32_t subgroup_operations;      /* VkSubgroupFeatureFlags usable in compute; the
                                          clamp is and-ed */
    uint32_t device_address;           /* 1: kernels may read by rhumb_view.address */
    uint64_t max_storage_range;        /* bytes of one storage descriptor; 65536 or more */
} rhumb_limits;

static inline void rhumb_init_limits(rhumb_limits *s)
{
    RHUMB_INIT_HEADER(s, RHUMB_TYPE_LIMITS);
    s->max_invocations = UINT32_MAX;
    s->max_shared_bytes = UINT32_MAX;
    s->max_push_bytes = UINT32_MAX;
    s->max_storage_buffers = UINT32_MAX;
    s->max_uniform_range = UINT32_MAX;
    s->storage_offset_alignment = 1;
    s->uniform_offset_alignment = 1;
    s->max_workgroups_x = UINT32_MAX;
    s->max_workgroups_y = UINT32_MAX;
    s->subgroup_size = UINT32_MAX;
    s->subgroup_operations = UINT32_MAX;
    s->device_address = 1;
    s->max_storage_range = UINT64_MAX;
}

/* The floor that rhumb is right on: what every Vulkan 1.1 device has. */
static inline void rhumb_init_limits_floor(rhumb_limits *s)
{
    rhumb_init_limits(s);
    s->max_invocations = 128;
    s->max_shared_bytes = 16384;
    s->max_push_bytes = 128;
    s->max_storage_buffers = 4;
    s->max_uniform_range = 16384;
    s->storage_offset_alignment = 256;
    s->uniform_offset_alignment = 256;
    s->max_workgroups_x = 65535;
    s->max_workgroups_y = 65535;
    s->subgroup_size = 0;
    s->subgroup_operations = 0;
    s->device_address = 0;
    s->max_storage_range = 134217728;
}

/* Host memory callbacks. Both or none. `allocate` returns memory aligned for any type, or NULL,
 * which becomes RHUMB_ERROR_HOST_MEMORY. They may be called from any thread that calls rhumb;
 * rhumb_record calls neither. Not passed on to the driver. */
typedef struct rhumb_allocator {
    RHUMB_HEADER;
    void *(*allocate)(void *user, size_t size);
    void (*release)(void *user, void *memory);
    void *user;
} rhumb_allocator;

static inline void rhumb_init_allocator(rhumb_allocator *s)
{
    RHUMB_INIT_HEADER(s, RHUMB_TYPE_ALLOCATOR);
}

typedef enum rhumb_log_level {
    RHUMB_LOG_INFO = 0, /* a variant was chosen, and why */
    /* The line of an error that a call returns; of a standalone context also the messages of the
     * validation layer, which begin with "validation: ". */
    RHUMB_LOG_ERROR = 1,
} rhumb_log_level;

/* Called on the thread of the call that has something to say; may be called from several
 * at once. */
typedef void (*rhumb_log_fn)(void *user, rhumb_log_level level, const char *line);

/* A host's device. The handles stay the host's and must outlive the context; rhumb destroys none of
 * them. What is not listed as enabled is taken as off, also when the physical device has it. */
typedef struct rhumb_hosted_info {
    RHUMB_HEADER;
    VkInstance instance;
    VkPhysicalDevice physical_device;
    VkDevice device;
    PFN_vkGetInstanceProcAddr get_instance_proc_addr; /* required; rhumb links no loader */
    uint32_t api_version;                             /* of the device as created; at
                                                         least Vulkan 1.1 */
    uint32_t enabled_extension_count;
    const char *const *enabled_extensions;            /* device extensions, and
                                                         VK_EXT_debug_utils if on */
    VkPipelineCache pipeline_cache;                   /* VK_NULL_HANDLE: rhumb makes one */
    const rhumb_limits *clamp;                        /* NULL: none */
    const rhumb_allocator *allocator;                 /* NULL: malloc and free */
    rhumb_log_fn log;                                 /* NULL: silent */
    void *log_user;
    uint32_t device_address; /* 1: the device was created with the features shaderInt64 and
                                bufferDeviceAddress, by Vulkan 1.2 or VK_KHR_buffer_device_address
                                (which is then among enabled_extensions). Default 0 */
    uint32_t padding;
} rhumb_hosted_info;

static inline void rhumb_init_hosted_info(rhumb_hosted_info *s)
{
    RHUMB_INIT_HEADER(s, RHUMB_TYPE_HOSTED_INFO);
    s->api_version = VK_API_VERSION_1_1;
}

/* Extensions for the host's vkCreateDevice and vkCreateInstance; no feature of a device is needed.
 * Lists are static; do not free. rhumb runs with none of the recommended ones: with
 * VK_EXT_debug_utils its objects carry names. */
typedef struct rhumb_requirements {
    RHUMB_HEADER;
    uint32_t api_version;
    uint32_t queue_flags; /* of the queue of the command buffer: VK_QUEUE_COMPUTE_BIT */
    uint32_t required_device_extension_count;
    uint32_t recommended_device_extension_count;
    uint32_t recommended_instance_extension_count;
    uint32_t padding;
    const char *const *required_device_extensions;
    const char *const *recommended_device_extensions;
    const char *const *recommended_instance_extensions;
} rhumb_requirements;

static inline void rhumb_init_requirements(rhumb_requirements *s)
{
    RHUMB_INIT_HEADER(s, RHUMB_TYPE_REQUIREMENTS);
}

RHUMB_API rhumb_result rhumb_get_requirements(rhumb_requirements *requirements);

/* Errors: ARGUMENT (a missing handle), VERSION, HOST_MEMORY, VULKAN (an entry point is missing),
 * LIMIT (below the floor: fewer than 128 invocations, 16 KiB shared, 4 storage buffers ...). On
 * error *context is NULL; the message is rhumb_last_message(NULL). */
RHUMB_API rhumb_result rhumb_create_hosted(const rhumb_hosted_info *info, rhumb_context **context);

#define RHUMB_DEVICE_ANY UINT32_MAX

/* A device of rhumb's own, for tools, tests and benchmarks. Not in the plugin build, nor in a
 * library built with -Dstandalone=false. The choice: discrete > integrated > virtual > CPU among
 * the devices that match. */
typedef struct rhumb_standalone_info {
    RHUMB_HEADER;
    uint32_t device_index;      /* index in the loader's order, or RHUMB_DEVICE_ANY */
    uint32_t validation;        /* 1: VK_LAYER_KHRONOS_validation with synchronization validation;
                                   messages go to `log` as errors. NO_DEVICE if the layer is not
                                   installed. Default 0 */
    const char *device_name;    /* part of the device's name or of its UUID in
                                   hexadecimal; NULL: any */
    PFN_vkGetInstanceProcAddr get_instance_proc_addr; /* NULL: rhumb opens the system's loader */
    const rhumb_limits *clamp;
    const rhumb_allocator *allocator;
    rhumb_log_fn log;
    void *log_user;
} rhumb_standalone_info;

static inline void rhumb_init_standalone_info(rhumb_standalone_info *s)
{
    RHUMB_INIT_HEADER(s, RHUMB_TYPE_STANDALONE_INFO);
    s->device_index = RHUMB_DEVICE_ANY;
}

/* Errors: as rhumb_create_hosted, and NO_DEVICE. */
RHUMB_API rhumb_result rhumb_create_standalone(const rhumb_standalone_info *info,
                                               rhumb_context **context);

/* The Vulkan objects below a context, for whoever needs buffers and command buffers on its device.
 * The queue is VK_NULL_HANDLE for a hosted context. The caller synchronises access to the queue. */
typedef struct rhumb_device_handles {
    RHUMB_HEADER;
    VkInstance instance;
    VkPhysicalDevice physical_device;
    VkDevice device;
    VkQueue queue;
    uint32_t queue_family;
    uint32_t api_version;
    PFN_vkGetInstanceProcAddr get_instance_proc_addr;
} rhumb_device_handles;

static inline void rhumb_init_device_handles(rhumb_device_handles *s)
{
    RHUMB_INIT_HEADER(s, RHUMB_TYPE_DEVICE_HANDLES);
}

RHUMB_API rhumb_result rhumb_get_device_handles(const rhumb_context *context,
                                                rhumb_device_handles *handles);

RHUMB_API rhumb_result rhumb_get_limits(const rhumb_context *context, rhumb_limits *limits);

/* Plans, bindings and self-tests of the context must have been destroyed. NULL is allowed. A
 * standalone context waits for its device first. */
RHUMB_API void rhumb_destroy_context(rhumb_context *context);

/* The line left by the calling thread's last failing call on this context (NULL: by a failing
 * create call). Valid until this thread's next call into rhumb. Never NULL. */
RHUMB_API const char *rhumb_last_message(const rhumb_context *context);

/* -------------------------------------------------------------------------------------------------
 * Views
 */
typedef enum rhumb_dtype {
    RHUMB_F32 = 0,
    RHUMB_F16 = 1,
    RHUMB_BF16 = 2,
    RHUMB_I32 = 3,
    /* K and V of ATTENTION only: 32 elements in 34 bytes, a float16 scale (little-endian), then a
     * signed byte each; x = scale * byte. As GGUF files have it. head_dim of K and value_dim of V
     * are multiples of 32, so that rows are whole blocks. Strides count elements and are multiples
     * of 32; the view's offset is an even number of bytes. */
    RHUMB_Q8_0 = 4,
} rhumb_dtype;

/* What a tensor is to its operation. Shapes in brackets; L is Lq or Lk. Integer views are I32.
 * Tables are [rows, heads] for scalars, the head fastest, and [heads or 1, rows, head_dim] for
 * vectors; which row serves which distance is the scheme's, in rhumb_schemes.h. */
typedef enum rhumb_view_id {
    RHUMB_VIEW_Q = 0,           /* [B, heads, Lq, head_dim], read */
    RHUMB_VIEW_K = 1,           /* [B, kv_heads, Lk, head_dim], read */
    RHUMB_VIEW_V = 2,           /* [B, kv_heads, Lk, value_dim], read */
    RHUMB_VIEW_O = 3,           /* [B, heads, Lq, value_dim], written. BIAS: [1, heads, Lq, Lk],
                                   SCORES: [B, heads, Lq, Lk] */
    RHUMB_VIEW_Q_OUT = 4,       /* ROTATE: result of Q; absent: Q is rotated in place */
    RHUMB_VIEW_K_OUT = 5,       /* ROTATE: result of K; absent: K is rotated in place. A cache
                                   [B, kv_heads, capacity, head_dim] where rows are appended */
    RHUMB_VIEW_POSITIONS_Q = 6, /* [B, Lq] or [Lq]: position of each row of Q (ROTATE:
                                   of Q and K) */
    RHUMB_VIEW_POSITIONS_K = 7, /* [B, Lk] or [Lk]: position of each key */
    RHUMB_VIEW_LENGTHS = 8,     /* [B, 4] = {k_length, q_length, q_offset, append_position};
                                   INT32_MIN: unset, the dispatch's value holds. Read when the
                                   commands run, so that a command buffer recorded once can be
                                   replayed while the context grows */
    RHUMB_VIEW_STATUS = 9,      /* [1]: how many lengths of LENGTHS were clamped to the plan's or the
                                   views' maxima, how many rows of K lay outside the cache, rows
                                   or positions outside a table, and entries of BLOCK_TABLE or
                                   starts that were clamped, is added (atomically). Zeroed by the
                                   host */
    RHUMB_VIEW_V_OUT = 10,      /* ROTATE: copy of V, as K_OUT; [B, kv_heads, L, value_dim]. V and
                                   V_OUT come together, and beside K */
    RHUMB_VIEW_SLOTS = 11,      /* ROTATE: [B, L] or [L], row of K_OUT and V_OUT for each row of K;
                                   -1 skips. Distinct; others beyond the cache are skipped and
                                   counted in STATUS */
    RHUMB_VIEW_Q_GAIN = 12,     /* ROTATE: [heads or 1, head_dim], RMS norm of Q before rotation */
    RHUMB_VIEW_K_GAIN = 13,     /* ROTATE: [kv_heads or 1, head_dim], likewise of K */
    RHUMB_VIEW_FREQUENCIES = 14, /* ROTATE: [axes, heads, pairs] f32, learned, radians per position;
                                   shape {1, axes, heads, pairs}; heads is kv_heads in a plan
                                   without Q */
    RHUMB_VIEW_TABLE = 15,      /* [rows, heads]: a scalar per head, added to logits. ENCODE,
                                   RESIZE: the learned table [rows, channels] */
    RHUMB_VIEW_QUERY_TABLE = 16, /* [heads or 1, rows, head_dim]: A, meets the query */
    RHUMB_VIEW_KEY_TABLE = 17,  /* [heads or 1, rows, head_dim]: C, meets the key */
    RHUMB_VIEW_VALUE_TABLE = 18, /* [heads or 1, rows, value_dim]: added to V */
    RHUMB_VIEW_TABLE_SCALAR = 19, /* [rows, heads] f32: r, a scalar inside the scale */
    RHUMB_VIEW_CONTENT_BIAS = 20, /* [heads, head_dim]: u, added to Q before it meets K */
    RHUMB_VIEW_POSITION_BIAS = 21, /* [heads, head_dim]: w, added to Q before it meets QUERY_TABLE */
    RHUMB_VIEW_SEGMENT_BIAS = 22, /* [heads, head_dim]: z, added to Q before SEGMENT_TABLE */
    RHUMB_VIEW_SEGMENT_TABLE = 23, /* [heads, 2, head_dim]: row 0 same segment, 1 another one */
    RHUMB_VIEW_SEGMENTS_Q = 24, /* [B, Lq]: segment of each row of Q */
    RHUMB_VIEW_SEGMENTS_K = 25, /* [B, Lk]: of each key */
    RHUMB_VIEW_MASK = 26,       /* [B or 1, heads or 1, Lq or 1, Lk or 1], added to logits after
                                   everything else; -inf, the lowest number of the dtype and all up
                                   to -1e30 hide the key */
    RHUMB_VIEW_ROW_SCALE = 27,  /* [B or 1, heads, Lq] f32: factor of the row's TABLE scalars; in a
                                   plan without a scheme of the row of Q (Llama 4's temperature) */
    RHUMB_VIEW_HEAD_SCALE = 28, /* [heads]: cosine attention's logit scale, a logarithm */
    RHUMB_VIEW_WORKSPACE = 29,  /* plan_properties.workspace_size bytes as f32 {1, 1, 1, n}: written
                                   and read by one record, then free */
    RHUMB_VIEW_SINKS = 30,      /* [heads]: one more logit of each head in the softmax, which takes
                                   weight and has no value */
    RHUMB_VIEW_LSE = 31,        /* [B, heads, Lq] f32, written: ln of the sum of exp of a row's logits,
                                   that of SINKS among them; -infinity for none */
    RHUMB_VIEW_COUNT = 32,
    /* Names of the same ids in operations on tables and embeddings. */
    RHUMB_VIEW_X = RHUMB_VIEW_Q,      /* ENCODE: [B, L, channels], read. PROJECT: [rows, channels] */
    RHUMB_VIEW_Y = RHUMB_VIEW_O,      /* ENCODE, RESIZE, PROJECT: written */
    RHUMB_VIEW_WEIGHT = RHUMB_VIEW_K, /* PROJECT */
    RHUMB_VIEW_OFFSET = RHUMB_VIEW_V, /* PROJECT: b of y = x W^T + b */
    RHUMB_VIEW_POSITIONS = RHUMB_VIEW_POSITIONS_Q,     /* ENCODE */
    RHUMB_VIEW_COLUMN_TABLE = RHUMB_VIEW_KEY_TABLE,    /* ENCODE: [columns, channels] */
    RHUMB_VIEW_VALID = RHUMB_VIEW_SEGMENTS_K,          /* ENCODE: [B, H, W], 1 = valid pixel */
    /* And in ATTENTION: see there. */
    RHUMB_VIEW_BLOCK_TABLE = RHUMB_VIEW_SLOTS,     /* [B, blocks]: block of the pool that has the
                                                      next rows of K and V */
    RHUMB_VIEW_Q_STARTS = RHUMB_VIEW_SEGMENTS_Q,   /* [n + 1], without a term of segments: where the
                                                      rows of each sequence begin, then where all
                                                      end */
    RHUMB_VIEW_K_STARTS = RHUMB_VIEW_SEGMENTS_K,   /* [n + 1]: its keys */
    /* And in COMBINE; part p of batch entry b is entry p B + b. */
    RHUMB_VIEW_PARTS = RHUMB_VIEW_V,             /* [P B, heads, Lq, value_dim]: O of each part */
    RHUMB_VIEW_PART_LSE = RHUMB_VIEW_ROW_SCALE,  /* [P B, heads, Lq] f32: LSE of each part; shape
                                                    {1, P B, heads, Lq} */
} rhumb_view_id;

#define RHUMB_MAX_VIEWS 32 /* ids below this fit the masks and arrays of a plan */
#define RHUMB_VIEW_BIT(id) (1u << (id))
/* Views of I32; all others are of a floating dtype. */
#define RHUMB_INTEGER_VIEWS                                                                        \
    (RHUMB_VIEW_BIT(RHUMB_VIEW_POSITIONS_Q) | RHUMB_VIEW_BIT(RHUMB_VIEW_POSITIONS_K) |             \
     RHUMB_VIEW_BIT(RHUMB_VIEW_LENGTHS) | RHUMB_VIEW_BIT(RHUMB_VIEW_STATUS) |                      \
     RHUMB_VIEW_BIT(RHUMB_VIEW_SLOTS) | RHUMB_VIEW_BIT(RHUMB_VIEW_SEGMENTS_Q) |                    \
     RHUMB_VIEW_BIT(RHUMB_VIEW_SEGMENTS_K))

/* One tensor in a VkBuffer. Lower ranks are right-aligned with leading 1s: [L] is {1, 1, 1, L}.
 * The offset is a multiple of the dtype's size (Q8_0: of 2), any multiple. Every element lies
 * inside the buffer, and so does the whole 4-byte word that holds it. Elements between rows are
 * never touched. A written view does not overlap itself, and shares no 4-byte word with a view that
 * is read unless it is that view: ENCODE's Y may be its X. */
typedef struct rhumb_view {
    RHUMB_HEADER;
    rhumb_view_id id;
    rhumb_dtype dtype;
    VkBuffer buffer;
    uint64_t buffer_size; /* bytes of the VkBuffer */
    uint64_t offset;      /* bytes from its start */
    uint64_t shape[4];    /* [B, H, L, D] */
    int64_t stride[4];    /* elements; 0 broadcasts (views that are read); stride[3] is 1 */
    uint64_t address;     /* VkDeviceAddress of the VkBuffer's start, or 0 (default). Kernels that
                             use it (ATTENTION, ENCODE, BIAS on CPU devices) are chosen where all
                             views of floating dtypes have one, rows start at multiples of 4
                             elements and the context may (rhumb_limits.device_address); buffers need
                             VK_BUFFER_USAGE_SHADER_DEVICE_ADDRESS_BIT */
} rhumb_view;

/* A contiguous [b, h, l, d] at the start of a buffer; change offset and strides as needed. */
static inline void rhumb_init_view(rhumb_view *s, rhumb_view_id id, rhumb_dtype dtype,
                                   VkBuffer buffer, uint64_t buffer_size, uint64_t b, uint64_t h,
                                   uint64_t l, uint64_t d)
{
    RHUMB_INIT_HEADER(s, RHUMB_TYPE_VIEW);
    s->id = id;
    s->dtype = dtype;
    s->buffer = buffer;
    s->buffer_size = buffer_size;
    s->shape[0] = b;
    s->shape[1] = h;
    s->shape[2] = l;
    s->shape[3] = d;
    s->stride[0] = (int64_t)(h * l * d);
    s->stride[1] = (int64_t)(l * d);
    s->stride[2] = (int64_t)d;
    s->stride[3] = 1;
}

/* -------------------------------------------------------------------------------------------------
 * Plan
 */

/* A compiled operation: pipelines, layouts, constants. Immutable.
 * Thread-safety: may be used from any number of threads at once. */
typedef struct rhumb_plan rhumb_plan;

typedef enum rhumb_op {
    /* Rotates Q, K or both by the plan's rotary scheme. Views: Q and/or K; optional Q_OUT, K_OUT,
     * V and V_OUT, SLOTS, Q_GAIN, K_GAIN, FREQUENCIES, POSITIONS_Q, LENGTHS, STATUS. q_length rows of
     * each; row a has the position POSITIONS_Q[b, a], or q_offset + a. Channels outside the rotary
     * window, and V, are copied, bit for bit where both sides have one dtype. With plan_info.append
     * K_OUT, and V_OUT with V, are a cache. See plan_info.purpose for keys that were rotated before.
     *
     * With Q_GAIN, K_GAIN or both (QK-norm of Qwen3, Gemma 3) each row of that tensor is normalised
     * before it turns: x / sqrt(mean(x^2) + norm_epsilon) * (gain_offset + gain), over all head_dim
     * channels, in float32. Then every channel changes, those outside the window and in place too.
     * A row of zeros stays zeros; numbers whose squares leave float32, from some 1e18 on or below
     * 1e-19 with an epsilon of 0, make one. The gain belongs to the channel before it turns: where
     * weights are permuted to another pairing, so are gains of their own for each channel. Not with
     * other purposes than ROTATE, nor with dispatch.inverse: UNSUPPORTED. */
    RHUMB_OP_ROTATE = 1,
    /* O = softmax(scale * Q K^T, masked) V, with no buffer of size Lq x Lk unless UNFUSED. Views: Q, K, V, O;
     * optional POSITIONS_Q, POSITIONS_K, LENGTHS, STATUS, SINKS, LSE, BLOCK_TABLE, Q_STARTS and
     * K_STARTS. With plan_info.rotary Q is rotated when
     * it is loaded; K has been rotated when it was written. Accumulates in float32. With
     * plan_info.scheme its terms join the logits and, with VALUE_TABLE, the values:
     *   S = s ((q + u) . k + (q + w) . A[rho] + k . C[rho] + r[rho] + (q + z) . G[segment])
     *       + b[rho],    O = sum P (v + V[rho]),    rho a row made from delta = pos_k - pos_q
     * delta goes by the position views where both are there, else by the indices a + q_offset and
     * j.
     *
     * With WORKSPACE a plan of few rows, as in decode, cuts its keys into slices of 256 or more, as
     * many as fill the machine: work groups of their own, merged by a second dispatch of the record
     * in ascending order. plan_properties.workspace_size is 0 where there is nothing to cut. The
     * bits do not depend on how many slices a record reaches. A plan of many rows leaves WORKSPACE
     * alone, unless UNFUSED.
     *
     * Paged keys: with BLOCK_TABLE {1, 1, B, n} K and V are pools of blocks, [blocks, kv_heads,
     * rows, head_dim] and likewise with value_dim: key j of batch entry b is row j % rows of block
     * BLOCK_TABLE[b, j / rows], any rows from 1. Lk is n * rows, or the plan's max_k_length if that
     * is less; positions, masks, windows and distances go by j as ever. Entries of the table that
     * lie beyond a batch entry's keys are not read, and blocks that no entry names may hold
     * anything. An entry outside the pool stands for the pool's last block, and is counted in
     * STATUS, once a record.
     *
     * Packed sequences: with Q_STARTS and K_STARTS {1, 1, 1, n + 1} the tensors are [1, heads, rows
     * of all, head_dim] and so on, LSE is {1, 1, heads, rows of all}, ROW_SCALE likewise, and
     * POSITIONS_Q and POSITIONS_K are [rows of all] and [keys of all]; B of a record is n. Sequence
     * s has rows Q_STARTS[s] up to, not including, Q_STARTS[s + 1] and keys K_STARTS[s] up to
     * K_STARTS[s + 1], none or some; it is computed as a batch entry of that length, also where
     * q_offset is unset (bottom-right). q_length and k_length of the dispatch stay unset; the
     * plan's max_q_length and max_k_length bound one sequence. Starts that fall or leave the
     * tensors, and sequences that are longer than that, are cut and counted in STATUS; rows that
     * two sequences claim hold the result of either. Rows of no sequence stay as they are. Not with
     * LENGTHS, MASK, BLOCK_TABLE, a scheme's segments or its windows: UNSUPPORTED.
     *
     * K and V may be Q8_0. */
    RHUMB_OP_ATTENTION = 2,
    /* Y = x_scale X + pe_scale PE, or pe_scale PE alone without X, by an absolute scheme. Views: Y,
     * optional X, and those of the scheme's block. Y [B, 1, L, D], over a grid also [B, D, H, W]; X
     * has Y's shape and may be Y, in place: the same VkBuffer, offset, strides and dtype. Computes
     * in float32. A record over a grid encodes all of it: q_length and q_offset stay unset. */
    RHUMB_OP_ENCODE = 3,
    /* Y: a learned table resampled to another grid; plan_info.scheme is a rhumb_resize. Views:
     * TABLE {1, 1, rows, head_dim}, Y likewise. The grids say the rows: max_q_length means nothing. */
    RHUMB_OP_RESIZE = 4,
    /* O [1, heads, Lq, Lk] = b, the part of a relative scheme's logits that is free of Q and K, to
     * be added to them (times the plan's scale where the scheme has its bias inside). Views: O;
     * TABLE where the scheme has one; optional POSITIONS_Q, POSITIONS_K ([L]), LENGTHS (of one batch
     * entry), STATUS. Row a has the position q_offset + a, q_offset as in ATTENTION, key j the
     * position j; with both position views those of the views. Elements beyond q_length and k_length
     * stay as they are. Schemes with windows: O is one window, or with a shift
     * [windows, heads, N, N], the mask included. */
    RHUMB_OP_BIAS = 5,
    /* O [B, heads, Lq, Lk] = S, with every positional term, before any mask, for rows below q_length
     * and keys below k_length. With plan_info.rotary Q is rotated when it is loaded, K has been
     * rotated. Views: Q, K, O; those of the scheme but VALUE_TABLE; optional POSITIONS_Q,
     * POSITIONS_K, LENGTHS, STATUS. With windows of a grid O is [windows B, heads, N, N], without
     * the mask between regions; padding tokens have q = k = 0 and rows of their own. */
    RHUMB_OP_SCORES = 6,
    /* Y = X W^T + b: the tables of schemes that project their position embedding. Views: X [rows,
     * channels] {1, 1, rows, value_dim}; WEIGHT by plan_info.weight_layout; optional OFFSET (b)
     * {1, 1, heads, head_dim}; Y {1, heads, rows, head_dim}. With TABLE_SCALAR {1, 1, rows, heads},
     * CONTENT_BIAS (u) and POSITION_BIAS (w) it also writes (w - u) . Y[h, row]: see
     * rhumb_transformer_xl. max_q_length rows; value_dim channels of X, up to 32768. With scheme
     * swin_v2: see rhumb_swin_v2. */
    RHUMB_OP_PROJECT = 7,
    /* Attention whose keys were split: results over P disjoint ranges of keys, from other devices or
     * other segments of a cache, merged by their LSE:
     *   LSE = ln sum_p exp(LSE_p),    O = sum_p exp(LSE_p - LSE) O_p
     * Views: PARTS, PART_LSE, O [B, heads, Lq, value_dim]; optional LSE. Rows below q_length. Each
     * part is an ATTENTION over the K and V of its range, with LSE, its k_length that of the range
     * and its q_offset less by the first key of the range; SINKS go to one of the parts only. A part
     * whose LSE is -infinity counts nothing, whatever its rows of PARTS hold; where all are, O is
     * zeros and LSE -infinity. Parts are added in ascending order: the same bits each time. P
     * follows from the views. See dispatch.key_ranges. head_dim says nothing; 1, its default, will
     * do. */
    RHUMB_OP_COMBINE = 8,
} rhumb_op;

/* ROTATE: what the rows of K (or Q) are. Rows that were rotated before lie as they were written:
 * with INTERLEAVED_TO_HALF they are read and written half, in place or not. */
typedef enum rhumb_purpose {
    RHUMB_PURPOSE_ROTATE = 0, /* not rotated yet */
    /* Rotated keys that move by a distance: positions are the distances, q_offset one distance for
     * all rows of a batch entry (LENGTHS: for each), any sign; the same along every axis, where
     * pairs have several. The magnitude is not applied twice, nor a constant phase. */
    RHUMB_PURPOSE_SHIFT = 1,
    /* Keys that were rotated under old_length of rhumb_write_constants, at the positions given, and
     * meet queries of new_length. For schedules that follow the length; UNSUPPORTED for others,
     * whose keys never become stale, and for growing pairs (xpos). */
    RHUMB_PURPOSE_RESCHEDULE = 2,
} rhumb_purpose;

/* PROJECT: how W lies in memory. */
typedef enum rhumb_weight_layout {
    RHUMB_WEIGHT_OUT_IN = 0, /* [heads, head_dim, channels]: {1, heads, head_dim, value_dim} */
    RHUMB_WEIGHT_IN_OUT = 1, /* [channels, heads, head_dim]: {1, value_dim, heads, head_dim}: XLNet */
} rhumb_weight_layout;

/* ROTATE: which row of K_OUT and V_OUT takes row a of K and V. Both are caches of one capacity,
 * then; a row of LENGTHS or SLOTS that would lie outside is skipped, and counted in STATUS. A ring
 * takes no more rows in a dispatch than its capacity. */
typedef enum rhumb_append {
    RHUMB_APPEND_NONE = 0,     /* row a */
    RHUMB_APPEND_POSITION = 1, /* row append_position + a */
    RHUMB_APPEND_RING = 2,     /* row (append_position + a) modulo the capacity */
    RHUMB_APPEND_SLOTS = 3,    /* row SLOTS[b, a] */
} rhumb_append;

/* Which key is visible to which query row, when dispatch.causal is on. */
typedef enum rhumb_mask_order {
    RHUMB_MASK_ORDER_AUTO = 0,     /* POSITION if the plan has both position views, else INDEX */
    RHUMB_MASK_ORDER_INDEX = 1,    /* key j is visible to row a iff j <= a + q_offset */
    RHUMB_MASK_ORDER_POSITION = 2, /* iff POSITIONS_K[b, j] <= POSITIONS_Q[b, a] */
} rhumb_mask_order;

/* The kernels of an operation. AUTO chooses from the limits; naming one is for tests and benchmarks
 * and is refused with the numbers where it does not fit. */
typedef enum rhumb_variant {
    RHUMB_VARIANT_AUTO = 0,
    RHUMB_VARIANT_GENERIC = 1, /* any head size, any alignment */
    RHUMB_VARIANT_TILE = 2,    /* attention, prefill: tiles in shared memory */
    RHUMB_VARIANT_DECODE = 3,  /* attention, few query rows: keys across lanes; any bias of a scheme,
                                  no terms that meet Q, K or V */
    RHUMB_VARIANT_UNFUSED = 4, /* attention: SCORES, softmax and values one after the other, in
                                  blocks of rows through WORKSPACE */
    RHUMB_VARIANT_BROADCAST = 5, /* attention on CPU devices: rows across lanes, keys spread by
                                    subgroup broadcasts, views read by address */
} rhumb_variant;

#define RHUMB_SCALE_AUTO 3.402823466e+38f /* 1 / sqrt(head_dim) */
/* rhumb chooses: one slot a view where the device allows it */
#define RHUMB_SLOT_AUTO UINT32_MAX

typedef struct rhumb_plan_info {
    RHUMB_HEADER;
    rhumb_op op;
    rhumb_variant variant;
    const void *rotary;      /* a rotary scheme struct of rhumb_schemes.h, or NULL. Copied */
    const void *scheme;      /* a relative scheme struct, or NULL for no position; ENCODE: an absolute
                                one; RESIZE: a rhumb_resize. Copied */
    uint32_t heads;          /* of Q; 1 or more. ENCODE, RESIZE: 1, their default */
    uint32_t kv_heads;       /* of K and V; divides heads. Default RHUMB_SAME: as heads */
    uint32_t head_dim;       /* 1 to 576. ENCODE: the channels D, 1 to 32768. BIAS, COMBINE: says
                                nothing; 1, its default, will do */
    uint32_t value_dim;      /* 1 to 576. Default RHUMB_SAME: as head_dim */
    uint32_t max_q_length;   /* rows that a dispatch may ask for; required. ENCODE over a grid:
                                prefix + H W */
    uint32_t max_k_length;   /* keys likewise. Default RHUMB_SAME: as max_q_length */
    uint32_t views;          /* RHUMB_VIEW_BIT of every view that bindings will have */
    float scale;             /* up to 1e38 in magnitude; default RHUMB_SCALE_AUTO */
    rhumb_mask_order mask_order;
    uint32_t padding;
    rhumb_dtype dtype[RHUMB_MAX_VIEWS]; /* by view id. Default F32, and I32 for integer views */
    uint32_t slot[RHUMB_MAX_VIEWS];     /* by view id: descriptor slot; views of one slot lie in one
                                           range of one VkBuffer. Default RHUMB_SLOT_AUTO */
    const char *name;                   /* debug name of the Vulkan objects, or NULL */
    rhumb_purpose purpose;              /* ROTATE; default ROTATE */
    rhumb_append append;                /* ROTATE; default NONE */
    float norm_epsilon;                 /* ROTATE with Q_GAIN or K_GAIN; 0 or more; default 1e-6 */
    float gain_offset;                  /* likewise; 1 where the model stores gain - 1 (Gemma);
                                           default 0 */
    rhumb_weight_layout weight_layout;  /* PROJECT; default OUT_IN */
    uint32_t padding_end;
} rhumb_plan_info;

#define RHUMB_SAME UINT32_MAX

static inline void rhumb_init_plan_info(rhumb_plan_info *s, rhumb_op op)
{
    uint32_t i;
    RHUMB_INIT_HEADER(s, RHUMB_TYPE_PLAN_INFO);
    s->op = op;
    if (op == RHUMB_OP_ENCODE || op == RHUMB_OP_RESIZE)
        s->heads = 1;
    if (op == RHUMB_OP_RESIZE)
        s->max_q_length = 1; /* says nothing: the grids do */
    if (op == RHUMB_OP_BIAS || op == RHUMB_OP_COMBINE)
        s->head_dim = 1; /* says nothing: no Q and K */
    s->kv_heads = RHUMB_SAME;
    s->value_dim = RHUMB_SAME;
    s->max_k_length = RHUMB_SAME;
    s->scale = RHUMB_SCALE_AUTO;
    s->norm_epsilon = 1e-6f;
    for (i = 0; i < RHUMB_MAX_VIEWS; i++) {
        s->dtype[i] = (RHUMB_INTEGER_VIEWS >> i & 1u) ? RHUMB_I32 : RHUMB_F32;
        s->slot[i] = RHUMB_SLOT_AUTO;
    }
}

/* What a plan is and costs. */
typedef struct rhumb_plan_properties {
    RHUMB_HEADER;
    rhumb_variant variant;
    uint32_t pipeline_count;
    uint32_t invocations;          /* of a work group */
    uint32_t shared_bytes;         /* of a work group */
    uint32_t rows_per_group;
    uint32_t keys_per_step;        /* 0 for operations without keys */
    uint32_t slot_count;           /* storage descriptors */
    /* of each view; RHUMB_SLOT_AUTO for views that are not in the plan */
    uint32_t slot[RHUMB_MAX_VIEWS];
    uint32_t constants_size;       /* bytes of the constants block, at most 16384 */
    uint32_t bindings_size;        /* bytes of the bindings block */
    uint32_t padding;
    uint64_t workspace_size;       /* bytes of WORKSPACE for one batch entry at the plan's maxima;
                                      times B. 0: none wanted. UNFUSED: rows are taken in blocks of
                                      up to 16 MiB of logits, or one by one where a row of all heads
                                      has more. DECODE, GENERIC: (value_dim + 2) floats for each row,
                                      head and slice of keys */
    uint64_t flops;                /* of one batch entry at the plan's maximum lengths, nothing
                                      masked: two a multiply-add, those of a scheme's vectors among
                                      them, as if no row of its tables served two distances */
    uint64_t bytes;                /* read and written, likewise, everything once; WORKSPACE
                                      written and read */
    uint32_t src_stage;            /* the barrier the host places before: its writes -> */
    uint32_t src_access;           /*   VkPipelineStageFlags and VkAccessFlags of rhumb's reads */
    uint32_t dst_stage;            /* and after: rhumb's writes, the source scope of the
                                      host's barrier */
    uint32_t dst_access;
    char reason[192];              /* why this variant, in one line */
    uint32_t table_rows;           /* rows that the scheme's tables have; 0: no tables */
    uint32_t table_zero;           /* row of distance 0 */
} rhumb_plan_properties;

static inline void rhumb_init_plan_properties(rhumb_plan_properties *s)
{
    RHUMB_INIT_HEADER(s, RHUMB_TYPE_PLAN_PROPERTIES);
}

/* Validates and describes without compiling anything. Errors: as rhumb_create_plan. */
RHUMB_API rhumb_result rhumb_query_plan(rhumb_context *context, const rhumb_plan_info *info,
                                        rhumb_plan_properties *properties);

/* Compiles. Pipelines are shared by the plans of a context. Errors: ARGUMENT, VERSION, UNSUPPORTED,
 * LIMIT, HOST_MEMORY, DEVICE_MEMORY, DEVICE_LOST, VULKAN. On error *plan is NULL. */
RHUMB_API rhumb_result rhumb_create_plan(rhumb_context *context, const rhumb_plan_info *info,
                                         rhumb_plan **plan);
RHUMB_API rhumb_result rhumb_get_plan_properties(const rhumb_plan *plan,
                                                 rhumb_plan_properties *properties);

/* Its bindings must have been destroyed, and the GPU must be done with it. NULL is allowed. */
RHUMB_API void rhumb_destroy_plan(rhumb_plan *plan);

/* Writes the constants block: what rhumb computes for a plan (frequencies, scale). The host puts
 * the bytes into a uniform buffer. Rotary kinds that depend on the length (NTK_DYNAMIC,
 * LINEAR_DYNAMIC, LONGROPE) are computed for new_length, the largest position + 1; 0 is the
 * shortest. They are written again, into another place, when the length grows: the largest length
 * that counts is the host's to keep. old_length is the length under which cached keys were rotated;
 * only RHUMB_PURPOSE_RESCHEDULE reads it. All other kinds ignore both (pass 0). `size` is at least
 * plan_properties.constants_size. */
RHUMB_API rhumb_result rhumb_write_constants(const rhumb_plan *plan, uint32_t old_length,
                                             uint32_t new_length, void *memory, size_t size);

/* Whether keys rotated by this plan's frequencies of old_length differ from those of new_length:
 * *stale is 1 where they must be rotated anew before they meet queries of new_length, else 0.
 * NTK_DYNAMIC and LINEAR_DYNAMIC: for any two lengths whose larger one is beyond max_length, unless
 * equal. LONGROPE: on the two sides of original_length, unless both lists are the same. Everything
 * else, and a plan without rotation: never. Errors: ARGUMENT; then *stale is as it was.
 * Thread-safety: any thread. */
RHUMB_API rhumb_result rhumb_keys_stale(const rhumb_plan *plan, uint32_t old_length,
                                        uint32_t new_length, uint32_t *stale);

/* -------------------------------------------------------------------------------------------------
 * Bindings
 */

/* The buffers of one use of a plan: descriptor sets, and the bindings block. Must outlive the
 * GPU's use of it. Thread-safety: immutable; may be recorded from any number of threads at once. */
typedef struct rhumb_bindings rhumb_bindings;

typedef struct rhumb_bindings_info {
    RHUMB_HEADER;
    const rhumb_view *views;    /* exactly the views of plan_info.views, in any order */
    uint32_t view_count;
    uint32_t padding;
    VkBuffer constants_buffer;  /* VK_BUFFER_USAGE_UNIFORM_BUFFER_BIT; holds the constants block */
    VkBuffer bindings_buffer;   /*   at any offset the dispatch names; may be the same buffer for
                                     both blocks */
} rhumb_bindings_info;

static inline void rhumb_init_bindings_info(rhumb_bindings_info *s)
{
    RHUMB_INIT_HEADER(s, RHUMB_TYPE_BINDINGS_INFO);
}

/* Validates every view against the plan and the limits. Errors: ARGUMENT (a view missing, unknown
 * or twice; shape, stride, offset; beyond its buffer; overlap), LIMIT (range), UNSUPPORTED
 * (alignment, after a failed self-test), VERSION, HOST_MEMORY, DEVICE_MEMORY. On error *bindings is
 * NULL. Views may be longer than the plan's maximum lengths; what a record asks for may not.
 *
 * The views of a slot lie within max_storage_range bytes, but for ATTENTION: where Q, K, V or O span
 * more, there is a descriptor set, and in a record a dispatch, for each run of batch entries that
 * fits, or of kv heads of one batch entry. That holds for slots with none but these views, for
 * contiguous views, plans of one stage (not UNFUSED, nor decode in slices) and schemes without
 * windows; a single batch entry and kv head has to fit. Kernels that read by address are not chosen
 * then; beside that the bits are those of one descriptor. */
RHUMB_API rhumb_result rhumb_create_bindings(const rhumb_plan *plan,
                                             const rhumb_bindings_info *info,
                                             rhumb_bindings **bindings);
RHUMB_API void rhumb_destroy_bindings(rhumb_bindings *bindings);

/* Writes the bindings block (strides and offsets), plan_properties.bindings_size bytes. */
RHUMB_API rhumb_result rhumb_write_bindings(const rhumb_bindings *bindings, void *memory,
                                            size_t size);

/* -------------------------------------------------------------------------------------------------
 * Record
 */
#define RHUMB_UNSET INT32_MIN
#define RHUMB_NO_WINDOW INT32_MAX

/* Keys first to end - 1 of a sequence; 0 <= first <= end. */
typedef struct rhumb_key_range {
    int32_t first;
    int32_t end;
} rhumb_key_range;

typedef struct rhumb_dispatch {
    RHUMB_HEADER;
    uint32_t constants_offset; /* bytes into the constants buffer; a multiple of the device's */
    uint32_t bindings_offset;  /*   minUniformBufferOffsetAlignment; both default 0 */
    int32_t q_length;          /* rows of Q; default RHUMB_UNSET: as many as the views have */
    int32_t k_length;          /* keys, one number for all batches; default RHUMB_UNSET: likewise */
    int32_t q_offset;          /* ROTATE, ENCODE: position of row 0; RHUMB_UNSET (default): 0.
                                  ATTENTION, SCORES, BIAS: see mask_order; RHUMB_UNSET: k_length -
                                  q_length of each batch entry (bottom-right); 0: top-left; negative
                                  leaves rows empty; at least -2^30. Also Q's position when it is
                                  rotated inside without a position view; then 0 or more */
    uint32_t causal;           /* ATTENTION: 1 turns mask_order's rule on; default 0 */
    int32_t window_left;       /* ATTENTION: pos_q - pos_k < window_left (counts the token itself);
                                  1 or more */
    int32_t window_right;      /*   pos_k - pos_q <= window_right; 0 or more. Default
                                    RHUMB_NO_WINDOW */
    uint32_t inverse;          /* ROTATE: 1 rotates by minus the angle; default 0 */
    uint32_t padding;
    int32_t append_position;   /* ROTATE with plan_info.append POSITION or RING: cache row of row 0,
                                  0 or more; default RHUMB_UNSET: q_offset, or 0 if that is unset
                                  or a distance. LENGTHS may have one a batch entry */
    uint32_t padding_2; /* the end of older structs */
    float softcap;             /* ATTENTION: logits become softcap tanh(logit / softcap), before any
                                  mask; above 0. Default INFINITY: none */
    uint32_t bias_after_softcap; /* 1: b of a scheme is added after the cap; default 0: it is capped
                                    with the rest. MASK's elements always come after */
    int32_t chunk;             /* ATTENTION: a row sees keys of its own block of `chunk` positions
                                  only: floor(pos / chunk) is the same; 1 or more. Default
                                  RHUMB_NO_WINDOW: all */
    int32_t kept_keys;         /* ATTENTION: keys at positions 0 to kept_keys - 1 stay visible to
                                  later rows beyond window_left and chunk (attention sinks);
                                  default 0 */
    uint64_t max_flops;        /* a record whose plan_properties.flops times B are more is cut into
                                  several vkCmdDispatch of at most as many, or of one work group
                                  each, with barriers between them; 1 or more. Default UINT64_MAX:
                                  cut only where the device's limit of work groups wants it. Same
                                  bits either way */
    const rhumb_key_range *key_ranges; /* COMBINE: the keys that each part has seen, for a check:
                                  ranges that overlap or do not ascend are refused. Default NULL:
                                  not looked at */
    uint32_t part_count;       /* elements of key_ranges: P; default 0, with NULL */
    uint32_t padding_ranges;
} rhumb_dispatch;

static inline void rhumb_init_dispatch(rhumb_dispatch *s)
{
    RHUMB_INIT_HEADER(s, RHUMB_TYPE_DISPATCH);
    s->q_length = RHUMB_UNSET;
    s->k_length = RHUMB_UNSET;
    s->q_offset = RHUMB_UNSET;
    s->append_position = RHUMB_UNSET;
    s->window_left = RHUMB_NO_WINDOW;
    s->window_right = RHUMB_NO_WINDOW;
    s->softcap = INFINITY;
    s->chunk = RHUMB_NO_WINDOW;
    s->max_flops = UINT64_MAX;
}

/* Records into a command buffer in the recording state, outside a render pass. Clobbers the bound
 * compute pipeline, compute descriptor set 0 and push constants. Places barriers only between its
 * own dispatches: those before and after are the host's, with the masks of plan_properties. Calls
 * no allocator and takes no lock of rhumb's. With a LENGTHS view the dispatch covers the views'
 * maxima and ends early. With q_length 0 and no LENGTHS (what has rows of Q) dispatches are
 * recorded that have no work groups: they read and write nothing, and drivers that compile a
 * pipeline at its first dispatch (lavapipe) do so there. That is a warm-up, submitted while a model
 * loads. Errors: ARGUMENT, LIMIT (lengths beyond the plan's or the views'), VERSION; then nothing has
 * been recorded.
 * Thread-safety: as Vulkan: one thread at a time for one command buffer. */
RHUMB_API rhumb_result rhumb_record(VkCommandBuffer command_buffer, const rhumb_bindings *bindings,
                                    const rhumb_dispatch *dispatch);

/* -------------------------------------------------------------------------------------------------
 * Self-test
 *
 * Finds devices and drivers that compute wrongly: small operations with known answers, one for each
 * kernel that plans of this context could get. Runs only when the host asks, on the host's memory,
 * in the host's command buffer:
 *
 *     rhumb_query_self_test    how many bytes of a buffer it needs
 *     rhumb_create_self_test   compiles, and writes inputs into the host's mapping of these bytes
 *     rhumb_record_self_test   into a command buffer; the host submits it and waits
 *     rhumb_read_self_test     compares; kernels with a wrong answer are avoided from now on
 *
 * Plans of the context that are made afterwards take another kernel, and plan_properties.reason
 * says so: scalar rotation for vector rotation; the tile without shuffles for the one with them;
 * the generic form for a tile; a tile or the generic form for decode. Where nothing is left, of all
 * or of the form that plan_info.variant names, they are UNSUPPORTED. Where the form for any
 * alignment (scalar, generic) is avoided, a plan of a fast form works, and create_bindings refuses
 * rows that start at no multiple of 4 elements: UNSUPPORTED. Plans made before keep their kernels:
 * run the test first, or make them again. What is avoided stays so as long as the context lives.
 *
 * Covered: both pairings, alignments and places (Q in place in f32, K out of place in f16),
 * positions from -(2^31 - 1) to 2^31 - 1; causal attention with 3 query heads a kv head, Q and O in
 * f32, K and V in f16, lengths that are multiples of no tile. Not covered: other head sizes than
 * the few that are used, bf16, position and length views of attention, rotation inside attention.
 */
typedef enum rhumb_self_test_kernel { /* bits of a mask */
    RHUMB_SELF_TEST_ROTATE = 1,            /* scalar accesses, any alignment */
    RHUMB_SELF_TEST_ROTATE_VECTOR = 2,     /* rows at multiples of 4 elements */
    RHUMB_SELF_TEST_ATTENTION_GENERIC = 4,
    RHUMB_SELF_TEST_ATTENTION_TILE = 8,    /* row maxima through shared memory */
    RHUMB_SELF_TEST_ATTENTION_TILE_SUBGROUP = 16, /* row maxima by shuffles */
    RHUMB_SELF_TEST_ATTENTION_DECODE = 32,
} rhumb_self_test_kernel;

typedef struct rhumb_self_test_properties {
    RHUMB_HEADER;
    uint64_t buffer_size;    /* bytes; some 300 KiB, more where alignments are above 256 */
    uint64_t alignment;      /* of their offset in the VkBuffer */
    uint32_t kernels;        /* rhumb_self_test_kernel: those that will be tested */
    uint32_t pipeline_count; /* that create_self_test compiles at most */
} rhumb_self_test_properties;

static inline void rhumb_init_self_test_properties(rhumb_self_test_properties *s)
{
    RHUMB_INIT_HEADER(s, RHUMB_TYPE_SELF_TEST_PROPERTIES);
}

/* Errors: ARGUMENT (no context), VERSION. */
RHUMB_API rhumb_result rhumb_query_self_test(const rhumb_context *context,
                                             rhumb_self_test_properties *properties);

/* Plans, bindings and the place of the answers. Thread-safety: one thread at a time for one
 * self-test; the context meanwhile as ever. */
typedef struct rhumb_self_test rhumb_self_test;

/* The buffer and the mapping stay the host's, and must stay until rhumb_read_self_test has
 * returned. */
typedef struct rhumb_self_test_info {
    RHUMB_HEADER;
    VkBuffer buffer;      /* VK_BUFFER_USAGE_STORAGE_BUFFER_BIT and _UNIFORM_BUFFER_BIT */
    uint64_t buffer_size; /* bytes of the VkBuffer */
    uint64_t offset;      /* of the bytes lent; a multiple of properties.alignment, below 4 GiB with
                             properties.buffer_size */
    void *memory;         /* where the host has mapped the byte at `offset`; written by create,
                             read by read_self_test */
} rhumb_self_test_info;

static inline void rhumb_init_self_test_info(rhumb_self_test_info *s)
{
    RHUMB_INIT_HEADER(s, RHUMB_TYPE_SELF_TEST_INFO);
}

/* Compiles, as rhumb_create_plan; also kernels that are avoided already. Where the memory is not
 * coherent the host flushes it afterwards. Errors: ARGUMENT (no context, buffer or memory; a wrong
 * offset; too few bytes), LIMIT (a clamp below 128 work groups), and those of rhumb_create_plan and
 * rhumb_create_bindings. On error *test is NULL, and no byte has been written. */
RHUMB_API rhumb_result rhumb_create_self_test(rhumb_context *context,
                                              const rhumb_self_test_info *info,
                                              rhumb_self_test **test);

/* Records some 8 small dispatches, as rhumb_record does: same state clobbered, no allocation, no
 * lock. Its dispatches need no barrier between them; the host places those around: before, from
 * VK_PIPELINE_STAGE_HOST_BIT, VK_ACCESS_HOST_WRITE_BIT (a submission has it built in); after, from
 * VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT, VK_ACCESS_SHADER_WRITE_BIT to VK_ACCESS_HOST_READ_BIT.
 * Once for a test, and the commands run once: some work is in place. Errors: ARGUMENT (no command
 * buffer or test; recorded before), DEVICE_LOST; then nothing has been recorded. */
RHUMB_API rhumb_result rhumb_record_self_test(VkCommandBuffer command_buffer,
                                              rhumb_self_test *test);

typedef struct rhumb_self_test_result {
    RHUMB_HEADER;
    uint32_t tested;    /* rhumb_self_test_kernel */
    uint32_t failed;    /* of these: wrong answers, avoided from now on */
    double worst_error; /* the largest beside the rounding of float16, as a part of its bound: 1 and
                           below has passed. INFINITY for NaN */
    char text[192];     /* one line: the first wrong answer with kernel, element, got and want, or
                           how many kernels have passed */
} rhumb_self_test_result;

static inline void rhumb_init_self_test_result(rhumb_self_test_result *s)
{
    RHUMB_INIT_HEADER(s, RHUMB_TYPE_SELF_TEST_RESULT);
}

/* When the GPU is done (where the memory is not coherent the host invalidates it first): compares
 * with answers that are computed here, in double. Too early, and what has not been written yet
 * counts as wrong. RHUMB_OK also with wrong answers: look at result.failed. Each operation that has
 * some is a line of the log (RHUMB_LOG_ERROR). Changes nothing in the memory, and may be called
 * again. Errors: ARGUMENT (no test; not recorded), VERSION, DEVICE_LOST; then nothing is
 * avoided. */
RHUMB_API rhumb_result rhumb_read_self_test(rhumb_self_test *test, rhumb_self_test_result *result);

/* The GPU must be done with it. NULL is allowed. */
RHUMB_API void rhumb_destroy_self_test(rhumb_self_test *test);

/* -------------------------------------------------------------------------------------------------
 * Cache
 */

/* Compiled pipelines as a blob for the next run of the program. With data NULL, writes the size;
 * else copies at most *size bytes and writes how many. ARGUMENT if *size is too small. */
RHUMB_API rhumb_result rhumb_export_cache(rhumb_context *context, size_t *size, void *data);

/* A stale, foreign or damaged blob is a miss: RHUMB_OK, and *used is 0. `used` may be NULL. */
RHUMB_API rhumb_result rhumb_import_cache(rhumb_context *context, const void *data, size_t size,
                                          uint32_t *used);

/* -------------------------------------------------------------------------------------------------
 * Schemes from a model's configuration
 */
typedef enum rhumb_value_kind {
    RHUMB_VALUE_NULL = 0,
    RHUMB_VALUE_NUMBER = 1,
    RHUMB_VALUE_BOOL = 2,
    RHUMB_VALUE_STRING = 3,
    RHUMB_VALUE_LIST = 4, /* items are values without a path */
} rhumb_value_kind;

/* One key of a configuration: "rope_scaling.factor" = 8. Memory is the caller's. */
typedef struct rhumb_key {
    const char *path; /* dotted; NULL in a list */
    rhumb_value_kind kind;
    uint32_t count;   /* LIST: number of items */
    double number;    /* NUMBER; BOOL: 0 or 1 */
    const char *string;
    const struct rhumb_key *items;
} rhumb_key;

#define RHUMB_MAX_LAYERS 512u

/* One kind of layer of a model: most models have one, Gemma 3 has "full_attention" and
 * "sliding_attention". Kinds with rotary come first; a vision tower is the last, "vision". A model
 * with encoder and decoder has a kind for each, "encoder" and "decoder", with layers of their own;
 * cross-attention is no kind: it has no scheme. Swin has a kind for each stage, and one more for
 * its shifted layers. Numbers of heads that a configuration does not have are 0. */
typedef struct rhumb_layer_kind {
    RHUMB_HEADER;
    char name[32];        /* "attention" where a model has one kind */
    const void *scheme;   /* relative scheme struct in the caller's arena, or NULL: none */
    const void *rotary;   /* rotary scheme struct in the caller's arena, or NULL: none */
    uint32_t heads;
    uint32_t kv_heads;
    uint32_t head_dim;
    uint32_t causal;
    int32_t window_left;  /* as in rhumb_dispatch */
    int32_t window_right;
    double scale;         /* softmax scale */
    double softcap;       /* as in rhumb_dispatch; default INFINITY: none */
    uint32_t value_dim;   /* channels of V; default RHUMB_SAME: as head_dim */
    uint32_t sinks;       /* 1: the softmax has one more logit, learned per head (gpt-oss): the view
                             SINKS; default 0 */
    int32_t chunk;        /* as in rhumb_dispatch (Llama 4); default RHUMB_NO_WINDOW: all */
    uint32_t layer_count; /* layers that `layers` speaks of: those of the model, RHUMB_MAX_LAYERS
                             where a rule is known but not their number, 0 (default) where the
                             configuration does not say which layers are of this kind */
    double temperature;   /* a query at position p is multiplied by 1 + temperature *
                             ln(1 + floor((p + 1) / temperature_length)) (Llama 4): ROW_SCALE, which
                             the host computes; default 0: not */
    double temperature_length;
    uint32_t layers[RHUMB_MAX_LAYERS / 32]; /* bit i % 32 of element i / 32: layer i (from 0) is of
                                               this kind */
    const void *absolute; /* absolute scheme struct in the caller's arena, or NULL: none. For
                             ENCODE, once before the first of the layers; DETR: see the trace */
    uint32_t absolute_rows; /* of its TABLE; 0: it has none, or any number */
    uint32_t absolute_dim;  /* D of ENCODE; 0 without `absolute` */
} rhumb_layer_kind;

static inline void rhumb_init_layer_kind(rhumb_layer_kind *s)
{
    RHUMB_INIT_HEADER(s, RHUMB_TYPE_LAYER_KIND);
    s->window_left = RHUMB_NO_WINDOW;
    s->window_right = RHUMB_NO_WINDOW;
    s->softcap = (double)INFINITY;
    s->value_dim = RHUMB_SAME;
    s->chunk = RHUMB_NO_WINDOW;
    s->temperature_length = 1.0;
}

/* 1 if layer `layer` (from 0) is of this kind, else 0. */
static inline uint32_t rhumb_layer_is_of_kind(const rhumb_layer_kind *kind, uint32_t layer)
{
    if (layer >= kind->layer_count || layer >= RHUMB_MAX_LAYERS)
        return 0;
    return kind->layers[layer / 32] >> layer % 32 & 1u;
}

/* Told once per resolved value: `source` is the key it came from or the rule that made it, e.g.
 * "rope_theta" or "default of llama: hidden_size / num_attention_heads". The field
 * "warning" is told for each trap that the configuration comes near: `value` is the key, `source`
 * the trap. */
typedef void (*rhumb_trace_fn)(void *user, const char *layer_kind, const char *field,
                               const char *value, const char *source);

typedef struct rhumb_keys_info {
    RHUMB_HEADER;
    const rhumb_key *keys;
    uint32_t key_count;
    uint32_t kind_capacity;  /* elements of `kinds`; 8 are enough for every model */
    rhumb_layer_kind *kinds; /* out; element 0 is initialised by the caller (its struct_size
                                is the step) */
    void *arena;             /* out: memory for the scheme structs; 16 KiB are enough for
                                every scheme */
    size_t arena_size;
    rhumb_trace_fn trace;    /* or NULL */
    void *trace_user;
    char *message;           /* out: what was wrong, one line, as rhumb_last_message(NULL) has
                                it; or NULL */
    size_t message_size;
} rhumb_keys_info;

static inline void rhumb_init_keys_info(rhumb_keys_info *s)
{
    RHUMB_INIT_HEADER(s, RHUMB_TYPE_KEYS_INFO);
}

/* Resolves configuration keys (published config.json names) into schemes. Never guesses: an unknown
 * model_type, rope type, or a missing key is CONFIG with the reason. Pure; needs no context.
 * Errors: CONFIG, ARGUMENT, VERSION, HOST_MEMORY (arena too small). */
RHUMB_API rhumb_result rhumb_scheme_from_keys(const rhumb_keys_info *info, uint32_t *kind_count);

/* -------------------------------------------------------------------------------------------------
 * Door of the plugin build: the only symbol it exports
 */
struct rhumb_alibi; /* rhumb_schemes.h */
struct rhumb_mrope_span;

typedef struct rhumb_api {
    uint32_t struct_size; /* of the library's table; entries beyond it do not exist */
    uint32_t version;     /* major << 22 | minor << 12 | patch */
    const char *(*result_name)(rhumb_result);
    rhumb_result (*get_requirements)(rhumb_requirements *);
    rhumb_result (*create_hosted)(const rhumb_hosted_info *, rhumb_context **);
    void (*destroy_context)(rhumb_context *);
    const char *(*last_message)(const rhumb_context *);
    rhumb_result (*get_limits)(const rhumb_context *, rhumb_limits *);
    rhumb_result (*query_plan)(rhumb_context *, const rhumb_plan_info *, rhumb_plan_properties *);
    rhumb_result (*create_plan)(rhumb_context *, const rhumb_plan_info *, rhumb_plan **);
    rhumb_result (*get_plan_properties)(const rhumb_plan *, rhumb_plan_properties *);
    void (*destroy_plan)(rhumb_plan *);
    rhumb_result (*write_constants)(const rhumb_plan *, uint32_t, uint32_t, void *, size_t);
    rhumb_result (*create_bindings)(const rhumb_plan *, const rhumb_bindings_info *,
                                    rhumb_bindings **);
    void (*destroy_bindings)(rhumb_bindings *);
    rhumb_result (*write_bindings)(const rhumb_bindings *, void *, size_t);
    rhumb_result (*record)(VkCommandBuffer, const rhumb_bindings *, const rhumb_dispatch *);
    rhumb_result (*export_cache)(rhumb_context *, size_t *, void *);
    rhumb_result (*import_cache)(rhumb_context *, const void *, size_t, uint32_t *);
    rhumb_result (*scheme_from_keys)(const rhumb_keys_info *, uint32_t *);
    rhumb_result (*get_device_handles)(const rhumb_context *, rhumb_device_handles *);
    rhumb_result (*rotary_frequencies)(const void *, uint32_t, uint32_t, double *, uint32_t,
                                       uint32_t *, double *);
    rhumb_result (*keys_stale)(const rhumb_plan *, uint32_t, uint32_t, uint32_t *);
    rhumb_result (*query_self_test)(const rhumb_context *, rhumb_self_test_properties *);
    rhumb_result (*create_self_test)(rhumb_context *, const rhumb_self_test_info *,
                                     rhumb_self_test **);
    rhumb_result (*record_self_test)(VkCommandBuffer, rhumb_self_test *);
    rhumb_result (*read_self_test)(rhumb_self_test *, rhumb_self_test_result *);
    void (*destroy_self_test)(rhumb_self_test *);
    rhumb_result (*relative_rows)(const void *, uint32_t, uint32_t, const int32_t *, uint32_t,
                                  int32_t *);
    rhumb_result (*alibi_slopes_of)(const struct rhumb_alibi *, uint32_t, double *, double *);
    rhumb_result (*mrope_positions)(const struct rhumb_mrope_span *, uint32_t, uint32_t, int32_t,
                                    int32_t *, uint32_t, uint32_t *, int32_t *);
} rhumb_api;

typedef const rhumb_api *(*rhumb_get_api_fn)(uint32_t abi_major);

/* NULL if the library has another major version than the caller was compiled for
 * (RHUMB_VERSION_MAJOR). The table is static and constant. */
RHUMB_API const rhumb_api *rhumb_get_api(uint32_t abi_major);

#ifdef __cplusplus
}
#endif

#endif /* RHUMB_H */
