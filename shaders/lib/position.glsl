// Lengths, positions and visibility.
//
// Row a of Q (0-based in its batch entry) and key j have the positions
//   INDEX order      pos_q = a + q_offset,         pos_k = j
//   POSITION order   pos_q = POSITIONS_Q[b, a],    pos_k = POSITIONS_K[b, j]
// and key j is visible to row a iff j < k_length, low <= pos_k or 0 <= pos_k < kept_keys, and
// pos_k <= high, where low and high are the first and the last position of the row's chunk of
// positions that the window leaves:
//   low = max(pos_q - window_left + 1, chunk floor(pos_q / chunk))
//   high = min(pos_q + window_right, chunk floor(pos_q / chunk) + chunk - 1), pos_q if causal

#define UNSET (-2147483647 - 1)
#define NO_WINDOW 2147483647

RHUMB_READ_VIEW(positions_q, VIEW_POSITIONS_Q)
RHUMB_READ_VIEW(positions_k, VIEW_POSITIONS_K)
RHUMB_READ_VIEW(lengths, VIEW_LENGTHS)
layout(constant_id = SPEC_ROTARY) const uint ROTARY = 0u;
RHUMB_COUNT_VIEW(status, VIEW_STATUS)

// Where the rows and keys of the batch entry begin in a view that all entries share: packed
// sequences, by lib/place.glsl.
uint first_q = 0u;
uint first_k = 0u;

struct Lengths {
    int q;
    int k;
    int q_offset; // resolved: bottom-right where it was unset, if there are keys, else 0
};

int clamp_counted(int value, int maximum, inout uint clamped)
{
    int c = clamp(value, 0, maximum);
    if (c != value)
        clamped++;
    return c;
}

// `lowest` is the least q_offset that is legal here; `first` is true for one invocation of a batch
// entry: the one that counts.
Lengths lengths_of(uint b, bool has_keys, int lowest, bool first)
{
    Lengths n = Lengths(push.q_length, push.k_length, push.q_offset);
    if (has_view(VIEW_LENGTHS)) {
        uint e = lengths_at(0u, 0u, b);
        int k = int(lengths_word(e));
        int q = int(lengths_word(e + 1u));
        int offset = int(lengths_word(e + 2u));
        uint clamped = 0u;
        if (k != UNSET && has_keys)
            n.k = clamp_counted(k, push.max_k_length, clamped);
        if (q != UNSET)
            n.q = clamp_counted(q, push.max_q_length, clamped);
        if (offset != UNSET) {
            // Sums and differences of indices stay inside an int.
            n.q_offset = clamp(offset, lowest, NO_WINDOW - push.max_q_length);
            if (n.q_offset != offset)
                clamped++;
        }
        if (first && clamped != 0u && has_view(VIEW_STATUS))
            status_add(clamped);
    }
    if (n.q_offset == UNSET)
        n.q_offset = has_keys ? n.k - n.q : 0;
    return n;
}

// Position of row a, for rotation and for POSITION order.
int position_q(uint b, uint a, int q_offset)
{
    return has_view(VIEW_POSITIONS_Q)
               ? int(positions_q_word(positions_q_at(0u, 0u, b) + first_q + a))
               : int(a) + q_offset;
}

// The row of POSITIONS_Q that a rotary pair follows.
uint axis_of(uint pair)
{
    return (constants.axes[pair >> 6][(pair >> 4) & 3u] >> (2u * (pair & 15u))) & 3u;
}

// Position of row a along an axis; a plan without several has one for all.
int axis_position(uint b, uint a, int q_offset, uint axis)
{
    if ((ROTARY & ROTARY_AXES) == 0u)
        return position_q(b, a, q_offset);
    return int(positions_q_word(positions_q_at(0u, axis, b) + first_q + a));
}

// Position of row a from which a rotary pair takes its angle: pairs may follow different axes.
int rotary_position(uint b, uint a, int q_offset, uint pair)
{
    if ((ROTARY & ROTARY_AXES) == 0u)
        return position_q(b, a, q_offset);
    return axis_position(b, a, q_offset, axis_of(pair));
}

int position_k(uint b, uint j)
{
    return has_view(VIEW_POSITIONS_K)
               ? int(positions_k_word(positions_k_at(0u, 0u, b) + first_k + j))
               : int(j);
}

// pos_k - pos_q, cut to an int.
int position_difference(int pos_k, int pos_q)
{
    return pos_k > pos_q ? int(min(uint(pos_k) - uint(pos_q), 0x7fffffffu))
                         : -int(min(uint(pos_q) - uint(pos_k), 0x7fffffffu));
}

