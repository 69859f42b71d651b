/* Parameters of schemes as JSON, and `rhumb run --scheme` on the golden files themselves. */
#define _POSIX_C_SOURCE 200809L /* mkdtemp, setenv */

#include "command.h"
#include "scheme_json.h"
#include "run_plan.h"
#include "safetensors.h"

#include <criterion/criterion.h>

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static char *read_text(const char *name)
{
    char path[1024];
    char *text;
    long size;

    snprintf(path, sizeof path, "%s/%s", command_source_root(), name);
    FILE *file = fopen(path, "rb");
    cr_assert_not_null(file, "%s", path);
    cr_assert_eq(fseek(file, 0, SEEK_END), 0);
    size = ftell(file);
    rewind(file);
    text = calloc(1, (size_t)size + 1);
    cr_assert_not_null(text);
    cr_assert_eq(fread(text, 1, (size_t)size, file), (size_t)size);
    fclose(file);
    return text;
}

/* ----------------------------------------------------------------------------------------------
 * Round trips
 */
static void expect_same_json(const cJSON *a, const cJSON *b, const char *scheme)
{
    char *first = cJSON_PrintUnformatted(a), *second = cJSON_PrintUnformatted(b);

    cr_expect(strcmp(first, second) == 0, "%s: wanted %s, got %s", scheme, first, second);
    cJSON_free(first);
    cJSON_free(second);
}

static void *read_object(const scheme_entry *entry, const cJSON *object)
{
    tensor_error error = {.line = ""};
    void *scheme = scheme_new(entry);

    cr_assert_not_null(scheme);
    cr_assert(scheme_read(entry, object, scheme, &error), "%s: %s", entry->name, error.line);
    return scheme;
}

Test(scheme_json, defaults_are_those_of_the_init_functions_and_come_back)
{
    size_t count;
    const scheme_entry *entries = scheme_entries(&count);

    cr_assert_geq(count, 18);
    for (size_t i = 0; i < count; i++) {
        void *scheme = scheme_new(&entries[i]);
        cJSON *object = scheme_write(&entries[i], scheme);
        void *again = read_object(&entries[i], object);
        cr_expect_eq(((rhumb_header *)scheme)->type, entries[i].type);
        cr_expect_eq(((rhumb_header *)scheme)->struct_size, entries[i].size);
        cr_expect_eq(memcmp(scheme, again, entries[i].size), 0, "%s", entries[i].name);
        cJSON_Delete(object);
        scheme_free(&entries[i], scheme);
        scheme_free(&entries[i], again);
    }
}

static cJSON *other_values(const scheme_entry *entry);

/* No default of the field's kind, and other numbers for every field. */
static cJSON *other_value(const scheme_field *field, const void *plain, int i)
{
    uint32_t value;
    const double list[] = {0.1 + i, 1.0 / 3.0, 7e-5};
    const int naturals[] = {101 + i, 202 + i, 303 + i, 404 + i};

    switch (field->kind) {
    case SCHEME_U32:
        return cJSON_CreateNumber(1001 + i);
    case SCHEME_I32:
        return cJSON_CreateNumber(-1001 - i);
    case SCHEME_F64:
        return cJSON_CreateNumber(0.1 + i / 7.0);
    case SCHEME_ENUM:
        memcpy(&value, (const char *)plain + field->offset, sizeof value);
        return cJSON_CreateString(field->values->names[(value + 1) % field->values->count]);
    case SCHEME_LIST:
        return cJSON_CreateDoubleArray(list, 3);
    case SCHEME_STRUCT:
        return other_values(scheme_find(field->name));
    case SCHEME_F64X2:
        return cJSON_CreateDoubleArray(list, 2);
    default:
        return cJSON_CreateIntArray(naturals, field->kind == SCHEME_U32X4 ? 4 : 2);
    }
}

static cJSON *other_values(const scheme_entry *entry)
{
    size_t count;
    const scheme_field *fields = entry->fields(&count);
    cJSON *object = cJSON_CreateObject();
    void *plain = scheme_new(entry);

    for (size_t i = 0; i < count; i++)
        cJSON_AddItemToObject(object, fields[i].name, other_value(&fields[i], plain, (int)i));
    scheme_free(entry, plain);
    return object;
}

static size_t size_of(scheme_field_kind kind)
{
    switch (kind) {
    case SCHEME_F64:
    case SCHEME_U32X2:
        return 8;
    case SCHEME_LIST:
    case SCHEME_STRUCT:
        return sizeof(void *);
    case SCHEME_U32X4:
    case SCHEME_F64X2:
        return 16;
    default:
        return 4;
    }
}

