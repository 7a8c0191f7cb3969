"""IterableDataset in one process: rows, order, ranks, epochs, lengths, and what an iteration gives."""

from __future__ import annotations

import contextlib
import pickle
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import torch
import torch.distributed
from pyiceberg.types import DoubleType, LongType
from torch.testing._internal.distributed.fake_pg import FakeStore
from trained import QUERY, ROWS, Served, rows, served

import penstock
from penstock.torch import Batch, IterableDataset


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("dataset") / "lake") as found:
        yield found


# spec: trainer-1, trainer-5
@pytest.mark.parametrize("prefetch", [0, 2])
@pytest.mark.parametrize("world", [1, 2, 4])
def test_ranks_return_the_rows_of_their_shards(here: Served, world: int, prefetch: int) -> None:
    every_row: list[int] = []
    for rank in range(world):
        ds = here.dataset(rank=rank, world=world, prefetch=prefetch)
        expected = here.steps(rank, world)
        assert rows(ds) == expected
        assert len(ds) == len(expected) == 10
        every_row += [row for step in expected for row in step]
    assert sorted(every_row) == list(range(ROWS))


# spec: trainer-1
def test_batches_have_their_step_and_cursor(here: Served) -> None:
    batches = list(here.dataset())
    assert all(isinstance(batch, Batch) for batch in batches)
    assert [batch.step for batch in batches] == list(range(10))
    with penstock.connect(here.address) as client, client.read("d", **QUERY) as stream:
        assert [batch.cursor for batch in batches] == [stream.cursor for _ in stream]


def test_epochs_reorder_the_same_rows(here: Served) -> None:
    ds = here.dataset()
    orders = []
    for epoch in (0, 1, 7):
        ds.set_epoch(epoch)
        assert ds.epoch == epoch
        found = rows(ds)
        assert found == rows(ds) == here.steps(epoch=epoch)
        orders.append(found)
    assert orders[0] != orders[1] != orders[2]
    with pytest.raises(penstock.Invalid, match="epoch: there is no epoch -1"):
        ds.set_epoch(-1)


# spec: trainer-4
def test_ranks_end_at_the_same_step_unless_tail_is_set(here: Served) -> None:
    uneven: Any = {"filter": "row < 1111", "global_batch_rows": 400}
    lengths: dict[str | None, list[int]] = {None: [], "keep": []}
    for tail, found in lengths.items():
        for rank in range(4):
            ds = here.dataset(rank=rank, world=4, tail=tail, count="exact", **uneven)
            steps = rows(ds)
            assert steps == here.steps(rank, 4, count="exact", tail=tail or "drop", **uneven)
            assert len(ds) == len(steps)
            found.append(sum(map(len, steps)))
    assert lengths[None] == [200] * 4
    assert sum(lengths["keep"]) == 1111


# spec: trainer-5
def test_unknown_length_is_a_type_error(here: Served) -> None:
    ds = here.dataset(filter="row < 1111")
    with pytest.raises(TypeError, match=r"tail='drop' or count='exact'"):
        len(ds)
    assert bool(ds)
    assert len(here.dataset(filter="row < 1111", tail="drop")) > 1


def test_transformed_and_raw_batches_come_with_their_cursor(here: Served) -> None:
    expected = [batch.cursor for batch in here.dataset()]
    sums = list(here.dataset(transform=lambda batch: batch["row"].sum().item()))
    assert [cursor for _, cursor in sums] == expected
    assert [value for value, _ in sums] == [sum(step) for step in here.steps()]

    raw = list(IterableDataset(here.address, "d", convert=False, **QUERY))
    assert [cursor for _, cursor in raw] == expected
    assert all(isinstance(records, pa.RecordBatch) for records, _ in raw)
    assert [records["row"].to_pylist() for records, _ in raw] == here.steps()

    counted = IterableDataset(here.address, "d", convert=False, transform=len, **QUERY)
    assert [rows for rows, _ in counted] == [120] * 10


