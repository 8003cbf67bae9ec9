// libzstd's streams, as Swift sees them.
#ifndef BROKER_CZSTD_SHIM_H
#define BROKER_CZSTD_SHIM_H

#include <zstd.h>

#endif
