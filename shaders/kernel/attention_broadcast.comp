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
// LANES keys a lane loads one key, and broadcasts from constant lanes bring each key to all rows: one
// load serves LANES x ROWS multiply-adds. Softmax is within a lane.
//
// Tables by the distance delta = key - query. The pairs of a block and the rows r have the diagonals
// of chunks block - LANES r and block - LANES (r + 1); chunk c holds the LANES diagonals from
// c - base on, base the position of the tile's first row; lane e owns the e-th of them.
//   A  is streamed: the product of a chunk's rows with q is made once, when the chunk enters, and
//      skewed onto the pairs from two chunks at a time; two row blocks share one load of a chunk.
//   C  meets keys that are all new: a lane holds a diagonal's row, keys are broadcast, and one
//      shuffle per pair does the skew.
//   V  the weights are skewed onto diagonals; a diagonal's sum meets its row when it is complete.
//   b  a lane holds a diagonal's scalar, one shuffle per pair.
// Blocks beyond the distances near_low .. near_high, where rows no longer change, take one number a
// row (A), a key (C) or a head (b), and one sum of weights a row (V).
#include "rhumb_shared.h"
#include "lib/io.glsl"
#include "lib/address.glsl"
#include "lib/position.glsl"
#include "lib/trig.glsl"
#include "lib/terms.glsl"
#include "lib/rows.glsl"
#include "lib/place.glsl"
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
RHUMB_WRITE_VIEW(o, VIEW_O)
RHUMB_ADDRESS_VIEW(q, VIEW_Q)
RHUMB_ADDRESS_VIEW(k, VIEW_K)
RHUMB_ADDRESS_VIEW(v, VIEW_V)
RHUMB_ADDRESS_VIEW(query_table, VIEW_QUERY_TABLE)
RHUMB_ADDRESS_VIEW(key_table, VIEW_KEY_TABLE)
RHUMB_ADDRESS_VIEW(value_table, VIEW_VALUE_TABLE)
RHUMB_ADDRESS_VIEW(content_bias, VIEW_CONTENT_BIAS)
RHUMB_ADDRESS_VIEW(position_bias, VIEW_POSITION_BIAS)
RHUMB_ADDRESS_VIEW(segment_bias, VIEW_SEGMENT_BIAS)
RHUMB_ADDRESS_VIEW(segment_table, VIEW_SEGMENT_TABLE)
RHUMB_ADDRESS_STORE(o, VIEW_O)

uint lane;
uint b;
uint head;
int base;  // position of the tile's first row
Lengths len;

float q[HEAD_DIM * ROWS];        // (q + u), times the scale
float q_rho[HEAD_DIM * ROWS];    // (q + w), where it differs
float acc[VALUE_DIM * ROWS];
float s[ROWS * LANES];           // logits, then weights
vec4 k_quads[HEAD_DIM / 4u];     // this lane's key
float row_max[ROWS];
float row_sum[ROWS];
float shrink[ROWS];

// One number of each of four lanes, in every lane. The lane is a literal: SPIR-V 1.3 wants a
// constant.
vec4 spread_low(float x)
{
    return vec4(subgroupBroadcast(x, 0u), subgroupBroadcast(x, 1u), subgroupBroadcast(x, 2u),
                subgroupBroadcast(x, 3u));
}

vec4 spread_high(float x)
{
    return vec4(subgroupBroadcast(x, 4u), subgroupBroadcast(x, 5u), subgroupBroadcast(x, 6u),
                subgroupBroadcast(x, 7u));
}

// A function's table row, or the first one where there is none: then it counts as zeros.
uint known_row(int row)
{
    return row == NO_ROW ? 0u : uint(row);
}

// ---- Distances

// Distance of this lane's diagonal of chunk `block` - LANES m.
int diagonal(int block, uint m)
{
    return block - int(LANES * m) - base + int(lane);
}

int table_row(int delta)
{
    return row_of(table_distance(b, delta));
}

int key_table_row(int delta)
{
    int d = table_distance(b, delta);
    return row_of(has_flag(TERM_FLAG_KEY_MIRRORED) ? -d : d);
}

bool uses_tables()
{
    return has_term(TERM_TABLE | TERM_QUERY | TERM_KEY | TERM_SCALAR | TERM_VALUE);
}

