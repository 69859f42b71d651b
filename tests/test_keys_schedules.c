/* Configuration keys -> schedules: every context extension, old and new style, the kinds of layers
 * with their layers, the traps that are warned of, and what is refused. */
#include "describe_model.h"

#include <rhumb/rhumb_schemes.h>

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define LLAMA "{\"model_type\":\"llama\",\"hidden_size\":256,\"num_attention_heads\":4,"
#define OLD(keys) LLAMA "\"rope_scaling\":{" keys "}}"
#define NEW(keys) LLAMA "\"rope_parameters\":{" keys "}}"
#define LONG(keys) LLAMA "\"max_position_embeddings\":8192,\"rope_scaling\":{" keys "}}"

static rhumb_result resolve(const char *json, describe_report *report)
{
    return describe_model_text(json, strlen(json), report);
}

static const describe_row *find_row(const describe_report *report, const char *field)
{
    for (uint32_t i = 0; i < report->row_count; i++) {
        if (strcmp(report->rows[i].field, field) == 0)
            return &report->rows[i];
    }
    return NULL;
}

/* --- scalings --- */

/* What differs from rhumb_init_rope, and m with the start of its source. */
typedef struct scaling_row {
    const char *json;
    rhumb_rope_scaling scaling;
    double factor;
    uint32_t original_length;
    uint32_t max_length;
    double beta_fast;
    double beta_slow;
    int not_truncated;
    double low;
    double high;
    double multiplier;
    double extrapolation;
    double m;
    const char *m_source;
} scaling_row;

#define YARN RHUMB_ROPE_SCALING_YARN
#define YARN_4 "\"type\":\"yarn\",\"factor\":4,\"original_max_position_embeddings\":2048"
#define LLAMA3 "\"rope_type\":\"llama3\",\"factor\":8,\"original_max_position_embeddings\":8192,"

static const scaling_row scaling_rows[] = {
    {OLD(YARN_4), YARN, 4, 2048, .m = 1.1386294361119891,
     .m_source = "rule of rope type yarn: 0.1 ln factor + 1"},
    {NEW("\"rope_theta\":10000," YARN_4), YARN, 4, 2048, .m = 1.1386294361119891},
    {OLD(YARN_4 ",\"beta_fast\":64,\"beta_slow\":2,\"truncate\":false"), YARN, 4, 2048,
     .beta_fast = 64, .beta_slow = 2, .not_truncated = 1, .m = 1.1386294361119891},
    {OLD(YARN_4 ",\"beta_fast\":0,\"beta_slow\":null"), YARN, 4, 2048, .m = 1.1386294361119891},
    /* a null factor is the ratio of the lengths; a missing original length the configured one */
    {LONG("\"type\":\"yarn\",\"factor\":null,\"original_max_position_embeddings\":2048"), YARN, 4,
     2048, .m = 1.1386294361119891},
    {LONG("\"type\":\"yarn\",\"factor\":4"), YARN, 4, 8192, .m = 1.1386294361119891},
    /* the magnitude: the key, the pair of mscale, one of them alone */
    {OLD(YARN_4 ",\"attention_factor\":1.5,\"mscale\":2,\"mscale_all_dim\":1"), YARN, 4, 2048,
     .m = 1.5, .m_source = "rope_scaling.attention_factor"},
    {OLD(YARN_4 ",\"mscale\":2,\"mscale_all_dim\":1"), YARN, 4, 2048, .m = 1.1217511437130581,
     .m_source = "rule of rope type yarn: (0.1 mscale ln factor + 1) /"},
    {OLD(YARN_4 ",\"mscale\":2,\"mscale_all_dim\":0"), YARN, 4, 2048, .m = 1.1386294361119891},
    {OLD(YARN_4 ",\"attn_factor\":0.5,\"extrapolation_factor\":0.25"), YARN, 4, 2048,
     .multiplier = 0.5, .extrapolation = 0.25, .m = 1.1386294361119891 / 2},
    {OLD(LLAMA3 "\"low_freq_factor\":1,\"high_freq_factor\":4"), RHUMB_ROPE_SCALING_LLAMA3, 8, 8192,
     .low = 1, .high = 4, .m = 1, .m_source = "rule of rope type llama3"},
    {OLD(LLAMA3 "\"low_freq_factor\":1,\"high_freq_factor\":1"), RHUMB_ROPE_SCALING_LLAMA3, 8, 8192,
     .low = 1, .high = 1, .m = 1},
    {LONG("\"type\":\"dynamic\",\"factor\":2"), RHUMB_ROPE_SCALING_NTK_DYNAMIC, 2,
     .max_length = 8192, .m = 1},
    {LONG("\"type\":\"dynamic\",\"factor\":2,\"alpha\":0"), RHUMB_ROPE_SCALING_NTK_DYNAMIC, 2,
     .max_length = 8192, .m = 1},
    {OLD("\"type\":\"dynamic\",\"alpha\":1000,\"factor\":1,\"beta_fast\":32,\"mscale\":1"),
     RHUMB_ROPE_SCALING_NTK, 1000, .m = 1},
    {OLD("\"type\":\"proportional\",\"partial_rotary_factor\":0.25,\"factor\":2"),
     RHUMB_ROPE_SCALING_PROPORTIONAL, 2, .m = 1},
    {OLD(YARN_4 ",\"rope_type\":\"linear\""), RHUMB_ROPE_SCALING_LINEAR, 4, .m = 1},
};

