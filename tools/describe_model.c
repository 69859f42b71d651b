#include "describe_model.h"

#include <rhumb/rhumb_schemes.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* 1e+06 is a million to a program; a reader wants 1000000. Longer ones keep their exponent. */
static void copy_value(char *to, size_t size, const char *value)
{
    char *end = NULL;
    const double number = strtod(value, &end);

    if (end != value && *end == '\0' && strchr(value, 'e') != NULL && fabs(number) < 1e15 &&
        floor(number) == number)
        (void)snprintf(to, size, "%.0f", number);
    else
        (void)snprintf(to, size, "%s", value);
}

static void add_row(void *user, const char *kind, const char *field, const char *value,
                    const char *source)
{
    describe_report *report = user;
    describe_row *row;

    if (report->row_count == report->row_capacity) {
        uint32_t capacity = report->row_capacity > 0 ? 2 * report->row_capacity : 32;
        describe_row *rows = realloc(report->rows, capacity * sizeof *rows);
        if (rows == NULL) {
            report->rows_lost = 1;
            return;
        }
        report->rows = rows;
        report->row_capacity = capacity;
    }
    row = &report->rows[report->row_count++];
    (void)snprintf(row->kind, sizeof row->kind, "%s", kind);
    (void)snprintf(row->field, sizeof row->field, "%s", field);
    copy_value(row->value, sizeof row->value, value);
    (void)snprintf(row->source, sizeof row->source, "%s", source);
}

static rhumb_result resolve(const rhumb_model_config *config, describe_report *report)
{
    rhumb_keys_info info;

    rhumb_init_keys_info(&info);
    rhumb_init_layer_kind(&report->kinds[0]);
    info.keys = config->keys;
    info.key_count = config->key_count;
    info.kinds = report->kinds;
    info.kind_capacity = DESCRIBE_MAX_KINDS;
    info.arena = report->arena;
    info.arena_size = sizeof report->arena;
    info.trace = add_row;
    info.trace_user = report;
    info.message = report->message;
    info.message_size = sizeof report->message;
    report->result = rhumb_scheme_from_keys(&info, &report->kind_count);
    if (report->result == RHUMB_OK && report->rows_lost) {
        report->result = RHUMB_ERROR_HOST_MEMORY;
        (void)snprintf(report->message, sizeof report->message, "no memory for the report");
    }
    return report->result;
}

rhumb_result describe_model_file(const char *path, describe_report *report)
{
    rhumb_model_config config;

    memset(report, 0, sizeof *report);
    report->result =
        rhumb_model_read_config(path, &config, report->message, sizeof report->message);
    if (report->result != RHUMB_OK)
        return report->result;
    (void)resolve(&config, report);
    rhumb_model_free_config(&config);
    return report->result;
}

rhumb_result describe_model_text(const char *text, size_t size, describe_report *report)
{
    rhumb_model_config config;

    memset(report, 0, sizeof *report);
    report->result =
        rhumb_model_parse_config(text, size, &config, report->message, sizeof report->message);
    if (report->result != RHUMB_OK)
        return report->result;
    (void)resolve(&config, report);
    rhumb_model_free_config(&config);
    return report->result;
}

void describe_free(describe_report *report)
{
    free(report->rows);
    report->rows = NULL;
    report->row_count = 0;
    report->row_capacity = 0;
}

const char *describe_value(const describe_report *report, const char *kind, const char *field)
{
    uint32_t i;

    for (i = 0; i < report->row_count; i++) {
        if (strcmp(report->rows[i].kind, kind) == 0 && strcmp(report->rows[i].field, field) == 0)
            return report->rows[i].value;
    }
    return NULL;
}

const rhumb_layer_kind *describe_kind(const describe_report *report, const char *name,
                                      char *message, size_t message_size)
{
    size_t length;

    for (uint32_t i = 0; i < report->kind_count; i++) {
        if (name == NULL || strcmp(report->kinds[i].name, name) == 0)
            return &report->kinds[i];
    }
    length = (size_t)snprintf(message, message_size,
                              "--kind: the model has no layers \"%.60s\"; it has ",
                              name != NULL ? name : "");
    for (uint32_t i = 0; i < report->kind_count && length < message_size; i++)
        length += (size_t)snprintf(message + length, message_size - length, "%s\"%s\"",
                                   i > 0 ? ", " : "", report->kinds[i].name);
    return NULL;
}

const char *describe_beyond(const rhumb_layer_kind *kind, rhumb_op op)
{
    const rhumb_header *rotary = kind->rotary;

    if (rotary != NULL && rotary->type == RHUMB_TYPE_ROPE2D)
        return "positions on a grid";
    if (op != RHUMB_OP_ATTENTION)
        return NULL;
    if (kind->scheme != NULL)
        return "relative positions in their logits";
    if (kind->sinks)
        return "attention sinks";
    if (kind->temperature != 0.0)
        return "a temperature of their queries that grows with the position";
    return NULL;
}
