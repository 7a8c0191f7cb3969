"""A dataset of a mix: its tensors, states, ranks and DataLoader workers, against `penstock.mix`."""

from __future__ import annotations

import json
import random
import threading
import warnings
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import mixed_lake
import pytest
import torch
from mixed_lake import QUERY, ROWS, configured, members
from server import Server
from torch.utils.data import DataLoader
from torchdata.stateful_dataloader import StatefulDataLoader

import penstock
from penstock import Invalid, merge_states
from penstock.torch import IterableDataset

SIZE: Any = {"global_batch_rows": 320}
RULES: Any = {"nulls": "error", "hash": {"text": 1000}}
Steps = list[list[mixed_lake.Row]]
pytestmark = [
    pytest.mark.filterwarnings("ignore:This DataLoader will create"),
    pytest.mark.filterwarnings("ignore:'set_vital' is deprecated"),
    pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning"),
]


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return configured(tmp_path_factory.mktemp("mixes") / "lake")


@pytest.fixture(scope="module")
def address(config: Path) -> Iterator[str]:
    with Server(config) as server:
        yield server.address


def dataset(address: str, **options: Any) -> IterableDataset[Any]:
    given: Any = {"mix": members(), **QUERY, **SIZE, **RULES, **options}
    return IterableDataset(address, **given)


def rows(batches: Iterable[Any]) -> Steps:
    names = tuple(ROWS)
    return [
        [(names[at], row) for at, row in zip(batch["source"].tolist(), batch["row"].tolist(), strict=True)]
        for batch in batches
    ]


def expected(address: str, rank: int = 0, world: int = 1, **options: Any) -> Steps:
    given: Any = {**QUERY, **SIZE, **options}
    with (
        penstock.connect(address) as client,
        penstock.mix(members(), client=client, shard=(rank, world), **given) as mix,
    ):
        return mixed_lake.rows(mix)


# spec: mix-6
def test_batches_have_the_index_of_the_member(address: str) -> None:
    data = dataset(address)
    assert data.sources == ("a", "b", "c")
    found = list(data)
    assert len(data) == len(found) == 37
    assert found[3].step == 3
    assert found[0]["source"].dtype == torch.int64
    assert rows(found) == expected(address)
    assert set(dataset(address, source="from").__iter__().__next__()) == {"row", "text", "from"}
    assert set(next(iter(dataset(address, source=None)))) == {"row", "text"}
    hashed = next(iter(dataset(address, hash={"text": 10, "source": 2})))
    assert hashed["source"].max() < 2
    raw: Any = dataset(address, convert=False, nulls=None, hash=None)
    records, cursor = next(iter(raw))
    assert records.column("source").to_pylist()[:2] == ["a", "a"]
    assert cursor["step"] == 1


def test_each_epoch_has_its_own_order(address: str) -> None:
    data = dataset(address)
    data.set_epoch(1)
    assert rows(data) == expected(address, epoch=1) != expected(address)


# spec: trainer-21
@pytest.mark.parametrize("workers", [0, 2])
def test_epochs_of_a_mix_are_counted(address: str, workers: int) -> None:
    data = dataset(address, epochs="auto")
    loader = DataLoader(data, batch_size=None, num_workers=workers)
    assert rows(loader) == expected(address)
    cursor = list(islice(loader, 5))[-1].cursor
    again = dataset(address, epochs="auto")
    again.load_state_dict(json.loads(json.dumps(cursor)))
    rest = DataLoader(again, batch_size=None, num_workers=workers)
    assert rows(rest) == expected(address, epoch=1)[5:]
    assert rows(rest) == expected(address, epoch=2)


# spec: trainer-22
def test_an_epoch_of_a_mix_that_is_read_again_warns(address: str) -> None:
    data = dataset(address)
    list(islice(data, 3))
    with pytest.warns(UserWarning, match=r"epoch 0 of 'a \+ b \+ c' is read again"):
        iter(data)
    stored = dataset(address, order="stored", seed=None)
    list(islice(stored, 3))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        iter(stored)


