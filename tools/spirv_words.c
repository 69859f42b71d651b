#include "spirv_words.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SPIRV_MAGIC 0x07230203u
#define NO_VALUE UINT32_MAX

enum {
    OP_EXTENSION = 10,
    OP_EXT_INST_IMPORT = 11,
    OP_EXT_INST = 12,
    OP_EXECUTION_MODE = 16,
    OP_CAPABILITY = 17,
    OP_TYPE_BOOL = 20,
    OP_TYPE_INT = 21,
    OP_TYPE_FLOAT = 22,
    OP_TYPE_VECTOR = 23,
    OP_TYPE_MATRIX = 24,
    OP_TYPE_ARRAY = 28,
    OP_TYPE_RUNTIME_ARRAY = 29,
    OP_TYPE_STRUCT = 30,
    OP_TYPE_POINTER = 32,
    OP_CONSTANT_TRUE = 41,
    OP_CONSTANT_FALSE = 42,
    OP_CONSTANT = 43,
    OP_CONSTANT_COMPOSITE = 44,
    OP_SPEC_CONSTANT_TRUE = 48,
    OP_SPEC_CONSTANT_FALSE = 49,
    OP_SPEC_CONSTANT = 50,
    OP_SPEC_CONSTANT_COMPOSITE = 51,
    OP_SPEC_CONSTANT_OP = 52,
    OP_VARIABLE = 59,
    OP_DECORATE = 71,
    OP_MEMBER_DECORATE = 72,
    OP_CONTROL_BARRIER = 224,
    OP_EXECUTION_MODE_ID = 331,
    MODE_LOCAL_SIZE = 17,
    MODE_LOCAL_SIZE_ID = 38,
    CLASS_UNIFORM = 2,
    CLASS_WORKGROUP = 4,
    CLASS_PUSH_CONSTANT = 9,
    CLASS_STORAGE_BUFFER = 12,
    DECORATION_SPEC_ID = 1,
    DECORATION_BUFFER_BLOCK = 3,
    DECORATION_ARRAY_STRIDE = 6,
    DECORATION_BUILT_IN = 11,
    DECORATION_BINDING = 33,
    DECORATION_DESCRIPTOR_SET = 34,
    DECORATION_OFFSET = 35,
    DECORATION_NO_CONTRACTION = 42,
    BUILT_IN_WORKGROUP_SIZE = 25,
};

/* What is known of one result id. */
typedef struct id_info {
    const uint32_t *op; /* its defining instruction, or NULL */
    uint32_t spec_id;
    uint32_t binding;
    uint32_t set;
    uint32_t array_stride;
    bool buffer_block;
    bool workgroup_size;
} id_info;

typedef struct reader {
    const uint32_t *words;
    size_t count;
    uint32_t bound;
    id_info *ids;
    const VkSpecializationInfo *specialization;
    char *message;
    size_t message_size;
    bool failed;
} reader;

static uint64_t fail(reader *r, const char *what, uint32_t number)
{
    if (!r->failed) {
        snprintf(r->message, r->message_size, "SPIR-V reader: %s %u", what, number);
    }
    r->failed = true;
    return 0;
}

static uint32_t opcode(const uint32_t *op)
{
    return op[0] & 0xffffu;
}

static uint32_t length(const uint32_t *op)
{
    return op[0] >> 16;
}

static const uint32_t *definition(reader *r, uint32_t id)
{
    if (id >= r->bound || r->ids[id].op == NULL) {
        fail(r, "no definition of id", id);
        return NULL;
    }
    return r->ids[id].op;
}

/* Word of the instruction that holds its result id, 0 if it has none among those that matter
 * here. */
static uint32_t result_word(uint32_t code)
{
    if (code == OP_EXT_INST_IMPORT || (code >= OP_TYPE_BOOL && code <= OP_TYPE_POINTER)) {
        return 1;
    }
    if ((code >= OP_CONSTANT_TRUE && code <= OP_SPEC_CONSTANT_OP) || code == OP_VARIABLE) {
        return 2;
    }
    return 0;
}

static bool from_specialization(const reader *r, uint32_t spec_id, uint64_t *value)
{
    const VkSpecializationInfo *info = r->specialization;
    if (info == NULL || spec_id == NO_VALUE) {
        return false;
    }
    for (uint32_t i = 0; i < info->mapEntryCount; i++) {
        const VkSpecializationMapEntry *entry = &info->pMapEntries[i];
        if (entry->constantID != spec_id) {
            continue;
        }
        *value = 0;
        if (entry->size <= sizeof *value && entry->offset + entry->size <= info->dataSize) {
            memcpy(value, (const char *)info->pData + entry->offset, entry->size);
        }
        return true;
    }
    return false;
}

