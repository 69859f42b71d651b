#include "describe_model.h"

#include <rhumb/rhumb_schemes.h>

#include <cjson/cJSON.h>
#include <stdio.h>
#include <stdlib.h>

#define EDGE 4u /* frequencies shown at each end */

/* --- resolving --- */

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
    (void)snprintf(row->value, sizeof row->value, "%s", value);
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

/* --- report as JSON ----------------------------------------------------------------------------
 */

static const char *row_value(const describe_report *report, const char *kind, const char *field)
{
    uint32_t i;

    for (i = 0; i < report->row_count; i++) {
        if (strcmp(report->rows[i].kind, kind) == 0 && strcmp(report->rows[i].field, field) == 0)
            return report->rows[i].value;
    }
    return NULL;
}

static int put_number(cJSON *object, const char *name, double value)
{
    return cJSON_AddNumberToObject(object, name, value) != NULL;
}

static int put_text(cJSON *object, const char *name, const char *value)
{
    return cJSON_AddStringToObject(object, name, value) != NULL;
}

static int put_list(cJSON *object, const char *name, const double *values, uint32_t count)
{
    cJSON *list = cJSON_CreateDoubleArray(values, (int)count);

    if (list == NULL)
        return 0;
    if (cJSON_AddItemToObject(object, name, list))
        return 1;
    cJSON_Delete(list);
    return 0;
}

static int put_frequencies(cJSON *object, describe_report *report, const rhumb_layer_kind *kind)
{
    const rhumb_rope *rope = kind->rotary;
    uint32_t capacity = rope->rotary_dim / 2;
    double *frequencies = malloc((capacity + 1) * sizeof *frequencies);
    double magnitude;
    double sum = 0.0;
    uint32_t count;
    uint32_t edge;
    uint32_t i;
    int ok = 0;

    if (frequencies == NULL) {
        (void)snprintf(report->message, sizeof report->message, "no memory for %u frequencies",
                       capacity);
        return 0;
    }
    if (rhumb_rotary_frequencies(rope, kind->head_dim, frequencies, capacity, &count, &magnitude) !=
        RHUMB_OK) {
        (void)snprintf(report->message, sizeof report->message, "%s", rhumb_last_message(NULL));
        goto done;
    }
    edge = count < EDGE ? count : EDGE;
    for (i = 0; i < count; i++)
        sum += frequencies[i];
    ok = put_number(object, "attention_factor", magnitude) &&
         put_number(object, "inv_freq_count", count) &&
         put_list(object, "inv_freq_first", frequencies, edge) &&
         put_list(object, "inv_freq_last", frequencies + count - edge, edge) &&
         put_number(object, "inv_freq_sum", sum);
done:
    free(frequencies);
    return ok;
}

/* What differs between layer types of a model that has several schedules. */
static int put_schedule(cJSON *object, describe_report *report, const rhumb_layer_kind *kind)
{
    const rhumb_rope *rope = kind->rotary;
    int linear = rope->scaling == RHUMB_ROPE_SCALING_LINEAR;
    const char *part = row_value(report, kind->name, "partial_rotary_factor");

    return put_text(object, "rope_type", linear ? "linear" : "default") &&
           put_text(object, "layout",
                    rope->pairing == RHUMB_PAIRING_HALF ? "half" : "interleaved") &&
           put_number(object, "head_dim", kind->head_dim) &&
           put_number(object, "rotary_dim", rope->rotary_dim) &&
           put_number(object, "rotary_offset", rope->rotary_offset) &&
           put_number(object, "rope_theta", rope->base) && put_frequencies(object, report, kind) &&
           (!linear || put_number(object, "factor", rope->factor)) &&
           (part == NULL || put_number(object, "partial_rotary_factor", strtod(part, NULL)));
}

/* What all layers share, and the window of those that have one. */
static int put_shared(cJSON *object, const describe_report *report)
{
    const rhumb_layer_kind *first = &report->kinds[0];
    uint32_t i;

    if (!put_number(object, "heads", first->heads) ||
        !put_number(object, "kv_heads", first->kv_heads) ||
        !put_number(object, "softmax_scale", first->scale))
        return 0;
    for (i = 0; i < report->kind_count; i++) {
        if (report->kinds[i].window_left != RHUMB_NO_WINDOW)
            return put_number(object, "sliding_window", report->kinds[i].window_left);
    }
    return 1;
}

/* All kinds of a model have the same schedule so far (they share the struct); they differ in the
 * window. */
static cJSON *report_object(describe_report *report)
{
    cJSON *object = cJSON_CreateObject();

    (void)snprintf(report->message, sizeof report->message, "no memory for the report");
    if (object != NULL && put_text(object, "scheme", "rope") &&
        put_schedule(object, report, &report->kinds[0]) && put_shared(object, report)) {
        report->message[0] = '\0';
        return object;
    }
    cJSON_Delete(object);
    return NULL;
}

char *describe_json(describe_report *report)
{
    cJSON *object = report_object(report);
    char *text = NULL;
    char *grown = NULL;
    size_t length;

    if (object == NULL)
        return NULL;
    text = cJSON_Print(object);
    cJSON_Delete(object);
    if (text == NULL)
        return NULL;
    length = strlen(text);
    grown = realloc(text, length + 2);
    if (grown == NULL) {
        free(text);
        return NULL;
    }
    memcpy(grown + length, "\n", 2);
    return grown;
}
