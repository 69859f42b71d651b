/* Bad parameters of xpos, mrope and rope2d, and records that their plans do not go with: each is
 * refused with its field, what was wanted and what was there, and nothing is written. */
#include "harness.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define COUNT(array) (sizeof(array) / sizeof(array)[0])
#define NOT_A_NUMBER ((double)NAN)

/* ---- parameters: no device ---- */

/* One good struct of each: head size 64, 32 pairs. */
typedef struct schemes {
    rhumb_rope r;
    rhumb_xpos x;
    rhumb_mrope m;
    rhumb_rope2d g;
} schemes;

static void make_schemes(schemes *s)
{
    rhumb_init_rope(&s->r);
    rhumb_init_xpos(&s->x);
    rhumb_init_mrope(&s->m);
    rhumb_init_rope2d(&s->g);
    s->m.rope = &s->r;
    s->m.sections[0] = 8;
    s->m.sections[1] = s->m.sections[2] = 12;
}

static void set_sections(schemes *s, rhumb_mrope_order order, uint32_t t, uint32_t h, uint32_t w,
                         uint32_t extra)
{
    const uint32_t sections[4] = {t, h, w, extra};
    s->m.order = order;
    memcpy(s->m.sections, sections, sizeof sections);
}

/* X(scheme, name, change, code, start of the line, found) */
#define BAD_ROWS(X)                                                                                \
    X(x, base_is_zero, s->x.base = 0, ARGUMENT, "xpos: base: ", "found 0")                         \
    X(x, scale_base_is_zero, s->x.scale_base = 0, ARGUMENT, "xpos: scale_base: ", "found 0")       \
    X(x, scale_base_is_nan, s->x.scale_base = NOT_A_NUMBER, ARGUMENT, "xpos: scale_base: ", "nan") \
    X(x, gamma_is_negative, s->x.gamma = -0.4, ARGUMENT, "xpos: gamma: ", "found -0.4")            \
    X(x, gamma_is_infinite, s->x.gamma = (double)INFINITY, ARGUMENT, "xpos: gamma: ", "found inf") \
    X(x, window_is_odd, s->x.rotary_dim = 63, ARGUMENT, "rope: rotary_dim: ", "found 63")          \
    X(x, offset_passes_the_head, s->x.rotary_offset = 64, ARGUMENT, "rope: rotary_offset: ", "64") \
    X(x, struct_is_larger, s->x.struct_size += 8, VERSION, "xpos: ", "struct_size")                \
    X(m, sections_are_none, set_sections(s, RHUMB_MROPE_BLOCKS, 0, 0, 0, 0), ARGUMENT,             \
      "mrope: sections: wanted a sum of 32 pairs", "0 + 0 + 0 + 0")                                \
    X(m, blocks_are_short, set_sections(s, RHUMB_MROPE_BLOCKS, 8, 12, 11, 0), ARGUMENT,            \
      "mrope: sections: wanted a sum of 32 pairs", "8 + 12 + 11 + 0")                              \
    X(m, blocks_are_long, set_sections(s, RHUMB_MROPE_BLOCKS, 8, 12, 12, 1), ARGUMENT,             \
      "mrope: sections: wanted a sum of 32 pairs", "8 + 12 + 12 + 1")                              \
    X(m, blocks_wrap_to_the_right_sum, set_sections(s, RHUMB_MROPE_BLOCKS, 0xffffffffu, 1, 32, 0), \
      ARGUMENT, "mrope: sections: wanted a sum of 32 pairs", "4294967295 + 1 + 32")                \
    X(m, interleaved_is_long, set_sections(s, RHUMB_MROPE_INTERLEAVED, 12, 11, 10, 0), ARGUMENT,   \
      "mrope: sections: wanted a sum of 1 to 32 pairs", "12 + 11 + 10 + 0")                        \
    X(m, extra_is_none, set_sections(s, RHUMB_MROPE_INTERLEAVED_EXTRA, 0, 0, 0, 0), ARGUMENT,      \
      "mrope: sections: wanted a sum of 1 to 32 pairs", "0 + 0 + 0 + 0")                           \
    X(m, alternating_is_uneven, set_sections(s, RHUMB_MROPE_ALTERNATING, 11, 12, 9, 0), ARGUMENT,  \
      "mrope: sections: ALTERNATING", "found 11, 12 and 0")                                        \
    X(m, alternating_has_a_fourth, set_sections(s, RHUMB_MROPE_ALTERNATING, 11, 11, 9, 1),         \
      ARGUMENT, "mrope: sections: ALTERNATING", "found 11, 11 and 1")                              \
    X(m, order_is_unknown, s->m.order = (rhumb_mrope_order)4, ARGUMENT, "mrope: order: ",          \
      "found 4")                                                                                   \
    X(m, order_is_negative, s->m.order = (rhumb_mrope_order)-1, ARGUMENT, "mrope: order: ", "-1")  \
    X(m, rope_is_itself, s->m.rope = (const rhumb_rope *)(const void *)&s->m, VERSION,             \
      "mrope: rope: wanted a rhumb_rope", "type")                                                  \
    X(m, rope_is_a_grid, s->m.rope = (const rhumb_rope *)(const void *)&s->g, VERSION,             \
      "mrope: rope: wanted a rhumb_rope", "type")                                                  \
    X(m, rope_is_bad, s->r.base = -1, ARGUMENT, "rope: base: ", "found -1")                        \
    X(m, struct_is_larger, s->m.struct_size += 8, VERSION, "mrope: ", "struct_size")               \
    X(g, window_is_no_multiple_of_four, s->g.rotary_dim = 62, ARGUMENT, "rope2d: rotary_dim: ",    \
      "62")                                                                                        \
    X(g, window_is_zero, s->g.rotary_dim = 0, ARGUMENT, "rope2d: rotary_dim: ", "found 0")         \
    X(g, window_passes_the_head, s->g.rotary_dim = 128, ARGUMENT, "rope2d: rotary_dim: ",          \
      "found 128")                                                                                 \
    X(g, whole_head_from_an_offset, s->g.rotary_offset = 2, ARGUMENT, "rope2d: rotary_dim: ",      \
      "62")                                                                                        \
    X(g, offset_passes_the_head, s->g.rotary_offset = 64, ARGUMENT, "rope2d: rotary_dim: ", "64")  \
    X(g, pairing_is_unknown, s->g.pairing = (rhumb_rope2d_pairing)3, ARGUMENT,                     \
      "rope2d: pairing: ", "3")                                                                    \
    X(g, order_is_unknown, s->g.order = (rhumb_rope2d_order)2, ARGUMENT, "rope2d: order: ", "2")   \
    X(g, frequency_is_unknown, s->g.frequency = (rhumb_rope2d_frequency)6, ARGUMENT,               \
      "rope2d: frequency: ", "6")                                                                  \
    X(g, learned_scale, (s->g.frequency = RHUMB_ROPE2D_LEARNED, s->g.scale[1] = 2), ARGUMENT,      \
      "rope2d: scale and offset of axis 1: wanted 1 and 0 with LEARNED", "found 2 and 0")          \
    X(g, learned_offset, (s->g.frequency = RHUMB_ROPE2D_LEARNED, s->g.offset[0] = 1), ARGUMENT,    \
      "rope2d: scale and offset of axis 0: wanted 1 and 0 with LEARNED", "found 1 and 1")          \
    X(g, learned_has_no_rule, s->g.frequency = RHUMB_ROPE2D_LEARNED, UNSUPPORTED,                  \
      "rotary_frequencies: wanted frequencies by a rule", "LEARNED")                               \
    X(g, base_is_nan, s->g.base = NOT_A_NUMBER, ARGUMENT, "rope2d: base: ", "nan")                 \
    X(g, resolution_is_two, s->g.resolution = 2, ARGUMENT, "rope2d: resolution: ", "found 2")      \
    X(g, scale_is_infinite, s->g.scale[1] = (double)INFINITY, ARGUMENT, "rope2d: scale", "inf")    \
    X(g, offset_is_nan, s->g.offset[0] = NOT_A_NUMBER, ARGUMENT, "rope2d: scale and offset",       \
      "nan")                                                                                       \
    X(g, scale_turns_too_often, s->g.scale[0] = 1e6, ARGUMENT, "rope2d: scale of axis 0", "1e+06") \
    X(g, offset_turns_too_often, s->g.offset[1] = -1e9, ARGUMENT, "rope2d: offset of axis 1",      \
      "1e+09")                                                                                     \
    X(g, struct_is_larger, s->g.struct_size += 8, VERSION, "rope2d: ", "struct_size")

