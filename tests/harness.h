/* What the tests on a device share: the profiles (driver and clamp) they run on, tensors of any
 * layout in host memory, and the comparison with the reference. Each profile opens with the
 * validation layer and synchronization validation on, behind the counting function table of
 * interpose.h; harness_close fails the test for every validation message, use beyond the profile's
 * limits, and object left alive.
 *
 * The drivers of all profiles are in one loader list, so that they can live in one process.
 *
 * harness.c has the profiles and needs the test framework; harness_run.c has the rest, and is, with
 * the shapes_*.c, what `rhumb check` runs as well.
 */
#ifndef RHUMB_TESTS_HARNESS_H
#define RHUMB_TESTS_HARNESS_H

#include "gpu.h"
#include "interpose.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum harness_profile {
    HARNESS_LAVAPIPE,
    HARNESS_LAVAPIPE_FLOOR, /* the same driver, reported and checked as the smallest Vulkan 1.1
                               device */
    HARNESS_SWIFTSHADER,    /* a second, unlike driver: no 16-bit feature, subgroups of 4 */
    HARNESS_PROFILE_COUNT
} harness_profile;

/* RHUMB_TEST_LAVAPIPE_ICD and RHUMB_TEST_SWIFTSHADER_ICD name the drivers' ICD files;
 * RHUMB_TEST_REQUIRE_DRIVERS=1 turns a missing SwiftShader or RADV from "left out" into a failure. */
typedef struct harness {
    harness_profile profile;
    gpu *g;
    uint32_t cases;      /* run so far */
    uint32_t left_out;   /* cases that lavapipe alone runs, see harness_wants */
    bool (*wants)(struct harness *h, const gpu_operation *op); /* NULL: every case */
    uint32_t failures;   /* of cases; each has printed its lines */
    double worst;        /* largest error of all f32 elements, as a part of its bound */
    atomic_uint messages; /* of the validation layer */
    char first_message[GPU_MESSAGE_SIZE];
    rhumb_plan **plans;  /* of the cases so far, see harness_run */
    size_t plan_count;
    /* For whoever reports case by case, as `rhumb check` does; all of it may be zeroed between
     * cases. */
    const char *name;     /* of the device, in lines of failures */
    bool quiet;           /* failures are not printed */
    uint32_t repeats;     /* gpu_operation's, for every run; 0: untouched */
    double budget_ns;
    rhumb_variant variant; /* of the last run, as are the next two */
    double ns;
    bool host_clock;
    double largest_error;  /* of any element that is no integer */
    double closest_error;  /* of the element that comes closest to its bound, and that bound */
    double closest_bound;
    char first_failure[GPU_MESSAGE_SIZE];
} harness;

const char *harness_profile_name(harness_profile profile);
/* Part of the device's name, as rhumb_standalone_info.device_name takes it. */
const char *harness_device_name(harness_profile profile);

/* Puts the ICD files of all profiles into the environment of this process; harness_open does it
 * too. */
void harness_select_drivers(void);

/* The loader's vkGetInstanceProcAddr; fails the test without a loader. */
PFN_vkGetInstanceProcAddr harness_loader(void);

/* Opens the profile. Where its driver is not installed: prints "left out: ..." and ends the test as
 * skipped, or as failed if the environment requires the driver. */
void harness_open(harness *h, harness_profile profile);
/* The same device with smaller limits; NULL: its own. */
void harness_open_clamped(harness *h, harness_profile profile, const rhumb_limits *clamp);
/* Is the driver installed? Else prints the "left out" line; fails the test if the driver is
 * required. */
bool harness_has(harness_profile profile);

/* A driver's ICD file by the variable that names it; NULL: there is none, which has been told. */
const char *harness_icd(const char *driver, const char *variable);

/* Closes and asserts: no failing case, at least one case, no validation message, no violation,
 * nothing alive. */
void harness_close(harness *h);

/* gpu_run_operation with a plan that stays alive until harness_close: pipelines are shared by
 * plans, so that a table of shapes compiles each kernel once. */
rhumb_result harness_run(harness *h, gpu_operation *op);

