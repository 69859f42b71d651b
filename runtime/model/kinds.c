/* The resolved values as layer kinds and scheme structs in the caller's memory. */
#include "resolve.h"

#include <math.h>
#include <stdio.h>

void rhumb_model_warn(rhumb_model_values *r, const char *trap, const char *scope, const char *key)
{
    rhumb_warning *w = &r->warnings[r->warning_count];

    if (r->warning_count == RHUMB_MOST_WARNINGS)
        return;
    w->trap = trap;
    (void)snprintf(w->key, sizeof w->key, "%.40s%.80s", scope, key);
    r->warning_count++;
}

/* --- scheme structs --- */

static size_t schedule_size(const rhumb_schedule *s)
{
    return (s->several ? sizeof s->mrope : 0) + sizeof s->rope +
           s->list_count * (s->rope.rotary_dim / 2) * sizeof(double);
}

uint32_t rhumb_model_kind_count(const rhumb_model_values *r)
{
    return r->kind_count + (r->vision.present ? 1u : 0u);
}

size_t rhumb_model_arena_size(const rhumb_model_values *r)
{
    size_t size = r->vision.present ? sizeof r->vision.plane : 0;
    uint32_t i;

    for (i = 0; i < r->type_count; i++)
        size += schedule_size(&r->types[i].schedule);
    return size;
}

static void copy_list(const rhumb_key *list, double *to)
{
    uint32_t i;

    for (i = 0; i < list->count; i++)
        to[i] = list->items[i].number;
}

/* The scheme struct with its lists behind it. */
static void write_rope(const rhumb_schedule *s, rhumb_rope *rope)
{
    uint32_t pairs = s->rope.rotary_dim / 2;
    double *lists = (double *)(void *)(rope + 1);

    *rope = s->rope;
    if (s->list_count == 0)
        return;
    copy_list(s->lists[0], lists);
    copy_list(s->lists[1], lists + pairs);
    rope->list_count = pairs;
    rope->short_factors = lists;
    rope->long_factors = lists + pairs;
}

/* Room for any schedule. */
typedef struct whole_schedule {
    rhumb_mrope mrope;
    rhumb_rope rope;
    double lists[2 * RHUMB_MAX_PAIRS];
} whole_schedule;

/* [mrope] rope [lists] at `memory`; returns the scheme that a plan takes. */
static const void *write_schedule(const rhumb_schedule *s, char *memory)
{
    rhumb_mrope *mrope = (rhumb_mrope *)(void *)memory;

    if (!s->several) {
        write_rope(s, (rhumb_rope *)(void *)memory);
        return memory;
    }
    write_rope(s, (rhumb_rope *)(void *)(mrope + 1));
    *mrope = s->mrope;
    mrope->rope = (const rhumb_rope *)(const void *)(mrope + 1);
    return memory;
}

rhumb_result rhumb_model_finish(const rhumb_lookup *l, rhumb_model_values *r)
{
    whole_schedule whole;
    const void *scheme;
    uint32_t i;

    for (i = 0; i < r->type_count; i++) {
        rhumb_schedule *s = &r->types[i].schedule;

        scheme = write_schedule(s, s->several ? (char *)&whole.mrope : (char *)&whole.rope);
        if (rhumb_rotary_frequencies(scheme, (uint32_t)r->types[i].head_dim.value, 0, NULL, 0,
                                     NULL, &s->magnitude.value) != RHUMB_OK)
            return rhumb_lookup_fail(l, RHUMB_ERROR_CONFIG, "%s: %.300s",
                                     s->several ? s->sections_source : s->type_source,
                                     rhumb_last_message(NULL));
    }
    if (r->vision.present &&
        rhumb_rotary_frequencies(&r->vision.plane, (uint32_t)r->vision.head_dim.value, 0, NULL, 0,
                                 NULL, NULL) != RHUMB_OK)
        return rhumb_lookup_fail(l, RHUMB_ERROR_CONFIG, "%s: %.300s", r->vision.rule,
                                 rhumb_last_message(NULL));
    return RHUMB_OK;
}