Test(scheme_json, every_field_set_comes_back)
{
    size_t count, field_count;
    const scheme_entry *entries = scheme_entries(&count);

    for (size_t i = 0; i < count; i++) {
        const scheme_field *fields = entries[i].fields(&field_count);
        cJSON *object = other_values(&entries[i]);
        void *plain = scheme_new(&entries[i]);
        void *scheme = read_object(&entries[i], object);
        cJSON *again = scheme_write(&entries[i], scheme);
        expect_same_json(object, again, entries[i].name);
        for (size_t k = 0; k < field_count; k++)
            cr_expect(memcmp((char *)plain + fields[k].offset, (char *)scheme + fields[k].offset,
                             size_of(fields[k].kind)) != 0,
                      "%s.%s was not written", entries[i].name, fields[k].name);
        cJSON_Delete(object);
        cJSON_Delete(again);
        scheme_free(&entries[i], plain);
        scheme_free(&entries[i], scheme);
    }
}

Test(scheme_json, fields_and_header_and_padding_are_the_whole_struct)
{
    size_t count, field_count;
    const scheme_entry *entries = scheme_entries(&count);

    for (size_t i = 0; i < count; i++) {
        const scheme_field *fields = entries[i].fields(&field_count);
        size_t size = sizeof(rhumb_header);
        bool lists = false;
        cr_expect_leq(field_count, 36, "%s", entries[i].name); /* 64 bits with those of rope */
        for (size_t k = 0; k < field_count; k++) {
            size += size_of(fields[k].kind);
            lists = lists || fields[k].kind == SCHEME_LIST;
        }
        size += lists ? sizeof(uint32_t) : 0;
        cr_expect(entries[i].size == size || entries[i].size == size + sizeof(uint32_t),
                  "%s has %zu bytes, its fields %zu", entries[i].name, entries[i].size, size);
    }
}

static void *read_params(const char *scheme, const char *params)
{
    cJSON *object = cJSON_Parse(params);
    void *read;

    cr_assert_not_null(object, "%s", params);
    read = read_object(scheme_find(scheme), object);
    cJSON_Delete(object);
    return read;
}

Test(scheme_json, members_are_where_the_struct_has_them)
{
    rhumb_rope *rope = read_params(
        "rope", "{\"pairing\": \"interleaved\", \"scaling\": \"longrope\", \"truncate\": false, "
                "\"base\": 5e5, \"short_factors\": [1, 2.5], \"long_factors\": [4, 8]}");
    rhumb_mrope *mrope = read_params(
        "mrope", "{\"rope\": {\"base\": 1e6}, \"order\": \"interleaved\", \"sections\": [3, 4, 5]}");
    rhumb_swin *swin = read_params("swin", "{\"window\": [7, 5], \"padding\": \"shift_then_pad\", "
                                           "\"mask_value\": -200, \"prefix_tokens\": true}");
    rhumb_xpos *xpos = read_params("xpos", "{\"centre\": -7, \"gamma\": null}");

    cr_expect(rope->pairing == RHUMB_PAIRING_INTERLEAVED && rope->truncate == 0 &&
              rope->scaling == RHUMB_ROPE_SCALING_LONGROPE && rope->base == 5e5);
    cr_expect(rope->list_count == 2 && rope->short_factors[1] == 2.5 && rope->long_factors[0] == 4);
    cr_expect(rope->frequencies == NULL && rope->divisors == NULL);
    cr_expect(mrope->rope != NULL && mrope->rope->base == 1e6 &&
              mrope->rope->pairing == RHUMB_PAIRING_HALF);
    cr_expect(mrope->sections[0] == 3 && mrope->sections[2] == 5 && mrope->sections[3] == 0);
    cr_expect(swin->window[0] == 7 && swin->window[1] == 5 && swin->mask_value == -200.0 &&
              swin->padding == RHUMB_WINDOW_SHIFT_THEN_PAD && swin->prefix_tokens == 1);
    cr_expect(xpos->centre == -7 && xpos->gamma == 0.4);
    scheme_free(scheme_find("rope"), rope);
    scheme_free(scheme_find("mrope"), mrope);
    scheme_free(scheme_find("swin"), swin);
    scheme_free(scheme_find("xpos"), xpos);
}

/* ----------------------------------------------------------------------------------------------
 * Names
 */

/* A copy without comments. */
static char *without_comments(const char *text)
{
    char *plain = calloc(1, strlen(text) + 1);
    size_t length = 0;

    cr_assert_not_null(plain);
    while (*text != '\0') {
        if (strncmp(text, "/*", 2) == 0)
            text = strstr(text, "*/") + 2;
        else
            plain[length++] = *text++;
    }
    return plain;
}

