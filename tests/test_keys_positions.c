/* Configuration keys of models without rotary -> layer kinds: the scheme structs, sizes of tables,
 * sizes of heads, and the traps that are told. */
#include "describe_model.h"

#include <rhumb/rhumb_schemes.h>

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>

#define HUB "\"hidden_size\":768,\"num_attention_heads\":12,\"max_position_embeddings\":512"
#define T5_KEYS "\"d_model\":512,\"d_kv\":64,\"num_heads\":6"
#define SEQ2SEQ                                                                                    \
    "\"d_model\":1024,\"encoder_attention_heads\":16,\"decoder_attention_heads\":8,"               \
    "\"encoder_layers\":12,\"decoder_layers\":6,\"max_position_embeddings\":1024"
#define VIT "\"hidden_size\":384,\"num_attention_heads\":6,\"image_size\":224,\"patch_size\":16"
#define SWIN                                                                                       \
    "\"embed_dim\":96,\"depths\":[2,2,6,2],\"num_heads\":[3,6,12,24],\"image_size\":224,"          \
    "\"patch_size\":4"
#define DEBERTA                                                                                    \
    HUB ",\"relative_attention\":true,\"pos_att_type\":\"c2p|p2c\",\"max_relative_positions\":-1," \
        "\"position_biased_input\":false"

/* A kind of the result. */
typedef struct wanted_kind {
    const char *json;
    uint32_t kinds;
    uint32_t index; /* of the kind below */
    const char *name;
    uint32_t scheme;   /* type; 0: none */
    uint32_t absolute; /* likewise */
    uint32_t heads;
    uint32_t kv_heads;
    uint32_t head_dim;
    double scale; /* 0: head_dim^-1/2 */
    uint32_t causal;
    uint32_t layers;
    uint32_t rows;
    uint32_t dim;
} wanted_kind;

#define ONE 1, 0, "attention"
#define ENCODER 2, 0, "encoder"
#define DECODER 2, 1, "decoder"

