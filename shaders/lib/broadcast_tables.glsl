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

// acc += w [row][lane] times four channels of each lane, from d on: a lane at a time, so that its
// numbers meet 4 ROWS sums in registers.
#define ADD_LANE(x, w, e)                                                                          \
    [[unroll]] for (uint i = 0u; i < 4u; i++) {                                                    \
        float y = subgroupBroadcast(x[i], e);                                                      \
        [[unroll]] for (uint r = 0u; r < ROWS; r++)                                                \
            acc[(d + i) * ROWS + r] = fma(w[r * LANES + e], y, acc[(d + i) * ROWS + r]);           \
    }
#define ADD_WEIGHTED(x, w)                                                                         \
    ADD_LANE(x, w, 0u) ADD_LANE(x, w, 1u) ADD_LANE(x, w, 2u) ADD_LANE(x, w, 3u)                    \
    ADD_LANE(x, w, 4u) ADD_LANE(x, w, 5u) ADD_LANE(x, w, 6u) ADD_LANE(x, w, 7u)

// Element i of q, or of (q + w).
float q_element(uint i, bool of_table)
{
    return of_table && (has_term(TERM_CONTENT_BIAS) || has_term(TERM_POSITION_BIAS)) ? q_rho[i]
                                                                                     : q[i];
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

// Products of row r with the r + 1 chunks before the one that enters, the newest first: row r meets
// chunk block - LANES r, and each chunk is loaded once, for all rows.
#define STREAMED(r) ((r) * ((r) + 1u) / 2u)
float streamed[STREAMED(ROWS) * LANES];

// s: products of the diagonals of a chunk with the rows of this lane, [row][diagonal].
void query_chunk(int block)
{
    int row = table_row(diagonal(block, 0u));
    float start = 0.0;
    if (has_term(TERM_SCALAR) && row != NO_ROW)
        start = constants.scale_log2 * table_scalar_load(table_scalar_at(0u, 0u, uint(row)) + head);
    vec4 low = spread_low(start);
    vec4 high = spread_high(start);
    [[unroll]] for (uint i = 0u; i < ROWS * LANES; i++)
        s[i] = i % LANES < 4u ? low[i % LANES] : high[i % LANES - 4u];
    if (!has_term(TERM_QUERY))
        return;
    uint at = query_table_at(0u, head, known_row(row));
    [[unroll]] for (uint d = 0u; d < HEAD_DIM / 4u; d++)
        k_quads[d] = query_table_far4(at + 4u * d);
    add_products(block, true);
    // Where there is no row the sums are another row's.
    low = spread_low(row == NO_ROW ? 0.0 : 1.0);
    high = spread_high(row == NO_ROW ? 0.0 : 1.0);
    [[unroll]] for (uint i = 0u; i < ROWS * LANES; i++) {
        float there = i % LANES < 4u ? low[i % LANES] : high[i % LANES - 4u];
        float x = s[i];
        s[i] = there != 0.0 ? x : 0.0;
    }
}

// A chunk enters; its products with all rows come before those of earlier chunks. Bounds that are
// constants, or the loop stays one and indexes memory.
void push_chunk(float products[ROWS * LANES])
{
    [[unroll]] for (uint r = 0u; r < ROWS; r++) {
        [[unroll]] for (uint i = 0u; i < ROWS * LANES; i++) {
            uint to = (r + 1u) * LANES - 1u - i; // the last first
            if (i < r * LANES)
                streamed[STREAMED(r) * LANES + to] = streamed[STREAMED(r) * LANES + to - LANES];
        }
        [[unroll]] for (uint e = 0u; e < LANES; e++)
            streamed[STREAMED(r) * LANES + e] = products[r * LANES + e];
    }
}

// The chunk of the block enters. s: what the query-side terms give the block's pairs where rows of the
// table are met one by one.
void stream_query_terms(int block)
{
    float products[ROWS * LANES];
    query_chunk(block);
    [[unroll]] for (uint i = 0u; i < ROWS * LANES; i++)
        products[i] = s[i];
    [[unroll]] for (uint r = 0u; r < ROWS; r++) {
        float before[LANES], chunk[LANES], pairs[LANES];
        [[unroll]] for (uint e = 0u; e < LANES; e++) {
            chunk[e] = r == 0u ? products[e] : streamed[(STREAMED(r) + r - 1u) * LANES + e];
            before[e] = streamed[(STREAMED(r) + r) * LANES + e];
        }
        skew(before, chunk, pairs);
        [[unroll]] for (uint j = 0u; j < LANES; j++)
            s[r * LANES + j] = pairs[j];
    }
    push_chunk(products);
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
                far[r] = fma(q_element((d + i) * ROWS + r, true), x[i], far[r]);
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

// Weights of row r on diagonals of ROWS - r chunks: of the one that is not complete yet, and of those
// that wait for rows below, the newest first. A chunk of V is loaded once, for all rows.
#define WAITING(r) ((r) * ROWS - (r) * ((r) - 1u) / 2u)
#define WAITING_CHUNKS (ROWS * (ROWS + 1u) / 2u)
float waiting[WAITING_CHUNKS * LANES];
float past_mass[ROWS];
float future_mass[ROWS];

// acc += the weights [row][diagonal] . V of a chunk, with this lane's diagonal.
void add_value_chunk(int delta, float w[ROWS * LANES])
{
    int row = never_seen(delta) ? NO_ROW : table_row(delta);
    uint at = value_table_at(0u, head, known_row(row));
    [[unroll]] for (uint d = 0u; d < VALUE_DIM; d += 4u) {
        vec4 x = value_table_far4(at + d);
        x = row == NO_ROW ? vec4(0.0) : x;
        ADD_WEIGHTED(x, w)
    }
}

// Weights of the block's pairs, where they meet rows of the table one by one (`near`), onto diagonals;
// the chunk that is complete for all rows is multiplied.
void pass_weights(int block, bool near)
{
    float complete[ROWS * LANES];
    [[unroll]] for (uint r = 0u; r < ROWS; r++) {
        float pairs[LANES], before[LANES], chunk[LANES];
        [[unroll]] for (uint j = 0u; j < LANES; j++) {
            float w = s[r * LANES + j];
            pairs[j] = near ? w : 0.0;
        }
        unskew(pairs, before, chunk);
        [[unroll]] for (uint e = 0u; e < LANES; e++) {
            waiting[WAITING(r) * LANES + e] += before[e];
            complete[r * LANES + e] = waiting[(WAITING(r) + ROWS - 1u - r) * LANES + e];
        }
        [[unroll]] for (uint i = 0u; i < ROWS * LANES; i++) {
            uint to = (WAITING(r) + ROWS - r) * LANES - 1u - i; // the last first
            if (i < (ROWS - 1u - r) * LANES)
                waiting[to] = waiting[to - LANES];
        }
        [[unroll]] for (uint e = 0u; e < LANES; e++)
            waiting[WAITING(r) * LANES + e] = chunk[e];
    }
    add_value_chunk(diagonal(block, ROWS), complete);
}

// Earlier weights by the new maximum; those of a block that is not `near` by their sum.
void shrink_weights(bool near, bool is_past)
{
    [[unroll]] for (uint r = 0u; r < ROWS; r++) {
        float sum = 0.0;
        [[unroll]] for (uint j = 0u; j < LANES; j++)
            sum += s[r * LANES + j];
        past_mass[r] = past_mass[r] * shrink[r] + (!near && is_past ? sum : 0.0);
        future_mass[r] = future_mass[r] * shrink[r] + (!near && !is_past ? sum : 0.0);
        [[unroll]] for (uint i = 0u; i < ROWS * LANES; i++)
            if (i < (ROWS - r) * LANES)
                waiting[WAITING(r) * LANES + i] *= shrink[r];
    }
}

void add_far_values(int delta, float mass[ROWS])
{
    int row = table_row(delta);
    if (row == NO_ROW || never_seen(delta))
        return;
    uint at = value_table_at(0u, head, uint(row));
    [[unroll]] for (uint d = 0u; d < VALUE_DIM; d += 4u) {
        vec4 x = value_table_far4(at + d);
        [[unroll]] for (uint i = 0u; i < 4u; i++)
            [[unroll]] for (uint r = 0u; r < ROWS; r++)
                acc[(d + i) * ROWS + r] = fma(mass[r], x[i], acc[(d + i) * ROWS + r]);
    }
}
