// What the broadcast kernel adds to logits: b by diagonals, by pairs and by places in a window, and
// segments. See attention_broadcast.comp.
//
// Wants: the kernel's views, state and lib/broadcast_tables.glsl.

bool has_bias()
{
    return has_term(TERM_TABLE | TERM_SLOPE | TERM_LOGARITHM);
}

// Whether distances are those of position views, which need not follow the indices.
bool by_views()
{
    return has_view(VIEW_POSITIONS_Q) && has_view(VIEW_POSITIONS_K);
}

bool bias_by_diagonals()
{
    return has_term(TERM_TABLE | TERM_LOGARITHM) && !has_term(TERM_WINDOW) && !by_views();
}

// What scales b, in the unit of logits.
float bias_factor()
{
    return has_flag(TERM_FLAG_BIAS_IN_SCALE) ? constants.scale_log2 : LOG2_E;
}

// ---- By diagonals

float scalars[ROWS + 1u]; // of this lane's diagonals of the chunks 0 to ROWS
float gates[ROWS];        // ROW_SCALE, times what scales b

float scalar_of(int delta)
{
    float x = 0.0;
    int row = table_row(delta);
    if (has_term(TERM_TABLE) && row != NO_ROW)
        x = constants.bias_scale * table_load(table_at(0u, 0u, uint(row)) + head);
    if (has_term(TERM_LOGARITHM))
        x += logarithm_bias(head, delta);
    return x;
}

void add_diagonal_bias(int block)
{
    [[unroll]] for (uint m = ROWS; m > 0u; m--)
        scalars[m] = scalars[m - 1u];
    scalars[0] = scalar_of(diagonal(block, 0u));
    [[unroll]] for (uint r = 0u; r < ROWS; r++) {
        float late = scalars[r];
        float early = scalars[r + 1u];
        [[unroll]] for (uint j = 0u; j < LANES; j++)
            s[r * LANES + j] = fma(gates[r], subgroupShuffle(lane <= j ? late : early,
                                                             (j - lane) & 7u), s[r * LANES + j]);
    }
}

// What a slope multiplies is a key's number, less r `down` for row r of the lane.
vec2 slope_factors; // of numbers up to 0, and above
int slope_origin;   // the key with the number 0
float slope_down;   // from one of the lane's rows to the next

void start_slopes()
{
    bool from_query = slope_reference() == SLOPE_FROM_QUERY;
    vec2 slope = slopes_of(head);
    slope_factors = bias_factor() * vec2(slope.x, from_query ? -slope.y : slope.x);
    slope_origin = slope_reference() == SLOPE_FROM_LAST_KEY ? len.k - 1 : 0;
    if (from_query)
        slope_origin = base + int(lane);
    slope_down = from_query ? float(LANES) : 0.0;
}

float slope_number(int key)
{
    return float(key - slope_origin);
}

// Whether the pairs of a block have no common factor: it has keys up to some row and ahead of another,
// or positions of a view are their numbers.
bool slopes_vary(int block)
{
    return slope_reference() == SLOPE_BY_POSITION ||
           (slope_down != 0.0 && block - base > 1 - LANES && block - base < LANES * ROWS);
}

// The common factor; 0 for nothing in common, if a cap comes first, or where b goes by pairs.
float common_slope(int block)
{
    if (by_views() || slopes_vary(block) || (push.softcap != 0.0 && bias_after_cap()))
        return 0.0;
    return slope_down != 0.0 && block - base >= LANES * ROWS ? slope_factors.y : slope_factors.x;
}

// For four keys, [row][key], while their sums are in registers.
void add_common_slopes(int first, float factor, inout float sum[ROWS * 4u])
{
    [[unroll]] for (uint j = 0u; j < 4u; j++) {
        float number = factor * slope_number(first + int(j));
        [[unroll]] for (uint r = 0u; r < ROWS; r++)
            sum[r * 4u + j] += number - float(r) * (factor * slope_down);
    }
}

