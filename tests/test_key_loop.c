/* The tile form with every combination of terms that schemes have, as RADV compiles it for GPUs
 * that are not there: no spill, and few vector instructions in the loop over keys. */
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
#define KEYS_AND_ROWS 16.0 /* pairs of a lane in a step */
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

/* Each of its steps may have hidden keys. */
static bool is_masked(const struct loop_row *row)
{
    return row->views & VIEW(MASK);
}

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

/* ---- The key loop: the longest way back to a label of the assembly. Of the way through it that
 * blocks take whose keys are all visible, without a cap, instructions are counted block by block,
 * times the rounds of the loops around them. Loops are known by what they do. */
#define MOST_BLOCKS 2048

typedef struct block {
    uint32_t number; /* of its label */
    uint32_t vector; /* instructions of vector ALUs, two for a dual one */
    uint32_t multiply_adds;
    uint32_t selects;
    uint32_t loads; /* from global memory */
    uint32_t shared_loads;
    uint32_t shared_stores;
    uint32_t back; /* first block of the loop that ends here; else the next block */
} block;

typedef struct listing {
    block blocks[MOST_BLOCKS];
    uint32_t count;
} listing;

static bool starts(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

static uint32_t block_of(const listing *l, uint32_t number)
{
    uint32_t i = 0;
    while (i < l->count && l->blocks[i].number != number)
        i++;
    return i;
}

static void read_instruction(listing *l, const char *text)
{
    block *b = &l->blocks[l->count - 1];
    const char *target = strstr(text, "BB");
    bool dual = starts(text, "v_dual_");
    uint32_t number;
    b->vector += dual ? 2 : starts(text, "v_");
    for (const char *at = text; (at = strstr(at, "fma")) != NULL; at++)
        b->multiply_adds++;
    for (const char *at = text; (at = strstr(at, "v_mac_")) != NULL; at++)
        b->multiply_adds++;
    b->selects += strstr(text, "cndmask") != NULL;
    b->loads += starts(text, "buffer_load");
    b->shared_loads += starts(text, "ds_load") || starts(text, "ds_read");
    if (starts(text, "ds_store") || starts(text, "ds_write"))
        b->shared_stores += strstr(text, "2addr") != NULL || strstr(text, "write2") != NULL ? 2 : 1;
    if ((starts(text, "s_branch") || starts(text, "s_cbranch")) && target != NULL &&
        sscanf(target, "BB%u", &number) == 1 && block_of(l, number) < b->back)
        b->back = block_of(l, number);
}

static void read_listing(listing *l, const char *assembly)
{
    memset(l, 0, sizeof *l);
    for (const char *line = assembly; line != NULL && *line != '\0'; line = strchr(line, '\n')) {
        char text[160];
        uint32_t number;
        line += *line == '\n';
        snprintf(text, sizeof text, "%.*s", (int)strcspn(line, ";\n"), line);
        if (sscanf(text, "BB%u:", &number) == 1 && l->count < MOST_BLOCKS) {
            l->blocks[l->count] = (block){.number = number, .back = l->count + 1};
            l->count++;
        } else if (l->count > 0 && text[0] == '\t') {
            read_instruction(l, text + 1);
        }
    }
}

static bool ends_loop(const listing *l, uint32_t i)
{
    return l->blocks[i].back <= i;
}

static block sum_of(const listing *l, uint32_t first, uint32_t last)
{
    block sum = {0};
    for (uint32_t i = first; i <= last; i++) {
        sum.vector += l->blocks[i].vector;
        sum.multiply_adds += l->blocks[i].multiply_adds;
        sum.selects += l->blocks[i].selects;
        sum.loads += l->blocks[i].loads;
        sum.shared_loads += l->blocks[i].shared_loads;
        sum.shared_stores += l->blocks[i].shared_stores;
    }
    return sum;
}

static bool is_innermost(const listing *l, uint32_t last)
{
    for (uint32_t i = l->blocks[last].back; i < last; i++)
        if (ends_loop(l, i) && l->blocks[i].back > l->blocks[last].back)
            return false;
    return true;
}

/* What a lane stages in the loops that do, in their order. */
typedef struct staging {
    uint32_t quads[16];
    uint32_t count;
    uint32_t next;
} staging;

static staging staging_of(const struct loop_row *row, const rhumb_plan_properties *p,
                          uint32_t loops)
{
    const uint32_t slots = p->rows_per_group + p->keys_per_step;
    const uint32_t quads = HEAD_DIM / 4;
    const bool a = row->views & VIEW(QUERY_TABLE), c = row->views & VIEW(KEY_TABLE);
    const bool v = row->views & VIEW(VALUE_TABLE), mask = is_masked(row);
    const uint32_t chunks = loops > 2u + a + c + v + mask ? 2 : 1;
    staging s = {0};
    if (chunks > 1)
        s.quads[s.count++] = p->rows_per_group * quads / p->invocations;
    s.quads[s.count++] = p->keys_per_step * quads / p->invocations;
    for (uint32_t i = 0; i < (uint32_t)a + c; i++)
        s.quads[s.count++] = slots * quads / p->invocations;
    if (mask)
        s.quads[s.count++] = (uint32_t)KEYS_AND_ROWS;
    for (uint32_t i = 0; i < chunks; i++) {
        s.quads[s.count++] = p->keys_per_step * quads / p->invocations / chunks;
        if (v)
            s.quads[s.count++] = slots * quads / p->invocations / chunks;
    }
    return s;
}

static bool stages(const block *loop)
{
    return loop->loads > 0 && loop->loads == loop->shared_stores && loop->multiply_adds == 0;
}

/* Vector instructions of one round of the key loop. */
static double count_loop(const listing *l, const struct loop_row *row,
                         const rhumb_plan_properties *p)
{
    uint32_t end = 0, loops = 0;
    double total;
    for (uint32_t i = 0; i < l->count; i++)
        if (ends_loop(l, i) && (!ends_loop(l, end) ||
                                i - l->blocks[i].back > end - l->blocks[end].back))
            end = i;
    const uint32_t start = l->blocks[end].back;
    total = sum_of(l, start, end).vector;
    for (uint32_t i = start; i < end; i++) {
        block loop = {0};
        if (ends_loop(l, i) && is_innermost(l, i))
            loop = sum_of(l, l->blocks[i].back, i);
        loops += stages(&loop);
    }
    staging staged = staging_of(row, p, loops);
    cr_expect_eq(loops, staged.count, "%s: %u loops that stage, wanted %u", row->name, loops,
                 staged.count);
    for (uint32_t i = start; i < end; i++) {
        if (!ends_loop(l, i) || !is_innermost(l, i))
            continue;
        const uint32_t first = l->blocks[i].back;
        const block loop = sum_of(l, first, i);
        double rounds = 1.0;
        uint32_t parts = 0;
        for (uint32_t n = first; n <= i; n++)
            parts += l->blocks[n].multiply_adds > 0;
        if (stages(&loop) && staged.next < staged.count)
            rounds = (double)staged.quads[staged.next++] / loop.loads;
        else if (loop.shared_stores > 0 && loop.loads == 0) /* the cap */
            rounds = 0.0;
        else if (parts > 1) { /* V's table: a row for each slot, a product for each key */
            const double slots = p->keys_per_step + 24.0;
            for (uint32_t n = first; n <= i; n++)
                total += l->blocks[n].vector *
                         (l->blocks[n].multiply_adds > 0 ? (double)p->keys_per_step : slots);
            rounds = 0.0;
        } else if (loop.multiply_adds == 0 && loop.loads == 0 && loop.shared_loads > 0)
            /* looks for what is not finite in V, where keys are hidden */
            rounds = is_masked(row) ? p->keys_per_step * HEAD_DIM / 4.0 / p->invocations : 0.0;
        else if (loop.multiply_adds >= 64) /* of channels, 8 at a time */
            rounds = HEAD_DIM / 8.0;
        else if (loop.multiply_adds >= 16) /* of keys; those of blocks with hidden ones select */
            rounds = 2 * loop.selects >= loop.multiply_adds ? 0.0 : p->keys_per_step;
        else if (loop.multiply_adds > 0) /* w - u, a quad at a time */
            rounds = HEAD_DIM / 4.0;
        else if (loop.loads > 0) /* search among the edges */
            rounds = 6.0;
        total += (rounds - 1.0) * loop.vector;
    }
    return total;
}

/* Vector instructions a useful multiply-add, where the loop is counted. */
static double compile(rhumb_context *context, const struct loop_row *row, uint32_t head_dim,
                      rhumb_dtype dtype, bool counted)
{
    static listing l;
    scheme_struct scheme;
    rhumb_plan_info info;
    rhumb_plan_properties properties;
    rhumb_plan *plan = NULL;
    uint64_t spilled = radv_look()->spilled;
    double count;
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
    rhumb_init_plan_properties(&properties);
    cr_expect_eq(rhumb_get_plan_properties(plan, &properties), RHUMB_OK);
    spilled = radv_look()->spilled - spilled;
    cr_expect_eq(spilled, 0, "%s D%u spills registers or uses scratch memory (%llu)", row->name,
                 head_dim, (unsigned long long)spilled);
    printf("%s D%u:%s\n", row->name, head_dim, radv_look()->line);
    if (counted)
        read_listing(&l, radv_look()->assembly);
    count = counted ? count_loop(&l, row, &properties) : 0.0;
    rhumb_destroy_plan(plan);
    return count / (HEAD_DIM * row->products * KEYS_AND_ROWS);
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
    rhumb_destroy_context(context);
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
