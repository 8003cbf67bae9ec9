"""The loads of a changed document, and what is wrong with them."""
import json
import subprocess

from .documents import EXACT, write
from .forms import forms, leaves
from .stored import identities, missing, stored

LIMIT_SECONDS = 120


class Load:
    """What the loads of one store said."""

    def __init__(self, broker, folder):
        self.broker, self.folder, self.statuses, self.words = broker, folder, [], []
        folder.mkdir(parents=True)

    def run(self, path):
        number = len(self.statuses)
        command = [self.broker, "submit", "Item", str(path), "--store", str(self.folder / "s.sqlite"), "--rejects",
                   str(self.folder / f"rejects-{number}.ndjson"), "--json"]
        return self.ended(command)

    def edit(self, *words):
        """A command of `broker model`."""
        command = [self.broker, "model", *words, "--store", str(self.folder / "s.sqlite"), *(["--yes"] if words[0] == "retype" else [])]
        return self.ended(command)

    def ended(self, command):
        result = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=LIMIT_SECONDS, cwd=self.folder,
                                stdin=subprocess.DEVNULL)
        self.statuses.append(result.returncode)
        self.words.append(result.stderr.strip())
        return result

    def have(self, kind):
        """The forms of what is stored or rejected."""
        found, rows = stored(self.folder / "s.sqlite") if (self.folder / "s.sqlite").exists() else (set(), {})
        for path in self.folder.glob("rejects-*"):
            for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
                for leaf, _ in leaves(json.loads(line, **EXACT), "json"):
                    found.update(forms(leaf, kind))
        return found, rows


TYPES = ["string", "double", "integer64", "integer16", "decimal", "boolean", "date", "calendarDate", "transformable"]


def edits(path, chooser):
    """Commands of `broker model` that lose nothing, or are refused."""
    entities = json.loads(path.read_text(encoding="utf-8"))["entities"]
    for _ in range(2):
        entity = chooser.choice(list(entities))
        attribute = chooser.choice([*entities[entity].get("attributes", {}), "none"])
        yield chooser.choice([["retype", f"{entity}.{attribute}", chooser.choice(TYPES)], ["promote", entity],
                              ["rename", f"{entity}.{attribute}", f"{attribute[:40]}Renamed{chooser.randrange(9)}"]])


def check(kind, document, records, of, chooser, options, folder):
    """The findings of one changed document, each a line, and how its loads ended. `of` finds the records of a document."""
    findings = []
    suffix = {"csv": ".csv", "ndjson": ".ndjson"}.get(kind, ".json")
    folder.mkdir(parents=True)
    whole = folder / f"whole{suffix}"
    write(kind, document, whole)
    parts = []
    if len(records) > 1:
        every = list(records)
        for part, kept in enumerate([every[:len(every) // 2], every[len(every) // 2:]]):
            records[:] = kept
            parts.append((folder / f"part{part}{suffix}", of(document)))
            write(kind, document, parts[-1][0])
        records[:] = every
    every = of(document)
    load = Load(options.broker, folder / "whole")

    def judge(load, given, what):
        have, rows = load.have(kind)
        for place, value in missing(given, kind, have, identities(load.folder))[:3]:
            findings.append(f"{what}, status {load.statuses}: {place!r}: {value!r} is not in the store")
        return rows

    def said(load, result, what):
        if result.returncode not in (0, 3) and not result.stderr.strip():
            findings.append(f"{what}: status {result.returncode} without a reason")
        if result.returncode not in (0, 1, 3) or "defect" in result.stderr:
            findings.append(f"{what}: status {result.returncode}: {result.stderr[-300:]}")

    result = load.run(whole)
    said(load, result, "whole")
    if result.returncode in (0, 3):
        taken = every if result.returncode == 0 else []
        rows = judge(load, [taken], "whole")
        again = load.run(whole)
        said(load, again, "again")
        if again.returncode == 0:
            counts = judge(load, [taken], "again")
            changed = [line for line in counts if counts[line] != rows.get(line)]
            lines = json.loads(again.stdout or "{}").get("changes", {})
            if all(each.get("inserted", 0) == 0 for each in lines.values()) and changed:
                findings.append(f"again: rows of {changed} changed without a word")
    statuses, words = list(load.statuses), list(load.words)
    if parts:
        load = Load(options.broker, folder / "parts")
        given = []
        for path, kept in parts:
            result = load.run(path)
            said(load, result, path.stem)
            if result.returncode == 0:
                given.append(kept)
        judge(load, given, "parts")
        if given and (folder / "parts/s.model.json").exists():
            for edit in edits(folder / "parts/s.model.json", chooser):
                result = load.edit(*edit)
                said(load, result, " ".join(edit))
                judge(load, given, " ".join(edit))
            result = load.run(parts[-1][0])
            said(load, result, "after edits")
            judge(load, given, f"after {edit}")
        statuses += load.statuses
        words += load.words
    return findings, statuses, words
