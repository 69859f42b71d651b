/* rhumb_mrope_positions: positions of text, images and videos for hosts that have none. */
#include <rhumb/rhumb_schemes.h>

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static rhumb_mrope_span text(uint32_t length)
{
    rhumb_mrope_span s;
    rhumb_init_mrope_span(&s);
    s.length = length;
    return s;
}

static rhumb_mrope_span grid(uint32_t time, uint32_t height, uint32_t width)
{
    rhumb_mrope_span s;
    rhumb_init_mrope_span(&s);
    s.kind = RHUMB_MROPE_SPAN_GRID;
    s.time = time;
    s.height = height;
    s.width = width;
    return s;
}

/* `want` [3, length] and what comes next. */
static void expect(const rhumb_mrope_span *spans, uint32_t count, rhumb_mrope_advance rule,
                   int32_t first, const int32_t *want, uint32_t want_length, int32_t want_next)
{
    int32_t got[3 * 64];
    uint32_t length = 0;
    int32_t next = 0;
    memset(got, 0x55, sizeof got);
    cr_assert_eq(
        rhumb_mrope_positions(spans, count, rule, first, got, 3 * want_length, &length, &next),
        RHUMB_OK, "%s", rhumb_last_message(NULL));
    cr_expect_eq(length, want_length, "length %u, want %u", length, want_length);
    cr_expect_eq(next, want_next, "next %d, want %d", next, want_next);
    for (uint32_t i = 0; i < 3 * want_length; i++) {
        cr_expect_eq(got[i], want[i], "row %c, token %u: got %d, want %d", "thw"[i / want_length],
                     i % want_length, got[i], want[i]);
    }
    for (size_t i = 3 * (size_t)want_length; i < sizeof got / sizeof got[0]; i++) {
        cr_expect_eq(got[i], 0x55555555, "element %zu lies beyond and was written", i);
    }
}

Test(mrope_positions, of_text_and_two_images_are_those_of_field_test_10)
{
    const rhumb_mrope_span spans[] = {text(3), grid(1, 2, 3), text(2), grid(1, 3, 2), text(1)};
    static const int32_t want[3][18] = {
        {0, 1, 2, 3, 3, 3, 3, 3, 3, 6, 7, 8, 8, 8, 8, 8, 8, 11},
        {0, 1, 2, 3, 3, 3, 4, 4, 4, 6, 7, 8, 8, 9, 9, 10, 10, 11},
        {0, 1, 2, 3, 4, 5, 3, 4, 5, 6, 7, 8, 9, 8, 9, 8, 9, 11},
    };
    /* one time step: both rules agree */
    expect(spans, 5, RHUMB_MROPE_ADVANCE_LARGEST, 0, want[0], 18, 12);
    expect(spans, 5, RHUMB_MROPE_ADVANCE_PLANE, 0, want[0], 18, 12);
}

Test(mrope_positions, text_decoded_after_images_goes_on_at_index_plus_delta)
{
    const rhumb_mrope_span spans[] = {text(3), grid(1, 4, 5), text(2), text(6)};
    int32_t prompt[3 * 25], whole[3 * 31], next, delta;
    uint32_t length;
    cr_assert_eq(
        rhumb_mrope_positions(spans, 3, RHUMB_MROPE_ADVANCE_LARGEST, 0, prompt, 75, &length, &next),
        RHUMB_OK);
    cr_assert_eq(
        rhumb_mrope_positions(spans, 4, RHUMB_MROPE_ADVANCE_LARGEST, 0, whole, 93, NULL, NULL),
        RHUMB_OK);
    delta = next - (int32_t)length;
    cr_expect_lt(delta, 0, "an image takes fewer positions than tokens");
    for (int32_t i = 25; i < 31; i++) {
        for (int32_t row = 0; row < 3; row++) {
            cr_expect_eq(whole[31 * row + i], i + delta, "token %d", (int)i);
        }
    }
}

Test(mrope_positions, the_two_rules_differ_behind_a_video_that_is_longer_than_wide)
{
    const rhumb_mrope_span spans[] = {text(1), grid(6, 1, 2), text(1)};
    static const int32_t largest[3][14] = {
        {0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7},
        {0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 7},
        {0, 1, 2, 1, 2, 1, 2, 1, 2, 1, 2, 1, 2, 7},
    };
    int32_t plane[3][14];
    memcpy(plane, largest, sizeof plane);
    plane[0][13] = plane[1][13] = plane[2][13] = 3;
    expect(spans, 3, RHUMB_MROPE_ADVANCE_LARGEST, 0, largest[0], 14, 8);
    expect(spans, 3, RHUMB_MROPE_ADVANCE_PLANE, 0, plane[0], 14, 4);
}

