// Vector tables of the broadcast kernel, by diagonals: A and r, C, V. See attention_broadcast.comp.
//
// Wants: the kernel's views, state and lib/terms.glsl.

// One number of each of four lanes, in every lane. The lane is a literal: SPIR-V 1.3 wants a
// constant.
vec4 spread_low(float x)
{
    return vec4(subgroupBroadcast(x, 0u), subgroupBroadcast(x, 1u), subgroupBroadcast(x, 2u),
                subgroupBroadcast(x, 3u));
}

vec4 spread_high(float x)
{
    return vec4(subgroupBroadcast(x, 4u), subgroupBroadcast(x, 5u), subgroupBroadcast(x, 6u),
                subgroupBroadcast(x, 7u));
}

// A function's table row, or the first one where there is none: then it counts as zeros.
uint known_row(int row)
{
    return row == NO_ROW ? 0u : uint(row);
}

// ---- Distances

// Distance of this lane's diagonal of chunk `block` - LANES m.
int diagonal(int block, uint m)
{
    return block - int(LANES * m) - base + int(lane);
}

int table_row(int delta)
{
    return row_of(table_distance(b, delta));
}

int key_table_row(int delta)
{
    int d = table_distance(b, delta);
    return row_of(has_flag(TERM_FLAG_KEY_MIRRORED) ? -d : d);
}

bool has_vector_tables()
{
    return has_term(TERM_QUERY | TERM_KEY | TERM_SCALAR | TERM_VALUE);
}

// ---- Skew: concat(before, chunk)[LANES + j - lane] for each key j of the block, by the bits of
// lane.
void skew(float before[LANES], float chunk[LANES], out float pairs[LANES])
{
    float a[16], c[16];
    [[unroll]] for (uint i = 5u; i < 16u; i++) {
        float far = i - 4u < 8u ? before[i - 4u] : chunk[i - 12u];
        float near = i < 8u ? before[i] : chunk[i - 8u];
        a[i] = (lane & 4u) != 0u ? far : near;
    }
    [[unroll]] for (uint i = 7u; i < 16u; i++)
        c[i] = (lane & 2u) != 0u ? a[i - 2u] : a[i];
    [[unroll]] for (uint i = 8u; i < 16u; i++)
        pairs[i - 8u] = (lane & 1u) != 0u ? c[i - 1u] : c[i];
}

// The way back: pair j of this row onto diagonal LANES + j - lane of two chunks, zeros elsewhere.
void unskew(float pairs[LANES], out float before[LANES], out float chunk[LANES])
{
    float a[16], c[16];
    [[unroll]] for (uint i = 0u; i < 16u; i++) {
        float near = i < 8u ? 0.0 : pairs[i - 8u];
        float far = i < 4u || i >= 12u ? 0.0 : pairs[i - 4u];
        a[i] = (lane & 4u) != 0u ? far : near;
    }
    [[unroll]] for (uint i = 0u; i < 16u; i++)
        c[i] = (lane & 2u) != 0u ? (i < 14u ? a[i + 2u] : 0.0) : a[i];
    [[unroll]] for (uint i = 0u; i < 8u; i++) {
        before[i] = (lane & 1u) != 0u ? c[i + 1u] : c[i];
        chunk[i] = (lane & 1u) != 0u ? (i < 7u ? c[i + 9u] : 0.0) : c[i + 8u];
    }
}

// ---- A and r

float streamed[2 * LANES * 3]; // of each pair of row blocks: chunks g + 1; g + 1 and g + 2 of the
                               // second

float q_of_table(uint i)
{
    return has_term(TERM_CONTENT_BIAS) || has_term(TERM_POSITION_BIAS) ? q_rho[i] : q[i];
}

