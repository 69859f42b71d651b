/* Each family of relative schemes: its struct, its views, and what it is to the reference. */
#include "shapes_relative_run.h"

#include "reference/reference_absolute.h"

#include <math.h>
#include <string.h>

#define CLIP_LEFT 3u
#define CLIP_RIGHT 2u
#define MUSIC_ROWS 7u
#define BUCKETS 8u
#define MOST_DISTANCE 20u
#define SPAN 4u
#define LEARNED_ROWS 6u
#define XL_CLAMP 5u

static bool is_xl(relative_family f)
{
    return f >= RELATIVE_XL && f <= RELATIVE_XLNET;
}

static harness_tensor *add_table(relative_run *r, rhumb_view_id id, rhumb_dtype dtype, uint64_t h,
                                 uint64_t l, uint64_t d, harness_layout layout)
{
    harness_tensor *t = &r->tables[r->table_count];
    harness_make_tensor(t, dtype, 1, h, l, d, layout);
    harness_fill_normal(t, &r->random);
    harness_store(t);
    (void)harness_add(&r->op, id, t, false);
    r->table_ids[r->table_count++] = id;
    return t;
}

/* [heads or 1, rows, head_dim] as a view and for the reference. */
static ref_table add_vectors(relative_run *r, rhumb_view_id id, uint32_t rows)
{
    uint64_t heads = r->s.shared_tables ? 1 : r->s.heads;
    harness_tensor *t =
        add_table(r, id, r->s.dtype_table, heads, rows, r->s.head_dim, r->s.layout_table);
    return (ref_table){t->values, r->s.shared_tables ? 0 : (uint64_t)rows * r->s.head_dim,
                       r->s.head_dim};
}

static ref_table add_scalars(relative_run *r, rhumb_view_id id, uint32_t rows, rhumb_dtype dtype)
{
    harness_tensor *t = add_table(r, id, dtype, 1, rows, r->s.heads, r->s.layout_table);
    return (ref_table){t->values, 1, r->s.heads};
}

static const double *add_heads(relative_run *r, rhumb_view_id id)
{
    return add_table(r, id, r->s.dtype_table, 1, r->s.heads, r->s.head_dim, r->s.layout_table)
        ->values;
}

/* The last table's rows from `first` on. */
static void poison_future(relative_run *r, uint32_t first)
{
    harness_tensor *t = &r->tables[r->table_count - 1];
    for (uint64_t i = 0; i < t->count; i++)
        if (i / t->shape[3] % t->shape[2] >= first)
            t->values[i] = (double)NAN;
    harness_store(t);
}

static void make_shaw(relative_run *r)
{
    bool mirrored = r->s.family == RELATIVE_SHAW_MIRRORED;
    uint32_t rows = CLIP_LEFT + CLIP_RIGHT + 1;
    rhumb_init_shaw(&r->scheme.shaw);
    r->scheme.shaw.index = mirrored ? RHUMB_QUERY_MINUS_KEY : RHUMB_KEY_MINUS_QUERY;
    r->scheme.shaw.clip_left = CLIP_LEFT;
    r->scheme.shaw.clip_right = CLIP_RIGHT;
    r->ref.shaw = (ref_shaw){
        .index = mirrored ? REF_SHAW_QUERY_MINUS_KEY : REF_SHAW_KEY_MINUS_QUERY,
        .left = CLIP_LEFT,
        .right = CLIP_RIGHT,
        .per_head = !r->s.shared_tables,
        .keys = add_vectors(r, RHUMB_VIEW_QUERY_TABLE, rows).data,
        .values = r->scores ? NULL : add_vectors(r, RHUMB_VIEW_VALUE_TABLE, rows).data,
    };
    if (r->s.poison_future)
        poison_future(r, CLIP_LEFT + 1);
    (void)ref_shaw_terms(&r->ref.shaw, r->s.head_dim, r->s.head_dim, &r->terms);
    if (mirrored)
        r->terms.c = add_vectors(r, RHUMB_VIEW_KEY_TABLE, rows);
}

