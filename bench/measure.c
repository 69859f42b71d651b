/* Rounds: every row of a group once a round, each round beginning with another row. */
#include "bench.h"

#include <stdio.h>
#include <stdlib.h>

#define WARM_UP 2            /* times taken and thrown away; a driver may compile in the first */
#define SAMPLE_NS 2e6        /* a time taken is at least so long, ... */
#define SAMPLE_HOST_NS 50e6  /* ... with submission and wait inside it, so long */
#define MAX_DISPATCHES 4096u /* of one time taken */
#define LEAST_ROUNDS 3u      /* however long they take */

typedef struct runner {
    bench_result *result;
    bench_work work; /* record NULL: not made, or given up */
    VkCommandBuffer commands;
    double *ns;      /* of one dispatch, by round */
    double *peer_ns; /* of the peer's operation, likewise */
    bool has_peer;
} runner;

/* ----------------------------------------------------------------------------------------------
 * Times of one row
 */
static void drop_commands(gpu *g, runner *r)
{
    gpu_free_commands(g, r->commands);
    r->commands = VK_NULL_HANDLE;
}

static rhumb_result record_dispatches(gpu *g, runner *r)
{
    rhumb_result result = RHUMB_OK;

    gpu_begin_timer(g, r->commands);
    for (uint32_t i = 0; i < r->result->dispatches && result == RHUMB_OK; i++) {
        gpu_barrier(g, r->commands, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT,
                    VK_ACCESS_SHADER_WRITE_BIT, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT,
                    VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_SHADER_WRITE_BIT);
        result = r->work.record(&r->work, r->commands);
    }
    gpu_end_timer(g, r->commands);
    return result == RHUMB_OK ? gpu_end_commands(g, r->commands) : result;
}

/* Commands that run the row `dispatches` times between two timestamps. */
static rhumb_result make_commands(gpu *g, runner *r, uint32_t dispatches)
{
    rhumb_result result;

    drop_commands(g, r);
    r->result->dispatches = dispatches;
    result = gpu_begin_commands(g, &r->commands);
    if (result == RHUMB_OK)
        result = record_dispatches(g, r);
    return result;
}

/* Takes one time, of one dispatch. Timestamps that stand still, or tell more than went by, are
 * none. */
static rhumb_result take_time(gpu *g, runner *r, bool *host_clock, double *ns)
{
    double host_ns = 0.0;
    bool none = false;
    rhumb_result result = gpu_submit_and_wait(g, r->commands, &host_ns);

    if (result == RHUMB_OK)
        result = gpu_read_timer(g, host_ns, ns, &none);
    if (none || *ns <= 0.0 || *ns > 2.0 * host_ns)
        *host_clock = true;
    if (*host_clock)
        *ns = host_ns;
    *ns /= r->result->dispatches;
    return result;
}

static rhumb_result warm_up(gpu *g, runner *r, bool *host_clock, double *ns)
{
    rhumb_result result = make_commands(g, r, 1);

    for (uint32_t i = 0; i < WARM_UP && result == RHUMB_OK; i++)
        result = take_time(g, r, host_clock, ns);
    return result;
}

/* As many dispatches as a time of a good length takes; `ns`: of one, and then of them all. */
static rhumb_result calibrate(gpu *g, runner *r, bool host_clock, double *ns)
{
    const double wanted = (host_clock ? SAMPLE_HOST_NS : SAMPLE_NS) / *ns;
    const uint32_t dispatches = wanted < MAX_DISPATCHES ? (uint32_t)wanted + 1 : MAX_DISPATCHES;

    *ns *= dispatches;
    return dispatches > 1 ? make_commands(g, r, dispatches) : RHUMB_OK;
}

/* ----------------------------------------------------------------------------------------------
 * Statistics
 */
static int compare(const void *a, const void *b)
{
    const double x = *(const double *)a;
    const double y = *(const double *)b;

    return (x > y) - (x < y);
}

static double quantile(const double *sorted, uint32_t count, double part)
{
    const double at = part * (count - 1);
    const uint32_t below = (uint32_t)at;
    const uint32_t above = below + 1 < count ? below + 1 : below;

    return sorted[below] + (at - below) * (sorted[above] - sorted[below]);
}

