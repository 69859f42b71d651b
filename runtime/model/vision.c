/* Vision towers whose tokens turn by row and column: a layer kind of their own. */
#include "resolve.h"

#include <math.h>
#include <stdio.h>

/* Whether the configuration has an object vision_config with keys. */
static int has_tower(const rhumb_lookup *l)
{
    uint32_t i;

    for (i = 0; i < l->key_count; i++) {
        if (rhumb_lookup_below(l, &l->keys[i], "vision_config") != NULL)
            return 1;
    }
    return 0;
}

static void note(rhumb_vision *v, const char *field, double number, const char *source)
{
    rhumb_note *n = &v->notes[v->note_count];

    if (v->note_count == RHUMB_MOST_VISION_NOTES)
        return;
    n->field = field;
    (void)rhumb_lookup_print_number(number, n->value, sizeof n->value);
    (void)snprintf(n->source, sizeof n->source, "%s", source);
    v->note_count++;
}

static rhumb_result need_noted(const rhumb_lookup *l, rhumb_vision *v, const char *who,
                               const char *key)
{
    rhumb_sourced number;

    RHUMB_TRY(rhumb_lookup_need_integer(l, who, key, 1, RHUMB_MOST_LENGTH, &number));
    note(v, key, number.value, number.source);
    return RHUMB_OK;
}

/* head_dim, else the split of the width. */
static rhumb_result resolve_width(const rhumb_lookup *l, rhumb_vision *v, const char *who,
                                  const char *width_key, const char *heads_key)
{
    rhumb_sourced width;
    int found;

    RHUMB_TRY(rhumb_lookup_need_integer(l, who, heads_key, 1, RHUMB_MOST_HEADS, &v->heads));
    RHUMB_TRY(
        rhumb_lookup_integer(l, "head_dim", 1, RHUMB_MOST_HEAD_DIM, &v->head_dim, &found));
    if (!found) {
        RHUMB_TRY(rhumb_lookup_need_integer(l, who, width_key, 1, RHUMB_MOST_HIDDEN, &width));
        if (fmod(width.value, v->heads.value) != 0.0)
            return rhumb_lookup_fail(l, RHUMB_ERROR_CONFIG,
                                     "%s: wanted a multiple of %s %.0f, found %.0f", width.source,
                                     heads_key, v->heads.value, width.value);
        rhumb_sourced_set(&v->head_dim, width.value / v->heads.value, "%.64s / %s", width.source,
                          heads_key);
    }
    if (v->head_dim.value > RHUMB_MOST_HEAD_DIM || fmod(v->head_dim.value, 4.0) != 0.0)
        return rhumb_lookup_fail(l, RHUMB_ERROR_CONFIG,
                                 "%s: wanted a multiple of 4 up to %u for each head, found %.0f",
                                 v->head_dim.source, RHUMB_MOST_HEAD_DIM, v->head_dim.value);
    return RHUMB_OK;
}

static rhumb_result resolve_base(const rhumb_lookup *l, rhumb_vision *v, const char *who,
                                 double otherwise)
{
    int found;

    RHUMB_TRY(rhumb_lookup_number(l, "rope_theta", 1e-30, 1e30, &v->base, &found));
    if (!found)
        rhumb_sourced_set(&v->base, otherwise, "default of %s", who);
    v->plane.base = v->base.value;
    return RHUMB_OK;
}

/* Rows first, both axes with the same frequencies, base fixed. */
static rhumb_result resolve_qwen(const rhumb_lookup *l, rhumb_model_values *r, const char *who,
                                 const char *width_key)
{
    rhumb_vision *v = &r->vision;

    v->variant = "qwen2_vl_vision";
    RHUMB_TRY(resolve_width(l, v, who, width_key, "num_heads"));
    rhumb_sourced_set(&v->base, v->plane.base, "rule of %s", who);
    RHUMB_TRY(need_noted(l, v, who, "patch_size"));
    RHUMB_TRY(need_noted(l, v, who, "spatial_merge_size"));
    if (strcmp(who, "qwen2_5_vl") == 0)
        rhumb_model_warn(r,
                         "the tower's layers outside this list attend within windows of "
                         "window_size pixels, which no mask here says",
                         l->scope, "fullatt_block_indexes");
    return RHUMB_OK;
}

