"""Reads the DLQ: letters.py URL. Prints a line for each letter, its body and its list of attempts decoded."""

import json
import sys

import redis

from rules import DLQ

client = redis.Redis.from_url(sys.argv[1], decode_responses=True)
for _, letter in client.xrange(DLQ):
    for name in ("data", "x-attempts"):
        if name in letter:
            letter[name] = json.loads(letter[name])
    print(json.dumps(letter))
