#include "bench.h"
#include "command_line.h"
#include "json_out.h"

#include <stdio.h>

static void print_ratio(const bench_spread *s)
{
    if (s->median > 0.0)
        printf(" %9.1f%%", 100.0 * s->median);
    else
        printf(" %10s", "-");
}

static void print_rate(double amount, double ns)
{
    if (amount > 0.0)
        printf(" %8.2f", amount / ns);
    else
        printf(" %8s", "-");
}

static void print_peer(const bench_result *r)
{
    if (r->x_peer.median > 0.0)
        printf(" %8.2f %s", r->x_peer.median, r->row->peer);
    else
        printf(" %8s", "-");
}

static void print_row(const bench_result *r, bool with_peer)
{
    char shape[64], median[32], p10[32], p90[32];

    printf("  %-20s %-36s", r->row->name, bench_row_shape(r->row, shape, sizeof shape));
    if (r->message[0] != '\0') {
        printf(" not measured: %s\n", r->message);
        return;
    }
    printf(" %10s %10s %10s", command_time_text(r->ns.median, median, sizeof median),
           command_time_text(r->ns.p10, p10, sizeof p10),
           command_time_text(r->ns.p90, p90, sizeof p90));
    print_rate(r->bytes, r->ns.median);
    print_ratio(&r->of_bandwidth);
    print_rate(r->flops, r->ns.median);
    print_ratio(&r->of_compute);
    if (with_peer)
        print_peer(r);
    if (r->times.median > 0.0)
        printf("  %.2f x %s", r->times.median, r->row->against);
    putchar('\n');
}

static const char *limit_name(const bench_result *results, uint32_t count, bench_role role,
                              char *text, size_t size)
{
    snprintf(text, size, "-");
    for (uint32_t i = 0; i < count; i++) {
        const char *name = results[i].row->name;
        if (results[i].row->role == role && text[0] == '-')
            snprintf(text, size, "of %.12s", strcmp(name, "multiply-add") == 0 ? "peak" : name);
    }
    return text;
}

void bench_print_device(const gpu *g, const bench_peer *peer)
{
    printf("device  %s (%s)\ndriver  %s, %s\n", g->properties.deviceName,
           gpu_device_type_name(g->properties.deviceType), g->driver, g->driver_info);
    if (peer != NULL)
        printf("peer    %s\n", bench_peer_name(peer));
    fflush(stdout);
}

void bench_print_group(const bench_result *results, uint32_t count)
{
    char bandwidth[32], compute[32];
    bool with_peer = false;

    for (uint32_t i = 0; i < count; i++)
        with_peer = with_peer || results[i].x_peer.median > 0.0;
    printf("\n%s: %u rounds, by the %s clock\n", results[0].row->group, results[0].rounds,
           results[0].host_clock ? "host's" : "queue's");
    printf("  %-20s %-36s %10s %10s %10s %8s %10s %8s %10s%s\n", "row", "shape", "median", "p10",
           "p90", "GB/s", limit_name(results, count, BENCH_BANDWIDTH, bandwidth, sizeof bandwidth),
           "GFLOP/s", limit_name(results, count, BENCH_COMPUTE, compute, sizeof compute),
           with_peer ? "   x peer" : "");
    for (uint32_t i = 0; i < count; i++)
        print_row(&results[i], with_peer);
    fflush(stdout);
}

/* ----------------------------------------------------------------------------------------------
 * JSON lines
 */
static bool print_line(cJSON *object)
{
    char *text = cJSON_PrintUnformatted(object);
    const bool done = text != NULL;

    if (done)
        printf("%s\n", text);
    fflush(stdout);
    cJSON_free(text);
    cJSON_Delete(object);
    return done;
}

static void put_spread(cJSON *object, const char *name, const bench_spread *s)
{
    cJSON *item;

    if (s->median <= 0.0)
        return;
    item = cJSON_AddObjectToObject(object, name);
    cJSON_AddNumberToObject(item, "median", s->median);
    cJSON_AddNumberToObject(item, "p10", s->p10);
    cJSON_AddNumberToObject(item, "p90", s->p90);
}

static void put_amount(cJSON *object, const char *name, const char *rate_name, double amount,
                       double ns)
{
    if (amount <= 0.0)
        return;
    cJSON_AddNumberToObject(object, name, amount);
    cJSON_AddNumberToObject(object, rate_name, amount / ns);
}

static bool print_row_json(const bench_result *r)
{
    cJSON *object = cJSON_CreateObject();
    char text[128];

    cJSON_AddStringToObject(object, "row", bench_row_id(r->row, text, sizeof text));
    cJSON_AddStringToObject(object, "shape", bench_row_shape(r->row, text, sizeof text));
    if (r->message[0] != '\0') {
        cJSON_AddStringToObject(object, "message", r->message);
        return print_line(object);
    }
    cJSON_AddNumberToObject(object, "rounds", r->rounds);
    cJSON_AddNumberToObject(object, "dispatches", r->dispatches);
    cJSON_AddStringToObject(object, "clock", r->host_clock ? "host" : "queue");
    put_spread(object, "ns", &r->ns);
    put_amount(object, "bytes", "gigabytes_per_second", r->bytes, r->ns.median);
    put_amount(object, "flops", "gigaflops_per_second", r->flops, r->ns.median);
    put_spread(object, "of_bandwidth", &r->of_bandwidth);
    put_spread(object, "of_compute", &r->of_compute);
    if (r->times.median > 0.0) {
        cJSON_AddStringToObject(object, "against", r->row->against);
        put_spread(object, "times", &r->times);
    }
    if (r->x_peer.median > 0.0) {
        cJSON_AddStringToObject(object, "peer", r->row->peer);
        put_spread(object, "peer_ns", &r->peer_ns);
        put_spread(object, "x_peer", &r->x_peer);
    }
    return print_line(object);
}

bool bench_print_device_json(const gpu *g, const bench_peer *peer)
{
    cJSON *object = cJSON_CreateObject();

    json_put_device(cJSON_AddObjectToObject(object, "device"), g);
    if (peer != NULL)
        cJSON_AddStringToObject(object, "peer", bench_peer_name(peer));
    return print_line(object);
}

bool bench_print_group_json(const bench_result *results, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        if (!print_row_json(&results[i]))
            return false;
    }
    return true;
}
