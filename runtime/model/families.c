#include "families.h"

#include <string.h>

#define LATER(name, what) {.model_type = name, .later = what}

/* Pairings and defaults are those of the hub checkpoints of each family, not of files converted for
 * other programs. Where a reference class has a fixed number as default for a key that every
 * published file has (8 key/value heads in mistral, say), the key is needed instead. */
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
     .part_rule = RHUMB_PART_FACTOR, .part = 1.0, .window_rule = RHUMB_WINDOW_ALL},
    {.model_type = "falcon", .pairing = RHUMB_PAIRING_HALF, .theta = 1e4,
     .kv_rule = RHUMB_KV_FALCON},
    {.model_type = "stablelm", .pairing = RHUMB_PAIRING_HALF, .theta = 1e4, .kv_rule = RHUMB_KV_KEY,
     .part_rule = RHUMB_PART_FACTOR, .part = 0.25},
    {.model_type = "olmo", .pairing = RHUMB_PAIRING_HALF, .theta = 1e4},
    {.model_type = "olmo2", .pairing = RHUMB_PAIRING_HALF, .theta = 1e4},
    {.model_type = "gemma", .pairing = RHUMB_PAIRING_HALF, .theta = 1e4,
     .head_rule = RHUMB_HEAD_KEY, .kv_rule = RHUMB_KV_KEY},
    {.model_type = "gemma2", .pairing = RHUMB_PAIRING_HALF, .theta = 1e4,
     .head_rule = RHUMB_HEAD_KEY, .kv_rule = RHUMB_KV_KEY, .window_rule = RHUMB_WINDOW_ALTERNATE,
     .window = 4096, .scale_rule = RHUMB_SCALE_QUERY_SCALAR, .softcap = 50.0},
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

    LATER("gemma3", "schedules per layer type"),
    LATER("gemma3_text", "schedules per layer type"),
    LATER("gemma4", "schedules per layer type"),
    LATER("gemma4_text", "schedules per layer type"),
    LATER("modernbert", "schedules per layer type"),
    LATER("gpt_oss", "yarn scaling, attention sinks"),
    LATER("smollm3", "layers without rotary"),
    LATER("cohere2", "layers without rotary"),
    LATER("llama4", "layers without rotary, query temperature"),
    LATER("llama4_text", "layers without rotary, query temperature"),
    LATER("deepseek_v2", "a rotary part at the end of the head, yarn scaling"),
    LATER("deepseek_v3", "a rotary part at the end of the head, yarn scaling"),
    LATER("kimi_k2", "a rotary part at the end of the head, yarn scaling"),
    LATER("qwen2_vl", "M-RoPE"),
    LATER("qwen2_5_vl", "M-RoPE"),
    LATER("qwen3_vl", "M-RoPE"),
    LATER("qwen3_vl_moe", "M-RoPE"),
    LATER("qwen3_5", "M-RoPE"),
    LATER("qwen3_5_moe", "M-RoPE"),
    LATER("llava", "a vision tower"),
    LATER("pixtral", "2-D rotary"),
    LATER("dinov3_vit", "2-D rotary"),
    LATER("bert", "learned positions"),
    LATER("gpt2", "learned positions"),
    LATER("vit", "learned 2-D positions"),
    LATER("deit", "learned 2-D positions"),
    LATER("detr", "sinusoidal 2-D positions"),
    LATER("t5", "relative position buckets"),
    LATER("mt5", "relative position buckets"),
    LATER("bloom", "ALiBi"),
    LATER("mpt", "ALiBi"),
    LATER("xlnet", "XLNet's relative positions"),
    LATER("deberta-v2", "DeBERTa's relative positions"),
    LATER("swin", "window bias tables"),
    LATER("swinv2", "window bias from coordinates"),
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
