#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#ifdef RHUMB_ADDRESS
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_buffer_reference_uvec2 : require
#extension GL_EXT_shader_explicit_arithmetic_types_int64 : require
#endif
// ATTENTION, few query rows: O[b, h, a] = sum_j softmax_j(scale q_a . k_j + b) v_j over the visible
// keys, b what a scheme adds that is free of Q and K.
//
//   Q [B, H, Lq, D], K [B, Hkv, Lk, D], V [B, Hkv, Lk, DV], O [B, H, Lq, DV]
//   rows = Lq * H / Hkv of a (batch, kv head) in tiles of ROWS; D and DV multiples of 4 LANES.
//
// K and V are read once for all rows. LANES lanes share one key, 16 bytes a piece; the work group
// has STREAMS keys in hand at a time, each stream with its own running maximum, sum and output,
// merged at the end. A score is summed over its lanes through shared memory in two steps: every
// lane sums some of the (key, row) combinations and makes logits of them, then all read these.
//
// With RHUMB_ADDRESS, for CPU devices, K and V are read by address and LANES is 1: a lane has a key
// for itself, and nothing is exchanged but in the end.
//
// The keys may be cut into slices: lib/slices.glsl.
#include "rhumb_shared.h"
#include "lib/io.glsl"
#ifdef RHUMB_ADDRESS
#include "lib/address.glsl"
#endif
#include "lib/position.glsl"
#include "lib/trig.glsl"
#include "lib/terms.glsl"
#include "lib/rows.glsl"
#include "lib/place.glsl"
#include "lib/slices.glsl"
#include "lib/logit.glsl"

layout(local_size_x_id = SPEC_WORKGROUP) in;
layout(constant_id = SPEC_WORKGROUP) const uint INVOCATIONS = DECODE_INVOCATIONS;
layout(constant_id = SPEC_PAIRING) const uint PAIRING = PAIRING_NONE;
layout(constant_id = SPEC_HEAD_DIM) const uint HEAD_DIM = 64u;
layout(constant_id = SPEC_VALUE_DIM) const uint VALUE_DIM = 64u;
layout(constant_id = SPEC_KEYS) const uint ROWS = 1u;
layout(constant_id = SPEC_LANES) const uint LANES = 8u;

const uint STREAMS = INVOCATIONS / LANES;
const uint K_PIECES = HEAD_DIM / (4u * LANES);
const uint V_PIECES = VALUE_DIM / (4u * LANES);
const uint Q_FLOATS = ROWS * HEAD_DIM;
const uint MERGE_FLOATS = STREAMS * VALUE_DIM;
const uint SPACE = Q_FLOATS > MERGE_FLOATS ? Q_FLOATS : MERGE_FLOATS;

RHUMB_READ_VIEW(q, VIEW_Q)
RHUMB_READ_VIEW(k, VIEW_K)
RHUMB_READ_VIEW(v, VIEW_V)
#ifdef RHUMB_ADDRESS
RHUMB_ADDRESS_VIEW(k, VIEW_K)
RHUMB_ADDRESS_VIEW(v, VIEW_V)
#define K_LOAD k_far4
#define V_LOAD v_far4
#else
#define K_LOAD k_load4_aligned
#define V_LOAD v_load4_aligned
#endif
RHUMB_READ_VIEW(row_scale, VIEW_ROW_SCALE)
RHUMB_WRITE_VIEW(o, VIEW_O)
RHUMB_WRITE_VIEW(workspace, VIEW_WORKSPACE)

shared float space[SPACE]; // Q while it is loaded, outputs while they are merged
shared float partial[ROWS * INVOCATIONS];
shared float logits[ROWS * STREAMS];
shared vec2 stream_state[STREAMS]; // {maximum, sum}

struct Row {
    uint h;
    uint a;
    float scale; // ROW_SCALE
    Reach reach;
};

shared Row rows[ROWS]; // those that do not exist are row 0 of the first head, with Q = 0

Tile tile;
Lengths len;
uint row_count;

