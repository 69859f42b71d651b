/* Models whose logits get a vector's product for the distance: Shaw's kind, Transformer-XL, XLNet
 * and DeBERTa. */
#include "positions.h"

#include <math.h>
#include <stdio.h>

/* --- Shaw's kind --- */

static void set_shaw(const rhumb_position_family *f, rhumb_positions *p, rhumb_position_kind *kind,
                     rhumb_relative_index index, uint32_t left, uint32_t right)
{
    rhumb_shaw *shaw = &kind->relative.shaw;

    rhumb_init_shaw(shaw);
    shaw->index = index;
    shaw->clip_left = left;
    shaw->clip_right = right;
    rhumb_position_note_text(p, kind, "scheme", "shaw", "rule of %.64s", f->model_type);
    rhumb_position_note_text(p, kind, "index",
                             index == RHUMB_KEY_MINUS_QUERY ? "key_minus_query" : "query_minus_key",
                             "rule of %.64s", f->model_type);
}

rhumb_result rhumb_position_bert_keys(const rhumb_lookup *l, const rhumb_position_family *f,
                                      rhumb_positions *p, rhumb_position_kind *kind,
                                      const rhumb_sourced *length, int with_keys)
{
    uint32_t reach = (uint32_t)length->value - 1;

    if (length->value > (double)RHUMB_MAX_LENGTH)
        return rhumb_lookup_fail(l, RHUMB_ERROR_CONFIG, "%s: wanted at most %u, found %.0f",
                                 length->source, (unsigned)RHUMB_MAX_LENGTH, length->value);
    set_shaw(f, p, kind, RHUMB_QUERY_MINUS_KEY, reach, reach);
    kind->relative.shaw.beyond = RHUMB_BEYOND_REFUSE;
    (void)snprintf(kind->scheme_source, sizeof kind->scheme_source, "%.95s", length->source);
    rhumb_position_note_number(p, kind, "table_rows", 2.0 * length->value - 1.0, "2 %.80s - 1",
                               length->source);
    rhumb_position_note_text(p, kind, "terms", with_keys ? "c2p, p2c" : "c2p",
                             "%.40sposition_embedding_type", l->scope);
    if (with_keys)
        rhumb_position_warn(l, p, "position_embedding_type",
                            "one table serves queries and keys: bind it as QUERY_TABLE and as "
                            "KEY_TABLE");
    return RHUMB_OK;
}

rhumb_result rhumb_rule_speecht5(const rhumb_lookup *l, const rhumb_position_family *f,
                                 rhumb_positions *p)
{
    static const rhumb_stack_keys decoder_keys = {
        {"decoder_attention_heads"}, {"hidden_size"}, NULL, "decoder_layers"};
    rhumb_position_kind *kind;
    rhumb_sourced reach;

    RHUMB_TRY(rhumb_position_add(l, p, "encoder", &f->keys, &kind));
    RHUMB_TRY(rhumb_lookup_need_integer(l, f->model_type, "encoder_max_relative_position", 1,
                                        (uint32_t)RHUMB_MAX_LENGTH, &reach));
    set_shaw(f, p, kind, RHUMB_QUERY_MINUS_KEY, (uint32_t)reach.value, (uint32_t)reach.value - 1);
    (void)snprintf(kind->scheme_source, sizeof kind->scheme_source, "%.95s", reach.source);
    rhumb_position_note_number(p, kind, "table_rows", 2.0 * reach.value, "2 %.80s", reach.source);
    RHUMB_TRY(rhumb_position_add(l, p, "decoder", &decoder_keys, &kind));
    rhumb_position_causal(kind, 1, NULL);
    rhumb_position_note_text(p, kind, "scheme", "none", "rule of %.64s", f->model_type);
    rhumb_position_warn(l, p, "model_type",
                        "the networks in front of encoder and decoder add positions of their own: "
                        "a sinusoid with a learned factor, for speech after a convolution");
    return RHUMB_OK;
}

