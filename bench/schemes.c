/* Schemes of rows, and the tables that they bring. */
#include "operations.h"

/* ----------------------------------------------------------------------------------------------
 * Rotary
 */
static void choose_rope(operation *o, const bench_shape *s)
{
    rhumb_rope *rope = &o->rope;

    rhumb_init_rope(rope);
    rope->pairing = s->pairing;
    if (s->base != 0)
        rope->base = s->base;
    rope->scaling = s->scaling;
    if (s->scaling == RHUMB_ROPE_SCALING_NONE)
        return;
    rope->original_length = 8192;
    if (s->scaling != RHUMB_ROPE_SCALING_LONGROPE) {
        rope->factor = 8.0;
        return;
    }
    rope->max_length = 16 * rope->original_length;
    rope->list_count = s->head_dim / 2;
    for (uint32_t i = 0; i < rope->list_count && i < MAX_LISTED; i++)
        o->factors[i] = 1.0 + i;
    rope->short_factors = rope->long_factors = o->factors;
}

/* Sections in the proportions of Qwen2-VL. */
static void choose_mrope(operation *o, const bench_shape *s)
{
    rhumb_mrope *mrope = &o->scheme.mrope;

    choose_rope(o, s);
    rhumb_init_mrope(mrope);
    mrope->rope = &o->rope;
    mrope->sections[0] = s->head_dim / 8;
    mrope->sections[1] = mrope->sections[2] = s->head_dim * 3 / 16;
}

static bool choose_rotary(operation *o, const bench_shape *s)
{
    o->op.info.rotary = &o->scheme;
    switch (s->scheme) {
    case BENCH_ROPE:
        choose_rope(o, s);
        o->op.info.rotary = &o->rope;
        return true;
    case BENCH_XPOS: rhumb_init_xpos(&o->scheme.xpos); return true;
    case BENCH_MROPE: choose_mrope(o, s); return true;
    case BENCH_ROPE2D: rhumb_init_rope2d(&o->scheme.rope2d); return true;
    default: o->op.info.rotary = NULL; return false;
    }
}

/* ----------------------------------------------------------------------------------------------
 * Absolute
 */
static bool choose_absolute(operation *o, const bench_shape *s)
{
    const uint32_t side = bench_root(s->q_rows);

    switch (s->scheme) {
    case BENCH_SINUSOIDAL: rhumb_init_sinusoidal(&o->scheme.sinusoidal); return true;
    case BENCH_LEARNED: rhumb_init_learned(&o->scheme.learned); return true;
    case BENCH_SINUSOIDAL_2D:
        rhumb_init_sinusoidal2d(&o->scheme.sinusoidal2d);
        o->scheme.sinusoidal2d.grid[0] = o->scheme.sinusoidal2d.grid[1] = side;
        return true;
    case BENCH_LEARNED_2D:
        rhumb_init_learned2d(&o->scheme.learned2d);
        o->scheme.learned2d.grid[0] = o->scheme.learned2d.grid[1] = side;
        return true;
    case BENCH_RESIZE:
        rhumb_init_resize(&o->scheme.resize);
        for (uint32_t axis = 0; axis < 2; axis++) {
            o->scheme.resize.old_grid[axis] = bench_root(s->k_rows);
            o->scheme.resize.new_grid[axis] = side;
        }
        return true;
    default: return false;
    }
}

/* ----------------------------------------------------------------------------------------------
 * Relative
 */

/* Window, grid and shift of both kinds of Swin; a grid of one window has no shift. */
static void choose_windows(const bench_shape *s, uint32_t *window, uint32_t *grid, uint32_t *shift)
{
    const uint32_t side = bench_root(s->q_rows);

    for (uint32_t axis = 0; axis < 2; axis++) {
        window[axis] = side;
        grid[axis] = s->windows > 1 ? side * bench_root(s->windows) : 0;
        shift[axis] = s->windows > 1 ? side / 2 : 0;
    }
}

