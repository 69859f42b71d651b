/* What an operation is to plan.c, bind.c and record.c. One file of this folder each; a table of them
 * is in plan.c. */
#ifndef RHUMB_OP_H
#define RHUMB_OP_H

#include "../internal.h"

#define BIT(id) RHUMB_VIEW_BIT(id)
#define FOUND_WRONG "was wrong in the self-test"

/* Views being bound. */
typedef struct rhumb_binder {
    const rhumb_plan *plan;
    const char *op;
    rhumb_view storage[RHUMB_VIEW_COUNT];
    rhumb_placed placed[RHUMB_VIEW_COUNT];
    uint32_t present; /* mask of view ids */
    VkDescriptorBufferInfo slots[RHUMB_MAX_VIEWS];
} rhumb_binder;

typedef struct rhumb_operation {
    rhumb_op op;
    const char *name;
    uint32_t required; /* views */
    uint32_t one_of;   /* at least one of these */
    uint32_t optional;
    uint32_t vectors;  /* views whose rows must start at multiples of 4 elements for the fast form */
    uint32_t quantised; /* views that may be q8_0 */
    uint32_t max_head_dim;
    /* Parameters of its own, after sizes and views: r->info.rotary and r->info.scheme still point to
     * the caller's structs. */
    rhumb_result (*resolve)(const rhumb_context *context, rhumb_resolved *r);
    /* Kernels and their properties, after slots are known. */
    rhumb_result (*choose)(const rhumb_context *context, rhumb_resolved *r);
    void (*count_cost)(rhumb_resolved *r);
    uint32_t (*written)(const rhumb_plan_info *info); /* views */
    /* Views that are read and may be the one that is written, exactly: the same bytes, strides and
     * dtype. */
    uint32_t in_place;
    /* Names and shapes of views in messages, where they are others than rhumb_view_rules'. */
    const rhumb_view_rule *rules; /* RHUMB_VIEW_COUNT, by id; or NULL */
    /* Descriptor of a view where the device has fewer than there are views: 0 is the one that all
     * small views share. */
    uint32_t (*shared_slot)(uint32_t id);
    /* Shapes against the plan and each other; fills bindings->batch, q_length, k_length. */
    rhumb_result (*check_shapes)(const rhumb_binder *b, rhumb_bindings *bindings);
    /* Checks what a dispatch says, then records; all checks come first. */
    rhumb_result (*record)(VkCommandBuffer command_buffer, const rhumb_bindings *bindings,
                           const rhumb_dispatch *d);
} rhumb_operation;

extern const rhumb_operation rhumb_op_rotate, rhumb_op_attention, rhumb_op_encode, rhumb_op_resize,
    rhumb_op_bias, rhumb_op_scores, rhumb_op_project, rhumb_op_combine;

/* Views of operations on logits. */
#define RHUMB_POSITION_VIEWS                                                                       \
    (BIT(RHUMB_VIEW_POSITIONS_Q) | BIT(RHUMB_VIEW_POSITIONS_K) | BIT(RHUMB_VIEW_LENGTHS) |         \
     BIT(RHUMB_VIEW_STATUS))
#define RHUMB_VECTOR_TABLES                                                                        \
    (BIT(RHUMB_VIEW_QUERY_TABLE) | BIT(RHUMB_VIEW_KEY_TABLE) | BIT(RHUMB_VIEW_CONTENT_BIAS) |      \
     BIT(RHUMB_VIEW_POSITION_BIAS) | BIT(RHUMB_VIEW_SEGMENT_BIAS) |                                \
     BIT(RHUMB_VIEW_SEGMENT_TABLE))
#define RHUMB_SCORE_VIEWS /* of a scheme, beside VALUE_TABLE */                                     \
    (RHUMB_VECTOR_TABLES | BIT(RHUMB_VIEW_TABLE) | BIT(RHUMB_VIEW_TABLE_SCALAR) |                  \
     BIT(RHUMB_VIEW_SEGMENTS_Q) | BIT(RHUMB_VIEW_SEGMENTS_K) | BIT(RHUMB_VIEW_ROW_SCALE) |         \
     BIT(RHUMB_VIEW_HEAD_SCALE))
#define RHUMB_TERM_VIEWS (RHUMB_SCORE_VIEWS | BIT(RHUMB_VIEW_VALUE_TABLE))

/* plan.c */
const rhumb_operation *rhumb_find_operation(rhumb_op op);
rhumb_result rhumb_check_range(const rhumb_context *context, const char *op, const char *field,
                               uint32_t value, uint32_t low, uint32_t high);
