/* Every kind of bad input: a documented error, one line that says what was wanted and what was
 * there, nothing recorded, written or left alive, and a context that works on. Each row changes one
 * thing in a call that is otherwise right; after each, a right operation runs and must give the
 * right numbers. */
#include "harness.h"
#include "shapes.h"

#include <criterion/criterion.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* What the rows change: everything of one right ROTATE (H 2, L 8, D 64, f32, Q -> Q_OUT, positions)
 * and one right ATTENTION (H 4 over 2, Lq 8, Lk 16, D 64). */
typedef struct fixture {
    harness h;
    rhumb_context *context;
    gpu_buffer storage; /* 128 KiB */
    gpu_buffer uniform; /* as large */
    rhumb_rope rope;
    rhumb_plan *rotate;
    rhumb_plan *attend;
    rhumb_bindings *rotate_bindings;
    rhumb_bindings *attend_bindings;
    VkCommandBuffer commands;
} fixture;

enum { STORAGE = 131072, Q_AT = 0, OUT_AT = 8192, K_AT = 16384, V_AT = 32768, O_AT = 49152,
       POS_AT = 65536 };

static void rotate_info(fixture *f, rhumb_plan_info *info)
{
    rhumb_init_rope(&f->rope);
    rhumb_init_plan_info(info, RHUMB_OP_ROTATE);
    info->rotary = &f->rope;
    info->heads = 2;
    info->head_dim = 64;
    info->max_q_length = 8;
    info->views = RHUMB_VIEW_BIT(RHUMB_VIEW_Q) | RHUMB_VIEW_BIT(RHUMB_VIEW_Q_OUT) |
                  RHUMB_VIEW_BIT(RHUMB_VIEW_POSITIONS_Q);
}

static void attend_info(fixture *f, rhumb_plan_info *info)
{
    (void)f;
    rhumb_init_plan_info(info, RHUMB_OP_ATTENTION);
    info->variant = RHUMB_VARIANT_GENERIC;
    info->heads = 4;
    info->kv_heads = 2;
    info->head_dim = 64;
    info->max_q_length = 8;
    info->max_k_length = 16;
    info->views = RHUMB_VIEW_BIT(RHUMB_VIEW_Q) | RHUMB_VIEW_BIT(RHUMB_VIEW_K) |
                  RHUMB_VIEW_BIT(RHUMB_VIEW_V) | RHUMB_VIEW_BIT(RHUMB_VIEW_O);
}

static void view_at(fixture *f, rhumb_view *v, rhumb_view_id id, rhumb_dtype dtype, uint64_t offset,
                    uint64_t h, uint64_t l, uint64_t d)
{
    rhumb_init_view(v, id, dtype, f->storage.buffer, STORAGE, 1, h, l, d);
    v->offset = offset;
}

static void rotate_views(fixture *f, rhumb_view v[3])
{
    view_at(f, &v[0], RHUMB_VIEW_Q, RHUMB_F32, Q_AT, 2, 8, 64);
    view_at(f, &v[1], RHUMB_VIEW_Q_OUT, RHUMB_F32, OUT_AT, 2, 8, 64);
    view_at(f, &v[2], RHUMB_VIEW_POSITIONS_Q, RHUMB_I32, POS_AT, 1, 1, 8);
}

static void attend_views(fixture *f, rhumb_view v[4])
{
    view_at(f, &v[0], RHUMB_VIEW_Q, RHUMB_F32, Q_AT, 4, 8, 64);
    view_at(f, &v[1], RHUMB_VIEW_K, RHUMB_F32, K_AT, 2, 16, 64);
    view_at(f, &v[2], RHUMB_VIEW_V, RHUMB_F32, V_AT, 2, 16, 64);
    view_at(f, &v[3], RHUMB_VIEW_O, RHUMB_F32, O_AT, 4, 8, 64);
}

static void bindings_info(fixture *f, rhumb_bindings_info *info, const rhumb_view *views,
                          uint32_t count)
{
    rhumb_init_bindings_info(info);
    info->views = views;
    info->view_count = count;
    info->constants_buffer = f->uniform.buffer;
    info->bindings_buffer = f->uniform.buffer;
}

/* ---- one changed call ---- */

typedef void (*change_plan)(fixture *f, rhumb_plan_info *info);
typedef void (*change_views)(rhumb_bindings_info *info, rhumb_view *views);
typedef void (*change_dispatch)(rhumb_dispatch *dispatch);

/* query_plan must say what create_plan says. */
static rhumb_result make_changed_plan(fixture *f, void (*base)(fixture *, rhumb_plan_info *),
                                      change_plan change)
{
    rhumb_plan_info info;
    rhumb_plan_properties properties;
    rhumb_plan *plan = (rhumb_plan *)(uintptr_t)1;
    rhumb_result result, queried;
    base(f, &info);
    change(f, &info);
    rhumb_init_plan_properties(&properties);
    queried = rhumb_query_plan(f->context, &info, &properties);
    result = rhumb_create_plan(f->context, &info, &plan);
    if (result != queried) {
        harness_fail(&f->h, "create_plan says %s, query_plan %s", rhumb_result_name(result),
                     rhumb_result_name(queried));
    }
    if (result != RHUMB_OK && plan != NULL) {
        harness_fail(&f->h, "create_plan failed and left a plan");
    } else {
        rhumb_destroy_plan(plan);
    }
    return result;
}

static rhumb_result rotate_plan(fixture *f, change_plan change)
{
    return make_changed_plan(f, rotate_info, change);
}

static rhumb_result attend_plan(fixture *f, change_plan change)
{
    return make_changed_plan(f, attend_info, change);
}

static rhumb_result bind_changed(fixture *f, rhumb_plan *plan, rhumb_view *views, uint32_t count,
                                 change_views change)
{
    rhumb_bindings_info info;
    rhumb_bindings *bindings = (rhumb_bindings *)(uintptr_t)1;
    rhumb_result result;
    bindings_info(f, &info, views, count);
    change(&info, views);
    result = rhumb_create_bindings(plan, &info, &bindings);
    if (result != RHUMB_OK && bindings != NULL) {
        harness_fail(&f->h, "create_bindings failed and left bindings");
    } else {
        rhumb_destroy_bindings(bindings);
    }
    return result;
}

static rhumb_result rotate_bind(fixture *f, change_views change)
{
    rhumb_view views[4];
    memset(views, 0, sizeof views);
    rotate_views(f, views);
    return bind_changed(f, f->rotate, views, 3, change);
}

static rhumb_result attend_bind(fixture *f, change_views change)
{
    rhumb_view views[5];
    memset(views, 0, sizeof views);
    attend_views(f, views);
    return bind_changed(f, f->attend, views, 4, change);
}

static rhumb_result record_changed(fixture *f, rhumb_bindings *bindings, change_dispatch change)
{
    rhumb_dispatch dispatch;
    rhumb_init_dispatch(&dispatch);
    change(&dispatch);
    return rhumb_record(f->commands, bindings, &dispatch);
}

