#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
// ROTATE: y = x turned by position times frequency, pair by pair (spec: RoFormer, section 3.2.2).
//
//   pair i of row (b, h, l):  angle = p f_i,  x' = m (x cos - y sin),  y' = m (x sin + y cos)
//   p = POSITIONS_Q[b, l], or q_offset + l;  inverse: -sin
//   channels of pair i:  interleaved o + 2i, o + 2i + 1;  half o + i, o + i + R/2
//
// Q and K [B, H, L, D] in one dispatch, each out of place or in place. One invocation turns
// ROTATE_PAIRS pairs of ROTATE_HEADS heads, which share their angles, or copies ROTATE_COPY
// untouched channels. Invocations run over (head group, row, part of the row, batch), parts of a
// row fastest.
#define RHUMB_IN_PLACE
#include "rhumb_shared.h"
#include "lib/io.glsl"
#include "lib/position.glsl"
#include "lib/trig.glsl"

layout(local_size_x_id = SPEC_WORKGROUP) in;
layout(constant_id = SPEC_PAIRING) const uint PAIRING = PAIRING_HALF;
layout(constant_id = SPEC_IN_PLACE) const uint IN_PLACE = 0u;

RHUMB_READ_VIEW(q, VIEW_Q)
RHUMB_READ_VIEW(k, VIEW_K)
RHUMB_WRITE_VIEW(q_out, VIEW_Q_OUT)
RHUMB_WRITE_VIEW(k_out, VIEW_K_OUT)

vec4 load(bool is_k, uint e, uint n)
{
    if (ALIGNED != 0u)
        return is_k ? k_load4_aligned(e) : q_load4_aligned(e);
    vec4 v = vec4(0.0);
    [[unroll]] for (uint i = 0u; i < 4u; i++)
        if (i < n)
            v[i] = is_k ? k_load(e + i) : q_load(e + i);
    return v;
}

void store(bool is_k, uint e, vec4 v, uint n)
{
    if (ALIGNED != 0u) {
        if (is_k)
            k_out_store4_aligned(e, v);
        else
            q_out_store4_aligned(e, v);
    } else if (is_k) {
        k_out_store4(e, v, n);
    } else {
        q_out_store4(e, v, n);
    }
}

void rotate(bool is_k, uint b, uint first_head, uint head_count, uint l, uint first_pair, int p)
{
    uint pairs = constants.rotary_dim / 2u;
    uint n = min(uint(ROTATE_PAIRS), pairs - first_pair);
    uint window = constants.rotary_offset;
    uint x_at, y_at, x_count, y_count; // the two runs of four channels that hold the pairs
    if (PAIRING == PAIRING_HALF) {
        x_at = window + first_pair;
        y_at = x_at + pairs;
        x_count = n;
        y_count = n;
    } else {
        x_at = window + 2u * first_pair;
        y_at = x_at + 4u;
        x_count = min(2u * n, 4u);
        y_count = 2u * n - x_count;
    }

    vec4 x[ROTATE_HEADS];
    vec4 y[ROTATE_HEADS];
    [[unroll]] for (uint i = 0u; i < ROTATE_HEADS; i++) {
        uint h = first_head + min(i, head_count - 1u);
        uint row = is_k ? k_at(b, h, l) : q_at(b, h, l);
        x[i] = load(is_k, row + x_at, x_count);
        y[i] = y_count > 0u ? load(is_k, row + y_at, y_count) : vec4(0.0);
    }

    vec4 c, s;
    [[unroll]] for (uint i = 0u; i < ROTATE_PAIRS; i++) {
        vec2 cs = rotary_cos_sin(p, min(first_pair + i, pairs - 1u));
        c[i] = cs.x;
        s[i] = (push.flags & FLAG_INVERSE) != 0u ? -cs.y : cs.y;
    }

    [[unroll]] for (uint i = 0u; i < ROTATE_HEADS; i++) {
        if (i < head_count) {
            uint h = first_head + i;
            uint row = is_k ? k_out_at(b, h, l) : q_out_at(b, h, l);
            vec4 u, v;
            if (PAIRING == PAIRING_HALF) {
                u = x[i] * c - y[i] * s;
                v = x[i] * s + y[i] * c;
            } else {
                vec4 a = vec4(x[i].xz, y[i].xz);
                vec4 d = vec4(x[i].yw, y[i].yw);
                vec4 even = a * c - d * s;
                vec4 odd = a * s + d * c;
                u = vec4(even.x, odd.x, even.y, odd.y);
                v = vec4(even.z, odd.z, even.w, odd.w);
            }
            store(is_k, row + x_at, u, x_count);
            if (y_count > 0u)
                store(is_k, row + y_at, v, y_count);
        }
    }
}

