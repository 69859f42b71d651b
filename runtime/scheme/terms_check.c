/* Checks that relative schemes share, and the terms that views bring. */
#include "terms.h"

#include <math.h>
#include <stdio.h>

rhumb_result rhumb_check_enum(const rhumb_context *context, const char *scheme, const char *field,
                              const char *type, uint32_t value, uint32_t highest)
{
    if (value <= highest)
        return RHUMB_OK;
    return rhumb_fail(context, RHUMB_ERROR_ARGUMENT, "%s: %s: wanted a %s, found %d", scheme, field,
                      type, (int)value);
}

rhumb_result rhumb_check_finite(const rhumb_context *context, const char *scheme, const char *field,
                                double value)
{
    if (isfinite((float)value))
        return RHUMB_OK;
    return rhumb_fail(context, RHUMB_ERROR_ARGUMENT,
                      "%s: %s: wanted a number that is finite as a float, found %g", scheme, field,
                      value);
}

static const struct {
    rhumb_view_id view;
    uint32_t term; /* that the view brings; 0: with another one */
} term_views[] = {
    {RHUMB_VIEW_TABLE, TERM_TABLE},
    {RHUMB_VIEW_QUERY_TABLE, TERM_QUERY},
    {RHUMB_VIEW_KEY_TABLE, TERM_KEY},
    {RHUMB_VIEW_VALUE_TABLE, TERM_VALUE},
    {RHUMB_VIEW_TABLE_SCALAR, TERM_SCALAR},
    {RHUMB_VIEW_CONTENT_BIAS, TERM_CONTENT_BIAS},
    {RHUMB_VIEW_POSITION_BIAS, TERM_POSITION_BIAS},
    {RHUMB_VIEW_SEGMENT_BIAS, 0},
    {RHUMB_VIEW_SEGMENT_TABLE, TERM_SEGMENT},
    {RHUMB_VIEW_SEGMENTS_Q, 0},
    {RHUMB_VIEW_SEGMENTS_K, 0},
    {RHUMB_VIEW_ROW_SCALE, TERM_ROW_SCALE},
    {RHUMB_VIEW_HEAD_SCALE, 0},
};

#define TERM_VIEWS (sizeof term_views / sizeof term_views[0])

bool rhumb_makes_logits(const rhumb_plan_info *info)
{
    return info->op == RHUMB_OP_BIAS || info->op == RHUMB_OP_SCORES ||
           info->op == RHUMB_OP_ATTENTION;
}

static rhumb_result refuse_all(const rhumb_context *context, const char *scheme, uint32_t one_of)
{
    char names[160] = "";
    for (size_t i = 0; i < TERM_VIEWS; i++) {
        size_t length = strlen(names);
        if (one_of & BIT(term_views[i].view))
            snprintf(names + length, sizeof names - length, "%s%s", length ? " or " : "",
                     rhumb_view_name(term_views[i].view));
    }
    return rhumb_fail(context, RHUMB_ERROR_ARGUMENT, "%s: views: wanted %s, found none", scheme,
                      names);
}

/* BIAS is what is free of q and k: of all the views of a scheme, its TABLE. */
static rhumb_result views_of_bias(const rhumb_context *context, const char *scheme,
                                  const rhumb_terms *terms, rhumb_term_views *views)
{
    uint32_t all = views->required | views->one_of | views->optional;
    if (!(all & BIT(RHUMB_VIEW_TABLE)) && !(terms->mask & TERM_SLOPE))
        return rhumb_fail(context, RHUMB_ERROR_UNSUPPORTED,
                          "bias: scheme: wanted one with a TABLE or slopes, found %s, all of whose "
                          "terms meet q or k",
                          scheme);
    *views = (rhumb_term_views){.required = all & BIT(RHUMB_VIEW_TABLE)};
    return RHUMB_OK;
}

rhumb_result rhumb_take_term_views(const rhumb_context *context, const char *scheme,
                                   const rhumb_plan_info *info, const rhumb_term_views *given,
                                   rhumb_terms *terms)
{
    rhumb_term_views views = *given;
    if (!rhumb_makes_logits(info))
        return RHUMB_OK;
    if (info->op == RHUMB_OP_BIAS)
        RHUMB_TRY(views_of_bias(context, scheme, terms, &views));
    uint32_t all = views.required | views.one_of | views.optional;
    if (info->op == RHUMB_OP_ATTENTION) /* then Q_STARTS and K_STARTS, for any scheme */
        all |= BIT(RHUMB_VIEW_SEGMENTS_Q) | BIT(RHUMB_VIEW_SEGMENTS_K);
    for (size_t i = 0; i < TERM_VIEWS; i++) {
        rhumb_view_id id = term_views[i].view;
        bool present = info->views & BIT(id);
        if (present && !(all & BIT(id)))
            return rhumb_fail(context, RHUMB_ERROR_ARGUMENT,
                              "%s: views: %s (%u) is no view of this scheme", scheme,
                              rhumb_view_name(id), (uint32_t)id);
        if (!present && (views.required & BIT(id)))
            return rhumb_fail(context, RHUMB_ERROR_ARGUMENT, "%s: views: wanted %s, found none",
                              scheme, rhumb_view_name(id));
        if (present)
            terms->mask |= term_views[i].term;
    }
    if (views.one_of && !(info->views & views.one_of))
        return refuse_all(context, scheme, views.one_of);
    return RHUMB_OK;
}
