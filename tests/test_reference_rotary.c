/* The rotary part of the double-precision reference against numbers that were not made by it: in 80
 * decimal digits with another program, or worked by hand.
 */
#include "reference.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
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

/* ------------------------------------------------------------------------------------------------
 * Schedules
 */
typedef struct schedule_row {
    ref_rope rope;
    uint32_t i;
    double frequency;
    double cosine; /* at position 2^31 - 1 */
    double sine;
} schedule_row;

Test(reference_rotary, every_schedule_is_exact_up_to_the_last_position)
{
    static const schedule_row rows[] = {
        {{.schedule = REF_SCHEDULE_NTK, .rotary_dim = 128, .base = 10000, .factor = 4},
         63, 0.000028869549617236454492, 0.76723765774626424354, 0.64136290548801330798},
        {{.schedule = REF_SCHEDULE_NTK, .rotary_dim = 128, .base = 10000, .factor = 4},
         20, 0.036213445219044159284, 0.45175205694654847221, -0.89214353051768661371},
        {{.schedule = REF_SCHEDULE_NTK_DYNAMIC, .rotary_dim = 64, .base = 10000, .factor = 4,
          .length = 5000, .max_length = 2048},
         13, 0.010636686398810335991, -0.10649524408092196053, -0.99431321171356506125},
        {{.schedule = REF_SCHEDULE_NTK_DYNAMIC, .rotary_dim = 64, .base = 10000, .factor = 4,
          .length = 2048, .max_length = 2048},
         13, 0.023713737056616552617, -0.81176904130191353439, -0.58397861569048245276},
        {{.schedule = REF_SCHEDULE_LINEAR_DYNAMIC, .rotary_dim = 32, .base = 10000, .factor = 1,
          .length = 50, .max_length = 20},
         5, 0.022493653007613963216, 0.94118865431653407396, 0.33788151323479023076},
        {{.schedule = REF_SCHEDULE_LINEAR_DYNAMIC, .rotary_dim = 32, .base = 10000, .factor = 1,
          .length = 19, .max_length = 20},
         5, 0.056234132519034908039, 0.6511764215472695924, 0.75892639170139066241},
        {{.schedule = REF_SCHEDULE_NTK_BY_PARTS, .rotary_dim = 128, .base = 10000, .factor = 8,
          .original_length = 2048},
         28, 0.012419950307931083002, -0.70917657631673232294, 0.70503090967962385877},
        {{.schedule = REF_SCHEDULE_NTK_BY_PARTS, .rotary_dim = 128, .base = 10000, .factor = 8,
          .original_length = 2048},
         41, 0.00048841296518314599408, 0.90079444318458303818, 0.43424574969454450705},
        {{.schedule = REF_SCHEDULE_YARN, .rotary_dim = 128, .base = 10000, .factor = 16,
          .original_length = 4096, .beta_fast = 32, .beta_slow = 1, .truncate = 1,
          .extrapolation = 1},
         30, 0.0085268437729674084334, 0.56012923740057329905, 0.8284052374345856332},
        {{.schedule = REF_SCHEDULE_YARN, .rotary_dim = 64, .base = 10000, .factor = 8,
          .original_length = 2048, .beta_fast = 24, .beta_slow = 2, .truncate = 1,
          .extrapolation = 0.5},
         12, 0.013176156917368247217, -0.50886555676113921399, -0.86084600547494893094},
        {{.schedule = REF_SCHEDULE_YARN, .rotary_dim = 64, .base = 150000, .factor = 32,
          .original_length = 4096, .beta_fast = 32, .beta_slow = 1, .truncate = 0,
          .extrapolation = 1},
         12, 0.0067949594897322178331, 0.44285234149517925231, 0.89659455922520360594},
        {{.schedule = REF_SCHEDULE_YARN, .rotary_dim = 64, .base = 50000, .factor = 32,
          .original_length = 4096, .beta_fast = 1, .beta_slow = 1, .truncate = 1,
          .extrapolation = 1},
         19, 0.0016217599081159522142, -0.72463985271081421199, 0.68912777034687078756},
        {{.schedule = REF_SCHEDULE_YARN, .rotary_dim = 64, .base = 50000, .factor = 32,
          .original_length = 4096, .beta_fast = 1, .beta_slow = 1, .truncate = 1,
          .extrapolation = 1},
         20, 0.00003614046773572630819, 0.40067477622886818271, 0.916220346692839172},
        {{.schedule = REF_SCHEDULE_YARN, .rotary_dim = 16, .base = 10000, .factor = 4,
          .original_length = 4, .beta_fast = 32, .beta_slow = 1, .truncate = 1, .extrapolation = 1},
         0, 1.0, -0.68883669187794383468, -0.72491655514455639055},
        {{.schedule = REF_SCHEDULE_YARN, .rotary_dim = 16, .base = 10000, .factor = 4,
          .original_length = 4, .beta_fast = 32, .beta_slow = 1, .truncate = 1, .extrapolation = 1},
         1, 0.0790569415042094833, 0.99810294669024289503, -0.061567100047461627691},
        {{.schedule = REF_SCHEDULE_YARN_PAPER, .rotary_dim = 128, .base = 10000, .factor = 16,
          .original_length = 4096, .beta_fast = 32, .beta_slow = 1, .extrapolation = 1},
         38, 0.0004866131688143615136, 0.91099535656084694089, -0.41241661014631230118},
        {{.schedule = REF_SCHEDULE_LLAMA3, .rotary_dim = 128, .base = 500000, .factor = 8,
          .original_length = 8192, .low_freq_factor = 1, .high_freq_factor = 4},
         30, 0.0013718935677611381604, -0.81683157010823899886, 0.57687623115752397693},
        {{.schedule = REF_SCHEDULE_LLAMA3, .rotary_dim = 128, .base = 500000, .factor = 16,
          .original_length = 8192, .low_freq_factor = 1, .high_freq_factor = 1},
         34, 0.00093847387035738024707, 0.89169950125328838476, 0.45262788189045175782},
        {{.schedule = REF_SCHEDULE_LLAMA3, .rotary_dim = 128, .base = 500000, .factor = 16,
          .original_length = 8192, .low_freq_factor = 1, .high_freq_factor = 1},
         35, 0.000047781061769823415099, -0.079583981043662594348, -0.99682816471107092854},
        {{.schedule = REF_SCHEDULE_PROPORTIONAL, .rotary_dim = 64, .base = 1000000, .factor = 8,
          .partial_factor = 0.5},
         15, 0.0001924908157574364987, 0.99308399666577978091, 0.11740602866259250572},
        {{.schedule = REF_SCHEDULE_YARN, .rotary_dim = 16, .base = 10000, .factor = 4,
          .original_length = 100000, .beta_fast = 32, .beta_slow = 1, .truncate = 1,
          .extrapolation = 1},
         7, 0.00019764235376052370825, -0.15658658215623807949, -0.98766423560268076677},
        {{.schedule = REF_SCHEDULE_YARN, .rotary_dim = 16, .base = 10000, .factor = 4,
          .original_length = 1000000000, .beta_fast = 1000000, .beta_slow = 1, .truncate = 1,
          .extrapolation = 1},
         7, 0.00025154481387703017414, -0.58794382393348787046, -0.80890176158694809432},
        {{.schedule = REF_SCHEDULE_NTK_BY_PARTS, .rotary_dim = 512, .base = 10000, .factor = 8,
          .original_length = 2048},
         160, 0.0006727574549390382259, 0.41113453198792489195, -0.91157467966539634673},
        {{.schedule = REF_SCHEDULE_NTK_BY_PARTS, .rotary_dim = 512, .base = 10000, .factor = 8,
          .original_length = 2048},
         110, 0.013930590756112675783, 0.94637966191531016693, 0.32305655157118115189},
    };
    double frequencies[256], cosines[256], sines[256];
    char text[48];
    size_t k;

    for (k = 0; k < sizeof rows / sizeof *rows; k++) {
        const schedule_row *row = &rows[k];
        cr_assert_eq(ref_rope_frequencies(&row->rope, frequencies), 0, "row %zu", k);
        cr_assert_eq(ref_rope_angles(&row->rope, INT32_MAX, cosines, sines), 0, "row %zu", k);
        snprintf(text, sizeof text, "row %zu", k);
        check(text, frequencies[row->i], row->frequency, row->frequency * 0x1p-52);
        check(text, cosines[row->i], row->cosine, 1e-15);
        check(text, sines[row->i], row->sine, 1e-15);
    }
}

