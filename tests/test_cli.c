/* The rhumb tool as a user meets it: arguments, exit statuses, files in and out, and the example
 * host. */
#define _POSIX_C_SOURCE 200809L

#include "gpu.h"

#include "npy.h"
#include "reference.h"
#include "safetensors.h"
#include "verify.h"

#include <cjson/cJSON.h>
#include <criterion/criterion.h>

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#define OUTPUT_SIZE 262144u
#define LETTERS "abcdefghijklmnopqrstuvwxyz"

/* A folder of its own for each test, and what the last command said. */
typedef struct cli {
    char folder[512];
    char out[OUTPUT_SIZE]; /* stdout */
    char err[8192];        /* stderr */
} cli;

static cli c;

static const char *source_root(void)
{
    const char *root = getenv("RHUMB_TEST_SOURCE_ROOT");

    cr_assert(root != NULL,
              "RHUMB_TEST_SOURCE_ROOT is not set: run through meson test or meson devenv");
    return root;
}

static const char *build_root(void)
{
    const char *root = getenv("RHUMB_TEST_BUILD_ROOT");

    cr_assert(root != NULL,
              "RHUMB_TEST_BUILD_ROOT is not set: run through meson test or meson devenv");
    return root;
}

static void begin(void)
{
    const char *icd = getenv("RHUMB_TEST_LAVAPIPE_ICD");

    snprintf(c.folder, sizeof c.folder, "%s/test_cli.XXXXXX", build_root());
    cr_assert(mkdtemp(c.folder) != NULL);
    if (icd != NULL && icd[0] != '\0') {
        setenv("VK_DRIVER_FILES", icd, 1);
        setenv("VK_ICD_FILENAMES", icd, 1);
    }
}

static void end(void)
{
    char command[600];

    snprintf(command, sizeof command, "rm -r '%s'", c.folder);
    cr_expect_eq(system(command), 0);
}

TestSuite(cli, .init = begin, .fini = end, .timeout = 300);

static void slurp(const char *path, char *text, size_t size)
{
    FILE *file = fopen(path, "rb");
    size_t length;

    cr_assert(file != NULL, "%s", path);
    length = fread(text, 1, size - 1, file);
    text[length] = '\0';
    fclose(file);
}

/* "F" in the arguments stands for the test's folder (as "F/name"), "S" for the source's. */
static void expand(const char *arguments, char *text, size_t size)
{
    size_t length = 0;

    for (const char *p = arguments; *p != '\0' && length + 1 < size; p++) {
        const char *root = p[1] != '/' ? NULL
                           : *p == 'F' ? c.folder
                           : *p == 'S' ? source_root()
                                       : NULL;
        if (root != NULL)
            length += (size_t)snprintf(text + length, size - length, "%s", root);
        else
            text[length++] = *p;
        text[length < size ? length : size - 1] = '\0';
    }
}

/* Runs `program arguments` under the build folder; the exit status. */
static int run_program(const char *program, const char *arguments)
{
    char expanded[3000] = "";
    char command[6000];
    char path[600];
    int status;

    expand(arguments, expanded, sizeof expanded);
    snprintf(command, sizeof command, "'%s/%s' %s >'%s/.out' 2>'%s/.err' </dev/null", build_root(),
             program, expanded, c.folder, c.folder);
    status = system(command);
    snprintf(path, sizeof path, "%s/.out", c.folder);
    slurp(path, c.out, sizeof c.out);
    snprintf(path, sizeof path, "%s/.err", c.folder);
    slurp(path, c.err, sizeof c.err);
    cr_assert(WIFEXITED(status), "rhumb %s: ended by a signal", expanded);
    return WEXITSTATUS(status);
}

static int rhumb(const char *arguments)
{
    return run_program("tools/rhumb", arguments);
}

static bool exists(const char *name)
{
    char path[600];

    snprintf(path, sizeof path, "%s/%s", c.folder, name);
    return access(path, F_OK) == 0;
}

static unsigned lines_of(const char *text)
{
    unsigned count = 0;

    for (; *text != '\0'; text++)
        count += *text == '\n';
    return count;
}

