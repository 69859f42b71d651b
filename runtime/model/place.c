/* Where a schedule's keys are, and its type. Old style has rope_theta and partial_rotary_factor at
 * the top and scaling in rope_scaling; new style has all in rope_parameters, where a model with a
 * schedule per layer type has an object for each. */
#include "resolve.h"

#include <stdio.h>

#define COUNT(array) (sizeof(array) / sizeof(array)[0])

static const char *const type_names[RHUMB_MOST_TYPES] = {"full_attention", "sliding_attention"};

typedef struct rope_type {
    const char *name;
    rhumb_rope_scaling scaling;
} rope_type;

static const rope_type rope_types[] = {
    {"default", RHUMB_ROPE_SCALING_NONE},      {"linear", RHUMB_ROPE_SCALING_LINEAR},
    {"dynamic", RHUMB_ROPE_SCALING_NTK_DYNAMIC}, {"yarn", RHUMB_ROPE_SCALING_YARN},
    {"llama3", RHUMB_ROPE_SCALING_LLAMA3},     {"longrope", RHUMB_ROPE_SCALING_LONGROPE},
    {"su", RHUMB_ROPE_SCALING_LONGROPE},       {"proportional", RHUMB_ROPE_SCALING_PROPORTIONAL},
};

#define KNOWN_TYPES "default, linear, dynamic, yarn, llama3, longrope, su, proportional, mrope"

const char *rhumb_place_path(char path[128], const char *object, const char *name)
{
    (void)snprintf(path, 128, "%s.%s", object, name);
    return path;
}

/* --- objects --- */

/* Sections in a family of one axis would be overlooked. */
static rhumb_result check_sections(const rhumb_lookup *l, const rhumb_family *family,
                                   const rhumb_key *key, const char *name)
{
    if (!family->several &&
        (strcmp(name, "mrope_section") == 0 || strcmp(name, "mrope_interleaved") == 0))
        return rhumb_lookup_fail(l, RHUMB_ERROR_CONFIG,
                                 "%s: wanted none (rule of %s), found sections of M-RoPE",
                                 key->path, family->model_type);
    return RHUMB_OK;
}

/* A key of rope_parameters or rope_scaling: flat, or below the name of a layer type. */
static rhumb_result check_nesting(const rhumb_lookup *l, const rhumb_family *family,
                                  const rhumb_key *key, const char *object, const char *name)
{
    const char *dot = strchr(name, '.');
    int by_type = family->by_type && strcmp(object, "rope_parameters") == 0;
    size_t i;

    if (!by_type && dot != NULL)
        return rhumb_lookup_fail(l, RHUMB_ERROR_CONFIG,
                                 "%.100s: wanted one schedule (rule of %s), found one per layer "
                                 "type",
                                 key->path, family->model_type);
    if (!by_type)
        return check_sections(l, family, key, name);
    for (i = 0; i < COUNT(type_names); i++) {
        size_t length = strlen(type_names[i]);
        if (strncmp(name, type_names[i], length) == 0 && name[length] == '.' &&
            strchr(name + length + 1, '.') == NULL)
            return check_sections(l, family, key, name + length + 1);
    }
    return rhumb_lookup_fail(l, RHUMB_ERROR_CONFIG,
                             "%.100s: wanted one schedule per layer type (rule of %s): objects "
                             "full_attention and sliding_attention, found another key",
                             key->path, family->model_type);
}

rhumb_result rhumb_place_check(const rhumb_lookup *l, const rhumb_family *family,
                               const char *object)
{
    const rhumb_key *key;
    char have[80];
    uint32_t i;

    RHUMB_TRY(rhumb_lookup_find(l, object, &key));
    if (key != NULL && key->kind != RHUMB_VALUE_NULL)
        return rhumb_lookup_fail(l, RHUMB_ERROR_CONFIG, "%s: wanted an object or null, found %s",
                                 key->path, rhumb_lookup_print(key, have, sizeof have));
    for (i = 0; i < l->key_count; i++) {
        const char *name = rhumb_lookup_below(l, &l->keys[i], object);
        if (name != NULL && l->keys[i].kind != RHUMB_VALUE_NULL)
            RHUMB_TRY(check_nesting(l, family, &l->keys[i], object, name));
    }
    return RHUMB_OK;
}