Test(reference_rotary, longrope_takes_the_list_of_the_length)
{
    static const double ones[4] = {1, 1, 1, 1}, more[4] = {1.5, 2, 3, 4};
    static const double want_short[4] = {1, .1, .01, .001};
    static const double want_long[4] = {2. / 3, .05, .01 / 3, .00025};
    /* At 2^31 - 1, of the quotients in 80 digits. */
    static const double cosine[4] = {0.017009235964343549024, 0.73518789454227791632,
                                     -0.96662189600415906318, -0.53896757055513178304};
    double f[4], c[4], s[4];
    ref_rope rope;

    ref_rope_init(&rope, 8);
    rope.schedule = REF_SCHEDULE_LONGROPE;
    rope.original_length = 100;
    rope.short_factors = ones;
    rope.long_factors = more;
    rope.length = 100;
    cr_assert_eq(ref_rope_frequencies(&rope, f), 0);
    check_all("at the original length", f, want_short, 4, 1e-17);
    rope.length = 101;
    cr_assert_eq(ref_rope_frequencies(&rope, f), 0);
    check_all("one beyond", f, want_long, 4, 1e-16);
    cr_assert_eq(ref_rope_angles(&rope, INT32_MAX, c, s), 0);
    check_all("cosines", c, cosine, 4, 1e-15);
    ref_rope_init(&rope, 8);
    rope.divisors = more;
    cr_assert_eq(ref_rope_frequencies(&rope, f), 0);
    check_all("as divisors", f, want_long, 4, 1e-16);
    rope.factor = 2;
    cr_assert_eq(ref_rope_frequencies(&rope, f), 0);
    check("and then a factor", f[3], .000125, 1e-19);
}

