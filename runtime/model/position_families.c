#include "positions.h"

#define HUB                                                                                        \
    {                                                                                              \
        {"num_attention_heads"}, {"hidden_size"}, NULL, "num_hidden_layers"                        \
    }
#define T5                                                                                         \
    {                                                                                              \
        {"num_heads"}, {"d_model"}, "d_kv", "num_layers"                                           \
    }
#define GPT                                                                                        \
    {                                                                                              \
        {"n_head", "num_attention_heads"}, {"n_embd", "hidden_size"}, NULL, "n_layer"              \
    }
#define ENCODER                                                                                    \
    {                                                                                              \
        {"encoder_attention_heads"}, {"d_model"}, NULL, "encoder_layers"                           \
    }

#define T5_BUCKETS                                                                                 \
    .rule = rhumb_rule_t5, .keys = T5, .buckets_key = "relative_attention_num_buckets",            \
    .distance_key = "relative_attention_max_distance", .buckets = 32, .distance = 128

#define BERT .rule = rhumb_rule_bert, .keys = HUB, .rows = "max_position_embeddings"

#define BART                                                                                       \
    .rule = rhumb_rule_bart, .keys = ENCODER, .rows = "max_position_embeddings", .more_rows = 2,   \
    .offset = 2

#define REFUSED(name, why)                                                                         \
    {                                                                                              \
        .model_type = name, .refusal = why                                                         \
    }

/* Numbers are those of the hub checkpoints of each family. A key is needed where published files
 * have it, whatever the default of a reference class. */
