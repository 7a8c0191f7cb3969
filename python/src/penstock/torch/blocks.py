"""Makes batches from blocks: memory in which a server has placed all tensors of a batch."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from typing import Any

import torch

from penstock import errors
from penstock.fields import Cursor
from penstock.torch.batch import Batch
from penstock.torch.columns import MASK
from penstock.torch.deduplicated import Deduplicated
from penstock.torch.jagged import Jagged
from penstock.torch.tensorplan import TensorPlan

_ALIGNMENT = 256
_MAGIC = b"PTB1"
# Magic, number of places, rows, bytes; then offset and rows of each tensor whose size varies.
_FIXED, _PLACE = "<4sIQQ", "QQ"
# The views of so many different numbers of rows are kept: most batches of a stream have the same.
_KEPT = 16


@dataclass
class _Tensor:
    """A tensor of a block.

    Attributes:
        dtype: the type of its elements.
        width: the number of elements per row.
        matrix: whether it has two dimensions.
        varies: whether its size depends on more than the number of rows of the batch.
        ends: whether it has one row more than what it counts.
        at: its position among the tensors of a block.
    """

    dtype: torch.dtype
    width: int = 1
    matrix: bool = False
    varies: bool = False
    ends: bool = False
    at: int = -1

    def view(self, rows: int, offset: int) -> tuple[int, tuple[int, ...], tuple[int, ...], int]:
        """The arguments of a view: the index of the type, sizes, strides and first element."""
        start = offset // self.dtype.itemsize
        if self.matrix:
            return _DTYPES.index(self.dtype), (rows, self.width), (self.width, 1), start
        return _DTYPES.index(self.dtype), (rows,), (1,), start


_DTYPES = [
    torch.bool,
    torch.int8,
    torch.int16,
    torch.int32,
    torch.int64,
    torch.uint8,
    torch.uint16,
    torch.uint32,
    torch.uint64,
    torch.float16,
    torch.bfloat16,
    torch.float32,
    torch.float64,
]


@dataclass
class _Level:
    """The entries of a batch, or the columns of an indexed entry: a tensor, a pair of them, or another level, by name."""

    columns: dict[str, _Tensor | tuple[_Tensor, _Tensor] | _Level] = field(default_factory=dict)
    inverse: _Tensor | None = None


class Blocks:
    """Makes batches from the blocks of one plan.

    A batch's tensors are views of the block's memory, on whatever device it is. Names, types and values are those
    of the plan's converter.

    Args:
        plan: the plan by which the blocks were filled.
    """

    def __init__(self, plan: TensorPlan) -> None:
        self._top = _Level()
        found = _arranged(plan, self._top)
        tensors = [tensor for tensor in found if not tensor.varies]
        self._fixed, self._varying = tensors, [tensor for tensor in found if tensor.varies]
        for at, tensor in enumerate([*self._fixed, *self._varying]):
            tensor.at = at
        self._header = struct.Struct(_FIXED + _PLACE * len(self._varying))
        self._dtypes = sorted({_DTYPES.index(tensor.dtype) for tensor in found})
        self._views: dict[int, tuple[list[Any], int]] = {}
        self._recipe = _recipe(self._top)

    def batch(
        self,
        memory: torch.Tensor,
        header: Any = None,
        *,
        cursor: Cursor | list[Cursor] | bytes | None = None,
        step: int | None = None,
    ) -> Batch:
        """Makes a batch.

        Args:
            memory: the block, of type uint8; it may be on a GPU.
            header: the first bytes of the block, if `memory` is not on the CPU.
            cursor: the stream's position after the batch, possibly as text.
            step: the number of its step.

        Raises:
            Corrupt: the memory is not a block of the plan.
        """
        size = memory.nbytes
        if size < self._header.size:
            raise errors.Corrupt("the memory is shorter than the header of a block")
        content: Any = memory.numpy() if header is None else header
        magic, count, rows, written, *places = self._header.unpack_from(content)
        if magic != _MAGIC or count != len(self._varying) or written != size:
            raise errors.Corrupt("the memory is not a block of this plan")
        views, end = self._views.get(rows) or self._fixed_views(rows)
        if end > size:
            raise errors.Corrupt("a tensor ends outside of its block")
        bases: list[Any] = [None] * len(_DTYPES)
        for at in self._dtypes:
            base = memory.view(_DTYPES[at])
            bases[at] = base, base.storage_offset()
        tensors = []
        for at, sizes, strides, start in views:
            base, first = bases[at]
            tensors.append(base.as_strided(sizes, strides, first + start))
        pairs = iter(places)
        for tensor, offset, length in zip(self._varying, pairs, pairs, strict=True):
            if offset + length * tensor.width * tensor.dtype.itemsize > size:
                raise errors.Corrupt("a tensor ends outside of its block")
            at, sizes, strides, start = tensor.view(length, offset)
            base, first = bases[at]
            tensors.append(base.as_strided(sizes, strides, first + start))
        return Batch(_made(self._recipe, tensors), rows=rows, cursor=cursor, step=step)

    def _fixed_views(self, rows: int) -> tuple[list[Any], int]:
        """The views of the tensors whose size follows from the number of rows, and the end of the last one."""
        views, end = [], _aligned(self._header.size)
        for tensor in self._fixed:
            length = rows + tensor.ends
            views.append(tensor.view(length, end))
            end = _aligned(end + length * tensor.width * tensor.dtype.itemsize)
        if len(self._views) == _KEPT:
            self._views.clear()
        self._views[rows] = views, end
        return views, end


def _aligned(size: int) -> int:
    return -(-size // _ALIGNMENT) * _ALIGNMENT


def _arranged(plan: TensorPlan, top: _Level) -> list[_Tensor]:
    """The tensors of a plan, in the order of the columns. Adds them to the level of the batch."""
    found: list[_Tensor] = []
    packed = {(pack["entry"], name) for pack in plan.packs for name in pack["columns"]}
    levels = {"": top}
    columns = {(column["entry"], column["name"]): column for column in plan.columns}
    for (entry, name), column in columns.items():
        if entry not in levels:
            inverse = _Tensor(torch.int32)
            top.columns[entry] = levels[entry] = _Level(inverse=inverse)
            found.append(inverse)
        level, distinct = levels[entry], entry != ""
        dtype, lists = getattr(torch, column["dtype"]), column["form"] in ("lists", "large_lists")
        if lists:
            ends = torch.int64 if column["form"] == "large_lists" else torch.int32
            pair = _Tensor(dtype, varies=True), _Tensor(ends, varies=distinct, ends=True)
            level.columns[name] = pair
            found += [pair[1], pair[0]]
        elif (entry, name) not in packed:
            matrix = column["form"] == "fixed_lists"
            tensor = _Tensor(dtype, column["width"] if matrix else 1, matrix, distinct)
            level.columns[name] = tensor
            found.append(tensor)
        if column["mask"]:
            mask = _Tensor(torch.bool, varies=distinct)
            level.columns[name + MASK] = mask
            found.append(mask)
    for pack in plan.packs:
        of = [columns[pack["entry"], name] for name in pack["columns"]]
        width = sum(column["width"] if column["form"] == "fixed_lists" else 1 for column in of)
        tensor = _Tensor(getattr(torch, of[0]["dtype"]), width, True, pack["entry"] != "")
        levels[pack["entry"]].columns[pack["name"]] = tensor
        found.append(tensor)
    return found


def _recipe(level: _Level) -> list[Any]:
    """For each column its name and the positions of its tensors."""
    out: list[Any] = []
    for name, column in level.columns.items():
        if isinstance(column, _Tensor):
            out.append((name, column.at, None, None))
        elif isinstance(column, _Level):
            assert column.inverse is not None
            first = next(iter(column.columns.values()))
            counts = first[1] if isinstance(first, tuple) else first
            assert isinstance(counts, _Tensor)
            out.append((name, column.inverse.at, _recipe(column), (counts.at, counts.ends)))
        else:
            out.append((name, column[0].at, None, column[1].at))
    return out


def _made(recipe: list[Any], tensors: list[torch.Tensor]) -> dict[str, Any]:
    """The columns of a level."""
    found: dict[str, Any] = {}
    for name, at, inner, other in recipe:
        if inner is not None:
            rows = len(tensors[other[0]]) - other[1]
            found[name] = Deduplicated(_made(inner, tensors), tensors[at], rows)
        elif other is not None:
            found[name] = Jagged(tensors[at], tensors[other])
        else:
            found[name] = tensors[at]
    return found
