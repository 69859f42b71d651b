// Four rows of a work group in shared memory, one in each component, and their way to O.
//
// Wants: the view o, a work group of GENERIC_INVOCATIONS.

layout(constant_id = SPEC_PAIRING) const uint PAIRING = PAIRING_NONE;

shared vec4 rows[RHUMB_MAX_HEAD_DIM]; // [channel] x 4 rows

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
