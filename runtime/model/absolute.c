/* Models that add a row to each token: learned tables and sinusoids. */
#include "positions.h"

#include <math.h>
#include <stdio.h>

static const rhumb_stack_keys decoder_keys = {
    {"decoder_attention_heads"}, {"d_model"}, NULL, "decoder_layers"};

/* --- learned tables --- */

/* pad_token_id + 1 where positions are counted from there. */
static rhumb_result read_offset(const rhumb_lookup *l, const rhumb_position_family *f,
                                rhumb_positions *p, const rhumb_position_kind *kind,
                                int32_t *offset)
{
    rhumb_sourced pad;

    *offset = f->offset;
    if (!f->padded) {
        rhumb_position_note_number(p, kind, "position_offset", f->offset, "rule of %.64s",
                                   f->model_type);
        return RHUMB_OK;
    }
    RHUMB_TRY(rhumb_position_integer(l, f->model_type, "pad_token_id", 0, 1u << 24, 1, &pad));
    *offset = (int32_t)pad.value + 1;
    rhumb_position_note_number(p, kind, "position_offset", pad.value + 1.0, "%.80s + 1",
                               pad.source);
    return RHUMB_OK;
}

static rhumb_result add_table(const rhumb_lookup *l, const rhumb_position_family *f,
                              rhumb_positions *p, rhumb_position_kind *kind)
{
    rhumb_sourced rows;
    rhumb_sourced width = kind->width;
    int32_t offset;

    RHUMB_TRY(rhumb_lookup_need_integer(l, f->model_type, f->rows, 1, 1u << 30, &rows));
    if (f->table_width != NULL)
        RHUMB_TRY(rhumb_lookup_need_integer(l, f->model_type, f->table_width, 1, RHUMB_MOST_HIDDEN,
                                            &width));
    if (f->more_rows != 0) {
        char key[96];
        (void)snprintf(key, sizeof key, "%.80s", rows.source);
        rhumb_sourced_set(&rows, rows.value + f->more_rows, "%s + %u", key, (unsigned)f->more_rows);
    }
    rhumb_position_learned(p, kind, &rows, &width, 0);
    RHUMB_TRY(read_offset(l, f, p, kind, &offset));
    if (offset >= rows.value)
        return rhumb_lookup_fail(l, RHUMB_ERROR_CONFIG,
                                 "%s: wanted more rows than the offset %d, found %.0f", rows.source,
                                 (int)offset, rows.value);
    kind->absolute.learned.offset = offset;
    if (f->padded)
        rhumb_position_warn(l, p, "pad_token_id",
                            "position_offset is for positions from 0 on; for positions that count "
                            "real tokens up from pad_token_id + 1 it is 0");
    return RHUMB_OK;
}

rhumb_result rhumb_rule_learned(const rhumb_lookup *l, const rhumb_position_family *f,
                                rhumb_positions *p)
{
    rhumb_position_kind *kind;

    RHUMB_TRY(rhumb_position_add(l, p, "attention", &f->keys, &kind));
    RHUMB_TRY(rhumb_position_direction(l, f, kind));
    RHUMB_TRY(add_table(l, f, p, kind));
    if (strcmp(f->model_type, "opt") == 0)
        rhumb_position_warn(l, p, f->rows, "padding tokens have position -1, which reads row 1");
    return RHUMB_OK;
}

rhumb_result rhumb_rule_gpt2(const rhumb_lookup *l, const rhumb_position_family *f,
                             rhumb_positions *p)
{
    int scaled;
    int by_layer;

    RHUMB_TRY(rhumb_rule_learned(l, f, p));
    RHUMB_TRY(rhumb_position_bool(l, "scale_attn_weights", 1, &scaled));
    RHUMB_TRY(rhumb_position_bool(l, "scale_attn_by_inverse_layer_idx", 0, &by_layer));
    if (by_layer)
        return rhumb_lookup_fail(l, RHUMB_ERROR_CONFIG,
                                 "not implemented: %sscale_attn_by_inverse_layer_idx: wanted "
                                 "false, found true",
                                 l->scope);
    if (!scaled)
        rhumb_sourced_set(&p->kinds[0].scale, 1.0, "%sscale_attn_weights", l->scope);
    return RHUMB_OK;
}

