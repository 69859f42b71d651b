#version 450
#extension GL_GOOGLE_include_directive : require
// One work group that does next to nothing: what a dispatch and the barrier before it cost.
#include "bench_shared.h"

layout(local_size_x_id = SPEC_INVOCATIONS) in;

layout(set = 0, binding = 0, std430) restrict readonly buffer A { float a[]; };
layout(set = 0, binding = 1, std430) restrict writeonly buffer B { float b[]; };

void main()
{
    if (a[0] == -1.0) // never
        b[0] = 0.0;
}
