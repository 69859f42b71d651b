/* Bad input of ROTATE's key-value cache and of its purposes: each row changes one thing in a call
 * that is otherwise right. A refusal has a code, one line with the numbers, and nothing recorded;
 * the unchanged call then works. */
#include "harness.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#define BIT(name) RHUMB_VIEW_BIT(RHUMB_VIEW_##name)

enum { HEADS = 2, ROWS = 4, CAPACITY = 8, DIM = 8, VALUE_DIM = 6 };

/* The right call: Q in place, K and V of 4 rows into caches of 8. Changes are made to `info` before
 * the plan, to `tensors` before the bindings, to the dispatch before the record. */
typedef struct fixture {
    harness h;
    rhumb_rope rope;
    rhumb_xpos xpos;
} fixture;

typedef enum stage { PLAN, BIND, RECORD } stage;

typedef struct row {
    const char *name;
    stage stage;
    rhumb_result result;
    const char *words[2]; /* in the line of the error */
    void (*change)(fixture *f, gpu_operation *op);
} row;

static gpu_tensor *find(gpu_operation *op, rhumb_view_id id)
{
    for (uint32_t i = 0; i < op->tensor_count; i++) {
        if (op->tensors[i].id == id) {
            return &op->tensors[i];
        }
    }
    cr_assert_fail("no view %d", (int)id);
    return NULL;
}

static void drop(gpu_operation *op, rhumb_view_id id)
{
    gpu_tensor *t = find(op, id);
    *t = op->tensors[--op->tensor_count];
}

static void add_small(gpu_operation *op, rhumb_view_id id, uint64_t l, uint64_t d)
{
    (void)gpu_add_tensor(op, id, RHUMB_I32, 1, 1, l, d, NULL, NULL);
}

static void right_call(fixture *f, gpu_operation *op)
{
    rhumb_init_rope(&f->rope);
    rhumb_init_xpos(&f->xpos);
    gpu_init_operation(op, RHUMB_OP_ROTATE);
    op->info.rotary = &f->rope;
    op->info.heads = HEADS;
    op->info.head_dim = DIM;
    op->info.value_dim = VALUE_DIM;
    op->info.max_q_length = ROWS;
    op->info.append = RHUMB_APPEND_POSITION;
    op->unchecked = true; /* the numbers are those of canaries */
    op->dispatch.append_position = 4;
    (void)gpu_add_tensor(op, RHUMB_VIEW_Q, RHUMB_F32, 1, HEADS, ROWS, DIM, NULL, NULL);
    (void)gpu_add_tensor(op, RHUMB_VIEW_K, RHUMB_F32, 1, HEADS, ROWS, DIM, NULL, NULL);
    (void)gpu_add_tensor(op, RHUMB_VIEW_V, RHUMB_F32, 1, HEADS, ROWS, VALUE_DIM, NULL, NULL);
    (void)gpu_add_tensor(op, RHUMB_VIEW_K_OUT, RHUMB_F32, 1, HEADS, CAPACITY, DIM, NULL, NULL);
    (void)gpu_add_tensor(op, RHUMB_VIEW_V_OUT, RHUMB_F32, 1, HEADS, CAPACITY, VALUE_DIM, NULL,
                         NULL);
}

static void dynamic(fixture *f, gpu_operation *op)
{
    f->rope.scaling = RHUMB_ROPE_SCALING_NTK_DYNAMIC;
    f->rope.factor = 2.0;
    f->rope.max_length = 2048;
    op->info.append = RHUMB_APPEND_NONE;
    op->info.purpose = RHUMB_PURPOSE_RESCHEDULE;
    op->dispatch.append_position = RHUMB_UNSET;
    for (rhumb_view_id id = RHUMB_VIEW_K_OUT; id <= RHUMB_VIEW_V_OUT; id += 5) {
        find(op, id)->shape[2] = ROWS;
    }
}

