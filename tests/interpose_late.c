/* Pipelines that the driver gets when they are bound, or never: see interpose_compile_late and
 * interpose_skip_compilation. Their handles are this file's. */
#include "interpose_late.h"
#include "interpose_state.h"
#include "rhumb_shared.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define FIRST_HANDLE UINT64_C(0x1a7e1a7e0000)

typedef struct late_pipeline {
    struct late_pipeline *next;
    uint64_t handle; /* the caller's */
    VkPipeline made; /* the driver's, once there is one */
    VkDevice device;
    VkPipelineCache cache;
    VkComputePipelineCreateInfo info;
    VkSpecializationInfo special;
    VkShaderModuleCreateInfo module;
} late_pipeline;

static struct {
    pthread_mutex_t lock;
    bool skip;
    bool wait;
    uint64_t handles;         /* given so far */
    late_pipeline *pipelines; /* that wait, or have waited */
    uint64_t *values;         /* what pipelines that the driver has seen are made of, see value_of */
    size_t value_count;
    bool new_pipeline;        /* of those skipped; as is the next */
    bool new_value;
} late = {.lock = PTHREAD_MUTEX_INITIALIZER};

void late_start(void)
{
    late.skip = late.wait = false;
    free(late.values);
    late.values = NULL;
    late.value_count = 0;
}

void interpose_skip_compilation(bool on)
{
    late.skip = on;
    if (on) {
        late.new_pipeline = false;
        late.new_value = false;
    }
}

void interpose_compile_late(bool on)
{
    late.wait = on;
}

bool interpose_skipped_only_repeats(void)
{
    return late.new_pipeline && !late.new_value;
}

/* ---- What pipelines are made of */

/* FNV-1a. */
static uint64_t hash(const void *data, size_t size)
{
    const unsigned char *bytes = data;
    uint64_t h = 0xcbf29ce484222325u;
    for (size_t i = 0; i < size; i++) {
        h = (h ^ bytes[i]) * 0x100000001b3u;
    }
    return h;
}

/* One value of one specialisation constant of one kernel; a mask of views is a constant a bit. */
static uint64_t value_of(uint64_t code, uint32_t id, uint32_t bit, uint32_t value)
{
    uint64_t parts[4] = {code, id, bit, value};
    return hash(parts, sizeof parts);
}

/* With the lock held. */
static void take_value(uint64_t value)
{
    for (size_t i = 0; i < late.value_count; i++) {
        if (late.values[i] == value) {
            return;
        }
    }
    if (late.skip) {
        late.new_value = true;
        return;
    }
    uint64_t *grown = realloc(late.values, (late.value_count + 1) * sizeof *grown);
    if (grown != NULL) { /* else the value stays new */
        late.values = grown;
        late.values[late.value_count++] = value;
    }
}

/* What the kernel is specialised to, where it lies in descriptors left out. */
void late_look_at(const VkComputePipelineCreateInfo *info, const object_entry *module)
{
    const VkSpecializationInfo *special = info->stage.pSpecializationInfo;
    uint64_t code = hash(module->payload, module->payload_count * 4);
    pthread_mutex_lock(&late.lock);
    late.new_pipeline |= late.skip;
    take_value(code);
    for (uint32_t i = 0; special != NULL && i < special->mapEntryCount; i++) {
        const VkSpecializationMapEntry *entry = &special->pMapEntries[i];
        uint32_t id = entry->constantID, value;
        memcpy(&value, (const char *)special->pData + entry->offset, sizeof value);
        if (id == SPEC_VIEWS) {
            for (uint32_t bit = 0; bit < 32; bit++) {
                take_value(value_of(code, id, bit, value >> bit & 1));
            }
        } else if (id != SPEC_SLOT_COUNT && (id < SPEC_SLOT || id >= SPEC_DTYPE)) {
            take_value(value_of(code, id, 0, value));
        }
    }
    pthread_mutex_unlock(&late.lock);
}

