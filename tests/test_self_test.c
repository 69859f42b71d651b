/* The known-answer self-test: it passes on right drivers; for wrong answers (bytes changed between
 * the GPU's end and the comparison) it names the kernel, and the context avoids that kernel and
 * works on. */
#include "host.h"
#include "shapes.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ROTATE RHUMB_SELF_TEST_ROTATE
#define VECTOR RHUMB_SELF_TEST_ROTATE_VECTOR
#define GENERIC RHUMB_SELF_TEST_ATTENTION_GENERIC
#define TILE RHUMB_SELF_TEST_ATTENTION_TILE
#define SUBGROUP RHUMB_SELF_TEST_ATTENTION_TILE_SUBGROUP
#define DECODE RHUMB_SELF_TEST_ATTENTION_DECODE
#define ALL (ROTATE | VECTOR | GENERIC | TILE | SUBGROUP | DECODE)

static rhumb_self_test_properties query(const rhumb_context *context)
{
    rhumb_self_test_properties p;
    rhumb_init_self_test_properties(&p);
    cr_assert_eq(rhumb_query_self_test(context, &p), RHUMB_OK, "%s", rhumb_last_message(context));
    cr_assert_eq(p.alignment & (p.alignment - 1), 0);
    return p;
}

/* ---- right drivers ---- */

static void expect_passed(harness *h, const rhumb_self_test_properties *p,
                          const rhumb_self_test_result *r)
{
    printf("%s: %s\n", harness_profile_name(h->profile), r->text);
    h->cases++;
    h->worst = r->worst_error;
    cr_expect_eq(r->tested, p->kernels);
    cr_expect_eq(r->failed, 0, "0x%x of 0x%x failed: %s", r->failed, r->tested, r->text);
    cr_expect(r->worst_error > 0 && r->worst_error <= 1, "%g", r->worst_error);
    cr_expect_not_null(strstr(r->text, "are right"), "%s", r->text);
}

/* At an offset, with bytes around that must stay as they are. */
static void run_on(harness_profile profile, uint32_t kernels)
{
    static harness h;
    rhumb_self_test_properties p;
    rhumb_self_test_info info;
    rhumb_self_test_result result;
    rhumb_self_test *test = NULL;
    gpu_buffer buffer;
    VkCommandBuffer commands;
    uint8_t *mapped;
    uint64_t size;
    interpose_counts before, after;
    harness_open(&h, profile);
    p = query(h.g->context);
    cr_expect_eq(p.kernels, kernels, "0x%x are tested", p.kernels);
    size = p.alignment + p.buffer_size + 256;
    cr_assert_eq(
        gpu_create_buffer(h.g, size,
                          VK_BUFFER_USAGE_STORAGE_BUFFER_BIT | VK_BUFFER_USAGE_UNIFORM_BUFFER_BIT,
                          GPU_MEMORY_READBACK, &buffer),
        RHUMB_OK, "%s", h.g->message);
    mapped = buffer.mapped;
    gpu_fill_canary(mapped, 0, size);
    rhumb_init_self_test_info(&info);
    info.buffer = buffer.buffer;
    info.buffer_size = p.alignment + p.buffer_size;
    info.offset = p.alignment;
    info.memory = mapped + p.alignment;
    before = interpose_read();
    cr_assert_eq(rhumb_create_self_test(h.g->context, &info, &test), RHUMB_OK, "%s",
                 rhumb_last_message(h.g->context));
    after = interpose_read();
    cr_expect_eq(after.created[INTERPOSE_PIPELINE] - before.created[INTERPOSE_PIPELINE],
                 p.pipeline_count);
    cr_expect_eq(after.created[INTERPOSE_MEMORY] + after.created[INTERPOSE_BUFFER],
                 before.created[INTERPOSE_MEMORY] + before.created[INTERPOSE_BUFFER]);
    cr_assert_eq(gpu_flush_buffer(h.g, &buffer, 0, size), RHUMB_OK);
    cr_assert_eq(gpu_begin_commands(h.g, &commands), RHUMB_OK);
    cr_assert_eq(rhumb_record_self_test(commands, test), RHUMB_OK, "%s",
                 rhumb_last_message(h.g->context));
    gpu_barrier(h.g, commands, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT, VK_ACCESS_SHADER_WRITE_BIT,
                VK_PIPELINE_STAGE_HOST_BIT, VK_ACCESS_HOST_READ_BIT);
    cr_assert_eq(gpu_end_commands(h.g, commands), RHUMB_OK);
    cr_assert_eq(gpu_submit_and_wait(h.g, commands, NULL), RHUMB_OK, "%s", h.g->message);
    cr_assert_eq(gpu_invalidate_buffer(h.g, &buffer, 0, size), RHUMB_OK);
    rhumb_init_self_test_result(&result);
    cr_assert_eq(rhumb_read_self_test(test, &result), RHUMB_OK, "%s",
                 rhumb_last_message(h.g->context));
    expect_passed(&h, &p, &result);
    cr_expect_eq(gpu_find_broken_canary(mapped, 0, p.alignment), p.alignment);
    cr_expect_eq(gpu_find_broken_canary(mapped + p.alignment + p.buffer_size,
                                        p.alignment + p.buffer_size, 256),
                 256);
    rhumb_destroy_self_test(test);
    gpu_free_commands(h.g, commands);
    gpu_destroy_buffer(h.g, &buffer);
    harness_close(&h);
}

