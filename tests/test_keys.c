/* Configuration keys -> layer kinds: both styles of keys, the defaults of the families, and every
 * kind of bad input with the phrases its line must have. */
#include "describe_model.h"

#include <rhumb/rhumb_schemes.h>

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>

#define LLAMA "\"model_type\":\"llama\",\"hidden_size\":4096,\"num_attention_heads\":32"

/* --- good input --- */

typedef struct good_row {
    const char *json;
    rhumb_pairing pairing;
    uint32_t heads;
    uint32_t kv_heads;
    uint32_t head_dim;
    uint32_t rotary_dim;
    double base;
    double factor; /* 1: no scaling */
    double scale;
    uint32_t kinds;
    int32_t window; /* of the last kind; 0: none */
} good_row;

#define HALF RHUMB_PAIRING_HALF
#define INTER RHUMB_PAIRING_INTERLEAVED

static const good_row good_rows[] = {
    /* llama: defaults; head_dim wins; null is absent; 4096.0 is an integer */
    {"{" LLAMA "}", HALF, 32, 32, 128, 128, 1e4, 1, 0, 1, 0},
    {"{" LLAMA ",\"head_dim\":64,\"num_key_value_heads\":8}", HALF, 32, 8, 64, 64, 1e4, 1, 0, 1, 0},
    {"{" LLAMA
     ",\"head_dim\":null,\"num_key_value_heads\":null,\"rope_theta\":null,\"rope_scaling\":null,"
     "\"rope_parameters\":null,\"partial_rotary_factor\":null,\"sliding_window\":null}",
     HALF, 32, 32, 128, 128, 1e4, 1, 0, 1, 0},
    {"{\"model_type\":\"llama\",\"hidden_size\":4096.0,\"num_attention_heads\":3.2e1}", HALF, 32,
     32, 128, 128, 1e4, 1, 0, 1, 0},
    {"{\"model_type\":\"llama\",\"num_attention_heads\":33,\"head_dim\":64}", HALF, 33, 33, 64, 64,
     1e4, 1, 0, 1, 0},
    /* old style */
    {"{" LLAMA ",\"rope_theta\":1e6,\"rope_scaling\":{\"type\":\"linear\",\"factor\":4.0}}", HALF,
     32, 32, 128, 128, 1e6, 4, 0, 1, 0},
    {"{" LLAMA ",\"rope_scaling\":{\"rope_type\":\"linear\",\"type\":\"yarn\",\"factor\":2}}", HALF,
     32, 32, 128, 128, 1e4, 2, 0, 1, 0},
    {"{" LLAMA ",\"rope_scaling\":{\"rope_type\":\"default\"}}", HALF, 32, 32, 128, 128, 1e4, 1, 0,
     1, 0},
    {"{" LLAMA ",\"rope_scaling\":{}}", HALF, 32, 32, 128, 128, 1e4, 1, 0, 1, 0},
    /* new style, and both styles where they agree */
    {"{" LLAMA ",\"rope_parameters\":{\"rope_type\":\"default\",\"rope_theta\":500000.0}}", HALF,
     32, 32, 128, 128, 5e5, 1, 0, 1, 0},
    {"{" LLAMA ",\"rope_parameters\":{\"rope_theta\":500000.0}}", HALF, 32, 32, 128, 128, 5e5, 1, 0,
     1, 0},
    {"{" LLAMA ",\"rope_parameters\":{\"rope_type\":\"linear\",\"factor\":8,\"rope_theta\":1e6}}",
     HALF, 32, 32, 128, 128, 1e6, 8, 0, 1, 0},
    {"{" LLAMA ",\"rope_theta\":1e6,\"rope_scaling\":{\"type\":\"linear\",\"factor\":8},"
     "\"rope_parameters\":{\"rope_type\":\"linear\",\"factor\":8,\"rope_theta\":1e6}}",
     HALF, 32, 32, 128, 128, 1e6, 8, 0, 1, 0},
    {"{\"model_type\":\"phi\",\"hidden_size\":2560,\"num_attention_heads\":32,"
     "\"rope_parameters\":{\"rope_type\":\"default\",\"rope_theta\":10000,\"partial_rotary_"
     "factor\":0.4}}",
     HALF, 32, 32, 80, 32, 1e4, 1, 0, 1, 0},
    /* partial rotary: defaults, aliases, truncation */
    {"{\"model_type\":\"phi\",\"hidden_size\":2048,\"num_attention_heads\":32}", HALF, 32, 32, 64,
     32, 1e4, 1, 0, 1, 0},
    {"{\"model_type\":\"phi3\",\"hidden_size\":3072,\"num_attention_heads\":24,\"num_key_value_"
     "heads\":8,"
     "\"partial_rotary_factor\":0.75}",
     HALF, 24, 8, 128, 96, 1e4, 1, 0, 1, 0},
    {"{\"model_type\":\"gpt_neox\",\"hidden_size\":2048,\"num_attention_heads\":16}", HALF, 16, 16,
     128, 32, 1e4, 1, 0, 1, 0},
    {"{\"model_type\":\"gpt_neox\",\"hidden_size\":2048,\"num_attention_heads\":16,\"rotary_pct\":"
     "1.0,"
     "\"rotary_emb_base\":25000,\"rope_theta\":25000,\"partial_rotary_factor\":1}",
     HALF, 16, 16, 128, 128, 25000, 1, 0, 1, 0},
    {"{\"model_type\":\"stablelm\",\"hidden_size\":2560,\"num_attention_heads\":32,\"num_key_value_"
     "heads\":32}",
     HALF, 32, 32, 80, 20, 1e4, 1, 0, 1, 0},
    {"{\"model_type\":\"phi\",\"head_dim\":100,\"num_attention_heads\":4,\"partial_rotary_factor\":"
     "0.29}",
     HALF, 4, 4, 100, 28, 1e4, 1, 0, 1,
     0}, /* 0.29 * 100 is below 29 in double, as in the reference */
    {"{\"model_type\":\"gptj\",\"n_embd\":4096,\"n_head\":16,\"rotary_dim\":64}", INTER, 16, 16,
     256, 64, 1e4, 1, 0, 1, 0},
    {"{\"model_type\":\"codegen\",\"n_embd\":1024,\"n_head\":16,\"rotary_dim\":32}", INTER, 16, 16,
     64, 32, 1e4, 1, 0, 1, 0},
    {"{\"model_type\":\"glm4\",\"hidden_size\":4096,\"num_attention_heads\":32,\"num_key_value_"
     "heads\":2,"
     "\"head_dim\":128}",
     INTER, 32, 2, 128, 64, 1e4, 1, 0, 1, 0},
    /* a missing base means what the family says */
    {"{\"model_type\":\"mixtral\",\"hidden_size\":4096,\"num_attention_heads\":32,\"num_key_value_"
     "heads\":8}",
     HALF, 32, 8, 128, 128, 1e6, 1, 0, 1, 0},
    {"{\"model_type\":\"cohere\",\"hidden_size\":8192,\"num_attention_heads\":64}", INTER, 64, 64,
     128, 128, 5e5, 1, 0, 1, 0},
    {"{\"model_type\":\"chatglm\",\"num_attention_heads\":32,\"kv_channels\":128,\"rope_ratio\":"
     "500,"
     "\"multi_query_attention\":true,\"multi_query_group_num\":2}",
     INTER, 32, 2, 128, 64, 5e6, 1, 0, 1, 0},
    {"{\"model_type\":\"chatglm\",\"num_attention_heads\":32,\"kv_channels\":128}", INTER, 32, 32,
     128, 64, 1e4, 1, 0, 1, 0},
    /* falcon: one key head, or groups */
    {"{\"model_type\":\"falcon\",\"hidden_size\":4544,\"num_attention_heads\":71,\"num_kv_heads\":"
     "71}",
     HALF, 71, 1, 64, 64, 1e4, 1, 0, 1, 0},
    {"{\"model_type\":\"falcon\",\"hidden_size\":8192,\"num_attention_heads\":128,\"num_kv_heads\":"
     "8,"
     "\"new_decoder_architecture\":true}",
     HALF, 128, 8, 64, 64, 1e4, 1, 0, 1, 0},
    {"{\"model_type\":\"falcon\",\"hidden_size\":4096,\"num_attention_heads\":64,\"multi_query\":"
     "false}",
     HALF, 64, 64, 64, 64, 1e4, 1, 0, 1, 0},
    /* windows */
    {"{\"model_type\":\"mistral\",\"hidden_size\":4096,\"num_attention_heads\":32,\"num_key_value_"
     "heads\":8}",
     HALF, 32, 8, 128, 128, 1e4, 1, 0, 1, 4096},
    {"{\"model_type\":\"mistral\",\"hidden_size\":4096,\"num_attention_heads\":32,\"num_key_value_"
     "heads\":8,"
     "\"sliding_window\":null}",
     HALF, 32, 8, 128, 128, 1e4, 1, 0, 1, 0},
    {"{\"model_type\":\"qwen2\",\"hidden_size\":896,\"num_attention_heads\":14,\"num_key_value_"
     "heads\":2,"
     "\"use_sliding_window\":true,\"sliding_window\":1000,\"max_window_layers\":20,\"num_hidden_"
     "layers\":24}",
     HALF, 14, 2, 64, 64, 1e4, 1, 0, 2, 1000},
    {"{\"model_type\":\"qwen2\",\"hidden_size\":896,\"num_attention_heads\":14,\"num_key_value_"
     "heads\":2,"
     "\"use_sliding_window\":true,\"sliding_window\":1000,\"max_window_layers\":24,\"num_hidden_"
     "layers\":24}",
     HALF, 14, 2, 64, 64, 1e4, 1, 0, 1, 0},
    {"{\"model_type\":\"qwen2\",\"hidden_size\":896,\"num_attention_heads\":14,\"num_key_value_"
     "heads\":2,"
     "\"use_sliding_window\":true,\"sliding_window\":1000,\"max_window_layers\":0,\"num_hidden_"
     "layers\":24}",
     HALF, 14, 2, 64, 64, 1e4, 1, 0, 1, 1000},
    {"{\"model_type\":\"qwen3\",\"head_dim\":128,\"num_attention_heads\":32,\"num_key_value_"
     "heads\":8,"
     "\"layer_types\":[\"full_attention\",\"full_attention\"],\"sliding_window\":7,\"use_sliding_"
     "window\":false}",
     HALF, 32, 8, 128, 128, 1e4, 1, 0, 1, 0},
    {"{\"model_type\":\"gemma2\",\"head_dim\":128,\"num_attention_heads\":32,\"num_key_value_"
     "heads\":16,"
     "\"query_pre_attn_scalar\":144,\"sliding_window\":512}",
     HALF, 32, 16, 128, 128, 1e4, 1, 1.0 / 12, 2, 512},
    {"{\"model_type\":\"gemma2\",\"head_dim\":128,\"num_attention_heads\":32,\"num_key_value_"
     "heads\":16,"
     "\"query_pre_attn_scalar\":144,\"layer_types\":[\"sliding_attention\"]}",
     HALF, 32, 16, 128, 128, 1e4, 1, 1.0 / 12, 1, 4096},
    {"{\"model_type\":\"granite\",\"hidden_size\":2048,\"num_attention_heads\":32,\"num_key_value_"
     "heads\":8,"
     "\"attention_multiplier\":0.015625,\"rope_theta\":1e7}",
     HALF, 32, 8, 64, 64, 1e7, 1, 0.015625, 1, 0},
};

