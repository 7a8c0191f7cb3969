"""Lists: the values of all rows in one tensor, with the offset of each row."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Self

import torch


# Not frozen: Lightning converts the tensors of a dataclass by setting its fields in a copy.
@dataclass(eq=False, repr=False)
class Jagged:
    """One list per row: row i is values[offsets[i] : offsets[i + 1]].

    Attributes:
        values: the values of all lists, concatenated; one-dimensional.
        offsets: one more than the number of rows; the first is 0, the last is len(values). int32, or int64 for
            Arrow's large lists.
    """

    values: torch.Tensor
    offsets: torch.Tensor

    @property
    def lengths(self) -> torch.Tensor:
        """The number of values in each row, in the type of the offsets."""
        return self.offsets[1:] - self.offsets[:-1]

    def take(self, rows: torch.Tensor) -> Jagged:
        """The lists of these rows, in this order; rows can repeat.

        Offsets keep their type.

        Raises:
            ValueError: the lists have too many values for the type of the offsets.
        """
        lengths = self.lengths.index_select(0, rows)
        ends = lengths.cumsum(0, dtype=torch.int64)
        if len(ends) and ends[-1] > torch.iinfo(self.offsets.dtype).max:
            raise ValueError(f"lists of {int(ends[-1])} values in all; take fewer rows at once")
        offsets = torch.zeros(len(rows) + 1, dtype=self.offsets.dtype, device=self.offsets.device)
        offsets[1:] = ends
        # Each value moves by the same distance as the start of its list.
        moved = self.offsets[:-1].index_select(0, rows) - offsets[:-1]
        places = torch.repeat_interleave(moved, lengths)
        places += torch.arange(len(places), dtype=places.dtype, device=places.device)
        return Jagged(self.values.index_select(0, places), offsets)

    def nested(self) -> torch.Tensor:
        """The lists as a nested tensor of layout torch.jagged, which shares the values."""
        return torch.nested.nested_tensor_from_jagged(self.values, self.offsets.to(torch.int64))

    def padded(self, length: int, fill: float = 0) -> torch.Tensor:
        """The first values of each list as a row of a matrix, shape [rows, length].

        Shorter lists are padded at the end. To keep the last values of longer lists, let the server cut them.
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
        """The same lists in pinned memory."""
        return self.replaced(lambda tensor: tensor.pin_memory())

    def record_stream(self, stream: torch.Stream) -> None:
        """Records that a stream uses all GPU tensors, so that their memory is not reused too early."""
        for tensor in self.tensors():
            if tensor.is_cuda:
                tensor.record_stream(stream)

    def tensors(self) -> Iterator[torch.Tensor]:
        """Values and offsets."""
        yield self.values
        yield self.offsets

    def replaced(self, move: Callable[[torch.Tensor], torch.Tensor]) -> Self:
        """A copy with both tensors replaced by the result of `move`."""
        return type(self)(move(self.values), move(self.offsets))

    def __len__(self) -> int:
        """The number of rows."""
        return len(self.offsets) - 1

    def __iter__(self) -> Iterator[torch.Tensor]:
        """The values of each row; for inspection, not for training."""
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