/* Conformers; relative_key is Shaw's, relative Transformer-XL's on both sides. */
rhumb_result rhumb_rule_wav2vec2(const rhumb_lookup *l, const rhumb_position_family *f,
                                 rhumb_positions *p)
{
    rhumb_position_kind *kind;
    rhumb_transformer_xl *xl;
    rhumb_sourced left;
    rhumb_sourced right;
    const char *type = "none";
    int found;

    RHUMB_TRY(rhumb_position_add(l, p, "attention", &f->keys, &kind));
    RHUMB_TRY(rhumb_lookup_string(l, "position_embeddings_type", &type, &found));
    if (strcmp(type, "relative_key") == 0) {
        RHUMB_TRY(rhumb_lookup_need_integer(l, f->model_type, "left_max_position_embeddings", 0,
                                            (uint32_t)RHUMB_MAX_LENGTH - 1, &left));
        RHUMB_TRY(rhumb_lookup_need_integer(l, f->model_type, "right_max_position_embeddings", 0,
                                            (uint32_t)RHUMB_MAX_LENGTH - 1, &right));
        set_shaw(f, p, kind, RHUMB_KEY_MINUS_QUERY, (uint32_t)left.value, (uint32_t)right.value);
        (void)snprintf(kind->scheme_source, sizeof kind->scheme_source, "%.95s", left.source);
        rhumb_position_note(p, kind, "clip_left", &left);
        rhumb_position_note(p, kind, "clip_right", &right);
        rhumb_position_note_number(p, kind, "table_rows", left.value + right.value + 1.0,
                                   "left + right + 1");
        return RHUMB_OK;
    }
    if (strcmp(type, "relative") != 0)
        return rhumb_lookup_fail(l, RHUMB_ERROR_CONFIG,
                                 "not implemented: %sposition_embeddings_type: wanted relative_key "
                                 "or relative, found %.48s",
                                 l->scope, type);
    xl = &kind->relative.transformer_xl;
    rhumb_init_transformer_xl(xl);
    xl->bidirectional = 1;
    rhumb_position_note_text(p, kind, "scheme", "transformer_xl", "%.40sposition_embeddings_type",
                             l->scope);
    rhumb_position_note_text(p, kind, "sinusoid_layout", "interleaved", "rule of %.64s",
                             f->model_type);
    rhumb_position_warn(l, p, "position_embeddings_type",
                        "the sinusoid of the distances is INTERLEAVED, where Transformer-XL has "
                        "SIN_FIRST");
    return RHUMB_OK;
}

/* --- Transformer-XL and XLNet --- */

/* clamp_len; none where it is not above 0. */
static rhumb_result read_clamp(const rhumb_lookup *l, rhumb_positions *p, rhumb_position_kind *kind,
                               uint32_t *clamp)
{
    rhumb_sourced length;
    int found;

    RHUMB_TRY(rhumb_lookup_number(l, "clamp_len", -2147483648.0, 2147483647.0, &length, &found));
    if (found && floor(length.value) != length.value)
        return rhumb_lookup_fail(l, RHUMB_ERROR_CONFIG, "%s: wanted an integer, found %g",
                                 length.source, length.value);
    if (!found)
        rhumb_sourced_set(&length, -1.0, "default of %s", p->who);
    *clamp = length.value > 0.0 ? (uint32_t)length.value : 0;
    (void)snprintf(kind->scheme_source, sizeof kind->scheme_source, "%.95s", length.source);
    rhumb_position_note(p, kind, "clamp_len", &length);
    return RHUMB_OK;
}

static rhumb_result read_memory(const rhumb_lookup *l, rhumb_positions *p,
                                const rhumb_position_kind *kind)
{
    rhumb_sourced memory;
    int same;
    int found;

    RHUMB_TRY(rhumb_lookup_integer(l, "mem_len", 0, RHUMB_MOST_LENGTH, &memory, &found));
    if (found)
        rhumb_position_note(p, kind, "mem_len", &memory);
    RHUMB_TRY(rhumb_position_bool(l, "same_length", 0, &same));
    if (same)
        rhumb_position_warn(l, p, "same_length",
                            "every query sees as many keys: a mask of the host's, which follows "
                            "the length of the memory");
    return RHUMB_OK;
}

rhumb_result rhumb_rule_transfo_xl(const rhumb_lookup *l, const rhumb_position_family *f,
                                   rhumb_positions *p)
{
    rhumb_position_kind *kind;
    rhumb_sourced type;
    int found;

    RHUMB_TRY(rhumb_lookup_integer(l, "attn_type", 0, 3, &type, &found));
    if (found && type.value != 0.0)
        return rhumb_lookup_fail(l, RHUMB_ERROR_CONFIG, "not implemented: %s: wanted 0, found %.0f",
                                 type.source, type.value);
    RHUMB_TRY(rhumb_position_add(l, p, "attention", &f->keys, &kind));
    rhumb_init_transformer_xl(&kind->relative.transformer_xl);
    rhumb_position_causal(kind, 1, NULL);
    rhumb_position_note_text(p, kind, "scheme", "transformer_xl", "rule of %.64s", f->model_type);
    RHUMB_TRY(read_clamp(l, p, kind, &kind->relative.transformer_xl.clamp_len));
    return read_memory(l, p, kind);
}

