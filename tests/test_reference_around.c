/* Caps, sinks, chunks, kept keys and factors of rows in the reference, against hand values. */
#include "reference_checks.h"
#include "relative.h"

#include <criterion/criterion.h>
#include <math.h>

/* ------------------------------------------------------------------------------------------------
 * Softcap
 */
Test(around, a_cap_comes_after_the_scale)
{
    static const double q = 10, k = 8;
    ref_attention t;
    double score;

    ref_attention_init(&t, 1, 1, 1, 1, 1);
    t.q = &q;
    t.k = &k;
    t.scores = &score;
    t.scale = 0.125;
    t.softcap = 5;
    cr_assert_eq(ref_attend(&t), 0);
    check("5 tanh(10 / 5)", score, 4.820137900, 5e-10);
    t.softcap = (double)INFINITY;
    cr_assert_eq(ref_attend(&t), 0);
    check("no cap", score, 10.0, 0.0);
    t.softcap = 0;
    cr_assert_eq(ref_attend(&t), 0);
    check("no cap either", score, 10.0, 0.0);
    t.softcap = -1;
    cr_assert_eq(ref_attend(&t), -1);
}

Test(around, a_bias_is_capped_unless_it_is_asked_to_come_after)
{
    static const double q = 20, k = 1, slope = 5;
    const ref_alibi alibi = {REF_ALIBI_RELATIVE, &slope, NULL, NULL, 0, 0};
    ref_alibi inside = alibi;
    ref_attention t;
    ref_terms terms;
    double score;

    ref_attention_init(&t, 1, 1, 1, 1, 1);
    t.q = &q;
    t.k = &k;
    t.scores = &score;
    t.scale = 0.5;
    t.softcap = 50;
    t.q_offset = -1;
    t.terms = &terms;
    cr_assert_eq(ref_alibi_terms(&alibi, &terms), 0);
    cr_assert_eq(ref_attend(&t), 0);
    check("50 tanh(15 / 50)", score, 14.565631, 5e-7);
    t.bias_after_softcap = 1;
    cr_assert_eq(ref_attend(&t), 0);
    check("50 tanh(10 / 50) + 5", score, 14.868766, 5e-7);
    inside.inside = 1;
    cr_assert_eq(ref_alibi_terms(&inside, &terms), 0);
    cr_assert_eq(ref_attend(&t), 0);
    check("50 tanh(10 / 50) + 2.5", score, 12.368766, 5e-7);
    t.bias_after_softcap = 0;
    cr_assert_eq(ref_attend(&t), 0);
    check("50 tanh(12.5 / 50)", score, 50 * tanh(.25), 1e-14);
}

Test(around, the_mask_comes_after_the_cap)
{
    static const double q = 0, k[2] = {0, 0}, v[4] = {1, 0, 0, 1};
    double mask[2] = {0, -(double)INFINITY}, o[2];
    ref_attention t;

    ref_attention_init(&t, 1, 1, 1, 2, 1);
    t.value_dim = 2;
    t.q = &q;
    t.k = k;
    t.v = v;
    t.o = o;
    t.softcap = 5;
    t.mask = mask;
    t.mask_shape[0] = t.mask_shape[1] = t.mask_shape[2] = 1;
    t.mask_shape[3] = 2;
    cr_assert_eq(ref_attend(&t), 0);
    check("the key that is there", o[0], 1.0, 0.0);
    check("the hidden key", o[1], 0.0, 0.0);
    mask[1] = 100;
    cr_assert_eq(ref_attend(&t), 0);
    check("an element of 100 is not capped", o[0], exp(-100.0), 1e-55);
}

/* ------------------------------------------------------------------------------------------------
 * Sinks
 */
typedef struct sink_row {
    uint32_t keys;
    double sink;
    double weight; /* of all keys together */
} sink_row;

Test(around, a_sink_takes_weight_and_has_no_value)
{
    static const sink_row rows[] = {
        {4, .5, 0.708124867}, {1, 2, 0.119202922}, {16, -1, 0.977524307}, {3, 100, 1.116e-43}};
    const double zeros[16] = {0};
    double ones[16], o, lse;
    ref_attention t;
    size_t i;

    for (i = 0; i < 16; i++)
        ones[i] = 1;
    for (i = 0; i < sizeof rows / sizeof *rows; i++) {
        ref_attention_init(&t, 1, 1, 1, rows[i].keys, 1);
        t.q = zeros;
        t.k = zeros;
        t.v = ones;
        t.sinks = &rows[i].sink;
        t.o = &o;
        t.lse = &lse;
        cr_assert_eq(ref_attend(&t), 0);
        check("n / (n + e^s)", o, rows[i].weight, 5e-10);
        check("LSE", lse, log(rows[i].keys + exp(rows[i].sink)), 1e-14);
    }
    check("LSE of a sink of 100", lse, 100.0, 1e-14);
}