static void check_good(const good_row *row, const describe_report *report)
{
    const rhumb_layer_kind *kind = &report->kinds[report->kind_count - 1];
    const rhumb_rope *rope = kind->rotary;
    double scale = row->scale != 0.0 ? row->scale : 1.0 / sqrt(row->head_dim);
    rhumb_rope_scaling scaling =
        row->factor != 1.0 ? RHUMB_ROPE_SCALING_LINEAR : RHUMB_ROPE_SCALING_NONE;

    cr_expect_eq(report->kind_count, row->kinds, "%s: %u kinds", row->json, report->kind_count);
    cr_expect_null(kind->scheme);
    cr_assert_not_null(rope);
    cr_expect(kind->heads == row->heads && kind->kv_heads == row->kv_heads &&
                  kind->head_dim == row->head_dim,
              "%s: heads %u, kv_heads %u, head_dim %u", row->json, kind->heads, kind->kv_heads,
              kind->head_dim);
    cr_expect(rope->pairing == row->pairing && rope->rotary_dim == row->rotary_dim &&
                  rope->rotary_offset == 0,
              "%s: pairing %d, rotary_dim %u, rotary_offset %u", row->json, (int)rope->pairing,
              rope->rotary_dim, rope->rotary_offset);
    cr_expect(rope->base == row->base && rope->factor == row->factor && rope->scaling == scaling &&
                  rope->attention_factor == 1.0,
              "%s: base %g, factor %g, scaling %d", row->json, rope->base, rope->factor,
              (int)rope->scaling);
    cr_expect(fabs(kind->scale - scale) <= 1e-15, "%s: scale %.17g", row->json, kind->scale);
    cr_expect_eq(kind->window_left, row->window != 0 ? row->window : RHUMB_NO_WINDOW,
                 "%s: window_left %d", row->json, kind->window_left);
    cr_expect_eq(kind->window_right, RHUMB_NO_WINDOW);
    cr_expect_eq(kind->causal, 1);
    cr_expect_str_eq(kind->name, row->kinds == 1 ? "attention" : "sliding_attention");
    if (row->kinds == 2) {
        cr_expect_str_eq(report->kinds[0].name, "full_attention");
        cr_expect_eq(report->kinds[0].window_left, RHUMB_NO_WINDOW);
        cr_expect_eq(report->kinds[0].rotary, kind->rotary);
    }
}

