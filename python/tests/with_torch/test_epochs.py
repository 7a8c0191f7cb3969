"""Epochs that a dataset counts, epochs that begin again, and the steps of an epoch that are returned."""

from __future__ import annotations

import json
import pickle
import warnings
from collections.abc import Iterator
from itertools import islice
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader
from torchdata.stateful_dataloader import StatefulDataLoader
from trained import Served, rows, served

import penstock
from penstock.torch import IterableDataset, merge_states

pytestmark = [
    pytest.mark.filterwarnings("ignore:This DataLoader will create"),
    pytest.mark.filterwarnings("ignore:'set_vital' is deprecated"),
    pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:Length of IterableDataset"),
]


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("epochs") / "lake") as found:
        yield found


def counting(here: Served, **options: Any) -> IterableDataset[Any]:
    return here.dataset(epochs="auto", **options)


def copied(state: Any) -> Any:
    return json.loads(json.dumps(state))


# spec: trainer-21
@pytest.mark.parametrize("prefetch", [0, 2])
def test_each_iteration_is_the_next_epoch(here: Served, prefetch: int) -> None:
    for rank, world in ((0, 1), (0, 2), (1, 2)):
        ds = counting(here, prefetch=prefetch, rank=rank, world=world)
        for epoch in range(3):
            assert ds.epoch == epoch
            assert rows(ds) == here.steps(rank, world, epoch)
        ds.set_epoch(7)
        for epoch in (7, 8):
            assert ds.epoch == epoch
            assert rows(ds) == here.steps(rank, world, epoch)
        assert len(ds) == 10
    assert here.steps(epoch=0) != here.steps(epoch=1)


# spec: trainer-21
def test_an_abandoned_iteration_was_an_epoch(here: Served) -> None:
    ds = counting(here)
    assert rows(islice(ds, 3)) == here.steps(epoch=0)[:3]
    assert rows(ds) == here.steps(epoch=1)


# spec: trainer-21
@pytest.mark.parametrize(("workers", "options"), [(1, {}), (3, {}), (2, {"persistent_workers": True})])
def test_workers_count_epochs_together(here: Served, workers: int, options: Any) -> None:
    expected = {epoch: here.steps(epoch=epoch) for epoch in (0, 1, 2, 4, 9, 10)}
    ds = counting(here)
    made = DataLoader(ds, batch_size=None, num_workers=workers, **options)
    found = {epoch: rows(made) for epoch in range(3)}
    next(iter(made))
    found[4] = rows(made)
    ds.set_epoch(9)
    found |= {epoch: rows(made) for epoch in (9, 10)}
    assert found == expected


# spec: trainer-21
def test_workers_with_one_seed_count_epochs(here: Served) -> None:
    ds = counting(here)
    for epoch, workers in enumerate((2, 2, 3)):
        alike = torch.Generator().manual_seed(0)
        made = DataLoader(ds, batch_size=None, num_workers=workers, generator=alike)
        assert rows(made) == here.steps(epoch=epoch)
    assert rows(ds) == here.steps(epoch=3)


# spec: trainer-21
def test_spawned_workers_count_epochs(here: Served) -> None:
    made = DataLoader(counting(here), batch_size=None, num_workers=1, multiprocessing_context="spawn")
    for epoch in range(2):
        assert rows(made) == here.steps(epoch=epoch)


# spec: trainer-21
def test_a_state_continues_its_epoch_and_the_count(here: Served) -> None:
    for step in (0, 1, 6, 10):
        ds = counting(here)
        rows(ds)
        iterator = iter(ds)
        for _ in range(step):
            next(iterator)
        state = copied(ds.state_dict())
        assert state["epoch"] == 1
        resumed = counting(here)
        resumed.load_state_dict(state)
        assert resumed.epoch == 1
        assert len(resumed) == 10
        assert rows(resumed) == here.steps(epoch=1)[step:]
        assert rows(resumed) == here.steps(epoch=2)
        iterator.close()
        assert rows(ds) == here.steps(epoch=2)


# spec: trainer-21
def test_a_loop_over_counted_epochs_resumes_after_an_epoch(here: Served) -> None:
    ds = counting(here)
    rows(ds)
    resumed = counting(here)
    resumed.load_state_dict(copied(ds.state_dict()))
    found = [rows(resumed) for _ in range(resumed.epoch, 3)]
    assert [steps for steps in found if steps] == [here.steps(epoch=1), here.steps(epoch=2)]


