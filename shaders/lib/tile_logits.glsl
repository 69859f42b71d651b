// Rows of the tile kernel, and what its logits get beside products with staged channels.
//
// Wants: what attention_tile.comp has before it, lib/band.glsl.

RHUMB_READ_VIEW(segment_bias, VIEW_SEGMENT_BIAS)
RHUMB_READ_VIEW(segment_table, VIEW_SEGMENT_TABLE)

vec4 sum_over_lanes(uint group, uint lane, vec4 x);

// Tables have rows for each head, and distances follow the index of a row: with terms the rows of a
// tile are of one head.
bool by_head()
{
    return TERMS != 0u;
}

uint query_row(uint t)
{
    return by_head() ? t : row_index(t);
}

uint query_head(uint t)
{
    return by_head() ? head : row_head(tile, t);
}

void find_tile(uint id)
{
    if (by_head()) {
        uint rest = group_id() / push.tiles;
        head = rest % constants.heads;
        tile = Tile(rest / constants.heads, head / heads_per_kv_head(),
                    group_id() % push.tiles * ROWS);
    } else {
        tile = tile_of(group_id(), ROWS);
        head = tile.kv_head;
    }
    len = place_entry(tile.b, lowest_offset(PAIRING), tile.first == 0u && head == 0u, id,
                      WORKGROUP);
    row_count = uint(len.q) * (by_head() ? 1u : heads_per_kv_head());
}

// Row r of a lane of `group`, counted from the tile's first.
uint lane_row(uint group, uint r)
{
    return (group / STRIDE * TILE_ROWS + r) * STRIDE + group % STRIDE;
}

// Its index; one that exists.
uint lane_query_row(uint group, uint r)
{
    uint t = tile.first + lane_row(group, r);
    return t < row_count ? query_row(t) : 0u;
}

// ---- What the rows of a lane carry

struct RowTerms {
    vec4 gate;            // ROW_SCALE
    vec4 same_segment;    // (q + z) . G of either row
    vec4 other_segment;
    uvec4 segment;
    uvec4 mask;           // first elements of MASK
};

// Products of the rows with both rows of G.
void add_segment_products(uint group, uint lane, inout RowTerms t)
{
    uint z = segment_bias_at(0u, 0u, head);
    uint g = segment_table_at(0u, head, 0u);
    uint other = segment_table_at(0u, head, 1u);
    [[dont_unroll]] for (uint d = 4u * lane; d < HEAD_DIM; d += 4u * TILE_LANES) {
        vec4 bias = segment_bias_load4_aligned(z + d);
        [[unroll]] for (uint r = 0u; r < TILE_ROWS; r++) {
            uvec2 place = query_place(tile.b, lane_query_row(group, r));
            vec4 x = constants.scale_log2 *
                     (q_load4_aligned(q_at(place.x, head, place.y) + d) + bias);
            t.same_segment[r] += dot(x, segment_table_load4_aligned(g + d));
            t.other_segment[r] += dot(x, segment_table_load4_aligned(other + d));
        }
    }
    t.same_segment = sum_over_lanes(group, lane, t.same_segment);
    barrier();
    t.other_segment = sum_over_lanes(group, lane, t.other_segment);
    barrier();
}

RowTerms load_row_terms(uint group, uint lane)
{
    RowTerms t = RowTerms(vec4(1.0), vec4(0.0), vec4(0.0), uvec4(0u), uvec4(0u));
    [[unroll]] for (uint r = 0u; r < TILE_ROWS; r++) {
        uint a = lane_query_row(group, r);
        if (has_term(TERM_ROW_SCALE)) {
            uvec2 place = query_place(tile.b, a);
            t.gate[r] = row_scale_load(row_scale_at(0u, place.x, head) + place.y);
        }
        if (has_view(VIEW_MASK)) {
            uint row = min(tile.first + lane_row(group, r), max(row_count, 1u) - 1u);
            t.mask[r] = mask_at(tile.b, query_head(row), query_row(row));
        }
        if (has_term(TERM_SEGMENT))
            t.segment[r] = segments_q_word(segments_q_at(0u, 0u, tile.b) + a);
    }
    if (has_term(TERM_SEGMENT))
        add_segment_products(group, lane, t);
    return t;
}

// ---- Logits

// Numbers of this lane's pairs, in its places among the weights, which are free: a loop that stays
// one could not leave them in registers.
uint pair_place(uint group, uint lane, uint j)
{
    return (lane + TILE_LANES * j) * (GROUPS + 1u) + group;
}

void cap_logits(uint group, uint lane)
{
    [[unroll]] for (uint j = 0u; j < KEYS; j++)
        weights[pair_place(group, lane, j)] = s[j];
    [[dont_unroll]] for (uint j = 0u; j < KEYS; j++) {
        vec4 x = weights[pair_place(group, lane, j)];
        [[unroll]] for (uint r = 0u; r < TILE_ROWS; r++)
            x[r] = capped(x[r], LOG2_E);
        weights[pair_place(group, lane, j)] = x;
    }
    [[unroll]] for (uint j = 0u; j < KEYS; j++)
        s[j] = weights[pair_place(group, lane, j)];
}