Test(self_test, passes_on_lavapipe)
{
    run_on(HARNESS_LAVAPIPE, ALL);
}

Test(self_test, passes_on_the_smallest_device)
{
    run_on(HARNESS_LAVAPIPE_FLOOR, ALL & ~SUBGROUP);
}

Test(self_test, passes_on_swiftshader)
{
    run_on(HARNESS_SWIFTSHADER, ALL & ~SUBGROUP);
}

/* ---- a host whose driver computes wrongly ---- */

typedef struct fixture {
    host h;
    long heap_live;
    unsigned heap_calls;
    unsigned heap_fail_at; /* 0: never */
    rhumb_allocator allocator;
    unsigned avoided_lines; /* of the log */
    rhumb_context *context;
    rhumb_self_test_properties properties;
    rhumb_self_test *test;
    host_buffer buffer;
    uint8_t *fresh; /* the memory as created */
    uint8_t *good;  /* and after the GPU */
} fixture;

static void *heap_allocate(void *user, size_t size)
{
    fixture *f = user;
    void *memory = ++f->heap_calls == f->heap_fail_at ? NULL : malloc(size);
    f->heap_live += memory != NULL ? 1 : 0;
    return memory;
}

static void heap_release(void *user, void *memory)
{
    fixture *f = user;
    f->heap_live--;
    free(memory);
}

static void on_log(void *user, rhumb_log_level level, const char *line)
{
    fixture *f = user;
    if (strncmp(line, "self-test: ", 11) == 0 && strstr(line, "is avoided from now on") != NULL) {
        cr_expect_eq(level, RHUMB_LOG_ERROR);
        cr_expect_null(strchr(line, '\n'));
        f->avoided_lines++;
    }
}

static void open_context(fixture *f)
{
    rhumb_hosted_info info;
    host_describe(&f->h, &info);
    info.allocator = &f->allocator;
    info.log = on_log;
    info.log_user = f;
    cr_assert_eq(rhumb_create_hosted(&info, &f->context), RHUMB_OK, "%s", rhumb_last_message(NULL));
    f->avoided_lines = 0;
}

static void open_fixture(fixture *f)
{
    memset(f, 0, sizeof *f);
    host_open(&f->h, HARNESS_LAVAPIPE, true);
    interpose_start(harness_loader(), INTERPOSE_PLAIN);
    rhumb_init_allocator(&f->allocator);
    f->allocator.allocate = heap_allocate;
    f->allocator.release = heap_release;
    f->allocator.user = f;
    open_context(f);
    f->properties = query(f->context);
    f->buffer = host_make_buffer(&f->h, f->properties.buffer_size);
}

static void close_fixture(fixture *f)
{
    rhumb_destroy_self_test(f->test);
    rhumb_destroy_context(f->context);
    host_free_buffer(&f->h, &f->buffer);
    host_close(&f->h);
    free(f->fresh);
    free(f->good);
    cr_expect_eq(f->heap_live, 0, "%ld host allocations are left", f->heap_live);
    cr_expect_eq(interpose_live_total(), 0, "%llu Vulkan objects are left",
                 (unsigned long long)interpose_live_total());
    cr_expect_eq(interpose_violation_count(), 0, "%s", interpose_violation(0));
    cr_expect_eq(interpose_read().submits + interpose_read().waits, 0);
}

static void good_info(const fixture *f, rhumb_self_test_info *info)
{
    rhumb_init_self_test_info(info);
    info->buffer = f->buffer.buffer;
    info->buffer_size = f->buffer.size;
    info->memory = f->buffer.mapped;
}

static rhumb_result create(fixture *f)
{
    rhumb_self_test_info info;
    good_info(f, &info);
    f->test = (rhumb_self_test *)(void *)f; /* must become NULL on an error */
    return rhumb_create_self_test(f->context, &info, &f->test);
}

static rhumb_self_test_result read_result(fixture *f)
{
    rhumb_self_test_result r;
    rhumb_init_self_test_result(&r);
    cr_assert_eq(rhumb_read_self_test(f->test, &r), RHUMB_OK, "%s", rhumb_last_message(f->context));
    return r;
}

