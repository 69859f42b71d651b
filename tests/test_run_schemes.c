/* `rhumb run --scheme`: every operation, on the golden files themselves. */
#define _POSIX_C_SOURCE 200809L /* mkdtemp, setenv */

#include "command.h"
#include "npy.h"
#include "safetensors.h"

#include <cjson/cJSON.h>
#include <criterion/criterion.h>

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char folder[512];

static void begin(void)
{
    const char *icd = getenv("RHUMB_TEST_LAVAPIPE_ICD");

    snprintf(folder, sizeof folder, "%s/test_run_schemes.XXXXXX", command_build_root());
    cr_assert_not_null(mkdtemp(folder));
    if (icd != NULL && icd[0] != '\0') {
        setenv("VK_DRIVER_FILES", icd, 1);
        setenv("VK_ICD_FILENAMES", icd, 1);
    }
}

static void end(void)
{
    command_output output = command_run("rm -r '%s'", folder);

    cr_expect_eq(output.status, 0);
    command_free(&output);
}

TestSuite(run_schemes, .init = begin, .fini = end, .timeout = 300);

static command_output run(const char *scheme, const char *op, const char *params, const char *rest)
{
    return command_run("cd '%s' && '%s/tools/rhumb' run --scheme %s --op %s --params '%s' %s",
                       folder, command_build_root(), scheme, op, params, rest);
}

/* A golden file's case with its parameters given by hand. */
typedef struct golden {
    const char *file; /* without .safetensors */
    const char *scheme;
    const char *op;
    const char *params;
    const char *more;
    const char *result;
} golden;

