"""Streams of several actors whose number changes and that die, against the plain stream of the same shard."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from typing import Any

import lake
import pyarrow as pa
import pytest
from server import Server

import penstock
from penstock.stepreader import StepReader
from penstock.turns import MAX_TRIES, Made, Turns

CASES = 40
FIELDS: dict[str, Any] = {
    "dataset": "d",
    "order": "shuffled",
    "seed": 5,
    "epoch": 1,
    "lanes": 4,
    "batch_rows": 8,
    "shard": (1, 2),
}


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[penstock.Client]:
    config = lake.scored(tmp_path_factory.mktemp("turns"), 3, 400, 50, files=2)
    with Server(config) as server, penstock.connect(server.address) as found:
        yield found


class Actors:
    """Actors that answer in any order, of which some join, leave and die."""

    def __init__(self, client: penstock.Client, rng: random.Random, turns: Turns[pa.RecordBatch]) -> None:
        self._client = client
        self._rng = rng
        self._turns = turns
        self._readers: dict[int, tuple[StepReader, list[Any]]] = {}
        self._deaths = 0

    def run(self, fields: dict[str, Any]) -> Iterator[tuple[pa.RecordBatch, Any]]:
        self._number, turns = 0, self._turns
        self.join()
        while not turns.ended:
            for request in turns.requests():
                self._readers[request.actor][1].append(request)
            event = self._rng.random()
            if event < 0.04 or not turns.actors:
                self.join()
            elif event < 0.06:
                turns.assign(turns.actors[1:])
            elif event < 0.12:
                self.die()
            else:
                self.answer(fields)
            made = turns.next()
            if made is not None and self._rng.random() < 0.5:
                turns.advance()
                yield made.value, turns.cursor

    def join(self) -> None:
        self._number += 1
        self._readers[self._number] = StepReader(self._client), []
        self._turns.assign([*self._turns.actors, self._number])

    def die(self) -> None:
        number = self._rng.choice(list(self._readers))
        reader, queue = self._readers[number]
        if not queue or self._deaths < MAX_TRIES - 1:
            self._deaths += bool(queue)
            reader.close()
            del self._readers[number]
            self._turns.died(number)

    def answer(self, fields: dict[str, Any]) -> None:
        busy = [number for number, (_, queue) in self._readers.items() if queue]
        if busy:
            number = self._rng.choice(busy)
            reader, queue = self._readers[number]
            request = queue.pop(0)
            if request.start is not None:
                reader.open(fields, request.start)
            batch = reader.read(request.step)
            size = 0 if batch is None else batch.nbytes
            self._turns.came(number, Made(request.step, batch, reader.cursor, size, ended=batch is None))


def test_actors_return_the_plain_stream_with_its_cursors(client: penstock.Client) -> None:
    with client.read(**FIELDS) as stream:
        fields = {**FIELDS, "snapshots": stream.plan.pin}
        plain = [(batch, stream.cursor) for batch in stream]
        end = stream.cursor
    assert len(plain) > 20
    for seed in range(CASES):
        rng = random.Random(seed)
        begun = rng.choice([0, rng.randint(1, len(plain) - 1)])
        start = json.loads(json.dumps(plain[begun - 1][1])) if begun else None
        turns: Turns[pa.RecordBatch] = Turns(start, begun, ahead=rng.randint(1, 3), limit=1 << 20)
        found = list(Actors(client, rng, turns).run(fields))
        assert [batch for batch, _ in found] == [batch for batch, _ in plain[begun:]], f"seed {seed}"
        assert [cursor for _, cursor in found] == [cursor for _, cursor in plain[begun:]], f"seed {seed}"
        assert turns.cursor == end


def test_a_stream_that_was_read_to_its_end_has_no_more_steps(client: penstock.Client) -> None:
    reader = StepReader(client)
    turns: Turns[None] = Turns(None, 0, ahead=1, limit=0)
    turns.assign([1])
    [request] = turns.requests()
    assert request.start is not None
    reader.open(FIELDS, request.start)
    assert reader.read(1000) is None
    assert reader.read(1001) is None
    with pytest.raises(penstock.errors.Corrupt, match="instead of step 0"):
        reader.open(FIELDS, request.start)
        reader.read(3)
        reader.read(0)
