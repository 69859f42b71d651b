/* M-RoPE: which pairs take their position from which axis. */
#include "resolve.h"

#include <stdio.h>

static rhumb_result read_list(const rhumb_lookup *l, const rhumb_key *list, rhumb_schedule *s)
{
    char have[80];
    uint32_t i;

    if (list->kind != RHUMB_VALUE_LIST || list->count != 3)
        return rhumb_lookup_fail(l, RHUMB_ERROR_CONFIG,
                                 "%s: wanted a list of 3 numbers (t, h, w), found %s", list->path,
                                 rhumb_lookup_print(list, have, sizeof have));
    for (i = 0; i < 3; i++) {
        const rhumb_key *item = &list->items[i];
        if (item->kind != RHUMB_VALUE_NUMBER || !(item->number >= 0.0) ||
            item->number > RHUMB_MAX_PAIRS || item->number != (double)(uint32_t)item->number)
            return rhumb_lookup_fail(l, RHUMB_ERROR_CONFIG,
                                     "%s: item %u: wanted an integer from 0 to %u, found %s",
                                     list->path, (unsigned)i, (unsigned)RHUMB_MAX_PAIRS,
                                     rhumb_lookup_print(item, have, sizeof have));
        if (s->several && s->mrope.sections[i] != (uint32_t)item->number)
            return rhumb_lookup_fail(l, RHUMB_ERROR_CONFIG,
                                     "%s: item %u: wanted %u as in %s, found %g", list->path,
                                     (unsigned)i, (unsigned)s->mrope.sections[i],
                                     s->sections_source, item->number);
        s->mrope.sections[i] = (uint32_t)item->number;
    }
    return RHUMB_OK;
}

/* mrope_interleaved, where it is there, says what the family does. */
static rhumb_result check_order(const rhumb_lookup *l, const rhumb_family *family,
                                const char *object)
{
    int wanted = family->order == RHUMB_MROPE_INTERLEAVED;
    char path[128];
    int value;
    int found;

    RHUMB_TRY(rhumb_lookup_bool(l, rhumb_place_path(path, object, "mrope_interleaved"), &value,
                                &found));
    if (found && value != wanted)
        return rhumb_lookup_fail(l, RHUMB_ERROR_CONFIG, "%s%s: wanted %s (rule of %s), found %s",
                                 l->scope, path, wanted ? "true" : "false", family->model_type,
                                 value ? "true" : "false");
    return RHUMB_OK;
}

rhumb_result rhumb_model_sections(const rhumb_lookup *l, const rhumb_model_values *r,
                                  const rhumb_place *place, rhumb_schedule *schedule)
{
    const rhumb_key *list;
    char path[128];
    size_t i;

    if (!r->family->several)
        return RHUMB_OK;
    rhumb_init_mrope(&schedule->mrope);
    schedule->mrope.order = r->family->order;
    for (i = 0; i < 2 && place->objects[i] != NULL; i++) {
        RHUMB_TRY(check_order(l, r->family, place->objects[i]));
        RHUMB_TRY(rhumb_lookup_find(
            l, rhumb_place_path(path, place->objects[i], "mrope_section"), &list));
        if (list == NULL || list->kind == RHUMB_VALUE_NULL)
            continue;
        RHUMB_TRY(read_list(l, list, schedule));
        schedule->several = 1;
        (void)snprintf(schedule->sections_source, sizeof schedule->sections_source, "%s",
                       list->path);
    }
    if (!schedule->several)
        return rhumb_lookup_fail(l, RHUMB_ERROR_CONFIG,
                                 "%s%s.mrope_section: missing, needed by %s", l->scope,
                                 place->objects[1] != NULL ? place->objects[1] : place->objects[0],
                                 r->family->model_type);
    return RHUMB_OK;
}
