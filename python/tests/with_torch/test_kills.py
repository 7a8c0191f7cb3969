"""Trainers and servers that are killed, again and again, and the steps that were made of the rows.

Ranks train until they or their server are killed with -9, at a random step. Then the ranks of the
next leg, with a different number of DataLoader workers, resume from the last step that all ranks
have saved. In the end the steps must be those of an undisturbed run, one after the other: no row
lost, none twice.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import random
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import chain
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any

import killed_rank
import pytest
from killed_rank import QUERY, STEP_ROWS
from lake import Lake
from pyiceberg.types import ListType, LongType
from server import Server

import penstock
from penstock import merge_states

KILLS = 100 if os.environ.get("PENSTOCK_LONG") == "1" else 10
ROWS, PAD = 2400, 400
STEPS = ROWS // STEP_ROWS
PATIENCE = 300.0  # seconds for a leg to come as far as it shall, also on a busy machine
Place = tuple[int, int]  # epoch and step


@dataclass
class Run:
    """What was trained on so far.

    Attributes:
        steps: for each step that all ranks made: the rows of each rank.
        state: behind the last of them.
    """

    steps: dict[Place, list[list[int]]] = field(default_factory=dict)
    state: dict[str, Any] | None = None

    @property
    def last(self) -> Place:
        return max(self.steps, default=(0, -1))

    def accept(self, ranks: list[dict[Place, dict[str, Any]]]) -> int:
        """Takes the steps that all ranks have written down; returns how many there are."""
        reached = min((max(written, default=(-1, -1)) for written in ranks), default=(-1, -1))
        new = sorted(place for place in ranks[0] if place <= reached)
        for place in new:
            assert place > self.last, "a step that was made before the checkpoint came again"
            self.steps[place] = [written[place]["rows"] for written in ranks]
        if new:
            self.state = merge_states([written[reached]["state"] for written in ranks])
        return len(new)


@dataclass
class Leg:
    """Ranks that train at one time.

    Attributes:
        processes: of the ranks.
        files: what they write.
    """

    processes: list[ForkServerProcess]
    files: list[Path]

    @classmethod
    def start(
        cls,
        train: Callable[..., None],
        address: str,
        folder: Path,
        world: int,
        workers: int,
        state: dict[str, Any] | None,
    ) -> Leg:
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(["killed_rank"])
        files = [folder / f"rank-{rank}" for rank in range(world)]
        processes = [
            context.Process(target=train, args=(address, rank, world, workers, state, file))
            for rank, file in enumerate(files)
        ]
        for process in processes:
            process.start()
        return cls(processes, files)

    def written(self) -> list[dict[Place, dict[str, Any]]]:
        """The steps that each rank has written down whole."""
        found = []
        for file in self.files:
            whole = file.read_bytes().split(b"\n")[:-1] if file.exists() else []
            steps = [json.loads(line) for line in whole]
            found.append({(step["epoch"], step["step"]): step for step in steps})
            assert len(found[-1]) == len(whole), "a rank made a step twice"
        return found

    def wait(self, steps: int) -> None:
        """Waits until all ranks have made a number of steps."""
        limit = time.monotonic() + PATIENCE
        while min(map(len, self.written())) < steps:
            assert all(process.is_alive() for process in self.processes), "a rank ended by itself"
            assert time.monotonic() < limit, "the ranks do not come on"
            time.sleep(0.005)

    def kill(self) -> None:
        for process in self.processes:
            process.kill()
        for process in self.processes:
            process.join(30)
            assert not process.is_alive()


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rng = random.Random(3)
    made = Lake(tmp_path_factory.mktemp("killed"))
    rows = [{"row": i, "request_id": i // 6} for i in range(ROWS)]
    pads = [{"request_id": i, "pad": [rng.randrange(2**60) for _ in range(PAD)]} for i in range(ROWS // 6)]
    pad = ListType(element_id=900, element_type=LongType(), element_required=False)
    made.write("ml.rows", {"row": LongType(), "request_id": LongType()}, ("request_id", 8), rows, files=2)
    made.write("features.pads", {"request_id": LongType(), "pad": pad}, ("request_id", 4), pads)
    dataset = {
        "training": {"table": "ml.rows"},
        "key": ["request_id"],
        "staging": [{"table": "features.pads"}],
    }
    return made.config({"d": dataset})


class Undisturbed:
    """The steps of an undisturbed run, from plain reads of its shards."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._known: dict[tuple[int, int], list[list[list[int]]]] = {}

    def steps(self, epoch: int, world: int) -> list[list[list[int]]]:
        """For each step the rows of each rank."""
        if (epoch, world) not in self._known:
            ranks = []
            with penstock.connect(self._address) as client:
                for rank in range(world):
                    with client.read("d", shard=(rank, world), epoch=epoch, **QUERY) as stream:
                        ranks.append([batch.column("row").to_pylist() for batch in stream])
            self._known[epoch, world] = [list(step) for step in zip(*ranks, strict=True)]
        return self._known[epoch, world]


def disturb(
    run: Run,
    server: Server,
    rng: random.Random,
    folder: Path,
    number: int,
    train: Callable[..., None] = killed_rank.train,
) -> str:
    """One leg, in which a rank or the server is killed; returns which."""
    folder.mkdir()
    world, workers = (1, 2, 4, 1)[number % 4], number % 5
    leg = Leg.start(train, server.address, folder, world, workers, run.state)
    try:
        leg.wait(rng.randrange(1, 12))
        kind = rng.choice(["rank", "server"])
        if kind == "server":
            server.kill()
            server.__enter__()
            leg.wait(min(map(len, leg.written())) + rng.randrange(1, 12))
        else:
            rng.choice(leg.processes).kill()
    finally:
        leg.kill()  # as a launcher does if one rank is gone
    assert run.accept(leg.written()) > 0
    return kind


# spec: trainer-19
@pytest.mark.timeout(60 + 30 * KILLS)
def test_kills_neither_lose_nor_duplicate_rows(config: Path, tmp_path: Path) -> None:
    with Server(config) as server:
        address = server.address
    rng, run = random.Random(KILLS), Run()
    with Server(config, listen=address) as server:
        kinds = Counter(disturb(run, server, rng, tmp_path / str(i), i) for i in range(KILLS))
        assert set(kinds) == {"rank", "server"}

        whole, (last, _) = Undisturbed(address), run.last
        for epoch in range(last + 1):
            alone = whole.steps(epoch, 1)
            assert len(alone) == STEPS
            assert sorted(row for step in alone for row in step[0]) == list(range(ROWS))
        every = [(epoch, step) for epoch in range(last + 1) for step in range(STEPS)]
        assert list(run.steps) == [place for place in every if place <= run.last], "none lost, none twice"
        for (epoch, step), ranks in run.steps.items():
            assert ranks == whole.steps(epoch, len(ranks))[step], f"epoch {epoch}, step {step}"
            assert sorted(chain(*ranks)) == sorted(whole.steps(epoch, 1)[step][0]), "one step for all ranks"
