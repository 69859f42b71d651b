/* The shaders as they are shipped, and their sources: what plain devices cannot do must not be in
 * them. */
#include "command.h"
#include "harness.h"

#include <criterion/criterion.h>
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char *read_file(const char *path, size_t *size)
{
    FILE *file = fopen(path, "rb");
    char *text = NULL;
    size_t capacity = 1 << 22;
    cr_assert_not_null(file, "cannot open %s", path);
    text = harness_alloc(capacity, 1);
    *size = fread(text, 1, capacity - 1, file);
    fclose(file);
    text[*size] = '\0';
    return text;
}

/* ---- the compiled shaders ---- */

static void check_module(const char *path)
{
    char message[160] = "";
    size_t size;
    char *words = read_file(path, &size);
    /* only where the host enabled them */
    bool by_address = strstr(path, "broadcast") != NULL || strstr(path, "address") != NULL;
    bool subgroup = by_address || strstr(path, "subgroup") != NULL;
    bool turns = strstr(path, "/encode") != NULL || strstr(path, "/rotate") != NULL ||
                 strstr(path, "/attention") != NULL ||
                 strstr(path, "/scores") != NULL;
    spirv_facts facts;
    cr_assert(spirv_read_facts((const uint32_t *)(const void *)words, size / 4, NULL, &facts,
                               message, sizeof message),
              "%s: %s", path, message);
    cr_expect_leq(facts.version, 0x00010300u, "%s is SPIR-V 0x%08x", path, facts.version);
    cr_expect_leq(facts.push_bytes, 128, "%s: push constants have %llu bytes", path,
                  (unsigned long long)facts.push_bytes);
    cr_expect_gt(facts.push_bytes, 0, "%s has no push constants: the reader missed them", path);
    cr_expect_gt(facts.descriptor_count, 0, "%s has no descriptors: the reader missed them", path);
    cr_expect_not(
        spirv_uses_glsl(&facts, SPIRV_GLSL_SIN) || spirv_uses_glsl(&facts, SPIRV_GLSL_COS) ||
            spirv_uses_glsl(&facts, SPIRV_GLSL_TAN) || spirv_uses_glsl(&facts, SPIRV_GLSL_POW),
        "%s uses the driver's sin, cos, tan or pow", path);
    for (uint32_t i = 0; i < facts.capability_count; i++) {
        uint32_t c = facts.capabilities[i];
        bool groups = subgroup && c >= SPIRV_CAPABILITY_GROUP_NON_UNIFORM &&
                      c <= SPIRV_CAPABILITY_GROUP_NON_UNIFORM_QUAD;
        bool addresses = by_address && (c == SPIRV_CAPABILITY_INT64 ||
                                        c == SPIRV_CAPABILITY_PHYSICAL_STORAGE_BUFFER);
        cr_expect(c == SPIRV_CAPABILITY_SHADER || groups || addresses, "%s needs capability %u", path, c);
    }
    cr_expect(subgroup || facts.extensions == 0, "%s needs %u SPIR-V extensions", path,
              facts.extensions);
    /* the phase is exact only if nothing contracts or reorders it */
    cr_expect_eq(facts.no_contraction > 0, turns, "%s %s NoContraction", path,
                 turns ? "turns without" : "does not turn and has");
    free(words);
}

Test(shaders, as_shipped_need_nothing_that_a_plain_vulkan_device_lacks)
{
    command_output files = command_run("find '%s/shaders' -name '*.spv'", command_build_root());
    cr_assert_geq(files.lines, 4, "no shaders below the build folder");
    for (const char *path = command_next(&files, NULL); path != NULL;
         path = command_next(&files, path)) {
        check_module(path);
    }
    command_free(&files);
}

/* ---- the sources ---- */

/* Comments become spaces; line ends stay. */
static void strip_comments(char *text)
{
    for (char *c = text; *c != '\0'; c++) {
        if (c[0] == '/' && c[1] == '/') {
            while (*c != '\0' && *c != '\n') {
                *c++ = ' ';
            }
            if (*c == '\0') {
                return;
            }
        } else if (c[0] == '/' && c[1] == '*') {
            while (*c != '\0' && !(c[0] == '*' && c[1] == '/')) {
                *c = *c == '\n' ? '\n' : ' ';
                c++;
            }
            if (*c == '\0') {
                return;
            }
            c[0] = c[1] = ' ';
        }
    }
}

