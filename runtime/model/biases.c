/* Models whose logits get a number for the distance: T5's buckets and ALiBi's slopes. */
#include "positions.h"

#include <stdio.h>

#define MOST_BUCKETS 65536u

/* --- T5's buckets --- */

static rhumb_result read_buckets(const rhumb_lookup *l, const rhumb_position_family *f,
                                 rhumb_sourced *buckets, rhumb_sourced *distance)
{
    RHUMB_TRY(rhumb_position_integer(l, f->model_type, f->buckets_key, 1, MOST_BUCKETS, f->buckets,
                                     buckets));
    return rhumb_position_integer(l, f->model_type, f->distance_key, 1, RHUMB_MOST_LENGTH,
                                  f->distance, distance);
}

static rhumb_result set_buckets(const rhumb_lookup *l, const rhumb_position_family *f,
                                rhumb_positions *p, rhumb_position_kind *kind, int causal)
{
    rhumb_t5 *t5 = &kind->relative.t5;
    rhumb_sourced buckets;
    rhumb_sourced distance;

    RHUMB_TRY(read_buckets(l, f, &buckets, &distance));
    rhumb_init_t5(t5);
    t5->num_buckets = (uint32_t)buckets.value;
    t5->max_distance = (uint32_t)distance.value;
    t5->bidirectional = !causal;
    rhumb_position_causal(kind, causal, NULL);
    (void)snprintf(kind->scheme_source, sizeof kind->scheme_source, "%.95s", buckets.source);
    rhumb_position_note_text(p, kind, "scheme", "t5", "rule of %.64s", f->model_type);
    rhumb_position_note(p, kind, "num_buckets", &buckets);
    rhumb_position_note(p, kind, "max_distance", &distance);
    rhumb_position_note_text(p, kind, "bidirectional", causal ? "false" : "true", "rule of %.64s",
                             f->model_type);
    return RHUMB_OK;
}

static rhumb_result add_t5(const rhumb_lookup *l, const rhumb_position_family *f,
                           rhumb_positions *p, const char *name, const char *layers)
{
    rhumb_stack_keys keys = f->keys;
    rhumb_position_kind *kind;

    keys.layers = layers;
    RHUMB_TRY(rhumb_position_add(l, p, name, &keys, &kind));
    rhumb_sourced_set(&kind->scale, 1.0, "rule of %.64s", f->model_type);
    return set_buckets(l, f, p, kind, strcmp(name, "decoder") == 0);
}

/* LongT5: a query of the encoder sees local_radius keys to each side. */
static rhumb_result set_local(const rhumb_lookup *l, const rhumb_position_family *f,
                              rhumb_positions *p, rhumb_position_kind *kind)
{
    const char *type = "local";
    rhumb_sourced radius;
    int found;

    RHUMB_TRY(rhumb_lookup_string(l, "encoder_attention_type", &type, &found));
    if (strcmp(type, "local") != 0 && strcmp(type, "transient-global") != 0)
        return rhumb_lookup_fail(
            l, RHUMB_ERROR_CONFIG,
            "%sencoder_attention_type: wanted local or transient-global, found "
            "%.48s",
            l->scope, type);
    RHUMB_TRY(rhumb_lookup_need_integer(l, f->model_type, "local_radius", 1, 1u << 24, &radius));
    kind->layer.window_left = (int32_t)radius.value + 1;
    kind->layer.window_right = (int32_t)radius.value;
    rhumb_position_note(p, kind, "local_radius", &radius);
    if (strcmp(type, "local") != 0)
        rhumb_position_warn(l, p, "encoder_attention_type",
                            "the encoder also sees averages of its blocks, with buckets of their "
                            "own; attention here does not do that");
    return RHUMB_OK;
}

/* The decoder has as many layers as the encoder unless a key says otherwise. */
static const char *decoder_layers(const rhumb_lookup *l)
{
    rhumb_sourced count;
    int found;

    if (rhumb_lookup_integer(l, "num_decoder_layers", 1, RHUMB_MAX_LAYERS, &count, &found) ==
            RHUMB_OK &&
        !found)
        return "num_layers";
    return "num_decoder_layers"; /* refused where it is read, if it is no number */
}

