/* Rotary scheme structs in the reference's terms. Derived from the headers' words, by the
 * reference's own formulas. */
#include "verify.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static ref_schedule_kind schedule_of(const rhumb_rope *s)
{
    switch (s->scaling) {
    case RHUMB_ROPE_SCALING_NTK: return REF_SCHEDULE_NTK;
    case RHUMB_ROPE_SCALING_NTK_DYNAMIC: return REF_SCHEDULE_NTK_DYNAMIC;
    case RHUMB_ROPE_SCALING_LINEAR_DYNAMIC: return REF_SCHEDULE_LINEAR_DYNAMIC;
    case RHUMB_ROPE_SCALING_NTK_BY_PARTS: return REF_SCHEDULE_NTK_BY_PARTS;
    case RHUMB_ROPE_SCALING_YARN:
        return s->ramp == RHUMB_YARN_RAMP_INDEX ? REF_SCHEDULE_YARN : REF_SCHEDULE_YARN_PAPER;
    case RHUMB_ROPE_SCALING_LLAMA3: return REF_SCHEDULE_LLAMA3;
    case RHUMB_ROPE_SCALING_LONGROPE: return REF_SCHEDULE_LONGROPE;
    case RHUMB_ROPE_SCALING_PROPORTIONAL: return REF_SCHEDULE_PROPORTIONAL;
    default: return REF_SCHEDULE_LINEAR;
    }
}

static double longrope_magnitude(const rhumb_rope *s)
{
    const double by_lengths = (double)s->max_length / s->original_length;

    return ref_magnitude_longrope(s->factor > 1.0 ? s->factor : by_lengths, s->original_length);
}

static double magnitude_of(const rhumb_rope *s)
{
    switch (s->magnitude) {
    case RHUMB_MAGNITUDE_GIVEN: return s->attention_factor;
    case RHUMB_MAGNITUDE_PAPER: return ref_magnitude_paper(s->factor);
    case RHUMB_MAGNITUDE_MSCALE_PAIR:
        return ref_magnitude_mscale(s->factor, s->mscale, s->mscale_all_dim);
    case RHUMB_MAGNITUDE_FLATTENING: return ref_magnitude_flattening(s->factor);
    case RHUMB_MAGNITUDE_AUTO: break;
    }
    if (s->scaling == RHUMB_ROPE_SCALING_LONGROPE)
        return longrope_magnitude(s);
    if (s->scaling != RHUMB_ROPE_SCALING_YARN)
        return 1.0;
    return s->mscale > 0.0 && s->mscale_all_dim > 0.0
               ? ref_magnitude_mscale(s->factor, s->mscale, s->mscale_all_dim)
               : ref_magnitude_paper(s->factor);
}

static uint32_t window_of(uint32_t rotary_dim, uint32_t offset, uint32_t head_dim)
{
    return rotary_dim == RHUMB_WHOLE_HEAD ? head_dim - offset : rotary_dim;
}

static void read_rope(const rhumb_rope *s, uint32_t head_dim, uint32_t length, ref_rope *rope)
{
    static const ref_pairing pairings[] = {
        [RHUMB_PAIRING_INTERLEAVED] = REF_PAIRING_INTERLEAVED,
        [RHUMB_PAIRING_HALF] = REF_PAIRING_HALF,
        [RHUMB_PAIRING_INTERLEAVED_TO_HALF] = REF_PAIRING_INTERLEAVED_TO_HALF,
    };

    ref_rope_init(rope, window_of(s->rotary_dim, s->rotary_offset, head_dim));
    rope->pairing = pairings[s->pairing];
    rope->rotary_offset = s->rotary_offset;
    rope->base = s->base;
    rope->factor = s->scaling == RHUMB_ROPE_SCALING_NONE ? 1.0 : s->factor;
    rope->magnitude = magnitude_of(s) * s->attention_multiplier;
    rope->inv_freq = s->scaling == RHUMB_ROPE_SCALING_EXPLICIT ? s->frequencies : NULL;
    rope->schedule = schedule_of(s);
    rope->length = length;
    rope->max_length = s->max_length;
    rope->original_length = s->original_length;
    rope->beta_fast = s->beta_fast;
    rope->beta_slow = s->beta_slow;
    rope->truncate = s->truncate != 0;
    rope->extrapolation = s->extrapolation;
    rope->low_freq_factor = s->low_freq_factor;
    rope->high_freq_factor = s->high_freq_factor;
    rope->partial_factor = s->partial_factor;
    rope->short_factors = s->short_factors;
    rope->long_factors = s->long_factors;
    rope->divisors = s->divisors;
}

