/* Context extensions: the keys of each rope type, and what they become. */
#include "resolve.h"

#include <float.h>
#include <math.h>
#include <stdio.h>

#define COUNT(array) (sizeof(array) / sizeof(array)[0])

/* --- reading --- */

typedef struct reader {
    const rhumb_lookup *l;
    rhumb_model_values *r;
    const rhumb_place *place;
    rhumb_schedule *s;
} reader;

static void note(rhumb_schedule *s, const char *field, const char *value, const char *source)
{
    rhumb_note *n = &s->notes[s->note_count];

    if (s->note_count == RHUMB_MOST_NOTES)
        return;
    n->field = field;
    (void)snprintf(n->value, sizeof n->value, "%s", value);
    (void)snprintf(n->source, sizeof n->source, "%s", source);
    s->note_count++;
}

static void note_number(rhumb_schedule *s, const char *field, const rhumb_sourced *number)
{
    char value[40];

    note(s, field, rhumb_lookup_print_number(number->value, value, sizeof value), number->source);
}

/* The object that names the type: where a missing key belongs. */
static const char *home(const reader *d)
{
    const char *source = d->s->type_source;
    const char *first = d->place->objects[0];
    size_t scope = strlen(d->l->scope);

    if (d->place->objects[1] == NULL)
        return first;
    return strncmp(source + scope, first, strlen(first)) == 0 ? first : d->place->objects[1];
}

/* A number of the objects; where both have it they agree. */
static rhumb_result read_number(const reader *d, const char *name, double least, double most,
                                rhumb_sourced *value, int *found)
{
    rhumb_sourced other;
    char path[128];
    int again;
    size_t i;

    *found = 0;
    for (i = 0; i < COUNT(d->place->objects) && d->place->objects[i] != NULL; i++) {
        RHUMB_TRY(rhumb_lookup_number(d->l, rhumb_place_path(path, d->place->objects[i], name),
                                      least, most, &other, &again));
        if (again && *found && other.value != value->value)
            return rhumb_lookup_fail(d->l, RHUMB_ERROR_CONFIG,
                                     "%s: wanted %g as in %s, found %g", other.source, value->value,
                                     value->source, other.value);
        if (again && !*found)
            *value = other;
        *found |= again;
    }
    return RHUMB_OK;
}

static rhumb_result missing(const reader *d, const char *name)
{
    return rhumb_lookup_fail(d->l, RHUMB_ERROR_CONFIG, "%s%s.%s: missing, needed by rope type %s",
                             d->l->scope, home(d), name, d->s->type_name);
}

static rhumb_result need_number(const reader *d, const char *name, double least, double most,
                                rhumb_sourced *value)
{
    int found;

    RHUMB_TRY(read_number(d, name, least, most, value, &found));
    return found ? RHUMB_OK : missing(d, name);
}

static rhumb_result need_factor(const reader *d)
{
    rhumb_sourced factor;

    RHUMB_TRY(need_number(d, "factor", 1.0, 1e9, &factor));
    d->s->rope.factor = factor.value;
    note_number(d->s, "factor", &factor);
    return RHUMB_OK;
}

static rhumb_result read_max_length(const reader *d, rhumb_sourced *length, int *found)
{
    return rhumb_lookup_integer(d->l, "max_position_embeddings", 1, RHUMB_MOST_LENGTH, length,
                                found);
}

