/* Plans: validation of plan_info, its completion, pipelines. */
#include "op/cache.h"

#include <math.h>
#include <stdio.h>

#define COUNT(array) (sizeof(array) / sizeof(array)[0])

const rhumb_operation *rhumb_find_operation(rhumb_op op)
{
    static const rhumb_operation *const operations[] = {&rhumb_op_rotate, &rhumb_op_attention,
                                                        &rhumb_op_encode, &rhumb_op_resize,
                                                        &rhumb_op_bias, &rhumb_op_scores,
                                                        &rhumb_op_project, &rhumb_op_combine};
    for (size_t i = 0; i < COUNT(operations); i++)
        if (operations[i]->op == op)
            return operations[i];
    return NULL;
}

const char *rhumb_view_name(uint32_t id)
{
    return id < RHUMB_VIEW_COUNT ? rhumb_view_rules[id].name : "unknown";
}

const rhumb_view_rule *rhumb_rule_of(const rhumb_operation *o, uint32_t id)
{
    static const rhumb_view_rule unknown = {"unknown", false, "[]"};
    if (id >= RHUMB_VIEW_COUNT)
        return &unknown;
    return o->rules && o->rules[id].name ? &o->rules[id] : &rhumb_view_rules[id];
}

rhumb_result rhumb_check_range(const rhumb_context *context, const char *op, const char *field,
                               uint32_t value, uint32_t low, uint32_t high)
{
    if (value >= low && value <= high)
        return RHUMB_OK;
    return rhumb_fail(context, RHUMB_ERROR_ARGUMENT, "%s: %s: wanted %u to %u, found %u", op, field,
                      low, high, value);
}

static rhumb_result check_sizes(const rhumb_context *context, const rhumb_operation *o,
                                const rhumb_plan_info *i)
{
    const char *op = o->name;
    RHUMB_TRY(rhumb_check_range(context, op, "heads", i->heads, 1, 65535));
    RHUMB_TRY(rhumb_check_range(context, op, "kv_heads", i->kv_heads, 1, 65535));
    if (i->heads % i->kv_heads)
        return rhumb_fail(context, RHUMB_ERROR_ARGUMENT,
                          "%s: kv_heads: wanted a divisor of heads %u, found %u", op, i->heads,
                          i->kv_heads);
    RHUMB_TRY(rhumb_check_range(context, op, "head_dim", i->head_dim, 1, o->max_head_dim));
    RHUMB_TRY(rhumb_check_range(context, op, "value_dim", i->value_dim, 1, o->max_head_dim));
    RHUMB_TRY(rhumb_check_range(context, op, "max_q_length", i->max_q_length, 1, RHUMB_MAX_LENGTH));
    RHUMB_TRY(rhumb_check_range(context, op, "max_k_length", i->max_k_length, 1, RHUMB_MAX_LENGTH));
    if ((uint32_t)i->variant > RHUMB_VARIANT_BROADCAST)
        return rhumb_fail(context, RHUMB_ERROR_ARGUMENT,
                          "%s: variant: wanted a rhumb_variant, found %d", op, (int)i->variant);
    if (!isfinite(i->scale) || (i->scale < RHUMB_SCALE_AUTO && fabsf(i->scale) > 1e38f))
        return rhumb_fail(context, RHUMB_ERROR_ARGUMENT,
                          "%s: scale: wanted a finite number up to 1e38 in magnitude, found %g", op,
                          (double)i->scale);
    return RHUMB_OK;
}

