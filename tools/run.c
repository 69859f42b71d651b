#include "command_line.h"
#include "commands.h"
#include "describe_model.h"
#include "json_out.h"
#include "run_model.h"

#include <stdio.h>
#include <stdlib.h>

static const char usage[] =
    "usage: rhumb run --config CONFIG.json (--input FILES | --random L) [--output FILES]\n"
    "                 [--op rotate|attention] [--kind NAME] [--causal] [--offset N] [--dtype "
    "f32|f16|bf16]\n"
    "                 [--check] [--seed N] [--device INDEX|NAME|UUID] [--floor] [--validation] "
    "[--json]\n\n"
    "Rotary embedding, or attention with it, of a model's layer. Attention (the default) rotates K "
    "by its\n"
    "row, and Q when it is loaded; rotate writes Q and K rotated. Positions are rows, from 0,\n"
    "as for text: on every axis where a model has several.\n\n"
    "  --config   the model's config.json (rhumb describe tells what it resolves to)\n"
    "  --op       attention (the default), or rotate\n"
    "  --input    tensors q, k, v (or in.q, in.k, in.v) of shape [B, heads, L, head_dim]: a "
    ".safetensors\n"
    "             file, or q.npy,k.npy,v.npy; rotate takes q alone too\n"
    "  --random   draws them: one batch entry of L rows, normal numbers\n"
    "  --seed     which numbers --random draws, 0 or more; default 1\n"
    "  --output   o, or q and k rotated: a .safetensors file, or o.npy, or q.npy,k.npy\n"
    "  --kind     which layers, where a model has several kinds; default the first\n"
    "  --causal   row a sees keys up to a + offset\n"
    "  --offset   position of the first row of Q; default 0 for rotate, Lk - Lq for attention\n"
    "  --dtype    converts the input; with --random the type drawn (default f32)\n"
    "  --check    compares with the double-precision reference; beyond the bound nothing is "
    "written\n"
    "  --device   an index, or part of a name or UUID (rhumb devices lists them); default the "
    "best\n"
    "  --floor    as if the device were the smallest that rhumb is right on\n"
    "  --validation\n"
    "             with the validation layer; if it has messages, nothing is written\n"
    "  --json     what was done, its time and the check's errors as JSON\n"
    "  --help     this text\n\n"
    "Exit status: 0 done, 1 a file, the device or the check failed, 2 wrong arguments.\n";

typedef struct arguments {
    gpu_options options;
    const char *config, *input, *output, *op, *kind, *dtype;
    int64_t random; /* 0: not given */
    int64_t offset; /* RHUMB_UNSET: not given */
    int64_t seed;
    bool causal, check, json, floor, help;
} arguments;

static void read_arguments(int argc, char **argv, command_line *line, arguments *a)
{
    gpu_init_options(&a->options);
    command_line_begin(line, argc, argv);
    while (command_line_more(line)) {
        if (!command_line_device(line, &a->options) &&
            !command_line_text(line, "--config", &a->config) &&
            !command_line_text(line, "--input", &a->input) &&
            !command_line_text(line, "--output", &a->output) &&
            !command_line_text(line, "--op", &a->op) &&
            !command_line_text(line, "--kind", &a->kind) &&
            !command_line_text(line, "--dtype", &a->dtype) &&
            !command_line_integer(line, "--random", 1, 1 << 20, &a->random) &&
            !command_line_integer(line, "--offset", -INT32_MAX, INT32_MAX, &a->offset) &&
            !command_line_integer(line, "--seed", 0, INT64_MAX, &a->seed) &&
            !command_line_flag(line, "--causal", &a->causal) &&
            !command_line_flag(line, "--check", &a->check) &&
            !command_line_flag(line, "--json", &a->json) &&
            !command_line_flag(line, "--floor", &a->floor) &&
            !command_line_flag(line, "--help", &a->help))
            command_line_unknown(line);
    }
}