static bool is_word(char c)
{
    return isalnum((unsigned char)c) || c == '_';
}

/* The next whole word at or after `at`, before `end`. */
static const char *find_word(const char *at, const char *end, const char *word)
{
    size_t length = strlen(word);
    const char *start = at;
    for (; at + length <= end; at++) {
        if (memcmp(at, word, length) == 0 && !is_word(at[length]) &&
            (at == start || !is_word(at[-1]))) {
            return at;
        }
    }
    return NULL;
}

/* A call: the word, then a parenthesis. */
static const char *find_call(const char *at, const char *end, const char *word)
{
    while ((at = find_word(at, end, word)) != NULL) {
        const char *after = at + strlen(word);
        while (after < end && *after == ' ') {
            after++;
        }
        if (after < end && *after == '(') {
            return at;
        }
        at = after;
    }
    return NULL;
}

typedef struct body {
    char name[64];
    const char *begin; /* after the brace */
    const char *end;   /* the closing brace */
    bool has_barrier;
} body;

/* Function bodies of a source: a brace at depth 0 that follows a parenthesis. */
static size_t find_bodies(const char *text, body *bodies, size_t capacity)
{
    size_t count = 0;
    int depth = 0;
    for (const char *c = text; *c != '\0'; c++) {
        if (*c == '{' && depth++ == 0 && count < capacity) {
            const char *back = c;
            const char *word_end;
            int parens = 0;
            while (back > text && isspace((unsigned char)back[-1])) {
                back--;
            }
            bodies[count].begin = back > text && back[-1] == ')' ? c + 1 : NULL;
            do {
                back--;
                parens += *back == ')' ? 1 : *back == '(' ? -1 : 0;
            } while (back > text && parens > 0);
            word_end = back;
            while (back > text && is_word(back[-1])) {
                back--;
            }
            snprintf(bodies[count].name, sizeof bodies[count].name, "%.*s", (int)(word_end - back),
                     back);
        } else if (*c == '}' && --depth == 0 && count < capacity && bodies[count].begin != NULL) {
            bodies[count].end = c;
            bodies[count].has_barrier = find_call(bodies[count].begin, c, "barrier") != NULL;
            count++;
        }
    }
    return count;
}

static const char *last_barrier(const body *b, const body *all, size_t count)
{
    const char *last = NULL;
    const char *at = b->begin;
    while ((at = find_call(at, b->end, "barrier")) != NULL) {
        last = at++;
    }
    for (size_t i = 0; i < count; i++) {
        at = b->begin;
        while (all[i].has_barrier && (at = find_call(at, b->end, all[i].name)) != NULL) {
            last = last == NULL || at > last ? at : last;
            at++;
        }
    }
    return last;
}

/* A work group of which one invocation has left never meets at the barrier on some devices. */
static void check_returns(const char *path, const char *text)
{
    static body bodies[128];
    size_t count = find_bodies(text, bodies, 128);
    for (size_t round = 0; round < 4; round++) { /* through calls */
        for (size_t i = 0; i < count; i++) {
            bodies[i].has_barrier =
                bodies[i].has_barrier || last_barrier(&bodies[i], bodies, count) != NULL;
        }
    }
    for (size_t i = 0; i < count; i++) {
        const char *barrier = last_barrier(&bodies[i], bodies, count);
        const char *leave = barrier != NULL ? find_word(bodies[i].begin, barrier, "return") : NULL;
        cr_expect_null(leave, "%s: %s() returns before a barrier()", path, bodies[i].name);
    }
}

static bool ends_with(const char *path, const char *end)
{
    size_t a = strlen(path);
    size_t b = strlen(end);
    return a >= b && strcmp(path + a - b, end) == 0;
}

