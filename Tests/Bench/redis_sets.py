"""Sends each record of a file to Redis as a SET, on one connection.

usage: redis_sets.py RECORDS SOCKET IN_FLIGHT

Prints how many a second, with so many of them without an answer.
"""
import json
import os
import socket
import sys
import time


def command(record):
    parts = [b"SET", b"Employee:%d" % record["id"], json.dumps(record, separators=(",", ":")).encode()]
    return b"*3\r\n" + b"".join(b"$%d\r\n%s\r\n" % (len(part), part) for part in parts)


def main():
    path, in_flight = sys.argv[2], int(sys.argv[3])
    with open(sys.argv[1]) as file:
        commands = [command(record) for record in json.load(file)]
    deadline = time.monotonic() + 10
    while not os.path.exists(path) and time.monotonic() < deadline:
        time.sleep(0.01)
    server = socket.socket(socket.AF_UNIX)
    server.connect(path)
    sent = answered = 0
    start = time.monotonic()
    while answered < len(commands):
        if sent < min(len(commands), answered + in_flight):
            end = min(len(commands), answered + in_flight)
            server.sendall(b"".join(commands[sent:end]))
            sent = end
        answers = server.recv(1 << 16)
        if not answers or b"-" in answers:
            sys.exit("Redis: %s" % answers.decode())
        answered += answers.count(b"\n")
    print(json.dumps({"recordsPerSecond": len(commands) / (time.monotonic() - start)}))


main()
