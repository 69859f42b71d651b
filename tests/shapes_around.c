#include "shapes_around.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Bounds. u = 2^-24, x = S / softcap.
 *
 *   cap      The slope of tanh is at most 1: an error of S is no larger behind the cap. tanh itself,
 *            for x from 0.25 on (1 - e) / (1 + e), e = exp2(-2.9 x): the exponent is rounded, 2 u
 *            of it, and exp2 within 3 + 2 |exponent| ulp, so that e is off by e (6 + 16 x) u;
 *            through the slope 2 / (1 + e)^2 that is 6 u at most, at x = 0.5. Sums and quotient:
 *            7 u. The quotient x, within 2.5 ulp, goes through x sech^2 x <= 0.45: 3 u. Below 0.25
 *            a series of four terms: less. With the product by softcap: 18 u softcap.
 *   mask     Its element is rounded with log2(e), and the sum: counted by whoever asks.
 *   sink     A logit with an error of 3 u |sink|, whose weight is as right as that of a key.
 *   LSE      ln of the sum: P_j e_j for the logits, the relative error of the sum, log2 within
 *            2^-21 or 3 ulp, and the roundings of top, sum and product: 3 u of each. */
#define UNIT 5.9604644775390625e-8
#define LOG2_E 1.4426950408889634
#define LN_2 0.6931471805599453

double shape_cap_error(const shape_around *around)
{
    return 18.0 * UNIT * (double)around->softcap;
}

void shape_add_sink(const around_run *run, uint32_t h, around_row *row)
{
    if (run->sinks.count == 0)
        return;
    row->low = fmin(row->low, run->sinks.values[h]);
    row->high = fmax(row->high, run->sinks.values[h]);
}

double shape_range(const around_row *row)
{
    /* beyond 150 a weight is below the smallest float and adds nothing, right or wrong */
    return row->high > row->low ? fmin((row->high - row->low) * LOG2_E, 150.0) : 0.0;
}

void shape_add_sink_error(const around_run *run, uint32_t h, around_row *row)
{
    double sink;
    if (run->sinks.count == 0)
        return;
    sink = run->sinks.values[h];
    row->shift += exp(sink - row->lse) * (3.0 * UNIT * fabs(sink) + row->relative);
}

double shape_lse_bound(const around_row *row)
{
    if (isinf(row->lse))
        return 0.0;
    return row->shift + row->relative + LN_2 * 0x1p-21 + 6.0 * UNIT * fabs(row->lse - row->high) +
           3.0 * UNIT * (fabs(row->high) + fabs(row->lse));
}

/* ---- Making */
static double hiding_value(rhumb_dtype dtype, uint64_t i)
{
    if (i % 3 == 0 || (dtype == RHUMB_F16 && i % 3 == 2))
        return -(double)INFINITY;
    if (i % 3 == 2)
        return -1.0e30;
    return dtype == RHUMB_F16    ? -65504.0
           : dtype == RHUMB_BF16 ? -0x1.fep127
                                 : -0x1.fffffep127;
}

/* A third hidden in each of the ways that hide a key, the rest added. */
static void make_mask(harness_tensor *m, const shape_around *around, const uint64_t sizes[4],
                      harness_random *random)
{
    uint64_t shape[4];
    for (uint32_t d = 0; d < 4; d++)
        shape[d] = around->mask >> d & 1u ? sizes[d] : 1;
    harness_make_tensor(m, around->dtype_mask, shape[0], shape[1], shape[2], shape[3],
                        (harness_layout){.row_pad = 1, .offset = 1});
    for (uint64_t i = 0; i < m->count; i++) {
        m->values[i] = harness_normal(random);
        if (harness_next(random) % 3 == 0 && m->count > 1)
            m->values[i] = hiding_value(around->dtype_mask, i);
    }
    harness_store(m);
    /* to the reference, a number hides up to -1e30 */
    for (uint64_t i = 0; i < m->count; i++)
        if (around->dtype_mask == RHUMB_F16 && m->values[i] == -65504.0)
            m->values[i] = -(double)INFINITY;
}

static void set_dispatch(const shape_around *around, rhumb_dispatch *d)
{
    if (around->softcap != 0.0f)
        d->softcap = around->softcap;
    d->bias_after_softcap = around->bias_after;
    if (around->chunk != 0)
        d->chunk = around->chunk;
    d->kept_keys = around->kept_keys;
    if (around->max_flops != 0)
        d->max_flops = around->max_flops;
}

