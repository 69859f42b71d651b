/* Learned tables: a row is added, nothing is computed. */
#include "reference_absolute.h"

#include <math.h>
#include <string.h>

/* The row of a position; -1: a row of zeros. -2: there is none. */
static int64_t row_of(const ref_learned *t, int32_t position)
{
    const int64_t last = (int64_t)t->table_rows - 1;
    int64_t row = position;

    if (t->beyond == REF_BEYOND_CLAMP_LOW && row < 0)
        row = 0;
    row += t->offset;
    if (row >= 0 && row <= last)
        return row;
    if (t->beyond == REF_BEYOND_CLAMP)
        return row < 0 ? 0 : last;
    return t->beyond == REF_BEYOND_ZERO ? -1 : -2;
}

static double factor_of(const ref_learned *t, const double *row)
{
    double sum = 0.0;
    uint32_t d;

    if (!t->l2norm)
        return t->pe_scale;
    for (d = 0; d < t->dim; d++)
        sum += row[d] * row[d];
    return t->pe_scale / fmax(sqrt(sum), 1e-12);
}

int ref_learned_encode(const ref_learned *t, uint32_t batch, uint32_t rows,
                       const int32_t *positions, const double *x, double *y)
{
    const uint64_t count = (uint64_t)batch * rows;
    uint64_t l;
    uint32_t d;

    if (t->dim == 0 || t->table_rows == 0)
        return -1;
    for (l = 0; l < count; l++)
        if (row_of(t, positions[l]) == -2)
            return -1;
    for (l = 0; l < count; l++) {
        const int64_t index = row_of(t, positions[l]);
        const double *row = t->table + (index >= 0 ? (uint64_t)index : 0) * t->dim;
        const double factor = index >= 0 ? factor_of(t, row) : 0.0;
        for (d = 0; d < t->dim; d++) {
            const uint64_t at = l * t->dim + d;
            y[at] = (x != NULL ? x[at] : 0.0) + (index >= 0 ? factor * row[d] : 0.0);
        }
    }
    return 0;
}

static double row_col_value(ref_row_col form, uint32_t width, const double *row, const double *col,
                            uint32_t d)
{
    switch (form) {
    case REF_COLUMN_ROW: return d < width ? col[d] : row[d - width];
    case REF_ROW_COLUMN: return d < width ? row[d] : col[d - width];
    case REF_ROW_PLUS_COLUMN: break;
    }
    return row[d] + col[d];
}

int ref_row_col_table(ref_row_col form, const uint32_t grid[2], uint32_t dim, uint32_t row_count,
                      uint32_t col_count, const double *row_table, const double *col_table,
                      int channels_first, double *table)
{
    const uint32_t width = form == REF_ROW_PLUS_COLUMN ? dim : dim / 2;
    const uint64_t cells = (uint64_t)grid[0] * grid[1];
    uint64_t cell;
    uint32_t d;

    if (dim == 0 || grid[0] > row_count || grid[1] > col_count ||
        (form != REF_ROW_PLUS_COLUMN && dim % 2 != 0))
        return -1;
    for (cell = 0; cell < cells; cell++) {
        const double *row = row_table + cell / grid[1] * width;
        const double *col = col_table + cell % grid[1] * width;
        for (d = 0; d < dim; d++)
            table[channels_first ? d * cells + cell : cell * dim + d] =
                row_col_value(form, width, row, col, d);
    }
    return 0;
}

void ref_full_table_encode(uint32_t batch, uint32_t prefix, uint32_t tokens, uint32_t dim,
                           int table_has_prefix, const double *table, const double *x, double *y)
{
    const uint64_t rows = (uint64_t)prefix + tokens;
    const uint64_t bare = table_has_prefix ? 0 : prefix; /* tokens that get nothing */
    uint64_t l;
    uint32_t d;

    for (l = 0; l < batch * rows; l++)
        for (d = 0; d < dim; d++) {
            const uint64_t token = l % rows;
            y[l * dim + d] =
                x[l * dim + d] + (token >= bare ? table[(token - bare) * dim + d] : 0.0);
        }
}
