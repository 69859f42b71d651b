/* Bindings: validation of views, descriptor sets, the bindings block. */
#include "op/op.h"

static const char *name_of(const rhumb_binder *b, uint32_t id)
{
    return rhumb_rule_of(b->plan->operation, id)->name;
}

static rhumb_result collect(rhumb_binder *b, const rhumb_bindings_info *info)
{
    const rhumb_context *context = b->plan->context;
    const rhumb_plan_info *i = &b->plan->resolved.info;
    if (info->view_count && !info->views)
        return rhumb_fail(context, RHUMB_ERROR_ARGUMENT, "%s: views: wanted %u, found NULL", b->op,
                          info->view_count);
    const char *at = (const char *)info->views;
    for (uint32_t n = 0; n < info->view_count; n++) {
        const rhumb_header *header = (const rhumb_header *)(const void *)at;
        rhumb_view view;
        if (header->struct_size != ((const rhumb_header *)info->views)->struct_size)
            return rhumb_fail(context, RHUMB_ERROR_VERSION,
                              "%s: views[%u]: wanted the struct_size %u of views[0], found %u",
                              b->op, n, ((const rhumb_header *)info->views)->struct_size,
                              header->struct_size);
        rhumb_init_view(&view, RHUMB_VIEW_COUNT, RHUMB_F32, VK_NULL_HANDLE, 0, 1, 1, 1, 1);
        RHUMB_TRY(
            rhumb_adopt(context, b->op, "rhumb_view", header, RHUMB_TYPE_VIEW, &view, sizeof view));
        uint32_t id = (uint32_t)view.id;
        if (id >= RHUMB_VIEW_COUNT || !(i->views & BIT(id)))
            return rhumb_fail(context, RHUMB_ERROR_ARGUMENT, "%s: view %s (%u) is not in the plan",
                              b->op, name_of(b, id), id);
        if (b->present & BIT(id))
            return rhumb_fail(context, RHUMB_ERROR_ARGUMENT,
                              "%s: view %s: wanted once, found twice", b->op,
                              name_of(b, id));
        b->present |= BIT(id);
        b->storage[id] = view;
        b->placed[id].view = &b->storage[id];
        at += ((const rhumb_header *)info->views)->struct_size;
    }
    for (uint32_t id = 0; id < RHUMB_VIEW_COUNT; id++)
        if ((i->views & BIT(id)) && !(b->present & BIT(id)))
            return rhumb_fail(context, RHUMB_ERROR_ARGUMENT, "%s: view %s: wanted, found none",
                              b->op, name_of(b, id));
    return RHUMB_OK;
}

/* ---- One view by itself */
static bool add(uint64_t *sum, uint64_t a, uint64_t b) /* sum += a * b; false on overflow */
{
    if (a && b > (UINT64_MAX - *sum) / a)
        return false;
    *sum += a * b;
    return true;
}

