#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_buffer_reference_uvec2 : require
#extension GL_EXT_shader_explicit_arithmetic_types_int64 : require
#extension GL_KHR_shader_subgroup_ballot : require
#extension GL_KHR_shader_subgroup_shuffle : require
// ATTENTION, prefill on CPU devices, with the terms of relative schemes:
//
//   S = s ((q + u) . k + (q + w) . A[rho] + k . C[rho] + r[rho] + (q + z) . G[segment]) + b[rho]
//   O = sum_j softmax_j(S) (v_j + V[rho]) over the visible keys
//
//   Q [B, H, Lq, D], K [B, Hkv, Lk, D], V [B, Hkv, Lk, DV], O [B, H, Lq, DV]; D, DV multiples of 8.
//
// Rows across the lanes of a subgroup, no shared memory and no barrier. A work group is one subgroup
// of LANES lanes; a lane owns ROWS rows of one head, first_row + LANES r + lane. For every block of
// LANES keys a lane loads one key, and four keys at a time are spread to all lanes: one load serves
// LANES x ROWS multiply-adds. Softmax is within a lane.
//
// Tables by the distance delta = key - query. The pairs of a block and the rows r have the diagonals
// of chunks block - LANES r and block - LANES (r + 1); chunk c holds the LANES diagonals from
// c - base on, base the position of the tile's first row; lane e owns the e-th of them.
//   A  is streamed: the products of a chunk's rows with all rows of Q are made once, when the chunk
//      enters, kept until their row meets the chunk, and skewed onto the pairs from two chunks at a
//      time.
//   C  meets keys that are all new: a lane holds a diagonal's row, keys are broadcast, and one
//      shuffle per pair does the skew.
//   V  the weights are skewed onto diagonals; a chunk of V is multiplied when the weights of all rows
//      on it are complete.
//   b  a lane holds a diagonal's scalar, one shuffle per pair.
// Blocks beyond the distances near_low .. near_high, where rows no longer change, take one number a
// row (A), a key (C) or a head (b), and one sum of weights a row (V).
#include "rhumb_shared.h"
#include "lib/io.glsl"
#include "lib/address.glsl"
#include "lib/position.glsl"
#include "lib/trig.glsl"
#include "lib/terms.glsl"
#include "lib/window.glsl"
#include "lib/rows.glsl"
#include "lib/place.glsl"
#include "lib/entry.glsl"
#include "lib/logit.glsl"

layout(local_size_x_id = SPEC_WORKGROUP) in;
layout(constant_id = SPEC_PAIRING) const uint PAIRING = PAIRING_NONE;
layout(constant_id = SPEC_HEAD_DIM) const uint HEAD_DIM = 64u;
layout(constant_id = SPEC_VALUE_DIM) const uint VALUE_DIM = 64u;

#define LANES BROADCAST_LANES
#define ROWS BROADCAST_ROWS

RHUMB_READ_VIEW(q, VIEW_Q)
RHUMB_READ_VIEW(k, VIEW_K)
RHUMB_READ_VIEW(v, VIEW_V)
RHUMB_READ_VIEW(query_table, VIEW_QUERY_TABLE)
RHUMB_READ_VIEW(key_table, VIEW_KEY_TABLE)
RHUMB_READ_VIEW(value_table, VIEW_VALUE_TABLE)
RHUMB_READ_VIEW(table_scalar, VIEW_TABLE_SCALAR)
RHUMB_READ_VIEW(content_bias, VIEW_CONTENT_BIAS)
RHUMB_READ_VIEW(position_bias, VIEW_POSITION_BIAS)
RHUMB_READ_VIEW(segment_bias, VIEW_SEGMENT_BIAS)
RHUMB_READ_VIEW(segment_table, VIEW_SEGMENT_TABLE)
RHUMB_READ_VIEW(row_scale, VIEW_ROW_SCALE)
RHUMB_READ_VIEW(head_scale, VIEW_HEAD_SCALE)
RHUMB_WRITE_VIEW(o, VIEW_O)
RHUMB_ADDRESS_VIEW(q, VIEW_Q)
RHUMB_ADDRESS_VIEW(k, VIEW_K)
RHUMB_ADDRESS_VIEW(v, VIEW_V)
RHUMB_ADDRESS_VIEW(table, VIEW_TABLE)
RHUMB_ADDRESS_VIEW(query_table, VIEW_QUERY_TABLE)
RHUMB_ADDRESS_VIEW(key_table, VIEW_KEY_TABLE)
RHUMB_ADDRESS_VIEW(value_table, VIEW_VALUE_TABLE)
RHUMB_ADDRESS_VIEW(content_bias, VIEW_CONTENT_BIAS)
RHUMB_ADDRESS_VIEW(position_bias, VIEW_POSITION_BIAS)
RHUMB_ADDRESS_VIEW(segment_bias, VIEW_SEGMENT_BIAS)
RHUMB_ADDRESS_VIEW(segment_table, VIEW_SEGMENT_TABLE)
RHUMB_ADDRESS_STORE(o, VIEW_O)

