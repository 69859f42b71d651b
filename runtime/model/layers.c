/* Which layers slide and which have rotary, and so the kinds of layers. Layers count from 0. */
#include "resolve.h"

#include <math.h>
#include <stdio.h>

typedef struct layer_plan {
    uint32_t count;    /* of the model's layers; RHUMB_MAX_LAYERS if only a rule is known */
    int count_known;   /* from num_hidden_layers or from a list */
    int known;         /* which layers slide is known */
    int on;            /* the window rule is switched on */
    int listed;        /* layer_types */
    int stated;        /* a key states the rule of the sliding layers */
    uint8_t sliding[RHUMB_MAX_LAYERS];
    uint8_t turns[RHUMB_MAX_LAYERS];
    uint8_t absent[RHUMB_MAX_LAYERS]; /* no attention */
    char sliding_source[64];
    char turns_source[64]; /* "": every layer turns */
} layer_plan;

static rhumb_result read_count(const rhumb_lookup *l, layer_plan *p)
{
    static const char *const keys[] = {"num_hidden_layers", "n_layer", "num_layers"};
    rhumb_sourced number;
    int found = 0;
    size_t i;

    p->count = RHUMB_MAX_LAYERS;
    for (i = 0; i < sizeof keys / sizeof keys[0] && !found; i++) {
        RHUMB_TRY(rhumb_lookup_integer(l, keys[i], 1, RHUMB_MAX_LAYERS, &number, &found));
        if (found)
            p->count = (uint32_t)number.value;
    }
    p->count_known = found;
    return RHUMB_OK;
}

/* *list is NULL if there is none. */
static rhumb_result find_list(const rhumb_lookup *l, const char *key, const rhumb_key **list)
{
    char have[80];

    RHUMB_TRY(rhumb_lookup_find(l, key, list));
    if (*list != NULL && (*list)->kind == RHUMB_VALUE_NULL)
        *list = NULL;
    if (*list != NULL && (*list)->kind != RHUMB_VALUE_LIST)
        return rhumb_lookup_fail(l, RHUMB_ERROR_CONFIG, "%s: wanted a list, found %s",
                                 (*list)->path, rhumb_lookup_print(*list, have, sizeof have));
    return RHUMB_OK;
}

/* A list has an element for each layer (more, where `longer`), or says how many there are. */
static rhumb_result take_count(const rhumb_lookup *l, const rhumb_key *list, int longer,
                               layer_plan *p)
{
    uint32_t most = p->count_known && !longer ? p->count : RHUMB_MAX_LAYERS;
    uint32_t least = p->count_known ? p->count : 1u;

    if (list->count < least || list->count > most)
        return rhumb_lookup_fail(
            l, RHUMB_ERROR_CONFIG, "%s: wanted a list of %u%s%.0u%s, found a list of %u",
            list->path, (unsigned)least, least == most ? "" : " to ", least == most ? 0u : most,
            p->count_known ? " (num_hidden_layers)" : "", (unsigned)list->count);
    if (!p->count_known)
        p->count = list->count;
    p->count_known = 1;
    return RHUMB_OK;
}

/* --- sliding layers by rule --- */

/* use_sliding_window: layers below max_window_layers see everything, the others slide. */
static rhumb_result slide_from_layer(const rhumb_lookup *l, layer_plan *p)
{
    const char *who = "use_sliding_window";
    rhumb_sourced first;
    rhumb_sourced layers;
    uint32_t i;

    if (!p->on)
        return RHUMB_OK;
    RHUMB_TRY(rhumb_lookup_need_integer(l, who, "max_window_layers", 0, RHUMB_MOST_HEADS, &first));
    RHUMB_TRY(
        rhumb_lookup_need_integer(l, who, "num_hidden_layers", 1, RHUMB_MAX_LAYERS, &layers));
    for (i = 0; i < p->count; i++)
        p->sliding[i] = i >= first.value;
    p->stated = 1;
    (void)snprintf(p->sliding_source, sizeof p->sliding_source, "%.60s", first.source);
    return RHUMB_OK;
}