// b by positions.
void add_bias_by_position(uint group, uint lane, int block, int end, RowTerms rows)
{
    [[dont_unroll]] for (uint i = 0u; i < KEYS * TILE_ROWS; i++) {
        uint j = i / TILE_ROWS;
        uint r = i % TILE_ROWS;
        uint key = min(uint(block) + lane + TILE_LANES * j, uint(end) - 1u);
        int delta = table_distance(tile.b, key_minus_query(tile.b, lane_query_row(group, r), key,
                                                           len.q_offset));
        weights[pair_place(group, lane, j)][r] =
            scalar_bias(head, has_term(TERM_TABLE) ? row_of(delta) : NO_ROW, rows.gate[r], delta,
                        int(key), position_k(tile.b, key), len.k);
    }
    [[unroll]] for (uint j = 0u; j < KEYS; j++)
        s[j] += bias_factor() * weights[pair_place(group, lane, j)];
}

void add_bias(uint group, uint lane, uint lane_slot, int block, int end, RowTerms rows)
{
    if (!by_index()) {
        add_bias_by_position(group, lane, block, end, rows);
        return;
    }
    float b[DIAGONALS];
    [[unroll]] for (uint n = 0u; n < DIAGONALS; n++)
        b[n] = band_scalars[lane_slot + STRIDE * n].y;
    [[unroll]] for (uint j = 0u; j < KEYS; j++)
        [[unroll]] for (uint r = 0u; r < TILE_ROWS; r++)
            s[j][r] += (has_term(TERM_ROW_SCALE) ? rows.gate[r] : 1.0) * b[j + TILE_ROWS - 1u - r];
    if (!has_term(TERM_SLOPE) || slope_reference() == SLOPE_FROM_QUERY)
        return;
    [[unroll]] for (uint j = 0u; j < KEYS; j++) {
        uint key = min(uint(block) + lane + TILE_LANES * j, uint(end) - 1u);
        int p = slope_reference() == SLOPE_BY_POSITION ? position_k(tile.b, key) : 0;
        s[j] += bias_factor() * slope_bias(head, 0, int(key), p, len.k);
    }
}

// All of S but the products with channels, and the cap.
void add_terms(uint group, uint lane, uint lane_slot, int block, int end, RowTerms rows)
{
    if (has_term(TERM_SCALAR) || has_difference()) {
        [[unroll]] for (uint n = 0u; n < DIAGONALS; n++) {
            float x = 0.0;
            if (has_term(TERM_SCALAR))
                x = band_scalars[lane_slot + STRIDE * n].x;
            if (has_difference()) {
                vec4 parts = band_difference[lane_slot + STRIDE * n];
                x += (parts.x + parts.y) + (parts.z + parts.w);
            }
            [[unroll]] for (uint j = 0u; j < KEYS; j++)
                [[unroll]] for (uint r = 0u; r < TILE_ROWS; r++)
                    if (j + TILE_ROWS - 1u - r == n)
                        s[j][r] += x;
        }
    }
    if (has_term(TERM_SEGMENT)) {
        [[unroll]] for (uint j = 0u; j < KEYS; j++) {
            uint key = min(uint(block) + lane + TILE_LANES * j, uint(end) - 1u);
            uint segment = segments_k_word(segments_k_at(0u, 0u, tile.b) + key);
            s[j] += mix(rows.other_segment, rows.same_segment, equal(rows.segment, uvec4(segment)));
        }
    }
    if (!has_term(BIAS_TERMS)) {
        if (push.softcap != 0.0)
            cap_logits(group, lane);
        return;
    }
    // b is capped with the rest, or comes after.
    [[dont_unroll]] for (uint stage = 0u; stage < 2u; stage++) {
        if (push.softcap != 0.0 && (stage == 1u) != bias_after_cap())
            cap_logits(group, lane);
        if (stage == 0u)
            add_bias(group, lane, lane_slot, block, end, rows);
    }
}

// Of a row or a key that does not exist the last one's. Whether a key is hidden.
bool add_mask(uint lane, int block, int end, RowTerms rows)
{
    bool any_hidden = false;
    [[unroll]] for (uint j = 0u; j < KEYS; j++) {
        uint key = min(uint(block) + lane + TILE_LANES * j, uint(end) - 1u);
        [[unroll]] for (uint r = 0u; r < TILE_ROWS; r++) {
            float added;
            bool hidden = mask_hides(mask_element(rows.mask[r], key), added);
            s[j][r] = hidden ? LOWEST : fma(LOG2_E, added, s[j][r]);
            any_hidden = any_hidden || hidden;
        }
    }
    return any_hidden;
}
