/* What the files of the runtime share. Nothing here is exported. */
#ifndef RHUMB_INTERNAL_H
#define RHUMB_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "rhumb/rhumb.h"
#include "rhumb/rhumb_schemes.h"
#include "rhumb_shared.h"

static inline uint32_t rhumb_min_u32(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

static inline uint32_t rhumb_max_u32(uint32_t a, uint32_t b)
{
    return a > b ? a : b;
}

/* ---- Vulkan functions: each context has its own table, so that contexts on different devices,
 * loaders and interposers live in one process. */
#define RHUMB_INSTANCE_FUNCTIONS(X)                                                                \
    X(GetDeviceProcAddr)                                                                           \
    X(GetPhysicalDeviceProperties2)

#define RHUMB_DEVICE_FUNCTIONS(X)                                                                  \
    X(AllocateDescriptorSets)                                                                      \
    X(CmdBindDescriptorSets)                                                                       \
    X(CmdBindPipeline)                                                                             \
    X(CmdDispatch)                                                                                 \
    X(CmdPipelineBarrier)                                                                          \
    X(CmdPushConstants)                                                                            \
    X(CreateComputePipelines)                                                                      \
    X(CreateDescriptorPool)                                                                        \
    X(CreateDescriptorSetLayout)                                                                   \
    X(CreatePipelineCache)                                                                         \
    X(CreatePipelineLayout)                                                                        \
    X(CreateShaderModule)                                                                          \
    X(DestroyDescriptorPool)                                                                       \
    X(DestroyDescriptorSetLayout)                                                                  \
    X(DestroyPipeline)                                                                             \
    X(DestroyPipelineCache)                                                                        \
    X(DestroyPipelineLayout)                                                                       \
    X(DestroyShaderModule)                                                                         \
    X(GetPipelineCacheData)                                                                        \
    X(MergePipelineCaches)                                                                         \
    X(UpdateDescriptorSets)

typedef struct rhumb_vk {
#define X(name) PFN_vk##name name;
    RHUMB_INSTANCE_FUNCTIONS(X)
    RHUMB_DEVICE_FUNCTIONS(X)
#undef X
    /* NULL where the extension is off */
    PFN_vkSetDebugUtilsObjectNameEXT SetDebugUtilsObjectNameEXT;
} rhumb_vk;

/* ---- Context */
struct rhumb_pipeline;

struct rhumb_context {
    rhumb_vk vk;
    VkInstance instance;
    VkPhysicalDevice physical_device;
    VkDevice device;
    VkQueue queue; /* standalone only */
    uint32_t queue_family;
    uint32_t api_version;
    PFN_vkGetInstanceProcAddr get_instance_proc_addr;
    VkPhysicalDeviceProperties properties;
    rhumb_limits limits; /* min(device, clamp) */
    void *(*allocate)(void *user, size_t size);
    void (*release)(void *user, void *memory);
    void *allocator_user;
    rhumb_log_fn log;
    void *log_user;
    VkPipelineCache pipeline_cache;
    bool owns_pipeline_cache;
    atomic_bool device_lost;
    atomic_uint avoided;         /* rhumb_self_test_kernel: what the self-test found wrong */
    pthread_rwlock_t cache_lock; /* write: merging into pipeline_cache, which Vulkan does not
                                    synchronise */
    pthread_mutex_t lock;        /* guards pipelines and their reference counts */
    struct rhumb_pipeline *pipelines;
    void (*destroy_device)(void *device_state); /* standalone: what lies below the context */
    void *device_state;
};

/* message.c. Leaves the line for rhumb_last_message and returns `code`. context may be NULL. */
#if defined(__GNUC__)
__attribute__((format(printf, 3, 4)))
#endif
rhumb_result rhumb_fail(const rhumb_context *context, rhumb_result code, const char *format, ...);
#if defined(__GNUC__)
__attribute__((format(printf, 3, 4)))
#endif
void rhumb_log(const rhumb_context *context, rhumb_log_level level, const char *format, ...);
/* A failed Vulkan call as an error of ours; `what` names the call and the operation. */
rhumb_result rhumb_fail_vk(rhumb_context *context, VkResult result, const char *what);

#define RHUMB_TRY(call)                                                                            \
    do {                                                                                           \
        rhumb_result try_result = (call);                                                          \
        if (try_result != RHUMB_OK)                                                                \
            return try_result;                                                                     \
    } while (0)

/* api.c. Checks a struct's header and completes it: `full` holds the library's defaults and
 * receives the caller's struct_size bytes. */
rhumb_result rhumb_adopt(const rhumb_context *context, const char *operation,
                         const char *struct_name, const void *given, uint32_t type, void *full,
                         size_t full_size);
/* For output structs: the header must be right; copies as many bytes as the caller has room for. */
rhumb_result rhumb_give(const rhumb_context *context, const char *operation,
                        const char *struct_name, void *given, uint32_t type, const void *full,
                        size_t full_size);
rhumb_result rhumb_check_lost(const rhumb_context *context);

/* context.c. The host's callbacks, or malloc and free. */
rhumb_result rhumb_adopt_allocator(const char *operation, const rhumb_allocator *given,
                                   rhumb_allocator *allocator);
/* Zeroed memory or NULL. */
void *rhumb_allocate(rhumb_context *context, size_t size);
void rhumb_release(rhumb_context *context, void *memory);
void rhumb_set_name(rhumb_context *context, VkObjectType type, uint64_t handle, const char *name,
                    const char *part);

/* ---- Views */
typedef struct rhumb_view_rule {
    const char *name;
    bool integer;
    const char *shape; /* for messages */
} rhumb_view_rule;
extern const rhumb_view_rule rhumb_view_rules[RHUMB_VIEW_COUNT];
const char *rhumb_dtype_name(rhumb_dtype dtype);
/* Bytes of an element; of q8_0, of a block of elements. */
uint32_t rhumb_dtype_size(rhumb_dtype dtype);
uint32_t rhumb_dtype_elements(rhumb_dtype dtype); /* that those bytes hold: 1, or a block's */
uint64_t rhumb_bytes_of(rhumb_dtype dtype, uint64_t elements); /* in whole blocks */

/* ---- Schemes: runtime/scheme/ */

/* How frequencies follow the length n (largest position + 1). With T = max(n, length_limit): */
typedef enum rhumb_length_rule {
    RHUMB_LENGTH_IGNORED,
    RHUMB_LENGTH_NTK,    /* frequency[i] * (length_factor * T/length_limit - (length_factor - 1))
                            ^ (-2i/(rotary_dim - 2)) */
    RHUMB_LENGTH_LINEAR, /* frequency[i] * length_limit/T */
    RHUMB_LENGTH_SWITCH, /* frequency[i] for n <= length_limit, long_frequency[i] beyond */
} rhumb_length_rule;

typedef struct rhumb_rotary {
    uint32_t pairing; /* PAIRING_* */
    uint32_t rotary_dim;
    uint32_t rotary_offset;
    uint32_t length_limit;
    rhumb_length_rule length_rule;
    double length_factor;
    double magnitude;
    long double frequency[RHUMB_MAX_PAIRS]; /* radians per position, rotary_dim / 2 of them; of the
                                               shortest lengths where they depend on one */
    long double long_frequency[RHUMB_MAX_PAIRS]; /* RHUMB_LENGTH_SWITCH */
    uint32_t segments; /* 1; 2: pairs are partners within each half of the window (pairing half) */
    uint32_t axes;     /* 1; more: rows of POSITIONS_Q from which pairs take their positions */
    uint8_t axis[RHUMB_MAX_PAIRS];      /* that row, if axes > 1 */
    bool has_phase;
    bool has_growth;
    bool has_learned; /* frequencies of each head come in a view; axis[0] is of its first list */
    int32_t centre;                     /* has_growth: position where no pair grows */
    long double phase[RHUMB_MAX_PAIRS]; /* has_phase: radians at position 0 */
    double growth[RHUMB_MAX_PAIRS];     /* has_growth: log2 of the factor of Q a position; of K its
                                           negative */
} rhumb_rotary;

/* What a relative scheme adds to attention, ARCHITECTURE.md section 2: which terms, and how a
 * distance becomes a row of their tables. With delta = pos_k - pos_q:
 *   d = clamp(delta, delta_low, delta_high); no term where delta < none_below or > none_above
 *   row = base[side] + step[side] * f(|d|), side = d > 0
 *   f(a) = a below `exact`, else exact - 1 + the number of edges up to a */
typedef struct rhumb_terms {
    uint32_t mask;        /* TERM_* */
    uint32_t rows;        /* of the tables; 0: none */
    uint32_t zero;        /* row of distance 0 */
    int32_t delta_low;
    int32_t delta_high;
    int32_t none_below;
    int32_t none_above;
    int32_t base[2];
    int32_t step[2];
    uint32_t exact;
    uint32_t edge_count;
    uint32_t edges[RHUMB_MAX_EDGES]; /* ascending */
    uint32_t reach_past;             /* largest distances to the past and to the future that there */
    uint32_t reach_future;           /*   are rows for; a record that asks for more is refused.
                                        UINT32_MAX: any */
    int32_t near_low;                /* rows are the same for all distances up to near_low, */
    int32_t near_high;               /*   and for all from near_high on */
    bool flip_half;                  /* delta changes sign for the second half of the batch */
    bool key_mirrored;               /* KEY_TABLE's row is that of -delta */
    bool folded;                     /* QUERY_TABLE meets q + u, not q + w */
    bool bias_in_scale;              /* b is multiplied by the softmax scale */
    double bias_scale;               /* factor of TABLE's scalars */
    double scale;                    /* softmax scale where the plan leaves it to the scheme */
    uint32_t slope_reference;        /* SLOPE_*: what distances are counted from */
    uint32_t capped_reference;       /* the same where a softcap is around them */
    double slope[RHUMB_MAX_SLOPES][2]; /* TERM_SLOPE: b = slope[h][0] delta for keys in the past,
                                          -slope[h][1] delta for those in the future */
    /* TERM_WINDOW: rho by offsets inside a window, rows of Q and K by pixels of a grid. */
    uint32_t window[2];
    uint32_t grid[2];                /* {0, 0}: a batch entry is one window */
    uint32_t shift[2];
    uint32_t padded[2];              /* grid in whole windows */
    uint32_t modulus[2];             /* of the shift */
    uint32_t class_tokens;
    double mask_value;
    double max_log_scale;            /* TERM_COSINE */
    double epsilon;
} rhumb_terms;

/* What an absolute scheme adds to rows: the kind of ENCODE_*, and what the channels of a row hold.
 * Grids are {rows, columns}. */
typedef struct rhumb_encoding {
    uint32_t mask;     /* ENCODE_* */
    uint32_t flags;    /* ENCODE_FLAG_* */
    uint32_t required; /* views, beside Y */
    uint32_t optional;
    double x_scale;
    double pe_scale;
    uint32_t grid[2];  /* ENCODE_GRID */
    uint32_t prefix;   /* rows in front to which nothing is added */
    /* ENCODE_SINUSOID: angle i of an axis has its sine in channel sine[axis] + i step and its cosine
     * in cosine[axis] + i step, where these are below `encoded`; channels from there on are 0. */
    uint32_t angles;
    uint32_t step;
    uint32_t sine[2];
    uint32_t cosine[2];
    uint32_t encoded;
    double base;          /* frequency i: base^(-i exponent) */
    long double exponent;
    double start;         /* added to every coordinate */
    int32_t padding_index;
    double center;        /* ENCODE_FLAG_NORMALIZE */
    double epsilon;
    double scale;
    /* ENCODE_FLAG_LISTED: frequencies. ENCODE_OFFSETS: coordinates of the distances of each axis. */
    double list[2 * RHUMB_MAX_OFFSETS];
    /* ENCODE_TABLE */
    int32_t offset;
    uint32_t rows;        /* that TABLE must have; of a row/column form at least. 0: any */
    uint32_t columns;     /* that COLUMN_TABLE must have at least */
    uint32_t table_width; /* channels of a table */
    /* Set by the operation: how the kernel cuts a row. */
    uint32_t axis_run;
    uint32_t axis_parts;
    uint32_t parts;
} rhumb_encoding;
/* How a learned table is resampled. */
typedef struct rhumb_resampling {
    uint32_t flags; /* RESIZE_* */
    uint32_t old_grid[2];
    uint32_t new_grid[2];
    uint32_t prefix;
    uint32_t suffix;
    int64_t start[2]; /* source coordinate of sample i: start + i step, in 2^-48 */
    uint64_t step[2];
    double spread[2]; /* by which the kernel is widened */
    double cubic;     /* a of the cubic kernel */
    int32_t index[2][LISTED_SAMPLES]; /* RESIZE_LISTED: coordinate index + fraction */
    double fraction[2][LISTED_SAMPLES];
} rhumb_resampling;

/* A bias over continuous coordinates, computed by a small network: for PROJECT. */
typedef struct rhumb_continuous {
    uint32_t window[2];
    uint32_t rows;     /* of the table */
    uint32_t zero;     /* row of offset 0 */
    double divisor[2]; /* of offsets; 0: the coordinate is 0 */
    uint32_t hidden;
    double gain;
} rhumb_continuous;

typedef struct rhumb_scheme {
    const char *name;
    uint32_t type;
    /* Each validates parameters and computes what the kernels need; NULL where the scheme has no
     * such side. `params` has been header-checked by nobody. */
    rhumb_result (*resolve_rotary)(const rhumb_context *context, const void *params,
                                   uint32_t head_dim, rhumb_rotary *rotary);
    /* `info` is complete but for `scale`; views that the scheme wants or cannot use are refused. */
    rhumb_result (*resolve_terms)(const rhumb_context *context, const void *params,
                                  const rhumb_plan_info *info, rhumb_terms *terms);
    /* `info` has sizes and views. */
    rhumb_result (*resolve_encoding)(const rhumb_context *context, const void *params,
                                     const rhumb_plan_info *info, rhumb_encoding *encoding);
    rhumb_result (*resolve_resampling)(const rhumb_context *context, const void *params,
                                       rhumb_resampling *resampling);
    rhumb_result (*resolve_continuous)(const rhumb_context *context, const void *params,
                                       rhumb_continuous *continuous);
} rhumb_scheme;

/* registry.c. NULL if no scheme struct has this type. */
const rhumb_scheme *rhumb_find_scheme(uint32_t type);
rhumb_result rhumb_resolve_rotary(const rhumb_context *context, const void *params,
                                  uint32_t head_dim, rhumb_rotary *rotary);
rhumb_result rhumb_resolve_terms(const rhumb_context *context, const void *params,
                                 const rhumb_plan_info *info, rhumb_terms *terms);
/* encoding.c. */
rhumb_result rhumb_resolve_encoding(const rhumb_context *context, const void *params,
                                    const rhumb_plan_info *info, rhumb_encoding *encoding);
void rhumb_write_encoding(const rhumb_encoding *encoding, struct rhumb_constants_block *block);
/* rows.c. A distance's row, or -1. */
int32_t rhumb_row_of(const rhumb_terms *terms, int32_t delta);
/* length.c. Frequency of one pair at a length; 0 is the shortest. */
long double rhumb_frequency_at(const rhumb_rotary *rotary, uint32_t pair, uint32_t length);
/* Whether any frequency differs between the two lengths. */
bool rhumb_frequencies_differ(const rhumb_rotary *rotary, uint32_t length, uint32_t other);

/* ---- Pipelines: pipeline.c */
typedef enum rhumb_kernel {
    RHUMB_KERNEL_ROTATE,
    RHUMB_KERNEL_ROTATE_NORM,
    RHUMB_KERNEL_ATTENTION_GENERIC,
    RHUMB_KERNEL_ATTENTION_TILE,
    RHUMB_KERNEL_ATTENTION_TILE_SUBGROUP,
    RHUMB_KERNEL_ATTENTION_DECODE,
    RHUMB_KERNEL_ATTENTION_DECODE_ADDRESS,
    RHUMB_KERNEL_ATTENTION_BROADCAST,
    RHUMB_KERNEL_COMBINE,
    RHUMB_KERNEL_ENCODE,
    RHUMB_KERNEL_ENCODE_ADDRESS,
    RHUMB_KERNEL_RESIZE,
    RHUMB_KERNEL_PROJECT,
    RHUMB_KERNEL_FOLD,
    RHUMB_KERNEL_CONTINUOUS_BIAS,
    RHUMB_KERNEL_BIAS,
    RHUMB_KERNEL_BIAS_ADDRESS,
    RHUMB_KERNEL_SCORES,
    RHUMB_KERNEL_SOFTMAX_VALUES,
    RHUMB_KERNEL_COUNT,
} rhumb_kernel;

typedef struct rhumb_pipeline_key {
    rhumb_kernel kernel;
    uint32_t spec[SPEC_COUNT]; /* by specialisation constant id; ids that a kernel lacks
                                  are ignored */
} rhumb_pipeline_key;

typedef struct rhumb_pipeline {
    struct rhumb_pipeline *next;
    VkPipeline pipeline;
    uint32_t references;
    rhumb_pipeline_key key;
} rhumb_pipeline;

rhumb_result rhumb_acquire_pipeline(rhumb_context *context, const rhumb_pipeline_key *key,
                                    VkPipelineLayout layout, rhumb_pipeline **pipeline);
void rhumb_release_pipeline(rhumb_context *context, rhumb_pipeline *pipeline);

/* ---- Plans: plan.c, constants.c */
/* round(2^64 part), a part of 1 as {low, high}; 1 becomes the largest. */
void rhumb_write_fraction(long double part, uint32_t words[2]);
/* The turns of a frequency modulo 1, as rhumb_write_fraction; negative ones in two's complement. */
void rhumb_write_turns(long double frequency, uint32_t words[2]);
#define RHUMB_PLAN_PIPELINES 4
#define RHUMB_ANY_ALIGNMENT 0   /* index of the pipeline for views of any alignment: always there */
#define RHUMB_FAST_ALIGNMENT 1  /* index of the one that wants rows at multiples of four elements */
#define RHUMB_BY_ADDRESS 3      /* index of the one that reads views by their addresses */
#define RHUMB_SECOND_STAGE 2    /* index of the kernel that follows, where an operation has two */

/* A plan's text after validation, before anything is compiled. */
typedef struct rhumb_resolved {
    rhumb_plan_info info; /* complete: no RHUMB_SAME, no AUTO left; pointers into nothing */
    uint32_t avoid;       /* rhumb_self_test_kernel: not to be chosen */
    bool aligned_only;    /* the form for any alignment is one of these: bindings may not use it */
    bool has_rotary;
    rhumb_rotary rotary;
    bool has_terms;
    rhumb_terms terms;
    uint32_t layout; /* ATTENTION: LAYOUT_* */
    bool has_encoding;
    rhumb_encoding encoding;
    rhumb_resampling resampling; /* RESIZE */
    rhumb_continuous continuous; /* PROJECT with a scheme that has one */
    bool has_fast; /* a pipeline of RHUMB_FAST_ALIGNMENT */
    bool has_second;
    bool has_by_address;
    bool address_only; /* no other pipeline: bindings without addresses are refused */
    rhumb_pipeline_key keys[RHUMB_PLAN_PIPELINES];
    uint32_t rows_per_group[RHUMB_PLAN_PIPELINES];
    bool by_head[RHUMB_PLAN_PIPELINES]; /* attention: a work group has rows of one head, not of all
                                           that share K and V */
    uint32_t slice_keys;     /* keys of a slice, where a second stage merges slices; else 0 */
    uint32_t rows_per_block; /* of a batch entry, that WORKSPACE has room for */
    rhumb_plan_properties properties;
} rhumb_resolved;

struct rhumb_plan {
    rhumb_context *context;
    const struct rhumb_operation *operation;
    rhumb_resolved resolved;
    VkDescriptorSetLayout set_layout;
    VkPipelineLayout layout;
    rhumb_pipeline *pipelines[RHUMB_PLAN_PIPELINES];
    char name[48];
};

/* rhumb_create_plan with kernels to avoid that are the caller's choice, not the context's: for the
 * self-test, which looks at each of them. RHUMB_AVOID_ADDRESSES: kernels that read by address beside
 * the one that the plan is for. */
#define RHUMB_AVOID_ADDRESSES 0x80000000u
rhumb_result rhumb_create_plan_without(rhumb_context *context, const rhumb_plan_info *info,
                                       uint32_t avoid, rhumb_plan **plan);

/* Whether the tile may exchange row maxima by shuffles. */
bool rhumb_has_shuffles(const rhumb_limits *limits);

/* ---- Bindings: bind.c */

/* A view after its own checks: dimensions of size 1 have stride 0. */
typedef struct rhumb_placed {
    const rhumb_view *view;
    uint64_t stride[4]; /* elements */
    uint64_t first;     /* bytes from the start of the buffer */
    uint64_t end;       /* one past the last byte; at most 2^61 */
} rhumb_placed;

/* overlap.c. True if a and b, of one VkBuffer, may touch a common byte, or with by_word a common
 * 4-byte word. Exact where they have the same, nested strides (tensors interleaved in one
 * allocation), else by their whole ranges. */
bool rhumb_views_meet(const rhumb_placed *a, const rhumb_placed *b, bool by_word);

/* Batch entries, and kv heads of each; no entries: all. */
typedef struct rhumb_box {
    uint32_t entry, entries;
    uint32_t head, heads;
} rhumb_box;

/* span.c. Where views are larger than a descriptor may be: a part of the record's pairs of a batch
 * entry and a kv head, from where the span before ends. */
typedef struct rhumb_span {
    VkDescriptorSet set;
    uint64_t end; /* number of the first pair that is not in it */
    rhumb_box box;
    uint32_t shift[4]; /* push.shift */
} rhumb_span;

struct rhumb_bindings {
    const rhumb_plan *plan;
    VkDescriptorPool pool;
    rhumb_span whole;  /* where one descriptor set serves all */
    rhumb_span *spans;
    uint32_t span_count;
    VkPipeline pipeline;
    VkPipeline second; /* RHUMB_SECOND_STAGE, or VK_NULL_HANDLE */
    uint32_t rows_per_group;
    bool by_head;
    uint32_t batch;
    uint32_t q_length; /* rows and keys of the views */
    uint32_t k_length;
    uint32_t parts;      /* COMBINE */
    bool mask_of_one_key; /* MASK has one element for all keys of a row */
    struct rhumb_bindings_block block;
};

#endif /* RHUMB_INTERNAL_H */
