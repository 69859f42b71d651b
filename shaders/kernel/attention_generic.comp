#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
// ATTENTION, any head size, any alignment and any scheme, online softmax, no buffer of size Lq x Lk:
//
//   O[b, h, a] = sum_j softmax_j(S) (v_j + V[rho]) over the visible keys; S: lib/pairs.glsl,
//   lib/logit.glsl
//
//   Q [B, H, Lq, D], K [B, Hkv, Lk, D], V [B, Hkv, Lk, DV], O [B, H, Lq, DV]; D and DV at run time.
//
// A work group owns GENERIC_ROWS rows (components of a vec4), of one head where vectors of the head
// meet them, else of all heads that share K and V, and walks blocks of GENERIC_KEYS keys:
//   scores   PARTS lanes share one key, each takes every fourth run of four channels
//   softmax  one lane a key
//   values   one lane a channel, up to CHANNELS of them
// The keys may be cut into slices: lib/slices.glsl.
// Loops over the keys of a block stay loops: unrolled, software devices compile them for seconds.
#include "rhumb_shared.h"
#include "lib/io.glsl"
#include "lib/position.glsl"
#include "lib/trig.glsl"
#include "lib/terms.glsl"
#include "lib/window.glsl"
#include "lib/rows.glsl"
#include "lib/place.glsl"
#include "lib/entry.glsl"
#include "lib/slices.glsl"
#include "lib/logit.glsl"

layout(local_size_x = GENERIC_INVOCATIONS) in;

RHUMB_READ_VIEW(q, VIEW_Q)
RHUMB_READ_VIEW(v, VIEW_V)
RHUMB_READ_VIEW(value_table, VIEW_VALUE_TABLE)
RHUMB_WRITE_VIEW(o, VIEW_O)
RHUMB_WRITE_VIEW(workspace, VIEW_WORKSPACE)
#include "lib/staged_rows.glsl" // Q, later O
#include "lib/pairs.glsl"

const uint PARTS = GENERIC_INVOCATIONS / GENERIC_KEYS;
const uint CHANNELS = (RHUMB_MAX_HEAD_DIM + GENERIC_INVOCATIONS - 1) / GENERIC_INVOCATIONS;

shared vec4 partial[PARTS * GENERIC_KEYS];
shared float partial_squares[PARTS * GENERIC_KEYS];
shared vec4 scores[GENERIC_KEYS];
shared vec4 weights[GENERIC_KEYS];
shared uint value_first[GENERIC_KEYS];        // first elements of v; NO_ELEMENT: zeros
shared uvec4 value_table_first[GENERIC_KEYS]; // of V, for each row

Reach row_reach[4];

// runtime/variant.c says the same.
bool by_head()
{
    return has_term(TERM_QUERY | TERM_KEY | TERM_SEGMENT | TERM_CONTENT_BIAS | TERM_VALUE |
                    TERM_WINDOW);
}

// Logits of key j times log2(e), LOWEST where it is hidden; the parts' sums are there.
vec4 masked_scores(uint j, uint key, Pair p[4])
{
    vec4 s;
    Sums sums = Sums(partial[key], partial_squares[key]);
    [[unroll]] for (uint part = 1u; part < PARTS; part++) {
        sums.products += partial[part * GENERIC_KEYS + key];
        sums.k_squares += partial_squares[part * GENERIC_KEYS + key];
    }
    if (TERMS == 0u) {
        s = with_softcap(sums.products, vec4(0.0), LOG2_E);
    } else {
        vec4 content, b;
        logits_of(j, p, sums, content, b);
        s = LOG2_E * with_softcap(content, b, 1.0);
    }
    int pos_k = constants.mask_order == MASK_ORDER_POSITION ? position_k(entry.b, j) : int(j);
    [[unroll]] for (uint r = 0u; r < 4u; r++) {
        float added = 0.0;
        bool visible = row_exists[r] && position_visible(row_reach[r], pos_k);
        if (has_view(VIEW_MASK) && visible)
            visible = !mask_hides(mask_element(mask_at(entry.b, row_h[r], row_a[r]), j), added);
        if (has_term(TERM_WINDOW))
            added += window_mask(entry.window, row_place[r], window_place(j));
        s[r] = visible ? s[r] + LOG2_E * added : LOWEST;
    }
    return s;
}

// Where the values of key j lie.
void stage_values(uint j, uint key, Pair p[4])
{
    uvec2 place = key_token(entry, j);
    value_first[key] = place.y == NO_PIXEL
                           ? NO_ELEMENT
                           : v_at(place.x, row_h.x / heads_per_kv_head(), place.y);
    if (has_term(TERM_VALUE))
        [[unroll]] for (uint r = 0u; r < 4u; r++)
            value_table_first[key][r] =
                p[r].row == NO_ROW ? NO_ELEMENT
                                   : value_table_at(0u, row_h[r], uint(p[r].row));
}

// acc + P (v + V) over the first `count` keys of a block, channel d.
vec4 add_values(vec4 acc, uint count, uint d)
{
    [[dont_unroll]] for (uint c = 0u; c < count; c++) {
        vec4 w = weights[c];
        // A hidden key may hold anything, NaN included.
        vec4 x = vec4(value_first[c] == NO_ELEMENT || w == vec4(0.0) ? 0.0
                                                                     : v_load(value_first[c] + d));
        if (has_term(TERM_VALUE))
            [[unroll]] for (uint r = 0u; r < 4u; r++)
                if (value_table_first[c][r] != NO_ELEMENT)
                    x[r] += value_table_load(value_table_first[c][r] + d);
        acc += mix(w * x, vec4(0.0), equal(w, vec4(0.0)));
    }
    return acc;
}

