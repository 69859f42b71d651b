/* `rhumb check` over every operation, the summary it makes, and the harness that both share. */
#define _POSIX_C_SOURCE 200809L /* setenv */

#include "command.h"
#include "harness.h"

#include <cjson/cJSON.h>
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COUNT(array) (sizeof(array) / sizeof(array)[0])

static const char *const dtypes[] = {"f32", "f16", "bf16"};

static void begin(void)
{
    const char *icd = getenv("RHUMB_TEST_LAVAPIPE_ICD");

    if (icd != NULL && icd[0] != '\0') {
        setenv("VK_DRIVER_FILES", icd, 1);
        setenv("VK_ICD_FILENAMES", icd, 1);
    }
}

TestSuite(check, .init = begin);

/* What was printed as one text; lines end with a newline. */
static command_output check(const char *arguments)
{
    command_output output =
        command_run("'%s/tools/rhumb' check %s", command_build_root(), arguments);

    for (size_t i = 0; i + 1 < output.size; i++)
        output.text[i] = output.text[i] == '\0' ? '\n' : output.text[i];
    return output;
}

static cJSON *json_of(const char *arguments)
{
    command_output output = check(arguments);
    const char *start = strchr(output.text, '{'); /* behind what a driver has to say */
    cJSON *root = start != NULL ? cJSON_Parse(start) : NULL;

    cr_assert_eq(output.status, 0, "check %s: status %d: %.2000s", arguments, output.status,
                 output.text);
    cr_assert_not_null(root, "check %s: no JSON", arguments);
    command_free(&output);
    return root;
}

static const char *text_of(const cJSON *item, const char *key)
{
    const char *text = cJSON_GetStringValue(cJSON_GetObjectItem(item, key));

    cr_assert_not_null(text, "no text %s", key);
    return text;
}

static double number_of(const cJSON *item, const char *key)
{
    const cJSON *number = cJSON_GetObjectItem(item, key);

    cr_assert(cJSON_IsNumber(number), "no number %s", key);
    return number->valuedouble;
}

/* Cases of the summary that are of the dtype, and of the operation and scheme unless NULL. */
static unsigned cases_of(const cJSON *root, const char *op, const char *scheme, const char *dtype)
{
    const cJSON *item;
    unsigned cases = 0;

    cJSON_ArrayForEach(item, cJSON_GetObjectItem(root, "summary"))
    {
        if ((op == NULL || strcmp(text_of(item, "op"), op) == 0) &&
            (scheme == NULL || strcmp(text_of(item, "scheme"), scheme) == 0) &&
            strcmp(text_of(item, "dtype"), dtype) == 0)
            cases += (unsigned)number_of(item, "cases");
    }
    return cases;
}

/* Each number of the summary again, from the single checks. */
static void expect_summary_of_checks(const cJSON *root)
{
    const cJSON *item, *single;

    cJSON_ArrayForEach(item, cJSON_GetObjectItem(root, "summary"))
    {
        double part = 0.0;
        unsigned cases = 0;
        cJSON_ArrayForEach(single, cJSON_GetObjectItem(root, "checks"))
        {
            double error = number_of(single, "max_error");
            if (strcmp(text_of(single, "op"), text_of(item, "op")) != 0 ||
                strcmp(text_of(single, "scheme"), text_of(item, "scheme")) != 0 ||
                strcmp(text_of(single, "dtype"), text_of(item, "dtype")) != 0)
                continue;
            cases++;
            cr_expect_geq(number_of(item, "max_error"), error);
            if (error > 0.0)
                part = fmax(part, error / number_of(single, "bound"));
        }
        cr_expect_eq((unsigned)number_of(item, "cases"), cases);
        cr_expect_float_eq(number_of(item, "max_part_of_bound"), part, 1e-9);
        cr_expect_leq(part, 1.0);
        cr_expect_str_eq(text_of(item, "device"),
                         text_of(cJSON_GetObjectItem(root, "device"), "name"));
    }
}

/* tools/PRECISION.md is this table of some device: no operation and scheme is missing in it. */
static void expect_page_has_summary(const cJSON *root)
{
    static char page[65536];
    char path[1024], row[96];
    const cJSON *item;
    FILE *file;

    snprintf(path, sizeof path, "%s/tools/PRECISION.md", command_source_root());
    file = fopen(path, "rb");
    cr_assert_not_null(file, "%s", path);
    page[fread(page, 1, sizeof page - 1, file)] = '\0';
    fclose(file);
    cJSON_ArrayForEach(item, cJSON_GetObjectItem(root, "summary"))
    {
        snprintf(row, sizeof row, "\n| %s | %s | ", text_of(item, "op"), text_of(item, "scheme"));
        cr_expect_not_null(strstr(page, row), "tools/PRECISION.md has no row%s", row);
    }
}

