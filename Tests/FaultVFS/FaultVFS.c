#include "FaultVFS.h"

#include "FaultDisk.h"

#include <errno.h>
#include <pthread.h>
#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>

struct FaultVFS {
    sqlite3_vfs base;
    sqlite3_vfs *below;
    pthread_mutex_t mutex;
    unsigned operations;
    /// Operations of these until the fault; zero and less after it.
    long remaining;
    int fault;
    bool is_always;
    bool is_struck;
    /// Bytes that a file may have; 0 is no limit.
    sqlite3_int64 longest;
    /// Null until it records.
    FaultDisk *disk;
    char *folder;
    uint64_t seed;
    int sector;
};

/// SQLite's part, then ours; the file of the VFS below follows.
typedef struct {
    sqlite3_file base;
    FaultVFS *vfs;
    sqlite3_file *below;
    /// Null of a file that no loss of power is asked about.
    FaultImage *image;
    /// Its next sync is also one of its folder, as the unix VFS does it for the files that it makes beside a database.
    bool syncs_folder;
    /// The errno of the newest write that failed here.
    int last_errno;
} File;

static const int no_fault = -1;

/// Counts an operation, and returns the fault that it meets. Called with the lock.
static int strike(FaultVFS *vfs, unsigned operation) {
    if (!(vfs->operations & operation)) return no_fault;
    vfs->remaining -= 1;
    if (vfs->remaining > 0 || (vfs->remaining < 0 && !vfs->is_always)) return no_fault;
    vfs->is_struck = true;
    return vfs->fault;
}

static int cause(int fault) {
    switch (fault) {
    case FAULT_NO_SPACE: return ENOSPC;
    case FAULT_QUOTA: return EDQUOT;
    default: return EIO;
    }
}

/// For operations that either happen or do not. Gives back whether this one is to be done below.
static bool passes(FaultVFS *vfs, unsigned operation) {
    pthread_mutex_lock(&vfs->mutex);
    int fault = strike(vfs, operation);
    if (fault == FAULT_POWER_LOSS) fault_disk_write_out(vfs->disk, vfs->folder);
    pthread_mutex_unlock(&vfs->mutex);
    if (fault == no_fault || fault == FAULT_POWER_LOSS) return true;
    errno = cause(fault);
    return false;
}

// MARK: - Files

static int close_file(sqlite3_file *base) {
    File *file = (File *)base;
    return file->below->pMethods ? file->below->pMethods->xClose(file->below) : SQLITE_OK;
}

static int read_file(sqlite3_file *base, void *bytes, int count, sqlite3_int64 offset) {
    File *file = (File *)base;
    if (!passes(file->vfs, FAULT_READ)) return SQLITE_IOERR_READ;
    return file->below->pMethods->xRead(file->below, bytes, count, offset);
}

static int write_below(File *file, const void *bytes, int count, sqlite3_int64 offset) {
    int result = file->below->pMethods->xWrite(file->below, bytes, count, offset);
    if (result == SQLITE_OK && file->image) fault_disk_write(file->image, bytes, count, offset);
    return result;
}

static int write_file(sqlite3_file *base, const void *bytes, int count, sqlite3_int64 offset) {
    File *file = (File *)base;
    FaultVFS *vfs = file->vfs;
    pthread_mutex_lock(&vfs->mutex);
    bool has_room = !vfs->longest || offset + count <= vfs->longest;
    int fault = has_room ? strike(vfs, FAULT_WRITE) : FAULT_NO_SPACE;
    if (!has_room) vfs->is_struck = true;
    int result = SQLITE_OK;
    if (fault == no_fault || fault == FAULT_POWER_LOSS) {
        result = write_below(file, bytes, count, offset);
        if (fault == FAULT_POWER_LOSS) fault_disk_write_out(vfs->disk, vfs->folder);
    } else if (fault != FAULT_IO_ERROR && has_room) {
        result = write_below(file, bytes, count / 2, offset);
    }
    pthread_mutex_unlock(&vfs->mutex);
    if (fault == no_fault || fault == FAULT_POWER_LOSS || result != SQLITE_OK) return result;
    errno = file->last_errno = cause(fault);
    // The same codes as those of the unix VFS.
    return fault == FAULT_NO_SPACE ? SQLITE_FULL : SQLITE_IOERR_WRITE;
}

