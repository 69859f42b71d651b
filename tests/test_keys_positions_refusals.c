/* Configurations of models without rotary that are refused, each with the phrases its line must
 * have. */
#include "describe_model.h"

#include <criterion/criterion.h>

#define HUB "\"hidden_size\":768,\"num_attention_heads\":12,\"max_position_embeddings\":512"
#define BERT(keys) "{\"model_type\":\"bert\"," HUB "," keys "}"
#define T5(keys) "{\"model_type\":\"t5\",\"d_model\":512,\"d_kv\":64,\"num_heads\":6," keys "}"
#define MPT(keys) "{\"model_type\":\"mpt\",\"d_model\":4096,\"n_heads\":32" keys "}"
#define XLNET(keys) "{\"model_type\":\"xlnet\",\"d_model\":768,\"n_head\":12," keys "}"
#define V2(keys) "{\"model_type\":\"deberta-v2\"," HUB ",\"relative_attention\":true," keys "}"
#define TERMS "\"pos_att_type\":\"c2p|p2c\""
#define VIT(keys) "{\"model_type\":\"vit\",\"hidden_size\":384,\"num_attention_heads\":6," keys "}"
#define SWIN(keys)                                                                                 \
    "{\"model_type\":\"swin\",\"embed_dim\":96,\"image_size\":224,\"patch_size\":4," keys "}"
#define DETR(keys) "{\"model_type\":\"detr\",\"d_model\":256,\"encoder_attention_heads\":8" keys "}"

typedef struct bad_row {
    const char *json;
    const char *phrases[2];
} bad_row;