static const golden goldens[] = {
    {"rotary/ggml_neox_partial_d80_r32_l17", "rope", "rotate",
     "{\"layout\": \"half\", \"rotary_dim\": 32}", "--check", "out.y"},
    {"rotary/shift_mixed_delta_d32_l17", "rope", "rotate",
     "{\"layout\": \"half\", \"freq_base\": 10000, \"purpose\": \"shift\"}", "", "out.y"},
    {"rotary/xpos_ts_q_d64_l17", "xpos", "rotate",
     "{\"base\": 10000, \"scale_base\": 512, \"gamma\": 0.4, \"center\": 9}", "--check", "out.y"},
    {"rotary/mrope_qwen3vl_interleaved_d128_l11", "mrope", "rotate",
     "{\"layout\": \"half\", \"rope_theta\": 5000000, \"mrope_section\": [24, 20, 20], "
     "\"mrope_interleaved\": true}",
     "--check", "out.y"},
    {"rotary/rope2d_pixtral_d64_5x4", "rope2d", "rotate",
     "{\"layout\": \"half\", \"axes\": [\"h\", \"w\"], \"frequency\": \"alternating\"}", "--check",
     "out.y"},
    {"rotary/rope2d_mixed_d32_h3_5x7", "rope2d", "rotate",
     "{\"layout\": \"interleaved\", \"axes\": [\"w\", \"h\"], \"frequency\": \"learned\"}", "",
     "out.y"},
    {"rotary/attn_mistral_window_d16_l40_w9", "rope", "attention",
     "{\"layout\": \"half\", \"base\": 1000000, \"sliding_window\": 9, \"causal\": true, "
     "\"scale\": 0.25}",
     "--check", "out.o"},
    {"rotary/attn_qwen2vl_mrope_d32_l21", "mrope", "attention",
     "{\"layout\": \"half\", \"rope_theta\": 1000000, \"mrope_section\": [4, 6, 6], \"causal\": "
     "true, \"mask_order\": \"sequence index\"}",
     "--check", "out.o"},
    {"rotary/xpos_ts_scores_d32_l17", "xpos", "scores",
     "{\"scale_base\": 512, \"center\": 9, \"scale\": 0.1767766952966369}", "", "out.scores"},
    {"relative1d/shaw_attn_bidir_L17_k4", "shaw", "attention",
     "{\"batch\": 2, \"heads\": 3, \"kv_heads\": 3, \"head_dim\": 8, \"q_len\": 17, \"k_len\": 17, "
     "\"q_offset\": 0, \"causal\": false, \"scale\": 0.3535533905932738, \"clip_left\": 4, "
     "\"clip_right\": 4}",
     "--floor --validation", "out.o"},
    {"relative1d/music_t2t_attn_causal_L21_M9_perhead", "music_transformer", "attention",
     "{\"max_relative_position\": 9}", "--causal", "out.o"},
    {"relative1d/txl_learned_attn_L11_mem14_rows16", "transformer_xl", "attention",
     "{\"variant\": \"learned\", \"table_rows\": 16, \"clamp_len\": -1, \"causal\": true}",
     "--offset 14", "out.o"},
    {"relative1d/deberta_v1_hf_attn_L33_k12_mask", "deberta", "attention",
     "{\"position_buckets\": -1, \"max_relative_positions\": 12}", "", "out.o"},
    {"relative1d/deberta_v2_hf_scores_L45_b16_m40", "deberta", "scores",
     "{\"position_buckets\": 16, \"max_relative_positions\": 40, \"bucket_input_clamp\": false}",
     "", "out.scores"},
    {"relative1d/alibi_scores_mpt_causal_Lq4_Lk67_H7", "alibi", "scores",
     "{\"alibi_form\": \"last_key\", \"alibi_bias_max\": 8, \"q_offset\": 63}", "", "out.scores"},
    {"relative1d/alibi_bias_sym_x_L33_H12", "alibi", "bias",
     "{\"alibi_form\": \"symmetric\", \"heads\": 12, \"q_len\": 33, \"k_len\": 33}", "",
     "out.bias"},
    {"relative1d/t5_bias_bi_L17_H6", "t5", "bias",
     "{\"num_buckets\": 32, \"max_distance\": 128, \"bidirectional\": true, \"q_len\": 17, "
     "\"k_len\": 17}",
     "--floor --validation", "out.bias"},
    {"absolute2d/swin_bias_7x5_h5", "swin", "bias", "{\"window\": [7, 5]}", "", "out.bias"},
    {"absolute2d/swin_attn_grid12x9_w3_s1_B1_h5_d4", "swin", "attention",
     "{\"window\": [3, 3], \"grid\": [12, 9], \"shift\": [1, 1], \"pad\": \"none\", \"mask_value\": "
     "-100, \"scale\": 0.5}",
     "", "out.o"},
    {"absolute2d/sinusoidal_encode_fairseq_mask_B3_L11_d14", "sinusoidal", "encode",
     "{\"dim\": 14, \"frequency\": \"i/(half-1)\", \"layout\": \"concat\", \"padding_idx\": 1, "
     "\"x_scale\": 3.7416574954986572}",
     "", "out.y"},
    {"absolute2d/sinusoidal_table_t2t_L7_d3_start2", "sinusoidal", "encode",
     "{\"dim\": 3, \"frequency\": \"i/(half-1)\", \"layout\": \"concat\", \"odd\": \"zero_pad\"}",
     "", "out.table"},
    {"absolute2d/learned_encode_opt_B3_L9_past0_d12", "learned", "encode", "{\"offset\": 2}", "",
     "out.y"},
    {"absolute2d/sin2d_table_detr_norm_14x9_d20_nchw", "sinusoidal2d", "encode",
     "{\"grid\": [14, 9], \"dim\": 20, \"axis_order\": \"yx\", \"frequency\": \"2i/d_axis\", "
     "\"mask_coords\": true, \"normalize\": true, \"eps\": 1e-6, \"output\": \"nchw\"}",
     "", "out.table"},
    {"absolute2d/learned2d_encode_vit_B2_7x5_d12_cls", "learned2d", "encode",
     "{\"grid\": [7, 5], \"form\": \"full_table\", \"prefix_tokens\": 1}", "", "out.y"},
    {"absolute2d/learned2d_table_detr_7x5_d12", "learned2d", "encode",
     "{\"grid\": [7, 5], \"form\": \"row_col_concat\", \"axis_order\": \"xy\"}", "", "out.table"},
    {"absolute2d/swinv2_coords_7x5", "swin_v2", "encode", "{\"window\": [7, 5]}", "", "out.table"},
    {"absolute2d/learned2d_resize_bicubic_aa0_14x9_to_7x5_p0", "resize", "resize",
     "{\"old_grid\": [14, 9], \"new_grid\": [7, 5], \"mode\": \"bicubic\", \"antialias\": false, "
     "\"scale_factor\": null}",
     "", "out.table"},
    {"absolute2d/swin_resize_geometric_w4_to_w7_h2_x3", "resize", "resize",
     "{\"old_grid\": [7, 7], \"new_grid\": [13, 13], \"suffix_tokens\": 3, \"mode\": "
     "\"geometric_bilinear\"}",
     "", "out.table"},
};

