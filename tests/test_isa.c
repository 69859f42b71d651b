/* Machine code of the kernels meant for GPUs, as RADV compiles them for GPUs that are not there:
 * the tile form with every combination of terms that schemes have, the decode form, rotation. No
 * spill, and few vector instructions, bytes of shared memory and barriers. bench/PERFORMANCE.md
 * has the numbers. */
#include "isa.h"
#include "radv.h"

#include <criterion/criterion.h>
#include <ctype.h>
#include <stdio.h>
#include <string.h>

typedef union scheme_struct {
    rhumb_header header;
    rhumb_shaw shaw;
    rhumb_music_transformer music;
    rhumb_t5 t5;
    rhumb_alibi alibi;
    rhumb_kerple kerple;
    rhumb_transformer_xl xl;
    rhumb_xlnet xlnet;
    rhumb_deberta deberta;
} scheme_struct;

#define VIEW(name) RHUMB_VIEW_BIT(RHUMB_VIEW_##name)

#define MOST_VECTOR 1.25 /* instructions a useful multiply-add of the tile form */
#define MOST_VECTOR_GCN 1.30
#define MOST_VECTOR_OF_TABLE 1.35 /* with a term that has a table, everywhere */
#define MOST_SHARED 1.9           /* bytes read a multiply-add */
#define MOST_SHARED_256 3.4       /* where the head has 256 channels */
#define MOST_STAGED 0.18          /* bytes written: what holds now */
#define FEWEST_A_BARRIER 256      /* multiply-adds of an invocation */
/* Vector instructions a pair for its angle, with those that find its frequency. */
#define MOST_ANGLE 35
/* And a byte that is rotated. In f16 results are rounded by integers. */
#define MOST_ROTATE 1.0
#define MOST_ROTATE_F16 6.5

static const struct loop_row {
    const char *name;
    uint32_t type; /* 0: no scheme */
    uint32_t views;
    double products; /* of D multiply-adds a pair */
} rows[] = {
    {"plain", 0, 0, 2.0},
    {"plain with a mask", 0, VIEW(MASK), 2},
    {"alibi", RHUMB_TYPE_ALIBI, 0, 2},
    {"kerple", RHUMB_TYPE_KERPLE, VIEW(TABLE), 2},
    {"t5", RHUMB_TYPE_T5, VIEW(TABLE), 2},
    {"t5 with gates", RHUMB_TYPE_T5, VIEW(TABLE) | VIEW(ROW_SCALE), 2},
    {"shaw A", RHUMB_TYPE_SHAW, VIEW(QUERY_TABLE), 3},
    {"shaw A V", RHUMB_TYPE_SHAW, VIEW(QUERY_TABLE) | VIEW(VALUE_TABLE), 4},
    {"shaw A C V", RHUMB_TYPE_SHAW, VIEW(QUERY_TABLE) | VIEW(KEY_TABLE) | VIEW(VALUE_TABLE), 5},
    {"shaw A C V with a mask", RHUMB_TYPE_SHAW,
     VIEW(QUERY_TABLE) | VIEW(KEY_TABLE) | VIEW(VALUE_TABLE) | VIEW(MASK), 5},
    {"music A V", RHUMB_TYPE_MUSIC_TRANSFORMER, VIEW(QUERY_TABLE) | VIEW(VALUE_TABLE), 4},
    {"transformer_xl", RHUMB_TYPE_TRANSFORMER_XL,
     VIEW(QUERY_TABLE) | VIEW(CONTENT_BIAS) | VIEW(POSITION_BIAS), 3},
    {"xlnet", RHUMB_TYPE_XLNET,
     VIEW(QUERY_TABLE) | VIEW(CONTENT_BIAS) | VIEW(POSITION_BIAS) | VIEW(SEGMENT_BIAS) |
         VIEW(SEGMENT_TABLE) | VIEW(SEGMENTS_Q) | VIEW(SEGMENTS_K),
     3},
    {"deberta A C", RHUMB_TYPE_DEBERTA, VIEW(QUERY_TABLE) | VIEW(KEY_TABLE), 4},
    {"deberta C", RHUMB_TYPE_DEBERTA, VIEW(KEY_TABLE), 3},
};

