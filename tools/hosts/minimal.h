/* Between the engine's side (minimal_main.c) and rhumb's (minimal.c). */
#ifndef MINIMAL_H
#define MINIMAL_H

#include "engine.h"

enum {
    HEADS = 32,
    ROWS = 512,
    DIM = 128,
    BLOCK = 16384, /* bytes for either block; `blocks` has two: constants, then bindings */
};

/* Rotates rows 0 to tokens - 1 of q and k, f32 [1, HEADS, ROWS, DIM], to positions first,
 * first + 1 and so on. 0, or 1 after a line on stderr. */
int rotate(engine *e, engine_buffer *q, engine_buffer *k, engine_buffer *blocks, int first,
           int tokens);

#endif
