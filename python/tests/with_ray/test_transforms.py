"""Batches that actors transform: the steps of a plain read, whatever becomes of the actors."""

from __future__ import annotations

import importlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import lake
import numpy as np
import pyarrow as pa
import pytest
import ray
from ray import cloudpickle
from server import BINARY, Server

import penstock
import penstock.ray
from penstock.actorcount import StepTimes
from penstock.ray import transforms_loop
from penstock.torch import IterableDataset

pytest_plugins = ["local_ray"]
pytestmark = [pytest.mark.usefixtures("local_ray"), pytest.mark.timeout(300)]

cloudpickle.register_pickle_by_value(sys.modules[__name__])  # actors cannot import this module

QUERY: dict[str, Any] = {"order": "shuffled", "seed": 5, "lanes": 4, "batch_rows": 16}
SMALL = {"num_cpus": 0.1}  # the actors share two CPUs


@dataclass(frozen=True)
class Served:
    """A dataset d."""

    address: str
    config: Path

    def plain(
        self, epoch: int = 0, shard: tuple[int, int] = (0, 1), tail: Any = "keep"
    ) -> list[tuple[pa.RecordBatch, Any]]:
        """Its batches and cursors, read without actors."""
        with (
            penstock.connect(self.address) as client,
            client.read("d", epoch=epoch, shard=shard, tail=tail, **QUERY) as stream,
        ):
            return [(batch, stream.cursor) for batch in stream]

    def transformed(self, function: Any, actors: tuple[int, int] = (3, 3), **more: Any) -> Any:
        return penstock.ray.transformed(
            self.address, "d", function, actors=actors, options=SMALL, **{**QUERY, **more}
        )


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    config = lake.scored(tmp_path_factory.mktemp("transforms"), 3, 1000, 100, files=2)
    with Server(config) as server:
        yield Served(server.address, config)


def same(batch: pa.RecordBatch) -> pa.RecordBatch:
    return batch


def arrays(batch: pa.RecordBatch) -> dict[str, Any]:
    rows = batch.column("row").to_numpy(zero_copy_only=False)
    return {"row": rows, "twice": 2 * rows, "nothing": np.zeros(0)}


class WithProcess:
    """A transform with a state: how many batches its actor has seen."""

    def __init__(self) -> None:
        self.batches = 0

    def __call__(self, batch: pa.RecordBatch) -> tuple[pa.RecordBatch, int, int]:
        self.batches += 1
        return batch, os.getpid(), self.batches


class Scripted:
    """Numbers of actors by the number of steps."""

    def __init__(self, wanted: dict[int, int]) -> None:
        self._numbers = wanted
        self._steps = 0
        self.wanted = wanted[0]

    def changed(self, pending: int) -> None:
        assert pending >= 0

    def step(self, times: StepTimes, actors: int) -> None:
        assert times.loop >= times.waited >= 0.0
        assert actors >= 1
        self._steps += 1
        self.wanted = self._numbers.get(self._steps, self.wanted)


def begun(steps: Any) -> Any:
    """The loop, once all of its actors are ready."""
    crew = steps._crew
    crew.resize(steps._count.wanted)
    ray.get(crew.starting)
    return iter(steps)


def test_results_come_in_the_order_of_the_stream(served: Served) -> None:
    plain = served.plain()
    with served.transformed(same) as steps:
        assert list(begun(steps)) == plain
        assert steps.actors == 3
        steps.set_epoch(1)
        assert list(steps) == served.plain(epoch=1)
    with (
        penstock.connect(served.address) as client,
        penstock.ray.transformed(
            client, "d", same, actors=(1, 1), shard=(1, 2), options=SMALL, **QUERY
        ) as steps,
    ):
        assert len(steps) == len(served.plain(shard=(1, 2), tail="drop"))
        assert list(steps) == served.plain(shard=(1, 2), tail="drop")


def test_arrays_are_those_of_the_object_store(served: Served) -> None:
    with served.transformed(arrays, actors=(1, 1)) as steps:
        found = [value for value, _ in steps]
    assert [value["row"].tolist() for value in found] == [
        batch.column("row").to_pylist() for batch, _ in served.plain()
    ]
    assert all((value["twice"] == 2 * value["row"]).all() and value["nothing"].size == 0 for value in found)
    assert not any(value["twice"].flags.writeable for value in found)


def test_actors_are_killed_and_their_number_changes(served: Served) -> None:
    killed, numbers, found = set(), set(), []
    with served.transformed(WithProcess) as steps:
        steps._count = Scripted({0: 3, 20: 1, 30: 3, 50: 2})
        for step, ((batch, process, _), cursor) in enumerate(begun(steps)):
            found.append((batch, cursor))
            numbers.add(steps.actors)
            if step in (5, 15, 25, 35, 45):
                assert process not in killed, "an actor had more steps ahead than it may have"
                os.kill(process, signal.SIGKILL)
                killed.add(process)
    assert found == served.plain()
    assert numbers >= {1, 3}


