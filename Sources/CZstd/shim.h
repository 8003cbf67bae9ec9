// libzstd's streams. The library is loaded when an input needs it: each Debian has it, because dpkg does, but not its headers.
// The declarations are those of zstd.h, whose interface for streams has not changed since version 1.0.
#ifndef BROKER_CZSTD_SHIM_H
#define BROKER_CZSTD_SHIM_H

#include <dlfcn.h>
#include <stddef.h>

struct broker_zstd_input {
    const void *start;
    size_t size;
    size_t position;
};

struct broker_zstd_output {
    void *start;
    size_t size;
    size_t position;
};

struct broker_zstd {
    void *(*make)(void);
    size_t (*release)(void *stream);
    size_t (*unpack)(void *stream, struct broker_zstd_output *output, struct broker_zstd_input *input);
    unsigned (*is_error)(size_t result);
    const char *(*error_name)(size_t result);
};

/// Fills in the functions, and returns 0 where there is no such library.
static inline int broker_zstd_load(struct broker_zstd *functions) {
    void *library = dlopen("libzstd.so.1", RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) { return 0; }
    functions->make = (void *(*)(void))dlsym(library, "ZSTD_createDStream");
    functions->release = (size_t (*)(void *))dlsym(library, "ZSTD_freeDStream");
    functions->unpack = (size_t (*)(void *, struct broker_zstd_output *, struct broker_zstd_input *))dlsym(
        library, "ZSTD_decompressStream");
    functions->is_error = (unsigned (*)(size_t))dlsym(library, "ZSTD_isError");
    functions->error_name = (const char *(*)(size_t))dlsym(library, "ZSTD_getErrorName");
    return functions->make && functions->release && functions->unpack && functions->is_error && functions->error_name;
}

#endif
