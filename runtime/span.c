/* Views that are larger than a storage descriptor may be. Bindings are cut into spans: batch
 * entries one after the other, or kv heads of one batch entry. Each has a descriptor set of its own,
 * and dispatches of its own in a record.
 *
 * A slot that holds nothing but Q, K, V and O has a range for each span. Their first elements in
 * the bindings block are those of the first span; of the others the start of a slot lies some bytes
 * behind, which are whole elements (whole blocks) of each of its views: push.shift. Slots with
 * other views have one range. */
#include "op/op.h"

#define CUT_VIEWS                                                                                  \
    (BIT(RHUMB_VIEW_Q) | BIT(RHUMB_VIEW_K) | BIT(RHUMB_VIEW_V) | BIT(RHUMB_VIEW_O))

static uint32_t views_of(const rhumb_binder *b, uint32_t slot)
{
    uint32_t views = 0;
    for (uint32_t id = 0; id < RHUMB_VIEW_COUNT; id++)
        if ((b->present & BIT(id)) && b->plan->resolved.properties.slot[id] == slot)
            views |= BIT(id);
    return views;
}

static bool is_cut(const rhumb_binder *b, uint32_t slot)
{
    return !(views_of(b, slot) & ~CUT_VIEWS);
}

/* Pairs of a batch entry and a kv head have their work groups one behind the other, but where
 * entries are windows; a second stage has an order of its own. */
static bool may_be_cut(const rhumb_binder *b)
{
    const rhumb_resolved *r = &b->plan->resolved;
    return r->info.op == RHUMB_OP_ATTENTION && r->layout == LAYOUT_CONTIGUOUS && !r->has_second &&
           !(r->terms.mask & TERM_WINDOW);
}

/* Bytes of a view: all, or those of the box. */
static void bytes_of_view(const rhumb_binder *b, uint32_t id, const rhumb_box *box,
                          uint64_t *first, uint64_t *end)
{
    const rhumb_placed *p = &b->placed[id];
    const rhumb_plan_info *i = &b->plan->resolved.info;
    rhumb_dtype dtype = p->view->dtype;
    *first = p->first;
    *end = p->end;
    if (!box)
        return;
    uint32_t shared = id == RHUMB_VIEW_Q || id == RHUMB_VIEW_O ? i->heads / i->kv_heads : 1;
    uint64_t at = box->entry * p->stride[0] + (uint64_t)box->head * shared * p->stride[1];
    uint64_t last = at + (box->entries - 1) * p->stride[0] +
                    ((uint64_t)box->heads * shared - 1) * p->stride[1] +
                    (p->view->shape[2] - 1) * p->stride[2] + p->view->shape[3] - 1;
    *first += rhumb_bytes_of(dtype, at);
    *end = p->first + rhumb_bytes_of(dtype, last) + rhumb_dtype_size(dtype);
}

/* Range of a slot. `start`: of the first span, from which others lie whole elements apart; NULL for
 * that span itself. */
static VkDescriptorBufferInfo range_of(const rhumb_binder *b, uint32_t slot, const rhumb_box *box,
                                       const uint64_t *start)
{
    uint32_t views = views_of(b, slot);
    /* Vector accesses need descriptors that start at 16 bytes. */
    uint64_t step = b->plan->context->limits.storage_offset_alignment;
    uint64_t first = UINT64_MAX, end = 0;
    step = step < 16 ? 16 : step;
    uint64_t origin = start ? *start : 0;
    VkBuffer buffer = VK_NULL_HANDLE;
    bool blocks = false;
    for (uint32_t id = 0; id < RHUMB_VIEW_COUNT; id++) {
        uint64_t view_first, view_end;
        if (!(views & BIT(id)))
            continue;
        bytes_of_view(b, id, is_cut(b, slot) ? box : NULL, &view_first, &view_end);
        buffer = b->placed[id].view->buffer;
        first = view_first < first ? view_first : first;
        end = view_end > end ? view_end : end;
        blocks |= b->placed[id].view->dtype == RHUMB_Q8_0;
    }
    if (blocks && start) /* a power of two, and half the bytes of a block, an odd number */
        step *= Q8_BYTES / 2;
    first = origin + (first - origin) / step * step;
    end = (end + 3) & ~3ull;
    return (VkDescriptorBufferInfo){.buffer = buffer, .offset = first, .range = end - first};
}

/* Whether the box fits all slots; `slot` is the first that it does not. */
static bool fits(const rhumb_binder *b, const rhumb_box *box, uint32_t *slot)
{
    for (*slot = 0; *slot < b->plan->resolved.properties.slot_count; ++*slot)
        if (range_of(b, *slot, box, box ? &b->slots[*slot].offset : NULL).range >
            b->plan->context->limits.max_storage_range)
            return false;
    return true;
}

