/* The rotary schedule: which frequencies, over which channels. spec: old style has rope_theta and
 * partial_rotary_factor at the top and scaling in rope_scaling; new style has all in
 * rope_parameters. */
#include "resolve.h"

#include <float.h>
#include <math.h>
#include <stdio.h>

#define COUNT(array) (sizeof(array) / sizeof(array)[0])

static const char *const rope_objects[] = {"rope_parameters", "rope_scaling"};

/* Keys of other schemes. In a family that has none of them they would be overlooked. */
static const char *const foreign_keys[] = {
    "rope_local_base_freq", "local_rope_theta",       "global_rope_theta",
    "no_rope_layers",       "no_rope_layer_interval", "qk_rope_head_dim",
    "global_head_dim",      "mrope_section",          "alibi",
};

/* Types that exist and that this version does not compute. */
static const char *const later_types[] = {
    "yarn", "llama3", "longrope", "su", "dynamic", "ntk", "proportional", "mrope",
};

static int is_in(const char *name, const char *const *names, size_t count)
{
    size_t i;

    for (i = 0; i < count; i++) {
        if (strcmp(name, names[i]) == 0)
            return 1;
    }
    return 0;
}

static const char *join(char path[64], const char *object, const char *name)
{
    (void)snprintf(path, 64, "%s.%s", object, name);
    return path;
}

/* The part of a key's path below `object`, or NULL. */
static const char *below(const rhumb_key *key, const char *object)
{
    size_t length = strlen(object);

    if (strncmp(key->path, object, length) != 0 || key->path[length] != '.')
        return NULL;
    return key->path + length + 1;
}

/* An object that is something else, one schedule per layer type, sections of M-RoPE. */
static rhumb_result check_object(const rhumb_lookup *l, const char *object)
{
    const rhumb_key *key;
    char have[80];
    uint32_t i;

    RHUMB_TRY(rhumb_lookup_find(l, object, &key));
    if (key != NULL && key->kind != RHUMB_VALUE_NULL)
        return rhumb_lookup_fail(l, RHUMB_ERROR_CONFIG, "%s: wanted an object or null, found %s",
                                 object, rhumb_lookup_print(key, have, sizeof have));
    for (i = 0; i < l->key_count; i++) {
        const char *name = below(&l->keys[i], object);
        if (name == NULL || l->keys[i].kind == RHUMB_VALUE_NULL)
            continue;
        if (strchr(name, '.') != NULL)
            return rhumb_lookup_fail(
                l, RHUMB_ERROR_CONFIG,
                "not implemented: %s.%.40s: wanted one schedule, found one per layer type", object,
                name);
        if (strcmp(name, "mrope_section") == 0)
            return rhumb_lookup_fail(
                l, RHUMB_ERROR_CONFIG,
                "not implemented: %s.mrope_section: wanted 1-D positions, found M-RoPE", object);
    }
    return RHUMB_OK;
}

/* Reads the type of one object; *type stays NULL if the object has no keys. */
static rhumb_result read_type(const rhumb_lookup *l, const char *object, const char **type,
                              char path[64])
{
    int has_keys = 0;
    int has_scaling = 0;
    int found;
    uint32_t i;

    *type = NULL;
    for (i = 0; i < l->key_count; i++) {
        const char *name = below(&l->keys[i], object);
        if (name == NULL || l->keys[i].kind == RHUMB_VALUE_NULL)
            continue;
        has_keys = 1;
        if (strcmp(name, "rope_theta") != 0 && strcmp(name, "partial_rotary_factor") != 0)
            has_scaling = 1;
    }
    if (!has_keys)
        return RHUMB_OK;
    RHUMB_TRY(rhumb_lookup_string(l, join(path, object, "rope_type"), type, &found));
    if (!found)
        RHUMB_TRY(rhumb_lookup_string(l, join(path, object, "type"), type, &found));
    if (found)
        return RHUMB_OK;
    /* rope_parameters with the base alone are plain frequencies; anything else must be named. */
    if (has_scaling || strcmp(object, "rope_scaling") == 0)
        return rhumb_lookup_fail(l, RHUMB_ERROR_CONFIG, "%s.rope_type: missing, needed by %s",
                                 object, object);
    return RHUMB_OK;
}

