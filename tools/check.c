#include "cases.h"
#include "check_operations.h"
#include "check_precision.h"
#include "command_line.h"
#include "commands.h"
#include "describe_model.h"
#include "json_out.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define MAX_REASONS 64u

static const char usage[] =
    "usage: rhumb check [--all|--quick] [--op NAME] [--table] [--device INDEX|NAME|UUID]\n"
    "                   [--floor] [--validation] [--json]\n"
    "       rhumb check --cases PATH... [--reference] [--device ...] [--floor] [--json]\n"
    "       rhumb check --configs FOLDER [--json]\n\n"
    "Without --cases and --configs: rotate and attention, each dtype and variant, on the best device\n"
    "against the double-precision reference, as a table. All other operations: --cases.\n\n"
    "  --all        every combination of shape, dtype and variant\n"
    "  --quick      rotation, and attention in one kernel, alone\n"
    "  --op         this operation alone: rotate, attention, encode, resize, bias, scores or\n"
    "               project\n"
    "  --table      the errors by operation, scheme and dtype, as Markdown\n"
    "  --cases      golden-case files, or folders of them, on reference and device\n"
    "  --configs    every NAME.json of a folder against NAME.expected.json\n"
    "  --device     an index, or part of a name or UUID (rhumb devices lists them)\n"
    "  --floor      as if the device were the smallest that rhumb is right on\n"
    "  --reference  golden cases on the reference alone, without a device\n"
    "  --validation with the validation layer; its messages fail the check\n"
    "  --json       the same as JSON\n"
    "  --help       this text\n\n"
    "Exit status: 0 all passed, 1 something failed or could not be done, 2 wrong arguments.\n";

typedef struct reason {
    char text[256];
    unsigned count;
} reason;

typedef struct report {
    bool json;
    bool table;  /* of errors alone */
    cJSON *list; /* of results */
    reason reasons[MAX_REASONS];
    unsigned reason_count;
    unsigned reasons_lost; /* skips beyond MAX_REASONS different reasons */
    cases_count count;
    unsigned skipped;
    precision *precision; /* of operations */
} report;

static void add_reason(report *r, const char *text)
{
    for (unsigned i = 0; i < r->reason_count; i++) {
        if (strcmp(r->reasons[i].text, text) == 0) {
            r->reasons[i].count++;
            return;
        }
    }
    if (r->reason_count == MAX_REASONS) {
        r->reasons_lost++;
        return;
    }
    snprintf(r->reasons[r->reason_count].text, sizeof r->reasons[0].text, "%s", text);
    r->reasons[r->reason_count++].count = 1;
}

/* What several skips have in common; a reason of one alone stands in its own line above. */
static void print_reasons(const report *r)
{
    unsigned single = r->reasons_lost;

    for (unsigned i = 0; i < r->reason_count; i++) {
        if (r->reasons[i].count == 1)
            single++;
        else
            printf("skipped %4u: %s\n", r->reasons[i].count, r->reasons[i].text);
    }
    if (single != 0)
        printf("skipped %4u: for other reasons, told above\n", single);
}

/* The closing lines, or the whole JSON object. */
static int finish(report *r, cJSON *root, const char *list_name)
{
    const bool failed = r->count.failed != 0;

    if (r->json) {
        cJSON *reasons = cJSON_CreateObject();
        for (unsigned i = 0; i < r->reason_count; i++)
            cJSON_AddNumberToObject(reasons, r->reasons[i].text, (double)r->reasons[i].count);
        cJSON_AddItemToObject(root, list_name, r->list);
        cJSON_AddItemToObject(root, "skip_reasons", reasons);
        cJSON_AddNumberToObject(root, "passed", (double)r->count.passed);
        cJSON_AddNumberToObject(root, "failed", (double)r->count.failed);
        cJSON_AddNumberToObject(root, "skipped", (double)r->skipped);
        if (json_print(root) != 0)
            return command_error("check", "no host memory for the JSON");
        return failed ? RHUMB_EXIT_FAILED : RHUMB_EXIT_OK;
    }
    print_reasons(r);
    printf("%u passed, %u failed, %u skipped\n", r->count.passed, r->count.failed, r->skipped);
    return failed ? RHUMB_EXIT_FAILED : RHUMB_EXIT_OK;
}

/* ----------------------------------------------------------------------------------------------
 * Operations
 */