const char *rhumb_view_name(uint32_t id);
/* What an operation calls a view. */
const rhumb_view_rule *rhumb_rule_of(const rhumb_operation *o, uint32_t id);
/* A view that kernels read or write as f32 only, where it is there. */
rhumb_result rhumb_check_f32(const rhumb_context *context, const rhumb_operation *o,
                             const rhumb_plan_info *info, uint32_t id);
/* Adds to plan_properties.reason. */
void rhumb_add_reason(rhumb_resolved *r, const char *text);
uint64_t rhumb_saturated_product(uint64_t a, uint64_t b);
uint64_t rhumb_saturated_sum(uint64_t a, uint64_t b);
/* r->info.rotary into r->rotary; NULL is no rotation. */
rhumb_result rhumb_resolve_plan_rotary(const rhumb_context *context, const char *op,
                                       rhumb_resolved *r);
/* r->info.scheme into r->terms; NULL is no position. The plan's scale follows the scheme where it
 * is RHUMB_SCALE_AUTO. */
rhumb_result rhumb_resolve_plan_terms(const rhumb_context *context, rhumb_resolved *r);
void rhumb_fill_scale(rhumb_resolved *r);
/* For operations that have no rotation, and one kernel. */
rhumb_result rhumb_refuse_rotary(const rhumb_context *context, const char *op,
                                 const rhumb_plan_info *info);
rhumb_result rhumb_check_variant(const rhumb_context *context, const char *op,
                                 const rhumb_plan_info *info);

/* rotate.c: parts of a row of Q or K, each the work of one invocation. */
uint32_t rhumb_rotate_parts(const rhumb_resolved *r);

/* variant.c: what every kernel is specialised by. */
void rhumb_set_common(const rhumb_resolved *r, rhumb_pipeline_key *key, rhumb_kernel kernel,
                      bool aligned);
/* Whether the device reads and writes faster by address: CPU devices, which check each access to a
 * descriptor. */
bool rhumb_prefers_addresses(const rhumb_context *context, const rhumb_resolved *r);
rhumb_result rhumb_choose_rotate(const rhumb_context *context, rhumb_resolved *r);
rhumb_result rhumb_choose_attention(const rhumb_context *context, rhumb_resolved *r);

/* bind.c: `what` names the size in the message of a wrong one. */
rhumb_result rhumb_want(const rhumb_binder *b, uint32_t id, uint32_t dimension, const char *what,
                        uint64_t wanted);
rhumb_result rhumb_want_shape(const rhumb_binder *b, uint32_t id, const uint64_t shape[4]);
/* Batch and lengths of the leading views within RHUMB_MAX_LENGTH. */
rhumb_result rhumb_take_sizes(const rhumb_binder *b, uint32_t q, uint32_t k,
                              rhumb_bindings *bindings);
/* {1, axes, B or 1, at least length} */
rhumb_result rhumb_check_positions(const rhumb_binder *b, uint32_t id, uint32_t axes,
                                   uint32_t batch, uint32_t length);
/* LENGTHS and STATUS where they are there. */
rhumb_result rhumb_check_small_views(const rhumb_binder *b, uint32_t batch);

/* span.c: spans of the bindings; b->slots are the ranges of the first. */
rhumb_result rhumb_take_slots(rhumb_binder *b, rhumb_bindings *bindings);
void rhumb_slots_of(const rhumb_binder *b, const rhumb_span *span, VkDescriptorBufferInfo *slots);

/* tables.c */
/* Views of the scheme's terms: rows, heads and channels. */
rhumb_result rhumb_check_tables(const rhumb_binder *b, const rhumb_bindings *bindings);
/* Distances of a record against those that the scheme has rows for; what only the device knows is
 * not looked at. */
rhumb_result rhumb_check_reach(const rhumb_bindings *bindings, const struct rhumb_push *push);

/* logits.c */
/* After rotary and terms have been resolved. */
rhumb_result rhumb_check_logit_views(const rhumb_context *context, const char *op,
                                     const rhumb_resolved *r);
rhumb_result rhumb_check_logit_positions(const rhumb_binder *b, const rhumb_bindings *bindings);
rhumb_result rhumb_check_mask(const rhumb_binder *b, rhumb_bindings *bindings);
rhumb_result rhumb_check_query_offset(const rhumb_bindings *bindings, const rhumb_dispatch *d,
                                      struct rhumb_push *push);
