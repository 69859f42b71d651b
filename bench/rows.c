/* The table of what is measured. */
#include "bench.h"

#include <fnmatch.h>
#include <stdio.h>

#define MIB ((uint64_t)1 << 20)
#define WIDE 1024 /* invocations of a work group */
#define HALF RHUMB_PAIRING_HALF
#define INTERLEAVED RHUMB_PAIRING_INTERLEAVED
#define ROPE(type, rows, ...)                                                                      \
    {.heads = 32, .q_rows = (rows), .head_dim = 128, .dtype = (type), __VA_ARGS__}

#define TERMS(term, ...)                                                                           \
    {.heads = 8, .q_rows = 1024, .head_dim = 64, .scheme = term, __VA_ARGS__}

#define WINDOWS(term)                                                                              \
    {.heads = 8, .q_rows = 64, .head_dim = 64, .windows = 16, .scheme = term}

/* A copy moves as many bytes as the rotations of its group. */
#define ROTATE_GROUP(name, type, rows, mib)                                                        \
    {name, "copy", BENCH_BANDWIDTH, bench_make_copy, {.bytes = (mib)*MIB}},                        \
    {name, "copy-wide", BENCH_BANDWIDTH, bench_make_copy,                                          \
     {.bytes = (mib)*MIB, .invocations = WIDE}},                                                   \
    {name, "half", BENCH_OPERATION, bench_make_rotate, ROPE(type, rows, .pairing = HALF)},         \
    {name, "half-in-place", BENCH_OPERATION, bench_make_rotate,                                    \
     ROPE(type, rows, .pairing = HALF, .in_place = true)},                                         \
    {name, "interleaved", BENCH_OPERATION, bench_make_rotate,                                      \
     ROPE(type, rows, .pairing = INTERLEAVED)},                                                    \
    {name, "interleaved-in-place", BENCH_OPERATION, bench_make_rotate,                             \
     ROPE(type, rows, .pairing = INTERLEAVED, .in_place = true)}

