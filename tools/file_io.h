/* Whole files in and out, for the readers and writers of tensors. Errors: one line, as tensors.h.
 */
#ifndef RHUMB_TOOLS_FILE_IO_H
#define RHUMB_TOOLS_FILE_IO_H

#include "tensors.h"

/* The file's bytes, malloc'ed and followed by one zero byte; the caller frees. NULL on an error,
 * which includes anything that is not a regular file. */
void *file_read(const char *path, size_t *size, tensor_error *error);

typedef struct file_part {
    const void *data;
    size_t size;
} file_part;

/* Writes the parts one after the other into a temporary file beside `path` and renames it to
 * `path`. On an error (-1) nothing is left behind, and what was at `path` is unchanged. */
int file_write(const char *path, const file_part *parts, size_t count, tensor_error *error);

/* Leaves "PATH: what" in error (may be NULL) and returns -1. */
int file_fail(tensor_error *error, const char *path, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif
