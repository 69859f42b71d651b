/* The golden configurations, the comparison that judges them, and the reader of config.json. */
#define _POSIX_C_SOURCE 200809L /* mkdtemp */

#include "describe_model.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static void source_path(char *path, size_t size, const char *name)
{
    const char *root = getenv("RHUMB_TEST_SOURCE_ROOT");

    cr_assert_not_null(root, "RHUMB_TEST_SOURCE_ROOT is not set");
    (void)snprintf(path, size, "%s/tests/goldens/configs%s%s", root, *name != '\0' ? "/" : "",
                   name);
}

/* --- golden pairs --- */

static void count_pass(void *user, const char *name, describe_outcome outcome, const char *detail)
{
    unsigned *passed = user;

    cr_expect_eq(outcome, DESCRIBE_PASS, "%s: outcome %d: %s", name, (int)outcome, detail);
    *passed += outcome == DESCRIBE_PASS;
}

Test(configs, every_golden_configuration_resolves_to_its_expected_file)
{
    char dir[1024];
    char message[512] = "";
    unsigned passed = 0;
    int pairs;

    source_path(dir, sizeof dir, "");
    pairs = describe_compare_dir(dir, count_pass, &passed, message, sizeof message);
    cr_assert_eq(pairs, 50, "%d pairs: %s", pairs, message);
    cr_expect_eq(passed, 50, "passed %u", passed);
}

/* --- the comparison itself --- */

static char *read_text(const char *path)
{
    FILE *file = fopen(path, "rb");
    char *text = calloc(1, 65536);
    size_t size;

    cr_assert_not_null(file, "%s", path);
    cr_assert_not_null(text);
    size = fread(text, 1, 65535, file);
    cr_assert_gt(size, 0);
    (void)fclose(file);
    return text;
}

static void write_text(const char *path, const char *text)
{
    FILE *file = fopen(path, "wb");

    cr_assert_not_null(file, "%s", path);
    cr_assert_eq(fwrite(text, 1, strlen(text), file), strlen(text));
    cr_assert_eq(fclose(file), 0);
}

/* text with the first `from` replaced by `to`; the caller frees. */
static char *replaced(const char *text, const char *from, const char *to)
{
    const char *at = strstr(text, from);
    size_t size = strlen(text) + strlen(to) + 1;
    char *out = malloc(size);

    cr_assert_not_null(at, "no %s to perturb", from);
    cr_assert_not_null(out);
    (void)snprintf(out, size, "%.*s%s%s", (int)(at - text), text, to, at + strlen(from));
    return out;
}

typedef struct perturbation {
    const char *model;
    const char *from;
    const char *to;
    describe_outcome wanted;
    const char *phrase;
} perturbation;

#define GEMMA "gemma-2-2b-it"

