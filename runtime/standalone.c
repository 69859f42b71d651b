/* Standalone contexts: an instance and a device of rhumb's own, for tools, tests and benchmarks.
 * The loader is opened at run time, so that the library has no link dependency on it. */
#include "internal.h"

#include <ctype.h>
#include <stdio.h>

#if defined(_WIN32)
#include <windows.h>
#else
#include <dlfcn.h>
#endif

struct standalone {
    void *loader; /* NULL where the caller gave get_instance_proc_addr */
    PFN_vkGetInstanceProcAddr get;
    PFN_vkDestroyInstance destroy_instance;
    PFN_vkDestroyDevice destroy_device;
    PFN_vkDeviceWaitIdle wait_idle;
    PFN_vkDestroyDebugUtilsMessengerEXT destroy_messenger;
    VkInstance instance;
    VkDevice device;
    VkDebugUtilsMessengerEXT messenger;
    rhumb_log_fn log;
    void *log_user;
    void (*release)(void *user, void *memory);
    void *release_user;
    uint32_t device_address; /* 1: the feature bufferDeviceAddress is on */
};

/* A Vulkan function by name; the bytes are copied, as ISO C has no conversion between the types. */
static bool load(const struct standalone *s, VkInstance instance, const char *name, void *function,
                 size_t size)
{
    PFN_vkVoidFunction found = s->get(instance, name);
    memcpy(function, &found, size);
    return found != NULL;
}
#define LOAD(s, instance, name)                                                                    \
    PFN_##name name = NULL;                                                                        \
    load(s, instance, #name, &name, sizeof name)

#if defined(_WIN32)
static void *open_loader(void)
{
    return LoadLibraryA("vulkan-1.dll");
}

static bool find_entry(void *loader, PFN_vkGetInstanceProcAddr *get)
{
    FARPROC found = GetProcAddress(loader, "vkGetInstanceProcAddr");
    memcpy(get, &found, sizeof found);
    return found != NULL;
}

static void close_loader(void *loader)
{
    FreeLibrary(loader);
}
#else
static void *open_loader(void)
{
    static const char *const names[] = {"libvulkan.so.1", "libvulkan.so", "libvulkan.1.dylib",
                                        "libMoltenVK.dylib"};
    void *loader = NULL;
    for (size_t i = 0; i < sizeof names / sizeof names[0] && !loader; i++)
        loader = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
    return loader;
}

static bool find_entry(void *loader, PFN_vkGetInstanceProcAddr *get)
{
    void *found = dlsym(loader, "vkGetInstanceProcAddr");
    memcpy(get, &found, sizeof found);
    return found != NULL;
}

static void close_loader(void *loader)
{
    dlclose(loader);
}
#endif

static VKAPI_ATTR VkBool32 VKAPI_CALL on_message(VkDebugUtilsMessageSeverityFlagBitsEXT severity,
                                                 VkDebugUtilsMessageTypeFlagsEXT types,
                                                 const VkDebugUtilsMessengerCallbackDataEXT *data,
                                                 void *user)
{
    const struct standalone *s = user;
    char line[2048];
    (void)severity;
    (void)types;
    snprintf(line, sizeof line, "validation: %s", data->pMessage);
    if (s->log)
        s->log(s->log_user, RHUMB_LOG_ERROR, line);
    return VK_FALSE;
}

static rhumb_result create_instance(struct standalone *s, const rhumb_standalone_info *info)
{
    static const char *const layers[] = {"VK_LAYER_KHRONOS_validation"};
    static const char *const extensions[] = {VK_EXT_DEBUG_UTILS_EXTENSION_NAME,
                                             VK_EXT_VALIDATION_FEATURES_EXTENSION_NAME};
    static const VkValidationFeatureEnableEXT enables[] = {
        VK_VALIDATION_FEATURE_ENABLE_SYNCHRONIZATION_VALIDATION_EXT};
    const VkDebugUtilsMessengerCreateInfoEXT messenger = {
        .sType = VK_STRUCTURE_TYPE_DEBUG_UTILS_MESSENGER_CREATE_INFO_EXT,
        .messageSeverity = VK_DEBUG_UTILS_MESSAGE_SEVERITY_WARNING_BIT_EXT |
                           VK_DEBUG_UTILS_MESSAGE_SEVERITY_ERROR_BIT_EXT,
        /* Not GENERAL: there the loader tells of its own doings. */
        .messageType = VK_DEBUG_UTILS_MESSAGE_TYPE_VALIDATION_BIT_EXT |
                       VK_DEBUG_UTILS_MESSAGE_TYPE_PERFORMANCE_BIT_EXT,
        .pfnUserCallback = on_message,
        .pUserData = s,
    };
    const VkValidationFeaturesEXT features = {
        .sType = VK_STRUCTURE_TYPE_VALIDATION_FEATURES_EXT,
        .pNext = &messenger,
        .enabledValidationFeatureCount = 1,
        .pEnabledValidationFeatures = enables,
    };
    const VkApplicationInfo application = {
        .sType = VK_STRUCTURE_TYPE_APPLICATION_INFO,
        .pApplicationName = "rhumb",
        .apiVersion = VK_API_VERSION_1_1,
    };
    const VkInstanceCreateInfo create = {
        .sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO,
        .pNext = info->validation ? &features : NULL,
        .pApplicationInfo = &application,
        .enabledLayerCount = info->validation ? 1 : 0,
        .ppEnabledLayerNames = layers,
        .enabledExtensionCount = info->validation ? 2 : 0,
        .ppEnabledExtensionNames = extensions,
    };
    LOAD(s, VK_NULL_HANDLE, vkCreateInstance);
    if (!vkCreateInstance)
        return rhumb_fail(NULL, RHUMB_ERROR_NO_DEVICE,
                          "create_standalone: the loader has no vkCreateInstance");
    VkResult result = vkCreateInstance(&create, NULL, &s->instance);
    if (result == VK_ERROR_INCOMPATIBLE_DRIVER) {
        s->instance = VK_NULL_HANDLE;
        return rhumb_fail(NULL, RHUMB_ERROR_NO_DEVICE,
                          "create_standalone: wanted a Vulkan driver, the loader found none");
    }
    if (result != VK_SUCCESS) {
        s->instance = VK_NULL_HANDLE;
        return rhumb_fail(NULL,
                          result == VK_ERROR_OUT_OF_HOST_MEMORY ? RHUMB_ERROR_HOST_MEMORY
                                                                : RHUMB_ERROR_NO_DEVICE,
                          "create_standalone: vkCreateInstance%s: VkResult %d",
                          info->validation ? " with the validation layer" : "", (int)result);
    }
    load(s, s->instance, "vkDestroyInstance", &s->destroy_instance, sizeof s->destroy_instance);
    if (!info->validation)
        return RHUMB_OK;
    LOAD(s, s->instance, vkCreateDebugUtilsMessengerEXT);
    load(s, s->instance, "vkDestroyDebugUtilsMessengerEXT", &s->destroy_messenger,
         sizeof s->destroy_messenger);
    if (!vkCreateDebugUtilsMessengerEXT ||
        vkCreateDebugUtilsMessengerEXT(s->instance, &messenger, NULL, &s->messenger) != VK_SUCCESS)
        return rhumb_fail(NULL, RHUMB_ERROR_VULKAN, "create_standalone: no debug messenger");
    return RHUMB_OK;
}

/* ---- The device */
static int rank_of(VkPhysicalDeviceType type)
{
    switch (type) {
    case VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU: return 4;
    case VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU: return 3;
    case VK_PHYSICAL_DEVICE_TYPE_VIRTUAL_GPU: return 2;
    case VK_PHYSICAL_DEVICE_TYPE_CPU: return 1;
    default: return 0;
    }
}

static bool contains(const char *text, const char *part)
{
    size_t length = strlen(part);
    for (; strlen(text) >= length; text++) {
        size_t i = 0;
        while (i < length && tolower((unsigned char)text[i]) == tolower((unsigned char)part[i]))
            i++;
        if (i == length)
            return true;
    }
    return false;
}

static bool name_matches(const struct standalone *s, VkPhysicalDevice device, const char *part)
{
    VkPhysicalDeviceIDProperties id = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_ID_PROPERTIES};
    VkPhysicalDeviceProperties2 properties = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2, .pNext = &id};
    char uuid[2 * VK_UUID_SIZE + 1] = "";
    LOAD(s, s->instance, vkGetPhysicalDeviceProperties2);
    vkGetPhysicalDeviceProperties2(device, &properties);
    for (size_t i = 0; i < VK_UUID_SIZE; i++)
        snprintf(uuid + 2 * i, 3, "%02x", id.deviceUUID[i]);
    return contains(properties.properties.deviceName, part) || contains(uuid, part);
}

