/* rope2d: each half of the pairs turns by one axis of a grid. A coordinate is
 * scale * index + offset; the scale goes into the frequency and the offset into a constant phase,
 * so that the index stays an integer and the angle exact. */
#include "../internal.h"

#include <math.h>

#define PI 3.141592653589793238462643383279502884L

static rhumb_result check_numbers(const rhumb_context *context, const rhumb_rope2d *p)
{
    if (!isfinite(p->base) || p->base <= 0)
        return rhumb_fail(context, RHUMB_ERROR_ARGUMENT,
                          "rope2d: base: wanted a finite number above 0, found %g", p->base);
    if (!isfinite(p->resolution) || p->resolution <= 2)
        return rhumb_fail(context, RHUMB_ERROR_ARGUMENT,
                          "rope2d: resolution: wanted a finite number above 2, found %g",
                          p->resolution);
    for (uint32_t i = 0; i < 2; i++)
        if (!isfinite(p->scale[i]) || !isfinite(p->offset[i]))
            return rhumb_fail(context, RHUMB_ERROR_ARGUMENT,
                              "rope2d: scale and offset of axis %u: wanted finite numbers, found "
                              "%g and %g",
                              i, p->scale[i], p->offset[i]);
    return RHUMB_OK;
}

static rhumb_result check(const rhumb_context *context, const rhumb_rope2d *p, uint32_t head_dim)
{
    if ((uint32_t)p->pairing > RHUMB_ROPE2D_HALF_PER_AXIS)
        return rhumb_fail(context, RHUMB_ERROR_ARGUMENT,
                          "rope2d: pairing: wanted a rhumb_rope2d_pairing, found %d",
                          (int)p->pairing);
    if ((uint32_t)p->order > RHUMB_ROPE2D_COLUMN_FIRST)
        return rhumb_fail(context, RHUMB_ERROR_ARGUMENT,
                          "rope2d: order: wanted a rhumb_rope2d_order, found %d", (int)p->order);
    if ((uint32_t)p->frequency > RHUMB_ROPE2D_LEARNED)
        return rhumb_fail(context, RHUMB_ERROR_ARGUMENT,
                          "rope2d: frequency: wanted a rhumb_rope2d_frequency, found %d",
                          (int)p->frequency);
    if (p->rotary_offset >= head_dim || p->rotary_dim > head_dim - p->rotary_offset ||
        p->rotary_dim < 4 || p->rotary_dim % 4)
        return rhumb_fail(context, RHUMB_ERROR_ARGUMENT,
                          "rope2d: rotary_dim: wanted a multiple of 4 within head_dim %u from "
                          "rotary_offset %u, found %u",
                          head_dim, p->rotary_offset, p->rotary_dim);
    return check_numbers(context, p);
}

/* Frequencies of a view meet the indices as they are. */
static rhumb_result check_learned(const rhumb_context *context, const rhumb_rope2d *p)
{
    for (uint32_t i = 0; p->frequency == RHUMB_ROPE2D_LEARNED && i < 2; i++)
        if (p->scale[i] != 1 || p->offset[i] != 0)
            return rhumb_fail(context, RHUMB_ERROR_ARGUMENT,
                              "rope2d: scale and offset of axis %u: wanted 1 and 0 with LEARNED, "
                              "found %g and %g",
                              i, p->scale[i], p->offset[i]);
    return RHUMB_OK;
}

/* Frequency of pair j of an axis (0: the first), n pairs an axis. */
static long double frequency(const rhumb_rope2d *p, uint32_t axis, uint32_t j, uint32_t n)
{
    long double width = p->rotary_dim;
    long double step = n > 1 ? (long double)j / (n - 1) : 0; /* from 0 to 1 */
    switch (p->frequency) {
    case RHUMB_ROPE2D_SAME: return powl((long double)p->base, -4.0L * j / width);
    case RHUMB_ROPE2D_ALTERNATING:
        return powl((long double)p->base, -2.0L * (2 * j + axis) / width);
    case RHUMB_ROPE2D_PERIODS: return 2 * PI * powl((long double)p->base, -4.0L * j / width);
    case RHUMB_ROPE2D_PIXEL:
        return PI * exp2l(step * (log2l((long double)p->resolution) - 1));
    case RHUMB_ROPE2D_PIXEL_LINEAR:
        return PI * (1 + step * ((long double)p->resolution / 2 - 1));
    case RHUMB_ROPE2D_LEARNED: return 0; /* the view has them */
    }
    return 0;
}

/* A turn is 64 bits: what an index or the offset turns by beyond this is no longer exact. */
#define MOST_RADIANS 65536.0L

static rhumb_result check_angle(const rhumb_context *context, const char *what, uint32_t axis,
                                uint32_t pair, long double radians)
{
    if (fabsl(radians) <= MOST_RADIANS)
        return RHUMB_OK;
    return rhumb_fail(context, RHUMB_ERROR_ARGUMENT,
                      "rope2d: %s of axis %u: wanted one that turns pair %u by at most %Lg "
                      "radians, found %Lg",
                      what, axis, pair, MOST_RADIANS, radians);
}

static rhumb_result resolve(const rhumb_context *context, const void *params, uint32_t head_dim,
                            rhumb_rotary *rotary)
{
    rhumb_rope2d p;
    rhumb_init_rope2d(&p);
    RHUMB_TRY(
        rhumb_adopt(context, "rope2d", "rhumb_rope2d", params, RHUMB_TYPE_ROPE2D, &p, sizeof p));
    if (p.rotary_dim == RHUMB_WHOLE_HEAD)
        p.rotary_dim = p.rotary_offset < head_dim ? head_dim - p.rotary_offset : 0;
    RHUMB_TRY(check(context, &p, head_dim));
    RHUMB_TRY(check_learned(context, &p));

    rotary->pairing = p.pairing == RHUMB_ROPE2D_INTERLEAVED ? PAIRING_INTERLEAVED : PAIRING_HALF;
    rotary->segments = p.pairing == RHUMB_ROPE2D_HALF_PER_AXIS ? 2 : 1;
    rotary->rotary_dim = p.rotary_dim;
    rotary->rotary_offset = p.rotary_offset;
    rotary->magnitude = 1;
    rotary->axes = 2;
    rotary->has_learned = p.frequency == RHUMB_ROPE2D_LEARNED;
    rotary->has_phase = p.offset[0] != 0 || p.offset[1] != 0;
    uint32_t n = p.rotary_dim / 4;
    for (uint32_t i = 0; i < 2 * n; i++) {
        uint32_t place = i / n; /* of the axis among the pairs */
        uint32_t axis = p.order == RHUMB_ROPE2D_ROW_FIRST ? place : 1 - place;
        long double f = frequency(&p, place, i % n, n);
        rotary->axis[i] = (uint8_t)axis;
        rotary->frequency[i] = f * p.scale[axis];
        rotary->phase[i] = f * p.offset[axis];
        RHUMB_TRY(check_angle(context, "scale", axis, i, rotary->frequency[i]));
        RHUMB_TRY(check_angle(context, "offset", axis, i, rotary->phase[i]));
    }
    return RHUMB_OK;
}

const rhumb_scheme rhumb_scheme_rope2d = {
    .name = "rope2d",
    .type = RHUMB_TYPE_ROPE2D,
    .resolve_rotary = resolve,
};
