// The contents of a disk beneath its cache, for files that SQLite writes.
#ifndef BROKER_FAULT_DISK_H
#define BROKER_FAULT_DISK_H

#include <stdbool.h>
#include <stdint.h>

/// Invariants:
/// 1. A file's image holds what is on the disk for certain; its changes, in their order, what may or may not be.
/// 2. A sync turns all changes of its file into the image. One that fails does so with a random part of them, and the
///    rest never reaches the disk (as Linux does it: what could not be written is taken for written).
/// 3. A change is stored or lost by sectors. Bytes beside a change are never touched.
typedef struct FaultDisk FaultDisk;
typedef struct FaultImage FaultImage;

FaultDisk *fault_disk_make(uint64_t seed, int sector);
void fault_disk_free(FaultDisk *disk);
void fault_disk_reseed(FaultDisk *disk, uint64_t seed, int sector);

/// A file is opened. What it holds when it is first seen is on the disk.
FaultImage *fault_disk_open(FaultDisk *disk, const char *path);
void fault_disk_write(FaultImage *image, const void *bytes, int count, int64_t offset);
void fault_disk_truncate(FaultImage *image, int64_t size);
void fault_disk_sync(FaultDisk *disk, FaultImage *image, bool succeeds);
/// Until the folder is synced, the file may be there again.
void fault_disk_delete(FaultDisk *disk, const char *path);
/// All files are in one folder.
void fault_disk_sync_folder(FaultDisk *disk);

/// Writes what might be found into a folder; false when that fails. The disk itself stays as it is.
bool fault_disk_write_out(FaultDisk *disk, const char *folder);

#endif
