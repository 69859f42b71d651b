/* Schedules and layer patterns that are refused, each with the phrases its line must have. */
#include "describe_model.h"

#include <criterion/criterion.h>

#define LLAMA "{\"model_type\":\"llama\",\"hidden_size\":256,\"num_attention_heads\":4,"
#define OLD(keys) LLAMA "\"rope_scaling\":{" keys "}}"
#define LONG(keys) LLAMA "\"max_position_embeddings\":8192,\"rope_scaling\":{" keys "}}"
#define YARN "\"type\":\"yarn\",\"factor\":4,\"original_max_position_embeddings\":2048"
#define LLAMA3 "\"type\":\"llama3\",\"factor\":8,\"original_max_position_embeddings\":8192"
#define PHI3(keys)                                                                                 \
    "{\"model_type\":\"phi3\",\"hidden_size\":16,\"num_attention_heads\":2,"                       \
    "\"max_position_embeddings\":131072,\"original_max_position_embeddings\":4096,"                \
    "\"rope_scaling\":{\"type\":\"longrope\"," keys "}}"
#define HEADS "\"num_attention_heads\":8,\"num_key_value_heads\":2,\"head_dim\":64,"
#define SMOL "{\"model_type\":\"smollm3\"," HEADS
#define GEMMA3 "{\"model_type\":\"gemma3_text\"," HEADS
#define GEMMA4 "{\"model_type\":\"gemma4_text\"," HEADS "\"global_head_dim\":128,"
#define MLA                                                                                        \
    "{\"model_type\":\"deepseek_v3\",\"num_attention_heads\":8,\"qk_nope_head_dim\":64,"           \
    "\"qk_rope_head_dim\":32,"
#define MROPE(keys)                                                                                \
    "{\"model_type\":\"qwen2_vl\",\"hidden_size\":256,\"num_attention_heads\":4,"                  \
    "\"num_key_value_heads\":2,\"rope_scaling\":{\"type\":\"mrope\"" keys "}}"

typedef struct bad_row {
    const char *json;
    const char *phrases[2];
} bad_row;

