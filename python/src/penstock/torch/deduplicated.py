"""Columns stored once per distinct row, with the indices of the batch's rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, KeysView, Mapping
from dataclasses import dataclass
from typing import Any, Self

import torch

from penstock.torch.jagged import Jagged


# Not frozen: Lightning converts the tensors of a dataclass by setting its fields in a copy.
@dataclass(eq=False, repr=False)
class Deduplicated:
    """The columns of a staging table, or of requests, in an indexed batch: each distinct row once.

    Compute values that only depend on these columns once per distinct row, and expand them to the batch's rows as late
    as possible:

        history = batch["history"]
        user = history.spread(embed(history["last_pins"]))  # one per row of the batch

    Attributes:
        columns: by name, a tensor or a `Jagged` with one row per distinct row.
        inverse: for each row of the batch, the index of its distinct row; int32.
        rows: the number of distinct rows.
    """

    columns: Mapping[str, Any]
    inverse: torch.Tensor
    rows: int

    def spread(self, values: torch.Tensor) -> torch.Tensor:
        """Expands values computed per distinct row to the rows of the batch."""
        if len(values) != self.rows:
            raise ValueError(f"{len(values)} values for {self.rows} distinct rows")
        return values.index_select(0, self.inverse)

    def expand(self) -> dict[str, Any]:
        """All columns, expanded to the rows of the batch."""
        return {
            name: column.take(self.inverse) if isinstance(column, Jagged) else self.spread(column)
            for name, column in self.columns.items()
        }

    def to(self, device: torch.device | str | int, non_blocking: bool = False) -> Self:
        """The same columns on a device."""
        return self.replaced(lambda found: found.to(device, non_blocking=non_blocking))

    def pin_memory(self) -> Self:
        """The same columns in pinned memory."""
        return self.replaced(lambda found: found.pin_memory())

    def record_stream(self, stream: torch.Stream) -> None:
        """Records that a stream uses all GPU tensors, so that their memory is not reused too early."""
        for tensor in self.tensors():
            if tensor.is_cuda:
                tensor.record_stream(stream)

    def tensors(self) -> Iterator[torch.Tensor]:
        """The tensors of all columns, then the inverse."""
        for column in self.columns.values():
            if isinstance(column, Jagged):
                yield from column.tensors()
            else:
                yield column
        yield self.inverse

    def replaced(self, move: Callable[[Any], Any]) -> Self:
        """A copy with columns and inverse replaced by the result of `move`."""
        columns = {name: move(column) for name, column in self.columns.items()}
        return type(self)(columns, move(self.inverse), self.rows)

    def keys(self) -> KeysView[str]:
        """The names of the columns."""
        return self.columns.keys()

    def __contains__(self, name: object) -> bool:
        return name in self.columns

    def __getitem__(self, name: str) -> Any:
        """A column, with one row per distinct row."""
        return self.columns[name]

    def __repr__(self) -> str:
        return f"Deduplicated({self.rows} for {len(self.inverse)} rows: {', '.join(self.columns)})"