#define DEFINE(scheme, name, change, code, start, found)                                           \
    static const void *bad_##scheme##_##name(schemes *s)                                           \
    {                                                                                              \
        change;                                                                                    \
        return &s->scheme;                                                                         \
    }
#define ROW(scheme, name, change, code, start, found)                                              \
    {#scheme " " #name, bad_##scheme##_##name, RHUMB_ERROR_##code, start, found},

BAD_ROWS(DEFINE)

static const struct {
    const char *name;
    const void *(*change)(schemes *s);
    rhumb_result code;
    const char *start;
    const char *found;
} bad_rows[] = {BAD_ROWS(ROW)};

Test(bad_schemes, each_bad_parameter_is_refused_with_its_numbers)
{
    schemes s;
    make_schemes(&s);
    cr_expect_eq(rhumb_rotary_frequencies(&s.x, 64, 0, NULL, 0, NULL, NULL), RHUMB_OK);
    cr_expect_eq(rhumb_rotary_frequencies(&s.m, 64, 0, NULL, 0, NULL, NULL), RHUMB_OK);
    cr_expect_eq(rhumb_rotary_frequencies(&s.g, 64, 0, NULL, 0, NULL, NULL), RHUMB_OK);
    for (size_t i = 0; i < COUNT(bad_rows); i++) {
        double f[32] = {77}, magnitude = 77;
        uint32_t count = 77;
        make_schemes(&s);
        rhumb_result code =
            rhumb_rotary_frequencies(bad_rows[i].change(&s), 64, 0, f, 32, &count, &magnitude);
        const char *line = rhumb_last_message(NULL);
        cr_expect_eq(code, bad_rows[i].code, "%s: got %s", bad_rows[i].name,
                     rhumb_result_name(code));
        cr_expect(strncmp(line, bad_rows[i].start, strlen(bad_rows[i].start)) == 0 &&
                      strstr(line, bad_rows[i].found) != NULL && strchr(line, '\n') == NULL,
                  "%s: wanted \"%s ... %s\", got \"%s\"", bad_rows[i].name, bad_rows[i].start,
                  bad_rows[i].found, line);
        cr_expect(count == 77 && magnitude > 76 && magnitude < 78 && f[0] > 76 && f[1] < 1,
                  "%s: something was written", bad_rows[i].name);
    }
}

/* ---- plans and records ---- */

typedef struct attempt {
    const char *name;
    rhumb_result code; /* RHUMB_OK: the row is here to show that the others fail for their own
                          reason */
    const char *words[2];
    rhumb_op op;
    int scheme;     /* of `schemes`: 'r', 'x', 'm', 'g' */
    uint32_t axes;  /* of POSITIONS_Q; 0: no view */
    uint32_t batch; /* of POSITIONS_Q; 0: 1 */
    rhumb_pairing pairing;
    bool per_axis;
    bool in_place;
    bool inverse;
    bool scheme_as_relative;
} attempt;

#define REFUSED(error, first, second) .code = RHUMB_ERROR_##error, .words = {first, second}
#define ROTATE .op = RHUMB_OP_ROTATE
#define ATTEND .op = RHUMB_OP_ATTENTION
#define HALF .pairing = RHUMB_PAIRING_HALF
#define TO_HALF .pairing = RHUMB_PAIRING_INTERLEAVED_TO_HALF

static const attempt attempts[] = {
    {"xpos", ROTATE, .scheme = 'x'},
    {"xpos inverse", ROTATE, .scheme = 'x', .inverse = true,
     REFUSED(UNSUPPORTED, "inverse", "grow")},
    {"to half", ROTATE, .scheme = 'r', TO_HALF},
    {"to half inverse", ROTATE, .scheme = 'r', TO_HALF, .inverse = true,
     REFUSED(UNSUPPORTED, "inverse", "INTERLEAVED_TO_HALF")},
    {"to half in place", ROTATE, .scheme = 'r', TO_HALF, .in_place = true,
     REFUSED(ARGUMENT, "Q_OUT", "INTERLEAVED_TO_HALF")},
    {"to half inside attention", ATTEND, .scheme = 'r', TO_HALF,
     REFUSED(UNSUPPORTED, "rotary", "INTERLEAVED_TO_HALF")},
    {"mrope", ROTATE, .scheme = 'm', HALF, .axes = 3},
    {"mrope to half inverse", ROTATE, .scheme = 'm', TO_HALF, .axes = 3, .inverse = true,
     REFUSED(UNSUPPORTED, "inverse", "INTERLEAVED_TO_HALF")},
    {"mrope without positions", ROTATE, .scheme = 'm', HALF,
     REFUSED(ARGUMENT, "POSITIONS_Q", "3 axes")},
    {"mrope with one row", ROTATE, .scheme = 'm', HALF, .axes = 1,
     REFUSED(ARGUMENT, "POSITIONS_Q", "wanted [1, 3, 1 or 1, at least 4], found [1, 1, 1, 4]")},
    {"mrope with four rows", ROTATE, .scheme = 'm', HALF, .axes = 4,
     REFUSED(ARGUMENT, "POSITIONS_Q", "found [1, 4, 1, 4]")},
    {"mrope with rows of another batch", ROTATE, .scheme = 'm', HALF, .axes = 3, .batch = 2,
     REFUSED(ARGUMENT, "POSITIONS_Q", "found [1, 3, 2, 4]")},
    {"rope with three rows", ROTATE, .scheme = 'r', HALF, .axes = 3,
     REFUSED(ARGUMENT, "POSITIONS_Q", "found [1, 3, 1, 4]")},
    {"mrope inside attention without positions", ATTEND, .scheme = 'm', HALF,
     REFUSED(ARGUMENT, "POSITIONS_Q", "3 axes")},
    {"mrope inside attention with one row", ATTEND, .scheme = 'm', HALF, .axes = 1,
     REFUSED(ARGUMENT, "POSITIONS_Q", "found [1, 1, 1, 4]")},
    {"rope2d", ROTATE, .scheme = 'g', .axes = 2},
    {"rope2d without positions", ROTATE, .scheme = 'g', REFUSED(ARGUMENT, "POSITIONS_Q", "2 axes")},
    {"rope2d with three rows", ROTATE, .scheme = 'g', .axes = 3,
     REFUSED(ARGUMENT, "POSITIONS_Q", "found [1, 3, 1, 4]")},
    {"half per axis inside attention", ATTEND, .scheme = 'g', .per_axis = true, .axes = 2,
     REFUSED(UNSUPPORTED, "rotary", "HALF_PER_AXIS")},
    {"mrope as a relative scheme", ATTEND, .scheme = 'm', HALF, .axes = 3,
     .scheme_as_relative = true, REFUSED(VERSION, "scheme", "relative")},
};

static void run_attempt(harness *h, const attempt *a)
{
    static float x[4 * 64], y[4 * 64];
    static int32_t positions[4 * 2 * 4];
    schemes s;
    gpu_operation op;
    make_schemes(&s);
    s.r.pairing = a->pairing;
    s.g.pairing = a->per_axis ? RHUMB_ROPE2D_HALF_PER_AXIS : RHUMB_ROPE2D_HALF;
    gpu_init_operation(&op, a->op);
    op.info.rotary = a->scheme == 'r'   ? (const void *)&s.r
                     : a->scheme == 'x' ? (const void *)&s.x
                     : a->scheme == 'm' ? (const void *)&s.m
                                        : (const void *)&s.g;
    op.info.scheme = a->scheme_as_relative ? &s.m : NULL;
    op.info.variant = RHUMB_VARIANT_GENERIC;
    op.info.heads = 1;
    op.info.head_dim = 64;
    op.info.max_q_length = 4;
    op.dispatch.inverse = a->inverse;
    gpu_add_tensor(&op, RHUMB_VIEW_Q, RHUMB_F32, 1, 1, 4, 64, x, a->in_place ? x : NULL);
    if (a->op == RHUMB_OP_ATTENTION) {
        gpu_add_tensor(&op, RHUMB_VIEW_K, RHUMB_F32, 1, 1, 4, 64, x, NULL);
        gpu_add_tensor(&op, RHUMB_VIEW_V, RHUMB_F32, 1, 1, 4, 64, x, NULL);
        gpu_add_tensor(&op, RHUMB_VIEW_O, RHUMB_F32, 1, 1, 4, 64, NULL, y);
    } else if (!a->in_place) {
        gpu_add_tensor(&op, RHUMB_VIEW_Q_OUT, RHUMB_F32, 1, 1, 4, 64, NULL, y);
    }
    if (a->axes != 0) {
        gpu_add_tensor(&op, RHUMB_VIEW_POSITIONS_Q, RHUMB_I32, 1, a->axes,
                       a->batch != 0 ? a->batch : 1, 4, positions, NULL);
    }
    h->cases++;
    rhumb_result code = gpu_run_operation(h->g, &op);
    if (code != a->code) {
        harness_fail(h, "%s: wanted %s, got %s: %s", a->name, rhumb_result_name(a->code),
                     rhumb_result_name(code), op.message);
    } else if (code != RHUMB_OK &&
               (strstr(op.message, a->words[0]) == NULL ||
                strstr(op.message, a->words[1]) == NULL || strchr(op.message, '\n') != NULL)) {
        harness_fail(h, "%s: wanted \"%s\" and \"%s\", got \"%s\"", a->name, a->words[0],
                     a->words[1], op.message);
    }
}

Test(bad_schemes, plans_and_records_that_do_not_go_together_are_refused)
{
    harness h;
    harness_open(&h, HARNESS_LAVAPIPE);
    for (size_t i = 0; i < COUNT(attempts); i++) {
        run_attempt(&h, &attempts[i]);
    }
    harness_close(&h);
}
