#include "check_precision.h"

#include <stdio.h>
#include <string.h>

static const char *const dtypes[] = {"f32", "f16", "bf16"};

#define DTYPES (sizeof dtypes / sizeof dtypes[0])

/* The row of the three, or, if there is none, where it belongs: behind the others of its
 * operation. */
static unsigned place_of(const precision *p, const char *op, const char *scheme, const char *dtype,
                         bool *found)
{
    unsigned place = p->count;

    *found = false;
    for (unsigned i = 0; i < p->count; i++) {
        const precision_row *row = &p->rows[i];
        if (strcmp(row->op, op) != 0)
            continue;
        *found = strcmp(row->scheme, scheme) == 0 && strcmp(row->dtype, dtype) == 0;
        if (*found)
            return i;
        place = i + 1;
    }
    return place;
}

bool precision_add(precision *p, const check_result *result)
{
    bool found;
    const unsigned at = place_of(p, result->op, result->scheme, result->dtype, &found);
    precision_row *row = &p->rows[at];
    const double part = result->error > 0.0 ? result->error / result->bound : 0.0;

    if (!found) {
        if (p->count == MAX_PRECISION_ROWS)
            return false;
        memmove(row + 1, row, (p->count - at) * sizeof *row);
        p->count++;
        *row = (precision_row){.op = result->op, .scheme = result->scheme, .dtype = result->dtype};
    }
    row->cases++;
    row->largest = result->largest > row->largest ? result->largest : row->largest;
    row->part = part > row->part ? part : row->part;
    return true;
}

cJSON *precision_json(const precision *p, const char *device)
{
    cJSON *list = cJSON_CreateArray();

    for (unsigned i = 0; i < p->count; i++) {
        const precision_row *row = &p->rows[i];
        cJSON *item = cJSON_CreateObject();
        cJSON_AddStringToObject(item, "op", row->op);
        cJSON_AddStringToObject(item, "scheme", row->scheme);
        cJSON_AddStringToObject(item, "dtype", row->dtype);
        cJSON_AddNumberToObject(item, "cases", (double)row->cases);
        cJSON_AddNumberToObject(item, "max_error", row->largest);
        cJSON_AddNumberToObject(item, "max_part_of_bound", row->part);
        cJSON_AddStringToObject(item, "device", device);
        cJSON_AddItemToArray(list, item);
    }
    return list;
}

static void print_cell(const precision *p, const precision_row *first, const char *dtype)
{
    bool found;
    const unsigned at = place_of(p, first->op, first->scheme, dtype, &found);

    if (found)
        printf(" %u | %.1e | %.2f |", p->rows[at].cases, p->rows[at].largest, p->rows[at].part);
    else
        printf(" | | |");
}

void precision_print(const precision *p)
{
    printf("| operation | scheme |");
    for (size_t j = 0; j < DTYPES; j++)
        printf(" %s: cases | largest error | part of bound |", dtypes[j]);
    printf("\n| --- | --- |");
    for (size_t j = 0; j < DTYPES; j++)
        printf(" ---: | ---: | ---: |");
    putchar('\n');
    for (unsigned i = 0; i < p->count; i++) {
        const precision_row *row = &p->rows[i];
        bool met = false;
        for (unsigned k = 0; k < i; k++)
            met = met || (strcmp(p->rows[k].op, row->op) == 0 &&
                          strcmp(p->rows[k].scheme, row->scheme) == 0);
        if (met)
            continue;
        printf("| %s | %s |", row->op, row->scheme);
        for (size_t j = 0; j < DTYPES; j++)
            print_cell(p, row, dtypes[j]);
        putchar('\n');
    }
}