// ---- Skew: concat(before, chunk)[LANES + j - lane] for each key j of the block, by the bits of
// lane.
void skew(float before[LANES], float chunk[LANES], out float pairs[LANES])
{
    float a[16], c[16];
    [[unroll]] for (uint i = 5u; i < 16u; i++) {
        float far = i - 4u < 8u ? before[i - 4u] : chunk[i - 12u];
        float near = i < 8u ? before[i] : chunk[i - 8u];
        a[i] = (lane & 4u) != 0u ? far : near;
    }
    [[unroll]] for (uint i = 7u; i < 16u; i++)
        c[i] = (lane & 2u) != 0u ? a[i - 2u] : a[i];
    [[unroll]] for (uint i = 8u; i < 16u; i++)
        pairs[i - 8u] = (lane & 1u) != 0u ? c[i - 1u] : c[i];
}

// The way back: pair j of this row onto diagonal LANES + j - lane of two chunks, zeros elsewhere.
void unskew(float pairs[LANES], out float before[LANES], out float chunk[LANES])
{
    float a[16], c[16];
    [[unroll]] for (uint i = 0u; i < 16u; i++) {
        float near = i < 8u ? 0.0 : pairs[i - 8u];
        float far = i < 4u || i >= 12u ? 0.0 : pairs[i - 4u];
        a[i] = (lane & 4u) != 0u ? far : near;
    }
    [[unroll]] for (uint i = 0u; i < 16u; i++)
        c[i] = (lane & 2u) != 0u ? (i < 14u ? a[i + 2u] : 0.0) : a[i];
    [[unroll]] for (uint i = 0u; i < 8u; i++) {
        before[i] = (lane & 1u) != 0u ? c[i + 1u] : c[i];
        chunk[i] = (lane & 1u) != 0u ? (i < 7u ? c[i + 9u] : 0.0) : c[i + 8u];
    }
}

// ---- A and r

float streamed[2 * LANES * 3]; // of each pair of row blocks: chunks g + 1; g + 1 and g + 2 of the
                               // second

float q_of_table(uint i)
{
    return has_term(TERM_CONTENT_BIAS) || has_term(TERM_POSITION_BIAS) ? q_rho[i] : q[i];
}

// Products of the diagonals of a chunk with rows r and r + 1 of this lane.
void query_chunk(int block, uint r, out float first[LANES], out float second[LANES])
{
    int row = table_row(diagonal(block, r));
    uint at = query_table_at(0u, head, known_row(row));
    float start = 0.0;
    if (has_term(TERM_SCALAR) && row != NO_ROW)
        start = constants.scale_log2 * table_scalar_load(table_scalar_at(0u, 0u, uint(row)) + head);
    vec4 low = spread_low(start);
    vec4 high = spread_high(start);
    [[unroll]] for (uint e = 0u; e < LANES; e++)
        first[e] = second[e] = e < 4u ? low[e] : high[e - 4u];
    if (!has_term(TERM_QUERY))
        return;
    [[unroll]] for (uint d = 0u; d < HEAD_DIM; d += 4u) {
        vec4 x = row == NO_ROW ? vec4(0.0) : query_table_far4(at + d);
        [[unroll]] for (uint i = 0u; i < 4u; i++) {
            low = spread_low(x[i]);
            high = spread_high(x[i]);
            [[unroll]] for (uint e = 0u; e < LANES; e++) {
                float y = e < 4u ? low[e] : high[e - 4u];
                first[e] = fma(q_of_table((d + i) * ROWS + r), y, first[e]);
                second[e] = fma(q_of_table((d + i) * ROWS + r + 1u), y, second[e]);
            }
        }
    }
}

void load_streamed(uint at, out float chunk[LANES])
{
    [[unroll]] for (uint e = 0u; e < LANES; e++)
        chunk[e] = streamed[at * LANES + e];
}

void store_streamed(uint at, float chunk[LANES])
{
    [[unroll]] for (uint e = 0u; e < LANES; e++)
        streamed[at * LANES + e] = chunk[e];
}

