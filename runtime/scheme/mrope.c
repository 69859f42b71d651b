/* mrope: rope's frequencies, with the axis that each pair takes its position from. */
#include "../internal.h"

static uint32_t block_axis(const uint32_t *sections, uint32_t pair)
{
    uint32_t axis = 0, end = sections[0];
    while (pair >= end)
        end += sections[++axis];
    return axis;
}

/* t, h, w by turns; t takes what lies beyond the sections of h and w. */
static uint32_t interleaved_axis(const uint32_t *sections, uint32_t pair)
{
    uint32_t axis = pair % 3;
    return axis != 0 && pair < 3 * sections[axis] ? axis : 0;
}

/* The fourth row takes what is left over. Sections that end before the pairs begin again. */
static uint32_t extra_axis(const uint32_t *sections, uint32_t pair)
{
    uint32_t at = pair % (sections[0] + sections[1] + sections[2] + sections[3]);
    return at < 3 * sections[at % 3] ? at % 3 : 3;
}

static uint32_t alternating_axis(const uint32_t *sections, uint32_t pair)
{
    return pair < sections[0] + sections[1] ? 1 + pair % 2 : 0;
}

static uint32_t axis_of(const rhumb_mrope *p, uint32_t pair)
{
    switch (p->order) {
    case RHUMB_MROPE_BLOCKS: return block_axis(p->sections, pair);
    case RHUMB_MROPE_INTERLEAVED: return interleaved_axis(p->sections, pair);
    case RHUMB_MROPE_INTERLEAVED_EXTRA: return extra_axis(p->sections, pair);
    case RHUMB_MROPE_ALTERNATING: return alternating_axis(p->sections, pair);
    }
    return 0;
}

/* Sections that cover the pairs exactly where the order says so, and no section past them. */
static rhumb_result check(const rhumb_context *context, const rhumb_mrope *p, uint32_t pairs)
{
    uint64_t sum = 0;
    if ((uint32_t)p->order > RHUMB_MROPE_ALTERNATING)
        return rhumb_fail(context, RHUMB_ERROR_ARGUMENT,
                          "mrope: order: wanted a rhumb_mrope_order, found %d", (int)p->order);
    for (uint32_t i = 0; i < 4; i++)
        sum += p->sections[i];
    bool exact = p->order == RHUMB_MROPE_BLOCKS || p->order == RHUMB_MROPE_ALTERNATING;
    if (exact ? sum != pairs : sum == 0 || sum > pairs)
        return rhumb_fail(context, RHUMB_ERROR_ARGUMENT,
                          "mrope: sections: wanted a sum of %s%u pairs, found %u + %u + %u + %u",
                          exact ? "" : "1 to ", pairs, p->sections[0], p->sections[1],
                          p->sections[2], p->sections[3]);
    if (p->order == RHUMB_MROPE_ALTERNATING &&
        (p->sections[0] != p->sections[1] || p->sections[3]))
        return rhumb_fail(context, RHUMB_ERROR_ARGUMENT,
                          "mrope: sections: ALTERNATING wanted equal h and w and no fourth, found "
                          "%u, %u and %u",
                          p->sections[0], p->sections[1], p->sections[3]);
    return RHUMB_OK;
}

static rhumb_result resolve(const rhumb_context *context, const void *params, uint32_t head_dim,
                            rhumb_rotary *rotary)
{
    rhumb_mrope p;
    rhumb_rope rope;
    rhumb_init_mrope(&p);
    rhumb_init_rope(&rope);
    RHUMB_TRY(rhumb_adopt(context, "mrope", "rhumb_mrope", params, RHUMB_TYPE_MROPE, &p, sizeof p));
    if (p.rope && p.rope->type != RHUMB_TYPE_ROPE) /* its own kind would lead round */
        return rhumb_fail(context, RHUMB_ERROR_VERSION,
                          "mrope: rope: wanted a rhumb_rope, found a struct of type %u",
                          p.rope->type);
    RHUMB_TRY(rhumb_resolve_rotary(context, p.rope ? p.rope : &rope, head_dim, rotary));
    uint32_t pairs = rotary->rotary_dim / 2;
    RHUMB_TRY(check(context, &p, pairs));
    rotary->axes = 3;
    for (uint32_t i = 0; i < pairs; i++) {
        rotary->axis[i] = (uint8_t)axis_of(&p, i);
        if (rotary->axis[i] == 3)
            rotary->axes = 4;
    }
    return RHUMB_OK;
}

const rhumb_scheme rhumb_scheme_mrope = {
    .name = "mrope",
    .type = RHUMB_TYPE_MROPE,
    .resolve_rotary = resolve,
};
