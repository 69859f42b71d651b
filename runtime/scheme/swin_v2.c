/* swin_v2: the windows of swin, a table made by a small network, cosine attention. */
#include "encoding.h"

/* Two rows of zeros divide by its square, which must not be 0 as a float. */
#define LEAST_EPSILON 1e-18

static rhumb_result check(const rhumb_context *context, const rhumb_swin_v2 *p)
{
    const char *name = "swin_v2";
    const uint32_t *w = p->pretrained_window;
    /* The coordinates are divided by a side less one. */
    if ((w[0] || w[1]) && (w[0] < 2 || w[1] < 2))
        return rhumb_fail(context, RHUMB_ERROR_ARGUMENT,
                          "swin_v2: pretrained_window: wanted sides of 2 or more, or {0, 0}, found "
                          "%u x %u",
                          w[0], w[1]);
    RHUMB_TRY(rhumb_check_range(context, name, "hidden", p->hidden, 1, RHUMB_MAX_CHANNELS));
    RHUMB_TRY(rhumb_check_finite(context, name, "bias_gain", p->bias_gain));
    RHUMB_TRY(rhumb_check_finite(context, name, "max_log_scale", p->max_log_scale));
    if (!(p->epsilon >= LEAST_EPSILON && p->epsilon <= 1))
        return rhumb_fail(context, RHUMB_ERROR_ARGUMENT,
                          "swin_v2: epsilon: wanted %g to 1, found %g", LEAST_EPSILON, p->epsilon);
    return RHUMB_OK;
}

/* Parameters, whatever the operation, and the windows. */
static rhumb_result adopt(const rhumb_context *context, const void *params, rhumb_swin_v2 *p,
                          rhumb_terms *terms)
{
    rhumb_init_swin_v2(p);
    RHUMB_TRY(rhumb_adopt(context, "swin_v2", "rhumb_swin_v2", params, RHUMB_TYPE_SWIN_V2, p,
                          sizeof *p));
    const rhumb_window window = {
        .scheme = "swin_v2",
        .window = p->window,
        .grid = p->grid,
        .shift = p->shift,
        .padding = p->padding,
        .mask_value = p->mask_value,
    };
    RHUMB_TRY(rhumb_resolve_window(context, &window, terms));
    return check(context, p);
}

static rhumb_result resolve(const rhumb_context *context, const void *params,
                            const rhumb_plan_info *info, rhumb_terms *terms)
{
    static const rhumb_term_views views = {
        .required = BIT(RHUMB_VIEW_TABLE) | BIT(RHUMB_VIEW_HEAD_SCALE),
    };
    rhumb_swin_v2 p;
    RHUMB_TRY(adopt(context, params, &p, terms));
    RHUMB_TRY(rhumb_take_term_views(context, "swin_v2", info, &views, terms));
    if (info->op != RHUMB_OP_BIAS)
        terms->mask |= TERM_COSINE;
    terms->max_log_scale = p.max_log_scale;
    terms->epsilon = p.epsilon;
    terms->scale = 1.0;
    return RHUMB_OK;
}

/* A window of one cell has one offset, 0, whose coordinate is 0: there is nothing to divide by. */
static rhumb_result resolve_continuous(const rhumb_context *context, const void *params,
                                       rhumb_continuous *continuous)
{
    rhumb_swin_v2 p;
    rhumb_terms terms = {0};
    RHUMB_TRY(adopt(context, params, &p, &terms));
    for (uint32_t axis = 0; axis < 2; axis++) {
        uint32_t side = p.pretrained_window[axis] ? p.pretrained_window[axis] : p.window[axis];
        continuous->window[axis] = p.window[axis];
        continuous->divisor[axis] = side - 1;
    }
    continuous->rows = terms.rows;
    continuous->zero = terms.zero;
    continuous->hidden = p.hidden;
    continuous->gain = p.bias_gain;
    return RHUMB_OK;
}

static rhumb_result resolve_encoding(const rhumb_context *context, const void *params,
                                     const rhumb_plan_info *info, rhumb_encoding *encoding)
{
    rhumb_continuous continuous = {0};
    RHUMB_TRY(resolve_continuous(context, params, &continuous));
    return rhumb_set_window_coordinates(context, "swin_v2", &continuous, info, encoding);
}

const rhumb_scheme rhumb_scheme_swin_v2 = {
    .name = "swin_v2",
    .type = RHUMB_TYPE_SWIN_V2,
    .resolve_terms = resolve,
    .resolve_continuous = resolve_continuous,
    .resolve_encoding = resolve_encoding,
};