Test(keys, old_and_new_style_keys_and_family_defaults_resolve)
{
    static describe_report report;

    for (size_t i = 0; i < sizeof good_rows / sizeof good_rows[0]; i++) {
        rhumb_result result =
            describe_model_text(good_rows[i].json, strlen(good_rows[i].json), &report);
        cr_expect_eq(result, RHUMB_OK, "%s: %s", good_rows[i].json, report.message);
        if (result == RHUMB_OK)
            check_good(&good_rows[i], &report);
        describe_free(&report);
    }
}

typedef struct source_row {
    const char *field;
    const char *value;
    const char *source;
} source_row;

Test(keys, every_resolved_value_is_told_once_with_its_source)
{
    static const char json[] =
        "{\"model_type\":\"phi\",\"hidden_size\":2560,\"num_attention_heads\":32,"
        "\"partial_rotary_factor\":0.4,\"rope_scaling\":{\"type\":\"linear\",\"factor\":2.5}}";
    static const source_row wanted[] = {
        {"scheme", "rope", "rule of phi"},
        {"rope_type", "linear", "rope_scaling.type"},
        {"layout", "half", "rule of phi"},
        {"head_dim", "80", "hidden_size / num_attention_heads"},
        {"rotary_dim", "32", "int(head_dim * partial_rotary_factor)"},
        {"rotary_offset", "0", "rule of phi"},
        {"rope_theta", "10000", "default of phi"},
        {"factor", "2.5", "rope_scaling.factor"},
        {"attention_factor", "1", "rule of rope type linear"},
        {"partial_rotary_factor", "0.4", "partial_rotary_factor"},
        {"heads", "32", "num_attention_heads"},
        {"kv_heads", "32", "default of phi: num_attention_heads"},
        {"softmax_scale", "0.11180339887498948", "rule: head_dim^-1/2"},
        {"causal", "true", "rule of phi"},
        {"sliding_window", "none", "rule of phi: no window"},
    };
    static describe_report report;

    cr_assert_eq(describe_model_text(json, strlen(json), &report), RHUMB_OK, "%s", report.message);
    cr_assert_eq(report.row_count, sizeof wanted / sizeof wanted[0], "%u rows", report.row_count);
    for (uint32_t i = 0; i < report.row_count; i++) {
        cr_expect_str_eq(report.rows[i].kind, "attention");
        cr_expect_str_eq(report.rows[i].field, wanted[i].field);
        cr_expect_str_eq(report.rows[i].value, wanted[i].value, "%s: %s", wanted[i].field,
                         report.rows[i].value);
        cr_expect_str_eq(report.rows[i].source, wanted[i].source, "%s: %s", wanted[i].field,
                         report.rows[i].source);
    }
    describe_free(&report);
}