uint lane;
Entry entry;
uint b; // entry.b
uint head;
uint first_row; // of the tile
uint last_row;
int base;       // position of the first row
Lengths len;

float q[HEAD_DIM * ROWS];        // (q + u), times the scale
float q_rho[HEAD_DIM * ROWS];    // (q + w), where it differs
float acc[VALUE_DIM * ROWS];
float s[ROWS * LANES];           // logits, then weights
vec4 k_quads[HEAD_DIM / 4u];     // this lane's key
vec4 v_quads[VALUE_DIM / 4u];    // and what it brings
float row_max[ROWS];
float row_sum[ROWS];
float shrink[ROWS];

// Row r of this lane, the last one where there are fewer.
uint row_of_lane(uint r)
{
    return min(first_row + LANES * r + lane, last_row);
}

void add_products(int block, bool of_table);

#include "lib/broadcast_tables.glsl"
#include "lib/broadcast_bias.glsl"

// ---- Rows

float turned[HEAD_DIM * ROWS]; // rows of Q, rotated

// Pair after pair in a loop: unrolled it would be most of the kernel's code.
void turn_rows()
{
    [[unroll]] for (uint r = 0u; r < ROWS; r++) {
        uvec2 place = query_token(entry, row_of_lane(r));
        uint at = q_at(place.x, head, place.y);
        [[unroll]] for (uint d = 0u; d < HEAD_DIM; d += 4u) {
            vec4 x = q_far4(at + d);
            [[unroll]] for (uint i = 0u; i < 4u; i++)
                turned[(d + i) * ROWS + r] = x[i];
        }
    }
    uint pairs = constants.rotary_dim / 2u;
    [[dont_unroll]] for (uint i = 0u; i < pairs; i++) {
        uint first = constants.rotary_offset + (PAIRING == PAIRING_HALF ? i : 2u * i);
        uint second = first + (PAIRING == PAIRING_HALF ? pairs : 1u);
        [[unroll]] for (uint r = 0u; r < ROWS; r++) {
            int p = rotary_position(b, row_of_lane(r), len.q_offset, i);
            vec2 cs = rotary_cos_sin(p, i, false);
            float x = turned[first * ROWS + r];
            float y = turned[second * ROWS + r];
            turned[first * ROWS + r] = x * cs.x - y * cs.y;
            turned[second * ROWS + r] = x * cs.y + y * cs.x;
        }
    }
}

// Four channels of row r. `at`: first element of the row in Q.
vec4 q_channels(uint at, uint d, uint r)
{
    if (PAIRING == PAIRING_NONE)
        return q_far4(at + d);
    return vec4(turned[d * ROWS + r], turned[(d + 1u) * ROWS + r], turned[(d + 2u) * ROWS + r],
                turned[(d + 3u) * ROWS + r]);
}

