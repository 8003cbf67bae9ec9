import decimal
import unittest

from ..forms import exact, forms, instant, leaves

NUMBER = decimal.Decimal


class FormsTests(unittest.TestCase):
    """The forms in which a store may have a value."""

    def same(self, one, kind, other):
        """Whether a value of an input can be the value of a store."""
        return bool(set(forms(one, kind)) & set(forms(other, "json")))

    def test_a_number_is_exact(self):
        self.assertEqual(exact("1.50"), exact("1.5"))
        self.assertEqual(exact("100e1"), exact("1000"))
        self.assertEqual(exact("-0.0"), exact("0"))
        self.assertNotEqual(exact("9007199254740993"), exact("9007199254740992"))

    def test_a_fraction_may_be_the_nearest_double_and_a_whole_number_may_not(self):
        self.assertIn(exact(repr(float("1000.123456789012345678"))), forms(NUMBER("1000.123456789012345678"), "json"))
        self.assertEqual([form for form in forms(NUMBER(2**63 + 1001), "json") if not form.startswith("@")], [exact(2**63 + 1001)])

    def test_a_number_may_be_a_time(self):
        self.assertTrue(self.same(NUMBER(1700000000), "json", "2023-11-14T22:13:20Z"))
        self.assertTrue(self.same(NUMBER(1700000000123), "json", "2023-11-14T22:13:20.123Z"))
        self.assertFalse(self.same(NUMBER(1700000001), "json", "2023-11-14T22:13:20Z"))

    def test_a_text_may_be_the_number_that_it_spells(self):
        self.assertTrue(self.same("1001.50", "json", NUMBER("1001.5")))
        self.assertFalse(self.same("+1001", "json", NUMBER(1001)))
        self.assertFalse(self.same("01001", "json", NUMBER(1001)))

    def test_only_the_text_of_a_table_has_blanks_and_a_decimal_comma(self):
        self.assertTrue(self.same(" 1001 ", "csv", NUMBER(1001)))
        self.assertTrue(self.same("1001,25", "csv", NUMBER("1001.25")))
        self.assertFalse(self.same(" 1001 ", "json", NUMBER(1001)))
        self.assertFalse(self.same("1001,25", "json", NUMBER("1001.25")))

    def test_a_word_may_be_a_boolean_and_a_boolean_a_number(self):
        self.assertTrue(self.same("Yes", "csv", True))
        self.assertFalse(self.same("Yes", "csv", False))
        self.assertIn(exact(0), forms(False, "json"))
        self.assertIn("=true", forms(True, "json"))

    def test_a_time_is_the_same_in_every_zone_and_form(self):
        for text in ("2024-02-03T05:05:06+01:00", "Sat, 03 Feb 2024 04:05:06 GMT", "2024-02-03 04:05:06 UTC", "2024-02-03T04:05:06.000000000Z"):
            self.assertTrue(self.same(text, "json", "2024-02-03T04:05:06Z"), text)
        self.assertEqual(instant("2024-02-03T04:05:06.120000000Z"), instant("2024-02-03T04:05:06.12Z"))
        self.assertEqual(instant("3.2.2024"), instant("2024-02-03"))

    def test_what_is_no_date_or_more_exact_than_microseconds_is_no_time(self):
        self.assertIsNone(instant("2024-02-30"))
        self.assertIsNone(instant("text"))
        self.assertNotEqual(instant("2024-02-03T04:05:06.000001Z"), instant("2024-02-03T04:05:06.000002Z"))

    def test_each_leaf_has_the_objects_that_it_is_in(self):
        inner = {"b": ["x", None]}
        outer = {"a": [inner]}
        self.assertEqual(list(leaves(outer, "json")), [("x", [(outer, "a"), (inner, "b")])])

    def test_the_words_for_null_are_no_values_of_a_table(self):
        self.assertEqual([leaf for leaf, _ in leaves({"a": "N/A", "b": " ", "c": "x"}, "csv")], ["x"])
        self.assertEqual([leaf for leaf, _ in leaves({"a": "N/A", "b": " "}, "json")], ["N/A", " "])