static const wanted_kind wanted_kinds[] = {
    /* T5 */
    {"{\"model_type\":\"t5\"," T5_KEYS ",\"num_layers\":8}", ENCODER, RHUMB_TYPE_T5, 0, 6, 6, 64, 1,
     0, 8, 0, 0},
    {"{\"model_type\":\"t5\"," T5_KEYS ",\"num_layers\":8}", DECODER, RHUMB_TYPE_T5, 0, 6, 6, 64, 1,
     1, 8, 0, 0},
    {"{\"model_type\":\"umt5\"," T5_KEYS ",\"num_layers\":8,\"num_decoder_layers\":4}", DECODER,
     RHUMB_TYPE_T5, 0, 6, 6, 64, 1, 1, 4, 0, 0},
    {"{\"model_type\":\"switch_transformers\"," T5_KEYS "}", ENCODER, RHUMB_TYPE_T5, 0, 6, 6, 64, 1,
     0, 0, 0, 0},
    {"{\"model_type\":\"pop2piano\"," T5_KEYS "}", DECODER, RHUMB_TYPE_T5, 0, 6, 6, 64, 1, 1, 0, 0,
     0},
    {"{\"model_type\":\"t5\"," T5_KEYS ",\"is_encoder_decoder\":false}", 1, 0, "encoder",
     RHUMB_TYPE_T5, 0, 6, 6, 64, 1, 0, 0, 0, 0},
    {"{\"model_type\":\"t5\"," T5_KEYS ",\"is_encoder_decoder\":false,\"is_decoder\":true}", 1, 0,
     "decoder", RHUMB_TYPE_T5, 0, 6, 6, 64, 1, 1, 0, 0, 0},
    {"{\"model_type\":\"mpnet\"," HUB "}", ONE, RHUMB_TYPE_T5, RHUMB_TYPE_LEARNED, 12, 12, 64, 0, 0,
     0, 512, 768},
    {"{\"model_type\":\"wavlm\"," HUB "}", ONE, RHUMB_TYPE_T5, 0, 12, 12, 64, 0, 0, 0, 0, 0},
    /* ALiBi */
    {"{\"model_type\":\"bloom\",\"n_embed\":14336,\"num_attention_heads\":112}", ONE,
     RHUMB_TYPE_ALIBI, 0, 112, 112, 128, 0, 1, 0, 0, 0},
    {"{\"model_type\":\"bloom\",\"hidden_size\":1024,\"n_head\":16,\"num_attention_heads\":16}",
     ONE, RHUMB_TYPE_ALIBI, 0, 16, 16, 64, 0, 1, 0, 0, 0},
    {"{\"model_type\":\"falcon\",\"hidden_size\":2048,\"num_attention_heads\":32,\"alibi\":true,"
     "\"multi_query\":false,\"num_hidden_layers\":24}",
     ONE, RHUMB_TYPE_ALIBI, 0, 32, 32, 64, 0, 1, 24, 0, 0},
    {"{\"model_type\":\"falcon\",\"hidden_size\":2048,\"num_attention_heads\":32,\"alibi\":true,"
     "\"rope_theta\":10000.0}",
     ONE, RHUMB_TYPE_ALIBI, 0, 32, 1, 64, 0, 1, 0, 0, 0},
    {"{\"model_type\":\"mpt\",\"d_model\":4096,\"n_heads\":32,\"attn_config\":{\"alibi\":true,"
     "\"attn_type\":\"grouped_query_attention\",\"kv_n_heads\":8,\"softmax_scale\":0.5}}",
     ONE, RHUMB_TYPE_ALIBI, 0, 32, 8, 128, 0.5, 1, 0, 0, 0},
    {"{\"model_type\":\"bert\"," HUB ",\"position_embedding_type\":\"alibi\"}", ONE,
     RHUMB_TYPE_ALIBI, 0, 12, 12, 64, 0, 0, 0, 0, 0},
    {"{\"model_type\":\"bert\"," HUB ",\"alibi_starting_size\":512,\"position_embedding_type\":"
     "\"absolute\"}",
     ONE, RHUMB_TYPE_ALIBI, 0, 12, 12, 64, 0, 0, 0, 0, 0},
    /* vectors for the distance */
    {"{\"model_type\":\"bert\"," HUB ",\"position_embedding_type\":\"relative_key\"}", ONE,
     RHUMB_TYPE_SHAW, 0, 12, 12, 64, 0, 0, 0, 0, 0},
    {"{\"model_type\":\"esm\"," HUB ",\"position_embedding_type\":\"relative_key_query\"}", ONE,
     RHUMB_TYPE_SHAW, 0, 12, 12, 64, 0, 0, 0, 0, 0},
    {"{\"model_type\":\"speecht5\",\"hidden_size\":768,\"encoder_attention_heads\":12,"
     "\"decoder_attention_heads\":8,\"encoder_max_relative_position\":160,\"encoder_layers\":12,"
     "\"decoder_layers\":6}",
     DECODER, 0, 0, 8, 8, 96, 0, 1, 6, 0, 0},
    {"{\"model_type\":\"speecht5\",\"hidden_size\":768,\"encoder_attention_heads\":12,"
     "\"decoder_attention_heads\":8,\"encoder_max_relative_position\":160}",
     ENCODER, RHUMB_TYPE_SHAW, 0, 12, 12, 64, 0, 0, 0, 0, 0},
    {"{\"model_type\":\"transfo-xl\",\"d_model\":410,\"n_head\":10,\"d_head\":41,\"n_layer\":16}",
     ONE, RHUMB_TYPE_TRANSFORMER_XL, 0, 10, 10, 41, 0, 1, 16, 0, 0},
    {"{\"model_type\":\"xlnet\",\"d_model\":1024,\"n_head\":16,\"attn_type\":\"uni\"}", ONE,
     RHUMB_TYPE_XLNET, 0, 16, 16, 64, 0, 1, 0, 0, 0},
    {"{\"model_type\":\"deberta\"," DEBERTA "}", ONE, RHUMB_TYPE_DEBERTA, 0, 12, 12, 64,
     0.07216878364870323, 0, 0, 0, 0},
    {"{\"model_type\":\"deberta-v2\"," HUB "}", ONE, 0, RHUMB_TYPE_LEARNED, 12, 12, 64, 0, 0, 0,
     512, 768},
    {"{\"model_type\":\"deberta-v2\"," HUB ",\"position_biased_input\":false}", ONE, 0, 0, 12, 12,
     64, 0, 0, 0, 0, 0},
    /* rows for the position */
    {"{\"model_type\":\"bert\"," HUB ",\"is_decoder\":true,\"num_hidden_layers\":12}", ONE, 0,
     RHUMB_TYPE_LEARNED, 12, 12, 64, 0, 1, 12, 512, 768},
    {"{\"model_type\":\"electra\"," HUB ",\"embedding_size\":128}", ONE, 0, RHUMB_TYPE_LEARNED, 12,
     12, 64, 0, 0, 0, 512, 128},
    {"{\"model_type\":\"distilbert\",\"dim\":768,\"n_heads\":12,\"n_layers\":6,"
     "\"max_position_embeddings\":512}",
     ONE, 0, RHUMB_TYPE_LEARNED, 12, 12, 64, 0, 0, 6, 512, 768},
    {"{\"model_type\":\"opt\",\"hidden_size\":768,\"num_attention_heads\":12,"
     "\"max_position_embeddings\":2048}",
     ONE, 0, RHUMB_TYPE_LEARNED, 12, 12, 64, 0, 1, 0, 2050, 768},
    {"{\"model_type\":\"gpt2\",\"n_embd\":768,\"n_head\":12,\"n_positions\":1024,"
     "\"scale_attn_weights\":false}",
     ONE, 0, RHUMB_TYPE_LEARNED, 12, 12, 64, 1, 1, 0, 1024, 768},
    {"{\"model_type\":\"bart\"," SEQ2SEQ ",\"scale_embedding\":false}", DECODER, 0,
     RHUMB_TYPE_LEARNED, 8, 8, 128, 0, 1, 6, 1026, 1024},
    {"{\"model_type\":\"m2m_100\"," SEQ2SEQ ",\"scale_embedding\":true}", ENCODER, 0,
     RHUMB_TYPE_SINUSOIDAL, 16, 16, 64, 0, 0, 12, 0, 1024},
    {"{\"model_type\":\"marian\"," SEQ2SEQ ",\"scale_embedding\":true}", DECODER, 0,
     RHUMB_TYPE_SINUSOIDAL, 8, 8, 128, 0, 1, 6, 0, 1024},
    {"{\"model_type\":\"whisper\"," SEQ2SEQ
     ",\"max_source_positions\":1500,\"max_target_positions\":448}",
     ENCODER, 0, RHUMB_TYPE_SINUSOIDAL, 16, 16, 64, 0, 0, 12, 0, 1024},
    {"{\"model_type\":\"whisper\"," SEQ2SEQ
     ",\"max_source_positions\":1500,\"max_target_positions\":448}",
     DECODER, 0, RHUMB_TYPE_LEARNED, 8, 8, 128, 0, 1, 6, 448, 1024},
    /* patches */
    {"{\"model_type\":\"dinov2\"," VIT "}", ONE, 0, RHUMB_TYPE_LEARNED2D, 6, 6, 64, 0, 0, 0, 197,
     384},
    {"{\"model_type\":\"vit_mae\"," VIT ",\"decoder_hidden_size\":512,"
     "\"decoder_num_attention_heads\":16,\"decoder_num_hidden_layers\":8}",
     DECODER, 0, RHUMB_TYPE_SINUSOIDAL2D, 16, 16, 32, 0, 0, 8, 0, 512},
    {"{\"model_type\":\"detr\",\"d_model\":256,\"encoder_attention_heads\":8,"
     "\"position_embedding_type\":\"learned\"}",
     1, 0, "encoder", 0, RHUMB_TYPE_LEARNED2D, 8, 8, 32, 0, 0, 0, 50, 256},
    {"{\"model_type\":\"beit\"," VIT ",\"use_relative_position_bias\":true,"
     "\"use_absolute_position_embeddings\":true}",
     ONE, RHUMB_TYPE_SWIN, RHUMB_TYPE_LEARNED2D, 6, 6, 64, 0, 0, 0, 197, 384},
    {"{\"model_type\":\"beit\"," VIT "}", ONE, 0, 0, 6, 6, 64, 0, 0, 0, 0, 0},
    {"{\"model_type\":\"clip\",\"text_config\":{\"hidden_size\":512,\"num_attention_heads\":8,"
     "\"max_position_embeddings\":77},\"vision_config\":{" VIT "}}",
     2, 0, "text", 0, RHUMB_TYPE_LEARNED, 8, 8, 64, 0, 1, 0, 77, 512},
    {"{\"model_type\":\"clip\",\"text_config\":{\"hidden_size\":512,\"num_attention_heads\":8,"
     "\"max_position_embeddings\":77},\"vision_config\":{" VIT "}}",
     2, 1, "vision", 0, RHUMB_TYPE_LEARNED2D, 6, 6, 64, 0, 0, 0, 197, 384},
    /* windows */
    {"{\"model_type\":\"swin\"," SWIN ",\"window_size\":7,\"use_absolute_embeddings\":true}", 7, 0,
     "stage 1", RHUMB_TYPE_SWIN, RHUMB_TYPE_LEARNED2D, 3, 3, 32, 0, 0, 12, 3136, 96},
    {"{\"model_type\":\"swin\"," SWIN ",\"window_size\":7}", 7, 5, "stage 3 shifted",
     RHUMB_TYPE_SWIN, 0, 12, 12, 32, 0, 0, 12, 0, 0},
    {"{\"model_type\":\"swinv2\"," SWIN
     ",\"window_size\":14,\"pretrained_window_sizes\":[12,12,12,6]}",
     6, 5, "stage 4", RHUMB_TYPE_SWIN_V2, 0, 24, 24, 32, 1, 0, 12, 0, 0},
};

