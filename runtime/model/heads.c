/* Head counts and sizes, softmax scale, windows: which keys hold them depends on the family. */
#include "resolve.h"

#include <math.h>
#include <stdio.h>

static rhumb_result resolve_head_dim(const rhumb_lookup *l, rhumb_model_values *r,
                                     const char *hidden_key, const char *heads_key)
{
    const rhumb_family *family = r->family;
    const char *who = family->model_type;
    rhumb_sourced hidden;
    int found;

    if (family->head_rule == RHUMB_HEAD_CHANNELS)
        return rhumb_lookup_need_integer(l, who, "kv_channels", 1, RHUMB_MOST_HEAD_DIM,
                                         &r->head_dim);
    if (family->head_rule == RHUMB_HEAD_KEY)
        return rhumb_lookup_need_integer(l, who, "head_dim", 1, RHUMB_MOST_HEAD_DIM, &r->head_dim);
    RHUMB_TRY(rhumb_lookup_integer(l, "head_dim", 1, RHUMB_MOST_HEAD_DIM, &r->head_dim, &found));
    if (found)
        return RHUMB_OK;
    RHUMB_TRY(rhumb_lookup_need_integer(l, who, hidden_key, 1, RHUMB_MOST_HIDDEN, &hidden));
    if (fmod(hidden.value, r->heads.value) != 0.0)
        return rhumb_lookup_fail(
            l, RHUMB_ERROR_CONFIG,
            "%s: wanted a multiple of %s %.0f (there is no head_dim), found %.0f", hidden_key,
            heads_key, r->heads.value, hidden.value);
    rhumb_sourced_set(&r->head_dim, hidden.value / r->heads.value, "%s / %s", hidden_key,
                      heads_key);
    if (r->head_dim.value > RHUMB_MOST_HEAD_DIM)
        return rhumb_lookup_fail(l, RHUMB_ERROR_CONFIG,
                                 "%s: wanted at most %u for each head, found %.0f", hidden_key,
                                 RHUMB_MOST_HEAD_DIM, r->head_dim.value);
    return RHUMB_OK;
}

static rhumb_result resolve_falcon_kv(const rhumb_lookup *l, rhumb_model_values *r)
{
    int grouped = 0;
    int multi_query = 1;
    int found;
    int stated;

    RHUMB_TRY(rhumb_lookup_bool(l, "new_decoder_architecture", &grouped, &found));
    RHUMB_TRY(rhumb_lookup_bool(l, "multi_query", &multi_query, &stated));
    if (!grouped && multi_query) {
        rhumb_sourced_set(&r->kv_heads, 1.0, "%s",
                          stated ? "multi_query" : "default of falcon: multi_query");
        return RHUMB_OK;
    }
    RHUMB_TRY(rhumb_lookup_integer(l, "num_kv_heads", 1, RHUMB_MOST_HEADS, &r->kv_heads, &found));
    if (!found)
        rhumb_sourced_set(&r->kv_heads, r->heads.value, "default of falcon: num_attention_heads");
    return RHUMB_OK;
}

static rhumb_result resolve_grouped_kv(const rhumb_lookup *l, rhumb_model_values *r)
{
    const char *who = r->family->model_type;
    int grouped = 0;
    int found;

    RHUMB_TRY(rhumb_lookup_bool(l, "multi_query_attention", &grouped, &found));
    if (grouped)
        return rhumb_lookup_need_integer(l, who, "multi_query_group_num", 1, RHUMB_MOST_HEADS,
                                         &r->kv_heads);
    rhumb_sourced_set(&r->kv_heads, r->heads.value,
                      "%smulti_query_attention is false: num_attention_heads",
                      found ? "" : "default of chatglm: ");
    return RHUMB_OK;
}

