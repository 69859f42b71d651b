/* A peer of `rhumb bench`: ggml's operations, on one of its backends.
 *
 *     ggml BACKEND      a library such as libggml-vulkan.so
 *
 * Not for people: lines come from standard input, each is answered by one on standard output (see
 * bench.h). A graph holds as many nodes of the operation as take SAMPLE_NS, all with the same
 * inputs; a time is the host's, around computing the graph and waiting for it, of one node.
 */
#include <ggml-alloc.h>
#include <ggml-backend.h>
#include <ggml.h>

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define MAX_SLOTS 64
#define MAX_COPIES 32
#define NODES 512      /* of a graph, inputs among them */
#define SAMPLE_NS 2e6
#define FINITE_BYTES 64 /* of a result, that are looked at */

typedef struct row {
    char op[32], dtype[16], scheme[16], pairing[16];
    int heads, kv_heads, q_rows, k_rows, head_dim, causal, in_place;
} row;

typedef struct slot {
    struct ggml_context *context;
    struct ggml_cgraph *graph;
    ggml_backend_buffer_t buffer;
    int copies, repeats;
} slot;

typedef enum input_kind { RANDOM, POSITIONS, CAUSAL, DISTANCE } input_kind;

/* What an operation reads; filled when there is memory for it. */
typedef struct input {
    struct ggml_tensor *tensor;
    input_kind kind;
} input;

/* Of copies of an operation, which share their inputs: `next` goes over those that are there. */
typedef struct builder {
    struct ggml_context *context;
    input inputs[8];
    int input_count, next;
} builder;

/* ----------------------------------------------------------------------------------------------
 * Inputs
 */
static struct ggml_tensor *add_input(builder *b, input_kind kind, enum ggml_type type, int64_t n0,
                                     int64_t n1, int64_t n2)
{
    input *in = &b->inputs[b->next++];

    if (b->next > b->input_count) {
        b->input_count = b->next;
        in->tensor = ggml_new_tensor_3d(b->context, type, n0, n1, n2);
        in->kind = kind;
    }
    return in->tensor;
}

/* Element `at` of a mask [keys, rows, ...], its rows the last of the keys; numbers from -1 to 1
 * else. */
static float value_of(const input *in, bool causal, int64_t at, uint32_t *state)
{
    const int64_t keys = in->tensor->ne[0], rows = in->tensor->ne[1];
    const int64_t distance = at % keys - (at / keys % rows + keys - rows);

    *state = *state * 1664525u + 1013904223u;
    if (in->kind == RANDOM)
        return (float)(*state >> 8) / 8388608.0f - 1.0f;
    if (causal && distance > 0)
        return -INFINITY;
    return in->kind == CAUSAL ? 0.0f : -fabsf((float)distance);
}

static bool fill(const input *in, bool causal)
{
    struct ggml_tensor *t = in->tensor;
    const int64_t count = ggml_nelements(t);
    const size_t bytes = ggml_nbytes(t);
    float *numbers = malloc((size_t)count * sizeof *numbers);
    void *converted = malloc(bytes);
    uint32_t state = 12345;

    if (numbers != NULL && converted != NULL) {
        for (int64_t i = 0; i < count; i++) {
            if (in->kind == POSITIONS)
                ((int32_t *)converted)[i] = (int32_t)i;
            else
                numbers[i] = value_of(in, causal, i, &state);
        }
        if (t->type == GGML_TYPE_F32)
            memcpy(converted, numbers, bytes);
        else if (t->type != GGML_TYPE_I32)
            ggml_quantize_chunk(t->type, numbers, converted, 0, count / t->ne[0], t->ne[0], NULL);
        ggml_backend_tensor_set(t, converted, 0, bytes);
    }
    free(numbers);
    free(converted);
    return numbers != NULL && converted != NULL;
}

/* ----------------------------------------------------------------------------------------------
 * Operations
 */
static enum ggml_type type_of(const row *r)
{
    if (strcmp(r->dtype, "f32") == 0)
        return GGML_TYPE_F32;
    if (strcmp(r->dtype, "f16") == 0)
        return GGML_TYPE_F16;
    return strcmp(r->dtype, "q8_0") == 0 ? GGML_TYPE_Q8_0 : GGML_TYPE_COUNT;
}

