// Terms of relative schemes in the tile kernel, by the indices of rows and keys.
//
// The rows of a tile and the keys of a step have ROWS + STEP - 1 distances between them: the band.
// Its slot i has the distance
//
//   delta = (block + i) - (ROWS - 1) - position of the tile's first row
//
// and in shared memory the rows of the tables that serve it and the scalars that it adds to a logit.
// A lane's rows are STRIDE apart, as are its keys where it has several, so that its TILE_ROWS x KEYS
// pairs have TILE_ROWS + KEYS - 1 distances: pair (j, r) reads slot
//
//   lane_slot + STRIDE (j - r + TILE_ROWS - 1)
//
// and one load of a table's row serves all pairs of a diagonal.
//
// Wants: what attention_tile.comp has before it.

#define BAND_TABLES (TERM_TABLE | TERM_QUERY | TERM_KEY | TERM_SCALAR | TERM_VALUE)
#define BIAS_TERMS (TERM_TABLE | TERM_SLOPE | TERM_LOGARITHM)

const uint DIAGONALS = TILE_ROWS + KEYS - 1u;
const uint BAND = (TERMS & (BAND_TABLES | BIAS_TERMS)) != 0u ? ROWS + STEP : 1u;
const uint VALUE_BANDS = (TERMS & TERM_VALUE) != 0u ? 1u : 0u;
const uint LOGIT_BANDS = ((TERMS & TERM_QUERY) != 0u ? 1u : 0u) +
                         ((TERMS & TERM_KEY) != 0u ? 1u : 0u);
const uint BANDS = LOGIT_BANDS > VALUE_BANDS ? LOGIT_BANDS : VALUE_BANDS;
const uint KEY_BAND = (TERMS & TERM_QUERY) != 0u ? BAND * PITCH : 0u; // first element of C's band

RHUMB_READ_VIEW(query_table, VIEW_QUERY_TABLE)
RHUMB_READ_VIEW(key_table, VIEW_KEY_TABLE)
RHUMB_READ_VIEW(value_table, VIEW_VALUE_TABLE)
RHUMB_READ_VIEW(table_scalar, VIEW_TABLE_SCALAR)
RHUMB_READ_VIEW(content_bias, VIEW_CONTENT_BIAS)
RHUMB_READ_VIEW(position_bias, VIEW_POSITION_BIAS)

shared vec2 band[BANDS == 0u ? 1u : BANDS * BAND * PITCH]; // rows of A, then those of C; later of V
shared ivec2 band_rows[BAND];                             // rows of A, r, b, V; of C
shared vec2 band_scalars[BAND];                           // inside the scale; b

// Distances between indices; else the scalar terms go by pairs of positions.
bool by_index()
{
    return !has_view(VIEW_POSITIONS_Q) || !has_view(VIEW_POSITIONS_K);
}

bool has_band()
{
    return by_index() && has_term(BAND_TABLES | BIAS_TERMS);
}

// b's factor: logits are times log2(e) here.
float bias_factor()
{
    return has_flag(TERM_FLAG_BIAS_IN_SCALE) ? constants.scale_log2 : LOG2_E;
}

// Rows and scalars for the keys from `block` on. Slopes by the key's place are no function of the
// distance: they are 0 here, for key 0 of 1 at position 0.
void prepare_band(uint id, int block)
{
    if (!has_band())
        return;
    for (uint i = id; i < BAND; i += WORKGROUP) {
        int delta = table_distance(tile.b, position_difference(block + int(i) - int(ROWS - 1u),
                                                               int(tile.first) + len.q_offset));
        int row = has_term(BAND_TABLES) ? row_of(delta) : NO_ROW;
        int key_row = row;
        if (has_term(TERM_KEY) && has_flag(TERM_FLAG_KEY_MIRRORED))
            key_row = row_of(-delta);
        vec2 scalars = vec2(0.0);
        if (has_term(TERM_SCALAR) && row != NO_ROW)
            scalars.x = constants.scale_log2 *
                        table_scalar_load(table_scalar_at(0u, 0u, uint(row)) + head);
        if (has_term(BIAS_TERMS))
            scalars.y = bias_factor() * scalar_bias(head, row, 1.0, delta, 0, 0, 1);
        band_rows[i] = ivec2(row, key_row);
        band_scalars[i] = scalars;
    }
}

// stage_name(id, first, channel, factor): CHUNK channels of a table's rows, from `channel` on, to the
// band that begins at `first`.
#define STAGE_BAND(name, CHUNK, rows)                                                              \
    void stage_##name(uint id, uint first, uint channel, float factor)                             \
    {                                                                                              \
        const uint quads = CHUNK / 4u;                                                             \
        for (uint i = id; i < BAND * quads; i += WORKGROUP) {                                      \
            uint slot = i / quads;                                                                 \
            uint d = (i % quads) * 4u;                                                             \
            int row = band_rows[slot].rows;                                                        \
            vec4 x = vec4(0.0);                                                                    \
            if (row != NO_ROW)                                                                     \
                x = factor *                                                                       \
                    name##_load4_aligned(name##_at(0u, head, uint(row)) + channel + d);            \
            band[first + slot * PITCH + d / 2u] = x.xy;                                            \
            band[first + slot * PITCH + d / 2u + 1u] = x.zw;                                       \
        }                                                                                          \
    }

STAGE_BAND(query_table, HEAD_CHUNK, x)
STAGE_BAND(key_table, HEAD_CHUNK, y)
STAGE_BAND(value_table, VALUE_CHUNK, x)

// Q is staged with u, but A meets q + w: (q + w) . A = (q + u) . A + (w - u) . A, and the last product
// is a scalar of the slot.
bool has_difference()
{
    return has_term(TERM_QUERY) && has_term(TERM_CONTENT_BIAS | TERM_POSITION_BIAS);
}

// Of the staged channels, from `channel` on.
void add_difference(uint id, uint channel)
{
    if (has_flag(TERM_FLAG_FOLDED) && !has_term(TERM_POSITION_BIAS))
        return;
    uint u = content_bias_at(0u, 0u, head) + channel;
    uint w = position_bias_at(0u, 0u, head) + channel;
    for (uint i = id; i < BAND; i += WORKGROUP) {
        float sum = 0.0;
        [[dont_unroll]] for (uint d = 0u; d < HEAD_CHUNK; d += 4u) {
            vec4 x = vec4(0.0);
            if (has_term(TERM_POSITION_BIAS))
                x = position_bias_load4_aligned(w + d);
            if (has_term(TERM_CONTENT_BIAS))
                x -= content_bias_load4_aligned(u + d);
            uint at = i * PITCH + d / 2u;
            sum += dot(x, vec4(band[at], band[at + 1u]));
        }
        band_scalars[i].x += constants.scale_log2 * sum;
    }
}
