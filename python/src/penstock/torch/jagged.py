"""Lists: the values of all rows in one tensor, and where each row's begin."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Self

import torch


@dataclass(frozen=True, eq=False, repr=False)
class Jagged:
    """A list for each row: values[offsets[i] : offsets[i + 1]] is row i's.

    Attributes:
        values: of all lists, one after the other; one dimension.
        offsets: one more than there are rows; the first is 0, the last is len(values). int32, or
            int64 where Arrow's lists are large.
    """

    values: torch.Tensor
    offsets: torch.Tensor

    @property
    def lengths(self) -> torch.Tensor:
        """How many values each row has, in the type of the offsets."""
        return self.offsets[1:] - self.offsets[:-1]

    def take(self, rows: torch.Tensor) -> Jagged:
        """The lists of these rows, in this order; any row any number of times.

        Offsets stay in their type.

        Raises:
            ValueError: the lists have more values than such offsets can say.
        """
        lengths = self.lengths.index_select(0, rows)
        ends = lengths.cumsum(0, dtype=torch.int64)
        if len(ends) and ends[-1] > torch.iinfo(self.offsets.dtype).max:
            raise ValueError(f"lists of {int(ends[-1])} values in all; take fewer rows at once")
        offsets = torch.zeros(len(rows) + 1, dtype=self.offsets.dtype, device=self.offsets.device)
        offsets[1:] = ends
        # Each value lies as far from its place in `values` as its list's start from that list's.
        moved = self.offsets[:-1].index_select(0, rows) - offsets[:-1]
        places = torch.repeat_interleave(moved, lengths)
        places += torch.arange(len(places), dtype=places.dtype, device=places.device)
        return Jagged(self.values.index_select(0, places), offsets)

    def nested(self) -> torch.Tensor:
        """The lists as a nested tensor of layout torch.jagged, which shares the values."""
        return torch.nested.nested_tensor_from_jagged(self.values, self.offsets.to(torch.int64))

    def padded(self, length: int, fill: float = 0) -> torch.Tensor:
        """The first values of each list as a row of a rectangle, shape [rows, length].

        Shorter lists are filled up behind their values. For the last values of
        longer lists, ask the server for those.
        """
        places = torch.arange(length, device=self.offsets.device)
        inside = places < self.lengths[:, None]
        out = self.values.new_full((len(self), length), fill)
        at = self.offsets[:-1, None] + places
        out[inside] = self.values[at[inside]]
        return out

    def to(self, device: torch.device | str | int, non_blocking: bool = False) -> Self:
        """The same lists on a device."""
        return self.replaced(lambda tensor: tensor.to(device, non_blocking=non_blocking))

    def pin_memory(self) -> Self:
        """The same lists in memory that a GPU copies from by itself."""
        return self.replaced(lambda tensor: tensor.pin_memory())

    def record_stream(self, stream: torch.Stream) -> None:
        """Says of all tensors on a GPU that a stream uses them, so that their memory is not reused before."""
        for tensor in self.tensors():
            if tensor.is_cuda:
                tensor.record_stream(stream)

    def tensors(self) -> Iterator[torch.Tensor]:
        """Values and offsets."""
        yield self.values
        yield self.offsets

    def replaced(self, move: Callable[[torch.Tensor], torch.Tensor]) -> Self:
        """Lists with both tensors replaced by what `move` gives."""
        return type(self)(move(self.values), move(self.offsets))

    def __len__(self) -> int:
        """The number of rows."""
        return len(self.offsets) - 1

    def __iter__(self) -> Iterator[torch.Tensor]:
        """The values of each row; for looking, not for training."""
        return (self[row] for row in range(len(self)))

    def __getitem__(self, row: int) -> torch.Tensor:
        """The values of one row."""
        if not -len(self) <= row < len(self):
            raise IndexError(f"row {row} of {len(self)}")
        row %= len(self)
        return self.values[self.offsets[row] : self.offsets[row + 1]]

    def __repr__(self) -> str:
        return f"Jagged({len(self)} rows, {len(self.values)} values, {_dtype(self.values)})"


def _dtype(tensor: torch.Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")
