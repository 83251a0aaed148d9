"""Moves the stream's letters back, oldest first: replay.py URL. Prints how many it moved."""

import sys

import redis

from rules import DLQ, REPLAY, STREAM, flat

client = redis.Redis.from_url(sys.argv[1])
moved = 0
for letter, fields in client.xrange(DLQ):
    if fields.get(b"x-stream", STREAM.encode()) == STREAM.encode():
        own = {name: value for name, value in fields.items() if not name.startswith(b"x-")}
        moved += client.eval(REPLAY, 2, DLQ, STREAM, letter, *flat(own))
print(moved)