static rhumb_result check_views(const rhumb_context *context, const rhumb_operation *o,
                                const rhumb_plan_info *i)
{
    const char *op = o->name;
    uint32_t allowed = o->required | o->one_of | o->optional;
    for (uint32_t id = 0; id < RHUMB_MAX_VIEWS; id++) {
        if ((o->required & BIT(id)) && !(i->views & BIT(id)))
            return rhumb_fail(context, RHUMB_ERROR_ARGUMENT, "%s: views: wanted %s, found none", op,
                              rhumb_rule_of(o, id)->name);
        if ((i->views & BIT(id)) && !(allowed & BIT(id)))
            return rhumb_fail(context, RHUMB_ERROR_ARGUMENT,
                              "%s: views: %s (%u) is no view of this operation", op,
                              rhumb_rule_of(o, id)->name, id);
    }
    if (o->one_of && !(i->views & o->one_of))
        return rhumb_fail(context, RHUMB_ERROR_ARGUMENT, "%s: views: wanted Q or K, found neither",
                          op);
    for (uint32_t id = 0; id < RHUMB_VIEW_COUNT; id++) {
        bool integer = rhumb_view_rules[id].integer;
        if (!(i->views & BIT(id)))
            continue;
        bool quantised = o->quantised & BIT(id);
        if (integer ? i->dtype[id] != RHUMB_I32
                    : (uint32_t)i->dtype[id] > RHUMB_BF16 &&
                          !(quantised && i->dtype[id] == RHUMB_Q8_0))
            return rhumb_fail(context, RHUMB_ERROR_ARGUMENT,
                              "%s: dtype of %s: wanted %s, found %s (%d)", op,
                              rhumb_rule_of(o, id)->name,
                              integer     ? "i32"
                              : quantised ? "f32, f16, bf16 or q8_0"
                                          : "f32, f16 or bf16",
                              rhumb_dtype_name(i->dtype[id]), (int)i->dtype[id]);
    }
    return RHUMB_OK;
}

rhumb_result rhumb_check_f32(const rhumb_context *context, const rhumb_operation *o,
                             const rhumb_plan_info *info, uint32_t id)
{
    if (!(info->views & BIT(id)) || info->dtype[id] == RHUMB_F32)
        return RHUMB_OK;
    return rhumb_fail(context, RHUMB_ERROR_ARGUMENT, "%s: dtype of %s: wanted f32, found %s",
                      o->name, rhumb_rule_of(o, id)->name, rhumb_dtype_name(info->dtype[id]));
}

static rhumb_result check_rotate_only(const rhumb_context *context, const rhumb_operation *o,
                                      const rhumb_plan_info *i)
{
    if (o->op == RHUMB_OP_ROTATE ||
        (i->purpose == RHUMB_PURPOSE_ROTATE && i->append == RHUMB_APPEND_NONE))
        return RHUMB_OK;
    return rhumb_fail(context, RHUMB_ERROR_ARGUMENT,
                      "%s: purpose and append: wanted the defaults, as they are rotate's, found %d "
                      "and %d",
                      o->name, (int)i->purpose, (int)i->append);
}

static rhumb_result check_mask_order(const rhumb_context *context, const char *op,
                                     rhumb_plan_info *i)
{
    const uint32_t both = BIT(RHUMB_VIEW_POSITIONS_Q) | BIT(RHUMB_VIEW_POSITIONS_K);
    bool has_both = (i->views & both) == both;
    switch (i->mask_order) {
    case RHUMB_MASK_ORDER_AUTO:
        i->mask_order = has_both ? RHUMB_MASK_ORDER_POSITION : RHUMB_MASK_ORDER_INDEX;
        return RHUMB_OK;
    case RHUMB_MASK_ORDER_INDEX: return RHUMB_OK;
    case RHUMB_MASK_ORDER_POSITION:
        if (!has_both)
            return rhumb_fail(
                context, RHUMB_ERROR_ARGUMENT,
                "%s: mask_order: POSITION wanted POSITIONS_Q and POSITIONS_K, found views 0x%x", op,
                i->views);
        return RHUMB_OK;
    }
    return rhumb_fail(context, RHUMB_ERROR_ARGUMENT,
                      "%s: mask_order: wanted a rhumb_mask_order, found %d", op,
                      (int)i->mask_order);
}

/* INTERLEAVED_TO_HALF writes to channels that another invocation still has to read: it needs a
 * place of its own, and attention would have to permute K in the same way. */
