/* What the commands share: reading arguments, names of enums, choosing a device. */
#ifndef RHUMB_TOOLS_COMMAND_LINE_H
#define RHUMB_TOOLS_COMMAND_LINE_H

#include "gpu.h"

/* Walks over argv[1] to argv[argc - 1]. Every function below returns true if it took the argument
 * at `at`; a wrong or missing value leaves a line in `error` and takes the argument too. */
typedef struct command_line {
    int argc;
    char **argv;
    int at;
    char error[256]; /* "" while all is well */
} command_line;

void command_line_begin(command_line *line, int argc, char **argv);
bool command_line_more(const command_line *line);

/* "--name" */
bool command_line_flag(command_line *line, const char *name, bool *value);

/* "--name TEXT" or "--name=TEXT" */
bool command_line_text(command_line *line, const char *name, const char **value);

/* The same with a decimal integer from minimum to maximum. */
bool command_line_integer(command_line *line, const char *name, int64_t minimum, int64_t maximum,
                          int64_t *value);

/* "--device INDEX", or part of a name or UUID. "--validation" turns the layer on. */
bool command_line_device(command_line *line, gpu_options *options);

/* Takes the argument as unknown. */
void command_line_unknown(command_line *line);

/* "rhumb COMMAND: LINE" on stderr; returns RHUMB_EXIT_USAGE, RHUMB_EXIT_FAILED. */
int command_usage_error(const char *command, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
int command_error(const char *command, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* A line on stderr that replaces the one before, only if stderr is a terminal; NULL clears it. */
void command_progress(const char *text);

const char *command_dtype_name(rhumb_dtype dtype);       /* "f32" */
bool command_dtype_from_name(const char *name, rhumb_dtype *dtype);
const char *command_variant_name(rhumb_variant variant); /* "generic" */
const char *command_op_name(rhumb_op op);                /* "rotate" */
/* Of the operations up to `last`. */
bool command_op_from_name(const char *name, rhumb_op last, rhumb_op *op);
const char *command_view_name(rhumb_view_id id);         /* "query_table" */
/* Of `length` characters; also the names that rhumb.h has beside those of the ids. */
bool command_view_from_name(const char *name, size_t length, rhumb_view_id *id);

/* Opens the chosen device. An error is told in the user's terms: no function of the library in
 * front, and where the device that was asked for is not there, how to find those that are. */
rhumb_result command_open_device(const gpu_options *options, gpu **g, char *error, size_t size);
/* The same of the line that another way of opening it has left; returns `result`. */
rhumb_result command_device_error(const gpu_options *options, rhumb_result result, char *error,
                                  size_t size);

/* "1.50 GFLOP" into text, for 1.5e9 and "FLOP"; returns text. */
const char *command_amount_text(double amount, const char *unit, char *text, size_t size);

/* "12.3 us" into text; returns text. */
const char *command_time_text(double ns, char *text, size_t size);

#endif /* RHUMB_TOOLS_COMMAND_LINE_H */
