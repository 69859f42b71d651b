/* xlnet: the rows of transformer_xl on both sides, and segments. */
#include "terms.h"

static rhumb_result check(const rhumb_context *context, const rhumb_xlnet *p)
{
    RHUMB_TRY(rhumb_check_range(context, "xlnet", "bidirectional", p->bidirectional, 0, 1));
    RHUMB_TRY(rhumb_check_range(context, "xlnet", "flip_half", p->flip_half, 0, 1));
    RHUMB_TRY(rhumb_check_range(context, "xlnet", "folded", p->folded, 0, 1));
    return rhumb_check_sinusoid_rows(context, "xlnet", p->clamp_len);
}

/* Without ids the segment term is dropped, with them all of it is wanted. */
static rhumb_result segment_views(const rhumb_context *context, const rhumb_plan_info *info,
                                  uint32_t *segments)
{
    static const uint32_t ids[] = {RHUMB_VIEW_SEGMENT_BIAS, RHUMB_VIEW_SEGMENT_TABLE,
                                   RHUMB_VIEW_SEGMENTS_Q, RHUMB_VIEW_SEGMENTS_K};
    uint32_t all = 0;
    *segments = 0;
    for (size_t i = 0; i < 4; i++)
        all |= BIT(ids[i]);
    if (!rhumb_makes_logits(info) || !(info->views & all))
        return RHUMB_OK;
    *segments = all;
    for (size_t i = 0; i < 4; i++)
        if (!(info->views & BIT(ids[i])))
            return rhumb_fail(context, RHUMB_ERROR_ARGUMENT,
                              "xlnet: views: wanted all or none of the segment term's, found no %s",
                              rhumb_view_name(ids[i]));
    return RHUMB_OK;
}

static rhumb_result resolve(const rhumb_context *context, const void *params,
                            const rhumb_plan_info *info, rhumb_terms *terms)
{
    rhumb_xlnet p;
    uint32_t segments;
    rhumb_init_xlnet(&p);
    RHUMB_TRY(rhumb_adopt(context, "xlnet", "rhumb_xlnet", params, RHUMB_TYPE_XLNET, &p, sizeof p));
    RHUMB_TRY(check(context, &p));
    RHUMB_TRY(segment_views(context, info, &segments));
    RHUMB_TRY(rhumb_take_xl_views(context, "xlnet", info, p.folded, segments, terms));
    terms->folded = p.folded;
    terms->flip_half = p.flip_half;
    /* Distances of the flipped half are negative where those of the other are not. */
    return rhumb_set_sinusoid_rows(context, "xlnet", info, p.clamp_len,
                                   p.bidirectional || p.flip_half, terms);
}

const rhumb_scheme rhumb_scheme_xlnet = {
    .name = "xlnet",
    .type = RHUMB_TYPE_XLNET,
    .resolve_terms = resolve,
};
