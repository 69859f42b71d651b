/* The table of what is measured. */
#include "bench.h"

#define KIB ((uint64_t)1 << 10)
#define MIB ((uint64_t)1 << 20)
#define WIDE 1024 /* invocations of a work group */

/* ----------------------------------------------------------------------------------------------
 * Kinds of rows
 */
#define ROW_OF(a_group, a_name, a_role, maker, ...)                                                \
    .group = (a_group), .name = (a_name), .role = (a_role), .make = bench_make_##maker,            \
    .shape = {__VA_ARGS__}

#define ROW(group, name, maker, ...) {ROW_OF(group, name, BENCH_OPERATION, maker, __VA_ARGS__)}

/* Held against an operation of a peer. */
#define PEER(its, group, name, maker, ...)                                                         \
    {ROW_OF(group, name, BENCH_OPERATION, maker, __VA_ARGS__), .peer = (its)}

/* In units of another row's time. */
#define AGAINST(other, group, name, maker, ...)                                                    \
    {ROW_OF(group, name, BENCH_OPERATION, maker, __VA_ARGS__), .against = (other)}

#define BANDWIDTH(group, name, maker, ...)                                                         \
    {ROW_OF(group, name, BENCH_BANDWIDTH, maker, __VA_ARGS__)}
#define COMPUTE(group, name, maker, ...) {ROW_OF(group, name, BENCH_COMPUTE, maker, __VA_ARGS__)}
#define PEAK(group) COMPUTE(group, "multiply-add", multiply_add, 0)

/* ----------------------------------------------------------------------------------------------
 * Rotation, where a copy moves as many bytes as the rows of its group; embeddings
 */
#define ROPE(type, rows, pairs, ...)                                                               \
    .heads = 32, .q_rows = (rows), .head_dim = 128, .dtype = RHUMB_##type, .scheme = BENCH_ROPE,   \
    .pairing = RHUMB_PAIRING_##pairs, __VA_ARGS__

#define ROTATE_GROUP(name, type, rows, mib)                                                        \
    BANDWIDTH(name, "copy", copy, .bytes = (mib)*MIB),                                             \
    BANDWIDTH(name, "copy-wide", copy, .bytes = (mib)*MIB, .invocations = WIDE),                   \
    PEER("rope", name, "half", rotate, ROPE(type, rows, HALF, )),                                  \
    PEER("rope", name, "half-in-place", rotate, ROPE(type, rows, HALF, .in_place = true)),         \
    PEER("rope", name, "interleaved", rotate, ROPE(type, rows, INTERLEAVED, )),                    \
    PEER("rope", name, "interleaved-in-place", rotate,                                             \
         ROPE(type, rows, INTERLEAVED, .in_place = true))

#define TURN(...) .heads = 32, .q_rows = 512, .head_dim = 128, __VA_ARGS__

#define EMBED(term, ...) .q_rows = 4096, .head_dim = 1024, .scheme = BENCH_##term, __VA_ARGS__

/* ----------------------------------------------------------------------------------------------
 * Attention with the terms of schemes
 */
#define TERMS(term, ...)                                                                           \
    .heads = 8, .q_rows = 1024, .head_dim = 64, .scheme = BENCH_##term, __VA_ARGS__

#define HALF_LENGTH(type, ...)                                                                     \
    .heads = 8, .q_rows = 512, .head_dim = 128, .dtype = RHUMB_##type, __VA_ARGS__

/* X(name, scheme, reach) */
#define CAUSAL_SCHEMES(X)                                                                          \
    X("alibi", ALIBI, 0)                                                                           \
    X("kerple", KERPLE, 0)                                                                         \
    X("t5", T5, 0)                                                                                 \
    X("shaw-16", SHAW, 16)                                                                         \
    X("shaw-64", SHAW, 64)                                                                         \
    X("shaw-16-values", SHAW_VALUES, 16)                                                           \
    X("shaw-64-values", SHAW_VALUES, 64)                                                           \
    X("music", MUSIC, 0)                                                                           \
    X("music-values", MUSIC_VALUES, 0)                                                             \
    X("transformer-xl", TRANSFORMER_XL, 0)

#define ALL_SCHEMES(X)                                                                             \
    CAUSAL_SCHEMES(X)                                                                              \
    X("xlnet", XLNET, 0)                                                                           \
    X("xlnet-segments", XLNET_SEGMENTS, 0)                                                         \
    X("deberta-c2p", C2P, 0)                                                                       \
    X("deberta-p2c", P2C, 0)                                                                       \
    X("deberta", C2P_P2C, 0)

