/* Golden cases of swin and swin_v2 on a device: tables by PROJECT, then BIAS or ATTENTION. */
#include "cases_swin.h"

#include <stdlib.h>
#include <string.h>

/* One of the two structs as the device takes it. */
static const void *device_scheme(const swin_case *t, rhumb_swin *swin, rhumb_swin_v2 *second)
{
    const ref_window_attention *at = &t->at;
    const rhumb_window_padding padding = at->pad == REF_PAD_THEN_SHIFT ? RHUMB_WINDOW_PAD_THEN_SHIFT
                                         : at->pad == REF_SHIFT_THEN_PAD
                                             ? RHUMB_WINDOW_SHIFT_THEN_PAD
                                             : RHUMB_WINDOW_EXACT;

    rhumb_init_swin(swin);
    rhumb_init_swin_v2(second);
    memcpy(swin->window, at->window.size, sizeof swin->window);
    memcpy(swin->grid, at->grid, sizeof swin->grid);
    memcpy(swin->shift, at->shift, sizeof swin->shift);
    swin->prefix_tokens = at->window.prefix;
    swin->padding = padding;
    swin->mask_value = at->mask_value;
    memcpy(second->window, at->window.size, sizeof second->window);
    memcpy(second->grid, at->grid, sizeof second->grid);
    memcpy(second->shift, at->shift, sizeof second->shift);
    memcpy(second->pretrained_window, t->pretrained, sizeof second->pretrained_window);
    second->hidden = t->w1 != NULL ? (uint32_t)t->w1->shape[0] : second->hidden;
    second->bias_gain = t->gain;
    second->padding = padding;
    second->mask_value = at->mask_value;
    if (t->attention) {
        second->max_log_scale = at->max_log_scale;
        second->epsilon = at->eps;
    }
    return t->second ? (const void *)second : swin;
}

/* TABLE [rows, heads]: swin's is given, swin_v2's is PROJECT's. */
static int make_table(case_file *c, const swin_case *t, float *table)
{
    const uint64_t rows = ref_window_rows(&t->at.window);
    uint64_t hidden;
    rhumb_swin swin;
    rhumb_swin_v2 second;
    gpu_operation op;

    if (!t->second) {
        memcpy(table, t->table->data, (size_t)(rows * t->heads) * sizeof *table);
        return 0;
    }
    hidden = t->w1->shape[0];
    gpu_init_operation(&op, RHUMB_OP_PROJECT);
    op.info.scheme = device_scheme(t, &swin, &second);
    op.info.heads = t->heads;
    op.info.head_dim = op.info.max_q_length = 1;
    gpu_add_tensor(&op, RHUMB_VIEW_X, RHUMB_F32, 1, 1, hidden, 2, t->w1->data, NULL);
    gpu_add_tensor(&op, RHUMB_VIEW_OFFSET, RHUMB_F32, 1, 1, 1, hidden, t->b1->data, NULL);
    gpu_add_tensor(&op, RHUMB_VIEW_WEIGHT, RHUMB_F32, 1, 1, t->heads, hidden, t->w2->data, NULL);
    gpu_add_tensor(&op, RHUMB_VIEW_Y, RHUMB_F32, 1, 1, rows, t->heads, NULL, table);
    return case_run_device(c, "project", &op);
}

/* O [1, heads, N, N] of one window. */
static int bias_on_device(case_file *c, const swin_case *t, uint32_t heads, const float *table,
                          float *o)
{
    const uint64_t n = ref_window_tokens(&t->at.window);
    rhumb_swin swin;
    rhumb_swin_v2 second;
    gpu_operation op;

    gpu_init_operation(&op, RHUMB_OP_BIAS);
    op.info.scheme = device_scheme(t, &swin, &second);
    op.info.heads = heads;
    op.info.head_dim = 1;
    op.info.max_q_length = (uint32_t)n;
    gpu_add_tensor(&op, RHUMB_VIEW_TABLE, RHUMB_F32, 1, 1, ref_window_rows(&t->at.window), heads,
                   table, NULL);
    gpu_add_tensor(&op, RHUMB_VIEW_O, RHUMB_F32, 1, heads, n, n, NULL, o);
    return case_run_device(c, "bias", &op);
}

