/* Machine code for GPUs that are not there: RADV compiles for any AMD GPU that RADV_FORCE_FAMILY
 * names. Every operation, variant and storage format must compile on each, and hold all its values
 * in registers. */
#include "radv.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

static void compile(rhumb_context *context, const char *family, const char *what,
                    const rhumb_plan_info *info)
{
    rhumb_plan *plan = NULL;
    rhumb_plan_properties properties;
    rhumb_result result;
    uint64_t spilled = radv_look()->spilled;
    result = rhumb_create_plan(context, info, &plan);
    cr_expect_eq(result, RHUMB_OK, "%s: %s: %s", family, what, rhumb_last_message(context));
    if (result != RHUMB_OK) {
        return;
    }
    rhumb_init_plan_properties(&properties);
    cr_expect_eq(rhumb_get_plan_properties(plan, &properties), RHUMB_OK);
    spilled = radv_look()->spilled - spilled;
    printf("%s: %s, variant %d:%s spilled %llu\n", family, what, (int)properties.variant,
           radv_look()->line, (unsigned long long)spilled);
    cr_expect_eq(spilled, 0, "%s: %s spills registers or uses scratch memory (%llu)", family, what,
                 (unsigned long long)spilled);
    rhumb_destroy_plan(plan);
}

static const rhumb_dtype dtypes[] = {RHUMB_F32, RHUMB_F16, RHUMB_BF16};

static void compile_rotate(rhumb_context *context, const char *family)
{
    rhumb_rope rope;
    rhumb_plan_info info;
    char what[128];
    rhumb_init_rope(&rope);
    for (size_t i = 0; i < 12; i++) {
        rhumb_dtype dtype = dtypes[i % 6 / 2];
        bool norm = i >= 6;
        rhumb_init_plan_info(&info, RHUMB_OP_ROTATE);
        rope.pairing = i % 2 == 0 ? RHUMB_PAIRING_HALF : RHUMB_PAIRING_INTERLEAVED;
        info.rotary = &rope;
        info.heads = 32;
        info.kv_heads = 8;
        info.head_dim = 128;
        info.max_q_length = 512;
        info.views = RHUMB_VIEW_BIT(RHUMB_VIEW_Q) | RHUMB_VIEW_BIT(RHUMB_VIEW_K) |
                     RHUMB_VIEW_BIT(RHUMB_VIEW_Q_OUT) | RHUMB_VIEW_BIT(RHUMB_VIEW_K_OUT);
        if (norm) {
            info.views |= RHUMB_VIEW_BIT(RHUMB_VIEW_Q_GAIN) | RHUMB_VIEW_BIT(RHUMB_VIEW_K_GAIN);
        }
        for (uint32_t id = 0; id <= RHUMB_VIEW_K_OUT; id++) {
            info.dtype[id] = dtype;
        }
        snprintf(what, sizeof what, "rotate %s %s%s", i % 2 == 0 ? "half" : "interleaved",
                 harness_dtype_name(dtype), norm ? " with a norm" : "");
        compile(context, family, what, &info);
    }
}

