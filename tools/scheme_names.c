#include "scheme_names.h"

/* ----------------------------------------------------------------------------------------------
 * Enums
 */
#define COUNT(list) (sizeof(list) / sizeof *(list))
#define STRINGS(type, ...)                                                                         \
    static const char *const type##_list[] = {__VA_ARGS__};                                        \
    const scheme_enum type##_strings = {#type, type##_list, COUNT(type##_list)}

STRINGS(rhumb_pairing, "interleaved", "half", "interleaved_to_half");
STRINGS(rhumb_rope_scaling, "none", "linear", "ntk", "ntk_dynamic", "linear_dynamic",
        "ntk_by_parts", "yarn", "llama3", "longrope", "proportional", "explicit");
STRINGS(rhumb_yarn_ramp, "index", "rotations");
STRINGS(rhumb_magnitude, "auto", "given", "paper", "mscale_pair", "flattening");
STRINGS(rhumb_mrope_order, "blocks", "interleaved", "interleaved_extra", "alternating");
STRINGS(rhumb_rope2d_pairing, "interleaved", "half", "half_per_axis");
STRINGS(rhumb_rope2d_order, "row_first", "column_first");
STRINGS(rhumb_rope2d_frequency, "same", "alternating", "periods", "pixel", "pixel_linear",
        "learned");
STRINGS(rhumb_frequency_rule, "paper", "endpoint");
STRINGS(rhumb_sinusoid_layout, "interleaved", "sin_first", "cos_first");
STRINGS(rhumb_sinusoid_odd, "refused", "zero", "native", "cut");
STRINGS(rhumb_out_of_range, "clamp", "zero");
STRINGS(rhumb_axis_order, "row_first", "column_first");
STRINGS(rhumb_grid_layout, "interleaved", "per_axis", "sin_cos");
STRINGS(rhumb_token_order, "row_major", "column_major");
STRINGS(rhumb_grid_coordinates, "index", "valid");
STRINGS(rhumb_grid_output, "tokens", "image");
STRINGS(rhumb_learned2d_form, "full", "concat", "sum");
STRINGS(rhumb_resize_mode, "bicubic", "bilinear", "geometric");
STRINGS(rhumb_relative_index, "key_minus_query", "query_minus_key");
STRINGS(rhumb_beyond_table, "clamp", "refuse");
STRINGS(rhumb_alibi_slopes, "paper", "closed_form", "explicit");
STRINGS(rhumb_alibi_form, "symmetric", "relative", "key_index", "last_key", "key_position");
STRINGS(rhumb_xl_variant, "sinusoidal", "learned");
STRINGS(rhumb_p2c_index, "code", "paper");
STRINGS(rhumb_window_padding, "exact", "pad_then_shift", "shift_then_pad");
STRINGS(rhumb_variant, "auto", "generic", "tile", "decode", "unfused", "broadcast");
STRINGS(rhumb_mask_order, "auto", "index", "position");
STRINGS(rhumb_purpose, "rotate", "shift", "reschedule");
STRINGS(rhumb_append, "none", "position", "ring", "slots");
STRINGS(rhumb_weight_layout, "out_in", "in_out");

/* ----------------------------------------------------------------------------------------------
 * Names of PARAMS.md
 */
static const char *const sinusoid_frequency[] = {"\"2i/d\"", "\"paper\"", "\"i/(half-1)\"",
                                                 "\"endpoint\"", NULL};
static const char *const sinusoid_layout[] = {"\"concat\"", "\"sin_first\"", NULL};
static const char *const sinusoid_odd[] = {
    "\"none\"", "\"refused\"", "\"zero_pad\"", "\"zero\"", "\"ceil_even\"", "\"cut\"", NULL};
static const char *const axis_frequency[] = {"\"2i/d_axis\"", "\"paper\"", "\"i/(n-1)\"",
                                             "\"endpoint\"", NULL};
static const char *const axis_order[] = {"\"yx\"", "\"row_first\"", "\"xy\"", "\"column_first\"",
                                         NULL};
static const char *const axes[] = {"[\"h\",\"w\"]", "\"row_first\"", "[\"w\",\"h\"]",
                                   "\"column_first\"", NULL};
static const char *const grid_layout[] = {"\"axis_concat\"", "\"per_axis\"", "\"sin_cos_split\"",
                                          "\"sin_cos\"", NULL};
static const char *const mask_coords[] = {"false", "\"index\"", "true", "\"valid\"", NULL};
static const char *const grid_output[] = {"\"nchw\"", "\"image\"", NULL};
static const char *const learned2d_form[] = {"\"full_table\"", "\"full\"", "\"row_col_concat\"",
                                             "\"concat\"", NULL};
