#include "interpose_objects.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static struct {
    pthread_mutex_t lock;
    object_entry *entries;
    size_t count;
    size_t capacity;
    uint64_t created[INTERPOSE_OBJECT_COUNT];
    uint64_t destroyed[INTERPOSE_OBJECT_COUNT];
} objects = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void *copy_of(const object_entry *entry, size_t element)
{
    void *copy = calloc(entry->payload_count + 1, element);
    if (copy == NULL) {
        abort(); /* a test that is out of memory proves nothing */
    }
    if (entry->payload_count != 0) {
        memcpy(copy, entry->payload, entry->payload_count * element);
    }
    return copy;
}

static size_t element_of(interpose_object type)
{
    return type == INTERPOSE_SHADER_MODULE ? sizeof(uint32_t)
                                           : sizeof(VkDescriptorSetLayoutBinding);
}

void objects_reset(void)
{
    pthread_mutex_lock(&objects.lock);
    for (size_t i = 0; i < objects.count; i++) {
        free(objects.entries[i].payload);
    }
    free(objects.entries);
    objects.entries = NULL;
    objects.count = 0;
    objects.capacity = 0;
    memset(objects.created, 0, sizeof objects.created);
    memset(objects.destroyed, 0, sizeof objects.destroyed);
    pthread_mutex_unlock(&objects.lock);
}

void objects_add(const object_entry *entry)
{
    pthread_mutex_lock(&objects.lock);
    if (objects.count == objects.capacity) {
        objects.capacity = objects.capacity == 0 ? 256 : objects.capacity * 2;
        objects.entries = realloc(objects.entries, objects.capacity * sizeof *objects.entries);
        if (objects.entries == NULL) {
            abort();
        }
    }
    objects.entries[objects.count++] = *entry;
    objects.created[entry->type]++;
    pthread_mutex_unlock(&objects.lock);
}

static void remove_at(size_t index)
{
    objects.destroyed[objects.entries[index].type]++;
    free(objects.entries[index].payload);
    objects.entries[index] = objects.entries[--objects.count];
}

static void remove_children_locked(uint64_t parent)
{
    for (size_t i = objects.count; i-- > 0;) {
        if (objects.entries[i].parent == parent) {
            remove_at(i);
        }
    }
}

static size_t find_locked(interpose_object type, uint64_t handle)
{
    for (size_t i = objects.count; i-- > 0;) {
        if (objects.entries[i].type == type && objects.entries[i].handle == handle) {
            return i;
        }
    }
    return SIZE_MAX;
}

bool objects_remove(interpose_object type, uint64_t handle)
{
    size_t index;
    pthread_mutex_lock(&objects.lock);
    index = find_locked(type, handle);
    if (index != SIZE_MAX) {
        remove_at(index);
        remove_children_locked(handle);
    }
    pthread_mutex_unlock(&objects.lock);
    return index != SIZE_MAX;
}

void objects_remove_children(uint64_t parent)
{
    pthread_mutex_lock(&objects.lock);
    remove_children_locked(parent);
    pthread_mutex_unlock(&objects.lock);
}

bool objects_find(interpose_object type, uint64_t handle, object_entry *copy)
{
    size_t index;
    pthread_mutex_lock(&objects.lock);
    index = find_locked(type, handle);
    if (index != SIZE_MAX) {
        *copy = objects.entries[index];
        copy->payload = copy_of(&objects.entries[index], element_of(type));
    }
    pthread_mutex_unlock(&objects.lock);
    return index != SIZE_MAX;
}

bool objects_take(uint64_t pool, const uint32_t descriptors[OBJECTS_POOL_TYPES])
{
    bool enough = false;
    size_t index;
    pthread_mutex_lock(&objects.lock);
    index = find_locked(INTERPOSE_DESCRIPTOR_POOL, pool);
    if (index != SIZE_MAX) {
        object_entry *entry = &objects.entries[index];
        enough = entry->sets != 0;
        for (int i = 0; i < OBJECTS_POOL_TYPES; i++) {
            enough = enough && entry->descriptors[i] >= descriptors[i];
        }
        for (int i = 0; enough && i < OBJECTS_POOL_TYPES; i++) {
            entry->descriptors[i] -= descriptors[i];
        }
        entry->sets -= enough ? 1 : 0;
    }
    pthread_mutex_unlock(&objects.lock);
    return enough;
}

uint64_t objects_created(interpose_object type)
{
    uint64_t count;
    pthread_mutex_lock(&objects.lock);
    count = objects.created[type];
    pthread_mutex_unlock(&objects.lock);
    return count;
}

uint64_t objects_destroyed(interpose_object type)
{
    uint64_t count;
    pthread_mutex_lock(&objects.lock);
    count = objects.destroyed[type];
    pthread_mutex_unlock(&objects.lock);
    return count;
}
