/* Rotary forms with more than a frequency and a position to a pair.
 *
 * XPos (Sun et al., arXiv 2212.10554): pair i of a query is multiplied by zeta_i^e, of a key by
 * zeta_i^-e, e = (p - centre)/scale_base, zeta_i = (2i + gamma R)/((1 + gamma) R).
 * M-RoPE (Qwen2-VL, arXiv 2409.12191): the position of a pair comes from one of three or four rows.
 * Two dimensions: the angle of a pair is h f_h + w f_w; in axial forms one of the two is 0.
 */
#include "rope_internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const double pi = 3.141592653589793;

/* ------------------------------------------------------------------------------------------------
 * XPos
 */
typedef struct xpos_angles {
    const ref_xpos *xpos;
    const int32_t *positions;
    const pair_sum *frequencies;
    uint32_t rows;
} xpos_angles;

static void angles_of_xpos(const void *user, uint32_t b, uint32_t h, uint32_t l, double *cosines,
                           double *sines)
{
    const xpos_angles *a = user;
    const ref_xpos *x = a->xpos;
    const double width = x->rope.rotary_dim;
    const double p = a->positions[(uint64_t)b * a->rows + l];
    const double e = (x->key_side ? x->centre - p : p - x->centre) / x->scale_base;
    uint32_t i;

    (void)h;
    for (i = 0; i < x->rope.rotary_dim / 2; i++) {
        const double zeta = (2.0 * i + x->gamma * width) / ((1.0 + x->gamma) * width);
        const double scale = x->rope.magnitude * pow(zeta, e);
        ref_pair_turn(p, a->frequencies[i], &cosines[i], &sines[i]);
        cosines[i] *= scale;
        sines[i] *= scale;
    }
}

void ref_xpos_init(ref_xpos *xpos, uint32_t rotary_dim)
{
    memset(xpos, 0, sizeof *xpos);
    ref_rope_init(&xpos->rope, rotary_dim);
    xpos->rope.pairing = REF_PAIRING_INTERLEAVED;
    xpos->scale_base = 512.0;
    xpos->gamma = 0.4;
}

int ref_rotate_xpos(const ref_xpos *xpos, uint32_t batch, uint32_t heads, uint32_t rows,
                    uint32_t head_dim, const int32_t *positions, const double *x, double *y)
{
    const ref_rope *rope = &xpos->rope;
    xpos_angles a = {xpos, positions, NULL, rows};
    ref_turning t;
    pair_sum *frequencies;
    int result = -1;

    if (rope->rotary_dim < 2 || rope->rotary_dim % 2 != 0 || !(xpos->gamma > 0.0) ||
        !isfinite(xpos->gamma) || !(xpos->scale_base > 0.0) || !isfinite(xpos->centre))
        return -1;
    frequencies = malloc(rope->rotary_dim / 2 * sizeof *frequencies);
    if (frequencies != NULL && ref_schedule(rope, frequencies) == 0) {
        a.frequencies = frequencies;
        memset(&t, 0, sizeof t);
        t.pairing = rope->pairing;
        t.pairs = rope->rotary_dim / 2;
        t.offset = rope->rotary_offset;
        t.batch = batch;
        t.heads = heads;
        t.rows = rows;
        t.head_dim = head_dim;
        result = ref_turn_all(&t, angles_of_xpos, &a, x, y);
    }
    free(frequencies);
    return result;
}

/* ------------------------------------------------------------------------------------------------
 * M-RoPE
 */
static uint32_t chunked(const uint32_t *sections, uint32_t count, uint32_t i)
{
    uint32_t axis = 0;

    while (axis + 1 < count && i >= sections[axis])
        i -= sections[axis++];
    return axis;
}

/* The axis whose turn it is in t, h, w, t, h, w, ...; `beyond` once that axis has had its pairs. */
static uint32_t interleaved(const uint32_t *sections, uint32_t i, uint32_t beyond)
{
    return i < 3 * sections[i % 3] ? i % 3 : beyond;
}

static uint32_t ernie(const uint32_t *sections, uint32_t i)
{
    return i < sections[0] + sections[1] ? 1 + i % 2 : 0;
}

int ref_section_axes(ref_section_rule rule, const uint32_t *sections, uint32_t pairs,
                     uint32_t *pair_axis)
{
    const uint32_t three = sections[0] + sections[1] + sections[2];
    uint32_t i;

    if (three == 0)
        return -1;
    if ((rule == REF_SECTIONS_BLOCKS || rule == REF_SECTIONS_ERNIE) && three != pairs)
        return -1;
    for (i = 0; i < pairs; i++) {
        switch (rule) {
        case REF_SECTIONS_BLOCKS:
            pair_axis[i] = chunked(sections, 3, i);
            break;
        case REF_SECTIONS_INTERLEAVED: /* t takes what h and w leave, beyond its own number too */
            pair_axis[i] = i % 3 == 0 ? 0 : interleaved(sections, i, 0);
            break;
        case REF_SECTIONS_ERNIE:
            pair_axis[i] = ernie(sections, i);
            break;
        case REF_SECTIONS_GGML_BLOCKS:
            pair_axis[i] = chunked(sections, 4, i % (three + sections[3]));
            break;
        case REF_SECTIONS_GGML_INTERLEAVED:
            pair_axis[i] = interleaved(sections, i % (three + sections[3]), 3);
            break;
        }
    }
    return 0;
}