static double or_default(double value, double otherwise)
{
    return value != 0.0 ? value : otherwise;
}

static void check_scaling(const scaling_row *row, const describe_report *report)
{
    const rhumb_rope *rope = report->kinds[0].rotary;
    const describe_row *source = find_row(report, "attention_factor");
    double m = 0.0;

    cr_expect_eq(rope->scaling, row->scaling, "%s: scaling %d", row->json, (int)rope->scaling);
    cr_expect(rope->factor == row->factor && rope->original_length == row->original_length &&
                  rope->max_length == row->max_length,
              "%s: factor %g, original_length %u, max_length %u", row->json, rope->factor,
              rope->original_length, rope->max_length);
    cr_expect(rope->beta_fast == or_default(row->beta_fast, 32) &&
                  rope->beta_slow == or_default(row->beta_slow, 1) &&
                  rope->truncate == !row->not_truncated,
              "%s: betas %g, %g, truncate %u", row->json, rope->beta_fast, rope->beta_slow,
              rope->truncate);
    cr_expect(rope->low_freq_factor == or_default(row->low, 1) &&
                  rope->high_freq_factor == or_default(row->high, 4),
              "%s: factors %g, %g", row->json, rope->low_freq_factor, rope->high_freq_factor);
    cr_expect(rope->attention_multiplier == or_default(row->multiplier, 1) &&
                  rope->extrapolation == or_default(row->extrapolation, 1),
              "%s: %g, %g", row->json, rope->attention_multiplier, rope->extrapolation);
    cr_assert_eq(rhumb_rotary_frequencies(rope, 64, 0, NULL, 0, NULL, &m), RHUMB_OK);
    cr_expect(fabs(m - row->m) <= 1e-15, "%s: m %.17g", row->json, m);
    cr_assert_not_null(source);
    cr_expect(strtod(source->value, NULL) == m, "%s: traced %s", row->json, source->value);
    if (row->m_source != NULL)
        cr_expect_eq(strncmp(source->source, row->m_source, strlen(row->m_source)), 0, "%s: %s",
                     row->json, source->source);
}

