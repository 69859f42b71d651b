/* ROTATE into a key-value cache, one shape on a profile: which rows are written, with what, and
 * that nothing else is. */
#ifndef RHUMB_TESTS_SHAPES_APPEND_H
#define RHUMB_TESTS_SHAPES_APPEND_H

#include "shapes.h"

/* Fields that are 0 are the ordinary case. */
typedef struct append_shape {
    const char *name;
    rhumb_append append;
    rhumb_pairing pairing;
    const void *(*scheme)(void); /* NULL: rope, whole head unless rotary_dim */
    uint32_t batch;              /* 0: 1 */
    uint32_t heads;              /* 0: no Q */
    uint32_t kv_heads;
    uint32_t rows;
    uint32_t capacity;
    uint32_t head_dim, rotary_dim, rotary_offset;
    uint32_t value_dim;          /* 0: no V */
    bool q_apart;                /* Q_OUT; else Q in place */
    bool k_broadcast;            /* head stride 0 of K */
    rhumb_dtype q, k, v, cache, v_cache;
    harness_layout layout, cache_layout; /* of K and V, of both caches */
    bool offset_given, append_given;
    int32_t q_offset, append_position;
    uint32_t q_length;           /* dispatch.q_length; 0: unset */
    const int32_t (*lengths)[4]; /* LENGTHS, of each batch entry */
    const int32_t *slots;        /* [B, rows], or [rows] if slots_shared */
    bool slots_shared;
    const int32_t *positions;    /* [axes, B, rows] */
    uint32_t skipped;            /* wanted in STATUS */
} append_shape;

bool shape_run_append(harness *h, const append_shape *s);

#endif