static rhumb_result place(rhumb_binder *b, uint32_t id)
{
    const rhumb_context *context = b->plan->context;
    rhumb_placed *p = &b->placed[id];
    const rhumb_view *v = p->view;
    const char *name = name_of(b, id);
    if (v->dtype != b->plan->resolved.info.dtype[id])
        return rhumb_fail(context, RHUMB_ERROR_ARGUMENT,
                          "%s: dtype of %s: wanted the plan's %s, found %s (%d)", b->op, name,
                          rhumb_dtype_name(b->plan->resolved.info.dtype[id]),
                          rhumb_dtype_name(v->dtype), (int)v->dtype);
    if (!v->buffer)
        return rhumb_fail(context, RHUMB_ERROR_ARGUMENT,
                          "%s: buffer of %s: wanted a VkBuffer, found NULL", b->op, name);
    /* Blocks of elements begin with a float16. */
    uint32_t elements = rhumb_dtype_elements(v->dtype);
    uint32_t size = elements == 1 ? rhumb_dtype_size(v->dtype) : 2;
    if (v->offset % size)
        return rhumb_fail(context, RHUMB_ERROR_ARGUMENT,
                          "%s: offset of %s: wanted a multiple of %u bytes, found %llu", b->op,
                          name, size, (unsigned long long)v->offset);
    uint64_t last = 0; /* element index of the last element, from the first */
    bool overflow = false;
    for (uint32_t d = 0; d < 4; d++) {
        if (v->shape[d] < 1)
            return rhumb_fail(context, RHUMB_ERROR_ARGUMENT,
                              "%s: shape[%u] of %s: wanted at least 1, found 0", b->op, d, name);
        if (v->shape[d] == 1)
            continue;
        if (v->stride[d] < 0)
            return rhumb_fail(context, RHUMB_ERROR_ARGUMENT,
                              "%s: stride[%u] of %s: wanted 0 or more, found %lld", b->op, d, name,
                              (long long)v->stride[d]);
        if (d == 3 && v->stride[d] != 1)
            return rhumb_fail(context, RHUMB_ERROR_ARGUMENT,
                              "%s: stride[3] of %s: wanted 1, found %lld", b->op, name,
                              (long long)v->stride[d]);
        if (d < 3 && v->stride[d] % elements)
            return rhumb_fail(context, RHUMB_ERROR_ARGUMENT,
                              "%s: stride[%u] of %s: wanted a multiple of %u, as %s is in blocks, "
                              "found %lld",
                              b->op, d, name, elements, rhumb_dtype_name(v->dtype),
                              (long long)v->stride[d]);
        p->stride[d] = (uint64_t)v->stride[d];
        overflow |= !add(&last, v->shape[d] - 1, p->stride[d]);
    }
    p->first = v->offset;
    p->end = v->offset;
    /* What no device has is refused here, so that later sums and differences fit an int64. */
    overflow |= last == UINT64_MAX ||
                !add(&p->end, last / elements + 1, rhumb_dtype_size(v->dtype)) ||
                p->end > UINT64_MAX / 8;
    uint64_t words_end = (p->end + 3) & ~3ull;
    if (overflow || words_end > v->buffer_size)
        return rhumb_fail(
            context, RHUMB_ERROR_ARGUMENT,
            "%s: view %s: wanted bytes %llu to %llu in whole 4-byte words, its VkBuffer has %llu",
            b->op, name, (unsigned long long)v->offset,
            overflow ? UINT64_MAX : (unsigned long long)words_end,
            (unsigned long long)v->buffer_size);
    return RHUMB_OK;
}

/* Written elements must be distinct: with strides in ascending order, each at least as long as all
 * that lies within it. */
static rhumb_result check_distinct(const rhumb_binder *b, uint32_t id)
{
    const rhumb_placed *p = &b->placed[id];
    uint64_t extent = 1;
    bool done[4] = {false};
    for (uint32_t n = 0; n < 4; n++) {
        uint32_t least = 4;
        for (uint32_t d = 0; d < 4; d++)
            if (!done[d] && p->view->shape[d] > 1 &&
                (least == 4 || p->stride[d] < p->stride[least]))
                least = d;
        if (least == 4)
            break;
        done[least] = true;
        if (p->stride[least] < extent)
            return rhumb_fail(
                b->plan->context, RHUMB_ERROR_ARGUMENT,
                "%s: stride[%u] of %s: wanted at least %llu, as it is written and rows must not "
                "overlap, found %llu",
                b->op, least, name_of(b, id), (unsigned long long)extent,
                (unsigned long long)p->stride[least]);
        extent += p->stride[least] * (p->view->shape[least] - 1);
    }
    return RHUMB_OK;
}

/* ---- Two views of one buffer */

/* Not Q and K, which are read too where they are written. */
static bool only_written(uint32_t id)
{
    return id != RHUMB_VIEW_Q && id != RHUMB_VIEW_K;
}

/* Whether the written view w is the view o that is read, exactly: each element is read by the
 * invocation that writes it. */
static bool in_place(const rhumb_binder *b, uint32_t w, uint32_t o)
{
    const rhumb_placed *a = &b->placed[w], *z = &b->placed[o];
    return (b->plan->operation->in_place & BIT(o)) && a->view->dtype == z->view->dtype &&
           a->first == z->first && !memcmp(a->view->shape, z->view->shape, sizeof a->view->shape) &&
           !memcmp(a->stride, z->stride, sizeof a->stride);
}

