#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
// The most multiply-adds in float32: MULTIPLY_ADD_CHAINS independent scalar chains of
// MULTIPLY_ADD_STEPS steps in registers. Steps are unrolled: on a software device a round of a loop
// costs a move for every value that it carries. Chains are as many as stay in 16 registers.
#include "bench_shared.h"

layout(local_size_x_id = SPEC_INVOCATIONS) in;

layout(set = 0, binding = 0, std430) restrict readonly buffer A { float a[]; };
layout(set = 0, binding = 1, std430) restrict writeonly buffer B { float b[]; };

void main()
{
    float factor = a[0]; // not known to the compiler
    float x[MULTIPLY_ADD_CHAINS];
    [[unroll]] for (uint i = 0u; i < MULTIPLY_ADD_CHAINS; i++)
        x[i] = float(gl_LocalInvocationID.x + i);
    [[dont_unroll]] for (uint step = 0u; step < MULTIPLY_ADD_STEPS; step += MULTIPLY_ADD_UNROLL) {
        [[unroll]] for (uint j = 0u; j < MULTIPLY_ADD_UNROLL; j++) {
            [[unroll]] for (uint i = 0u; i < MULTIPLY_ADD_CHAINS; i++)
                x[i] = fma(x[i], factor, 0.25);
        }
    }
    float total = 0.0;
    [[unroll]] for (uint i = 0u; i < MULTIPLY_ADD_CHAINS; i++)
        total += x[i];
    if (total == -1.0) // never: nothing here is negative
        b[0] = total;
}
