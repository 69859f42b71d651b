/* Attention with the terms of the relative schemes, in the reference, against numbers that were not
 * made by it: published examples, hand work, and sums written out here pair by pair.
 */
#include "reference_checks.h"
#include "relative.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Numbers in [-1, 1), the same on every machine. */
static void fill(double *x, size_t count, uint32_t seed)
{
    size_t i;

    for (i = 0; i < count; i++) {
        seed = seed * 1664525u + 1013904223u;
        x[i] = (double)(seed >> 8) / 8388608.0 - 1.0;
    }
}

/* ------------------------------------------------------------------------------------------------
 * Published examples
 */
Test(relative, alibi_weights_of_a_causal_row_are_the_published_ones)
{
    static const double want[4] = {0.101536, 0.167405, 0.276004, 0.455054};
    static const double zeros[4] = {0}, eye[16] = {1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1};
    const double slope = 0.5;
    static const ref_alibi_form forms[] = {REF_ALIBI_SYMMETRIC, REF_ALIBI_RELATIVE,
                                           REF_ALIBI_KEY_INDEX, REF_ALIBI_LAST_KEY};
    double o[16];
    size_t i;

    for (i = 0; i < sizeof forms / sizeof *forms; i++) {
        const ref_alibi alibi = {forms[i], &slope, NULL, NULL, 0, 0};
        ref_attention a;
        ref_terms terms;
        cr_assert_eq(ref_alibi_terms(&alibi, &terms), 0);
        ref_attention_init(&a, 1, 1, 4, 4, 1);
        a.value_dim = 4;
        a.causal = 1;
        a.terms = &terms;
        a.q = zeros;
        a.k = zeros;
        a.v = eye;
        a.o = o;
        cr_assert_eq(ref_attend(&a), 0);
        check_all("row 3", o + 12, want, 4, 5e-7);
    }
}

Test(relative, shaw_with_a_clip_of_two_gives_the_published_outputs)
{
    static const double want[4] = {1.317241, 0.624647, -0.375353, -1.179957};
    static const double ones[4] = {1, 1, 1, 1}, zeros[4] = {0};
    static const double keys[5] = {-.2, -.1, 0, .1, .2}, values[5] = {-2, -1, 0, 1, 2};
    static const double mirrored[5] = {.2, .1, 0, -.1, -.2}, back[5] = {2, 1, 0, -1, -2};
    ref_shaw shaw = {REF_SHAW_KEY_MINUS_QUERY, 2, 2, 0, keys, values, 0};
    ref_attention a;
    ref_terms terms;
    double o[4];

    cr_assert_eq(ref_shaw_terms(&shaw, 1, 1, &terms), 0);
    ref_attention_init(&a, 1, 1, 4, 4, 1);
    a.terms = &terms;
    a.q = ones;
    a.k = zeros;
    a.v = zeros;
    a.o = o;
    cr_assert_eq(ref_attend(&a), 0);
    check_all("key minus query", o, want, 4, 5e-7);
    shaw.index = REF_SHAW_QUERY_MINUS_KEY;
    shaw.keys = mirrored;
    shaw.values = back;
    cr_assert_eq(ref_shaw_terms(&shaw, 1, 1, &terms), 0);
    cr_assert_eq(ref_attend(&a), 0);
    check_all("query minus key with the rows in reverse", o, want, 4, 5e-7);
}

Test(relative, transformer_xl_logits_with_memory_are_the_published_ones)
{
    static const double q[4] = {1, 2, 3, -1}, k[6] = {1, 0, 0, 1, 1, 1}, r[6] = {1, 0, 0, 1, 1, 1};
    static const double u[2] = {.5, -.5}, w[2] = {.25, .75};
    static const double want[2][3] = {{3.005204, 1.944544, 0}, {4.596194, -1.237437, 3.712311}};
    const ref_xl xl = {.flip = UINT32_MAX, .rows = 3, .positions = {r, 0, 2}, .u = u, .w = w};
    ref_attention a;
    ref_terms terms;
    double scores[6];

    cr_assert_eq(ref_xl_terms(&xl, &terms), 0);
    ref_attention_init(&a, 1, 1, 2, 3, 2);
    a.terms = &terms;
    a.q = q;
    a.k = k;
    a.scores = scores;
    cr_assert_eq(ref_attend(&a), 0);
    check_all("row 0", scores, want[0], 2, 5e-7);
    check_all("row 1", scores + 3, want[1], 3, 5e-7);
}

