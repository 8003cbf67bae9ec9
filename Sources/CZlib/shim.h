// zlib, as Swift sees it.
#ifndef BROKER_CZLIB_SHIM_H
#define BROKER_CZLIB_SHIM_H

#include <zlib.h>

/// Makes the stream ready for gzip's wrapping with any window; inflateInit2 is a macro.
static inline int broker_zlib_inflate_gzip(z_stream *stream) { return inflateInit2(stream, 15 + 16); }

#endif
