// Sine and cosine of position times frequency, exact in the reduction at every int32 position.
//
// A frequency is a 64-bit fraction of a turn per position, round(2^64 f / 2 pi), made on the host in
// extended precision: w = {low, high}, low an int, as p is. The product modulo 2^64 is the angle modulo
// one turn; its high word is the phase, exact to 2^-32 turn. No sin, cos or pow of the driver: GLSL
// promises them only near [-pi, pi] and only to 2^-11.
//
// Error of both results: below 1.5e-7 absolute at every position. The polynomials, of degree 7 (sine) and
// 8 (cosine) in [-pi/4, pi/4], have errors of 1.9e-9 and 1.5e-9, far below the rounding of a float. Their
// variable is the angle times 0.2654681, for which the cosine's highest coefficient is 1: one constant
// less in an instruction, and some GPUs take one only. Of the scales that do so it is one at which the
// coefficients that count, and the sine's first, are floats.

// Phase of position p, as a fraction of a turn times 2^32.
uint phase_of(int p, uvec2 w)
{
    int high, low;
    imulExtended(p, int(w.x), high, low);
    return uint(high) + uint(p) * w.y;
}

// A float32 frequency in radians as a 64-bit fraction of a turn, {low, high} as above, cut to 2^-64 turn:
// its mantissa times 1/(2 pi), of which 96 bits are kept, shifted to where its exponent wants it.
// Whole turns fall off at the top. Frequencies from 65536 on, and what is no number, turn by nothing.
uvec2 turns_of_radians(uint bits)
{
    const uvec3 inverse = uvec3(0xfc2757d2u, 0x4e441529u, 0xa2f9836eu); // 2^98 / (2 pi)
    uint exponent = (bits >> 23) & 0xffu;
    if (exponent == 0u || exponent >= 127u + 16u)
        return uvec2(0u);
    uint mantissa = (bits & 0x7fffffu) | 0x800000u;
    uvec3 high;
    uvec3 low;
    umulExtended(uvec3(mantissa), inverse, high, low);
    uint word[6] = uint[6](low.x, 0u, 0u, 0u, 0u, 0u); // of the product, the lowest first
    uint carry;
    uint more;
    word[1] = uaddCarry(low.y, high.x, carry);
    word[2] = uaddCarry(low.z, high.y, more);
    word[2] = uaddCarry(word[2], carry, carry);
    word[3] = high.z + more + carry;
    // The product is f 2^(98 + 23 - e) turns, e the exponent; 2^64 turns are wanted.
    uint shift = 57u + 127u - exponent; // 42 or more
    uint first = min(shift >> 5, 4u);
    uint rest = shift & 31u;
    uvec3 w = uvec3(word[first], word[min(first + 1u, 5u)], word[min(first + 2u, 5u)]);
    uvec2 turns = rest == 0u ? w.xy : (w.xy >> rest) | (w.yz << (32u - rest));
    if ((bits & 0x80000000u) != 0u) {
        turns = ~turns;
        turns.x = uaddCarry(turns.x, 1u, carry);
        turns.y += carry;
    }
    turns.y += turns.x >> 31; // low gets a sign
    return turns;
}

// x: cosine, y: sine, times a factor that is not negative.
vec2 cos_sin_of_phase(uint phase, float factor)
{
    uint shifted = phase + 0x20000000u; // quarters centred on 0, 1/4, 1/2, 3/4 turn
    precise float z = float(int(phase << 2)) * 9.708952392051273e-11; // 0.2654681 * 2 pi / 2^34
    precise float y = z * z;
    precise float s =
        z * fma(y, fma(y, fma(y, -2.098219394683838, 6.319553375244141), -8.908637046813965),
                3.7669308185577393);
    precise float c = fma(
        y, fma(y, fma(y, y - 3.9683430194854736, 8.389567375183105), -7.094883918762207), 1.0);
    vec2 r = (shifted & 0x40000000u) != 0u ? vec2(-s, c) : vec2(c, s);
    uint sign = 0x80000000u; // written so that a GPU selects bits by one instruction
    return uintBitsToFloat((floatBitsToUint(factor) & ~sign) | (shifted & sign)) * r;
}

vec2 cos_sin_of_phase(uint phase)
{
    return cos_sin_of_phase(phase, 1.0);
}

// Cosine and sine of position p for a rotary pair of the plan, times the plan's magnitude, by the
// list of frequencies that rhumb_write_constants chose. A pair that grows with the position does so
// for queries, and shrinks for keys.
vec2 rotary_cos_sin_by(uvec2 turns, int p, uint pair, bool of_keys)
{
    uint phase = phase_of(p, turns);
    if ((ROTARY & ROTARY_PHASES) != 0u)
        phase += constants.phases[pair >> 2][pair & 3u];
    float magnitude = constants.magnitude;
    if ((ROTARY & ROTARY_GROWTH) != 0u) {
        // The distance of two ints may need 32 bits without a sign.
        float distance = p < constants.centre ? -float(uint(constants.centre) - uint(p))
                                              : float(uint(p) - uint(constants.centre));
        float growth = distance * constants.growth[pair >> 2][pair & 3u];
        magnitude *= exp2(of_keys ? -growth : growth);
    }
    return cos_sin_of_phase(phase, magnitude);
}

// Turns of pairs 2 n + 2 i and 2 n + 2 i + 1. A constant i costs no address of its own.
uvec4 turns_of_two(uint n, uint i)
{
    return constants.turns[constants.turns_first + n + i];
}

vec2 rotary_cos_sin(int p, uint pair, bool of_keys)
{
    uvec4 two = turns_of_two(pair >> 1, 0u);
    return rotary_cos_sin_by((pair & 1u) != 0u ? two.zw : two.xy, p, pair, of_keys);
}