# spec: trainer-23
@pytest.mark.parametrize("workers", [0, 2, 3])
@pytest.mark.parametrize("ends", ["mix", "member", "repeat"])
def test_skip_and_limit_are_steps_of_a_mix(address: str, workers: int, ends: Any) -> None:
    with (
        penstock.connect(address) as client,
        penstock.mix(members(), client=client, ends=ends, **QUERY, **SIZE) as mix,
    ):
        alone = mixed_lake.rows(islice(mix, 12))[4:]
    data = dataset(address, ends=ends, skip=4, limit=8)
    if ends == "mix":
        assert len(data) == 8
    found = list(DataLoader(data, batch_size=None, num_workers=workers))
    assert [batch.step for batch in found] == list(range(4, 12))
    assert rows(found) == alone
    for taken in (1, 3, 8):
        data.load_state_dict(json.loads(json.dumps(found[taken - 1].cursor)))
        rest = DataLoader(data, batch_size=None, num_workers=workers)
        assert rows(rest) == alone[taken:]


# spec: trainer-23
def test_skip_and_limit_of_a_mix_hold_for_ranks_and_stateful_loaders(address: str) -> None:
    ranks = [dataset(address, rank=rank, world=2, skip=2, limit=6) for rank in range(2)]
    for rank, one in enumerate(ranks):
        assert rows(one) == expected(address, rank, 2)[2:8]
    alone = expected(address)[2:8]
    for taken in (0, 3):
        loader = StatefulDataLoader(dataset(address, skip=2, limit=6), batch_size=None, num_workers=2)
        found = rows(islice(iter(loader), taken))
        again = StatefulDataLoader(dataset(address, skip=2, limit=6), batch_size=None, num_workers=2)
        again.load_state_dict(json.loads(json.dumps(loader.state_dict())))
        assert found + rows(again) == alone


# spec: mix-13
@pytest.mark.parametrize(("ends", "method"), [("mix", "fork"), ("member", "fork"), ("member", "spawn")])
def test_workers_yield_the_steps_in_order(address: str, ends: Any, method: str) -> None:
    data = dataset(address, ends=ends)
    alone = expected(address, ends=ends)
    loader = DataLoader(data, batch_size=None, num_workers=2, multiprocessing_context=method)
    found = []
    for batch in loader:
        found.append(batch)
        if batch.step == 10:
            break
    assert rows(found) == alone[:11]
    assert [batch.step for batch in found] == list(range(11))
    data.load_state_dict(json.loads(json.dumps(found[-1].cursor)))
    rest = list(DataLoader(data, batch_size=None, num_workers=3, multiprocessing_context=method))
    assert rows(rest) == alone[11:]


# spec: mix-13, mix-12
def test_states_of_a_stateful_loader_resume(address: str) -> None:
    alone = expected(address)
    loader = StatefulDataLoader(dataset(address), batch_size=None, num_workers=2)
    for at, _ in enumerate(loader):
        if at == 6:
            break
    state = json.loads(json.dumps(loader.state_dict()))
    again = StatefulDataLoader(dataset(address), batch_size=None, num_workers=2)
    again.load_state_dict(state)
    assert rows(again) == alone[7:]
    data = dataset(address)
    data.load_state_dict(merge_states([state]))
    assert rows(data) == alone[7:]


# spec: mix-11, mix-12
@pytest.mark.parametrize("ends", ["mix", "member", "repeat"])
def test_merged_states_resume_on_other_ranks(address: str, ends: Any) -> None:
    steps = 50
    with (
        penstock.connect(address) as client,
        penstock.mix(members(), client=client, ends=ends, **QUERY, **SIZE) as mix,
    ):
        alone = mixed_lake.rows(islice(mix, steps))
    rng = random.Random(3)
    at, state = 0, None
    while at < len(alone):
        world, until = rng.choice([1, 2, 4]), min(len(alone), at + rng.randrange(1, 12))
        ranks = [dataset(address, ends=ends, rank=rank, world=world) for rank in range(world)]
        for one in ranks:
            if state is not None:
                one.load_state_dict(state)
        loops = [iter(one) for one in ranks]
        for step in range(at, until):
            batches = [next(loop) for loop in loops]
            assert {batch.step for batch in batches} == {step}
            assert sorted(row for rank in rows(batches) for row in rank) == sorted(alone[step])
        at = until
        state = json.loads(json.dumps(merge_states([one.state_dict() for one in ranks])))
        for loop in loops:
            loop.close()