static int truncate_file(sqlite3_file *base, sqlite3_int64 size) {
    File *file = (File *)base;
    if (!passes(file->vfs, FAULT_TRUNCATE)) return SQLITE_IOERR_TRUNCATE;
    int result = file->below->pMethods->xTruncate(file->below, size);
    pthread_mutex_lock(&file->vfs->mutex);
    if (result == SQLITE_OK && file->image) fault_disk_truncate(file->image, size);
    pthread_mutex_unlock(&file->vfs->mutex);
    return result;
}

static int sync_file(sqlite3_file *base, int flags) {
    File *file = (File *)base;
    (void)flags;
    bool is_sound = passes(file->vfs, FAULT_SYNC);
    int kept = errno;
    pthread_mutex_lock(&file->vfs->mutex);
    if (file->image) fault_disk_sync(file->vfs->disk, file->image, is_sound);
    if (file->image && is_sound && file->syncs_folder) {
        fault_disk_sync_folder(file->vfs->disk);
        file->syncs_folder = false;
    }
    pthread_mutex_unlock(&file->vfs->mutex);
    errno = kept;
    // The machine's own power does not fail in a test, so nothing is waited for.
    return is_sound ? SQLITE_OK : SQLITE_IOERR_FSYNC;
}

static int file_size(sqlite3_file *base, sqlite3_int64 *size) {
    File *file = (File *)base;
    if (!passes(file->vfs, FAULT_SIZE)) return SQLITE_IOERR_FSTAT;
    return file->below->pMethods->xFileSize(file->below, size);
}

static int lock_file(sqlite3_file *base, int level) {
    File *file = (File *)base;
    if (!passes(file->vfs, FAULT_LOCK)) return SQLITE_IOERR_LOCK;
    return file->below->pMethods->xLock(file->below, level);
}

static int unlock_file(sqlite3_file *base, int level) {
    File *file = (File *)base;
    return file->below->pMethods->xUnlock(file->below, level);
}

static int check_reserved_lock(sqlite3_file *base, int *result) {
    File *file = (File *)base;
    return file->below->pMethods->xCheckReservedLock(file->below, result);
}

static int control_file(sqlite3_file *base, int operation, void *argument) {
    File *file = (File *)base;
    if (operation == SQLITE_FCNTL_LAST_ERRNO && file->last_errno) {
        *(int *)argument = file->last_errno;
        return SQLITE_OK;
    }
    return file->below->pMethods->xFileControl(file->below, operation, argument);
}

static int sector_size(sqlite3_file *base) {
    File *file = (File *)base;
    return file->below->pMethods->xSectorSize(file->below);
}

static int device_characteristics(sqlite3_file *base) {
    File *file = (File *)base;
    return file->below->pMethods->xDeviceCharacteristics(file->below);
}

static int map_shared(sqlite3_file *base, int region, int size, int extends, void volatile **memory) {
    File *file = (File *)base;
    if (!passes(file->vfs, FAULT_SHARED_MAP)) return errno == EIO ? SQLITE_IOERR_SHMMAP : SQLITE_IOERR_SHMSIZE;
    return file->below->pMethods->xShmMap(file->below, region, size, extends, memory);
}

static int lock_shared(sqlite3_file *base, int offset, int count, int flags) {
    File *file = (File *)base;
    // SQLite does not check whether a lock was released.
    if ((flags & SQLITE_SHM_LOCK) && !passes(file->vfs, FAULT_SHARED_LOCK)) return SQLITE_IOERR_SHMLOCK;
    return file->below->pMethods->xShmLock(file->below, offset, count, flags);
}

