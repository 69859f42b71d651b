#include "gpu.h"

#include <stdio.h>
#include <stdlib.h>

#define MAX_TENSOR_BYTES ((uint64_t)1 << 40) /* refuses sizes that came from a wrapped product */

/* ----------------------------------------------------------------------------------------------
 * Description
 */
void gpu_init_operation(gpu_operation *operation, rhumb_op op)
{
    memset(operation, 0, sizeof *operation);
    rhumb_init_plan_info(&operation->info, op);
    rhumb_init_dispatch(&operation->dispatch);
    rhumb_init_plan_properties(&operation->properties);
}

gpu_tensor *gpu_add_tensor(gpu_operation *operation, rhumb_view_id id, rhumb_dtype dtype,
                           uint64_t b, uint64_t h, uint64_t l, uint64_t d, const void *input,
                           void *output)
{
    rhumb_view view;
    gpu_tensor *t;

    if (operation->tensor_count == RHUMB_MAX_VIEWS)
        return NULL;
    t = &operation->tensors[operation->tensor_count++];
    rhumb_init_view(&view, id, dtype, VK_NULL_HANDLE, 0, b, h, l, d);
    memset(t, 0, sizeof *t);
    t->id = id;
    t->dtype = dtype;
    t->input = input;
    t->output = output;
    memcpy(t->shape, view.shape, sizeof t->shape);
    memcpy(t->stride, view.stride, sizeof t->stride);
    return t;
}

static uint64_t dtype_bytes(rhumb_dtype dtype)
{
    return dtype == RHUMB_F16 || dtype == RHUMB_BF16 ? 2 : 4;
}

uint64_t gpu_tensor_bytes(const gpu_tensor *tensor)
{
    uint64_t last = 0;

    if (tensor->bytes != 0)
        return tensor->bytes;
    for (uint32_t i = 0; i < 4; i++) {
        if (tensor->shape[i] == 0)
            return 0;
        if (tensor->stride[i] > 0)
            last += (tensor->shape[i] - 1) * (uint64_t)tensor->stride[i];
    }
    if (tensor->dtype == RHUMB_Q8_0)
        return (tensor->offset + (last / 32 + 1) * 34 + 3) / 4 * 4;
    return (tensor->offset + (last + 1) * dtype_bytes(tensor->dtype) + 3) / 4 * 4;
}

static bool is_written(const gpu_operation *operation, rhumb_view_id id)
{
    const bool rotates = operation->info.op == RHUMB_OP_ROTATE;

    switch (id) {
    case RHUMB_VIEW_O:
    case RHUMB_VIEW_Q_OUT:
    case RHUMB_VIEW_K_OUT:
    case RHUMB_VIEW_V_OUT:
    case RHUMB_VIEW_STATUS:
    case RHUMB_VIEW_WORKSPACE:
    case RHUMB_VIEW_LSE:
        return true;
    case RHUMB_VIEW_TABLE_SCALAR:
        return operation->info.op == RHUMB_OP_PROJECT;
    case RHUMB_VIEW_Q:
        return rotates && (operation->info.views & RHUMB_VIEW_BIT(RHUMB_VIEW_Q_OUT)) == 0;
    case RHUMB_VIEW_K:
        return rotates && (operation->info.views & RHUMB_VIEW_BIT(RHUMB_VIEW_K_OUT)) == 0;
    default:
        return false;
    }
}

