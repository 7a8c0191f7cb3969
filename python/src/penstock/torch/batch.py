"""The input of a training step: tensors by column name, and the stream's position."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self

import torch
from torch.utils.data._utils.collate import default_collate_fn_map

from penstock import errors
from penstock.fields import Cursor
from penstock.torch import keyed
from penstock.torch.deduplicated import Deduplicated
from penstock.torch.jagged import Jagged

if TYPE_CHECKING:
    from torchrec import KeyedJaggedTensor


class Batch(dict[str, Any]):
    """A dict of tensors, one entry per column.

    A value is a `torch.Tensor` with one row per row of the batch, a `Jagged` of lists, or, in an indexed
    batch, a `Deduplicated` with the columns of a staging table.

    Tensors are views of the received memory, which they keep alive. Writing to one only changes this batch.

    Batches keep their type and attributes through a DataLoader, its workers and its pinning thread, and
    through `copy.copy` and pickle. Frameworks that rebuild a mapping as `type(batch)(dict(batch))` also get a batch:
    its rows are those of its tensors, and its position is unknown.

    Attributes:
        rows: the number of rows.
        step: the number of this batch's step; None if unknown.
    """

    def __init__(
        self,
        columns: Mapping[str, Any] | Iterable[tuple[str, Any]] = (),
        *,
        rows: int | None = None,
        cursor: Cursor | list[Cursor] | bytes | None = None,
        step: int | None = None,
    ) -> None:
        super().__init__(columns)
        self.rows = _rows(self) if rows is None else rows
        self._cursor: Any = cursor
        # A dataset always sets it, so users need no checks for None.
        self.step: int | Any = step

    @property
    def cursor(self) -> Cursor | list[Cursor] | Any:
        """The stream's position after this batch; None if unknown."""
        if isinstance(self._cursor, bytes):  # decoded on demand, since few loops use it
            self._cursor = json.loads(self._cursor)
        return self._cursor

    @cursor.setter
    def cursor(self, cursor: Any) -> None:
        self._cursor = cursor

    def to(self, device: torch.device | str | int, non_blocking: bool = False) -> Self:
        """The same batch on a device."""
        return self.replaced(lambda found: found.to(device, non_blocking=non_blocking))

    def pin_memory(self) -> Self:
        """The same batch in pinned memory, as DataLoader's `pin_memory` requests.

        Raises:
            RuntimeError: torch finds no GPU.
        """
        return self.replaced(lambda found: found.pin_memory())

    def record_stream(self, stream: torch.Stream) -> None:
        """Records that a stream uses all GPU tensors, so that their memory is not reused too early."""
        for tensor in self.tensors():
            if tensor.is_cuda:
                tensor.record_stream(stream)

    def expand(self) -> Self:
        """The plain form of an indexed batch: each `Deduplicated` is replaced by its columns, for every row."""
        columns: dict[str, Any] = {}
        for name, found in self.items():
            columns.update(found.expand() if isinstance(found, Deduplicated) else {name: found})
        return self._with(columns)

    def to_kjt(self, keys: Sequence[str], dtype: torch.dtype = torch.int64) -> KeyedJaggedTensor:
        """Columns as one `torchrec.KeyedJaggedTensor`, copied once, with values of one type.

        A key is the name of a column of numbers, lists or fixed-size lists, or of a column in a `Deduplicated`. If
        one of them is in a `Deduplicated`, the tensor only contains the distinct rows, with
        `stride_per_key_per_rank` and inverse indices; TorchRec's modules then embed each distinct row once and
        return one row per row of the batch.

        Raises:
            ImportError: torchrec is not installed.
            KeyError: the batch has no such column.
            TypeError: the type cannot hold a column's values.
        """
        return keyed.jagged(self, keys, dtype)

    def tensors(self) -> Iterator[torch.Tensor]:
        """All tensors, including those inside other values."""
        for found in self.values():
            if isinstance(found, (Jagged, Deduplicated)):
                yield from found.tensors()
            elif isinstance(found, torch.Tensor):
                yield found

    def copy(self) -> Self:
        """A shallow copy, including attributes."""
        return copy.copy(self)

    def replaced(self, move: Callable[[Any], Any]) -> Self:
        """A batch of the same form, with each tensor, `Jagged` and `Deduplicated` replaced by the result of `move`."""
        return self._with(
            {
                name: move(found) if isinstance(found, (torch.Tensor, Jagged, Deduplicated)) else found
                for name, found in self.items()
            }
        )

    def _with(self, columns: dict[str, Any]) -> Self:
        out = copy.copy(self)
        out.clear()
        out.update(columns)
        return out

    def __repr__(self) -> str:
        step = "" if self.step is None else f", step {self.step}"
        columns = ", ".join(f"{name}: {_described(found)}" for name, found in self.items())
        return f"<penstock.torch.Batch of {self.rows} rows{step}: {columns}>"


def _rows(columns: Mapping[str, Any]) -> int:
    """The number of rows of a batch's columns; 0 if there are none."""
    for found in columns.values():
        if isinstance(found, Jagged):
            return len(found)
        if isinstance(found, Deduplicated):
            return len(found.inverse)
        shape: Sequence[int] = getattr(found, "shape", ())  # also of what describes a tensor
        if len(shape) > 0:
            return int(shape[0])
    return 0


def _described(found: Any) -> str:
    if not isinstance(found, torch.Tensor):
        return repr(found)
    shape = ", ".join(str(length) for length in found.shape)
    device = "" if found.device.type == "cpu" else f" on {found.device}"
    return f"{str(found.dtype).removeprefix('torch.')}[{shape}]{device}"


def _refuse(batches: Sequence[Batch], **_: object) -> None:
    """Refuses to let a DataLoader stack batches, which would add a dimension.

    Raises:
        Invalid: always.
    """
    raise errors.Invalid(
        f"the DataLoader would stack {len(batches)} batches, but each is already a whole batch",
        remedy="make it with batch_size=None",
    )


default_collate_fn_map[Batch] = _refuse  # the documented way to extend `default_collate`