/* A cached token reads the same logits as its row of the full pass. */
Test(relative, t5_decodes_a_token_with_the_logits_of_its_row)
{
    static const uint32_t tokens[] = {7, 8, 15, 16, 127, 128, 129};
    enum { LENGTH = 130, HEADS = 2, WIDTH = 4 };
    static double q[HEADS * LENGTH * WIDTH], k[HEADS * LENGTH * WIDTH], table[32 * HEADS];
    static double full[HEADS * LENGTH * LENGTH];
    int bidirectional;
    size_t i;

    fill(q, sizeof q / sizeof *q, 1);
    fill(k, sizeof k / sizeof *k, 2);
    fill(table, sizeof table / sizeof *table, 3);
    for (bidirectional = 0; bidirectional < 2; bidirectional++) {
        const ref_t5 t5 = {bidirectional, 32, 128, table, 1.0, NULL};
        ref_attention a;
        ref_terms terms;
        cr_assert_eq(ref_t5_terms(&t5, HEADS, &terms), 0);
        ref_attention_init(&a, 1, HEADS, LENGTH, LENGTH, WIDTH);
        a.scale = 1.0;
        a.terms = &terms;
        a.q = q;
        a.k = k;
        a.scores = full;
        cr_assert_eq(ref_attend(&a), 0);
        for (i = 0; i < sizeof tokens / sizeof *tokens; i++) {
            const uint32_t t = tokens[i];
            const int32_t length = (int32_t)t + 1;
            double one[HEADS * WIDTH], row[HEADS * LENGTH];
            uint32_t h;
            for (h = 0; h < HEADS; h++)
                memcpy(one + h * WIDTH, q + (h * LENGTH + t) * WIDTH, WIDTH * sizeof *one);
            ref_attention_init(&a, 1, HEADS, 1, LENGTH, WIDTH);
            a.scale = 1.0;
            a.k_lengths = &length;
            a.terms = &terms;
            a.q = one;
            a.k = k;
            a.scores = row;
            cr_assert_eq(ref_attend(&a), 0);
            for (h = 0; h < HEADS; h++)
                check_all("token", row + h * LENGTH, full + (h * LENGTH + t) * LENGTH, t + 1, 0.0);
        }
    }
}

/* ------------------------------------------------------------------------------------------------
 * Every scheme on one shape
 */
enum { B = 2, H = 3, LQ = 5, LK = 5, D = 4 };

typedef struct inputs {
    double q[B * H * LQ * D];
    double k[B * H * LK * D];
    double v[B * H * LK * D];
    double tables[4][H * 32 * D]; /* of any scheme: random, or zero */
    double vectors[3][H * D];
    int32_t segments[2][B * LQ];
} inputs;

static void make_inputs(inputs *x, int zero)
{
    size_t i;

    memset(x, 0, sizeof *x);
    fill(x->q, sizeof x->q / sizeof *x->q, 11);
    fill(x->k, sizeof x->k / sizeof *x->k, 12);
    fill(x->v, sizeof x->v / sizeof *x->v, 13);
    for (i = 0; !zero && i < 4; i++)
        fill(x->tables[i], H * 32 * D, 20 + (uint32_t)i);
    for (i = 0; !zero && i < 3; i++)
        fill(x->vectors[i], H * D, 30 + (uint32_t)i);
    for (i = 0; i < B * LQ; i++) {
        x->segments[0][i] = i % LQ > 2;
        x->segments[1][i] = i % LK > 1;
    }
}

static void attend(const inputs *x, const ref_terms *terms, double *scores, double *o)
{
    ref_attention a;

    ref_attention_init(&a, B, H, LQ, LK, D);
    a.terms = terms;
    a.q = x->q;
    a.k = x->k;
    a.v = x->v;
    a.scores = scores;
    a.o = o;
    cr_assert_eq(ref_attend(&a), 0);
}

static double dot(const double *x, const double *shift, const double *y)
{
    double sum = 0.0;
    int d;

    for (d = 0; d < D; d++)
        sum += (x[d] + (shift != NULL ? shift[d] : 0.0)) * y[d];
    return sum;
}

/* What a test says about one pair: S before the scale, beside q . k. */
typedef double (*pair_fn)(const inputs *x, int b, int h, int i, int j);

static const double *q_row(const inputs *x, int b, int h, int i)
{
    return x->q + ((b * H + h) * LQ + i) * D;
}

static const double *k_row(const inputs *x, int b, int h, int j)
{
    return x->k + ((b * H + h) * LK + j) * D;
}

static void check_scores(const char *what, const inputs *x, const ref_terms *terms, pair_fn more)
{
    static double scores[B * H * LQ * LK];
    int b, h, i, j;

    attend(x, terms, scores, NULL);
    for (b = 0; b < B; b++)
        for (h = 0; h < H; h++)
            for (i = 0; i < LQ; i++)
                for (j = 0; j < LK; j++)
                    check(what, scores[((b * H + h) * LQ + i) * LK + j],
                          (dot(q_row(x, b, h, i), NULL, k_row(x, b, h, j)) + more(x, b, h, i, j)) /
                              2.0,
                          1e-14);
}

