#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
// ROTATE: y = x turned by position times frequency, pair by pair (spec: RoFormer, section 3.2.2).
//
//   pair i of row (b, h, l):  angle = p f_i,  x' = m (x cos - y sin),  y' = m (x sin + y cos)
//   p = POSITIONS_Q[b, l], or q_offset + l;  inverse: -sin
//   ROTARY_LEARNED: angle = p[first axis] F[0, h, i] + p[second axis] F[1, h, i]
//   channels of pair i:  interleaved o + 2i, o + 2i + 1;  half o + i, o + i + R/2;  or read from
//   the first and written to the second
//   RHUMB_NORM: x is x_raw / sqrt(mean(x_raw^2) + epsilon) (gain_offset + gain), over all channels,
//   where the tensor has a gain
//
// Q and K [B, H, L, D] in one dispatch, each out of place or in place. K_OUT may be a cache, whose
// rows are chosen as lib/cache.glsl says; V is copied into V_OUT likewise. One invocation turns
// ROTATE_PAIRS pairs of ROTATE_HEADS heads, which share their angles, or copies ROTATE_COPY
// untouched channels. Invocations run over (head group, row, part of the row, batch), parts of a
// row fastest; those that copy V come after all others.
//
// ROTARY_LEARNED: an invocation has one head, as nothing is shared.
//
// RHUMB_NORM: LANES invocations, at least one for each part, share a row: each sums the squares of
// some channels, then all of them know the sums, then each turns or scales its part. In place this
// is right because a barrier lies between the last read of a sum and the first write.
#define RHUMB_IN_PLACE
#include "rhumb_shared.h"
#include "lib/io.glsl"
#include "lib/position.glsl"
#include "lib/cache.glsl"
#include "lib/trig.glsl"

layout(local_size_x_id = SPEC_WORKGROUP) in;
layout(constant_id = SPEC_PAIRING) const uint PAIRING = PAIRING_HALF;
layout(constant_id = SPEC_IN_PLACE) const uint IN_PLACE = 0u;

const uint HEADS = (ROTARY & ROTARY_LEARNED) != 0u ? 1u : ROTATE_HEADS; // of an invocation

RHUMB_READ_VIEW(q, VIEW_Q)
RHUMB_READ_VIEW(k, VIEW_K)
RHUMB_WRITE_VIEW(q_out, VIEW_Q_OUT)
RHUMB_WRITE_VIEW(k_out, VIEW_K_OUT)
RHUMB_READ_VIEW(v, VIEW_V)
RHUMB_WRITE_VIEW(v_out, VIEW_V_OUT)
RHUMB_READ_VIEW(frequencies, VIEW_FREQUENCIES)
#ifdef RHUMB_NORM
layout(constant_id = SPEC_LANES) const uint LANES = 1u;
RHUMB_READ_VIEW(q_gain, VIEW_Q_GAIN)
RHUMB_READ_VIEW(k_gain, VIEW_K_GAIN)
shared vec4 squares_of_lanes[ROTATE_INVOCATIONS];
vec4 row_scales = vec4(1.0); // 1 / sqrt(mean + epsilon) of the heads of this invocation
#endif

// n / d by the host's numbers for d, n below 2^31: a GPU has no division, and a compiler makes 17
// instructions of each.
uint divided(uint n, uint by)
{
    uint high, low;
    umulExtended(n << 1, push.divide[by], high, low);
    return high >> ((push.divide_shift >> (8u * by)) & 31u);
}

// Pairs of a segment; there are one or two.
uint segment_pairs()
{
    return constants.rotary_dim >> constants.segments;
}

// Where the pairs of an invocation lie in a row: two runs of up to four channels, from x_at and y_at on,
// which count quads of channels where accesses are aligned.
struct Run {
    uint x_at, x_count;
    uint y_at, y_count;
};

// To turn halves by minus the angle is to turn them with their roles exchanged.
bool exchanges()
{
    return PAIRING == PAIRING_HALF && (push.flags & FLAG_INVERSE) != 0u;
}

