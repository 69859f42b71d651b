#define _POSIX_C_SOURCE 200809L /* popen */

#include "command.h"
#include "harness.h"

#include <criterion/criterion.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

static void read_all(command_output *output, FILE *pipe)
{
    char part[4096];
    size_t got;
    while ((got = fread(part, 1, sizeof part, pipe)) > 0) {
        output->text = realloc(output->text, output->size + got + 1);
        cr_assert_not_null(output->text);
        memcpy(output->text + output->size, part, got);
        output->size += got;
    }
    if (output->text == NULL) {
        output->text = harness_alloc(1, 1);
    }
    output->text[output->size] = '\0';
}

command_output command_run(const char *format, ...)
{
    command_output output = {0};
    char command[4096];
    va_list args;
    FILE *pipe;
    int status;
    va_start(args, format);
    vsnprintf(command, sizeof command - 8, format, args);
    va_end(args);
    strcat(command, " 2>&1");
    pipe = popen(command, "r");
    cr_assert_not_null(pipe, "cannot run %s", command);
    read_all(&output, pipe);
    status = pclose(pipe);
    output.status = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    for (size_t i = 0; i < output.size; i++) {
        if (output.text[i] == '\n') {
            output.text[i] = '\0';
            output.lines++;
        }
    }
    return output;
}

void command_free(command_output *output)
{
    free(output->text);
    memset(output, 0, sizeof *output);
}

const char *command_next(const command_output *output, const char *line)
{
    const char *next = line == NULL ? output->text : line + strlen(line) + 1;
    return next < output->text + output->size ? next : NULL;
}

static const char *root(const char *variable)
{
    const char *value = getenv(variable);
    cr_assert(value != NULL && value[0] != '\0', "%s is not set", variable);
    return value;
}

const char *command_build_root(void)
{
    return root("RHUMB_TEST_BUILD_ROOT");
}

const char *command_source_root(void)
{
    return root("RHUMB_TEST_SOURCE_ROOT");
}