#define FUSED(name, term, to) ROW("terms-64-1024", name, attention, TERMS(term, .reach = (to))),
#define FUSED_CAUSAL(name, term, to)                                                               \
    ROW("terms-causal-64-1024", name, attention, TERMS(term, .reach = (to), .causal = true)),
#define BOTH_ROUTES(name, term, to)                                                                \
    ROW("unfused-64-1024", name, attention, TERMS(term, .reach = (to))),                           \
    AGAINST(name, "unfused-64-1024", name "-unfused", attention,                                   \
            TERMS(term, .reach = (to), .unfused = true)),

#define SEQUENCES(...) .heads = 8, .q_rows = 256, .head_dim = 64, .windows = 4, __VA_ARGS__

/* A grid of 32 x 32 tokens in windows of 8 x 8, shifted by 4; plain: 16 windows. */
#define WINDOWS(term, ...)                                                                         \
    .heads = 8, .q_rows = 64, .head_dim = 64, .windows = 16, .scheme = BENCH_##term, __VA_ARGS__

/* ----------------------------------------------------------------------------------------------
 * Decode: a read moves as many bytes as K and V hold
 */
#define DECODE(kv, type, keys, ...)                                                                \
    .heads = 8, .kv_heads = (kv), .q_rows = 1, .k_rows = (keys), .head_dim = 64,                   \
    .dtype = RHUMB_##type, __VA_ARGS__

#define DECODE_GROUP(name, kv, type, keys, size)                                                   \
    BANDWIDTH(name, "read", read, .bytes = (size)),                                                \
    ROW(name, "decode", attention, DECODE(kv, type, keys, )),                                      \
    ROW(name, "decode-paged", attention, DECODE(kv, type, keys, .block = 16)),                     \
    PEER("flash_attn", name, "decode-sliced", attention, DECODE(kv, type, keys, .sliced = true))

/* ----------------------------------------------------------------------------------------------
 * Cost against length: each row in units of half the length
 */
#define LENGTHS(group, maker, X)                                                                   \
    ROW(group, "256", maker, X(256)), AGAINST("256", group, "512", maker, X(512)),                 \
    AGAINST("512", group, "1024", maker, X(1024)), AGAINST("1024", group, "2048", maker, X(2048)), \
    AGAINST("2048", group, "4096", maker, X(4096)), AGAINST("4096", group, "8192", maker, X(8192))

#define ATTEND_LENGTH(rows) .heads = 4, .q_rows = (rows), .head_dim = 64
#define DECODE_LENGTH(keys) DECODE(8, F32, keys, .sliced = true)
#define ROTATE_LENGTH(rows) ROPE(F32, rows, HALF, )

/* ----------------------------------------------------------------------------------------------
 * Models, a line each
 */
#define LLAMA_3_2_1B                                                                               \
    .heads = 32, .kv_heads = 8, .head_dim = 64, .scheme = BENCH_ROPE, .base = 500000,              \
    .scaling = RHUMB_ROPE_SCALING_LLAMA3, .pairing = RHUMB_PAIRING_HALF, .causal = true
#define QWEN_2_5_7B                                                                                \
    .heads = 28, .kv_heads = 4, .head_dim = 128, .scheme = BENCH_ROPE, .base = 1000000,            \
    .pairing = RHUMB_PAIRING_HALF, .causal = true
#define PHI_3_5_MINI                                                                               \
    .heads = 32, .kv_heads = 32, .head_dim = 96, .scheme = BENCH_ROPE,                             \
    .scaling = RHUMB_ROPE_SCALING_LONGROPE, .pairing = RHUMB_PAIRING_HALF, .causal = true
#define GEMMA_3_1B(...)                                                                            \
    .heads = 4, .kv_heads = 1, .head_dim = 256, .scheme = BENCH_ROPE,                              \
    .pairing = RHUMB_PAIRING_HALF, .causal = true, __VA_ARGS__
#define GEMMA_3_1B_FULL GEMMA_3_1B(.base = 1000000, .norm = true)
#define GEMMA_3_1B_SLIDING GEMMA_3_1B(.window = 512, .norm = true)
#define BLOOM_560M .heads = 16, .head_dim = 64, .scheme = BENCH_ALIBI, .causal = true
#define T5_BASE .heads = 12, .head_dim = 64, .scheme = BENCH_T5
#define DEBERTA_V3_BASE .heads = 12, .head_dim = 64, .scheme = BENCH_C2P_P2C
#define TRANSFORMER_XL_BASE                                                                        \
    .heads = 10, .head_dim = 41, .scheme = BENCH_TRANSFORMER_XL, .causal = true