Test(keys_schedules, every_scaling_reads_its_keys_in_both_styles)
{
    static describe_report report;

    for (size_t i = 0; i < sizeof scaling_rows / sizeof scaling_rows[0]; i++) {
        rhumb_result result = resolve(scaling_rows[i].json, &report);
        cr_expect_eq(result, RHUMB_OK, "%s: %s", scaling_rows[i].json, report.message);
        if (result == RHUMB_OK)
            check_scaling(&scaling_rows[i], &report);
        describe_free(&report);
    }
}

/* --- longrope --- */

#define PHI3 "{\"model_type\":\"phi3\",\"hidden_size\":32,\"num_attention_heads\":4,"
#define LISTS "\"short_factor\":[1,1,1,1],\"long_factor\":[2,4,8,16]"

static void check_longrope(const char *json, double m, const char *trap)
{
    static describe_report report;
    const describe_row *warning;
    const rhumb_rope *rope;
    double f[2][4];
    double found;

    cr_assert_eq(resolve(json, &report), RHUMB_OK, "%s: %s", json, report.message);
    rope = report.kinds[0].rotary;
    cr_assert_eq(rope->scaling, RHUMB_ROPE_SCALING_LONGROPE);
    cr_assert_eq(rhumb_rotary_frequencies(rope, 8, 4096, f[0], 4, NULL, &found), RHUMB_OK);
    cr_assert_eq(rhumb_rotary_frequencies(rope, 8, 4097, f[1], 4, NULL, NULL), RHUMB_OK);
    cr_expect(fabs(found - m) <= 1e-15, "%s: m %.17g", json, found);
    for (int i = 0; i < 4; i++) {
        cr_expect(fabs(f[0][i] * pow(10.0, i) - 1.0) < 1e-15, "%s: short %d: %g", json, i, f[0][i]);
        cr_expect(f[0][i] / f[1][i] == 2 << i, "%s: long %d: %g", json, i, f[1][i]);
    }
    warning = find_row(&report, "warning");
    cr_expect_eq(trap != NULL, warning != NULL, "%s", json);
    if (trap != NULL && warning != NULL)
        cr_expect_not_null(strstr(warning->source, trap), "%s: %s", json, warning->source);
    describe_free(&report);
}

Test(keys_schedules, longrope_switches_behind_the_original_length_under_each_of_its_names)
{
    static const char top[] = "\"max_position_embeddings\":131072,"
                              "\"original_max_position_embeddings\":4096,";
    char json[1024];

#define CHECK(form, m, trap)                                                                       \
    do {                                                                                           \
        (void)snprintf(json, sizeof json, PHI3 "%s" form "}", top);                                \
        check_longrope(json, m, trap);                                                             \
    } while (0)
    CHECK("\"rope_scaling\":{\"type\":\"longrope\"," LISTS "}", 1.1902380714238083, NULL);
    CHECK("\"rope_scaling\":{\"type\":\"su\"," LISTS "}", 1.1902380714238083,
          "su is an older name");
    CHECK("\"rope_scaling\":{\"type\":\"yarn\"," LISTS "}", 1.1902380714238083,
          "yarn means longrope");
    CHECK("\"rope_parameters\":{\"rope_type\":\"longrope\",\"rope_theta\":10000," LISTS "}",
          1.1902380714238083, NULL);
    CHECK("\"rope_scaling\":{\"type\":\"longrope\",\"factor\":32," LISTS "}", 1.1902380714238083,
          NULL);
    CHECK("\"rope_scaling\":{\"type\":\"longrope\",\"factor\":1," LISTS "}", 1.0,
          "which some programs take");
    CHECK("\"rope_scaling\":{\"type\":\"longrope\",\"attention_factor\":1.25," LISTS "}", 1.25,
          NULL);
#undef CHECK
    check_longrope("{\"model_type\":\"minicpm\",\"hidden_size\":32,\"num_attention_heads\":4,"
                   "\"max_position_embeddings\":131072,\"rope_scaling\":{"
                   "\"rope_type\":\"longrope\","
                   "\"original_max_position_embeddings\":4096," LISTS "}}",
                   1.1902380714238083, NULL);
}

