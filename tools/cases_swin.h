/* What the files on golden cases of swin and swin_v2 share. */
#ifndef RHUMB_TOOLS_CASES_SWIN_H
#define RHUMB_TOOLS_CASES_SWIN_H

#include "cases_absolute.h"

typedef struct swin_case {
    bool second;    /* swin_v2 */
    bool attention; /* else the bias alone */
    uint32_t heads;
    uint32_t pretrained[2];
    double gain;
    ref_window_attention at; /* its window for every op; its arrays are those of the tensors */
    const tensor *table;     /* [rows, H] */
    const tensor *w1;        /* [hidden, 2] */
    const tensor *b1;
    const tensor *w2; /* [H, hidden] */
    const tensor *log_scales;
    const tensor *q; /* [B, H, tokens, D] */
    const tensor *k;
    const tensor *v;
    const tensor *golden;
} swin_case;

/* cases_swin_device.c: the op of a case on its device, compared with t->golden. */
int case_swin_on_device(case_file *c, const swin_case *t); /* bias, attention */
int case_swin_rows_on_device(case_file *c, const swin_case *t);
int case_swin_coordinates_on_device(case_file *c, const swin_case *t);

#endif