static const void *scheme_of(uint32_t type, scheme_struct *s)
{
    switch (type) {
    case RHUMB_TYPE_ALIBI: rhumb_init_alibi(&s->alibi); break;
    case RHUMB_TYPE_KERPLE: rhumb_init_kerple(&s->kerple); break;
    case RHUMB_TYPE_T5: rhumb_init_t5(&s->t5); break;
    case RHUMB_TYPE_SHAW: rhumb_init_shaw(&s->shaw); break;
    case RHUMB_TYPE_MUSIC_TRANSFORMER:
        rhumb_init_music_transformer(&s->music);
        s->music.max_relative_position = 512;
        break;
    case RHUMB_TYPE_TRANSFORMER_XL: rhumb_init_transformer_xl(&s->xl); break;
    case RHUMB_TYPE_XLNET: rhumb_init_xlnet(&s->xlnet); break;
    case RHUMB_TYPE_DEBERTA: rhumb_init_deberta(&s->deberta); break;
    default: return NULL;
    }
    return s;
}

#define HEAD_DIMS 4
static const uint32_t head_dims[HEAD_DIMS] = {64, 80, 128, 256};

static bool is_gcn(const char *family)
{
    return strcmp(family, "polaris10") == 0;
}

/* Waves of a SIMD by registers and shared memory; the driver's own count is higher than is true. */
static double waves_of(const char *family, const capture_pipeline *p)
{
    const capture_executable *e = &p->executables[0];
    const capture_statistic *registers = capture_find(e, "VGPRs");
    const capture_statistic *shared = capture_find(e, "LDS size");
    char device[16] = "";
    uint32_t lanes = 0;
    double waves;
    for (size_t i = 0; i + 1 < sizeof device && family[i] != '\0'; i++)
        device[i] = (char)toupper((unsigned char)family[i]);
    cr_assert(registers != NULL && shared != NULL, "RADV tells no registers");
    waves = isa_waves(device, (uint32_t)registers->value, (uint32_t)shared->value,
                      p->module.local_size[0], e->subgroup_size, &lanes);
    cr_expect_eq(lanes, is_gcn(family) ? 64 : 32, "%s is not known", family);
    return waves;
}

static void expect_loop(const char *family, const struct loop_row *row, size_t size,
                        const capture_pipeline *p)
{
    static isa_listing listing;
    /* Without a table of vectors, what holds now. */
    static const double fewest[HEAD_DIMS] = {3, 3, 2, 2};
    static const double fewest_gcn[HEAD_DIMS] = {0.5, 0.5, 0.5, 0.5};
    const uint32_t head_dim = head_dims[size];
    const double waves = waves_of(family, p);
    const bool table = row->views & (VIEW(TABLE) | VIEW(QUERY_TABLE) | VIEW(KEY_TABLE));
    const double most_vector = table            ? MOST_VECTOR_OF_TABLE
                               : is_gcn(family) ? MOST_VECTOR_GCN
                                                : MOST_VECTOR;
    const double most_shared = head_dim == 256 ? MOST_SHARED_256 : MOST_SHARED;
    isa_loop loop = {.multiply_adds = 0.0};
    bool read = isa_read(p->executables[0].code, &listing) &&
                isa_key_loop(&listing, p->spec, &loop);
    double vector = loop.count.of[ISA_VECTOR] / loop.multiply_adds;
    double shared = loop.count.of[ISA_SHARED_READ] / loop.multiply_adds;
    double staged = loop.count.of[ISA_SHARED_WRITTEN] / loop.multiply_adds;
    cr_expect(read, "%s D%u: the key loop has other loops inside than it is known to have",
              row->name, head_dim);
    cr_expect_eq(loop.multiply_adds, p->spec[SPEC_KEYS] * TILE_ROWS * head_dim * row->products,
                 "%s D%u: wanted %g products", row->name, head_dim, row->products);
    printf("%s: %s D%u: %.3f vector instructions, %.3f shared bytes read and %.3f written a "
           "multiply-add, %g barriers in %.0f, %g waves\n",
           family, row->name, head_dim, vector, shared, staged, loop.count.of[ISA_BARRIERS],
           loop.multiply_adds, waves);
    if (row->products == 2)
        cr_expect(waves >= (is_gcn(family) ? fewest_gcn : fewest)[size], "%s: %s D%u: %g waves",
                  family, row->name, head_dim, waves);
    cr_expect(vector > 1.0 && vector <= most_vector,
              "%s: %s D%u: %.3f vector instructions, wanted %.2f", family, row->name, head_dim,
              vector, most_vector);
    cr_expect(shared > 1.0 && shared <= most_shared, "%s: %s D%u: %.3f bytes read, wanted %.2f",
              family, row->name, head_dim, shared, most_shared);
    cr_expect(staged > 0.0 && staged <= MOST_STAGED, "%s: %s D%u: %.3f bytes written, wanted %.2f",
              family, row->name, head_dim, staged, MOST_STAGED);
    cr_expect(loop.count.of[ISA_BARRIERS] * FEWEST_A_BARRIER <= loop.multiply_adds,
              "%s: %s D%u: %g barriers in %.0f multiply-adds", family, row->name, head_dim,
              loop.count.of[ISA_BARRIERS], loop.multiply_adds);
}