/* --- bad input --- */

typedef struct bad_row {
    const char *json;
    const char *phrases[3];
} bad_row;

#define BASE "\"num_attention_heads\":32,\"hidden_size\":4096"

static const bad_row bad_rows[] = {
    /* model_type */
    {"{}", {"model_type: missing", "llama", "chatglm"}},
    {"{\"model_type\":\"lama\"}", {"model_type: found lama", "wanted one of llama", "gpt_neox"}},
    {"{\"model_type\":7}", {"model_type: wanted a string", "found 7"}},
    {"{\"model_type\":null}", {"model_type: missing"}},
    {"{\"model_type\":\"not implemented: x\"}", {"model_type: found not implemented: x"}},
    {"{\"model_type\":\"a\\nb\"}", {"found a?b"}},
    /* needed keys */
    {"{\"model_type\":\"llama\",\"hidden_size\":4096}",
     {"num_attention_heads: missing, needed by llama"}},
    {"{\"model_type\":\"llama\",\"num_attention_heads\":32}",
     {"hidden_size: missing, needed by llama"}},
    {"{\"model_type\":\"gptj\",\"n_embd\":4096,\"n_head\":16}",
     {"rotary_dim: missing, needed by gptj"}},
    {"{\"model_type\":\"gptj\",\"hidden_size\":4096,\"n_head\":16,\"rotary_dim\":64}",
     {"n_embd: missing"}},
    {"{\"model_type\":\"gemma\"," BASE ",\"num_key_value_heads\":8}",
     {"head_dim: missing, needed by gemma"}},
    {"{\"model_type\":\"mistral\"," BASE "}", {"num_key_value_heads: missing, needed by mistral"}},
    {"{\"model_type\":\"chatglm\"," BASE "}", {"kv_channels: missing, needed by chatglm"}},
    {"{\"model_type\":\"chatglm\",\"kv_channels\":128,\"num_attention_heads\":32,\"multi_query_"
     "attention\":true}",
     {"multi_query_group_num: missing"}},
    {"{\"model_type\":\"gemma2\"," BASE ",\"head_dim\":128,\"num_key_value_heads\":8}",
     {"query_pre_attn_scalar: missing, needed by gemma2"}},
    {"{\"model_type\":\"granite\"," BASE "}", {"attention_multiplier: missing, needed by granite"}},
    {"{" LLAMA ",\"rope_scaling\":{\"type\":\"linear\"}}",
     {"rope_scaling.factor: missing", "linear"}},
    {"{" LLAMA ",\"rope_scaling\":{\"factor\":2}}", {"rope_scaling.rope_type: missing"}},
    {"{" LLAMA ",\"rope_parameters\":{\"factor\":2,\"rope_theta\":1e4}}",
     {"rope_parameters.rope_type: missing"}},
    {"{\"model_type\":\"qwen2\"," BASE ",\"num_key_value_heads\":8,\"use_sliding_window\":true}",
     {"max_window_layers: missing, needed by use_sliding_window"}},
    {"{\"model_type\":\"qwen2\"," BASE ",\"num_key_value_heads\":8,\"use_sliding_window\":true,"
     "\"max_window_layers\":2,\"num_hidden_layers\":4}",
     {"sliding_window: wanted for the sliding layers", "found none"}},
    /* kinds of values */
    {"{\"model_type\":\"llama\",\"hidden_size\":\"4096\",\"num_attention_heads\":32}",
     {"hidden_size: wanted an integer", "found the string \"4096\""}},
    {"{\"model_type\":\"llama\",\"hidden_size\":true,\"num_attention_heads\":32}",
     {"hidden_size", "found true"}},
    {"{\"model_type\":\"llama\",\"hidden_size\":[1,2],\"num_attention_heads\":32}",
     {"hidden_size", "a list of 2"}},
    {"{\"model_type\":\"llama\",\"hidden_size\":4096.5,\"num_attention_heads\":32}",
     {"hidden_size", "found 4096.5"}},
    {"{\"model_type\":\"llama\",\"hidden_size\":-4096,\"num_attention_heads\":32}",
     {"hidden_size", "found -4096"}},
    {"{\"model_type\":\"llama\",\"hidden_size\":4096,\"num_attention_heads\":0}",
     {"num_attention_heads: wanted an integer from 1", "found 0"}},
    {"{\"model_type\":\"llama\",\"hidden_size\":9223372036854775808,\"num_attention_heads\":32}",
     {"hidden_size: wanted an integer", "found 9.22337203685477"}},
    {"{" LLAMA ",\"num_key_value_heads\":0}", {"num_key_value_heads", "found 0"}},
    {"{" LLAMA ",\"head_dim\":577}", {"head_dim: wanted an integer from 1 to 576, found 577"}},
    {"{\"model_type\":\"llama\",\"hidden_size\":4096,\"num_attention_heads\":1}",
     {"hidden_size", "576", "found 4096"}},
    {"{" LLAMA ",\"rope_theta\":\"10000\"}", {"rope_theta: wanted a number, found the string"}},
    {"{" LLAMA ",\"rope_theta\":0}", {"rope_theta", "found 0"}},
    {"{" LLAMA ",\"rope_theta\":-1}", {"rope_theta", "found -1"}},
    {"{" LLAMA ",\"rope_scaling\":\"linear\"}",
     {"rope_scaling: wanted an object or null, found the string"}},
    {"{" LLAMA ",\"rope_scaling\":[]}",
     {"rope_scaling: wanted an object or null, found a list of 0"}},
    {"{" LLAMA ",\"rope_scaling\":{\"type\":3,\"factor\":2}}",
     {"rope_scaling.type: wanted a string, found 3"}},
    {"{" LLAMA ",\"rope_scaling\":{\"type\":\"linear\",\"factor\":0.5}}",
     {"rope_scaling.factor", "found 0.5"}},
    {"{" LLAMA ",\"rope_scaling\":{\"type\":\"linear\",\"factor\":\"4\"}}",
     {"rope_scaling.factor", "the string"}},
    {"{\"model_type\":\"falcon\"," BASE ",\"multi_query\":1}",
     {"multi_query: wanted true or false, found 1"}},
    {"{\"model_type\":\"phi\"," BASE ",\"partial_rotary_factor\":1.5}",
     {"partial_rotary_factor", "found 1.5"}},
    {"{\"model_type\":\"mistral\"," BASE ",\"num_key_value_heads\":8,\"sliding_window\":0}",
     {"sliding_window", "found 0"}},
    {"{\"model_type\":\"gemma2\"," BASE
     ",\"head_dim\":128,\"num_key_value_heads\":8,\"query_pre_attn_scalar\":0}",
     {"query_pre_attn_scalar", "found 0"}},
    {"{\"model_type\":\"gemma2\"," BASE
     ",\"head_dim\":128,\"num_key_value_heads\":8,\"query_pre_attn_scalar\":8,"
     "\"layer_types\":[\"sliding_attention\",\"other\"]}",
     {"layer_types: item 1", "found the string \"other\""}},
    {"{\"model_type\":\"gemma2\"," BASE
     ",\"head_dim\":128,\"num_key_value_heads\":8,\"query_pre_attn_scalar\":8,"
     "\"layer_types\":[]}",
     {"layer_types: wanted a list of names, found a list of 0"}},
    /* contradictions */
    {"{\"model_type\":\"llama\",\"hidden_size\":4096,\"num_attention_heads\":33}",
     {"hidden_size: wanted a multiple of num_attention_heads 33", "found 4096"}},
    {"{" LLAMA ",\"num_key_value_heads\":5}",
     {"kv_heads: wanted a divisor of num_attention_heads 32, found 5"}},
    {"{" LLAMA ",\"num_key_value_heads\":64}", {"kv_heads: wanted a divisor", "found 64"}},
    {"{" LLAMA ",\"head_dim\":63}",
     {"rotary_dim: wanted an even number from 2 to head_dim 63, found 63"}},
    {"{\"model_type\":\"gptj\",\"n_embd\":1024,\"n_head\":16,\"rotary_dim\":128}",
     {"rotary_dim: wanted an even number from 2 to head_dim 64, found 128"}},
    {"{\"model_type\":\"gptj\",\"n_embd\":1024,\"n_head\":16,\"rotary_dim\":63}",
     {"rotary_dim", "even", "found 63"}},
    {"{\"model_type\":\"phi\"," BASE ",\"partial_rotary_factor\":0.01}", {"rotary_dim", "found 1"}},
    {"{\"model_type\":\"phi\"," BASE ",\"partial_rotary_factor\":0}", {"rotary_dim", "found 0"}},
    {"{\"model_type\":\"gptj\",\"n_embd\":1024,\"n_head\":16,\"rotary_dim\":32,\"rope_theta\":1e6}",
     {"rope_theta: wanted 10000 (rule of gptj), found 1000000"}},
    {"{\"model_type\":\"gptj\",\"n_embd\":1024,\"n_head\":16,\"rotary_dim\":32,"
     "\"rope_scaling\":{\"type\":\"linear\",\"factor\":2}}",
     {"rope_scaling.type: wanted default or none (rule of gptj), found linear"}},
    {"{\"model_type\":\"gptj\",\"n_embd\":1024,\"n_head\":16,\"rotary_dim\":32,\"num_key_value_"
     "heads\":2}",
     {"num_key_value_heads: wanted 16 as n_head", "found 2"}},
    {"{" LLAMA ",\"partial_rotary_factor\":0.5}",
     {"partial_rotary_factor: wanted 1", "rule of llama", "found 0.5"}},
    {"{" LLAMA ",\"rotary_dim\":64}", {"rotary_dim: wanted 128", "found 64"}},
    {"{" LLAMA ",\"rope_theta\":1e4,\"rope_parameters\":{\"rope_theta\":5e5}}",
     {"rope_theta: wanted 500000 (rope_parameters.rope_theta), found 10000"}},
    {"{" LLAMA ",\"rope_scaling\":{\"type\":\"linear\",\"factor\":2},"
     "\"rope_parameters\":{\"rope_type\":\"linear\",\"factor\":4}}",
     {"rope_scaling.factor: wanted 4 as in rope_parameters.factor, found 2"}},
    {"{" LLAMA ",\"rope_scaling\":{\"type\":\"linear\",\"factor\":2},\"rope_parameters\":{\"rope_"
               "type\":\"default\"}}",
     {"rope_scaling.type: wanted the type of rope_parameters.rope_type, found linear"}},
    {"{" LLAMA ",\"rope_scaling\":{\"type\":\"default\",\"factor\":4}}",
     {"rope_scaling.factor", "default", "found 4"}},
    {"{" LLAMA ",\"rope_scaling\":{\"type\":\"linear\",\"factor\":2,\"beta_fast\":32}}",
     {"rope_scaling.beta_fast: wanted no such key for rope type linear"}},
    {"{\"model_type\":\"gpt_neox\"," BASE ",\"rotary_pct\":0.25,\"partial_rotary_factor\":0.5}",
     {"rotary_pct: wanted 0.5 (int(head_dim * partial_rotary_factor)), found 0.25"}},
    {"{" LLAMA ",\"rope_local_base_freq\":10000}",
     {"rope_local_base_freq: wanted none (rule of llama)"}},
    {"{" LLAMA ",\"rope_ratio\":50}", {"rope_ratio: wanted none (rule of llama), found 50"}},
    {"{" LLAMA ",\"alibi\":true}", {"alibi: wanted none (rule of llama), found true"}},
    {"{" LLAMA ",\"sliding_window\":4096}",
     {"sliding_window: wanted none (rule of llama), found 4096"}},
    /* other schemes, other nestings, other types */
    {"{" LLAMA ",\"rope_scaling\":{\"type\":\"default\",\"mrope_section\":[16,24,24]}}",
     {"rope_scaling.mrope_section: wanted none (rule of llama)"}},
    {"{" LLAMA ",\"rope_scaling\":{\"type\":\"mrope\"}}", {"rope_scaling.type: wanted one of"}},
    {"{" LLAMA ",\"rope_parameters\":{\"full_attention\":{\"rope_type\":\"default\"}}}",
     {"rope_parameters.full_attention.rope_type: wanted one schedule (rule of llama)"}},
    {"{\"model_type\":\"falcon\"," BASE ",\"alibi\":1}",
     {"alibi: wanted true or false, found 1"}},
    {"{\"model_type\":\"baichuan\"}", {"not implemented: model_type baichuan: no key says"}},
    {"{" LLAMA ",\"rope_scaling\":{\"type\":\"wavy\",\"factor\":4}}",
     {"rope_scaling.type: wanted one of default, linear, dynamic, yarn, llama3, longrope", "mrope",
      "found wavy"}},
    {"{" LLAMA ",\"rope_scaling\":{\"type\":\"ntk\",\"factor\":4}}", {"found ntk"}},
    /* the file */
    {"", {"line 1: wanted JSON"}},
    {"[]", {"wanted a JSON object"}},
    {"{\"a\":1,\n\"b\":}", {"line 2: wanted JSON", "}"}},
    {"{\"a\":1}\n\nx", {"line 3: wanted the end of the file, found \"x\""}},
    {"{\"a\":1,\"a\":1}", {"a: wanted once in its object, found twice"}},
    {"{\"r\":{\"f\":1,\"g\":2,\"f\":3}}", {"f: wanted once in its object, found twice"}},
    {"{\"a\":1e999}", {"a: wanted a number within the range of double"}},
    {"{\"a\":[1,-1e999]}", {"a: wanted a number within the range of double"}},
    {"{\"a\":NaN}", {"line 1: wanted JSON, found \"NaN"}},
    {"{\"model_type\\u0000\":\"llama\"}", {"line 1: wanted text, found a NUL character"}},
    {"{\"a\":[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]}",
     {"a: wanted at most 32 nested levels, found more"}},
    /* names with dots are no nesting */
    {"{" LLAMA ",\"rope_scaling.type\":\"linear\",\"rope_scaling\":{\"factor\":2}}",
     {"rope_scaling.rope_type: missing"}},
};

