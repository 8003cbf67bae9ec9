// What Swift's own Glibc module leaves out: the settings of malloc.
#ifndef BROKER_CGLIBC_SHIM_H
#define BROKER_CGLIBC_SHIM_H

#include <malloc.h>

#endif
