/* The golden cases of tests/goldens, all of them: the list is made from the folders, so that a new
 * file is a new test, and none may be skipped.
 */
#define _POSIX_C_SOURCE 200809L /* mkdtemp */

#include "harness.h"

#include "cases.h"
#include "safetensors.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define COUNT(list) (sizeof(list) / sizeof((list)[0]))

/* As many files as were published; more are welcome. */
static const struct {
    const char *name;
    unsigned files;
} folders[] = {{"rotary", 132}, {"relative1d", 116}, {"absolute2d", 146}};

typedef struct tally {
    bool on_device;
    unsigned on_host; /* cases without work for a device */
    unsigned wrong;
    double worst; /* of rhumb, as a part of the case's tolerance */
    char worst_name[128];
} tally;

static void note(tally *t, bool good, const case_result *r, const char *what)
{
    if (good)
        return;
    t->wrong++;
    fprintf(stderr, "%s: %s; scheme %s, op %s, reference %g, device %g, tolerance %g: %s\n",
            r->name, what, r->scheme, r->op, r->reference_error, r->device_error, r->tolerance,
            r->reason);
}

static void expect_device(tally *t, const case_result *r)
{
    /* a case without an error may have a tolerance of 0 */
    const double part = r->device_error > 0.0 ? r->device_error / r->tolerance : 0.0;
    const bool frequencies = strcmp(r->op, "frequencies") == 0;

    note(t, r->device_error <= r->tolerance, r, "rhumb must have run");
    note(t, r->on_host == frequencies, r, "only frequencies come from the host");
    note(t, frequencies || r->variant[0] != '\0', r, "a plan must have run on the device");
    t->on_host += r->on_host;
    if (part > t->worst) {
        t->worst = part;
        snprintf(t->worst_name, sizeof t->worst_name, "%s", r->name);
    }
}

static void each(void *user, const case_result *r)
{
    tally *t = user;

    note(t, r->status == CASE_PASS, r, "must pass");
    note(t, r->reference_error <= r->tolerance, r, "the reference must have run");
    if (t->on_device)
        expect_device(t, r);
    else
        note(t, isnan(r->device_error), r, "must not have run on a device");
}

/* All folders; device NULL: on the reference alone. */
static unsigned run_folders(gpu *device, tally *t)
{
    const char *root = getenv("RHUMB_TEST_SOURCE_ROOT");
    unsigned all = 0;

    for (size_t i = 0; i < COUNT(folders); i++) {
        cases_count count = {0, 0};
        tensor_error error = {""};
        char path[1024];
        snprintf(path, sizeof path, "%s/tests/goldens/%s", root != NULL ? root : ".",
                 folders[i].name);
        cr_assert_eq(cases_run(path, device, each, t, &count, &error), 0, "%s", error.line);
        cr_expect_geq(count.passed + count.failed, folders[i].files, "%s: %u files, published %u",
                      folders[i].name, count.passed + count.failed, folders[i].files);
        cr_expect_eq(count.failed, 0u, "%s: %u cases failed", folders[i].name, count.failed);
        all += count.passed + count.failed;
    }
    return all;
}

Test(goldens, the_reference_passes_every_file_of_the_folders)
{
    tally t = {.on_device = false};

    (void)run_folders(NULL, &t);
    cr_expect_eq(t.wrong, 0u, "%u expectations of the reference failed", t.wrong);
}

static void report(harness *h, const tally *t)
{
    h->failures = t->wrong;
    fprintf(stderr,
            "%s: %u cases, %u of them on the host alone, the largest error is %.3g of its "
            "tolerance (%s)\n",
            h->name, h->cases, t->on_host, t->worst, t->worst_name);
}

/* Of the files the first of each scheme and of each operation, where a compiler is slow. */
typedef struct choice {
    const char *folder;
    harness *h;
    tally *t;
    cases_plans plans;
    char seen[64][32]; /* schemes and operations */
    unsigned seen_count;
} choice;

static bool is_new(choice *c, const char *word)
{
    for (unsigned i = 0; i < c->seen_count; i++) {
        if (strcmp(c->seen[i], word) == 0)
            return false;
    }
    cr_assert_lt(c->seen_count, COUNT(c->seen));
    snprintf(c->seen[c->seen_count++], sizeof c->seen[0], "%s", word);
    return true;
}