/* The constants of `typedef enum TYPE { ... }` in their order, each "NAME = VALUE". */
static void expect_constants(const char *body, const scheme_enum *e)
{
    const char *end = strchr(body, '}');
    size_t count = 0;

    for (const char *p = body; (p = strstr(p, "RHUMB_")) != NULL && p < end; count++) {
        char constant[80], wanted[80];
        long value;
        cr_assert_eq(sscanf(p, "%79[A-Z0-9_] = %ld", constant, &value), 2, "%s: %.40s", e->type, p);
        p += strlen(constant);
        cr_expect_eq(value, (long)count, "%s: %s", e->type, constant);
        cr_assert(count < e->count, "%s: no string for %s", e->type, constant);
        snprintf(wanted, sizeof wanted, "_%s", e->names[count]);
        for (char *c = wanted; *c != '\0'; c++)
            *c = (char)toupper((unsigned char)*c);
        cr_expect(strlen(constant) > strlen(wanted) &&
                      strcmp(constant + strlen(constant) - strlen(wanted), wanted) == 0,
                  "%s is called \"%s\"", constant, e->names[count]);
    }
    cr_expect_eq(count, e->count, "%s: %zu constants, %zu strings", e->type, count, e->count);
}

static const scheme_enum *find_enum(const char *type)
{
    static const scheme_enum *const all[] = {
#define ADDRESS(name) &name##_strings,
        SCHEME_ENUMS(ADDRESS) PLAN_ENUMS(ADDRESS)
#undef ADDRESS
    };

    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (strcmp(all[i]->type, type) == 0)
            return all[i];
    return NULL;
}

static unsigned compare_enums(const char *header, bool every)
{
    static const char opening[] = "typedef enum ";
    char *text = read_text(header);
    char *plain = without_comments(text);
    unsigned count = 0;

    for (const char *p = plain; (p = strstr(p, opening)) != NULL; p++) {
        char type[80];
        const scheme_enum *e;
        cr_assert_eq(sscanf(p, "typedef enum %79[a-z0-9_] {", type), 1);
        e = find_enum(type);
        cr_expect(e != NULL || !every || strcmp(type, "rhumb_scheme_type") == 0,
                  "%s has no strings", type);
        if (e != NULL) {
            expect_constants(strchr(p, '{'), e);
            count++;
        }
    }
    free(plain);
    free(text);
    return count;
}

Test(scheme_names, every_value_of_every_enum_has_its_string)
{
    unsigned schemes = 0, plans = 0;
#define ONE(name) schemes++;
    SCHEME_ENUMS(ONE)
#undef ONE
#define ONE(name) plans++;
    PLAN_ENUMS(ONE)
#undef ONE

    cr_expect_eq(compare_enums("include/rhumb/rhumb_schemes.h", true), schemes);
    cr_expect_eq(compare_enums("include/rhumb/rhumb.h", false), plans);
}

Test(scheme_names, every_string_of_an_enum_is_read_as_its_value)
{
    size_t count, field_count;
    const scheme_entry *entries = scheme_entries(&count);
    char params[200];

    for (size_t i = 0; i < count; i++) {
        const scheme_field *fields = entries[i].fields(&field_count);
        for (size_t k = 0; k < field_count; k++) {
            for (uint32_t v = 0; fields[k].kind == SCHEME_ENUM && v < fields[k].values->count; v++) {
                uint32_t value;
                void *scheme;
                snprintf(params, sizeof params, "{\"%s\": \"%s\"}", fields[k].name,
                         fields[k].values->names[v]);
                scheme = read_params(entries[i].name, params);
                memcpy(&value, (char *)scheme + fields[k].offset, sizeof value);
                cr_expect_eq(value, v, "%s %s", entries[i].name, params);
                scheme_free(&entries[i], scheme);
            }
        }
    }
}

/* Their value read under their name gives what ours gives under ours. */
static void expect_alias(const scheme_entry *entry, const scheme_alias *alias, const char *theirs,
                         const char *ours)
{
    tensor_error error = {.line = ""};
    char text[300];
    void *scheme = calloc(1, entry->size), *wanted = calloc(1, entry->size);
    cJSON *first, *second;

    entry->init(scheme);
    entry->init(wanted);
    snprintf(text, sizeof text, "{\"%s\": %s}", alias->name, theirs);
    first = cJSON_Parse(text);
    snprintf(text, sizeof text, "{\"%s\": %s}", alias->member, ours);
    second = cJSON_Parse(text);
    cr_assert(first != NULL && second != NULL);
    cr_expect(scheme_read(entry, first, scheme, &error), "%s", error.line);
    cr_expect(scheme_read(entry, second, wanted, &error), "%s", error.line);
    cr_expect_eq(memcmp(scheme, wanted, entry->size), 0, "%s: %s is not %s", alias->scheme,
                 alias->name, text);
    cJSON_Delete(first);
    cJSON_Delete(second);
    scheme_free(entry, scheme);
    scheme_free(entry, wanted);
}