static rhumb_result check_pairs(const rhumb_binder *b)
{
    uint32_t written = b->plan->operation->written(&b->plan->resolved.info);
    for (uint32_t w = 0; w < RHUMB_VIEW_COUNT; w++) {
        if (!(written & BIT(w)))
            continue;
        for (uint32_t o = 0; o < RHUMB_VIEW_COUNT; o++) {
            if (!(b->present & BIT(o)) || o == w || ((written & BIT(o)) && o < w) ||
                b->placed[o].view->buffer != b->placed[w].view->buffer)
                continue;
            if (in_place(b, w, o))
                continue;
            bool both_only_written = (written & BIT(o)) && only_written(w) && only_written(o);
            if (rhumb_views_meet(&b->placed[w], &b->placed[o], !both_only_written))
                return rhumb_fail(
                    b->plan->context, RHUMB_ERROR_ARGUMENT,
                    "%s: view %s is written: wanted no 4-byte word in common with %s, found bytes "
                    "%llu to %llu and %llu to %llu of one VkBuffer",
                    b->op, name_of(b, w), name_of(b, o),
                    (unsigned long long)b->placed[w].first, (unsigned long long)b->placed[w].end,
                    (unsigned long long)b->placed[o].first, (unsigned long long)b->placed[o].end);
        }
    }
    return RHUMB_OK;
}

/* ---- Shapes against the plan and each other */
rhumb_result rhumb_want(const rhumb_binder *b, uint32_t id, uint32_t dimension, const char *what,
                        uint64_t wanted)
{
    uint64_t found = b->placed[id].view->shape[dimension];
    if (found == wanted)
        return RHUMB_OK;
    return rhumb_fail(b->plan->context, RHUMB_ERROR_ARGUMENT,
                      "%s: shape of %s %s: wanted %s %llu in shape[%u], found %llu", b->op,
                      name_of(b, id), rhumb_rule_of(b->plan->operation, id)->shape, what,
                      (unsigned long long)wanted, dimension, (unsigned long long)found);
}

rhumb_result rhumb_want_shape(const rhumb_binder *b, uint32_t id, const uint64_t shape[4])
{
    for (uint32_t d = 0; d < 4; d++)
        RHUMB_TRY(rhumb_want(b, id, d, "exactly", shape[d]));
    return RHUMB_OK;
}

rhumb_result rhumb_check_positions(const rhumb_binder *b, uint32_t id, uint32_t axes,
                                   uint32_t batch, uint32_t length)
{
    const rhumb_view *v = b->placed[id].view;
    if (v->shape[0] == 1 && v->shape[1] == axes && (v->shape[2] == 1 || v->shape[2] == batch) &&
        v->shape[3] >= length)
        return RHUMB_OK;
    return rhumb_fail(
        b->plan->context, RHUMB_ERROR_ARGUMENT,
        "%s: shape of %s %s: wanted [1, %u, %u or 1, at least %u], found [%llu, %llu, %llu, %llu]",
        b->op, name_of(b, id), rhumb_rule_of(b->plan->operation, id)->shape, axes, batch, length,
        (unsigned long long)v->shape[0], (unsigned long long)v->shape[1],
        (unsigned long long)v->shape[2], (unsigned long long)v->shape[3]);
}

rhumb_result rhumb_take_sizes(const rhumb_binder *b, uint32_t lead, uint32_t keys,
                              rhumb_bindings *bindings)
{
    const rhumb_view *q = b->placed[lead].view;
    const rhumb_view *k = b->placed[keys].view;
    if (q->shape[0] > RHUMB_MAX_LENGTH || q->shape[2] > RHUMB_MAX_LENGTH ||
        k->shape[2] > RHUMB_MAX_LENGTH)
        return rhumb_fail(b->plan->context, RHUMB_ERROR_LIMIT,
                          "%s: shape: wanted B, Lq and Lk up to %d, found %llu, "
                          "%llu and %llu",
                          b->op, RHUMB_MAX_LENGTH, (unsigned long long)q->shape[0],
                          (unsigned long long)q->shape[2], (unsigned long long)k->shape[2]);
    bindings->batch = (uint32_t)q->shape[0];
    bindings->q_length = (uint32_t)q->shape[2];
    bindings->k_length = (uint32_t)k->shape[2];
    return RHUMB_OK;
}

