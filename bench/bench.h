/* The benchmark: what is measured, how, and what comes out.
 *
 * A row is one operation at one shape. Rows of a group take turns: a round runs each once, and the
 * next round begins with another one. A rate means little by itself, on a shared machine nothing at
 * all; what counts is a row's rate over that of the group's limit (a copy, a read, multiply-adds)
 * within one round. rows.c is the table.
 */
#ifndef RHUMB_BENCH_H
#define RHUMB_BENCH_H

#include "gpu.h"

/* ----------------------------------------------------------------------------------------------
 * Rows
 */
typedef enum bench_role {
    BENCH_OPERATION = 0,
    BENCH_BANDWIDTH, /* a limit. Bytes per second are held against the first of the group */
    BENCH_COMPUTE,   /* likewise FLOPs per second */
} bench_role;

/* Schemes, by the operation that they belong to. */
typedef enum bench_scheme {
    BENCH_NONE = 0,
    /* ROTATE; in attention Q is rotated when it is loaded */
    BENCH_ROPE,
    BENCH_XPOS,
    BENCH_MROPE,
    BENCH_ROPE2D,
    /* ENCODE; those of a grid: a square one */
    BENCH_SINUSOIDAL,
    BENCH_LEARNED,
    BENCH_SINUSOIDAL_2D,
    BENCH_LEARNED_2D,
    BENCH_RESIZE,
    /* attention, SCORES and, where there is one, BIAS */
    BENCH_ALIBI,
    BENCH_KERPLE,
    BENCH_T5,
    BENCH_SHAW,        /* `reach` on both sides */
    BENCH_SHAW_VALUES, /* with the value-side table */
    BENCH_MUSIC,
    BENCH_MUSIC_VALUES,
    BENCH_TRANSFORMER_XL, /* folded: TABLE_SCALAR beside QUERY_TABLE */
    BENCH_XLNET,
    BENCH_XLNET_SEGMENTS,
    BENCH_C2P, /* DeBERTa v3: 256 buckets of 512 */
    BENCH_P2C,
    BENCH_C2P_P2C,
    BENCH_SWIN, /* windows of a grid, shifted by half of one */
    BENCH_SWIN_V2,
} bench_scheme;

/* Limits: `bytes` of each stream, `invocations` of a work group (0: 128, as rhumb's kernels; as
 * many as the device has where those are fewer). Operations: the rest, a batch of one. */
typedef struct bench_shape {
    uint64_t bytes;
    uint32_t invocations;
    uint32_t heads;
    uint32_t kv_heads; /* attention, 0: as heads; ROTATE, 0: no K */
    uint32_t q_rows;
    uint32_t k_rows;   /* 0: as q_rows. RESIZE: of the old table; appended: of the cache */
    uint32_t head_dim; /* ENCODE, RESIZE: channels */
    rhumb_dtype dtype; /* attention: of K and V, the others are f32 */
    bench_scheme scheme;
    rhumb_pairing pairing;      /* of BENCH_ROPE */
    rhumb_rope_scaling scaling; /* likewise */
    uint32_t base;              /* likewise; 0: 10000 */
    bool in_place;              /* ROTATE, ENCODE */
    bool bare;                  /* ENCODE: without X */
    bool append;                /* ROTATE: K and V go to the end of a cache */
    bool norm;                  /* ROTATE: with gains */
    bool shift;                 /* ROTATE: of rows rotated before */
    bool folded;                /* PROJECT: with TABLE_SCALAR */
    bool causal;                /* attention, the last row sees all keys */
    bool unfused;               /* attention: SCORES, softmax, values */
    bool sliced;                /* attention of few rows: keys in slices through WORKSPACE */
    uint32_t window;            /* attention: keys that a row sees, its own among them; 0: all */
    uint32_t reach;             /* of BENCH_SHAW */
    uint32_t windows;           /* as many batch entries; BENCH_SWIN: squares of q_rows tokens each
                                   in a square grid */
    bool packed;                /* attention: batch entries are sequences, one behind the other */
    uint32_t block;             /* attention: keys of a block of a pool; 0: not paged */
    uint32_t parts;             /* COMBINE */
} bench_shape;

/* A row on a device. `record` records one dispatch; barriers between dispatches are the caller's.
 * `release`: the GPU must be done with it. */
typedef struct bench_work {
    gpu *g;
    double bytes; /* that one dispatch must move at least: each element once */
    double flops; /* that it must compute at least; an exp2 of its limit counts as one */
    rhumb_result (*record)(const struct bench_work *work, VkCommandBuffer commands);
    void (*release)(struct bench_work *work);
    void *state;
} bench_work;

typedef struct bench_row {
    const char *group;
    const char *name;
    bench_role role;
    /* On an error nothing is left to release, and the line is in g->message. */
    rhumb_result (*make)(gpu *g, const struct bench_row *row, bench_work *work);
    bench_shape shape;
    const char *against; /* row of the group whose time is the unit of this one's; NULL: none */
    const char *peer;    /* operation of a peer that is held against the row; NULL: none */
} bench_row;