// What a row of Q, whose first element is `at`, is multiplied by.
float row_gain(uint at, uvec2 place)
{
    if (has_term(TERM_COSINE)) {
        float squares = 0.0;
        [[unroll]] for (uint d = 0u; d < HEAD_DIM; d += 4u) {
            vec4 x = q_far4(at + d);
            squares += dot(x, x);
        }
        float scale = exp(min(head_scale_load(head_scale_at(0u, 0u, 0u) + head),
                              constants.max_log_scale));
        return LOG2_E * scale / max(sqrt(squares), constants.epsilon);
    }
    if (has_view(VIEW_ROW_SCALE) && !has_term(TERM_ROW_SCALE))
        return constants.scale_log2 * row_scale_load(row_scale_at(0u, place.x, head) + place.y);
    return constants.scale_log2;
}

void load_rows()
{
    if (PAIRING != PAIRING_NONE)
        turn_rows();
    [[unroll]] for (uint r = 0u; r < ROWS; r++) {
        uint a = row_of_lane(r);
        uvec2 place = query_token(entry, a);
        uint at = q_at(place.x, head, place.y == NO_PIXEL ? 0u : place.y);
        float gain = row_gain(at, place);
        if (has_term(TERM_SEGMENT)) {
            row_segment[r] = segments_q_word(segments_q_at(0u, 0u, b) + a);
            same_segment[r] = 0.0;
            other_segment[r] = 0.0;
        }
        if (bias_by_diagonals()) {
            gates[r] = bias_factor();
            if (has_term(TERM_ROW_SCALE))
                gates[r] *= row_scale_load(row_scale_at(0u, place.x, head) + place.y);
        }
        [[unroll]] for (uint d = 0u; d < HEAD_DIM; d += 4u) {
            vec4 x = q_channels(at, d, r);
            vec4 u = vec4(0.0);
            vec4 w = vec4(0.0);
            if (has_term(TERM_CONTENT_BIAS))
                u = content_bias_far4(content_bias_at(0u, 0u, head) + d);
            if (has_term(TERM_POSITION_BIAS))
                w = position_bias_far4(position_bias_at(0u, 0u, head) + d);
            else if (has_flag(TERM_FLAG_FOLDED))
                w = u;
            if (has_term(TERM_SEGMENT)) {
                vec4 z = x + segment_bias_far4(segment_bias_at(0u, 0u, head) + d);
                same_segment[r] +=
                    constants.scale_log2 *
                    dot(z, segment_table_far4(segment_table_at(0u, head, 0u) + d));
                other_segment[r] +=
                    constants.scale_log2 *
                    dot(z, segment_table_far4(segment_table_at(0u, head, 1u) + d));
            }
            [[unroll]] for (uint i = 0u; i < 4u; i++) {
                q[(d + i) * ROWS + r] = gain * (x[i] + u[i]);
                if (has_term(TERM_CONTENT_BIAS) || has_term(TERM_POSITION_BIAS))
                    q_rho[(d + i) * ROWS + r] = gain * (x[i] + w[i]);
            }
        }
        [[unroll]] for (uint d = 0u; d < VALUE_DIM; d++)
            acc[d * ROWS + r] = 0.0;
        row_max[r] = LOWEST;
        row_sum[r] = 0.0;
    }
}

void store_rows()
{
    [[unroll]] for (uint r = 0u; r < ROWS; r++) {
        uint a = first_row + LANES * r + lane;
        uvec2 place = query_token(entry, row_of_lane(r));
        float factor = row_factor(head, row_max[r], row_sum[r]);
        if (a <= last_row && place.y != NO_PIXEL) {
            uint at = o_at(place.x, head, place.y);
            [[unroll]] for (uint d = 0u; d < VALUE_DIM; d += 4u)
                o_far_store4(at + d,
                             factor * vec4(acc[d * ROWS + r], acc[(d + 1u) * ROWS + r],
                                           acc[(d + 2u) * ROWS + r], acc[(d + 3u) * ROWS + r]));
            if (has_view(VIEW_LSE))
                store_lse(place.x, head, place.y, row_max[r], row_sum[r]);
        }
    }
}

// ---- Keys

// This lane's key; zeros for the padding of a window.
void load_key(uint k_row, bool real)
{
    float squares = 0.0;
    [[unroll]] for (uint d = 0u; d < HEAD_DIM / 4u; d++) {
        k_quads[d] = k_far4(k_row + 4u * d);
        if (has_term(TERM_WINDOW))
            k_quads[d] = real ? k_quads[d] : vec4(0.0);
        if (has_term(TERM_COSINE))
            squares += dot(k_quads[d], k_quads[d]);
    }
    if (has_term(TERM_COSINE)) {
        float factor = 1.0 / max(sqrt(squares), constants.epsilon);
        [[unroll]] for (uint d = 0u; d < HEAD_DIM / 4u; d++)
            k_quads[d] *= factor;
    }
}

