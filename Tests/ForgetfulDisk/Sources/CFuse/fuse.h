// The low-level interface of libfuse 3.12 or later, and umount2.
#define FUSE_USE_VERSION 312
#include <fuse_lowlevel.h>
#include <sys/mount.h>
