"""A batch on its way: through DataLoaders, their workers, pinning threads and to devices."""

from __future__ import annotations

import copy
import importlib
import pickle
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
import torch
from torch.utils.data import DataLoader, IterableDataset, default_collate, default_convert

import penstock
from penstock.torch import Batch, Converter, Deduplicated, Jagged

CURSOR = {"v": 1, "rows": 2**60}


def made(step: int = 3) -> Batch:
    """A batch with one entry of each form."""
    rows = pa.array([{"age": 31, "pins": [1, 2]}, {"age": None, "pins": None}, {"age": 7, "pins": [3]}])
    column = pa.DictionaryArray.from_arrays(pa.array([0, 0, 1, 2], pa.int32()), rows)
    batch = pa.RecordBatch.from_pydict(
        {"label": pa.array([step, None, 1, 0], pa.int32()), "tags": [[1], [], [2, 3], None], "user": column}
    )
    return Converter(batch.schema, nulls="mask")(batch, cursor=CURSOR, step=step)


def plain(found: Any) -> Any:
    """What is in a batch, as plain values."""
    if isinstance(found, (Batch, dict)):
        return {name: plain(value) for name, value in found.items()}
    if isinstance(found, Jagged):
        return [row.tolist() for row in found]
    if isinstance(found, Deduplicated):
        return plain(dict(found.columns)), found.inverse.tolist(), found.rows
    return found.tolist()


WANT: dict[str, Any] = {
    "label": [3, 0, 1, 0],
    "label_mask": [True, False, True, True],
    "tags": [[1], [], [2, 3], []],
    "tags_mask": [True, True, True, False],
    "user": (
        {
            "age": [31, 0, 7],
            "age_mask": [True, False, True],
            "pins": [[1, 2], [], [3]],
            "pins_mask": [True, False, True],
        },
        [0, 0, 1, 2],
        3,
    ),
}


def assert_is(batch: Any, step: int = 3) -> None:
    assert type(batch) is Batch
    assert (batch.rows, batch.step, batch.cursor) == (4, step, CURSOR)
    assert plain(batch) == {**WANT, "label": [step, *WANT["label"][1:]]}


def test_contents_of_a_kjt() -> None:
    batch = made()
    assert_is(batch)
    assert len(list(batch.tensors())) == 4 + 1 + 6
    assert repr(batch) == (
        "<penstock.torch.Batch of 4 rows, step 3: label: int32[4], label_mask: bool[4], "
        "tags: Jagged(4 rows, 3 values, int64), tags_mask: bool[4], "
        "user: Deduplicated(3 for 4 rows: age, age_mask, pins, pins_mask)>"
    )


# spec: tensor-14
@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, Batch.copy, default_convert])
def test_copies_are_batches(copied: Any) -> None:
    batch = made()
    other = copied(batch)
    assert_is(other)
    other["more"] = 1
    assert "more" not in batch
    assert_is(pickle.loads(pickle.dumps(batch)))


# spec: tensor-16
def test_a_batch_rebuilt_from_its_columns_has_their_rows() -> None:
    batch = made()
    again = type(batch)(dict(batch))
    assert type(again) is Batch
    assert plain(again) == WANT
    assert (again.rows, again.step, again.cursor) == (4, None, None)
    for name in batch:
        assert Batch({name: batch[name]}).rows == Batch([(name, batch[name])]).rows == 4
    assert Batch({"loss": torch.tensor(1.0), "x": torch.zeros(3, 2)}).rows == 3
    assert Batch().rows == Batch({"loss": torch.tensor(1.0)}).rows == Batch({"name": "a"}).rows == 0
    assert Batch({"x": torch.zeros(3)}, rows=2).rows == 2