/* --- layer kinds --- */

typedef struct kind_row {
    const char *name;
    uint32_t head_dim;
    uint32_t kv_heads;
    int32_t left; /* 0: no window */
    int32_t right;
    double base; /* 0: no rotary */
    uint32_t first_layers; /* bits of layers 0 to 31 */
} kind_row;

typedef struct kinds_row {
    const char *json;
    uint32_t layer_count;
    uint32_t count;
    kind_row kinds[3];
} kinds_row;

#define HEADS "\"num_attention_heads\":8,\"num_key_value_heads\":2,\"head_dim\":64,"
#define SMOL "{\"model_type\":\"smollm3\"," HEADS "\"rope_theta\":5e6,"
#define GEMMA3 "{\"model_type\":\"gemma3_text\"," HEADS "\"sliding_window\":100,"
#define GEMMA4                                                                                     \
    "{\"model_type\":\"gemma4_text\"," HEADS "\"global_head_dim\":128,\"sliding_window\":100,"     \
    "\"rope_parameters\":{\"full_attention\":{\"rope_type\":\"proportional\",\"rope_theta\":1e6,"  \
    "\"partial_rotary_factor\":0.25},\"sliding_attention\":{\"rope_theta\":1e4}}"

static const kinds_row kinds_rows[] = {
    {LLAMA "\"num_hidden_layers\":3}", 3, 1, {{"attention", 64, 4, 0, 0, 1e4, 7}}},
    {LLAMA "\"vocab_size\":3}", 512, 1, {{"attention", 64, 4, 0, 0, 1e4, 0xFFFFFFFF}}},
    {SMOL "\"num_hidden_layers\":9}", 9, 2,
     {{"attention", 64, 2, 0, 0, 5e6, 0x177}, {"no_rope_attention", 64, 2, 0, 0, 0, 0x88}}},
    {SMOL "\"no_rope_layers\":[0,1,1,0,1,1]}", 6, 2,
     {{"attention", 64, 2, 0, 0, 5e6, 0x36}, {"no_rope_attention", 64, 2, 0, 0, 0, 0x09}}},
    {SMOL "\"no_rope_layer_interval\":2,\"num_hidden_layers\":4,\"use_sliding_window\":true,"
          "\"sliding_window\":7}",
     4, 2,
     {{"full_attention", 64, 2, 0, 0, 5e6, 5}, {"sliding_attention", 64, 2, 7, 0, 0, 10}}},
    {"{\"model_type\":\"cohere2\"," HEADS "\"rope_theta\":5e4,\"num_hidden_layers\":5}", 5, 2,
     {{"sliding_attention", 64, 2, 4096, 0, 5e4, 0x17}, {"full_attention", 64, 2, 0, 0, 0, 0x08}}},
    {GEMMA3 "\"num_hidden_layers\":7}", 7, 2,
     {{"full_attention", 64, 2, 0, 0, 1e6, 0x20}, {"sliding_attention", 64, 2, 100, 0, 1e4, 0x5F}}},
    {GEMMA3 "\"rope_parameters\":{\"full_attention\":{\"rope_type\":\"linear\",\"factor\":8,"
            "\"rope_theta\":2e6},\"sliding_attention\":{\"rope_type\":\"default\",\"rope_theta\":"
            "3e4}},\"layer_types\":[\"sliding_attention\",\"full_attention\"]}",
     2, 2, {{"full_attention", 64, 2, 0, 0, 2e6, 2}, {"sliding_attention", 64, 2, 100, 0, 3e4, 1}}},
    {GEMMA3 "\"layer_types\":[\"sliding_attention\"]}", 1, 1,
     {{"attention", 64, 2, 100, 0, 1e4, 1}}},
    {GEMMA4 "}", 0, 2,
     {{"full_attention", 128, 2, 0, 0, 1e6, 0}, {"sliding_attention", 64, 2, 100, 0, 1e4, 0}}},
    {GEMMA4 ",\"attention_k_eq_v\":true,\"num_global_key_value_heads\":1,\"layer_types\":["
            "\"sliding_attention\",\"sliding_attention\",\"full_attention\"]}",
     3, 2,
     {{"full_attention", 128, 1, 0, 0, 1e6, 4}, {"sliding_attention", 64, 2, 100, 0, 1e4, 3}}},
    {"{\"model_type\":\"modernbert\",\"hidden_size\":512,\"num_attention_heads\":8,"
     "\"num_hidden_layers\":5,\"local_attention\":128}",
     5, 2,
     {{"full_attention", 64, 8, 0, 0, 160000, 9}, {"sliding_attention", 64, 8, 65, 64, 1e4, 22}}},
    {"{\"model_type\":\"gpt_oss\"," HEADS "\"num_hidden_layers\":4}", 4, 2,
     {{"full_attention", 64, 2, 0, 0, 150000, 10},
      {"sliding_attention", 64, 2, 128, 0, 150000, 5}}},
    {"{\"model_type\":\"qwen3_5_text\",\"head_dim\":64,\"rope_parameters\":{\"mrope_section\":"
     "[4,2,2],\"rope_theta\":1e7,\"rope_type\":\"default\"},\"num_hidden_layers\":9}",
     9, 1, {{"attention", 64, 0, 0, 0, 1e7, 0x88}}},
    {"{\"model_type\":\"deepseek_v3\",\"num_attention_heads\":8,\"qk_nope_head_dim\":64,"
     "\"qk_rope_head_dim\":32,\"v_head_dim\":48,\"num_hidden_layers\":1,\"head_dim\":32}",
     1, 1, {{"attention", 96, 8, 0, 0, 1e4, 1}}},
};

