/* Positions (t, h, w) of text, images and videos, for hosts that have none. */
#include "../internal.h"

#include <math.h>

/* Numbers of a sequence: both within their limits at all times. */
typedef struct extent {
    int64_t next; /* position where a span would begin */
    uint64_t length;
} extent;

static int64_t step_of(const rhumb_mrope_span *s, uint32_t time)
{
    return (int64_t)floor(time * s->interval);
}

static rhumb_result check(uint32_t i, const rhumb_mrope_span *s)
{
    if (s->kind == RHUMB_MROPE_SPAN_TEXT)
        return RHUMB_OK;
    if (s->kind != RHUMB_MROPE_SPAN_GRID)
        return rhumb_fail(NULL, RHUMB_ERROR_ARGUMENT,
                          "mrope_positions: kind of span %u: wanted a rhumb_mrope_span_kind, found "
                          "%d",
                          i, (int)s->kind);
    if (!s->time || !s->height || !s->width)
        return rhumb_fail(NULL, RHUMB_ERROR_ARGUMENT,
                          "mrope_positions: grid of span %u: wanted sizes of 1 or more, found "
                          "%u x %u x %u",
                          i, s->time, s->height, s->width);
    if (!isfinite(s->interval) || s->interval < 0 || s->interval > RHUMB_MAX_LENGTH)
        return rhumb_fail(NULL, RHUMB_ERROR_ARGUMENT,
                          "mrope_positions: interval of span %u: wanted 0 to %d, found %g", i,
                          RHUMB_MAX_LENGTH, s->interval);
    return RHUMB_OK;
}

/* Where `at` is after the span. Positions beyond int32 are never formed: a step is below 2^62. */
static rhumb_result pass(uint32_t i, const rhumb_mrope_span *s, uint32_t rule, extent *at)
{
    bool text = s->kind == RHUMB_MROPE_SPAN_TEXT;
    uint64_t plane = (uint64_t)s->height * s->width;
    uint64_t tokens = text ? s->length : plane > RHUMB_MAX_LENGTH ? plane : plane * s->time;
    int64_t most = text ? s->length : s->height > s->width ? s->height : s->width;
    int64_t steps = text ? 0 : step_of(s, s->time - 1) + 1;
    if (tokens > RHUMB_MAX_LENGTH - at->length)
        return rhumb_fail(NULL, RHUMB_ERROR_ARGUMENT,
                          "mrope_positions: spans: wanted at most %d tokens, found more at span %u",
                          RHUMB_MAX_LENGTH, i);
    int64_t end = at->next + (steps > most ? steps : most); /* above all positions of the span */
    if (end > INT32_MAX)
        return rhumb_fail(NULL, RHUMB_ERROR_ARGUMENT,
                          "mrope_positions: spans: wanted positions below %d, found %lld behind "
                          "span %u",
                          INT32_MAX, (long long)end, i);
    at->length += tokens;
    at->next = rule == RHUMB_MROPE_ADVANCE_LARGEST ? end : at->next + most;
    return RHUMB_OK;
}

static void fill(const rhumb_mrope_span *s, const extent *at, uint64_t length, int32_t *positions)
{
    int32_t *t = positions + at->length, *h = t + length, *w = h + length;
    int32_t base = (int32_t)at->next;
    if (s->kind == RHUMB_MROPE_SPAN_TEXT) {
        for (uint32_t n = 0; n < s->length; n++)
            t[n] = h[n] = w[n] = base + (int32_t)n;
        return;
    }
    for (uint32_t time = 0; time < s->time; time++)
        for (uint32_t row = 0; row < s->height; row++)
            for (uint32_t column = 0; column < s->width; column++) {
                *t++ = base + (int32_t)step_of(s, time);
                *h++ = base + (int32_t)row;
                *w++ = base + (int32_t)column;
            }
}

static rhumb_result adopt(const rhumb_mrope_span *spans, uint32_t i, rhumb_mrope_span *s)
{
    const unsigned char *at = (const unsigned char *)spans + (size_t)i * spans->struct_size;
    rhumb_init_mrope_span(s);
    const uint32_t size = ((const rhumb_header *)(const void *)at)->struct_size;
    if (size != spans->struct_size)
        return rhumb_fail(NULL, RHUMB_ERROR_VERSION,
                          "mrope_positions: struct_size of span %u: wanted %u as that of span 0, "
                          "found %u",
                          i, spans->struct_size, size);
    RHUMB_TRY(rhumb_adopt(NULL, "mrope_positions", "rhumb_mrope_span", at, RHUMB_TYPE_MROPE_SPAN, s,
                          sizeof *s));
    return check(i, s);
}

rhumb_result rhumb_mrope_positions(const rhumb_mrope_span *spans, uint32_t count, uint32_t rule,
                                   int32_t first, int32_t *positions, uint32_t capacity,
                                   uint32_t *length, int32_t *next)
{
    rhumb_mrope_span s;
    extent end = {.next = first};
    if (!spans && count)
        return rhumb_fail(NULL, RHUMB_ERROR_ARGUMENT,
                          "mrope_positions: spans: wanted %u, found NULL", count);
    if (rule > RHUMB_MROPE_ADVANCE_PLANE)
        return rhumb_fail(NULL, RHUMB_ERROR_ARGUMENT,
                          "mrope_positions: rule: wanted a rhumb_mrope_advance, found %u", rule);
    for (uint32_t i = 0; i < count; i++) {
        RHUMB_TRY(adopt(spans, i, &s));
        RHUMB_TRY(pass(i, &s, rule, &end));
    }
    if (positions && capacity / 3 < end.length)
        return rhumb_fail(NULL, RHUMB_ERROR_ARGUMENT,
                          "mrope_positions: capacity: wanted 3 x %llu elements, found %u",
                          (unsigned long long)end.length, capacity);
    extent at = {.next = first};
    for (uint32_t i = 0; positions && i < count; i++) {
        RHUMB_TRY(adopt(spans, i, &s));
        fill(&s, &at, end.length, positions);
        RHUMB_TRY(pass(i, &s, rule, &at));
    }
    if (length)
        *length = (uint32_t)end.length;
    if (next)
        *next = (int32_t)end.next;
    return RHUMB_OK;
}