static void order_shared(sqlite3_file *base) {
    File *file = (File *)base;
    file->below->pMethods->xShmBarrier(file->below);
}

static int unmap_shared(sqlite3_file *base, int deletes) {
    File *file = (File *)base;
    return file->below->pMethods->xShmUnmap(file->below, deletes);
}

// Version 2: files are not mapped into memory, so that every write is seen.
static const sqlite3_io_methods methods = {
    .iVersion = 2, .xClose = close_file, .xRead = read_file, .xWrite = write_file, .xTruncate = truncate_file,
    .xSync = sync_file, .xFileSize = file_size, .xLock = lock_file, .xUnlock = unlock_file,
    .xCheckReservedLock = check_reserved_lock, .xFileControl = control_file, .xSectorSize = sector_size,
    .xDeviceCharacteristics = device_characteristics, .xShmMap = map_shared, .xShmLock = lock_shared,
    .xShmBarrier = order_shared, .xShmUnmap = unmap_shared,
};

// MARK: - The file system

static int open_file(sqlite3_vfs *base, sqlite3_filename name, sqlite3_file *opened, int flags, int *flags_out) {
    FaultVFS *vfs = (FaultVFS *)base;
    File *file = (File *)opened;
    memset(file, 0, sizeof(*file));
    if (!passes(vfs, FAULT_OPEN)) return SQLITE_CANTOPEN;
    file->vfs = vfs;
    file->below = (sqlite3_file *)(file + 1);
    pthread_mutex_lock(&vfs->mutex);
    // Before the file is made, so that its first content is known.
    int lasting = SQLITE_OPEN_MAIN_DB | SQLITE_OPEN_MAIN_JOURNAL | SQLITE_OPEN_WAL;
    if (vfs->disk && name && (flags & lasting)) file->image = fault_disk_open(vfs->disk, name);
    file->syncs_folder = (flags & SQLITE_OPEN_CREATE) && (flags & (SQLITE_OPEN_MAIN_JOURNAL | SQLITE_OPEN_WAL));
    pthread_mutex_unlock(&vfs->mutex);
    int result = vfs->below->xOpen(vfs->below, name, file->below, flags, flags_out);
    // SQLite closes what has methods, even if it could not be opened.
    if (file->below->pMethods) file->base.pMethods = &methods;
    return result;
}

static int delete_file(sqlite3_vfs *base, const char *name, int syncs_folder) {
    FaultVFS *vfs = (FaultVFS *)base;
    if (!passes(vfs, FAULT_DELETE)) return SQLITE_IOERR_DELETE;
    int result = vfs->below->xDelete(vfs->below, name, syncs_folder);
    pthread_mutex_lock(&vfs->mutex);
    if (vfs->disk && result == SQLITE_OK) {
        fault_disk_delete(vfs->disk, name);
        if (syncs_folder) fault_disk_sync_folder(vfs->disk);
    }
    pthread_mutex_unlock(&vfs->mutex);
    return result;
}

static int look_for_file(sqlite3_vfs *base, const char *name, int flags, int *result) {
    sqlite3_vfs *below = ((FaultVFS *)base)->below;
    return below->xAccess(below, name, flags, result);
}

static int full_path(sqlite3_vfs *base, const char *name, int count, char *path) {
    sqlite3_vfs *below = ((FaultVFS *)base)->below;
    return below->xFullPathname(below, name, count, path);
}

static int randomness(sqlite3_vfs *base, int count, char *bytes) {
    sqlite3_vfs *below = ((FaultVFS *)base)->below;
    return below->xRandomness(below, count, bytes);
}

static int sleep_for(sqlite3_vfs *base, int microseconds) {
    sqlite3_vfs *below = ((FaultVFS *)base)->below;
    return below->xSleep(below, microseconds);
}

static int current_time(sqlite3_vfs *base, double *days) {
    sqlite3_vfs *below = ((FaultVFS *)base)->below;
    return below->xCurrentTime(below, days);
}