static void reschedule_sections(fixture *f, gpu_operation *op);

/* Keys of a batch that share their memory, into caches of four rows. */
static void many_rows(gpu_operation *op)
{
    gpu_tensor *k;
    op->tensor_count = 0;
    op->info.heads = 1;
    op->info.head_dim = 2;
    op->info.max_q_length = 1u << 20;
    k = gpu_add_tensor(op, RHUMB_VIEW_K, RHUMB_F32, 1, 1, 1, 2, NULL, NULL);
    k->shape[0] = 2100;
    k->shape[2] = 1u << 20;
    k->stride[0] = k->stride[1] = k->stride[2] = 0;
    (void)gpu_add_tensor(op, RHUMB_VIEW_K_OUT, RHUMB_F32, 2100, 1, 4, 2, NULL, NULL);
    add_small(op, RHUMB_VIEW_LENGTHS, 2100, 4);
}

/* One buffer with the keys and values of a token behind each other, V in `values`: rows of 2 x 8
 * and 2 x 6 channels, whose heads have unlike strides. `back`: bytes of V that lie in K's row. */
static void one_row_for_both(gpu_operation *op, rhumb_dtype values, uint32_t back)
{
    gpu_tensor *k = find(op, RHUMB_VIEW_K_OUT), *v = find(op, RHUMB_VIEW_V_OUT);
    uint32_t size = values == RHUMB_F32 ? 4 : 2, token = HEADS * (DIM * 4 + VALUE_DIM * size);
    k->bytes = v->bytes = (uint64_t)token * CAPACITY;
    k->stride[1] = DIM;
    k->stride[2] = token / 4;
    v->same_as = 1 + (uint32_t)(k - op->tensors);
    v->dtype = values;
    v->offset = HEADS * DIM * 4 - back;
    v->stride[1] = VALUE_DIM;
    v->stride[2] = token / size;
}

