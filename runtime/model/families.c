#include "families.h"

#include <string.h>

#define QWEN2_VL                                                                                   \
    .pairing = RHUMB_PAIRING_HALF, .theta = 1e6, .kv_rule = RHUMB_KV_KEY,                          \
    .window_rule = RHUMB_WINDOW_SWITCHED, .several = 1, .order = RHUMB_MROPE_BLOCKS

#define QWEN3_VL                                                                                   \
    .pairing = RHUMB_PAIRING_HALF, .theta = 5e5, .head_rule = RHUMB_HEAD_KEY,                      \
    .kv_rule = RHUMB_KV_KEY, .several = 1, .order = RHUMB_MROPE_INTERLEAVED

/* The base has no default that sources agree on: the key is needed. */
#define QWEN3_5                                                                                    \
    .pairing = RHUMB_PAIRING_HALF, .head_rule = RHUMB_HEAD_KEY, .kv_rule = RHUMB_KV_KEY,           \
    .part_rule = RHUMB_PART_FACTOR, .part = 0.25, .window_rule = RHUMB_WINDOW_HYBRID, .period = 4, \
    .several = 1, .order = RHUMB_MROPE_INTERLEAVED, .no_heads = 1

/* Pairings and defaults are those of the hub checkpoints of each family, not of files converted for
 * other programs. Where a reference class has a fixed number as default for a key that every
 * published file has (8 key/value heads in mistral, say), the key is needed instead. The text part
 * of a published Gemma 3 leaves most keys out: its row has the numbers. */
