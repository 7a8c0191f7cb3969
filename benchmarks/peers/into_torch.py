"""Any contender's batches as tensors: all of them by the same converter."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Generic

import pyarrow as pa

from peers import contender
from peers.contender import Contender
from penstock.torch import Batch, Converter

FLOATS = [f"f{index}" for index in range(10)]
STAGED_FLOATS = [f"u{index}" for index in range(8)]

# Training columns are never null in T; a request in a hundred has no staging row. Floats become NaN.
_RULES: dict[str, Any] = {
    "user_id": 0,
    "history": "empty",
    "history[]": "error",
    "country": {"fill": "unknown"},
}


def rules(schema: pa.Schema) -> dict[str, Any]:
    """The rules of a converter for those columns of T that are read."""
    names = set(_plain_names(schema))
    others = dict.fromkeys(names, "error")
    nulls = {**others, **{name: rule for name, rule in _RULES.items() if name.removesuffix("[]") in names}}
    for name in (*FLOATS, *STAGED_FLOATS):
        nulls.pop(name, None)  # NaN
    return {"nulls": nulls, **({"hash": {"country": 1000}} if "country" in names else {})}


def _plain_names(schema: pa.Schema) -> list[str]:
    """The names of columns, those within indexed ones too."""
    names: list[str] = []
    for field in schema:
        inner = field.type.value_type if pa.types.is_dictionary(field.type) else None
        names += [part.name for part in inner] if inner is not None else [field.name]
    return names


class IntoTorch(Generic[contender.Batch]):
    """Gives what another contender gives, with its tensors, which are made within the timed pass."""

    def __init__(self, inner: Contender[contender.Batch]) -> None:
        self._inner = inner
        self._converter: Converter | None = None

    def stream(self) -> Iterator[tuple[contender.Batch, list[Batch]]]:
        """Read, and convert each batch when it comes."""
        for batch in self._inner.stream():
            yield batch, [self._converted(part) for part in self._inner.arrow(batch)]

    def _converted(self, batch: pa.RecordBatch) -> Batch:
        if self._converter is None:
            self._converter = Converter(batch.schema, **rules(batch.schema))
        return self._converter(batch)

    def rows(self, batch: tuple[contender.Batch, list[Batch]]) -> int:
        """The rows of the tensors."""
        return sum(tensors.rows for tensors in batch[1])

    def arrow(self, batch: tuple[contender.Batch, list[Batch]]) -> Iterable[pa.RecordBatch]:
        """What the tensors were made of."""
        return self._inner.arrow(batch[0])


def main(make: Callable[[contender.Settings], Contender[contender.Batch]]) -> None:
    """Make the contender, verify and measure it with its tensors."""

    def into_torch(settings: contender.Settings) -> IntoTorch[contender.Batch]:
        return IntoTorch(make(settings))

    contender.main(into_torch, contender.joined)
