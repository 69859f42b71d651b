#version 450
#extension GL_GOOGLE_include_directive : require
// PROJECT of a continuous bias (Swin V2, arXiv 2111.09883, section 3.3):
//     Y[row, h] = gain sigmoid(sum over k of W2[h, k] relu(W1[k] . c(row) + b1[k]))
//
// row = (dy + Wh - 1)(2 Ww - 1) + dx + Ww - 1; coordinate of an offset d of an axis:
// c = sign(d) log2(1 + |8 d / divisor|) / 3, and 0 where the divisor is 0.
// W1 [hidden, 2], b1 [hidden], W2 [heads, hidden], Y [rows, heads]. One invocation makes one number.
#include "rhumb_shared.h"
#include "lib/io.glsl"

layout(local_size_x_id = SPEC_WORKGROUP) in;

RHUMB_READ_VIEW(w1, VIEW_Q)
RHUMB_READ_VIEW(w2, VIEW_K)
RHUMB_READ_VIEW(b1, VIEW_V)
RHUMB_WRITE_VIEW(y, VIEW_O)

float coordinate(int d, float divisor)
{
    float u = divisor == 0.0 ? 0.0 : abs(float(d)) * 8.0 / divisor;
    float c = log2(1.0 + u) / 3.0;
    return d < 0 ? -c : c;
}

void main()
{
    uint id = group_id() * gl_WorkGroupSize.x +
              gl_LocalInvocationID.x;
    uint h = id % constants.heads;
    uint row = id / constants.heads;
    ivec2 window = ivec2(constants.window_height, constants.window_width);
    int width = 2 * window.y - 1;
    if (row >= uint((2 * window.x - 1) * width))
        return;
    vec2 c = vec2(coordinate(int(row) / width - window.x + 1, constants.spread_height),
                  coordinate(int(row) % width - window.y + 1, constants.spread_width));
    uint w2_row = w2_at(0u, 0u, h);
    float sum = 0.0;
    for (uint k = 0u; k < constants.hidden; k++) {
        uint w1_row = w1_at(0u, 0u, k);
        float unit = w1_load(w1_row) * c.x + w1_load(w1_row + 1u) * c.y +
                     b1_load(b1_at(0u, 0u, 0u) + k);
        sum += w2_load(w2_row + k) * max(unit, 0.0);
    }
    // exp of a large number is infinite, or the largest there is: both give 0.
    float value = constants.bias_gain / (1.0 + exp2(-1.4426950408889634 * clamp(sum, -80.0, 80.0)));
    y_store4(y_at(0u, 0u, row) + h, vec4(value), 1u);
}
