/* Records that are cut into several dispatches, by max_flops and by the device's limits of work
 * groups: the same bits as in one dispatch, and no work group beside those of the record. */
#include "shapes.h"
#include "shapes_kerple.h"
#include "shapes_project.h"
#include "shapes_resize.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#define CLAMP_X 3u
#define CLAMP_Y 2u
#define PARTS 4u

/* One operation and what it is made of. */
typedef struct cut_run {
    harness *h;
    gpu_operation *op;
    attention_run attention;
    kerple_run kerple;
    project_run project;
    network_run network;
    resize_run resize;
    harness_tensor q, k, v, y;
    rhumb_rope rope;
    rhumb_sinusoidal sinusoidal;
    gpu_operation own;
} cut_run;

/* ---- Rows and tables */
static void add_in_place(cut_run *r, rhumb_view_id id, harness_tensor *t, uint32_t heads,
                         uint32_t rows, uint32_t channels)
{
    harness_random random = {.state = 7 + (uint64_t)id};
    harness_make_tensor(t, RHUMB_F32, 2, heads, rows, channels, (harness_layout){0});
    harness_fill_normal(t, &random);
    harness_store(t);
    (void)harness_add(&r->own, id, t, true);
}

static void rotate(cut_run *r)
{
    r->op = &r->own;
    gpu_init_operation(r->op, RHUMB_OP_ROTATE);
    rhumb_init_rope(&r->rope);
    r->own.info.rotary = &r->rope;
    r->own.info.heads = 5;
    r->own.info.kv_heads = 1;
    r->own.info.head_dim = 66;
    r->own.info.max_q_length = 37;
    add_in_place(r, RHUMB_VIEW_Q, &r->q, 5, 37, 66);
    add_in_place(r, RHUMB_VIEW_K, &r->k, 1, 37, 66);
}

static void encode(cut_run *r)
{
    r->op = &r->own;
    gpu_init_operation(r->op, RHUMB_OP_ENCODE);
    rhumb_init_sinusoidal(&r->sinusoidal);
    r->own.info.scheme = &r->sinusoidal;
    r->own.info.head_dim = 70;
    r->own.info.max_q_length = 501;
    harness_make_tensor(&r->y, RHUMB_F32, 1, 1, 501, 70, (harness_layout){0});
    (void)harness_add(&r->own, RHUMB_VIEW_Y, &r->y, true);
}

static void project(cut_run *r)
{
    static const project_shape shape = {
        .rows = 67, .heads = 3, .head_dim = 20, .channels = 33, .fold = true};
    shape_make_project(&r->project, &shape);
    r->op = &r->project.op;
}

static void network(cut_run *r)
{
    static const network_shape shape = {.window = {13, 11}, .heads = 3, .hidden = 40};
    shape_make_network(&r->network, &shape);
    r->op = &r->network.op;
}

static void resize(cut_run *r)
{
    static const resize_shape shape = {.mode = RHUMB_RESIZE_BICUBIC,
                                       .old_grid = {5, 7},
                                       .new_grid = {11, 13},
                                       .prefix = 1,
                                       .dim = 37};
    shape_make_resize(&r->resize, &shape);
    r->op = &r->resize.op;
}

/* ---- Logits */
static void make_kerple(cut_run *r, rhumb_op op)
{
    const kerple_shape shape = {
        .op = op, .batch = op == RHUMB_OP_BIAS ? 1 : 2, .heads = 3,
        .q_rows = op == RHUMB_OP_BIAS ? 141 : 37, .k_rows = 131,
        .head_dim = 12};
    shape_make_kerple(&r->kerple, &shape);
    r->op = &r->kerple.op;
}

static void bias(cut_run *r)
{
    make_kerple(r, RHUMB_OP_BIAS);
}

static void scores(cut_run *r)
{
    make_kerple(r, RHUMB_OP_SCORES);
}

/* ---- Attention */
static void attend(cut_run *r, rhumb_variant variant, uint32_t q_rows)
{
    const attention_shape shape = {.variant = variant,
                                   .batch = 3,
                                   .heads = 6,
                                   .kv_heads = 2,
                                   .q_rows = q_rows,
                                   .k_rows = 300,
                                   .head_dim = 64,
                                   .causal = true,
                                   .lengths = true,
                                   .lengths_beyond = true};
    shape_make_attention(&r->attention, &shape, 5);
    r->op = &r->attention.op;
}

static void generic(cut_run *r)
{
    attend(r, RHUMB_VARIANT_GENERIC, 37);
}

static void tile(cut_run *r)
{
    attend(r, RHUMB_VARIANT_TILE, 67);
}

static void decode(cut_run *r)
{
    attend(r, RHUMB_VARIANT_DECODE, 1);
}

/* Slices through WORKSPACE, which a second kernel merges. */
static void slices(cut_run *r)
{
    decode(r);
    (void)shape_add_workspace(r->h, r->op, 3, &r->attention.workspace);
}

