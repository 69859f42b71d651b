/* What is around the logits of attention, in every form against the definition: softcap with a bias
 * before or after it, sinks, first keys kept, chunks, windows that skip blocks, masks, LSE, factors
 * of Q's rows. NaN lies in whatever no row sees. Rows share kernels: compiling one takes a software
 * driver longer than running it a hundred times. */
#include "shapes.h"
#include "shapes_relative.h"

#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

#define COUNT(array) (sizeof(array) / sizeof(array)[0])
#define OFFSET(n) .offset_given = true, .q_offset = (n)
#define WINDOW(l, r) .windowed = true, .window_left = (l), .window_right = (r)
#define LEFT(l) WINDOW(l, RHUMB_NO_WINDOW)
#define HIDDEN .poison = SHAPE_NAN_HIDDEN
#define SIZE .heads = 2, .head_dim = 64
#define GQA .batch = 2, .heads = 6, .kv_heads = 2, .head_dim = 64
#define SINKS .around.sinks = true, .around.lse = true
#define LSE .around.lse = true
#define MASK(bits, type) .around.mask = SHAPE_MASKED | (bits), .around.dtype_mask = (type)

/* One kernel: uniform branches alone. */
static const attention_shape branches[] = {
    {SIZE, .q_rows = 33, .k_rows = 70, .causal = true, .values = SHAPE_SHARP, .around.softcap = 5},
    {SIZE, .q_rows = 9, .k_rows = 70, .around.softcap = 0.01f},
    {SIZE, .q_rows = 9, .k_rows = 70, .values = SHAPE_SHARP, .around.softcap = 1e6f},
    {GQA, .q_rows = 37, .k_rows = 131, LEFT(20), .causal = true, HIDDEN, .around.softcap = 50},
    {SIZE, .q_rows = 5, .k_rows = 70, .scale = -0.5f, .around.softcap = 2},
    {SIZE, .q_rows = 1, .k_rows = 1, .causal = true, .around.softcap = 30},
    /* nothing to add after the cap */
    {SIZE, .q_rows = 9, .k_rows = 70, .around.softcap = 1, .around.bias_after = true},
    /* chunks */
    {SIZE, .q_rows = 40, .k_rows = 77, .causal = true, HIDDEN, .around.chunk = 16},
    {SIZE, .q_rows = 40, .k_rows = 77, HIDDEN, .around.chunk = 33},
    {SIZE, .q_rows = 9, .k_rows = 150, .causal = true, OFFSET(100), HIDDEN, .around.chunk = 64},
    {SIZE, .q_rows = 9, .k_rows = 150, .causal = true, OFFSET(-5), HIDDEN, .around.chunk = 7},
    {SIZE, .q_rows = 9, .k_rows = 150, OFFSET(-5), HIDDEN, .around.chunk = 7},
    {SIZE, .q_rows = 77, .k_rows = 40, .causal = true, .around.chunk = 13},
    {SIZE, .q_rows = 40, .k_rows = 40, .around.chunk = 1},
    {SIZE, .q_rows = 40, .k_rows = 40, .causal = true, .around.chunk = RHUMB_NO_WINDOW - 1},
    {SIZE, .q_rows = 4, .k_rows = 40, .causal = true, OFFSET(1000), HIDDEN, .around.chunk = 300},
    {SIZE, .q_rows = 4, .k_rows = 40, .causal = true, OFFSET(2000000000), HIDDEN,
     .around.chunk = 300},
    {GQA, .q_rows = 35, .k_rows = 131, .causal = true, LEFT(30), HIDDEN, .around.chunk = 50},
    {GQA, .q_rows = 35, .k_rows = 131, WINDOW(9, 4), HIDDEN, .around.chunk = 50},
    /* first keys kept: blocks between them and the window are skipped */
    {SIZE, .q_rows = 40, .k_rows = 300, .causal = true, LEFT(20), HIDDEN, .around.kept_keys = 4},
    {SIZE, .q_rows = 40, .k_rows = 300, .causal = true, LEFT(5), HIDDEN, .around.kept_keys = 70},
    {SIZE, .q_rows = 40, .k_rows = 90, .causal = true, LEFT(5), .around.kept_keys = 1000},
    {SIZE, .q_rows = 9, .k_rows = 300, .causal = true, OFFSET(280), HIDDEN, .around.chunk = 50,
     .around.kept_keys = 3},
    {SIZE, .q_rows = 40, .k_rows = 77, WINDOW(3, 2), HIDDEN, .around.kept_keys = 5},
    {SIZE, .q_rows = 40, .k_rows = 77, .causal = true, LEFT(3), OFFSET(-7), HIDDEN,
     .around.kept_keys = 5},
    /* kept alone: the window lies past the keys */
    {SIZE, .q_rows = 4, .k_rows = 40, .causal = true, LEFT(13), OFFSET(1000), HIDDEN,
     .around.kept_keys = 2},
    /* windows that skip blocks on both sides */
    {GQA, .q_rows = 9, .k_rows = 400, WINDOW(7, 5), OFFSET(200), HIDDEN},
    {SIZE, .q_rows = 9, .k_rows = 300, .causal = true, .k_length = 123, LEFT(17), HIDDEN,
     .around.kept_keys = 3},
    {SIZE, .q_rows = 9, .k_rows = 300, .causal = true, .k_length = 123, .q_length = 5, HIDDEN,
     .around.chunk = 32, .around.kept_keys = 3},
    /* decode */
    {GQA, .q_rows = 1, .k_rows = 300, .causal = true, LEFT(17), HIDDEN, .around.kept_keys = 3},
    {GQA, .q_rows = 1, .k_rows = 300, .causal = true, HIDDEN, .around.chunk = 128,
     .around.kept_keys = 2, .around.softcap = 20},
    {SIZE, .q_rows = 2, .k_rows = 258, .causal = true, HIDDEN, .around.chunk = 256},
    {SIZE, .q_rows = 3, .k_rows = 70, .causal = true, .values = SHAPE_SHARP, .around.softcap = 5},
};

