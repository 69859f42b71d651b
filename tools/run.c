#include "command_line.h"
#include "commands.h"
#include "describe_model.h"
#include "run_model.h"

#include <stdio.h>
#include <stdlib.h>

static const char usage[] =
    "usage: rhumb run --config CONFIG.json (--input FILES | --random L) [--output FILES]\n"
    "                 [--op rotate|attention] [--kind NAME] [--seed N]\n"
    "       rhumb run --scheme NAME --op OP [--params JSON] [--input FILES] [--output FILES]\n"
    "       both:     [--causal] [--offset N] [--dtype f32|f16|bf16] [--check]\n"
    "                 [--device INDEX|NAME|UUID] [--floor] [--validation] [--json]\n\n"
    "With --config: rotary embedding, or attention with it, of a model's layer. Attention (the\n"
    "default) rotates K by its row, and Q when it is loaded; rotate writes Q and K rotated.\n"
    "Positions are rows, from 0, as for text: on every axis where a model has several.\n"
    "With --scheme: any operation with any scheme. Before attention and scores of a rotary scheme\n"
    "K is rotated by positions_k, or by its row.\n\n"
    "  --config   the model's config.json (rhumb describe tells what it resolves to)\n"
    "  --scheme   a scheme of rhumb_schemes.h in lower case, as t5, or none\n"
    "  --params   a JSON object: parameters of the scheme by the names of rhumb_schemes.h or of\n"
    "             tests/goldens/PARAMS.md, enum values in lower case; and of the plan: heads,\n"
    "             kv_heads, head_dim, value_dim, q_len, k_len, batch (what the tensors do not say),\n"
    "             scale, causal, q_offset, window_left, window_right, mask_order, variant,\n"
    "             chunk, kept_keys, softcap, bias_after_softcap;\n"
    "             rotate: inverse, purpose, append, append_position, capacity, norm_epsilon,\n"
    "             gain_offset, old_length, new_length; project: weight_layout\n"
    "  --op       attention (the default), rotate; with --scheme also encode, resize, bias, scores\n"
    "             and project\n"
    "  --input    tensors q, k, v (or in.q, in.k, in.v) of shape [B, heads, L, head_dim]: a\n"
    "             .safetensors file, or q.npy,k.npy,v.npy; rotate takes q alone too. With --scheme\n"
    "             every view of the operation, named as rhumb.h names it in lower case or as\n"
    "             tests/goldens/PARAMS.md does; of .npy files table=t.npy,x=x.npy, also after a\n"
    "             .safetensors file and a comma. Tensors out.* are passed over\n"
    "  --random   draws them: one batch entry of L rows, normal numbers\n"
    "  --seed     which numbers --random draws, 0 or more; default 1\n"
    "  --output   o, or q and k rotated: a .safetensors file, or o.npy, or q.npy,k.npy. With\n"
    "             --scheme y, o, scores, bias or table\n"
    "  --kind     which layers, where a model has several kinds; default the first\n"
    "  --causal   row a sees keys up to a + offset\n"
    "  --offset   position of the first row of Q; default 0 for rotate and encode, else Lk - Lq\n"
    "  --dtype    converts the input; with --random the type drawn, without input that of the\n"
    "             result (default f32)\n"
    "  --check    compares with the double-precision reference; beyond the bound nothing is\n"
    "             written. Rotate and attention, without relative schemes\n"
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
    const char *config, *scheme, *params, *input, *output, *op, *kind, *dtype;
    int64_t random; /* 0: not given */
    int64_t offset; /* RHUMB_UNSET: not given */
    int64_t seed;   /* -1: not given */
    bool causal, check, json, floor, help;
} arguments;