static rhumb_result check_pairing(const rhumb_context *context, const char *op,
                                  const rhumb_resolved *r)
{
    const uint32_t in[] = {RHUMB_VIEW_Q, RHUMB_VIEW_K},
                   out[] = {RHUMB_VIEW_Q_OUT, RHUMB_VIEW_K_OUT};
    if (r->rotary.pairing != PAIRING_INTERLEAVED_TO_HALF)
        return RHUMB_OK;
    if (r->info.op != RHUMB_OP_ROTATE)
        return rhumb_fail(context, RHUMB_ERROR_UNSUPPORTED,
                          "%s: rotary: wanted a pairing that is read and written alike, found "
                          "INTERLEAVED_TO_HALF, which is for rotate",
                          op);
    for (size_t n = 0; n < COUNT(in); n++)
        if ((r->info.views & BIT(in[n])) && !(r->info.views & BIT(out[n])))
            return rhumb_fail(context, RHUMB_ERROR_ARGUMENT,
                              "%s: views: wanted %s beside %s for INTERLEAVED_TO_HALF, which is "
                              "out of place only, found none",
                              op, rhumb_view_name(out[n]), rhumb_view_name(in[n]));
    return RHUMB_OK;
}

/* Pairs by several axes have no arange; the partners of a cut window are not where attention's
 * kernels look for them. */
static rhumb_result check_axes(const rhumb_context *context, const char *op,
                               const rhumb_resolved *r)
{
    if (r->rotary.axes > 1 && !(r->info.views & BIT(RHUMB_VIEW_POSITIONS_Q)))
        return rhumb_fail(context, RHUMB_ERROR_ARGUMENT,
                          "%s: views: wanted POSITIONS_Q with %u axes, found none", op,
                          r->rotary.axes);
    if (r->rotary.has_learned && r->info.op != RHUMB_OP_ROTATE)
        return rhumb_fail(context, RHUMB_ERROR_UNSUPPORTED,
                          "%s: rotary: wanted frequencies that all heads share, found LEARNED, "
                          "which is for rotate",
                          op);
    if (r->rotary.segments > 1 && r->info.op != RHUMB_OP_ROTATE)
        return rhumb_fail(context, RHUMB_ERROR_UNSUPPORTED,
                          "%s: rotary: wanted partners across the whole window, found "
                          "HALF_PER_AXIS, which is for rotate",
                          op);
    return RHUMB_OK;
}

rhumb_result rhumb_resolve_plan_rotary(const rhumb_context *context, const char *op,
                                       rhumb_resolved *r)
{
    if (!r->info.rotary)
        return RHUMB_OK;
    RHUMB_TRY(rhumb_resolve_rotary(context, r->info.rotary, r->info.head_dim, &r->rotary));
    r->has_rotary = true;
    RHUMB_TRY(rhumb_apply_purpose(context, r));
    RHUMB_TRY(check_pairing(context, op, r));
    return check_axes(context, op, r);
}

rhumb_result rhumb_resolve_plan_terms(const rhumb_context *context, rhumb_resolved *r)
{
    if (!r->info.scheme)
        return RHUMB_OK;
    RHUMB_TRY(rhumb_resolve_terms(context, r->info.scheme, &r->info, &r->terms));
    r->has_terms = true;
    return RHUMB_OK;
}

rhumb_result rhumb_refuse_rotary(const rhumb_context *context, const char *op,
                                 const rhumb_plan_info *info)
{
    if (!info->rotary)
        return RHUMB_OK;
    return rhumb_fail(context, RHUMB_ERROR_ARGUMENT, "%s: rotary: wanted NULL, found a struct", op);
}

rhumb_result rhumb_check_variant(const rhumb_context *context, const char *op,
                                 const rhumb_plan_info *info)
{
    if (info->variant == RHUMB_VARIANT_AUTO || info->variant == RHUMB_VARIANT_GENERIC)
        return RHUMB_OK;
    return rhumb_fail(context, RHUMB_ERROR_UNSUPPORTED,
                      "%s: variant: wanted RHUMB_VARIANT_AUTO or RHUMB_VARIANT_GENERIC, found %d",
                      op, (int)info->variant);
}

void rhumb_fill_scale(rhumb_resolved *r)
{
    if (r->info.scale < RHUMB_SCALE_AUTO)
        return;
    r->info.scale = (float)(r->has_terms ? r->terms.scale : 1.0 / sqrt((double)r->info.head_dim));
}

/* ---- Slots */

