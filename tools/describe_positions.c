/* Models whose positions are not rotary, in the key names of the NAME.expected.json files. */
#include "describe_put.h"

#include <rhumb/rhumb_schemes.h>

#include <stdio.h>

#define COUNT(array) (sizeof(array) / sizeof(array)[0])

#define PUT_HEADS 1u
#define PUT_HEAD_DIM 2u
#define PUT_SCALE 4u
#define PUT_CAUSAL 8u

typedef struct scheme_keys {
    uint32_t type;
    uint32_t parts; /* of the layer itself: PUT_ bits */
    const char *name;
    const char *rows[10];
} scheme_keys;

/* A table of patches is called learned there too: its rows are in the order of the tokens. */
static const scheme_keys known[] = {
    {RHUMB_TYPE_T5, PUT_HEADS | PUT_HEAD_DIM | PUT_SCALE, "t5", {"num_buckets", "max_distance"}},
    {RHUMB_TYPE_ALIBI, PUT_HEADS | PUT_CAUSAL, "alibi", {"alibi_bias_max", "bias_times_scale"}},
    {RHUMB_TYPE_SHAW,
     PUT_HEADS | PUT_HEAD_DIM | PUT_SCALE | PUT_CAUSAL,
     "shaw",
     {"index", "clip_left", "clip_right", "table_rows", "terms"}},
    {RHUMB_TYPE_TRANSFORMER_XL,
     PUT_HEADS | PUT_HEAD_DIM | PUT_SCALE | PUT_CAUSAL,
     "transformer_xl",
     {"sinusoid_layout", "clamp_len", "mem_len"}},
    {RHUMB_TYPE_XLNET,
     PUT_HEADS | PUT_HEAD_DIM | PUT_SCALE,
     "xlnet",
     {"attn_type", "clamp_len", "mem_len"}},
    {RHUMB_TYPE_DEBERTA,
     PUT_HEADS | PUT_HEAD_DIM | PUT_SCALE,
     "deberta",
     {"position_buckets", "max_relative_positions", "rel_embedding_rows", "terms", "scale_factor",
      "share_att_key", "absolute_positions_added"}},
    {RHUMB_TYPE_SWIN,
     PUT_HEAD_DIM,
     "swin",
     {"window", "table_rows", "heads_per_stage", "num_prefix_tokens"}},
    {RHUMB_TYPE_SWIN_V2,
     PUT_HEAD_DIM,
     "swin_v2",
     {"window", "coords_table", "heads_per_stage", "bias_scale", "logit_scale_max"}},
    {RHUMB_TYPE_SINUSOIDAL,
     PUT_CAUSAL,
     "sinusoidal",
     {"dim", "sinusoid_layout", "frequency", "position_offset", "padding_index", "x_scale"}},
    {RHUMB_TYPE_LEARNED,
     PUT_CAUSAL,
     "learned",
     {"table_rows", "dim", "position_offset", "x_scale"}},
    {RHUMB_TYPE_SINUSOIDAL2D,
     0,
     "sinusoidal2d",
     {"dim", "dim_per_axis", "temperature", "normalize", "scale", "order", "grid",
      "num_prefix_tokens"}},
    {RHUMB_TYPE_LEARNED2D,
     PUT_CAUSAL,
     "learned",
     {"table_rows", "dim", "dim_per_axis", "order", "grid", "num_prefix_tokens"}},
};

static const scheme_keys *keys_of(const rhumb_header *scheme)
{
    size_t i;

    for (i = 0; scheme != NULL && i < COUNT(known); i++) {
        if (known[i].type == scheme->type)
            return &known[i];
    }
    return NULL;
}

int describe_is_positions(const rhumb_layer_kind *kind)
{
    return kind->scheme != NULL || kind->absolute != NULL;
}

/* The relative scheme if there is one, else the absolute one. */
static const rhumb_header *scheme_of(const rhumb_layer_kind *kind)
{
    return kind->scheme != NULL ? kind->scheme : kind->absolute;
}

