/* rhumb bench --peer: the lines that it exchanges with a program, which is a few words of shell
 * here. */
#define _POSIX_C_SOURCE 200809L

#include "bench.h"
#include "command.h"

#include <cjson/cJSON.h>
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define LISTEN                                                                                     \
    "while read verb slot words; do case $verb in hello) echo peer fake;; close) echo ok;; "
#define END " esac; done"

TestSuite(bench_peer, .timeout = 120);

static const bench_row decode = {
    .group = "group",
    .name = "name",
    .peer = "flash_attn",
    .shape = {.heads = 8, .kv_heads = 2, .q_rows = 1, .k_rows = 512, .head_dim = 64,
              .dtype = RHUMB_Q8_0, .scheme = BENCH_ALIBI, .causal = true},
};

static bench_peer *start(const char *command)
{
    char message[256] = "";
    bench_peer *peer = bench_peer_start(command, message, sizeof message);

    cr_assert_not_null(peer, "%s", message);
    return peer;
}

Test(bench_peer, a_row_is_opened_by_its_operation_and_shape)
{
    bench_peer *peer = start(LISTEN "open) echo no $slot $words;;" END);
    char message[256] = "";
    double ns = 0.0;

    cr_expect_str_eq(bench_peer_name(peer), "fake");
    cr_expect_not(bench_peer_open(peer, 3, &decode, &ns, message, sizeof message));
    cr_expect_str_eq(message, "no 3 flash_attn heads=8 kv_heads=2 q_rows=1 k_rows=512 head_dim=64 "
                              "dtype=q8_0 scheme=alibi pairing=interleaved causal=1 in_place=0");
    bench_peer_stop(peer);
}

Test(bench_peer, a_time_is_a_positive_number)
{
    bench_peer *peer =
        start(LISTEN "open) echo ok 250;; run) echo ns $((slot * 1000 - 2000));;" END);
    char message[256] = "";
    double ns = 0.0;

    cr_expect(bench_peer_open(peer, 7, &decode, &ns, message, sizeof message), "%s", message);
    cr_expect_eq(ns, 250.0);
    cr_expect(bench_peer_run(peer, 7, &ns, message, sizeof message), "%s", message);
    cr_expect_eq(ns, 5000.0);
    cr_expect_not(bench_peer_run(peer, 2, &ns, message, sizeof message));
    cr_expect_str_eq(message, "the peer tells a time of \"0\" ns");
    bench_peer_close(peer);
    bench_peer_stop(peer);
}

Test(bench_peer, a_peer_that_is_not_there_or_ends_is_told)
{
    char message[256] = "";
    double ns = 0.0;
    bench_peer *peer;

    cr_expect_null(bench_peer_start("exit 0", message, sizeof message));
    cr_expect_str_eq(message, "the peer has ended");
    cr_expect_null(bench_peer_start("read line; echo hello", message, sizeof message));
    cr_expect_str_eq(message, "hello");
    peer = start("read line; echo peer short; read line");
    cr_expect_not(bench_peer_open(peer, 0, &decode, &ns, message, sizeof message));
    cr_expect_str_eq(message, "the peer has ended");
    cr_expect_not(bench_peer_run(peer, 0, &ns, message, sizeof message));
    bench_peer_close(peer);
    bench_peer_stop(peer);
}

/* ----------------------------------------------------------------------------------------------
 * The command
 */
static double median_of(const cJSON *object, const char *name)
{
    const cJSON *item = cJSON_GetObjectItem(cJSON_GetObjectItem(object, name), "median");

    return cJSON_IsNumber(item) ? item->valuedouble : (double)NAN;
}

/* One round: what the peer tells over what rhumb took. */
static void expect_row(const char *line)
{
    cJSON *row = cJSON_Parse(line);
    const char *id = cJSON_GetStringValue(cJSON_GetObjectItem(row, "row"));

    cr_assert_not_null(id, "%s", line);
    if (strcmp(id, "rotate-f16-512/half") == 0) {
        cr_expect_str_eq(cJSON_GetStringValue(cJSON_GetObjectItem(row, "peer")), "rope");
        cr_expect_eq(median_of(row, "peer_ns"), 5e9);
        cr_expect_float_eq(median_of(row, "x_peer") * median_of(row, "ns"), 5e9, 1.0, "%s", line);
    } else {
        cr_expect_null(cJSON_GetObjectItem(row, "x_peer"), "%s", line);
    }
    cJSON_Delete(row);
}

Test(bench_peer, rows_have_the_peers_time_beside_theirs)
{
    command_output output = command_run(
        "'%s/tools/rhumb' bench --rounds 1 --only rotate-f16-512/half --json --peer '%s'",
        command_build_root(),
        LISTEN "open) case $words in *in_place=1) echo no such form;; *) echo ok 5;; esac;; "
               "run) echo ns 5e9;;" END);
    bool told = false;
    uint32_t rows = 0;

    cr_assert_eq(output.status, 0, "%s", output.text);
    for (const char *line = command_next(&output, NULL); line != NULL;
         line = command_next(&output, line)) {
        if (strncmp(line, "rhumb bench: ", 13) == 0) {
            cr_expect_str_eq(line + 13, "rotate-f16-512/half-in-place: no peer: no such form");
            told = true;
        } else if (strncmp(line, "{\"device\"", 9) == 0) {
            cr_expect_not_null(strstr(line, "\"peer\":\"fake\""), "%s", line);
        } else {
            expect_row(line);
            rows++;
        }
    }
    cr_expect(told);
    cr_expect_eq(rows, 4);
    command_free(&output);
}

Test(bench_peer, without_the_peer_the_run_goes_on)
{
    command_output output = command_run(
        "'%s/tools/rhumb' bench --rounds 1 --only rotate-f16-512/half --peer /none/such",
        command_build_root());
    bool told = false;

    cr_expect_eq(output.status, 0, "%s", output.text);
    for (const char *line = command_next(&output, NULL); line != NULL;
         line = command_next(&output, line))
        told = told || strcmp(line, "rhumb bench: goes on without a peer: the peer has ended") == 0;
    cr_expect(told);
    command_free(&output);
}
