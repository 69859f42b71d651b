/* `rhumb modules`: what it tells of pipelines against what plans and drivers say, and the reading
 * of AMD's machine code that it stands on. */
#include "gpu.h"

#include "command.h"
#include "isa.h"
#include "radv.h"

#include "rhumb_shared.h"

#include <cjson/cJSON.h>
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>

static const char *lavapipe(void)
{
    const char *icd = getenv("RHUMB_TEST_LAVAPIPE_ICD");
    cr_assert(icd != NULL && icd[0] != '\0', "RHUMB_TEST_LAVAPIPE_ICD is not set");
    return icd;
}

/* RADV warns of its null hardware on standard error. */
static command_output run(const char *icd, const char *family, const char *arguments)
{
    return command_run("{ VK_DRIVER_FILES='%s' VK_ICD_FILENAMES='%s' RADV_FORCE_FAMILY=%s "
                       "'%s/tools/rhumb' modules %s 2>/dev/null; }",
                       icd, icd, family, command_build_root(), arguments);
}

static cJSON *run_json(const char *icd, const char *family, const char *arguments)
{
    command_output output = run(icd, family, arguments);
    cJSON *object;
    cr_assert_eq(output.status, 0, "%s: status %d", arguments, output.status);
    for (size_t i = 0; i < output.size; i++) {
        if (output.text[i] == '\0') {
            output.text[i] = '\n';
        }
    }
    object = cJSON_Parse(output.text);
    cr_assert_not_null(object, "%s: no JSON: %s", arguments, output.text);
    command_free(&output);
    return object;
}

static double number(const cJSON *object, const char *name)
{
    const cJSON *item = cJSON_GetObjectItem(object, name);
    cr_assert(cJSON_IsNumber(item), "no number %s", name);
    return item->valuedouble;
}

static const cJSON *find_pipeline(const cJSON *object, const char *kernel)
{
    const cJSON *pipeline;
    cJSON_ArrayForEach(pipeline, cJSON_GetObjectItem(object, "pipelines"))
    {
        const char *name = cJSON_GetStringValue(cJSON_GetObjectItem(pipeline, "kernel"));
        if (name != NULL && strncmp(name, kernel, strlen(kernel)) == 0) {
            return pipeline;
        }
    }
    cr_assert_fail("no pipeline of %s", kernel);
    return NULL;
}

/* Attention of t5 as --scheme t5 --views table has it. */
static rhumb_plan_properties query(void)
{
    rhumb_plan_properties properties;
    rhumb_plan_info info;
    rhumb_t5 t5;
    gpu *g = NULL;
    char error[GPU_MESSAGE_SIZE] = "";
    setenv("VK_DRIVER_FILES", lavapipe(), 1);
    setenv("VK_ICD_FILENAMES", lavapipe(), 1);
    cr_assert_eq(gpu_open(NULL, &g, error, sizeof error), RHUMB_OK, "%s", error);
    rhumb_init_t5(&t5);
    rhumb_init_plan_info(&info, RHUMB_OP_ATTENTION);
    info.scheme = &t5;
    info.heads = 8;
    info.head_dim = 64;
    info.max_q_length = 512;
    info.views = RHUMB_VIEW_BIT(RHUMB_VIEW_Q) | RHUMB_VIEW_BIT(RHUMB_VIEW_K) |
                 RHUMB_VIEW_BIT(RHUMB_VIEW_V) | RHUMB_VIEW_BIT(RHUMB_VIEW_O) |
                 RHUMB_VIEW_BIT(RHUMB_VIEW_TABLE);
    rhumb_init_plan_properties(&properties);
    cr_assert_eq(rhumb_query_plan(g->context, &info, &properties), RHUMB_OK, "%s",
                 rhumb_last_message(g->context));
    gpu_close(g);
    return properties;
}

static void expect_bindings(const cJSON *pipeline, uint32_t slots)
{
    const cJSON *bindings = cJSON_GetObjectItem(pipeline, "bindings");
    cr_assert_eq(cJSON_GetArraySize(bindings), 3);
    for (int i = 0; i < 3; i++) {
        const cJSON *b = cJSON_GetArrayItem(bindings, i);
        cr_expect_eq(number(b, "binding"), i);
        cr_expect_eq(number(b, "count"), i == BINDING_MEMORY ? slots : 1);
        cr_expect_str_eq(cJSON_GetStringValue(cJSON_GetObjectItem(b, "type")),
                         i == BINDING_MEMORY ? "storage" : "dynamic uniform");
    }
}

