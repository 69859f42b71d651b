/* The built `rhumb describe` as a user runs it: output, messages and exit status. */
#define _POSIX_C_SOURCE 200809L /* fork, mkstemp */

#include <cjson/cJSON.h>
#include <criterion/criterion.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define OUTPUT_BYTES 65536u

typedef struct outcome {
    int status; /* exit status, or -1 */
    char out[OUTPUT_BYTES];
    char err[OUTPUT_BYTES];
} outcome;

static const char *root_of(const char *variable)
{
    const char *root = getenv(variable);

    cr_assert_not_null(root, "%s is not set", variable);
    return root;
}

static void config_path(char *path, size_t size, const char *name)
{
    (void)snprintf(path, size, "%s/tests/goldens/configs/%s", root_of("RHUMB_TEST_SOURCE_ROOT"),
                   name);
}

static void read_back(FILE *file, char *text)
{
    size_t size;

    rewind(file);
    size = fread(text, 1, OUTPUT_BYTES - 1, file);
    text[size] = '\0';
    (void)fclose(file);
}

/* Runs `rhumb describe` with up to three arguments (NULL ends them). */
static void run(outcome *o, const char *a, const char *b, const char *c)
{
    char program[1024];
    char *arguments[] = {program,
                         (char *)"describe",
                         (char *)(uintptr_t)a,
                         (char *)(uintptr_t)b,
                         (char *)(uintptr_t)c,
                         NULL};
    FILE *out = tmpfile();
    FILE *err = tmpfile();
    int status = 0;
    pid_t child;

    (void)snprintf(program, sizeof program, "%s/tools/rhumb", root_of("RHUMB_TEST_BUILD_ROOT"));
    cr_assert(out != NULL && err != NULL);
    child = fork();
    cr_assert_geq(child, 0);
    if (child == 0) {
        if (dup2(fileno(out), 1) < 0 || dup2(fileno(err), 2) < 0)
            _exit(126);
        (void)execv(program, arguments);
        _exit(127);
    }
    cr_assert_eq(waitpid(child, &status, 0), child);
    o->status = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    cr_assert_neq(o->status, 127, "%s could not be run", program);
    read_back(out, o->out);
    read_back(err, o->err);
}

static double number(const cJSON *object, const char *name)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, name);

    cr_assert(cJSON_IsNumber(item), "%s is no number", name);
    return item->valuedouble;
}

static const char *text(const cJSON *object, const char *name)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, name);

    cr_assert(cJSON_IsString(item), "%s is no string", name);
    return item->valuestring;
}

static void expect_close(const char *what, double found, double wanted)
{
    cr_expect(fabs(found - wanted) <= 1e-6 * fabs(wanted), "%s: wanted %.17g, found %.17g", what,
              wanted, found);
}

static void compare_item(const char *name, const cJSON *wanted, const cJSON *found);

/* Of layer_pattern the expected files have the first twelve layers, of layer_kinds nothing. */
static void compare_members(const cJSON *wanted, const cJSON *found)
{
    const cJSON *item;
    int keys = 0;

    cJSON_ArrayForEach(item, wanted)
    {
        const cJSON *other = cJSON_GetObjectItemCaseSensitive(found, item->string);
        if (strcmp(item->string, "source") == 0 || strcmp(item->string, "note") == 0 ||
            strcmp(item->string, "form") == 0 || strcmp(item->string, "bias_layers") == 0)
            continue;
        keys++;
        if (strcmp(item->string, "layer_pattern") != 0) {
            compare_item(item->string, item, other);
            continue;
        }
        for (int i = 0; i < cJSON_GetArraySize(item); i++)
            compare_item(item->string, cJSON_GetArrayItem(item, i), cJSON_GetArrayItem(other, i));
    }
    keys += cJSON_HasObjectItem(found, "layer_pattern") &&
            !cJSON_HasObjectItem(wanted, "layer_pattern");
    keys += cJSON_HasObjectItem(found, "layer_kinds");
    cr_expect_eq(cJSON_GetArraySize(found), keys, "%d keys, wanted %d", cJSON_GetArraySize(found),
                 keys);
}