/* Windows of one batch entry, 1 without a grid; tokens of a window. */
uint32_t rhumb_window_count(const rhumb_terms *t);
uint32_t rhumb_window_tokens(const rhumb_terms *t);
/* Lq and Lk where the scheme has windows. */
rhumb_result rhumb_check_window_rows(const rhumb_binder *b, const rhumb_bindings *bindings);
/* There: nothing else than whole windows is asked for, and push's lengths become theirs. */
rhumb_result rhumb_take_windows(const rhumb_bindings *bindings, const rhumb_dispatch *d,
                                struct rhumb_push *push);

/* layout.c */
/* r->layout, after the terms; q8_0's sizes. */
rhumb_result rhumb_resolve_layout(const rhumb_context *context, rhumb_resolved *r);
/* Shapes of Q, K, V, O and of what places their rows; batch and lengths of the bindings. */
rhumb_result rhumb_take_tensors(const rhumb_binder *b, rhumb_bindings *bindings);
rhumb_result rhumb_check_packed_lengths(const rhumb_bindings *bindings, const rhumb_dispatch *d);
/* Whether only the device knows the lengths of a batch entry. */
bool rhumb_lengths_on_device(const rhumb_resolved *r);

/* combine.c: the kernel that merges parts of rows, of the rows below push->max_q_length. */
void rhumb_set_combine(rhumb_resolved *r, uint32_t index);
uint64_t rhumb_combine_groups(const rhumb_bindings *bindings, const struct rhumb_push *push);

/* Of a batch entry at the plan's maxima: pairs of one head; operations of all heads for one pair; bytes
 * read beside Q, K and V. */
uint64_t rhumb_logit_count(const rhumb_resolved *r);
uint64_t rhumb_logit_flops(const rhumb_resolved *r);
uint64_t rhumb_logit_bytes(const rhumb_resolved *r);

/* scores.c: kernels and work groups of the rows push->row_count of each batch entry. */
void rhumb_set_scores(rhumb_resolved *r);
uint64_t rhumb_score_groups(const rhumb_bindings *bindings, const struct rhumb_push *push);

/* unfused.c */
rhumb_result rhumb_choose_unfused(const rhumb_context *context, rhumb_resolved *r);
rhumb_result rhumb_check_workspace(const rhumb_binder *b, const rhumb_bindings *bindings);
/* Lengths, offset and windows of push are complete. */
rhumb_result rhumb_record_unfused(VkCommandBuffer command_buffer, const rhumb_bindings *bindings,
                                  const rhumb_dispatch *d, struct rhumb_push *push);

/* record.c */
/* Struct protocol, uniform offsets; the operation's own checks come after. */
rhumb_result rhumb_check_length(const rhumb_bindings *bindings, const char *field, int32_t value,
                                uint32_t of_views, uint32_t of_plan, int32_t *resolved);
rhumb_result rhumb_check_lengths(const rhumb_bindings *bindings, const rhumb_dispatch *d,
                                 bool has_keys, struct rhumb_push *push);
rhumb_result rhumb_check_offset(const rhumb_bindings *bindings, const rhumb_dispatch *d,
                                int64_t lowest, struct rhumb_push *push);
rhumb_result rhumb_check_flag(const rhumb_bindings *bindings, const char *field, uint32_t value);
rhumb_result rhumb_check_window(const rhumb_bindings *bindings, const rhumb_dispatch *d,
                                struct rhumb_push *push);
/* For operations whose lengths follow from their views: everything but the blocks' offsets. */
rhumb_result rhumb_check_defaults(const rhumb_bindings *bindings, const rhumb_dispatch *d);
/* causal and windows mean nothing to most operations, nor k_length to those without keys. */
rhumb_result rhumb_check_no_mask(const rhumb_bindings *bindings, const rhumb_dispatch *d,
                                 bool has_keys);
/* Whether so many work groups fit a record. */
rhumb_result rhumb_check_groups(const rhumb_bindings *bindings, uint64_t groups);
/* Writes of the dispatch before are seen by the reads and writes of the one after. */
void rhumb_barrier(VkCommandBuffer command_buffer, const rhumb_bindings *bindings);
/* Dispatches of so many work groups together, as limits and max_flops want; nothing for 0. */
void rhumb_emit(VkCommandBuffer command_buffer, const rhumb_bindings *bindings,
                const rhumb_dispatch *d, VkPipeline pipeline, uint64_t groups,
                struct rhumb_push *push);

#endif
