import json
import unittest
import xml.etree.ElementTree as ElementTree

from ..fields import Fields, other_identity
from ..pages import changed_copy, second_page
from ..payload import NEW_KEY, NEW_VALUE
from .support import FolderTests


class FieldsTests(unittest.TestCase):
    """The plain values of a record, in JSON and in XML."""

    def test_a_key_with_a_point_is_the_key_itself_or_a_path(self):
        fields = Fields({"a.b": 1, "c": {"d": 2}}, "json")
        self.assertEqual([fields.get("a.b"), fields.get("c.d"), fields.get("c.x"), fields.get("x.y")], [1, 2, None, None])
        fields.set("a.b", 3)
        fields.set("c.d", 4)
        self.assertEqual(fields.record, {"a.b": 3, "c": {"d": 4}})

    def test_attributes_and_children_of_an_element_are_values(self):
        element = ElementTree.fromstring("<r xmlns='urn:x' id='1'><name>Ada</name><list><i/></list></r>")
        fields = Fields(element, "xml")
        self.assertEqual(dict(fields.items()), {"id": "1", "name": "Ada"})
        fields.set("name", "Grace")
        fields.set("id", "2")
        self.assertEqual(dict(fields.items()), {"id": "2", "name": "Grace"})


class OtherIdentityTests(unittest.TestCase):
    """Another value of the same form."""

    def test_another_value_differs_and_has_the_same_type(self):
        for value in (7, 1.5, "17", "abc", "0123456789abcdef0123456789abcdef", "12345678-1234-1234-1234-123456789abc",
                      "2024-02-03", {"id": 3, "name": "Ada"}):
            other = other_identity(value)
            self.assertNotEqual(other, value)
            self.assertIs(type(other), type(value))

    def test_a_uuid_stays_one_and_a_date_stays_one(self):
        self.assertRegex(other_identity("12345678-1234-1234-1234-123456789abc"), r"^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$")
        self.assertEqual(other_identity("2024-02-03"), "2064-02-03")

    def test_what_cannot_differ_stays(self):
        for value in (None, True, [1]):
            self.assertEqual(other_identity(value), value)


class ChangedCopyTests(FolderTests):
    """Another value in one record of ten."""

    def changed(self, payload, **expected):
        path = self.folder / "changed.json"
        count = changed_copy(payload, expected, path)
        return count, json.loads(path.read_text()) if path.exists() else None

    def test_one_record_of_ten_has_one_other_value_that_identifies_nothing(self):
        records = [{"id": n, "code": f"code {n}", "name": f"name {n}", "n": 5} for n in range(25)]
        count, changed = self.changed(self.payload("a.json", records, root=""), identity=["id"], alternatives=[["code"]])
        different = [(old, new) for old, new in zip(records, changed) if old != new]
        self.assertEqual((count, [old["id"] for old, _ in different]), (3, [0, 10, 20]))
        for old, new in different:
            self.assertEqual(new, old | {"name": old["name"] + " (changed)"})

    def test_a_number_or_a_date_changes_where_there_is_no_text(self):
        self.assertEqual(self.changed(self.payload("a.json", [{"id": 1, "n": 5}], root=""), identity=["id"]), (1, [{"id": 1, "n": 6}]))
        self.assertEqual(self.changed(self.payload("a.json", [{"id": 1, "n": "2.5"}], root=""), identity=["id"])[1][0]["n"], "3.5")
        self.assertEqual(self.changed(self.payload("a.json", [{"id": 1, "d": "2024-02-03"}], root=""), identity=["id"])[1][0]["d"], "2064-02-03")

    def test_an_object_that_occurs_twice_is_not_changed(self):
        owner = {"id": 1, "name": "Ada Lovelace"}
        records = [{**owner, "twin": {**owner}}, {"id": 2, "name": "Grace Hopper"}]
        count, changed = self.changed(self.payload("a.json", records, root=""), identity=["id"])
        self.assertEqual((count, changed[0], changed[1]["name"]), (1, records[0], "Grace Hopper (changed)"))

    def test_nothing_is_changed_where_nothing_identifies_records(self):
        self.assertEqual(self.changed(self.payload("a.json", [{"name": "Ada"}], root=""), identity=None), (0, None))


class SecondPageTests(FolderTests):
    """New records with forms that the first ones lack."""

    def page(self, payload, **expected):
        count, values = second_page(payload, expected, self.folder / "page.json")
        return count, values, json.loads((self.folder / "page.json").read_text())

    def test_the_page_has_new_identities_and_at_most_twenty_records(self):
        payload = self.payload("a.json", [{"id": n, "name": f"name {n}"} for n in range(1, 31)], root="")
        count, values, page = self.page(payload, identity=["id"])
        self.assertEqual((count, len(page)), (20, 20))
        self.assertFalse({record["id"] for record in page} & set(range(1, 31)))
        self.assertTrue(all(record[NEW_KEY] == NEW_VALUE for record in page))
        self.assertIn(NEW_VALUE, values)

    def test_the_first_record_gets_a_fraction_an_object_and_an_item(self):
        payload = self.payload("a.json", [{"id": 1, "size": 4000, "none": None, "list": []}], root="")
        _, values, (record,) = self.page(payload, identity=["id"])
        self.assertEqual(record["size"], 4000.53)
        self.assertEqual((record["none"]["id"], record["list"][0]["id"]), (987654321, 987654322))
        self.assertLessEqual({"4000.53", "object of the second page", "item of the second page"}, values)

    def test_the_keys_of_a_map_are_new(self):
        payload = self.payload("a.json", {"x": {"n": 1}, "y": {"n": 2}}, root="", map=True)
        count, _, page = self.page(payload, identity=["@key"])
        self.assertEqual((count, sorted(page)), (2, ["xn", "yn"]))