/* `r` is of the reference alone. */
static void run_if_new(void *user, const case_result *r)
{
    choice *c = user;
    const bool new_scheme = is_new(c, r->scheme), new_op = is_new(c, r->op);
    case_result on_device;
    char path[1024];

    if (!new_scheme && !new_op) {
        c->h->left_out++;
        return;
    }
    snprintf(path, sizeof path, "%s/%s.safetensors", c->folder, r->name);
    cases_run_file(path, c->h->g, &c->plans, &on_device);
    each(c->t, &on_device);
    c->h->cases++;
}

static void run_profile(harness_profile profile)
{
    tally t = {.on_device = true};
    harness h;

    harness_open(&h, profile);
    h.cases = run_folders(h.g, &t);
    report(&h, &t);
    harness_close(&h);
}

Test(goldens, lavapipe_passes_every_file_of_the_folders)
{
    run_profile(HARNESS_LAVAPIPE);
}

Test(goldens, the_floor_passes_every_file_of_the_folders)
{
    run_profile(HARNESS_LAVAPIPE_FLOOR);
}

/* In the generic form: a tile of every head size takes its compiler minutes in all. */
Test(goldens, swiftshader_passes_a_file_of_each_scheme_and_operation)
{
    tally t = {.on_device = true};
    harness h;
    choice c = {.h = &h, .t = &t};
    const char *root = getenv("RHUMB_TEST_SOURCE_ROOT");

    harness_open(&h, HARNESS_SWIFTSHADER);
    h.g->form = RHUMB_VARIANT_GENERIC;
    for (size_t i = 0; i < COUNT(folders); i++) {
        cases_count count = {0, 0};
        tensor_error error = {""};
        char path[768];
        snprintf(path, sizeof path, "%s/tests/goldens/%s", root != NULL ? root : ".",
                 folders[i].name);
        c.folder = path;
        cr_assert_eq(cases_run(path, NULL, run_if_new, &c, &count, &error), 0, "%s", error.line);
    }
    report(&h, &t);
    cases_free_plans(&c.plans);
    harness_close(&h);
}

/* ------------------------------------------------------------------------------------------------
 * The runner itself: a wrong number and a wrong word must not pass.
 */
static char temporary[] = "/tmp/rhumb-case-XXXXXX";

/* A small rotate case with one text replaced; out.y[0] is off by `shift`. The position of the token,
 * 2, has one row, or one for each of `axes`. */
static void write_axes(const char *path, const char *scheme, const char *op, const char *params,
                       const char *tolerance, const char *more, double shift, uint64_t axes)
{
    static const uint64_t shape[4] = {1, 1, 1, 2}, one[1] = {1};
    const uint64_t rows[2] = {axes, 1};
    tensor_list list = {0};
    tensor_error error = {""};
    tensor *x, *y;

    cr_assert_eq(tensor_list_set_text(&list, "scheme", scheme, &error), 0);
    cr_assert_eq(tensor_list_set_text(&list, "op", op, &error), 0);
    cr_assert_eq(tensor_list_set_text(&list, "params", params, &error), 0);
    cr_assert_eq(tensor_list_set_text(&list, "source", "made by the test", &error), 0);
    cr_assert_eq(tensor_list_set_text(&list, "tolerance", tolerance, &error), 0);
    cr_assert_not_null(tensor_list_add(&list, "in.x", TENSOR_F32, 4, shape, &error));
    cr_assert_not_null(tensor_list_add(&list, "out.y", TENSOR_F32, 4, shape, &error));
    cr_assert_not_null(tensor_list_add(&list, "in.positions", TENSOR_I32, axes != 0 ? 2 : 1,
                                       axes != 0 ? rows : one, &error));
    if (more != NULL)
        cr_assert_not_null(tensor_list_add(&list, more, TENSOR_F32, 1, one, &error));
    x = tensor_list_find(&list, "in.x");
    y = tensor_list_find(&list, "out.y");
    for (uint64_t i = 0; i < (axes != 0 ? axes : 1); i++)
        tensor_put(tensor_list_find(&list, "in.positions"), i, 2);
    tensor_put(x, 0, 1);
    tensor_put(y, 0, cos(2.0) + shift);
    tensor_put(y, 1, sin(2.0));
    cr_assert_eq(safetensors_write(path, &list, &error), 0, "%s", error.line);
    tensor_list_free(&list);
}

static void write_case(const char *path, const char *scheme, const char *op, const char *params,
                       const char *tolerance, const char *more, double shift)
{
    write_axes(path, scheme, op, params, tolerance, more, shift, 0);
}

