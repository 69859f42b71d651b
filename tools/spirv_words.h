/* Reads of a SPIR-V compute module what a device's limits are about: capabilities, work group size,
 * shared memory, push constants, descriptors. Specialisation constants are resolved the way a
 * driver resolves them, so that the numbers are those of the pipeline and not of the module's
 * defaults. */
#ifndef RHUMB_TOOLS_SPIRV_WORDS_H
#define RHUMB_TOOLS_SPIRV_WORDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <vulkan/vulkan_core.h>

#define SPIRV_MAX_CAPABILITIES 32
#define SPIRV_MAX_DESCRIPTORS 64

/* Numbers of the SPIR-V specification that the tests name. */
enum {
    SPIRV_CAPABILITY_MATRIX = 0,
    SPIRV_CAPABILITY_SHADER = 1,
    SPIRV_CAPABILITY_FLOAT16 = 9,
    SPIRV_CAPABILITY_INT64 = 11,
    SPIRV_CAPABILITY_INT16 = 22,
    SPIRV_CAPABILITY_GROUP_NON_UNIFORM = 61, /* to 68: the subgroup operations */
    SPIRV_CAPABILITY_GROUP_NON_UNIFORM_QUAD = 68,
    SPIRV_CAPABILITY_PHYSICAL_STORAGE_BUFFER = 5347,
    SPIRV_GLSL_SIN = 13,
    SPIRV_GLSL_COS = 14,
    SPIRV_GLSL_TAN = 15,
    SPIRV_GLSL_POW = 26,
};

typedef struct spirv_descriptor {
    uint32_t set;
    uint32_t binding;
    uint32_t count;  /* elements of the array, 1 for a plain block */
    bool storage;    /* storage buffer, else uniform buffer */
} spirv_descriptor;

typedef struct spirv_facts {
    uint32_t version; /* 0x00010300 is SPIR-V 1.3 */
    uint32_t capability_count;
    uint32_t capabilities[SPIRV_MAX_CAPABILITIES];
    uint32_t local_size[3];
    uint64_t shared_bytes;     /* all variables of the Workgroup storage class */
    uint64_t push_bytes;       /* end of the last member of the push constant block, 0 without
                                  one */
    uint64_t spec_ids[2];      /* bit i: there is a specialisation constant of id i, below 128 */
    uint64_t glsl_used[2];     /* bit i: instruction i of GLSL.std.450 occurs */
    uint32_t no_contraction;   /* number of results decorated NoContraction */
    uint32_t barriers;         /* OpControlBarrier */
    uint32_t extensions;       /* OpExtension */
    uint32_t descriptor_count;
    spirv_descriptor descriptors[SPIRV_MAX_DESCRIPTORS];
} spirv_facts;

/* `specialization` may be NULL (the defaults hold). False with a reason in `message` for words that
 * are no module or use what this reader does not know where a size depends on it. */
bool spirv_read_facts(const uint32_t *words, size_t count,
                      const VkSpecializationInfo *specialization, spirv_facts *facts, char *message,
                      size_t message_size);

bool spirv_has_capability(const spirv_facts *facts, uint32_t capability);
bool spirv_has_spec_id(const spirv_facts *facts, uint32_t id);
bool spirv_uses_glsl(const spirv_facts *facts, uint32_t instruction);

#endif
