"""Changes of a document at random."""
import copy
import decimal
import random

from .compare import objects


class Changes:
    """One change of a document after another, at random. Values that it makes occur once."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.made = 0

    def value(self, kind):
        self.made += 1
        number, choose = 1000 + 7 * self.made, self.random.choice
        if kind == "csv":
            return choose([
                f"text {number}", f"{number}", f"0{number}", f"{number}.50", f"{number},25", f"+{number}", f" {number}",
                f"2024-02-03T04:05:06.{number:06}", f"1{number}0000000000000000", f"{number}e3", f"\"quoted\" {number}",
                f"line\n{number}", f"-{number}", f"{number}-02-30", f"NaN{number}", "N/A", "", "true", "yes"])
        return choose([
            f"text {number}", f"{number}", f"00{number}", decimal.Decimal(number), decimal.Decimal(f"{number}.5"),
            decimal.Decimal(f"{number}.50"), decimal.Decimal(2**53 + number), decimal.Decimal(2**63 + number),
            decimal.Decimal(f"{number}.123456789012345678"), decimal.Decimal(f"{number}e30"), decimal.Decimal(f"-{number}"),
            f"2024-02-03T04:05:06.{number:06}Z", f"2024-02-03T04:05:06.{number:06}789Z", f"2024-02-03 04:05:{number % 60:02}",
            f"{number}-02-30", f"2024-02-{number % 28 + 1:02}", f"e{number:07x}-0000-4000-8000-000000000000", f"NUL \0 {number}",
            f"\U0001f600 {number}", f"line\n{number}", f" {number} ", "", "null", "true", None, True, False, [], {},
            [decimal.Decimal(number)], [f"item {number}", None, decimal.Decimal(number)], {"id": decimal.Decimal(number)},
            {"a.b": f"below {number}"}, {"name": f"object {number}", "x": {"y": decimal.Decimal(number)}},
            [{"id": decimal.Decimal(number), "name": f"item {number}"}], [[decimal.Decimal(number)], [f"row {number}"]]])

    def new_key(self, record):
        return self.random.choice([
            "http.status", "@timestamp.x", "", "nul\0key", "order", "select", "_extra", "_id", "rowid", "_broker_x", "Ünïcode",
            "with space", "a/b", "$ref", "%", "quote\"s", "back\\slash", "line\nkey", "id.x", "x.y.z", "@parent.id", "@key",
            f"key{self.random.randrange(5)}", *[key.upper() for key in record], *[key + "." for key in record],
            *[key + "_" for key in record], *[f"{key}.id" for key in record]])

    def change(self, kind, records):
        """One change of the records, which are plain lists and objects."""
        choose = self.random.choice
        half = records[len(records) // 2:]
        some = choose([records[-1:], half, records, records[::10], records[:1]])
        found = [each for record in some for each in objects(record)] or some
        keys = list(dict.fromkeys(key for each in found for key in each))
        if not keys:
            return
        key = choose(keys)
        what = choose(["value", "values", "new", "new", "null", "remove", "order", "double", "rename", "wrap", "text"])
        if what == "value":
            holders = [each for each in found if key in each]
            choose(holders)[key] = self.value(kind)
        elif what == "values":
            for each in found:
                if key in each:
                    each[key] = self.value(kind)
        elif what == "new":
            holders = [each for each in found if key in each]
            new = self.new_key(holders[0])
            for each in holders:
                if new not in each:
                    each[new] = self.value(kind)
        elif what == "null":
            for each in found:
                if key in each:
                    each[key] = "" if kind == "csv" else None
        elif what == "remove":
            for each in found:
                if len(each) > 1:
                    each.pop(key, None)
        elif what == "order":
            for each in found:
                items = list(each.items())
                self.random.shuffle(items)
                each.clear()
                each.update(items)
        elif what == "double":
            records.insert(self.random.randrange(len(records) + 1), copy.deepcopy(choose(records)))
        elif what == "rename":
            new = self.new_key({key: None})
            for each in found:
                if key in each and new not in each:
                    each[new] = each.pop(key)
        elif what == "wrap" and kind != "csv":
            for each in found:
                if key in each:
                    each[key] = choose([[each[key]], {"inner": each[key]}])
        elif what == "text":
            for each in found:
                if isinstance(each.get(key), decimal.Decimal):
                    each[key] = str(each[key])
