"""Documents with exact numbers."""
import decimal
import json

from .payload import Payload

# Numbers as they were written.
EXACT = {"parse_float": decimal.Decimal, "parse_int": decimal.Decimal}


def read(path, expected):
    """The document with its numbers as decimals, and the paths of its lists of records."""
    name = path.name.lower()
    text = path.read_bytes().decode("utf-8-sig")
    if name.endswith((".csv", ".tsv")):
        return "csv", [dict(row) for row in Payload(path, expected).document], ""
    if name.endswith((".ndjson", ".jsonl")):
        return "ndjson", [json.loads(line, **EXACT) for line in text.splitlines() if line.strip()], ""
    return "json", json.loads(text, **EXACT), expected.get("root", "")


def list_of_records(document, root):
    """The one list that the records are in, or None where they are elsewhere."""
    value = document
    for step in root.split(".") if root else []:
        value = value.get(step) if isinstance(value, dict) else None
    return value if isinstance(value, list) else None


def text_of(value):
    """JSON, with decimals as they were written."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(key, ensure_ascii=False)}: {text_of(below)}" for key, below in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(text_of, value)) + "]"
    return str(value) if isinstance(value, decimal.Decimal) else json.dumps(value, ensure_ascii=False)


def write(kind, document, path):
    if kind == "json":
        path.write_text(text_of(document), encoding="utf-8")
    elif kind == "ndjson":
        path.write_text("".join(text_of(record) + "\n" for record in document), encoding="utf-8")
    else:
        header = list(dict.fromkeys(key for row in document for key in row))
        rows = [header, *([row.get(key, "") for key in header] for row in document)]
        lines = [",".join('"' + str(cell).replace('"', '""') + '"' for cell in row) for row in rows]
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