static void read_xpos(const rhumb_xpos *s, uint32_t head_dim, verify_rotary *r)
{
    ref_xpos_init(&r->xpos, window_of(s->rotary_dim, s->rotary_offset, head_dim));
    r->xpos.rope.rotary_offset = s->rotary_offset;
    r->xpos.rope.base = s->base;
    r->xpos.scale_base = s->scale_base;
    r->xpos.gamma = s->gamma;
    r->xpos.centre = s->centre;
    r->rope = r->xpos.rope;
}

static bool read_mrope(const rhumb_mrope *s, uint32_t head_dim, uint32_t length, verify_rotary *r)
{
    const bool four = s->order == RHUMB_MROPE_BLOCKS && s->sections[3] != 0;
    ref_section_rule rule = four ? REF_SECTIONS_GGML_BLOCKS : REF_SECTIONS_BLOCKS;
    rhumb_rope plain;

    rhumb_init_rope(&plain);
    read_rope(s->rope != NULL ? s->rope : &plain, head_dim, length, &r->rope);
    if (s->order == RHUMB_MROPE_INTERLEAVED)
        rule = REF_SECTIONS_INTERLEAVED;
    else if (s->order == RHUMB_MROPE_INTERLEAVED_EXTRA)
        rule = REF_SECTIONS_GGML_INTERLEAVED;
    else if (s->order == RHUMB_MROPE_ALTERNATING)
        rule = REF_SECTIONS_ERNIE;
    if (r->rope.rotary_dim / 2 > VERIFY_MAX_PAIRS ||
        ref_section_axes(rule, s->sections, r->rope.rotary_dim / 2, r->pair_axis) != 0)
        return false;
    r->axes = 3;
    for (uint32_t i = 0; i < r->rope.rotary_dim / 2; i++)
        if (r->pair_axis[i] == 3)
            r->axes = 4;
    return true;
}

static bool read_plane(const rhumb_rope2d *s, uint32_t head_dim, verify_rotary *r)
{
    static const ref_pairing pairings[] = {
        [RHUMB_ROPE2D_INTERLEAVED] = REF_PAIRING_INTERLEAVED,
        [RHUMB_ROPE2D_HALF] = REF_PAIRING_HALF,
        [RHUMB_ROPE2D_HALF_PER_AXIS] = REF_PAIRING_HALF_PER_AXIS,
    };
    static const ref_plane_rule rules[] = {
        [RHUMB_ROPE2D_SAME] = REF_PLANE_AXIAL,
        [RHUMB_ROPE2D_ALTERNATING] = REF_PLANE_ALTERNATING,
        [RHUMB_ROPE2D_PERIODS] = REF_PLANE_TURNS,
        [RHUMB_ROPE2D_PIXEL] = REF_PLANE_PIXELS,
        [RHUMB_ROPE2D_PIXEL_LINEAR] = REF_PLANE_PIXELS_LINEAR,
    };
    const bool pixels = s->frequency >= RHUMB_ROPE2D_PIXEL;
    const uint32_t width = window_of(s->rotary_dim, s->rotary_offset, head_dim);

    if (s->frequency > RHUMB_ROPE2D_PIXEL_LINEAR) /* what is learned is not in the struct */
        return false;
    r->axes = 2;
    ref_rope_init(&r->rope, width);
    r->rope.pairing = pairings[s->pairing];
    r->rope.rotary_offset = s->rotary_offset;
    for (uint32_t i = 0; i < 2; i++) {
        r->scale[i] = s->scale[i];
        r->offset[i] = s->offset[i];
    }
    return width <= 2 * VERIFY_MAX_PAIRS &&
           ref_plane_frequencies(rules[s->frequency], width, pixels ? s->resolution : s->base,
                                 s->order == RHUMB_ROPE2D_COLUMN_FIRST,
                                 r->plane_frequencies) == 0;
}

bool verify_read_rotary(const void *rotary, uint32_t head_dim, uint32_t length, verify_rotary *r)
{
    memset(r, 0, sizeof *r);
    r->type = ((const rhumb_header *)rotary)->type;
    r->axes = 1;
    switch (r->type) {
    case RHUMB_TYPE_ROPE:
        read_rope(rotary, head_dim, length, &r->rope);
        return true;
    case RHUMB_TYPE_XPOS:
        read_xpos(rotary, head_dim, r);
        return true;
    case RHUMB_TYPE_MROPE:
        return read_mrope(rotary, head_dim, length, r);
    case RHUMB_TYPE_ROPE2D:
        return read_plane(rotary, head_dim, r);
    default:
        return false;
    }
}