Test(reference_rotary, proportional_pairs_beyond_its_part_do_not_turn)
{
    double f[16];
    ref_rope rope;
    uint32_t i;

    ref_rope_init(&rope, 32);
    rope.schedule = REF_SCHEDULE_PROPORTIONAL;
    rope.partial_factor = 0.3; /* int(0.3 * 32 / 2) = 4 pairs */
    cr_assert_eq(ref_rope_frequencies(&rope, f), 0);
    for (i = 0; i < 16; i++)
        check("frequency", f[i], i < 4 ? pow(10000.0, -2.0 * i / 32.0) : 0.0, 1e-16);
}

Test(reference_rotary, magnitudes_are_those_of_the_spec)
{
    check("paper, 16", ref_magnitude_paper(16), 1.27725887222397812, 1e-15);
    check("paper, 1", ref_magnitude_paper(1), 1, 0);
    check("mscale 1 and 0.707, 40", ref_magnitude_mscale(40, 1, .707), 1.08572639925613565, 1e-15);
    check("mscale pair of equals", ref_magnitude_mscale(40, .707, .707), 1, 0);
    check("longrope, 32 of 4096", ref_magnitude_longrope(32, 4096), 1.19023807142380833, 1e-15);
    check("longrope, 1", ref_magnitude_longrope(1, 4096), 1, 0);
    check("flattening, 16", ref_magnitude_flattening(16), 0.936328349025871118, 1e-15);
    cr_assert_lt(ref_magnitude_flattening(16), 1.0, "it flattens where the paper's sharpens");
}

typedef struct domain_row {
    const char *what;
    ref_rope rope;
} domain_row;