/* ---- Pipelines */

bool late_wanted(void)
{
    return late.skip || late.wait;
}

bool late_has(uint64_t pipeline)
{
    return pipeline >= FIRST_HANDLE && pipeline < FIRST_HANDLE + late.handles;
}

static late_pipeline *keep(VkDevice device, VkPipelineCache cache,
                           const VkComputePipelineCreateInfo *info)
{
    late_pipeline *p = calloc(1, sizeof *p);
    object_entry module = {0};
    if (p == NULL ||
        !objects_find(INTERPOSE_SHADER_MODULE, (uint64_t)info->stage.module, &module)) {
        interpose_note("pipeline that cannot be kept for later");
        free(p);
        return NULL;
    }
    p->device = device;
    p->cache = cache;
    p->module.sType = VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO;
    p->module.codeSize = module.payload_count * 4;
    p->module.pCode = module.payload;
    p->info = *info;
    p->info.stage.pName = "main";
    if (info->stage.pSpecializationInfo != NULL) {
        p->special = *info->stage.pSpecializationInfo;
        p->special.pMapEntries = interpose_duplicate(
            p->special.pMapEntries, p->special.mapEntryCount * sizeof *p->special.pMapEntries);
        p->special.pData = interpose_duplicate(p->special.pData, p->special.dataSize);
        p->info.stage.pSpecializationInfo = &p->special;
    }
    return p;
}

VkPipeline late_create(VkDevice device, VkPipelineCache cache,
                       const VkComputePipelineCreateInfo *info)
{
    late_pipeline *p = late.skip ? NULL : keep(device, cache, info);
    uint64_t handle;
    pthread_mutex_lock(&late.lock);
    handle = FIRST_HANDLE + late.handles++;
    if (p != NULL) {
        p->handle = handle;
        p->next = late.pipelines;
        late.pipelines = p;
    }
    pthread_mutex_unlock(&late.lock);
    return (VkPipeline)handle;
}

static VkPipeline compile(late_pipeline *p, const late_driver *driver)
{
    VkResult result = VK_SUCCESS;
    if (p->made == VK_NULL_HANDLE) {
        result = driver->CreateShaderModule(p->device, &p->module, NULL, &p->info.stage.module);
        if (result == VK_SUCCESS) {
            result =
                driver->CreateComputePipelines(p->device, p->cache, 1, &p->info, NULL, &p->made);
            driver->DestroyShaderModule(p->device, p->info.stage.module, NULL);
        }
    }
    if (result != VK_SUCCESS) {
        interpose_note("pipeline that the driver refuses when it is bound: %d", (int)result);
    }
    return p->made;
}

VkPipeline late_bind(VkPipeline pipeline, const late_driver *driver)
{
    late_pipeline *p;
    if (!late_has((uint64_t)pipeline)) {
        return pipeline;
    }
    pthread_mutex_lock(&late.lock);
    for (p = late.pipelines; p != NULL && p->handle != (uint64_t)pipeline; p = p->next) {
    }
    pthread_mutex_unlock(&late.lock);
    return p != NULL ? compile(p, driver) : pipeline;
}

void late_destroy(uint64_t pipeline, const late_driver *driver)
{
    late_pipeline *p = NULL;
    pthread_mutex_lock(&late.lock);
    for (late_pipeline **link = &late.pipelines; *link != NULL; link = &(*link)->next) {
        if ((*link)->handle == pipeline) {
            p = *link;
            *link = p->next;
            break;
        }
    }
    pthread_mutex_unlock(&late.lock);
    if (p == NULL) {
        return;
    }
    if (p->made != VK_NULL_HANDLE) {
        driver->DestroyPipeline(p->device, p->made, NULL);
    }
    free((void *)(uintptr_t)p->module.pCode);
    free((void *)(uintptr_t)p->special.pMapEntries);
    free((void *)(uintptr_t)p->special.pData);
    free(p);
}