/* The expected file, key by key, in code of the test's own. */
static void compare_item(const char *name, const cJSON *wanted, const cJSON *found)
{
    cr_assert_not_null(found, "%s is missing", name);
    if (cJSON_IsObject(wanted)) {
        cr_assert(cJSON_IsObject(found), "%s", name);
        compare_members(wanted, found);
        return;
    }
    if (cJSON_IsBool(wanted)) {
        cr_expect(cJSON_IsBool(found) && cJSON_IsTrue(found) == cJSON_IsTrue(wanted), "%s", name);
        return;
    }
    if (cJSON_IsString(wanted)) {
        cr_expect(cJSON_IsString(found) && strcmp(found->valuestring, wanted->valuestring) == 0,
                  "%s", name);
        return;
    }
    if (cJSON_IsArray(wanted)) {
        cr_assert_eq(cJSON_GetArraySize(found), cJSON_GetArraySize(wanted), "%s", name);
        for (int i = 0; i < cJSON_GetArraySize(wanted); i++)
            compare_item(name, cJSON_GetArrayItem(wanted, i), cJSON_GetArrayItem(found, i));
        return;
    }
    cr_assert(cJSON_IsNumber(wanted) && cJSON_IsNumber(found), "%s", name);
    expect_close(name, found->valuedouble, wanted->valuedouble);
}

static cJSON *read_json(const char *path)
{
    char *content = calloc(1, OUTPUT_BYTES);
    FILE *file = fopen(path, "rb");
    cJSON *object;

    cr_assert_not_null(content);
    cr_assert_not_null(file, "%s", path);
    read_back(file, content);
    object = cJSON_Parse(content);
    cr_assert_not_null(object, "%s", path);
    free(content);
    return object;
}

/* stderr has one line a trap, and nothing else. */
static void check_golden(const char *model, int traps)
{
    static outcome o;
    char name[128];
    char path[1024];
    cJSON *wanted;
    cJSON *found;
    const char *line;

    (void)snprintf(name, sizeof name, "%s.json", model);
    config_path(path, sizeof path, name);
    run(&o, path, "--json", NULL);
    cr_expect_eq(o.status, 0, "%s: status %d: %s", model, o.status, o.err);
    for (line = o.err; strncmp(line, "rhumb describe: warning: ", 25) == 0; traps--)
        line = strchr(line, '\n') + 1;
    cr_expect(*line == '\0' && traps == 0, "%s: %d too few in: %s", model, traps, o.err);
    found = cJSON_Parse(o.out);
    cr_assert_not_null(found, "%s: no JSON: %s", model, o.out);
    (void)snprintf(name, sizeof name, "%s.expected.json", model);
    config_path(path, sizeof path, name);
    wanted = read_json(path);
    compare_members(wanted, found);
    cJSON_Delete(wanted);
    cJSON_Delete(found);
}

Test(describe, json_of_golden_configurations_has_the_expected_keys_and_values)
{
    static const struct {
        const char *model;
        int traps;
    } rows[] = {
        {"llama-2-7b", 0},       {"gpt-j-6b", 0},
        {"gpt-neox-20b", 0},     {"gemma-2-2b-it", 0},
        {"falcon-7b", 0},        {"chatglm3-6b", 0},
        {"mistral-7b-v0.1", 0},  {"phi-3-mini-4k-instruct", 0},
        {"gemma-3-4b-it", 0},    {"modernbert-base", 0},
        {"gpt-oss-20b", 1},      {"deepseek-v2-lite", 0},
        {"smollm3-3b", 0},       {"qwen2.5-7b-instruct-yarn", 1},
        {"gemma-4-e2b", 1},      {"phi-3.5-mini-instruct", 0},
        {"llama-3.1-8b", 0},     {"llama-4-scout-text", 3},
        {"qwen3.5-35b-a3b", 0},  {"qwen2-vl-7b-instruct", 0},
        {"dinov3-vits16", 0},    {"pixtral-12b-vision", 0},
        {"t5-base", 3},          {"mt5-small", 3},
        {"bloom-560m", 1},       {"mpt-7b", 0},
        {"deberta-v3-base", 2},  {"xlnet-base-cased", 0},
        {"bert-base-uncased", 0}, {"gpt2", 0},
        {"vit-base-patch16-224", 0}, {"deit-base-distilled-patch16-224", 0},
        {"detr-resnet-50", 2},   {"swin-tiny-patch4-window7-224", 0},
        {"swinv2-tiny-patch4-window8-256", 1},
    };

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        check_golden(rows[i].model, rows[i].traps);
}

