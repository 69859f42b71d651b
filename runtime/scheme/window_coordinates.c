/* ENCODE of swin_v2: the log-spaced coordinates of the offsets inside a window, which its bias is a
 * function of. An axis has few distances, so that the host computes them. */
#include "../internal.h"

#include <math.h>

/* log2(1 + |u|) / log2(8) with u = 8 d / (side - 1); 0 for a window of side 1, whose only distance
 * is 0. */
static double coordinate(uint32_t distance, uint32_t side)
{
    return side > 1 ? log2(1.0 + 8.0 * distance / (side - 1.0)) / 3.0 : 0.0;
}

static rhumb_result check_window(const rhumb_context *context, const rhumb_swin_v2 *p)
{
    for (uint32_t axis = 0; axis < 2; axis++) {
        if (p->window[axis] < 1 || p->window[axis] > RHUMB_MAX_OFFSETS)
            return rhumb_fail(context, RHUMB_ERROR_ARGUMENT,
                              "swin_v2: window: wanted sides of 1 to %d, found %u x %u",
                              RHUMB_MAX_OFFSETS, p->window[0], p->window[1]);
        if (p->pretrained_window[axis] == 1 && p->window[axis] > 1)
            return rhumb_fail(context, RHUMB_ERROR_ARGUMENT,
                              "swin_v2: pretrained_window: wanted sides of 0 (as window) or 2 and "
                              "more, found %u x %u",
                              p->pretrained_window[0], p->pretrained_window[1]);
    }
    return RHUMB_OK;
}

rhumb_result rhumb_resolve_window_coordinates(const rhumb_context *context, const void *params,
                                              const rhumb_plan_info *info, rhumb_encoding *e)
{
    rhumb_swin_v2 p;
    rhumb_init_swin_v2(&p);
    RHUMB_TRY(rhumb_adopt(context, "swin_v2", "rhumb_swin_v2", params, RHUMB_TYPE_SWIN_V2, &p,
                          sizeof p));
    RHUMB_TRY(check_window(context, &p));
    if (info->views & RHUMB_VIEW_BIT(RHUMB_VIEW_X))
        return rhumb_fail(context, RHUMB_ERROR_ARGUMENT,
                          "swin_v2: views: X is no view of its coordinates");
    if (info->head_dim != 2)
        return rhumb_fail(context, RHUMB_ERROR_ARGUMENT,
                          "swin_v2: head_dim: wanted 2 coordinates, found %u", info->head_dim);
    for (uint32_t axis = 0; axis < 2; axis++) {
        uint32_t side = p.pretrained_window[axis] ? p.pretrained_window[axis] : p.window[axis];
        e->grid[axis] = 2 * p.window[axis] - 1;
        for (uint32_t d = 0; d < p.window[axis]; d++)
            e->list[axis * RHUMB_MAX_OFFSETS + d] = coordinate(d, side);
    }
    e->mask = ENCODE_OFFSETS | ENCODE_GRID;
    return rhumb_check_grid(context, "swin_v2", e->grid, 0, info);
}