static rhumb_result resolve_kv_heads(const rhumb_lookup *l, rhumb_model_values *r,
                                     const char *heads_key)
{
    const rhumb_family *family = r->family;
    rhumb_sourced stated;
    int found = 0;

    switch (family->kv_rule) {
    case RHUMB_KV_KEY:
        return rhumb_lookup_need_integer(l, family->model_type, "num_key_value_heads", 1,
                                         RHUMB_MOST_HEADS, &r->kv_heads);
    case RHUMB_KV_KEY_OR_HEADS:
        RHUMB_TRY(rhumb_lookup_integer(l, "num_key_value_heads", 1, RHUMB_MOST_HEADS, &r->kv_heads,
                                       &found));
        if (!found)
            rhumb_sourced_set(&r->kv_heads, r->heads.value, "default of %s: %s", family->model_type,
                              heads_key);
        return RHUMB_OK;
    case RHUMB_KV_FALCON:
        return resolve_falcon_kv(l, r);
    case RHUMB_KV_GROUPS:
        return resolve_grouped_kv(l, r);
    case RHUMB_KV_HEADS:
        break;
    }
    /* The family has no key for it. One that is there all the same must not be overlooked. */
    RHUMB_TRY(rhumb_lookup_integer(l, "num_key_value_heads", 1, RHUMB_MOST_HEADS, &stated, &found));
    if (found && stated.value != r->heads.value)
        return rhumb_lookup_fail(
            l, RHUMB_ERROR_CONFIG,
            "num_key_value_heads: wanted %.0f as %s (model_type %s), found %.0f", r->heads.value,
            heads_key, family->model_type, stated.value);
    rhumb_sourced_set(&r->kv_heads, r->heads.value, "rule of %s: %s", family->model_type,
                      heads_key);
    return RHUMB_OK;
}

rhumb_result rhumb_model_heads(const rhumb_lookup *l, rhumb_model_values *r)
{
    int gpt = r->family->names == RHUMB_NAMES_GPT;
    const char *hidden_key = gpt ? "n_embd" : "hidden_size";
    const char *heads_key = gpt ? "n_head" : "num_attention_heads";

    RHUMB_TRY(rhumb_lookup_need_integer(l, r->family->model_type, heads_key, 1, RHUMB_MOST_HEADS,
                                        &r->heads));
    RHUMB_TRY(resolve_head_dim(l, r, hidden_key, heads_key));
    RHUMB_TRY(resolve_kv_heads(l, r, heads_key));
    if (fmod(r->heads.value, r->kv_heads.value) != 0.0)
        return rhumb_lookup_fail(l, RHUMB_ERROR_CONFIG,
                                 "kv_heads: wanted a divisor of %s %.0f, found %.0f (%s)",
                                 heads_key, r->heads.value, r->kv_heads.value, r->kv_heads.source);
    return RHUMB_OK;
}

rhumb_result rhumb_model_scale(const rhumb_lookup *l, rhumb_model_values *r)
{
    const char *who = r->family->model_type;
    const char *key = "query_pre_attn_scalar";
    double least = 1e-6;
    rhumb_sourced number;
    int found;

    if (r->family->scale_rule == RHUMB_SCALE_HEAD_DIM) {
        rhumb_sourced_set(&r->scale, 1.0 / sqrt(r->head_dim.value), "rule: head_dim^-1/2");
        return RHUMB_OK;
    }
    if (r->family->scale_rule == RHUMB_SCALE_MULTIPLIER)
        key = "attention_multiplier";
    RHUMB_TRY(rhumb_lookup_number(l, key, least, 1e6, &number, &found));
    if (!found)
        return rhumb_lookup_fail(l, RHUMB_ERROR_CONFIG, "%s: missing, needed by %s", key, who);
    if (r->family->scale_rule == RHUMB_SCALE_MULTIPLIER)
        r->scale = number;
    else
        rhumb_sourced_set(&r->scale, 1.0 / sqrt(number.value), "query_pre_attn_scalar^-1/2");
    return RHUMB_OK;
}

/* layer_types is a list of the kind of every layer; newer files carry it beside the older rules. */
static rhumb_result read_layer_types(const rhumb_lookup *l, rhumb_model_values *r, int *found)
{
    const rhumb_key *list;
    char have[80];
    uint32_t i;

    *found = 0;
    RHUMB_TRY(rhumb_lookup_find(l, "layer_types", &list));
    if (list == NULL || list->kind == RHUMB_VALUE_NULL)
        return RHUMB_OK;
    if (list->kind != RHUMB_VALUE_LIST || list->count == 0)
        return rhumb_lookup_fail(l, RHUMB_ERROR_CONFIG,
                                 "layer_types: wanted a list of names, found %s",
                                 rhumb_lookup_print(list, have, sizeof have));
    r->has_full = 0;
    r->has_sliding = 0;
    for (i = 0; i < list->count; i++) {
        const rhumb_key *item = &list->items[i];
        if (item->kind == RHUMB_VALUE_STRING && strcmp(item->string, "full_attention") == 0)
            r->has_full = 1;
        else if (item->kind == RHUMB_VALUE_STRING && strcmp(item->string, "sliding_attention") == 0)
            r->has_sliding = 1;
        else
            return rhumb_lookup_fail(
                l, RHUMB_ERROR_CONFIG,
                "layer_types: item %u: wanted full_attention or sliding_attention, found %s",
                (unsigned)i, rhumb_lookup_print(item, have, sizeof have));
    }
    *found = 1;
    return RHUMB_OK;
}

