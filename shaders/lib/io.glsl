// Buffer access. All storage views live in one descriptor array; which slot, dtype and place a view
// has are specialisation constants and the bindings block. float32, float16 and bfloat16 are read
// from and written to 32-bit words, so that no 16-bit feature is needed. Of q8_0 rows are whole
// blocks: there e is counted from the view's first element, and four elements start at a multiple
// of 4.
//
// RHUMB_READ_VIEW(name, ID) defines, for e an element index from the start of the descriptor:
//   name_load(e)             one element as float
//   name_load4(e)            four elements, any alignment; reads no word that holds none of them
//   name_load4_aligned(e)    four elements, e a multiple of 4
//   name_load_quad(q)        the same by their number q = e / 4
//   name_raw_quad(q)         the same as they are stored (16-bit: in .xy), of q8_0 converted already;
//                            name_of_raw(raw) converts
//   name_word(e)             the 32-bit element of a 4-byte view
//   name_bits(e)             one element as it is stored
//   name_at(b, h, l)         index of the first element of a row
//   name_quad_at(b, h, l)    a quarter of it, where rows start at multiples of 4. Elements before a
//                            descriptor's start are negative, so that only a sum is divided
//   name_between_heads()     elements from a row to that of the next head
// RHUMB_WRITE_VIEW(name, ID) defines:
//   name_store4(e, v, n)     the first n (0..4) elements of v, any alignment
//   name_store4_aligned(e, v), name_store2_aligned(e, v), name_store_quad(q, v)
//   name_store_bits(e, bits), name_store_raw_quad(q, raw)
//   name_at(b, h, l), name_quad_at(b, h, l), name_between_heads()
// RHUMB_COUNT_VIEW(name, ID) defines name_add(count): an atomic sum in the view's only element.
// A 16-bit element that shares its word with elements of others is written by two atomics that
// leave the other half alone at every moment.
//
// A view's functions are made by macros because a slot must stay a constant: passed as an argument
// it would become a dynamic index into the array, which is a feature of its own.

layout(constant_id = SPEC_SLOT_COUNT) const uint SLOT_COUNT = 4u;
layout(constant_id = SPEC_VIEWS) const uint VIEWS = 0u;
layout(constant_id = SPEC_ALIGNED) const uint ALIGNED = 0u;

// Work in place reads what it writes, so nothing may be promised about aliasing there.
#ifdef RHUMB_IN_PLACE
#define RHUMB_READ_QUALIFIERS
#define RHUMB_WRITE_QUALIFIERS
#else
#define RHUMB_READ_QUALIFIERS restrict readonly
#define RHUMB_WRITE_QUALIFIERS restrict writeonly
#endif

layout(set = 0, binding = BINDING_MEMORY, std430)
    RHUMB_READ_QUALIFIERS buffer ReadWords { uint d[]; } read1[SLOT_COUNT];
layout(set = 0, binding = BINDING_MEMORY, std430)
    RHUMB_READ_QUALIFIERS buffer ReadPairs { uvec2 d[]; } read2[SLOT_COUNT];
layout(set = 0, binding = BINDING_MEMORY, std430)
    RHUMB_READ_QUALIFIERS buffer ReadQuads { uvec4 d[]; } read4[SLOT_COUNT];
layout(set = 0, binding = BINDING_MEMORY, std430)
    RHUMB_WRITE_QUALIFIERS buffer WriteWords { uint d[]; } write1[SLOT_COUNT];
layout(set = 0, binding = BINDING_MEMORY, std430)
    RHUMB_WRITE_QUALIFIERS buffer WritePairs { uvec2 d[]; } write2[SLOT_COUNT];
layout(set = 0, binding = BINDING_MEMORY, std430)
    RHUMB_WRITE_QUALIFIERS buffer WriteQuads { uvec4 d[]; } write4[SLOT_COUNT];