#define CHANGES(X)                                                                                 \
    X(v_without_v_out, PLAN, ARGUMENT, "V_OUT", "beside V", drop(op, RHUMB_VIEW_V_OUT))            \
    X(v_out_without_v, PLAN, ARGUMENT, "wanted V", "V_OUT", drop(op, RHUMB_VIEW_V))                \
    X(v_without_k, PLAN, ARGUMENT, "wanted K", "beside V",                                         \
      (op->info.append = RHUMB_APPEND_NONE, drop(op, RHUMB_VIEW_K), drop(op, RHUMB_VIEW_K_OUT)))   \
    X(append_without_k, PLAN, ARGUMENT, "K", "append",                                             \
      (drop(op, RHUMB_VIEW_K), drop(op, RHUMB_VIEW_K_OUT), drop(op, RHUMB_VIEW_V),                 \
       drop(op, RHUMB_VIEW_V_OUT)))                                                                \
    X(append_of_k_in_place, PLAN, ARGUMENT, "K_OUT", "append", drop(op, RHUMB_VIEW_K_OUT))         \
    X(slots_without_append_slots, PLAN, ARGUMENT, "SLOTS", "found 1",                              \
      add_small(op, RHUMB_VIEW_SLOTS, 1, ROWS))                                                    \
    X(slots_without_append, PLAN, ARGUMENT, "SLOTS", "found 0",                                    \
      (op->info.append = RHUMB_APPEND_NONE, add_small(op, RHUMB_VIEW_SLOTS, 1, ROWS)))             \
    X(append_slots_without_slots, PLAN, ARGUMENT, "SLOTS", "none",                                 \
      op->info.append = RHUMB_APPEND_SLOTS)                                                        \
    X(append_is_unknown, PLAN, ARGUMENT, "append", "4", op->info.append = (rhumb_append)4)         \
    X(purpose_is_unknown, PLAN, ARGUMENT, "purpose", "3", op->info.purpose = (rhumb_purpose)3)     \
    X(purpose_is_negative, PLAN, ARGUMENT, "purpose", "4294967295",                                \
      op->info.purpose = (rhumb_purpose)-1)                                                        \
    X(slots_of_floats, PLAN, ARGUMENT, "SLOTS", "f32",                                             \
      (op->info.append = RHUMB_APPEND_SLOTS,                                                       \
       gpu_add_tensor(op, RHUMB_VIEW_SLOTS, RHUMB_F32, 1, 1, 1, ROWS, NULL, NULL)))                \
    X(values_of_integers, PLAN, ARGUMENT, "V_OUT", "i32",                                          \
      find(op, RHUMB_VIEW_V_OUT)->dtype = RHUMB_I32)                                               \
    X(value_dim_is_too_large, PLAN, ARGUMENT, "value_dim", "577", op->info.value_dim = 577)        \
    X(read_interleaved_with_q_in_place, PLAN, ARGUMENT, "Q_OUT", "INTERLEAVED_TO_HALF",            \
      f->rope.pairing = RHUMB_PAIRING_INTERLEAVED_TO_HALF)                                         \
    X(reschedule_of_plain_rope, PLAN, UNSUPPORTED, "RESCHEDULE", "never become stale",             \
      op->info.purpose = RHUMB_PURPOSE_RESCHEDULE)                                                 \
    X(reschedule_of_llama3, PLAN, UNSUPPORTED, "RESCHEDULE", "never become stale",                 \
      (op->info.purpose = RHUMB_PURPOSE_RESCHEDULE,                                                \
       f->rope.scaling = RHUMB_ROPE_SCALING_LLAMA3, f->rope.factor = 8,                            \
       f->rope.original_length = 8192))                                                            \
    X(reschedule_of_xpos, PLAN, UNSUPPORTED, "RESCHEDULE", "growing",                              \
      (op->info.purpose = RHUMB_PURPOSE_RESCHEDULE, op->info.rotary = &f->xpos))                   \
    X(capacities_differ, BIND, ARGUMENT, "V_OUT", "7",                                             \
      find(op, RHUMB_VIEW_V_OUT)->shape[2] = 7)                                                    \
    X(cache_of_other_heads, BIND, ARGUMENT, "K_OUT", "kv_heads",                                   \
      find(op, RHUMB_VIEW_K_OUT)->shape[1] = 1)                                                    \
    X(cache_of_another_batch, BIND, ARGUMENT, "V_OUT", "B 1",                                      \
      (find(op, RHUMB_VIEW_V_OUT)->shape[0] = 2,                                                   \
       find(op, RHUMB_VIEW_V_OUT)->stride[0] = 2 * CAPACITY * VALUE_DIM))                          \
    X(values_of_another_width, BIND, ARGUMENT, "value_dim 6", "5",                                 \
      find(op, RHUMB_VIEW_V)->shape[3] = 5)                                                        \
    X(keys_and_values_of_unlike_lengths, BIND, ARGUMENT, "shape of V", "3",                        \
      find(op, RHUMB_VIEW_V)->shape[2] = 3)                                                        \
    X(cache_whose_heads_overlap, BIND, ARGUMENT, "K_OUT", "0",                                     \
      find(op, RHUMB_VIEW_K_OUT)->stride[1] = 0)                                                   \
    X(cache_of_values_is_broadcast, BIND, ARGUMENT, "V_OUT", "0",                                  \
      find(op, RHUMB_VIEW_V_OUT)->stride[1] = 0)                                                   \
    X(values_in_the_row_of_keys, BIND, ARGUMENT, "K_OUT", "V_OUT",                                 \
      one_row_for_both(op, RHUMB_F32, 4))                                                          \
    X(narrow_values_in_the_row_of_keys, BIND, ARGUMENT, "K_OUT", "V_OUT",                          \
      one_row_for_both(op, RHUMB_F16, 2))                                                          \
    X(plain_copy_of_other_rows, BIND, ARGUMENT, "K_OUT", "Lq 4",                                   \
      (op->info.append = RHUMB_APPEND_NONE, op->dispatch.append_position = RHUMB_UNSET))           \
    X(slots_are_too_few, BIND, ARGUMENT, "SLOTS", "3",                                             \
      (op->info.append = RHUMB_APPEND_SLOTS, op->dispatch.append_position = RHUMB_UNSET,           \
       add_small(op, RHUMB_VIEW_SLOTS, 1, ROWS - 1)))                                              \
    X(slots_of_another_batch, BIND, ARGUMENT, "SLOTS", "2",                                        \
      (op->info.append = RHUMB_APPEND_SLOTS, op->dispatch.append_position = RHUMB_UNSET,           \
       add_small(op, RHUMB_VIEW_SLOTS, 2, ROWS)))                                                  \
    X(ring_of_fewer_rows_than_come, BIND, LIMIT, "at least 4", "found 3",                          \
      (op->info.append = RHUMB_APPEND_RING, find(op, RHUMB_VIEW_K_OUT)->shape[2] = 3,              \
       find(op, RHUMB_VIEW_V_OUT)->shape[2] = 3))                                                  \
    X(rows_end_beyond_the_cache, RECORD, LIMIT, "capacity 8", "from 5",                            \
      op->dispatch.append_position = 5)                                                            \
    X(rows_begin_beyond_an_int, RECORD, LIMIT, "capacity 8", "2147483647",                         \
      op->dispatch.append_position = INT32_MAX)                                                    \
    X(rows_by_q_offset_end_beyond_the_cache, RECORD, LIMIT, "capacity 8", "from 6",                \
      (op->dispatch.append_position = RHUMB_UNSET, op->dispatch.q_offset = 6))                     \
    X(place_is_negative, RECORD, ARGUMENT, "append_position", "-1",                                \
      op->dispatch.append_position = -1)                                                           \
    X(place_in_a_ring_is_negative, RECORD, ARGUMENT, "append_position", "-1",                      \
      (op->info.append = RHUMB_APPEND_RING, op->dispatch.append_position = -1))                    \
    X(place_is_negative_beside_lengths, RECORD, ARGUMENT, "append_position", "-1",                 \
      (add_small(op, RHUMB_VIEW_LENGTHS, 1, 4), op->dispatch.append_position = -1))                \
    X(place_by_a_negative_q_offset, RECORD, ARGUMENT, "append_position", "-3",                     \
      (add_small(op, RHUMB_VIEW_POSITIONS_Q, 1, ROWS),                                             \
       op->dispatch.append_position = RHUMB_UNSET, op->dispatch.q_offset = -3))                    \
    X(place_beside_slots, RECORD, ARGUMENT, "append_position", "found 4",                          \
      (op->info.append = RHUMB_APPEND_SLOTS, add_small(op, RHUMB_VIEW_SLOTS, 1, ROWS)))            \
    X(place_without_append, RECORD, ARGUMENT, "append_position", "found 4",                        \
      (dynamic(f, op), op->info.purpose = RHUMB_PURPOSE_SHIFT, op->dispatch.append_position = 4))  \
    X(more_invocations_than_31_bits, RECORD, LIMIT, "wanted up to 16777215", "17203200",          \
      many_rows(op))                                                                              \
    X(more_rows_than_there_are, RECORD, LIMIT, "q_length", "5", op->dispatch.q_length = 5)         \
    X(reschedule_from_a_negative_position, RECORD, ARGUMENT, "q_offset", "-1",                     \
      (dynamic(f, op), op->dispatch.q_offset = -1))                                                \
    X(shift_of_growing_pairs_by_minus_the_angle, RECORD, UNSUPPORTED, "inverse", "grow",           \
      (dynamic(f, op), op->info.purpose = RHUMB_PURPOSE_SHIFT, op->info.rotary = &f->xpos,         \
       op->dispatch.inverse = 1))                                                                  \
    X(keys_of_one_axis_reschedule_by_three, PLAN, ARGUMENT, "POSITIONS_Q", "3 axes",               \
      reschedule_sections(f, op))

