// The logit of a pair, any scheme: four staged rows and one key, before any mask:
//
//   S = s ((q + u) . k + (q + w) . A[rho] + k . C[rho] + r[rho] + (q + z) . G[segment]) + b[rho]
//   S = cos(q, k) exp(min(HEAD_SCALE, max_log_scale)) + b[rho]          cosine attention
//
// Wants: the view q, lib/io.glsl, position, trig, terms, window, rows, place, entry, staged_rows, a work
// group of GENERIC_INVOCATIONS.

// name_channels(e, n): four elements of a row of which n are left, zeros beyond its end.
#define CHANNELS_VIEW(name, ID)                                                                    \
    RHUMB_READ_VIEW(name, ID)                                                                      \
    vec4 name##_channels(uint e, uint n)                                                           \
    {                                                                                              \
        if (n >= 4u)                                                                               \
            return ALIGNED != 0u ? name##_load4_aligned(e) : name##_load4(e);                      \
        return vec4(name##_load(e), n > 1u ? name##_load(e + 1u) : 0.0,                            \
                    n > 2u ? name##_load(e + 2u) : 0.0, 0.0);                                      \
    }

CHANNELS_VIEW(k, VIEW_K)
CHANNELS_VIEW(query_table, VIEW_QUERY_TABLE)
CHANNELS_VIEW(key_table, VIEW_KEY_TABLE)
RHUMB_READ_VIEW(table_scalar, VIEW_TABLE_SCALAR)
CHANNELS_VIEW(content_bias, VIEW_CONTENT_BIAS)
CHANNELS_VIEW(position_bias, VIEW_POSITION_BIAS)
CHANNELS_VIEW(segment_bias, VIEW_SEGMENT_BIAS)
CHANNELS_VIEW(segment_table, VIEW_SEGMENT_TABLE)
RHUMB_READ_VIEW(row_scale, VIEW_ROW_SCALE)
RHUMB_READ_VIEW(head_scale, VIEW_HEAD_SCALE)

#define NO_ELEMENT 0xffffffffu

Entry entry;
Lengths len;
uvec4 row_a;       // index of each of the four rows
uvec4 row_h;       // and its head; they share K and V. One head with terms of vectors
bvec4 row_exists;
uvec2 row_token[4]; // query_token of each
uvec2 row_place[4]; // window_place of each
vec4 q_squares;    // cosine attention: sums of squares of the rows

// Rows of Q times `factor` into rows[], rotated where the plan says so; zeros for rows that do not
// exist, for padding, and from head_dim up to a multiple of 4. Ends with a barrier.
void load_rows(uint lane, float factor)
{
    uint end = (constants.head_dim + 3u) & ~3u;
    uvec4 at = uvec4(0u);
    bvec4 loaded = bvec4(false);
    vec4 scale = vec4(factor);
    [[unroll]] for (uint r = 0u; r < 4u; r++) {
        uvec2 place = query_token(entry, row_a[r]);
        row_token[r] = place;
        if (has_term(TERM_WINDOW))
            row_place[r] = window_place(row_a[r]);
        loaded[r] = row_exists[r] && place.y != NO_PIXEL;
        at[r] = q_at(place.x, row_h[r], loaded[r] ? place.y : 0u);
        if (has_view(VIEW_ROW_SCALE) && !has_term(TERM_ROW_SCALE) && loaded[r])
            scale[r] *= row_scale_load(row_scale_at(0u, place.x, row_h[r]) + place.y);
    }
    for (uint d = lane; d < end; d += GENERIC_INVOCATIONS) {
        vec4 x = vec4(0.0);
        [[unroll]] for (uint r = 0u; r < 4u; r++)
            if (loaded[r] && d < constants.head_dim)
                x[r] = q_load(at[r] + d);
        rows[d] = x * scale;
    }
    barrier();
    uint pairs = PAIRING == PAIRING_NONE ? 0u : constants.rotary_dim / 2u;
    for (uint i = lane; i < pairs; i += GENERIC_INVOCATIONS) {
        uint first = constants.rotary_offset + (PAIRING == PAIRING_HALF ? i : 2u * i);
        uint second = first + (PAIRING == PAIRING_HALF ? pairs : 1u);
        vec4 c, s;
        [[unroll]] for (uint r = 0u; r < 4u; r++) {
            int p = row_exists[r] ? rotary_position(entry.b, row_a[r], len.q_offset, i) : 0;
            vec2 cs = rotary_cos_sin(p, i, false);
            c[r] = cs.x;
            s[r] = cs.y;
        }
        vec4 x = rows[first];
        vec4 y = rows[second];
        rows[first] = x * c - y * s;
        rows[second] = x * s + y * c;
    }
    barrier();
    q_squares = vec4(0.0);
    if (has_term(TERM_COSINE))
        [[dont_unroll]] for (uint d = 0u; d < constants.head_dim; d++)
            q_squares += rows[d] * rows[d];
}

// What key j meets in row r beside its channels.
struct Pair {
    int delta;
    int row;           // of the tables; NO_ROW
    uint query_table;  // first elements
    uint key_table;    // NO_ELEMENT: none
    uint segment;
};

Pair pair_of(uint j, uint r)
{
    Pair p = Pair(0, NO_ROW, NO_ELEMENT, NO_ELEMENT, 0u);
    if (has_term(TERM_WINDOW)) {
        p.row = window_row_from(row_a[r], row_place[r], j);
        return p;
    }
    if (TERMS == 0u)
        return p;
    p.delta = table_distance(entry.b, key_minus_query(entry.b, row_a[r], j, len.q_offset));
    p.row = row_of(p.delta);
    int mirrored = has_flag(TERM_FLAG_KEY_MIRRORED) ? row_of(-p.delta) : p.row;
    if (has_term(TERM_QUERY) && p.row != NO_ROW)
        p.query_table = query_table_at(0u, row_h[r], uint(p.row));
    if (has_term(TERM_KEY) && mirrored != NO_ROW)
        p.key_table = key_table_at(0u, row_h[r], uint(mirrored));
    if (has_term(TERM_SEGMENT)) {
        bool same = segments_q_word(segments_q_at(0u, 0u, entry.b) + row_a[r]) ==
                    segments_k_word(segments_k_at(0u, 0u, entry.b) + j);
        p.segment = segment_table_at(0u, row_h[r], same ? 0u : 1u);
    }
    return p;
}

// b of row r and key j.
float bias_of(uint j, uint r, Pair p)
{
    float gate = 1.0;
    if (has_term(TERM_ROW_SCALE))
        gate = row_scale_load(row_scale_at(0u, row_token[r].x, row_h[r]) + row_token[r].y);
    return scalar_bias(row_h[r], p.row, gate, p.delta, int(j), position_k(entry.b, j), len.k);
}

// Sums over channels: products with key j and with table rows, and for cosines the key's squares.
struct Sums {
    vec4 products;
    float k_squares;
};

// Over every `stride`th channel from `first` on, and the three after each.
Sums sum_channels(uint j, Pair p[4], uint first, uint stride)
{
    uvec2 place = key_token(entry, j);
    bool real = place.y != NO_PIXEL;
    uint k_first = k_at(place.x, row_h.x / heads_per_kv_head(), real ? place.y : 0u);
    Sums sums = Sums(vec4(0.0), 0.0);
    [[dont_unroll]] for (uint d = first; d < constants.head_dim; d += stride) {
        uint n = constants.head_dim - d;
        vec4 x = real ? k_channels(k_first + d, n) : vec4(0.0);
        sums.products += x.x * rows[d] + x.y * rows[d + 1u] + x.z * rows[d + 2u] +
                         x.w * rows[d + 3u];
        if (has_term(TERM_COSINE))
            sums.k_squares += dot(x, x);
        if (!has_term(TERM_CONTENT_BIAS | TERM_QUERY | TERM_KEY | TERM_SEGMENT))
            continue;
        mat4 y = transpose(mat4(rows[d], rows[d + 1u], rows[d + 2u], rows[d + 3u]));
        vec4 u = vec4(0.0), w = vec4(0.0), z = vec4(0.0);
        if (has_term(TERM_CONTENT_BIAS))
            u = content_bias_channels(content_bias_at(0u, 0u, row_h.x) + d, n);
        if (has_term(TERM_POSITION_BIAS))
            w = position_bias_channels(position_bias_at(0u, 0u, row_h.x) + d, n);
        else if (has_flag(TERM_FLAG_FOLDED))
            w = u;
        if (has_term(TERM_SEGMENT))
            z = segment_bias_channels(segment_bias_at(0u, 0u, row_h.x) + d, n);
        if (has_term(TERM_CONTENT_BIAS))
            sums.products += dot(u, x);
        [[unroll]] for (uint r = 0u; r < 4u; r++) {
            if (has_term(TERM_QUERY) && p[r].query_table != NO_ELEMENT)
                sums.products[r] += dot(y[r] + w, query_table_channels(p[r].query_table + d, n));
            if (has_term(TERM_KEY) && p[r].key_table != NO_ELEMENT)
                sums.products[r] += dot(x, key_table_channels(p[r].key_table + d, n));
            if (has_term(TERM_SEGMENT))
                sums.products[r] += dot(y[r] + z, segment_table_channels(p[r].segment + d, n));
        }
    }
    return sums;
}

// What is multiplied by the scale, of all channels' sums, and b beside it: S = content + b.
void logits_of(uint j, Pair p[4], Sums sums, out vec4 content, out vec4 b)
{
    vec4 factor = vec4(constants.scale);
    if (has_term(TERM_COSINE)) {
        float least = constants.epsilon;
        sums.products /= max(sqrt(q_squares), vec4(least)) * max(sqrt(sums.k_squares), least);
        [[unroll]] for (uint r = 0u; r < 4u; r++)
            factor[r] = exp(min(head_scale_load(head_scale_at(0u, 0u, 0u) + row_h[r]),
                                constants.max_log_scale));
    }
    [[unroll]] for (uint r = 0u; r < 4u; r++) {
        b[r] = bias_of(j, r, p[r]) * (has_flag(TERM_FLAG_BIAS_IN_SCALE) ? factor[r] : 1.0);
        if (has_term(TERM_SCALAR) && p[r].row != NO_ROW)
            sums.products[r] += table_scalar_load(table_scalar_at(0u, 0u, uint(p[r].row)) +
                                                  row_h[r]);
    }
    content = factor * sums.products;
}
