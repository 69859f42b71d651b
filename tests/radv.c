#define _POSIX_C_SOURCE 200809L /* setenv */

#include "radv.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* Of a kernel's code: the instruction cache of these GPUs. Registers indexed by what the compiler takes
 * for no constant once made 7,000 to 30,000 instructions of a tile form, without a spill. */
#define MOST_CODE_BYTES 32768

static struct {
    capture *c;
    radv_statistics seen;
} radv;

static void read_pipeline(const capture_pipeline *p)
{
    static const char *const shown[] = {"VGPRs", "SGPRs", "LDS size", "Subgroups per SIMD",
                                        "Instructions", "Code size"};
    const capture_executable *e = &p->executables[0];
    const capture_statistic *code;
    size_t length = 0;
    cr_assert_eq(p->executable_count, 1, "RADV gives no statistics");
    code = capture_find(e, "Code size");
    cr_assert_not_null(code, "RADV tells no size of the code");
    cr_expect_not_null(e->code, "RADV gives no assembly");
    radv.seen.line[0] = '\0';
    for (size_t i = 0; i < sizeof shown / sizeof shown[0]; i++) {
        const capture_statistic *s = capture_find(e, shown[i]);
        if (s != NULL && length < sizeof radv.seen.line) {
            length += (size_t)snprintf(radv.seen.line + length, sizeof radv.seen.line - length,
                                       " %s %.0f", s->name, s->value);
        }
    }
    cr_expect_gt(code->value, 0, "RADV tells no size of the code");
    cr_expect_leq(code->value, MOST_CODE_BYTES, "pipeline %u of the process:%s",
                  radv.seen.pipelines, radv.seen.line);
    radv.seen.spilled += (uint64_t)capture_spills(e);
    radv.seen.pipelines++;
}

const char *radv_icd(void)
{
    const char *icd = harness_icd("RADV", "RHUMB_TEST_RADV_ICD");
    if (icd == NULL) {
        cr_skip_test("left out: no RADV");
    }
    return icd;
}

rhumb_context *radv_open(const char *family)
{
    const char *icd = radv_icd();
    char error[GPU_MESSAGE_SIZE] = "";
    gpu_options options;
    setenv("RADV_FORCE_FAMILY", family, 1);
    setenv("VK_ICD_FILENAMES", icd, 1);
    setenv("VK_DRIVER_FILES", icd, 1);
    gpu_init_options(&options);
    cr_assert_eq(capture_open(&options, &radv.c, error, sizeof error), RHUMB_OK, "%s", error);
    return radv.c->context;
}

void radv_close(void)
{
    capture_close(radv.c);
    radv.c = NULL;
}

const radv_statistics *radv_look(void)
{
    while (radv.seen.pipelines < radv.c->pipeline_count) {
        read_pipeline(&radv.c->pipelines[radv.seen.pipelines]);
    }
    radv.seen.newest =
        radv.seen.pipelines > 0 ? &radv.c->pipelines[radv.seen.pipelines - 1] : NULL;
    return &radv.seen;
}
