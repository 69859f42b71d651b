#include "run_plan.h"

#include <stdio.h>

#define COUNT(list) (sizeof(list) / sizeof *(list))

void run_plan_init(run_plan *plan)
{
    rhumb_plan_info info;
    rhumb_dispatch dispatch;

    rhumb_init_plan_info(&info, RHUMB_OP_ATTENTION);
    rhumb_init_dispatch(&dispatch);
    memset(plan, 0, sizeof *plan);
    plan->scale = (double)info.scale;
    plan->norm_epsilon = (double)info.norm_epsilon;
    plan->gain_offset = (double)info.gain_offset;
    plan->q_offset = dispatch.q_offset;
    plan->window_left = dispatch.window_left;
    plan->window_right = dispatch.window_right;
    plan->chunk = dispatch.chunk;
    plan->softcap = (double)dispatch.softcap;
    plan->append_position = dispatch.append_position;
}

static void init(void *plan)
{
    run_plan_init(plan);
}

#define FIELD(kind, member) {#member, SCHEME_##kind, offsetof(run_plan, member), 0, NULL}
#define CHOICE(member, type) {#member, SCHEME_ENUM, offsetof(run_plan, member), 0, &type##_strings}

static const scheme_field *fields_of(size_t *count)
{
    static const scheme_field fields[] = {
        FIELD(U32, batch),
        FIELD(U32, heads),
        FIELD(U32, kv_heads),
        FIELD(U32, head_dim),
        FIELD(U32, value_dim),
        FIELD(U32, q_len),
        FIELD(U32, k_len),
        FIELD(U32, capacity),
        FIELD(F64, scale),
        CHOICE(variant, rhumb_variant),
        CHOICE(mask_order, rhumb_mask_order),
        CHOICE(purpose, rhumb_purpose),
        CHOICE(append, rhumb_append),
        CHOICE(weight_layout, rhumb_weight_layout),
        FIELD(F64, norm_epsilon),
        FIELD(F64, gain_offset),
        FIELD(U32, causal),
        FIELD(U32, inverse),
        FIELD(I32, q_offset),
        FIELD(I32, window_left),
        FIELD(I32, window_right),
        FIELD(I32, chunk),
        FIELD(I32, kept_keys),
        FIELD(F64, softcap),
        FIELD(U32, bias_after_softcap),
        FIELD(I32, append_position),
        FIELD(U32, old_length),
        FIELD(U32, new_length),
    };

    *count = COUNT(fields);
    return fields;
}

const scheme_entry *run_plan_entry(void)
{
    /* neither kind nor type mean anything */
    static const scheme_entry entry = {"plan", SCHEME_rotary, 0, sizeof(run_plan), init, fields_of};

    return &entry;
}

/* ----------------------------------------------------------------------------------------------
 * Reading
 */
static bool unknown_scheme(const char *name, tensor_error *error)
{
    char list[400] = "";
    size_t count, length = 0;
    const scheme_entry *entries = scheme_entries(&count);

    for (size_t i = 0; i < count; i++)
        length += (size_t)snprintf(list + length, sizeof list - length, ", %s", entries[i].name);
    snprintf(error->line, sizeof error->line, "--scheme wants none%s, not \"%.60s\"", list, name);
    return false;
}

static bool unknown_member(const run_settings *s, const char *name, tensor_error *error)
{
    char names[480];

    scheme_names_text(s->entry != NULL ? s->entry : run_plan_entry(), names, sizeof names);
    snprintf(error->line, sizeof error->line, "--params: no parameter \"%.60s\"; %s has %s%s", name,
             s->entry != NULL ? s->entry->name : "a plan", names,
             s->entry != NULL ? ", and rhumb run --help lists the plan's" : "");
    return false;
}

static bool read_members(const cJSON *object, run_settings *s, tensor_error *error)
{
    uint64_t of_scheme = 0, of_plan = 0;
    tensor_error inner = {.line = ""};
    const cJSON *member;
    bool done = true;

    for (member = object->child; done && member != NULL; member = member->next) {
        if (s->entry != NULL && scheme_has(s->entry, member->string, member))
            done = scheme_read_member(s->entry, member, s->owned, &of_scheme, &inner);
        else if (scheme_has(run_plan_entry(), member->string, member))
            done = scheme_read_member(run_plan_entry(), member, &s->plan, &of_plan, &inner);
        else
            return unknown_member(s, member->string, error);
    }
    if (!done)
        snprintf(error->line, sizeof error->line, "--params: %.600s", inner.line);
    return done;
}

