/* What ATTENTION refuses of paged keys, packed sequences and q8_0: each with the operation, what
 * was wanted and what was there. */
#include "harness.h"

#include <criterion/criterion.h>
#include <string.h>

#define HEADS 4u
#define KV_HEADS 2u
#define BATCH 2u
#define ROWS 5u
#define BLOCKS 7u
#define BLOCK_ROWS 16u
#define ENTRIES 3u
#define KEYS 40u
#define TOTAL_Q 11u
#define TOTAL_K 50u
#define SEQUENCES 3u
#define DIM 64u

typedef struct calls {
    rhumb_rope rope;
    rhumb_alibi alibi;
    rhumb_xlnet xlnet;
    rhumb_swin swin;
    gpu_operation op;
    harness_tensor o;
    uint32_t at[RHUMB_MAX_VIEWS]; /* index in op.tensors by view id */
    float memory[65536];
} calls;

static gpu_tensor *add(calls *c, rhumb_view_id id, rhumb_dtype dtype, uint64_t b, uint64_t h,
                       uint64_t l, uint64_t d)
{
    c->at[id] = c->op.tensor_count;
    return gpu_add_tensor(&c->op, id, dtype, b, h, l, d, c->memory, NULL);
}

static gpu_tensor *view(calls *c, rhumb_view_id id)
{
    return &c->op.tensors[c->at[id]];
}

static void remove_view(calls *c, rhumb_view_id id)
{
    uint32_t last = c->op.tensor_count - 1;
    c->op.tensors[c->at[id]] = c->op.tensors[last];
    c->at[c->op.tensors[last].id] = c->at[id];
    c->op.tensor_count--;
}

/* Rows one element further apart. */
static void part_rows(gpu_tensor *t)
{
    t->stride[2] += 1;
    t->stride[1] = (int64_t)t->shape[2] * t->stride[2];
    t->stride[0] = (int64_t)t->shape[1] * t->stride[1];
}

static void begin(calls *c, uint32_t q, uint32_t k)
{
    memset(c, 0, sizeof *c);
    rhumb_init_rope(&c->rope);
    rhumb_init_alibi(&c->alibi);
    rhumb_init_xlnet(&c->xlnet);
    rhumb_init_swin(&c->swin);
    gpu_init_operation(&c->op, RHUMB_OP_ATTENTION);
    c->op.info.heads = HEADS;
    c->op.info.kv_heads = KV_HEADS;
    c->op.info.head_dim = DIM;
    c->op.info.max_q_length = q;
    c->op.info.max_k_length = k;
}

static void add_o(calls *c, uint64_t b, uint64_t rows)
{
    harness_make_tensor(&c->o, RHUMB_F32, b, HEADS, rows, DIM, (harness_layout){0});
    c->at[RHUMB_VIEW_O] = c->op.tensor_count;
    (void)harness_add(&c->op, RHUMB_VIEW_O, &c->o, true);
}

static void paged(calls *c)
{
    begin(c, ROWS, KEYS);
    add(c, RHUMB_VIEW_Q, RHUMB_F32, BATCH, HEADS, ROWS, DIM);
    add(c, RHUMB_VIEW_K, RHUMB_F32, BLOCKS, KV_HEADS, BLOCK_ROWS, DIM);
    add(c, RHUMB_VIEW_V, RHUMB_F32, BLOCKS, KV_HEADS, BLOCK_ROWS, DIM);
    add(c, RHUMB_VIEW_BLOCK_TABLE, RHUMB_I32, 1, 1, BATCH, ENTRIES);
    add_o(c, BATCH, ROWS);
}

static void packed(calls *c)
{
    begin(c, ROWS, KEYS);
    add(c, RHUMB_VIEW_Q, RHUMB_F32, 1, HEADS, TOTAL_Q, DIM);
    add(c, RHUMB_VIEW_K, RHUMB_F32, 1, KV_HEADS, TOTAL_K, DIM);
    add(c, RHUMB_VIEW_V, RHUMB_F32, 1, KV_HEADS, TOTAL_K, DIM);
    add(c, RHUMB_VIEW_Q_STARTS, RHUMB_I32, 1, 1, 1, SEQUENCES + 1);
    add(c, RHUMB_VIEW_K_STARTS, RHUMB_I32, 1, 1, 1, SEQUENCES + 1);
    add_o(c, 1, TOTAL_Q);
}

