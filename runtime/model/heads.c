/* Head counts and sizes, softmax scale: which keys hold them depends on the family. */
#include "resolve.h"

#include <float.h>
#include <math.h>
#include <stdio.h>

/* The key, else the row's number; 0: the key is needed, or, where `optional`, not known. */
static rhumb_result read_count(const rhumb_lookup *l, const rhumb_family *family, const char *key,
                               uint32_t most, uint32_t otherwise, uint32_t optional,
                               rhumb_sourced *value)
{
    int found;

    if (otherwise == 0 && !optional)
        return rhumb_lookup_need_integer(l, family->model_type, key, 1, most, value);
    RHUMB_TRY(rhumb_lookup_integer(l, key, 1, most, value, &found));
    if (!found)
        rhumb_sourced_set(value, otherwise,
                          otherwise != 0 ? "default of %s" : "%s: not in the configuration",
                          family->model_type);
    return RHUMB_OK;
}

static rhumb_result need_or_default(const rhumb_lookup *l, const rhumb_family *family,
                                    const char *key, uint32_t most, uint32_t otherwise,
                                    rhumb_sourced *value)
{
    return read_count(l, family, key, most, otherwise, 0, value);
}

/* Queries and keys are [nope | rope]; `head_dim`, where a file has it, is one of the widths. */
static rhumb_result resolve_mla(const rhumb_lookup *l, rhumb_model_values *r)
{
    const char *who = r->family->model_type;
    rhumb_sourced *head_dim = &r->types[0].head_dim;
    rhumb_sourced stated;
    double sum;
    int found;

    RHUMB_TRY(rhumb_lookup_need_integer(l, who, "qk_nope_head_dim", 1, RHUMB_MOST_HEAD_DIM,
                                        &r->nope_dim));
    RHUMB_TRY(rhumb_lookup_need_integer(l, who, "qk_rope_head_dim", 2, RHUMB_MOST_HEAD_DIM,
                                        &r->rope_dim));
    RHUMB_TRY(
        rhumb_lookup_need_integer(l, who, "v_head_dim", 1, RHUMB_MOST_HEAD_DIM, &r->value_dim));
    sum = r->nope_dim.value + r->rope_dim.value;
    rhumb_sourced_set(head_dim, sum, "%.48s + %.48s", r->nope_dim.source, r->rope_dim.source);
    if (sum > RHUMB_MOST_HEAD_DIM)
        return rhumb_lookup_fail(l, RHUMB_ERROR_CONFIG,
                                 "%s: wanted at most %u with qk_rope_head_dim %.0f, found %.0f",
                                 r->nope_dim.source, RHUMB_MOST_HEAD_DIM, r->rope_dim.value,
                                 r->nope_dim.value);
    RHUMB_TRY(rhumb_lookup_number(l, "head_dim", 0.0, DBL_MAX, &stated, &found));
    if (found && stated.value != sum && stated.value != r->rope_dim.value &&
        stated.value != r->nope_dim.value)
        return rhumb_lookup_fail(l, RHUMB_ERROR_CONFIG,
                                 "%s: wanted %.0f (%s) or %.0f (qk_rope_head_dim), found %g",
                                 stated.source, sum, head_dim->source, r->rope_dim.value,
                                 stated.value);
    return RHUMB_OK;
}

static rhumb_result resolve_split(const rhumb_lookup *l, rhumb_model_values *r,
                                  const char *hidden_key, const char *heads_key)
{
    rhumb_sourced *head_dim = &r->types[0].head_dim;
    rhumb_sourced hidden;

    RHUMB_TRY(rhumb_lookup_need_integer(l, r->family->model_type, hidden_key, 1, RHUMB_MOST_HIDDEN,
                                        &hidden));
    if (fmod(hidden.value, r->heads.value) != 0.0)
        return rhumb_lookup_fail(
            l, RHUMB_ERROR_CONFIG,
            "%s: wanted a multiple of %s %.0f (there is no head_dim), found %.0f", hidden.source,
            heads_key, r->heads.value, hidden.value);
    rhumb_sourced_set(head_dim, hidden.value / r->heads.value, "%.64s / %s", hidden.source,
                      heads_key);
    if (head_dim->value > RHUMB_MOST_HEAD_DIM)
        return rhumb_lookup_fail(l, RHUMB_ERROR_CONFIG,
                                 "%s: wanted at most %u for each head, found %.0f", hidden.source,
                                 RHUMB_MOST_HEAD_DIM, head_dim->value);
    return RHUMB_OK;
}