static rhumb_result read_xlnet_type(const rhumb_lookup *l, rhumb_positions *p,
                                    rhumb_position_kind *kind)
{
    const char *type = "bi";
    int both;
    int found;

    RHUMB_TRY(rhumb_lookup_string(l, "attn_type", &type, &found));
    both = strcmp(type, "bi") == 0;
    if (!both && strcmp(type, "uni") != 0)
        return rhumb_lookup_fail(l, RHUMB_ERROR_CONFIG,
                                 "%sattn_type: wanted bi or uni, found %.48s", l->scope, type);
    kind->relative.xlnet.bidirectional = (uint32_t)both;
    rhumb_position_causal(kind, !both, found ? "attn_type" : NULL);
    rhumb_position_note_text(p, kind, "attn_type", type, "%s%.64s",
                             found ? l->scope : "default of ", found ? "attn_type" : p->who);
    return RHUMB_OK;
}

rhumb_result rhumb_rule_xlnet(const rhumb_lookup *l, const rhumb_position_family *f,
                              rhumb_positions *p)
{
    rhumb_position_kind *kind;
    rhumb_sourced stated;
    int flip;
    int found;

    RHUMB_TRY(rhumb_position_add(l, p, "attention", &f->keys, &kind));
    RHUMB_TRY(rhumb_lookup_integer(l, "d_head", 1, RHUMB_MOST_HEAD_DIM, &stated, &found));
    if (found && stated.value != kind->head_dim.value)
        return rhumb_lookup_fail(l, RHUMB_ERROR_CONFIG, "%s: wanted %.0f (%s), found %.0f",
                                 stated.source, kind->head_dim.value, kind->head_dim.source,
                                 stated.value);
    rhumb_init_xlnet(&kind->relative.xlnet);
    rhumb_position_note_text(p, kind, "scheme", "xlnet", "rule of %.64s", f->model_type);
    RHUMB_TRY(read_xlnet_type(l, p, kind));
    RHUMB_TRY(read_clamp(l, p, kind, &kind->relative.xlnet.clamp_len));
    RHUMB_TRY(rhumb_position_bool(l, "bi_data", 0, &flip));
    kind->relative.xlnet.flip_half = (uint32_t)flip;
    rhumb_position_note_text(p, kind, "bi_data", flip ? "true" : "false", "%.40sbi_data", l->scope);
    if (flip)
        rhumb_position_warn(l, p, "bi_data",
                            "distances of the batch's second half change sign: a batch of one "
                            "direction wants false");
    return read_memory(l, p, kind);
}

/* --- DeBERTa --- */

typedef struct deberta_terms {
    int c2p;
    int p2c;
    char text[16];
    char source[96];
} deberta_terms;

static rhumb_result take_term(const rhumb_lookup *l, const char *name, size_t length,
                              deberta_terms *terms)
{
    int *term = length == 3 && strncmp(name, "c2p", 3) == 0   ? &terms->c2p
                : length == 3 && strncmp(name, "p2c", 3) == 0 ? &terms->p2c
                                                              : NULL;

    if (term == NULL || *term)
        return rhumb_lookup_fail(l, RHUMB_ERROR_CONFIG,
                                 "%spos_att_type: wanted c2p and p2c once each or one of them, "
                                 "found %.*s%s",
                                 l->scope, (int)(length < 48 ? length : 48), name,
                                 term != NULL ? " twice" : "");
    *term = 1;
    return RHUMB_OK;
}