typedef struct word_row {
    case_status status;
    const char *why;
    const char *scheme;
    const char *op;
    const char *params;
    const char *tolerance;
    const char *more; /* one more tensor */
    double shift;
} word_row;

#define PLAIN "\"head_dim\":2,\"layout\":\"half\""
#define TURNED "\"head_dim\":2,\"layout\":\"interleaved\""
/* To be closed by the row: }} or more keys first. */
#define YARN                                                                                       \
    "\"rope_parameters\":{\"rope_type\":\"yarn\",\"factor\":2,"                                    \
    "\"original_max_position_embeddings\":4096"

static const word_row words[] = {
    {CASE_PASS, "", "rope", "rotate", "{" PLAIN "}", "1e-6", NULL, 0},
    {CASE_PASS, "", "rope", "rotate", "{" PLAIN ",\"base\":null,\"note\":\"any\"}", "1e-6", NULL,
     9e-7},
    {CASE_PASS, "", "rope", "rotate", "{" PLAIN "}", "1e-6", "out.y_float32_naive", 0},
    {CASE_PASS, "", "rope", "rotate", "{" PLAIN "}", "0", NULL, 0},
    {CASE_FAIL, "wanted", "rope", "rotate", "{" PLAIN "}", "0", NULL, 1.2e-7},
    {CASE_FAIL, "reference: out.y[0] wanted", "rope", "rotate", "{" PLAIN "}", "1e-6", NULL,
     1.1e-6},
    {CASE_FAIL, "wanted", "rope", "rotate", "{" PLAIN "}", "1e-6", NULL, (double)NAN},
    {CASE_FAIL, "wanted", "rope", "rotate", "{" PLAIN ",\"attention_factor\":1.1}", "1e-6", NULL,
     0},
    {CASE_FAIL, "unknown key \"colour\"", "rope", "rotate", "{" PLAIN ",\"colour\":1}", "1e-6",
     NULL, 0},
    {CASE_FAIL, "unknown key \"colour\"", "rope", "rotate",
     "{" PLAIN ",\"rope_parameters\":{\"rope_type\":\"default\",\"colour\":1}}", "1e-6", NULL, 0},
    {CASE_FAIL, "unknown value \"quarter\"", "rope", "rotate",
     "{\"head_dim\":2,\"layout\":\"quarter\"}", "1e-6", NULL, 0},
    {CASE_FAIL, "unknown value \"cubic\"", "rope", "rotate",
     "{" PLAIN ",\"rope_parameters\":{\"rope_type\":\"cubic\"}}", "1e-6", NULL, 0},
    {CASE_FAIL, "wanted rope_type", "rope", "rotate", "{" PLAIN ",\"rope_parameters\":{}}", "1e-6",
     NULL, 0},
    {CASE_FAIL, "wanted factor", "rope", "rotate",
     "{" PLAIN ",\"rope_parameters\":{\"rope_type\":\"linear\"}}", "1e-6", NULL, 0},
    {CASE_FAIL, "twice", "rope", "rotate", "{" PLAIN ",\"base\":1,\"base\":2}", "1e-6", NULL, 0},
    {CASE_FAIL, "wanted a number", "rope", "rotate", "{" PLAIN ",\"base\":\"1\"}", "1e-6", NULL, 0},
    {CASE_FAIL, "wanted a whole number", "rope", "rotate", "{" PLAIN ",\"rotary_dim\":2.5}", "1e-6",
     NULL, 0},
    {CASE_FAIL, "wanted layout", "rope", "rotate", "{\"head_dim\":2}", "1e-6", NULL, 0},
    {CASE_FAIL, "params.head_dim", "rope", "rotate", "{\"layout\":\"half\"}", "1e-6", NULL, 0},
    {CASE_FAIL, "wanted head_dim 4, got 2", "rope", "rotate",
     "{\"head_dim\":4,\"layout\":\"half\"}", "1e-6", NULL, 0},
    {CASE_FAIL, "even rotary_dim", "rope", "rotate", "{" PLAIN ",\"rotary_offset\":1}", "1e-6",
     NULL, 0},
    {CASE_FAIL, "parametrisation ggml", "rope", "rotate", "{" PLAIN ",\"freq_base\":1}", "1e-6",
     NULL, 0},
    {CASE_FAIL, "unknown tensor \"in.extra\"", "rope", "rotate", "{" PLAIN "}", "1e-6", "in.extra",
     0},
    {CASE_FAIL, "unknown tensor \"in.x\"", "rope", "attention", "{" PLAIN "}", "1e-6", NULL, 0},
    {CASE_FAIL, "wanted op rotate", "rope", "encode", "{" PLAIN "}", "1e-6", NULL, 0},
    {CASE_FAIL, "unknown op", "rope", "dance", "{" PLAIN "}", "1e-6", NULL, 0},
    {CASE_FAIL, "unknown scheme", "hope", "rotate", "{" PLAIN "}", "1e-6", NULL, 0},
    {CASE_FAIL, "JSON object", "rope", "rotate", "{" PLAIN, "1e-6", NULL, 0},
    {CASE_FAIL, "JSON object", "rope", "rotate", "[]", "1e-6", NULL, 0},
    {CASE_FAIL, "for tolerance", "rope", "rotate", "{" PLAIN "}", "small", NULL, 0},
    {CASE_FAIL, "for tolerance", "rope", "rotate", "{" PLAIN "}", "-1", NULL, 0},
    {CASE_FAIL, "for tolerance", "rope", "rotate", "{" PLAIN "}", "nan", NULL, 0},
    {CASE_PASS, "", "rope", "rotate", "{" PLAIN "," YARN ",\"attention_factor\":1}}", "1e-6", NULL,
     0},
    {CASE_FAIL, "reference: out.y", "rope", "rotate", "{" PLAIN "," YARN "}}", "1e-6", NULL, 0},
    {CASE_FAIL, "params.attention_factor: wanted 1.0693", "rope", "rotate",
     "{" PLAIN ",\"attention_factor\":1," YARN "}}", "1e-6", NULL, 0},
    {CASE_FAIL, "original_max_position_embeddings", "rope", "rotate",
     "{" PLAIN ",\"rope_parameters\":{\"rope_type\":\"yarn\",\"factor\":2}}", "1e-6", NULL, 0},
    {CASE_FAIL, "whole number of 1 or more for max_position_embeddings", "rope", "rotate",
     "{" PLAIN ",\"rope_parameters\":{\"rope_type\":\"dynamic\",\"factor\":2}}", "1e-6", NULL, 0},
    {CASE_FAIL, "wanted 1 numbers for short_factor, got 2", "rope", "rotate",
     "{" PLAIN ",\"max_position_embeddings\":8,\"rope_parameters\":{\"rope_type\":\"longrope\","
     "\"short_factor\":[1,1],\"long_factor\":[1]}}",
     "1e-6", NULL, 0},
    {CASE_FAIL, "for proportional", "rope", "rotate",
     "{\"head_dim\":4,\"rotary_dim\":2,\"layout\":\"half\","
     "\"rope_parameters\":{\"rope_type\":\"proportional\"}}",
     "1e-6", NULL, 0},
    {CASE_FAIL, "one schedule, got several", "rope", "rotate",
     "{" PLAIN ",\"parametrisation\":\"ggml\"," YARN "}}", "1e-6", NULL, 0},
    {CASE_FAIL, "outside their domain", "rope", "rotate",
     "{" PLAIN ",\"scaling\":\"LlamaNTKScaledRotaryEmbedding\",\"alpha\":4}", "1e-6", NULL, 0},
    {CASE_FAIL, "wanted ntk", "rope", "rotate",
     "{" PLAIN ",\"scaling\":\"LlamaDynamicScaledRotaryEmbedding\"}", "1e-6", NULL, 0},
    {CASE_FAIL, "parametrisation ggml with in.freq_factors", "rope", "rotate", "{" PLAIN "}",
     "1e-6", "in.freq_factors", 0},
    {CASE_FAIL, "outside their domain", "rope", "rotate",
     "{" PLAIN ",\"parametrisation\":\"ggml\"}", "1e-6", "in.freq_factors", 0},
    {CASE_FAIL, "for n_ctx_orig", "rope", "rotate",
     "{" PLAIN ",\"parametrisation\":\"ggml\",\"ext_factor\":1}", "1e-6", NULL, 0},
    {CASE_PASS, "", "xpos", "rotate", "{" TURNED ",\"center\":2}", "1e-6", NULL, 0},
    {CASE_FAIL, "reference: out.y", "xpos", "rotate", "{" TURNED ",\"center\":1}", "1e-6", NULL, 0},
    {CASE_FAIL, "wanted center", "xpos", "rotate", "{" TURNED "}", "1e-6", NULL, 0},
    {CASE_FAIL, "unknown value \"half\"", "xpos", "rotate", "{" PLAIN ",\"center\":2}", "1e-6",
     NULL, 0},
    {CASE_FAIL, "wanted op rotate or scores", "xpos", "attention", "{" TURNED "}", "1e-6", NULL, 0},
    {CASE_FAIL, "got no variant", "rope2d", "rotate", "{" PLAIN "}", "1e-6", NULL, 0},
    {CASE_FAIL, "params.layout: wanted that of sam2", "rope2d", "rotate",
     "{" PLAIN ",\"variant\":\"sam2\"}", "1e-6", NULL, 0},
    {CASE_FAIL, "params.axes: wanted h and w, got h twice", "rope2d", "rotate",
     "{\"head_dim\":4,\"layout\":\"half\",\"variant\":\"pixtral\",\"axes\":[\"h\",\"h\"]}",
     "1e-6", NULL, 0},
    {CASE_FAIL, "params.axes: wanted a list of known words", "rope2d", "rotate",
     "{\"head_dim\":4,\"layout\":\"half\",\"variant\":\"pixtral\",\"axes\":[\"h\",\"x\"]}",
     "1e-6", NULL, 0},
    {CASE_FAIL, "wanted grid for dinov3", "rope2d", "rotate",
     "{\"head_dim\":4,\"layout\":\"half\",\"variant\":\"dinov3\"}", "1e-6", NULL, 0},
    {CASE_FAIL, "sections or pair_axis, got none", "mrope", "rotate", "{" PLAIN "}", "1e-6", NULL,
     0},
    {CASE_FAIL, "sections that suit 1 pairs", "mrope", "rotate",
     "{" PLAIN ",\"mrope_section\":[1,1,1]}", "1e-6", NULL, 0},
    {CASE_FAIL, "pair_axis: wanted what the sections say", "mrope", "rotate",
     "{" PLAIN ",\"mrope_section\":[1,0,0],\"pair_axis\":[2]}", "1e-6", NULL, 0},
    {CASE_FAIL, "wanted frequency and layout, got no layout", "sinusoidal", "encode",
     "{\"dim\":2,\"frequency\":\"2i/d\"}", "1e-6", NULL, 0},
    {CASE_FAIL, "unknown value \"i/(n-1)\"", "sinusoidal", "encode",
     "{\"dim\":2,\"frequency\":\"i/(n-1)\"}", "1e-6", NULL, 0},
    {CASE_FAIL, "in.x: wanted 3 dimensions", "sinusoidal", "encode",
     "{\"dim\":2,\"frequency\":\"2i/d\",\"layout\":\"concat\"}", "1e-6", NULL, 0},
    {CASE_FAIL, "wanted op table or encode", "sinusoidal", "rotate", "{}", "1e-6", NULL, 0},
    {CASE_FAIL, "wanted op encode", "learned", "table", "{}", "1e-6", NULL, 0},
    {CASE_FAIL, "wanted the tensor in.table", "learned", "encode", "{\"dim\":2}", "1e-6", NULL, 0},
    {CASE_FAIL, "wanted op table or encode", "sinusoidal2d", "resize", "{}", "1e-6", NULL, 0},
    {CASE_FAIL, "unknown tensor \"in.positions\"", "sinusoidal2d", "encode", "{}", "1e-6", NULL, 0},
    {CASE_FAIL, "wanted op table, encode or resize", "learned2d", "bias", "{}", "1e-6", NULL, 0},
    {CASE_FAIL, "unknown value \"row_col_concat\"", "learned2d", "encode",
     "{\"form\":\"row_col_concat\"}", "1e-6", NULL, 0},
    {CASE_FAIL, "wanted op buckets, bias, attention or resize", "swin", "table", "{}", "1e-6", NULL,
     0},
    {CASE_FAIL, "unknown key \"pretrained_window\"", "swin", "bias",
     "{\"pretrained_window\":[0,0]}", "1e-6", NULL, 0},
    {CASE_FAIL, "wanted op table, bias or attention", "swin_v2", "buckets", "{}", "1e-6", NULL, 0},
    {CASE_FAIL, "unknown key \"scale\"", "swin_v2", "attention", "{\"scale\":1}", "1e-6", NULL, 0},
    {CASE_FAIL, "in.positions: wanted 2 dimensions", "mrope", "rotate",
     "{" PLAIN ",\"mrope_section\":[1,0,0]}", "1e-6", NULL, 0},
};

