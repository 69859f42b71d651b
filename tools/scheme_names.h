/* What the fields of rhumb_schemes.h are called outside of C: a string for each value of an enum,
 * and other names that published parameters have for the same thing. */
#ifndef RHUMB_TOOLS_SCHEME_NAMES_H
#define RHUMB_TOOLS_SCHEME_NAMES_H

#include <rhumb/rhumb_schemes.h>

#include <stddef.h>

/* Every enum that a scheme struct has a field of. */
#define SCHEME_ENUMS(X)                                                                            \
    X(rhumb_pairing)                                                                               \
    X(rhumb_rope_scaling)                                                                          \
    X(rhumb_yarn_ramp)                                                                             \
    X(rhumb_magnitude)                                                                             \
    X(rhumb_mrope_order)                                                                           \
    X(rhumb_rope2d_pairing)                                                                        \
    X(rhumb_rope2d_order)                                                                          \
    X(rhumb_rope2d_frequency)                                                                      \
    X(rhumb_frequency_rule)                                                                        \
    X(rhumb_sinusoid_layout)                                                                       \
    X(rhumb_sinusoid_odd)                                                                          \
    X(rhumb_out_of_range)                                                                          \
    X(rhumb_axis_order)                                                                            \
    X(rhumb_grid_layout)                                                                           \
    X(rhumb_token_order)                                                                           \
    X(rhumb_grid_coordinates)                                                                      \
    X(rhumb_grid_output)                                                                           \
    X(rhumb_learned2d_form)                                                                        \
    X(rhumb_resize_mode)                                                                           \
    X(rhumb_relative_index)                                                                        \
    X(rhumb_beyond_table)                                                                          \
    X(rhumb_alibi_slopes)                                                                          \
    X(rhumb_alibi_form)                                                                            \
    X(rhumb_xl_variant)                                                                            \
    X(rhumb_p2c_index)                                                                             \
    X(rhumb_window_padding)

/* The values of an enum are 0 to count - 1, and so are the strings: the end of the constant's name
 * in lower case. */
typedef struct scheme_enum {
    const char *type; /* "rhumb_pairing" */
    const char *const *names;
    size_t count;
} scheme_enum;

/* And those that plans have. */
#define PLAN_ENUMS(X)                                                                              \
    X(rhumb_variant)                                                                               \
    X(rhumb_mask_order)                                                                            \
    X(rhumb_purpose)                                                                               \
    X(rhumb_append)                                                                                \
    X(rhumb_weight_layout)

#define SCHEME_DECLARE_ENUM(type) extern const scheme_enum type##_strings;
SCHEME_ENUMS(SCHEME_DECLARE_ENUM)
PLAN_ENUMS(SCHEME_DECLARE_ENUM)
#undef SCHEME_DECLARE_ENUM

/* A name that tests/goldens/PARAMS.md has for a field, where both mean the same. `values` are pairs
 * of JSON texts, theirs and ours, ended by NULL: values that are spelled otherwise there. All others
 * are as the field has them. */
typedef struct scheme_alias {
    const char *scheme;
    const char *name;
    const char *member;
    const char *const *values;
} scheme_alias;

/* NULL if `name` is no alias of the scheme. */
const scheme_alias *scheme_find_alias(const char *scheme, const char *name);

/* All of them, and how many. */
const scheme_alias *scheme_aliases(size_t *count);

#endif /* RHUMB_TOOLS_SCHEME_NAMES_H */
