/* Self-test: operations with known answers, one for each kernel, on the host's memory and in the
 * host's command buffer. Made of plans, bindings and records like any other. */
#include "known_answers.h"

#include <stdio.h>

struct run {
    const rhumb_known *known;
    rhumb_known_tensor tensors[RHUMB_KNOWN_TENSORS];
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
    struct run runs[RHUMB_KNOWN_COUNT];
};

/* ---- Layout */
static uint64_t alignment_of(const rhumb_limits *l)
{
    uint32_t alignment = l->storage_offset_alignment > l->uniform_offset_alignment
                             ? l->storage_offset_alignment
                             : l->uniform_offset_alignment;
    return alignment < 16 ? 16 : alignment;
}

static uint64_t take(uint64_t *at, uint64_t bytes, uint64_t alignment)
{
    uint64_t offset = *at;
    *at += (bytes + alignment - 1) / alignment * alignment;
    return offset;
}

/* What this device can be asked, and where it lies. Returns the bytes needed. Blocks come first:
 * the synchronization validation of layer 1.3.239 overlooks dynamic offsets, and takes a buffer's
 * start for each of them. */
static uint64_t lay_out(const rhumb_context *context, struct run runs[RHUMB_KNOWN_COUNT],
                        uint32_t *count)
{
    const uint64_t alignment = alignment_of(&context->limits);
    uint64_t at = 0;
    *count = 0;
    for (size_t i = 0; i < RHUMB_KNOWN_COUNT; i++) {
        if (rhumb_knowns[i].kernel == RHUMB_SELF_TEST_ATTENTION_TILE_SUBGROUP &&
            !rhumb_has_shuffles(&context->limits))
            continue;
        struct run *run = &runs[(*count)++];
        run->known = &rhumb_knowns[i];
        run->constants = take(&at, sizeof(struct rhumb_constants_block), alignment);
        run->bindings_block = take(&at, sizeof(struct rhumb_bindings_block), alignment);
    }
    for (uint32_t i = 0; i < *count; i++) {
        rhumb_known_tensor *t = runs[i].tensors;
        rhumb_known_tensors(runs[i].known, t);
        for (uint32_t n = 0; n < RHUMB_KNOWN_TENSORS; n++)
            t[n].offset = take(&at, rhumb_known_bytes(&t[n]), alignment);
    }
    return at;
}

rhumb_result rhumb_query_self_test(const rhumb_context *context,
                                   rhumb_self_test_properties *properties)
{
    rhumb_self_test_properties full;
    struct run runs[RHUMB_KNOWN_COUNT] = {0};
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

/* ---- Create */
static rhumb_result create_plan(rhumb_context *context, struct run *run)
{
    rhumb_plan_info info;
    rhumb_rope rope;
    rhumb_known_plan(run->known, &info, &rope);
    info.name = "self-test";
    for (uint32_t n = 0; n < RHUMB_KNOWN_TENSORS; n++) {
        info.views |= RHUMB_VIEW_BIT(run->tensors[n].id);
        info.dtype[run->tensors[n].id] = run->tensors[n].dtype;
    }
    return rhumb_create_plan_without(context, &info, run->known->avoid | RHUMB_AVOID_ADDRESSES,
                                     &run->plan);
}

static rhumb_result create_bindings(const rhumb_self_test_info *given, struct run *run)
{
    rhumb_view views[RHUMB_KNOWN_TENSORS];
    rhumb_bindings_info info;
    rhumb_init_bindings_info(&info);
    info.views = views;
    info.view_count = RHUMB_KNOWN_TENSORS;
    info.constants_buffer = info.bindings_buffer = given->buffer;
    for (uint32_t n = 0; n < RHUMB_KNOWN_TENSORS; n++) {
        const rhumb_known_tensor *t = &run->tensors[n];
        rhumb_init_view(&views[n], t->id, t->dtype, given->buffer, given->buffer_size, t->shape[0],
                        t->shape[1], t->shape[2], t->shape[3]);
        views[n].offset = given->offset + t->offset;
    }
    return rhumb_create_bindings(run->plan, &info, &run->bindings);
}

static rhumb_result write_run(const struct run *run, uint8_t *memory)
{
    for (uint32_t n = 0; n < RHUMB_KNOWN_TENSORS; n++)
        rhumb_known_write(&run->tensors[n], memory);
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
    if ((uint64_t)l->max_workgroups_x * l->max_workgroups_y < RHUMB_KNOWN_GROUPS)
        return rhumb_fail(context, RHUMB_ERROR_LIMIT,
                          "create_self_test: work groups: wanted %d in a dispatch, found %u x %u",
                          RHUMB_KNOWN_GROUPS, l->max_workgroups_x, l->max_workgroups_y);
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

/* ---- Read */
rhumb_result rhumb_read_self_test(rhumb_self_test *test, rhumb_self_test_result *result)
{
    rhumb_self_test_result full;
    rhumb_known_findings f = {0};
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
                          "read_self_test: wanted a recorded self-test, found one not recorded");
    rhumb_init_self_test_result(&full);
    for (uint32_t i = 0; i < test->count; i++) {
        const struct run *run = &test->runs[i];
        full.tested |= run->known->kernel;
        rhumb_known_compare(run->known, run->tensors, test->memory, &f);
        if (!f.wrong)
            continue;
        if (!full.failed)
            memcpy(full.text, f.line, sizeof full.text);
        full.failed |= run->known->kernel;
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