/* What the arguments ask for, without the layer. */
static bool make_request(const arguments *a, run_request *request, char *error, size_t size)
{
    const char *wrong = NULL;

    memset(request, 0, sizeof *request);
    request->op = RHUMB_OP_ATTENTION;
    request->causal = a->causal;
    request->check = a->check;
    request->offset_given = a->offset != RHUMB_UNSET;
    request->offset = (int32_t)a->offset;
    request->dtype_given = a->dtype != NULL;
    if (a->config == NULL)
        wrong = "--config is required";
    else if (a->input != NULL && a->random != 0)
        wrong = "either --input or --random, not both";
    else if (a->input == NULL && a->random == 0)
        wrong = "one of --input and --random is required";
    else if (a->op != NULL && strcmp(a->op, "rotate") == 0)
        request->op = RHUMB_OP_ROTATE;
    else if (a->op != NULL && strcmp(a->op, "attention") != 0)
        wrong = "--op wants rotate or attention";
    if (wrong == NULL && a->dtype != NULL && !command_dtype_from_name(a->dtype, &request->dtype))
        wrong = "--dtype wants f32, f16 or bf16";
    if (wrong == NULL && request->op == RHUMB_OP_ROTATE && a->causal)
        wrong = "--causal goes with attention";
    if (wrong == NULL && request->op == RHUMB_OP_ROTATE && request->offset_given &&
        request->offset < 0)
        wrong = "--offset of rotate wants 0 or more";
    if (wrong != NULL)
        snprintf(error, size, "%s", wrong);
    return wrong == NULL;
}

static const rhumb_layer_kind *find_kind(const describe_report *report, const char *name)
{
    for (uint32_t i = 0; i < report->kind_count; i++) {
        if (name == NULL || strcmp(report->kinds[i].name, name) == 0)
            return &report->kinds[i];
    }
    return NULL;
}

/* ----------------------------------------------------------------------------------------------
 * Printing
 */
static void print_step(const char *name, const run_step *step)
{
    const double seconds = step->ns * 1e-9;
    char time[32], amount[32], rate[32];

    if (!step->ran)
        return;
    printf("%-10s %s, %s%s, %s, %s", name, command_variant_name(step->properties.variant),
           command_time_text(step->ns, time, sizeof time),
           step->host_clock ? " by the host's clock" : "",
           command_amount_text(step->bytes, "B", amount, sizeof amount),
           command_amount_text(step->bytes / seconds, "B/s", rate, sizeof rate));
    if (step->flops > 0.0)
        printf(", %s, %s", command_amount_text(step->flops, "FLOP", amount, sizeof amount),
               command_amount_text(step->flops / seconds, "FLOP/s", rate, sizeof rate));
    printf(" (%s)\n", step->properties.reason);
    if (step->checked)
        printf("%-10s max error %.2e, bound %.2e: %s\n", "  check", step->check.error,
               step->check.bound, step->check.pass ? "pass" : "FAIL");
}

static void print_text(const gpu *g, const arguments *a, const run_request *request,
                       const run_tensors *t, const run_steps *steps)
{
    const rhumb_layer_kind *kind = request->kind;

    printf("%-10s %s (%s)\n", "device", g->properties.deviceName,
           gpu_device_type_name(g->properties.deviceType));
    printf("%-10s %s: %u heads, %u kv_heads, head_dim %u, %s\n", "layer", kind->name, kind->heads,
           kind->kv_heads, kind->head_dim, kind->rotary != NULL ? "rotary" : "no rotary");
    printf("%-10s %s, B %llu, Lq %llu", "input", command_dtype_name(t->q.dtype),
           (unsigned long long)t->q.shape[0], (unsigned long long)t->q.shape[2]);
    if (t->k.present)
        printf(", Lk %llu", (unsigned long long)t->k.shape[2]);
    if (request->op == RHUMB_OP_ATTENTION)
        printf(", %s%s", request->causal ? "causal" : "not causal",
               !request->causal && kind->causal ? " (the model is: --causal)" : "");
    if (request->op == RHUMB_OP_ATTENTION && kind->window_left != RHUMB_NO_WINDOW)
        printf(", window %d", kind->window_left);
    putchar('\n');
    print_step("rotate", &steps->rotate);
    print_step("attention", &steps->attention);
    if (a->output != NULL)
        printf("%-10s %s\n", "output", a->output);
}