/* The plan's newest pipeline, until the next is made; NULL: there is none. */
static const capture_pipeline *compile(rhumb_context *context, const rhumb_plan_info *info,
                                       const char *what)
{
    rhumb_plan *plan = NULL;
    uint64_t spilled = radv_look()->spilled;
    cr_expect_eq(rhumb_create_plan(context, info, &plan), RHUMB_OK, "%s: %s", what,
                 rhumb_last_message(context));
    if (plan == NULL)
        return NULL;
    spilled = radv_look()->spilled - spilled;
    cr_expect_eq(spilled, 0, "%s spills registers or uses scratch memory (%llu)", what,
                 (unsigned long long)spilled);
    printf("%s:%s\n", what, radv_look()->line);
    rhumb_destroy_plan(plan);
    return radv_look()->newest;
}

static void compile_tile(const char *family, rhumb_context *context, const struct loop_row *row,
                         size_t size, rhumb_dtype dtype)
{
    const uint32_t head_dim = head_dims[size];
    scheme_struct scheme;
    rhumb_plan_info info;
    const capture_pipeline *p;
    char what[64];
    rhumb_init_plan_info(&info, RHUMB_OP_ATTENTION);
    info.variant = RHUMB_VARIANT_TILE;
    info.scheme = scheme_of(row->type, &scheme);
    info.heads = info.kv_heads = 8;
    info.head_dim = head_dim;
    info.max_q_length = info.max_k_length = 512;
    info.views = row->views | VIEW(Q) | VIEW(K) | VIEW(V) | VIEW(O);
    for (uint32_t id = 0; id < RHUMB_MAX_VIEWS; id++)
        if (!(RHUMB_INTEGER_VIEWS >> id & 1u) && id != RHUMB_VIEW_ROW_SCALE)
            info.dtype[id] = dtype;
    snprintf(what, sizeof what, "%s D%u %s", row->name, head_dim, harness_dtype_name(dtype));
    p = compile(context, &info, what);
    if (p != NULL)
        expect_loop(family, row, size, p);
}

/* Vector instructions a byte of K and V in f16 at most, on RDNA and GCN. Waves of a SIMD, at least:
 * of 8 rows 5 were wanted on RDNA, navi21 has 4. */
static const struct decode_row {
    uint32_t rows, head_dim;
    double vector, vector_gcn;
    double waves, waves_gcn;
} decodes[] = {
    {1, 64, 1.6, 2.2, 8, 4},  {4, 64, 4.5, 5.4, 8, 2},  {8, 64, 8.5, 9.8, 4, 1},
    {1, 128, 1.6, 2.2, 8, 4}, {4, 128, 4.5, 5.4, 8, 2}, {8, 128, 8.5, 9.8, 4, 1},
};

static void compile_decode(const char *family, rhumb_context *context, const struct decode_row *row)
{
    static isa_listing listing;
    const double most = is_gcn(family) ? row->vector_gcn : row->vector;
    const capture_pipeline *p;
    rhumb_plan_info info;
    isa_loop loop = {.multiply_adds = 0.0};
    double vector, waves;
    char what[64];
    rhumb_init_plan_info(&info, RHUMB_OP_ATTENTION);
    info.variant = RHUMB_VARIANT_DECODE;
    info.heads = 8 * row->rows;
    info.kv_heads = 8;
    info.head_dim = row->head_dim;
    info.max_q_length = 1;
    info.max_k_length = 512;
    info.views = VIEW(Q) | VIEW(K) | VIEW(V) | VIEW(O);
    for (uint32_t id = 0; id <= RHUMB_VIEW_O; id++)
        info.dtype[id] = RHUMB_F16;
    snprintf(what, sizeof what, "decode of %u rows D%u f16", row->rows, row->head_dim);
    p = compile(context, &info, what);
    if (p == NULL)
        return;
    cr_expect_eq(p->spec[SPEC_ROWS], row->rows);
    cr_expect(isa_read(p->executables[0].code, &listing) && isa_decode_loop(&listing, &loop),
              "%s: no key loop", what);
    vector = loop.count.of[ISA_VECTOR] / loop.count.of[ISA_GLOBAL_BYTES];
    waves = waves_of(family, p);
    printf("%s: %s: %.2f vector instructions a byte, %g waves\n", family, what, vector, waves);
    cr_expect(waves >= (is_gcn(family) ? row->waves_gcn : row->waves), "%s: %s: %g waves", family,
              what, waves);
    cr_expect_eq(loop.count.of[ISA_GLOBAL_BYTES],
                 4 * row->head_dim / p->spec[SPEC_LANES] * p->spec[SPEC_KEYS], "%s", what);
    cr_expect(vector > 0.5 && vector <= most,
              "%s: %s: %.2f vector instructions a byte, wanted %.1f", family, what, vector, most);
}