static bool find_queue(const struct standalone *s, VkPhysicalDevice device, uint32_t *family)
{
    VkQueueFamilyProperties families[32];
    uint32_t count = 32;
    LOAD(s, s->instance, vkGetPhysicalDeviceQueueFamilyProperties);
    vkGetPhysicalDeviceQueueFamilyProperties(device, &count, families);
    for (uint32_t i = 0; i < count; i++) {
        if (families[i].queueCount && (families[i].queueFlags & VK_QUEUE_COMPUTE_BIT)) {
            *family = i;
            return true;
        }
    }
    return false;
}

#define MAX_DEVICES 64

static rhumb_result choose_device(const struct standalone *s, const rhumb_standalone_info *info,
                                  VkPhysicalDevice *chosen, uint32_t *family)
{
    VkPhysicalDevice devices[MAX_DEVICES];
    uint32_t count = MAX_DEVICES;
    int best = -1;
    LOAD(s, s->instance, vkEnumeratePhysicalDevices);
    LOAD(s, s->instance, vkGetPhysicalDeviceProperties);
    VkResult result = vkEnumeratePhysicalDevices(s->instance, &count, devices);
    if (result != VK_SUCCESS && result != VK_INCOMPLETE)
        return rhumb_fail(NULL, RHUMB_ERROR_NO_DEVICE,
                          "create_standalone: vkEnumeratePhysicalDevices: VkResult %d",
                          (int)result);
    for (uint32_t i = 0; i < count; i++) {
        VkPhysicalDeviceProperties properties;
        uint32_t queue = 0;
        vkGetPhysicalDeviceProperties(devices[i], &properties);
        if ((info->device_index != RHUMB_DEVICE_ANY && info->device_index != i) ||
            properties.apiVersion < VK_API_VERSION_1_1 || !find_queue(s, devices[i], &queue) ||
            (info->device_name && !name_matches(s, devices[i], info->device_name)))
            continue;
        if (rank_of(properties.deviceType) > best) {
            best = rank_of(properties.deviceType);
            *chosen = devices[i];
            *family = queue;
        }
    }
    if (best >= 0)
        return RHUMB_OK;
    char wanted[128] = "any device";
    if (info->device_name)
        snprintf(wanted, sizeof wanted, "a device with \"%.80s\" in its name or UUID",
                 info->device_name);
    else if (info->device_index != RHUMB_DEVICE_ANY)
        snprintf(wanted, sizeof wanted, "device %u", info->device_index);
    return rhumb_fail(
        NULL, RHUMB_ERROR_NO_DEVICE,
        "create_standalone: wanted %s with Vulkan 1.1 and a compute queue, found none among %u",
        wanted, count);
}