static void make_music(relative_run *r)
{
    bool both = r->s.family == RELATIVE_MUSIC_BOTH;
    uint32_t rows = both ? 2 * MUSIC_ROWS - 1 : MUSIC_ROWS;
    rhumb_init_music_transformer(&r->scheme.music);
    r->scheme.music.max_relative_position = MUSIC_ROWS;
    r->scheme.music.bidirectional = both;
    r->ref.music = (ref_music){
        .most = MUSIC_ROWS,
        .two_sided = both,
        .future = both,
        .per_head = !r->s.shared_tables,
        .keys = add_vectors(r, RHUMB_VIEW_QUERY_TABLE, rows).data,
        .values = r->scores ? NULL : add_vectors(r, RHUMB_VIEW_VALUE_TABLE, rows).data,
    };
    (void)ref_music_terms(&r->ref.music, r->s.head_dim, r->s.head_dim, &r->terms);
}

static void make_t5(relative_run *r)
{
    bool gated = r->s.family == RELATIVE_T5_GATED;
    rhumb_init_t5(&r->scheme.t5);
    r->scheme.t5.num_buckets = BUCKETS;
    r->scheme.t5.max_distance = MOST_DISTANCE;
    r->scheme.t5.bidirectional = r->s.family != RELATIVE_T5_CAUSAL;
    r->scheme.t5.bias_scale = gated ? 0.5 : 1.0;
    r->ref.t5 = (ref_t5){
        .bidirectional = r->s.family != RELATIVE_T5_CAUSAL,
        .buckets = BUCKETS,
        .most = MOST_DISTANCE,
        .scale = gated ? 0.5 : 1.0,
        .table = add_scalars(r, RHUMB_VIEW_TABLE, BUCKETS, r->s.dtype_table).data,
    };
    if (gated)
        r->ref.t5.gate = add_table(r, RHUMB_VIEW_ROW_SCALE, RHUMB_F32, r->s.batch, r->s.heads,
                                   r->s.q_rows, (harness_layout){0})
                             ->values;
    (void)ref_t5_terms(&r->ref.t5, r->s.heads, &r->terms);
}

static void make_alibi(relative_run *r)
{
    bool index = r->s.family == RELATIVE_ALIBI_INDEX, last = r->s.family == RELATIVE_ALIBI_LAST;
    rhumb_init_alibi(&r->scheme.alibi);
    r->scheme.alibi.form = index  ? RHUMB_ALIBI_KEY_INDEX
                           : last ? RHUMB_ALIBI_LAST_KEY
                                  : RHUMB_ALIBI_SYMMETRIC;
    r->scheme.alibi.bias_times_scale = index;
    (void)ref_alibi_slopes(0, r->s.heads, 8.0, r->s.heads, r->slopes);
    r->ref.alibi = (ref_alibi){
        .form = index  ? REF_ALIBI_KEY_INDEX
                : last ? REF_ALIBI_LAST_KEY
                       : REF_ALIBI_SYMMETRIC,
        .slopes = r->slopes,
        .inside = index,
    };
    (void)ref_alibi_terms(&r->ref.alibi, &r->terms);
}