/* MosaicBERT, which leaves BERT's position_embedding_type as it was. */
static rhumb_result check_alibi_size(const rhumb_lookup *l, const char *type, int *alibi)
{
    rhumb_sourced size;

    RHUMB_TRY(rhumb_lookup_integer(l, "alibi_starting_size", 1, RHUMB_MOST_LENGTH, &size, alibi));
    if (*alibi && strcmp(type, "absolute") != 0 && strcmp(type, "alibi") != 0)
        return rhumb_lookup_fail(l, RHUMB_ERROR_CONFIG,
                                 "%sposition_embedding_type: wanted absolute or none with "
                                 "alibi_starting_size, found %.48s",
                                 l->scope, type);
    return RHUMB_OK;
}

rhumb_result rhumb_rule_bert(const rhumb_lookup *l, const rhumb_position_family *f,
                             rhumb_positions *p)
{
    const char *type = "absolute";
    rhumb_position_kind *kind;
    rhumb_sourced rows;
    int bert = strcmp(f->model_type, "bert") == 0;
    int alibi = 0;
    int found;

    RHUMB_TRY(rhumb_position_add(l, p, "attention", &f->keys, &kind));
    RHUMB_TRY(rhumb_position_direction(l, f, kind));
    RHUMB_TRY(rhumb_lookup_string(l, "position_embedding_type", &type, &found));
    if (bert)
        RHUMB_TRY(check_alibi_size(l, type, &alibi));
    if (alibi || (bert && strcmp(type, "alibi") == 0))
        return rhumb_position_alibi_encoder(
            l, f, p, kind, alibi ? "alibi_starting_size" : "position_embedding_type");
    if (strcmp(type, "absolute") == 0)
        return add_table(l, f, p, kind);
    if (strcmp(type, "relative_key") != 0 && strcmp(type, "relative_key_query") != 0)
        return rhumb_lookup_fail(l, RHUMB_ERROR_CONFIG,
                                 "%s%sposition_embedding_type: wanted absolute, relative_key%s, "
                                 "found %.48s",
                                 strcmp(type, "rotary") == 0 ? "not implemented: " : "", l->scope,
                                 bert ? ", relative_key_query or alibi" : " or relative_key_query",
                                 type);
    RHUMB_TRY(rhumb_lookup_need_integer(l, f->model_type, f->rows, 2, RHUMB_MOST_LENGTH, &rows));
    return rhumb_position_bert_keys(l, f, p, kind, &rows, strcmp(type, "relative_key_query") == 0);
}

/* --- encoders and decoders --- */

/* The factor of the embeddings: sqrt(d_model) where scale_embedding says so. */
static rhumb_result read_embedding_scale(const rhumb_lookup *l, rhumb_positions *p,
                                         const rhumb_position_kind *kind, double *scale)
{
    int scaled = 0;
    int found;

    RHUMB_TRY(rhumb_lookup_bool(l, "scale_embedding", &scaled, &found));
    if (!found)
        return rhumb_lookup_fail(l, RHUMB_ERROR_CONFIG, "%sscale_embedding: missing, needed by %s",
                                 l->scope, p->who);
    *scale = scaled ? sqrt(kind->width.value) : 1.0;
    rhumb_position_note_number(p, kind, "x_scale", *scale, "%sscale_embedding", l->scope);
    return RHUMB_OK;
}

rhumb_result rhumb_rule_bart(const rhumb_lookup *l, const rhumb_position_family *f,
                             rhumb_positions *p)
{
    const rhumb_stack_keys *const stacks[2] = {&f->keys, &decoder_keys};
    rhumb_position_kind *kind;
    uint32_t i;

    for (i = 0; i < 2; i++) {
        RHUMB_TRY(rhumb_position_add(l, p, i == 0 ? "encoder" : "decoder", stacks[i], &kind));
        rhumb_position_causal(kind, i == 1, NULL);
        RHUMB_TRY(add_table(l, f, p, kind));
        RHUMB_TRY(read_embedding_scale(l, p, kind, &kind->absolute.learned.x_scale));
    }
    return RHUMB_OK;
}

/* --- sinusoids --- */

