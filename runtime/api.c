/* The struct protocol (type, struct_size, next) and the function table. */
#include "internal.h"

_Static_assert(VIEW_Q == RHUMB_VIEW_Q && VIEW_K == RHUMB_VIEW_K && VIEW_V == RHUMB_VIEW_V &&
                   VIEW_O == RHUMB_VIEW_O && VIEW_Q_OUT == RHUMB_VIEW_Q_OUT &&
                   VIEW_K_OUT == RHUMB_VIEW_K_OUT && VIEW_POSITIONS_Q == RHUMB_VIEW_POSITIONS_Q &&
                   VIEW_POSITIONS_K == RHUMB_VIEW_POSITIONS_K &&
                   VIEW_LENGTHS == RHUMB_VIEW_LENGTHS && VIEW_STATUS == RHUMB_VIEW_STATUS &&
                   VIEW_V_OUT == RHUMB_VIEW_V_OUT && VIEW_SLOTS == RHUMB_VIEW_SLOTS &&
                   VIEW_Q_GAIN == RHUMB_VIEW_Q_GAIN && VIEW_K_GAIN == RHUMB_VIEW_K_GAIN &&
                   VIEW_FREQUENCIES == RHUMB_VIEW_FREQUENCIES && VIEW_TABLE == RHUMB_VIEW_TABLE &&
                   VIEW_QUERY_TABLE == RHUMB_VIEW_QUERY_TABLE &&
                   VIEW_KEY_TABLE == RHUMB_VIEW_KEY_TABLE &&
                   VIEW_VALUE_TABLE == RHUMB_VIEW_VALUE_TABLE &&
                   VIEW_TABLE_SCALAR == RHUMB_VIEW_TABLE_SCALAR &&
                   VIEW_CONTENT_BIAS == RHUMB_VIEW_CONTENT_BIAS &&
                   VIEW_POSITION_BIAS == RHUMB_VIEW_POSITION_BIAS &&
                   VIEW_SEGMENT_BIAS == RHUMB_VIEW_SEGMENT_BIAS &&
                   VIEW_SEGMENT_TABLE == RHUMB_VIEW_SEGMENT_TABLE &&
                   VIEW_SEGMENTS_Q == RHUMB_VIEW_SEGMENTS_Q &&
                   VIEW_SEGMENTS_K == RHUMB_VIEW_SEGMENTS_K && VIEW_MASK == RHUMB_VIEW_MASK &&
                   VIEW_ROW_SCALE == RHUMB_VIEW_ROW_SCALE &&
                   VIEW_HEAD_SCALE == RHUMB_VIEW_HEAD_SCALE &&
                   VIEW_WORKSPACE == RHUMB_VIEW_WORKSPACE && VIEW_SINKS == RHUMB_VIEW_SINKS &&
                   VIEW_LSE == RHUMB_VIEW_LSE && VIEW_BLOCK_TABLE == RHUMB_VIEW_BLOCK_TABLE &&
                   VIEW_Q_STARTS == RHUMB_VIEW_Q_STARTS && VIEW_K_STARTS == RHUMB_VIEW_K_STARTS,
               "view ids of shader and header");
_Static_assert(DTYPE_F32 == RHUMB_F32 && DTYPE_F16 == RHUMB_F16 && DTYPE_BF16 == RHUMB_BF16 &&
                   DTYPE_I32 == RHUMB_I32 && DTYPE_Q8_0 == RHUMB_Q8_0,
               "dtypes of shader and header");
_Static_assert(PAIRING_INTERLEAVED == RHUMB_PAIRING_INTERLEAVED &&
                   PAIRING_HALF == RHUMB_PAIRING_HALF &&
                   PAIRING_INTERLEAVED_TO_HALF == RHUMB_PAIRING_INTERLEAVED_TO_HALF &&
                   PAIRING_NONE > RHUMB_PAIRING_INTERLEAVED_TO_HALF,
               "pairings of shader and header");
_Static_assert(2 * TURNS_PER_LIST == RHUMB_MAX_PAIRS &&
                   sizeof(((struct rhumb_constants_block *)0)->turns) == 32 * TURNS_PER_LIST,
               "two lists of frequencies");
_Static_assert(MASK_ORDER_INDEX == RHUMB_MASK_ORDER_INDEX &&
                   MASK_ORDER_POSITION == RHUMB_MASK_ORDER_POSITION,
               "mask orders of shader and header");
_Static_assert(APPEND_NONE == RHUMB_APPEND_NONE && APPEND_POSITION == RHUMB_APPEND_POSITION &&
                   APPEND_RING == RHUMB_APPEND_RING && APPEND_SLOTS == RHUMB_APPEND_SLOTS,
               "kinds of append of shader and header");
_Static_assert(sizeof(((struct rhumb_constants_block *)0)->slopes) == 8 * RHUMB_MAX_SLOPES &&
                   sizeof(((struct rhumb_constants_block *)0)->edges) == 4 * RHUMB_MAX_EDGES,
               "slopes and edges");