/* Q in place, K and V into their caches, with everything that says where. */
static void compile_append(rhumb_context *context, const char *family)
{
    static const char *const names[] = {"none", "position", "ring", "slots"};
    rhumb_rope rope;
    rhumb_plan_info info;
    char what[128];
    rhumb_init_rope(&rope);
    for (uint32_t i = 0; i < 9; i++) {
        rhumb_append append = (rhumb_append)(1 + i / 3);
        rhumb_init_plan_info(&info, RHUMB_OP_ROTATE);
        info.rotary = &rope;
        info.heads = 32;
        info.kv_heads = 8;
        info.head_dim = 128;
        info.max_q_length = 512;
        info.append = append;
        info.views = RHUMB_VIEW_BIT(RHUMB_VIEW_Q) | RHUMB_VIEW_BIT(RHUMB_VIEW_K) |
                     RHUMB_VIEW_BIT(RHUMB_VIEW_V) | RHUMB_VIEW_BIT(RHUMB_VIEW_K_OUT) |
                     RHUMB_VIEW_BIT(RHUMB_VIEW_V_OUT) | RHUMB_VIEW_BIT(RHUMB_VIEW_LENGTHS) |
                     RHUMB_VIEW_BIT(RHUMB_VIEW_STATUS);
        if (append == RHUMB_APPEND_SLOTS) {
            info.views |= RHUMB_VIEW_BIT(RHUMB_VIEW_SLOTS);
        }
        for (uint32_t id = 0; id < RHUMB_VIEW_COUNT; id++) {
            if (!(RHUMB_INTEGER_VIEWS & RHUMB_VIEW_BIT(id))) {
                info.dtype[id] = dtypes[i % 3];
            }
        }
        snprintf(what, sizeof what, "rotate and append by %s %s", names[append],
                 harness_dtype_name(dtypes[i % 3]));
        compile(context, family, what, &info);
    }
}

/* Axes, phases and growth, out of place. */
static void compile_schemes(rhumb_context *context, const char *family)
{
    static const uint32_t sections[4] = {16, 24, 24, 0};
    rhumb_xpos xpos;
    rhumb_mrope mrope;
    rhumb_rope2d plane;
    rhumb_plan_info info;
    char what[128];
    rhumb_init_xpos(&xpos);
    rhumb_init_mrope(&mrope);
    memcpy(mrope.sections, sections, sizeof sections);
    rhumb_init_rope2d(&plane);
    plane.offset[0] = plane.offset[1] = 1.0;
    const struct {
        const char *name;
        const void *scheme;
    } schemes[] = {{"xpos", &xpos}, {"mrope", &mrope}, {"rope2d", &plane}};
    for (size_t i = 0; i < 9; i++) {
        rhumb_init_plan_info(&info, RHUMB_OP_ROTATE);
        info.rotary = schemes[i / 3].scheme;
        info.heads = 32;
        info.kv_heads = 8;
        info.head_dim = 128;
        info.max_q_length = 512;
        info.views = RHUMB_VIEW_BIT(RHUMB_VIEW_Q) | RHUMB_VIEW_BIT(RHUMB_VIEW_K) |
                     RHUMB_VIEW_BIT(RHUMB_VIEW_Q_OUT) | RHUMB_VIEW_BIT(RHUMB_VIEW_K_OUT) |
                     RHUMB_VIEW_BIT(RHUMB_VIEW_POSITIONS_Q);
        for (uint32_t id = 0; id <= RHUMB_VIEW_K_OUT; id++) {
            info.dtype[id] = dtypes[i % 3];
        }
        snprintf(what, sizeof what, "rotate %s %s", schemes[i / 3].name,
                 harness_dtype_name(dtypes[i % 3]));
        compile(context, family, what, &info);
    }
}

static void compile_encoding(rhumb_context *context, const char *family, const char *what,
                             const void *scheme, uint32_t views, uint32_t rows)
{
    for (size_t i = 0; i < 3; i++) {
        rhumb_plan_info info;
        char text[128];
        rhumb_init_plan_info(&info, RHUMB_OP_ENCODE);
        info.scheme = scheme;
        info.head_dim = 256;
        info.max_q_length = rows;
        info.views = views | RHUMB_VIEW_BIT(RHUMB_VIEW_X) | RHUMB_VIEW_BIT(RHUMB_VIEW_Y);
        info.dtype[RHUMB_VIEW_X] = info.dtype[RHUMB_VIEW_Y] = dtypes[i];
        info.dtype[RHUMB_VIEW_TABLE] = info.dtype[RHUMB_VIEW_COLUMN_TABLE] = dtypes[i];
        snprintf(text, sizeof text, "encode %s %s", what, harness_dtype_name(dtypes[i]));
        compile(context, family, text, &info);
    }
}