static void print_row(const check_result *c)
{
    char time[32];

    command_time_text(c->ns, time, sizeof time);
    printf("%-17s %-9s %-4s %-7s %-48s %9.2e %9.2e %10s%s %s\n", c->scheme, c->op, c->dtype,
           c->variant, c->shape, c->error, c->bound, c->ns > 0.0 ? time : "-",
           c->host_clock ? "*" : " ", c->pass ? "pass" : "FAIL");
    if (!c->pass)
        printf("       %s\n", c->message);
}

static void put_row(cJSON *list, const check_result *c)
{
    cJSON *item = cJSON_CreateObject();

    cJSON_AddStringToObject(item, "scheme", c->scheme);
    cJSON_AddStringToObject(item, "op", c->op);
    cJSON_AddStringToObject(item, "dtype", c->dtype);
    cJSON_AddStringToObject(item, "variant", c->variant);
    cJSON_AddStringToObject(item, "shape", c->shape);
    cJSON_AddNumberToObject(item, "max_error", c->error);
    cJSON_AddNumberToObject(item, "bound", c->bound);
    cJSON_AddNumberToObject(item, "gpu_ns", c->ns);
    cJSON_AddStringToObject(item, "clock", c->host_clock ? "host" : "queue");
    cJSON_AddBoolToObject(item, "pass", c->pass);
    if (!c->pass)
        cJSON_AddStringToObject(item, "message", c->message);
    cJSON_AddItemToArray(list, item);
}

static void each_operation(void *user, const char *next, const check_result *result)
{
    report *r = user;

    command_progress(result == NULL ? next : NULL);
    if (result == NULL)
        return;
    if (result->pass)
        r->count.passed++;
    else
        r->count.failed++;
    if (!precision_add(r->precision, result))
        r->count.failed++; /* a table that is not whole */
    if (r->json)
        put_row(r->list, result);
    else if (!r->table)
        print_row(result);
    else if (!result->pass)
        fprintf(stderr, "rhumb check: %s %s %s, %s: %s\n", result->op, result->scheme,
                result->dtype, result->shape, result->message);
    fflush(stdout);
}

static void print_device(const gpu *g)
{
    printf("device: %s (%s), %s %s\n\n", g->properties.deviceName,
           gpu_device_type_name(g->properties.deviceType), g->driver, g->driver_info);
}

static void print_row_head(void)
{
    printf("%-17s %-9s %-4s %-7s %-48s %9s %9s %10s\n", "scheme", "op", "type", "variant", "shape",
           "max error", "bound", "GPU time");
}

static void count_messages(const gpu *g, report *r)
{
    const uint32_t messages = atomic_load(&g->validation_count);

    if (messages == 0)
        return;
    fprintf(stderr, "rhumb check: %u validation messages, the first: %s\n", messages,
            g->validation_first);
    r->count.failed++;
}

static int check_device(const gpu_options *options, const check_choice *choice, bool table,
                        bool json)
{
    char error[GPU_MESSAGE_SIZE] = "";
    precision found = {.count = 0};
    report r = {.json = json, .table = table, .precision = &found};
    cJSON *root = NULL;
    uint32_t count = 0;
    gpu *g = NULL;

    if (command_open_device(options, &g, error, sizeof error) != RHUMB_OK)
        return command_error("check", "%s", error);
    if (json) {
        root = cJSON_CreateObject();
        r.list = cJSON_CreateArray();
        json_put_device(cJSON_AddObjectToObject(root, "device"), g);
    } else {
        print_device(g);
        if (!table)
            print_row_head();
    }
    check_operations(g, choice, each_operation, &r, &count);
    command_progress(NULL);
    if (json)
        cJSON_AddItemToObject(root, "summary", precision_json(&found, g->properties.deviceName));
    else if (table)
        precision_print(&found);
    else if (g->queries == VK_NULL_HANDLE)
        printf("* by the host's clock: this queue has no timestamps\n");
    count_messages(g, &r);
    gpu_close(g);
    if (!json)
        putchar('\n');
    return finish(&r, root, "checks");
}

/* ----------------------------------------------------------------------------------------------
 * Golden cases
 */
static const char *status_name(case_status status)
{
    return status == CASE_PASS ? "PASS" : "FAIL";
}