static const rhumb_family families[] = {
    {.model_type = "llama", .pairing = RHUMB_PAIRING_HALF, .theta = 1e4},
    {.model_type = "mistral", .pairing = RHUMB_PAIRING_HALF, .theta = 1e4, .kv_rule = RHUMB_KV_KEY,
     .window_rule = RHUMB_WINDOW_ALL, .window = 4096},
    {.model_type = "mixtral", .pairing = RHUMB_PAIRING_HALF, .theta = 1e6, .kv_rule = RHUMB_KV_KEY,
     .window_rule = RHUMB_WINDOW_ALL},
    {.model_type = "qwen2", .pairing = RHUMB_PAIRING_HALF, .theta = 1e4, .kv_rule = RHUMB_KV_KEY,
     .window_rule = RHUMB_WINDOW_SWITCHED},
    {.model_type = "qwen2_moe", .pairing = RHUMB_PAIRING_HALF, .theta = 1e4,
     .kv_rule = RHUMB_KV_KEY, .window_rule = RHUMB_WINDOW_SWITCHED},
    {.model_type = "qwen3", .pairing = RHUMB_PAIRING_HALF, .theta = 1e4,
     .head_rule = RHUMB_HEAD_KEY, .kv_rule = RHUMB_KV_KEY, .window_rule = RHUMB_WINDOW_SWITCHED},
    {.model_type = "gptj", .pairing = RHUMB_PAIRING_INTERLEAVED, .theta = 1e4,
     .names = RHUMB_NAMES_GPT, .kv_rule = RHUMB_KV_HEADS, .theta_rule = RHUMB_THETA_FIXED,
     .part_rule = RHUMB_PART_DIM},
    {.model_type = "codegen", .pairing = RHUMB_PAIRING_INTERLEAVED, .theta = 1e4,
     .names = RHUMB_NAMES_GPT, .kv_rule = RHUMB_KV_HEADS, .theta_rule = RHUMB_THETA_FIXED,
     .part_rule = RHUMB_PART_DIM},
    {.model_type = "gpt_neox", .pairing = RHUMB_PAIRING_HALF, .theta = 1e4,
     .theta_alias = "rotary_emb_base", .kv_rule = RHUMB_KV_HEADS, .part_rule = RHUMB_PART_FACTOR,
     .part = 0.25, .part_alias = "rotary_pct"},
    {.model_type = "phi", .pairing = RHUMB_PAIRING_HALF, .theta = 1e4,
     .part_rule = RHUMB_PART_FACTOR, .part = 0.5},
    {.model_type = "phi3", .pairing = RHUMB_PAIRING_HALF, .theta = 1e4,
     .part_rule = RHUMB_PART_FACTOR, .part = 1.0, .window_rule = RHUMB_WINDOW_ALL,
     .longrope_only = 1},
    {.model_type = "falcon", .pairing = RHUMB_PAIRING_HALF, .theta = 1e4,
     .kv_rule = RHUMB_KV_FALCON},
    {.model_type = "stablelm", .pairing = RHUMB_PAIRING_HALF, .theta = 1e4, .kv_rule = RHUMB_KV_KEY,
     .part_rule = RHUMB_PART_FACTOR, .part = 0.25},
    {.model_type = "olmo", .pairing = RHUMB_PAIRING_HALF, .theta = 1e4},
    {.model_type = "olmo2", .pairing = RHUMB_PAIRING_HALF, .theta = 1e4},
    {.model_type = "gemma", .pairing = RHUMB_PAIRING_HALF, .theta = 1e4,
     .head_rule = RHUMB_HEAD_KEY, .kv_rule = RHUMB_KV_KEY},
    {.model_type = "gemma2", .pairing = RHUMB_PAIRING_HALF, .theta = 1e4,
     .head_rule = RHUMB_HEAD_KEY, .kv_rule = RHUMB_KV_KEY, .window_rule = RHUMB_WINDOW_PERIOD,
     .period = 2, .window = 4096, .scale_rule = RHUMB_SCALE_QUERY_SCALAR, .softcap = 50.0},
    {.model_type = "starcoder2", .pairing = RHUMB_PAIRING_HALF, .theta = 1e4,
     .kv_rule = RHUMB_KV_KEY, .window_rule = RHUMB_WINDOW_ALL},
    {.model_type = "granite", .pairing = RHUMB_PAIRING_HALF, .theta = 1e4,
     .scale_rule = RHUMB_SCALE_MULTIPLIER},
    {.model_type = "cohere", .pairing = RHUMB_PAIRING_INTERLEAVED, .theta = 5e5},
    {.model_type = "chatglm", .pairing = RHUMB_PAIRING_INTERLEAVED, .theta = 1e4,
     .head_rule = RHUMB_HEAD_CHANNELS, .kv_rule = RHUMB_KV_GROUPS, .theta_rule = RHUMB_THETA_RATIO,
     .part_rule = RHUMB_PART_FIXED, .part = 0.5},
    {.model_type = "glm", .pairing = RHUMB_PAIRING_INTERLEAVED, .theta = 1e4,
     .head_rule = RHUMB_HEAD_KEY, .kv_rule = RHUMB_KV_KEY, .part_rule = RHUMB_PART_FACTOR,
     .part = 0.5},
    {.model_type = "glm4", .pairing = RHUMB_PAIRING_INTERLEAVED, .theta = 1e4,
     .head_rule = RHUMB_HEAD_KEY, .kv_rule = RHUMB_KV_KEY, .part_rule = RHUMB_PART_FACTOR,
     .part = 0.5},

    {.model_type = "qwen3_moe", .pairing = RHUMB_PAIRING_HALF, .theta = 1e4,
     .head_rule = RHUMB_HEAD_KEY, .kv_rule = RHUMB_KV_KEY, .window_rule = RHUMB_WINDOW_SWITCHED},
    {.model_type = "minicpm", .pairing = RHUMB_PAIRING_HALF, .theta = 1e4},
    {.model_type = "hunyuan_v1_dense", .pairing = RHUMB_PAIRING_HALF, .theta = 1e4},
    {.model_type = "hunyuan_v1_moe", .pairing = RHUMB_PAIRING_HALF, .theta = 1e4},
    {.model_type = "gpt_oss", .pairing = RHUMB_PAIRING_HALF, .theta = 150000.0,
     .head_rule = RHUMB_HEAD_KEY, .kv_rule = RHUMB_KV_KEY, .window_rule = RHUMB_WINDOW_PERIOD,
     .period = 2, .window = 128, .sinks = 1},
    /* the reference class has a base of its own, the published files name another: needed */
    {.model_type = "smollm3", .pairing = RHUMB_PAIRING_HALF, .window_rule = RHUMB_WINDOW_NO_ROPE,
     .turn_rule = RHUMB_TURN_INTERVAL, .period = 4, .kv_rule = RHUMB_KV_KEY},
    {.model_type = "cohere2", .pairing = RHUMB_PAIRING_INTERLEAVED,
     .window_rule = RHUMB_WINDOW_PERIOD, .period = 4, .turn_rule = RHUMB_TURN_SLIDING,
     .window = 4096},
    {.model_type = "deepseek_v2", .pairing = RHUMB_PAIRING_INTERLEAVED, .theta = 1e4,
     .head_rule = RHUMB_HEAD_MLA, .scale_rule = RHUMB_SCALE_MSCALE},
    {.model_type = "deepseek_v3", .pairing = RHUMB_PAIRING_INTERLEAVED, .theta = 1e4,
     .head_rule = RHUMB_HEAD_MLA, .scale_rule = RHUMB_SCALE_MSCALE},
    {.model_type = "kimi_k2", .pairing = RHUMB_PAIRING_INTERLEAVED,
     .head_rule = RHUMB_HEAD_MLA, .scale_rule = RHUMB_SCALE_MSCALE},
    {.model_type = "gemma3", .text = "gemma3_text"},
    {.model_type = "gemma3_text", .pairing = RHUMB_PAIRING_HALF, .by_type = 1, .theta = 1e6,
     .local_theta_key = "rope_local_base_freq", .local_theta = 1e4, .head_rule = RHUMB_HEAD_KEY,
     .head_dim = 256, .heads = 8, .kv_rule = RHUMB_KV_KEY, .kv_heads = 4,
     .window_rule = RHUMB_WINDOW_PERIOD, .period = 6, .window = 4096,
     .scale_rule = RHUMB_SCALE_QUERY_SCALAR, .scalar = 256.0},
    {.model_type = "gemma4", .text = "gemma4_text"},
    {.model_type = "gemma4_text", .pairing = RHUMB_PAIRING_HALF, .by_type = 1,
     .head_rule = RHUMB_HEAD_GLOBAL, .kv_rule = RHUMB_KV_GLOBAL,
     .window_rule = RHUMB_WINDOW_LISTED, .scale_rule = RHUMB_SCALE_ONE},
    {.model_type = "modernbert", .pairing = RHUMB_PAIRING_HALF, .by_type = 1, .bidirectional = 1,
     .theta = 160000.0, .theta_alias = "global_rope_theta", .local_theta_key = "local_rope_theta",
     .local_theta = 1e4, .kv_rule = RHUMB_KV_HEADS, .window_rule = RHUMB_WINDOW_LOCAL, .period = 3,
     .window = 128},
    {.model_type = "llama4", .text = "llama4_text"},
    {.model_type = "llama4_text", .pairing = RHUMB_PAIRING_INTERLEAVED, .theta = 5e5,
     .kv_rule = RHUMB_KV_KEY, .window_rule = RHUMB_WINDOW_CHUNKS, .window = 8192,
     .turn_rule = RHUMB_TURN_INTERVAL, .period = 4},

    {.model_type = "qwen2_vl", .text = "qwen2_vl_text", .text_optional = 1,
     .vision_rule = RHUMB_VISION_EMBED_DIM},
    {.model_type = "qwen2_vl_text", QWEN2_VL},
    {.model_type = "qwen2_5_vl", .text = "qwen2_5_vl_text", .text_optional = 1,
     .vision_rule = RHUMB_VISION_HIDDEN_SIZE},
    {.model_type = "qwen2_5_vl_text", QWEN2_VL},
    {.model_type = "qwen3_vl", .text = "qwen3_vl_text", .vision_rule = RHUMB_VISION_HIDDEN_SIZE},
    {.model_type = "qwen3_vl_text", QWEN3_VL},
    {.model_type = "qwen3_vl_moe", .text = "qwen3_vl_moe_text",
     .vision_rule = RHUMB_VISION_HIDDEN_SIZE},
    {.model_type = "qwen3_vl_moe_text", QWEN3_VL},
    {.model_type = "qwen3_5", .text = "qwen3_5_text", .vision_rule = RHUMB_VISION_HIDDEN_SIZE},
    {.model_type = "qwen3_5_text", QWEN3_5},
    {.model_type = "qwen3_5_moe", .text = "qwen3_5_moe_text",
     .vision_rule = RHUMB_VISION_HIDDEN_SIZE},
    {.model_type = "qwen3_5_moe_text", QWEN3_5},
    {.model_type = "llava", .text = "", .vision_rule = RHUMB_VISION_PIXTRAL},
    {.model_type = "dinov3_vit", .vision_rule = RHUMB_VISION_DINOV3},
};

const rhumb_family *rhumb_family_at(uint32_t index)
{
    return index < sizeof families / sizeof families[0] ? &families[index] : NULL;
}

const rhumb_family *rhumb_family_find(const char *model_type)
{
    const rhumb_family *family;
    uint32_t i;

    for (i = 0; (family = rhumb_family_at(i)) != NULL; i++) {
        if (strcmp(family->model_type, model_type) == 0)
            return family;
    }
    return NULL;
}
