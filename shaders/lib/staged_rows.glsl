// Four rows of a work group in shared memory, one in each component: loaded from Q, rotated where
// the plan says so, and stored to O.
//
// Wants: the views q and o, lib/position.glsl, lib/trig.glsl, a work group of GENERIC_INVOCATIONS.

layout(constant_id = SPEC_PAIRING) const uint PAIRING = PAIRING_NONE;

shared vec4 rows[RHUMB_MAX_HEAD_DIM]; // [channel] x 4 rows

// Rows of Q times `factor`, zeros for rows that do not exist and from head_dim up to a multiple of
// 4. `at`: first elements; row_a: indices of the rows, for their positions. Ends with a barrier.
void load_rows(uint lane, uint b, uvec4 at, uvec4 row_a, bvec4 row_exists, int q_offset,
               float factor)
{
    uint end = (constants.head_dim + 3u) & ~3u;
    for (uint d = lane; d < end; d += GENERIC_INVOCATIONS) {
        vec4 x = vec4(0.0);
        [[unroll]] for (uint r = 0u; r < 4u; r++)
            if (row_exists[r] && d < constants.head_dim)
                x[r] = q_load(at[r] + d);
        rows[d] = x * factor;
    }
    barrier();
    uint pairs = PAIRING == PAIRING_NONE ? 0u : constants.rotary_dim / 2u;
    for (uint i = lane; i < pairs; i += GENERIC_INVOCATIONS) {
        uint first = constants.rotary_offset + (PAIRING == PAIRING_HALF ? i : 2u * i);
        uint second = first + (PAIRING == PAIRING_HALF ? pairs : 1u);
        vec4 c, s;
        [[unroll]] for (uint r = 0u; r < 4u; r++) {
            int p = row_exists[r] ? rotary_position(b, row_a[r], q_offset, i) : 0;
            vec2 cs = rotary_cos_sin(p, i, false);
            c[r] = cs.x;
            s[r] = cs.y;
        }
        vec4 x = rows[first];
        vec4 y = rows[second];
        rows[first] = x * c - y * s;
        rows[second] = x * s + y * c;
    }
    barrier();
}

// `count` elements of row r to O from element `at` on.
void store_row(uint lane, uint r, uint at, uint count)
{
    // Whole words where the row fills them: units of two elements, starting at an even index.
    uint skew = at & 1u;
    for (uint u = lane; 2u * u < count + skew; u += GENERIC_INVOCATIONS) {
        uint d = u == 0u ? 0u : 2u * u - skew;
        uint end = min(2u * u - skew + 2u, count);
        vec4 x = vec4(rows[d][r], end - d > 1u ? rows[d + 1u][r] : 0.0, 0.0, 0.0);
        o_store4(at + d, x, end - d);
    }
}