static void compile_encode(rhumb_context *context, const char *family)
{
    const uint32_t table = RHUMB_VIEW_BIT(RHUMB_VIEW_TABLE);
    const uint32_t positions = RHUMB_VIEW_BIT(RHUMB_VIEW_POSITIONS) |
                               RHUMB_VIEW_BIT(RHUMB_VIEW_LENGTHS) |
                               RHUMB_VIEW_BIT(RHUMB_VIEW_STATUS);
    rhumb_sinusoidal sinusoidal;
    rhumb_learned learned;
    rhumb_sinusoidal2d plane;
    rhumb_learned2d learned2d;
    rhumb_init_sinusoidal(&sinusoidal);
    rhumb_init_learned(&learned);
    rhumb_init_sinusoidal2d(&plane);
    rhumb_init_learned2d(&learned2d);
    plane.grid[0] = learned2d.grid[0] = 20;
    plane.grid[1] = learned2d.grid[1] = 28;
    compile_encoding(context, family, "sinusoidal", &sinusoidal, positions, 512);
    compile_encoding(context, family, "learned", &learned, positions | table, 512);
    learned.normalize = 1;
    compile_encoding(context, family, "learned, divided", &learned, positions | table, 512);
    compile_encoding(context, family, "sinusoidal2d", &plane, 0, 560);
    plane.coordinates = RHUMB_COORDINATES_VALID;
    plane.normalize = 1;
    compile_encoding(context, family, "sinusoidal2d of a mask", &plane,
                     RHUMB_VIEW_BIT(RHUMB_VIEW_VALID), 560);
    plane.output = RHUMB_OUTPUT_IMAGE;
    compile_encoding(context, family, "sinusoidal2d of a mask as image", &plane,
                     RHUMB_VIEW_BIT(RHUMB_VIEW_VALID), 560);
    compile_encoding(context, family, "learned2d", &learned2d, table, 560);
    learned2d.form = RHUMB_LEARNED2D_CONCAT;
    compile_encoding(context, family, "learned2d of two tables", &learned2d,
                     table | RHUMB_VIEW_BIT(RHUMB_VIEW_COLUMN_TABLE), 560);
}

static void compile_attention(rhumb_context *context, const char *family, uint32_t head_dim,
                              rhumb_variant variant, rhumb_dtype dtype, bool rotary)
{
    rhumb_plan_info info;
    rhumb_rope rope;
    char what[128];
    rhumb_init_rope(&rope);
    rhumb_init_plan_info(&info, RHUMB_OP_ATTENTION);
    info.variant = variant;
    info.rotary = rotary ? &rope : NULL;
    info.heads = 32;
    info.kv_heads = 8;
    info.head_dim = head_dim;
    info.max_q_length = variant == RHUMB_VARIANT_DECODE ? 1 : 512;
    info.max_k_length = 4096;
    info.views = RHUMB_VIEW_BIT(RHUMB_VIEW_Q) | RHUMB_VIEW_BIT(RHUMB_VIEW_K) |
                 RHUMB_VIEW_BIT(RHUMB_VIEW_V) | RHUMB_VIEW_BIT(RHUMB_VIEW_O);
    for (uint32_t id = RHUMB_VIEW_Q; id <= RHUMB_VIEW_O; id++) {
        info.dtype[id] = dtype;
    }
    snprintf(what, sizeof what, "attention D%u %s%s", head_dim, harness_dtype_name(dtype),
             rotary ? " with Q rotated" : "");
    compile(context, family, what, &info);
}

