/* safetensors files: 8 bytes little-endian header length, a JSON header, raw row-major data.
 *
 * Reading refuses whatever the format forbids: a header length beyond the file or above 100 MB, a
 * header that is not one JSON object, a name or key given twice, an unknown dtype, a shape whose
 * size passes 2^63 - 1 bytes, data offsets that are out of range, not those of the shape, not
 * aligned to the dtype, overlapping or with holes between, more than 8 dimensions. dtypes: those of
 * tensors.h.
 */
#ifndef RHUMB_TOOLS_SAFETENSORS_H
#define RHUMB_TOOLS_SAFETENSORS_H

#include "tensors.h"

/* Adds the file's tensors and metadata to an empty list. */
int safetensors_read(const char *path, tensor_list *list, tensor_error *error);

/* The same from memory; `path` only names the source in errors. */
int safetensors_parse(const void *bytes, size_t size, const char *path, tensor_list *list,
                      tensor_error *error);

/* Writes a temporary file beside `path`, then renames it: the file is whole or as it was before. */
int safetensors_write(const char *path, const tensor_list *list, tensor_error *error);

#endif
