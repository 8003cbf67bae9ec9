"""Programs: how they are built or installed, how they run, and what they leave in a store."""
import contextlib
import os
import pathlib
import re
import signal
import sqlite3
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[3]
# A small process starts the program: on Linux a process begins with the peak memory of the one that started it.
LAUNCHER = """
import os, sys, time
start = time.monotonic()
process = os.fork()
if process == 0:
    os.execv(sys.argv[2], sys.argv[2:])
_, status, usage = os.wait4(process, 0)
with open(sys.argv[1], "w") as report:
    print(os.waitstatus_to_exitcode(status), time.monotonic() - start, usage.ru_maxrss / 1024, file=report)
"""


class Run:
    """A program that ended, how long it took and how much memory."""

    def __init__(self, command, limit, cwd=None):
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as errors, tempfile.NamedTemporaryFile() as report:
            launcher = [sys.executable, "-I", "-S", "-c", LAUNCHER, report.name]
            process = subprocess.Popen([*launcher, *command], stdin=subprocess.DEVNULL, stdout=out, stderr=errors, cwd=cwd,
                                       start_new_session=True)
            try:
                process.wait(limit)
                self.late = False
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
                self.late = True
            answer = report.read().split()
            self.status = int(answer[0]) if answer else -signal.SIGKILL
            self.seconds = float(answer[1]) if answer else limit
            self.megabytes = float(answer[2]) if answer else 0
            out.seek(0)
            errors.seek(0)
            self.output = out.read().decode("utf-8", "replace")
            self.errors = errors.read().decode("utf-8", "replace")

    @property
    def reason(self):
        if self.late:
            return "took too long"
        lines = [line for line in self.errors.splitlines() if line.strip()]
        if "Traceback" in self.errors:
            lines = [line for line in lines if re.match(r"[\w.]+(Error|Exception|Failed|InvalidStep)\b", line)][-1:] or lines[-1:]
        lines = [line for line in lines if not re.match("broker: (no --model|the model is|the records are)", line)] or lines
        return (lines[0] if lines else f"status {self.status}")[:300]


def sqlite_cells(store, top=None):
    """The cells of the tables that are not the tool's own, and how many rows the top entity has."""
    if not store.exists():
        return [], None
    with contextlib.closing(sqlite3.connect(f"file:{store}?mode=ro", uri=True)) as database:
        database.text_factory = lambda data: data.decode("utf-8", "replace")
        names = [name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
                 if not name.startswith(("_broker", "sqlite_", "_dlt"))]
        cells, rows = [], None
        for name in names:
            table = '"' + name.replace('"', '""') + '"'
            for row in database.execute(f"SELECT * FROM {table}"):
                cells.extend(row)
            if top is not None and name.casefold() == top.casefold():
                rows = database.execute(f"SELECT count(*) FROM {table}").fetchone()[0]
        return cells, rows


def prepare(options):
    """The programs: Broker is built, the others are installed from PyPI."""
    options.venv = ROOT / ".build/bench-infer"
    if "broker" in options.tools and not options.broker:
        subprocess.run(["swift", "build", "-c", "release", "--product", "broker"], cwd=ROOT, check=True, stdout=sys.stderr)
        folder = subprocess.run(["swift", "build", "-c", "release", "--show-bin-path"], cwd=ROOT, check=True,
                                capture_output=True, text=True).stdout.strip()
        options.broker = f"{folder}/broker"
    if set(options.tools) - {"broker"} and not (options.venv / "installed").exists():
        subprocess.run([sys.executable, "-m", "venv", str(options.venv)], check=True)
        subprocess.run([str(options.venv / "bin/pip"), "install", "--quiet", "dlt[duckdb]", "duckdb", "pytz", "sqlite-utils"],
                       check=True, stdout=sys.stderr)
        (options.venv / "installed").touch()
