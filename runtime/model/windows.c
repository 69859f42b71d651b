/* Models of images with a bias for the offset inside a window: Swin, Swin v2 and BEiT. */
#include "positions.h"

#include <math.h>
#include <stdio.h>

#define MOST_STAGES 4u
#define MOST_SIDE 16384u

typedef struct stage_values {
    uint32_t depth;
    uint32_t heads;
    uint32_t pretrained; /* window; 0: none */
    uint32_t first;      /* layer */
} stage_values;

typedef struct hierarchy {
    uint32_t count;
    stage_values stages[MOST_STAGES];
    uint32_t layers;
    uint32_t grid[2]; /* of the first stage */
    rhumb_sourced window;
    rhumb_sourced width;
    int v2;
} hierarchy;

/* A list of `*count` integers; *count 0: any number of stages, and it is told. */
static rhumb_result read_stages(const rhumb_lookup *l, const char *who, const char *path,
                                uint32_t least, uint32_t most, uint32_t *count,
                                uint32_t numbers[MOST_STAGES])
{
    const rhumb_key *key;
    char have[80];
    uint32_t i;

    RHUMB_TRY(rhumb_lookup_find(l, path, &key));
    if (key == NULL || key->kind == RHUMB_VALUE_NULL)
        return rhumb_lookup_fail(l, RHUMB_ERROR_CONFIG, "%s%s: missing, needed by %s", l->scope,
                                 path, who);
    if (key->kind != RHUMB_VALUE_LIST || key->count == 0 || key->count > MOST_STAGES ||
        (*count != 0 && key->count != *count))
        return rhumb_lookup_fail(
            l, RHUMB_ERROR_CONFIG, "%s: wanted a list of %s%u integers, found %s", key->path,
            *count != 0 ? "" : "1 to ", (unsigned)(*count != 0 ? *count : MOST_STAGES),
            rhumb_lookup_print(key, have, sizeof have));
    *count = key->count;
    for (i = 0; i < key->count; i++) {
        double number = key->items[i].number;
        if (key->items[i].kind != RHUMB_VALUE_NUMBER || floor(number) != number ||
            !(number >= least && number <= most))
            return rhumb_lookup_fail(l, RHUMB_ERROR_CONFIG,
                                     "%s: item %u: wanted an integer from %u to %u, found %s",
                                     key->path, (unsigned)i, (unsigned)least, (unsigned)most,
                                     rhumb_lookup_print(&key->items[i], have, sizeof have));
        numbers[i] = (uint32_t)number;
    }
    return RHUMB_OK;
}

static rhumb_result read_pretrained(const rhumb_lookup *l, const char *who, hierarchy *h)
{
    uint32_t numbers[MOST_STAGES];
    uint32_t i;

    RHUMB_TRY(read_stages(l, who, "pretrained_window_sizes", 0, MOST_SIDE, &h->count, numbers));
    for (i = 0; i < h->count; i++) {
        if (numbers[i] == 1)
            return rhumb_lookup_fail(l, RHUMB_ERROR_CONFIG,
                                     "%spretrained_window_sizes: item %u: wanted 0 (none), or 2 or "
                                     "more, found 1",
                                     l->scope, (unsigned)i);
        h->stages[i].pretrained = numbers[i];
    }
    return RHUMB_OK;
}

static rhumb_result read_hierarchy(const rhumb_lookup *l, const char *who, hierarchy *h)
{
    uint32_t depths[MOST_STAGES];
    uint32_t heads[MOST_STAGES];
    uint32_t i;

    RHUMB_TRY(rhumb_lookup_need_integer(l, who, "embed_dim", 1, RHUMB_MOST_HIDDEN / 8, &h->width));
    RHUMB_TRY(rhumb_lookup_need_integer(l, who, "window_size", 1, MOST_SIDE, &h->window));
    RHUMB_TRY(read_stages(l, who, "depths", 1, RHUMB_MAX_LAYERS / MOST_STAGES, &h->count, depths));
    RHUMB_TRY(read_stages(l, who, "num_heads", 1, RHUMB_MOST_HEADS, &h->count, heads));
    if (h->v2)
        RHUMB_TRY(read_pretrained(l, who, h));
    for (i = 0; i < h->count; i++) {
        h->stages[i].depth = depths[i];
        h->stages[i].heads = heads[i];
        h->stages[i].first = h->layers;
        h->layers += depths[i];
    }
    return rhumb_position_grid(l, who, h->grid);
}