static rhumb_result check_tensors(gpu *g, gpu_operation *operation)
{
    if (operation->tensor_count == 0)
        return gpu_fail(g, RHUMB_ERROR_ARGUMENT, "operation without tensors");
    for (uint32_t i = 0; i < operation->tensor_count; i++) {
        const gpu_tensor *t = &operation->tensors[i];
        const uint64_t bytes = gpu_tensor_bytes(t);
        if ((uint32_t)t->id >= RHUMB_MAX_VIEWS)
            return gpu_fail(g, RHUMB_ERROR_ARGUMENT, "tensor %u: view %d, ids are below %d", i,
                            (int)t->id, RHUMB_MAX_VIEWS);
        if (bytes == 0 || bytes > MAX_TENSOR_BYTES)
            return gpu_fail(g, RHUMB_ERROR_ARGUMENT, "tensor %u: %llu bytes", i,
                            (unsigned long long)bytes);
        if (t->same_as > i ||
            (t->same_as != 0 && gpu_tensor_bytes(&operation->tensors[t->same_as - 1]) < bytes))
            return gpu_fail(g, RHUMB_ERROR_ARGUMENT,
                            "tensor %u: wanted an earlier tensor of as many bytes in same_as, got %u",
                            i, t->same_as);
        operation->info.views |= RHUMB_VIEW_BIT((uint32_t)t->id);
        operation->info.dtype[t->id] = t->dtype;
    }
    return RHUMB_OK;
}

/* ----------------------------------------------------------------------------------------------
 * Preparation
 */
static rhumb_result rhumb_check(gpu *g, rhumb_result result)
{
    return result == RHUMB_OK ? result : gpu_fail(g, result, "%s", rhumb_last_message(g->context));
}

rhumb_result gpu_query_operation(gpu *g, gpu_operation *operation)
{
    rhumb_result result = check_tensors(g, operation);

    rhumb_init_plan_properties(&operation->properties);
    if (result == RHUMB_OK)
        result =
            rhumb_check(g, rhumb_query_plan(g->context, &operation->info, &operation->properties));
    if (result != RHUMB_OK)
        snprintf(operation->message, sizeof operation->message, "%s", g->message);
    return result;
}

static rhumb_result make_plan(gpu_prepared *p)
{
    gpu_operation *operation = p->operation;
    rhumb_result result;

    p->plan = operation->plan;
    if (p->plan == NULL) {
        result = rhumb_check(p->g, rhumb_create_plan(p->g->context, &operation->info, &p->plan));
        if (result != RHUMB_OK)
            return result;
    }
    rhumb_init_plan_properties(&operation->properties);
    return rhumb_check(p->g, rhumb_get_plan_properties(p->plan, &operation->properties));
}

static bool in_one_buffer(const gpu_prepared *p, uint32_t i, uint32_t j)
{
    const gpu_operation *operation = p->operation;
    const uint32_t *slot = operation->properties.slot;
    const uint32_t slot_i = slot[operation->tensors[i].id];

    for (uint32_t n = 0; n < operation->tensor_count; n++) {
        if (operation->tensors[n].same_as != 0)
            return true;
    }
    return slot_i != RHUMB_SLOT_AUTO && slot_i == slot[operation->tensors[j].id];
}

/* Which buffer each tensor lies in, and where: guard, bytes, guard, in multiples of the guard. */
static void place_tensors(gpu_prepared *p, uint64_t *sizes)
{
    const gpu_operation *operation = p->operation;

    for (uint32_t i = 0; i < operation->tensor_count; i++) {
        const uint32_t same_as = operation->tensors[i].same_as;
        const uint64_t bytes = gpu_tensor_bytes(&operation->tensors[i]);
        uint32_t buffer = p->buffer_count;
        for (uint32_t j = 0; j < i; j++) {
            if (in_one_buffer(p, i, j))
                buffer = p->buffer_of[j];
        }
        p->buffer_of[i] = buffer;
        if (same_as != 0) {
            p->offset_of[i] = p->offset_of[same_as - 1];
            continue;
        }
        if (buffer == p->buffer_count) {
            sizes[buffer] = 0;
            p->buffer_count++;
        }
        p->offset_of[i] = sizes[buffer] + GPU_GUARD;
        sizes[buffer] += GPU_GUARD + (bytes + GPU_GUARD - 1) / GPU_GUARD * GPU_GUARD + GPU_GUARD;
    }
}

/* The bytes of buffer `index` as they are before the run. */
static void fill_image(const gpu_prepared *p, uint32_t index, uint8_t *image)
{
    const gpu_operation *operation = p->operation;

    gpu_fill_canary(image, 0, p->buffers[index].size);
    for (uint32_t i = 0; i < operation->tensor_count; i++) {
        const gpu_tensor *t = &operation->tensors[i];
        if (p->buffer_of[i] == index && t->input != NULL)
            memcpy(image + p->offset_of[i], t->input, gpu_tensor_bytes(t));
    }
}