/* One kernel: SINKS and LSE. */
static const attention_shape sinks[] = {
    {GQA, SINKS, .q_rows = 37, .k_rows = 131, .causal = true},
    {SINKS, .heads = 17, .kv_heads = 1, .head_dim = 64, .q_rows = 5, .k_rows = 33,
     .causal = true},
    {SIZE, SINKS, .q_rows = 9, .k_rows = 40, .values = SHAPE_SHARP},
    /* rows that see nothing have the sink alone */
    {SIZE, SINKS, .q_rows = 9, .k_rows = 40, .causal = true, OFFSET(-4), HIDDEN},
    {SIZE, SINKS, .q_rows = 4, .k_rows = 40, .causal = true, LEFT(13), OFFSET(1000), HIDDEN},
    {SIZE, SINKS, .q_rows = 40, .k_rows = 300, .causal = true, LEFT(20), HIDDEN,
     .around.kept_keys = 4, .around.softcap = 3},
    {GQA, SINKS, .q_rows = 9, .k_rows = 70, .q_length = 5, .k_length = 33, HIDDEN},
    {GQA, SINKS, .q_rows = 1, .k_rows = 300, .causal = true, LEFT(130), HIDDEN},
    {SIZE, SINKS, .q_rows = 1, .k_rows = 1},
    {SIZE, SINKS, .q_rows = 1, .k_rows = 300, .causal = true, OFFSET(-1), HIDDEN},
};

/* One kernel: LSE. */
static const attention_shape lse[] = {
    {GQA, LSE, .q_rows = 37, .k_rows = 131, .causal = true},
    {SIZE, LSE, .q_rows = 9, .k_rows = 100, .values = SHAPE_SHARP, .around.softcap = 4},
    {SIZE, LSE, .q_rows = 9, .k_rows = 40, .causal = true, OFFSET(-4), HIDDEN},
    {SIZE, LSE, .q_rows = 4, .k_rows = 40, .causal = true, LEFT(13), OFFSET(1000), HIDDEN},
    {GQA, LSE, .q_rows = 9, .k_rows = 70, .q_length = 5, .k_length = 33, HIDDEN},
    {SIZE, LSE, .q_rows = 40, .k_rows = 9, .causal = true},
    {SIZE, LSE, .q_rows = 1, .k_rows = 300, .causal = true},
    {SIZE, LSE, .q_rows = 1, .k_rows = 300, .causal = true, OFFSET(-1), HIDDEN},
};

/* Kernels of their own. */
static const attention_shape views[] = {
    {LSE, .batch = 3, .heads = 6, .kv_heads = 2, .head_dim = 64, .q_rows = 9, .k_rows = 70,
     .lengths = true, .lengths_beyond = true, .causal = true, HIDDEN, .around.chunk = 20,
     .around.kept_keys = 2},
    {GQA, .q_rows = 33, .k_rows = 70, .causal = true, .around.row_scale = true},
    {GQA, .q_rows = 2, .k_rows = 70, .causal = true, .around.row_scale = true,
     .around.softcap = 3},
    {GQA, SINKS, .q_rows = 5, .k_rows = 70, .causal = true, .around.dtype_sinks = RHUMB_BF16},
    {GQA, SINKS, .q_rows = 2, .k_rows = 33, .causal = true, .around.dtype_sinks = RHUMB_F16},
};