#define SWIN_T(stage_heads, count)                                                                 \
    .heads = (stage_heads), .q_rows = 49, .head_dim = 32, .windows = (count), .scheme = BENCH_SWIN
#define VIT_B .heads = 12, .head_dim = 64
#define QWEN_2_VL_VISION .heads = 16, .head_dim = 80

#define PREFILL_ROW(model, rows, text, type, ...)                                                  \
    ROW("model-" model "-prefill", text, attention, .q_rows = (rows), .dtype = RHUMB_##type,       \
        __VA_ARGS__)
#define PREFILL(model, type, text, ...)                                                            \
    PREFILL_ROW(model, 512, "512-" text, type, __VA_ARGS__),                                       \
    PREFILL_ROW(model, 1024, "1024-" text, type, __VA_ARGS__),                                     \
    PREFILL_ROW(model, 4096, "4096-" text, type, __VA_ARGS__)
#define ENCODER(model, ...)                                                                        \
    PEAK("model-" model "-prefill"), PREFILL(model, F32, "f32", __VA_ARGS__),                      \
    PREFILL(model, F16, "f16", __VA_ARGS__)

#define STEP_ROW(model, keys, text, type, ...)                                                     \
    ROW("model-" model "-decode", text, attention, .q_rows = 1, .k_rows = (keys),                  \
        .dtype = RHUMB_##type, .sliced = true, __VA_ARGS__)
#define STEP(model, type, text, ...)                                                               \
    STEP_ROW(model, 4096, "4096-" text, type, __VA_ARGS__),                                        \
    STEP_ROW(model, 16384, "16384-" text, type, __VA_ARGS__)

/* Rates are compared here, not times: the read is one for all sizes. */
#define STEPS(model, ...)                                                                          \
    BANDWIDTH("model-" model "-decode", "read", read, .bytes = 64 * MIB),                          \
    STEP(model, F32, "f32", __VA_ARGS__), STEP(model, F16, "f16", __VA_ARGS__)
#define DECODER(model, ...)                                                                        \
    ENCODER(model, __VA_ARGS__), PREFILL(model, Q8_0, "q8_0", __VA_ARGS__),                        \
    STEPS(model, __VA_ARGS__), STEP(model, Q8_0, "q8_0", __VA_ARGS__)

#define TURN_ROW(model, rows, text, ...)                                                           \
    ROW("model-" model "-rotate", text, rotate, .q_rows = (rows), __VA_ARGS__)
#define TURNS(model, ...)                                                                          \
    BANDWIDTH("model-" model "-rotate", "copy", copy, .bytes = 64 * MIB),                          \
    TURN_ROW(model, 512, "512", __VA_ARGS__), TURN_ROW(model, 1024, "1024", __VA_ARGS__),          \
    TURN_ROW(model, 4096, "4096", __VA_ARGS__)

/* With rotary positions: K and V go into a cache when they are rotated. */
#define ROTARY_DECODER(model, ...)                                                                 \
    DECODER(model, __VA_ARGS__), TURNS(model, __VA_ARGS__),                                        \
    TURN_ROW(model, 1, "append", .k_rows = 4096, .append = true, __VA_ARGS__)

const bench_row bench_rows[] = {
    BANDWIDTH("limits", "copy", copy, .bytes = 64 * MIB),
    BANDWIDTH("limits", "copy-wide", copy, .bytes = 64 * MIB, .invocations = WIDE),
    ROW("limits", "read", read, .bytes = 64 * MIB),
    ROW("limits", "write", write, .bytes = 64 * MIB),
    ROW("limits", "add", add, .bytes = 64 * MIB),
    ROW("limits", "shared", shared, 0),
    PEAK("limits"),
    ROW("limits", "exp2", exp2, 0),
    ROW("limits", "dispatch", empty, 0),

    ROTATE_GROUP("rotate-f32-512", F32, 512, 8),
    ROTATE_GROUP("rotate-f16-512", F16, 512, 4),
    ROTATE_GROUP("rotate-f32-4096", F32, 4096, 64),
    ROTATE_GROUP("rotate-f16-4096", F16, 4096, 32),
    BANDWIDTH("rotate-schemes", "copy", copy, .bytes = 8 * MIB),
    ROW("rotate-schemes", "rope", rotate, TURN(.scheme = BENCH_ROPE)),
    ROW("rotate-schemes", "rope-norm", rotate, TURN(.scheme = BENCH_ROPE, .norm = true)),
    ROW("rotate-schemes", "rope-shift", rotate, TURN(.scheme = BENCH_ROPE, .shift = true)),
    ROW("rotate-schemes", "xpos", rotate, TURN(.scheme = BENCH_XPOS)),
    PEER("rope", "rotate-schemes", "mrope", rotate, TURN(.scheme = BENCH_MROPE)),
    PEER("rope", "rotate-schemes", "rope2d", rotate, TURN(.scheme = BENCH_ROPE2D)),
    BANDWIDTH("append-512", "copy", copy, .bytes = 12 * MIB),
    ROW("append-512", "append", rotate,
        TURN(.kv_heads = 8, .k_rows = 4096, .scheme = BENCH_ROPE, .append = true)),
    ROW("append-1", "dispatch", empty, 0),
    AGAINST("dispatch", "append-1", "append", rotate, .heads = 32, .kv_heads = 8, .q_rows = 1,
            .k_rows = 4096, .head_dim = 128, .scheme = BENCH_ROPE, .append = true),

    /* Absolute schemes: what is added to x, and what is written alone. */
    BANDWIDTH("encode-1024-4096", "add", add, .bytes = 16 * MIB),
    PEER("add", "encode-1024-4096", "learned", encode, EMBED(LEARNED, )),
    PEER("add", "encode-1024-4096", "learned-in-place", encode, EMBED(LEARNED, .in_place = true)),
    PEER("get_rows+add", "encode-1024-4096", "sinusoidal", encode, EMBED(SINUSOIDAL, )),
    PEER("get_rows+add", "encode-1024-4096", "sinusoidal-in-place", encode,
         EMBED(SINUSOIDAL, .in_place = true)),
    ROW("encode-1024-4096", "learned-2d", encode, EMBED(LEARNED_2D, )),
    ROW("encode-1024-4096", "sinusoidal-2d", encode, EMBED(SINUSOIDAL_2D, )),
    BANDWIDTH("table-1024-4096", "write", write, .bytes = 16 * MIB),
    PEER("timestep", "table-1024-4096", "sinusoidal", encode, EMBED(SINUSOIDAL, .bare = true)),
    ROW("table-1024-4096", "sinusoidal-2d", encode, EMBED(SINUSOIDAL_2D, .bare = true)),

    BANDWIDTH("bias-1024", "write", write, .bytes = 32 * MIB),
    PEER("soft_max", "bias-1024", "alibi", bias, TERMS(ALIBI, )),
    PEER("soft_max", "bias-1024", "t5", bias, TERMS(T5, )),
    ROW("bias-1024", "kerple", bias, TERMS(KERPLE, )),
    PEAK("scores-64-1024"),
    ROW("scores-64-1024", "none", scores, TERMS(NONE, )),
    ROW("scores-64-1024", "rope", scores, TERMS(ROPE, )),
    ROW("scores-64-1024", "t5", scores, TERMS(T5, )),
    ROW("scores-64-1024", "deberta", scores, TERMS(C2P_P2C, )),
    PEAK("project-64-1024"),
    ROW("project-64-1024", "project", project, TERMS(NONE, )),
    ROW("project-64-1024", "project-folded", project, TERMS(NONE, .folded = true)),
    BANDWIDTH("resize-768", "copy", copy, .bytes = 8 * MIB),
    ROW("resize-768", "larger", resize, .k_rows = 196, .q_rows = 576, .head_dim = 768,
        .scheme = BENCH_RESIZE),
    ROW("resize-768", "smaller", resize, .k_rows = 576, .q_rows = 196, .head_dim = 768,
        .scheme = BENCH_RESIZE),
    BANDWIDTH("combine-128-512", "copy", copy, .bytes = 20 * MIB),
    ROW("combine-128-512", "combine", combine, TURN(.parts = 4)),

    PEAK("attention-64-1024"),
    PEER("flash_attn", "attention-64-1024", "none", attention, TERMS(NONE, )),
    PEER("flash_attn", "attention-64-1024", "causal", attention, TERMS(NONE, .causal = true)),
    PEER("flash_attn", "attention-64-1024", "causal-alibi", attention,
         TERMS(ALIBI, .causal = true)),
    PEER("unfused", "attention-64-1024", "t5", attention, TERMS(T5, )),
    PEAK("attention-128-512"),
    PEER("flash_attn", "attention-128-512", "none", attention, HALF_LENGTH(F32, )),
    PEER("flash_attn", "attention-128-512", "causal", attention,
         HALF_LENGTH(F32, .causal = true)),
    PEER("flash_attn", "attention-128-512", "none-f16", attention, HALF_LENGTH(F16, )),
    PEER("flash_attn", "attention-128-512", "causal-f16", attention,
         HALF_LENGTH(F16, .causal = true)),

    /* Against the same kernel without terms: the plain row is the limit. */
    COMPUTE("terms-64-1024", "none", attention, TERMS(NONE, )),
    ALL_SCHEMES(FUSED)
    COMPUTE("terms-causal-64-1024", "none", attention, TERMS(NONE, .causal = true)),
    CAUSAL_SCHEMES(FUSED_CAUSAL)
    COMPUTE("unfused-64-1024", "none", attention, TERMS(NONE, )),
    ALL_SCHEMES(BOTH_ROUTES)
    ROW("layouts-64-1024", "contiguous", attention, TERMS(NONE, )),
    AGAINST("contiguous", "layouts-64-1024", "paged", attention, TERMS(NONE, .block = 16)),
    ROW("layouts-64-1024", "batch", attention, SEQUENCES()),
    AGAINST("batch", "layouts-64-1024", "packed", attention, SEQUENCES(.packed = true)),

    COMPUTE("windows-64-64", "none", attention, WINDOWS(NONE, )),
    ROW("windows-64-64", "swin", attention, WINDOWS(SWIN, )),
    AGAINST("swin", "windows-64-64", "swin-unfused", attention, WINDOWS(SWIN, .unfused = true)),
    ROW("windows-64-64", "swin-v2", attention, WINDOWS(SWIN_V2, )),

    DECODE_GROUP("decode-64-4096", 8, F32, 4096, 16 * MIB),
    DECODE_GROUP("decode-64-16384", 8, F32, 16384, 64 * MIB),
    DECODE_GROUP("decode-gqa4-f32-4096", 2, F32, 4096, 4 * MIB),
    DECODE_GROUP("decode-gqa4-f32-16384", 2, F32, 16384, 16 * MIB),
    DECODE_GROUP("decode-gqa4-f16-4096", 2, F16, 4096, 2 * MIB),
    DECODE_GROUP("decode-gqa4-f16-16384", 2, F16, 16384, 8 * MIB),
    DECODE_GROUP("decode-gqa4-q8_0-4096", 2, Q8_0, 4096, 1088 * KIB),
    DECODE_GROUP("decode-gqa4-q8_0-16384", 2, Q8_0, 16384, 4352 * KIB),

    PEAK("length-attention"),
    LENGTHS("length-attention", attention, ATTEND_LENGTH),
    LENGTHS("length-decode", attention, DECODE_LENGTH),
    LENGTHS("length-rotate", rotate, ROTATE_LENGTH),

    ROTARY_DECODER("llama-3.2-1b", LLAMA_3_2_1B),
    ROTARY_DECODER("qwen2.5-7b", QWEN_2_5_7B),
    ROTARY_DECODER("phi-3.5-mini", PHI_3_5_MINI),
    ROTARY_DECODER("gemma-3-1b-full", GEMMA_3_1B_FULL),
    ROTARY_DECODER("gemma-3-1b-sliding", GEMMA_3_1B_SLIDING),
    DECODER("bloom-560m", BLOOM_560M),
    ENCODER("t5-base-encoder", T5_BASE),
    DECODER("t5-base-decoder", T5_BASE, .causal = true),
    ENCODER("deberta-v3-base", DEBERTA_V3_BASE),
    ENCODER("transformer-xl-base", TRANSFORMER_XL_BASE),
    STEPS("transformer-xl-base", TRANSFORMER_XL_BASE),
    PEAK("model-swin-t"),
    ROW("model-swin-t", "stage-1", attention, SWIN_T(3, 64)),
    ROW("model-swin-t", "stage-2", attention, SWIN_T(6, 16)),
    ROW("model-swin-t", "stage-3", attention, SWIN_T(12, 4)),
    ROW("model-swin-t", "stage-4", attention, SWIN_T(24, 1)),
    PEAK("model-vit-b"),
    ROW("model-vit-b", "224", attention, .q_rows = 197, VIT_B),
    ROW("model-vit-b", "384", attention, .q_rows = 577, VIT_B),
    BANDWIDTH("model-vit-b-embeddings", "add", add, .bytes = 8 * MIB),
    ROW("model-vit-b-embeddings", "224", encode, .q_rows = 197, .head_dim = 768,
        .scheme = BENCH_LEARNED, .in_place = true),
    ROW("model-vit-b-embeddings", "384", encode, .q_rows = 577, .head_dim = 768,
        .scheme = BENCH_LEARNED, .in_place = true),
    ENCODER("qwen2-vl-vision", QWEN_2_VL_VISION),
    TURNS("qwen2-vl-vision", QWEN_2_VL_VISION, .kv_heads = 16, .scheme = BENCH_ROPE2D),
};

const uint32_t bench_row_count = sizeof bench_rows / sizeof bench_rows[0];
