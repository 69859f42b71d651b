/* Rotary embedding: Su et al., RoFormer (arXiv 2104.09864), section 3.2.2.
 *
 *     a = p f_i:  x' = m (x cos a - y sin a), y' = m (x sin a + y cos a)
 *
 * At p = 2^31 a frequency that is only rounded to double moves the angle by 2e-7. Frequencies are
 * therefore carried as the unevaluated sum of two doubles, and so is the product with p.
 */
#include "rope_internal.h"

#include <stdlib.h>
#include <string.h>

/* ------------------------------------------------------------------------------------------------
 * Rows
 */
typedef struct channels {
    uint32_t read_x, read_y;
    uint32_t write_x, write_y;
} channels;

static channels channels_of(const ref_turning *t, uint32_t i)
{
    const uint32_t o = t->offset, n = t->pairs;
    channels at = {o + 2 * i, o + 2 * i + 1, o + 2 * i, o + 2 * i + 1};

    switch (t->pairing) {
    case REF_PAIRING_INTERLEAVED:
        break;
    case REF_PAIRING_HALF:
        at.read_x = o + i;
        at.read_y = o + i + n;
        at.write_x = at.read_x;
        at.write_y = at.read_y;
        break;
    case REF_PAIRING_INTERLEAVED_TO_HALF:
        at.write_x = o + i;
        at.write_y = o + i + n;
        break;
    case REF_PAIRING_HALF_PER_AXIS: /* n is even */
        at.read_x = o + i / (n / 2) * n + i % (n / 2);
        at.read_y = at.read_x + n / 2;
        at.write_x = at.read_x;
        at.write_y = at.read_y;
        break;
    }
    return at;
}

/* `turned` holds 2 * pairs numbers, so that no result overwrites what is still to be read. */
static void turn_row(const ref_turning *t, const double *cosines, const double *sines,
                     double *turned, const double *x, double *y)
{
    uint32_t i;

    for (i = 0; i < t->pairs; i++) {
        const channels at = channels_of(t, i);
        const double a = x[at.read_x], b = x[at.read_y];
        turned[2 * i] = a * cosines[i] - b * sines[i];
        turned[2 * i + 1] = a * sines[i] + b * cosines[i];
    }
    if (x != y)
        memcpy(y, x, t->head_dim * sizeof *y);
    for (i = 0; i < t->pairs; i++) {
        const channels at = channels_of(t, i);
        y[at.write_x] = turned[2 * i];
        y[at.write_y] = turned[2 * i + 1];
    }
}

int ref_turn_all(const ref_turning *t, ref_angles_fn angles, const void *user, const double *x,
                 double *y)
{
    double *cosines, *sines, *turned;
    uint32_t b, h, l;

    if (t->pairs == 0 || (uint64_t)t->offset + 2 * (uint64_t)t->pairs > t->head_dim)
        return -1;
    if (t->pairing == REF_PAIRING_HALF_PER_AXIS && t->pairs % 2 != 0)
        return -1;
    cosines = malloc(4 * (size_t)t->pairs * sizeof *cosines);
    if (cosines == NULL)
        return -1;
    sines = cosines + t->pairs;
    turned = sines + t->pairs;
    for (b = 0; b < t->batch; b++) {
        for (l = 0; l < t->rows; l++) {
            for (h = 0; h < t->heads; h++) {
                const uint64_t row = (((uint64_t)b * t->heads + h) * t->rows + l) * t->head_dim;
                if (h == 0 || t->per_head)
                    angles(user, b, h, l, cosines, sines);
                turn_row(t, cosines, sines, turned, x + row, y + row);
            }
        }
    }
    free(cosines);
    return 0;
}

/* ------------------------------------------------------------------------------------------------
 * One position a token
 */
void ref_rope_init(ref_rope *rope, uint32_t rotary_dim)
{
    memset(rope, 0, sizeof *rope);
    rope->pairing = REF_PAIRING_HALF;
    rope->rotary_dim = rotary_dim;
    rope->base = 10000.0;
    rope->factor = 1.0;
    rope->magnitude = 1.0;
    rope->schedule = REF_SCHEDULE_LINEAR;
    rope->beta_fast = 32.0;
    rope->beta_slow = 1.0;
    rope->truncate = 1;
    rope->extrapolation = 1.0;
    rope->low_freq_factor = 1.0;
    rope->high_freq_factor = 4.0;
    rope->partial_factor = 1.0;
}

