"""States: at every step, with other workers and ranks, and what is refused."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from torchdata.stateful_dataloader import StatefulDataLoader
from trained import Served, Steps, rows, served

import penstock
from penstock.torch import IterableDataset, merge_states
from penstock.torch.readstate import DEFAULTS, check_query

pytestmark = [
    pytest.mark.filterwarnings("ignore:This DataLoader will create"),
    pytest.mark.filterwarnings("ignore:'set_vital' is deprecated"),
    pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning"),
]


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("state") / "lake") as found:
        yield found


def stateful(ds: IterableDataset, workers: int, **options: Any) -> StatefulDataLoader[Any]:
    return StatefulDataLoader(ds, batch_size=None, num_workers=workers, **options)


def after(made: Any, steps: int) -> Any:
    """The state of a dataset or loader after a number of steps, as JSON."""
    iterator = iter(made)
    for _ in range(steps):
        next(iterator)
    return json.loads(json.dumps(made.state_dict()))


def going_on(ds: IterableDataset, state: Any) -> IterableDataset:
    ds.load_state_dict(state)
    return ds


# spec: trainer-5, trainer-11
@pytest.mark.parametrize("prefetch", [0, 3])
def test_dataset_resumes_after_every_step(here: Served, prefetch: int) -> None:
    expected = here.steps(epoch=2)
    for step in range(len(expected) + 1):
        ds = here.dataset(prefetch=prefetch)
        ds.set_epoch(2)
        state = after(ds, step)
        assert len(json.dumps(state)) < 1500
        ds = going_on(here.dataset(prefetch=prefetch), state)
        assert ds.state_dict() == state
        assert len(ds) == len(expected)
        assert rows(ds) == expected[step:]
        assert len(ds) == len(expected)
        assert rows(ds) == expected  # a state serves one pass


# spec: trainer-12
@pytest.mark.parametrize("workers", [0, 1, 2, 3])
def test_stateful_loader_resumes_after_every_step(here: Served, workers: int) -> None:
    expected = here.steps()
    made = stateful(here.dataset(), workers)
    iterator = iter(made)
    states = [json.loads(json.dumps(made.state_dict()))]
    for _ in expected:
        next(iterator)
        states.append(json.loads(json.dumps(made.state_dict())))
    for step, state in enumerate(states):
        # With the same workers, which begin in the middle of a turn; and with none.
        if step % 3 == 1 or workers < 2:
            made = stateful(here.dataset(), workers)
            made.load_state_dict(state)
            assert rows(made) == expected[step:]
            assert rows(made) == expected
        assert rows(going_on(here.dataset(), merge_states([state]))) == expected[step:]


# spec: trainer-13
@pytest.mark.parametrize(("before", "behind"), [(2, 3), (3, 2), (0, 2), (2, 0)])
def test_merged_states_resume_with_other_workers(here: Served, before: int, behind: int) -> None:
    expected = here.steps()
    for step in (1, 4):
        state = after(stateful(here.dataset(), before), step)
        again = after(stateful(going_on(here.dataset(), merge_states([state])), behind), 2)
        assert rows(going_on(here.dataset(), merge_states([again]))) == expected[step + 2 :]


def test_a_loader_that_ended_begins_the_next_epoch(here: Served) -> None:
    for workers in (0, 2):
        made = stateful(here.dataset(), workers)
        assert rows(made) == here.steps()
        state = json.loads(json.dumps(made.state_dict()))
        ds = here.dataset()
        made = stateful(ds, workers)
        made.load_state_dict(state)
        ds.set_epoch(1)
        assert rows(made) == here.steps(epoch=1)


# spec: trainer-13
def test_ranks_change_from_one_to_two_to_four_to_one(here: Served) -> None:
    expected = here.steps()
    found: Steps = []
    states: list[Any] = []
    for world, steps in ((1, 2), (2, 3), (4, 1), (1, 4)):
        parts, kept = [], []
        for rank in range(world):
            ds = here.dataset(rank=rank, world=world)
            if states:
                ds.load_state_dict(merge_states(states))
            iterator = iter(ds)
            parts.append(rows(next(iterator) for _ in range(steps)))
            kept.append(json.loads(json.dumps(ds.state_dict())))
            iterator.close()
        states = kept
        # A step's rows lie in blocks of lanes, which ranks share out in turn.
        found += [_in_lanes([part[step] for part in parts], world) for step in range(steps)]
    assert found == expected


def _in_lanes(batches: Steps, world: int) -> list[int]:
    """The rows of all ranks' batches of a step, lane by lane, as one rank has them."""
    lanes: dict[int, list[int]] = {}
    for rank, batch in enumerate(batches):
        for i in range(4 // world):
            lanes[rank + i * world] = batch[i * 30 : (i + 1) * 30]
    return [row for lane in sorted(lanes) for row in lanes[lane]]


# spec: trainer-16
def test_one_ranks_own_state_is_enough_for_that_rank(here: Served) -> None:
    state = after(here.dataset(rank=1, world=2), 3)
    assert rows(going_on(here.dataset(rank=1, world=2), state)) == here.steps(1, 2)[3:]
    for rank, world in ((0, 2), (0, 1), (3, 4)):
        ds = going_on(here.dataset(rank=rank, world=world), state)
        with pytest.raises(penstock.Invalid, match=r"the state is from rank 1 of 2.*merge_states"):
            next(iter(ds))


# spec: trainer-11
def test_state_ignores_read_ahead(here: Served) -> None:
    ds = here.dataset(prefetch=5)
    iterator = iter(ds)
    cursors = [next(iterator).cursor for _ in range(3)]
    assert ds.state_dict()["cursor"] == cursors[-1]
    iterator.close()
    made = stateful(here.dataset(), 2, prefetch_factor=4)
    state = after(made, 3)
    assert merge_states([state])["cursor"] == cursors[-1]


@pytest.mark.parametrize("order", [None, "shuffled"])
def test_the_defaults_of_a_query_are_the_servers(here: Served, order: Any) -> None:
    with penstock.connect(here.address) as client, client.read("d", order=order) as stream:
        next(stream)
        cursor = stream.cursor
    assert isinstance(cursor, dict)
    expected = {name for name, value in DEFAULTS.items() if value is not None}
    if order is None:
        expected -= {"shuffle_window", "shuffle_parts"}
    assert cursor.keys() & DEFAULTS.keys() == expected
    sent = {name: cursor[name] for name in expected - {"order"}}
    assert sent == {name: DEFAULTS[name] for name in sent}
    assert cursor["order"] == (order or DEFAULTS["order"])


# spec: trainer-16
def test_a_state_of_a_dataset_with_distinct_is_accepted() -> None:
    check_query({"order": "shuffled"}, {"order": "shuffled", "shuffle": "requests", "shuffle_parts": 1})
    with pytest.raises(penstock.Invalid, match="shuffle_parts"):
        check_query({"order": "shuffled"}, {"order": "shuffled", "shuffle": "requests", "shuffle_parts": 2})


# spec: trainer-16
def test_a_state_of_another_query_is_refused_by_name(here: Served) -> None:
    state = after(here.dataset(filter="row < 1000"), 2)
    with pytest.raises(penstock.Invalid, match=r"^filter: the state has 'row < 1000'"):
        here.dataset().load_state_dict(state)
    for name, other in (("filter", "row < 900"), ("seed", 4), ("order", "stored"), ("lanes", 8)):
        query: Any = {"filter": "row < 1000", name: other}
        with pytest.raises(penstock.Invalid, match=name):
            next(iter(going_on(here.dataset(**query), state)))
    with pytest.raises(penstock.Invalid, match="the state is from dataset 'd', but this is 'e'"):
        IterableDataset(here.address, "e").load_state_dict(state)
    wrongs: list[Any] = [{}, {"v": 1}, {**state, "more": 1}, [], "x"]
    for wrong in wrongs:
        with pytest.raises(penstock.Invalid):
            here.dataset().load_state_dict(wrong)
    with pytest.raises(penstock.Invalid, match="version 2"):
        here.dataset().load_state_dict({**state, "v": 2})


# spec: trainer-16
def test_a_state_of_another_epoch_is_refused_unless_it_ended(here: Served) -> None:
    ds = here.dataset()
    ds.set_epoch(3)
    state = after(ds, 4)
    ds = going_on(here.dataset(), state)
    ds.set_epoch(2)
    with pytest.raises(
        penstock.Invalid, match=r"is from epoch 3, but the epoch was set to 2; call set_epoch\(3\)"
    ):
        next(iter(ds))
    ds = here.dataset()
    rows(ds)
    ended = ds.state_dict()
    assert ended["ended"] is True
    assert rows(going_on(here.dataset(), ended)) == []
    ds = going_on(here.dataset(), ended)
    ds.set_epoch(1)
    assert rows(ds) == here.steps(epoch=1)


# spec: trainer-14
def test_states_of_different_runs_are_not_merged(here: Served) -> None:
    first, second = (here.dataset(rank=rank, world=2) for rank in range(2))
    with pytest.raises(penstock.Invalid, match="different steps: 2, 3"):
        merge_states([after(first, 2), after(second, 3)])
    with pytest.raises(penstock.Invalid, match="different steps: 0, 3"):
        merge_states([after(first, 0), after(second, 3)])
    with pytest.raises(penstock.Invalid, match="two states are from rank 0"):
        merge_states(
            [
                after(first, 2),
                after(here.dataset(rank=0, world=2, batch_rows=60, global_batch_rows=None, seed=4), 2),
            ]
        )
    with pytest.raises(penstock.Invalid, match="different numbers of ranks: 1, 2"):
        merge_states([after(first, 2), after(here.dataset(), 2)])
    with pytest.raises(
        penstock.Invalid, match=r"different runs: their cursors differ in seed; merge the states of one run"
    ) as told:
        merge_states([after(first, 2), after(here.dataset(rank=1, world=2, seed=4), 2)])
    assert told.value.differs == ("seed",)
    other = here.dataset(rank=1, world=2)
    other.set_epoch(1)
    with pytest.raises(penstock.Invalid, match="different epochs: 0, 1"):
        merge_states([after(first, 2), after(other, 2)])
    with pytest.raises(penstock.Invalid, match="no states to merge"):
        merge_states([])
    with pytest.raises(penstock.Invalid, match="snapshot_every_n_steps=1"):
        merge_states([after(stateful(here.dataset(), 2, snapshot_every_n_steps=2), 3)])
    assert merge_states is penstock.merge_states


# spec: trainer-14
def test_states_with_a_missing_or_duplicate_rank_are_not_merged(here: Served) -> None:
    def state(rank: int, world: int = 4) -> Any:
        return after(here.dataset(rank=rank, world=world), 2)

    zero, one, two, three = (state(rank) for rank in range(4))
    kept = json.loads(json.dumps(zero))
    for states, why in (
        ([zero], "of 4 ranks no state is from rank 1, 2, 3"),
        ([zero, kept], "of 4 ranks no state is from rank 1, 2, 3 and two states are from rank 0"),
        ([zero, one, two, kept], "of 4 ranks no state is from rank 3 and two states are from rank 0"),
        ([three, zero, one, two, kept], "of 4 ranks two states are from rank 0"),
        ([zero["cursor"], one["cursor"]], "of 4 ranks no state is from rank 2, 3"),
        (zero, "of 4 ranks no state is from rank 1, 2, 3"),
        ([merge_states([zero, one, two, three]), kept], "of 4 ranks two states are from rank 0"),
    ):
        with pytest.raises(penstock.Invalid, match=f"^{why}; merge one state of each rank"):
            merge_states(states)
    merged = merge_states([three, one, zero, two])
    assert [cursor["shard"]["index"] for cursor in merged["cursor"]] == [0, 1, 2, 3]
    assert merge_states(merged)["cursor"] == merged["cursor"]
    # Ranks that took no batch yet stand where the state stood that they loaded.
    again = [going_on(here.dataset(rank=r, world=2), merged).state_dict() for r in range(2)]
    assert merge_states(again)["cursor"] == merged["cursor"]


# spec: trainer-14
def test_loader_states_with_a_missing_worker_are_not_merged(here: Served) -> None:
    def broken() -> Any:
        return after(stateful(here.dataset(), 3), 4)

    lacking, doubled, extra = broken(), broken(), broken()
    for state, change in ((lacking, "pop"), (doubled, "double"), (extra, "rename")):
        workers = state["_snapshot"]["_worker_snapshots"]
        if change == "pop":
            del workers["worker_1"]
        elif change == "double":
            workers["worker_1"] = workers["worker_0"]
        else:
            workers["worker_3"] = workers.pop("worker_2")
    for state, why in (
        (lacking, "has 2 of 3 workers, and none of worker 1"),
        (doubled, "not at consecutive steps"),
        (extra, "has 3 of 3 workers, and none of worker 2"),
    ):
        with pytest.raises(penstock.Invalid, match=why):
            merge_states([state])


# spec: trainer-13
@pytest.mark.parametrize("workers", [0, 2])
def test_rank_resumes_from_the_state_of_its_own_loader(here: Served, workers: int) -> None:
    state = after(stateful(here.dataset(rank=1, world=2), workers), 3)
    assert rows(going_on(here.dataset(rank=1, world=2), state)) == here.steps(1, 2)[3:]
    assert rows(going_on(here.dataset(rank=1, world=2), json.dumps(state))) == here.steps(1, 2)[3:]
    with pytest.raises(penstock.Invalid, match="no state is from rank 0"):
        merge_states([state])
    with pytest.raises(penstock.Invalid, match="the state is from rank 1 of 2"):
        next(iter(going_on(here.dataset(rank=0, world=2), state)))


# spec: trainer-14
def test_workers_out_of_order_are_refused(here: Served) -> None:
    state = after(stateful(here.dataset(), 2), 3)
    workers = state["_snapshot"]["_worker_snapshots"]
    workers["worker_0"]["dataset_state"] = after(stateful(here.dataset(), 2), 5)["_snapshot"][
        "_worker_snapshots"
    ]["worker_0"]["dataset_state"]
    with pytest.raises(penstock.Invalid, match=r"not at consecutive steps: 3, 6 come next.*in_order=True"):
        merge_states([state])
    with pytest.raises(penstock.Invalid, match="from one of 2 DataLoader workers"):
        here.dataset().load_state_dict(workers["worker_0"]["dataset_state"])


# spec: trainer-7
def test_workers_without_batches_resume_at_the_others_snapshots(tmp_path: Any) -> None:
    with served(tmp_path / "lake") as own:
        expected = own.steps()
        state = after(stateful(own.dataset(), 3), 1)
        table = own.lake.catalog.load_table("ml.events")
        table.append(table.scan(limit=300).to_arrow().cast(table.scan().to_arrow().schema))
        own.lake.catalog.engine.dispose()
        made = stateful(own.dataset(), 3)
        made.load_state_dict(state)
        assert rows(made) == expected[1:]
        assert rows(made) == expected
