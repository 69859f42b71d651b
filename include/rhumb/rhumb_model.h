/* rhumb_model: reads a model's published config.json into keys for rhumb_scheme_from_keys.
 *
 * A static library beside librhumb (it uses cJSON), for tools and for hosts that want it. The
 * plugin never contains it: a host with a JSON reader of its own fills rhumb_key arrays itself.
 */
#ifndef RHUMB_MODEL_H
#define RHUMB_MODEL_H

#include "rhumb.h"

#ifdef __cplusplus
extern "C" {
#endif

#define RHUMB_MODEL_MAX_BYTES 4194304u /* of a configuration; published ones are below 100 KiB */
#define RHUMB_MODEL_MAX_DEPTH 32u      /* of nested objects and lists */

/* A configuration as keys. The keys and all they point to belong to the struct: they live until
 * rhumb_model_free_config. Order: as in the file.
 * Thread-safety: immutable once read; may be used from any number of threads at once. */
typedef struct rhumb_model_config {
    const rhumb_key *keys; /* NULL if there are none */
    uint32_t key_count;
    uint32_t padding;
    void *memory; /* the library's */
} rhumb_model_config;

/* Reads a config.json file, at most RHUMB_MODEL_MAX_BYTES. Nested objects become dotted paths
 * ("rope_scaling.factor", "text_config.rope_theta"); a dot or backslash inside a name is written
 * with a backslash before it, so that it cannot be taken for nesting. An empty object has no key.
 * Lists stay LIST; an object inside a list has no path and is kept there as NULL. Numbers are
 * doubles.
 *
 * Refused, with one line in `message` (message_size bytes; may be NULL) that names the file's line
 * or the key: a file that cannot be read, is too long, or is no JSON object; text after the object;
 * names given twice in one object; numbers beyond the range of double; a NUL character in a string;
 * nesting deeper than RHUMB_MODEL_MAX_DEPTH.
 *
 * Errors: CONFIG, ARGUMENT (a NULL pointer), HOST_MEMORY. On error *config is empty and needs no
 * free. */
rhumb_result rhumb_model_read_config(const char *path, rhumb_model_config *config, char *message,
                                     size_t message_size);

/* The same from memory: `text` has `size` bytes and needs no terminating NUL. */
rhumb_result rhumb_model_parse_config(const char *text, size_t size, rhumb_model_config *config,
                                      char *message, size_t message_size);

/* Frees the keys and empties the struct. NULL and an empty struct are allowed. */
void rhumb_model_free_config(rhumb_model_config *config);

#ifdef __cplusplus
}
#endif

#endif /* RHUMB_MODEL_H */
