/* The tile form with every combination of terms that schemes have, as RADV compiles it for GPUs
 * that are not there: no spill, and few vector instructions in the loop over keys. */
#include "isa.h"
#include "radv.h"

#include <criterion/criterion.h>
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
#define HEAD_DIM 64u
#define MOST_VECTOR 1.40   /* instructions a useful multiply-add */

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

static double count_loop(const struct loop_row *row, const capture_pipeline *p)
{
    static isa_listing listing;
    isa_loop loop = {.multiply_adds = 0.0};
    bool read = isa_read(p->executables[0].code, &listing) &&
                isa_key_loop(&listing, p->spec, &loop);
    cr_expect(read, "%s: the key loop has other loops inside than it is known to have", row->name);
    cr_expect_eq(loop.multiply_adds, p->spec[SPEC_KEYS] * TILE_ROWS * HEAD_DIM * row->products,
                 "%s: wanted %g products", row->name, row->products);
    return loop.count.of[ISA_VECTOR] / loop.multiply_adds;
}

/* Vector instructions a useful multiply-add, where the loop is counted. */
static double compile(rhumb_context *context, const struct loop_row *row, uint32_t head_dim,
                      rhumb_dtype dtype, bool counted)
{
    scheme_struct scheme;
    rhumb_plan_info info;
    rhumb_plan *plan = NULL;
    uint64_t spilled = radv_look()->spilled;
    double ratio;
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
    cr_expect_eq(rhumb_create_plan(context, &info, &plan), RHUMB_OK, "%s: %s", row->name,
                 rhumb_last_message(context));
    if (plan == NULL)
        return 0.0;
    spilled = radv_look()->spilled - spilled;
    cr_expect_eq(spilled, 0, "%s D%u spills registers or uses scratch memory (%llu)", row->name,
                 head_dim, (unsigned long long)spilled);
    printf("%s D%u:%s\n", row->name, head_dim, radv_look()->line);
    ratio = counted ? count_loop(row, radv_look()->newest) : 0.0;
    rhumb_destroy_plan(plan);
    return ratio;
}

static void compile_shapes(const char *family, bool counted)
{
    rhumb_context *context = radv_open(family);
    double plain = 0.0;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const struct loop_row *row = &rows[i];
        double ratio = compile(context, row, HEAD_DIM, RHUMB_F32, counted);
        (void)compile(context, row, 80, RHUMB_F16, false);
        (void)compile(context, row, 128, RHUMB_BF16, false);
        (void)compile(context, row, 256, RHUMB_F16, false);
        if (!counted)
            continue;
        plain = i == 0 ? ratio : plain;
        printf("%s: %s: %.3f vector instructions a multiply-add, %.2f times those of plain\n",
               family, row->name, ratio, ratio * row->products / (plain * rows[0].products));
        cr_expect(ratio > 1.0 && ratio <= MOST_VECTOR, "%s: %s: %.3f vector instructions", family,
                  row->name, ratio);
    }
    radv_close();
}

Test(key_loop, takes_few_vector_instructions_on_navi31)
{
    compile_shapes("navi31", true);
}

Test(key_loop, has_no_spills_on_navi21)
{
    compile_shapes("navi21", false);
}

Test(key_loop, has_no_spills_on_polaris10)
{
    compile_shapes("polaris10", false);
}
