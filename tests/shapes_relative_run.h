/* What shapes_relative.c and shapes_relative_schemes.c share: one run of a relative scheme. */
#ifndef RHUMB_TESTS_SHAPES_RELATIVE_RUN_H
#define RHUMB_TESTS_SHAPES_RELATIVE_RUN_H

#include "shapes_relative.h"

#include "reference/relative.h"

#define MOST_TABLES 12
#define WINDOW_HEIGHT 3u
#define WINDOW_WIDTH 2u
#define WINDOW_TOKENS (WINDOW_HEIGHT * WINDOW_WIDTH)

typedef union scheme_struct {
    rhumb_header header;
    rhumb_shaw shaw;
    rhumb_music_transformer music;
    rhumb_t5 t5;
    rhumb_alibi alibi;
    rhumb_transformer_xl xl;
    rhumb_xlnet xlnet;
    rhumb_deberta deberta;
    rhumb_swin swin;
    rhumb_swin_v2 swin_v2;
    rhumb_rope rope;
} scheme_struct;

typedef union scheme_reference {
    ref_shaw shaw;
    ref_music music;
    ref_t5 t5;
    ref_alibi alibi;
    ref_xl xl;
    ref_deberta deberta;
} scheme_reference;

typedef struct relative_run {
    relative_shape s;
    bool scores;
    harness_tensor q, k, v, o, workspace, positions_q, positions_k;
    around_run around;
    harness_tensor tables[MOST_TABLES]; /* by order of addition */
    rhumb_view_id table_ids[MOST_TABLES];
    uint32_t table_count;
    scheme_struct scheme;
    gpu_operation op;
    harness_random random;
    /* reference */
    scheme_reference ref;
    ref_terms terms;
    double slopes[64];
    int32_t *segments; /* of Q, then of K */
    int32_t *queries;  /* positions, where there are views of them */
    int32_t *keys;
    int32_t window[WINDOW_TOKENS * WINDOW_TOKENS]; /* rows of TABLE */
} relative_run;

/* The scheme struct of the family with its views, and the same for the reference. */
void relative_make_scheme(relative_run *r);

#endif
