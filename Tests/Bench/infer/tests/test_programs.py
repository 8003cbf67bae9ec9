import contextlib
import sqlite3
import sys

from ..programs import Run, sqlite_cells
from .support import FolderTests


class ProgramTests(FolderTests):
    """What a program did, and left."""

    def run_python(self, program, limit=60):
        return Run([sys.executable, "-I", "-S", "-c", program], limit)

    def test_a_run_has_the_status_the_output_and_the_memory(self):
        run = self.run_python("import sys; print('out'); print('why', file=sys.stderr); sys.exit(3)")
        self.assertEqual((run.status, run.output, run.late, run.reason), (3, "out\n", False, "why"))
        self.assertGreater(run.megabytes, 1)

    def test_a_run_that_takes_too_long_is_ended(self):
        run = self.run_python("import time; time.sleep(600)", limit=0.2)
        self.assertEqual((run.late, run.reason, run.seconds), (True, "took too long", 0.2))
        self.assertNotEqual(run.status, 0)

    def test_the_reason_of_a_python_program_is_the_error_that_it_ended_with(self):
        self.assertEqual(self.run_python("raise ValueError('wrong')").reason, "ValueError: wrong")

    def test_what_broker_says_of_its_guesses_is_no_reason(self):
        run = self.run_python("import sys; sys.exit('broker: no --model: guessed\\nbroker: the records are in x\\nbroker: bad')")
        self.assertEqual(run.reason, "broker: bad")

    def test_the_cells_are_those_of_the_tables_that_are_not_the_tools_own(self):
        path = self.folder / "s.sqlite"
        with contextlib.closing(sqlite3.connect(path)) as database:
            database.executescript('''
                CREATE TABLE Person (id, name); INSERT INTO Person VALUES (1, 'Ada'), (2, NULL);
                CREATE TABLE "a ""b""" (x); INSERT INTO "a ""b""" VALUES (3);
                CREATE TABLE _broker_jobs (id); INSERT INTO _broker_jobs VALUES (4);''')
        cells, rows = sqlite_cells(path, "person")
        self.assertEqual((sorted(map(str, cells)), rows), (["1", "2", "3", "Ada", "None"], 2))
        self.assertEqual(sqlite_cells(self.folder / "none"), ([], None))