static const capture_pipeline *compile_rotate(rhumb_context *context, rhumb_dtype dtype,
                                              uint32_t views)
{
    rhumb_plan_info info;
    rhumb_rope rope;
    char what[64];
    rhumb_init_rope(&rope);
    rhumb_init_plan_info(&info, RHUMB_OP_ROTATE);
    info.rotary = &rope;
    info.heads = 32;
    info.kv_heads = 8;
    info.head_dim = 128;
    info.max_q_length = 512;
    info.views = views;
    for (uint32_t id = 0; id <= RHUMB_VIEW_K_OUT; id++)
        info.dtype[id] = dtype;
    snprintf(what, sizeof what, "rotate %s", harness_dtype_name(dtype));
    return compile(context, &info, what);
}

static void expect_rotate(const char *family, rhumb_context *context)
{
    static isa_listing listing;
    const double channels = 2 * ROTATE_PAIRS * ROTATE_HEADS; /* of an invocation */
    const capture_pipeline *p =
        compile_rotate(context, RHUMB_F32, VIEW(Q) | VIEW(K) | VIEW(Q_OUT) | VIEW(K_OUT));
    isa_count count;
    double vector;
    /* The choice between Q and K ends the block that makes angles, which is the longest. */
    cr_assert(p != NULL && isa_read(p->executables[0].code, &listing));
    count = isa_longest_block(&listing);
    vector = count.of[ISA_VECTOR] / ROTATE_PAIRS;
    printf("%s: rotate: %.1f vector instructions a pair for the angle\n", family, vector);
    cr_expect(vector > 20 && vector <= MOST_ANGLE,
              "%s: %.1f vector instructions a pair", family, vector);
    for (int half = 0; half < 2; half++) {
        const double bytes = channels * (half ? 2 : 4) * 2;
        const double most = half ? MOST_ROTATE_F16 : MOST_ROTATE;
        p = compile_rotate(context, half ? RHUMB_F16 : RHUMB_F32, VIEW(Q) | VIEW(Q_OUT));
        cr_assert(p != NULL && isa_read(p->executables[0].code, &listing));
        count = isa_sum_without_loops(&listing);
        vector = count.of[ISA_VECTOR] / bytes;
        printf("%s: rotate %s: %.3f vector instructions a byte\n", family, half ? "f16" : "f32",
               vector);
        cr_expect(count.of[ISA_GLOBAL_BYTES] >= bytes, "%s: rotate %d", family, half);
        cr_expect(vector <= most, "%s: rotate %d: %.2f", family, half, vector);
    }
}

static void compile_shapes(const char *family)
{
    rhumb_context *context = radv_open(family);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        compile_tile(family, context, &rows[i], 0, RHUMB_F32);
        if (strcmp(rows[i].name, "plain") == 0 || strcmp(rows[i].name, "alibi") == 0 ||
            strcmp(rows[i].name, "t5") == 0)
            compile_tile(family, context, &rows[i], 0, RHUMB_F16);
        compile_tile(family, context, &rows[i], 1, RHUMB_F16);
        compile_tile(family, context, &rows[i], 2, RHUMB_BF16);
        compile_tile(family, context, &rows[i], 3, RHUMB_F16);
    }
    for (size_t i = 0; i < sizeof decodes / sizeof decodes[0]; i++)
        compile_decode(family, context, &decodes[i]);
    expect_rotate(family, context);
    radv_close();
}

Test(isa, navi31)
{
    compile_shapes("navi31");
}

Test(isa, navi21)
{
    compile_shapes("navi21");
}

Test(isa, vangogh)
{
    compile_shapes("vangogh");
}

Test(isa, polaris10)
{
    compile_shapes("polaris10");
}
