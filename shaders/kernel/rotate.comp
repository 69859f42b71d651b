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
// Q and K [B, H, L, D] in one dispatch, each out of place or in place. K_OUT may be a cache, whose
// rows are chosen as lib/cache.glsl says; V is copied into V_OUT likewise. One invocation turns
// ROTATE_PAIRS pairs of ROTATE_HEADS heads, which share their angles, or copies ROTATE_COPY
// untouched channels. Invocations run over (head group, row, part of the row, batch), parts of a
// row fastest; those that copy V come after all others.
#define RHUMB_IN_PLACE
#include "rhumb_shared.h"
#include "lib/io.glsl"
#include "lib/position.glsl"
#include "lib/cache.glsl"
#include "lib/trig.glsl"

layout(local_size_x_id = SPEC_WORKGROUP) in;
layout(constant_id = SPEC_PAIRING) const uint PAIRING = PAIRING_HALF;
layout(constant_id = SPEC_IN_PLACE) const uint IN_PLACE = 0u;

RHUMB_READ_VIEW(q, VIEW_Q)
RHUMB_READ_VIEW(k, VIEW_K)
RHUMB_WRITE_VIEW(q_out, VIEW_Q_OUT)
RHUMB_WRITE_VIEW(k_out, VIEW_K_OUT)
RHUMB_READ_VIEW(v, VIEW_V)
RHUMB_WRITE_VIEW(v_out, VIEW_V_OUT)

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

// Channels of a row that are copied: `count` of them, and from `window` on a gap.
struct Untouched {
    uint count;
    uint window;
    uint gap;
};

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
#undef IN
#undef OUT
#undef FN
#define IN(f) v_##f
#define OUT(f) v_out_##f
#define FN(f) f##_v
#include "kernel/rotate_tensor.glsl"

uint groups_of(uint heads)
{
    return (heads + ROTATE_HEADS - 1u) / ROTATE_HEADS;
}

uint copies_of(uint channels)
{
    return (channels + ROTATE_COPY - 1u) / ROTATE_COPY;
}

// A distance may have any sign, a position may not.
Lengths rotate_lengths(uint b, bool first)
{
    bool shift = (push.flags & FLAG_SHIFT) != 0u;
    return lengths_of(b, false, shift ? -NO_WINDOW : 0, first);
}

// ROTATE_COPY channels of V; lengths and rows that are skipped have been counted for K.
void copy_values(uint id)
{
    uint parts = copies_of(constants.value_dim);
    uint part = id % parts;
    uint rest = id / parts;
    uint l = rest % uint(push.max_q_length);
    rest /= uint(push.max_q_length);
    uint groups = groups_of(constants.kv_heads);
    uint first_head = rest % groups * ROTATE_HEADS;
    uint b = rest / groups;
    if (b >= push.batch)
        return;
    Lengths n = rotate_lengths(b, false);
    if (int(l) >= n.q)
        return;
    uint to_row = l;
    if (APPEND != APPEND_NONE && !find_cache_row(b, l, n.q_offset, false, to_row))
        return;
    uint head_count = min(uint(ROTATE_HEADS), constants.kv_heads - first_head);
    copy_v(b, first_head, head_count, l, to_row, Untouched(constants.value_dim, 0u, 0u), part);
}

void main()
{
    uint id = (gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x) * gl_WorkGroupSize.x +
              gl_LocalInvocationID.x;
    uint pairs = constants.rotary_dim / 2u / constants.segments; // of a segment
    uint segment_parts = (pairs + ROTATE_PAIRS - 1u) / ROTATE_PAIRS;
    uint rotary_parts = segment_parts * constants.segments;
    uint untouched = constants.head_dim - constants.rotary_dim;
    bool all_in_place = (VIEWS & ~IN_PLACE & ((1u << VIEW_Q) | (1u << VIEW_K))) == 0u;
    uint parts = rotary_parts + (all_in_place ? 0u : copies_of(untouched));
    uint q_groups = has_view(VIEW_Q) ? groups_of(constants.heads) : 0u;
    uint k_groups = has_view(VIEW_K) ? groups_of(constants.kv_heads) : 0u;
    if (has_view(VIEW_V)) {
        uint turning = parts * uint(push.max_q_length) * (q_groups + k_groups) * push.batch;
        if (id >= turning) {
            copy_values(id - turning);
            return;
        }
    }

    uint part = id % parts;
    uint rest = id / parts;
    uint l = rest % uint(push.max_q_length);
    rest /= uint(push.max_q_length);
    uint group = rest % (q_groups + k_groups);
    uint b = rest / (q_groups + k_groups);
    if (b >= push.batch)
        return;
    Lengths n = rotate_lengths(b, part == 0u && l == 0u && group == 0u);
    if (int(l) >= n.q)
        return;

    // A constant where the plan has one tensor: the other's code is gone then.
    bool is_k = has_view(VIEW_K) && (!has_view(VIEW_Q) || group >= q_groups);
    uint first_head = (is_k ? group - q_groups : group) * ROTATE_HEADS;
    uint head_count =
        min(uint(ROTATE_HEADS), (is_k ? constants.kv_heads : constants.heads) - first_head);
    uint to_row = l;
    if (APPEND != APPEND_NONE && is_k &&
        !find_cache_row(b, l, n.q_offset, part == 0u && group == q_groups, to_row))
        return;
    if (part >= rotary_parts) {
        if ((IN_PLACE & (1u << (is_k ? VIEW_K : VIEW_Q))) != 0u)
            return;
        Untouched of = Untouched(untouched, constants.rotary_offset, constants.rotary_dim);
        if (is_k)
            copy_k(b, first_head, head_count, l, to_row, of, part - rotary_parts);
        else
            copy_q(b, first_head, head_count, l, l, of, part - rotary_parts);
        return;
    }

    uint segment = part / segment_parts;
    uint first_pair = part % segment_parts * ROTATE_PAIRS;
    // One distance for all rows: the row's index, which is added to an offset, is taken off.
    int offset = (push.flags & FLAG_SHIFT) != 0u ? n.q_offset - int(l) : n.q_offset;
    vec4 c, s;
    [[unroll]] for (uint i = 0u; i < ROTATE_PAIRS; i++) {
        uint pair = segment * pairs + min(first_pair + i, pairs - 1u);
        vec2 cs = rotary_cos_sin(rotary_position(b, l, offset, pair), pair, is_k);
        c[i] = cs.x;
        s[i] = (push.flags & FLAG_INVERSE) != 0u ? -cs.y : cs.y;
    }
    Run from = run_of(segment, pairs, first_pair, PAIRING == PAIRING_HALF);
    Run to = run_of(segment, pairs, first_pair, PAIRING != PAIRING_INTERLEAVED);
    if (is_k)
        rotate_k(b, first_head, head_count, l, to_row, from, to, c, s);
    else
        rotate_q(b, first_head, head_count, l, l, from, to, c, s);
}