static int clip(int value, int low, int high)
{
    return value < low ? low : value > high ? high : value;
}

/* Nine distances: t = i - j from -4 to 4, row t + 4. */
static double of_bidirectional(const inputs *x, int b, int h, int i, int j)
{
    const double *q = q_row(x, b, h, i);

    return dot(q, x->vectors[1] + h * D, x->tables[0] + (h * 9 + i - j + 4) * D) +
           dot(x->vectors[0] + h * D, NULL, k_row(x, b, h, j));
}

/* The sign turns for the second half of the batch, then the clamp to [-2, 2]. */
static double of_xlnet(const inputs *x, int b, int h, int i, int j)
{
    const int t = clip(b >= 1 ? j - i : i - j, -2, 2);
    const int different = x->segments[0][b * LQ + i] != x->segments[1][b * LK + j];
    const double *q = q_row(x, b, h, i);

    return dot(q, x->vectors[1] + h * D, x->tables[0] + (h * 9 + t + 4) * D) +
           dot(x->vectors[0] + h * D, NULL, k_row(x, b, h, j)) +
           dot(q, x->vectors[2] + h * D, x->tables[1] + (different * H + h) * D);
}

Test(relative, bidirectional_distances_and_segments_match_sums_written_out)
{
    static inputs x;
    ref_xl xl = {.bidirectional = 1, .flip = UINT32_MAX, .rows = 9, .first = -4};
    ref_terms terms;

    make_inputs(&x, 0);
    xl.positions.data = x.tables[0];
    xl.positions.head_stride = 9 * D;
    xl.positions.row_stride = D;
    xl.u = x.vectors[0];
    xl.w = x.vectors[1];
    cr_assert_eq(ref_xl_terms(&xl, &terms), 0);
    check_scores("nine distances", &x, &terms, of_bidirectional);
    xl.flip = 1;
    xl.clamp = 2;
    terms.z = x.vectors[2];
    terms.g.data = x.tables[1];
    terms.g.head_stride = D;
    terms.g.row_stride = H * D;
    terms.segments_q = x.segments[0];
    terms.segments_k = x.segments[1];
    check_scores("bi_data, clamp, segments", &x, &terms, of_xlnet);
}

/* k = 2: d = clip(i - j + 2, 0, 3). */
static double of_code(const inputs *x, int b, int h, int i, int j)
{
    const int d = clip(i - j + 2, 0, 3);

    return dot(q_row(x, b, h, i), NULL, x->tables[0] + (h * 4 + d) * D) +
           dot(k_row(x, b, h, j), NULL, x->tables[1] + (h * 4 + d) * D);
}

static double of_paper(const inputs *x, int b, int h, int i, int j)
{
    return dot(q_row(x, b, h, i), NULL, x->tables[0] + (h * 4 + clip(i - j + 2, 0, 3)) * D) +
           dot(k_row(x, b, h, j), NULL, x->tables[1] + (h * 4 + clip(j - i + 2, 0, 3)) * D);
}

Test(relative, deberta_reads_its_second_table_at_the_row_of_the_code_or_of_the_paper)
{
    static inputs x;
    ref_deberta d = {2, 0, 2, 1, 0, NULL, NULL};
    ref_terms terms;

    make_inputs(&x, 0);
    d.pos_key = x.tables[0];
    d.pos_query = x.tables[1];
    cr_assert_eq(ref_deberta_terms(&d, D, &terms), 0);
    check_scores("code", &x, &terms, of_code);
    d.paper = 1;
    cr_assert_eq(ref_deberta_terms(&d, D, &terms), 0);
    check_scores("paper", &x, &terms, of_paper);
}

/* M = 3, tables by head: rows delta + 2, none beyond. */
static double of_music(const inputs *x, int b, int h, int i, int j)
{
    return j > i || i - j > 2
               ? 0.0
               : dot(q_row(x, b, h, i), NULL, x->tables[0] + (h * 3 + j - i + 2) * D);
}

static double of_music_both_sides(const inputs *x, int b, int h, int i, int j)
{
    return abs(j - i) > 2 ? 0.0 : dot(q_row(x, b, h, i), NULL, x->tables[0] + (j - i + 2) * D);
}

Test(relative, music_transformer_contributes_nothing_beyond_its_table)
{
    static inputs x;
    ref_music m = {3, 0, 0, 1, NULL, NULL};
    ref_terms terms;

    make_inputs(&x, 0);
    m.keys = x.tables[0];
    cr_assert_eq(ref_music_terms(&m, D, D, &terms), 0);
    check_scores("by head", &x, &terms, of_music);
    m.future = 1;
    check_scores("the future has no rows to read", &x, &terms, of_music);
    m.two_sided = 1;
    m.per_head = 0;
    cr_assert_eq(ref_music_terms(&m, D, D, &terms), 0);
    check_scores("both sides", &x, &terms, of_music_both_sides);
}