// s += products of k_quads, a lane's key of the block or row of A, with the rows; and slopes for keys.
// Four lanes at a time: with ROWS rows their sums fill the registers of the processor. A loop, since
// the kernel's code comes from the processor's second cache, and the second half's from the first.
void add_products(int block, bool of_table)
{
    [[dont_unroll]] for (uint first = 0u; first < LANES; first += 4u) {
        float sum[ROWS * 4u];
        [[unroll]] for (uint i = 0u; i < ROWS * 4u; i++)
            sum[i] = s[i / 4u * LANES + i % 4u];
        [[unroll]] for (uint d = 0u; d < HEAD_DIM; d++) {
            float x = k_quads[d / 4u][d % 4u];
            vec4 y = vec4(subgroupShuffle(x, first), subgroupShuffle(x, first + 1u),
                          subgroupShuffle(x, first + 2u), subgroupShuffle(x, first + 3u));
            [[unroll]] for (uint r = 0u; r < ROWS; r++)
                [[unroll]] for (uint j = 0u; j < 4u; j++)
                    sum[r * 4u + j] = fma(q_element(d * ROWS + r, of_table), y[j], sum[r * 4u + j]);
        }
        if (has_term(TERM_SLOPE) && !of_table)
            add_common_slopes(block + int(first), common_slope(block), sum);
        // After both halves all are in place again.
        [[unroll]] for (uint i = 0u; i < ROWS * 4u; i++) {
            uint at = i / 4u * LANES + i % 4u;
            s[at] = s[at + 4u];
            s[at + 4u] = sum[i];
        }
    }
}

void hide_keys(int block, int end, Reach row_reach[ROWS])
{
    uint mask_row[ROWS];
    if (has_view(VIEW_MASK))
        [[unroll]] for (uint r = 0u; r < ROWS; r++)
            mask_row[r] = mask_at(b, head, row_of_lane(r));
    [[unroll]] for (uint j = 0u; j < LANES; j++) {
        int at = block + int(j);
        bool in_range = at < end;
        int p = at;
        if (in_range && constants.mask_order == MASK_ORDER_POSITION)
            p = position_k(b, uint(at));
        [[unroll]] for (uint r = 0u; r < ROWS; r++) {
            bool visible = in_range && position_visible(row_reach[r], p);
            if (has_view(VIEW_MASK)) {
                float added;
                if (mask_hides(mask_element(mask_row[r], uint(min(at, end - 1))), added))
                    visible = false;
                s[r * LANES + j] = fma(LOG2_E, added, s[r * LANES + j]);
            }
            s[r * LANES + j] = visible ? s[r * LANES + j] : LOWEST;
        }
    }
}

void cap_logits()
{
    [[unroll]] for (uint i = 0u; i < ROWS * LANES; i++)
        s[i] = capped(s[i], LOG2_E);
}

// b, the cap and the mask of a window, in the order that is asked for.
void finish_logits(int block)
{
    if (has_bias()) {
        if (push.softcap != 0.0 && bias_after_cap())
            cap_logits();
        add_bias(block);
    }
    if (push.softcap != 0.0 && !(has_bias() && bias_after_cap()))
        cap_logits();
    if (has_term(TERM_WINDOW))
        add_window_mask();
}

void weigh()
{
    [[unroll]] for (uint r = 0u; r < ROWS; r++) {
        float top = row_max[r];
        [[unroll]] for (uint j = 0u; j < LANES; j++)
            top = max(top, s[r * LANES + j]);
        shrink[r] = exp2(row_max[r] - top);
        row_max[r] = top;
        row_sum[r] *= shrink[r];
        top = max(top, 2.0 * HIDDEN_BELOW); // hidden keys weigh nothing where all are hidden so far
        [[unroll]] for (uint j = 0u; j < LANES; j++) {
            float w = exp2(s[r * LANES + j] - top);
            s[r * LANES + j] = w;
            row_sum[r] += w;
        }
    }
}