static int put_layer(cJSON *object, const rhumb_layer_kind *kind, uint32_t parts)
{
    return (!(parts & PUT_HEADS) || describe_put_number(object, "heads", kind->heads)) &&
           (!(parts & PUT_HEAD_DIM) || describe_put_number(object, "head_dim", kind->head_dim)) &&
           (!(parts & PUT_SCALE) || describe_put_number(object, "scale", kind->scale)) &&
           (!(parts & PUT_CAUSAL) || describe_put_bool(object, "causal", kind->causal != 0));
}

/* --- samples --- */

static int put_slopes(cJSON *object, describe_report *report, const rhumb_layer_kind *kind)
{
    double slopes[RHUMB_MAX_SLOPES];

    if (rhumb_alibi_slopes_of(kind->scheme, kind->heads, slopes, NULL) != RHUMB_OK) {
        (void)snprintf(report->message, sizeof report->message, "%s", rhumb_last_message(NULL));
        return 0;
    }
    return describe_put_list(object, "slopes", slopes, kind->heads);
}

/* Distances around the edges of T5's own buckets. */
static const int32_t samples[] = {-200, -128, -100, -17, -16, -9, -8,  -7,  -1, 0,
                                  1,    7,    8,    9,   16,  17, 100, 128, 200};

static int put_samples(cJSON *object, const char *name, const int32_t *numbers)
{
    double values[COUNT(samples)];
    size_t i;

    for (i = 0; i < COUNT(samples); i++)
        values[i] = numbers[i];
    return describe_put_list(object, name, values, COUNT(samples));
}

static int put_buckets(cJSON *object, describe_report *report)
{
    int32_t rows[COUNT(samples)];
    uint32_t i;

    if (!put_samples(object, "relative_position_key_minus_query", samples))
        return 0;
    for (i = 0; i < report->kind_count; i++) {
        const rhumb_t5 *t5 = report->kinds[i].scheme;
        if (rhumb_relative_rows(t5, 1, 1, samples, COUNT(samples), rows) != RHUMB_OK) {
            (void)snprintf(report->message, sizeof report->message, "%s", rhumb_last_message(NULL));
            return 0;
        }
        if (!put_samples(object,
                         t5->bidirectional ? "encoder_bidirectional_buckets"
                                           : "decoder_causal_buckets",
                         rows))
            return 0;
    }
    return 1;
}

/* --- all --- */

/* Of a model with a relative scheme: what its table beside that is. */
static int put_beside(cJSON *object, const describe_report *report, const rhumb_layer_kind *kind)
{
    static const char *const rows[] = {"absolute", "table_rows", "dim", "position_offset"};
    size_t i;

    for (i = 0; kind->scheme != NULL && kind->absolute != NULL && i < COUNT(rows); i++) {
        if (!cJSON_HasObjectItem(object, rows[i]) &&
            !describe_put_row(object, report, kind->name, rows[i]))
            return 0;
    }
    return 1;
}

int describe_put_positions(cJSON *object, describe_report *report)
{
    const rhumb_layer_kind *kind = &report->kinds[0];
    const scheme_keys *keys = keys_of(scheme_of(kind));
    size_t i;

    if (keys == NULL)
        return describe_put_text(object, "scheme", "?");
    if (!describe_put_text(object, "scheme", keys->name) || !put_layer(object, kind, keys->parts))
        return 0;
    if (keys->type == RHUMB_TYPE_SWIN && !describe_value(report, kind->name, "heads_per_stage") &&
        !describe_put_number(object, "heads", kind->heads))
        return 0;
    for (i = 0; i < COUNT(keys->rows) && keys->rows[i] != NULL; i++) {
        if (!describe_put_row(object, report, kind->name, keys->rows[i]))
            return 0;
    }
    if (keys->type == RHUMB_TYPE_ALIBI)
        return put_slopes(object, report, kind);
    if (keys->type == RHUMB_TYPE_T5 && !put_buckets(object, report))
        return 0;
    if (describe_value(report, kind->name, "layers") != NULL &&
        !describe_put_pattern(object, report))
        return 0;
    return put_beside(object, report, kind);
}