static const perturbation perturbations[] = {
    /* objects and lists of schedules are compared to their depth */
    {"gemma-3-4b-it", "1.22174148756", "1.22184148756", DESCRIBE_FAIL,
     "layer_types.full_attention.inv_freq_sum"},
    {"phi-3.5-mini-instruct", "3.72056069674", "3.72066069674", DESCRIBE_FAIL, "long.inv_freq_sum"},
    {"deepseek-v3", "0.1352337788608801", "0.1352347788608801", DESCRIBE_FAIL, "softmax_scale"},
    {"gpt-oss-20b", "\"truncate\": false", "\"truncate\": true", DESCRIBE_FAIL, "truncate"},
    {"qwen2-vl-7b-instruct", "\"spatial_merge_size\": 2", "\"spatial_merge_size\": 3",
     DESCRIBE_FAIL, "vision.spatial_merge_size"},
    {GEMMA, "\"head_dim\": 256", "\"head_dim\": 256", DESCRIBE_PASS, ""},
    {GEMMA, "\"head_dim\": 256", "\"head_dim\": 255", DESCRIBE_FAIL,
     "head_dim: wanted 255, found 256"},
    {GEMMA, "\"half\"", "\"interleaved\"", DESCRIBE_FAIL,
     "layout: wanted \"interleaved\", found \"half\""},
    {GEMMA, "\"half\"", "1", DESCRIBE_FAIL, "layout: wanted 1, found \"half\""},
    {GEMMA, "14.4019788769", "14.4020788769", DESCRIBE_FAIL, "inv_freq_sum"},
    {GEMMA, "14.4019788769", "14.4019789769", DESCRIBE_PASS, ""},
    {GEMMA, "0.930572041", "0.930573041", DESCRIBE_FAIL, "inv_freq_first[1]"},
    {GEMMA, "0.000107460783", "0.000107460783, 1", DESCRIBE_FAIL,
     "inv_freq_last: wanted 5 items, found 4"},
    {GEMMA, "\"sliding_window\": 4096", "\"sliding_windows\": 4096", DESCRIBE_FAIL,
     "sliding_windows: missing"},
    {GEMMA, "\"sliding_window\": 4096,", "", DESCRIBE_FAIL,
     "sliding_window: not among the expected keys"},
    {GEMMA, "\"source\":", "\"form\": 7, \"source\":", DESCRIBE_PASS, ""},
    {GEMMA, "\"source\":", "\"heads\": 8, \"source\":", DESCRIBE_FAIL, "heads: wanted once"},
    {GEMMA, "\"kv_heads\": 4", "\"kv_heads\": null", DESCRIBE_FAIL,
     "kv_heads: wanted null, found 4"},
    /* samples and sizes of other positions */
    {"t5-base", "  24,\n", "  23,\n", DESCRIBE_FAIL, "encoder_bidirectional_buckets[12]"},
    {"t5-base", "\"scale\": 1.0", "\"scale\": 0.125", DESCRIBE_FAIL,
     "scale: wanted 0.125, found 1"},
    {"bloom-560m", "0.00390624884", "0.00390724884", DESCRIBE_FAIL, "slopes[15]"},
    {"deberta-v3-base", "\"c2p\"", "\"p2p\"", DESCRIBE_FAIL, "terms[1]: wanted \"p2p\""},
    {"swin-tiny-patch4-window7-224", "\"table_rows\": 169", "\"table_rows\": 225", DESCRIBE_FAIL,
     "table_rows: wanted 225, found 169"},
    {"swinv2-tiny-patch4-window8-256", "15,\n  15", "15,\n  17", DESCRIBE_FAIL, "coords_table[1]"},
    {"vit-base-patch16-224", "\"causal\": false", "\"causal\": true", DESCRIBE_FAIL, "causal"},
    {"detr-resnet-50", "\"y\"", "\"x\"", DESCRIBE_FAIL, "order[0]"},
    /* whole numbers have no tolerance, however large */
    {"codellama-7b", "\"rope_theta\": 1000000", "\"rope_theta\": 1000001", DESCRIBE_FAIL,
     "rope_theta: wanted 1000001, found 1000000"},
};

static void check_perturbation(const perturbation *row, const char *scratch)
{
    char config[1024];
    char expected[1024];
    char name[64];
    char detail[512];
    char *text;
    char *changed;
    describe_outcome outcome;

    (void)snprintf(name, sizeof name, "%s.json", row->model);
    source_path(config, sizeof config, name);
    (void)snprintf(name, sizeof name, "%s.expected.json", row->model);
    source_path(expected, sizeof expected, name);
    text = read_text(expected);
    changed = replaced(text, row->from, row->to);
    write_text(scratch, changed);
    outcome = describe_compare_pair(config, scratch, detail, sizeof detail);
    cr_expect_eq(outcome, row->wanted, "%s -> %s: outcome %d: %s", row->from, row->to, (int)outcome,
                 detail);
    cr_expect_not_null(strstr(detail, row->phrase), "%s -> %s: wanted \"%s\", found \"%s\"",
                       row->from, row->to, row->phrase, detail);
    free(changed);
    free(text);
}

Test(configs, a_perturbed_expected_file_fails_and_names_the_key)
{
    char dir[] = "/tmp/rhumb-configs-XXXXXX";
    char path[64];

    cr_assert_not_null(mkdtemp(dir));
    (void)snprintf(path, sizeof path, "%s/expected.json", dir);
    for (size_t i = 0; i < sizeof perturbations / sizeof perturbations[0]; i++)
        check_perturbation(&perturbations[i], path);
    cr_expect_eq(unlink(path), 0);
    cr_expect_eq(rmdir(dir), 0);
}

static void keep_outcome(void *user, const char *name, describe_outcome outcome, const char *detail)
{
    char *seen = user;

    (void)snprintf(seen + strlen(seen), 512 - strlen(seen), "%s %d %s;", name, (int)outcome,
                   detail);
}

Test(configs, files_without_their_partner_fail_and_an_empty_folder_is_an_error)
{
    char dir[] = "/tmp/rhumb-configs-XXXXXX";
    char path[2][64];
    char seen[512] = "";
    char message[256] = "";

    cr_assert_not_null(mkdtemp(dir));
    cr_expect_eq(describe_compare_dir(dir, keep_outcome, seen, message, sizeof message), -1);
    cr_expect_not_null(strstr(message, "found no such pair"), "%s", message);
    (void)snprintf(path[0], sizeof path[0], "%s/a.json", dir);
    (void)snprintf(path[1], sizeof path[1], "%s/b.expected.json", dir);
    write_text(path[0], "{}");
    write_text(path[1], "{}");
    cr_expect_eq(describe_compare_dir(dir, keep_outcome, seen, message, sizeof message), -1);
    cr_expect_str_eq(seen, "a 1 its .expected.json file is missing;b 1 its .json file is missing;");
    cr_expect_eq(unlink(path[0]) + unlink(path[1]) + rmdir(dir), 0);
    cr_expect_eq(describe_compare_dir(dir, keep_outcome, seen, message, sizeof message), -1);
    cr_expect_not_null(strstr(message, "wanted a folder"), "%s", message);
}

