/* The readers of the relative schemes' golden cases: every key and tensor that changes a result is
 * read, and what the vocabulary does not allow is refused. Each row changes one thing in a case
 * that passes as it stands.
 */
#define _POSIX_C_SOURCE 200809L /* mkdtemp */

#include "cases.h"
#include "safetensors.h"

#include <cjson/cJSON.h>
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct change_row {
    const char *name; /* of the case */
    const char *key; /* "in.NAME": a tensor, whose element 0 becomes `value`; otherwise of params */
    const char *value; /* JSON; NULL: the key, or the tensor, is taken out */
    const char *why;   /* in the reason; "": the case still passes */
} change_row;

#define OFF_O "reference: out.o["
#define OFF_S "reference: out.scores["

static const change_row rows[] = {
    /* What all schemes share. */
    {"shaw_attn_causal_L33_k7", "causal", "false", OFF_O},
    {"shaw_attn_causal_L33_k7", "q_offset", "1", OFF_O},
    {"shaw_attn_causal_L33_k7", "q_offset", "2e6", "params.q_offset: wanted"},
    {"shaw_attn_causal_L33_k7", "scale", "0.3", OFF_O},
    {"shaw_attn_causal_L33_k7", "scale", "null", "wanted scale"},
    {"shaw_attn_causal_L33_k7", "heads", "8", "in.q: wanted"},
    {"shaw_attn_causal_L33_k7", "kv_heads", "3", "kv_heads to divide heads"},
    {"shaw_attn_causal_L33_k7", "kv_heads", "2", "in.k: wanted"},
    {"shaw_attn_causal_L33_k7", "k_len", "32", "in.k: wanted"},
    {"shaw_attn_causal_L33_k7", "batch", "2", "in.q: wanted"},
    {"shaw_attn_causal_L33_k7", "batch", "null", ""},
    {"shaw_attn_causal_L33_k7", "colour", "1", "unknown key \"colour\""},
    {"shaw_attn_causal_L33_k7", "in.k", "5", OFF_O},
    {"shaw_attn_causal_L33_k7", "in.v", NULL, "wanted the tensor in.v"},
    {"alibi_attn_mpt_mqa_causal_L33_H6", "in.k", "5", OFF_O},
    /* Shaw */
    {"shaw_attn_causal_L33_k7", "variant", "\"bert_relative_key\"", "wanted no clip_left"},
    {"shaw_attn_causal_L33_k7", "variant", "\"shaw2\"", "unknown value \"shaw2\""},
    {"shaw_attn_causal_L33_k7", "variant", NULL, "wanted variant"},
    {"shaw_attn_causal_L33_k7", "variant", "\"shaw_qminusk\"", "wanted that of the variant"},
    {"shaw_attn_causal_L33_k7", "table_row", NULL, ""},
    {"shaw_attn_causal_L33_k7", "table_row", "\"j-i\"", "unknown value \"j-i\""},
    {"shaw_attn_causal_L33_k7", "clip_left", "8", "max_relative_position"},
    {"shaw_attn_causal_L33_k7", "clip_left", NULL, "params.clip_left"},
    {"shaw_attn_causal_L33_k7", "max_relative_position", "8", "max_relative_position"},
    {"shaw_attn_causal_L33_k7", "value_term", "false", "in.rel_v exactly with value_term"},
    {"shaw_attn_causal_L33_k7", "key_term", "false", "key_term"},
    {"shaw_attn_causal_L33_k7", "tables_per_head", "true", "in.rel_k: wanted 3 dimensions"},
    {"shaw_attn_causal_L33_k7", "in.rel_k", "5", OFF_O},
    {"shaw_attn_causal_L33_k7", "in.rel_v", "5", OFF_O},
    {"shaw_asym_w2vbert_scores_L33_l9_r3", "clip_left", "8", "in.rel_k: wanted"},
    {"shaw_bertrkq_attn_L17_M17", "query_term", "false", "params.query_term"},
    {"shaw_bertrk_scores_L21_M24", "max_position_embeddings", "25", "in.rel_k: wanted"},
    {"shaw_bertrk_scores_L21_M24", "q_offset", "9", "outside their domain"},
    /* Music Transformer */
    {"music_t2t_attn_bidir_L19_M6_values", "future_rel_term", "\"zero\"", OFF_O},
    {"music_t2t_attn_bidir_L19_M6_values", "future_rel_term", "\"masked\"", "wanted causal"},
    {"music_t2t_attn_bidir_L19_M6_values", "table_rows", "6", "params.table_rows: wanted 11"},
    {"music_t2t_attn_bidir_L19_M6_values", "variant", "\"music_transformer\"", "table_rows"},
    {"music_t2t_attn_bidir_L19_M6_values", "in.rel_v", "5", OFF_O},
    {"music_t2t_attn_bidir_L19_M6_values", "tables_per_head", "false", "in.rel_k: wanted 2"},
    {"music_gwinndr_scores_L17_M17", "beyond_table", "\"clamp\"", "unknown value \"clamp\""},
    /* T5 */
    {"t5_attn_uni_L37", "bidirectional", "true", OFF_O},
    {"t5_attn_uni_L37", "bidirectional", NULL, "wanted bidirectional"},
    {"t5_attn_uni_L37", "max_distance", "64", OFF_O},
    {"t5_attn_uni_L37", "max_distance", NULL, ""},
    {"t5_attn_uni_L37", "max_distance", "16", "outside their domain"},
    {"t5_attn_uni_L37", "num_buckets", "31", "in.table: wanted"},
    {"t5_attn_uni_L37", "bias_scale", "2", OFF_O},
    {"t5_attn_uni_L37", "scale", NULL, ""},
    {"t5_bias_uni_Lq5_Lk141_H5", "q_offset", "0", "reference: out.bias["},
    {"t5_bias_uni_Lq5_Lk141_H5", "causal", "true", "unknown key \"causal\""},
    {"t5_bias_x_bi_Lq6_Lk45_scaled", "bias_scale", NULL, "reference: out.bias["},
    {"t5_buckets_bi_nb12_md40", "max_distance", "41", "reference: out.buckets["},
    {"t5_buckets_bi_nb12_md40", "relative_position", "\"i-j\"", "unknown value"},
    /* ALiBi */
    {"alibi_attn_mpt_full_Lq7_Lk40_H3_max16", "alibi_bias_max", NULL, OFF_O},
    {"alibi_attn_mpt_full_Lq7_Lk40_H3_max16", "alibi_form", "\"key_index\"", OFF_O},
    {"alibi_attn_mpt_full_Lq7_Lk40_H3_max16", "alibi_form", NULL, "wanted alibi_form"},
    {"alibi_attn_mpt_full_Lq7_Lk40_H3_max16", "alibi_form", "\"key_position_from_mask\"",
     "wanted the tensor in.mask"},
    {"alibi_attn_mpt_full_Lq7_Lk40_H3_max16", "slopes", "\"closed_form\"", "unknown value"},
    {"alibi_attn_falcon_scaledbias_L27_H8", "bias_times_scale", NULL, OFF_O},
    {"alibi_attn_bloom_leftpad_L18_H4", "alibi_form", "\"key_index\"", "wanted in.mask only"},
    {"alibi_attn_bloom_leftpad_L18_H4", "in.mask", "2", "in.mask: wanted 0 or 1"},
    {"alibi_bias_bloom_leftpad_L20_H12", "in.mask", "2", "in.mask: wanted 0 or 1"},
    {"alibi_bias_bloom_leftpad_L20_H12", "in.mask", "1", "reference: out.bias["},
    {"alibi_scores_mpt_causal_Lq4_Lk67_H7", "alibi_form", "\"key_index\"", OFF_S},
    {"alibi_slopes_mpt_H12_max16", "alibi_bias_max", "8", "reference: out.table["},
    {"alibi_slopes_mpt_H12_max16", "heads", "11", "out.table: wanted"},
    /* Transformer-XL */
    {"txl_attn_L9_mem25_clamp12", "clamp_len", "-1", OFF_O},
    {"txl_attn_L9_mem25_clamp12", "mem_len", "24", "params.mem_len: wanted 25"},
    {"txl_attn_L9_mem25_clamp12", "d_model", "18", "in.w_r: wanted"},
    {"txl_attn_L9_mem25_clamp12", "variant", "\"learned\"", "wanted that of variant learned"},
    {"txl_attn_L9_mem25_clamp12", "causal", "false", ""},
    {"txl_attn_L9_mem25_clamp12", "table_rows", "4", "table_rows only with"},
    {"txl_attn_L9_mem25_clamp12", "in.r_w_bias", "5", OFF_O},
    {"txl_attn_L9_mem25_clamp12", "in.r_r_bias", "5", OFF_O},
    {"txl_attn_L9_mem25_clamp12", "in.w_r", "5", OFF_O},
    {"txl_scores_L17", "scores_defined", NULL, "wanted scores_defined"},
    {"txl_learned_scores_L19_rows30", "table_rows", "29", "in.rel_k: wanted"},
    {"txl_learned_scores_L19_rows30", "in.r_bias", "5", ""}, /* row 0 is never read */
    {"txl_learned_attn_L11_mem14_rows16", "in.r_bias", "5", OFF_O},
    {"txl_learned_attn_L11_mem14_rows16", "in.rel_k", "5", OFF_O},
    {"txl_learned_attn_L11_mem14_rows16", "clamp_len", "5", "wanted no clamp_len"},
    /* XLNet */
    {"xlnet_attn_bidata_L13", "bi_data", "false", OFF_O},
    {"xlnet_attn_bi_L33_clamp10", "clamp_len", NULL, OFF_O},
    {"xlnet_attn_bi_L33_clamp10", "attn_type", "\"uni\"", OFF_O},
    {"xlnet_attn_bi_L33_clamp10", "bi_data", "true", "an even batch with bi_data"},
    {"xlnet_attn_bi_L33_clamp10", "segment_term", "false", "exactly with segment_term"},
    {"xlnet_attn_bi_L33_clamp10", "in.seg_q", NULL, "wanted in.seg_q exactly"},
    {"xlnet_attn_bi_L33_clamp10", "in.seg_q", "9", OFF_O},
    {"xlnet_attn_bi_L33_clamp10", "in.seg_k", "9", OFF_O},
    {"xlnet_attn_bi_L33_clamp10", "in.seg_embed", "5", OFF_O},
    {"xlnet_attn_bi_L33_clamp10", "in.r_s_bias", "5", OFF_O},
    {"xlnet_attn_bi_L21_mem12_mask", "in.mask", NULL, OFF_O},
    {"xlnet_attn_bi_L21_mem12_mask", "in.mask", "-1", "in.mask: wanted 0 or 1"},
    {"xlnet_scores_uni_L9_clamp5", "attn_type", "\"bi\"", ""}, /* the same where it is defined */
    {"xlnet_scores_bi_L17", "scores_defined", "\"j<=i+q_offset, others stored as 0\"", OFF_S},
    /* DeBERTa */
    {"deberta_v2_hf_attn_L67_b8_m20", "bucket_input_clamp", "true", OFF_O},
    {"deberta_v2_hf_attn_L67_b8_m20", "position_buckets", "-1", "params.att_span: wanted 20"},
    {"deberta_v2_hf_attn_L67_b8_m20", "max_relative_positions", "24", OFF_O},
    {"deberta_v2_hf_attn_L67_b8_m20", "max_relative_positions", "5", "outside their domain"},
    {"deberta_v2_hf_attn_L67_b8_m20", "pos_att_type", "[\"c2p\"]", "scale_factor: wanted 2"},
    {"deberta_v2_hf_attn_L67_b8_m20", "pos_att_type", "[\"p2p\"]", "list of known words"},
    {"deberta_v2_hf_attn_L67_b8_m20", "in.pos_query", "5", OFF_O},
    {"deberta_v2_hf_attn_L67_b8_m20", "p2c_index", "\"paper\"", "unknown value \"paper\""},
    {"deberta_v2_hf_attn_L67_b8_m20", "layer_norm_eps", "1", "wanted level hidden"},
    {"deberta_v1_hf_attn_L33_k12_mask", "in.mask", NULL, OFF_O},
    {"deberta_v1_hf_scores_c2p_only_L21", "pos_att_type", NULL, "scale_factor: wanted 3"},
    {"deberta_v2_ms_attn_Lq6_Lk50_off44", "q_offset", "43", OFF_O},
    {"deberta_buckets_ms_8_20", "input_clamp", "false", "reference: out.buckets["},
    {"deberta_buckets_ms_8_20", "position_buckets", NULL, "position_buckets above 0"},
    {"deberta_v3_hidden_attn_L21_b8_m16", "layer_norm_eps", "0.1", OFF_O},
    {"deberta_v3_hidden_attn_L21_b8_m16", "norm_rel_ebd", NULL, "exactly with norm_rel_ebd"},
    {"deberta_v3_hidden_attn_L21_b8_m16", "share_att_key", "false", "wanted true at level hidden"},
    {"deberta_v3_hidden_attn_L21_b8_m16", "level", NULL, "wanted level hidden"},
    {"deberta_v3_hidden_attn_L21_b8_m16", "in.b_key", "5", OFF_O},
    {"deberta_emd_v1_L13_k6", "emd_steps", "3", "params.emd_steps: wanted 2"},
    {"deberta_emd_v1_L13_k6", "intermediate_size", "41", "intermediate_size: wanted 40"},
    {"deberta_emd_v1_L13_k6", "share_att_key", "true", "exactly without share_att_key"},
    {"deberta_emd_v1_L13_k6", "in.positions", "16", "in.positions[0]: wanted 0 to 15"},
    {"deberta_emd_v1_L13_k6", "in.layer.output.LayerNorm.bias", "5", "reference: out.o2["},
    {"deberta_emd_v1_L13_k6", "in.layer.attention.self.pos_query_proj.bias", "5", OFF_O},
    {"deberta_emd_v1_L13_k6", "variant", NULL, "unknown tensor"},
};

