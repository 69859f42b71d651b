/* What every family of golden cases needs: reasons, parameters, tensors, comparison, runs on the
 * device. */
#include "cases_internal.h"

#include "command_line.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int case_fail(case_file *c, const char *format, ...)
{
    char *reason = c->result->reason;
    va_list arguments;
    size_t i;

    c->result->status = CASE_FAIL;
    va_start(arguments, format);
    vsnprintf(reason, sizeof c->result->reason, format, arguments);
    va_end(arguments);
    for (i = 0; reason[i] != '\0'; i++)
        if ((unsigned char)reason[i] < 0x20 || reason[i] == 0x7f)
            reason[i] = '?';
    return -1;
}

/* ------------------------------------------------------------------------------------------------
 * Parameters
 */
const cJSON *case_param(const cJSON *object, const char *key)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, key);

    return item == NULL || cJSON_IsNull(item) ? NULL : item;
}

double case_number(const cJSON *object, const char *key, double absent)
{
    const cJSON *item = case_param(object, key);

    return item != NULL ? item->valuedouble : absent;
}

bool case_bool(const cJSON *object, const char *key, bool absent)
{
    const cJSON *item = case_param(object, key);

    return item != NULL ? cJSON_IsTrue(item) != 0 : absent;
}

const char *case_string(const cJSON *object, const char *key)
{
    const cJSON *item = case_param(object, key);

    return item != NULL ? item->valuestring : NULL;
}

int case_size(case_file *c, const char *key, double absent, double least, uint32_t *value)
{
    const double number = case_number(c->params, key, absent);

    if (!(number >= least && number <= 1048576.0))
        return case_fail(c, "params.%s: wanted %g to 1048576, got %g", key, least, number);
    *value = (uint32_t)number;
    return 0;
}

int case_pair(case_file *c, const char *key, double least, double *first, double *second)
{
    const cJSON *list = case_param(c->params, key);

    if (list == NULL)
        return 0;
    if (cJSON_GetArraySize(list) != 2)
        return case_fail(c, "params.%s: wanted 2 numbers, got %d", key, cJSON_GetArraySize(list));
    *first = cJSON_GetArrayItem(list, 0)->valuedouble;
    *second = cJSON_GetArrayItem(list, 1)->valuedouble;
    if (!(*first >= least && *first <= 1048576.0) || !(*second >= least && *second <= 1048576.0))
        return case_fail(c, "params.%s: wanted numbers of %g or more, got %g, %g", key, least,
                         *first, *second);
    return 0;
}

bool case_listed(const char *values, const char *text)
{
    const size_t length = strlen(text);

    while (*values != '\0') {
        const size_t span = strcspn(values, "\n");
        if (span == length && memcmp(values, text, length) == 0)
            return true;
        values += span + 1;
    }
    return false;
}

static bool all_numbers(const cJSON *item)
{
    const cJSON *number;

    if (!cJSON_IsArray(item))
        return false;
    cJSON_ArrayForEach(number, item) if (!cJSON_IsNumber(number)) return false;
    return true;
}

static bool all_triples(const cJSON *item)
{
    const cJSON *list;

    if (!cJSON_IsArray(item))
        return false;
    cJSON_ArrayForEach(list, item) if (!all_numbers(list) || cJSON_GetArraySize(list) != 3)
        return false;
    return true;
}

static bool all_listed(const cJSON *item, const char *values)
{
    const cJSON *text;

    if (!cJSON_IsArray(item))
        return false;
    cJSON_ArrayForEach(text, item) if (!cJSON_IsString(text) ||
                                       !case_listed(values, text->valuestring)) return false;
    return true;
}

