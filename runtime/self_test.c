/* Self-test: small operations on the host's memory, one for each kernel, and their answers by the
 * plain definitions in double. Nothing here is shared with the kernels or with the reference of the
 * tests; the inputs are multiples of 1/64, so that every format holds them. */
#include "internal.h"

#include <math.h>
#include <stdio.h>

#define BATCH 2
#define HEADS 6 /* more than the rotation takes at once, and 3 to a kv head */
#define KV_HEADS 2
#define KEYS 43 /* tiles of 8, 16 and 32 keys: seen by all rows of one, by some, and a last part */
#define ROTARY_DIM 16
#define ROTARY_BASE 65536.0 /* pair i turns by exactly p / 4^i: the answers need no reduction */
#define SHARPNESS 1.0f      /* softmax scale: a few keys of a row weigh more than all others */
#define MOST_CHANNELS 33
#define MOST_GROUPS 128 /* work groups of the largest dispatch, rounded up */

#define ROTATE_BOUND 1e-6     /* as README promises for values of order 1 */
#define ATTENTION_BOUND 2e-5  /* exp2 of 3 + 2 |x| ulp, as Vulkan allows it, for |x| up to 20 */
#define HALF_ULP 4.8828125e-4 /* rounding to float16, as a part of the value */

static const int32_t positions[] = {0, 1, -3, 8191, 1000003, INT32_MAX, -INT32_MAX};
#define ROTATE_ROWS (sizeof positions / sizeof positions[0])

struct known {
    uint32_t kernel; /* rhumb_self_test_kernel: to be blamed */
    const char *name;
    rhumb_op op;
    rhumb_variant variant;
    uint32_t avoid; /* the kernel that would be chosen instead */
    rhumb_pairing pairing;
    uint32_t rotary_offset, head_dim, value_dim, rows;
};

/* Vector accesses follow from the head size; the generic form takes one that is odd, so that rows
 * share words. Rows per kv head: two tiles of 64 for the tile form, few enough for decode. */
#define ROTATE RHUMB_OP_ROTATE, RHUMB_VARIANT_AUTO, 0
#define ATTENTION(variant, avoid)                                                                  \
    RHUMB_OP_ATTENTION, RHUMB_VARIANT_##variant, avoid, RHUMB_PAIRING_HALF, 0
#define TILE RHUMB_SELF_TEST_ATTENTION_TILE
#define TILE_SUBGROUP RHUMB_SELF_TEST_ATTENTION_TILE_SUBGROUP
static const struct known knowns[] = {
    {RHUMB_SELF_TEST_ROTATE, "rotate, scalar, half pairing", ROTATE, RHUMB_PAIRING_HALF, 5, 23, 23,
     ROTATE_ROWS},
    {RHUMB_SELF_TEST_ROTATE, "rotate, scalar, interleaved pairing", ROTATE,
     RHUMB_PAIRING_INTERLEAVED, 5, 23, 23, ROTATE_ROWS},
    {RHUMB_SELF_TEST_ROTATE_VECTOR, "rotate, vectors, half pairing", ROTATE, RHUMB_PAIRING_HALF, 4,
     24, 24, ROTATE_ROWS},
    {RHUMB_SELF_TEST_ROTATE_VECTOR, "rotate, vectors, interleaved pairing", ROTATE,
     RHUMB_PAIRING_INTERLEAVED, 4, 24, 24, ROTATE_ROWS},
    {RHUMB_SELF_TEST_ATTENTION_GENERIC, "attention, generic form", ATTENTION(GENERIC, 0),
     MOST_CHANNELS, 17, 23},
    {TILE, "attention, tile form", ATTENTION(TILE, TILE_SUBGROUP), 32, 16, 23},
    {TILE_SUBGROUP, "attention, tile form with shuffles", ATTENTION(TILE, TILE), 32, 16, 23},
    {RHUMB_SELF_TEST_ATTENTION_DECODE, "attention, decode form", ATTENTION(DECODE, 0), 32, 16, 2},
};
#define KNOWN_COUNT (sizeof knowns / sizeof knowns[0])

#define TENSORS 4 /* views of an operation: one descriptor each on the smallest device */
struct tensor {
    rhumb_view_id id;
    rhumb_dtype dtype;
    uint32_t shape[4];
    uint64_t offset; /* bytes from the start of the memory */
};