static void check_line(const char *json, const char *message)
{
    cr_expect_gt(strlen(message), 0, "%s: no message", json);
    cr_expect_null(strpbrk(message, "\n\r"), "%s: more than one line: %s", json, message);
}

Test(keys, bad_configurations_are_refused_with_one_line_that_says_why)
{
    static describe_report report;

    for (size_t i = 0; i < sizeof bad_rows / sizeof bad_rows[0]; i++) {
        const bad_row *row = &bad_rows[i];
        rhumb_result result = describe_model_text(row->json, strlen(row->json), &report);

        cr_expect_eq(result, RHUMB_ERROR_CONFIG, "%s: result %d %s", row->json, (int)result,
                     report.message);
        cr_expect_eq(report.kind_count, 0);
        cr_expect_eq(report.row_count, 0, "%s: a refused configuration was traced", row->json);
        check_line(row->json, report.message);
        for (size_t k = 0; k < 3 && row->phrases[k] != NULL; k++)
            cr_expect_not_null(strstr(report.message, row->phrases[k]),
                               "%s: wanted \"%s\" in \"%s\"", row->json, row->phrases[k],
                               report.message);
        describe_free(&report);
    }
}

/* --- the function itself --- */

typedef struct call {
    rhumb_key keys[8];
    rhumb_layer_kind kinds[2];
    _Alignas(16) unsigned char arena[512];
    char message[256];
    rhumb_keys_info info;
    uint32_t count;
} call;

