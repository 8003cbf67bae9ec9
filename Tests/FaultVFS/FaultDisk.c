#include "FaultDisk.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct Change {
    struct Change *next;
    int64_t offset;
    /// Negative for a truncation to `offset`.
    int64_t count;
    unsigned char *bytes;
} Change;

typedef struct {
    unsigned char *bytes;
    int64_t count;
} Content;

struct FaultImage {
    FaultImage *next;
    char *path;
    Content content;
    Change *first;
    Change *last;
    /// Its name is on the disk for certain.
    bool is_certain;
    bool is_deleted;
};

struct FaultDisk {
    uint64_t state;
    int sector;
    FaultImage *images;
};

// SplitMix64 (Steele, Lea, Flood 2014).
static uint64_t random_number(FaultDisk *disk) {
    uint64_t mixed = (disk->state += 0x9E3779B97F4A7C15u);
    mixed = (mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9u;
    mixed = (mixed ^ (mixed >> 27)) * 0x94D049BB133111EBu;
    return mixed ^ (mixed >> 31);
}

/// How likely a sector is stored, in eighths: all and none are as frequent as the shares between.
static uint64_t random_share(FaultDisk *disk) {
    static const uint64_t shares[] = {0, 0, 1, 4, 7, 8};
    return shares[random_number(disk) % 6];
}

FaultDisk *fault_disk_make(uint64_t seed, int sector) {
    FaultDisk *disk = calloc(1, sizeof(*disk));
    fault_disk_reseed(disk, seed, sector);
    return disk;
}

void fault_disk_reseed(FaultDisk *disk, uint64_t seed, int sector) {
    disk->state = seed;
    disk->sector = sector;
}

static void forget_changes(FaultImage *image) {
    while (image->first) {
        Change *change = image->first;
        image->first = change->next;
        free(change->bytes);
        free(change);
    }
    image->last = NULL;
}

void fault_disk_free(FaultDisk *disk) {
    while (disk->images) {
        FaultImage *image = disk->images;
        disk->images = image->next;
        forget_changes(image);
        free(image->content.bytes);
        free(image->path);
        free(image);
    }
    free(disk);
}

// MARK: - Changes

static void resize(Content *content, int64_t count) {
    unsigned char *bytes = realloc(content->bytes, (size_t)count + 1);
    if (!bytes) abort();
    if (count > content->count) memset(bytes + content->count, 0, (size_t)(count - content->count));
    content->bytes = bytes;
    content->count = count;
}

static void put(Content *content, const unsigned char *bytes, int64_t count, int64_t offset) {
    if (offset + count > content->count) resize(content, offset + count);
    memcpy(content->bytes + offset, bytes, (size_t)count);
}

/// Makes the changes, or a random part of them.
///
/// - eighths: how likely a sector is stored; 8 for all.
static void apply(FaultDisk *disk, const FaultImage *image, Content *content, uint64_t eighths) {
    for (const Change *change = image->first; change; change = change->next) {
        if (change->count < 0) {
            if (eighths == 8 || random_number(disk) % 8 < eighths) resize(content, change->offset);
            continue;
        }
        int64_t done = 0;
        while (done < change->count) {
            int64_t offset = change->offset + done;
            int64_t piece = disk->sector - offset % disk->sector;
            if (piece > change->count - done) piece = change->count - done;
            if (eighths == 8 || random_number(disk) % 8 < eighths) put(content, change->bytes + done, piece, offset);
            done += piece;
        }
    }
}

static void append(FaultImage *image, int64_t offset, int64_t count, const void *bytes) {
    Change *change = calloc(1, sizeof(*change));
    if (!change) abort();
    change->offset = offset;
    change->count = count;
    if (count > 0) {
        change->bytes = malloc((size_t)count);
        if (!change->bytes) abort();
        memcpy(change->bytes, bytes, (size_t)count);
    }
    if (image->last) image->last->next = change; else image->first = change;
    image->last = change;
}

void fault_disk_write(FaultImage *image, const void *bytes, int count, int64_t offset) {
    append(image, offset, count, bytes);
}

void fault_disk_truncate(FaultImage *image, int64_t size) { append(image, size, -1, NULL); }

void fault_disk_sync(FaultDisk *disk, FaultImage *image, bool succeeds) {
    apply(disk, image, &image->content, succeeds ? 8 : random_share(disk));
    forget_changes(image);
    if (succeeds) image->is_certain = true;
}

// MARK: - Names

static FaultImage *find(FaultDisk *disk, const char *path) {
    for (FaultImage *image = disk->images; image; image = image->next) {
        if (strcmp(image->path, path) == 0) return image;
    }
    return NULL;
}

static void load(FaultImage *image) {
    FILE *file = fopen(image->path, "rb");
    if (!file) return;
    unsigned char buffer[65536];
    size_t count;
    while ((count = fread(buffer, 1, sizeof(buffer), file)) > 0) {
        put(&image->content, buffer, (int64_t)count, image->content.count);
    }
    fclose(file);
    image->is_certain = image->content.count > 0;
}

FaultImage *fault_disk_open(FaultDisk *disk, const char *path) {
    FaultImage *image = find(disk, path);
    if (!image) {
        image = calloc(1, sizeof(*image));
        if (!image) abort();
        image->path = strdup(path);
        image->next = disk->images;
        disk->images = image;
        load(image);
    } else if (image->is_deleted) {
        forget_changes(image);
        image->content.count = 0;
        image->is_deleted = false;
        image->is_certain = false;
    }
    return image;
}

void fault_disk_delete(FaultDisk *disk, const char *path) {
    FaultImage *image = find(disk, path);
    if (image) image->is_deleted = true;
}

void fault_disk_sync_folder(FaultDisk *disk) {
    for (FaultImage *image = disk->images; image; image = image->next) {
        image->is_certain = !image->is_deleted;
        if (image->is_certain) continue;
        forget_changes(image);
        image->content.count = 0;
    }
}

static bool write_out(FaultDisk *disk, const FaultImage *image, const char *folder) {
    Content content = {NULL, 0};
    put(&content, image->content.bytes ? image->content.bytes : (unsigned char *)"", image->content.count, 0);
    apply(disk, image, &content, random_share(disk));
    const char *slash = strrchr(image->path, '/');
    char name[4096];
    snprintf(name, sizeof(name), "%s/%s", folder, slash ? slash + 1 : image->path);
    FILE *file = fopen(name, "wb");
    bool is_written = file && fwrite(content.bytes, 1, (size_t)content.count, file) == (size_t)content.count;
    if (file && fclose(file) != 0) is_written = false;
    free(content.bytes);
    return is_written;
}

bool fault_disk_write_out(FaultDisk *disk, const char *folder) {
    bool is_written = true;
    for (const FaultImage *image = disk->images; image; image = image->next) {
        bool is_gone_for_certain = image->is_deleted && !image->is_certain;
        bool is_doubtful = image->is_deleted || !image->is_certain;
        if (is_gone_for_certain || (is_doubtful && random_number(disk) % 2 == 0)) continue;
        if (!write_out(disk, image, folder)) is_written = false;
    }
    return is_written;
}
