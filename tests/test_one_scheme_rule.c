/* A scheme is named in its own files only: no source of runtime/ and shaders/ outside their scheme/
 * and runtime/model/ (whose business is models) has the name of a scheme of RHUMB_SCHEMES in its
 * path, an identifier, a comment or a message. Build files list sources and are not looked at. */
#define _POSIX_C_SOURCE 200809L

#include "command.h"

#include <rhumb/rhumb_schemes.h>

#include <criterion/criterion.h>
#include <ctype.h>
#include <dirent.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define COUNT(array) (sizeof(array) / sizeof(array)[0])

static const char *const schemes[] = {
#define X(UPPER, lower, kind) #lower,
    RHUMB_SCHEMES(X)
#undef X
};

/* Schemes whose names are words that shared files need for something else. */
static const char *const general[] = {
    "resize",  /* also the operation */
    "learned", /* also what is said of any table or frequency from training */
};

/* What may stay; each must be there, so that none outlives its reason. */
static struct {
    const char *path;
    const char *scheme;
    bool found;
} exceptions[] = {
    /* the function table has every public function, those of a scheme too */
    {.path = "runtime/api.c", .scheme = "alibi"},
    {.path = "runtime/api.c", .scheme = "mrope"},
    /* the self-test runs the rotation kernels, which takes the public struct of some scheme */
    {.path = "runtime/known_answers.c", .scheme = "rope"},
    {.path = "runtime/known_answers.h", .scheme = "rope"},
    {.path = "runtime/self_test.c", .scheme = "rope"},
};

static const char *const folders_of_schemes[] = {"runtime/scheme", "runtime/model",
                                                 "shaders/scheme"};

static bool is_word(char c)
{
    return isalnum((unsigned char)c) != 0;
}

/* Letters of either case; _ of a name is also a hyphen or a space. */
static bool same(char of_text, char of_name)
{
    if (of_name == '_')
        return of_text == '_' || of_text == '-' || of_text == ' ';
    return tolower((unsigned char)of_text) == of_name;
}

/* The first place where text has the name as a word, or as a part of an identifier between
 * underscores; NULL if it has not. */
static const char *find_name(const char *text, const char *name)
{
    size_t length = strlen(name);
    for (const char *at = text; *at != '\0'; at++) {
        size_t n = 0;
        while (n < length && same(at[n], name[n]))
            n++;
        if (n == length && (at == text || !is_word(at[-1])) && !is_word(at[length]))
            return at;
    }
    return NULL;
}

static bool is_general(const char *scheme)
{
    for (size_t i = 0; i < COUNT(general); i++)
        if (strcmp(general[i], scheme) == 0)
            return true;
    return false;
}

static bool is_excepted(const char *path, const char *scheme)
{
    for (size_t i = 0; i < COUNT(exceptions); i++)
        if (strcmp(exceptions[i].path, path) == 0 && strcmp(exceptions[i].scheme, scheme) == 0) {
            exceptions[i].found = true;
            return true;
        }
    return false;
}

static unsigned line_of(const char *text, const char *at)
{
    unsigned line = 1;
    for (; text < at; text++)
        line += *text == '\n';
    return line;
}

static void check_text(const char *path, const char *text)
{
    for (size_t i = 0; i < COUNT(schemes); i++) {
        const char *at = is_general(schemes[i]) ? NULL : find_name(text, schemes[i]);
        if (at != NULL && !is_excepted(path, schemes[i]))
            cr_expect(false, "%s:%u names the scheme %s: %.40s", path, line_of(text, at),
                      schemes[i], at);
        cr_expect(is_general(schemes[i]) || find_name(path, schemes[i]) == NULL,
                  "%s has the name of the scheme %s", path, schemes[i]);
    }
}

static bool is_source(const char *path)
{
    static const char *const endings[] = {".c", ".h", ".comp", ".glsl"};
    const char *ending = strrchr(path, '.');
    for (size_t i = 0; ending != NULL && i < COUNT(endings); i++)
        if (strcmp(ending, endings[i]) == 0)
            return true;
    return false;
}

static void check_file(const char *path)
{
    char full[1024];
    struct stat status;
    snprintf(full, sizeof full, "%s/%s", command_source_root(), path);
    FILE *file = fopen(full, "rb");
    cr_assert(file != NULL && fstat(fileno(file), &status) == 0, "%s", full);
    size_t size = (size_t)status.st_size;
    char *text = malloc(size + 1);
    cr_assert_not_null(text);
    cr_assert_eq(fread(text, 1, size, file), size);
    text[size] = '\0';
    fclose(file);
    check_text(path, text);
    free(text);
}

/* Returns how many files were looked at. */
static unsigned check_folder(const char *path)
{
    char full[1024];
    unsigned files = 0;
    for (size_t i = 0; i < COUNT(folders_of_schemes); i++)
        if (strcmp(path, folders_of_schemes[i]) == 0)
            return 0;
    snprintf(full, sizeof full, "%s/%s", command_source_root(), path);
    DIR *folder = opendir(full);
    cr_assert_not_null(folder, "%s", full);
    for (struct dirent *entry; (entry = readdir(folder)) != NULL;) {
        char below[512];
        struct stat status;
        if (entry->d_name[0] == '.')
            continue;
        snprintf(below, sizeof below, "%s/%.200s", path, entry->d_name);
        snprintf(full, sizeof full, "%s/%s", command_source_root(), below);
        cr_assert_eq(stat(full, &status), 0, "%s", full);
        if (S_ISDIR(status.st_mode)) {
            files += check_folder(below);
        } else if (is_source(below)) {
            check_file(below);
            files++;
        }
    }
    closedir(folder);
    return files;
}

Test(one_scheme_rule, no_shared_file_names_a_scheme)
{
    cr_expect_gt(check_folder("runtime"), 20);
    cr_expect_gt(check_folder("shaders"), 20);
    for (size_t i = 0; i < COUNT(exceptions); i++)
        cr_expect(exceptions[i].found, "%s no longer names %s: the exception can go",
                  exceptions[i].path, exceptions[i].scheme);
}

Test(one_scheme_rule, each_scheme_has_a_file_of_its_name)
{
    for (size_t i = 0; i < COUNT(schemes); i++) {
        char path[1024];
        struct stat status;
        snprintf(path, sizeof path, "%s/runtime/scheme/%s.c", command_source_root(), schemes[i]);
        cr_expect_eq(stat(path, &status), 0, "%s", path);
    }
}

Test(one_scheme_rule, a_name_is_found_in_any_case_and_inside_identifiers)
{
    static const struct {
        const char *text;
        const char *name;
        bool found;
    } rows[] = {
        {"/* windows, as in Swin. */", "swin", true},
        {"static void check_xlnet_rows(void)", "xlnet", true},
        {"#define TERM_T5 1", "t5", true},
        {"RHUMB_TYPE_SWIN_V2", "swin_v2", true},
        {"memory of Transformer-XL", "transformer_xl", true},
        {"\"Music Transformer\"", "music_transformer", true},
        {"alibi", "alibi", true},
        {"// M-RoPE", "rope", true},
        {"rotary, property, Europe", "rope", false},
        {"part5, t50", "t5", false},
        {"transformer xls", "transformer_xl", false},
        {"", "shaw", false},
    };
    for (size_t i = 0; i < COUNT(rows); i++)
        cr_expect_eq(find_name(rows[i].text, rows[i].name) != NULL, rows[i].found, "%s in '%s'",
                     rows[i].name, rows[i].text);
}
