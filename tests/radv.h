/* RADV's null hardware: it compiles for any AMD GPU that RADV_FORCE_FAMILY names, without one. One
 * process per family, since the driver reads the variable once: Criterion gives each test its own.
 */
#ifndef RHUMB_TESTS_RADV_H
#define RHUMB_TESTS_RADV_H

#include "capture.h"
#include "harness.h"

typedef struct radv_statistics {
    char line[512];                 /* of the newest pipeline */
    const capture_pipeline *newest; /* until the next pipeline is made */
    uint64_t spilled;   /* registers and bytes of scratch memory, of all pipelines so far */
    uint32_t pipelines;
} radv_statistics;

/* The driver's ICD file; skips the test where there is none. */
const char *radv_icd(void);

/* A context whose pipelines are captured; skips the test where there is no RADV. */
rhumb_context *radv_open(const char *family);
void radv_close(void);

/* Looks at the pipelines that were made since the last time. */
const radv_statistics *radv_look(void);

#endif
