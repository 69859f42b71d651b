/* When something fails half-way: each call of the driver and of the host's allocator in turn, by
 * each error. The result is the documented one, nothing is left alive, and the same call works when
 * it is made again. */
#include "host.h"
#include "shapes.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST_CALLS 200 /* of a step; more would mean that the failure never came */

static const struct {
    VkResult given;
    rhumb_result wanted;
} errors[] = {
    {VK_ERROR_OUT_OF_HOST_MEMORY, RHUMB_ERROR_HOST_MEMORY},
    {VK_ERROR_OUT_OF_DEVICE_MEMORY, RHUMB_ERROR_DEVICE_MEMORY},
    {VK_ERROR_UNKNOWN, RHUMB_ERROR_VULKAN},
};

/* ---- an allocator that fails the nth call ---- */

typedef struct heap_state {
    long live;
    unsigned calls;
    unsigned fail_at; /* 0: never */
} heap_state;

static void *heap_allocate(void *user, size_t size)
{
    heap_state *h = user;
    void *memory;
    h->calls++;
    if (h->calls == h->fail_at) {
        return NULL;
    }
    memory = malloc(size);
    h->live += memory != NULL ? 1 : 0;
    return memory;
}

static void heap_release(void *user, void *memory)
{
    heap_state *h = user;
    h->live--;
    free(memory);
}

static void heap_describe(heap_state *h, rhumb_allocator *allocator)
{
    memset(h, 0, sizeof *h);
    rhumb_init_allocator(allocator);
    allocator->allocate = heap_allocate;
    allocator->release = heap_release;
    allocator->user = h;
}

/* ---- the steps: context, plan, bindings ---- */

typedef struct steps {
    host h;
    heap_state heap;
    rhumb_allocator allocator;
    rhumb_context *context;
    rhumb_rope rope;
    rhumb_plan *plan;
    rhumb_bindings *bindings;
    host_buffer storage;
    host_buffer uniforms;
} steps;

static rhumb_result make_context(steps *s)
{
    rhumb_hosted_info info;
    host_describe(&s->h, &info);
    info.allocator = &s->allocator;
    s->context = (rhumb_context *)(void *)s; /* must become NULL on an error */
    return rhumb_create_hosted(&info, &s->context);
}

static rhumb_result make_plan(steps *s)
{
    rhumb_plan_info info;
    rhumb_init_rope(&s->rope);
    rhumb_init_plan_info(&info, RHUMB_OP_ROTATE);
    info.rotary = &s->rope;
    info.heads = 1;
    info.head_dim = 8; /* two pipelines: the form for any alignment and the fast one */
    info.max_q_length = 2;
    info.views = RHUMB_VIEW_BIT(RHUMB_VIEW_Q);
    s->plan = (rhumb_plan *)(void *)s;
    return rhumb_create_plan(s->context, &info, &s->plan);
}

static rhumb_result make_bindings(steps *s)
{
    rhumb_bindings_info info;
    rhumb_view view;
    rhumb_init_view(&view, RHUMB_VIEW_Q, RHUMB_F32, s->storage.buffer, s->storage.size, 1, 1, 2, 8);
    rhumb_init_bindings_info(&info);
    info.views = &view;
    info.view_count = 1;
    info.constants_buffer = s->uniforms.buffer;
    info.bindings_buffer = s->uniforms.buffer;
    s->bindings = (rhumb_bindings *)(void *)s;
    return rhumb_create_bindings(s->plan, &info, &s->bindings);
}

static const struct {
    const char *name;
    rhumb_result (*make)(steps *s);
} step_table[] = {{"create_hosted", make_context},
                  {"create_plan", make_plan},
                  {"create_bindings", make_bindings}};

static const void *made(const steps *s, size_t step)
{
    return step == 0   ? (const void *)s->context
           : step == 1 ? (const void *)s->plan
                       : (const void *)s->bindings;
}

static void unmake(steps *s, size_t step)
{
    if (step == 0) {
        rhumb_destroy_context(s->context);
        s->context = NULL;
    } else if (step == 1) {
        rhumb_destroy_plan(s->plan);
        s->plan = NULL;
    } else {
        rhumb_destroy_bindings(s->bindings);
        s->bindings = NULL;
    }
}