static rhumb_result refuse(const rhumb_binder *b, const rhumb_box *box, uint32_t slot)
{
    VkDescriptorBufferInfo range =
        range_of(b, slot, box, box ? &b->slots[slot].offset : NULL);
    return rhumb_fail(b->plan->context, RHUMB_ERROR_LIMIT,
                      "%s: slot %u: its views span %llu bytes from offset %llu%s, "
                      "maxStorageBufferRange is %llu",
                      b->op, slot, (unsigned long long)range.range,
                      (unsigned long long)range.offset,
                      box && is_cut(b, slot) ? " for one batch entry and kv head" : "",
                      (unsigned long long)b->plan->context->limits.max_storage_range);
}

/* The pairs from number `done` on that fit: halved until they do. */
static rhumb_result next_box(const rhumb_binder *b, const rhumb_bindings *bindings, uint64_t done,
                             rhumb_box *box)
{
    uint32_t kv_heads = b->plan->resolved.info.kv_heads, slot;
    box->entry = (uint32_t)(done / kv_heads);
    box->head = (uint32_t)(done % kv_heads);
    box->entries = box->head ? 1 : bindings->batch - box->entry;
    box->heads = kv_heads - box->head;
    while (!fits(b, box, &slot)) {
        if (box->entries > 1)
            box->entries = (box->entries + 1) / 2;
        else if (box->heads > 1)
            box->heads = (box->heads + 1) / 2;
        else
            return refuse(b, box, slot);
    }
    return RHUMB_OK;
}

static void fill_span(const rhumb_binder *b, rhumb_span *span)
{
    const rhumb_box *box = &span->box;
    span->end = (uint64_t)box->entry * b->plan->resolved.info.kv_heads + box->head +
                (uint64_t)box->entries * box->heads;
    for (uint32_t id = 0; id <= RHUMB_VIEW_O; id++) {
        uint32_t s = b->plan->resolved.properties.slot[id];
        uint64_t start = b->slots[s].offset;
        rhumb_dtype dtype = b->placed[id].view->dtype;
        span->shift[id] =
            (uint32_t)((range_of(b, s, box, &start).offset - start) / rhumb_dtype_size(dtype) *
                       rhumb_dtype_elements(dtype));
    }
}

static rhumb_result cut(rhumb_binder *b, rhumb_bindings *bindings)
{
    uint64_t pairs = (uint64_t)bindings->batch * b->plan->resolved.info.kv_heads;
    uint32_t count = 0;
    rhumb_box box;
    for (uint64_t done = 0; done < pairs; done += (uint64_t)box.entries * box.heads, count++)
        RHUMB_TRY(next_box(b, bindings, done, &box));
    bindings->spans = rhumb_allocate(b->plan->context, count * sizeof *bindings->spans);
    if (!bindings->spans)
        return rhumb_fail(b->plan->context, RHUMB_ERROR_HOST_MEMORY,
                          "create_bindings: no host memory for %u descriptor sets", count);
    uint64_t done = 0;
    for (uint32_t n = 0; n < count; n++) {
        RHUMB_TRY(next_box(b, bindings, done, &bindings->spans[n].box));
        fill_span(b, &bindings->spans[n]);
        done = bindings->spans[n].end;
    }
    bindings->span_count = count;
    return RHUMB_OK;
}

static rhumb_result check_buffers(const rhumb_binder *b)
{
    VkBuffer buffers[RHUMB_MAX_VIEWS] = {VK_NULL_HANDLE};
    for (uint32_t id = 0; id < RHUMB_VIEW_COUNT; id++) {
        uint32_t slot = b->plan->resolved.properties.slot[id];
        if (!(b->present & BIT(id)))
            continue;
        if (buffers[slot] && buffers[slot] != b->placed[id].view->buffer)
            return rhumb_fail(
                b->plan->context, RHUMB_ERROR_ARGUMENT,
                "%s: view %s: wanted the VkBuffer of the other views of slot %u, found another "
                "one",
                b->op, rhumb_rule_of(b->plan->operation, id)->name, slot);
        buffers[slot] = b->placed[id].view->buffer;
    }
    return RHUMB_OK;
}

rhumb_result rhumb_take_slots(rhumb_binder *b, rhumb_bindings *bindings)
{
    uint32_t slot;
    RHUMB_TRY(check_buffers(b));
    bindings->spans = &bindings->whole;
    bindings->span_count = 1;
    for (uint32_t s = 0; s < b->plan->resolved.properties.slot_count; s++)
        b->slots[s] = range_of(b, s, NULL, NULL);
    if (fits(b, NULL, &slot))
        return RHUMB_OK;
    return may_be_cut(b) ? cut(b, bindings) : refuse(b, NULL, slot);
}

void rhumb_slots_of(const rhumb_binder *b, const rhumb_span *span, VkDescriptorBufferInfo *slots)
{
    for (uint32_t s = 0; s < b->plan->resolved.properties.slot_count; s++)
        slots[s] = span->box.entries ? range_of(b, s, &span->box, &b->slots[s].offset)
                                     : b->slots[s];
}