// Logits of the block begin with the query-side terms; the chunks move on by one.
void stream_query_terms(int block, bool use)
{
    [[unroll]] for (uint g = 0u; g < ROWS; g += 2u) {
        float first[LANES], second[LANES], before[LANES], chunk[LANES], pairs[LANES];
        query_chunk(block, g, first, second);
        load_streamed(g / 2u * 3u, before);
        skew(before, first, pairs);
        [[unroll]] for (uint j = 0u; j < LANES; j++)
            s[g * LANES + j] = use ? pairs[j] : s[g * LANES + j];
        load_streamed(g / 2u * 3u + 1u, chunk);
        load_streamed(g / 2u * 3u + 2u, before);
        skew(before, chunk, pairs);
        [[unroll]] for (uint j = 0u; j < LANES; j++)
            s[(g + 1u) * LANES + j] = use ? pairs[j] : s[(g + 1u) * LANES + j];
        store_streamed(g / 2u * 3u, first);
        store_streamed(g / 2u * 3u + 2u, chunk);
        store_streamed(g / 2u * 3u + 1u, second);
    }
}

// A's product with each row at a distance where rows no longer change.
void far_query_terms(int delta, out float far[ROWS])
{
    int row = table_row(delta);
    [[unroll]] for (uint r = 0u; r < ROWS; r++)
        far[r] = has_term(TERM_SCALAR) && row != NO_ROW
                     ? constants.scale_log2 *
                           table_scalar_load(table_scalar_at(0u, 0u, uint(row)) + head)
                     : 0.0;
    if (!has_term(TERM_QUERY) || row == NO_ROW)
        return;
    uint at = query_table_at(0u, head, uint(row));
    [[unroll]] for (uint d = 0u; d < HEAD_DIM; d += 4u) {
        vec4 x = query_table_far4(at + d);
        [[unroll]] for (uint i = 0u; i < 4u; i++)
            [[unroll]] for (uint r = 0u; r < ROWS; r++)
                far[r] = fma(q_of_table((d + i) * ROWS + r), x[i], far[r]);
    }
}

// ---- C

// Rows of C are gathered, one a lane: each is loaded once for all keys of the block.
void add_key_terms(int block)
{
    float p[(ROWS + 1u) * LANES];
    uint at[ROWS + 1u];
    float real[ROWS + 1u];
    [[unroll]] for (uint m = 0u; m <= ROWS; m++) {
        int row = key_table_row(diagonal(block, m));
        real[m] = row == NO_ROW ? 0.0 : constants.scale_log2;
        at[m] = key_table_at(0u, head, known_row(row));
        [[unroll]] for (uint j = 0u; j < LANES; j++)
            p[m * LANES + j] = 0.0;
    }
    [[unroll]] for (uint d = 0u; d < HEAD_DIM; d += 4u) {
        vec4 x[ROWS + 1u];
        [[unroll]] for (uint m = 0u; m <= ROWS; m++)
            x[m] = key_table_far4(at[m] + d);
        [[unroll]] for (uint i = 0u; i < 4u; i++) {
            vec4 low = spread_low(k_quads[d / 4u][i]);
            vec4 high = spread_high(k_quads[d / 4u][i]);
            [[unroll]] for (uint m = 0u; m <= ROWS; m++)
                [[unroll]] for (uint j = 0u; j < LANES; j++)
                    p[m * LANES + j] =
                        fma(x[m][i], j < 4u ? low[j] : high[j - 4u], p[m * LANES + j]);
        }
    }
    [[unroll]] for (uint m = 0u; m <= ROWS; m++)
        [[unroll]] for (uint j = 0u; j < LANES; j++)
            p[m * LANES + j] *= real[m];
    [[unroll]] for (uint j = 0u; j < LANES; j++) {
        [[unroll]] for (uint r = 0u; r < ROWS; r++) {
            float mine = lane <= j ? p[r * LANES + j] : p[(r + 1u) * LANES + j];
            s[r * LANES + j] += subgroupShuffle(mine, (j - lane) & 7u);
        }
    }
}