static void read_list(const char *root, const char *name, tensor_list *list)
{
    char path[1200];
    tensor_error error;

    snprintf(path, sizeof path, "%s/%s.safetensors", root, name);
    cr_assert_eq(safetensors_read(path, list, &error), 0, "%s", error.line);
}

/* The largest difference; the test fails where the shapes are not one. */
static double difference(const char *name, const tensor *wanted, const tensor *got)
{
    double worst = 0.0;

    cr_assert(wanted != NULL && got != NULL, "%s: no result", name);
    cr_assert(wanted->rank == got->rank &&
                  memcmp(wanted->shape, got->shape, wanted->rank * sizeof *wanted->shape) == 0,
              "%s: another shape", name);
    for (uint64_t i = 0; i < wanted->count; i++) {
        const double error = fabs(tensor_get(wanted, i) - tensor_get(got, i));
        worst = error <= worst ? worst : error; /* and NaN stays */
    }
    return worst;
}

static void expect_golden(const golden *g)
{
    char root[1024], rest[1400];
    tensor_list wanted = {0}, got = {0};
    command_output output;
    double tolerance, error;

    snprintf(root, sizeof root, "%s/tests/goldens", command_source_root());
    snprintf(rest, sizeof rest, "--input '%s/%s.safetensors' --output out.safetensors %s", root,
             g->file, g->more);
    output = run(g->scheme, g->op, g->params, rest);
    cr_assert_eq(output.status, 0, "%s: %s", g->file, output.text);
    command_free(&output);
    read_list(root, g->file, &wanted);
    read_list(folder, "out", &got);
    tolerance = strtod(tensor_list_text(&wanted, "tolerance"), NULL);
    error = difference(g->file, tensor_list_find(&wanted, g->result),
                       tensor_list_find(&got, g->result));
    cr_expect(error <= tolerance, "%s: wanted at most %g, got %g", g->file, tolerance, error);
    tensor_list_free(&wanted);
    tensor_list_free(&got);
}

Test(run_schemes, reproduce_golden_files)
{
    for (size_t i = 0; i < sizeof goldens / sizeof *goldens; i++)
        expect_golden(&goldens[i]);
}

static void expect_run(const char *scheme, const char *op, const char *params, const char *rest)
{
    command_output output = run(scheme, op, params, rest);

    cr_assert_eq(output.status, 0, "%s", output.text);
    command_free(&output);
}

Test(run_schemes, a_projected_table_gives_the_bias_of_a_golden_file)
{
    static const char file[] = "absolute2d/swinv2_bias_7x5_h4";
    char root[1024], rest[1400];
    tensor_list wanted = {0}, got = {0};
    double error;

    snprintf(root, sizeof root, "%s/tests/goldens", command_source_root());
    snprintf(rest, sizeof rest, "--input '%s/%s.safetensors' --output t.npy", root, file);
    expect_run("swin_v2", "project", "{\"window\": [7, 5]}", rest);
    expect_run("swin_v2", "bias", "{\"window\": [7, 5]}",
               "--input table=t.npy --output out.safetensors");
    read_list(root, file, &wanted);
    read_list(folder, "out", &got);
    error = difference(file, tensor_list_find(&wanted, "out.bias"), tensor_list_find(&got, "bias"));
    cr_expect_leq(error, strtod(tensor_list_text(&wanted, "tolerance"), NULL));
    tensor_list_free(&wanted);
    tensor_list_free(&got);
}

