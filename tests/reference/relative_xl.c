/* Transformer-XL (Dai et al. 2019) and XLNet (Yang et al. 2019): tables of projected sinusoids by
 * distance. */
#include "relative.h"

#include <stdlib.h>

static int64_t xl_row(const void *user, int64_t delta, uint32_t b)
{
    const ref_xl *x = user;
    int64_t t = b >= x->flip ? delta : -delta;

    if (x->clamp > 0 && t > x->clamp)
        t = x->clamp;
    if (x->clamp > 0 && t < -(int64_t)x->clamp)
        t = -(int64_t)x->clamp;
    if (t < 0 && !x->bidirectional)
        return REF_ROW_NONE;
    if (x->learned)
        return t < x->rows ? (int64_t)x->rows - 1 - t : 0;
    return t >= x->first ? t - x->first : REF_ROW_INVALID;
}

/* sinusoid, then the products with the weights of every head and channel. */
static void project_row(uint32_t channels, uint32_t width, const double *weights, int transposed,
                        const double *sinusoid, double *row)
{
    uint32_t c, k;

    for (c = 0; c < channels; c++) {
        row[c] = 0.0;
        for (k = 0; k < width; k++)
            row[c] += sinusoid[k] * (transposed ? weights[(uint64_t)k * channels + c]
                                                : weights[(uint64_t)c * width + k]);
    }
}

int ref_xl_project(uint32_t heads, uint32_t head_dim, uint32_t width, const double *weights,
                   int transposed, int interleaved, int32_t first, uint32_t rows, double *table)
{
    const uint32_t channels = heads * head_dim, half = width / 2;
    double *cosines = malloc((width + 1) * sizeof *cosines);
    double *sines = malloc((width + 1) * sizeof *sines);
    double *sinusoid = malloc((width + 1) * sizeof *sinusoid);
    double *row = malloc((channels + 1) * sizeof *row);
    ref_rope rope;
    uint32_t t, c;
    int result = -1;

    if (cosines == NULL || sines == NULL || sinusoid == NULL || row == NULL)
        goto fail;
    ref_rope_init(&rope, width);
    for (t = 0; t < rows; t++) {
        if (ref_rope_angles(&rope, (int64_t)first + t, cosines, sines) != 0)
            goto fail;
        for (c = 0; c < half; c++) {
            sinusoid[interleaved ? 2 * c : c] = sines[c];
            sinusoid[interleaved ? 2 * c + 1 : half + c] = cosines[c];
        }
        project_row(channels, width, weights, transposed, sinusoid, row);
        for (c = 0; c < channels; c++)
            table[((uint64_t)(c / head_dim) * rows + t) * head_dim + c % head_dim] = row[c];
    }
    result = 0;

fail:
    free(cosines);
    free(sines);
    free(sinusoid);
    free(row);
    return result;
}

int ref_xl_terms(const ref_xl *x, ref_terms *terms)
{
    if (x->positions.data == NULL || x->rows == 0 || (x->learned && x->bidirectional))
        return -1;
    ref_terms_init(terms);
    terms->row = xl_row;
    terms->row_user = x;
    terms->rows = x->rows;
    terms->a = x->positions;
    terms->r = x->scalars;
    terms->u = x->u;
    terms->w = x->w;
    return 0;
}
