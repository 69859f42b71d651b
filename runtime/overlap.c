/* Whether two views of one VkBuffer have bytes in common. */
#include "internal.h"

/* Strides that both views share, longest first; runs of bytes lie along them. */
struct rows {
    uint32_t count;
    uint64_t a_width, b_width; /* bytes of a run */
    uint64_t stride[3];        /* bytes */
    uint64_t a_count[3];       /* rows along each */
    uint64_t b_count[3];
};

static uint64_t stride_of(const rhumb_placed *v, uint32_t d)
{
    return rhumb_bytes_of(v->view->dtype, v->stride[d]);
}

/* Bytes of a run: a row, or with `folded` all the rows that lie behind each other without a gap,
 * whose dimensions are then marked there. */
static uint64_t width_of(const rhumb_placed *v, bool folded[3])
{
    uint64_t width = rhumb_bytes_of(v->view->dtype, v->view->shape[3]);
    for (uint32_t n = 0; folded && n < 9; n++) { /* in any order of the three */
        uint32_t d = n % 3;
        if (folded[d] || v->view->shape[d] == 1 || stride_of(v, d) != width)
            continue;
        folded[d] = true;
        width *= v->view->shape[d];
    }
    return width;
}

/* False if the views have unlike strides. */
static bool share_strides(const rhumb_placed *a, const rhumb_placed *b, bool fold,
                          struct rows *rows)
{
    bool a_folded[3] = {false}, b_folded[3] = {false};
    rows->count = 0;
    rows->a_width = width_of(a, fold ? a_folded : NULL);
    rows->b_width = width_of(b, fold ? b_folded : NULL);
    for (uint32_t d = 0; d < 3; d++) {
        bool in_a = a->view->shape[d] > 1 && !a_folded[d];
        bool in_b = b->view->shape[d] > 1 && !b_folded[d];
        if (!in_a && !in_b)
            continue;
        uint64_t stride = stride_of(in_a ? a : b, d);
        if (in_a && in_b && stride != stride_of(b, d))
            return false;
        uint32_t at = rows->count++;
        for (; at > 0 && rows->stride[at - 1] < stride; at--) {
            rows->stride[at] = rows->stride[at - 1];
            rows->a_count[at] = rows->a_count[at - 1];
            rows->b_count[at] = rows->b_count[at - 1];
        }
        rows->stride[at] = stride;
        rows->a_count[at] = in_a ? a->view->shape[d] : 1;
        rows->b_count[at] = in_b ? b->view->shape[d] : 1;
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

/* Whether runs along the strides meet; true also where that cannot be told. */
static bool meet_along(const rhumb_placed *a, const rhumb_placed *b, bool by_word, bool fold,
                       bool *told)
{
    struct rows rows;
    *told = false;
    if (!share_strides(a, b, fold, &rows))
        return true;

    /* Words of a run: exact where runs keep their place within a word, else two bytes on either
     * side of runs as they are. */
    uint64_t a_first = a->first, b_first = b->first;
    bool fixed = true;
    for (uint32_t n = 0; n < rows.count; n++)
        fixed &= rows.stride[n] % 4 == 0;
    if (by_word && fixed) {
        a_first = floor_word(a->first);
        b_first = floor_word(b->first);
        rows.a_width = ceil_word(a->first - a_first + rows.a_width);
        rows.b_width = ceil_word(b->first - b_first + rows.b_width);
    } else if (by_word) {
        rows.a_width += 2;
        rows.b_width += 2;
    }
    if (!nested(&rows, rows.a_width > rows.b_width ? rows.a_width : rows.b_width))
        return true;
    *told = true;
    return rows_meet(&rows, 0, (int64_t)b_first - (int64_t)a_first, (int64_t)rows.a_width,
                     (int64_t)rows.b_width);
}

bool rhumb_views_meet(const rhumb_placed *a, const rhumb_placed *b, bool by_word)
{
    uint64_t a_first = by_word ? floor_word(a->first) : a->first;
    uint64_t b_first = by_word ? floor_word(b->first) : b->first;
    uint64_t a_end = by_word ? ceil_word(a->end) : a->end;
    uint64_t b_end = by_word ? ceil_word(b->end) : b->end;
    if (a_end <= b_first || b_end <= a_first)
        return false;
    /* Heads of unlike width, one behind the other in a token's row, have no stride in common, but
     * each tensor's are one run. */
    bool told;
    bool meet = meet_along(a, b, by_word, false, &told);
    return told ? meet : meet_along(a, b, by_word, true, &told);
}
