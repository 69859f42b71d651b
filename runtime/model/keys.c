/* rhumb_scheme_from_keys: configuration keys of a published model -> layer kinds.
 *
 * Models without rotary are positions.h's. Of the others families.c has one row per model_type;
 * heads.c, layers.c, place.c, rotary.c and scaling.c follow its rules; kinds.c makes layer kinds
 * and the trace of the result. Nothing is written to the caller's memory before all of it is
 * resolved. */
#include "positions.h"

#include <stdio.h>

static rhumb_result check_info(const rhumb_lookup *l, const rhumb_keys_info *info)
{
    rhumb_layer_kind complete;
    const rhumb_layer_kind *first = info->kinds;

    if (info->keys == NULL && info->key_count > 0)
        return rhumb_lookup_fail(l, RHUMB_ERROR_ARGUMENT,
                                 "scheme_from_keys: keys: wanted %u keys, found NULL",
                                 (unsigned)info->key_count);
    if (first == NULL || info->kind_capacity == 0)
        return rhumb_lookup_fail(l, RHUMB_ERROR_ARGUMENT,
                                 "scheme_from_keys: kinds: wanted room for 1, found none");
    if (info->arena == NULL)
        return rhumb_lookup_fail(l, RHUMB_ERROR_ARGUMENT,
                                 "scheme_from_keys: arena: wanted memory, found NULL");
    if (rhumb_adopt(NULL, "scheme_from_keys", "kinds[0]", first, RHUMB_TYPE_LAYER_KIND, &complete,
                    sizeof complete) != RHUMB_OK)
        return rhumb_lookup_fail(l, RHUMB_ERROR_VERSION, "%.300s", rhumb_last_message(NULL));
    if (first->struct_size % _Alignof(rhumb_layer_kind) != 0)
        return rhumb_lookup_fail(
            l, RHUMB_ERROR_VERSION,
            "scheme_from_keys: kinds[0].struct_size: wanted a multiple of %u, found %u",
            (unsigned)_Alignof(rhumb_layer_kind), (unsigned)first->struct_size);
    return rhumb_lookup_check(l);
}

/* "llama, mistral, ...": as many as fit. */
static void list_families(char *text, size_t size)
{
    const rhumb_family *family;
    size_t used = 0;
    uint32_t i;

    text[0] = '\0';
    for (i = 0; (family = rhumb_family_at(i)) != NULL; i++) {
        if (used + strlen(family->model_type) + 3 > size)
            continue;
        used += (size_t)snprintf(text + used, size - used, "%s%s", used > 0 ? ", " : "",
                                 family->model_type);
    }
}

static int has_object(const rhumb_lookup *l, const char *object)
{
    uint32_t i;

    for (i = 0; i < l->key_count; i++) {
        if (rhumb_lookup_below(l, &l->keys[i], object) != NULL)
            return 1;
    }
    return 0;
}

/* The family of any text part: one that has no parts itself. */
static rhumb_result find_text(const rhumb_lookup *l, const char *who, const rhumb_family **family)
{
    const char *model_type;
    int found;

    RHUMB_TRY(rhumb_lookup_string(l, "model_type", &model_type, &found));
    if (!found)
        return rhumb_lookup_fail(l, RHUMB_ERROR_CONFIG,
                                 "text_config.model_type: missing, needed by %s", who);
    *family = rhumb_family_find(model_type);
    if (*family == NULL || (*family)->text != NULL || (*family)->vision_rule != RHUMB_VISION_NONE)
        return rhumb_lookup_fail(l, RHUMB_ERROR_CONFIG,
                                 "not implemented: text_config.model_type: %.48s as a part of %s",
                                 model_type, who);
    return RHUMB_OK;
}

/* A model of several parts has the keys of its text part in text_config. *family becomes that of
 * the text part, or NULL if there is none. */
static rhumb_result enter_text(rhumb_lookup *l, const rhumb_family **family)
{
    const rhumb_family *whole = *family;
    const char *model_type;
    int found;

    if (!has_object(l, "text_config")) {
        *family = whole->text[0] != '\0' ? rhumb_family_find(whole->text) : NULL;
        if (*family == NULL || whole->text_optional)
            return RHUMB_OK;
        return rhumb_lookup_fail(l, RHUMB_ERROR_CONFIG, "text_config: missing, needed by %s",
                                 whole->model_type);
    }
    l->scope = "text_config.";
    if (whole->text[0] == '\0')
        return find_text(l, whole->model_type, family);
    RHUMB_TRY(rhumb_lookup_string(l, "model_type", &model_type, &found));
    if (found && strcmp(model_type, whole->text) != 0)
        return rhumb_lookup_fail(l, RHUMB_ERROR_CONFIG,
                                 "text_config.model_type: wanted %s or none (rule of %s), found "
                                 "%.48s",
                                 whole->text, whole->model_type, model_type);
    *family = rhumb_family_find(whole->text);
    return RHUMB_OK;
}

