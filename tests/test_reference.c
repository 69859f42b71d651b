/* The double-precision reference against numbers that were not made by it: worked by hand from the
 * definitions, or in 60 decimal digits with another program.
 */
#include "reference.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void check(const char *what, double got, double want, double bound)
{
    cr_assert(fabs(got - want) <= bound, "%s: wanted %.17g, got %.17g, bound %g", what, want, got,
              bound);
}

static void check_all(const char *what, const double *got, const double *want, size_t count,
                      double bound)
{
    char text[96];
    size_t i;

    for (i = 0; i < count; i++) {
        snprintf(text, sizeof text, "%s, element %zu", what, i);
        check(text, got[i], want[i], bound);
    }
}

static const double eight[8] = {2, -1, .5, 3, 1, -2, 4, -.5};

Test(reference, both_pairings_give_the_hand_values_at_position_7)
{
    static const double half[8] = {0.850818, 0.523593,  0.219004, 3.003426,
                                   2.067875, -2.173902, 4.025175, -0.478988};
    static const double interleaved[8] = {2.164791, 0.560071,  -1.550232, 2.616635,
                                          1.137437, -1.925159, 4.003402,  -0.471988};
    const int32_t position = 7;
    ref_rope rope;
    double y[8], back[8];

    ref_rope_init(&rope, 8);
    cr_assert_eq(ref_rotate(&rope, 1, 1, 1, 8, &position, 0, eight, y), 0);
    check_all("half", y, half, 8, 6e-7);
    cr_assert_eq(ref_rotate(&rope, 1, 1, 1, 8, &position, 1, y, back), 0);
    check_all("half, there and back", back, eight, 8, 1e-14);
    rope.pairing = REF_PAIRING_INTERLEAVED;
    cr_assert_eq(ref_rotate(&rope, 1, 1, 1, 8, &position, 0, eight, y), 0);
    check_all("interleaved", y, interleaved, 8, 6e-7);
}

Test(reference, a_window_turns_and_the_other_channels_are_copied)
{
    const int32_t position = 5;
    const double c = cos(5.0), s = sin(5.0), c2 = cos(5.0 / 100.0), s2 = sin(5.0 / 100.0);
    /* rotary_dim 4 at channel 3: frequencies 1 and 10000^(-2/4) = 1/100. */
    const double want[8] = {2,
                            -1,
                            .5,
                            3 * (3 * c - -2 * s),
                            3 * (1 * c2 - 4 * s2),
                            3 * (3 * s + -2 * c),
                            3 * (1 * s2 + 4 * c2),
                            -.5};
    ref_rope rope;
    double y[8];

    ref_rope_init(&rope, 4);
    rope.rotary_offset = 3;
    rope.magnitude = 3.0;
    cr_assert_eq(ref_rotate(&rope, 1, 1, 1, 8, &position, 0, eight, y), 0);
    check_all("window of 4 at 3", y, want, 8, 1e-14);
    memcpy(y, eight, sizeof y);
    cr_assert_eq(ref_rotate(&rope, 1, 1, 1, 8, &position, 0, y, y), 0);
    check_all("the same in place", y, want, 8, 1e-14);
}

Test(reference, batches_heads_and_rows_find_their_own_positions)
{
    enum { BATCH = 2, HEADS = 3, ROWS = 2 };
    static const int32_t positions[BATCH * ROWS] = {0, 3, -4, 1000};
    double x[BATCH * HEADS * ROWS * 2], y[BATCH * HEADS * ROWS * 2];
    ref_rope rope;
    int b, h, l;

    for (b = 0; b < BATCH * HEADS * ROWS; b++) {
        x[2 * b] = b + 1;
        x[2 * b + 1] = 0;
    }
    ref_rope_init(&rope, 2);
    cr_assert_eq(ref_rotate(&rope, BATCH, HEADS, ROWS, 2, positions, 0, x, y), 0);
    for (b = 0; b < BATCH; b++) {
        for (h = 0; h < HEADS; h++) {
            for (l = 0; l < ROWS; l++) {
                const int row = (b * HEADS + h) * ROWS + l;
                const double p = positions[b * ROWS + l];
                check("cosine side", y[2 * row], (row + 1) * cos(p), 1e-13);
                check("sine side", y[2 * row + 1], (row + 1) * sin(p), 1e-13);
            }
        }
    }
}

typedef struct angle_row {
    int64_t position;
    double base;
    uint32_t rotary_dim;
    uint32_t i;
    double factor;
    double cosine;
    double sine;
} angle_row;