static bool read_text(const char *params, run_settings *s, tensor_error *error)
{
    const char *end = NULL;
    cJSON *object = cJSON_ParseWithOpts(params, &end, 1);
    bool done = false;

    if (object == NULL)
        snprintf(error->line, sizeof error->line,
                 "--params wants a JSON object, it goes wrong at \"%.60s\"",
                 end != NULL ? end : params);
    else if (!cJSON_IsObject(object))
        snprintf(error->line, sizeof error->line, "--params wants a JSON object, not \"%.60s\"",
                 params);
    else
        done = read_members(object, s, error);
    cJSON_Delete(object);
    return done;
}

bool run_settings_read(const char *scheme, const char *params, run_settings *settings,
                       tensor_error *error)
{
    memset(settings, 0, sizeof *settings);
    run_plan_init(&settings->plan);
    if (strcmp(scheme, "none") != 0) {
        settings->entry = scheme_find(scheme);
        if (settings->entry == NULL)
            return unknown_scheme(scheme, error);
        settings->owned = scheme_new(settings->entry);
        settings->scheme = settings->owned;
        if (settings->owned == NULL) {
            snprintf(error->line, sizeof error->line, "no host memory");
            return false;
        }
    }
    return params == NULL || read_text(params, settings, error);
}

void run_settings_free(run_settings *settings)
{
    if (settings->entry != NULL)
        scheme_free(settings->entry, settings->owned);
    memset(settings, 0, sizeof *settings);
}

/* ----------------------------------------------------------------------------------------------
 * Use
 */
void run_settings_layer(const rhumb_layer_kind *kind, rhumb_op op, run_settings *settings)
{
    const rhumb_header *scheme = kind->rotary;
    run_plan *plan = &settings->plan;

    settings->entry = scheme != NULL ? scheme_find_type(scheme->type) : NULL;
    settings->scheme = scheme;
    plan->heads = kind->heads;
    plan->kv_heads = kind->kv_heads;
    plan->head_dim = kind->head_dim;
    if (op == RHUMB_OP_ATTENTION) {
        plan->scale = kind->scale;
        plan->window_left = kind->window_left;
        plan->window_right = kind->window_right;
        plan->chunk = kind->chunk;
        plan->softcap = kind->softcap;
    }
}

const void *run_settings_rotary(const run_settings *settings)
{
    return settings->entry != NULL && settings->entry->kind == SCHEME_rotary ? settings->scheme
                                                                             : NULL;
}

/* Projections know of a continuous bias only: tables of all other schemes are made alike. */
static const void *other_scheme(const run_settings *s, rhumb_op op)
{
    if (run_settings_rotary(s) != NULL || s->entry == NULL ||
        (op == RHUMB_OP_PROJECT && s->entry->type != RHUMB_TYPE_SWIN_V2))
        return NULL;
    return s->scheme;
}

static void set_size(uint32_t *size, uint32_t given)
{
    if (given != 0)
        *size = given;
}

void run_settings_info(const run_settings *settings, rhumb_plan_info *info)
{
    const run_plan *p = &settings->plan;

    set_size(&info->heads, p->heads);
    set_size(&info->kv_heads, p->kv_heads);
    set_size(&info->head_dim, p->head_dim);
    set_size(&info->value_dim, p->value_dim);
    set_size(&info->max_q_length, p->q_len);
    set_size(&info->max_k_length, p->k_len);
    info->rotary = run_settings_rotary(settings);
    info->scheme = other_scheme(settings, info->op);
    info->scale = (float)p->scale;
    info->variant = p->variant;
    info->mask_order = p->mask_order;
    info->purpose = p->purpose;
    info->append = p->append;
    info->weight_layout = p->weight_layout;
    info->norm_epsilon = (float)p->norm_epsilon;
    info->gain_offset = (float)p->gain_offset;
}

cJSON *run_plan_write(const run_plan *plan)
{
    run_plan plain;
    cJSON *defaults, *object = scheme_write(run_plan_entry(), plan);

    run_plan_init(&plain);
    defaults = scheme_write(run_plan_entry(), &plain);
    for (const cJSON *item = defaults != NULL ? defaults->child : NULL; item != NULL;
         item = item->next) {
        if (cJSON_Compare(item, cJSON_GetObjectItem(object, item->string), 1))
            cJSON_DeleteItemFromObject(object, item->string);
    }
    cJSON_Delete(defaults);
    return object;
}
