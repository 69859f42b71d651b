// Frequencies and coordinates of sinusoids, exact as in lib/trig.glsl.
//
// A coordinate is a number with 32 bits of fraction, uvec3(fraction, low, high) in two's
// complement. Its product with a frequency, a 64-bit fraction of a turn, is exact modulo one turn
// to some 2^-31 turn whatever the device: only integers are used. Wants lib/io.glsl and lib/trig.glsl.

uvec3 coordinate_of(int p)
{
    return uvec3(0u, uint(p), p < 0 ? 0xffffffffu : 0u);
}

uvec3 add_coordinates(uvec3 a, uvec3 b)
{
    uint carry_x, carry_y, carry;
    uint x = uaddCarry(a.x, b.x, carry_x);
    uint y = uaddCarry(a.y, b.y, carry_y);
    y = uaddCarry(y, carry_x, carry);
    return uvec3(x, y, a.z + b.z + carry_y + carry);
}

uvec3 negate_coordinate(uvec3 a)
{
    return add_coordinates(~a, uvec3(1u, 0u, 0u));
}

// high * low words of a 32 x 32 product
uint product_high(uint a, uint b)
{
    uint high, low;
    umulExtended(a, b, high, low);
    return high;
}

// Phase of coordinate c at w = {low, high} turns per 1, as a fraction of a turn times 2^32.
uint phase_at(uvec3 c, uvec2 w)
{
    return product_high(c.x, w.y) + product_high(c.y, w.x) + c.y * w.y + c.z * w.x;
}

// High 64 bits of a product of two 64-bit numbers {low, high}.
uvec2 product_high64(uvec2 a, uvec2 b)
{
    uint high_xy, low_xy, high_yx, low_yx, high, low, carry;
    umulExtended(a.x, b.y, high_xy, low_xy);
    umulExtended(a.y, b.x, high_yx, low_yx);
    umulExtended(a.y, b.y, high, low);
    uint middle = uaddCarry(product_high(a.x, b.x), low_xy, carry);
    uint carried = carry;
    middle = uaddCarry(middle, low_yx, carry);
    carried += carry;
    low = uaddCarry(low, high_xy, carry);
    high += carry;
    low = uaddCarry(low, high_yx, carry);
    high += carry;
    low = uaddCarry(low, carried, carry);
    return uvec2(low, high + carry);
}

uvec2 turns_element(uint i)
{
    uvec4 two = constants.turns[i >> 1];
    return (i & 1u) != 0u ? two.zw : two.xy;
}

// Turns per 1 of an angle: from the list, or base and ratio of a power law.
uvec2 turns_of(uint angle)
{
    bool listed = (constants.encode_flags & ENCODE_FLAG_LISTED) != 0u;
    uvec2 turns = turns_element(listed ? angle : angle / TURNS_RATIO);
    if (!listed)
        turns = product_high64(turns, turns_element(TURNS_RATIO + angle % TURNS_RATIO));
    return turns;
}

// ---- (sum + center) / (total + epsilon) * scale, by integers: the same bits on every device

bool not_below(uvec2 a, uvec2 b)
{
    return a.y > b.y || (a.y == b.y && a.x >= b.x);
}

// One digit of a long division: takes the divisor from the rest, doubled with the dividend's next
// digit, where it can.
uint divide_step(inout uvec2 rest, uint digit, uvec2 divisor)
{
    uint borrow;
    rest = uvec2((rest.x << 1) | digit, (rest.y << 1) | (rest.x >> 31));
    if (!not_below(rest, divisor))
        return 0u;
    uint low = usubBorrow(rest.x, divisor.x, borrow);
    rest = uvec2(low, rest.y - divisor.y - borrow);
    return 1u;
}

#define LARGEST_QUOTIENT 0x100000u

// a / b as {fraction, whole}; no more than LARGEST_QUOTIENT, and 0 for b = 0.
uvec2 quotient_of(uvec2 a, uvec2 b)
{
    uvec2 rest = a;
    uint whole = 0u, fraction = 0u;
    bool beyond = false;
    if ((b.x | b.y) == 0u)
        return uvec2(0u);
    if (not_below(a, b)) {
        rest = uvec2(0u);
        for (uint i = 0u; i < 64u; i++) {
            uint digit = ((i < 32u ? a.y : a.x) >> (31u - (i & 31u))) & 1u;
            beyond = beyond || whole >= LARGEST_QUOTIENT / 2u;
            whole = (whole << 1) | divide_step(rest, digit, b);
        }
    }
    for (uint i = 0u; i < 32u; i++)
        fraction = (fraction << 1) | divide_step(rest, 0u, b);
    return beyond ? uvec2(0u, LARGEST_QUOTIENT) : uvec2(fraction, whole);
}

// The product of two numbers {fraction, whole}.
uvec3 scale_quotient(uvec2 a, uvec2 b)
{
    uvec3 cross_1 = uvec3(a.y * b.x, product_high(a.y, b.x), 0u);
    uvec3 cross_2 = uvec3(a.x * b.y, product_high(a.x, b.y), 0u);
    uvec3 sum = add_coordinates(cross_1, cross_2);
    sum = add_coordinates(sum, uvec3(product_high(a.x, b.x), 0u, 0u));
    return add_coordinates(sum, uvec3(0u, a.y * b.y, product_high(a.y, b.y)));
}

uvec3 normalized_coordinate(uint sum, uint total)
{
    uvec3 a = uvec3(constants.center_fraction, sum + constants.center_low, 0u);
    bool negative = int(a.y) < 0;
    if (negative)
        a = negate_coordinate(uvec3(a.xy, 0xffffffffu));
    uvec2 divisor = uvec2(constants.epsilon_fraction, total + constants.epsilon_low);
    uvec3 c = scale_quotient(quotient_of(a.xy, divisor),
                             uvec2(constants.scale_fraction, constants.scale_low));
    bool turned = (constants.encode_flags & ENCODE_FLAG_NEGATIVE_SCALE) != 0u;
    return negative != turned ? negate_coordinate(c) : c;
}

// ---- coordinate of an offset inside a window, from the host's list of distances

float offset_coordinate(uint axis, int offset)
{
    uint i = axis * RHUMB_MAX_OFFSETS + uint(abs(offset));
    float c = uintBitsToFloat(constants.turns[i >> 2][i & 3u]);
    return offset < 0 ? -c : c;
}