static rhumb_result judge_type(const rhumb_lookup *l, const char *path, const char *type,
                               rhumb_rope_scaling *scaling)
{
    if (strcmp(type, "default") == 0) {
        *scaling = RHUMB_ROPE_SCALING_NONE;
        return RHUMB_OK;
    }
    if (strcmp(type, "linear") == 0) {
        *scaling = RHUMB_ROPE_SCALING_LINEAR;
        return RHUMB_OK;
    }
    if (is_in(type, later_types, COUNT(later_types)))
        return rhumb_lookup_fail(l, RHUMB_ERROR_CONFIG,
                                 "not implemented: %s: wanted default or linear, found %s", path,
                                 type);
    return rhumb_lookup_fail(
        l, RHUMB_ERROR_CONFIG,
        "%s: wanted default or linear (or, not implemented yet, yarn, llama3, longrope, su, "
        "dynamic, ntk, proportional, mrope), found %.48s",
        path, type);
}

static rhumb_result resolve_type(const rhumb_lookup *l, rhumb_model_values *r)
{
    char path[64];
    char first[64];
    const char *type;
    int known = 0;
    size_t i;

    r->scaling = RHUMB_ROPE_SCALING_NONE;
    (void)snprintf(r->type_source, sizeof r->type_source, "rule: no rope_scaling");
    for (i = 0; i < COUNT(rope_objects); i++) {
        rhumb_rope_scaling scaling = RHUMB_ROPE_SCALING_NONE;

        RHUMB_TRY(check_object(l, rope_objects[i]));
        RHUMB_TRY(read_type(l, rope_objects[i], &type, path));
        if (type == NULL)
            continue;
        RHUMB_TRY(judge_type(l, path, type, &scaling));
        if (known && scaling != r->scaling)
            return rhumb_lookup_fail(l, RHUMB_ERROR_CONFIG, "%s: wanted the type of %s, found %s",
                                     path, first, type);
        known = 1;
        r->scaling = scaling;
        (void)snprintf(first, sizeof first, "%s", path);
        (void)snprintf(r->type_source, sizeof r->type_source, "%s", path);
    }
    return RHUMB_OK;
}

/* Keys of the object that the type does not know would change the angles elsewhere: refused, except
 * those that every program ignores for these types. */
static rhumb_result check_members(const rhumb_lookup *l, const rhumb_model_values *r,
                                  const char *object)
{
    static const char *const members[] = {
        "rope_type",
        "type",
        "rope_theta",
        "partial_rotary_factor",
        "factor",
        "original_max_position_embeddings",
        "max_position_embeddings",
        "finetuned",
    };
    const char *type = r->scaling == RHUMB_ROPE_SCALING_LINEAR ? "linear" : "default";
    uint32_t i;

    for (i = 0; i < l->key_count; i++) {
        const char *name = below(&l->keys[i], object);
        if (name == NULL || l->keys[i].kind == RHUMB_VALUE_NULL ||
            is_in(name, members, COUNT(members)))
            continue;
        return rhumb_lookup_fail(
            l, RHUMB_ERROR_CONFIG,
            "%s.%.40s: wanted no such key for rope type %s (it takes %srope_theta, "
            "partial_rotary_factor), found one",
            object, name, type, r->scaling == RHUMB_ROPE_SCALING_LINEAR ? "factor, " : "");
    }
    return RHUMB_OK;
}

static rhumb_result resolve_factor(const rhumb_lookup *l, rhumb_model_values *r)
{
    rhumb_sourced factor;
    char path[64];
    int known = 0;
    int found;
    size_t i;

    rhumb_sourced_set(&r->factor, 1.0, "rule: no scaling");
    for (i = 0; i < COUNT(rope_objects); i++) {
        RHUMB_TRY(check_members(l, r, rope_objects[i]));
        RHUMB_TRY(rhumb_lookup_number(l, join(path, rope_objects[i], "factor"), 1.0, 1e9, &factor,
                                      &found));
        if (!found)
            continue;
        if (r->scaling == RHUMB_ROPE_SCALING_NONE && factor.value != 1.0)
            return rhumb_lookup_fail(l, RHUMB_ERROR_CONFIG,
                                     "%s: wanted 1 or none (rope type default), found %g", path,
                                     factor.value);
        if (known && factor.value != r->factor.value)
            return rhumb_lookup_fail(l, RHUMB_ERROR_CONFIG, "%s: wanted %g as in %s, found %g",
                                     path, r->factor.value, r->factor.source, factor.value);
        known = 1;
        r->factor = factor;
    }
    if (r->scaling == RHUMB_ROPE_SCALING_LINEAR && !known)
        return rhumb_lookup_fail(l, RHUMB_ERROR_CONFIG,
                                 "%.*s.factor: missing, needed by rope type linear",
                                 (int)strcspn(r->type_source, "."), r->type_source);
    if (r->scaling == RHUMB_ROPE_SCALING_LINEAR && r->family->theta_rule != RHUMB_THETA_KEY)
        return rhumb_lookup_fail(l, RHUMB_ERROR_CONFIG,
                                 "%s: wanted default or none (rule of %s), found linear",
                                 r->type_source, r->family->model_type);
    return RHUMB_OK;
}