/* P = 5: row i - j + 4 of nine. */
static double of_bert(const inputs *x, int b, int h, int i, int j)
{
    const double *row = x->tables[0] + (i - j + 4) * D;

    return dot(q_row(x, b, h, i), NULL, row) + dot(k_row(x, b, h, j), NULL, row);
}

Test(relative, bert_tables_serve_both_sides_and_refuse_what_they_do_not_hold)
{
    static inputs x;
    static double scores[B * H * LQ * LK];
    ref_shaw s = {REF_SHAW_BERT, 4, 4, 0, NULL, NULL, 1};
    ref_attention a;
    ref_terms terms;

    make_inputs(&x, 0);
    s.keys = x.tables[0];
    cr_assert_eq(ref_shaw_terms(&s, D, D, &terms), 0);
    check_scores("relative_key_query", &x, &terms, of_bert);
    s.left = s.right = 3;
    cr_assert_eq(ref_shaw_terms(&s, D, D, &terms), 0);
    ref_attention_init(&a, B, H, LQ, LK, D);
    a.terms = &terms;
    a.q = x.q;
    a.k = x.k;
    a.scores = scores;
    scores[0] = 99.0;
    cr_expect_eq(ref_attend(&a), -1, "distance 4 with P = 4");
    cr_expect(scores[0] == 99.0, "nothing was written");
    a.q_offset = 0;
    a.window_left = 4;
    a.causal = 1;
    a.scores = NULL;
    a.v = x.v;
    a.o = x.tables[3];
    cr_expect_eq(ref_attend(&a), 0, "keys out of reach need no row");
}

/* left 1, right 0 with tables by head. */
static double of_asymmetric(const inputs *x, int b, int h, int i, int j)
{
    return dot(q_row(x, b, h, i), NULL, x->tables[0] + (h * 2 + clip(j - i, -1, 0) + 1) * D);
}

Test(relative, shaw_clips_each_side_by_itself)
{
    static inputs x;
    ref_shaw s = {REF_SHAW_KEY_MINUS_QUERY, 1, 0, 1, NULL, NULL, 0};
    ref_terms terms;

    make_inputs(&x, 0);
    s.keys = x.tables[0];
    cr_assert_eq(ref_shaw_terms(&s, D, D, &terms), 0);
    check_scores("left 1, right 0", &x, &terms, of_asymmetric);
}

Test(relative, zero_tables_reproduce_plain_attention)
{
    static inputs x;
    static double plain[2][B * H * LQ * D], got[2][B * H * LQ * LK];
    const double zeros[H] = {0.0};
    const ref_table heads_of_9 = {x.tables[0], 9 * D, D}, scalars = {x.tables[1], 9, 1};
    const ref_shaw shaw = {REF_SHAW_KEY_MINUS_QUERY, 2, 2, 0, x.tables[0], x.tables[1], 0};
    const ref_shaw bert = {REF_SHAW_BERT, 4, 4, 0, x.tables[0], NULL, 1};
    const ref_music music = {3, 1, 1, 1, x.tables[0], x.tables[1]};
    const ref_t5 t5 = {1, 32, 128, x.tables[0], 3.0, NULL};
    const ref_alibi alibi = {REF_ALIBI_SYMMETRIC, zeros, NULL, NULL, 0, 1};
    const ref_xl xl = {.bidirectional = 1,
                       .flip = 1,
                       .rows = 9,
                       .first = -4,
                       .positions = heads_of_9,
                       .scalars = scalars,
                       .u = x.vectors[0],
                       .w = x.vectors[1]};
    const ref_deberta deberta = {4, 0, 4, 1, 0, x.tables[0], x.tables[1]};
    ref_terms terms[7];
    double want[B * H * LQ * LK];
    size_t i;

    make_inputs(&x, 1);
    cr_assert_eq(ref_shaw_terms(&shaw, D, D, &terms[0]), 0);
    cr_assert_eq(ref_shaw_terms(&bert, D, D, &terms[1]), 0);
    cr_assert_eq(ref_music_terms(&music, D, D, &terms[2]), 0);
    cr_assert_eq(ref_t5_terms(&t5, H, &terms[3]), 0);
    cr_assert_eq(ref_alibi_terms(&alibi, &terms[4]), 0);
    cr_assert_eq(ref_xl_terms(&xl, &terms[5]), 0);
    cr_assert_eq(ref_deberta_terms(&deberta, D, &terms[6]), 0);
    attend(&x, NULL, want, plain[0]);
    for (i = 0; i < sizeof terms / sizeof *terms; i++) {
        attend(&x, &terms[i], got[0], plain[1]);
        check_all("scores", got[0], want, B * H * LQ * LK, 0.0);
        check_all("outputs", plain[1], plain[0], B * H * LQ * D, 0.0);
    }
}
