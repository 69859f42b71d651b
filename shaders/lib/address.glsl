// Buffer access by address, for devices where a descriptor's bounds checks cost more than the
// arithmetic: CPU devices. Every index is in range by construction; nothing checks it.
//
// RHUMB_ADDRESS_VIEW(name, ID) defines, for e an element index as name_at gives it, a multiple of 4
// where nothing else is said:
//   name_far4(e)        four elements as float
//   name_far(e)         one element as float, e any index
// It wants RHUMB_READ_VIEW(name, ID) before it. RHUMB_ADDRESS_STORE(name, ID), after
// RHUMB_WRITE_VIEW, defines name_far_store4(e, v).
//
// Elements of 64 bits: a software device reads each lane's element by itself, and two 32-bit ones
// would be two reads.

layout(buffer_reference, std430, buffer_reference_align = 8) readonly buffer FarPairs {
    uint64_t d[];
};
layout(buffer_reference, std430, buffer_reference_align = 4) readonly buffer FarWords {
    uint d[];
};
layout(buffer_reference, std430, buffer_reference_align = 8) buffer FarWrites { uint64_t d[]; };

#define RHUMB_ADDRESS_VIEW(name, ID)                                                               \
    vec4 name##_far4(uint e)                                                                       \
    {                                                                                              \
        FarPairs memory = FarPairs(bindings.place[ID].xy);                                         \
        if (name##_dtype == DTYPE_F32) {                                                           \
            vec2 low = uintBitsToFloat(unpack32(memory.d[e >> 1]));                                \
            vec2 high = uintBitsToFloat(unpack32(memory.d[(e >> 1) + 1u]));                        \
            return vec4(low, high);                                                                \
        }                                                                                          \
        if (name##_dtype == DTYPE_Q8_0) {                                                          \
            FarWords words = FarWords(bindings.place[ID].xy);                                      \
            uint block = q8_block(bindings.view[ID].w, e);                                         \
            uint at = block + 1u + (e % Q8_ELEMENTS) / 2u;                                         \
            uint high = (at & 1u) != 0u ? words.d[(at >> 1) + 1u] : 0u;                            \
            return q8_values(half_of(words.d[block >> 1], block), words.d[at >> 1], high, at);     \
        }                                                                                          \
        uvec2 w = unpack32(memory.d[e >> 2]);                                                      \
        return vec4(unpack2(name##_dtype, w.x), unpack2(name##_dtype, w.y));                       \
    }                                                                                              \
    float name##_far(uint e)                                                                       \
    {                                                                                              \
        FarWords memory = FarWords(bindings.place[ID].xy);                                         \
        if (name##_dtype == DTYPE_F32)                                                             \
            return uintBitsToFloat(memory.d[e]);                                                   \
        vec2 v = unpack2(name##_dtype, memory.d[e >> 1]);                                          \
        return (e & 1u) != 0u ? v.y : v.x;                                                         \
    }

#define RHUMB_ADDRESS_STORE(name, ID)                                                              \
    void name##_far_store4(uint e, vec4 v)                                                         \
    {                                                                                              \
        FarWrites memory = FarWrites(bindings.place[ID].xy);                                       \
        if (name##_dtype == DTYPE_F32) {                                                           \
            memory.d[e >> 1] = pack64(floatBitsToUint(v.xy));                                      \
            memory.d[(e >> 1) + 1u] = pack64(floatBitsToUint(v.zw));                               \
        } else {                                                                                   \
            memory.d[e >> 2] = pack64(uvec2(pack2(name##_dtype, v.xy), pack2(name##_dtype, v.zw))); \
        }                                                                                          \
    }