static uint32_t type_of(const void *scheme)
{
    return scheme != NULL ? ((const rhumb_header *)scheme)->type : 0;
}

static void check_kind(const wanted_kind *w, const describe_report *report)
{
    const rhumb_layer_kind *k = &report->kinds[w->index];
    const double scale = w->scale != 0.0 ? w->scale : 1.0 / sqrt(w->head_dim);

    cr_assert_eq(report->kind_count, w->kinds, "%s: %u kinds", w->json, report->kind_count);
    cr_expect_str_eq(k->name, w->name, "%s: %s", w->json, k->name);
    cr_expect_null(k->rotary);
    cr_expect(type_of(k->scheme) == w->scheme && type_of(k->absolute) == w->absolute,
              "%s: scheme %u, absolute %u", w->json, type_of(k->scheme), type_of(k->absolute));
    cr_expect(k->heads == w->heads && k->kv_heads == w->kv_heads && k->head_dim == w->head_dim,
              "%s: heads %u, kv_heads %u, head_dim %u", w->json, k->heads, k->kv_heads,
              k->head_dim);
    cr_expect(fabs(k->scale - scale) <= 1e-15, "%s: scale %.17g", w->json, k->scale);
    cr_expect(k->causal == w->causal && k->layer_count == w->layers, "%s: causal %u, %u layers",
              w->json, k->causal, k->layer_count);
    cr_expect(k->absolute_rows == w->rows && k->absolute_dim == w->dim, "%s: table %u x %u",
              w->json, k->absolute_rows, k->absolute_dim);
    cr_expect(k->window_left == RHUMB_NO_WINDOW && k->window_right == RHUMB_NO_WINDOW);
}