static rhumb_result rotate_record(fixture *f, change_dispatch change)
{
    return record_changed(f, f->rotate_bindings, change);
}

static rhumb_result attend_record(fixture *f, change_dispatch change)
{
    return record_changed(f, f->attend_bindings, change);
}

/* ---- rows ---- */

static const rhumb_header unknown_next = {.type = 4242, .struct_size = sizeof(rhumb_header)};
#define NAN_DOUBLE ((double)NAN)

#define PLAN_CHANGES(X)                                                                            \
    X(rotate, rotary_dim_is_odd, f->rope.rotary_dim = 63, ARGUMENT, "rotary_dim", "63")            \
    X(rotate, rotary_dim_is_zero, f->rope.rotary_dim = 0, ARGUMENT, "rotary_dim", "0")             \
    X(rotate, rotary_dim_is_above_head_dim, f->rope.rotary_dim = 128, ARGUMENT, "128", "64")       \
    X(rotate, rotary_window_ends_beyond_the_head,                                                  \
      (f->rope.rotary_dim = 64, f->rope.rotary_offset = 2), ARGUMENT, "rotary", "62")              \
    X(rotate, rotary_offset_is_beyond_the_head, f->rope.rotary_offset = 64,                        \
      ARGUMENT, "rotary_offset", "64")                                                             \
    X(rotate, rotary_offset_wraps, (f->rope.rotary_dim = 4, f->rope.rotary_offset = 0xfffffffeu),  \
      ARGUMENT, "rotary_offset", "4294967294")                                                     \
    X(rotate, whole_odd_head_cannot_turn, info->head_dim = 63, ARGUMENT, "rotary_dim", "63")       \
    X(rotate, base_is_zero, f->rope.base = 0.0, ARGUMENT, "base", "0")                             \
    X(rotate, base_is_negative, f->rope.base = -10000.0, ARGUMENT, "base", "-10000")               \
    X(rotate, base_is_nan, f->rope.base = NAN_DOUBLE, ARGUMENT, "base", "nan")                     \
    X(rotate, base_is_infinite, f->rope.base = (double)INFINITY, ARGUMENT, "base", "inf")          \
    X(rotate, factor_is_below_one,                                                                 \
      (f->rope.scaling = RHUMB_ROPE_SCALING_LINEAR, f->rope.factor = 0.5),                         \
      ARGUMENT, "factor", "0.5")                                                                   \
    X(rotate, factor_is_nan,                                                                       \
      (f->rope.scaling = RHUMB_ROPE_SCALING_LINEAR, f->rope.factor = NAN_DOUBLE),                  \
      ARGUMENT, "factor", "nan")                                                                   \
    X(rotate, attention_factor_is_zero, f->rope.attention_factor = 0.0,                            \
      ARGUMENT, "attention_factor", "0")                                                           \
    X(rotate, attention_factor_is_nan, f->rope.attention_factor = NAN_DOUBLE, ARGUMENT,            \
      "attention_factor", "nan")                                                                   \
    X(rotate, attention_factor_is_no_float, f->rope.attention_factor = 1e300, ARGUMENT,            \
      "attention_factor", "1e+300")                                                                \
    X(rotate, pairing_is_unknown, f->rope.pairing = (rhumb_pairing)7, ARGUMENT, "pairing", "7")    \
    X(rotate, scaling_is_unknown, f->rope.scaling = (rhumb_rope_scaling)11,                        \
      ARGUMENT, "scaling", "11")                                                                   \
    X(rotate, rotary_struct_has_a_wrong_type, f->rope.type = RHUMB_TYPE_VIEW,                      \
      VERSION, "rotary", "9")                                                                      \
    X(rotate, rotary_struct_is_larger, f->rope.struct_size += 8,                                   \
      VERSION, "rhumb_rope", "struct_size")                                                        \
    X(rotate, rotary_struct_has_an_unknown_next, f->rope.next = &unknown_next,                     \
      VERSION, "rhumb_rope", "4242")                                                               \
    X(rotate, rotary_is_missing, info->rotary = NULL, ARGUMENT, "rotate", "rotary")                \
    X(rotate, info_has_a_wrong_type, info->type = RHUMB_TYPE_VIEW,                                 \
      VERSION, "rhumb_plan_info", "9")                                                             \
    X(rotate, info_is_larger, info->struct_size += 4, VERSION, "rhumb_plan_info", "struct_size")   \
    X(rotate, info_ends_within_a_pointer, info->struct_size -= 4,                                  \
      VERSION, "rhumb_plan_info", "struct_size")                                                   \
    X(rotate, info_is_smaller_than_a_header, info->struct_size = 8,                                \
      VERSION, "rhumb_plan_info", "8")                                                             \
    X(rotate, info_has_an_unknown_next, info->next = &unknown_next,                                \
      VERSION, "rhumb_plan_info", "4242")                                                          \
    X(rotate, op_is_unknown, info->op = (rhumb_op)99, ARGUMENT, "op", "99")                        \
    X(rotate, op_is_zero, info->op = (rhumb_op)0, ARGUMENT, "op", "0")                             \
    X(rotate, variant_is_unknown, info->variant = (rhumb_variant)77, ARGUMENT, "variant", "77")    \
    X(rotate, variant_is_of_attention, info->variant = RHUMB_VARIANT_TILE,                         \
      UNSUPPORTED, "rotate", "variant")                                                            \
    X(rotate, heads_are_zero, info->heads = 0, ARGUMENT, "heads", "0")                             \
    X(rotate, head_dim_is_zero, info->head_dim = 0, ARGUMENT, "head_dim", "0")                     \
    X(rotate, head_dim_is_above_576, info->head_dim = 578, ARGUMENT, "578", "576")                 \
    X(rotate, max_q_length_is_zero, info->max_q_length = 0, ARGUMENT, "max_q_length", "0")         \
    X(rotate, max_q_length_is_no_int32, info->max_q_length = 0xffffffffu,                          \
      ARGUMENT, "max_q_length", "4294967295")                                                      \
    X(rotate, neither_q_nor_k, info->views = RHUMB_VIEW_BIT(RHUMB_VIEW_POSITIONS_Q),               \
      ARGUMENT, "rotate", "Q")                                                                     \
    X(rotate, q_out_without_q,                                                                     \
      info->views = RHUMB_VIEW_BIT(RHUMB_VIEW_K) | RHUMB_VIEW_BIT(RHUMB_VIEW_Q_OUT),               \
      ARGUMENT, "rotate", "Q_OUT")                                                                 \
    X(rotate, view_of_another_op, info->views |= RHUMB_VIEW_BIT(RHUMB_VIEW_O),                     \
      ARGUMENT, "rotate", "O")                                                                     \
    X(rotate, view_bit_is_unknown, info->views |= 1u << 20, ARGUMENT, "rotate", "20")              \
    X(rotate, dtype_of_q_is_integer, info->dtype[RHUMB_VIEW_Q] = RHUMB_I32, ARGUMENT, "Q", "i32")  \
    X(rotate, dtype_of_positions_is_float, info->dtype[RHUMB_VIEW_POSITIONS_Q] = RHUMB_F32,        \
      ARGUMENT, "POSITIONS_Q", "f32")                                                              \
    X(rotate, dtype_is_unknown, info->dtype[RHUMB_VIEW_Q] = (rhumb_dtype)50, ARGUMENT, "Q", "50")  \
    X(rotate, slot_is_beyond_the_array,                                                            \
      (info->slot[RHUMB_VIEW_Q] = 40, info->slot[RHUMB_VIEW_Q_OUT] = 1,                            \
       info->slot[RHUMB_VIEW_POSITIONS_Q] = 0), ARGUMENT, "slot", "40")                            \
    X(rotate, slots_have_a_gap, (info->slot[RHUMB_VIEW_Q] = 0, info->slot[RHUMB_VIEW_Q_OUT] = 2,   \
      info->slot[RHUMB_VIEW_POSITIONS_Q] = 0), ARGUMENT, "rotate", "slot")                         \
    X(attend, q_is_missing, info->views &= ~RHUMB_VIEW_BIT(RHUMB_VIEW_Q),                          \
      ARGUMENT, "attention", "Q")                                                                  \
    X(attend, o_is_missing, info->views &= ~RHUMB_VIEW_BIT(RHUMB_VIEW_O),                          \
      ARGUMENT, "attention", "O")                                                                  \
    X(attend, kv_heads_do_not_divide_heads, (info->heads = 5, info->kv_heads = 2),                 \
      ARGUMENT, "kv_heads", "5")                                                                   \
    X(attend, kv_heads_are_zero, info->kv_heads = 0, ARGUMENT, "kv_heads", "0")                    \
    X(attend, value_dim_is_zero, info->value_dim = 0, ARGUMENT, "value_dim", "0")                  \
    X(attend, value_dim_is_above_576, info->value_dim = 577, ARGUMENT, "value_dim", "577")         \
    X(attend, max_k_length_is_zero, info->max_k_length = 0, ARGUMENT, "max_k_length", "0")         \
    X(attend, scale_is_nan, info->scale = NAN, ARGUMENT, "scale", "nan")                           \
    X(attend, scale_is_infinite, info->scale = INFINITY, ARGUMENT, "scale", "inf")                 \
    X(attend, scale_is_too_large, info->scale = 3e38f, ARGUMENT, "scale", "3e+38")                 \
    X(attend, scale_is_too_small, info->scale = -3e38f, ARGUMENT, "scale", "-3e+38")               \
    X(attend, mask_order_is_unknown, info->mask_order = (rhumb_mask_order)9,                       \
      ARGUMENT, "mask_order", "9")                                                                 \
    X(attend, position_order_without_positions, info->mask_order = RHUMB_MASK_ORDER_POSITION,      \
      ARGUMENT, "mask_order", "POSITIONS")                                                         \
    X(attend, tile_form_of_an_odd_head, (info->variant = RHUMB_VARIANT_TILE, info->head_dim = 63), \
      UNSUPPORTED, "tile", "63")                                                                   \
    X(attend, decode_form_of_an_odd_head,                                                          \
      (info->variant = RHUMB_VARIANT_DECODE, info->head_dim = 63), UNSUPPORTED, "decode", "63")    \
    X(attend, rotary_scheme_as_relative_scheme, info->scheme = &f->rope,                           \
      VERSION, "relative", "1001")

