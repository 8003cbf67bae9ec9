// A disk that fails on request, and that can lose its power: SQLite's unix VFS with something in between.
//
//   SQLite ─▶ FaultVFS ─▶ unix VFS ─▶ the file, as every other program sees it
//                │
//                └─▶ FaultDisk: what would be there after a loss of power
//
// Each VFS has a name and a state of its own, so that tests beside each other do not meet. Any thread may call.
#ifndef BROKER_FAULT_VFS_H
#define BROKER_FAULT_VFS_H

#include <stdbool.h>
#include <stdint.h>

/// The operations that SQLite requests; a set of them is their sum.
enum {
    FAULT_OPEN = 1,
    FAULT_READ = 2,
    FAULT_WRITE = 4,
    FAULT_TRUNCATE = 8,
    FAULT_SYNC = 16,
    FAULT_SIZE = 32,
    FAULT_LOCK = 64,
    FAULT_DELETE = 128,
    FAULT_SHARED_MAP = 256,
    FAULT_SHARED_LOCK = 512,
};

/// The fault.
enum {
    /// EIO. Nothing is done; after a failed sync the contents of the disk are unknown, and a later sync does not help.
    FAULT_IO_ERROR,
    /// EIO after half of a write.
    FAULT_SHORT_WRITE,
    /// ENOSPC after half of a write.
    FAULT_NO_SPACE,
    /// EDQUOT after half of a write, which SQLite takes for an I/O error.
    FAULT_QUOTA,
    /// No error: the power fails in the middle of the operation, and the contents of the disk at that time are recorded.
    /// The files themselves continue.
    FAULT_POWER_LOSS,
};

typedef struct FaultVFS FaultVFS;

/// Registers a VFS; null when SQLite does not take it.
FaultVFS *fault_vfs_make(const char *name);

/// Takes it away again. No file may be open.
void fault_vfs_free(FaultVFS *vfs);

/// From now on the `number`th of those operations, from 1, meets the fault; with `always` every later one, too.
void fault_vfs_arm(FaultVFS *vfs, unsigned operations, long number, int fault, bool always);

/// The machine is sound again.
void fault_vfs_disarm(FaultVFS *vfs);

/// From now on there is no room for a write that would make any file longer than that: ENOSPC. 0 is no limit.
void fault_vfs_limit(FaultVFS *vfs, int64_t longest);

/// The fault has been met since it was armed.
bool fault_vfs_is_struck(FaultVFS *vfs);

/// From now on it is known what a loss of power would leave. Files that are there are on the disk as they are.
void fault_vfs_record(FaultVFS *vfs);

/// How the disk decides which unsynced bytes it stores, and where FAULT_POWER_LOSS leaves it.
///
/// - sector: bytes that are stored or lost together.
void fault_vfs_set_loss(FaultVFS *vfs, const char *folder, uint64_t seed, int sector);

/// The power fails now: writes every file, by its name, into the folder as it might be found.
///
/// Returns false when a file could not be written.
bool fault_vfs_lose_power(FaultVFS *vfs);

#endif
