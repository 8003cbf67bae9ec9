"""Appends groups of entries to a log of nats-servers, one after the other, as a server of Broker sends them.

usage: appended_groups.py PORT STREAM ENTRIES COUNT

Prints how many entries a second, and the median of a group, in microseconds.
"""
import json
import socket
import sys
import time

ENTRY = bytes(250)


def group_of(subject, group, size, position):
    """The messages of a group, which is appended as a whole if the log still ends where the last group did."""
    messages = []
    for index in range(size):
        is_last = index == size - 1
        headers = f"NATS/1.0\r\nNats-Batch-Id: {subject}-{group}\r\nNats-Batch-Sequence: {index + 1}\r\n"
        if index == 0:
            headers += f"Nats-Expected-Last-Subject-Sequence: {position}\r\n"
        if is_last:
            headers += "Nats-Batch-Commit: 1\r\n"
        headers = (headers + "\r\n").encode()
        reply = " answer" if is_last else ""
        messages.append(f"HPUB {subject}{reply} {len(headers)} {len(headers) + len(ENTRY)}\r\n".encode() + headers + ENTRY + b"\r\n")
    return b"".join(messages)


def main():
    port, stream, size, count = int(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    server = socket.create_connection(("127.0.0.1", port))
    server.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    answers = server.makefile("rb")
    server.sendall(b'CONNECT {"verbose":false,"headers":true,"no_responders":true}\r\nSUB answer 1\r\nPING\r\n')
    while answers.readline() != b"PONG\r\n":
        pass
    subject = f"{stream}.s.{time.time_ns()}"
    position, times = 0, []
    for group in range(count):
        messages = group_of(subject, group, size, position)
        begin = time.perf_counter()
        server.sendall(messages)
        while not (line := answers.readline()).startswith((b"MSG", b"HMSG")):
            if line.startswith(b"PING"):
                server.sendall(b"PONG\r\n")
        answer = answers.read(int(line.split()[-1]) + 2)
        times.append(time.perf_counter() - begin)
        position = int(answer.split(b'"seq":')[1].split(b",")[0].split(b"}")[0])
    times.sort()
    print(json.dumps({"group": size, "entriesPerSecond": round(size * count / sum(times)),
                      "microseconds": round(times[count // 2] * 1e6)}))


main()
