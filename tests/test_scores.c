/* SCORES: the logits of every scheme against the general form, and windows against the table. */
#include "shapes_relative.h"

#include "reference/reference_absolute.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define F16 .dtype = RHUMB_F16, .dtype_o = RHUMB_F16, .dtype_table = RHUMB_F16
#define BF16 .dtype = RHUMB_BF16, .dtype_o = RHUMB_BF16, .dtype_table = RHUMB_BF16
#define ODD                                                                                        \
    {                                                                                              \
        .row_pad = 3, .offset = 1                                                                  \
    }
#define OFFSET(n) .offset_given = true, .q_offset = (n)

/* Every scheme, one key and row, primes, more rows than keys, a chunk and a step of decoding. */
#define EACH(f)                                                                                    \
    {.family = (f), .batch = 3, .heads = 3, .q_rows = 13, .k_rows = 31, .head_dim = 7},            \
    {                                                                                              \
        .family = (f), .heads = 2, .q_rows = 1, .k_rows = 1, .head_dim = 8                         \
    }

/* Rows and keys are the tokens of a window. */
#define TOKENS_OF(f)                                                                                  \
    {                                                                                              \
        .family = (f), .batch = 3, .heads = 3, .q_rows = 6, .k_rows = 6, .head_dim = 7             \
    }

static const relative_shape schemes[] = {
    EACH(RELATIVE_PLAIN),         EACH(RELATIVE_SHAW),       EACH(RELATIVE_SHAW_MIRRORED),
    EACH(RELATIVE_MUSIC),         EACH(RELATIVE_MUSIC_BOTH), EACH(RELATIVE_T5),
    EACH(RELATIVE_T5_CAUSAL),     EACH(RELATIVE_T5_GATED),   EACH(RELATIVE_ALIBI),
    EACH(RELATIVE_ALIBI_INDEX),   EACH(RELATIVE_ALIBI_LAST), EACH(RELATIVE_XL),
    EACH(RELATIVE_XL_CLAMP),      EACH(RELATIVE_XL_FOLDED),  EACH(RELATIVE_XL_LEARNED),
    EACH(RELATIVE_XLNET),         EACH(RELATIVE_DEBERTA),    EACH(RELATIVE_DEBERTA_LOG),
    EACH(RELATIVE_DEBERTA_PAPER),
    TOKENS_OF(RELATIVE_SWIN),        TOKENS_OF(RELATIVE_SWIN_V2),
    {.family = RELATIVE_ROTARY, .batch = 2, .heads = 3, .q_rows = 13, .k_rows = 31, .head_dim = 18},
    {.family = RELATIVE_ROTARY, .heads = 2, .q_rows = 1, .k_rows = 1, .head_dim = 2},
};

/* Shapes and formats on schemes that between them have every view. */
static const relative_shape shapes[] = {
    {.family = RELATIVE_SHAW,
     .heads = 6,
     .kv_heads = 2,
     .q_rows = 5,
     .k_rows = 131,
     .head_dim = 16},
    {.family = RELATIVE_SHAW, .heads = 2, .q_rows = 37, .k_rows = 11, .head_dim = 4, OFFSET(0)},
    {.family = RELATIVE_SHAW, .heads = 2, .q_rows = 1, .k_rows = 257, .head_dim = 64},
    {.family = RELATIVE_SHAW, .heads = 1, .q_rows = 3, .k_rows = 5, .head_dim = 576},
    {.family = RELATIVE_SHAW, .heads = 2, .q_rows = 9, .k_rows = 23, .head_dim = 24, F16},
    {.family = RELATIVE_SHAW,
     .heads = 2,
     .q_rows = 9,
     .k_rows = 23,
     .head_dim = 24,
     BF16,
     .shared_tables = true},
    {.family = RELATIVE_XLNET,
     .batch = 5,
     .heads = 3,
     .q_rows = 9,
     .k_rows = 23,
     .head_dim = 13,
     .layout = ODD,
     .layout_table = ODD,
     F16},
    {.family = RELATIVE_XLNET,
     .batch = 2,
     .heads = 4,
     .kv_heads = 2,
     .q_rows = 9,
     .k_rows = 23,
     .head_dim = 12,
     .layout = {.by_rows = true},
     .shared_tables = true},
    {.family = RELATIVE_XL_FOLDED, .heads = 2, .q_rows = 3, .k_rows = 40, .head_dim = 16, BF16},
    {.family = RELATIVE_DEBERTA_LOG,
     .heads = 2,
     .q_rows = 29,
     .k_rows = 47,
     .head_dim = 10,
     .shared_tables = true,
     .dtype_table = RHUMB_F16,
     OFFSET(3)},
    {.family = RELATIVE_T5_GATED,
     .batch = 2,
     .heads = 3,
     .q_rows = 17,
     .k_rows = 40,
     .head_dim = 8,
     F16,
     .layout_table = ODD},
    {.family = RELATIVE_ALIBI, .heads = 3, .q_rows = 2, .k_rows = 1000, .head_dim = 8},
};