static void put_step(cJSON *root, const char *name, const run_step *step)
{
    cJSON *item;

    if (!step->ran)
        return;
    item = cJSON_AddObjectToObject(root, name);
    json_put_plan(item, &step->properties);
    cJSON_AddNumberToObject(item, "gpu_ns", step->ns);
    cJSON_AddStringToObject(item, "clock", step->host_clock ? "host" : "queue");
    cJSON_AddNumberToObject(item, "total_bytes", step->bytes);
    cJSON_AddNumberToObject(item, "gigabytes_per_second", step->bytes / step->ns);
    if (step->flops > 0.0) {
        cJSON_AddNumberToObject(item, "visible_flops", step->flops);
        cJSON_AddNumberToObject(item, "gigaflops_per_second", step->flops / step->ns);
    }
    if (step->checked) {
        cJSON_AddNumberToObject(item, "max_error", step->check.error);
        cJSON_AddNumberToObject(item, "bound", step->check.bound);
        cJSON_AddBoolToObject(item, "pass", step->check.pass);
    }
}

static void put_shape(cJSON *root, const char *name, const run_tensor *t)
{
    cJSON *list;

    if (!t->present)
        return;
    list = cJSON_AddArrayToObject(root, name);
    for (uint32_t i = 0; i < 4; i++)
        cJSON_AddItemToArray(list, cJSON_CreateNumber((double)t->shape[i]));
}

static int print_json(const gpu *g, const arguments *a, const run_request *request,
                      const run_tensors *t, const run_steps *steps)
{
    cJSON *root = cJSON_CreateObject();

    json_put_device(cJSON_AddObjectToObject(root, "device"), g);
    cJSON_AddStringToObject(root, "op", command_op_name(request->op));
    cJSON_AddStringToObject(root, "layer_kind", request->kind->name);
    cJSON_AddStringToObject(root, "dtype", command_dtype_name(t->q.dtype));
    cJSON_AddBoolToObject(root, "causal", request->causal);
    put_shape(root, "q", &t->q);
    put_shape(root, "k", &t->k);
    put_shape(root, "v", &t->v);
    put_step(root, "rotate", &steps->rotate);
    put_step(root, "attention", &steps->attention);
    if (a->output != NULL)
        cJSON_AddStringToObject(root, "output", a->output);
    return json_print(root);
}

/* ----------------------------------------------------------------------------------------------
 * Running
 */
static bool step_failed(const run_step *step)
{
    return step->checked && !step->check.pass;
}

static int finish(gpu *g, const arguments *a, const run_request *request, const run_tensors *t,
                  const run_steps *steps)
{
    const bool failed = step_failed(&steps->rotate) || step_failed(&steps->attention);
    tensor_error error = {.line = ""};
    uint32_t messages = atomic_load(&g->validation_count);

    if (messages != 0)
        return command_error("run", "%u validation messages, the first: %s", messages,
                             g->validation_first);
    if (!failed && a->output != NULL && !run_write(a->output, t, &error))
        return command_error("run", "%s", error.line);
    if (a->json && print_json(g, a, request, t, steps) != 0)
        return command_error("run", "no host memory for the JSON");
    if (!a->json)
        print_text(g, a, request, t, steps);
    if (failed)
        return command_error("run", "the result is beyond its bound%s",
                             a->output != NULL ? "; nothing was written" : "");
    return RHUMB_EXIT_OK;
}

static int compute(gpu *g, const arguments *a, const run_request *request, run_tensors *t)
{
    tensor_error message = {.line = ""};
    run_steps steps;
    int status;

    command_progress(request->check ? "computing, then the reference ..." : "computing ...");
    if (run_compute(g, request, t, &steps, &message)) {
        command_progress(NULL);
        status = finish(g, a, request, t, &steps);
    } else {
        command_progress(NULL);
        status = command_error("run", "%s", message.line);
    }
    return status;
}

/* The runtime's own domain, told before anything is computed. */
static bool check_offset(const run_request *request, const run_tensors *t, tensor_error *message)
{
    const long long highest = (long long)INT32_MAX - (long long)t->q.shape[2];
    const long long lowest = request->kind->rotary != NULL ? 0 : -(1LL << 30);

    if (!request->offset_given || (request->offset >= lowest && request->offset <= highest))
        return true;
    snprintf(message->line, sizeof message->line,
             "--offset wants %lld to %lld for %llu rows of Q%s, not %d", lowest, highest,
             (unsigned long long)t->q.shape[2],
             lowest == 0 ? ", as it is a position" : "", request->offset);
    return false;
}