static rhumb_result slide_by_period(const rhumb_lookup *l, const rhumb_family *family,
                                    layer_plan *p)
{
    int local = family->window_rule == RHUMB_WINDOW_LOCAL;
    const char *key = local ? "global_attn_every_n_layers" : "sliding_window_pattern";
    rhumb_sourced period;
    int found;
    uint32_t i;

    RHUMB_TRY(rhumb_lookup_integer(l, key, 1, RHUMB_MAX_LAYERS, &period, &found));
    if (!found && !local)
        RHUMB_TRY(rhumb_lookup_integer(l, "_sliding_window_pattern", 1, RHUMB_MAX_LAYERS, &period,
                                       &found));
    p->stated = found;
    if (!found)
        rhumb_sourced_set(&period, family->period, "rule of %s: a full layer in %u",
                          family->model_type, (unsigned)family->period);
    for (i = 0; i < p->count; i++)
        p->sliding[i] = (i + (local ? 0u : 1u)) % (uint32_t)period.value != 0;
    (void)snprintf(p->sliding_source, sizeof p->sliding_source, "%.60s", period.source);
    return RHUMB_OK;
}

/* Attention in one layer of `period`; something else, without positions, in the others. */
static rhumb_result attend_by_period(const rhumb_lookup *l, const rhumb_family *family,
                                     layer_plan *p)
{
    rhumb_sourced period;
    int found;
    uint32_t i;

    RHUMB_TRY(rhumb_lookup_integer(l, "full_attention_interval", 1, RHUMB_MAX_LAYERS, &period,
                                   &found));
    p->stated = found;
    if (!found)
        rhumb_sourced_set(&period, family->period, "rule of %s: attention in every %uth",
                          family->model_type, (unsigned)family->period);
    for (i = 0; i < p->count; i++)
        p->absent[i] = (i + 1) % (uint32_t)period.value != 0;
    (void)snprintf(p->sliding_source, sizeof p->sliding_source, "%.60s", period.source);
    return RHUMB_OK;
}

static rhumb_result slide_by_rule(const rhumb_lookup *l, const rhumb_family *family, layer_plan *p)
{
    uint32_t i;

    p->known = 1;
    (void)snprintf(p->sliding_source, sizeof p->sliding_source, "rule of %s", family->model_type);
    switch (family->window_rule) {
    case RHUMB_WINDOW_NONE:
        break;
    case RHUMB_WINDOW_ALL:
        memset(p->sliding, 1, sizeof p->sliding);
        break;
    case RHUMB_WINDOW_PERIOD:
    case RHUMB_WINDOW_LOCAL:
        return slide_by_period(l, family, p);
    case RHUMB_WINDOW_SWITCHED:
        return slide_from_layer(l, p);
    case RHUMB_WINDOW_LISTED:
        p->known = 0;
        break;
    case RHUMB_WINDOW_NO_ROPE:
        for (i = 0; i < p->count; i++)
            p->sliding[i] = p->on && !p->turns[i];
        p->stated = p->on;
        p->sliding_source[0] = '\0';
        break;
    case RHUMB_WINDOW_CHUNKS:
        memcpy(p->sliding, p->turns, sizeof p->sliding);
        p->stated = 1;
        p->sliding_source[0] = '\0';
        break;
    case RHUMB_WINDOW_HYBRID:
        return attend_by_period(l, family, p);
    }
    return RHUMB_OK;
}

/* --- layer_types --- */

static const char *sliding_name(const rhumb_family *family)
{
    return family->window_rule == RHUMB_WINDOW_CHUNKS   ? "chunked_attention"
           : family->window_rule == RHUMB_WINDOW_HYBRID ? "linear_attention"
                                                        : "sliding_attention";
}