/* Transformer-XL's table: sinusoids of the distances, times the projection of the golden file. */
Test(run_schemes, encode_project_and_scores_follow_one_another)
{
    char root[1024], rest[1400];
    tensor_list wanted = {0}, got = {0};
    double worst = 0.0;

    snprintf(root, sizeof root, "%s/tests/goldens/relative1d", command_source_root());
    expect_run("sinusoidal", "encode", "{\"layout\": \"concat\", \"head_dim\": 24, \"q_len\": 17}",
               "--output pe.npy");
    snprintf(rest, sizeof rest,
             "--input '%s/txl_scores_L17.safetensors',x=pe.npy --output a.npy,r.npy", root);
    expect_run("transformer_xl", "project", "{\"heads\": 3}", rest);
    snprintf(rest, sizeof rest,
             "--input '%s/txl_scores_L17.safetensors',query_table=a.npy --output out.safetensors",
             root);
    expect_run("transformer_xl", "scores", "{\"scale\": 0.3535533905932738}", rest);
    read_list(root, "txl_scores_L17", &wanted);
    read_list(folder, "out", &got);
    for (uint64_t i = 0; i < 2 * 3 * 17 * 17; i++) { /* defined for keys in the past only */
        const double error = fabs(tensor_get(tensor_list_find(&wanted, "out.scores"), i) -
                                  tensor_get(tensor_list_find(&got, "out.scores"), i));
        worst = i % 17 > i / 17 % 17 || error <= worst ? worst : error;
    }
    cr_expect_leq(worst, strtod(tensor_list_text(&wanted, "tolerance"), NULL));
    tensor_list_free(&wanted);
    tensor_list_free(&got);
}

/* ----------------------------------------------------------------------------------------------
 * README
 */

/* The command that begins with `start`, without the ends of its lines. */
static void quoted_command(const char *start, char *command, size_t size)
{
    static char text[262144];
    char path[1100];
    size_t length = 0;
    FILE *file;

    snprintf(path, sizeof path, "%s/README.md", command_source_root());
    file = fopen(path, "rb");
    cr_assert_not_null(file);
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    fclose(file);
    const char *from = strstr(text, start);
    cr_assert_not_null(from, "README does not have %s", start);
    for (; *from != '\n' && length + 1 < size; from++) {
        if (strncmp(from, "\\\n", 2) == 0)
            from++;
        command[length++] = *from == '\n' ? ' ' : *from;
    }
    command[length] = '\0';
}

static void run_quoted(const char *start)
{
    char command[1024];
    command_output output;

    quoted_command(start, command, sizeof command);
    output =
        command_run("cd '%s' && ln -sfn '%s' build && %s", folder, command_build_root(), command);
    cr_assert_eq(output.status, 0, "%s: %s", command, output.text);
    command_free(&output);
}

Test(run_schemes, the_readme_s_bias_is_a_golden_file_s)
{
    char root[1024];
    tensor_list wanted = {0}, got = {0};
    tensor_error error;
    char path[600];

    snprintf(root, sizeof root, "%s/tests/goldens/relative1d", command_source_root());
    read_list(root, "t5_bias_uni_decode1_Lk300_H12", &wanted);
    snprintf(path, sizeof path, "%s/table.npy", folder);
    cr_assert_eq(npy_write(path, tensor_list_find(&wanted, "in.table"), &error), 0);
    run_quoted("build/tools/rhumb run --scheme t5 --op bias --input");
    snprintf(path, sizeof path, "%s/bias.npy", folder);
    cr_assert_eq(npy_read(path, "bias", &got, &error), 0, "%s", error.line);
    cr_expect_leq(difference("bias", tensor_list_find(&wanted, "out.bias"), &got.items[0]),
                  strtod(tensor_list_text(&wanted, "tolerance"), NULL));
    tensor_list_free(&wanted);
    tensor_list_free(&got);
}