static rhumb_key text_key(const char *path, const char *text)
{
    return (rhumb_key){.path = path, .kind = RHUMB_VALUE_STRING, .string = text};
}

static rhumb_key number_key(const char *path, double number)
{
    return (rhumb_key){.path = path, .kind = RHUMB_VALUE_NUMBER, .number = number};
}

static void init_call(call *c)
{
    memset(c, 0xA5, sizeof *c);
    c->keys[0] = text_key("model_type", "llama");
    c->keys[1] = number_key("hidden_size", 4096);
    c->keys[2] = number_key("num_attention_heads", 32);
    rhumb_init_keys_info(&c->info);
    rhumb_init_layer_kind(&c->kinds[0]);
    c->info.keys = c->keys;
    c->info.key_count = 3;
    c->info.kinds = c->kinds;
    c->info.kind_capacity = 2;
    c->info.arena = c->arena;
    c->info.arena_size = sizeof c->arena;
    c->info.message = c->message;
    c->info.message_size = sizeof c->message;
    c->count = 77;
}

/* Nothing but the message and the count may have changed. */
static void expect_refused(call *c, rhumb_result wanted, const char *phrase)
{
    static call before;
    rhumb_result result;

    before = *c;
    result = rhumb_scheme_from_keys(&c->info, &c->count);
    cr_expect_eq(result, wanted, "%s: result %d", phrase, (int)result);
    cr_expect_eq(c->count, 0);
    cr_expect_arr_eq(c->arena, before.arena, sizeof c->arena);
    cr_expect_arr_eq(c->kinds, before.kinds, sizeof c->kinds);
    cr_expect_not_null(strstr(rhumb_last_message(NULL), phrase), "wanted \"%s\", found \"%s\"",
                       phrase, rhumb_last_message(NULL));
}

