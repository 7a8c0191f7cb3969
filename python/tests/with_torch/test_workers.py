"""DataLoader workers: the steps of the rank in their order, however workers are started."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
import torch
from torch.utils.data import DataLoader
from torchdata.stateful_dataloader import StatefulDataLoader
from trained import QUERY, Served, rows, served

import penstock
from penstock.torch import Batch, IterableDataset

pytestmark = [
    pytest.mark.filterwarnings("ignore:This DataLoader will create"),
    pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning"),
]


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("workers") / "lake") as found:
        yield found


def loader(ds: IterableDataset[Any], workers: int, **options: Any) -> DataLoader[Any]:
    return DataLoader(ds, batch_size=None, num_workers=workers, **options)


# spec: trainer-2
@pytest.mark.parametrize(("workers", "world"), [(0, 1), (1, 1), (2, 1), (3, 1), (2, 2), (3, 4)])
def test_workers_return_steps_in_order(here: Served, workers: int, world: int) -> None:
    expected = here.steps(world - 1, world)
    ds = here.dataset(rank=world - 1, world=world)
    made = loader(ds, workers)
    assert len(made) == len(expected)
    found = list(made)
    assert rows(found) == expected
    assert all(isinstance(batch, Batch) for batch in found)
    assert [batch.step for batch in found] == list(range(len(expected)))
    assert [batch.cursor for batch in found] == [batch.cursor for batch in ds]


# spec: trainer-2, trainer-3
@pytest.mark.parametrize(("method", "workers"), [("spawn", 2), ("forkserver", 1)])
def test_workers_with_other_start_methods(here: Served, method: str, workers: int) -> None:
    ds = here.dataset(rank=1, world=2)
    ds.set_epoch(2)
    assert rows(loader(ds, workers, multiprocessing_context=method)) == here.steps(1, 2, epoch=2)


def many_tensors(batch: Any) -> list[torch.Tensor]:  # noqa: ARG001 - a transform
    return [torch.zeros(1 << 16) for _ in range(200)]


def test_spawned_workers_that_are_sending_batches_exit_cleanly(here: Served) -> None:
    """Torch aborts a process that ends while a thread is inside torch, as the one that sends batches may be."""
    exits: list[int | str | None] = []
    for _ in range(4):  # without the wait, two of three end by SIGABRT
        iterator: Any = iter(loader(here.dataset(transform=many_tensors), 1, multiprocessing_context="spawn"))
        next(iterator)
        [worker] = iterator._workers
        try:
            iterator._shutdown_workers()
        except RuntimeError as e:  # a worker was killed by a signal
            exits.append(str(e))
        else:
            exits.append(worker.exitcode)
    assert exits == [0] * 4


# spec: trainer-2
@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
@pytest.mark.parametrize("kind", [DataLoader, StatefulDataLoader])
@pytest.mark.filterwarnings("ignore:'set_vital' is deprecated")
# The error of the first worker ends the DataLoader, perhaps before torch has started the second one, which then fails.
@pytest.mark.filterwarnings(
    r"ignore:Exception ignored in.*_MultiProcessingDataLoaderIter.__del__:pytest.PytestUnraisableExceptionWarning"
)
def test_workers_with_in_order_false_are_refused(here: Served, method: str, kind: Any) -> None:
    ds = here.dataset()
    options: dict[str, Any] = {"batch_size": None, "multiprocessing_context": method}
    made = kind(ds, num_workers=2, in_order=False, **options)
    with pytest.raises(
        penstock.Invalid, match=r"in_order=False.*leave in_order out when you create the DataLoader"
    ):
        next(iter(made))
    assert rows(kind(ds, num_workers=1, **options)) == here.steps(), "the dataset is as it was"
    assert rows(kind(ds, num_workers=0, in_order=False, batch_size=None)) == here.steps()


# spec: trainer-6
def test_persistent_workers_read_each_epoch_that_is_set(here: Served) -> None:
    ds = here.dataset()
    made = loader(ds, 2, persistent_workers=True)
    for epoch in (0, 3, 1):
        ds.set_epoch(epoch)
        assert rows(made) == here.steps(epoch=epoch)
    for _ in made:
        break
    ds.set_epoch(4)
    assert rows(made) == here.steps(epoch=4)


# spec: trainer-15
@pytest.mark.parametrize("workers", [0, 2, 3])
def test_loader_resumes_from_the_cursor_of_any_batch(here: Served, workers: int) -> None:
    expected = here.steps(epoch=1)
    ds = here.dataset()
    ds.set_epoch(1)
    batches = list(loader(ds, 2))
    for batch in batches[1::3]:
        ds = here.dataset()
        ds.load_state_dict(batch.cursor)
        assert ds.epoch == 1
        assert len(ds) == len(expected)
        assert rows(loader(ds, workers)) == expected[batch.step + 1 :]
        # It serves one epoch, whichever process took it.
        assert rows(loader(ds, workers)) == expected


def test_worker_returns_transformed_value_and_cursor(here: Served) -> None:
    expected = [batch.cursor for batch in here.dataset()]
    found = list(loader(here.dataset(transform=len), 2))
    assert [cursor for _, cursor in found] == expected
    assert {value for value, _ in found} == {3}
    raw = list(loader(IterableDataset(here.address, "d", convert=False, **QUERY), 2))
    assert [records["row"].to_pylist() for records, _ in raw] == here.steps()
    assert all(isinstance(records, pa.RecordBatch) for records, _ in raw)
    assert [cursor for _, cursor in raw] == expected


# spec: trainer-8
def test_device_is_refused_in_workers(here: Served) -> None:
    with pytest.raises(penstock.Invalid, match="device: DataLoader workers cannot copy batches to meta"):
        next(iter(loader(here.dataset(device="meta"), 1)))


def test_failures_of_a_worker_are_the_loaders(here: Served) -> None:
    with pytest.raises(penstock.Invalid, match="nope"):
        next(iter(loader(here.dataset(columns=["nope"], nulls=None), 2)))


# spec: trainer-10
@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_error_of_workers_forked_during_a_read_has_a_remedy(here: Served) -> None:
    ds = here.dataset()
    for reading in (iter(ds), iter(here.dataset(prefetch=0))):
        next(reading)
        with pytest.raises(
            penstock.Invalid, match=r"forked while its parent was reading.*spawn or forkserver"
        ):
            next(iter(loader(ds, 1, multiprocessing_context="fork")))
        reading.close()
    assert rows(loader(ds, 1, multiprocessing_context="fork")) == here.steps()


def test_state_dict_is_refused_while_workers_read(here: Served) -> None:
    ds = here.dataset()
    next(iter(loader(ds, 1)))
    with pytest.raises(penstock.Invalid, match=r"DataLoader workers read this dataset.*save the cursor"):
        ds.state_dict()
    iterator = iter(ds)
    batch = next(iterator)
    assert ds.state_dict()["cursor"] == batch.cursor
