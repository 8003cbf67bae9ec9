"""Broker, as one of the tools."""
import json

from .compare import cell_values
from .programs import Run, sqlite_cells


class Broker:
    name = "broker"

    def __init__(self, options):
        self.program, self.limit = options.broker, options.limit

    def submit(self, store, entity, file):
        run = Run([self.program, "submit", "--store", str(store), "--entity", entity, str(file), "--json"], self.limit,
                  store.parent)
        try:
            run.summary = json.loads(run.output)
        except ValueError:
            run.summary = {}
        run.changes = run.summary.get("changes", {})
        return run

    def count(self, run, what):
        return sum(change.get(what, 0) for change in run.changes.values())

    def measure(self, payload, expected, files, folder):
        store, entity = folder / "store.sqlite", expected.get("entity", "Record")
        run = self.submit(store, entity, payload.path)
        result = {"seconds": run.seconds, "megabytes": run.megabytes}
        cells, rows = sqlite_cells(store, entity)
        if run.status != 0:
            left = [path.name for path in folder.iterdir()]
            result["loads"] = "failed" if run.late or run.status < 0 or rows or left else "refused"
            result["reason"] = run.reason + (f" (left: {', '.join(sorted(left))})" if left else "")
            if not rows:
                return result
        else:
            result["loads"] = "yes"
        result |= {"rows": rows, "records": run.summary.get("records"), "cells": cells}
        model = folder / "store.model.json"
        if model.exists():
            result["model"] = json.loads(model.read_text())
            result["tables"] = len(result["model"].get("entities", {}))
        again = self.submit(store, entity, payload.path)
        result["again"] = again.status == 0 and again.changes != {} and not any(
            self.count(again, what) for what in ("inserted", "updated", "deleted", "rejected"))
        if not result["again"]:
            changes = [f"{name} {n} {what}" for name, change in again.changes.items() for what, n in change.items()
                       if n and what != "unchanged"]
            result["againWhy"] = again.reason if again.status else \
                "; ".join(changes[:6]) + (f"; and {len(changes) - 6} more" if len(changes) > 6 else "")
        if not expected:
            return result
        if files["changed"]:
            changed = self.submit(store, entity, files["changedFile"])
            top = changed.changes.get(entity, {})
            result["changed"] = changed.status == 0 and top.get("updated") == files["changed"] and \
                self.count(changed, "updated") == files["changed"] and not self.count(changed, "inserted")
            if not result["changed"]:
                result["changedWhy"] = changed.reason if changed.status else f"{top} and not {files['changed']} updated"
        page = self.submit(store, entity, files["pageFile"])
        have = cell_values(sqlite_cells(store)[0])
        missing = files["pageValues"] - have
        complete = page.status == 0 and page.changes.get(entity, {}).get("inserted") == files["page"]
        result["page"] = "yes" if complete and not missing else "partly" if page.status == 0 else "no"
        if result["page"] != "yes":
            result["pageWhy"] = page.reason if page.status else \
                f"{page.changes.get(entity, {})} of {files['page']}; lost: {sorted(missing)}"
        return result