static rhumb_result make_buffer(gpu_prepared *p, uint32_t index, uint64_t size)
{
    gpu_buffer *buffer = &p->buffers[index];
    uint8_t *image = NULL;
    rhumb_result result = gpu_create_buffer(p->g, size, VK_BUFFER_USAGE_STORAGE_BUFFER_BIT,
                                            GPU_MEMORY_DEVICE, buffer);

    if (result != RHUMB_OK)
        return result;
    image = malloc(size);
    if (image == NULL)
        return gpu_fail(p->g, RHUMB_ERROR_HOST_MEMORY, "no host memory for %llu bytes",
                        (unsigned long long)size);
    fill_image(p, index, image);
    result = gpu_write_buffer(p->g, buffer, 0, image, size);
    free(image);
    return result;
}

static rhumb_result make_bindings(gpu_prepared *p)
{
    const gpu_operation *operation = p->operation;
    rhumb_view views[RHUMB_MAX_VIEWS];
    rhumb_bindings_info info;

    for (uint32_t i = 0; i < operation->tensor_count; i++) {
        const gpu_tensor *t = &operation->tensors[i];
        const gpu_buffer *buffer = &p->buffers[p->buffer_of[i]];
        rhumb_init_view(&views[i], t->id, t->dtype, buffer->buffer, buffer->size, 1, 1, 1, 1);
        views[i].offset = p->offset_of[i] + t->offset;
        views[i].address = buffer->address;
        memcpy(views[i].shape, t->shape, sizeof t->shape);
        memcpy(views[i].stride, t->stride, sizeof t->stride);
    }
    rhumb_init_bindings_info(&info);
    info.views = views;
    info.view_count = operation->tensor_count;
    info.constants_buffer = p->uniforms.buffer;
    info.bindings_buffer = p->uniforms.buffer;
    return rhumb_check(p->g, rhumb_create_bindings(p->plan, &info, &p->bindings));
}

static rhumb_result write_blocks(gpu_prepared *p, uint64_t size)
{
    const gpu_operation *operation = p->operation;
    uint8_t *blocks = calloc(1, size);
    rhumb_result result;

    if (blocks == NULL)
        return gpu_fail(p->g, RHUMB_ERROR_HOST_MEMORY, "no host memory for the blocks");
    result = rhumb_check(p->g,
                         rhumb_write_constants(p->plan, operation->old_length,
                                               operation->new_length, blocks + p->constants_offset,
                                               operation->properties.constants_size));
    if (result == RHUMB_OK)
        result = rhumb_check(p->g, rhumb_write_bindings(p->bindings, blocks + p->bindings_offset,
                                                        operation->properties.bindings_size));
    if (result == RHUMB_OK)
        result = gpu_write_buffer(p->g, &p->uniforms, 0, blocks, size);
    free(blocks);
    return result;
}

static uint32_t round_up(uint32_t value, uint32_t unit)
{
    return (value + unit - 1) / unit * unit;
}

static rhumb_result make_blocks(gpu_prepared *p)
{
    const gpu_operation *operation = p->operation;
    rhumb_limits limits;
    uint32_t unit;
    uint32_t size;
    rhumb_result result;

    rhumb_init_limits(&limits);
    result = rhumb_check(p->g, rhumb_get_limits(p->g->context, &limits));
    if (result != RHUMB_OK)
        return result;
    unit = limits.uniform_offset_alignment == 0 ? 1 : limits.uniform_offset_alignment;
    p->constants_offset = operation->uniform_offset * unit;
    p->bindings_offset = round_up(p->constants_offset + operation->properties.constants_size,
                                  unit) +
                         operation->uniform_offset * unit;
    size = p->bindings_offset + operation->properties.bindings_size;
    result = gpu_create_buffer(p->g, size, VK_BUFFER_USAGE_UNIFORM_BUFFER_BIT, GPU_MEMORY_UPLOAD,
                               &p->uniforms);
    if (result == RHUMB_OK)
        result = make_bindings(p);
    if (result == RHUMB_OK)
        result = write_blocks(p, size);
    return result;
}