Test(goldens, wrong_numbers_and_unknown_words_do_not_pass)
{
    char path[256];
    size_t i;

    cr_assert_not_null(mkdtemp(temporary));
    snprintf(path, sizeof path, "%s/small.safetensors", temporary);
    for (i = 0; i < COUNT(words); i++) {
        const word_row *w = &words[i];
        case_result r;
        write_case(path, w->scheme, w->op, w->params, w->tolerance, w->more, w->shift);
        cases_run_file(path, NULL, NULL, &r);
        cr_expect_eq(r.status, w->status, "row %zu: status %d, reason \"%s\"", i, (int)r.status,
                     r.reason);
        cr_expect(strstr(r.reason, w->why) != NULL, "row %zu: wanted \"%s\", got \"%s\"", i, w->why,
                  r.reason);
        cr_expect_str_eq(r.name, "small");
    }
    unlink(path);
    cr_assert_eq(rmdir(temporary), 0);
}

/* A list of axes without sections is within the format, and no plan takes it. */
Test(goldens, what_the_device_cannot_run_fails)
{
    static const char params[] = "{" PLAIN ",\"pair_axis\":[2]}";
    case_result r;
    char path[256];
    harness h;

    harness_open(&h, HARNESS_LAVAPIPE);
    cr_assert_not_null(mkdtemp(temporary));
    snprintf(path, sizeof path, "%s/axes.safetensors", temporary);
    write_axes(path, "mrope", "rotate", params, "1e-6", NULL, 0, 3);
    cases_run_file(path, h.g, NULL, &r);
    cr_expect_eq(r.status, CASE_FAIL);
    cr_expect_str_eq(r.reason, "device: wanted mrope_section or sections, got pair_axis alone");
    cr_expect(r.reference_error <= r.tolerance && isnan(r.device_error));
    h.cases++;
    unlink(path);
    cr_assert_eq(rmdir(temporary), 0);
    harness_close(&h);
}

