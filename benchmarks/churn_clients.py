"""Clients of the churn, each with a random query in a random way, and what they count."""

from __future__ import annotations

import collections
import dataclasses
import json
import logging
import random
import threading
import time
from typing import Any

from churn_queries import Asked, Digest
from churn_server import Restarted

import penstock
from penstock import errors

_USES = ("read", "fill", "fill", "off")
_WAYS = ("whole", "whole", "early", "stall", "resume")
_RECONNECT = 60
_STALLS = 6  # of one stream


@dataclasses.dataclass
class Tally:
    """What the clients did, and what was wrong."""

    ways: collections.Counter[str] = dataclasses.field(default_factory=collections.Counter)
    rows: int = 0
    ended: int = 0
    cached: int = 0  # streams of which something came from the cache
    refused: int = 0  # streams that ended because they lacked memory
    broken: int = 0  # calls that failed while the server was down
    resumed: int = 0  # times that the client connected again, to a server that was killed or had no memory
    memory: int = 0  # those of lack of memory
    wrong: list[str] = dataclasses.field(default_factory=list)
    lock: threading.Lock = dataclasses.field(default_factory=threading.Lock)


class Retries(logging.Handler):
    """Counts what the clients log when they connect again."""

    def __init__(self, tally: Tally) -> None:
        super().__init__()
        self._tally = tally

    def emit(self, record: logging.LogRecord) -> None:
        """Counts one. Lack of memory is what a small budget leads to; the stream resumes."""
        text = record.getMessage()
        with self._tally.lock:
            self._tally.resumed += 1
            self._tally.memory += "memory budget" in text


class Churner:
    """One client after another, each with a random query in a random way."""

    def __init__(
        self, server: Restarted, asked: dict[int, tuple[Asked, Any]], tally: Tally, seed: int
    ) -> None:
        self._server, self._asked, self._tally = server, asked, tally
        self._rng = random.Random(seed)
        self._until = 0.0

    def run(self, until: float) -> None:
        """Clients until a time, at which the last one leaves."""
        self._until = until
        while time.monotonic() < until:
            began, number = time.monotonic(), self._rng.randrange(len(self._asked))
            asked, want = self._asked[number]
            way = self._rng.choice(_WAYS)
            try:
                with penstock.connect(self._server.address, reconnect=_RECONNECT) as client:
                    self._read(client, asked, want, way)
            except errors.Unavailable as e:
                if self._server.was_down(began):
                    self._tally.broken += 1
                    time.sleep(0.5)
                else:
                    self._tally.wrong.append(f"{asked}, {way}: {e}")
            except errors.Exhausted:  # what a small budget leads to, with a cache or without
                with self._tally.lock:
                    self._tally.refused += 1
                time.sleep(0.5)
            except Exception as e:
                self._tally.wrong.append(f"{asked}, {way}: {type(e).__name__}: {e}")

    def _read(self, client: penstock.Client, asked: Asked, want: Any, way: str) -> None:
        """One stream; `resume` reads the rest of it as others, from its cursor."""
        digest, left = Digest(), None if way in ("whole", "stall") else self._rng.randint(1, 40)
        cursor: Any = None
        while True:
            more = {} if cursor is None else {"cursor": cursor}
            more["cache"] = self._rng.choice(_USES)
            with client.read(asked.dataset, **_rest(asked, digest.rows), **more) as stream:
                done = self._take(stream, digest, left, way)
                cursor = stream.cursor
                cached = done and "cached" in json.dumps(stream.report)
            if done or digest.rows == asked.fields.get("limit"):
                break
            if way == "early" or time.monotonic() > self._until:
                with self._tally.lock:
                    self._tally.ways[way] += 1
                return
            left = self._rng.choice([None, self._rng.randint(1, 40)])
        with self._tally.lock:
            self._tally.ways[way] += 1
            self._tally.ended += 1
            self._tally.cached += cached
            self._tally.rows += digest.rows
            if digest.values() != want:
                self._tally.wrong.append(f"{asked}, {way}: {digest.values()} instead of {want}")

    def _take(self, stream: penstock.Stream, digest: Digest, left: int | None, way: str) -> bool:
        """Takes batches. Reports whether the stream has ended."""
        stalls = 0
        for number, batch in enumerate(stream, 1):
            digest.add(batch)
            if way == "stall" and stalls < _STALLS and self._rng.random() < 0.03:
                stalls += 1
                time.sleep(self._rng.uniform(0.5, 4))
            if number == left or time.monotonic() > self._until:
                return False
        return True


def _rest(asked: Asked, rows: int) -> dict[str, Any]:
    """The fields of a query that continues after some rows: its limit is of the rows that are left."""
    limit = asked.fields.get("limit")
    return asked.fields if limit is None else {**asked.fields, "limit": limit - rows}