static const rhumb_key *first_below(const rhumb_lookup *l, const char *object)
{
    uint32_t i;

    for (i = 0; i < l->key_count; i++) {
        if (l->keys[i].kind != RHUMB_VALUE_NULL &&
            rhumb_lookup_below(l, &l->keys[i], object) != NULL)
            return &l->keys[i];
    }
    return NULL;
}

/* Of models with a schedule per layer type only Gemma 3 has rope_theta and rope_scaling; they are
 * those of its full layers. */
int rhumb_place_is_scaled(const rhumb_family *family)
{
    return !family->by_type || (family->theta_alias == NULL && family->local_theta_key != NULL);
}

rhumb_result rhumb_place_find(const rhumb_lookup *l, const rhumb_model_values *r, uint32_t type,
                              rhumb_place *place)
{
    const rhumb_family *family = r->family;
    const char *top_theta = family->theta_rule == RHUMB_THETA_KEY ? "rope_theta" : NULL;
    int scaled = rhumb_place_is_scaled(family);

    memset(place, 0, sizeof *place);
    place->objects[0] = "rope_parameters";
    if (family->by_type)
        place->objects[0] = type == 0 ? "rope_parameters.full_attention"
                                      : "rope_parameters.sliding_attention";
    if (!scaled && first_below(l, "rope_scaling") != NULL)
        return rhumb_lookup_fail(l, RHUMB_ERROR_CONFIG, "%srope_scaling: wanted none (rule of %s), "
                                 "found one",
                                 l->scope, family->model_type);
    if (type == 0) {
        place->objects[1] = scaled ? "rope_scaling" : NULL;
        place->theta_keys[0] = scaled ? top_theta : NULL;
        place->theta_keys[1] = family->theta_alias;
        place->theta = family->theta;
    } else {
        place->theta_keys[0] = family->local_theta_key;
        place->theta = family->local_theta;
    }
    return RHUMB_OK;
}

/* --- type --- */

/* Reads the type of one object; *type stays NULL if the object has no keys. */
static rhumb_result read_type(const rhumb_lookup *l, const char *object, const char **type,
                              char path[128])
{
    int has_keys = 0;
    int has_scaling = 0;
    int found;
    uint32_t i;

    *type = NULL;
    for (i = 0; i < l->key_count; i++) {
        const char *name = rhumb_lookup_below(l, &l->keys[i], object);
        if (name == NULL || l->keys[i].kind == RHUMB_VALUE_NULL)
            continue;
        has_keys = 1;
        if (strcmp(name, "rope_theta") != 0 && strcmp(name, "partial_rotary_factor") != 0)
            has_scaling = 1;
    }
    if (!has_keys)
        return RHUMB_OK;
    RHUMB_TRY(rhumb_lookup_string(l, rhumb_place_path(path, object, "rope_type"), type, &found));
    if (!found)
        RHUMB_TRY(rhumb_lookup_string(l, rhumb_place_path(path, object, "type"), type, &found));
    if (found)
        return RHUMB_OK;
    /* rope_parameters with the base alone are plain frequencies; anything else must be named. */
    if (has_scaling || strcmp(object, "rope_scaling") == 0)
        return rhumb_lookup_fail(l, RHUMB_ERROR_CONFIG, "%s%s.rope_type: missing, needed by %s%s",
                                 l->scope, object, l->scope, object);
    return RHUMB_OK;
}

