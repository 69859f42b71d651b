#include "capture.h"
#include "command_line.h"
#include "commands.h"
#include "describe_model.h"
#include "isa.h"
#include "json_out.h"
#include "run_plan.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

static const char usage[] =
    "usage: rhumb modules --scheme NAME [--op OP] [--params JSON] [--views NAMES]\n"
    "       rhumb modules --config CONFIG.json [--op rotate|attention] [--kind NAME]\n"
    "                     [--params JSON] [--views NAMES]\n"
    "       both:         [--dtype f32|f16|bf16] [--isa] [--device INDEX|NAME|UUID] [--floor]\n"
    "                     [--validation] [--json]\n\n"
    "Compiles the pipelines of a plan and tells of each what it binds and, where the device has\n"
    "VK_KHR_pipeline_executable_properties, what the driver made of it. Runs nothing: RADV serves\n"
    "for an AMD GPU that is not there (RADV_FORCE_FAMILY=navi31 with its ICD in VK_DRIVER_FILES).\n"
    "Of AMD's machine code also what the loop over keys takes: of the tile and decode forms by\n"
    "the way of blocks of keys which are all visible, inner loops as often as they run; of others\n"
    "every instruction once. Of kernels without keys: all that is outside of loops. A dual\n"
    "instruction of the vector ALUs counts as two.\n\n"
    "  --scheme   a scheme of rhumb_schemes.h in lower case, as t5, or none\n"
    "  --config   the model's config.json\n"
    "  --op       attention (the default), rotate; with --scheme also encode, resize, bias,\n"
    "             scores, project and combine\n"
    "  --kind     which layers, where a model has several kinds; default the first\n"
    "  --params   a JSON object as rhumb run has it. Sizes that nothing says: 32 heads, head_dim\n"
    "             128, q_len 512, k_len as q_len. With --config sizes of heads are the model's\n"
    "  --views    views beside those that the operation always has, as table,positions_q: named\n"
    "             as rhumb.h names them in lower case\n"
    "  --dtype    of the tensors; default f32\n"
    "  --isa      prints the machine code too\n"
    "  --device   an index, or part of a name or UUID (rhumb devices lists them); default the "
    "best\n"
    "  --floor    as if the device were the smallest that rhumb is right on\n"
    "  --validation\n"
    "             with the validation layer\n"
    "  --json     one object with a list of pipelines\n"
    "  --help     this text\n\n"
    "Exit status: 0 done, 1 a file, the device or the plan failed, 2 wrong arguments.\n";

typedef struct arguments {
    gpu_options options;
    const char *config, *scheme, *params, *op, *kind, *views, *dtype;
    bool isa, json, floor, help;
} arguments;

static void read_arguments(int argc, char **argv, command_line *line, arguments *a)
{
    gpu_init_options(&a->options);
    command_line_begin(line, argc, argv);
    while (command_line_more(line)) {
        if (!command_line_device(line, &a->options) &&
            !command_line_text(line, "--config", &a->config) &&
            !command_line_text(line, "--scheme", &a->scheme) &&
            !command_line_text(line, "--params", &a->params) &&
            !command_line_text(line, "--op", &a->op) &&
            !command_line_text(line, "--kind", &a->kind) &&
            !command_line_text(line, "--views", &a->views) &&
            !command_line_text(line, "--dtype", &a->dtype) &&
            !command_line_flag(line, "--isa", &a->isa) &&
            !command_line_flag(line, "--json", &a->json) &&
            !command_line_flag(line, "--floor", &a->floor) &&
            !command_line_flag(line, "--help", &a->help))
            command_line_unknown(line);
    }
}

/* ----------------------------------------------------------------------------------------------
 * The plan
 */
