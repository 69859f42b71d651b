/* Parameters of schemes as JSON: every field and every enum of rhumb_schemes.h, there and back. */
#include "command.h"
#include "run_plan.h"
#include "scheme_json.h"

#include <criterion/criterion.h>

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>

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
    case SCHEME_U32: return cJSON_CreateNumber(1001 + i);
    case SCHEME_I32: return cJSON_CreateNumber(-1001 - i);
    case SCHEME_F64: return cJSON_CreateNumber(0.1 + i / 7.0);
    case SCHEME_ENUM:
        memcpy(&value, (const char *)plain + field->offset, sizeof value);
        return cJSON_CreateString(field->values->names[(value + 1) % field->values->count]);
    case SCHEME_LIST: return cJSON_CreateDoubleArray(list, 3);
    case SCHEME_STRUCT: return other_values(scheme_find(field->name));
    case SCHEME_F64X2: return cJSON_CreateDoubleArray(list, 2);
    default: return cJSON_CreateIntArray(naturals, field->kind == SCHEME_U32X4 ? 4 : 2);
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
    case SCHEME_U32X2: return 8;
    case SCHEME_LIST:
    case SCHEME_STRUCT: return sizeof(void *);
    case SCHEME_U32X4:
    case SCHEME_F64X2: return 16;
    default: return 4;
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
        "mrope",
        "{\"rope\": {\"base\": 1e6}, \"order\": \"interleaved\", \"sections\": [3, 4, 5]}");
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

/* How many enums of the header have strings: those of a scheme's fields all have, or the table would
 * not compile. */
static unsigned compare_enums(const char *header)
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

    cr_expect_eq(compare_enums("include/rhumb/rhumb_schemes.h"), schemes);
    cr_expect_eq(compare_enums("include/rhumb/rhumb.h"), plans);
}

Test(scheme_names, every_string_of_an_enum_is_read_as_its_value)
{
    size_t count, field_count;
    const scheme_entry *entries = scheme_entries(&count);
    char params[200];

    for (size_t i = 0; i < count; i++) {
        const scheme_field *fields = entries[i].fields(&field_count);
        for (size_t k = 0; k < field_count; k++) {
            for (uint32_t v = 0; fields[k].kind == SCHEME_ENUM && v < fields[k].values->count;
                 v++) {
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
        {"rope", "{\"bse\": 1}", "bse: wanted a parameter of rope: pairing, scaling"},
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
