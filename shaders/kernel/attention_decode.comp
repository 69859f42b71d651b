#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
// ATTENTION, few query rows: O[b, h, a] = sum_j softmax_j(scale q_a . k_j) v_j over the visible
// keys.
//
//   Q [B, H, Lq, D], K [B, Hkv, Lk, D], V [B, Hkv, Lk, DV], O [B, H, Lq, DV]
//   rows = Lq * H / Hkv of a (batch, kv head) in tiles of ROWS; D and DV multiples of 4 LANES.
//
// K and V are read once for all rows. LANES lanes share one key, 16 bytes a piece; the work group
// has STREAMS keys in hand at a time, each stream with its own running maximum, sum and output,
// merged at the end. A score is summed over its lanes through shared memory in two steps: every
// lane sums some of the (key, row) combinations, then all read the sums.
#include "rhumb_shared.h"
#include "lib/io.glsl"
#include "lib/position.glsl"
#include "lib/trig.glsl"
#include "lib/rows.glsl"
#include "lib/place.glsl"
#include "lib/logit.glsl"

layout(local_size_x = DECODE_INVOCATIONS) in;
layout(constant_id = SPEC_PAIRING) const uint PAIRING = PAIRING_NONE;
layout(constant_id = SPEC_HEAD_DIM) const uint HEAD_DIM = 64u;
layout(constant_id = SPEC_VALUE_DIM) const uint VALUE_DIM = 64u;
layout(constant_id = SPEC_KEYS) const uint ROWS = 1u;
layout(constant_id = SPEC_LANES) const uint LANES = 8u;

const uint STREAMS = DECODE_INVOCATIONS / LANES;
const uint K_PIECES = HEAD_DIM / (4u * LANES);
const uint V_PIECES = VALUE_DIM / (4u * LANES);
const uint Q_FLOATS = ROWS * HEAD_DIM;
const uint MERGE_FLOATS = STREAMS * VALUE_DIM;
const uint SPACE = Q_FLOATS > MERGE_FLOATS ? Q_FLOATS : MERGE_FLOATS;

RHUMB_READ_VIEW(q, VIEW_Q)
RHUMB_READ_VIEW(k, VIEW_K)
RHUMB_READ_VIEW(v, VIEW_V)
RHUMB_WRITE_VIEW(o, VIEW_O)

shared float space[SPACE]; // Q while it is loaded, outputs while they are merged
shared float partial[ROWS * DECODE_INVOCATIONS];
shared float sums[ROWS * STREAMS];
shared vec2 stream_state[STREAMS]; // {maximum, sum}

Tile tile;
Lengths len;
uint row_count;

void load_rows(uint id)
{
    for (uint i = id; i < Q_FLOATS / 4u; i += DECODE_INVOCATIONS) {
        uint t = tile.first + i / (HEAD_DIM / 4u);
        uint d = (i % (HEAD_DIM / 4u)) * 4u;
        vec4 x = vec4(0.0);
        if (t < row_count)
            x = q_load4_aligned(q_at(tile.b, row_head(tile, t), row_index(t)) + d) *
                constants.scale_log2;
        [[unroll]] for (uint e = 0u; e < 4u; e++)
            space[4u * i + e] = x[e];
    }
    barrier();
    if (PAIRING != PAIRING_NONE) {
        uint pairs = constants.rotary_dim / 2u;
        for (uint i = id; i < ROWS * pairs; i += DECODE_INVOCATIONS) {
            uint t = tile.first + i / pairs;
            uint pair = i % pairs;
            uint first = (i / pairs) * HEAD_DIM + constants.rotary_offset +
                         (PAIRING == PAIRING_HALF ? pair : 2u * pair);
            uint second = first + (PAIRING == PAIRING_HALF ? pairs : 1u);
            int p = t < row_count ? rotary_position(tile.b, row_index(t), len.q_offset, pair) : 0;
            vec2 cs = rotary_cos_sin(p, pair, false);
            float x = space[first];
            float y = space[second];
            space[first] = x * cs.x - y * cs.y;
            space[second] = x * cs.y + y * cs.x;
        }
        barrier();
    }
}

