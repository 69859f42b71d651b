/* The commands of the rhumb tool, one file each. argv[0] is the command's name. They return the
 * exit status of the program. */
#ifndef RHUMB_TOOLS_COMMANDS_H
#define RHUMB_TOOLS_COMMANDS_H

#define RHUMB_EXIT_OK 0
#define RHUMB_EXIT_FAILED 1 /* a check failed, a file could not be read, no device */
#define RHUMB_EXIT_USAGE 2  /* wrong arguments */

int rhumb_command_check(int argc, char **argv);
int rhumb_command_run(int argc, char **argv);
int rhumb_command_describe(int argc, char **argv);
int rhumb_command_devices(int argc, char **argv);
int rhumb_command_modules(int argc, char **argv);
int rhumb_command_bench(int argc, char **argv); /* bench/bench.c */

#endif /* RHUMB_TOOLS_COMMANDS_H */