#define YARN(...) .schedule = REF_SCHEDULE_YARN, .truncate = 1, .extrapolation = 1, __VA_ARGS__
#define ROPE .base = 10000, .factor = 4

Test(reference_rotary, schedules_outside_their_domain_are_refused)
{
    static const double ones[4] = {1, 1, 1, 1}, zeros[4] = {1, 1, 0, 1};
    const domain_row rows[] = {
        {"NTK of one pair", {.schedule = REF_SCHEDULE_NTK, .rotary_dim = 2, ROPE}},
        {"no length", {.schedule = REF_SCHEDULE_NTK_DYNAMIC, .rotary_dim = 8, ROPE}},
        {"shrinking",
         {.schedule = REF_SCHEDULE_NTK_DYNAMIC,
          .rotary_dim = 8,
          .base = 10000,
          .factor = 0.5,
          .max_length = 4}},
        {"no length", {.schedule = REF_SCHEDULE_LINEAR_DYNAMIC, .rotary_dim = 8, ROPE}},
        {"no length", {.schedule = REF_SCHEDULE_NTK_BY_PARTS, .rotary_dim = 8, ROPE}},
        {"no length", {YARN(.rotary_dim = 8, .beta_fast = 32, .beta_slow = 1, ROPE)}},
        {"betas the wrong way",
         {YARN(.rotary_dim = 8, .beta_fast = 1, .beta_slow = 32, .original_length = 99, ROPE)}},
        {"a ramp that ends before the first pair",
         {YARN(.rotary_dim = 64, .beta_fast = 32, .beta_slow = 1, .original_length = 4, ROPE)}},
        {"a base of 1",
         {YARN(.rotary_dim = 8, .beta_fast = 32, .beta_slow = 1, .original_length = 99, .base = 1,
               .factor = 4)}},
        {"no length",
         {.schedule = REF_SCHEDULE_LLAMA3, .rotary_dim = 8, .high_freq_factor = 4,
          .low_freq_factor = 1, ROPE}},
        {"factors the wrong way",
         {.schedule = REF_SCHEDULE_LLAMA3, .rotary_dim = 8, .high_freq_factor = 1,
          .low_freq_factor = 4, .original_length = 99, ROPE}},
        {"no lists",
         {.schedule = REF_SCHEDULE_LONGROPE, .rotary_dim = 8, .original_length = 99, ROPE}},
        {"a divisor of 0",
         {.schedule = REF_SCHEDULE_LONGROPE, .rotary_dim = 8, .original_length = 99,
          .short_factors = ones, .long_factors = zeros, ROPE}},
        {"a divisor of 0", {.rotary_dim = 8, .divisors = zeros, ROPE}},
        {"part of 0", {.schedule = REF_SCHEDULE_PROPORTIONAL, .rotary_dim = 8, ROPE}},
        {"no factor", {.rotary_dim = 8, .base = 10000}},
    };
    double f[32] = {9};
    size_t k;

    for (k = 0; k < sizeof rows / sizeof *rows; k++)
        cr_expect_eq(ref_rope_frequencies(&rows[k].rope, f), -1, "row %zu: %s", k, rows[k].what);
    check("nothing is written", f[0], 9, 0);
}

/* ------------------------------------------------------------------------------------------------
 * Pairings
 */
Test(reference_rotary, interleaved_to_half_moves_the_channels_only)
{
    const int32_t position = 7;
    double apart[9], y[9] = {7};
    ref_rope rope;
    int i;

    ref_rope_init(&rope, 8);
    rope.pairing = REF_PAIRING_INTERLEAVED;
    cr_assert_eq(ref_rotate(&rope, 1, 1, 1, 8, &position, 0, eight, apart), 0);
    rope.pairing = REF_PAIRING_INTERLEAVED_TO_HALF;
    rope.rotary_offset = 1;
    memcpy(y + 1, eight, sizeof eight);
    cr_assert_eq(ref_rotate(&rope, 1, 1, 1, 9, &position, 0, y, y), 0, "in place");
    for (i = 0; i < 4; i++) {
        check("first", y[1 + i], apart[2 * i], 0);
        check("second", y[5 + i], apart[2 * i + 1], 0);
    }
    check("outside the window", y[0], 7, 0);
}