static uint64_t value_of(reader *r, uint32_t id, uint32_t depth);

static uint64_t compare_of(uint32_t code, uint64_t a, uint64_t b, bool *known)
{
    int64_t x = (int32_t)a;
    int64_t y = (int32_t)b;
    switch (code) {
    case 164: case 170: return a == b;
    case 165: case 171: return a != b;
    case 172: return a > b;
    case 173: return x > y;
    case 174: return a >= b;
    case 175: return x >= y;
    case 176: return a < b;
    case 177: return x < y;
    case 178: return a <= b;
    case 179: return x <= y;
    case 166: return a != 0 || b != 0;
    case 167: return a != 0 && b != 0;
    default: *known = false; return 0;
    }
}

static uint64_t arithmetic_of(uint32_t code, uint64_t a, uint64_t b, bool *known)
{
    bool zero = b == 0 && (code == 134 || code == 135 || code == 137 || code == 138 || code == 139);
    if (zero) {
        return 0;
    }
    switch (code) {
    case 124: return a;                                  /* OpBitcast */
    case 113: return a;                                  /* OpUConvert */
    case 114: return a;                                  /* OpSConvert */
    case 126: return (uint32_t)(0u - (uint32_t)a);       /* OpSNegate */
    case 128: return (uint32_t)(a + b);                  /* OpIAdd */
    case 130: return (uint32_t)(a - b);                  /* OpISub */
    case 132: return (uint32_t)(a * b);                  /* OpIMul */
    case 134: return (uint32_t)a / (uint32_t)b;          /* OpUDiv */
    case 135: return (uint32_t)((int32_t)a / (int32_t)b); /* OpSDiv */
    case 137: return (uint32_t)a % (uint32_t)b;          /* OpUMod */
    case 138:                                            /* OpSRem: operands here are not
                                                            negative */
    case 139: return (uint32_t)((int32_t)a % (int32_t)b); /* OpSMod */
    case 168: return a == 0;                             /* OpLogicalNot */
    case 194: return (uint32_t)((uint32_t)a >> (b & 31)); /* OpShiftRightLogical */
    case 195: return (uint32_t)((uint32_t)a >> (b & 31)); /* OpShiftRightArithmetic */
    case 196: return (uint32_t)((uint32_t)a << (b & 31)); /* OpShiftLeftLogical */
    case 197: return a | b;
    case 198: return a ^ b;
    case 199: return a & b;
    case 200: return (uint32_t)~a;
    default: return compare_of(code, a, b, known);
    }
}

static uint64_t operation_of(reader *r, const uint32_t *op, uint32_t depth)
{
    bool known = true;
    uint32_t code = op[3];
    uint64_t a = length(op) > 4 ? value_of(r, op[4], depth + 1) : 0;
    uint64_t b = 0;
    uint64_t value;
    if (code == 169 && length(op) > 6) { /* OpSelect */
        return value_of(r, a != 0 ? op[5] : op[6], depth + 1);
    }
    if (length(op) > 5) {
        b = value_of(r, op[5], depth + 1);
    }
    value = arithmetic_of(code, a, b, &known);
    return known ? value : fail(r, "unknown OpSpecConstantOp", code);
}

/* Scalar integer or boolean constant after specialisation. */
static uint64_t value_of(reader *r, uint32_t id, uint32_t depth)
{
    uint64_t value = 0;
    const uint32_t *op = definition(r, id);
    if (op == NULL || depth > 64) {
        return fail(r, "no value of id", id);
    }
    switch (opcode(op)) {
    case OP_CONSTANT_TRUE:
        return 1;
    case OP_CONSTANT_FALSE:
        return 0;
    case OP_CONSTANT:
        return op[3];
    case OP_SPEC_CONSTANT_TRUE:
    case OP_SPEC_CONSTANT_FALSE:
        return from_specialization(r, r->ids[id].spec_id, &value)
                   ? value
                   : (uint64_t)(opcode(op) == OP_SPEC_CONSTANT_TRUE);
    case OP_SPEC_CONSTANT:
        return from_specialization(r, r->ids[id].spec_id, &value) ? value : op[3];
    case OP_SPEC_CONSTANT_OP:
        return operation_of(r, op, depth);
    default:
        return fail(r, "not a scalar constant: opcode", opcode(op));
    }
}

