#include "CVersion.h"

#ifndef BROKER_COMMIT
#define BROKER_COMMIT ""
#endif

const char *broker_commit(void) { return BROKER_COMMIT; }
