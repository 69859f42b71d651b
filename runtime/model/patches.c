/* Models of images whose tokens are a grid: learned tables, and sinusoids of row and column. */
#include "positions.h"

#include <stdio.h>

static void note_plane(rhumb_positions *p, const rhumb_position_kind *kind, const char *scheme,
                       const uint32_t grid[2], uint32_t prefix)
{
    rhumb_position_note_text(p, kind, "scheme", scheme, "rule of %.64s", p->who);
    rhumb_position_note_pair(p, kind, "grid", grid, "image_size / patch_size");
    rhumb_position_note_number(p, kind, "num_prefix_tokens", prefix, "rule of %.64s", p->who);
}

/* A table with a row for each patch, after those of the tokens in front. */
static rhumb_result add_table(const rhumb_lookup *l, rhumb_positions *p, rhumb_position_kind *kind,
                              uint32_t prefix)
{
    rhumb_learned2d *s = &kind->absolute.learned2d;

    rhumb_init_learned2d(s);
    RHUMB_TRY(rhumb_position_grid(l, p->who, s->grid));
    s->prefix_tokens = prefix;
    kind->layer.absolute_rows = prefix + s->grid[0] * s->grid[1];
    kind->layer.absolute_dim = (uint32_t)kind->width.value;
    note_plane(p, kind, "learned2d", s->grid, prefix);
    rhumb_position_note_number(p, kind, "table_rows", kind->layer.absolute_rows,
                               "num_prefix_tokens + patches");
    rhumb_position_note(p, kind, "dim", &kind->width);
    return RHUMB_OK;
}

rhumb_result rhumb_rule_vit(const rhumb_lookup *l, const rhumb_position_family *f,
                            rhumb_positions *p)
{
    rhumb_position_kind *kind;

    RHUMB_TRY(rhumb_position_add(l, p, "attention", &f->keys, &kind));
    RHUMB_TRY(add_table(l, p, kind, f->prefix));
    if (strcmp(f->model_type, "dinov2") == 0)
        rhumb_position_warn(l, p, "image_size",
                            "other sizes resample the table bicubically: the original code by "
                            "(side + 0.1) / old side, not antialiased");
    if (strcmp(f->model_type, "dinov2_with_registers") == 0)
        rhumb_position_warn(l, p, "num_register_tokens",
                            "register tokens have no rows: they are put behind the class token "
                            "after the addition");
    return RHUMB_OK;
}

/* Fixed sinusoids, the column's first; the decoder likewise. */
static rhumb_result add_mae(const rhumb_lookup *l, rhumb_positions *p, const char *name,
                            const rhumb_stack_keys *keys)
{
    rhumb_position_kind *kind;
    rhumb_sinusoidal2d *s;

    RHUMB_TRY(rhumb_position_add(l, p, name, keys, &kind));
    s = &kind->absolute.sinusoidal2d;
    rhumb_init_sinusoidal2d(s);
    RHUMB_TRY(rhumb_position_grid(l, p->who, s->grid));
    if (s->grid[0] != s->grid[1])
        return rhumb_lookup_fail(l, RHUMB_ERROR_CONFIG,
                                 "%simage_size: wanted a square grid (rule of %s), found %u x %u",
                                 l->scope, p->who, (unsigned)s->grid[0], (unsigned)s->grid[1]);
    if ((uint32_t)kind->width.value % 4 != 0)
        return rhumb_lookup_fail(l, RHUMB_ERROR_CONFIG, "%s: wanted a multiple of 4, found %.0f",
                                 kind->width.source, kind->width.value);
    s->order = RHUMB_AXIS_COLUMN_FIRST;
    s->layout = RHUMB_GRID_PER_AXIS;
    s->prefix_tokens = 1;
    kind->layer.absolute_dim = (uint32_t)kind->width.value;
    note_plane(p, kind, "sinusoidal2d", s->grid, 1);
    rhumb_position_note(p, kind, "dim", &kind->width);
    rhumb_position_note_text(p, kind, "order", "x, y", "rule of %.64s", p->who);
    return RHUMB_OK;
}

rhumb_result rhumb_rule_mae(const rhumb_lookup *l, const rhumb_position_family *f,
                            rhumb_positions *p)
{
    static const rhumb_stack_keys decoder_keys = {{"decoder_num_attention_heads"},
                                                  {"decoder_hidden_size"},
                                                  NULL,
                                                  "decoder_num_hidden_layers"};

    RHUMB_TRY(add_mae(l, p, "encoder", &f->keys));
    RHUMB_TRY(add_mae(l, p, "decoder", &decoder_keys));
    rhumb_position_warn(l, p, "mask_ratio",
                        "the encoder drops patches after the addition: the kept ones keep the rows "
                        "of their places");
    return RHUMB_OK;
}