Test(keys_positions, every_family_has_its_kinds_with_heads_scales_and_tables)
{
    static describe_report report;

    for (size_t i = 0; i < sizeof wanted_kinds / sizeof wanted_kinds[0]; i++) {
        const wanted_kind *w = &wanted_kinds[i];
        const rhumb_result result = describe_model_text(w->json, strlen(w->json), &report);

        cr_expect_eq(result, RHUMB_OK, "%s: %s", w->json, report.message);
        if (result == RHUMB_OK)
            check_kind(w, &report);
        describe_free(&report);
    }
}

/* --- scheme structs --- */

/* The kind `index` of a configuration that must resolve; valid until the next call. */
static const rhumb_layer_kind *kind_of(const char *json, uint32_t index)
{
    static describe_report report;

    describe_free(&report);
    cr_assert_eq(describe_model_text(json, strlen(json), &report), RHUMB_OK, "%s: %s", json,
                 report.message);
    cr_assert_lt(index, report.kind_count);
    return &report.kinds[index];
}

Test(keys_positions, buckets_follow_their_keys_and_longt5_has_a_window)
{
    const char *longt5 = "{\"model_type\":\"longt5\"," T5_KEYS ",\"local_radius\":127,"
                         "\"relative_attention_num_buckets\":64,"
                         "\"relative_attention_max_distance\":256}";
    const rhumb_layer_kind *kind = kind_of(longt5, 0);
    const rhumb_t5 *t5 = kind->scheme;

    cr_expect(t5->num_buckets == 64 && t5->max_distance == 256 && t5->bidirectional == 1 &&
              t5->bias_scale == 1.0);
    cr_expect(kind->window_left == 128 && kind->window_right == 127);
    kind = kind_of(longt5, 1);
    t5 = kind->scheme;
    cr_expect(t5->bidirectional == 0 && kind->window_left == RHUMB_NO_WINDOW);
    t5 = kind_of("{\"model_type\":\"wavlm\"," HUB "}", 0)->scheme;
    cr_expect(t5->num_buckets == 320 && t5->max_distance == 800 && t5->bidirectional == 1);
    kind = kind_of("{\"model_type\":\"mpnet\"," HUB "}", 0);
    t5 = kind->scheme;
    cr_expect(t5->num_buckets == 32 && t5->max_distance == 128);
    cr_expect_eq(((const rhumb_learned *)kind->absolute)->offset, 2);
}