layout(set = 0, binding = BINDING_MEMORY, std430) buffer Atomics { uint d[]; } atomics[SLOT_COUNT];

layout(set = 0, binding = BINDING_CONSTANTS, std140) uniform Constants {
    rhumb_constants_block constants;
};
layout(set = 0, binding = BINDING_BINDINGS, std140) uniform Bindings {
    rhumb_bindings_block bindings;
};
layout(push_constant, std430) uniform Push { rhumb_push push; };

// Number of this work group in its record, which may be cut into several dispatches.
uint group_id()
{
    return push.first_group + gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x;
}

bool has_view(uint id)
{
    return (VIEWS & (1u << id)) != 0u;
}

// Two 16-bit elements of a word.
vec2 unpack2(uint dtype, uint word)
{
    return dtype == DTYPE_F16
               ? unpackHalf2x16(word)
               : vec2(uintBitsToFloat(word << 16), uintBitsToFloat(word & 0xffff0000u));
}

// Round to nearest, ties to even, on every device: packHalf2x16 leaves its rounding to the driver.
uint f16_bits(float f)
{
    uint bits = floatBitsToUint(f);
    uint sign = (bits >> 16) & 0x8000u;
    uint a = bits & 0x7fffffffu;
    if (a > 0x7f800000u)
        return sign | 0x7e00u;
    if (a >= 0x477ff000u) // rounds to 65536 or more
        return sign | 0x7c00u;
    // a half denormal: adding 0.5 leaves its multiple of 2^-24 in the low bits
    if (a < 0x38800000u)
        return sign | (floatBitsToUint(uintBitsToFloat(a) + 0.5) - 0x3f000000u);
    return sign | ((a - 0x38000000u + 0xfffu + ((a >> 13) & 1u)) >> 13);
}

