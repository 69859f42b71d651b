// Terms of relative schemes in the tile kernel, by the indices of rows and keys.
//
// The rows of a tile and the keys of a step have ROWS + STEP - 1 distances between them: the band.
// Its slot i has the distance
//
//   delta = (block + i) - (ROWS - 1) - position of the tile's first row
//
// and in shared memory the rows of the tables that serve it and the scalars that it adds to a
// logit. A lane's rows are STRIDE apart, as are its keys where it has several, so that its
// TILE_ROWS x KEYS pairs have TILE_ROWS + KEYS - 1 distances: pair (j, r) reads slot
//
//   lane_slot + STRIDE (j - r + TILE_ROWS - 1)
//
// and one load of a table's row serves all pairs of a diagonal.
//
// Wants: what attention_tile.comp has before it.

#define BAND_TABLES (TERM_TABLE | TERM_QUERY | TERM_KEY | TERM_SCALAR | TERM_VALUE)
#define BIAS_TERMS (TERM_TABLE | TERM_SLOPE | TERM_LOGARITHM)
#define BAND_SCALARS (TERM_SCALAR | TERM_CONTENT_BIAS | TERM_POSITION_BIAS | BIAS_TERMS)

const uint DIAGONALS = TILE_ROWS + KEYS - 1u;
const uint BAND = ROWS + STEP;
const uint A_BANDS = (TERMS & TERM_QUERY) != 0u ? 1u : 0u;
const uint C_BANDS = (TERMS & TERM_KEY) != 0u ? 1u : 0u;
const uint V_BANDS = (TERMS & TERM_VALUE) != 0u ? 1u : 0u;
const uint BANDS = A_BANDS + C_BANDS > V_BANDS ? A_BANDS + C_BANDS : V_BANDS;
const uint KEY_BAND = A_BANDS * BAND * PITCH; // first element of C's band

RHUMB_READ_VIEW(query_table, VIEW_QUERY_TABLE)
RHUMB_READ_VIEW(key_table, VIEW_KEY_TABLE)
RHUMB_READ_VIEW(value_table, VIEW_VALUE_TABLE)
RHUMB_READ_VIEW(table_scalar, VIEW_TABLE_SCALAR)
RHUMB_READ_VIEW(content_bias, VIEW_CONTENT_BIAS)
RHUMB_READ_VIEW(position_bias, VIEW_POSITION_BIAS)

shared vec4 band[BANDS > 0u ? BANDS * BAND * PITCH : 1u];             // A and C, later V
shared int band_rows[(TERMS & BAND_TABLES) != 0u ? BAND : 1u];        // of A, r, b and V
shared int key_band_rows[C_BANDS > 0u ? BAND : 1u];                   // of C
shared vec2 band_scalars[(TERMS & BAND_SCALARS) != 0u ? BAND : 1u];   // inside the scale; b

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
        int distance = position_difference(block + int(i) - int(ROWS - 1u),
                                           int(tile.first) + len.q_offset);
        int delta = table_distance(tile.b, distance);
        int row = has_term(BAND_TABLES) ? row_of(delta) : NO_ROW;
        if (has_term(TERM_VALUE) && never_seen(distance))
            row = NO_ROW;
        if (has_term(BAND_TABLES))
            band_rows[i] = row;
        if (has_term(TERM_KEY))
            key_band_rows[i] = has_flag(TERM_FLAG_KEY_MIRRORED) ? row_of(-delta) : row;
        vec2 scalars = vec2(0.0);
        if (has_term(TERM_SCALAR) && row != NO_ROW)
            scalars.x = constants.scale_log2 *
                        table_scalar_load(table_scalar_at(0u, 0u, uint(row)) + head);
        if (has_term(BIAS_TERMS))
            scalars.y = bias_factor() * scalar_bias(head, row, 1.0, delta, 0, 0, 1);
        if (has_term(BAND_SCALARS))
            band_scalars[i] = scalars;
    }
}

// The row of a slot, or the first one where there is none: then it counts as zeros.
#define BAND_ROW(name, rows)                                                                      \
    uint name##_row(uint slot)                                                                     \
    {                                                                                              \
        int row = rows[slot];                                                                      \
        return name##_at(0u, head, row == NO_ROW ? 0u : uint(row));                                \
    }

BAND_ROW(query_table, band_rows)
BAND_ROW(key_table, key_band_rows)
BAND_ROW(value_table, band_rows)

vec4 query_row_or_zeros(uint slot, uint d, vec4 x)
{
    return band_rows[slot] == NO_ROW ? vec4(0.0) : x;
}

vec4 key_row_or_zeros(uint slot, uint d, vec4 x)
{
    return key_band_rows[slot] == NO_ROW ? vec4(0.0) : constants.scale_log2 * x;
}

STAGE_ROWS(query_table, BAND, HEAD_CHUNK, 2u, band, PITCH, query_row_or_zeros)
STAGE_ROWS(key_table, BAND, HEAD_CHUNK, 2u, band, PITCH, key_row_or_zeros)
STAGE_ROWS(value_table, BAND, VALUE_CHUNK, 2u, band, PITCH, query_row_or_zeros)

// Q is staged with u, but A meets q + w: (q + w) . A = (q + u) . A + (w - u) . A, and the last
// product is a scalar of the slot.
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
        [[dont_unroll]] for (uint first = 0u; first < HEAD_CHUNK; first += 16u) {
            [[unroll]] for (uint e = 0u; e < 16u; e += 4u) {
                uint d = first + e;
                vec4 x = vec4(0.0);
                if (has_term(TERM_POSITION_BIAS))
                    x = position_bias_load4_aligned(w + d);
                if (has_term(TERM_CONTENT_BIAS))
                    x -= content_bias_load4_aligned(u + d);
                sum = add_dot(sum, x, band[i * PITCH + d / 4u]);
            }
        }
        band_scalars[i].x += constants.scale_log2 * sum;
    }
}
