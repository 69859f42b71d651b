/* ROTATE's norm of rows before they turn: Qwen3, Gemma 3. */
#include "norm.h"

#include <math.h>

static const uint32_t gains[] = {RHUMB_VIEW_Q_GAIN, RHUMB_VIEW_K_GAIN};
static const uint32_t tensors[] = {RHUMB_VIEW_Q, RHUMB_VIEW_K};

rhumb_result rhumb_check_norm(const rhumb_context *context, const rhumb_plan_info *i)
{
    if (!(i->views & NORM_GAINS))
        return RHUMB_OK;
    for (uint32_t n = 0; n < 2; n++)
        if ((i->views & BIT(gains[n])) && !(i->views & BIT(tensors[n])))
            return rhumb_fail(context, RHUMB_ERROR_ARGUMENT,
                              "rotate: views: wanted %s beside %s, found none",
                              rhumb_view_name(tensors[n]), rhumb_view_name(gains[n]));
    if (!isfinite(i->norm_epsilon) || i->norm_epsilon < 0)
        return rhumb_fail(context, RHUMB_ERROR_ARGUMENT,
                          "rotate: norm_epsilon: wanted a finite number of 0 or more, found %g",
                          (double)i->norm_epsilon);
    if (!isfinite(i->gain_offset))
        return rhumb_fail(context, RHUMB_ERROR_ARGUMENT,
                          "rotate: gain_offset: wanted a finite number, found %g",
                          (double)i->gain_offset);
    if (i->purpose != RHUMB_PURPOSE_ROTATE)
        return rhumb_fail(context, RHUMB_ERROR_UNSUPPORTED,
                          "rotate: purpose: wanted RHUMB_PURPOSE_ROTATE with a gain, as keys that "
                          "were rotated before were normalised then, found %d",
                          (int)i->purpose);
    return RHUMB_OK;
}

rhumb_result rhumb_check_gains(const rhumb_binder *b)
{
    const rhumb_plan_info *i = &b->plan->resolved.info;
    const uint32_t heads[] = {i->heads, i->kv_heads};
    for (uint32_t n = 0; n < 2; n++) {
        if (!(b->present & BIT(gains[n])))
            continue;
        bool shared = b->placed[gains[n]].view->shape[2] == 1; /* by all heads */
        const uint64_t shape[4] = {1, 1, shared ? 1 : heads[n], i->head_dim};
        RHUMB_TRY(rhumb_want_shape(b, gains[n], shape));
    }
    return RHUMB_OK;
}