static void print_case(const case_result *c)
{
    printf("%s %s: %s %s", status_name(c->status), c->name, c->scheme, c->op);
    if (!isnan(c->reference_error))
        printf(", reference %.2e", c->reference_error);
    if (!isnan(c->device_error))
        printf(", %s %.2e", c->on_host ? "host" : "device", c->device_error);
    if (!isnan(c->reference_error) || !isnan(c->device_error))
        printf(", tolerance %.2e%s", c->tolerance, c->relative ? " relative" : "");
    if (c->variant[0] != '\0')
        printf(", %s", c->variant);
    if (c->reason[0] != '\0')
        printf(": %s", c->reason);
    putchar('\n');
}

static void put_error(cJSON *item, const char *name, double error)
{
    if (isnan(error))
        cJSON_AddNullToObject(item, name);
    else
        cJSON_AddNumberToObject(item, name, error);
}

static void put_case(cJSON *list, const case_result *c)
{
    cJSON *item = cJSON_CreateObject();

    cJSON_AddStringToObject(item, "name", c->name);
    cJSON_AddStringToObject(item, "scheme", c->scheme);
    cJSON_AddStringToObject(item, "op", c->op);
    cJSON_AddStringToObject(item, "status", status_name(c->status));
    cJSON_AddStringToObject(item, "variant", c->variant);
    put_error(item, "reference_error", c->reference_error);
    put_error(item, c->on_host ? "host_error" : "device_error", c->device_error);
    cJSON_AddNumberToObject(item, "tolerance", c->tolerance);
    cJSON_AddBoolToObject(item, "relative", c->relative);
    cJSON_AddStringToObject(item, "reason", c->reason);
    cJSON_AddItemToArray(list, item);
}

static void each_case(void *user, const case_result *c)
{
    report *r = user;

    if (r->json)
        put_case(r->list, c);
    else
        print_case(c);
}

static int check_cases(const gpu_options *options, bool reference_only, bool json, char **paths,
                       uint32_t path_count)
{
    char error[GPU_MESSAGE_SIZE] = "";
    report r = {.json = json};
    cJSON *root = NULL;
    gpu *g = NULL;

    if (!reference_only && command_open_device(options, &g, error, sizeof error) != RHUMB_OK)
        return command_error("check", "%s", error);
    if (json) {
        root = cJSON_CreateObject();
        r.list = cJSON_CreateArray();
    }
    for (uint32_t i = 0; i < path_count; i++) {
        tensor_error problem = {.line = ""};
        if (cases_run(paths[i], g, each_case, &r, &r.count, &problem) == 0)
            continue;
        fprintf(stderr, "rhumb check: %s\n", problem.line);
        r.count.failed++;
    }
    if (g != NULL)
        count_messages(g, &r);
    gpu_close(g);
    return finish(&r, root, "cases");
}

/* ----------------------------------------------------------------------------------------------
 * Configurations
 */

/* "not implemented: model_type x: what it needs" without the model, so that models that lack
 * the same are counted together. */
static void add_config_reason(report *r, const char *detail)
{
    static const char key[] = "model_type ";
    const char *model = strstr(detail, key);
    const char *rest = model != NULL ? strstr(model, ": ") : NULL;
    char text[256];

    if (rest == NULL) {
        add_reason(r, detail);
        return;
    }
    snprintf(text, sizeof text, "%.*s%s", (int)(model - detail), detail, rest + 2);
    add_reason(r, text);
}

static void each_config(void *user, const char *name, describe_outcome outcome, const char *detail)
{
    static const char *const names[] = {"PASS", "FAIL", "SKIP"};
    report *r = user;
    cJSON *item;

    r->count.passed += outcome == DESCRIBE_PASS;
    r->count.failed += outcome == DESCRIBE_FAIL;
    r->skipped += outcome == DESCRIBE_SKIP;
    if (outcome == DESCRIBE_SKIP)
        add_config_reason(r, detail);
    if (!r->json) {
        printf("%s %s%s%s\n", names[outcome], name, detail[0] != '\0' ? ": " : "", detail);
        return;
    }
    item = cJSON_CreateObject();
    cJSON_AddStringToObject(item, "name", name);
    cJSON_AddStringToObject(item, "status", names[outcome]);
    cJSON_AddStringToObject(item, "detail", detail);
    cJSON_AddItemToArray(r->list, item);
}