static void remember(void *user, const case_result *r)
{
    char *names = user;

    strcat(names, r->name);
    strcat(names, r->status == CASE_FAIL ? "!" : ".");
}

Test(goldens, folders_are_walked_in_order_and_empty_ones_refused)
{
    static const char *const files[] = {"b.safetensors", "sub/a.safetensors", "c.safetensors"};
    char path[256], sub[256], names[256] = "";
    cases_count count = {0, 0};
    tensor_error error = {""};
    FILE *file;
    size_t i;

    cr_assert_not_null(mkdtemp(temporary));
    cr_assert_eq(cases_run(temporary, NULL, NULL, NULL, &count, &error), -1);
    cr_assert(strstr(error.line, "got none") != NULL, "%s", error.line);
    snprintf(sub, sizeof sub, "%s/sub", temporary);
    cr_assert_eq(mkdir(sub, 0700), 0);
    for (i = 0; i < 3; i++) {
        snprintf(path, sizeof path, "%s/%s", temporary, files[i]);
        write_case(path, "rope", "rotate", "{" PLAIN "}", "1e-6", NULL, 0);
    }
    snprintf(path, sizeof path, "%s/broken.safetensors", temporary);
    file = fopen(path, "wb");
    cr_assert_not_null(file);
    fputs("not a case", file);
    fclose(file);
    snprintf(path, sizeof path, "%s/notes.txt", temporary);
    file = fopen(path, "wb");
    cr_assert_not_null(file);
    fclose(file);
    cr_assert_eq(cases_run(temporary, NULL, remember, names, &count, &error), 0, "%s", error.line);
    cr_expect_str_eq(names, "b.broken!c.a.");
    cr_expect(count.passed == 3 && count.failed == 1);
    unlink(path);
    snprintf(path, sizeof path, "%s/broken.safetensors", temporary);
    unlink(path);
    for (i = 0; i < 3; i++) {
        snprintf(path, sizeof path, "%s/%s", temporary, files[i]);
        unlink(path);
    }
    rmdir(sub);
    cr_assert_eq(rmdir(temporary), 0);
    cr_assert_eq(cases_run(temporary, NULL, NULL, NULL, &count, &error), -1,
                 "a path that does not exist");
}