/* Sides of a stage's grid: halved between stages, rounded up. */
static uint32_t side_of(const hierarchy *h, uint32_t stage, uint32_t axis)
{
    return (h->grid[axis] + (1u << stage) - 1) >> stage;
}

/* A grid no larger than the window is one window, without shift. */
static uint32_t window_of(const hierarchy *h, uint32_t stage, int *clipped)
{
    uint32_t window = (uint32_t)h->window.value;
    uint32_t least = side_of(h, stage, 0);

    if (side_of(h, stage, 1) < least)
        least = side_of(h, stage, 1);
    *clipped = least <= window;
    return *clipped ? least : window;
}

/* swin and swin_v2 begin alike, but are two structs. */
static void set_swin(const hierarchy *h, uint32_t stage, int shifted, rhumb_position_kind *kind)
{
    rhumb_swin *swin = &kind->relative.swin;
    rhumb_swin_v2 *v2 = &kind->relative.swin_v2;
    uint32_t pretrained = h->stages[stage].pretrained;
    int clipped;
    uint32_t window = window_of(h, stage, &clipped);
    uint32_t i;

    if (h->v2)
        rhumb_init_swin_v2(v2);
    else
        rhumb_init_swin(swin);
    for (i = 0; i < 2; i++) {
        uint32_t side = side_of(h, stage, i);
        uint32_t shift = shifted ? window / 2 : 0;
        rhumb_window_padding padding =
            side % window != 0 ? RHUMB_WINDOW_PAD_THEN_SHIFT : RHUMB_WINDOW_EXACT;
        *(h->v2 ? &v2->window[i] : &swin->window[i]) = window;
        *(h->v2 ? &v2->grid[i] : &swin->grid[i]) = side;
        *(h->v2 ? &v2->shift[i] : &swin->shift[i]) = shift;
        if (padding != RHUMB_WINDOW_EXACT)
            *(h->v2 ? &v2->padding : &swin->padding) = padding;
        if (h->v2)
            v2->pretrained_window[i] = pretrained;
    }
}

static void print_heads(const hierarchy *h, char *text, size_t size)
{
    size_t used = 0;
    uint32_t i;

    for (i = 0; i < h->count && used < size; i++)
        used += (size_t)snprintf(text + used, size - used, "%s%u", i > 0 ? ", " : "",
                                 (unsigned)h->stages[i].heads);
}

static void note_coordinates(rhumb_positions *p, const rhumb_position_kind *kind)
{
    const rhumb_swin_v2 *v2 = &kind->relative.swin_v2;
    uint32_t side = 2 * v2->window[0] - 1;
    char text[40];

    (void)snprintf(text, sizeof text, "%u, %u, 2", (unsigned)side, (unsigned)side);
    rhumb_position_note_text(p, kind, "coords_table", text, "2 window - 1");
    rhumb_position_note_pair(p, kind, "pretrained_window", v2->pretrained_window,
                             "pretrained_window_sizes");
    rhumb_position_note_number(p, kind, "bias_scale", v2->bias_gain, "rule of %.64s", p->who);
    rhumb_position_note_number(p, kind, "logit_scale_max", exp(v2->max_log_scale), "rule of %.64s",
                               p->who);
}