/* --- layer kinds --- */

static void fill_window(const rhumb_model_values *r, rhumb_layer_kind *kind)
{
    int32_t window = (int32_t)r->window.value;

    switch (r->family->window_rule) {
    case RHUMB_WINDOW_LOCAL: /* as many to each side, and the token itself */
        kind->window_left = window / 2 + 1;
        kind->window_right = window / 2;
        break;
    case RHUMB_WINDOW_CHUNKS:
        kind->chunk = window;
        break;
    default:
        kind->window_left = window;
        break;
    }
}

static void fill_kind(const rhumb_model_values *r, const rhumb_kind_values *values,
                      const void *rotary, rhumb_layer_kind *kind)
{
    const rhumb_type_values *type = &r->types[rhumb_type_of(r, values)];

    rhumb_init_layer_kind(kind);
    (void)snprintf(kind->name, sizeof kind->name, "%s", values->name);
    kind->rotary = values->turns ? rotary : NULL;
    kind->heads = (uint32_t)r->heads.value;
    kind->kv_heads = (uint32_t)type->kv_heads.value;
    kind->head_dim = (uint32_t)type->head_dim.value;
    kind->causal = !r->family->bidirectional;
    kind->scale = type->scale.value;
    kind->sinks = r->family->sinks;
    kind->layer_count = r->layer_count;
    memcpy(kind->layers, values->layers, sizeof kind->layers);
    if (r->softcap.value != 0.0)
        kind->softcap = r->softcap.value;
    if (r->value_dim.value != 0.0)
        kind->value_dim = (uint32_t)r->value_dim.value;
    if (!values->turns && r->temperature.value != 0.0) {
        kind->temperature = r->temperature.value;
        kind->temperature_length = r->temperature_length.value;
    }
    if (values->sliding)
        fill_window(r, kind);
}

static void fill_vision(const rhumb_model_values *r, const rhumb_rope2d *plane,
                        rhumb_layer_kind *kind)
{
    rhumb_init_layer_kind(kind);
    (void)snprintf(kind->name, sizeof kind->name, "%s", r->kind_count > 0 ? "vision" : "attention");
    kind->rotary = plane;
    kind->heads = (uint32_t)r->vision.heads.value;
    kind->kv_heads = kind->heads;
    kind->head_dim = (uint32_t)r->vision.head_dim.value;
    kind->causal = 0;
    kind->scale = 1.0 / sqrt(r->vision.head_dim.value);
}

/* --- both --- */

/* Kind `index`, as far as the caller's struct goes. */
static void put_kind(const rhumb_keys_info *info, uint32_t index, rhumb_layer_kind *kind)
{
    size_t step = info->kinds->struct_size;

    kind->struct_size = (uint32_t)step;
    memcpy((char *)info->kinds + index * step, kind, step);
}

void rhumb_model_commit(const rhumb_keys_info *info, const rhumb_model_values *r, char *arena)
{
    const void *rotary[RHUMB_MOST_TYPES] = {NULL};
    rhumb_rope2d *plane;
    rhumb_layer_kind kind;
    uint32_t i;

    for (i = 0; i < r->type_count; i++) {
        rotary[i] = write_schedule(&r->types[i].schedule, arena);
        arena += schedule_size(&r->types[i].schedule);
    }
    for (i = 0; i < r->kind_count; i++) {
        fill_kind(r, &r->kinds[i], rotary[rhumb_type_of(r, &r->kinds[i])], &kind);
        put_kind(info, i, &kind);
    }
    if (r->vision.present) {
        plane = (rhumb_rope2d *)(void *)arena;
        *plane = r->vision.plane;
        fill_vision(r, plane, &kind);
        put_kind(info, r->kind_count, &kind);
    }
    rhumb_model_trace(info, r);
}
