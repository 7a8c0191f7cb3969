"""Datasets that read several epochs in one iteration, against a plain read of each epoch."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from torch.utils.data import DataLoader
from torchdata.stateful_dataloader import StatefulDataLoader
from trained import Served, Steps, rows, served

from penstock import Invalid, merge_states
from penstock.torch import IterableDataset

pytestmark = [
    pytest.mark.filterwarnings("ignore:This DataLoader will create"),
    pytest.mark.filterwarnings("ignore:'set_vital' is deprecated"),
    pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning"),
]
# 1200 rows in batches of 160: eight steps, the last one short.
SIZE: Any = {"global_batch_rows": 160}


@pytest.fixture(scope="module")
def d(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("repeated")) as found:
        yield found


def expected(d: Served, epochs: int = 3, rank: int = 0, world: int = 1) -> Steps:
    return [step for epoch in range(epochs) for step in d.steps(rank, world, epoch, **SIZE)]


# spec: mix-16
def test_one_iteration_reads_all_epochs(d: Served) -> None:
    data = d.dataset(repeat=3, **SIZE)
    found = list(data)
    assert rows(found) == expected(d)
    assert [batch.step for batch in found] == [*range(8)] * 3
    state = data.state_dict()
    assert (state["epoch"], state["ended"]) == (2, True)
    data.set_epoch(1)
    assert rows(data) == expected(d)[8:]
    for rank in range(2):
        assert rows(d.dataset(repeat=2, rank=rank, world=2, **SIZE)) == expected(d, 2, rank, 2)


# spec: mix-17
def test_a_repeated_dataset_resumes_after_any_step(d: Served) -> None:
    alone = expected(d)
    for at, batch in enumerate(data := d.dataset(repeat=3, **SIZE), 1):
        for state in (data.state_dict(), batch.cursor):
            again = d.dataset(repeat=3, **SIZE)
            again.load_state_dict(json.loads(json.dumps(state)))
            assert rows(again) == alone[at:], f"after step {at}"


# spec: mix-18
@pytest.mark.parametrize("workers", [2, 3])
def test_workers_yield_the_steps_of_all_epochs_in_order(d: Served, workers: int) -> None:
    alone = expected(d)
    data = d.dataset(repeat=3, **SIZE)
    found = list(DataLoader(data, batch_size=None, num_workers=workers, multiprocessing_context="fork"))
    assert rows(found) == alone
    data.load_state_dict(found[10].cursor)
    rest = DataLoader(data, batch_size=None, num_workers=workers, multiprocessing_context="fork")
    assert rows(rest) == alone[11:]


# spec: mix-18
def test_a_stateful_loader_resumes_after_any_step_of_all_epochs(d: Served) -> None:
    alone = expected(d, 2)
    for at in range(5, 11):
        loader = StatefulDataLoader(d.dataset(repeat=2, **SIZE), batch_size=None, num_workers=2)
        for step, _ in enumerate(loader, 1):
            if step == at:
                break
        state = json.loads(json.dumps(loader.state_dict()))
        again = StatefulDataLoader(d.dataset(repeat=2, **SIZE), batch_size=None, num_workers=2)
        again.load_state_dict(state)
        assert rows(again) == alone[at:], f"after step {at}"
        if at == 8:  # the last step of epoch 0: the other worker's last step is before it
            assert merge_states([state])["cursor"]["step"] == 8
        if at == 9:
            with pytest.raises(Invalid, match="the loader's workers are in different epochs"):
                merge_states([state])


# spec: trainer-22
def test_epochs_that_are_read_again_warn(d: Served) -> None:
    data = d.dataset(repeat=2, **SIZE)
    assert rows(data) == expected(d, 2)
    with pytest.warns(
        UserWarning, match="epoch 0 of 'd' is read again, .*: one iteration reads all epochs, so"
    ):
        iter(data)


# spec: mix-19, mix-20
def test_what_cannot_be_repeated_is_refused(d: Served) -> None:
    with pytest.raises(TypeError, match="the number of steps of several epochs is unknown"):
        len(d.dataset(repeat=2))
    with pytest.raises(Invalid, match="repeat: must be at least 1"):
        d.dataset(repeat=0)
    for options, names in (
        ({"epochs": "auto"}, "epochs"),
        ({"skip": 1}, "skip"),
        ({"limit": 5}, "limit"),
        ({"skip": 1, "limit": 5}, "skip and limit"),
    ):
        why = f"repeat: cannot be combined with {names}; leave out {names}, or leave out repeat and iterate once"
        with pytest.raises(Invalid, match=why):
            d.dataset(repeat=2, **options)
    with pytest.raises(Invalid, match=r"mix.repeat: cannot be set here; write ends='repeat'"):
        IterableDataset(d.address, mix=[{"dataset": "d", "weight": 1}], repeat=2)