/* K and V in blocks of bytes, in pages, and of packed sequences. */
static void compile_layouts(rhumb_context *context, const char *family, rhumb_variant variant)
{
    static const char *const names[] = {"q8_0", "paged", "packed"};
    const uint32_t views[] = {0, RHUMB_VIEW_BIT(RHUMB_VIEW_BLOCK_TABLE),
                              RHUMB_VIEW_BIT(RHUMB_VIEW_Q_STARTS) |
                                  RHUMB_VIEW_BIT(RHUMB_VIEW_K_STARTS)};
    for (size_t i = 0; i < 3; i++) {
        rhumb_plan_info info;
        char what[128];
        rhumb_init_plan_info(&info, RHUMB_OP_ATTENTION);
        info.variant = variant;
        info.heads = 32;
        info.kv_heads = 8;
        info.head_dim = 128;
        info.max_q_length = variant == RHUMB_VARIANT_DECODE ? 1 : 512;
        info.max_k_length = 4096;
        info.views = RHUMB_VIEW_BIT(RHUMB_VIEW_Q) | RHUMB_VIEW_BIT(RHUMB_VIEW_K) |
                     RHUMB_VIEW_BIT(RHUMB_VIEW_V) | RHUMB_VIEW_BIT(RHUMB_VIEW_O) | views[i];
        info.dtype[RHUMB_VIEW_K] = info.dtype[RHUMB_VIEW_V] = i == 0 ? RHUMB_Q8_0 : RHUMB_F16;
        snprintf(what, sizeof what, "attention %s", names[i]);
        compile(context, family, what, &info);
    }
}

/* Views of one dtype, but for the scalar of PROJECT, which is f32. */
static void compile_table(rhumb_context *context, const char *family, const char *kernel,
                          rhumb_dtype dtype, uint32_t views, rhumb_plan_info *info)
{
    char what[128];
    info->views = views;
    for (uint32_t id = 0; id < RHUMB_VIEW_COUNT; id++) {
        if ((views >> id & 1u) && id != RHUMB_VIEW_TABLE_SCALAR) {
            info->dtype[id] = dtype;
        }
    }
    snprintf(what, sizeof what, "%s %s", kernel, harness_dtype_name(dtype));
    compile(context, family, what, info);
}

static void compile_resize(rhumb_context *context, const char *family, rhumb_dtype dtype)
{
    static const char *const names[] = {"resize bicubic", "resize bilinear", "resize geometric",
                                        "resize bicubic antialias"};
    rhumb_resize resize;
    rhumb_plan_info info;
    for (uint32_t i = 0; i < 4; i++) {
        rhumb_init_resize(&resize);
        resize.mode = (rhumb_resize_mode)(i % 3);
        resize.antialias = i == 3;
        resize.old_grid[0] = resize.old_grid[1] = 37;
        resize.new_grid[0] = 13;
        resize.new_grid[1] = 17;
        rhumb_init_plan_info(&info, RHUMB_OP_RESIZE);
        info.scheme = &resize;
        info.head_dim = 768;
        compile_table(context, family, names[i], dtype,
                      RHUMB_VIEW_BIT(RHUMB_VIEW_TABLE) | RHUMB_VIEW_BIT(RHUMB_VIEW_Y), &info);
    }
}

static void compile_project(rhumb_context *context, const char *family, rhumb_dtype dtype)
{
    const uint32_t views = RHUMB_VIEW_BIT(RHUMB_VIEW_X) | RHUMB_VIEW_BIT(RHUMB_VIEW_WEIGHT) |
                           RHUMB_VIEW_BIT(RHUMB_VIEW_OFFSET) | RHUMB_VIEW_BIT(RHUMB_VIEW_Y);
    const uint32_t fold = RHUMB_VIEW_BIT(RHUMB_VIEW_TABLE_SCALAR) |
                          RHUMB_VIEW_BIT(RHUMB_VIEW_CONTENT_BIAS) |
                          RHUMB_VIEW_BIT(RHUMB_VIEW_POSITION_BIAS);
    rhumb_swin_v2 swin;
    rhumb_plan_info info;
    rhumb_init_plan_info(&info, RHUMB_OP_PROJECT);
    info.heads = 10;
    info.head_dim = 41;
    info.value_dim = 410;
    info.max_q_length = 1024;
    compile_table(context, family, "project with the scalar", dtype, views | fold, &info);
    info.weight_layout = RHUMB_WEIGHT_IN_OUT;
    compile_table(context, family, "project by columns", dtype, views, &info);
    rhumb_init_swin_v2(&swin);
    swin.window[0] = swin.window[1] = 8;
    rhumb_init_plan_info(&info, RHUMB_OP_PROJECT);
    info.scheme = &swin;
    info.heads = 12;
    info.head_dim = info.max_q_length = 1;
    compile_table(context, family, "project of a continuous bias", dtype, views, &info);
}

