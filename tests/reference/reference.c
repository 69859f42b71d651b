/* Numbers of 16 bits, and what the other files share. Definitions: IEEE 754-2019, 3.4 (binary16)
 * and 4.3.1 (roundTiesToEven); bfloat16 is the upper half of binary32.
 */
#include "reference.h"

#include <math.h>
#include <string.h>

/* The nearest number of a sign, exponent_bits and mantissa_bits format, in integers: no arithmetic
 * of the machine's can round a second time. */
static uint16_t narrow(double value, int exponent_bits, int mantissa_bits)
{
    const int bias = (1 << (exponent_bits - 1)) - 1;
    const uint64_t infinity = (uint64_t)((1 << exponent_bits) - 1) << mantissa_bits;
    uint64_t bits, sign, mantissa, kept, rest, half, encoded;
    int exponent, shift;

    memcpy(&bits, &value, sizeof bits);
    sign = (bits >> 63) << 15;
    exponent = (int)(bits >> 52 & 0x7ff) - 1023;
    mantissa = bits & 0xfffffffffffffu;
    if (exponent == 1024) {
        const uint64_t quiet = mantissa != 0 ? UINT64_C(1) << (mantissa_bits - 1) : 0;
        return (uint16_t)(sign | infinity | quiet);
    }
    shift = 52 - mantissa_bits;
    if (exponent < 1 - bias)
        shift += 1 - bias - exponent; /* subnormal in the narrow format */
    if (exponent == -1023 || shift > 54)
        return (uint16_t)sign; /* below half of the smallest number */
    mantissa |= UINT64_C(1) << 52;
    kept = mantissa >> shift;
    rest = mantissa & ((UINT64_C(1) << shift) - 1);
    half = UINT64_C(1) << (shift - 1);
    if (rest > half || (rest == half && (kept & 1) != 0))
        kept++;
    /* A carry out of the mantissa is the next exponent, which is what the sum makes of it. */
    encoded = kept;
    if (exponent >= 1 - bias)
        encoded += (uint64_t)(exponent + bias - 1) << mantissa_bits;
    if (encoded > infinity)
        encoded = infinity;
    return (uint16_t)(sign | encoded);
}

static double widen(uint16_t bits, int exponent_bits, int mantissa_bits)
{
    const int bias = (1 << (exponent_bits - 1)) - 1;
    const int exponent = bits >> mantissa_bits & ((1 << exponent_bits) - 1);
    const int mantissa = bits & ((1 << mantissa_bits) - 1);
    double value;

    if (exponent == (1 << exponent_bits) - 1)
        value = mantissa != 0 ? (double)NAN : (double)INFINITY;
    else if (exponent == 0)
        value = ldexp((double)mantissa, 1 - bias - mantissa_bits);
    else
        value = ldexp((double)(mantissa | 1 << mantissa_bits), exponent - bias - mantissa_bits);
    return (bits & 0x8000) != 0 ? -value : value;
}

uint16_t ref_f16_from_double(double value)
{
    return narrow(value, 5, 10);
}

double ref_double_from_f16(uint16_t bits)
{
    return widen(bits, 5, 10);
}

uint16_t ref_bf16_from_double(double value)
{
    return narrow(value, 8, 7);
}

double ref_double_from_bf16(uint16_t bits)
{
    return widen(bits, 8, 7);
}

void ref_arange(uint32_t batch, uint32_t rows, int32_t offset, int32_t *positions)
{
    uint32_t b, l;

    for (b = 0; b < batch; b++)
        for (l = 0; l < rows; l++)
            positions[(uint64_t)b * rows + l] = (int32_t)((int64_t)offset + l);
}