/* "c2p|p2c", or a list of the names. */
static rhumb_result read_terms(const rhumb_lookup *l, const char *who, deberta_terms *terms)
{
    const rhumb_key *key;
    const char *at;
    char have[80];
    uint32_t i;

    memset(terms, 0, sizeof *terms);
    RHUMB_TRY(rhumb_lookup_find(l, "pos_att_type", &key));
    if (key == NULL || key->kind == RHUMB_VALUE_NULL)
        return rhumb_lookup_fail(l, RHUMB_ERROR_CONFIG, "%spos_att_type: missing, needed by %s",
                                 l->scope, who);
    if (key->kind != RHUMB_VALUE_STRING && key->kind != RHUMB_VALUE_LIST)
        return rhumb_lookup_fail(l, RHUMB_ERROR_CONFIG, "%s: wanted a string or a list, found %s",
                                 key->path, rhumb_lookup_print(key, have, sizeof have));
    for (at = key->string; key->kind == RHUMB_VALUE_STRING; at += strcspn(at, "|") + 1) {
        RHUMB_TRY(take_term(l, at, strcspn(at, "|"), terms));
        if (at[strcspn(at, "|")] == '\0')
            break;
    }
    for (i = 0; key->kind == RHUMB_VALUE_LIST && i < key->count; i++) {
        const rhumb_key *item = &key->items[i];
        const char *name = item->kind == RHUMB_VALUE_STRING
                               ? item->string
                               : rhumb_lookup_print(item, have, sizeof have);
        RHUMB_TRY(take_term(l, name, strlen(name), terms));
    }
    if (!terms->c2p && !terms->p2c)
        return rhumb_lookup_fail(l, RHUMB_ERROR_CONFIG,
                                 "%s: wanted c2p, p2c or both, found an empty list", key->path);
    (void)snprintf(terms->text, sizeof terms->text, "c2c%s%s", terms->c2p ? ", c2p" : "",
                   terms->p2c ? ", p2c" : "");
    (void)snprintf(terms->source, sizeof terms->source, "%.95s", key->path);
    return RHUMB_OK;
}

/* The key; below 1, and without it, max_position_embeddings. */
static rhumb_result read_reach(const rhumb_lookup *l, const char *who, rhumb_sourced *reach)
{
    rhumb_sourced length;
    int found;

    RHUMB_TRY(
        rhumb_lookup_number(l, "max_relative_positions", -1.0, RHUMB_MOST_LENGTH, reach, &found));
    if (found && floor(reach->value) != reach->value)
        return rhumb_lookup_fail(l, RHUMB_ERROR_CONFIG, "%s: wanted an integer, found %g",
                                 reach->source, reach->value);
    if (found && reach->value >= 1.0)
        return RHUMB_OK;
    RHUMB_TRY(rhumb_lookup_need_integer(l, who, "max_position_embeddings", 1, RHUMB_MOST_LENGTH,
                                        &length));
    rhumb_sourced_set(reach, length.value, "%.60s, as max_relative_positions is %s", length.source,
                      found ? "below 1" : "missing");
    return RHUMB_OK;
}

static rhumb_result read_position_buckets(const rhumb_lookup *l, rhumb_positions *p,
                                          rhumb_position_kind *kind, double *span)
{
    rhumb_sourced buckets;
    rhumb_sourced reach;
    int found;

    RHUMB_TRY(read_reach(l, p->who, &reach));
    RHUMB_TRY(rhumb_lookup_number(l, "position_buckets", -1.0, 65536.0, &buckets, &found));
    if (found && (floor(buckets.value) != buckets.value || buckets.value == 0.0))
        return rhumb_lookup_fail(l, RHUMB_ERROR_CONFIG,
                                 "%s: wanted -1 (none) or an integer from 2 on, found %g",
                                 buckets.source, buckets.value);
    if (found && buckets.value > 0.0 && strcmp(p->who, "deberta") == 0)
        return rhumb_lookup_fail(l, RHUMB_ERROR_CONFIG,
                                 "%s: wanted none (rule of deberta), found %.0f", buckets.source,
                                 buckets.value);
    *span = reach.value;
    kind->relative.deberta.max_relative_positions = (uint32_t)reach.value;
    (void)snprintf(kind->scheme_source, sizeof kind->scheme_source, "%.95s", reach.source);
    if (found && buckets.value > 0.0) {
        *span = buckets.value;
        kind->relative.deberta.position_buckets = (uint32_t)buckets.value;
        (void)snprintf(kind->scheme_source, sizeof kind->scheme_source, "%.95s", buckets.source);
        rhumb_position_note(p, kind, "position_buckets", &buckets);
    }
    rhumb_position_note(p, kind, "max_relative_positions", &reach);
    return RHUMB_OK;
}

