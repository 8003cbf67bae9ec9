"""The forms in which a store may have a value."""
import datetime
import decimal
import email.utils
import re

EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc)
WORDS = {"true": 1, "false": 0, "yes": 1, "no": 0, "y": 1, "n": 0, "t": 1, "f": 0, "on": 1, "off": 0}
NULLS = {"", "na", "n/a", "null", "none", "nan", "nil", "-", "\\n", "#n/a"}
NUMBER = re.compile(r"[+-]?(0|[1-9]\d*)(\.\d+)?([eE][-+]?\d+)?$")


def exact(number):
    """A number as text that is the same for the same value."""
    number = decimal.Decimal(number)
    return "0" if number == 0 else format(number.normalize(decimal.Context(prec=400)), "e")


def instant(text):
    """The text as a time in UTC, or None. What is more exact than microseconds is none."""
    text = text.strip()
    if re.search(r"\.\d{7}", text):
        text = re.sub(r"(\.\d{6})0+(?!\d)", r"\1", text)
    for read_text in (datetime.datetime.fromisoformat, email.utils.parsedate_to_datetime):
        try:
            found = read_text(text.replace("Z", "+00:00").replace("z", "+00:00"))
            return found.replace(tzinfo=found.tzinfo or datetime.timezone.utc).astimezone(datetime.timezone.utc)
        except (ValueError, TypeError, IndexError, OverflowError):
            pass
    for form in ("%Y%m%d", "%d.%m.%Y", "%d-%m-%Y", "%m/%d/%Y", "%d/%m/%Y", "%Y/%m/%d", "%b %d %Y", "%d %b %Y", "%B %d, %Y", "%Y-%m-%dT%H:%M:%S%z",
                 "%a %b %d %H:%M:%S %z %Y", "%Y-%m-%d %H:%M:%S %z", "%Y-%m-%d %H:%M:%S UTC", "%Y-%m-%d %H:%M", "%m/%d/%y"):
        try:
            found = datetime.datetime.strptime(text, form)
            return found.replace(tzinfo=found.tzinfo or datetime.timezone.utc).astimezone(datetime.timezone.utc)
        except ValueError:
            pass
    return None


def numbers(value):
    """A number, as itself; a fraction also as the nearest double (protocol/values.md), and one that may be a time as that."""
    found = [exact(value)]
    if value != value.to_integral_value():
        found.append(exact(repr(float(value))))
    if abs(value) < 1 << 47:
        # Seconds or milliseconds since 1970.
        for seconds in (value, value / 1000):
            if abs(seconds) < 1 << 33:
                found.append(f"@{(EPOCH + datetime.timedelta(microseconds=int(seconds * 1000000))).isoformat()}")
    return found


def forms(value, kind):
    """The forms in which a store may have a value."""
    if isinstance(value, bool):
        return [exact(int(value)), "=" + str(value).lower()]
    if isinstance(value, decimal.Decimal):
        return numbers(value)
    found = ["=" + value]
    # A type takes each text that it can hold exactly (protocol/records.md).
    if NUMBER.match(value) and not value.startswith("+"):
        found += numbers(decimal.Decimal(value))
    if kind == "csv":
        if NUMBER.match(value.strip()) and not value.strip().startswith("+"):
            found.append(exact(value.strip()))
        found += ["=" + value.strip()]
        grouped = re.fullmatch(r"([+-]?\d+),(\d+)", value.strip())
        if grouped:
            found.append(exact(f"{grouped[1]}.{grouped[2]}"))
    if value.strip().lower() in WORDS:
        found.append(exact(WORDS[value.strip().lower()]))
    time = instant(value)
    if time is not None:
        found.append(f"@{time.isoformat()}")
    return found


def leaves(value, kind):
    """Each value below this one that must not be lost, with the objects that it is in."""
    if isinstance(value, dict):
        for key, below in value.items():
            for leaf, holders in leaves(below, kind):
                yield leaf, [(value, key), *holders]
    elif isinstance(value, list):
        for below in value:
            yield from leaves(below, kind)
    elif value is not None and not (kind == "csv" and value.strip().lower() in NULLS):
        yield value, []