#define VIEW_CHANGES(X)                                                                            \
    X(rotate, view_is_missing, info->view_count = 2, ARGUMENT, "POSITIONS_Q", "rotate")            \
    X(rotate, views_are_null, info->views = NULL, ARGUMENT, "rotate", "NULL")                      \
    X(rotate, view_is_there_twice, v[2] = v[0], ARGUMENT, "Q", "twice")                            \
    X(rotate, view_is_not_in_the_plan, v[2].id = RHUMB_VIEW_K, ARGUMENT, "K", "plan")              \
    X(rotate, view_id_is_unknown, v[2].id = (rhumb_view_id)31, ARGUMENT, "31", "plan")             \
    X(rotate, view_dtype_differs_from_the_plan, v[0].dtype = RHUMB_F16, ARGUMENT, "f16", "f32")    \
    X(rotate, view_has_no_buffer, v[0].buffer = VK_NULL_HANDLE, ARGUMENT, "Q", "buffer")           \
    X(rotate, view_has_a_wrong_type, v[0].type = RHUMB_TYPE_LIMITS, VERSION, "rhumb_view", "9")    \
    X(rotate, view_has_an_unknown_next, v[1].next = &unknown_next, VERSION, "rhumb_view", "4242")  \
    X(rotate, bindings_info_has_a_wrong_type, info->type = RHUMB_TYPE_VIEW,                        \
      VERSION, "bindings_info", "10")                                                              \
    X(rotate, bindings_info_is_larger, info->struct_size += 8,                                     \
      VERSION, "bindings_info", "struct_size")                                                     \
    X(rotate, constants_buffer_is_null, info->constants_buffer = VK_NULL_HANDLE,                   \
      ARGUMENT, "rotate", "constants_buffer")                                                      \
    X(rotate, bindings_buffer_is_null, info->bindings_buffer = VK_NULL_HANDLE,                     \
      ARGUMENT, "rotate", "bindings_buffer")                                                       \
    X(rotate, heads_differ_from_the_plan, v[0].shape[1] = 3, ARGUMENT, "heads", "3")               \
    X(rotate, head_dim_differs_from_the_plan, v[0].shape[3] = 32, ARGUMENT, "head_dim", "32")      \
    X(rotate, dimension_is_zero, v[0].shape[2] = 0, ARGUMENT, "Q", "0")                            \
    X(rotate, rows_of_in_and_out_differ, v[1].shape[2] = 7, ARGUMENT, "Q_OUT", "7")                \
    X(rotate, batches_differ, (v[1].shape[0] = 2, v[1].stride[0] = 1024), ARGUMENT, "Q_OUT", "2")  \
    X(rotate, positions_are_too_few, v[2].shape[3] = 7, ARGUMENT, "POSITIONS_Q", "7")              \
    X(rotate, positions_have_a_wrong_batch, v[2].shape[2] = 3, ARGUMENT, "POSITIONS_Q", "3")       \
    X(rotate, offset_is_no_multiple_of_the_dtype, v[0].offset = 2, ARGUMENT, "offset", "2")        \
    X(rotate, innermost_stride_is_two, v[0].stride[3] = 2, ARGUMENT, "stride[3]", "2")             \
    X(rotate, stride_is_negative, v[0].stride[2] = -64, ARGUMENT, "stride[2]", "-64")              \
    X(rotate, written_rows_overlap, v[1].stride[2] = 63, ARGUMENT, "Q_OUT", "63")                  \
    X(rotate, written_heads_overlap, v[1].stride[1] = 511, ARGUMENT, "Q_OUT", "511")               \
    X(rotate, written_view_is_broadcast, v[1].stride[1] = 0, ARGUMENT, "Q_OUT", "0")               \
    X(rotate, view_ends_beyond_its_buffer, v[0].offset = STORAGE - 4092,                           \
      ARGUMENT, "131072", "131076")                                                                \
    X(rotate, view_begins_beyond_its_buffer, v[0].offset = 1u << 20, ARGUMENT, "131072", "Q")      \
    X(rotate, offset_wraps_64_bits, v[0].offset = UINT64_MAX - 3, ARGUMENT, "Q", "131072")         \
    X(rotate, strides_wrap_64_bits, v[0].stride[1] = INT64_MAX, ARGUMENT, "Q", "131072")           \
    X(rotate, offset_is_beyond_an_int64,                                                           \
      (v[0].offset = UINT64_C(1) << 63, v[0].buffer_size = UINT64_MAX),                            \
      ARGUMENT, "Q", "9223372036854775808")                                                        \
    X(rotate, strides_reach_an_int64,                                                              \
      (v[0].stride[1] = v[1].stride[1] = (INT64_C(1) << 61) - 1024,                                \
       v[0].buffer_size = v[1].buffer_size = UINT64_MAX),                                          \
      ARGUMENT, "Q", "18446744073709551615")                                                       \
    X(rotate, views_have_unlike_struct_sizes, v[1].struct_size -= 8,                               \
      VERSION, "views[1]", "struct_size")                                                          \
    X(rotate, buffer_is_empty, v[0].buffer_size = 0, ARGUMENT, "Q", "0")                           \
    X(rotate, last_word_is_cut, v[2].buffer_size = POS_AT + 30, ARGUMENT, "POSITIONS_Q", "65566")  \
    X(rotate, output_overlaps_input, v[1].offset = Q_AT + 256, ARGUMENT, "Q_OUT", "Q")             \
    X(rotate, output_overlaps_positions, v[2].offset = OUT_AT + 64,                                \
      ARGUMENT, "Q_OUT", "POSITIONS_Q")                                                            \
    X(rotate, view_is_beyond_the_storage_range,                                                    \
      (v[0].offset = 98304, v[0].buffer_size = UINT64_C(1) << 40,                                  \
       v[0].stride[1] = INT64_C(1) << 33),                                                         \
      LIMIT, "34359", "Range")                                                                     \
    X(attend, k_has_other_heads, v[1].shape[1] = 4, ARGUMENT, "kv_heads", "4")                     \
    X(attend, v_has_other_rows_than_k, v[2].shape[2] = 15, ARGUMENT, "V", "15")                    \
    X(attend, o_has_another_width, v[3].shape[3] = 63, ARGUMENT, "O", "63")                        \
    X(attend, output_overlaps_values, v[3].offset = V_AT, ARGUMENT, "O", "V")