static void expect_refusal(const char *arguments, int status, const char *needle)
{
    const int got = rhumb(arguments);

    cr_expect(got == status, "rhumb %s: wanted exit status %d, got %d: %s%s", arguments, status,
              got, c.out, c.err);
    cr_expect(lines_of(c.err) == 1, "rhumb %s: wanted one line, got: %s", arguments, c.err);
    cr_expect(strstr(c.err, needle) != NULL, "rhumb %s: wanted \"%s\" in: %s", arguments, needle,
              c.err);
    cr_expect(!exists("out.safetensors") && !exists("out.npy"), "rhumb %s: wrote a file",
              arguments);
}

static void expect_success(const char *arguments)
{
    const int got = rhumb(arguments);

    cr_assert(got == 0, "rhumb %s: exit status %d: %s%s", arguments, got, c.out, c.err);
    cr_expect(c.err[0] == '\0', "rhumb %s: stderr: %s", arguments, c.err);
}

static const char config_text[] =
    "{\"model_type\": \"llama\", \"architectures\": [\"LlamaForCausalLM\"], \"hidden_size\": 96,\n"
    " \"num_attention_heads\": 4, \"num_key_value_heads\": 2, \"max_position_embeddings\": 128,\n"
    " \"rope_theta\": 10000.0, \"rms_norm_eps\": 1e-5}\n";

static void write_text(const char *name, const char *text);
static void write_case(const char *name, const char *scheme, double wrong);

/* --------------------------------------------------------------------------------------------- */
Test(cli, help_and_version_go_to_stdout)
{
    static const char *const asked[] = {
        "--help", "-h", "check --help", "run --help", "devices --help", "describe --help",
        "modules --help", "bench --help"};

    for (size_t i = 0; i < sizeof asked / sizeof asked[0]; i++) {
        expect_success(asked[i]);
        cr_expect(strstr(c.out, "usage: rhumb") == c.out, "rhumb %s: %s", asked[i], c.out);
    }
    expect_success("--version");
    cr_expect(strncmp(c.out, "rhumb 0.1.0\n", 12) == 0, "%s", c.out);
}

Test(cli, wrong_arguments_are_one_line_and_status_2)
{
    cr_expect_eq(rhumb(""), 2);
    cr_expect(strstr(c.err, "usage: rhumb") == c.err);
    expect_refusal("chek", 2, "no command \"chek\"");
    expect_refusal("check --csaes x", 2, "unknown argument \"--csaes\"");
    expect_refusal("check extra", 2, "unknown argument \"extra\"");
    expect_refusal("check --cases", 2, "--cases wants a value");
    expect_refusal("check --cases=", 2, "--cases wants a value");
    expect_refusal("check --configs", 2, "--configs wants a value");
    expect_refusal("check --cases a --configs b", 2, "either --cases or --configs");
    expect_refusal("check --reference", 2, "--reference goes with --cases");
    expect_refusal("devices --jsn", 2, "unknown argument");
    expect_refusal("devices --device", 2, "--device wants a value");
    expect_refusal("bench --rounds 0", 2, "--rounds wants an integer");
    expect_refusal("bench --only no-such-row", 2, "no row matches \"no-such-row\"");
    expect_refusal("bench extra", 2, "unknown argument \"extra\"");
    expect_refusal("run", 2, "--config is required");
    expect_refusal("run --config S/x.json", 2, "one of --input and --random");
    expect_refusal("run --config S/x.json --random 4 --input a.npy", 2,
                   "either --input or --random, not both");
    expect_refusal("run --config S/x.json --input q.txt", 2, "--input wants");
    expect_refusal("run --config S/x.json --random 4 --output q.txt", 2, "--output wants");
    expect_refusal("run --config S/x.json --random 0", 2, "--random wants an integer");
    expect_refusal("run --config S/x.json --random 4x", 2, "not \"4x\"");
    expect_refusal("run --config S/x.json --random 99999999999999999999", 2,
                   "--random wants an integer");
    expect_refusal("run --config S/x.json --random 4 --op bias", 2,
                   "--op wants rotate or attention");
    expect_refusal("run --config S/x.json --random 4 --dtype f64", 2,
                   "--dtype wants f32, f16 or bf16");
    expect_refusal("run --config S/x.json --random 4 --op rotate --causal", 2,
                   "--causal goes with attention");
    expect_refusal("run --config S/x.json --random 4 --op rotate --offset -1", 2, "0 or more");
    expect_refusal("run --config S/x.json --random 4 --offset 2147483648", 2,
                   "--offset wants an integer");
}

