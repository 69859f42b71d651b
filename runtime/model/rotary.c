/* The rotary schedules: base, width, and whether all keys agree on them. */
#include "resolve.h"

#include <float.h>
#include <math.h>
#include <stdio.h>

#define COUNT(array) (sizeof(array) / sizeof(array)[0])

/* --- base --- */

static rhumb_result resolve_theta(const rhumb_lookup *l, const rhumb_model_values *r,
                                  const rhumb_place *place, rhumb_schedule *s)
{
    const rhumb_family *family = r->family;
    char path[128];
    rhumb_sourced ratio;
    int found = 0;
    size_t i;

    if (family->theta_rule == RHUMB_THETA_RATIO) {
        RHUMB_TRY(rhumb_lookup_number(l, "rope_ratio", 1e-6, 1e9, &ratio, &found));
        rhumb_sourced_set(&s->theta, family->theta * (found ? ratio.value : 1.0),
                          "%g * rope_ratio%s", family->theta,
                          found ? "" : " (default of chatglm: 1)");
        return RHUMB_OK;
    }
    if (family->theta_rule == RHUMB_THETA_FIXED) {
        rhumb_sourced_set(&s->theta, family->theta, "rule of %s", family->model_type);
        return RHUMB_OK;
    }
    for (i = 0; i < COUNT(place->objects) && !found; i++) {
        if (place->objects[i] != NULL)
            RHUMB_TRY(rhumb_lookup_number(
                l, rhumb_place_path(path, place->objects[i], "rope_theta"), DBL_MIN, DBL_MAX,
                &s->theta, &found));
    }
    for (i = 0; i < COUNT(place->theta_keys) && !found; i++) {
        if (place->theta_keys[i] != NULL)
            RHUMB_TRY(rhumb_lookup_number(l, place->theta_keys[i], DBL_MIN, DBL_MAX, &s->theta,
                                          &found));
    }
    if (!found && place->theta == 0.0)
        return rhumb_lookup_fail(
            l, RHUMB_ERROR_CONFIG, "%s%s%s: missing, needed by %s", l->scope,
            place->theta_keys[0] != NULL ? "" : place->objects[0],
            place->theta_keys[0] != NULL ? place->theta_keys[0] : ".rope_theta",
            family->model_type);
    if (!found)
        rhumb_sourced_set(&s->theta, place->theta, "default of %s", family->model_type);
    return RHUMB_OK;
}

/* --- width --- */

static rhumb_result read_part(const rhumb_lookup *l, const rhumb_family *family,
                              const rhumb_place *place, rhumb_sourced *part, int *found)
{
    char path[128];
    size_t i;

    *found = 0;
    for (i = 0; i < COUNT(place->objects) && !*found; i++) {
        if (place->objects[i] != NULL)
            RHUMB_TRY(rhumb_lookup_number(
                l, rhumb_place_path(path, place->objects[i], "partial_rotary_factor"), 0.0, 1.0,
                part, found));
    }
    if (!*found && !family->by_type)
        RHUMB_TRY(rhumb_lookup_number(l, "partial_rotary_factor", 0.0, 1.0, part, found));
    if (!*found && family->part_alias != NULL)
        RHUMB_TRY(rhumb_lookup_number(l, family->part_alias, 0.0, 1.0, part, found));
    return RHUMB_OK;
}

/* The pairs of a proportional schedule lie across the whole head; the factor says how many turn. */
static rhumb_result resolve_proportional(const rhumb_lookup *l, const rhumb_model_values *r,
                                         const rhumb_place *place, double head_dim,
                                         rhumb_schedule *s)
{
    int found;

    RHUMB_TRY(read_part(l, r->family, place, &s->part, &found));
    if (!found)
        rhumb_sourced_set(&s->part, 1.0, "default of rope type proportional");
    if (floor(s->part.value * head_dim / 2.0) < 1.0)
        return rhumb_lookup_fail(l, RHUMB_ERROR_CONFIG,
                                 "%s: wanted at least one pair of head_dim %.0f, found %g",
                                 s->part.source, head_dim, s->part.value);
    s->rope.partial_factor = s->part.value;
    rhumb_sourced_set(&s->rotary_dim, head_dim, "rule of rope type proportional: the whole head");
    return RHUMB_OK;
}