static void check_words(const char *path, const char *text)
{
    static const char *const trigonometry[] = {"sin", "cos", "tan", "pow"};
    const char *end = text + strlen(text);
    for (size_t i = 0; i < 4 && !ends_with(path, "lib/trig.glsl"); i++) {
        cr_expect_null(find_call(text, end, trigonometry[i]),
                       "%s calls %s(); only lib/trig.glsl may", path, trigonometry[i]);
    }
    cr_expect_null(strstr(text, "local_size_y"), "%s has a two-dimensional work group", path);
    if (!ends_with(path, "lib/reduce.glsl") && strstr(path, "kernel/attention") == NULL &&
        strstr(path, "lib/broadcast_") == NULL) {
        cr_expect_null(strstr(text, "subgroup"), "%s uses subgroup operations", path);
    }
    bool by_address = ends_with(path, "lib/address.glsl");
    if (!ends_with(path, "lib/io.glsl") && !by_address) {
        cr_expect_null(find_word(text, end, "buffer"), "%s declares a buffer; only lib/io.glsl and lib/address.glsl may",
                       path);
        cr_expect_null(strstr(text, ".d["), "%s reads a buffer by itself; only lib/io.glsl and lib/address.glsl may",
                       path);
    }
    cr_expect_null(find_word(text, end, "float16_t"), "%s uses 16-bit arithmetic", path);
    cr_expect(by_address || find_word(text, end, "int64_t") == NULL, "%s uses 64-bit integers", path);
    cr_expect(by_address || find_word(text, end, "uint64_t") == NULL, "%s uses 64-bit integers", path);
    cr_expect_null(find_word(text, end, "double"), "%s uses double precision", path);
    cr_expect_null(find_word(text, end, "isnan"),
                   "%s asks for NaN, which plain devices need not keep", path);
}

/* Each file opens with what it is: a comment within its first lines. */
static void check_opening(const char *path, const char *text)
{
    const char *comment = strstr(text, "//");
    const char *block = strstr(text, "/*");
    size_t lines = 0;
    comment = comment == NULL || (block != NULL && block < comment) ? block : comment;
    cr_assert_not_null(comment, "%s has no comment", path);
    for (const char *c = text; c < comment; c++) {
        lines += *c == '\n' ? 1 : 0;
    }
    cr_expect_leq(lines, 8, "%s does not open with a comment", path);
}

Test(shaders, sources_keep_the_rules_that_plain_devices_set)
{
    command_output files =
        command_run("find '%s/shaders' -name '*.comp' -o -path '%s/shaders/*' -name '*.glsl'",
                    command_source_root(), command_source_root());
    cr_assert_geq(files.lines, 8, "no shader sources");
    for (const char *path = command_next(&files, NULL); path != NULL;
         path = command_next(&files, path)) {
        size_t size;
        char *text = read_file(path, &size);
        check_opening(path, text);
        strip_comments(text);
        check_returns(path, text);
        check_words(path, text);
        free(text);
    }
    command_free(&files);
}

/* The lint itself must find what it is for. */
Test(shaders, lint_finds_a_return_before_a_barrier)
{
    static const char good[] = "void f()\n{\n    barrier();\n    if (x)\n        return;\n}\n";
    static body bodies[8];
    static const char bad[] =
        "void f(int a)\n{\n    barrier();\n}\nvoid main()\n{\n    if (x) return;\n    f(1);\n}\n";
    size_t count = find_bodies(bad, bodies, 8);
    cr_assert_eq(count, 2);
    cr_assert_str_eq(bodies[1].name, "main");
    cr_expect_not_null(last_barrier(&bodies[1], bodies, count));
    cr_expect_not_null(
        find_word(bodies[1].begin, last_barrier(&bodies[1], bodies, count), "return"));
    count = find_bodies(good, bodies, 8);
    cr_assert_eq(count, 1);
    cr_expect_null(find_word(bodies[0].begin, last_barrier(&bodies[0], bodies, count), "return"));
}

/* ---- every plan on the smallest device, without compiling ---- */

typedef struct plan_row {
    uint32_t head_dim;
    uint32_t value_dim;
} plan_row;

static const plan_row plan_rows[] = {
    {1, 1},     {8, 8},     {16, 16},   {32, 32},   {40, 40},  {48, 48},   {64, 64},   {72, 72},
    {80, 80},   {96, 96},   {112, 112}, {128, 128}, {128, 64}, {160, 160}, {192, 128}, {192, 192},
    {208, 208}, {224, 224}, {240, 240}, {256, 256}, {256, 16}, {16, 256},  {288, 288}, {576, 512}};

