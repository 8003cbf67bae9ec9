#ifndef BROKER_CVERSION_H
#define BROKER_CVERSION_H

/// The commit that the programs were built from, or an empty text.
const char *broker_commit(void);

#endif
