import copy
import json

from ..payload import Payload
from .support import FolderTests


class PayloadTests(FolderTests):
    """Where the records of a file are."""

    def test_the_name_says_what_a_file_is(self):
        kinds = {"a.csv": ("x,y\n1,2\n", "csv"), "b.tab": ("x\ty\n1\t2\n", "csv"), "c.xml": ("<a/>", "xml"),
                 "d.ndjson": ('{"x": 1}\n', "ndjson"), "e.geojson": ("[]", "json")}
        for name, (text, kind) in kinds.items():
            self.assertEqual(self.payload(name, text, root="").kind, kind)

    def test_the_delimiter_of_a_table_is_the_one_that_its_header_has_most(self):
        payload = self.payload("a.csv", "name;a,b;c\nAda;1,5;\n", root="")
        self.assertEqual(payload.records(), [{"name": "Ada", "a,b": "1,5", "c": ""}])

    def test_records_are_at_the_root_through_every_list(self):
        payload = self.payload("a.json", {"pages": [{"items": [{"id": 1}]}, {"items": [{"id": 2}, {"id": 3}]}]}, root="pages.items")
        self.assertEqual(payload.records(), [{"id": 1}, {"id": 2}, {"id": 3}])

    def test_the_records_of_a_map_are_its_values(self):
        payload = self.payload("a.json", {"data": {"x": {"n": 1}, "y": {"n": 2}}}, root="data", map=True)
        self.assertEqual(payload.records(), [{"n": 1}, {"n": 2}])
        self.assertEqual(list(payload.keys()), ["x", "y"])

    def test_without_an_expectation_the_longest_list_of_objects_has_the_records(self):
        payload = self.payload("a.json", {"few": [{"a": 1}], "deep": {"many": [{"b": 1}, {"b": 2}, {"b": 3}], "plain": [1, 2, 3, 4]}})
        self.assertEqual(payload.root, "deep.many")

    def test_only_the_first_records_are_left_when_others_are_removed(self):
        for name, text, root in (("a.json", '{"list": [{"id": 1}, {"id": 2}, {"id": 3}], "n": 9}', "list"),
                                 ("b.xml", "<a><r i='1'/><r i='2'/><r i='3'/></a>", "a.r")):
            payload = self.payload(name, text, root=root)
            document = copy.deepcopy(payload.document)
            self.assertEqual(len(payload.records(document, first=2)), 2)
            self.assertEqual(len(payload.records(document)), 2)
            self.assertEqual(len(payload.records()), 3)

    def test_a_document_that_is_written_is_read_again(self):
        for name, text in (("a.json", '{"ä": [{"id": 1}]}'), ("b.ndjson", '{"id": 1}\n{"id": 2}\n'), ("c.csv", 'x,y\n"a ""b"",",2\nc,\n'),
                           ("d.xml", "<r xmlns='urn:x'><i a='1'>t</i></r>")):
            payload = self.payload(name, text, root="")
            payload.write(payload.document, self.folder / f"again-{name}")
            again = Payload(self.folder / f"again-{name}", {"file": name})
            if payload.kind == "xml":
                self.assertEqual([(each.tag, each.attrib, each.text) for each in again.document.iter()],
                                 [(each.tag, each.attrib, each.text) for each in payload.document.iter()])
            else:
                self.assertEqual(again.document, payload.document)

    def test_the_leaves_are_the_values_of_records_and_the_keys_of_maps(self):
        payload = self.payload("a.json", {"first": {"tags": {"red-ish": 1}, "name": "Ada"}}, root="", map=True, maps=["tags"])
        self.assertEqual(payload.leaves(), {"first", "red-ish", "ada"})

    def test_a_file_of_which_no_records_are_expected_is_not_read(self):
        payload = self.payload("a.json", "no JSON", records=0)
        self.assertEqual((payload.kind, payload.records()), ("text", []))
        self.assertRaises(json.JSONDecodeError, self.payload, "a.json", "no JSON", root="")