/* Creates and records; with `submit` the GPU works, else the bytes come from f->good. */
static void prepare(fixture *f, bool submit)
{
    VkCommandBuffer commands;
    cr_assert_eq(create(f), RHUMB_OK, "%s", rhumb_last_message(f->context));
    commands = host_begin(&f->h, f->h.pool);
    if (submit) {
        f->fresh = harness_alloc(f->buffer.size, 1);
        f->good = harness_alloc(f->buffer.size, 1);
        memcpy(f->fresh, f->buffer.mapped, f->buffer.size);
    }
    cr_assert_eq(rhumb_record_self_test(commands, f->test), RHUMB_OK, "%s",
                 rhumb_last_message(f->context));
    host_barrier_after(&f->h, commands);
    host_end(&f->h, commands);
    if (submit) {
        host_submit(&f->h, commands);
        memcpy(f->good, f->buffer.mapped, f->buffer.size);
    }
}

/* Bytes of words that the GPU changed, at least 1 KiB apart: some in every output, as each is
 * larger. */
#define MOST_OUTPUTS 256
static size_t find_outputs(const fixture *f, uint64_t outputs[MOST_OUTPUTS])
{
    size_t count = 0;
    for (uint64_t at = 0; at < f->buffer.size; at += 4) {
        if (memcmp(f->fresh + at, f->good + at, 4) != 0 &&
            (count == 0 || at - outputs[count - 1] >= 1024)) {
            cr_assert_lt(count, MOST_OUTPUTS);
            outputs[count++] = at;
        }
    }
    return count;
}

/* Exponents of one float or two halves: what was x is twice it or more, or half of it or less. */
static void spoil(fixture *f, uint64_t at)
{
    uint32_t word;
    memcpy(&word, f->good + at, 4);
    word ^= 0x40004000u;
    memcpy(f->buffer.mapped + at, &word, 4);
}

/* A fresh context that has found `kernels` wrong, from one wrong word in each of their outputs. */
static void find_wrong(fixture *f, uint32_t kernels, const uint64_t *outputs,
                       const uint32_t *blamed, size_t count)
{
    rhumb_self_test_result r;
    rhumb_destroy_self_test(f->test);
    f->test = NULL;
    rhumb_destroy_context(f->context);
    open_context(f);
    prepare(f, false);
    memcpy(f->buffer.mapped, f->good, f->buffer.size);
    for (size_t i = 0; i < count; i++) {
        if ((blamed[i] & kernels) != 0) {
            spoil(f, outputs[i]);
        }
    }
    r = read_result(f);
    cr_assert_eq(r.failed, kernels, "0x%x failed instead of 0x%x", r.failed, kernels);
    memcpy(f->buffer.mapped, f->good, f->buffer.size);
}

typedef struct wrong {
    uint32_t kernels;
    rhumb_op op;
    uint32_t head_dim;
    uint32_t rows;
    rhumb_variant named;   /* plan_info.variant */
    rhumb_variant variant; /* that is chosen; AUTO: refused */
    const char *text;      /* in the reason or in the message */
} wrong;