# spec: trainer-21
@pytest.mark.parametrize("workers", [0, 2, 3])
def test_a_cursor_continues_its_epoch_with_workers(here: Served, workers: int) -> None:
    ds = counting(here)
    rows(ds)
    cursor = list(islice(ds, 4))[-1].cursor
    resumed = counting(here)
    resumed.load_state_dict(copied(cursor))
    made = DataLoader(resumed, batch_size=None, num_workers=workers)
    assert rows(made) == here.steps(epoch=1)[4:]
    assert rows(made) == here.steps(epoch=2)


# spec: trainer-12, trainer-21
@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("taken", [0, 1, 5, 10, 11])
def test_a_stateful_loader_continues_the_count(here: Served, workers: int, taken: int) -> None:
    made = StatefulDataLoader(counting(here), batch_size=None, num_workers=workers)
    assert rows(made) == here.steps(epoch=0)
    found = rows(islice(iter(made), taken))
    state = copied(made.state_dict())
    again = StatefulDataLoader(counting(here), batch_size=None, num_workers=workers)
    again.load_state_dict(state)
    found += rows(again) if taken < 11 else []
    assert found == here.steps(epoch=1)
    assert rows(again) == here.steps(epoch=2)
    if 0 < taken < 11:
        ds = counting(here)
        ds.load_state_dict(merge_states([state]))
        assert rows(ds) == here.steps(epoch=1)[taken:]
        assert rows(ds) == here.steps(epoch=2)


# spec: trainer-16, trainer-21
def test_an_epoch_that_was_set_must_be_that_of_the_state(here: Served) -> None:
    ds = counting(here)
    rows(ds)
    next(iter(ds))
    state = copied(ds.state_dict())
    other = counting(here)
    other.load_state_dict(state)
    other.set_epoch(0)
    with pytest.raises(
        penstock.Invalid, match=r"from epoch 1, but the epoch was set to 0; call set_epoch\(1\)"
    ):
        next(iter(other))
    with pytest.raises(penstock.Invalid, match=r"epochs: 3 is not 'auto'; write epochs='auto'"):
        here.dataset(epochs=3)


# spec: trainer-21
def test_a_counting_dataset_is_pickled_with_its_count(here: Served) -> None:
    ds = counting(here)
    rows(ds)
    assert rows(pickle.loads(pickle.dumps(ds))) == here.steps(epoch=1)
    assert rows(ds) == here.steps(epoch=1)


AGAIN = r"epoch 0 of 'd' is read again, in the same order.*ds\.set_epoch\(epoch\).*epochs='auto'"


# spec: trainer-22
@pytest.mark.parametrize("workers", [0, 2])
def test_an_epoch_that_is_read_again_warns_once(here: Served, workers: int) -> None:
    ds = here.dataset()
    if workers:
        ds = here.dataset(transform=lambda batch: batch)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        for _ in ds:
            pass
        made = DataLoader(ds, batch_size=None, num_workers=workers)
        for _ in range(2):
            list(made)
    mine = [str(one.message) for one in told if "is read again" in str(one.message)]
    if workers:  # they warned in their own processes
        assert ds._shared.warn_once() is False
    else:
        assert len(mine) == 1
        assert mine[0].startswith(
            "epoch 0 of 'd' is read again, in the same order as before: call ds.set_epoch"
        )