rhumb_result rhumb_rule_t5(const rhumb_lookup *l, const rhumb_position_family *f,
                           rhumb_positions *p)
{
    int both;
    int decoder;

    RHUMB_TRY(rhumb_position_bool(l, "is_encoder_decoder", 1, &both));
    RHUMB_TRY(rhumb_position_bool(l, "is_decoder", 0, &decoder));
    if (both || !decoder)
        RHUMB_TRY(add_t5(l, f, p, "encoder", "num_layers"));
    if (p->kind_count > 0 && strcmp(f->model_type, "longt5") == 0)
        RHUMB_TRY(set_local(l, f, p, &p->kinds[0]));
    if (both || decoder)
        RHUMB_TRY(add_t5(l, f, p, "decoder", both ? decoder_layers(l) : "num_layers"));
    rhumb_position_warn(l, p, "d_kv", "logits are not divided by sqrt(d_kv): their scale is 1");
    rhumb_position_warn(l, p, f->buckets_key,
                        strcmp(f->model_type, "umt5") == 0
                            ? "every layer has a table of its own"
                            : "the first layer's table serves all layers of its stack");
    if (both)
        rhumb_position_warn(l, p, "is_encoder_decoder",
                            "cross-attention has no bias: plain attention with scale 1");
    return RHUMB_OK;
}

/* Encoders with T5's buckets beside 1/sqrt(head_dim). */
rhumb_result rhumb_rule_t5_encoder(const rhumb_lookup *l, const rhumb_position_family *f,
                                   rhumb_positions *p)
{
    rhumb_position_kind *kind;
    rhumb_sourced rows;
    rhumb_sourced pad;

    RHUMB_TRY(rhumb_position_add(l, p, "attention", &f->keys, &kind));
    RHUMB_TRY(set_buckets(l, f, p, kind, 0));
    if (f->rows == NULL) {
        rhumb_position_warn(l, p, "num_buckets",
                            "the first layer's table serves all layers; each layer multiplies the "
                            "bias by gates from its own input: bind them as ROW_SCALE");
        rhumb_position_warn(l, p, "num_conv_pos_embeddings",
                            "a convolution in front of the layers also tells positions");
        return RHUMB_OK;
    }
    RHUMB_TRY(rhumb_lookup_need_integer(l, f->model_type, f->rows, 1, RHUMB_MOST_LENGTH, &rows));
    RHUMB_TRY(rhumb_position_integer(l, f->model_type, "pad_token_id", 0, 1u << 24, 1, &pad));
    rhumb_position_learned(p, kind, &rows, &kind->width, (int32_t)pad.value + 1);
    rhumb_position_note_number(p, kind, "position_offset", pad.value + 1.0, "%.80s + 1",
                               pad.source);
    return RHUMB_OK;
}

/* --- ALiBi --- */

static const char *form_name(rhumb_alibi_form form)
{
    static const char *const names[] = {"symmetric", "relative", "key_index", "last_key",
                                        "key_position"};

    return names[form];
}

static void set_alibi(const rhumb_position_family *f, rhumb_positions *p, rhumb_position_kind *kind,
                      rhumb_alibi_form form, int causal)
{
    rhumb_init_alibi(&kind->relative.alibi);
    kind->relative.alibi.form = form;
    rhumb_position_causal(kind, causal, NULL);
    rhumb_position_note_text(p, kind, "scheme", "alibi", "rule of %.64s", f->model_type);
    rhumb_position_note_text(p, kind, "alibi_slopes", "paper", "rule of %.64s", f->model_type);
    rhumb_position_note_text(p, kind, "alibi_form", form_name(form), "rule of %.64s",
                             f->model_type);
}

static void warn_key_index(const rhumb_lookup *l, rhumb_positions *p)
{
    rhumb_position_warn(l, p, "model_type",
                        "the bias is slope times the key's index, which counts real tokens where "
                        "there is padding: alibi_form key_position");
}

rhumb_result rhumb_rule_bloom(const rhumb_lookup *l, const rhumb_position_family *f,
                              rhumb_positions *p)
{
    rhumb_position_kind *kind;

    RHUMB_TRY(rhumb_position_add(l, p, "attention", &f->keys, &kind));
    set_alibi(f, p, kind, RHUMB_ALIBI_KEY_INDEX, 1);
    warn_key_index(l, p);
    return RHUMB_OK;
}

/* Without the key alibi falcon is a rotary model: its heads are counted as there. */
rhumb_result rhumb_rule_falcon(const rhumb_lookup *l, const rhumb_position_family *f,
                               rhumb_positions *p)
{
    rhumb_position_kind *kind;
    rhumb_sourced kv_heads;

    RHUMB_TRY(rhumb_position_add(l, p, "attention", &f->keys, &kind));
    RHUMB_TRY(rhumb_model_falcon_kv(l, &kind->heads, &kv_heads));
    kind->kv_heads = kv_heads;
    RHUMB_TRY(rhumb_position_size(l, kind));
    set_alibi(f, p, kind, RHUMB_ALIBI_KEY_INDEX, 1);
    kind->relative.alibi.bias_times_scale = 1;
    rhumb_position_note_text(p, kind, "bias_times_scale", "true", "rule of %.64s", f->model_type);
    rhumb_position_warn(
        l, p, "alibi",
        "the bias is added before 1/sqrt(head_dim); the model rounds it to bfloat16,"
        " which is not done here");
    warn_key_index(l, p);
    return RHUMB_OK;
}