/* Two models side by side, each with its keys in an object. */
rhumb_result rhumb_rule_clip(const rhumb_lookup *l, const rhumb_position_family *f,
                             rhumb_positions *p)
{
    rhumb_lookup part = *l;
    rhumb_position_kind *kind;
    rhumb_sourced rows;

    part.scope = "text_config.";
    RHUMB_TRY(rhumb_position_add(&part, p, "text", &f->keys, &kind));
    RHUMB_TRY(rhumb_lookup_need_integer(&part, p->who, f->rows, 1, 1u << 30, &rows));
    rhumb_position_causal(kind, 1, NULL);
    rhumb_position_learned(p, kind, &rows, &kind->width, 0);
    rhumb_position_note_text(p, kind, "position_offset", "0", "rule of %.64s", p->who);
    part.scope = "vision_config.";
    RHUMB_TRY(rhumb_position_add(&part, p, "vision", &f->keys, &kind));
    return add_table(&part, p, kind, f->prefix);
}

/* --- DETR --- */

/* Rows and columns have tables of 50, side by side. */
static void set_detr_learned(rhumb_positions *p, rhumb_position_kind *kind)
{
    rhumb_learned2d *s = &kind->absolute.learned2d;

    rhumb_init_learned2d(s);
    s->form = RHUMB_LEARNED2D_CONCAT;
    s->output = RHUMB_OUTPUT_IMAGE;
    kind->layer.absolute_rows = 50;
    rhumb_position_note_text(p, kind, "scheme", "learned2d", "position_embedding_type");
    rhumb_position_note_text(p, kind, "table_rows", "50", "rule of %.64s", p->who);
}

static void set_detr_sine(rhumb_positions *p, rhumb_position_kind *kind)
{
    rhumb_sinusoidal2d *s = &kind->absolute.sinusoidal2d;

    rhumb_init_sinusoidal2d(s);
    s->coordinates = RHUMB_COORDINATES_VALID;
    s->output = RHUMB_OUTPUT_IMAGE;
    s->normalize = 1;
    rhumb_position_note_text(p, kind, "scheme", "sinusoidal2d", "position_embedding_type");
    rhumb_position_note_number(p, kind, "temperature", s->base, "rule of %.64s", p->who);
    rhumb_position_note_text(p, kind, "normalize", "true", "rule of %.64s", p->who);
    rhumb_position_note_number(p, kind, "scale", s->coordinate_scale, "rule of %.64s", p->who);
}

rhumb_result rhumb_rule_detr(const rhumb_lookup *l, const rhumb_position_family *f,
                             rhumb_positions *p)
{
    const char *type = "sine";
    rhumb_position_kind *kind;
    int learned;
    int found;

    RHUMB_TRY(rhumb_position_add(l, p, "encoder", &f->keys, &kind));
    RHUMB_TRY(rhumb_lookup_string(l, "position_embedding_type", &type, &found));
    if (!found)
        return rhumb_lookup_fail(l, RHUMB_ERROR_CONFIG,
                                 "%sposition_embedding_type: missing, needed by %s", l->scope,
                                 p->who);
    learned = strcmp(type, "learned") == 0;
    if (!learned && strcmp(type, "sine") != 0)
        return rhumb_lookup_fail(l, RHUMB_ERROR_CONFIG,
                                 "%sposition_embedding_type: wanted sine or learned, found %.48s",
                                 l->scope, type);
    if ((uint32_t)kind->width.value % 4 != 0)
        return rhumb_lookup_fail(l, RHUMB_ERROR_CONFIG, "%s: wanted a multiple of 4, found %.0f",
                                 kind->width.source, kind->width.value);
    if (learned)
        set_detr_learned(p, kind);
    else
        set_detr_sine(p, kind);
    kind->layer.absolute_dim = (uint32_t)kind->width.value;
    rhumb_position_note(p, kind, "dim", &kind->width);
    rhumb_position_note_number(p, kind, "dim_per_axis", kind->width.value / 2.0, "%.80s / 2",
                               kind->width.source);
    rhumb_position_note_text(p, kind, "order", learned ? "x, y" : "y, x", "rule of %.64s", p->who);
    rhumb_position_warn(
        l, p, "position_embedding_type",
        "added to Q and K of every layer, never to V; the grid is each image's: set "
        "it in the scheme");
    rhumb_position_warn(l, p, "decoder_attention_heads",
                        "the decoder adds this to the keys of its cross-attention, and learned "
                        "object queries to its own Q and K");
    return RHUMB_OK;
}
