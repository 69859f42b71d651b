/* Models whose positions are not rotary: relative terms of attention, tables added to embeddings.
 * position_families.c has one row per model_type; biases.c (T5, ALiBi), relative.c (Shaw's kind,
 * Transformer-XL, XLNet, DeBERTa), absolute.c (tables and sinusoids of tokens), patches.c (grids of
 * patches) and windows.c (Swin, BEiT) follow its rules; positions.c has what they share, and writes
 * the result. */
#ifndef RHUMB_MODEL_POSITIONS_H
#define RHUMB_MODEL_POSITIONS_H

#include "resolve.h"

#define RHUMB_MOST_POSITION_KINDS 8u
#define RHUMB_MOST_POSITION_NOTES 128u

typedef union rhumb_relative {
    rhumb_header header; /* type 0: none */
    rhumb_shaw shaw;
    rhumb_t5 t5;
    rhumb_alibi alibi;
    rhumb_transformer_xl transformer_xl;
    rhumb_xlnet xlnet;
    rhumb_deberta deberta;
    rhumb_swin swin;
    rhumb_swin_v2 swin_v2;
} rhumb_relative;

typedef union rhumb_absolute {
    rhumb_header header; /* type 0: none */
    rhumb_sinusoidal sinusoidal;
    rhumb_learned learned;
    rhumb_sinusoidal2d sinusoidal2d;
    rhumb_learned2d learned2d;
} rhumb_absolute;

/* A line of the trace, of kind `kind`. */
typedef struct rhumb_position_line {
    uint32_t kind;
    const char *field;
    char value[40];
    char source[96];
} rhumb_position_line;

/* A kind of layer. Numbers of heads and the like are in `layer` already. */
typedef struct rhumb_position_kind {
    rhumb_layer_kind layer; /* without pointers to schemes */
    rhumb_relative relative;
    rhumb_absolute absolute;
    rhumb_sourced heads;
    rhumb_sourced kv_heads;
    rhumb_sourced head_dim;
    rhumb_sourced width; /* channels of the layer's input */
    rhumb_sourced scale;
    const char *layers_source; /* not NULL: told, as kinds share the model's layers */
    char causal_source[96];
    char scheme_source[96]; /* key or rule, for what the scheme itself refuses */
} rhumb_position_kind;

typedef struct rhumb_positions {
    const char *who; /* model_type */
    uint32_t kind_count;
    rhumb_position_kind kinds[RHUMB_MOST_POSITION_KINDS];
    uint32_t note_count;
    rhumb_position_line notes[RHUMB_MOST_POSITION_NOTES];
    uint32_t warning_count;
    rhumb_warning warnings[RHUMB_MOST_WARNINGS];
} rhumb_positions;

/* The keys that hold a stack's sizes; of two names for one number either may be there. */
typedef struct rhumb_stack_keys {
    const char *heads[2];
    const char *width[2];
    const char *head_dim; /* needed; NULL: width / heads */
    const char *layers;   /* optional in a configuration; NULL: no such key */
} rhumb_stack_keys;

typedef enum rhumb_sinusoid_rule {
    /* sines first, frequencies that end at 1/base, positions from pad_token_id + 1 on */
    RHUMB_SINUSOID_FAIRSEQ = 0,
    RHUMB_SINUSOID_MARIAN = 1, /* sines first, the paper's frequencies, positions from 0 on */
} rhumb_sinusoid_rule;

typedef struct rhumb_position_family rhumb_position_family;

typedef rhumb_result (*rhumb_position_rule)(const rhumb_lookup *l, const rhumb_position_family *f,
                                            rhumb_positions *p);

