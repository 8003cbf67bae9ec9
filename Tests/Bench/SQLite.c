// What SQLite alone takes, on one thread, for the work that Broker leaves to it: the limits of protocol/guides/performance.md.
//
//     cc -O2 Tests/Bench/SQLite.c -lsqlite3 -o /tmp/sqlite-alone && /tmp/sqlite-alone FOLDER
//
// prints milliseconds of processor time. FOLDER gets a database, which is removed at the end.
#define SQLITE_ENABLE_PREUPDATE_HOOK 1
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static const char *folder;
static sqlite3 *database;

static double processor_milliseconds(void) {
    struct timespec time;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return time.tv_sec * 1e3 + time.tv_nsec / 1e6;
}

static void fail(const char *what) {
    fprintf(stderr, "%s: %s\n", what, sqlite3_errmsg(database));
    exit(1);
}

/// Returns the milliseconds that the statements took.
static double run(const char *sql) {
    double start = processor_milliseconds();
    if (sqlite3_exec(database, sql, 0, 0, 0) != SQLITE_OK) fail(sql);
    return processor_milliseconds() - start;
}

static void show(const char *what, double milliseconds) { printf("%8.1f ms  %s\n", milliseconds, what); }

static void remove_database(void) {
    char path[4096];
    for (int i = 0; i < 3; i++) {
        snprintf(path, sizeof path, "%s/alone.sqlite%s", folder, i == 0 ? "" : i == 1 ? "-wal" : "-shm");
        unlink(path);
    }
}

/// Opens a new database with Broker's settings.
static void start(void) {
    char path[4096];
    if (database) sqlite3_close(database);
    remove_database();
    snprintf(path, sizeof path, "%s/alone.sqlite", folder);
    if (sqlite3_open(path, &database) != SQLITE_OK) fail(path);
    run("PRAGMA page_size = 8192; PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA cache_size = -65536;"
        "PRAGMA temp_store = MEMORY; PRAGMA wal_autocheckpoint = 8192");
}

// A delete with cascades: 1,000 firms, 9,000 teams, 90,000 persons.

static void make_firms(void) {
    start();
    run("PRAGMA foreign_keys = ON;"
        "CREATE TABLE Firm(id INTEGER PRIMARY KEY NOT NULL, name TEXT);"
        "CREATE TABLE Team(id INTEGER PRIMARY KEY NOT NULL, name TEXT, firm INTEGER"
        " REFERENCES Firm ON UPDATE CASCADE ON DELETE CASCADE DEFERRABLE INITIALLY DEFERRED); CREATE INDEX Team_firm ON Team(firm);"
        "CREATE TABLE Person(id INTEGER PRIMARY KEY NOT NULL, name TEXT, team INTEGER"
        " REFERENCES Team ON UPDATE CASCADE ON DELETE CASCADE DEFERRABLE INITIALLY DEFERRED); CREATE INDEX Person_team ON Person(team);"
        "BEGIN;"
        "WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 999) INSERT INTO Firm SELECT i, 'Firm ' || i FROM n;"
        "WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 8999)"
        " INSERT INTO Team SELECT i, 'Team ' || i, i / 9 FROM n;"
        "WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 89999)"
        " INSERT INTO Person SELECT i, 'Person ' || i, i / 10 FROM n;"
        "COMMIT; PRAGMA wal_checkpoint(TRUNCATE)");
    run("CREATE TABLE temp.Deleted(entity INTEGER, number INTEGER, generation INTEGER, PRIMARY KEY(entity, number)) WITHOUT ROWID;"
        "CREATE INDEX temp.Deleted_generation ON Deleted(generation, entity)");
}

/// Reads the values of a row that goes, as a program must that counts what it deleted and tells others.
static void read_row(void *unused, sqlite3 *connection, int operation, const char *schema, const char *table, sqlite3_int64 old,
                     sqlite3_int64 new) {
    (void)unused, (void)schema, (void)old, (void)new;
    if (operation != SQLITE_DELETE || strcmp(table, "Deleted") == 0) return;
    sqlite3_value *value;
    for (int i = 0; i < sqlite3_preupdate_count(connection); i++) {
        sqlite3_preupdate_old(connection, i, &value);
        (void)sqlite3_value_type(value);
    }
}

static const char plain_delete[] =
    "BEGIN;"
    "DELETE FROM Person WHERE team IN (SELECT id FROM Team WHERE firm IN (SELECT id FROM Firm));"
    "DELETE FROM Team WHERE firm IN (SELECT id FROM Firm);"
    "DELETE FROM Firm;"
    "COMMIT";

/// As Broker does it: which objects go is found first, and what the last level reaches is not kept.
static const char brokers_delete[] =
    "BEGIN;"
    "INSERT OR IGNORE INTO temp.Deleted SELECT 0, o.id, 0 FROM Firm o WHERE true;"
    "INSERT OR IGNORE INTO temp.Deleted SELECT 1, o.id, x.generation + 1 FROM temp.Deleted x"
    " CROSS JOIN Firm e ON e.id = x.number CROSS JOIN Team o WHERE x.generation = 0 AND x.entity = 0 AND o.firm = e.id;"
    "DELETE FROM Person WHERE id IN (SELECT o.id FROM temp.Deleted x CROSS JOIN Team e ON e.id = x.number"
    " CROSS JOIN Person o WHERE x.entity = 1 AND o.team = e.id);"
    "DELETE FROM Team WHERE id IN (SELECT number FROM temp.Deleted WHERE entity = 1);"
    "DELETE FROM Firm WHERE id IN (SELECT number FROM temp.Deleted WHERE entity = 0);"
    "DELETE FROM temp.Deleted;"
    "COMMIT";