static int attend_on_device(case_file *c, const swin_case *t, const float *table, float *o)
{
    const uint64_t *s = t->q->shape;
    rhumb_swin swin;
    rhumb_swin_v2 second;
    gpu_operation op;

    gpu_init_operation(&op, RHUMB_OP_ATTENTION);
    op.info.scheme = device_scheme(t, &swin, &second);
    op.info.heads = t->heads;
    op.info.head_dim = (uint32_t)s[3];
    op.info.max_q_length = (uint32_t)s[2];
    op.info.scale = (float)t->at.scale;
    gpu_add_tensor(&op, RHUMB_VIEW_Q, RHUMB_F32, s[0], s[1], s[2], s[3], t->q->data, NULL);
    gpu_add_tensor(&op, RHUMB_VIEW_K, RHUMB_F32, s[0], s[1], s[2], s[3], t->k->data, NULL);
    gpu_add_tensor(&op, RHUMB_VIEW_V, RHUMB_F32, s[0], s[1], s[2], s[3], t->v->data, NULL);
    gpu_add_tensor(&op, RHUMB_VIEW_O, RHUMB_F32, s[0], s[1], s[2], s[3], NULL, o);
    gpu_add_tensor(&op, RHUMB_VIEW_TABLE, RHUMB_F32, 1, 1, ref_window_rows(&t->at.window), t->heads,
                   table, NULL);
    if (t->second)
        gpu_add_tensor(&op, RHUMB_VIEW_HEAD_SCALE, RHUMB_F32, 1, 1, 1, t->heads,
                       t->log_scales->data, NULL);
    return case_run_device(c, "device", &op);
}

int case_swin_on_device(case_file *c, const swin_case *t)
{
    const size_t count = (size_t)ref_window_rows(&t->at.window) * t->heads;
    float *table = malloc(count * sizeof *table);
    tensor o = *t->golden;
    int result = -1;

    o.data = malloc((size_t)o.count * sizeof(float));
    if (table == NULL || o.data == NULL)
        case_fail(c, "no memory for the device's output");
    else
        result = make_table(c, t, table);
    if (result == 0)
        result = t->attention ? attend_on_device(c, t, table, o.data)
                              : bias_on_device(c, t, t->heads, table, o.data);
    if (result == 0)
        result = case_compare_tensor(c, "device", t->golden, &o);
    free(table);
    free(o.data);
    return result;
}

/* The bias of one head whose table says the number of each row. */
int case_swin_rows_on_device(case_file *c, const swin_case *t)
{
    const uint32_t rows = ref_window_rows(&t->at.window);
    const size_t count = (size_t)t->golden->count;
    float *table = malloc(rows * sizeof *table), *o = malloc(count * sizeof *o);
    double *index = malloc(count * sizeof *index);
    int result = -1;
    size_t i;

    if (table == NULL || o == NULL || index == NULL) {
        case_fail(c, "no memory for the device's output");
    } else {
        for (i = 0; i < rows; i++)
            table[i] = (float)i;
        result = bias_on_device(c, t, 1, table, o);
        for (i = 0; result == 0 && i < count; i++)
            index[i] = (double)o[i];
        if (result == 0)
            result = case_compare(c, "device", t->golden, index, &c->result->device_error);
    }
    free(table);
    free(o);
    free(index);
    return result;
}

int case_swin_coordinates_on_device(case_file *c, const swin_case *t)
{
    const uint64_t rows = ref_window_rows(&t->at.window);
    rhumb_swin_v2 scheme;
    gpu_operation op;

    rhumb_init_swin_v2(&scheme);
    memcpy(scheme.window, t->at.window.size, sizeof scheme.window);
    memcpy(scheme.pretrained_window, t->pretrained, sizeof scheme.pretrained_window);
    gpu_init_operation(&op, RHUMB_OP_ENCODE);
    op.info.scheme = &scheme;
    op.info.head_dim = 2;
    op.info.max_q_length = (uint32_t)rows;
    return case_encode_on_device(c, &op, NULL, t->golden, (uint64_t[]){1, 1, rows, 2});
}