/* malloc'ed; NULL without memory or for a rope outside its domain. */
static pair_sum *frequencies_of(const ref_rope *rope)
{
    pair_sum *frequencies;

    if (rope->rotary_dim < 2 || rope->rotary_dim % 2 != 0)
        return NULL;
    frequencies = malloc(rope->rotary_dim / 2 * sizeof *frequencies);
    if (frequencies != NULL && ref_schedule(rope, frequencies) != 0) {
        free(frequencies);
        return NULL;
    }
    return frequencies;
}

int ref_rope_frequencies(const ref_rope *rope, double *inv_freq)
{
    pair_sum *frequencies = frequencies_of(rope);
    uint32_t i;

    if (frequencies == NULL)
        return -1;
    for (i = 0; i < rope->rotary_dim / 2; i++)
        inv_freq[i] = frequencies[i].high;
    free(frequencies);
    return 0;
}

int ref_rope_angles(const ref_rope *rope, int64_t position, double *cosines, double *sines)
{
    pair_sum *frequencies = frequencies_of(rope);
    uint32_t i;

    if (frequencies == NULL)
        return -1;
    for (i = 0; i < rope->rotary_dim / 2; i++)
        ref_pair_turn((double)position, frequencies[i], &cosines[i], &sines[i]);
    free(frequencies);
    return 0;
}

/* What ref_rotate and ref_rotate_sections need of a row. */
typedef struct row_angles {
    const ref_rope *rope;
    const pair_sum *frequencies;
    const uint32_t *pair_axis; /* NULL: all pairs go by the first axis */
    const int32_t *positions;  /* [axes, batch, rows] */
    uint32_t batch;
    uint32_t rows;
    int inverse;
} row_angles;

static void angles_of_row(const void *user, uint32_t b, uint32_t h, uint32_t l, double *cosines,
                          double *sines)
{
    const row_angles *a = user;
    const double m = a->rope->magnitude;
    uint32_t i;

    (void)h;
    for (i = 0; i < a->rope->rotary_dim / 2; i++) {
        const uint64_t axis = a->pair_axis != NULL ? a->pair_axis[i] : 0;
        const double p = a->positions[(axis * a->batch + b) * a->rows + l];
        ref_pair_turn(p, a->frequencies[i], &cosines[i], &sines[i]);
        cosines[i] *= m;
        sines[i] *= a->inverse ? -m : m;
    }
}

static int rotate(row_angles *a, uint32_t heads, uint32_t head_dim, const double *x, double *y)
{
    pair_sum *frequencies = frequencies_of(a->rope);
    ref_turning t;
    int result;

    if (frequencies == NULL)
        return -1;
    a->frequencies = frequencies;
    memset(&t, 0, sizeof t);
    t.pairing = a->rope->pairing;
    t.pairs = a->rope->rotary_dim / 2;
    t.offset = a->rope->rotary_offset;
    t.batch = a->batch;
    t.heads = heads;
    t.rows = a->rows;
    t.head_dim = head_dim;
    result = ref_turn_all(&t, angles_of_row, a, x, y);
    free(frequencies);
    return result;
}

int ref_rotate(const ref_rope *rope, uint32_t batch, uint32_t heads, uint32_t rows,
               uint32_t head_dim, const int32_t *positions, int inverse, const double *x, double *y)
{
    row_angles a = {rope, NULL, NULL, positions, batch, rows, inverse};

    return rotate(&a, heads, head_dim, x, y);
}

int ref_rotate_sections(const ref_rope *rope, const uint32_t *pair_axis, uint32_t axes,
                        uint32_t batch, uint32_t heads, uint32_t rows, uint32_t head_dim,
                        const int32_t *positions, const double *x, double *y)
{
    row_angles a = {rope, NULL, pair_axis, positions, batch, rows, 0};
    uint32_t i;

    for (i = 0; i < rope->rotary_dim / 2; i++)
        if (pair_axis[i] >= axes)
            return -1;
    return rotate(&a, heads, head_dim, x, y);
}