static uint32_t views_of(rhumb_op op)
{
    const uint32_t q = RHUMB_VIEW_BIT(RHUMB_VIEW_Q), k = RHUMB_VIEW_BIT(RHUMB_VIEW_K);
    const uint32_t o = RHUMB_VIEW_BIT(RHUMB_VIEW_O);

    switch (op) {
    case RHUMB_OP_ROTATE: return q | k;
    case RHUMB_OP_ATTENTION: return q | k | RHUMB_VIEW_BIT(RHUMB_VIEW_V) | o;
    case RHUMB_OP_RESIZE: return RHUMB_VIEW_BIT(RHUMB_VIEW_TABLE) | o;
    case RHUMB_OP_SCORES: return q | k | o;
    case RHUMB_OP_PROJECT: return q | k | o; /* X, WEIGHT, Y */
    case RHUMB_OP_COMBINE:
        return RHUMB_VIEW_BIT(RHUMB_VIEW_PARTS) | RHUMB_VIEW_BIT(RHUMB_VIEW_PART_LSE) | o;
    default: return o;
    }
}

/* What is f32 in every plan. */
static bool is_f32(uint32_t id)
{
    return id == RHUMB_VIEW_FREQUENCIES || id == RHUMB_VIEW_TABLE_SCALAR ||
           id == RHUMB_VIEW_ROW_SCALE || id == RHUMB_VIEW_WORKSPACE || id == RHUMB_VIEW_LSE;
}

static bool set_views(const arguments *a, rhumb_plan_info *info, char *wrong, size_t size)
{
    rhumb_dtype dtype = RHUMB_F32;

    if (a->dtype != NULL && !command_dtype_from_name(a->dtype, &dtype)) {
        snprintf(wrong, size, "--dtype wants f32, f16 or bf16");
        return false;
    }
    info->views = views_of(info->op);
    for (const char *at = a->views; at != NULL && *at != '\0';) {
        const size_t length = strcspn(at, ",");
        rhumb_view_id id;
        if (!command_view_from_name(at, length, &id)) {
            snprintf(wrong, size, "--views wants names of rhumb.h in lower case, not \"%.*s\"",
                     (int)(length < 60 ? length : 60), at);
            return false;
        }
        info->views |= RHUMB_VIEW_BIT(id);
        at += length + (at[length] == ',');
    }
    for (uint32_t id = 0; id < RHUMB_VIEW_COUNT; id++)
        if (!(RHUMB_INTEGER_VIEWS >> id & 1u) && !is_f32(id))
            info->dtype[id] = dtype;
    return true;
}

/* What --config and --scheme want beside them, and not; NULL if all is well. */
static const char *combination(const arguments *a, rhumb_op op)
{
    if (a->config == NULL && a->scheme == NULL)
        return "--config is required, or --scheme";
    if (a->config != NULL && a->scheme != NULL)
        return "either --config or --scheme, not both";
    if (a->scheme != NULL && a->kind != NULL)
        return "--kind goes with --config";
    if (a->config != NULL && op > RHUMB_OP_ATTENTION)
        return "--op wants rotate or attention";
    return NULL;
}

static bool read_plan(const arguments *a, run_settings *settings, rhumb_plan_info *info,
                      tensor_error *error)
{
    const run_plan *p = &settings->plan;
    rhumb_op op = RHUMB_OP_ATTENTION;
    const char *wrong = NULL;

    memset(settings, 0, sizeof *settings);
    if (a->op != NULL && !command_op_from_name(a->op, RHUMB_OP_COMBINE, &op))
        wrong = "--op wants rotate, attention, encode, resize, bias, scores, project or combine";
    if (wrong == NULL)
        wrong = combination(a, op);
    if (wrong != NULL)
        snprintf(error->line, sizeof error->line, "%s", wrong);
    rhumb_init_plan_info(info, op);
    if (wrong != NULL ||
        !run_settings_read(a->scheme != NULL ? a->scheme : "none", a->params, settings, error) ||
        !set_views(a, info, error->line, sizeof error->line))
        return false;
    if (a->config != NULL && (p->heads != 0 || p->kv_heads != 0 || p->head_dim != 0)) {
        snprintf(error->line, sizeof error->line,
                 "--params: heads, kv_heads and head_dim are the model's");
        return false;
    }
    return true;
}