static rhumb_result resolve_part(const rhumb_lookup *l, const rhumb_model_values *r,
                                 const rhumb_place *place, double head_dim, rhumb_schedule *s)
{
    const rhumb_family *family = r->family;
    int found;

    switch (family->part_rule) {
    case RHUMB_PART_WHOLE:
        rhumb_sourced_set(&s->rotary_dim, head_dim, "rule of %s: the whole head",
                          family->model_type);
        if (family->head_rule == RHUMB_HEAD_MLA)
            s->rotary_dim = r->rope_dim;
        break;
    case RHUMB_PART_DIM:
        RHUMB_TRY(rhumb_lookup_need_integer(l, family->model_type, "rotary_dim", 2,
                                            RHUMB_MOST_HEAD_DIM, &s->rotary_dim));
        break;
    case RHUMB_PART_FIXED:
        rhumb_sourced_set(&s->part, family->part, "rule of %s", family->model_type);
        break;
    case RHUMB_PART_FACTOR:
        RHUMB_TRY(read_part(l, family, place, &s->part, &found));
        if (!found)
            rhumb_sourced_set(&s->part, family->part, "default of %s", family->model_type);
        break;
    }
    if (family->part_rule == RHUMB_PART_FIXED || family->part_rule == RHUMB_PART_FACTOR)
        rhumb_sourced_set(&s->rotary_dim, floor(head_dim * s->part.value), "int(head_dim * %.100s)",
                          family->part_rule == RHUMB_PART_FIXED ? "1/2" : s->part.source);
    if (s->rotary_dim.value < 2.0 || s->rotary_dim.value > head_dim ||
        fmod(s->rotary_dim.value, 2.0) != 0.0)
        return rhumb_lookup_fail(
            l, RHUMB_ERROR_CONFIG,
            "rotary_dim: wanted an even number from 2 to head_dim %.0f, found %.0f (%s)", head_dim,
            s->rotary_dim.value, s->rotary_dim.source);
    return RHUMB_OK;
}

/* --- agreement --- */

static rhumb_result check_theta(const rhumb_lookup *l, const rhumb_schedule *s, const char *path)
{
    rhumb_sourced stated;
    int found;

    RHUMB_TRY(rhumb_lookup_number(l, path, DBL_MIN, DBL_MAX, &stated, &found));
    if (found && stated.value != s->theta.value)
        return rhumb_lookup_fail(l, RHUMB_ERROR_CONFIG, "%s: wanted %.15g (%s), found %.15g",
                                 stated.source, s->theta.value, s->theta.source, stated.value);
    return RHUMB_OK;
}

/* `width`: the channels that the factor is a part of. */
static rhumb_result check_part(const rhumb_lookup *l, const rhumb_schedule *s, double width,
                               const char *path)
{
    rhumb_sourced stated;
    double wanted = s->rotary_dim.value / width;
    const char *source = s->rotary_dim.source;
    int found;

    RHUMB_TRY(rhumb_lookup_number(l, path, 0.0, 1.0, &stated, &found));
    if (s->rope.scaling == RHUMB_ROPE_SCALING_PROPORTIONAL) {
        wanted = s->part.value;
        source = s->part.source;
    }
    if (found && (s->rope.scaling == RHUMB_ROPE_SCALING_PROPORTIONAL
                      ? stated.value != wanted
                      : floor(stated.value * width) != s->rotary_dim.value))
        return rhumb_lookup_fail(l, RHUMB_ERROR_CONFIG, "%s: wanted %g (%s), found %g",
                                 stated.source, wanted, source, stated.value);
    return RHUMB_OK;
}

/* Every key that speaks of the base or the part says what was resolved, also those that the family
 * does not read. */