/* use_sliding_window: layers below max_window_layers see everything, the others slide. */
static rhumb_result resolve_switched_window(const rhumb_lookup *l, rhumb_model_values *r, int *on)
{
    const char *who = "use_sliding_window";
    rhumb_sourced first;
    rhumb_sourced layers;
    int found;

    *on = 0;
    RHUMB_TRY(rhumb_lookup_bool(l, "use_sliding_window", on, &found));
    if (!*on) {
        rhumb_sourced_set(&r->window, 0.0, "%suse_sliding_window is false",
                          found ? "" : "default: ");
        return RHUMB_OK;
    }
    RHUMB_TRY(rhumb_lookup_need_integer(l, who, "max_window_layers", 0, RHUMB_MOST_HEADS, &first));
    RHUMB_TRY(rhumb_lookup_need_integer(l, who, "num_hidden_layers", 1, RHUMB_MOST_HEADS, &layers));
    r->has_full = first.value > 0.0;
    r->has_sliding = first.value < layers.value;
    return RHUMB_OK;
}

static rhumb_result resolve_window_size(const rhumb_lookup *l, rhumb_model_values *r)
{
    const rhumb_family *family = r->family;
    const rhumb_key *key;
    int found;

    RHUMB_TRY(
        rhumb_lookup_integer(l, "sliding_window", 1, RHUMB_NO_WINDOW - 1, &r->window, &found));
    if (found)
        return RHUMB_OK;
    RHUMB_TRY(rhumb_lookup_find(l, "sliding_window", &key));
    if (key != NULL)
        rhumb_sourced_set(&r->window, 0.0, "sliding_window is null");
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
        return rhumb_lookup_fail(l, RHUMB_ERROR_CONFIG,
                                 "sliding_window: wanted none (rule of %s), found %.0f",
                                 r->family->model_type, r->window.value);
    rhumb_sourced_set(&r->window, 0.0, "rule of %s: no window", r->family->model_type);
    return RHUMB_OK;
}

rhumb_result rhumb_model_layers(const rhumb_lookup *l, rhumb_model_values *r)
{
    const rhumb_family *family = r->family;
    rhumb_window_rule rule = family->window_rule;
    int on = rule != RHUMB_WINDOW_NONE;
    int listed;

    r->has_full = rule == RHUMB_WINDOW_NONE || rule == RHUMB_WINDOW_ALTERNATE ||
                  rule == RHUMB_WINDOW_SWITCHED;
    r->has_sliding = rule == RHUMB_WINDOW_ALL || rule == RHUMB_WINDOW_ALTERNATE;
    if (rule == RHUMB_WINDOW_SWITCHED)
        RHUMB_TRY(resolve_switched_window(l, r, &on));
    RHUMB_TRY(read_layer_types(l, r, &listed));
    if (on) {
        RHUMB_TRY(resolve_window_size(l, r));
    } else if (rule == RHUMB_WINDOW_NONE) {
        RHUMB_TRY(refuse_window(l, r));
    }
    if (r->window.value == 0.0) {
        if (r->has_sliding && (listed || rule == RHUMB_WINDOW_SWITCHED))
            return rhumb_lookup_fail(
                l, RHUMB_ERROR_CONFIG,
                "sliding_window: wanted for the sliding layers, found none (%s)", r->window.source);
        r->has_full = 1;
        r->has_sliding = 0;
    }
    return RHUMB_OK;
}

rhumb_result rhumb_model_softcap(const rhumb_lookup *l, rhumb_model_values *r)
{
    const rhumb_key *key;
    int found;

    if (r->family->softcap == 0.0)
        return RHUMB_OK;
    RHUMB_TRY(rhumb_lookup_number(l, "attn_logit_softcapping", 1e-6, 1e6, &r->softcap, &found));
    if (found)
        return RHUMB_OK;
    RHUMB_TRY(rhumb_lookup_find(l, "attn_logit_softcapping", &key));
    if (key == NULL)
        rhumb_sourced_set(&r->softcap, r->family->softcap, "default of %s", r->family->model_type);
    return RHUMB_OK;
}