rhumb_result rhumb_check_small_views(const rhumb_binder *b, uint32_t batch)
{
    const uint64_t lengths[4] = {1, 1, batch, 4};
    const uint64_t status[4] = {1, 1, 1, 1};
    if (b->present & BIT(RHUMB_VIEW_LENGTHS))
        RHUMB_TRY(rhumb_want_shape(b, RHUMB_VIEW_LENGTHS, lengths));
    return b->present & BIT(RHUMB_VIEW_STATUS) ? rhumb_want_shape(b, RHUMB_VIEW_STATUS, status)
                                               : RHUMB_OK;
}

/* ---- The bindings block */
static void fill_block(const rhumb_binder *b, rhumb_bindings *bindings)
{
    for (uint32_t id = 0; id < RHUMB_VIEW_COUNT; id++) {
        const rhumb_placed *v = &b->placed[id];
        uint32_t *view = bindings->block.view[id], *place = bindings->block.place[id];
        if (!(b->present & BIT(id)))
            continue;
        uint64_t start = b->slots[b->plan->resolved.properties.slot[id]].offset;
        for (uint32_t d = 0; d < 3; d++)
            view[d] = (uint32_t)v->stride[d];
        if (v->view->address) {
            place[0] = (uint32_t)(v->view->address + start);
            place[1] = (uint32_t)((v->view->address + start) >> 32);
        }
        place[2] = (uint32_t)v->view->shape[0];
        place[3] = (uint32_t)v->view->shape[2];
        bool blocks = rhumb_dtype_elements(v->view->dtype) > 1;
        view[3] = (uint32_t)((v->first - start) / (blocks ? 1 : rhumb_dtype_size(v->view->dtype)));
    }
    /* What ROTATE writes in place */
    const uint32_t in[] = {RHUMB_VIEW_Q, RHUMB_VIEW_K},
                   out[] = {RHUMB_VIEW_Q_OUT, RHUMB_VIEW_K_OUT};
    for (uint32_t n = 0; n < 2; n++)
        if (!(b->present & BIT(out[n])))
            memcpy(bindings->block.view[out[n]], bindings->block.view[in[n]],
                   sizeof bindings->block.view[0]);
}

/* Every row of the views that the fast form reads or writes as vectors starts at a multiple of four
 * elements of its descriptor. Rows in blocks of elements always do. */
static bool rows_aligned(const rhumb_binder *b, const rhumb_bindings *bindings)
{
    for (uint32_t id = 0; id < RHUMB_VIEW_COUNT; id++)
        if ((b->present & b->plan->operation->vectors & BIT(id)) &&
            rhumb_dtype_elements(b->placed[id].view->dtype) == 1)
            for (uint32_t d = 0; d < 4; d++)
                if (bindings->block.view[id][d] % 4)
                    return false;
    return true;
}

static bool all_addressed(const rhumb_binder *b)
{
    for (uint32_t id = 0; id < RHUMB_VIEW_COUNT; id++)
        if ((b->present & BIT(id)) && !rhumb_view_rules[id].integer && !b->placed[id].view->address)
            return false;
    return true;
}

