/* Bad parameters of rope: each is refused with its field, what was wanted and what was there, and
 * nothing is written. No device: rhumb_rotary_frequencies checks what a plan checks. */
#include "schedules.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define COUNT(array) (sizeof(array) / sizeof(array)[0])
#define NOT_A_NUMBER ((double)NAN)
#define INFINITE ((double)INFINITY)
#define TINY_LIST 4

/* 32 pairs, all lists there and good: each row spoils one thing. */
static double good[32];

static rhumb_rope good_rope(rhumb_rope_scaling scaling)
{
    rhumb_rope rope;
    for (size_t i = 0; i < COUNT(good); i++)
        good[i] = 1;
    rhumb_init_rope(&rope);
    rope.scaling = scaling;
    rope.factor = 4;
    rope.original_length = 2048;
    rope.max_length = 2048;
    rope.short_factors = rope.long_factors = rope.frequencies = good;
    rope.list_count = COUNT(good);
    return rope;
}

typedef struct bad_row {
    const char *name;
    rhumb_rope_scaling scaling;
    void (*change)(rhumb_rope *r);
    const char *field; /* as the message has it */
    const char *wanted;
    const char *found;
} bad_row;

/* X(scaling, name, change of r, field, wanted, found) */
#define BAD_ROWS(X)                                                                                \
    X(NONE, pairing_is_unknown, r->pairing = (rhumb_pairing)3, "pairing", "0 to 2", "3")           \
    X(NONE, pairing_is_negative, r->pairing = (rhumb_pairing)-1, "pairing", "0 to 2", "-1")        \
    X(NONE, scaling_is_unknown, r->scaling = (rhumb_rope_scaling)11, "scaling", "0 to 10", "11")   \
    X(NONE, magnitude_is_unknown, r->magnitude = (rhumb_magnitude)5, "magnitude", "0 to 4", "5")   \
    X(YARN, ramp_is_unknown, r->ramp = (rhumb_yarn_ramp)2, "ramp", "0 to 1", "2")                  \
    X(YARN, truncate_is_two, r->truncate = 2, "truncate", "0 to 1", "2")                           \
    X(NONE, rotary_dim_is_odd, r->rotary_dim = 63, "rotary_dim", "even number", "63")              \
    X(NONE, rotary_dim_is_zero, r->rotary_dim = 0, "rotary_dim", "2 to 64", "0")                   \
    X(NONE, rotary_dim_passes_the_head, r->rotary_dim = 128, "rotary_dim", "2 to 64", "128")       \
    X(NONE, offset_passes_the_head, r->rotary_offset = 64, "rotary_offset", "0 to 63", "64")       \
    X(NONE, base_is_zero, r->base = 0, "base", "above 0", "0")                                     \
    X(NONE, base_is_nan, r->base = NOT_A_NUMBER, "base", "above 0", "nan")                         \
    X(NONE, base_is_infinite, r->base = INFINITE, "base", "finite", "inf")                         \
    X(NONE, base_turns_a_pair_more_than_once, r->base = 1e-3, "frequency of pair 9", "2 pi",       \
      "6.9")                                                                                       \
    X(LINEAR, factor_is_below_one, r->factor = 0.999, "factor", "at least 1", "0.999")             \
    X(NTK, factor_is_nan, r->factor = NOT_A_NUMBER, "factor", "at least 1", "nan")                 \
    X(YARN, factor_is_infinite, r->factor = INFINITE, "factor", "finite", "inf")                   \
    X(LLAMA3, factor_is_negative, r->factor = -8, "factor", "at least 1", "-8")                    \
    X(NONE, attention_factor_is_zero, r->attention_factor = 0, "attention_factor", "above 0", "0") \
    X(NONE, attention_factor_is_nan, r->attention_factor = NOT_A_NUMBER, "attention_factor",       \
      "above 0", "nan")                                                                            \
    X(YARN, attention_factor_without_given, r->attention_factor = 1.25, "attention_factor",        \
      "RHUMB_MAGNITUDE_GIVEN", "1.25")                                                             \
    X(NONE, attention_factor_is_no_float, r->attention_factor = 1e39, "attention_factor", "float", \
      "1e+39")                                                                                     \
    X(NONE, multiplier_is_zero, r->attention_multiplier = 0, "attention_multiplier", "above 0",    \
      "0")                                                                                         \
    X(NONE, multiplier_is_nan, r->attention_multiplier = NOT_A_NUMBER, "attention_multiplier",     \
      "above 0", "nan")                                                                            \
    X(NONE, product_is_no_float,                                                                   \
      (r->attention_multiplier = 1e30, r->magnitude = RHUMB_MAGNITUDE_GIVEN,                       \
       r->attention_factor = 1e30),                                                                \
      "magnitude", "float", "1e+60")                                                               \
    X(YARN, mscale_is_negative, r->mscale = -1, "mscale", "at least 0", "-1")                      \
    X(YARN, mscale_all_dim_is_nan, r->mscale_all_dim = NOT_A_NUMBER, "mscale_all_dim",             \
      "at least 0", "nan")                                                                         \
    X(NTK, one_pair, r->rotary_dim = 2, "rotary_dim", "4 or more for NTK", "2")                    \
    X(NTK_DYNAMIC, one_pair, r->rotary_dim = 2, "rotary_dim", "4 or more for NTK_DYNAMIC", "2")    \
    X(NTK_BY_PARTS, one_pair, r->rotary_dim = 2, "rotary_dim", "4 or more for NTK_BY_PARTS", "2")  \
    X(NTK_DYNAMIC, no_length, r->max_length = 0, "max_length", "1 or more for NTK_DYNAMIC", "0")   \
    X(LINEAR_DYNAMIC, no_length, r->max_length = 0, "max_length", "1 or more for LINEAR_DYNAMIC",  \
      "0")                                                                                         \
    X(NTK_BY_PARTS, no_length, r->original_length = 0, "original_length",                          \
      "1 or more for NTK_BY_PARTS", "0")                                                           \
    X(YARN, no_length, r->original_length = 0, "original_length", "1 or more for YARN", "0")       \
    X(LLAMA3, no_length, r->original_length = 0, "original_length", "1 or more for LLAMA3", "0")   \
    X(LONGROPE, no_length, r->original_length = 0, "original_length", "1 or more for LONGROPE",    \
      "0")                                                                                         \
    X(YARN, betas_are_swapped, (r->beta_fast = 1, r->beta_slow = 32), "beta_fast",                 \
      "at least beta_slow 32", "1")                                                                \
    X(YARN, beta_slow_is_zero, r->beta_slow = 0, "beta_slow", "above 0", "0")                      \
    X(YARN, beta_slow_is_nan, r->beta_slow = NOT_A_NUMBER, "beta_slow", "above 0", "nan")          \
    X(YARN, beta_fast_is_nan, r->beta_fast = NOT_A_NUMBER, "beta_fast", "beta_slow", "nan")        \
    X(YARN, beta_fast_is_infinite, r->beta_fast = INFINITE, "beta_fast", "finite", "inf")          \
    X(YARN, extrapolation_is_negative, r->extrapolation = -0.1, "extrapolation", "0 to 1", "-0.1") \
    X(YARN, extrapolation_is_above_one, r->extrapolation = 1.1, "extrapolation", "0 to 1", "1.1")  \
    X(YARN, extrapolation_is_nan, r->extrapolation = NOT_A_NUMBER, "extrapolation", "0 to 1",      \
      "nan")                                                                                       \
    X(YARN, base_of_a_ramp_is_one, r->base = 1, "base", "above 1", "1")                            \
    X(NTK_BY_PARTS, base_of_a_ramp_is_one, r->base = 1, "base", "above 1", "1")                    \
    X(YARN, context_of_three_tokens_ends_its_ramp_at_minus_two, r->original_length = 3,            \
      "original_length", "at or after its start", "3: pairs 0 to -2")                              \
    X(YARN, context_of_five_tokens_without_rounding,                                               \
      (r->original_length = 5, r->truncate = 0), "original_length", "at or after its start", "5")  \
    X(YARN, context_longer_than_the_slowest_turn, (r->base = 1.5, r->original_length = 1u << 31),  \
      "original_length", "at or after its start", "2147483648")                                    \
    X(NTK_BY_PARTS, context_of_three_tokens, r->original_length = 3, "original_length",            \
      "ramp of NTK_BY_PARTS", "3")                                                                 \
    X(LLAMA3, low_is_above_high, (r->low_freq_factor = 5, r->high_freq_factor = 4),                \
      "high_freq_factor", "at least low_freq_factor 5", "4")                                       \
    X(LLAMA3, low_is_zero, r->low_freq_factor = 0, "low_freq_factor", "above 0", "0")              \
    X(LLAMA3, low_is_nan, r->low_freq_factor = NOT_A_NUMBER, "low_freq_factor", "above 0", "nan")  \
    X(LLAMA3, high_is_nan, r->high_freq_factor = NOT_A_NUMBER, "high_freq_factor",                 \
      "low_freq_factor 1", "nan")                                                                  \
    X(LONGROPE, no_short_list, r->short_factors = NULL, "short_factors",                           \
      "32 numbers for LONGROPE", "NULL")                                                           \
    X(LONGROPE, no_long_list, r->long_factors = NULL, "long_factors", "32 numbers for LONGROPE",   \
      "NULL")                                                                                      \
    X(LONGROPE, lists_are_short, r->list_count = 31, "list_count", "32 numbers in short_factors",  \
      "31")                                                                                        \
    X(LONGROPE, lists_are_long, r->list_count = 64, "list_count", "32 numbers in short_factors",   \
      "64")                                                                                        \
    X(LONGROPE, lists_fit_the_head_only, r->rotary_dim = 48, "list_count",                         \
      "24 numbers in short_factors (rotary_dim 48)", "32")                                         \
    X(LONGROPE, a_factor_is_zero, good[31] = 0, "short_factors[31]", "above 0", "0")               \
    X(LONGROPE, a_factor_is_nan, good[5] = NOT_A_NUMBER, "short_factors[5]", "above 0", "nan")     \
    X(LONGROPE, a_long_factor_is_negative, r->long_factors = negative, "long_factors[0]",          \
      "above 0", "-1")                                                                             \
    X(LONGROPE, a_long_factor_is_too_small, r->long_factors = hundredths,                          \
      "long frequency of pair 0", "2 pi", "100")                                                   \
    X(LONGROPE, one_token_has_no_logarithm, (r->original_length = 1, r->max_length = 2,            \
      r->factor = 1), "magnitude", "float", "inf")                                                 \
    X(PROPORTIONAL, partial_factor_is_zero, r->partial_factor = 0, "partial_factor", "above 0",    \
      "0")                                                                                         \
    X(PROPORTIONAL, partial_factor_is_above_one, r->partial_factor = 1.01, "partial_factor",       \
      "at most 1", "1.01")                                                                         \
    X(PROPORTIONAL, partial_factor_is_nan, r->partial_factor = NOT_A_NUMBER, "partial_factor",     \
      "above 0", "nan")                                                                            \
    X(PROPORTIONAL, part_of_a_head, r->rotary_dim = 32, "rotary_dim", "whole head 64", "32")       \
    X(PROPORTIONAL, window_at_the_end, r->rotary_offset = 2, "rotary_dim", "whole head 64", "62")  \
    X(EXPLICIT, no_list, r->frequencies = NULL, "frequencies", "32 numbers for EXPLICIT", "NULL")  \
    X(EXPLICIT, list_is_short, r->list_count = 0, "list_count", "32 numbers in frequencies", "0")  \
    X(EXPLICIT, a_frequency_is_nan, good[7] = NOT_A_NUMBER, "frequencies[7]", "finite", "nan")     \
    X(EXPLICIT, a_frequency_is_infinite, good[0] = INFINITE, "frequencies[0]", "finite", "inf")    \
    X(EXPLICIT, a_frequency_is_a_turn, good[3] = 6.2831853071795873, "frequency of pair 3",        \
      "2 pi", "6.28319")                                                                           \
    X(EXPLICIT, a_frequency_is_a_turn_backwards, good[3] = -7, "frequency of pair 3", "2 pi",      \
      "-7")                                                                                        \
    X(EXPLICIT, divisors_beside, r->divisors = good, "divisors", "NULL", "a list")                 \
    X(LINEAR, divisors_have_another_length, (r->divisors = good, r->list_count = TINY_LIST),       \
      "list_count", "32 numbers in divisors", "4")                                                 \
    X(NONE, a_divisor_is_zero, (r->divisors = good, good[30] = 0), "divisors[30]", "above 0", "0") \
    X(NONE, a_divisor_is_infinite, (r->divisors = good, good[0] = INFINITE), "divisors[0]",        \
      "finite", "inf")                                                                             \
    X(NONE, a_divisor_makes_a_pair_too_fast, r->divisors = hundredths, "frequency of pair 0",      \
      "2 pi", "100")

