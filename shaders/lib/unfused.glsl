// What the two stages of unfused attention agree on: batch entries or their windows, and the place of
// their logits in WORKSPACE.
//
// Wants: lib/position.glsl, lib/terms.glsl, lib/window.glsl.

struct Entry {
    uint index;
    uint b;
    uint window; // of the batch entry; 0 without windows
};

Entry entry_of(uint index)
{
    uint n = has_term(TERM_WINDOW) ? window_count() : 1u;
    return Entry(index, index / n, index % n);
}

// `first`: see lengths_of.
Lengths entry_lengths(Entry entry, int lowest, bool first)
{
    if (has_term(TERM_WINDOW))
        return Lengths(int(window_tokens()), int(window_tokens()), 0);
    return lengths_of(entry.b, true, lowest, first);
}

// Row of Q, K, V or O of token t; NO_PIXEL for padding.
uint token_row(Entry entry, uint t)
{
    return has_term(TERM_WINDOW) ? window_pixel(entry.window, t) : t;
}

// First logit of row a, which is in the block of rows that the dispatch covers. `first` is
// WORKSPACE's first element.
uint workspace_row(uint first, Entry entry, uint h, uint a)
{
    return first + ((entry.index * constants.heads + h) * push.row_count + (a - push.first_row)) *
                       uint(push.max_k_length);
}