static const wrong wrongs[] = {
    {VECTOR, RHUMB_OP_ROTATE, 64, 9, RHUMB_VARIANT_AUTO, RHUMB_VARIANT_GENERIC,
     "scalar accesses: the vector form was wrong in the self-test"},
    {ROTATE, RHUMB_OP_ROTATE, 64, 9, RHUMB_VARIANT_AUTO, RHUMB_VARIANT_GENERIC,
     "aligned rows only"},
    {ROTATE, RHUMB_OP_ROTATE, 62, 9, RHUMB_VARIANT_AUTO, RHUMB_VARIANT_AUTO,
     "was wrong in the self-test"},
    {ROTATE | VECTOR, RHUMB_OP_ROTATE, 64, 9, RHUMB_VARIANT_AUTO, RHUMB_VARIANT_AUTO,
     "was wrong in the self-test"},
    {SUBGROUP, RHUMB_OP_ATTENTION, 64, 33, RHUMB_VARIANT_AUTO, RHUMB_VARIANT_TILE,
     "shared-memory maxima; the form with shuffles was wrong in the self-test"},
    {SUBGROUP, RHUMB_OP_ATTENTION, 64, 33, RHUMB_VARIANT_TILE, RHUMB_VARIANT_TILE,
     "shared-memory maxima"},
    {SUBGROUP, RHUMB_OP_ATTENTION, 64, 1, RHUMB_VARIANT_AUTO, RHUMB_VARIANT_DECODE, "lanes a key"},
    {TILE, RHUMB_OP_ATTENTION, 64, 33, RHUMB_VARIANT_AUTO, RHUMB_VARIANT_TILE, "shuffles"},
    {TILE | SUBGROUP, RHUMB_OP_ATTENTION, 64, 33, RHUMB_VARIANT_AUTO, RHUMB_VARIANT_GENERIC,
     "generic form; the tile form was wrong in the self-test"},
    {TILE | SUBGROUP, RHUMB_OP_ATTENTION, 64, 33, RHUMB_VARIANT_TILE, RHUMB_VARIANT_AUTO,
     "variant tile: was wrong in the self-test"},
    {DECODE, RHUMB_OP_ATTENTION, 64, 1, RHUMB_VARIANT_AUTO, RHUMB_VARIANT_TILE,
     "shuffles; the decode form was wrong in the self-test"},
    {DECODE, RHUMB_OP_ATTENTION, 64, 1, RHUMB_VARIANT_DECODE, RHUMB_VARIANT_AUTO,
     "variant decode: was wrong in the self-test"},
    {DECODE | TILE | SUBGROUP, RHUMB_OP_ATTENTION, 64, 1, RHUMB_VARIANT_AUTO, RHUMB_VARIANT_GENERIC,
     "the decode form was wrong in the self-test"},
    {GENERIC, RHUMB_OP_ATTENTION, 64, 33, RHUMB_VARIANT_AUTO, RHUMB_VARIANT_TILE,
     "aligned rows only"},
    {GENERIC, RHUMB_OP_ATTENTION, 64, 33, RHUMB_VARIANT_GENERIC, RHUMB_VARIANT_AUTO,
     "variant generic: was wrong in the self-test"},
    {GENERIC, RHUMB_OP_ATTENTION, 40, 33, RHUMB_VARIANT_AUTO, RHUMB_VARIANT_AUTO,
     "the generic form was wrong in the self-test"},
    {ALL, RHUMB_OP_ATTENTION, 64, 33, RHUMB_VARIANT_AUTO, RHUMB_VARIANT_AUTO,
     "was wrong in the self-test"},
};

static void plan_info(const wrong *w, const rhumb_rope *rope, rhumb_plan_info *info)
{
    rhumb_init_plan_info(info, w->op);
    info->variant = w->named;
    info->rotary = w->op == RHUMB_OP_ROTATE ? rope : NULL;
    info->heads = 1;
    info->head_dim = w->head_dim;
    info->max_q_length = w->rows;
    info->max_k_length = 70;
    info->views = RHUMB_VIEW_BIT(RHUMB_VIEW_Q);
    if (w->op == RHUMB_OP_ATTENTION) {
        info->views |= RHUMB_VIEW_BIT(RHUMB_VIEW_K) | RHUMB_VIEW_BIT(RHUMB_VIEW_V) |
                       RHUMB_VIEW_BIT(RHUMB_VIEW_O);
    }
}

static void expect_choice(const fixture *f, const wrong *w)
{
    rhumb_plan_properties p;
    rhumb_plan_info info;
    rhumb_rope rope;
    rhumb_result result;
    const char *text;
    rhumb_init_rope(&rope);
    rhumb_init_plan_properties(&p);
    plan_info(w, &rope, &info);
    result = rhumb_query_plan(f->context, &info, &p);
    text = result == RHUMB_OK ? p.reason : rhumb_last_message(f->context);
    cr_expect_eq(result, w->variant == RHUMB_VARIANT_AUTO ? RHUMB_ERROR_UNSUPPORTED : RHUMB_OK,
                 "0x%x wrong: %s: %s", w->kernels, rhumb_result_name(result), text);
    if (result == RHUMB_OK) {
        cr_expect_eq(p.variant, w->variant, "0x%x wrong: variant %d: %s", w->kernels,
                     (int)p.variant, text);
    }
    cr_expect_not_null(strstr(text, w->text), "0x%x wrong: wanted \"%s\", found \"%s\"", w->kernels,
                       w->text, text);
}

/* Each word, spoilt alone, is one kernel's; then each kernel and group of kernels in a context of
 * its own. */
