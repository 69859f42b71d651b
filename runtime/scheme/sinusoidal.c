/* sinusoidal: where the sines and cosines of a position go, and their frequencies. */
#include "encoding.h"

#include <math.h>

#define TWO_PI 6.283185307179586476925286766559005768

static rhumb_result check_odd(const rhumb_context *context, const rhumb_sinusoidal *p, uint32_t d)
{
    if (d % 2 == 0)
        return RHUMB_OK;
    if (p->odd == RHUMB_SINUSOID_ODD_REFUSED)
        return rhumb_fail(context, RHUMB_ERROR_ARGUMENT,
                          "sinusoidal: head_dim: wanted an even number of channels, as odd is "
                          "ODD_REFUSED, found %u",
                          d);
    if (p->odd == RHUMB_SINUSOID_ODD_NATIVE &&
        (p->frequency != RHUMB_FREQUENCY_PAPER || p->layout == RHUMB_SINUSOID_COS_FIRST))
        return rhumb_fail(context, RHUMB_ERROR_ARGUMENT,
                          "sinusoidal: odd: ODD_NATIVE wanted frequency PAPER and a layout that "
                          "begins with a sine, found %d and %d",
                          (int)p->frequency, (int)p->layout);
    return RHUMB_OK;
}

static rhumb_result check_list(const rhumb_context *context, const rhumb_sinusoidal *p, uint32_t n)
{
    if (p->frequencies ? p->list_count != n : p->list_count != 0)
        return rhumb_fail(context, RHUMB_ERROR_ARGUMENT,
                          "sinusoidal: frequencies: wanted a list of %u, one an angle, or none of "
                          "0, found %s of %u",
                          n, p->frequencies ? "a list" : "none", p->list_count);
    if (p->list_count > RHUMB_MAX_LISTED_FREQUENCIES)
        return rhumb_fail(context, RHUMB_ERROR_LIMIT,
                          "sinusoidal: frequencies: wanted up to %d, found %u",
                          RHUMB_MAX_LISTED_FREQUENCIES, p->list_count);
    for (uint32_t i = 0; i < p->list_count; i++)
        if (!(fabs(p->frequencies[i]) < TWO_PI))
            return rhumb_fail(context, RHUMB_ERROR_ARGUMENT,
                              "sinusoidal: frequency %u: wanted a magnitude below 2 pi radians per "
                              "position, found %g",
                              i, p->frequencies[i]);
    return RHUMB_OK;
}

static rhumb_result check(const rhumb_context *context, const rhumb_sinusoidal *p, uint32_t d)
{
    const char *name = "sinusoidal";
    RHUMB_TRY(rhumb_check_enum(context, name, "layout", "rhumb_sinusoid_layout",
                               (uint32_t)p->layout, RHUMB_SINUSOID_COS_FIRST));
    RHUMB_TRY(rhumb_check_enum(context, name, "frequency", "rhumb_frequency_rule",
                               (uint32_t)p->frequency, RHUMB_FREQUENCY_ENDPOINT));
    RHUMB_TRY(rhumb_check_enum(context, name, "odd", "rhumb_sinusoid_odd", (uint32_t)p->odd,
                               RHUMB_SINUSOID_ODD_CUT));
    RHUMB_TRY(rhumb_check_base(context, name, p->base));
    return check_odd(context, p, d);
}

static void set_layout(const rhumb_sinusoidal *p, uint32_t d, uint32_t n, rhumb_encoding *e)
{
    /* ODD_NATIVE and ODD_CUT have one channel less than angles want: it is cut off. */
    e->angles = n;
    e->encoded = d % 2 && p->odd == RHUMB_SINUSOID_ODD_ZERO ? d - 1 : d;
    e->step = p->layout == RHUMB_SINUSOID_INTERLEAVED ? 2 : 1;
    e->sine[0] = p->layout == RHUMB_SINUSOID_COS_FIRST ? n : 0;
    e->cosine[0] = p->layout == RHUMB_SINUSOID_INTERLEAVED ? 1
                   : p->layout == RHUMB_SINUSOID_SIN_FIRST ? n
                                                           : 0;
}

static rhumb_result resolve(const rhumb_context *context, const void *params,
                            const rhumb_plan_info *info, rhumb_encoding *e)
{
    rhumb_sinusoidal p;
    uint32_t d = info->head_dim;
    rhumb_init_sinusoidal(&p);
    RHUMB_TRY(rhumb_adopt(context, "sinusoidal", "rhumb_sinusoidal", params, RHUMB_TYPE_SINUSOIDAL,
                          &p, sizeof p));
    RHUMB_TRY(check(context, &p, d));
    uint32_t n = p.odd == RHUMB_SINUSOID_ODD_ZERO ? d / 2 : (d + 1) / 2;
    RHUMB_TRY(check_list(context, &p, n));
    RHUMB_TRY(rhumb_set_scales(context, "sinusoidal", p.x_scale, p.pe_scale, e));

    e->mask = ENCODE_SINUSOID;
    e->optional = RHUMB_VIEW_BIT(RHUMB_VIEW_POSITIONS) | RHUMB_VIEW_BIT(RHUMB_VIEW_LENGTHS) |
                  RHUMB_VIEW_BIT(RHUMB_VIEW_STATUS);
    set_layout(&p, d, n, e);
    e->base = p.base;
    e->exponent = rhumb_frequency_exponent(
        p.frequency, p.odd == RHUMB_SINUSOID_ODD_NATIVE ? d : 2 * n, n);
    e->start = p.offset;
    if (p.padding_index != RHUMB_UNSET) {
        e->flags |= ENCODE_FLAG_PADDING;
        e->padding_index = p.padding_index;
    }
    if (p.frequencies) {
        e->flags |= ENCODE_FLAG_LISTED;
        memcpy(e->list, p.frequencies, n * sizeof e->list[0]);
    }
    return RHUMB_OK;
}

const rhumb_scheme rhumb_scheme_sinusoidal = {
    .name = "sinusoidal",
    .type = RHUMB_TYPE_SINUSOIDAL,
    .resolve_encoding = resolve,
};
