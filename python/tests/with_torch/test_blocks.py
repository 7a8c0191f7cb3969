"""Blocks that Go fills contain the same tensors as the converter's batches, byte by byte."""

from __future__ import annotations

import json
import os
import random
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import torch
from block_worlds import Tagged, World, world

from penstock import errors
from penstock.indexed import is_indexed, plain_schema
from penstock.torch import Batch, Converter, Deduplicated, Jagged
from penstock.torch.blocks import Blocks

ROOT = Path(__file__).resolve().parents[3]
SEEDS = 500 if "PENSTOCK_LONG" in os.environ else 60


class Filler:
    """A process that fills blocks."""

    def __init__(self, folder: Path) -> None:
        program = folder / "tensorblocks"
        subprocess.run(["go", "build", "-o", program, "./tools/tensorblocks"], cwd=ROOT, check=True)
        self._process = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self._folder, self._number = folder, 0

    def fill(self, converter: Converter, drawn: World) -> bytearray | dict[str, str]:
        """The block of a world, or the error."""
        folder = self._folder / str(self._number)
        folder.mkdir()
        self._number += 1
        plan = converter.tensor_plan()
        _write(folder / "batch.arrow", drawn.batch)
        (folder / "plan.json").write_text(plan.text())
        (folder / "slice.json").write_text(json.dumps({"from": drawn.first, "to": drawn.last}))
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(folder, file=self._process.stdin, flush=True)
        name = self._process.stdout.readline().strip()
        content = (folder / name).read_bytes()
        return bytearray(content) if name == "block" else json.loads(content)

    def close(self) -> None:
        """Ends the process."""
        self._process.communicate()


def _write(path: Path, batch: pa.RecordBatch) -> None:
    with pa.ipc.new_stream(path, batch.schema) as writer:
        writer.write_batch(batch)


@pytest.fixture(scope="module")
def filler(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Filler]:
    pa.register_extension_type(Tagged(pa.int32()))
    made = Filler(tmp_path_factory.mktemp("blocks"))
    yield made
    made.close()
    pa.unregister_extension_type("tests.tagged")


def content(tensor: torch.Tensor) -> bytes:
    return tensor.contiguous().view(-1).view(torch.uint8).numpy().tobytes() if tensor.numel() else b""


def check_same(got: Any, expected: Any, name: str, cast: set[str]) -> None:
    """Checks that two entries of batches have equal types, shapes and bytes, except for NaNs after casts."""
    assert type(got) is type(expected), name
    if isinstance(got, Jagged):
        check_same(got.values, expected.values, f"{name}.values", cast)
        check_same(got.offsets, expected.offsets, f"{name}.offsets", cast)
    elif isinstance(got, Deduplicated):
        assert got.rows == expected.rows
        check_same(got.inverse, expected.inverse, f"{name}.inverse", cast)
        check_same(dict(got.columns), dict(expected.columns), name, cast)
    elif isinstance(got, dict):
        assert list(got) == list(expected)
        for key in got:
            check_same(got[key], expected[key], f"{name}.{key}", cast)
    else:
        assert got.dtype == expected.dtype, name
        assert got.shape == expected.shape, name
        assert got.is_contiguous()
        if cast & set(name.split(".")) and got.is_floating_point():  # the payloads of NaNs are not promised
            assert torch.equal(got.isnan(), expected.isnan()), name
            got, expected = got.nan_to_num(0), expected.nan_to_num(0)
        assert content(got) == content(expected), name


def _cast(rules: dict[str, Any]) -> set[str]:
    """The names of cast columns, and of packs that contain some."""
    cast = set(rules.get("cast", {}))
    return cast | {name for name, columns in rules.get("pack", {}).items() if cast & set(columns)}


def check_rest_is_zero(block: bytearray, batch: Batch, memory: torch.Tensor, places: int) -> None:
    """Checks that all bytes outside of the tensors, and of the header, are zero, and that tensors are aligned."""
    left = np.frombuffer(block, np.uint8).copy()
    left[: 24 + 16 * places] = 0
    for tensor in batch.tensors():
        if tensor.numel():
            start = tensor.data_ptr() - memory.data_ptr()
            assert start % 256 == 0
            left[start : start + tensor.nbytes] = 0
    assert len(block) % 256 == 0
    assert not left.any()


def failures(converter: Converter, batch: pa.RecordBatch) -> list[errors.Error]:
    """The error of each column that cannot be converted."""
    found = []
    for entry, array in zip(converter._entries, batch.columns, strict=True):
        parts: Any = [(entry, array)]
        if hasattr(entry, "parts"):
            parts += zip(entry.parts, array.dictionary.flatten(), strict=True)
        for part, values in parts:
            try:
                part.add(values, {})
            except errors.Error as e:
                found.append(e)
    return found


def check(filler: Filler, drawn: World, converter: Converter, records: pa.RecordBatch) -> None:
    """Compares the block of a world with the tensors of records, or both errors."""
    block = filler.fill(converter, drawn)
    try:
        expected = converter(records)
    except errors.Error:
        possible = [(type(e).__name__.lower(), e.message, e.remedy) for e in failures(converter, records)]
        assert isinstance(block, dict), possible
        assert (block["kind"], block["message"], block["remedy"]) in possible
        return
    assert not isinstance(block, dict), block
    blocks = Blocks(converter.tensor_plan())
    memory = torch.frombuffer(block, dtype=torch.uint8)
    got = blocks.batch(memory)
    assert got.rows == expected.rows
    check_same(dict(got), dict(expected), "batch", _cast(drawn.rules))
    check_rest_is_zero(block, got, memory, int.from_bytes(block[4:8], "little"))