// This lane's V; zeros for the padding of a window.
void load_values(uint v_row, bool real)
{
    [[unroll]] for (uint d = 0u; d < VALUE_DIM / 4u; d++) {
        v_quads[d] = v_far4(v_row + 4u * d);
        if (has_term(TERM_WINDOW))
            v_quads[d] = real ? v_quads[d] : vec4(0.0);
    }
}

// Whether any lane's V has an infinity or a NaN, which a weight of 0 does not hide.
bool any_not_finite()
{
    uint most = 0u;
    [[unroll]] for (uint d = 0u; d < VALUE_DIM / 4u; d++) {
        uvec4 bits = floatBitsToUint(v_quads[d]) & 0x7fffffffu;
        most = max(most, max(max(bits.x, bits.y), max(bits.z, bits.w)));
    }
    return subgroupBallot(most >= 0x7f800000u) != uvec4(0u);
}

// acc += weights . v.
void add_values()
{
    [[unroll]] for (uint d = 0u; d < VALUE_DIM; d += 4u) {
        [[unroll]] for (uint i = 0u; i < 4u; i++)
            [[unroll]] for (uint r = 0u; r < ROWS; r++)
                acc[(d + i) * ROWS + r] *= shrink[r];
        ADD_WEIGHTED(v_quads[d / 4u], s)
    }
}

// The same, and what weighs nothing is passed over. It is rare, so it is a loop over the keys: weights
// move on by one in each round, and after all of them are where they were.
void select_values()
{
    [[dont_unroll]] for (uint j = 0u; j < LANES; j++) {
        [[unroll]] for (uint r = 0u; r < ROWS; r++) {
            float w = s[r * LANES];
            float kept = j == 0u ? shrink[r] : 1.0;
            [[unroll]] for (uint d = 0u; d < VALUE_DIM; d++) {
                float y = subgroupShuffle(v_quads[d / 4u][d % 4u], j);
                acc[d * ROWS + r] = fma(w, w == 0.0 ? 0.0 : y, acc[d * ROWS + r] * kept);
            }
            [[unroll]] for (uint i = 0u; i < LANES - 1u; i++)
                s[r * LANES + i] = s[r * LANES + i + 1u];
            s[r * LANES + LANES - 1u] = w;
        }
    }
}

// Attention of the rows over the keys of a block. s: what the query-side terms gave.
void add_block(int block, KeyRange range, uint kv_head, Reach row_reach[ROWS], bool near,
               bool is_past)
{
    uint key = min(uint(block) + lane, uint(range.end) - 1u);
    uvec2 place = has_term(TERM_WINDOW) ? uvec2(b, key_pixel(key)) : key_place(b, key);
    bool real = place.y != NO_PIXEL;
    uint l = real ? place.y : 0u;
    load_key(k_at(place.x, kv_head, l), real);
    add_products(block, false);
    if (has_term(TERM_KEY)) {
        if (near) {
            add_key_terms(block);
        } else {
            ivec2 edges = near_distances(b);
            add_far_key_terms(is_past ? edges.x : edges.y);
        }
    }
    if (has_term(TERM_SEGMENT))
        add_segments(block);
    finish_logits(block);

    bool edge = has_view(VIEW_MASK) || !all_visible(first_row, last_row, block, LANES, len);
    if (edge)
        hide_keys(block, range.end, row_reach);
    weigh();
    load_values(v_at(place.x, kv_head, l), real);
    bool select = false;
    if (edge)
        select = any_not_finite();
    if (select)
        select_values();
    else
        add_values();
    if (has_term(TERM_VALUE))
        shrink_weights(near, is_past);
    if (has_term(TERM_WINDOW))
        advance_window();
}