static uint64_t member_offset(const reader *r, uint32_t struct_id, uint32_t member,
                              uint64_t otherwise)
{
    for (size_t at = 5; at < r->count; at += length(r->words + at)) {
        const uint32_t *op = r->words + at;
        if (opcode(op) == OP_MEMBER_DECORATE && op[1] == struct_id && op[2] == member &&
            op[3] == DECORATION_OFFSET) {
            return op[4];
        }
    }
    return otherwise;
}

static uint64_t size_of(reader *r, uint32_t type, uint32_t depth)
{
    const uint32_t *op = definition(r, type);
    uint64_t size = 0;
    if (op == NULL || depth > 32) {
        return fail(r, "no size of type", type);
    }
    switch (opcode(op)) {
    case OP_TYPE_BOOL:
        return 4;
    case OP_TYPE_INT:
    case OP_TYPE_FLOAT:
        return op[2] / 8u;
    case OP_TYPE_VECTOR:
    case OP_TYPE_MATRIX:
        return op[3] * size_of(r, op[2], depth + 1);
    case OP_TYPE_ARRAY:
        size = r->ids[type].array_stride;
        if (size == NO_VALUE) {
            size = size_of(r, op[2], depth + 1);
        }
        return size * value_of(r, op[3], 0);
    case OP_TYPE_STRUCT:
        for (uint32_t i = 2; i < length(op); i++) {
            size = member_offset(r, type, i - 2, size) + size_of(r, op[i], depth + 1);
        }
        return size;
    default:
        return fail(r, "no size of a type with opcode", opcode(op));
    }
}

static void decorate(reader *r, const uint32_t *op, spirv_facts *facts)
{
    uint32_t value = length(op) > 3 ? op[3] : 0;
    id_info *id = &r->ids[op[1] < r->bound ? op[1] : 0];
    switch (op[2]) {
    case DECORATION_SPEC_ID:
        id->spec_id = value;
        if (value < 128) {
            facts->spec_ids[value / 64] |= UINT64_C(1) << (value % 64);
        }
        break;
    case DECORATION_BINDING:
        id->binding = value;
        break;
    case DECORATION_DESCRIPTOR_SET:
        id->set = value;
        break;
    case DECORATION_ARRAY_STRIDE:
        id->array_stride = value;
        break;
    case DECORATION_BUFFER_BLOCK:
        id->buffer_block = true;
        break;
    case DECORATION_BUILT_IN:
        id->workgroup_size = value == BUILT_IN_WORKGROUP_SIZE;
        break;
    case DECORATION_NO_CONTRACTION:
        facts->no_contraction++;
        break;
    default:
        break;
    }
}

static void note_instruction(reader *r, const uint32_t *op, spirv_facts *facts)
{
    uint32_t word = result_word(opcode(op));
    if (word != 0 && op[word] < r->bound) {
        r->ids[op[word]].op = op;
    }
    switch (opcode(op)) {
    case OP_CAPABILITY:
        if (facts->capability_count < SPIRV_MAX_CAPABILITIES) {
            facts->capabilities[facts->capability_count++] = op[1];
        } else {
            fail(r, "too many capabilities: more than", SPIRV_MAX_CAPABILITIES);
        }
        break;
    case OP_EXTENSION:
        facts->extensions++;
        break;
    case OP_DECORATE:
        decorate(r, op, facts);
        break;
    case OP_CONTROL_BARRIER:
        facts->barriers++;
        break;
    case OP_EXECUTION_MODE:
        if (op[2] == MODE_LOCAL_SIZE) {
            memcpy(facts->local_size, op + 3, sizeof facts->local_size);
        }
        break;
    case OP_EXT_INST:
        if (op[4] < 128) {
            facts->glsl_used[op[4] / 64] |= UINT64_C(1) << (op[4] % 64);
        }
        break;
    default:
        break;
    }
}

static void note_descriptor(reader *r, uint32_t variable, const uint32_t *pointee,
                            uint32_t pointee_id, uint32_t storage_class, spirv_facts *facts)
{
    spirv_descriptor *d = &facts->descriptors[facts->descriptor_count];
    uint32_t block = pointee_id;
    if (facts->descriptor_count == SPIRV_MAX_DESCRIPTORS) {
        fail(r, "too many descriptors: more than", SPIRV_MAX_DESCRIPTORS);
        return;
    }
    d->set = r->ids[variable].set;
    d->binding = r->ids[variable].binding;
    d->count = 1;
    if (opcode(pointee) == OP_TYPE_ARRAY) {
        d->count = (uint32_t)value_of(r, pointee[3], 0);
        block = pointee[2];
    }
    d->storage = storage_class == CLASS_STORAGE_BUFFER || r->ids[block].buffer_block;
    facts->descriptor_count++;
}

