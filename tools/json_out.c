#include "json_out.h"

#include "command_line.h"

#include <stdio.h>
#include <stdlib.h>

const char *json_uuid_text(const uint8_t uuid[VK_UUID_SIZE], char *text, size_t size)
{
    size_t length = 0;

    for (uint32_t i = 0; i < VK_UUID_SIZE && length + 4 < size; i++) {
        const char *dash = i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "";
        length += (size_t)snprintf(text + length, size - length, "%s%02x", dash, uuid[i]);
    }
    return text;
}

static void put_version(cJSON *object, const char *name, uint32_t version)
{
    char text[32];

    snprintf(text, sizeof text, "%u.%u.%u", VK_API_VERSION_MAJOR(version),
             VK_API_VERSION_MINOR(version), VK_API_VERSION_PATCH(version));
    cJSON_AddStringToObject(object, name, text);
}

void json_put_device(cJSON *object, const gpu *g)
{
    char uuid[40];

    cJSON_AddStringToObject(object, "name", g->properties.deviceName);
    cJSON_AddStringToObject(object, "type", gpu_device_type_name(g->properties.deviceType));
    put_version(object, "api_version", g->properties.apiVersion);
    cJSON_AddNumberToObject(object, "driver_version", (double)g->properties.driverVersion);
    cJSON_AddNumberToObject(object, "vendor_id", (double)g->properties.vendorID);
    cJSON_AddStringToObject(object, "driver", g->driver);
    cJSON_AddStringToObject(object, "driver_info", g->driver_info);
    cJSON_AddStringToObject(object, "uuid", json_uuid_text(g->device_uuid, uuid, sizeof uuid));
}

void json_put_limits(cJSON *object, const rhumb_limits *limits)
{
    cJSON_AddNumberToObject(object, "max_invocations", (double)limits->max_invocations);
    cJSON_AddNumberToObject(object, "max_shared_bytes", (double)limits->max_shared_bytes);
    cJSON_AddNumberToObject(object, "max_push_bytes", (double)limits->max_push_bytes);
    cJSON_AddNumberToObject(object, "max_storage_buffers", (double)limits->max_storage_buffers);
    cJSON_AddNumberToObject(object, "max_uniform_range", (double)limits->max_uniform_range);
    cJSON_AddNumberToObject(object, "storage_offset_alignment",
                            (double)limits->storage_offset_alignment);
    cJSON_AddNumberToObject(object, "uniform_offset_alignment",
                            (double)limits->uniform_offset_alignment);
    cJSON_AddNumberToObject(object, "max_workgroups_x", (double)limits->max_workgroups_x);
    cJSON_AddNumberToObject(object, "max_workgroups_y", (double)limits->max_workgroups_y);
    cJSON_AddNumberToObject(object, "subgroup_size", (double)limits->subgroup_size);
    cJSON_AddNumberToObject(object, "subgroup_operations", (double)limits->subgroup_operations);
    cJSON_AddNumberToObject(object, "max_storage_range", (double)limits->max_storage_range);
}

void json_put_plan(cJSON *object, const rhumb_plan_properties *properties)
{
    cJSON_AddStringToObject(object, "variant", command_variant_name(properties->variant));
    cJSON_AddStringToObject(object, "reason", properties->reason);
    cJSON_AddNumberToObject(object, "pipelines", (double)properties->pipeline_count);
    cJSON_AddNumberToObject(object, "invocations", (double)properties->invocations);
    cJSON_AddNumberToObject(object, "shared_bytes", (double)properties->shared_bytes);
    cJSON_AddNumberToObject(object, "rows_per_group", (double)properties->rows_per_group);
    cJSON_AddNumberToObject(object, "keys_per_step", (double)properties->keys_per_step);
    cJSON_AddNumberToObject(object, "slots", (double)properties->slot_count);
    cJSON_AddNumberToObject(object, "flops", (double)properties->flops);
    cJSON_AddNumberToObject(object, "bytes", (double)properties->bytes);
}

int json_print(cJSON *object)
{
    char *text = cJSON_Print(object);
    int result = -1;

    if (text != NULL) {
        printf("%s\n", text);
        result = 0;
    }
    cJSON_free(text);
    cJSON_Delete(object);
    return result;
}