struct run {
    const struct known *known;
    struct tensor tensors[TENSORS];
    uint64_t constants, bindings_block; /* bytes from the start of the memory */
    rhumb_plan *plan;
    rhumb_bindings *bindings;
};

struct rhumb_self_test {
    rhumb_context *context;
    uint8_t *memory;
    uint64_t offset; /* of the memory in the VkBuffer */
    bool recorded;
    uint32_t count;
    struct run runs[KNOWN_COUNT];
};

/* ---- Layout */
static uint64_t alignment_of(const rhumb_limits *l)
{
    uint32_t alignment = l->storage_offset_alignment > l->uniform_offset_alignment
                             ? l->storage_offset_alignment
                             : l->uniform_offset_alignment;
    return alignment < 16 ? 16 : alignment;
}

static void set_tensors(const struct known *k, struct tensor t[TENSORS])
{
    const bool rotate = k->op == RHUMB_OP_ROTATE;
    const uint32_t keys = rotate ? k->rows : KEYS;
    t[0] = (struct tensor){RHUMB_VIEW_Q, RHUMB_F32, {BATCH, HEADS, k->rows, k->head_dim}, 0};
    t[1] = (struct tensor){RHUMB_VIEW_K, RHUMB_F16, {BATCH, KV_HEADS, keys, k->head_dim}, 0};
    t[2] = (struct tensor){rotate ? RHUMB_VIEW_K_OUT : RHUMB_VIEW_V, RHUMB_F16,
                           {BATCH, KV_HEADS, keys, k->value_dim}, 0};
    t[3] = rotate
               ? (struct tensor){RHUMB_VIEW_POSITIONS_Q, RHUMB_I32, {1, 1, 1, k->rows}, 0}
               : (struct tensor){
                     RHUMB_VIEW_O, RHUMB_F32, {BATCH, HEADS, k->rows, k->value_dim}, 0};
}

/* Nothing but what the operation writes. */
static bool is_result(const struct tensor *t)
{
    return t->id == RHUMB_VIEW_O || t->id == RHUMB_VIEW_K_OUT;
}

static uint64_t count_of(const struct tensor *t)
{
    return (uint64_t)t->shape[0] * t->shape[1] * t->shape[2] * t->shape[3];
}

static uint64_t take(uint64_t *at, uint64_t bytes, uint64_t alignment)
{
    uint64_t offset = *at;
    *at += (bytes + alignment - 1) / alignment * alignment;
    return offset;
}

/* What this device can be asked, and where it lies: blocks first, as validation layers before
 * 1.3.250 take a dynamic uniform range to be at its buffer's start. Returns the bytes needed. */
static uint64_t lay_out(const rhumb_context *context, struct run runs[KNOWN_COUNT], uint32_t *count)
{
    const uint64_t alignment = alignment_of(&context->limits);
    uint64_t at = 0;
    *count = 0;
    for (size_t i = 0; i < KNOWN_COUNT; i++) {
        if (knowns[i].kernel == TILE_SUBGROUP && !rhumb_has_shuffles(&context->limits))
            continue;
        struct run *run = &runs[(*count)++];
        run->known = &knowns[i];
        run->constants = take(&at, sizeof(struct rhumb_constants_block), alignment);
        run->bindings_block = take(&at, sizeof(struct rhumb_bindings_block), alignment);
    }
    for (uint32_t i = 0; i < *count; i++) {
        struct tensor *t = runs[i].tensors;
        set_tensors(runs[i].known, t);
        for (uint32_t n = 0; n < TENSORS; n++)
            t[n].offset = take(&at, count_of(&t[n]) * rhumb_dtype_size(t[n].dtype), alignment);
    }
    return at;
}

