/* What `rhumb run` is told beside tensors: the scheme's struct, and of plan and dispatch what the
 * tensors do not say. */
#ifndef RHUMB_TOOLS_RUN_PLAN_H
#define RHUMB_TOOLS_RUN_PLAN_H

#include "gpu.h"
#include "scheme_json.h"

#include <rhumb/rhumb_model.h>

/* Sizes are 0 where they are not given; they follow from the tensors then. */
typedef struct run_plan {
    uint32_t batch;
    uint32_t heads;
    uint32_t kv_heads;
    uint32_t head_dim;
    uint32_t value_dim;
    uint32_t q_len;
    uint32_t k_len;
    uint32_t capacity; /* rows of a cache that is not among the tensors */
    double scale;      /* RHUMB_SCALE_AUTO: the library's rule */
    rhumb_variant variant;
    rhumb_mask_order mask_order;
    rhumb_purpose purpose;
    rhumb_append append;
    rhumb_weight_layout weight_layout;
    double norm_epsilon;
    double gain_offset;
    uint32_t causal;
    uint32_t inverse;
    int32_t q_offset; /* RHUMB_UNSET */
    int32_t window_left;
    int32_t window_right;
    int32_t chunk;
    int32_t kept_keys;
    uint32_t bias_after_softcap;
    double softcap;
    int32_t append_position;
    uint32_t old_length; /* of rhumb_write_constants */
    uint32_t new_length; /* 0: the largest position + 1 */
} run_plan;

void run_plan_init(run_plan *plan);

/* The fields as a table like a scheme's, named "plan". */
const scheme_entry *run_plan_entry(void);

/* Scheme and plan. The struct belongs to it where it was read from parameters. */
typedef struct run_settings {
    const scheme_entry *entry; /* NULL: no position */
    const void *scheme;        /* struct of the entry */
    void *owned;
    run_plan plan;
} run_settings;

/* `scheme` is a name of RHUMB_SCHEMES or "none"; `params` the text of a JSON object or NULL. A name
 * of both, the scheme's and the plan's, is the scheme's. False: one line in `error`; free in any
 * case. */
bool run_settings_read(const char *scheme, const char *params, run_settings *settings,
                       tensor_error *error);
void run_settings_free(run_settings *settings);

/* Scheme, sizes and softmax of a layer of a model, for rotate and attention. */
void run_settings_layer(const rhumb_layer_kind *kind, rhumb_op op, run_settings *settings);

/* The scheme where it is a rotary one, or NULL. */
const void *run_settings_rotary(const run_settings *settings);

/* What a plan is told of them: schemes, and of the plan sizes that are given. info->op is set. */
void run_settings_info(const run_settings *settings, rhumb_plan_info *info);

/* Every field of the plan that differs from its default, by name. */
cJSON *run_plan_write(const run_plan *plan);

#endif /* RHUMB_TOOLS_RUN_PLAN_H */
