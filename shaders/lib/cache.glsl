// Rows of a key-value cache. Row a of K and V goes to
//   POSITION   append_position + a
//   RING       (append_position + a) modulo the capacity
//   SLOTS      SLOTS[b, a]; -1 is none
// A row that would lie outside the cache is skipped, and counted in STATUS.

layout(constant_id = SPEC_APPEND) const uint APPEND = APPEND_NONE;
RHUMB_READ_VIEW(slots, VIEW_SLOTS)

int append_position_of(uint b, int q_offset)
{
    int position = push.append_position;
    if (has_view(VIEW_LENGTHS)) {
        int own = int(lengths_word(lengths_at(0u, 0u, b) + 3u));
        position = own != UNSET ? own : position;
    }
    return position != UNSET ? position : q_offset;
}

// False if row a goes nowhere; `first` is true for one invocation of a row: the one that counts.
bool find_cache_row(uint b, uint a, int q_offset, bool first, out uint row)
{
    bool wanted = true;
    bool legal = true;
    if (APPEND == APPEND_SLOTS) {
        row = slots_word(slots_at(0u, 0u, b) + a);
        wanted = row != 0xffffffffu;
    } else {
        // A negative position plus a row that reaches the cache wraps to the row's place in it.
        int position = append_position_of(b, q_offset);
        row = uint(position) + a;
        if (APPEND == APPEND_RING) {
            legal = position >= 0;
            row %= push.capacity;
        }
    }
    legal = legal && row < push.capacity;
    if (wanted && !legal && first && has_view(VIEW_STATUS))
        status_add(1u);
    return wanted && legal;
}