rhumb_result gpu_prepare_operation(gpu *g, gpu_operation *operation, gpu_prepared *prepared)
{
    uint64_t sizes[RHUMB_MAX_VIEWS] = {0};
    rhumb_result result;

    memset(prepared, 0, sizeof *prepared);
    prepared->g = g;
    prepared->operation = operation;
    result = check_tensors(g, operation);
    if (result == RHUMB_OK)
        result = make_plan(prepared);
    if (result != RHUMB_OK)
        goto fail;
    place_tensors(prepared, sizes);
    for (uint32_t i = 0; i < prepared->buffer_count; i++) {
        result = make_buffer(prepared, i, sizes[i]);
        if (result != RHUMB_OK)
            goto fail;
    }
    result = make_blocks(prepared);
    if (result != RHUMB_OK)
        goto fail;
    return RHUMB_OK;

fail:
    gpu_release_operation(prepared);
    snprintf(operation->message, sizeof operation->message, "%s", g->message);
    return result;
}

void gpu_release_operation(gpu_prepared *prepared)
{
    gpu *g = prepared->g;

    if (g == NULL)
        return;
    rhumb_destroy_bindings(prepared->bindings);
    for (uint32_t i = 0; i < prepared->buffer_count; i++)
        gpu_destroy_buffer(g, &prepared->buffers[i]);
    gpu_destroy_buffer(g, &prepared->uniforms);
    if (prepared->plan != prepared->operation->plan)
        rhumb_destroy_plan(prepared->plan);
    memset(prepared, 0, sizeof *prepared);
}

rhumb_result gpu_record_operation(gpu_prepared *prepared, VkCommandBuffer commands,
                                  const rhumb_dispatch *dispatch)
{
    const rhumb_plan_properties *properties = &prepared->operation->properties;
    rhumb_dispatch own = dispatch != NULL ? *dispatch : prepared->operation->dispatch;
    gpu *g = prepared->g;
    rhumb_result result;

    own.constants_offset = prepared->constants_offset;
    own.bindings_offset = prepared->bindings_offset;
    gpu_barrier(g, commands,
                VK_PIPELINE_STAGE_HOST_BIT | VK_PIPELINE_STAGE_TRANSFER_BIT |
                    VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT,
                VK_ACCESS_HOST_WRITE_BIT | VK_ACCESS_TRANSFER_WRITE_BIT |
                    VK_ACCESS_SHADER_WRITE_BIT,
                properties->src_stage, properties->src_access | properties->dst_access);
    result = rhumb_check(g, rhumb_record(commands, prepared->bindings, &own));
    if (result == RHUMB_OK)
        gpu_barrier(g, commands, properties->dst_stage, properties->dst_access,
                    VK_PIPELINE_STAGE_HOST_BIT | VK_PIPELINE_STAGE_TRANSFER_BIT,
                    VK_ACCESS_HOST_READ_BIT | VK_ACCESS_TRANSFER_READ_BIT);
    return result;
}

rhumb_result gpu_write_tensor(gpu_prepared *prepared, uint32_t index, const void *data)
{
    if (index >= prepared->operation->tensor_count)
        return gpu_fail(prepared->g, RHUMB_ERROR_ARGUMENT, "tensor %u of %u", index,
                        prepared->operation->tensor_count);
    prepared->operation->tensors[index].input = data;
    return gpu_write_buffer(prepared->g, &prepared->buffers[prepared->buffer_of[index]],
                            prepared->offset_of[index], data,
                            gpu_tensor_bytes(&prepared->operation->tensors[index]));
}

/* ----------------------------------------------------------------------------------------------
 * What must not change
 */