const bench_row bench_rows[] = {
    {"limits", "copy", BENCH_BANDWIDTH, bench_make_copy, {.bytes = 64 * MIB}},
    {"limits", "copy-wide", BENCH_BANDWIDTH, bench_make_copy,
     {.bytes = 64 * MIB, .invocations = WIDE}},
    {"limits", "read", BENCH_OPERATION, bench_make_read, {.bytes = 64 * MIB}},
    {"limits", "write", BENCH_OPERATION, bench_make_write, {.bytes = 64 * MIB}},
    {"limits", "add", BENCH_OPERATION, bench_make_add, {.bytes = 64 * MIB}},
    {"limits", "multiply-add", BENCH_COMPUTE, bench_make_multiply_add, {0}},
    {"limits", "dispatch", BENCH_OPERATION, bench_make_empty, {0}},

    ROTATE_GROUP("rotate-f32-512", RHUMB_F32, 512, 8),
    ROTATE_GROUP("rotate-f16-512", RHUMB_F16, 512, 4),
    ROTATE_GROUP("rotate-f32-4096", RHUMB_F32, 4096, 64),
    ROTATE_GROUP("rotate-f16-4096", RHUMB_F16, 4096, 32),

    {"attention-64-1024", "multiply-add", BENCH_COMPUTE, bench_make_multiply_add, {0}},
    {"attention-64-1024", "none", BENCH_OPERATION, bench_make_attention,
     {.heads = 8, .q_rows = 1024, .head_dim = 64}},
    {"attention-64-1024", "causal", BENCH_OPERATION, bench_make_attention,
     {.heads = 8, .q_rows = 1024, .head_dim = 64, .causal = true}},
    {"attention-128-512", "multiply-add", BENCH_COMPUTE, bench_make_multiply_add, {0}},
    {"attention-128-512", "none", BENCH_OPERATION, bench_make_attention,
     {.heads = 8, .q_rows = 512, .head_dim = 128}},
    {"attention-128-512", "causal", BENCH_OPERATION, bench_make_attention,
     {.heads = 8, .q_rows = 512, .head_dim = 128, .causal = true}},

    /* Terms of relative schemes against the same kernel without: the plain row is the limit. */
    {"terms-64-1024", "none", BENCH_COMPUTE, bench_make_terms, TERMS(BENCH_NONE, )},
    {"terms-64-1024", "alibi", BENCH_OPERATION, bench_make_terms, TERMS(BENCH_ALIBI, )},
    {"terms-64-1024", "t5", BENCH_OPERATION, bench_make_terms, TERMS(BENCH_T5, )},
    {"terms-64-1024", "shaw-16", BENCH_OPERATION, bench_make_terms, TERMS(BENCH_SHAW, .reach = 16)},
    {"terms-64-1024", "shaw-64", BENCH_OPERATION, bench_make_terms, TERMS(BENCH_SHAW, .reach = 64)},
    {"terms-64-1024", "shaw-16-values", BENCH_OPERATION, bench_make_terms, TERMS(BENCH_SHAW_VALUES, .reach = 16)},
    {"terms-64-1024", "shaw-64-values", BENCH_OPERATION, bench_make_terms, TERMS(BENCH_SHAW_VALUES, .reach = 64)},
    {"terms-64-1024", "music", BENCH_OPERATION, bench_make_terms, TERMS(BENCH_MUSIC, )},
    {"terms-64-1024", "music-values", BENCH_OPERATION, bench_make_terms, TERMS(BENCH_MUSIC_VALUES, )},
    {"terms-64-1024", "transformer-xl", BENCH_OPERATION, bench_make_terms, TERMS(BENCH_TRANSFORMER_XL, )},
    {"terms-64-1024", "xlnet", BENCH_OPERATION, bench_make_terms, TERMS(BENCH_XLNET, )},
    {"terms-64-1024", "xlnet-segments", BENCH_OPERATION, bench_make_terms, TERMS(BENCH_XLNET_SEGMENTS, )},
    {"terms-64-1024", "deberta-c2p", BENCH_OPERATION, bench_make_terms, TERMS(BENCH_C2P, )},
    {"terms-64-1024", "deberta-p2c", BENCH_OPERATION, bench_make_terms, TERMS(BENCH_P2C, )},
    {"terms-64-1024", "deberta", BENCH_OPERATION, bench_make_terms, TERMS(BENCH_C2P_P2C, )},
    /* a grid of 32 x 32 tokens in windows of 8 x 8, shifted by 4; plain: 16 windows */
    {"windows-64-64", "none", BENCH_COMPUTE, bench_make_terms, WINDOWS(BENCH_NONE)},
    {"windows-64-64", "swin", BENCH_OPERATION, bench_make_terms, WINDOWS(BENCH_SWIN)},
    {"terms-causal-64-1024", "none", BENCH_COMPUTE, bench_make_terms, TERMS(BENCH_NONE, .causal = true)},
    {"terms-causal-64-1024", "alibi", BENCH_OPERATION, bench_make_terms, TERMS(BENCH_ALIBI, .causal = true)},
    {"terms-causal-64-1024", "t5", BENCH_OPERATION, bench_make_terms, TERMS(BENCH_T5, .causal = true)},
    {"terms-causal-64-1024", "shaw-16", BENCH_OPERATION, bench_make_terms, TERMS(BENCH_SHAW, .reach = 16, .causal = true)},
    {"terms-causal-64-1024", "shaw-64", BENCH_OPERATION, bench_make_terms, TERMS(BENCH_SHAW, .reach = 64, .causal = true)},
    {"terms-causal-64-1024", "shaw-16-values", BENCH_OPERATION, bench_make_terms, TERMS(BENCH_SHAW_VALUES, .reach = 16, .causal = true)},
    {"terms-causal-64-1024", "shaw-64-values", BENCH_OPERATION, bench_make_terms, TERMS(BENCH_SHAW_VALUES, .reach = 64, .causal = true)},
    {"terms-causal-64-1024", "music", BENCH_OPERATION, bench_make_terms, TERMS(BENCH_MUSIC, .causal = true)},
    {"terms-causal-64-1024", "music-values", BENCH_OPERATION, bench_make_terms, TERMS(BENCH_MUSIC_VALUES, .causal = true)},
    {"terms-causal-64-1024", "transformer-xl", BENCH_OPERATION, bench_make_terms, TERMS(BENCH_TRANSFORMER_XL, .causal = true)},
    {"unfused-64-1024", "none", BENCH_COMPUTE, bench_make_terms, TERMS(BENCH_NONE, )},
    {"unfused-64-1024", "alibi", BENCH_OPERATION, bench_make_terms, TERMS(BENCH_ALIBI, .unfused = true)},
    {"unfused-64-1024", "t5", BENCH_OPERATION, bench_make_terms, TERMS(BENCH_T5, .unfused = true)},
    {"unfused-64-1024", "shaw-16", BENCH_OPERATION, bench_make_terms, TERMS(BENCH_SHAW, .reach = 16, .unfused = true)},
    {"unfused-64-1024", "shaw-64", BENCH_OPERATION, bench_make_terms, TERMS(BENCH_SHAW, .reach = 64, .unfused = true)},
    {"unfused-64-1024", "shaw-16-values", BENCH_OPERATION, bench_make_terms, TERMS(BENCH_SHAW_VALUES, .reach = 16, .unfused = true)},
    {"unfused-64-1024", "shaw-64-values", BENCH_OPERATION, bench_make_terms, TERMS(BENCH_SHAW_VALUES, .reach = 64, .unfused = true)},
    {"unfused-64-1024", "music", BENCH_OPERATION, bench_make_terms, TERMS(BENCH_MUSIC, .unfused = true)},
    {"unfused-64-1024", "music-values", BENCH_OPERATION, bench_make_terms, TERMS(BENCH_MUSIC_VALUES, .unfused = true)},
    {"unfused-64-1024", "transformer-xl", BENCH_OPERATION, bench_make_terms, TERMS(BENCH_TRANSFORMER_XL, .unfused = true)},
    {"unfused-64-1024", "xlnet", BENCH_OPERATION, bench_make_terms, TERMS(BENCH_XLNET, .unfused = true)},
    {"unfused-64-1024", "xlnet-segments", BENCH_OPERATION, bench_make_terms, TERMS(BENCH_XLNET_SEGMENTS, .unfused = true)},
    {"unfused-64-1024", "deberta-c2p", BENCH_OPERATION, bench_make_terms, TERMS(BENCH_C2P, .unfused = true)},
    {"unfused-64-1024", "deberta-p2c", BENCH_OPERATION, bench_make_terms, TERMS(BENCH_P2C, .unfused = true)},
    {"unfused-64-1024", "deberta", BENCH_OPERATION, bench_make_terms, TERMS(BENCH_C2P_P2C, .unfused = true)},

    /* A read moves as many bytes as K and V hold. */
    {"decode-64-4096", "read", BENCH_BANDWIDTH, bench_make_read, {.bytes = 16 * MIB}},
    {"decode-64-4096", "decode", BENCH_OPERATION, bench_make_attention,
     {.heads = 8, .q_rows = 1, .k_rows = 4096, .head_dim = 64}},
    {"decode-64-4096", "decode-sliced", BENCH_OPERATION, bench_make_attention,
     {.heads = 8, .q_rows = 1, .k_rows = 4096, .head_dim = 64, .sliced = true}},
    {"decode-64-16384", "read", BENCH_BANDWIDTH, bench_make_read, {.bytes = 64 * MIB}},
    {"decode-64-16384", "decode", BENCH_OPERATION, bench_make_attention,
     {.heads = 8, .q_rows = 1, .k_rows = 16384, .head_dim = 64}},
    {"decode-64-16384", "decode-sliced", BENCH_OPERATION, bench_make_attention,
     {.heads = 8, .q_rows = 1, .k_rows = 16384, .head_dim = 64, .sliced = true}},
};