static rhumb_result resolve_head_dim(const rhumb_lookup *l, rhumb_model_values *r,
                                     const char *hidden_key, const char *heads_key)
{
    const rhumb_family *family = r->family;
    rhumb_sourced *head_dim = &r->types[0].head_dim;
    int found = 0;

    switch (family->head_rule) {
    case RHUMB_HEAD_CHANNELS:
        return need_or_default(l, family, "kv_channels", RHUMB_MOST_HEAD_DIM, 0, head_dim);
    case RHUMB_HEAD_MLA:
        return resolve_mla(l, r);
    case RHUMB_HEAD_GLOBAL:
        RHUMB_TRY(need_or_default(l, family, "global_head_dim", RHUMB_MOST_HEAD_DIM, 0, head_dim));
        return need_or_default(l, family, "head_dim", RHUMB_MOST_HEAD_DIM, family->head_dim,
                               &r->types[1].head_dim);
    case RHUMB_HEAD_KEY:
        RHUMB_TRY(need_or_default(l, family, "head_dim", RHUMB_MOST_HEAD_DIM, family->head_dim,
                                  head_dim));
        break;
    case RHUMB_HEAD_KEY_OR_SPLIT:
        RHUMB_TRY(rhumb_lookup_integer(l, "head_dim", 1, RHUMB_MOST_HEAD_DIM, head_dim, &found));
        if (!found)
            RHUMB_TRY(resolve_split(l, r, hidden_key, heads_key));
        break;
    }
    r->types[1].head_dim = *head_dim;
    return RHUMB_OK;
}

rhumb_result rhumb_model_falcon_kv(const rhumb_lookup *l, const rhumb_sourced *heads,
                                   rhumb_sourced *kv_heads)
{
    int grouped = 0;
    int multi_query = 1;
    int found;
    int stated;

    RHUMB_TRY(rhumb_lookup_bool(l, "new_decoder_architecture", &grouped, &found));
    RHUMB_TRY(rhumb_lookup_bool(l, "multi_query", &multi_query, &stated));
    if (!grouped && multi_query) {
        rhumb_sourced_set(kv_heads, 1.0, "%s",
                          stated ? "multi_query" : "default of falcon: multi_query");
        return RHUMB_OK;
    }
    RHUMB_TRY(rhumb_lookup_integer(l, "num_kv_heads", 1, RHUMB_MOST_HEADS, kv_heads, &found));
    if (!found)
        rhumb_sourced_set(kv_heads, heads->value, "default of falcon: num_attention_heads");
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
                                         &r->types[0].kv_heads);
    rhumb_sourced_set(&r->types[0].kv_heads, r->heads.value,
                      "%smulti_query_attention is false: num_attention_heads",
                      found ? "" : "default of chatglm: ");
    return RHUMB_OK;
}

/* Layers whose keys are their values have heads of their own number. */
static rhumb_result resolve_global_kv(const rhumb_lookup *l, rhumb_model_values *r)
{
    const rhumb_family *family = r->family;
    int same = 0;
    int found;

    RHUMB_TRY(need_or_default(l, family, "num_key_value_heads", RHUMB_MOST_HEADS, family->kv_heads,
                              &r->types[1].kv_heads));
    r->types[0].kv_heads = r->types[1].kv_heads;
    RHUMB_TRY(rhumb_lookup_bool(l, "attention_k_eq_v", &same, &found));
    if (!same)
        return RHUMB_OK;
    return rhumb_lookup_integer(l, "num_global_key_value_heads", 1, RHUMB_MOST_HEADS,
                                &r->types[0].kv_heads, &found);
}