/* Every way to hide a key; some rows see none. */
static const attention_shape masks[] = {
    {GQA, LSE, .q_rows = 9, .k_rows = 131, MASK(15, RHUMB_F32)},
    {GQA, LSE, .q_rows = 2, .k_rows = 131, MASK(9, RHUMB_F32), HIDDEN, .around.softcap = 2},
    {GQA, LSE, .q_rows = 33, .k_rows = 70, MASK(12, RHUMB_F32), .causal = true, HIDDEN,
     .around.chunk = 23, .around.kept_keys = 3},
    {GQA, LSE, .q_rows = 9, .k_rows = 40, MASK(7, RHUMB_F32)},
    {SIZE, LSE, .q_rows = 3, .k_rows = 40, MASK(4, RHUMB_F32), LEFT(9), HIDDEN},
    {GQA, LSE, .q_rows = 2, .k_rows = 131, MASK(8, RHUMB_F16), HIDDEN},
    {GQA, LSE, .q_rows = 9, .k_rows = 131, MASK(13, RHUMB_F16), LEFT(9), HIDDEN},
    {GQA, LSE, .q_rows = 2, .k_rows = 131, MASK(10, RHUMB_BF16)},
    {GQA, LSE, .q_rows = 9, .k_rows = 131, MASK(12, RHUMB_BF16), LEFT(20), HIDDEN,
     .around.softcap = 2},
};

/* One kernel: both position views. */
static const attention_shape positions[] = {
    {SIZE, .batch = 2, .q_rows = 9, .k_rows = 40, .by_position = true,
     .positions = SHAPE_PER_BATCH, .causal = true, HIDDEN, .around.chunk = 9,
     .around.kept_keys = 103},
    {SIZE, .batch = 2, .q_rows = 40, .k_rows = 40, .by_position = true,
     .positions = SHAPE_NEGATIVE, .causal = true, .around.chunk = 7, .around.kept_keys = 3},
    {SIZE, .batch = 2, .q_rows = 9, .k_rows = 40, .by_position = true, .positions = SHAPE_JUMPS,
     WINDOW(500, 700), HIDDEN, .around.kept_keys = 2000},
    {SIZE, .batch = 3, .q_rows = 40, .k_rows = 40, .by_position = true,
     .positions = SHAPE_LEFT_PAD, .causal = true, LEFT(4), .around.kept_keys = 1},
    {SIZE, .batch = 2, .q_rows = 40, .k_rows = 40, .by_position = true,
     .positions = SHAPE_REVERSED, .causal = true, .around.chunk = 11},
    {SIZE, .batch = 2, .q_rows = 40, .k_rows = 40, .by_position = true,
     .positions = SHAPE_ANYWHERE, .causal = true, .around.chunk = 1000000007,
     .around.kept_keys = 2000000000},
    {SIZE, .batch = 2, .q_rows = 2, .k_rows = 40, .by_position = true, .positions = SHAPE_ANYWHERE,
     WINDOW(1000000000, 2000000000), .around.chunk = 2000000001},
    {SIZE, .batch = 2, .q_rows = 40, .k_rows = 40, .by_position = true,
     .positions = SHAPE_ANYWHERE, .around.chunk = 3},
    {SIZE, .q_rows = 1, .k_rows = 300, .by_position = true, .positions = SHAPE_SHARED,
     .position_first = 7, .causal = true, LEFT(9), HIDDEN, .around.kept_keys = 12},
};

/* The cap with b before it and after it; b inside the scale. Two kernels each. */
#define CAPPED(f)                                                                                  \
    {.family = (f), GQA, .q_rows = 3, .k_rows = 77, .causal = true, .around.softcap = 2},          \
        {.family = (f), GQA, .q_rows = 37, .k_rows = 77, .causal = true, .around.softcap = 2,      \
         .around.bias_after = true},                                                               \
    {                                                                                              \
        .family = (f), GQA, SINKS, .q_rows = 2, .k_rows = 300, .causal = true, LEFT(40),           \
        .poison = true, .around.softcap = 3, .around.bias_after = true, .around.kept_keys = 5      \
    }