static void set_sizes(const run_settings *settings, rhumb_plan_info *info)
{
    run_settings_info(settings, info);
    if (info->heads == 0)
        info->heads = 32;
    if (info->head_dim == 0)
        info->head_dim = 128;
    if (info->max_q_length == 0)
        info->max_q_length = 512;
}

/* ----------------------------------------------------------------------------------------------
 * What follows from statistics and machine code
 */
typedef struct derived {
    double registers; /* -1: the driver does not say; as are the next two */
    double spills;
    double waves;
    uint32_t lanes; /* of each of `waves` that registers and shared memory allow; 0: the driver's
                       number of subgroups */
    bool read;     /* the machine code is one that can be read; the rest is of it */
    bool loop;     /* there is a loop over keys */
    bool followed; /* by the way of keys that are all visible */
    double vector; /* instructions a multiply-add */
    double shared_read, shared_written; /* bytes a multiply-add */
    double vector_per_byte; /* of global memory; 0: it accesses none */
    double barriers;
    double global; /* bytes an access; 0: none */
} derived;

static double statistic(const capture_executable *e, const char *name)
{
    const capture_statistic *s = capture_find(e, name);

    return s != NULL ? s->value : -1.0;
}

static bool starts(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

static void read_code(const capture_pipeline *p, const capture_executable *e, derived *d)
{
    static isa_listing listing;
    const bool tile = starts(p->kernel, "attention_tile");
    const bool decode = starts(p->kernel, "attention_decode");
    const bool keys = starts(p->kernel, "attention_") || starts(p->kernel, "softmax_");
    isa_loop loop;
    isa_count count;

    d->read = e->code != NULL && isa_read(e->code, &listing);
    if (!d->read)
        return;
    d->followed = (tile && isa_key_loop(&listing, p->spec, &loop)) ||
                  (decode && isa_decode_loop(&listing, &loop));
    d->loop = d->followed || (keys && isa_key_loop(&listing, NULL, &loop));
    count = d->loop ? loop.count : isa_sum_without_loops(&listing);
    if (d->loop) {
        d->vector = count.of[ISA_VECTOR] / loop.multiply_adds;
        d->shared_read = count.of[ISA_SHARED_READ] / loop.multiply_adds;
        d->shared_written = count.of[ISA_SHARED_WRITTEN] / loop.multiply_adds;
    }
    d->barriers = count.of[ISA_BARRIERS];
    if (count.of[ISA_GLOBAL_BYTES] > 0) {
        d->vector_per_byte = count.of[ISA_VECTOR] / count.of[ISA_GLOBAL_BYTES];
        d->global = count.of[ISA_GLOBAL_BYTES] / (count.of[ISA_LOADS] + count.of[ISA_STORES]);
    }
}

static derived derive(const capture *c, const capture_pipeline *p, const capture_executable *e)
{
    const double vgprs = statistic(e, "VGPRs"), shared = statistic(e, "LDS size");
    derived d = {.registers = vgprs >= 0.0 ? vgprs : statistic(e, "Register Count")};

    d.spills = e->statistic_count > 0 ? capture_spills(e) : -1.0;
    d.waves = vgprs < 0.0 ? 0.0
                          : isa_waves(c->properties.deviceName, (uint32_t)vgprs,
                                      shared >= 0.0 ? (uint32_t)shared
                                                    : (uint32_t)p->module.shared_bytes,
                                      p->module.local_size[0], e->subgroup_size, &d.lanes);
    if (d.lanes == 0)
        d.waves = statistic(e, "Subgroups per SIMD");
    read_code(p, e, &d);
    return d;
}

static const char *constant_name(uint32_t id)
{
    static const char *const names[SPEC_SLOT] = {
        [SPEC_WORKGROUP] = "workgroup",     [SPEC_SLOT_COUNT] = "slot_count",
        [SPEC_VIEWS] = "views",             [SPEC_ALIGNED] = "aligned",
        [SPEC_PAIRING] = "pairing",         [SPEC_IN_PLACE] = "in_place",
        [SPEC_HEAD_DIM] = "head_dim",       [SPEC_VALUE_DIM] = "value_dim",
        [SPEC_HEAD_CHUNK] = "head_chunk",   [SPEC_VALUE_CHUNK] = "value_chunk",
        [SPEC_KEYS] = "keys",               [SPEC_LANES] = "lanes",
        [SPEC_ROTARY] = "rotary",           [SPEC_TERMS] = "terms",
        [SPEC_APPEND] = "append",           [SPEC_RESIZE] = "resize",
        [SPEC_ENCODING] = "encoding",       [SPEC_LAYOUT] = "layout",
        [SPEC_ROWS] = "rows",
    };

    return id < SPEC_SLOT ? names[id] : NULL;
}

static const char *binding_name(VkDescriptorType type)
{
    switch (type) {
    case VK_DESCRIPTOR_TYPE_STORAGE_BUFFER: return "storage";
    case VK_DESCRIPTOR_TYPE_UNIFORM_BUFFER_DYNAMIC: return "dynamic uniform";
    default: return "other";
    }
}

/* ----------------------------------------------------------------------------------------------
 * Text
 */
#define COLUMNS 100
#define INDENT 14

/* A line of items, broken between them. */
typedef struct item_line {
    size_t column;
} item_line;

static item_line begin_line(const char *label)
{
    printf("  %-*s", INDENT - 2, label);
    return (item_line){.column = INDENT};
}

static void put(item_line *line, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void put(item_line *line, const char *format, ...)
{
    char text[128];
    va_list values;
    size_t length;

    va_start(values, format);
    length = (size_t)vsnprintf(text, sizeof text, format, values);
    va_end(values);
    if (line->column > INDENT && line->column + 2 + length > COLUMNS - 1) {
        printf(",\n%*s", INDENT, "");
        line->column = INDENT;
    } else if (line->column > INDENT) {
        line->column += (size_t)printf(", ");
    }
    line->column += (size_t)printf("%s", text);
}

static void print_module(const capture_pipeline *p)
{
    item_line line = begin_line("bindings");

    for (uint32_t i = 0; i < p->binding_count; i++)
        put(&line, "%u %s x%u", p->bindings[i].binding, binding_name(p->bindings[i].descriptorType),
            p->bindings[i].descriptorCount);
    printf("\n");
    line = begin_line("constants");
    for (uint32_t id = 0; id < SPEC_SLOT; id++)
        if (constant_name(id) != NULL && spirv_has_spec_id(&p->module, id))
            put(&line, id == SPEC_VIEWS || id == SPEC_TERMS ? "%s 0x%x" : "%s %u",
                constant_name(id), p->spec[id]);
    printf("\n");
    line = begin_line("views");
    for (uint32_t id = 0; id < RHUMB_VIEW_COUNT; id++)
        if (p->spec[SPEC_VIEWS] >> id & 1u)
            put(&line, "%s slot %u %s", command_view_name((rhumb_view_id)id),
                p->spec[SPEC_SLOT + id],
                command_dtype_name((rhumb_dtype)p->spec[SPEC_DTYPE + id]));
    printf("\n");
}

static void print_derived(const capture_executable *e, const derived *d)
{
    const double driver = statistic(e, "Subgroups per SIMD");
    item_line line;

    if (d->lanes > 0 && driver >= 0.0)
        printf("  %-*s%.3g of %u lanes a SIMD by registers and shared memory; the driver says %g\n",
               INDENT - 2, "waves", d->waves, d->lanes, driver);
    line = begin_line(d->loop ? "key loop" : "code");
    if (!d->read) {
        printf("unread\n");
        return;
    }
    if (d->loop) {
        put(&line, "%.3f vector instructions a multiply-add", d->vector);
        put(&line, "%.3f shared bytes read and %.3f written a multiply-add", d->shared_read,
            d->shared_written);
    }
    put(&line, "%g barriers", d->barriers);
    if (d->vector_per_byte > 0.0)
        put(&line, "%.3g vector instructions a byte of global memory", d->vector_per_byte);
    if (d->global > 0.0)
        put(&line, "%.1f bytes a global access", d->global);
    if (d->loop && !d->followed)
        put(&line, "every instruction once");
    if (!d->loop)
        put(&line, "loops left out");
    printf("\n");
}

static void print_executable(const capture *c, const capture_pipeline *p,
                             const capture_executable *e)
{
    const derived d = derive(c, p, e);
    item_line line;

    if (p->executable_count > 1)
        printf("  %s, subgroups of %u\n", e->name, e->subgroup_size);
    line = begin_line("statistics");
    for (uint32_t i = 0; i < e->statistic_count; i++)
        put(&line, "%s %.6g", e->statistics[i].name, e->statistics[i].value);
    printf("\n");
    print_derived(e, &d);
}

static void put_cell(double value)
{
    char text[16] = "-";

    if (value >= 0.0)
        snprintf(text, sizeof text, "%.4g", value);
    printf("%10s", text);
}

/* One line an executable. */
static void print_table(const capture *c)
{
    printf("\n%-32s%7s%8s%6s%10s%10s%10s%10s\n", "kernel", "group", "shared", "push", "subgroup",
           "registers", "spills", "waves");
    for (uint32_t i = 0; i < c->pipeline_count; i++) {
        const capture_pipeline *p = &c->pipelines[i];
        uint32_t n = 0;
        do {
            const capture_executable none = {.subgroup_size = 0};
            const bool told = n < p->executable_count;
            const capture_executable *e = told ? &p->executables[n] : &none;
            const derived d = derive(c, p, e);
            printf("%-32s%7u%8llu%6u", p->kernel, p->module.local_size[0],
                   (unsigned long long)p->module.shared_bytes, p->push_bytes);
            put_cell(told ? e->subgroup_size : -1.0);
            put_cell(d.registers);
            put_cell(d.spills);
            put_cell(d.waves);
            printf("\n");
        } while (++n < p->executable_count);
    }
}

static void print_words(const char *text)
{
    for (size_t column = 0; *text != '\0';) {
        const size_t length = strcspn(text, " ");
        const bool breaks = column + 1 + length > COLUMNS - 1;
        if (column > 0)
            printf("%s", breaks ? "\n" : " ");
        column = (column == 0 || breaks ? 0 : column + 1) + length;
        printf("%.*s", (int)length, text);
        text += length + (text[length] == ' ');
    }
    printf("\n");
}

static void print_text(const arguments *a, const capture *c,
                       const rhumb_plan_properties *properties)
{
    printf("%s\n", c->properties.deviceName);
    print_words(properties->reason);
    if (!c->tells)
        printf("no registers and no machine code: the device has no "
               "VK_KHR_pipeline_executable_properties\n");
    print_table(c);
    for (uint32_t i = 0; i < c->pipeline_count; i++) {
        const capture_pipeline *p = &c->pipelines[i];
        printf("\n%s\n", p->kernel);
        print_module(p);
        for (uint32_t n = 0; n < p->executable_count; n++)
            print_executable(c, p, &p->executables[n]);
    }
    for (uint32_t i = 0; a->isa && i < c->pipeline_count; i++)
        for (uint32_t n = 0; n < c->pipelines[i].executable_count; n++)
            if (c->pipelines[i].executables[n].code != NULL)
                printf("\n%s\n%s\n", c->pipelines[i].kernel, c->pipelines[i].executables[n].code);
}

/* ----------------------------------------------------------------------------------------------
 * JSON
 */
static void put_number(cJSON *object, const char *name, double value)
{
    if (value >= 0.0)
        cJSON_AddNumberToObject(object, name, value);
}

static void put_module(cJSON *object, const capture_pipeline *p)
{
    cJSON *list = cJSON_AddArrayToObject(object, "bindings");
    cJSON *constants = cJSON_AddObjectToObject(object, "constants");
    cJSON *views = cJSON_AddObjectToObject(object, "views");

    for (uint32_t i = 0; i < p->binding_count; i++) {
        cJSON *item = cJSON_CreateObject();
        cJSON_AddNumberToObject(item, "binding", p->bindings[i].binding);
        cJSON_AddStringToObject(item, "type", binding_name(p->bindings[i].descriptorType));
        cJSON_AddNumberToObject(item, "count", p->bindings[i].descriptorCount);
        cJSON_AddItemToArray(list, item);
    }
    for (uint32_t id = 0; id < SPEC_SLOT; id++)
        if (constant_name(id) != NULL && spirv_has_spec_id(&p->module, id))
            cJSON_AddNumberToObject(constants, constant_name(id), p->spec[id]);
    for (uint32_t id = 0; id < RHUMB_VIEW_COUNT; id++) {
        if (p->spec[SPEC_VIEWS] >> id & 1u) {
            cJSON *view = cJSON_AddObjectToObject(views, command_view_name((rhumb_view_id)id));
            cJSON_AddNumberToObject(view, "slot", p->spec[SPEC_SLOT + id]);
            cJSON_AddStringToObject(view, "dtype",
                                    command_dtype_name((rhumb_dtype)p->spec[SPEC_DTYPE + id]));
        }
    }
}

static cJSON *executable_json(const arguments *a, const capture *c, const capture_pipeline *p,
                              const capture_executable *e)
{
    const derived d = derive(c, p, e);
    cJSON *object = cJSON_CreateObject();
    cJSON *statistics;

    cJSON_AddStringToObject(object, "name", e->name);
    cJSON_AddNumberToObject(object, "subgroup_size", e->subgroup_size);
    put_number(object, "registers", d.registers);
    put_number(object, "spills", d.spills);
    put_number(object, "waves", d.waves);
    put_number(object, "lanes_of_a_wave", d.lanes > 0 ? d.lanes : -1.0);
    statistics = cJSON_AddObjectToObject(object, "statistics");
    for (uint32_t i = 0; i < e->statistic_count; i++)
        cJSON_AddNumberToObject(statistics, e->statistics[i].name, e->statistics[i].value);
    if (d.read) {
        cJSON *code = cJSON_AddObjectToObject(object, d.loop ? "key_loop" : "code");
        if (d.loop) {
            cJSON_AddBoolToObject(code, "inner_loops_followed", d.followed);
            cJSON_AddNumberToObject(code, "vector_per_multiply_add", d.vector);
            cJSON_AddNumberToObject(code, "shared_bytes_read_per_multiply_add", d.shared_read);
            cJSON_AddNumberToObject(code, "shared_bytes_written_per_multiply_add", d.shared_written);
        }
        cJSON_AddNumberToObject(code, "barriers", d.barriers);
        put_number(code, "vector_per_global_byte",
                   d.vector_per_byte > 0.0 ? d.vector_per_byte : -1.0);
        put_number(code, "bytes_per_global_access", d.global > 0.0 ? d.global : -1.0);
    }
    if (a->isa && e->code != NULL)
        cJSON_AddStringToObject(object, "isa", e->code);
    return object;
}

static int print_json(const arguments *a, const capture *c, rhumb_op op,
                      const rhumb_plan_properties *properties)
{
    cJSON *object = cJSON_CreateObject();
    cJSON *list;

    cJSON_AddStringToObject(object, "device", c->properties.deviceName);
    cJSON_AddBoolToObject(object, "executable_properties", c->tells);
    cJSON_AddStringToObject(object, "op", command_op_name(op));
    json_put_plan(cJSON_AddObjectToObject(object, "plan"), properties);
    list = cJSON_AddArrayToObject(object, "pipelines");
    for (uint32_t i = 0; i < c->pipeline_count; i++) {
        const capture_pipeline *p = &c->pipelines[i];
        cJSON *item = cJSON_CreateObject(), *executables;
        cJSON_AddStringToObject(item, "kernel", p->kernel);
        cJSON_AddNumberToObject(item, "invocations", p->module.local_size[0]);
        cJSON_AddNumberToObject(item, "shared_bytes", (double)p->module.shared_bytes);
        cJSON_AddNumberToObject(item, "push_bytes", p->push_bytes);
        put_module(item, p);
        executables = cJSON_AddArrayToObject(item, "executables");
        for (uint32_t n = 0; n < p->executable_count; n++)
            cJSON_AddItemToArray(executables, executable_json(a, c, p, &p->executables[n]));
        cJSON_AddItemToArray(list, item);
    }
    return json_print(object);
}

/* ----------------------------------------------------------------------------------------------
 * The command
 */
typedef struct messages {
    uint32_t count; /* of the validation layer */
    char first[GPU_MESSAGE_SIZE];
} messages;

static void on_line(void *user, rhumb_log_level level, const char *line)
{
    messages *m = user;

    (void)level;
    if (starts(line, "validation: ") && m->count++ == 0)
        snprintf(m->first, sizeof m->first, "%s", line);
}

static int show(const arguments *a, const capture *c, const rhumb_plan_info *info)
{
    rhumb_plan *plan = NULL;
    rhumb_plan_properties properties;
    int status = RHUMB_EXIT_OK;

    if (rhumb_create_plan(c->context, info, &plan) != RHUMB_OK)
        return command_error("modules", "%s", rhumb_last_message(c->context));
    rhumb_init_plan_properties(&properties);
    rhumb_get_plan_properties(plan, &properties);
    if (!a->json)
        print_text(a, c, &properties);
    else if (print_json(a, c, info->op, &properties) != 0)
        status = command_error("modules", "no host memory for the JSON");
    rhumb_destroy_plan(plan);
    return status;
}

static int show_on_device(arguments *a, const run_settings *settings, rhumb_plan_info *info)
{
    char error[GPU_MESSAGE_SIZE] = "";
    messages m = {.count = 0};
    capture *c = NULL;
    rhumb_result result;
    int status;

    set_sizes(settings, info);
    a->options.log = on_line;
    a->options.log_user = &m;
    result = capture_open(&a->options, &c, error, sizeof error);
    if (result != RHUMB_OK) {
        (void)command_device_error(&a->options, result, error, sizeof error);
        return command_error("modules", "%s", error);
    }
    status = show(a, c, info);
    capture_close(c);
    return m.count == 0 ? status
                        : command_error("modules", "%u validation messages, the first: %s", m.count,
                                        m.first);
}

static int show_layer(arguments *a, run_settings *settings, rhumb_plan_info *info)
{
    describe_report *report = calloc(1, sizeof *report);
    char message[DESCRIBE_MESSAGE_BYTES] = "";
    const rhumb_layer_kind *kind = NULL;
    const char *beyond = NULL;
    int status;

    if (report == NULL)
        return command_error("modules", "no host memory");
    if (describe_model_file(a->config, report) == RHUMB_OK) {
        kind = describe_kind(report, a->kind, message, sizeof message);
        beyond = kind != NULL ? describe_beyond(kind, info->op) : NULL;
    }
    if (report->result != RHUMB_OK) {
        status = command_error("modules", "%s", report->message);
    } else if (kind == NULL) {
        status = command_usage_error("modules", "%s", message);
    } else if (beyond != NULL) {
        status = command_error("modules", "layers of kind \"%s\" have %s: not done here yet",
                               kind->name, beyond);
    } else {
        run_settings_layer(kind, info->op, settings);
        status = show_on_device(a, settings, info);
    }
    describe_free(report);
    free(report);
    return status;
}

int rhumb_command_modules(int argc, char **argv)
{
    arguments a = {.config = NULL};
    rhumb_limits floor_limits;
    rhumb_plan_info info;
    run_settings settings;
    tensor_error error = {.line = ""};
    command_line line;
    int status;

    read_arguments(argc, argv, &line, &a);
    if (line.error[0] != '\0')
        return command_usage_error("modules", "%s", line.error);
    if (a.help) {
        fputs(usage, stdout);
        return RHUMB_EXIT_OK;
    }
    rhumb_init_limits_floor(&floor_limits);
    if (a.floor)
        a.options.clamp = &floor_limits;
    if (!read_plan(&a, &settings, &info, &error))
        status = command_usage_error("modules", "%s", error.line);
    else
        status = a.config != NULL ? show_layer(&a, &settings, &info)
                                  : show_on_device(&a, &settings, &info);
    run_settings_free(&settings);
    return status;
}