/* What would change attention and is not done. */
static rhumb_result check_mpt(const rhumb_lookup *l)
{
    static const char *const switches[] = {"attn_config.prefix_lm", "attn_config.rope"};
    const rhumb_key *key;
    int alibi = 0;
    int found;
    int on;
    size_t i;

    RHUMB_TRY(rhumb_lookup_bool(l, "attn_config.alibi", &alibi, &found));
    if (!found)
        return rhumb_lookup_fail(l, RHUMB_ERROR_CONFIG,
                                 "%sattn_config.alibi: missing, needed by mpt", l->scope);
    if (!alibi)
        return rhumb_lookup_fail(l, RHUMB_ERROR_CONFIG,
                                 "not implemented: %sattn_config.alibi: wanted true, found false",
                                 l->scope);
    for (i = 0; i < sizeof switches / sizeof switches[0]; i++) {
        RHUMB_TRY(rhumb_position_bool(l, switches[i], 0, &on));
        if (on)
            return rhumb_lookup_fail(l, RHUMB_ERROR_CONFIG,
                                     "not implemented: %s%s: wanted false, found true", l->scope,
                                     switches[i]);
    }
    RHUMB_TRY(rhumb_lookup_find(l, "attn_config.sliding_window_size", &key));
    if (key != NULL && key->kind == RHUMB_VALUE_NUMBER && key->number != -1.0)
        return rhumb_lookup_fail(l, RHUMB_ERROR_CONFIG, "not implemented: %s: wanted -1, found %g",
                                 key->path, key->number);
    return RHUMB_OK;
}

static rhumb_result mpt_kv_heads(const rhumb_lookup *l, rhumb_sourced *kv_heads)
{
    const char *type = "multihead_attention";
    int found;

    RHUMB_TRY(rhumb_lookup_string(l, "attn_config.attn_type", &type, &found));
    if (strcmp(type, "multihead_attention") == 0)
        return RHUMB_OK; /* as many as query heads */
    if (strcmp(type, "grouped_query_attention") == 0)
        return rhumb_lookup_need_integer(l, type, "attn_config.kv_n_heads", 1, RHUMB_MOST_HEADS,
                                         kv_heads);
    if (strcmp(type, "multiquery_attention") != 0)
        return rhumb_lookup_fail(l, RHUMB_ERROR_CONFIG,
                                 "%sattn_config.attn_type: wanted multihead_attention, "
                                 "multiquery_attention or grouped_query_attention, found %.48s",
                                 l->scope, type);
    rhumb_sourced_set(kv_heads, 1.0, "%.40sattn_config.attn_type", l->scope);
    return RHUMB_OK;
}

rhumb_result rhumb_rule_mpt(const rhumb_lookup *l, const rhumb_position_family *f,
                            rhumb_positions *p)
{
    rhumb_position_kind *kind;
    rhumb_sourced most;
    rhumb_sourced scale;
    rhumb_sourced kv_heads = {0};
    int found;

    RHUMB_TRY(check_mpt(l));
    RHUMB_TRY(rhumb_position_add(l, p, "attention", &f->keys, &kind));
    RHUMB_TRY(mpt_kv_heads(l, &kv_heads));
    if (kv_heads.value != 0.0)
        kind->kv_heads = kv_heads;
    RHUMB_TRY(rhumb_position_size(l, kind));
    RHUMB_TRY(rhumb_lookup_number(l, "attn_config.softmax_scale", 1e-30, 1e30, &scale, &found));
    if (found)
        kind->scale = scale;
    set_alibi(f, p, kind, RHUMB_ALIBI_LAST_KEY, 1);
    RHUMB_TRY(rhumb_lookup_number(l, "attn_config.alibi_bias_max", 1e-30, 1e30, &most, &found));
    if (!found)
        rhumb_sourced_set(&most, 8.0, "default of mpt");
    kind->relative.alibi.bias_max = most.value;
    rhumb_position_note(p, kind, "alibi_bias_max", &most);
    return RHUMB_OK;
}

/* BERT with ALiBi in place of its table, on both sides. */
rhumb_result rhumb_position_alibi_encoder(const rhumb_lookup *l, const rhumb_position_family *f,
                                          rhumb_positions *p, rhumb_position_kind *kind,
                                          const char *key)
{
    if (kind->layer.causal)
        return rhumb_lookup_fail(l, RHUMB_ERROR_CONFIG,
                                 "%sis_decoder: wanted false with %s, found true", l->scope, key);
    set_alibi(f, p, kind, RHUMB_ALIBI_SYMMETRIC, 0);
    (void)snprintf(kind->scheme_source, sizeof kind->scheme_source, "%.90s", key);
    return RHUMB_OK;
}
