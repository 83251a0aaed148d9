"""Publishes a job: publish.py URL NAME DOES. Prints its id."""

import json
import sys

import redis

from rules import STREAM

url, name, does = sys.argv[1:]
client = redis.Redis.from_url(url, decode_responses=True)
body = json.dumps({"name": name, "does": does, "extra": [1, 2.5, None]})
print(json.dumps(client.xadd(STREAM, {"data": body})))