Test(cli, a_device_that_is_not_there_is_status_1)
{
    expect_refusal("devices --device no-such-device", 1, "no-such-device");
    expect_refusal("devices --device 63", 1, "rhumb devices: ");
    expect_refusal("check --device no-such-device", 1, "no-such-device");
    expect_refusal("devices --device nonesuch", 1,
                   "rhumb devices: wanted a device with \"nonesuch\"");
    expect_refusal("check --device nonesuch", 1, "; rhumb devices lists them");
    expect_refusal("bench --device nonesuch", 1, "; rhumb devices lists them");
    expect_refusal("devices --json --device 63", 1, "wanted device 63");
    cr_expect(c.out[0] == '\0', "beside the error: %s", c.out);
}

Test(cli, results_that_cannot_be_written_are_status_1)
{
    static const char *const asked[] = {
        "--version",
        "--help",
        "run --help",
        "devices",
        "devices --json",
        "run --config F/config.json --random 4",
        "run --config F/config.json --random 4 --json",
        "describe F/config.json",
        "describe F/config.json --json",
        "modules --scheme none",
        "modules --scheme none --json",
        "bench --list",
        "bench --rounds 1 --only limits/dispatch",
        "bench --rounds 1 --only limits/dispatch --json",
        "check --cases F/right.safetensors --reference",
        "check --cases F/right.safetensors --reference --json",
        "check --configs S/tests/goldens/configs",
        "check --configs S/tests/goldens/configs --json",
    };
    char command[4000];
    char expanded[2000];
    char path[600];

    cr_assert_eq(access("/dev/full", W_OK), 0);
    write_text("config.json", config_text);
    write_case("right.safetensors", "rope", 0.0);
    snprintf(path, sizeof path, "%s/.err", c.folder);
    for (size_t i = 0; i < sizeof asked / sizeof asked[0]; i++) {
        expand(asked[i], expanded, sizeof expanded);
        snprintf(command, sizeof command, "'%s/tools/rhumb' %s >/dev/full 2>'%s'", build_root(),
                 expanded, path);
        const int status = system(command);
        slurp(path, c.err, sizeof c.err);
        cr_expect(WIFEXITED(status) && WEXITSTATUS(status) == 1, "rhumb %s: status %d", asked[i],
                  status);
        cr_expect(lines_of(c.err) == 1 && strstr(c.err, "could not be written") != NULL,
                  "rhumb %s: %s", asked[i], c.err);
    }
}

Test(cli, every_option_that_a_usage_line_shows_is_explained)
{
    static const char *const commands[] = {"check --help", "run --help", "devices --help",
                                           "describe --help", "modules --help",
                                           "bench --help"};

    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++) {
        expect_success(commands[i]);
        const char *body = strstr(c.out, "\n\n");
        cr_assert(body != NULL && strstr(body, "Exit status: 0 ") != NULL, "%s", c.out);
        for (const char *p = strstr(c.out, "--"); p != NULL && p < body; p = strstr(p + 2, "--")) {
            char wanted[64];
            snprintf(wanted, sizeof wanted, "\n  %.*s", (int)(2 + strspn(p + 2, LETTERS)), p);
            cr_expect(strstr(body, wanted) != NULL, "rhumb %s: no line for %s", commands[i],
                      wanted + 3);
        }
    }
}

Test(cli, devices_tells_the_variant_of_every_operation)
{
    cJSON *root;
    const cJSON *device;
    const cJSON *item;
    unsigned count = 0;

    expect_success("devices");
    cr_expect(strstr(c.out, "attention decode, head_dim 111") != NULL, "%s", c.out);
    expect_success("devices --floor --json");
    root = cJSON_Parse(c.out);
    cr_assert(cJSON_IsArray(root) && cJSON_GetArraySize(root) >= 1, "%s", c.out);
    device = cJSON_GetArrayItem(root, 0);
    cr_expect_eq(
        cJSON_GetObjectItem(cJSON_GetObjectItem(device, "limits"), "max_storage_buffers")->valueint,
        4);
    cJSON_ArrayForEach(item, cJSON_GetObjectItem(device, "operations")) {
        cr_expect(cJSON_GetObjectItem(item, "variant") != NULL &&
                      cJSON_GetObjectItem(item, "reason") != NULL,
                  "%s", c.out);
        count++;
    }
    cr_expect_eq(count, 13);
    cJSON_Delete(root);
}

