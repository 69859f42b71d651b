/* The golden cases of the absolute and two-dimensional schemes, changed: one wrong number, one
 * parameter of another value, one word or tensor too many. None of them may pass.
 */
#define _POSIX_C_SOURCE 200809L /* mkdtemp */

#include "cases.h"
#include "safetensors.h"

#include <cjson/cJSON.h>
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char temporary[] = "/tmp/rhumb-refused-XXXXXX";
static char changed_path[256];

static void golden_path(const char *name, char *path, size_t size)
{
    const char *root = getenv("RHUMB_TEST_SOURCE_ROOT");

    snprintf(path, size, "%s/tests/goldens/absolute2d%s%s%s", root != NULL ? root : ".",
             name != NULL ? "/" : "", name != NULL ? name : "", name != NULL ? ".safetensors" : "");
}

static void open_folder(void)
{
    cr_assert_not_null(mkdtemp(temporary));
    snprintf(changed_path, sizeof changed_path, "%s/changed.safetensors", temporary);
}

static void close_folder(void)
{
    unlink(changed_path);
    cr_assert_eq(rmdir(temporary), 0);
}

static void read_golden(const char *name, tensor_list *list)
{
    tensor_error error = {""};
    char path[1200];

    memset(list, 0, sizeof *list);
    golden_path(name, path, sizeof path);
    cr_assert_eq(safetensors_read(path, list, &error), 0, "%s", error.line);
}

/* The changed case must fail, and say why. */
static void expect_failure(const char *name, const tensor_list *list, const char *why)
{
    tensor_error error = {""};
    case_result r;

    cr_assert_eq(safetensors_write(changed_path, list, &error), 0, "%s", error.line);
    cases_run_file(changed_path, NULL, NULL, &r);
    cr_expect(r.status == CASE_FAIL && strstr(r.reason, why) != NULL,
              "%s: wanted a failure with \"%s\", got status %d, \"%s\"", name, why, (int)r.status,
              r.reason);
}

static tensor *output_of(tensor_list *list)
{
    size_t i;

    for (i = 0; i < list->count; i++)
        if (strncmp(list->items[i].name, "out.", 4) == 0)
            return &list->items[i];
    cr_assert_fail("no output");
    return NULL;
}

/* ------------------------------------------------------------------------------------------------
 * Every case
 */
static void change_each(void *user, const case_result *r)
{
    static const uint64_t one[1] = {1};
    unsigned *cases = user;
    tensor_error error = {""};
    tensor_list list;
    tensor *output;
    char params[2048];
    uint64_t last;
    double value;

    (*cases)++;
    read_golden(r->name, &list);
    output = output_of(&list);
    last = output->count - 1;
    value = tensor_get(output, last);
    tensor_put(output, last, value + fmax(3 * r->tolerance, r->tolerance > 0 ? 0 : 1));
    expect_failure(r->name, &list, "reference: out.");
    tensor_put(output, last, value);
    cr_assert_not_null(tensor_list_add(&list, "in.extra", TENSOR_F32, 1, one, &error));
    expect_failure(r->name, &list, "unknown tensor \"in.extra\"");
    snprintf(params, sizeof params, "{\"colour\":1,%s", tensor_list_text(&list, "params") + 1);
    cr_assert_eq(tensor_list_set_text(&list, "params", params, &error), 0);
    expect_failure(r->name, &list, "unknown key \"colour\"");
    tensor_list_free(&list);
}

Test(goldens_refused, no_case_passes_with_a_wrong_number_or_something_unknown)
{
    cases_count count = {0, 0};
    tensor_error error = {""};
    unsigned cases = 0;
    char path[1200];

    open_folder();
    golden_path(NULL, path, sizeof path);
    cr_assert_eq(cases_run(path, NULL, change_each, &cases, &count, &error), 0, "%s", error.line);
    cr_expect_eq(cases, 146u, "%u", cases);
    close_folder();
}

/* ------------------------------------------------------------------------------------------------
 * Every parameter that changes a result
 */
typedef struct change {
    const char *name;
    const char *key;
    const char *json; /* the other value */
    const char *why;
} change;

#define TABLE "sinusoidal_table_interleaved_L17_d10"
#define DETR "sin2d_table_deformable_holes_B2_6x7_d8"
#define MOCO "sin2d_table_mocov3_7x5_d16"
#define RESIZE "learned2d_resize_dinov2_16x16_to_21x11_off1_aa0"
#define SHIFTED "swin_attn_hf_pad_grid7x5_w4_s2_B2_h3_d8"
#define COSINE "swinv2_attn_grid14x14_w7_s3_clamp_B1_h1_d8"
#define WRONG "reference: out."