// Channels of row r of a slice to WORKSPACE, from element `at` on.
void store_slice(uint lane, uint r, uint at)
{
    for (uint d = lane; d < constants.value_dim; d += GENERIC_INVOCATIONS)
        workspace_store4(at + d, vec4(rows[d][r], 0.0, 0.0, 0.0), 1u);
}

void main()
{
    uint lane = gl_LocalInvocationID.x;
    uint slice = group_id() % push.slices;
    uint id = group_id() / push.slices;
    uint shared_rows = by_head() ? 1u : heads_per_kv_head(); // rows of the same index
    uint heads = constants.heads / shared_rows;
    uint first = id % push.tiles * GENERIC_ROWS;
    uint head = id / push.tiles % heads * shared_rows;
    entry = entry_of(id / push.tiles / heads);
    len = entry_lengths(entry, lowest_offset(PAIRING), first == 0u && head == 0u && slice == 0u,
                        lane, GENERIC_INVOCATIONS);
    uint row_count = uint(len.q) * shared_rows;
    [[unroll]] for (uint r = 0u; r < 4u; r++) {
        uint t = first + r;
        row_exists[r] = t < row_count;
        row_a[r] = row_exists[r] ? t / shared_rows : 0u;
        row_h[r] = head + t % shared_rows;
        row_reach[r] = row_reach_of(entry.b, row_a[r], len);
    }
    load_rows(lane, TERMS == 0u ? constants.scale_log2 : 1.0);

    KeyRange range = KeyRange(0, 0, 0);
    if (first < row_count)
        range = key_range(first / shared_rows,
                          (min(first + GENERIC_ROWS, row_count) - 1u) / shared_rows, len);
    range = cut_range(range, slice);
    uint key = lane % GENERIC_KEYS;
    uint part = lane / GENERIC_KEYS;

    vec4 acc[CHANNELS];
    [[unroll]] for (uint i = 0u; i < CHANNELS; i++)
        acc[i] = vec4(0.0);
    vec4 row_max = vec4(LOWEST);
    vec4 row_sum = vec4(0.0);

    for (int block = first_block_from(range, first_key_of(slice), GENERIC_KEYS); block < range.end;
         block = next_block(range, block, GENERIC_KEYS)) {
        uint j = uint(block) + key;
        bool in_range = int(j) < range.end;
        Pair p[4];
        Sums sums = Sums(vec4(0.0), 0.0);
        if (in_range) {
            [[unroll]] for (uint r = 0u; r < 4u; r++)
                p[r] = pair_of(j, r);
            sums = sum_channels(j, p, 4u * part, 4u * PARTS);
        }
        partial[part * GENERIC_KEYS + key] = sums.products;
        partial_squares[part * GENERIC_KEYS + key] = sums.k_squares;
        barrier();
        vec4 s = vec4(LOWEST);
        if (part == 0u) {
            if (in_range) {
                s = masked_scores(j, key, p);
                stage_values(j, key, p);
            }
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
            if (d < constants.value_dim)
                acc[i] = add_values(acc[i] * shrink, count, d);
        }
    }

    barrier();
    bool whole = push.slices == 1u;
    vec4 factor = vec4(1.0);
    [[unroll]] for (uint r = 0u; r < 4u; r++) {
        row_exists[r] = row_exists[r] && row_token[r].y != NO_PIXEL;
        if (whole)
            factor[r] = row_factor(row_h[r], row_max[r], row_sum[r]);
        if (whole && has_view(VIEW_LSE) && row_exists[r] && lane == 0u)
            store_lse(row_token[r].x, row_h[r], row_token[r].y, row_max[r], row_sum[r]);
    }
    [[unroll]] for (uint i = 0u; i < CHANNELS; i++) {
        uint d = lane + i * GENERIC_INVOCATIONS;
        if (d < constants.value_dim)
            rows[d] = acc[i] * factor;
    }
    barrier();
    // A loop: what it has is long.
    [[dont_unroll]] for (uint r = 0u; r < 4u; r++) {
        uint t = first + r;
        uint a = t / shared_rows;
        uvec2 place = query_token(entry, t < row_count ? a : 0u);
        if (t >= row_count || place.y == NO_PIXEL)
            continue;
        uint h = head + t % shared_rows;
        if (whole)
            store_row(lane, r, o_at(place.x, h, place.y), constants.value_dim);
        else
            store_slice(lane, r, slice_at(workspace_at(0u, 0u, 0u), entry.b, h, a, slice));
    }
    // {m, s} of the rows of a slice
    if (!whole && lane == 0u)
        [[unroll]] for (uint r = 0u; r < 4u; r++)
            if (row_exists[r])
                workspace_store4(slice_at(workspace_at(0u, 0u, 0u), entry.b, row_h[r], row_a[r],
                                          slice) +
                                     constants.value_dim,
                                 vec4(row_max[r], row_sum[r], 0.0, 0.0), 2u);
}