/* --------------------------------------------------------------------------------------------- */
enum {
    B = 2,
    HEADS = 4,
    KV_HEADS = 2,
    ROWS = 7,
    DIM = 24,
};

static void write_text(const char *name, const char *text)
{
    char path[600];
    FILE *file;

    snprintf(path, sizeof path, "%s/%s", c.folder, name);
    file = fopen(path, "wb");
    cr_assert(file != NULL);
    cr_assert(fputs(text, file) >= 0);
    cr_assert_eq(fclose(file), 0);
}

static const char *in_folder(const char *name)
{
    static char path[600];

    snprintf(path, sizeof path, "%s/%s", c.folder, name);
    return path;
}

static void draw(tensor_list *list, const char *name, tensor_dtype dtype, uint64_t heads,
                 uint64_t rows, uint64_t seed)
{
    const uint64_t shape[4] = {B, heads, rows, DIM};
    tensor_error error;
    tensor *t = tensor_list_add(list, name, dtype, 4, shape, &error);

    cr_assert(t != NULL, "%s", error.line);
    tensor_fill_normal(t, seed);
}

/* config.json, and q, k, v in qkv.safetensors and (but for bf16) in three .npy files. */
static void write_inputs(tensor_dtype dtype)
{
    static const char *const names[] = {"q.npy", "k.npy", "v.npy"};
    tensor_list list = {0};
    tensor_error error;

    write_text("config.json", config_text);
    draw(&list, "q", dtype, HEADS, ROWS, 11);
    draw(&list, "k", dtype, KV_HEADS, ROWS, 12);
    draw(&list, "v", dtype, KV_HEADS, ROWS, 13);
    cr_assert_eq(safetensors_write(in_folder("qkv.safetensors"), &list, &error), 0, "%s",
                 error.line);
    for (size_t i = 0; i < 3 && dtype != TENSOR_BF16; i++)
        cr_assert_eq(npy_write(in_folder(names[i]), &list.items[i], &error), 0, "%s", error.line);
    tensor_list_free(&list);
}

static void read_file(const char *name, tensor_list *list)
{
    tensor_error error;

    memset(list, 0, sizeof *list);
    cr_assert_eq(safetensors_read(in_folder(name), list, &error), 0, "%s", error.line);
}

/* Q at its positions, in doubles; the caller frees. */
static double *rotated(const tensor *t, int32_t offset)
{
    double *x = tensor_doubles(t);
    int32_t positions[B * ROWS];
    ref_rope rope;

    cr_assert(x != NULL);
    ref_rope_init(&rope, DIM);
    ref_arange(B, ROWS, offset, positions);
    cr_assert_eq(ref_rotate(&rope, B, (uint32_t)t->shape[1], ROWS, DIM, positions, 0, x, x), 0);
    return x;
}

static void expect_rotated(const tensor *in, const tensor *out, int32_t offset)
{
    double *want = rotated(in, offset);
    verify_result v;

    cr_assert(out != NULL && out->count == in->count && out->rank == 4 && out->dtype == in->dtype);
    verify_compare((rhumb_dtype)out->dtype, out->data, want, out->count, 1.0, &v);
    cr_expect(v.pass, "element %llu: wanted %g, got %g, bound %g", (unsigned long long)v.index,
              v.want, v.got, v.bound);
    free(want);
}

Test(cli, rotate_writes_q_and_k_as_the_reference_has_them)
{
    static const tensor_dtype dtypes[] = {TENSOR_F32, TENSOR_F16, TENSOR_BF16};
    tensor_list in, out;

    for (size_t i = 0; i < 3; i++) {
        write_inputs(dtypes[i]);
        expect_success(
            "run --config F/config.json --input F/qkv.safetensors --output F/out.safetensors "
            "--op rotate --offset 5 --check");
        read_file("qkv.safetensors", &in);
        read_file("out.safetensors", &out);
        cr_assert_eq(out.count, 2);
        expect_rotated(tensor_list_find(&in, "q"), tensor_list_find(&out, "q"), 5);
        expect_rotated(tensor_list_find(&in, "k"), tensor_list_find(&out, "k"), 5);
        tensor_list_free(&in);
        tensor_list_free(&out);
    }
}

