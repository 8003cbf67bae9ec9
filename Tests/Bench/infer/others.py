"""The other tools, which get an array of the records."""
import json
import pathlib

from .compare import cell_values
from .payload import Payload
from .programs import Run, sqlite_cells

CHILD = pathlib.Path(__file__).with_name("child.py")


def plain_input(payload, folder):
    """The records as an array, or the file itself if it is one already."""
    if payload.kind == "csv":
        return payload.path
    records = payload.records()
    if payload.is_map:
        records = [{"_key": key, **(value if isinstance(value, dict) else {"value": value})}
                   for key, value in payload.keys().items()]
    path = folder / "records.json"
    path.write_text(json.dumps(records, ensure_ascii=False), encoding="utf-8")
    return path


class SQLiteUtils:
    name = "sqlite-utils"

    def __init__(self, options):
        self.program, self.limit, self.keys = options.venv / "bin/sqlite-utils", options.limit, options.keys

    def insert(self, store, expected, payload, file):
        options = ["--alter"]
        if payload.kind == "csv":
            options += ["--csv", "--delimiter", payload.delimiter]
        keys = expected.get("identity") if self.keys else None
        keys = ["_key" if key == "@key" else key for key in keys or []]
        for key in keys:
            options += ["--pk", key]
        return Run([str(self.program), "upsert" if keys else "insert", str(store), expected.get("entity", "Record"), str(file),
                    *options], self.limit)

    def measure(self, payload, expected, files, folder):
        store, entity = folder / "store.sqlite", expected.get("entity", "Record")
        run = self.insert(store, expected, payload, plain_input(payload, folder))
        result = {"seconds": run.seconds, "megabytes": run.megabytes, "loads": "yes" if run.status == 0 else "failed"}
        if run.status != 0:
            return result | {"reason": run.reason}
        cells, rows = sqlite_cells(store, entity)
        result |= {"rows": rows, "cells": cells, "tables": 1}
        again = self.insert(store, expected, payload, plain_input(payload, folder))
        result["again"] = again.status == 0 and sqlite_cells(store, entity)[1] == rows
        if not expected:
            return result
        page = Payload(files["pageFile"], {**expected, "file": ""})
        run = self.insert(store, expected, page, plain_input(page, folder))
        missing = files["pageValues"] - cell_values(sqlite_cells(store)[0])
        result["page"] = "no" if run.status else "partly" if missing else "yes"
        return result


class InPython:
    """A tool that is a library: child.py runs in the Python that has it."""

    def __init__(self, options):
        self.python, self.limit, self.keys = options.venv / "bin/python", options.limit, options.keys

    def child(self, *arguments):
        run = Run([str(self.python), "-I", str(CHILD), self.name, *map(str, arguments)], self.limit)
        try:
            run.answer = json.loads(run.output.strip().splitlines()[-1]) if run.status == 0 else {}
        except (ValueError, IndexError):
            run.answer = {}
        return run

    def measure(self, payload, expected, files, folder):
        entity = expected.get("entity", "Record")
        keys = expected.get("identity") if self.keys else None
        key = json.dumps(["_key" if key == "@key" else key for key in keys or []])
        first = plain_input(payload, folder)
        run = self.child("load", folder, entity, first, payload.kind, key)
        result = {"seconds": run.seconds, "megabytes": run.megabytes, "loads": "yes" if run.status == 0 else "failed"}
        if run.status != 0:
            return result | {"reason": run.reason}
        shown = self.child("show", folder, entity).answer
        result |= {"rows": shown.get("rows"), "cells": shown.get("cells", []), "tables": shown.get("tables")}
        if self.name == "duckdb":
            return result
        run = self.child("load", folder, entity, first, payload.kind, key)
        counts = self.child("show", folder, entity).answer
        result["again"] = run.status == 0 and counts.get("counts") == shown.get("counts")
        if not expected:
            return result
        page = Payload(files["pageFile"], {**expected, "file": ""})
        run = self.child("load", folder, entity, plain_input(page, folder), payload.kind, key)
        missing = files["pageValues"] - cell_values(self.child("show", folder, entity).answer.get("cells", []))
        result["page"] = "no" if run.status else "partly" if missing else "yes"
        return result


class Dlt(InPython):
    name = "dlt"


class DuckDB(InPython):
    name = "duckdb"
