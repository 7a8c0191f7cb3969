"""Tensors that the server assembles in a ring equal those that the converter makes of the same batches."""

from __future__ import annotations

import gc
import multiprocessing
import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from lake import Row
from local_host import Host
from server import Server
from test_streams import ROWS, RULES, WIRES, Wire, number, rows_of, written
from torch.utils.data import DataLoader

import penstock
from penstock.torch import Batch, Converter, Deduplicated, IterableDataset, Jagged

pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="memory can be passed to other processes only on Linux"
)

LENT = 'penstock_mapped_memory_bytes{state="lent"}'


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Row]]:
    return written(tmp_path_factory.mktemp("rings"))


@pytest.fixture(scope="module")
def host(tables: tuple[Path, list[Row]]) -> Iterator[Host]:
    with tempfile.TemporaryDirectory() as folder, Host(tables[0], Path(folder)) as host:
        yield host


def dataset(host: Host, **options: Any) -> IterableDataset[Batch]:
    return IterableDataset(host.server.address, "d", **{"batch_rows": 160, "lanes": 2, **RULES, **options})


def in_ring(tensor: torch.Tensor) -> bool:
    """Whether a tensor is in memory that the server shares with this process alone."""
    address = tensor.data_ptr()
    for line in Path("/proc/self/maps").read_text().splitlines():
        place, access = line.split(" ", 2)[:2]
        first, last = (int(part, 16) for part in place.split("-"))
        if first <= address < last:
            return access == "rw-s" and "memfd:penstock-segment" in line
    return False


def same(one: Any, other: Any) -> None:
    """Checks that two batches, or parts of them, have equal names, types, shapes and bytes."""
    assert type(one) is type(other)
    if isinstance(one, torch.Tensor):
        assert (one.dtype, one.shape) == (other.dtype, other.shape)
        assert (
            one.contiguous().view(torch.uint8).equal(other.contiguous().view(torch.uint8)) or not one.numel()
        )
    elif isinstance(one, Jagged):
        same(one.values, other.values)
        same(one.offsets, other.offsets)
    elif isinstance(one, Deduplicated):
        same(one.columns, other.columns)
        same(one.inverse, other.inverse)
        assert one.rows == other.rows
    else:
        assert list(one) == list(other)
        for name in one:
            same(one[name], other[name])


# spec: local-16, local-17, local-18, local-21
@pytest.mark.parametrize("wire", [*WIRES, None])
def test_blocks_are_the_tensors_of_the_converter(
    host: Host, tables: tuple[Path, list[Row]], wire: Wire | None
) -> None:
    form: dict[str, Any] = {} if wire is None else {"wire": wire}
    with host.connect(local=False) as client, client.read("d", batch_rows=160, lanes=2, **form) as stream:
        convert = Converter(stream.schema, **RULES)
        expected = []
        for records in stream:
            assert isinstance(stream.cursor, dict)
            expected.append(convert(records, cursor=stream.cursor, step=stream.cursor["step"] - 1))
    found, rows = 0, []
    for batch, other in zip(dataset(host, **form), expected, strict=True):
        assert all(in_ring(tensor) for tensor in batch.tensors() if tensor.numel())
        same(batch, other)
        assert (batch.rows, batch.cursor, batch.step) == (other.rows, other.cursor, other.step)
        rows += rows_of(batch.expand())
        found += batch.rows
    assert found == ROWS
    assert sorted(rows, key=lambda row: row["row"]) == [number(row) for row in tables[1]]
    del batch
    gc.collect()
    host.waits_for(LENT, 0)


# spec: local-20
def test_values_that_a_plan_refuses_are_reported_by_the_converter(host: Host) -> None:
    rules = {**RULES, "vocab": {"country": ["de"]}, "nulls": {**RULES["nulls"], "country": "error"}}
    with pytest.raises(penstock.errors.Invalid, match="country"):
        list(dataset(host, **rules))
    host.waits_for(LENT, 0)


# spec: local-19, local-20
def test_a_loop_may_keep_all_batches(host: Host) -> None:
    with host.connect(local=False) as client, client.read("d", batch_rows=100, lanes=2) as stream:
        convert = Converter(stream.schema, **RULES)
        expected = [convert(records) for records in stream]
        assert stream.report is not None
        assert stream.report["indexed"]  # the batches that replace blocks are indexed, too
    data = dataset(host, batch_rows=100)
    kept = list(data)
    assert len(kept) > 8
    assert data.stats().way != "ring"
    assert data.stats().why.endswith("since the program keeps as many batches as the ring has slots")
    for batch, other in zip(kept, expected, strict=True):
        same(batch, other)
    assert 1 <= sum(in_ring(batch["row"]) for batch in kept) < len(kept)
    assert sorted(row for batch in kept for row in batch["row"].tolist()) == list(range(ROWS))
    first = kept[0]["row"].clone()
    kept[1]["row"].zero_()  # a batch may be written to, and no other changes
    assert kept[0]["row"].equal(first)


