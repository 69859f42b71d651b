#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
// ROTATE: y = x turned by position times frequency, pair by pair (spec: RoFormer, section 3.2.2).
//
//   pair i of row (b, h, l):  angle = p f_i,  x' = m (x cos - y sin),  y' = m (x sin + y cos)
//   p = POSITIONS_Q[b, l], or q_offset + l;  inverse: -sin
//   channels of pair i:  interleaved o + 2i, o + 2i + 1;  half o + i, o + i + R/2;  or read from
//   the first and written to the second
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

// Where the pairs of an invocation lie in a row: two runs of up to four channels.
struct Run {
    uint x_at, x_count;
    uint y_at, y_count;
};

Run run_of(uint segment, uint pairs, uint first_pair, bool halves)
{
    uint n = min(uint(ROTATE_PAIRS), pairs - first_pair);
    uint window = constants.rotary_offset + segment * 2u * pairs;
    if (halves) {
        uint x_at = window + first_pair;
        return Run(x_at, n, x_at + pairs, n);
    }
    uint x_at = window + 2u * first_pair;
    uint x_count = min(2u * n, 4u);
    return Run(x_at, x_count, x_at + 4u, 2u * n - x_count);
}

// Turns the pairs in two runs of channels.
void turn(inout vec4 x, inout vec4 y, vec4 c, vec4 s)
{
    vec4 a = x;
    vec4 d = y;
    if (PAIRING != PAIRING_HALF) {
        a = vec4(x.xz, y.xz);
        d = vec4(x.yw, y.yw);
    }
    vec4 u = a * c - d * s;
    vec4 v = a * s + d * c;
    x = PAIRING == PAIRING_INTERLEAVED ? vec4(u.x, v.x, u.y, v.y) : u;
    y = PAIRING == PAIRING_INTERLEAVED ? vec4(u.z, v.z, u.w, v.w) : v;
}

#define IN(f) q_##f
#define OUT(f) q_out_##f
#define FN(f) f##_q
#include "kernel/rotate_tensor.glsl"
#undef IN
#undef OUT
#undef FN
#define IN(f) k_##f
#define OUT(f) k_out_##f
#define FN(f) f##_k
#include "kernel/rotate_tensor.glsl"

void main()
{
    uint id = (gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x) * gl_WorkGroupSize.x +
              gl_LocalInvocationID.x;
    uint pairs = constants.rotary_dim / 2u / constants.segments; // of a segment
    uint segment_parts = (pairs + ROTATE_PAIRS - 1u) / ROTATE_PAIRS;
    uint rotary_parts = segment_parts * constants.segments;
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
    Lengths n = lengths_of(b, false, 0, part == 0u && l == 0u && group == 0u);
    if (int(l) >= n.q)
        return;

    // A constant where the plan has one tensor: the other's code is gone then.
    bool is_k = has_view(VIEW_K) && (!has_view(VIEW_Q) || group >= q_groups);
    uint first_head = (is_k ? group - q_groups : group) * ROTATE_HEADS;
    uint head_count =
        min(uint(ROTATE_HEADS), (is_k ? constants.kv_heads : constants.heads) - first_head);
    if (part >= rotary_parts) {
        if ((IN_PLACE & (1u << (is_k ? VIEW_K : VIEW_Q))) != 0u)
            return;
        if (is_k)
            copy_k(b, first_head, head_count, l, part - rotary_parts);
        else
            copy_q(b, first_head, head_count, l, part - rotary_parts);
        return;
    }

    uint segment = part / segment_parts;
    uint first_pair = part % segment_parts * ROTATE_PAIRS;
    vec4 c, s;
    [[unroll]] for (uint i = 0u; i < ROTATE_PAIRS; i++) {
        uint pair = segment * pairs + min(first_pair + i, pairs - 1u);
        vec2 cs = rotary_cos_sin(rotary_position(b, l, n.q_offset, pair), pair, is_k);
        c[i] = cs.x;
        s[i] = (push.flags & FLAG_INVERSE) != 0u ? -cs.y : cs.y;
    }
    Run from = run_of(segment, pairs, first_pair, PAIRING == PAIRING_HALF);
    Run to = run_of(segment, pairs, first_pair, PAIRING != PAIRING_INTERLEAVED);
    if (is_k)
        rotate_k(b, first_head, head_count, l, from, to, c, s);
    else
        rotate_q(b, first_head, head_count, l, from, to, c, s);
}
