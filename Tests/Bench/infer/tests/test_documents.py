import decimal
import json

from ..documents import list_of_records, read, text_of, write
from .support import FolderTests


class DocumentTests(FolderTests):
    """Documents with numbers as they were written."""

    def test_a_number_stays_as_it_was_written(self):
        text = '{"a": 1.50, "b": [12345678901234567890, 1E+30], "c": null, "d": "\\"ü"}'
        payload = self.payload("a.json", text, root="x")
        kind, document, root = read(payload.path, {"root": "x"})
        self.assertEqual((kind, root, text_of(document)), ("json", "x", text))

    def test_a_document_of_each_kind_is_read_as_it_was_written(self):
        records = [{"a": decimal.Decimal("1.50"), "b": "line\n\"x\""}, {"a": decimal.Decimal(2), "b": ""}]
        for kind, name in (("json", "a.json"), ("ndjson", "b.ndjson"), ("csv", "c.csv")):
            write(kind, records, self.folder / name)
            found = read(self.folder / name, {"file": name})
            self.assertEqual(found[0], kind)
            self.assertEqual(found[1], [{key: str(value) for key, value in each.items()} for each in records] if kind == "csv" else records)

    def test_a_table_has_the_columns_of_all_rows(self):
        write("csv", [{"a": "1"}, {"b": "2"}], self.folder / "a.csv")
        self.assertEqual((self.folder / "a.csv").read_text(), '"a","b"\n"1",""\n"","2"\n')

    def test_the_list_of_the_records_is_in_the_document_itself(self):
        document = json.loads('{"data": {"items": [1]}, "map": {"x": 1}}')
        self.assertIs(list_of_records(document, "data.items"), document["data"]["items"])
        self.assertIsNone(list_of_records(document, "map"))
        self.assertIsNone(list_of_records(document, "data.items.x"))
