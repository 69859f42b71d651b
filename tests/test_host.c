/* Guest manners: rhumb as a plugin in somebody else's process, on somebody else's device. */
#define _POSIX_C_SOURCE 200809L /* popen */

#include "command.h"
#include "host.h"
#include "shapes.h"

#include <rhumb/rhumb_loader.h>

#include "reference/reference.h"

#include <criterion/criterion.h>
#include <math.h>
#include <pthread.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static const char *build_root(void)
{
    const char *root = getenv("RHUMB_TEST_BUILD_ROOT");
    cr_assert_not_null(root, "RHUMB_TEST_BUILD_ROOT names no build folder");
    return root;
}

static const rhumb_api *open_plugin(rhumb_loader *loader)
{
    char path[1024];
    const rhumb_api *api = NULL;
    snprintf(path, sizeof path, "%s/runtime/rhumb_plugin.so", build_root());
    cr_assert_eq(rhumb_loader_open(loader, path, RHUMB_VERSION_MAJOR, &api), RHUMB_OK, "%s",
                 loader->message);
    cr_assert_geq(api->struct_size, sizeof *api);
    return api;
}

/* Counts what rhumb asks of the host's allocator. */
typedef struct heap_counts {
    atomic_ulong calls;
    atomic_long live;
} heap_counts;

static void *heap_allocate(void *user, size_t size)
{
    heap_counts *h = user;
    void *memory = malloc(size);
    atomic_fetch_add(&h->calls, 1);
    atomic_fetch_add(&h->live, memory != NULL ? 1 : 0);
    return memory;
}

static void heap_release(void *user, void *memory)
{
    heap_counts *h = user;
    atomic_fetch_add(&h->live, -1);
    free(memory);
}

static void heap_describe(heap_counts *h, rhumb_allocator *allocator)
{
    memset(h, 0, sizeof *h);
    rhumb_init_allocator(allocator);
    allocator->allocate = heap_allocate;
    allocator->release = heap_release;
    allocator->user = h;
}

static rhumb_context *open_context(const rhumb_api *api, const host *h,
                                   const rhumb_allocator *allocator)
{
    rhumb_hosted_info info;
    rhumb_context *context = NULL;
    host_describe(h, &info);
    info.allocator = allocator;
    cr_assert_eq(api->create_hosted(&info, &context), RHUMB_OK, "%s", api->last_message(NULL));
    return context;
}

static void expect_guest_manners(void)
{
    interpose_counts c = interpose_read();
    for (uint32_t i = 0; i < interpose_violation_count(); i++) {
        printf("%s\n", interpose_violation(i));
    }
    cr_expect_eq(interpose_violation_count(), 0, "%s", interpose_violation(0));
    cr_expect_eq(interpose_live_total(), 0, "%llu Vulkan objects are left",
                 (unsigned long long)interpose_live_total());
    cr_expect_eq(c.created[INTERPOSE_MEMORY], 0, "rhumb allocated device memory");
    cr_expect_eq(c.created[INTERPOSE_BUFFER], 0, "rhumb made a buffer");
    cr_expect_eq(c.created[INTERPOSE_COMMAND_POOL] + c.created[INTERPOSE_COMMAND_BUFFER], 0,
                 "rhumb made a command pool or buffer");
    cr_expect_eq(c.created[INTERPOSE_FENCE] + c.created[INTERPOSE_QUERY_POOL], 0,
                 "rhumb made a fence or queries");
    cr_expect_eq(c.created[INTERPOSE_DEVICE] + c.created[INTERPOSE_INSTANCE], 0,
                 "rhumb made a device");
    cr_expect_eq(c.submits, 0, "rhumb submitted");
    cr_expect_eq(c.waits, 0, "rhumb waited");
    cr_expect_eq(c.created[INTERPOSE_SHADER_MODULE], c.destroyed[INTERPOSE_SHADER_MODULE]);
}

/* Results that a harness_compare counts, without a device behind it. */
static void expect_no_failures(const harness *results)
{
    cr_expect_gt(results->cases, 0);
    cr_expect_eq(results->failures, 0, "%u of %u comparisons failed", results->failures,
                 results->cases);
}

/* ---- two contexts, two devices ---- */

typedef struct guest {
    host h;
    rhumb_context *context;
    attention_run run;
    host_operation operation;
    VkCommandBuffer commands;
} guest;

static const attention_shape guest_shape = {.heads = 4,
                                            .kv_heads = 2,
                                            .q_rows = 9,
                                            .k_rows = 40,
                                            .head_dim = 40,
                                            .causal = true,
                                            .variant = RHUMB_VARIANT_GENERIC};