Test(run_schemes, the_readme_s_sinusoids_leave_padding_alone)
{
    static const uint64_t shape[3] = {1, 4, 512}, rows[2] = {1, 4};
    static const int32_t positions[4] = {1, 2, 3, 4};
    tensor_list in = {0}, out = {0};
    tensor_error error;
    char path[600];

    tensor_fill_normal(tensor_list_add(&in, "x", TENSOR_F32, 3, shape, &error), 1);
    memcpy(tensor_list_add(&in, "positions", TENSOR_I32, 2, rows, &error)->data, positions,
           sizeof positions);
    snprintf(path, sizeof path, "%s/x.safetensors", folder);
    cr_assert_eq(safetensors_write(path, &in, &error), 0, "%s", error.line);
    run_quoted("build/tools/rhumb run --scheme sinusoidal --op encode --input");
    read_list(folder, "y", &out);
    const tensor *x = tensor_list_find(&in, "x"), *y = tensor_list_find(&out, "y");
    cr_assert_not_null(y);
    for (uint64_t i = 0; i < 512; i++) {
        /* channel i of position 2, sines first, frequencies 10000^(-i / 255) */
        const double angle = 2.0 * pow(10000.0, -(double)(i % 256) / 255.0);
        const double pe = i < 256 ? sin(angle) : cos(angle);
        cr_expect_float_eq(tensor_get(y, i), 22.627417 * tensor_get(x, i), 2e-5);
        cr_expect_float_eq(tensor_get(y, 512 + i), 22.627417 * tensor_get(x, 512 + i) + pe, 2e-5);
    }
    tensor_list_free(&in);
    tensor_list_free(&out);
}

/* Rows 5 to 7 of a cache of 8 are the rotated keys and the values as they are. */
Test(run_schemes, rotated_keys_are_appended_to_a_cache)
{
    static const uint64_t shape[4] = {1, 2, 3, 8};
    tensor_list list = {0}, rotated = {0}, cache = {0};
    tensor_error error;
    char path[600];

    tensor_fill_normal(tensor_list_add(&list, "k", TENSOR_F32, 4, shape, &error), 1);
    tensor_fill_normal(tensor_list_add(&list, "v", TENSOR_F32, 4, shape, &error), 2);
    snprintf(path, sizeof path, "%s/kv.safetensors", folder);
    cr_assert_eq(safetensors_write(path, &list, &error), 0, "%s", error.line);
    expect_run("rope", "rotate", "{\"q_offset\": 5}",
               "--input kv.safetensors --output rotated.safetensors --check");
    expect_run("rope", "rotate", "{\"q_offset\": 5, \"append\": \"position\", \"capacity\": 8}",
               "--input kv.safetensors --output cache.safetensors");
    read_list(folder, "rotated", &rotated);
    read_list(folder, "cache", &cache);
    cr_assert_eq(cache.count, 2);
    for (uint64_t i = 0; i < 2 * 8 * 8; i++) {
        const uint64_t h = i / 64, row = i / 8 % 8, from = (h * 3 + row - 5) * 8 + i % 8;
        const double k = row < 5 ? 0.0 : tensor_get(tensor_list_find(&rotated, "k"), from);
        const double v = row < 5 ? 0.0 : tensor_get(tensor_list_find(&list, "v"), from);
        cr_expect_eq(tensor_get(tensor_list_find(&cache, "k"), i), k);
        cr_expect_eq(tensor_get(tensor_list_find(&cache, "v"), i), v);
    }
    tensor_list_free(&list);
    tensor_list_free(&rotated);
    tensor_list_free(&cache);
}

/* Row 0 does not turn, so that the norm is all that is seen. */
Test(run_schemes, gains_normalise_the_queries)
{
    static const uint64_t shape[4] = {1, 2, 1, 8}, channels[1] = {8};
    tensor_list in = {0}, out = {0};
    tensor_error error;
    char path[600];

    tensor_fill_normal(tensor_list_add(&in, "q", TENSOR_F32, 4, shape, &error), 1);
    tensor_fill_normal(tensor_list_add(&in, "q_gain", TENSOR_F32, 1, channels, &error), 2);
    snprintf(path, sizeof path, "%s/in.safetensors", folder);
    cr_assert_eq(safetensors_write(path, &in, &error), 0, "%s", error.line);
    expect_run("rope", "rotate", "{\"norm_epsilon\": 0.5, \"gain_offset\": 1}",
               "--input in.safetensors --output out.safetensors");
    read_list(folder, "out", &out);
    const tensor *q = tensor_list_find(&in, "q"), *gain = tensor_list_find(&in, "q_gain");
    const tensor *y = tensor_list_find(&out, "q");
    cr_assert(y != NULL && out.count == 1);
    for (uint64_t i = 0; i < 16; i++) {
        double square = 0.0;
        for (uint64_t c = 0; c < 8; c++)
            square += pow(tensor_get(q, i / 8 * 8 + c), 2.0) / 8.0;
        cr_expect_float_eq(tensor_get(y, i),
                           tensor_get(q, i) / sqrt(square + 0.5) * (1.0 + tensor_get(gain, i % 8)),
                           1e-5);
    }
    tensor_list_free(&in);
    tensor_list_free(&out);
}