static void q8(calls *c)
{
    begin(c, ROWS, KEYS);
    add(c, RHUMB_VIEW_Q, RHUMB_F32, BATCH, HEADS, ROWS, DIM);
    add(c, RHUMB_VIEW_K, RHUMB_Q8_0, BATCH, KV_HEADS, KEYS, DIM);
    add(c, RHUMB_VIEW_V, RHUMB_Q8_0, BATCH, KV_HEADS, KEYS, DIM);
    add_o(c, BATCH, ROWS);
}

/* O in the buffer of K, `offset` bytes from where that begins. */
static void put_o_behind_k(calls *c, uint64_t offset)
{
    view(c, RHUMB_VIEW_K)->bytes = 65536;
    view(c, RHUMB_VIEW_O)->bytes = 65536;
    view(c, RHUMB_VIEW_O)->same_as = 1 + c->at[RHUMB_VIEW_K];
    view(c, RHUMB_VIEW_O)->offset = offset;
    view(c, RHUMB_VIEW_O)->input = view(c, RHUMB_VIEW_O)->output = NULL;
}

/* The blocks of K take BATCH KV_HEADS KEYS DIM / 32 * 34 bytes. */
#define K_BYTES 10880u

static void q8_beside_o(calls *c)
{
    q8(c);
    put_o_behind_k(c, K_BYTES);
}

static void use_windows(calls *c)
{
    c->swin.window[0] = c->swin.window[1] = 2;
    c->op.info.scheme = &c->swin;
    add(c, RHUMB_VIEW_TABLE, RHUMB_F32, 1, 1, 9, HEADS);
    add(c, RHUMB_VIEW_WORKSPACE, RHUMB_F32, 1, 1, 1, 4096);
}

static void use_scores(calls *c)
{
    remove_view(c, RHUMB_VIEW_V);
    c->op.info.op = RHUMB_OP_SCORES;
}

static void use_rotate(calls *c)
{
    remove_view(c, RHUMB_VIEW_Q);
    remove_view(c, RHUMB_VIEW_V);
    view(c, RHUMB_VIEW_O)->id = RHUMB_VIEW_K_OUT;
    c->op.info.op = RHUMB_OP_ROTATE;
    c->op.info.rotary = &c->rope;
}

