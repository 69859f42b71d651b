/* Runs one row of a shape table on a profile and compares with the double-precision reference. Rows
 * are designated initialisers: every field that is left out is the ordinary case. */
#ifndef RHUMB_TESTS_SHAPES_H
#define RHUMB_TESTS_SHAPES_H

#include "harness.h"
#include "shapes_around.h"
#include "verify.h"

/* Where the position of a row comes from. */
typedef enum shape_positions {
    SHAPE_ARANGE,    /* dispatch.q_offset + row, no view */
    SHAPE_SHARED,    /* view [L]: position_first + row */
    SHAPE_PER_BATCH, /* view [B, L]: another start in each batch entry */
    SHAPE_LEFT_PAD,  /* view [B, L]: batch entry b is padded by b rows on the left, with position
                        0 */
    SHAPE_JUMPS,     /* view [B, L]: gaps of up to 1000 */
    SHAPE_REPEATS,   /* view [B, L]: each position three times */
    SHAPE_NEGATIVE,  /* view [B, L]: from -L/2 on */
    SHAPE_ANYWHERE,  /* view [B, L]: any int32, the ends first */
    SHAPE_REVERSED,  /* view [B, L]: falling */
    SHAPE_GRID,      /* view [axes, L]: row and column of a grid that is position_first wide; row L
                        of a third axis */
    SHAPE_APART,     /* view [axes, B, L]: each axis rises at a rate of its own */
} shape_positions;

typedef struct rotate_shape {
    uint32_t batch;          /* 0: 1 */
    uint32_t heads;          /* 0: no Q */
    uint32_t kv_heads;       /* 0: no K */
    uint32_t rows;
    uint32_t head_dim;
    uint32_t rotary_dim;     /* 0: whole head */
    uint32_t rotary_offset;
    rhumb_pairing pairing;
    const void *(*scheme)(void); /* another scheme struct; NULL: rope by the fields here */
    rhumb_dtype dtype;       /* of Q and K */
    rhumb_dtype out_dtype;   /* of Q_OUT and K_OUT, if out_differs */
    bool out_differs;
    bool in_place;
    bool inverse;
    harness_layout layout;     /* of Q and K */
    harness_layout out_layout; /* of Q_OUT and K_OUT */
    shape_positions positions;
    int32_t position_first;
    double base;             /* 0: 10000 */
    double factor;           /* 0: 1; else linear scaling */
    double magnitude;        /* 0: 1 */
    uint32_t q_length;       /* 0: all rows */
} rotate_shape;

bool shape_run_rotate(harness *h, const rotate_shape *shape);

/* Bound of every element of `in` rotated at positions [B, L] and stored as `out`; channels that do
 * not turn must be bit-identical. Of `in` its shape, dtype and values are read. */
void shape_rotate_bounds(const verify_rotary *rotary, const int32_t *positions, bool keys,
                         const harness_tensor *in, rhumb_dtype out, const double *want,
                         double *bound);

/* Q -> Q_OUT, or in place where y is NULL, with positions [axes, B, L]; the result is loaded. For
 * tests that compare runs, or have numbers of their own. */
bool shape_rotate(harness *h, const void *rotary, uint32_t axes, const int32_t *positions,
                  harness_tensor *x, harness_tensor *y, uint32_t inverse);

/* What hides in keys that no row may see. */
typedef enum shape_poison {
    SHAPE_CLEAN,
    SHAPE_NAN_HIDDEN,  /* NaN in K and V of keys that no row of the batch entry sees, and beyond
                          k_length */
    SHAPE_INF_HIDDEN,  /* infinities there */
    SHAPE_NAN_LAST,    /* NaN in the last visible key too: rows that see it are not compared */
} shape_poison;

/* What the values are. */
typedef enum shape_values {
    SHAPE_NORMAL,  /* standard normal Q, K, V */
    SHAPE_SHARP,   /* Q times 8: a few keys take all the weight */
    SHAPE_EQUAL_V, /* V is 1 in every element: so is every row that sees a key */
    SHAPE_ALL_64,  /* Q and K are 64 in every element */
} shape_values;

