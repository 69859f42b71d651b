#include "describe_put.h"

#include <stdio.h>
#include <stdlib.h>

int describe_put_number(cJSON *object, const char *name, double value)
{
    return cJSON_AddNumberToObject(object, name, value) != NULL;
}

int describe_put_text(cJSON *object, const char *name, const char *value)
{
    return cJSON_AddStringToObject(object, name, value) != NULL;
}

int describe_put_bool(cJSON *object, const char *name, int value)
{
    return cJSON_AddBoolToObject(object, name, value) != NULL;
}

/* Takes over `item`. */
static int put_item(cJSON *object, const char *name, cJSON *item)
{
    if (item != NULL && cJSON_AddItemToObject(object, name, item))
        return 1;
    cJSON_Delete(item);
    return 0;
}

int describe_put_list(cJSON *object, const char *name, const double *values, uint32_t count)
{
    return put_item(object, name, cJSON_CreateDoubleArray(values, (int)count));
}

int describe_put_names(cJSON *object, const char *name, const char *const *values, uint32_t count)
{
    return put_item(object, name, cJSON_CreateStringArray(values, (int)count));
}

static cJSON *scalar(const char *value)
{
    char *end = NULL;
    const double number = strtod(value, &end);

    if (strcmp(value, "true") == 0 || strcmp(value, "false") == 0)
        return cJSON_CreateBool(strcmp(value, "true") == 0);
    return end != value && *end == '\0' ? cJSON_CreateNumber(number) : cJSON_CreateString(value);
}

static int put_items(cJSON *list, const char *value)
{
    while (list != NULL) {
        const size_t length = strcspn(value, ",");
        char part[64];

        (void)snprintf(part, sizeof part, "%.*s", (int)length, value);
        if (!cJSON_AddItemToArray(list, scalar(part)))
            return 0;
        if (value[length] == '\0')
            return 1;
        value += length + 2;
    }
    return 0;
}

int describe_put_value(cJSON *object, const char *name, const char *value)
{
    if (strstr(value, ", ") == NULL)
        return put_item(object, name, scalar(value));
    return put_items(cJSON_AddArrayToObject(object, name), value);
}

int describe_put_row(cJSON *object, const describe_report *report, const char *kind,
                     const char *field)
{
    const char *value = describe_value(report, kind, field);

    return value == NULL || describe_put_value(object, field, value);
}