Test(reference, angles_are_exact_up_to_the_last_position)
{
    /* Frequency 1 (i = 0), then others; 20 digits of a 60-digit computation. */
    static const angle_row rows[] = {
        {15962, 10000, 8, 0, 1, -0.9080159012510319956, 0.41893570279372956732},
        {15968, 10000, 8, 0, 1, -0.75479276007786674864, 0.6559633292601316473},
        {131071, 10000, 8, 0, 1, -0.81798349938794908071, -0.57524168375478937114},
        {1048575, 10000, 8, 0, 1, 0.78804223952892746867, -0.61562117305875088409},
        {16777217, 10000, 8, 0, 1, 0.99438396391365223977, 0.10583256734754363973},
        {2147483647, 10000, 8, 0, 1, -0.68883669187794383468, -0.72491655514455639055},
        {2147483647, 10000, 128, 1, 1, -0.98149202004305494233, -0.19150304068552915631},
        {2147483647, 10000, 128, 17, 1, 0.9449257727348857425, 0.32728471400506785712},
        {-2147483648LL, 500000, 128, 3, 1, -0.29334270437375300863, 0.95600735237271734463},
        {2147483647, 8000000, 256, 100, 4, -0.52808708526072774709, -0.84919022037516945432},
        {1048575, 10000, 64, 5, 8, 0.63875140874450553845, -0.76941317757555310377},
        {2147483647, 1000000, 6, 1, 1, -0.71281749206127888096, 0.7013495726180123791},
    };
    double cosines[128], sines[128];
    ref_rope rope;
    size_t k;

    for (k = 0; k < sizeof rows / sizeof *rows; k++) {
        ref_rope_init(&rope, rows[k].rotary_dim);
        rope.base = rows[k].base;
        rope.factor = rows[k].factor;
        cr_assert_eq(ref_rope_angles(&rope, rows[k].position, cosines, sines), 0);
        check("cosine", cosines[rows[k].i], rows[k].cosine, 1e-15);
        check("sine", sines[rows[k].i], rows[k].sine, 1e-15);
    }
}

Test(reference, frequencies_are_those_of_the_definition)
{
    static const double list[2] = {0.25, 0.0};
    double f[128], cosines[2], sines[2];
    ref_rope rope;

    ref_rope_init(&rope, 128);
    cr_assert_eq(ref_rope_frequencies(&rope, f), 0);
    check("pair 0", f[0], 1.0, 0.0);
    check("pair 1", f[1], 0.86596432336006535235, 1.2e-16);
    check("pair 32", f[32], 0.01, 1.8e-18);
    ref_rope_init(&rope, 256);
    rope.base = 8000000;
    rope.factor = 4;
    cr_assert_eq(ref_rope_frequencies(&rope, f), 0);
    check("pair 100 of base 8e6, factor 4", f[100], 1.0113487833269150084e-6, 2.2e-22);
    ref_rope_init(&rope, 4);
    rope.inv_freq = list;
    cr_assert_eq(ref_rope_angles(&rope, 2, cosines, sines), 0);
    check("listed 0.25", sines[0], sin(0.5), 1e-16);
    check("listed 0", cosines[1], 1.0, 0.0);
}

Test(reference, ropes_outside_their_domain_are_refused)
{
    const int32_t position = 1;
    double y[8] = {9, 9, 9, 9, 9, 9, 9, 9};
    ref_rope rope;

    ref_rope_init(&rope, 7);
    cr_assert_eq(ref_rotate(&rope, 1, 1, 1, 8, &position, 0, eight, y), -1);
    ref_rope_init(&rope, 0);
    cr_assert_eq(ref_rotate(&rope, 1, 1, 1, 8, &position, 0, eight, y), -1);
    ref_rope_init(&rope, 8);
    rope.rotary_offset = 1;
    cr_assert_eq(ref_rotate(&rope, 1, 1, 1, 8, &position, 0, eight, y), -1);
    ref_rope_init(&rope, 8);
    rope.base = -1;
    cr_assert_eq(ref_rotate(&rope, 1, 1, 1, 8, &position, 0, eight, y), -1);
    ref_rope_init(&rope, 8);
    rope.factor = 0;
    cr_assert_eq(ref_rope_frequencies(&rope, y), -1);
    check("nothing is written", y[0], 9, 0);
}

/* ------------------------------------------------------------------------------------------------
 * Attention
 */