static void run_guests(const rhumb_api *api, guest guests[2])
{
    for (int i = 0; i < 2; i++) {
        guests[i].context = open_context(api, &guests[i].h, NULL);
    }
    for (int i = 1; i >= 0; i--) {
        shape_make_attention(&guests[i].run, &guest_shape, 20 + (uint64_t)i);
        host_prepare(&guests[i].operation, &guests[i].h, api, guests[i].context, &guests[i].run.op);
    }
    for (int i = 0; i < 2; i++) {
        guests[i].commands = host_begin(&guests[i].h, guests[i].h.pool);
    }
    for (int i = 1; i >= 0; i--) {
        host_barrier_before(&guests[i].h, guests[i].commands);
        cr_assert_eq(
            host_record(&guests[i].operation, guests[i].commands, &guests[i].run.op.dispatch),
            RHUMB_OK, "%s", api->last_message(guests[i].context));
        host_barrier_after(&guests[i].h, guests[i].commands);
    }
    for (int i = 0; i < 2; i++) {
        host_end(&guests[i].h, guests[i].commands);
        host_submit(&guests[i].h, guests[i].commands);
        host_read_tensors(&guests[i].operation, &guests[i].run.op);
    }
    for (int i = 0; i < 2; i++) {
        host_release(&guests[i].operation);
        api->destroy_context(guests[i].context);
    }
}

Test(host, plugin_serves_two_contexts_on_two_devices_in_one_process)
{
    bool both = harness_has(HARNESS_SWIFTSHADER); /* else two devices of one driver */
    static guest guests[2];
    harness results = {.profile = HARNESS_LAVAPIPE};
    rhumb_loader loader;
    const rhumb_api *api = open_plugin(&loader);
    host_open(&guests[0].h, HARNESS_LAVAPIPE, true);
    host_open(&guests[1].h, both ? HARNESS_SWIFTSHADER : HARNESS_LAVAPIPE, true);
    interpose_start(harness_loader(), INTERPOSE_PLAIN);
    run_guests(api, guests);
    for (int i = 0; i < 2; i++) {
        (void)shape_check_attention(&results, &guest_shape, &guests[i].run,
                                    i == 0 ? "plugin, first device" : "plugin, second device");
        shape_free_attention(&guests[i].run);
        host_close(&guests[i].h);
    }
    expect_no_failures(&results);
    expect_guest_manners();
    rhumb_loader_close(&loader);
}

/* ---- replay ---- */

/* Lengths grow on the device while the same commands run: a decode loop without re-recording. */
static void replay(const rhumb_api *api, host *h, rhumb_context *context,
                   const attention_shape *base, harness *results)
{
    static const uint32_t lengths[] = {1, 2, 7, 31, 32, 33, 64, 69, 70};
    attention_shape shape = *base;
    attention_run run;
    host_operation o;
    VkCommandBuffer commands = host_begin(h, h->pool);
    shape.lengths = true;
    shape_make_attention(&run, &shape, 5);
    host_prepare(&o, h, api, context, &run.op);
    host_barrier_before(h, commands);
    cr_assert_eq(host_record(&o, commands, &run.op.dispatch), RHUMB_OK, "%s",
                 api->last_message(context));
    host_barrier_after(h, commands);
    host_end(h, commands);
    shape.lengths = false; /* the reference takes them as the dispatch's */
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        char text[64];
        snprintf(text, sizeof text, "replay with %u keys, variant %d", lengths[i],
                 (int)o.properties.variant);
        shape.k_length = lengths[i];
        shape.q_length = shape.q_rows;
        run.lengths.values[0] = lengths[i];
        run.lengths.values[1] = shape.q_rows;
        run.lengths.values[2] = RHUMB_UNSET;
        harness_store(&run.lengths);
        for (uint32_t t = 0; t < run.op.tensor_count; t++) {
            if (run.op.tensors[t].id == RHUMB_VIEW_LENGTHS) {
                host_write_tensor(&o, &run.op, t);
            }
        }
        host_submit(h, commands);
        host_read_tensors(&o, &run.op);
        (void)shape_check_attention(results, &shape, &run, text);
    }
    host_release(&o);
    shape_free_attention(&run);
}

Test(host, command_buffer_recorded_once_is_replayed_while_the_context_grows)
{
    static const attention_shape shapes[] = {
        {.heads = 4, .kv_heads = 2, .q_rows = 1, .k_rows = 70, .head_dim = 64, .causal = true},
        {.heads = 2, .q_rows = 1, .k_rows = 70, .head_dim = 40, .causal = true},
        {.heads = 2, .q_rows = 33, .k_rows = 70, .head_dim = 64, .causal = true},
    };
    harness results = {.profile = HARNESS_LAVAPIPE};
    rhumb_loader loader;
    const rhumb_api *api = open_plugin(&loader);
    rhumb_context *context;
    static host h;
    host_open(&h, HARNESS_LAVAPIPE, true);
    interpose_start(harness_loader(), INTERPOSE_PLAIN);
    context = open_context(api, &h, NULL);
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        replay(api, &h, context, &shapes[i], &results);
    }
    api->destroy_context(context);
    host_close(&h);
    expect_no_failures(&results);
    expect_guest_manners();
    rhumb_loader_close(&loader);
}

/* ---- many records ---- */

/* A ROTATE of one token, Q -> Q_OUT, at dispatch.q_offset. */
typedef struct token {
    harness_tensor x, y;
    rhumb_rope rope;
    gpu_operation op;
} token;

