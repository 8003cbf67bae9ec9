// The client of NATS, as Swift sees it.
#ifndef BROKER_CNATS_SHIM_H
#define BROKER_CNATS_SHIM_H

#include <nats/nats.h>

#endif