// Products of the diagonals of a chunk with rows r and r + 1 of this lane.
void query_chunk(int block, uint r, out float first[LANES], out float second[LANES])
{
    int row = table_row(diagonal(block, r));
    uint at = query_table_at(0u, head, known_row(row));
    float start = 0.0;
    if (has_term(TERM_SCALAR) && row != NO_ROW)
        start = constants.scale_log2 * table_scalar_load(table_scalar_at(0u, 0u, uint(row)) + head);
    vec4 low = spread_low(start);
    vec4 high = spread_high(start);
    [[unroll]] for (uint e = 0u; e < LANES; e++)
        first[e] = second[e] = e < 4u ? low[e] : high[e - 4u];
    if (!has_term(TERM_QUERY))
        return;
    [[unroll]] for (uint d = 0u; d < HEAD_DIM; d += 4u) {
        vec4 x = row == NO_ROW ? vec4(0.0) : query_table_far4(at + d);
        [[unroll]] for (uint i = 0u; i < 4u; i++) {
            low = spread_low(x[i]);
            high = spread_high(x[i]);
            [[unroll]] for (uint e = 0u; e < LANES; e++) {
                float y = e < 4u ? low[e] : high[e - 4u];
                first[e] = fma(q_of_table((d + i) * ROWS + r), y, first[e]);
                second[e] = fma(q_of_table((d + i) * ROWS + r + 1u), y, second[e]);
            }
        }
    }
}

void load_streamed(uint at, out float chunk[LANES])
{
    [[unroll]] for (uint e = 0u; e < LANES; e++)
        chunk[e] = streamed[at * LANES + e];
}

void store_streamed(uint at, float chunk[LANES])
{
    [[unroll]] for (uint e = 0u; e < LANES; e++)
        streamed[at * LANES + e] = chunk[e];
}

// Logits of the block begin with the query-side terms; the chunks move on by one.
void stream_query_terms(int block, bool use)
{
    [[unroll]] for (uint g = 0u; g < ROWS; g += 2u) {
        float first[LANES], second[LANES], before[LANES], chunk[LANES], pairs[LANES];
        query_chunk(block, g, first, second);
        load_streamed(g / 2u * 3u, before);
        skew(before, first, pairs);
        [[unroll]] for (uint j = 0u; j < LANES; j++)
            s[g * LANES + j] = use ? pairs[j] : s[g * LANES + j];
        load_streamed(g / 2u * 3u + 1u, chunk);
        load_streamed(g / 2u * 3u + 2u, before);
        skew(before, chunk, pairs);
        [[unroll]] for (uint j = 0u; j < LANES; j++)
            s[(g + 1u) * LANES + j] = use ? pairs[j] : s[(g + 1u) * LANES + j];
        store_streamed(g / 2u * 3u, first);
        store_streamed(g / 2u * 3u + 2u, chunk);
        store_streamed(g / 2u * 3u + 1u, second);
    }
}

// A's product with each row at a distance where rows no longer change.
void far_query_terms(int delta, out float far[ROWS])
{
    int row = table_row(delta);
    [[unroll]] for (uint r = 0u; r < ROWS; r++)
        far[r] = has_term(TERM_SCALAR) && row != NO_ROW
                     ? constants.scale_log2 *
                           table_scalar_load(table_scalar_at(0u, 0u, uint(row)) + head)
                     : 0.0;
    if (!has_term(TERM_QUERY) || row == NO_ROW)
        return;
    uint at = query_table_at(0u, head, uint(row));
    [[unroll]] for (uint d = 0u; d < HEAD_DIM; d += 4u) {
        vec4 x = query_table_far4(at + d);
        [[unroll]] for (uint i = 0u; i < 4u; i++)
            [[unroll]] for (uint r = 0u; r < ROWS; r++)
                far[r] = fma(q_of_table((d + i) * ROWS + r), x[i], far[r]);
    }
}

// ---- C