static void deletes(void) {
    make_firms();
    show("delete of 100,000 objects, plain SQL", run(plain_delete));
    make_firms();
    show("the same by Broker's statements", run(brokers_delete));
    make_firms();
    sqlite3_preupdate_hook(database, read_row, 0);
    show("plain SQL with a hook that reads each row", run(plain_delete));
    make_firms();
    sqlite3_preupdate_hook(database, read_row, 0);
    show("Broker's statements with that hook", run(brokers_delete));
}

// The tables of a load: nine columns, and an index of the link.

#define COLUMNS "id INTEGER PRIMARY KEY NOT NULL, name TEXT, email TEXT, salary TEXT, score REAL, active INTEGER, hired INTEGER," \
    " level INTEGER, department INTEGER"

/// A table in memory of so many records.
static void make_rows(int count) {
    char sql[1024];
    start();
    run("ATTACH ':memory:' AS memory; CREATE TABLE memory.Row(" COLUMNS ")");
    snprintf(sql, sizeof sql,
             "WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < %d)"
             " INSERT INTO memory.Row SELECT i, 'Employee number ' || i, 'employee' || i || '@example.com', i || '.25', i / 8.0, i %% 2,"
             " 1700000000000 + i, i %% 10, abs(random()) %% 1000 FROM n", count - 1);
    run(sql);
    run("CREATE TABLE main.Employee(" COLUMNS ")");
}

static double copy_rows(int count) {
    enum { TRANSACTION = 20000 };
    char sql[256];
    double total = 0;
    for (int first = 0; first < count; first += TRANSACTION) {
        snprintf(sql, sizeof sql, "INSERT INTO main.Employee SELECT * FROM memory.Row WHERE rowid >= %d AND rowid < %d", first,
                 first + TRANSACTION);
        total += run(sql);
    }
    return total;
}

static void loads(void) {
    enum { COUNT = 1000000 };
    make_rows(COUNT);
    run("CREATE INDEX main.Employee_department ON Employee(department)");
    show("INSERT … SELECT of 1,000,000 rows with the index of a foreign key", copy_rows(COUNT));
    make_rows(COUNT);
    show("the same without the index", copy_rows(COUNT));
    show("the index made afterwards", run("CREATE INDEX main.Employee_department ON Employee(department)"));
}

/// A fetch reads each value: everything but writing the JSON.
static void fetches(void) {
    enum { COUNT = 100000 };
    sqlite3_stmt *statement;
    long bytes = 0;
    make_rows(COUNT);
    copy_rows(COUNT);
    double begin = processor_milliseconds();
    if (sqlite3_prepare_v2(database, "SELECT * FROM Employee ORDER BY id", -1, &statement, 0) != SQLITE_OK) fail("SELECT");
    while (sqlite3_step(statement) == SQLITE_ROW)
        for (int i = 0; i < sqlite3_column_count(statement); i++)
            switch (sqlite3_column_type(statement, i)) {
            case SQLITE_INTEGER: bytes += sqlite3_column_int64(statement, i) != 0; break;
            case SQLITE_FLOAT: bytes += sqlite3_column_double(statement, i) != 0; break;
            default: bytes += sqlite3_column_text(statement, i) ? sqlite3_column_bytes(statement, i) : 0;
            }
    show("reading 100,000 rows of nine columns", processor_milliseconds() - begin);
    sqlite3_finalize(statement);
    if (bytes == 0) fail("no rows");
}

// The keys of a sync: stored as they come, and searched at its end.

static void key_of(sqlite3_context *context, int count, sqlite3_value **values) {
    unsigned char key[9] = {2};
    sqlite3_int64 number = sqlite3_value_int64(values[count - 1]);
    for (int i = 0; i < 8; i++) key[8 - i] = (unsigned char)(number >> (8 * i));
    sqlite3_result_blob(context, key, sizeof key, SQLITE_TRANSIENT);
}

static void syncs(void) {
    enum { COUNT = 200000 };
    make_rows(COUNT);
    copy_rows(COUNT);
    sqlite3_create_function(database, "key_of", 1, SQLITE_UTF8 | SQLITE_DETERMINISTIC, 0, key_of, 0, 0);
    run("CREATE TABLE main.Key(sync INTEGER NOT NULL, key BLOB NOT NULL, PRIMARY KEY(sync, key)) WITHOUT ROWID");
    show("storing the keys of a sync of 200,000 records",
         run("BEGIN; INSERT OR IGNORE INTO Key SELECT 1, key_of(id) FROM memory.Row; COMMIT"));
    show("finding the objects without a key",
         run("DELETE FROM Employee AS o WHERE NOT EXISTS (SELECT 1 FROM Key WHERE sync = 1 AND key = key_of(o.id))"));
    show("removing the keys", run("DELETE FROM Key"));
}

int main(int count, char **arguments) {
    if (count != 2) return fprintf(stderr, "usage: %s FOLDER\n", arguments[0]), 2;
    folder = arguments[1];
    deletes();
    syncs();
    fetches();
    loads();
    sqlite3_close(database);
    remove_database();
}