static int current_milliseconds(sqlite3_vfs *base, sqlite3_int64 *milliseconds) {
    sqlite3_vfs *below = ((FaultVFS *)base)->below;
    return below->xCurrentTimeInt64(below, milliseconds);
}

static int last_error(sqlite3_vfs *base, int count, char *text) {
    sqlite3_vfs *below = ((FaultVFS *)base)->below;
    return below->xGetLastError(below, count, text);
}

// MARK: - For tests

FaultVFS *fault_vfs_make(const char *name) {
    FaultVFS *vfs = calloc(1, sizeof(*vfs));
    // Not the default VFS, which may have been replaced.
    vfs->below = sqlite3_vfs_find("unix");
    pthread_mutex_init(&vfs->mutex, NULL);
    vfs->sector = 512;
    vfs->base = (sqlite3_vfs){
        .iVersion = 2, .szOsFile = (int)sizeof(File) + vfs->below->szOsFile, .mxPathname = vfs->below->mxPathname,
        .zName = strdup(name), .xOpen = open_file, .xDelete = delete_file, .xAccess = look_for_file,
        .xFullPathname = full_path, .xRandomness = randomness, .xSleep = sleep_for, .xCurrentTime = current_time,
        .xGetLastError = last_error, .xCurrentTimeInt64 = current_milliseconds,
    };
    if (sqlite3_vfs_register(&vfs->base, 0) == SQLITE_OK) return vfs;
    free((void *)vfs->base.zName);
    free(vfs);
    return NULL;
}

void fault_vfs_free(FaultVFS *vfs) {
    sqlite3_vfs_unregister(&vfs->base);
    pthread_mutex_destroy(&vfs->mutex);
    if (vfs->disk) fault_disk_free(vfs->disk);
    free((void *)vfs->base.zName);
    free(vfs->folder);
    free(vfs);
}

void fault_vfs_arm(FaultVFS *vfs, unsigned operations, long number, int fault, bool always) {
    pthread_mutex_lock(&vfs->mutex);
    vfs->operations = operations;
    vfs->remaining = number;
    vfs->fault = fault;
    vfs->is_always = always;
    vfs->is_struck = false;
    pthread_mutex_unlock(&vfs->mutex);
}

void fault_vfs_disarm(FaultVFS *vfs) {
    pthread_mutex_lock(&vfs->mutex);
    vfs->operations = 0;
    pthread_mutex_unlock(&vfs->mutex);
}

void fault_vfs_limit(FaultVFS *vfs, int64_t longest) {
    pthread_mutex_lock(&vfs->mutex);
    vfs->longest = longest;
    pthread_mutex_unlock(&vfs->mutex);
}

bool fault_vfs_is_struck(FaultVFS *vfs) {
    pthread_mutex_lock(&vfs->mutex);
    bool is_struck = vfs->is_struck;
    pthread_mutex_unlock(&vfs->mutex);
    return is_struck;
}

void fault_vfs_record(FaultVFS *vfs) {
    pthread_mutex_lock(&vfs->mutex);
    if (!vfs->disk) vfs->disk = fault_disk_make(vfs->seed, vfs->sector);
    pthread_mutex_unlock(&vfs->mutex);
}

void fault_vfs_set_loss(FaultVFS *vfs, const char *folder, uint64_t seed, int sector) {
    pthread_mutex_lock(&vfs->mutex);
    free(vfs->folder);
    vfs->folder = strdup(folder);
    vfs->seed = seed;
    vfs->sector = sector;
    if (vfs->disk) fault_disk_reseed(vfs->disk, seed, sector);
    pthread_mutex_unlock(&vfs->mutex);
}

bool fault_vfs_lose_power(FaultVFS *vfs) {
    pthread_mutex_lock(&vfs->mutex);
    bool is_written = vfs->disk && vfs->folder && fault_disk_write_out(vfs->disk, vfs->folder);
    pthread_mutex_unlock(&vfs->mutex);
    return is_written;
}