static void write_set(const rhumb_binder *b, const rhumb_bindings_info *info,
                      const rhumb_span *span)
{
    rhumb_context *context = b->plan->context;
    VkDescriptorBufferInfo slots[RHUMB_MAX_VIEWS];
    const VkDescriptorBufferInfo constants = {info->constants_buffer, 0,
                                              sizeof(struct rhumb_constants_block)};
    const VkDescriptorBufferInfo block = {info->bindings_buffer, 0,
                                          sizeof(struct rhumb_bindings_block)};
    const VkWriteDescriptorSet writes[] = {
        {.sType = VK_STRUCTURE_TYPE_WRITE_DESCRIPTOR_SET,
         .dstSet = span->set,
         .dstBinding = BINDING_MEMORY,
         .descriptorCount = b->plan->resolved.properties.slot_count,
         .descriptorType = VK_DESCRIPTOR_TYPE_STORAGE_BUFFER,
         .pBufferInfo = slots},
        {.sType = VK_STRUCTURE_TYPE_WRITE_DESCRIPTOR_SET,
         .dstSet = span->set,
         .dstBinding = BINDING_CONSTANTS,
         .descriptorCount = 1,
         .descriptorType = VK_DESCRIPTOR_TYPE_UNIFORM_BUFFER_DYNAMIC,
         .pBufferInfo = &constants},
        {.sType = VK_STRUCTURE_TYPE_WRITE_DESCRIPTOR_SET,
         .dstSet = span->set,
         .dstBinding = BINDING_BINDINGS,
         .descriptorCount = 1,
         .descriptorType = VK_DESCRIPTOR_TYPE_UNIFORM_BUFFER_DYNAMIC,
         .pBufferInfo = &block},
    };
    rhumb_slots_of(b, span, slots);
    context->vk.UpdateDescriptorSets(context->device, 3, writes, 0, NULL);
}

static rhumb_result create_sets(rhumb_bindings *bindings, const rhumb_binder *b,
                                const rhumb_bindings_info *info)
{
    rhumb_context *context = b->plan->context;
    uint32_t count = bindings->span_count;
    const VkDescriptorPoolSize sizes[] = {
        {VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, count * b->plan->resolved.properties.slot_count},
        {VK_DESCRIPTOR_TYPE_UNIFORM_BUFFER_DYNAMIC, 2 * count}};
    const VkDescriptorPoolCreateInfo pool_info = {
        .sType = VK_STRUCTURE_TYPE_DESCRIPTOR_POOL_CREATE_INFO,
        .maxSets = count,
        .poolSizeCount = 2,
        .pPoolSizes = sizes,
    };
    VkResult result =
        context->vk.CreateDescriptorPool(context->device, &pool_info, NULL, &bindings->pool);
    if (result != VK_SUCCESS) {
        bindings->pool = VK_NULL_HANDLE;
        return rhumb_fail_vk(context, result, "create_bindings: vkCreateDescriptorPool");
    }
    const VkDescriptorSetAllocateInfo set_info = {
        .sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_ALLOCATE_INFO,
        .descriptorPool = bindings->pool,
        .descriptorSetCount = 1,
        .pSetLayouts = &b->plan->set_layout,
    };
    for (uint32_t n = 0; n < count; n++) {
        rhumb_span *span = &bindings->spans[n];
        result = context->vk.AllocateDescriptorSets(context->device, &set_info, &span->set);
        if (result != VK_SUCCESS)
            return rhumb_fail_vk(context, result, "create_bindings: vkAllocateDescriptorSets");
        rhumb_set_name(context, VK_OBJECT_TYPE_DESCRIPTOR_SET, (uint64_t)span->set, b->plan->name,
                       "set");
        write_set(b, info, span);
    }
    return RHUMB_OK;
}

