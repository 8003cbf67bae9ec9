"""Writes what a small job's COMMIT writes into a file of the WAL's size, syncs it, and does so on a schedule.

usage: page_syncs.py FILE RATE SECONDS

Prints the 99.9th percentile and the median, in microseconds from the scheduled time on, and the percentile of how late they began.
"""
import json
import os
import sys
import time

FRAME, SIZE = 8192 + 24, 8 << 20


def at(values, part):
    return round(sorted(values)[len(values) * part // 1000] * 1e6)


def main():
    name, rate, seconds = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    file = os.open(name, os.O_RDWR | os.O_CREAT)
    os.pwrite(file, bytes(SIZE), 0)
    os.fsync(file)
    pages = os.urandom(4 * FRAME)
    latencies, lags = [], []
    start = time.monotonic()
    for number in range(rate * seconds):
        due = start + number / rate
        wait = due - time.monotonic()
        if wait > 0:
            time.sleep(wait)
        lags.append(time.monotonic() - due)
        os.pwrite(file, pages, number * len(pages) % (SIZE - len(pages)))
        os.fdatasync(file)
        latencies.append(time.monotonic() - due)
    os.unlink(name)
    print(json.dumps({"p99.9": at(latencies, 999), "p50": at(latencies, 500), "late": at(lags, 999)}))


main()