static const bad_row bad_rows[] = {
    /* yarn */
    {OLD("\"type\":\"yarn\",\"factor\":4"),
     {"rope_scaling.original_max_position_embeddings: missing", "yarn"}},
    {OLD("\"type\":\"yarn\",\"original_max_position_embeddings\":2048"),
     {"rope_scaling.factor: missing, needed by rope type yarn"}},
    {LONG("\"type\":\"yarn\",\"original_max_position_embeddings\":8192"),
     {"rope_scaling.factor: missing"}},
    {OLD(YARN ",\"beta_fast\":1,\"beta_slow\":32"),
     {"rope_scaling.beta_fast: wanted at least beta_slow 32, found 1"}},
    {OLD(YARN ",\"beta_fast\":-1"), {"rope_scaling.beta_fast", "found -1"}},
    {OLD(YARN ",\"truncate\":1"), {"rope_scaling.truncate: wanted true or false, found 1"}},
    {OLD(YARN ",\"attention_factor\":0"), {"rope_scaling.attention_factor", "found 0"}},
    {OLD(YARN ",\"extrapolation_factor\":1.5"), {"extrapolation_factor", "found 1.5"}},
    {OLD(YARN ",\"mscale\":\"1\""), {"rope_scaling.mscale: wanted a number, found the string"}},
    {OLD(YARN ",\"low_freq_factor\":1"),
     {"rope_scaling.low_freq_factor: wanted no such key for rope type yarn", "beta_fast"}},
    {OLD("\"type\":\"yarn\",\"factor\":0.5,\"original_max_position_embeddings\":2048"),
     {"rope_scaling.factor", "found 0.5"}},
    {OLD("\"type\":\"yarn\",\"factor\":4,\"original_max_position_embeddings\":2048.5"),
     {"rope_scaling.original_max_position_embeddings: wanted an integer, found 2048.5"}},
    {OLD("\"type\":\"yarn\",\"factor\":4,\"original_max_position_embeddings\":1"),
     {"rope_scaling.type: rope: original_length"}},
    {LLAMA "\"original_max_position_embeddings\":4096,\"rope_scaling\":{" YARN "}}",
     {"rope_scaling.original_max_position_embeddings: wanted 4096 as in original_max", "2048"}},
    {LLAMA "\"rope_scaling\":{" YARN "},\"rope_parameters\":{" YARN ",\"beta_fast\":16}}", {NULL}},
    {LLAMA "\"rope_scaling\":{" YARN ",\"beta_fast\":8},\"rope_parameters\":{" YARN
           ",\"beta_fast\":16}}",
     {"rope_scaling.beta_fast: wanted 16 as in rope_parameters.beta_fast, found 8"}},
    /* llama3 */
    {OLD("\"type\":\"llama3\",\"low_freq_factor\":1,\"high_freq_factor\":4"),
     {"rope_scaling.factor: missing, needed by rope type llama3"}},
    {OLD(LLAMA3 ",\"high_freq_factor\":4"), {"rope_scaling.low_freq_factor: missing"}},
    {OLD(LLAMA3 ",\"low_freq_factor\":1"), {"rope_scaling.high_freq_factor: missing"}},
    {OLD(LLAMA3 ",\"low_freq_factor\":4,\"high_freq_factor\":1"),
     {"rope_scaling.high_freq_factor: wanted at least low_freq_factor 4, found 1"}},
    {OLD(LLAMA3 ",\"low_freq_factor\":0,\"high_freq_factor\":1"), {"low_freq_factor", "found 0"}},
    /* dynamic */
    {OLD("\"type\":\"dynamic\",\"factor\":2"), {"max_position_embeddings: missing", "dynamic"}},
    {LONG("\"type\":\"dynamic\""), {"rope_scaling.factor: missing, needed by rope type dynamic"}},
    {OLD("\"type\":\"dynamic\",\"alpha\":0.5"), {"rope_scaling.alpha: wanted 1 or more"}},
    {OLD("\"type\":\"dynamic\",\"alpha\":1000,\"factor\":2"),
     {"rope_scaling.factor: wanted 1 or none with alpha, found 2"}},
    {"{\"model_type\":\"llama\",\"head_dim\":2,\"num_attention_heads\":4,\"rope_scaling\":{"
     "\"type\":\"dynamic\",\"alpha\":10}}",
     {"rope_scaling.type: rope: rotary_dim"}},
    /* longrope */
    {PHI3("\"short_factor\":[1,1,1,1]"), {"rope_scaling.long_factor: missing, needed by rope"}},
    {PHI3("\"short_factor\":[1,1,1],\"long_factor\":[1,1,1,1]"),
     {"rope_scaling.short_factor: wanted a list of 4 numbers (rotary_dim / 2), found a list of 3"}},
    {PHI3("\"short_factor\":[1,1,1,1],\"long_factor\":[1,1,0,1]"),
     {"rope_scaling.long_factor: item 2: wanted a number above 0, found 0"}},
    {PHI3("\"short_factor\":[1,1,1,1],\"long_factor\":[1,1,null,1]"), {"item 2", "found null"}},
    {PHI3("\"short_factor\":4,\"long_factor\":[1,1,1,1]"),
     {"rope_scaling.short_factor", "found 4"}},
    {"{\"model_type\":\"phi3\",\"hidden_size\":16,\"num_attention_heads\":2,"
     "\"original_max_position_embeddings\":4096,\"rope_scaling\":{\"type\":\"longrope\","
     "\"short_factor\":[1,1,1,1],\"long_factor\":[1,1,1,1]}}",
     {"max_position_embeddings: missing, needed by rope type longrope"}},
    {"{\"model_type\":\"phi3\",\"hidden_size\":16,\"num_attention_heads\":2,"
     "\"max_position_embeddings\":8,\"rope_scaling\":{\"type\":\"yarn\",\"factor\":4}}",
     {"rope_scaling.short_factor: missing, needed by rope type longrope"}},
    /* proportional */
    {OLD("\"type\":\"proportional\",\"partial_rotary_factor\":0.01"),
     {"rope_scaling.partial_rotary_factor: wanted at least one pair of head_dim 64"}},
    {LLAMA "\"partial_rotary_factor\":0.5,\"rope_scaling\":{\"type\":\"proportional\","
           "\"partial_rotary_factor\":0.25}}",
     {"partial_rotary_factor: wanted 0.25", "found 0.5"}},
    {"{\"model_type\":\"gptj\",\"n_embd\":64,\"n_head\":1,\"rotary_dim\":32,\"rope_scaling\":{" YARN
     "}}",
     {"rope_scaling.type: wanted default or none (rule of gptj), found yarn"}},
    /* schedules per layer type */
    {GEMMA3 "\"rope_parameters\":{\"rope_theta\":1e6}}",
     {"rope_parameters.rope_theta: wanted one schedule per layer type (rule of gemma3_text)"}},
    {GEMMA3 "\"rope_parameters\":{\"other_attention\":{\"rope_theta\":1e6}}}",
     {"rope_parameters.other_attention.rope_theta: wanted one schedule per layer type"}},
    {GEMMA3 "\"rope_parameters\":{\"full_attention\":3}}", {"rope_parameters.full_attention"}},
    {GEMMA3 "\"rope_theta\":1e6,\"rope_parameters\":{\"full_attention\":{\"rope_theta\":2e6}}}",
     {"rope_theta: wanted 2000000 (rope_parameters.full_attention.rope_theta), found 1000000"}},
    {GEMMA3 "\"sliding_window\":null}", {"sliding_window: wanted for the sliding layers"}},
    {GEMMA3 "\"use_bidirectional_attention\":true}",
     {"not implemented: use_bidirectional_attention: wanted false, found true"}},
    {GEMMA4 "\"sliding_window\":9}",
     {"rope_parameters.full_attention.rope_theta: missing, needed by gemma4_text"}},
    {GEMMA4 "\"sliding_window\":9,\"rope_scaling\":{\"type\":\"linear\",\"factor\":2}}",
     {"rope_scaling: wanted none (rule of gemma4_text), found one"}},
    {GEMMA4 "\"sliding_window\":9,\"rope_theta\":1e6}", {"rope_theta: wanted none"}},
    {"{\"model_type\":\"gemma3\"," HEADS "\"rope_theta\":1e6}",
     {"text_config: missing, needed by gemma3"}},
    {"{\"model_type\":\"gemma3\",\"text_config\":{\"model_type\":\"llama\"}}",
     {"text_config.model_type: wanted gemma3_text or none (rule of gemma3), found llama"}},
    {"{\"model_type\":\"gemma3\",\"text_config\":{\"head_dim\":9000}}",
     {"text_config.head_dim: wanted an integer", "found 9000"}},
    /* layers */
    {GEMMA3 "\"num_hidden_layers\":3,\"layer_types\":[\"full_attention\"]}",
     {"layer_types: wanted a list of 3 (num_hidden_layers), found a list of 1"}},
    {GEMMA3 "\"num_hidden_layers\":513}", {"num_hidden_layers", "512, found 513"}},
    {GEMMA3 "\"sliding_window_pattern\":2,\"layer_types\":[\"full_attention\"]}",
     {"layer_types: item 0: wanted sliding_attention (sliding_window_pattern), found full"}},
    {GEMMA3 "\"layer_types\":[\"chunked_attention\"]}",
     {"layer_types: item 0", "chunked_attention"}},
    {SMOL "\"num_hidden_layers\":4}", {"rope_theta: missing, needed by smollm3"}},
    {SMOL "\"rope_theta\":1e6,\"num_hidden_layers\":2,\"no_rope_layers\":[1]}",
     {"no_rope_layers: wanted a list of 2 to 512 (num_hidden_layers), found a list of 1"}},
    {SMOL "\"rope_theta\":1e6,\"no_rope_layers\":[1,2]}",
     {"no_rope_layers: item 1: wanted 1 (rotary) or 0, found 2"}},
    {SMOL "\"rope_theta\":1e6,\"no_rope_layer_interval\":2,\"no_rope_layers\":[1,1]}",
     {"no_rope_layers: item 1: wanted 0 (no_rope_layer_interval), found 1"}},
    {"{\"model_type\":\"cohere2\"," HEADS "\"rope_theta\":1e6,\"sliding_window\":null}",
     {"sliding_window: wanted for the sliding layers, found none (sliding_window is null)"}},
    {LLAMA "\"no_rope_layers\":[1]}", {"no_rope_layers: wanted none (rule of llama)"}},
    {LLAMA "\"attention_chunk_size\":9}", {"attention_chunk_size: wanted none (rule of llama)"}},
    /* parts of a head */
    {MLA "\"v_head_dim\":64,\"head_dim\":128}", {"head_dim: wanted 96", "found 128"}},
    {MLA "\"num_hidden_layers\":2}", {"v_head_dim: missing, needed by deepseek_v3"}},
    {MLA "\"v_head_dim\":64,\"qk_nope_head_dims\":1,\"partial_rotary_factor\":0.5}",
     {"partial_rotary_factor: wanted 1", "found 0.5"}},
    {LLAMA "\"qk_rope_head_dim\":64}", {"qk_rope_head_dim: wanted none (rule of llama)"}},
    /* several axes */
    {MROPE(""), {"rope_scaling.mrope_section: missing, needed by qwen2_vl_text"}},
    {MROPE(",\"mrope_section\":[16,8]"), {"rope_scaling.mrope_section: wanted a list of 3"}},
    {MROPE(",\"mrope_section\":[16,8,9]"), {"rope_scaling.mrope_section: mrope: sections"}},
    {MROPE(",\"mrope_section\":[16,8,8.5]"), {"rope_scaling.mrope_section: item 2", "8.5"}},
    {MROPE(",\"mrope_section\":[16,8,8],\"mrope_interleaved\":true"),
     {"rope_scaling.mrope_interleaved: wanted false (rule of qwen2_vl_text), found true"}},
    /* towers */
    {"{\"model_type\":\"llava\"}", {"text_config: missing, and so is vision_config"}},
    {"{\"model_type\":\"llava\",\"vision_config\":{\"model_type\":\"clip_vision_model\"}}",
     {"not implemented: vision_config.model_type: wanted pixtral, found clip_vision_model"}},
    {"{\"model_type\":\"llava\",\"text_config\":{\"model_type\":\"bloom\"}}",
     {"not implemented: text_config.model_type: bloom as a part of llava"}},
    {"{\"model_type\":\"dinov3_vit\",\"hidden_size\":36,\"num_attention_heads\":6}",
     {"hidden_size / num_attention_heads: wanted a multiple of 4", "found 6"}},
    {"{\"model_type\":\"dinov3_vit\",\"hidden_size\":384,\"num_attention_heads\":6,"
     "\"image_size\":8,\"patch_size\":16}",
     {"image_size: wanted at least patch_size 16, found 8"}},
};

Test(keys_refusals, schedules_and_patterns_are_refused_with_one_line_that_says_why)
{
    static describe_report report;

    for (size_t i = 0; i < sizeof bad_rows / sizeof bad_rows[0]; i++) {
        const bad_row *row = &bad_rows[i];
        rhumb_result wanted = row->phrases[0] != NULL ? RHUMB_ERROR_CONFIG : RHUMB_OK;
        rhumb_result result = describe_model_text(row->json, strlen(row->json), &report);

        cr_expect_eq(result, wanted, "%s: result %d %s", row->json, (int)result, report.message);
        cr_expect(wanted == RHUMB_OK || (report.kind_count == 0 && report.row_count == 0),
                  "%s: a refused configuration was traced", row->json);
        cr_expect_null(strpbrk(report.message, "\n\r"), "%s: more than one line", row->json);
        for (size_t k = 0; k < 2 && row->phrases[k] != NULL; k++)
            cr_expect_not_null(strstr(report.message, row->phrases[k]),
                               "%s: wanted \"%s\" in \"%s\"", row->json, row->phrases[k],
                               report.message);
        describe_free(&report);
    }
}
