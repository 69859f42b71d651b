/* Typed access to configuration keys, with the error lines. No heap. */
#ifndef RHUMB_MODEL_LOOKUP_H
#define RHUMB_MODEL_LOOKUP_H

#include <rhumb/rhumb.h>

typedef struct rhumb_lookup {
    const rhumb_key *keys;
    const char *scope; /* stands before every path: "", or "text_config." */
    uint32_t key_count;
    char *message; /* or NULL */
    size_t message_size;
} rhumb_lookup;

/* A resolved number and the key it came from or the rule that made it. */
typedef struct rhumb_sourced {
    double value;
    char source[128];
} rhumb_sourced;

/* Puts one line into the message and rhumb_last_message(NULL) (control characters become '?') and
 * returns `result`. */
#if defined(__GNUC__)
__attribute__((format(printf, 3, 4)))
#endif
rhumb_result
rhumb_lookup_fail(const rhumb_lookup *l, rhumb_result result, const char *format, ...);

/* ARGUMENT if a key's memory is not what its kind says, at any depth up to 32. */
rhumb_result rhumb_lookup_check(const rhumb_lookup *l);

/* The part of a key's path below scope and `object`, or NULL. */
const char *rhumb_lookup_below(const rhumb_lookup *l, const rhumb_key *key, const char *object);

/* *key is NULL if the path is absent; a null value is a key of kind NULL. CONFIG if it is there
 * twice. */
rhumb_result rhumb_lookup_find(const rhumb_lookup *l, const char *path, const rhumb_key **key);

/* The typed readers set *found to 0, and leave the value alone, if the path is absent or null.
 * CONFIG if it is of another kind, or outside [least, most] (a NaN always is). */
rhumb_result rhumb_lookup_number(const rhumb_lookup *l, const char *path, double least, double most,
                                 rhumb_sourced *value, int *found);
rhumb_result rhumb_lookup_integer(const rhumb_lookup *l, const char *path, uint32_t least,
                                  uint32_t most, rhumb_sourced *value, int *found);
rhumb_result rhumb_lookup_bool(const rhumb_lookup *l, const char *path, int *value, int *found);
rhumb_result rhumb_lookup_string(const rhumb_lookup *l, const char *path, const char **value,
                                 int *found);

/* As rhumb_lookup_integer; CONFIG, naming the key and `who` needs it, if it is not there. */
rhumb_result rhumb_lookup_need_integer(const rhumb_lookup *l, const char *who, const char *path,
                                       uint32_t least, uint32_t most, rhumb_sourced *value);

/* "a string "yarn"", "true", "4096", "a list" ...: what a key holds, for messages. */
const char *rhumb_lookup_print(const rhumb_key *key, char *text, size_t size);

/* The shortest decimal that reads back as the same double. */
const char *rhumb_lookup_print_number(double value, char *text, size_t size);

/* Sets value and source. */
#if defined(__GNUC__)
__attribute__((format(printf, 3, 4)))
#endif
void rhumb_sourced_set(rhumb_sourced *s, double value, const char *format, ...);

#endif
