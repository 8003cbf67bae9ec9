import argparse
import json
import random
import sys

from ..documents import read
from ..loads import check, edits
from ..values import changed_payload
from .support import FolderTests

# Has a store as Broker makes it of plain records, and a fault that its name says.
PROGRAM = '''#!{python}
import json, pathlib, sqlite3, sys
fault = pathlib.Path(sys.argv[0]).name
if sys.argv[1] != "submit": sys.exit(0)
file, store = sys.argv[3], sys.argv[5]
records = json.loads(pathlib.Path(file).read_text())
if fault == "silent": sys.exit(1)
if fault == "crash": sys.exit("Fatal: a defect") if len(records) > 1 else sys.exit(70)
if fault == "refuse": sys.exit("broker: not this one")
database = sqlite3.connect(store)
database.execute("CREATE TABLE IF NOT EXISTS Item (id PRIMARY KEY, name TEXT)")
if fault == "doubles" and database.execute("SELECT count(*) FROM Item").fetchone()[0]:
    database.execute("INSERT INTO Item VALUES (?, NULL)", (file + str(len(records)),))
for record in records:
    name = record["name"]
    if fault == "loses" and name == "Grace": name = "grace"
    if fault == "rejects" and name == "Grace":
        pathlib.Path(sys.argv[7]).write_text(json.dumps(record) + "\\n")
        continue
    database.execute("INSERT OR REPLACE INTO Item VALUES (?, ?)", (record["id"], name))
database.commit()
pathlib.Path("s.model.json").write_text(json.dumps(
    {"entities": {"Item": {"identity": "id", "attributes": {"id": "integer64", "name": "string"}}}}))
print(json.dumps({"changes": {"Item": {"inserted": 0}}}))
'''


class LoadTests(FolderTests):
    """What is found in the loads of a changed document."""

    def findings(self, fault):
        program = self.folder / fault
        program.write_text(PROGRAM.replace("{python}", sys.executable))
        program.chmod(0o755)
        payload = self.payload("a.json", [{"id": 1001, "name": "Ada"}, {"id": 1002, "name": "Grace"}], root="")
        kind, document, _ = read(payload.path, {})
        return check(kind, document, document, list, random.Random(1), argparse.Namespace(broker=str(program)), self.folder / "loads")

    def test_nothing_is_found_where_each_value_is_in_the_store(self):
        findings, statuses, _ = self.findings("right")
        self.assertEqual((findings, set(statuses)), ([], {0}))
        # Whole and again, two halves, two edits and the last half again.
        self.assertEqual(len(statuses), 7)

    def test_a_value_that_is_lost_is_found_in_each_load(self):
        findings, _, _ = self.findings("loses")
        for what in ("whole", "again", "parts", "after "):
            self.assertTrue(any(line.startswith(what) and "'name': 'Grace' is not in the store" in line for line in findings), what)

    def test_a_rejected_record_is_not_lost(self):
        self.assertEqual(self.findings("rejects")[0], [])

    def test_a_load_that_ends_without_a_reason_is_found(self):
        self.assertIn("whole: status 1 without a reason", self.findings("silent")[0])

    def test_a_load_that_ends_with_a_reason_is_right(self):
        findings, statuses, words = self.findings("refuse")
        self.assertEqual((findings, set(statuses), set(words)), ([], {1}, {"broker: not this one"}))

    def test_another_status_and_a_defect_are_found(self):
        findings = self.findings("crash")[0]
        self.assertTrue(any(line.startswith("whole: status 1: Fatal") for line in findings))
        self.assertIn("part0: status 70: ", findings)

    def test_rows_that_change_without_a_word_are_found(self):
        self.assertIn("again: rows of ['Item'] changed without a word", self.findings("doubles")[0])

    def test_the_edits_of_a_model_follow_from_the_chooser(self):
        path = self.folder / "s.model.json"
        path.write_text(json.dumps({"entities": {"Item": {"attributes": {"name": "string"}}}}))
        every = [edit for seed in range(50) for edit in edits(path, random.Random(seed))]
        self.assertEqual({edit[0] for edit in every}, {"retype", "promote", "rename"})
        self.assertEqual(every, [edit for seed in range(50) for edit in edits(path, random.Random(seed))])

    def test_a_payload_is_changed_by_its_seed_and_has_at_most_forty_records(self):
        payload = self.payload("a.json", {"items": [{"id": n, "name": f"name {n}"} for n in range(90)]}, root="items")
        expected = {"file": "a.json", "root": "items"}
        kind, document, records, of, _ = changed_payload(payload.path, expected, "5.1")
        self.assertEqual((kind, of(document)), ("json", records))
        self.assertLessEqual(len(records), 45)
        self.assertEqual(document, changed_payload(payload.path, expected, "5.1")[1])
        self.assertTrue(any(document != changed_payload(payload.path, expected, f"5.{n}")[1] for n in range(2, 6)))