# spec: trainer-8
def test_errors_name_arguments_that_cannot_be_combined(here: Served) -> None:
    for name, value in (("shard", (0, 1)), ("every", {"step": 0, "of": 1}), ("cursor", {}), ("epoch", 1)):
        with pytest.raises(penstock.Invalid, match=f"^{name}: set by the dataset itself; ") as refused:
            here.dataset(**{name: value})
        assert [fault.field for fault in refused.value.faults] == [name]
    with pytest.raises(TypeError, match=r"no argument 'colums'; did you mean 'columns'\?"):
        here.dataset(colums=["row"])
    with pytest.raises(penstock.Invalid, match="nulls, device: with convert=False there are no tensors"):
        IterableDataset(here.address, "d", convert=False, device="cpu", nulls="mask")
    with pytest.raises(penstock.Invalid, match="prefetch"):
        here.dataset(prefetch=-1)
    for ranks in ({"rank": 1}, {"world": 2}, {"rank": 2, "world": 2}):
        with pytest.raises(penstock.Invalid, match="rank"):
            here.dataset(**ranks)


def test_server_errors_are_raised_by_the_first_batch(here: Served) -> None:
    iterator = iter(here.dataset(columns=["nope"], nulls=None))
    for _ in range(2):
        with pytest.raises(penstock.Invalid, match="nope"):
            next(iterator)
    iterator = iter(here.dataset(nulls=None))
    with pytest.raises(penstock.Invalid, match="'row', 'label': may be null"):
        next(iterator)
    failing = iter(here.dataset(transform=lambda batch: batch["no such column"]))
    with pytest.raises(KeyError, match="no such column"):
        next(failing)


# spec: trainer-9
def test_nothing_is_opened_before_the_first_batch() -> None:
    ds = IterableDataset("127.0.0.1:1", "d", reconnect=0.0)
    iterator = iter(ds)
    assert ds.state_dict()["cursor"] is None
    assert ds.stats().batches == 0
    with pytest.raises(penstock.Unavailable):
        next(iterator)


# spec: trainer-7
def test_all_epochs_read_the_snapshots_of_the_first_plan(tmp_path: Path) -> None:
    with served(tmp_path / "lake") as own:
        ds = own.dataset()
        pin = ds.plan().pin
        table = own.lake.catalog.load_table("ml.events")
        more = table.scan(limit=100).to_arrow()
        table.append(more.cast(table.scan().to_arrow().schema))
        own.lake.catalog.engine.dispose()
        assert sum(map(len, rows(ds))) == ROWS
        ds.set_epoch(1)
        assert sum(map(len, rows(ds))) == ROWS
        assert ds.plan().pin == pin == pickle.loads(pickle.dumps(ds)).plan().pin
        assert sum(map(len, rows(own.dataset()))) == ROWS + 100
        assert sum(map(len, rows(own.dataset(snapshots=pin)))) == ROWS