static const char *const resize_mode[] = {"\"geometric_bilinear\"", "\"geometric\"", NULL};
static const char *const mrope_interleaved[] = {"false", "\"blocks\"", "true", "\"interleaved\"",
                                                NULL};
static const char *const attn_type[] = {"\"bi\"", "1", "\"uni\"", "0", NULL};
static const char *const p2c_index[] = {"\"same as c2p (code convention)\"", "\"code\"", NULL};
static const char *const pad[] = {"\"none\"",
                                  "\"exact\"",
                                  "\"pad_then_shift\"",
                                  "\"pad_then_shift\"",
                                  "\"shift_then_pad\"",
                                  "\"shift_then_pad\"",
                                  NULL};
static const char *const mask_order[] = {"\"sequence index\"", "\"index\"", NULL};
/* -1 is what PARAMS.md has for "none" */
static const char *const none_below_zero[] = {"-1", "0", NULL};

/* An alias of the field's own name only adds values. "plan" is what run_plan.h has. */
static const scheme_alias aliases[] = {
    {"plan", "dim", "head_dim", NULL},
    {"plan", "v_head_dim", "value_dim", NULL},
    {"plan", "sliding_window", "window_left", NULL},
    {"plan", "mask_order", "mask_order", mask_order},
    {"plan", "seq_len", "new_length", NULL},
    {"rope", "layout", "pairing", NULL},
    {"rope", "freq_base", "base", NULL},
    {"rope", "rope_theta", "base", NULL},
    {"rope", "original_max_position_embeddings", "original_length", NULL},
    {"rope", "max_position_embeddings", "max_length", NULL},
    {"rope", "short_factor", "short_factors", NULL},
    {"rope", "long_factor", "long_factors", NULL},
    {"rope", "extrapolation_factor", "extrapolation", NULL},
    {"rope", "attn_factor", "attention_multiplier", NULL},
    {"xpos", "center", "centre", NULL},
    {"mrope", "mrope_section", "sections", NULL},
    {"mrope", "mrope_interleaved", "order", mrope_interleaved},
    {"rope2d", "layout", "pairing", NULL},
    {"rope2d", "axes", "order", axes},
    {"rope2d", "temperature", "base", NULL},
    {"rope2d", "max_res", "resolution", NULL},
    {"sinusoidal", "frequency", "frequency", sinusoid_frequency},
    {"sinusoidal", "layout", "layout", sinusoid_layout},
    {"sinusoidal", "odd", "odd", sinusoid_odd},
    {"sinusoidal", "padding_idx", "padding_index", NULL},
    {"learned", "l2norm", "normalize", NULL},
    {"sinusoidal2d", "axis_order", "order", axis_order},
    {"sinusoidal2d", "layout", "layout", grid_layout},
    {"sinusoidal2d", "frequency", "frequency", axis_frequency},
    {"sinusoidal2d", "token_order", "tokens", NULL},
    {"sinusoidal2d", "coord_start", "coordinate_start", NULL},
    {"sinusoidal2d", "mask_coords", "coordinates", mask_coords},
    {"sinusoidal2d", "scale", "coordinate_scale", NULL},
    {"sinusoidal2d", "eps", "epsilon", NULL},
    {"sinusoidal2d", "output", "output", grid_output},
    {"learned2d", "form", "form", learned2d_form},
    {"learned2d", "axis_order", "order", axis_order},
    {"learned2d", "output", "output", grid_output},
    {"resize", "mode", "mode", resize_mode},
    {"alibi", "alibi_bias_max", "bias_max", NULL},
    {"alibi", "alibi_form", "form", NULL},
    {"transformer_xl", "clamp_len", "clamp_len", none_below_zero},
    {"xlnet", "attn_type", "bidirectional", attn_type},
    {"xlnet", "bi_data", "flip_half", NULL},
    {"xlnet", "clamp_len", "clamp_len", none_below_zero},
    {"deberta", "position_buckets", "position_buckets", none_below_zero},
    {"deberta", "bucket_input_clamp", "clamp_input", NULL},
    {"deberta", "p2c_index", "p2c_index", p2c_index},
    {"swin", "pad", "padding", pad},
    {"swin_v2", "pad", "padding", pad},
    {"swin_v2", "mlp_hidden", "hidden", NULL},
    {"swin_v2", "eps", "epsilon", NULL},
};

const scheme_alias *scheme_aliases(size_t *count)
{
    *count = COUNT(aliases);
    return aliases;
}

const scheme_alias *scheme_find_alias(const char *scheme, const char *name)
{
    for (size_t i = 0; i < COUNT(aliases); i++)
        if (strcmp(aliases[i].scheme, scheme) == 0 && strcmp(aliases[i].name, name) == 0)
            return &aliases[i];
    return NULL;
}