static rhumb_result set_deberta(const rhumb_lookup *l, rhumb_positions *p,
                                rhumb_position_kind *kind)
{
    deberta_terms terms;
    double factor;
    double span = 0.0;
    int shared;

    RHUMB_TRY(read_terms(l, p->who, &terms));
    rhumb_init_deberta(&kind->relative.deberta);
    rhumb_position_note_text(p, kind, "scheme", "deberta", "rule of %.64s", p->who);
    RHUMB_TRY(read_position_buckets(l, p, kind, &span));
    rhumb_position_note_number(p, kind, "rel_embedding_rows", 2.0 * span, "2 %s",
                               kind->relative.deberta.position_buckets != 0
                                   ? "position_buckets"
                                   : "max_relative_positions");
    rhumb_position_note_text(p, kind, "terms", terms.text, "%s", terms.source);
    factor = 1.0 + terms.c2p + terms.p2c;
    rhumb_position_note_number(p, kind, "scale_factor", factor, "1 + terms of %.64s", terms.source);
    rhumb_sourced_set(&kind->scale, 1.0 / sqrt(factor * kind->head_dim.value),
                      "rule: (scale_factor head_dim)^-1/2");
    RHUMB_TRY(rhumb_position_bool(l, "share_att_key", 0, &shared));
    rhumb_position_note_text(p, kind, "share_att_key", shared ? "true" : "false",
                             "%.40sshare_att_key", l->scope);
    if (terms.p2c)
        rhumb_position_warn(l, p, "pos_att_type",
                            "p2c reads the row of c2p, as the released code does: not the paper's "
                            "index");
    return RHUMB_OK;
}

/* Terms that are named but off would still count in the scale of the released code. */
static rhumb_result check_no_terms(const rhumb_lookup *l)
{
    const rhumb_key *key;
    char have[80];

    RHUMB_TRY(rhumb_lookup_find(l, "pos_att_type", &key));
    if (key == NULL || key->kind == RHUMB_VALUE_NULL ||
        (key->kind == RHUMB_VALUE_LIST && key->count == 0))
        return RHUMB_OK;
    return rhumb_lookup_fail(l, RHUMB_ERROR_CONFIG,
                             "%s: wanted none without relative_attention, found %s", key->path,
                             rhumb_lookup_print(key, have, sizeof have));
}

/* The first layers of v2 have a convolution beside them. */
static rhumb_result warn_convolution(const rhumb_lookup *l, rhumb_positions *p)
{
    rhumb_sourced size;
    int found;

    RHUMB_TRY(rhumb_lookup_integer(l, "conv_kernel_size", 0, RHUMB_MOST_LENGTH, &size, &found));
    if (found && size.value > 0.0)
        rhumb_position_warn(l, p, "conv_kernel_size",
                            "a convolution runs beside the first layer: the host's");
    return RHUMB_OK;
}

rhumb_result rhumb_rule_deberta(const rhumb_lookup *l, const rhumb_position_family *f,
                                rhumb_positions *p)
{
    rhumb_position_kind *kind;
    rhumb_sourced rows;
    rhumb_sourced width;
    int relative;
    int added;
    int found;

    RHUMB_TRY(rhumb_position_add(l, p, "attention", &f->keys, &kind));
    RHUMB_TRY(rhumb_position_bool(l, "relative_attention", 0, &relative));
    RHUMB_TRY(rhumb_position_bool(l, "position_biased_input", 1, &added));
    if (relative)
        RHUMB_TRY(set_deberta(l, p, kind));
    else
        RHUMB_TRY(check_no_terms(l));
    rhumb_position_note_text(p, kind, "absolute_positions_added", added ? "true" : "false",
                             "%.40sposition_biased_input", l->scope);
    if (added) {
        RHUMB_TRY(
            rhumb_lookup_need_integer(l, f->model_type, f->rows, 1, RHUMB_MOST_LENGTH, &rows));
        RHUMB_TRY(rhumb_lookup_integer(l, "embedding_size", 1, RHUMB_MOST_HIDDEN, &width, &found));
        rhumb_position_learned(p, kind, &rows, found ? &width : &kind->width, 0);
        rhumb_position_note_text(p, kind, "position_offset", "0", "rule of %.64s", f->model_type);
    } else {
        if (!relative)
            rhumb_position_note_text(p, kind, "scheme", "none", "%.40srelative_attention",
                                     l->scope);
        rhumb_position_warn(l, p, "position_biased_input",
                            "absolute positions enter in the masked language model's head alone: "
                            "the Enhanced Mask Decoder");
    }
    return warn_convolution(l, p);
}