/* Numbers in the order of first use, so that the used slots are 0 .. count - 1. */
static uint32_t compact_slots(const rhumb_plan_info *i, uint32_t *slot)
{
    uint32_t renamed[RHUMB_MAX_VIEWS];
    uint32_t count = 0;
    for (uint32_t s = 0; s < RHUMB_MAX_VIEWS; s++)
        renamed[s] = RHUMB_SLOT_AUTO;
    for (uint32_t id = 0; id < RHUMB_VIEW_COUNT; id++) {
        if (!(i->views & BIT(id)))
            continue;
        if (renamed[slot[id]] == RHUMB_SLOT_AUTO)
            renamed[slot[id]] = count++;
        slot[id] = renamed[slot[id]];
    }
    return count;
}

static rhumb_result assign_slots(const rhumb_context *context, const rhumb_operation *o,
                                 rhumb_resolved *r)
{
    const char *op = o->name;
    rhumb_plan_info *i = &r->info;
    rhumb_plan_properties *p = &r->properties;
    uint32_t views = 0, given = 0, used = 0;
    for (uint32_t id = 0; id < RHUMB_MAX_VIEWS; id++) {
        bool present = i->views & BIT(id);
        p->slot[id] = RHUMB_SLOT_AUTO;
        views += present;
        if (!present || i->slot[id] == RHUMB_SLOT_AUTO)
            continue;
        if (i->slot[id] >= RHUMB_MAX_VIEWS)
            return rhumb_fail(context, RHUMB_ERROR_ARGUMENT,
                              "%s: slot of %s: wanted 0 to %d, found %u", op,
                              rhumb_rule_of(o, id)->name,
                              RHUMB_MAX_VIEWS - 1, i->slot[id]);
        p->slot[id] = i->slot[id];
        used |= 1u << i->slot[id];
        given++;
    }
    if (given && given != views)
        return rhumb_fail(context, RHUMB_ERROR_ARGUMENT,
                          "%s: slots: wanted none or all of %u views, found %u", op, views, given);
    if (used & (used + 1))
        return rhumb_fail(context, RHUMB_ERROR_ARGUMENT,
                          "%s: slots: wanted 0, 1, 2 ... without a gap, found mask 0x%x", op, used);
    if (given) {
        for (p->slot_count = 0; used >> p->slot_count; p->slot_count++)
            continue;
    } else {
        bool fits = views <= context->limits.max_storage_buffers;
        for (uint32_t id = 0; id < RHUMB_VIEW_COUNT; id++)
            if (i->views & BIT(id))
                p->slot[id] = fits ? id : o->shared_slot(id);
        p->slot_count = compact_slots(i, p->slot);
    }
    if (p->slot_count > context->limits.max_storage_buffers)
        return rhumb_fail(context, RHUMB_ERROR_LIMIT,
                          "%s: slots: wanted %u storage buffers, the device has %u", op,
                          p->slot_count, context->limits.max_storage_buffers);
    return RHUMB_OK;
}

void rhumb_add_reason(rhumb_resolved *r, const char *text)
{
    char *reason = r->properties.reason;
    size_t length = strlen(reason);
    snprintf(reason + length, sizeof r->properties.reason - length, "%s", text);
}

uint64_t rhumb_saturated_product(uint64_t a, uint64_t b)
{
    return a && b > UINT64_MAX / a ? UINT64_MAX : a * b;
}

uint64_t rhumb_saturated_sum(uint64_t a, uint64_t b)
{
    return b > UINT64_MAX - a ? UINT64_MAX : a + b;
}

