#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
// SCORES: the logits of attention before any mask, for any head size and any alignment:
//
//   S = s ((q + u) . k + (q + w) . A[rho] + k . C[rho] + r[rho] + (q + z) . G[segment]) + b[rho]
//   S = cos(q, k) exp(min(HEAD_SCALE, max_log_scale)) + b[rho]          cosine attention
//
//   Q [B, H, Lq, D], K [B, Hkv, Lk, D], O [B, H, Lq, Lk]; with windows O [B windows, H, N, N].
//
// A work group owns GENERIC_ROWS rows of one head (components of a vec4) and GENERIC_INVOCATIONS
// keys, one a lane, which reads them whole. With WORKSPACE the rows of the block that the record
// names go there instead, as floats: the first stage of unfused attention.
#include "rhumb_shared.h"
#include "lib/io.glsl"
#include "lib/position.glsl"
#include "lib/trig.glsl"
#include "lib/terms.glsl"
#include "lib/window.glsl"
#include "lib/rows.glsl"
#include "lib/unfused.glsl"

layout(local_size_x = GENERIC_INVOCATIONS) in;

// name_channels(e, n): four elements of a row of which n are left, zeros beyond its end.
#define CHANNELS_VIEW(name, ID)                                                                    \
    RHUMB_READ_VIEW(name, ID)                                                                      \
    vec4 name##_channels(uint e, uint n)                                                           \
    {                                                                                              \
        if (n >= 4u)                                                                               \
            return ALIGNED != 0u ? name##_load4_aligned(e) : name##_load4(e);                      \
        return vec4(name##_load(e), n > 1u ? name##_load(e + 1u) : 0.0,                            \
                    n > 2u ? name##_load(e + 2u) : 0.0, 0.0);                                      \
    }

RHUMB_READ_VIEW(q, VIEW_Q)
CHANNELS_VIEW(k, VIEW_K)
CHANNELS_VIEW(query_table, VIEW_QUERY_TABLE)
CHANNELS_VIEW(key_table, VIEW_KEY_TABLE)
RHUMB_READ_VIEW(table_scalar, VIEW_TABLE_SCALAR)
CHANNELS_VIEW(content_bias, VIEW_CONTENT_BIAS)
CHANNELS_VIEW(position_bias, VIEW_POSITION_BIAS)
CHANNELS_VIEW(segment_bias, VIEW_SEGMENT_BIAS)
CHANNELS_VIEW(segment_table, VIEW_SEGMENT_TABLE)
RHUMB_READ_VIEW(segments_q, VIEW_SEGMENTS_Q)
RHUMB_READ_VIEW(segments_k, VIEW_SEGMENTS_K)
RHUMB_READ_VIEW(row_scale, VIEW_ROW_SCALE)
RHUMB_READ_VIEW(head_scale, VIEW_HEAD_SCALE)
RHUMB_WRITE_VIEW(o, VIEW_O)
RHUMB_WRITE_VIEW(workspace, VIEW_WORKSPACE)
#include "lib/staged_rows.glsl" // Q, then the logits

Entry entry;
Lengths len;
uint head;
uvec4 row_a;
bvec4 row_exists;

// What key j meets in row r beside its channels.
struct Pair {
    int delta;
    int row;           // of the tables; NO_ROW
    uint query_table;  // first elements
    uint key_table;    // NO_ELEMENT: none
    uint segment;
};

#define NO_ELEMENT 0xffffffffu

Pair pair_of(uint j, uint r)
{
    Pair p = Pair(0, NO_ROW, NO_ELEMENT, NO_ELEMENT, 0u);
    if (has_term(TERM_WINDOW)) {
        p.row = window_row(row_a[r], j);
        return p;
    }
    p.delta = table_distance(entry.b, key_minus_query(entry.b, row_a[r], j, len.q_offset));
    p.row = row_of(p.delta);
    int mirrored = has_flag(TERM_FLAG_KEY_MIRRORED) ? row_of(-p.delta) : p.row;
    if (has_term(TERM_QUERY) && p.row != NO_ROW)
        p.query_table = query_table_at(0u, head, uint(p.row));
    if (has_term(TERM_KEY) && mirrored != NO_ROW)
        p.key_table = key_table_at(0u, head, uint(mirrored));
    if (has_term(TERM_SEGMENT)) {
        bool same = segments_q_word(segments_q_at(0u, 0u, entry.b) + row_a[r]) ==
                    segments_k_word(segments_k_at(0u, 0u, entry.b) + j);
        p.segment = segment_table_at(0u, head, same ? 0u : 1u);
    }
    return p;
}

// b of row r and key j.
float bias_of(uint j, uint r, Pair p)
{
    float gate = has_term(TERM_ROW_SCALE)
                     ? row_scale_load(row_scale_at(0u, entry.b, head) + row_a[r])
                     : 1.0;
    return scalar_bias(head, p.row, gate, p.delta, int(j), position_k(entry.b, j), len.k);
}

// Sums over channels: products with key j and with table rows, and for cosines the squares.
struct Sums {
    vec4 products;
    vec4 q_squares;
    float k_squares;
};

Sums sum_channels(uint j, Pair p[4])
{
    uint pixel = token_row(entry, j);
    bool real = pixel != NO_PIXEL;
    uint k_first = k_at(entry.b, head / heads_per_kv_head(), real ? pixel : 0u);
    uint u_first = content_bias_at(0u, 0u, head);
    uint w_first = position_bias_at(0u, 0u, head);
    uint z_first = segment_bias_at(0u, 0u, head);
    Sums sums = Sums(vec4(0.0), vec4(0.0), 0.0);
    [[dont_unroll]] for (uint d = 0u; d < constants.head_dim; d += 4u) {
        uint n = constants.head_dim - d;
        vec4 x = real ? k_channels(k_first + d, n) : vec4(0.0);
        mat4 y = transpose(mat4(rows[d], rows[d + 1u], rows[d + 2u], rows[d + 3u]));
        vec4 u = has_term(TERM_CONTENT_BIAS) ? content_bias_channels(u_first + d, n) : vec4(0.0);
        vec4 w = has_term(TERM_POSITION_BIAS)  ? position_bias_channels(w_first + d, n)
                 : has_flag(TERM_FLAG_FOLDED) ? u
                                              : vec4(0.0);
        vec4 z = has_term(TERM_SEGMENT) ? segment_bias_channels(z_first + d, n) : vec4(0.0);
        [[unroll]] for (uint r = 0u; r < 4u; r++) {
            sums.products[r] += dot(y[r] + u, x);
            if (has_term(TERM_QUERY) && p[r].query_table != NO_ELEMENT)
                sums.products[r] += dot(y[r] + w, query_table_channels(p[r].query_table + d, n));
            if (has_term(TERM_KEY) && p[r].key_table != NO_ELEMENT)
                sums.products[r] += dot(x, key_table_channels(p[r].key_table + d, n));
            if (has_term(TERM_SEGMENT))
                sums.products[r] += dot(y[r] + z, segment_table_channels(p[r].segment + d, n));
            if (has_term(TERM_COSINE))
                sums.q_squares[r] += dot(y[r], y[r]);
        }
        if (has_term(TERM_COSINE))
            sums.k_squares += dot(x, x);
    }
    return sums;
}

// Logits of key j and the four rows.
vec4 logits(uint j)
{
    Pair p[4];
    [[unroll]] for (uint r = 0u; r < 4u; r++)
        p[r] = pair_of(j, r);
    Sums sums = sum_channels(j, p);
    float factor = constants.scale;
    if (has_term(TERM_COSINE)) {
        float least = constants.epsilon;
        sums.products /= max(sqrt(sums.q_squares), vec4(least)) * max(sqrt(sums.k_squares), least);
        factor = exp(min(head_scale_load(head_scale_at(0u, 0u, 0u) + head),
                         constants.max_log_scale));
    }
    vec4 s;
    [[unroll]] for (uint r = 0u; r < 4u; r++) {
        float inside = sums.products[r];
        float b = bias_of(j, r, p[r]);
        if (has_term(TERM_SCALAR) && p[r].row != NO_ROW)
            inside += table_scalar_load(table_scalar_at(0u, 0u, uint(p[r].row)) + head);
        s[r] = has_flag(TERM_FLAG_BIAS_IN_SCALE) ? factor * (inside + b) : factor * inside + b;
    }
    return s;
}

void store_in_workspace(uint j, vec4 s)
{
    [[unroll]] for (uint r = 0u; r < 4u; r++)
        if (row_exists[r] && int(j) < len.k)
            workspace_store4(workspace_row(workspace_at(0u, 0u, 0u), entry, head, row_a[r]) + j,
                             vec4(s[r], 0.0, 0.0, 0.0), 1u);
}

void store_in_o(uint lane, uint first_key)
{
    uint count = uint(clamp(len.k - int(first_key), 0, GENERIC_INVOCATIONS));
    for (uint r = 0u; r < 4u; r++)
        if (row_exists[r])
            store_row(lane, r, o_at(entry.index, head, row_a[r]) + first_key, count);
}

void main()
{
    uint lane = gl_LocalInvocationID.x;
    uint id = group_id();
    uint key_blocks = (uint(push.max_k_length) + GENERIC_INVOCATIONS - 1u) / GENERIC_INVOCATIONS;
    uint row_tiles = (push.row_count + GENERIC_ROWS - 1u) / GENERIC_ROWS;
    uint first_key = (id % key_blocks) * GENERIC_INVOCATIONS;
    uint first = push.first_row + (id / key_blocks % row_tiles) * GENERIC_ROWS;
    uint rest = id / key_blocks / row_tiles;
    head = rest % constants.heads;
    entry = entry_of(rest / constants.heads);
    len = entry_lengths(entry, lowest_offset(PAIRING),
                        lane == 0u && first == 0u && first_key == 0u && head == 0u);

    uvec4 at = uvec4(0u);
    bvec4 loaded = bvec4(false);
    uint end = min(push.first_row + push.row_count, uint(len.q));
    [[unroll]] for (uint r = 0u; r < 4u; r++) {
        row_exists[r] = first + r < end;
        row_a[r] = row_exists[r] ? first + r : 0u;
        uint pixel = token_row(entry, row_a[r]);
        loaded[r] = row_exists[r] && pixel != NO_PIXEL;
        at[r] = q_at(entry.b, head, loaded[r] ? pixel : 0u);
    }
    load_rows(lane, entry.b, at, row_a, loaded, len.q_offset, 1.0);
    vec4 s = vec4(0.0);
    if (int(first_key + lane) < len.k)
        s = logits(first_key + lane);
    barrier(); // Q has been read, its place is free
    rows[lane] = s;
    barrier();
    if (has_view(VIEW_WORKSPACE))
        store_in_workspace(first_key + lane, s);
    else
        store_in_o(lane, first_key);
}