static const rhumb_position_family families[] = {
    /* buckets of the distance */
    {.model_type = "t5", T5_BUCKETS},
    {.model_type = "mt5", T5_BUCKETS},
    {.model_type = "umt5", T5_BUCKETS},
    {.model_type = "longt5", T5_BUCKETS},
    {.model_type = "switch_transformers", T5_BUCKETS},
    {.model_type = "pop2piano", T5_BUCKETS},
    {.model_type = "mpnet",
     .rule = rhumb_rule_t5_encoder,
     .keys = HUB,
     .rows = "max_position_embeddings",
     .buckets_key = "relative_attention_num_buckets",
     .buckets = 32,
     .distance = 128},
    {.model_type = "wavlm",
     .rule = rhumb_rule_t5_encoder,
     .keys = HUB,
     .buckets_key = "num_buckets",
     .distance_key = "max_bucket_distance",
     .buckets = 320,
     .distance = 800},
    REFUSED("layoutlmv2", "buckets of the boxes' places beside those of the tokens'"),
    REFUSED("layoutlmv3", "buckets of the boxes' places beside those of the tokens'"),

    /* slopes */
    {.model_type = "bloom",
     .rule = rhumb_rule_bloom,
     .keys = {{"n_head", "num_attention_heads"}, {"hidden_size", "n_embed"}, NULL, "n_layer"}},
    {.model_type = "falcon", .switch_key = "alibi", .rule = rhumb_rule_falcon, .keys = HUB},
    {.model_type = "mpt",
     .rule = rhumb_rule_mpt,
     .keys = {{"n_heads"}, {"d_model"}, NULL, "n_layers"}},
    REFUSED("baichuan", "no key says whether it is rotary (7B) or has ALiBi's slopes (13B)"),

    /* a vector for the distance */
    {.model_type = "speecht5",
     .rule = rhumb_rule_speecht5,
     .keys = {{"encoder_attention_heads"}, {"hidden_size"}, NULL, "encoder_layers"}},
    {.model_type = "wav2vec2-bert", .rule = rhumb_rule_wav2vec2, .keys = HUB},
    {.model_type = "wav2vec2-conformer", .rule = rhumb_rule_wav2vec2, .keys = HUB},
    {.model_type = "transfo-xl",
     .rule = rhumb_rule_transfo_xl,
     .keys = {{"n_head"}, {"d_model"}, "d_head", "n_layer"}},
    {.model_type = "xlnet",
     .rule = rhumb_rule_xlnet,
     .keys = {{"n_head"}, {"d_model"}, NULL, "n_layer"}},
    {.model_type = "deberta",
     .rule = rhumb_rule_deberta,
     .keys = HUB,
     .rows = "max_position_embeddings"},
    {.model_type = "deberta-v2",
     .rule = rhumb_rule_deberta,
     .keys = HUB,
     .rows = "max_position_embeddings"},

    /* a row for the position */
    {.model_type = "bert", BERT},
    {.model_type = "electra", BERT, .table_width = "embedding_size"},
    {.model_type = "albert", BERT, .table_width = "embedding_size"},
    {.model_type = "roberta", BERT, .padded = 1},
    {.model_type = "xlm-roberta", BERT, .padded = 1},
    {.model_type = "camembert", BERT, .padded = 1},
    {.model_type = "esm", BERT, .padded = 1},
    {.model_type = "distilbert",
     .rule = rhumb_rule_learned,
     .rows = "max_position_embeddings",
     .keys = {{"n_heads"}, {"dim"}, NULL, "n_layers"}},
    {.model_type = "openai-gpt",
     .rule = rhumb_rule_learned,
     .rows = "n_positions",
     .causal = 1,
     .keys = GPT},
    {.model_type = "gpt2",
     .rule = rhumb_rule_gpt2,
     .rows = "n_positions",
     .causal = 1,
     .keys = GPT},
    {.model_type = "opt",
     .rule = rhumb_rule_learned,
     .rows = "max_position_embeddings",
     .more_rows = 2,
     .offset = 2,
     .causal = 1,
     .keys = HUB},
    {.model_type = "bart", BART},
    {.model_type = "mbart", BART},
    {.model_type = "plbart", BART},
    {.model_type = "pegasus",
     .rule = rhumb_rule_sinusoidal,
     .keys = ENCODER,
     .sinusoid = RHUMB_SINUSOID_MARIAN},
    {.model_type = "marian",
     .rule = rhumb_rule_sinusoidal,
     .keys = ENCODER,
     .sinusoid = RHUMB_SINUSOID_MARIAN},
    {.model_type = "m2m_100", .rule = rhumb_rule_sinusoidal, .keys = ENCODER},
    {.model_type = "speech_to_text", .rule = rhumb_rule_sinusoidal, .keys = ENCODER},
    {.model_type = "fsmt", .rule = rhumb_rule_sinusoidal, .keys = ENCODER},
    {.model_type = "whisper",
     .rule = rhumb_rule_whisper,
     .keys = ENCODER,
     .rows = "max_target_positions"},

    /* grids of patches */
    {.model_type = "vit", .rule = rhumb_rule_vit, .keys = HUB, .prefix = 1},
    {.model_type = "vit_msn", .rule = rhumb_rule_vit, .keys = HUB, .prefix = 1},
    {.model_type = "deit", .rule = rhumb_rule_vit, .keys = HUB, .prefix = 2},
    {.model_type = "dinov2", .rule = rhumb_rule_vit, .keys = HUB, .prefix = 1},
    {.model_type = "dinov2_with_registers", .rule = rhumb_rule_vit, .keys = HUB, .prefix = 1},
    {.model_type = "clip_vision_model", .rule = rhumb_rule_vit, .keys = HUB, .prefix = 1},
    {.model_type = "clip_text_model",
     .rule = rhumb_rule_learned,
     .keys = HUB,
     .rows = "max_position_embeddings",
     .causal = 1},
    {.model_type = "clip",
     .rule = rhumb_rule_clip,
     .keys = HUB,
     .prefix = 1,
     .rows = "max_position_embeddings"},
    {.model_type = "vit_mae", .rule = rhumb_rule_mae, .keys = HUB},
    {.model_type = "detr",
     .rule = rhumb_rule_detr,
     .keys = {{"encoder_attention_heads"}, {"d_model"}, NULL, "encoder_layers"}},
    {.model_type = "table-transformer",
     .rule = rhumb_rule_detr,
     .keys = {{"encoder_attention_heads"}, {"d_model"}, NULL, "encoder_layers"}},
    {.model_type = "beit", .rule = rhumb_rule_beit, .keys = HUB},
    {.model_type = "data2vec-vision", .rule = rhumb_rule_beit, .keys = HUB},
    {.model_type = "swin", .rule = rhumb_rule_swin},
    {.model_type = "donut-swin", .rule = rhumb_rule_swin},
    {.model_type = "maskformer-swin", .rule = rhumb_rule_swin},
    {.model_type = "swinv2", .rule = rhumb_rule_swin_v2},
};

const rhumb_position_family *rhumb_position_at(uint32_t index)
{
    return index < sizeof families / sizeof families[0] ? &families[index] : NULL;
}

rhumb_result rhumb_position_find(const rhumb_lookup *l, const char *model_type,
                                 const rhumb_position_family **found)
{
    const rhumb_position_family *family;
    uint32_t i;
    int on = 1;

    *found = NULL;
    for (i = 0; (family = rhumb_position_at(i)) != NULL; i++) {
        if (strcmp(family->model_type, model_type) != 0)
            continue;
        if (family->switch_key != NULL)
            RHUMB_TRY(rhumb_position_bool(l, family->switch_key, 0, &on));
        *found = on ? family : NULL;
        break;
    }
    return RHUMB_OK;
}