Test(keys_positions, slopes_have_the_form_of_the_model)
{
    const rhumb_alibi *alibi =
        kind_of("{\"model_type\":\"bloom\",\"hidden_size\":1024,\"n_head\":16}", 0)->scheme;

    cr_expect(alibi->form == RHUMB_ALIBI_KEY_INDEX && alibi->bias_times_scale == 0 &&
              alibi->bias_max == 8.0 && alibi->slopes == RHUMB_ALIBI_SLOPES_PAPER);
    alibi = kind_of("{\"model_type\":\"falcon\",\"hidden_size\":2048,\"num_attention_heads\":32,"
                    "\"alibi\":true}",
                    0)
                ->scheme;
    cr_expect(alibi->form == RHUMB_ALIBI_KEY_INDEX && alibi->bias_times_scale == 1);
    alibi = kind_of("{\"model_type\":\"mpt\",\"d_model\":4096,\"n_heads\":32,\"attn_config\":{"
                    "\"alibi\":true,\"alibi_bias_max\":16,\"attn_type\":\"multihead_attention\"}}",
                    0)
                ->scheme;
    cr_expect(alibi->form == RHUMB_ALIBI_LAST_KEY && alibi->bias_max == 16.0);
    alibi = kind_of("{\"model_type\":\"bert\"," HUB ",\"position_embedding_type\":\"alibi\"}", 0)
                ->scheme;
    cr_expect_eq(alibi->form, RHUMB_ALIBI_SYMMETRIC);
}

Test(keys_positions, vectors_for_the_distance_have_the_clips_of_the_model)
{
    const rhumb_shaw *shaw =
        kind_of("{\"model_type\":\"bert\"," HUB ",\"position_embedding_type\":\"relative_key\"}", 0)
            ->scheme;
    const rhumb_transformer_xl *xl;

    cr_expect(shaw->index == RHUMB_QUERY_MINUS_KEY && shaw->beyond == RHUMB_BEYOND_REFUSE &&
              shaw->clip_left == 511 && shaw->clip_right == 511);
    shaw =
        kind_of("{\"model_type\":\"speecht5\",\"hidden_size\":768,\"encoder_attention_heads\":12,"
                "\"decoder_attention_heads\":12,\"encoder_max_relative_position\":160}",
                0)
            ->scheme;
    cr_expect(shaw->index == RHUMB_QUERY_MINUS_KEY && shaw->beyond == RHUMB_BEYOND_CLAMP &&
              shaw->clip_left == 160 && shaw->clip_right == 159);
    shaw = kind_of("{\"model_type\":\"wav2vec2-bert\",\"hidden_size\":1024,"
                   "\"num_attention_heads\":16,\"position_embeddings_type\":\"relative_key\","
                   "\"left_max_position_embeddings\":64,\"right_max_position_embeddings\":8}",
                   0)
               ->scheme;
    cr_expect(shaw->index == RHUMB_KEY_MINUS_QUERY && shaw->clip_left == 64 &&
              shaw->clip_right == 8);
    xl = kind_of("{\"model_type\":\"wav2vec2-conformer\",\"hidden_size\":1024,"
                 "\"num_attention_heads\":16,\"position_embeddings_type\":\"relative\"}",
                 0)
             ->scheme;
    cr_expect(xl->type == RHUMB_TYPE_TRANSFORMER_XL && xl->bidirectional == 1);
    xl = kind_of("{\"model_type\":\"transfo-xl\",\"d_model\":1024,\"n_head\":16,\"d_head\":64,"
                 "\"clamp_len\":1000,\"attn_type\":0}",
                 0)
             ->scheme;
    cr_expect(xl->clamp_len == 1000 && xl->bidirectional == 0 &&
              xl->variant == RHUMB_XL_SINUSOIDAL);
}

