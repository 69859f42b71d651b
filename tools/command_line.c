#define _POSIX_C_SOURCE 200809L /* isatty */

#include "command_line.h"
#include "commands.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

void command_line_begin(command_line *line, int argc, char **argv)
{
    memset(line, 0, sizeof *line);
    line->argc = argc;
    line->argv = argv;
    line->at = 1;
}

bool command_line_more(const command_line *line)
{
    return line->at < line->argc && line->error[0] == '\0';
}

bool command_line_flag(command_line *line, const char *name, bool *value)
{
    if (strcmp(line->argv[line->at], name) != 0)
        return false;
    *value = true;
    line->at++;
    return true;
}

bool command_line_text(command_line *line, const char *name, const char **value)
{
    const char *argument = line->argv[line->at];
    const size_t length = strlen(name);

    if (strncmp(argument, name, length) != 0 ||
        (argument[length] != '\0' && argument[length] != '='))
        return false;
    line->at++;
    if (argument[length] == '=')
        *value = argument + length + 1;
    else if (line->at < line->argc)
        *value = line->argv[line->at++];
    else
        snprintf(line->error, sizeof line->error, "%s wants a value, there is none", name);
    if (line->error[0] == '\0' && (*value)[0] == '\0')
        snprintf(line->error, sizeof line->error, "%s wants a value, it is empty", name);
    return true;
}

bool command_line_integer(command_line *line, const char *name, int64_t minimum, int64_t maximum,
                          int64_t *value)
{
    const char *text = NULL;
    char *end = NULL;
    long long number;

    if (!command_line_text(line, name, &text))
        return false;
    if (line->error[0] != '\0')
        return true;
    errno = 0;
    number = strtoll(text, &end, 10);
    if (errno != 0 || end == text || *end != '\0' || number < minimum || number > maximum)
        snprintf(line->error, sizeof line->error,
                 "%s wants an integer from %lld to %lld, not \"%.60s\"", name, (long long)minimum,
                 (long long)maximum, text);
    else
        *value = number;
    return true;
}

static void choose_device(const char *text, gpu_options *options)
{
    const size_t digits = strspn(text, "0123456789");

    options->device_index = RHUMB_DEVICE_ANY;
    options->device_name = NULL;
    if (digits == strlen(text) && digits < 6) /* longer ones are part of a UUID */
        options->device_index = (uint32_t)strtoul(text, NULL, 10);
    else
        options->device_name = text;
}

bool command_line_device(command_line *line, gpu_options *options)
{
    const char *text = NULL;
    bool validation = false;

    if (command_line_flag(line, "--validation", &validation)) {
        options->validation = 1;
        return true;
    }
    if (!command_line_text(line, "--device", &text))
        return false;
    if (line->error[0] == '\0')
        choose_device(text, options);
    return true;
}

void command_line_unknown(command_line *line)
{
    snprintf(line->error, sizeof line->error, "unknown argument \"%.120s\"",
             line->argv[line->at++]);
}

static void error_line(const char *command, const char *format, va_list arguments)
    __attribute__((format(printf, 2, 0)));

static void error_line(const char *command, const char *format, va_list arguments)
{
    fprintf(stderr, "rhumb %s: ", command);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
}

int command_usage_error(const char *command, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    error_line(command, format, arguments);
    va_end(arguments);
    return RHUMB_EXIT_USAGE;
}

int command_error(const char *command, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    error_line(command, format, arguments);
    va_end(arguments);
    return RHUMB_EXIT_FAILED;
}

void command_progress(const char *text)
{
    if (!isatty(STDERR_FILENO))
        return;
    fprintf(stderr, "\r\033[K%s", text != NULL ? text : "");
    fflush(stderr);
}

const char *command_dtype_name(rhumb_dtype dtype)
{
    static const char *const names[] = {"f32", "f16", "bf16", "i32"};

    return (uint32_t)dtype < 4 ? names[dtype] : "?";
}

bool command_dtype_from_name(const char *name, rhumb_dtype *dtype)
{
    static const rhumb_dtype floats[] = {RHUMB_F32, RHUMB_F16, RHUMB_BF16};

    for (size_t i = 0; i < sizeof floats / sizeof floats[0]; i++) {
        if (strcmp(name, command_dtype_name(floats[i])) == 0) {
            *dtype = floats[i];
            return true;
        }
    }
    return false;
}

const char *command_variant_name(rhumb_variant variant)
{
    static const char *const names[] = {"auto", "generic", "tile", "decode", "unfused", "broadcast"};

    return (uint32_t)variant < sizeof names / sizeof *names ? names[variant] : "?";
}

const char *command_op_name(rhumb_op op)
{
    static const char *const names[] = {"?",      "rotate", "attention", "encode",
                                        "resize", "bias",   "scores",    "project",
                                        "combine"};

    return (uint32_t)op < sizeof names / sizeof *names ? names[op] : "?";
}

bool command_op_from_name(const char *name, rhumb_op last, rhumb_op *op)
{
    for (int i = RHUMB_OP_ROTATE; i <= (int)last; i++) {
        *op = (rhumb_op)i;
        if (strcmp(name, command_op_name(*op)) == 0)
            return true;
    }
    return false;
}