Test(self_test, wrong_answers_name_their_kernel_which_is_avoided_afterwards)
{
    static const char *const names[] = {"rotate, scalar, ",
                                        "rotate, vectors, ",
                                        "attention, generic form: ",
                                        "attention, tile form: ",
                                        "attention, tile form with shuffles: ",
                                        "attention, decode form: "};
    static fixture f;
    uint64_t outputs[MOST_OUTPUTS];
    uint32_t blamed[MOST_OUTPUTS];
    uint32_t seen = 0;
    size_t count;
    open_fixture(&f);
    prepare(&f, true);
    count = find_outputs(&f, outputs);
    for (size_t i = 0; i < count; i++) {
        rhumb_self_test_result r;
        spoil(&f, outputs[i]);
        r = read_result(&f);
        memcpy(f.buffer.mapped, f.good, f.buffer.size);
        cr_assert(r.failed != 0 && (r.failed & (r.failed - 1)) == 0, "0x%x failed by one word",
                  r.failed);
        cr_expect_gt(r.worst_error, 1);
        for (uint32_t n = 0; n < 6; n++) {
            if (r.failed == 1u << n) {
                cr_expect(strncmp(r.text, names[n], strlen(names[n])) == 0 &&
                              strstr(r.text, ": got ") != NULL && strstr(r.text, ", want ") != NULL,
                          "0x%x: %s", r.failed, r.text);
            }
        }
        blamed[i] = r.failed;
        seen |= r.failed;
        cr_expect_eq(f.avoided_lines, i + 1);
    }
    cr_expect_eq(seen, ALL, "only 0x%x can be found wrong", seen);
    cr_expect_eq(read_result(&f).failed, 0);
    for (size_t i = 0; i < sizeof wrongs / sizeof wrongs[0]; i++) {
        if (i == 0 || wrongs[i].kernels != wrongs[i - 1].kernels) {
            find_wrong(&f, wrongs[i].kernels, outputs, blamed, count);
        }
        expect_choice(&f, &wrongs[i]);
    }
    close_fixture(&f);
}

/* A driver that writes nothing, or zeros. */
Test(self_test, a_gpu_that_did_nothing_fails_every_kernel)
{
    static fixture f;
    rhumb_self_test_result r;
    open_fixture(&f);
    prepare(&f, false);
    r = read_result(&f);
    cr_expect_eq(r.failed, ALL);
    cr_expect_eq(r.tested, ALL);
    cr_expect(isinf(r.worst_error), "%g", r.worst_error);
    cr_expect_eq(f.avoided_lines, 8);
    memset(f.buffer.mapped, 0, f.buffer.size);
    r = read_result(&f);
    cr_expect_eq(r.failed, ALL);
    cr_expect(isfinite(r.worst_error) && r.worst_error > 1000, "%g", r.worst_error);
    rhumb_destroy_self_test(f.test);
    cr_expect_eq(create(&f), RHUMB_OK, "a context that avoids everything tests no more: %s",
                 rhumb_last_message(f.context));
    close_fixture(&f);
}

/* ---- what is left works ---- */

static void expect_right(fixture *f, const attention_shape *shape, rhumb_variant variant)
{
    static harness results;
    attention_run run;
    host_operation o;
    VkCommandBuffer commands;
    memset(&results, 0, sizeof results);
    shape_make_attention(&run, shape, 7);
    host_prepare(&o, &f->h, rhumb_get_api(RHUMB_VERSION_MAJOR), f->context, &run.op);
    cr_expect_eq(o.properties.variant, variant, "%s", o.properties.reason);
    commands = host_begin(&f->h, f->h.pool);
    cr_assert_eq(host_record(&o, commands, &run.op.dispatch), RHUMB_OK, "%s",
                 rhumb_last_message(f->context));
    host_barrier_after(&f->h, commands);
    host_end(&f->h, commands);
    host_submit(&f->h, commands);
    host_read_tensors(&o, &run.op);
    cr_expect(shape_check_attention(&results, shape, &run, "after the self-test"));
    host_release(&o);
    shape_free_attention(&run);
}

static void expect_unaligned_refused(fixture *f)
{
    rhumb_bindings_info info;
    rhumb_bindings *bindings = NULL;
    rhumb_plan *plan = NULL;
    rhumb_plan_info plan_of;
    rhumb_view view;
    rhumb_rope rope;
    rhumb_init_rope(&rope);
    plan_info(&(wrong){.op = RHUMB_OP_ROTATE, .head_dim = 64, .rows = 9}, &rope, &plan_of);
    cr_assert_eq(rhumb_create_plan(f->context, &plan_of, &plan), RHUMB_OK, "%s",
                 rhumb_last_message(f->context));
    rhumb_init_bindings_info(&info);
    rhumb_init_view(&view, RHUMB_VIEW_Q, RHUMB_F32, f->buffer.buffer, f->buffer.size, 1, 1, 9, 64);
    info.views = &view;
    info.view_count = 1;
    info.constants_buffer = f->buffer.buffer;
    info.bindings_buffer = f->buffer.buffer;
    view.offset = 4;
    cr_expect_eq(rhumb_create_bindings(plan, &info, &bindings), RHUMB_ERROR_UNSUPPORTED);
    cr_expect_not_null(strstr(rhumb_last_message(f->context), "multiples of 4 elements"), "%s",
                       rhumb_last_message(f->context));
    cr_expect_null(bindings);
    view.offset = 0;
    cr_expect_eq(rhumb_create_bindings(plan, &info, &bindings), RHUMB_OK, "%s",
                 rhumb_last_message(f->context));
    rhumb_destroy_bindings(bindings);
    rhumb_destroy_plan(plan);
}