Test(keys_positions, xlnet_and_deberta_read_what_minus_one_means)
{
    const rhumb_xlnet *xlnet =
        kind_of("{\"model_type\":\"xlnet\",\"d_model\":768,\"n_head\":12,\"d_head\":64,"
                "\"attn_type\":\"bi\",\"bi_data\":true,\"clamp_len\":-1}",
                0)
            ->scheme;
    const rhumb_layer_kind *kind;
    const rhumb_deberta *deberta;

    cr_expect(xlnet->bidirectional == 1 && xlnet->flip_half == 1 && xlnet->clamp_len == 0);
    deberta = kind_of("{\"model_type\":\"deberta\"," DEBERTA "}", 0)->scheme;
    cr_expect(deberta->position_buckets == 0 && deberta->max_relative_positions == 512 &&
              deberta->p2c_index == RHUMB_P2C_CODE && deberta->clamp_input == 1);
    deberta =
        kind_of("{\"model_type\":\"deberta-v2\"," DEBERTA ",\"position_buckets\":256}", 0)->scheme;
    cr_expect(deberta->position_buckets == 256 && deberta->max_relative_positions == 512);
    kind = kind_of("{\"model_type\":\"deberta-v2\"," HUB ",\"relative_attention\":true,"
                   "\"pos_att_type\":[\"c2p\"],\"max_relative_positions\":128,"
                   "\"position_buckets\":-1}",
                   0);
    deberta = kind->scheme;
    cr_expect(deberta->position_buckets == 0 && deberta->max_relative_positions == 128);
    cr_expect(fabs(kind->scale - 1.0 / sqrt(128.0)) <= 1e-15, "one term: %.17g", kind->scale);
    cr_expect_eq(type_of(kind->absolute), RHUMB_TYPE_LEARNED, "position_biased_input by default");
}

Test(keys_positions, tables_and_sinusoids_start_where_the_model_starts)
{
    const rhumb_learned *learned =
        kind_of("{\"model_type\":\"roberta\"," HUB ",\"pad_token_id\":1}", 0)->absolute;
    const rhumb_sinusoidal *s;

    cr_expect_eq(learned->offset, 2);
    learned = kind_of("{\"model_type\":\"bert\"," HUB ",\"pad_token_id\":1}", 0)->absolute;
    cr_expect_eq(learned->offset, 0);
    learned =
        kind_of("{\"model_type\":\"mbart\"," SEQ2SEQ ",\"scale_embedding\":true}", 1)->absolute;
    cr_expect(learned->offset == 2 && learned->x_scale == 32.0);
    s = kind_of("{\"model_type\":\"m2m_100\"," SEQ2SEQ ",\"scale_embedding\":true}", 1)->absolute;
    cr_expect(s->layout == RHUMB_SINUSOID_SIN_FIRST && s->frequency == RHUMB_FREQUENCY_ENDPOINT &&
              s->offset == 2 && s->padding_index == 1 && s->x_scale == 32.0);
    s = kind_of("{\"model_type\":\"pegasus\"," SEQ2SEQ ",\"scale_embedding\":false}", 0)->absolute;
    cr_expect(s->layout == RHUMB_SINUSOID_SIN_FIRST && s->frequency == RHUMB_FREQUENCY_PAPER &&
              s->offset == 0 && s->padding_index == RHUMB_UNSET && s->x_scale == 1.0);
    s = kind_of("{\"model_type\":\"whisper\"," SEQ2SEQ
                ",\"max_source_positions\":1500,\"max_target_positions\":448}",
                0)
            ->absolute;
    cr_expect(s->frequency == RHUMB_FREQUENCY_ENDPOINT && s->offset == 0);
}

Test(keys_positions, grids_come_from_sizes_of_images_and_patches)
{
    const rhumb_learned2d *learned =
        kind_of("{\"model_type\":\"deit\",\"hidden_size\":384,\"num_attention_heads\":6,"
                "\"image_size\":[240,160],\"patch_size\":16}",
                0)
            ->absolute;
    const rhumb_sinusoidal2d *s;
    const rhumb_swin *swin;

    cr_expect(learned->form == RHUMB_LEARNED2D_FULL && learned->grid[0] == 15 &&
              learned->grid[1] == 10 && learned->prefix_tokens == 2);
    s = kind_of("{\"model_type\":\"vit_mae\"," VIT ",\"decoder_hidden_size\":512,"
                "\"decoder_num_attention_heads\":16}",
                0)
            ->absolute;
    cr_expect(s->order == RHUMB_AXIS_COLUMN_FIRST && s->layout == RHUMB_GRID_PER_AXIS &&
              s->prefix_tokens == 1 && s->grid[0] == 14);
    s = kind_of("{\"model_type\":\"detr\",\"d_model\":256,\"encoder_attention_heads\":8,"
                "\"position_embedding_type\":\"sine\"}",
                0)
            ->absolute;
    cr_expect(s->order == RHUMB_AXIS_ROW_FIRST && s->layout == RHUMB_GRID_INTERLEAVED &&
              s->coordinates == RHUMB_COORDINATES_VALID && s->normalize == 1 && s->grid[0] == 0);
    swin =
        kind_of("{\"model_type\":\"beit\"," VIT ",\"use_shared_relative_position_bias\":true}", 0)
            ->scheme;
    cr_expect(swin->window[0] == 14 && swin->window[1] == 14 && swin->prefix_tokens == 1 &&
              swin->grid[0] == 0);
}

