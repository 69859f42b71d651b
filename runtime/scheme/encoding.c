/* What absolute schemes share: their resolution, checks, and their part of the constants block. */
#include "encoding.h"

#include <float.h>
#include <math.h>

rhumb_result rhumb_resolve_encoding(const rhumb_context *context, const void *params,
                                    const rhumb_plan_info *info, rhumb_encoding *encoding)
{
    const rhumb_header *header = params;
    const rhumb_scheme *scheme = header ? rhumb_find_scheme(header->type) : NULL;
    if (!header)
        return rhumb_fail(context, RHUMB_ERROR_ARGUMENT,
                          "encode: scheme: wanted an absolute scheme struct, found NULL");
    if (!scheme || !scheme->resolve_encoding)
        return rhumb_fail(context, RHUMB_ERROR_VERSION,
                          "encode: scheme: wanted the type of an absolute scheme struct, found %u",
                          header->type);
    encoding->x_scale = 1.0;
    encoding->pe_scale = 1.0;
    return scheme->resolve_encoding(context, params, info, encoding);
}

/* NaN is refused too. */
rhumb_result rhumb_check_number(const rhumb_context *context, const char *scheme, const char *field,
                                double value, double low, double high)
{
    if (value >= low && value <= high)
        return RHUMB_OK;
    return rhumb_fail(context, RHUMB_ERROR_ARGUMENT, "%s: %s: wanted %g to %g, found %g", scheme,
                      field, low, high, value);
}

rhumb_result rhumb_check_base(const rhumb_context *context, const char *scheme, double base)
{
    if (isfinite(base) && base > 1)
        return RHUMB_OK;
    return rhumb_fail(context, RHUMB_ERROR_ARGUMENT,
                      "%s: base: wanted a finite number above 1, found %g", scheme, base);
}

rhumb_result rhumb_check_grid(const rhumb_context *context, const char *scheme,
                              const uint32_t grid[2], uint32_t prefix, const rhumb_plan_info *info)
{
    if (grid[0] < 1 || grid[1] < 1)
        return rhumb_fail(context, RHUMB_ERROR_ARGUMENT,
                          "%s: grid: wanted at least 1 x 1, found %u x %u", scheme, grid[0],
                          grid[1]);
    /* The product of two words and a third one fits 64 bits. */
    uint64_t tokens = (uint64_t)grid[0] * grid[1] + prefix;
    if (tokens != info->max_q_length)
        return rhumb_fail(context, RHUMB_ERROR_ARGUMENT,
                          "%s: grid: wanted prefix_tokens + H W = max_q_length %u, found "
                          "%u + %u x %u",
                          scheme, info->max_q_length, prefix, grid[0], grid[1]);
    return RHUMB_OK;
}

rhumb_result rhumb_set_scales(const rhumb_context *context, const char *scheme, double x_scale,
                              double pe_scale, rhumb_encoding *encoding)
{
    const double most = (double)FLT_MAX;
    RHUMB_TRY(rhumb_check_number(context, scheme, "x_scale", x_scale, -most, most));
    RHUMB_TRY(rhumb_check_number(context, scheme, "pe_scale", pe_scale, -most, most));
    encoding->x_scale = x_scale;
    encoding->pe_scale = pe_scale;
    return RHUMB_OK;
}

long double rhumb_frequency_exponent(rhumb_frequency_rule rule, uint32_t d, uint32_t n)
{
    if (rule == RHUMB_FREQUENCY_ENDPOINT)
        return 1.0L / (n > 1 ? n - 1 : 1);
    return d ? 2.0L / d : 0;
}

/* ---- Constants block */

/* Base and ratio: angle TURNS_RATIO k + j turns by base[k] ratio[j]. */
static void write_power_law(const rhumb_encoding *e, struct rhumb_constants_block *block)
{
    for (uint32_t j = 0; j < TURNS_RATIO; j++) {
        uint32_t at = TURNS_RATIO + j;
        rhumb_write_turns(powl((long double)e->base, -e->exponent * j * TURNS_RATIO),
                          &block->turns[j / 2][j % 2 * 2]);
        rhumb_write_fraction(powl((long double)e->base, -e->exponent * j),
                             &block->turns[at / 2][at % 2 * 2]);
    }
}

static void write_list(const rhumb_encoding *e, struct rhumb_constants_block *block)
{
    for (uint32_t i = 0; i < e->angles; i++)
        rhumb_write_turns((long double)e->list[i], &block->turns[i / 2][i % 2 * 2]);
}

static void write_offsets(const rhumb_encoding *e, struct rhumb_constants_block *block)
{
    for (uint32_t i = 0; i < 2 * RHUMB_MAX_OFFSETS; i++) {
        float coordinate = (float)e->list[i];
        memcpy(&block->turns[i / 4][i % 4], &coordinate, sizeof coordinate);
    }
}

/* {fraction of 32 bits, low, high} in two's complement. */
static void write_fixed(double value, uint32_t words[3])
{
    double whole = floor(value);
    uint64_t fraction = (uint64_t)round((value - whole) * 4294967296.0);
    int64_t integer = (int64_t)whole + (fraction >> 32 ? 1 : 0);
    words[0] = (uint32_t)fraction;
    words[1] = (uint32_t)(uint64_t)integer;
    words[2] = (uint32_t)((uint64_t)integer >> 32);
}

static void write_coordinates(const rhumb_encoding *e, struct rhumb_constants_block *block)
{
    uint32_t words[3];
    write_fixed(e->start, words);
    block->start_fraction = words[0];
    block->start_low = words[1];
    block->start_high = words[2];
    write_fixed(e->center, words);
    block->center_fraction = words[0];
    block->center_low = words[1];
    write_fixed(e->epsilon, words);
    block->epsilon_fraction = words[0];
    block->epsilon_low = words[1];
    write_fixed(fabs(e->scale), words);
    block->scale_fraction = words[0];
    block->scale_low = words[1];
    block->padding_index = e->padding_index;
}

void rhumb_write_encoding(const rhumb_encoding *e, struct rhumb_constants_block *block)
{
    block->x_scale = (float)e->x_scale;
    block->pe_scale = (float)e->pe_scale;
    block->encode_flags = e->flags | (e->scale < 0 ? ENCODE_FLAG_NEGATIVE_SCALE : 0);
    block->prefix_tokens = e->prefix;
    block->grid_height = e->grid[0];
    block->grid_width = e->grid[1];
    block->angles = e->angles;
    block->channel_step = e->step;
    block->encoded_channels = e->encoded;
    block->sine_first = e->sine[0];
    block->sine_second = e->sine[1];
    block->cosine_first = e->cosine[0];
    block->cosine_second = e->cosine[1];
    block->axis_run = e->axis_run;
    block->axis_parts = e->axis_parts;
    block->parts = e->parts;
    block->table_offset = e->offset;
    block->half_channels = e->table_width;
    write_coordinates(e, block);
    if (e->mask & ENCODE_OFFSETS)
        write_offsets(e, block);
    else if (e->flags & ENCODE_FLAG_LISTED)
        write_list(e, block);
    else if (e->mask & ENCODE_SINUSOID)
        write_power_law(e, block);
}
