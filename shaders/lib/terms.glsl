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

// delta as tables see it: it changes sign for the second half of the batch where the scheme says so.
int table_distance(uint b, int delta)
{
    return has_flag(TERM_FLAG_FLIP_HALF) && 2u * b >= push.batch ? -delta : delta;
}

// Rows are the same for all distances up to .x, and for all from .y on.
ivec2 near_distances(uint b)
{
    ivec2 near = ivec2(constants.near_low, constants.near_high);
    return table_distance(b, 1) < 0 ? -near.yx : near;
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

// SLOPE_*: a cap sees the number that softmax does not see.
uint slope_reference()
{
    bool capped = push.softcap != 0.0 && (push.flags & FLAG_BIAS_AFTER_SOFTCAP) == 0u;
    return capped ? constants.slope_reference >> 2 : constants.slope_reference & 3u;
}

// Slopes of a head: of what is past, and of what is to come.
vec2 slopes_of(uint h)
{
    vec4 two = constants.slopes[h >> 1];
    return (h & 1u) != 0u ? two.zw : two.xy;
}

// A slope times a distance.
float slope_from_query(vec2 slope, int delta)
{
    return delta > 0 ? -slope.y * float(delta) : slope.x * float(delta);
}

// Slope of a head times the distance, or times the key's place by slope_reference: j is the key's
// index, pos_k its position, k_length the number of keys.
float slope_bias(uint h, int delta, int j, int pos_k, int k_length)
{
    vec2 slope = slopes_of(h);
    switch (slope_reference()) {
    case SLOPE_FROM_FIRST_KEY: return slope.x * float(j);
    case SLOPE_FROM_LAST_KEY: return slope.x * float(j - (k_length - 1));
    case SLOPE_BY_POSITION: return slope.x * float(pos_k);
    }
    return slope_from_query(slope, delta);
}

// -r1 ln(1 + r2 |delta|): r1 of a head in row 0 of TABLE, r2 in row 1. log2 is the device's: Vulkan
// promises it within 2^-21 in [1/2, 2] and within 3 units in the last place elsewhere. With
// u = 2^-23 and y = 1 + r2 |delta|: three roundings of y are 3 u of its logarithm, log2 adds
// (2.8 + 3 ln y) u, the products 3 ln y u. The sum is below 6 u r1 (1 + ln y).
float logarithm_bias(uint h, int delta)
{
    float r1 = table_load(table_at(0u, 0u, 0u) + h);
    float r2 = table_load(table_at(0u, 0u, 1u) + h);
    return -r1 * (0.69314718056 * log2(1.0 + r2 * float(abs(delta))));
}

// b of one head by the distance alone: `row` of TABLE, times `gate` of the query row, and the
// logarithm.
float distance_bias(uint h, int row, float gate, int delta)
{
    float b = 0.0;
    if (has_term(TERM_TABLE) && row != NO_ROW)
        b = constants.bias_scale * table_load(table_at(0u, 0u, uint(row)) + h) * gate;
    if (has_term(TERM_LOGARITHM))
        b += logarithm_bias(h, delta);
    return b;
}

// All of b of one head for a row and a key.
float scalar_bias(uint h, int row, float gate, int delta, int j, int pos_k, int k_length)
{
    float b = distance_bias(h, row, gate, delta);
    if (has_term(TERM_SLOPE))
        b += slope_bias(h, delta, j, pos_k, k_length);
    return b;
}