def test_all_actors_are_killed_between_two_steps(served: Served) -> None:
    plain = served.plain()
    with served.transformed(WithProcess) as steps:
        loop = begun(steps)
        first = [next(loop) for _ in range(6)]
        processes = {process for (_, process, _), _ in first}
        assert len(processes) == 3
        for process in processes:
            os.kill(process, signal.SIGKILL)
        assert [(batch, cursor) for (batch, _, _), cursor in [*first, *loop]] == plain


def test_an_instance_of_a_class_is_created_once_for_each_actor(served: Served) -> None:
    with served.transformed(WithProcess, actors=(2, 2)) as steps:
        of_process: dict[int, list[int]] = {}
        for (_, process, count), _ in begun(steps):
            of_process.setdefault(process, []).append(count)
    assert len(of_process) == 2
    for counts in of_process.values():
        assert counts == list(range(1, 1 + len(counts)))


def test_states_are_those_of_a_dataset(served: Served) -> None:
    plain = served.plain(epoch=2)
    dataset = IterableDataset(served.address, "d", convert=False, rank=0, world=1, **QUERY)
    with served.transformed(same) as steps:
        steps.set_epoch(2)
        for _, cursor in steps:
            if cursor == plain[9][1]:
                break
        state = json.loads(json.dumps(steps.state_dict()))
        assert steps.cursor == plain[9][1]
    dataset.load_state_dict(state)
    dataset.set_epoch(2)
    rest = iter(dataset)
    assert next(rest) == plain[10]
    moved = dataset.state_dict()
    with served.transformed(same, actors=(2, 2)) as steps:
        steps.load_state_dict(moved)
        assert list(steps) == plain[11:]
        assert steps.state_dict()["ended"]
        assert list(steps) == plain, "the next iteration begins the epoch"
        steps.load_state_dict(plain[3][1])
        with pytest.raises(penstock.errors.Invalid, match="from epoch 2, but the epoch was set to 3"):
            steps.set_epoch(3)
        assert list(steps) == plain[4:]


def test_states_of_two_ranks_go_on_as_one(served: Served) -> None:
    states = []
    for rank in range(2):
        with served.transformed(
            same, actors=(1, 1), shard=(rank, 2), global_batch_rows=16, batch_rows=None
        ) as steps:
            loop = iter(steps)
            for _ in range(5):
                next(loop)
            states.append(steps.state_dict())
    with served.transformed(same, actors=(2, 2), tail="drop") as steps:
        steps.load_state_dict(penstock.merge_states(states))
        rest = [batch for batch, _ in steps]
    assert rest == [batch for batch, _ in served.plain(tail="drop")][5:]


def test_an_exception_ends_the_loop_at_its_step(served: Served, tmp_path: Path) -> None:
    calls = tmp_path / "calls"

    def fails(batch: pa.RecordBatch) -> int:
        if batch.column("row")[0].as_py() == seventh:
            with calls.open("a") as file:
                file.write("called\n")
            raise KeyError("the transform's own mistake")
        return batch.num_rows

    plain = served.plain()
    seventh = plain[7][0].column("row")[0].as_py()
    with served.transformed(fails, actors=(2, 2)) as steps:
        loop = iter(steps)
        assert [next(loop)[1] for _ in range(7)] == [cursor for _, cursor in plain[:7]]
        with pytest.raises(KeyError, match="the transform's own mistake") as raised:
            next(loop)
        assert "in fails" in str(raised.value), "the traceback names the user's function"
        assert "This was step 7." in str(raised.value)
        assert steps.cursor == plain[6][1]
        with pytest.raises(KeyError):
            next(loop)
    assert calls.read_text() == "called\n"


def test_a_step_that_kills_its_actor_ends_the_loop(served: Served) -> None:
    third = served.plain()[3][0].column("row")[0].as_py()

    def ends(batch: pa.RecordBatch) -> int:
        if batch.column("row")[0].as_py() == third:
            os.kill(os.getpid(), signal.SIGKILL)
        return batch.num_rows

    with served.transformed(ends, actors=(1, 1)) as steps:
        loop = iter(steps)
        for _ in range(3):
            next(loop)
        with pytest.raises(
            penstock.errors.Unavailable, match="3 actors died, one after the other, while they made step 3"
        ):
            next(loop)


def test_a_function_that_hangs_is_ended_at_a_deadline(
    served: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain, marker = served.plain(), tmp_path / "hangs"
    third = plain[3][0].column("row")[0].as_py()

    def hangs(batch: pa.RecordBatch) -> pa.RecordBatch:
        if batch.column("row")[0].as_py() == third and not marker.exists():
            marker.write_text(str(os.getpid()))
            threading.Event().wait()
        return batch

    def late() -> float:
        return time.monotonic() + (1001.0 if marker.exists() else 0.0)

    with served.transformed(hangs, actors=(1, 1), ahead=1, step_timeout=1000) as steps:
        with monkeypatch.context() as patched:
            patched.setattr(transforms_loop, "time", SimpleNamespace(monotonic=late))
            loop = iter(steps)
            assert [next(loop) for _ in range(3)] == plain[:3]
            with pytest.raises(penstock.Unavailable, match="step 3 was not made in 1000 seconds") as raised:
                next(loop)
        assert f"by the actor in process {marker.read_text()} on " in str(raised.value)
        assert "step_timeout=" in raised.value.remedy
        state = steps.state_dict()
        steps.load_state_dict(state)
        assert list(steps) == plain[3:], "another actor goes on"


def test_errors_of_the_server_are_this_packages(served: Served) -> None:
    with (
        served.transformed(same, filter="no_such_column = 1") as steps,
        pytest.raises(penstock.errors.Invalid, match="no_such_column"),
    ):
        iter(steps)

    def unreachable() -> penstock.Client:
        address = served.address if os.getpid() == here else "127.0.0.1:1"
        return penstock.connect(address, reconnect=0)

    here = os.getpid()
    with (
        penstock.ray.transformed(unreachable, "d", same, options=SMALL, **QUERY) as steps,
        pytest.raises(penstock.errors.Unavailable),
    ):
        next(iter(steps))


def test_each_node_has_a_server_of_its_own(served: Served) -> None:
    config, program = str(served.config), str(BINARY)
    with penstock.ray.transformed(
        lambda: penstock.open(config, program=program), "d", same, actors=(2, 2), options=SMALL, **QUERY
    ) as steps:
        assert list(steps) == served.plain()


def test_a_lost_node_costs_no_step(served: Served, tmp_path: Path) -> None:
    """In a process of its own, which has a Ray of three nodes."""
    with (
        penstock.connect(served.address) as client,
        client.read("d", columns=["row"], batch_rows=16) as stream,
    ):
        plain = [batch.column("row").to_pylist() for batch in stream]
    program = Path(__file__).with_name("lost_actors.py")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(program.parent), *sys.path])}
    command: list[Any] = [sys.executable, program, served.config, BINARY, tmp_path]
    subprocess.run(command, env=environment, timeout=280, check=True)
    assert json.loads((tmp_path / "rows").read_text()) == plain
    assert len(set(json.loads((tmp_path / "processes").read_text()))) >= 2


def test_a_function_that_nodes_cannot_import_is_refused(
    served: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "only_here.py").write_text("def same(batch):\n    return batch\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    module = importlib.import_module("only_here")
    with (
        served.transformed(module.same, actors=(1, 1)) as steps,
        pytest.raises(penstock.Invalid, match="No module named 'only_here'") as raised,
    ):
        next(iter(steps))
    assert "runtime_env" in raised.value.remedy


def test_a_cluster_without_room_is_an_error(served: Served) -> None:
    with (
        penstock.ray.transformed(
            served.address, "d", same, options={"num_cpus": 1000}, start_timeout=0.5, **QUERY
        ) as steps,
        pytest.raises(penstock.errors.Unavailable, match="Ray started no actor"),
    ):
        next(iter(steps))


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"actors": 4}, "actors: 4 is not a pair"),
        ({"actors": (0, 4)}, "actors: 0 and 4 are no limits"),
        ({"actors": (5, 4)}, "actors: 5 and 4 are no limits"),
        ({"shard": (2, 2)}, "there is no shard 2 of 2"),
        ({"ahead": 0}, "ahead"),
        ({"step_timeout": 0}, "step_timeout"),
        ({"shuffle": True}, "shuffle"),
        ({"epoch": 1}, "epoch: is set by penstock.ray.transformed itself"),
    ],
)
def test_wrong_arguments_are_refused(more: dict[str, Any], message: str) -> None:
    with pytest.raises(penstock.errors.Invalid, match=message):
        penstock.ray.transformed("localhost:1", "d", same, **more)


def test_a_client_whose_token_would_be_pickled_is_refused() -> None:
    with (
        penstock.connect("localhost:1", token="secret") as client,
        pytest.raises(penstock.errors.Invalid, match="would be pickled"),
    ):
        penstock.ray.transformed(client, "d", same)


def test_ranks_of_a_launcher_are_not_guessed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(penstock.errors.Invalid, match="each rank would read all rows"):
        penstock.ray.transformed("localhost:1", "d", same)


def test_a_loop_that_outlives_ray_does_not_start_another(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    with served.transformed(same, actors=(1, 1)) as steps:
        next(iter(steps))
        killed: list[Any] = []
        with monkeypatch.context() as patched:
            patched.setattr(ray, "is_initialized", lambda: False)
            patched.setattr(ray, "kill", killed.append)
            steps._crew.stop(steps._crew.ready[0])
        assert not killed


def test_a_closed_loop_says_so(served: Served) -> None:
    with served.transformed(same, actors=(1, 1)) as steps:
        first = iter(steps)
        next(first)
        list(steps)
        with pytest.raises(penstock.errors.Invalid, match="was closed"):
            next(first)
    with pytest.raises(penstock.errors.Invalid, match="are closed"):
        iter(steps)