typedef struct attention_shape {
    uint32_t batch;          /* 0: 1 */
    uint32_t heads;          /* 0: 1 */
    uint32_t kv_heads;       /* 0: heads */
    uint32_t q_rows;
    uint32_t k_rows;
    uint32_t head_dim;
    uint32_t value_dim;      /* 0: head_dim */
    rhumb_dtype dtype_q;
    rhumb_dtype dtype_k;
    rhumb_dtype dtype_v;
    rhumb_dtype dtype_o;
    harness_layout layout_q;
    harness_layout layout_k;
    harness_layout layout_v;
    harness_layout layout_o;
    rhumb_variant variant;
    uint32_t plan_k;         /* the plan's max_k_length; 0: k_rows */
    bool causal;
    bool windowed;           /* the next two hold */
    int32_t window_left;
    int32_t window_right;
    bool offset_given;       /* q_offset holds, else bottom-right */
    int32_t q_offset;
    uint32_t q_length;       /* dispatch.q_length; 0: unset */
    uint32_t k_length;       /* dispatch.k_length; 0: unset */
    bool by_position;        /* mask_order POSITION with both position views */
    shape_positions positions;
    int32_t position_first;
    bool lengths;            /* a LENGTHS view: batch entry b has k_rows - 3 b keys (at least 1),
                                q_rows - b rows, and q_offset as given or unset */
    bool lengths_beyond;     /* entry 0 asks for more keys and rows than there are: clamped and
                                counted */
    uint32_t rotary_dim;     /* not 0: Q is rotated inside */
    uint32_t rotary_offset;
    rhumb_pairing pairing;
    float scale;             /* 0: 1 / sqrt(head_dim) */
    shape_values values;
    shape_poison poison;
    shape_around around;
    bool workspace;          /* WORKSPACE, of what size the plan asks for */
} attention_shape;

bool shape_run_attention(harness *h, const attention_shape *shape);

/* What shape_run_attention builds, for tests that compare runs with each other. */
typedef struct attention_run {
    harness_tensor q, k, v, o;
    harness_tensor positions_q, positions_k, lengths, status, workspace;
    around_run around;
    rhumb_rope rope; /* rotary_dim not 0 */
    gpu_operation op;
} attention_run;

/* WORKSPACE of exactly as many floats as the plan asks for; one, where it asks for none. */
rhumb_result shape_add_workspace(harness *h, gpu_operation *op, uint32_t batch, harness_tensor *t);

void shape_make_attention(attention_run *run, const attention_shape *shape, uint64_t seed);
void shape_free_attention(attention_run *run);

/* Compares run->o with the reference, for whoever ran it by other means; `text` names the case. */
bool shape_check_attention(harness *h, const attention_shape *shape, attention_run *run,
                           const char *text);

/* Fills positions [B, L] and says how many batch entries the view has (1 for SHAPE_SHARED). */
void shape_fill_positions(shape_positions kind, int32_t first, uint32_t batch, uint32_t rows,
                          int32_t *positions);
/* int32 [batch, rows] as a view of positions. */
void shape_add_positions(gpu_operation *op, rhumb_view_id id, harness_tensor *t,
                         const int32_t *positions, uint32_t batch, uint32_t rows);

/* How far a long table steps on a profile: whole on lavapipe, whose compiled kernels are shared by
 * the tests, a share of it elsewhere, where a pipeline takes seconds to compile. */
static inline size_t shape_step(harness_profile profile, size_t elsewhere)
{
    return profile == HARNESS_LAVAPIPE ? 1 : elsewhere;
}

#define SHAPE_RUN_SOME(h, run, table, step)                                                        \
    for (size_t shape_i = 0; shape_i < sizeof(table) / sizeof((table)[0]); shape_i += (step))      \
    (void)run(h, &(table)[shape_i])

/* Runs a table of `count` rows of `size` bytes. */
#define SHAPE_RUN_ALL(h, run, table)                                                               \
    for (size_t shape_i = 0; shape_i < sizeof(table) / sizeof((table)[0]); shape_i++)              \
    (void)run(h, &(table)[shape_i])

#endif
