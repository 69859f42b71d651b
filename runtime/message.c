/* Messages: the last error line of each thread, and the host's log. */
#include "internal.h"

#include <stdarg.h>
#include <stdio.h>

#define MESSAGE_SIZE 512

/* The only file-scope data of the library that changes: it belongs to one thread. */
static _Thread_local char last_message[MESSAGE_SIZE];
static _Thread_local const rhumb_context *last_context;

static void write_log(const rhumb_context *context, rhumb_log_level level, const char *line)
{
    if (context && context->log)
        context->log(context->log_user, level, line);
}

rhumb_result rhumb_fail(const rhumb_context *context, rhumb_result code, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(last_message, sizeof last_message, format, arguments);
    va_end(arguments);
    last_context = context;
    write_log(context, RHUMB_LOG_ERROR, last_message);
    return code;
}

void rhumb_log(const rhumb_context *context, rhumb_log_level level, const char *format, ...)
{
    char line[MESSAGE_SIZE];
    va_list arguments;
    if (!context || !context->log)
        return;
    va_start(arguments, format);
    vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    write_log(context, level, line);
}

rhumb_result rhumb_fail_vk(rhumb_context *context, VkResult result, const char *what)
{
    switch (result) {
    case VK_ERROR_OUT_OF_HOST_MEMORY:
        return rhumb_fail(context, RHUMB_ERROR_HOST_MEMORY, "%s: the driver is out of host memory",
                          what);
    case VK_ERROR_OUT_OF_DEVICE_MEMORY:
    case VK_ERROR_OUT_OF_POOL_MEMORY:
    case VK_ERROR_FRAGMENTED_POOL:
        return rhumb_fail(context, RHUMB_ERROR_DEVICE_MEMORY,
                          "%s: the driver is out of device memory", what);
    case VK_ERROR_DEVICE_LOST:
        atomic_store(&context->device_lost, true);
        return rhumb_fail(context, RHUMB_ERROR_DEVICE_LOST, "%s: the device is lost", what);
    default: return rhumb_fail(context, RHUMB_ERROR_VULKAN, "%s: VkResult %d", what, (int)result);
    }
}

const char *rhumb_last_message(const rhumb_context *context)
{
    return last_context == context ? last_message : "";
}

const char *rhumb_result_name(rhumb_result result)
{
    switch (result) {
    case RHUMB_OK: return "RHUMB_OK";
    case RHUMB_ERROR_ARGUMENT: return "RHUMB_ERROR_ARGUMENT";
    case RHUMB_ERROR_VERSION: return "RHUMB_ERROR_VERSION";
    case RHUMB_ERROR_UNSUPPORTED: return "RHUMB_ERROR_UNSUPPORTED";
    case RHUMB_ERROR_LIMIT: return "RHUMB_ERROR_LIMIT";
    case RHUMB_ERROR_HOST_MEMORY: return "RHUMB_ERROR_HOST_MEMORY";
    case RHUMB_ERROR_DEVICE_MEMORY: return "RHUMB_ERROR_DEVICE_MEMORY";
    case RHUMB_ERROR_DEVICE_LOST: return "RHUMB_ERROR_DEVICE_LOST";
    case RHUMB_ERROR_VULKAN: return "RHUMB_ERROR_VULKAN";
    case RHUMB_ERROR_NO_DEVICE: return "RHUMB_ERROR_NO_DEVICE";
    case RHUMB_ERROR_CONFIG: return "RHUMB_ERROR_CONFIG";
    }
    return "unknown rhumb_result";
}
