"""Makes batches from blocks: memory in which a server has placed all tensors of a batch."""

from __future__ import annotations

import math
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
# The layouts of so many different numbers of rows are kept: most batches of a stream have the same.
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

    def view(self, rows: int, offset: int) -> tuple[tuple[int, ...], tuple[int, ...], int]:
        """The arguments of a view: sizes, strides and first element."""
        start = offset // self.dtype.itemsize
        if self.matrix:
            return (rows, self.width), (self.width, 1), start
        return (rows,), (1,), start


@dataclass
class _Pieces:
    """Consecutive pieces of a block, as elements of one type. One call makes tensors of all of them.

    Attributes:
        dtype: the type.
        sizes: the elements of each piece: tensors of one dimension, and the gaps between them.
        end: the elements of all pieces.
        matrices: the arguments of the views of two dimensions, which are in gaps.
    """

    dtype: torch.dtype
    sizes: list[int] = field(default_factory=list)
    end: int = 0
    matrices: list[tuple[tuple[int, ...], tuple[int, ...], int]] = field(default_factory=list)


@dataclass
class _Layout:
    """The tensors of a block whose size follows from the number of rows.

    Attributes:
        pieces: for each type, its pieces. What they make is numbered: first the pieces, then the rest of the block, then
            the matrices; then those of the next type.
        places: for each tensor its number among these.
        end: where the last one ends.
    """

    pieces: list[_Pieces]
    places: list[int]
    end: int

    @classmethod
    def of(cls, tensors: list[_Tensor], rows: int, start: int) -> _Layout:
        """Lays tensors out for a number of rows, from an offset."""
        pieces: dict[torch.dtype, _Pieces] = {}
        found: list[
            tuple[torch.dtype, bool, int]
        ] = []  # of each tensor: whether it is a matrix, and which one
        end = start
        for tensor in tensors:
            length = rows + tensor.ends
            one = pieces.setdefault(tensor.dtype, _Pieces(tensor.dtype))
            sizes, _, first = view = tensor.view(length, end)
            if tensor.matrix:
                found.append((tensor.dtype, True, len(one.matrices)))
                one.matrices.append(view)
            else:
                if first > one.end:
                    one.sizes.append(first - one.end)
                found.append((tensor.dtype, False, len(one.sizes)))
                one.sizes.append(length)
                one.end = first + length
            end = _aligned(end + math.prod(sizes) * tensor.dtype.itemsize)
        firsts, count = {}, 0
        for dtype, one in pieces.items():
            firsts[dtype, False], firsts[dtype, True] = count, count + len(one.sizes) + 1
            count += len(one.sizes) + 1 + len(one.matrices)
        return cls(list(pieces.values()), [firsts[dtype, matrix] + at for dtype, matrix, at in found], end)


@dataclass
class _Level:
    """The entries of a batch, or the columns of an indexed entry: a tensor, a pair of them, or another level, by name."""

    columns: dict[str, _Tensor | tuple[_Tensor, _Tensor] | _Level] = field(default_factory=dict)
    inverse: _Tensor | None = None


class Blocks:
    """Makes batches from the blocks of one plan.

    A batch's tensors are views of the block's memory, on whatever device it is. Names, types and values are those
    of the plan's converter.

    Attributes:
        plan: the plan by which the blocks were filled.
    """

    def __init__(self, plan: TensorPlan) -> None:
        self.plan = plan
        self._top = _Level()
        found = _arranged(plan, self._top)
        tensors = [tensor for tensor in found if not tensor.varies]
        self._fixed, self._varying = tensors, [tensor for tensor in found if tensor.varies]
        for at, tensor in enumerate([*self._fixed, *self._varying]):
            tensor.at = at
        self._header = struct.Struct(_FIXED + _PLACE * len(self._varying))
        self._layouts: dict[int, _Layout] = {}
        self._recipe = _Recipe(self._top)

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
            header: a buffer that begins with the bytes of the block; None if `memory` does and is on the CPU.
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
        layout = self._layouts.get(rows) or self._layout(rows)
        if layout.end > size:
            raise errors.Corrupt("a tensor ends outside of its block")
        made: list[torch.Tensor] = []
        for one in layout.pieces:
            base = memory.view(one.dtype)
            rest = size // one.dtype.itemsize - one.end
            # Unlike views by `split`, these may be changed in place by operations with gradients.
            made += torch.unsafe_split_with_sizes(base, [*one.sizes, rest])
            for sizes, strides, start in one.matrices:
                made.append(base.as_strided(sizes, strides, base.storage_offset() + start))
        tensors = [made[place] for place in layout.places]
        pairs = iter(places)
        for tensor, offset, length in zip(self._varying, pairs, pairs, strict=True):
            if offset + length * tensor.width * tensor.dtype.itemsize > size:
                raise errors.Corrupt("a tensor ends outside of its block")
            sizes, strides, start = tensor.view(length, offset)
            base = memory.view(tensor.dtype)
            tensors.append(base.as_strided(sizes, strides, base.storage_offset() + start))
        return Batch(self._recipe.columns(tensors), rows=rows, cursor=cursor, step=step)

    def _layout(self, rows: int) -> _Layout:
        if len(self._layouts) == _KEPT:
            self._layouts.clear()
        layout = self._layouts[rows] = _Layout.of(self._fixed, rows, _aligned(self._header.size))
        return layout


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


class _Recipe:
    """Makes the columns of a level from the tensors of a block."""

    def __init__(self, level: _Level) -> None:
        self._names = list(level.columns)
        self._at: list[int] = []  # the first tensor of each column
        self._lists: list[tuple[str, int, int]] = []  # name, values, offsets
        # Name, indices, columns, and a tensor with the rows of the columns, and so many more.
        self._levels: list[tuple[str, int, _Recipe, int, int]] = []
        for name, column in level.columns.items():
            if isinstance(column, _Tensor):
                self._at.append(column.at)
            elif isinstance(column, _Level):
                assert column.inverse is not None
                self._at.append(column.inverse.at)
                first = next(iter(column.columns.values()))
                counts = first[1] if isinstance(first, tuple) else first
                assert isinstance(counts, _Tensor)
                self._levels.append((name, column.inverse.at, _Recipe(column), counts.at, counts.ends))
            else:
                self._at.append(column[0].at)
                self._lists.append((name, column[0].at, column[1].at))

    def columns(self, tensors: list[torch.Tensor]) -> dict[str, Any]:
        """The columns, in the order of the plan."""
        found: dict[str, Any] = dict(zip(self._names, [tensors[at] for at in self._at], strict=True))
        for name, values, offsets in self._lists:
            found[name] = Jagged(tensors[values], tensors[offsets])
        for name, inverse, inner, counts, more in self._levels:
            rows = len(tensors[counts]) - more
            found[name] = Deduplicated(inner.columns(tensors), tensors[inverse], rows)
        return found