# spec: mix-12
def test_a_state_at_the_end_of_an_epoch(address: str) -> None:
    data = dataset(address)
    list(data)
    state = data.state_dict()
    assert state["ended"]
    again = dataset(address)
    again.load_state_dict(state)
    assert list(again) == []
    again.load_state_dict(state)
    again.set_epoch(1)
    assert rows(again) == expected(address, epoch=1)


# spec: mix-12
def test_a_state_before_the_first_batch_has_the_snapshots(address: str) -> None:
    data = dataset(address)
    assert len(data) == 37
    state = json.loads(json.dumps(data.state_dict()))
    assert set(state["snapshots"]) == set(ROWS)
    for rank in range(2):
        again = dataset(address, rank=rank, world=2)
        again.load_state_dict(state)
        assert rows(again) == expected(address, rank, 2)


# spec: mix-12
def test_states_of_something_else_are_refused(address: str) -> None:
    data = dataset(address)
    next(iter(data))
    state = data.state_dict()
    single = IterableDataset(address, "a", **QUERY, **RULES)
    with pytest.raises(Invalid, match="from a mix, but this is a single dataset"):
        single.load_state_dict(state)
    with pytest.raises(Invalid, match="from a mix, but this is a single dataset"):
        single.load_state_dict(state["cursor"])
    next(iter(single))
    with pytest.raises(Invalid, match="from a single stream, but this is a mix"):
        data.load_state_dict(single.state_dict())
    with pytest.raises(Invalid, match="from a mix of a, b, c, but this one is of a, b"):
        dataset(address, mix=members(a=1, b=1)).load_state_dict(state)
    with pytest.raises(Invalid, match="seed: the state has 3, but the dataset has 4"):
        dataset(address, seed=4).load_state_dict(state)
    filtered = dataset(address, filter="row >= 0")
    next(iter(filtered))
    with pytest.raises(Invalid, match="filter: the state has"):
        data.load_state_dict(filtered.state_dict())
    ranks = [dataset(address, rank=rank, world=2) for rank in range(2)]
    states = []
    for steps, one in enumerate(ranks, 1):
        for _, _ in zip(range(steps), one, strict=False):
            pass
        states.append(one.state_dict())
    with pytest.raises(Invalid, match="from different steps: 1, 2"):
        merge_states(states)
    with pytest.raises(Invalid, match="of 2 ranks no state is from rank 1"):
        merge_states(states[:1])


def test_no_thread_remains_of_an_iteration_that_is_left(address: str) -> None:
    loop = iter(dataset(address))
    next(loop)
    loop.close()
    for one in threading.enumerate():
        if one.name.startswith("penstock"):
            one.join(60)
            assert not one.is_alive(), one.name
    with pytest.raises(Invalid, match="the iterator was closed"):
        next(loop)


# spec: mix-7
def test_mistakes_are_refused(address: str) -> None:
    with pytest.raises(Invalid, match="pass either a dataset or a mix"):
        dataset(address, dataset="a")
    with pytest.raises(Invalid, match="dataset: must be a name"):
        dataset(address, mix=None)
    with pytest.raises(Invalid, match="a mix has no plan of its own"):
        dataset(address).plan()
    with pytest.raises(Invalid, match=r"mix\[0\].limit: cannot be set here"):
        dataset(address, mix=[{"dataset": "a", "weight": 1, "limit": 3}])


# spec: mix-7
def test_members_may_be_on_other_servers(address: str, config: Path) -> None:
    with Server(config) as other:
        given = members()
        given[1]["uri"] = other.address
        assert rows(dataset(address, mix=given)) == expected(address)