static const relative_shape scalar_terms[] = {
    CAPPED(RELATIVE_ALIBI_INDEX), CAPPED(RELATIVE_T5_GATED), CAPPED(RELATIVE_ALIBI),
    CAPPED(RELATIVE_T5), CAPPED(RELATIVE_ALIBI_LAST),
};

static const relative_shape vector_terms[] = {
    CAPPED(RELATIVE_SHAW),
    CAPPED(RELATIVE_DEBERTA_LOG),
    CAPPED(RELATIVE_XLNET),
    {.family = RELATIVE_MUSIC, SIZE, .q_rows = 40, .k_rows = 131, .causal = true, .poison = true,
     .around.chunk = 29, .around.kept_keys = 2},
    {.family = RELATIVE_XL_CLAMP, SIZE, LSE, .q_rows = 40, .k_rows = 131, .causal = true,
     LEFT(17), .poison = true},
    {.family = RELATIVE_SHAW, GQA, SINKS, .q_rows = 40, .k_rows = 131, WINDOW(9, 5),
     .poison = true, MASK(12, RHUMB_F32)},
};

/* Swin: cosines and sums of channels are capped, the table's scalars by choice. */
static const relative_shape windows[] = {
    {.family = RELATIVE_SWIN, SINKS, .batch = 2, .heads = 3, .q_rows = 6, .k_rows = 6,
     .head_dim = 16, .around.softcap = 1},
    {.family = RELATIVE_SWIN, SINKS, .batch = 2, .heads = 3, .q_rows = 6, .k_rows = 6,
     .head_dim = 16, .around.softcap = 1, .around.bias_after = true},
    {.family = RELATIVE_SWIN_V2, LSE, .batch = 2, .heads = 3, .q_rows = 6, .k_rows = 6,
     .head_dim = 16, .around.softcap = 1, .around.bias_after = true},
};

/* What a form has no kernel for is left out; of forms that compile for long the first of a table
 * are enough, as their own tests have each scheme. */
typedef struct extent {
    rhumb_variant variant;
    uint32_t most_rows;
    size_t scalar_rows; /* of the tables above */
    size_t vector_rows;
    size_t window_rows;
} extent;

static void run_plain(harness *h, const extent *e, const attention_shape *rows, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        attention_shape shape = rows[i];
        shape.variant = e->variant;
        if (shape.q_rows <= e->most_rows)
            (void)shape_run_attention(h, &shape);
    }
}

static void run_relative(harness *h, const extent *e, const relative_shape *rows, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        relative_shape shape = rows[i];
        shape.variant = e->variant;
        if (shape.q_rows <= e->most_rows)
            (void)shape_run_relative(h, &shape);
    }
}

static void run_all(harness_profile profile, const extent *e)
{
    harness h;
    harness_open(&h, profile);
    run_plain(&h, e, branches, COUNT(branches));
    run_plain(&h, e, sinks, COUNT(sinks));
    run_plain(&h, e, lse, COUNT(lse));
    run_plain(&h, e, positions, COUNT(positions));
    run_plain(&h, e, views, COUNT(views));
    run_plain(&h, e, masks, COUNT(masks));
    run_relative(&h, e, scalar_terms, e->scalar_rows);
    run_relative(&h, e, vector_terms, e->vector_rows);
    run_relative(&h, e, windows, e->window_rows);
    harness_close(&h);
}

#define FEW 2u /* of forms that compile for long, whose own tests have more */
#define EVERYTHING COUNT(scalar_terms), COUNT(vector_terms), COUNT(windows)

static const extent generic = {RHUMB_VARIANT_GENERIC, UINT32_MAX, EVERYTHING};
static const extent unfused = {RHUMB_VARIANT_UNFUSED, UINT32_MAX, EVERYTHING};
static const extent tile = {RHUMB_VARIANT_TILE, UINT32_MAX, FEW, FEW / 2, 0};
static const extent decode = {RHUMB_VARIANT_DECODE, 3, COUNT(scalar_terms), 0, 0};
static const extent broadcast = {RHUMB_VARIANT_BROADCAST, UINT32_MAX, 0, 0, 0};

static void expect_poison(const attention_shape *rows, size_t count, const char *table)
{
    for (size_t i = 0; i < count; i++) {
        attention_run run;
        uint64_t poisoned = 0;
        if (rows[i].poison == SHAPE_CLEAN)
            continue;
        shape_make_attention(&run, &rows[i], 1);
        for (uint64_t n = 0; n < run.k.count; n++)
            poisoned += isnan(run.k.values[n]) && isnan(run.v.values[n]);
        cr_expect_gt(poisoned, 0, "row %zu of %s hides no key from all of its rows", i, table);
        shape_free_attention(&run);
    }
}

