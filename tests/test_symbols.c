/* What the built libraries show to the world and need from it. */
#include "command.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SHARED "runtime/librhumb.so"
#define STATIC "runtime/librhumb.a"
#define PLUGIN "runtime/rhumb_plugin.so"

static bool begins(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

/* Last word of a line of nm, without a symbol version. */
static const char *symbol_of(const char *line, char *name, size_t size)
{
    const char *space = strrchr(line, ' ');
    snprintf(name, size, "%s", space != NULL ? space + 1 : line);
    name[strcspn(name, "@")] = '\0';
    return name;
}

/* Is `name` declared as RHUMB_API in a public header? */
static bool is_declared(const char *name)
{
    command_output found =
        command_run("grep -hE '^RHUMB_API .*[ *]%s\\(' '%s'/include/rhumb/rhumb*.h", name,
                    command_source_root());
    bool declared = found.status == 0;
    command_free(&found);
    return declared;
}

Test(symbols, shared_library_exports_what_the_headers_declare_and_nothing_else)
{
    command_output out = command_run("nm -D --defined-only '%s/%s'", command_build_root(), SHARED);
    command_output declared = command_run(
        "grep -ohE '^RHUMB_API [^(]*\\(' '%s/include/rhumb/rhumb.h' "
        "'%s/include/rhumb/rhumb_schemes.h' | grep -oE 'rhumb_[a-z0-9_]+\\(' | tr -d '('",
        command_source_root(), command_source_root());
    char name[256];
    size_t exported = 0;
    cr_assert_eq(out.status, 0, "%s", out.text);
    for (const char *line = command_next(&out, NULL); line != NULL;
         line = command_next(&out, line)) {
        symbol_of(line, name, sizeof name);
        if (strstr(line, " A ") != NULL && begins(name, "RHUMB_")) {
            continue; /* the name of the symbol version */
        }
        exported++;
        cr_expect(begins(name, "rhumb_"), "%s is exported", name);
        cr_expect(is_declared(name), "%s is exported, and no public header declares it", name);
    }
    cr_assert_gt(declared.lines, 20);
    for (const char *line = command_next(&declared, NULL); line != NULL;
         line = command_next(&declared, line)) {
        bool found = false;
        for (const char *have = command_next(&out, NULL); have != NULL;
             have = command_next(&out, have)) {
            found = found || strcmp(symbol_of(have, name, sizeof name), line) == 0;
        }
        cr_expect(found, "%s is declared, and not exported", line);
    }
    cr_expect_eq(exported, declared.lines, "%zu exported, %zu declared", exported, declared.lines);
    command_free(&out);
    command_free(&declared);
}

Test(symbols, plugin_exports_one_symbol)
{
    command_output out = command_run("nm -D --defined-only '%s/%s'", command_build_root(), PLUGIN);
    char name[256];
    size_t exported = 0;
    cr_assert_eq(out.status, 0, "%s", out.text);
    for (const char *line = command_next(&out, NULL); line != NULL;
         line = command_next(&out, line)) {
        symbol_of(line, name, sizeof name);
        if (strstr(line, " A ") == NULL) {
            exported++;
            cr_expect_str_eq(name, "rhumb_get_api");
        }
    }
    cr_expect_eq(exported, 1);
    command_free(&out);
}

Test(symbols, static_library_defines_only_names_with_our_prefix)
{
    command_output out = command_run("nm --defined-only -g '%s/%s'", command_build_root(), STATIC);
    char name[256];
    size_t symbols = 0;
    cr_assert_eq(out.status, 0, "%s", out.text);
    for (const char *line = command_next(&out, NULL); line != NULL;
         line = command_next(&out, line)) {
        if (strchr(line, ' ') == NULL) {
            continue; /* the name of an object file */
        }
        symbols++;
        cr_expect(begins(symbol_of(line, name, sizeof name), "rhumb_"),
                  "%s is global in the static library", name);
    }
    cr_expect_gt(symbols, 20);
    command_free(&out);
}

static void expect_needed(const char *file, const char *const *allowed)
{
    command_output out = command_run("readelf -d -W '%s/%s'", command_build_root(), file);
    size_t needed = 0;
    cr_assert_eq(out.status, 0, "%s", out.text);
    for (const char *line = command_next(&out, NULL); line != NULL;
         line = command_next(&out, line)) {
        bool known = false;
        if (strstr(line, "(NEEDED)") == NULL) {
            continue;
        }
        needed++;
        for (size_t i = 0; allowed[i] != NULL; i++) {
            known = known || strstr(line, allowed[i]) != NULL;
        }
        cr_expect(known, "%s needs more than it may: %s", file, line);
    }
    cr_expect_gt(needed, 0);
    command_free(&out);
}

Test(symbols, neither_library_needs_more_than_the_c_library)
{
    /* libdl and libpthread are names of the C library before glibc 2.34 */
    static const char *const c_library[] = {"[libc.so", "[libm.so", "[ld-linux", "[libpthread.so",
                                            NULL};
    static const char *const with_loader[] = {"[libc.so",       "[libm.so",  "[ld-linux",
                                              "[libpthread.so", "[libdl.so", NULL};
    expect_needed(PLUGIN, c_library);
    expect_needed(SHARED, with_loader);
}

/* No vk*, volk*, cJSON_*, and nothing that would make a library in a game engine a bad
 * neighbour. */
Test(symbols, plugin_uses_no_loader_no_file_no_environment_and_no_output)
{
    static const char *const forbidden[] = {
        "vk",           "volk",  "vma",  "cJSON",  "getenv", "secure_getenv", "printf",
        "puts",         "fopen", "open", "write",  "fwrite", "abort",         "exit",
        "dlopen",       "dlsym", "fork", "system", "signal", "setlocale",     "pthread_create",
        "__assert_fail"};
    command_output out =
        command_run("nm -D --undefined-only '%s/%s'", command_build_root(), PLUGIN);
    char name[256];
    cr_assert_eq(out.status, 0, "%s", out.text);
    for (const char *line = command_next(&out, NULL); line != NULL;
         line = command_next(&out, line)) {
        symbol_of(line, name, sizeof name);
        for (size_t i = 0; i < sizeof forbidden / sizeof forbidden[0]; i++) {
            bool prefix = i < 4; /* libraries: by their prefix; functions: by their name */
            cr_expect(prefix ? !begins(name, forbidden[i]) : strcmp(name, forbidden[i]) != 0,
                      "the plugin uses %s", name);
        }
    }
    command_free(&out);
}

/* Size of a section by `readelf -S -W`: [nr] name type address offset size. */
static bool section_of(const char *line, char *name, unsigned long *size)
{
    const char *at = strchr(line, ']');
    return at != NULL && sscanf(at + 1, "%255s %*s %*s %*s %lx", name, size) == 2;
}

Test(symbols, libraries_run_no_code_when_they_are_loaded)
{
    static const char *const files[] = {SHARED, PLUGIN};
    for (size_t f = 0; f < 2; f++) {
        command_output out = command_run("readelf -S -W '%s/%s'", command_build_root(), files[f]);
        char name[256];
        unsigned long size;
        cr_assert_eq(out.status, 0, "%s", out.text);
        for (const char *line = command_next(&out, NULL); line != NULL;
             line = command_next(&out, line)) {
            if (!section_of(line, name, &size)) {
                continue;
            }
            /* one pointer each: the compiler's own frame_dummy and __do_global_dtors_aux */
            if (strcmp(name, ".init_array") == 0 || strcmp(name, ".fini_array") == 0) {
                cr_expect_leq(size, sizeof(void *), "%s of %s has %lu bytes", name, files[f], size);
            }
            cr_expect(strcmp(name, ".ctors") != 0 && strcmp(name, ".dtors") != 0, "%s has %s",
                      files[f], name);
        }
        command_free(&out);
    }
}

Test(symbols, libraries_have_no_writable_data_but_what_belongs_to_one_thread)
{
    command_output objects = command_run("find '%s/runtime' -name '*.o'", command_build_root());
    size_t count = 0;
    for (const char *file = command_next(&objects, NULL); file != NULL;
         file = command_next(&objects, file)) {
        command_output out = command_run("readelf -S -W '%s'", file);
        char name[256];
        unsigned long size;
        count++;
        for (const char *line = command_next(&out, NULL); line != NULL;
             line = command_next(&out, line)) {
            bool data;
            if (!section_of(line, name, &size)) {
                continue;
            }
            data = (begins(name, ".data") && !begins(name, ".data.rel.ro")) || begins(name, ".bss");
            cr_expect(!data || size == 0, "%s: %s has %lu bytes of writable data", file, name,
                      size);
        }
        command_free(&out);
    }
    cr_assert_gt(count, 10, "no object files below the build folder");
    command_free(&objects);
}

static void expect_compiles(const char *compiler, const char *flags, const char *header)
{
    command_output out = command_run(
        "printf '#include <rhumb/%s>\\nint main(void) { return 0; }\\n' | "
        "%s %s -I'%s/include' -fsyntax-only -",
        header, compiler, flags, command_source_root());
    cr_expect_eq(out.status, 0, "%s with %s %s: %s", header, compiler, flags, out.text);
    command_free(&out);
}

Test(symbols, headers_compile_alone_as_c11_and_cpp17_without_a_warning)
{
    static const char *const headers[] = {"rhumb.h", "rhumb_schemes.h", "rhumb_loader.h",
                                          "rhumb_model.h"};
    static const struct {
        const char *name;
        const char *flags;
    } compilers[] = {{"gcc", "-x c -std=c11"},
                     {"clang", "-x c -std=c11"},
                     {"g++", "-x c++ -std=c++17"},
                     {"clang++", "-x c++ -std=c++17"}};
    size_t run = 0;
    for (size_t c = 0; c < sizeof compilers / sizeof compilers[0]; c++) {
        command_output there = command_run("command -v %s", compilers[c].name);
        char flags[128];
        bool have = there.status == 0;
        command_free(&there);
        if (!have) {
            printf("left out: %s is not installed\n", compilers[c].name);
            continue;
        }
        run++;
        snprintf(flags, sizeof flags, "%s -Wall -Wextra -Wpedantic -Wconversion -Wshadow -Werror",
                 compilers[c].flags);
        for (size_t i = 0; i < sizeof headers / sizeof headers[0]; i++) {
            expect_compiles(compilers[c].name, flags, headers[i]);
        }
    }
    cr_assert_geq(run, 1, "no compiler was found");
}

/* Fields are appended and never move: no hidden padding that a compiler could place elsewhere. */
Test(symbols, public_structs_have_no_hidden_padding)
{
    expect_compiles("cc", "-x c -std=c11 -Wpadded -Werror", "rhumb.h");
    expect_compiles("cc", "-x c -std=c11 -Wpadded -Werror", "rhumb_schemes.h");
}
