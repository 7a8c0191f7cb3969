"""What a training step gets: tensors by column name, and where the stream stood."""

from __future__ import annotations

import copy
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
    """A dict of tensors, one entry for each column.

    A value is a `torch.Tensor` with one row for each row of the batch, a `Jagged` of
    lists, or, of an indexed batch, a `Deduplicated` with the columns of a staging table.

    Tensors are views of the memory that the batch came in, which they keep alive.
    Writing into one changes nothing but this batch.

    A DataLoader, its workers and its pinning thread keep batches what they are,
    attributes included; so do `copy.copy` and pickle.

    Attributes:
        rows: the number of rows.
        cursor: where the stream stood after this batch; None if nobody said.
        step: the number of this batch's step; None if nobody said.
    """

    def __init__(
        self,
        columns: Mapping[str, Any] | Iterable[tuple[str, Any]] = (),
        *,
        rows: int,
        cursor: Cursor | list[Cursor] | None = None,
        step: int | None = None,
    ) -> None:
        super().__init__(columns)
        self.rows = rows
        self.cursor = cursor
        self.step = step

    def to(self, device: torch.device | str | int, non_blocking: bool = False) -> Self:
        """The same batch on a device."""
        return self.replaced(lambda found: found.to(device, non_blocking=non_blocking))

    def pin_memory(self) -> Self:
        """The same batch in memory that a GPU copies from by itself, as DataLoader's `pin_memory` asks.

        Raises:
            RuntimeError: torch finds no GPU.
        """
        return self.replaced(lambda found: found.pin_memory())

    def record_stream(self, stream: torch.Stream) -> None:
        """Says of all tensors on a GPU that a stream uses them, so that their memory is not reused before."""
        for tensor in self.tensors():
            if tensor.is_cuda:
                tensor.record_stream(stream)

    def expand(self) -> Self:
        """The plain batch of an indexed one: each `Deduplicated` replaced by its columns, in every row."""
        columns: dict[str, Any] = {}
        for name, found in self.items():
            columns.update(found.expand() if isinstance(found, Deduplicated) else {name: found})
        return self._with(columns)

    def to_kjt(self, keys: Sequence[str], dtype: torch.dtype = torch.int64) -> KeyedJaggedTensor:
        """Columns as one `torchrec.KeyedJaggedTensor`, copied once, into values of one type.

        A key is the name of a column of numbers, of lists or of fixed-size lists, also of
        one in a `Deduplicated`. Where one of them is, the tensor has its distinct rows alone,
        `stride_per_key_per_rank` and inverse indices, with which TorchRec's modules
        embed each distinct row once and give as many rows as the batch has.

        Raises:
            ImportError: torchrec is not installed.
            KeyError: the batch has no such column.
            TypeError: a column's values have no place in the type.
        """
        return keyed.jagged(self, keys, dtype)

    def tensors(self) -> Iterator[torch.Tensor]:
        """All tensors, those inside of other values included."""
        for found in self.values():
            if isinstance(found, (Jagged, Deduplicated)):
                yield from found.tensors()
            elif isinstance(found, torch.Tensor):
                yield found

    def copy(self) -> Self:
        """The same entries and attributes in a batch of its own."""
        return copy.copy(self)

    def replaced(self, move: Callable[[Any], Any]) -> Self:
        """A batch of the same form, with each tensor, `Jagged` and `Deduplicated` replaced by what `move` gives."""
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


def _described(found: Any) -> str:
    if not isinstance(found, torch.Tensor):
        return repr(found)
    shape = ", ".join(str(length) for length in found.shape)
    device = "" if found.device.type == "cpu" else f" on {found.device}"
    return f"{str(found.dtype).removeprefix('torch.')}[{shape}]{device}"


def _refuse(batches: Sequence[Batch], **_: object) -> None:
    """Says so where a DataLoader would stack batches, which then have a dimension that nobody meant.

    Raises:
        Invalid: always.
    """
    raise errors.Invalid(
        f"the DataLoader would stack {len(batches)} batches, and each is a whole one",
        remedy="make it with batch_size=None",
    )


default_collate_fn_map[Batch] = _refuse  # as torch's documentation of `default_collate` has it
