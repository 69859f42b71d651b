/* What plans of attention say that they cost, and how many pipelines the layers of a model take. */
#include "harness.h"

#include <criterion/criterion.h>
#include <stdio.h>

#define V(name) RHUMB_VIEW_BIT(RHUMB_VIEW_##name)
#define BASE (V(Q) | V(K) | V(V) | V(O))
#define HEADS 8u
#define DIM 64u
#define COUNT(array) (sizeof(array) / sizeof(array)[0])

typedef union any_scheme {
    rhumb_shaw shaw;
    rhumb_music_transformer music;
    rhumb_t5 t5;
    rhumb_alibi alibi;
    rhumb_kerple kerple;
    rhumb_transformer_xl xl;
    rhumb_xlnet xlnet;
    rhumb_deberta deberta;
    rhumb_swin swin;
    rhumb_swin_v2 swin_v2;
} any_scheme;

static void shaw(any_scheme *s) { rhumb_init_shaw(&s->shaw); }
static void music(any_scheme *s)
{
    rhumb_init_music_transformer(&s->music);
    s->music.max_relative_position = 8192;
}
static void t5(any_scheme *s) { rhumb_init_t5(&s->t5); }
static void alibi(any_scheme *s) { rhumb_init_alibi(&s->alibi); }
static void kerple(any_scheme *s) { rhumb_init_kerple(&s->kerple); }
static void xl(any_scheme *s) { rhumb_init_transformer_xl(&s->xl); }
static void xlnet(any_scheme *s) { rhumb_init_xlnet(&s->xlnet); }
static void deberta(any_scheme *s) { rhumb_init_deberta(&s->deberta); }

/* `more`: multiply-adds of a pair and channel beside q . k and P . v. */
static const struct scheme_row {
    const char *name;
    void (*init)(any_scheme *s);
    uint32_t views;
    uint64_t more;
} schemes[] = {
    {"none", NULL, 0, 0},
    {"shaw", shaw, V(QUERY_TABLE) | V(VALUE_TABLE), 2},
    {"music_transformer", music, V(QUERY_TABLE), 1},
    {"t5", t5, V(TABLE), 0},
    {"alibi", alibi, 0, 0},
    {"kerple", kerple, V(TABLE), 0},
    {"transformer_xl", xl, V(QUERY_TABLE) | V(CONTENT_BIAS) | V(POSITION_BIAS), 1},
    {"xlnet", xlnet,
     V(QUERY_TABLE) | V(CONTENT_BIAS) | V(POSITION_BIAS) | V(SEGMENT_BIAS) | V(SEGMENT_TABLE) |
         V(SEGMENTS_Q) | V(SEGMENTS_K),
     1},
    {"deberta", deberta, V(QUERY_TABLE) | V(KEY_TABLE), 2},
};

static void make_info(rhumb_plan_info *info, const struct scheme_row *row, any_scheme *scheme,
                      uint32_t length)
{
    rhumb_init_plan_info(info, RHUMB_OP_ATTENTION);
    info->heads = HEADS;
    info->head_dim = DIM;
    info->max_q_length = length;
    info->views = BASE | row->views;
    if (row->init != NULL) {
        row->init(scheme);
        info->scheme = scheme;
    }
}

static void query(harness *h, const char *name, const rhumb_plan_info *info,
                  rhumb_plan_properties *properties)
{
    rhumb_init_plan_properties(properties);
    h->cases++;
    cr_expect_eq(rhumb_query_plan(h->g->context, info, properties), RHUMB_OK, "%s: %s", name,
                 rhumb_last_message(h->g->context));
}

/* Also where the host offers one. */
static void expect_no_workspace(harness_profile profile)
{
    static const uint32_t lengths[] = {512, 2048, 8192};
    rhumb_plan_properties p;
    rhumb_plan_info info;
    any_scheme scheme;
    harness h;
    harness_open(&h, profile);
    for (size_t i = 0; i < COUNT(schemes); i++) {
        printf("%-18s", schemes[i].name);
        for (size_t n = 0; n < COUNT(lengths); n++) {
            make_info(&info, &schemes[i], &scheme, lengths[n]);
            query(&h, schemes[i].name, &info, &p);
            cr_expect_eq(p.workspace_size, 0, "%s: %llu", schemes[i].name,
                         (unsigned long long)p.workspace_size);
            info.views |= V(WORKSPACE);
            query(&h, schemes[i].name, &info, &p);
            cr_expect_eq(p.workspace_size, 0, "%s: %llu", schemes[i].name,
                         (unsigned long long)p.workspace_size);
            cr_expect_neq(p.variant, RHUMB_VARIANT_UNFUSED);
            printf(" L %u: %llu bytes", lengths[n], (unsigned long long)p.workspace_size);
        }
        printf("  (%s)\n", p.reason);
    }
    harness_close(&h);
}

Test(costs, no_scheme_wants_a_workspace_for_many_rows_on_lavapipe)
{
    expect_no_workspace(HARNESS_LAVAPIPE);
}

Test(costs, no_scheme_wants_a_workspace_for_many_rows_on_the_smallest_device)
{
    expect_no_workspace(HARNESS_LAVAPIPE_FLOOR);
}