Test(modules, agree_with_the_properties_of_the_plan_on_lavapipe)
{
    const rhumb_plan_properties properties = query();
    cJSON *object = run_json(lavapipe(), "",
                             "--scheme t5 --views table --dtype f16 --json --params "
                             "'{\"heads\": 8, \"head_dim\": 64}'");
    const cJSON *generic = find_pipeline(object, "attention_generic"), *pipeline, *table;
    const cJSON *broadcast = find_pipeline(object, "attention_broadcast");
    cr_expect_eq(cJSON_GetArraySize(cJSON_GetObjectItem(object, "pipelines")),
                 (int)properties.pipeline_count);
    cr_expect_eq(number(generic, "shared_bytes"), properties.shared_bytes);
    cr_expect_eq(number(generic, "invocations"), properties.invocations);
    cr_expect_eq(number(cJSON_GetObjectItem(broadcast, "constants"), "head_dim"), 64);
    cr_expect_null(cJSON_GetObjectItem(cJSON_GetObjectItem(broadcast, "constants"), "append"),
                   "a constant that the kernel lacks");
    table = cJSON_GetObjectItem(cJSON_GetObjectItem(generic, "views"), "table");
    cr_expect_eq(number(table, "slot"), properties.slot[RHUMB_VIEW_TABLE]);
    cr_expect_str_eq(cJSON_GetStringValue(cJSON_GetObjectItem(table, "dtype")), "f16");
    cJSON_ArrayForEach(pipeline, cJSON_GetObjectItem(object, "pipelines"))
    {
        cr_expect_eq(number(pipeline, "push_bytes"), 116);
        cr_expect_eq(number(pipeline, "push_bytes"), sizeof(struct rhumb_push));
        expect_bindings(pipeline, properties.slot_count);
    }
    cJSON_Delete(object);
}

/* Registers and no spills; of the loop what is sane, and what a recount gives. */
static void expect_machine_code(const char *family, double lanes, double most_vector)
{
    cJSON *object =
        run_json(radv_icd(), family, "--scheme none --isa --json --params '{\"head_dim\": 64}'");
    const cJSON *tile = find_pipeline(object, "attention_tile");
    const cJSON *e = cJSON_GetArrayItem(cJSON_GetObjectItem(tile, "executables"), 0);
    const cJSON *loop = cJSON_GetObjectItem(e, "key_loop");
    const cJSON *statistics = cJSON_GetObjectItem(e, "statistics");
    const double vector = number(loop, "vector_per_multiply_add");
    const double shared = number(loop, "shared_bytes_read_per_multiply_add");
    const double written = number(loop, "shared_bytes_written_per_multiply_add");
    cr_expect_eq(number(e, "registers"), number(statistics, "VGPRs"));
    cr_expect_gt(number(e, "registers"), 0);
    cr_expect_eq(number(e, "spills"), 0);
    cr_expect_eq(number(e, "lanes_of_a_wave"), lanes);
    cr_expect(number(e, "waves") > 0.0 &&
                  number(e, "waves") <= number(statistics, "Subgroups per SIMD"),
              "%s: %g waves", family, number(e, "waves"));
    cr_expect(cJSON_IsTrue(cJSON_GetObjectItem(loop, "inner_loops_followed")));
    cr_expect(vector > 1.0 && vector < most_vector, "%s: %g vector instructions", family, vector);
    /* 4 rows by 4 keys: 2 bytes for scores, (4 + 8) * 4 / 32 for values */
    cr_expect(shared > 1.75 && shared < 1.85, "%s: %g shared bytes read", family, shared);
    cr_expect(written > 0.05 && written < 0.15, "%s: %g written", family, written);
    cr_expect_eq(number(loop, "bytes_per_global_access"), 16);
    cr_expect_gt(number(loop, "barriers"), 0);
    cr_expect_not_null(strstr(cJSON_GetStringValue(cJSON_GetObjectItem(e, "isa")), "s_endpgm"));
    cJSON_Delete(object);
}

Test(modules, tell_registers_and_the_key_loop_of_navi31)
{
    expect_machine_code("navi31", 32, 1.40);
}

Test(modules, tell_registers_and_the_key_loop_of_polaris10)
{
    expect_machine_code("polaris10", 64, 1.60);
}

/* Both are bound by memory: what counts is a byte. */
Test(modules, count_the_decode_form_and_rotation_by_bytes)
{
    cJSON *object = run_json(radv_icd(), "navi31",
                             "--scheme none --dtype f16 --json --params '{\"variant\": \"decode\", "
                             "\"heads\": 32, \"kv_heads\": 8, \"head_dim\": 64, \"q_len\": 1}'");
    const cJSON *decode = find_pipeline(object, "attention_decode");
    const cJSON *e = cJSON_GetArrayItem(cJSON_GetObjectItem(decode, "executables"), 0);
    const cJSON *code = cJSON_GetObjectItem(e, "key_loop");
    cr_expect(cJSON_IsTrue(cJSON_GetObjectItem(code, "inner_loops_followed")));
    cr_expect(number(code, "vector_per_global_byte") > 2.5 &&
                  number(code, "vector_per_global_byte") <= 4.5,
              "%g", number(code, "vector_per_global_byte"));
    cr_expect_eq(number(code, "barriers"), 2);
    cJSON_Delete(object);

    object = run_json(radv_icd(), "navi31", "--scheme rope --op rotate --json");
    /* the second pipeline has vector accesses */
    const cJSON *rotate = cJSON_GetArrayItem(cJSON_GetObjectItem(object, "pipelines"), 1);
    e = cJSON_GetArrayItem(cJSON_GetObjectItem(rotate, "executables"), 0);
    code = cJSON_GetObjectItem(e, "code");
    cr_expect(number(code, "vector_per_global_byte") > 0.5 &&
                  number(code, "vector_per_global_byte") < 2.0,
              "%g", number(code, "vector_per_global_byte"));
    cJSON_Delete(object);
}