void main()
{
    uint id = gl_LocalInvocationID.x;
    uint stream = id / LANES;
    uint lane = id % LANES;
    tile = tile_of_group(ROWS);
    len = lengths_of(tile.b, true, lowest_offset(PAIRING),
                     id == 0u && tile.first == 0u && tile.kv_head == 0u);
    row_count = uint(len.q) * heads_per_kv_head();
    KeyRange range = KeyRange(0, 0, 0);
    if (tile.first < row_count)
        range = key_range(row_index(tile.first),
                          row_index(min(tile.first + ROWS, row_count) - 1u), len);

    Reach row_reach[ROWS];
    [[unroll]] for (uint r = 0u; r < ROWS; r++)
        row_reach[r] = row_reach_of(
            tile.b, tile.first + r < row_count ? row_index(tile.first + r) : 0u, len);

    load_rows(id);
    vec4 x[ROWS * K_PIECES];
    [[unroll]] for (uint r = 0u; r < ROWS; r++)
        [[unroll]] for (uint i = 0u; i < K_PIECES; i++) {
            uint at = r * HEAD_DIM + 4u * (i * LANES + lane);
            x[r * K_PIECES + i] = vec4(space[at], space[at + 1u], space[at + 2u], space[at + 3u]);
        }

    vec4 acc[ROWS * V_PIECES];
    float row_max[ROWS];
    float row_sum[ROWS];
    [[unroll]] for (uint i = 0u; i < ROWS * V_PIECES; i++)
        acc[i] = vec4(0.0);
    [[unroll]] for (uint r = 0u; r < ROWS; r++) {
        row_max[r] = LOWEST;
        row_sum[r] = 0.0;
    }

    for (int step = first_block(range, int(STREAMS)); step < range.end;
         step = next_block(range, step, int(STREAMS))) {
        int key = step + int(stream);
        bool in_range = key < range.end;
        vec4 kx[K_PIECES];
        vec4 vx[V_PIECES];
        uint k_first = k_at(tile.b, tile.kv_head, uint(in_range ? key : 0));
        uint v_first = v_at(tile.b, tile.kv_head, uint(in_range ? key : 0));
        [[unroll]] for (uint i = 0u; i < K_PIECES; i++)
            kx[i] = in_range ? k_load4_aligned(k_first + 4u * (i * LANES + lane)) : vec4(0.0);
        [[unroll]] for (uint i = 0u; i < V_PIECES; i++)
            vx[i] = in_range ? v_load4_aligned(v_first + 4u * (i * LANES + lane)) : vec4(0.0);

        [[unroll]] for (uint r = 0u; r < ROWS; r++) {
            float s = 0.0;
            [[unroll]] for (uint i = 0u; i < K_PIECES; i++)
                s += dot(x[r * K_PIECES + i], kx[i]);
            partial[r * DECODE_INVOCATIONS + id] = s;
        }
        barrier();
        for (uint r = lane; r < ROWS; r += LANES) {
            float s = 0.0;
            for (uint i = 0u; i < LANES; i++)
                s += partial[r * DECODE_INVOCATIONS + stream * LANES + i];
            sums[stream * ROWS + r] = s;
        }
        barrier();

        int p = key;
        if (in_range && constants.mask_order == MASK_ORDER_POSITION)
            p = position_k(tile.b, uint(key));
        [[unroll]] for (uint r = 0u; r < ROWS; r++) {
            bool visible = in_range && position_visible(row_reach[r], p);
            float s = visible ? sums[stream * ROWS + r] : LOWEST;
            float new_max = max(row_max[r], s);
            float shrink = exp2(row_max[r] - new_max);
            float w = s < HIDDEN_BELOW ? 0.0 : exp2(s - new_max);
            row_max[r] = new_max;
            row_sum[r] = row_sum[r] * shrink + w;
            // A hidden key may hold anything, NaN included.
            [[unroll]] for (uint i = 0u; i < V_PIECES; i++)
                acc[r * V_PIECES + i] =
                    acc[r * V_PIECES + i] * shrink + (w == 0.0 ? vec4(0.0) : w * vx[i]);
        }
    }

    // Merge the streams, row by row and in the order of the streams. The loop is kept rolled, with
    // selects in place of an index: unrolled it takes minutes to compile on some drivers.
    for (uint row = 0u; row < ROWS; row++) {
        vec4 mine[V_PIECES];
        float my_max = LOWEST;
        float my_sum = 0.0;
        [[unroll]] for (uint r = 0u; r < ROWS; r++) {
            if (r == row) {
                my_max = row_max[r];
                my_sum = row_sum[r];
                [[unroll]] for (uint i = 0u; i < V_PIECES; i++)
                    mine[i] = acc[r * V_PIECES + i];
            }
        }
        barrier();
        if (lane == 0u)
            stream_state[stream] = vec2(my_max, my_sum);
        barrier();
        float total_max = LOWEST;
        for (uint i = 0u; i < STREAMS; i++)
            total_max = max(total_max, stream_state[i].x);
        float total = 0.0;
        for (uint i = 0u; i < STREAMS; i++)
            total += stream_state[i].y * exp2(stream_state[i].x - total_max);
        float norm = total == 0.0 ? 0.0 : exp2(my_max - total_max) / total;
        [[unroll]] for (uint i = 0u; i < V_PIECES; i++)
            [[unroll]] for (uint e = 0u; e < 4u; e++)
                space[stream * VALUE_DIM + 4u * (i * LANES + lane) + e] = mine[i][e] * norm;
        barrier();
        uint t = tile.first + row;
        if (t < row_count) {
            uint at = o_at(tile.b, row_head(tile, t), row_index(t));
            for (uint d = 2u * id; d < VALUE_DIM; d += 2u * DECODE_INVOCATIONS) {
                vec2 sum = vec2(0.0);
                for (uint i = 0u; i < STREAMS; i++)
                    sum += vec2(space[i * VALUE_DIM + d], space[i * VALUE_DIM + d + 1u]);
                o_store2_aligned(at + d, sum);
            }
        }
    }
}