/* The first of the paths that has a number; those after it must agree (checked later). */
static rhumb_result first_number(const rhumb_lookup *l, const char *const *paths, size_t count,
                                 double least, double most, rhumb_sourced *value, int *found)
{
    size_t i;

    *found = 0;
    for (i = 0; i < count && !*found; i++) {
        if (paths[i] != NULL)
            RHUMB_TRY(rhumb_lookup_number(l, paths[i], least, most, value, found));
    }
    return RHUMB_OK;
}

static rhumb_result resolve_theta(const rhumb_lookup *l, rhumb_model_values *r)
{
    const rhumb_family *family = r->family;
    const char *const paths[] = {"rope_parameters.rope_theta", "rope_scaling.rope_theta",
                                 "rope_theta", family->theta_alias};
    rhumb_sourced ratio;
    int found = 0;

    if (family->theta_rule == RHUMB_THETA_RATIO) {
        RHUMB_TRY(rhumb_lookup_number(l, "rope_ratio", 1e-6, 1e9, &ratio, &found));
        rhumb_sourced_set(&r->theta, family->theta * (found ? ratio.value : 1.0),
                          "%g * rope_ratio%s", family->theta,
                          found ? "" : " (default of chatglm: 1)");
        return RHUMB_OK;
    }
    if (family->theta_rule == RHUMB_THETA_FIXED) {
        rhumb_sourced_set(&r->theta, family->theta, "rule of %s", family->model_type);
        return RHUMB_OK;
    }
    RHUMB_TRY(first_number(l, paths, COUNT(paths), DBL_MIN, DBL_MAX, &r->theta, &found));
    if (!found)
        rhumb_sourced_set(&r->theta, family->theta, "default of %s", family->model_type);
    return RHUMB_OK;
}

static rhumb_result resolve_part(const rhumb_lookup *l, rhumb_model_values *r)
{
    const rhumb_family *family = r->family;
    const char *const paths[] = {"rope_parameters.partial_rotary_factor",
                                 "rope_scaling.partial_rotary_factor", "partial_rotary_factor",
                                 family->part_alias};
    double head_dim = r->head_dim.value;
    int found;

    switch (family->part_rule) {
    case RHUMB_PART_WHOLE:
        rhumb_sourced_set(&r->rotary_dim, head_dim, "rule of %s: the whole head",
                          family->model_type);
        break;
    case RHUMB_PART_DIM:
        RHUMB_TRY(rhumb_lookup_need_integer(l, family->model_type, "rotary_dim", 2,
                                            RHUMB_MOST_HEAD_DIM, &r->rotary_dim));
        break;
    case RHUMB_PART_FIXED:
        rhumb_sourced_set(&r->part, family->part, "rule of %s", family->model_type);
        break;
    case RHUMB_PART_FACTOR:
        RHUMB_TRY(first_number(l, paths, COUNT(paths), 0.0, 1.0, &r->part, &found));
        if (!found)
            rhumb_sourced_set(&r->part, family->part, "default of %s", family->model_type);
        break;
    }
    if (family->part_rule == RHUMB_PART_FIXED || family->part_rule == RHUMB_PART_FACTOR)
        rhumb_sourced_set(&r->rotary_dim, floor(head_dim * r->part.value), "int(head_dim * %.48s)",
                          family->part_rule == RHUMB_PART_FIXED ? "1/2" : r->part.source);
    if (r->rotary_dim.value < 2.0 || r->rotary_dim.value > head_dim ||
        fmod(r->rotary_dim.value, 2.0) != 0.0)
        return rhumb_lookup_fail(
            l, RHUMB_ERROR_CONFIG,
            "rotary_dim: wanted an even number from 2 to head_dim %.0f, found %.0f (%s)", head_dim,
            r->rotary_dim.value, r->rotary_dim.source);
    return RHUMB_OK;
}

