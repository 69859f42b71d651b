// Terms of relative schemes: which row of a scheme's tables serves a distance, and the scalar that is
// added to a logit. delta = pos_k - pos_q, key minus query. runtime/scheme/rows.c is the same on the
// host.
//
//   d = clamp(delta, delta_low, delta_high); none outside none_below .. none_above
//   row = base + step f(|d|), by the side of d
//   f(a) = a below `exact`, else exact - 1 + the number of edges up to a

RHUMB_READ_VIEW(table, VIEW_TABLE)
layout(constant_id = SPEC_TERMS) const uint TERMS = 0u;

#define NO_ROW (-1)

bool has_term(uint term)
{
    return (TERMS & term) != 0u;
}

bool has_flag(uint flag)
{
    return (constants.term_flags & flag) != 0u;
}

// pos_k - pos_q, the nearest int where it is none. Never INT_MIN, which has no magnitude.
int distance_of(int pos_q, int pos_k)
{
    int d = pos_k - pos_q;
    bool wrapped = ((pos_k ^ pos_q) & (pos_k ^ d)) < 0;
    d = wrapped ? (pos_k < 0 ? -2147483647 : 2147483647) : d;
    return max(d, -2147483647);
}

uint edges_up_to(uint a)
{
    uint low = 0u;
    uint high = constants.edge_count;
    while (low < high) {
        uint middle = (low + high) / 2u;
        if (constants.edges[middle >> 2][middle & 3u] <= a)
            low = middle + 1u;
        else
            high = middle;
    }
    return low;
}

int row_of(int delta)
{
    if (delta < constants.none_below || delta > constants.none_above)
        return NO_ROW;
    int d = clamp(delta, constants.delta_low, constants.delta_high);
    uint a = uint(abs(d));
    if (a >= constants.exact)
        a = constants.exact - 1u + edges_up_to(a);
    int row = d > 0 ? constants.base_future + constants.step_future * int(a)
                    : constants.base_past + constants.step_past * int(a);
    return clamp(row, 0, int(constants.table_rows) - 1);
}

// Slope of a head times the distance, or times the key's place by slope_reference: j is the key's
// index, pos_k its position, k_length the number of keys.
float slope_bias(uint h, int delta, int j, int pos_k, int k_length)
{
    vec4 two = constants.slopes[h >> 1];
    vec2 slope = (h & 1u) != 0u ? two.zw : two.xy;
    switch (constants.slope_reference) {
    case SLOPE_FROM_FIRST_KEY: return slope.x * float(j);
    case SLOPE_FROM_LAST_KEY: return slope.x * float(j - (k_length - 1));
    case SLOPE_BY_POSITION: return slope.x * float(pos_k);
    }
    return delta > 0 ? -slope.y * float(delta) : slope.x * float(delta);
}

// Row of token j as key of token i, both of one window in row-major order after the class token.
int window_row(uint i, uint j)
{
    uint height = constants.window_height;
    uint width = constants.window_width;
    uint c = constants.class_tokens;
    if (i < c || j < c) {
        uint inside = (2u * height - 1u) * (2u * width - 1u);
        return int(inside + (j >= c ? 0u : i >= c ? 1u : 2u));
    }
    uint y = (i - c) / width + height - 1u - (j - c) / width;
    uint x = (i - c) % width + width - 1u - (j - c) % width;
    return int(y * (2u * width - 1u) + x);
}

// Which of the parts of a shifted axis of n tokens coordinate u is in.
uint window_region(uint u, uint n, uint window, uint shift)
{
    if (shift == 0u || u + window < n)
        return 0u;
    return u + shift < n ? 1u : 2u;
}

uint window_regions(uint w, uint token)
{
    uint across = constants.padded_width / constants.window_width;
    uint y = w / across * constants.window_height + token / constants.window_width;
    uint x = w % across * constants.window_width + token % constants.window_width;
    return 3u * window_region(y, constants.padded_height, constants.window_height,
                              constants.shift_height) +
           window_region(x, constants.padded_width, constants.window_width,
                         constants.shift_width);
}

// What is added to the logit of tokens i and j of window w, which a shift may have brought together.
float window_mask(uint w, uint i, uint j)
{
    if (constants.shift_height == 0u && constants.shift_width == 0u)
        return 0.0;
    return window_regions(w, i) == window_regions(w, j) ? 0.0 : constants.mask_value;
}

// b of one head: what is added to the logit of a row and a key whose tables' row is `row`.
float scalar_bias(uint h, int row, int delta, int j, int pos_k, int k_length)
{
    float b = 0.0;
    if (has_term(TERM_TABLE) && row != NO_ROW)
        b = constants.bias_scale * table_load(table_at(0u, 0u, uint(row)) + h);
    if (has_term(TERM_SLOPE))
        b += slope_bias(h, delta, j, pos_k, k_length);
    return has_flag(TERM_FLAG_BIAS_IN_SCALE) ? b * constants.scale : b;
}