Test(keys_positions, windows_are_shifted_in_every_other_layer_and_clipped_to_the_grid)
{
    const char *v1 = "{\"model_type\":\"swin\"," SWIN ",\"window_size\":7}";
    const char *v2 = "{\"model_type\":\"swinv2\"," SWIN
                     ",\"window_size\":14,\"pretrained_window_sizes\":[12,12,12,6]}";
    const rhumb_layer_kind *kind = kind_of(v1, 4);
    const rhumb_swin *swin = kind->scheme;
    const rhumb_swin_v2 *swin_v2;

    cr_expect(swin->window[0] == 7 && swin->grid[0] == 14 && swin->shift[0] == 0);
    cr_expect_eq(kind->layers[0], 0x150u, "layers 4, 6, 8: %x", kind->layers[0]);
    kind = kind_of(v1, 5);
    swin = kind->scheme;
    cr_expect(swin->shift[0] == 3 && swin->shift[1] == 3 && swin->padding == RHUMB_WINDOW_EXACT);
    cr_expect_eq(kind->layers[0], 0x2a0u, "layers 5, 7, 9: %x", kind->layers[0]);
    kind = kind_of(v1, 6);
    swin = kind->scheme;
    cr_expect(swin->grid[0] == 7 && swin->shift[0] == 0);
    cr_expect_eq(kind->layers[0], 0xc00u, "layers 10, 11: %x", kind->layers[0]);
    swin_v2 = kind_of(v2, 4)->scheme;
    cr_expect(swin_v2->window[0] == 14 && swin_v2->grid[0] == 14 && swin_v2->shift[0] == 0 &&
              swin_v2->pretrained_window[0] == 12);
    swin_v2 = kind_of(v2, 5)->scheme;
    cr_expect(swin_v2->window[0] == 7 && swin_v2->grid[0] == 7 &&
              swin_v2->pretrained_window[1] == 6);
    /* 15 patches do not divide by 7; the next stage has 8, rounded up */
    swin = kind_of("{\"model_type\":\"swin\",\"embed_dim\":96,\"depths\":[2,2],\"num_heads\":[3,6],"
                   "\"image_size\":60,\"patch_size\":4,\"window_size\":7}",
                   2)
               ->scheme;
    cr_expect(swin->grid[0] == 8 && swin->padding == RHUMB_WINDOW_PAD_THEN_SHIFT);
}

/* --- traps --- */

typedef struct trap_row {
    const char *json;
    const char *key;
    const char *phrase;
} trap_row;

