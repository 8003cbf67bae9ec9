"""Changes real payloads at random, loads them without a model, and looks for each value again. `scripts/bench infer --values`
calls it.

usage: scripts/bench infer --values [COUNT] [--seed N] [--broker FILE] [--keep DIR] [NAME...]

  COUNT            changed payloads, 70 by default
  --seed N         repeats the payloads of a run; it is printed
  --only N         only the payload of this number, of the seed
  --broker FILE    the program; otherwise it is built
  --keep DIR       keeps the inputs and the stores of payloads with a finding there
  NAME             files of Tests/Corpus, all by default; a part of the name is enough

Each payload is loaded whole, twice, and in two halves; then the model of the halves is changed by two commands, and the second
half is loaded once more. Whatever was loaded with status 0 must be in the store exactly: in a
column, in `_extra`, or in the JSON of a cell; whatever was not, in the file of rejects, or the load ends with a reason. What a
later object with the same identity replaces need not be there. The same input again changes nothing where there is an identity.
The status is 1 when a value is lost or changed.
"""
import argparse
import collections
import json
import pathlib
import random
import shutil
import sys
import tempfile

from .changes import Changes
from .documents import list_of_records, read
from .loads import check
from .payload import Payload
from .programs import ROOT, prepare

MOST_RECORDS = 40


def changed_payload(path, expected, seed):
    """The kind, the changed document, the list of its records, what finds the records of a document, and what chooses at random."""
    kind, document, root = read(path, expected)
    records = list_of_records(document, root)
    if records is None:
        records = [document]
    else:
        del records[MOST_RECORDS:]
    of = Payload(path, expected).records if kind == "json" else list
    changes = Changes(seed)
    for _ in range(changes.random.choice([0, 1, 1, 2, 3, 5])):
        changes.change(kind, [record for record in records if isinstance(record, dict)] and records)
    return kind, document, records, of, changes.random


def main():
    parser = argparse.ArgumentParser(usage=__doc__.split("usage: ")[1], add_help=False)
    parser.add_argument("count", nargs="?", type=int, default=70)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 30))
    parser.add_argument("--only", type=int)
    parser.add_argument("--broker")
    parser.add_argument("--keep", type=pathlib.Path)
    options = parser.parse_args()
    options.tools = ["broker"]
    prepare(options)
    expected = {each["file"]: each for each in json.loads((ROOT / "Tests/Corpus/expected.json").read_text())}
    names = [name for name in sorted(expected) if name.lower().endswith((".json", ".ndjson", ".csv", ".tsv", ".geojson", ".jsonld"))
             and expected[name].get("records") and (not options.names or any(part in name for part in options.names))]
    print(f"seed {options.seed}, {options.count} changed payloads of {len(names)} files")
    work = options.keep or pathlib.Path(tempfile.mkdtemp())
    ends, reasons = collections.Counter(), collections.Counter()
    faulty = 0
    try:
        for number in range(options.count):
            if options.only is not None and number != options.only:
                continue
            name = names[number % len(names)]
            folder = work / str(number)
            shutil.rmtree(folder, ignore_errors=True)
            changed = changed_payload(ROOT / "Tests/Corpus" / name, expected[name], f"{options.seed}.{number}")
            findings, statuses, words = check(*changed, options, folder)
            ends.update(map(str, statuses))
            reasons.update(f"{name}: status {status}: {text.splitlines()[-1][:200] if text else ''}"
                           for status, text in zip(statuses, words) if status)
            if findings:
                faulty += 1
                for finding in findings:
                    print(f"{number} {name}: {finding}", flush=True)
            if options.only is not None:
                print(statuses, *words, sep="\n")
            if not options.keep or not findings:
                shutil.rmtree(folder)
    finally:
        if not options.keep:
            shutil.rmtree(work)
    print("Loads that ended otherwise than with status 0:", *(f"  {count} {reason}" for reason, count in reasons.items()), sep="\n")
    print(f"{faulty} of {options.count} with a finding; loads by status: {dict(sorted(ends.items()))}")
    return 1 if faulty else 0


if __name__ == "__main__":
    sys.exit(main())
