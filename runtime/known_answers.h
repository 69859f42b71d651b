/* Small operations with known answers, for the self-test: tables and arithmetic, no Vulkan call. */
#ifndef RHUMB_KNOWN_ANSWERS_H
#define RHUMB_KNOWN_ANSWERS_H

#include "internal.h"

#define RHUMB_KNOWN_COUNT 8
#define RHUMB_KNOWN_TENSORS 4  /* one descriptor each on the smallest device */
#define RHUMB_KNOWN_GROUPS 128 /* work groups of the largest dispatch, rounded up */

/* One operation, for one kernel and one way through it. */
typedef struct rhumb_known {
    uint32_t kernel; /* rhumb_self_test_kernel: to be blamed */
    const char *name;
    rhumb_op op;
    rhumb_variant variant;
    uint32_t avoid; /* rhumb_self_test_kernel: what would be chosen instead */
    rhumb_pairing pairing;
    uint32_t rotary_offset, head_dim, value_dim, rows;
} rhumb_known;

extern const rhumb_known rhumb_knowns[RHUMB_KNOWN_COUNT];

/* Contiguous. */
typedef struct rhumb_known_tensor {
    rhumb_view_id id;
    rhumb_dtype dtype;
    uint32_t shape[4];
    uint64_t offset; /* bytes from the start of the self-test's memory; 0 at first */
} rhumb_known_tensor;

void rhumb_known_tensors(const rhumb_known *known, rhumb_known_tensor tensors[RHUMB_KNOWN_TENSORS]);
uint64_t rhumb_known_bytes(const rhumb_known_tensor *tensor);

/* Everything but views and dtypes; `rope` is what info->rotary points to. */
void rhumb_known_plan(const rhumb_known *known, rhumb_plan_info *info, rhumb_rope *rope);

/* Inputs, and NaN in what the operation will write. */
void rhumb_known_write(const rhumb_known_tensor *tensor, uint8_t *memory);

typedef struct rhumb_known_findings {
    double worst;   /* largest error so far, as a part of its bound */
    uint32_t wrong; /* elements of the operation compared last */
    char line[sizeof((rhumb_self_test_result *)0)->text]; /* the first of these */
} rhumb_known_findings;

/* `tensors` as rhumb_known_tensors gave them, with offsets. */
void rhumb_known_compare(const rhumb_known *known, const rhumb_known_tensor *tensors,
                         const uint8_t *memory, rhumb_known_findings *findings);

#endif /* RHUMB_KNOWN_ANSWERS_H */