static void open_steps(steps *s)
{
    memset(s, 0, sizeof *s);
    host_open(&s->h, HARNESS_LAVAPIPE, true);
    interpose_start(harness_loader(), INTERPOSE_PLAIN);
    heap_describe(&s->heap, &s->allocator);
    s->storage = host_make_buffer(&s->h, 4096);
    s->uniforms = host_make_buffer(&s->h, 65536);
}

static void close_steps(steps *s)
{
    host_free_buffer(&s->h, &s->storage);
    host_free_buffer(&s->h, &s->uniforms);
    host_close(&s->h);
    cr_expect_eq(s->heap.live, 0, "%ld host allocations are left", s->heap.live);
    cr_expect_eq(interpose_live_total(), 0, "%llu Vulkan objects are left",
                 (unsigned long long)interpose_live_total());
    cr_expect_eq(interpose_violation_count(), 0, "%s", interpose_violation(0));
}

static void expect_failed(steps *s, size_t step, unsigned nth, rhumb_result result,
                          rhumb_result wanted, uint64_t alive, long live)
{
    const char *message = rhumb_last_message(step == 0 ? NULL : s->context);
    const char *name = step_table[step].name;
    cr_expect_eq(result, wanted, "%s, call %u: got %s, want %s: %s", name, nth,
                 rhumb_result_name(result), rhumb_result_name(wanted), message);
    cr_expect(message[0] != '\0' && strchr(message, '\n') == NULL, "%s, call %u: message \"%s\"",
              name, nth, message);
    cr_expect_null(made(s, step), "%s, call %u: the handle is not NULL", name, nth);
    cr_expect_eq(interpose_live_total(), alive, "%s, call %u: Vulkan objects are left", name, nth);
    cr_expect_eq(s->heap.live, live, "%s, call %u: host memory is left", name, nth);
}

/* Fails the 1st, 2nd ... call of the driver in a step until the step succeeds. */
static unsigned fail_driver(steps *s, size_t step, VkResult given, rhumb_result wanted)
{
    uint64_t alive = interpose_live_total();
    long live = s->heap.live;
    for (unsigned nth = 1; nth < MOST_CALLS; nth++) {
        rhumb_result result;
        uint32_t calls;
        interpose_fail("*", nth, given);
        result = step_table[step].make(s);
        calls = interpose_fail_calls();
        interpose_fail(NULL, 0, VK_SUCCESS);
        if (calls < nth) {
            cr_assert_eq(result, RHUMB_OK, "%s fails by itself: %s", step_table[step].name,
                         rhumb_last_message(s->context));
            return nth - 1;
        }
        expect_failed(s, step, nth, result, wanted, alive, live);
        if (result == RHUMB_OK) {
            unmake(s, step);
        }
    }
    cr_assert_fail("%s: more than %d calls", step_table[step].name, MOST_CALLS);
    return 0;
}

static unsigned fail_heap(steps *s, size_t step)
{
    uint64_t alive = interpose_live_total();
    long live = s->heap.live;
    for (unsigned nth = 1; nth < MOST_CALLS; nth++) {
        rhumb_result result;
        s->heap.calls = 0;
        s->heap.fail_at = nth;
        result = step_table[step].make(s);
        s->heap.fail_at = 0;
        if (s->heap.calls < nth) {
            cr_assert_eq(result, RHUMB_OK);
            return nth - 1;
        }
        expect_failed(s, step, nth, result, RHUMB_ERROR_HOST_MEMORY, alive, live);
    }
    cr_assert_fail("%s: more than %d allocations", step_table[step].name, MOST_CALLS);
    return 0;
}

Test(failures, of_any_driver_call_leave_nothing_and_say_which)
{
    static steps s;
    open_steps(&s);
    for (size_t e = 0; e < sizeof errors / sizeof errors[0]; e++) {
        for (size_t step = 0; step < 3; step++) {
            unsigned calls = fail_driver(&s, step, errors[e].given, errors[e].wanted);
            cr_expect_gt(calls, 0, "%s called nothing that can fail", step_table[step].name);
        }
        for (size_t step = 3; step-- > 0;) {
            unmake(&s, step);
        }
    }
    close_steps(&s);
}