static void note_sinusoid(rhumb_positions *p, rhumb_position_kind *kind)
{
    const rhumb_sinusoidal *s = &kind->absolute.sinusoidal;

    kind->layer.absolute_dim = (uint32_t)kind->width.value;
    rhumb_position_note_text(p, kind, "scheme", "sinusoidal", "rule of %.64s", p->who);
    rhumb_position_note(p, kind, "dim", &kind->width);
    rhumb_position_note_text(p, kind, "sinusoid_layout", "sin_first", "rule of %.64s", p->who);
    rhumb_position_note_text(p, kind, "frequency",
                             s->frequency == RHUMB_FREQUENCY_PAPER ? "paper" : "endpoint",
                             "rule of %.64s", p->who);
}

static rhumb_result add_sinusoid(const rhumb_lookup *l, const rhumb_position_family *f,
                                 rhumb_positions *p, rhumb_position_kind *kind)
{
    rhumb_sinusoidal *s = &kind->absolute.sinusoidal;
    rhumb_sourced pad;

    rhumb_init_sinusoidal(s);
    s->layout = RHUMB_SINUSOID_SIN_FIRST;
    s->frequency =
        f->sinusoid == RHUMB_SINUSOID_FAIRSEQ ? RHUMB_FREQUENCY_ENDPOINT : RHUMB_FREQUENCY_PAPER;
    s->odd = RHUMB_SINUSOID_ODD_ZERO;
    note_sinusoid(p, kind);
    if (f->sinusoid == RHUMB_SINUSOID_MARIAN) {
        rhumb_position_note_text(p, kind, "position_offset", "0", "rule of %.64s", f->model_type);
        s->odd = RHUMB_SINUSOID_ODD_NATIVE;
    } else {
        RHUMB_TRY(rhumb_position_integer(l, f->model_type, "pad_token_id", 0, 1u << 24, 1, &pad));
        s->offset = (int32_t)pad.value + 1;
        s->padding_index = (int32_t)pad.value;
        rhumb_position_note_number(p, kind, "position_offset", s->offset, "%.80s + 1", pad.source);
        rhumb_position_note(p, kind, "padding_index", &pad);
        rhumb_position_warn(l, p, "pad_token_id",
                            "position_offset is for positions from 0 on and -1 for padding; for "
                            "positions that count real tokens up from pad_token_id + 1 it is 0");
    }
    return read_embedding_scale(l, p, kind, &s->x_scale);
}

rhumb_result rhumb_rule_sinusoidal(const rhumb_lookup *l, const rhumb_position_family *f,
                                   rhumb_positions *p)
{
    rhumb_position_kind *kind;

    RHUMB_TRY(rhumb_position_add(l, p, "encoder", &f->keys, &kind));
    RHUMB_TRY(add_sinusoid(l, f, p, kind));
    RHUMB_TRY(rhumb_position_add(l, p, "decoder", &decoder_keys, &kind));
    rhumb_position_causal(kind, 1, NULL);
    return add_sinusoid(l, f, p, kind);
}

/* A sinusoid in the encoder, a learned table in the decoder; neither scales the embeddings. */
rhumb_result rhumb_rule_whisper(const rhumb_lookup *l, const rhumb_position_family *f,
                                rhumb_positions *p)
{
    rhumb_position_kind *kind;
    rhumb_sinusoidal *s;
    rhumb_sourced frames;
    int scaled;

    RHUMB_TRY(rhumb_position_bool(l, "scale_embedding", 0, &scaled));
    if (scaled)
        return rhumb_lookup_fail(l, RHUMB_ERROR_CONFIG,
                                 "not implemented: %sscale_embedding: wanted false, found true",
                                 l->scope);
    RHUMB_TRY(rhumb_position_add(l, p, "encoder", &f->keys, &kind));
    RHUMB_TRY(rhumb_lookup_need_integer(l, f->model_type, "max_source_positions", 1,
                                        RHUMB_MOST_LENGTH, &frames));
    s = &kind->absolute.sinusoidal;
    rhumb_init_sinusoidal(s);
    s->layout = RHUMB_SINUSOID_SIN_FIRST;
    s->frequency = RHUMB_FREQUENCY_ENDPOINT;
    note_sinusoid(p, kind);
    rhumb_position_note(p, kind, "max_source_positions", &frames);
    RHUMB_TRY(rhumb_position_add(l, p, "decoder", &decoder_keys, &kind));
    rhumb_position_causal(kind, 1, NULL);
    return add_table(l, f, p, kind);
}
