"""A worker: handles jobs until it has run as many as it is told to, or its standard input ends.

    worker.py URL CONSUMER RUNS

It prints a line for each run: the job's name, the delivery, when it began and ended, and the error.
"""

import json
import os
import sys
import threading
import time

import redis

from rules import BURY, DLQ, GROUP, MAX_RETRIES, STREAM, delay, flat

url, consumer, runs = sys.argv[1], sys.argv[2], int(sys.argv[3])
client = redis.Redis.from_url(url, decode_responses=True)


def next_delivery():
    """An entry that is due again, or else a new one: its id, its fields and the delivery."""
    for row in client.xpending_range(STREAM, GROUP, "-", "+", 1000):
        due, entry = delay(row["times_delivered"]), row["message_id"]
        if row["time_since_delivered"] < due:
            continue
        for entry, fields in client.xclaim(STREAM, GROUP, consumer, due, [entry]):
            return entry, fields, row["times_delivered"] + 1
    for _, entries in client.xreadgroup(GROUP, consumer, {STREAM: ">"}, count=1, block=50) or []:
        for entry, fields in entries:
            return entry, fields, 1
    return None


def run(job, delivery):
    acts = job["does"].split(",")
    if acts[min(delivery, len(acts)) - 1] == "err":
        raise ValueError("bad input")


def handle(entry, fields, delivery):
    began, error, name = time.time(), None, None
    try:
        job = json.loads(fields["data"])
        name = job["name"]
        run(job, delivery)
        client.xack(STREAM, GROUP, entry)
    except ValueError as failed:
        error = str(failed)
    ended = time.time()
    if error and delivery > MAX_RETRIES:
        bury(entry, fields, delivery, error)
    said = {"name": name, "delivery": delivery, "began": began, "ended": ended, "error": error}
    print(json.dumps(said), flush=True)


def bury(entry, fields, delivery, error):
    letter = fields | {
        "x-original-id": entry,
        "x-stream": STREAM,
        "x-group": GROUP,
        "x-error": error,
        "x-deliveries": str(delivery),
    }
    client.eval(BURY, 2, STREAM, DLQ, GROUP, consumer, entry, delivery, *flat(letter))


def end_with_the_test():
    sys.stdin.read()
    os._exit(0)


threading.Thread(target=end_with_the_test, daemon=True).start()
try:
    client.xgroup_create(STREAM, GROUP, "0", mkstream=True)
except redis.ResponseError as error:
    if not str(error).startswith("BUSYGROUP"):
        raise
while runs > 0:
    if delivered := next_delivery():
        handle(*delivered)
        runs -= 1