_Static_assert(sizeof(struct rhumb_push) <= 128, "push constants stay within 128 bytes");
_Static_assert(sizeof(struct rhumb_constants_block) <= 16384, "constants block");
_Static_assert(sizeof(struct rhumb_bindings_block) <= 1024, "bindings block");
_Static_assert(sizeof(enum rhumb_op) == 4 && sizeof(enum rhumb_dtype) == 4, "enums are four bytes");

static rhumb_result check_header(const rhumb_context *context, const char *operation,
                                 const char *struct_name, const void *given, uint32_t type,
                                 size_t full_size)
{
    const rhumb_header *header = given;
    if (!header)
        return rhumb_fail(context, RHUMB_ERROR_ARGUMENT, "%s: %s: wanted a struct, found NULL",
                          operation, struct_name);
    if (header->type != type)
        return rhumb_fail(context, RHUMB_ERROR_VERSION, "%s: %s: wanted type %u, found %u",
                          operation, struct_name, type, header->type);
    if (header->struct_size < sizeof *header || header->struct_size > full_size ||
        header->struct_size % sizeof(void *))
        return rhumb_fail(context, RHUMB_ERROR_VERSION,
                          "%s: %s: wanted a struct_size of %zu to %zu in whole fields, found %u",
                          operation, struct_name, sizeof *header, full_size, header->struct_size);
    if (header->next)
        return rhumb_fail(context, RHUMB_ERROR_VERSION,
                          "%s: %s: wanted no extension, found next of type %u", operation,
                          struct_name, ((const rhumb_header *)header->next)->type);
    return RHUMB_OK;
}

rhumb_result rhumb_adopt(const rhumb_context *context, const char *operation,
                         const char *struct_name, const void *given, uint32_t type, void *full,
                         size_t full_size)
{
    RHUMB_TRY(check_header(context, operation, struct_name, given, type, full_size));
    memcpy(full, given, ((const rhumb_header *)given)->struct_size);
    ((rhumb_header *)full)->struct_size = (uint32_t)full_size;
    return RHUMB_OK;
}

rhumb_result rhumb_give(const rhumb_context *context, const char *operation,
                        const char *struct_name, void *given, uint32_t type, const void *full,
                        size_t full_size)
{
    rhumb_header header;
    RHUMB_TRY(check_header(context, operation, struct_name, given, type, full_size));
    memcpy(&header, given, sizeof header);
    memcpy(given, full, header.struct_size);
    memcpy(given, &header, sizeof header);
    return RHUMB_OK;
}

rhumb_result rhumb_check_lost(const rhumb_context *context)
{
    if (atomic_load(&context->device_lost))
        return rhumb_fail(context, RHUMB_ERROR_DEVICE_LOST,
                          "the device was lost in an earlier call");
    return RHUMB_OK;
}

const rhumb_view_rule rhumb_view_rules[RHUMB_VIEW_COUNT] = {
    [RHUMB_VIEW_Q] = {"Q", false, "[B, heads, Lq, head_dim]"},
    [RHUMB_VIEW_K] = {"K", false, "[B, kv_heads, Lk, head_dim]"},
    [RHUMB_VIEW_V] = {"V", false, "[B, kv_heads, Lk, value_dim]"},
    [RHUMB_VIEW_O] = {"O", false, "[B, heads, Lq, value_dim]"},
    [RHUMB_VIEW_Q_OUT] = {"Q_OUT", false, "[B, heads, Lq, head_dim]"},
    [RHUMB_VIEW_K_OUT] = {"K_OUT", false, "[B, kv_heads, Lq or capacity, head_dim]"},
    [RHUMB_VIEW_POSITIONS_Q] = {"POSITIONS_Q", true, "[B, Lq] or [Lq]"},
    [RHUMB_VIEW_POSITIONS_K] = {"POSITIONS_K", true, "[B, Lk] or [Lk]"},
    [RHUMB_VIEW_LENGTHS] = {"LENGTHS", true, "[B, 4]"},
    [RHUMB_VIEW_STATUS] = {"STATUS", true, "[1]"},
    [RHUMB_VIEW_V_OUT] = {"V_OUT", false, "[B, kv_heads, Lq or capacity, value_dim]"},
    [RHUMB_VIEW_SLOTS] = {"SLOTS", true, "[B, L] or [L]"},
    [RHUMB_VIEW_Q_GAIN] = {"Q_GAIN", false, "[heads or 1, head_dim]"},
    [RHUMB_VIEW_K_GAIN] = {"K_GAIN", false, "[kv_heads or 1, head_dim]"},
    [RHUMB_VIEW_FREQUENCIES] = {"FREQUENCIES", false, "[axes, heads, pairs]"},
    [RHUMB_VIEW_TABLE] = {"TABLE", false, "[rows, heads or channels]"},
    [RHUMB_VIEW_QUERY_TABLE] = {"QUERY_TABLE", false, "[heads or 1, rows, head_dim]"},
    [RHUMB_VIEW_KEY_TABLE] = {"KEY_TABLE", false, "[heads or 1, rows, head_dim]"},
    [RHUMB_VIEW_VALUE_TABLE] = {"VALUE_TABLE", false, "[heads or 1, rows, value_dim]"},
    [RHUMB_VIEW_TABLE_SCALAR] = {"TABLE_SCALAR", false, "[rows, heads]"},
    [RHUMB_VIEW_CONTENT_BIAS] = {"CONTENT_BIAS", false, "[heads, head_dim]"},
    [RHUMB_VIEW_POSITION_BIAS] = {"POSITION_BIAS", false, "[heads, head_dim]"},
    [RHUMB_VIEW_SEGMENT_BIAS] = {"SEGMENT_BIAS", false, "[heads, head_dim]"},
    [RHUMB_VIEW_SEGMENT_TABLE] = {"SEGMENT_TABLE", false, "[heads, 2, head_dim]"},
    [RHUMB_VIEW_SEGMENTS_Q] = {"SEGMENTS_Q", true, "[B, Lq]"},
    [RHUMB_VIEW_SEGMENTS_K] = {"SEGMENTS_K", true, "[B, Lk]"},
    [RHUMB_VIEW_MASK] = {"MASK", false, "[B or 1, heads or 1, Lq or 1, Lk or 1]"},
    [RHUMB_VIEW_ROW_SCALE] = {"ROW_SCALE", false, "[B or 1, heads, Lq]"},
    [RHUMB_VIEW_HEAD_SCALE] = {"HEAD_SCALE", false, "[heads]"},
    [RHUMB_VIEW_WORKSPACE] = {"WORKSPACE", false, "[n]"},
    [RHUMB_VIEW_SINKS] = {"SINKS", false, "[heads]"},
    [RHUMB_VIEW_LSE] = {"LSE", false, "[B, heads, Lq]"},
};