/* X(base, name, change, code, start, found): the message begins with one and has the other. */
#define ROWS_OF_CHANGES(X)                                                                         \
    X(paged, table_is_of_one_entry, view(c, RHUMB_VIEW_BLOCK_TABLE)->shape[2] = 1, ARGUMENT,       \
      "attention: shape of BLOCK_TABLE [B, blocks]: wanted B 2", "found 1")                        \
    X(paged, table_has_heads, view(c, RHUMB_VIEW_BLOCK_TABLE)->shape[1] = 2, ARGUMENT,             \
      "attention: shape of BLOCK_TABLE", "found 2")                                                \
    X(paged, table_is_f32, view(c, RHUMB_VIEW_BLOCK_TABLE)->dtype = RHUMB_F32, ARGUMENT,           \
      "attention: dtype of BLOCK_TABLE: wanted i32", "f32")                                        \
    X(paged, v_has_fewer_blocks, view(c, RHUMB_VIEW_V)->shape[0] = BLOCKS - 1, ARGUMENT,           \
      "attention: shape of V [B, kv_heads, Lk, value_dim]: wanted blocks of the pool 7",           \
      "found 6")                                                                                   \
    X(paged, v_has_other_blocks, view(c, RHUMB_VIEW_V)->shape[2] = 8, ARGUMENT,                    \
      "attention: shape of V [B, kv_heads, Lk, value_dim]: wanted rows of a block 16", "found 8")  \
    X(paged, o_is_of_the_pool, view(c, RHUMB_VIEW_O)->shape[0] = 1, ARGUMENT,                      \
      "attention: shape of O", "found 1")                                                          \
    X(paged, k_has_the_heads_of_q, view(c, RHUMB_VIEW_K)->shape[1] = 1, ARGUMENT,                  \
      "attention: shape of K", "found 1")                                                          \
    X(paged, length_beyond_the_blocks,                                                             \
      (c->op.info.max_k_length = 1000, c->op.dispatch.k_length = 49), LIMIT,                       \
      "attention: k_length: wanted up to 48", "found 49")                                          \
    X(paged, length_beyond_the_plan, c->op.dispatch.k_length = 41, LIMIT,                          \
      "attention: k_length: wanted up to 40", "found 41")                                          \
    X(paged, positions_are_too_few,                                                                \
      (add(c, RHUMB_VIEW_POSITIONS_Q, RHUMB_I32, 1, 1, 1, ROWS),                                   \
       add(c, RHUMB_VIEW_POSITIONS_K, RHUMB_I32, 1, 1, 1, KEYS - 1)),                              \
      ARGUMENT, "attention: shape of POSITIONS_K", "39")                                           \
    X(paged, starts,                                                                               \
      (add(c, RHUMB_VIEW_Q_STARTS, RHUMB_I32, 1, 1, 1, 4),                                         \
       add(c, RHUMB_VIEW_K_STARTS, RHUMB_I32, 1, 1, 1, 4)),                                        \
      UNSUPPORTED, "attention: views: wanted BLOCK_TABLE, or Q_STARTS and K_STARTS", "0x300080f")  \
    X(paged, windows, use_windows(c), UNSUPPORTED, "attention: scheme", "windows")                 \
    X(packed, k_starts_are_missing, remove_view(c, RHUMB_VIEW_K_STARTS), ARGUMENT,                 \
      "attention: views: wanted Q_STARTS and K_STARTS together", "0x1000000")                      \
    X(packed, q_starts_are_missing, remove_view(c, RHUMB_VIEW_Q_STARTS), ARGUMENT,                 \
      "attention: views: wanted Q_STARTS and K_STARTS together", "0x2000000")                      \
    X(packed, k_starts_are_fewer, view(c, RHUMB_VIEW_K_STARTS)->shape[3] = SEQUENCES, ARGUMENT,    \
      "attention: shape of SEGMENTS_K or K_STARTS", "found 3")                                     \
    X(packed, one_start,                                                                           \
      view(c, RHUMB_VIEW_Q_STARTS)->shape[3] = view(c, RHUMB_VIEW_K_STARTS)->shape[3] = 1,         \
      ARGUMENT, "attention: shape of Q_STARTS", "found 1")                                         \
    X(packed, starts_are_f16, view(c, RHUMB_VIEW_K_STARTS)->dtype = RHUMB_F16, ARGUMENT,           \
      "attention: dtype of SEGMENTS_K or K_STARTS", "f16")                                         \
    X(packed, q_is_of_a_batch, view(c, RHUMB_VIEW_Q)->shape[0] = SEQUENCES, ARGUMENT,              \
      "attention: shape of Q", "found 3")                                                          \
    X(packed, o_has_fewer_rows, view(c, RHUMB_VIEW_O)->shape[2] = TOTAL_Q - 1, ARGUMENT,           \
      "attention: shape of O [B, heads, Lq, value_dim]: wanted rows of all sequences 11",          \
      "found 10")                                                                                  \
    X(packed, v_has_fewer_keys, view(c, RHUMB_VIEW_V)->shape[2] = TOTAL_K - 1, ARGUMENT,           \
      "attention: shape of V", "found 49")                                                         \
    X(packed, q_length, c->op.dispatch.q_length = 3, ARGUMENT, "attention: q_length and k_length", \
      "found 3")                                                                                   \
    X(packed, k_length, c->op.dispatch.k_length = 3, ARGUMENT, "attention: q_length and k_length", \
      "and 3")                                                                                     \
    X(packed, lengths, add(c, RHUMB_VIEW_LENGTHS, RHUMB_I32, 1, 1, SEQUENCES, 4), UNSUPPORTED,     \
      "attention: views: wanted no LENGTHS and no MASK", "0x100")                                  \
    X(packed, mask, add(c, RHUMB_VIEW_MASK, RHUMB_F32, 1, 1, 1, TOTAL_K), UNSUPPORTED,             \
      "attention: views: wanted no LENGTHS and no MASK", "0x4000000")                              \
    X(packed, positions_of_a_batch,                                                                \
      (add(c, RHUMB_VIEW_POSITIONS_Q, RHUMB_I32, 1, 1, SEQUENCES, TOTAL_Q),                        \
       add(c, RHUMB_VIEW_POSITIONS_K, RHUMB_I32, 1, 1, 1, TOTAL_K)),                               \
      ARGUMENT, "attention: shape of POSITIONS_Q", "[1, 1, 3, 11]")                                \
    X(packed, windows, use_windows(c), UNSUPPORTED, "attention: scheme", "windows")                \
    X(q8, head_dim, c->op.info.head_dim = 40, ARGUMENT,                                            \
      "attention: head_dim: wanted a multiple of 32 for K", "found 40")                            \
    X(q8, value_dim, c->op.info.value_dim = 33, ARGUMENT,                                          \
      "attention: value_dim: wanted a multiple of 32 for V", "found 33")                           \
    X(q8, rows_apart_by_an_element, part_rows(view(c, RHUMB_VIEW_K)), ARGUMENT,                    \
      "attention: stride[0] of K: wanted a multiple of 32", "found 5200")                          \
    X(q8, odd_offset, (view(c, RHUMB_VIEW_V)->offset = 35, view(c, RHUMB_VIEW_V)->bytes = 16384),  \
      ARGUMENT, "attention: offset of V: wanted a multiple of 2", "found")                         \
    X(q8, o_overlaps_k, put_o_behind_k(c, K_BYTES - 4), ARGUMENT,                                  \
      "attention: view O is written", "K, found bytes")                                            \
    X(q8, q, view(c, RHUMB_VIEW_Q)->dtype = RHUMB_Q8_0, ARGUMENT,                                  \
      "attention: dtype of Q: wanted f32, f16 or bf16", "q8_0")                                    \
    X(q8, o, view(c, RHUMB_VIEW_O)->dtype = RHUMB_Q8_0, ARGUMENT,                                  \
      "attention: dtype of O: wanted f32, f16 or bf16", "q8_0")                                    \
    X(q8, no_dtype, view(c, RHUMB_VIEW_K)->dtype = (rhumb_dtype)5, ARGUMENT,                       \
      "attention: dtype of K: wanted f32, f16, bf16 or q8_0", "(5)")                               \
    X(q8, k_of_integers, view(c, RHUMB_VIEW_K)->dtype = RHUMB_I32, ARGUMENT,                       \
      "attention: dtype of K: wanted f32, f16, bf16 or q8_0", "i32")                               \
    X(q8, scores, use_scores(c), ARGUMENT, "scores: dtype of K: wanted f32, f16 or bf16", "q8_0")  \
    X(q8, rotate, use_rotate(c), ARGUMENT, "rotate: dtype of K: wanted f32, f16 or bf16", "q8_0")