Test(costs, operations_and_bytes_are_those_of_the_scheme_s_terms)
{
    const uint64_t length = 1000;
    rhumb_plan_properties p;
    rhumb_plan_info info;
    any_scheme scheme;
    harness h;
    harness_open(&h, HARNESS_LAVAPIPE);
    for (size_t i = 0; i < COUNT(schemes); i++) {
        uint64_t bytes = 4 * length * HEADS * 4 * DIM; /* Q, K, V and O */
        const uint64_t of_table = 4 * HEADS * DIM;
        make_info(&info, &schemes[i], &scheme, (uint32_t)length);
        query(&h, schemes[i].name, &info, &p);
        cr_expect_eq(p.flops, length * length * HEADS * DIM * 2 * (2 + schemes[i].more),
                     "%s: %llu operations", schemes[i].name, (unsigned long long)p.flops);
        for (uint32_t id = RHUMB_VIEW_QUERY_TABLE; id <= RHUMB_VIEW_VALUE_TABLE; id++)
            bytes += schemes[i].views & RHUMB_VIEW_BIT(id) ? p.table_rows * of_table : 0;
        for (uint32_t id = RHUMB_VIEW_CONTENT_BIAS; id <= RHUMB_VIEW_SEGMENT_BIAS; id++)
            bytes += schemes[i].views & RHUMB_VIEW_BIT(id) ? of_table : 0;
        bytes += schemes[i].views & V(SEGMENT_TABLE) ? 2 * of_table : 0;
        bytes += schemes[i].views & V(TABLE) ? (uint64_t)4 * p.table_rows * HEADS : 0;
        cr_expect_eq(p.bytes, bytes, "%s: %llu bytes, want %llu", schemes[i].name,
                     (unsigned long long)p.bytes, (unsigned long long)bytes);
    }
    harness_close(&h);
}

/* Pairs are those inside windows. Unfused, each logit is written and read. */
Test(costs, windows_count_their_own_pairs_and_unfused_logits_are_counted)
{
    const uint64_t pairs = 4 * 49 * 49, tokens = 14 * 14;
    rhumb_plan_properties fused, unfused;
    rhumb_plan_info info;
    rhumb_swin swin;
    harness h;
    harness_open(&h, HARNESS_LAVAPIPE);
    rhumb_init_swin(&swin);
    swin.window[0] = swin.window[1] = 7;
    swin.grid[0] = swin.grid[1] = 14;
    rhumb_init_plan_info(&info, RHUMB_OP_ATTENTION);
    info.scheme = &swin;
    info.heads = HEADS;
    info.head_dim = 32;
    info.max_q_length = (uint32_t)tokens;
    info.views = BASE | V(TABLE);
    query(&h, "swin", &info, &fused);
    cr_expect_eq(fused.flops, pairs * HEADS * 32 * 4);
    cr_expect_eq(fused.bytes, 4 * tokens * HEADS * 4 * 32 + 4 * 169 * HEADS);
    info.variant = RHUMB_VARIANT_UNFUSED;
    info.views |= V(WORKSPACE);
    query(&h, "swin, unfused", &info, &unfused);
    cr_expect_eq(unfused.bytes, fused.bytes + 8 * pairs * HEADS);
    cr_expect_eq(unfused.flops, fused.flops);
    harness_close(&h);
}

typedef struct model_plan {
    uint32_t rows, views;
    bool t5;
} model_plan;

static void expect_twelve_pipelines(harness_profile profile, const model_plan *plans, size_t count)
{
    uint32_t pipelines = 0;
    rhumb_t5 scheme;
    harness h;
    harness_open(&h, profile);
    rhumb_init_t5(&scheme);
    for (size_t i = 0; i < count; i++) {
        rhumb_plan_properties p;
        rhumb_plan_info info;
        rhumb_init_plan_info(&info, RHUMB_OP_ATTENTION);
        info.scheme = plans[i].t5 ? &scheme : NULL;
        info.heads = 32;
        info.kv_heads = 8;
        info.head_dim = 128;
        info.max_q_length = plans[i].rows;
        info.max_k_length = 4096;
        info.views = plans[i].views | V(LENGTHS) | V(STATUS);
        query(&h, "model", &info, &p);
        printf("%u rows: %u pipelines (%s)\n", plans[i].rows, p.pipeline_count, p.reason);
        pipelines += p.pipeline_count;
    }
    cr_expect_leq(pipelines, 12, "%u pipelines", pipelines);
    harness_close(&h);
}

/* Prefill and decode; windows of other kinds of layers are no pipelines. */
Test(costs, a_decoder_with_sinks_takes_at_most_twelve_pipelines)
{
    static const model_plan plans[] = {{512, BASE | V(SINKS), false},
                                       {1, BASE | V(SINKS) | V(WORKSPACE), false}};
    expect_twelve_pipelines(HARNESS_LAVAPIPE, plans, COUNT(plans));
}

/* Encoder and decoder share a plan; cross-attention has no scheme. */
static void expect_of_encoder_and_decoder(harness_profile profile)
{
    static const model_plan plans[] = {{512, BASE | V(TABLE), true},
                                       {1, BASE | V(TABLE) | V(WORKSPACE), true},
                                       {512, BASE, false},
                                       {1, BASE | V(WORKSPACE), false}};
    expect_twelve_pipelines(profile, plans, COUNT(plans));
}

Test(costs, an_encoder_and_a_decoder_take_at_most_twelve_pipelines)
{
    expect_of_encoder_and_decoder(HARNESS_LAVAPIPE);
}

Test(costs, an_encoder_and_a_decoder_take_at_most_twelve_pipelines_without_addresses)
{
    expect_of_encoder_and_decoder(HARNESS_LAVAPIPE_FLOOR);
}