static rhumb_result try_plan(harness *h, const plan_row *row, rhumb_variant variant,
                             rhumb_dtype dtype, uint32_t views, const void *rotary, uint32_t group)
{
    rhumb_plan_info info;
    rhumb_plan_properties properties;
    rhumb_plan *plan = NULL;
    spirv_facts facts;
    rhumb_result result;
    rhumb_init_plan_info(&info, RHUMB_OP_ATTENTION);
    info.variant = variant;
    info.heads = group;
    info.kv_heads = 1;
    info.head_dim = row->head_dim;
    info.value_dim = row->value_dim;
    info.max_q_length = 5;
    info.max_k_length = 4096;
    info.rotary = rotary;
    info.views = views;
    for (uint32_t id = RHUMB_VIEW_Q; id <= RHUMB_VIEW_O; id++) {
        info.dtype[id] = dtype;
    }
    h->cases++;
    result = rhumb_create_plan(h->g->context, &info, &plan);
    if (result != RHUMB_OK) {
        return result;
    }
    facts = interpose_newest_pipeline(); /* the fast form is made after the generic one */
    rhumb_init_plan_properties(&properties);
    cr_assert_eq(rhumb_get_plan_properties(plan, &properties), RHUMB_OK);
    if (strstr(properties.reason, "; the broadcast form") != NULL) {
        /* made last, and described by its own numbers: those of the properties are the other's */
        properties.invocations = 8;
        properties.shared_bytes = 0;
    } else if (strstr(properties.reason, "; by address") != NULL) {
        properties.invocations = 8;
        properties.shared_bytes =
            facts.shared_bytes <= 16384 ? (uint32_t)facts.shared_bytes : 16384;
    }
    if (facts.local_size[0] * facts.local_size[1] * facts.local_size[2] != properties.invocations ||
        facts.shared_bytes != properties.shared_bytes) {
        harness_fail(
            h,
            "D %u/%u variant %d: the plan says %u invocations and %u bytes of shared memory, "
            "its shader has %u and %llu",
            row->head_dim, row->value_dim, (int)properties.variant, properties.invocations,
            properties.shared_bytes, facts.local_size[0], (unsigned long long)facts.shared_bytes);
    }
    rhumb_destroy_plan(plan);
    return RHUMB_OK;
}

static void try_row(harness *h, const plan_row *row, const rhumb_rope *rope)
{
    static const rhumb_variant variants[] = {RHUMB_VARIANT_AUTO, RHUMB_VARIANT_GENERIC,
                                             RHUMB_VARIANT_TILE, RHUMB_VARIANT_DECODE,
                                             RHUMB_VARIANT_BROADCAST};
    const uint32_t basic = RHUMB_VIEW_BIT(RHUMB_VIEW_Q) | RHUMB_VIEW_BIT(RHUMB_VIEW_K) |
                           RHUMB_VIEW_BIT(RHUMB_VIEW_V) | RHUMB_VIEW_BIT(RHUMB_VIEW_O);
    const uint32_t all = basic | RHUMB_VIEW_BIT(RHUMB_VIEW_POSITIONS_Q) |
                         RHUMB_VIEW_BIT(RHUMB_VIEW_POSITIONS_K) |
                         RHUMB_VIEW_BIT(RHUMB_VIEW_LENGTHS) | RHUMB_VIEW_BIT(RHUMB_VIEW_STATUS);
    for (size_t v = 0; v < 5; v++) {
        for (int options = 0; options < 8; options++) {
            const void *rotary = (options & 1) != 0 && row->head_dim % 2 == 0 ? rope : NULL;
            rhumb_result result =
                try_plan(h, row, variants[v], (options & 2) != 0 ? RHUMB_F16 : RHUMB_F32,
                         (options & 4) != 0 ? all : basic, rotary, (options & 4) != 0 ? 7 : 1);
            bool must_fit = variants[v] <= RHUMB_VARIANT_GENERIC;
            if (result != RHUMB_OK &&
                (must_fit || (result != RHUMB_ERROR_LIMIT && result != RHUMB_ERROR_UNSUPPORTED))) {
                harness_fail(h, "D %u/%u variant %d: %s: %s", row->head_dim, row->value_dim,
                             (int)variants[v], rhumb_result_name(result),
                             rhumb_last_message(h->g->context));
            }
        }
    }
}

static void check_plans(harness_profile profile)
{
    harness h;
    rhumb_rope rope;
    harness_open(&h, profile);
    interpose_skip_compilation(true);
    rhumb_init_rope(&rope);
    for (size_t i = 0; i < sizeof plan_rows / sizeof plan_rows[0]; i++) {
        try_row(&h, &plan_rows[i], &rope);
    }
    harness_close(&h);
}

Test(shaders, of_every_plan_stay_within_the_smallest_device_and_match_its_properties)
{
    check_plans(HARNESS_LAVAPIPE_FLOOR);
}

Test(shaders, of_every_plan_match_its_properties_on_a_large_device)
{
    check_plans(HARNESS_LAVAPIPE);
}
