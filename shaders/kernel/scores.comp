#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
// SCORES: the logits of attention before any mask, lib/pairs.glsl, for any head size and any
// alignment.
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
#include "lib/place.glsl"
#include "lib/entry.glsl"
#include "lib/logit.glsl"
#include "lib/workspace.glsl"

layout(local_size_x = GENERIC_INVOCATIONS) in;

RHUMB_READ_VIEW(q, VIEW_Q)
RHUMB_WRITE_VIEW(o, VIEW_O)
RHUMB_WRITE_VIEW(workspace, VIEW_WORKSPACE)
#include "lib/staged_rows.glsl" // Q, then the logits
#include "lib/pairs.glsl"

// Logits of key j and the four rows.
vec4 logits(uint j)
{
    Pair p[4];
    [[unroll]] for (uint r = 0u; r < 4u; r++)
        p[r] = pair_of(j, r);
    vec4 content, b;
    logits_of(j, p, sum_channels(j, p, 0u, 4u), content, b);
    return with_softcap(content, b, 1.0);
}

void store_in_workspace(uint j, vec4 s)
{
    [[unroll]] for (uint r = 0u; r < 4u; r++)
        if (row_exists[r] && int(j) < len.k)
            workspace_store4(workspace_row(workspace_at(0u, 0u, 0u), entry.index, row_h[r],
                                           row_a[r]) + j,
                             vec4(s[r], 0.0, 0.0, 0.0), 1u);
}

void store_in_o(uint lane, uint first_key)
{
    uint count = uint(clamp(len.k - int(first_key), 0, GENERIC_INVOCATIONS));
    for (uint r = 0u; r < 4u; r++)
        if (row_exists[r])
            store_row(lane, r, o_at(entry.index, row_h[r], row_a[r]) + first_key, count);
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
    uint head = rest % constants.heads;
    entry = entry_of(rest / constants.heads);
    len = entry_lengths(entry, lowest_offset(PAIRING), first == 0u && first_key == 0u && head == 0u,
                        lane, GENERIC_INVOCATIONS);
    row_h = uvec4(head);
    uint end = min(push.first_row + push.row_count, uint(len.q));
    [[unroll]] for (uint r = 0u; r < 4u; r++) {
        row_exists[r] = first + r < end;
        row_a[r] = row_exists[r] ? first + r : 0u;
    }
    load_rows(lane, 1.0);
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
