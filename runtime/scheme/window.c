/* Windows of swin and swin_v2: what they cut a grid into, and the rows of their table. */
#include "terms.h"

#define MOST_SIDE 16384u /* so that rows and tokens are counted in 31 bits */

static rhumb_result check_sides(const rhumb_context *context, const rhumb_window *w)
{
    for (uint32_t i = 0; i < 2; i++) {
        if (w->window[i] < 1 || w->window[i] > MOST_SIDE)
            return rhumb_fail(context, RHUMB_ERROR_ARGUMENT,
                              "%s: window: wanted sides of 1 to %u, found %u x %u", w->scheme,
                              MOST_SIDE, w->window[0], w->window[1]);
        if (w->grid[i] > MOST_SIDE || !w->grid[0] != !w->grid[1])
            return rhumb_fail(context, RHUMB_ERROR_ARGUMENT,
                              "%s: grid: wanted sides of 1 to %u, or {0, 0}, found %u x %u",
                              w->scheme, MOST_SIDE, w->grid[0], w->grid[1]);
    }
    return RHUMB_OK;
}

static rhumb_result check_grid(const rhumb_context *context, const rhumb_window *w)
{
    for (uint32_t i = 0; i < 2; i++) {
        if (w->window[i] > w->grid[i])
            return rhumb_fail(context, RHUMB_ERROR_ARGUMENT,
                              "%s: window: wanted one within the grid of %u x %u, found %u x %u",
                              w->scheme, w->grid[0], w->grid[1], w->window[0], w->window[1]);
        if (w->shift[i] >= w->window[i])
            return rhumb_fail(context, RHUMB_ERROR_ARGUMENT,
                              "%s: shift: wanted one below the window of %u x %u, found %u x %u",
                              w->scheme, w->window[0], w->window[1], w->shift[0], w->shift[1]);
        if (w->padding == RHUMB_WINDOW_EXACT && w->grid[i] % w->window[i])
            return rhumb_fail(context, RHUMB_ERROR_ARGUMENT,
                              "%s: padding: EXACT wanted a grid of whole windows of %u x %u, found "
                              "%u x %u",
                              w->scheme, w->window[0], w->window[1], w->grid[0], w->grid[1]);
    }
    if (w->class_tokens)
        return rhumb_fail(context, RHUMB_ERROR_ARGUMENT,
                          "%s: prefix_tokens: wanted 0 with a grid, found %u", w->scheme,
                          w->class_tokens);
    return RHUMB_OK;
}

static rhumb_result check(const rhumb_context *context, const rhumb_window *w)
{
    RHUMB_TRY(check_sides(context, w));
    RHUMB_TRY(rhumb_check_range(context, w->scheme, "prefix_tokens", w->class_tokens, 0, 1));
    RHUMB_TRY(rhumb_check_enum(context, w->scheme, "padding", "rhumb_window_padding",
                               (uint32_t)w->padding, RHUMB_WINDOW_SHIFT_THEN_PAD));
    RHUMB_TRY(rhumb_check_finite(context, w->scheme, "mask_value", w->mask_value));
    if (w->grid[0])
        return check_grid(context, w);
    if (w->shift[0] || w->shift[1])
        return rhumb_fail(context, RHUMB_ERROR_ARGUMENT,
                          "%s: shift: wanted {0, 0} without a grid, found %u x %u", w->scheme,
                          w->shift[0], w->shift[1]);
    return RHUMB_OK;
}

rhumb_result rhumb_resolve_window(const rhumb_context *context, const rhumb_window *w,
                                  rhumb_terms *terms)
{
    RHUMB_TRY(check(context, w));
    uint32_t height = 2 * w->window[0] - 1, width = 2 * w->window[1] - 1;
    for (uint32_t i = 0; i < 2; i++) {
        terms->window[i] = w->window[i];
        terms->grid[i] = w->grid[i];
        terms->shift[i] = w->shift[i];
        terms->padded[i] = (w->grid[i] + w->window[i] - 1) / w->window[i] * w->window[i];
        terms->modulus[i] =
            w->padding == RHUMB_WINDOW_SHIFT_THEN_PAD ? w->grid[i] : terms->padded[i];
    }
    terms->class_tokens = w->class_tokens;
    terms->mask_value = w->mask_value;
    terms->rows = height * width + (w->class_tokens ? 3 : 0);
    terms->zero = (w->window[0] - 1) * width + w->window[1] - 1;
    terms->mask |= TERM_WINDOW;
    return RHUMB_OK;
}