static void attend(const tensor_list *in, bool causal, double *o)
{
    double *k = rotated(tensor_list_find(in, "k"), 0);
    double *q = rotated(tensor_list_find(in, "q"), 0);
    double *v = tensor_doubles(tensor_list_find(in, "v"));
    ref_attention t;

    ref_attention_init(&t, B, HEADS, ROWS, ROWS, DIM);
    t.kv_heads = KV_HEADS;
    t.causal = causal;
    t.q = q;
    t.k = k;
    t.v = v;
    t.o = o;
    cr_assert_eq(ref_attend(&t), 0);
    free(q);
    free(k);
    free(v);
}

Test(cli, attention_is_the_reference_and_the_same_from_safetensors_and_npy)
{
    double want[B * HEADS * ROWS * DIM];
    tensor_list in, out, npy = {0};
    tensor_error error;
    const tensor *o;
    verify_result v;

    write_inputs(TENSOR_F32);
    read_file("qkv.safetensors", &in);
    for (int causal = 0; causal < 2; causal++) {
        char line[400];
        snprintf(line, sizeof line,
                 "run --config F/config.json --input F/qkv.safetensors --output F/out.safetensors "
                 "--check%s",
                 causal ? " --causal" : "");
        expect_success(line);
        read_file("out.safetensors", &out);
        o = tensor_list_find(&out, "o");
        cr_assert(o != NULL && out.count == 1 && o->count == sizeof want / sizeof want[0]);
        attend(&in, causal != 0, want);
        verify_compare(RHUMB_F32, o->data, want, o->count, 1.0, &v);
        cr_expect(v.pass, "causal %d, element %llu: wanted %g, got %g", causal,
                  (unsigned long long)v.index, v.want, v.got);
        if (causal) {
            expect_success(
                "run --config F/config.json --input F/q.npy,F/k.npy,F/v.npy --output F/out.npy "
                "--op attention --causal");
            cr_assert_eq(npy_read(in_folder("out.npy"), "o", &npy, &error), 0, "%s", error.line);
            cr_expect(npy.items[0].count == o->count &&
                      memcmp(npy.items[0].data, o->data, (size_t)tensor_bytes(o)) == 0);
        }
        tensor_list_free(&out);
    }
    tensor_list_free(&npy);
    tensor_list_free(&in);
}

Test(cli, names_with_in_give_names_with_out)
{
    tensor_list list = {0};
    tensor_error error;

    write_text("config.json", config_text);
    draw(&list, "in.q", TENSOR_F32, HEADS, ROWS, 1);
    cr_assert_eq(safetensors_write(in_folder("q.safetensors"), &list, &error), 0, "%s", error.line);
    tensor_list_free(&list);
    expect_success("run --config F/config.json --input F/q.safetensors --output F/out.safetensors "
                   "--op rotate");
    read_file("out.safetensors", &list);
    cr_expect(list.count == 1 && tensor_list_find(&list, "out.q") != NULL);
    tensor_list_free(&list);
}

Test(cli, the_same_seed_gives_the_same_output_and_json_is_whole)
{
    char first[4096], second[4096];
    cJSON *root;

    write_text("config.json", config_text);
    expect_success(
        "run --config F/config.json --random 5 --output F/a.npy --json --check --seed 3");
    root = cJSON_Parse(c.out);
    cr_assert(root != NULL, "%s", c.out);
    cr_expect(cJSON_IsTrue(cJSON_GetObjectItem(cJSON_GetObjectItem(root, "attention"), "pass")),
              "%s", c.out);
    cr_expect(cJSON_IsTrue(cJSON_GetObjectItem(cJSON_GetObjectItem(root, "rotate"), "pass")), "%s",
              c.out);
    cJSON_Delete(root);
    expect_success("run --config F/config.json --random 5 --output F/b.npy --seed 3");
    memset(first, 0, sizeof first);
    memset(second, 0, sizeof second);
    slurp(in_folder("a.npy"), first, sizeof first);
    slurp(in_folder("b.npy"), second, sizeof second);
    cr_expect_eq(memcmp(first, second, sizeof first), 0);
}