static int check_configs(const char *folder, bool json)
{
    char message[512] = "";
    report r = {.json = json};

    if (json)
        r.list = cJSON_CreateArray();
    if (describe_compare_dir(folder, each_config, &r, message, sizeof message) < 0) {
        cJSON_Delete(r.list);
        return command_error("check", "%s", message);
    }
    return finish(&r, json ? cJSON_CreateObject() : NULL, "configs");
}

/* ----------------------------------------------------------------------------------------------
 * Arguments
 */
typedef struct arguments {
    gpu_options options;
    const char *configs;
    char **paths; /* of --cases; as many as argc at most */
    uint32_t path_count;
    check_choice choice;
    bool table, json, floor, reference, help;
} arguments;

static bool take_path(command_line *line, arguments *a)
{
    const char *path = NULL;

    if (command_line_text(line, "--cases", &path)) {
        if (line->error[0] == '\0')
            a->paths[a->path_count++] = line->argv[line->at - 1];
        if (line->error[0] == '\0' && path != line->argv[line->at - 1]) /* --cases=PATH */
            a->paths[a->path_count - 1] += strlen("--cases=");
        return true;
    }
    if (a->path_count == 0 || line->argv[line->at][0] == '-')
        return false;
    a->paths[a->path_count++] = line->argv[line->at++];
    return true;
}

static bool of_operations(const arguments *a)
{
    return a->choice.all || a->choice.quick || a->choice.op != NULL || a->table;
}

static bool is_operation(const char *name)
{
    for (rhumb_op op = RHUMB_OP_ROTATE; op <= RHUMB_OP_PROJECT; op++) {
        if (strcmp(name, command_op_name(op)) == 0)
            return true;
    }
    return false;
}

static void read_arguments(int argc, char **argv, command_line *line, arguments *a)
{
    gpu_init_options(&a->options);
    command_line_begin(line, argc, argv);
    while (command_line_more(line)) {
        if (!command_line_device(line, &a->options) &&
            !command_line_flag(line, "--json", &a->json) &&
            !command_line_flag(line, "--floor", &a->floor) &&
            !command_line_flag(line, "--all", &a->choice.all) &&
            !command_line_flag(line, "--quick", &a->choice.quick) &&
            !command_line_flag(line, "--table", &a->table) &&
            !command_line_text(line, "--op", &a->choice.op) &&
            !command_line_flag(line, "--reference", &a->reference) &&
            !command_line_flag(line, "--help", &a->help) &&
            !command_line_text(line, "--configs", &a->configs) && !take_path(line, a))
            command_line_unknown(line);
    }
    if (line->error[0] != '\0')
        return;
    if (a->configs != NULL && a->path_count != 0)
        snprintf(line->error, sizeof line->error, "either --cases or --configs, not both");
    else if (of_operations(a) && (a->configs != NULL || a->path_count != 0))
        snprintf(line->error, sizeof line->error,
                 "--all, --quick, --op and --table go with the table of operations");
    else if (a->choice.all && a->choice.quick)
        snprintf(line->error, sizeof line->error, "either --all or --quick, not both");
    else if (a->table && a->json)
        snprintf(line->error, sizeof line->error, "--json has the table in it: \"summary\"");
    else if (a->choice.op != NULL && !is_operation(a->choice.op))
        snprintf(line->error, sizeof line->error, "--op: unknown operation \"%.40s\"",
                 a->choice.op);
    else if (a->reference && a->path_count == 0)
        snprintf(line->error, sizeof line->error, "--reference goes with --cases");
}

static int run_check(const arguments *a)
{
    if (a->help) {
        fputs(usage, stdout);
        return RHUMB_EXIT_OK;
    }
    if (a->configs != NULL)
        return check_configs(a->configs, a->json);
    if (a->path_count != 0)
        return check_cases(&a->options, a->reference, a->json, a->paths, a->path_count);
    return check_device(&a->options, &a->choice, a->table, a->json);
}

int rhumb_command_check(int argc, char **argv)
{
    arguments a = {.json = false};
    rhumb_limits floor_limits;
    command_line line;
    int status;

    a.paths = calloc((size_t)argc + 1, sizeof *a.paths);
    if (a.paths == NULL)
        return command_error("check", "no host memory");
    read_arguments(argc, argv, &line, &a);
    rhumb_init_limits_floor(&floor_limits);
    if (a.floor)
        a.options.clamp = &floor_limits;
    status = line.error[0] != '\0' ? command_usage_error("check", "%s", line.error) : run_check(&a);
    free(a.paths);
    return status;
}