static void change_param(tensor_list *list, const char *key, const char *value)
{
    cJSON *params = cJSON_Parse(tensor_list_text(list, "params"));
    tensor_error error;
    char *text;

    cJSON_DeleteItemFromObjectCaseSensitive(params, key);
    if (value != NULL)
        cJSON_AddItemToObject(params, key, cJSON_Parse(value));
    text = cJSON_PrintUnformatted(params);
    cr_assert_eq(tensor_list_set_text(list, "params", text, &error), 0);
    free(text);
    cJSON_Delete(params);
}

/* A copy of the list, so that a tensor can be left out. */
static void copy_without(const tensor_list *from, const char *name, tensor_list *to)
{
    tensor_error error;
    size_t i;

    for (i = 0; i < from->text_count; i++)
        cr_assert_eq(tensor_list_set_text(to, from->texts[i].key, from->texts[i].value, &error), 0);
    for (i = 0; i < from->count; i++) {
        const tensor *t = &from->items[i];
        tensor *copy;
        if (name != NULL && strcmp(t->name, name) == 0)
            continue;
        copy = tensor_list_add(to, t->name, t->dtype, t->rank, t->shape, &error);
        cr_assert_not_null(copy);
        memcpy(copy->data, t->data, (size_t)tensor_bytes(t));
    }
}