Test(reference_rotary, half_per_axis_is_two_half_rotations)
{
    /* Coordinates h = 3, w = 5 of one token, w first, base 100: D/4 = 2 frequencies 1 and 1/10. */
    static const double coordinates[2] = {3, 5};
    const double a[4] = {5, .5, 3, .3};
    double frequencies[8], y[8], want[8];
    ref_plane plane = {REF_PAIRING_HALF_PER_AXIS, 0, frequencies, coordinates};
    int i;

    for (i = 0; i < 4; i++) {
        const int x = i < 2 ? i : i + 2;
        want[x] = eight[x] * cos(a[i]) - eight[x + 2] * sin(a[i]);
        want[x + 2] = eight[x] * sin(a[i]) + eight[x + 2] * cos(a[i]);
    }
    cr_assert_eq(ref_plane_frequencies(REF_PLANE_AXIAL, 8, 100, 1, frequencies), 0);
    cr_assert_eq(ref_rotate_plane(&plane, 1, 1, 1, 8, eight, y), 0);
    check_all("half per axis", y, want, 8, 1e-14);
    cr_assert_eq(ref_rotate_plane(&plane, 1, 1, 1, 6, eight, y), -1, "three pairs have no halves");
}

/* ------------------------------------------------------------------------------------------------
 * XPos
 */
Test(reference_rotary, xpos_scales_queries_up_and_keys_down)
{
    static const double query[8] = {2.0017587819185317, 0.51789150694548003, -1.4776472538215233,
                                    2.4941197193603946, 1.1064566149386993,  -1.8727240727606767,
                                    3.9544838982665786, -0.46622069808324441};
    static const double key[8] = {2.3411015258342035, 0.60568566406618242, -1.6263821751866004,
                                  2.745169284386665,  1.1692841974117486,  -1.97906238240796,
                                  4.0529251756399595, -0.47782660222596753};
    const int32_t position = 7;
    ref_xpos xpos;
    double y[8];

    ref_xpos_init(&xpos, 8);
    xpos.scale_base = 64;
    xpos.centre = 3;
    cr_assert_eq(ref_rotate_xpos(&xpos, 1, 1, 1, 8, &position, eight, y), 0);
    check_all("query", y, query, 8, 1e-14);
    xpos.key_side = 1;
    cr_assert_eq(ref_rotate_xpos(&xpos, 1, 1, 1, 8, &position, eight, y), 0);
    check_all("key", y, key, 8, 1e-14);
    xpos.gamma = 0;
    cr_assert_eq(ref_rotate_xpos(&xpos, 1, 1, 1, 8, &position, eight, y), -1);
    ref_xpos_init(&xpos, 8);
    xpos.scale_base = 0;
    cr_assert_eq(ref_rotate_xpos(&xpos, 1, 1, 1, 8, &position, eight, y), -1);
}

/* ------------------------------------------------------------------------------------------------
 * M-RoPE
 */
typedef struct section_row {
    ref_section_rule rule;
    uint32_t sections[4];
    uint32_t pairs;
    const char *axes; /* NULL: refused */
} section_row;