static const bad_row bad_rows[] = {
    /* models that no key tells apart, or that need more */
    {"{\"model_type\":\"baichuan\"}",
     {"not implemented: model_type baichuan: no key says whether"}},
    {"{\"model_type\":\"layoutlmv3\"}", {"not implemented: model_type layoutlmv3"}},
    /* needed keys */
    {"{\"model_type\":\"t5\",\"d_model\":512,\"num_heads\":6}", {"d_kv: missing, needed by t5"}},
    {"{\"model_type\":\"bert\",\"hidden_size\":768,\"num_attention_heads\":12}",
     {"max_position_embeddings: missing, needed by bert"}},
    {"{\"model_type\":\"bloom\",\"hidden_size\":1024}", {"n_head: missing, needed by bloom"}},
    {"{\"model_type\":\"electra\"," HUB "}", {"embedding_size: missing, needed by electra"}},
    {"{\"model_type\":\"longt5\",\"d_model\":512,\"d_kv\":64,\"num_heads\":6}",
     {"local_radius: missing, needed by longt5"}},
    {"{\"model_type\":\"speecht5\",\"hidden_size\":768,\"encoder_attention_heads\":12,"
     "\"decoder_attention_heads\":12}",
     {"encoder_max_relative_position: missing"}},
    {"{\"model_type\":\"bart\",\"d_model\":64,\"encoder_attention_heads\":4,"
     "\"decoder_attention_heads\":4,\"max_position_embeddings\":9}",
     {"scale_embedding: missing, needed by bart"}},
    {"{\"model_type\":\"clip\",\"text_config\":{}}", {"text_config.num_attention_heads: missing"}},
    {VIT("\"image_size\":224"), {"patch_size: missing, needed by vit"}},
    {DETR(""), {"position_embedding_type: missing, needed by detr"}},
    {SWIN("\"window_size\":7,\"num_heads\":[3]"), {"depths: missing, needed by swin"}},
    /* kinds and domains */
    {T5("\"relative_attention_num_buckets\":\"32\""),
     {"relative_attention_num_buckets: wanted an integer, found the string"}},
    {T5("\"relative_attention_num_buckets\":0"), {"relative_attention_num_buckets", "found 0"}},
    {T5("\"is_encoder_decoder\":1"), {"is_encoder_decoder: wanted true or false, found 1"}},
    {T5("\"num_decoder_layers\":0"), {"num_decoder_layers", "found 0"}},
    {T5("\"num_layers\":513"), {"num_layers", "found 513"}},
    {BERT("\"position_embedding_type\":7"), {"position_embedding_type: wanted a string, found 7"}},
    {XLNET("\"clamp_len\":2.5"), {"clamp_len: wanted an integer, found 2.5"}},
    {XLNET("\"attn_type\":\"both\""), {"attn_type: wanted bi or uni, found both"}},
    {VIT("\"image_size\":224,\"patch_size\":0"), {"patch_size", "found 0"}},
    {VIT("\"image_size\":8,\"patch_size\":16"), {"image_size", "found 8"}},
    {VIT("\"image_size\":[224],\"patch_size\":16"),
     {"image_size: wanted a number or a list of 2, found a list of 1"}},
    {VIT("\"image_size\":[224,1.5],\"patch_size\":16"), {"image_size: item 1", "found 1.5"}},
    {SWIN("\"window_size\":7,\"depths\":[2,2],\"num_heads\":[3]"),
     {"num_heads: wanted a list of 2 integers, found a list of 1"}},
    {SWIN("\"window_size\":7,\"depths\":[2,2,2,2,2],\"num_heads\":[3]"),
     {"depths: wanted a list of 1 to 4 integers, found a list of 5"}},
    {SWIN("\"window_size\":7,\"depths\":[2,0],\"num_heads\":[3,6]"), {"depths: item 1", "found 0"}},
    {SWIN("\"window_size\":7,\"depths\":[2,true],\"num_heads\":[3,6]"),
     {"depths: item 1", "found true"}},
    {SWIN("\"window_size\":7,\"depths\":4,\"num_heads\":[3]"),
     {"depths: wanted a list", "found 4"}},
    {"{\"model_type\":\"swinv2\",\"embed_dim\":96,\"image_size\":224,\"patch_size\":4,"
     "\"window_size\":7,\"depths\":[2],\"num_heads\":[3],\"pretrained_window_sizes\":[1]}",
     {"pretrained_window_sizes: item 0: wanted 0 (none), or 2 or more, found 1"}},
    {V2(TERMS ",\"max_relative_positions\":0.5"),
     {"max_relative_positions: wanted an integer, found 0.5"}},
    {V2(TERMS ",\"position_buckets\":0"), {"position_buckets: wanted -1 (none)", "found 0"}},
    /* what the schemes themselves refuse, by the key */
    {T5("\"relative_attention_num_buckets\":33"),
     {"relative_attention_num_buckets: t5: num_buckets", "even number"}},
    {T5("\"relative_attention_max_distance\":8"), {"default of t5: t5: max_distance", "found 8"}},
    {V2(TERMS ",\"max_relative_positions\":16,\"position_buckets\":64"),
     {"position_buckets: deberta: max_relative_positions", "found 16"}},
    {"{\"model_type\":\"bloom\",\"hidden_size\":1024,\"n_head\":512}",
     {"rule of bloom: alibi: heads: wanted 1 to 256, found 512"}},
    {"{\"model_type\":\"m2m_100\",\"d_model\":7,\"encoder_attention_heads\":7,"
     "\"decoder_attention_heads\":1,\"scale_embedding\":false,\"pad_token_id\":16777217}",
     {"pad_token_id", "found 16777217"}},
    {"{\"model_type\":\"bert\",\"hidden_size\":65536,\"num_attention_heads\":128,"
     "\"max_position_embeddings\":512}",
     {"hidden_size: wanted at most 32768 channels, found 65536"}},
    /* contradictions */
    {"{\"model_type\":\"bert\",\"hidden_size\":768,\"num_attention_heads\":7,"
     "\"max_position_embeddings\":512}",
     {"hidden_size: wanted a multiple of num_attention_heads 7, found 768"}},
    {"{\"model_type\":\"bloom\",\"hidden_size\":1024,\"n_head\":16,\"num_attention_heads\":8}",
     {"num_attention_heads: wanted 16 as n_head, found 8"}},
    {"{\"model_type\":\"falcon\",\"hidden_size\":2048,\"num_attention_heads\":32,\"alibi\":true,"
     "\"multi_query\":false,\"num_kv_heads\":5}",
     {"num_kv_heads: wanted a divisor of 32 heads, found 5"}},
    {XLNET("\"d_head\":32"), {"d_head: wanted 64", "found 32"}},
    {BERT("\"position_embedding_type\":\"relative_key\",\"alibi_starting_size\":512"),
     {"position_embedding_type: wanted absolute or none with alibi_starting_size"}},
    {BERT("\"position_embedding_type\":\"alibi\",\"is_decoder\":true"),
     {"is_decoder: wanted false with position_embedding_type, found true"}},
    {BERT("\"rope_theta\":10000"), {"rope_theta: wanted none (rule of bert), found 10000"}},
    {BERT("\"rope_scaling\":{\"type\":\"linear\",\"factor\":2}"),
     {"rope_scaling: wanted none (rule of bert)"}},
    {BERT("\"sliding_window\":128"), {"sliding_window: wanted none (rule of bert), found 128"}},
    {T5("\"alibi\":true"), {"alibi: wanted none (rule of t5), found true"}},
    {"{\"model_type\":\"deberta\"," HUB ",\"relative_attention\":true," TERMS
     ",\"position_buckets\":256}",
     {"position_buckets: wanted none (rule of deberta), found 256"}},
    {"{\"model_type\":\"deberta-v2\"," HUB "," TERMS "}",
     {"pos_att_type: wanted none without relative_attention"}},
    {"{\"model_type\":\"beit\",\"hidden_size\":384,\"num_attention_heads\":6,\"image_size\":224,"
     "\"patch_size\":16,\"use_relative_position_bias\":true,"
     "\"use_shared_relative_position_bias\":true}",
     {"use_shared_relative_position_bias: wanted false with use_relative_position_bias"}},
    {SWIN("\"window_size\":7,\"depths\":[2,2],\"num_heads\":[3,7]"),
     {"num_heads: item 1: wanted a divisor of 192 channels, found 7"}},
    {"{\"model_type\":\"roberta\",\"hidden_size\":768,\"num_attention_heads\":12,"
     "\"max_position_embeddings\":2,\"pad_token_id\":1}",
     {"max_position_embeddings: wanted more rows than the offset 2, found 2"}},
    {"{\"model_type\":\"vit_mae\",\"hidden_size\":384,\"num_attention_heads\":6,"
     "\"image_size\":[224,112],\"patch_size\":16}",
     {"image_size: wanted a square grid (rule of vit_mae), found 14 x 7"}},
    /* unknown or not done */
    {BERT("\"position_embedding_type\":\"rotary\""),
     {"not implemented: position_embedding_type: wanted absolute, relative_key", "found rotary"}},
    {BERT("\"position_embedding_type\":\"other\""),
     {"position_embedding_type: wanted absolute, relative_key", "found other"}},
    {"{\"model_type\":\"roberta\"," HUB ",\"position_embedding_type\":\"alibi\"}",
     {"position_embedding_type: wanted absolute, relative_key or relative_key_query", "alibi"}},
    {MPT(""), {"attn_config.alibi: missing, needed by mpt"}},
    {MPT(",\"attn_config\":{\"alibi\":false}"),
     {"not implemented: attn_config.alibi: wanted true, found false"}},
    {MPT(",\"attn_config\":{\"alibi\":true,\"prefix_lm\":true}"),
     {"not implemented: attn_config.prefix_lm"}},
    {MPT(",\"attn_config\":{\"alibi\":true,\"sliding_window_size\":128}"),
     {"not implemented: attn_config.sliding_window_size: wanted -1, found 128"}},
    {MPT(",\"attn_config\":{\"alibi\":true,\"attn_type\":\"other\"}"),
     {"attn_config.attn_type: wanted multihead_attention", "found other"}},
    {MPT(",\"attn_config\":{\"alibi\":true,\"attn_type\":\"grouped_query_attention\"}"),
     {"attn_config.kv_n_heads: missing"}},
    {"{\"model_type\":\"wav2vec2-bert\",\"hidden_size\":1024,\"num_attention_heads\":16,"
     "\"position_embeddings_type\":\"rotary\"}",
     {"not implemented: position_embeddings_type: wanted relative_key or relative, found rotary"}},
    {"{\"model_type\":\"transfo-xl\",\"d_model\":1024,\"n_head\":16,\"d_head\":64,\"attn_type\":1}",
     {"not implemented: attn_type: wanted 0, found 1"}},
    {"{\"model_type\":\"gpt2\",\"n_embd\":768,\"n_head\":12,\"n_positions\":1024,"
     "\"scale_attn_by_inverse_layer_idx\":true}",
     {"not implemented: scale_attn_by_inverse_layer_idx"}},
    {"{\"model_type\":\"whisper\",\"scale_embedding\":true}",
     {"not implemented: scale_embedding: wanted false, found true"}},
    {V2("\"pos_att_type\":\"c2p|p2p\""), {"pos_att_type: wanted c2p and p2c once each", "p2p"}},
    {V2("\"pos_att_type\":\"c2p|c2p\""), {"pos_att_type", "found c2p twice"}},
    {V2("\"pos_att_type\":\"\""), {"pos_att_type: wanted c2p and p2c once each"}},
    {V2("\"pos_att_type\":[]"), {"pos_att_type: wanted c2p, p2c or both, found an empty list"}},
    {V2("\"pos_att_type\":[1]"), {"pos_att_type", "found 1"}},
    {V2("\"pos_att_type\":3"), {"pos_att_type: wanted a string or a list, found 3"}},
    {V2("\"position_buckets\":256"), {"pos_att_type: missing, needed by deberta-v2"}},
    {DETR(",\"position_embedding_type\":\"other\""),
     {"position_embedding_type: wanted sine or learned, found other"}},
};

Test(keys_positions_refusals, other_positions_are_refused_with_one_line_that_says_why)
{
    static describe_report report;

    for (size_t i = 0; i < sizeof bad_rows / sizeof bad_rows[0]; i++) {
        const bad_row *row = &bad_rows[i];
        rhumb_result result = describe_model_text(row->json, strlen(row->json), &report);

        cr_expect_eq(result, RHUMB_ERROR_CONFIG, "%s: result %d %s", row->json, (int)result,
                     report.message);
        cr_expect(report.kind_count == 0 && report.row_count == 0,
                  "%s: a refused configuration was traced", row->json);
        cr_expect_null(strpbrk(report.message, "\n\r"), "%s: more than one line", row->json);
        for (size_t k = 0; k < 2 && row->phrases[k] != NULL; k++)
            cr_expect_not_null(strstr(report.message, row->phrases[k]),
                               "%s: wanted \"%s\" in \"%s\"", row->json, row->phrases[k],
                               report.message);
        describe_free(&report);
    }
}