static rhumb_result judge_type(const rhumb_lookup *l, rhumb_model_values *r, const char *path,
                               const char *type, rhumb_rope_scaling *scaling)
{
    size_t i;

    if (strcmp(type, "mrope") == 0 && r->family->several)
        return RHUMB_OK; /* plain frequencies */
    for (i = 0; i < COUNT(rope_types); i++) {
        if (strcmp(type, rope_types[i].name) == 0)
            break;
    }
    if (i == COUNT(rope_types))
        return rhumb_lookup_fail(l, RHUMB_ERROR_CONFIG, "%s%s: wanted one of " KNOWN_TYPES
                                 ", found %.48s",
                                 l->scope, path, type);
    *scaling = rope_types[i].scaling;
    if (*scaling == RHUMB_ROPE_SCALING_YARN && r->family->longrope_only) {
        *scaling = RHUMB_ROPE_SCALING_LONGROPE;
        rhumb_model_warn(r, "yarn means longrope in this family", l->scope, path);
    }
    if (strcmp(type, "su") == 0)
        rhumb_model_warn(r, "su is an older name of longrope", l->scope, path);
    return RHUMB_OK;
}

static const char *type_name(rhumb_rope_scaling scaling)
{
    size_t i;

    for (i = 0; i < COUNT(rope_types); i++) {
        if (rope_types[i].scaling == scaling)
            return rope_types[i].name;
    }
    return "?";
}

/* rope_type wins over an unlike type, which older programs go by. */
static rhumb_result compare_types(const rhumb_lookup *l, rhumb_model_values *r, const char *object,
                                  rhumb_rope_scaling scaling)
{
    char path[128];
    const char *older;
    int found;
    size_t i;

    RHUMB_TRY(rhumb_lookup_string(l, rhumb_place_path(path, object, "type"), &older, &found));
    if (!found)
        return RHUMB_OK;
    if (strcmp(older, "mrope") == 0 && r->family->several)
        older = type_name(RHUMB_ROPE_SCALING_NONE);
    if (strcmp(older, "yarn") == 0 && r->family->longrope_only)
        older = type_name(RHUMB_ROPE_SCALING_LONGROPE);
    for (i = 0; i < COUNT(rope_types); i++) {
        if (strcmp(older, rope_types[i].name) == 0 && rope_types[i].scaling == scaling)
            return RHUMB_OK;
    }
    rhumb_model_warn(r, "is not rope_type, which counts: programs that read it turn otherwise",
                     l->scope, path);
    return RHUMB_OK;
}

static rhumb_result resolve_type(const rhumb_lookup *l, rhumb_model_values *r,
                                 const rhumb_place *place, rhumb_schedule *s)
{
    char path[128];
    char first[128] = "";
    const char *type;
    size_t i;

    (void)snprintf(s->type_source, sizeof s->type_source, "rule: no rope_scaling");
    for (i = 0; i < COUNT(place->objects) && place->objects[i] != NULL; i++) {
        rhumb_rope_scaling scaling = RHUMB_ROPE_SCALING_NONE;

        RHUMB_TRY(read_type(l, place->objects[i], &type, path));
        if (type == NULL)
            continue;
        RHUMB_TRY(judge_type(l, r, path, type, &scaling));
        RHUMB_TRY(compare_types(l, r, place->objects[i], scaling));
        if (first[0] != '\0' && scaling != s->rope.scaling)
            return rhumb_lookup_fail(l, RHUMB_ERROR_CONFIG,
                                     "%s%s: wanted the type of %.120s, found %.48s", l->scope, path,
                                     first, type);
        s->rope.scaling = scaling;
        (void)snprintf(first, sizeof first, "%s%s", l->scope, path);
        (void)snprintf(s->type_source, sizeof s->type_source, "%s", first);
    }
    if (s->rope.scaling != RHUMB_ROPE_SCALING_NONE && r->family->theta_rule != RHUMB_THETA_KEY)
        return rhumb_lookup_fail(l, RHUMB_ERROR_CONFIG,
                                 "%s: wanted default or none (rule of %s), found %s",
                                 s->type_source, r->family->model_type, type_name(s->rope.scaling));
    return RHUMB_OK;
}

/* --- which keys a type takes --- */