static void note_window(rhumb_positions *p, const hierarchy *h, const rhumb_position_kind *kind)
{
    const rhumb_relative *s = &kind->relative;
    const uint32_t *window = h->v2 ? s->swin_v2.window : s->swin.window;
    double side = 2.0 * window[0] - 1.0;
    char text[40] = "";

    rhumb_position_note_text(p, kind, "scheme", h->v2 ? "swin_v2" : "swin", "rule of %.64s",
                             p->who);
    rhumb_position_note_pair(p, kind, "window", window, h->window.source);
    rhumb_position_note_pair(p, kind, "grid", h->v2 ? s->swin_v2.grid : s->swin.grid,
                             "image_size / patch_size, halved for each stage");
    rhumb_position_note_pair(p, kind, "shift", h->v2 ? s->swin_v2.shift : s->swin.shift,
                             "rule: window / 2 in every other layer");
    if (h->v2)
        note_coordinates(p, kind);
    else
        rhumb_position_note_number(p, kind, "table_rows", side * side, "(2 window - 1)^2");
    print_heads(h, text, sizeof text);
    rhumb_position_note_text(p, kind, "heads_per_stage", text, "num_heads");
}

static rhumb_result add_stage(const rhumb_lookup *l, rhumb_positions *p, const hierarchy *h,
                              uint32_t stage, int shifted)
{
    const stage_values *s = &h->stages[stage];
    rhumb_position_kind *kind;
    char text[40] = "";
    double width = ldexp(h->width.value, (int)stage);
    uint32_t i;
    int clipped;

    (void)snprintf(text, sizeof text, "stage %u%s", (unsigned)stage + 1, shifted ? " shifted" : "");
    kind = rhumb_position_begin(p, text);
    if (fmod(width, s->heads) != 0.0)
        return rhumb_lookup_fail(
            l, RHUMB_ERROR_CONFIG,
            "%snum_heads: item %u: wanted a divisor of %.0f channels, found %u", l->scope,
            (unsigned)stage, width, (unsigned)s->heads);
    rhumb_sourced_set(&kind->width, width, "%.60s 2^%u", h->width.source, (unsigned)stage);
    rhumb_sourced_set(&kind->heads, s->heads, "%snum_heads", l->scope);
    rhumb_sourced_set(&kind->head_dim, width / s->heads, "%.80s / num_heads", kind->width.source);
    RHUMB_TRY(rhumb_position_size(l, kind));
    if (h->v2)
        rhumb_sourced_set(&kind->scale, 1.0, "rule of %.64s: cosines, with learned scales", p->who);
    (void)window_of(h, stage, &clipped);
    kind->layer.layer_count = h->layers;
    kind->layers_source = "depths";
    for (i = (uint32_t)shifted; i < s->depth; i += clipped ? 1 : 2)
        kind->layer.layers[(s->first + i) / 32] |= 1u << (s->first + i) % 32;
    set_swin(h, stage, shifted, kind);
    (void)snprintf(kind->scheme_source, sizeof kind->scheme_source, "%.95s", h->window.source);
    note_window(p, h, kind);
    return RHUMB_OK;
}

/* The table that some models also add to the patches; the first stage's. */
static rhumb_result add_absolute(const rhumb_lookup *l, rhumb_positions *p, const hierarchy *h)
{
    rhumb_position_kind *kind = &p->kinds[0];
    rhumb_learned2d *s = &kind->absolute.learned2d;
    int added;

    RHUMB_TRY(rhumb_position_bool(l, "use_absolute_embeddings", 0, &added));
    if (!added)
        return RHUMB_OK;
    rhumb_init_learned2d(s);
    s->grid[0] = h->grid[0];
    s->grid[1] = h->grid[1];
    kind->layer.absolute_rows = s->grid[0] * s->grid[1];
    kind->layer.absolute_dim = (uint32_t)h->width.value;
    rhumb_position_note_text(p, kind, "absolute", "learned2d", "%suse_absolute_embeddings",
                             l->scope);
    return RHUMB_OK;
}

static rhumb_result add_stages(const rhumb_lookup *l, rhumb_positions *p, hierarchy *h)
{
    uint32_t i;
    int clipped;

    RHUMB_TRY(read_hierarchy(l, p->who, h));
    for (i = 0; i < h->count; i++) {
        (void)window_of(h, i, &clipped);
        RHUMB_TRY(add_stage(l, p, h, i, 0));
        if (!clipped && h->stages[i].depth > 1)
            RHUMB_TRY(add_stage(l, p, h, i, 1));
    }
    return add_absolute(l, p, h);
}