static rhumb_result read_layer_type(const rhumb_lookup *l, const rhumb_family *family,
                                    const rhumb_key *list, uint32_t i, layer_plan *p)
{
    const rhumb_key *item = &list->items[i];
    const char *other = sliding_name(family);
    uint8_t *flag =
        family->window_rule == RHUMB_WINDOW_HYBRID ? &p->absent[i] : &p->sliding[i];
    char have[80];
    uint8_t is_other;

    if (item->kind == RHUMB_VALUE_STRING && strcmp(item->string, "full_attention") == 0)
        is_other = 0;
    else if (item->kind == RHUMB_VALUE_STRING && strcmp(item->string, other) == 0)
        is_other = 1;
    else
        return rhumb_lookup_fail(l, RHUMB_ERROR_CONFIG,
                                 "%s: item %u: wanted full_attention or %s, found %s", list->path,
                                 (unsigned)i, other, rhumb_lookup_print(item, have, sizeof have));
    if (p->stated && is_other != *flag)
        return rhumb_lookup_fail(l, RHUMB_ERROR_CONFIG, "%s: item %u: wanted %s (%s%s), found %s",
                                 list->path, (unsigned)i, *flag ? other : "full_attention",
                                 p->sliding_source, p->sliding_source[0] ? "" : p->turns_source,
                                 item->string);
    *flag = is_other;
    return RHUMB_OK;
}

static rhumb_result find_layer_types(const rhumb_lookup *l, const rhumb_key **list, layer_plan *p)
{
    RHUMB_TRY(rhumb_lookup_find(l, "layer_types", list));
    if (*list != NULL && (*list)->kind == RHUMB_VALUE_LIST && (*list)->count == 0)
        return rhumb_lookup_fail(l, RHUMB_ERROR_CONFIG,
                                 "%s: wanted a list of names, found a list of 0", (*list)->path);
    RHUMB_TRY(find_list(l, "layer_types", list));
    return *list != NULL ? take_count(l, *list, 0, p) : RHUMB_OK;
}

static rhumb_result read_layer_types(const rhumb_lookup *l, const rhumb_family *family,
                                     const rhumb_key *list, layer_plan *p)
{
    uint32_t i;

    if (list == NULL)
        return RHUMB_OK;
    for (i = 0; i < list->count; i++)
        RHUMB_TRY(read_layer_type(l, family, list, i, p));
    p->known = 1;
    p->listed = 1;
    (void)snprintf(p->sliding_source, sizeof p->sliding_source, "%.60s", list->path);
    return RHUMB_OK;
}

/* --- layers without rotary --- */

static rhumb_result read_turning_layer(const rhumb_lookup *l, const rhumb_key *list, uint32_t i,
                                       int stated, layer_plan *p)
{
    const rhumb_key *item = &list->items[i];
    int number = item->kind == RHUMB_VALUE_NUMBER || item->kind == RHUMB_VALUE_BOOL;
    char have[80];

    if (!number || (item->number != 0.0 && item->number != 1.0))
        return rhumb_lookup_fail(l, RHUMB_ERROR_CONFIG,
                                 "%s: item %u: wanted 1 (rotary) or 0, found %s", list->path,
                                 (unsigned)i, rhumb_lookup_print(item, have, sizeof have));
    if (stated && p->turns[i] != (item->number != 0.0))
        return rhumb_lookup_fail(l, RHUMB_ERROR_CONFIG, "%s: item %u: wanted %u (%s), found %g",
                                 list->path, (unsigned)i, (unsigned)p->turns[i], p->turns_source,
                                 item->number);
    p->turns[i] = item->number != 0.0;
    return RHUMB_OK;
}

/* An empty list is one that was left to the interval. */
static rhumb_result turn_by_interval(const rhumb_lookup *l, const rhumb_family *family,
                                     layer_plan *p)
{
    const rhumb_key *list;
    rhumb_sourced interval;
    int stated;
    uint32_t i;

    RHUMB_TRY(
        rhumb_lookup_integer(l, "no_rope_layer_interval", 1, RHUMB_MAX_LAYERS, &interval, &stated));
    if (!stated)
        rhumb_sourced_set(&interval, family->period, "rule of %s: every %uth without",
                          family->model_type, (unsigned)family->period);
    RHUMB_TRY(find_list(l, "no_rope_layers", &list));
    if (list != NULL && list->count > 0)
        RHUMB_TRY(take_count(l, list, 1, p));
    for (i = 0; i < p->count; i++)
        p->turns[i] = (i + 1) % (uint32_t)interval.value != 0;
    (void)snprintf(p->turns_source, sizeof p->turns_source, "%.60s", interval.source);
    if (list == NULL || list->count == 0)
        return RHUMB_OK;
    for (i = 0; i < p->count; i++)
        RHUMB_TRY(read_turning_layer(l, list, i, stated, p));
    (void)snprintf(p->turns_source, sizeof p->turns_source, "%.60s", list->path);
    return RHUMB_OK;
}

