#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_buffer_reference_uvec2 : require
#extension GL_KHR_shader_subgroup_ballot : require
// ATTENTION, prefill on CPU devices: O[b, h, a] = sum_j softmax_j(scale q_a . k_j) v_j over the
// visible keys; rows across the lanes of a subgroup, no shared memory and no barrier.
//
//   Q [B, H, Lq, D], K [B, Hkv, Lk, D], V [B, Hkv, Lk, DV], O [B, H, Lq, DV]; D, DV multiples of 8.
//
// A work group is one subgroup of BROADCAST_LANES lanes. A lane owns BROADCAST_ROWS rows of one
// head, base + LANES r + lane. For every block of LANES keys a lane loads one key, four channels at
// a time, and broadcasts from constant lanes bring each key to all rows: one load serves LANES x
// ROWS multiply-adds. Softmax is within a lane.
#include "rhumb_shared.h"
#include "lib/io.glsl"
#include "lib/address.glsl"
#include "lib/position.glsl"
#include "lib/trig.glsl"
#include "lib/rows.glsl"

layout(local_size_x_id = SPEC_WORKGROUP) in;
layout(constant_id = SPEC_PAIRING) const uint PAIRING = PAIRING_NONE;
layout(constant_id = SPEC_HEAD_DIM) const uint HEAD_DIM = 64u;
layout(constant_id = SPEC_VALUE_DIM) const uint VALUE_DIM = 64u;

#define LANES BROADCAST_LANES
#define ROWS BROADCAST_ROWS

RHUMB_READ_VIEW(q, VIEW_Q)
RHUMB_READ_VIEW(k, VIEW_K)
RHUMB_READ_VIEW(v, VIEW_V)
RHUMB_WRITE_VIEW(o, VIEW_O)
RHUMB_ADDRESS_VIEW(q, VIEW_Q)
RHUMB_ADDRESS_VIEW(k, VIEW_K)
RHUMB_ADDRESS_VIEW(v, VIEW_V)
RHUMB_ADDRESS_STORE(o, VIEW_O)

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

