#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
// The second stage of unfused attention: O = sum_j P_j (v_j + V[rho_j]), P = softmax of the logits
// in WORKSPACE over the visible keys.
//
//   V [B, Hkv, Lk, DV], O [B, H, Lq, DV]; DV at run time.
//
// A work group owns one row. It finds the largest visible logit, then walks blocks of
// GENERIC_INVOCATIONS keys: one lane a key for the weights, one lane a channel, up to CHANNELS of
// them, for the values.
#include "rhumb_shared.h"
#include "lib/io.glsl"
#include "lib/position.glsl"
#include "lib/trig.glsl"
#include "lib/terms.glsl"
#include "lib/window.glsl"
#include "lib/rows.glsl"
#include "lib/place.glsl"
#include "lib/entry.glsl"
#include "lib/logit.glsl"
#include "lib/workspace.glsl"

layout(local_size_x = GENERIC_INVOCATIONS) in;

RHUMB_READ_VIEW(v, VIEW_V)
RHUMB_READ_VIEW(value_table, VIEW_VALUE_TABLE)
RHUMB_READ_VIEW(workspace, VIEW_WORKSPACE)
RHUMB_WRITE_VIEW(o, VIEW_O)
#include "lib/staged_rows.glsl" // O, in the first component

const uint CHANNELS = (RHUMB_MAX_HEAD_DIM + GENERIC_INVOCATIONS - 1) / GENERIC_INVOCATIONS;

#define NO_ELEMENT 0xffffffffu

shared float maxima[GENERIC_INVOCATIONS];
shared float weights[GENERIC_INVOCATIONS];
shared uint value_first[GENERIC_INVOCATIONS];       // of each key of the block; NO_ELEMENT: none
shared uint table_first[GENERIC_INVOCATIONS];

Entry entry;
Lengths len;
uint head;
uint row;
Reach row_reach;
uint logits_at;  // first logit of the row

// Logit of key j with all masks, times log2(e); LOWEST where it is hidden.
float masked_logit(uint j)
{
    float added = 0.0;
    int p = constants.mask_order == MASK_ORDER_POSITION ? position_k(entry.b, j) : int(j);
    bool visible = position_visible(row_reach, p);
    if (has_view(VIEW_MASK) && visible)
        visible = !mask_hides(mask_element(mask_at(entry.b, head, row), j), added);
    if (has_term(TERM_WINDOW))
        added += window_mask(entry.window, window_place(row), window_place(j));
    return visible ? LOG2_E * (workspace_load(logits_at + j) + added) : LOWEST;
}

float largest_logit(uint lane)
{
    float largest = LOWEST;
    for (int j = int(lane); j < len.k; j += GENERIC_INVOCATIONS)
        largest = max(largest, masked_logit(uint(j)));
    maxima[lane] = largest;
    barrier();
    for (uint half_count = GENERIC_INVOCATIONS / 2u; half_count > 0u; half_count /= 2u) {
        if (lane < half_count)
            maxima[lane] = max(maxima[lane], maxima[lane + half_count]);
        barrier();
    }
    return maxima[0];
}

// Weight and places of key j; nothing where there is no such key.
void stage_key(uint lane, uint j, float largest)
{
    float s = int(j) < len.k ? masked_logit(j) : LOWEST;
    uvec2 place = key_token(entry, int(j) < len.k ? j : 0u);
    weights[lane] = s < HIDDEN_BELOW ? 0.0 : exp2(s - largest);
    value_first[lane] = place.y == NO_PIXEL
                            ? NO_ELEMENT
                            : v_at(place.x, head / heads_per_kv_head(), place.y);
    table_first[lane] = NO_ELEMENT;
    if (has_term(TERM_VALUE) && int(j) < len.k) {
        int t = row_of(table_distance(entry.b, key_minus_query(entry.b, row, j, len.q_offset)));
        if (t != NO_ROW)
            table_first[lane] = value_table_at(0u, head, uint(t));
    }
}

// Sum of P (v + V) over the `count` keys of a block, channel d.
float sum_values(uint count, uint d)
{
    float sum = 0.0;
    [[dont_unroll]] for (uint c = 0u; c < count; c++) {
        float x = 0.0;
        // A hidden key may hold anything, NaN included.
        if (weights[c] == 0.0)
            continue;
        if (value_first[c] != NO_ELEMENT)
            x = v_load(value_first[c] + d);
        if (has_term(TERM_VALUE) && table_first[c] != NO_ELEMENT)
            x += value_table_load(table_first[c] + d);
        sum += weights[c] * x;
    }
    return sum;
}

void main()
{
    uint lane = gl_LocalInvocationID.x;
    uint id = group_id();
    row = push.first_row + id % push.row_count;
    uint rest = id / push.row_count;
    head = rest % constants.heads;
    entry = entry_of(rest / constants.heads);
    len = entry_lengths(entry, lowest_offset(PAIRING), false, lane, GENERIC_INVOCATIONS);
    bool exists = int(row) < len.q;
    // keeps control flow uniform up to the barriers below: nothing to do, nothing stored
    if (!exists)
        len.k = 0;
    row_reach = row_reach_of(entry.b, exists ? row : 0u, len);
    logits_at = workspace_row(workspace_at(0u, 0u, 0u), entry.index, head, row);

    float largest = largest_logit(lane);
    float acc[CHANNELS];
    [[unroll]] for (uint i = 0u; i < CHANNELS; i++)
        acc[i] = 0.0;
    float row_sum = 0.0;
    for (int block = 0; block < len.k; block += GENERIC_INVOCATIONS) {
        stage_key(lane, uint(block) + lane, largest);
        barrier();
        uint count = uint(min(len.k - block, GENERIC_INVOCATIONS));
        float sum = 0.0;
        [[dont_unroll]] for (uint c = 0u; c < count; c++)
            sum += weights[c];
        row_sum += sum;
        [[unroll]] for (uint i = 0u; i < CHANNELS; i++) {
            uint d = lane + i * GENERIC_INVOCATIONS;
            if (d < constants.value_dim)
                acc[i] += sum_values(count, d);
        }
        barrier();
    }
    uvec2 place = query_token(entry, exists ? row : 0u);
    exists = exists && place.y != NO_PIXEL;
    float factor = row_factor(head, largest, row_sum);
    if (has_view(VIEW_LSE) && exists && lane == 0u)
        store_lse(place.x, head, place.y, largest, row_sum);
    [[unroll]] for (uint i = 0u; i < CHANNELS; i++) {
        uint d = lane + i * GENERIC_INVOCATIONS;
        if (d < constants.value_dim)
            rows[d] = vec4(acc[i] * factor, 0.0, 0.0, 0.0);
    }
    barrier();
    if (exists)
        store_row(lane, 0u, o_at(place.x, head, place.y), constants.value_dim);
}