const char *rhumb_dtype_name(rhumb_dtype dtype)
{
    switch (dtype) {
    case RHUMB_F32: return "f32";
    case RHUMB_F16: return "f16";
    case RHUMB_BF16: return "bf16";
    case RHUMB_I32: return "i32";
    case RHUMB_Q8_0: return "q8_0";
    }
    return "unknown dtype";
}

uint32_t rhumb_dtype_size(rhumb_dtype dtype)
{
    if (dtype == RHUMB_Q8_0)
        return Q8_BYTES;
    return dtype == RHUMB_F16 || dtype == RHUMB_BF16 ? 2 : 4;
}

uint32_t rhumb_dtype_elements(rhumb_dtype dtype)
{
    return dtype == RHUMB_Q8_0 ? Q8_ELEMENTS : 1;
}

uint64_t rhumb_bytes_of(rhumb_dtype dtype, uint64_t elements)
{
    return elements / rhumb_dtype_elements(dtype) * rhumb_dtype_size(dtype);
}

const rhumb_api *rhumb_get_api(uint32_t abi_major)
{
    static const rhumb_api api = {
        .struct_size = sizeof(rhumb_api),
        .version = RHUMB_VERSION_MAJOR << 22 | RHUMB_VERSION_MINOR << 12 | RHUMB_VERSION_PATCH,
        .result_name = rhumb_result_name,
        .get_requirements = rhumb_get_requirements,
        .create_hosted = rhumb_create_hosted,
        .destroy_context = rhumb_destroy_context,
        .last_message = rhumb_last_message,
        .get_limits = rhumb_get_limits,
        .query_plan = rhumb_query_plan,
        .create_plan = rhumb_create_plan,
        .get_plan_properties = rhumb_get_plan_properties,
        .destroy_plan = rhumb_destroy_plan,
        .write_constants = rhumb_write_constants,
        .create_bindings = rhumb_create_bindings,
        .destroy_bindings = rhumb_destroy_bindings,
        .write_bindings = rhumb_write_bindings,
        .record = rhumb_record,
        .export_cache = rhumb_export_cache,
        .import_cache = rhumb_import_cache,
        .scheme_from_keys = rhumb_scheme_from_keys,
        .get_device_handles = rhumb_get_device_handles,
        .rotary_frequencies = rhumb_rotary_frequencies,
        .keys_stale = rhumb_keys_stale,
        .query_self_test = rhumb_query_self_test,
        .create_self_test = rhumb_create_self_test,
        .record_self_test = rhumb_record_self_test,
        .read_self_test = rhumb_read_self_test,
        .destroy_self_test = rhumb_destroy_self_test,
        .relative_rows = rhumb_relative_rows,
        .alibi_slopes_of = rhumb_alibi_slopes_of,
        .mrope_positions = rhumb_mrope_positions,
    };
    return abi_major == RHUMB_VERSION_MAJOR ? &api : NULL;
}