static void reschedule_sections(fixture *f, gpu_operation *op)
{
    static rhumb_mrope mrope;
    dynamic(f, op);
    rhumb_init_mrope(&mrope);
    mrope.rope = &f->rope;
    mrope.sections[0] = 2;
    mrope.sections[1] = mrope.sections[2] = 1;
    op->info.rotary = &mrope;
}

#define X(name, stage, code, first, second, change)                                                \
    static void change_##name(fixture *f, gpu_operation *op)                                       \
    {                                                                                              \
        (void)f, (void)op;                                                                         \
        (void)(change);                                                                            \
    }
CHANGES(X)
#undef X

static const row rows[] = {
#define X(name, stage, code, first, second, change)                                                \
    {#name, stage, RHUMB_ERROR_##code, {first, second}, change_##name},
    CHANGES(X)
#undef X
};

/* Legal, and close to what is not. */
#define LEGAL(X)                                                                                   \
    X(the_call_that_rows_change, (void)0)                                                          \
    X(no_rows_at_the_end_of_the_cache,                                                             \
      (op->dispatch.append_position = CAPACITY, op->dispatch.q_length = 0))                        \
    X(ring_at_the_end_of_an_int,                                                                   \
      (op->info.append = RHUMB_APPEND_RING, op->dispatch.append_position = INT32_MAX))             \
    X(ring_of_fewer_rows_than_the_views_have,                                                      \
      (op->info.append = RHUMB_APPEND_RING, op->info.max_q_length = 3,                             \
       op->dispatch.q_length = 3, find(op, RHUMB_VIEW_K_OUT)->shape[2] = 3,                        \
       find(op, RHUMB_VIEW_V_OUT)->shape[2] = 3))                                                  \
    X(keys_and_values_of_a_token_in_one_row, one_row_for_both(op, RHUMB_F32, 0))                   \
    X(keys_and_narrow_values_of_a_token_in_one_row, one_row_for_both(op, RHUMB_F16, 0))            \
    X(place_that_lengths_may_change,                                                               \
      (add_small(op, RHUMB_VIEW_LENGTHS, 1, 4), op->dispatch.append_position = 7))                 \
    X(reschedule_of_dynamic_ntk, dynamic(f, op))                                                   \
    X(shift_by_a_negative_distance,                                                                \
      (dynamic(f, op), op->info.purpose = RHUMB_PURPOSE_SHIFT, op->dispatch.q_offset = -12345))    \
    X(shift_by_the_least_distance,                                                                 \
      (dynamic(f, op), op->info.purpose = RHUMB_PURPOSE_SHIFT,                                     \
       op->dispatch.q_offset = -INT32_MAX))

#define X(name, change)                                                                            \
    static void legal_##name(fixture *f, gpu_operation *op)                                        \
    {                                                                                              \
        (void)f, (void)op;                                                                         \
        (void)(change);                                                                            \
    }
LEGAL(X)
#undef X

static const row legal[] = {
#define X(name, change) {#name, RECORD, RHUMB_OK, {NULL, NULL}, legal_##name},
    LEGAL(X)
#undef X
};

static rhumb_result make_plan(fixture *f, gpu_operation *op)
{
    for (uint32_t i = 0; i < op->tensor_count; i++) {
        op->info.views |= RHUMB_VIEW_BIT(op->tensors[i].id);
        op->info.dtype[op->tensors[i].id] = op->tensors[i].dtype;
    }
    return rhumb_create_plan(f->h.g->context, &op->info, &op->plan);
}

/* Goes as far as the stage that must say no; `reached` is how far it went. */
static rhumb_result run_stages(fixture *f, gpu_operation *op, stage *reached)
{
    gpu_prepared p;
    VkCommandBuffer commands = VK_NULL_HANDLE;
    interpose_counts before, after;
    rhumb_result result = make_plan(f, op);
    *reached = PLAN;
    if (result != RHUMB_OK) {
        snprintf(op->message, sizeof op->message, "%s", rhumb_last_message(f->h.g->context));
        return result;
    }
    *reached = BIND;
    result = gpu_prepare_operation(f->h.g, op, &p);
    if (result != RHUMB_OK) {
        return result;
    }
    *reached = RECORD;
    result = gpu_begin_commands(f->h.g, &commands);
    before = interpose_read();
    if (result == RHUMB_OK) {
        result = gpu_record_operation(&p, commands, NULL);
    }
    after = interpose_read();
    if (result != RHUMB_OK) {
        snprintf(op->message, sizeof op->message, "%s", f->h.g->message);
        if (after.dispatches != before.dispatches || after.set_binds != before.set_binds ||
            after.push_constants != before.push_constants) {
            harness_fail(&f->h, "refused, and something has been recorded");
        }
    }
    (void)gpu_end_commands(f->h.g, commands);
    gpu_free_commands(f->h.g, commands);
    gpu_release_operation(&p);
    return result;
}

static void check_row(fixture *f, const row *r)
{
    gpu_operation op;
    stage reached;
    rhumb_result result;
    uint64_t alive = interpose_live_total();
    right_call(f, &op);
    r->change(f, &op);
    op.plan = NULL;
    f->h.cases++;
    result = run_stages(f, &op, &reached);
    rhumb_destroy_plan(op.plan);
    if (result != r->result || (result != RHUMB_OK && reached != r->stage)) {
        harness_fail(&f->h, "%s: got %s in stage %d (%s), want %s in stage %d", r->name,
                     rhumb_result_name(result), (int)reached, op.message,
                     rhumb_result_name(r->result), (int)r->stage);
        return;
    }
    for (int i = 0; result != RHUMB_OK && i < 2; i++) {
        if (strstr(op.message, r->words[i]) == NULL) {
            harness_fail(&f->h, "%s: no \"%s\" in: %s", r->name, r->words[i], op.message);
        }
    }
    if (interpose_live_total() != alive) {
        harness_fail(&f->h, "%s: Vulkan objects are left alive", r->name);
    }
}

/* Attention has no cache to append to and no keys to move. */
static void check_other_operations(fixture *f)
{
    rhumb_plan_info info;
    rhumb_plan_properties properties;
    for (int i = 0; i < 2; i++) {
        rhumb_init_plan_info(&info, RHUMB_OP_ATTENTION);
        info.heads = HEADS;
        info.head_dim = DIM;
        info.max_q_length = ROWS;
        info.views = BIT(Q) | BIT(K) | BIT(V) | BIT(O);
        info.append = i == 0 ? RHUMB_APPEND_RING : RHUMB_APPEND_NONE;
        info.purpose = i == 1 ? RHUMB_PURPOSE_SHIFT : RHUMB_PURPOSE_ROTATE;
        rhumb_init_plan_properties(&properties);
        cr_expect_eq(rhumb_query_plan(f->h.g->context, &info, &properties), RHUMB_ERROR_ARGUMENT);
        cr_expect_not_null(strstr(rhumb_last_message(f->h.g->context), "append"), "%s",
                           rhumb_last_message(f->h.g->context));
    }
}

Test(bad_append, is_refused_with_a_reason_and_leaves_nothing_behind)
{
    fixture f;
    harness_open(&f.h, HARNESS_LAVAPIPE);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        check_row(&f, &rows[i]);
        check_row(&f, &legal[0]);
    }
    for (size_t i = 0; i < sizeof legal / sizeof legal[0]; i++) {
        check_row(&f, &legal[i]);
    }
    check_other_operations(&f);
    harness_close(&f.h);
}