/* Qwen2.5-VL: 2 tokens a second; steps of 1 s are 2 apart, of 0.75 s 1.5, rounded down. */
Test(mrope_positions, video_steps_are_an_interval_apart_rounded_down)
{
    rhumb_mrope_span spans[] = {grid(4, 1, 1)};
    static const int32_t seconds[3][4] = {{0, 2, 4, 6}, {0, 0, 0, 0}, {0, 0, 0, 0}};
    static const int32_t quarters[3][4] = {{0, 1, 3, 4}, {0, 0, 0, 0}, {0, 0, 0, 0}};
    static const int32_t still[3][4] = {{0}};
    spans[0].interval = 2.0;
    expect(spans, 1, RHUMB_MROPE_ADVANCE_LARGEST, 0, seconds[0], 4, 7);
    expect(spans, 1, RHUMB_MROPE_ADVANCE_PLANE, 0, seconds[0], 4, 1);
    spans[0].interval = 1.5;
    expect(spans, 1, RHUMB_MROPE_ADVANCE_LARGEST, 0, quarters[0], 4, 5);
    spans[0].interval = 0.0;
    expect(spans, 1, RHUMB_MROPE_ADVANCE_LARGEST, 0, still[0], 4, 1);
}

Test(mrope_positions, begin_where_they_are_told_and_nothing_is_a_sequence_too)
{
    const rhumb_mrope_span spans[] = {text(2), text(0), grid(1, 1, 2)};
    static const int32_t want[3][4] = {{-1, 0, 1, 1}, {-1, 0, 1, 1}, {-1, 0, 1, 2}};
    static const int32_t top[3][2] = {{INT32_MAX - 2, INT32_MAX - 1},
                                      {INT32_MAX - 2, INT32_MAX - 1},
                                      {INT32_MAX - 2, INT32_MAX - 1}};
    expect(spans, 3, RHUMB_MROPE_ADVANCE_LARGEST, -1, want[0], 4, 3);
    expect(spans, 1, RHUMB_MROPE_ADVANCE_LARGEST, INT32_MAX - 2, top[0], 2, INT32_MAX);
    expect(NULL, 0, RHUMB_MROPE_ADVANCE_LARGEST, 5, NULL, 0, 5);
}

Test(mrope_positions, an_older_span_is_completed_and_stepped_by_its_own_size)
{
    static const int32_t t[4] = {7, 8, 8, 9};
    _Alignas(8) unsigned char packed[2 * sizeof(rhumb_mrope_span)];
    uint32_t size = (uint32_t)offsetof(rhumb_mrope_span, interval);
    int32_t got[3 * 4], next;
    for (int i = 0; i < 2; i++) {
        rhumb_mrope_span s = grid(2, 1, 1);
        s.struct_size = size;
        s.interval = 99.0; /* the next one's place in an array of the older struct */
        memcpy(packed + (size_t)i * size, &s, sizeof s);
    }
    cr_assert_eq(rhumb_mrope_positions((const rhumb_mrope_span *)(const void *)packed, 2,
                                       RHUMB_MROPE_ADVANCE_PLANE, 7, got, 12, NULL, &next),
                 RHUMB_OK, "%s", rhumb_last_message(NULL));
    cr_expect_arr_eq(got, t, sizeof t);
    cr_expect_eq(next, 9);
}

static void refuse(const rhumb_mrope_span *spans, uint32_t count, uint32_t rule, int32_t first,
                   uint32_t capacity, rhumb_result code, const char *message)
{
    int32_t positions[3 * 64], next = 77;
    uint32_t length = 77;
    memset(positions, 0x55, sizeof positions);
    cr_expect_eq(
        rhumb_mrope_positions(spans, count, rule, first, positions, capacity, &length, &next), code,
        "%s", message);
    cr_expect(strstr(rhumb_last_message(NULL), message) != NULL, "wanted '%s', found '%s'", message,
              rhumb_last_message(NULL));
    cr_expect(length == 77 && next == 77, "%s: written", message);
    for (size_t i = 0; i < sizeof positions / sizeof positions[0]; i++) {
        cr_expect_eq(positions[i], 0x55555555, "%s: element %zu written", message, i);
    }
}

