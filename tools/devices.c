#include "command_line.h"
#include "commands.h"
#include "json_out.h"

#include <stdio.h>

#define MAX_DEVICES 64u

static const char usage[] =
    "usage: rhumb devices [--device INDEX|NAME|UUID] [--floor] [--validation] [--json]\n\n"
    "Lists the Vulkan devices in the loader's order with the limits that rhumb sees, and for "
    "typical\n"
    "shapes of rotate and attention the variant that they would take and why. The other\n"
    "operations have one each.\n\n"
    "  --device      only this one: an index of the list, or part of a name or UUID\n"
    "  --floor       as if each were the smallest device that rhumb is right on\n"
    "  --validation  opens each with the validation layer\n"
    "  --json        the same as JSON: an array with one object a device\n"
    "  --help        this text\n\n"
    "Exit status: 0 a device could be shown, 1 none could, 2 wrong arguments.\n";

/* A shape that somebody runs: Llama-like, but for head_dim. */
typedef struct sample {
    const char *name;
    rhumb_op op;
    uint32_t head_dim;
    uint32_t q_length;
    uint32_t k_length;
} sample;

static const sample samples[] = {
    {"rotate, head_dim 128", RHUMB_OP_ROTATE, 128, 512, 512},
    {"attention prefill, head_dim 64", RHUMB_OP_ATTENTION, 64, 512, 512},
    {"attention prefill, head_dim 80", RHUMB_OP_ATTENTION, 80, 512, 512},
    {"attention prefill, head_dim 96", RHUMB_OP_ATTENTION, 96, 512, 512},
    {"attention prefill, head_dim 128", RHUMB_OP_ATTENTION, 128, 512, 512},
    {"attention prefill, head_dim 256", RHUMB_OP_ATTENTION, 256, 512, 512},
    {"attention prefill, head_dim 111", RHUMB_OP_ATTENTION, 111, 512, 512},
    {"attention decode, head_dim 64", RHUMB_OP_ATTENTION, 64, 1, 4096},
    {"attention decode, head_dim 80", RHUMB_OP_ATTENTION, 80, 1, 4096},
    {"attention decode, head_dim 96", RHUMB_OP_ATTENTION, 96, 1, 4096},
    {"attention decode, head_dim 128", RHUMB_OP_ATTENTION, 128, 1, 4096},
    {"attention decode, head_dim 256", RHUMB_OP_ATTENTION, 256, 1, 4096},
    {"attention decode, head_dim 111", RHUMB_OP_ATTENTION, 111, 1, 4096},
};

#define SAMPLE_COUNT (sizeof samples / sizeof samples[0])

static rhumb_result query_sample(gpu *g, const sample *s, rhumb_plan_properties *properties)
{
    rhumb_plan_info info;
    rhumb_rope rope;

    rhumb_init_rope(&rope);
    rhumb_init_plan_info(&info, s->op);
    info.heads = 32;
    info.kv_heads = 8;
    info.head_dim = s->head_dim;
    info.max_q_length = s->q_length;
    info.max_k_length = s->k_length;
    info.views = RHUMB_VIEW_BIT(RHUMB_VIEW_Q) | RHUMB_VIEW_BIT(RHUMB_VIEW_K);
    if (s->op == RHUMB_OP_ROTATE) {
        info.rotary = &rope;
        info.views |= RHUMB_VIEW_BIT(RHUMB_VIEW_Q_OUT) | RHUMB_VIEW_BIT(RHUMB_VIEW_K_OUT);
    } else {
        info.views |= RHUMB_VIEW_BIT(RHUMB_VIEW_V) | RHUMB_VIEW_BIT(RHUMB_VIEW_O);
    }
    rhumb_init_plan_properties(properties);
    return rhumb_query_plan(g->context, &info, properties);
}

static void print_limits(const rhumb_limits *limits)
{
    printf("  limits    %u invocations, %u bytes shared, %u bytes push, %u storage buffers of %llu "
           "bytes\n",
           limits->max_invocations, limits->max_shared_bytes, limits->max_push_bytes,
           limits->max_storage_buffers, (unsigned long long)limits->max_storage_range);
    printf("            offset alignment %u storage, %u uniform; uniform range %u; work groups %u "
           "x %u\n",
           limits->storage_offset_alignment, limits->uniform_offset_alignment,
           limits->max_uniform_range, limits->max_workgroups_x, limits->max_workgroups_y);
    printf("            subgroup of %u, operations 0x%x\n", limits->subgroup_size,
           limits->subgroup_operations);
}

static void print_device(uint32_t index, gpu *g, const rhumb_limits *limits)
{
    char uuid[40];
    const uint32_t api = g->properties.apiVersion;

    if (index != RHUMB_DEVICE_ANY)
        printf("%u: ", index);
    printf("%s\n", g->properties.deviceName);
    printf("  type      %s\n", gpu_device_type_name(g->properties.deviceType));
    printf("  driver    %s, version 0x%x\n", g->driver[0] != '\0' ? g->driver : "unnamed",
           g->properties.driverVersion);
    printf("  API       %u.%u.%u\n", VK_API_VERSION_MAJOR(api), VK_API_VERSION_MINOR(api),
           VK_API_VERSION_PATCH(api));
    printf("  UUID      %s\n", json_uuid_text(g->device_uuid, uuid, sizeof uuid));
    printf("  clock     %s\n",
           g->queries != VK_NULL_HANDLE ? "timestamps of the queue" : "of the host");
    print_limits(limits);
    for (size_t i = 0; i < SAMPLE_COUNT; i++) {
        rhumb_plan_properties properties;
        const rhumb_result result = query_sample(g, &samples[i], &properties);
        if (result == RHUMB_OK)
            printf("  %-34s %-8s %s\n", samples[i].name, command_variant_name(properties.variant),
                   properties.reason);
        else
            printf("  %-34s %-8s %s\n", samples[i].name, "none", rhumb_last_message(g->context));
    }
}