/* Inside the object or at the top, where both are they agree; else max_position_embeddings. */
static rhumb_result read_original_length(const reader *d, rhumb_sourced *length)
{
    static const char name[] = "original_max_position_embeddings";
    rhumb_sourced top;
    int found;
    int outside;

    RHUMB_TRY(read_number(d, name, 1.0, RHUMB_MOST_LENGTH, length, &found));
    RHUMB_TRY(rhumb_lookup_integer(d->l, name, 1, RHUMB_MOST_LENGTH, &top, &outside));
    if (found && floor(length->value) != length->value)
        return rhumb_lookup_fail(d->l, RHUMB_ERROR_CONFIG, "%s: wanted an integer, found %g",
                                 length->source, length->value);
    if (found && outside && top.value != length->value)
        return rhumb_lookup_fail(d->l, RHUMB_ERROR_CONFIG, "%s: wanted %.0f as in %s, found %.0f",
                                 length->source, top.value, top.source, length->value);
    if (outside && !found)
        *length = top;
    if (!found && !outside) {
        RHUMB_TRY(read_max_length(d, length, &found));
        if (!found)
            return missing(d, name);
    }
    d->s->rope.original_length = (uint32_t)length->value;
    note_number(d->s, name, length);
    return RHUMB_OK;
}

static void set_magnitude(rhumb_schedule *s, const char *rule)
{
    rhumb_sourced_set(&s->magnitude, 1.0, "rule of rope type %s%s", s->type_name, rule);
}

/* attention_factor overrides every rule. */
static rhumb_result read_attention_factor(const reader *d)
{
    rhumb_sourced factor;
    int found;

    RHUMB_TRY(read_number(d, "attention_factor", DBL_MIN, 1e6, &factor, &found));
    if (!found)
        return RHUMB_OK;
    d->s->rope.magnitude = RHUMB_MAGNITUDE_GIVEN;
    d->s->rope.attention_factor = factor.value;
    d->s->magnitude = factor;
    return RHUMB_OK;
}

/* --- the types --- */

static rhumb_result resolve_plain(const reader *d)
{
    rhumb_sourced factor;
    int found;

    RHUMB_TRY(read_number(d, "factor", 1.0, 1e9, &factor, &found));
    if (found && factor.value != 1.0)
        return rhumb_lookup_fail(d->l, RHUMB_ERROR_CONFIG,
                                 "%s: wanted 1 or none (rope type default), found %g",
                                 factor.source, factor.value);
    return RHUMB_OK;
}

/* With alpha the base is fixed, in spite of the type's name. */
static rhumb_result resolve_alpha(const reader *d, const rhumb_sourced *alpha)
{
    rhumb_sourced factor;
    int found;

    RHUMB_TRY(read_number(d, "factor", 1.0, 1e9, &factor, &found));
    if (found && factor.value != 1.0)
        return rhumb_lookup_fail(d->l, RHUMB_ERROR_CONFIG,
                                 "%s: wanted 1 or none with alpha, found %g", factor.source,
                                 factor.value);
    d->s->rope.scaling = RHUMB_ROPE_SCALING_NTK;
    d->s->rope.factor = alpha->value;
    note_number(d->s, "alpha", alpha);
    rhumb_model_warn(d->r,
                     "dynamic with alpha is one fixed base for every length (NTK-aware, static)",
                     "", alpha->source);
    return RHUMB_OK;
}

static rhumb_result resolve_dynamic(const reader *d)
{
    rhumb_sourced alpha;
    rhumb_sourced length;
    int found;

    RHUMB_TRY(read_number(d, "alpha", 0.0, 1e9, &alpha, &found));
    if (found && alpha.value != 0.0 && alpha.value < 1.0)
        return rhumb_lookup_fail(d->l, RHUMB_ERROR_CONFIG, "%s: wanted 1 or more, found %g",
                                 alpha.source, alpha.value);
    if (found && alpha.value != 0.0)
        return resolve_alpha(d, &alpha);
    RHUMB_TRY(need_factor(d));
    RHUMB_TRY(rhumb_lookup_need_integer(d->l, "rope type dynamic", "max_position_embeddings", 1,
                                        RHUMB_MOST_LENGTH, &length));
    d->s->rope.max_length = (uint32_t)length.value;
    note_number(d->s, "max_position_embeddings", &length);
    return RHUMB_OK;
}

