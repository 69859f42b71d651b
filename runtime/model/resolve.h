/* What a configuration resolves to, before it becomes layer kinds: shared by keys.c (entry point,
 * kinds, trace), heads.c (head counts, windows, softmax scale) and rotary.c (the schedule). */
#ifndef RHUMB_MODEL_RESOLVE_H
#define RHUMB_MODEL_RESOLVE_H

#include "../internal.h"
#include "families.h"
#include "lookup.h"

/* Counts above these are no model's. */
#define RHUMB_MOST_HEADS 65536u
#define RHUMB_MOST_HEAD_DIM ((uint32_t)RHUMB_MAX_HEAD_DIM)
#define RHUMB_MOST_HIDDEN 1073741824u

typedef struct rhumb_model_values {
    const rhumb_family *family;
    rhumb_sourced heads;
    rhumb_sourced kv_heads;
    rhumb_sourced head_dim;
    rhumb_sourced scale;
    /* layers */
    int has_full;          /* layers without a window */
    int has_sliding;       /* layers with it */
    rhumb_sourced window;  /* of the sliding layers; source says why there is none */
    rhumb_sourced softcap; /* 0: none */
    /* schedule */
    rhumb_rope_scaling scaling;
    char type_source[128];
    rhumb_sourced rotary_dim;
    rhumb_sourced theta;
    rhumb_sourced part;   /* partial_rotary_factor; 0 where the family has no such number */
    rhumb_sourced factor; /* of linear scaling */
} rhumb_model_values;

rhumb_result rhumb_model_heads(const rhumb_lookup *l, rhumb_model_values *r);
rhumb_result rhumb_model_layers(const rhumb_lookup *l, rhumb_model_values *r);
rhumb_result rhumb_model_softcap(const rhumb_lookup *l, rhumb_model_values *r);

/* After rhumb_model_heads. */
rhumb_result rhumb_model_scale(const rhumb_lookup *l, rhumb_model_values *r);

rhumb_result rhumb_model_rotary(const rhumb_lookup *l, rhumb_model_values *r);

#endif