static bool has_device_address(const struct standalone *s, VkPhysicalDevice physical)
{
    VkExtensionProperties extensions[512];
    uint32_t count = 512;
    VkPhysicalDeviceBufferDeviceAddressFeatures address = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_BUFFER_DEVICE_ADDRESS_FEATURES};
    VkPhysicalDeviceFeatures2 features = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2,
                                          .pNext = &address};
    LOAD(s, s->instance, vkEnumerateDeviceExtensionProperties);
    LOAD(s, s->instance, vkGetPhysicalDeviceFeatures2);
    VkResult result = vkEnumerateDeviceExtensionProperties(physical, NULL, &count, extensions);
    bool found = false;
    for (uint32_t i = 0; (result == VK_SUCCESS || result == VK_INCOMPLETE) && i < count; i++)
        found |= !strcmp(extensions[i].extensionName, VK_KHR_BUFFER_DEVICE_ADDRESS_EXTENSION_NAME);
    if (found)
        vkGetPhysicalDeviceFeatures2(physical, &features);
    return found && address.bufferDeviceAddress && features.features.shaderInt64;
}

static rhumb_result create_device(struct standalone *s, VkPhysicalDevice physical, uint32_t family)
{
    static const char *const extension = VK_KHR_BUFFER_DEVICE_ADDRESS_EXTENSION_NAME;
    const VkPhysicalDeviceBufferDeviceAddressFeatures address = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_BUFFER_DEVICE_ADDRESS_FEATURES,
        .bufferDeviceAddress = VK_TRUE};
    const VkPhysicalDeviceFeatures wanted = {.shaderInt64 = VK_TRUE};
    s->device_address = has_device_address(s, physical);
    const float priority = 1.0f;
    const VkDeviceQueueCreateInfo queue = {
        .sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO,
        .queueFamilyIndex = family,
        .queueCount = 1,
        .pQueuePriorities = &priority,
    };
    const VkDeviceCreateInfo create = {
        .sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO,
        .pNext = s->device_address ? &address : NULL,
        .queueCreateInfoCount = 1,
        .pQueueCreateInfos = &queue,
        .enabledExtensionCount = s->device_address,
        .ppEnabledExtensionNames = &extension,
        .pEnabledFeatures = s->device_address ? &wanted : NULL,
    };
    LOAD(s, s->instance, vkCreateDevice);
    VkResult result = vkCreateDevice(physical, &create, NULL, &s->device);
    if (result != VK_SUCCESS) {
        s->device = VK_NULL_HANDLE;
        return rhumb_fail(NULL,
                          result == VK_ERROR_OUT_OF_HOST_MEMORY ? RHUMB_ERROR_HOST_MEMORY
                                                                : RHUMB_ERROR_VULKAN,
                          "create_standalone: vkCreateDevice: VkResult %d", (int)result);
    }
    load(s, s->instance, "vkDestroyDevice", &s->destroy_device, sizeof s->destroy_device);
    load(s, s->instance, "vkDeviceWaitIdle", &s->wait_idle, sizeof s->wait_idle);
    return RHUMB_OK;
}

