/* What the files of the relative schemes share. */
#ifndef RHUMB_SCHEME_TERMS_H
#define RHUMB_SCHEME_TERMS_H

#include "../op/op.h"

/* ---- terms_check.c */
rhumb_result rhumb_check_enum(const rhumb_context *context, const char *scheme, const char *field,
                              const char *type, uint32_t value, uint32_t highest);
rhumb_result rhumb_check_finite(const rhumb_context *context, const char *scheme, const char *field,
                                double value);

/* Views of the terms of a scheme, beside those of the operation. */
typedef struct rhumb_term_views {
    uint32_t required;
    uint32_t one_of; /* at least one of these, unless 0 */
    uint32_t optional;
} rhumb_term_views;

/* Checks the views of operations on logits, and adds the terms that they bring to terms->mask.
 * Other operations have views of their own: nothing is checked then, and no term is on. */
rhumb_result rhumb_take_term_views(const rhumb_context *context, const char *scheme,
                                   const rhumb_plan_info *info, const rhumb_term_views *views,
                                   rhumb_terms *terms);
/* Whether logits are made, so that distances meet tables. */
bool rhumb_makes_logits(const rhumb_plan_info *info);

/* rows.c. row = zero + direction * (pos_k - pos_q) for distances from `low` to `high`, the nearest
 * of them beyond. */
void rhumb_set_line(rhumb_terms *terms, int32_t zero, int32_t direction, int32_t low, int32_t high);

/* xl_rows.c. Tables of transformer_xl and xlnet that follow the lengths. */
rhumb_result rhumb_check_sinusoid_rows(const rhumb_context *context, const char *scheme,
                                       uint32_t clamp_len);
/* CONTENT_BIAS, QUERY_TABLE, and TABLE_SCALAR where `scalar`, else POSITION_BIAS; and `segments`. */
rhumb_result rhumb_take_xl_views(const rhumb_context *context, const char *scheme,
                                 const rhumb_plan_info *info, bool scalar, uint32_t segments,
                                 rhumb_terms *terms);
/* row = table_zero + pos_q - pos_k up to clamp_len, or to the plan's lengths where it is 0. */
rhumb_result rhumb_set_sinusoid_rows(const rhumb_context *context, const char *scheme,
                                     const rhumb_plan_info *info, uint32_t clamp_len,
                                     bool both_sides, rhumb_terms *terms);

/* log_edges.c. The least whole number that is at least `base` (limit / base)^(q / p), or above it
 * where `strictly`: exact, whatever pow says. 2^31 where it would be more. q is at most p + 8,
 * p at most RHUMB_MAX_EDGES. */
uint32_t rhumb_log_edge(uint32_t base, uint32_t limit, uint32_t q, uint32_t p, bool strictly);

/* window.c. Windows of swin and swin_v2. */
typedef struct rhumb_window {
    const char *scheme;
    const uint32_t *window; /* two numbers each, height first */
    const uint32_t *grid;
    const uint32_t *shift;
    uint32_t class_tokens;
    rhumb_window_padding padding;
    double mask_value;
} rhumb_window;

rhumb_result rhumb_resolve_window(const rhumb_context *context, const rhumb_window *given,
                                  rhumb_terms *terms);

#endif