/* NaN that no output shows proves something only where there is some. */
Test(around, rows_with_poison_have_keys_that_nothing_sees)
{
    expect_poison(branches, COUNT(branches), "branches");
    expect_poison(sinks, COUNT(sinks), "sinks");
    expect_poison(lse, COUNT(lse), "lse");
    expect_poison(views, COUNT(views), "views");
    expect_poison(masks, COUNT(masks), "masks");
    expect_poison(positions, COUNT(positions), "positions");
}

Test(around, is_right_in_the_generic_form_on_lavapipe)
{
    run_all(HARNESS_LAVAPIPE, &generic);
}

Test(around, is_right_in_tiles_on_lavapipe)
{
    run_all(HARNESS_LAVAPIPE, &tile);
}

Test(around, is_right_in_decode_on_lavapipe)
{
    run_all(HARNESS_LAVAPIPE, &decode);
}


/* Three kernels a form. */
static void run_few(harness_profile profile, const extent *e)
{
    harness h;
    harness_open(&h, profile);
    run_plain(&h, e, branches, COUNT(branches));
    run_plain(&h, e, sinks, COUNT(sinks));
    run_plain(&h, e, masks, 5);
    harness_close(&h);
}

/* The smallest device and SwiftShader have no addresses. */
Test(around, is_right_by_broadcast_on_lavapipe)
{
    run_few(HARNESS_LAVAPIPE, &broadcast);
}

Test(around, is_right_unfused_on_lavapipe)
{
    run_few(HARNESS_LAVAPIPE, &unfused);
}

Test(around, is_right_in_the_generic_form_on_the_smallest_device)
{
    run_few(HARNESS_LAVAPIPE_FLOOR, &generic);
}

Test(around, is_right_in_tiles_on_the_smallest_device)
{
    run_few(HARNESS_LAVAPIPE_FLOOR, &tile);
}

Test(around, is_right_in_decode_on_the_smallest_device)
{
    run_few(HARNESS_LAVAPIPE_FLOOR, &decode);
}

Test(around, is_right_in_the_generic_form_on_swiftshader)
{
    run_few(HARNESS_SWIFTSHADER, &generic);
}

Test(around, is_right_in_tiles_on_swiftshader)
{
    run_few(HARNESS_SWIFTSHADER, &tile);
}

Test(around, is_right_in_decode_on_swiftshader)
{
    run_few(HARNESS_SWIFTSHADER, &decode);
}

/* A cap must not make a number of what is none. Rows of lavapipe's forms; key 3 is seen by all rows. */
Test(around, a_nan_in_a_visible_key_passes_the_cap)
{
    static const attention_shape shapes[] = {
        {SIZE, .variant = RHUMB_VARIANT_GENERIC, .q_rows = 5, .k_rows = 40, .around.softcap = 3.0f},
        {SIZE, .variant = RHUMB_VARIANT_TILE, .q_rows = 5, .k_rows = 40, .around.softcap = 3.0f},
        {SIZE, .variant = RHUMB_VARIANT_DECODE, .q_rows = 2, .k_rows = 40, .around.softcap = 3.0f},
        {SIZE, .variant = RHUMB_VARIANT_BROADCAST, .q_rows = 5, .k_rows = 40,
         .around.softcap = 3.0f},
    };
    harness h;
    harness_open(&h, HARNESS_LAVAPIPE);
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        attention_run run;
        size_t numbers = 0;
        shape_make_attention(&run, &shapes[i], 7);
        for (uint32_t head = 0; head < 2; head++) {
            const float none = NAN;
            memcpy(run.k.memory + ((size_t)head * 40 + 3) * 64 * sizeof none, &none, sizeof none);
        }
        h.cases++;
        cr_assert_eq(harness_run(&h, &run.op), RHUMB_OK, "%s", run.op.message);
        for (size_t n = 0; n < run.o.bytes / sizeof(float); n++) {
            float x;
            memcpy(&x, run.o.memory + n * sizeof x, sizeof x);
            numbers += isnan(x) ? 0 : 1;
        }
        cr_expect_eq(numbers, 0, "form %zu: %zu numbers of a row that sees none", i, numbers);
        shape_free_attention(&run);
    }
    harness_close(&h);
}
