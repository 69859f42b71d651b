#version 450
#extension GL_GOOGLE_include_directive : require
// RESIZE: Y[p + Y W' + X] = sum over rows j and columns i of the source grid of
//         k(j - s_y) k(i - s_x) TABLE[p + j W + i] / (sum of k k)
//
//   s = start + index * step, in 16.48 fixed point: exact to 2^-35 up to the last of 16384 samples
//   k: linear 1 - |u|, or Keys' cubic with a = -0.75 (-0.5 with antialias); widened by `spread`
//   when shrinking with antialias. Samples beyond the edge repeat it; with antialias they are left
//   out and the weights sum to 1 by division.
//
// TABLE [prefix + h w + suffix, D], Y [prefix + H' W' + suffix, D]; prefix and suffix rows are
// copied, and with RESIZE_COPY all of them. One invocation makes four channels of a row.
#include "rhumb_shared.h"
#include "lib/io.glsl"

layout(local_size_x_id = SPEC_WORKGROUP) in;
layout(constant_id = SPEC_RESIZE) const uint RESIZE = 0u;

RHUMB_READ_VIEW(table, VIEW_TABLE)
RHUMB_WRITE_VIEW(y, VIEW_O)

// A source coordinate: index + fraction, fraction in [0, 1].
struct Sample {
    int index;
    float fraction;
};

Sample sample_at(uint i, bool columns)
{
    if ((RESIZE & RESIZE_LISTED) != 0u) {
        uint at = (columns ? LISTED_SAMPLES : 0u) + i;
        return Sample(int(constants.edges[at >> 2][at & 3u]), constants.slopes[at >> 2][at & 3u]);
    }
    uvec2 start = columns ? constants.sample_start[0].zw : constants.sample_start[0].xy;
    uvec2 step = columns ? constants.sample_step[0].zw : constants.sample_step[0].xy;
    uint high, low, carry;
    umulExtended(i, step.x, high, low);
    low = uaddCarry(low, start.x, carry);
    high += i * step.y + start.y + carry;
    int index = int(high) >> 16;
    if ((RESIZE & RESIZE_FLOOR_AT_ZERO) != 0u && index < 0)
        return Sample(0, 0.0);
    return Sample(index, float(high << 16 | low >> 16) * 2.3283064365386963e-10);
}

float kernel_at(float u)
{
    u = abs(u);
    if ((RESIZE & RESIZE_CUBIC) == 0u)
        return max(1.0 - u, 0.0);
    // Keys' polynomials by their zeros, near which Horner's rule would lose what it subtracts:
    // (a + 2) u^3 - (a + 3) u^2 + 1 and a (u^3 - 5 u^2 + 8 u - 4)
    float a = constants.cubic;
    if (u <= 1.0)
        return (1.0 - u) * (1.0 + u - (a + 2.0) * u * u);
    return u < 2.0 ? a * (u - 1.0) * (u - 2.0) * (u - 2.0) : 0.0;
}

// First and last source index with a weight.
ivec2 taps(Sample s, float spread, int size)
{
    float radius = ((RESIZE & RESIZE_CUBIC) != 0u ? 2.0 : 1.0) * spread;
    ivec2 range = s.index + ivec2(int(floor(s.fraction - radius)) + 1,
                                  int(floor(s.fraction + radius)));
    return (RESIZE & RESIZE_ANTIALIAS) != 0u ? clamp(range, ivec2(0), ivec2(size - 1)) : range;
}

float weight(Sample s, float spread, int tap)
{
    return kernel_at((float(tap - s.index) - s.fraction) / spread);
}

vec4 load(uint e, uint n)
{
    if (ALIGNED != 0u)
        return table_load4_aligned(e);
    vec4 v = vec4(0.0);
    for (uint i = 0u; i < n; i++)
        v[i] = table_load(e + i);
    return v;
}

void store(uint e, vec4 v, uint n)
{
    if (ALIGNED != 0u)
        y_store4_aligned(e, v);
    else
        y_store4(e, v, n);
}

vec4 resampled(uint row, uint channel, uint n)
{
    Sample sy = sample_at(row / constants.new_width, false);
    Sample sx = sample_at(row % constants.new_width, true);
    ivec2 size = ivec2(constants.old_height, constants.old_width);
    ivec2 rows = taps(sy, constants.spread_height, size.x);
    ivec2 columns = taps(sx, constants.spread_width, size.y);
    vec4 sum = vec4(0.0);
    float total = 0.0;
    for (int j = rows.x; j <= rows.y; j++) {
        float wy = weight(sy, constants.spread_height, j);
        for (int i = columns.x; i <= columns.y; i++) {
            float w = wy * weight(sx, constants.spread_width, i);
            ivec2 at = clamp(ivec2(j, i), ivec2(0), size - 1);
            uint source = constants.prefix_tokens + uint(at.x * size.y + at.y);
            sum += w * load(table_at(0u, 0u, source) + channel, n);
            total += w;
        }
    }
    return (RESIZE & RESIZE_ANTIALIAS) != 0u ? sum / total : sum;
}

void copy(uint from, uint to, uint n)
{
    if (table_dtype != y_dtype)
        store(to, load(from, n), n);
    else if (ALIGNED != 0u)
        y_store_raw_quad(to / 4u, table_raw_quad(from / 4u));
    else
        for (uint i = 0u; i < n; i++)
            y_store_bits(to + i, table_bits(from + i));
}

void main()
{
    uint id = group_id() * gl_WorkGroupSize.x +
              gl_LocalInvocationID.x;
    uint parts = (constants.head_dim + 3u) / 4u;
    uint channel = id % parts * 4u;
    uint row = id / parts;
    uint old_size = constants.old_height * constants.old_width;
    uint new_size = constants.new_height * constants.new_width;
    uint n = min(4u, constants.head_dim - channel);
    if (row >= constants.prefix_tokens + new_size + constants.suffix_tokens)
        return;
    uint to = y_at(0u, 0u, row) + channel;
    bool before = row < constants.prefix_tokens;
    if (before || row >= constants.prefix_tokens + new_size || (RESIZE & RESIZE_COPY) != 0u)
        copy(table_at(0u, 0u, before ? row : row - new_size + old_size) + channel, to, n);
    else
        store(to, resampled(row - constants.prefix_tokens, channel, n), n);
}
