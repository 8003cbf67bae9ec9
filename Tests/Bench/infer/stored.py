"""What a store has, and what it lacks of that which was loaded."""
import collections
import json
import re
import sqlite3

from .compare import objects
from .documents import EXACT
from .forms import NUMBER, exact, forms, instant, leaves
from .models import identity_of, model_key

STORED_TIME = re.compile(r"\d{4}-\d{2}-\d{2}(T[\d:.]+Z)?$")


def stored(path):
    """The forms of all values of a store, and the rows of its tables."""
    found, rows = set(), {}
    database = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    database.text_factory = lambda data: data.decode("utf-8", "surrogateescape")

    def add(value):
        if isinstance(value, dict):
            for below in value.values():
                add(below)
        elif isinstance(value, list):
            for below in value:
                add(below)
        elif isinstance(value, str):
            found.add("=" + value)
            # A number that was stored as its text, or a date, before its attribute got another type.
            if NUMBER.match(value):
                found.add(exact(value))
            time = instant(value) if STORED_TIME.match(value) else None
            if time is not None:
                found.add(f"@{time.isoformat()}")
        elif value is not None:
            found.add(exact(int(value)) if isinstance(value, bool) else exact(value))

    tables = [name for name, in database.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")
              if not name.startswith(("_broker", "sqlite_"))]
    for table in tables:
        name = table.replace('"', '""')
        types = [column[2] for column in database.execute(f'PRAGMA table_info("{name}")')]
        cells = database.execute(f'SELECT * FROM "{name}"').fetchall()
        rows[table] = len(cells)
        for row in cells:
            for cell, of in zip(row, types):
                if cell is None:
                    continue
                if of == "JSON_TEXT":
                    add(json.loads(cell, **EXACT))
                elif isinstance(cell, float):
                    found.add(exact(repr(cell)))
                elif isinstance(cell, int):
                    found.add(exact(cell))
                else:
                    cell = cell.decode() if isinstance(cell, bytes) else cell
                    found.add("=" + cell)
                    # A number in a column of texts is the text of the number.
                    if NUMBER.match(cell):
                        found.add(exact(cell))
                    if of in ("DATETIME_TEXT", "DATE_TEXT"):
                        found.add(f"@{instant(cell).isoformat()}")
                    if of == "UUID_TEXT":
                        found.add("=" + cell.lower())
    database.close()
    return found, rows


def identities(folder):
    """The keys of each identity of the models in a folder."""
    found = set()
    for path in folder.glob("*.model.json"):
        for entity, described in json.loads(path.read_text(encoding="utf-8"))["entities"].items():
            names = identity_of({"entities": {entity: described}}, entity)
            keys = [model_key({"entities": {entity: described}}, entity, name)[0].split(".")[-1] for name in names]
            if keys:
                found.add(tuple(keys))
    return found


def identity_values(value, names):
    return tuple(str(value.get(name)) for name in names)


def missing(loads, kind, have, names):
    """The values that are not there, of records that were loaded one list after another.

    A later load may replace the values of a record with the same identity, and any nested object those of one before it. A record
    replaces none of its own load: its identity was guessed."""
    alike = collections.defaultdict(list)
    for number, records in enumerate(loads):
        for record in records:
            for each in objects(record):
                for keys in names:
                    if all(each.get(key) is not None for key in keys):
                        alike[keys, identity_values(each, keys)].append((number, each is record, each))

    def is_replaced(number, record, holders):
        return any(other is not holder and (holder is not record or later > number or not is_record) and key in other
                   and other[key] != holder[key]
                   for holder, key in holders for keys in names if all(holder.get(name) is not None for name in keys)
                   for later, is_record, other in alike[keys, identity_values(holder, keys)])

    lost = []
    for number, records in enumerate(loads):
        for record in records:
            for leaf, holders in leaves(record, kind):
                if not any(form in have for form in forms(leaf, kind)) and not is_replaced(number, record, holders):
                    lost.append((holders[-1][1] if holders else "", leaf))
    return lost
