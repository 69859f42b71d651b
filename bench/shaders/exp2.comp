#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
// The most exp2 in float32, what softmax needs of a device beside multiply-adds: EXP2_CHAINS
// independent chains of EXP2_STEPS in registers. A step is x = exp2(-x), which stays between 0 and 1
// and so never meets a fast path for large numbers.
#include "bench_shared.h"

layout(local_size_x_id = SPEC_INVOCATIONS) in;

layout(set = 0, binding = 0, std430) restrict readonly buffer A { float a[]; };
layout(set = 0, binding = 1, std430) restrict writeonly buffer B { float b[]; };

void main()
{
    float x[EXP2_CHAINS];
    [[unroll]] for (uint i = 0u; i < EXP2_CHAINS; i++)
        x[i] = a[0] / float(gl_LocalInvocationID.x + i + 1u);
    [[dont_unroll]] for (uint step = 0u; step < EXP2_STEPS; step += EXP2_UNROLL) {
        [[unroll]] for (uint j = 0u; j < EXP2_UNROLL; j++) {
            [[unroll]] for (uint i = 0u; i < EXP2_CHAINS; i++)
                x[i] = exp2(-x[i]);
        }
    }
    float total = 0.0;
    [[unroll]] for (uint i = 0u; i < EXP2_CHAINS; i++)
        total += x[i];
    if (total == -1.0) // never: nothing here is negative
        b[0] = total;
}
