/* Unfused attention: logits of a block of rows to WORKSPACE, softmax and the sum of values from
 * there, then the next block. The route through SCORES, for whoever names it. */
#include "op.h"

#include <stdio.h>

/* Bytes of WORKSPACE for one batch entry, unless a single row of each head takes more. */
#define WORKSPACE_BYTES (16u << 20)

/* Rows of one batch entry are rows of each of its windows. */
static uint64_t row_bytes(const rhumb_resolved *r)
{
    bool windows = r->terms.mask & TERM_WINDOW;
    uint64_t keys = windows ? rhumb_window_tokens(&r->terms) : r->info.max_k_length;
    return rhumb_saturated_product((uint64_t)r->info.heads * rhumb_window_count(&r->terms),
                                   4 * keys);
}

rhumb_result rhumb_choose_unfused(const rhumb_context *context, rhumb_resolved *r)
{
    rhumb_plan_properties *p = &r->properties;
    if (!(r->info.views & BIT(RHUMB_VIEW_WORKSPACE)))
        return rhumb_fail(context, RHUMB_ERROR_ARGUMENT,
                          "attention: views: wanted WORKSPACE for the unfused form, found none");
    rhumb_set_scores(r);
    rhumb_set_common(r, &r->keys[RHUMB_SECOND_STAGE], RHUMB_KERNEL_SOFTMAX_VALUES, false);
    r->has_second = true;
    p->shared_bytes = 16 * (RHUMB_MAX_HEAD_DIM + GENERIC_INVOCATIONS); /* of the second stage */
    r->rows_per_group[RHUMB_SECOND_STAGE] = 1;
    bool windows = r->terms.mask & TERM_WINDOW;
    uint32_t rows = windows ? rhumb_window_tokens(&r->terms) : r->info.max_q_length;
    uint64_t fit = WORKSPACE_BYTES / row_bytes(r);
    fit = fit < GENERIC_ROWS ? fit : fit - fit % GENERIC_ROWS;
    r->rows_per_block = fit < 1 ? 1 : fit < rows ? (uint32_t)fit : rows;
    p->workspace_size = rhumb_saturated_product(r->rows_per_block, row_bytes(r));
    p->variant = RHUMB_VARIANT_UNFUSED;
    snprintf(p->reason, sizeof p->reason,
             "attention: unfused, %u rows of %s at a time through WORKSPACE, as asked for",
             r->rows_per_block, windows ? "each window" : "a batch entry");
    return RHUMB_OK;
}

rhumb_result rhumb_check_workspace(const rhumb_binder *b, const rhumb_bindings *bindings)
{
    const uint32_t id = RHUMB_VIEW_WORKSPACE;
    if (!(b->present & BIT(id)))
        return RHUMB_OK;
    const rhumb_view *v = b->placed[id].view;
    uint64_t wanted =
        rhumb_saturated_product(b->plan->resolved.properties.workspace_size / 4, bindings->batch);
    if (v->shape[0] == 1 && v->shape[1] == 1 && v->shape[2] == 1 && v->shape[3] >= wanted)
        return RHUMB_OK;
    return rhumb_fail(b->plan->context, RHUMB_ERROR_ARGUMENT,
                      "%s: shape of WORKSPACE [n]: wanted [1, 1, 1, at least %llu], found [%llu, "
                      "%llu, %llu, %llu]",
                      b->op, (unsigned long long)wanted, (unsigned long long)v->shape[0],
                      (unsigned long long)v->shape[1], (unsigned long long)v->shape[2],
                      (unsigned long long)v->shape[3]);
}

rhumb_result rhumb_record_unfused(VkCommandBuffer command_buffer, const rhumb_bindings *bindings,
                                  const rhumb_dispatch *d, struct rhumb_push *push)
{
    const rhumb_resolved *r = &bindings->plan->resolved;
    uint32_t rows = (uint32_t)push->max_q_length;
    uint64_t row_groups = rhumb_saturated_product(
        (uint64_t)bindings->batch * rhumb_window_count(&r->terms), r->info.heads);
    push->row_count = rhumb_min_u32(rows, r->rows_per_block);
    RHUMB_TRY(rhumb_check_groups(bindings, rhumb_score_groups(bindings, push)));
    RHUMB_TRY(rhumb_check_groups(bindings, rhumb_saturated_product(row_groups, push->row_count)));
    for (push->first_row = 0; push->first_row < rows; push->first_row += r->rows_per_block) {
        push->row_count = rhumb_min_u32(rows - push->first_row, r->rows_per_block);
        if (push->first_row)
            rhumb_barrier(command_buffer, bindings);
        rhumb_emit(command_buffer, bindings, d, bindings->pipeline,
                   rhumb_score_groups(bindings, push), push);
        rhumb_barrier(command_buffer, bindings);
        rhumb_emit(command_buffer, bindings, d, bindings->second, row_groups * push->row_count,
                   push);
    }
    return RHUMB_OK;
}