static const change changes[] = {
    {TABLE, "base", "20", WRONG},
    {TABLE, "frequency", "\"i/(half-1)\"", WRONG},
    {TABLE, "layout", "\"concat\"", WRONG},
    {TABLE, "offset", "1", WRONG},
    {TABLE, "padding_idx", "3", WRONG},
    {TABLE, "pe_scale", "0.5", WRONG},
    {TABLE, "dim", "12", "wanted dim 12"},
    {TABLE, "offset", "1e10", "wanted a number of 32 bits"},
    {"sinusoidal_table_interleaved_odd_L9_d7", "odd", "\"ceil_even\"", WRONG},
    {"sinusoidal_table_interleaved_odd_L9_d7", "odd", "\"zero_pad\"", WRONG},
    {"sinusoidal_table_interleaved_odd_L9_d7", "odd", "\"none\"", "outside their domain"},
    {"sinusoidal_encode_paper_B2_L19_d32", "x_scale", "1", WRONG},
    {"sinusoidal_encode_fairseq_mask_B3_L11_d14", "padding_idx", "2", "in.positions: wanted"},
    {"sinusoidal_encode_s2t_past0_B2_L9_d12", "past_length", "1", "in.positions: wanted"},
    {"learned_encode_opt_B2_L3_past5_d10", "offset", "3", WRONG},
    {"learned_encode_opt_B2_L3_past5_d10", "offset", "20", "beyond the table"},
    {"learned_encode_opt_B2_L3_past5_d10", "position_rule", "\"cumsum(mask)*mask+padding_idx\"",
     "in.positions: wanted"},
    {"learned_encode_opt_B2_L3_past5_d10", "past_length", "4", "in.mask: wanted"},
    {"learned_encode_opt_B3_L9_past0_d12", "out_of_range", "\"clamp_low\"", WRONG},
    {"learned_encode_xt_l20_offset_B2_L12_d20", "pe_scale", "1", WRONG},
    {"learned_encode_xt_l21_start_B3_L9_d8", "l2norm", "false", WRONG},
    {"learned_encode_xt_l21_start_B3_L9_d8", "out_of_range", "\"error\"", "beyond the table"},
    {DETR, "base", "20", WRONG},
    {DETR, "axis_order", "\"xy\"", WRONG},
    {DETR, "layout", "\"axis_concat\"", WRONG},
    {DETR, "layout", "\"sin_cos_split\"", WRONG},
    {DETR, "frequency", "\"i/(n-1)\"", WRONG},
    {DETR, "normalize", "false", WRONG},
    {DETR, "scale", "1", WRONG},
    {DETR, "eps", "0.1", WRONG},
    {DETR, "center_offset", "0", WRONG},
    {DETR, "axis_dim", "3", "even number of channels"},
    {DETR, "axis_dim", "10", "even number of channels"},
    {DETR, "mask_coords", "false", "normalize: wanted with mask_coords"},
    {DETR, "output", "\"nchw\"", "out.table: wanted 4 dimensions"},
    {"sin2d_table_detr_raw_7x5_d12_t20", "mask_coords", "false", "in.mask: wanted with"},
    {MOCO, "token_order", "\"row_major\"", WRONG},
    {MOCO, "coord_start", "1", WRONG},
    {MOCO, "prefix_tokens", "0", "out.table: wanted"},
    {MOCO, "normalize", "true", "normalize: wanted with mask_coords"},
    {MOCO, "mask_coords", "true", "wanted the tensor in.mask"},
    {MOCO, "output", "\"nchw\"", "output: wanted tokens"},
    {"sin2d_table_concat_interleaved_5x7_d10", "axis_dim", "8", WRONG},
    {"sin2d_encode_mae_B2_7x7_d16", "output", "\"nchw\"", "output: wanted tokens"},
    {"learned2d_table_detr_7x5_d12", "max_size", "40", "max_size: wanted the tables' rows"},
    {"learned2d_table_detr_7x5_d12", "grid", "[5, 7]", WRONG},
    {"learned2d_table_detr_1x50_d6", "grid", "[50, 1]", WRONG},
    {"learned2d_encode_vit_B2_7x5_d12_cls", "table_has_prefix", "false", "in.table: wanted"},
    {"learned2d_encode_vit_B2_7x5_d12_cls", "old_grid", "[5, 7]", "old_grid: wanted the grid"},
    {"learned2d_encode_resize_B2_7x5_to_10x9_d8_cls", "interpolation", "{\"mode\": \"bicubic\"}",
     WRONG},
    {"learned2d_encode_resize_B2_7x5_to_10x9_d8_cls", "interpolation",
     "{\"mode\": \"bicubic\", \"colour\": 1}", "unknown key \"colour\""},
    {"learned2d_encode_resize_B2_7x5_to_10x9_d8_cls", "interpolation",
     "{\"mode\": \"geometric_bilinear\"}", "wanted bicubic or bilinear"},
    {"learned2d_encode_resize_B2_7x5_to_10x9_d8_cls", "old_grid", "[5, 7]", WRONG},
    {RESIZE, "mode", "\"bilinear\"", WRONG},
    {RESIZE, "mode", "\"geometric_bilinear\"", "mode: wanted one of scheme learned2d"},
    {RESIZE, "antialias", "true", WRONG},
    {RESIZE, "align_corners", "true", "outside their domain"},
    {RESIZE, "scale_factor", "null", "scale_factor: wanted"},
    {RESIZE, "scale_factor", "[1, -1]", "scale_factor: wanted numbers above 0"},
    {RESIZE, "interpolate_offset", "0", "scale_factor: wanted"},
    {RESIZE, "prefix_tokens", "0", "in.table: wanted"},
    {"learned2d_resize_bilinear_aligned_9x7_to_4x5_p0", "align_corners", "false", WRONG},
    {"swin_resize_geometric_w4_to_w7_h2_x3", "mode", "\"bicubic\"", WRONG},
    {"swin_resize_geometric_w4_to_w7_h2_x3", "mode", "\"bilinear\"",
     "mode: wanted one of scheme swin"},
    {"swin_bias_beit_4x6_h3_cls", "window", "[6, 4]", WRONG},
    {"swin_bias_beit_4x6_h3_cls", "prefix_tokens", "0", "in.table: wanted"},
    {"swin_bias_beit_4x6_h3_cls", "prefix_tokens", "2", "prefix_tokens: wanted at most 1"},
    {"swin_buckets_7x5", "window", "[5, 7]", WRONG},
    {SHIFTED, "scale", "1", WRONG},
    {SHIFTED, "shift", "[2, 1]", WRONG},
    {SHIFTED, "shift", "[4, 0]", "outside their domain"},
    {SHIFTED, "shift", "[0.5, 0]", "shift: wanted whole numbers"},
    {SHIFTED, "pad", "\"shift_then_pad\"", WRONG},
    {SHIFTED, "pad", "\"none\"", "outside their domain"},
    {SHIFTED, "mask_value", "0", WRONG},
    {SHIFTED, "grid", "[5, 7]", WRONG},
    {SHIFTED, "causal", "true", "causal false"},
    {SHIFTED, "token_layout", "\"windows\"", "wanted grid and clip_rule"},
    {"swin_attn_timm_grid4x12_w6x4_peraxis_B1_h3_d8", "requested_shift", "[3, 1]",
     "wanted window 4 by 4 and shift 0, 1 by clip_rule per_axis"},
    {"swin_attn_grid14x7_clipmin_B1_h3_d8", "clip_rule", "\"per_axis\"",
     "wanted window 7 by 7 and shift 3, 0 by clip_rule per_axis"},
    {"swinv2_bias_9x9_pre8_h1", "pretrained_window", "[0, 0]", WRONG},
    {"swinv2_bias_9x9_pre8_h1", "pretrained_window", "[1, 8]", "outside their domain"},
    {"swinv2_bias_9x9_pre8_h1", "bias_gain", "8", WRONG},
    {"swinv2_bias_9x9_pre8_h1", "mlp_hidden", "8", "mlp_hidden: wanted the rows"},
    {"swinv2_coords_12x12_pre8", "pretrained_window", "[0, 0]", WRONG},
    {COSINE, "max_log_scale", "9", WRONG},
    {COSINE, "cosine", "false", "cosine true"},
    {"swinv2_attn_win4x4_clamp_zero_B2_h3_d8", "eps", "10", WRONG},
    {"swinv2_attn_hf_grid4x6_w2_s1_softmask200_B1_h2_d2", "mask_value", "-100", WRONG},
    {"swinv2_attn_grid4x6_w2_s1_softmask_B2_h2_d2", "mask_value", "-1e9", WRONG},
};

static void apply(const change *row)
{
    tensor_error error = {""};
    tensor_list list;
    cJSON *params, *value;
    char *text;

    read_golden(row->name, &list);
    params = cJSON_Parse(tensor_list_text(&list, "params"));
    value = cJSON_Parse(row->json);
    cr_assert(params != NULL && value != NULL, "%s, %s", row->name, row->key);
    cJSON_DeleteItemFromObject(params, row->key);
    cJSON_AddItemToObject(params, row->key, value);
    text = cJSON_PrintUnformatted(params);
    cr_assert_not_null(text);
    cr_assert_eq(tensor_list_set_text(&list, "params", text, &error), 0);
    expect_failure(row->name, &list, row->why);
    cJSON_free(text);
    cJSON_Delete(params);
    tensor_list_free(&list);
}

Test(goldens_refused, every_parameter_that_counts_is_read)
{
    size_t i;

    open_folder();
    for (i = 0; i < sizeof changes / sizeof *changes; i++)
        apply(&changes[i]);
    close_folder();
}
