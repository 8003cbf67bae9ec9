"""A payload: a file, and where its records are."""
import csv
import io
import json
import xml.etree.ElementTree as ElementTree

from .compare import add_leaves, compared, objects

NEW_KEY, NEW_VALUE = "second_page_note", "seen on the second page"


class Payload:
    """A file, and where its records are."""

    def __init__(self, path, expected):
        self.path = path
        self.root = expected.get("root", "")
        self.is_map = expected.get("map", False)
        self.maps = expected.get("maps", [])
        name = path.name.lower()
        self.kind = ("csv" if name.endswith((".csv", ".tsv", ".tab")) else
                     "xml" if name.endswith(".xml") else "ndjson" if name.endswith((".ndjson", ".jsonl")) else "json")
        text = path.read_bytes().decode("utf-8-sig", "replace")
        if expected.get("records") == 0:
            self.kind, self.document = "text", []
        elif self.kind == "csv":
            self.delimiter = max(",;\t|", key=text.split("\n", 1)[0].count)
            rows = list(csv.reader(io.StringIO(text, newline=""), delimiter=self.delimiter))
            self.header = rows[0]
            self.document = [dict(zip(self.header, row)) for row in rows[1:] if row]
        elif self.kind == "xml":
            self.document = ElementTree.fromstring(text)
        elif self.kind == "ndjson":
            self.document = [json.loads(line) for line in text.splitlines() if line.strip()]
        else:
            self.document = json.loads(text)
        if "file" not in expected:
            self.root = self.likely_root()

    def likely_root(self):
        """Without an expectation: the longest list of objects at most three keys down."""
        if self.kind == "xml" or isinstance(self.document, list):
            return ""
        best = (1, "")

        def search(value, path):
            nonlocal best
            if isinstance(value, list) and value and all(isinstance(item, dict) for item in value):
                best = max(best, (len(value), ".".join(path)), key=lambda found: found[0])
            elif isinstance(value, dict) and len(path) < 3:
                for key, below in value.items():
                    if "." not in key:
                        search(below, [*path, key])

        search(self.document, [])
        return best[1]

    def records(self, document=None, first=None):
        """The records, each as the object in the document. With `first` the others are removed from the document."""
        document = self.document if document is None else document
        path = self.root.split(".") if self.root else []
        if self.kind == "xml":
            return self.elements(document, path, first)

        def walk(value, path):
            nonlocal first
            if isinstance(value, list):
                if first is not None:
                    del value[first:]
                    first = None
                return [record for item in value for record in walk(item, path)]
            if path:
                return walk(value.get(path[0]), path[1:]) if isinstance(value, dict) else []
            if self.is_map and isinstance(value, dict):
                for key in list(value)[first:] if first is not None else []:
                    del value[key]
                return list(value.values())
            return [] if value is None else [value]

        return walk(document, path)

    @staticmethod
    def elements(document, path, first):
        found, parent = [document], None
        for step in path[1:]:
            parent = found[0] if found else None
            found = [child for element in found for child in element if local(child.tag) == step]
        if first is not None and parent is not None:
            for element in found[first:]:
                parent.remove(element)
            found = found[:first]
        return found

    def keys(self, document=None):
        """The keys of a map of records."""
        value = self.document if document is None else document
        for step in self.root.split(".") if self.root else []:
            value = value[step]
        return value

    def write(self, document, path):
        if self.kind == "csv":
            header = list(self.header) + ([NEW_KEY] if any(NEW_KEY in row for row in document) else [])
            with open(path, "w", newline="", encoding="utf-8") as file:
                writer = csv.writer(file, delimiter=self.delimiter, lineterminator="\n")
                writer.writerow(header)
                for row in document:
                    last = max(index for index, key in enumerate(header) if key in row)
                    writer.writerow([row.get(key, "") for key in header[:last + 1]])
        elif self.kind == "xml":
            for element in document.iter():
                if element.tag.startswith("{"):
                    ElementTree.register_namespace("", element.tag[1:].split("}")[0])
                    break
            ElementTree.ElementTree(document).write(path, encoding="utf-8", xml_declaration=True)
        elif self.kind == "text":
            path.write_text("", encoding="utf-8")
        elif self.kind == "ndjson":
            path.write_text("".join(json.dumps(record, ensure_ascii=False) + "\n" for record in document), encoding="utf-8")
        else:
            path.write_text(json.dumps(document, ensure_ascii=False), encoding="utf-8")

    def leaves(self):
        """The values of all records, as `compared` makes them."""
        found = set()
        if self.kind == "xml":
            for record in self.records():
                for element in record.iter():
                    found.update(map(compared, [*element.attrib.values(), element.text or ""]))
        else:
            for record in self.records():
                add_leaves(record, found)
                for value in objects(record):
                    for name in self.maps:
                        found.update(map(compared, value[name] if isinstance(value.get(name), dict) else []))
            if self.is_map:
                found.update(map(compared, self.keys()))
        found.discard(None)
        return found


def local(tag):
    return tag.split("}")[-1] if isinstance(tag, str) else ""