Test(scheme_names, aliases_are_names_of_the_dictionary_and_lead_to_fields)
{
    char *dictionary = read_text("tests/goldens/PARAMS.md");
    size_t count, field_count;
    const scheme_alias *aliases = scheme_aliases(&count);

    for (size_t i = 0; i < count; i++) {
        const scheme_alias *a = &aliases[i];
        const scheme_entry *entry =
            strcmp(a->scheme, "plan") == 0 ? run_plan_entry() : scheme_find(a->scheme);
        bool found = false;
        cr_assert_not_null(entry, "%s", a->scheme);
        const scheme_field *fields = entry->fields(&field_count);
        for (size_t k = 0; k < field_count; k++) {
            found = found || strcmp(fields[k].name, a->member) == 0;
            cr_expect(strcmp(fields[k].name, a->name) != 0 || strcmp(a->name, a->member) == 0,
                      "%s: %s is a field of its own", a->scheme, a->name);
        }
        cr_expect(found, "%s has no field %s", a->scheme, a->member);
        cr_expect(strstr(dictionary, a->name) != NULL, "PARAMS.md has no %s", a->name);
        for (size_t v = 0; a->values != NULL && a->values[v] != NULL; v += 2)
            expect_alias(entry, a, a->values[v], a->values[v + 1]);
    }
    free(dictionary);
}

/* ----------------------------------------------------------------------------------------------
 * Refusals of parameters
 */
Test(scheme_json, wrong_parameters_are_refused_with_what_was_wanted)
{
    static const char *const rows[][3] = {
        {"rope", "{\"bse\": 1}", "bse: wanted a parameter of rope: pairing (or layout), scaling"},
        {"rope", "{\"base\": \"x\"}", "base: wanted a number, found \"x\""},
        {"rope", "{\"base\": true}", "base: wanted a number, found true"},
        {"rope", "{\"rotary_dim\": 1.5}", "rotary_dim: wanted a whole number from 0 to"},
        {"rope", "{\"rotary_dim\": -1}", "rotary_dim: wanted a whole number from 0 to"},
        {"rope", "{\"rotary_dim\": 4294967296}", "rotary_dim: wanted a whole number from 0 to"},
        {"rope", "{\"pairing\": \"halves\"}",
         "pairing: wanted one of \"interleaved\", \"half\", \"interleaved_to_half\", found "
         "\"halves\""},
        {"rope", "{\"pairing\": 1}", "pairing: wanted one of"},
        {"rope", "{\"short_factors\": []}", "short_factors: wanted a list of numbers, found []"},
        {"rope", "{\"short_factors\": 2}", "short_factors: wanted a list of numbers, found 2"},
        {"rope", "{\"short_factors\": [1, \"a\"]}", "short_factors: wanted finite numbers"},
        {"rope", "{\"short_factors\": [1, 2], \"long_factors\": [1]}",
         "long_factors: wanted 2 numbers, as the other list has, found 1"},
        {"rope", "{\"base\": 1, \"rope_theta\": 2}", "rope_theta: wanted once, found base twice"},
        {"rope", "{\"base\": 1, \"base\": 2}", "base: wanted once, found base twice"},
        {"rope", "[1]", "params: wanted an object, found [1]"},
        {"xpos", "{\"centre\": 2147483648}", "centre: wanted a whole number from -2147483648 to"},
        {"mrope", "{\"sections\": [1, 2]}", "sections: wanted 3 or 4 whole numbers, found [1,2]"},
        {"mrope", "{\"sections\": [1, 2, -3]}", "sections: wanted whole numbers from 0 to"},
        {"mrope", "{\"rope\": 3}", "rope: wanted an object, found 3"},
        {"mrope", "{\"rope\": {\"base\": []}}", "rope.base: wanted a number, found []"},
        {"mrope", "{\"rope\": {}, \"base\": 3}", "base: wanted once, found rope twice"},
        {"mrope", "{\"base\": 3, \"rope\": {}}", "rope: wanted once, found rope twice"},
        {"mrope", "{\"base\": 3, \"rope_theta\": 3}", "rope_theta: wanted once, found base twice"},
        {"rope2d", "{\"scale\": [1, 2, 3]}", "scale: wanted 2 numbers, found [1,2,3]"},
        {"swin", "{\"window\": 7}", "window: wanted 2 whole numbers, found 7"},
        {"sinusoidal", "{\"layout\": \"concatenated\"}", "layout: wanted one of"},
        {"sinusoidal2d", "{\"mask_coords\": 1}", "mask_coords: wanted one of \"index\", \"valid\""},
        {"t5", "{\"bidirectional\": \"yes\"}", "bidirectional: wanted a whole number"},
        {"xlnet", "{\"clamp_len\": -2}", "clamp_len: wanted a whole number from 0"},
    };

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const scheme_entry *entry = scheme_find(rows[i][0]);
        tensor_error error = {.line = ""};
        cJSON *object = cJSON_Parse(rows[i][1]);
        void *scheme = scheme_new(entry);
        cr_assert_not_null(object, "%s", rows[i][1]);
        cr_expect_not(scheme_read(entry, object, scheme, &error), "%s %s", rows[i][0], rows[i][1]);
        cr_expect(strstr(error.line, rows[i][2]) == error.line, "%s %s: wanted \"%s\", got \"%s\"",
                  rows[i][0], rows[i][1], rows[i][2], error.line);
        scheme_free(entry, scheme);
        cJSON_Delete(object);
    }
}