/* --- windows --- */

static const char *window_key(const rhumb_family *family)
{
    return family->window_rule == RHUMB_WINDOW_LOCAL    ? "local_attention"
           : family->window_rule == RHUMB_WINDOW_CHUNKS ? "attention_chunk_size"
                                                        : "sliding_window";
}

static rhumb_result read_switch(const rhumb_lookup *l, rhumb_model_values *r, layer_plan *p)
{
    rhumb_window_rule rule = r->family->window_rule;
    int found;

    p->on = rule != RHUMB_WINDOW_NONE && rule != RHUMB_WINDOW_HYBRID;
    if (rule != RHUMB_WINDOW_SWITCHED && rule != RHUMB_WINDOW_NO_ROPE)
        return RHUMB_OK;
    p->on = 0;
    RHUMB_TRY(rhumb_lookup_bool(l, "use_sliding_window", &p->on, &found));
    if (!p->on)
        rhumb_sourced_set(&r->window, 0.0, "%suse_sliding_window is false",
                          found ? "" : "default: ");
    return RHUMB_OK;
}

static rhumb_result resolve_window_size(const rhumb_lookup *l, rhumb_model_values *r)
{
    const rhumb_family *family = r->family;
    const char *name = window_key(family);
    const rhumb_key *key;
    int found;

    RHUMB_TRY(rhumb_lookup_integer(l, name, 1, RHUMB_NO_WINDOW - 1, &r->window, &found));
    if (found)
        return RHUMB_OK;
    RHUMB_TRY(rhumb_lookup_find(l, name, &key));
    if (key != NULL)
        rhumb_sourced_set(&r->window, 0.0, "%s is null", key->path);
    else
        rhumb_sourced_set(&r->window, family->window, "default of %s", family->model_type);
    return RHUMB_OK;
}

static rhumb_result refuse_window(const rhumb_lookup *l, rhumb_model_values *r)
{
    int found;

    RHUMB_TRY(
        rhumb_lookup_integer(l, "sliding_window", 1, RHUMB_NO_WINDOW - 1, &r->window, &found));
    if (found)
        return rhumb_lookup_fail(l, RHUMB_ERROR_CONFIG, "%s: wanted none (rule of %s), found %.0f",
                                 r->window.source, r->family->model_type, r->window.value);
    rhumb_sourced_set(&r->window, 0.0, "rule of %s: no window", r->family->model_type);
    return RHUMB_OK;
}

/* Sliding layers without a window are full layers, unless more hangs on their sliding. */
static rhumb_result drop_windows(const rhumb_lookup *l, rhumb_model_values *r, layer_plan *p)
{
    const rhumb_family *family = r->family;
    int needed = p->listed || family->window_rule == RHUMB_WINDOW_SWITCHED || family->by_type ||
                 family->turn_rule == RHUMB_TURN_SLIDING;

    if (r->window.value != 0.0)
        return RHUMB_OK;
    if (needed && family->window_rule != RHUMB_WINDOW_CHUNKS &&
        (!p->known || memchr(p->sliding, 1, p->count) != NULL))
        return rhumb_lookup_fail(l, RHUMB_ERROR_CONFIG,
                                 "%s%s: wanted for the sliding layers, found none (%s)", l->scope,
                                 window_key(family), r->window.source);
    memset(p->sliding, 0, sizeof p->sliding);
    return RHUMB_OK;
}

/* --- kinds --- */