Test(reference, query_heads_share_key_heads_in_groups)
{
    /* 4 query heads over 2 key/value heads, V = 1 and 2. */
    static const double q[4] = {1, 2, 3, 4}, k[2 * 3] = {1, 2, 3, 4, 5, 6};
    static const double v[2 * 3] = {1, 1, 1, 2, 2, 2}, want[4] = {1, 1, 2, 2};
    double o[4];
    ref_attention t;

    ref_attention_init(&t, 1, 4, 1, 3, 1);
    t.kv_heads = 2;
    t.q = q;
    t.k = k;
    t.v = v;
    t.o = o;
    cr_assert_eq(ref_attend(&t), 0);
    check_all("output", o, want, 4, 1e-15);
    t.heads = 5;
    cr_assert_eq(ref_attend(&t), -1, "5 query heads over 2 key heads must be refused");
}

Test(reference, softmax_of_a_scored_row_is_the_hand_value)
{
    /* Logits 0.5 * (0, 1, 2, 3): the weights of slope 0.5 over four keys. */
    static const double q[2] = {1, 0}, k[8] = {0, 5, 1, 5, 2, 5, 3, 5};
    static const double want[4] = {0.101536, 0.167405, 0.276004, 0.455054};
    double v[16] = {0}, o[4], scores[4], lse;
    ref_attention t;
    int j;

    for (j = 0; j < 4; j++)
        v[j * 4 + j] = 1;
    ref_attention_init(&t, 1, 1, 1, 4, 2);
    t.value_dim = 4;
    t.scale = 0.5;
    t.q = q;
    t.k = k;
    t.v = v;
    t.o = o;
    t.scores = scores;
    t.lse = &lse;
    cr_assert_eq(ref_attend(&t), 0);
    check_all("weights", o, want, 4, 6e-7);
    check("score of key 3", scores[3], 1.5, 0);
    check("lse", lse, log(1 + exp(.5) + exp(1) + exp(1.5)), 1e-15);
    check("default scale", (ref_attention_init(&t, 1, 1, 1, 4, 16), t.scale), 0.25, 0);
}

#define KEYS 6

/* V counts in binary: with equal logits the output says which keys were seen. Bit j of the result.
 */
static unsigned seen_by(ref_attention t, uint32_t batch, uint32_t row)
{
    double q[2 * 4] = {0}, k[2 * KEYS] = {0}, v[2 * KEYS * KEYS] = {0}, o[2 * 4 * KEYS];
    unsigned bits = 0, count = 0, b, j;

    for (b = 0; b < t.batch; b++)
        for (j = 0; j < KEYS; j++)
            v[(b * KEYS + j) * KEYS + j] = 1;
    t.q = q;
    t.k = k;
    t.v = v;
    t.o = o;
    t.value_dim = KEYS;
    for (j = 0; j < 2 * 4 * KEYS; j++)
        o[j] = (double)NAN;
    cr_assert_eq(ref_attend(&t), 0);
    for (j = 0; j < KEYS; j++) {
        const double weight = o[(batch * t.q_rows + row) * KEYS + j];
        if (isnan(weight))
            return 0xffff;
        bits |= (weight > 0 ? 1u : 0u) << j;
        count += weight > 0;
    }
    for (j = 0; j < KEYS; j++)
        if ((bits >> j & 1) != 0)
            check("weight", o[(batch * t.q_rows + row) * KEYS + j], 1.0 / count, 1e-15);
    return bits;
}

Test(reference, causal_by_index_is_bottom_right_unless_an_offset_says_otherwise)
{
    ref_attention t;

    ref_attention_init(&t, 1, 1, 3, KEYS, 1);
    cr_expect_eq(seen_by(t, 0, 0), 0x3f, "not causal: all keys");
    t.causal = 1;
    cr_expect_eq(seen_by(t, 0, 0), 0x0f, "bottom-right, row 0");
    cr_expect_eq(seen_by(t, 0, 2), 0x3f, "bottom-right, row 2");
    t.q_offset = 0;
    cr_expect_eq(seen_by(t, 0, 0), 0x01, "top-left, row 0");
    cr_expect_eq(seen_by(t, 0, 2), 0x07, "top-left, row 2");
    t.q_offset = -2;
    cr_expect_eq(seen_by(t, 0, 1), 0x00, "an offset of -2 leaves row 1 empty, which is zeros");
    cr_expect_eq(seen_by(t, 0, 2), 0x01, "and row 2 one key");
}

