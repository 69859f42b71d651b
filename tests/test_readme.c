/* The tables of schemes of SCHEMES.md against the registry of rhumb_schemes.h. */
#define _POSIX_C_SOURCE 200809L

#include "command.h"

#include <rhumb/rhumb_schemes.h>

#include <criterion/criterion.h>
#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

typedef struct field {
    const char *scheme;
    const char *name;
} field;

static const field fields[] = {
#define FIELD(kind, member) {scheme_name, #member},
#define scheme_name "rope"
    RHUMB_ROPE_FIELDS(FIELD)
#undef scheme_name
#define scheme_name "xpos"
    RHUMB_XPOS_FIELDS(FIELD)
#undef scheme_name
#define scheme_name "mrope"
    RHUMB_MROPE_FIELDS(FIELD)
#undef scheme_name
#define scheme_name "rope2d"
    RHUMB_ROPE2D_FIELDS(FIELD)
#undef scheme_name
#define scheme_name "sinusoidal"
    RHUMB_SINUSOIDAL_FIELDS(FIELD)
#undef scheme_name
#define scheme_name "learned"
    RHUMB_LEARNED_FIELDS(FIELD)
#undef scheme_name
#define scheme_name "sinusoidal2d"
    RHUMB_SINUSOIDAL2D_FIELDS(FIELD)
#undef scheme_name
#define scheme_name "learned2d"
    RHUMB_LEARNED2D_FIELDS(FIELD)
#undef scheme_name
#define scheme_name "resize"
    RHUMB_RESIZE_FIELDS(FIELD)
#undef scheme_name
#define scheme_name "shaw"
    RHUMB_SHAW_FIELDS(FIELD)
#undef scheme_name
#define scheme_name "music_transformer"
    RHUMB_MUSIC_TRANSFORMER_FIELDS(FIELD)
#undef scheme_name
#define scheme_name "t5"
    RHUMB_T5_FIELDS(FIELD)
#undef scheme_name
#define scheme_name "alibi"
    RHUMB_ALIBI_FIELDS(FIELD)
#undef scheme_name
#define scheme_name "transformer_xl"
    RHUMB_TRANSFORMER_XL_FIELDS(FIELD)
#undef scheme_name
#define scheme_name "xlnet"
    RHUMB_XLNET_FIELDS(FIELD)
#undef scheme_name
#define scheme_name "deberta"
    RHUMB_DEBERTA_FIELDS(FIELD)
#undef scheme_name
#define scheme_name "swin"
    RHUMB_SWIN_FIELDS(FIELD)
#undef scheme_name
#define scheme_name "swin_v2"
    RHUMB_SWIN_V2_FIELDS(FIELD)
#undef scheme_name
#undef FIELD
};

static const char *const schemes[] = {
#define X(UPPER, lower, kind) #lower,
    RHUMB_SCHEMES(X)
#undef X
};

/* The part of SCHEMES.md from "## Schemes" to the next heading. */
static void read_section(char *section, size_t size)
{
    static char text[131072];
    char path[1024];
    snprintf(path, sizeof path, "%s/SCHEMES.md", command_source_root());
    FILE *file = fopen(path, "rb");
    cr_assert_not_null(file, "%s", path);
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    fclose(file);
    char *begin = strstr(text, "\n## Schemes\n");
    cr_assert_not_null(begin);
    char *end = strstr(begin + 1, "\n## ");
    cr_assert_not_null(end);
    *end = '\0';
    cr_assert_lt(strlen(begin), size);
    snprintf(section, size, "%s", begin);
}

static bool has_word(const char *text, const char *word)
{
    size_t length = strlen(word);
    for (const char *at = text; (at = strstr(at, word)) != NULL; at++) {
        bool starts = at == text || (!isalnum((unsigned char)at[-1]) && at[-1] != '_');
        bool ends = !isalnum((unsigned char)at[length]) && at[length] != '_';
        if (starts && ends)
            return true;
    }
    return false;
}

Test(readme, has_one_row_for_each_scheme)
{
    static char section[65536];
    read_section(section, sizeof section);
    for (size_t i = 0; i < sizeof schemes / sizeof schemes[0]; i++) {
        char row[64];
        snprintf(row, sizeof row, "\n| %s | ", schemes[i]);
        const char *at = strstr(section, row);
        cr_expect_not_null(at, "SCHEMES.md has no row of %s", schemes[i]);
        cr_expect(at == NULL || strstr(at + 1, row) == NULL, "SCHEMES.md has two rows of %s",
                  schemes[i]);
    }
}

Test(readme, names_each_parameter_of_a_scheme)
{
    static char section[65536];
    read_section(section, sizeof section);
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++)
        cr_expect(has_word(section, fields[i].name), "SCHEMES.md does not name %s of %s",
                  fields[i].name, fields[i].scheme);
    cr_expect_not(has_word(section, "no_such_parameter"));
    cr_expect_not(has_word("a rotary_dims b", "rotary_dim"));
}