Test(describe, json_names_the_factor_of_linear_scaling_and_few_pairs_are_all_listed)
{
    static outcome o;
    char path[] = "/tmp/rhumb-describe-XXXXXX";
    static const char config[] =
        "{\"model_type\":\"phi\",\"hidden_size\":96,\"num_attention_heads\":4,"
        "\"partial_rotary_factor\":0.25,\"rope_scaling\":{\"type\":\"linear\",\"factor\":4}}";
    const cJSON *list;
    cJSON *found;
    int file = mkstemp(path);

    cr_assert_geq(file, 0);
    cr_assert_eq(write(file, config, sizeof config - 1), (ssize_t)sizeof config - 1);
    (void)close(file);
    run(&o, "--json", path, NULL);
    (void)unlink(path);
    cr_assert_eq(o.status, 0, "%s", o.err);
    found = cJSON_Parse(o.out);
    cr_assert_not_null(found);
    cr_expect_str_eq(text(found, "scheme"), "rope");
    cr_expect_str_eq(text(found, "rope_type"), "linear");
    cr_expect_eq(number(found, "factor"), 4.0);
    cr_expect_eq(number(found, "rotary_dim"), 6.0);
    cr_expect_eq(number(found, "inv_freq_count"), 3.0);
    list = cJSON_GetObjectItemCaseSensitive(found, "inv_freq_first");
    cr_assert_eq(cJSON_GetArraySize(list), 3);
    expect_close("inv_freq_first[0]", cJSON_GetArrayItem(list, 0)->valuedouble, 0.25);
    expect_close("inv_freq_first[1]", cJSON_GetArrayItem(list, 1)->valuedouble, 0.0116039721);
    list = cJSON_GetObjectItemCaseSensitive(found, "inv_freq_last");
    cr_assert_eq(cJSON_GetArraySize(list), 3);
    expect_close("inv_freq_last[2]", cJSON_GetArrayItem(list, 2)->valuedouble, 0.000538608673);
    expect_close("inv_freq_sum", number(found, "inv_freq_sum"), 0.2621425808);
    cr_expect_null(cJSON_GetObjectItemCaseSensitive(found, "sliding_window"));
    cJSON_Delete(found);
}

static cJSON *run_json(const char *name)
{
    static outcome o;
    char path[1024];
    cJSON *found;

    config_path(path, sizeof path, name);
    run(&o, path, "--json", NULL);
    cr_assert_eq(o.status, 0, "%s", o.err);
    found = cJSON_Parse(o.out);
    cr_assert_not_null(found, "%s", o.out);
    return found;
}

static bool is_null(const cJSON *object, const char *name)
{
    return cJSON_IsNull(cJSON_GetObjectItemCaseSensitive(object, name));
}