def taken(values: pa.Array, rows: list[int]) -> pa.Array:
    """Rows of an array. pyarrow's `take` lacks some types, and it cannot concatenate dictionaries with NaN and null."""
    kind = values.type
    if pa.types.is_dictionary(kind):
        return pa.DictionaryArray.from_arrays(taken(values.indices, rows), values.dictionary)
    if not hasattr(kind, "value_type"):
        return pa.concat_arrays([values.slice(0, 0), *(values.slice(row, 1) for row in rows)])
    lists = [values.slice(row, 1) for row in rows]
    elements = taken(values.values, [at for one in lists for at in positions(one)])
    missing = np.array([one.null_count == 0 for one in lists], bool)
    buffers = [pa.py_buffer(np.packbits(missing, bitorder="little").tobytes())]
    if not pa.types.is_fixed_size_list(kind):
        ends = np.cumsum([0, *(len(positions(one)) for one in lists)])
        buffers.append(
            pa.py_buffer(ends.astype(np.int64 if pa.types.is_large_list(kind) else np.int32).tobytes())
        )
    return pa.Array.from_buffers(kind, len(rows), buffers, children=[elements])


def positions(one: pa.Array) -> range:
    """The positions of the elements of an array of one list."""
    if pa.types.is_fixed_size_list(one.type):
        return range(one.offset * one.type.list_size, (one.offset + 1) * one.type.list_size)
    first, end = one.offsets.to_pylist()
    return range(first, end)


def expanded(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The plain batch of an indexed one, made by pyarrow alone."""
    fields, columns = [], []
    for field, column in zip(batch.schema, batch.columns, strict=True):
        if not is_indexed(field):
            fields.append(field)
            columns.append(column)
            continue
        for inner, values in zip(field.type.value_type, column.dictionary.flatten(), strict=True):
            fields.append(inner)
            columns.append(taken(values, column.indices.to_pylist()))
    return pa.RecordBatch.from_arrays(columns, schema=pa.schema(fields))


# spec: blocks-1, blocks-3, blocks-5, blocks-6
@pytest.mark.parametrize("seed", range(SEEDS))
def test_blocks_have_the_bytes_of_the_converters_tensors(filler: Filler, seed: int) -> None:
    drawn = world(seed)
    check(filler, drawn, Converter(drawn.batch.schema, **drawn.rules), drawn.slice())


# spec: blocks-8
@pytest.mark.parametrize("seed", range(SEEDS))
def test_indexed_batches_have_the_blocks_of_plain_batches(filler: Filler, seed: int) -> None:
    drawn = world(seed, indexed_share=0.8, outside=False)
    fields = list(plain_schema(drawn.batch.schema))
    if any(map(is_indexed, drawn.batch.schema)):
        random.Random(seed).shuffle(fields)
    converter = Converter(pa.schema(fields), **drawn.rules)
    check(filler, drawn, converter, expanded(drawn.slice()).select([field.name for field in fields]))


BATCH = pa.record_batch(
    {"a": pa.array([1, 2, 3]), "l": pa.array([[1.5], [], [2, 3]], pa.list_(pa.float32()))}
)
RULES: dict[str, Any] = {"nulls": {"a": "error", "l": "empty"}}


def test_blocks_are_views_of_any_memory(filler: Filler) -> None:
    converter = Converter(BATCH.schema, **RULES)
    block = filler.fill(converter, World(BATCH, RULES, 0, 3))
    assert isinstance(block, bytearray)
    ring = torch.zeros(4096, dtype=torch.uint8)
    memory = ring[512 : 512 + len(block)]
    memory.copy_(torch.frombuffer(block, dtype=torch.uint8))
    blocks = Blocks(converter.tensor_plan())
    for _ in range(2):
        batch = blocks.batch(memory, bytes(block), cursor={"v": 1}, step=4)
        assert (batch.rows, batch.cursor, batch.step) == (3, {"v": 1}, 4)
        assert batch["a"].tolist() == [1, 2, 3]
        assert [row.tolist() for row in batch["l"]] == [[1.5], [], [2, 3]]
        assert {tensor.untyped_storage().data_ptr() for tensor in batch.tensors()} == {ring.data_ptr()}


def test_a_tensor_of_a_block_can_take_part_in_gradients(filler: Filler) -> None:
    converter = Converter(BATCH.schema, **RULES, cast={"a": "float32"})
    block = filler.fill(converter, World(BATCH, RULES, 0, 3))
    assert isinstance(block, bytearray)
    weight = torch.tensor(2.0, requires_grad=True)
    tensor = Blocks(converter.tensor_plan()).batch(torch.frombuffer(block, dtype=torch.uint8))["a"]
    tensor.mul_(weight)
    tensor.sum().backward()
    assert (tensor.tolist(), weight.grad) == ([2, 4, 6], torch.tensor(6.0))


# spec: blocks-2
@pytest.mark.parametrize(
    ("offset", "value"),
    [(0, b"PTB2"), (4, b"\2"), (8, b"\xff" * 3), (16, b"\1"), (24, b"\xff" * 4), (32, b"\xff")],
    ids=["magic", "places", "rows", "bytes", "offset", "length"],
)
def test_damaged_headers_are_corrupt(filler: Filler, offset: int, value: bytes) -> None:
    converter = Converter(BATCH.schema, **RULES)
    block = filler.fill(converter, World(BATCH, RULES, 0, 3))
    assert isinstance(block, bytearray)
    block[offset : offset + len(value)] = value
    with pytest.raises(errors.Corrupt):
        Blocks(converter.tensor_plan()).batch(torch.frombuffer(block, dtype=torch.uint8))
    with pytest.raises(errors.Corrupt):
        Blocks(converter.tensor_plan()).batch(torch.zeros(8, dtype=torch.uint8))