/* --------------------------------------------------------------------------------------------- */
Test(cli, wrong_files_are_one_line_and_nothing_is_written)
{
    tensor_list list = {0};
    tensor_error error;

    write_inputs(TENSOR_F32);
    write_text("broken.json", "{\"model_type\": \"llama\", ");
    write_text("unknown.json", "{\"model_type\": \"no-such-model\", \"num_attention_heads\": 4}");
    write_text("damaged.safetensors", "\xff\xff\xff\xff\xff\xff\xff\x7f{}");
    draw(&list, "q", TENSOR_F32, HEADS, ROWS, 1);
    draw(&list, "k", TENSOR_F32, KV_HEADS, ROWS, 1);
    draw(&list, "v", TENSOR_F32, KV_HEADS, ROWS + 1, 1);
    cr_assert_eq(safetensors_write(in_folder("unequal.safetensors"), &list, &error), 0);
    tensor_list_free(&list);
    draw(&list, "q", TENSOR_F32, HEADS + 1, ROWS, 1);
    cr_assert_eq(safetensors_write(in_folder("heads.safetensors"), &list, &error), 0);
    tensor_list_free(&list);
    draw(&list, "q", TENSOR_I32, HEADS, ROWS, 1);
    cr_assert_eq(safetensors_write(in_folder("integers.safetensors"), &list, &error), 0);
    tensor_list_free(&list);

    expect_refusal("run --config F/none.json --random 4 --output F/out.npy", 1, "none.json");
    expect_refusal("run --config F/broken.json --random 4 --output F/out.npy", 1, "rhumb run: ");
    expect_refusal("run --config F/unknown.json --random 4 --output F/out.npy", 1, "no-such-model");
    expect_refusal("run --config F/config.json --kind sliding --random 4 --output F/out.npy", 2,
                   "it has \"attention\"");
    expect_refusal("run --config F/config.json --input F/none.safetensors --output F/out.npy", 1,
                   "none.safetensors");
    expect_refusal("run --config F/config.json --input F/damaged.safetensors --output F/out.npy", 1,
                   "damaged.safetensors");
    expect_refusal("run --config F/config.json --input F/q.npy --output F/out.npy", 1,
                   "there is no k");
    expect_refusal("run --config F/config.json --input F/q.txt --output F/out.npy", 2,
                   ".safetensors file");
    expect_refusal("run --config F/config.json --input F/unequal.safetensors --output F/out.npy", 1,
                   "v is [");
    expect_refusal(
        "run --config F/config.json --op rotate --input F/heads.safetensors --output F/out.npy", 1,
        "the layer has 4 heads");
    expect_refusal(
        "run --config F/config.json --op rotate --input F/integers.safetensors --output F/out.npy",
        1, "it is I32");
    expect_refusal("run --config F/config.json --input F/qkv.safetensors --output F/out.txt", 2,
                   "--output wants");
    expect_refusal(
        "run --config F/config.json --input F/qkv.safetensors --op rotate --output F/out.npy", 2,
        "two .npy files");
    expect_refusal("run --config F/config.json --random 4 --dtype bf16 --output F/out.npy", 2,
                   "bf16");
    expect_refusal("run --config F/config.json --random 4 --output F/none/out.npy", 1,
                   "none/out.npy");
    expect_refusal("run --config F/config.json --random 4 --offset -2 --output F/out.npy", 2,
                   "--offset wants 0 to 2147483643");
    expect_refusal("run --config F/config.json --random 4 --offset 2147483644 --output F/out.npy",
                   2, "--offset wants 0 to 2147483643");
}

Test(cli, an_unknown_kind_lists_those_there_are)
{
    expect_refusal("run --config S/tests/goldens/configs/gemma-2-2b-it.json --kind foo --random 4",
                   2, "it has \"full_attention\", \"sliding_attention\"");
}

Test(cli, layers_with_relative_positions_are_not_run_as_plain_ones)
{
    expect_refusal("run --config S/tests/goldens/configs/t5-base.json --kind decoder --random 4", 1,
                   "layers of kind \"decoder\" have relative positions in their logits");
    expect_refusal("run --config S/tests/goldens/configs/bert-base-uncased.json --op rotate "
                   "--random 4 --output F/q.npy,F/k.npy",
                   1, "layers of kind \"attention\" have no rotary embedding");
}

Test(cli, the_input_is_not_overwritten)
{
    char before[4096], after[4096];

    write_inputs(TENSOR_F32);
    memset(before, 0, sizeof before);
    memset(after, 0, sizeof after);
    slurp(in_folder("q.npy"), before, sizeof before);
    expect_refusal("run --config F/config.json --input F/qkv.safetensors --output "
                   "F/./qkv.safetensors",
                   2, "would overwrite the input");
    expect_refusal("run --config F/config.json --input F/q.npy,F/k.npy,F/v.npy --output F/q.npy", 2,
                   "would overwrite the input");
    expect_refusal("run --config F/config.json --op rotate --random 4 --output F/out.npy,F/out.npy",
                   2, "names a file twice");
    slurp(in_folder("q.npy"), after, sizeof after);
    cr_expect_eq(memcmp(before, after, sizeof before), 0);
}

