"""Two jobs whose ranks lie on several replicas, with slots for one and a half of them."""

from __future__ import annotations

import contextlib
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from server import Server
from test_restarts import World, connect, make, read, rest_of

import penstock

JOBS, RANKS = 2, 4
LIMIT = 240.0


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return make(tmp_path_factory.mktemp("jobs"))


# spec: replicas-13
def test_two_jobs_with_slots_for_one_and_a_half(world: World, tmp_path: Path) -> None:
    """Each rank waits for the others of its job at each step, as an all-reduce does."""
    keys = tmp_path / "tickets.keys"
    keys.write_text("k1 " + "A" * 43 + "=\n")
    keys.chmod(0o600)
    flags = ("--max-streams", str(RANKS * 3 // 4), "--ticket-keys", str(keys))
    shards = [{"lanes": RANKS, "shard": (rank, RANKS), "tail": "drop"} for rank in range(RANKS)]
    with Server(world.config) as alone, connect(alone.address) as client:
        whole = [rest_of(read(client, **shard)) for shard in shards]
    barriers = [threading.Barrier(RANKS) for _ in range(JOBS)]

    def run(
        stream: penstock.Stream, got: list[tuple[Any, Any]], barrier: threading.Barrier
    ) -> list[tuple[Any, Any]]:
        if not got:
            got.append((next(stream), stream.cursor))
        barrier.wait(LIMIT)
        for batch in stream:
            got.append((batch, stream.cursor))
            barrier.wait(LIMIT)
        return got

    with (
        Server(world.config, *flags) as first,
        Server(world.config, *flags) as second,
        contextlib.ExitStack() as held,
        ThreadPoolExecutor(JOBS * RANKS) as pool,
    ):
        clients = [held.enter_context(connect(first.address, second.address)) for _ in range(JOBS)]
        streams = [[read(client, **shard) for shard in shards] for client in clients]
        homes = [stream._readings[0]._choice.next().address for stream in streams[0]]
        here = [rank for rank in range(RANKS) if homes[rank] == homes[0]]
        there = [rank for rank in range(RANKS) if homes[rank] != homes[0]]
        assert len(here) == len(there) == RANKS // 2
        # Each job has all slots that it needs on one server, and one too few on the other.
        begun: dict[tuple[int, int], list[tuple[Any, Any]]] = {}
        for job, rank in [
            *((0, rank) for rank in here),
            (0, there[0]),
            *((1, rank) for rank in there),
            (1, here[0]),
        ]:
            begun[job, rank] = [(next(streams[job][rank]), streams[job][rank].cursor)]
        runs = {
            (job, rank): pool.submit(run, streams[job][rank], begun.get((job, rank), []), barriers[job])
            for job in range(JOBS)
            for rank in range(RANKS)
        }
        try:
            for (_, rank), of in runs.items():
                assert of.result(LIMIT) == whole[rank]
        finally:
            for barrier in barriers:
                barrier.abort()
