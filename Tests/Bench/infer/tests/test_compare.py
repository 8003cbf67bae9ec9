import unittest

from ..compare import cell_values, compared, objects


class ComparedTests(unittest.TestCase):
    """What a value of an input and of a store have in common."""

    def test_numbers_are_equal_by_value_whatever_their_form(self):
        self.assertEqual(compared("1234.50"), compared(1234.5))
        self.assertEqual(compared("12e3"), compared(12000))
        self.assertNotEqual(compared(1234.5), compared(1234.25))

    def test_texts_are_equal_without_case_and_runs_of_blanks(self):
        self.assertEqual(compared(" Ada \n Lovelace"), compared(b"ada lovelace"))

    def test_what_a_type_may_rightly_change_is_not_compared(self):
        for value in (None, True, "", "x", "2024-02-03", "04:05", "Mon 3 Feb", "yes", "NaN", 7, "-999", 1700000000, 1700000000000):
            self.assertIsNone(compared(value), value)

    def test_a_number_with_a_leading_zero_is_a_text(self):
        self.assertEqual(compared("0123456789.5"), "0123456789.5")
        self.assertEqual(compared("123456789.5"), "123456789.5")

    def test_the_values_of_a_cell_with_json_are_found_with_their_keys(self):
        cells = ['{"city": ["Turin", 1234]}', "plain", None, "[no JSON"]
        self.assertEqual(cell_values(cells), {"city", "turin", "1234", "plain", "[no json", cells[0].lower()})

    def test_each_object_in_a_value_is_found_once(self):
        inner = {"b": 1}
        value = [{"a": [inner]}, 3]
        self.assertEqual(list(objects(value)), [value[0], inner])