static void mark_layers(const layer_plan *p, rhumb_kind_values *kind)
{
    uint32_t i;

    for (i = 0; i < p->count && p->known; i++) {
        if (!p->absent[i] && p->sliding[i] == kind->sliding && p->turns[i] == kind->turns)
            kind->layers[i / 32] |= 1u << i % 32;
    }
}

static int has_layers(const rhumb_kind_values *kind)
{
    uint32_t i;

    for (i = 0; i < RHUMB_MAX_LAYERS / 32; i++) {
        if (kind->layers[i] != 0)
            return 1;
    }
    return 0;
}

/* "attention", or by the window where it differs, or by rotary where only that differs. */
static void name_kinds(rhumb_model_values *r)
{
    int windows = 0;
    uint32_t i;
    uint32_t k;

    for (i = 1; i < r->kind_count; i++)
        windows |= r->kinds[i].sliding != r->kinds[0].sliding;
    for (i = 0; i < r->kind_count; i++) {
        rhumb_kind_values *kind = &r->kinds[i];
        const char *base = !windows        ? "attention"
                           : kind->sliding ? sliding_name(r->family)
                                           : "full_attention";
        int twin = 0;
        for (k = 0; k < i; k++)
            twin |= r->kinds[k].sliding == kind->sliding;
        (void)snprintf(kind->name, sizeof kind->name, "%s%s", twin ? "no_rope_" : "", base);
    }
}

static void make_kinds(rhumb_model_values *r, const layer_plan *p)
{
    int turns;
    int sliding;

    r->kind_count = 0;
    for (turns = 1; turns >= 0; turns--) {
        for (sliding = 0; sliding <= 1; sliding++) {
            rhumb_kind_values *kind = &r->kinds[r->kind_count];
            memset(kind, 0, sizeof *kind);
            kind->sliding = sliding;
            kind->turns = turns;
            mark_layers(p, kind);
            r->kind_count += has_layers(kind) || (!p->known && turns);
        }
    }
    name_kinds(r);
    r->layer_count = p->known ? p->count : 0;
    r->has_gaps = memchr(p->absent, 1, p->count) != NULL;
    (void)snprintf(r->layers_source, sizeof r->layers_source, "%s%s%s", p->sliding_source,
                   p->sliding_source[0] != '\0' && p->turns_source[0] != '\0' ? "; " : "",
                   p->turns_source);
}

static void turn_sliding(const rhumb_family *family, layer_plan *p)
{
    if (family->turn_rule != RHUMB_TURN_SLIDING)
        return;
    memcpy(p->turns, p->sliding, sizeof p->turns);
    (void)snprintf(p->turns_source, sizeof p->turns_source, "rotary where they slide");
}

rhumb_result rhumb_model_layers(const rhumb_lookup *l, rhumb_model_values *r)
{
    const rhumb_family *family = r->family;
    const rhumb_key *types;
    layer_plan plan;

    memset(&plan, 0, sizeof plan);
    memset(plan.turns, 1, sizeof plan.turns);
    RHUMB_TRY(read_count(l, &plan));
    RHUMB_TRY(read_switch(l, r, &plan));
    RHUMB_TRY(find_layer_types(l, &types, &plan));
    if (family->turn_rule == RHUMB_TURN_INTERVAL)
        RHUMB_TRY(turn_by_interval(l, family, &plan));
    RHUMB_TRY(slide_by_rule(l, family, &plan));
    RHUMB_TRY(read_layer_types(l, family, types, &plan));
    if (plan.on)
        RHUMB_TRY(resolve_window_size(l, r));
    else if (family->window_rule == RHUMB_WINDOW_NONE ||
             family->window_rule == RHUMB_WINDOW_HYBRID)
        RHUMB_TRY(refuse_window(l, r));
    RHUMB_TRY(drop_windows(l, r, &plan));
    turn_sliding(family, &plan);
    if (!plan.known)
        rhumb_model_warn(r, "missing: which layers slide is not known", l->scope, "layer_types");
    make_kinds(r, &plan);
    return RHUMB_OK;
}
