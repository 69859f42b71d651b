#include "verify.h"

#include <math.h>

void verify_widen(rhumb_dtype dtype, const void *elements, uint64_t count, double *values)
{
    const float *f32 = elements;
    const uint16_t *bits = elements;

    for (uint64_t i = 0; i < count; i++) {
        if (dtype == RHUMB_F32)
            values[i] = (double)f32[i];
        else
            values[i] = dtype == RHUMB_F16 ? ref_double_from_f16(bits[i])
                                           : ref_double_from_bf16(bits[i]);
    }
}

void verify_narrow(rhumb_dtype dtype, const double *values, uint64_t count, void *elements)
{
    float *f32 = elements;
    uint16_t *bits = elements;

    for (uint64_t i = 0; i < count; i++) {
        if (dtype == RHUMB_F32)
            f32[i] = (float)values[i];
        else
            bits[i] = dtype == RHUMB_F16 ? ref_f16_from_double(values[i])
                                         : ref_bf16_from_double(values[i]);
    }
}

static double largest(const double *x, uint64_t count)
{
    double most = 0.0;

    for (uint64_t i = 0; i < count; i++)
        most = fmax(most, fabs(x[i]));
    return most;
}

static double largest_norm(const double *rows, uint64_t count, uint32_t dim)
{
    double most = 0.0;

    for (uint64_t r = 0; r < count; r++) {
        double sum = 0.0;
        for (uint32_t d = 0; d < dim; d++)
            sum += rows[r * dim + d] * rows[r * dim + d];
        most = fmax(most, sum);
    }
    return sqrt(most);
}

double verify_rotate_scale(const double *x, uint64_t count, double magnitude)
{
    return fmax(1.0, largest(x, count) / 6.0) * fmax(1.0, magnitude);
}

double verify_attention_scale(const ref_attention *attention)
{
    const ref_attention *t = attention;
    const uint64_t kv_rows = (uint64_t)t->batch * t->kv_heads * t->k_rows;
    const double q = largest_norm(t->q, (uint64_t)t->batch * t->heads * t->q_rows, t->head_dim);
    const double k = largest_norm(t->k, kv_rows, t->head_dim);
    const double v = largest(t->v, kv_rows * t->value_dim);
    const double usual = 2.0 * sqrt((double)t->head_dim);

    return fmax(1.0, v / 6.0) * fmax(1.0, t->scale * q * k / usual);
}

double verify_bound(rhumb_dtype dtype, double want, double scale)
{
    const double f32 = VERIFY_F32 * scale;
    const double magnitude = fabs(want) + f32;

    switch (dtype) {
    case RHUMB_F16:
        return f32 + fmax(magnitude * 0x1p-11, 0x1p-25);
    case RHUMB_BF16:
        return f32 + magnitude * 0x1p-8;
    default:
        return f32;
    }
}

static double element(rhumb_dtype dtype, const void *elements, uint64_t index)
{
    double value;

    verify_widen(dtype, (const char *)elements + index * (dtype == RHUMB_F32 ? 4 : 2), 1, &value);
    return value;
}

void verify_compare(rhumb_dtype dtype, const void *elements, const double *want, uint64_t count,
                    double scale, verify_result *result)
{
    double worst = -1.0;

    memset(result, 0, sizeof *result);
    result->pass = true;
    for (uint64_t i = 0; i < count; i++) {
        const double got = element(dtype, elements, i);
        const double bound = verify_bound(dtype, isnan(want[i]) ? 0.0 : want[i], scale);
        double error = fabs(got - want[i]);
        if (isnan(error))
            error = isnan(got) && isnan(want[i]) ? 0.0 : INFINITY;
        if (error > bound)
            result->pass = false;
        result->largest = fmax(result->largest, error);
        if (error / bound <= worst)
            continue;
        worst = error / bound;
        result->error = error;
        result->bound = bound;
        result->got = got;
        result->want = want[i];
        result->index = i;
    }
}