const uint32_t bench_row_count = sizeof bench_rows / sizeof bench_rows[0];

const char *bench_row_id(const bench_row *row, char *text, size_t size)
{
    snprintf(text, size, "%s/%s", row->group, row->name);
    return text;
}

const char *bench_row_shape(const bench_row *row, char *text, size_t size)
{
    static const char *const dtypes[] = {"f32", "f16", "bf16"};
    const bench_shape *s = &row->shape;

    if (s->heads == 0 && s->bytes == 0)
        snprintf(text, size, "-");
    else if (s->heads == 0)
        snprintf(text, size, "%llu MiB a stream", (unsigned long long)(s->bytes / MIB));
    else if (s->k_rows != 0)
        snprintf(text, size, "H %u, Lq %u, Lk %u, D %u, %s", s->heads, s->q_rows, s->k_rows,
                 s->head_dim, dtypes[s->dtype]);
    else
        snprintf(text, size, "H %u, L %u, D %u, %s", s->heads, s->q_rows, s->head_dim,
                 dtypes[s->dtype]);
    return text;
}

static bool matches(const bench_row *row, const char *pattern)
{
    char id[128];

    bench_row_id(row, id, sizeof id);
    return pattern == NULL || strstr(id, pattern) != NULL || fnmatch(pattern, id, 0) == 0;
}

bool bench_row_wanted(const bench_row *row, const char *pattern)
{
    if (matches(row, pattern))
        return true;
    for (uint32_t i = 0; i < bench_row_count && row->role != BENCH_OPERATION; i++) {
        if (strcmp(bench_rows[i].group, row->group) == 0 && matches(&bench_rows[i], pattern))
            return true;
    }
    return false;
}
