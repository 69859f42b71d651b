/* What a model's configuration resolves to: shared by `rhumb describe`, `rhumb run`,
 * `rhumb modules` and `rhumb check --configs`. Prints nothing. */
#ifndef RHUMB_TOOLS_DESCRIBE_MODEL_H
#define RHUMB_TOOLS_DESCRIBE_MODEL_H

#include <rhumb/rhumb.h>
#include <rhumb/rhumb_model.h>

#define DESCRIBE_MAX_KINDS 8
#define DESCRIBE_ARENA_BYTES 16384
#define DESCRIBE_MESSAGE_BYTES 512

/* One resolved value and where it came from. */
typedef struct describe_row {
    char kind[32]; /* layer kind */
    char field[48];
    char value[64];
    char source[192]; /* key of the configuration, or the rule; of field "warning": the trap */
} describe_row;

/* Large (about 20 KiB): static or heap rather than a deep stack. The scheme structs that `kinds`
 * point to lie inside the report: do not copy it. */
typedef struct describe_report {
    rhumb_result result;                  /* what resolving returned */
    char message[DESCRIBE_MESSAGE_BYTES]; /* one line if result is not RHUMB_OK */
    rhumb_layer_kind kinds[DESCRIBE_MAX_KINDS];
    uint32_t kind_count; /* 0 unless result is RHUMB_OK */
    uint32_t row_count;
    uint32_t row_capacity;
    uint32_t rows_lost; /* 1: a row found no memory */
    describe_row *rows; /* in the order they were resolved */
    _Alignas(16) unsigned char arena[DESCRIBE_ARENA_BYTES];
} describe_report;

/* Reads and resolves. Returns report->result; describe_free is due in either case. */
rhumb_result describe_model_file(const char *path, describe_report *report);
rhumb_result describe_model_text(const char *text, size_t size, describe_report *report);
void describe_free(describe_report *report);

/* The value of the first row of a kind and field, or NULL. */
const char *describe_value(const describe_report *report, const char *kind, const char *field);

/* The kind of a name (NULL: the first), or NULL with a line about --kind in `message`. */
const rhumb_layer_kind *describe_kind(const describe_report *report, const char *name,
                                      char *message, size_t message_size);

/* What an operation on these layers needs and the commands do not do; NULL: nothing. */
const char *describe_beyond(const rhumb_layer_kind *kind, rhumb_op op);

/* The report as a JSON object in the key names of the NAME.expected.json files, indented, ending in
 * a newline. Those name what tells models apart, not everything: where layer types have a schedule
 * each, softmax scales and, with heads of several sizes, windows are in the rows and in
 * describe_json_kinds alone. The caller
 * frees it with free(). NULL: no memory, or a schedule that has no frequencies; the reason is then
 * in report->message. Only for a report whose result is RHUMB_OK. */
char *describe_json(describe_report *report);

/* The same object with a list `layer_kinds` in addition: one object for each kind of layer, with
 * what the shared keys leave out (`rhumb describe --help` names its keys). */
char *describe_json_kinds(describe_report *report);

/* --- NAME.json against NAME.expected.json --- */

typedef enum describe_outcome {
    DESCRIBE_PASS = 0,
    DESCRIBE_FAIL = 1, /* detail: the key that differs, wanted and found */
    DESCRIBE_SKIP = 2, /* detail: "not implemented: ...": needs what this version has not */
} describe_outcome;

typedef void (*describe_result_fn)(void *user, const char *name, describe_outcome outcome,
                                   const char *detail);

/* Compares one pair: numbers to a relative 1e-6, integers, strings and lists' lengths exactly; keys
 * on one side only fail; `source`, `note`, `form`, `bias_layers`, `layer_pattern` are ignored. One
 * line goes to `detail` (never empty on FAIL and SKIP). */
describe_outcome describe_compare_pair(const char *config_path, const char *expected_path,
                                       char *detail, size_t detail_size);

/* Compares every pair of a folder, in the order of the names, and tells `result` of each. A file
 * without its partner is a FAIL. Returns the number of pairs, or -1 with one line in `message` when
 * the folder cannot be read or holds no pair. */
int describe_compare_dir(const char *dir, describe_result_fn result, void *user, char *message,
                         size_t message_size);

#endif
