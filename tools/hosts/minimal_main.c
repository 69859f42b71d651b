/* The engine's side of the example: buffers with known numbers, and whether they turned as they
 * should. */
#include "minimal.h"

#include <math.h>
#include <stdio.h>

enum {
    FIRST = 7,
    TOKENS = 5,
};

/* Every head and row begins as (1, 0, 0, ...): channel 0 turns by the position, with frequency 1,
 * into channel DIM / 2. */
static void fill(engine_buffer *buffer)
{
    float *x = buffer->mapped;

    for (int i = 0; i < HEADS * ROWS; i++)
        x[i * DIM] = 1.0f;
}

static int check(const engine_buffer *buffer)
{
    const float *x = buffer->mapped;
    int wrong = 0;

    for (int i = 0; i < HEADS * ROWS; i++) {
        const int row = i % ROWS;
        const double angle = row < TOKENS ? FIRST + row : 0.0;
        wrong += !(fabs((double)x[i * DIM] - cos(angle)) < 1e-5);
        wrong += !(fabs((double)x[i * DIM + DIM / 2] - sin(angle)) < 1e-5);
    }
    return wrong;
}

int main(void)
{
    engine e = engine_open();
    engine_buffer q = engine_make_buffer(&e, sizeof(float) * HEADS * ROWS * DIM);
    engine_buffer k = engine_make_buffer(&e, sizeof(float) * HEADS * ROWS * DIM);
    engine_buffer blocks = engine_make_buffer(&e, 2 * BLOCK);
    const float *x = q.mapped;
    int wrong;

    fill(&q);
    fill(&k);
    wrong = rotate(&e, &q, &k, &blocks, FIRST, TOKENS);
    wrong += check(&q) + check(&k);
    printf("(1, 0) at position %d turned to (%.6f, %.6f); %d wrong\n", FIRST, (double)x[0],
           (double)x[DIM / 2], wrong);
    engine_free_buffer(&e, &q);
    engine_free_buffer(&e, &k);
    engine_free_buffer(&e, &blocks);
    engine_close(&e);
    return wrong != 0;
}