static rhumb_result bind(rhumb_binder *b, const rhumb_bindings_info *info,
                         rhumb_bindings *bindings)
{
    const rhumb_context *context = b->plan->context;
    if (!info->constants_buffer || !info->bindings_buffer)
        return rhumb_fail(context, RHUMB_ERROR_ARGUMENT, "%s: %s: wanted a VkBuffer, found NULL",
                          b->op, info->constants_buffer ? "bindings_buffer" : "constants_buffer");
    RHUMB_TRY(collect(b, info));
    for (uint32_t id = 0; id < RHUMB_VIEW_COUNT; id++)
        if (b->present & BIT(id))
            RHUMB_TRY(place(b, id));
    RHUMB_TRY(b->plan->operation->check_shapes(b, bindings));
    uint32_t written = b->plan->operation->written(&b->plan->resolved.info);
    for (uint32_t id = 0; id < RHUMB_VIEW_COUNT; id++)
        if (written & BIT(id))
            RHUMB_TRY(check_distinct(b, id));
    RHUMB_TRY(check_pairs(b));
    RHUMB_TRY(rhumb_take_slots(b, bindings));
    fill_block(b, bindings);
    const rhumb_resolved *r = &b->plan->resolved;
    bool aligned = rows_aligned(b, bindings);
    /* Addresses have no ranges, but descriptors are bound all the same. */
    bool by_address =
        aligned && r->has_by_address && all_addressed(b) && bindings->span_count == 1;
    bool fast = aligned && r->has_fast && !by_address;
    if (r->address_only && !by_address)
        return rhumb_fail(context, RHUMB_ERROR_UNSUPPORTED,
                          "%s: wanted an address for every view and rows at multiples of 4 elements "
                          "for the broadcast form, found others",
                          b->op);
    if (!aligned && r->aligned_only)
        return rhumb_fail(
            context, RHUMB_ERROR_UNSUPPORTED,
            "%s: wanted rows that start at multiples of 4 elements, as the form for any alignment "
            "was wrong in the self-test, found others",
            b->op);
    if (!aligned && r->has_fast)
        rhumb_log(
            context, RHUMB_LOG_INFO,
            "%s: some row starts at no multiple of 4 elements: the form for any alignment is used",
            b->plan->name);
    uint32_t index = by_address ? RHUMB_BY_ADDRESS
                     : fast     ? RHUMB_FAST_ALIGNMENT
                                : RHUMB_ANY_ALIGNMENT;
    bindings->by_head = r->by_head[index];
    bindings->pipeline = b->plan->pipelines[index]->pipeline;
    if (r->has_second && r->keys[index].kernel != RHUMB_KERNEL_ATTENTION_BROADCAST)
        bindings->second = b->plan->pipelines[RHUMB_SECOND_STAGE]->pipeline;
    bindings->rows_per_group = b->plan->resolved.rows_per_group[index];
    return create_sets(bindings, b, info);
}

rhumb_result rhumb_create_bindings(const rhumb_plan *plan, const rhumb_bindings_info *given,
                                   rhumb_bindings **out)
{
    rhumb_bindings_info info;
    rhumb_init_bindings_info(&info);
    if (!plan || !out)
        return rhumb_fail(
            plan ? plan->context : NULL, RHUMB_ERROR_ARGUMENT,
            "create_bindings: wanted a plan and a place for the bindings, found NULL");
    *out = NULL;
    RHUMB_TRY(rhumb_check_lost(plan->context));
    RHUMB_TRY(rhumb_adopt(plan->context, "create_bindings", "rhumb_bindings_info", given,
                          RHUMB_TYPE_BINDINGS_INFO, &info, sizeof info));
    rhumb_bindings *bindings = rhumb_allocate(plan->context, sizeof *bindings);
    if (!bindings)
        return rhumb_fail(plan->context, RHUMB_ERROR_HOST_MEMORY,
                          "create_bindings: no host memory for %zu bytes", sizeof *bindings);
    bindings->plan = plan;
    rhumb_binder binder = {.plan = plan, .op = plan->operation->name};
    rhumb_result result = bind(&binder, &info, bindings);
    if (result != RHUMB_OK) {
        rhumb_destroy_bindings(bindings);
        return result;
    }
    *out = bindings;
    return RHUMB_OK;
}

void rhumb_destroy_bindings(rhumb_bindings *bindings)
{
    if (!bindings)
        return;
    rhumb_context *context = bindings->plan->context;
    if (bindings->pool)
        context->vk.DestroyDescriptorPool(context->device, bindings->pool, NULL);
    if (bindings->spans != &bindings->whole)
        rhumb_release(context, bindings->spans);
    rhumb_release(context, bindings);
}

rhumb_result rhumb_write_bindings(const rhumb_bindings *bindings, void *memory, size_t size)
{
    if (!bindings || !memory)
        return rhumb_fail(bindings ? bindings->plan->context : NULL, RHUMB_ERROR_ARGUMENT,
                          "write_bindings: wanted bindings and memory, found NULL");
    if (size < sizeof bindings->block)
        return rhumb_fail(bindings->plan->context, RHUMB_ERROR_ARGUMENT,
                          "write_bindings: size: wanted at least %zu, found %zu",
                          sizeof bindings->block, size);
    memcpy(memory, &bindings->block, sizeof bindings->block);
    return RHUMB_OK;
}
