/* xpos: plain frequencies, and a factor per pair that grows with the position. */
#include "../internal.h"

#include <math.h>

static rhumb_result check(const rhumb_context *context, const rhumb_xpos *p)
{
    const struct {
        const char *name;
        double value;
    } positive[] = {{"base", p->base}, {"scale_base", p->scale_base}, {"gamma", p->gamma}};
    for (size_t i = 0; i < sizeof positive / sizeof positive[0]; i++)
        if (!isfinite(positive[i].value) || positive[i].value <= 0)
            return rhumb_fail(context, RHUMB_ERROR_ARGUMENT,
                              "xpos: %s: wanted a finite number above 0, found %g",
                              positive[i].name, positive[i].value);
    return RHUMB_OK;
}

static rhumb_result resolve(const rhumb_context *context, const void *params, uint32_t head_dim,
                            rhumb_rotary *rotary)
{
    rhumb_xpos p;
    rhumb_rope rope;
    rhumb_init_xpos(&p);
    rhumb_init_rope(&rope);
    RHUMB_TRY(rhumb_adopt(context, "xpos", "rhumb_xpos", params, RHUMB_TYPE_XPOS, &p, sizeof p));
    RHUMB_TRY(check(context, &p));
    rope.pairing = RHUMB_PAIRING_INTERLEAVED;
    rope.rotary_dim = p.rotary_dim;
    rope.rotary_offset = p.rotary_offset;
    rope.base = p.base;
    RHUMB_TRY(rhumb_resolve_rotary(context, &rope, head_dim, rotary));

    rotary->has_growth = true;
    rotary->centre = p.centre;
    double width = rotary->rotary_dim;
    for (uint32_t i = 0; i < rotary->rotary_dim / 2; i++) {
        double zeta = (2.0 * i + p.gamma * width) / ((1 + p.gamma) * width);
        rotary->growth[i] = log2(zeta) / p.scale_base;
    }
    return RHUMB_OK;
}

const rhumb_scheme rhumb_scheme_xpos = {
    .name = "xpos",
    .type = RHUMB_TYPE_XPOS,
    .resolve_rotary = resolve,
};