# spec: trainer-7
def test_workers_that_plan_concurrently_read_the_same_snapshots(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with served(tmp_path / "lake") as own:
        ds = own.dataset()
        earlier = own.dataset().plan().pin
        table = own.lake.catalog.load_table("ml.events")
        table.append(table.scan(limit=100).to_arrow().cast(table.scan().to_arrow().schema))
        own.lake.catalog.engine.dispose()
        read = penstock.Client._read_once
        planned: list[str] = []

        def overtaken(client: penstock.Client, *args: Any, **fields: Any) -> penstock.Stream:
            stream = read(client, *args, **fields)
            ds._shared.agree_on_pin(earlier)  # what another worker planned before that commit
            planned.append(stream.plan.id)
            return stream

        monkeypatch.setattr(penstock.Client, "_read_once", overtaken)
        assert sum(map(len, rows(ds))) == ROWS
        assert len(planned) == 2
        assert planned[0] != planned[1]


# spec: trainer-7, trainer-45
def test_epochs_after_a_dataset_got_an_entry_plan_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with served(tmp_path / "lake") as own:
        columns = {"request_id": LongType(), "bonus": DoubleType()}
        bonus = [{"request_id": request, "bonus": 0.5 * request} for request in range(120)]
        written = own.lake.write("features.bonus", columns, ("request_id", 4), bonus)
        query = {name: value for name, value in QUERY.items() if name != "columns"}
        ds: IterableDataset[Any] = IterableDataset(own.address, "d", **query, convert=False)
        assert sum(records.num_rows for records, _ in ds) == ROWS
        pin = ds.plan().pin
        staging = [{"table": "features.scores"}, {"table": "features.bonus"}]
        changed = {"training": {"table": "ml.events"}, "key": ["request_id"], "staging": staging}
        own.lake.config({"d": changed, "e": changed})
        with penstock.connect(own.address) as client:
            deadline = time.monotonic() + 60
            names: list[str] = []
            while "bonus" not in names:
                assert time.monotonic() < deadline
                time.sleep(0.05)
                with contextlib.suppress(penstock.Unavailable):  # the dataset changes during the call
                    names = client.schema("d").names
        read = penstock.Client._read_once
        pins: list[Any] = []

        def noting(client: penstock.Client, *args: Any, **fields: Any) -> penstock.Stream:
            stream = read(client, *args, **fields)
            pins.append(stream.plan.pin)
            return stream

        monkeypatch.setattr(penstock.Client, "_read_once", noting)
        for epoch in (1, 2, 3):
            ds.set_epoch(epoch)
            assert "bonus" in next(iter(ds))[0].schema.names
            if epoch == 1:  # later epochs read the snapshot that this one reads
                table = written.table
                table.append(pa.Table.from_pylist(bonus, table.scan().to_arrow().schema))
                own.lake.catalog.engine.dispose()
        assert len(pins) == 3
        assert pins[0] == pins[1] == pins[2]
        assert pins[0]["training"] == pin["training"]
        assert pins[0]["staging"].keys() == {"scores", "bonus"}


def test_stats_count_what_the_loop_received(here: Served) -> None:
    ds = here.dataset()
    for step, _ in enumerate(ds, 1):
        found = ds.stats()
        assert (found.batches, found.rows, found.resumed) == (step, step * 120, 0)
    assert 0 < ds.stats().waited <= ds.stats().seconds
    next(iter(ds))
    assert ds.stats().batches == 1


# spec: trainer-3
def test_the_rank_is_that_of_torch_distributed(here: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    ds = here.dataset()
    ds.set_epoch(0)
    with pytest.raises(penstock.Invalid, match=r"WORLD_SIZE is 2, but torch.distributed is not initialized"):
        iter(ds)
    with pytest.raises(penstock.Invalid, match="init_process_group"):
        pickle.dumps(ds)
    torch.distributed.init_process_group("fake", store=FakeStore(), rank=1, world_size=2)
    try:
        assert rows(ds) == here.steps(1, 2)
        kept = pickle.dumps(ds)
    finally:
        torch.distributed.destroy_process_group()
    assert rows(pickle.loads(kept)) == here.steps(1, 2)
    assert rows(here.dataset(rank=0, world=2)) == here.steps(0, 2)


def test_indexed_batches_are_returned_if_requested(here: Served) -> None:
    found = next(iter(here.dataset(wire="indexed", columns=["row", "score"], nulls={"row": "error"})))
    assert list(found) == ["row", "scores"]
    assert found.expand()["score"].dtype is torch.float64


def test_credentials_are_not_printed() -> None:
    """Tools that report exceptions print local variables."""
    ds = IterableDataset("127.0.0.1:1", "d", token="secret", headers={"key": "secret"}, tls_key=b"secret")
    assert "secret" not in repr(ds._spec(ds._state.next_start()))
