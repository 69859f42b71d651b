// Where the rows of Q, K, V and O lie: {index of B, index of L} of row a, or of key j, of batch entry b.
//
//   CONTIGUOUS  {b, a} and {b, j}. A ring is contiguous: its keys are told apart by POSITIONS_K
//   PAGED       Q and O as ever; K and V are pools of blocks: key j is row j % rows of block
//               BLOCK_TABLE[b, j / rows]
//   PACKED      batch entries are sequences one behind the other: {0, Q_STARTS[b] + a} and
//               {0, K_STARTS[b] + j}, and so in other views with a row for each of Q or K
//
// STATUS counts: entries of BLOCK_TABLE outside the pool, which are the pool's last block, each
// once if it has keys below the key length; starts that fall or leave the tensors, each once; rows
// or keys of a sequence that are more than the plan's maxima.
//
// Wants: lib/position.glsl.

layout(constant_id = SPEC_LAYOUT) const uint LAYOUT = LAYOUT_CONTIGUOUS;
RHUMB_READ_VIEW(block_table, VIEW_BLOCK_TABLE)
RHUMB_READ_VIEW(segments_q, VIEW_SEGMENTS_Q) // Q_STARTS and K_STARTS where LAYOUT is PACKED
RHUMB_READ_VIEW(segments_k, VIEW_SEGMENTS_K)

// The parts of a view's size that place it: {index of B, index of L}.
uvec2 size_of(uint id)
{
    return bindings.place[id].zw;
}

uvec2 query_place(uint b, uint a)
{
    return uvec2(LAYOUT == LAYOUT_PACKED ? 0u : b, first_q + a);
}

uvec2 key_place(uint b, uint j)
{
    if (LAYOUT == LAYOUT_PAGED) {
        uvec2 pool = size_of(VIEW_K);
        uint block = block_table_word(block_table_at(0u, 0u, b) + j / pool.y);
        return uvec2(min(block, pool.x - 1u), j % pool.y);
    }
    return uvec2(LAYOUT == LAYOUT_PACKED ? 0u : b, first_k + j);
}

// Entries of the table that name no block; a negative one is a large one.
uint bad_blocks(uint b, int keys, uint lane, uint lanes)
{
    uvec2 pool = size_of(VIEW_K);
    uint used = (uint(keys) + pool.y - 1u) / pool.y;
    uint first = block_table_at(0u, 0u, b);
    uint bad = 0u;
    for (uint i = lane; i < used; i += lanes)
        bad += block_table_word(first + i) < pool.x ? 0u : 1u;
    return bad;
}

// {first row, rows} of a sequence between two starts, of `total` rows in all.
ivec2 sequence_of(int start, int end, int total, int most, inout uint clamped)
{
    int first = clamp(start, 0, total);
    int last = clamp(end, first, total);
    if (last != end)
        clamped++;
    return ivec2(first, clamp_counted(last - first, most, clamped));
}

// lengths_of for attention, which also finds where the batch entry is; the work group calls it as
// one. `counts`: it is the one of its batch entry that counts what is clamped.
Lengths place_entry(uint b, int lowest, bool counts, uint lane, uint lanes)
{
    uint clamped = 0u;
    Lengths n;
    if (LAYOUT == LAYOUT_PACKED) {
        uint e = segments_q_at(0u, 0u, 0u) + b;
        int start = int(segments_q_word(e));
        ivec2 rows = sequence_of(start, int(segments_q_word(e + 1u)), int(size_of(VIEW_Q).y),
                                 push.max_q_length, clamped);
        if (b == 0u && rows.x != start)
            clamped++;
        e = segments_k_at(0u, 0u, 0u) + b;
        start = int(segments_k_word(e));
        ivec2 keys = sequence_of(start, int(segments_k_word(e + 1u)), int(size_of(VIEW_K).y),
                                 push.max_k_length, clamped);
        if (b == 0u && keys.x != start)
            clamped++;
        // An empty one may lie behind the last row: its row 0 is another's.
        first_q = rows.y == 0 ? 0u : uint(rows.x);
        first_k = keys.y == 0 ? 0u : uint(keys.x);
        n = Lengths(rows.y, keys.y, push.q_offset == UNSET ? keys.y - rows.y : push.q_offset);
        clamped = lane == 0u ? clamped : 0u;
    } else {
        n = lengths_of(b, true, lowest, counts && lane == 0u);
        if (LAYOUT == LAYOUT_PAGED && counts && has_view(VIEW_STATUS))
            clamped = bad_blocks(b, n.k, lane, lanes);
    }
    if (counts && clamped != 0u && has_view(VIEW_STATUS))
        status_add(clamped);
    return n;
}