static int check_param(case_file *c, const cJSON *item, const param_row *row)
{
    static const char *const wanted[] = {
        [PARAM_NUMBER] = "a number",
        [PARAM_WHOLE] = "a whole number",
        [PARAM_BOOL] = "true or false",
        [PARAM_TEXT] = "a string",
        [PARAM_NOTE] = "a string",
        [PARAM_NUMBER_OR_FALSE] = "a number or false",
        [PARAM_NUMBERS] = "a list of numbers",
        [PARAM_TRIPLES] = "a list of lists of three numbers",
        [PARAM_TEXTS] = "a list of known words",
        [PARAM_OBJECT] = "an object",
    };
    const double number = item->valuedouble;
    bool good = false;

    switch (row->kind) {
    case PARAM_NUMBER:
        good = cJSON_IsNumber(item) != 0;
        break;
    case PARAM_WHOLE:
        good = cJSON_IsNumber(item) && floor(number) == number && fabs(number) <= 0x1p53;
        break;
    case PARAM_BOOL:
        good = cJSON_IsBool(item) != 0;
        break;
    case PARAM_TEXT:
    case PARAM_NOTE:
        good = cJSON_IsString(item) != 0;
        break;
    case PARAM_NUMBER_OR_FALSE:
        good = cJSON_IsNumber(item) || cJSON_IsFalse(item);
        break;
    case PARAM_NUMBERS:
        good = all_numbers(item);
        break;
    case PARAM_TRIPLES:
        good = all_triples(item);
        break;
    case PARAM_TEXTS:
        good = all_listed(item, row->values);
        break;
    case PARAM_OBJECT:
        good = cJSON_IsObject(item) != 0;
        break;
    }
    if (!good)
        return case_fail(c, "params.%s: wanted %s, got something else", row->key,
                         wanted[row->kind]);
    if (row->kind == PARAM_TEXT && !case_listed(row->values, item->valuestring))
        return case_fail(c, "params.%s: unknown value \"%.100s\"", row->key, item->valuestring);
    return 0;
}

int case_check_params(case_file *c, const cJSON *object, const param_row *rows, size_t count)
{
    const cJSON *item;

    cJSON_ArrayForEach(item, object)
    {
        const cJSON *other;
        size_t i;

        for (i = 0; i < count && strcmp(rows[i].key, item->string) != 0; i++)
            continue;
        if (i == count)
            return case_fail(c, "params: unknown key \"%.100s\"", item->string);
        for (other = object->child; other != item; other = other->next)
            if (strcmp(other->string, item->string) == 0)
                return case_fail(c, "params: key \"%.100s\" twice", item->string);
        if (!cJSON_IsNull(item) && check_param(c, item, &rows[i]) != 0)
            return -1;
    }
    return 0;
}

/* ------------------------------------------------------------------------------------------------
 * Tensors
 */
int case_check_tensors(case_file *c, const tensor_row *rows, size_t count)
{
    size_t i, k;

    for (k = 0; k < c->tensors.count; k++) {
        const tensor *t = &c->tensors.items[k];
        for (i = 0; i < count && strcmp(rows[i].name, t->name) != 0; i++)
            continue;
        if (i == count)
            return case_fail(c, "unknown tensor \"%.100s\" for op %s", t->name, c->result->op);
        if (t->dtype != rows[i].dtype)
            return case_fail(c, "%s: wanted %s, got %s", t->name, tensor_dtype_name(rows[i].dtype),
                             tensor_dtype_name(t->dtype));
    }
    for (i = 0; i < count; i++)
        if (rows[i].required && tensor_list_find(&c->tensors, rows[i].name) == NULL)
            return case_fail(c, "op %s: wanted the tensor %s, got none", c->result->op,
                             rows[i].name);
    return 0;
}

const tensor *case_tensor(case_file *c, const char *name, uint32_t rank)
{
    const tensor *t = tensor_list_find(&c->tensors, name);
    char text[192];

    if (t == NULL) {
        case_fail(c, "op %s: wanted the tensor %s, got none", c->result->op, name);
        return NULL;
    }
    if (t->rank != rank || t->count == 0) {
        case_fail(c, "%s: wanted %u dimensions, none of them 0, got %s", name, rank,
                  tensor_shape_text(t, text, sizeof text));
        return NULL;
    }
    return t;
}

int case_check_shape(case_file *c, const tensor *t, uint32_t rank, const uint64_t *shape)
{
    tensor wanted;
    char wanted_text[192], got_text[192];

    if (t->rank == rank && memcmp(t->shape, shape, rank * sizeof *shape) == 0)
        return 0;
    memset(&wanted, 0, sizeof wanted);
    wanted.rank = rank;
    memcpy(wanted.shape, shape, rank * sizeof *shape);
    return case_fail(c, "%s: wanted %.80s, got %.80s", t->name,
                     tensor_shape_text(&wanted, wanted_text, sizeof wanted_text),
                     tensor_shape_text(t, got_text, sizeof got_text));
}

