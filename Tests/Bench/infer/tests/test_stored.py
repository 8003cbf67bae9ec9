import contextlib
import decimal
import json
import sqlite3

from ..forms import exact, forms
from ..stored import identities, missing, stored
from .support import FolderTests


class StoredTests(FolderTests):
    """What a store has."""

    def stored(self, columns, *rows):
        with contextlib.closing(sqlite3.connect(self.folder / "s.sqlite")) as database:
            database.execute(f"CREATE TABLE Item ({columns})")
            database.execute("CREATE TABLE _broker_jobs (id)")
            database.execute("INSERT INTO _broker_jobs VALUES (4711)")
            database.executemany(f"INSERT INTO Item VALUES ({', '.join('?' for _ in rows[0])})", rows)
            database.commit()
        return stored(self.folder / "s.sqlite")

    def test_cells_are_found_by_their_types_and_tables_of_broker_are_not_read(self):
        found, rows = self.stored("a INTEGER, b REAL, c TEXT, d", (1001, 2.5, "1003.50", None))
        self.assertEqual(rows, {"Item": 1})
        self.assertEqual(found, {exact(1001), exact("2.5"), "=1003.50", exact("1003.5")})

    def test_values_in_json_are_exact_and_their_keys_are_no_values(self):
        found, _ = self.stored("j JSON_TEXT", ('{"k": [12345678901234567890.5, {"t": "2024-02-03T04:05:06Z", "u": true}]}',))
        self.assertEqual(found, {exact("12345678901234567890.5"), "=2024-02-03T04:05:06Z", "@2024-02-03T04:05:06+00:00", exact(1)})

    def test_a_date_is_found_as_a_time_and_a_uuid_without_case(self):
        found, _ = self.stored("d DATE_TEXT, u UUID_TEXT", ("2024-02-03", "E-0F"))
        self.assertLessEqual({"@2024-02-03T00:00:00+00:00", "=e-0f"}, found)

    def test_the_identities_of_a_model_are_the_keys_of_the_records(self):
        (self.folder / "s.model.json").write_text(json.dumps({"entities": {
            "A": {"identity": ["x", "y"], "attributes": {"x": {"type": "string", "key": [["deep", "X"]]}, "y": "string"}}, "B": {}}}))
        self.assertEqual(identities(self.folder), {("X", "y")})


class MissingTests(FolderTests):
    """What a store lacks of that which was loaded."""

    def missing(self, loads, have, names=(("id",),)):
        found = set()
        for value in have:
            found.update(forms(decimal.Decimal(value) if isinstance(value, int) else value, "json"))
        return missing([[dict(record) for record in load] for load in loads], "json", found, set(names))

    def test_a_value_that_is_nowhere_is_missing_with_its_key(self):
        self.assertEqual(self.missing([[{"id": "a", "name": "Ada"}]], ["a"]), [("name", "Ada")])
        self.assertEqual(self.missing([[{"id": "a", "name": "Ada"}]], ["a", "Ada"]), [])

    def test_a_later_load_may_replace_the_value_of_the_same_object(self):
        loads = [[{"id": "a", "name": "Ada"}], [{"id": "a", "name": "Grace"}]]
        self.assertEqual(self.missing(loads, ["a", "Grace"]), [])
        self.assertEqual(self.missing(loads, ["a", "Ada"]), [("name", "Grace")])

    def test_a_record_replaces_none_of_its_own_load(self):
        records = [{"id": "a", "name": "Ada"}, {"id": "a", "name": "Grace"}]
        self.assertEqual(self.missing([records], ["a", "Grace"]), [("name", "Ada")])

    def test_a_nested_object_may_replace_another_one_of_its_load(self):
        records = [{"id": "x", "owner": {"id": "a", "name": "Ada"}}, {"id": "y", "owner": {"id": "a", "name": "Grace"}}]
        self.assertEqual(self.missing([records], ["x", "y", "a", "Grace"]), [])

    def test_a_nested_object_may_replace_a_record(self):
        records = [{"id": "a", "name": "Ada"}, {"id": "x", "owner": {"id": "a", "name": "Grace"}}]
        self.assertEqual(self.missing([records], ["x", "a", "Grace"]), [])

    def test_the_same_value_again_replaces_nothing(self):
        self.assertEqual(self.missing([[{"id": "a", "name": "Ada"}]] * 2, ["a"]), [("name", "Ada")] * 2)

    def test_another_object_replaces_nothing(self):
        loads = [[{"id": "a", "name": "Ada"}], [{"id": "b", "name": "Grace"}]]
        self.assertEqual(self.missing(loads, ["a", "b", "Grace"]), [("name", "Ada")])
        self.assertEqual(self.missing([loads[0], [{"id": "a", "name": "Grace"}]], ["a", "Grace"], names=()), [("name", "Ada")])