/* Without --offset attention takes the last rows; they cannot be more than there are. */
static bool check_rows(const run_request *request, const run_tensors *t, tensor_error *message)
{
    if (request->op == RHUMB_OP_ROTATE || request->offset_given || request->kind->rotary == NULL ||
        t->q.shape[2] <= t->k.shape[2])
        return true;
    snprintf(message->line, sizeof message->line,
             "q has %llu rows and k %llu, so that the first row of Q would lie before position 0: "
             "give --offset",
             (unsigned long long)t->q.shape[2], (unsigned long long)t->k.shape[2]);
    return false;
}

static int run_tensors_on(gpu *g, const arguments *a, run_request *request)
{
    rhumb_limits limits;
    tensor_error message = {.line = ""};
    run_tensors t = {.dotted = false};
    int status;

    rhumb_init_limits(&limits);
    rhumb_get_limits(g->context, &limits);
    request->max_bytes = limits.max_storage_range;
    if (a->input != NULL ? !run_read(a->input, request, &t, &message)
                         : !run_draw((uint32_t)a->random, (uint64_t)a->seed, request, &t, &message))
        status = command_error("run", "%s", message.line);
    else if (!check_offset(request, &t, &message) ||
             (a->output != NULL && !run_check_output(a->output, request, &t, &message)))
        status = command_usage_error("run", "%s", message.line);
    else if (!check_rows(request, &t, &message))
        status = command_error("run", "%s", message.line);
    else
        status = compute(g, a, request, &t);
    run_tensors_free(&t);
    return status;
}

/* The device comes before the tensors: what it cannot bind is not worth drawing. */
static int run_layer(const arguments *a, run_request *request)
{
    char error[GPU_MESSAGE_SIZE] = "";
    gpu *g = NULL;
    int status;

    if (request->op == RHUMB_OP_ROTATE && request->kind->rotary == NULL)
        return command_error("run", "rotate: layers of kind \"%s\" have no rotary embedding",
                             request->kind->name);
    if (command_open_device(&a->options, &g, error, sizeof error) != RHUMB_OK)
        return command_error("run", "%s", error);
    status = run_tensors_on(g, a, request);
    gpu_close(g);
    return status;
}

static int unknown_kind(const describe_report *report, const char *name)
{
    char list[DESCRIBE_MAX_KINDS * 36] = "";
    size_t length = 0;

    for (uint32_t i = 0; i < report->kind_count; i++)
        length += (size_t)snprintf(list + length, sizeof list - length, "%s\"%s\"",
                                   i > 0 ? ", " : "", report->kinds[i].name);
    return command_usage_error("run", "--kind: the model has no layers \"%.60s\"; it has %s", name,
                               list);
}

static int run_config(const arguments *a, run_request *request)
{
    describe_report *report = calloc(1, sizeof *report);
    int status;

    if (report == NULL)
        return command_error("run", "no host memory");
    if (describe_model_file(a->config, report) != RHUMB_OK) {
        status = command_error("run", "%s", report->message);
    } else {
        request->kind = find_kind(report, a->kind);
        if (request->kind == NULL)
            status = unknown_kind(report, a->kind != NULL ? a->kind : "");
        else if (describe_beyond(request->kind, request->op) != NULL)
            status = command_error("run", "layers of kind \"%s\" have %s: not done here yet",
                                   request->kind->name,
                                   describe_beyond(request->kind, request->op));
        else
            status = run_layer(a, request);
    }
    describe_free(report);
    free(report);
    return status;
}

int rhumb_command_run(int argc, char **argv)
{
    arguments a = {.offset = RHUMB_UNSET, .seed = 1};
    rhumb_limits floor_limits;
    tensor_error message = {.line = ""};
    run_request request;
    command_line line;

    read_arguments(argc, argv, &line, &a);
    if (line.error[0] == '\0' && a.help) {
        fputs(usage, stdout);
        return RHUMB_EXIT_OK;
    }
    if (line.error[0] != '\0' || !make_request(&a, &request, line.error, sizeof line.error))
        return command_usage_error("run", "%s", line.error);
    if (!run_check_names(a.input, a.output, &message))
        return command_usage_error("run", "%s", message.line);
    rhumb_init_limits_floor(&floor_limits);
    if (a.floor)
        a.options.clamp = &floor_limits;
    return run_config(&a, &request);
}
