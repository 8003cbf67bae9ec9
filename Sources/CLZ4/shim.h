// liblz4's frame API, as Swift sees it.
#ifndef BROKER_CLZ4_SHIM_H
#define BROKER_CLZ4_SHIM_H

#include <lz4.h>
#include <lz4frame.h>

#endif
