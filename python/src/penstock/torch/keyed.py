"""Columns of a batch as a KeyedJaggedTensor of TorchRec."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch

from penstock.torch.deduplicated import Deduplicated
from penstock.torch.jagged import Jagged

if TYPE_CHECKING:
    from torchrec import KeyedJaggedTensor


def jagged(columns: Mapping[str, Any], keys: Sequence[str], dtype: torch.dtype) -> KeyedJaggedTensor:
    """Implements `Batch.to_kjt`."""
    try:
        from torchrec import KeyedJaggedTensor
    except ModuleNotFoundError as missing:
        if missing.name != "torchrec":
            raise
        raise ModuleNotFoundError(
            "to_kjt needs TorchRec: pip install 'penstock[torchrec]'",
            name="torchrec",
        ) from missing
    if not keys:
        raise ValueError("to_kjt needs at least one column name")
    found = [_find(columns, key) for key in keys]
    values, lengths = [], []
    for key, (column, _) in zip(keys, found, strict=True):
        value, length = _lists(column)
        if not torch.can_cast(value.dtype, dtype):
            raise TypeError(f"column {key!r} has type {value.dtype}, which cannot be converted to {dtype}")
        _refuse_wider(key, value, dtype)
        values.append(value)
        lengths.append(length)
    total = sum(map(len, values))
    together = torch.empty(total, dtype=dtype, device=values[0].device)
    torch.cat(values, out=together)
    if all(inverse is None for _, inverse in found):
        return KeyedJaggedTensor(list(keys), together, lengths=torch.cat(lengths))
    strides = [[len(length)] for length in lengths]
    return KeyedJaggedTensor(
        list(keys),
        together,
        lengths=torch.cat(lengths),
        stride_per_key_per_rank=strides,
        inverse_indices=(list(keys), _inverses([inverse for _, inverse in found])),
    )


def _find(columns: Mapping[str, Any], key: str) -> tuple[Any, torch.Tensor | None]:
    """Returns a column by name, with the inverse indices of the `Deduplicated` that contains it."""
    if key in columns and not isinstance(columns[key], Deduplicated):
        return columns[key], None
    for found in columns.values():
        if isinstance(found, Deduplicated) and key in found:
            return found[key], found.inverse
    raise KeyError(key)


def _lists(column: Any) -> tuple[torch.Tensor, torch.Tensor]:
    """Values and int32 lengths of a column; a number counts as a list of one."""
    if isinstance(column, Jagged):
        return column.values, column.lengths.to(torch.int32)
    width = column.shape[1] if column.dim() == 2 else 1
    lengths = torch.full((len(column),), width, dtype=torch.int32, device=column.device)
    return column.reshape(-1), lengths


def _refuse_wider(key: str, values: torch.Tensor, dtype: torch.dtype) -> None:
    """Refuses integers that a narrower type would change."""
    if dtype.is_floating_point or values.dtype == torch.bool or not len(values):
        return
    most, least = torch.iinfo(dtype).max, torch.iinfo(dtype).min
    if torch.iinfo(values.dtype).max > most or torch.iinfo(values.dtype).min < least:
        low, high = (int(end) for end in torch.aminmax(values))
        if low < least or high > most:
            raise TypeError(f"column {key!r} contains {high if high > most else low}, which exceeds {dtype}")


def _inverses(found: Sequence[torch.Tensor | None]) -> torch.Tensor:
    """The inverse indices of all keys, shape [keys, rows]; plain columns use the identity."""
    known = next(inverse for inverse in found if inverse is not None)
    out = torch.empty((len(found), len(known)), dtype=torch.int64, device=known.device)
    for row, inverse in zip(out, found, strict=True):
        if inverse is None:
            torch.arange(len(known), out=row)
        else:
            row.copy_(inverse)
    return out
