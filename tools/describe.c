#include "command_line.h"
#include "commands.h"
#include "describe_model.h"

#include <stdio.h>
#include <stdlib.h>

static const char usage[] =
    "usage: rhumb describe CONFIG.JSON [--json]\n\n"
    "What a model's configuration resolves to: for each kind of layer every value, and the key or "
    "the\n"
    "rule that it comes from. A configuration that lacks a needed key, contradicts itself or "
    "belongs to\n"
    "a model that rhumb does not know is refused with the reason. Known traps that a configuration "
    "comes\n"
    "near are warned of on stderr.\n\n"
    "  --json  one JSON object: the keys that check --configs compares, which name what tells "
    "models\n"
    "          apart, with the frequencies; and layer_kinds\n"
    "  --help  this text\n\n"
    "layer_kinds is a list with an object for each kind of layer:\n"
    "  name                    as the table has it\n"
    "  causal\n"
    "  sliding_window          keys that a query sees, up to and with its own; null: all\n"
    "  window_right            keys that it sees after its own, only where they are limited\n"
    "  attn_logit_softcapping  null: none\n"
    "  softmax_scale, heads, kv_heads, head_dim\n"
    "                          null: not known\n"
    "  sinks                   true, where the softmax has one more learned logit a head\n"
    "  and what else differs between the kinds, as scheme or rope_theta, under the names of the "
    "table;\n"
    "  null: not of this kind\n\n"
    "A table of a grid's patches has the scheme learned in the object: its rows are in the tokens' "
    "order.\n"
    "layer_kinds and the table call it learned2d, as the library does.\n\n"
    "Exit status: 0 done, 1 the configuration could not be read or is refused, 2 wrong "
    "arguments.\n";

typedef struct table_widths {
    int kind;
    int field;
    int value;
} table_widths;

static int wider(int width, const char *text)
{
    int length = (int)strlen(text);

    return length > width ? length : width;
}

static bool is_warning(const describe_row *row)
{
    return strcmp(row->field, "warning") == 0;
}

static void print_table(const describe_report *report)
{
    table_widths w = {(int)strlen("layer kind"), (int)strlen("field"), (int)strlen("value")};

    for (uint32_t i = 0; i < report->row_count; i++) {
        if (is_warning(&report->rows[i]))
            continue;
        w.kind = wider(w.kind, report->rows[i].kind);
        w.field = wider(w.field, report->rows[i].field);
        w.value = wider(w.value, report->rows[i].value);
    }
    printf("%-*s  %-*s  %-*s  %s\n", w.kind, "layer kind", w.field, "field", w.value, "value",
           "source");
    for (uint32_t i = 0; i < report->row_count; i++) {
        const describe_row *row = &report->rows[i];
        if (!is_warning(row))
            printf("%-*s  %-*s  %-*s  %s\n", w.kind, row->kind, w.field, row->field, w.value,
                   row->value, row->source);
    }
}

/* Each trap once, although several kinds of layers may come near it. */
static void print_warnings(const describe_report *report)
{
    for (uint32_t i = 0; i < report->row_count; i++) {
        const describe_row *row = &report->rows[i];
        bool seen = false;
        for (uint32_t k = 0; k < i; k++) {
            const describe_row *other = &report->rows[k];
            seen |= is_warning(other) && strcmp(other->value, row->value) == 0 &&
                    strcmp(other->source, row->source) == 0;
        }
        if (is_warning(row) && !seen)
            fprintf(stderr, "rhumb describe: warning: %s: %s\n", row->value, row->source);
    }
}

/* Both forms are made before anything is printed: no half table in front of an error. */
static int print_report(describe_report *report, bool json)
{
    char *text = json ? describe_json_kinds(report) : describe_json(report);

    if (!text)
        return command_error("describe", "%s", report->message[0] ? report->message : "no memory");
    print_warnings(report);
    if (json)
        fputs(text, stdout);
    else
        print_table(report);
    free(text);
    return RHUMB_EXIT_OK;
}

static int describe(const char *path, bool json)
{
    describe_report *report = malloc(sizeof *report);
    int status;

    if (!report)
        return command_error("describe", "no memory");
    if (describe_model_file(path, report) == RHUMB_OK)
        status = print_report(report, json);
    else
        status = command_error("describe", "%s", report->message);
    describe_free(report);
    free(report);
    return status;
}

int rhumb_command_describe(int argc, char **argv)
{
    command_line line;
    const char *path = NULL;
    bool json = false;
    bool help = false;

    command_line_begin(&line, argc, argv);
    while (command_line_more(&line)) {
        if (command_line_flag(&line, "--json", &json) || command_line_flag(&line, "--help", &help))
            continue;
        if (line.argv[line.at][0] != '-' && !path)
            path = line.argv[line.at++];
        else
            command_line_unknown(&line);
    }
    if (line.error[0] != '\0')
        return command_usage_error("describe", "%s", line.error);
    if (help) {
        fputs(usage, stdout);
        return RHUMB_EXIT_OK;
    }
    if (!path)
        return command_usage_error("describe", "wanted a configuration file, found none");
    return describe(path, json);
}