/* The views of one of four schemes that between them have every term. */
static const struct scheme_row {
    const char *name;
    uint32_t type;
    uint32_t views;
} scheme_rows[] = {
    {"plain", 0, RHUMB_VIEW_BIT(RHUMB_VIEW_MASK)},
    {"shaw", RHUMB_TYPE_SHAW,
     RHUMB_VIEW_BIT(RHUMB_VIEW_QUERY_TABLE) | RHUMB_VIEW_BIT(RHUMB_VIEW_KEY_TABLE) |
         RHUMB_VIEW_BIT(RHUMB_VIEW_VALUE_TABLE)},
    {"t5", RHUMB_TYPE_T5,
     RHUMB_VIEW_BIT(RHUMB_VIEW_TABLE) | RHUMB_VIEW_BIT(RHUMB_VIEW_ROW_SCALE)},
    {"alibi", RHUMB_TYPE_ALIBI, 0},
    {"xlnet", RHUMB_TYPE_XLNET,
     RHUMB_VIEW_BIT(RHUMB_VIEW_QUERY_TABLE) | RHUMB_VIEW_BIT(RHUMB_VIEW_CONTENT_BIAS) |
         RHUMB_VIEW_BIT(RHUMB_VIEW_POSITION_BIAS) | RHUMB_VIEW_BIT(RHUMB_VIEW_SEGMENT_BIAS) |
         RHUMB_VIEW_BIT(RHUMB_VIEW_SEGMENT_TABLE) | RHUMB_VIEW_BIT(RHUMB_VIEW_SEGMENTS_Q) |
         RHUMB_VIEW_BIT(RHUMB_VIEW_SEGMENTS_K)},
    {"swin_v2", RHUMB_TYPE_SWIN_V2,
     RHUMB_VIEW_BIT(RHUMB_VIEW_TABLE) | RHUMB_VIEW_BIT(RHUMB_VIEW_HEAD_SCALE)},
};

static const void *scheme_of(uint32_t type)
{
    static rhumb_shaw shaw;
    static rhumb_t5 t5;
    static rhumb_alibi alibi;
    static rhumb_xlnet xlnet;
    static rhumb_swin_v2 swin;
    rhumb_init_shaw(&shaw);
    rhumb_init_t5(&t5);
    rhumb_init_alibi(&alibi);
    rhumb_init_xlnet(&xlnet);
    rhumb_init_swin_v2(&swin);
    swin.window[0] = swin.window[1] = 7;
    swin.grid[0] = swin.grid[1] = 56;
    swin.shift[0] = swin.shift[1] = 3;
    switch (type) {
    case RHUMB_TYPE_SHAW: return &shaw;
    case RHUMB_TYPE_T5: return &t5;
    case RHUMB_TYPE_ALIBI: return &alibi;
    case RHUMB_TYPE_XLNET: return &xlnet;
    case RHUMB_TYPE_SWIN_V2: return &swin;
    default: return NULL;
    }
}

