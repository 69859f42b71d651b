/* RADV's null hardware: it compiles for any AMD GPU that RADV_FORCE_FAMILY names, without one. One
 * process per family, since the driver reads the variable once: Criterion gives each test its own.
 */
#ifndef RHUMB_TESTS_RADV_H
#define RHUMB_TESTS_RADV_H

#include "host.h"

typedef struct radv_statistics {
    char line[512];        /* of the newest pipeline, as are code_bytes and assembly */
    uint64_t code_bytes;
    const char *assembly;
    uint64_t spilled;      /* registers and bytes of scratch memory, of all pipelines so far */
    uint32_t pipelines;
} radv_statistics;

/* A context whose pipelines are looked at when they are created; skips the test where there is no
 * RADV. The device stays open: null hardware has no queue to wait for, and crashes in
 * vkDestroyDevice. */
rhumb_context *radv_open(const char *family);

const radv_statistics *radv_look(void);

#endif