static bool choose_vectors(operation *o, const bench_shape *s)
{
    switch (s->scheme) {
    case BENCH_SHAW:
    case BENCH_SHAW_VALUES:
        rhumb_init_shaw(&o->scheme.shaw);
        o->scheme.shaw.clip_left = o->scheme.shaw.clip_right = s->reach;
        return true;
    case BENCH_MUSIC:
    case BENCH_MUSIC_VALUES:
        rhumb_init_music_transformer(&o->scheme.music);
        o->scheme.music.max_relative_position = s->k_rows > s->q_rows ? s->k_rows : s->q_rows;
        o->scheme.music.bidirectional = !s->causal;
        return true;
    case BENCH_TRANSFORMER_XL:
        rhumb_init_transformer_xl(&o->scheme.xl);
        o->scheme.xl.bidirectional = !s->causal;
        o->scheme.xl.folded = 1;
        return true;
    case BENCH_XLNET:
    case BENCH_XLNET_SEGMENTS:
        rhumb_init_xlnet(&o->scheme.xlnet);
        o->scheme.xlnet.folded = 1;
        return true;
    case BENCH_C2P:
    case BENCH_P2C:
    case BENCH_C2P_P2C:
        rhumb_init_deberta(&o->scheme.deberta);
        o->scheme.deberta.position_buckets = 256;
        return true;
    default: return false;
    }
}

static bool choose_scalars(operation *o, const bench_shape *s)
{
    rhumb_swin *swin = &o->scheme.swin;
    rhumb_swin_v2 *v2 = &o->scheme.swin_v2;

    switch (s->scheme) {
    case BENCH_ALIBI: rhumb_init_alibi(&o->scheme.alibi); return true;
    case BENCH_KERPLE: rhumb_init_kerple(&o->scheme.kerple); return true;
    case BENCH_T5:
        rhumb_init_t5(&o->scheme.t5);
        o->scheme.t5.bidirectional = !s->causal;
        return true;
    case BENCH_SWIN:
        rhumb_init_swin(swin);
        choose_windows(s, swin->window, swin->grid, swin->shift);
        return true;
    case BENCH_SWIN_V2:
        rhumb_init_swin_v2(v2);
        choose_windows(s, v2->window, v2->grid, v2->shift);
        return true;
    default: return false;
    }
}

void bench_choose_scheme(operation *o, const bench_shape *s)
{
    if (!choose_rotary(o, s) &&
        (choose_absolute(o, s) || choose_vectors(o, s) || choose_scalars(o, s)))
        o->op.info.scheme = &o->scheme;
}

/* ----------------------------------------------------------------------------------------------
 * Tables
 */

/* Views that a scheme has in ATTENTION, as bits. */
static uint32_t scheme_views(bench_scheme scheme)
{
    const uint32_t a = RHUMB_VIEW_BIT(RHUMB_VIEW_QUERY_TABLE);
    const uint32_t c = RHUMB_VIEW_BIT(RHUMB_VIEW_KEY_TABLE);
    const uint32_t v = RHUMB_VIEW_BIT(RHUMB_VIEW_VALUE_TABLE);
    const uint32_t b = RHUMB_VIEW_BIT(RHUMB_VIEW_TABLE);
    const uint32_t xl = a | RHUMB_VIEW_BIT(RHUMB_VIEW_CONTENT_BIAS) |
                        RHUMB_VIEW_BIT(RHUMB_VIEW_TABLE_SCALAR);
    const uint32_t segments =
        RHUMB_VIEW_BIT(RHUMB_VIEW_SEGMENT_BIAS) | RHUMB_VIEW_BIT(RHUMB_VIEW_SEGMENT_TABLE) |
        RHUMB_VIEW_BIT(RHUMB_VIEW_SEGMENTS_Q) | RHUMB_VIEW_BIT(RHUMB_VIEW_SEGMENTS_K);

    switch (scheme) {
    case BENCH_T5:
    case BENCH_KERPLE:
    case BENCH_SWIN: return b;
    case BENCH_SWIN_V2: return b | RHUMB_VIEW_BIT(RHUMB_VIEW_HEAD_SCALE);
    case BENCH_SHAW:
    case BENCH_MUSIC:
    case BENCH_C2P: return a;
    case BENCH_SHAW_VALUES:
    case BENCH_MUSIC_VALUES: return a | v;
    case BENCH_TRANSFORMER_XL:
    case BENCH_XLNET: return xl;
    case BENCH_XLNET_SEGMENTS: return xl | segments;
    case BENCH_P2C: return c;
    case BENCH_C2P_P2C: return a | c;
    default: return 0;
    }
}