/* SCORES where `scores`, else ATTENTION in the form that is chosen, and unfused with both stages. */
static void compile_scheme(rhumb_context *context, const char *family,
                           const struct scheme_row *row, bool scores, rhumb_dtype dtype)
{
    rhumb_plan_info info;
    char what[128];
    rhumb_init_plan_info(&info, scores ? RHUMB_OP_SCORES : RHUMB_OP_ATTENTION);
    info.scheme = scheme_of(row->type);
    info.heads = 12;
    info.head_dim = 64;
    info.max_q_length = 56 * 56;
    info.views = row->views | RHUMB_VIEW_BIT(RHUMB_VIEW_Q) | RHUMB_VIEW_BIT(RHUMB_VIEW_K) |
                 RHUMB_VIEW_BIT(RHUMB_VIEW_O);
    if (scores)
        info.views &=
            ~(RHUMB_VIEW_BIT(RHUMB_VIEW_MASK) | RHUMB_VIEW_BIT(RHUMB_VIEW_VALUE_TABLE));
    else
        info.views |= RHUMB_VIEW_BIT(RHUMB_VIEW_V);
    for (uint32_t id = 0; id < RHUMB_MAX_VIEWS; id++)
        if (id != RHUMB_VIEW_WORKSPACE && id != RHUMB_VIEW_ROW_SCALE &&
            !(RHUMB_INTEGER_VIEWS >> id & 1u))
            info.dtype[id] = dtype;
    snprintf(what, sizeof what, "%s %s %s", scores ? "scores" : "attention", row->name,
             harness_dtype_name(dtype));
    compile(context, family, what, &info);
    if (scores)
        return;
    info.variant = RHUMB_VARIANT_UNFUSED;
    info.views |= RHUMB_VIEW_BIT(RHUMB_VIEW_WORKSPACE);
    snprintf(what, sizeof what, "unfused %s %s", row->name, harness_dtype_name(dtype));
    compile(context, family, what, &info);
}

static void compile_relative(rhumb_context *context, const char *family)
{
    for (size_t i = 0; i < sizeof scheme_rows / sizeof scheme_rows[0]; i++) {
        compile_scheme(context, family, &scheme_rows[i], true, dtypes[i % 3]);
        compile_scheme(context, family, &scheme_rows[i], false, dtypes[(i + 1) % 3]);
    }
}

/* Decode with a bias, all that is around logits, and keys in slices; 8 rows a kv head. */
static void compile_decode(rhumb_context *context, const char *family, uint32_t head_dim,
                           uint32_t type, rhumb_dtype dtype)
{
    rhumb_plan_info info;
    char what[128];
    rhumb_init_plan_info(&info, RHUMB_OP_ATTENTION);
    info.scheme = scheme_of(type);
    info.heads = 32;
    info.kv_heads = 4;
    info.head_dim = head_dim;
    info.max_q_length = 1;
    info.max_k_length = 16384;
    info.views = RHUMB_VIEW_BIT(RHUMB_VIEW_Q) | RHUMB_VIEW_BIT(RHUMB_VIEW_K) |
                 RHUMB_VIEW_BIT(RHUMB_VIEW_V) | RHUMB_VIEW_BIT(RHUMB_VIEW_O) |
                 RHUMB_VIEW_BIT(RHUMB_VIEW_MASK) | RHUMB_VIEW_BIT(RHUMB_VIEW_SINKS) |
                 RHUMB_VIEW_BIT(RHUMB_VIEW_LSE) | RHUMB_VIEW_BIT(RHUMB_VIEW_LENGTHS) |
                 RHUMB_VIEW_BIT(RHUMB_VIEW_WORKSPACE);
    if (type == RHUMB_TYPE_T5)
        info.views |= RHUMB_VIEW_BIT(RHUMB_VIEW_TABLE) | RHUMB_VIEW_BIT(RHUMB_VIEW_ROW_SCALE);
    for (uint32_t id = RHUMB_VIEW_Q; id <= RHUMB_VIEW_O; id++)
        info.dtype[id] = dtype;
    snprintf(what, sizeof what, "decode D%u %s, scheme type %u", head_dim,
             harness_dtype_name(dtype), type);
    compile(context, family, what, &info);
}