static const trap_row traps[] = {
    {"{\"model_type\":\"t5\"," T5_KEYS "}", "d_kv", "their scale is 1"},
    {"{\"model_type\":\"t5\"," T5_KEYS "}", "is_encoder_decoder", "cross-attention has no bias"},
    {"{\"model_type\":\"t5\"," T5_KEYS "}", "relative_attention_num_buckets",
     "first layer's table"},
    {"{\"model_type\":\"umt5\"," T5_KEYS "}", "relative_attention_num_buckets", "of its own"},
    {"{\"model_type\":\"longt5\"," T5_KEYS
     ",\"local_radius\":127,\"encoder_attention_type\":\"transient-global\"}",
     "encoder_attention_type", "averages of its blocks"},
    {"{\"model_type\":\"wavlm\"," HUB "}", "num_buckets", "ROW_SCALE"},
    {"{\"model_type\":\"bloom\",\"hidden_size\":1024,\"n_head\":16}", "model_type", "key_position"},
    {"{\"model_type\":\"falcon\",\"hidden_size\":2048,\"num_attention_heads\":32,\"alibi\":true}",
     "alibi", "before 1/sqrt(head_dim)"},
    {"{\"model_type\":\"bert\"," HUB ",\"position_embedding_type\":\"relative_key_query\"}",
     "position_embedding_type", "KEY_TABLE"},
    {"{\"model_type\":\"xlnet\",\"d_model\":768,\"n_head\":12,\"bi_data\":true}", "bi_data",
     "second half"},
    {"{\"model_type\":\"transfo-xl\",\"d_model\":1024,\"n_head\":16,\"d_head\":64,"
     "\"same_length\":true}",
     "same_length", "a mask of the host's"},
    {"{\"model_type\":\"wav2vec2-conformer\"," HUB ",\"position_embeddings_type\":\"relative\"}",
     "position_embeddings_type", "INTERLEAVED"},
    {"{\"model_type\":\"deberta\"," DEBERTA "}", "position_biased_input", "Enhanced Mask Decoder"},
    {"{\"model_type\":\"deberta\"," DEBERTA "}", "pos_att_type", "released code"},
    {"{\"model_type\":\"deberta-v2\"," DEBERTA ",\"conv_kernel_size\":3}", "conv_kernel_size",
     "convolution"},
    {"{\"model_type\":\"roberta\"," HUB "}", "pad_token_id", "position_offset"},
    {"{\"model_type\":\"opt\"," HUB "}", "max_position_embeddings", "row 1"},
    {"{\"model_type\":\"dinov2\"," VIT "}", "image_size", "bicubically"},
    {"{\"model_type\":\"dinov2_with_registers\"," VIT "}", "num_register_tokens", "no rows"},
    {"{\"model_type\":\"detr\",\"d_model\":256,\"encoder_attention_heads\":8,"
     "\"position_embedding_type\":\"sine\"}",
     "position_embedding_type", "never to V"},
    {"{\"model_type\":\"swinv2\"," SWIN ",\"window_size\":7,\"pretrained_window_sizes\":[0,0,0,0]}",
     "model_type", "twice"},
};

static int has_trap(const describe_report *report, const trap_row *row)
{
    for (uint32_t i = 0; i < report->row_count; i++) {
        const describe_row *r = &report->rows[i];
        if (strcmp(r->field, "warning") == 0 && strcmp(r->value, row->key) == 0 &&
            strstr(r->source, row->phrase) != NULL)
            return 1;
    }
    return 0;
}

Test(keys_positions, traps_are_told_with_the_key_that_comes_near_them)
{
    static describe_report report;

    for (size_t i = 0; i < sizeof traps / sizeof traps[0]; i++) {
        const char *json = traps[i].json;
        cr_assert_eq(describe_model_text(json, strlen(json), &report), RHUMB_OK, "%s: %s", json,
                     report.message);
        cr_expect(has_trap(&report, &traps[i]), "%s: no \"%s\" of %s", json, traps[i].phrase,
                  traps[i].key);
        for (uint32_t k = 0; k < report.row_count; k++) /* nothing was cut */
            cr_expect_lt(strlen(report.rows[k].source), sizeof report.rows[k].source - 1);
        describe_free(&report);
    }
}

Test(keys_positions, an_older_layer_kind_gets_no_absolute_scheme)
{
    static describe_report report;
    const char *json = "{\"model_type\":\"bert\"," HUB "}";
    rhumb_model_config config;
    rhumb_keys_info info;
    uint32_t count;
    char message[256];

    cr_assert_eq(rhumb_model_parse_config(json, strlen(json), &config, message, sizeof message),
                 RHUMB_OK);
    rhumb_init_keys_info(&info);
    rhumb_init_layer_kind(&report.kinds[0]);
    report.kinds[0].struct_size = (uint32_t)offsetof(rhumb_layer_kind, absolute);
    report.kinds[0].absolute_dim = 77;
    info.keys = config.keys;
    info.key_count = config.key_count;
    info.kinds = report.kinds;
    info.kind_capacity = 1;
    info.arena = report.arena;
    info.arena_size = sizeof report.arena;
    cr_assert_eq(rhumb_scheme_from_keys(&info, &count), RHUMB_OK);
    cr_expect(count == 1 && report.kinds[0].heads == 12 && report.kinds[0].absolute_dim == 77);
    info.arena_size = sizeof(rhumb_learned) - 1;
    cr_expect_eq(rhumb_scheme_from_keys(&info, &count), RHUMB_ERROR_HOST_MEMORY);
    rhumb_model_free_config(&config);
}