static void make_token(token *t)
{
    harness_random r = {.state = 3};
    memset(t, 0, sizeof *t);
    harness_make_tensor(&t->x, RHUMB_F32, 1, 3, 1, 64, (harness_layout){0});
    harness_make_tensor(&t->y, RHUMB_F32, 1, 3, 1, 64, (harness_layout){0});
    harness_fill_normal(&t->x, &r);
    rhumb_init_rope(&t->rope);
    gpu_init_operation(&t->op, RHUMB_OP_ROTATE);
    t->op.info.rotary = &t->rope;
    t->op.info.heads = 3;
    t->op.info.head_dim = 64;
    t->op.info.max_q_length = 1;
    (void)harness_add(&t->op, RHUMB_VIEW_Q, &t->x, false);
    (void)harness_add(&t->op, RHUMB_VIEW_Q_OUT, &t->y, true);
}

static void expect_token_at(token *t, int32_t position)
{
    double want[3 * 64];
    ref_rope rope;
    ref_rope_init(&rope, 64);
    cr_assert_eq(ref_rotate(&rope, 1, 3, 1, 64, &position, 0, t->x.values, want), 0);
    harness_load(&t->y);
    for (uint64_t i = 0; i < t->y.count; i++) {
        /* 1e-6 for each channel of a pair, which is below 6 (harness_normal) */
        cr_assert_float_eq(t->y.values[i], want[i], 1.2e-5,
                           "element %llu at position %d: got %.9g, want %.9g",
                           (unsigned long long)i, position, t->y.values[i], want[i]);
    }
}

static void free_token(token *t)
{
    harness_free_tensor(&t->x);
    harness_free_tensor(&t->y);
}

Test(host, ten_thousand_records_fit_one_command_buffer_without_a_heap_call)
{
    enum { RECORDS = 10000 };
    rhumb_loader loader;
    const rhumb_api *api = open_plugin(&loader);
    rhumb_allocator allocator;
    rhumb_context *context;
    VkCommandBuffer commands;
    host_operation o;
    interpose_counts before, after;
    unsigned long calls;
    static host h;
    heap_counts heap;
    token t;
    host_open(&h, HARNESS_LAVAPIPE, false); /* the layer's own bookkeeping of 10,000 barriers is not
                                               under test */
    interpose_start(harness_loader(), INTERPOSE_PLAIN);
    heap_describe(&heap, &allocator);
    context = open_context(api, &h, &allocator);
    make_token(&t);
    host_prepare(&o, &h, api, context, &t.op);
    commands = host_begin(&h, h.pool);
    before = interpose_read();
    calls = atomic_load(&heap.calls);
    for (int32_t i = 0; i < RECORDS; i++) {
        t.op.dispatch.q_offset = i;
        host_barrier_before(&h, commands);
        cr_assert_eq(host_record(&o, commands, &t.op.dispatch), RHUMB_OK, "%s",
                     api->last_message(context));
    }
    after = interpose_read();
    cr_expect_eq(atomic_load(&heap.calls), calls, "rhumb_record called the allocator");
    cr_expect_eq(after.dispatches - before.dispatches, RECORDS);
    cr_expect_eq(after.calls - before.calls, after.commands - before.commands,
                 "rhumb_record called more than vkCmd functions");
    cr_expect_eq(after.barriers, before.barriers, "one dispatch needs no barrier");
    host_barrier_after(&h, commands);
    host_end(&h, commands);
    host_submit(&h, commands);
    host_read_tensors(&o, &t.op);
    expect_token_at(&t, RECORDS - 1); /* the last of them */
    host_release(&o);
    api->destroy_context(context);
    free_token(&t);
    host_close(&h);
    cr_expect_eq(atomic_load(&heap.live), 0);
    expect_guest_manners();
    rhumb_loader_close(&loader);
}

/* The driver locks inside vkCmd*, so "no heap, no lock" is shown on the object file: what record.c
 * cannot name it cannot call. */
Test(host, record_object_file_names_no_allocator_and_no_lock)
{
    static const char *const forbidden[] = {"malloc",        "calloc", "realloc", "free",
                                            "pthread",       "mtx_",   "alloca",  "rhumb_allocate",
                                            "rhumb_release", "sem_",   "futex",   "getenv",
                                            "printf",        "fopen",  "abort",   "exit"};
    char command[1200];
    char line[512];
    FILE *pipe;
    int symbols = 0;
    snprintf(command, sizeof command, "nm -u $(find '%s/runtime' -name '*record.c.o')",
             build_root());
    pipe = popen(command, "r");
    cr_assert_not_null(pipe);
    while (fgets(line, sizeof line, pipe) != NULL) {
        char *name = strstr(line, " U ");
        symbols += name != NULL ? 1 : 0;
        for (size_t i = 0; name != NULL && i < sizeof forbidden / sizeof forbidden[0]; i++) {
            cr_expect_null(strstr(name, forbidden[i]), "record.c uses %s", name);
        }
    }
    cr_assert_eq(pclose(pipe), 0, "%s failed", command);
    cr_assert_gt(symbols, 0, "no record.c.o was found below the build folder");
}

