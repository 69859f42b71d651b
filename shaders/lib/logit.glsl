// What attention does to logits beside positions, and to a row at its end. Kernels of fused attention
// have logits times log2(e).
//
//   S -> softcap tanh(S / softcap); with FLAG_BIAS_AFTER_SOFTCAP b comes after it
//   S -> S + MASK[b, h, a, j], hidden where that is -inf, the lowest number or <= -1e30
//   softmax over the visible keys and the head's SINKS, which has no value
//   LSE = ln sum exp S
//
// Wants: lib/io.glsl, lib/rows.glsl.

#define LOG2_E 1.4426950408889634
#define LN_2 0.6931471805599453

RHUMB_READ_VIEW(mask, VIEW_MASK)
RHUMB_READ_VIEW(sinks, VIEW_SINKS)
RHUMB_WRITE_VIEW(lse, VIEW_LSE)

bool bias_after_cap()
{
    return (push.flags & FLAG_BIAS_AFTER_SOFTCAP) != 0u;
}

// tanh within some 1e-7 of its value: by its series where 1 - exp would cancel.
float tanh_of(float x)
{
    float y = x * x;
    float series = x * (1.0 + y * (-0.333333333 + y * (0.133333333 + y * (-0.053968254 +
                                                                          y * 0.021869489))));
    float a = abs(x) > 20.0 ? 20.0 : abs(x); // NaN stays NaN
    float e = exp2(-2.0 * LOG2_E * a);
    float quotient = (1.0 - e) / (1.0 + e);
    return abs(x) < 0.25 ? series : x < 0.0 ? -quotient : quotient;
}

// `unit`: what a logit of 1 is here.
float capped(float s, float unit)
{
    float cap = push.softcap * unit;
    return push.softcap == 0.0 ? s : cap * tanh_of(s / cap);
}

// A logit of content and b, as the record orders them.
vec4 with_softcap(vec4 content, vec4 b, float unit)
{
    if (push.softcap == 0.0)
        return content + b;
    vec4 s = bias_after_cap() ? content : content + b;
    [[unroll]] for (uint r = 0u; r < 4u; r++)
        s[r] = capped(s[r], unit);
    return bias_after_cap() ? s + b : s;
}

// MASK's element for key j of the row that begins at `row` (mask_at).
uint mask_element(uint row, uint j)
{
    return row + ((push.flags & FLAG_MASK_ONE_KEY) != 0u ? 0u : j);
}

// Whether MASK's element e hides the key, else what is added. By its bits, since a plain device may
// have no infinities.
bool mask_hides(uint e, out float added)
{
    uint bits = mask_bits(e);
    added = mask_load(e);
    if (mask_dtype == DTYPE_F16)
        return bits == 0xfbffu || bits == 0xfc00u; // the lowest number, -infinity
    uint wide = mask_dtype == DTYPE_BF16 ? bits << 16 : bits;
    return wide >= 0xf149f2cau && wide <= 0xff800000u; // -1e30 to -infinity
}

// A row with the largest logit `top` and the sum of 2^(S - top), both over the visible keys: its sink
// joins them. Returns what its output is multiplied by.
float row_factor(uint h, inout float top, inout float sum)
{
    bool none = top < HIDDEN_BELOW;
    if (none)
        sum = 0.0;
    float shrink = 1.0;
    if (has_view(VIEW_SINKS)) {
        uint e = sinks_at(0u, 0u, 0u) + h;
        float sink = LOG2_E * sinks_load(e);
        if (sink > HIDDEN_BELOW) {
            float largest = none ? sink : max(top, sink);
            shrink = none ? 0.0 : exp2(top - largest);
            sum = sum * shrink + exp2(sink - largest);
            top = largest;
            none = false;
        }
    }
    return none ? 0.0 : shrink / sum;
}

// `b` and `a` as query_place gives them, `top` and `sum` as row_factor leaves them.
void store_lse(uint b, uint h, uint a, float top, float sum)
{
    bool none = top < HIDDEN_BELOW;
    uint bits = none ? 0xff800000u : floatBitsToUint(LN_2 * (top + log2(sum)));
    lse_store_bits(lse_at(0u, b, h) + a, bits);
}