rhumb_result rhumb_query_self_test(const rhumb_context *context,
                                   rhumb_self_test_properties *properties)
{
    rhumb_self_test_properties full;
    struct run runs[KNOWN_COUNT] = {0};
    uint32_t count;
    if (!context)
        return rhumb_fail(NULL, RHUMB_ERROR_ARGUMENT,
                          "query_self_test: context: wanted one, found NULL");
    rhumb_init_self_test_properties(&full);
    full.buffer_size = lay_out(context, runs, &count);
    full.alignment = alignment_of(&context->limits);
    full.pipeline_count = count; /* second pipelines of a plan are another one's first */
    for (uint32_t i = 0; i < count; i++)
        full.kernels |= runs[i].known->kernel;
    return rhumb_give(context, "query_self_test", "rhumb_self_test_properties", properties,
                      RHUMB_TYPE_SELF_TEST_PROPERTIES, &full, sizeof full);
}

/* ---- Inputs */

/* Element `index` of an input: a multiple of 1/64 in [-1, 1]. */
static double sample(rhumb_view_id id, uint64_t index)
{
    uint32_t x = ((uint32_t)index * 8 + (uint32_t)id + 1) * 2654435769u;
    x = (x ^ x >> 15) * 2246822519u;
    x ^= x >> 13;
    return ((int)(x % 129) - 64) / 64.0;
}

/* Of a sample, which is exact. */
static uint16_t half_of(double value)
{
    int exponent;
    double fraction = frexp(fabs(value), &exponent);
    uint32_t bits = value == 0 ? 0 : (uint32_t)(exponent + 13) * 1024 + (uint32_t)(fraction * 2048);
    return (uint16_t)(bits | (value < 0 ? 0x8000u : 0));
}

static double value_of_half(uint16_t half)
{
    int exponent = half >> 10 & 31, fraction = half & 1023;
    double value = exponent == 31 ? NAN
                   : exponent     ? ldexp(fraction + 1024, exponent - 25)
                                  : ldexp(fraction, -24);
    return half & 0x8000 ? -value : value;
}

static void write_tensor(const struct tensor *t, uint8_t *memory)
{
    const uint64_t count = count_of(t);
    const uint32_t size = rhumb_dtype_size(t->dtype);
    uint8_t *at = memory + t->offset;
    if (is_result(t)) {
        memset(at, 0xff, count * size); /* NaN in both formats */
        return;
    }
    for (uint64_t i = 0; i < count; i++, at += size) {
        const float value = (float)sample(t->id, i);
        const uint16_t half = half_of(value);
        const void *from = t->dtype == RHUMB_I32   ? (const void *)&positions[i]
                           : t->dtype == RHUMB_F16 ? (const void *)&half
                                                   : (const void *)&value;
        memcpy(at, from, size);
    }
}

static double read_element(const struct tensor *t, const uint8_t *memory, uint64_t index)
{
    const uint8_t *at = memory + t->offset + index * rhumb_dtype_size(t->dtype);
    float value;
    uint16_t half;
    if (t->dtype == RHUMB_F16) {
        memcpy(&half, at, sizeof half);
        return value_of_half(half);
    }
    memcpy(&value, at, sizeof value);
    return (double)value;
}

/* ---- Create */
static rhumb_result create_plan(rhumb_context *context, struct run *run)
{
    const struct known *k = run->known;
    rhumb_plan_info info;
    rhumb_rope rope;
    rhumb_init_rope(&rope);
    rope.pairing = k->pairing;
    rope.rotary_dim = ROTARY_DIM;
    rope.rotary_offset = k->rotary_offset;
    rope.base = ROTARY_BASE;
    rhumb_init_plan_info(&info, k->op);
    info.variant = k->variant;
    info.rotary = k->op == RHUMB_OP_ROTATE ? &rope : NULL;
    info.heads = HEADS;
    info.kv_heads = KV_HEADS;
    info.head_dim = k->head_dim;
    info.value_dim = k->value_dim;
    info.max_q_length = k->rows;
    info.max_k_length = KEYS;
    info.scale = SHARPNESS;
    info.name = "self-test";
    for (uint32_t n = 0; n < TENSORS; n++) {
        info.views |= RHUMB_VIEW_BIT(run->tensors[n].id);
        info.dtype[run->tensors[n].id] = run->tensors[n].dtype;
    }
    return rhumb_create_plan_without(context, &info, k->avoid, &run->plan);
}