static double base_of(const void *rotary)
{
    const rhumb_header *header = rotary;
    const rhumb_rope *rope = rotary;

    if (header == NULL)
        return 0.0;
    if (header->type == RHUMB_TYPE_MROPE)
        rope = ((const rhumb_mrope *)rotary)->rope;
    return rope->base;
}

static void check_kind(const kinds_row *row, const kind_row *want, const rhumb_layer_kind *kind)
{
    cr_expect_str_eq(kind->name, want->name, "%s: %s", row->json, kind->name);
    cr_expect(kind->head_dim == want->head_dim && kind->kv_heads == want->kv_heads,
              "%s: %s: head_dim %u, kv_heads %u", row->json, want->name, kind->head_dim,
              kind->kv_heads);
    cr_expect(kind->window_left == (want->left != 0 ? want->left : RHUMB_NO_WINDOW) &&
                  kind->window_right == (want->right != 0 ? want->right : RHUMB_NO_WINDOW),
              "%s: %s: window %d, %d", row->json, want->name, kind->window_left,
              kind->window_right);
    cr_expect_eq(base_of(kind->rotary), want->base, "%s: %s: base %g", row->json, want->name,
                 base_of(kind->rotary));
    cr_expect_eq(kind->layer_count, row->layer_count, "%s: %u layers", row->json,
                 kind->layer_count);
    for (uint32_t i = 0; i < 32; i++)
        cr_expect_eq(rhumb_layer_is_of_kind(kind, i), want->first_layers >> i & 1u,
                     "%s: %s: layer %u", row->json, want->name, i);
    cr_expect_eq(rhumb_layer_is_of_kind(kind, 512), 0);
}

Test(keys_schedules, kinds_have_their_layers_windows_heads_and_bases)
{
    static describe_report report;

    for (size_t i = 0; i < sizeof kinds_rows / sizeof kinds_rows[0]; i++) {
        const kinds_row *row = &kinds_rows[i];
        rhumb_result result = resolve(row->json, &report);

        cr_expect_eq(result, RHUMB_OK, "%s: %s", row->json, report.message);
        cr_expect_eq(report.kind_count, row->count, "%s: %u kinds", row->json, report.kind_count);
        for (uint32_t k = 0; k < report.kind_count && k < row->count; k++)
            check_kind(row, &row->kinds[k], &report.kinds[k]);
        describe_free(&report);
    }
}