static void run_scores(harness_profile profile)
{
    harness h;
    harness_open(&h, profile);
    for (size_t i = 0; i < sizeof schemes / sizeof schemes[0]; i++)
        (void)shape_run_scores(&h, &schemes[i]);
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++)
        (void)shape_run_scores(&h, &shapes[i]);
    harness_close(&h);
}

Test(scores, logits_of_every_scheme_are_the_general_form_on_lavapipe)
{
    run_scores(HARNESS_LAVAPIPE);
}

Test(scores, logits_of_every_scheme_are_the_general_form_on_the_smallest_device)
{
    run_scores(HARNESS_LAVAPIPE_FLOOR);
}

Test(scores, logits_of_every_scheme_are_the_general_form_on_swiftshader)
{
    run_scores(HARNESS_SWIFTSHADER);
}

/* ---- Windows */
#define GRID_H 5u
#define GRID_W 7u
#define WINDOW_H 3u
#define WINDOW_W 2u
#define TOKENS (WINDOW_H * WINDOW_W)
#define WINDOWS_H 2u
#define WINDOWS_W 4u
#define BATCH 2u
#define HEADS 3u
#define DIM 5u

/* Pixel of place u of an axis in window space, -1 for padding. */
static int source(uint32_t u, uint32_t size, uint32_t padded, uint32_t shift, bool pad_first)
{
    uint32_t p = (u + shift) % (pad_first ? padded : size);
    if (!pad_first && u >= size)
        return -1;
    return p < size ? (int)p : -1;
}

static int pixel_of(uint32_t window, uint32_t token, bool pad_first)
{
    uint32_t y = window / WINDOWS_W * WINDOW_H + token / WINDOW_W;
    uint32_t x = window % WINDOWS_W * WINDOW_W + token % WINDOW_W;
    int py = source(y, GRID_H, WINDOWS_H * WINDOW_H, 1, pad_first);
    int px = source(x, GRID_W, WINDOWS_W * WINDOW_W, 1, pad_first);
    return py < 0 || px < 0 ? -1 : py * (int)GRID_W + px;
}

/* Without the mask between regions, and with a row for each padding token. */
static void fill_window_logits(const harness_tensor *q, const harness_tensor *k,
                               const harness_tensor *table, bool pad_first, double *want)
{
    const ref_window window = {.size = {WINDOW_H, WINDOW_W}};
    int32_t index[TOKENS * TOKENS];
    cr_assert_eq(ref_window_index(&window, index), 0);
    for (uint32_t i = 0; i < BATCH * WINDOWS_H * WINDOWS_W * HEADS * TOKENS * TOKENS; i++) {
        uint32_t pair = i % (TOKENS * TOKENS), h = i / (TOKENS * TOKENS) % HEADS;
        uint32_t entry = i / (TOKENS * TOKENS) / HEADS, b = entry / (WINDOWS_H * WINDOWS_W);
        int from = pixel_of(entry % (WINDOWS_H * WINDOWS_W), pair / TOKENS, pad_first);
        int to = pixel_of(entry % (WINDOWS_H * WINDOWS_W), pair % TOKENS, pad_first);
        double sum = 0.0;
        for (uint32_t d = 0; from >= 0 && to >= 0 && d < DIM; d++)
            sum += q->values[harness_index(q, b, h, (uint64_t)from, d)] *
                   k->values[harness_index(k, b, h, (uint64_t)to, d)];
        want[i] = sum / sqrt((double)DIM) + table->values[(uint32_t)index[pair] * HEADS + h];
    }
}