/* Every way that a head is cut has its own loops inside the key loop. */
Test(modules, follow_the_key_loop_of_every_head_size)
{
    static const uint32_t sizes[] = {80, 128, 256};
    static const char *const schemes[] = {
        "none", "shaw --views query_table,value_table",
        "deberta --views query_table,key_table"};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0] * 3; i++) {
        char arguments[200];
        snprintf(arguments, sizeof arguments, "--scheme %s --json --params '{\"head_dim\": %u}'",
                 schemes[i % 3], sizes[i / 3]);
        cJSON *object = run_json(radv_icd(), "navi31", arguments);
        const cJSON *tile = find_pipeline(object, "attention_tile");
        const cJSON *e = cJSON_GetArrayItem(cJSON_GetObjectItem(tile, "executables"), 0);
        const cJSON *loop = cJSON_GetObjectItem(e, "key_loop");
        const double vector = number(loop, "vector_per_multiply_add");
        printf("%s: %.3f\n", arguments, vector);
        cr_expect(cJSON_IsTrue(cJSON_GetObjectItem(loop, "inner_loops_followed")), "%s", arguments);
        cr_expect(vector > 1.0 && vector < 1.6, "%s: %g vector instructions", arguments, vector);
        cJSON_Delete(object);
    }
}

static void expect_text(const char *icd, const char *family, const char *needle,
                        const char *absent)
{
    command_output output = run(icd, family, "--scheme rope");
    bool found = false;
    cr_expect_eq(output.status, 0);
    for (const char *line = command_next(&output, NULL); line != NULL;
         line = command_next(&output, line)) {
        cr_expect_leq(strlen(line), 100u, "%s", line);
        cr_expect_null(strstr(line, absent), "%s", line);
        found = found || strstr(line, needle) != NULL;
    }
    cr_expect(found, "no line with \"%s\"", needle);
    command_free(&output);
}

Test(modules, fit_100_columns_and_say_what_the_device_does_not_tell)
{
    expect_text(lavapipe(), "", "no registers and no machine code", "key loop");
    expect_text(radv_icd(), "navi31", "vector instructions a multiply-add", "s_endpgm");
}

Test(modules, take_a_layer_of_a_model)
{
    char arguments[600];
    cJSON *object;
    snprintf(arguments, sizeof arguments,
             "--config '%s/tests/goldens/configs/chatglm3-6b.json' --op rotate --json",
             command_source_root());
    object = run_json(lavapipe(), "", arguments);
    cr_expect_str_eq(cJSON_GetStringValue(cJSON_GetObjectItem(object, "op")), "rotate");
    cr_expect_eq(number(cJSON_GetObjectItem(find_pipeline(object, "rotate"), "constants"),
                        "pairing"),
                 PAIRING_INTERLEAVED);
    cJSON_Delete(object);
}