static void put_samples(cJSON *object, gpu *g)
{
    cJSON *list = cJSON_AddArrayToObject(object, "operations");

    for (size_t i = 0; i < SAMPLE_COUNT; i++) {
        rhumb_plan_properties properties;
        const rhumb_result result = query_sample(g, &samples[i], &properties);
        cJSON *item = cJSON_CreateObject();
        cJSON_AddStringToObject(item, "op", command_op_name(samples[i].op));
        cJSON_AddNumberToObject(item, "head_dim", (double)samples[i].head_dim);
        cJSON_AddNumberToObject(item, "q_length", (double)samples[i].q_length);
        cJSON_AddNumberToObject(item, "k_length", (double)samples[i].k_length);
        if (result == RHUMB_OK)
            json_put_plan(item, &properties);
        else
            cJSON_AddStringToObject(item, "error", rhumb_last_message(g->context));
        cJSON_AddItemToArray(list, item);
    }
}

static cJSON *device_json(uint32_t index, gpu *g, const rhumb_limits *limits)
{
    cJSON *object = cJSON_CreateObject();

    if (index != RHUMB_DEVICE_ANY)
        cJSON_AddNumberToObject(object, "index", (double)index);
    json_put_device(object, g);
    cJSON_AddStringToObject(object, "clock", g->queries != VK_NULL_HANDLE ? "queue" : "host");
    json_put_limits(cJSON_AddObjectToObject(object, "limits"), limits);
    put_samples(object, g);
    return object;
}

/* Tells of one device; list NULL: as text. error: GPU_MESSAGE_SIZE bytes. */
static rhumb_result show_device(const gpu_options *options, uint32_t index, cJSON *list,
                                char *error)
{
    rhumb_limits limits;
    gpu *g = NULL;
    const rhumb_result result = command_open_device(options, &g, error, GPU_MESSAGE_SIZE);

    if (result != RHUMB_OK)
        return result;
    rhumb_init_limits(&limits);
    rhumb_get_limits(g->context, &limits);
    if (list != NULL)
        cJSON_AddItemToArray(list, device_json(index, g, &limits));
    else
        print_device(index, g, &limits);
    gpu_close(g);
    return RHUMB_OK;
}

/* Returns how many could be shown; the reason why the last one could not is in `error`. */
static uint32_t show_all(gpu_options *options, cJSON *list, char *error)
{
    uint32_t shown = 0;

    for (uint32_t i = 0; i < MAX_DEVICES; i++) {
        char reason[GPU_MESSAGE_SIZE] = "";
        rhumb_result result;
        options->device_index = i;
        result = show_device(options, i, list, reason);
        shown += result == RHUMB_OK;
        if (result == RHUMB_ERROR_NO_DEVICE) { /* the end of the list */
            if (i == 0)
                snprintf(error, GPU_MESSAGE_SIZE, "%.*s", (int)strcspn(reason, ";"), reason);
            break;
        }
        if (result != RHUMB_OK) {
            fprintf(stderr, "rhumb devices: %u: %s\n", i, reason);
            snprintf(error, GPU_MESSAGE_SIZE, "none of the devices can be used");
        }
    }
    return shown;
}

int rhumb_command_devices(int argc, char **argv)
{
    command_line line;
    gpu_options options;
    rhumb_limits floor_limits;
    bool json = false;
    bool floor = false;
    bool help = false;
    char error[GPU_MESSAGE_SIZE] = "";
    cJSON *list = NULL;
    uint32_t shown;

    gpu_init_options(&options);
    command_line_begin(&line, argc, argv);
    while (command_line_more(&line)) {
        if (!command_line_device(&line, &options) && !command_line_flag(&line, "--json", &json) &&
            !command_line_flag(&line, "--floor", &floor) &&
            !command_line_flag(&line, "--help", &help))
            command_line_unknown(&line);
    }
    if (line.error[0] != '\0')
        return command_usage_error("devices", "%s", line.error);
    if (help) {
        fputs(usage, stdout);
        return RHUMB_EXIT_OK;
    }
    rhumb_init_limits_floor(&floor_limits);
    if (floor)
        options.clamp = &floor_limits;
    if (json)
        list = cJSON_CreateArray();
    if (options.device_index != RHUMB_DEVICE_ANY || options.device_name != NULL)
        shown = show_device(&options, options.device_index, list, error) == RHUMB_OK;
    else
        shown = show_all(&options, list, error);
    if (shown == 0) {
        cJSON_Delete(list);
        return command_error("devices", "%s", error);
    }
    if (json && json_print(list) != 0)
        return command_error("devices", "no host memory for the JSON");
    return RHUMB_EXIT_OK;
}