/* One list of frequencies, shared out between rows and columns. */
static rhumb_result resolve_pixtral(const rhumb_lookup *l, rhumb_model_values *r, const char *who)
{
    rhumb_vision *v = &r->vision;
    rhumb_sourced image;
    rhumb_sourced patch;
    const char *model_type = "";
    int found;

    RHUMB_TRY(rhumb_lookup_string(l, "model_type", &model_type, &found));
    if (strcmp(model_type, "pixtral") != 0)
        return rhumb_lookup_fail(l, RHUMB_ERROR_CONFIG,
                                 "not implemented: %smodel_type: wanted pixtral, found %.48s",
                                 l->scope, found ? model_type : "none");
    v->variant = "pixtral";
    v->plane.frequency = RHUMB_ROPE2D_ALTERNATING;
    RHUMB_TRY(resolve_width(l, v, who, "hidden_size", "num_attention_heads"));
    RHUMB_TRY(resolve_base(l, v, "pixtral", 1e4));
    RHUMB_TRY(
        rhumb_lookup_need_integer(l, who, "image_size", 1, RHUMB_MOST_LENGTH, &image));
    RHUMB_TRY(rhumb_lookup_need_integer(l, who, "patch_size", 1, RHUMB_MOST_LENGTH, &patch));
    note(v, "max_patches_per_side", floor(image.value / patch.value), "image_size / patch_size");
    return RHUMB_OK;
}

/* Coordinates run from -1 to 1 over the image: those of the configured image size. */
static rhumb_result resolve_dinov3(const rhumb_lookup *l, rhumb_model_values *r, const char *who)
{
    rhumb_vision *v = &r->vision;
    rhumb_sourced image;
    rhumb_sourced patch;
    rhumb_sourced registers;
    double side;
    int found;

    v->variant = "dinov3";
    v->plane.frequency = RHUMB_ROPE2D_PERIODS;
    RHUMB_TRY(resolve_width(l, v, who, "hidden_size", "num_attention_heads"));
    RHUMB_TRY(resolve_base(l, v, who, 100.0));
    RHUMB_TRY(
        rhumb_lookup_need_integer(l, who, "image_size", 1, RHUMB_MOST_LENGTH, &image));
    RHUMB_TRY(rhumb_lookup_need_integer(l, who, "patch_size", 1, RHUMB_MOST_LENGTH, &patch));
    side = floor(image.value / patch.value);
    if (side < 1.0)
        return rhumb_lookup_fail(l, RHUMB_ERROR_CONFIG,
                                 "%s: wanted at least patch_size %.0f, found %.0f", image.source,
                                 patch.value, image.value);
    v->plane.scale[0] = v->plane.scale[1] = 2.0 / side;
    v->plane.offset[0] = v->plane.offset[1] = 1.0 / side - 1.0;
    note(v, "patches_per_side", side, "image_size / patch_size; other images need their own scale");
    RHUMB_TRY(rhumb_lookup_integer(l, "num_register_tokens", 0, RHUMB_MOST_HEADS, &registers,
                                   &found));
    note(v, "num_prefix_tokens", 1.0 + (found ? registers.value : 0.0),
         found ? "1 + num_register_tokens" : "default of dinov3_vit: the class token");
    return RHUMB_OK;
}

rhumb_result rhumb_model_vision(const rhumb_lookup *given, rhumb_model_values *r,
                                const rhumb_family *family)
{
    const char *who = family->model_type;
    rhumb_lookup l = *given;

    l.scope = "";
    rhumb_init_rope2d(&r->vision.plane);
    if (family->vision_rule == RHUMB_VISION_NONE ||
        (family->vision_rule != RHUMB_VISION_DINOV3 && !has_tower(&l)))
        return RHUMB_OK;
    r->vision.present = 1;
    (void)snprintf(r->vision.rule, sizeof r->vision.rule, "rule of %s", who);
    if (family->vision_rule == RHUMB_VISION_DINOV3)
        return resolve_dinov3(&l, r, who);
    l.scope = "vision_config.";
    switch (family->vision_rule) {
    case RHUMB_VISION_EMBED_DIM:
        return resolve_qwen(&l, r, who, "embed_dim");
    case RHUMB_VISION_HIDDEN_SIZE:
        return resolve_qwen(&l, r, who, "hidden_size");
    default:
        return resolve_pixtral(&l, r, who);
    }
}
