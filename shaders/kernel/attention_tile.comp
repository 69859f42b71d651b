#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#ifdef RHUMB_SUBGROUP
#extension GL_KHR_shader_subgroup_shuffle : require
#endif
// ATTENTION, prefill, by tiles of rows and keys in shared memory, with the terms of relative
// schemes:
//
//   S = s ((q + u) . k + (q + w) . A[rho] + k . C[rho] + r[rho] + (q + z) . G[segment]) + b[rho]
//   O = sum_j softmax_j(S) (v_j + V[rho]) over the visible keys
//
//   Q [B, H, Lq, D], K [B, Hkv, Lk, D], V [B, Hkv, Lk, DV], O [B, H, Lq, DV];
//   D and DV multiples of 16.
//
// A work group is GROUPS row groups of TILE_LANES lanes. A lane owns TILE_ROWS rows, STRIDE apart,
// KEYS keys of each step, TILE_LANES apart (so that lanes read K without bank conflicts), and
// DV / TILE_LANES channels of the output. The same rows in both products: maximum, sum and rescale
// stay in registers. Channels are staged in chunks (HEAD_CHUNK of Q and K, VALUE_CHUNK of V) where
// shared memory does not hold a whole head; Q is then staged again for every step. Without terms
// the rows of a tile are those of all heads that share K and V, with them those of one head: rows
// of tables are staged for the distances of a step, beside K and V (lib/band.glsl).
//
//   step: stage K, A, C | S | row maximum over lanes | P = exp2(S - max) to shared, stage V and its
//         table | O += P V
#include "rhumb_shared.h"
#include "lib/io.glsl"
#include "lib/position.glsl"
#include "lib/trig.glsl"
#include "lib/terms.glsl"
#include "lib/rows.glsl"
#include "lib/place.glsl"
#include "lib/logit.glsl"

layout(local_size_x_id = SPEC_WORKGROUP) in;
layout(constant_id = SPEC_WORKGROUP) const uint WORKGROUP = 128u;
layout(constant_id = SPEC_PAIRING) const uint PAIRING = PAIRING_NONE;
layout(constant_id = SPEC_HEAD_DIM) const uint HEAD_DIM = 64u;
layout(constant_id = SPEC_VALUE_DIM) const uint VALUE_DIM = 64u;
layout(constant_id = SPEC_HEAD_CHUNK) const uint HEAD_CHUNK = 64u;
layout(constant_id = SPEC_VALUE_CHUNK) const uint VALUE_CHUNK = 64u;
layout(constant_id = SPEC_KEYS) const uint KEYS = 4u;

const uint GROUPS = WORKGROUP / TILE_LANES;
const uint ROWS = GROUPS * TILE_ROWS;
const uint STEP = TILE_LANES * KEYS;
const uint STRIDE = GROUPS < TILE_LANES ? GROUPS : TILE_LANES; // of a lane's rows
const uint HEAD_CHUNKS = HEAD_DIM / HEAD_CHUNK;
const uint VALUE_CHUNKS = VALUE_DIM / VALUE_CHUNK;
const uint PAIRS = VALUE_CHUNK / (2u * TILE_LANES); // channel pairs of a lane in a chunk
const uint HEAD_PITCH = HEAD_CHUNK / 4u + 1u; // of a staged row in vec4, padded by one: of K, A and C
const uint VALUE_PITCH = VALUE_CHUNK / 4u + 1u; // of V and its table
const uint WIDEST_PITCH = HEAD_PITCH > VALUE_PITCH ? HEAD_PITCH : VALUE_PITCH;
const uint REDUCE_GROUPS = GROUPS;
#include "lib/reduce.glsl"

RHUMB_READ_VIEW(q, VIEW_Q)
RHUMB_READ_VIEW(k, VIEW_K)
RHUMB_READ_VIEW(v, VIEW_V)
RHUMB_READ_VIEW(row_scale, VIEW_ROW_SCALE)
RHUMB_WRITE_VIEW(o, VIEW_O)

shared vec4 staged_q[ROWS * HEAD_CHUNK / 4u];
shared vec4 staged[STEP * WIDEST_PITCH];            // K, then V; in the end O
shared vec4 weights[STEP * (GROUPS + 1u)];          // P[key][row group], padded