/* ---- Plan */
static rhumb_result resolve(const rhumb_context *context, const rhumb_plan_info *given,
                            uint32_t avoid, rhumb_resolved *r)
{
    rhumb_plan_info *i = &r->info;
    memset(r, 0, sizeof *r);
    r->avoid = avoid;
    rhumb_init_plan_info(i, RHUMB_OP_ROTATE);
    rhumb_init_plan_properties(&r->properties);
    RHUMB_TRY(
        rhumb_adopt(context, "plan", "rhumb_plan_info", given, RHUMB_TYPE_PLAN_INFO, i, sizeof *i));
    const rhumb_operation *o = rhumb_find_operation(i->op);
    if (!o)
        return rhumb_fail(context, RHUMB_ERROR_ARGUMENT, "plan: op: wanted a rhumb_op, found %d",
                          (int)i->op);
    if (i->kv_heads == RHUMB_SAME)
        i->kv_heads = i->heads;
    if (i->value_dim == RHUMB_SAME)
        i->value_dim = i->head_dim;
    if (i->max_k_length == RHUMB_SAME)
        i->max_k_length = i->max_q_length;
    RHUMB_TRY(check_sizes(context, o, i));
    RHUMB_TRY(check_views(context, o, i));
    RHUMB_TRY(check_rotate_only(context, o, i));
    RHUMB_TRY(check_mask_order(context, o->name, i));
    RHUMB_TRY(o->resolve(context, r));
    RHUMB_TRY(assign_slots(context, o, r));
    RHUMB_TRY(o->choose(context, r));
    if (r->aligned_only)
        rhumb_add_reason(r, "; aligned rows only: the form for others " FOUND_WRONG);

    rhumb_plan_properties *p = &r->properties;
    p->constants_size = sizeof(struct rhumb_constants_block);
    p->bindings_size = sizeof(struct rhumb_bindings_block);
    p->src_stage = VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT;
    p->src_access =
        VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_SHADER_WRITE_BIT | VK_ACCESS_UNIFORM_READ_BIT;
    p->dst_stage = VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT;
    p->dst_access = VK_ACCESS_SHADER_WRITE_BIT;
    p->table_rows = r->terms.rows;
    p->table_zero = r->terms.zero;
    p->pipeline_count = (r->address_only ? 0u : 1u) + r->has_fast + r->has_second + r->has_by_address;
    o->count_cost(r);
    i->rotary = NULL; /* copied above; the caller's structs are not looked at again */
    i->scheme = NULL;
    return RHUMB_OK;
}

rhumb_result rhumb_query_plan(rhumb_context *context, const rhumb_plan_info *info,
                              rhumb_plan_properties *properties)
{
    rhumb_resolved resolved;
    if (!context)
        return rhumb_fail(NULL, RHUMB_ERROR_ARGUMENT,
                          "query_plan: context: wanted one, found NULL");
    RHUMB_TRY(resolve(context, info, atomic_load(&context->avoided), &resolved));
    return rhumb_give(context, "query_plan", "rhumb_plan_properties", properties,
                      RHUMB_TYPE_PLAN_PROPERTIES, &resolved.properties, sizeof resolved.properties);
}

static rhumb_result create_layouts(rhumb_plan *plan)
{
    rhumb_context *context = plan->context;
    const VkDescriptorSetLayoutBinding bindings[] = {
        {.binding = BINDING_MEMORY,
         .descriptorType = VK_DESCRIPTOR_TYPE_STORAGE_BUFFER,
         .descriptorCount = plan->resolved.properties.slot_count,
         .stageFlags = VK_SHADER_STAGE_COMPUTE_BIT},
        {.binding = BINDING_CONSTANTS,
         .descriptorType = VK_DESCRIPTOR_TYPE_UNIFORM_BUFFER_DYNAMIC,
         .descriptorCount = 1,
         .stageFlags = VK_SHADER_STAGE_COMPUTE_BIT},
        {.binding = BINDING_BINDINGS,
         .descriptorType = VK_DESCRIPTOR_TYPE_UNIFORM_BUFFER_DYNAMIC,
         .descriptorCount = 1,
         .stageFlags = VK_SHADER_STAGE_COMPUTE_BIT},
    };
    const VkDescriptorSetLayoutCreateInfo set_info = {
        .sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_LAYOUT_CREATE_INFO,
        .bindingCount = COUNT(bindings),
        .pBindings = bindings,
    };
    VkResult result =
        context->vk.CreateDescriptorSetLayout(context->device, &set_info, NULL, &plan->set_layout);
    if (result != VK_SUCCESS) {
        plan->set_layout = VK_NULL_HANDLE;
        return rhumb_fail_vk(context, result, "create_plan: vkCreateDescriptorSetLayout");
    }
    rhumb_set_name(context, VK_OBJECT_TYPE_DESCRIPTOR_SET_LAYOUT, (uint64_t)plan->set_layout,
                   plan->name, "set layout");
    const VkPushConstantRange push = {.stageFlags = VK_SHADER_STAGE_COMPUTE_BIT,
                                      .size = sizeof(struct rhumb_push)};
    const VkPipelineLayoutCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO,
        .setLayoutCount = 1,
        .pSetLayouts = &plan->set_layout,
        .pushConstantRangeCount = 1,
        .pPushConstantRanges = &push,
    };
    result = context->vk.CreatePipelineLayout(context->device, &info, NULL, &plan->layout);
    if (result != VK_SUCCESS) {
        plan->layout = VK_NULL_HANDLE;
        return rhumb_fail_vk(context, result, "create_plan: vkCreatePipelineLayout");
    }
    rhumb_set_name(context, VK_OBJECT_TYPE_PIPELINE_LAYOUT, (uint64_t)plan->layout, plan->name,
                   "pipeline layout");
    return RHUMB_OK;
}