// The product of this lane's key with the row that serves all of the block, to every row.
void add_far_key_terms(int delta)
{
    int row = key_table_row(delta);
    if (row == NO_ROW)
        return;
    uint at = key_table_at(0u, head, uint(row));
    float sum = 0.0;
    [[unroll]] for (uint d = 0u; d < HEAD_DIM; d += 4u)
        sum += dot(k_quads[d / 4u], key_table_far4(at + d));
    sum *= constants.scale_log2;
    vec4 low = spread_low(sum);
    vec4 high = spread_high(sum);
    [[unroll]] for (uint r = 0u; r < ROWS; r++)
        [[unroll]] for (uint j = 0u; j < LANES; j++)
            s[r * LANES + j] += j < 4u ? low[j] : high[j - 4u];
}

// ---- b

float scalars[ROWS + 1u]; // of this lane's diagonals of the chunks 0 to ROWS
float gates[ROWS];        // ROW_SCALE, times what scales b

float table_scalar_of(int delta)
{
    int row = table_row(delta);
    return row == NO_ROW ? 0.0 : constants.bias_scale *
                                     table_load(table_at(0u, 0u, uint(row)) + head);
}

void add_table_bias(int block)
{
    [[unroll]] for (uint m = ROWS; m > 0u; m--)
        scalars[m] = scalars[m - 1u];
    scalars[0] = table_scalar_of(diagonal(block, 0u));
    [[unroll]] for (uint r = 0u; r < ROWS; r++) {
        [[unroll]] for (uint j = 0u; j < LANES; j++) {
            float mine = lane <= j ? scalars[r] : scalars[r + 1u];
            s[r * LANES + j] =
                fma(gates[r], subgroupShuffle(mine, (j - lane) & 7u), s[r * LANES + j]);
        }
    }
}

void add_slopes(int block)
{
    float factor = has_flag(TERM_FLAG_BIAS_IN_SCALE) ? constants.scale_log2 : LOG2_E;
    int first = base + int(lane);
    [[unroll]] for (uint j = 0u; j < LANES; j++) {
        int key = block + int(j);
        int pos = constants.slope_reference == SLOPE_BY_POSITION && key < len.k
                      ? position_k(b, uint(key)) : key;
        [[unroll]] for (uint r = 0u; r < ROWS; r++)
            s[r * LANES + j] =
                fma(factor, slope_bias(head, key - first - int(LANES * r), key, pos, len.k),
                    s[r * LANES + j]);
    }
}

// ---- Segments: the products with both rows of G, per row.

float same_segment[ROWS];
float other_segment[ROWS];
uint row_segment[ROWS];

void add_segments(int block)
{
    uint key = min(uint(block) + lane, uint(len.k) - 1u);
    float segment = uintBitsToFloat(segments_k_word(segments_k_at(0u, 0u, b) + key));
    vec4 low = spread_low(segment);
    vec4 high = spread_high(segment);
    [[unroll]] for (uint r = 0u; r < ROWS; r++)
        [[unroll]] for (uint j = 0u; j < LANES; j++)
            s[r * LANES + j] += floatBitsToUint(j < 4u ? low[j] : high[j - 4u]) == row_segment[r]
                                    ? same_segment[r] : other_segment[r];
}

// ---- V by diagonals

float carry[ROWS * LANES];          // weights of the chunk that is not complete yet
float held[ROWS / 2u * LANES];      // complete ones of rows 0, 2, ...: until the next row wants them
float past_mass[ROWS];
float future_mass[ROWS];

// acc += first . V of a chunk for row r, second . V for row r + 1.
void add_value_chunk(int delta, uint r, float first[LANES], float second[LANES])
{
    int row = table_row(delta);
    uint at = value_table_at(0u, head, known_row(row));
    [[unroll]] for (uint d = 0u; d < VALUE_DIM; d += 4u) {
        vec4 x = row == NO_ROW ? vec4(0.0) : value_table_far4(at + d);
        [[unroll]] for (uint i = 0u; i < 4u; i++) {
            vec4 low = spread_low(x[i]);
            vec4 high = spread_high(x[i]);
            [[unroll]] for (uint e = 0u; e < LANES; e++) {
                float y = e < 4u ? low[e] : high[e - 4u];
                acc[(d + i) * ROWS + r] = fma(first[e], y, acc[(d + i) * ROWS + r]);
                acc[(d + i) * ROWS + r + 1u] = fma(second[e], y, acc[(d + i) * ROWS + r + 1u]);
            }
        }
    }
}

