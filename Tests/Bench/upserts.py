"""Upserts by hand: upserts.py STORE FILE."""
import json, sqlite3, sys

store = sqlite3.connect(sys.argv[1])
store.executescript("""
    PRAGMA journal_mode = WAL;
    CREATE TABLE IF NOT EXISTS Department (id INTEGER PRIMARY KEY);
    CREATE TABLE IF NOT EXISTS Employee (id INTEGER PRIMARY KEY, name TEXT, email TEXT, salary TEXT, score REAL, active INTEGER,
        hired_at TEXT, level INTEGER, department INTEGER REFERENCES Department);
    CREATE INDEX IF NOT EXISTS Employee_department ON Employee (department);""")
columns = ["id", "name", "email", "salary", "score", "active", "hired_at", "level"]
with store:
    for record in json.load(open(sys.argv[2])):
        department = record["department"]["id"]
        store.execute("INSERT INTO Department VALUES (?) ON CONFLICT DO NOTHING", (department,))
        store.execute(
            f"INSERT INTO Employee VALUES ({', '.join('?' * 9)}) ON CONFLICT (id) DO UPDATE SET "
            + ", ".join(f"{name} = excluded.{name}" for name in columns[1:] + ["department"]),
            [record[name] for name in columns] + [department])
