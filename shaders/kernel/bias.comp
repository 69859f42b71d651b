#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#ifdef RHUMB_ADDRESS
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_buffer_reference_uvec2 : require
#extension GL_EXT_shader_explicit_arithmetic_types_int64 : require
#endif
// BIAS: O[b, h, a, j] = b_h[rho(i, j)], the part of a relative scheme's logits that is free of q
// and k (spec of each scheme: rhumb_schemes.h).
//
//   delta = pos_k - pos_q of POSITIONS_Q[a] and POSITIONS_K[j] where both are there, else of
//   a + q_offset and j
//   b_h = bias_scale TABLE[row(delta)][h] + slope_h delta
//   windows: TABLE[row of the offset inside the window][h] + mask, one window per b
//
// O [B, H, Lq, Lk], B = 1 but for shifted windows. The kernel is bound by what it writes: an
// invocation has BIAS_KEYS keys of BIAS_ROWS rows, as vectors where rows start at multiples of 4
// elements, and makes what they need once for BIAS_HEADS heads. Where distances follow the indices,
// pairs on a diagonal share a number. Invocations run over (keys, rows, head group, batch), keys
// fastest.
#include "rhumb_shared.h"
#include "lib/io.glsl"
#ifdef RHUMB_ADDRESS
#include "lib/address.glsl"
#endif
#include "lib/position.glsl"
#include "lib/terms.glsl"
#include "lib/window.glsl"

layout(local_size_x_id = SPEC_WORKGROUP) in;

RHUMB_WRITE_VIEW(o, VIEW_O)
#ifdef RHUMB_ADDRESS
RHUMB_ADDRESS_STORE(o, VIEW_O)
#define STORE4 o_far_store4
#else
#define STORE4 o_store4_aligned
#endif

// What the keys of an invocation share over all heads.
struct Keys {
    ivec4 row;
    ivec4 delta;
    ivec4 j;
    ivec4 position;
    vec4 mask;
};

Keys keys_of(uint b, uint a, uint first, Lengths n)
{
    Keys keys;
    [[unroll]] for (uint i = 0u; i < BIAS_KEYS; i++) {
        uint j = min(first + i, uint(n.k) - 1u);
        keys.j[i] = int(j);
        keys.mask[i] = 0.0;
        if (has_term(TERM_WINDOW)) {
            keys.row[i] = window_row(a, j);
            keys.mask[i] = window_mask(b, window_place(a), window_place(j));
            keys.delta[i] = 0;
            keys.position[i] = 0;
        } else {
            keys.position[i] = position_k(0u, j);
            keys.delta[i] = key_minus_query(0u, a, j, n.q_offset);
            keys.row[i] = has_term(TERM_TABLE) ? row_of(keys.delta[i]) : NO_ROW;
        }
    }
    return keys;
}

void store_keys(uint b, uint h, uint a, uint first, uint count, vec4 v)
{
    uint e = o_at(b, h, a) + first;
    if (ALIGNED != 0u && count == BIAS_KEYS)
        STORE4(e, v);
    else
        o_store4(e, v, count);
}

// ---- By diagonals

#define DIAGONALS (BIAS_KEYS + BIAS_ROWS - 1u)

bool by_diagonals()
{
    bool by_views = has_view(VIEW_POSITIONS_Q) && has_view(VIEW_POSITIONS_K);
    return !has_term(TERM_WINDOW) && !by_views &&
           !(has_term(TERM_SLOPE) && slope_reference() != SLOPE_FROM_QUERY);
}

// Whether all diagonals from `nearest` on have one row of the table, and nothing else. Those of rows
// that do not exist may lie beyond an int.
bool is_one_number(int nearest)
{
    ivec2 near = near_distances(0u);
    int furthest = nearest + int(DIAGONALS) - 1;
    return has_term(TERM_TABLE) && !has_term(TERM_SLOPE | TERM_LOGARITHM) && nearest < furthest &&
           (furthest <= near.x || nearest >= near.y);
}

