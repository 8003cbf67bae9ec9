// libsqlite3, with inline wrappers for what Swift cannot call (variadic functions) or name (macros with casts).
#ifndef BROKER_CSQLITE_SHIM_H
#define BROKER_CSQLITE_SHIM_H

// Debian's library has it (`PRAGMA compile_options`); its header declares it only with this macro.
#define SQLITE_ENABLE_PREUPDATE_HOOK 1
#include <sqlite3.h>
#include <stdint.h>

/// The bytes stay where they are until the statement is done with them.
static inline int broker_sqlite_bind_static_text(sqlite3_stmt *statement, int index, const char *text, uint64_t count) {
    // A null pointer would bind NULL, but an empty text is no NULL.
    return sqlite3_bind_text64(statement, index, count == 0 ? "" : text, count, SQLITE_STATIC, SQLITE_UTF8);
}

static inline int broker_sqlite_bind_static_blob(sqlite3_stmt *statement, int index, const void *bytes, uint64_t count) {
    // A null pointer would bind NULL, but an empty blob is no NULL.
    return sqlite3_bind_blob64(statement, index, count == 0 ? "" : bytes, count, SQLITE_STATIC);
}

static inline int broker_sqlite_bind_text(sqlite3_stmt *statement, int index, const char *text, uint64_t count) {
    return sqlite3_bind_text64(statement, index, count == 0 ? "" : text, count, SQLITE_TRANSIENT, SQLITE_UTF8);
}

static inline int broker_sqlite_bind_blob(sqlite3_stmt *statement, int index, const void *bytes, uint64_t count) {
    return sqlite3_bind_blob64(statement, index, count == 0 ? "" : bytes, count, SQLITE_TRANSIENT);
}

static inline void broker_sqlite_result_static_text(sqlite3_context *context, const char *text, uint64_t count) {
    // A null pointer would be NULL, but an empty text is no NULL.
    sqlite3_result_text64(context, count == 0 ? "" : text, count, SQLITE_STATIC, SQLITE_UTF8);
}

static inline void broker_sqlite_result_text(sqlite3_context *context, const char *text, uint64_t count) {
    sqlite3_result_text64(context, count == 0 ? "" : text, count, SQLITE_TRANSIENT, SQLITE_UTF8);
}

static inline void broker_sqlite_result_static_blob(sqlite3_context *context, const void *bytes, uint64_t count) {
    sqlite3_result_blob64(context, count == 0 ? "" : bytes, count, SQLITE_STATIC);
}

/// Loads a cache line that is read soon, from an address that need not be valid.
static inline void broker_prefetch(const void *address) { __builtin_prefetch(address); }

/// The statement holds the object, which no SQL can see, and lets go of it by `release`.
static inline int broker_sqlite_bind_object(
    sqlite3_stmt *statement, int index, void *object, void (*release)(void *)) {
    return sqlite3_bind_pointer(statement, index, object, "broker", release);
}

/// The object that was bound so, or null.
static inline void *broker_sqlite_object(sqlite3_value *value) {
    return sqlite3_value_pointer(value, "broker");
}

/// Turns a SQLITE_DBCONFIG switch on or off.
static inline int broker_sqlite_configure(sqlite3 *database, int option, int value) {
    return sqlite3_db_config(database, option, value, (int *)0);
}

/// The `errno` of the newest call that failed on the log's file; 0 when none has. Unlike `sqlite3_system_errno` it is known
/// after a COMMIT, too.
static inline int broker_sqlite_log_errno(sqlite3 *database) {
    sqlite3_file *log = 0;
    int cause = 0;
    if (sqlite3_file_control(database, "main", SQLITE_FCNTL_JOURNAL_POINTER, &log) != SQLITE_OK) return 0;
    if (log && log->pMethods) log->pMethods->xFileControl(log, SQLITE_FCNTL_LAST_ERRNO, &cause);
    return cause;
}

/// The virtual table over staged rows as SQLite sees it: SQLite's own part first, then ours.
typedef struct {
    sqlite3_vtab base;
    /// The source that feeds this table; unretained, it outlives the connection.
    void *source;
} broker_staged_table;

typedef struct {
    sqlite3_vtab_cursor base;
    void *source;
} broker_staged_cursor;

// Not from SQLite's header: a file of another program may hold texts and a schema of any size, and SQLite reads the whole
// schema before the first statement.
static inline int broker_sqlite_takes_too_much(void *most) {
    return sqlite3_memory_used() > (sqlite3_int64)(intptr_t)most;
}

// Bounds what the connection reads: a text, blob or row of `length` bytes, a statement of the schema of `sql` bytes, and all
// memory of SQLite in this process to `memory` bytes more than now, checked every 100 instructions. Beyond a bound, statements
// fail with SQLITE_TOOBIG or SQLITE_INTERRUPT.
static inline void broker_sqlite_bound(sqlite3 *database, int length, int sql, sqlite3_int64 memory) {
    sqlite3_limit(database, SQLITE_LIMIT_LENGTH, length);
    sqlite3_limit(database, SQLITE_LIMIT_SQL_LENGTH, sql);
    sqlite3_progress_handler(
        database, 100, broker_sqlite_takes_too_much, (void *)(intptr_t)(sqlite3_memory_used() + memory));
}

#endif
