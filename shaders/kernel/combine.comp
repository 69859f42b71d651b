#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
// COMBINE, and the second stage of attention over slices of the keys: parts of a row's softmax, each
// over keys of its own, become one row.
//
//   M = max_p m_p,  t = sum_p s_p exp(m_p - M),  O = sum_p exp(m_p - M) O_p / t,  LSE = M + ln t
//
//   COMBINE          O_p in PARTS [P B, H, Lq, DV], m_p = PART_LSE {1, P B, H, Lq}, s_p = 1
//   slices           {O_p, m_p, s_p} in WORKSPACE: lib/slices.glsl
//   O [B, H, Lq, DV]
//
// An invocation has COMBINE_CHANNELS channels of a row, and adds its parts in ascending order. A part
// without keys has m_p below HIDDEN_BELOW, and its O_p is not looked at.
#include "rhumb_shared.h"
#include "lib/io.glsl"
#include "lib/position.glsl"
#include "lib/rows.glsl"
#include "lib/place.glsl"
#include "lib/slices.glsl"
#include "lib/logit.glsl"

layout(local_size_x = COMBINE_INVOCATIONS) in;

RHUMB_READ_VIEW(parts, VIEW_PARTS)
RHUMB_READ_VIEW(part_lse, VIEW_PART_LSE)
RHUMB_READ_VIEW(workspace, VIEW_WORKSPACE)
RHUMB_WRITE_VIEW(o, VIEW_O)

struct Row {
    uint b;
    uint h;
    uint a;
};

uint first_of_slice(Row row, uint p)
{
    return slice_at(workspace_at(0u, 0u, 0u), row.b, row.h, row.a, p);
}

// {m_p, s_p}, m_p LOWEST where the part has no keys. -infinity by its bits, since a plain device may
// not have it.
vec2 state_of(Row row, uint p)
{
    if (has_view(VIEW_WORKSPACE)) {
        uint e = first_of_slice(row, p) + constants.value_dim;
        return vec2(workspace_load(e), workspace_load(e + 1u));
    }
    uint bits = part_lse_word(part_lse_at(0u, p * push.batch + row.b, row.h) + row.a);
    return vec2(bits == 0xff800000u ? LOWEST : uintBitsToFloat(bits), 1.0);
}

vec2 values_of(Row row, uint p, uint d, bool second)
{
    if (has_view(VIEW_WORKSPACE)) {
        uint e = first_of_slice(row, p) + d;
        return vec2(workspace_load(e), second ? workspace_load(e + 1u) : 0.0);
    }
    uint e = parts_at(p * push.batch + row.b, row.h, row.a) + d;
    return vec2(parts_load(e), second ? parts_load(e + 1u) : 0.0);
}

void main()
{
    const float unit = has_view(VIEW_WORKSPACE) ? 1.0 : LOG2_E;
    uint id = group_id() * COMBINE_INVOCATIONS + gl_LocalInvocationID.x;
    uint units = (constants.value_dim + COMBINE_CHANNELS - 1u) / COMBINE_CHANNELS;
    uint d = (id % units) * COMBINE_CHANNELS;
    uint rest = id / units;
    uint rows = uint(push.max_q_length);
    Row row = Row(rest / rows / constants.heads, rest / rows % constants.heads, rest % rows);
    if (row.b >= push.batch)
        return;
    if (int(row.a) >= place_entry(row.b, -RHUMB_MAX_LENGTH, false, 0u, 1u).q)
        return;
    uvec2 place = query_place(row.b, row.a);

    float top = LOWEST;
    for (uint p = 0u; p < push.slices; p++)
        top = max(top, state_of(row, p).x);
    float sum = 0.0;
    vec2 x = vec2(0.0);
    bool second = d + 1u < constants.value_dim;
    for (uint p = 0u; p < push.slices; p++) {
        vec2 state = state_of(row, p);
        if (state.x < HIDDEN_BELOW)
            continue;
        float w = state.x == top ? 1.0 : exp2((state.x - top) * unit);
        sum += w * state.y;
        x += w * values_of(row, p, d, second);
    }
    if (has_view(VIEW_WORKSPACE)) {
        x *= row_factor(row.h, top, sum);
        if (d == 0u && has_view(VIEW_LSE))
            store_lse(place.x, row.h, place.y, top, sum);
    } else {
        bool none = top < HIDDEN_BELOW;
        x *= none ? 0.0 : 1.0 / sum;
        if (d == 0u && has_view(VIEW_LSE))
            lse_store_bits(lse_at(0u, place.x, row.h) + place.y,
                           none ? 0xff800000u : floatBitsToUint(top + LN_2 * log2(sum)));
    }
    o_store4(o_at(place.x, row.h, place.y) + d, vec4(x, 0.0, 0.0), second ? 2u : 1u);
}