static void read_arguments(int argc, char **argv, command_line *line, arguments *a)
{
    gpu_init_options(&a->options);
    command_line_begin(line, argc, argv);
    while (command_line_more(line)) {
        if (!command_line_device(line, &a->options) &&
            !command_line_text(line, "--config", &a->config) &&
            !command_line_text(line, "--scheme", &a->scheme) &&
            !command_line_text(line, "--params", &a->params) &&
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

/* What --config and --scheme want beside them, and not; NULL if all is well. */
static const char *combination(const arguments *a)
{
    if (a->config == NULL && a->scheme == NULL)
        return "--config is required, or --scheme";
    if (a->config != NULL && a->scheme != NULL)
        return "either --config or --scheme, not both";
    if (a->scheme != NULL && a->random != 0)
        return "--random goes with --config";
    if (a->scheme != NULL && a->seed >= 0)
        return "--seed goes with --random";
    if (a->scheme != NULL && a->kind != NULL)
        return "--kind goes with --config";
    if (a->config != NULL && a->params != NULL)
        return "--params goes with --scheme";
    if (a->input != NULL && a->random != 0)
        return "either --input or --random, not both";
    if (a->config != NULL && a->input == NULL && a->random == 0)
        return "one of --input and --random is required";
    return NULL;
}

/* Of the flags, which the parameters have too. */
static const char *set_flags(const arguments *a, run_request *request)
{
    const bool rotates = request->op == RHUMB_OP_ROTATE;
    run_plan *plan = &request->settings.plan;

    if (a->causal && request->op != RHUMB_OP_ATTENTION)
        return "--causal goes with attention";
    if (rotates && a->offset != RHUMB_UNSET && a->offset < 0 && a->config != NULL)
        return "--offset of rotate wants 0 or more";
    if (a->causal)
        plan->causal = 1;
    if (a->offset != RHUMB_UNSET)
        plan->q_offset = (int32_t)a->offset;
    return NULL;
}

/* What the arguments ask for, without the layer. */
static bool make_request(const arguments *a, run_request *request, tensor_error *error)
{
    const rhumb_op last = a->scheme != NULL ? RHUMB_OP_PROJECT : RHUMB_OP_ATTENTION;
    const char *wrong = combination(a);

    memset(request, 0, sizeof *request);
    run_plan_init(&request->settings.plan);
    request->check = a->check;
    request->dtype_given = a->dtype != NULL;
    request->op = RHUMB_OP_ATTENTION;
    if (wrong == NULL && a->op != NULL && !command_op_from_name(a->op, last, &request->op))
        wrong = a->scheme != NULL ? "--op wants rotate, attention, encode, resize, bias, scores or "
                                    "project"
                                  : "--op wants rotate or attention";
    if (wrong == NULL && a->dtype != NULL && !command_dtype_from_name(a->dtype, &request->dtype))
        wrong = "--dtype wants f32, f16 or bf16";
    if (wrong == NULL && a->scheme != NULL &&
        !run_settings_read(a->scheme, a->params, &request->settings, error))
        return false;
    if (wrong == NULL)
        wrong = set_flags(a, request);
    if (wrong != NULL)
        snprintf(error->line, sizeof error->line, "%s", wrong);
    return wrong == NULL;
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
    const bool failed = step_failed(&steps->keys) || step_failed(&steps->main);
    tensor_error error = {.line = ""};
    uint32_t messages = atomic_load(&g->validation_count);

    if (messages != 0)
        return command_error("run", "%u validation messages, the first: %s", messages,
                             g->validation_first);
    if (!failed && a->output != NULL && !run_write(a->output, request, t, &error))
        return command_error("run", "%s", error.line);
    if (a->json && run_print_json(g, request, t, steps, a->output) != 0)
        return command_error("run", "no host memory for the JSON");
    if (!a->json)
        run_print_text(g, request, t, steps, a->output);
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
    const int32_t offset = request->settings.plan.q_offset;
    const uint64_t rows = t->view[RHUMB_VIEW_Q].shape[2];
    const long long highest = (long long)INT32_MAX - (long long)rows;
    const long long lowest = run_rotary(request) != NULL ? 0 : -(1LL << 30);

    if (request->kind == NULL || offset == RHUMB_UNSET || (offset >= lowest && offset <= highest))
        return true;
    snprintf(message->line, sizeof message->line,
             "--offset wants %lld to %lld for %llu rows of Q%s, not %d", lowest, highest,
             (unsigned long long)rows, lowest == 0 ? ", as it is a position" : "", offset);
    return false;
}

/* Without --offset attention takes the last rows; they cannot be more than there are. */
static bool check_rows(const run_request *request, const run_tensors *t, tensor_error *message)
{
    const uint64_t q = t->view[RHUMB_VIEW_Q].shape[2], k = t->view[RHUMB_VIEW_K].shape[2];

    if (request->op != RHUMB_OP_ATTENTION || run_rotary(request) == NULL || q <= k ||
        request->settings.plan.q_offset != RHUMB_UNSET || t->view[RHUMB_VIEW_POSITIONS_Q].present)
        return true;
    snprintf(message->line, sizeof message->line,
             "q has %llu rows and k %llu, so that the first row of Q would lie before position 0: "
             "give --offset",
             (unsigned long long)q, (unsigned long long)k);
    return false;
}

static bool read_tensors(const arguments *a, run_request *request, run_tensors *t,
                         tensor_error *message)
{
    const uint64_t seed = a->seed >= 0 ? (uint64_t)a->seed : 1;

    if (a->input == NULL && a->random == 0)
        return true;
    return a->input != NULL ? run_read(a->input, request, t, message)
                            : run_draw((uint32_t)a->random, seed, request, t, message);
}

/* Lines that begin with an option are about the arguments. */
static int refused(const tensor_error *message)
{
    return strncmp(message->line, "--", 2) == 0 ? command_usage_error("run", "%s", message->line)
                                                : command_error("run", "%s", message->line);
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
    if (!read_tensors(a, request, &t, &message) || !check_offset(request, &t, &message) ||
        !check_rows(request, &t, &message) || !run_complete(request, &t, &message) ||
        !run_can_check(request, &t, &message) ||
        (a->output != NULL && !run_check_output(a->output, request, &t, &message)))
        status = refused(&message);
    else
        status = compute(g, a, request, &t);
    run_tensors_free(&t);
    return status;
}

/* The device comes before the tensors: what it cannot bind is not worth drawing. */
static int run_on_device(const arguments *a, run_request *request)
{
    char error[GPU_MESSAGE_SIZE] = "";
    gpu *g = NULL;
    int status;

    if (command_open_device(&a->options, &g, error, sizeof error) != RHUMB_OK)
        return command_error("run", "%s", error);
    status = run_tensors_on(g, a, request);
    gpu_close(g);
    return status;
}

static int run_layer(const arguments *a, run_request *request)
{
    const rhumb_layer_kind *kind = request->kind;

    if (request->op == RHUMB_OP_ROTATE && kind->rotary == NULL)
        return command_error("run", "rotate: layers of kind \"%s\" have no rotary embedding",
                             kind->name);
    run_settings_layer(kind, request->op, &request->settings);
    return run_on_device(a, request);
}

static int run_config(const arguments *a, run_request *request)
{
    describe_report *report = calloc(1, sizeof *report);
    char message[DESCRIBE_MESSAGE_BYTES] = "";
    int status;

    if (report == NULL)
        return command_error("run", "no host memory");
    if (describe_model_file(a->config, report) != RHUMB_OK) {
        status = command_error("run", "%s", report->message);
    } else {
        request->kind = describe_kind(report, a->kind, message, sizeof message);
        if (request->kind == NULL)
            status = command_usage_error("run", "%s", message);
        else if (describe_beyond(request->kind, request->op) != NULL)
            status =
                command_error("run", "layers of kind \"%s\" have %s: not done here yet",
                              request->kind->name, describe_beyond(request->kind, request->op));
        else
            status = run_layer(a, request);
    }
    describe_free(report);
    free(report);
    return status;
}

/* What can be said before a device is opened. */
static bool scheme_fits(const run_request *request, tensor_error *message)
{
    static const char *const kinds[] = {"rotary", "absolute", "relative", "resampling"};
    const scheme_entry *entry = request->settings.entry;
    const rhumb_op op = request->op;
    const bool second = entry != NULL && entry->type == RHUMB_TYPE_SWIN_V2;
    bool fits = true;

    if (entry == NULL)
        fits = op == RHUMB_OP_ATTENTION || op == RHUMB_OP_SCORES || op == RHUMB_OP_PROJECT;
    else if (op == RHUMB_OP_ENCODE)
        fits = entry->kind == SCHEME_absolute || second;
    else if (op == RHUMB_OP_ROTATE)
        fits = entry->kind == SCHEME_rotary;
    else if (op == RHUMB_OP_RESIZE)
        fits = entry->kind == SCHEME_resampling;
    else
        fits =
            entry->kind == SCHEME_relative ||
            (entry->kind == SCHEME_rotary && (op == RHUMB_OP_ATTENTION || op == RHUMB_OP_SCORES));
    if (!fits)
        snprintf(message->line, sizeof message->line,
                 "--scheme wants one that %s is of, not %s%s%s", command_op_name(op),
                 entry != NULL ? entry->name : "none", entry != NULL ? ", which is " : "",
                 entry != NULL ? kinds[entry->kind] : "");
    return fits;
}

static int run_request_of(const arguments *a, run_request *request)
{
    tensor_error message = {.line = ""};

    if (!make_request(a, request, &message) || !run_check_names(a->input, a->output, &message) ||
        (a->scheme != NULL && !scheme_fits(request, &message)))
        return command_usage_error("run", "%s", message.line);
    return a->config != NULL ? run_config(a, request) : run_on_device(a, request);
}

int rhumb_command_run(int argc, char **argv)
{
    arguments a = {.offset = RHUMB_UNSET, .seed = -1};
    rhumb_limits floor_limits;
    run_request request;
    command_line line;
    int status;

    read_arguments(argc, argv, &line, &a);
    if (line.error[0] != '\0')
        return command_usage_error("run", "%s", line.error);
    if (a.help) {
        fputs(usage, stdout);
        return RHUMB_EXIT_OK;
    }
    rhumb_init_limits_floor(&floor_limits);
    if (a.floor)
        a.options.clamp = &floor_limits;
    status = run_request_of(&a, &request);
    run_settings_free(&request.settings);
    return status;
}
