"""Ranks that read through a receiver, while ranks, the server and the receiver are killed: no row is lost, none comes twice."""

from __future__ import annotations

import random
import sys
import tempfile
from collections import Counter
from pathlib import Path

import killed_rank
import pytest
import test_kills
from receiver_processes import kill_receivers, until_gone
from server import Server
from test_kills import KILLS, STEPS, Leg, Run, Undisturbed

config = test_kills.config

pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="memory can be passed to other processes only on Linux"
)


def disturb(run: Run, server: Server, rng: random.Random, folder: Path, number: int) -> str:
    """One leg, in which a rank, the server or the receiver is killed; returns which."""
    written = folder / str(number)
    written.mkdir()
    world, workers = (1, 2, 4, 1)[number % 4], number % 5
    leg = Leg.start(killed_rank.train_received, server.address, written, world, workers, run.state)
    try:
        leg.wait(rng.randrange(1, 12))
        kind = rng.choice(["rank", "server", "receiver"])
        if kind == "rank":
            rng.choice(leg.processes).kill()
        else:
            if kind == "server":
                server.kill()
                server.__enter__()
            elif not kill_receivers(folder):
                kind = "none"
            leg.wait(min(map(len, leg.written())) + rng.randrange(1, 12))
    finally:
        leg.kill()
    assert run.accept(leg.written()) > 0
    return kind


# spec: receiver-2, receiver-11, receiver-13
@pytest.mark.timeout(60 + 30 * KILLS)
def test_kills_neither_lose_nor_duplicate_rows(config: Path) -> None:
    with Server(config) as server:
        address = server.address
    rng, run = random.Random(KILLS), Run()
    with Server(config, listen=address) as server, tempfile.TemporaryDirectory() as folder:
        kinds = Counter(disturb(run, server, rng, Path(folder), i) for i in range(KILLS))
        assert set(kinds) == {"rank", "server", "receiver"}
        until_gone(Path(folder))
        whole, (last, _) = Undisturbed(address), run.last
        every = [(epoch, step) for epoch in range(last + 1) for step in range(STEPS)]
        assert list(run.steps) == [place for place in every if place <= run.last], "none lost, none twice"
        for (epoch, step), ranks in run.steps.items():
            assert ranks == whole.steps(epoch, len(ranks))[step], f"epoch {epoch}, step {step}"