Test(keys, numbers_that_json_cannot_hold_are_refused)
{
    static const double numbers[] = {NAN, INFINITY, -INFINITY};
    static call c;

    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        init_call(&c);
        c.keys[1].number = numbers[i];
        expect_refused(&c, RHUMB_ERROR_CONFIG, "hidden_size: wanted an integer");
        init_call(&c);
        c.keys[3] = number_key("rope_theta", numbers[i]);
        c.info.key_count = 4;
        expect_refused(&c, RHUMB_ERROR_CONFIG, "rope_theta: wanted a number");
    }
}

Test(keys, wrong_arguments_change_nothing_and_say_why)
{
    static const rhumb_key broken_item = {.kind = RHUMB_VALUE_STRING};
    static call c;

    init_call(&c);
    c.keys[2] = c.keys[1];
    expect_refused(&c, RHUMB_ERROR_CONFIG, "num_attention_heads: missing");
    init_call(&c);
    c.keys[3] = number_key("hidden_size", 4096);
    c.info.key_count = 4;
    expect_refused(&c, RHUMB_ERROR_CONFIG, "hidden_size: wanted once, found twice");
    init_call(&c);
    c.info.keys = NULL;
    expect_refused(&c, RHUMB_ERROR_ARGUMENT, "keys: wanted 3 keys, found NULL");
    init_call(&c);
    c.keys[1].path = NULL;
    expect_refused(&c, RHUMB_ERROR_ARGUMENT, "key 1 (no path): path is NULL");
    init_call(&c);
    c.keys[0].string = NULL;
    expect_refused(&c, RHUMB_ERROR_ARGUMENT, "key 0 (model_type): string is NULL");
    init_call(&c);
    c.keys[1].kind = (rhumb_value_kind)9;
    expect_refused(&c, RHUMB_ERROR_ARGUMENT, "key 1 (hidden_size): kind");
    init_call(&c);
    c.keys[3] = (rhumb_key){.path = "layer_types", .kind = RHUMB_VALUE_LIST, .count = 2};
    c.info.key_count = 4;
    expect_refused(&c, RHUMB_ERROR_ARGUMENT, "items is NULL");
    c.keys[3].count = 1;
    c.keys[3].items = &broken_item;
    expect_refused(&c, RHUMB_ERROR_ARGUMENT, "string is NULL");
    init_call(&c);
    c.info.kinds = NULL;
    expect_refused(&c, RHUMB_ERROR_ARGUMENT, "kinds: wanted room");
    init_call(&c);
    c.info.kind_capacity = 0;
    expect_refused(&c, RHUMB_ERROR_ARGUMENT, "kinds: wanted room for 1, found none");
    init_call(&c);
    c.info.arena = NULL;
    expect_refused(&c, RHUMB_ERROR_ARGUMENT, "arena");
    init_call(&c);
    c.info.arena_size = sizeof(rhumb_rope) - 1;
    expect_refused(&c, RHUMB_ERROR_HOST_MEMORY, "arena: wanted");
    init_call(&c);
    c.info.type = RHUMB_TYPE_VIEW;
    expect_refused(&c, RHUMB_ERROR_VERSION, "type");
    init_call(&c);
    c.info.struct_size += 8;
    expect_refused(&c, RHUMB_ERROR_VERSION, "struct_size");
    init_call(&c);
    c.kinds[0].struct_size += 8;
    expect_refused(&c, RHUMB_ERROR_VERSION, "kinds[0]");
    init_call(&c);
    c.info.next = &c.kinds[0];
    expect_refused(&c, RHUMB_ERROR_VERSION, "next");
    cr_expect_eq(rhumb_scheme_from_keys(NULL, &c.count), RHUMB_ERROR_ARGUMENT);
    cr_expect_eq(rhumb_scheme_from_keys(&c.info, NULL), RHUMB_ERROR_ARGUMENT);
}

