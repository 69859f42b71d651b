/* Opens rhumb's plugin build at run time, on POSIX systems and Windows. Header-only, C and C++; the
 * host links nothing of rhumb.
 *
 *     rhumb_loader loader;
 *     const rhumb_api *api;
 *     if (rhumb_loader_open(&loader, "plugins/rhumb_plugin.so", RHUMB_VERSION_MAJOR, &api) !=
 *         RHUMB_OK)
 *         puts(loader.message);
 *     ...
 *     rhumb_loader_close(&loader);   after the last context has been destroyed
 *
 * On glibc before 2.34 link with -ldl.
 */
#ifndef RHUMB_LOADER_H
#define RHUMB_LOADER_H

#include "rhumb.h"

#include <stdio.h>

#if defined(_WIN32)
#ifndef WIN32_LEAN_AND_MEAN
#define WIN32_LEAN_AND_MEAN
#endif
#include <windows.h>
#else
#include <dlfcn.h>
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* One opened plugin. Filled by rhumb_loader_open; plain data, may be copied.
 * Thread-safety: one thread at a time for one loader. */
typedef struct rhumb_loader {
    void *library;     /* NULL: not open */
    char message[512]; /* one line after an error, else empty */
} rhumb_loader;

/* Releases the library; the function table and all code are gone afterwards. A loader that is not
 * open, or zeroed, is allowed. */
static inline void rhumb_loader_close(rhumb_loader *loader)
{
    if (loader->library != NULL) {
#if defined(_WIN32)
        FreeLibrary((HMODULE)loader->library);
#else
        dlclose(loader->library);
#endif
    }
    loader->library = NULL;
}

/* Opens the library at `path` (as dlopen or LoadLibrary take it) and asks it for the table of
 * `abi_major`: pass RHUMB_VERSION_MAJOR. On success *api is valid until rhumb_loader_close. A
 * library newer than the host may have more entries than the host knows; one that is older has
 * fewer: struct_size says how many bytes exist.
 * Errors: ARGUMENT (no such library, or it exports no rhumb_get_api), VERSION (another
 * major version). Then *api is NULL, nothing is open and loader->message has the reason. */
static inline rhumb_result rhumb_loader_open(rhumb_loader *loader, const char *path,
                                             uint32_t abi_major, const rhumb_api **api)
{
    rhumb_get_api_fn get_api = NULL;
    *api = NULL;
    loader->library = NULL;
    loader->message[0] = '\0';
#if defined(_WIN32)
    {
        HMODULE module = LoadLibraryA(path);
        FARPROC symbol = module != NULL ? GetProcAddress(module, "rhumb_get_api") : NULL;
        loader->library = (void *)module;
        memcpy(&get_api, &symbol, sizeof get_api);
        if (module == NULL) {
            snprintf(loader->message, sizeof loader->message,
                     "rhumb loader: cannot open %.240s: error %lu", path,
                     (unsigned long)GetLastError());
        }
    }
#else
    {
        const char *reason;
        void *symbol;
        loader->library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
        reason = loader->library == NULL ? dlerror() : NULL;
        symbol = loader->library != NULL ? dlsym(loader->library, "rhumb_get_api") : NULL;
        memcpy(&get_api, &symbol, sizeof get_api);
        if (loader->library == NULL) {
            snprintf(loader->message, sizeof loader->message,
                     "rhumb loader: cannot open %.240s: %.200s", path,
                     reason != NULL ? reason : "no reason given");
        }
    }
#endif
    if (loader->library == NULL) {
        return RHUMB_ERROR_ARGUMENT;
    }
    if (get_api == NULL) {
        snprintf(loader->message, sizeof loader->message,
                 "rhumb loader: %.240s exports no rhumb_get_api", path);
        rhumb_loader_close(loader);
        return RHUMB_ERROR_ARGUMENT;
    }
    *api = get_api(abi_major);
    if (*api == NULL) {
        snprintf(loader->message, sizeof loader->message,
                 "rhumb loader: %.240s has another major version than %u", path,
                 (unsigned)abi_major);
        rhumb_loader_close(loader);
        return RHUMB_ERROR_VERSION;
    }
    return RHUMB_OK;
}

#ifdef __cplusplus
}
#endif

#endif /* RHUMB_LOADER_H */