static void combine(cut_run *r)
{
    harness_random random = {.state = 3};
    r->op = &r->own;
    gpu_init_operation(r->op, RHUMB_OP_COMBINE);
    r->own.info.heads = 5;
    r->own.info.value_dim = 70;
    r->own.info.max_q_length = 13;
    harness_make_tensor(&r->v, RHUMB_F32, 6, 5, 13, 70, (harness_layout){0});
    harness_make_tensor(&r->k, RHUMB_F32, 1, 6, 5, 13, (harness_layout){0});
    harness_make_tensor(&r->y, RHUMB_F32, 2, 5, 13, 70, (harness_layout){0});
    harness_fill_normal(&r->v, &random);
    harness_fill_normal(&r->k, &random);
    harness_store(&r->v);
    harness_store(&r->k);
    (void)harness_add(&r->own, RHUMB_VIEW_PARTS, &r->v, false);
    (void)harness_add(&r->own, RHUMB_VIEW_PART_LSE, &r->k, false);
    (void)harness_add(&r->own, RHUMB_VIEW_O, &r->y, true);
}

static void unfused(cut_run *r)
{
    attend(r, RHUMB_VARIANT_UNFUSED, 37);
}

static void broadcast(cut_run *r)
{
    attend(r, RHUMB_VARIANT_BROADCAST, 67);
}

static void release(cut_run *r)
{
    harness_free_tensor(&r->q);
    harness_free_tensor(&r->k);
    harness_free_tensor(&r->v);
    harness_free_tensor(&r->y);
    shape_free_attention(&r->attention);
    shape_free_kerple(&r->kerple);
    shape_free_project(&r->project);
    shape_free_network(&r->network);
    shape_free_resize(&r->resize);
}

static const struct {
    const char *name;
    void (*make)(cut_run *r);
    bool by_address; /* for devices that have what BROADCAST wants */
    bool fixed;      /* its rows are those of the views, or of LENGTHS */
} rows[] = {
    {"rotate in place", rotate, false, false},
    {"encode", encode, false, false},
    {"project and fold", project, false, false},
    {"project a network", network, false, true},
    {"resize", resize, false, true},
    {"bias", bias, false, false},
    {"scores", scores, false, false},
    {"attention, generic", generic, false, true},
    {"attention, tile", tile, false, true},
    {"attention, decode", decode, false, true},
    {"attention, decode in slices", slices, false, true},
    {"combine", combine, false, false},
    {"attention, unfused", unfused, false, true},
    {"attention, broadcast", broadcast, true, true},
};

#define ROW_COUNT (sizeof rows / sizeof rows[0])

/* ---- Runs */
typedef struct outcome {
    uint8_t *bytes; /* of every output but WORKSPACE */
    size_t size;
    uint64_t dispatches;
    uint64_t work_groups;
    uint64_t most; /* work groups of one dispatch, of all runs so far */
    double flops;
} outcome;

static void keep_outputs(const gpu_operation *op, outcome *result)
{
    for (uint32_t i = 0; i < op->tensor_count; i++) {
        const gpu_tensor *t = &op->tensors[i];
        if (t->output == NULL || t->id == RHUMB_VIEW_WORKSPACE)
            continue;
        result->bytes = realloc(result->bytes, result->size + t->bytes);
        harness_need(result->bytes != NULL, "there is no host memory");
        memcpy(result->bytes + result->size, t->output, t->bytes);
        result->size += t->bytes;
    }
}

static outcome run_rows(harness *h, size_t row, uint64_t max_flops, int32_t q_length)
{
    outcome result = {0};
    cut_run r;
    interpose_counts before, after;
    memset(&r, 0, sizeof r);
    r.h = h;
    rows[row].make(&r);
    r.op->dispatch.max_flops = max_flops;
    if (q_length != RHUMB_UNSET)
        r.op->dispatch.q_length = q_length;
    h->cases++;
    before = interpose_read();
    if (harness_run(h, r.op) != RHUMB_OK)
        (void)harness_fail(h, "%s: %s", rows[row].name, r.op->message);
    after = interpose_read();
    keep_outputs(r.op, &result);
    result.dispatches = after.dispatches - before.dispatches;
    result.work_groups = after.work_groups - before.work_groups;
    result.most = after.most_work_groups;
    result.flops = (double)r.op->properties.flops;
    release(&r);
    return result;
}

static outcome run(harness *h, size_t row, uint64_t max_flops)
{
    return run_rows(h, row, max_flops, RHUMB_UNSET);
}

static void expect_same(harness *h, size_t row, const char *how, const outcome *whole,
                        const outcome *cut)
{
    if (cut->size != whole->size || memcmp(cut->bytes, whole->bytes, whole->size) != 0)
        (void)harness_fail(h, "%s, cut by %s: other bits", rows[row].name, how);
    if (cut->work_groups != whole->work_groups)
        (void)harness_fail(h, "%s, cut by %s: wanted %llu work groups, found %llu", rows[row].name,
                           how, (unsigned long long)whole->work_groups,
                           (unsigned long long)cut->work_groups);
}

static bool is_here(harness_profile profile, size_t row)
{
    return !rows[row].by_address || profile == HARNESS_LAVAPIPE;
}