static rhumb_result create_bindings(const rhumb_self_test_info *given, struct run *run)
{
    rhumb_view views[TENSORS];
    rhumb_bindings_info info;
    for (uint32_t n = 0; n < TENSORS; n++) {
        const struct tensor *t = &run->tensors[n];
        rhumb_init_view(&views[n], t->id, t->dtype, given->buffer, given->buffer_size, t->shape[0],
                        t->shape[1], t->shape[2], t->shape[3]);
        views[n].offset = given->offset + t->offset;
    }
    rhumb_init_bindings_info(&info);
    info.views = views;
    info.view_count = TENSORS;
    info.constants_buffer = given->buffer;
    info.bindings_buffer = given->buffer;
    return rhumb_create_bindings(run->plan, &info, &run->bindings);
}

static rhumb_result write_run(const struct run *run, uint8_t *memory)
{
    for (uint32_t n = 0; n < TENSORS; n++)
        write_tensor(&run->tensors[n], memory);
    RHUMB_TRY(rhumb_write_constants(run->plan, 0, 0, memory + run->constants,
                                    sizeof(struct rhumb_constants_block)));
    return rhumb_write_bindings(run->bindings, memory + run->bindings_block,
                                sizeof(struct rhumb_bindings_block));
}

static rhumb_result check_info(const rhumb_context *context, const rhumb_self_test_info *info,
                               uint64_t needed)
{
    const rhumb_limits *l = &context->limits;
    const uint64_t alignment = alignment_of(l);
    if (!info->buffer || !info->memory)
        return rhumb_fail(context, RHUMB_ERROR_ARGUMENT,
                          "create_self_test: wanted a buffer and its mapped memory, found %s NULL",
                          info->buffer ? "memory" : "buffer");
    if (info->offset % alignment)
        return rhumb_fail(context, RHUMB_ERROR_ARGUMENT,
                          "create_self_test: offset: wanted a multiple of %llu, found %llu",
                          (unsigned long long)alignment, (unsigned long long)info->offset);
    if (info->offset > info->buffer_size || info->buffer_size - info->offset < needed)
        return rhumb_fail(context, RHUMB_ERROR_ARGUMENT,
                          "create_self_test: buffer_size: wanted %llu bytes from offset %llu, "
                          "found a VkBuffer of %llu",
                          (unsigned long long)needed, (unsigned long long)info->offset,
                          (unsigned long long)info->buffer_size);
    if (info->offset > UINT32_MAX - needed) /* offsets of uniform blocks have 32 bits */
        return rhumb_fail(context, RHUMB_ERROR_ARGUMENT,
                          "create_self_test: offset: wanted at most %llu, found %llu",
                          (unsigned long long)(UINT32_MAX - needed),
                          (unsigned long long)info->offset);
    if ((uint64_t)l->max_workgroups_x * l->max_workgroups_y < MOST_GROUPS)
        return rhumb_fail(context, RHUMB_ERROR_LIMIT,
                          "create_self_test: work groups: wanted %d in a dispatch, found %u x %u",
                          MOST_GROUPS, l->max_workgroups_x, l->max_workgroups_y);
    return RHUMB_OK;
}

rhumb_result rhumb_create_self_test(rhumb_context *context, const rhumb_self_test_info *given,
                                    rhumb_self_test **out)
{
    rhumb_self_test_info info;
    rhumb_init_self_test_info(&info);
    if (!context || !out)
        return rhumb_fail(
            context, RHUMB_ERROR_ARGUMENT,
            "create_self_test: wanted a context and a place for the self-test, found NULL");
    *out = NULL;
    RHUMB_TRY(rhumb_check_lost(context));
    RHUMB_TRY(rhumb_adopt(context, "create_self_test", "rhumb_self_test_info", given,
                          RHUMB_TYPE_SELF_TEST_INFO, &info, sizeof info));
    rhumb_self_test *test = rhumb_allocate(context, sizeof *test);
    if (!test)
        return rhumb_fail(context, RHUMB_ERROR_HOST_MEMORY,
                          "create_self_test: no host memory for %zu bytes", sizeof *test);
    test->context = context;
    test->memory = info.memory;
    test->offset = info.offset;
    rhumb_result result = check_info(context, &info, lay_out(context, test->runs, &test->count));
    for (uint32_t i = 0; i < test->count && result == RHUMB_OK; i++) {
        result = create_plan(context, &test->runs[i]);
        if (result == RHUMB_OK)
            result = create_bindings(&info, &test->runs[i]);
    }
    for (uint32_t i = 0; i < test->count && result == RHUMB_OK; i++)
        result = write_run(&test->runs[i], test->memory);
    if (result != RHUMB_OK) {
        rhumb_destroy_self_test(test);
        return result;
    }
    *out = test;
    return RHUMB_OK;
}

