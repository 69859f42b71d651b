/* Output of a tool (nm, readelf, a compiler) as lines. */
#ifndef RHUMB_TESTS_COMMAND_H
#define RHUMB_TESTS_COMMAND_H

#include <stdbool.h>
#include <stddef.h>

typedef struct command_output {
    char *text;   /* lines, each ended by a zero byte; standard error is among them */
    size_t size;
    size_t lines;
    int status;   /* exit status; -1 if it did not exit */
} command_output;

/* Runs a shell command, printf-like. Fails the test if it cannot be started. Free with
 * command_free. */
command_output command_run(const char *format, ...) __attribute__((format(printf, 1, 2)));
void command_free(command_output *output);

/* The line after `line` (NULL: the first), or NULL. */
const char *command_next(const command_output *output, const char *line);

/* RHUMB_TEST_BUILD_ROOT and RHUMB_TEST_SOURCE_ROOT; fail the test if they are not set. */
const char *command_build_root(void);
const char *command_source_root(void);

#endif
