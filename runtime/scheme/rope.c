/* rope: frequencies of plain rotary embedding and linear position interpolation. */
#include "../internal.h"

#include <math.h>

static rhumb_result check_window(const rhumb_context *context, const rhumb_rope *p,
                                 uint32_t head_dim)
{
    if (p->rotary_offset >= head_dim)
        return rhumb_fail(context, RHUMB_ERROR_ARGUMENT,
                          "rope: rotary_offset: wanted 0 to %u (head_dim %u), found %u",
                          head_dim - 1, head_dim, p->rotary_offset);
    uint32_t room = head_dim - p->rotary_offset;
    if (p->rotary_dim < 2 || p->rotary_dim > room || p->rotary_dim % 2)
        return rhumb_fail(
            context, RHUMB_ERROR_ARGUMENT,
            "rope: rotary_dim: wanted an even number from 2 to %u (head_dim %u, rotary_offset %u), "
            "found %u",
            room, head_dim, p->rotary_offset, p->rotary_dim);
    return RHUMB_OK;
}

static rhumb_result check(const rhumb_context *context, const rhumb_rope *p, uint32_t head_dim)
{
    if (p->pairing != RHUMB_PAIRING_INTERLEAVED && p->pairing != RHUMB_PAIRING_HALF)
        return rhumb_fail(
            context, RHUMB_ERROR_ARGUMENT,
            "rope: pairing: wanted RHUMB_PAIRING_INTERLEAVED or RHUMB_PAIRING_HALF, found %d",
            (int)p->pairing);
    if (p->scaling != RHUMB_ROPE_SCALING_NONE && p->scaling != RHUMB_ROPE_SCALING_LINEAR)
        return rhumb_fail(
            context, RHUMB_ERROR_ARGUMENT,
            "rope: scaling: wanted RHUMB_ROPE_SCALING_NONE or RHUMB_ROPE_SCALING_LINEAR, found %d",
            (int)p->scaling);
    RHUMB_TRY(check_window(context, p, head_dim));
    if (!isfinite(p->base) || p->base <= 0)
        return rhumb_fail(context, RHUMB_ERROR_ARGUMENT,
                          "rope: base: wanted a finite number above 0, found %g", p->base);
    if (!isfinite(p->factor) || p->factor < 1)
        return rhumb_fail(context, RHUMB_ERROR_ARGUMENT,
                          "rope: factor: wanted a finite number of at least 1, found %g",
                          p->factor);
    /* The kernels take it as a float. */
    if (!isfinite((float)p->attention_factor) || (float)p->attention_factor <= 0)
        return rhumb_fail(context, RHUMB_ERROR_ARGUMENT,
                          "rope: attention_factor: wanted a finite number above 0, found %g",
                          p->attention_factor);
    return RHUMB_OK;
}

static rhumb_result resolve(const rhumb_context *context, const void *params, uint32_t head_dim,
                            rhumb_rotary *rotary)
{
    rhumb_rope p;
    rhumb_init_rope(&p);
    RHUMB_TRY(rhumb_adopt(context, "rope", "rhumb_rope", params, RHUMB_TYPE_ROPE, &p, sizeof p));
    if (p.rotary_dim == RHUMB_WHOLE_HEAD)
        p.rotary_dim = p.rotary_offset < head_dim ? head_dim - p.rotary_offset : 0;
    RHUMB_TRY(check(context, &p, head_dim));

    rotary->pairing = (uint32_t)p.pairing;
    rotary->rotary_dim = p.rotary_dim;
    rotary->rotary_offset = p.rotary_offset;
    rotary->magnitude = p.attention_factor;
    long double scale = p.scaling == RHUMB_ROPE_SCALING_LINEAR ? 1.0L / p.factor : 1.0L;
    for (uint32_t i = 0; i < p.rotary_dim / 2; i++)
        rotary->frequency[i] = scale * powl((long double)p.base, -2.0L * i / p.rotary_dim);
    return RHUMB_OK;
}

const rhumb_scheme rhumb_scheme_rope = {
    .name = "rope",
    .type = RHUMB_TYPE_ROPE,
    .resolve_rotary = resolve,
};