/* Distances 0 to n, or -n to n: n as the header says. */
static void make_xl(relative_run *r)
{
    relative_family f = r->s.family;
    bool both = f == RELATIVE_XLNET, learned = f == RELATIVE_XL_LEARNED;
    uint32_t n = r->op.info.max_q_length > r->op.info.max_k_length ? r->op.info.max_q_length
                                                                   : r->op.info.max_k_length;
    n = f == RELATIVE_XL_CLAMP ? XL_CLAMP : n - 1;
    rhumb_init_transformer_xl(&r->scheme.xl);
    r->scheme.xl.variant = learned ? RHUMB_XL_LEARNED : RHUMB_XL_SINUSOIDAL;
    r->scheme.xl.table_rows = learned ? LEARNED_ROWS : 0;
    r->scheme.xl.clamp_len = f == RELATIVE_XL_CLAMP ? XL_CLAMP : 0;
    r->scheme.xl.folded = f == RELATIVE_XL_FOLDED;
    if (both) {
        rhumb_init_xlnet(&r->scheme.xlnet);
        r->scheme.xlnet.flip_half = 1;
    }
    r->ref.xl = (ref_xl){
        .bidirectional = both,
        .clamp = f == RELATIVE_XL_CLAMP ? (int32_t)XL_CLAMP : 0,
        .flip = both ? (r->s.batch + 1) / 2 : UINT32_MAX,
        .rows = learned ? LEARNED_ROWS
                : both  ? 2 * n + 1
                        : n + 1,
        .first = both ? -(int32_t)n : 0,
        .learned = learned,
        .u = add_heads(r, RHUMB_VIEW_CONTENT_BIAS),
    };
    r->ref.xl.positions = add_vectors(r, RHUMB_VIEW_QUERY_TABLE, r->ref.xl.rows);
    if (learned || f == RELATIVE_XL_FOLDED)
        r->ref.xl.scalars = add_scalars(r, RHUMB_VIEW_TABLE_SCALAR, r->ref.xl.rows, RHUMB_F32);
    else
        r->ref.xl.w = add_heads(r, RHUMB_VIEW_POSITION_BIAS);
    if (f == RELATIVE_XL_FOLDED)
        r->ref.xl.w = r->ref.xl.u;
    (void)ref_xl_terms(&r->ref.xl, &r->terms);
}

static int32_t *add_segments(relative_run *r, rhumb_view_id id, uint32_t rows, int32_t *numbers)
{
    harness_tensor *t = &r->tables[r->table_count];
    harness_make_tensor(t, RHUMB_I32, 1, 1, r->s.batch, rows, (harness_layout){0});
    for (uint64_t i = 0; i < t->count; i++) {
        numbers[i] = (int32_t)(harness_next(&r->random) % 2);
        t->values[i] = numbers[i];
    }
    harness_store(t);
    (void)harness_add(&r->op, id, t, false);
    r->table_ids[r->table_count++] = id;
    return numbers;
}

static void make_xlnet_segments(relative_run *r)
{
    const relative_shape *s = &r->s;
    harness_tensor *g = add_table(r, RHUMB_VIEW_SEGMENT_TABLE, s->dtype_table, s->heads, 2,
                                  s->head_dim, s->layout_table);
    r->segments = harness_alloc((size_t)s->batch * (s->q_rows + s->k_rows), sizeof *r->segments);
    r->terms.g = (ref_table){g->values, 2 * (uint64_t)s->head_dim, s->head_dim};
    r->terms.z = add_heads(r, RHUMB_VIEW_SEGMENT_BIAS);
    r->terms.segments_q = add_segments(r, RHUMB_VIEW_SEGMENTS_Q, s->q_rows, r->segments);
    r->terms.segments_k = add_segments(r, RHUMB_VIEW_SEGMENTS_K, s->k_rows,
                                       r->segments + (size_t)s->batch * s->q_rows);
}