static const double negative[32] = {-1};
#define FOUR(x) x, x, x, x
static const double hundredths[32] = {FOUR(0.01), FOUR(0.01), FOUR(0.01), FOUR(0.01),
                                      FOUR(0.01), FOUR(0.01), FOUR(0.01), FOUR(0.01)};

#define DEFINE(scaling, name, change, field, wanted, found)                                        \
    static void bad_##scaling##_##name(rhumb_rope *r)                                              \
    {                                                                                              \
        change;                                                                                    \
        (void)r;                                                                                   \
    }
#define ROW(scaling, name, change, field, wanted, found)                                           \
    {#scaling " " #name, RHUMB_ROPE_SCALING_##scaling, bad_##scaling##_##name,                     \
     field, wanted, found},

BAD_ROWS(DEFINE)

static const bad_row bad_rows[] = {BAD_ROWS(ROW)};

static bool refused(const bad_row *row, rhumb_rope *rope)
{
    double f[32], magnitude = 77;
    uint32_t count = 77;
    char field[64], wanted[96], found[64];
    for (size_t i = 0; i < COUNT(f); i++)
        f[i] = 77;
    rhumb_result code = rhumb_rotary_frequencies(rope, 64, 0, f, COUNT(f), &count, &magnitude);
    const char *line = rhumb_last_message(NULL);
    snprintf(field, sizeof field, "rope: %s: ", row->field);
    if (strstr(row->field, "of pair"))
        snprintf(field, sizeof field, "rope: %s: wanted", row->field);
    snprintf(wanted, sizeof wanted, "%s", row->wanted);
    snprintf(found, sizeof found, "found %s", row->found);
    bool told = strncmp(line, field, strlen(field)) == 0 && strstr(line, "wanted ") &&
                strstr(line, wanted) && strstr(line, found) && !strchr(line, '\n');
    bool untouched = count == 77 && magnitude > 76 && magnitude < 78;
    for (size_t i = 0; i < COUNT(f); i++)
        untouched = untouched && f[i] > 76 && f[i] < 78;
    cr_expect_eq(code, RHUMB_ERROR_ARGUMENT, "%s: got %s", row->name, rhumb_result_name(code));
    cr_expect(told, "%s: wanted \"%s ... %s ... %s\", got \"%s\"", row->name, field, wanted, found,
              line);
    cr_expect(untouched, "%s: something was written", row->name);
    return code == RHUMB_ERROR_ARGUMENT && told && untouched;
}

