#include "commands.h"

#include <rhumb/rhumb.h>

#include <stdio.h>

typedef struct command {
    const char *name;
    int (*run)(int argc, char **argv);
    const char *summary;
} command;

static const command commands[] = {
    {"check", rhumb_command_check,
     "compare rotation and attention, or golden files of any operation, with references"},
    {"run", rhumb_command_run, "a model's layer, or any operation with any scheme, on tensors from files"},
    {"describe", rhumb_command_describe, "what a model's config.json resolves to, and why"},
    {"devices", rhumb_command_devices,
     "devices, their limits, and the variants of rotate and attention"},
    {"modules", rhumb_command_modules,
     "the pipelines of a plan: resources, registers, machine code of the driver"},
    {"bench", rhumb_command_bench, "rates of the operations against the limits of the device"},
};

#define COMMAND_COUNT (sizeof commands / sizeof commands[0])

static void print_usage(FILE *to)
{
    fputs("usage: rhumb COMMAND [ARGUMENTS]\n\n", to);
    for (size_t i = 0; i < COMMAND_COUNT; i++)
        fprintf(to, "  %-10s %s\n", commands[i].name, commands[i].summary);
    fputs("\n  --version  version of the tool\n  --help     this text; rhumb COMMAND --help for a "
          "command's\n\n"
          "Exit status: 0 done, 1 a check failed or something could not be done, 2 wrong "
          "arguments.\n",
          to);
}

static int run_command(int argc, char **argv)
{
    if (argc < 2) {
        print_usage(stderr);
        return RHUMB_EXIT_USAGE;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 ||
        strcmp(argv[1], "help") == 0) {
        print_usage(stdout);
        return RHUMB_EXIT_OK;
    }
    if (strcmp(argv[1], "--version") == 0) {
        printf("rhumb %d.%d.%d\n", RHUMB_VERSION_MAJOR, RHUMB_VERSION_MINOR, RHUMB_VERSION_PATCH);
        return RHUMB_EXIT_OK;
    }
    for (size_t i = 0; i < COMMAND_COUNT; i++) {
        if (strcmp(argv[1], commands[i].name) == 0)
            return commands[i].run(argc - 1, argv + 1);
    }
    fprintf(stderr, "rhumb: no command \"%.60s\"; rhumb --help lists them\n", argv[1]);
    return RHUMB_EXIT_USAGE;
}

/* In one place for every command: a full disk must not look like success. */
int main(int argc, char **argv)
{
    const int status = run_command(argc, argv);

    if (fflush(stdout) == 0 && !ferror(stdout))
        return status;
    fputs("rhumb: the results could not be written to standard output\n", stderr);
    return RHUMB_EXIT_FAILED;
}