typedef struct scaling_keys {
    rhumb_rope_scaling scaling;
    const char *takes; /* ", name" each */
    const char *skips; /* keys that every program ignores for the type, likewise */
} scaling_keys;

#define COMMON_SKIPS ", max_position_embeddings, finetuned"
#define PLAIN_SKIPS COMMON_SKIPS ", original_max_position_embeddings"

static const scaling_keys known_keys[] = {
    {RHUMB_ROPE_SCALING_NONE, "", PLAIN_SKIPS ", factor"},
    {RHUMB_ROPE_SCALING_LINEAR, ", factor", PLAIN_SKIPS},
    {RHUMB_ROPE_SCALING_NTK_DYNAMIC, ", factor, alpha",
     PLAIN_SKIPS ", beta_fast, beta_slow, mscale, mscale_all_dim"},
    {RHUMB_ROPE_SCALING_YARN,
     ", factor, original_max_position_embeddings, beta_fast, beta_slow, truncate, "
     "attention_factor, mscale, mscale_all_dim, attn_factor, extrapolation_factor",
     COMMON_SKIPS},
    {RHUMB_ROPE_SCALING_LLAMA3,
     ", factor, original_max_position_embeddings, low_freq_factor, high_freq_factor", COMMON_SKIPS},
    {RHUMB_ROPE_SCALING_LONGROPE,
     ", factor, original_max_position_embeddings, short_factor, long_factor, attention_factor",
     COMMON_SKIPS},
    {RHUMB_ROPE_SCALING_PROPORTIONAL, ", factor", PLAIN_SKIPS},
};

/* Whether `name` is in a list ", a, b". */
static int is_listed(const char *list, const char *name)
{
    size_t length = strlen(name);

    for (; *list != '\0'; list += strcspn(list, ",")) {
        list += 2;
        if (strncmp(list, name, length) == 0 && (list[length] == ',' || list[length] == '\0'))
            return 1;
    }
    return 0;
}

/* Whether `name` may stand in an object with this scaling; *takes says what may, for messages. */
static int takes_key(rhumb_rope_scaling scaling, const char *name, const char **takes)
{
    size_t i;

    *takes = "";
    if (is_listed(", rope_type, type, rope_theta, partial_rotary_factor", name))
        return 1;
    for (i = 0; i < COUNT(known_keys); i++) {
        if (known_keys[i].scaling == scaling) {
            *takes = known_keys[i].takes;
            return is_listed(known_keys[i].takes, name) || is_listed(known_keys[i].skips, name);
        }
    }
    return 0;
}

/* Keys of the object that the type does not know would change the angles elsewhere: refused. */
static rhumb_result check_members(const rhumb_lookup *l, const rhumb_schedule *s,
                                  const char *object)
{
    const char *takes;
    uint32_t i;

    for (i = 0; i < l->key_count; i++) {
        const char *name = rhumb_lookup_below(l, &l->keys[i], object);
        if (name == NULL || l->keys[i].kind == RHUMB_VALUE_NULL ||
            takes_key(s->rope.scaling, name, &takes))
            continue;
        if (strcmp(name, "mrope_section") == 0 || strcmp(name, "mrope_interleaved") == 0)
            continue; /* judged before */
        return rhumb_lookup_fail(l, RHUMB_ERROR_CONFIG,
                                 "%.120s: wanted no such key for rope type %s (it takes "
                                 "rope_theta, partial_rotary_factor%s), found one",
                                 l->keys[i].path, s->type_name, takes);
    }
    return RHUMB_OK;
}

rhumb_result rhumb_place_type(const rhumb_lookup *l, rhumb_model_values *r,
                              const rhumb_place *place, rhumb_schedule *schedule)
{
    size_t i;

    RHUMB_TRY(resolve_type(l, r, place, schedule));
    schedule->type_name = type_name(schedule->rope.scaling);
    for (i = 0; i < COUNT(place->objects) && place->objects[i] != NULL; i++)
        RHUMB_TRY(check_members(l, schedule, place->objects[i]));
    return RHUMB_OK;
}