// Weights of the block onto diagonals. `near`: some of them meet rows of the table one by one.
void take_weights(int block, bool near, bool is_past)
{
    [[unroll]] for (uint r = 0u; r < ROWS; r++) {
        past_mass[r] *= shrink[r];
        future_mass[r] *= shrink[r];
        [[unroll]] for (uint e = 0u; e < LANES; e++) {
            carry[r * LANES + e] *= shrink[r];
            if (r % 2u == 0u)
                held[r / 2u * LANES + e] *= shrink[r];
        }
        if (!near) {
            float sum = 0.0;
            [[unroll]] for (uint j = 0u; j < LANES; j++)
                sum += s[r * LANES + j];
            past_mass[r] += is_past ? sum : 0.0;
            future_mass[r] += is_past ? 0.0 : sum;
        }
    }
    if (!near)
        return;
    [[unroll]] for (uint g = 0u; g < ROWS; g += 2u) {
        float pairs[LANES], before[LANES], chunk[LANES], first[LANES], second[LANES];
        [[unroll]] for (uint j = 0u; j < LANES; j++)
            pairs[j] = s[(g + 1u) * LANES + j];
        unskew(pairs, before, chunk);
        [[unroll]] for (uint e = 0u; e < LANES; e++) {
            second[e] = carry[(g + 1u) * LANES + e] + before[e];
            carry[(g + 1u) * LANES + e] = chunk[e];
            first[e] = held[g / 2u * LANES + e];
        }
        add_value_chunk(diagonal(block, g + 2u), g, first, second);
        [[unroll]] for (uint j = 0u; j < LANES; j++)
            pairs[j] = s[g * LANES + j];
        unskew(pairs, before, chunk);
        [[unroll]] for (uint e = 0u; e < LANES; e++) {
            held[g / 2u * LANES + e] = carry[g * LANES + e] + before[e];
            carry[g * LANES + e] = chunk[e];
        }
    }
}

// After the last block that was near: what is left on the way.
void flush_weights(int last_near)
{
    [[unroll]] for (uint g = 0u; g < ROWS; g += 2u) {
        float first[LANES], second[LANES];
        [[unroll]] for (uint e = 0u; e < LANES; e++) {
            first[e] = held[g / 2u * LANES + e];
            second[e] = carry[(g + 1u) * LANES + e];
        }
        add_value_chunk(diagonal(last_near, g + 1u), g, first, second);
        [[unroll]] for (uint e = 0u; e < LANES; e++) {
            first[e] = carry[g * LANES + e];
            second[e] = 0.0;
        }
        add_value_chunk(diagonal(last_near, g), g, first, second);
    }
}

void add_far_values(int delta, float mass[ROWS])
{
    int row = table_row(delta);
    if (row == NO_ROW)
        return;
    uint at = value_table_at(0u, head, uint(row));
    [[unroll]] for (uint d = 0u; d < VALUE_DIM; d += 4u) {
        vec4 x = value_table_far4(at + d);
        [[unroll]] for (uint i = 0u; i < 4u; i++)
            [[unroll]] for (uint r = 0u; r < ROWS; r++)
                acc[(d + i) * ROWS + r] = fma(mass[r], x[i], acc[(d + i) * ROWS + r]);
    }
}

// ---- Rows

void load_rows(uint first_row, uint last_row)
{
    [[unroll]] for (uint r = 0u; r < ROWS; r++) {
        uint a = min(first_row + LANES * r + lane, last_row);
        uint at = q_at(b, head, a);
        if (has_term(TERM_SEGMENT)) {
            row_segment[r] = segments_q_word(segments_q_at(0u, 0u, b) + a);
            same_segment[r] = 0.0;
            other_segment[r] = 0.0;
        }
        if (has_term(TERM_TABLE)) {
            gates[r] = has_flag(TERM_FLAG_BIAS_IN_SCALE) ? constants.scale_log2 : LOG2_E;
            if (has_term(TERM_ROW_SCALE))
                gates[r] *= row_scale_load(row_scale_at(0u, b, head) + a);
        }
        [[unroll]] for (uint d = 0u; d < HEAD_DIM; d += 4u) {
            vec4 x = q_far4(at + d);
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
                q[(d + i) * ROWS + r] = constants.scale_log2 * (x[i] + u[i]);
                if (has_term(TERM_CONTENT_BIAS) || has_term(TERM_POSITION_BIAS))
                    q_rho[(d + i) * ROWS + r] = constants.scale_log2 * (x[i] + w[i]);
            }
        }
        [[unroll]] for (uint d = 0u; d < VALUE_DIM; d++)
            acc[d * ROWS + r] = 0.0;
        row_max[r] = LOWEST;
        row_sum[r] = 0.0;
    }
}

