/* Whether two views of one VkBuffer have bytes in common. */
#include "internal.h"

/* Strides that both views share, longest first. */
struct rows {
    uint32_t count;
    uint64_t stride[3];  /* bytes */
    uint64_t a_count[3]; /* rows along each */
    uint64_t b_count[3];
};

/* False if the views have unlike strides. */
static bool share_strides(const rhumb_placed *a, const rhumb_placed *b, struct rows *rows)
{
    rows->count = 0;
    for (uint32_t d = 0; d < 3; d++) {
        bool in_a = a->view->shape[d] > 1, in_b = b->view->shape[d] > 1;
        if (!in_a && !in_b)
            continue;
        uint64_t stride = in_a ? a->stride[d] : b->stride[d];
        if (in_a && in_b && a->stride[d] != b->stride[d])
            return false;
        uint32_t at = rows->count++;
        for (; at > 0 && rows->stride[at - 1] < stride * a->size; at--) {
            rows->stride[at] = rows->stride[at - 1];
            rows->a_count[at] = rows->a_count[at - 1];
            rows->b_count[at] = rows->b_count[at - 1];
        }
        rows->stride[at] = stride * a->size;
        rows->a_count[at] = a->view->shape[d];
        rows->b_count[at] = b->view->shape[d];
    }
    return true;
}

/* Each stride is at least as long as all that lies within it, in either view. */
static bool nested(const struct rows *rows, uint64_t width)
{
    uint64_t extent = width;
    for (uint32_t n = rows->count; n-- > 0;) {
        uint64_t most = rows->a_count[n] > rows->b_count[n] ? rows->a_count[n] : rows->b_count[n];
        if (rows->stride[n] < extent)
            return false;
        extent += rows->stride[n] * (most - 1);
    }
    return true;
}

/* Whether any row of a and any row of b overlap, when their first rows lie `delta` bytes apart and
 * the strides from `n` on are still free. As strides are nested, only the multiples of a stride
 * next to delta can matter. */
static bool rows_meet(const struct rows *rows, uint32_t n, int64_t delta, int64_t a_width,
                      int64_t b_width)
{
    if (n == rows->count)
        return delta < a_width && -delta < b_width;
    int64_t stride = (int64_t)rows->stride[n];
    int64_t low = -(int64_t)(rows->a_count[n] - 1);
    int64_t high = (int64_t)(rows->b_count[n] - 1);
    int64_t near = -delta / stride;
    for (int64_t step = near - 1; step <= near + 1; step++) {
        int64_t s = step < low ? low : step > high ? high : step;
        if (rows_meet(rows, n + 1, delta + s * stride, a_width, b_width))
            return true;
    }
    return false;
}

static uint64_t floor_word(uint64_t bytes)
{
    return bytes & ~3ull;
}

static uint64_t ceil_word(uint64_t bytes)
{
    return (bytes + 3) & ~3ull;
}

bool rhumb_views_meet(const rhumb_placed *a, const rhumb_placed *b, bool by_word)
{
    struct rows rows;
    uint64_t a_first = by_word ? floor_word(a->first) : a->first;
    uint64_t b_first = by_word ? floor_word(b->first) : b->first;
    uint64_t a_end = by_word ? ceil_word(a->end) : a->end;
    uint64_t b_end = by_word ? ceil_word(b->end) : b->end;
    if (a_end <= b_first || b_end <= a_first)
        return false;
    if (a->size != b->size || !share_strides(a, b, &rows))
        return true;

    /* Words of a row: exact where rows keep their place within a word, else two bytes on either
     * side of rows as they are. */
    uint64_t a_width = a->view->shape[3] * a->size, b_width = b->view->shape[3] * b->size;
    bool fixed = true;
    for (uint32_t n = 0; n < rows.count; n++)
        fixed &= rows.stride[n] % 4 == 0;
    if (by_word && fixed) {
        a_width = ceil_word(a->first - a_first + a_width);
        b_width = ceil_word(b->first - b_first + b_width);
    } else {
        a_first = a->first;
        b_first = b->first;
        a_width += by_word ? 2 : 0;
        b_width += by_word ? 2 : 0;
    }
    if (!nested(&rows, a_width > b_width ? a_width : b_width))
        return true;
    return rows_meet(&rows, 0, (int64_t)b_first - (int64_t)a_first, (int64_t)a_width,
                     (int64_t)b_width);
}