#define X(base, name, change, code, start, found)                                                  \
    static void change_##base##_##name(calls *c)                                                   \
    {                                                                                              \
        change;                                                                                    \
    }
ROWS_OF_CHANGES(X)
#undef X

static const struct {
    const char *name;
    void (*base)(calls *c);
    void (*change)(calls *c);
    rhumb_result code;
    const char *start;
    const char *found;
} changes[] = {
#define X(base, name, change, code, start, found)                                                  \
    {#base ": " #name, base, change_##base##_##name, RHUMB_ERROR_##code, start, found},
    ROWS_OF_CHANGES(X)
#undef X
};

Test(layout_input, each_wrong_call_is_refused_with_what_was_wanted_and_found)
{
    static calls c;
    harness h;
    harness_open(&h, HARNESS_LAVAPIPE);
    for (size_t i = 0; i < sizeof changes / sizeof changes[0]; i++) {
        changes[i].base(&c);
        changes[i].change(&c);
        harness_expect_refused(&h, &c.op, changes[i].name, changes[i].code, changes[i].start,
                               changes[i].found, &c.o);
        harness_free_tensor(&c.o);
    }
    harness_close(&h);
}

Test(layout_input, unchanged_calls_are_accepted)
{
    static void (*const bases[])(calls *c) = {paged, packed, q8, q8_beside_o};
    static calls c;
    harness h;
    harness_open(&h, HARNESS_LAVAPIPE);
    for (size_t i = 0; i < sizeof bases / sizeof bases[0]; i++) {
        bases[i](&c);
        h.cases++;
        if (gpu_run_operation(h.g, &c.op) != RHUMB_OK) {
            (void)harness_fail(&h, "base %zu: %s", i, c.op.message);
        }
        harness_free_tensor(&c.o);
    }
    harness_close(&h);
}