Test(describe, json_lists_every_kind_of_layer)
{
    cJSON *found = run_json("gemma-2-2b-it.json");
    const cJSON *list = cJSON_GetObjectItemCaseSensitive(found, "layer_kinds");
    const cJSON *kind;

    cr_assert_eq(cJSON_GetArraySize(list), 2);
    cJSON_ArrayForEach(kind, list)
    {
        cr_expect(cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(kind, "causal")));
        cr_expect_eq(number(kind, "attn_logit_softcapping"), 50.0);
        cr_expect_eq(number(kind, "softmax_scale"), 0.0625);
        cr_expect_eq(number(kind, "heads"), 8.0);
        cr_expect_eq(number(kind, "kv_heads"), 4.0);
        cr_expect_eq(number(kind, "head_dim"), 256.0);
        cr_expect_not(cJSON_HasObjectItem(kind, "rope_theta"), "it does not differ");
    }
    kind = cJSON_GetArrayItem(list, 0);
    cr_expect_str_eq(text(kind, "name"), "full_attention");
    cr_expect(is_null(kind, "sliding_window"));
    kind = cJSON_GetArrayItem(list, 1);
    cr_expect_str_eq(text(kind, "name"), "sliding_attention");
    cr_expect_eq(number(kind, "sliding_window"), 4096.0);
    cJSON_Delete(found);
}

Test(describe, json_of_a_kind_has_the_rotary_values_that_differ)
{
    cJSON *found = run_json("gemma-3-4b-it.json");
    const cJSON *list = cJSON_GetObjectItemCaseSensitive(found, "layer_kinds");
    const cJSON *full = cJSON_GetArrayItem(list, 0);
    const cJSON *sliding = cJSON_GetArrayItem(list, 1);

    cr_assert_eq(cJSON_GetArraySize(list), 2);
    cr_expect_eq(number(full, "rope_theta"), 1e6);
    cr_expect_eq(number(full, "factor"), 8.0);
    cr_expect_str_eq(text(full, "rope_type"), "linear");
    cr_expect(is_null(full, "attn_logit_softcapping"));
    cr_expect_eq(number(sliding, "rope_theta"), 1e4);
    cr_expect(is_null(sliding, "factor"));
    cr_expect_str_eq(text(sliding, "rope_type"), "default");
    cJSON_Delete(found);
}

Test(describe, json_has_a_kind_for_encoder_and_decoder_and_for_stages_and_shifts)
{
    cJSON *found = run_json("t5-base.json");
    const cJSON *list = cJSON_GetObjectItemCaseSensitive(found, "layer_kinds");
    const cJSON *kind = cJSON_GetArrayItem(list, 1);

    cr_assert_eq(cJSON_GetArraySize(list), 2);
    cr_expect_str_eq(text(cJSON_GetArrayItem(list, 0), "name"), "encoder");
    cr_expect_str_eq(text(kind, "name"), "decoder");
    cr_expect(cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(kind, "causal")));
    cr_expect_eq(number(kind, "softmax_scale"), 1.0);
    cJSON_Delete(found);
    found = run_json("swin-tiny-patch4-window7-224.json");
    list = cJSON_GetObjectItemCaseSensitive(found, "layer_kinds");
    cr_assert_eq(cJSON_GetArraySize(list), 7, "the last stage has no shifted layers");
    kind = cJSON_GetArrayItem(list, 5);
    cr_expect_str_eq(text(kind, "name"), "stage 3 shifted");
    cr_expect_eq(number(kind, "heads"), 12.0);
    list = cJSON_GetObjectItemCaseSensitive(kind, "shift");
    cr_assert_eq(cJSON_GetArraySize(list), 2);
    cr_expect_eq(cJSON_GetArrayItem(list, 0)->valuedouble, 3.0);
    list = cJSON_GetObjectItemCaseSensitive(found, "layer_pattern");
    cr_assert_eq(cJSON_GetArraySize(list), 12);
    cr_expect_str_eq(cJSON_GetArrayItem(list, 4)->valuestring, "stage 3");
    cr_expect_str_eq(cJSON_GetArrayItem(list, 9)->valuestring, "stage 3 shifted");
    cr_expect_str_eq(cJSON_GetArrayItem(list, 11)->valuestring, "stage 4");
    cJSON_Delete(found);
}