// ---- Keys

// s += q . k for the block; four keys at a time: with ROWS rows their sums fill the registers of
// the processor.
void add_products(uint k_row)
{
    [[unroll]] for (uint d = 0u; d < HEAD_DIM / 4u; d++)
        k_quads[d] = k_far4(k_row + 4u * d);
    [[unroll]] for (uint d = 0u; d < HEAD_DIM; d++) {
        vec4 y = spread_low(k_quads[d / 4u][d % 4u]);
        [[unroll]] for (uint r = 0u; r < ROWS; r++)
            [[unroll]] for (uint j = 0u; j < 4u; j++)
                s[r * LANES + j] = fma(q[d * ROWS + r], y[j], s[r * LANES + j]);
    }
    [[unroll]] for (uint d = 0u; d < HEAD_DIM; d++) {
        vec4 y = spread_high(k_quads[d / 4u][d % 4u]);
        [[unroll]] for (uint r = 0u; r < ROWS; r++)
            [[unroll]] for (uint j = 0u; j < 4u; j++)
                s[r * LANES + 4u + j] = fma(q[d * ROWS + r], y[j], s[r * LANES + 4u + j]);
    }
}

void hide_keys(int block, int end, Reach row_reach[ROWS])
{
    [[unroll]] for (uint j = 0u; j < LANES; j++) {
        int at = block + int(j);
        bool in_range = at < end;
        int p = at;
        if (in_range && constants.mask_order == MASK_ORDER_POSITION)
            p = position_k(b, uint(at));
        [[unroll]] for (uint r = 0u; r < ROWS; r++)
            s[r * LANES + j] =
                in_range && position_visible(row_reach[r], p) ? s[r * LANES + j] : LOWEST;
    }
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
        [[unroll]] for (uint d = 0u; d < VALUE_DIM; d++)
            acc[d * ROWS + r] *= shrink[r];
    }
}

// acc += weights . v; `select`: a hidden key may hold anything, NaN included.
void add_values(uint v_row, bool select)
{
    [[unroll]] for (uint d = 0u; d < VALUE_DIM; d += 4u) {
        vec4 x = v_far4(v_row + d);
        [[unroll]] for (uint i = 0u; i < 4u; i++) {
            vec4 low = spread_low(x[i]);
            vec4 high = spread_high(x[i]);
            [[unroll]] for (uint r = 0u; r < ROWS; r++) {
                [[unroll]] for (uint j = 0u; j < LANES; j++) {
                    float w = s[r * LANES + j];
                    float y = j < 4u ? low[j] : high[j - 4u];
                    acc[(d + i) * ROWS + r] =
                        fma(w, select && w == 0.0 ? 0.0 : y, acc[(d + i) * ROWS + r]);
                }
            }
        }
    }
}

