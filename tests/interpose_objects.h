/* The objects that were created through the table: which are alive, what they belong to, and what
 * later checks need of them. One table, one lock. */
#ifndef RHUMB_TESTS_INTERPOSE_OBJECTS_H
#define RHUMB_TESTS_INTERPOSE_OBJECTS_H

#include "interpose.h"

#include <stddef.h>

#define OBJECTS_POOL_TYPES 11 /* VkDescriptorType of Vulkan 1.0 */

typedef struct object_entry {
    interpose_object type;
    uint64_t handle;
    uint64_t parent;     /* pool: destroying it destroys the entry. 0: none */
    void *payload;       /* owned: SPIR-V words, or VkDescriptorSetLayoutBinding */
    size_t payload_count;
    uint32_t sets;       /* pool: descriptor sets left */
    uint32_t descriptors[OBJECTS_POOL_TYPES]; /* pool: left. Set and layout: taken */
} object_entry;

void objects_reset(void);
/* Copies the entry; takes over entry->payload. */
void objects_add(const object_entry *entry);
/* Removes the newest entry of that handle and what belongs to it. False if there is none. */
bool objects_remove(interpose_object type, uint64_t handle);
/* Removes what belongs to `parent` and leaves the parent. */
void objects_remove_children(uint64_t parent);
/* Copies an entry, payload included (the copy's payload is the caller's to free). */
bool objects_find(interpose_object type, uint64_t handle, object_entry *copy);
/* Takes the descriptors of a set from its pool; false if the pool has too few. */
bool objects_take(uint64_t pool, const uint32_t descriptors[OBJECTS_POOL_TYPES]);
uint64_t objects_created(interpose_object type);
uint64_t objects_destroyed(interpose_object type);

#endif
