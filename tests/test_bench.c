/* rhumb bench: that it runs, that its table is what it says, and what comes out. No time is
 * asserted. */
#define _POSIX_C_SOURCE 200809L /* setenv */

#include "harness.h"

#include "bench.h"
#include "command.h"

#include <cjson/cJSON.h>
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define KIB ((uint64_t)1 << 10)

static void use_lavapipe(void)
{
    const char *icd = getenv("RHUMB_TEST_LAVAPIPE_ICD");

    if (icd != NULL && icd[0] != '\0') {
        setenv("VK_DRIVER_FILES", icd, 1);
        setenv("VK_ICD_FILENAMES", icd, 1);
    }
}

TestSuite(bench, .timeout = 300);

/* ----------------------------------------------------------------------------------------------
 * The table
 */
static bool begins(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

Test(bench, rows_of_a_group_are_neighbours_and_ids_are_unique)
{
    for (uint32_t i = 0; i < bench_row_count; i++) {
        uint32_t count = 0;
        for (uint32_t j = 0; j < bench_row_count; j++) {
            if (strcmp(bench_rows[j].group, bench_rows[i].group) != 0)
                continue;
            count++;
            cr_expect(j == i || strcmp(bench_rows[j].name, bench_rows[i].name) != 0, "%s/%s twice",
                      bench_rows[i].group, bench_rows[i].name);
            cr_expect(j == 0 || count == 1 ||
                          strcmp(bench_rows[j - 1].group, bench_rows[j].group) == 0,
                      "%s is in two places", bench_rows[j].group);
        }
        cr_expect_leq(count, BENCH_MAX_GROUP, "%s: %u rows", bench_rows[i].group, count);
    }
}

static double size_of(rhumb_dtype dtype)
{
    return dtype == RHUMB_F32 ? 4.0 : dtype == RHUMB_Q8_0 ? 34.0 / 32.0 : 2.0;
}

/* Bytes of each stream of the limit that the row is held against; 0: this test does not say. */
static double limit_bytes(const bench_row *row)
{
    const bench_shape *s = &row->shape;
    const double element = (double)s->head_dim * size_of(s->dtype);
    const uint32_t kv_heads = s->kv_heads != 0 ? s->kv_heads : s->heads;

    if (row->make == bench_make_rotate) /* a copy reads as many as it writes */
        return (s->heads + (s->append ? 2.0 : 1.0) * s->kv_heads) * s->q_rows * element;
    if (row->make == bench_make_encode) /* add and write too have streams of one size */
        return s->q_rows * element;
    if (row->make == bench_make_bias)
        return (double)s->heads * s->q_rows * s->q_rows * size_of(s->dtype);
    if (row->make == bench_make_attention) /* K and V are read */
        return 2.0 * kv_heads * s->k_rows * element;
    return 0.0;
}

/* But for models, whose rows of many sizes share one limit. */
Test(bench, limits_move_as_many_bytes_as_the_operations_held_against_them)
{
    uint32_t checked = 0;

    for (uint32_t i = 0; i < bench_row_count; i++) {
        const bench_row *limit = &bench_rows[i];
        for (uint32_t j = 0; j < bench_row_count && limit->role == BENCH_BANDWIDTH; j++) {
            if (strcmp(bench_rows[j].group, limit->group) != 0 || bench_row_long(limit) != NULL ||
                limit_bytes(&bench_rows[j]) == 0.0)
                continue;
            cr_expect_eq((double)limit->shape.bytes, limit_bytes(&bench_rows[j]), "%s/%s",
                         limit->group, bench_rows[j].name);
            checked++;
        }
    }
    cr_expect_geq(checked, 60);
}

/* A name that is not there, or a row that is not before: the comparison would be missing. */
Test(bench, rows_stand_behind_those_that_they_are_against)
{
    uint32_t checked = 0;

    for (uint32_t i = 0; i < bench_row_count; i++) {
        const bench_row *row = &bench_rows[i];
        bool found = false;
        for (uint32_t j = 0; j < i && row->against != NULL; j++) {
            found = found || (strcmp(bench_rows[j].group, row->group) == 0 &&
                              strcmp(bench_rows[j].name, row->against) == 0);
        }
        cr_expect(row->against == NULL || found, "%s/%s", row->group, row->name);
        checked += found;
    }
    cr_expect_geq(checked, 30);
}

Test(bench, long_rows_are_only_taken_by_name)
{
    uint32_t taken[4] = {0}, models = 0;

    for (uint32_t i = 0; i < bench_row_count; i++) {
        const bench_row *row = &bench_rows[i];
        if (bench_row_long(row) == NULL)
            continue;
        models += begins(row->group, "model");
        taken[0] += bench_row_wanted(row, NULL);
        taken[1] += bench_row_wanted(row, "decode") || bench_row_wanted(row, "fused");
        taken[2] += bench_row_wanted(row, "model");
        taken[3] += bench_row_wanted(row, "model-bloom-560m-decode/*-q8_0");
    }
    cr_expect_eq(taken[0], 0);
    cr_expect_eq(taken[1], 0);
    cr_expect_eq(taken[2], models);
    cr_expect_eq(taken[3], 3, "two rows and their limit");
}

Test(bench, a_pattern_takes_along_what_a_row_is_against)
{
    for (uint32_t i = 0; i < bench_row_count; i++) {
        const bench_row *row = &bench_rows[i];
        const bool pair = strcmp(row->group, "unfused-64-1024") == 0 &&
                          (row->role != BENCH_OPERATION || strcmp(row->name, "t5") == 0 ||
                           strcmp(row->name, "t5-unfused") == 0);
        cr_expect_eq(bench_row_wanted(row, "unfused-64-1024/t5-unfused"), pair, "%s/%s", row->group,
                     row->name);
    }
}

Test(bench, a_pattern_takes_the_limits_of_its_groups_along)
{
    uint32_t operations = 0, limits = 0;

    for (uint32_t i = 0; i < bench_row_count; i++) {
        const bench_row *row = &bench_rows[i];
        if (!bench_row_wanted(row, "rotate-f16-*/half"))
            continue;
        cr_expect(begins(row->group, "rotate-f16-"), "%s/%s", row->group, row->name);
        if (row->role == BENCH_OPERATION) {
            cr_expect_str_eq(row->name, "half");
            operations++;
        } else {
            limits++;
        }
    }
    cr_expect_eq(operations, 2);
    cr_expect_eq(limits, 4);
}

/* ----------------------------------------------------------------------------------------------
 * Measuring
 */
static rhumb_result refuse(gpu *g, const bench_row *row, bench_work *work)
{
    (void)work;
    return gpu_fail(g, RHUMB_ERROR_LIMIT, "%s is refused", row->name);
}

#define SMALL_ROW(a_name, its_role, maker, ...)                                                    \
    {.group = "small", .name = a_name, .role = its_role, .make = maker, .shape = {__VA_ARGS__}}

static const bench_row small_rows[] = {
    SMALL_ROW("copy", BENCH_BANDWIDTH, bench_make_copy, .bytes = 64 * KIB),
    SMALL_ROW("copy-wide", BENCH_BANDWIDTH, bench_make_copy, .bytes = 64 * KIB,
              .invocations = 1024),
    SMALL_ROW("read", BENCH_OPERATION, bench_make_read, .bytes = 1),
    SMALL_ROW("write", BENCH_OPERATION, bench_make_write, .bytes = 9000),
    SMALL_ROW("add", BENCH_OPERATION, bench_make_add, .bytes = 64 * KIB),
    SMALL_ROW("rotate", BENCH_OPERATION, bench_make_rotate, .heads = 3, .q_rows = 37,
              .head_dim = 64, .dtype = RHUMB_BF16, .scheme = BENCH_ROPE),
    SMALL_ROW("rotate-in-place", BENCH_OPERATION, bench_make_rotate, .heads = 3, .q_rows = 37,
              .head_dim = 64, .scheme = BENCH_ROPE, .pairing = RHUMB_PAIRING_HALF,
              .in_place = true),
    SMALL_ROW("append", BENCH_OPERATION, bench_make_rotate, .heads = 4, .kv_heads = 2, .q_rows = 3,
              .k_rows = 64, .head_dim = 64, .scheme = BENCH_MROPE, .append = true, .norm = true),
    SMALL_ROW("encode", BENCH_OPERATION, bench_make_encode, .q_rows = 16, .head_dim = 96,
              .scheme = BENCH_LEARNED_2D),
    SMALL_ROW("encode-in-place", BENCH_OPERATION, bench_make_encode, .q_rows = 16, .head_dim = 96,
              .scheme = BENCH_SINUSOIDAL, .in_place = true),
    SMALL_ROW("resize", BENCH_OPERATION, bench_make_resize, .k_rows = 9, .q_rows = 16,
              .head_dim = 8, .scheme = BENCH_RESIZE),
    SMALL_ROW("project", BENCH_OPERATION, bench_make_project, .heads = 2, .q_rows = 9,
              .head_dim = 8, .folded = true),
    SMALL_ROW("combine", BENCH_OPERATION, bench_make_combine, .heads = 2, .q_rows = 3,
              .head_dim = 16, .parts = 3),
    SMALL_ROW("bias", BENCH_OPERATION, bench_make_bias, .heads = 2, .q_rows = 33,
              .head_dim = 8, .scheme = BENCH_KERPLE),
    SMALL_ROW("scores", BENCH_OPERATION, bench_make_scores, .heads = 2, .q_rows = 33,
              .head_dim = 8, .scheme = BENCH_T5),
    SMALL_ROW("decode", BENCH_OPERATION, bench_make_attention, .heads = 4, .kv_heads = 2,
              .q_rows = 1, .k_rows = 96, .head_dim = 64, .dtype = RHUMB_Q8_0,
              .scheme = BENCH_ALIBI, .causal = true),
    SMALL_ROW("unfused", BENCH_OPERATION, bench_make_attention, .heads = 2, .q_rows = 17,
              .head_dim = 8, .scheme = BENCH_T5, .unfused = true),
    SMALL_ROW("windows", BENCH_OPERATION, bench_make_attention, .heads = 2, .q_rows = 16,
              .head_dim = 8, .windows = 4, .scheme = BENCH_SWIN),
    SMALL_ROW("refused", BENCH_OPERATION, refuse, 0),
};

#define SMALL (sizeof small_rows / sizeof small_rows[0])

static const char *progress_group;
static int32_t progress_round;

static void note_progress(const char *group, int32_t round)
{
    progress_group = group;
    progress_round = round;
}

static void expect_spread(const bench_result *r, const char *what, const bench_spread *s)
{
    cr_expect(isfinite(s->p90) && s->p10 > 0.0 && s->p10 <= s->median && s->median <= s->p90,
              "%s: %s: %g %g %g", r->row->name, what, s->p10, s->median, s->p90);
}

static void expect_measured(const bench_result *r)
{
    cr_expect_str_empty(r->message, "%s: %s", r->row->name, r->message);
    cr_expect_geq(r->dispatches, 1);
    expect_spread(r, "ns", &r->ns);
    expect_spread(r, "of the bandwidth", &r->of_bandwidth);
}

/* The first `count` rows, and the one that is refused. */
static void measure_small(harness_profile profile, bool host_clock, uint32_t count)
{
    const bench_options options = {
        .rounds = 3, .host_clock = host_clock, .progress = note_progress};
    const bench_row *rows[SMALL];
    bench_result results[SMALL];
    harness h;

    harness_open(&h, profile);
    for (uint32_t i = 0; i < count; i++)
        rows[i] = &small_rows[i];
    rows[count] = &small_rows[SMALL - 1];
    bench_measure_group(h.g, rows, count + 1, &options, results);
    for (uint32_t i = 0; i < count; i++) {
        expect_measured(&results[i]);
        cr_expect(!host_clock || results[i].host_clock, "%s", rows[i]->name);
        h.cases++;
    }
    cr_expect_str_eq(results[count].message, "refused is refused");
    cr_expect_eq(results[count].ns.median, 0.0);
    cr_expect_eq(results[0].of_bandwidth.median, 1.0, "the limit is held against itself");
    cr_expect_eq(results[2].bytes, 128.0 * 4 * 16, "one work group at least");
    cr_expect_eq(results[5].bytes, 2.0 * 3 * 37 * 64 * 2);
    cr_expect_eq(results[6].bytes, 2.0 * 3 * 37 * 64 * 4);
    cr_expect_str_eq(progress_group, "small");
    cr_expect_eq(progress_round, 2);
    harness_close(&h);
}

Test(bench, small_rows_are_measured_on_lavapipe)
{
    measure_small(HARNESS_LAVAPIPE, false, SMALL - 1);
}

Test(bench, small_rows_are_measured_on_the_smallest_device)
{
    measure_small(HARNESS_LAVAPIPE_FLOOR, false, SMALL - 1);
}

/* Limits and rotation: what measures is the same for all, and its compiler is slow. */
Test(bench, limits_and_rotation_are_measured_on_swiftshader)
{
    measure_small(HARNESS_SWIFTSHADER, false, 7);
}

Test(bench, the_hosts_clock_serves_where_there_are_no_timestamps)
{
    measure_small(HARNESS_LAVAPIPE, true, 7);
}

Test(bench, without_its_limit_a_row_has_a_time_and_no_fraction)
{
    const bench_options options = {.rounds = 2, .progress = note_progress};
    const bench_row limit = {
        .group = "alone", .name = "limit", .role = BENCH_BANDWIDTH, .make = refuse};
    const bench_row *rows[] = {&limit, &small_rows[4]};
    bench_result results[2];
    harness h;

    harness_open(&h, HARNESS_LAVAPIPE);
    bench_measure_group(h.g, rows, 2, &options, results);
    cr_expect_str_eq(results[0].message, "limit is refused");
    cr_expect_gt(results[1].ns.median, 0.0);
    cr_expect_eq(results[1].of_bandwidth.median, 0.0);
    h.cases++;
    harness_close(&h);
}

Test(bench, a_budget_makes_fewer_rounds_but_three)
{
    const bench_options options = {.rounds = 50, .budget_ns = 1.0, .progress = note_progress};
    const bench_row *row = &small_rows[4];
    bench_result result;
    harness h;

    harness_open(&h, HARNESS_LAVAPIPE);
    bench_measure_group(h.g, &row, 1, &options, &result);
    cr_expect_eq(result.rounds, 3);
    expect_spread(&result, "ns", &result.ns);
    h.cases++;
    harness_close(&h);
}

/* ----------------------------------------------------------------------------------------------
 * The command
 */
static cJSON *parse(const char *line)
{
    cJSON *object = cJSON_Parse(line);

    cr_assert(cJSON_IsObject(object), "no JSON object: %s", line);
    return object;
}

static double number(const cJSON *object, const char *name)
{
    const cJSON *item = cJSON_GetObjectItem(object, name);

    return cJSON_IsNumber(item) ? item->valuedouble : (double)NAN;
}

static double median_of(const cJSON *object, const char *name)
{
    return number(cJSON_GetObjectItem(object, name), "median");
}

static void expect_text(const cJSON *object, const char *name, const char *wanted)
{
    const cJSON *item = cJSON_GetObjectItem(object, name);

    cr_assert(cJSON_IsString(item), "no %s", name);
    cr_expect_str_eq(item->valuestring, wanted);
}

/* Standard error is among the lines: there is none, progress is for terminals. */
Test(bench, json_lines_are_the_device_and_then_the_rows, .init = use_lavapipe)
{
    static const char *const ids[] = {"copy", "copy-wide", "half", "half-in-place"};
    command_output output = command_run(
        "'%s/tools/rhumb' bench --rounds 1 --only rotate-f16-512/half --json --validation",
        command_build_root());
    const char *line = command_next(&output, NULL);

    cr_assert_eq(output.status, 0, "%s", output.text);
    cr_assert_eq(output.lines, 5, "%zu lines, first: %s", output.lines, output.text);
    cJSON *device = parse(line);
    cr_expect(cJSON_IsString(cJSON_GetObjectItem(cJSON_GetObjectItem(device, "device"), "name")));
    cJSON_Delete(device);
    for (uint32_t i = 0; i < 4; i++) {
        char id[64];
        line = command_next(&output, line);
        cJSON *row = parse(line);
        snprintf(id, sizeof id, "rotate-f16-512/%s", ids[i]);
        expect_text(row, "row", id);
        expect_text(row, "clock", "queue");
        cr_expect_eq(number(row, "rounds"), 1.0);
        cr_expect_eq(number(row, "bytes"), 2.0 * 32 * 512 * 128 * 2);
        cr_expect(isfinite(median_of(row, "of_bandwidth")) && median_of(row, "of_bandwidth") > 0.0,
                  "%s", line);
        cr_expect(fabs(number(row, "gigabytes_per_second") * median_of(row, "ns") -
                       number(row, "bytes")) < 1.0,
                  "%s", line);
        cJSON_Delete(row);
    }
    command_free(&output);
}

Test(bench, attention_counts_the_visible_pairs_only, .init = use_lavapipe)
{
    const double pairs[] = {512.0 * 512, 512.0 * 513 / 2, 512.0 * 512, 512.0 * 513 / 2};
    command_output output =
        command_run("'%s/tools/rhumb' bench --rounds 1 --only attention-128-512 --json",
                    command_build_root());
    const char *line = command_next(&output, NULL);

    cr_assert_eq(output.status, 0, "%s", output.text);
    cr_assert_eq(output.lines, 6, "%s", output.text);
    line = command_next(&output, line); /* the multiply-adds */
    for (uint32_t i = 0; i < 4; i++) {
        line = command_next(&output, line);
        cJSON *row = parse(line);
        cr_expect_eq(number(row, "flops"), 4.0 * 8 * 128 * pairs[i], "%s", line);
        cr_expect(isfinite(median_of(row, "of_compute")) && median_of(row, "of_compute") > 0.0,
                  "%s", line);
        cJSON_Delete(row);
    }
    command_free(&output);
}

Test(bench, the_list_needs_no_device)
{
    command_output output = command_run(
        "VK_DRIVER_FILES=/none VK_ICD_FILENAMES=/none '%s/tools/rhumb' bench --list",
        command_build_root());

    cr_expect_eq(output.status, 0, "%s", output.text);
    cr_expect_eq(output.lines, bench_row_count);
    command_free(&output);
}
