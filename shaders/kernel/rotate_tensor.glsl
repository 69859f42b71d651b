// ROTATE, the work on one tensor; included by rotate.comp once for each of Q, K and V. A tensor's
// slot must stay a constant, and all its loads must stand together: with a branch on Q or K around
// each of them a GPU would wait for one after the other.
//
// Wants: IN(f) and OUT(f), the accessors of the tensor and of its result; FN(f), a name for a
// function here; of tensors that RHUMB_NORM may normalise GAIN(f) and GAIN_ID, their gain.

vec4 FN(load)(uint e, uint n)
{
    if (ALIGNED != 0u)
        return IN(load4_aligned)(e);
    vec4 v = vec4(0.0);
    for (uint i = 0u; i < n; i++)
        v[i] = IN(load)(e + i);
    return v;
}

#if defined(RHUMB_NORM) && defined(GAIN_ID)

// Squares of this lane's channels, summed for each head of a row.
vec4 FN(squares)(uint b, uint first_head, uint head_count, uint l, uint lane)
{
    vec4 sums = vec4(0.0);
    uint width = ALIGNED != 0u ? 4u : 1u;
    [[unroll]] for (uint i = 0u; i < HEADS; i++) {
        if (i < head_count) {
            uint row = IN(at)(b, first_head + i, l);
            for (uint c = width * lane; c < constants.head_dim; c += width * LANES) {
                vec4 v = FN(load)(row + c, 1u);
                sums[i] += dot(v, v);
            }
        }
    }
    return sums;
}

// v, which has n channels from `channel` on of head `head`, the i-th of this invocation: normalised
// where the tensor has a gain.
vec4 FN(normed)(vec4 v, uint head, uint i, uint channel, uint n)
{
    if (!has_view(GAIN_ID))
        return v;
    uint g = GAIN(at)(0u, 0u, head) + channel;
    vec4 gain = vec4(0.0);
    if (ALIGNED != 0u)
        gain = GAIN(load4_aligned)(g);
    else
        for (uint j = 0u; j < n; j++)
            gain[j] = GAIN(load)(g + j);
    return v * row_scales[i] * (constants.gain_offset + gain);
}
#define CHANGES has_view(GAIN_ID)

#else

vec4 FN(normed)(vec4 v, uint head, uint i, uint channel, uint n)
{
    return v;
}
#define CHANGES false

#endif

// n channels from element e on, normalised.
vec4 FN(take)(uint e, uint head, uint i, uint channel, uint n)
{
    return FN(normed)(FN(load)(e, n), head, i, channel, n);
}

void FN(store)(uint e, vec4 v, uint n)
{
    if (ALIGNED != 0u)
        OUT(store4_aligned)(e, v);
    else
        OUT(store4)(e, v, n);
}

// The pairs of head_count heads from first_head on, row l, read from one pair of runs and written
// to another in to_row of the result; c and s: cosines and sines.
void FN(rotate)(uint b, uint first_head, uint head_count, uint l, uint to_row, Run from, Run to,
                vec4 c, vec4 s)
{
    if (ALIGNED == 0u) {
        [[dont_unroll]] for (uint i = 0u; i < head_count; i++) {
            uint h = first_head + i;
            uint in_row = IN(at)(b, h, l);
            uint out_row = OUT(at)(b, h, to_row);
            vec4 x = FN(take)(in_row + from.x_at, h, i, from.x_at, from.x_count);
            vec4 y = FN(take)(in_row + from.y_at, h, i, from.y_at, from.y_count);
            turn(x, y, c, s);
            FN(store)(out_row + to.x_at, x, to.x_count);
            FN(store)(out_row + to.y_at, y, to.y_count);
        }
        return;
    }
    // Places in units of four elements, found once. Only pairs side by side may be two, not four.
    bool has_y = PAIRING != PAIRING_INTERLEAVED || to.y_count > 0u;
    uint y_at = has_y ? from.y_at : from.x_at; // of what is read: nothing lies behind the row
    uint in_row = IN(quad_at)(b, first_head, l);
    uint in_x = in_row + from.x_at;
    uint in_y = in_row + y_at;
    uint in_step = IN(between_heads)() / 4u;
    uint out_row = OUT(quad_at)(b, first_head, to_row);
    uint out_x = out_row + to.x_at;
    uint out_y = out_row + to.y_at;
    uint out_step = OUT(between_heads)() / 4u;
    vec4 x[ROTATE_HEADS];
    vec4 y[ROTATE_HEADS];
    [[unroll]] for (uint i = 0u; i < HEADS; i++) {
        uint h = first_head + min(i, head_count - 1u);
        uint step = i > 0u && i < head_count ? in_step : 0u; // the last head again where there is none
        in_x += step;
        in_y += step;
        y[i] = FN(normed)(IN(load_quad)(in_y), h, i, 4u * y_at, 4u);
        x[i] = FN(normed)(IN(load_quad)(in_x), h, i, 4u * from.x_at, 4u);
    }
    [[unroll]] for (uint i = 0u; i < HEADS; i++) {
        if (i == 0u || i < head_count) {
            turn(x[i], y[i], c, s);
            OUT(store_quad)(out_x + i * out_step, x[i]);
            if (has_y)
                OUT(store_quad)(out_y + i * out_step, y[i]);
        }
    }
}

// Channels that do not turn, bit for bit where both sides have one dtype and nothing scales them.
void FN(copy)(uint b, uint first_head, uint head_count, uint l, uint to_row, Untouched of,
              uint part)
{
    uint first = part * ROTATE_COPY; // counted over the untouched channels only
    uint last = min(first + ROTATE_COPY, of.count);
    for (uint i = 0u; i < head_count; i++) {
        uint h = first_head + i;
        uint from = IN(at)(b, h, l);
        uint to = OUT(at)(b, h, to_row);
        for (uint j = first; j < last; j += ALIGNED != 0u ? 4u : 1u) {
            uint channel = j < of.window ? j : j + of.gap;
            if (CHANGES || IN(dtype) != OUT(dtype))
                FN(store)(to + channel, FN(take)(from + channel, h, i, channel, 1u), 1u);
            else if (ALIGNED != 0u)
                OUT(store_raw_quad)((to + channel) / 4u, IN(raw_quad)((from + channel) / 4u));
            else
                OUT(store_bits)(to + channel, IN(bits)(from + channel));
        }
    }
}
#undef CHANGES
