// ROTATE, the work on one tensor; included by rotate.comp once for each of Q, K and V. A tensor's
// slot must stay a constant, and all its loads must stand together: with a branch on Q or K around
// each of them a GPU would wait for one after the other.
//
// Wants: IN(f) and OUT(f), the accessors of the tensor and of its result; FN(f), a name for a
// function here.

vec4 FN(load)(uint e, uint n)
{
    if (ALIGNED != 0u)
        return IN(load4_aligned)(e);
    vec4 v = vec4(0.0);
    for (uint i = 0u; i < n; i++)
        v[i] = IN(load)(e + i);
    return v;
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
        [[dont_unroll]] for (uint h = first_head; h < first_head + head_count; h++) {
            uint in_row = IN(at)(b, h, l);
            uint out_row = OUT(at)(b, h, to_row);
            vec4 x = FN(load)(in_row + from.x_at, from.x_count);
            vec4 y = FN(load)(in_row + from.y_at, from.y_count);
            turn(x, y, c, s);
            FN(store)(out_row + to.x_at, x, to.x_count);
            FN(store)(out_row + to.y_at, y, to.y_count);
        }
        return;
    }
    vec4 x[ROTATE_HEADS];
    vec4 y[ROTATE_HEADS];
    [[unroll]] for (uint i = 0u; i < ROTATE_HEADS; i++) {
        uint row = IN(at)(b, first_head + min(i, head_count - 1u), l);
        x[i] = FN(load)(row + from.x_at, 4u);
        y[i] = FN(load)(row + (from.y_count > 0u ? from.y_at : from.x_at), 4u);
    }
    [[unroll]] for (uint i = 0u; i < ROTATE_HEADS; i++) {
        if (i < head_count) {
            uint row = OUT(at)(b, first_head + i, to_row);
            turn(x[i], y[i], c, s);
            FN(store)(row + to.x_at, x[i], 4u);
            if (to.y_count > 0u)
                FN(store)(row + to.y_at, y[i], 4u);
        }
    }
}

// Untouched channels, bit for bit where both sides have one dtype.
void FN(copy)(uint b, uint first_head, uint head_count, uint l, uint to_row, Untouched of,
              uint part)
{
    uint first = part * ROTATE_COPY; // counted over the untouched channels only
    uint last = min(first + ROTATE_COPY, of.count);
    for (uint h = first_head; h < first_head + head_count; h++) {
        uint from = IN(at)(b, h, l);
        uint to = OUT(at)(b, h, to_row);
        for (uint j = first; j < last; j += ALIGNED != 0u ? 4u : 1u) {
            uint channel = j < of.window ? j : j + of.gap;
            if (IN(dtype) != OUT(dtype))
                FN(store)(to + channel, FN(load)(from + channel, 1u), 1u);
            else if (ALIGNED != 0u)
                OUT(store_quad_aligned)(to + channel, IN(quad_aligned)(from + channel));
            else
                OUT(store_bits)(to + channel, IN(bits)(from + channel));
        }
    }
}