/* --- the reader --- */

Test(configs, the_reader_flattens_objects_and_keeps_lists)
{
    static const char json[] =
        "{\"a\":{\"b\":{\"c\":-1.5e3}},\"l\":[1,\"x\",null,true,[2],{\"o\":1}],\"e\":{},"
        "\"t\":true,\"f\":false,\"n\":null,\"x.y\":{\"z\\\\\":\"s\"},\"empty\":[],"
        "\"no NUL\":\"\\\\u0000\"}";
    rhumb_model_config config;
    char message[128];
    const rhumb_key *k;

    cr_assert_eq(rhumb_model_parse_config(json, strlen(json), &config, message, sizeof message),
                 RHUMB_OK, "%s", message);
    cr_assert_eq(config.key_count, 8);
    k = config.keys;
    cr_expect_str_eq(k[0].path, "a.b.c");
    cr_expect(k[0].kind == RHUMB_VALUE_NUMBER && k[0].number == -1500.0);
    cr_expect_str_eq(k[1].path, "l");
    cr_assert(k[1].kind == RHUMB_VALUE_LIST && k[1].count == 6);
    cr_expect(k[1].items[0].kind == RHUMB_VALUE_NUMBER && k[1].items[0].number == 1.0 &&
              !k[1].items[0].path);
    cr_expect(k[1].items[1].kind == RHUMB_VALUE_STRING && strcmp(k[1].items[1].string, "x") == 0);
    cr_expect(k[1].items[2].kind == RHUMB_VALUE_NULL && k[1].items[3].kind == RHUMB_VALUE_BOOL);
    cr_assert(k[1].items[4].kind == RHUMB_VALUE_LIST && k[1].items[4].count == 1);
    cr_expect_eq(k[1].items[4].items[0].number, 2.0);
    cr_expect_eq(k[1].items[5].kind, RHUMB_VALUE_NULL);
    cr_expect(k[2].kind == RHUMB_VALUE_BOOL && k[2].number == 1.0 && k[3].number == 0.0);
    cr_expect_eq(k[4].kind, RHUMB_VALUE_NULL);
    cr_expect_str_eq(k[5].path, "x\\.y.z\\\\");
    cr_expect_str_eq(k[5].string, "s");
    cr_expect(k[6].kind == RHUMB_VALUE_LIST && k[6].count == 0);
    cr_expect_str_eq(k[7].string, "\\u0000");
    rhumb_model_free_config(&config);
    cr_expect_eq(config.key_count, 0);
    rhumb_model_free_config(&config);
    rhumb_model_free_config(NULL);
}

Test(configs, the_reader_refuses_files_that_are_missing_folders_or_too_long)
{
    rhumb_model_config config;
    char message[256];
    char *big = malloc(RHUMB_MODEL_MAX_BYTES + 1);

    cr_assert_not_null(big);
    memset(big, ' ', RHUMB_MODEL_MAX_BYTES + 1);
    big[0] = '{';
    big[1] = '}';
    cr_expect_eq(
        rhumb_model_parse_config(big, RHUMB_MODEL_MAX_BYTES, &config, message, sizeof message),
        RHUMB_OK);
    rhumb_model_free_config(&config);
    cr_expect_eq(
        rhumb_model_parse_config(big, RHUMB_MODEL_MAX_BYTES + 1, &config, message, sizeof message),
        RHUMB_ERROR_CONFIG);
    cr_expect_not_null(strstr(message, "wanted at most 4194304 bytes"), "%s", message);
    free(big);
    cr_expect_eq(
        rhumb_model_read_config("/nonexistent/config.json", &config, message, sizeof message),
        RHUMB_ERROR_CONFIG);
    cr_expect_not_null(strstr(message, "/nonexistent/config.json: wanted a readable file"), "%s",
                       message);
    cr_expect_eq(rhumb_model_read_config("/tmp", &config, message, sizeof message),
                 RHUMB_ERROR_CONFIG);
    cr_expect_not_null(strstr(message, "/tmp: wanted a readable file"), "%s", message);
    cr_expect_eq(rhumb_model_read_config(NULL, &config, NULL, 0), RHUMB_ERROR_ARGUMENT);
    cr_expect_eq(rhumb_model_parse_config(NULL, 0, &config, NULL, 0), RHUMB_ERROR_ARGUMENT);
    cr_expect_eq(rhumb_model_parse_config("{}", 2, NULL, NULL, 0), RHUMB_ERROR_ARGUMENT);
}
