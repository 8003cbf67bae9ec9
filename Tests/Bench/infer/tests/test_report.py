import contextlib
import io

from ..report import judge, print_report, row, totals
from .support import FolderTests


class ReportTests(FolderTests):
    """What the columns say of what was measured."""

    def setUp(self):
        super().setUp()
        self.people = self.payload("a.json", [{"id": 1001, "name": "Ada"}, {"id": 1002, "name": "Grace"}], root="")

    def judged(self, tool="broker", expected=None, **result):
        result = {"loads": "yes", "seconds": 1, "megabytes": 10} | result
        judge(tool, result, self.people, expected if expected is not None else {"records": 2})
        return result

    def test_the_share_of_values_is_of_those_in_the_records(self):
        self.assertEqual(self.judged(cells=[1001, "ada", 1002, "GRACE"], rows=2, records=2)["values"], 100)
        self.assertEqual(self.judged(cells=[1001, "Ada", 1002, "Alan"], rows=2, records=2)["values"], 75)

    def test_records_are_kept_if_each_is_a_row_and_broker_counted_them(self):
        self.assertTrue(self.judged(cells=[], rows=2, records=2)["kept"])
        self.assertFalse(self.judged(cells=[], rows=1, records=2)["kept"])
        self.assertFalse(self.judged(cells=[], rows=2, records=3)["kept"])
        self.assertTrue(self.judged("dlt", cells=[], rows=2)["kept"])

    def test_fewer_rows_are_right_where_several_records_are_of_one_object(self):
        self.assertTrue(self.judged(expected={"distinct": 1}, cells=[], rows=1, records=2)["kept"])
        self.assertTrue(self.judged(expected={"otherRecords": [1]}, cells=[], rows=1, records=1)["kept"])
        self.assertFalse(self.judged("dlt", expected={"otherRecords": [1]}, cells=[], rows=1)["kept"])

    def test_a_refusal_is_right_only_where_it_may_be(self):
        self.assertTrue(self.judged(loads="refused", expected={"refusal": "no records"})["right"])
        self.assertFalse(self.judged(loads="refused")["right"])
        self.assertFalse(self.judged(loads="failed", expected={"refusal": "no records"})["right"])

    def test_the_identity_is_wrong_where_records_are_lost(self):
        model, expected = {"entities": {"P": {"identity": "id"}}}, {"entity": "P", "identity": ["id"]}
        self.assertTrue(self.judged(expected=expected, model=model, cells=[], rows=2, records=2)["identity"])
        self.assertFalse(self.judged(expected=expected, model=model, cells=[], rows=1, records=2)["identity"])

    def test_a_row_has_what_was_measured_and_a_line_for_what_was_not(self):
        result = self.judged(cells=[1001, "Ada", 1002], rows=1, records=2, again=True, changed=False)
        self.assertEqual(row("a.json", "broker", result), ["a.json", "broker", "yes", "1/2 NO", "75 %", "-", "-", "yes", "NO", "-", "-", "1.00", "10"])

    def test_totals_count_the_files_that_are_right(self):
        results = [self.judged(cells=[1001, "Ada", 1002, "Grace"], rows=2, records=2, again=True, page="yes"),
                   self.judged(cells=[], rows=1, records=2, again=False, page="partly", megabytes=30)]
        self.assertEqual(totals("broker", results), ["broker", "2/2", "1/2", "1/2", "-", "-", "1/2", "-", "1/2", "2.0", "30"])

    def test_the_report_names_why_something_is_not_right(self):
        result = self.judged(cells=[], rows=1, records=2, again=False, againWhy="Person 3 updated", lacks=["Team by id"])
        with contextlib.redirect_stdout(io.StringIO()) as said:
            print_report({"a.json": {"broker": result}}, ["broker", "dlt"])
        self.assertIn("a.json, broker, again: Person 3 updated", said.getvalue())
        self.assertIn("a.json, broker, model lacks: Team by id", said.getvalue())
