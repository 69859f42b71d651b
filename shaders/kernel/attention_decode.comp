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
// K and V are read once for all rows. LANES lanes share a key, 4 channels a piece; a stream of them
// has KEYS keys in hand at a time, STREAMS apart, and its own running maximum, sum and output, merged
// at the end. A score is summed over its lanes through shared memory in two steps: every lane sums
// some of the (key, row) pairs and makes logits of them, then all read these.
//
// With RHUMB_ADDRESS, for CPU devices, K and V are read by address and LANES and KEYS are 1: a lane
// has a key for itself, and nothing is exchanged but in the end.
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
layout(constant_id = SPEC_ROWS) const uint ROWS = 1u;
layout(constant_id = SPEC_KEYS) const uint KEYS = 1u;
layout(constant_id = SPEC_LANES) const uint LANES = 8u;

const uint STREAMS = INVOCATIONS / LANES;
const uint STEP = STREAMS * KEYS;
const uint PAIRS = KEYS * ROWS; // of a stream in a step
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
#define K_LOAD(quad) k_far4(4u * (quad))
#define V_LOAD(quad) v_far4(4u * (quad))
#define V_TYPE vec4
#define V_VALUES(v) (v)
#else // V is converted where it is used, by the multiply-add itself on some GPUs
#define K_LOAD k_load_quad
#define V_LOAD v_raw_quad
#define V_TYPE uvec4
#define V_VALUES v_of_raw
#endif
RHUMB_READ_VIEW(row_scale, VIEW_ROW_SCALE)
RHUMB_WRITE_VIEW(o, VIEW_O)
RHUMB_WRITE_VIEW(workspace, VIEW_WORKSPACE)

shared float space[SPACE]; // Q while it is loaded, outputs while they are merged
shared float partial[LANES > 1u ? PAIRS * INVOCATIONS : 1u];
shared float logits[LANES > 1u ? PAIRS * STREAMS : 1u];
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
KeyRange range;
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