/* Asked by a table's rows before they run: on lavapipe always true. Elsewhere, where compiling a
 * kernel takes longer than running it a hundred times, a row runs if its kernels are there already,
 * or are specialised to some value that no kernel had so far in the test; so each kernel, dtype of
 * a view, head size and branch is run, but not each combination of them. The other rows are counted,
 * and harness_close says how many there were. */
bool harness_wants(harness *h, gpu_operation *op);

/* -------------------------------------------------------------------------------------------------
 * Host memory
 */

/* Ends the program, with a line, where `holds` is false: for what no shape may lead to. */
void harness_need(bool holds, const char *otherwise);

/* Zeroed; ends the program if there is none. */
void *harness_alloc(size_t count, size_t size);

typedef struct harness_random {
    uint64_t state;
} harness_random;

uint32_t harness_next(harness_random *r);
/* Uniform in [low, high). */
double harness_uniform(harness_random *r, double low, double high);
/* Sum of uniform numbers: mean 0, variance 1, no tail beyond 6. */
double harness_normal(harness_random *r);

/* How a [B, H, L, D] tensor lies in memory. All zero: contiguous in that order. */
typedef struct harness_layout {
    bool by_rows;     /* [B, L, H, D] in memory */
    uint32_t row_pad; /* elements between the rows of a head */
    uint32_t offset;  /* elements before the first */
} harness_layout;

/* A tensor in host memory: bytes as the device sees them, and the values as doubles in [B, H, L, D]
 * order. Bytes outside the elements hold the canary pattern. */
typedef struct harness_tensor {
    rhumb_dtype dtype;
    uint64_t shape[4];
    int64_t stride[4];
    uint64_t offset; /* bytes */
    uint64_t bytes;
    uint8_t *memory;
    double *values;  /* shape[0] * ... * shape[3] */
    uint64_t count;
} harness_tensor;

/* Q8_0: d, pads and offset are multiples of 32. */
void harness_make_tensor(harness_tensor *t, rhumb_dtype dtype, uint64_t b, uint64_t h, uint64_t l,
                         uint64_t d, harness_layout layout);
void harness_free_tensor(harness_tensor *t);

/* Rounds `values` to the dtype (in place, so that the reference sees what the device sees) and
 * stores them. NaN and infinities are kept. */
void harness_store(harness_tensor *t);
/* memory -> values */
void harness_load(harness_tensor *t);
void harness_fill_normal(harness_tensor *t, harness_random *r);

/* Index into `values`, and byte position in `memory`. */
uint64_t harness_index(const harness_tensor *t, uint64_t b, uint64_t h, uint64_t l, uint64_t d);
uint64_t harness_byte(const harness_tensor *t, uint64_t index);

/* Adds it to an operation; `input` / `output`: whether its bytes go to the device and come back. */
gpu_tensor *harness_add(gpu_operation *op, rhumb_view_id id, harness_tensor *t, bool output);

/* -------------------------------------------------------------------------------------------------
 * Comparison
 */
const char *harness_dtype_name(rhumb_dtype dtype);
uint64_t harness_dtype_size(rhumb_dtype dtype);

/* Half the distance between neighbours of the format around `value`: the error of one rounding to
 * nearest. f32: 0, its rounding is part of the arithmetic's bound. */
double harness_rounding(rhumb_dtype dtype, double value);

/* Takes the error of one element into account; every comparison goes through it. Returns whether it
 * is within the bound: NaN never is. */
bool harness_note(harness *h, rhumb_dtype dtype, double error, double bound);

/* Prints one line for the first differing element of a case and counts the case as failed. `what`
 * is the scheme and operation, `shape` the case in words. Returns false if it differs: NaN always
 * does. */
bool harness_compare(harness *h, const char *what, const char *shape, const harness_tensor *got,
                     const double *want, const double *bound, const bool *skip);

/* Runs an operation that must be refused with `code` and one line that begins with `start` and has
 * `found` in it; `out` keeps its canary. `name` is the case in words. */
void harness_expect_refused(harness *h, gpu_operation *op, const char *name, rhumb_result code,
                            const char *start, const char *found, const harness_tensor *out);

/* Counts a failed case with a line of its own. Returns false. */
bool harness_fail(harness *h, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