// What common_slope leaves.
void add_slopes(int block)
{
    if (common_slope(block) != 0.0)
        return;
    [[unroll]] for (uint j = 0u; j < LANES; j++) {
        int key = block + int(j);
        float number = slope_reference() != SLOPE_BY_POSITION ? slope_number(key)
                       : key < len.k ? float(position_k(b, uint(key)))
                                     : 0.0;
        [[unroll]] for (uint r = 0u; r < ROWS; r++) {
            float x = number - float(r) * slope_down;
            s[r * LANES + j] = fma(x > 0.0 ? slope_factors.y : slope_factors.x, x, s[r * LANES + j]);
        }
    }
}

// ---- By pairs: in a loop, since a search for a bucket in each of 32 places compiles for long.

float pair_bias[ROWS * LANES];

void add_pair_bias(int block)
{
    [[dont_unroll]] for (uint i = 0u; i < ROWS * LANES; i++) {
        uint a = row_of_lane(i / LANES);
        uint key = min(uint(block) + i % LANES, uint(len.k) - 1u);
        int delta = table_distance(b, key_minus_query(b, a, key, len.q_offset));
        uvec2 place = query_place(b, a);
        float gate = has_term(TERM_ROW_SCALE)
                         ? row_scale_load(row_scale_at(0u, place.x, head) + place.y) : 1.0;
        pair_bias[i] = scalar_bias(head, has_term(TERM_TABLE) ? row_of(delta) : NO_ROW, gate, delta,
                                   int(key), position_k(b, key), len.k);
    }
    float factor = bias_factor();
    [[unroll]] for (uint i = 0u; i < ROWS * LANES; i++)
        s[i] = fma(factor, pair_bias[i], s[i]);
}

// ---- Windows. The row of TABLE is a number of the query's place less one of the key's.

uvec2 place_step;            // of LANES tokens
ivec2 key_place_in_window;   // of this lane's key of the block; it moves with the blocks
uvec2 window_origin;         // in window space
bool parted;                 // the window has parts that do not belong together
uint query_number[ROWS];     // first element of TABLE: less the key's number
uint key_factor[ROWS];       // all ones; 0 for a class token, which has one row for all places
bool is_class[ROWS];
uint query_region[ROWS];

uint region_number(uvec2 region)
{
    return 3u * region.x + region.y;
}

void start_window()
{
    uvec2 shift = uvec2(constants.shift_height, constants.shift_width);
    uvec2 padded = uvec2(constants.padded_height, constants.padded_width);
    uint place = constants.class_tokens;
    window_origin = has_grid() ? window_space(entry.window, uvec2(0u)) : uvec2(0u);
    parted = has_grid() && any(greaterThan(shift, uvec2(0u))) &&
             any(greaterThanEqual(window_origin + window_size(), padded));
    place_step = uvec2(LANES / constants.window_width, LANES % constants.window_width);
    // A class token's place is before the first one.
    key_place_in_window = ivec2(lane / constants.window_width, lane % constants.window_width);
    if (place != 0u)
        key_place_in_window = lane < place ? ivec2(0, int(lane) - int(place))
                                           : ivec2(window_place(lane));
    [[unroll]] for (uint r = 0u; r < ROWS; r++) {
        uint t = row_of_lane(r);
        is_class[r] = t < place;
        key_factor[r] = is_class[r] ? 0u : 0xffffffffu;
        query_number[r] = table_at(0u, 0u, uint(window_row(t, place))) + head;
        query_region[r] = parted ? region_number(window_region(entry.window, window_place(t))) : 0u;
    }
}

void advance_window()
{
    key_place_in_window += ivec2(place_step);
    bool over = key_place_in_window.y >= int(constants.window_width);
    key_place_in_window += over ? ivec2(1, -int(constants.window_width)) : ivec2(0);
}