static void write_changed(const change_row *row, const char *path)
{
    const char *root = getenv("RHUMB_TEST_SOURCE_ROOT");
    const int of_tensor = strncmp(row->key, "in.", 3) == 0;
    tensor_list golden = {0}, changed = {0};
    tensor_error error;
    char source[1024];

    snprintf(source, sizeof source, "%s/tests/goldens/relative1d/%s.safetensors",
             root != NULL ? root : ".", row->name);
    cr_assert_eq(safetensors_read(source, &golden, &error), 0, "%s", error.line);
    if (of_tensor)
        cr_assert_not_null(tensor_list_find(&golden, row->key), "%s %s", row->name, row->key);
    copy_without(&golden, of_tensor && row->value == NULL ? row->key : NULL, &changed);
    if (!of_tensor)
        change_param(&changed, row->key, row->value);
    else if (row->value != NULL)
        tensor_put(tensor_list_find(&changed, row->key), 0, atof(row->value));
    cr_assert_eq(safetensors_write(path, &changed, &error), 0, "%s", error.line);
    tensor_list_free(&golden);
    tensor_list_free(&changed);
}

Test(cases_relative, every_change_of_a_case_is_seen)
{
    char temporary[] = "/tmp/rhumb-relative-XXXXXX", path[256];
    case_result result;
    size_t i;

    cr_assert_not_null(mkdtemp(temporary));
    snprintf(path, sizeof path, "%s/changed.safetensors", temporary);
    for (i = 0; i < sizeof rows / sizeof *rows; i++) {
        const case_status wanted = rows[i].why[0] != '\0' ? CASE_FAIL : CASE_PASS;
        write_changed(&rows[i], path);
        cases_run_file(path, NULL, NULL, &result);
        cr_expect(result.status == wanted && strstr(result.reason, rows[i].why) != NULL,
                  "row %zu, %s, %s: wanted \"%s\", got status %d \"%s\"", i, rows[i].name,
                  rows[i].key, rows[i].why, (int)result.status, result.reason);
    }
    unlink(path);
    cr_assert_eq(rmdir(temporary), 0);
}