/* The family has no key for it. One that is there all the same must not be overlooked. */
static rhumb_result resolve_same_kv(const rhumb_lookup *l, rhumb_model_values *r,
                                    const char *heads_key)
{
    rhumb_sourced stated;
    int found = 0;

    RHUMB_TRY(rhumb_lookup_integer(l, "num_key_value_heads", 1, RHUMB_MOST_HEADS, &stated, &found));
    if (found && stated.value != r->heads.value)
        return rhumb_lookup_fail(l, RHUMB_ERROR_CONFIG,
                                 "%s: wanted %.0f as %s (model_type %s), found %.0f", stated.source,
                                 r->heads.value, heads_key, r->family->model_type, stated.value);
    rhumb_sourced_set(&r->types[0].kv_heads, r->heads.value, "rule of %s: %s",
                      r->family->model_type, heads_key);
    return RHUMB_OK;
}

static rhumb_result resolve_kv_heads(const rhumb_lookup *l, rhumb_model_values *r,
                                     const char *heads_key)
{
    const rhumb_family *family = r->family;
    rhumb_sourced *kv_heads = &r->types[0].kv_heads;
    int found = 0;

    switch (family->kv_rule) {
    case RHUMB_KV_GLOBAL:
        return resolve_global_kv(l, r);
    case RHUMB_KV_KEY:
        RHUMB_TRY(read_count(l, family, "num_key_value_heads", RHUMB_MOST_HEADS, family->kv_heads,
                             family->no_heads, kv_heads));
        break;
    case RHUMB_KV_KEY_OR_HEADS:
        RHUMB_TRY(rhumb_lookup_integer(l, "num_key_value_heads", 1, RHUMB_MOST_HEADS, kv_heads,
                                       &found));
        if (!found)
            rhumb_sourced_set(kv_heads, r->heads.value, "default of %s: %s", family->model_type,
                              heads_key);
        break;
    case RHUMB_KV_FALCON:
        RHUMB_TRY(rhumb_model_falcon_kv(l, &r->heads, kv_heads));
        break;
    case RHUMB_KV_GROUPS:
        RHUMB_TRY(resolve_grouped_kv(l, r));
        break;
    case RHUMB_KV_HEADS:
        RHUMB_TRY(resolve_same_kv(l, r, heads_key));
        break;
    }
    r->types[1].kv_heads = *kv_heads;
    return RHUMB_OK;
}

rhumb_result rhumb_model_heads(const rhumb_lookup *l, rhumb_model_values *r)
{
    int gpt = r->family->names == RHUMB_NAMES_GPT;
    const char *hidden_key = gpt ? "n_embd" : "hidden_size";
    const char *heads_key = gpt ? "n_head" : "num_attention_heads";
    uint32_t i;

    RHUMB_TRY(read_count(l, r->family, heads_key, RHUMB_MOST_HEADS, r->family->heads,
                         r->family->no_heads, &r->heads));
    RHUMB_TRY(resolve_head_dim(l, r, hidden_key, heads_key));
    RHUMB_TRY(resolve_kv_heads(l, r, heads_key));
    for (i = 0; i < r->type_count; i++) {
        const rhumb_sourced *kv_heads = &r->types[i].kv_heads;
        if (r->heads.value != 0.0 && kv_heads->value != 0.0 &&
            fmod(r->heads.value, kv_heads->value) != 0.0)
            return rhumb_lookup_fail(l, RHUMB_ERROR_CONFIG,
                                     "kv_heads: wanted a divisor of %s %.0f, found %.0f (%s)",
                                     heads_key, r->heads.value, kv_heads->value, kv_heads->source);
    }
    return RHUMB_OK;
}