void main()
{
    lane = gl_LocalInvocationID.x;
    uint id = group_id();
    uint first_row = (id % push.tiles) * (LANES * ROWS);
    head = id / push.tiles % constants.heads;
    b = id / push.tiles / constants.heads;
    uint kv_head = head / heads_per_kv_head();
    len = lengths_of(b, true, lowest_offset(PAIRING),
                     lane == 0u && first_row == 0u && head == 0u);
    if (int(first_row) >= len.q)
        return;
    uint last_row = min(first_row + LANES * ROWS, uint(len.q)) - 1u;
    KeyRange range = key_range(first_row, last_row, len);
    base = int(first_row) + len.q_offset;
    load_rows(first_row, last_row);
    Reach row_reach[ROWS];
    [[unroll]] for (uint r = 0u; r < ROWS; r++)
        row_reach[r] = row_reach_of(b, min(first_row + LANES * r + lane, last_row), len);

    // Blocks from near_first to before near_end have pairs whose rows change with the distance.
    // Chunks of diagonals follow each other without a gap.
    if (uses_tables() && range.kept > 0)
        range.first = 0;
    int first = first_block(range, LANES);
    int near_first = first;
    int near_end = range.end;
    float far_past[ROWS], far_future[ROWS];
    if (uses_tables()) {
        ivec2 near = near_distances(b);
        // Where rows change at any distance the sums below could leave an int.
        if (near.x > -RHUMB_MAX_LENGTH)
            near_first = max(first, (near.x + base + 1) / LANES * LANES);
        if (near.y < RHUMB_MAX_LENGTH)
            near_end = (near.y + base + LANES * ROWS + LANES - 2) / LANES * LANES;
        near_first = min(near_first, range.end);
        near_end = clamp(near_end, near_first, range.end);
        if (has_term(TERM_QUERY | TERM_SCALAR)) {
            far_query_terms(near.x, far_past);
            far_query_terms(near.y, far_future);
            [[unroll]] for (uint i = 0u; i < 6u * LANES; i++)
                streamed[i] = 0.0;
        }
        if (has_term(TERM_TABLE))
            [[unroll]] for (uint m = 0u; m < ROWS; m++)
                scalars[m] = table_scalar_of(diagonal(first - LANES, m));
        if (has_term(TERM_VALUE)) {
            [[unroll]] for (uint r = 0u; r < ROWS; r++) {
                past_mass[r] = 0.0;
                future_mass[r] = 0.0;
                [[unroll]] for (uint e = 0u; e < LANES; e++) {
                    carry[r * LANES + e] = 0.0;
                    if (r % 2u == 0u)
                        held[r / 2u * LANES + e] = 0.0;
                }
            }
        }
        // The two chunks before the first near block.
        if (has_term(TERM_QUERY | TERM_SCALAR) && near_first < near_end)
            for (int block = near_first - 2 * LANES; block < near_first; block += LANES)
                stream_query_terms(block, false);
    }

    for (int block = first; block < range.end; block = next_block(range, block, LANES)) {
        uint key = min(uint(block) + lane, uint(range.end) - 1u);
        bool near = block >= near_first && block < near_end;
        bool is_past = block < near_first;
        if (has_term(TERM_QUERY | TERM_SCALAR)) {
            if (near) {
                stream_query_terms(block, true);
            } else {
                [[unroll]] for (uint i = 0u; i < ROWS * LANES; i++)
                    s[i] = is_past ? far_past[i / LANES] : far_future[i / LANES];
            }
        } else {
            [[unroll]] for (uint i = 0u; i < ROWS * LANES; i++)
                s[i] = 0.0;
        }
        add_products(k_at(b, kv_head, key));
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
        if (has_term(TERM_TABLE))
            add_table_bias(block);
        if (has_term(TERM_SLOPE))
            add_slopes(block);

        bool edge = !all_visible(first_row, last_row, block, LANES, len);
        if (edge)
            hide_keys(block, range.end, row_reach);
        weigh();
        uint v_row = v_at(b, kv_head, key);
        if (edge)
            add_values(v_row, true);
        else
            add_values(v_row, false);
        if (has_term(TERM_VALUE))
            take_weights(block, near, is_past);
    }

    if (has_term(TERM_VALUE) && first < range.end) {
        ivec2 near = near_distances(b);
        if (near_first < near_end)
            flush_weights((near_end - 1) / LANES * LANES);
        add_far_values(near.x, past_mass);
        add_far_values(near.y, future_mass);
    }
    [[unroll]] for (uint r = 0u; r < ROWS; r++) {
        uint a = first_row + LANES * r + lane;
        float norm = row_max[r] < HIDDEN_BELOW ? 0.0 : 1.0 / row_sum[r];
        if (a <= last_row) {
            uint at = o_at(b, head, a);
            [[unroll]] for (uint d = 0u; d < VALUE_DIM; d += 4u)
                o_far_store4(at + d,
                             norm * vec4(acc[d * ROWS + r], acc[(d + 1u) * ROWS + r],
                                         acc[(d + 2u) * ROWS + r], acc[(d + 3u) * ROWS + r]));
        }
    }
}
