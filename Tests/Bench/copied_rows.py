"""Copies the records that Broker has loaded, in the same order, by INSERT … SELECT out of a table in memory into a table with the same
index, as many in a transaction as Broker has there on average. Each transaction is durable.

usage: copied_rows.py STORE NEW-STORE

Prints how many a second.
"""
import json
import sqlite3
import sys
import time

ROWS = 20000
PRAGMAS = ("page_size = 8192", "journal_mode = wal", "synchronous = full", "cache_size = -65536", "foreign_keys = off",
           "wal_autocheckpoint = 8192")


def main():
    source, target = sys.argv[1:]
    store = sqlite3.connect(target, isolation_level=None)
    for pragma in PRAGMAS:
        store.execute("PRAGMA " + pragma)
    store.execute("ATTACH ? AS source", (source,))
    store.execute("ATTACH ':memory:' AS memory")
    for (sql,) in store.execute("SELECT sql FROM source.sqlite_master WHERE tbl_name IN ('Employee', 'Department') "
                                "AND type <> 'view' AND sql IS NOT NULL").fetchall():
        store.execute(sql)
    store.execute("CREATE TABLE memory.rows AS SELECT * FROM source.Employee ORDER BY rowid")
    store.execute("INSERT INTO main.Department SELECT * FROM source.Department")
    (count,) = store.execute("SELECT count(*) FROM memory.rows").fetchone()
    store.execute("DETACH source")
    start = time.monotonic()
    for first in range(0, count, ROWS):
        store.execute("INSERT INTO main.Employee SELECT * FROM memory.rows WHERE rowid > ? AND rowid <= ?", (first, first + ROWS))
    seconds = time.monotonic() - start
    store.close()
    print(json.dumps({"recordsPerSecond": count / seconds}))


main()