/* A missing factor is what the two lengths say. */
static rhumb_result read_yarn_factor(const reader *d, const rhumb_sourced *original)
{
    rhumb_sourced factor;
    rhumb_sourced length;
    int found;

    RHUMB_TRY(read_number(d, "factor", 1.0, 1e9, &factor, &found));
    if (!found) {
        RHUMB_TRY(read_max_length(d, &length, &found));
        if (!found || length.value <= original->value)
            return missing(d, "factor");
        rhumb_sourced_set(&factor, length.value / original->value,
                          "max_position_embeddings / original_max_position_embeddings");
    }
    d->s->rope.factor = factor.value;
    note_number(d->s, "factor", &factor);
    return RHUMB_OK;
}

/* Null and 0 mean the default. */
static rhumb_result read_beta(const reader *d, const char *name, double *beta)
{
    rhumb_sourced value;
    int found;

    RHUMB_TRY(read_number(d, name, 0.0, 1e6, &value, &found));
    if (!found || value.value == 0.0)
        rhumb_sourced_set(&value, *beta, "default of rope type yarn");
    *beta = value.value;
    note_number(d->s, name, &value);
    return RHUMB_OK;
}

static rhumb_result read_truncate(const reader *d)
{
    static const char source[] = "default of rope type yarn";
    char path[128];
    char key[128];
    int value = 1;
    int found = 0;
    size_t i;

    for (i = 0; i < COUNT(d->place->objects) && d->place->objects[i] != NULL && !found; i++) {
        RHUMB_TRY(rhumb_lookup_bool(
            d->l, rhumb_place_path(path, d->place->objects[i], "truncate"), &value, &found));
    }
    d->s->rope.truncate = value != 0;
    (void)snprintf(key, sizeof key, "%.40s%.80s", d->l->scope, path);
    note(d->s, "truncate", value ? "true" : "false", found ? key : source);
    if (found && d->r->family->by_type)
        rhumb_model_warn(d->r, "the transformers library ignores it inside a layer type's object",
                         "", key);
    return RHUMB_OK;
}

/* `least` to `most`; noted if it is there. */
static rhumb_result read_option(const reader *d, const char *name, double least, double most,
                                double *option)
{
    rhumb_sourced value;
    int found;

    RHUMB_TRY(read_number(d, name, least, most, &value, &found));
    if (!found)
        return RHUMB_OK;
    *option = value.value;
    note_number(d->s, name, &value);
    return RHUMB_OK;
}

static void warn_of_yarn(const reader *d, const rhumb_sourced *original)
{
    const rhumb_rope *rope = &d->s->rope;
    rhumb_sourced length;
    int found;

    if (read_max_length(d, &length, &found) == RHUMB_OK && found &&
        length.value == original->value)
        rhumb_model_warn(d->r,
                         "equals max_position_embeddings: right where that is the length before "
                         "extension, a wrong ramp where it is the length after",
                         "", original->source);
    if (rope->attention_multiplier != 1.0 || rope->extrapolation != 1.0)
        rhumb_model_warn(d->r, "attn_factor and extrapolation_factor: the transformers library "
                               "ignores them",
                         d->l->scope, home(d));
}