Test(keys_schedules, llama4_and_deepseek_say_what_their_attention_has_besides)
{
    static const char llama4[] =
        "{\"model_type\":\"llama4_text\"," HEADS "\"num_hidden_layers\":4,"
        "\"attn_scale\":0.25,\"floor_scale\":16,\"attention_chunk_size\":32}";
    static const char mla[] =
        "{\"model_type\":\"deepseek_v2\",\"num_attention_heads\":8,\"qk_nope_head_dim\":64,"
        "\"qk_rope_head_dim\":32,\"v_head_dim\":48,\"rope_interleave\":false,\"rope_scaling\":{"
        "\"type\":\"yarn\",\"factor\":40,\"original_max_position_embeddings\":4096,\"mscale\":1,"
        "\"mscale_all_dim\":1}}";
    static describe_report report;
    const rhumb_layer_kind *kind = report.kinds;
    const rhumb_rope *rope;
    double m = 0.1 * log(40) + 1;

    cr_assert_eq(resolve(llama4, &report), RHUMB_OK, "%s", report.message);
    cr_assert_eq(report.kind_count, 2);
    cr_expect_str_eq(kind[0].name, "chunked_attention");
    cr_expect(kind[0].chunk == 32 && kind[0].temperature == 0.0 && kind[0].rotary != NULL);
    cr_expect(kind[1].chunk == RHUMB_NO_WINDOW && kind[1].temperature == 0.25 &&
              kind[1].temperature_length == 16.0 && kind[1].rotary == NULL);
    cr_expect_null(describe_beyond(&kind[0], RHUMB_OP_ATTENTION));
    cr_expect_not_null(strstr(describe_beyond(&kind[1], RHUMB_OP_ATTENTION), "temperature"));
    cr_expect_null(describe_beyond(&kind[0], RHUMB_OP_ROTATE));
    describe_free(&report);

    cr_assert_eq(resolve(mla, &report), RHUMB_OK, "%s", report.message);
    rope = kind[0].rotary;
    cr_expect(rope->pairing == RHUMB_PAIRING_HALF && rope->rotary_dim == 32 &&
              rope->rotary_offset == 64);
    cr_expect(kind[0].head_dim == 96 && kind[0].value_dim == 48);
    cr_expect(fabs(kind[0].scale - m * m / sqrt(96)) <= 1e-15);
    cr_expect_null(describe_beyond(&kind[0], RHUMB_OP_ATTENTION));
    describe_free(&report);
}

/* --- traps --- */

typedef struct trap_row {
    const char *json;
    const char *key;
    const char *trap; /* NULL: none */
} trap_row;

static const trap_row trap_rows[] = {
    {OLD(YARN_4), NULL, NULL},
    {LONG(YARN_4), NULL, NULL},
    {LLAMA "\"max_position_embeddings\":2048,\"rope_scaling\":{" YARN_4 "}}",
     "rope_scaling.original_max_position_embeddings", "equals max_position_embeddings"},
    {LONG("\"type\":\"yarn\",\"factor\":4"), "max_position_embeddings",
     "equals max_position_embeddings"},
    {OLD("\"type\":\"dynamic\",\"alpha\":1000"), "rope_scaling.alpha", "one fixed base"},
    {OLD("\"type\":\"su\",\"original_max_position_embeddings\":9,\"attention_factor\":1,"
         "\"short_factor\":[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1],"
         "\"long_factor\":[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]"),
     "rope_scaling.type", "older name of longrope"},
    {OLD(YARN_4 ",\"rope_type\":\"linear\""), "rope_scaling.type", "programs that read it"},
    {OLD(YARN_4 ",\"rope_type\":\"yarn\""), NULL, NULL},
    {OLD(YARN_4 ",\"attn_factor\":0.5"), "rope_scaling", "the transformers library ignores"},
    {OLD(LLAMA3 "\"low_freq_factor\":1,\"high_freq_factor\":1"), "rope_scaling.high_freq_factor",
     "equals low_freq_factor"},
    {"{\"model_type\":\"gpt_oss\"," HEADS "\"num_hidden_layers\":4}", "sinks", "one learned logit"},
    {GEMMA4 "}", "layer_types", "which layers slide is not known"},
    {GEMMA4 ",\"use_bidirectional_attention\":\"vision\",\"layer_types\":[\"full_attention\"]}",
     "use_bidirectional_attention", "image see each other"},
};

