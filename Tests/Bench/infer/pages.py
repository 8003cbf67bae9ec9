"""What is loaded after a payload: a copy with other values, and a second page."""
import copy
import re

from .compare import DATE, add_leaves, compared, objects
from .fields import Fields, identities, is_plain_text, other_identity
from .payload import NEW_KEY, NEW_VALUE

PAGE_RECORDS = 20
NEW_OBJECT = {"id": 987654321, "name": "object of the second page"}
NEW_ITEM = {"id": 987654322, "name": "item of the second page"}


def changed_copy(payload, expected, path):
    """Writes a copy with another plain value in one record of ten, and returns how many records that were."""
    if "identity" in expected and not expected["identity"]:
        return 0
    document = copy.deepcopy(payload.document)
    keys = {key.split(".")[0] for keys in identities(expected) for key in keys}
    count = 0
    if payload.is_map:
        plain = [key for key, value in payload.keys(document).items() if not isinstance(value, (dict, list))]
        for key in plain[::10]:
            payload.keys(document)[key] = other_identity(payload.keys(document)[key])
            count += 1
    identity = expected.get("identity") or []
    seen = {}
    for value in objects(document):
        fields = Fields(value, payload.kind)
        seen.setdefault(str([fields.get(key) for key in identity]), []).append({key for key, _ in fields.items()})
    wait = 0
    for record in payload.records(document):
        wait -= 1
        fields = Fields(record, payload.kind)
        names = {key for key, _ in fields.items()}
        # An object of this entity that occurs twice could get its old value back.
        alike = [other for other in seen.get(str([fields.get(key) for key in identity]), []) if 2 * len(other & names) > len(names)]
        if wait > 0 or identity and identity != ["@key"] and len(alike) > 1:
            continue
        candidates = [(key, value) for key, value in fields.items() if key not in keys and key != ""]
        for key, value in candidates:
            if is_plain_text(value):
                fields.set(key, value + " (changed)")
                break
        else:
            for key, value in candidates:
                if isinstance(value, (int, float)) and not isinstance(value, bool):
                    fields.set(key, value + 1)
                    break
                if isinstance(value, str) and re.fullmatch(r"\d{1,6}(\.\d+)?", value):
                    fields.set(key, str(round(float(value) + 1, 6)) if "." in value else str(int(value) + 1))
                    break
                if isinstance(value, str) and DATE.search(value) and other_identity(value) != value:
                    fields.set(key, other_identity(value))
                    break
            else:
                continue
        count += 1
        wait = 10
    payload.write(document, path)
    return count


def second_page(payload, expected, path):
    """Writes a page of new records, and returns how many there are and the values that only they have."""
    document = copy.deepcopy(payload.document)
    records = payload.records(document, first=PAGE_RECORDS)
    values = {compared(NEW_VALUE)}
    if payload.is_map:
        mapping = payload.keys(document)
        renamed = {other_identity(key): value for key, value in mapping.items()}
        mapping.clear()
        mapping.update(renamed)
    identifying = {key for keys in identities(expected) for key in keys}
    for record in records:
        fields = Fields(record, payload.kind)
        for key in identifying - {"@key"}:
            if fields.get(key) is not None and (not isinstance(fields.get(key), dict) or key in expected["identity"]):
                fields.set(key, other_identity(fields.get(key)))
    add_new_forms(payload, records, {key.split(".")[0] for key in identifying}, values)
    payload.write(document, path)
    return len(records), values - {None}


def add_new_forms(payload, records, identifying, values):
    if payload.kind == "xml":
        for record in records:
            record.set(NEW_KEY, NEW_VALUE)
        return
    records = [record for record in records if isinstance(record, dict)]
    for record in records:
        record[NEW_KEY] = NEW_VALUE
    if not records:
        return values.clear()
    kinds = {}
    for record in payload.records():
        for key, value in record.items() if isinstance(record, dict) else []:
            kinds.setdefault(key, set()).add("null" if value is None else "empty" if value == [] else type(value).__name__ if
                                             payload.kind != "csv" else "int" if re.fullmatch(r"[1-9]\d*", value) else "str")
    free = [key for key in kinds if key not in identifying and key in records[0]]
    for key in free:
        if kinds[key] == {"int"} and compared(int(records[0][key]) + 0.53) is not None:
            number = int(records[0][key]) + 0.53
            records[0][key] = str(number) if payload.kind == "csv" else number
            values.add(compared(number))
            break
    for kind, value in (("null", NEW_OBJECT), ("empty", [NEW_ITEM])):
        for key in free:
            if kinds[key] == {kind}:
                records[0][key] = value
                add_leaves(value, values)
                break