void main()
{
    lane = gl_LocalInvocationID.x;
    uint id = group_id();
    first_row = (id % push.tiles) * (LANES * ROWS);
    head = id / push.tiles % constants.heads;
    entry = entry_of(id / push.tiles / constants.heads);
    b = entry.b;
    len = entry_lengths(entry, lowest_offset(PAIRING), first_row == 0u && head == 0u, lane, LANES);
    uint kv_head = head / heads_per_kv_head();
    if (int(first_row) >= len.q)
        return;
    last_row = min(first_row + LANES * ROWS, uint(len.q)) - 1u;
    KeyRange range = key_range(first_row, last_row, len);
    base = int(first_row) + len.q_offset;
    load_rows();
    if (has_term(TERM_WINDOW))
        start_window();
    if (has_term(TERM_SLOPE))
        start_slopes();
    Reach row_reach[ROWS];
    [[unroll]] for (uint r = 0u; r < ROWS; r++)
        row_reach[r] = row_reach_of(b, row_of_lane(r), len);

    // Blocks from near_first to before near_end have pairs whose rows change with the distance.
    // Chunks of diagonals follow each other without a gap.
    if ((has_vector_tables() || bias_by_diagonals()) && range.kept > 0)
        range.first = 0;
    int first = first_block(range, LANES);
    int near_first = first;
    int near_end = range.end;
    int last_near = 0;
    // Chunks enter before the blocks that want them, and the weights of V's are complete after.
    int loop_first = first;
    int loop_end = range.end;
    float far_past[ROWS], far_future[ROWS];
    if (has_vector_tables()) {
        ivec2 near = near_distances(b);
        // Where rows change at any distance the sums below could leave an int.
        if (near.x > -RHUMB_MAX_LENGTH)
            near_first = max(first, (near.x + base + 1) / LANES * LANES);
        if (near.y < RHUMB_MAX_LENGTH)
            near_end = (near.y + base + LANES * ROWS + LANES - 2) / LANES * LANES;
        near_first = min(near_first, range.end);
        near_end = clamp(near_end, near_first, range.end);
        last_near = (near_end - 1) / LANES * LANES;
        if (has_term(TERM_QUERY | TERM_SCALAR)) {
            far_query_terms(near.x, far_past);
            far_query_terms(near.y, far_future);
            [[unroll]] for (uint i = 0u; i < STREAMED(ROWS) * LANES; i++)
                streamed[i] = 0.0;
            if (near_first < near_end)
                loop_first = min(first, near_first - int(ROWS) * LANES);
        }
        if (has_term(TERM_VALUE)) {
            [[unroll]] for (uint i = 0u; i < WAITING_CHUNKS * LANES; i++)
                waiting[i] = 0.0;
            [[unroll]] for (uint r = 0u; r < ROWS; r++)
                past_mass[r] = future_mass[r] = 0.0;
            if (near_first < near_end)
                loop_end = max(range.end, last_near + int(ROWS) * LANES + 1);
        }
    }

    if (bias_by_diagonals())
        [[unroll]] for (uint m = 0u; m < ROWS; m++)
            scalars[m] = scalar_of(diagonal(first - LANES, m));

    for (int block = loop_first; block < loop_end;
         block = block < first ? block + LANES : next_block(range, block, LANES)) {
        bool inside = !has_vector_tables() || (block >= first && block < range.end);
        bool near = block >= near_first && block < near_end;
        bool is_past = block < near_first;
        if (has_term(TERM_QUERY | TERM_SCALAR) && block >= near_first - int(ROWS) * LANES &&
            block < near_end)
            stream_query_terms(block);
        [[unroll]] for (uint i = 0u; i < ROWS * LANES; i++) {
            float streamed_pair = s[i];
            float far = is_past ? far_past[i / LANES] : far_future[i / LANES];
            s[i] = !has_term(TERM_QUERY | TERM_SCALAR) ? 0.0 : near ? streamed_pair : far;
        }
        if (inside)
            add_block(block, range, kv_head, row_reach, near, is_past);
        if (has_term(TERM_VALUE) && block >= near_first && block <= last_near + int(ROWS) * LANES)
            pass_weights(block, near);
    }

    if (has_term(TERM_VALUE) && first < range.end) {
        ivec2 near = near_distances(b);
        add_far_values(near.x, past_mass);
        add_far_values(near.y, future_mass);
    }
    store_rows();
}