Test(run_schemes, json_has_parameters_plan_shapes_and_costs)
{
    char rest[1200];
    command_output output;
    cJSON *root;
    const cJSON *step;

    snprintf(rest, sizeof rest,
             "--json --input '%s/tests/goldens/relative1d/t5_bias_bi_L17_H6.safetensors'",
             command_source_root());
    output = run("t5", "bias", "{\"q_len\": 17, \"k_len\": 17, \"max_distance\": 64}", rest);
    cr_assert_eq(output.status, 0, "%s", output.text);
    for (size_t i = 0; i + 1 < output.size; i++)
        output.text[i] = output.text[i] == '\0' ? '\n' : output.text[i];
    root = cJSON_Parse(output.text);
    cr_assert_not_null(root, "%s", output.text);
    cr_expect_str_eq(cJSON_GetObjectItem(root, "scheme")->valuestring, "t5");
    cr_expect_eq(cJSON_GetObjectItem(cJSON_GetObjectItem(root, "params"), "max_distance")->valueint,
                 64);
    cr_expect_eq(cJSON_GetObjectItem(cJSON_GetObjectItem(root, "plan"), "heads")->valueint, 6);
    cr_expect_eq(
        cJSON_GetArraySize(cJSON_GetObjectItem(cJSON_GetObjectItem(root, "results"), "bias")), 3);
    step = cJSON_GetObjectItem(root, "bias");
    cr_assert_not_null(step);
    cr_expect_str_eq(cJSON_GetObjectItem(step, "variant")->valuestring, "generic");
    cr_expect_gt(cJSON_GetObjectItem(step, "gpu_ns")->valuedouble, 0.0);
    cr_expect_gt(cJSON_GetObjectItem(step, "total_bytes")->valuedouble, 0.0);
    cr_expect_gt(cJSON_GetObjectItem(step, "visible_flops")->valuedouble, 0.0);
    cJSON_Delete(root);
    command_free(&output);
}

Test(run_schemes, positions_beyond_a_learned_table_are_told)
{
    static const uint64_t table[2] = {4, 8}, positions[1] = {3};
    const int32_t values[2][3] = {{0, 1, 3}, {0, 1, 4}};
    tensor_error error;
    char path[600];

    snprintf(path, sizeof path, "%s/in.safetensors", folder);
    for (int i = 0; i < 2; i++) {
        tensor_list list = {0};
        command_output output;
        bool told = false;
        cr_assert_not_null(tensor_list_add(&list, "table", TENSOR_F32, 2, table, &error));
        memcpy(tensor_list_add(&list, "positions", TENSOR_I32, 1, positions, &error)->data,
               values[i], sizeof values[i]);
        cr_assert_eq(safetensors_write(path, &list, &error), 0, "%s", error.line);
        tensor_list_free(&list);
        output = run("learned", "encode", "{}", "--input in.safetensors");
        cr_assert_eq(output.status, 0, "%s", output.text);
        for (const char *line = command_next(&output, NULL); line != NULL;
             line = command_next(&output, line))
            told = told || strstr(line, "outside") != NULL;
        cr_expect_eq(told, i == 1);
        command_free(&output);
    }
}

static void expect_refusal(const char *arguments, int status, const char *needle)
{
    command_output output =
        command_run("cd '%s' && G='%s/tests/goldens' && '%s/tools/rhumb' run %s", folder,
                    command_source_root(), command_build_root(), arguments);

    cr_expect(output.status == status && output.lines == 1 && strstr(output.text, needle) != NULL,
              "run %s: wanted status %d and \"%s\", got %d: %s", arguments, status, needle,
              output.status, output.text);
    command_free(&output);
}

