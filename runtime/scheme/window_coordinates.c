/* The log-spaced coordinates of the offsets inside a window. An axis has few distances, so that the
 * host computes them. */
#include "encoding.h"

#include <math.h>

/* log2(1 + |u|) / log2(8), u = 8 d / divisor; 0 without a divisor. */
static double coordinate(uint32_t distance, double divisor)
{
    return divisor > 0 ? log2(1.0 + 8.0 * distance / divisor) / 3.0 : 0.0;
}

rhumb_result rhumb_set_window_coordinates(const rhumb_context *context, const char *scheme,
                                          const rhumb_continuous *continuous,
                                          const rhumb_plan_info *info, rhumb_encoding *e)
{
    if (info->views & RHUMB_VIEW_BIT(RHUMB_VIEW_X))
        return rhumb_fail(context, RHUMB_ERROR_ARGUMENT,
                          "%s: views: wanted no X, as its coordinates are added to nothing",
                          scheme);
    if (info->head_dim != 2)
        return rhumb_fail(context, RHUMB_ERROR_ARGUMENT,
                          "%s: head_dim: wanted 2 coordinates, found %u", scheme, info->head_dim);
    for (uint32_t axis = 0; axis < 2; axis++) {
        uint32_t side = continuous->window[axis];
        if (side > RHUMB_MAX_OFFSETS)
            return rhumb_fail(context, RHUMB_ERROR_LIMIT,
                              "%s: window: wanted sides up to %d, found %u", scheme,
                              RHUMB_MAX_OFFSETS, side);
        e->grid[axis] = 2 * side - 1;
        for (uint32_t d = 0; d < side; d++)
            e->list[axis * RHUMB_MAX_OFFSETS + d] = coordinate(d, continuous->divisor[axis]);
    }
    e->mask = ENCODE_OFFSETS | ENCODE_GRID;
    return rhumb_check_grid(context, scheme, e->grid, 0, info);
}
