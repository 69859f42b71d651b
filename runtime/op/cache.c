/* ROTATE and the key-value cache: rows that are appended, and keys that were rotated before. */
#include "cache.h"

static rhumb_result want_beside(const rhumb_context *context, const rhumb_plan_info *i,
                                uint32_t id, uint32_t wanted)
{
    if (!(i->views & BIT(id)) || (i->views & BIT(wanted)))
        return RHUMB_OK;
    return rhumb_fail(context, RHUMB_ERROR_ARGUMENT,
                      "rotate: views: wanted %s beside %s, found none", rhumb_view_name(wanted),
                      rhumb_view_name(id));
}

rhumb_result rhumb_check_append(const rhumb_context *context, const rhumb_plan_info *i)
{
    static const uint32_t needed[] = {RHUMB_VIEW_K, RHUMB_VIEW_K_OUT};
    RHUMB_TRY(rhumb_check_range(context, "rotate", "append", (uint32_t)i->append,
                                RHUMB_APPEND_NONE, RHUMB_APPEND_SLOTS));
    RHUMB_TRY(want_beside(context, i, RHUMB_VIEW_V, RHUMB_VIEW_V_OUT));
    RHUMB_TRY(want_beside(context, i, RHUMB_VIEW_V_OUT, RHUMB_VIEW_V));
    RHUMB_TRY(want_beside(context, i, RHUMB_VIEW_V, RHUMB_VIEW_K));
    bool by_slots = i->append == RHUMB_APPEND_SLOTS;
    if (by_slots != !!(i->views & BIT(RHUMB_VIEW_SLOTS)))
        return rhumb_fail(context, RHUMB_ERROR_ARGUMENT,
                          by_slots ? "rotate: views: wanted SLOTS with append SLOTS, found none"
                                   : "rotate: append: wanted SLOTS with a view SLOTS, found %d",
                          (int)i->append);
    for (uint32_t n = 0; i->append != RHUMB_APPEND_NONE && n < 2; n++)
        if (!(i->views & BIT(needed[n])))
            return rhumb_fail(context, RHUMB_ERROR_ARGUMENT,
                              "rotate: views: wanted K and a cache K_OUT with append, found no %s",
                              rhumb_view_name(needed[n]));
    return RHUMB_OK;
}

rhumb_result rhumb_apply_purpose(const rhumb_context *context, rhumb_resolved *r)
{
    rhumb_rotary *rotary = &r->rotary;
    const rhumb_purpose purpose = r->info.purpose;
    if (purpose == RHUMB_PURPOSE_ROTATE)
        return RHUMB_OK;
    if (purpose == RHUMB_PURPOSE_RESCHEDULE &&
        (rotary->length_rule == RHUMB_LENGTH_IGNORED || rotary->has_growth))
        return rhumb_fail(context, RHUMB_ERROR_UNSUPPORTED,
                          "rotate: purpose: RESCHEDULE wanted frequencies that follow the length "
                          "and pairs that do not grow, found %s",
                          rotary->has_growth ? "growing pairs"
                                             : "a scheme whose keys never become stale");
    rotary->magnitude = 1;
    rotary->has_phase = false;
    memset(rotary->phase, 0, sizeof rotary->phase);
    rotary->centre = 0;
    if (rotary->pairing == PAIRING_INTERLEAVED_TO_HALF) /* what is in the cache was written half */
        rotary->pairing = PAIRING_HALF;
    /* A distance that is the same along every axis needs no row for each. */
    if (purpose == RHUMB_PURPOSE_SHIFT && !(r->info.views & BIT(RHUMB_VIEW_POSITIONS_Q)))
        rotary->axes = 1;
    return RHUMB_OK;
}

rhumb_result rhumb_check_ring(const rhumb_binder *b, const rhumb_bindings *bindings)
{
    const rhumb_plan_info *i = &b->plan->resolved.info;
    uint32_t rows = rhumb_min_u32(bindings->q_length, i->max_q_length);
    if (i->append != RHUMB_APPEND_RING || rows <= bindings->k_length)
        return RHUMB_OK;
    return rhumb_fail(b->plan->context, RHUMB_ERROR_LIMIT,
                      "rotate: shape of K_OUT: wanted a ring of at least %u rows, the lesser of Lq "
                      "%u and max_q_length %u, found %u",
                      rows, bindings->q_length, i->max_q_length, bindings->k_length);
}

/* Where the first row goes; RHUMB_UNSET where the device decides. */
static int32_t first_row(const rhumb_plan_info *i, const rhumb_dispatch *d)
{
    if (d->append_position != RHUMB_UNSET)
        return d->append_position;
    if (i->purpose == RHUMB_PURPOSE_SHIFT)
        return 0;
    if (i->views & BIT(RHUMB_VIEW_LENGTHS))
        return RHUMB_UNSET;
    return d->q_offset == RHUMB_UNSET ? 0 : d->q_offset;
}

rhumb_result rhumb_check_append_position(const rhumb_bindings *bindings, const rhumb_dispatch *d,
                                         struct rhumb_push *push)
{
    const rhumb_context *context = bindings->plan->context;
    const rhumb_plan_info *i = &bindings->plan->resolved.info;
    bool by_position = i->append == RHUMB_APPEND_POSITION;
    push->append_position = RHUMB_UNSET;
    push->capacity = bindings->k_length;
    if (!by_position && i->append != RHUMB_APPEND_RING) {
        if (d->append_position == RHUMB_UNSET)
            return RHUMB_OK;
        return rhumb_fail(context, RHUMB_ERROR_ARGUMENT,
                          "rotate: append_position: wanted RHUMB_UNSET without append POSITION or "
                          "RING, found %d",
                          d->append_position);
    }
    int32_t first = first_row(i, d);
    push->append_position = first;
    if (first == RHUMB_UNSET)
        return RHUMB_OK;
    if (first < 0)
        return rhumb_fail(context, RHUMB_ERROR_ARGUMENT,
                          "rotate: append_position: wanted 0 or more, found %d", first);
    /* With LENGTHS neither number need be the one that counts: the kernel skips and counts. */
    if (by_position && !(i->views & BIT(RHUMB_VIEW_LENGTHS)) &&
        (int64_t)first + push->q_length > bindings->k_length)
        return rhumb_fail(context, RHUMB_ERROR_LIMIT,
                          "rotate: append_position: wanted rows up to the capacity %u, found %d "
                          "rows from %d on",
                          bindings->k_length, push->q_length, first);
    return RHUMB_OK;
}
