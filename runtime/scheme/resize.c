/* resize: where the samples of a resampled table lie. */
#include "../internal.h"

#include <math.h>

#define ONE 281474976710656.0 /* 1 in 16.48 fixed point */
#define MAX_SIDE 16384u       /* of a grid: coordinates fit 16 bits with their sign */

static rhumb_result check_grid(const rhumb_context *context, const char *field,
                               const uint32_t grid[2])
{
    for (uint32_t axis = 0; axis < 2; axis++)
        if (grid[axis] < 1 || grid[axis] > MAX_SIDE)
            return rhumb_fail(context, RHUMB_ERROR_ARGUMENT,
                              "resize: %s: wanted sides of 1 to %u, found %u x %u", field, MAX_SIDE,
                              grid[0], grid[1]);
    return RHUMB_OK;
}

static rhumb_result check(const rhumb_context *context, const rhumb_resize *p)
{
    if ((uint32_t)p->mode > RHUMB_RESIZE_GEOMETRIC)
        return rhumb_fail(context, RHUMB_ERROR_ARGUMENT,
                          "resize: mode: wanted a rhumb_resize_mode, found %d", (int)p->mode);
    if (p->antialias > 1 || p->align_corners > 1)
        return rhumb_fail(context, RHUMB_ERROR_ARGUMENT,
                          "resize: antialias, align_corners: wanted 0 or 1, found %u and %u",
                          p->antialias, p->align_corners);
    if (p->antialias && p->align_corners)
        return rhumb_fail(context, RHUMB_ERROR_UNSUPPORTED,
                          "resize: align_corners: wanted 0 with antialias, found 1");
    RHUMB_TRY(check_grid(context, "old_grid", p->old_grid));
    RHUMB_TRY(check_grid(context, "new_grid", p->new_grid));
    if (p->prefix_tokens > RHUMB_MAX_LENGTH / 2 || p->suffix_tokens > RHUMB_MAX_LENGTH / 2)
        return rhumb_fail(context, RHUMB_ERROR_ARGUMENT,
                          "resize: prefix_tokens, suffix_tokens: wanted up to %d, found %u and %u",
                          RHUMB_MAX_LENGTH / 2, p->prefix_tokens, p->suffix_tokens);
    return RHUMB_OK;
}

/* The grid that a factor makes of the old one is the new grid, but for what rounding does: every
 * sample then lies inside the source. */
static rhumb_result check_factors(const rhumb_context *context, const rhumb_resize *p)
{
    for (uint32_t axis = 0; axis < 2; axis++) {
        double f = p->scale_factor[axis], old = p->old_grid[axis], wanted = p->new_grid[axis];
        if (f == 0.0)
            continue;
        if (p->align_corners || p->mode == RHUMB_RESIZE_GEOMETRIC)
            return rhumb_fail(context, RHUMB_ERROR_UNSUPPORTED,
                              "resize: scale_factor[%u]: wanted 0 with align_corners and with "
                              "GEOMETRIC, found %g",
                              axis, f);
        if (!(f * old > wanted - 0.5 && f * old < wanted + 1.0))
            return rhumb_fail(context, RHUMB_ERROR_ARGUMENT,
                              "resize: scale_factor[%u]: wanted 0 or above %g and below %g, for %u "
                              "from %u, found %g",
                              axis, (wanted - 0.5) / old, (wanted + 1.0) / old, p->new_grid[axis],
                              p->old_grid[axis], f);
    }
    return RHUMB_OK;
}

static rhumb_result check_geometric(const rhumb_context *context, const rhumb_resize *p)
{
    if (p->mode != RHUMB_RESIZE_GEOMETRIC)
        return RHUMB_OK;
    if (p->antialias || p->align_corners)
        return rhumb_fail(context, RHUMB_ERROR_UNSUPPORTED,
                          "resize: antialias, align_corners: wanted 0 with GEOMETRIC, found %u and "
                          "%u",
                          p->antialias, p->align_corners);
    for (uint32_t axis = 0; axis < 2; axis++)
        if (p->new_grid[axis] > LISTED_SAMPLES || !(p->new_grid[axis] % 2) ||
            !(p->old_grid[axis] % 2))
            return rhumb_fail(context, RHUMB_ERROR_UNSUPPORTED,
                              "resize: new_grid: GEOMETRIC wanted odd sides, up to %u, from odd "
                              "ones, found %u from %u",
                              LISTED_SAMPLES, p->new_grid[axis], p->old_grid[axis]);
    return RHUMB_OK;
}

