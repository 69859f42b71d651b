#version 450
#extension GL_EXT_control_flow_attributes : require
// Streaming limits of the memory, for storage buffers read and written as rhumb's kernels do it:
// 16 bytes an access, STREAM_QUADS accesses of an invocation in flight, neighbouring invocations
// at neighbouring addresses.
//
//   copy  b = a      read  a, summed up      write  b = constant      add  c = a + b in float32
//
// Buffers are whole work groups long: no invocation is outside.
#extension GL_GOOGLE_include_directive : require
#include "bench_shared.h"

layout(local_size_x_id = SPEC_INVOCATIONS) in;
layout(constant_id = SPEC_STREAM) const uint STREAM = STREAM_COPY;

layout(set = 0, binding = 0, std430) restrict readonly buffer A { uvec4 a[]; };
layout(set = 0, binding = 1, std430) restrict buffer B { uvec4 b[]; };
layout(set = 0, binding = 2, std430) restrict writeonly buffer C { uvec4 c[]; };

uvec4 sum(uvec4 x, uvec4 y)
{
    return floatBitsToUint(uintBitsToFloat(x) + uintBitsToFloat(y));
}

void main()
{
    uint first = gl_WorkGroupID.x * (gl_WorkGroupSize.x * STREAM_QUADS) + gl_LocalInvocationID.x;
    uvec4 x[STREAM_QUADS];
    [[unroll]] for (uint i = 0u; i < STREAM_QUADS; i++) {
        uint at = first + i * gl_WorkGroupSize.x;
        if (STREAM == STREAM_WRITE)
            x[i] = uvec4(at);
        else
            x[i] = a[at];
        if (STREAM == STREAM_ADD)
            x[i] = sum(x[i], b[at]);
    }
    if (STREAM == STREAM_READ) {
        uvec4 all = x[0];
        [[unroll]] for (uint i = 1u; i < STREAM_QUADS; i++)
            all ^= x[i];
        if (all == uvec4(1u, 2u, 3u, 4u)) // never: the buffer repeats one word
            b[0] = all;
        return;
    }
    [[unroll]] for (uint i = 0u; i < STREAM_QUADS; i++) {
        uint at = first + i * gl_WorkGroupSize.x;
        if (STREAM == STREAM_ADD)
            c[at] = x[i];
        else
            b[at] = x[i];
    }
}