Test(failures, of_any_host_allocation_leave_nothing_and_say_so)
{
    static steps s;
    open_steps(&s);
    for (size_t step = 0; step < 3; step++) {
        unsigned calls = fail_heap(&s, step);
        cr_expect_gt(calls, 0, "%s allocated nothing through the host's allocator",
                     step_table[step].name);
    }
    for (size_t step = 3; step-- > 0;) {
        unmake(&s, step);
    }
    close_steps(&s);
}

Test(failures, of_a_descriptor_pool_are_errors_of_memory)
{
    static const VkResult results[] = {VK_ERROR_OUT_OF_POOL_MEMORY, VK_ERROR_FRAGMENTED_POOL};
    static steps s;
    open_steps(&s);
    cr_assert_eq(make_context(&s), RHUMB_OK);
    cr_assert_eq(make_plan(&s), RHUMB_OK);
    for (int i = 0; i < 2; i++) {
        uint64_t alive = interpose_live_total();
        long live = s.heap.live;
        rhumb_result result;
        interpose_fail("vkAllocateDescriptorSets", 1, results[i]);
        result = make_bindings(&s);
        interpose_fail(NULL, 0, VK_SUCCESS);
        expect_failed(&s, 2, 1, result, RHUMB_ERROR_DEVICE_MEMORY, alive, live);
    }
    /* the table refuses what goes beyond the declared sizes: exact pools do not */
    cr_assert_eq(make_bindings(&s), RHUMB_OK, "%s", rhumb_last_message(s.context));
    for (size_t step = 3; step-- > 0;) {
        unmake(&s, step);
    }
    close_steps(&s);
}

/* ---- a lost device ---- */

Test(failures, device_lost_stays_and_everything_can_still_be_destroyed)
{
    static steps s;
    rhumb_plan *first;
    rhumb_dispatch dispatch;
    rhumb_plan_info info;
    rhumb_plan *plan = NULL;
    interpose_counts before;
    VkCommandBuffer commands;
    size_t size = 0;
    uint32_t used = 1;
    open_steps(&s);
    cr_assert_eq(make_context(&s), RHUMB_OK);
    cr_assert_eq(make_plan(&s), RHUMB_OK);
    cr_assert_eq(make_bindings(&s), RHUMB_OK);
    first = s.plan;
    commands = host_begin(&s.h, s.h.pool);
    rhumb_init_plan_info(&info, RHUMB_OP_ROTATE);
    info.rotary = &s.rope;
    info.heads = 1;
    info.head_dim = 6;
    info.max_q_length = 2;
    info.views = RHUMB_VIEW_BIT(RHUMB_VIEW_K); /* another kernel */
    interpose_fail("vkCreateComputePipelines", 1, VK_ERROR_DEVICE_LOST);
    cr_expect_eq(rhumb_create_plan(s.context, &info, &plan), RHUMB_ERROR_DEVICE_LOST);
    interpose_fail(NULL, 0, VK_SUCCESS);
    cr_expect_null(plan);
    before = interpose_read();
    rhumb_init_dispatch(&dispatch);
    cr_expect_eq(rhumb_create_plan(s.context, &info, &plan), RHUMB_ERROR_DEVICE_LOST);
    cr_expect_eq(make_plan(&s), RHUMB_ERROR_DEVICE_LOST);
    s.plan = first;
    cr_expect_eq(rhumb_record(commands, s.bindings, &dispatch), RHUMB_ERROR_DEVICE_LOST);
    cr_expect_neq(rhumb_last_message(s.context)[0], '\0');
    cr_expect_eq(rhumb_export_cache(s.context, &size, NULL), RHUMB_ERROR_DEVICE_LOST);
    cr_expect_eq(rhumb_import_cache(s.context, "x", 1, &used), RHUMB_ERROR_DEVICE_LOST);
    cr_expect_eq(interpose_read().calls, before.calls, "the driver of a lost device was called");
    host_end(&s.h, commands);
    for (size_t step = 3; step-- > 0;) {
        unmake(&s, step);
    }
    close_steps(&s);
}