// Whether something has been met so far. Of 16 bytes: some compilers put arrays one after another and
// read vectors that are not aligned in parts.
shared uint met[4];
#define MET_HIDDEN 0u     // a key that a row does not see
#define MET_NOT_FINITE 1u // an infinity or a NaN in V since then: a weight of 0 does not hide it
#define MET_NO_ROW 2u     // a distance without a row in a table

Tile tile;
uint head; // of all rows, with terms
Lengths len;
uint row_count;
uint first_key; // of the step
uint last_key;  // that any row of the tile sees

// This lane's sums of P V: [chunk][pair of channels][row]
vec2 acc[VALUE_CHUNKS * PAIRS * TILE_ROWS];
vec4 s[KEYS]; // its logits [key][row]

// Channels of a lane in a chunk: quads TILE_LANES quads apart, and a pair beyond them where PAIRS
// is odd. The number of its pair i among those of the chunk:
uint pair_number(uint i, uint lane)
{
    bool alone = PAIRS % 2u == 1u && i == PAIRS - 1u;
    return i / 2u * (2u * TILE_LANES) + (alone ? lane : 2u * lane + i % 2u);
}

// Loads a lane's pairs of channels of a row that begins at `first`.
#define LOAD_PAIRS(y, memory, first, lane)                                                         \
    [[unroll]] for (uint quad = 0u; quad < PAIRS / 2u; quad++) {                                   \
        vec4 x = memory[(first) + quad * TILE_LANES + lane];                                       \
        y[2u * quad] = x.xy;                                                                       \
        y[2u * quad + 1u] = x.zw;                                                                  \
    }                                                                                              \
    if (PAIRS % 2u == 1u) {                                                                        \
        uint at = (first) + PAIRS / 2u * TILE_LANES + (lane >> 1);                                 \
        y[PAIRS - 1u] = vec2(memory[at][2u * (lane & 1u)], memory[at][2u * (lane & 1u) + 1u]);     \
    }

// Lanes along a row that is staged: a power of two that divides its quads of channels, and no more than
// read 128 bytes of f32 together. Rows that a lane stages at a time, so that up to `most` loads are on
// their way together: a divisor of all its rows.
#define LANES_ALONG(WIDTH) (WIDTH % 32u == 0u ? 8u : 4u)
#define ROWS_AT_ONCE(rows, quads, most)                                                            \
    (2u * quads > most    ? 1u                                                                     \
     : 4u * quads > most  ? 2u - rows % 2u                                                         \
     : rows % 4u == 0u    ? 4u                                                                     \
                          : 2u - rows % 2u)