static rhumb_result find_family(const rhumb_lookup *l, const rhumb_family **family,
                                const rhumb_position_family **positions)
{
    char known[400];
    const char *model_type;
    int found;

    *family = NULL;
    RHUMB_TRY(rhumb_lookup_string(l, "model_type", &model_type, &found));
    list_families(known, sizeof known);
    if (!found)
        return rhumb_lookup_fail(l, RHUMB_ERROR_CONFIG, "model_type: missing, wanted one of %s",
                                 known);
    RHUMB_TRY(rhumb_position_find(l, model_type, positions));
    if (*positions != NULL)
        return RHUMB_OK;
    *family = rhumb_family_find(model_type);
    if (*family == NULL)
        return rhumb_lookup_fail(l, RHUMB_ERROR_CONFIG, "model_type: found %.48s, wanted one of %s",
                                 model_type, known);
    return RHUMB_OK;
}

static rhumb_result resolve_text(rhumb_lookup *l, rhumb_model_values *r)
{
    (void)snprintf(r->family_rule, sizeof r->family_rule, "rule of %s", r->family->model_type);
    r->type_count = r->family->by_type ? RHUMB_MOST_TYPES : 1u;
    RHUMB_TRY(rhumb_model_heads(l, r));
    RHUMB_TRY(rhumb_model_rotary(l, r));
    RHUMB_TRY(rhumb_model_layers(l, r));
    RHUMB_TRY(rhumb_model_softcap(l, r));
    RHUMB_TRY(rhumb_model_temperature(l, r));
    return rhumb_model_scale(l, r);
}

static rhumb_result resolve(rhumb_lookup *l, const rhumb_family *whole, rhumb_model_values *r)
{
    r->family = whole->vision_rule == RHUMB_VISION_DINOV3 ? NULL : whole;
    if (whole->text != NULL)
        RHUMB_TRY(enter_text(l, &r->family));
    if (r->family != NULL)
        RHUMB_TRY(resolve_text(l, r));
    RHUMB_TRY(rhumb_model_vision(l, r, whole));
    if (rhumb_model_kind_count(r) == 0)
        return rhumb_lookup_fail(l, RHUMB_ERROR_CONFIG,
                                 "text_config: missing, and so is vision_config: one is needed by "
                                 "%s",
                                 whole->model_type);
    return rhumb_model_finish(l, r);
}

rhumb_result rhumb_model_room(const rhumb_lookup *l, const rhumb_keys_info *info, uint32_t count,
                              size_t size, char **arena)
{
    size_t align = _Alignof(rhumb_rope);
    size_t skip = (align - (uintptr_t)info->arena % align) % align;

    if (info->kind_capacity < count)
        return rhumb_lookup_fail(l, RHUMB_ERROR_ARGUMENT,
                                 "scheme_from_keys: kinds: wanted room for %u, found %u",
                                 (unsigned)count, (unsigned)info->kind_capacity);
    if (info->arena_size < skip || info->arena_size - skip < size)
        return rhumb_lookup_fail(l, RHUMB_ERROR_HOST_MEMORY,
                                 "scheme_from_keys: arena: wanted %zu bytes, found %zu",
                                 size + align, info->arena_size);
    *arena = (char *)info->arena + skip;
    return RHUMB_OK;
}

static rhumb_result rotary_keys(rhumb_lookup *l, const rhumb_family *family,
                                const rhumb_keys_info *info, uint32_t *kind_count)
{
    rhumb_model_values resolved;
    uint32_t count;
    char *arena;

    memset(&resolved, 0, sizeof resolved);
    RHUMB_TRY(resolve(l, family, &resolved));
    count = rhumb_model_kind_count(&resolved);
    RHUMB_TRY(rhumb_model_room(l, info, count, rhumb_model_arena_size(&resolved), &arena));
    rhumb_model_commit(info, &resolved, arena);
    *kind_count = count;
    return RHUMB_OK;
}

rhumb_result rhumb_scheme_from_keys(const rhumb_keys_info *given, uint32_t *kind_count)
{
    const rhumb_position_family *positions = NULL;
    const rhumb_family *family = NULL;
    rhumb_keys_info info;
    rhumb_lookup lookup;

    if (kind_count != NULL)
        *kind_count = 0;
    if (kind_count == NULL)
        return rhumb_fail(NULL, RHUMB_ERROR_ARGUMENT,
                          "scheme_from_keys: kind_count: wanted a pointer, found NULL");
    rhumb_init_keys_info(&info);
    RHUMB_TRY(rhumb_adopt(NULL, "scheme_from_keys", "keys_info", given, RHUMB_TYPE_KEYS_INFO, &info,
                          sizeof info));
    lookup = (rhumb_lookup){info.keys, "", info.key_count, info.message, info.message_size};
    if (info.message != NULL && info.message_size > 0)
        info.message[0] = '\0';
    RHUMB_TRY(check_info(&lookup, &info));
    RHUMB_TRY(find_family(&lookup, &family, &positions));
    if (positions != NULL)
        return rhumb_position_keys(&lookup, positions, &info, kind_count);
    return rotary_keys(&lookup, family, &info, kind_count);
}