/* Whole, in parts, and each work group alone. */
static void cut_by_flops(harness_profile profile)
{
    harness h;
    harness_open(&h, profile);
    for (size_t i = 0; i < ROW_COUNT; i++) {
        outcome whole, parts, alone;
        if (!is_here(profile, i))
            continue;
        whole = run(&h, i, UINT64_MAX);
        parts = run(&h, i, (uint64_t)(whole.flops / PARTS) + 1);
        alone = run(&h, i, 1);
        expect_same(&h, i, "max_flops", &whole, &parts);
        expect_same(&h, i, "max_flops 1", &whole, &alone);
        if (parts.dispatches < PARTS)
            (void)harness_fail(&h, "%s: a part of its work was cut into %llu dispatches",
                               rows[i].name, (unsigned long long)parts.dispatches);
        if (alone.dispatches != alone.work_groups)
            (void)harness_fail(&h, "%s: wanted a dispatch for each of %llu work groups, found %llu",
                               rows[i].name, (unsigned long long)alone.work_groups,
                               (unsigned long long)alone.dispatches);
        free(whole.bytes);
        free(parts.bytes);
        free(alone.bytes);
    }
    harness_close(&h);
}

/* On the device, and on one with the fewest work groups. */
static void cut_by_limits(harness_profile profile)
{
    outcome whole[ROW_COUNT] = {{0}};
    rhumb_limits clamp;
    harness h;
    harness_open(&h, profile);
    for (size_t i = 0; i < ROW_COUNT; i++)
        if (is_here(profile, i))
            whole[i] = run(&h, i, UINT64_MAX);
    harness_close(&h);
    rhumb_init_limits(&clamp);
    clamp.max_workgroups_x = CLAMP_X;
    clamp.max_workgroups_y = CLAMP_Y;
    harness_open_clamped(&h, profile, &clamp);
    for (size_t i = 0; i < ROW_COUNT; i++) {
        outcome cut;
        if (!is_here(profile, i))
            continue;
        cut = run(&h, i, UINT64_MAX);
        expect_same(&h, i, "limits", &whole[i], &cut);
        if (cut.most > CLAMP_X * CLAMP_Y)
            (void)harness_fail(&h, "%s: a dispatch has %llu work groups, the limits are %u x %u",
                               rows[i].name, (unsigned long long)cut.most, CLAMP_X, CLAMP_Y);
        free(cut.bytes);
        free(whole[i].bytes);
    }
    harness_close(&h);
}

static void expect_no_work(harness *h, const char *name, const interpose_counts *before)
{
    const interpose_counts after = interpose_read();
    h->cases++;
    if (after.dispatches == before->dispatches || after.work_groups != before->work_groups)
        (void)harness_fail(h, "%s: %llu dispatches of %llu work groups for no rows", name,
                           (unsigned long long)(after.dispatches - before->dispatches),
                           (unsigned long long)(after.work_groups - before->work_groups));
}

/* A warm-up: drivers that compile at the first dispatch do so at an empty one. */
Test(cut, records_of_no_rows_have_dispatches_without_work)
{
    static const attention_shape attention[] = {
        {.q_rows = 9, .k_rows = 40, .head_dim = 16, .variant = RHUMB_VARIANT_GENERIC},
        {.q_rows = 1, .k_rows = 600, .head_dim = 16, .variant = RHUMB_VARIANT_GENERIC,
         .workspace = true},
    };
    interpose_counts before;
    harness h;
    harness_open(&h, HARNESS_LAVAPIPE);
    for (size_t i = 0; i < ROW_COUNT; i++) {
        if (rows[i].fixed)
            continue;
        before = interpose_read();
        free(run_rows(&h, i, UINT64_MAX, 0).bytes);
        expect_no_work(&h, rows[i].name, &before);
    }
    for (size_t i = 0; i < sizeof attention / sizeof attention[0]; i++) {
        harness_tensor workspace = {0};
        attention_run r;
        shape_make_attention(&r, &attention[i], i);
        if (attention[i].workspace)
            (void)shape_add_workspace(&h, &r.op, 1, &workspace);
        r.op.dispatch.q_length = 0;
        before = interpose_read();
        if (harness_run(&h, &r.op) != RHUMB_OK)
            (void)harness_fail(&h, "attention: %s", r.op.message);
        expect_no_work(&h, "attention", &before);
        harness_free_tensor(&workspace);
        shape_free_attention(&r);
    }
    harness_close(&h);
}

Test(cut, records_cut_by_max_flops_have_the_same_bits_on_lavapipe)
{
    cut_by_flops(HARNESS_LAVAPIPE);
}

Test(cut, records_cut_by_max_flops_have_the_same_bits_on_the_smallest_device)
{
    cut_by_flops(HARNESS_LAVAPIPE_FLOOR);
}

Test(cut, records_cut_by_limits_have_the_same_bits_on_lavapipe)
{
    cut_by_limits(HARNESS_LAVAPIPE);
}

Test(cut, records_cut_by_limits_have_the_same_bits_on_the_smallest_device)
{
    cut_by_limits(HARNESS_LAVAPIPE_FLOOR);
}