void main()
{
    uint lane = gl_LocalInvocationID.x;
    uint id = gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x;
    if (id >= push.groups)
        return;
    uint first_row = (id % push.tiles) * (LANES * ROWS);
    uint head = id / push.tiles % constants.heads;
    uint b = id / push.tiles / constants.heads;
    uint kv_head = head / heads_per_kv_head();
    Lengths len = lengths_of(b, true, lowest_offset(PAIRING),
                             lane == 0u && first_row == 0u && head == 0u);
    if (int(first_row) >= len.q)
        return;
    uint last_row = min(first_row + LANES * ROWS, uint(len.q)) - 1u;
    ivec2 range = key_range(first_row, last_row, len);

    float q[HEAD_DIM * ROWS];
    float acc[VALUE_DIM * ROWS];
    float row_max[ROWS];
    float row_sum[ROWS];
    int row_pos[ROWS];
    [[unroll]] for (uint r = 0u; r < ROWS; r++) {
        uint a = min(first_row + LANES * r + lane, last_row);
        uint at = q_at(b, head, a);
        row_pos[r] = constants.mask_order == MASK_ORDER_POSITION ? position_q(b, a, len.q_offset)
                                                                 : int(a) + len.q_offset;
        [[unroll]] for (uint d = 0u; d < HEAD_DIM; d += 4u) {
            vec4 x = q_far4(at + d) * constants.scale_log2;
            [[unroll]] for (uint e = 0u; e < 4u; e++)
                q[(d + e) * ROWS + r] = x[e];
        }
        [[unroll]] for (uint d = 0u; d < VALUE_DIM; d++)
            acc[d * ROWS + r] = 0.0;
        row_max[r] = LOWEST;
        row_sum[r] = 0.0;
    }

    for (int block = range.x / LANES * LANES; block < range.y; block += LANES) {
        uint key = min(uint(block) + lane, uint(range.y) - 1u);
        float s[ROWS * LANES];
        [[unroll]] for (uint i = 0u; i < ROWS * LANES; i++)
            s[i] = 0.0;
        uint k_row = k_at(b, kv_head, key);
        vec4 x[HEAD_DIM / 4u];
        [[unroll]] for (uint d = 0u; d < HEAD_DIM / 4u; d++)
            x[d] = k_far4(k_row + 4u * d);
        // Four keys at a time: with ROWS rows their sums fill the registers of the processor.
        [[unroll]] for (uint d = 0u; d < HEAD_DIM; d++) {
            vec4 y = spread_low(x[d / 4u][d % 4u]);
            [[unroll]] for (uint r = 0u; r < ROWS; r++)
                [[unroll]] for (uint j = 0u; j < 4u; j++)
                    s[r * LANES + j] = fma(q[d * ROWS + r], y[j], s[r * LANES + j]);
        }
        [[unroll]] for (uint d = 0u; d < HEAD_DIM; d++) {
            vec4 y = spread_high(x[d / 4u][d % 4u]);
            [[unroll]] for (uint r = 0u; r < ROWS; r++)
                [[unroll]] for (uint j = 0u; j < 4u; j++)
                    s[r * LANES + 4u + j] = fma(q[d * ROWS + r], y[j], s[r * LANES + 4u + j]);
        }

        bool edge = !all_visible(first_row, last_row, block, LANES, len);
        if (edge) {
            [[unroll]] for (uint j = 0u; j < LANES; j++) {
                int at = block + int(j);
                bool in_range = at < range.y;
                int p = at;
                if (in_range && constants.mask_order == MASK_ORDER_POSITION)
                    p = position_k(b, uint(at));
                [[unroll]] for (uint r = 0u; r < ROWS; r++)
                    s[r * LANES + j] = in_range && position_visible(row_pos[r], p)
                                           ? s[r * LANES + j] : LOWEST;
            }
        }

        [[unroll]] for (uint r = 0u; r < ROWS; r++) {
            float top = row_max[r];
            [[unroll]] for (uint j = 0u; j < LANES; j++)
                top = max(top, s[r * LANES + j]);
            float shrink = exp2(row_max[r] - top);
            row_max[r] = top;
            row_sum[r] *= shrink;
            [[unroll]] for (uint j = 0u; j < LANES; j++) {
                float x = s[r * LANES + j];
                float w = exp2(x - top);
                s[r * LANES + j] = w;
                row_sum[r] += w;
            }
            [[unroll]] for (uint d = 0u; d < VALUE_DIM; d++)
                acc[d * ROWS + r] *= shrink;
        }

        uint v_row = v_at(b, kv_head, key);
        if (edge) {
        [[unroll]] for (uint d = 0u; d < VALUE_DIM; d += 4u) {
            vec4 x = v_far4(v_row + d);
            [[unroll]] for (uint e = 0u; e < 4u; e++) {
                vec4 low = spread_low(x[e]);
                vec4 high = spread_high(x[e]);
                [[unroll]] for (uint r = 0u; r < ROWS; r++)
                    [[unroll]] for (uint j = 0u; j < LANES; j++)
                        acc[(d + e) * ROWS + r] =
                            fma(s[r * LANES + j], s[r * LANES + j] == 0.0 ? 0.0 : j < 4u ? low[j] : high[j - 4u], acc[(d + e) * ROWS + r]);
            }
        }
        } else {
        [[unroll]] for (uint d = 0u; d < VALUE_DIM; d += 4u) {
            vec4 x = v_far4(v_row + d);
            [[unroll]] for (uint e = 0u; e < 4u; e++) {
                vec4 low = spread_low(x[e]);
                vec4 high = spread_high(x[e]);
                [[unroll]] for (uint r = 0u; r < ROWS; r++)
                    [[unroll]] for (uint j = 0u; j < LANES; j++)
                        acc[(d + e) * ROWS + r] =
                            fma(s[r * LANES + j], j < 4u ? low[j] : high[j - 4u], acc[(d + e) * ROWS + r]);
            }
        }
        }
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