/* ---- cache blobs ---- */

static uint8_t *export_blob(rhumb_context *context, size_t *size)
{
    uint8_t *blob;
    cr_assert_eq(rhumb_export_cache(context, size, NULL), RHUMB_OK, "%s",
                 rhumb_last_message(context));
    cr_assert_gt(*size, 0);
    blob = harness_alloc(*size, 1);
    cr_assert_eq(rhumb_export_cache(context, size, blob), RHUMB_OK, "%s",
                 rhumb_last_message(context));
    return blob;
}

static void expect_import(rhumb_context *context, const void *blob, size_t size, uint32_t wanted,
                          const char *what)
{
    uint32_t used = 7;
    uint64_t alive = interpose_live_total();
    cr_expect_eq(rhumb_import_cache(context, blob, size, &used), RHUMB_OK, "%s: %s", what,
                 rhumb_last_message(context));
    cr_expect_eq(used, wanted, "%s: used is %u", what, used);
    cr_expect_eq(interpose_live_total(), alive, "%s: Vulkan objects are left", what);
}

static void import_damaged(rhumb_context *context, uint8_t *blob, size_t size)
{
    char what[64];
    for (size_t at = 0; at < size; at += at < 128 ? 1 : 1 + size / 64) {
        blob[at] ^= 0x40;
        snprintf(what, sizeof what, "byte %zu of %zu damaged", at, size);
        expect_import(context, blob, size, 0, what);
        blob[at] ^= 0x40;
    }
    for (size_t part = 0; part < size; part += 1 + size / 16) {
        snprintf(what, sizeof what, "cut to %zu of %zu bytes", part, size);
        expect_import(context, blob, part, 0, what);
    }
}

static void import_foreign(rhumb_context *context, const host *h)
{
    const VkPipelineCacheCreateInfo info = {.sType = VK_STRUCTURE_TYPE_PIPELINE_CACHE_CREATE_INFO};
    harness_random r = {.state = 1};
    VkPipelineCache cache = VK_NULL_HANDLE;
    uint8_t bytes[4096];
    size_t size = sizeof bytes;
    for (size_t i = 0; i < sizeof bytes; i++) {
        bytes[i] = (uint8_t)harness_next(&r);
    }
    expect_import(context, bytes, sizeof bytes, 0, "random bytes");
    expect_import(context, NULL, 0, 0, "nothing");
    cr_assert_eq(h->vk.vkCreatePipelineCache(h->device, &info, NULL, &cache), VK_SUCCESS);
    (void)h->vk.vkGetPipelineCacheData(h->device, cache, &size, bytes);
    expect_import(context, bytes, size, 0, "a driver's own blob");
    h->vk.vkDestroyPipelineCache(h->device, cache, NULL);
}

Test(failures, of_cache_blobs_are_misses_and_a_round_trip_is_a_hit)
{
    static steps s;
    uint8_t *blob, *longer;
    size_t size = 0;
    rhumb_result result;
    open_steps(&s);
    cr_assert_eq(make_context(&s), RHUMB_OK);
    cr_assert_eq(make_plan(&s), RHUMB_OK);
    blob = export_blob(s.context, &size);
    unmake(&s, 1);
    unmake(&s, 0);
    cr_assert_eq(make_context(&s), RHUMB_OK);
    expect_import(s.context, blob, size, 1, "own blob");
    expect_import(s.context, blob, size, 1, "own blob again");
    import_damaged(s.context, blob, size);
    longer = harness_alloc(size + 16, 1);
    memcpy(longer, blob, size);
    expect_import(s.context, longer, size + 16, 0, "blob with bytes behind it");
    import_foreign(s.context, &s.h);
    interpose_fail("vkMergePipelineCaches", 1, VK_ERROR_OUT_OF_DEVICE_MEMORY);
    result = rhumb_import_cache(s.context, blob, size, NULL);
    interpose_fail(NULL, 0, VK_SUCCESS);
    cr_expect_eq(result, RHUMB_ERROR_DEVICE_MEMORY);
    cr_assert_eq(make_plan(&s), RHUMB_OK, "%s", rhumb_last_message(s.context));
    unmake(&s, 1);
    unmake(&s, 0);
    free(blob);
    free(longer);
    close_steps(&s);
}

