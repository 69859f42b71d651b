/* Named tensors in host memory, as files carry them. Contiguous, row-major, up to 8 dimensions.
 *
 * Functions that can fail return 0 or -1 and leave one line in `error`, naming the file or tensor,
 * what was wanted and what was there; the list is then as it was before the call.
 *
 * Thread-safety: no state; one thread at a time for one list.
 */
#ifndef RHUMB_TOOLS_TENSORS_H
#define RHUMB_TOOLS_TENSORS_H

#include <stddef.h>
#include <stdint.h>

#define TENSOR_MAX_RANK 8

typedef struct tensor_error {
    char line[640];
} tensor_error;

typedef enum tensor_dtype {
    TENSOR_F32 = 0, /* the first four are the numbers of rhumb_dtype */
    TENSOR_F16 = 1,
    TENSOR_BF16 = 2,
    TENSOR_I32 = 3,
    TENSOR_F64 = 4,
    TENSOR_I64 = 5,
} tensor_dtype;

#define TENSOR_DTYPE_COUNT 6

typedef struct tensor {
    char *name;
    tensor_dtype dtype;
    uint32_t rank; /* 0: a scalar */
    uint64_t shape[TENSOR_MAX_RANK];
    uint64_t count; /* elements */
    void *data;     /* count elements, little-endian like the machine; never NULL. Up to the next
                       multiple of     4 bytes may be read and written, as device words are */
} tensor;

typedef struct tensor_text {
    char *key;
    char *value;
} tensor_text;

/* Zero-initialise ({0} or memset), fill, tensor_list_free. Owns everything it points to. Pointers
 * to tensors stay valid until the next add. */
typedef struct tensor_list {
    tensor *items;
    size_t count;
    size_t capacity;
    tensor_text *texts; /* metadata of a file, in its order */
    size_t text_count;
} tensor_list;

void tensor_list_free(tensor_list *list);

/* A new tensor of zeros, or NULL: name taken or empty, rank above 8, more than 2^63 - 1 bytes, no
 * memory. */
tensor *tensor_list_add(tensor_list *list, const char *name, tensor_dtype dtype, uint32_t rank,
                        const uint64_t *shape, tensor_error *error);

/* The same for a name that the caller knows to be new, without looking for it. */
tensor *tensor_list_append(tensor_list *list, const char *name, tensor_dtype dtype, uint32_t rank,
                           const uint64_t *shape, tensor_error *error);

/* NULL if there is none of the name. */
tensor *tensor_list_find(const tensor_list *list, const char *name);

/* Adds or replaces a metadata text. */
int tensor_list_set_text(tensor_list *list, const char *key, const char *value,
                         tensor_error *error);
const char *tensor_list_text(const tensor_list *list, const char *key); /* or NULL */

size_t tensor_dtype_size(tensor_dtype dtype);      /* bytes */
const char *tensor_dtype_name(tensor_dtype dtype); /* "F32" */
uint64_t tensor_bytes(const tensor *t);

/* "[2, 3, 4]" into text; returns text. */
const char *tensor_shape_text(const tensor *t, char *text, size_t size);

/* Element `index` (in row-major order) as a double. I64 beyond 2^53 rounds. */
double tensor_get(const tensor *t, uint64_t index);

/* Rounds to nearest even once; integers saturate, and NaN becomes 0 in them. */
void tensor_put(tensor *t, uint64_t index, double value);

/* All elements; malloc'ed, the caller frees. NULL without memory. */
double *tensor_doubles(const tensor *t);

/* Standard normal numbers: SplitMix64 seeded with `seed`, 53 bits a draw, Box-Muller in double,
 * both numbers of a pair used, rounded to the dtype. The same seed gives the same numbers on every
 * machine whose libm agrees to a unit in the last place of double, in every float dtype before
 * rounding. */
void tensor_fill_normal(tensor *t, uint64_t seed);

#endif