static void destroy(void *state)
{
    struct standalone *s = state;
    if (s->device) {
        s->wait_idle(s->device);
        s->destroy_device(s->device, NULL);
    }
    if (s->messenger)
        s->destroy_messenger(s->instance, s->messenger, NULL);
    if (s->instance)
        s->destroy_instance(s->instance, NULL);
    if (s->loader)
        close_loader(s->loader);
    s->release(s->release_user, s);
}

static rhumb_result open_state(const rhumb_standalone_info *info, struct standalone **out)
{
    rhumb_allocator allocator;
    RHUMB_TRY(rhumb_adopt_allocator("create_standalone", info->allocator, &allocator));
    struct standalone *s = allocator.allocate(allocator.user, sizeof *s);
    if (!s)
        return rhumb_fail(NULL, RHUMB_ERROR_HOST_MEMORY,
                          "create_standalone: no host memory for %zu bytes", sizeof *s);
    memset(s, 0, sizeof *s);
    s->release = allocator.release;
    s->release_user = allocator.user;
    s->log = info->log;
    s->log_user = info->log_user;
    s->get = info->get_instance_proc_addr;
    *out = s;
    if (s->get)
        return RHUMB_OK;
    s->loader = open_loader();
    if (!s->loader || !find_entry(s->loader, &s->get))
        return rhumb_fail(NULL, RHUMB_ERROR_NO_DEVICE,
                          "create_standalone: found no Vulkan loader on this machine");
    return RHUMB_OK;
}

rhumb_result rhumb_create_standalone(const rhumb_standalone_info *given, rhumb_context **out)
{
    static const char *const debug_utils[] = {VK_EXT_DEBUG_UTILS_EXTENSION_NAME};
    rhumb_standalone_info info;
    rhumb_hosted_info hosted;
    struct standalone *s = NULL;
    VkPhysicalDevice physical = VK_NULL_HANDLE;
    uint32_t family = 0;
    rhumb_init_standalone_info(&info);
    rhumb_init_hosted_info(&hosted);
    if (!out)
        return rhumb_fail(NULL, RHUMB_ERROR_ARGUMENT,
                          "create_standalone: context: wanted a pointer, found NULL");
    *out = NULL;
    RHUMB_TRY(rhumb_adopt(NULL, "create_standalone", "rhumb_standalone_info", given,
                          RHUMB_TYPE_STANDALONE_INFO, &info, sizeof info));
    rhumb_result result = open_state(&info, &s);
    if (result == RHUMB_OK)
        result = create_instance(s, &info);
    if (result == RHUMB_OK)
        result = choose_device(s, &info, &physical, &family);
    if (result == RHUMB_OK)
        result = create_device(s, physical, family);
    if (result == RHUMB_OK) {
        hosted.instance = s->instance;
        hosted.physical_device = physical;
        hosted.device = s->device;
        hosted.get_instance_proc_addr = s->get;
        /* The instance was made for 1.1: that is what may be used. */
        hosted.api_version = VK_API_VERSION_1_1;
        hosted.enabled_extensions = debug_utils;
        hosted.enabled_extension_count = info.validation ? 1 : 0;
        hosted.device_address = s->device_address;
        hosted.clamp = info.clamp;
        hosted.allocator = info.allocator;
        hosted.log = info.log;
        hosted.log_user = info.log_user;
        result = rhumb_create_hosted(&hosted, out);
    }
    if (result != RHUMB_OK) {
        if (s)
            destroy(s);
        return result;
    }
    PFN_vkGetDeviceQueue vkGetDeviceQueue = NULL;
    load(s, s->instance, "vkGetDeviceQueue", &vkGetDeviceQueue, sizeof vkGetDeviceQueue);
    vkGetDeviceQueue(s->device, family, 0, &(*out)->queue);
    (*out)->queue_family = family;
    (*out)->destroy_device = destroy;
    (*out)->device_state = s;
    return RHUMB_OK;
}