Test(reference_rotary, sections_give_each_pair_its_row)
{
    static const section_row rows[] = {
        {REF_SECTIONS_BLOCKS, {2, 3, 3, 0}, 8, "00111222"},
        {REF_SECTIONS_BLOCKS, {2, 0, 3, 0}, 5, "00222"},
        {REF_SECTIONS_BLOCKS, {2, 3, 2, 0}, 8, NULL},
        {REF_SECTIONS_INTERLEAVED, {3, 3, 2, 0}, 8, "01201201"},
        {REF_SECTIONS_INTERLEAVED, {6, 1, 1, 0}, 8, "01200000"},
        {REF_SECTIONS_INTERLEAVED, {1, 2, 3, 0}, 8, "01201200"},
        {REF_SECTIONS_ERNIE, {3, 3, 2, 0}, 8, "12121200"},
        {REF_SECTIONS_ERNIE, {3, 3, 3, 0}, 8, NULL},
        {REF_SECTIONS_GGML_BLOCKS, {2, 2, 2, 2}, 8, "00112233"},
        {REF_SECTIONS_GGML_BLOCKS, {1, 1, 1, 0}, 8, "01201201"},
        {REF_SECTIONS_GGML_INTERLEAVED, {4, 2, 2, 0}, 8, "01201203"},
        {REF_SECTIONS_GGML_INTERLEAVED, {1, 2, 3, 2}, 8, "01231233"},
        {REF_SECTIONS_GGML_BLOCKS, {0, 0, 0, 4}, 8, NULL},
    };
    uint32_t axes[8], i;
    size_t k;

    for (k = 0; k < sizeof rows / sizeof *rows; k++) {
        const section_row *row = &rows[k];
        const int result = ref_section_axes(row->rule, row->sections, row->pairs, axes);
        cr_expect_eq(result, row->axes != NULL ? 0 : -1, "row %zu: %d", k, result);
        for (i = 0; row->axes != NULL && i < row->pairs; i++)
            cr_expect_eq(axes[i], (uint32_t)(row->axes[i] - '0'), "row %zu, pair %u: axis %u", k, i,
                         axes[i]);
    }
}

Test(reference_rotary, equal_rows_are_plain_rope_and_others_turn_by_their_own)
{
    static const int32_t equal[3 * 2] = {5, 6, 5, 6, 5, 6}, apart[3 * 2] = {5, 6, 9, 9, -1, 4};
    static const uint32_t axes[4] = {0, 1, 2, 0};
    double x[16], plain[16], y[16], c[4], s[4];
    ref_rope rope;

    memcpy(x, eight, sizeof eight);
    memcpy(x + 8, eight, sizeof eight);
    ref_rope_init(&rope, 8);
    cr_assert_eq(ref_rotate(&rope, 1, 1, 2, 8, equal, 0, x, plain), 0);
    cr_assert_eq(ref_rotate_sections(&rope, axes, 3, 1, 1, 2, 8, equal, x, y), 0);
    cr_assert(memcmp(plain, y, sizeof y) == 0, "equal rows must give the same bits");
    cr_assert_eq(ref_rotate_sections(&rope, axes, 3, 1, 1, 2, 8, apart, x, y), 0);
    cr_assert_eq(ref_rope_angles(&rope, 4, c, s), 0);
    check("pair 2 of token 1 at w = 4", y[8 + 2], eight[2] * c[2] - eight[6] * s[2], 1e-15);
    cr_assert_eq(ref_rope_angles(&rope, 9, c, s), 0);
    check("pair 1 of token 0 at h = 9", y[5], eight[1] * s[1] + eight[5] * c[1], 1e-15);
    cr_assert_eq(ref_rotate_sections(&rope, axes, 2, 1, 1, 2, 8, apart, x, y), -1,
                 "an axis that there is none of");
}

/* ------------------------------------------------------------------------------------------------
 * Two dimensions
 */
typedef struct plane_row {
    ref_plane_rule rule;
    double base;
    int columns_first;
    double frequencies[8]; /* of head_dim 8: those of h, then of w */
} plane_row;