Test(failures, of_a_blob_of_another_device_are_misses)
{
    static steps s;
    static host other;
    rhumb_hosted_info info;
    rhumb_context *context = NULL;
    uint8_t *blob;
    size_t size = 0;
    if (!harness_has(HARNESS_SWIFTSHADER)) {
        cr_skip_test("left out: no SwiftShader");
    }
    open_steps(&s);
    host_open(&other, HARNESS_SWIFTSHADER, true);
    cr_assert_eq(make_context(&s), RHUMB_OK);
    blob = export_blob(s.context, &size);
    host_describe(&other, &info);
    cr_assert_eq(rhumb_create_hosted(&info, &context), RHUMB_OK, "%s", rhumb_last_message(NULL));
    expect_import(context, blob, size, 0, "blob of another device");
    rhumb_destroy_context(context);
    unmake(&s, 0);
    free(blob);
    host_close(&other);
    close_steps(&s);
}

/* ---- standalone contexts and the tools' own code ---- */

Test(failures, of_a_standalone_context_leave_nothing)
{
    harness_select_drivers();
    for (size_t e = 0; e < sizeof errors / sizeof errors[0]; e++) {
        bool ended = false;
        for (unsigned nth = 1; !ended && nth < MOST_CALLS; nth++) {
            rhumb_standalone_info info;
            rhumb_context *context = NULL;
            rhumb_result result;
            interpose_start(harness_loader(), INTERPOSE_PLAIN);
            rhumb_init_standalone_info(&info);
            info.device_name = harness_device_name(HARNESS_LAVAPIPE);
            info.get_instance_proc_addr = interpose_get_instance_proc_addr;
            interpose_fail("*", nth, errors[e].given);
            result = rhumb_create_standalone(&info, &context);
            ended = interpose_fail_calls() < nth;
            interpose_fail(NULL, 0, VK_SUCCESS);
            cr_expect_eq(result == RHUMB_OK, ended, "call %u: %s", nth, rhumb_result_name(result));
            cr_expect(ended || context == NULL);
            rhumb_destroy_context(context);
            cr_expect_eq(interpose_live_total(), 0, "call %u: Vulkan objects are left", nth);
            cr_expect_eq(interpose_violation_count(), 0, "%s", interpose_violation(0));
        }
        cr_expect(ended);
    }
}

Test(failures, of_any_driver_call_in_a_whole_operation_leave_nothing)
{
    static const rotate_shape shape = {
        .heads = 1, .rows = 2, .head_dim = 6, .pairing = RHUMB_PAIRING_HALF};
    attention_run run;
    static const attention_shape attention = {.q_rows = 2, .k_rows = 3, .head_dim = 5};
    harness h;
    bool ended = false;
    harness_open(&h, HARNESS_LAVAPIPE);
    (void)shape_run_rotate(&h, &shape);
    shape_make_attention(&run, &attention, 4);
    for (unsigned nth = 1; !ended && nth < MOST_CALLS; nth++) {
        uint64_t alive = interpose_live_total();
        rhumb_result result;
        interpose_fail("*", nth, VK_ERROR_OUT_OF_DEVICE_MEMORY);
        result = gpu_run_operation(h.g, &run.op);
        ended = interpose_fail_calls() < nth;
        interpose_fail(NULL, 0, VK_SUCCESS);
        cr_expect_eq(result, ended ? RHUMB_OK : RHUMB_ERROR_DEVICE_MEMORY, "call %u: %s: %s", nth,
                     rhumb_result_name(result), run.op.message);
        cr_expect_eq(interpose_live_total(), alive, "call %u: Vulkan objects are left", nth);
    }
    cr_expect(ended);
    shape_free_attention(&run);
    harness_close(&h);
}