/* ----------------------------------------------------------------------------------------------
 * The command
 */
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
     "", "out.o"},
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
     "", "out.bias"},
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

Test(run_schemes, a_projected_table_gives_the_bias_of_a_golden_file)
{
    static const char file[] = "absolute2d/swinv2_bias_7x5_h4";
    char root[1024], rest[1400];
    tensor_list wanted = {0}, got = {0};
    command_output output;
    double error;

    snprintf(root, sizeof root, "%s/tests/goldens", command_source_root());
    snprintf(rest, sizeof rest, "--input '%s/%s.safetensors' --output t.npy", root, file);
    output = run("swin_v2", "project", "{\"window\": [7, 5]}", rest);
    cr_assert_eq(output.status, 0, "%s", output.text);
    command_free(&output);
    output = run("swin_v2", "bias", "{\"window\": [7, 5]}",
                 "--input table=t.npy --output out.safetensors");
    cr_assert_eq(output.status, 0, "%s", output.text);
    command_free(&output);
    read_list(root, file, &wanted);
    read_list(folder, "out", &got);
    error = difference(file, tensor_list_find(&wanted, "out.bias"), tensor_list_find(&got, "bias"));
    cr_expect_leq(error, strtod(tensor_list_text(&wanted, "tolerance"), NULL));
    tensor_list_free(&wanted);
    tensor_list_free(&got);
}

/* Rows 5 to 7 of a cache of 8 are the rotated keys and the values as they are. */
Test(run_schemes, rotated_keys_are_appended_to_a_cache)
{
    static const uint64_t shape[4] = {1, 2, 3, 8};
    tensor_list list = {0}, rotated = {0}, cache = {0};
    tensor_error error;
    command_output output;
    char path[600];

    tensor_fill_normal(tensor_list_add(&list, "k", TENSOR_F32, 4, shape, &error), 1);
    tensor_fill_normal(tensor_list_add(&list, "v", TENSOR_F32, 4, shape, &error), 2);
    snprintf(path, sizeof path, "%s/kv.safetensors", folder);
    cr_assert_eq(safetensors_write(path, &list, &error), 0, "%s", error.line);
    output = run("rope", "rotate", "{\"q_offset\": 5}",
                 "--input kv.safetensors --output rotated.safetensors --check");
    cr_assert_eq(output.status, 0, "%s", output.text);
    command_free(&output);
    output = run("rope", "rotate", "{\"q_offset\": 5, \"append\": \"position\", \"capacity\": 8}",
                 "--input kv.safetensors --output cache.safetensors");
    cr_assert_eq(output.status, 0, "%s", output.text);
    command_free(&output);
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
    cr_expect_eq(cJSON_GetArraySize(
                     cJSON_GetObjectItem(cJSON_GetObjectItem(root, "results"), "bias")),
                 3);
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
    command_output output = command_run("cd '%s' && G='%s/tests/goldens' && '%s/tools/rhumb' run %s",
                                        folder, command_source_root(), command_build_root(),
                                        arguments);

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
    expect_refusal("--scheme t5 --op bias --params '{' " T5_FILE, 2, "--params wants a JSON object");
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