def check_child_keeps(batches: Iterator[Any]) -> None:
    """Checks that a forked child keeps a batch while its parent reads all others, and that the parent has all rows."""
    batch = next(batches)
    before = batch["row"].clone()
    reads, writes = os.pipe()
    child = os.fork()
    if child == 0:
        os.read(reads, 1)  # until the parent has read all
        os._exit(0 if batch["row"].equal(before) else 1)
    del batch
    rest = [other["row"].tolist() for other in batches]
    os.write(writes, b".")
    assert os.waitpid(child, 0)[1] == 0
    assert sorted(before.tolist() + [row for part in rest for row in part]) == list(range(ROWS))
    os.close(reads)
    os.close(writes)


# spec: local-11, local-19
def test_a_forked_child_keeps_its_blocks(host: Host) -> None:
    check_child_keeps(iter(dataset(host, prefetch=0)))


def in_worker_ring(batch: Batch) -> bool:
    return all(in_ring(tensor) for tensor in batch.tensors() if tensor.numel())


def double(batches: Any) -> Any:
    batches["row"] = batches["row"] * 2  # a collate function of a loader
    return batches


# spec: local-22
@pytest.mark.parametrize(
    ("method", "workers", "persistent"), [("fork", 2, False), ("fork", 1, True), ("spawn", 2, True)]
)
def test_blocks_of_workers_come_without_a_copy(
    host: Host, method: str, workers: int, persistent: bool
) -> None:
    expected = list(dataset(host))
    loader = DataLoader(
        dataset(host),
        batch_size=None,
        num_workers=workers,
        multiprocessing_context=method,
        persistent_workers=persistent,
    )
    for _ in range(2):
        found = 0
        for batch, other in zip(loader, expected, strict=True):
            assert in_worker_ring(batch)
            same(batch, other)
            assert (batch.rows, batch.cursor, batch.step) == (other.rows, other.cursor, other.step)
            batch["row"].zero_()  # it may be written to
            found += batch.rows
        assert found == ROWS
    del loader, batch, expected, other
    gc.collect()
    host.waits_for(LENT, 0)


# spec: local-22
def test_a_loop_that_ends_early_leaves_no_block_of_a_worker(host: Host) -> None:
    loader = DataLoader(dataset(host), batch_size=None, num_workers=2)
    kept = next(iter(loader))
    before = kept["row"].clone()
    del loader
    gc.collect()
    host.waits_for(LENT, 0)
    assert kept["row"].equal(before)
    assert not any(child.is_alive() for child in multiprocessing.active_children())


# spec: local-22
def test_a_loop_may_keep_all_batches_of_workers(host: Host) -> None:
    kept = list(DataLoader(dataset(host, batch_rows=100), batch_size=None, num_workers=1))
    assert 1 <= sum(in_worker_ring(batch) for batch in kept) <= 8 < len(kept)
    assert sorted(row for batch in kept for row in batch["row"].tolist()) == list(range(ROWS))


# spec: local-22
def test_a_child_of_the_loop_keeps_the_blocks_of_workers(host: Host) -> None:
    check_child_keeps(iter(DataLoader(dataset(host), batch_size=None, num_workers=1)))


def test_a_batch_that_a_worker_changed_is_passed_as_it_is(host: Host) -> None:
    loader = DataLoader(dataset(host), batch_size=None, num_workers=1, collate_fn=double)
    for batch, other in zip(loader, dataset(host), strict=True):
        assert not in_ring(batch["row"])
        assert batch["row"].equal(other["row"] * 2)
        assert batch["label"].equal(other["label"])


def test_a_killed_worker_is_an_error_and_its_batches_stay(host: Host) -> None:
    batches = iter(DataLoader(dataset(host, batch_rows=20), batch_size=None, num_workers=1))
    batch = next(batches)
    before = batch["row"].clone()
    [worker] = multiprocessing.active_children()
    worker.kill()
    worker.join()
    with pytest.raises((RuntimeError, penstock.Unavailable), match=f"worker.*{worker.pid}"):
        list(batches)
    assert batch["row"].equal(before)
    del batch, batches
    gc.collect()
    host.waits_for(LENT, 0)


def test_a_stream_resumes_in_the_ring_of_the_next_server(tables: tuple[Path, list[Row]]) -> None:
    with tempfile.TemporaryDirectory() as folder, Host(tables[0], Path(folder)) as host:
        socket = ("--local-socket", str(host.socket))
        again = Server(tables[0], *socket, listen=host.server.address)
        rows: list[int] = []
        for batch in dataset(host, prefetch=0, reconnect=60.0):
            assert in_ring(batch["row"])
            rows += batch["row"].tolist()
            if batch.step == 2:
                host.server.kill()
                again.__enter__()
        again.kill()
        assert sorted(rows) == list(range(ROWS))