/* Sorts. */
static bench_spread spread_of(double *values, uint32_t count)
{
    qsort(values, count, sizeof *values, compare);
    return (bench_spread){
        .median = quantile(values, count, 0.5),
        .p10 = quantile(values, count, 0.1),
        .p90 = quantile(values, count, 0.9),
    };
}

static const runner *find_limit(const runner *runners, uint32_t count, bench_role role)
{
    for (uint32_t i = 0; i < count; i++) {
        if (runners[i].work.record != NULL && runners[i].result->row->role == role)
            return &runners[i];
    }
    return NULL;
}

/* Rate over the limit's in each round; ratios is scratch. */
static bench_spread compare_rates(const runner *r, double amount, const runner *limit,
                                  double limit_amount, double *ratios)
{
    const uint32_t rounds = r->result->rounds;

    for (uint32_t i = 0; i < rounds; i++)
        ratios[i] = amount / r->ns[i] / (limit_amount / limit->ns[i]);
    return spread_of(ratios, rounds);
}

/* Time over that of the row that it is against. */
static bench_spread compare_times(const runner *r, const runner *runners, uint32_t count,
                                  double *ratios)
{
    const char *against = r->result->row->against;
    const runner *other = NULL;

    for (uint32_t i = 0; i < count && against != NULL; i++) {
        if (runners[i].work.record != NULL && strcmp(runners[i].result->row->name, against) == 0)
            other = &runners[i];
    }
    if (other == NULL)
        return (bench_spread){0};
    for (uint32_t i = 0; i < r->result->rounds; i++)
        ratios[i] = r->ns[i] / other->ns[i];
    return spread_of(ratios, r->result->rounds);
}

static void compare_peer(runner *r, double *ratios)
{
    const uint32_t rounds = r->result->rounds;

    if (!r->has_peer)
        return;
    for (uint32_t i = 0; i < rounds; i++)
        ratios[i] = r->peer_ns[i] / r->ns[i];
    r->result->x_peer = spread_of(ratios, rounds);
    r->result->peer_ns = spread_of(r->peer_ns, rounds);
}

/* Ratios first: spread_of sorts. */
static void summarize(runner *runners, uint32_t count, double *scratch)
{
    const runner *bandwidth = find_limit(runners, count, BENCH_BANDWIDTH);
    const runner *compute = find_limit(runners, count, BENCH_COMPUTE);

    for (uint32_t i = 0; i < count; i++) {
        runner *r = &runners[i];
        if (r->work.record == NULL)
            continue;
        if (bandwidth != NULL && r->work.bytes > 0.0)
            r->result->of_bandwidth =
                compare_rates(r, r->work.bytes, bandwidth, bandwidth->work.bytes, scratch);
        if (compute != NULL && r->work.flops > 0.0)
            r->result->of_compute =
                compare_rates(r, r->work.flops, compute, compute->work.flops, scratch);
        r->result->times = compare_times(r, runners, count, scratch);
        compare_peer(r, scratch);
    }
    for (uint32_t i = 0; i < count; i++) {
        if (runners[i].work.record != NULL)
            runners[i].result->ns = spread_of(runners[i].ns, runners[i].result->rounds);
    }
}

/* ----------------------------------------------------------------------------------------------
 * A group
 */
static void release(gpu *g, runner *r)
{
    drop_commands(g, r);
    if (r->work.record != NULL)
        r->work.release(&r->work);
    r->work.record = NULL;
}

static void give_up(gpu *g, runner *r)
{
    snprintf(r->result->message, sizeof r->result->message, "%s", g->message);
    release(g, r);
}

/* Adds to *ns what a run of the peer's will take. */
static void open_peer(runner *r, uint32_t slot, const bench_options *options, double *ns)
{
    bench_result *result = r->result;
    double run_ns = 0.0;

    if (options->peer == NULL || result->row->peer == NULL || r->work.record == NULL)
        return;
    options->progress("the peer", -1);
    r->has_peer = bench_peer_open(options->peer, slot, result->row, &run_ns, result->peer_message,
                                  sizeof result->peer_message);
    *ns += run_ns;
}