Test(check, summary_has_every_operation_and_every_scheme_in_every_dtype)
{
    static const char *const ops[] = {"rotate", "attention", "encode", "resize",
                                      "bias",   "scores",    "project"};
    static const char *const schemes[] = {
#define NAME(upper, lower, kind) #lower,
        RHUMB_SCHEMES(NAME)
#undef NAME
    };
    cJSON *root = json_of("--json");
    unsigned all = 0;

    for (size_t j = 0; j < COUNT(dtypes); j++) {
        for (size_t i = 0; i < COUNT(ops); i++)
            cr_expect_gt(cases_of(root, ops[i], NULL, dtypes[j]), 0u, "%s in %s", ops[i],
                         dtypes[j]);
        for (size_t i = 0; i < COUNT(schemes); i++)
            cr_expect_gt(cases_of(root, NULL, schemes[i], dtypes[j]), 0u, "%s in %s", schemes[i],
                         dtypes[j]);
        all += cases_of(root, NULL, NULL, dtypes[j]);
    }
    cr_expect_eq(number_of(root, "failed"), 0.0);
    cr_expect_eq(number_of(root, "skipped"), 0.0);
    cr_expect_eq((double)all, number_of(root, "passed"));
    expect_summary_of_checks(root);
    expect_page_has_summary(root);
    cJSON_Delete(root);
}

Test(check, one_operation_alone_can_be_asked_for)
{
    cJSON *root = json_of("--op resize --json");
    const cJSON *item;

    cr_expect_gt(cJSON_GetArraySize(cJSON_GetObjectItem(root, "checks")), 0);
    cJSON_ArrayForEach(item, cJSON_GetObjectItem(root, "checks"))
        cr_expect_str_eq(text_of(item, "op"), "resize");
    cJSON_Delete(root);
}

Test(check, table_is_markdown_with_the_device_and_a_row_for_each_scheme)
{
    command_output output = check("--op bias --table");
    const char *line = strstr(output.text, "| operation |");
    unsigned columns = 0;

    cr_expect_eq(output.status, 0);
    cr_expect_not_null(strstr(output.text, "device: "), "%s", output.text);
    cr_assert_not_null(line);
    for (; *line != '\n'; line++)
        columns += *line == '|';
    cr_expect_eq(columns, 2u + 3u * COUNT(dtypes) + 1u, "%s", output.text);
    cr_expect_not_null(strstr(output.text, "\n| bias | swin_v2 | "), "%s", output.text);
    cr_expect_null(strstr(output.text, "| scores |"), "%s", output.text);
    command_free(&output);
}

Test(check, arguments_that_do_not_go_together_are_refused)
{
    static const char *const rows[][2] = {
        {"--op dance", "unknown operation \"dance\""},
        {"--op", "--op"},
        {"--table --json", "summary"},
        {"--all --quick", "either --all or --quick"},
        {"--op bias --cases x", "go with the table of operations"},
        {"--table --configs x", "go with the table of operations"},
    };

    for (size_t i = 0; i < COUNT(rows); i++) {
        command_output output = check(rows[i][0]);
        cr_expect_eq(output.status, 2, "%s: %s", rows[i][0], output.text);
        cr_expect(strstr(output.text, rows[i][1]) != NULL, "%s: %s", rows[i][0], output.text);
        command_free(&output);
    }
}

/* What `rhumb check` calls passed is what the harness says: a wrong element, an error beyond its
 * bound and a NaN are failures, and are told. */
Test(check, harness_takes_no_wrong_number)
{
    static const double want[3] = {1.0, 2.0, 3.0}, bound[3] = {0.5, 0.25, 0.125};
    static const struct {
        double got;
        bool passes;
    } rows[] = {{2.0, true},  {2.25, true},         {2.26, false},
                {1.5, false}, {(double)NAN, false}, {(double)INFINITY, false}};

    for (size_t i = 0; i < COUNT(rows); i++) {
        harness h = {.quiet = true};
        harness_tensor t;
        harness_make_tensor(&t, RHUMB_F32, 1, 1, 1, 3, (harness_layout){0});
        memcpy(t.values, want, sizeof want);
        t.values[1] = rows[i].got;
        cr_expect_eq(harness_compare(&h, "row", "shape", &t, want, bound, NULL), rows[i].passes,
                     "row %zu", i);
        cr_expect_eq(h.failures, rows[i].passes ? 0u : 1u, "row %zu", i);
        cr_expect_eq(h.first_failure[0] != '\0', !rows[i].passes, "row %zu", i);
        if (!isnan(rows[i].got)) {
            cr_expect_eq(h.largest_error, fabs(rows[i].got - 2.0), "row %zu", i);
            cr_expect_eq(h.closest_error, h.largest_error, "row %zu", i);
        }
        harness_free_tensor(&t);
    }
}