static const struct view_name {
    const char *name;
    rhumb_view_id id;
} view_names[] = {
    {"q", RHUMB_VIEW_Q},
    {"k", RHUMB_VIEW_K},
    {"v", RHUMB_VIEW_V},
    {"o", RHUMB_VIEW_O},
    {"q_out", RHUMB_VIEW_Q_OUT},
    {"k_out", RHUMB_VIEW_K_OUT},
    {"positions_q", RHUMB_VIEW_POSITIONS_Q},
    {"positions_k", RHUMB_VIEW_POSITIONS_K},
    {"lengths", RHUMB_VIEW_LENGTHS},
    {"status", RHUMB_VIEW_STATUS},
    {"v_out", RHUMB_VIEW_V_OUT},
    {"slots", RHUMB_VIEW_SLOTS},
    {"q_gain", RHUMB_VIEW_Q_GAIN},
    {"k_gain", RHUMB_VIEW_K_GAIN},
    {"frequencies", RHUMB_VIEW_FREQUENCIES},
    {"table", RHUMB_VIEW_TABLE},
    {"query_table", RHUMB_VIEW_QUERY_TABLE},
    {"key_table", RHUMB_VIEW_KEY_TABLE},
    {"value_table", RHUMB_VIEW_VALUE_TABLE},
    {"table_scalar", RHUMB_VIEW_TABLE_SCALAR},
    {"content_bias", RHUMB_VIEW_CONTENT_BIAS},
    {"position_bias", RHUMB_VIEW_POSITION_BIAS},
    {"segment_bias", RHUMB_VIEW_SEGMENT_BIAS},
    {"segment_table", RHUMB_VIEW_SEGMENT_TABLE},
    {"segments_q", RHUMB_VIEW_SEGMENTS_Q},
    {"segments_k", RHUMB_VIEW_SEGMENTS_K},
    {"mask", RHUMB_VIEW_MASK},
    {"row_scale", RHUMB_VIEW_ROW_SCALE},
    {"head_scale", RHUMB_VIEW_HEAD_SCALE},
    {"workspace", RHUMB_VIEW_WORKSPACE},
    {"sinks", RHUMB_VIEW_SINKS},
    {"lse", RHUMB_VIEW_LSE},
    {"x", RHUMB_VIEW_X},
    {"y", RHUMB_VIEW_Y},
    {"weight", RHUMB_VIEW_WEIGHT},
    {"offset", RHUMB_VIEW_OFFSET},
    {"positions", RHUMB_VIEW_POSITIONS},
    {"column_table", RHUMB_VIEW_COLUMN_TABLE},
    {"valid", RHUMB_VIEW_VALID},
    {"block_table", RHUMB_VIEW_BLOCK_TABLE},
    {"q_starts", RHUMB_VIEW_Q_STARTS},
    {"k_starts", RHUMB_VIEW_K_STARTS},
    {"parts", RHUMB_VIEW_PARTS},
    {"part_lse", RHUMB_VIEW_PART_LSE},
};

const char *command_view_name(rhumb_view_id id)
{
    return (uint32_t)id < RHUMB_VIEW_COUNT ? view_names[id].name : "?";
}

bool command_view_from_name(const char *name, size_t length, rhumb_view_id *id)
{
    for (size_t i = 0; i < sizeof view_names / sizeof *view_names; i++) {
        const struct view_name *v = &view_names[i];
        if (strlen(v->name) == length && strncmp(v->name, name, length) == 0) {
            *id = v->id;
            return true;
        }
    }
    return false;
}

rhumb_result command_device_error(const gpu_options *options, rhumb_result result, char *error,
                                  size_t size)
{
    static const char function[] = "create_standalone: ";
    const bool chosen =
        options->device_name != NULL || options->device_index != RHUMB_DEVICE_ANY;
    size_t length;

    if (strncmp(error, function, strlen(function)) == 0)
        memmove(error, error + strlen(function), strlen(error + strlen(function)) + 1);
    length = strlen(error);
    if (result == RHUMB_ERROR_NO_DEVICE && chosen)
        snprintf(error + length, size - length, "; rhumb devices lists them");
    return result;
}

rhumb_result command_open_device(const gpu_options *options, gpu **g, char *error, size_t size)
{
    const rhumb_result result = gpu_open(options, g, error, size);

    return result == RHUMB_OK ? result : command_device_error(options, result, error, size);
}

const char *command_amount_text(double amount, const char *unit, char *text, size_t size)
{
    static const char *const prefixes[] = {"", "k", "M", "G", "T"};
    size_t i = 0;

    while (amount >= 999.5 && i + 1 < sizeof prefixes / sizeof prefixes[0]) {
        amount *= 1e-3;
        i++;
    }
    snprintf(text, size, "%.*f %s%s", amount < 10.0 ? 2 : amount < 100.0 ? 1 : 0, amount,
             prefixes[i], unit);
    return text;
}

const char *command_time_text(double ns, char *text, size_t size)
{
    if (ns < 1e6)
        snprintf(text, size, "%.1f us", ns * 1e-3);
    else if (ns < 1e9)
        snprintf(text, size, "%.2f ms", ns * 1e-6);
    else
        snprintf(text, size, "%.2f s", ns * 1e-9);
    return text;
}