int32_t *case_positions(case_file *c, const char *name, uint64_t batch, uint64_t rows)
{
    const tensor *t = tensor_list_find(&c->tensors, name);
    const uint64_t shape[2] = {batch, rows};
    int32_t *positions;
    uint64_t b;

    if (t == NULL) {
        case_fail(c, "op %s: wanted the tensor %s, got none", c->result->op, name);
        return NULL;
    }
    if (case_check_shape(c, t, t->rank == 1 ? 1 : 2, t->rank == 1 ? shape + 1 : shape) != 0)
        return NULL;
    positions = malloc((size_t)(batch * rows) * sizeof *positions);
    if (positions == NULL) {
        case_fail(c, "no memory");
        return NULL;
    }
    for (b = 0; b < batch; b++)
        memcpy(positions + b * rows, (const int32_t *)t->data + (t->rank == 1 ? 0 : b * rows),
               (size_t)rows * sizeof *positions);
    return positions;
}

/* ------------------------------------------------------------------------------------------------
 * Comparison
 */
static double difference(const case_result *result, double got, double want)
{
    const double absolute = fabs(got - want);

    if (result->tolerance == 0.0) {
        /* Bit for bit: the sign of a zero counts too. */
        const float got_f32 = (float)got, want_f32 = (float)want;
        return memcmp(&got_f32, &want_f32, sizeof got_f32) == 0 ? 0.0 : fmax(absolute, 0x1p-149);
    }
    if (!result->relative || absolute == 0.0)
        return absolute;
    return want != 0.0 ? absolute / fabs(want) : (double)INFINITY;
}

int case_compare(case_file *c, const char *who, const tensor *golden, const double *got,
                 double *error)
{
    double worst = 0.0;
    uint64_t at = 0, i;

    for (i = 0; i < golden->count; i++) {
        double d = difference(c->result, got[i], tensor_get(golden, i));
        if (isnan(d))
            d = (double)INFINITY;
        if (d > worst) {
            worst = d;
            at = i;
        }
    }
    if (isnan(*error) || worst > *error)
        *error = worst;
    if (worst <= c->result->tolerance)
        return 0;
    return case_fail(c, "%s: %s[%llu] wanted %.9g, got %.9g, off by %.3g, bound %.3g%s", who,
                     golden->name, (unsigned long long)at, tensor_get(golden, at), got[at], worst,
                     c->result->tolerance, c->result->relative ? " (relative)" : "");
}

int case_compare_tensor(case_file *c, const char *who, const tensor *golden, const tensor *got)
{
    double *values = tensor_doubles(got);
    int result;

    if (values == NULL)
        return case_fail(c, "no memory");
    result = case_compare(c, who, golden, values, &c->result->device_error);
    free(values);
    return result;
}

/* Gives the operation a plan that stays alive. Without room for one more the operation makes its
 * own. */
static int keep_plan(case_file *c, const char *who, gpu_operation *op)
{
    rhumb_plan **items = NULL;

    if (c->plans != NULL)
        items = realloc(c->plans->items, (c->plans->count + 1) * sizeof *items);
    if (items == NULL)
        return 0;
    c->plans->items = items;
    if (gpu_query_operation(c->device, op) != RHUMB_OK)
        return case_fail(c, "device: %s: %.200s", who, op->message);
    if (rhumb_create_plan(c->device->context, &op->info, &op->plan) != RHUMB_OK)
        return case_fail(c, "device: %s: %.200s", who, rhumb_last_message(c->device->context));
    items[c->plans->count++] = op->plan;
    return 0;
}

int case_run_device(case_file *c, const char *who, gpu_operation *op)
{
    if (op->info.op == RHUMB_OP_ATTENTION)
        op->info.variant = c->device->form;
    if (keep_plan(c, who, op) != 0)
        return -1;
    if (gpu_run_operation(c->device, op) != RHUMB_OK)
        return case_fail(c, "device: %s: %.200s", who, op->message);
    snprintf(c->result->variant, sizeof c->result->variant, "%s",
             command_variant_name(op->properties.variant));
    return 0;
}
