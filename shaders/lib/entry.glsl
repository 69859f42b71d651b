// Entries: batch entries, or their windows where a scheme has some; and where their tokens lie.
//
// Wants: lib/position.glsl, lib/terms.glsl, lib/window.glsl, lib/place.glsl.

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

// `counts`, `lane`, `lanes`: see place_entry.
Lengths entry_lengths(Entry entry, int lowest, bool counts, uint lane, uint lanes)
{
    if (has_term(TERM_WINDOW))
        return Lengths(int(window_tokens()), int(window_tokens()), 0);
    return place_entry(entry.b, lowest, counts, lane, lanes);
}

// {index of B, index of L} of token a of Q and O, and of token j of K and V; .y is NO_PIXEL for
// padding.
uvec2 query_token(Entry entry, uint a)
{
    return has_term(TERM_WINDOW) ? uvec2(entry.b, window_pixel(entry.window, a))
                                 : query_place(entry.b, a);
}

uvec2 key_token(Entry entry, uint j)
{
    return has_term(TERM_WINDOW) ? uvec2(entry.b, window_pixel(entry.window, j))
                                 : key_place(entry.b, j);
}