/* Takes the bytes of the view's elements out of the comparison: copies them from now to before. */
static void allow_elements(const gpu_tensor *t, uint8_t *before, const uint8_t *now)
{
    const uint64_t bytes = gpu_tensor_bytes(t);
    const uint64_t row = t->shape[3] * dtype_bytes(t->dtype);

    for (uint64_t b = 0; b < t->shape[0]; b++) {
        for (uint64_t h = 0; h < t->shape[1]; h++) {
            for (uint64_t l = 0; l < t->shape[2]; l++) {
                const int64_t element = (int64_t)b * t->stride[0] + (int64_t)h * t->stride[1] +
                                        (int64_t)l * t->stride[2];
                const uint64_t at = t->offset + (uint64_t)element * dtype_bytes(t->dtype);
                if (element >= 0 && at <= bytes && row <= bytes - at)
                    memcpy(before + at, now + at, row);
            }
        }
    }
}

static const gpu_tensor *tensor_at(const gpu_prepared *p, uint32_t buffer, uint64_t at,
                                   uint64_t *tensor_offset)
{
    for (uint32_t i = 0; i < p->operation->tensor_count; i++) {
        const gpu_tensor *t = &p->operation->tensors[i];
        if (p->buffer_of[i] == buffer && at + GPU_GUARD >= p->offset_of[i] &&
            at < p->offset_of[i] + gpu_tensor_bytes(t) + GPU_GUARD) {
            *tensor_offset = p->offset_of[i];
            return t;
        }
    }
    return NULL;
}

static rhumb_result compare_image(gpu_prepared *p, uint32_t buffer, const uint8_t *before,
                                  const uint8_t *now)
{
    const uint64_t size = p->buffers[buffer].size;
    uint64_t tensor_offset = 0;
    const gpu_tensor *t;
    uint64_t i = 0;

    if (memcmp(before, now, size) == 0)
        return RHUMB_OK;
    while (before[i] == now[i])
        i++;
    t = tensor_at(p, buffer, i, &tensor_offset);
    return gpu_fail(p->g, RHUMB_ERROR_VULKAN,
                    "canary: view %d: byte %lld of its tensor (%llu bytes) must not change, was "
                    "0x%02x, is 0x%02x",
                    t != NULL ? (int)t->id : -1, (long long)i - (long long)tensor_offset,
                    t != NULL ? (unsigned long long)gpu_tensor_bytes(t) : 0ull, before[i], now[i]);
}

static rhumb_result finish_buffer(gpu_prepared *p, uint32_t index, uint8_t *before, uint8_t *now)
{
    const gpu_operation *operation = p->operation;
    rhumb_result result = gpu_read_buffer(p->g, &p->buffers[index], 0, now, p->buffers[index].size);

    if (result != RHUMB_OK)
        return result;
    if (before != NULL) {
        fill_image(p, index, before);
        for (uint32_t i = 0; i < operation->tensor_count; i++) {
            if (p->buffer_of[i] == index && is_written(operation, operation->tensors[i].id))
                allow_elements(&operation->tensors[i], before + p->offset_of[i],
                               now + p->offset_of[i]);
        }
        result = compare_image(p, index, before, now);
    }
    for (uint32_t i = 0; i < operation->tensor_count; i++) {
        const gpu_tensor *t = &operation->tensors[i];
        if (p->buffer_of[i] == index && t->output != NULL)
            memcpy(t->output, now + p->offset_of[i], gpu_tensor_bytes(t));
    }
    return result;
}

static bool has_output(const gpu_prepared *p, uint32_t index)
{
    for (uint32_t i = 0; i < p->operation->tensor_count; i++) {
        if (p->buffer_of[i] == index && p->operation->tensors[i].output != NULL)
            return true;
    }
    return false;
}