static void check_windows(harness *h, bool pad_first)
{
    harness_random random = {.state = 5};
    harness_tensor q, k, table, o;
    gpu_operation op;
    rhumb_swin swin;
    double *want, *bound;
    rhumb_init_swin(&swin);
    swin.window[0] = WINDOW_H;
    swin.window[1] = WINDOW_W;
    swin.grid[0] = GRID_H;
    swin.grid[1] = GRID_W;
    swin.shift[0] = swin.shift[1] = 1;
    swin.padding = pad_first ? RHUMB_WINDOW_PAD_THEN_SHIFT : RHUMB_WINDOW_SHIFT_THEN_PAD;
    gpu_init_operation(&op, RHUMB_OP_SCORES);
    op.info.scheme = &swin;
    op.info.heads = HEADS;
    op.info.head_dim = DIM;
    op.info.max_q_length = GRID_H * GRID_W;
    harness_make_tensor(&q, RHUMB_F32, BATCH, HEADS, GRID_H * GRID_W, DIM, (harness_layout){0});
    harness_make_tensor(&k, RHUMB_F32, BATCH, HEADS, GRID_H * GRID_W, DIM, (harness_layout){0});
    harness_make_tensor(&table, RHUMB_F32, 1, 1, (2 * WINDOW_H - 1) * (2 * WINDOW_W - 1), HEADS,
                        (harness_layout){0});
    harness_make_tensor(&o, RHUMB_F32, BATCH * WINDOWS_H * WINDOWS_W, HEADS, TOKENS, TOKENS,
                        (harness_layout){0});
    harness_fill_normal(&q, &random);
    harness_fill_normal(&k, &random);
    harness_fill_normal(&table, &random);
    harness_store(&q);
    harness_store(&k);
    harness_store(&table);
    (void)harness_add(&op, RHUMB_VIEW_Q, &q, false);
    (void)harness_add(&op, RHUMB_VIEW_K, &k, false);
    (void)harness_add(&op, RHUMB_VIEW_TABLE, &table, false);
    (void)harness_add(&op, RHUMB_VIEW_O, &o, true);
    want = harness_alloc(o.count, sizeof *want);
    bound = harness_alloc(o.count, sizeof *bound);
    fill_window_logits(&q, &k, &table, pad_first, want);
    for (uint64_t i = 0; i < o.count; i++)
        bound[i] =
            13.0 * 5.9604644775390625e-8 * (36.0 * sqrt((double)DIM) + 6.0); /* numbers to 6 */
    h->cases++;
    if (harness_run(h, &op) != RHUMB_OK) {
        (void)harness_fail(h, "windows: %s", op.message);
    } else {
        harness_load(&o);
        (void)harness_compare(h, "scores of windows",
                              pad_first ? "pad then shift" : "shift then pad", &o, want, bound,
                              NULL);
    }
    free(want);
    free(bound);
    harness_free_tensor(&q);
    harness_free_tensor(&k);
    harness_free_tensor(&table);
    harness_free_tensor(&o);
}

Test(scores, windows_have_a_row_for_every_token_and_no_mask)
{
    for (harness_profile p = HARNESS_LAVAPIPE; p < HARNESS_SWIFTSHADER; p++) {
        harness h;
        harness_open(&h, p);
        check_windows(&h, true);
        check_windows(&h, false);
        harness_close(&h);
    }
}