Test(self_test, a_context_that_avoids_kernels_computes_with_the_others)
{
    static const attention_shape prefill = {.heads = 3,
                                            .kv_heads = 1,
                                            .q_rows = 23,
                                            .k_rows = 43,
                                            .head_dim = 32,
                                            .value_dim = 16,
                                            .dtype_k = RHUMB_F16,
                                            .dtype_v = RHUMB_F16,
                                            .causal = true};
    static fixture f;
    attention_shape decode = prefill;
    uint64_t outputs[MOST_OUTPUTS];
    uint32_t blamed[MOST_OUTPUTS];
    size_t count;
    decode.q_rows = 1;
    open_fixture(&f);
    prepare(&f, true);
    count = find_outputs(&f, outputs);
    for (size_t i = 0; i < count; i++) {
        spoil(&f, outputs[i]);
        blamed[i] = read_result(&f).failed;
        memcpy(f.buffer.mapped, f.good, f.buffer.size);
    }
    find_wrong(&f, SUBGROUP | DECODE | ROTATE, outputs, blamed, count);
    expect_right(&f, &prefill, RHUMB_VARIANT_TILE);
    expect_right(&f, &decode, RHUMB_VARIANT_TILE);
    expect_unaligned_refused(&f);
    find_wrong(&f, SUBGROUP | TILE, outputs, blamed, count);
    expect_right(&f, &prefill, RHUMB_VARIANT_GENERIC);
    expect_right(&f, &decode, RHUMB_VARIANT_DECODE);
    close_fixture(&f);
}

/* ---- manners ---- */

Test(self_test, record_and_read_allocate_nothing_and_call_no_more_than_commands)
{
    static fixture f;
    interpose_counts before, after;
    VkCommandBuffer commands;
    unsigned calls;
    open_fixture(&f);
    cr_assert_eq(create(&f), RHUMB_OK, "%s", rhumb_last_message(f.context));
    commands = host_begin(&f.h, f.h.pool);
    before = interpose_read();
    calls = f.heap_calls;
    cr_assert_eq(rhumb_record_self_test(commands, f.test), RHUMB_OK, "%s",
                 rhumb_last_message(f.context));
    after = interpose_read();
    cr_expect_eq(after.dispatches - before.dispatches, 8);
    cr_expect_eq(after.barriers, before.barriers, "its dispatches touch different bytes");
    cr_expect_eq(after.calls - before.calls, after.commands - before.commands);
    host_end(&f.h, commands);
    (void)read_result(&f);
    cr_expect_eq(f.heap_calls, calls);
    cr_expect_eq(interpose_read().calls, after.calls);
    cr_expect_eq(after.created[INTERPOSE_MEMORY] + after.created[INTERPOSE_BUFFER] +
                     after.created[INTERPOSE_COMMAND_POOL] + after.created[INTERPOSE_FENCE],
                 0);
    cr_expect_eq(after.created[INTERPOSE_SHADER_MODULE], after.destroyed[INTERPOSE_SHADER_MODULE]);
    close_fixture(&f);
}

static void expect_no_trace(fixture *f, rhumb_result result, rhumb_result wanted, uint64_t alive,
                            long live)
{
    const char *message = rhumb_last_message(f->context);
    cr_expect_eq(result, wanted, "%s: %s", rhumb_result_name(result), message);
    cr_expect(message[0] != '\0' && strchr(message, '\n') == NULL, "message \"%s\"", message);
    cr_expect_null(f->test, "the handle is not NULL");
    cr_expect_eq(interpose_live_total(), alive, "Vulkan objects are left");
    cr_expect_eq(f->heap_live, live, "host memory is left");
    for (uint64_t i = 0; i < f->buffer.size; i++) {
        cr_assert_eq(f->buffer.mapped[i], 0xa5, "byte %llu was written", (unsigned long long)i);
    }
}

Test(self_test, failures_of_create_leave_nothing)
{
    static fixture f;
    uint64_t alive;
    long live;
    uint32_t nth;
    open_fixture(&f);
    alive = interpose_live_total();
    live = f.heap_live;
    memset(f.buffer.mapped, 0xa5, f.buffer.size);
    interpose_skip_compilation(true);
    for (nth = 1;; nth++) {
        rhumb_result result;
        interpose_fail("*", nth, VK_ERROR_OUT_OF_DEVICE_MEMORY);
        result = create(&f);
        if (interpose_fail_calls() < nth) {
            break;
        }
        expect_no_trace(&f, result, RHUMB_ERROR_DEVICE_MEMORY, alive, live);
    }
    interpose_fail(NULL, 0, VK_SUCCESS);
    cr_assert_gt(nth, 40, "%u calls", nth);
    rhumb_destroy_self_test(f.test);
    memset(f.buffer.mapped, 0xa5, f.buffer.size);
    for (nth = 1;; nth++) {
        rhumb_result result;
        f.heap_calls = 0;
        f.heap_fail_at = nth;
        result = create(&f);
        f.heap_fail_at = 0;
        if (f.heap_calls < nth) {
            break;
        }
        expect_no_trace(&f, result, RHUMB_ERROR_HOST_MEMORY, alive, live);
    }
    cr_assert_gt(nth, 16, "%u allocations", nth);
    close_fixture(&f);
}

