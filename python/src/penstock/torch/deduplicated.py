"""Columns that come once for each distinct row, and where the rows of the batch find them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, KeysView, Mapping
from dataclasses import dataclass
from typing import Any, Self

import torch

from penstock.torch.jagged import Jagged


@dataclass(frozen=True, eq=False, repr=False)
class Deduplicated:
    """The columns of a staging table, or of requests, in an indexed batch: each distinct row once.

    What depends on these columns alone is computed once for each distinct row,
    and put into the rows of the batch as late as possible:

        history = batch["history"]
        user = history.spread(embed(history["last_pins"]))  # one for each row of the batch

    Attributes:
        columns: by name a tensor or a `Jagged`, with one row for each distinct row.
        inverse: for each row of the batch, which distinct row is its; int32.
        rows: the number of distinct rows.
    """

    columns: Mapping[str, Any]
    inverse: torch.Tensor
    rows: int

    def spread(self, values: torch.Tensor) -> torch.Tensor:
        """Puts what was computed for each distinct row into the rows of the batch."""
        if len(values) != self.rows:
            raise ValueError(f"{len(values)} values for {self.rows} distinct rows")
        return values.index_select(0, self.inverse)

    def expand(self) -> dict[str, Any]:
        """All columns in the rows of the batch."""
        return {
            name: column.take(self.inverse) if isinstance(column, Jagged) else self.spread(column)
            for name, column in self.columns.items()
        }

    def to(self, device: torch.device | str | int, non_blocking: bool = False) -> Self:
        """The same columns on a device."""
        return self.replaced(lambda found: found.to(device, non_blocking=non_blocking))

    def pin_memory(self) -> Self:
        """The same columns in memory that a GPU copies from by itself."""
        return self.replaced(lambda found: found.pin_memory())

    def record_stream(self, stream: torch.Stream) -> None:
        """Says of all tensors on a GPU that a stream uses them, so that their memory is not reused before."""
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
        """Columns and inverse replaced by what `move` gives."""
        columns = {name: move(column) for name, column in self.columns.items()}
        return type(self)(columns, move(self.inverse), self.rows)

    def keys(self) -> KeysView[str]:
        """The names of the columns."""
        return self.columns.keys()

    def __contains__(self, name: object) -> bool:
        return name in self.columns

    def __getitem__(self, name: str) -> Any:
        """A column, with one row for each distinct row."""
        return self.columns[name]

    def __repr__(self) -> str:
        return f"Deduplicated({self.rows} for {len(self.inverse)} rows: {', '.join(self.columns)})"