Test(keys_schedules, known_traps_are_warned_of_and_nothing_else_is)
{
    static describe_report report;

    for (size_t i = 0; i < sizeof trap_rows / sizeof trap_rows[0]; i++) {
        const trap_row *row = &trap_rows[i];
        const describe_row *warning;

        cr_assert_eq(resolve(row->json, &report), RHUMB_OK, "%s: %s", row->json, report.message);
        warning = find_row(&report, "warning");
        cr_expect_eq(warning != NULL, row->trap != NULL, "%s: %s", row->json,
                     warning != NULL ? warning->source : "no warning");
        if (warning != NULL && row->trap != NULL) {
            cr_expect_str_eq(warning->value, row->key, "%s: %s", row->json, warning->value);
            cr_expect_not_null(strstr(warning->source, row->trap), "%s: %s", row->json,
                               warning->source);
        }
        describe_free(&report);
    }
}

/* --- memory --- */

static void append_list(char *json, size_t size, const char *name, uint32_t count)
{
    size_t used = strlen(json);

    used += (size_t)snprintf(json + used, size - used, ",\"%s\":[1.5", name);
    for (uint32_t i = 1; i < count; i++)
        used += (size_t)snprintf(json + used, size - used, ",%u.5", i);
    (void)snprintf(json + used, size - used, "]");
}

Test(keys_schedules, two_schedules_with_the_longest_lists_fit_in_the_documented_arena)
{
    static const char *const types[] = {"full_attention", "sliding_attention"};
    static char json[32768];
    static describe_report report;
    const rhumb_rope *rope[2];

    (void)snprintf(json, sizeof json,
                   "{\"model_type\":\"gemma3_text\",\"head_dim\":576,\"max_position_embeddings\":9,"
                   "\"rope_parameters\":{");
    for (int i = 0; i < 2; i++) {
        (void)snprintf(json + strlen(json), sizeof json - strlen(json),
                       "%s\"%s\":{\"rope_type\":\"longrope\",\"attention_factor\":1,"
                       "\"original_max_position_embeddings\":9",
                       i ? "," : "", types[i]);
        append_list(json, sizeof json, "short_factor", 288);
        append_list(json, sizeof json, "long_factor", 288);
        (void)strncat(json, "}", sizeof json - strlen(json) - 1);
    }
    (void)strncat(json, "}}", sizeof json - strlen(json) - 1);
    cr_assert_eq(resolve(json, &report), RHUMB_OK, "%s", report.message);
    cr_assert_eq(report.kind_count, 2);
    for (int i = 0; i < 2; i++) {
        rope[i] = report.kinds[i].rotary;
        cr_assert_eq(rope[i]->list_count, 288);
        cr_expect(rope[i]->short_factors[0] == 1.5 && rope[i]->short_factors[287] == 287.5 &&
                  rope[i]->long_factors[287] == 287.5);
        cr_expect((const unsigned char *)(rope[i]->long_factors + 288) <=
                  report.arena + sizeof report.arena);
    }
    cr_expect(rope[0]->long_factors + 288 <= (const double *)(const void *)rope[1],
              "the schedules overlap");
    describe_free(&report);
}