static rhumb_result resolve_yarn(const reader *d)
{
    rhumb_rope *rope = &d->s->rope;
    rhumb_sourced original;

    RHUMB_TRY(read_original_length(d, &original));
    RHUMB_TRY(read_yarn_factor(d, &original));
    RHUMB_TRY(read_beta(d, "beta_fast", &rope->beta_fast));
    RHUMB_TRY(read_beta(d, "beta_slow", &rope->beta_slow));
    if (rope->beta_fast < rope->beta_slow)
        return rhumb_lookup_fail(d->l, RHUMB_ERROR_CONFIG,
                                 "%s%s.beta_fast: wanted at least beta_slow %g, found %g",
                                 d->l->scope, home(d), rope->beta_slow, rope->beta_fast);
    RHUMB_TRY(read_truncate(d));
    RHUMB_TRY(read_option(d, "mscale", 0.0, 1e6, &rope->mscale));
    RHUMB_TRY(read_option(d, "mscale_all_dim", 0.0, 1e6, &rope->mscale_all_dim));
    RHUMB_TRY(read_option(d, "attn_factor", DBL_MIN, 1e6, &rope->attention_multiplier));
    RHUMB_TRY(read_option(d, "extrapolation_factor", 0.0, 1.0, &rope->extrapolation));
    if (rope->mscale != 0.0 && rope->mscale_all_dim != 0.0)
        set_magnitude(d->s, ": (0.1 mscale ln factor + 1) / (0.1 mscale_all_dim ln factor + 1)");
    else
        set_magnitude(d->s, ": 0.1 ln factor + 1");
    warn_of_yarn(d, &original);
    return read_attention_factor(d);
}

static rhumb_result resolve_llama3(const reader *d)
{
    rhumb_rope *rope = &d->s->rope;
    rhumb_sourced original;
    rhumb_sourced low;
    rhumb_sourced high;

    RHUMB_TRY(need_factor(d));
    RHUMB_TRY(read_original_length(d, &original));
    RHUMB_TRY(need_number(d, "low_freq_factor", DBL_MIN, 1e9, &low));
    RHUMB_TRY(need_number(d, "high_freq_factor", DBL_MIN, 1e9, &high));
    if (high.value < low.value)
        return rhumb_lookup_fail(d->l, RHUMB_ERROR_CONFIG,
                                 "%s: wanted at least low_freq_factor %g, found %g", high.source,
                                 low.value, high.value);
    if (high.value == low.value)
        rhumb_model_warn(d->r, "equals low_freq_factor: no range between scaled and plain pairs",
                         "", high.source);
    rope->low_freq_factor = low.value;
    rope->high_freq_factor = high.value;
    note_number(d->s, "low_freq_factor", &low);
    note_number(d->s, "high_freq_factor", &high);
    return RHUMB_OK;
}

static rhumb_result check_factors(const reader *d, const rhumb_key *list)
{
    uint32_t pairs = d->s->rope.rotary_dim / 2;
    char have[80];
    uint32_t i;

    if (list->kind != RHUMB_VALUE_LIST || list->count != pairs)
        return rhumb_lookup_fail(d->l, RHUMB_ERROR_CONFIG,
                                 "%s: wanted a list of %u numbers (rotary_dim / 2), found %s",
                                 list->path, (unsigned)pairs,
                                 rhumb_lookup_print(list, have, sizeof have));
    for (i = 0; i < pairs; i++) {
        const rhumb_key *item = &list->items[i];
        if (item->kind != RHUMB_VALUE_NUMBER || !(item->number > 0.0 && item->number <= DBL_MAX))
            return rhumb_lookup_fail(d->l, RHUMB_ERROR_CONFIG,
                                     "%s: item %u: wanted a number above 0, found %s", list->path,
                                     (unsigned)i, rhumb_lookup_print(item, have, sizeof have));
    }
    return RHUMB_OK;
}

static rhumb_result read_factors(const reader *d, const char *name, const rhumb_key **list)
{
    const rhumb_key *other;
    char path[128];
    char value[40];
    size_t i;
    uint32_t k;

    *list = NULL;
    for (i = 0; i < COUNT(d->place->objects) && d->place->objects[i] != NULL; i++) {
        RHUMB_TRY(rhumb_lookup_find(d->l, rhumb_place_path(path, d->place->objects[i], name),
                                    &other));
        if (other == NULL || other->kind == RHUMB_VALUE_NULL)
            continue;
        RHUMB_TRY(check_factors(d, other));
        for (k = 0; *list != NULL && k < other->count; k++) {
            if (other->items[k].number != (*list)->items[k].number)
                return rhumb_lookup_fail(d->l, RHUMB_ERROR_CONFIG,
                                         "%s: item %u: wanted %g as in %s, found %g", other->path,
                                         (unsigned)k, (*list)->items[k].number, (*list)->path,
                                         other->items[k].number);
        }
        if (*list == NULL)
            *list = other;
    }
    if (*list == NULL)
        return missing(d, name);
    (void)snprintf(value, sizeof value, "%u numbers", (unsigned)(*list)->count);
    note(d->s, name, value, (*list)->path);
    return RHUMB_OK;
}