static struct ggml_tensor *rope(builder *b, const row *r)
{
    const bool sections = strcmp(r->scheme, "mrope") == 0;
    const bool vision = strcmp(r->scheme, "rope2d") == 0;
    const int pairing =
        strcmp(r->pairing, "half") == 0 ? GGML_ROPE_TYPE_NEOX : GGML_ROPE_TYPE_NORMAL;
    int parts[4] = {r->head_dim / 8, r->head_dim * 3 / 16, r->head_dim * 3 / 16, 0};
    struct ggml_tensor *x = add_input(b, RANDOM, type_of(r), r->head_dim, r->heads, r->q_rows);
    struct ggml_tensor *p =
        add_input(b, POSITIONS, GGML_TYPE_I32, r->q_rows * (sections || vision ? 4 : 1), 1, 1);

    if (vision) {
        parts[0] = parts[1] = r->head_dim / 4;
        parts[2] = 0;
    }
    if (sections || vision)
        return ggml_rope_multi(b->context, x, p, NULL, vision ? r->head_dim / 2 : r->head_dim,
                               parts, vision ? GGML_ROPE_TYPE_VISION : GGML_ROPE_TYPE_MROPE, 8192,
                               10000.0f, 1.0f, 0.0f, 1.0f, 32.0f, 1.0f);
    return (r->in_place ? ggml_rope_ext_inplace : ggml_rope_ext)(
        b->context, x, p, NULL, r->head_dim, pairing, 8192, 10000.0f, 1.0f, 0.0f, 1.0f, 32.0f,
        1.0f);
}

static struct ggml_tensor *add(builder *b, const row *r)
{
    struct ggml_tensor *x = add_input(b, RANDOM, type_of(r), r->head_dim, r->q_rows, 1);
    struct ggml_tensor *y = add_input(b, RANDOM, type_of(r), r->head_dim, r->q_rows, 1);

    return (r->in_place ? ggml_add_inplace : ggml_add)(b->context, x, y);
}

static struct ggml_tensor *add_rows(builder *b, const row *r)
{
    struct ggml_tensor *x = add_input(b, RANDOM, type_of(r), r->head_dim, r->q_rows, 1);
    struct ggml_tensor *table = add_input(b, RANDOM, type_of(r), r->head_dim, r->q_rows, 1);
    struct ggml_tensor *p = add_input(b, POSITIONS, GGML_TYPE_I32, r->q_rows, 1, 1);

    return (r->in_place ? ggml_add_inplace : ggml_add)(b->context, x,
                                                        ggml_get_rows(b->context, table, p));
}

static struct ggml_tensor *timestep(builder *b, const row *r)
{
    return ggml_timestep_embedding(b->context, add_input(b, RANDOM, GGML_TYPE_F32, r->q_rows, 1, 1),
                                   r->head_dim, 10000);
}

/* What is added to the logits: distances that ALiBi's slopes multiply, a bias of each head for T5,
 * the causal mask, or nothing. */
static struct ggml_tensor *mask(builder *b, const row *r, enum ggml_type type)
{
    const bool alibi = strcmp(r->scheme, "alibi") == 0, t5 = strcmp(r->scheme, "t5") == 0;

    if (!alibi && !t5 && !r->causal)
        return NULL;
    return add_input(b, t5 ? RANDOM : alibi ? DISTANCE : CAUSAL, type, r->k_rows, r->q_rows,
                     t5 ? r->heads : 1);
}

static float slope(const row *r)
{
    return strcmp(r->scheme, "alibi") == 0 ? 8.0f : 0.0f;
}

static struct ggml_tensor *soft_max(builder *b, const row *r)
{
    struct ggml_tensor *s = add_input(b, RANDOM, GGML_TYPE_F32, r->k_rows, r->q_rows, r->heads);

    return ggml_soft_max_ext(b->context, s, mask(b, r, GGML_TYPE_F32), 1.0f, slope(r));
}

static struct ggml_tensor *flash_attn(builder *b, const row *r)
{
    struct ggml_tensor *q = add_input(b, RANDOM, GGML_TYPE_F32, r->head_dim, r->q_rows, r->heads);
    struct ggml_tensor *k = add_input(b, RANDOM, type_of(r), r->head_dim, r->k_rows, r->kv_heads);
    struct ggml_tensor *v = add_input(b, RANDOM, type_of(r), r->head_dim, r->k_rows, r->kv_heads);