Test(reference, windows_limit_both_sides)
{
    static const int32_t positions_q[3] = {10, 20, 11}, positions_k[KEYS] = {12, 9, 10, 30, 8, 11};
    ref_attention t;

    ref_attention_init(&t, 1, 1, 3, KEYS, 1);
    t.q_offset = 2;
    t.window_left = 2;
    cr_expect_eq(seen_by(t, 0, 0), 0x3e, "index: at 2, left 2 counts itself: from key 1");
    t.window_right = 1;
    cr_expect_eq(seen_by(t, 0, 0), 0x0e, "index: right 1: keys 1, 2, 3");
    t.window_right = 0;
    cr_expect_eq(seen_by(t, 0, 2), 0x18, "index: at 4, keys 3 and 4");
    t.causal = 1;
    t.window_right = 5;
    cr_expect_eq(seen_by(t, 0, 2), 0x18, "index: causal is a right side of 0");
    t.order = REF_ORDER_POSITION;
    t.positions_q = positions_q;
    t.positions_k = positions_k;
    cr_expect_eq(seen_by(t, 0, 0), 0x06, "position 10: 9 and 10");
    cr_expect_eq(seen_by(t, 0, 1), 0x00, "position 20: none within 2");
    t.causal = 0;
    cr_expect_eq(seen_by(t, 0, 0), 0x27, "position 10, right 5: 9 to 15");
    t.window_left = REF_NO_WINDOW;
    t.window_right = REF_NO_WINDOW;
    t.causal = 1;
    cr_expect_eq(seen_by(t, 0, 2), 0x36, "position 11: 9, 10, 8, 11");
}

Test(reference, lengths_and_offsets_of_each_batch_hold)
{
    static const int32_t k_lengths[2] = {4, 6}, q_lengths[2] = {2, 4}, offsets[2] = {REF_UNSET, 1};
    ref_attention t;

    ref_attention_init(&t, 2, 1, 4, KEYS, 1);
    t.causal = 1;
    t.k_lengths = k_lengths;
    t.q_lengths = q_lengths;
    cr_expect_eq(seen_by(t, 0, 0), 0x07, "batch 0: 4 keys, 2 rows: offset 2");
    cr_expect_eq(seen_by(t, 0, 1), 0x0f, "batch 0, last row");
    cr_expect_eq(seen_by(t, 0, 2), 0xffff, "batch 0: rows beyond its length stay as they were");
    cr_expect_eq(seen_by(t, 1, 0), 0x07, "batch 1: 6 keys, 4 rows: offset 2");
    cr_expect_eq(seen_by(t, 1, 3), 0x3f, "batch 1, last row");
    t.q_offsets = offsets;
    cr_expect_eq(seen_by(t, 0, 0), 0x07, "batch 0: its offset is unset");
    cr_expect_eq(seen_by(t, 1, 0), 0x03, "batch 1: offset 1");
    t.q_offset = 0;
    cr_expect_eq(seen_by(t, 0, 0), 0x01, "batch 0: unset takes the common offset");
    t.causal = 0;
    cr_expect_eq(seen_by(t, 0, 0), 0x0f, "not causal: k_length still holds");
}

Test(reference, masked_keys_are_not_read)
{
    const double nan = (double)NAN;
    const double q[2] = {1, 1}, k[4] = {1, 2, nan, nan}, v[4] = {3, 4, nan, nan};
    const int32_t k_length = 3;
    double o[2], lse[2];
    ref_attention t;

    ref_attention_init(&t, 1, 1, 2, 4, 1);
    t.causal = 1;
    t.q_offset = 0;
    t.k_lengths = &k_length;
    t.q = q;
    t.k = k;
    t.v = v;
    t.o = o;
    t.lse = lse;
    cr_assert_eq(ref_attend(&t), 0);
    check("row 0", o[0], 3, 0);
    check("row 1", o[1], (3 + 4 * exp(1)) / (1 + exp(1)), 1e-15);
    t.q_offset = -5;
    cr_assert_eq(ref_attend(&t), 0);
    check("an empty row is zero", o[0], 0, 0);
    cr_assert(isinf(lse[0]) && lse[0] < 0, "its lse is -infinity, got %g", lse[0]);
}

Test(reference, queries_rotate_inside_at_their_positions)
{
    /* q.k after rotation by 3 and 1 is that of an angle of 2. */
    static const int32_t position_k = 1, position_q = 3;
    const double x[2] = {1, 0}, v = 1;
    double k[2], score;
    ref_rope rope;
    ref_attention t;

    ref_rope_init(&rope, 2);
    cr_assert_eq(ref_rotate(&rope, 1, 1, 1, 2, &position_k, 0, x, k), 0);
    ref_attention_init(&t, 1, 1, 1, 1, 2);
    t.scale = 1;
    t.rotary = &rope;
    t.q = x;
    t.k = k;
    t.v = &v;
    t.value_dim = 1;
    t.scores = &score;
    t.positions_q = &position_q;
    cr_assert_eq(ref_attend(&t), 0);
    check("at its position", score, cos(2.0), 1e-15);
    t.positions_q = NULL;
    t.q_offset = 6;
    cr_assert_eq(ref_attend(&t), 0);
    check("at a + q_offset", score, cos(5.0), 1e-15);
    t.q_offset = REF_UNSET;
    cr_assert_eq(ref_attend(&t), 0);
    check("at k_length - q_length = 0", score, cos(1.0), 1e-15);
    rope.rotary_dim = 4;
    cr_assert_eq(ref_attend(&t), -1);
}

