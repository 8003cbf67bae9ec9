"""Prints records that Broker applies one after the other, and those to compare with, as lines of JSON.

usage: special_records.py KIND COUNT
"""
import json
import sys


def item(number, code):
    return {"id": number, "name": f"name {number}", "price": number * 1.5, "code": code, "size": number % 100}


def feed(number, gone):
    return {"id": number, "at": number, "gone": gone, "name": f"name {number}", "price": number * 1.5, "size": number % 100}


def words(number):
    return [f"t{(number * 7 + index * 13) % 1000}" for index in range(10)]


def main():
    kind, count = sys.argv[1], int(sys.argv[2])
    make = {
        "new": lambda i: item(i, f"c{i}"),
        "taken": lambda i: item(i, "c0" if i % 100 == 99 else f"c{i}"),
        "exchanged": lambda i: item(i, f"c{i ^ 1}"),
        "feed": lambda i: feed(i, False) | {"at": 0},
        "tombstones": lambda i: feed(i, True) if i % 20 == 19 else feed(count + i, False),
        "list": lambda i: {"id": i, "list": words(i)},
        "set": lambda i: {"id": i, "set": words(i)},
    }[kind]
    for number in range(count):
        print(json.dumps(make(number), separators=(",", ":")))


main()
