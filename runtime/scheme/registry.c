/* The table of schemes, made from RHUMB_SCHEMES: a new scheme adds its line there and nothing
 * here. */
#include "../internal.h"

#define X(UPPER, lower, kind) extern const rhumb_scheme rhumb_scheme_##lower;
RHUMB_SCHEMES(X)
#undef X

const rhumb_scheme *rhumb_find_scheme(uint32_t type)
{
    static const rhumb_scheme *const schemes[] = {
#define X(UPPER, lower, kind) &rhumb_scheme_##lower,
        RHUMB_SCHEMES(X)
#undef X
    };
    for (size_t i = 0; i < sizeof schemes / sizeof schemes[0]; i++)
        if (schemes[i]->type == type)
            return schemes[i];
    return NULL;
}

rhumb_result rhumb_resolve_rotary(const rhumb_context *context, const void *params,
                                  uint32_t head_dim, rhumb_rotary *rotary)
{
    const rhumb_header *header = params;
    if (!header)
        return rhumb_fail(context, RHUMB_ERROR_ARGUMENT,
                          "rotary: wanted a rotary scheme struct, found NULL");
    const rhumb_scheme *scheme = rhumb_find_scheme(header->type);
    if (!scheme || !scheme->resolve_rotary)
        return rhumb_fail(context, RHUMB_ERROR_VERSION,
                          "rotary: wanted the type of a rotary scheme struct, found %u",
                          header->type);
    rotary->segments = 1;
    rotary->axes = 1;
    return scheme->resolve_rotary(context, params, head_dim, rotary);
}

rhumb_result rhumb_rotary_frequencies(const void *params, uint32_t head_dim, uint32_t length,
                                      double *frequencies, uint32_t capacity, uint32_t *count,
                                      double *magnitude)
{
    rhumb_rotary rotary = {0};
    if (head_dim < 1 || head_dim > RHUMB_MAX_HEAD_DIM)
        return rhumb_fail(NULL, RHUMB_ERROR_ARGUMENT,
                          "rotary_frequencies: head_dim: wanted 1 to %d, found %u",
                          RHUMB_MAX_HEAD_DIM, head_dim);
    RHUMB_TRY(rhumb_resolve_rotary(NULL, params, head_dim, &rotary));
    if (rotary.has_learned)
        return rhumb_fail(NULL, RHUMB_ERROR_UNSUPPORTED,
                          "rotary_frequencies: wanted frequencies by a rule, found LEARNED, which "
                          "are in a view");
    uint32_t pairs = rotary.rotary_dim / 2;
    if (frequencies && capacity < pairs)
        return rhumb_fail(NULL, RHUMB_ERROR_ARGUMENT,
                          "rotary_frequencies: capacity: wanted at least %u, found %u", pairs,
                          capacity);
    for (uint32_t i = 0; frequencies && i < pairs; i++)
        frequencies[i] = (double)rhumb_frequency_at(&rotary, i, length);
    if (count)
        *count = pairs;
    if (magnitude)
        *magnitude = rotary.magnitude;
    return RHUMB_OK;
}
