/* learned: which row of the table serves which position. */
#include "encoding.h"

static rhumb_result check(const rhumb_context *context, const rhumb_learned *p)
{
    RHUMB_TRY(rhumb_check_enum(context, "learned", "out_of_range", "rhumb_out_of_range",
                               (uint32_t)p->out_of_range, RHUMB_OUT_OF_RANGE_ZERO));
    RHUMB_TRY(rhumb_check_range(context, "learned", "clamp_negative", p->clamp_negative, 0, 1));
    RHUMB_TRY(rhumb_check_range(context, "learned", "normalize", p->normalize, 0, 1));
    if (p->offset >= -RHUMB_MAX_LENGTH && p->offset <= RHUMB_MAX_LENGTH)
        return RHUMB_OK;
    return rhumb_fail(context, RHUMB_ERROR_ARGUMENT, "learned: offset: wanted %d to %d, found %d",
                      -RHUMB_MAX_LENGTH, RHUMB_MAX_LENGTH, p->offset);
}

static rhumb_result resolve(const rhumb_context *context, const void *params,
                            const rhumb_plan_info *info, rhumb_encoding *e)
{
    rhumb_learned p;
    rhumb_init_learned(&p);
    RHUMB_TRY(rhumb_adopt(context, "learned", "rhumb_learned", params, RHUMB_TYPE_LEARNED, &p,
                          sizeof p));
    RHUMB_TRY(check(context, &p));
    RHUMB_TRY(rhumb_set_scales(context, "learned", p.x_scale, p.pe_scale, e));
    e->mask = ENCODE_TABLE | (p.normalize ? ENCODE_NORMALIZE : 0);
    e->flags = (p.clamp_negative ? ENCODE_FLAG_CLAMP_NEGATIVE : 0) |
               (p.out_of_range == RHUMB_OUT_OF_RANGE_ZERO ? ENCODE_FLAG_ZERO_OUTSIDE : 0);
    e->required = RHUMB_VIEW_BIT(RHUMB_VIEW_TABLE);
    e->optional = RHUMB_VIEW_BIT(RHUMB_VIEW_POSITIONS) | RHUMB_VIEW_BIT(RHUMB_VIEW_LENGTHS) |
                  RHUMB_VIEW_BIT(RHUMB_VIEW_STATUS);
    e->offset = p.offset;
    e->table_width = info->head_dim;
    return RHUMB_OK;
}

const rhumb_scheme rhumb_scheme_learned = {
    .name = "learned",
    .type = RHUMB_TYPE_LEARNED,
    .resolve_encoding = resolve,
};
