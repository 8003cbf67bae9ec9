"""The values of a payload and of a store, in a form in which they are compared."""
import contextlib
import json
import re
import xml.etree.ElementTree as ElementTree

NUMBER = re.compile(r"-?(0|[1-9]\d*)(\.\d+)?([eE][-+]?\d+)?$")
DATE = re.compile(r"\d{1,2}:\d{2}|^\d{4}[-/.]?\d{1,2}([-/.]?\d{1,2})?$|^\d{1,2}-\d{1,2}-\d{4}$|"
                  r"^(Mon|Tue|Wed|Thu|Fri|Sat|Sun|Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)[a-z]* ")
WORDS = {"true", "false", "yes", "no", "na", "null", "none", "nan"}


def compared(value):
    """A value in the form in which an input and a store are compared; None for one that a type may rightly change: a
    date, a boolean, a small number, an empty text."""
    if value is None or isinstance(value, bool):
        return None
    if isinstance(value, (bytes, bytearray)):
        value = value.decode("utf-8", "replace")
    if isinstance(value, str):
        text = " ".join(value.split())
        if not NUMBER.match(text):
            return None if len(text) < 2 or DATE.search(text) or text.casefold() in WORDS else text.casefold()
        value = text
    number = float(value)
    if abs(number) < 1000 and number == int(number) or 9e8 < number < 2.2e9 or 9e11 < number < 2.2e12:
        return None
    return f"{number:.12g}"


def add_leaves(value, found, with_keys=False):
    if isinstance(value, dict):
        found.update(map(compared, value if with_keys else []))
        for below in value.values():
            add_leaves(below, found, with_keys)
    elif isinstance(value, list):
        for below in value:
            add_leaves(below, found, with_keys)
    else:
        found.add(compared(value))


def cell_values(cells):
    found = set()
    for cell in cells:
        found.add(compared(cell))
        if isinstance(cell, (bytes, str)) and cell[:1] in (b"[", b"{", b'"', "[", "{", '"'):
            with contextlib.suppress(ValueError):
                add_leaves(json.loads(cell), found, with_keys=True)
    found.discard(None)
    return found


def objects(value):
    if isinstance(value, ElementTree.Element):
        yield from value.iter()
    elif isinstance(value, dict):
        yield value
        for below in value.values():
            yield from objects(below)
    elif isinstance(value, list):
        for below in value:
            yield from objects(below)
