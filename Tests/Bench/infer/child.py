"""Loads records with dlt or duckdb, or shows what they made of them, in the Python that has these libraries.

usage: child.py TOOL load FOLDER ENTITY FILE KIND KEYS
       child.py TOOL show FOLDER ENTITY
"""
import csv
import io
import json
import os
import pathlib
import sys


def child(tool, action, folder, entity, *rest):
    import duckdb
    store = pathlib.Path(folder) / f"{tool}.duckdb"
    if action == "show":
        database = duckdb.connect(str(store), read_only=True)
        tables = [(schema, name) for schema, name in database.execute(
            "SELECT table_schema, table_name FROM information_schema.tables").fetchall()
            if not name.startswith("_dlt") and "staging" not in schema]
        counts, cells, rows = {}, [], None
        for schema, name in tables:
            found = database.execute(f'SELECT * FROM "{schema}"."{name}"').fetchall()
            counts[name] = len(found)
            cells += [cell if isinstance(cell, (str, int, float, type(None))) else json.dumps(cell, default=str)
                      for row in found for cell in row]
            if name.replace("_", "").lower() == entity.lower():
                rows = len(found)
        print(json.dumps({"rows": rows, "tables": len(tables), "counts": counts, "cells": cells}))
        return
    file, kind, keys = rest
    if tool == "duckdb":
        reader = f"read_csv('{file}')" if kind == "csv" else f"read_json_auto('{file}')"
        duckdb.connect(str(store)).execute(f"CREATE TABLE {entity} AS SELECT * FROM {reader}")
        return
    os.environ["RUNTIME__DLTHUB_TELEMETRY"] = "false"
    import dlt
    if kind == "csv":
        with open(file, newline="", encoding="utf-8-sig") as opened:
            text = opened.read()
        delimiter = max(",;\t|", key=text.split("\n", 1)[0].count)
        records = list(csv.DictReader(io.StringIO(text), delimiter=delimiter))
    else:
        records = json.loads(pathlib.Path(file).read_text(encoding="utf-8"))
    pipeline = dlt.pipeline("infer", destination=dlt.destinations.duckdb(str(store)), dataset_name="data",
                            pipelines_dir=str(pathlib.Path(folder) / "dlt"))
    keys = json.loads(keys)
    pipeline.run(records, table_name=entity, write_disposition="merge", **({"primary_key": keys} if keys else {}))


child(*sys.argv[1:])