Run run_of(uint segment, uint pairs, uint part, bool halves)
{
    uint n = min(uint(ROTATE_PAIRS), pairs - part * ROTATE_PAIRS);
    if (ALIGNED != 0u) {
        uint window = constants.rotary_offset / 4u + (exchanges() ? pairs / 4u : 0u);
        uint between = !halves ? 1u : exchanges() ? 0u - pairs / 4u : pairs / 4u;
        uint x_at = window + segment * (pairs / 2u) + (halves ? part : 2u * part);
        return Run(x_at, 4u, x_at + between, halves || n > 2u ? 4u : 0u);
    }
    uint window = constants.rotary_offset + segment * 2u * pairs;
    if (halves) {
        uint x_at = window + part * ROTATE_PAIRS;
        return exchanges() ? Run(x_at + pairs, n, x_at, n) : Run(x_at, n, x_at + pairs, n);
    }
    uint x_at = window + 2u * part * ROTATE_PAIRS;
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
#define GAIN(f) q_gain_##f
#define GAIN_ID VIEW_Q_GAIN
#include "kernel/rotate_tensor.glsl"
#undef IN
#undef OUT
#undef FN
#undef GAIN
#undef GAIN_ID
#define IN(f) k_##f
#define OUT(f) k_out_##f
#define FN(f) f##_k
#define GAIN(f) k_gain_##f
#define GAIN_ID VIEW_K_GAIN
#include "kernel/rotate_tensor.glsl"
#undef IN
#undef OUT
#undef FN
#undef GAIN
#undef GAIN_ID
#define IN(f) v_##f
#define OUT(f) v_out_##f
#define FN(f) f##_v
#include "kernel/rotate_tensor.glsl"

uint groups_of(uint heads)
{
    return (heads + HEADS - 1u) / HEADS;
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
    uint first_head = rest % groups * HEADS;
    uint b = rest / groups;
    if (b >= push.batch)
        return;
    Lengths n = rotate_lengths(b, false);
    if (int(l) >= n.q)
        return;
    uint to_row = l;
    if (APPEND != APPEND_NONE && !find_cache_row(b, l, n.q_offset, false, to_row))
        return;
    uint head_count = min(HEADS, constants.kv_heads - first_head);
    copy_v(b, first_head, head_count, l, to_row, Untouched(constants.value_dim, 0u, 0u), part);
}

// A row of some heads of one tensor.
struct Place {
    bool is_k; // a constant where the plan has one tensor: the other's code is gone then
    uint b;
    uint first_head, head_count;
    uint l, to_row;
    int q_offset;
};

uint places()
{
    return (has_view(VIEW_Q) ? groups_of(constants.heads) : 0u) +
           (has_view(VIEW_K) ? groups_of(constants.kv_heads) : 0u);
}

// False if there is no such row, or it goes nowhere; `first` is true for one invocation of a row.
bool find_place(uint id, bool first, out Place p)
{
    uint q_groups = has_view(VIEW_Q) ? groups_of(constants.heads) : 0u;
    uint rest = divided(id, DIVIDE_ROWS);
    p.l = id - rest * uint(push.max_q_length);
    p.b = divided(rest, DIVIDE_PLACES);
    uint group = rest - p.b * places();
    if (p.b >= push.batch)
        return false;
    Lengths n = rotate_lengths(p.b, first && p.l == 0u && group == 0u);
    if (int(p.l) >= n.q)
        return false;
    p.q_offset = n.q_offset;
    p.is_k = has_view(VIEW_K) && (!has_view(VIEW_Q) || group >= q_groups);
    p.first_head = (p.is_k ? group - q_groups : group) * HEADS;
    p.head_count = min(HEADS, (p.is_k ? constants.kv_heads : constants.heads) - p.first_head);
    p.to_row = p.l;
    return APPEND == APPEND_NONE || !p.is_k ||
           find_cache_row(p.b, p.l, n.q_offset, first && group == q_groups, p.to_row);
}

bool has_norm(bool is_k)
{
    return has_view(is_k ? VIEW_K_GAIN : VIEW_Q_GAIN);
}

// One distance for all rows: the row's index, which is added to an offset, is taken off.
int offset_of(Place p)
{
    uint off = (push.flags & FLAG_SHIFT) != 0u ? ~0u : 0u;
    return p.q_offset - int(p.l & off);
}

// Cosine and sine of a pair; of the first head where each has angles of its own.
vec2 cos_sin_of(Place p, uint pair)
{
    int offset = offset_of(p);
    if ((ROTARY & ROTARY_LEARNED) == 0u)
        return rotary_cos_sin(rotary_position(p.b, p.l, offset, pair), pair, p.is_k);
    uint axis = axis_of(0u);
    uint first = frequencies_word(frequencies_at(0u, 0u, p.first_head) + pair);
    uint second = frequencies_word(frequencies_at(0u, 1u, p.first_head) + pair);
    return cos_sin_of_phase(
        phase_of(axis_position(p.b, p.l, offset, axis), turns_of_radians(first)) +
        phase_of(axis_position(p.b, p.l, offset, 1u - axis), turns_of_radians(second)));
}

// One part of a row: ROTATE_PAIRS pairs, or behind them ROTATE_COPY untouched channels.
void do_part(Place p, uint part)
{
    uint pairs = segment_pairs();
    uint segment_parts = (pairs + ROTATE_PAIRS - 1u) / ROTATE_PAIRS;
    uint rotary_parts = segment_parts * constants.segments;
    if (part >= rotary_parts) {
        if (!has_norm(p.is_k) && (IN_PLACE & (1u << (p.is_k ? VIEW_K : VIEW_Q))) != 0u)
            return;
        Untouched of = Untouched(constants.head_dim - constants.rotary_dim,
                                 constants.rotary_offset, constants.rotary_dim);
        if (p.is_k)
            copy_k(p.b, p.first_head, p.head_count, p.l, p.to_row, of, part - rotary_parts);
        else
            copy_q(p.b, p.first_head, p.head_count, p.l, p.l, of, part - rotary_parts);
        return;
    }

    uint segment = 0u;
    if (constants.segments > 1u) {
        segment = divided(part, DIVIDE_SEGMENT_PARTS);
        part -= segment * segment_parts;
    }
    uint first_pair = part * ROTATE_PAIRS;
    vec4 c, s;
    if (ALIGNED != 0u && (ROTARY & ROTARY_LEARNED) == 0u) {
        // The number of pairs of a segment is even, and of four unless they lie side by side.
        int offset = offset_of(p);
        uint two_pairs = segment * (pairs / 2u) + part * (ROTATE_PAIRS / 2u);
        uint last = PAIRING == PAIRING_INTERLEAVED ? pairs / 2u - part * (ROTATE_PAIRS / 2u) - 1u
                                                   : uint(ROTATE_PAIRS);
        [[unroll]] for (uint i = 0u; i < ROTATE_PAIRS; i += 2u) {
            uint further = min(i / 2u, last);
            uint at = 2u * (two_pairs + further);
            uvec4 two = turns_of_two(two_pairs, further);
            vec2 a = rotary_cos_sin_by(two.xy, rotary_position(p.b, p.l, offset, at), at, p.is_k);
            vec2 b = rotary_cos_sin_by(two.zw, rotary_position(p.b, p.l, offset, at + 1u), at + 1u,
                                       p.is_k);
            c[i] = a.x;
            s[i] = a.y;
            c[i + 1u] = b.x;
            s[i + 1u] = b.y;
        }
    } else {
        [[unroll]] for (uint i = 0u; i < ROTATE_PAIRS; i++) {
            vec2 cs = cos_sin_of(p, segment * pairs + min(first_pair + i, pairs - 1u));
            c[i] = cs.x;
            s[i] = cs.y;
        }
    }
    if (PAIRING != PAIRING_HALF)
        s = (push.flags & FLAG_INVERSE) != 0u ? -s : s;
    Run from = run_of(segment, pairs, part, PAIRING == PAIRING_HALF);
    Run to = run_of(segment, pairs, part, PAIRING != PAIRING_INTERLEAVED);
    if (p.is_k)
        rotate_k(p.b, p.first_head, p.head_count, p.l, p.to_row, from, to, c, s);
    else
        rotate_q(p.b, p.first_head, p.head_count, p.l, p.l, from, to, c, s);
}

// Parts of a row of any tensor.
uint parts_of_row()
{
    uint pairs = segment_pairs();
    bool all_in_place = (VIEWS & ~IN_PLACE & ((1u << VIEW_Q) | (1u << VIEW_K))) == 0u;
    bool none_changes = all_in_place && !has_norm(false) && !has_norm(true);
    return (pairs + ROTATE_PAIRS - 1u) / ROTATE_PAIRS * constants.segments +
           (none_changes ? 0u : copies_of(constants.head_dim - constants.rotary_dim));
}

#ifdef RHUMB_NORM

// Sums of the squares of the heads of a row; all lanes of the row get them.
vec4 sum_over_lanes(uint lane, vec4 v)
{
    uint at = gl_LocalInvocationID.x;
    squares_of_lanes[at] = v;
    [[dont_unroll]] for (uint step = LANES / 2u; step > 0u; step /= 2u) {
        barrier();
        if (lane < step)
            squares_of_lanes[at] += squares_of_lanes[at + step];
    }
    barrier();
    return squares_of_lanes[at - lane];
}

void main()
{
    uint id = group_id() * gl_WorkGroupSize.x +
              gl_LocalInvocationID.x;
    uint turning = LANES * uint(push.max_q_length) * places() * push.batch;
    uint lane = id % LANES;
    Place p;
    bool found = id < turning && find_place(id / LANES, lane == 0u, p);
    vec4 squares = vec4(0.0);
    if (found && has_norm(p.is_k)) {
        if (p.is_k)
            squares = squares_k(p.b, p.first_head, p.head_count, p.l, lane);
        else
            squares = squares_q(p.b, p.first_head, p.head_count, p.l, lane);
    }
    vec4 mean = sum_over_lanes(lane, squares) / float(constants.head_dim) + constants.norm_epsilon;
    row_scales = mix(vec4(0.0), inversesqrt(mean), greaterThan(mean, vec4(0.0)));
    if (has_view(VIEW_V) && id >= turning)
        copy_values(id - turning);
    if (found && lane < parts_of_row())
        do_part(p, lane);
}

#else

void main()
{
    uint id = group_id() * gl_WorkGroupSize.x +
              gl_LocalInvocationID.x;
    uint parts = parts_of_row();
    if (has_view(VIEW_V)) {
        uint turning = parts * uint(push.max_q_length) * places() * push.batch;
        if (id >= turning) {
            copy_values(id - turning);
            return;
        }
    }
    Place p;
    uint row = divided(id, DIVIDE_PARTS);
    uint part = id - row * parts;
    if (find_place(row, part == 0u, p))
        do_part(p, part);
}

#endif