#define T5_FILE "--input $G/relative1d/t5_bias_bi_L17_H6.safetensors "
#define T5_SIZES "\"q_len\": 17, \"k_len\": 17"

Test(run_schemes, wrong_arguments_are_one_line_and_status_2)
{
    expect_refusal("--scheme t6 --op bias", 2, "--scheme wants none, rope, xpos");
    expect_refusal("--scheme t5 --op bias --params '{' " T5_FILE, 2,
                   "--params wants a JSON object");
    expect_refusal("--scheme t5 --op bias --params '[1]' " T5_FILE, 2, "--params wants a JSON");
    expect_refusal("--scheme t5 --op bias --params '{} x' " T5_FILE, 2, "it goes wrong at \"x\"");
    expect_refusal("--scheme t5 --op bias --params '{\"buckets\": 3}' " T5_FILE, 2,
                   "--params: no parameter \"buckets\"; t5 has num_buckets, max_distance");
    expect_refusal("--scheme none --op scores --params '{\"buckets\": 3}'", 2,
                   "a plan has batch, heads");
    expect_refusal("--scheme t5 --op bias --params '{\"num_buckets\": true, \"max_distance\": "
                   "\"far\"}' " T5_FILE,
                   2, "--params: max_distance: wanted a whole number");
    expect_refusal("--scheme t5 --op buckets " T5_FILE, 2, "--op wants rotate, attention, encode");
    expect_refusal("--scheme t5 --op rotate " T5_FILE, 2, "not t5, which is relative");
    expect_refusal("--scheme none --op bias " T5_FILE, 2, "--scheme wants one that bias is of");
    expect_refusal("--scheme sinusoidal --op attention " T5_FILE, 2, "which is absolute");
    expect_refusal("--scheme t5 --config c.json --op bias", 2, "either --config or --scheme");
    expect_refusal("--scheme t5 --op bias --random 4", 2, "--random goes with --config");
    expect_refusal("--scheme t5 --op bias --kind a " T5_FILE, 2, "--kind goes with --config");
    expect_refusal("--config c.json --random 4 --params '{}'", 2, "--params goes with --scheme");
    expect_refusal("--scheme t5 --op bias --causal " T5_FILE, 2, "--causal goes with attention");
    expect_refusal("--scheme t5 --op bias " T5_FILE, 2,
                   "--params: q_len: wanted a number, as no tensor says it");
    expect_refusal("--scheme t5 --op bias --params '{\"heads\": 5, " T5_SIZES "}' " T5_FILE, 2,
                   "--params: heads: wanted 6, as the tensors and the scheme have it, found 5");
    expect_refusal("--scheme t5 --op bias --check --params '{" T5_SIZES "}' " T5_FILE, 2,
                   "--check wants");
    expect_refusal("--scheme t5 --op bias --output a.npy,b.npy --params '{" T5_SIZES "}' " T5_FILE,
                   2, "--output wants a .safetensors file or one .npy file (bias)");
    expect_refusal("--scheme t5 --op bias --input x.npy,y.npy,z.npy,w.npy", 2, "--input wants");
}

Test(run_schemes, wrong_tensors_are_one_line_and_nothing_is_written)
{
    expect_refusal("--scheme t5 --op bias --input table=none.npy --output o.npy", 1, "none.npy");
    expect_refusal("--scheme rope --op attention " T5_FILE "--output o.npy", 1,
                   "attention needs a tensor q, there is none");
    expect_refusal("--scheme t5 --op bias --params '{\"num_buckets\": 16, " T5_SIZES
                   "}' --output o.npy " T5_FILE,
                   1, "TABLE");
    expect_refusal("--scheme shaw --op attention --output o.npy --input "
                   "$G/relative1d/xlnet_scores_bi_L17.safetensors",
                   1, "attention needs a tensor v");
    expect_refusal("--scheme rope --op rotate --output o.npy --input "
                   "$G/rotary/ggml_freq_factors_neox_d64_l17.safetensors",
                   2, "--input: no view for a tensor \"freq_factors\"; rotate takes q x k");
    cr_expect_neq(access(folder, F_OK), -1);
    command_output output = command_run("ls '%s'", folder);
    cr_expect_eq(output.lines, 0, "%s", output.text);
    command_free(&output);
}