// Logit of a row and a key, times log2(e), from their product; LOWEST where the key is hidden, which
// none is unless the step is `cut`.
float logit_of(Row row, int key, float s, bool cut)
{
    int p = constants.mask_order == MASK_ORDER_POSITION ? position_k(tile.b, uint(key)) : key;
    float b = 0.0;
    float added = 0.0;
    if (cut && (key >= range.end || !position_visible(row.reach, p)))
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

int key_of(int step, uint stream, uint j)
{
    return step + int(j * STREAMS + stream);
}

// A lane's part of a step, by key, then row or piece; and its sums of w V, by row and piece.
vec4 kx[KEYS * K_PIECES];
V_TYPE vx[KEYS * V_PIECES];
float s[PAIRS]; // logits
float w[PAIRS]; // weights
vec4 acc[ROWS * V_PIECES];

// acc += w V. A hidden key may hold anything, NaN included; where there are some, by selects.
void add_values(bool cut)
{
    [[unroll]] for (uint j = 0u; j < KEYS; j++)
        [[unroll]] for (uint r = 0u; r < ROWS; r++) {
            uint n = j * ROWS + r;
            [[unroll]] for (uint i = 0u; i < V_PIECES; i++) {
                vec4 y = V_VALUES(vx[j * V_PIECES + i]);
                if (cut && s[n] < HIDDEN_BELOW)
                    y = vec4(0.0);
                acc[r * V_PIECES + i] = fma(vec4(w[n]), y, acc[r * V_PIECES + i]);
            }
        }
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
    uint first_a = 0u;
    uint last_a = 0u;
    range = KeyRange(0, 0, 0);
    if (tile.first < row_count) {
        first_a = row_index(tile.first);
        last_a = row_index(min(tile.first + ROWS, row_count) - 1u);
        range = key_range(first_a, last_a, len);
    }
    range = cut_range(range, slice);

    load_rows(id);
    vec4 x[ROWS * K_PIECES];
    [[unroll]] for (uint r = 0u; r < ROWS; r++)
        [[unroll]] for (uint i = 0u; i < K_PIECES; i++) {
            uint at = r * HEAD_DIM + 4u * (i * LANES + lane);
            x[r * K_PIECES + i] = vec4(space[at], space[at + 1u], space[at + 2u], space[at + 3u]);
        }

    float row_max[ROWS];
    float row_sum[ROWS];
    [[unroll]] for (uint i = 0u; i < ROWS * V_PIECES; i++)
        acc[i] = vec4(0.0);
    [[unroll]] for (uint r = 0u; r < ROWS; r++) {
        row_max[r] = LOWEST;
        row_sum[r] = 0.0;
    }

    for (int step = first_block_from(range, first_key_of(slice), int(STEP)); step < range.end;
         step = next_block(range, step, int(STEP))) {
        // A lane that has a key for itself has it hidden by selects: both ways cost it time.
        bool cut = LANES == 1u || has_view(VIEW_MASK) ||
                   !all_visible(first_a, last_a, step, int(STEP), len);
        [[unroll]] for (uint j = 0u; j < KEYS; j++) {
            // Beyond the last key that one is read, and hidden.
            uvec2 place = key_place(tile.b, uint(min(key_of(step, stream, j), range.end - 1)));
            uint k_first = k_quad_at(place.x, tile.kv_head, place.y) + lane;
            uint v_first = v_quad_at(place.x, tile.kv_head, place.y) + lane;
            [[unroll]] for (uint i = 0u; i < K_PIECES; i++)
                kx[j * K_PIECES + i] = K_LOAD(k_first + i * LANES);
            [[unroll]] for (uint i = 0u; i < V_PIECES; i++)
                vx[j * V_PIECES + i] = V_LOAD(v_first + i * LANES);
        }

        [[unroll]] for (uint j = 0u; j < KEYS; j++)
            [[unroll]] for (uint r = 0u; r < ROWS; r++) {
                s[j * ROWS + r] = 0.0;
                [[unroll]] for (uint i = 0u; i < K_PIECES; i++)
                    s[j * ROWS + r] =
                        add_dot(s[j * ROWS + r], x[r * K_PIECES + i], kx[j * K_PIECES + i]);
            }
        if (LANES == 1u) {
            [[unroll]] for (uint r = 0u; r < ROWS; r++)
                s[r] = logit_of(rows[r], key_of(step, stream, 0u), s[r], true);
        } else {
            [[unroll]] for (uint n = 0u; n < PAIRS; n++)
                partial[n * INVOCATIONS + id] = s[n];
            barrier();
            [[unroll]] for (uint first = 0u; first < PAIRS; first += LANES) {
                uint n = first + lane;
                if (PAIRS % LANES != 0u && n >= PAIRS)
                    continue;
                float sum = 0.0;
                [[unroll]] for (uint i = 0u; i < LANES; i++)
                    sum += partial[n * INVOCATIONS + stream * LANES + i];
                logits[stream * PAIRS + n] =
                    logit_of(rows[n % ROWS], key_of(step, stream, n / ROWS), sum, cut);
            }
            barrier();
            [[unroll]] for (uint n = 0u; n < PAIRS; n++)
                s[n] = logits[stream * PAIRS + n];
        }

        [[unroll]] for (uint r = 0u; r < ROWS; r++) {
            float new_max = row_max[r];
            [[unroll]] for (uint j = 0u; j < KEYS; j++)
                new_max = max(new_max, s[j * ROWS + r]);
            float shrink = exp2(row_max[r] - new_max);
            row_max[r] = new_max;
            row_sum[r] *= shrink;
            [[unroll]] for (uint j = 0u; j < KEYS; j++) {
                w[j * ROWS + r] = exp2(s[j * ROWS + r] - new_max);
                if (cut && s[j * ROWS + r] < HIDDEN_BELOW)
                    w[j * ROWS + r] = 0.0;
                row_sum[r] += w[j * ROWS + r];
            }
            [[unroll]] for (uint i = 0u; i < V_PIECES; i++)
                acc[r * V_PIECES + i] *= shrink;
        }
        if (cut)
            add_values(true);
        else
            add_values(false);
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