#define DISPATCH_CHANGES(X)                                                                        \
    X(rotate, constants_offset_is_not_aligned, d->constants_offset = 1,                            \
      ARGUMENT, "constants_offset", "1")                                                           \
    X(rotate, bindings_offset_is_not_aligned, d->bindings_offset = 3,                              \
      ARGUMENT, "bindings_offset", "3")                                                            \
    X(rotate, q_length_is_beyond_the_views, d->q_length = 9, LIMIT, "q_length", "9")               \
    X(rotate, q_length_is_negative, d->q_length = -1, ARGUMENT, "q_length", "-1")                  \
    X(rotate, inverse_is_no_flag, d->inverse = 2, ARGUMENT, "inverse", "2")                        \
    X(rotate, dispatch_has_a_wrong_type, d->type = RHUMB_TYPE_VIEW,                                \
      VERSION, "rhumb_dispatch", "11")                                                             \
    X(rotate, dispatch_is_larger, d->struct_size += 4, VERSION, "rhumb_dispatch", "struct_size")   \
    X(rotate, dispatch_has_an_unknown_next, d->next = &unknown_next,                               \
      VERSION, "rhumb_dispatch", "4242")                                                           \
    X(attend, k_length_is_beyond_the_views, d->k_length = 17, LIMIT, "k_length", "17")             \
    X(attend, k_length_is_negative, d->k_length = -2, ARGUMENT, "k_length", "-2")                  \
    X(attend, window_left_is_zero, d->window_left = 0, ARGUMENT, "window_left", "0")               \
    X(attend, window_right_is_negative, d->window_right = -1, ARGUMENT, "window_right", "-1")      \
    X(attend, dispatch_ends_within_a_pointer, d->struct_size -= 4,                                 \
      VERSION, "rhumb_dispatch", "struct_size")                                                    \
    X(attend, causal_is_no_flag, d->causal = 2, ARGUMENT, "causal", "2")

#define DEFINE_PLAN(base, name, change, code, w1, w2)                                              \
    static void plan_##base##_##name(fixture *f, rhumb_plan_info *info)                            \
    {                                                                                              \
        (void)f;                                                                                   \
        (void)info;                                                                                \
        change;                                                                                    \
    }
#define DEFINE_VIEW(base, name, change, code, w1, w2)                                              \
    static void view_##base##_##name(rhumb_bindings_info *info, rhumb_view *v)                     \
    {                                                                                              \
        (void)info;                                                                                \
        (void)v;                                                                                   \
        change;                                                                                    \
    }
#define DEFINE_DISPATCH(base, name, change, code, w1, w2)                                          \
    static void dispatch_##base##_##name(rhumb_dispatch *d)                                        \
    {                                                                                              \
        change;                                                                                    \
    }
PLAN_CHANGES(DEFINE_PLAN)
VIEW_CHANGES(DEFINE_VIEW)
DISPATCH_CHANGES(DEFINE_DISPATCH)

typedef struct row {
    const char *name;
    rhumb_result code;
    const char *words[2];
    rhumb_result (*plan)(fixture *, change_plan);
    change_plan plan_change;
    rhumb_result (*bind)(fixture *, change_views);
    change_views view_change;
    rhumb_result (*record)(fixture *, change_dispatch);
    change_dispatch dispatch_change;
} row;

#define PLAN_ROW(base, name, change, code, w1, w2)                                                 \
    {#base " plan: " #name, RHUMB_ERROR_##code, {w1, w2}, base##_plan, plan_##base##_##name, NULL, \
     NULL, NULL, NULL},