static void run_peer(runner *r, uint32_t slot, const bench_options *options, double *ns)
{
    if (r->has_peer)
        r->has_peer = bench_peer_run(options->peer, slot, ns, r->result->peer_message,
                                     sizeof r->result->peer_message);
}

/* Returns what a round will take. */
static double make_rows(gpu *g, runner *runners, uint32_t count, const bench_options *options,
                        bool *host_clock)
{
    double ns[BENCH_MAX_GROUP] = {0}, all = 0.0;

    for (uint32_t i = 0; i < count; i++) {
        runner *r = &runners[i];
        if (r->result->row->make(g, r->result->row, &r->work) != RHUMB_OK)
            r->work.record = NULL;
        if (r->work.record == NULL || warm_up(g, r, host_clock, &ns[i]) != RHUMB_OK)
            give_up(g, r);
    }
    /* After all of them: which clock it is holds for the whole group. */
    for (uint32_t i = 0; i < count; i++) {
        if (runners[i].work.record == NULL)
            continue;
        if (calibrate(g, &runners[i], *host_clock, &ns[i]) != RHUMB_OK)
            give_up(g, &runners[i]);
        else
            all += ns[i];
        open_peer(&runners[i], i, options, &all);
    }
    return all;
}

/* Within the budget. */
static uint32_t choose_rounds(const bench_options *options, double round_ns)
{
    double rounds = options->rounds;

    if (options->budget_ns > 0.0 && rounds * round_ns > options->budget_ns)
        rounds = options->budget_ns / round_ns;
    if (rounds < LEAST_ROUNDS)
        rounds = options->rounds < LEAST_ROUNDS ? options->rounds : LEAST_ROUNDS;
    return (uint32_t)rounds;
}

static void run_rounds(gpu *g, runner *runners, uint32_t count, const bench_options *options,
                       uint32_t rounds, bool host_clock)
{
    for (uint32_t round = 0; round < rounds; round++) {
        options->progress(runners[0].result->row->group, (int32_t)round);
        for (uint32_t i = 0; i < count; i++) {
            const uint32_t at = (i + round) % count;
            runner *r = &runners[at];
            bool clock = host_clock;
            if (r->work.record != NULL && take_time(g, r, &clock, &r->ns[round]) != RHUMB_OK)
                give_up(g, r);
            run_peer(r, at, options, &r->peer_ns[round]);
        }
    }
}

void bench_measure_group(gpu *g, const bench_row *const *rows, uint32_t count,
                         const bench_options *options, bench_result *results)
{
    double *times = calloc((size_t)options->rounds * (2 * BENCH_MAX_GROUP + 1), sizeof *times);
    runner runners[BENCH_MAX_GROUP] = {{0}};
    bool host_clock = options->host_clock;
    uint32_t rounds;

    for (uint32_t i = 0; i < count; i++) {
        results[i] = (bench_result){.row = rows[i]};
        runners[i].result = &results[i];
        if (times == NULL)
            snprintf(results[i].message, sizeof results[i].message, "no host memory");
    }
    if (times == NULL)
        return;
    for (uint32_t i = 0; i < count; i++) {
        runners[i].ns = times + (size_t)options->rounds * (2 * i);
        runners[i].peer_ns = times + (size_t)options->rounds * (2 * i + 1);
    }
    options->progress(rows[0]->group, -1);
    rounds = choose_rounds(options, make_rows(g, runners, count, options, &host_clock));
    for (uint32_t i = 0; i < count; i++)
        results[i].rounds = rounds;
    run_rounds(g, runners, count, options, rounds, host_clock);
    summarize(runners, count, times + (size_t)options->rounds * 2 * BENCH_MAX_GROUP);
    for (uint32_t i = 0; i < count; i++) {
        results[i].bytes = runners[i].work.bytes;
        results[i].flops = runners[i].work.flops;
        results[i].host_clock = host_clock;
        release(g, &runners[i]);
    }
    if (options->peer != NULL)
        bench_peer_close(options->peer);
    free(times);
}
