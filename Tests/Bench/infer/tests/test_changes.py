import collections
import copy
import decimal
import re
import unittest

from ..changes import Changes

RECORDS = [{"id": decimal.Decimal(n), "name": f"name {n}", "owner": {"id": decimal.Decimal(n % 3), "size": decimal.Decimal(n)}}
           for n in range(8)]


class Chosen(Changes):
    """The first of each choice, but for the kind of the change."""

    def __init__(self, what):
        super().__init__(1)
        self.what = what
        self.random.choice = lambda options: self.what if "wrap" in options and "rename" in options else options[0]


def changed(what, kind="json", records=RECORDS):
    """The records with one change of this kind; the first choice of records is the last one."""
    records = copy.deepcopy(records)
    Chosen(what).change(kind, records)
    return records


class ChangesTests(unittest.TestCase):
    """Changes at random, which a seed repeats."""

    def test_the_same_seed_makes_the_same_changes_and_another_one_others(self):
        def changes(seed):
            records, made = copy.deepcopy(RECORDS), Changes(seed)
            for _ in range(20):
                made.change("json", records)
            return records

        self.assertEqual(changes("5.0"), changes("5.0"))
        self.assertNotEqual(changes("5.0"), changes("5.1"))

    def test_what_is_made_occurs_once_but_for_dates(self):
        for kind in ("json", "csv"):
            made = Changes(3)
            values = collections.Counter(text for text in map(str, (made.value(kind) for _ in range(500)))
                                         if re.search(r"\d", text) and not text.startswith("2024-02-"))
            self.assertEqual(values.most_common(1)[0][1], 1)
            self.assertGreater(len(values), 200)

    def test_a_table_gets_texts_only(self):
        made = Changes(4)
        self.assertTrue(all(isinstance(made.value("csv"), str) for _ in range(200)))

    def test_one_value_differs(self):
        different = changed("value")
        self.assertEqual(different[:-1], RECORDS[:-1])
        self.assertEqual({key for key in RECORDS[-1] if different[-1][key] != RECORDS[-1][key]}, {"id"})

    def test_each_value_of_a_key_differs_in_nested_objects_too(self):
        last = changed("values")[-1]
        self.assertNotIn(last["id"], (RECORDS[-1]["id"], last["owner"]["id"]))
        self.assertNotEqual(last["owner"]["id"], RECORDS[-1]["owner"]["id"])

    def test_a_key_is_added(self):
        self.assertEqual(changed("new")[-1].keys() - RECORDS[-1].keys(), {"http.status"})

    def test_a_value_becomes_null_or_the_empty_text_of_a_table(self):
        self.assertIsNone(changed("null")[-1]["id"])
        self.assertEqual(changed("null", "csv", [{"a": "1"}]), [{"a": ""}])

    def test_a_key_goes_unless_it_is_the_only_one(self):
        self.assertNotIn("id", changed("remove")[-1])
        self.assertEqual(changed("remove", records=[{"a": 1}]), [{"a": 1}])

    def test_the_order_of_keys_changes_and_no_value(self):
        self.assertEqual(changed("order"), RECORDS)
        self.assertNotEqual([list(each) for each in changed("order")], [list(each) for each in RECORDS])

    def test_a_record_occurs_twice(self):
        self.assertEqual(len(changed("double")), len(RECORDS) + 1)
        self.assertEqual([each for each in RECORDS if changed("double").count(each) == 2], [RECORDS[0]])

    def test_a_key_has_another_name(self):
        last = changed("rename")[-1]
        self.assertEqual((last["http.status"], "id" in last), (RECORDS[-1]["id"], False))

    def test_a_value_is_wrapped_but_in_a_table(self):
        self.assertEqual(changed("wrap")[-1]["id"], [RECORDS[-1]["id"]])
        self.assertEqual(changed("wrap", "csv", [{"a": "1"}]), [{"a": "1"}])

    def test_a_number_becomes_its_text(self):
        self.assertEqual(changed("text")[-1]["id"], "7")

    def test_records_without_a_key_stay(self):
        self.assertEqual(changed("value", records=[{}]), [{}])