void rhumb_destroy_self_test(rhumb_self_test *test)
{
    if (!test)
        return;
    for (uint32_t i = 0; i < test->count; i++) {
        rhumb_destroy_bindings(test->runs[i].bindings);
        rhumb_destroy_plan(test->runs[i].plan);
    }
    rhumb_release(test->context, test);
}

/* ---- Record. No run writes what another one touches. */
rhumb_result rhumb_record_self_test(VkCommandBuffer command_buffer, rhumb_self_test *test)
{
    if (!test || !command_buffer)
        return rhumb_fail(test ? test->context : NULL, RHUMB_ERROR_ARGUMENT,
                          "record_self_test: wanted a command buffer and a self-test, found NULL");
    if (test->recorded)
        return rhumb_fail(test->context, RHUMB_ERROR_ARGUMENT,
                          "record_self_test: wanted a new self-test, found one recorded before");
    RHUMB_TRY(rhumb_check_lost(test->context));
    for (uint32_t i = 0; i < test->count; i++) {
        rhumb_dispatch dispatch;
        rhumb_init_dispatch(&dispatch);
        dispatch.constants_offset = (uint32_t)(test->offset + test->runs[i].constants);
        dispatch.bindings_offset = (uint32_t)(test->offset + test->runs[i].bindings_block);
        dispatch.causal = test->runs[i].known->op == RHUMB_OP_ATTENTION;
        RHUMB_TRY(rhumb_record(command_buffer, test->runs[i].bindings, &dispatch));
    }
    test->recorded = true;
    return RHUMB_OK;
}

/* ---- Answers: one row of an output */
static double input(const struct tensor *t, uint32_t b, uint32_t h, uint32_t row, uint32_t channel)
{
    uint64_t first = ((uint64_t)b * t->shape[1] + h) * t->shape[2] + row;
    return sample(t->id, first * t->shape[3] + channel);
}

/* x' = x cos - y sin, y' = x sin + y cos in the pairs of the window; the rest as it was. */
static void answer_rotation(const struct run *run, const struct tensor *from, uint32_t b,
                            uint32_t h, uint32_t row, double *want)
{
    const struct known *k = run->known;
    const bool half = k->pairing == RHUMB_PAIRING_HALF;
    for (uint32_t d = 0; d < k->head_dim; d++)
        want[d] = input(from, b, h, row, d);
    for (uint32_t i = 0; i < ROTARY_DIM / 2; i++) {
        double *x = want + k->rotary_offset + (half ? i : 2 * i);
        double *y = x + (half ? ROTARY_DIM / 2 : 1);
        /* Exact in a double, and libm's functions are good for arguments of any size. */
        const double angle = ldexp(positions[row], -2 * (int)i);
        const double turned = *x * cos(angle) - *y * sin(angle);
        *y = *x * sin(angle) + *y * cos(angle);
        *x = turned;
    }
}

static void answer_attention(const struct run *run, uint32_t b, uint32_t h, uint32_t row,
                             double *want)
{
    const struct known *k = run->known;
    const uint32_t kv = h / (HEADS / KV_HEADS);
    const uint32_t visible = row + 1 + KEYS - k->rows; /* bottom-right */
    double weight[KEYS], sum = 0;
    for (uint32_t j = 0; j < visible; j++) {
        double logit = 0;
        for (uint32_t d = 0; d < k->head_dim; d++)
            logit += input(&run->tensors[0], b, h, row, d) * input(&run->tensors[1], b, kv, j, d);
        sum += weight[j] = exp((double)SHARPNESS * logit); /* |logit| <= 33 */
    }
    for (uint32_t d = 0; d < k->value_dim; d++) {
        want[d] = 0;
        for (uint32_t j = 0; j < visible; j++)
            want[d] += weight[j] / sum * input(&run->tensors[2], b, kv, j, d);
    }
}