rhumb_result gpu_finish_operation(gpu_prepared *prepared)
{
    gpu_operation *operation = prepared->operation;
    rhumb_result first = RHUMB_OK;

    /* All outputs are read, also when the first buffer has a broken canary; its line stays. */
    for (uint32_t i = 0; i < prepared->buffer_count; i++) {
        const uint64_t size = prepared->buffers[i].size;
        uint8_t *now;
        uint8_t *before = NULL;
        rhumb_result result;
        if (operation->unchecked && !has_output(prepared, i))
            continue;
        now = malloc(size);
        if (!operation->unchecked)
            before = malloc(size);
        if (now == NULL || (before == NULL && !operation->unchecked))
            result = gpu_fail(prepared->g, RHUMB_ERROR_HOST_MEMORY, "no host memory for %llu bytes",
                              (unsigned long long)size);
        else
            result = finish_buffer(prepared, i, before, now);
        free(now);
        free(before);
        if (first == RHUMB_OK && result != RHUMB_OK) {
            first = result;
            snprintf(operation->message, sizeof operation->message, "%s", prepared->g->message);
        }
    }
    return first;
}

/* ----------------------------------------------------------------------------------------------
 * Running
 */
static int compare_doubles(const void *a, const void *b)
{
    const double x = *(const double *)a;
    const double y = *(const double *)b;

    return (x > y) - (x < y);
}

static rhumb_result run_once(gpu_prepared *p, VkCommandBuffer commands, double *ns)
{
    double host_ns = 0.0;
    rhumb_result result = gpu_submit_and_wait(p->g, commands, &host_ns);

    if (result == RHUMB_OK)
        result = gpu_read_timer(p->g, host_ns, ns, &p->operation->host_clock);
    return result;
}

static double median(double *times, uint32_t count)
{
    qsort(times, count, sizeof *times, compare_doubles);
    return 0.5 * (times[(count - 1) / 2] + times[count / 2]);
}

static rhumb_result run_repeats(gpu_prepared *p, VkCommandBuffer commands)
{
    gpu_operation *operation = p->operation;
    double spent = 0.0;
    uint32_t count = 0;
    double *times;
    rhumb_result result = RHUMB_OK;

    if (operation->repeats == 0)
        return RHUMB_OK;
    times = calloc(operation->repeats, sizeof *times);
    if (times == NULL)
        return gpu_fail(p->g, RHUMB_ERROR_HOST_MEMORY, "no host memory for %u times",
                        operation->repeats);
    for (uint32_t i = 0; i < operation->warm_up && result == RHUMB_OK; i++)
        result = run_once(p, commands, &times[0]);
    while (count < operation->repeats && result == RHUMB_OK &&
           (count == 0 || operation->budget_ns <= 0.0 || spent < operation->budget_ns)) {
        result = run_once(p, commands, &times[count]);
        spent += times[count++];
    }
    if (result == RHUMB_OK)
        operation->ns = median(times, count);
    free(times);
    return result;
}

static rhumb_result record_timed(gpu_prepared *p, VkCommandBuffer *commands)
{
    rhumb_result result = gpu_begin_commands(p->g, commands);

    if (result != RHUMB_OK)
        return result;
    gpu_begin_timer(p->g, *commands);
    result = gpu_record_operation(p, *commands, NULL);
    if (result != RHUMB_OK)
        return result;
    gpu_end_timer(p->g, *commands);
    return gpu_end_commands(p->g, *commands);
}

rhumb_result gpu_run_operation(gpu *g, gpu_operation *operation)
{
    gpu_prepared p;
    VkCommandBuffer commands = VK_NULL_HANDLE;
    rhumb_result result;

    operation->message[0] = '\0';
    operation->ns = 0.0;
    result = gpu_prepare_operation(g, operation, &p);
    if (result != RHUMB_OK)
        return result;
    result = record_timed(&p, &commands);
    if (result == RHUMB_OK)
        result = run_once(&p, commands, &operation->ns);
    if (result == RHUMB_OK)
        result = gpu_finish_operation(&p); /* before repeats, which rotate again when in place */
    if (result == RHUMB_OK)
        result = run_repeats(&p, commands);
    if (result != RHUMB_OK && operation->message[0] == '\0')
        snprintf(operation->message, sizeof operation->message, "%s", g->message);
    gpu_free_commands(g, commands);
    gpu_release_operation(&p);
    return result;
}