# spec: tensor-16
def test_frameworks_rebuild_and_move_batches() -> None:
    from accelerate.utils import operations
    from lightning.fabric.utilities import move_data_to_device
    from lightning.pytorch.plugins.precision import HalfPrecision
    from transformers.trainer_utils import RemoveColumnsCollator

    batch = made()
    assert_is(operations.send_to_device(batch, "cpu"))
    assert_is(move_data_to_device(batch, torch.device("cpu")))
    for rebuilt in (
        operations.recursively_apply(lambda tensor: tensor, batch),
        operations.send_to_device(dict(batch), "cpu", skip_keys="label"),
        HalfPrecision("bf16-true").convert_input(batch),
    ):
        assert plain(rebuilt) == WANT
    flat = Batch({name: batch[name] for name in ("label", "label_mask")}, rows=4)
    both = operations.concatenate([flat, flat])
    assert type(both) is Batch
    assert both.rows == operations.find_batch_size(both) == 8
    part = operations.slice_tensors(both, slice(2, 5))
    assert (type(part), part.rows) == (Batch, 3)
    assert part["label"].tolist() == [1, 0, 3]
    told = operations.get_data_structure(both)
    assert operations.initialize_tensors(told).rows == told.rows == 8
    floats = Batch({"x": torch.zeros(2), "tags": Jagged(torch.ones(3), torch.tensor([0, 1, 3]))})
    halved = HalfPrecision("bf16-true").convert_input(floats)
    assert (type(halved), halved.rows) == (Batch, 2)
    assert halved["tags"].values.dtype is halved["x"].dtype is torch.bfloat16
    assert halved["tags"].offsets.tolist() == [0, 1, 3]
    assert floats["tags"].values.dtype is torch.float32, "the first is as it was"
    collate = RemoveColumnsCollator(lambda batches: batches[0], ["label"])
    assert list(collate([flat])) == ["label"]


def test_to_moves_every_tensor() -> None:
    batch = made()
    moved = batch.to("meta", non_blocking=True)
    assert type(moved) is Batch
    assert (moved.rows, moved.step, moved.cursor) == (4, 3, CURSOR)
    assert moved.keys() == batch.keys()
    assert {tensor.device.type for tensor in moved.tensors()} == {"meta"}
    assert_is(batch)
    assert_is(batch.to("cpu"))
    assert repr(moved).startswith("<penstock.torch.Batch of 4 rows, step 3: label: int32[4] on meta,")


def test_non_tensor_values_are_not_moved() -> None:
    batch = made()
    batch["name"] = "a"
    assert batch.to("meta")["name"] == "a"


@pytest.fixture
def pinned(monkeypatch: pytest.MonkeyPatch) -> list[torch.Tensor]:
    """The tensors that were pinned, on machines that cannot pin as well."""
    found: list[torch.Tensor] = []

    def pin(tensor: torch.Tensor, *_: Any) -> torch.Tensor:
        found.append(tensor)
        return tensor.clone()

    monkeypatch.setattr(torch.Tensor, "pin_memory", pin)
    return found


def test_pinning_pins_every_tensor(pinned: list[torch.Tensor]) -> None:
    batch = made()
    assert_is(batch.pin_memory())
    assert {id(tensor) for tensor in pinned} == {id(tensor) for tensor in batch.tensors()}


# spec: tensor-14
def test_the_pinning_thread_keeps_batches(pinned: list[torch.Tensor]) -> None:
    pin_memory: Any = importlib.import_module("torch.utils.data._utils.pin_memory").pin_memory
    assert_is(pin_memory(made()))
    value, cursor = pin_memory((made(), CURSOR))
    assert_is(value)
    assert cursor == CURSOR
    assert len(pinned) == 2 * 11


def test_streams_are_recorded_on_tensors_of_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    recorded: list[tuple[int, Any]] = []
    monkeypatch.setattr(
        torch.Tensor, "record_stream", lambda self, stream: recorded.append((id(self), stream))
    )
    batch = made()
    stream: Any = object()
    batch.record_stream(stream)
    assert recorded == []  # none of them is on a GPU
    monkeypatch.setattr(torch.Tensor, "is_cuda", True)
    batch.record_stream(stream)
    assert recorded == [(id(tensor), stream) for tensor in batch.tensors()]
    recorded.clear()
    batch["tags"].record_stream(stream)
    batch["user"].record_stream(stream)
    assert len(recorded) == 2 + 6


