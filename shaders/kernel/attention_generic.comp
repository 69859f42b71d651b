#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
// ATTENTION, any head size and any alignment: O[b, h, a] = sum_j softmax_j(scale q_a . k_j) v_j
// over the visible keys, online softmax, no buffer of size Lq x Lk.
//
//   Q [B, H, Lq, D], K [B, Hkv, Lk, D], V [B, Hkv, Lk, DV], O [B, H, Lq, DV]; D and DV at run time.
//
// A work group owns GENERIC_ROWS rows (components of a vec4) and walks blocks of GENERIC_KEYS keys:
//   scores   four lanes share one key, each takes every fourth run of four channels
//   softmax  one lane a key
//   values   one lane a channel, up to CHANNELS of them
// Loops over the keys of a block stay loops: unrolled, software devices compile them for seconds.
#include "rhumb_shared.h"
#include "lib/io.glsl"
#include "lib/position.glsl"
#include "lib/trig.glsl"
#include "lib/rows.glsl"
#include "lib/place.glsl"
#include "lib/logit.glsl"

layout(local_size_x = GENERIC_INVOCATIONS) in;

RHUMB_READ_VIEW(q, VIEW_Q)
RHUMB_READ_VIEW(k, VIEW_K)
RHUMB_READ_VIEW(v, VIEW_V)
RHUMB_WRITE_VIEW(o, VIEW_O)
#include "lib/staged_rows.glsl" // Q, later O

const uint PARTS = GENERIC_INVOCATIONS / GENERIC_KEYS;
const uint CHANNELS = (RHUMB_MAX_HEAD_DIM + GENERIC_INVOCATIONS - 1) / GENERIC_INVOCATIONS;

shared vec4 partial[PARTS * GENERIC_KEYS];
shared vec4 scores[GENERIC_KEYS];
shared vec4 weights[GENERIC_KEYS];

Tile tile;
Lengths len;
uvec4 row_a;      // query row of each of the four rows
bvec4 row_exists;
Reach row_reach[4];

// Part of the dot products of key j with the four rows.
vec4 partial_scores(uint j, uint part)
{
    uvec2 place = key_place(tile.b, j);
    uint at = k_at(place.x, tile.kv_head, place.y);
    uint whole = constants.head_dim & ~3u;
    vec4 s = vec4(0.0);
    for (uint d = 4u * part; d < whole; d += 4u * PARTS) {
        vec4 x = k_load4(at + d);
        s += x.x * rows[d] + x.y * rows[d + 1u] + x.z * rows[d + 2u] + x.w * rows[d + 3u];
    }
    if (whole + part < constants.head_dim)
        s += k_load(at + whole + part) * rows[whole + part];
    return s;
}

// Scores of key j, LOWEST where it is hidden.
vec4 masked_scores(uint j, uint key)
{
    vec4 s = partial[key];
    [[unroll]] for (uint part = 1u; part < PARTS; part++)
        s += partial[part * GENERIC_KEYS + key];
    int p = constants.mask_order == MASK_ORDER_POSITION ? position_k(tile.b, j) : int(j);
    [[unroll]] for (uint r = 0u; r < 4u; r++)
        s[r] = position_visible(row_reach[r], p) ? s[r] : LOWEST;
    return s;
}

void main()
{
    uint lane = gl_LocalInvocationID.x;
    tile = tile_of_group(GENERIC_ROWS);
    len = place_entry(tile.b, lowest_offset(PAIRING), tile.first == 0u && tile.kv_head == 0u, lane,
                      GENERIC_INVOCATIONS);
    uint row_count = uint(len.q) * heads_per_kv_head();

    [[unroll]] for (uint r = 0u; r < 4u; r++) {
        uint t = tile.first + r;
        row_exists[r] = t < row_count;
        row_a[r] = row_exists[r] ? row_index(t) : 0u;
        row_reach[r] = row_reach_of(tile.b, row_a[r], len);
    }
    uvec4 at;
    [[unroll]] for (uint r = 0u; r < 4u; r++) {
        uvec2 place = query_place(tile.b, row_a[r]);
        at[r] = q_at(place.x, row_head(tile, tile.first + r), place.y);
    }
    load_rows(lane, tile.b, at, row_a, row_exists, len.q_offset, constants.scale_log2);

    uint last = min(tile.first + GENERIC_ROWS, row_count);
    KeyRange range = KeyRange(0, 0, 0);
    if (tile.first < row_count)
        range = key_range(row_index(tile.first), row_index(last - 1u), len);
    uint key = lane % GENERIC_KEYS;
    uint part = lane / GENERIC_KEYS;

    vec4 acc[CHANNELS];
    [[unroll]] for (uint i = 0u; i < CHANNELS; i++)
        acc[i] = vec4(0.0);
    vec4 row_max = vec4(LOWEST);
    vec4 row_sum = vec4(0.0);

    for (int block = first_block(range, GENERIC_KEYS); block < range.end;
         block = next_block(range, block, GENERIC_KEYS)) {
        uint j = uint(block) + key;
        bool in_range = int(j) < range.end;
        partial[part * GENERIC_KEYS + key] = in_range ? partial_scores(j, part) : vec4(0.0);
        barrier();
        vec4 s = vec4(LOWEST);
        if (part == 0u) {
            if (in_range)
                s = masked_scores(j, key);
            scores[key] = s;
        }
        barrier();
        vec4 new_max = row_max;
        [[dont_unroll]] for (uint i = 0u; i < GENERIC_KEYS; i++)
            new_max = max(new_max, scores[i]);
        if (part == 0u)
            weights[key] = mix(exp2(s - new_max), vec4(0.0), lessThan(s, vec4(HIDDEN_BELOW)));
        barrier();
        vec4 shrink = exp2(row_max - new_max);
        row_max = new_max;
        row_sum *= shrink;
        [[dont_unroll]] for (uint i = 0u; i < GENERIC_KEYS; i++)
            row_sum += weights[i];
        uint count = uint(min(range.end - block, GENERIC_KEYS));
        [[unroll]] for (uint i = 0u; i < CHANNELS; i++) {
            uint d = lane + i * GENERIC_INVOCATIONS;
            if (d < constants.value_dim) {
                vec4 sum = acc[i] * shrink;
                for (uint c = 0u; c < count; c++) {
                    vec4 w = weights[c];
                    uvec2 place = key_place(tile.b, uint(block) + c);
                    float x = v_load(v_at(place.x, tile.kv_head, place.y) + d);
                    // A hidden key may hold anything, NaN included.
                    sum += mix(w * x, vec4(0.0), equal(w, vec4(0.0)));
                }
                acc[i] = sum;
            }
        }
    }

    barrier();
    vec4 norm = mix(1.0 / row_sum, vec4(0.0), equal(row_sum, vec4(0.0)));
    [[unroll]] for (uint i = 0u; i < CHANNELS; i++) {
        uint d = lane + i * GENERIC_INVOCATIONS;
        if (d < constants.value_dim)
            rows[d] = acc[i] * norm;
    }
    barrier();
    for (uint r = 0u; r < 4u; r++) {
        if (row_exists[r]) {
            uvec2 place = query_place(tile.b, row_a[r]);
            store_row(lane, r, o_at(place.x, row_head(tile, tile.first + r), place.y),
                      constants.value_dim);
        }
    }
}