/* query_pre_attn_scalar^-1/2, attention_multiplier */
static rhumb_result scale_by_key(const rhumb_lookup *l, const rhumb_family *family,
                                 rhumb_sourced *scale)
{
    int is_factor = family->scale_rule == RHUMB_SCALE_MULTIPLIER;
    const char *key = is_factor ? "attention_multiplier" : "query_pre_attn_scalar";
    rhumb_sourced number;
    int found;

    RHUMB_TRY(rhumb_lookup_number(l, key, 1e-6, 1e6, &number, &found));
    if (!found && family->scalar == 0.0)
        return rhumb_lookup_fail(l, RHUMB_ERROR_CONFIG, "%s%s: missing, needed by %s", l->scope,
                                 key, family->model_type);
    if (!found)
        rhumb_sourced_set(&number, family->scalar, "%s", key);
    if (is_factor)
        *scale = number;
    else
        rhumb_sourced_set(scale, 1.0 / sqrt(number.value), "%.64s^-1/2%s%s", number.source,
                          found ? "" : ", default of ", found ? "" : family->model_type);
    return RHUMB_OK;
}

/* Where cos and sin carry nothing of YaRN's temperature (both mscale are equal), the logits do. */
static void scale_by_mscale(const rhumb_type_values *type, rhumb_sourced *scale)
{
    const rhumb_rope *rope = &type->schedule.rope;
    double root = 1.0 / sqrt(type->head_dim.value);
    double m = 0.1 * rope->mscale_all_dim * log(rope->factor) + 1.0;

    if (rope->scaling == RHUMB_ROPE_SCALING_YARN && rope->mscale_all_dim != 0.0)
        rhumb_sourced_set(scale, root * m * m,
                          "rule: head_dim^-1/2 * (0.1 mscale_all_dim ln factor + 1)^2");
    else
        rhumb_sourced_set(scale, root, "rule: head_dim^-1/2");
}

rhumb_result rhumb_model_scale(const rhumb_lookup *l, rhumb_model_values *r)
{
    uint32_t i;

    for (i = 0; i < r->type_count; i++) {
        rhumb_type_values *type = &r->types[i];
        switch (r->family->scale_rule) {
        case RHUMB_SCALE_HEAD_DIM:
            rhumb_sourced_set(&type->scale, 1.0 / sqrt(type->head_dim.value),
                              "rule: head_dim^-1/2");
            break;
        case RHUMB_SCALE_ONE:
            rhumb_sourced_set(&type->scale, 1.0, "rule of %s", r->family->model_type);
            break;
        case RHUMB_SCALE_MSCALE:
            scale_by_mscale(type, &type->scale);
            break;
        case RHUMB_SCALE_QUERY_SCALAR:
        case RHUMB_SCALE_MULTIPLIER:
            RHUMB_TRY(scale_by_key(l, r->family, &type->scale));
            break;
        }
    }
    return RHUMB_OK;
}

rhumb_result rhumb_model_softcap(const rhumb_lookup *l, rhumb_model_values *r)
{
    const rhumb_key *key;
    int found;

    RHUMB_TRY(rhumb_lookup_number(l, "attn_logit_softcapping", 1e-6, 1e6, &r->softcap, &found));
    if (found || r->family->softcap == 0.0)
        return RHUMB_OK;
    RHUMB_TRY(rhumb_lookup_find(l, "attn_logit_softcapping", &key));
    if (key == NULL)
        rhumb_sourced_set(&r->softcap, r->family->softcap, "default of %s", r->family->model_type);
    return RHUMB_OK;
}

/* Llama 4: queries of layers without rotary grow with the position. */
rhumb_result rhumb_model_temperature(const rhumb_lookup *l, rhumb_model_values *r)
{
    int on = 1;
    int found;

    if (r->family->window_rule != RHUMB_WINDOW_CHUNKS)
        return RHUMB_OK;
    RHUMB_TRY(rhumb_lookup_bool(l, "attn_temperature_tuning", &on, &found));
    if (!on)
        return RHUMB_OK;
    RHUMB_TRY(rhumb_lookup_number(l, "attn_scale", 0.0, 1e6, &r->temperature, &found));
    if (!found)
        rhumb_sourced_set(&r->temperature, 0.1, "default of %s", r->family->model_type);
    RHUMB_TRY(rhumb_lookup_number(l, "floor_scale", 1.0, RHUMB_MOST_LENGTH, &r->temperature_length,
                                  &found));
    if (!found)
        rhumb_sourced_set(&r->temperature_length, 8192.0, "default of %s", r->family->model_type);
    return RHUMB_OK;
}
