/* NumPy .npy files, format versions 1.0 and 2.0, little-endian f2 f4 f8 i4 i8 in C order.
 *
 * Fortran order, other types, versions or byte orders, and a size that is not the shape's are
 * refused.
 */
#ifndef RHUMB_TOOLS_NPY_H
#define RHUMB_TOOLS_NPY_H

#include "tensors.h"

/* Adds the file's one array to the list under `name`. */
int npy_read(const char *path, const char *name, tensor_list *list, tensor_error *error);

/* The same from memory; `path` only names the source in errors. */
int npy_parse(const void *bytes, size_t size, const char *path, const char *name, tensor_list *list,
              tensor_error *error);

/* Version 1.0. BF16 is refused: the format has no such type. Whole file or none, as
 * safetensors_write. */
int npy_write(const char *path, const tensor *t, tensor_error *error);

#endif