Test(schedule_input, each_bad_parameter_is_refused_with_its_numbers)
{
    for (size_t i = 0; i < COUNT(bad_rows); i++) {
        rhumb_rope rope = good_rope(bad_rows[i].scaling);
        rhumb_result code = rhumb_rotary_frequencies(&rope, 64, 0, NULL, 0, NULL, NULL);
        cr_expect_eq(code, RHUMB_OK, "%s: good before the change: %s", bad_rows[i].name,
                     rhumb_last_message(NULL));
        bad_rows[i].change(&rope);
        (void)refused(&bad_rows[i], &rope);
    }
}

/* What a kind does not read is not looked at, so that a reader of files need not clear it. */
Test(schedule_input, parameters_of_other_kinds_are_ignored)
{
    rhumb_rope rope = good_rope(RHUMB_ROPE_SCALING_LINEAR);
    rope.original_length = rope.max_length = rope.list_count = 0;
    rope.beta_fast = rope.beta_slow = rope.extrapolation = NOT_A_NUMBER;
    rope.low_freq_factor = rope.high_freq_factor = rope.partial_factor = NOT_A_NUMBER;
    rope.short_factors = rope.long_factors = rope.frequencies = NULL;
    cr_expect_eq(rhumb_rotary_frequencies(&rope, 64, 0, NULL, 0, NULL, NULL), RHUMB_OK, "%s",
                 rhumb_last_message(NULL));
}

Test(schedule_input, the_call_itself)
{
    static const struct {
        uint32_t head_dim, capacity;
        const char *part;
    } rows[] = {
        {0, 32, "head_dim: wanted 1 to 576, found 0"},
        {577, 32, "head_dim: wanted 1 to 576, found 577"},
        {64, 31, "capacity: wanted at least 32, found 31"},
    };
    double f[32] = {0};
    rhumb_rope rope = good_rope(RHUMB_ROPE_SCALING_NONE);
    for (size_t i = 0; i < COUNT(rows); i++) {
        cr_expect_eq(rhumb_rotary_frequencies(&rope, rows[i].head_dim, 0, f, rows[i].capacity, NULL,
                                              NULL),
                     RHUMB_ERROR_ARGUMENT);
        cr_expect_not_null(strstr(rhumb_last_message(NULL), rows[i].part), "%s",
                           rhumb_last_message(NULL));
    }
    cr_expect_eq(rhumb_rotary_frequencies(NULL, 64, 0, f, 32, NULL, NULL), RHUMB_ERROR_ARGUMENT);
    rope.struct_size += 8;
    cr_expect_eq(rhumb_rotary_frequencies(&rope, 64, 0, f, 32, NULL, NULL), RHUMB_ERROR_VERSION);
}