Test(keys, two_kinds_need_room_for_two)
{
    static call c;

    init_call(&c);
    c.keys[0] = text_key("model_type", "gemma2");
    c.keys[1] = number_key("head_dim", 256);
    c.keys[3] = number_key("num_key_value_heads", 4);
    c.keys[4] = number_key("query_pre_attn_scalar", 256);
    c.info.key_count = 5;
    c.info.kind_capacity = 1;
    expect_refused(&c, RHUMB_ERROR_ARGUMENT, "kinds: wanted room for 2, found 1");
    c.info.kind_capacity = 2;
    cr_assert_eq(rhumb_scheme_from_keys(&c.info, &c.count), RHUMB_OK, "%s", c.message);
    cr_expect_eq(c.count, 2);
}

Test(keys, an_older_layer_kind_gets_the_bytes_it_has_room_for)
{
    static call c;
    const rhumb_rope *rope;

    init_call(&c);
    c.kinds[0].struct_size = (uint32_t)offsetof(rhumb_layer_kind, window_left);
    c.kinds[0].window_left = 1234;
    cr_assert_eq(rhumb_scheme_from_keys(&c.info, &c.count), RHUMB_OK, "%s", c.message);
    cr_expect_eq(c.count, 1);
    cr_expect_eq(c.kinds[0].struct_size, offsetof(rhumb_layer_kind, window_left));
    cr_expect_eq(c.kinds[0].window_left, 1234, "written beyond struct_size");
    cr_expect_eq(c.kinds[0].heads, 32);
    rope = c.kinds[0].rotary;
    cr_expect((const unsigned char *)rope >= c.arena &&
              (const unsigned char *)(rope + 1) <= c.arena + sizeof c.arena);
}

Test(keys, an_unaligned_arena_is_aligned_and_a_short_message_is_cut)
{
    static call c;

    init_call(&c);
    c.info.arena = c.arena + 1;
    c.info.arena_size = sizeof(rhumb_rope) + _Alignof(rhumb_rope) - 1;
    cr_assert_eq(rhumb_scheme_from_keys(&c.info, &c.count), RHUMB_OK, "%s", c.message);
    cr_expect_eq((uintptr_t)c.kinds[0].rotary % _Alignof(rhumb_rope), 0);
    init_call(&c);
    c.info.key_count = 2;
    c.info.message_size = 8;
    cr_expect_eq(rhumb_scheme_from_keys(&c.info, &c.count), RHUMB_ERROR_CONFIG);
    cr_expect_str_eq(c.message, "num_att");
    cr_expect_eq((unsigned char)c.message[8], 0xA5);
}