    return ggml_flash_attn_ext(b->context, q, k, v, mask(b, r, GGML_TYPE_F16),
                               1.0f / sqrtf((float)r->head_dim), slope(r), 0.0f);
}

/* Q K^T, softmax with the bias, and the product with V, which lies transposed. */
static struct ggml_tensor *unfused(builder *b, const row *r)
{
    struct ggml_tensor *q = add_input(b, RANDOM, GGML_TYPE_F32, r->head_dim, r->q_rows, r->heads);
    struct ggml_tensor *k = add_input(b, RANDOM, type_of(r), r->head_dim, r->k_rows, r->kv_heads);
    struct ggml_tensor *v = add_input(b, RANDOM, type_of(r), r->k_rows, r->head_dim, r->kv_heads);
    struct ggml_tensor *s = ggml_mul_mat(b->context, k, q);

    s = ggml_soft_max_ext(b->context, s, mask(b, r, GGML_TYPE_F32),
                          1.0f / sqrtf((float)r->head_dim), slope(r));
    return ggml_mul_mat(b->context, v, s);
}

static const struct {
    const char *name;
    struct ggml_tensor *(*build)(builder *b, const row *r);
} operations[] = {
    {"rope", rope},           {"add", add},           {"get_rows+add", add_rows},
    {"timestep", timestep},   {"soft_max", soft_max}, {"flash_attn", flash_attn},
    {"unfused", unfused},
};

/* ----------------------------------------------------------------------------------------------
 * Slots
 */
static double now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return 1e9 * (double)t.tv_sec + (double)t.tv_nsec;
}

static void drop(slot *s)
{
    if (s->buffer != NULL)
        ggml_backend_buffer_free(s->buffer);
    if (s->context != NULL)
        ggml_free(s->context);
    memset(s, 0, sizeof *s);
}

/* Time of one node. */
static double run(ggml_backend_t backend, const slot *s)
{
    const double begin = now_ns();

    for (int i = 0; i < s->repeats; i++) {
        ggml_backend_graph_compute(backend, s->graph);
        ggml_backend_synchronize(backend);
    }
    return (now_ns() - begin) / s->repeats / s->copies;
}

/* The line of an error, or NULL. */
static const char *build_graph(ggml_backend_t backend, const row *r, slot *s)
{
    const struct ggml_init_params sizes = {
        ggml_tensor_overhead() * NODES + ggml_graph_overhead_custom(NODES, false), NULL, true};
    builder b = {.context = ggml_init(sizes)};
    size_t op = 0;

    s->context = b.context;
    s->graph = ggml_new_graph_custom(b.context, NODES, false);
    while (op < sizeof operations / sizeof operations[0] &&
           strcmp(operations[op].name, r->op) != 0)
        op++;
    if (op == sizeof operations / sizeof operations[0] || type_of(r) == GGML_TYPE_COUNT)
        return "no such operation or dtype";
    for (int i = 0; i < s->copies; i++) {
        b.next = 0;
        ggml_build_forward_expand(s->graph, operations[op].build(&b, r));
    }
    for (int i = 0; i < ggml_graph_n_nodes(s->graph); i++) {
        if (!ggml_backend_supports_op(backend, ggml_graph_node(s->graph, i)))
            return "the backend has no kernel for it";
    }
    s->buffer = ggml_backend_alloc_ctx_tensors(b.context, backend);
    if (s->buffer == NULL)
        return "no memory";
    for (int i = 0; i < b.input_count; i++) {
        if (!fill(&b.inputs[i], r->causal != 0))
            return "no memory";
    }
    return NULL;
}

/* One node, then as many as take SAMPLE_NS; the first run of each compiles or allocates. */
static const char *measure(ggml_backend_t backend, const row *r, slot *s, double *ns)
{
    s->copies = s->repeats = 1;
    for (int pass = 0; pass < 2; pass++) {
        const char *error = build_graph(backend, r, s);
        if (error != NULL)
            return error;
        (void)run(backend, s);
        *ns = run(backend, s);
        if (*ns >= SAMPLE_NS || pass == 1)
            break;
        drop(s);
        s->repeats = 1;
        s->copies = *ns * MAX_COPIES < SAMPLE_NS ? MAX_COPIES : (int)(SAMPLE_NS / *ns) + 1;
    }
    if (*ns * s->copies < SAMPLE_NS)
        s->repeats = (int)(SAMPLE_NS / (*ns * s->copies)) + 1;
    *ns *= s->copies * s->repeats;
    return NULL;
}