rhumb_result rhumb_create_plan(rhumb_context *context, const rhumb_plan_info *info,
                               rhumb_plan **out)
{
    if (!context || !out)
        return rhumb_fail(context, RHUMB_ERROR_ARGUMENT,
                          "create_plan: wanted a context and a place for the plan, "
                          "found NULL");
    return rhumb_create_plan_without(context, info, atomic_load(&context->avoided), out);
}

rhumb_result rhumb_create_plan_without(rhumb_context *context, const rhumb_plan_info *info,
                                       uint32_t avoid, rhumb_plan **out)
{
    *out = NULL;
    RHUMB_TRY(rhumb_check_lost(context));
    rhumb_plan *plan = rhumb_allocate(context, sizeof *plan);
    if (!plan)
        return rhumb_fail(context, RHUMB_ERROR_HOST_MEMORY,
                          "create_plan: no host memory for %zu bytes", sizeof *plan);
    plan->context = context;
    rhumb_result result = resolve(context, info, avoid, &plan->resolved);
    if (result != RHUMB_OK)
        goto fail;
    const char *name = plan->resolved.info.name;
    plan->operation = rhumb_find_operation(plan->resolved.info.op);
    snprintf(plan->name, sizeof plan->name, "%s", name ? name : plan->operation->name);
    plan->resolved.info.name = NULL;
    result = create_layouts(plan);
    if (result != RHUMB_OK)
        goto fail;
    for (uint32_t i = 0; i < RHUMB_PLAN_PIPELINES; i++) {
        if ((i == RHUMB_FAST_ALIGNMENT && !plan->resolved.has_fast) ||
            (i == RHUMB_SECOND_STAGE && !plan->resolved.has_second) ||
            (i == RHUMB_BY_ADDRESS && !plan->resolved.has_by_address) ||
            (i == RHUMB_ANY_ALIGNMENT && plan->resolved.address_only))
            continue;
        result = rhumb_acquire_pipeline(context, &plan->resolved.keys[i], plan->layout,
                                        &plan->pipelines[i]);
        if (result != RHUMB_OK)
            goto fail;
    }
    rhumb_log(context, RHUMB_LOG_INFO, "%s%s%s", name ? plan->name : "", name ? ": " : "",
              plan->resolved.properties.reason);
    *out = plan;
    return RHUMB_OK;
fail:
    rhumb_destroy_plan(plan);
    return result;
}

void rhumb_destroy_plan(rhumb_plan *plan)
{
    if (!plan)
        return;
    rhumb_context *context = plan->context;
    for (uint32_t i = 0; i < RHUMB_PLAN_PIPELINES; i++)
        rhumb_release_pipeline(context, plan->pipelines[i]);
    if (plan->layout)
        context->vk.DestroyPipelineLayout(context->device, plan->layout, NULL);
    if (plan->set_layout)
        context->vk.DestroyDescriptorSetLayout(context->device, plan->set_layout, NULL);
    rhumb_release(context, plan);
}

rhumb_result rhumb_get_plan_properties(const rhumb_plan *plan, rhumb_plan_properties *properties)
{
    if (!plan)
        return rhumb_fail(NULL, RHUMB_ERROR_ARGUMENT,
                          "get_plan_properties: plan: wanted one, found NULL");
    return rhumb_give(plan->context, "get_plan_properties", "rhumb_plan_properties", properties,
                      RHUMB_TYPE_PLAN_PROPERTIES, &plan->resolved.properties,
                      sizeof plan->resolved.properties);
}