static rhumb_result check_agreement(const rhumb_lookup *l, const rhumb_model_values *r,
                                    const rhumb_place *place, double head_dim,
                                    const rhumb_schedule *s)
{
    static const char *const thetas[] = {"rope_theta", "rotary_emb_base"};
    static const char *const parts[] = {"partial_rotary_factor", "rotary_pct", "rope_pct"};
    double width = r->family->head_rule == RHUMB_HEAD_MLA ? r->rope_dim.value : head_dim;
    rhumb_sourced stated;
    char path[128];
    int found;
    size_t i;

    for (i = 0; i < COUNT(place->objects) && place->objects[i] != NULL; i++) {
        RHUMB_TRY(check_theta(l, s, rhumb_place_path(path, place->objects[i], "rope_theta")));
        RHUMB_TRY(check_part(l, s, width,
                             rhumb_place_path(path, place->objects[i], "partial_rotary_factor")));
    }
    for (i = 0; i < COUNT(place->theta_keys); i++) {
        if (place->theta_keys[i] != NULL)
            RHUMB_TRY(check_theta(l, s, place->theta_keys[i]));
    }
    if (r->family->by_type)
        return RHUMB_OK;
    for (i = 0; i < COUNT(thetas); i++)
        RHUMB_TRY(check_theta(l, s, thetas[i]));
    for (i = 0; i < COUNT(parts); i++)
        RHUMB_TRY(check_part(l, s, width, parts[i]));
    RHUMB_TRY(rhumb_lookup_number(l, "rotary_dim", 0.0, DBL_MAX, &stated, &found));
    if (found && stated.value != s->rotary_dim.value)
        return rhumb_lookup_fail(l, RHUMB_ERROR_CONFIG, "%s: wanted %.0f (%s), found %g",
                                 stated.source, s->rotary_dim.value, s->rotary_dim.source,
                                 stated.value);
    return RHUMB_OK;
}

/* --- the family's own keys, and those of other schemes --- */

/* In a family that has none of them they would be overlooked. */
static int is_own(const rhumb_family *family, const char *key)
{
    static const char *const of_mla[] = {"qk_rope_head_dim", "qk_nope_head_dim", "rope_interleave"};
    static const char *const of_interval[] = {"no_rope_layers", "no_rope_layer_interval"};
    static const char *const of_chunks[] = {"attention_chunk_size", "attn_temperature_tuning"};
    size_t i;

    if (family->theta_alias != NULL && strcmp(key, family->theta_alias) == 0)
        return 1;
    if (family->local_theta_key != NULL && strcmp(key, family->local_theta_key) == 0)
        return 1;
    for (i = 0; i < COUNT(of_mla) && family->head_rule == RHUMB_HEAD_MLA; i++) {
        if (strcmp(key, of_mla[i]) == 0)
            return 1;
    }
    for (i = 0; i < COUNT(of_interval) && family->turn_rule == RHUMB_TURN_INTERVAL; i++) {
        if (strcmp(key, of_interval[i]) == 0)
            return 1;
    }
    for (i = 0; i < COUNT(of_chunks) && family->window_rule == RHUMB_WINDOW_CHUNKS; i++) {
        if (strcmp(key, of_chunks[i]) == 0)
            return 1;
    }
    if (strcmp(key, "rope_theta") == 0)
        return !family->by_type || rhumb_place_is_scaled(family);
    return (strcmp(key, "rope_ratio") == 0 && family->theta_rule == RHUMB_THETA_RATIO) ||
           (strcmp(key, "global_head_dim") == 0 && family->head_rule == RHUMB_HEAD_GLOBAL) ||
           (strcmp(key, "local_attention") == 0 && family->window_rule == RHUMB_WINDOW_LOCAL);
}

/* Refused as long as no layer kind can say it; "vision" leaves text as it is. */
static rhumb_result check_bidirectional(const rhumb_lookup *l, rhumb_model_values *r)
{
    const rhumb_key *key;
    char have[80];

    RHUMB_TRY(rhumb_lookup_find(l, "use_bidirectional_attention", &key));
    if (key == NULL || key->kind == RHUMB_VALUE_NULL ||
        (key->kind == RHUMB_VALUE_BOOL && key->number == 0.0))
        return RHUMB_OK;
    if (key->kind != RHUMB_VALUE_STRING || strcmp(key->string, "vision") != 0)
        return rhumb_lookup_fail(l, RHUMB_ERROR_CONFIG,
                                 "not implemented: %s: wanted false, found %s", key->path,
                                 rhumb_lookup_print(key, have, sizeof have));
    rhumb_model_warn(r, "the tokens of an image see each other both ways; text is causal", l->scope,
                     "use_bidirectional_attention");
    return RHUMB_OK;
}