// Untouched channels, bit for bit where both sides have one dtype.
void copy(bool is_k, uint b, uint first_head, uint head_count, uint l, uint part)
{
    uint first = part * ROTATE_COPY; // counted over the untouched channels only
    uint last = min(first + ROTATE_COPY, constants.head_dim - constants.rotary_dim);
    bool same = is_k ? k_dtype == k_out_dtype : q_dtype == q_out_dtype;
    for (uint h = first_head; h < first_head + head_count; h++) {
        uint from = is_k ? k_at(b, h, l) : q_at(b, h, l);
        uint to = is_k ? k_out_at(b, h, l) : q_out_at(b, h, l);
        for (uint j = first; j < last; j += ALIGNED != 0u ? 4u : 1u) {
            uint channel = j < constants.rotary_offset ? j : j + constants.rotary_dim;
            if (!same)
                store(is_k, to + channel, load(is_k, from + channel, 1u), 1u);
            else if (ALIGNED != 0u && is_k)
                k_out_store_quad_aligned(to + channel, k_quad_aligned(from + channel));
            else if (ALIGNED != 0u)
                q_out_store_quad_aligned(to + channel, q_quad_aligned(from + channel));
            else if (is_k)
                k_out_store_bits(to + channel, k_bits(from + channel));
            else
                q_out_store_bits(to + channel, q_bits(from + channel));
        }
    }
}

void main()
{
    uint id = (gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x) * gl_WorkGroupSize.x +
              gl_LocalInvocationID.x;
    uint rotary_parts = (constants.rotary_dim / 2u + ROTATE_PAIRS - 1u) / ROTATE_PAIRS;
    uint copy_parts = (constants.head_dim - constants.rotary_dim + ROTATE_COPY - 1u) / ROTATE_COPY;
    bool all_in_place = (VIEWS & ~IN_PLACE & ((1u << VIEW_Q) | (1u << VIEW_K))) == 0u;
    uint parts = rotary_parts + (all_in_place ? 0u : copy_parts);
    uint q_groups = has_view(VIEW_Q) ? (constants.heads + ROTATE_HEADS - 1u) / ROTATE_HEADS : 0u;
    uint k_groups = has_view(VIEW_K) ? (constants.kv_heads + ROTATE_HEADS - 1u) / ROTATE_HEADS : 0u;

    uint part = id % parts;
    uint rest = id / parts;
    uint l = rest % uint(push.max_q_length);
    rest /= uint(push.max_q_length);
    uint group = rest % (q_groups + k_groups);
    uint b = rest / (q_groups + k_groups);
    if (b >= push.batch)
        return;
    Lengths n = lengths_of(b, false, part == 0u && l == 0u && group == 0u);
    if (int(l) >= n.q)
        return;

    bool is_k = group >= q_groups;
    uint first_head = (is_k ? group - q_groups : group) * ROTATE_HEADS;
    uint head_count =
        min(uint(ROTATE_HEADS), (is_k ? constants.kv_heads : constants.heads) - first_head);
    if (part < rotary_parts)
        rotate(is_k, b, first_head, head_count, l, part * ROTATE_PAIRS,
               position_q(b, l, n.q_offset));
    else if ((IN_PLACE & (1u << (is_k ? VIEW_K : VIEW_Q))) == 0u)
        copy(is_k, b, first_head, head_count, l, part - rotary_parts);
}