/* As KERPLE's numbers are: a sign is the highest bit of a float. */
static void make_positive(gpu_tensor *t)
{
    uint32_t *words = (uint32_t *)(uintptr_t)t->input;

    for (uint64_t i = 0; words != NULL && i < gpu_tensor_bytes(t) / 4; i++)
        words[i] &= 0x7fffffffu;
}

static void add_tables(operation *o, const bench_shape *s, uint32_t views)
{
    const uint32_t h = s->heads, d = s->head_dim;
    const uint32_t rows = o->op.properties.table_rows;
    const uint32_t k_rows = s->k_rows != 0 ? s->k_rows : s->q_rows;
    const bool shared = s->scheme == BENCH_SHAW || s->scheme == BENCH_SHAW_VALUES;
    const struct {
        rhumb_view_id id;
        uint64_t shape[4];
    } tables[] = {
        {RHUMB_VIEW_TABLE, {1, 1, rows, h}},
        {RHUMB_VIEW_QUERY_TABLE, {1, shared ? 1 : h, rows, d}},
        {RHUMB_VIEW_KEY_TABLE, {1, h, rows, d}},
        {RHUMB_VIEW_VALUE_TABLE, {1, shared ? 1 : h, rows, d}},
        {RHUMB_VIEW_TABLE_SCALAR, {1, 1, rows, h}},
        {RHUMB_VIEW_CONTENT_BIAS, {1, 1, h, d}},
        {RHUMB_VIEW_SEGMENT_BIAS, {1, 1, h, d}},
        {RHUMB_VIEW_SEGMENT_TABLE, {1, h, 2, d}},
        {RHUMB_VIEW_SEGMENTS_Q, {1, 1, 1, s->q_rows}},
        {RHUMB_VIEW_SEGMENTS_K, {1, 1, 1, k_rows}},
        {RHUMB_VIEW_HEAD_SCALE, {1, 1, 1, h}},
    };

    for (size_t i = 0; i < sizeof tables / sizeof tables[0]; i++) {
        const uint64_t *n = tables[i].shape;
        const bool integer = (RHUMB_INTEGER_VIEWS >> tables[i].id & 1u) != 0;
        if ((views >> tables[i].id & 1u) == 0)
            continue;
        gpu_tensor *t =
            bench_add(o, tables[i].id, integer ? RHUMB_I32 : RHUMB_F32, n[0], n[1], n[2], n[3]);
        if (n[1] == 1 && shared)
            t->stride[1] = 0;
        if (s->scheme == BENCH_KERPLE)
            make_positive(t);
    }
}

rhumb_result bench_add_scheme_tensors(gpu *g, operation *o, const bench_shape *s)
{
    uint32_t views = scheme_views(s->scheme);
    rhumb_result result;

    if (o->op.info.op == RHUMB_OP_SCORES)
        views &= ~RHUMB_VIEW_BIT(RHUMB_VIEW_VALUE_TABLE);
    else if (o->op.info.op == RHUMB_OP_BIAS)
        views &= RHUMB_VIEW_BIT(RHUMB_VIEW_TABLE);
    if (views == 0)
        return RHUMB_OK;
    /* how many rows the tables have is the plan's to say */
    o->op.info.views = views;
    result = gpu_query_operation(g, &o->op);
    if (result == RHUMB_OK)
        add_tables(o, s, views);
    return result;
}
