/* swin: a row per offset inside a window. */
#include "terms.h"

static rhumb_result resolve(const rhumb_context *context, const void *params,
                            const rhumb_plan_info *info, rhumb_terms *terms)
{
    static const rhumb_term_views views = {.required = BIT(RHUMB_VIEW_TABLE)};
    rhumb_swin p;
    rhumb_init_swin(&p);
    RHUMB_TRY(rhumb_adopt(context, "swin", "rhumb_swin", params, RHUMB_TYPE_SWIN, &p, sizeof p));
    const rhumb_window window = {
        .scheme = "swin",
        .window = p.window,
        .grid = p.grid,
        .shift = p.shift,
        .class_tokens = p.prefix_tokens,
        .padding = p.padding,
        .mask_value = p.mask_value,
    };
    RHUMB_TRY(rhumb_resolve_window(context, &window, terms));
    return rhumb_take_term_views(context, "swin", info, &views, terms);
}

const rhumb_scheme rhumb_scheme_swin = {
    .name = "swin",
    .type = RHUMB_TYPE_SWIN,
    .resolve_terms = resolve,
};
