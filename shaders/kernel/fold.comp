#version 450
#extension GL_GOOGLE_include_directive : require
// PROJECT, what follows with TABLE_SCALAR: R[r, h] = (w_h - u_h) . Y[h, r]
//
// Attention may then use q + u for both products: (q + w) . A = (q + u) . A + R. Reads Y as it was
// stored, rounded to its dtype, as attention will. One invocation makes one number.
#include "rhumb_shared.h"
#include "lib/io.glsl"

layout(local_size_x_id = SPEC_WORKGROUP) in;

RHUMB_READ_VIEW(y, VIEW_O)
RHUMB_READ_VIEW(u, VIEW_CONTENT_BIAS)
RHUMB_READ_VIEW(w, VIEW_POSITION_BIAS)
RHUMB_WRITE_VIEW(r, VIEW_TABLE_SCALAR)

void main()
{
    uint id = group_id() * gl_WorkGroupSize.x +
              gl_LocalInvocationID.x;
    uint h = id % constants.heads;
    uint row = id / constants.heads;
    if (row >= uint(push.q_length))
        return;
    uint y_row = y_at(0u, h, row);
    uint u_row = u_at(0u, 0u, h);
    uint w_row = w_at(0u, 0u, h);
    float sum = 0.0;
    for (uint c = 0u; c < constants.head_dim; c++)
        sum += (w_load(w_row + c) - u_load(u_row + c)) * y_load(y_row + c);
    r_store4(r_at(0u, 0u, row) + h, vec4(sum), 1u);
}
