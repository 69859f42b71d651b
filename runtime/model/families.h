/* Model families: one row per model_type says how its configuration keys become a rotary scheme.
 * Adding a model that follows known rules is adding a row. */
#ifndef RHUMB_MODEL_FAMILIES_H
#define RHUMB_MODEL_FAMILIES_H

#include <stdint.h>

#include <rhumb/rhumb_schemes.h>

typedef enum rhumb_heads_names {
    RHUMB_NAMES_HUB = 0, /* hidden_size, num_attention_heads */
    RHUMB_NAMES_GPT = 1, /* n_embd, n_head */
} rhumb_heads_names;

typedef enum rhumb_head_rule {
    RHUMB_HEAD_KEY_OR_SPLIT = 0, /* head_dim, else hidden_size / num_attention_heads */
    RHUMB_HEAD_KEY = 1, /* head_dim; the split is wrong for released models, so the key is needed */
    RHUMB_HEAD_CHANNELS = 2, /* kv_channels */
} rhumb_head_rule;

typedef enum rhumb_kv_rule {
    RHUMB_KV_KEY_OR_HEADS = 0, /* num_key_value_heads, else as many as query heads */
    RHUMB_KV_KEY = 1,   /* num_key_value_heads; the reference's default is a fixed number: needed */
    RHUMB_KV_HEADS = 2, /* as many as query heads */
    RHUMB_KV_FALCON = 3, /* multi_query, new_decoder_architecture, num_kv_heads */
    RHUMB_KV_GROUPS = 4, /* multi_query_attention, multi_query_group_num */
} rhumb_kv_rule;

typedef enum rhumb_theta_rule {
    RHUMB_THETA_KEY = 0,   /* rope_theta, or theta_alias, else the row's number */
    RHUMB_THETA_FIXED = 1, /* the row's number */
    RHUMB_THETA_RATIO = 2, /* the row's number times rope_ratio */
} rhumb_theta_rule;

typedef enum rhumb_part_rule {
    RHUMB_PART_WHOLE = 0,  /* the whole head turns */
    RHUMB_PART_FACTOR = 1, /* partial_rotary_factor, or part_alias, else the row's number */
    RHUMB_PART_FIXED = 2,  /* the row's number */
    RHUMB_PART_DIM = 3,    /* rotary_dim */
} rhumb_part_rule;

typedef enum rhumb_window_rule {
    RHUMB_WINDOW_NONE = 0,
    RHUMB_WINDOW_ALL = 1,       /* sliding_window holds in every layer */
    RHUMB_WINDOW_ALTERNATE = 2, /* in every other layer */
    RHUMB_WINDOW_SWITCHED = 3,  /* use_sliding_window turns it on from layer max_window_layers on */
} rhumb_window_rule;

typedef enum rhumb_scale_rule {
    RHUMB_SCALE_HEAD_DIM = 0,     /* head_dim^-1/2 */
    RHUMB_SCALE_QUERY_SCALAR = 1, /* query_pre_attn_scalar^-1/2 */
    RHUMB_SCALE_MULTIPLIER = 2,   /* attention_multiplier */
} rhumb_scale_rule;

typedef struct rhumb_family {
    const char *model_type;
    const char
        *later; /* not NULL: known, but not implemented; what it needs. The rest is then unused */
    rhumb_pairing pairing;
    rhumb_heads_names names;
    rhumb_head_rule head_rule;
    rhumb_kv_rule kv_rule;
    rhumb_theta_rule theta_rule;
    rhumb_part_rule part_rule;
    rhumb_window_rule window_rule;
    rhumb_scale_rule scale_rule;
    double theta;
    double part;
    uint32_t window; /* of a configuration without the key sliding_window; 0: none */
    double softcap;  /* likewise attn_logit_softcapping; 0: the family has none */
    const char *theta_alias;
    const char *part_alias;
} rhumb_family;

/* NULL if the model_type is unknown. */
const rhumb_family *rhumb_family_find(const char *model_type);

/* Row `index`, or NULL past the end; for listing what is known. */
const rhumb_family *rhumb_family_at(uint32_t index);

#endif