// Distance by which relative terms go: of the position views where both are there, else of the
// indices.
int key_minus_query(uint b, uint a, uint j, int q_offset)
{
    bool viewed = has_view(VIEW_POSITIONS_Q) && has_view(VIEW_POSITIONS_K);
    return position_difference(viewed ? position_k(b, j) : int(j),
                               viewed ? position_q(b, a, q_offset) : int(a) + q_offset);
}

// First and last position of the chunk of a position; cut to ints.
ivec2 chunk_of(int position)
{
    int edge = position / push.chunk * push.chunk; // the one towards 0
    if (edge > position)
        return ivec2(edge >= UNSET + push.chunk ? edge - push.chunk : UNSET, edge - 1);
    return ivec2(edge, edge <= NO_WINDOW - push.chunk ? edge + (push.chunk - 1) : NO_WINDOW);
}

// Positions that a row sees, beside kept keys; cut to ints.
struct Reach {
    int low;
    int high;
};

Reach reach_of(int pos_q)
{
    Reach r = Reach(UNSET, NO_WINDOW);
    if (push.window_left != NO_WINDOW && pos_q >= UNSET + push.window_left)
        r.low = pos_q - push.window_left + 1;
    if (push.window_right < NO_WINDOW - pos_q || pos_q < 0)
        r.high = push.window_right == NO_WINDOW ? NO_WINDOW : pos_q + push.window_right;
    if (push.chunk != NO_WINDOW) {
        ivec2 chunk = chunk_of(pos_q);
        r.low = max(r.low, chunk.x);
        r.high = min(r.high, chunk.y);
    }
    if ((push.flags & FLAG_CAUSAL) != 0u)
        r.high = pos_q;
    return r;
}

// No row sees a key at this distance: a table's row there may hold anything.
bool never_seen(int delta)
{
    if (constants.mask_order == MASK_ORDER_POSITION)
        return false;
    bool late = delta > push.window_right || ((push.flags & FLAG_CAUSAL) != 0u && delta > 0);
    bool early = push.window_left != NO_WINDOW && delta <= -push.window_left;
    return late || (early && push.kept_keys == 0);
}

// Of row a, in the plan's order.
Reach row_reach_of(uint b, uint a, Lengths n)
{
    return reach_of(constants.mask_order == MASK_ORDER_POSITION ? position_q(b, a, n.q_offset)
                                                                : int(a) + n.q_offset);
}

// Two comparisons and no branch; kept keys are never too early.
bool position_visible(Reach r, int pos_k)
{
    bool early = (uint(pos_k) < uint(push.kept_keys) ? NO_WINDOW : pos_k) < r.low;
    bool late = pos_k > r.high;
    return !(early || late);
}

// Keys that any of some rows may see: [0, kept) and [first, end). Nothing: end is 0.
struct KeyRange {
    int kept;
    int first;
    int end;
};

// Of the rows [first_row, last_row], in INDEX order. In POSITION order nothing is known without
// reading positions: all keys.
KeyRange key_range(uint first_row, uint last_row, Lengths n)
{
    KeyRange range = KeyRange(0, 0, n.k);
    if (constants.mask_order == MASK_ORDER_POSITION)
        return range;
    // Neither end of a row's reach is before that of a row before it.
    int low = reach_of(int(first_row) + n.q_offset).low;
    int high = reach_of(int(last_row) + n.q_offset).high;
    range.end = high < n.k ? max(high + 1, 0) : n.k;
    range.first = max(low, 0);
    range.kept = clamp(push.kept_keys, 0, range.end);
    if (range.first >= range.end)
        range.first = range.end = range.kept;
    return range;
}

// Blocks of `step` keys, aligned to key 0: the sum of a row has one order, whatever is skipped around
// it.
int first_block(KeyRange range, int step)
{
    return range.kept > 0 ? 0 : range.first / step * step;
}

// The first one from key `from` on, a multiple of `step`.
int first_block_from(KeyRange range, int from, int step)
{
    return range.kept > from ? from : max(from, range.first / step * step);
}

int next_block(KeyRange range, int block, int step)
{
    int next = block + step;
    return next < range.kept ? next : max(next, range.first / step * step);
}

// Whether every key of [first_key, first_key + count) is visible to every one of the rows.
bool all_visible(uint first_row, uint last_row, int first_key, int count, Lengths n)
{
    if (first_key + count > n.k)
        return false;
    bool masked = (push.flags & FLAG_CAUSAL) != 0u || push.window_left != NO_WINDOW ||
                  push.window_right != NO_WINDOW || push.chunk != NO_WINDOW;
    if (!masked)
        return true;
    if (constants.mask_order == MASK_ORDER_POSITION)
        return false;
    return reach_of(int(last_row) + n.q_offset).low <= first_key &&
           reach_of(int(first_row) + n.q_offset).high >= first_key + count - 1;
}