/* ---- Read */
struct findings {
    double worst;
    uint32_t wrong; /* elements of one run */
    char line[sizeof((rhumb_self_test_result *)0)->text]; /* of its first one */
};

static void compare_row(const struct run *run, const struct tensor *t, uint64_t first,
                        const uint8_t *memory, const double *want, struct findings *f)
{
    const bool rotated = run->known->op == RHUMB_OP_ROTATE;
    for (uint32_t d = 0; d < t->shape[3]; d++) {
        const double got = read_element(t, memory, first + d);
        const double rounding = t->dtype == RHUMB_F16 ? HALF_ULP * fabs(want[d]) : 0;
        const double error = isfinite(got) ? (fabs(got - want[d]) - rounding) /
                                                 (rotated ? ROTATE_BOUND : ATTENTION_BOUND)
                                           : INFINITY;
        if (error > 1 && !f->wrong++)
            snprintf(f->line, sizeof f->line, "%s: element %llu of %s: got %.7g, want %.7g",
                     run->known->name, (unsigned long long)(first + d),
                     rhumb_view_rules[t->id].name, got, want[d]);
        f->worst = error > f->worst ? error : f->worst;
    }
}

static void compare_run(const struct run *run, const uint8_t *memory, struct findings *f)
{
    double want[MOST_CHANNELS];
    f->wrong = 0;
    for (uint32_t n = 0; n < TENSORS; n++) {
        const struct tensor *t = &run->tensors[n];
        const bool rotated = run->known->op == RHUMB_OP_ROTATE;
        if (!is_result(t) && !(rotated && t->id == RHUMB_VIEW_Q))
            continue;
        for (uint64_t r = 0; r < count_of(t) / t->shape[3]; r++) {
            const uint32_t row = (uint32_t)(r % t->shape[2]);
            const uint32_t h = (uint32_t)(r / t->shape[2] % t->shape[1]);
            const uint32_t b = (uint32_t)(r / t->shape[2] / t->shape[1]);
            if (!rotated)
                answer_attention(run, b, h, row, want);
            else /* Q from itself, K_OUT from K */
                answer_rotation(run, &run->tensors[n / 2], b, h, row, want);
            compare_row(run, t, r * t->shape[3], memory, want, f);
        }
    }
}

rhumb_result rhumb_read_self_test(rhumb_self_test *test, rhumb_self_test_result *result)
{
    rhumb_self_test_result full;
    struct findings f = {0};
    rhumb_init_self_test_result(&full);
    if (!test)
        return rhumb_fail(NULL, RHUMB_ERROR_ARGUMENT,
                          "read_self_test: self-test: wanted one, found NULL");
    /* The header first: nothing is avoided after an error. */
    RHUMB_TRY(rhumb_adopt(test->context, "read_self_test", "rhumb_self_test_result", result,
                          RHUMB_TYPE_SELF_TEST_RESULT, &full, sizeof full));
    RHUMB_TRY(rhumb_check_lost(test->context));
    if (!test->recorded)
        return rhumb_fail(test->context, RHUMB_ERROR_ARGUMENT,
                          "read_self_test: self-test: wanted a recorded one, found another");
    rhumb_init_self_test_result(&full);
    for (uint32_t i = 0; i < test->count; i++) {
        full.tested |= test->runs[i].known->kernel;
        compare_run(&test->runs[i], test->memory, &f);
        if (!f.wrong)
            continue;
        if (!full.failed)
            memcpy(full.text, f.line, sizeof full.text);
        full.failed |= test->runs[i].known->kernel;
        rhumb_log(test->context, RHUMB_LOG_ERROR,
                  "self-test: %s; %u elements are wrong, the kernel is avoided from now on", f.line,
                  f.wrong);
    }
    atomic_fetch_or(&test->context->avoided, full.failed);
    full.worst_error = f.worst;
    if (!full.failed)
        snprintf(full.text, sizeof full.text,
                 "%u operations are right, errors up to %.2g of their bounds", test->count,
                 f.worst);
    return rhumb_give(test->context, "read_self_test", "rhumb_self_test_result", result,
                      RHUMB_TYPE_SELF_TEST_RESULT, &full, sizeof full);
}