Row row_of_tile(uint r)
{
    bool exists = tile.first + r < row_count;
    uint t = exists ? tile.first + r : 0u;
    uint a = row_index(t);
    Row row = Row(row_head(tile, t), a, 1.0, row_reach_of(tile.b, a, len));
    if (exists && has_view(VIEW_ROW_SCALE)) {
        uvec2 place = query_place(tile.b, a);
        row.scale = row_scale_load(row_scale_at(0u, place.x, row.h) + place.y);
    }
    return row;
}

void load_rows(uint id)
{
    if (id < ROWS)
        rows[id] = row_of_tile(id);
    barrier();
    for (uint i = id; i < Q_FLOATS / 4u; i += INVOCATIONS) {
        uint r = i / (HEAD_DIM / 4u);
        uint d = (i % (HEAD_DIM / 4u)) * 4u;
        vec4 x = vec4(0.0);
        if (tile.first + r < row_count) {
            uvec2 place = query_place(tile.b, rows[r].a);
            // Without a scheme ROW_SCALE belongs to Q, with one to its bias.
            float factor = has_term(TERM_ROW_SCALE) ? 1.0 : rows[r].scale;
            x = q_load4_aligned(q_at(place.x, rows[r].h, place.y) + d) *
                (constants.scale_log2 * factor);
        }
        [[unroll]] for (uint e = 0u; e < 4u; e++)
            space[4u * i + e] = x[e];
    }
    barrier();
    if (PAIRING != PAIRING_NONE) {
        uint pairs = constants.rotary_dim / 2u;
        for (uint i = id; i < ROWS * pairs; i += INVOCATIONS) {
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

// Logit of a row and a key, times log2(e), from their product; LOWEST where the key is hidden.
float logit_of(Row row, int key, float s)
{
    int p = constants.mask_order == MASK_ORDER_POSITION ? position_k(tile.b, uint(key)) : key;
    float b = 0.0;
    float added = 0.0;
    if (!position_visible(row.reach, p))
        return LOWEST;
    if (has_view(VIEW_MASK) &&
        mask_hides(mask_element(mask_at(tile.b, row.h, row.a), uint(key)), added))
        return LOWEST;
    if (TERMS != 0u) {
        int delta = table_distance(tile.b, key_minus_query(tile.b, row.a, uint(key), len.q_offset));
        b = scalar_bias(row.h, has_term(TERM_TABLE) ? row_of(delta) : NO_ROW, row.scale, delta, key,
                        position_k(tile.b, uint(key)), len.k);
        b *= has_flag(TERM_FLAG_BIAS_IN_SCALE) ? constants.scale_log2 : LOG2_E;
    }
    s = bias_after_cap() ? capped(s, LOG2_E) + b : capped(s + b, LOG2_E);
    return s + LOG2_E * added;
}

// Row r of the tile, made of its streams: to O, or to WORKSPACE where keys are cut into slices. What
// combine.comp makes of a single slice is the same, bit for bit.
void store_row(uint id, uint r, uint slice, float top, float sum)
{
    Row row = rows[r];
    bool whole = push.slices == 1u;
    uvec2 place = query_place(tile.b, row.a);
    uint at = whole ? o_at(place.x, row.h, place.y)
                    : slice_at(workspace_at(0u, 0u, 0u), tile.b, row.h, row.a, slice);
    if (!whole && id == 0u)
        workspace_store4(at + VALUE_DIM, vec4(top, sum, 0.0, 0.0), 2u);
    float factor = whole ? row_factor(row.h, top, sum) : 1.0;
    for (uint d = 2u * id; d < VALUE_DIM; d += 2u * INVOCATIONS) {
        vec2 x = vec2(0.0);
        for (uint i = 0u; i < STREAMS; i++)
            x += vec2(space[i * VALUE_DIM + d], space[i * VALUE_DIM + d + 1u]);
        if (whole)
            o_store2_aligned(at + d, x * factor);
        else
            workspace_store4(at + d, vec4(x, 0.0, 0.0), 2u);
    }
    if (whole && id == 0u && has_view(VIEW_LSE))
        store_lse(place.x, row.h, place.y, top, sum);
}

void main()
{
    uint id = gl_LocalInvocationID.x;
    uint stream = id / LANES;
    uint lane = id % LANES;
    uint slice = group_id() % push.slices;
    tile = tile_of(group_id() / push.slices, ROWS);
    len = place_entry(tile.b, lowest_offset(PAIRING),
                      tile.first == 0u && tile.kv_head == 0u && slice == 0u, id, INVOCATIONS);
    row_count = uint(len.q) * heads_per_kv_head();
    KeyRange range = KeyRange(0, 0, 0);
    if (tile.first < row_count)
        range = key_range(row_index(tile.first),
                          row_index(min(tile.first + ROWS, row_count) - 1u), len);
    range = cut_range(range, slice);

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

    for (int step = first_block_from(range, first_key_of(slice), int(STREAMS)); step < range.end;
         step = next_block(range, step, int(STREAMS))) {
        int key = step + int(stream);
        bool in_range = key < range.end;
        // A stream beyond the last key reads another one, and hides it.
        uvec2 place = key_place(tile.b, uint(in_range ? key : step));
        vec4 kx[K_PIECES];
        vec4 vx[V_PIECES];
        uint k_first = k_at(place.x, tile.kv_head, place.y);
        uint v_first = v_at(place.x, tile.kv_head, place.y);
        [[unroll]] for (uint i = 0u; i < K_PIECES; i++)
            kx[i] = K_LOAD(k_first + 4u * (i * LANES + lane));
        [[unroll]] for (uint i = 0u; i < V_PIECES; i++)
            vx[i] = V_LOAD(v_first + 4u * (i * LANES + lane));

        float s[ROWS];
        [[unroll]] for (uint r = 0u; r < ROWS; r++) {
            s[r] = 0.0;
            [[unroll]] for (uint i = 0u; i < K_PIECES; i++)
                s[r] = add_dot(s[r], x[r * K_PIECES + i], kx[i]);
        }
        if (LANES == 1u) {
            [[unroll]] for (uint r = 0u; r < ROWS; r++)
                s[r] = in_range ? logit_of(rows[r], key, s[r]) : LOWEST;
        } else {
            [[unroll]] for (uint r = 0u; r < ROWS; r++)
                partial[r * INVOCATIONS + id] = s[r];
            barrier();
            for (uint r = lane; r < ROWS; r += LANES) {
                float sum = 0.0;
                for (uint i = 0u; i < LANES; i++)
                    sum += partial[r * INVOCATIONS + stream * LANES + i];
                logits[stream * ROWS + r] = in_range ? logit_of(rows[r], key, sum) : LOWEST;
            }
            barrier();
            [[unroll]] for (uint r = 0u; r < ROWS; r++)
                s[r] = logits[stream * ROWS + r];
        }

        [[unroll]] for (uint r = 0u; r < ROWS; r++) {
            float new_max = max(row_max[r], s[r]);
            float shrink = exp2(row_max[r] - new_max);
            float w = s[r] < HIDDEN_BELOW ? 0.0 : exp2(s[r] - new_max);
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
        float top = LOWEST;
        for (uint i = 0u; i < STREAMS; i++)
            top = max(top, stream_state[i].x);
        float sum = 0.0;
        for (uint i = 0u; i < STREAMS; i++)
            sum += stream_state[i].y * exp2(stream_state[i].x - top);
        float shrink = exp2(my_max - top);
        [[unroll]] for (uint i = 0u; i < V_PIECES; i++)
            [[unroll]] for (uint e = 0u; e < 4u; e++)
                space[stream * VALUE_DIM + 4u * (i * LANES + lane) + e] = mine[i][e] * shrink;
        barrier();
        if (tile.first + row < row_count)
            store_row(id, row, slice, top, sum);
    }
}