Test(reference_rotary, frequencies_of_the_plane_are_those_of_each_variant)
{
    static const double two_pi = 6.283185307179586, pi = 3.141592653589793;
    const plane_row rows[] = {
        {REF_PLANE_AXIAL, 100, 0, {1, .1, 0, 0, 0, 0, 1, .1}},
        {REF_PLANE_AXIAL, 100, 1, {0, 0, 1, .1, 1, .1, 0, 0}},
        {REF_PLANE_ALTERNATING, 10000, 0, {1, .01, 0, 0, 0, 0, .1, .001}},
        {REF_PLANE_ALTERNATING, 10000, 1, {0, 0, .1, .001, 1, .01, 0, 0}},
        {REF_PLANE_TURNS, 100, 0, {two_pi, two_pi / 10, 0, 0, 0, 0, two_pi, two_pi / 10}},
        {REF_PLANE_PIXELS, 64, 0, {pi, 32 * pi, 0, 0, 0, 0, pi, 32 * pi}},
        {REF_PLANE_PIXELS_LINEAR, 20, 0, {pi, 10 * pi, 0, 0, 0, 0, pi, 10 * pi}},
    };
    double f[8], thirds[16];
    size_t k;

    for (k = 0; k < sizeof rows / sizeof *rows; k++) {
        cr_assert_eq(
            ref_plane_frequencies(rows[k].rule, 8, rows[k].base, rows[k].columns_first, f), 0);
        check_all("frequencies", f, rows[k].frequencies, 8, 1e-13);
    }
    cr_assert_eq(ref_plane_frequencies(REF_PLANE_PIXELS, 16, 16, 0, thirds), 0);
    check("steps are even in the exponent", thirds[1], 2 * pi, 1e-14);
    cr_assert_eq(ref_plane_frequencies(REF_PLANE_AXIAL, 6, 100, 0, f), -1);
    cr_assert_eq(ref_plane_frequencies(REF_PLANE_AXIAL, 8, 0, 0, f), -1);
}

typedef struct grid_row {
    ref_grid grid;
    double want[4]; /* of the tokens (0, 0) and (3, 1) */
} grid_row;

Test(reference_rotary, coordinates_follow_the_grid)
{
    static const int32_t positions[4] = {0, 0, 3, 1};
    static const grid_row rows[] = {
        {{REF_GRID_INDEX, 0, 0, 0, {0, 0}}, {0, 0, 3, 1}},
        {{REF_GRID_INDEX, 0, 0, 1, {0, 0}}, {1, 1, 4, 2}},
        {{REF_GRID_INDEX, 4, 2, 1, {16, 16}}, {4, 8, 16, 16}},
        {{REF_GRID_ENDS, 4, 2, 0, {0, 0}}, {-1, -1, 1, 1}},
        {{REF_GRID_ENDS, 7, 1, 0, {0, 0}}, {-1, -1, 0, -1}},
        {{REF_GRID_CENTRES, 4, 2, 0, {0, 0}}, {-.75, -.5, .75, .5}},
        {{REF_GRID_CENTRES_MAX, 4, 2, 0, {0, 0}}, {-.75, -.75, .75, -.25}},
        {{REF_GRID_CENTRES_MIN, 4, 2, 0, {0, 0}}, {-.5, -.5, 2.5, .5}},
    };
    static const ref_grid none = {REF_GRID_CENTRES, 0, 2, 0, {0, 0}};
    double coordinates[4];
    size_t k;

    for (k = 0; k < sizeof rows / sizeof *rows; k++) {
        cr_assert_eq(ref_grid_coordinates(&rows[k].grid, 2, positions, coordinates), 0);
        check_all("coordinates", coordinates, rows[k].want, 4, 1e-15);
    }
    cr_assert_eq(ref_grid_coordinates(&none, 2, positions, coordinates), -1);
}

Test(reference_rotary, learned_frequencies_of_both_axes_add_up_per_head)
{
    /* Two heads of one pair each; [h, w] x [heads]. */
    static const double frequencies[4] = {.5, .25, -1, 2}, coordinates[2] = {3, 5};
    static const double x[4] = {1, 0, 1, 0};
    const double want[4] = {cos(-3.5), sin(-3.5), cos(10.75), sin(10.75)};
    const ref_plane plane = {REF_PAIRING_INTERLEAVED, 1, frequencies, coordinates};
    double y[4];

    cr_assert_eq(ref_rotate_plane(&plane, 1, 2, 1, 2, x, y), 0);
    check_all("learned", y, want, 4, 1e-15);
}
