"""Loads payloads without a model, and measures how well: Broker beside dlt, sqlite-utils and duckdb. `scripts/bench infer`
calls it.

usage: scripts/bench infer [OPTION...] [NAME...]

  NAME             files of the corpus, all by default; a part of the name is enough
  --corpus DIR     another folder of payloads; without an expected.json in it, they are only loaded, twice
  --tools LIST     of broker, dlt, sqlite-utils and duckdb, all by default; commas between them
  --keys           dlt and sqlite-utils get the expected identity as their primary key
  --broker FILE    the program; otherwise it is built
  --limit SECONDS  for each run, 120 by default
  --json           prints the raw numbers instead of the table
  --keep DIR       keeps the stores, the changed copies and the second pages there

Each payload is loaded, loaded again, loaded with another value in one record of ten, and followed by a second page: new
identities, a key that is new, a null that becomes an object, a whole number that becomes a fraction, and a list that was
empty. Broker gets the file and a name for the entity. The other tools, which look for no records in a document, get an
array of the records that are expected. Tests/Corpus/README.md explains expected.json and the columns.
"""
import argparse
import json
import pathlib
import shutil
import sys
import tempfile

from .broker import Broker
from .others import Dlt, DuckDB, SQLiteUtils
from .pages import changed_copy, second_page
from .payload import Payload
from .programs import ROOT, prepare
from .report import judge, print_report


def checked(path, expected):
    payload = Payload(path, expected)
    count = len(payload.records())
    if count != expected.get("records", count):
        sys.exit(f"{path.name} has {count} records, and not {expected['records']} as expected")
    return payload


def measure(payload, expected, tools, work):
    path = payload.path
    work.mkdir(parents=True)
    files = {name + "File": work / f"{name}{path.suffix}" for name in ("changed", "page")}
    if expected:
        files["changed"] = changed_copy(payload, expected, files["changedFile"])
        files["page"], files["pageValues"] = second_page(payload, expected, files["pageFile"])
    results = {}
    for tool in tools:
        if payload.kind in ("xml", "text") and tool.name != "broker":
            continue
        folder = work / tool.name
        folder.mkdir()
        results[tool.name] = tool.measure(payload, expected, files, folder)
        judge(tool.name, results[tool.name], payload, expected)
    return results


def main():
    kinds = {tool.name: tool for tool in (Broker, Dlt, SQLiteUtils, DuckDB)}
    parser = argparse.ArgumentParser(usage=__doc__.split("usage: ")[1], add_help=False)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--help", action="store_true")
    parser.add_argument("--corpus", type=pathlib.Path, default=ROOT / "Tests/Corpus")
    parser.add_argument("--tools", type=lambda text: text.split(","), default=list(kinds))
    parser.add_argument("--keys", action="store_true")
    parser.add_argument("--broker")
    parser.add_argument("--limit", type=float, default=120)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--keep", type=pathlib.Path)
    options = parser.parse_args()
    if options.help:
        print(__doc__)
        return 0
    if set(options.tools) - set(kinds):
        parser.error(f"the tools are {', '.join(kinds)}")
    prepare(options)
    described = options.corpus / "expected.json"
    expected = {each["file"]: each for each in json.loads(described.read_text())} if described.exists() else {}
    paths = [path for path in sorted(options.corpus.iterdir()) if path.is_file() and path.name in expected or
             not expected and path.suffix in (".json", ".ndjson", ".jsonl", ".csv", ".tsv", ".xml", ".geojson")]
    if options.names:
        paths = [path for path in paths if any(name in path.name for name in options.names)]
    work = options.keep or pathlib.Path(tempfile.mkdtemp())
    results = {}
    try:
        tools = [kinds[name](options) for name in options.tools]
        payloads = [checked(path.resolve(), expected.get(path.name, {})) for path in paths]
        for payload in payloads:
            name = payload.path.name
            print(name, file=sys.stderr)
            results[name] = measure(payload, expected.get(name, {}), tools, work.resolve() / name)
    finally:
        if not options.keep:
            shutil.rmtree(work)
    if options.json:
        print(json.dumps(results, indent=1))
    else:
        print_report(results, options.tools)


if __name__ == "__main__":
    sys.exit(main())