// Row of K and V of this lane's key; NO_PIXEL for padding.
uint key_pixel(uint key)
{
    if (!has_grid())
        return key;
    uvec2 modulus = uvec2(constants.modulus_height, constants.modulus_width);
    uvec2 grid = uvec2(constants.grid_height, constants.grid_width);
    uvec2 u = window_origin + uvec2(key_place_in_window);
    uvec2 p = u + uvec2(constants.shift_height, constants.shift_width);
    p -= mix(uvec2(0u), modulus, greaterThanEqual(p, modulus)); // less than two of them
    bool real = all(lessThan(u, modulus)) && all(lessThan(p, grid));
    return real ? p.x * constants.grid_width + p.y : NO_PIXEL;
}

void add_window_bias(int block)
{
    uint width = 2u * constants.window_width - 1u;
    uint offsets = (2u * constants.window_height - 1u) * width;
    uint first = table_at(0u, 0u, 0u) + head;
    uint stride = table_at(0u, 0u, 1u) + head - first;
    ivec2 place = key_place_in_window;
    // No more than the last place's, where there is no key.
    uint last = (constants.window_height - 1u) * width + constants.window_width - 1u;
    float number = uintBitsToFloat(stride * min(uint(place.x) * width + uint(place.y), last));
    vec4 low = spread_low(number);
    vec4 high = spread_high(number);
    float factor = bias_factor() * constants.bias_scale;
    [[unroll]] for (uint j = 0u; j < LANES; j++) {
        uint key_number = floatBitsToUint(j < 4u ? low[j] : high[j - 4u]);
        [[unroll]] for (uint r = 0u; r < ROWS; r++) {
            uint e = query_number[r] - (key_number & key_factor[r]);
            if (j == 0u && uint(block) < constants.class_tokens)
                e = first + stride * (offsets + (is_class[r] ? 2u : 1u));
            s[r * LANES + j] = fma(factor, table_far(e), s[r * LANES + j]);
        }
    }
}

// What lies in two parts that a cyclic shift brings together.
void add_window_mask()
{
    if (!parted)
        return;
    uvec2 padded = uvec2(constants.padded_height, constants.padded_width);
    uvec2 shift = uvec2(constants.shift_height, constants.shift_width);
    uvec2 u = window_origin + uvec2(key_place_in_window);
    uvec2 region = (uvec2(greaterThanEqual(u, padded - window_size())) +
                    uvec2(greaterThanEqual(u, padded - shift))) *
                   uvec2(greaterThan(shift, uvec2(0u)));
    float number = uintBitsToFloat(region_number(region));
    vec4 low = spread_low(number);
    vec4 high = spread_high(number);
    float apart = LOG2_E * constants.mask_value;
    [[unroll]] for (uint r = 0u; r < ROWS; r++)
        [[unroll]] for (uint j = 0u; j < LANES; j++)
            s[r * LANES + j] += floatBitsToUint(j < 4u ? low[j] : high[j - 4u]) == query_region[r]
                                    ? 0.0 : apart;
}

// ---- All of b

void add_bias(int block)
{
    if (has_term(TERM_WINDOW)) {
        add_window_bias(block);
    } else if (by_views()) {
        add_pair_bias(block);
    } else {
        if (bias_by_diagonals())
            add_diagonal_bias(block);
        if (has_term(TERM_SLOPE))
            add_slopes(block);
    }
}

// ---- Segments: the products with both rows of G, per row.

float same_segment[ROWS];
float other_segment[ROWS];
uint row_segment[ROWS];

void add_segments(int block)
{
    uint key = min(uint(block) + lane, uint(len.k) - 1u);
    float segment = uintBitsToFloat(segments_k_word(segments_k_at(0u, 0u, b) + key));
    vec4 low = spread_low(segment);
    vec4 high = spread_high(segment);
    [[unroll]] for (uint r = 0u; r < ROWS; r++)
        [[unroll]] for (uint j = 0u; j < LANES; j++)
            s[r * LANES + j] += floatBitsToUint(j < 4u ? low[j] : high[j - 4u]) == row_segment[r]
                                    ? same_segment[r] : other_segment[r];
}
