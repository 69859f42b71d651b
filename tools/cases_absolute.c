/* Parameters that several absolute and two-dimensional schemes share. */
#include "cases_absolute.h"

#include <math.h>
#include <string.h>

int case_int32(case_file *c, const char *key, int32_t absent, int32_t *value)
{
    const double number = case_number(c->params, key, absent);

    /* INT32_MIN stands for "none" in the reference. */
    if (!(number > INT32_MIN && number <= INT32_MAX) && number != absent)
        return case_fail(c, "params.%s: wanted a number of 32 bits, got %g", key, number);
    *value = (int32_t)number;
    return 0;
}

int case_optional_grid(case_file *c, const char *key, uint32_t least, uint32_t grid[2])
{
    double pair[2] = {grid[0], grid[1]};

    if (case_param(c->params, key) == NULL)
        return 0;
    if (case_pair(c, key, least, &pair[0], &pair[1]) != 0)
        return -1;
    if (floor(pair[0]) != pair[0] || floor(pair[1]) != pair[1])
        return case_fail(c, "params.%s: wanted whole numbers, got %g, %g", key, pair[0], pair[1]);
    grid[0] = (uint32_t)pair[0];
    grid[1] = (uint32_t)pair[1];
    return 0;
}

int case_grid(case_file *c, const char *key, uint32_t least, uint32_t grid[2])
{
    if (case_param(c->params, key) == NULL)
        return case_fail(c, "params: wanted %s, got none", key);
    return case_optional_grid(c, key, least, grid);
}

const tensor *case_shaped(case_file *c, const char *name, uint32_t rank, const uint64_t *shape)
{
    const tensor *t = case_tensor(c, name, rank);

    return t != NULL && case_check_shape(c, t, rank, shape) == 0 ? t : NULL;
}

int case_check_position_rule(case_file *c, uint64_t batch, uint64_t rows, const int32_t *positions)
{
    const char *rule = case_string(c->params, "position_rule");
    const double past = case_number(c->params, "past_length", 0.0);
    const tensor *mask = tensor_list_find(&c->tensors, "in.mask");
    uint64_t shape[2] = {batch, rows}, b, l;
    double start = 0.0, added;

    if (rule == NULL || mask == NULL)
        return 0;
    if (!(past >= 0.0 && past <= 1048576.0))
        return case_fail(c, "params.past_length: wanted 0 to 1048576, got %g", past);
    if (strncmp(rule, "(cumsum(mask)+past)", 19) == 0)
        start = past;
    else
        shape[1] += (uint64_t)past;
    added = strcmp(rule, "cumsum(mask)*mask-1") == 0 ? -1.0
                                                     : case_number(c->params, "padding_idx", 0.0);
    if (case_check_shape(c, mask, 2, shape) != 0)
        return -1;
    for (b = 0; b < batch; b++) {
        double count = start;
        for (l = 0; l < shape[1]; l++) {
            const double seen = tensor_get(mask, b * shape[1] + l);
            const uint64_t dropped = shape[1] - rows;
            count += seen;
            if (l >= dropped && positions[b * rows + l - dropped] != count * seen + added)
                return case_fail(c, "in.positions: wanted %g by %s, got %d", count * seen + added,
                                 rule, positions[b * rows + l - dropped]);
        }
    }
    return 0;
}