# spec: trainer-22
def test_the_warning_names_the_line_of_the_loop(here: Served) -> None:
    ds = here.dataset()
    rows(ds)
    with pytest.warns(UserWarning, match=AGAIN) as told:
        iter(ds)
    assert told[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        rows(ds)


# spec: trainer-22
def test_nothing_warns_where_no_epoch_repeats(here: Served) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for ds in (counting(here), here.dataset(order="stored", seed=None)):
            for _ in range(2):
                rows(ds)
        ds = here.dataset()
        for epoch in (0, 1, 1):
            ds.set_epoch(epoch)
            rows(ds)
        ds = here.dataset()
        next(iter(ds))  # a look
        list(islice(ds, 4))
        ds.load_state_dict(copied(ds.state_dict()))
        rows(ds)


# spec: trainer-23
@pytest.mark.parametrize(
    ("skip", "limit"), [(0, 1), (0, 4), (3, None), (3, 4), (8, 5), (10, 1), (0, 10), (50, 50)]
)
def test_skip_and_limit_are_steps_of_each_epoch(here: Served, skip: int, limit: int | None) -> None:
    end = None if limit is None else skip + limit
    for world in (1, 2):
        for rank in range(world):
            ds = counting(here, rank=rank, world=world, skip=skip, limit=limit)
            for epoch in range(2):
                expected = here.steps(rank, world, epoch)[skip:end]
                assert len(ds) == len(expected)
                found = list(ds)
                assert rows(found) == expected
                assert [batch.step for batch in found] == list(range(10))[skip:end]
                assert ds.stats().batches == len(expected)


# spec: trainer-23
@pytest.mark.parametrize("workers", [1, 2, 3, 4])
@pytest.mark.parametrize(("skip", "limit"), [(0, 3), (3, None), (2, 5), (10, 2), (1, 1)])
def test_skip_and_limit_are_exact_over_workers(
    here: Served, workers: int, skip: int, limit: int | None
) -> None:
    end = None if limit is None else skip + limit
    ds = counting(here, skip=skip, limit=limit)
    made = DataLoader(ds, batch_size=None, num_workers=workers)
    assert len(made) == len(here.steps()[skip:end])
    for epoch in range(2):
        assert rows(made) == here.steps(epoch=epoch)[skip:end]


# spec: trainer-23
@pytest.mark.parametrize("workers", [0, 2, 3])
def test_skip_and_limit_are_exact_when_resumed(here: Served, workers: int) -> None:
    for taken in range(6):
        ds = counting(here, skip=2, limit=5)
        iterator = iter(ds)
        for _ in range(taken):
            next(iterator)
        state = copied(ds.state_dict())
        iterator.close()
        again = counting(here, skip=2, limit=5)
        again.load_state_dict(state)
        assert len(again) == 5
        made = DataLoader(again, batch_size=None, num_workers=workers)
        assert rows(made) == here.steps()[2:7][taken:]
        assert rows(made) == here.steps(epoch=1)[2:7]


# spec: trainer-23
@pytest.mark.parametrize("workers", [2, 3])
def test_a_stateful_loader_resumes_within_the_steps_of_an_epoch(here: Served, workers: int) -> None:
    for taken in range(6):
        made = StatefulDataLoader(counting(here, skip=3, limit=5), batch_size=None, num_workers=workers)
        found = rows(islice(iter(made), taken))
        state = copied(made.state_dict())
        again = StatefulDataLoader(counting(here, skip=3, limit=5), batch_size=None, num_workers=workers)
        again.load_state_dict(state)
        assert found + rows(again) == here.steps()[3:8]
        assert rows(again) == here.steps(epoch=1)[3:8]
        ds = counting(here, skip=3, limit=5)
        ds.load_state_dict(merge_states([state]))
        assert found + rows(ds) == here.steps()[3:8]
        other = StatefulDataLoader(counting(here, skip=9), batch_size=None, num_workers=workers)
        other.load_state_dict(state)
        with pytest.raises(
            penstock.Invalid, match=r"skip: the state of this worker is before step 9; load merge_"
        ):
            next(iter(other))


# spec: trainer-23
def test_limited_ranks_resume_with_another_number(here: Served) -> None:
    states, expected = [], here.steps()[1:7]
    for rank in range(2):
        ds = here.dataset(rank=rank, world=2, skip=1, limit=6)
        list(islice(ds, 2))
        states.append(copied(ds.state_dict()))
    ds = here.dataset(skip=1, limit=6)
    ds.load_state_dict(merge_states(states))
    assert rows(ds) == expected[2:]
    ended = [here.dataset(rank=rank, world=2, limit=6) for rank in range(2)]
    for one in ended:
        rows(one)
    ds = here.dataset(limit=6)
    ds.load_state_dict(merge_states([copied(one.state_dict()) for one in ended]))
    assert rows(ds) == []
    longer = here.dataset(limit=8)
    longer.load_state_dict(merge_states([copied(one.state_dict()) for one in ended]))
    assert rows(longer) == here.steps()[6:8]


# spec: trainer-23
def test_wrong_steps_are_refused(here: Served) -> None:
    for wrong, why in (
        ({"limit": 0}, "limit: must be at least 1, not 0"),
        ({"limit": 1.5}, "limit: 1.5 is not a whole number; write limit=1"),
        ({"skip": -1}, "skip: must be at least 0, not -1"),
        ({"skip": "2"}, "skip: '2' is not a whole number; write skip=2"),
    ):
        with pytest.raises(penstock.Invalid, match=why):
            here.dataset(**wrong)
    unknown = here.dataset(filter="row < 1111", limit=2)
    with pytest.raises(TypeError, match="unknown before reading"):
        len(unknown)
    assert len(rows(unknown)) == 2