/* ---- threads ---- */

enum { THREADS = 8, THREAD_RECORDS = 50 };

typedef struct recorder {
    host *h;
    host_operation *o;
    const rhumb_dispatch *dispatch;
    VkCommandPool pool;
    VkCommandBuffer commands;
    rhumb_result result;
    char refusal[256]; /* of a bad dispatch on this thread */
    int number;
} recorder;

static void *record_thread(void *argument)
{
    recorder *r = argument;
    rhumb_dispatch dispatch = *r->dispatch;
    r->commands = host_begin(r->h, r->pool);
    for (int i = 0; i < THREAD_RECORDS && r->result == RHUMB_OK; i++) {
        dispatch.q_offset = i;
        host_barrier_before(r->h, r->commands);
        r->result = host_record(r->o, r->commands, &dispatch);
    }
    dispatch.q_length = 100 + r->number; /* refused: the message is this thread's own */
    (void)host_record(r->o, r->commands, &dispatch);
    host_barrier_after(r->h, r->commands);
    host_end(r->h, r->commands);
    return NULL;
}

static void join_threads(recorder *recorders)
{
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++) {
        cr_assert_eq(pthread_create(&threads[i], NULL, record_thread, &recorders[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        cr_assert_eq(pthread_join(threads[i], NULL), 0);
    }
}

Test(host, eight_threads_record_the_same_bindings_into_eight_command_buffers)
{
    rhumb_loader loader;
    const rhumb_api *api = open_plugin(&loader);
    rhumb_context *context;
    static recorder recorders[THREADS];
    static host h;
    host_operation o;
    token t;
    host_open(&h, HARNESS_LAVAPIPE, true);
    interpose_start(harness_loader(), INTERPOSE_PLAIN);
    context = open_context(api, &h, NULL);
    make_token(&t);
    host_prepare(&o, &h, api, context, &t.op);
    for (int i = 0; i < THREADS; i++) {
        recorders[i] = (recorder){
            .h = &h, .o = &o, .dispatch = &t.op.dispatch, .pool = host_make_pool(&h), .number = i};
    }
    join_threads(recorders);
    for (int i = 0; i < THREADS; i++) {
        cr_assert_eq(recorders[i].result, RHUMB_OK, "thread %d: %s", i,
                     api->result_name(recorders[i].result));
        memset(o.buffers[1].mapped, 0, o.buffers[1].size);
        host_submit(&h, recorders[i].commands);
        host_read_tensors(&o, &t.op);
        expect_token_at(&t, THREAD_RECORDS - 1);
        h.vk.vkDestroyCommandPool(h.device, recorders[i].pool, NULL);
    }
    cr_expect_eq(interpose_read().dispatches, THREADS * THREAD_RECORDS);
    host_release(&o);
    api->destroy_context(context);
    free_token(&t);
    host_close(&h);
    expect_guest_manners();
    rhumb_loader_close(&loader);
}

/* Plans are made from several threads at once, the same and different ones. */
static void *plan_thread(void *argument)
{
    recorder *r = argument;
    rhumb_plan_info info;
    rhumb_rope rope;
    rhumb_context *context = (rhumb_context *)(void *)r->o;
    rhumb_init_rope(&rope);
    rope.pairing = r->number % 2 == 0 ? RHUMB_PAIRING_HALF : RHUMB_PAIRING_INTERLEAVED;
    rhumb_init_plan_info(&info, RHUMB_OP_ROTATE);
    info.rotary = &rope;
    info.heads = 1;
    info.head_dim = 64;
    info.max_q_length = 1;
    info.views = RHUMB_VIEW_BIT(RHUMB_VIEW_Q);
    for (int i = 0; i < 5 && r->result == RHUMB_OK; i++) {
        rhumb_plan *plan = NULL;
        r->result = rhumb_create_plan(context, &info, &plan);
        rhumb_destroy_plan(plan);
        info.head_dim = 0;
        if (rhumb_create_plan(context, &info, &plan) != RHUMB_ERROR_ARGUMENT ||
            strstr(rhumb_last_message(context), "head_dim") == NULL) {
            r->result = RHUMB_ERROR_VULKAN;
        }
        info.head_dim = 64;
    }
    return NULL;
}

Test(host, eight_threads_make_plans_at_once)
{
    static recorder recorders[THREADS];
    pthread_t threads[THREADS];
    rhumb_hosted_info info;
    rhumb_context *context = NULL;
    static host h;
    host_open(&h, HARNESS_LAVAPIPE, true);
    interpose_start(harness_loader(), INTERPOSE_PLAIN);
    host_describe(&h, &info);
    cr_assert_eq(rhumb_create_hosted(&info, &context), RHUMB_OK, "%s", rhumb_last_message(NULL));
    for (int i = 0; i < THREADS; i++) {
        recorders[i] = (recorder){.o = (host_operation *)(void *)context, .number = i};
        cr_assert_eq(pthread_create(&threads[i], NULL, plan_thread, &recorders[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        cr_assert_eq(pthread_join(threads[i], NULL), 0);
        cr_expect_eq(recorders[i].result, RHUMB_OK, "thread %d: %s", i,
                     rhumb_result_name(recorders[i].result));
    }
    rhumb_destroy_context(context);
    host_close(&h);
    expect_guest_manners();
}

/* The cache is read and merged into from several threads while plans fill it. Vulkan wants the
 * cache that is merged into used by one thread at a time. The layer reports two uses at once, but a
 * driver's calls are too short to meet by chance: these take longer, and count. */
enum { CACHE_THREADS = 4, CACHE_TURNS = 50 };

static struct {
    PFN_vkGetDeviceProcAddr get_device;
    PFN_vkGetPipelineCacheData read;
    PFN_vkMergePipelineCaches merge;
    PFN_vkCreateComputePipelines create;
    atomic_uint readers;
    atomic_uint writers;
    atomic_uint reads;
    atomic_uint merges;
    atomic_uint meetings; /* of a merge with anything else */
} cache_watch;

static void begin_cache_use(bool merges)
{
    static const struct timespec while_others_come = {.tv_nsec = 100000};
    unsigned before = atomic_fetch_add(merges ? &cache_watch.writers : &cache_watch.readers, 1);
    unsigned others =
        merges ? before + atomic_load(&cache_watch.readers) : atomic_load(&cache_watch.writers);
    atomic_fetch_add(merges ? &cache_watch.merges : &cache_watch.reads, 1);
    atomic_fetch_add(&cache_watch.meetings, others != 0 ? 1 : 0);
    nanosleep(&while_others_come, NULL);
}

static void end_cache_use(bool merges)
{
    atomic_fetch_sub(merges ? &cache_watch.writers : &cache_watch.readers, 1);
}

static VKAPI_ATTR VkResult VKAPI_CALL watch_read(VkDevice device, VkPipelineCache cache,
                                                 size_t *size, void *data)
{
    VkResult result;
    begin_cache_use(false);
    result = cache_watch.read(device, cache, size, data);
    end_cache_use(false);
    return result;
}

static VKAPI_ATTR VkResult VKAPI_CALL watch_merge(VkDevice device, VkPipelineCache cache,
                                                  uint32_t count, const VkPipelineCache *from)
{
    VkResult result;
    begin_cache_use(true);
    result = cache_watch.merge(device, cache, count, from);
    end_cache_use(true);
    return result;
}

static VKAPI_ATTR VkResult VKAPI_CALL watch_create(VkDevice device, VkPipelineCache cache,
                                                   uint32_t count,
                                                   const VkComputePipelineCreateInfo *infos,
                                                   const VkAllocationCallbacks *allocator,
                                                   VkPipeline *pipelines)
{
    VkResult result;
    begin_cache_use(false);
    result = cache_watch.create(device, cache, count, infos, allocator, pipelines);
    end_cache_use(false);
    return result;
}

static VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL watch_device(VkDevice device, const char *name)
{
    PFN_vkVoidFunction function = cache_watch.get_device(device, name);
    if (strcmp(name, "vkGetPipelineCacheData") == 0) {
        cache_watch.read = (PFN_vkGetPipelineCacheData)function;
        return (PFN_vkVoidFunction)watch_read;
    }
    if (strcmp(name, "vkMergePipelineCaches") == 0) {
        cache_watch.merge = (PFN_vkMergePipelineCaches)function;
        return (PFN_vkVoidFunction)watch_merge;
    }
    if (strcmp(name, "vkCreateComputePipelines") == 0) {
        cache_watch.create = (PFN_vkCreateComputePipelines)function;
        return (PFN_vkVoidFunction)watch_create;
    }
    return function;
}

static VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL watch_instance(VkInstance instance,
                                                               const char *name)
{
    PFN_vkVoidFunction function = interpose_get_instance_proc_addr(instance, name);
    if (strcmp(name, "vkGetDeviceProcAddr") != 0) {
        return function;
    }
    cache_watch.get_device = (PFN_vkGetDeviceProcAddr)function;
    return (PFN_vkVoidFunction)watch_device;
}

typedef struct cache_user {
    rhumb_context *context;
    uint8_t *blob; /* room for a cache that grows */
    size_t room;
    size_t size;   /* of what is in blob */
    bool imports;
    rhumb_result result;
} cache_user;

static void *cache_thread(void *argument)
{
    cache_user *u = argument;
    for (int i = 0; i < CACHE_TURNS && u->result == RHUMB_OK; i++) {
        size_t size = u->room;
        if (u->imports) {
            u->result = rhumb_import_cache(u->context, u->blob, u->size, NULL);
        } else {
            u->result = rhumb_export_cache(u->context, &size, u->blob);
        }
    }
    return NULL;
}

static void make_cache_users(cache_user *users, rhumb_context *context)
{
    for (int i = 0; i < CACHE_THREADS; i++) {
        cache_user *u = &users[i];
        *u = (cache_user){.context = context, .imports = i % 2 == 0};
        cr_assert_eq(rhumb_export_cache(context, &u->room, NULL), RHUMB_OK, "%s",
                     rhumb_last_message(context));
        u->room += 1u << 20;
        u->size = u->room;
        u->blob = harness_alloc(u->room, 1);
        cr_assert_eq(rhumb_export_cache(context, &u->size, u->blob), RHUMB_OK, "%s",
                     rhumb_last_message(context));
    }
}

Test(host, threads_export_and_import_the_cache_at_once)
{
    static cache_user users[CACHE_THREADS];
    pthread_t threads[CACHE_THREADS];
    recorder planner = {.number = 0};
    rhumb_hosted_info info;
    rhumb_context *context = NULL;
    static host h;
    host_open(&h, HARNESS_LAVAPIPE, true);
    interpose_start(harness_loader(), INTERPOSE_PLAIN);
    host_describe(&h, &info);
    info.get_instance_proc_addr = watch_instance;
    cr_assert_eq(rhumb_create_hosted(&info, &context), RHUMB_OK, "%s", rhumb_last_message(NULL));
    planner.o = (host_operation *)(void *)context;
    (void)plan_thread(&planner); /* something to export */
    make_cache_users(users, context);
    for (int i = 0; i < CACHE_THREADS; i++) {
        cr_assert_eq(pthread_create(&threads[i], NULL, cache_thread, &users[i]), 0);
    }
    (void)plan_thread(&planner);
    for (int i = 0; i < CACHE_THREADS; i++) {
        cr_assert_eq(pthread_join(threads[i], NULL), 0);
        cr_expect_eq(users[i].result, RHUMB_OK, "thread %d: %s", i,
                     rhumb_result_name(users[i].result));
        free(users[i].blob);
    }
    cr_expect_eq(planner.result, RHUMB_OK, "plans: %s", rhumb_result_name(planner.result));
    cr_expect_geq(atomic_load(&cache_watch.reads), CACHE_THREADS / 2 * CACHE_TURNS);
    cr_expect_geq(atomic_load(&cache_watch.merges), CACHE_THREADS / 2 * CACHE_TURNS);
    cr_expect_eq(atomic_load(&cache_watch.meetings), 0,
                 "%u times a cache was used while it was merged into",
                 atomic_load(&cache_watch.meetings));
    rhumb_destroy_context(context);
    host_close(&h); /* no message */
    expect_guest_manners();
}

/* ---- requirements ---- */

/* Each list goes where it says: an extension of instances is refused by vkCreateDevice. */
Test(host, required_and_recommended_extensions_make_an_instance_and_a_device)
{
    rhumb_requirements requirements;
    rhumb_loader loader;
    const rhumb_api *api = open_plugin(&loader);
    rhumb_hosted_info info;
    rhumb_context *context = NULL;
    static host h;
    host_operation o;
    token t;
    rhumb_init_requirements(&requirements);
    cr_assert_eq(api->get_requirements(&requirements), RHUMB_OK, "%s", api->last_message(NULL));
    cr_expect_eq(requirements.api_version, VK_API_VERSION_1_1);
    cr_expect_eq(requirements.queue_flags, VK_QUEUE_COMPUTE_BIT);
    host_open_required(&h, HARNESS_LAVAPIPE, &requirements);
    interpose_start(harness_loader(), INTERPOSE_PLAIN);
    host_describe(&h, &info);
    info.enabled_extensions = requirements.recommended_instance_extensions;
    info.enabled_extension_count = requirements.recommended_instance_extension_count;
    cr_assert_eq(api->create_hosted(&info, &context), RHUMB_OK, "%s", api->last_message(NULL));
    make_token(&t);
    host_prepare(&o, &h, api, context, &t.op); /* objects get their names */
    host_release(&o);
    api->destroy_context(context);
    free_token(&t);
    host_close(&h);
    expect_guest_manners();
    rhumb_loader_close(&loader);
}

/* ---- what is made when ---- */

Test(host, nothing_is_compiled_before_it_is_asked_for)
{
    rhumb_loader loader;
    const rhumb_api *api = open_plugin(&loader);
    rhumb_context *context;
    rhumb_plan *again = NULL;
    VkCommandBuffer commands;
    static host h;
    host_operation o;
    token t;
    host_open(&h, HARNESS_LAVAPIPE, true);
    interpose_start(harness_loader(), INTERPOSE_PLAIN);
    context = open_context(api, &h, NULL);
    cr_expect_eq(interpose_read().created[INTERPOSE_PIPELINE], 0, "a context compiles nothing");
    make_token(&t);
    host_prepare(&o, &h, api, context, &t.op);
    cr_expect_eq(interpose_read().created[INTERPOSE_PIPELINE], o.properties.pipeline_count);
    cr_expect_eq(interpose_live(INTERPOSE_SHADER_MODULE), 0,
                 "shader modules are gone after create_plan");
    cr_assert_eq(api->create_plan(context, &t.op.info, &again), RHUMB_OK);
    cr_expect_eq(interpose_read().created[INTERPOSE_PIPELINE], o.properties.pipeline_count,
                 "plans with the same kernel share it");
    commands = host_begin(&h, h.pool);
    host_barrier_before(&h, commands);
    cr_assert_eq(host_record(&o, commands, &t.op.dispatch), RHUMB_OK);
    host_barrier_after(&h, commands);
    host_end(&h, commands);
    host_submit(&h, commands);
    cr_expect_eq(interpose_read().created[INTERPOSE_PIPELINE], o.properties.pipeline_count);
    api->destroy_plan(again);
    host_release(&o);
    api->destroy_context(context);
    free_token(&t);
    host_close(&h);
    expect_guest_manners();
    rhumb_loader_close(&loader);
}

Test(host, the_hosts_pipeline_cache_is_used_and_left_alone)
{
    const VkPipelineCacheCreateInfo cache_info = {
        .sType = VK_STRUCTURE_TYPE_PIPELINE_CACHE_CREATE_INFO};
    rhumb_loader loader;
    const rhumb_api *api = open_plugin(&loader);
    rhumb_hosted_info info;
    rhumb_context *context = NULL;
    VkPipelineCache cache = VK_NULL_HANDLE;
    size_t size = 0;
    static host h;
    host_open(&h, HARNESS_LAVAPIPE, true);
    interpose_start(harness_loader(), INTERPOSE_PLAIN);
    cr_assert_eq(h.vk.vkCreatePipelineCache(h.device, &cache_info, NULL, &cache), VK_SUCCESS);
    host_describe(&h, &info);
    info.pipeline_cache = cache;
    cr_assert_eq(api->create_hosted(&info, &context), RHUMB_OK, "%s", api->last_message(NULL));
    cr_expect_eq(interpose_read().created[INTERPOSE_PIPELINE_CACHE], 0);
    api->destroy_context(context);
    cr_expect_eq(h.vk.vkGetPipelineCacheData(h.device, cache, &size, NULL), VK_SUCCESS);
    h.vk.vkDestroyPipelineCache(h.device, cache, NULL);
    host_close(&h);
    expect_guest_manners();
    rhumb_loader_close(&loader);
}

/* ---- cycles ---- */

static long resident_kib(void)
{
    FILE *file = fopen("/proc/self/statm", "r");
    long total = 0;
    long pages = 0;
    cr_assert_not_null(file);
    cr_assert_eq(fscanf(file, "%ld %ld", &total, &pages), 2);
    fclose(file);
    return pages * 4;
}

/* What the driver keeps of `count` pipelines that came and went, in KiB: Mesa 22.3's lavapipe keeps
 * 2 MiB of each. */
static long driver_growth(host *h, int count)
{
    static uint32_t words[65536];
    char path[1024];
    snprintf(path, sizeof path, "%s/shaders/rotate.spv", command_build_root());
    FILE *file = fopen(path, "rb");
    cr_assert_not_null(file, "%s", path);
    size_t count_of_words = fread(words, 4, sizeof words / 4, file);
    fclose(file);
    cr_assert_lt(count_of_words, sizeof words / 4);
    const VkDescriptorSetLayoutBinding bindings[] = {
        {0, VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, 4, VK_SHADER_STAGE_COMPUTE_BIT, NULL},
        {1, VK_DESCRIPTOR_TYPE_UNIFORM_BUFFER_DYNAMIC, 1, VK_SHADER_STAGE_COMPUTE_BIT, NULL},
        {2, VK_DESCRIPTOR_TYPE_UNIFORM_BUFFER_DYNAMIC, 1, VK_SHADER_STAGE_COMPUTE_BIT, NULL}};
    const VkDescriptorSetLayoutCreateInfo set_info = {
        .sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_LAYOUT_CREATE_INFO,
        .bindingCount = 3,
        .pBindings = bindings};
    const VkPushConstantRange push = {VK_SHADER_STAGE_COMPUTE_BIT, 0, 64};
    VkDescriptorSetLayout set;
    VkPipelineLayout layout;
    cr_assert_eq(h->vk.vkCreateDescriptorSetLayout(h->device, &set_info, NULL, &set), VK_SUCCESS);
    const VkPipelineLayoutCreateInfo layout_info = {
        .sType = VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO,
        .setLayoutCount = 1,
        .pSetLayouts = &set,
        .pushConstantRangeCount = 1,
        .pPushConstantRanges = &push};
    cr_assert_eq(h->vk.vkCreatePipelineLayout(h->device, &layout_info, NULL, &layout), VK_SUCCESS);
    long before = 0;
    for (int i = 0; i < count + 5; i++) { /* the first ones fill the driver's own pools */
        const VkShaderModuleCreateInfo module_info = {
            .sType = VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO,
            .codeSize = 4 * count_of_words,
            .pCode = words};
        VkShaderModule module;
        VkPipeline pipeline;
        cr_assert_eq(h->vk.vkCreateShaderModule(h->device, &module_info, NULL, &module),
                     VK_SUCCESS);
        const VkComputePipelineCreateInfo info = {
            .sType = VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO,
            .stage = {.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO,
                      .stage = VK_SHADER_STAGE_COMPUTE_BIT,
                      .module = module,
                      .pName = "main"},
            .layout = layout};
        cr_assert_eq(
            h->vk.vkCreateComputePipelines(h->device, VK_NULL_HANDLE, 1, &info, NULL, &pipeline),
            VK_SUCCESS);
        h->vk.vkDestroyPipeline(h->device, pipeline, NULL);
        h->vk.vkDestroyShaderModule(h->device, module, NULL);
        if (i == 4) {
            before = resident_kib();
        }
    }
    long growth = resident_kib() - before;
    h->vk.vkDestroyPipelineLayout(h->device, layout, NULL);
    h->vk.vkDestroyDescriptorSetLayout(h->device, set, NULL);
    return growth > 0 ? growth : 0;
}

static void cycle(const rhumb_api *api, host *h, heap_counts *heap, token *t, bool with_plan)
{
    rhumb_allocator allocator;
    rhumb_context *context;
    host_operation o;
    heap_describe(heap, &allocator);
    context = open_context(api, h, &allocator);
    if (with_plan) {
        host_prepare(&o, h, api, context, &t->op);
        host_release(&o);
    }
    api->destroy_context(context);
    cr_assert_eq(atomic_load(&heap->live), 0, "%ld allocations are left", atomic_load(&heap->live));
    cr_assert_eq(interpose_live_total(), 0, "Vulkan objects are left");
}

Test(host, two_hundred_contexts_come_and_go_without_a_trace)
{
    rhumb_loader loader;
    const rhumb_api *api = open_plugin(&loader);
    static host h;
    heap_counts heap;
    token t;
    long growth = 0, most = 0;
#ifdef __GLIBC__
    /* Copies of shaders are mapped each by itself: holes that they would leave are no growth. */
    cr_assert_eq(mallopt(M_MMAP_THRESHOLD, 1 << 16), 1);
#endif
    host_open(&h, HARNESS_LAVAPIPE, false);
    interpose_start(harness_loader(), INTERPOSE_PLAIN);
    make_token(&t);
    for (int i = 0; i < 50; i++) {
        cycle(api, &h, &heap, &t, i % 10 == 0);
    }
    /* The heap may take its last step late; what leaks grows each time. */
    for (int turn = 0; turn < 3; turn++) {
        long before = resident_kib();
        for (int i = 0; i < 200; i++) {
            cycle(api, &h, &heap, &t, i % 10 == 0); /* a driver takes its time over each pipeline */
        }
        growth = resident_kib() - before;
        /* Beyond the driver's share of 20 plans of two pipelines each, which differs with the size of
         * a pipeline: below 4 KiB a cycle. */
        most = 800 + 2 * driver_growth(&h, 40);
        printf("resident memory: %ld KiB, %ld KiB more in 200 cycles; at most %ld are the driver's\n",
               before, growth, most);
        if (growth < most) {
            break;
        }
    }
    cr_expect_lt(growth, most);
    free_token(&t);
    host_close(&h);
    expect_guest_manners();
    rhumb_loader_close(&loader);
}

/* ---- the loader ---- */

Test(host, loader_says_why_it_cannot_open_a_plugin)
{
    rhumb_loader loader;
    const rhumb_api *api = (const rhumb_api *)(const void *)&loader;
    char path[1024];
    cr_expect_eq(rhumb_loader_open(&loader, "/no/such/rhumb_plugin.so", RHUMB_VERSION_MAJOR, &api),
                 RHUMB_ERROR_ARGUMENT);
    cr_expect_null(api);
    cr_expect_not_null(strstr(loader.message, "/no/such/rhumb_plugin.so"), "%s", loader.message);
    cr_expect_null(strchr(loader.message, '\n'));
    cr_expect_eq(rhumb_loader_open(&loader, "libm.so.6", RHUMB_VERSION_MAJOR, &api),
                 RHUMB_ERROR_ARGUMENT);
    cr_expect_not_null(strstr(loader.message, "rhumb_get_api"), "%s", loader.message);
    snprintf(path, sizeof path, "%s/runtime/rhumb_plugin.so", build_root());
    cr_expect_eq(rhumb_loader_open(&loader, path, RHUMB_VERSION_MAJOR + 1, &api),
                 RHUMB_ERROR_VERSION);
    cr_expect_null(api);
    cr_expect_null(loader.library);
    cr_expect_not_null(strstr(loader.message, "major"), "%s", loader.message);
    rhumb_loader_close(&loader);
}

Test(host, example_host_of_the_manual_runs)
{
    char command[1200];
    harness_select_drivers();
    snprintf(command, sizeof command, "'%s/tools/hosts/host_minimal'", build_root());
    cr_expect_eq(system(command), 0, "%s failed", command);
}
