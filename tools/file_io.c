/* Whole files in and out. */
#define _POSIX_C_SOURCE 200809L

#include "file_io.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int file_fail(tensor_error *error, const char *path, const char *format, ...)
{
    va_list arguments;
    size_t used, i;

    if (error == NULL)
        return -1;
    snprintf(error->line, sizeof error->line, "%.255s: ", path);
    used = strlen(error->line);
    va_start(arguments, format);
    vsnprintf(error->line + used, sizeof error->line - used, format, arguments);
    va_end(arguments);
    /* Names come from files: whatever they hold, the error stays one line. */
    for (i = 0; error->line[i] != '\0'; i++)
        if ((unsigned char)error->line[i] < 0x20 || error->line[i] == 0x7f)
            error->line[i] = '?';
    return -1;
}

void *file_read(const char *path, size_t *size, tensor_error *error)
{
    FILE *file = fopen(path, "rb");
    struct stat status;
    char *bytes = NULL;

    if (file == NULL) {
        file_fail(error, path, "cannot be opened: %s", strerror(errno));
        return NULL;
    }
    if (fstat(fileno(file), &status) != 0 || !S_ISREG(status.st_mode)) {
        file_fail(error, path, "wanted a regular file");
        goto fail;
    }
    *size = (size_t)status.st_size;
    bytes = malloc(*size + 1);
    if (bytes == NULL) {
        file_fail(error, path, "no memory for %zu bytes", *size);
        goto fail;
    }
    if (fread(bytes, 1, *size, file) != *size) {
        file_fail(error, path, "cannot be read to its end of %zu bytes", *size);
        goto fail;
    }
    bytes[*size] = '\0';
    fclose(file);
    return bytes;

fail:
    free(bytes);
    fclose(file);
    return NULL;
}

static int write_parts(FILE *file, const file_part *parts, size_t count)
{
    size_t i;

    for (i = 0; i < count; i++)
        if (parts[i].size != 0 && fwrite(parts[i].data, 1, parts[i].size, file) != parts[i].size)
            return -1;
    return fflush(file) == 0 ? 0 : -1;
}

/* A new file beside `path`, its name in `temporary` (strlen(path) + 32 bytes), or -1. */
static int create_beside(const char *path, char *temporary)
{
    int descriptor = -1, attempt;

    for (attempt = 0; attempt < 100 && descriptor < 0; attempt++) {
        snprintf(temporary, strlen(path) + 32, "%s.%ld-%d.tmp", path, (long)getpid(), attempt);
        descriptor = open(temporary, O_WRONLY | O_CREAT | O_EXCL, 0666);
        if (descriptor < 0 && errno != EEXIST)
            break;
    }
    return descriptor;
}

int file_write(const char *path, const file_part *parts, size_t count, tensor_error *error)
{
    char *temporary = malloc(strlen(path) + 32);
    FILE *file = NULL;
    int descriptor = -1, reason;

    if (temporary == NULL)
        return file_fail(error, path, "no memory");
    descriptor = create_beside(path, temporary);
    if (descriptor < 0) {
        reason = errno;
        free(temporary);
        return file_fail(error, path, "cannot be written: %s", strerror(reason));
    }
    file = fdopen(descriptor, "wb");
    if (file == NULL) {
        reason = errno;
        close(descriptor);
        goto fail;
    }
    if (write_parts(file, parts, count) != 0) {
        reason = errno;
        fclose(file);
        goto fail;
    }
    if (fclose(file) != 0 || rename(temporary, path) != 0) {
        reason = errno;
        goto fail;
    }
    free(temporary);
    return 0;

fail:
    unlink(temporary);
    free(temporary);
    return file_fail(error, path, "cannot be written: %s", strerror(reason));
}