struct rhumb_position_family {
    const char *model_type;
    const char *refusal;    /* not NULL: why none of its configurations can be resolved */
    const char *switch_key; /* not NULL: the row counts only where this key is true */
    rhumb_position_rule rule;
    rhumb_stack_keys keys; /* of the only stack, or of the first */
    /* tables over positions */
    const char *rows;        /* key */
    uint32_t more_rows;      /* than the key says */
    int32_t offset;          /* of the learned scheme */
    uint32_t padded;         /* 1: positions count from pad_token_id + 1 on */
    const char *table_width; /* key of the table's channels; NULL: those of the layer */
    rhumb_sinusoid_rule sinusoid;
    uint32_t causal; /* 1: unless a key says otherwise */
    /* T5's buckets: keys, or NULL for fixed numbers */
    const char *buckets_key;
    const char *distance_key;
    uint32_t buckets;
    uint32_t distance;
    uint32_t prefix; /* patches: tokens in front */
};

/* NULL if no row of this model_type counts. */
rhumb_result rhumb_position_find(const rhumb_lookup *l, const char *model_type,
                                 const rhumb_position_family **family);

/* Row `index`, or NULL past the end. */
const rhumb_position_family *rhumb_position_at(uint32_t index);

/* Everything, from the row to the caller's memory. */
rhumb_result rhumb_position_keys(const rhumb_lookup *l, const rhumb_position_family *family,
                                 const rhumb_keys_info *info, uint32_t *kind_count);

/* --- rules --- */
rhumb_result rhumb_rule_t5(const rhumb_lookup *l, const rhumb_position_family *f,
                           rhumb_positions *p);
rhumb_result rhumb_rule_t5_encoder(const rhumb_lookup *l, const rhumb_position_family *f,
                                   rhumb_positions *p);
rhumb_result rhumb_rule_bloom(const rhumb_lookup *l, const rhumb_position_family *f,
                              rhumb_positions *p);
rhumb_result rhumb_rule_falcon(const rhumb_lookup *l, const rhumb_position_family *f,
                               rhumb_positions *p);
rhumb_result rhumb_rule_mpt(const rhumb_lookup *l, const rhumb_position_family *f,
                            rhumb_positions *p);
rhumb_result rhumb_rule_speecht5(const rhumb_lookup *l, const rhumb_position_family *f,
                                 rhumb_positions *p);
rhumb_result rhumb_rule_wav2vec2(const rhumb_lookup *l, const rhumb_position_family *f,
                                 rhumb_positions *p);
rhumb_result rhumb_rule_transfo_xl(const rhumb_lookup *l, const rhumb_position_family *f,
                                   rhumb_positions *p);
rhumb_result rhumb_rule_xlnet(const rhumb_lookup *l, const rhumb_position_family *f,
                              rhumb_positions *p);
rhumb_result rhumb_rule_deberta(const rhumb_lookup *l, const rhumb_position_family *f,
                                rhumb_positions *p);
rhumb_result rhumb_rule_bert(const rhumb_lookup *l, const rhumb_position_family *f,
                             rhumb_positions *p);
rhumb_result rhumb_rule_learned(const rhumb_lookup *l, const rhumb_position_family *f,
                                rhumb_positions *p);
rhumb_result rhumb_rule_gpt2(const rhumb_lookup *l, const rhumb_position_family *f,
                             rhumb_positions *p);
rhumb_result rhumb_rule_bart(const rhumb_lookup *l, const rhumb_position_family *f,
                             rhumb_positions *p);
rhumb_result rhumb_rule_sinusoidal(const rhumb_lookup *l, const rhumb_position_family *f,
                                   rhumb_positions *p);
rhumb_result rhumb_rule_whisper(const rhumb_lookup *l, const rhumb_position_family *f,
                                rhumb_positions *p);
rhumb_result rhumb_rule_vit(const rhumb_lookup *l, const rhumb_position_family *f,
                            rhumb_positions *p);
rhumb_result rhumb_rule_mae(const rhumb_lookup *l, const rhumb_position_family *f,
                            rhumb_positions *p);
rhumb_result rhumb_rule_clip(const rhumb_lookup *l, const rhumb_position_family *f,
                             rhumb_positions *p);
rhumb_result rhumb_rule_detr(const rhumb_lookup *l, const rhumb_position_family *f,
                             rhumb_positions *p);