uint bf16_bits(float f)
{
    uint bits = floatBitsToUint(f);
    if ((bits & 0x7fffffffu) > 0x7f800000u)
        return (bits >> 16) | 0x40u;
    return (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
}

uint pack1(uint dtype, float f)
{
    return dtype == DTYPE_F16 ? f16_bits(f) : bf16_bits(f);
}

uint pack2(uint dtype, vec2 v)
{
    return pack1(dtype, v.x) | (pack1(dtype, v.y) << 16);
}

// q8_0: half words from the start of the descriptor to the block of element e, {scale, 32 bytes}.
// `first`: bytes to the first block, which are even.
uint q8_block(uint first, uint e)
{
    return (first >> 1) + (Q8_BYTES / 2u) * (e / Q8_ELEMENTS);
}

uint half_of(uint word, uint at)
{
    return (word >> ((at & 1u) * 16u)) & 0xffffu;
}

// Four signed bytes from half word `at` on, which begins in `low`, times the scale.
vec4 q8_values(uint scale, uint low, uint high, uint at)
{
    int x = int((at & 1u) != 0u ? (low >> 16) | (high << 16) : low);
    return unpackHalf2x16(scale).x * vec4(bitfieldExtract(x, 0, 8), bitfieldExtract(x, 8, 8),
                                          bitfieldExtract(x, 16, 8), x >> 24);
}

#define RHUMB_VIEW_COMMON(name, ID)                                                                \
    layout(constant_id = SPEC_SLOT + ID) const uint name##_slot = 0u;                              \
    layout(constant_id = SPEC_DTYPE + ID) const uint name##_dtype = 0u;                            \
    uint name##_at(uint b, uint h, uint l)                                                         \
    {                                                                                              \
        uvec4 v = bindings.view[ID];                                                               \
        uint first = name##_dtype == DTYPE_Q8_0 ? 0u : v.w;                                        \
        first -= ID <= VIEW_O ? push.shift[ID & 3] : 0u;                                           \
        return first + b * v.x + h * v.y + l * v.z;                                                \
    }                                                                                              \
    uint name##_quad_at(uint b, uint h, uint l)                                                    \
    {                                                                                              \
        return (name##_at(b, h, 0u) >> 2) + l * (bindings.view[ID].z >> 2);                        \
    }                                                                                              \
    uint name##_between_heads()                                                                    \
    {                                                                                              \
        return bindings.view[ID].y;                                                                \
    }

#define RHUMB_COUNT_VIEW(name, ID)                                                                 \
    layout(constant_id = SPEC_SLOT + ID) const uint name##_slot = 0u;                              \
    void name##_add(uint count)                                                                    \
    {                                                                                              \
        atomicAdd(atomics[name##_slot].d[bindings.view[ID].w], count);                             \
    }

#define RHUMB_READ_VIEW(name, ID)                                                                  \
    RHUMB_VIEW_COMMON(name, ID)                                                                    \
    uint name##_word(uint e)                                                                       \
    {                                                                                              \
        return read1[name##_slot].d[e];                                                            \
    }                                                                                              \
    uint name##_bits(uint e)                                                                       \
    {                                                                                              \
        if (name##_dtype == DTYPE_F32)                                                             \
            return read1[name##_slot].d[e];                                                        \
        return (read1[name##_slot].d[e >> 1] >> ((e & 1u) * 16u)) & 0xffffu;                       \
    }                                                                                              \
    uint name##_half(uint at)                                                                      \
    {                                                                                              \
        return half_of(read1[name##_slot].d[at >> 1], at);                                         \
    }                                                                                              \
    vec4 name##_q8(uint e)                                                                         \
    {                                                                                              \
        uint block = q8_block(bindings.view[ID].w, e);                                             \
        uint at = block + 1u + (e % Q8_ELEMENTS) / 2u;                                             \
        uint low = read1[name##_slot].d[at >> 1];                                                  \
        uint high = (at & 1u) != 0u ? read1[name##_slot].d[(at >> 1) + 1u] : 0u;                   \
        return q8_values(name##_half(block), low, high, at);                                       \
    }                                                                                              \
    float name##_load(uint e)                                                                      \
    {                                                                                              \
        if (name##_dtype == DTYPE_F32)                                                             \
            return uintBitsToFloat(read1[name##_slot].d[e]);                                       \
        if (name##_dtype == DTYPE_Q8_0)                                                            \
            return name##_q8(e & ~3u)[e & 3u];                                                     \
        return unpack2(name##_dtype, name##_bits(e)).x;                                            \
    }                                                                                              \
    vec4 name##_load4(uint e)                                                                      \
    {                                                                                              \
        if (name##_dtype == DTYPE_F32)                                                             \
            return uintBitsToFloat(                                                                \
                uvec4(read1[name##_slot].d[e], read1[name##_slot].d[e + 1u],                       \
                      read1[name##_slot].d[e + 2u], read1[name##_slot].d[e + 3u]));                \
        if (name##_dtype == DTYPE_Q8_0)                                                            \
            return name##_q8(e);                                                                   \
        uvec2 w = uvec2(read1[name##_slot].d[e >> 1], read1[name##_slot].d[(e >> 1) + 1u]);        \
        if ((e & 1u) != 0u)                                                                        \
            w = uvec2((w.x >> 16) | (w.y << 16),                                                   \
                      (w.y >> 16) | (read1[name##_slot].d[(e >> 1) + 2u] << 16));                  \
        return vec4(unpack2(name##_dtype, w.x), unpack2(name##_dtype, w.y));                       \
    }                                                                                              \
    uvec4 name##_raw_quad(uint q)                                                                  \
    {                                                                                              \
        if (name##_dtype == DTYPE_F32)                                                             \
            return read4[name##_slot].d[q];                                                        \
        if (name##_dtype == DTYPE_Q8_0)                                                            \
            return floatBitsToUint(name##_q8(4u * q));                                             \
        return uvec4(read2[name##_slot].d[q], 0u, 0u);                                             \
    }                                                                                              \
    vec4 name##_of_raw(uvec4 raw)                                                                  \
    {                                                                                              \
        if (name##_dtype == DTYPE_F32 || name##_dtype == DTYPE_Q8_0)                               \
            return uintBitsToFloat(raw);                                                           \
        return vec4(unpack2(name##_dtype, raw.x), unpack2(name##_dtype, raw.y));                   \
    }                                                                                              \
    vec4 name##_load_quad(uint q)                                                                  \
    {                                                                                              \
        return name##_of_raw(name##_raw_quad(q));                                                  \
    }                                                                                              \
    vec4 name##_load4_aligned(uint e)                                                              \
    {                                                                                              \
        return name##_load_quad(e >> 2);                                                           \
    }

#define RHUMB_WRITE_VIEW(name, ID)                                                                 \
    RHUMB_VIEW_COMMON(name, ID)                                                                    \
    void name##_store_bits(uint e, uint bits)                                                      \
    {                                                                                              \
        if (name##_dtype == DTYPE_F32) {                                                           \
            write1[name##_slot].d[e] = bits;                                                       \
            return;                                                                                \
        }                                                                                          \
        uint shift = (e & 1u) * 16u;                                                               \
        atomicAnd(atomics[name##_slot].d[e >> 1], ~(0xffffu << shift));                            \
        atomicOr(atomics[name##_slot].d[e >> 1], bits << shift);                                   \
    }                                                                                              \
    void name##_store_raw_quad(uint q, uvec4 raw)                                                  \
    {                                                                                              \
        if (name##_dtype == DTYPE_F32)                                                             \
            write4[name##_slot].d[q] = raw;                                                        \
        else                                                                                       \
            write2[name##_slot].d[q] = raw.xy;                                                     \
    }                                                                                              \
    void name##_store_half(uint e, float f)                                                        \
    {                                                                                              \
        name##_store_bits(e, pack1(name##_dtype, f));                                              \
    }                                                                                              \
    void name##_store4(uint e, vec4 v, uint n)                                                     \
    {                                                                                              \
        if (name##_dtype == DTYPE_F32) {                                                           \
            for (uint i = 0u; i < n; i++)                                                          \
                write1[name##_slot].d[e + i] = floatBitsToUint(v[i]);                              \
            return;                                                                                \
        }                                                                                          \
        uint i = 0u;                                                                               \
        if ((e & 1u) != 0u && n > 0u) {                                                            \
            name##_store_half(e, v.x);                                                             \
            i = 1u;                                                                                \
        }                                                                                          \
        for (; i + 1u < n; i += 2u)                                                                \
            write1[name##_slot].d[(e + i) >> 1] = pack2(name##_dtype, vec2(v[i], v[i + 1u]));      \
        if (i < n)                                                                                 \
            name##_store_half(e + i, v[i]);                                                        \
    }                                                                                              \
    void name##_store_quad(uint q, vec4 v)                                                         \
    {                                                                                              \
        if (name##_dtype == DTYPE_F32)                                                             \
            write4[name##_slot].d[q] = floatBitsToUint(v);                                         \
        else                                                                                       \
            write2[name##_slot].d[q] =                                                             \
                uvec2(pack2(name##_dtype, v.xy), pack2(name##_dtype, v.zw));                       \
    }                                                                                              \
    void name##_store4_aligned(uint e, vec4 v)                                                     \
    {                                                                                              \
        name##_store_quad(e >> 2, v);                                                              \
    }                                                                                              \
    void name##_store2_aligned(uint e, vec2 v)                                                     \
    {                                                                                              \
        if (name##_dtype == DTYPE_F32)                                                             \
            write2[name##_slot].d[e >> 1] = floatBitsToUint(v);                                    \
        else                                                                                       \
            write1[name##_slot].d[e >> 1] = pack2(name##_dtype, v);                                \
    }
