// libcurl's easy interface, as Swift sees it: its functions take any number of arguments, which Swift does not call.
#ifndef BROKER_CCURL_SHIM_H
#define BROKER_CCURL_SHIM_H

#include <curl/curl.h>

static inline CURLcode broker_curl_set(CURL *curl, CURLoption option, curl_off_t value) {
    // Options of sizes are numbered from CURLOPTTYPE_OFF_T on (curl/curl.h).
    if (option > CURLOPTTYPE_OFF_T) return curl_easy_setopt(curl, option, value);
    return curl_easy_setopt(curl, option, (long)value);
}

static inline CURLcode broker_curl_set_pointer(CURL *curl, CURLoption option, const void *value) {
    return curl_easy_setopt(curl, option, value);
}

/// Both functions and the progress get the context.
static inline void broker_curl_set_callbacks(
    CURL *curl, void *context, curl_write_callback header, curl_write_callback body, curl_xferinfo_callback progress) {
    curl_easy_setopt(curl, CURLOPT_HEADERFUNCTION, header);
    curl_easy_setopt(curl, CURLOPT_HEADERDATA, context);
    curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, body);
    curl_easy_setopt(curl, CURLOPT_WRITEDATA, context);
    curl_easy_setopt(curl, CURLOPT_XFERINFOFUNCTION, progress);
    curl_easy_setopt(curl, CURLOPT_XFERINFODATA, context);
}

#endif
