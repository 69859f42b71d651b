/* rhumb bench: rates of the operations against the limits of the device, in one run. */
#include "bench.h"
#include "command_line.h"
#include "commands.h"

#include <stdio.h>

#define USUAL_ROUNDS 21
#define GROUP_NS 10e9 /* of the rounds of a group, where nobody says how many */

static const char usage[] =
    "usage: rhumb bench [--only PATTERN] [--rounds N] [--host-clock] [--peer COMMAND]\n"
    "                   [--json] [--device D] [--validation]\n"
    "       rhumb bench --list [--only PATTERN]\n\n"
    "Measures operations beside what the device does at most: a copy, a read, multiply-adds. Rows\n"
    "of a group take turns, so that whatever else the machine does hits all of them; what counts\n"
    "is the median of the ratios within a round.\n\n"
    "  --only PATTERN   rows of which PATTERN is a part, or that match it as a shell pattern;\n"
    "                   the limits of their groups come along. Rows of models and of unfused\n"
    "                   attention are long: only where PATTERN begins with \"model\", \"unfused\"\n"
    "  --rounds N       times taken of each row, 1 to 10000; default 21, or as many as a group\n"
    "                   does in 10 seconds, 3 at least\n"
    "  --peer COMMAND   a program that runs another library's operations on the same device, in\n"
    "                   turns with those of rhumb; bench/PERFORMANCE.md has one. Column x peer:\n"
    "                   its time over rhumb's. Rows that it does not have are told on stderr\n"
    "  --host-clock     the host's clock around many dispatches, though there are timestamps\n"
    "  --list           the rows, without a device\n"
    "  --json           JSON lines: the device, then one object for each row\n"
    "  --device D       index, or part of a name or UUID; rhumb devices lists them\n"
    "  --validation     with the validation layer; its messages are an error\n"
    "  --help           this text\n\n"
    "Exit status: 0 done, 1 a row could not be measured, 2 wrong arguments.\n";

typedef struct arguments {
    gpu_options options;
    const char *only;
    const char *peer;
    int64_t rounds; /* 0: as said in the usage */
    bool host_clock, list, json, help;
} arguments;

static void read_arguments(int argc, char **argv, command_line *line, arguments *a)
{
    gpu_init_options(&a->options);
    command_line_begin(line, argc, argv);
    while (command_line_more(line)) {
        if (!command_line_device(line, &a->options) &&
            !command_line_text(line, "--only", &a->only) &&
            !command_line_text(line, "--peer", &a->peer) &&
            !command_line_integer(line, "--rounds", 1, 10000, &a->rounds) &&
            !command_line_flag(line, "--host-clock", &a->host_clock) &&
            !command_line_flag(line, "--list", &a->list) &&
            !command_line_flag(line, "--json", &a->json) &&
            !command_line_flag(line, "--help", &a->help))
            command_line_unknown(line);
    }
}

static void show_progress(const char *group, int32_t round)
{
    char text[128];

    if (round < 0)
        snprintf(text, sizeof text, "%s: preparing ...", group);
    else
        snprintf(text, sizeof text, "%s: round %d ...", group, round + 1);
    command_progress(text);
}

/* The wanted rows of the group that begins at *first, which moves on to the next group. */
static uint32_t next_group(const char *only, uint32_t *first, const bench_row **rows)
{
    const char *group = bench_rows[*first].group;
    uint32_t count = 0;

    for (; *first < bench_row_count && strcmp(bench_rows[*first].group, group) == 0; (*first)++) {
        if (bench_row_wanted(&bench_rows[*first], only) && count < BENCH_MAX_GROUP)
            rows[count++] = &bench_rows[*first];
    }
    return count;
}

static void list_rows(const char *only)
{
    char id[128], shape[64];

    for (uint32_t i = 0; i < bench_row_count; i++) {
        if (only == NULL || bench_row_wanted(&bench_rows[i], only))
            printf("%-40s %s\n", bench_row_id(&bench_rows[i], id, sizeof id),
                   bench_row_shape(&bench_rows[i], shape, sizeof shape));
    }
}

static bool any_row(const char *only)
{
    for (uint32_t i = 0; i < bench_row_count; i++) {
        if (bench_row_wanted(&bench_rows[i], only))
            return true;
    }
    return false;
}

static int finish(const gpu *g, uint32_t failed)
{
    const uint32_t messages = atomic_load(&g->validation_count);

    if (messages != 0)
        return command_error("bench", "%u validation messages, the first: %s", messages,
                             g->validation_first);
    if (failed != 0)
        return command_error("bench", "%u rows could not be measured", failed);
    return RHUMB_EXIT_OK;
}

/* Returns how many rows have no time. */
static uint32_t tell_failures(const bench_result *results, uint32_t count)
{
    uint32_t failed = 0;
    char id[128];

    for (uint32_t i = 0; i < count; i++) {
        failed += results[i].message[0] != '\0';
        if (results[i].peer_message[0] != '\0')
            (void)command_error("bench", "%s: no peer: %s",
                                bench_row_id(results[i].row, id, sizeof id),
                                results[i].peer_message);
    }
    return failed;
}

static int measure(gpu *g, const arguments *a, bench_peer *peer)
{
    const bench_options options = {
        .rounds = (uint32_t)(a->rounds != 0 ? a->rounds : USUAL_ROUNDS),
        .budget_ns = a->rounds != 0 ? 0.0 : GROUP_NS,
        .host_clock = a->host_clock,
        .peer = peer,
        .progress = show_progress,
    };
    const bench_row *rows[BENCH_MAX_GROUP];
    bench_result results[BENCH_MAX_GROUP];
    uint32_t failed = 0;
    bool printed = true;

    if (a->json)
        printed = bench_print_device_json(g, peer);
    else
        bench_print_device(g, peer);
    for (uint32_t first = 0; first < bench_row_count && printed;) {
        const uint32_t count = next_group(a->only, &first, rows);
        if (count == 0)
            continue;
        bench_measure_group(g, rows, count, &options, results);
        command_progress(NULL);
        if (a->json)
            printed = bench_print_group_json(results, count);
        else
            bench_print_group(results, count);
        failed += tell_failures(results, count);
    }
    return printed ? finish(g, failed) : command_error("bench", "no host memory for the JSON");
}

int rhumb_command_bench(int argc, char **argv)
{
    arguments a = {0};
    char error[GPU_MESSAGE_SIZE] = "";
    command_line line;
    bench_peer *peer = NULL;
    gpu *g = NULL;
    int status;

    read_arguments(argc, argv, &line, &a);
    if (line.error[0] != '\0')
        return command_usage_error("bench", "%s", line.error);
    if (a.help) {
        fputs(usage, stdout);
        return RHUMB_EXIT_OK;
    }
    if (!any_row(a.only))
        return command_usage_error("bench", "no row matches \"%.60s\"; --list shows them", a.only);
    if (a.list) {
        list_rows(a.only);
        return RHUMB_EXIT_OK;
    }
    if (command_open_device(&a.options, &g, error, sizeof error) != RHUMB_OK)
        return command_error("bench", "%s", error);
    if (a.peer != NULL)
        peer = bench_peer_start(a.peer, error, sizeof error);
    if (a.peer != NULL && peer == NULL)
        (void)command_error("bench", "goes on without a peer: %s", error);
    status = measure(g, &a, peer);
    bench_peer_stop(peer);
    gpu_close(g);
    return status;
}