Test(describe, the_table_names_slopes_and_traps_go_to_stderr)
{
    static outcome o;
    char path[1024];

    config_path(path, sizeof path, "bloom-560m.json");
    run(&o, path, NULL, NULL);
    cr_expect_eq(o.status, 0);
    cr_expect_not_null(strstr(o.out, "key_index"), "%s", o.out);
    cr_expect_not_null(strstr(o.out, "rule of bloom"), "%s", o.out);
    cr_expect_not_null(strstr(o.err, "warning: model_type: the bias is slope times"), "%s", o.err);
}

Test(describe, numbers_are_printed_in_full)
{
    static outcome o;
    char path[1024];

    config_path(path, sizeof path, "qwen2-vl-7b-instruct.json");
    run(&o, path, NULL, NULL);
    cr_expect_eq(o.status, 0);
    cr_expect_not_null(strstr(o.out, " 1000000 "), "%s", o.out);
    cr_expect_null(strstr(o.out, "1e+06"), "%s", o.out);
}

Test(describe, the_table_has_a_line_a_value_with_its_source)
{
    static outcome o;
    static const char *const wanted[] = {"layer kind",
                                         "num_key_value_heads",
                                         "default of llama",
                                         "softmax_scale",
                                         "hidden_size / num_attention_heads",
                                         "rule: head_dim^-1/2"};
    char path[1024];

    config_path(path, sizeof path, "llama-2-7b.json");
    run(&o, path, NULL, NULL);
    cr_expect_eq(o.status, 0);
    cr_expect_str_empty(o.err);
    for (size_t i = 0; i < sizeof wanted / sizeof wanted[0]; i++)
        cr_expect_not_null(strstr(o.out, wanted[i]), "no \"%s\" in:\n%s", wanted[i], o.out);
}

static void expect_error(const outcome *o, int status, const char *phrase)
{
    const char *end = strchr(o->err, '\n');

    cr_expect_eq(o->status, status, "%s: status %d", phrase, o->status);
    cr_expect_str_empty(o->out, "%s: on stdout: %s", phrase, o->out);
    cr_expect_not_null(strstr(o->err, phrase), "wanted \"%s\", found \"%s\"", phrase, o->err);
    cr_expect_eq(strncmp(o->err, "rhumb describe: ", 16), 0, "%s", o->err);
    if (status == 1)
        cr_expect(end != NULL && end[1] == '\0', "more than one line: %s", o->err);
}

Test(describe, refused_configurations_exit_with_1_and_one_line)
{
    static outcome o;
    char path[] = "/tmp/rhumb-describe-XXXXXX";
    int file = mkstemp(path);

    cr_assert_geq(file, 0);
    cr_assert_eq(write(file, "{\"model_type\":\"llama\"}", 22), 22);
    (void)close(file);
    run(&o, path, NULL, NULL);
    expect_error(&o, 1, "num_attention_heads: missing, needed by llama");
    run(&o, path, "--json", NULL);
    expect_error(&o, 1, "num_attention_heads: missing, needed by llama");
    (void)unlink(path);
    run(&o, path, NULL, NULL);
    expect_error(&o, 1, "wanted a readable file");
}

Test(describe, wrong_arguments_exit_with_2)
{
    static outcome o;
    char path[1024];

    config_path(path, sizeof path, "llama-2-7b.json");
    run(&o, NULL, NULL, NULL);
    expect_error(&o, 2, "wanted a configuration file");
    run(&o, path, "--jsn", NULL);
    expect_error(&o, 2, "--jsn");
    run(&o, path, path, NULL);
    expect_error(&o, 2, "llama-2-7b.json");
    run(&o, "--help", NULL, NULL);
    cr_expect_eq(o.status, 0);
    cr_expect_not_null(strstr(o.out, "usage: rhumb describe"));
    cr_expect_not_null(strstr(o.out, "layer_kinds"));
}