/* ------------------------------------------------------------------------------------------------
 * Two dimensions
 */
typedef struct plane_angles {
    const ref_plane *plane;
    uint32_t heads;
    uint32_t pairs;
} plane_angles;

static void angles_of_plane(const void *user, uint32_t b, uint32_t h, uint32_t l, double *cosines,
                            double *sines)
{
    const plane_angles *a = user;
    const ref_plane *t = a->plane;
    const uint64_t of_w = (t->per_head ? (uint64_t)a->heads : 1) * a->pairs;
    const double *f = t->frequencies + (t->per_head ? (uint64_t)h * a->pairs : 0);
    uint32_t i;

    (void)b;
    for (i = 0; i < a->pairs; i++) {
        double c_h, s_h, c_w, s_w;
        ref_pair_turn(t->coordinates[2 * (uint64_t)l], ref_pair(f[i]), &c_h, &s_h);
        ref_pair_turn(t->coordinates[2 * (uint64_t)l + 1], ref_pair(f[of_w + i]), &c_w, &s_w);
        cosines[i] = c_h * c_w - s_h * s_w;
        sines[i] = s_h * c_w + c_h * s_w;
    }
}

int ref_rotate_plane(const ref_plane *plane, uint32_t batch, uint32_t heads, uint32_t rows,
                     uint32_t head_dim, const double *x, double *y)
{
    plane_angles a = {plane, heads, head_dim / 2};
    ref_turning t;

    if (head_dim % 2 != 0)
        return -1;
    memset(&t, 0, sizeof t);
    t.pairing = plane->pairing;
    t.pairs = head_dim / 2;
    t.batch = batch;
    t.heads = heads;
    t.rows = rows;
    t.head_dim = head_dim;
    t.per_head = plane->per_head;
    return ref_turn_all(&t, angles_of_plane, &a, x, y);
}

/* Frequency j of D/4 of one axis, which is the first or the second to own pairs. */
static double plane_frequency(ref_plane_rule rule, uint32_t head_dim, double base, uint32_t second,
                              uint32_t j)
{
    const uint32_t quarter = head_dim / 4;
    const double along = quarter > 1 ? (double)j / (quarter - 1.0) : 0.0;

    switch (rule) {
    case REF_PLANE_AXIAL:
        return ref_pair_negative_power(ref_pair(base), j, quarter).high;
    case REF_PLANE_ALTERNATING:
        return ref_pair_negative_power(ref_pair(base), 2 * j + second, head_dim / 2).high;
    case REF_PLANE_TURNS:
        return 2.0 * pi * ref_pair_negative_power(ref_pair(base), j, quarter).high;
    case REF_PLANE_PIXELS:
        return pi * exp2((log2(base) - 1.0) * along);
    case REF_PLANE_PIXELS_LINEAR:
        return pi * (1.0 + (base / 2.0 - 1.0) * along);
    }
    return 0.0;
}

int ref_plane_frequencies(ref_plane_rule rule, uint32_t head_dim, double base, int columns_first,
                          double *frequencies)
{
    const uint32_t n = head_dim / 2, quarter = head_dim / 4;
    uint32_t axis, j;

    if (head_dim < 4 || head_dim % 4 != 0 || !(base > 0.0) || !isfinite(base))
        return -1;
    memset(frequencies, 0, 2 * (size_t)n * sizeof *frequencies);
    for (axis = 0; axis < 2; axis++) {
        const uint32_t second = axis != (columns_first ? 1u : 0u);
        for (j = 0; j < quarter; j++)
            frequencies[axis * n + second * quarter + j] =
                plane_frequency(rule, head_dim, base, second, j);
    }
    return 0;
}

static double grid_coordinate(const ref_grid *g, int32_t index, uint32_t axis)
{
    const double size[2] = {g->height, g->width};
    double denominator = size[axis];

    switch (g->rule) {
    case REF_GRID_INDEX:
        return g->reference[axis] > 0.0
                   ? (index + g->offset) * g->reference[axis] / size[axis]
                   : index + g->offset;
    case REF_GRID_ENDS:
        return denominator > 1.0 ? -1.0 + 2.0 * index / (denominator - 1.0) : -1.0;
    case REF_GRID_CENTRES:
        break;
    case REF_GRID_CENTRES_MAX:
        denominator = fmax(size[0], size[1]);
        break;
    case REF_GRID_CENTRES_MIN:
        denominator = fmin(size[0], size[1]);
        break;
    }
    return 2.0 * (index + 0.5) / denominator - 1.0;
}

int ref_grid_coordinates(const ref_grid *grid, uint32_t tokens, const int32_t *positions,
                         double *coordinates)
{
    const int scaled = grid->rule != REF_GRID_INDEX || grid->reference[0] > 0.0 ||
                       grid->reference[1] > 0.0;
    uint64_t i;

    if (scaled && (grid->height == 0 || grid->width == 0))
        return -1;
    for (i = 0; i < 2 * (uint64_t)tokens; i++)
        coordinates[i] = grid_coordinate(grid, positions[i], (uint32_t)(i % 2));
    return 0;
}