float diagonal_bias(uint h, int row, int delta, vec2 slope, float scale)
{
    float b = distance_bias(h, row, 1.0, delta);
    return scale * (has_term(TERM_SLOPE) ? b + slope_from_query(slope, delta) : b);
}

void write_diagonals(uint b, uint first_head, uint last_head, uint first_a, uint first, uint count,
                     Lengths n)
{
    int nearest = int(first) - int(first_a) - n.q_offset - int(BIAS_ROWS - 1u);
    bool one = is_one_number(nearest);
    int row[DIAGONALS];
    row[0] = has_term(TERM_TABLE) ? row_of(nearest) : NO_ROW;
    [[unroll]] for (uint i = 1u; i < DIAGONALS; i++)
        row[i] = row[0];
    if (has_term(TERM_TABLE) && !one)
        [[unroll]] for (uint i = 1u; i < DIAGONALS; i++)
            row[i] = row_of(nearest + int(i));
    float scale = has_flag(TERM_FLAG_BIAS_IN_SCALE) ? constants.scale : 1.0;
    [[dont_unroll]] for (uint h = first_head; h < last_head; h++) {
        vec2 slope = slopes_of(h);
        float v[DIAGONALS];
        v[0] = diagonal_bias(h, row[0], nearest, slope, scale);
        [[unroll]] for (uint i = 1u; i < DIAGONALS; i++)
            v[i] = v[0];
        if (!one)
            [[unroll]] for (uint i = 1u; i < DIAGONALS; i++)
                v[i] = diagonal_bias(h, row[i], nearest + int(i), slope, scale);
        [[unroll]] for (uint r = 0u; r < BIAS_ROWS; r++) {
            const uint d = BIAS_ROWS - 1u - r;
            if (int(first_a + r) < n.q)
                store_keys(b, h, first_a + r, first, count,
                           vec4(v[d], v[d + 1u], v[d + 2u], v[d + 3u]));
        }
    }
}

// ---- By pairs

void write_pairs(uint b, uint first_head, uint last_head, uint a, uint first, uint count, Lengths n)
{
    Keys keys = keys_of(b, a, first, n);
    [[dont_unroll]] for (uint h = first_head; h < last_head; h++) {
        vec4 v;
        [[unroll]] for (uint i = 0u; i < BIAS_KEYS; i++)
            v[i] = scalar_bias(h, keys.row[i], 1.0, keys.delta[i], keys.j[i], keys.position[i],
                               n.k) +
                   keys.mask[i];
        v *= has_flag(TERM_FLAG_BIAS_IN_SCALE) ? constants.scale : 1.0;
        store_keys(b, h, a, first, count, v);
    }
}

void main()
{
    uint id = group_id() * gl_WorkGroupSize.x +
              gl_LocalInvocationID.x;
    uint parts = (uint(push.max_k_length) + BIAS_KEYS - 1u) / BIAS_KEYS;
    uint row_groups = (uint(push.max_q_length) + BIAS_ROWS - 1u) / BIAS_ROWS;
    uint head_groups = (constants.heads + BIAS_HEADS - 1u) / BIAS_HEADS;
    uint first = id % parts * BIAS_KEYS;
    uint rest = id / parts;
    uint first_a = rest % row_groups * BIAS_ROWS;
    rest /= row_groups;
    uint first_head = rest % head_groups * BIAS_HEADS;
    uint b = rest / head_groups;
    if (b >= push.batch)
        return;
    Lengths n = lengths_of(0u, true, -RHUMB_MAX_LENGTH, id == 0u);
    if (int(first_a) >= n.q || int(first) >= n.k)
        return;

    uint count = min(uint(BIAS_KEYS), uint(n.k) - first);
    uint last_head = min(first_head + BIAS_HEADS, constants.heads);
    if (by_diagonals()) {
        write_diagonals(b, first_head, last_head, first_a, first, count, n);
        return;
    }
    uint last_a = min(first_a + BIAS_ROWS, uint(n.q));
    [[dont_unroll]] for (uint a = first_a; a < last_a; a++)
        write_pairs(b, first_head, last_head, a, first, count, n);
}