rhumb_result rhumb_rule_swin(const rhumb_lookup *l, const rhumb_position_family *f,
                             rhumb_positions *p)
{
    hierarchy h;

    (void)f;
    memset(&h, 0, sizeof h);
    return add_stages(l, p, &h);
}

rhumb_result rhumb_rule_swin_v2(const rhumb_lookup *l, const rhumb_position_family *f,
                                rhumb_positions *p)
{
    hierarchy h;

    (void)f;
    memset(&h, 0, sizeof h);
    h.v2 = 1;
    RHUMB_TRY(add_stages(l, p, &h));
    rhumb_position_warn(l, p, "model_type",
                        "the transformers library adds the mask of shifted windows twice; the "
                        "original once, as here: mask_value -200 is its behaviour");
    return RHUMB_OK;
}

/* --- BEiT --- */

static rhumb_result set_beit_window(const rhumb_lookup *l, rhumb_positions *p,
                                    rhumb_position_kind *kind, int shared)
{
    rhumb_swin *s = &kind->relative.swin;

    rhumb_init_swin(s);
    RHUMB_TRY(rhumb_position_grid(l, p->who, s->window));
    s->prefix_tokens = 1;
    (void)snprintf(kind->scheme_source, sizeof kind->scheme_source, "%.40simage_size", l->scope);
    rhumb_position_note_text(p, kind, "scheme", "swin", "%.40s%s", l->scope,
                             shared ? "use_shared_relative_position_bias"
                                    : "use_relative_position_bias");
    rhumb_position_note_pair(p, kind, "window", s->window, "image_size / patch_size");
    rhumb_position_note_number(p, kind, "table_rows",
                               (2.0 * s->window[0] - 1.0) * (2.0 * s->window[1] - 1.0) + 3.0,
                               "(2 window - 1)^2 + 3");
    rhumb_position_note_number(p, kind, "num_prefix_tokens", 1.0, "rule of %.64s", p->who);
    if (shared)
        rhumb_position_warn(l, p, "use_shared_relative_position_bias",
                            "one table serves all layers");
    return RHUMB_OK;
}

rhumb_result rhumb_rule_beit(const rhumb_lookup *l, const rhumb_position_family *f,
                             rhumb_positions *p)
{
    rhumb_position_kind *kind;
    rhumb_learned2d *s;
    int own;
    int shared;
    int added;

    RHUMB_TRY(rhumb_position_add(l, p, "attention", &f->keys, &kind));
    RHUMB_TRY(rhumb_position_bool(l, "use_relative_position_bias", 0, &own));
    RHUMB_TRY(rhumb_position_bool(l, "use_shared_relative_position_bias", 0, &shared));
    RHUMB_TRY(rhumb_position_bool(l, "use_absolute_position_embeddings", 0, &added));
    if (own && shared)
        return rhumb_lookup_fail(l, RHUMB_ERROR_CONFIG,
                                 "%suse_shared_relative_position_bias: wanted false with "
                                 "use_relative_position_bias, found true",
                                 l->scope);
    if (own || shared)
        RHUMB_TRY(set_beit_window(l, p, kind, shared));
    if (added) {
        s = &kind->absolute.learned2d;
        rhumb_init_learned2d(s);
        RHUMB_TRY(rhumb_position_grid(l, p->who, s->grid));
        s->prefix_tokens = 1;
        kind->layer.absolute_rows = 1 + s->grid[0] * s->grid[1];
        kind->layer.absolute_dim = (uint32_t)kind->width.value;
        rhumb_position_note_text(p, kind, own || shared ? "absolute" : "scheme", "learned2d",
                                 "%.40suse_absolute_position_embeddings", l->scope);
    }
    if (!own && !shared && !added)
        rhumb_position_note_text(p, kind, "scheme", "none", "rule of %.64s", p->who);
    return RHUMB_OK;
}