Test(modules, refuse_wrong_arguments_with_one_line)
{
    static const struct {
        const char *arguments;
        int status;
        const char *needle;
    } rows[] = {
        {"", 2, "--config is required, or --scheme"},
        {"--scheme none --config x.json", 2, "either --config or --scheme, not both"},
        {"--scheme nope", 2, "--scheme wants none, rope"},
        {"--scheme none --op nope", 2, "--op wants rotate"},
        {"--config x.json --op bias", 2, "--op wants rotate or attention"},
        {"--scheme none --kind full", 2, "--kind goes with --config"},
        {"--scheme none --views q,nope", 2, "not \"nope\""},
        {"--scheme none --dtype i8", 2, "--dtype wants f32, f16 or bf16"},
        {"--scheme none --params '{\"nope\": 1}'", 2, "no parameter \"nope\""},
        {"--config x.json --params '{\"heads\": 1}'", 2, "are the model's"},
        {"--scheme none --ias", 2, "unknown argument \"--ias\""},
        {"--config nope.json", 1, "nope.json"},
        {"--scheme t5", 1, "views: wanted TABLE, found none"},
        {"--scheme none --device nonesuch", 1, "; rhumb devices lists them"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        command_output output =
            command_run("VK_DRIVER_FILES='%s' '%s/tools/rhumb' modules %s", lavapipe(),
                        command_build_root(), rows[i].arguments);
        const char *line = command_next(&output, NULL);
        cr_expect_eq(output.status, rows[i].status, "%s: status %d", rows[i].arguments,
                     output.status);
        cr_expect_eq(output.lines, 1u, "%s", rows[i].arguments);
        cr_expect(line != NULL && strncmp(line, "rhumb modules: ", 15) == 0 &&
                      strstr(line, rows[i].needle) != NULL,
                  "%s: %s", rows[i].arguments, line != NULL ? line : "");
        command_free(&output);
    }
}

/* --------------------------------------------------------------------------------------------- */
static const char listing[] =
    "BB0:\n"
    "\ts_load_b128 s[0:3], s[4:5], null                           ; f4040000\n"
    "\tbuffer_load_d16_b16 v1, v0, s[0:3], 0 offen                ; e0800000\n"
    "BB1:\n"
    "\tbuffer_load_b128 v[2:5], v0, s[0:3], 0 offen               ; e05c0000\n"
    "\tds_load_2addr_b32 v[6:7], v1 offset1:1                     ; d8dc0000\n"
    "\tds_store_b64 v1, v[2:3]                                    ; d9340000\n"
    "\ts_barrier                                                  ; bfbd0000\n"
    "\tv_dual_fmac_f32 v8, v2, v6 :: v_dual_fmac_f32 v9, v3, v7   ; c8000000\n"
    "\tv_cndmask_b32_e32 v8, v8, v9, vcc_lo                       ; 02101308\n"
    "\ts_cbranch_scc1 BB1                                         ; bfa20000\n"
    "BB2:\n"
    "\tglobal_store_b32 v0, v8, s[0:1]                            ; dc6a0000\n"
    "\ts_endpgm                                                   ; bfb00000\n";

Test(modules, read_instructions_of_amd_and_nothing_else)
{
    static isa_listing l;
    isa_loop loop;
    isa_count once;
    cr_assert(isa_read(listing, &l));
    cr_assert_eq(l.count, 3u);
    cr_expect_eq(l.blocks[1].back, 1u);
    once = isa_sum_without_loops(&l);
    cr_expect_eq(once.of[ISA_INSTRUCTIONS], 2 + 2);
    cr_expect_eq(once.of[ISA_GLOBAL_BYTES], 2 + 4);
    cr_expect_eq(once.of[ISA_STORES], 1);
    cr_assert(isa_key_loop(&l, NULL, &loop));
    cr_expect_eq(loop.count.of[ISA_INSTRUCTIONS], 7);
    cr_expect_eq(loop.multiply_adds, 2);
    cr_expect_eq(loop.count.of[ISA_VECTOR], 3, "a dual instruction counts two");
    cr_expect_eq(loop.count.of[ISA_SELECTS], 1);
    cr_expect_eq(loop.count.of[ISA_LOADS], 1);
    cr_expect_eq(loop.count.of[ISA_GLOBAL_BYTES], 16);
    cr_expect_eq(loop.count.of[ISA_SHARED_READ], 8);
    cr_expect_eq(loop.count.of[ISA_SHARED_WRITTEN], 8);
    cr_expect_eq(loop.count.of[ISA_BARRIERS], 1);
    cr_expect_not(isa_read("add(8) g2<1>F g3<8,8,1>F g4<8,8,1>F\n", &l));
    cr_expect_not(isa_read("", &l));
}

Test(modules, waves_follow_from_registers_and_shared_memory)
{
    uint32_t lanes = 0;
    cr_expect_eq(isa_waves("Null hardware (RADV NAVI31)", 132, 33792, 128, 32, &lanes), 3);
    cr_expect_eq(lanes, 32u);
    cr_expect_eq(isa_waves("Null hardware (RADV NAVI31)", 132, 0, 128, 32, &lanes), 11);
    cr_expect_eq(isa_waves("Null hardware (RADV NAVI31)", 132, 0, 128, 64, &lanes), 10);
    cr_expect_eq(isa_waves("Null hardware (RADV NAVI31)", 24, 0, 128, 32, &lanes), 16);
    cr_expect_eq(isa_waves("AMD Custom GPU 0405 (RADV VANGOGH)", 128, 0, 128, 32, &lanes), 8);
    cr_expect_eq(isa_waves("AMD RX 580 (RADV POLARIS10)", 64, 8192, 128, 64, &lanes), 4);
    cr_expect_eq(lanes, 64u);
    cr_expect_eq(isa_waves("AMD RX 580 (RADV POLARIS10)", 20, 0, 128, 64, &lanes), 10);
    cr_expect_eq(isa_waves("llvmpipe", 1, 1, 1, 1, &lanes), 0);
}
