/* Rotary model families: one row per model_type says how its configuration keys become a rotary
 * scheme. Adding a model that follows known rules is adding a row. The others are positions.h's. */
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
    RHUMB_HEAD_KEY = 1,      /* head_dim, else the row's number; the split is wrong for released
                                models */
    RHUMB_HEAD_CHANNELS = 2, /* kv_channels */
    RHUMB_HEAD_MLA = 3,      /* qk_nope_head_dim + qk_rope_head_dim; the last of these turn */
    RHUMB_HEAD_GLOBAL = 4,   /* head_dim, and global_head_dim for full-attention layers */
} rhumb_head_rule;

typedef enum rhumb_kv_rule {
    RHUMB_KV_KEY_OR_HEADS = 0, /* num_key_value_heads, else as many as query heads */
    RHUMB_KV_KEY = 1,   /* num_key_value_heads, else the row's number */
    RHUMB_KV_HEADS = 2, /* as many as query heads */
    RHUMB_KV_FALCON = 3, /* multi_query, new_decoder_architecture, num_kv_heads */
    RHUMB_KV_GROUPS = 4, /* multi_query_attention, multi_query_group_num */
    RHUMB_KV_GLOBAL = 5, /* num_key_value_heads; full-attention layers of a model that has
                            attention_k_eq_v: num_global_key_value_heads */
} rhumb_kv_rule;

typedef enum rhumb_theta_rule {
    RHUMB_THETA_KEY = 0,   /* rope_theta, or theta_alias, else the row's number; 0: needed */
    RHUMB_THETA_FIXED = 1, /* the row's number */
    RHUMB_THETA_RATIO = 2, /* the row's number times rope_ratio */
} rhumb_theta_rule;

typedef enum rhumb_part_rule {
    RHUMB_PART_WHOLE = 0,  /* the whole head turns; of RHUMB_HEAD_MLA: qk_rope_head_dim */
    RHUMB_PART_FACTOR = 1, /* partial_rotary_factor, or part_alias, else the row's number */
    RHUMB_PART_FIXED = 2,  /* the row's number */
    RHUMB_PART_DIM = 3,    /* rotary_dim */
} rhumb_part_rule;

/* Layers count from 0. A list layer_types wins over the rule and must not contradict its key. */
typedef enum rhumb_window_rule {
    RHUMB_WINDOW_NONE = 0,
    RHUMB_WINDOW_ALL = 1,      /* sliding_window holds in every layer */
    RHUMB_WINDOW_PERIOD = 2,   /* in those where (layer + 1) % period != 0; period is the key
                                  sliding_window_pattern, else the row's number */
    RHUMB_WINDOW_SWITCHED = 3, /* use_sliding_window turns it on from layer max_window_layers on */
    RHUMB_WINDOW_LOCAL = 4,    /* local_attention / 2 keys to each side where layer % period != 0;
                                  period is global_attn_every_n_layers, else the row's number */
    RHUMB_WINDOW_LISTED = 5,   /* where layer_types says so; without it the layers are not known */
    RHUMB_WINDOW_NO_ROPE = 6,  /* use_sliding_window turns it on in layers without rotary */
    RHUMB_WINDOW_CHUNKS = 7,   /* blocks of attention_chunk_size in layers with rotary */
    RHUMB_WINDOW_HYBRID = 8,   /* none; attention only where (layer + 1) % full_attention_interval
                                  == 0 (key, else the row's period) or layer_types says
                                  full_attention, the other layers have no attention */
} rhumb_window_rule;

typedef enum rhumb_turn_rule {
    RHUMB_TURN_ALL = 0,      /* every layer has rotary */
    RHUMB_TURN_INTERVAL = 1, /* no_rope_layers (1: rotary), else not where
                                (layer + 1) % no_rope_layer_interval == 0 */
    RHUMB_TURN_SLIDING = 2,  /* the sliding layers */
} rhumb_turn_rule;

typedef enum rhumb_scale_rule {
    RHUMB_SCALE_HEAD_DIM = 0,     /* head_dim^-1/2 */
    RHUMB_SCALE_QUERY_SCALAR = 1, /* query_pre_attn_scalar^-1/2 */
    RHUMB_SCALE_MULTIPLIER = 2,   /* attention_multiplier */
    RHUMB_SCALE_ONE = 3,
    RHUMB_SCALE_MSCALE = 4, /* head_dim^-1/2 (0.1 mscale_all_dim ln factor + 1)^2 */
} rhumb_scale_rule;

typedef enum rhumb_vision_rule {
    RHUMB_VISION_NONE = 0,
    RHUMB_VISION_EMBED_DIM = 1,   /* Qwen: vision_config, its width is embed_dim */
    RHUMB_VISION_HIDDEN_SIZE = 2, /* Qwen: likewise hidden_size */
    RHUMB_VISION_PIXTRAL = 3,     /* vision_config, of model_type pixtral */
    RHUMB_VISION_DINOV3 = 4,      /* the keys of the model itself; there is no text part */
} rhumb_vision_rule;

typedef struct rhumb_family {
    const char *model_type;
    const char *text;  /* not NULL: the model_type of its text_config, where all keys are; "": any
                          family, and there may be no text_config */
    uint32_t text_optional; /* 1: without a text_config the keys are at the top */
    rhumb_pairing pairing;
    rhumb_heads_names names;
    rhumb_head_rule head_rule;
    rhumb_kv_rule kv_rule;
    rhumb_theta_rule theta_rule;
    rhumb_part_rule part_rule;
    rhumb_window_rule window_rule;
    rhumb_turn_rule turn_rule;
    rhumb_scale_rule scale_rule;
    rhumb_vision_rule vision_rule; /* of the row that model_type names */
    uint32_t several;       /* 1: positions of several axes (M-RoPE), in the order: */
    rhumb_mrope_order order;
    uint32_t no_heads;      /* 1: the configuration may lack the numbers of heads */
    uint32_t by_type;       /* 1: full and sliding layers have a schedule each */
    uint32_t bidirectional; /* 1: not causal */
    uint32_t sinks;         /* 1: one learned logit per head in the softmax */
    uint32_t longrope_only; /* 1: the type name yarn means longrope */
    uint32_t period;
    /* of a configuration without the key; 0: none, and where the rule needs one the key is */
    double theta;
    double part;
    double softcap; /* attn_logit_softcapping; 0: the family has none */
    double scalar;  /* query_pre_attn_scalar */
    uint32_t heads;
    uint32_t kv_heads;
    uint32_t head_dim;
    uint32_t window; /* sliding_window, local_attention or attention_chunk_size */
    const char *theta_alias;
    const char *part_alias;
    const char *local_theta_key; /* of the sliding layers' schedule */
    double local_theta;
} rhumb_family;

/* NULL if the model_type is unknown. */
const rhumb_family *rhumb_family_find(const char *model_type);

/* Row `index`, or NULL past the end; for listing what is known. */
const rhumb_family *rhumb_family_at(uint32_t index);

#endif