static void compile_combine(rhumb_context *context, const char *family, rhumb_dtype dtype)
{
    rhumb_plan_info info;
    char what[128];
    rhumb_init_plan_info(&info, RHUMB_OP_COMBINE);
    info.heads = 32;
    info.value_dim = 128;
    info.max_q_length = 16;
    info.views = RHUMB_VIEW_BIT(RHUMB_VIEW_PARTS) | RHUMB_VIEW_BIT(RHUMB_VIEW_PART_LSE) |
                 RHUMB_VIEW_BIT(RHUMB_VIEW_O) | RHUMB_VIEW_BIT(RHUMB_VIEW_LSE);
    info.dtype[RHUMB_VIEW_PARTS] = info.dtype[RHUMB_VIEW_O] = dtype;
    snprintf(what, sizeof what, "combine %s", harness_dtype_name(dtype));
    compile(context, family, what, &info);
}

/* BIAS by distance, by slope and by window. */
static void compile_bias(rhumb_context *context, const char *family)
{
    static const uint32_t types[] = {RHUMB_TYPE_T5, RHUMB_TYPE_ALIBI, RHUMB_TYPE_SWIN_V2};
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        rhumb_plan_info info;
        char what[128];
        rhumb_init_plan_info(&info, RHUMB_OP_BIAS);
        info.scheme = scheme_of(types[i]);
        info.heads = 12;
        info.head_dim = 64;
        info.max_q_length = 49;
        info.views = RHUMB_VIEW_BIT(RHUMB_VIEW_O);
        if (types[i] != RHUMB_TYPE_ALIBI)
            info.views |= RHUMB_VIEW_BIT(RHUMB_VIEW_TABLE);
        if (types[i] != RHUMB_TYPE_SWIN_V2)
            info.views |= RHUMB_VIEW_BIT(RHUMB_VIEW_POSITIONS_Q) |
                          RHUMB_VIEW_BIT(RHUMB_VIEW_POSITIONS_K) |
                          RHUMB_VIEW_BIT(RHUMB_VIEW_LENGTHS);
        info.dtype[RHUMB_VIEW_O] = info.dtype[RHUMB_VIEW_TABLE] = dtypes[i];
        snprintf(what, sizeof what, "bias of scheme type %u %s", types[i],
                 harness_dtype_name(dtypes[i]));
        compile(context, family, what, &info);
    }
}

static void compile_all(rhumb_context *context, const char *family)
{
    static const uint32_t head_dims[] = {64, 80, 96, 128, 256};
    compile_rotate(context, family);
    compile_append(context, family);
    compile_schemes(context, family);
    compile_relative(context, family);
    compile_bias(context, family);
    compile_encode(context, family);
    for (size_t t = 0; t < 3; t++) {
        compile_resize(context, family, dtypes[t]);
        compile_project(context, family, dtypes[t]);
        compile_combine(context, family, dtypes[t]);
        compile_layouts(context, family, (rhumb_variant)(RHUMB_VARIANT_GENERIC + t));
        compile_decode(context, family, 64, RHUMB_TYPE_T5, dtypes[t]);
        compile_decode(context, family, 128, RHUMB_TYPE_ALIBI, dtypes[t]);
        compile_attention(context, family, 40, RHUMB_VARIANT_GENERIC, dtypes[t], t == 0);
        for (size_t d = 0; d < sizeof head_dims / sizeof head_dims[0]; d++) {
            compile_attention(context, family, head_dims[d], RHUMB_VARIANT_TILE, dtypes[t], false);
            compile_attention(context, family, head_dims[d], RHUMB_VARIANT_DECODE, dtypes[t],
                              false);
        }
    }
    compile_attention(context, family, 128, RHUMB_VARIANT_TILE, RHUMB_F16, true);
    compile_attention(context, family, 128, RHUMB_VARIANT_DECODE, RHUMB_F16, true);
}

static void run_family(const char *family)
{
    rhumb_context *context = radv_open(family);
    compile_all(context, family);
    cr_expect_geq(radv_look()->pipelines, 90);
    radv_close();
}

Test(null_hardware, every_kernel_compiles_without_spills_for_navi31)
{
    run_family("navi31");
}

Test(null_hardware, every_kernel_compiles_without_spills_for_navi21)
{
    run_family("navi21");
}

Test(null_hardware, every_kernel_compiles_without_spills_for_polaris10)
{
    run_family("polaris10");
}