void shape_make_around(around_run *run, const shape_around *around, gpu_operation *op,
                       const uint64_t sizes[4], harness_random *random)
{
    memset(run, 0, sizeof *run);
    set_dispatch(around, &op->dispatch);
    if (around->mask != 0) {
        make_mask(&run->mask, around, sizes, random);
        (void)harness_add(op, RHUMB_VIEW_MASK, &run->mask, false);
    }
    if (around->sinks) {
        harness_make_tensor(&run->sinks, around->dtype_sinks, 1, 1, 1, sizes[1],
                            (harness_layout){.offset = 1});
        harness_fill_normal(&run->sinks, random);
        harness_store(&run->sinks);
        (void)harness_add(op, RHUMB_VIEW_SINKS, &run->sinks, false);
    }
    if (around->row_scale) {
        harness_make_tensor(&run->row_scale, RHUMB_F32, 1, sizes[0], sizes[1], sizes[2],
                            (harness_layout){0});
        for (uint64_t i = 0; i < run->row_scale.count; i++)
            run->row_scale.values[i] = harness_uniform(random, 0.5, 2.0);
        harness_store(&run->row_scale);
        (void)harness_add(op, RHUMB_VIEW_ROW_SCALE, &run->row_scale, false);
    }
    if (around->lse) {
        harness_make_tensor(&run->lse, RHUMB_F32, 1, sizes[0], sizes[1], sizes[2],
                            (harness_layout){.row_pad = 1, .offset = 1});
        (void)harness_add(op, RHUMB_VIEW_LSE, &run->lse, true);
    }
}

void shape_free_around(around_run *run)
{
    harness_free_tensor(&run->sinks);
    harness_free_tensor(&run->lse);
    harness_free_tensor(&run->row_scale);
    harness_free_tensor(&run->mask);
}

/* ---- Reference */
double shape_mask_element(const around_run *run, uint32_t b, uint32_t h, uint32_t a, uint32_t j)
{
    const harness_tensor *m = &run->mask;
    if (m->count == 0)
        return 0.0;
    return m->values[harness_index(m, m->shape[0] > 1 ? b : 0, m->shape[1] > 1 ? h : 0,
                                   m->shape[2] > 1 ? a : 0, m->shape[3] > 1 ? j : 0)];
}

void shape_refer_around(const around_run *run, const shape_around *around, ref_attention *ref)
{
    ref->softcap = (double)around->softcap;
    ref->bias_after_softcap = around->bias_after;
    ref->chunk = around->chunk;
    ref->kept_keys = around->kept_keys;
    ref->sinks = run->sinks.values;
    ref->row_scale = run->row_scale.values;
    ref->mask = run->mask.values;
    for (uint32_t d = 0; d < 4; d++)
        ref->mask_shape[d] = (uint32_t)run->mask.shape[d];
}

/* A row whose sum is empty has the bits of -infinity. */
static bool has_bits_of_none(const harness_tensor *t, uint64_t i)
{
    uint32_t bits;
    memcpy(&bits, t->memory + harness_byte(t, i), sizeof bits);
    return bits == 0xff800000u;
}

static bool is_canary(const harness_tensor *t, uint64_t i)
{
    uint64_t at = harness_byte(t, i);
    uint8_t want[4];
    gpu_fill_canary(want, at, sizeof want);
    return memcmp(t->memory + at, want, sizeof want) == 0;
}

bool shape_compare_lse(harness *h, const char *what, const char *text, around_run *run,
                       const double *want, const double *bound, const bool *skip)
{
    harness_tensor *t = &run->lse;
    bool *empty = harness_alloc(t->count, sizeof *empty);
    bool passed = true;
    char name[64];
    snprintf(name, sizeof name, "%s: LSE", what);
    harness_load(t);
    for (uint64_t i = 0; i < t->count; i++) {
        empty[i] = skip[i] || isinf(want[i]);
        if (passed && skip[i] && !is_canary(t, i))
            passed = harness_fail(h, "%s: %s: row %llu lies beyond q_length and was written", name,
                                  text, (unsigned long long)i);
        if (passed && !skip[i] && isinf(want[i]) && !has_bits_of_none(t, i))
            passed = harness_fail(h, "%s: %s: row %llu sees nothing: wanted -infinity, got %.9g",
                                  name, text, (unsigned long long)i, t->values[i]);
    }
    passed = passed && harness_compare(h, name, text, t, want, bound, empty);
    free(empty);
    return passed;
}

void shape_describe_around(const shape_around *around, char *text, size_t size)
{
    snprintf(text, size, "cap %g%s%s%s%s chunk %d kept %d mask %u %s", (double)around->softcap,
             around->bias_after ? " bias after" : "", around->sinks ? " sinks" : "",
             around->lse ? " lse" : "", around->row_scale ? " row scale" : "", (int)around->chunk,
             (int)around->kept_keys, around->mask, harness_dtype_name(around->dtype_mask));
}