/* Every key that speaks of the base or the part says what was resolved, also those that the family
 * does not read. */
static rhumb_result check_agreement(const rhumb_lookup *l, const rhumb_model_values *r)
{
    static const char *const thetas[] = {"rope_parameters.rope_theta", "rope_scaling.rope_theta",
                                         "rope_theta", "rotary_emb_base"};
    static const char *const parts[] = {"rope_parameters.partial_rotary_factor",
                                        "rope_scaling.partial_rotary_factor",
                                        "partial_rotary_factor", "rotary_pct", "rope_pct"};
    rhumb_sourced stated;
    int found;
    size_t i;

    for (i = 0; i < COUNT(thetas); i++) {
        RHUMB_TRY(rhumb_lookup_number(l, thetas[i], DBL_MIN, DBL_MAX, &stated, &found));
        if (found && stated.value != r->theta.value)
            return rhumb_lookup_fail(l, RHUMB_ERROR_CONFIG, "%s: wanted %.15g (%s), found %.15g",
                                     thetas[i], r->theta.value, r->theta.source, stated.value);
    }
    for (i = 0; i < COUNT(parts); i++) {
        RHUMB_TRY(rhumb_lookup_number(l, parts[i], 0.0, 1.0, &stated, &found));
        if (found && floor(stated.value * r->head_dim.value) != r->rotary_dim.value)
            return rhumb_lookup_fail(l, RHUMB_ERROR_CONFIG, "%s: wanted %g (%s), found %g",
                                     parts[i], r->rotary_dim.value / r->head_dim.value,
                                     r->rotary_dim.source, stated.value);
    }
    RHUMB_TRY(rhumb_lookup_number(l, "rotary_dim", 0.0, DBL_MAX, &stated, &found));
    if (found && stated.value != r->rotary_dim.value)
        return rhumb_lookup_fail(l, RHUMB_ERROR_CONFIG, "rotary_dim: wanted %.0f (%s), found %g",
                                 r->rotary_dim.value, r->rotary_dim.source, stated.value);
    return RHUMB_OK;
}

static rhumb_result check_foreign(const rhumb_lookup *l, const rhumb_model_values *r)
{
    const rhumb_key *key;
    char have[80];
    size_t i;

    for (i = 0; i < COUNT(foreign_keys); i++) {
        RHUMB_TRY(rhumb_lookup_find(l, foreign_keys[i], &key));
        if (key == NULL || key->kind == RHUMB_VALUE_NULL ||
            (key->kind == RHUMB_VALUE_BOOL && key->number == 0.0))
            continue;
        if (strcmp(foreign_keys[i], "alibi") == 0 && strcmp(r->family->model_type, "falcon") == 0 &&
            key->kind == RHUMB_VALUE_BOOL)
            return rhumb_lookup_fail(l, RHUMB_ERROR_CONFIG,
                                     "not implemented: alibi: wanted false, found true");
        return rhumb_lookup_fail(l, RHUMB_ERROR_CONFIG, "%s: wanted none (rule of %s), found %s",
                                 foreign_keys[i], r->family->model_type,
                                 rhumb_lookup_print(key, have, sizeof have));
    }
    RHUMB_TRY(rhumb_lookup_find(l, "rope_ratio", &key));
    if (key != NULL && key->kind != RHUMB_VALUE_NULL && r->family->theta_rule != RHUMB_THETA_RATIO)
        return rhumb_lookup_fail(l, RHUMB_ERROR_CONFIG,
                                 "rope_ratio: wanted none (rule of %s), found %s",
                                 r->family->model_type, rhumb_lookup_print(key, have, sizeof have));
    return RHUMB_OK;
}

rhumb_result rhumb_model_rotary(const rhumb_lookup *l, rhumb_model_values *r)
{
    RHUMB_TRY(check_foreign(l, r));
    RHUMB_TRY(resolve_type(l, r));
    RHUMB_TRY(resolve_factor(l, r));
    RHUMB_TRY(resolve_theta(l, r));
    RHUMB_TRY(resolve_part(l, r));
    return check_agreement(l, r);
}