/* A table that keeps its grid keeps its bits: models leave it alone, whatever their kernel. */
static bool keeps_grid(const rhumb_resize *p)
{
    for (uint32_t axis = 0; axis < 2; axis++)
        if (p->old_grid[axis] != p->new_grid[axis] ||
            (p->scale_factor[axis] != 0.0 && p->scale_factor[axis] != 1.0))
            return false;
    return true;
}

static void place_samples(const rhumb_resize *p, uint32_t axis, rhumb_resampling *r)
{
    double old = p->old_grid[axis], wanted = p->new_grid[axis];
    double step = p->scale_factor[axis] != 0.0 ? 1.0 / p->scale_factor[axis] : old / wanted;
    if (p->align_corners)
        step = wanted > 1 ? (old - 1) / (wanted - 1) : 0.0;
    double start = p->align_corners ? 0.0 : 0.5 * step - 0.5;
    r->step[axis] = (uint64_t)llround(step * ONE);
    r->start[axis] = llround(start * ONE);
    r->spread[axis] = p->antialias && step > 1 ? step : 1.0;
}

/* Distance of the k-th source sample from the middle, for a ratio q. */
static double geometric_sum(double q, uint32_t k)
{
    return (1 - pow(q, k)) / (1 - q);
}

/* The ratio for which `old_half` samples reach new_half, by bisection as the models' code has it:
 * where it cannot, the end of the interval is its limit. */
static double geometric_ratio(uint32_t old_half, uint32_t new_half)
{
    double low = 1.01, high = 1.5, q = low;
    while (high - low > 1e-6) {
        q = (low + high) / 2;
        if (geometric_sum(q, old_half) > new_half)
            high = q;
        else
            low = q;
    }
    return q;
}

/* Source samples lie at 0, +-1, +-(1 + q), ...; wanted ones at the integers. A wanted one beyond
 * the last source sample takes its value. */
static void place_geometric(const rhumb_resize *p, uint32_t axis, rhumb_resampling *r)
{
    uint32_t old_half = p->old_grid[axis] / 2, new_half = p->new_grid[axis] / 2;
    double q = geometric_ratio(old_half, new_half);
    for (uint32_t i = 0; i < p->new_grid[axis]; i++) {
        int32_t wanted = (int32_t)i - (int32_t)new_half;
        double distance = fabs((double)wanted);
        uint32_t k = 0;
        while (k < old_half && geometric_sum(q, k + 1) <= distance)
            k++;
        double from = geometric_sum(q, k);
        double beyond = k < old_half ? (distance - from) / (geometric_sum(q, k + 1) - from) : 0.0;
        double at = old_half + (wanted < 0 ? -(k + beyond) : k + beyond);
        r->index[axis][i] = (int32_t)floor(at);
        r->fraction[axis][i] = at - floor(at);
    }
    r->spread[axis] = 1.0;
}

static rhumb_result resolve(const rhumb_context *context, const void *params, rhumb_resampling *r)
{
    rhumb_resize p;
    rhumb_init_resize(&p);
    RHUMB_TRY(
        rhumb_adopt(context, "resize", "rhumb_resize", params, RHUMB_TYPE_RESIZE, &p, sizeof p));
    RHUMB_TRY(check(context, &p));
    RHUMB_TRY(check_factors(context, &p));
    RHUMB_TRY(check_geometric(context, &p));
    bool listed = p.mode == RHUMB_RESIZE_GEOMETRIC;
    r->flags = (p.mode == RHUMB_RESIZE_BICUBIC ? RESIZE_CUBIC : 0) |
               (p.antialias ? RESIZE_ANTIALIAS : 0) | (listed ? RESIZE_LISTED : 0) |
               (p.mode == RHUMB_RESIZE_BILINEAR && !p.antialias ? RESIZE_FLOOR_AT_ZERO : 0) |
               (keeps_grid(&p) ? RESIZE_COPY : 0);
    r->cubic = p.antialias ? -0.5 : -0.75;
    r->prefix = p.prefix_tokens;
    r->suffix = p.suffix_tokens;
    for (uint32_t axis = 0; axis < 2; axis++) {
        r->old_grid[axis] = p.old_grid[axis];
        r->new_grid[axis] = p.new_grid[axis];
        if (listed)
            place_geometric(&p, axis, r);
        else
            place_samples(&p, axis, r);
    }
    return RHUMB_OK;
}

const rhumb_scheme rhumb_scheme_resize = {
    .name = "resize",
    .type = RHUMB_TYPE_RESIZE,
    .resolve_resampling = resolve,
};