// Rows of C are gathered, one a lane, and keys broadcast: two or three chunks at a time, whose sums
// fill the registers of the processor.
void key_chunks(int block, uint m, uint count, out float first[LANES], out float second[LANES],
                out float third[LANES])
{
    int row0 = key_table_row(diagonal(block, m));
    int row1 = key_table_row(diagonal(block, m + 1u));
    int row2 = key_table_row(diagonal(block, m + 2u));
    uint at0 = key_table_at(0u, head, known_row(row0));
    uint at1 = key_table_at(0u, head, known_row(row1));
    uint at2 = key_table_at(0u, head, known_row(row2));
    [[unroll]] for (uint j = 0u; j < LANES; j++)
        first[j] = second[j] = third[j] = 0.0;
    [[unroll]] for (uint d = 0u; d < HEAD_DIM; d += 4u) {
        vec4 x = key_table_far4(at0 + d);
        vec4 y = key_table_far4(at1 + d);
        vec4 z = count > 2u ? key_table_far4(at2 + d) : vec4(0.0);
        [[unroll]] for (uint i = 0u; i < 4u; i++) {
            vec4 low = spread_low(k_quads[d / 4u][i]);
            vec4 high = spread_high(k_quads[d / 4u][i]);
            [[unroll]] for (uint j = 0u; j < LANES; j++) {
                float k = j < 4u ? low[j] : high[j - 4u];
                first[j] = fma(x[i], k, first[j]);
                second[j] = fma(y[i], k, second[j]);
                if (count > 2u)
                    third[j] = fma(z[i], k, third[j]);
            }
        }
    }
    [[unroll]] for (uint j = 0u; j < LANES; j++) {
        first[j] *= row0 == NO_ROW ? 0.0 : constants.scale_log2;
        second[j] *= row1 == NO_ROW ? 0.0 : constants.scale_log2;
        third[j] *= row2 == NO_ROW ? 0.0 : constants.scale_log2;
    }
}

// Products of this lane's diagonals of two chunks onto the pairs of row r. Elements are read before
// the choice: a choice of array elements would be control flow, and the arrays memory with masked
// stores.
void add_skewed(uint r, float here[LANES], float before[LANES])
{
    [[unroll]] for (uint j = 0u; j < LANES; j++) {
        float late = here[j];
        float early = before[j];
        s[r * LANES + j] += subgroupShuffle(lane <= j ? late : early, (j - lane) & 7u);
    }
}

void add_key_terms(int block)
{
    float c0[LANES], c1[LANES], c2[LANES], c3[LANES], c4[LANES], none[LANES];
    key_chunks(block, 0u, 3u, c0, c1, c2);
    add_skewed(0u, c0, c1);
    add_skewed(1u, c1, c2);
    key_chunks(block, 3u, 2u, c3, c4, none);
    add_skewed(2u, c2, c3);
    add_skewed(3u, c3, c4);
}

// The product of this lane's key with the row that serves all of the block, to every row.
void add_far_key_terms(int delta)
{
    int row = key_table_row(delta);
    if (row == NO_ROW)
        return;
    uint at = key_table_at(0u, head, uint(row));
    float sum = 0.0;
    [[unroll]] for (uint d = 0u; d < HEAD_DIM; d += 4u)
        sum += dot(k_quads[d / 4u], key_table_far4(at + d));
    sum *= constants.scale_log2;
    vec4 low = spread_low(sum);
    vec4 high = spread_high(sum);
    [[unroll]] for (uint r = 0u; r < ROWS; r++)
        [[unroll]] for (uint j = 0u; j < LANES; j++)
            s[r * LANES + j] += j < 4u ? low[j] : high[j - 4u];
}

// ---- V by diagonals

float carry[ROWS * LANES];          // weights of the chunk that is not complete yet
float held[ROWS / 2u * LANES];      // complete ones of rows 0, 2, ...: until the next row wants them
float past_mass[ROWS];
float future_mass[ROWS];