Test(around, a_row_without_keys_has_the_sink_alone)
{
    static const double zeros[4] = {0}, sinks[2] = {100, -3};
    static const int32_t none = 0;
    double o[2] = {1, 1}, lse[2];
    ref_attention t;

    ref_attention_init(&t, 1, 2, 1, 2, 1);
    t.kv_heads = 1;
    t.q = zeros;
    t.k = zeros;
    t.v = zeros;
    t.k_lengths = &none;
    t.sinks = sinks;
    t.o = o;
    t.lse = lse;
    cr_assert_eq(ref_attend(&t), 0);
    check_all("O", o, zeros, 2, 0.0);
    check_all("LSE", lse, sinks, 2, 0.0);
    t.sinks = NULL;
    cr_assert_eq(ref_attend(&t), 0);
    check("LSE without sinks", lse[1], -(double)INFINITY, 0.0);
}

/* ------------------------------------------------------------------------------------------------
 * Chunks and kept keys
 */

/* Keys 0 ... 7 that a row sees, bit j for key j. */
static unsigned seen_by(const ref_attention *t, uint32_t a)
{
    unsigned bits = 0;
    uint32_t j;

    for (j = 0; j < 8; j++)
        bits |= (unsigned)ref_sees(t, 0, 0, a, j) << j;
    return bits;
}

Test(around, a_chunk_is_a_block_of_positions_aligned_to_zero)
{
    static const int32_t positions_q[3] = {-1, 0, 5};
    static const int32_t positions_k[8] = {-4, -3, -1, 0, 2, 3, 5, 6};
    ref_attention t;

    ref_attention_init(&t, 1, 1, 8, 8, 1);
    t.chunk = 3;
    cr_expect_eq(seen_by(&t, 0), 0x07);
    cr_expect_eq(seen_by(&t, 2), 0x07);
    cr_expect_eq(seen_by(&t, 3), 0x38);
    cr_expect_eq(seen_by(&t, 7), 0xc0);
    t.causal = 1;
    cr_expect_eq(seen_by(&t, 3), 0x08);
    cr_expect_eq(seen_by(&t, 5), 0x38);
    t.q_offset = -2;
    cr_expect_eq(seen_by(&t, 1), 0x00, "position -1 is of the chunk before key 0");
    cr_expect_eq(seen_by(&t, 2), 0x01);
    t.q_rows = 3;
    t.order = REF_ORDER_POSITION;
    t.positions_q = positions_q;
    t.positions_k = positions_k;
    t.causal = 0;
    cr_expect_eq(seen_by(&t, 0), 0x06, "-3 to -1");
    cr_expect_eq(seen_by(&t, 1), 0x18, "0 to 2");
    cr_expect_eq(seen_by(&t, 2), 0x60, "3 to 5");
    t.chunk = REF_NO_WINDOW;
    cr_expect_eq(seen_by(&t, 2), 0xff);
}

Test(around, kept_keys_stay_beyond_the_window_and_the_chunk_and_nothing_else)
{
    static const int32_t positions_q[1] = {100}, positions_k[8] = {-1, 0, 1, 2, 99, 100, 101, 1};
    ref_attention t;

    ref_attention_init(&t, 1, 1, 8, 8, 1);
    t.causal = 1;
    t.window_left = 2;
    t.kept_keys = 3;
    cr_expect_eq(seen_by(&t, 0), 0x01, "a later one is not seen: causal");
    cr_expect_eq(seen_by(&t, 2), 0x07);
    cr_expect_eq(seen_by(&t, 6), 0x67);
    t.window_left = REF_NO_WINDOW;
    t.chunk = 4;
    cr_expect_eq(seen_by(&t, 5), 0x37);
    t.causal = 0;
    t.window_right = 0;
    cr_expect_eq(seen_by(&t, 0), 0x01, "nor by a window's right side");
    t.window_right = REF_NO_WINDOW;
    cr_expect_eq(seen_by(&t, 7), 0xf7);
    t.kept_keys = 6;
    cr_expect_eq(seen_by(&t, 3), 0x0f, "nor in a chunk that has not begun");
    cr_expect_eq(seen_by(&t, 4), 0xff);
    t.kept_keys = 3;
    t.q_rows = 1;
    t.order = REF_ORDER_POSITION;
    t.positions_q = positions_q;
    t.positions_k = positions_k;
    t.window_left = 2;
    t.chunk = 0;
    cr_expect_eq(seen_by(&t, 0), 0xfe, "by position: 0, 1 and 2, wherever they lie, never -1");
    t.kept_keys = -1;
    cr_expect_eq(ref_attend(&t), -1);
}

/* ------------------------------------------------------------------------------------------------
 * Factors of rows
 */
Test(around, a_row_of_queries_has_its_factor_before_anything_is_added)
{
    static const double q[4] = {1, 2, 3, 4}, k = 1, u[2] = {10, 20}, factors[4] = {2, 1, .5, 0};
    static const double want[4] = {2, 2, 1.5, 0}, with_u[4] = {12, 12, 21.5, 20};
    ref_attention t;
    ref_terms terms;
    double scores[4];

    ref_attention_init(&t, 1, 2, 2, 1, 1);
    t.kv_heads = 1;
    t.q = q;
    t.k = &k;
    t.scores = scores;
    t.row_scale = factors;
    cr_assert_eq(ref_attend(&t), 0);
    check_all("factors", scores, want, 4, 0.0);
    ref_terms_init(&terms);
    terms.u = u;
    t.terms = &terms;
    cr_assert_eq(ref_attend(&t), 0);
    check_all("beside u", scores, with_u, 4, 0.0);
}