rhumb_result rhumb_rule_beit(const rhumb_lookup *l, const rhumb_position_family *f,
                             rhumb_positions *p);
rhumb_result rhumb_rule_swin(const rhumb_lookup *l, const rhumb_position_family *f,
                             rhumb_positions *p);
rhumb_result rhumb_rule_swin_v2(const rhumb_lookup *l, const rhumb_position_family *f,
                                rhumb_positions *p);

/* --- what rules share --- */

/* A kind with the stack's heads, head size, width, layers and the scale head_dim^-1/2. */
rhumb_result rhumb_position_add(const rhumb_lookup *l, rhumb_positions *p, const char *name,
                                const rhumb_stack_keys *keys, rhumb_position_kind **kind);

/* A kind without sizes yet. */
rhumb_position_kind *rhumb_position_begin(rhumb_positions *p, const char *name);
/* Sizes become those of the layer; head_dim^-1/2 becomes the scale. */
rhumb_result rhumb_position_size(const rhumb_lookup *l, rhumb_position_kind *kind);

void rhumb_position_causal(rhumb_position_kind *kind, int causal, const char *source);
/* Of a family whose encoders become decoders by a key: is_decoder. */
rhumb_result rhumb_position_direction(const rhumb_lookup *l, const rhumb_position_family *f,
                                      rhumb_position_kind *kind);

/* The number of one of two keys; both must agree. */
rhumb_result rhumb_position_either(const rhumb_lookup *l, const char *who,
                                   const char *const keys[2], uint32_t most, rhumb_sourced *value);
/* The key's integer, or the default of the family. */
rhumb_result rhumb_position_integer(const rhumb_lookup *l, const char *who, const char *key,
                                    uint32_t least, uint32_t most, uint32_t otherwise,
                                    rhumb_sourced *value);
/* The key, or `otherwise`. */
rhumb_result rhumb_position_bool(const rhumb_lookup *l, const char *key, int otherwise, int *value);

/* The learned table of a kind: `rows` rows of `width` channels. */
void rhumb_position_learned(rhumb_positions *p, rhumb_position_kind *kind,
                            const rhumb_sourced *rows, const rhumb_sourced *width, int32_t offset);

/* ALiBi on both sides of an encoder, because of `key`. */
rhumb_result rhumb_position_alibi_encoder(const rhumb_lookup *l, const rhumb_position_family *f,
                                          rhumb_positions *p, rhumb_position_kind *kind,
                                          const char *key);
/* relative_key, and with_keys relative_key_query, of models with `length` positions. */
rhumb_result rhumb_position_bert_keys(const rhumb_lookup *l, const rhumb_position_family *f,
                                      rhumb_positions *p, rhumb_position_kind *kind,
                                      const rhumb_sourced *length, int with_keys);

/* image_size / patch_size, each a number or a list [height, width]. */
rhumb_result rhumb_position_grid(const rhumb_lookup *l, const char *who, uint32_t grid[2]);

#if defined(__GNUC__)
__attribute__((format(printf, 5, 6)))
#endif
void rhumb_position_note_text(rhumb_positions *p, const rhumb_position_kind *kind,
                              const char *field, const char *value, const char *source, ...);
#if defined(__GNUC__)
__attribute__((format(printf, 5, 6)))
#endif
void rhumb_position_note_number(rhumb_positions *p, const rhumb_position_kind *kind,
                                const char *field, double value, const char *source, ...);
void rhumb_position_note(rhumb_positions *p, const rhumb_position_kind *kind, const char *field,
                         const rhumb_sourced *value);
void rhumb_position_note_pair(rhumb_positions *p, const rhumb_position_kind *kind,
                              const char *field, const uint32_t pair[2], const char *source);

/* `key` with its scope stands before the trap in the trace. */
void rhumb_position_warn(const rhumb_lookup *l, rhumb_positions *p, const char *key,
                         const char *trap);

#endif