static void note_variable(reader *r, const uint32_t *op, spirv_facts *facts)
{
    const uint32_t *pointer = definition(r, op[1]);
    const uint32_t *pointee;
    if (pointer == NULL || opcode(pointer) != OP_TYPE_POINTER) {
        return;
    }
    pointee = definition(r, pointer[3]);
    if (pointee == NULL) {
        return;
    }
    switch (op[3]) {
    case CLASS_WORKGROUP:
        facts->shared_bytes += size_of(r, pointer[3], 0);
        break;
    case CLASS_PUSH_CONSTANT:
        facts->push_bytes = size_of(r, pointer[3], 0);
        break;
    case CLASS_UNIFORM:
    case CLASS_STORAGE_BUFFER:
        note_descriptor(r, op[2], pointee, pointer[3], op[3], facts);
        break;
    default:
        break;
    }
}

/* Sizes depend on constants and types anywhere in the module, hence a second pass. */
static void resolve(reader *r, spirv_facts *facts)
{
    for (size_t at = 5; at < r->count && !r->failed; at += length(r->words + at)) {
        const uint32_t *op = r->words + at;
        bool composite = opcode(op) == OP_CONSTANT_COMPOSITE ||
                         opcode(op) == OP_SPEC_CONSTANT_COMPOSITE;
        if (opcode(op) == OP_VARIABLE) {
            note_variable(r, op, facts);
        } else if (opcode(op) == OP_EXECUTION_MODE_ID && op[2] == MODE_LOCAL_SIZE_ID) {
            for (uint32_t i = 0; i < 3; i++) {
                facts->local_size[i] = (uint32_t)value_of(r, op[3 + i], 0);
            }
        } else if (composite && op[2] < r->bound && r->ids[op[2]].workgroup_size) {
            for (uint32_t i = 0; i < 3; i++) {
                facts->local_size[i] = (uint32_t)value_of(r, op[3 + i], 0);
            }
        }
    }
}

static void scan(reader *r, spirv_facts *facts)
{
    for (size_t at = 5; at < r->count; at += length(r->words + at)) {
        if (length(r->words + at) == 0 || at + length(r->words + at) > r->count) {
            fail(r, "instruction beyond the module at word", (uint32_t)at);
            return;
        }
        note_instruction(r, r->words + at, facts);
    }
}

bool spirv_read_facts(const uint32_t *words, size_t count,
                      const VkSpecializationInfo *specialization, spirv_facts *facts, char *message,
                      size_t message_size)
{
    reader r = {.words = words, .count = count, .specialization = specialization,
                .message = message, .message_size = message_size};
    memset(facts, 0, sizeof *facts);
    if (count < 5 || words[0] != SPIRV_MAGIC || words[3] == 0 || words[3] > 4194304) {
        fail(&r, "no module: words", (uint32_t)count);
        return false;
    }
    facts->version = words[1];
    r.bound = words[3];
    r.ids = calloc(r.bound, sizeof *r.ids);
    if (r.ids == NULL) {
        fail(&r, "no memory for ids:", r.bound);
        return false;
    }
    for (uint32_t i = 0; i < r.bound; i++) {
        r.ids[i].spec_id = NO_VALUE;
        r.ids[i].array_stride = NO_VALUE;
    }
    scan(&r, facts);
    if (!r.failed) {
        resolve(&r, facts);
    }
    free(r.ids);
    return !r.failed;
}

bool spirv_has_capability(const spirv_facts *facts, uint32_t capability)
{
    for (uint32_t i = 0; i < facts->capability_count; i++) {
        if (facts->capabilities[i] == capability) {
            return true;
        }
    }
    return false;
}

bool spirv_has_spec_id(const spirv_facts *facts, uint32_t id)
{
    return id < 128 && (facts->spec_ids[id / 64] >> (id % 64) & 1) != 0;
}

bool spirv_uses_glsl(const spirv_facts *facts, uint32_t instruction)
{
    return (facts->glsl_used[instruction / 64] >> (instruction % 64) & 1) != 0;
}
