#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
// PROJECT: Y[h, r, c] = sum over k of X[r, k] W[h, c, k] + b[h, c]
//
// X [rows, K] with K = value_dim, W [H, D, K] or [K, H, D], b [H, D], Y [H, rows, D]. An invocation
// makes PROJECT_ROWS rows of one channel; invocations run over channels fastest, so that they share
// the rows of X and, with W [K, H, D], read neighbouring weights.
#include "rhumb_shared.h"
#include "lib/io.glsl"

layout(local_size_x_id = SPEC_WORKGROUP) in;

RHUMB_READ_VIEW(x, VIEW_Q)
RHUMB_READ_VIEW(weight, VIEW_K)
RHUMB_READ_VIEW(offset, VIEW_V)
RHUMB_WRITE_VIEW(y, VIEW_O)

float weight_of(uint h, uint c, uint k)
{
    return constants.weight_layout == WEIGHT_OUT_IN ? weight_load(weight_at(0u, h, c) + k)
                                                    : weight_load(weight_at(0u, k, h) + c);
}

void main()
{
    uint id = group_id() * gl_WorkGroupSize.x +
              gl_LocalInvocationID.x;
    uint c = id % constants.head_dim;
    uint h = id / constants.head_dim % constants.heads;
    uint first = id / constants.head_dim / constants.heads * PROJECT_ROWS;
    uint rows = uint(push.q_length);
    if (first >= rows)
        return;
    uint at[PROJECT_ROWS];
    [[unroll]] for (uint i = 0u; i < PROJECT_ROWS; i++)
        at[i] = x_at(0u, 0u, min(first + i, rows - 1u));
    vec4 sum = vec4(has_view(VIEW_V) ? offset_load(offset_at(0u, 0u, h) + c) : 0.0);
    uint k = 0u;
    if (ALIGNED != 0u && constants.weight_layout == WEIGHT_OUT_IN) {
        uint w_at = weight_at(0u, h, c);
        for (; k + 4u <= constants.value_dim; k += 4u) {
            vec4 w = weight_load4_aligned(w_at + k);
            [[unroll]] for (uint i = 0u; i < PROJECT_ROWS; i++)
                sum[i] += dot(x_load4_aligned(at[i] + k), w);
        }
    }
    for (; k < constants.value_dim; k++) {
        float w = weight_of(h, c, k);
        [[unroll]] for (uint i = 0u; i < PROJECT_ROWS; i++)
            sum[i] += x_load(at[i] + k) * w;
    }
    for (uint i = 0u; i < PROJECT_ROWS && first + i < rows; i++)
        y_store4(y_at(0u, h, first + i) + c, vec4(sum[i]), 1u);
}