/* ------------------------------------------------------------------------------------------------
 * Numbers of 16 bits
 */
Test(reference, every_half_number_goes_there_and_back)
{
    uint32_t bits;

    for (bits = 0; bits < 65536; bits++) {
        const double f16 = ref_double_from_f16((uint16_t)bits);
        const double bf16 = ref_double_from_bf16((uint16_t)bits);
        const uint32_t widened = bits << 16;
        float f32;

        memcpy(&f32, &widened, sizeof f32);
        if (isnan(f16))
            cr_assert((bits & 0x7fff) > 0x7c00 && (ref_f16_from_double(f16) & 0x7fff) > 0x7c00);
        else
            cr_assert_eq(ref_f16_from_double(f16), bits, "f16 %04x: got %04x", bits,
                         ref_f16_from_double(f16));
        cr_assert_eq(isnan(bf16) != 0, isnan(f32) != 0);
        if (!isnan(bf16)) {
            cr_assert(bf16 == (double)f32, "bf16 %04x is the upper half of a float", bits);
            cr_assert_eq(ref_bf16_from_double(bf16), bits, "bf16 %04x: got %04x", bits,
                         ref_bf16_from_double(bf16));
        }
    }
}

typedef struct narrow_row {
    double value;
    uint16_t f16;
    uint16_t bf16;
} narrow_row;

Test(reference, narrowing_rounds_once_to_nearest_even)
{
    static const narrow_row rows[] = {
        {0.0, 0x0000, 0x0000},
        {-0.0, 0x8000, 0x8000},
        {1.0, 0x3c00, 0x3f80},
        {-2.0, 0xc000, 0xc000},
        {1.0 + 0x1p-11, 0x3c00, 0x3f80},           /* f16 tie to even, down */
        {1.0 + 0x3p-11, 0x3c02, 0x3f80},           /* f16 tie to even, up */
        {1.0 + 0x1p-11 + 0x1p-40, 0x3c01, 0x3f80}, /* above the tie by less than a float holds */
        {1.0 + 0x1p-8, 0x3c04, 0x3f80},            /* bf16 tie to even, down */
        {1.0 + 0x3p-8, 0x3c0c, 0x3f82},            /* bf16 tie to even, up */
        {1.0 + 0x1p-8 + 0x1p-40, 0x3c04, 0x3f81},
        {65504.0, 0x7bff, 0x4780},
        {65519.9, 0x7bff, 0x4780},
        {65520.0, 0x7c00, 0x4780},
        {-1e5, 0xfc00, 0xc7c3},
        {0x1p-24, 0x0001, 0x3380},
        {0x1p-25, 0x0000, 0x3300},
        {0x1.0001p-25, 0x0001, 0x3300},
        {0x1.8p-24, 0x0002, 0x33c0},
        {0x1.ffcp-15, 0x0400, 0x3880}, /* rounds up into the normal numbers */
        {1e-60, 0x0000, 0x0000},
        {0x1p-133, 0x0000, 0x0001},
        {0x1p-134, 0x0000, 0x0000},
        {0x1.8p-133, 0x0000, 0x0002},
        {5e-324, 0x0000, 0x0000},
        {1e300, 0x7c00, 0x7f80},
        {0x1.ffp127, 0x7c00, 0x7f80}, /* half above the largest bf16 */
        {0x1.fep127, 0x7c00, 0x7f7f},
    };
    size_t i;

    for (i = 0; i < sizeof rows / sizeof *rows; i++) {
        cr_expect_eq(ref_f16_from_double(rows[i].value), rows[i].f16, "f16 of %a: %04x, got %04x",
                     rows[i].value, rows[i].f16, ref_f16_from_double(rows[i].value));
        cr_expect_eq(ref_bf16_from_double(rows[i].value), rows[i].bf16,
                     "bf16 of %a: %04x, got %04x", rows[i].value, rows[i].bf16,
                     ref_bf16_from_double(rows[i].value));
    }
    cr_expect_eq(ref_f16_from_double((double)INFINITY), 0x7c00);
    cr_expect_eq(ref_bf16_from_double(-(double)INFINITY), 0xff80);
}
