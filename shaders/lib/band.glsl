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
#define BAND_SCALARS (TERM_SCALAR | BIAS_TERMS)

const uint DIAGONALS = TILE_ROWS + KEYS - 1u;
const uint BAND = ROWS + STEP;
const uint A_BANDS = (TERMS & TERM_QUERY) != 0u ? 1u : 0u;
const uint C_BANDS = (TERMS & TERM_KEY) != 0u ? 1u : 0u;
const uint V_BANDS = (TERMS & TERM_VALUE) != 0u ? 1u : 0u;
const uint DIFFERENCES = (TERMS & (TERM_CONTENT_BIAS | TERM_POSITION_BIAS)) != 0u ? A_BANDS : 0u;
const uint KEY_BAND = A_BANDS * BAND * HEAD_PITCH; // first element of C's band
const uint HEAD_BANDS = (A_BANDS + C_BANDS) * BAND * HEAD_PITCH;
const uint VALUE_BANDS = V_BANDS * BAND * VALUE_PITCH;
const uint BAND_VECTORS = HEAD_BANDS > VALUE_BANDS ? HEAD_BANDS : VALUE_BANDS;

RHUMB_READ_VIEW(query_table, VIEW_QUERY_TABLE)
RHUMB_READ_VIEW(key_table, VIEW_KEY_TABLE)
RHUMB_READ_VIEW(value_table, VIEW_VALUE_TABLE)
RHUMB_READ_VIEW(table_scalar, VIEW_TABLE_SCALAR)
RHUMB_READ_VIEW(content_bias, VIEW_CONTENT_BIAS)
RHUMB_READ_VIEW(position_bias, VIEW_POSITION_BIAS)

shared vec4 band[BAND_VECTORS > 0u ? BAND_VECTORS : 1u];              // A and C, later V
shared vec4 difference[DIFFERENCES > 0u ? HEAD_DIM / 4u : 1u];        // w - u
shared vec4 band_difference[DIFFERENCES > 0u ? BAND : 1u];            // its products with rows of A
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
        int key_row = row;
        if (has_term(TERM_KEY)) {
            if (has_flag(TERM_FLAG_KEY_MIRRORED))
                key_row = row_of(-delta);
            key_band_rows[i] = key_row;
        }
        if (has_term(TERM_QUERY | TERM_KEY | TERM_VALUE) && min(row, key_row) == NO_ROW)
            met[MET_NO_ROW] = 1u;
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
#define BAND_ROW(name, rows)                                                                       \
    uint name##_row(uint slot)                                                                     \
    {                                                                                              \
        int row = rows[slot];                                                                      \
        return name##_at(0u, head, row == NO_ROW ? 0u : uint(row));                                \
    }

BAND_ROW(query_table, band_rows)
BAND_ROW(key_table, key_band_rows)
BAND_ROW(value_table, band_rows)

vec4 scaled(uint slot, uint d, vec4 x)
{
    return constants.scale_log2 * x;
}

STAGE_ROWS(query_table, BAND, HEAD_CHUNK, 2u, band, HEAD_PITCH, unchanged)
STAGE_ROWS(key_table, BAND, HEAD_CHUNK, 2u, band, HEAD_PITCH, scaled)
STAGE_ROWS(value_table, BAND, VALUE_CHUNK, 2u, band, VALUE_PITCH, unchanged)

// Zeros to staged slots without a row, by the lanes that staged them.
#define CLEAR_ROWS(name, WIDTH, row_pitch, rows)                                                   \
    void clear_##name(uint id, uint first)                                                         \
    {                                                                                              \
        const uint along = LANES_ALONG(WIDTH);                                                     \
        if (met[MET_NO_ROW] == 0u)                                                                 \
            return;                                                                                \
        [[dont_unroll]] for (uint slot = id / along; slot < BAND; slot += WORKGROUP / along) {     \
            if (rows[slot] != NO_ROW)                                                              \
                continue;                                                                          \
            [[unroll]] for (uint d = 0u; d < WIDTH / 4u; d += along)                               \
                band[first + slot * row_pitch + d + id % along] = vec4(0.0);                       \
        }                                                                                          \
    }

CLEAR_ROWS(query_table, HEAD_CHUNK, HEAD_PITCH, band_rows)
CLEAR_ROWS(key_table, HEAD_CHUNK, HEAD_PITCH, key_band_rows)
CLEAR_ROWS(value_table, VALUE_CHUNK, VALUE_PITCH, band_rows)

// Q is staged with u, but A meets q + w: (q + w) . A = (q + u) . A + (w - u) . A, and the last
// product is a scalar of the slot. It is summed by four lanes, each of every fourth quad of channels.
// From step to step slots move on by STEP: only the new ones, from `fresh` on, are multiplied. Sums are
// moved by a lane a slot: BAND <= WORKGROUP.
bool has_difference()
{
    return DIFFERENCES > 0u;
}

void prepare_difference(uint id)
{
    if (!has_difference())
        return;
    if (id < BAND)
        band_difference[id] = vec4(0.0);
    for (uint d = id; d < HEAD_DIM / 4u; d += WORKGROUP) {
        vec4 x = vec4(0.0);
        if (has_term(TERM_POSITION_BIAS))
            x = position_bias_load4_aligned(position_bias_at(0u, 0u, head) + 4u * d);
        if (has_term(TERM_CONTENT_BIAS))
            x -= content_bias_load4_aligned(content_bias_at(0u, 0u, head) + 4u * d);
        difference[d] = constants.scale_log2 * x;
    }
}

// Adds the products with the staged channels, from `channel` on.
void add_difference(uint id, uint channel, uint fresh)
{
    if (has_flag(TERM_FLAG_FOLDED) && !has_term(TERM_POSITION_BIAS))
        return; // TABLE_SCALAR has it
    [[dont_unroll]] for (uint i = id; i < 4u * (BAND - fresh); i += WORKGROUP) {
        uint part = i % 4u;
        uint from = channel / 4u + part;
        uint slot = fresh + i / 4u;
        uint at = slot * HEAD_PITCH + part;
        float sum = 0.0;
        [[unroll]] for (uint d = 0u; d < HEAD_CHUNK / 4u; d += 4u)
            sum = add_dot(sum, difference[from + d], band[at + d]);
        band_difference[slot][part] += sum;
    }
}

// Of slot `id` in the next step, before band_difference is written for it.
vec4 kept_difference(uint id, uint fresh)
{
    return id < fresh ? band_difference[min(id, BAND - STEP - 1u) + STEP] : vec4(0.0);
}