static rhumb_result check_foreign(const rhumb_lookup *l, rhumb_model_values *r)
{
    const rhumb_family *family = r->family;
    static const char *const keys[] = {
        "rope_local_base_freq", "local_rope_theta",       "global_rope_theta",
        "no_rope_layers",       "no_rope_layer_interval", "qk_rope_head_dim",
        "qk_nope_head_dim",     "rope_interleave",        "attention_chunk_size",
        "local_attention",      "attn_temperature_tuning", "global_head_dim",
        "mrope_section",        "alibi",                  "rope_ratio",
        "rope_theta",
    };
    const rhumb_key *key;
    char have[80];
    size_t i;

    for (i = 0; i < COUNT(keys); i++) {
        RHUMB_TRY(rhumb_lookup_find(l, keys[i], &key));
        if (key == NULL || key->kind == RHUMB_VALUE_NULL || is_own(family, keys[i]) ||
            (key->kind == RHUMB_VALUE_BOOL && key->number == 0.0))
            continue;
        return rhumb_lookup_fail(l, RHUMB_ERROR_CONFIG, "%s: wanted none (rule of %s), found %s",
                                 key->path, family->model_type,
                                 rhumb_lookup_print(key, have, sizeof have));
    }
    return check_bidirectional(l, r);
}

/* rope_interleave says what the checkpoint's weights are permuted for. */
static rhumb_result resolve_pairing(const rhumb_lookup *l, rhumb_model_values *r)
{
    int interleave = 1;
    int found = 0;

    r->pairing = r->family->pairing;
    (void)snprintf(r->pairing_source, sizeof r->pairing_source, "rule of %s",
                   r->family->model_type);
    if (r->family->head_rule != RHUMB_HEAD_MLA)
        return RHUMB_OK;
    RHUMB_TRY(rhumb_lookup_bool(l, "rope_interleave", &interleave, &found));
    if (found && !interleave)
        r->pairing = RHUMB_PAIRING_HALF;
    if (found)
        (void)snprintf(r->pairing_source, sizeof r->pairing_source, "%srope_interleave", l->scope);
    return RHUMB_OK;
}

static rhumb_result resolve_schedule(const rhumb_lookup *l, rhumb_model_values *r, uint32_t type)
{
    rhumb_schedule *s = &r->types[type].schedule;
    double head_dim = r->types[type].head_dim.value;
    rhumb_place place;

    rhumb_init_rope(&s->rope);
    s->rope.pairing = r->pairing;
    RHUMB_TRY(rhumb_place_find(l, r, type, &place));
    RHUMB_TRY(rhumb_place_type(l, r, &place, s));
    RHUMB_TRY(resolve_theta(l, r, &place, s));
    if (s->rope.scaling == RHUMB_ROPE_SCALING_PROPORTIONAL)
        RHUMB_TRY(resolve_proportional(l, r, &place, head_dim, s));
    else
        RHUMB_TRY(resolve_part(l, r, &place, head_dim, s));
    s->rope.base = s->theta.value;
    s->rope.rotary_dim = (uint32_t)s->rotary_dim.value;
    s->rope.rotary_offset = (uint32_t)r->nope_dim.value;
    RHUMB_TRY(rhumb_model_scaling(l, r, &place, s));
    RHUMB_TRY(rhumb_model_sections(l, r, &place, s));
    return check_agreement(l, r, &place, head_dim, s);
}

rhumb_result rhumb_model_rotary(const rhumb_lookup *l, rhumb_model_values *r)
{
    uint32_t i;

    RHUMB_TRY(check_foreign(l, r));
    RHUMB_TRY(rhumb_place_check(l, r->family, "rope_parameters"));
    RHUMB_TRY(rhumb_place_check(l, r->family, "rope_scaling"));
    RHUMB_TRY(resolve_pairing(l, r));
    for (i = 0; i < r->type_count; i++)
        RHUMB_TRY(resolve_schedule(l, r, i));
    return RHUMB_OK;
}