/* ---- bad input ---- */

typedef struct bad_info {
    const char *part; /* of the message */
    rhumb_result wanted;
    void (*change)(rhumb_self_test_info *info, const fixture *f);
} bad_info;

#define CHANGE(name, statement)                                          \
    static void name(rhumb_self_test_info *info, const fixture *f)       \
    {                                                                    \
        (void)f;                                                         \
        statement;                                                       \
    }
CHANGE(no_buffer, info->buffer = VK_NULL_HANDLE)
CHANGE(no_memory, info->memory = NULL)
CHANGE(too_small, info->buffer_size = f->properties.buffer_size - 1)
CHANGE(beyond, info->offset = f->properties.alignment)
CHANGE(outside, info->offset = UINT64_MAX / 16 * 16)
CHANGE(misaligned, info->offset = f->properties.alignment / 2; info->buffer_size = UINT64_MAX)
CHANGE(beyond_4_gib, info->offset = 1ull << 32; info->buffer_size = UINT64_MAX)
CHANGE(wrong_type, info->type = RHUMB_TYPE_DISPATCH)
CHANGE(larger, info->struct_size += 8)
CHANGE(smaller, info->struct_size = 8)
CHANGE(extension, info->next = info)

static const bad_info bad_infos[] = {
    {"buffer NULL", RHUMB_ERROR_ARGUMENT, no_buffer},
    {"memory NULL", RHUMB_ERROR_ARGUMENT, no_memory},
    {"buffer_size: wanted", RHUMB_ERROR_ARGUMENT, too_small},
    {"buffer_size: wanted", RHUMB_ERROR_ARGUMENT, beyond},
    {"buffer_size: wanted", RHUMB_ERROR_ARGUMENT, outside},
    {"offset: wanted a multiple of", RHUMB_ERROR_ARGUMENT, misaligned},
    {"offset: wanted at most", RHUMB_ERROR_ARGUMENT, beyond_4_gib},
    {"wanted type 15", RHUMB_ERROR_VERSION, wrong_type},
    {"struct_size", RHUMB_ERROR_VERSION, larger},
    {"struct_size", RHUMB_ERROR_VERSION, smaller},
    {"next", RHUMB_ERROR_VERSION, extension},
};

static void expect_error(const fixture *f, rhumb_result result, rhumb_result wanted,
                         const char *part)
{
    const char *message = rhumb_last_message(f->context);
    cr_expect_eq(result, wanted, "%s: %s", rhumb_result_name(result), message);
    cr_expect_not_null(strstr(message, part), "wanted \"%s\" in \"%s\"", part, message);
}

Test(self_test, bad_input_to_create_is_refused_with_a_reason)
{
    static fixture f;
    rhumb_self_test_info info;
    uint64_t alive;
    long live;
    open_fixture(&f);
    alive = interpose_live_total();
    live = f.heap_live;
    memset(f.buffer.mapped, 0xa5, f.buffer.size);
    for (size_t i = 0; i < sizeof bad_infos / sizeof bad_infos[0]; i++) {
        rhumb_result result;
        good_info(&f, &info);
        bad_infos[i].change(&info, &f);
        f.test = (rhumb_self_test *)(void *)&f;
        result = rhumb_create_self_test(f.context, &info, &f.test);
        expect_error(&f, result, bad_infos[i].wanted, bad_infos[i].part);
        expect_no_trace(&f, result, bad_infos[i].wanted, alive, live);
    }
    good_info(&f, &info);
    expect_error(&f, rhumb_create_self_test(f.context, NULL, &f.test), RHUMB_ERROR_ARGUMENT,
                 "NULL");
    expect_error(&f, rhumb_create_self_test(f.context, &info, NULL), RHUMB_ERROR_ARGUMENT, "NULL");
    cr_expect_eq(rhumb_create_self_test(NULL, &info, &f.test), RHUMB_ERROR_ARGUMENT);
    cr_expect_not_null(strstr(rhumb_last_message(NULL), "NULL"));
    close_fixture(&f);
}

