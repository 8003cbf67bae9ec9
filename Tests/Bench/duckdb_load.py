"""Reads lines of JSON with DuckDB, into a table of its own file or of an SQLite database.

usage: duckdb_load.py table|sqlite FOLDER      # which has the file file.ndjson
"""
import glob
import os
import sqlite3
import sys

import duckdb
import duckdb_extension_sqlite_scanner as scanner

TABLE = """
    PRAGMA journal_mode = WAL;
    CREATE TABLE Employee (id INTEGER PRIMARY KEY, name TEXT, email TEXT, salary TEXT, score REAL, active INTEGER,
        hired_at TEXT, level INTEGER, department INTEGER);
    CREATE INDEX Employee_department ON Employee (department);"""


def main():
    kind, work = sys.argv[1:]
    lines = f"read_json('{work}/file.ndjson', format = 'newline_delimited')"
    if kind == "table":
        with duckdb.connect(f"{work}/peer.duckdb") as database:
            database.execute(f"CREATE TABLE Employee AS SELECT * FROM {lines}")
        return
    with sqlite3.connect(f"{work}/peer.sqlite") as target:
        target.executescript(TABLE)
    with duckdb.connect() as database:
        folder = os.path.dirname(scanner.__file__)
        database.execute("LOAD '%s'" % glob.glob(f"{folder}/extensions/*/*.duckdb_extension")[0])
        database.execute(f"ATTACH '{work}/peer.sqlite' AS target (TYPE sqlite)")
        database.execute(f"""INSERT INTO target.Employee
            SELECT id, name, email, salary, score, active, hired_at, level, department.id FROM {lines}""")


main()
