/* Scalar terms, masks and tables of sinusoids of the reference, against hand values.
 */
#include "reference_checks.h"
#include "relative.h"

#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

/* ------------------------------------------------------------------------------------------------
 * Scalars
 */
Test(terms, alibi_forms_and_kerple_give_the_hand_values)
{
    static const double slopes[2] = {.5, .25}, right[2] = {2, 4}, r1[2] = {1, 2}, r2[2] = {.5, 1};
    static const int32_t positions[3] = {0, 0, 1};
    static const double symmetric[6] = {-.5, 0, -2, -.25, 0, -4};
    static const double last[6] = {-1, -.5, 0, -.5, -.25, 0};
    static const double key[6] = {0, .5, 1, 0, .25, .5};
    static const double mask[6] = {0, 0, .5, 0, 0, .25};
    const ref_kerple kerple = {2, r1, r2};
    const double of_kerple[6] = {-log(1.5), 0, -log(1.5), -2 * log(2.0), 0, -2 * log(2.0)};
    const ref_kerple negative = {2, slopes, (const double[2]){1, -1}};
    ref_alibi a = {REF_ALIBI_SYMMETRIC, slopes, right, NULL, 0, 0};
    ref_terms terms;
    double bias[6];

    /* One query at position 1 of three keys. */
    cr_assert_eq(ref_alibi_terms(&a, &terms), 0);
    cr_assert_eq(ref_bias(&terms, 2, 1, 3, 1, bias), 0);
    check_all("symmetric, two slopes", bias, symmetric, 6, 0.0);
    a.slopes_right = NULL;
    a.form = REF_ALIBI_LAST_KEY;
    cr_assert_eq(ref_bias(&terms, 2, 1, 3, 1, bias), 0);
    check_all("last key", bias, last, 6, 0.0);
    a.form = REF_ALIBI_KEY_INDEX;
    cr_assert_eq(ref_bias(&terms, 2, 1, 3, 1, bias), 0);
    check_all("key index", bias, key, 6, 0.0);
    a.form = REF_ALIBI_KEY_POSITION;
    cr_expect_eq(ref_alibi_terms(&a, &terms), -1, "without positions");
    a.positions = positions;
    a.k_rows = 3;
    cr_assert_eq(ref_alibi_terms(&a, &terms), 0);
    cr_assert_eq(ref_bias(&terms, 2, 1, 3, 1, bias), 0);
    check_all("key position", bias, mask, 6, 0.0);
    cr_assert_eq(ref_kerple_terms(&kerple, &terms), 0);
    cr_assert_eq(ref_bias(&terms, 2, 1, 3, 1, bias), 0);
    check_all("kerple", bias, of_kerple, 6, 1e-15);
    cr_expect_eq(ref_kerple_terms(&negative, &terms), -1);
}

/* scale 1/2; q . k = 3; slope 1/2 at distance 2; T5 bias 4 of bucket 2, times 10, times a gate. */
Test(terms, biases_stand_outside_the_scale_unless_asked_and_t5_has_a_scale_and_a_gate)
{
    static const double q = 3, k[3] = {1, 1, 1}, slope = .5, gate = 1.5;
    double table[32] = {0}, scores[3];
    ref_alibi alibi = {REF_ALIBI_SYMMETRIC, &slope, NULL, NULL, 0, 0};
    ref_t5 t5 = {0, 32, 128, table, 10.0, &gate};
    ref_attention a;
    ref_terms terms;

    table[2] = 4;
    ref_attention_init(&a, 1, 1, 1, 3, 1);
    a.scale = .5;
    a.terms = &terms;
    a.q = &q;
    a.k = k;
    a.scores = scores;
    cr_assert_eq(ref_alibi_terms(&alibi, &terms), 0);
    cr_assert_eq(ref_attend(&a), 0);
    check("after the scale", scores[0], .5, 0.0);
    alibi.inside = 1;
    cr_assert_eq(ref_alibi_terms(&alibi, &terms), 0);
    cr_assert_eq(ref_attend(&a), 0);
    check("before the scale", scores[0], 1.0, 0.0);
    cr_assert_eq(ref_t5_terms(&t5, 1, &terms), 0);
    cr_assert_eq(ref_attend(&a), 0);
    check("scaled and gated", scores[0], 61.5, 0.0);
    check("bucket 1 holds 0", scores[1], 1.5, 0.0);
}

/* ------------------------------------------------------------------------------------------------
 * Masks, and tables of sinusoids
 */