Test(self_test, bad_input_to_the_other_calls_is_refused_and_avoids_nothing)
{
    static fixture f;
    rhumb_self_test_properties p;
    rhumb_self_test_result r;
    VkCommandBuffer commands;
    interpose_counts before;
    open_fixture(&f);
    rhumb_init_self_test_properties(&p);
    cr_expect_eq(rhumb_query_self_test(NULL, &p), RHUMB_ERROR_ARGUMENT);
    expect_error(&f, rhumb_query_self_test(f.context, NULL), RHUMB_ERROR_ARGUMENT, "NULL");
    p.type = RHUMB_TYPE_VIEW;
    expect_error(&f, rhumb_query_self_test(f.context, &p), RHUMB_ERROR_VERSION, "wanted type 14");
    rhumb_init_self_test_result(&r);
    cr_assert_eq(create(&f), RHUMB_OK, "%s", rhumb_last_message(f.context));
    commands = host_begin(&f.h, f.h.pool);
    before = interpose_read();
    cr_expect_eq(rhumb_record_self_test(commands, NULL), RHUMB_ERROR_ARGUMENT);
    expect_error(&f, rhumb_record_self_test(VK_NULL_HANDLE, f.test), RHUMB_ERROR_ARGUMENT, "NULL");
    cr_expect_eq(rhumb_read_self_test(NULL, &r), RHUMB_ERROR_ARGUMENT);
    expect_error(&f, rhumb_read_self_test(f.test, &r), RHUMB_ERROR_ARGUMENT, "recorded");
    cr_expect_eq(interpose_read().calls, before.calls);
    cr_assert_eq(rhumb_record_self_test(commands, f.test), RHUMB_OK, "%s",
                 rhumb_last_message(f.context));
    before = interpose_read();
    expect_error(&f, rhumb_record_self_test(commands, f.test), RHUMB_ERROR_ARGUMENT,
                 "recorded before");
    cr_expect_eq(interpose_read().calls, before.calls);
    expect_error(&f, rhumb_read_self_test(f.test, NULL), RHUMB_ERROR_ARGUMENT, "NULL");
    r.type = RHUMB_TYPE_VIEW;
    expect_error(&f, rhumb_read_self_test(f.test, &r), RHUMB_ERROR_VERSION, "wanted type 16");
    rhumb_init_self_test_result(&r);
    r.struct_size += 8;
    expect_error(&f, rhumb_read_self_test(f.test, &r), RHUMB_ERROR_VERSION, "struct_size");
    cr_expect_eq(f.avoided_lines, 0);
    expect_choice(&f, &(wrong){0, RHUMB_OP_ATTENTION, 64, 33, RHUMB_VARIANT_TILE,
                               RHUMB_VARIANT_TILE, "shuffles"});
    host_end(&f.h, commands);
    rhumb_destroy_self_test(NULL);
    close_fixture(&f);
}

/* A caller of an older header has a shorter result: what it has room for is filled. */
Test(self_test, a_shorter_result_is_filled_as_far_as_it_goes)
{
    static fixture f;
    rhumb_self_test_result r;
    open_fixture(&f);
    prepare(&f, false);
    rhumb_init_self_test_result(&r);
    r.struct_size = (uint32_t)offsetof(rhumb_self_test_result, worst_error);
    r.worst_error = -1;
    cr_expect_eq(rhumb_read_self_test(f.test, &r), RHUMB_OK, "%s", rhumb_last_message(f.context));
    cr_expect_eq(r.failed, ALL);
    cr_expect_eq(r.worst_error, -1);
    cr_expect_eq(r.text[0], '\0');
    close_fixture(&f);
}

Test(self_test, a_clamp_of_work_groups_is_refused_with_the_numbers)
{
    static fixture f;
    rhumb_hosted_info info;
    rhumb_limits clamp;
    rhumb_context *other;
    open_fixture(&f);
    other = f.context;
    rhumb_init_limits(&clamp);
    clamp.max_workgroups_x = 12;
    clamp.max_workgroups_y = 10;
    host_describe(&f.h, &info);
    info.clamp = &clamp;
    cr_assert_eq(rhumb_create_hosted(&info, &f.context), RHUMB_OK, "%s", rhumb_last_message(NULL));
    expect_error(&f, create(&f), RHUMB_ERROR_LIMIT, "wanted 128 in a dispatch, found 12 x 10");
    cr_expect_null(f.test);
    rhumb_destroy_context(f.context);
    clamp.max_workgroups_y = 11; /* 132: enough, in two dimensions */
    cr_assert_eq(rhumb_create_hosted(&info, &f.context), RHUMB_OK, "%s", rhumb_last_message(NULL));
    prepare(&f, true);
    cr_expect_eq(read_result(&f).failed, 0);
    rhumb_destroy_self_test(f.test);
    f.test = NULL;
    rhumb_destroy_context(f.context);
    f.context = other;
    close_fixture(&f);
}