#define VIEW_ROW(base, name, change, code, w1, w2)                                                 \
    {#base " views: " #name, RHUMB_ERROR_##code, {w1, w2}, NULL, NULL, base##_bind,                \
     view_##base##_##name, NULL, NULL},
#define DISPATCH_ROW(base, name, change, code, w1, w2)                                             \
    {#base " dispatch: " #name, RHUMB_ERROR_##code, {w1, w2}, NULL, NULL, NULL, NULL,              \
     base##_record, dispatch_##base##_##name},

static const row rows[] =
    {PLAN_CHANGES(PLAN_ROW) VIEW_CHANGES(VIEW_ROW) DISPATCH_CHANGES(DISPATCH_ROW)};

/* ---- what must hold after each ---- */

static rhumb_result run_row(fixture *f, const row *r)
{
    if (r->plan != NULL) {
        return r->plan(f, r->plan_change);
    }
    return r->bind != NULL ? r->bind(f, r->view_change) : r->record(f, r->dispatch_change);
}

static void check_message(fixture *f, const char *name, const char *message,
                          const char *const words[2])
{
    if (message[0] == '\0' || strchr(message, '\n') != NULL) {
        harness_fail(&f->h, "%s: the message is empty or has several lines: %s", name, message);
    }
    for (int i = 0; i < 2; i++) {
        if (words[i] != NULL && strstr(message, words[i]) == NULL) {
            harness_fail(&f->h, "%s: the message does not say \"%s\": %s", name, words[i], message);
        }
    }
}

static void run_good(fixture *f)
{
    static const rotate_shape good =
        {.heads = 2, .rows = 8, .head_dim = 64, .pairing = RHUMB_PAIRING_HALF,
                                      .positions = SHAPE_SHARED};
    (void)shape_run_rotate(&f->h, &good);
}

static void check_row(fixture *f, const row *r)
{
    interpose_counts before = interpose_read();
    uint64_t alive = interpose_live_total();
    rhumb_result result;
    interpose_counts after;
    f->h.cases++;
    result = run_row(f, r);
    after = interpose_read();
    if (result != r->code) {
        harness_fail(&f->h, "%s: got %s, want %s: %s", r->name, rhumb_result_name(result),
                     rhumb_result_name(r->code), rhumb_last_message(f->context));
    } else {
        check_message(f, r->name, rhumb_last_message(f->context), r->words);
    }
    if (after.commands != before.commands || after.submits != before.submits) {
        harness_fail(&f->h, "%s: something was recorded or submitted", r->name);
    }
    if (interpose_live_total() != alive) {
        harness_fail(&f->h, "%s: Vulkan objects are left alive", r->name);
    }
    run_good(f);
}

/* ---- fixture ---- */

static void must(rhumb_result result, const char *what, const rhumb_context *context)
{
    cr_assert_eq(result, RHUMB_OK, "%s: %s: %s", what, rhumb_result_name(result),
                 rhumb_last_message(context));
}

static void open_fixture(fixture *f, harness_profile profile)
{
    rhumb_plan_info info;
    rhumb_bindings_info bindings;
    rhumb_view views[4];
    memset(f, 0, sizeof *f);
    harness_open(&f->h, profile);
    f->context = f->h.g->context;
    must(gpu_create_buffer(f->h.g, STORAGE, VK_BUFFER_USAGE_STORAGE_BUFFER_BIT, GPU_MEMORY_DEVICE,
                           &f->storage),
         "buffer", f->context);
    must(gpu_create_buffer(f->h.g, STORAGE, VK_BUFFER_USAGE_UNIFORM_BUFFER_BIT, GPU_MEMORY_UPLOAD,
                           &f->uniform),
         "buffer", f->context);
    rotate_info(f, &info);
    must(rhumb_create_plan(f->context, &info, &f->rotate), "rotate plan", f->context);
    attend_info(f, &info);
    must(rhumb_create_plan(f->context, &info, &f->attend), "attention plan", f->context);
    rotate_views(f, views);
    bindings_info(f, &bindings, views, 3);
    must(rhumb_create_bindings(f->rotate, &bindings, &f->rotate_bindings), "rotate bindings",
         f->context);
    attend_views(f, views);
    bindings_info(f, &bindings, views, 4);
    must(rhumb_create_bindings(f->attend, &bindings, &f->attend_bindings), "attention bindings",
         f->context);
    must(gpu_begin_commands(f->h.g, &f->commands), "command buffer", f->context);
}

static void close_fixture(fixture *f)
{
    must(gpu_end_commands(f->h.g, f->commands), "end of commands", f->context);
    gpu_free_commands(f->h.g, f->commands);
    rhumb_destroy_bindings(f->rotate_bindings);
    rhumb_destroy_bindings(f->attend_bindings);
    rhumb_destroy_plan(f->rotate);
    rhumb_destroy_plan(f->attend);
    gpu_destroy_buffer(f->h.g, &f->storage);
    gpu_destroy_buffer(f->h.g, &f->uniform);
    harness_close(&f->h);
}

/* ---- calls that the table does not fit ---- */

static void expect(fixture *f, const char *name, rhumb_result result, rhumb_result code,
                   const char *message, const char *word)
{
    const char *const words[2] = {word, NULL};
    f->h.cases++;
    if (result != code) {
        harness_fail(&f->h, "%s: got %s, want %s: %s", name, rhumb_result_name(result),
                     rhumb_result_name(code), message);
    } else {
        check_message(f, name, message, words);
    }
}

static void check_null_pointers(fixture *f)
{
    rhumb_plan_info info;
    rhumb_plan_properties properties;
    rhumb_plan *plan = NULL;
    rhumb_bindings *bindings = NULL;
    rhumb_limits limits;
    rhumb_dispatch dispatch;
    rotate_info(f, &info);
    rhumb_init_dispatch(&dispatch);
    rhumb_init_limits(&limits);
    rhumb_init_plan_properties(&properties);
#define NULL_CALL(call, context)                                                                   \
    do {                                                                                           \
        rhumb_result null_result = call; /* before the message is asked for */                     \
        expect(f, #call, null_result, RHUMB_ERROR_ARGUMENT, rhumb_last_message(context), "NULL");  \
    } while (0)
    NULL_CALL(rhumb_create_plan(NULL, &info, &plan), NULL);
    NULL_CALL(rhumb_create_plan(f->context, NULL, &plan), f->context);
    NULL_CALL(rhumb_create_plan(f->context, &info, NULL), f->context);
    NULL_CALL(rhumb_query_plan(NULL, &info, &properties), NULL);
    NULL_CALL(rhumb_query_plan(f->context, &info, NULL), f->context);
    NULL_CALL(rhumb_get_plan_properties(NULL, &properties), NULL);
    NULL_CALL(rhumb_create_bindings(f->rotate, NULL, &bindings), f->context);
    NULL_CALL(rhumb_create_bindings(NULL, NULL, &bindings), NULL);
    NULL_CALL(rhumb_record(f->commands, NULL, &dispatch), NULL);
    NULL_CALL(rhumb_record(VK_NULL_HANDLE, f->rotate_bindings, &dispatch), f->context);
    NULL_CALL(rhumb_record(f->commands, f->rotate_bindings, NULL), f->context);
    NULL_CALL(rhumb_write_constants(f->rotate, 0, 0, NULL, 65536), f->context);
    NULL_CALL(rhumb_write_bindings(f->rotate_bindings, NULL, 65536), f->context);
    NULL_CALL(rhumb_get_limits(NULL, &limits), NULL);
    NULL_CALL(rhumb_get_limits(f->context, NULL), f->context);
    NULL_CALL(rhumb_get_requirements(NULL), NULL);
    NULL_CALL(rhumb_export_cache(f->context, NULL, NULL), f->context);
    NULL_CALL(rhumb_import_cache(f->context, NULL, 100, NULL), f->context);
    NULL_CALL(rhumb_create_hosted(NULL, NULL), NULL);
    NULL_CALL(rhumb_create_standalone(NULL, NULL), NULL);
#undef NULL_CALL
    rhumb_destroy_plan(NULL);
    rhumb_destroy_bindings(NULL);
    rhumb_destroy_context(NULL);
    cr_expect_not_null(rhumb_last_message(NULL));
}

/* Memory that is too small is left as it was. */
static void check_small_memory(fixture *f)
{
    rhumb_plan_properties properties;
    unsigned char memory[64];
    unsigned char before[64];
    size_t size = 4;
    rhumb_result result;
    rhumb_init_plan_properties(&properties);
    must(rhumb_get_plan_properties(f->rotate, &properties), "properties", f->context);
    memset(memory, 0xa5, sizeof memory);
    memcpy(before, memory, sizeof before);
    result = rhumb_write_constants(f->rotate, 0, 0, memory, properties.constants_size - 1);
    expect(f, "write_constants", result, RHUMB_ERROR_ARGUMENT, rhumb_last_message(f->context),
           "size");
    result = rhumb_write_bindings(f->rotate_bindings, memory, properties.bindings_size - 1);
    expect(f, "write_bindings", result, RHUMB_ERROR_ARGUMENT, rhumb_last_message(f->context),
           "size");
    result = rhumb_export_cache(f->context, &size, memory);
    expect(f, "export_cache", result, RHUMB_ERROR_ARGUMENT, rhumb_last_message(f->context), "size");
    cr_expect(memcmp(memory, before, sizeof before) == 0, "a refused call has written");
}

/* A legal record, in a command buffer of its own: it is not submitted, and its bindings may go. */
static void record_legal(fixture *f, const rhumb_bindings *bindings, const rhumb_dispatch *dispatch,
                         const char *what)
{
    VkCommandBuffer commands = VK_NULL_HANDLE;
    must(gpu_begin_commands(f->h.g, &commands), what, f->context);
    must(rhumb_record(commands, bindings, dispatch), what, f->context);
    must(gpu_end_commands(f->h.g, commands), what, f->context);
    gpu_free_commands(f->h.g, commands);
}

/* Views may be longer than the plan's maxima (a cache that has room to grow); a dispatch may
 * not. */
static void check_long_views(fixture *f)
{
    rhumb_view views[3];
    rhumb_bindings_info info;
    rhumb_bindings *bindings = NULL;
    rhumb_dispatch dispatch;
    interpose_counts before;
    rhumb_result result;
    rotate_views(f, views);
    views[0].shape[2] = views[1].shape[2] = views[2].shape[3] = 9;
    views[0].stride[1] = views[1].stride[1] = 9 * 64;
    bindings_info(f, &info, views, 3);
    must(rhumb_create_bindings(f->rotate, &info, &bindings), "long views", f->context);
    before = interpose_read();
    rhumb_init_dispatch(&dispatch);
    result = rhumb_record(f->commands, bindings, &dispatch);
    expect(f, "rows beyond the plan", result, RHUMB_ERROR_LIMIT, rhumb_last_message(f->context),
           "9");
    cr_expect_eq(interpose_read().commands, before.commands, "something was recorded");
    dispatch.q_length = 8;
    record_legal(f, bindings, &dispatch, "as many rows as the plan has");
    rhumb_destroy_bindings(bindings);
}

/* ---- views of other plans than the fixture's ---- */

static rhumb_result try_bindings(fixture *f, rhumb_plan *plan, const rhumb_view *views,
                                 uint32_t count)
{
    rhumb_bindings_info info;
    rhumb_bindings *bindings = NULL;
    rhumb_result result;
    bindings_info(f, &info, views, count);
    result = rhumb_create_bindings(plan, &info, &bindings);
    rhumb_destroy_bindings(bindings);
    return result;
}

static void expect_shape(fixture *f, rhumb_plan *plan, rhumb_view *views, uint32_t which,
                         uint32_t dimension)
{
    static const char *const names[] = {"LENGTHS", "STATUS"};
    uint64_t before = views[which].shape[dimension];
    char name[32];
    rhumb_result result;
    views[which].shape[dimension] = 2;
    snprintf(name, sizeof name, "%s, shape[%u] is 2", names[which - 4], dimension);
    result = try_bindings(f, plan, views, 6);
    expect(f, name, result, RHUMB_ERROR_ARGUMENT, rhumb_last_message(f->context), names[which - 4]);
    views[which].shape[dimension] = before;
}

/* LENGTHS is [1, 1, B, 4], STATUS [1, 1, 1, 1]: more would be legal bytes that nobody reads or
 * writes. */
static void check_small_views(fixture *f)
{
    rhumb_plan_info info;
    rhumb_plan *plan = NULL;
    rhumb_view views[6];
    attend_info(f, &info);
    info.views |= RHUMB_VIEW_BIT(RHUMB_VIEW_LENGTHS) | RHUMB_VIEW_BIT(RHUMB_VIEW_STATUS);
    must(rhumb_create_plan(f->context, &info, &plan), "plan with LENGTHS", f->context);
    attend_views(f, views);
    view_at(f, &views[4], RHUMB_VIEW_LENGTHS, RHUMB_I32, POS_AT, 1, 1, 4);
    view_at(f, &views[5], RHUMB_VIEW_STATUS, RHUMB_I32, POS_AT + 256, 1, 1, 1);
    must(try_bindings(f, plan, views, 6), "views of the right shape", f->context);
    for (uint32_t d = 0; d < 4; d++) {
        expect_shape(f, plan, views, 4, d);
        expect_shape(f, plan, views, 5, d);
    }
    rhumb_destroy_plan(plan);
}

static void narrow_view(fixture *f, rhumb_view *v, rhumb_view_id id, uint64_t h, uint64_t l,
                        const int64_t stride[4], uint64_t offset)
{
    view_at(f, v, id, RHUMB_F16, offset, h, l, 2);
    memcpy(v->stride, stride, sizeof v->stride);
}

/* A written view and a read one in a buffer, H 2 over 1, D 2, f16. */
static void check_interleaved_views(fixture *f)
{
    /* each view's rows are distinct; both together do not nest */
    static const int64_t unlike[4] = {23, 35, 27, 1};
    static const int64_t fused[4] = {72, 2, 12, 1};   /* [L, Q0 Q1 K V O0 O1] */
    rhumb_plan_info info;
    rhumb_plan *plan = NULL;
    rhumb_view v[4];
    rhumb_result result;
    attend_info(f, &info);
    info.heads = 2;
    info.kv_heads = 1;
    info.head_dim = info.value_dim = 2;
    info.dtype[RHUMB_VIEW_Q] = info.dtype[RHUMB_VIEW_K] = RHUMB_F16;
    info.dtype[RHUMB_VIEW_V] = info.dtype[RHUMB_VIEW_O] = RHUMB_F16;
    must(rhumb_create_plan(f->context, &info, &plan), "narrow plan", f->context);
    narrow_view(f, &v[0], RHUMB_VIEW_Q, 2, 2, unlike, 4096);
    narrow_view(f, &v[1], RHUMB_VIEW_K, 1, 6, unlike, 8192);
    narrow_view(f, &v[2], RHUMB_VIEW_V, 1, 6, unlike, 86);
    /* row 0 of head 1 is row 5 of V: bytes 356 to 360 */
    narrow_view(f, &v[3], RHUMB_VIEW_O, 2, 2, unlike, 286);
    result = try_bindings(f, plan, v, 4);
    expect(f, "output in a row of V", result, RHUMB_ERROR_ARGUMENT, rhumb_last_message(f->context),
           "V");
    narrow_view(f, &v[0], RHUMB_VIEW_Q, 2, 6, fused, 0);
    narrow_view(f, &v[1], RHUMB_VIEW_K, 1, 6, fused, 8);
    narrow_view(f, &v[2], RHUMB_VIEW_V, 1, 6, fused, 12);
    narrow_view(f, &v[3], RHUMB_VIEW_O, 2, 6, fused, 16);
    must(try_bindings(f, plan, v, 4), "views interleaved in one row", f->context);
    v[3].offset = 14;
    result = try_bindings(f, plan, v, 4);
    expect(f, "output in the word of V", result, RHUMB_ERROR_ARGUMENT,
           rhumb_last_message(f->context), "V");
    rhumb_destroy_plan(plan);
}

/* A cost beyond 64 bits is the largest number, not a small one. */
static void check_cost(fixture *f)
{
    rhumb_plan_info info;
    rhumb_plan_properties properties;
    attend_info(f, &info);
    info.heads = 32;
    info.head_dim = info.value_dim = 128;
    info.max_q_length = info.max_k_length = 1u << 30;
    rhumb_init_plan_properties(&properties);
    must(rhumb_query_plan(f->context, &info, &properties), "longest plan", f->context);
    cr_expect_eq(properties.flops, UINT64_MAX, "flops: %llu", (unsigned long long)properties.flops);
}

/* A shorter struct, as an older header has it, is completed with defaults; what it does not hold is
 * not read. Output structs are filled as far as they go. */
static void check_older_structs(fixture *f)
{
    rhumb_dispatch dispatch;
    rhumb_limits limits;
    f->h.cases++;
    rhumb_init_dispatch(&dispatch);
    dispatch.struct_size = offsetof(rhumb_dispatch, inverse);
    dispatch.inverse = 77; /* beyond the struct: garbage */
    record_legal(f, f->rotate_bindings, &dispatch, "record with an older dispatch");
    rhumb_init_dispatch(&dispatch);
    dispatch.struct_size = 56; /* of the first header: it ended with four bytes of padding, zero */
    memset((unsigned char *)&dispatch + offsetof(rhumb_dispatch, inverse), 0, 8);
    record_legal(f, f->rotate_bindings, &dispatch, "record with a dispatch that ends with padding");
    memset(&limits, 0xa5, sizeof limits);
    limits.type = RHUMB_TYPE_LIMITS;
    limits.struct_size = offsetof(rhumb_limits, max_push_bytes);
    limits.next = NULL;
    must(rhumb_get_limits(f->context, &limits), "older limits", f->context);
    cr_expect_eq(limits.struct_size, offsetof(rhumb_limits, max_push_bytes));
    cr_expect_geq(limits.max_invocations, 128u);
    cr_expect_eq(limits.max_push_bytes, 0xa5a5a5a5u, "get_limits wrote beyond the caller's struct");
}

static void *never(void *user, size_t size)
{
    (void)user;
    (void)size;
    return NULL;
}

static void hosted_from(fixture *f, rhumb_hosted_info *info)
{
    const rhumb_device_handles *handles = &f->h.g->handles;
    rhumb_init_hosted_info(info);
    info->instance = handles->instance;
    info->physical_device = handles->physical_device;
    info->device = handles->device;
    info->get_instance_proc_addr = handles->get_instance_proc_addr;
}

static VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL no_functions(VkInstance instance, const char *name)
{
    (void)instance;
    (void)name;
    return NULL;
}

static void expect_hosted(fixture *f, const char *name, const rhumb_hosted_info *info,
                          rhumb_result code, const char *word)
{
    rhumb_context *context = (rhumb_context *)(uintptr_t)1;
    uint64_t alive = interpose_live_total();
    rhumb_result result = rhumb_create_hosted(info, &context);
    expect(f, name, result, code, rhumb_last_message(NULL), word);
    cr_expect(result == RHUMB_OK || context == NULL, "%s: a context is left", name);
    cr_expect_eq(interpose_live_total(), alive, "%s: Vulkan objects are left alive", name);
}

static void check_contexts(fixture *f)
{
    static const char *const no_names[] = {NULL};
    rhumb_hosted_info info;
    rhumb_limits clamp;
    rhumb_allocator allocator;
#define HOSTED(change, code, word)                                                                 \
    do {                                                                                           \
        hosted_from(f, &info);                                                                     \
        change;                                                                                    \
        expect_hosted(f, #change, &info, RHUMB_ERROR_##code, word);                                \
    } while (0)
    HOSTED(info.instance = NULL, ARGUMENT, "instance");
    HOSTED(info.physical_device = NULL, ARGUMENT, "physical_device");
    HOSTED(info.device = NULL, ARGUMENT, "device");
    HOSTED(info.get_instance_proc_addr = NULL, ARGUMENT, "get_instance_proc_addr");
    HOSTED(info.get_instance_proc_addr = no_functions, VULKAN, "vk");
    HOSTED(info.api_version = VK_API_VERSION_1_0, ARGUMENT, "1.0");
    HOSTED(info.enabled_extension_count = 3, ARGUMENT, "enabled_extensions");
    HOSTED((info.enabled_extension_count = 1, info.enabled_extensions = no_names), ARGUMENT,
           "enabled_extensions[0]");
    HOSTED(info.type = RHUMB_TYPE_VIEW, VERSION, "hosted_info");
    HOSTED(info.struct_size += 8, VERSION, "struct_size");
    HOSTED(info.next = &unknown_next, VERSION, "4242");
    rhumb_init_limits(&clamp);
    clamp.max_invocations = 64;
    HOSTED(info.clamp = &clamp, LIMIT, "64");
    rhumb_init_limits(&clamp);
    clamp.max_shared_bytes = 8192;
    HOSTED(info.clamp = &clamp, LIMIT, "8192");
    rhumb_init_limits(&clamp);
    clamp.max_storage_buffers = 3;
    HOSTED(info.clamp = &clamp, LIMIT, "3");
    rhumb_init_limits(&clamp);
    clamp.storage_offset_alignment = 96;
    HOSTED(info.clamp = &clamp, LIMIT, "96");
    rhumb_init_limits(&clamp);
    clamp.type = RHUMB_TYPE_VIEW;
    HOSTED(info.clamp = &clamp, VERSION, "limits");
    rhumb_init_allocator(&allocator);
    allocator.allocate = never;
    HOSTED(info.allocator = &allocator, ARGUMENT, "allocator");
#undef HOSTED
}

static void check_standalone(fixture *f)
{
    rhumb_standalone_info info;
    rhumb_context *context = NULL;
    rhumb_result result;
    rhumb_init_standalone_info(&info);
    info.get_instance_proc_addr = interpose_get_instance_proc_addr;
    info.device_name = "no such device";
    result = rhumb_create_standalone(&info, &context);
    expect(f, "device name", result, RHUMB_ERROR_NO_DEVICE, rhumb_last_message(NULL),
           "no such device");
    info.device_name = NULL;
    info.device_index = 99;
    result = rhumb_create_standalone(&info, &context);
    expect(f, "device index", result, RHUMB_ERROR_NO_DEVICE, rhumb_last_message(NULL), "99");
    info.device_index = RHUMB_DEVICE_ANY;
    info.get_instance_proc_addr = no_functions;
    result = rhumb_create_standalone(&info, &context);
    expect(f, "no loader", result, RHUMB_ERROR_NO_DEVICE, rhumb_last_message(NULL), NULL);
    cr_expect_null(context);
}

Test(bad_input, is_refused_with_a_reason_and_leaves_nothing_behind)
{
    fixture f;
    open_fixture(&f, HARNESS_LAVAPIPE);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        check_row(&f, &rows[i]);
    }
    check_null_pointers(&f);
    check_small_memory(&f);
    check_long_views(&f);
    check_small_views(&f);
    check_interleaved_views(&f);
    check_cost(&f);
    check_older_structs(&f);
    check_contexts(&f);
    check_standalone(&f);
    run_good(&f);
    close_fixture(&f);
}

/* The smallest device has four storage buffers and wider alignments: refusals that need its
 * limits. */
static void five_slots(fixture *f, rhumb_plan_info *info)
{
    (void)f;
    info->views |= RHUMB_VIEW_BIT(RHUMB_VIEW_LENGTHS);
    info->slot[RHUMB_VIEW_Q] = 0;
    info->slot[RHUMB_VIEW_K] = 1;
    info->slot[RHUMB_VIEW_V] = 2;
    info->slot[RHUMB_VIEW_O] = 3;
    info->slot[RHUMB_VIEW_LENGTHS] = 4;
}

static void offset_of_one_alignment(rhumb_dispatch *dispatch)
{
    dispatch->constants_offset = 128;
}

/* The API's clamp does on a large device what the small device does. */
Test(bad_input, clamp_turns_a_large_device_into_a_small_one)
{
    fixture f;
    rhumb_hosted_info info;
    rhumb_limits clamp, found;
    rhumb_plan_info plan;
    rhumb_plan_properties properties;
    rhumb_context *context = NULL;
    rhumb_result result;
    open_fixture(&f, HARNESS_LAVAPIPE);
    hosted_from(&f, &info);
    rhumb_init_limits_floor(&clamp);
    info.clamp = &clamp;
    must(rhumb_create_hosted(&info, &context), "clamped context", NULL);
    rhumb_init_limits(&found);
    must(rhumb_get_limits(context, &found), "limits", context);
    cr_expect_eq(memcmp(&found, &clamp, sizeof found), 0, "the limits are not the clamp's");
    attend_info(&f, &plan);
    plan.variant = RHUMB_VARIANT_TILE;
    plan.head_dim = 128;
    rhumb_init_plan_properties(&properties);
    must(rhumb_query_plan(context, &plan, &properties), "tile form within the clamp", context);
    cr_expect_leq(properties.shared_bytes, clamp.max_shared_bytes);
    cr_expect_leq(properties.invocations, clamp.max_invocations);
    plan.views |= RHUMB_VIEW_BIT(RHUMB_VIEW_LENGTHS);
    must(rhumb_query_plan(context, &plan, &properties), "five views in four slots", context);
    cr_expect_leq(properties.slot_count, clamp.max_storage_buffers);
    five_slots(&f, &plan);
    result = rhumb_query_plan(context, &plan, &properties);
    expect(&f, "five slots", result, RHUMB_ERROR_LIMIT, rhumb_last_message(context), "4");
    rhumb_destroy_context(context);
    close_fixture(&f);
}

/* That no message comes proves something only if one would: two dispatches that write the same
 * bytes. */
Test(bad_input, a_missing_barrier_is_seen_by_the_validation_layer)
{
    fixture f;
    VkCommandBuffer commands = VK_NULL_HANDLE;
    rhumb_dispatch dispatch;
    open_fixture(&f, HARNESS_LAVAPIPE);
    rhumb_init_dispatch(&dispatch);
    must(gpu_begin_commands(f.h.g, &commands), "commands", f.context);
    must(rhumb_record(commands, f.rotate_bindings, &dispatch), "record", f.context);
    cr_expect_eq(atomic_load(&f.h.messages), 0);
    must(rhumb_record(commands, f.rotate_bindings, &dispatch), "record", f.context);
    cr_expect_gt(atomic_load(&f.h.messages), 0, "synchronization validation is not on");
    cr_expect_not_null(strstr(f.h.first_message, "SYNC-HAZARD"), "%s", f.h.first_message);
    atomic_store(&f.h.messages, 0);
    must(gpu_end_commands(f.h.g, commands), "end", f.context);
    gpu_free_commands(f.h.g, commands);
    run_good(&f);
    close_fixture(&f);
}

Test(bad_input, on_the_smallest_device_names_the_limit)
{
    static const row limits[] = {
        {"more slots than storage buffers", RHUMB_ERROR_LIMIT, {"5", "4"}, attend_plan, five_slots,
         NULL, NULL, NULL, NULL},
        {"uniform offset below the alignment", RHUMB_ERROR_ARGUMENT, {"256", "128"}, NULL, NULL,
         NULL, NULL, rotate_record, offset_of_one_alignment},
    };
    fixture f;
    rhumb_limits found, floor;
    open_fixture(&f, HARNESS_LAVAPIPE_FLOOR);
    for (size_t i = 0; i < sizeof limits / sizeof limits[0]; i++) {
        check_row(&f, &limits[i]);
    }
    rhumb_init_limits(&found);
    rhumb_init_limits_floor(&floor);
    must(rhumb_get_limits(f.context, &found), "limits", f.context);
    cr_expect_eq(found.max_invocations, floor.max_invocations);
    cr_expect_eq(found.max_shared_bytes, floor.max_shared_bytes);
    cr_expect_eq(found.max_push_bytes, floor.max_push_bytes);
    cr_expect_eq(found.max_storage_buffers, floor.max_storage_buffers);
    cr_expect_eq(found.storage_offset_alignment, floor.storage_offset_alignment);
    cr_expect_eq(found.uniform_offset_alignment, floor.uniform_offset_alignment);
    cr_expect_eq(found.max_storage_range, floor.max_storage_range);
    cr_expect_eq(found.subgroup_operations & ~(uint32_t)VK_SUBGROUP_FEATURE_BASIC_BIT, 0u);
    close_fixture(&f);
}