/* The extension s is `factor`, else the ratio of the lengths. */
static rhumb_result read_extension(const reader *d, const rhumb_sourced *original)
{
    rhumb_rope *rope = &d->s->rope;
    rhumb_sourced factor;
    rhumb_sourced length;
    int given;
    int found;

    RHUMB_TRY(read_number(d, "factor", 1.0, 1e9, &factor, &given));
    RHUMB_TRY(read_max_length(d, &length, &found));
    if (!given && !found && rope->magnitude != RHUMB_MAGNITUDE_GIVEN)
        return rhumb_lookup_fail(d->l, RHUMB_ERROR_CONFIG,
                                 "%smax_position_embeddings: missing, needed by rope type longrope",
                                 d->l->scope);
    rope->max_length = found ? (uint32_t)length.value : 0u;
    if (!given && found)
        note_number(d->s, "max_position_embeddings", &length);
    if (!given)
        return RHUMB_OK;
    rope->factor = factor.value;
    note_number(d->s, "factor", &factor);
    if (factor.value == 1.0)
        rope->max_length = rope->original_length; /* the ratio must not take the factor's place */
    if (found && rope->magnitude != RHUMB_MAGNITUDE_GIVEN &&
        factor.value != length.value / original->value)
        rhumb_model_warn(d->r,
                         "is not max_position_embeddings / original_max_position_embeddings, which "
                         "some programs take instead",
                         "", factor.source);
    return RHUMB_OK;
}

static rhumb_result resolve_longrope(const reader *d)
{
    rhumb_sourced original;

    RHUMB_TRY(read_original_length(d, &original));
    set_magnitude(d->s, ": sqrt(1 + ln s / ln original length), 1 for s <= 1");
    RHUMB_TRY(read_attention_factor(d));
    RHUMB_TRY(read_extension(d, &original));
    RHUMB_TRY(read_factors(d, "short_factor", &d->s->lists[0]));
    RHUMB_TRY(read_factors(d, "long_factor", &d->s->lists[1]));
    d->s->list_count = 2;
    return RHUMB_OK;
}

static rhumb_result resolve_proportional(const reader *d)
{
    rhumb_sourced factor;
    int found;

    RHUMB_TRY(read_number(d, "factor", 1.0, 1e9, &factor, &found));
    if (!found)
        return RHUMB_OK;
    d->s->rope.factor = factor.value;
    note_number(d->s, "factor", &factor);
    return RHUMB_OK;
}

rhumb_result rhumb_model_scaling(const rhumb_lookup *l, rhumb_model_values *r,
                                 const rhumb_place *place, rhumb_schedule *schedule)
{
    const reader d = {l, r, place, schedule};

    set_magnitude(schedule, "");
    switch (schedule->rope.scaling) {
    case RHUMB_ROPE_SCALING_LINEAR:
        return need_factor(&d);
    case RHUMB_ROPE_SCALING_NTK_DYNAMIC:
        return resolve_dynamic(&d);
    case RHUMB_ROPE_SCALING_YARN:
        return resolve_yarn(&d);
    case RHUMB_ROPE_SCALING_LLAMA3:
        return resolve_llama3(&d);
    case RHUMB_ROPE_SCALING_LONGROPE:
        return resolve_longrope(&d);
    case RHUMB_ROPE_SCALING_PROPORTIONAL:
        return resolve_proportional(&d);
    default:
        return resolve_plain(&d);
    }
}