extern const bench_row bench_rows[]; /* rows of a group are neighbours */
extern const uint32_t bench_row_count;

#define BENCH_MAX_GROUP 40u /* rows */

/* Row makers: limits.c, operations.c and attention.c. */
typedef rhumb_result bench_make_fn(gpu *g, const bench_row *row, bench_work *work);

bench_make_fn bench_make_copy, bench_make_read, bench_make_write, bench_make_add;
bench_make_fn bench_make_multiply_add, bench_make_exp2, bench_make_shared, bench_make_empty;
bench_make_fn bench_make_rotate, bench_make_encode, bench_make_resize, bench_make_project;
bench_make_fn bench_make_combine, bench_make_attention, bench_make_scores, bench_make_bias;

/* "GROUP/NAME" and "H 32, L 4096, D 128, f32" into text; return text. */
const char *bench_row_id(const bench_row *row, char *text, size_t size);
const char *bench_row_shape(const bench_row *row, char *text, size_t size);

/* "f32", "q8_0". */
const char *bench_dtype_name(rhumb_dtype dtype);

/* "model" for shapes of real models, "unfused" for the unfused route: long on a CPU, and only
 * measured where --only begins with that word. NULL for all others. */
const char *bench_row_long(const bench_row *row);

/* Whether --only PATTERN (NULL: all, but no long ones) takes the row: a part of its id or a shell
 * pattern of it. A limit is also taken where an operation of its group is, and so is the row that
 * one is against. */
bool bench_row_wanted(const bench_row *row, const char *pattern);

/* ----------------------------------------------------------------------------------------------
 * Peers
 *
 * A peer is a program that runs another library's operations on the same device, so that both take
 * turns within a round. It reads lines from its standard input, answers each with one line, and
 * ends with its input:
 *
 *     hello               peer NAME
 *     open SLOT OP ...    ok NS: prepared and warmed up; a run will take NS. SLOT is a number
 *                         below BENCH_MAX_GROUP. OP is the row's `peer`; behind it, in this order,
 *                         heads= kv_heads= q_rows= k_rows= head_dim= dtype= scheme= pairing=
 *                         causal= in_place= as in bench_shape
 *     run SLOT            ns NS: time of one operation
 *     close               ok: what was opened is released
 *
 * Any other answer is the reason why there is no such row, or no time.
 */
typedef struct bench_peer bench_peer;

/* `command` for the shell. NULL, with the reason, where it does not answer. */
bench_peer *bench_peer_start(const char *command, char *message, size_t size);
const char *bench_peer_name(const bench_peer *peer);

/* false: with the reason in message. */
bool bench_peer_open(bench_peer *peer, uint32_t slot, const bench_row *row, double *ns,
                     char *message, size_t size);
bool bench_peer_run(bench_peer *peer, uint32_t slot, double *ns, char *message, size_t size);

void bench_peer_close(bench_peer *peer);
void bench_peer_stop(bench_peer *peer); /* NULL is allowed */

/* ----------------------------------------------------------------------------------------------
 * Measuring
 */
typedef struct bench_spread {
    double median, p10, p90; /* all 0 where nothing was measured */
} bench_spread;

typedef struct bench_result {
    const bench_row *row;
    double bytes;
    double flops;
    uint32_t rounds;
    uint32_t dispatches;       /* of one time taken */
    bool host_clock;           /* no timestamps: submission and wait included */
    bench_spread ns;           /* of one dispatch */
    bench_spread of_bandwidth; /* rate over the limit's, round by round */
    bench_spread of_compute;
    bench_spread times; /* time over that of the row in `against` */
    bench_spread peer_ns; /* of the peer's operation */
    bench_spread x_peer;  /* peer_ns over ns, round by round */
    char message[GPU_MESSAGE_SIZE]; /* why it could not be measured; "" */
    char peer_message[GPU_MESSAGE_SIZE]; /* why the peer could not, where there is one */
} bench_result;

/* Told before each round, `round` from 0; rounds below 0 are warm-up. */
typedef void (*bench_progress_fn)(const char *group, int32_t round);

typedef struct bench_options {
    uint32_t rounds;
    double budget_ns; /* of a group's rounds, which are fewer then, but not fewer than 3; 0: none */
    bool host_clock; /* though there are timestamps */
    bench_peer *peer; /* NULL: none */
    bench_progress_fn progress;
} bench_options;

/* `count` rows of one group, at most BENCH_MAX_GROUP; one result each. A row that the device
 * refuses has a message, the others run. */
void bench_measure_group(gpu *g, const bench_row *const *rows, uint32_t count,
                         const bench_options *options, bench_result *results);

/* ----------------------------------------------------------------------------------------------
 * Printing
 */

/* peer NULL: none. */
void bench_print_device(const gpu *g, const bench_peer *peer);
void bench_print_group(const bench_result *results, uint32_t count);

/* JSON lines: one object for the device, then one for each row. false: no memory. */
bool bench_print_device_json(const gpu *g, const bench_peer *peer);
bool bench_print_group_json(const bench_result *results, uint32_t count);

#endif /* RHUMB_BENCH_H */
