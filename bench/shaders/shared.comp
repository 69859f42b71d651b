#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
// Reads of shared memory, 16 bytes each, neighbouring invocations at neighbouring addresses, as the
// tiles of attention have them: SHARED_STEPS an invocation, after one write and one barrier.
#include "bench_shared.h"

layout(local_size_x_id = SPEC_INVOCATIONS) in;

layout(set = 0, binding = 0, std430) restrict readonly buffer A { float a[]; };
layout(set = 0, binding = 1, std430) restrict writeonly buffer B { vec4 b[]; };

shared vec4 tile[SHARED_QUADS];

void main()
{
    uint me = gl_LocalInvocationID.x;
    for (uint i = me; i < SHARED_QUADS; i += gl_WorkGroupSize.x)
        tile[i] = vec4(a[0]) * float(i);
    barrier();
    vec4 total[SHARED_UNROLL];
    [[unroll]] for (uint j = 0u; j < SHARED_UNROLL; j++)
        total[j] = vec4(0.0);
    [[dont_unroll]] for (uint step = 0u; step < SHARED_STEPS; step += SHARED_UNROLL) {
        [[unroll]] for (uint j = 0u; j < SHARED_UNROLL; j++)
            total[j] += tile[(me + step + j) % SHARED_QUADS];
    }
    vec4 all = vec4(0.0);
    [[unroll]] for (uint j = 0u; j < SHARED_UNROLL; j++)
        all += total[j];
    if (all.x == -1.0) // never: nothing here is negative
        b[0] = all;
}