// stage_name(id, first, channel): WIDTH channels of COUNT rows, from `channel` on, to memory from
// `first` on, by up to `most` loads at once or one row. name_row(r): the element of row r;
// change(r, d, x): of its channels from d on. Quads of a row are constants apart, so that one address
// serves them all.
#define STAGE_ROWS(name, COUNT, WIDTH, most, memory, row_pitch, change)                            \
    void stage_##name(uint id, uint first, uint channel)                                           \
    {                                                                                              \
        const uint along = LANES_ALONG(WIDTH);                                                     \
        const uint quads = WIDTH / 4u / along;                                                     \
        const uint lanes_down = WORKGROUP / along;                                                 \
        const uint turns = (COUNT + lanes_down - 1u) / lanes_down;                                 \
        const uint at_once = ROWS_AT_ONCE(turns, quads, most);                                     \
        uint lane_d = id % along;                                                                  \
        uint lane_r = id / along;                                                                  \
        [[dont_unroll]] for (uint turn = 0u; turn < turns; turn += at_once) {                      \
            vec4 x[at_once * quads];                                                               \
            [[unroll]] for (uint i = 0u; i < at_once; i++) {                                       \
                uint r = (turn + i) * lanes_down + lane_r;                                         \
                if (COUNT % lanes_down != 0u)                                                      \
                    r = min(r, COUNT - 1u);                                                        \
                uint from = ((name##_row(r) + channel) >> 2) + lane_d;                             \
                [[unroll]] for (uint n = 0u; n < quads; n++)                                       \
                    x[n * at_once + i] = name##_load_quad(from + n * along);                       \
            }                                                                                      \
            [[unroll]] for (uint i = 0u; i < at_once; i++) {                                       \
                uint r = (turn + i) * lanes_down + lane_r;                                         \
                if (COUNT % lanes_down != 0u && r >= COUNT)                                        \
                    continue;                                                                      \
                uint to = first + r * row_pitch + lane_d;                                          \
                [[unroll]] for (uint n = 0u; n < quads; n++) {                                     \
                    uint d = lane_d + n * along;                                                   \
                    memory[to + n * along] = change(r, channel + 4u * d, x[n * at_once + i]);      \
                }                                                                                  \
            }                                                                                      \
        }                                                                                          \
    }

vec4 unchanged(uint r, uint d, vec4 x)
{
    return x;
}

#include "lib/band.glsl"
#include "lib/tile_logits.glsl"

// Pair of channels p of staged Q.
vec2 q_pair(uint p)
{
    return vec2(staged_q[p >> 1][2u * (p & 1u)], staged_q[p >> 1][2u * (p & 1u) + 1u]);
}

void set_q_pair(uint p, vec2 x)
{
    staged_q[p >> 1][2u * (p & 1u)] = x.x;
    staged_q[p >> 1][2u * (p & 1u) + 1u] = x.y;
}

vec2 row_cos_sin(uint t, uint pair)
{
    int p = t < row_count ? rotary_position(tile.b, query_row(t), len.q_offset, pair) : 0;
    return rotary_cos_sin(p, pair, false);
}

// Rotates the staged rows; only where a whole head is staged. A lane owns whole words: two pairs of
// neighbouring channels in the half pairing, one pair in the interleaved one.
void rotate_q(uint lane)
{
    uint pairs = constants.rotary_dim / 2u;
    uint first = constants.rotary_offset;
    uint units = PAIRING == PAIRING_HALF ? pairs / 2u : pairs;
    for (uint i = lane; i < ROWS * units; i += WORKGROUP) {
        uint r = i / units;
        uint u = i % units;
        uint t = tile.first + r;
        uint at = r * (HEAD_CHUNK / 2u) + first / 2u + u;
        if (PAIRING == PAIRING_HALF) {
            vec2 a = row_cos_sin(t, 2u * u);
            vec2 b = row_cos_sin(t, 2u * u + 1u);
            vec2 c = vec2(a.x, b.x);
            vec2 s = vec2(a.y, b.y);
            vec2 x = q_pair(at);
            vec2 y = q_pair(at + pairs / 2u);
            set_q_pair(at, x * c - y * s);
            set_q_pair(at + pairs / 2u, x * s + y * c);
        } else {
            vec2 cs = row_cos_sin(t, u);
            vec2 x = q_pair(at);
            set_q_pair(at, vec2(x.x * cs.x - x.y * cs.y, x.x * cs.y + x.y * cs.x));
        }
    }
}

// Elements from which rows are staged. A row that does not exist is another one: it is never
// stored, and as a key it is hidden.
uint q_row(uint r)
{
    uint t = min(tile.first + r, max(row_count, 1u) - 1u);
    uvec2 place = query_place(tile.b, query_row(t));
    return q_at(place.x, query_head(t), place.y);
}

uint k_row(uint c)
{
    uvec2 place = key_place(tile.b, min(first_key + c, last_key));
    return k_at(place.x, tile.kv_head, place.y);
}

uint v_row(uint c)
{
    uvec2 place = key_place(tile.b, min(first_key + c, last_key));
    return v_at(place.x, tile.kv_head, place.y);
}

// Of channels d of row r, from their elements.
vec4 q_changed(uint r, uint d, vec4 x)
{
    if (has_term(TERM_CONTENT_BIAS))
        x += content_bias_load4_aligned(content_bias_at(0u, 0u, head) + d);
    x *= constants.scale_log2;
    if (has_view(VIEW_ROW_SCALE) && !has_term(TERM_ROW_SCALE)) {
        uint t = min(tile.first + r, max(row_count, 1u) - 1u);
        uvec2 place = query_place(tile.b, query_row(t));
        x *= row_scale_load(row_scale_at(0u, place.x, query_head(t)) + place.y);
    }
    return x;
}

STAGE_ROWS(q, ROWS, HEAD_CHUNK, 4u, staged_q, HEAD_CHUNK / 4u, q_changed)
STAGE_ROWS(k, STEP, HEAD_CHUNK, 4u, staged, HEAD_PITCH, unchanged)
STAGE_ROWS(v, STEP, VALUE_CHUNK, 4u, staged, VALUE_PITCH, unchanged)

// Place of a channel pair's output among a lane's registers. The constant for a single chunk is
// written out: from chunk * PAIRS some compilers do not see it, and index registers by long chains
// of selects.
uint slot_of(uint chunk, uint i, uint r)
{
    return ((VALUE_CHUNKS == 1u ? 0u : chunk) * PAIRS + i) * TILE_ROWS + r;
}

// S += the products of the staged channels.
void add_products(uint group, uint lane, uint lane_slot)
{
    const uint at_once = TILE_QUADS_AT_ONCE(VALUE_CHUNKS);
    for (uint d = 0u; d < HEAD_CHUNK / 4u; d += at_once) {
        [[unroll]] for (uint e = 0u; e < at_once; e++) {
            vec4 x[TILE_ROWS];
            vec4 a[DIAGONALS];
            vec4 c[DIAGONALS];
            [[unroll]] for (uint r = 0u; r < TILE_ROWS; r++)
                x[r] = staged_q[lane_row(group, r) * (HEAD_CHUNK / 4u) + d + e];
            [[unroll]] for (uint n = 0u; n < DIAGONALS; n++) {
                uint at = (lane_slot + STRIDE * n) * HEAD_PITCH + d + e;
                if (has_term(TERM_QUERY))
                    a[n] = band[at];
                if (has_term(TERM_KEY))
                    c[n] = band[KEY_BAND + at];
            }
            [[unroll]] for (uint j = 0u; j < KEYS; j++) {
                vec4 y = staged[(lane + TILE_LANES * j) * HEAD_PITCH + d + e];
                [[unroll]] for (uint r = 0u; r < TILE_ROWS; r++) {
                    uint n = j + TILE_ROWS - 1u - r;
                    s[j][r] = add_dot(s[j][r], x[r], y);
                    if (has_term(TERM_QUERY))
                        s[j][r] = add_dot(s[j][r], x[r], a[n]);
                    if (has_term(TERM_KEY))
                        s[j][r] = add_dot(s[j][r], y, c[n]);
                }
            }
        }
    }
}

// Looks through the staged V. Barriers inside.
bool find_not_finite(uint id)
{
    const uint along = LANES_ALONG(VALUE_CHUNK);
    uint most = 0u;
    [[dont_unroll]] for (uint c = id / along; c < STEP; c += WORKGROUP / along) {
        [[unroll]] for (uint d = 0u; d < VALUE_CHUNK / 4u; d += along) {
            uvec4 bits = floatBitsToUint(staged[c * VALUE_PITCH + d + id % along]) & 0x7fffffffu;
            most = max(most, max(max(bits.x, bits.y), max(bits.z, bits.w)));
        }
    }
    if (most >= 0x7f800000u)
        met[MET_NOT_FINITE] = 1u;
    barrier();
    return met[MET_NOT_FINITE] != 0u;
}

// O += P V for the staged keys, in rounds of `at_once`. `select`: by selects, since V has what is not
// finite and rows that may not see it. The same multiply-adds in both forms, so that a row has the same
// bits in any tile.
void add_values(uint group, uint lane, uint chunk, uint at_once, bool select)
{
    uint weight = group;
    uint row = 0u;
    [[dont_unroll]] for (uint first = 0u; first < STEP; first += at_once) {
        [[unroll]] for (uint n = 0u; n < at_once; n++) {
            vec4 w = weights[weight + n * (GROUPS + 1u)];
            vec2 y[PAIRS];
            LOAD_PAIRS(y, staged, row + n * VALUE_PITCH, lane)
            [[unroll]] for (uint i = 0u; i < PAIRS; i++)
                [[unroll]] for (uint r = 0u; r < TILE_ROWS; r++)
                    acc[slot_of(chunk, i, r)] =
                        fma(vec2(w[r]), select && w[r] == 0.0 ? vec2(0.0) : y[i],
                            acc[slot_of(chunk, i, r)]);
        }
        weight += at_once * (GROUPS + 1u);
        row += at_once * VALUE_PITCH;
    }
}

// O += P V[rho]. A row of the table meets one key of each of the lane's rows; keys in runs of
// STRIDE.
void add_table_values(uint group, uint lane, uint chunk)
{
    const uint runs = STEP / STRIDE;
    const uint at_once = TILE_KEYS_AT_ONCE(VALUE_CHUNKS);
    const uint key = GROUPS + 1u; // weights from one to the next
    uint row = (ROWS - 1u - lane_row(group, TILE_ROWS - 1u)) * VALUE_PITCH;
    uint weight = group - (TILE_ROWS - 1u) * STRIDE * key; // of the lane's first row
    [[dont_unroll]] for (uint n = 0u; n < runs + TILE_ROWS - 1u; n++) {
        [[dont_unroll]] for (uint i = 0u; i < STRIDE; i += at_once) {
            vec2 slots[PAIRS * at_once];
            [[unroll]] for (uint e = 0u; e < at_once; e++) {
                vec2 y[PAIRS];
                LOAD_PAIRS(y, band, row + e * VALUE_PITCH, lane)
                [[unroll]] for (uint p = 0u; p < PAIRS; p++)
                    slots[e * PAIRS + p] = y[p];
            }
            [[unroll]] for (uint r = 0u; r < TILE_ROWS; r++) {
                uint run = n + r - (TILE_ROWS - 1u); // beyond `runs` where there is none
                if (run >= runs)
                    continue;
                [[unroll]] for (uint e = 0u; e < at_once; e++) {
                    float w = weights[weight + (r * STRIDE + e) * key][r];
                    [[unroll]] for (uint p = 0u; p < PAIRS; p++)
                        acc[slot_of(chunk, p, r)] =
                            fma(vec2(w), slots[e * PAIRS + p], acc[slot_of(chunk, p, r)]);
                }
            }
            row += at_once * VALUE_PITCH;
            weight += at_once * key;
        }
    }
}

// Sum over the lanes of a row group, always in the same order. Wants a barrier before and after.
vec4 sum_over_lanes(uint group, uint lane, vec4 x)
{
    weights[lane * (GROUPS + 1u) + group] = x;
    barrier();
    vec4 sum = vec4(0.0);
    [[unroll]] for (uint i = 0u; i < TILE_LANES; i++)
        sum += weights[i * (GROUPS + 1u) + group];
    return sum;
}

// O += P (V + V[rho]) for the channels of a chunk, staged here; after the last one the slots of the
// step at `next` are prepared.
void add_value_chunk(uint id, uint group, uint lane, int next, uint fresh, uint chunk)
{
#ifdef RHUMB_SUBGROUP
    barrier(); // all lanes are done with K; in the shared form the reduction's barrier says so
#else
    if (chunk > 0u)
        barrier();
#endif
    vec4 kept = vec4(0.0);
    if (chunk == VALUE_CHUNKS - 1u && has_difference())
        kept = kept_difference(id, fresh);
    stage_v(id, 0u, chunk * VALUE_CHUNK);
    if (has_term(TERM_VALUE)) {
        stage_value_table(id, 0u, chunk * VALUE_CHUNK);
        clear_value_table(id, 0u);
    }
    barrier();
    if (chunk == VALUE_CHUNKS - 1u) {
        prepare_band(id, next);
        if (has_difference() && id < BAND)
            band_difference[id] = kept;
    }
    bool select = false;
    if (met[MET_HIDDEN] != 0u)
        select = find_not_finite(id);
    if (select)
        add_values(group, lane, chunk, 1u, true); // rare: little code
    else
        add_values(group, lane, chunk, TILE_KEYS_AT_ONCE(VALUE_CHUNKS), false);
    if (has_term(TERM_VALUE))
        add_table_values(group, lane, chunk);
}

// O goes through the space of V, STORED of a lane's rows at a time, so that it is written in runs of 16
// bytes and by little code.
const uint STORED = STEP / GROUPS >= TILE_ROWS ? TILE_ROWS : STEP / GROUPS >= 2u ? 2u : 1u;

void store_o(uint id, uint group, uint lane, vec4 norm)
{
    const uint quads = VALUE_CHUNK / 4u;
    const uint passes = TILE_ROWS / STORED;
    [[dont_unroll]] for (uint turn = 0u; turn < VALUE_CHUNKS * passes; turn++) {
        barrier();
        [[unroll]] for (uint now = 0u; now < VALUE_CHUNKS * passes; now++) {
            if (now != turn) // a constant then: registers are not indexed
                continue;
            [[unroll]] for (uint n = 0u; n < STORED; n++) {
                uint r = now % passes * STORED + n;
                uint row = (group * STORED + n) * VALUE_PITCH;
                [[unroll]] for (uint i = 0u; i < PAIRS; i++) {
                    uint pair = pair_number(i, lane);
                    vec2 x = norm[r] * acc[slot_of(now / passes, i, r)];
                    staged[row + pair / 2u][2u * (pair & 1u)] = x.x;
                    staged[row + pair / 2u][2u * (pair & 1u) + 1u] = x.y;
                }
            }
        }
        barrier();
        for (uint i = id; i < GROUPS * STORED * quads; i += WORKGROUP) {
            uint row = i / quads;
            uint t = tile.first + lane_row(row / STORED, turn % passes * STORED + row % STORED);
            if (t < row_count) {
                uvec2 place = query_place(tile.b, query_row(t));
                o_store4_aligned(o_at(place.x, query_head(t), place.y) +
                                     turn / passes * VALUE_CHUNK + (i % quads) * 4u,
                                 staged[row * VALUE_PITCH + i % quads]);
            }
        }
    }
}

// A loop over chunks has loops inside, and some compilers then leave it one: its registers would be
// indexed. More than four chunks are rare.
void add_value_chunks(uint id, uint group, uint lane, int next, uint fresh)
{
    add_value_chunk(id, group, lane, next, fresh, 0u);
    if (VALUE_CHUNKS > 1u)
        add_value_chunk(id, group, lane, next, fresh, 1u);
    if (VALUE_CHUNKS > 2u)
        add_value_chunk(id, group, lane, next, fresh, 2u);
    if (VALUE_CHUNKS > 3u)
        add_value_chunk(id, group, lane, next, fresh, 3u);
    for (uint chunk = 4u; chunk < VALUE_CHUNKS; chunk++)
        add_value_chunk(id, group, lane, next, fresh, chunk);
}

void main()
{
    uint id = gl_LocalInvocationID.x;
    uint group = id / TILE_LANES;
    uint lane = id % TILE_LANES;
    if (id < 4u)
        met[id] = 0u; // before a barrier that others set it after
    find_tile(id);
    uint last = min(tile.first + ROWS, row_count);
    uint first_a = 0u;
    uint last_a = 0u;
    KeyRange range = KeyRange(0, 0, 0);
    if (tile.first < row_count) {
        first_a = query_row(tile.first);
        last_a = query_row(last - 1u);
        range = key_range(first_a, last_a, len);
    }

    Reach row_reach[TILE_ROWS];
    [[unroll]] for (uint r = 0u; r < TILE_ROWS; r++)
        row_reach[r] = row_reach_of(tile.b, lane_query_row(group, r), len);

    if (HEAD_CHUNKS == 1u) {
        stage_q(id, 0u, 0u);
        if (PAIRING != PAIRING_NONE) {
            barrier();
            rotate_q(id);
        }
    }
    RowTerms rows = load_row_terms(group, lane);
    uint lane_slot = lane + ROWS - 1u - lane_row(group, TILE_ROWS - 1u);

    [[unroll]] for (uint chunk = 0u; chunk < VALUE_CHUNKS; chunk++)
        [[unroll]] for (uint i = 0u; i < PAIRS; i++)
            [[unroll]] for (uint r = 0u; r < TILE_ROWS; r++)
                acc[slot_of(chunk, i, r)] = vec2(0.0);
    vec4 row_max = vec4(LOWEST);
    vec4 row_sum = vec4(0.0); // of this lane's keys

    int block = first_block(range, int(STEP));
    uint fresh = 0u; // slots from here on are new
    if (has_band()) {
        barrier();
        prepare_band(id, block);
        prepare_difference(id);
        barrier();
    }
    last_key = uint(range.end) - 1u;
    while (block < range.end) {
        first_key = uint(block);
        [[unroll]] for (uint j = 0u; j < KEYS; j++)
            s[j] = vec4(0.0);
        [[dont_unroll]] for (uint chunk = 0u; chunk < HEAD_CHUNKS; chunk++) {
            if (HEAD_CHUNKS > 1u) {
                barrier();
                stage_q(id, 0u, chunk * HEAD_CHUNK);
            }
            stage_k(id, 0u, chunk * HEAD_CHUNK);
            if (has_term(TERM_QUERY)) {
                stage_query_table(id, 0u, chunk * HEAD_CHUNK);
                clear_query_table(id, 0u);
            }
            if (has_term(TERM_KEY)) {
                stage_key_table(id, KEY_BAND, chunk * HEAD_CHUNK);
                clear_key_table(id, KEY_BAND);
            }
            barrier();
            if (has_difference())
                add_difference(id, chunk * HEAD_CHUNK, fresh);
            add_products(group, lane, lane_slot);
        }
        if (has_difference())
            barrier();

        add_terms(group, lane, lane_slot, block, range.end, rows);
        bool cut = !all_visible(first_a, last_a, block, int(STEP), len);
        bool hides = cut; // some key from some row of the lane
        if (has_view(VIEW_MASK))
            hides = add_mask(lane, block, range.end, rows) || cut;
        if (cut) {
            [[unroll]] for (uint j = 0u; j < KEYS; j++) {
                int key = block + int(lane + TILE_LANES * j);
                bool in_range = key < range.end;
                int p = key;
                if (in_range && constants.mask_order == MASK_ORDER_POSITION)
                    p = position_k(tile.b, uint(key));
                [[unroll]] for (uint r = 0u; r < TILE_ROWS; r++) {
                    bool visible = position_visible(row_reach[r], p);
                    s[j][r] = in_range && visible ? s[j][r] : LOWEST;
                }
            }
        }

        vec4 new_max = row_max;
        [[unroll]] for (uint j = 0u; j < KEYS; j++)
            new_max = max(new_max, s[j]);
        new_max = max_over_lanes(group, lane, new_max);
        vec4 shrink = exp2(row_max - new_max);
        row_max = new_max;
        row_sum *= shrink;
        vec4 w[KEYS];
        [[unroll]] for (uint j = 0u; j < KEYS; j++)
            w[j] = exp2(s[j] - new_max);
        if (hides) {
            met[MET_HIDDEN] = 1u;
            [[unroll]] for (uint j = 0u; j < KEYS; j++)
                w[j] = mix(w[j], vec4(0.0), lessThan(s[j], vec4(HIDDEN_BELOW)));
        }
        [[unroll]] for (uint j = 0u; j < KEYS; j++) {
            row_sum += w[j];
            weights[(lane + TILE_LANES * j) * (GROUPS + 1u) + group] = w[j];
        }
        [[unroll]] for (uint chunk = 0u; chunk < VALUE_CHUNKS; chunk++)
            [[unroll]] for (uint i = 0u; i < PAIRS; i++)
                [[unroll]] for (uint r = 0u; r < TILE_ROWS; r++)
                    acc[slot_of(chunk, i, r)] *= shrink[r];

        int next = next_block(range, block, int(STEP));
        fresh = next - block == int(STEP) ? BAND - STEP : 0u;
        add_value_chunks(id, group, lane, next, fresh);
        barrier(); // V and the weights are read before the next step stages
        block = next;
    }

    barrier();
    row_sum = sum_over_lanes(group, lane, row_sum);
    vec4 norm;
    [[unroll]] for (uint r = 0u; r < TILE_ROWS; r++) {
        uint t = tile.first + lane_row(group, r);
        float top = row_max[r];
        float sum = row_sum[r];
        norm[r] = row_factor(query_head(t), top, sum);
        if (has_view(VIEW_LSE) && lane == r && t < row_count) {
            uvec2 place = query_place(tile.b, query_row(t));
            store_lse(place.x, query_head(t), place.y, top, sum);
        }
    }

    store_o(id, group, lane, norm);
}
