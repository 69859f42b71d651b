/* sinusoidal2d: the channels of two axes, and the coordinates of a grid. */
#include "encoding.h"

static rhumb_result check_enums(const rhumb_context *context, const rhumb_sinusoidal2d *p)
{
    const struct {
        const char *field, *type;
        uint32_t value, last;
    } rows[] = {
        {"order", "rhumb_axis_order", (uint32_t)p->order, RHUMB_AXIS_COLUMN_FIRST},
        {"layout", "rhumb_grid_layout", (uint32_t)p->layout, RHUMB_GRID_SIN_COS},
        {"frequency", "rhumb_frequency_rule", (uint32_t)p->frequency, RHUMB_FREQUENCY_ENDPOINT},
        {"tokens", "rhumb_token_order", (uint32_t)p->tokens, RHUMB_TOKENS_COLUMN_MAJOR},
        {"coordinates", "rhumb_grid_coordinates", (uint32_t)p->coordinates,
         RHUMB_COORDINATES_VALID},
        {"output", "rhumb_grid_output", (uint32_t)p->output, RHUMB_OUTPUT_IMAGE},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        RHUMB_TRY(rhumb_check_enum(context, "sinusoidal2d", rows[i].field, rows[i].type,
                                   rows[i].value, rows[i].last));
    return rhumb_check_range(context, "sinusoidal2d", "normalize", p->normalize, 0, 1);
}

#define MOST_COORDINATE 65536.0

static rhumb_result check_numbers(const rhumb_context *context, const rhumb_sinusoidal2d *p)
{
    const char *name = "sinusoidal2d";
    const double most = RHUMB_MAX_LENGTH;
    RHUMB_TRY(rhumb_check_base(context, name, p->base));
    RHUMB_TRY(
        rhumb_check_number(context, name, "coordinate_start", p->coordinate_start, -most, most));
    RHUMB_TRY(rhumb_check_number(context, name, "coordinate_scale", p->coordinate_scale,
                                 -MOST_COORDINATE, MOST_COORDINATE));
    RHUMB_TRY(rhumb_check_number(context, name, "epsilon", p->epsilon, 0, MOST_COORDINATE));
    return rhumb_check_number(context, name, "center_offset", p->center_offset, -MOST_COORDINATE,
                              MOST_COORDINATE);
}

/* Fields that mean something together only. */
static rhumb_result check_pairs(const rhumb_context *context, const rhumb_sinusoidal2d *p)
{
    bool by_valid = p->coordinates == RHUMB_COORDINATES_VALID;
    if (p->normalize && !by_valid)
        return rhumb_fail(context, RHUMB_ERROR_ARGUMENT,
                          "sinusoidal2d: normalize: wanted 0, as coordinates are "
                          "COORDINATES_INDEX, found 1");
    if (by_valid && p->coordinate_start != 0)
        return rhumb_fail(context, RHUMB_ERROR_ARGUMENT,
                          "sinusoidal2d: coordinate_start: wanted 0, as coordinates are "
                          "COORDINATES_VALID, found %g",
                          p->coordinate_start);
    if (p->output == RHUMB_OUTPUT_IMAGE &&
        (p->prefix_tokens || p->tokens == RHUMB_TOKENS_COLUMN_MAJOR))
        return rhumb_fail(context, RHUMB_ERROR_ARGUMENT,
                          "sinusoidal2d: output: an image wanted no prefix_tokens and tokens "
                          "ROW_MAJOR, found %u and %d",
                          p->prefix_tokens, (int)p->tokens);
    return RHUMB_OK;
}

static void set_layout(const rhumb_sinusoidal2d *p, uint32_t d, rhumb_encoding *e)
{
    uint32_t n = p->axis_dim / 2;
    e->angles = n;
    e->encoded = d < 2 * p->axis_dim ? d : 2 * p->axis_dim;
    e->step = p->layout == RHUMB_GRID_INTERLEAVED ? 2 : 1;
    for (uint32_t axis = 0; axis < 2; axis++) {
        bool split = p->layout == RHUMB_GRID_SIN_COS;
        e->sine[axis] = axis * (split ? n : p->axis_dim);
        e->cosine[axis] = p->layout == RHUMB_GRID_INTERLEAVED ? e->sine[axis] + 1
                                                              : e->sine[axis] + (split ? 2 * n : n);
    }
}

static void set_flags(const rhumb_sinusoidal2d *p, rhumb_encoding *e)
{
    e->mask = ENCODE_SINUSOID | ENCODE_GRID | ENCODE_TWO_AXES |
              (p->output == RHUMB_OUTPUT_IMAGE ? ENCODE_IMAGE : 0);
    e->flags = (p->tokens == RHUMB_TOKENS_COLUMN_MAJOR ? ENCODE_FLAG_COLUMN_MAJOR : 0) |
               (p->order == RHUMB_AXIS_COLUMN_FIRST ? ENCODE_FLAG_COLUMN_FIRST : 0) |
               (p->normalize ? ENCODE_FLAG_NORMALIZE : 0);
    e->required =
        p->coordinates == RHUMB_COORDINATES_VALID ? RHUMB_VIEW_BIT(RHUMB_VIEW_VALID) : 0;
}

static rhumb_result resolve(const rhumb_context *context, const void *params,
                            const rhumb_plan_info *info, rhumb_encoding *e)
{
    rhumb_sinusoidal2d p;
    rhumb_init_sinusoidal2d(&p);
    RHUMB_TRY(rhumb_adopt(context, "sinusoidal2d", "rhumb_sinusoidal2d", params,
                          RHUMB_TYPE_SINUSOIDAL2D, &p, sizeof p));
    if (p.axis_dim == RHUMB_SAME)
        p.axis_dim = info->head_dim / 2;
    RHUMB_TRY(check_enums(context, &p));
    if (p.axis_dim < 2 || p.axis_dim % 2 || p.axis_dim > RHUMB_MAX_CHANNELS)
        return rhumb_fail(context, RHUMB_ERROR_ARGUMENT,
                          "sinusoidal2d: axis_dim: wanted an even number from 2 to %d, found %u of "
                          "%u channels",
                          RHUMB_MAX_CHANNELS, p.axis_dim, info->head_dim);
    RHUMB_TRY(check_numbers(context, &p));
    RHUMB_TRY(check_pairs(context, &p));
    RHUMB_TRY(rhumb_check_grid(context, "sinusoidal2d", p.grid, p.prefix_tokens, info));
    RHUMB_TRY(rhumb_set_scales(context, "sinusoidal2d", p.x_scale, p.pe_scale, e));

    set_flags(&p, e);
    set_layout(&p, info->head_dim, e);
    memcpy(e->grid, p.grid, sizeof e->grid);
    e->prefix = p.prefix_tokens;
    e->base = p.base;
    e->exponent = rhumb_frequency_exponent(p.frequency, p.axis_dim, p.axis_dim / 2);
    e->start = p.coordinate_start;
    e->center = p.center_offset;
    e->epsilon = p.epsilon;
    e->scale = p.coordinate_scale;
    return RHUMB_OK;
}

const rhumb_scheme rhumb_scheme_sinusoidal2d = {
    .name = "sinusoidal2d",
    .type = RHUMB_TYPE_SINUSOIDAL2D,
    .resolve_encoding = resolve,
};