/* Far above what two cores would draw and attend to within the test's time. */
Test(cli, tensors_beyond_the_device_are_refused_before_they_are_drawn, .timeout = 60)
{
    write_text("config.json", config_text);
    expect_refusal("run --config F/config.json --floor --random 1048576", 1,
                   "q of 1048576 rows takes 402653184 bytes as f32");
    cr_expect(strstr(c.err, "349525 rows at most") != NULL, "%s", c.err);
}

Test(cli, one_row_is_told_in_the_singular_and_small_amounts_in_full)
{
    write_text("config.json", config_text);
    expect_success("run --config F/config.json --random 1 --kind attention");
    cr_expect(strstr(c.out, " 1 rows") == NULL && strstr(c.out, "0.000") == NULL, "%s", c.out);
    cr_expect(strstr(c.out, " FLOP, ") != NULL || strstr(c.out, " kFLOP, ") != NULL, "%s", c.out);
    expect_success("devices");
    cr_expect(strstr(c.out, " 1 rows") == NULL, "%s", c.out);
}

Test(cli, configurations_skipped_for_the_same_reason_are_counted_together)
{
    static const char skipped[] = "skipped ";
    unsigned lines = 0;

    write_text("a.json", "{\"model_type\": \"layoutlmv2\"}");
    write_text("a.expected.json", "{}");
    write_text("b.json", "{\"model_type\": \"layoutlmv3\"}");
    write_text("b.expected.json", "{}");
    write_text("c.json", "{\"model_type\": \"baichuan\"}");
    write_text("c.expected.json", "{}");
    cr_expect_eq(rhumb("check --configs F/"), 0, "%s%s", c.out, c.err);
    cr_expect(strstr(c.out, "skipped    2: not implemented: buckets of the boxes' places") != NULL,
              "%s", c.out);
    for (const char *p = strstr(c.out, skipped); p != NULL; p = strstr(p + 1, skipped))
        lines++;
    cr_expect_eq(lines, 2, "%s", c.out);
}

/* --------------------------------------------------------------------------------------------- */

/* The last line of what was printed. */
static const char *closing_line(void)
{
    const size_t length = strlen(c.out);
    const char *line = c.out;

    for (size_t i = 0; i + 1 < length; i++) {
        if (c.out[i] == '\n')
            line = c.out + i + 1;
    }
    return line;
}

static void read_counts(unsigned *passed, unsigned *failed, unsigned *skipped)
{
    int length = 0;
    const char *line = closing_line();

    cr_assert(
        sscanf(line, "%u passed, %u failed, %u skipped%n", passed, failed, skipped, &length) == 3 &&
            line[length] == '\n' && line[length + 1] == '\0',
        "closing line: %s", line);
}

/* Two heads of an 8-channel rotation in the format of the golden cases, with a result that is right
 * or off by `wrong`. */
static void write_case(const char *name, const char *scheme, double wrong)
{
    static const uint64_t shape[4] = {1, 2, 3, 8};
    static const uint64_t rows[2] = {1, 3};
    const int32_t positions[3] = {0, 7, 1000};
    tensor_list list = {0};
    tensor_error error;
    ref_rope rope;
    double x[48];
    tensor *t;

    t = tensor_list_add(&list, "in.x", TENSOR_F32, 4, shape, &error);
    cr_assert(t != NULL);
    tensor_fill_normal(t, 5);
    verify_widen(RHUMB_F32, t->data, 48, x);
    t = tensor_list_add(&list, "in.positions", TENSOR_I32, 2, rows, &error);
    cr_assert(t != NULL);
    memcpy(t->data, positions, sizeof positions);
    ref_rope_init(&rope, 8);
    cr_assert_eq(ref_rotate(&rope, 1, 2, 3, 8, positions, 0, x, x), 0);
    t = tensor_list_add(&list, "out.y", TENSOR_F32, 4, shape, &error);
    cr_assert(t != NULL);
    x[17] += wrong;
    verify_narrow(RHUMB_F32, x, 48, t->data);
    tensor_list_set_text(&list, "scheme", scheme, &error);
    tensor_list_set_text(&list, "op", "rotate", &error);
    tensor_list_set_text(&list, "params",
                         "{\"head_dim\": 8, \"rotary_dim\": 8, \"rotary_offset\": 0, \"layout\": "
                         "\"half\", \"base\": 10000.0}",
                         &error);
    tensor_list_set_text(&list, "source", "tests/test_cli.c", &error);
    tensor_list_set_text(&list, "tolerance", "1e-5", &error);
    cr_assert_eq(safetensors_write(in_folder(name), &list, &error), 0, "%s", error.line);
    tensor_list_free(&list);
}