static void make_deberta(relative_run *r)
{
    bool buckets = r->s.family == RELATIVE_DEBERTA_LOG;
    uint32_t span = buckets ? BUCKETS : SPAN;
    rhumb_init_deberta(&r->scheme.deberta);
    r->scheme.deberta.position_buckets = buckets ? BUCKETS : 0;
    r->scheme.deberta.max_relative_positions = buckets ? MOST_DISTANCE : SPAN;
    r->scheme.deberta.p2c_index =
        r->s.family == RELATIVE_DEBERTA_PAPER ? RHUMB_P2C_PAPER : RHUMB_P2C_CODE;
    r->ref.deberta = (ref_deberta){
        .span = span,
        .buckets = buckets,
        .most = buckets ? MOST_DISTANCE : SPAN,
        .input_clamp = 1,
        .paper = r->s.family == RELATIVE_DEBERTA_PAPER,
        .pos_key = add_vectors(r, RHUMB_VIEW_QUERY_TABLE, 2 * span).data,
        .pos_query = add_vectors(r, RHUMB_VIEW_KEY_TABLE, 2 * span).data,
    };
    (void)ref_deberta_terms(&r->ref.deberta, r->s.head_dim, &r->terms);
    if (r->s.shared_tables)
        r->terms.a.head_stride = r->terms.c.head_stride = 0;
}

/* Query and key of a window are numbered alike: delta tells the query of a key. */
static double window_bias(const void *user, const ref_pair_place *place)
{
    const relative_run *r = user;
    uint32_t query = (uint32_t)((int64_t)place->j - place->delta);
    uint32_t row = (uint32_t)r->window[query * WINDOW_TOKENS + place->j];
    return r->tables[0].values[(uint64_t)row * r->s.heads + place->h];
}

/* Logarithms of cosine attention's scales; the last head's is above the limit. */
static void add_head_scales(relative_run *r)
{
    harness_tensor *t = &r->tables[r->table_count];
    harness_make_tensor(t, RHUMB_F32, 1, 1, 1, r->s.heads, (harness_layout){0});
    for (uint32_t h = 0; h < r->s.heads; h++)
        t->values[h] = h + 1 < r->s.heads ? harness_uniform(&r->random, 0.5, 4.0) : 5.0;
    harness_store(t);
    (void)harness_add(&r->op, RHUMB_VIEW_HEAD_SCALE, t, false);
    r->table_ids[r->table_count++] = RHUMB_VIEW_HEAD_SCALE;
}

static void make_swin(relative_run *r)
{
    const ref_window window = {{WINDOW_HEIGHT, WINDOW_WIDTH}, 0};
    if (r->s.family == RELATIVE_SWIN) {
        rhumb_init_swin(&r->scheme.swin);
        r->scheme.swin.window[0] = WINDOW_HEIGHT;
        r->scheme.swin.window[1] = WINDOW_WIDTH;
    } else {
        rhumb_init_swin_v2(&r->scheme.swin_v2);
        r->scheme.swin_v2.window[0] = WINDOW_HEIGHT;
        r->scheme.swin_v2.window[1] = WINDOW_WIDTH;
    }
    (void)add_scalars(r, RHUMB_VIEW_TABLE, ref_window_rows(&window), r->s.dtype_table);
    if (r->s.family == RELATIVE_SWIN_V2)
        add_head_scales(r);
    (void)ref_window_index(&window, r->window);
    r->terms.bias = window_bias;
    r->terms.bias_user = r;
}

void relative_make_scheme(relative_run *r)
{
    relative_family f = r->s.family;
    ref_terms_init(&r->terms);
    if (f == RELATIVE_PLAIN)
        return;
    if (f == RELATIVE_ROTARY) {
        rhumb_init_rope(&r->scheme.rope);
        r->op.info.rotary = &r->scheme;
        return;
    }
    if (f <= RELATIVE_SHAW_MIRRORED)
        make_shaw(r);
    else if (f <= RELATIVE_MUSIC_BOTH)
        make_music(r);
    else if (f <= RELATIVE_T5_GATED)
        make_t5(r);
    else if (f <= RELATIVE_ALIBI_LAST)
        make_alibi(r);
    else if (is_xl(f))
        make_xl(r);
    else if (f <= RELATIVE_DEBERTA_PAPER)
        make_deberta(r);
    else
        make_swin(r);
    if (f == RELATIVE_XLNET)
        make_xlnet_segments(r);
    r->op.info.scheme = &r->scheme;
}