// acc += first . V of a chunk for row r, second . V for row r + 1.
void add_value_chunk(int delta, uint r, float first[LANES], float second[LANES])
{
    int row = table_row(delta);
    uint at = value_table_at(0u, head, known_row(row));
    [[unroll]] for (uint d = 0u; d < VALUE_DIM; d += 4u) {
        vec4 x = row == NO_ROW ? vec4(0.0) : value_table_far4(at + d);
        [[unroll]] for (uint i = 0u; i < 4u; i++) {
            vec4 low = spread_low(x[i]);
            vec4 high = spread_high(x[i]);
            [[unroll]] for (uint e = 0u; e < LANES; e++) {
                float y = e < 4u ? low[e] : high[e - 4u];
                acc[(d + i) * ROWS + r] = fma(first[e], y, acc[(d + i) * ROWS + r]);
                acc[(d + i) * ROWS + r + 1u] = fma(second[e], y, acc[(d + i) * ROWS + r + 1u]);
            }
        }
    }
}

// Weights of the block onto diagonals. `near`: some of them meet rows of the table one by one.
void take_weights(int block, bool near, bool is_past)
{
    [[unroll]] for (uint r = 0u; r < ROWS; r++) {
        past_mass[r] *= shrink[r];
        future_mass[r] *= shrink[r];
        [[unroll]] for (uint e = 0u; e < LANES; e++) {
            carry[r * LANES + e] *= shrink[r];
            if (r % 2u == 0u)
                held[r / 2u * LANES + e] *= shrink[r];
        }
        if (!near) {
            float sum = 0.0;
            [[unroll]] for (uint j = 0u; j < LANES; j++)
                sum += s[r * LANES + j];
            past_mass[r] += is_past ? sum : 0.0;
            future_mass[r] += is_past ? 0.0 : sum;
        }
    }
    if (!near)
        return;
    [[unroll]] for (uint g = 0u; g < ROWS; g += 2u) {
        float pairs[LANES], before[LANES], chunk[LANES], first[LANES], second[LANES];
        [[unroll]] for (uint j = 0u; j < LANES; j++)
            pairs[j] = s[(g + 1u) * LANES + j];
        unskew(pairs, before, chunk);
        [[unroll]] for (uint e = 0u; e < LANES; e++) {
            second[e] = carry[(g + 1u) * LANES + e] + before[e];
            carry[(g + 1u) * LANES + e] = chunk[e];
            first[e] = held[g / 2u * LANES + e];
        }
        add_value_chunk(diagonal(block, g + 2u), g, first, second);
        [[unroll]] for (uint j = 0u; j < LANES; j++)
            pairs[j] = s[g * LANES + j];
        unskew(pairs, before, chunk);
        [[unroll]] for (uint e = 0u; e < LANES; e++) {
            held[g / 2u * LANES + e] = carry[g * LANES + e] + before[e];
            carry[g * LANES + e] = chunk[e];
        }
    }
}

// After the last block that was near: what is left on the way.
void flush_weights(int last_near)
{
    [[unroll]] for (uint g = 0u; g < ROWS; g += 2u) {
        float first[LANES], second[LANES];
        [[unroll]] for (uint e = 0u; e < LANES; e++) {
            first[e] = held[g / 2u * LANES + e];
            second[e] = carry[(g + 1u) * LANES + e];
        }
        add_value_chunk(diagonal(last_near, g + 1u), g, first, second);
        [[unroll]] for (uint e = 0u; e < LANES; e++) {
            first[e] = carry[g * LANES + e];
            second[e] = 0.0;
        }
        add_value_chunk(diagonal(last_near, g), g, first, second);
    }
}

void add_far_values(int delta, float mass[ROWS])
{
    int row = table_row(delta);
    if (row == NO_ROW)
        return;
    uint at = value_table_at(0u, head, uint(row));
    [[unroll]] for (uint d = 0u; d < VALUE_DIM; d += 4u) {
        vec4 x = value_table_far4(at + d);
        [[unroll]] for (uint i = 0u; i < 4u; i++)
            [[unroll]] for (uint r = 0u; r < ROWS; r++)
                acc[(d + i) * ROWS + r] = fma(mass[r], x[i], acc[(d + i) * ROWS + r]);
    }
}