/* A result of zeros or of no numbers is none. */
static const char *look_at_result(const slot *s)
{
    struct ggml_tensor *last = ggml_graph_node(s->graph, ggml_graph_n_nodes(s->graph) - 1);
    float numbers[FINITE_BYTES / sizeof(float)] = {0}, sum = 0.0f;

    if (last->type != GGML_TYPE_F32)
        return NULL;
    ggml_backend_tensor_get(last, numbers, 0, sizeof numbers);
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
        sum += fabsf(numbers[i]);
    return sum > 0.0f && isfinite(sum) ? NULL : "its result is zeros, or not finite";
}

static void open_slot(ggml_backend_t backend, slot *s, const char *words, FILE *out)
{
    const char *error = "a line that is not understood";
    double ns = 0.0;
    row r;

    drop(s);
    if (sscanf(words,
               "%31s heads=%d kv_heads=%d q_rows=%d k_rows=%d head_dim=%d dtype=%15s scheme=%15s "
               "pairing=%15s causal=%d in_place=%d",
               r.op, &r.heads, &r.kv_heads, &r.q_rows, &r.k_rows, &r.head_dim, r.dtype, r.scheme,
               r.pairing, &r.causal, &r.in_place) == 11)
        error = measure(backend, &r, s, &ns);
    if (error == NULL)
        error = look_at_result(s);
    if (error == NULL) {
        fprintf(out, "ok %.0f\n", ns);
        return;
    }
    drop(s);
    fprintf(out, "no %s\n", error);
}

/* ----------------------------------------------------------------------------------------------
 * Lines
 */
static void answer(ggml_backend_t backend, slot *slots, const char *line, FILE *out)
{
    unsigned at = MAX_SLOTS;
    int words = 0;

    if (strncmp(line, "hello", 5) == 0) {
        fprintf(out, "peer ggml on %s: %s\n", ggml_backend_name(backend),
                ggml_backend_dev_description(ggml_backend_get_device(backend)));
    } else if (strncmp(line, "close", 5) == 0) {
        for (at = 0; at < MAX_SLOTS; at++)
            drop(&slots[at]);
        fprintf(out, "ok\n");
    } else if (sscanf(line, "open %u %n", &at, &words) == 1 && at < MAX_SLOTS) {
        open_slot(backend, &slots[at], line + words, out);
    } else if (sscanf(line, "run %u", &at) == 1 && at < MAX_SLOTS && slots[at].graph != NULL) {
        fprintf(out, "ns %.1f\n", run(backend, &slots[at]));
    } else {
        fprintf(out, "no a line that is not understood\n");
    }
    fflush(out);
}

static void log_errors(enum ggml_log_level level, const char *text, void *user)
{
    (void)user;
    if (level == GGML_LOG_LEVEL_ERROR || level == GGML_LOG_LEVEL_WARN)
        fputs(text, stderr);
}

static ggml_backend_t open_backend(const char *path)
{
    ggml_backend_reg_t library;

    ggml_log_set(log_errors, NULL);
    library = ggml_backend_load(path);
    if (library == NULL || ggml_backend_reg_dev_count(library) == 0)
        return NULL;
    return ggml_backend_dev_init(ggml_backend_reg_dev_get(library, 0), NULL);
}

int main(int argc, char **argv)
{
    static slot slots[MAX_SLOTS];
    char line[512];
    FILE *out = fdopen(dup(STDOUT_FILENO), "w");
    ggml_backend_t backend;

    /* what a backend prints is no answer */
    if (argc != 2 || out == NULL || dup2(STDERR_FILENO, STDOUT_FILENO) < 0) {
        fprintf(stderr, "usage: ggml BACKEND\n");
        return 2;
    }
    backend = open_backend(argv[1]);
    if (backend == NULL) {
        fprintf(stderr, "ggml: %s has no device\n", argv[1]);
        return 1;
    }
    while (fgets(line, sizeof line, stdin) != NULL)
        answer(backend, slots, line, out);
    for (int i = 0; i < MAX_SLOTS; i++)
        drop(&slots[i]);
    ggml_backend_free(backend);
    return 0;
}
