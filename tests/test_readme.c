/* The tables of schemes of README.md against the registry of rhumb_schemes.h. */
#define _POSIX_C_SOURCE 200809L

#include "command.h"

#include <rhumb/rhumb_schemes.h>

#include <criterion/criterion.h>
#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

/* Names of the parameters of each scheme, up to NULL. */
#define FIELD(kind, member) #member,
#define X(UPPER, lower, kind)                                                                      \
    static const char *const lower##_fields[] = {RHUMB_##UPPER##_FIELDS(FIELD) NULL};
RHUMB_SCHEMES(X)
#undef X
#undef FIELD

static const struct {
    const char *name;
    const char *const *fields;
} schemes[] = {
#define X(UPPER, lower, kind) {#lower, lower##_fields},
    RHUMB_SCHEMES(X)
#undef X
};

#define SCHEMES (sizeof schemes / sizeof schemes[0])

/* The part of README.md from "## Schemes" to the next heading. */
static void read_section(char *section, size_t size)
{
    static char text[131072];
    char path[1024];
    snprintf(path, sizeof path, "%s/README.md", command_source_root());
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
    for (size_t i = 0; i < SCHEMES; i++) {
        char row[64];
        snprintf(row, sizeof row, "\n| %s | ", schemes[i].name);
        const char *at = strstr(section, row);
        cr_expect_not_null(at, "README.md has no row of %s", schemes[i].name);
        cr_expect(at == NULL || strstr(at + 1, row) == NULL, "README.md has two rows of %s",
                  schemes[i].name);
    }
}

Test(readme, names_each_parameter_of_a_scheme)
{
    static char section[65536];
    read_section(section, sizeof section);
    for (size_t i = 0; i < SCHEMES; i++)
        for (const char *const *name = schemes[i].fields; *name != NULL; name++)
            cr_expect(has_word(section, *name), "README.md does not name %s of %s", *name,
                      schemes[i].name);
    cr_expect_not(has_word(section, "no_such_parameter"));
    cr_expect_not(has_word("a rotary_dims b", "rotary_dim"));
}