Test(mrope_positions, bad_spans_are_refused_and_nothing_is_written)
{
    rhumb_mrope_span s[2] = {text(2), grid(1, 2, 2)};
    const uint32_t largest = RHUMB_MROPE_ADVANCE_LARGEST;
    for (int size = 0; size < 3; size++) {
        s[1] = grid(size == 0 ? 0 : 1, size == 1 ? 0 : 2, size == 2 ? 0 : 3);
        char want[64];
        (void)snprintf(want, sizeof want,
                       "grid of span 1: wanted sizes of 1 or more, found %u x "
                       "%u x %u",
                       s[1].time, s[1].height, s[1].width);
        refuse(s, 2, largest, 0, 192, RHUMB_ERROR_ARGUMENT, want);
    }
    const double intervals[] = {(double)NAN, (double)INFINITY, -0.5, 1e30};
    for (size_t i = 0; i < sizeof intervals / sizeof intervals[0]; i++) {
        s[1] = grid(2, 2, 2);
        s[1].interval = intervals[i];
        refuse(s, 2, largest, 0, 192, RHUMB_ERROR_ARGUMENT, "interval of span 1: wanted 0 to");
    }
    s[1] = grid(1, 2, 2);
    s[1].kind = (rhumb_mrope_span_kind)2;
    refuse(s, 2, largest, 0, 192, RHUMB_ERROR_ARGUMENT, "kind of span 1");
    s[1] = grid(1, 2, 2);
    refuse(s, 2, 2, 0, 192, RHUMB_ERROR_ARGUMENT, "rule: wanted a rhumb_mrope_advance, found 2");
    refuse(s, 2, largest, 0, 17, RHUMB_ERROR_ARGUMENT, "capacity: wanted 3 x 6 elements, found 17");
    refuse(NULL, 2, largest, 0, 192, RHUMB_ERROR_ARGUMENT, "spans: wanted 2, found NULL");
    s[1].struct_size = (uint32_t)offsetof(rhumb_mrope_span, interval);
    refuse(s, 2, largest, 0, 192, RHUMB_ERROR_VERSION,
           "as that of span 0, found");
    s[1] = grid(1, 2, 2);
    s[1].type = RHUMB_TYPE_MROPE;
    refuse(s, 2, largest, 0, 192, RHUMB_ERROR_VERSION, "rhumb_mrope_span: wanted type");
    s[1] = grid(1, 2, 2);
    s[1].next = &s[0];
    refuse(s, 2, largest, 0, 192, RHUMB_ERROR_VERSION, "wanted no extension");
}

Test(mrope_positions, beyond_int32_are_refused_on_each_axis)
{
    rhumb_mrope_span s[2] = {text(2), grid(1, 2, 2)};
    const uint32_t rules[] = {RHUMB_MROPE_ADVANCE_LARGEST, RHUMB_MROPE_ADVANCE_PLANE};
    for (size_t i = 0; i < 2; i++) {
        refuse(s, 1, rules[i], INT32_MAX - 1, 192, RHUMB_ERROR_ARGUMENT, "behind span 0");
        refuse(s, 2, rules[i], INT32_MAX - 3, 192, RHUMB_ERROR_ARGUMENT, "behind span 1");
        s[1] = grid(3, 1, 1);
        s[1].interval = 1073741824.0;
        refuse(s, 2, rules[i], 0, 192, RHUMB_ERROR_ARGUMENT,
               "wanted positions below 2147483647, found 2147483651 behind span 1");
        s[1] = grid(UINT32_MAX, UINT32_MAX, UINT32_MAX);
        refuse(s, 2, rules[i], 0, 192, RHUMB_ERROR_ARGUMENT, "tokens, found more at span 1");
        s[1] = text(UINT32_MAX);
        refuse(s, 2, rules[i], 0, 192, RHUMB_ERROR_ARGUMENT, "tokens, found more at span 1");
        s[1] = grid(1, 2, 2);
    }
}

Test(mrope_positions, sizes_can_be_asked_for_first)
{
    const rhumb_mrope_span spans[] = {text(3), grid(2, 3, 4)};
    uint32_t length;
    int32_t next;
    cr_expect_eq(
        rhumb_mrope_positions(spans, 2, RHUMB_MROPE_ADVANCE_LARGEST, 0, NULL, 0, &length, NULL),
        RHUMB_OK);
    cr_expect_eq(length, 27);
    cr_expect_eq(
        rhumb_mrope_positions(spans, 2, RHUMB_MROPE_ADVANCE_LARGEST, 0, NULL, 0, NULL, &next),
        RHUMB_OK);
    cr_expect_eq(next, 7);
}