class Made(IterableDataset[Batch]):
    """Batches that each worker makes for itself."""

    def __iter__(self) -> Iterator[Batch]:
        return (made(step) for step in range(4))


# spec: tensor-14
@pytest.mark.parametrize("workers", [0, 1])
@pytest.mark.parametrize("context", ["fork", "spawn"])
def test_batches_come_out_of_workers_as_they_went_in(workers: int, context: str) -> None:
    if workers == 0 and context == "spawn":
        return
    loader = DataLoader(
        Made(),
        batch_size=None,
        num_workers=workers,
        multiprocessing_context=context if workers else None,
    )
    for step, batch in enumerate(loader):
        assert_is(batch, step)
    assert step == 3


def test_several_batches_are_not_collated_into_something_else() -> None:
    with pytest.raises(penstock.Invalid, match=r"stack 2 batches.*batch_size=None"):
        default_collate([made(), made()])


def test_spread_needs_one_value_per_distinct_row() -> None:
    user = made()["user"]
    assert user.spread(torch.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])).tolist() == [
        [1.0, 2.0],
        [1.0, 2.0],
        [3.0, 4.0],
        [5.0, 6.0],
    ]
    with pytest.raises(ValueError, match="4 values for 3 distinct rows"):
        user.spread(torch.zeros(4))


def test_expanded_batch_equals_the_plain_batch() -> None:
    found = made().expand()
    assert (found.rows, found.step, found.cursor) == (4, 3, CURSOR)
    assert plain(found) == {
        **{name: value for name, value in WANT.items() if name != "user"},
        "age": [31, 31, 0, 7],
        "age_mask": [True, True, False, True],
        "pins": [[1, 2], [1, 2], [], [3]],
        "pins_mask": [True, True, False, True],
    }
    assert [*found] == ["label", "label_mask", "tags", "tags_mask", "age", "age_mask", "pins", "pins_mask"]


LISTS = [[1, 2], [], [3], [4, 5, 6], []]


@pytest.mark.parametrize("of", [pa.list_, pa.large_list])
@pytest.mark.parametrize("rows", [[], [0], [4, 1], [3, 3, 0, 2, 3], [0, 1, 2, 3, 4]])
@pytest.mark.parametrize("index", [torch.int32, torch.int64])
def test_lists_are_taken_by_row(of: Any, rows: list[int], index: torch.dtype) -> None:
    batch = pa.RecordBatch.from_arrays([pa.array(LISTS, of(pa.int64()))], ["c"])
    found = Converter(batch.schema, nulls="error")(batch)["c"]
    taken = found.take(torch.tensor(rows, dtype=index))
    assert [row.tolist() for row in taken] == [LISTS[row] for row in rows]
    assert taken.offsets.dtype == found.offsets.dtype
    assert taken.offsets[0] == 0


def test_lists_that_would_be_too_long_for_their_offsets() -> None:
    found = Jagged(
        torch.zeros(1, dtype=torch.int8).expand(2**30), torch.tensor([0, 2**30], dtype=torch.int32)
    )
    with pytest.raises(ValueError, match="2147483648 values in all; take fewer rows"):
        found.take(torch.tensor([0, 0]))


def test_lists_as_nested_and_as_padded_tensors() -> None:
    batch = pa.RecordBatch.from_pydict({"c": LISTS})
    found = Converter(batch.schema, nulls="error")(batch)["c"]
    nested = found.nested()
    assert nested.layout == torch.jagged
    assert [row.tolist() for row in nested.unbind()] == LISTS
    assert nested.values().data_ptr() == found.values.data_ptr()
    assert found.padded(2, fill=-1).tolist() == [[1, 2], [-1, -1], [3, -1], [4, 5], [-1, -1]]
    assert found.padded(4).tolist() == [[1, 2, 0, 0], [0] * 4, [3, 0, 0, 0], [4, 5, 6, 0], [0] * 4]
    assert found.padded(0).shape == (5, 0)
    assert found.padded(2).dtype == torch.int64
    assert found[-2].tolist() == [4, 5, 6]
    with pytest.raises(IndexError, match="row 5 of 5"):
        found[5]
