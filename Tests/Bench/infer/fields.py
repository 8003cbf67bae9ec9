"""The plain values of a record, and other values of the same form."""
import re

from .compare import DATE, NUMBER, compared
from .payload import local


class Fields:
    """The plain values of a record, whether it is JSON, a row or an element."""

    def __init__(self, record, kind):
        self.record, self.kind = record, kind

    def items(self):
        if self.kind == "xml":
            children = [(local(child.tag), child.text) for child in self.record if not len(child) and child.text]
            return [*((local(key), value) for key, value in self.record.attrib.items()), *children]
        return list(self.record.items()) if isinstance(self.record, dict) else []

    def get(self, key):
        if self.kind == "xml":
            return dict(reversed(self.items())).get(key)
        value = self.record
        if isinstance(value, dict) and key in value:
            return value[key]
        for step in key.split("."):
            value = value.get(step) if isinstance(value, dict) else None
        return value

    def set(self, key, value):
        if self.kind == "xml":
            for name in self.record.attrib:
                if local(name) == key:
                    self.record.attrib[name] = value
                    return
            for child in self.record:
                if local(child.tag) == key:
                    child.text = value
                    return
            return
        parent, steps = self.record, [key] if key in self.record else key.split(".")
        for step in steps[:-1]:
            parent = parent[step]
        parent[steps[-1]] = value


def other_identity(value):
    """Another value of the same form."""
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, (int, float)):
        return value + (100_000 if value < 1e9 else 1_000_003)
    if isinstance(value, dict):
        return {key: other_identity(below) if key in ("id", "login", "url", "node_id") else below
                for key, below in value.items()}
    if isinstance(value, list):
        return value
    if re.fullmatch(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}", value):
        return "-".join(part[::-1] for part in value.split("-"))
    if re.fullmatch(r"[0-9a-f]{32,}", value):
        return value[::-1]
    if re.fullmatch(r"[1-9]\d*", value):
        return "9" + value
    if re.search(r"\b(1[5-9]|20)\d\d\b", value) and DATE.search(value):
        return re.sub(r"\b(1[5-9]|20)\d\d\b", lambda year: str(int(year[0]) + 40), value, count=1)
    return value + "n"


def identities(expected):
    """Every list of keys that may identify a record."""
    return [keys for keys in [expected.get("identity"), *expected.get("alternatives", [])] if keys]


def is_plain_text(value):
    return isinstance(value, str) and compared(value) is not None and "://" not in value and \
        not NUMBER.match(value) and not re.fullmatch(r"[0-9a-fA-F-]{16,}", value)
