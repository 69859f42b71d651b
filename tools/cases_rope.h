/* What the files of the rotary schemes share: vocabulary of PARAMS.md section 5, the schedule of a
 * case, rotation of a tensor, attention. */
#ifndef RHUMB_TOOLS_CASES_ROPE_H
#define RHUMB_TOOLS_CASES_ROPE_H

#include "cases_internal.h"

#include "reference.h"

/* ------------------------------------------------------------------------------------------------
 * Vocabulary. Rows for param_row tables; what a scheme adds stands in its own file.
 */
#define CASE_PAIRING_ROWS(layouts)                                                                 \
    {"head_dim", PARAM_WHOLE, NULL}, {"rotary_dim", PARAM_WHOLE, NULL},                            \
        {"dim", PARAM_WHOLE, NULL}, {"rotary_offset", PARAM_WHOLE, NULL},                          \
        {"layout", PARAM_TEXT, layouts}, {"attention_factor", PARAM_NUMBER, NULL},                 \
        {"base", PARAM_NUMBER, NULL}, {"note", PARAM_NOTE, NULL},                                  \
        {"third_party_float32_max_abs_dev", PARAM_NUMBER, NULL},                                   \
        {"ggml_float32_max_abs_dev", PARAM_NUMBER, NULL},                                          \
        {"ref_float32_max_rel_dev", PARAM_NUMBER, NULL},                                           \
        {"deviation_from_float64_formula", PARAM_NUMBER, NULL},                                    \
    {                                                                                              \
        "deviation_from_direct_rotation", PARAM_NUMBER, NULL                                       \
    }

#define CASE_SCHEDULE_ROWS                                                                         \
    {"rope_parameters", PARAM_OBJECT, NULL}, {"max_position_embeddings", PARAM_NUMBER, NULL},      \
        {"seq_len", PARAM_WHOLE, NULL}, {"parametrisation", PARAM_TEXT, "ggml\n"},                 \
        {"freq_base", PARAM_NUMBER, NULL}, {"freq_scale", PARAM_NUMBER, NULL},                     \
        {"ext_factor", PARAM_NUMBER, NULL}, {"attn_factor", PARAM_NUMBER, NULL},                   \
        {"beta_fast", PARAM_NUMBER, NULL}, {"beta_slow", PARAM_NUMBER, NULL},                      \
        {"n_ctx_orig", PARAM_WHOLE, NULL},                                                         \
    {                                                                                              \
        "effective_attention_factor", PARAM_NUMBER, NULL                                           \
    }

#define CASE_ATTENTION_ROWS                                                                        \
    {"heads", PARAM_WHOLE, NULL}, {"kv_heads", PARAM_WHOLE, NULL}, {"scale", PARAM_NUMBER, NULL},  \
        {"causal", PARAM_BOOL, NULL}, {"sliding_window", PARAM_WHOLE, NULL},                       \
        {"mask_order", PARAM_TEXT, "sequence index\n"}, {"qk_nope_head_dim", PARAM_WHOLE, NULL},   \
        {"qk_rope_head_dim", PARAM_WHOLE, NULL},                                                   \
    {                                                                                              \
        "v_head_dim", PARAM_WHOLE, NULL                                                            \
    }

/* Inside rope_parameters; 0 if good or absent. mrope_section is for scheme mrope. */
int case_check_schedule(case_file *c, bool sections);

/* ------------------------------------------------------------------------------------------------
 * What the parameters say, in the reference's terms and in rhumb's. The two are read side by side,
 * so that each derives magnitudes and defaults by its own rules.
 */
typedef struct rope_case {
    uint32_t head_dim;
    ref_rope rope;
    rhumb_rope device;
    bool by_length;   /* the schedule depends on the length of the call */
    double *lists[3]; /* short, long, divisors: owned, shared by both */
} rope_case;

/* Window, pairing and schedule. 0, or -1 after case_fail; case_free_rope in any case. */
int case_read_rope(case_file *c, rope_case *r);
/* The same without the window: of scheme `rope` and `mrope`. */
int case_read_schedule(case_file *c, rope_case *r);
void case_free_rope(rope_case *r);

/* T of the schedules that depend on it: from a number, or the largest position + 1. */
void case_set_length(rope_case *r, uint64_t length);
uint64_t case_length_of(const int32_t *positions, uint64_t count);

/* ------------------------------------------------------------------------------------------------
 * Attention and scores: in.q, in.k or its two parts, in.v, masks
 */
typedef struct attention_case {
    const tensor *q;
    const tensor *k; /* of the file, or of `store`: [k_nope, k_rope] per head */
    const tensor *v; /* NULL for op scores */
    const tensor *golden;
    tensor_list store;
    int32_t *positions_q; /* [B, Lq] that the masks go by */
    int32_t *positions_k; /* [B, Lk] */
    double scale;
    bool causal;
    bool by_index;
    int32_t window;
} attention_case;

extern const tensor_row case_attention_tensors[];
extern const size_t case_attention_tensor_count;

/* All but the positions. 0, or -1 after case_fail; case_free_attention in any case. */
int case_read_attention(case_file *c, uint32_t head_dim, attention_case *t);
void case_free_attention(attention_case *t);

/* `q` and `k` have been rotated. Compares with the golden tensor. */
int case_attend_on_reference(case_file *c, const attention_case *t, const double *q,
                             const double *k);

/* Two ways to the same numbers: Q rotated when attention loads it, and Q rotated by ROTATE.
 * positions_q and positions_k are [axes, B, L]; `length` is for rhumb_write_constants. */
int case_attend_on_device(case_file *c, const attention_case *t, const void *rotary, uint32_t axes,
                          uint32_t length);

int case_run_rope_attention(case_file *c, rope_case *r);

/* ------------------------------------------------------------------------------------------------
 * ROTATE on a device, out of place and in place, against `golden`
 */
typedef struct case_rotation {
    const void *rotary;
    const tensor *x; /* [B, H, L, D] */
    const tensor *golden;
    uint64_t first;           /* rows of L that turn; the others are copied */
    uint64_t rows;
    const int32_t *positions; /* [axes, batch, rows] */
    uint32_t axes;
    uint64_t batch;     /* 1: shared */
    rhumb_view_id side; /* whose numbers `golden` has: Q or K; RHUMB_VIEW_COUNT: both alike */
    const tensor *frequencies; /* [2, H, pairs], learned; or NULL */
} case_rotation;

int case_rotate_on_device(case_file *c, const case_rotation *rotation);

#endif