Test(terms, additive_masks_hide_shift_and_leave_empty_rows_at_zero)
{
    static const double zeros[6] = {0}, v[3] = {1, 2, 4};
    const double hidden = -(double)INFINITY;
    const double by_row[6] = {0, hidden, -1e30, hidden, -2e30, hidden};
    const double by_head[6] = {0, 0, hidden, log(3.0), 0, hidden};
    ref_attention a;
    double o[4], lse[4], scores[12];

    ref_attention_init(&a, 1, 1, 2, 3, 1);
    a.q = a.k = zeros;
    a.v = v;
    a.o = o;
    a.lse = lse;
    a.scores = scores;
    a.mask = by_row;
    memcpy(a.mask_shape, (const uint32_t[4]){1, 1, 2, 3}, sizeof a.mask_shape);
    cr_assert_eq(ref_attend(&a), 0);
    check_all("by row", o, (const double[2]){1, 0}, 2, 0.0);
    check_all("by row, lse", lse, (const double[2]){0, hidden}, 2, 0.0);
    check_all("scores stand before the mask", scores, zeros, 6, 0.0);
    ref_attention_init(&a, 1, 2, 2, 3, 1);
    a.kv_heads = 1;
    a.q = a.k = zeros;
    a.v = v;
    a.o = o;
    a.mask = by_head;
    memcpy(a.mask_shape, (const uint32_t[4]){1, 2, 1, 3}, sizeof a.mask_shape);
    cr_assert_eq(ref_attend(&a), 0);
    check_all("by head", o, (const double[4]){1.5, 1.5, 1.25, 1.25}, 4, 1e-15);
    a.mask_shape[2] = 3;
    cr_expect_eq(ref_attend(&a), -1, "a shape that is not the rows'");
}

Test(terms, sinusoids_are_halves_or_interleaved_and_projected_by_either_layout)
{
    static const double eye[16] = {1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1};
    static const double weights[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    static const double transposed[8] = {1, 5, 2, 6, 3, 7, 4, 8};
    const double s = sin(3.0), c = cos(3.0), s2 = sin(.03), c2 = cos(.03);
    const double halves[4] = {s, s2, c, c2}, interleaved[4] = {s, c, s2, c2};
    const double products[2] = {s + 2 * s2 + 3 * c + 4 * c2, 5 * s + 6 * s2 + 7 * c + 8 * c2};
    double table[24], other[24];

    cr_assert_eq(ref_xl_project(1, 4, 4, eye, 0, 0, -1, 5, table), 0);
    check_all("halves", table + 16, halves, 4, 1e-15);
    check("minus one", table[0], -sin(1.0), 1e-15);
    cr_assert_eq(ref_xl_project(1, 4, 4, eye, 0, 1, 3, 1, table), 0);
    check_all("interleaved", table, interleaved, 4, 1e-15);
    cr_assert_eq(ref_xl_project(2, 1, 4, weights, 0, 0, 2, 2, table), 0);
    check("head 0", table[1], products[0], 1e-14);
    check("head 1", table[3], products[1], 1e-14);
    cr_assert_eq(ref_xl_project(2, 1, 4, transposed, 1, 0, 2, 2, other), 0);
    check_all("transposed", other, table, 4, 0.0);
    cr_expect_eq(ref_xl_project(1, 1, 3, eye, 0, 0, 0, 1, table), -1, "an odd width");
}

Test(terms, learned_rows_of_transformer_xl_repeat_the_first_and_stop_at_distance_zero)
{
    static const double table[3] = {10, 20, 30}, scalars[3] = {1, 2, 3};
    static const double q[1] = {2}, zeros[6] = {0};
    static const double want[5] = {21, 21, 42, 63, 0};
    const ref_xl xl = {.flip = UINT32_MAX,
                       .rows = 3,
                       .learned = 1,
                       .positions = {table, 0, 1},
                       .scalars = {scalars, 0, 1}};
    ref_attention a;
    ref_terms terms;
    double scores[5];

    cr_assert_eq(ref_xl_terms(&xl, &terms), 0);
    ref_attention_init(&a, 1, 1, 1, 5, 1);
    a.terms = &terms;
    a.q_offset = 3;
    a.q = q;
    a.k = zeros;
    a.scores = scores;
    cr_assert_eq(ref_attend(&a), 0);
    check_all("row rows-1 is distance 0", scores, want, 5, 0.0);
}

Test(terms, distances_follow_the_positions_where_the_order_does)
{
    static const int32_t at[2] = {4, 9}, of_keys[2] = {9, 1};
    static const double zeros[2] = {0}, slope = 1;
    static const double want[4] = {-5, -3, 0, -8};
    const ref_alibi alibi = {REF_ALIBI_SYMMETRIC, &slope, NULL, NULL, 0, 0};
    ref_attention a;
    ref_terms terms;
    double scores[4];

    cr_assert_eq(ref_alibi_terms(&alibi, &terms), 0);
    ref_attention_init(&a, 1, 1, 2, 2, 1);
    a.order = REF_ORDER_POSITION;
    a.positions_q = at;
    a.positions_k = of_keys;
    a.terms = &terms;
    a.q = a.k = zeros;
    a.scores = scores;
    cr_assert_eq(ref_attend(&a), 0);
    check_all("by position", scores, want, 4, 0.0);
}