Test(cli, check_cases_counts_and_its_status_follows)
{
    unsigned passed, failed, skipped;

    write_case("right.safetensors", "rope", 0.0);
    cr_expect_eq(rhumb("check --cases F/right.safetensors"), 0, "%s%s", c.out, c.err);
    read_counts(&passed, &failed, &skipped);
    cr_expect(passed == 1 && failed == 0 && skipped == 0, "%s", c.out);
    cr_expect(strstr(c.out, "PASS right") == c.out, "%s", c.out);

    write_case("wrong.safetensors", "rope", 1e-3);
    cr_expect_eq(rhumb("check --cases F/right.safetensors F/wrong.safetensors"), 1, "%s%s", c.out,
                 c.err);
    read_counts(&passed, &failed, &skipped);
    cr_expect(passed == 1 && failed == 1 && skipped == 0, "%s", c.out);

    write_case("shaw.safetensors", "shaw", 0.0);
    cr_expect_eq(rhumb("check --cases F/ --reference"), 1, "%s%s", c.out, c.err);
    read_counts(&passed, &failed, &skipped);
    cr_expect(passed == 1 && failed + skipped == 2, "%s", c.out);

    cr_expect_eq(rhumb("check --json --cases F/right.safetensors"), 0, "%s%s", c.out, c.err);
    cJSON *root = cJSON_Parse(c.out);
    cr_expect(root != NULL && cJSON_GetObjectItem(root, "passed")->valueint == 1, "%s", c.out);
    cJSON_Delete(root);
}

Test(cli, check_cases_on_no_case_fails)
{
    cr_expect_eq(rhumb("check --cases F/none"), 1);
    cr_expect(strstr(c.err, "none") != NULL, "%s", c.err);
    cr_expect_eq(rhumb("check --cases F/"), 1, "a folder without cases: %s", c.out);
    expect_refusal("check --configs F/none", 1, "none");
    expect_refusal("check --configs F/", 1, "rhumb check: ");
}

/* --------------------------------------------------------------------------------------------- */
Test(cli, the_example_host_turns_its_tokens)
{
    cr_expect_eq(run_program("tools/hosts/host_minimal", ""), 0, "%s%s", c.out, c.err);
    cr_expect(strstr(c.out, "turned to (0.753902, 0.656987); 0 wrong") != NULL, "%s", c.out);
}

/* What the README quotes of minimal.c: from the context to the submission, not indented. */
static void body_of(const char *host, char *body, size_t size)
{
    const char *line = strstr(host, "    rhumb_hosted_info host;");
    const char *last = strstr(host, "    engine_finish(e);");
    size_t length = 0;

    cr_assert(line != NULL && last != NULL && line < last);
    while (line <= last) {
        const size_t count = strcspn(line, "\n") + 1;
        const size_t indent = strspn(line, " ") < 4 ? strspn(line, " ") : 4;
        cr_assert(length + count < size);
        memcpy(body + length, line + indent, count - indent);
        length += count - indent;
        line += count;
    }
    body[length] = '\0';
}

Test(cli, the_readme_quotes_the_example_host)
{
    static char readme[262144];
    static char host[8192];
    static char body[8192];
    char path[1024];

    snprintf(path, sizeof path, "%s/README.md", source_root());
    slurp(path, readme, sizeof readme);
    snprintf(path, sizeof path, "%s/tools/hosts/minimal.c", source_root());
    slurp(path, host, sizeof host);
    cr_expect(lines_of(host) <= 60, "minimal.c has %u lines", lines_of(host));
    body_of(host, body, sizeof body);
    cr_expect(lines_of(body) <= 42, "the quoted part has %u lines", lines_of(body));
    cr_expect(strstr(readme, body) != NULL,
              "README.md does not quote tools/hosts/minimal.c as it is");
}