/* ----------------------------------------------------------------------------------------------
 * Rotation
 */

/* One batch entry; positions of h and of w lie `apart` from each other. The reference turns whole
 * heads, so the window is cut out and put back. */
static bool rotate_plane(const verify_rotary *r, uint32_t heads, uint32_t rows, uint32_t head_dim,
                         const int32_t *positions, uint64_t apart, bool inverse, const double *x,
                         double *y)
{
    const uint32_t width = r->rope.rotary_dim;
    double *window = malloc((size_t)heads * rows * width * sizeof *window);
    double *coordinates = malloc((size_t)rows * 2 * sizeof *coordinates);
    const ref_plane plane = {.pairing = r->rope.pairing,
                             .frequencies = r->plane_frequencies,
                             .coordinates = coordinates};
    bool done = window != NULL && coordinates != NULL;

    for (uint64_t i = 0; done && i < 2 * (uint64_t)rows; i++) {
        const double index = positions[i % 2 * apart + i / 2];
        coordinates[i] = (r->scale[i % 2] * index + r->offset[i % 2]) * (inverse ? -1.0 : 1.0);
    }
    for (uint64_t i = 0; done && i < (uint64_t)heads * rows; i++)
        memcpy(window + i * width, x + i * head_dim + r->rope.rotary_offset,
               width * sizeof *window);
    done = done && ref_rotate_plane(&plane, 1, heads, rows, width, window, window) == 0;
    if (done)
        memmove(y, x, (size_t)heads * rows * head_dim * sizeof *y);
    for (uint64_t i = 0; done && i < (uint64_t)heads * rows; i++)
        memcpy(y + i * head_dim + r->rope.rotary_offset, window + i * width,
               width * sizeof *window);
    free(window);
    free(coordinates);
    return done;
}

/* By turns the other way round: the sections of the reference know no inverse. */
static bool rotate_sections(const verify_rotary *r, const verify_rows *t, const double *x,
                            double *y)
{
    const size_t count = (size_t)r->axes * t->batch * t->rows;
    int32_t *positions = malloc(count * sizeof *positions);
    bool done = positions != NULL;

    for (size_t i = 0; done && i < count; i++)
        positions[i] = t->inverse ? -t->positions[i] : t->positions[i];
    done = done && ref_rotate_sections(&r->rope, r->pair_axis, r->axes, t->batch, t->heads, t->rows,
                                       t->head_dim, positions, x, y) == 0;
    free(positions);
    return done;
}

bool verify_rotate(const verify_rotary *r, const verify_rows *t, const double *x, double *y)
{
    const uint64_t entry = (uint64_t)t->heads * t->rows * t->head_dim;
    ref_xpos xpos = r->xpos;
    bool done = true;

    switch (r->type) {
    case RHUMB_TYPE_XPOS:
        xpos.key_side = t->keys;
        return !t->inverse && ref_rotate_xpos(&xpos, t->batch, t->heads, t->rows, t->head_dim,
                                              t->positions, x, y) == 0;
    case RHUMB_TYPE_MROPE:
        return rotate_sections(r, t, x, y);
    case RHUMB_TYPE_ROPE2D:
        for (uint32_t b = 0; done && b < t->batch; b++)
            done = rotate_plane(r, t->heads, t->rows, t->head_dim,
                                t->positions + (uint64_t)b * t->rows, (uint64_t)t->batch * t->rows,
                                t->inverse, x + b * entry, y + b * entry);
        return done;
    default:
        return ref_rotate(&r->rope, t->batch, t->heads, t->rows, t->head_dim, t->positions,
                          t->inverse, x, y) == 0;
    }
}

double verify_growth(const verify_rotary *r, const verify_rows *t)
{
    const double width = r->rope.rotary_dim;
    const double smallest = r->xpos.gamma / (1.0 + r->xpos.gamma);
    const double largest = (width - 2.0 + r->xpos.gamma * width) /
                           ((1.0 + r->xpos.gamma) * width);
    double most = r->rope.magnitude;

    if (r->type != RHUMB_TYPE_XPOS)
        return most;
    for (uint64_t i = 0; i < (uint64_t)t->batch * t->rows; i++) {
        const double away = t->positions[i] - r->xpos.centre;
        const double e = (t->keys ? -away : away) / r->xpos.scale_base;
        most = fmax(most, fmax(pow(smallest, e), pow(largest, e)));
    }
    return most;
}
