/* Root mean square norm of rows, before they are rotated. */
#include "reference.h"

#include <math.h>
#include <stddef.h>

int ref_rms_norm(uint32_t batch, uint32_t heads, uint32_t rows, uint32_t head_dim,
                 const double *gain, uint32_t gain_heads, double gain_offset, double epsilon,
                 const double *x, double *y)
{
    if (head_dim == 0 || (gain_heads != 1 && gain_heads != heads) || !(epsilon >= 0.0)) {
        return -1;
    }
    for (size_t i = 0; i < (size_t)batch * heads * rows; i++) {
        const size_t head = i / rows % heads;
        const double *from = x + i * head_dim;
        const double *g = gain + (gain_heads == 1 ? 0 : head) * head_dim;
        double sum = 0.0, scale;
        for (uint32_t c = 0; c < head_dim; c++) {
            sum += from[c] * from[c];
        }
        sum = sum / head_dim + epsilon;
        scale = sum > 0.0 ? 1.0 / sqrt(sum) : 0.0;
        for (uint32_t c = 0; c < head_dim; c++) {
            y[i * head_dim + c] = from[c] * scale * (gain_offset + g[c]);
        }
    }
    return 0;
}
